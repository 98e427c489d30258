//! Asks an upstream how large its models' windows are.
//!
//! In the background, with the credential of the request that made us ask, and once in ten minutes for an upstream and a model. Only a request to a local
//! server may wait for the first answer, and not for long: what does not fit there is often cut without a word. That an upstream tells nothing is no
//! error. What is asked and what answers mean stands in [`crate::budget::discovery`].

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, USER_AGENT},
    uri::PathAndQuery,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};

use super::{
    encoding,
    headers::{self, Rewrite},
    lock,
    payload::Payload,
    pool::Pool,
    target,
    upstream::{self, Ask},
};
use crate::{
    budget::{
        Window,
        discovery::{PLACES, Place, window_in},
        models,
    },
    config::{Base, seconds},
};

/// How long an answer holds, that there is none included.
const AGAIN: Duration = Duration::from_secs(600);
/// How long it holds that a server has not loaded the model yet.
const SOON: Duration = Duration::from_secs(15);
/// How long one place may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest answer that is read, in bytes. OpenRouter's list has some hundred thousand.
const MOST_BYTES: usize = 2 << 20;
/// So many (upstream, model) pairs are remembered; more are somebody making up names.
const MOST_KNOWN: usize = 1024;
/// The longest name that is asked for, in bytes.
const LONGEST_NAME: usize = 200;

/// The windows that upstreams told.
pub struct Windows {
    /// Whether they are asked at all.
    enabled: bool,
    /// How long a request may wait for a local server's first answer.
    wait: Duration,
    known: Mutex<HashMap<Key, Known>>,
}

/// The base URL and the model.
type Key = (String, String);

struct Known {
    window: Option<Window>,
    asked: Instant,
    again: Duration,
    /// Changes when the first answer is there. Nothing afterwards.
    first: Option<watch::Receiver<()>>,
}

/// Whom to ask, and in whose name.
pub struct Inquiry<'a> {
    pub windows: &'a Arc<Windows>,
    pub pool: &'a Arc<Pool>,
    /// Of the request that wants to know.
    pub headers: &'a HeaderMap,
}

/// What is known of a window.
pub enum Found {
    /// What upstream told, if anything.
    Window(Option<Window>),
    /// It has been asked for the first time just now.
    Soon(Wait),
}

/// Waits for a first answer.
pub struct Wait {
    first: watch::Receiver<()>,
    until: Instant,
}

impl Wait {
    /// Waits for a change, or for the sender's end, but no longer than `until`.
    pub fn new(first: watch::Receiver<()>, until: Instant) -> Wait {
        Wait { first, until }
    }

    pub async fn over(mut self) {
        drop(timeout_at(self.until, self.first.changed()).await);
    }
}

impl Inquiry<'_> {
    /// The window of `model`, which is asked for if that is due.
    pub fn window(&self, model: &str) -> Found {
        if !self.windows.enabled {
            return Found::Window(None);
        }
        let base = &self.pool.base;
        let key = (self.pool.name.clone(), model.to_owned());
        let now = Instant::now();
        if let Some(done) = self.windows.claim(&key, now) {
            let (windows, pool, key, headers) = (self.windows.clone(), self.pool.clone(), key.clone(), credentials(self.headers));
            tokio::spawn(async move {
                let (window, again) = ask(&pool, &headers, &key.1).await;
                tracing::debug!(upstream = %pool.base.authority, model = key.1, window = window.map(|window| window.tokens), "asked for the window");
                if window.or_else(|| models::window(&key.1, pool.base.host())).is_none() {
                    tracing::warn!(
                        upstream = %pool.base.authority,
                        model = key.1,
                        "its window is not known, so nothing is compacted before it refuses; policy.window, or --window, says what it is"
                    );
                }
                windows.learn(&key, window, again);
                drop(done);
            });
        }
        match self.windows.known(&key) {
            // The sender of a question that fell is gone.
            (_, Some((first, asked))) if is_local(base) && now < asked + self.windows.wait && first.has_changed().is_ok() => {
                Found::Soon(Wait { first, until: asked + self.windows.wait })
            }
            (window, _) => Found::Window(window),
        }
    }
}

impl Windows {
    /// `wait` is in seconds.
    pub fn new(enabled: bool, wait: f64) -> Windows {
        Windows { enabled, wait: seconds(wait), known: Mutex::default() }
    }

    pub fn is_set_to(&self, enabled: bool, wait: f64) -> bool {
        self.enabled == enabled && self.wait == seconds(wait)
    }

    /// The right to ask, if it is due and nobody does. It is to be dropped when the answer has been learnt.
    fn claim(&self, key: &Key, now: Instant) -> Option<watch::Sender<()>> {
        if key.1.is_empty() || key.1.len() > LONGEST_NAME {
            return None;
        }
        let mut all = lock(&self.known);
        let is_due = |known: &Known| now.saturating_duration_since(known.asked) >= known.again;
        match all.get_mut(key) {
            Some(known) if !is_due(known) => return None,
            Some(known) => (known.asked, known.again) = (now, AGAIN),
            None => {
                if all.len() >= MOST_KNOWN {
                    all.retain(|_, known| !is_due(known));
                }
                if all.len() >= MOST_KNOWN {
                    return None;
                }
                let (done, first) = watch::channel(());
                all.insert(key.clone(), Known { window: None, asked: now, again: AGAIN, first: Some(first) });
                return Some(done);
            }
        }
        Some(watch::Sender::new(()))
    }

    fn known(&self, key: &Key) -> (Option<Window>, Option<(watch::Receiver<()>, Instant)>) {
        let all = lock(&self.known);
        all.get(key).map_or((None, None), |known| (known.window, known.first.clone().map(|first| (first, known.asked))))
    }

    /// An upstream that says nothing this time has not taken back what it said.
    fn learn(&self, key: &Key, window: Option<Window>, again: Duration) {
        let mut all = lock(&self.known);
        if let Some(known) = all.get_mut(key) {
            (known.window, known.again, known.first) = (window.or(known.window), again, None);
        }
    }
}

/// What the places tell, one after the other, and how long that holds.
async fn ask(pool: &Arc<Pool>, headers: &HeaderMap, model: &str) -> (Option<Window>, Duration) {
    let mut again = AGAIN;
    for (place, target) in places(&pool.base, model) {
        let Some((status, body)) = timeout(PATIENCE, get(pool, &target, headers)).await.ok().flatten() else { continue };
        if status == StatusCode::OK
            && let Some(window) = window_in(&body, model, place.serves_one)
        {
            return (Some(window), AGAIN);
        }
        // Loads now, or with the first request.
        if status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::OK && place.loads_later {
            again = SOON;
        }
    }
    (None, again)
}

/// The places that may know at this upstream, and how they are asked for there.
fn places(base: &Base, model: &str) -> Vec<(Place, PathAndQuery)> {
    let root = target::root(base);
    let local = is_local(base);
    let list = |place: Place| target::join(base, place.path, None).ok().map(|target| (place, target));
    let mut out = Vec::new();
    for place in PLACES.into_iter().filter(|place| !place.post) {
        match target::is_versioned(place.path) {
            // Lists of providers are long, so the entry is asked for first.
            true if !local => {
                let entry = target::join(base, &format!("{}/{}", place.path, escaped(model)), None).ok();
                out.extend(entry.map(|target| (place, target)));
                out.extend(list(place));
            }
            true => out.extend(list(place)),
            false if local => out.extend(target::join(&root, place.path, None).ok().map(|target| (place, target))),
            false => {}
        }
    }
    out
}

/// A server of one's own: within reach without the internet, or spoken to without TLS, which nobody would do across it.
pub fn is_local(base: &Base) -> bool {
    let private = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
    };
    !base.secure || base.host() == "localhost" || base.host().parse().is_ok_and(private)
}

/// A name as one segment of a path.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Of an agent's headers, those that say who asks.
fn credentials(of: &HeaderMap) -> HeaderMap {
    let names = [
        AUTHORIZATION,
        HeaderName::from_static("x-api-key"),
        HeaderName::from_static("api-key"),
        HeaderName::from_static("anthropic-version"),
    ];
    let mut out = HeaderMap::new();
    out.insert(ACCEPT, HeaderValue::from_static("application/json"));
    out.insert(USER_AGENT, HeaderValue::from_static(headers::PLIMSOLL));
    for name in names {
        out.extend(of.get_all(&name).iter().map(|value| (Some(name.clone()), value.clone())));
    }
    out
}

/// Status and body, if they can be had.
async fn get(pool: &Arc<Pool>, target: &PathAndQuery, headers: &HeaderMap) -> Option<(StatusCode, Bytes)> {
    let ask = Ask {
        method: &Method::GET,
        target,
        headers,
        extensions: &Extensions::new(),
        rewrite: Rewrite::default(),
        upgrade: false,
        onward: None,
    };
    let mut answer = upstream::send(pool, &ask, Payload::Empty).await.ok()?;
    let mut body = Vec::new();
    while let Some(frame) = answer.body.frame().await {
        if let Ok(data) = frame.ok()?.into_data() {
            if body.len() + data.len() > MOST_BYTES {
                return None;
            }
            body.extend_from_slice(&data);
        }
    }
    Some((answer.head.status, encoding::decode(&answer.head.headers, &body.into(), MOST_BYTES as u64)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(url: &str) -> Base {
        Base::parse(url).unwrap()
    }

    #[test]
    fn local_servers_are_told_from_providers() {
        for yes in [
            "http://gpu:8000/v1",
            "https://127.0.0.1",
            "https://localhost:1234",
            "https://192.168.1.7:8443",
            "https://[::1]:80",
            "https://[fd00::1]",
        ] {
            assert!(is_local(&base(yes)), "{yes}");
        }
        for no in ["https://api.openai.com", "https://8.8.8.8", "https://localhost.example", "https://[2606:4700::1]"] {
            assert!(!is_local(&base(no)), "{no}");
        }
    }

    #[test]
    fn only_places_that_may_know_are_asked() {
        let check = |url: &str, wanted: &[&str]| {
            let asked: Vec<String> = places(&base(url), "qwen/qwen3 8b").into_iter().map(|(_, target)| target.to_string()).collect();
            assert_eq!(asked, wanted, "{url}");
        };
        check("http://127.0.0.1:8080", &["/props", "/api/v0/models", "/api/ps", "/v1/models"]);
        check("http://127.0.0.1:8080/v1", &["/props", "/api/v0/models", "/api/ps", "/v1/models"]);
        check("http://gpu/llm/v1/", &["/llm/props", "/llm/api/v0/models", "/llm/api/ps", "/llm/v1/models"]);
        check("https://api.anthropic.com", &["/v1/models/qwen%2Fqwen3%208b", "/v1/models"]);
        check("https://openrouter.ai/api/v1", &["/api/v1/models/qwen%2Fqwen3%208b", "/api/v1/models"]);
    }

    #[test]
    fn nobody_asks_twice_within_ten_minutes_and_an_answer_outlives_silence() {
        let windows = Windows::new(true, 1.0);
        let key = |model: &str| ("http://h".to_owned(), model.to_owned());
        let window = Some(Window { tokens: 512, separate_output: false });
        let start = Instant::now();
        let done = windows.claim(&key("m"), start);
        assert!(done.is_some() && windows.known(&key("m")).1.is_some());
        assert!(windows.claim(&key("m"), start + AGAIN / 2).is_none(), "while it is asked");
        windows.learn(&key("m"), window, AGAIN);
        assert!(windows.known(&key("m")).1.is_none(), "nobody waits for a second answer");
        assert!(windows.claim(&key("m"), start + AGAIN / 2).is_none());
        assert!(windows.claim(&key("m"), start + AGAIN).is_some());
        windows.learn(&key("m"), None, SOON);
        assert_eq!(windows.known(&key("m")).0, window);
        assert!(windows.claim(&key("m"), start + AGAIN + SOON).is_some());
        for n in 0..2 * MOST_KNOWN {
            drop(windows.claim(&key(&n.to_string()), start));
        }
        assert_eq!(lock(&windows.known).len(), MOST_KNOWN);
        assert!(windows.claim(&key("new"), start + 2 * AGAIN).is_some(), "old ones make room");
        assert!(windows.claim(&key(""), start).is_none() && windows.claim(&key(&"x".repeat(LONGEST_NAME + 1)), start).is_none());
    }

    #[test]
    fn only_what_says_who_asks_is_passed_along() {
        let mut headers = HeaderMap::new();
        for name in
            ["authorization", "x-api-key", "api-key", "anthropic-version", "cookie", "x-plimsoll-compact", "content-length", "user-agent"]
        {
            headers.insert(name, HeaderValue::from_static("of the agent"));
        }
        let passed = credentials(&headers);
        let kept: Vec<&str> = passed.iter().filter(|(_, value)| *value == "of the agent").map(|(name, _)| name.as_str()).collect();
        assert_eq!(kept, ["authorization", "x-api-key", "api-key", "anthropic-version"]);
    }
}
