//! The command line.

mod body;
mod check;
mod classify;
mod compact;
mod completions;
mod demo;
mod explain;
mod metrics;
mod run;
mod serve;

use clap::{Args, Parser, Subcommand, error::ErrorKind};
use std::{path::PathBuf, process::ExitCode};

use crate::config::{Config, Level, LogFormat, Overrides, Problem};
use crate::proxy::reload::Source;

/// What a wrong command line and a wrong configuration exit with (`EX_USAGE`).
pub const USAGE: u8 = 64;

const ABOUT: &str = "A transparent reverse proxy that keeps agents' requests under their model's context window";

/// What somebody who has never heard of it has to know.
const INTRODUCTION: &str = "\
Agents re-send their whole history with every request, until it no longer fits into the model's context window. Plimsoll stands between agent and \
provider and compacts that history in flight: tool calls stay with their results, and the task, the user's rules and the newest turn stay as they \
are. What fits goes through byte for byte. If the provider still says \"too long\", it is asked once more with less.

An agent needs nothing but an address: OPENAI_BASE_URL=http://127.0.0.1:4790/v1 or ANTHROPIC_BASE_URL=http://127.0.0.1:4790. Its key goes \
through untouched.";

/// The shortest way to each use.
const EXAMPLES: &str = "\
Examples:
  plimsoll demo                                    see what it does, without a key
  plimsoll run -- claude                           an agent behind a proxy of its own
  plimsoll serve --upstream http://127.0.0.1:8080  in front of a local server, for every agent that has its address
  plimsoll explain request.json                    where the tokens of a request are
  plimsoll check                                   what the configuration comes to
  plimsoll completions fish > ~/.config/fish/completions/plimsoll.fish";

#[derive(Parser)]
#[command(name = "plimsoll", version, about = ABOUT, long_about = format!("{ABOUT}.\n\n{INTRODUCTION}"), after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the proxy, for every agent that has its address
    Serve(serve::Serve),
    Run(run::Run),
    Demo(demo::Demo),
    Classify(classify::Classify),
    Compact(compact::Compact),
    Explain(explain::Explain),
    Metrics(metrics::Metrics),
    /// Print what the configuration resolves to, for one route and model or for all
    Check(check::Check),
    Completions(completions::Completions),
}

/// Flags that change the configuration, for every subcommand that reads it.
#[derive(Args, Clone, Default)]
struct Flags {
    /// Configuration file [default: ./plimsoll.toml, then $XDG_CONFIG_HOME/plimsoll/config.toml]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CONFIG")]
    config: Option<PathBuf>,
    /// A preset by its name, under the configuration file
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_PRESET", value_parser = presets())]
    preset: Option<String>,
    /// Address and port for agents [default: 127.0.0.1:4790]
    #[arg(long, value_name = "ADDRESS", env = "PLIMSOLL_LISTEN")]
    listen: Option<String>,
    /// Base URL for every API [default: api.openai.com and api.anthropic.com, by what is asked]
    #[arg(long, value_name = "URL", env = "PLIMSOLL_UPSTREAM")]
    upstream: Option<String>,
    /// Tokens that fit into the window of every model [default: by the model's name]
    #[arg(long, value_name = "TOKENS", env = "PLIMSOLL_WINDOW")]
    window: Option<u64>,
    /// Address and port for health and metrics, or "off" [default: 127.0.0.1:4791]
    #[arg(long, value_name = "ADDRESS", env = "PLIMSOLL_ADMIN")]
    admin: Option<String>,
    /// What is logged [default: info]
    #[arg(long, value_name = "LEVEL", env = "PLIMSOLL_LOG_LEVEL")]
    log_level: Option<Level>,
    /// How it is logged [default: auto]
    #[arg(long, value_name = "FORMAT", env = "PLIMSOLL_LOG_FORMAT")]
    log_format: Option<LogFormat>,
}

impl Flags {
    fn load(&self) -> Result<(Config, Option<PathBuf>), Problem> {
        let Source { file, overrides } = self.source();
        crate::config::load(file.as_deref(), &overrides)
    }

    /// Where the configuration comes from.
    fn source(&self) -> Source {
        let Flags { config, preset, listen, upstream, window, admin, log_level, log_format } = self.clone();
        Source { file: config, overrides: Overrides { preset, listen, admin, upstream, window, log_level, log_format, traces: None } }
    }
}

fn presets() -> clap::builder::PossibleValuesParser {
    crate::config::PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>().into()
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return ExitCode::from(if asked_for { 0 } else { USAGE });
        }
    };
    match cli.command {
        Command::Serve(serve) => serve.run(),
        Command::Run(run) => run.run(),
        Command::Demo(demo) => demo.run(),
        Command::Completions(completions) => completions.run().unwrap_or_else(failed),
        Command::Check(check) => check.run().unwrap_or_else(failed),
        Command::Classify(classify) => classify.run().unwrap_or_else(failed),
        Command::Compact(compact) => compact.run().unwrap_or_else(failed),
        Command::Explain(explain) => explain.run().unwrap_or_else(failed),
        Command::Metrics(metrics) => metrics.run().unwrap_or_else(failed),
    }
}

/// Says what could not be read or written. Who has read enough closes the pipe, and that is no failure.
fn failed(error: std::io::Error) -> ExitCode {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return ExitCode::SUCCESS;
    }
    eprintln!("plimsoll: {error}");
    ExitCode::FAILURE
}

/// Says what is wrong with the configuration.
fn refuse(problem: &Problem) -> ExitCode {
    eprintln!("plimsoll: {problem}");
    ExitCode::from(USAGE)
}
