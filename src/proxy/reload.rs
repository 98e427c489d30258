//! Reads the configuration again when it or a file that it names has changed, and when told to.
//!
//! What changed is put in force whole or not at all. A configuration that is refused is reported, in the log, as a metric and by the admin API, and the one
//! before it stays.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use super::{live::Live, lock};
use crate::config::{self, Config, Overrides, Problem, seconds};

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The file that was named; nothing: it is looked for where it usually is.
    pub file: Option<PathBuf>,
    pub overrides: Overrides,
}

/// The configuration in force and the way to a new one.
pub struct Reload {
    live: Arc<Live>,
    /// Nothing where the configuration is nobody's file.
    source: Option<Source>,
    last: Mutex<Last>,
}

/// The last time that it was read.
struct Last {
    at: SystemTime,
    /// Why it was refused.
    problem: Option<String>,
    /// What the files held then.
    held: Held,
    watched: Vec<PathBuf>,
}

/// What the configuration's own file holds, and those that it names.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    own: blake3::Hash,
    others: blake3::Hash,
}

/// For so long files have to stay as they are before they are read by themselves: who writes into one that is there may be half way.
const SETTLED: Duration = Duration::from_millis(50);

impl Reload {
    pub fn new(live: Arc<Live>, source: Option<Source>) -> Reload {
        let watched = live.load().config.files();
        let held = held(source.as_ref(), &watched);
        Reload { live, source, last: Mutex::new(Last { at: SystemTime::now(), problem: None, held, watched }) }
    }

    /// Reads it again. Blocks while it reads.
    pub fn now(&self) -> Result<(), Problem> {
        let Some(source) = &self.source else {
            return Err(Problem { file: None, key: String::new(), what: "this process has no configuration file".into() });
        };
        let mut last = lock(&self.last);
        // Before they are read: what changes in between is seen the next time.
        last.held = held(Some(source), &last.watched);
        let loaded = config::load(source.file.as_deref(), &source.overrides);
        let applied = loaded.and_then(|(config, file)| {
            last.watched = config.files();
            last.held.others = hash(&last.watched);
            self.live.renew(&config).map_err(|problem| Problem { file: problem.file.or(file), ..problem })
        });
        last.at = SystemTime::now();
        last.problem = applied.as_ref().err().map(ToString::to_string);
        self.live.load().proxy.metrics.load(applied.is_ok());
        match &applied {
            Ok(()) => tracing::info!("configuration applied"),
            Err(problem) => tracing::error!(problem = %problem, "configuration refused; the one before it stays"),
        }
        applied
    }

    /// Reads it again if a file has changed since it was last read, whatever came of that.
    pub fn if_changed(&self) {
        let look = || {
            let last = lock(&self.last);
            let held = held(self.source.as_ref(), &last.watched);
            (held != last.held).then_some(held)
        };
        let Some(changed) = look() else { return };
        std::thread::sleep(SETTLED);
        if look() == Some(changed) {
            // It is reported where it happens.
            drop(self.now());
        }
    }

    /// When it was last read, and why it was refused if it was.
    pub fn last(&self) -> (SystemTime, Option<String>) {
        let last = lock(&self.last);
        (last.at, last.problem.clone())
    }

    /// The configuration in force.
    pub fn config(&self) -> Config {
        self.live.load().config.clone()
    }

    /// Looks at the files again and again. Their contents are compared, for mounted secrets change behind links, at any time of theirs.
    pub async fn watch(self: Arc<Self>) {
        loop {
            let every = self.live.load().config.reload;
            if every == 0.0 {
                // A reload by signal may set it.
                tokio::time::sleep(seconds(5.0)).await;
                continue;
            }
            tokio::time::sleep(seconds(every.max(0.01))).await;
            let reload = self.clone();
            drop(tokio::task::spawn_blocking(move || reload.if_changed()).await);
        }
    }
}

fn held(source: Option<&Source>, others: &[PathBuf]) -> Held {
    let own = source.and_then(|source| config::find(source.file.as_deref()));
    Held { own: hash(own.as_slice()), others: hash(others) }
}

fn hash(files: &[PathBuf]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for path in files {
        match std::fs::read(path) {
            Ok(bytes) => hasher.update(&(bytes.len() as u64).to_le_bytes()).update(&bytes),
            Err(_) => hasher.update(b"unreadable"),
        };
    }
    hasher.finalize()
}
