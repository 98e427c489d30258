//! Whose request it is, where agents have no tokens of ours: a hash of all that can say who asks.
//!
//! Keys decide first: the headers that are known to hold one, and whatever else calls itself a key, a token or a secret, in a header or in the query.
//! Cookies, sessions and names of users decide only where no such key came. Where one did, it says who pays, and what changes beside it (cookies of
//! bot detection and of load balancers, with every answer) would make one agent many tenants, each without what was remembered for the others.
//! Ids of requests, traces and conversations (`x-session-id`, `x-claude-code-session-id`) never decide: they tell an agent's own requests apart.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use http::{HeaderMap, header::COOKIE};

use super::{access::CREDENTIALS, decide::Tenant};

/// What names a key.
const KEYS: [&str; 7] = ["key", "token", "auth", "secret", "credential", "password", "jwt"];
/// What names somebody, or a visit of theirs.
const PERSONS: [&str; 9] = ["cookie", "session", "user", "tenant", "account", "identity", "principal", "email", "cert"];

static IS_KEY: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| words(&KEYS));
static IS_PERSON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| words(&PERSONS));

/// Whose a request with these headers and this query is. `key` is what tenants are hashed with.
pub fn of(headers: &HeaderMap, query: Option<&str>, key: &[u8; 32]) -> Tenant {
    let mut said: Vec<(&str, &[u8])> = Vec::with_capacity(4);
    let mut is_known = false;
    for (name, value) in headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).filter(|(name, _)| may_hold_key(name)) {
        is_known |= is_credential(name) && !value.is_empty();
        said.push((name, value));
    }
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        // A name in escapes can be any.
        if has(&IS_KEY, name) || name.contains('%') {
            is_known |= matches!(name, "key" | "api_key" | "api-key") && !value.is_empty();
            said.push((name, value.as_bytes()));
        }
    }
    if !is_known {
        let persons = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).filter(|(name, _)| names_person(name));
        said.extend(persons);
        said.extend(query.map(|query| ("?", query.as_bytes())));
    }
    // In whatever order they came; what stands twice under one name stays in its own.
    said.sort_by_key(|(name, _)| *name);
    let mut hasher = blake3::Hasher::new_keyed(key);
    for (name, value) in said {
        hasher.update(name.as_bytes()).update(b"\0").update(value).update(b"\0");
    }
    Tenant(*hasher.finalize().as_bytes())
}

/// Whether a header of this name may hold a key.
pub fn may_hold_key(name: &str) -> bool {
    // Keys of caches and of idempotency, counts of tokens, and what browsers say of themselves.
    let is_other = || {
        let others = ["cache", "idempotency", "csrf", "xsrf", "tokens"];
        name.starts_with("sec-") || name.starts_with("access-control-") || others.iter().any(|other| name.contains(other))
    };
    has(&IS_KEY, name) && (is_credential(name) || !is_other())
}

/// Whether a header of this name holds what its sender pays with, and nothing else.
fn is_credential(name: &str) -> bool {
    CREDENTIALS.contains(&name) || name.ends_with("api-key") || name.ends_with("authorization")
}

fn names_person(name: &str) -> bool {
    let is_conversation = || name.contains("session") && ["id", "affinity"].iter().any(|end| name.ends_with(end));
    name == COOKIE.as_str() || has(&IS_PERSON, name) && !name.ends_with("user-agent") && !is_conversation()
}

fn words(words: &[&str]) -> Option<AhoCorasick> {
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
}

fn has(words: &LazyLock<Option<AhoCorasick>>, name: &str) -> bool {
    // Words that could not be built would make everything a key, and nobody share anything.
    words.as_ref().is_none_or(|words| words.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    const KEY: [u8; 32] = [7; 32];

    /// Header lines and a query, as in `a: 1\nb: 2\n?c=3`.
    fn of(said: &str) -> Tenant {
        let query = said.lines().find_map(|line| line.strip_prefix('?'));
        let pairs = said.lines().filter_map(|line| line.split_once(": "));
        super::of(
            &pairs.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())).collect(),
            query,
            &KEY,
        )
    }

    #[test]
    fn private_whatever_can_carry_a_credential_tells_tenants_apart() {
        let check = |one: &str, other: &str| assert_ne!(of(one), of(other), "{one} and {other}");
        for name in ["authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization", "x-auth-token", "x-litellm-api-key"]
            .into_iter()
            .chain([
                "helicone-auth",
                "x-amz-security-token",
                "cookie",
                "x-session",
                "x-forwarded-user",
                "x-tenant",
                "ocp-apim-subscription-key",
            ])
        {
            check(&format!("{name}: a"), &format!("{name}: b"));
            check(&format!("{name}: a"), "");
        }
        for name in ["key", "api_key", "access_token", "subscription-key", "sig", "code", "%6bey"] {
            check(&format!("?{name}=a"), &format!("?{name}=b"));
        }
        check("authorization: Bearer dummy\nx-portkey-api-key: a", "authorization: Bearer dummy\nx-portkey-api-key: b");
        check("authorization: Bearer dummy\n?key=a", "authorization: Bearer dummy\n?key=b");
        check("authorization: \ncookie: a", "authorization: \ncookie: b");
        check("cookie: a\ncookie: b", "cookie: a");
        check("x-api-key: a", "authorization: a");
    }

    #[test]
    fn what_changes_from_request_to_request_does_not() {
        let check = |one: &str, other: &str| assert_eq!(of(one), of(other), "{one} and {other}");
        for name in ["x-session-id", "session-id", "session_id", "x-claude-code-session-id", "x-parent-session-id", "x-session-affinity"]
            .into_iter()
            .chain(["x-client-request-id", "x-request-id", "traceparent", "idempotency-key", "x-codex-turn-metadata", "x-codex-window-id"])
            .chain(["user-agent", "x-stainless-retry-count", "anthropic-beta", "sec-websocket-key", "thread-id", "x-claude-code-agent-id"])
        {
            check(&format!("{name}: a"), &format!("{name}: b"));
            check(&format!("authorization: x\n{name}: a"), &format!("authorization: x\n{name}: b"));
        }
        check("x-api-key: x\ncookie: __cf_bm=a", "x-api-key: x\ncookie: __cf_bm=b");
        check("authorization: x\n?beta=true", "authorization: x\n");
        check("x-api-key: x\nauthorization: y", "authorization: y\nx-api-key: x");
    }
}
