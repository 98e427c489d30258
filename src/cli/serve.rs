//! `plimsoll serve`

use std::process::ExitCode;

use super::{Flags, refuse};
use crate::config::{self, Config, Problem};
use crate::proxy::{
    decide::Decide,
    lifecycle::{self, Running},
    log,
    reload::Source,
};

#[derive(clap::Args)]
pub struct Serve {
    #[command(flatten)]
    flags: Flags,
    /// Base URL of a collector that takes traces, as OTLP over HTTP [default: none]
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    traces: Option<String>,
}

impl Serve {
    pub fn run(self) -> ExitCode {
        let source = self.source();
        let (config, file) = match config::load(source.file.as_deref(), &source.overrides) {
            Ok(loaded) => loaded,
            Err(problem) => return refuse(&problem),
        };
        log::init(&config.log, log::Stream::Output);
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                eprintln!("plimsoll: cannot start: {error}");
                return ExitCode::FAILURE;
            }
        };
        // An admin address that differs from the default was asked for, wherever it was said.
        let admin_is_asked_for = self.flags.admin.is_some() || config.admin != Config::default().admin;
        lifecycle::raise_limits();
        let end = runtime.block_on(async {
            let signals = lifecycle::Signals::new().map_err(super::failed)?;
            let running = start(&config, source, admin_is_asked_for).await.map_err(|problem| {
                // Files that the configuration names are opened at the start; blame the file that names them.
                refuse(&Problem { file: file.clone(), ..problem })
            })?;
            lifecycle::run(running, signals).await.map_err(super::failed)
        });
        runtime.shutdown_background();
        end.map_or_else(|code| code, |()| ExitCode::SUCCESS)
    }

    /// For `run` that variable is the command's, so only here it is ours.
    fn source(&self) -> Source {
        let mut source = self.flags.source();
        source.overrides.traces = self.traces.clone().filter(|url| !url.is_empty());
        source
    }
}

async fn start(config: &Config, source: Source, admin_is_asked_for: bool) -> Result<Running, Problem> {
    lifecycle::start_from(config, Some(source), Decide::new(config)?, admin_is_asked_for).await
}
