//! How much is taken on at once. What is over a limit is told so at once and clearly, so that agents come again instead of waiting.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use dashmap::DashMap;

use super::{decide::Tenant, error::Error};
use crate::config;

/// So many tenants are counted; those who have nothing running and all their requests left make room for others.
const MOST_TENANTS: usize = 100_000;

/// What runs now, over all reloads of the configuration.
#[derive(Default)]
pub struct Admission {
    exchanges: AtomicUsize,
    bytes: AtomicU64,
    tenants: DashMap<Tenant, Account>,
}

struct Account {
    running: usize,
    /// Requests that may still be made, and when that was true.
    left: f64,
    at: Instant,
}

impl Account {
    /// Fills up to `most` within a minute.
    fn refill(&mut self, most: f64, now: Instant) {
        self.left = (self.left + now.saturating_duration_since(self.at).as_secs_f64() * most / 60.0).min(most);
        self.at = now;
    }
}

/// The right to run one exchange. Given back when it is dropped.
pub struct Place {
    admission: Arc<Admission>,
    tenant: Option<Tenant>,
    bytes: u64,
}

impl Admission {
    pub fn admit(self: &Arc<Self>, limits: &config::Admission, tenant: Tenant, now: Instant) -> Result<Place, Error> {
        let running = self.exchanges.fetch_add(1, Ordering::Relaxed);
        let mut place = Place { admission: self.clone(), tenant: None, bytes: 0 };
        if limits.exchanges > 0 && running >= limits.exchanges {
            return Err(Error::Busy);
        }
        if limits.tenant_exchanges > 0 || limits.tenant_requests > 0 {
            self.account(limits, tenant, now)?;
            place.tenant = Some(tenant);
        }
        Ok(place)
    }

    fn account(&self, limits: &config::Admission, tenant: Tenant, now: Instant) -> Result<(), Error> {
        let most = f64::from(limits.tenant_requests);
        if self.tenants.len() >= MOST_TENANTS && !self.tenants.contains_key(&tenant) {
            self.tenants.retain(|_, account| {
                account.refill(most, now);
                account.running > 0 || account.left < most
            });
        }
        let mut account = self.tenants.entry(tenant).or_insert_with(|| Account { running: 0, left: most, at: now });
        if limits.tenant_exchanges > 0 && account.running >= limits.tenant_exchanges {
            return Err(Error::TenantBusy { seconds: 1 });
        }
        if limits.tenant_requests > 0 {
            account.refill(most, now);
            if account.left < 1.0 {
                return Err(Error::TenantBusy { seconds: ((1.0 - account.left) * 60.0 / most).ceil() as u64 });
            }
            account.left -= 1.0;
        }
        account.running += 1;
        Ok(())
    }
}

impl Place {
    /// Makes room for a body of `bytes`, or for as many more as it turned out to have.
    pub fn hold(&mut self, bytes: u64, limits: &config::Admission) -> Result<(), Error> {
        let more = bytes.saturating_sub(self.bytes);
        let held = self.admission.bytes.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        match limits.body_bytes > 0 && held.saturating_add(more) > limits.body_bytes {
            true => Err(Error::Busy),
            false => Ok(()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.admission.exchanges.fetch_sub(1, Ordering::Relaxed);
        self.admission.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(mut account) = self.tenant.and_then(|tenant| self.admission.tenants.get_mut(&tenant)) {
            account.running = account.running.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_over_a_limit_is_refused_and_a_place_that_is_given_back_can_be_taken() {
        let admission = Arc::new(Admission::default());
        let limits = config::Admission { exchanges: 3, tenant_exchanges: 2, body_bytes: 100, ..Default::default() };
        let now = Instant::now();
        let admit = |tenant: u8| admission.admit(&limits, Tenant([tenant; 32]), now);
        let mut first = admit(1).ok().unwrap();
        let second = admit(1).ok().unwrap();
        assert_eq!(admit(1).err(), Some(Error::TenantBusy { seconds: 1 }));
        let third = admit(2).ok().unwrap();
        assert_eq!(admit(3).err(), Some(Error::Busy));
        drop(second);
        drop(third);
        let mut again = admit(1).ok().unwrap();
        assert_eq!(first.hold(60, &limits), Ok(()));
        assert_eq!(again.hold(60, &limits), Err(Error::Busy));
        drop(again);
        assert_eq!(first.hold(100, &limits), Ok(()));
        assert_eq!(first.hold(101, &limits), Err(Error::Busy));
        drop(first);
        assert_eq!((admission.exchanges.load(Ordering::Relaxed), admission.bytes.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn a_tenant_s_requests_come_back_with_time() {
        let admission = Arc::new(Admission::default());
        let limits = config::Admission { tenant_requests: 60, ..Default::default() };
        let start = Instant::now();
        let admit = |tenant: u8, after: u64| admission.admit(&limits, Tenant([tenant; 32]), start + Duration::from_millis(after)).err();
        for _ in 0..60 {
            assert_eq!(admit(1, 0), None);
        }
        assert_eq!(admit(1, 0), Some(Error::TenantBusy { seconds: 1 }));
        assert_eq!(admit(2, 0), None, "another one has its own");
        assert_eq!(admit(1, 500), Some(Error::TenantBusy { seconds: 1 }));
        assert_eq!(admit(1, 1600), None);
    }
}
