//! `plimsoll demo`: an agent that dies of its own history, and the same agent behind Plimsoll. No key, no network: provider and agent are
//! built in and play a script, and every request of theirs goes over real sockets.

mod agent;
mod provider;
mod script;
mod show;

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use crate::config::{Config, Level, Log, LogFormat};
use crate::proxy::{decide::Decide, lifecycle, log};
use agent::play;
use provider::Provider;
use script::Script;
use show::Table;

/// Watch an agent outgrow its model's window, without and with Plimsoll (no key, no network)
#[derive(clap::Args)]
pub struct Demo {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub fn run(self) -> ExitCode {
        log::init(&Log { level: Level::Off, format: LogFormat::Auto }, log::Stream::Error);
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return super::failed(error),
        };
        let finished = runtime.block_on(self.both());
        runtime.shutdown_background();
        match finished {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => super::failed(error),
        }
    }

    /// Plays the session twice. Whether the agent behind Plimsoll finished.
    async fn both(&self) -> io::Result<bool> {
        let script = Script::built_in()?;
        let alone = {
            let provider = Provider::start(&script).await?;
            play(&script, &provider, provider.address, |_, _| Ok(())).await?
        };
        let table = Table::of(&script, &alone);
        if !self.json {
            table.begin()?;
        }
        let provider = Provider::start(&script).await?;
        let behind =
            play(&script, &provider, proxy(provider.address).await?, |n, turn| if self.json { Ok(()) } else { table.turn(n, turn) })
                .await?;
        if self.json {
            show::json(&script, &alone, &behind)?
        } else {
            table.end(&behind)?
        }
        Ok(behind.finished)
    }
}

/// A Plimsoll as anybody runs it, but for its port. It has to find out by itself how much the model takes.
async fn proxy(upstream: SocketAddr) -> io::Result<SocketAddr> {
    let config = Config { listen: "127.0.0.1:0".into(), admin: "off".into(), upstream: format!("http://{upstream}"), ..Config::default() };
    let running = lifecycle::start(&config, Decide::default(), false).await;
    Ok(running.map_err(|problem| io::Error::other(problem.to_string()))?.address)
}
