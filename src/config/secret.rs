//! Secrets are named in the configuration, never written there: `file:/path` or `env:NAME`.

use std::{env, fs, path::PathBuf};

use super::Problem;

const ACCEPTED: &str = "\"file:/path\" or \"env:NAME\"";

/// The secret that `named` names, without white space at its ends; nothing where nothing is named. Read anew at each call.
pub fn read(key: &str, named: &str) -> Result<Option<String>, Problem> {
    let found = match named.split_once(':') {
        None if named.is_empty() => return Ok(None),
        Some(("file", path)) => fs::read_to_string(path)
            .map_err(|error| Problem::new(key, format!("{path} cannot be read: {error}; expected a file with the secret in it")))?,
        Some(("env", name)) => env::var(name)
            .map_err(|_| Problem::new(key, format!("the environment has no {name}; expected a variable with the secret in it")))?,
        _ => return Err(refused(key)),
    };
    match found.trim() {
        "" => Err(Problem::new(key, format!("{named} is empty; expected the secret in it"))),
        secret => Ok(Some(secret.to_owned())),
    }
}

/// The file that is read.
pub fn file(named: &str) -> Option<PathBuf> {
    named.strip_prefix("file:").map(PathBuf::from)
}

pub(super) fn check(key: &str, named: &str) -> Result<(), Problem> {
    match named.is_empty() || ["file:", "env:"].iter().any(|scheme| named.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty())) {
        true => Ok(()),
        false => Err(refused(key)),
    }
}

/// Does not repeat what stands there: it may be the secret itself.
fn refused(key: &str) -> Problem {
    Problem::new(key, format!("is not accepted; a secret does not stand in the configuration, expected {ACCEPTED}"))
}
