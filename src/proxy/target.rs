//! What is asked of upstream, letter for letter as the agent asked, joined to the base URL.
//!
//! The rules, in this order:
//! - a version segment (`v1`, `v4`, `v1beta`, …) at the end of the base and one at the beginning of the request are the same segment: the
//!   base's stays. A base with an `api-version` in its query (Azure) counts as ending in a version;
//! - a request without version for one of the chat APIs (`/chat/completions`, `/responses`, `/messages` and below) gets `/v1` in front
//!   where the base has no version at all, for agents whose base URL lacks it;
//! - everything else is put together as it stands: double slashes, dot segments, escapes and empty query values stay.

use http::uri::PathAndQuery;

use crate::config::Base;

/// The request target at `base` for a request for `path` and `query`, both as the agent spelt them, without a route's own prefix.
pub fn join(base: &Base, path: &str, query: Option<&str>) -> Result<PathAndQuery, http::uri::InvalidUri> {
    let mut target = String::with_capacity(base.prefix.len() + path.len() + query.map_or(0, str::len) + 32);
    target.push_str(&base.prefix);
    match leading_version(path) {
        Some(version) if ends_in_version(base) => target.push_str(&path[version + 1..]),
        None if is_bare_chat(path) && !has_version(base) => target.extend(["/v1", path]),
        _ => target.push_str(path),
    }
    if let Some(query) = query {
        target.extend(["?", query]);
    }
    if let Some(own) = base.query.as_deref() {
        let mut separator = if query.is_some() { '&' } else { '?' };
        for pair in own.split('&').filter(|pair| !names_key_of(query, pair)) {
            target.push(separator);
            target.push_str(pair);
            separator = '&';
        }
    }
    if target.is_empty() {
        target.push('/');
    }
    target.try_into()
}

/// Where what belongs to no version of an API lives: `base` without the version at its end.
pub fn root(base: &Base) -> Base {
    let prefix = match base.prefix.rsplit_once('/') {
        Some((before, last)) if is_version(last) => before.to_owned(),
        _ => base.prefix.clone(),
    };
    Base { prefix, ..base.clone() }
}

/// Whether `path` begins with a version.
pub fn is_versioned(path: &str) -> bool {
    leading_version(path).is_some()
}

/// `path` without `prefix`, if it begins with these whole segments.
pub fn strip<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// The length of the version segment that `path` begins with, its slash left out.
fn leading_version(path: &str) -> Option<usize> {
    let segment = path.strip_prefix('/')?.split('/').next()?;
    is_version(segment).then_some(segment.len())
}

fn ends_in_version(base: &Base) -> bool {
    base.prefix.rsplit('/').next().is_some_and(is_version) || has_api_version(base)
}

fn has_version(base: &Base) -> bool {
    base.prefix.split('/').any(is_version) || has_api_version(base)
}

fn has_api_version(base: &Base) -> bool {
    base.query.as_deref().is_some_and(|query| query.split('&').any(|pair| pair.starts_with("api-version=")))
}

/// `v`, a number, and perhaps a stage: `v1`, `v4`, `v1.1`, `v1beta`, `v1alpha2`.
fn is_version(segment: &str) -> bool {
    let Some(rest) = segment.strip_prefix('v').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) else { return false };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let stage = ["alpha", "beta", "preview", ""].into_iter().find_map(|stage| rest.strip_prefix(stage));
    stage.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_bare_chat(path: &str) -> bool {
    ["/chat/completions", "/responses", "/messages"].iter().any(|chat| strip(path, chat).is_some())
}

fn names_key_of(query: Option<&str>, pair: &str) -> bool {
    let key = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    query.is_some_and(|query| query.split('&').any(|other| key(other) == key(pair)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_and_request_meet_once_in_every_spelling() {
        let check = |base: &str, request: &str, wanted: &str| {
            let parsed = Base::parse(&format!("http://h{base}")).unwrap();
            let (path, query) = request.split_once('?').map_or((request, None), |(path, query)| (path, Some(query)));
            assert_eq!(join(&parsed, path, query).unwrap().as_str(), wanted, "{base} + {request}");
        };
        check("", "/v1/chat/completions", "/v1/chat/completions");
        check("/", "/v1/chat/completions", "/v1/chat/completions");
        check("/v1", "/v1/chat/completions", "/v1/chat/completions");
        check("/v1/", "/v1/chat/completions", "/v1/chat/completions");
        check("/openai/v1", "/v1/chat/completions", "/openai/v1/chat/completions");
        check("/team%20a", "/v1/chat/completions", "/team%20a/v1/chat/completions");
        check("/api/v4", "/v1/chat/completions", "/api/v4/chat/completions");
        check("/api/v4", "/chat/completions", "/api/v4/chat/completions");
        check("", "/chat/completions", "/v1/chat/completions");
        check("", "/messages/count_tokens?beta=true", "/v1/messages/count_tokens?beta=true");
        check("", "/responses/compact", "/v1/responses/compact");
        check("", "/messagesx", "/messagesx");
        check("", "/models", "/models");
        check("/v1", "/models", "/v1/models");
        check("/v1", "/v1", "/v1");
        check("", "/v1beta/models/m:generateContent?alt=sse", "/v1beta/models/m:generateContent?alt=sse");
        check("/v1beta/openai", "/chat/completions", "/v1beta/openai/chat/completions");
        check(
            "/openai/deployments/x?api-version=2026-01-01",
            "/v1/chat/completions",
            "/openai/deployments/x/chat/completions?api-version=2026-01-01",
        );
        check(
            "/openai/deployments/x?api-version=2026-01-01",
            "/chat/completions?a=1",
            "/openai/deployments/x/chat/completions?a=1&api-version=2026-01-01",
        );
        check(
            "/openai/deployments/x?api-version=2026-01-01",
            "/chat/completions?api-version=other",
            "/openai/deployments/x/chat/completions?api-version=other",
        );
        check("", "/", "/");
        check("", "*", "*");
        check("/v1", "/vector_stores", "/v1/vector_stores");
        check("/v1", "/video", "/v1/video");
    }

    #[test]
    fn the_target_stays_as_it_was_spelt() {
        let base = Base::parse("http://h").unwrap();
        for request in [
            "/v1//models",
            "//host/v1/models",
            "/v1/x/../models/./y",
            "/v1/files/a%2Fb%20c/..%2e/x",
            "/v1/messages?beta=true&b=2&a=1&a=0&e=&x=%2Fa%20b+c&k",
            "/v1/models?a=%2F&b=+c&&d&e=%e4%BD%a0",
            "/v1/x?",
        ] {
            let (path, query) = request.split_once('?').map_or((request, None), |(path, query)| (path, Some(query)));
            assert_eq!(join(&base, path, query).unwrap().as_str(), request);
        }
    }

    #[test]
    fn a_route_takes_whole_segments() {
        assert_eq!(strip("/a/b/c", "/a/b"), Some("/c"));
        assert_eq!(strip("/a/b", "/a/b"), Some(""));
        assert_eq!(strip("/a/bc", "/a/b"), None);
        assert_eq!(strip("/a", "/"), Some("/a"));
    }

    #[test]
    fn versions_are_told_from_names() {
        for yes in ["v1", "v4", "v10", "v1.1", "v1beta", "v1beta2", "v2alpha"] {
            assert!(is_version(yes), "{yes}");
        }
        for no in ["", "v", "version", "1", "v1x", "vector", "v1internal", "V1"] {
            assert!(!is_version(no), "{no}");
        }
    }
}
