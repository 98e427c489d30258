//! Signals while a command runs in the foreground of the terminal.
//!
//! What the keyboard sends reaches the command by itself and must only not end us; what is sent to us alone is meant for the command.

use std::io;

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Child,
    signal::unix::{self, SignalKind, signal},
};

pub struct Signals {
    terminate: unix::Signal,
    hangup: unix::Signal,
    /// Caught rather than ignored: what is ignored stays ignored in the command.
    _keyboard: [unix::Signal; 2],
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            _keyboard: [signal(SignalKind::interrupt())?, signal(SignalKind::quit())?],
        })
    }

    /// The next one to pass on.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
        }
    }
}

/// Passes a signal on. A command that has just ended needs none.
pub fn send(child: &Child, signal: Signal) {
    // An id is given only until the command was waited for, so it is nobody else's yet.
    let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(id) = id {
        let _ = kill_process(id, signal);
    }
}
