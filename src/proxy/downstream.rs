//! The agent's side of an exchange.
//!
//! An exchange is one future from the first byte of a request to the last byte of its answer. It speaks through a [`Down`]: once the head,
//! then frames. Hyper polls it, first as a service until there is a head, then as a body; so nothing runs in the background, a slow agent
//! slows the exchange (a frame waits until it was taken), and an agent that leaves drops it, with everything it holds open upstream.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io, mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::TryFutureExt;
use http::{Response, StatusCode, response::Parts};
use http_body::{Body, Frame};

use super::{lock, settlement::Settlement};

/// Ends an answer so that the agent sees it break.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

/// One exchange, from request to the end of its answer, or to where it goes on as another future: an answer streams for minutes, and what it takes to get
/// one is several times as large as what it takes to pass it on.
pub struct Run(Pin<Box<dyn Future<Output = Result<Option<Run>, Broken>> + Send>>);

impl Run {
    pub fn new(exchange: impl Future<Output = Result<Option<Run>, Broken>> + Send + 'static) -> Run {
        Run(Box::pin(exchange))
    }

    /// Goes on to the end.
    pub fn last(exchange: impl Future<Output = Result<(), Broken>> + Send + 'static) -> Run {
        // A future that awaits another one holds it twice.
        Run::new(exchange.map_ok(|()| None))
    }

    /// Runs on, as whatever it has become.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        loop {
            match self.0.as_mut().poll(cx) {
                Poll::Ready(Ok(Some(next))) => *self = next,
                polled => return polled.map_ok(|_| ()),
            }
        }
    }
}

/// Where an exchange puts its answer.
#[derive(Clone, Default)]
pub struct Down(Arc<Mutex<Slot>>);

#[derive(Default)]
struct Slot {
    head: Option<Parts>,
    began: bool,
    frame: Option<Frame<Bytes>>,
    rest: Option<Settlement>,
}

impl Down {
    /// Whether a head went down; there is no second one.
    pub fn began(&self) -> bool {
        self.slot().began
    }

    pub fn begin(&self, head: Parts) {
        let mut slot = self.slot();
        if !mem::replace(&mut slot.began, true) {
            slot.head = Some(head);
        }
    }

    /// Passes one frame on. To end the answer with it, return right after.
    pub async fn frame(&self, frame: Frame<Bytes>) {
        let mut frame = Some(frame);
        poll_fn(|_| {
            let mut slot = self.slot();
            if slot.frame.is_some() {
                // Whoever polls takes what is there and polls again; nobody else has to be woken.
                return Poll::Pending;
            }
            slot.frame = frame.take();
            Poll::Ready(())
        })
        .await;
    }

    /// Leaves the rest to be done when the agent has its answer.
    pub fn finish(&self, rest: Settlement) {
        self.slot().rest = Some(rest);
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        lock(&self.0)
    }
}

/// Runs an exchange up to the head of its answer.
pub struct Answering {
    run: Option<Run>,
    down: Down,
}

impl Answering {
    pub fn new(down: Down, run: Run) -> Self {
        Answering { run: Some(run), down }
    }
}

impl Future for Answering {
    type Output = Result<Response<Answer>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = match &mut self.run {
            Some(run) => run.poll(cx).map(|end| end.is_ok()),
            None => Poll::Ready(true),
        };
        let head = self.down.slot().head.take();
        let (head, run) = match (head, ended) {
            (Some(head), Poll::Pending) => (head, self.run.take().map_or(State::Ended, State::Running)),
            (Some(head), Poll::Ready(true)) => (head, State::Ended),
            (Some(head), Poll::Ready(false)) => (head, State::Breaking { flushed: false }),
            (None, Poll::Pending) => return Poll::Pending,
            (None, Poll::Ready(_)) => {
                let (mut head, ()) = Response::new(()).into_parts();
                head.status = StatusCode::INTERNAL_SERVER_ERROR;
                (head, State::Ended)
            }
        };
        Poll::Ready(Ok(Response::from_parts(head, Answer { run, down: self.down.clone() })))
    }
}

/// Runs an exchange from the head of its answer to the end.
pub struct Answer {
    run: State,
    down: Down,
}

impl Answer {
    /// What is left to be done when all has been written.
    pub fn rest(&self) -> Option<Settlement> {
        self.down.slot().rest.take()
    }
}

enum State {
    Running(Run),
    Breaking { flushed: bool },
    Ended,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if let Some(frame) = self.down.slot().frame.take() {
                return Poll::Ready(Some(Ok(frame)));
            }
            match &mut self.run {
                State::Running(run) => match run.poll(cx) {
                    Poll::Ready(Ok(())) => self.run = State::Ended,
                    Poll::Ready(Err(Broken)) => self.run = State::Breaking { flushed: false },
                    Poll::Pending if self.down.slot().frame.is_some() => {}
                    Poll::Pending => return Poll::Pending,
                },
                // Hyper drops what it has not written yet when a body fails, so it is let come round once more to write it.
                State::Breaking { flushed: flushed @ false } => {
                    *flushed = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Breaking { flushed: true } => {
                    self.run = State::Ended;
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.run, State::Ended) && self.down.slot().frame.is_none()
    }
}
