//! Headers by which an agent steers one call. They are ours and never go upstream.

use http::HeaderMap;

/// What one request asks of us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steer {
    pub compact: Compact,
    /// Free text behind the word, for the log.
    pub reason: Option<String>,
    /// The window to assume, in tokens.
    pub window: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compact {
    /// By the gates.
    #[default]
    Auto,
    /// Not this request, not even when it is refused as too long.
    Off,
    /// Whatever the gates say.
    Now,
    /// Only if it would not fit otherwise.
    Defer,
}

impl Steer {
    /// From `x-plimsoll-compact: off|now|defer; reason` and `x-plimsoll-window: N`. What cannot be read is not said.
    pub fn of(headers: &HeaderMap) -> Steer {
        let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let compact = value("x-plimsoll-compact").unwrap_or_default();
        let (word, reason) = compact.split_once(';').map_or((compact, None), |(word, reason)| (word, Some(reason.trim().to_owned())));
        Steer {
            compact: match word.trim().to_ascii_lowercase().as_str() {
                "off" => Compact::Off,
                "now" => Compact::Now,
                "defer" => Compact::Defer,
                _ => Compact::Auto,
            },
            reason: reason.filter(|reason| !reason.is_empty()),
            window: value("x-plimsoll-window").and_then(|window| window.trim().parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_to_do_with_one_call() {
        let check = |compact: &str, window: &str, wanted: Steer| {
            let mut headers = HeaderMap::new();
            headers.insert("x-plimsoll-compact", compact.parse().unwrap());
            headers.insert("x-plimsoll-window", window.parse().unwrap());
            assert_eq!(Steer::of(&headers), wanted);
        };
        check("off", "8000", Steer { compact: Compact::Off, reason: None, window: Some(8000) });
        check("Now; before the review", "-1", Steer { compact: Compact::Now, reason: Some("before the review".into()), window: None });
        check(" defer ;", "many", Steer { compact: Compact::Defer, ..Steer::default() });
        check("perhaps", "", Steer::default());
        assert_eq!(Steer::of(&HeaderMap::new()), Steer::default());
    }
}
