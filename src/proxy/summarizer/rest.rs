//! Who is left alone, and for how long: models that failed, and tenants that have spent what they may.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use crate::proxy::decide::Tenant;

/// A budget is for this long.
const HOUR: Duration = Duration::from_secs(3600);
/// A tenant whose budget is spoken for by summaries that are being made comes again after that.
const SETTLED: Duration = Duration::from_secs(60);
/// A rest is doubled so often.
const MOST_DOUBLINGS: u32 = 4;
/// So many tenants and models are remembered; more are somebody making them up.
const MOST: usize = 4096;

#[derive(Default)]
pub struct Rests {
    models: HashMap<(Tenant, String), Failing>,
    spent: HashMap<Tenant, Spent>,
}

struct Failing {
    in_a_row: u32,
    until: Instant,
}

struct Spent {
    since: Instant,
    tokens: u64,
    /// What summaries that are being made will spend at least.
    reserved: u64,
}

impl Rests {
    /// How long this model is not to be asked for this tenant yet, whose budget is `budget` tokens an hour, or any number where that is 0.
    pub fn left(&self, tenant: Tenant, model: &str, budget: u64, now: Instant) -> Option<Duration> {
        let failed = self.models.get(&(tenant, model.to_owned())).map(|failing| failing.until);
        let spent = self.spent.get(&tenant).filter(|_| budget > 0).and_then(|spent| match budget {
            _ if spent.tokens >= budget => Some(spent.since + HOUR),
            _ if spent.tokens.saturating_add(spent.reserved) >= budget => Some(now + SETTLED),
            _ => None,
        });
        failed.into_iter().chain(spent).max().and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Takes note that so many tokens are being spent.
    pub fn reserve(&mut self, tenant: Tenant, tokens: u64, now: Instant) {
        if let Some(spent) = self.spent(tenant, now) {
            spent.reserved = spent.reserved.saturating_add(tokens);
        }
    }

    /// What was reserved is spent, or never will be.
    pub fn release(&mut self, tenant: Tenant, tokens: u64) {
        if let Some(spent) = self.spent.get_mut(&tenant) {
            spent.reserved = spent.reserved.saturating_sub(tokens);
        }
    }

    pub fn spend(&mut self, tenant: Tenant, tokens: u64, now: Instant) {
        if let Some(spent) = self.spent(tenant, now) {
            spent.tokens = spent.tokens.saturating_add(tokens);
        }
    }

    fn spent(&mut self, tenant: Tenant, now: Instant) -> Option<&mut Spent> {
        if self.spent.len() >= MOST && !self.spent.contains_key(&tenant) {
            return None;
        }
        let spent = self.spent.entry(tenant).or_insert(Spent { since: now, tokens: 0, reserved: 0 });
        if now.duration_since(spent.since) >= HOUR {
            *spent = Spent { since: now, tokens: 0, ..*spent };
        }
        Some(spent)
    }

    /// How long the model rests now, where the first failure in a row costs `cooldown`.
    pub fn failed(&mut self, tenant: Tenant, model: &str, cooldown: Duration, now: Instant) -> Duration {
        let key = (tenant, model.to_owned());
        let in_a_row = self.models.get(&key).map_or(0, |failing| failing.in_a_row);
        let rest = cooldown * (1 << in_a_row.min(MOST_DOUBLINGS));
        if self.models.len() < MOST || self.models.contains_key(&key) {
            self.models.insert(key, Failing { in_a_row: in_a_row + 1, until: now + rest });
        }
        rest
    }

    pub fn succeeded(&mut self, tenant: Tenant, model: &str) {
        self.models.remove(&(tenant, model.to_owned()));
    }

    /// Forgets what is long over.
    pub fn prune(&mut self, now: Instant) {
        self.models.retain(|_, failing| now < failing.until + HOUR);
        self.spent.retain(|_, spent| now.duration_since(spent.since) < HOUR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Tenant = Tenant([1; 32]);
    const B: Tenant = Tenant([2; 32]);

    #[test]
    fn a_model_rests_longer_with_every_failure_in_a_row() {
        let mut rests = Rests::default();
        let minute = Duration::from_secs(60);
        let mut now = Instant::now();
        for rest in [1, 2, 4, 8, 16, 16] {
            assert_eq!(rests.failed(A, "m", minute, now), minute * rest);
            assert_eq!(rests.left(A, "m", 0, now), Some(minute * rest));
            now += minute * rest;
            assert_eq!(rests.left(A, "m", 0, now), None);
        }
        assert_eq!(rests.failed(A, "m", minute, now), minute * 16);
        assert!(rests.left(B, "m", 0, now).is_none() && rests.left(A, "n", 0, now).is_none());
        rests.succeeded(A, "m");
        assert_eq!(rests.failed(A, "m", minute, now), minute);
    }

    #[test]
    fn what_is_being_spent_counts_until_it_is_spent() {
        let mut rests = Rests::default();
        let now = Instant::now();
        rests.reserve(A, 900, now);
        assert_eq!(rests.left(A, "m", 1000, now), None);
        rests.reserve(A, 100, now);
        assert_eq!((rests.left(A, "m", 1000, now), rests.left(B, "m", 1000, now)), (Some(SETTLED), None));
        rests.release(A, 100);
        rests.spend(A, 50, now);
        assert_eq!(rests.left(A, "m", 1000, now), None);
    }

    #[test]
    fn a_tenant_spends_its_own_budget_and_has_a_new_one_in_an_hour() {
        let mut rests = Rests::default();
        let start = Instant::now();
        rests.spend(A, 900, start);
        assert_eq!(rests.left(A, "m", 1000, start), None);
        let later = start + HOUR / 4;
        rests.spend(A, 100, later);
        let left = |tenant, budget| rests.left(tenant, "m", budget, later);
        assert_eq!((left(A, 1000), left(B, 1000), left(A, 0)), (Some(HOUR / 4 * 3), None, None));
        assert_eq!(rests.left(A, "m", 1000, start + HOUR), None);
        rests.spend(A, 10, start + HOUR);
        assert_eq!(rests.left(A, "m", 1000, start + HOUR), None);
    }
}
