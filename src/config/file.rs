//! Finds the configuration file, reads it, and refuses keys that it does not have.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use super::{Config, Connection, Model, Overrides, Policy, Problem, Route, check, kind, preset};

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
    check::check(&config).map_err(blame)?;
    overrides.apply(&mut config);
    check::check(&config)?;
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

/// Where below `sample` there is such a key.
fn place_of(key: &str, sample: &Table) -> Option<String> {
    let tables = || sample.iter().filter_map(|(name, value)| Some((name, value.as_table()?)));
    let here = tables().find(|(_, table)| table.contains_key(key)).map(|(name, _)| format!("{name}.{key}"));
    here.or_else(|| tables().find_map(|(name, table)| Some(format!("{name}.{}", place_of(key, table)?))))
}

/// Every key of `table` is one of `sample`, all the way down. Empty tables in the sample take any key.
fn known(table: &Table, sample: &Table, at: &str) -> Result<(), Problem> {
    let path = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    for (key, value) in table {
        match (value, sample.get(key)) {
            (_, None) => {
                let known = Problem::unknown(&path(key), &sample.keys().map(String::as_str).collect::<Vec<_>>());
                let elsewhere = place_of(key, sample).map(|place| format!("; did you mean {}?", path(&place)));
                return Err(Problem { what: known.what + &elsewhere.unwrap_or_default(), ..known });
            }
            (Value::Table(table), Some(Value::Table(sample))) if !sample.is_empty() => known(table, sample, &path(key))?,
            _ => {}
        }
    }
    Ok(())
}
