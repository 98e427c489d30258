//! The body of a request on its way upstream.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

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
            false => Payload::Stream(Upload { incoming: Some(incoming), track: Arc::default() }),
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
    incoming: Option<Incoming>,
    track: Arc<Track>,
}

/// What happened to an upload, known also after hyper dropped it.
#[derive(Default)]
pub struct Track {
    /// Frames that went through.
    frames: AtomicU64,
    /// The body itself, if it was dropped before anything was taken from it.
    untouched: Mutex<Option<Incoming>>,
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.track.frames.load(Ordering::Relaxed) == 0 {
            *self.track.untouched.lock().unwrap_or_else(PoisonError::into_inner) = self.incoming.take();
        }
    }
}

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
            Again::Stream(track) => track.untouched.lock().unwrap_or_else(PoisonError::into_inner).take().map(Payload::stream),
        }
    }

    /// Grows as long as the agent is still sending.
    pub fn progress(&self) -> u64 {
        match self {
            Again::Stream(track) => track.frames.load(Ordering::Relaxed),
            _ => 0,
        }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        match this {
            Payload::Empty => Poll::Ready(None),
            Payload::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = Payload::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Payload::Stream(upload) => {
                let Some(incoming) = &mut upload.incoming else { return Poll::Ready(None) };
                let frame = Pin::new(incoming).poll_frame(cx);
                if frame.is_ready() {
                    upload.track.frames.fetch_add(1, Ordering::Relaxed);
                }
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Payload::Empty => true,
            Payload::Whole(bytes) => bytes.is_empty(),
            Payload::Stream(upload) => upload.incoming.as_ref().is_none_or(Body::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Payload::Empty => SizeHint::with_exact(0),
            Payload::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Payload::Stream(upload) => upload.incoming.as_ref().map(Body::size_hint).unwrap_or_default(),
        }
    }
}
