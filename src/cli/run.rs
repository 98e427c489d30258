//! `plimsoll run -- CMD…`: a proxy for one command, which finds it by itself.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

use serde::Deserialize;

use super::{Flags, refuse};
use crate::config::{Config, Level, Problem};
use crate::proxy::{decide::Decide, lifecycle, log};

/// Run a command behind a proxy of its own
#[derive(clap::Args)]
pub struct Run {
    #[command(flatten)]
    flags: Flags,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Agents that do not read the variables, and what helps.
const AGENTS: &str = include_str!("run/agents.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Agents {
    agent: Vec<Agent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Agent {
    /// The name of the program.
    name: String,
    /// Arguments that go before its own, `{openai}` and `{anthropic}` standing for the base URLs.
    #[serde(default)]
    arguments: Vec<String>,
    /// What to tell the user where no argument helps.
    #[serde(default)]
    hint: String,
}

impl Run {
    pub fn run(self) -> ExitCode {
        let (mut config, _) = match self.flags.load() {
            Ok(loaded) => loaded,
            Err(problem) => return refuse(&problem),
        };
        config.listen = self.flags.listen.clone().unwrap_or_else(|| "127.0.0.1:0".into());
        if self.flags.admin.is_none() {
            config.admin = "off".into();
        }
        // The terminal is the command's.
        if self.flags.log_level.is_none() {
            config.log.level = Level::Warn;
        }
        upstreams_of_environment(&mut config);
        log::init(&config.log);
        match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => {
                let end = runtime.block_on(run(&config, &self.command));
                runtime.shutdown_background();
                end.unwrap_or_else(|problem| refuse(&problem))
            }
            Err(error) => super::failed(error),
        }
    }
}

/// Gateways that the environment names stay in use, behind us.
fn upstreams_of_environment(config: &mut Config) {
    let defaults = Config::default();
    let named = |name: &str| std::env::var(name).ok().filter(|url| !url.is_empty());
    if !config.upstream.is_empty() {
        return;
    }
    if let Some(url) = named("OPENAI_BASE_URL").or_else(|| named("OPENAI_API_BASE")).filter(|_| config.openai == defaults.openai) {
        config.openai = url;
    }
    if let Some(url) = named("ANTHROPIC_BASE_URL").filter(|_| config.anthropic == defaults.anthropic) {
        config.anthropic = url;
    }
}

async fn run(config: &Config, command: &[OsString]) -> Result<ExitCode, Problem> {
    let running = lifecycle::start(config, Decide::default(), false).await?;
    let root = format!("http://{}", running.address);
    let openai = format!("{root}/v1");
    let Some((program, arguments)) = command.split_first() else { return Ok(ExitCode::from(super::USAGE)) };

    let mut child = tokio::process::Command::new(program);
    child.env("OPENAI_BASE_URL", &openai).env("OPENAI_API_BASE", &openai).env("ANTHROPIC_BASE_URL", &root);
    let agents: Agents =
        toml::from_str(AGENTS).map_err(|error| Problem { file: None, key: "agents".into(), what: error.message().to_owned() })?;
    let name = std::path::Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    if let Some(agent) = agents.agent.iter().find(|agent| agent.name == name) {
        let fill = |text: &str| text.replace("{openai}", &openai).replace("{anthropic}", &root);
        child.args(agent.arguments.iter().map(|argument| fill(argument)));
        if !agent.hint.is_empty() {
            eprintln!("plimsoll: {name} does not read the variables; set {}", fill(&agent.hint));
        }
    }
    child.args(arguments);
    let mut child = match child.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("plimsoll: cannot run {name}: {error}");
            return Ok(ExitCode::from(if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }));
        }
    };
    // A signal from the keyboard reaches the command too; it decides what becomes of it.
    let status = tokio::select! {
        status = child.wait() => status,
        never = ignore_interrupts() => match never {},
    };
    running.drain().await;
    Ok(match status {
        Ok(status) => ExitCode::from(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8),
        Err(error) => super::failed(error),
    })
}

/// While it runs SIGINT does not end this process.
async fn ignore_interrupts() -> std::convert::Infallible {
    loop {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
