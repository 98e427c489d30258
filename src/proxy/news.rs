//! Whether anything has happened since one was last asked.
//!
//! Hyper asks the body of an answer three times for each chunk of a stream, and whoever is asked moves the connection to upstream, for nothing but the
//! first time. So what can happen there happens to a waker of its own, which notes it and passes it on.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

use super::lock;

pub struct News {
    shared: Arc<Shared>,
    waker: Waker,
}

struct Shared {
    any: AtomicBool,
    /// Who asked last.
    task: Mutex<Waker>,
}

impl News {
    /// To begin with there is some.
    pub fn new() -> Self {
        let shared = Arc::new(Shared { any: AtomicBool::new(true), task: Mutex::new(Waker::noop().clone()) });
        News { waker: shared.clone().into(), shared }
    }

    /// The waker to look with, where there is any news; whoever asks is woken by the next.
    pub fn take(&mut self, cx: &Context<'_>) -> Option<Waker> {
        let mut task = lock(&self.shared.task);
        if !task.will_wake(cx.waker()) {
            task.clone_from(cx.waker());
        }
        drop(task);
        self.shared.any.swap(false, Ordering::AcqRel).then(|| self.waker.clone())
    }

    /// There is more where that came from.
    pub fn go_on(&self) {
        self.shared.any.store(true, Ordering::Release);
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.any.store(true, Ordering::Release);
        lock(&self.task).wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::repoll::tests::Rings;

    #[test]
    fn what_happens_is_news_once_and_wakes_whoever_asked_last() {
        let (first, last) = (Arc::<Rings>::default(), Arc::<Rings>::default());
        let mut news = News::new();
        let waker = news.take(&Context::from_waker(&first.clone().into())).expect("to begin with there is some");
        assert!(news.take(&Context::from_waker(&last.clone().into())).is_none());
        waker.wake_by_ref();
        waker.wake();
        assert_eq!((first.0.load(Ordering::Relaxed), last.0.load(Ordering::Relaxed)), (0, 2));
        let asking = Waker::from(last);
        assert!(news.take(&Context::from_waker(&asking)).is_some() && news.take(&Context::from_waker(&asking)).is_none());
        news.go_on();
        assert!(news.take(&Context::from_waker(&asking)).is_some());
    }
}
