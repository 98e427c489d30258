//! The body of a request on its way upstream.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{lock, pool::Seat};

/// What is sent. A whole body can be sent again at no cost; a streamed one only while nothing of it was taken.
pub enum Payload {
    Empty,
    Whole(Bytes),
    Stream(Upload),
}

impl Payload {
    /// A body that is passed on as it comes.
    pub fn stream(incoming: Incoming) -> Payload {
        match incoming.is_end_stream() {
            true => Payload::Empty,
            false => Payload::Stream(Upload {
                track: Arc::new(Track { frames: AtomicU64::new(0), body: Mutex::new(Some(incoming)) }),
                seat: None,
            }),
        }
    }

    /// Keeps `seat` for as long as the body is on its way, which may be longer than the answer is.
    pub fn hold(&mut self, taken: Arc<Seat>) {
        if let Payload::Stream(upload) = self {
            upload.seat = Some(taken);
        }
    }

    /// What becomes of an upload. A whole body is not held by this: it need not outlive its sending.
    pub fn track(&self) -> Option<Arc<Track>> {
        match self {
            Payload::Stream(upload) => Some(upload.track.clone()),
            _ => None,
        }
    }

    /// Means to send the same body once more, should the connection turn out to be dead.
    pub fn again(&self) -> Again {
        match self {
            Payload::Empty => Again::Empty,
            Payload::Whole(bytes) => Again::Whole(bytes.clone()),
            Payload::Stream(upload) => Again::Stream(upload.track.clone()),
        }
    }
}

/// A body that streams from the agent.
pub struct Upload {
    track: Arc<Track>,
    seat: Option<Arc<Seat>>,
}

/// What happened to an upload, known also after hyper dropped it.
pub struct Track {
    /// Frames that went through.
    frames: AtomicU64,
    /// Nothing once it was stopped, or dropped after something was taken from it.
    body: Mutex<Option<Incoming>>,
}

impl Track {
    /// Grows as long as the agent is still sending.
    pub fn progress(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Ends the upload, wherever it is: its answer has ended. The agent's connection need not wait for upstream to read on.
    pub fn stop(&self) {
        *self.body() = None;
    }

    fn body(&self) -> MutexGuard<'_, Option<Incoming>> {
        lock(&self.body)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.track.frames.load(Ordering::Relaxed) > 0 {
            *self.track.body() = None;
        }
    }
}

/// An upload that nobody waits for any more.
#[derive(Debug)]
struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the answer ended before the upload did")
    }
}

impl std::error::Error for Stopped {}

/// Means to send a body once more.
pub enum Again {
    Empty,
    Whole(Bytes),
    Stream(Arc<Track>),
}

impl Again {
    /// The body once more, if that is possible.
    pub fn payload(self) -> Option<Payload> {
        match self {
            Again::Empty => Some(Payload::Empty),
            Again::Whole(bytes) => Some(Payload::Whole(bytes)),
            Again::Stream(track) if track.frames.load(Ordering::Relaxed) > 0 => None,
            Again::Stream(track) => track.body().take().map(Payload::stream),
        }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        match this {
            Payload::Empty => Poll::Ready(None),
            Payload::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = Payload::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Payload::Stream(upload) => {
                let mut body = upload.track.body();
                let Some(incoming) = &mut *body else { return Poll::Ready(Some(Err(Box::new(Stopped)))) };
                let frame = Pin::new(incoming).poll_frame(cx);
                if frame.is_ready() {
                    upload.track.frames.fetch_add(1, Ordering::Relaxed);
                }
                frame.map_err(Into::into)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Payload::Empty => true,
            Payload::Whole(bytes) => bytes.is_empty(),
            Payload::Stream(upload) => upload.track.body().as_ref().is_some_and(Body::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Payload::Empty => SizeHint::with_exact(0),
            Payload::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Payload::Stream(upload) => upload.track.body().as_ref().map(Body::size_hint).unwrap_or_default(),
        }
    }
}
