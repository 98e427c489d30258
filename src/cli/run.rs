//! `plimsoll run -- CMD…`: a proxy for one command, which finds it by itself.

mod agents;
mod signals;

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use tokio::process::Command;

use super::{Flags, refuse};
use crate::config::{Base, Config, Level, Problem, Tls};
use crate::proxy::{decide::Decide, lifecycle, log};
use signals::Signals;

/// As shells say that a command is not there, and that it cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

const EXAMPLES: &str = "\
The command gets OPENAI_BASE_URL, OPENAI_API_BASE and ANTHROPIC_BASE_URL, this terminal, and its own exit code passed on. Where these variables are \
set already and nothing else says where requests go, they go where the variables said, by way of Plimsoll. The proxy takes a free port of this \
machine and ends with the command; of its log only warnings are written, to standard error.

Examples:
  plimsoll run -- claude
  plimsoll run -- codex exec \"fix the failing test\"
  plimsoll run --upstream http://127.0.0.1:8080 --window 32768 -- aider
  plimsoll run --log-level info -- python agent.py 2>exchanges.log";

/// Run a command behind a proxy of its own
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    #[command(flatten)]
    flags: Flags,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

impl Run {
    pub fn run(self) -> ExitCode {
        let (config, file) = match self.config() {
            Ok(loaded) => loaded,
            Err(problem) => return refuse(&problem),
        };
        log::init(&config.log, log::Stream::Error);
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return super::failed(error),
        };
        let end = runtime.block_on(async {
            let running = lifecycle::start(&config, Decide::default(), self.flags.admin.is_some())
                .await
                .map_err(|problem| refuse(&Problem { file, ..problem }))?;
            let (program, arguments) = self.command.split_first().ok_or(ExitCode::from(super::USAGE))?;
            let code = accompany(command(program, arguments, running.address, self.flags.listen.is_some()), program).await;
            // Nobody is left to answer when the command has ended, so nothing is drained.
            running.flush().await;
            Ok::<_, ExitCode>(code)
        });
        runtime.shutdown_background();
        end.unwrap_or_else(|code| code)
    }

    /// The configuration as it is for one command, and its file.
    fn config(&self) -> Result<(Config, Option<std::path::PathBuf>), Problem> {
        let (mut config, file) = self.flags.load()?;
        config.listen = self.flags.listen.clone().unwrap_or_else(|| "127.0.0.1:0".into());
        // The command would have to trust a certificate that was made for somebody else.
        config.tls = Tls::default();
        if self.flags.admin.is_none() {
            config.admin = "off".into();
        }
        if self.flags.log_level.is_none() {
            config.log.level = Level::Warn;
        }
        upstreams_of_environment(&mut config, |name| std::env::var(name).ok())?;
        Ok((config, file))
    }
}

/// Gateways that the environment names stay in use, behind us.
fn upstreams_of_environment(config: &mut Config, variable: impl Fn(&str) -> Option<String>) -> Result<(), Problem> {
    let defaults = Config::default();
    if !config.upstream.is_empty() {
        return Ok(());
    }
    let families: [(&mut String, String, &[&str]); 2] = [
        (&mut config.openai, defaults.openai, &["OPENAI_BASE_URL", "OPENAI_API_BASE"]),
        (&mut config.anthropic, defaults.anthropic, &["ANTHROPIC_BASE_URL"]),
    ];
    for (upstream, default, names) in families {
        let named = names.iter().find_map(|name| Some((name, variable(name).filter(|url| !url.is_empty())?)));
        let Some((name, url)) = named.filter(|_| *upstream == default) else { continue };
        Base::parse(&url).map_err(|accepted| Problem {
            file: None,
            key: name.to_string(),
            what: format!("its value is not accepted; expected {accepted}"),
        })?;
        *upstream = url;
    }
    Ok(())
}

/// The command, told where the proxy is. `stays`: it will be there the next time too.
fn command(program: &OsStr, arguments: &[OsString], proxy: SocketAddr, stays: bool) -> Command {
    let root = format!("http://{}", reachable(proxy));
    let openai = format!("{root}/v1");
    let mut command = Command::new(program);
    if let Some(agent) = agents::of(program) {
        let fill = |text: &str| text.replace("{openai}", &openai).replace("{anthropic}", &root);
        command.args(agent.arguments.iter().map(|argument| fill(argument)));
        if !agent.hint.is_empty() {
            let next_time = if stays { "" } else { "; with --listen 127.0.0.1:4790 that port stays the same" };
            eprintln!("plimsoll: {} does not read OPENAI_BASE_URL or ANTHROPIC_BASE_URL; set {}{next_time}", agent.name, fill(&agent.hint));
        }
    }
    command.args(arguments).env("OPENAI_BASE_URL", &openai).env("OPENAI_API_BASE", &openai).env("ANTHROPIC_BASE_URL", &root);
    command
}

/// Where something that listens at `address` is found from this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        address => address,
    }
}

/// Runs the command to its end.
async fn accompany(mut command: Command, program: &OsStr) -> ExitCode {
    // Before the command is there: a signal in between would end us and leave it behind.
    let mut signals = match Signals::new() {
        Ok(signals) => signals,
        Err(error) => return super::failed(error),
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("plimsoll: cannot run {}: {error}", program.display());
            return ExitCode::from(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN });
        }
    };
    loop {
        tokio::select! {
            status = child.wait() => return status.map_or_else(super::failed, code),
            signal = signals.next() => signals::send(&child, signal),
        }
    }
}

/// As shells put it: 128 and the signal's number where a signal ended it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_of_the_environment_stay_unless_something_else_was_said() {
        let check = |config: Config, variables: &[(&str, &str)], openai: &str, anthropic: &str| {
            let mut config = config;
            let variable = |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.to_string());
            upstreams_of_environment(&mut config, variable).unwrap();
            assert_eq!((config.openai.as_str(), config.anthropic.as_str()), (openai, anthropic));
        };
        let (openai, anthropic) = ("https://api.openai.com", "https://api.anthropic.com");
        let both = [("OPENAI_BASE_URL", "http://g/v1"), ("OPENAI_API_BASE", "http://old/v1"), ("ANTHROPIC_BASE_URL", "http://g/a")];
        check(Config::default(), &[], openai, anthropic);
        check(Config::default(), &both, "http://g/v1", "http://g/a");
        check(Config::default(), &both[1..2], "http://old/v1", anthropic);
        check(Config::default(), &[("OPENAI_BASE_URL", "")], openai, anthropic);
        check(Config { upstream: "http://flag".into(), ..Config::default() }, &both, openai, anthropic);
        check(Config { openai: "http://file".into(), ..Config::default() }, &both, "http://file", "http://g/a");
    }
}
