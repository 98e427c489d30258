//! Connections to one upstream.
//!
//! An HTTP/1 connection belongs to one exchange at a time and is polled by it, not by a task of its own: no hand-over between threads on
//! the way of a byte, and an exchange that is dropped closes its connection at once. Unused ones lie still in the pool; before one is used
//! again it is polled once, which finds out whether upstream has closed it meanwhile. HTTP/2 connections are shared and have a task each.

mod link;
mod shared;
mod socket;
mod trouble;

use std::{
    future::poll_fn,
    io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{
    HeaderValue, Request, Response, Uri,
    uri::{PathAndQuery, Scheme},
};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;
use tower_service::Service;

pub use self::shared::Seat;
use self::{
    link::Link,
    shared::{Shared, Stream},
};
use super::{error::Error, lock, payload::Payload, tls};
use crate::config::{Base, Connection, Http2, Problem, seconds};

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
    /// Why it cannot be reached, as was logged.
    trouble: Mutex<Option<&'static str>>,
    #[expect(clippy::vec_box, reason = "a link is large, and stays where it is while it changes hands")]
    idle: Mutex<Vec<Box<Link>>>,
    shared: Mutex<Vec<Shared>>,
    /// Upstream has been seen to speak HTTP/2, so one new connection will do for many requests that wait.
    speaks_http2: AtomicBool,
    connecting: tokio::sync::Mutex<()>,
}

/// A connection that an exchange may use.
pub enum Carrier {
    One(Box<Link>),
    Many(Stream),
}

impl Carrier {
    /// Whether it was used before, so that upstream may have closed it without our knowing.
    pub fn is_used(&self) -> bool {
        match self {
            Carrier::One(link) => link.used,
            Carrier::Many(stream) => stream.used,
        }
    }

    /// Whether upstream has said anything since it was asked; on a shared connection, to anybody.
    pub fn has_heard(&self) -> bool {
        match self {
            Carrier::One(link) => link.heard.anything(),
            Carrier::Many(stream) => stream.heard.anything(),
        }
    }

    pub fn send(&mut self, request: Request<Payload>) -> impl Future<Output = hyper::Result<Response<Incoming>>> {
        match self {
            Carrier::One(link) => Either::Left(link.send(request)),
            Carrier::Many(stream) => Either::Right(stream.send(request)),
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
            trouble: Mutex::default(),
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
            // Few exchanges come to this, and none is moved about with room for it.
            None => Box::pin(self.fresh()).await,
        }
    }

    async fn used(&self) -> Option<Carrier> {
        if let Some(stream) = self.stream(None) {
            return Some(Carrier::Many(stream));
        }
        loop {
            let mut link = lock(&self.idle).pop()?;
            if link.idle_since.elapsed() < seconds(self.settings.pool_timeout) && poll_fn(|cx| Poll::Ready(link.is_open(cx))).await {
                return Some(Carrier::One(link));
            }
        }
    }

    /// A stream of a shared connection that was opened after `since`.
    fn stream(&self, since: Option<Instant>) -> Option<Stream> {
        let mut shared = lock(&self.shared);
        shared.retain(|shared| !shared.sender.is_closed());
        shared.iter_mut().filter(|shared| since.is_none_or(|since| shared.opened_at > since)).find_map(Shared::stream)
    }

    /// A connection that did not exist before this call.
    pub async fn fresh(&self) -> Result<Carrier, Error> {
        let called = Instant::now();
        if self.speaks_http2.load(Ordering::Relaxed) {
            // Somebody else's connection may do, but not if it takes longer than they usually do.
            let turn = tokio::time::timeout(OTHERS_TURN, self.connecting.lock()).await;
            if let Some(stream) = self.stream(Some(called)) {
                return Ok(Carrier::Many(stream));
            }
            let connected = self.connect_in_time().await;
            drop(turn);
            return connected;
        }
        self.connect_in_time().await
    }

    async fn connect_in_time(&self) -> Result<Carrier, Error> {
        let connected = tokio::time::timeout(seconds(self.settings.connect_timeout), self.connect()).await;
        let connected = connected.unwrap_or_else(|_| Err(Error::ConnectTimeout(self.place())));
        self.tell(connected.as_ref().err());
        connected
    }

    /// Host and port.
    fn place(&self) -> String {
        let usual = if self.base.secure { 443 } else { 80 };
        format!("{}:{}", self.base.authority.host(), self.base.authority.port_u16().unwrap_or(usual))
    }

    /// Logs that upstream cannot be reached, and that it can again, once each: a request that fails has a line of its own.
    fn tell(&self, error: Option<&Error>) {
        let why = error.and_then(Error::unreached).map(|(_, why)| why);
        if why.is_none() && error.is_some() {
            return; // Ours, and says nothing of upstream.
        }
        let before = std::mem::replace(&mut *lock(&self.trouble), why);
        match why {
            Some(why) if before != Some(why) => tracing::warn!(upstream = self.place(), cause = why, "cannot be reached"),
            None if before.is_some() => tracing::info!(upstream = self.place(), "can be reached again"),
            _ => {}
        }
    }

    async fn connect(&self) -> Result<Carrier, Error> {
        let unreachable = |error: &(dyn std::error::Error + 'static)| {
            tracing::debug!(upstream = %self.base.authority, cause = %error, "cannot connect");
            Error::Unreachable { at: self.place(), why: trouble::kind(error) }
        };
        let tcp = self.connector.clone().call(self.origin.clone()).await;
        let tcp = tcp.map_err(|error| if trouble::is_lack_of_files(&error) { Error::Busy } else { unreachable(&error) })?.into_inner();
        let (socket, http2) = match &self.tls {
            None => (Either::Left(tcp), self.settings.http2 == Http2::Always),
            Some((tls, name)) => {
                let stream = tls.connect(name.clone(), tcp).await.map_err(|error: io::Error| unreachable(&error))?;
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                (Either::Right(Box::new(stream)), http2)
            }
        };
        match http2 {
            false => Link::open(socket).await.map(|link| Carrier::One(Box::new(link))),
            true => {
                let mut shared = Shared::open(socket).await?;
                self.speaks_http2.store(true, Ordering::Relaxed);
                let stream = shared.stream().ok_or(Error::Closed)?;
                lock(&self.shared).push(shared);
                Ok(Carrier::Many(stream))
            }
        }
    }

    /// Takes a connection back, if it can carry another exchange.
    pub fn put(&self, mut link: Box<Link>, cx: &mut Context<'_>) {
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
        let old: Vec<_> = lock(&self.idle).extract_if(.., |link| link.idle_since.elapsed() >= limit).collect();
        drop(old);
        lock(&self.shared).retain(|shared| shared.is_busy() || shared.used_at.elapsed() < limit);
    }
}

fn files(settings: &Connection) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for file in [&settings.ca_file, &settings.certificate, &settings.key].into_iter().filter(|file| !file.is_empty()) {
        hasher.update(&std::fs::read(file).unwrap_or_default()).update(b"\0");
    }
    hasher.finalize()
}
