//! An HTTP/2 connection, which many exchanges share and a task of its own polls.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use http::{Request, Response};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::socket::{Heard, Listening, Socket};
use crate::proxy::{error::Error, lock, payload::Payload};

type Multiplexed = http2::Connection<TokioIo<Listening>, Payload, TokioExecutor>;

/// An HTTP/2 connection.
pub struct Shared {
    pub sender: http2::SendRequest<Payload>,
    /// Asked for how many streams upstream allows at once; polled by a task of its own. Nothing once it has ended: as long as it is there, requests
    /// wait for it.
    connection: Arc<Mutex<Option<Multiplexed>>>,
    heard: Heard,
    streams: Arc<AtomicUsize>,
    used: bool,
    pub opened_at: Instant,
    pub used_at: Instant,
}

impl Shared {
    pub async fn open(socket: Socket) -> Result<Shared, Error> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30))).keep_alive_timeout(Duration::from_secs(20));
        // Windows large enough that an upload or answer of megabytes is not held up by round trips.
        builder.initial_stream_window_size(1 << 20).initial_connection_window_size(4 << 20);
        // Until upstream has said how many streams it allows, one: a stream too many waits unseen for another to end.
        builder.initial_max_send_streams(1);
        let (socket, heard) = Listening::to(socket);
        let (sender, connection) = builder.handshake::<_, Payload>(socket).await.map_err(|_| Error::Closed)?;
        let connection = Arc::new(Mutex::new(Some(connection)));
        let polled = connection.clone();
        tokio::spawn(poll_fn(move |cx| {
            let mut connection = lock(&polled);
            let end = connection.as_mut().map_or(Poll::Ready(()), |connection| Pin::new(connection).poll(cx).map(drop));
            if end.is_ready() {
                *connection = None;
            }
            end
        }));
        let now = Instant::now();
        Ok(Shared { sender, connection, heard, streams: Arc::default(), used: false, opened_at: now, used_at: now })
    }

    /// A stream, unless all that upstream allows are taken: answers last minutes, a request must not wait for one to end.
    pub fn stream(&mut self) -> Option<Stream> {
        let most = lock(&self.connection).as_ref().map_or(0, Multiplexed::current_max_send_streams);
        if self.streams.load(Ordering::Relaxed) >= most {
            return None;
        }
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.used_at = Instant::now();
        let used = std::mem::replace(&mut self.used, true);
        let seat = Arc::new(Seat(self.streams.clone()));
        Some(Stream { sender: self.sender.clone(), seat, heard: self.heard.clone(), used })
    }

    pub fn is_busy(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }
}

/// A stream of an HTTP/2 connection, to be.
pub struct Stream {
    sender: http2::SendRequest<Payload>,
    seat: Arc<Seat>,
    pub heard: Heard,
    /// The connection carried an exchange before.
    pub used: bool,
}

impl Stream {
    pub fn send(&mut self, mut request: Request<Payload>) -> impl Future<Output = hyper::Result<Response<Incoming>>> {
        request.body_mut().hold(self.seat.clone());
        self.heard.ask();
        self.sender.send_request(request)
    }
}

/// One of the streams that a connection may have: taken until both the request and its answer are over.
pub struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
