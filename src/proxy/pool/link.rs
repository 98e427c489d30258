//! An HTTP/1 connection, which belongs to one exchange at a time and is polled by it.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;

use super::socket::{Heard, Listening, Socket};
use crate::proxy::{error::Error, headers::MOST_LINES, payload::Payload, repoll::quietly};

/// An HTTP/1 connection.
pub struct Link {
    sender: http1::SendRequest<Payload>,
    /// Nothing once it has ended.
    connection: Option<http1::Connection<TokioIo<Listening>, Payload>>,
    pub heard: Heard,
    /// It carried an exchange before, so upstream may have closed it without our knowing.
    pub used: bool,
    pub idle_since: Instant,
}

impl Link {
    pub async fn open(socket: Socket) -> Result<Link, Error> {
        let (socket, heard) = Listening::to(socket);
        let (sender, connection) =
            http1::Builder::new().preserve_header_case(true).max_headers(MOST_LINES).handshake(socket).await.map_err(|_| Error::Closed)?;
        Ok(Link { sender, connection: Some(connection), heard, used: false, idle_since: Instant::now() })
    }

    pub fn send(&mut self, request: Request<Payload>) -> impl Future<Output = hyper::Result<Response<Incoming>>> {
        self.heard.ask();
        // Whoever had the connection last would be woken; it is polled here.
        let answer = quietly(|| self.sender.send_request(request));
        let connection = &mut self.connection;
        // Not `async` itself, so that the request is not carried along while its answer is waited for.
        async move {
            let mut answer = pin!(answer);
            poll_fn(|cx| {
                let ended = connection.as_mut().is_none_or(|connection| Pin::new(connection).poll(cx).is_ready());
                // The answer comes by way of the connection, which was just polled: there is nobody to wake.
                let unwoken = &mut Context::from_waker(Waker::noop());
                let polled = answer.as_mut().poll(unwoken);
                if ended && !matches!(&polled, Poll::Ready(Ok(answer)) if answer.status() == StatusCode::SWITCHING_PROTOCOLS) {
                    // Dropping it tells whoever still waits for something. After an upgrade it holds the socket.
                    *connection = None;
                    return if polled.is_pending() { answer.as_mut().poll(unwoken) } else { polled };
                }
                polled
            })
            .await
        }
    }

    /// Lets the connection read and write.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(cx).is_ready()
        {
            self.connection = None;
        }
    }

    pub fn is_open(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll(cx);
        self.connection.is_some() && self.sender.is_ready()
    }

    /// The bare socket after an upgrade, and what upstream has already said on it.
    pub fn into_upgraded(mut self) -> Option<(Socket, Bytes)> {
        self.connection.take().map(|connection| {
            let parts = connection.into_parts();
            (parts.io.into_inner().socket, parts.read_buf)
        })
    }
}
