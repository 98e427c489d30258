//! `plimsoll check`

use std::{
    io::{self, Write},
    process::ExitCode,
};

use http::HeaderMap;

use super::{Flags, refuse};
use crate::{
    budget::models,
    config::Config,
    proxy::{Route, Routes},
};

#[derive(clap::Args)]
pub struct Check {
    #[command(flatten)]
    flags: Flags,
    /// Only what holds for this model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Only where a request for this path goes
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Print every knob of this version, with its default and a sentence, instead
    #[arg(long)]
    reference: bool,
}

impl Check {
    pub fn run(self) -> io::Result<ExitCode> {
        let mut out = io::stdout().lock();
        if self.reference {
            write!(out, "# Plimsoll {}\n{}", env!("CARGO_PKG_VERSION"), crate::config::REFERENCE)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (config, file) = match self.flags.load() {
            Ok(loaded) => loaded,
            Err(problem) => return Ok(refuse(&problem)),
        };
        // Secrets are where the proxy runs, which need not be here.
        let mut without_secrets = config.clone();
        without_secrets.credential = Default::default();
        without_secrets.route.iter_mut().for_each(|route| route.credential.clear());
        let routes = match Routes::new(&without_secrets, None) {
            Ok(routes) => routes,
            Err(problem) => return Ok(refuse(&crate::config::Problem { file, ..problem })),
        };
        writeln!(out, "# {}", file.map_or_else(|| "no configuration file".into(), |file| file.display().to_string()))?;
        match &self.path {
            Some(path) => {
                let (path, query) = path.split_once('?').map_or((path.as_str(), None), |(path, query)| (path, Some(query)));
                let (route, rest) = routes.of(path, &HeaderMap::new());
                self.print_route(&mut out, &config, route)?;
                match route.target(rest, query) {
                    Some(target) => writeln!(out, "\n# {path} goes to {target}")?,
                    None => writeln!(out, "\n# {path} is no path")?,
                }
                if route.format.of(rest).is_none() {
                    writeln!(out, "# and is not read: it is no path of a chat")?;
                }
            }
            None => {
                print_platform(&mut out, &config)?;
                routes.all().try_for_each(|route| self.print_route(&mut out, &config, route))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Where a route goes, and the policy there: for one model, or for each that is configured and for all others.
    fn print_route(&self, out: &mut dyn Write, config: &Config, route: &Route) -> io::Result<()> {
        writeln!(out, "\n# route {}: to {}", route.name, route.pool.base)?;
        let models: Vec<&str> = match &self.model {
            Some(model) => vec![model],
            None => std::iter::once("").chain(config.model.iter().map(|model| model.name.as_str())).collect(),
        };
        for model in models {
            let policy = &route.policies.of(model).policy;
            let window = match policy.window {
                0 => models::window(model, route.pool.base.host()).map_or_else(
                    || "not known by name: asked from upstream, or learnt".into(),
                    |window| format!("{} tokens by name, unless upstream says otherwise", window.tokens),
                ),
                tokens => format!("{tokens} tokens"),
            };
            writeln!(out, "# model {}; window {window}", if model.is_empty() { "(any other)" } else { model })?;
            let policy = toml::Table::from_iter([("policy".to_owned(), toml::Value::Table(policy.table()))]);
            write!(out, "{}", toml::to_string(&policy).unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Everything but policies. Secrets are named there, never written.
fn print_platform(out: &mut dyn Write, config: &Config) -> io::Result<()> {
    let mut table = toml::Table::try_from(config).unwrap_or_default();
    ["policy", "model"].into_iter().for_each(|key| drop(table.remove(key)));
    write!(out, "{}", toml::to_string(&table).unwrap_or_default())
}
