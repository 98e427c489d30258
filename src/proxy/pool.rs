//! Connections to one upstream.
//!
//! An HTTP/1 connection belongs to one exchange at a time and is polled by it, not by a task of its own: no hand-over between threads on
//! the way of a byte, and an exchange that is dropped closes its connection at once. Unused ones lie still in the pool; before one is used
//! again it is polled once, which finds out whether upstream has closed it meanwhile. HTTP/2 connections are shared and have a task each.

use std::{
    future::{Future, poll_fn},
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, StatusCode, Uri,
    uri::{PathAndQuery, Scheme},
};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::{
    client::legacy::connect::HttpConnector,
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::either::Either;
use tower_service::Service;

use super::{error::Error, lock, payload::Payload, repoll::quietly, tls};
use crate::config::{Base, Connection, Http2, Problem, seconds};

type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;
type Socket = TokioIo<Listening>;
type Multiplexed = http2::Connection<Socket, Payload, TokioExecutor>;

/// How long a request waits for a connection that another one opens.
const OTHERS_TURN: Duration = Duration::from_millis(100);

pub struct Pool {
    pub base: Base,
    /// It, written out.
    pub name: String,
    pub settings: Connection,
    /// The value of `Host`.
    pub host: HeaderValue,
    origin: Uri,
    connector: HttpConnector,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// What the files of `settings` held when they were read.
    files: blake3::Hash,
    idle: Mutex<Vec<Link>>,
    shared: Mutex<Vec<Shared>>,
    /// Upstream has been seen to speak HTTP/2, so one new connection will do for many requests that wait.
    speaks_http2: AtomicBool,
    connecting: tokio::sync::Mutex<()>,
}

/// A connection that an exchange may use.
pub enum Carrier {
    One(Box<Link>),
    Many(Place),
}

impl Carrier {
    /// Whether it was used before, so that upstream may have closed it without our knowing.
    pub fn is_used(&self) -> bool {
        match self {
            Carrier::One(link) => link.used,
            Carrier::Many(place) => place.used,
        }
    }

    /// Whether upstream has said anything since it was asked; on a shared connection, to anybody.
    pub fn has_heard(&self) -> bool {
        let (heard, before) = match self {
            Carrier::One(link) => (&link.heard, link.heard_before),
            Carrier::Many(place) => (&place.heard, place.heard_before),
        };
        heard.load(Ordering::Relaxed) != before
    }

    pub async fn send(&mut self, mut request: Request<Payload>) -> hyper::Result<Response<Incoming>> {
        match self {
            Carrier::One(link) => link.send(request).await,
            Carrier::Many(place) => {
                request.body_mut().hold(place.seat.clone());
                place.heard_before = place.heard.load(Ordering::Relaxed);
                place.sender.send_request(request).await
            }
        }
    }
}

impl Pool {
    pub fn new(base: Base, settings: Connection) -> Result<Pool, Problem> {
        let problem = |what: &str| Problem { file: None, key: "upstream".into(), what: format!("{base}: {what}") };
        let tls = match base.secure {
            true => {
                let name = ServerName::try_from(base.host().to_owned())
                    .map_err(|_| problem("the host is no name that a certificate could have"))?;
                Some((TlsConnector::from(tls::client(&settings)?), name))
            }
            false => None,
        };
        let scheme = if base.secure { Scheme::HTTPS } else { Scheme::HTTP };
        let origin = Uri::builder().scheme(scheme).authority(base.authority.clone()).path_and_query("/").build();
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_keepalive(Some(Duration::from_secs(60)));
        Ok(Pool {
            origin: origin.map_err(|_| problem("not a URL"))?,
            host: HeaderValue::from_str(base.authority.as_str()).map_err(|_| problem("not a host"))?,
            connector,
            tls,
            files: files(&settings),
            settings,
            name: base.to_string(),
            base,
            idle: Mutex::default(),
            shared: Mutex::default(),
            speaks_http2: AtomicBool::default(),
            connecting: tokio::sync::Mutex::default(),
        })
    }

    /// Whether a pool made now of `base` and `settings` would be this one, the contents of the files that they name included.
    pub fn is_of(&self, base: &Base, settings: &Connection) -> bool {
        self.base == *base && self.settings == *settings && self.files == files(settings)
    }

    /// A connection that was open a moment ago, or else a new one.
    pub async fn get(&self) -> Result<Carrier, Error> {
        match self.used().await {
            Some(carrier) => Ok(carrier),
            None => self.fresh().await,
        }
    }

    async fn used(&self) -> Option<Carrier> {
        if let Some(place) = self.place(None) {
            return Some(Carrier::Many(place));
        }
        loop {
            let mut link = lock(&self.idle).pop()?;
            if link.idle_since.elapsed() < seconds(self.settings.pool_timeout) && poll_fn(|cx| Poll::Ready(link.is_open(cx))).await {
                return Some(Carrier::One(Box::new(link)));
            }
        }
    }

    /// A place on a shared connection that was opened after `since`.
    fn place(&self, since: Option<Instant>) -> Option<Place> {
        let mut shared = lock(&self.shared);
        shared.retain(|shared| !shared.sender.is_closed());
        shared.iter_mut().filter(|shared| since.is_none_or(|since| shared.opened_at > since)).find_map(Shared::place)
    }

    /// A connection that did not exist before this call.
    pub async fn fresh(&self) -> Result<Carrier, Error> {
        let called = Instant::now();
        if self.speaks_http2.load(Ordering::Relaxed) {
            // Somebody else's connection may do, but not if it takes longer than they usually do.
            let turn = tokio::time::timeout(OTHERS_TURN, self.connecting.lock()).await;
            if let Some(place) = self.place(Some(called)) {
                return Ok(Carrier::Many(place));
            }
            let connected = self.connect_in_time().await;
            drop(turn);
            return connected;
        }
        self.connect_in_time().await
    }

    async fn connect_in_time(&self) -> Result<Carrier, Error> {
        tokio::time::timeout(seconds(self.settings.connect_timeout), self.connect()).await.unwrap_or(Err(Error::ConnectTimeout))
    }

    async fn connect(&self) -> Result<Carrier, Error> {
        let unreachable = |error: &dyn std::fmt::Display| {
            tracing::debug!(upstream = %self.base.authority, cause = %error, "cannot connect");
            Error::Unreachable
        };
        let tcp = self.connector.clone().call(self.origin.clone()).await;
        let tcp = tcp.map_err(|error| if is_lack_of_files(&error) { Error::Busy } else { unreachable(&error) })?.into_inner();
        let (stream, negotiated) = match &self.tls {
            None => (Either::Left(tcp), self.settings.http2 == Http2::Always),
            Some((tls, name)) => {
                let stream = tls.connect(name.clone(), tcp).await.map_err(|error: io::Error| unreachable(&error))?;
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                (Either::Right(Box::new(stream)), http2)
            }
        };
        match negotiated {
            false => Link::open(stream).await.map(|link| Carrier::One(Box::new(link))),
            true => {
                let mut shared = Shared::open(stream).await?;
                self.speaks_http2.store(true, Ordering::Relaxed);
                let place = shared.place().ok_or(Error::Closed)?;
                lock(&self.shared).push(shared);
                Ok(Carrier::Many(place))
            }
        }
    }

    /// Takes a connection back, if it can carry another exchange.
    pub fn put(&self, mut link: Link, cx: &mut Context<'_>) {
        if link.is_open(cx) {
            link.used = true;
            link.idle_since = Instant::now();
            let mut idle = lock(&self.idle);
            if idle.len() < self.settings.pool_size {
                idle.push(link);
            }
        }
    }

    /// `target` at this upstream, scheme and authority included.
    pub fn absolute(&self, target: &PathAndQuery) -> Option<Uri> {
        let mut parts = self.origin.clone().into_parts();
        parts.path_and_query = Some(target.clone());
        Uri::from_parts(parts).ok()
    }

    /// Closes what has not been used for long.
    pub fn prune(&self) {
        let limit = seconds(self.settings.pool_timeout);
        let old: Vec<Link> = lock(&self.idle).extract_if(.., |link| link.idle_since.elapsed() >= limit).collect();
        drop(old);
        lock(&self.shared).retain(|shared| shared.is_busy() || shared.used_at.elapsed() < limit);
    }
}

/// An HTTP/1 connection.
pub struct Link {
    sender: http1::SendRequest<Payload>,
    /// Nothing once it has ended.
    connection: Option<http1::Connection<Socket, Payload>>,
    heard: Arc<AtomicUsize>,
    heard_before: usize,
    used: bool,
    idle_since: Instant,
}

impl Link {
    async fn open(stream: Stream) -> Result<Link, Error> {
        let (socket, heard) = Listening::to(stream);
        let (sender, connection) =
            http1::Builder::new().preserve_header_case(true).handshake(socket).await.map_err(|_| Error::Unreachable)?;
        Ok(Link { sender, connection: Some(connection), heard, heard_before: 0, used: false, idle_since: Instant::now() })
    }

    async fn send(&mut self, request: Request<Payload>) -> hyper::Result<Response<Incoming>> {
        self.heard_before = self.heard.load(Ordering::Relaxed);
        // Whoever had the connection last would be woken; it is polled here.
        let mut answer = pin!(quietly(|| self.sender.send_request(request)));
        let connection = &mut self.connection;
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

    /// Lets the connection read and write.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(cx).is_ready()
        {
            self.connection = None;
        }
    }

    fn is_open(&mut self, cx: &mut Context<'_>) -> bool {
        self.poll(cx);
        self.connection.is_some() && self.sender.is_ready()
    }

    /// The bare socket after an upgrade, and what upstream has already said on it.
    pub fn into_upgraded(mut self) -> Option<(Stream, Bytes)> {
        self.connection.take().map(|connection| {
            let parts = connection.into_parts();
            (parts.io.into_inner().stream, parts.read_buf)
        })
    }
}

/// A socket that knows how often something came from it.
struct Listening {
    stream: Stream,
    heard: Arc<AtomicUsize>,
}

impl Listening {
    fn to(stream: Stream) -> (Socket, Arc<AtomicUsize>) {
        let heard = Arc::<AtomicUsize>::default();
        (TokioIo::new(Listening { stream, heard: heard.clone() }), heard)
    }
}

impl AsyncRead for Listening {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.heard.fetch_add(1, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Listening {
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

/// An HTTP/2 connection.
struct Shared {
    sender: http2::SendRequest<Payload>,
    /// Asked for how many streams upstream allows at once; polled by a task of its own. Nothing once it has ended: as long as it is there, requests
    /// wait for it.
    connection: Arc<Mutex<Option<Multiplexed>>>,
    heard: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
    used: bool,
    opened_at: Instant,
    used_at: Instant,
}

/// A place on an HTTP/2 connection.
pub struct Place {
    sender: http2::SendRequest<Payload>,
    seat: Arc<Seat>,
    heard: Arc<AtomicUsize>,
    heard_before: usize,
    used: bool,
}

/// One of the streams that a connection may have: taken until both the request and its answer are over.
pub struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    async fn open(stream: Stream) -> Result<Shared, Error> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(Some(Duration::from_secs(30))).keep_alive_timeout(Duration::from_secs(20));
        // Windows large enough that an upload or answer of megabytes is not held up by round trips.
        builder.initial_stream_window_size(1 << 20).initial_connection_window_size(4 << 20);
        // Until upstream has said how many streams it allows, one: a stream too many waits unseen for another to end.
        builder.initial_max_send_streams(1);
        let (socket, heard) = Listening::to(stream);
        let (sender, connection) = builder.handshake::<_, Payload>(socket).await.map_err(|_| Error::Unreachable)?;
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

    /// A place, unless all that upstream allows are taken: answers last minutes, a request must not wait for one to end.
    fn place(&mut self) -> Option<Place> {
        let most = lock(&self.connection).as_ref().map_or(0, Multiplexed::current_max_send_streams);
        if self.streams.load(Ordering::Relaxed) >= most {
            return None;
        }
        self.streams.fetch_add(1, Ordering::Relaxed);
        self.used_at = Instant::now();
        let used = std::mem::replace(&mut self.used, true);
        let seat = Arc::new(Seat(self.streams.clone()));
        Some(Place { sender: self.sender.clone(), seat, heard: self.heard.clone(), heard_before: 0, used })
    }

    fn is_busy(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }
}

/// Whether a connection failed because this process, or this machine, has too many files open: that says nothing of upstream.
fn is_lack_of_files(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let lack = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    causes.any(|error| error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error).is_some_and(|code| lack.contains(&code)))
}

fn files(settings: &Connection) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for file in [&settings.ca_file, &settings.certificate, &settings.key].into_iter().filter(|file| !file.is_empty()) {
        hasher.update(&std::fs::read(file).unwrap_or_default()).update(b"\0");
    }
    hasher.finalize()
}
