//! Polls a task again at once when it was woken while it ran.
//!
//! An exchange moves both of its connections within one task, and what moves on one side wakes the other: the task wakes itself. A scheduler takes
//! that for more work than one thread can do and wakes another thread, several times in each request. Here it costs one more poll.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// After so many polls in a row, others have their turn.
const MOST: usize = 8;

const WAITING: u8 = 0;
const RUNNING: u8 = 1;
const WOKEN: u8 = 2;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does something that wakes the task which is running, where that polls on in any case. What wakes it from another thread meanwhile is heard.
pub fn quietly<T>(act: impl FnOnce() -> T) -> T {
    /// Loud again, also after a panic.
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            QUIET.set(false);
        }
    }
    QUIET.set(true);
    let _loud = Loud;
    act()
}

pub struct Repoll<F> {
    inner: F,
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Default)]
struct Bell {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if QUIET.get() {
            return;
        }
        // While it runs, it is enough that it will know.
        if self.state.compare_exchange(RUNNING, WOKEN, Ordering::AcqRel, Ordering::Acquire) == Err(WAITING) {
            self.task.wake();
        }
    }
}

impl<F: Future + Unpin> Repoll<F> {
    pub fn new(inner: F) -> Self {
        let bell = Arc::<Bell>::default();
        Repoll { inner, waker: bell.clone().into(), bell }
    }
}

impl<F: Future + Unpin> Future for Repoll<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.bell.task.register(cx.waker());
        for _ in 0..MOST {
            this.bell.state.store(RUNNING, Ordering::Release);
            if let Poll::Ready(output) = Pin::new(&mut this.inner).poll(&mut Context::from_waker(&this.waker)) {
                return Poll::Ready(output);
            }
            if this.bell.state.swap(WAITING, Ordering::AcqRel) != WOKEN {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::{future::poll_fn, sync::atomic::AtomicUsize, task::Poll};

    /// Counts how often it is woken.
    #[derive(Default)]
    pub struct Rings(pub AtomicUsize);

    impl Wake for Rings {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls once a task that wakes itself `times` times; how often it ran, and how often the scheduler was woken.
    fn poll(times: usize) -> (usize, usize) {
        let (rings, mut runs) = (Arc::<Rings>::default(), 0);
        let mut task = Repoll::new(poll_fn(|cx| {
            runs += 1;
            if runs <= times {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&rings.clone().into())).is_pending());
        drop(task);
        (runs, rings.0.load(Ordering::Relaxed))
    }

    #[test]
    fn a_task_that_wakes_itself_runs_again_and_nobody_else_is_woken() {
        assert_eq!(poll(0), (1, 0));
        assert_eq!(poll(3), (4, 0));
    }

    #[test]
    fn what_is_done_quietly_wakes_nobody_but_others_are_heard() {
        let mut runs = 0;
        let mut task = Repoll::new(poll_fn(|cx| {
            runs += 1;
            let waker = cx.waker().clone();
            quietly(|| {
                waker.wake_by_ref();
                if runs == 1 {
                    // The socket's thread, say.
                    std::thread::spawn(move || waker.wake()).join().unwrap();
                }
            });
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(task);
        assert_eq!(runs, 2);
    }

    #[test]
    fn a_task_that_never_rests_gives_way() {
        assert_eq!(poll(usize::MAX), (MOST, 1));
    }

    #[test]
    fn what_happens_while_it_waits_wakes_it() {
        let (rings, mut inner) = (Arc::<Rings>::default(), None);
        let mut task = Repoll::new(poll_fn(|cx| {
            inner = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&rings.clone().into())).is_pending());
        drop(task);
        inner.into_iter().for_each(Waker::wake);
        assert_eq!(rings.0.load(Ordering::Relaxed), 1);
    }
}
