//! A socket to upstream, and how often upstream was heard on it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

pub type Socket = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A socket that tells how often something came from it.
pub struct Listening {
    pub socket: Socket,
    heard: Arc<AtomicUsize>,
}

impl Listening {
    pub fn to(socket: Socket) -> (TokioIo<Listening>, Heard) {
        let heard = Heard::default();
        (TokioIo::new(Listening { socket, heard: heard.times.clone() }), heard)
    }
}

/// How often something came from a socket, since it was opened and since it was last asked.
#[derive(Clone, Default)]
pub struct Heard {
    times: Arc<AtomicUsize>,
    before: usize,
}

impl Heard {
    /// Upstream is asked now.
    pub fn ask(&mut self) {
        self.before = self.times.load(Ordering::Relaxed);
    }

    /// Whether anything came since.
    pub fn anything(&self) -> bool {
        self.times.load(Ordering::Relaxed) != self.before
    }
}

impl AsyncRead for Listening {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.heard.fetch_add(1, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Listening {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }
    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, pieces)
    }
    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
