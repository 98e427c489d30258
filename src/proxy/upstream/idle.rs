//! Notices when an answer says nothing for too long.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use tokio::time::Sleep;

/// The timer is set anew only when it fires, and looked at only then, not at every frame; so it has to
/// be asked with one waker throughout.
pub struct Patience {
    limit: Duration,
    touched: Instant,
    /// Something has happened since the timer was asked.
    is_news: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub fn new(limit: Duration) -> Self {
        Patience { limit, touched: Instant::now(), is_news: false, timer: None }
    }

    pub fn touch(&mut self) {
        (self.touched, self.is_news) = (Instant::now(), true);
    }

    pub fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.touched + self.limit;
        // It may have fired while the agent took its time, when nobody looked.
        if std::mem::take(&mut self.is_news) && self.timer.as_ref().is_some_and(|timer| !timer.is_elapsed()) {
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due.into())));
        loop {
            // A task at the end of its budget would be told to come again, without being noted by the timer.
            ready!(pin!(tokio::task::unconstrained(timer.as_mut())).poll(cx));
            if self.touched.elapsed() >= self.limit {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::repoll::tests::Rings;
    use std::{
        future::poll_fn,
        sync::{Arc, atomic::Ordering},
        task::Waker,
    };

    /// Has others run until the timer has rung so often.
    async fn rung(rings: &Rings, times: usize, mut meanwhile: impl FnMut()) {
        let ringing = async {
            while rings.0.load(Ordering::Relaxed) < times {
                meanwhile();
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ringing).await.expect("a timer that rings");
    }

    #[tokio::test]
    async fn a_timer_that_fired_unseen_is_set_again() {
        let (rings, mut patience) = (Arc::<Rings>::default(), Patience::new(Duration::from_millis(300)));
        let waker = Waker::from(rings.clone());
        let cx = &mut Context::from_waker(&waker);
        assert!(patience.poll_lost(cx).is_pending());
        rung(&rings, 1, || patience.touch()).await;
        patience.touch();
        assert!(patience.poll_lost(cx).is_pending());
        rung(&rings, 2, || {}).await;
        assert!(patience.poll_lost(cx).is_ready());
    }

    #[tokio::test]
    async fn a_timer_is_set_also_where_a_task_has_used_up_its_budget() {
        let (rings, mut patience) = (Arc::<Rings>::default(), Patience::new(Duration::from_millis(20)));
        let waker = Waker::from(rings.clone());
        let cx = &mut Context::from_waker(&waker);
        poll_fn(|task| {
            while tokio::task::coop::has_budget_remaining() {
                ready!(pin!(tokio::task::coop::consume_budget()).poll(task));
            }
            Poll::Ready(())
        })
        .await;
        assert!(patience.poll_lost(cx).is_pending());
        // Whoever has used up a budget is woken at once, which is not the timer's doing.
        tokio::task::yield_now().await;
        let before = rings.0.load(Ordering::Relaxed);
        patience.touch();
        assert!(patience.poll_lost(cx).is_pending());
        rung(&rings, before + 1, || {}).await;
    }
}
