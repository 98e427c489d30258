//! What is in force: all that a configuration says, in one piece, so that it changes whole or not at all.

use std::{sync::Arc, time::Duration};

use arc_swap::{ArcSwap, Guard};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_rustls::TlsAcceptor;

use super::{Proxy, decide::Decide, headers::MOST_LINES, log, patience::Limits, tls};
use crate::config::{Config, Problem, seconds};

/// How long what has only just begun may take when everything is to end.
const LAST: Duration = Duration::from_secs(1);

/// A configuration at work.
pub struct Serving {
    pub config: Config,
    pub proxy: Arc<Proxy>,
    pub tls: Option<TlsAcceptor>,
    pub http1: http1::Builder,
    pub http2: http2::Builder<TokioExecutor>,
}

/// The configuration in force.
pub struct Live(ArcSwap<Serving>);

impl Live {
    pub fn new(config: &Config, decide: Decide) -> Result<Live, Problem> {
        let serving = Serving::new(config, Proxy::new(config, decide)?)?;
        serving.measure();
        Ok(Live(ArcSwap::from_pointee(serving)))
    }

    pub fn load(&self) -> Guard<Arc<Serving>> {
        self.0.load()
    }

    pub fn load_full(&self) -> Arc<Serving> {
        self.0.load_full()
    }

    /// Puts another configuration in force, for every request that begins from now on. What runs ends as it began.
    pub fn renew(&self, config: &Config) -> Result<(), Problem> {
        let now = self.load();
        fixed(&now.config, config)?;
        let next = Serving::new(config, now.proxy.renewed(config)?)?;
        next.measure();
        log::set_level(config.log.level);
        self.0.store(Arc::new(next));
        Ok(())
    }
}

impl Serving {
    fn new(config: &Config, proxy: Proxy) -> Result<Serving, Problem> {
        Ok(Serving {
            tls: tls::server(&config.tls)?.map(TlsAcceptor::from),
            http1: http1(config),
            http2: http2(config),
            proxy: Arc::new(proxy),
            config: config.clone(),
        })
    }

    /// Tells when the certificates end that are shown to others.
    fn measure(&self) {
        let Config { tls, connection, .. } = &self.config;
        let own = self.config.route.iter().filter_map(|route| route.connection(connection).ok());
        let client = own.chain([connection.clone()]).filter_map(|connection| tls::end(&connection.certificate)).min();
        for (purpose, end) in [("server", tls::end(&tls.certificate)), ("client", client)] {
            self.proxy.metrics.certificates.of(&[purpose]).set(end.unwrap_or(0));
        }
    }
}

/// What a process has from its start on cannot change under it.
fn fixed(now: &Config, next: &Config) -> Result<(), Problem> {
    let Config { listen, admin, ledger, log, .. } = now;
    for (key, same) in [
        ("listen", *listen == next.listen),
        ("admin", *admin == next.admin),
        ("ledger", *ledger == next.ledger),
        ("log.format", log.format == next.log.format),
        ("admission.connections", now.admission.connections == next.admission.connections),
    ] {
        if !same {
            return Err(Problem { file: None, key: key.into(), what: "cannot change while it runs; restart it for that".into() });
        }
    }
    Ok(())
}

fn http1(config: &Config) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // Counts from the end of the last answer, so it is the keep-alive; see `patience` for how long a head may take.
        .header_read_timeout(Duration::from_secs_f64(config.keep_alive.max(1.0)))
        .max_buf_size(config.admission.header_bytes)
        .max_headers(MOST_LINES)
        .preserve_header_case(true)
        .auto_date_header(false);
    builder
}

fn http2(config: &Config) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_header_list_size(u32::try_from(config.admission.header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(20))
        // Windows large enough that a request of megabytes is not held up by round trips.
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    builder
}

impl Serving {
    /// How long an agent may take to ask.
    pub fn patience(&self) -> Limits {
        let Config { admission, keep_alive, .. } = &self.config;
        Limits { head: seconds(admission.header_timeout.max(0.01)), silence: seconds(keep_alive.max(0.01)), last: LAST }
    }
}
