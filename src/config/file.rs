//! Finds the configuration file, reads it, and refuses what it cannot mean.

use std::{
    env, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use super::{Config, Connection, Model, Overrides, Policy, Problem, Route, kind, preset};

/// The configuration, and the file it came from. Without `file`, `./plimsoll.toml` and then `$XDG_CONFIG_HOME/plimsoll/config.toml` are
/// looked for; that neither exists is no problem.
pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<(Config, Option<PathBuf>), Problem> {
    let found = find(file);
    let blame = |problem: Problem| Problem { file: found.clone(), ..problem };
    let text = match &found {
        Some(file) => fs::read_to_string(file).map_err(|error| blame(Problem::new("", unreadable(&error))))?,
        None => String::new(),
    };
    let mut config = parse(&text, overrides.preset.as_deref()).map_err(blame)?;
    check(&config).map_err(blame)?;
    overrides.apply(&mut config);
    check(&config)?;
    Ok((config, found))
}

/// The file that is read.
pub fn find(file: Option<&Path>) -> Option<PathBuf> {
    match file {
        Some(file) => Some(file.to_owned()),
        None => places().find(|place| place.is_file()),
    }
}

fn places() -> impl Iterator<Item = PathBuf> {
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    let folder = env::var_os("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from).or_else(home);
    [Some(PathBuf::from("plimsoll.toml")), folder.map(|folder| folder.join("plimsoll/config.toml"))].into_iter().flatten()
}

fn unreadable(error: &io::Error) -> String {
    format!("cannot be read: {error}")
}

/// The configuration that `text` spells, over the preset that it names, or `preset` instead.
pub(super) fn parse(text: &str, preset: Option<&str>) -> Result<Config, Problem> {
    let table: Table = text.parse().map_err(|error| Problem::new("", format!("not TOML: {}", kind::said(text, &error))))?;
    let empty = Table::new();
    known(&table, &sample(&Config::default()), "")?;
    for (index, route) in tables(&table, "route").enumerate() {
        let at = format!("route.{index}");
        known(route, &sample(&Route::default()), &at)?;
        known(inner(route, "policy").unwrap_or(&empty), &Policy::default().table(), &format!("{at}.policy"))?;
        known(inner(route, "connection").unwrap_or(&empty), &sample(&Connection::default()), &format!("{at}.connection"))?;
    }
    for (index, model) in tables(&table, "model").enumerate() {
        known(model, &sample(&Model::default()), &format!("model.{index}"))?;
        known(inner(model, "policy").unwrap_or(&empty), &Policy::default().table(), &format!("model.{index}.policy"))?;
    }
    let becomes = |table: &Table| table.clone().try_into::<Config>().is_ok();
    // Read as it stands first, so that what is wrong with it is told by its line.
    let config = toml::from_str(text).map_err(|error| kind::problem(&table, "", text, &error, &becomes))?;
    match preset::under(table, preset)? {
        Some(table) => table.clone().try_into().map_err(|error| kind::problem(&table, "", "", &error, &becomes)),
        None => Ok(config),
    }
}

/// What a struct looks like with all its keys.
fn sample(value: &impl serde::Serialize) -> Table {
    Table::try_from(value).unwrap_or_default()
}

fn inner<'a>(table: &'a Table, key: &str) -> Option<&'a Table> {
    table.get(key).and_then(Value::as_table)
}

fn tables<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

/// Every key of `table` is one of `sample`, all the way down. Empty tables in the sample take any key.
fn known(table: &Table, sample: &Table, at: &str) -> Result<(), Problem> {
    let path = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    for (key, value) in table {
        match (value, sample.get(key)) {
            (_, None) => return Err(Problem::unknown(&path(key), &sample.keys().map(String::as_str).collect::<Vec<_>>())),
            (Value::Table(table), Some(Value::Table(sample))) if !sample.is_empty() => known(table, sample, &path(key))?,
            _ => {}
        }
    }
    Ok(())
}

/// Values that parse but cannot be meant.
fn check(config: &Config) -> Result<(), Problem> {
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
        base(&format!("{at}.upstream"), &route.upstream)?;
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
    super::platform::check(config)
}

fn overlaid(policy: &Policy, overlay: &Table, at: &str) -> Result<Policy, Problem> {
    let fits = |table: &Table| policy.overlaid([table]).is_ok();
    policy.overlaid([overlay]).map_err(|error| kind::problem(overlay, at, "", &error, &fits))
}

fn address(key: &str, value: &str) -> Result<SocketAddr, Problem> {
    value.parse().map_err(|_| Problem::value(key, format!("{value:?}"), "an address and port such as \"127.0.0.1:4790\" or \"[::]:4790\""))
}

fn base(key: &str, value: &str) -> Result<(), Problem> {
    super::Base::parse(value).map(drop).map_err(|accepted| Problem::value(key, format!("{value:?}"), accepted))
}

pub(super) fn seconds(key: &str, value: f64) -> Result<(), Problem> {
    match value.is_finite() && (0.0..=31_536_000.0).contains(&value) {
        true => Ok(()),
        false => Err(Problem::number(key, value, "a number of seconds")),
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
