//! What a platform team sets: who may ask, how much at once, and where what was decided is kept.

use serde::{Deserialize, Serialize};

use super::{Config, Problem, problem::seconds, secret};

/// How much is taken on at once. 0: no limit, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admission {
    /// Connections of agents; 0: as many as file descriptors allow.
    pub connections: usize,
    /// Exchanges that run at once.
    pub exchanges: usize,
    /// Bytes of chat requests that are held at once.
    pub body_bytes: u64,
    /// The largest head of a request, in bytes.
    pub header_bytes: usize,
    /// Seconds from the first byte of a request's head to its last.
    pub header_timeout: f64,
    /// Exchanges of one tenant that run at once.
    pub tenant_exchanges: usize,
    /// Requests of one tenant in a minute.
    pub tenant_requests: u32,
}

impl Default for Admission {
    fn default() -> Self {
        Admission {
            connections: 0,
            exchanges: 0,
            body_bytes: 1 << 30,
            header_bytes: 256 << 10,
            header_timeout: 30.0,
            tenant_exchanges: 0,
            tenant_requests: 0,
        }
    }
}

/// Who may ask, and what may be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// A secret with one agent a line: its name, and its token or `sha256:` and the token's hash. Empty: everybody.
    pub tokens: String,
    /// A secret: the bearer token of the admin API. Empty: the admin API answers on loopback addresses only.
    pub admin_token: String,
    /// Hosts that upstreams may be at, in which a leading `*.` stands for any subdomain; empty: any.
    pub upstream_hosts: Vec<String>,
}

/// Secrets with the keys that go upstream in place of what the agent sent, unless a route has its own. Empty: the agent's goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Credential {
    /// For what looks like an OpenAI API: `authorization: Bearer …`.
    pub openai: String,
    /// For what looks like an Anthropic API: `x-api-key: …`.
    pub anthropic: String,
}

/// Where what was decided about conversations is remembered. In memory always; a store is behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ledger {
    pub store: Store,
    /// Bytes in memory.
    pub bytes: u64,
    /// Seconds for which what is not used is kept, in memory and in the store.
    pub seconds: u64,
    /// The file of `disk`.
    pub path: String,
    /// Bytes of that file.
    pub disk_bytes: u64,
    /// The address of `redis`.
    pub url: String,
    /// A secret with the password of `redis`; empty: it asks for none.
    pub password: String,
    /// PEM file with certificate authorities that `redis` is trusted by over TLS; empty: the system's.
    pub ca_file: String,
    /// Seconds that `redis` may take to answer before memory serves alone for a while.
    pub deadline: f64,
    /// A secret that all replicas share: tenants are hashed with it, and values in the store are encrypted with it.
    pub secret: String,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            store: Store::Memory,
            bytes: 256 << 20,
            seconds: 24 * 3600,
            path: String::new(),
            disk_bytes: 1 << 30,
            url: String::new(),
            password: String::new(),
            ca_file: String::new(),
            deadline: 0.05,
            secret: String::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    Memory,
    Disk,
    Redis,
}

/// Values that parse but cannot be meant.
pub(super) fn check(config: &Config) -> Result<(), Problem> {
    let Config { admission, access, credential, ledger, .. } = config;
    if admission.header_bytes < 8192 {
        return Err(Problem::value("admission.header_bytes", admission.header_bytes, "8192 bytes or more"));
    }
    config.traces.check()?;
    seconds("admission.header_timeout", admission.header_timeout)?;
    seconds("ledger.deadline", ledger.deadline)?;
    for (key, value) in [
        ("access.tokens", &access.tokens),
        ("access.admin_token", &access.admin_token),
        ("credential.openai", &credential.openai),
        ("credential.anthropic", &credential.anthropic),
        ("ledger.secret", &ledger.secret),
        ("ledger.password", &ledger.password),
    ] {
        secret::check(key, value)?;
    }
    for (index, route) in config.route.iter().enumerate() {
        let at = format!("route.{index}.credential");
        secret::check(&at, &route.credential)?;
        if route.credential.is_empty() && !route.credential_header.is_empty() {
            return Err(Problem::new(&format!("{at}_header"), "is for `credential`; expected that too, or nothing"));
        }
        route.header().map_err(|accepted| Problem::value(&format!("{at}_header"), format!("{:?}", route.credential_header), accepted))?;
    }
    match ledger.store {
        Store::Disk if ledger.path.is_empty() => Err(Problem::new("ledger.path", "is missing; expected the file for the ledger")),
        Store::Redis if !["redis://", "rediss://"].iter().any(|scheme| ledger.url.starts_with(scheme)) => {
            Err(Problem::new("ledger.url", "is not accepted; expected an address such as \"redis://host:6379/0\" or \"rediss://…\""))
        }
        Store::Redis if has_password(&ledger.url) => Err(Problem::new(
            "ledger.url",
            "holds a password; expected an address without one, and the password where ledger.password says",
        )),
        // Without one, no two replicas would hash a tenant alike, and values would lie open in somebody else's process.
        Store::Redis if ledger.secret.is_empty() => {
            Err(Problem::new("ledger.secret", "is missing; replicas that share a ledger share a secret, \"file:/path\" or \"env:NAME\""))
        }
        store if !ledger.ca_file.is_empty() && (store != Store::Redis || !ledger.url.starts_with("rediss://")) => {
            Err(Problem::new("ledger.ca_file", "is for TLS; expected nothing, or a `url` that begins with \"rediss://\""))
        }
        _ => upstreams(config),
    }
}

/// Whether a URL says more than the name of a user before its host.
fn has_password(url: &str) -> bool {
    let authority = url.split("://").nth(1).unwrap_or_default().split('/').next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Every upstream is at a host that is allowed.
fn upstreams(config: &Config) -> Result<(), Problem> {
    let allowed = &config.access.upstream_hosts;
    let check = |key: String, url: &str| {
        let Ok(base) = super::Base::parse(url) else { return Ok(()) };
        let host = base.host().to_ascii_lowercase();
        let fits = |pattern: &String| match pattern.to_ascii_lowercase() {
            pattern if pattern.starts_with("*.") => host.ends_with(&pattern[1..]),
            pattern => host == pattern,
        };
        match allowed.is_empty() || allowed.iter().any(fits) {
            true => Ok(()),
            false => Err(Problem::new(&key, format!("{host} is not among access.upstream_hosts"))),
        }
    };
    match config.upstream.as_str() {
        "" => {
            check("openai".into(), &config.openai)?;
            check("anthropic".into(), &config.anthropic)?;
        }
        url => check("upstream".into(), url)?,
    }
    config.route.iter().enumerate().try_for_each(|(index, route)| check(format!("route.{index}.upstream"), &route.upstream))?;
    // Summaries carry what conversations say.
    let policies = [("policy".to_owned(), Ok(config.policy.clone()))];
    let routes = config.route.iter().enumerate().map(|(index, route)| (format!("route.{index}.policy"), &route.policy));
    let models = config.model.iter().enumerate().map(|(index, model)| (format!("model.{index}.policy"), &model.policy));
    let overlaid = routes.chain(models).map(|(at, overlay)| (at, config.policy.overlaid([overlay])));
    // An overlay that does not fit was refused by who read it.
    policies.into_iter().chain(overlaid).filter_map(|(at, policy)| Some((at, policy.ok()?))).try_for_each(|(at, policy)| {
        let upstream = &policy.compact.summarize.upstream;
        check(format!("{at}.compact.summarize.upstream"), upstream)
    })
}
