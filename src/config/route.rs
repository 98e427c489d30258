//! Where requests go, and what is different there.

use serde::{Deserialize, Serialize};

use super::{Connection, policy::merge};
use crate::wire::Format;

/// Requests whose path begins with `path` go to `upstream`. The longest path wins; whole segments are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Route {
    pub path: String,
    /// Base URL.
    pub upstream: String,
    /// Take `path` off before the rest is joined to the base URL.
    pub strip: bool,
    pub format: RouteFormat,
    /// The name of a preset, whose policy lies under `policy`.
    pub preset: String,
    /// A secret with the key that goes upstream in place of what the agent sent; empty: the agent's goes.
    pub credential: String,
    /// The header it goes in; empty: `x-api-key` where the format is `messages`, `authorization` otherwise.
    pub credential_header: String,
    /// Overlays `[connection]`.
    pub connection: toml::Table,
    /// Overlays `[policy]`.
    pub policy: toml::Table,
}

impl Default for Route {
    fn default() -> Self {
        Route {
            path: String::new(),
            upstream: String::new(),
            strip: true,
            format: RouteFormat::Auto,
            preset: String::new(),
            credential: String::new(),
            credential_header: String::new(),
            connection: toml::Table::new(),
            policy: toml::Table::new(),
        }
    }
}

impl Route {
    /// Where `credential` goes; the error says what would be accepted.
    pub fn header(&self) -> Result<http::HeaderName, &'static str> {
        match self.credential_header.as_str() {
            "" if self.format == RouteFormat::Messages => Ok(http::HeaderName::from_static("x-api-key")),
            "" => Ok(http::header::AUTHORIZATION),
            name => name.parse().map_err(|_| "a header's name such as \"api-key\""),
        }
    }

    /// The connection settings of this route.
    pub fn connection(&self, global: &Connection) -> Result<Connection, toml::de::Error> {
        let mut table = toml::Table::try_from(global).unwrap_or_default();
        merge(&mut table, &self.connection);
        table.try_into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RouteFormat {
    /// By the last segments of the path.
    Auto,
    /// Every POST of this route is of this format.
    Chat,
    Responses,
    Messages,
    /// Nothing is read, everything passes.
    None,
}

impl RouteFormat {
    pub fn of(self, path: &str) -> Option<Format> {
        match self {
            RouteFormat::Auto => Format::of_path(path),
            RouteFormat::Chat => Some(Format::Chat),
            RouteFormat::Responses => Some(Format::Responses),
            RouteFormat::Messages => Some(Format::Messages),
            RouteFormat::None => None,
        }
    }
}

/// Models whose name matches `name`, in which `*` stands for anything. Later entries win over earlier ones, routes over both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    pub name: String,
    /// The name of a preset, whose policy lies under `policy`.
    pub preset: String,
    /// Overlays `[policy]`.
    pub policy: toml::Table,
}

impl Model {
    pub fn matches(&self, model: &str) -> bool {
        let mut parts = self.name.split('*');
        let Some(mut rest) = model.strip_prefix(parts.next().unwrap_or_default()) else { return false };
        let parts: Vec<&str> = parts.collect();
        let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
        for part in middle {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}
