//! A ledger that outlives its process, in one file.
//!
//! Values lie in two tables, a young and an old one: what is looked up in the old one is written into the young one again, and when the young one is full or
//! old, the old one is dropped and the young one takes its place. So the file is bounded, and what has not been used goes, without a list to keep.

use std::{
    fs,
    io::{self, Read, Seek},
    os::unix::fs::OpenOptionsExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageError, TableDefinition, TableError,
    backends::FileBackend,
};

use super::{
    queue::{Queue, Value},
    seal::Seal,
    store::{Counted, Store, VERSION},
};
use crate::conversation::Fingerprint;

type Values = TableDefinition<'static, &'static [u8], &'static [u8]>;
const YOUNG: Values = TableDefinition::new("young");
const OLD: Values = TableDefinition::new("old");
const ABOUT: TableDefinition<&str, &[u8]> = TableDefinition::new("about");

/// What a value takes besides itself.
const ENTRY: u64 = 32;

pub struct Disk {
    database: Arc<Database>,
    seal: Seal,
    queue: Queue,
    state: Arc<State>,
    key: [u8; 32],
}

#[derive(Default)]
struct State {
    counted: [AtomicU64; 6],
    failing: AtomicBool,
}

impl State {
    fn count(&self, which: usize) {
        self.counted[which].fetch_add(1, Ordering::Relaxed);
    }
}

impl Disk {
    /// Opens or makes the file, which holds `bytes` at most, and nothing that was not used for `seconds`. `secret` encrypts what is in it. A file of
    /// another version or that is broken is begun anew; one that cannot be had is an error.
    pub fn open(path: &Path, bytes: u64, seconds: u64, secret: Option<[u8; 32]>) -> io::Result<Disk> {
        let (database, key) = match begin(path) {
            Ok(begun) => begun,
            Err(Unusable::Alien(why)) => {
                tracing::warn!(why, "the ledger on disk cannot be read and is begun anew");
                fs::remove_file(path)?;
                begin(path).map_err(|unusable| io::Error::other(unusable.why()))?
            }
            Err(Unusable::Refused(error)) => return Err(error),
        };
        let database = Arc::new(database);
        let state = Arc::<State>::default();
        let mut tables = Tables { database: database.clone(), most: (bytes / 2).max(1), age: (seconds / 2).max(1), held: 0, turned: now() };
        tables.measure();
        let writing = state.clone();
        let sealing = Seal::new(secret);
        let queue = Queue::new(move |values| {
            let written = guarded(|| tables.write(&sealing, &values));
            writing.failing.store(written.is_err(), Ordering::Relaxed);
            values.iter().for_each(|_| writing.count(3 + usize::from(written.is_err())));
            if let Err(error) = written {
                tracing::warn!(cause = %error, "the ledger cannot be written");
            }
        })?;
        Ok(Disk { database, seal: Seal::new(secret), queue, state, key })
    }

    /// A key that this file has had from its beginning.
    pub fn key(&self) -> [u8; 32] {
        self.key
    }

    fn look_up(&self, keys: &[Fingerprint]) -> Result<Vec<Option<Vec<u8>>>, redb::Error> {
        let transaction = self.database.begin_read()?;
        let table = |definition: Values| match transaction.open_table(definition) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error),
        };
        let (young, old) = (table(YOUNG)?, table(OLD)?);
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let open = |sealed: redb::AccessGuard<&[u8]>| self.seal.open(*key, sealed.value());
            let mut value = match &young {
                Some(young) => young.get(&key.0[..])?.and_then(open),
                None => None,
            };
            if let (None, Some(old)) = (&value, &old) {
                value = old.get(&key.0[..])?.and_then(open);
                value.iter().for_each(|value| self.queue.put((*key, value.clone())));
            }
            found.push(value);
        }
        Ok(found)
    }
}

impl Store for Disk {
    fn get(&self, keys: &[Fingerprint]) -> Vec<Option<Vec<u8>>> {
        match guarded(|| self.look_up(keys)) {
            Ok(found) => {
                self.state.count(0);
                found
            }
            Err(error) => {
                self.state.count(1);
                tracing::warn!(cause = %error, "the ledger cannot be read");
                vec![None; keys.len()]
            }
        }
    }

    fn put(&self, key: Fingerprint, value: Vec<u8>) {
        self.queue.put((key, value));
    }

    /// Nobody else has the file.
    fn claim(&self, _: Fingerprint, _: u64) -> bool {
        true
    }

    fn answers(&self) -> bool {
        !self.state.failing.load(Ordering::Relaxed)
    }

    fn counted(&self) -> Counted {
        let [got, not_got, _, put, not_put, _] = [0, 1, 2, 3, 4, 5].map(|which: usize| self.state.counted[which].load(Ordering::Relaxed));
        Counted { get: [got, not_got, 0], put: [put, not_put, self.queue.dropped.load(Ordering::Relaxed)] }
    }

    fn flush(&self) {
        self.queue.flush();
    }
}

/// Why a file is not a ledger.
enum Unusable {
    Alien(&'static str),
    Refused(io::Error),
}

impl Unusable {
    fn why(self) -> String {
        match self {
            Unusable::Alien(why) => why.into(),
            Unusable::Refused(error) => error.to_string(),
        }
    }
}

fn begin(path: &Path) -> Result<(Database, [u8; 32]), Unusable> {
    // What conversations say stands in it, without a secret for everybody who can read it.
    let mut file =
        fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(Unusable::Refused)?;
    if !can_have_been_ours(&mut file).map_err(Unusable::Refused)? {
        let what = format!("{} is another file; expected a ledger, or none yet", path.display());
        return Err(Unusable::Refused(io::Error::new(io::ErrorKind::AlreadyExists, what)));
    }
    let opened = catch_unwind(|| Database::builder().create_with_backend(FileBackend::new(file)?));
    let database = opened.map_err(|_| Unusable::Alien("it is broken"))?.map_err(|error| match error {
        DatabaseError::UpgradeRequired(_) => Unusable::Alien("it is of another version"),
        DatabaseError::RepairAborted | DatabaseError::Storage(StorageError::Corrupted(_)) => Unusable::Alien("it is broken"),
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => Unusable::Alien("it is no ledger"),
        DatabaseError::Storage(StorageError::Io(error)) => Unusable::Refused(error),
        error => Unusable::Refused(io::Error::other(error)),
    })?;
    let key =
        guarded(|| about(&database)).map_err(|_| Unusable::Alien("it is broken"))?.ok_or(Unusable::Alien("it is of another version"))?;
    Ok((database, key))
}

/// The database panics at some bytes that it did not write itself.
fn guarded<T>(work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, redb::Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(redb::Error::Corrupted("it is broken".into())))
}

/// Whether a file may be thrown away where it cannot be read: it begins as databases do, or with nothing, as a crash may leave it.
fn can_have_been_ours(file: &mut fs::File) -> io::Result<bool> {
    let mut first = Vec::new();
    file.take(4).read_to_end(&mut first)?;
    file.rewind()?;
    Ok(first == b"redb" || first.iter().all(|byte| *byte == 0))
}

/// The key of the file, which a new one is given; nothing where it is of another version.
fn about(database: &Database) -> Result<Option<[u8; 32]>, redb::Error> {
    let transaction = database.begin_write()?;
    let key = {
        let mut about = transaction.open_table(ABOUT)?;
        let version = about.get("version")?.map(|version| version.value().to_vec());
        match version {
            None => {
                let key: [u8; 32] = ring::rand::generate(&ring::rand::SystemRandom::new()).map_or([0; 32], |random| random.expose());
                about.insert("version", &VERSION.to_le_bytes()[..])?;
                about.insert("key", &key[..])?;
                Some(key)
            }
            Some(version) if version == VERSION.to_le_bytes() => about.get("key")?.and_then(|key| key.value().try_into().ok()),
            Some(_) => None,
        }
    };
    transaction.commit()?;
    Ok(key)
}

/// The writing side.
struct Tables {
    database: Arc<Database>,
    most: u64,
    age: u64,
    /// Bytes in the young table, about.
    held: u64,
    /// When the young table was begun, in seconds since 1970.
    turned: u64,
}

impl Tables {
    /// What was there before.
    fn measure(&mut self) {
        let measured = || -> Result<u64, redb::Error> {
            let table = self.database.begin_read()?.open_table(YOUNG)?;
            Ok(table.stats()?.stored_bytes() + ENTRY * table.len()?)
        };
        self.held = measured().unwrap_or(0);
    }

    /// All of them or none, and on the disk when it returns.
    fn write(&mut self, seal: &Seal, values: &[Value]) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        let mut more = 0;
        if self.held > self.most || now().saturating_sub(self.turned) > self.age {
            transaction.delete_table(OLD)?;
            match transaction.rename_table(YOUNG, OLD) {
                Ok(()) | Err(TableError::TableDoesNotExist(_)) => {}
                Err(error) => return Err(error.into()),
            }
            (self.held, self.turned) = (0, now());
        }
        {
            let mut young = transaction.open_table(YOUNG)?;
            for (key, value) in values {
                let Some(sealed) = seal.seal(*key, value) else { continue };
                if young.insert(&key.0[..], &sealed[..])?.is_none() {
                    more += sealed.len() as u64 + ENTRY;
                }
            }
        }
        transaction.commit()?;
        self.held += more;
        Ok(())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
