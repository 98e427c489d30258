//! What decisions leave behind in memory is as much as was said, whatever conversations look like.

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use plimsoll::{
    budget::Window,
    conversation::Fingerprint,
    decide::{Call, Decider, Decision, Policy, Steer},
    wire::{Format, Request},
};
use support::long::body;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LEDGER: u64 = 1 << 20;
const MEMO: usize = 256 << 10;

/// Sessions of so many turns, each told from its `first` turn on.
fn play(decider: &Decider, window: u64, sessions: std::ops::Range<usize>, turns: std::ops::Range<usize>) -> usize {
    let mut edited = 0;
    for session in sessions {
        for turns in turns.clone() {
            let call = Call {
                request: Request::read(Format::Chat, body(&format!("s{session}"), turns).into()).unwrap(),
                tenant: Fingerprint::default(),
                upstream: "test".into(),
                policy: Arc::new(Policy::default()),
                steer: Steer::Default,
                focus: String::new(),
                window: Some(Window { tokens: window, separate_output: false }),
                now: 1,
            };
            edited += usize::from(matches!(decider.before_send(&call), Decision::Send(_)));
        }
    }
    edited
}

#[test]
fn memory_holds_what_it_may_and_no_more() {
    // Conversations that grow turn by turn; and such that are seen once, when they are long, and never again.
    for (window, turns) in [(8192, 4..60), (16_384, 60..61)] {
        let decider = Decider::new(LEDGER, 3600, MEMO);
        // What is made once for the process, such as tables and patterns, is no part of it.
        play(&decider, window, 0..2, turns.clone());
        let before = LIVE.load(Ordering::Relaxed);
        let sessions = if turns.len() > 1 { 60 } else { 400 };
        let edited = play(&decider, window, 2..2 + sessions, turns.clone());
        let more = LIVE.load(Ordering::Relaxed).saturating_sub(before);
        println!("{sessions} sessions, {edited} requests edited, {} entries: {} KB more", decider.ledger.len(), more >> 10);
        assert!(edited > sessions / 2, "{edited}");
        let most = LEDGER as usize + MEMO;
        assert!(more < most / 4 * 5, "{} KB, of {} KB", more >> 10, most >> 10);
    }
}
