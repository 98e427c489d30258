//! How long an agent may take to ask: for the head of a request, on HTTP/1, and until anything comes at all. And what is put off until an answer has
//! been written.
//!
//! Hyper's own timer for heads also runs between two requests, where agents may be silent for long. So the socket notes when the first byte of a
//! head comes, the service when the head is whole, and the connection is cut where too long lies between. Before the first request no timer of hyper's
//! runs yet.

use std::{
    future::Future,
    io::{self, IoSlice},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::{downstream::Answer, lock, settlement::Settlement};

/// What a connection knows of the head that is coming in.
#[derive(Clone)]
pub struct Head(Arc<Mutex<Between>>);

struct Between {
    state: State,
    /// Of exchanges whose answers are being written.
    rests: Vec<Settlement>,
}

enum State {
    /// Nothing has come yet.
    New(Instant),
    /// HTTP/2, and no request yet.
    Greeted(Instant),
    /// Nothing has come since the last request.
    Quiet,
    Coming(Instant),
    /// A request is being answered; or this is HTTP/2, which has many at once.
    Answering,
}

impl Default for Head {
    fn default() -> Self {
        Head(Arc::new(Mutex::new(Between { state: State::New(Instant::now()), rests: Vec::new() })))
    }
}

impl Head {
    fn between(&self) -> MutexGuard<'_, Between> {
        lock(&self.0)
    }

    /// The head is whole. What is asked with it is decided by all that the answers before it told.
    pub fn is_whole(&self) {
        self.between().state = State::Answering;
        self.settle();
    }

    /// The answer is given: the next head may come.
    fn answered(&self, rest: Option<Settlement>) {
        let mut between = self.between();
        between.state = State::Quiet;
        between.rests.extend(rest);
    }

    fn read(&self, bytes: &[u8]) {
        let mut between = self.between();
        match between.state {
            // HTTP/2 begins so; its first request may come later.
            State::New(since) if bytes.starts_with(b"PRI ") => between.state = State::Greeted(since),
            State::New(_) | State::Quiet if !bytes.is_empty() => between.state = State::Coming(Instant::now()),
            _ => {}
        }
    }

    fn until(&self, limits: Limits) -> Option<Instant> {
        match self.between().state {
            State::New(since) | State::Greeted(since) => Some(since + limits.silence),
            State::Coming(since) => Some(since + limits.head),
            State::Quiet | State::Answering => None,
        }
    }

    /// Does what was put off: what could be written to the agent has been written.
    fn settle(&self) {
        let rests = mem::take(&mut self.between().rests);
        drop(rests);
    }
}

#[derive(Clone, Copy)]
pub struct Limits {
    /// From the first byte of a head to its last.
    pub head: Duration,
    /// From the beginning of a connection to the first byte of its first request.
    pub silence: Duration,
}

/// Runs a connection for as long as its heads come in time, or until it has finished what it was doing when it was told to. Whether a head did not come.
pub struct Patient<C, S> {
    connection: Pin<Box<C>>,
    finish: fn(Pin<&mut C>),
    /// Until it is told to finish.
    told: Option<S>,
    head: Head,
    limits: Limits,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<C, S> Patient<C, S> {
    /// `finish` lets a connection take no more requests, once `told` is over.
    pub fn new(connection: C, finish: fn(Pin<&mut C>), told: S, head: Head, limits: Limits) -> Self {
        Patient { connection: Box::pin(connection), finish, told: Some(told), head, limits, sleep: None }
    }
}

impl<C: Future, S: Future<Output = ()> + Unpin> Future for Patient<C, S> {
    type Output = Option<C::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.told.as_mut().is_some_and(|told| Pin::new(told).poll(cx).is_ready()) {
            self.told = None;
            (self.finish)(self.connection.as_mut());
        }
        let polled = self.connection.as_mut().poll(cx);
        self.head.settle();
        if let Poll::Ready(end) = polled {
            return Poll::Ready(Some(end));
        }
        // Most heads come at once and in one piece, and no timer is ever set.
        let Some(until) = self.head.until(self.limits) else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        sleep.as_mut().poll(cx).map(|()| None)
    }
}

/// The socket of an agent.
pub struct Watched<S> {
    stream: S,
    head: Head,
}

impl<S> Watched<S> {
    pub fn new(stream: S, head: Head) -> Self {
        Watched { stream, head }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.head.read(&buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// An answer, behind whose end the next head may come.
pub struct Ending {
    body: Answer,
    head: Option<Head>,
}

impl Ending {
    /// Without a head, of HTTP/2, nothing waits for the end.
    pub fn new(body: Answer, head: Option<Head>) -> Self {
        Ending { body, head }
    }
}

impl Body for Ending {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(head) = &self.head {
            head.answered(self.body.rest());
        }
    }
}
