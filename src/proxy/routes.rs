//! Which upstream a request goes to. Its path and, between the two defaults, the kind of its credential decide; nothing else that the
//! agent says can send it elsewhere.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use http::{HeaderMap, HeaderName, header::AUTHORIZATION};

use super::{access::Credential, pool::Pool, target};
use crate::{
    config::{Base, Config, Connection, Model, Policy, Problem, RouteFormat},
    wire::Format,
};

/// An upstream, and what holds for requests that go there.
pub struct Route {
    /// `openai`, `anthropic`, or the configured path.
    pub name: String,
    pub prefix: String,
    pub strip: bool,
    pub format: RouteFormat,
    pub pool: Arc<Pool>,
    /// What goes upstream in place of the agent's own.
    pub credential: Option<Credential>,
    pub policies: Policies,
}

pub struct Routes {
    /// Longest prefix first.
    table: Vec<Arc<Route>>,
    openai: Arc<Route>,
    anthropic: Arc<Route>,
}

impl Routes {
    /// `earlier` ones lend their connections to upstreams that stay what they were.
    pub fn new(config: &Config, earlier: Option<&Routes>) -> Result<Routes, Problem> {
        let pool = |key: &str, url: &str, connection: Connection| pool(key, url, connection, earlier);
        let default = |name: &str, pool: Arc<Pool>, credential: Option<Credential>| {
            let policies = Policies::new(config, None);
            let (prefix, strip, format) = (String::new(), false, RouteFormat::Auto);
            Arc::new(Route { name: name.to_owned(), prefix, strip, format, pool, credential, policies })
        };
        let (openai, anthropic) = match config.upstream.as_str() {
            "" => (
                pool("openai", &config.openai, config.connection.clone())?,
                pool("anthropic", &config.anthropic, config.connection.clone())?,
            ),
            url => {
                let both = pool("upstream", url, config.connection.clone())?;
                (both.clone(), both)
            }
        };
        let mut table = Vec::new();
        for (index, route) in config.route.iter().enumerate() {
            let at = format!("route.{index}");
            let problem = |what: &str| Problem { file: None, key: at.clone(), what: what.to_owned() };
            let connection = route.connection(&config.connection).map_err(|error| problem(error.message()))?;
            let header = route.header().map_err(problem)?;
            table.push(Arc::new(Route {
                name: route.path.clone(),
                prefix: route.path.clone(),
                strip: route.strip,
                format: route.format,
                pool: pool(&at, &route.upstream, connection)?,
                credential: Credential::new(&format!("{at}.credential"), &route.credential, header)?,
                policies: Policies::new(config, Some(&route.policy)),
            }));
        }
        table.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        let bearer = Credential::new("credential.openai", &config.credential.openai, AUTHORIZATION)?;
        let key = Credential::new("credential.anthropic", &config.credential.anthropic, HeaderName::from_static("x-api-key"))?;
        Ok(Routes { table, openai: default("openai", openai, bearer), anthropic: default("anthropic", anthropic, key) })
    }

    /// The route of a request, and the path that is left to join to its base.
    pub fn of<'a>(&self, path: &'a str, headers: &HeaderMap) -> (&Arc<Route>, &'a str) {
        for route in &self.table {
            if let Some(rest) = target::strip(path, &route.prefix) {
                return (route, if route.strip { rest } else { path });
            }
        }
        (if is_anthropic(path, headers) { &self.anthropic } else { &self.openai }, path)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.table.iter().chain([&self.openai, &self.anthropic])
    }
}

impl Route {
    /// What upstream is asked for, whole, for the path that [`Routes::of`] left.
    pub fn target(&self, rest: &str, query: Option<&str>) -> Option<http::Uri> {
        self.pool.absolute(&target::join(&self.pool.base, rest, query).ok()?)
    }
}

fn pool(key: &str, url: &str, connection: Connection, earlier: Option<&Routes>) -> Result<Arc<Pool>, Problem> {
    let base = Base::parse(url).map_err(|accepted| Problem {
        file: None,
        key: key.into(),
        what: format!("{url:?} is not accepted; expected {accepted}"),
    })?;
    let same = |route: &&Arc<Route>| route.pool.is_of(&base, &connection);
    if let Some(route) = earlier.and_then(|earlier| earlier.all().find(same)) {
        return Ok(route.pool.clone());
    }
    Pool::new(base, connection).map(Arc::new)
}

/// Whether a request looks like one for Anthropic's API.
fn is_anthropic(path: &str, headers: &HeaderMap) -> bool {
    const VERSION: HeaderName = HeaderName::from_static("anthropic-version");
    const BETA: HeaderName = HeaderName::from_static("anthropic-beta");
    const KEY: HeaderName = HeaderName::from_static("x-api-key");
    Format::of_path(path) == Some(Format::Messages)
        || path.contains("/messages/")
        || path.ends_with("/v1/complete")
        || headers.contains_key(VERSION)
        || headers.contains_key(BETA)
        || headers.contains_key(KEY) && !headers.contains_key(AUTHORIZATION)
}

/// A policy as it was configured and as the core reads it.
pub struct Settled {
    pub policy: Policy,
    pub decisions: Arc<crate::decide::Policy>,
}

impl Settled {
    fn of(policy: Policy) -> Arc<Settled> {
        Arc::new(Settled { decisions: Arc::new(policy.decisions()), policy })
    }
}

impl std::ops::Deref for Settled {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        &self.policy
    }
}

/// The policy of a route, for each model.
pub struct Policies {
    plain: Arc<Settled>,
    base: Policy,
    models: Vec<Model>,
    route: toml::Table,
    /// By the entries of `models` that match; there are few such sets, however many names agents make up.
    known: RwLock<HashMap<Vec<usize>, Arc<Settled>>>,
}

impl Policies {
    fn new(config: &Config, route: Option<&toml::Table>) -> Policies {
        let route = route.cloned().unwrap_or_default();
        let plain = config.policy.overlaid([&route]).unwrap_or_else(|_| config.policy.clone());
        Policies { plain: Settled::of(plain), base: config.policy.clone(), models: config.model.clone(), route, known: RwLock::default() }
    }

    pub fn of(&self, model: &str) -> Arc<Settled> {
        let matching: Vec<usize> = (0..self.models.len()).filter(|index| self.models[*index].matches(model)).collect();
        if matching.is_empty() {
            return self.plain.clone();
        }
        if let Some(policy) = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&matching) {
            return policy.clone();
        }
        let overlays = matching.iter().map(|index| &self.models[*index].policy).chain([&self.route]);
        // Each overlay was tried when the configuration was read, and a table of overlays that fit fits.
        let policy = self.base.overlaid(overlays).map_or_else(|_| self.plain.clone(), Settled::of);
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(matching, policy.clone());
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(text: &str) -> Routes {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        std::fs::write(&file, text).unwrap();
        Routes::new(&crate::config::load(Some(&file), &Default::default()).unwrap().0, None).unwrap()
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_family_is_told_by_path_and_credential() {
        let routes = routes("");
        let check = |path: &str, pairs: &[(&'static str, &'static str)], name: &str| {
            assert_eq!(routes.of(path, &headers(pairs)).0.name, name, "{path}")
        };
        check("/v1/messages", &[], "anthropic");
        check("/messages", &[], "anthropic");
        check("/v1/messages/count_tokens", &[], "anthropic");
        check("/v1/messages/batches/b1/results", &[], "anthropic");
        check("/v1/complete", &[], "anthropic");
        check("/v1/models", &[("anthropic-version", "2023-06-01")], "anthropic");
        check("/v1/models", &[("x-api-key", "k")], "anthropic");
        check("/v1/models", &[("x-api-key", "k"), ("authorization", "Bearer k")], "openai");
        check("/v1/chat/completions", &[("host", "api.anthropic.com")], "openai");
        check("/v1/models", &[], "openai");
    }

    #[test]
    fn the_longest_path_wins_and_is_taken_off() {
        let routes = routes(
            "[[route]]\npath = \"/a\"\nupstream = \"http://one\"\n[[route]]\npath = \"/a/b\"\nupstream = \"http://two/v1\"\n\
             [[route]]\npath = \"/keep\"\nupstream = \"http://three\"\nstrip = false\n",
        );
        let check = |path: &str, name: &str, rest: &str| {
            let (route, left) = routes.of(path, &HeaderMap::new());
            assert_eq!((route.name.as_str(), left), (name, rest), "{path}");
        };
        check("/a/v1/responses", "/a", "/v1/responses");
        check("/a/b/v1/responses", "/a/b", "/v1/responses");
        check("/a/bc", "/a", "/bc");
        check("/keep/x", "/keep", "/keep/x");
        check("/other", "openai", "/other");
    }

    #[test]
    fn policies_are_laid_over_each_other_model_then_route() {
        let routes = routes(
            "[policy]\nwindow = 1\ntarget = 0.1\n[[model]]\nname = \"m*\"\npolicy = { window = 2, target = 0.2 }\n\
             [[model]]\nname = \"mm\"\npolicy = { target = 0.3 }\n[[route]]\npath = \"/r\"\nupstream = \"http://h\"\npolicy = { window = 9 }\n",
        );
        let check = |path: &str, model: &str, window: u64, target: f64| {
            for _ in 0..2 {
                let policy = routes.of(path, &HeaderMap::new()).0.policies.of(model);
                assert_eq!((policy.window, policy.target), (window, target), "{path} {model}");
            }
        };
        check("/x", "other", 1, 0.1);
        check("/x", "m1", 2, 0.2);
        check("/x", "mm", 2, 0.3);
        check("/r", "mm", 9, 0.3);
        check("/r", "other", 9, 0.1);
    }
}
