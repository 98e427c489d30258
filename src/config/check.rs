//! Refuses values that parse but cannot be meant.

use std::net::{IpAddr, SocketAddr};

use toml::Table;

use super::{Base, Config, Connection, Policy, Problem, Route, kind, platform, problem::seconds};

pub(super) fn check(config: &Config) -> Result<(), Problem> {
    address("listen", &config.listen)?;
    if config.admin != "off" {
        address("admin", &config.admin).map_err(|problem| Problem { what: problem.what + ", or \"off\"", ..problem })?;
    }
    if !config.upstream.is_empty() {
        base("upstream", &config.upstream)?;
    }
    base("openai", &config.openai)?;
    base("anthropic", &config.anthropic)?;
    seconds("discover_wait", config.discover_wait)?;
    seconds("grace", config.grace)?;
    seconds("keep_alive", config.keep_alive)?;
    seconds("drain_delay", config.drain_delay)?;
    seconds("reload", config.reload)?;
    if config.max_chat_bytes == 0 {
        return Err(Problem::value("max_chat_bytes", 0, "a number of bytes"));
    }
    if config.tls.certificate.is_empty() != config.tls.key.is_empty() {
        return Err(Problem::new("tls", "certificate and key are needed together"));
    }
    if !config.tls.client_ca.is_empty() && config.tls.certificate.is_empty() {
        return Err(Problem::new("tls.client_ca", "agents show certificates over TLS only; certificate and key are needed too"));
    }
    for (key, url) in [("upstream", &config.upstream), ("openai", &config.openai), ("anthropic", &config.anthropic)] {
        another(key, url, &config.listen)?;
    }
    connection("connection", &config.connection)?;
    config.policy.check("policy")?;
    for (index, route) in config.route.iter().enumerate() {
        let at = format!("route.{index}");
        if !route.path.starts_with('/') || route.path.len() > 1 && route.path.ends_with('/') {
            return Err(Problem::value(
                &format!("{at}.path"),
                format!("{:?}", route.path),
                "a path such as \"/openrouter\", without a slash at its end",
            ));
        }
        if config.route[..index].iter().any(|earlier| earlier.path == route.path) {
            return Err(Problem::value(&format!("{at}.path"), format!("{:?}", route.path), "a path that no route above has"));
        }
        base(&format!("{at}.upstream"), &route.upstream)?;
        another(&format!("{at}.upstream"), &route.upstream, &config.listen)?;
        let fits = |table: &Table| Route { connection: table.clone(), ..Route::default() }.connection(&config.connection).is_ok();
        let problem = |error| kind::problem(&route.connection, &format!("{at}.connection"), "", &error, &fits);
        let own = route.connection(&config.connection).map_err(problem)?;
        connection(&format!("{at}.connection"), &own)?;
        let policy = overlaid(&config.policy, &route.policy, &format!("{at}.policy"))?;
        policy.check(&format!("{at}.policy"))?;
    }
    for (index, model) in config.model.iter().enumerate() {
        let at = format!("model.{index}");
        if model.name.is_empty() {
            return Err(Problem::new(&format!("{at}.name"), "is missing; expected a model's name, in which * stands for anything"));
        }
        let policy = overlaid(&config.policy, &model.policy, &format!("{at}.policy"))?;
        policy.check(&format!("{at}.policy"))?;
    }
    platform::check(config)
}

fn overlaid(policy: &Policy, overlay: &Table, at: &str) -> Result<Policy, Problem> {
    let fits = |table: &Table| policy.overlaid([table]).is_ok();
    policy.overlaid([overlay]).map_err(|error| kind::problem(overlay, at, "", &error, &fits))
}

fn address(key: &str, value: &str) -> Result<SocketAddr, Problem> {
    value.parse().map_err(|_| Problem::value(key, format!("{value:?}"), "an address and port such as \"127.0.0.1:4790\" or \"[::]:4790\""))
}

fn base(key: &str, value: &str) -> Result<(), Problem> {
    Base::parse(value).map(drop).map_err(|accepted| Problem::value(key, format!("{value:?}"), accepted))
}

/// Refuses an upstream that is this proxy: every request would come back to it, for ever.
fn another(key: &str, url: &str, listen: &str) -> Result<(), Problem> {
    let (Ok(base), Ok(listen)) = (Base::parse(url), listen.parse::<SocketAddr>()) else { return Ok(()) };
    let port = base.authority.port_u16().unwrap_or(if base.secure { 443 } else { 80 });
    let host = base.host().parse::<IpAddr>().ok();
    let is_local = base.host() == "localhost" || host.is_some_and(|host| host.is_loopback());
    let is_here =
        host == Some(listen.ip()) || is_local && (listen.ip().is_unspecified() || base.host() == "localhost" && listen.ip().is_loopback());
    match is_here && port == listen.port() {
        true => Err(Problem::value(key, format!("{url:?}"), "another address than `listen`, where this proxy is itself")),
        false => Ok(()),
    }
}

fn connection(at: &str, connection: &Connection) -> Result<(), Problem> {
    let Connection { connect_timeout, response_timeout, idle_timeout, pool_timeout, certificate, key, .. } = connection;
    if certificate.is_empty() != key.is_empty() {
        return Err(Problem::new(at, "certificate and key are needed together"));
    }
    let times = [
        ("connect_timeout", connect_timeout),
        ("response_timeout", response_timeout),
        ("idle_timeout", idle_timeout),
        ("pool_timeout", pool_timeout),
    ];
    times.into_iter().try_for_each(|(key, value)| seconds(&format!("{at}.{key}"), *value))
}
