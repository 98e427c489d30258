//! Headers by which an agent steers one call. They are ours and never go upstream.

use http::{HeaderMap, HeaderName};

use crate::decide::Steer;

/// What one request asks of us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    pub compact: Steer,
    /// What a summary that is ordered is to keep in view.
    pub focus: String,
    /// The window to assume, in tokens.
    pub window: Option<u64>,
}

/// A header that says nothing that can be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unclear {
    pub header: &'static str,
    pub accepted: &'static str,
}

const COMPACT: Unclear =
    Unclear { header: "x-plimsoll-compact", accepted: "auto, off, now or defer, and words in ASCII behind a semicolon if there are any" };
const WINDOW: Unclear = Unclear { header: "x-plimsoll-window", accepted: "a whole number of tokens" };

impl Steering {
    /// From `x-plimsoll-compact: auto|off|now|defer; words` and `x-plimsoll-window: N`. The words behind `now` are for the summary; others are for whoever
    /// reads the agent, as free text has no place in a log.
    pub fn of(headers: &HeaderMap) -> Result<Steering, Unclear> {
        let value = |name: HeaderName, what: Unclear| headers.get(name).map(|value| value.to_str().map_err(|_| what)).transpose();
        let said = value(const { HeaderName::from_static(COMPACT.header) }, COMPACT)?;
        let (word, words) = said.map_or(("auto", ""), |said| said.split_once(';').unwrap_or((said, "")));
        let compact = match word.trim().to_ascii_lowercase().as_str() {
            "auto" => Steer::Default,
            "off" => Steer::Off,
            "now" => Steer::Now,
            "defer" => Steer::Defer,
            _ => return Err(COMPACT),
        };
        Ok(Steering {
            compact,
            focus: if compact == Steer::Now { words.trim().to_owned() } else { String::new() },
            window: value(const { HeaderName::from_static(WINDOW.header) }, WINDOW)?
                .map(|window| window.trim().parse().map_err(|_| WINDOW))
                .transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steer(compact: &str, window: &str) -> Result<Steering, Unclear> {
        let mut headers = HeaderMap::new();
        headers.insert("x-plimsoll-compact", compact.parse().unwrap());
        headers.insert("x-plimsoll-window", window.parse().unwrap());
        Steering::of(&headers)
    }

    #[test]
    fn headers_say_what_to_do_with_one_call() {
        let check = |compact: &str, window: &str, wanted: Steering| assert_eq!(steer(compact, window), Ok(wanted));
        check("off", "8000", Steering { compact: Steer::Off, window: Some(8000), ..Steering::default() });
        check("Now; keep the; plan ", " 1 ", Steering { compact: Steer::Now, focus: "keep the; plan".into(), window: Some(1) });
        check(" defer ;", "0", Steering { compact: Steer::Defer, window: Some(0), ..Steering::default() });
        check("defer; not now", "0", Steering { compact: Steer::Defer, window: Some(0), ..Steering::default() });
        check("auto", "1", Steering { window: Some(1), ..Steering::default() });
        assert_eq!(Steering::of(&HeaderMap::new()), Ok(Steering::default()));
    }

    #[test]
    fn what_cannot_be_meant_is_told_and_not_passed_over() {
        for compact in ["perhaps", "", "now please", "; why", "now; caf\u{e9}"] {
            assert_eq!(steer(compact, "1"), Err(COMPACT), "{compact}");
        }
        for window in ["many", "-1", "8k", "1.5", "", "99999999999999999999999"] {
            assert_eq!(steer("off", window), Err(WINDOW), "{window}");
        }
    }
}
