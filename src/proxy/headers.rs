//! Which headers go on, in the order and spelling in which they came.
//!
//! The order is that of [`HeaderMap`]: names where they first came, repeated values together, in their own order. A map is always built
//! anew and never removed from, because removing swaps the last entry into the gap. The spelling travels in the message's extensions.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
        TRAILER, TRANSFER_ENCODING, UPGRADE,
    },
};

use super::traces::Onward;

/// What Plimsoll is called where it asks something itself.
pub const PLIMSOLL: &str = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));

/// Lines that a head or trailers may have, where HTTP/1 is spoken. More than a hundred, which is all that hyper takes by itself, and no more than this,
/// because it makes room for so many with every message: 64 bytes for each.
pub const MOST_LINES: usize = 512;

const OWN: &str = "x-plimsoll-";
const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// How the body that is sent differs from the one that came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rewrite {
    /// The length of an edited body, which is sent as identity.
    pub length: Option<usize>,
    /// An idempotency key stands for the body that was sent before, so a second, different body goes without it.
    pub again: bool,
}

/// What of the agent's headers goes to an upstream called `host`; without one it is named elsewhere, as HTTP/2 does. Where the exchange is traced,
/// upstream is told of `onward` instead of the agent's span. Trailers go behind a body that `streams`, where they are announced: hyper sends no others.
pub fn upward(from: &HeaderMap, host: Option<&HeaderValue>, rewrite: Rewrite, onward: Option<&Onward>, streams: bool) -> HeaderMap {
    let named = Named::of(from);
    let edited = rewrite.length.is_some();
    let mut out = HeaderMap::with_capacity(from.len() + 2);
    for (name, value) in from {
        match *name {
            HOST => {
                if let Some(host) = host.filter(|_| !out.contains_key(HOST)) {
                    out.append(HOST, host.clone());
                }
            }
            EXPECT => {}
            TRAILER if !streams => {}
            _ if name == TRACEPARENT => match onward {
                Some(onward) => _ = out.insert(name, onward.traceparent.clone()),
                None => _ = out.append(name, value.clone()),
            },
            _ if name == TRACESTATE && onward.is_some_and(|onward| !onward.keeps_state) => {}
            _ if is_hop_by_hop(name) || named.contains(name) || name.as_str().starts_with(OWN) => {}
            _ if edited && describes_body(name) || rewrite.again && name == "idempotency-key" => {}
            _ => _ = out.append(name, value.clone()),
        }
    }
    if let Some(host) = host {
        out.entry(HOST).or_insert_with(|| host.clone());
    }
    if let Some(onward) = onward {
        out.entry(TRACEPARENT).or_insert_with(|| onward.traceparent.clone());
    }
    if let Some(length) = rewrite.length {
        out.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    out
}

/// What of upstream's headers goes to an agent that does or does not take trailers.
pub fn downward(from: &HeaderMap, trailers: bool) -> HeaderMap {
    let named = Named::of(from);
    // With room for what is said of a request that nothing was done to. It stays as long as the connection.
    let mut out = HeaderMap::with_capacity(from.len() + 3);
    // Where both are given, chunks say how long the body is, and the length says something else (RFC 9112, 6.3).
    let chunked = from.contains_key(TRANSFER_ENCODING);
    for (name, value) in from {
        let passes =
            !is_hop_by_hop(name) && !named.contains(name) && (*name != TRAILER || trailers) && (*name != CONTENT_LENGTH || !chunked);
        if passes {
            out.append(name, value.clone());
        }
    }
    out
}

/// The media type of a body, as it is spelt, without its parameters. Its case says nothing (RFC 9110, 8.3.1).
pub fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// Whether a body comes event by event.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    media_type(headers).eq_ignore_ascii_case("text/event-stream")
}

/// Puts what HTTP/2 may bring in many lines of `Cookie` into one, as every other protocol has it (RFC 9113, 8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(mut cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        cookie.set_sensitive(true);
        headers.insert(COOKIE, cookie);
    }
}

/// Whether the sender takes trailers behind a chunked answer.
pub fn takes_trailers(headers: &HeaderMap) -> bool {
    headers
        .get_all(TE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| coding.trim() == "trailers")
}

/// Puts back what makes a request an upgrade.
pub fn keep_upgrade(from: &HeaderMap, to: &mut HeaderMap) {
    for name in [CONNECTION, UPGRADE] {
        for value in from.get_all(&name) {
            to.append(name.clone(), value.clone());
        }
    }
}

/// Whether the sender wants to speak WebSocket on this connection. Other offers (Java's client makes one for HTTP/2 with every first request) are
/// not taken up, as anybody may leave them: they end here, and the request is a request.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    let is_websocket = |token: &str| token.eq_ignore_ascii_case("websocket");
    list(headers, &UPGRADE).any(is_websocket) && tokens(headers).any(|token| token.eq_ignore_ascii_case("upgrade"))
}

/// Whether the body comes in a transfer coding besides `chunked`: to undo that is not ours, and to drop its name would change what the body is.
pub fn is_coded(headers: &HeaderMap) -> bool {
    list(headers, &TRANSFER_ENCODING).any(|coding| !coding.eq_ignore_ascii_case("chunked"))
}

/// Headers that are about one connection only. `Trailer` announces what comes after a chunked body and goes with it.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(*name, CONNECTION | PROXY_AUTHENTICATE | PROXY_AUTHORIZATION | TE | TRANSFER_ENCODING | UPGRADE)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Headers that say something about a body's bytes which is no longer true once the body was edited.
fn describes_body(name: &HeaderName) -> bool {
    matches!(*name, CONTENT_ENCODING | CONTENT_LENGTH)
        || matches!(name.as_str(), "content-md5" | "digest" | "content-digest" | "repr-digest")
}

fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    list(headers, &CONNECTION)
}

fn list<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim)
}

/// Names that `Connection` makes hop-by-hop. Framing and the target are not the sender's to drop that way.
struct Named(Vec<HeaderName>);

impl Named {
    fn of(headers: &HeaderMap) -> Named {
        let names = tokens(headers).filter_map(|token| token.parse().ok());
        Named(names.filter(|name| !matches!(*name, CONTENT_LENGTH | HOST)).collect())
    }

    fn contains(&self, name: &HeaderName) -> bool {
        self.0.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap()))
            .collect()
    }

    fn list(map: &HeaderMap) -> Vec<(&str, &[u8])> {
        map.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
    }

    #[test]
    fn order_and_values_stay_and_hop_by_hop_goes() {
        let mut from = map(&[
            ("host", "proxy.example"),
            ("connection", "close, X-Drop-Me, content-length"),
            ("x-drop-me", "1"),
            ("a", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("b", ""),
            ("x-plimsoll-compact", "off"),
            ("proxy-authorization", "Basic x"),
            ("expect", "100-continue"),
            ("content-length", "7"),
            ("z", "last"),
        ]);
        from.append("a", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        let up = upward(&from, Some(&HeaderValue::from_static("api.example:8080")), Rewrite::default(), None, false);
        assert_eq!(
            list(&up),
            [("host", &b"api.example:8080"[..]), ("a", b"1"), ("a", b"caf\xe9"), ("b", b""), ("content-length", b"7"), ("z", b"last")]
        );
    }

    #[test]
    fn an_edited_body_goes_as_identity_with_its_own_length() {
        let from =
            map(&[("content-encoding", "zstd"), ("content-length", "7"), ("digest", "sha-256=x"), ("idempotency-key", "k"), ("a", "1")]);
        let host = HeaderValue::from_static("h");
        let up = upward(&from, Some(&host), Rewrite { length: Some(12), again: false }, None, false);
        assert_eq!(list(&up), [("idempotency-key", &b"k"[..]), ("a", b"1"), ("host", b"h"), ("content-length", b"12")]);
        let up = upward(&from, Some(&host), Rewrite { length: Some(12), again: true }, None, false);
        assert!(!up.contains_key("idempotency-key"));
    }

    #[test]
    fn upstream_is_told_of_our_span_where_there_is_one() {
        let from = map(&[("a", "1"), ("traceparent", "theirs"), ("tracestate", "x=1"), ("z", "2")]);
        let theirs = upward(&from, None, Rewrite::default(), None, false);
        assert_eq!(list(&theirs), list(&from));
        let mut onward = Onward { traceparent: HeaderValue::from_static("ours"), keeps_state: true };
        let told = |from: &HeaderMap, onward: &Onward| upward(from, None, Rewrite::default(), Some(onward), false);
        assert_eq!(list(&told(&from, &onward)), [("a", &b"1"[..]), ("traceparent", b"ours"), ("tracestate", b"x=1"), ("z", b"2")]);
        onward.keeps_state = false;
        assert_eq!(list(&told(&from, &onward)), [("a", &b"1"[..]), ("traceparent", b"ours"), ("z", b"2")]);
        assert_eq!(list(&told(&map(&[("a", "1")]), &onward)), [("a", &b"1"[..]), ("traceparent", b"ours")]);
    }

    #[test]
    fn answers_keep_everything_but_hop_by_hop() {
        let from = map(&[
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "b"),
            ("keep-alive", "t"),
            ("server", "s"),
            ("transfer-encoding", "chunked"),
            ("trailer", "x-sum"),
            ("via", "1.1 e"),
        ]);
        assert_eq!(list(&downward(&from, true)), [("server", &b"s"[..]), ("trailer", b"x-sum"), ("via", b"1.1 e")]);
        assert!(!downward(&from, false).contains_key("trailer"));
        let both = map(&[("content-length", "5"), ("transfer-encoding", "chunked"), ("a", "1")]);
        assert_eq!(list(&downward(&both, false)), [("a", &b"1"[..])]);
        assert!(upward(&from, None, Rewrite::default(), None, true).contains_key("trailer"), "behind a body that streams");
        assert!(!upward(&from, None, Rewrite::default(), None, false).contains_key("trailer"));
        assert!(takes_trailers(&map(&[("te", "gzip, trailers")])) && !takes_trailers(&from));
    }

    #[test]
    fn upgrades_are_asked_for_in_both_headers() {
        assert!(is_upgrade(&map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")])));
        assert!(!is_upgrade(&map(&[("connection", "keep-alive"), ("upgrade", "h2c")])));
        assert!(!is_upgrade(&map(&[("connection", "upgrade")])));
        assert!(!is_upgrade(&map(&[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")])));
    }
}
