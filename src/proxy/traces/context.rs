//! W3C trace context: which trace a request belongs to, and how upstream is told of ours. <https://www.w3.org/TR/trace-context/>

use std::fmt::Write;

use http::{HeaderMap, HeaderValue};

pub type TraceId = [u8; 16];
pub type SpanId = [u8; 8];

const SAMPLED: u8 = 1;
/// The trace's id was drawn by chance; whoever hands it on says so too.
const RANDOM: u8 = 2;
/// The longest `tracestate` that a span carries, in bytes; nobody has to keep more.
const STATE: usize = 512;

/// What the agent says that its request is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    pub trace: TraceId,
    pub span: SpanId,
    pub flags: u8,
    pub state: String,
}

impl Parent {
    /// Nothing where the agent says nothing, or nothing that makes sense; what is malformed is as good as not there.
    pub fn of(headers: &HeaderMap) -> Option<Parent> {
        let mut all = headers.get_all("traceparent").iter();
        let (Some(only), None) = (all.next(), all.next()) else { return None };
        let text = only.to_str().ok()?.trim();
        let mut fields = text.split('-');
        let [version] = hex::<1>(fields.next()?)?;
        let (trace, span, [flags]) = (hex(fields.next()?)?, hex(fields.next()?)?, hex::<1>(fields.next()?)?);
        // A later version may say more; this one may not.
        let fits = version != 0xff && (version > 0 || fields.next().is_none());
        (fits && trace != TraceId::default() && span != SpanId::default()).then(|| Parent { trace, span, flags, state: state(headers) })
    }

    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

fn state(headers: &HeaderMap) -> String {
    let pieces: Vec<&str> = headers.get_all("tracestate").iter().filter_map(|value| value.to_str().ok()).collect();
    Some(pieces.join(",")).filter(|state| state.len() <= STATE).unwrap_or_default()
}

/// Bytes in lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let digits = text.as_bytes();
    if digits.len() != 2 * N || digits.iter().any(|digit| !matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// What upstream is told of a trace that is recorded.
#[derive(Clone, Debug)]
pub struct Onward {
    pub traceparent: HeaderValue,
    /// The agent's `tracestate` belongs to the trace.
    pub keeps_state: bool,
}

impl Onward {
    /// Upstream's spans are children of `span`.
    pub fn new(trace: &TraceId, span: &SpanId, parent: Option<&Parent>) -> Option<Onward> {
        let flags = SAMPLED | parent.map_or(RANDOM, |parent| parent.flags & RANDOM);
        let text = format!("00-{}-{}-{flags:02x}", digits(trace), digits(span));
        Some(Onward { traceparent: HeaderValue::try_from(text).ok()?, keeps_state: parent.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn parent(values: &[&str]) -> Option<Parent> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("traceparent", value.parse().unwrap());
        }
        for value in ["a=1", "b=2"] {
            headers.append("tracestate", value.parse().unwrap());
        }
        Parent::of(&headers)
    }

    #[test]
    fn a_parent_is_read_and_a_malformed_one_is_none() {
        let check = |text: &str, flags: Option<u8>| {
            let found = parent(&[text]);
            assert_eq!(found.as_ref().map(|parent| parent.flags), flags, "{text}");
            if let Some(found) = found {
                assert_eq!((digits(&found.trace).as_str(), digits(&found.span).as_str()), (TRACE, "b7ad6b7169203331"));
                assert_eq!((found.state.as_str(), found.is_sampled()), ("a=1,b=2", flags == Some(1)));
            }
        };
        check(&format!("00-{TRACE}-b7ad6b7169203331-01"), Some(1));
        check(&format!("00-{TRACE}-b7ad6b7169203331-00"), Some(0));
        check(&format!("cc-{TRACE}-b7ad6b7169203331-01-what-comes-later"), Some(1));
        check(&format!("00-{TRACE}-b7ad6b7169203331-01-what-comes-later"), None);
        check(&format!("ff-{TRACE}-b7ad6b7169203331-01"), None);
        check(&format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()), None);
        check(&format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), None);
        check(&format!("00-{TRACE}-0000000000000000-01"), None);
        check(&format!("00-{TRACE}-b7ad6b7169203331"), None);
        check("00-é", None);
        check("", None);
        assert_eq!(parent(&[]), None);
        let twice = format!("00-{TRACE}-b7ad6b7169203331-01");
        assert_eq!(parent(&[&twice, &twice]), None);
    }

    #[test]
    fn what_upstream_is_told_can_be_read_as_a_parent() {
        let came = parent(&[&format!("00-{TRACE}-b7ad6b7169203331-03")]).unwrap();
        for (from, keeps_state) in [(Some(&came), true), (None, false)] {
            let onward = Onward::new(&came.trace, &[7; 8], from).unwrap();
            let read = parent(&[onward.traceparent.to_str().unwrap()]).unwrap();
            assert_eq!((read.trace, read.span, read.flags, onward.keeps_state), (came.trace, [7; 8], 3, keeps_state));
        }
    }
}
