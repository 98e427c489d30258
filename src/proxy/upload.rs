//! Reads the body of a request.

use std::{
    future::poll_fn,
    pin::Pin,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{error::Error, payload::Payload};

/// Bodies that are not read are collected up to this size, so that they can be sent again on a dead connection.
const SMALL: u64 = 256 << 10;
/// Room that is made on the word of whoever sends, in bytes; more is made as more comes.
const AT_ONCE: u64 = 1 << 20;
/// How long the rest of a body that was refused is read, so that the agent comes to read the refusal.
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// The whole body, in one piece. Nothing of a body over `cap` is kept, and no more of it is read than it takes to know. `hold` is asked for room for as
/// many bytes as have come, whatever was announced: an announcement costs its sender nothing.
pub async fn collect(
    upload: &mut Incoming,
    cap: u64,
    idle: Duration,
    mut hold: impl FnMut(u64) -> Result<(), Error>,
) -> Result<Bytes, Error> {
    let expected = upload.size_hint();
    if expected.lower() > cap {
        return Err(Error::TooLarge(cap));
    }
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    loop {
        match timeout(idle, frame(upload)).await.map_err(|_| Error::RequestTimeout)? {
            None => return Ok(if whole.is_empty() { first } else { whole.freeze() }),
            Some(Err(_)) => return Err(Error::AgentGone),
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                let so_far = (first.len() + whole.len() + data.len()) as u64;
                if so_far > cap {
                    return Err(Error::TooLarge(cap));
                }
                hold(so_far)?;
                // Most requests come in one read and need no copy. The others get room for all of it at once, unless they only say that they are large.
                if first.is_empty() && whole.is_empty() {
                    first = data;
                } else {
                    if whole.is_empty() {
                        whole.reserve(expected.exact().unwrap_or(2 * so_far).min(AT_ONCE).max(so_far) as usize);
                        whole.extend_from_slice(&std::mem::take(&mut first));
                    }
                    whole.extend_from_slice(&data);
                }
                // Who asks for more wakes the connection, though there is none.
                if upload.is_end_stream() {
                    return Ok(if whole.is_empty() { first } else { whole.freeze() });
                }
            }
        }
    }
}

/// A body that passes unread.
pub async fn pass(mut upload: Incoming, idle: Duration) -> Result<Payload, Error> {
    match upload.size_hint().exact() {
        Some(0) => Ok(Payload::Empty),
        Some(length) if length <= SMALL => collect(&mut upload, SMALL, idle, |_| Ok(())).await.map(Payload::Whole),
        _ => Ok(Payload::stream(upload)),
    }
}

/// Reads on, and forgets. Many agents do not look for an answer before they have sent everything, and a connection that is closed under
/// unread bytes takes the answer with it.
pub async fn discard(mut upload: Incoming) {
    let until = Instant::now() + DISCARD_TIME;
    while let Ok(Some(Ok(_))) = tokio::time::timeout_at(until.into(), frame(&mut upload)).await {}
}

async fn frame(upload: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
    poll_fn(|cx| Pin::new(&mut *upload).poll_frame(cx)).await
}
