//! A ledger that many replicas share, in Redis or Valkey.
//!
//! It has a deadline. When it is missed, or the connection fails, memory serves alone for a moment, and then one request tries again; so a slow or dead Redis
//! costs one deadline a moment, and no answer.

use std::{
    fs, io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{Client, Connection, FromRedisValue, IntoConnectionInfo, RedisResult, TlsCertificates, cmd};

use super::{
    queue::Queue,
    seal::Seal,
    store::{Counted, Store, VERSION},
};
use crate::conversation::Fingerprint;

/// How long memory serves alone.
const MOMENT: Duration = Duration::from_secs(1);
/// So many unused connections are kept.
const MOST_IDLE: usize = 16;

pub struct Redis {
    remote: Arc<Remote>,
    queue: Queue,
}

/// Where it is, and how it is spoken to. What stands in files is read again for each connection.
pub struct Address {
    pub url: String,
    /// PEM file with the authorities that it is trusted by; nothing: the system's.
    pub ca_file: Option<PathBuf>,
    /// Reads its password; nothing: it asks for none.
    pub password: Box<dyn Fn() -> io::Result<Option<String>> + Send + Sync>,
}

impl Address {
    /// Without TLS of its own and without a password.
    pub fn open(url: &str) -> Address {
        Address { url: url.to_owned(), ca_file: None, password: Box::new(|| Ok(None)) }
    }

    fn client(&self) -> io::Result<Client> {
        let invalid = |error: redis::RedisError| io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
        let mut info = self.url.as_str().into_connection_info().map_err(invalid)?;
        if let Some(password) = (self.password)()? {
            let settings = info.redis_settings().clone().set_password(password);
            info = info.set_redis_settings(settings);
        }
        let Some(file) = &self.ca_file else { return Client::open(info).map_err(invalid) };
        let unreadable = |error: io::Error| io::Error::new(error.kind(), format!("{} cannot be read: {error}", file.display()));
        let root_cert = Some(fs::read(file).map_err(unreadable)?);
        Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert }).map_err(invalid)
    }
}

struct Remote {
    address: Address,
    deadline: Duration,
    /// What is not used is forgotten after so many seconds.
    seconds: u64,
    seal: Seal,
    idle: Mutex<Vec<Connection>>,
    started: Instant,
    /// Milliseconds from `started` until which it is not asked; 0 while it answers.
    until: AtomicU64,
    counted: [AtomicU64; 6],
}

impl Redis {
    /// Nothing is connected yet: it may start later than we do.
    pub fn new(address: Address, deadline: Duration, seconds: u64, secret: [u8; 32]) -> io::Result<Redis> {
        // What is wrong with it is known now.
        address.client()?;
        let remote = Arc::new(Remote {
            address,
            deadline: deadline.max(Duration::from_millis(1)),
            seconds: seconds.max(1),
            seal: Seal::new(Some(secret)),
            idle: Mutex::default(),
            started: Instant::now(),
            until: AtomicU64::new(0),
            counted: Default::default(),
        });
        let writing = remote.clone();
        let queue = Queue::new(move |values| {
            let mut pipe = redis::pipe();
            for (key, value) in &values {
                if let Some(sealed) = writing.seal.seal(*key, value) {
                    pipe.cmd("SET").arg(name(*key)).arg(sealed).arg("EX").arg(writing.seconds).ignore();
                }
            }
            let end = writing.ask(|connection| pipe.query::<()>(connection));
            writing.count(3, &end, values.len() as u64);
        })?;
        Ok(Redis { remote, queue })
    }
}

/// Why there is no answer.
enum Silent {
    Failed,
    /// It was not asked.
    Resting,
}

impl Remote {
    fn ask<T>(&self, question: impl FnOnce(&mut Connection) -> RedisResult<T>) -> Result<T, Silent> {
        let now = self.started.elapsed().as_millis() as u64;
        let until = self.until.load(Ordering::Relaxed);
        let later = now + MOMENT.as_millis() as u64;
        // Of all who come when the moment is over, one tries.
        if until > now || until > 0 && self.until.compare_exchange(until, later, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return Err(Silent::Resting);
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let used = idle.is_some();
        let connection = idle.map_or_else(|| self.connect(), Ok);
        match connection.and_then(|mut connection| Ok((question(&mut connection)?, connection))) {
            Ok((answer, connection)) => {
                self.until.store(0, Ordering::Relaxed);
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < MOST_IDLE {
                    idle.push(connection);
                }
                Ok(answer)
            }
            Err(error) => {
                // Old connections may all be dead, as after a restart of it; the next one who asks makes a new one.
                self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
                if !used || error.is_timeout() {
                    let later = self.started.elapsed().as_millis() as u64 + MOMENT.as_millis() as u64;
                    if self.until.swap(later, Ordering::Relaxed) == 0 {
                        tracing::warn!(cause = error.category(), "the shared ledger does not answer; memory serves alone");
                    }
                }
                Err(Silent::Failed)
            }
        }
    }

    fn connect(&self) -> RedisResult<Connection> {
        let connection = self.address.client()?.get_connection_with_timeout(self.deadline)?;
        connection.set_read_timeout(Some(self.deadline))?;
        connection.set_write_timeout(Some(self.deadline))?;
        Ok(connection)
    }

    fn count<T>(&self, from: usize, end: &Result<T, Silent>, by: u64) {
        let which = match end {
            Ok(_) => 0,
            Err(Silent::Failed) => 1,
            Err(Silent::Resting) => 2,
        };
        self.counted[from + which].fetch_add(by, Ordering::Relaxed);
    }

    fn value<T: FromRedisValue>(&self, question: &redis::Cmd) -> Result<T, Silent> {
        self.ask(|connection| question.query(connection))
    }
}

impl Store for Redis {
    fn get(&self, keys: &[Fingerprint]) -> Vec<Option<Vec<u8>>> {
        let mut question = cmd("MGET");
        for key in keys {
            question.arg(name(*key));
        }
        let end: Result<Vec<Option<Vec<u8>>>, Silent> = self.remote.value(&question);
        self.remote.count(0, &end, 1);
        let sealed = end.ok().filter(|values| values.len() == keys.len()).unwrap_or_else(|| vec![None; keys.len()]);
        keys.iter().zip(sealed).map(|(key, sealed)| self.remote.seal.open(*key, &sealed?)).collect()
    }

    fn put(&self, key: Fingerprint, value: Vec<u8>) {
        self.queue.put((key, value));
    }

    fn claim(&self, key: Fingerprint, seconds: u64) -> bool {
        let mut question = cmd("SET");
        question.arg(format!("{}:claim", name(key))).arg(1).arg("NX").arg("EX").arg(seconds.max(1));
        // "OK", or nil where somebody else has it.
        self.remote.value::<Option<String>>(&question).map_or(true, |answer| answer.is_some())
    }

    fn agree(&self, key: Fingerprint, value: Vec<u8>) -> Vec<u8> {
        let Some(sealed) = self.remote.seal.seal(key, &value) else { return value };
        let mut question = cmd("SET");
        question.arg(name(key)).arg(sealed).arg("NX").arg("EX").arg(self.remote.seconds);
        match self.remote.value::<Option<String>>(&question) {
            Ok(None) => self.get(&[key]).pop().flatten().unwrap_or(value),
            Ok(Some(_)) | Err(_) => value,
        }
    }

    fn answers(&self) -> bool {
        self.remote.until.load(Ordering::Relaxed) == 0
    }

    fn counted(&self) -> Counted {
        let at = |which: usize| self.remote.counted[which].load(Ordering::Relaxed);
        Counted { get: [at(0), at(1), at(2)], put: [at(3), at(4), at(5) + self.queue.dropped.load(Ordering::Relaxed)] }
    }

    fn flush(&self) {
        self.queue.flush();
    }
}

fn name(key: Fingerprint) -> String {
    format!("plimsoll:{VERSION}:{:032x}", u128::from_be_bytes(key.0))
}
