//! A request body that is named on the command line, and what would hold for it behind the proxy.

use super::presets;
use crate::budget::{Window, models};
use crate::config::{Overrides, Policy, Problem};
use crate::wire::{Format, Request};
use bytes::Bytes;
use clap::Args;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub struct Body {
    /// Wire format: chat, responses or messages. Read from the body where it is not given
    #[arg(long)]
    format: Option<Format>,
    /// The model's context window, in tokens. By default as configured, or that of the model in the built-in table
    #[arg(long, value_name = "TOKENS")]
    window: Option<u64>,
    /// Configuration file, whose policy holds [default: ./plimsoll.toml, then $XDG_CONFIG_HOME/plimsoll/config.toml]
    #[arg(long, value_name = "FILE", env = "PLIMSOLL_CONFIG")]
    config: Option<PathBuf>,
    /// A preset by its name, under the configuration file
    #[arg(long, value_name = "NAME", env = "PLIMSOLL_PRESET", value_parser = presets())]
    preset: Option<String>,
    /// The body, or - for standard input
    file: PathBuf,
}

impl Body {
    pub fn read(&self) -> io::Result<Bytes> {
        bytes(&self.file)
    }

    pub fn format(&self, body: &[u8]) -> Format {
        self.format.unwrap_or_else(|| std::str::from_utf8(body).map_or(Format::Chat, Format::of_body))
    }

    /// What is configured for `model`, where no route says otherwise.
    pub fn policy(&self, model: &str) -> Result<Policy, Problem> {
        let overrides = Overrides { preset: self.preset.clone(), ..Overrides::default() };
        let (config, _) = crate::config::load(self.config.as_deref(), &overrides)?;
        Ok(config.policy_of(model))
    }

    /// Nothing where nobody says.
    pub fn window(&self, request: &Request, policy: &Policy) -> Option<Window> {
        let said = self.window.or(Some(policy.window).filter(|tokens| *tokens > 0));
        said.map(|tokens| Window { tokens, separate_output: false }).or_else(|| models::window(request.model(), ""))
    }
}

/// A file's bytes, or those of standard input. The error names the file.
pub fn bytes(path: &Path) -> io::Result<Bytes> {
    let mut body = Vec::new();
    let read = match path == Path::new("-") {
        true => io::stdin().lock().read_to_end(&mut body),
        false => std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut body)),
    };
    read.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(body.into())
}
