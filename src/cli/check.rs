//! `plimsoll check`

use std::process::ExitCode;

use http::HeaderMap;

use super::{Flags, refuse};
use crate::{
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
    pub fn run(self) -> ExitCode {
        if self.reference {
            print!("# Plimsoll {}\n{}", env!("CARGO_PKG_VERSION"), crate::config::REFERENCE);
            return ExitCode::SUCCESS;
        }
        let (config, file) = match self.flags.load() {
            Ok(loaded) => loaded,
            Err(problem) => return refuse(&problem),
        };
        // Secrets are where the proxy runs, which need not be here.
        let mut without_secrets = config.clone();
        without_secrets.credential = Default::default();
        without_secrets.route.iter_mut().for_each(|route| route.credential.clear());
        let routes = match Routes::new(&without_secrets, None) {
            Ok(routes) => routes,
            Err(problem) => return refuse(&crate::config::Problem { file, ..problem }),
        };
        println!("# {}", file.map_or_else(|| "no configuration file".into(), |file| file.display().to_string()));
        match &self.path {
            Some(path) => {
                let (path, query) = path.split_once('?').map_or((path.as_str(), None), |(path, query)| (path, Some(query)));
                let (route, rest) = routes.of(path, &HeaderMap::new());
                print_route(&config, route, self.model.as_deref());
                match route.target(rest, query) {
                    Some(target) => println!("# {path} goes to {target}"),
                    None => println!("# {path} is no path"),
                }
            }
            None => {
                print_table("", &[("listen", &config.listen), ("admin", &config.admin)]);
                routes.all().for_each(|route| print_route(&config, route, self.model.as_deref()));
            }
        }
        ExitCode::SUCCESS
    }
}

fn print_route(config: &Config, route: &Route, model: Option<&str>) {
    println!();
    print_table("route", &[("name", &route.name), ("upstream", &route.pool.base.to_string())]);
    let models: Vec<&str> = match model {
        Some(model) => vec![model],
        None => std::iter::once("").chain(config.model.iter().map(|model| model.name.as_str())).collect(),
    };
    for model in models {
        println!("[policy] # {}", if model.is_empty() { "any other model" } else { model });
        print!("{}", toml::to_string(&route.policies.of(model).policy).unwrap_or_default());
    }
}

fn print_table(name: &str, pairs: &[(&str, &String)]) {
    if !name.is_empty() {
        println!("[{name}]");
    }
    pairs.iter().for_each(|(key, value)| println!("{key} = {value:?}"));
}
