//! Who asks, and with whose key upstream is asked.
//!
//! An agent that has a token of ours sends it as `x-plimsoll-token`, or where a provider's key would stand, so that it needs no header of its own.
//! A token never goes upstream. Only hashes of tokens are kept and compared, so the time that it takes tells nothing about them.

use std::collections::HashMap;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
};
use ring::digest::{SHA256, digest};

use super::{decide::Tenant, error::Error, tenant};
use crate::config::{self, Problem, secret};

/// Headers that say who pays.
pub const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

const TOKEN: &str = "x-plimsoll-token";

type Hash = [u8; 32];

/// The agents that may ask.
#[derive(Default)]
pub struct Access {
    /// Names by hash; nothing: everybody.
    tokens: Option<HashMap<Hash, String>>,
    /// The hash of the admin API's token.
    admin: Option<Hash>,
}

/// Somebody who may ask.
pub struct Admitted {
    pub tenant: Tenant,
    /// The headers that hold a token of ours and would go upstream, whoever's it is.
    spent: Vec<HeaderName>,
}

impl Access {
    pub fn new(config: &config::Access) -> Result<Access, Problem> {
        let problem = |what: String| Problem { file: None, key: "access.tokens".into(), what };
        let tokens = match secret::read("access.tokens", &config.tokens)? {
            None => None,
            Some(text) => Some(tokens(&text).map_err(problem)?),
        };
        let admin = secret::read("access.admin_token", &config.admin_token)?.map(|token| sha256(token.as_bytes()));
        Ok(Access { tokens, admin })
    }

    /// Who sent these headers, with this query. `key` is what tenants are hashed with.
    pub fn admit(&self, headers: &HeaderMap, query: Option<&str>, key: &[u8; 32]) -> Result<Admitted, Error> {
        let Some(tokens) = &self.tokens else { return Ok(Admitted { tenant: tenant::of(headers, query, key), spent: Vec::new() }) };
        let agent = |value: &HeaderValue| tokens.get(&sha256(bare(value)));
        let mut places = [TOKEN].into_iter().chain(CREDENTIALS).flat_map(|name| headers.get_all(name));
        let admitted = places.find_map(agent).ok_or(Error::Unauthorized)?;
        let mut hasher = blake3::Hasher::new_keyed(key);
        hasher.update(b"agent\0").update(admitted.as_bytes());
        let holds = |name: &HeaderName| headers.get_all(name).iter().any(|value| agent(value).is_some());
        let spent = headers.keys().filter(|name| tenant::may_hold_key(name.as_str()) && *name != TOKEN && holds(name));
        Ok(Admitted { tenant: Tenant(*hasher.finalize().as_bytes()), spent: spent.cloned().collect() })
    }

    /// Whether these headers carry the token of the admin API; nothing where there is none.
    pub fn admits_admin(&self, headers: &HeaderMap) -> Option<bool> {
        let wanted = self.admin?;
        Some(headers.get(AUTHORIZATION).is_some_and(|value| sha256(bare(value)) == wanted))
    }
}

impl Admitted {
    /// The headers that go on: without a token of ours, and with `credential` in place of whatever the agent had.
    pub fn headers(&self, from: HeaderMap, credential: Option<&Credential>) -> HeaderMap {
        if self.spent.is_empty() && credential.is_none() {
            return from;
        }
        let replaced =
            |name: &HeaderName| credential.is_some_and(|credential| CREDENTIALS.contains(&name.as_str()) || *name == credential.header);
        let goes = |name: &HeaderName| !self.spent.contains(name) && !replaced(name);
        // Built anew: removing from a map swaps the last entry into the gap.
        let mut out = HeaderMap::with_capacity(from.len() + 1);
        for (name, value) in from.iter().filter(|(name, _)| goes(name)) {
            out.append(name.clone(), value.clone());
        }
        if let Some(Credential { header, value }) = credential {
            out.insert(header.clone(), value.clone());
        }
        out
    }
}

/// A key for upstream.
pub struct Credential {
    header: HeaderName,
    value: HeaderValue,
}

impl Credential {
    /// What `named` names, to go in `header`; nothing where nothing is named.
    pub fn new(key: &str, named: &str, header: HeaderName) -> Result<Option<Credential>, Problem> {
        let problem = |what: &str| Problem { file: None, key: key.into(), what: what.into() };
        if [HOST, CONTENT_LENGTH, TRANSFER_ENCODING].contains(&header) {
            return Err(problem("this header says where and how a request goes, not who pays"));
        }
        let Some(secret) = secret::read(key, named)? else { return Ok(None) };
        let text = if header == AUTHORIZATION && !secret.contains(' ') { format!("Bearer {secret}") } else { secret };
        let mut value = HeaderValue::try_from(text).map_err(|_| problem("the secret cannot stand in a header"))?;
        value.set_sensitive(true);
        Ok(Some(Credential { header, value }))
    }
}

/// A line is a name and a token, or `sha256:` and its hash; what follows `#` at its beginning is a remark.
fn tokens(text: &str) -> Result<HashMap<Hash, String>, String> {
    let mut found = HashMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#')) {
        let wrong = |what: &str| format!("line {}: {what}; expected a name, and a token or sha256: and its hash", number + 1);
        let mut words = line.split_whitespace();
        let (Some(name), Some(token), None) = (words.next(), words.next(), words.next()) else {
            return Err(wrong("not two words"));
        };
        let hash = match token.strip_prefix("sha256:") {
            Some(hex) => unhex(hex).ok_or_else(|| wrong("not a hash of 64 hexadecimal digits"))?,
            None if token.len() < 16 => return Err(wrong("a token of fewer than 16 characters can be guessed")),
            None => sha256(token.as_bytes()),
        };
        if found.insert(hash, name.to_owned()).is_some_and(|other| other != name) {
            return Err(wrong("a token that another agent has"));
        }
    }
    Ok(found)
}

fn bare(value: &HeaderValue) -> &[u8] {
    let bytes = value.as_bytes();
    match bytes.split_at_checked(7) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer ") => token.trim_ascii(),
        _ => bytes.trim_ascii(),
    }
}

fn sha256(bytes: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

fn unhex(text: &str) -> Option<Hash> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn access(text: &str) -> Access {
        Access { tokens: Some(tokens(text).unwrap()), admin: None }
    }

    #[test]
    fn a_token_is_taken_wherever_a_key_would_stand_and_in_its_own_header() {
        // The hash is that of "second-token-of-an-agent".
        let hash: String = sha256(b"second-token-of-an-agent").iter().map(|byte| format!("{byte:02x}")).collect();
        let access = access(&format!("# agents\nfirst first-token-of-an-agent\nsecond sha256:{hash}\n"));
        let check = |pairs: &[(&'static str, &'static str)], wanted: bool| {
            assert_eq!(access.admit(&map(pairs), None, &KEY).is_ok(), wanted, "{pairs:?}");
        };
        check(&[("authorization", "Bearer first-token-of-an-agent")], true);
        check(&[("authorization", "bearer second-token-of-an-agent")], true);
        check(&[("x-api-key", "second-token-of-an-agent")], true);
        check(&[("x-plimsoll-token", "first-token-of-an-agent"), ("authorization", "Bearer sk-of-the-agent")], true);
        check(&[("authorization", "Bearer first-token-of-an-agenT")], false);
        check(&[("authorization", "Bearer first-token")], false);
        check(&[("cookie", "first-token-of-an-agent")], false);
        check(&[], false);
    }

    #[test]
    fn a_token_goes_no_further_and_a_key_takes_the_place_of_all_others() {
        let access = access("me token-of-this-very-agent\nother token-of-another-agent");
        let credential = Credential { header: HeaderName::from_static("x-api-key"), value: HeaderValue::from_static("sk-real") };
        let went = |pairs: &[(&'static str, &'static str)], credential: Option<&Credential>| -> Vec<(String, String)> {
            let headers = map(pairs);
            let admitted = access.admit(&headers, None, &KEY).unwrap();
            let list = |map: HeaderMap| map.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
            list(admitted.headers(headers, credential))
        };
        let owned = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect::<Vec<_>>();
        let token = ("authorization", "Bearer token-of-this-very-agent");
        assert_eq!(went(&[("a", "1"), token, ("b", "2")], None), owned(&[("a", "1"), ("b", "2")]));
        assert_eq!(
            went(&[("a", "1"), token, ("api-key", "other"), ("b", "2")], Some(&credential)),
            owned(&[("a", "1"), ("b", "2"), ("x-api-key", "sk-real")])
        );
        let twice = [("x-plimsoll-token", token.1), token, ("x-api-key", "token-of-another-agent"), ("x-auth-token", token.1), ("b", "2")];
        assert_eq!(went(&twice, None), owned(&[twice[0], ("b", "2")]), "whoever's it is, and wherever it stands");
        assert_eq!(went(&twice, Some(&credential)), owned(&[twice[0], ("b", "2"), ("x-api-key", "sk-real")]));
        let own = [("x-plimsoll-token", "token-of-this-very-agent"), ("authorization", "Bearer sk-agent")];
        assert_eq!(went(&own, None), owned(&own), "its own header is left out with all of ours, further on");
    }

    #[test]
    fn a_tenant_is_its_token_or_its_credential_and_nothing_else() {
        let open = Access::default();
        let of = |access: &Access, pairs: &[(&'static str, &'static str)]| access.admit(&map(pairs), None, &KEY).ok().unwrap().tenant;
        assert_eq!(of(&open, &[("x-api-key", "a"), ("user-agent", "x")]), of(&open, &[("x-api-key", "a"), ("user-agent", "y")]));
        assert_ne!(of(&open, &[("x-api-key", "a")]), of(&open, &[("x-api-key", "b")]));
        assert_ne!(of(&open, &[("x-api-key", "a")]), of(&open, &[("authorization", "a")]));
        let closed = access("one token-number-one-of-two\none another-token-of-the-same\ntwo token-number-two-of-two");
        let by = |token: &'static str| of(&closed, &[("x-api-key", token)]);
        assert_eq!(by("token-number-one-of-two"), by("another-token-of-the-same"));
        assert_ne!(by("token-number-one-of-two"), by("token-number-two-of-two"));
    }

    #[test]
    fn a_wrong_list_is_refused_without_repeating_a_token() {
        for (text, wanted) in [
            ("only-a-name", "line 1: not two words"),
            ("a b c", "not two words"),
            ("\n# x\nme SECRET", "line 3: a token of fewer"),
            ("me sha256:SECRET", "not a hash"),
            ("a SECRET-SECRET-SECRET\nb SECRET-SECRET-SECRET", "line 2: a token that another agent has"),
        ] {
            let said = tokens(text).unwrap_err();
            assert!(said.contains(wanted) && !said.contains("SECRET"), "{said}");
        }
    }
}
