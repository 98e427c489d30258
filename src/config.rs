//! What the program was told: flags over environment over file over preset over defaults.
//!
//! Every knob is a field of the structs here and a line in `config/reference.toml`; a test keeps the two the same. A configuration that
//! is wrong stops the start with a [`Problem`]: which file, which key, what would be accepted.
//!
//! Sizes are bytes, times are seconds, weights are tokens.

mod base;
mod check;
mod file;
mod kind;
mod platform;
mod policy;
mod preset;
mod problem;
mod route;
pub mod secret;
mod template;
mod traces;

use serde::{Deserialize, Serialize};

pub use base::Base;
pub use file::{find, load};
pub use platform::{Access, Admission, Credential, Ledger, Store};
pub use policy::{Limits, Overflow, Policy};
pub use preset::PRESETS;
pub use problem::Problem;
pub use route::{Model, Route, RouteFormat};
pub use traces::Traces;

/// The annotated list of all knobs with their defaults.
pub const REFERENCE: &str = include_str!("../config/reference.toml");

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The name of the preset that lies under the file; empty: none.
    pub preset: String,
    /// Where agents connect.
    pub listen: String,
    /// Where health and metrics are served; `off` serves none.
    pub admin: String,
    /// One base URL for every API; empty: `openai` and `anthropic` below.
    pub upstream: String,
    /// Base URL of what looks like an OpenAI API, unless `upstream` is set.
    pub openai: String,
    /// Base URL of what looks like an Anthropic API, unless `upstream` is set.
    pub anthropic: String,
    /// What happens to a WebSocket upgrade on a chat path.
    pub websocket: Websocket,
    /// Whether providers are asked how much their models take.
    pub discover: bool,
    /// How long a request to a local server may wait for the first answer to that, in seconds.
    pub discover_wait: f64,
    /// Whether answers to chat requests carry `x-plimsoll-*` headers.
    pub annotate: bool,
    /// The largest body of a chat request, as sent and decoded, in bytes.
    pub max_chat_bytes: u64,
    /// How long running answers may go on after SIGTERM, in seconds.
    pub grace: f64,
    /// How long requests are still accepted after SIGTERM, while readiness says no, in seconds.
    pub drain_delay: f64,
    /// How often the files of the configuration are looked at for changes, in seconds; 0: on SIGHUP only.
    pub reload: f64,
    /// How long a connection of an agent may stay silent, in seconds.
    pub keep_alive: f64,
    pub tls: Tls,
    pub log: Log,
    pub traces: Traces,
    pub admission: Admission,
    pub access: Access,
    pub credential: Credential,
    pub ledger: Ledger,
    pub connection: Connection,
    pub policy: Policy,
    pub route: Vec<Route>,
    pub model: Vec<Model>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            preset: String::new(),
            listen: "127.0.0.1:4790".into(),
            admin: "127.0.0.1:4791".into(),
            upstream: String::new(),
            openai: "https://api.openai.com".into(),
            anthropic: "https://api.anthropic.com".into(),
            websocket: Websocket::Refuse,
            discover: true,
            discover_wait: 1.0,
            annotate: true,
            max_chat_bytes: 64 << 20,
            grace: 600.0,
            drain_delay: 0.0,
            reload: 5.0,
            keep_alive: 600.0,
            tls: Tls::default(),
            log: Log::default(),
            traces: Traces::default(),
            admission: Admission::default(),
            access: Access::default(),
            credential: Credential::default(),
            ledger: Ledger::default(),
            connection: Connection::default(),
            policy: Policy::default(),
            route: Vec::new(),
            model: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Websocket {
    /// Answer 426, which makes agents fall back to HTTP, where the history can be seen.
    Refuse,
    /// Pass the bytes both ways, unread.
    Tunnel,
}

/// TLS towards agents. Both paths empty: plain HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// PEM file with the certificate and its chain.
    pub certificate: String,
    /// PEM file with the private key.
    pub key: String,
    /// PEM file with the authorities that agents' certificates must come from; empty: agents need none.
    pub client_ca: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    pub level: Level,
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Log { level: Level::Info, format: LogFormat::Auto }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    Human,
    Json,
}

/// Connections to a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Connection {
    /// Seconds until a connection must stand, TLS included.
    pub connect_timeout: f64,
    /// Seconds until the head of an answer must have come.
    pub response_timeout: f64,
    /// Seconds that a running request or answer may pause.
    pub idle_timeout: f64,
    /// Seconds that an unused connection is kept.
    pub pool_timeout: f64,
    /// Unused connections that are kept.
    pub pool_size: usize,
    pub http2: Http2,
    /// PEM file with certificate authorities to trust instead of the system's; empty: the system's.
    pub ca_file: String,
    /// PEM file with the certificate that providers are shown, and its chain; empty: none.
    pub certificate: String,
    /// PEM file with its private key.
    pub key: String,
}

impl Default for Connection {
    fn default() -> Self {
        Connection {
            connect_timeout: 10.0,
            response_timeout: 600.0,
            idle_timeout: 600.0,
            pool_timeout: 60.0,
            pool_size: 256,
            http2: Http2::Auto,
            ca_file: String::new(),
            certificate: String::new(),
            key: String::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Http2 {
    /// Where TLS negotiates it.
    Auto,
    Never,
    /// Also without TLS, by prior knowledge.
    Always,
}

impl Config {
    /// The files that are read when this configuration is put to work. Besides the file that it was read from, these are what may change.
    pub fn files(&self) -> Vec<std::path::PathBuf> {
        let Config { tls, access, credential, ledger, traces, policy, .. } = self;
        let own = self.route.iter().filter_map(|route| route.connection(&self.connection).ok());
        let connections: Vec<Connection> = own.chain([self.connection.clone()]).collect();
        let plain = [&tls.certificate, &tls.key, &tls.client_ca, &ledger.ca_file, &traces.ca_file]
            .into_iter()
            .chain(connections.iter().flat_map(|connection| [&connection.ca_file, &connection.certificate, &connection.key]));
        let secrets = [
            &access.tokens,
            &access.admin_token,
            &credential.openai,
            &credential.anthropic,
            &ledger.secret,
            &ledger.password,
            &traces.headers,
        ]
        .into_iter()
        .chain(self.route.iter().map(|route| &route.credential));
        let overlays = self.route.iter().map(|route| &route.policy).chain(self.model.iter().map(|model| &model.policy));
        let policies = overlays.filter_map(|overlay| policy.overlaid([overlay]).ok()).chain([policy.clone()]);
        let summaries = policies.flat_map(|policy| policy.files());
        let mut files: Vec<_> = plain.filter(|file| !file.is_empty()).map(std::path::PathBuf::from).collect();
        files.extend(secrets.filter_map(|named| secret::file(named)).chain(summaries));
        files.sort();
        files.dedup();
        files
    }
}

impl Config {
    /// The policy for `model`, where no route says otherwise.
    pub fn policy_of(&self, model: &str) -> Policy {
        let overlays = self.model.iter().filter(|entry| entry.matches(model)).map(|entry| &entry.policy);
        // Each overlay was tried when the configuration was read.
        self.policy.overlaid(overlays).unwrap_or_else(|_| self.policy.clone())
    }

    /// What calls for summaries are authorised with can be had, wherever it is set. The other secrets are read by who uses them.
    pub fn check_secrets(&self) -> Result<(), Problem> {
        self.policy.check_secrets("policy")?;
        let routes = self.route.iter().enumerate().map(|(index, route)| (format!("route.{index}.policy"), &route.policy));
        let models = self.model.iter().enumerate().map(|(index, model)| (format!("model.{index}.policy"), &model.policy));
        routes.chain(models).try_for_each(|(at, policy)| match self.policy.overlaid([policy]) {
            Ok(policy) => policy.check_secrets(&at),
            // It was tried when the configuration was read.
            Err(_) => Ok(()),
        })
    }
}

/// What flags and environment say; each wins over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The preset, instead of the file's.
    pub preset: Option<String>,
    pub listen: Option<String>,
    pub admin: Option<String>,
    pub upstream: Option<String>,
    /// The window of every model, in tokens.
    pub window: Option<u64>,
    pub log_level: Option<Level>,
    pub log_format: Option<LogFormat>,
    /// Where traces go.
    pub traces: Option<String>,
}

impl Overrides {
    fn apply(&self, config: &mut Config) {
        let set = |field: &mut String, value: &Option<String>| {
            if let Some(value) = value {
                field.clone_from(value);
            }
        };
        set(&mut config.listen, &self.listen);
        set(&mut config.admin, &self.admin);
        set(&mut config.upstream, &self.upstream);
        set(&mut config.traces.endpoint, &self.traces);
        if let Some(window) = self.window {
            config.policy.window = window;
            // A window said on the command line is meant for whatever is asked, so no pattern in a file may undo it.
            let overlays =
                config.route.iter_mut().map(|route| &mut route.policy).chain(config.model.iter_mut().map(|model| &mut model.policy));
            overlays.for_each(|policy| drop(policy.remove("window")));
        }
        config.log.level = self.log_level.unwrap_or(config.log.level);
        config.log.format = self.log_format.unwrap_or(config.log.format);
    }
}

/// A knob in seconds as a duration.
pub fn seconds(knob: f64) -> std::time::Duration {
    std::time::Duration::from_secs_f64(knob.max(0.0))
}

#[cfg(test)]
mod tests;
