//! How long an agent may take to ask: for the head of a request, on HTTP/1, and until anything comes at all; and how long when all is to end, where hyper
//! waits for half a head, and for an agent on HTTP/2 to confirm the farewell. And what is put off until an answer has been written.
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
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
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
    /// Of HTTP/2, which has many requests at once: shared with all that are open.
    open: Option<Arc<()>>,
    /// Of exchanges whose answers are being written.
    rests: Vec<Settlement>,
}

#[derive(Clone, Copy)]
enum State {
    /// Nothing has come yet; of HTTP/2, no request.
    New(Instant),
    /// Nothing has come since the last request.
    Quiet,
    Coming(Instant),
    /// A request is being answered; or this is HTTP/2, and there has been one.
    Answering,
}

/// A request whose head is whole, until its answer is written.
pub enum Asked {
    Http1(Head),
    Http2(Arc<()>),
}

impl Asked {
    /// What keeps a connection of HTTP/2 open.
    fn open(&self) -> Option<Arc<()>> {
        match self {
            Asked::Http1(_) => None,
            Asked::Http2(open) => Some(open.clone()),
        }
    }
}

impl Head {
    pub fn http1() -> Head {
        Head::new(None)
    }

    pub fn http2() -> Head {
        Head::new(Some(Arc::default()))
    }

    fn new(open: Option<Arc<()>>) -> Head {
        Head(Arc::new(Mutex::new(Between { state: State::New(Instant::now()), open, rests: Vec::new() })))
    }

    fn between(&self) -> MutexGuard<'_, Between> {
        lock(&self.0)
    }

    /// The head is whole. What is asked with it is decided by all that the answers before it told.
    pub fn came(&self) -> Asked {
        self.between().state = State::Answering;
        self.settle();
        self.open().map_or_else(|| Asked::Http1(self.clone()), Asked::Http2)
    }

    /// What keeps a connection of HTTP/2 open.
    fn open(&self) -> Option<Arc<()>> {
        self.between().open.clone()
    }

    fn is_open(&self) -> bool {
        let between = self.between();
        matches!(between.state, State::Answering) && between.open.as_ref().is_some_and(|open| Arc::strong_count(open) > 1)
    }

    /// The answer is given: the next head may come.
    fn answered(&self, rest: Option<Settlement>) {
        let mut between = self.between();
        between.state = State::Quiet;
        between.rests.extend(rest);
    }

    fn read(&self, bytes: &[u8]) {
        let mut between = self.between();
        if !bytes.is_empty() && between.open.is_none() && matches!(between.state, State::New(_) | State::Quiet) {
            between.state = State::Coming(Instant::now());
        }
    }

    fn is_coming(&self) -> bool {
        matches!(self.between().state, State::Coming(_))
    }

    /// Until when something has to come, or to end, where that is to be by `last`. HTTP/1 ends by itself with its answer.
    fn until(&self, limits: Limits, last: Option<Instant>) -> Option<Instant> {
        let between = self.between();
        let until = match between.state {
            State::New(since) => Some(since + limits.silence),
            State::Coming(since) => Some(since + limits.head),
            State::Quiet | State::Answering => None,
        };
        until.into_iter().chain(last.filter(|_| until.is_some() || between.open.is_some())).min()
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
    /// Once the connection is to finish: for what has come of a head to become whole, and, on HTTP/2 without open requests, for the agent to hear of it.
    pub last: Duration,
}

/// Runs a connection for as long as its heads come in time, or until it has finished what it was doing when it was told to. Nothing where it was given up.
pub struct Patient<C, S> {
    connection: Pin<Box<C>>,
    /// Until it is told to finish.
    told: Option<S>,
    /// Until it does.
    finish: Option<fn(Pin<&mut C>)>,
    /// Once it is told: by when it ends if nothing is open.
    last: Option<Instant>,
    head: Head,
    limits: Limits,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl<C, S> Patient<C, S> {
    /// `finish` lets a connection take no more requests, once `told` is over.
    pub fn new(connection: C, finish: fn(Pin<&mut C>), told: S, head: Head, limits: Limits) -> Self {
        Patient { connection: Box::pin(connection), told: Some(told), finish: Some(finish), last: None, head, limits, sleep: None }
    }
}

impl<C: Future, S: Future<Output = ()> + Unpin> Future for Patient<C, S> {
    type Output = Option<C::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.told.take_if(|told| Pin::new(told).poll(cx).is_ready());
        loop {
            let polled = this.connection.as_mut().poll(cx);
            this.head.settle();
            if let Poll::Ready(end) = polled {
                return Poll::Ready(Some(end));
            }
            // Hyper would not wait for the rest of a head, unless it is the first.
            match this.finish.take_if(|_| this.told.is_none() && !this.head.is_coming()) {
                Some(finish) => finish(this.connection.as_mut()),
                None => break,
            }
        }
        // Most heads come at once and in one piece, and no timer is ever set.
        while let Some(until) = this.until() {
            let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            ready!(sleep.as_mut().poll(cx));
            if !this.head.is_open() {
                return Poll::Ready(None);
            }
        }
        Poll::Pending
    }
}

impl<C, S> Patient<C, S> {
    fn until(&mut self) -> Option<Instant> {
        if self.told.is_none() && (self.last.is_none() || self.head.is_open()) {
            self.last = Some(Instant::now() + self.limits.last);
        }
        self.head.until(self.limits, self.last)
    }
}

/// The socket of an agent.
pub struct Watched<S> {
    /// What has been read of it already.
    start: &'static [u8],
    stream: S,
    head: Head,
    /// While it takes no more.
    full: Option<Arc<()>>,
}

impl<S> Watched<S> {
    pub fn new(start: &'static [u8], stream: S, head: Head) -> Self {
        Watched { start, stream, head, full: None }
    }

    /// An answer that waits here is not written.
    fn noting_full<T>(&mut self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.full = if written.is_pending() { self.head.open() } else { None };
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = if self.start.is_empty() {
            Pin::new(&mut self.stream).poll_read(cx, buffer)
        } else {
            let (now, later) = self.start.split_at(self.start.len().min(buffer.remaining()));
            buffer.put_slice(now);
            self.start = later;
            Poll::Ready(Ok(()))
        };
        self.head.read(&buffer.filled()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.noting_full(written)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.noting_full(written)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS takes more than it can pass on.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.noting_full(flushed)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// An answer, behind whose end the next head may come.
pub struct Ending {
    body: Answer,
    asked: Asked,
}

impl Ending {
    pub fn new(body: Answer, asked: Asked) -> Self {
        Ending { body, asked }
    }
}

impl Body for Ending {
    type Data = Piece;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, io::Error>>> {
        let Ending { body, asked } = &mut *self;
        Pin::new(body).poll_frame(cx).map_ok(|frame| frame.map_data(|bytes| Piece { bytes, _open: asked.open() }))
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
        if let Asked::Http1(head) = &self.asked {
            head.answered(self.body.rest());
        }
    }
}

/// A piece of an answer. HTTP/2 may hold it for long after the answer's end.
pub struct Piece {
    bytes: Bytes,
    _open: Option<Arc<()>>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }
    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

#[cfg(test)]
mod tests;
