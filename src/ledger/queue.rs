//! What is to be written, and the thread that writes it: no request waits for a disk or a network.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::conversation::Fingerprint;

/// So many values wait at most; more are lost, which costs somebody some work.
const MOST_WAITING: usize = 4096;
/// So many are written at once.
const MOST_AT_ONCE: usize = 256;
/// How long a flush is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

pub type Value = (Fingerprint, Vec<u8>);

enum Item {
    Put(Value),
    Flush(SyncSender<()>),
}

pub struct Queue {
    /// Nothing once it is being dropped.
    sender: Option<SyncSender<Item>>,
    thread: Option<JoinHandle<()>>,
    pub dropped: Arc<AtomicU64>,
}

impl Queue {
    /// Begins a thread that hands what is put to `write`, as much at once as waits.
    pub fn new(mut write: impl FnMut(Vec<Value>) + Send + 'static) -> std::io::Result<Queue> {
        let (sender, receiver) = sync_channel(MOST_WAITING);
        let thread = thread::Builder::new().name("ledger".into()).spawn(move || run(&receiver, &mut write))?;
        Ok(Queue { sender: Some(sender), thread: Some(thread), dropped: Arc::default() })
    }

    pub fn put(&self, value: Value) {
        if self.sender.as_ref().is_none_or(|sender| sender.try_send(Item::Put(value)).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.sender.as_ref().is_some_and(|sender| sender.send(Item::Flush(done)).is_ok()) {
            // A disk that takes longer keeps nobody from ending.
            let _ = written.recv_timeout(PATIENCE);
        }
    }
}

/// What was put is written, and the thread, with what it holds, is gone.
impl Drop for Queue {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn run(receiver: &Receiver<Item>, write: &mut impl FnMut(Vec<Value>)) {
    while let Ok(first) = receiver.recv() {
        let (mut values, mut waiting) = (Vec::new(), Vec::new());
        let more = std::iter::from_fn(|| receiver.try_recv().ok());
        for item in std::iter::once(first).chain(more).take(MOST_AT_ONCE) {
            match item {
                Item::Put(value) => values.push(value),
                Item::Flush(done) => waiting.push(done),
            }
        }
        if !values.is_empty() {
            write(values);
        }
        for done in waiting {
            // Nobody may be waiting any more.
            let _ = done.try_send(());
        }
    }
}
