//! Windows that providers turned out to have, smaller than was believed.
//!
//! What taught them is an agent's own refusals, whose words an agent may have a hand in: so they hold for its tenant alone, for the window that was
//! believed when it was refused, and for a day.

use super::Call;
use crate::conversation::{Fingerprint, Hasher};
use dashmap::DashMap;

/// So many are remembered; more is somebody making up names.
const MOST: usize = 4096;

/// Seconds: providers change.
const LASTS: u64 = 24 * 3600;

/// A refusal that named no window.
const UNNAMED: u64 = u64::MAX;

/// Whose lessons they are: a tenant's, at an upstream, of a model with the window that is believed of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Learner(Fingerprint);

impl Learner {
    pub fn of(call: &Call) -> Self {
        let mut hasher = Hasher::default();
        hasher.piece(b't', &call.tenant.0);
        hasher.piece(b'u', call.upstream.as_bytes());
        hasher.piece(b'm', call.request.model().as_bytes());
        hasher.piece(b'w', &call.window.map_or(0, |window| window.tokens).to_le_bytes());
        Learner(hasher.finish())
    }
}

#[derive(Default)]
pub struct Learnt(DashMap<Learner, Lesson>);

struct Lesson {
    window: u64,
    /// Seconds, of the origin that `Call::now` has.
    at: u64,
}

impl Learnt {
    /// Whether this provider has refused something as too long.
    pub fn has_refused(&self, call: &Call) -> bool {
        self.recall(call).is_some()
    }

    /// The window that it named, or turned out to have.
    pub fn window(&self, call: &Call) -> Option<u64> {
        self.recall(call).filter(|window| *window < UNNAMED)
    }

    /// It has refused something.
    pub fn refused(&self, call: &Call) {
        self.learn(Learner::of(call), UNNAMED, call.now);
    }

    /// It took what fits `window` tokens, after it had refused more.
    pub fn learn(&self, learner: Learner, window: u64, now: u64) {
        let is_fresh = |lesson: &Lesson| now < lesson.at + LASTS;
        if self.0.len() >= MOST && !self.0.contains_key(&learner) {
            // Anybody can be refused; few make a provider take the rest.
            self.0.retain(|_, lesson| is_fresh(lesson) && lesson.window < UNNAMED);
            if self.0.len() >= MOST {
                return;
            }
        }
        let mut lesson = self.0.entry(learner).or_insert(Lesson { window, at: now });
        *lesson = Lesson { window: if is_fresh(&lesson) { window.min(lesson.window) } else { window }, at: now };
    }

    fn recall(&self, call: &Call) -> Option<u64> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&Learner::of(call)).filter(|lesson| call.now < lesson.at + LASTS).map(|lesson| lesson.window)
    }
}
