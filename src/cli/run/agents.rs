//! Agents that do not read the variables, and what helps.

use std::{ffi::OsStr, path::Path};

use serde::Deserialize;

const TABLE: &str = include_str!("agents.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    agent: Vec<Agent>,
}

/// `{openai}` and `{anthropic}` stand for the base URLs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The name of its program.
    pub name: String,
    /// Arguments that go before its own.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// What to tell the user where no argument helps.
    #[serde(default)]
    pub hint: String,
}

/// What is known about `program`, by the name of its file. A table that cannot be read knows nothing; a test reads it.
pub fn of(program: &OsStr) -> Option<Agent> {
    let name = Path::new(program).file_name()?;
    toml::from_str::<Table>(TABLE).ok()?.agent.into_iter().find(|agent| name == agent.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_of_the_table_can_be_helped() {
        for agent in toml::from_str::<Table>(TABLE).unwrap().agent {
            let words = agent.arguments.concat() + &agent.hint;
            assert!(words.contains("{openai}") || words.contains("{anthropic}"), "{} is not told where the proxy is", agent.name);
        }
        assert!(of(OsStr::new("/usr/local/bin/codex")).is_some_and(|agent| !agent.arguments.is_empty()));
        assert!(of(OsStr::new("sh")).is_none());
    }
}
