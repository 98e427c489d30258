//! Asks providers how much their models take, where nobody else has said.
//!
//! In the background and with the credential of the request that wanted to know: one question at a time for an upstream and a model, not more often
//! than every ten minutes. A provider that does not answer, or answers nothing of use, is no error.

use std::{sync::Arc, time::Duration, time::Instant};

use bytes::Bytes;
use dashmap::DashMap;
use http::{HeaderMap, Method, header};

use super::{headers::Rewrite, payload::Payload, pool::Pool, target, upstream};
use crate::budget::{Window, discovery};

/// How long an answer, or none, is good for.
const GOOD_FOR: Duration = Duration::from_secs(600);
/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// The longest answer that is read: lists of some hundred models are half a megabyte.
const LONGEST: usize = 4 << 20;
/// So many pairs of upstream and model are remembered; more are somebody making up names.
const MOST: usize = 4096;
/// What of the agent's headers goes along.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "anthropic-version"];

#[derive(Default)]
pub struct Discover {
    known: DashMap<(String, String), (Option<Window>, Instant)>,
}

impl Discover {
    /// The window that the provider gave, if it was asked and said one.
    pub fn window(&self, upstream: &str, model: &str) -> Option<Window> {
        self.known.get(&(upstream.to_owned(), model.to_owned())).and_then(|entry| entry.0)
    }

    /// Whether to ask now: nobody has, or long ago. Who gets a yes has to ask.
    fn begins(&self, key: &(String, String)) -> bool {
        if self.known.get(key).is_some_and(|entry| entry.1.elapsed() < GOOD_FOR)
            || (self.known.len() >= MOST && !self.known.contains_key(key))
        {
            return false;
        }
        let before = self.known.get(key).and_then(|entry| entry.0);
        self.known.insert(key.clone(), (before, Instant::now()));
        true
    }

    /// Asks, unless somebody has. Ends when the answer is known.
    pub async fn ask(self: Arc<Self>, pool: Arc<Pool>, model: String, headers: HeaderMap) {
        let key = (pool.base.authority.to_string(), model);
        if !self.begins(&key) {
            return;
        }
        let mut ours = HeaderMap::new();
        for name in CREDENTIALS {
            for value in headers.get_all(name) {
                ours.append(name, value.clone());
            }
        }
        ours.insert(header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        for place in discovery::PLACES.iter().filter(|place| !place.post) {
            let answer = tokio::time::timeout(PATIENCE, fetch(&pool, place.path, &ours)).await.ok().flatten();
            if let Some(window) = answer.and_then(|answer| discovery::window_in(&answer, &key.1)) {
                self.known.insert(key, (Some(window), Instant::now()));
                return;
            }
        }
    }
}

async fn fetch(pool: &Arc<Pool>, path: &str, headers: &HeaderMap) -> Option<Bytes> {
    // What is not under /v1 lies at the root of the host.
    let target = if path.starts_with("/v1") { target::join(&pool.base, path, None).ok()? } else { path.parse().ok()? };
    let ask = upstream::Ask {
        method: &Method::GET,
        target: &target,
        headers,
        extensions: &http::Extensions::new(),
        rewrite: Rewrite::default(),
        upgrade: false,
    };
    let answer = upstream::send(pool, &ask, Payload::Whole(Bytes::new())).await.ok()?;
    if answer.head.status != http::StatusCode::OK {
        return None;
    }
    let mut body = answer.body;
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let Some(data) = frame.ok()?.into_data().ok() else { break };
        all.extend_from_slice(&data);
        if all.len() > LONGEST {
            return None;
        }
    }
    Some(all.into())
}
