//! What stands behind the ledger: nothing is forgotten, nothing torn or alien is served, and no byte that is sent depends on it.

mod support;

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use plimsoll::{
    budget::Window,
    compact::summary::{Summarize, Summary},
    conversation::Fingerprint,
    decide::{Call, Decider, Decision, Need, Policy, Report, Rewrite, Steer, Ticket},
    ledger::{
        Counted, Ledger, Store,
        disk::Disk,
        redis::{Address, Redis},
        seal::Seal,
    },
    wire::{Format, Request},
};
use support::{
    CHAT, Upstream,
    agent::ask,
    long::{WINDOW, body},
    ok, post,
    process::Process,
    secure::Identity,
};

fn call(session: &str, turns: usize) -> Call {
    Call {
        request: Request::read(Format::Chat, body(session, turns).into()).unwrap(),
        tenant: Fingerprint::default(),
        upstream: "test".into(),
        policy: Arc::new(Policy::default()),
        steer: Steer::Default,
        focus: String::new(),
        window: Some(Window { tokens: WINDOW, separate_output: false }),
        now: 1,
    }
}

fn decider(store: Option<Arc<dyn Store>>) -> Decider {
    let mut decider = Decider::new(8 << 20, 3600, 4 << 20);
    if let Some(store) = store {
        decider.ledger = Ledger::new(8 << 20, 3600).backed(store);
    }
    decider
}

fn send(decider: &Decider, call: &Call) -> (Bytes, Report, Option<Ticket>) {
    match decider.before_send(call) {
        Decision::Send(Rewrite { body, report, ticket }) => (body, report, Some(ticket)),
        Decision::Pass(report) | Decision::Refuse(report) => (call.request.bytes().clone(), report, None),
    }
}

/// Look-ups that were answered by memory, by the store, by nobody.
fn found(decider: &Decider) -> [u64; 3] {
    [0, 1, 2].map(|place: usize| decider.ledger.found[place].load(Ordering::Relaxed))
}

type Change = fn(Vec<u8>) -> Option<Vec<u8>>;

/// A store in memory that gives back what it was given, or something else, of the sealed bytes.
struct Shelf {
    values: Mutex<HashMap<Fingerprint, Vec<u8>>>,
    claims: Mutex<HashSet<Fingerprint>>,
    change: Change,
    seal: Seal,
}

impl Shelf {
    fn new(change: Change) -> Arc<Shelf> {
        Arc::new(Shelf { values: Mutex::default(), claims: Mutex::default(), change, seal: Seal::new(None) })
    }
}

impl Store for Shelf {
    fn get(&self, keys: &[Fingerprint]) -> Vec<Option<Vec<u8>>> {
        let values = self.values.lock().unwrap();
        keys.iter().map(|key| self.seal.open(*key, &(self.change)(values.get(key)?.clone())?)).collect()
    }
    fn put(&self, key: Fingerprint, value: Vec<u8>) {
        let sealed = self.seal.seal(key, &value).unwrap();
        self.values.lock().unwrap().insert(key, sealed);
    }
    fn claim(&self, key: Fingerprint, _: u64) -> bool {
        self.claims.lock().unwrap().insert(key)
    }
    fn answers(&self) -> bool {
        true
    }
    fn counted(&self) -> Counted {
        Counted::default()
    }
    fn flush(&self) {}
}

/// A session that is compacted, up to this turn.
const LONG: usize = 24;

fn play(decider: &Decider, session: &str) -> Vec<Bytes> {
    (1..=LONG).map(|turns| send(decider, &call(session, turns)).0).collect()
}

#[test]
fn stable_what_one_replica_decided_another_finds_and_sends() {
    let shelf = Shelf::new(Some);
    let (first, second) = (decider(Some(shelf.clone())), decider(Some(shelf.clone())));
    let alone = play(&decider(None), "one");
    for (turn, wanted) in alone.iter().enumerate() {
        // Round robin.
        let (sent, report, _) = send(if turn % 2 == 0 { &first } else { &second }, &call("one", turn + 1));
        assert!(sent == *wanted, "turn {turn}");
        assert!(turn + 1 < LONG || report.edited);
    }
    assert!(found(&first)[1] > 3 && found(&second)[1] > 3, "{:?} {:?}", found(&first), found(&second));
    let text: Vec<u8> = shelf.values.lock().unwrap().keys().flat_map(|key| key.0).collect();
    assert!(!text.windows(7).any(|seven| seven == b"compute"), "keys are hashes");
}

/// One replica summarises a prefix, and all of them send the summary.
#[test]
fn once_a_prefix_is_summarised_by_one_replica_for_all() {
    let summarize = Summarize { model: "cheap".into(), ..Summarize::default() };
    let mut policy = Policy::default();
    policy.compact.summarize = summarize;
    let policy = Arc::new(policy);
    let shelf = Shelf::new(Some);
    let replicas = [decider(Some(shelf.clone())), decider(Some(shelf.clone()))];
    let (mut begun, mut sent) = (0, 0);
    for turns in 1..=LONG {
        let call = Call { policy: policy.clone(), ..call("one", turns) };
        for replica in &replicas {
            if let Some(Need::Begin(job)) = replica.summary(&call) {
                begun += 1;
                let summary = Summary { text: format!("Summary {begun} of what was done."), generation: 1, ..Summary::default() };
                replica.summarized(job.claim, Some(summary), 1, 1);
            }
        }
        let [one, other] = [0, 1].map(|n: usize| send(&replicas[n], &call).0);
        assert!(one == other, "turn {turns}");
        sent += usize::from(one.windows(11).any(|text| text == b"of what was"));
    }
    let claims = shelf.claims.lock().unwrap().len();
    assert!(sent > 0 && begun > 0 && begun == claims, "{sent} {begun} {claims}");
}

#[test]
fn what_one_replica_learnt_to_leave_alone_another_leaves_alone() {
    let shelf = Shelf::new(Some);
    let (first, second) = (decider(Some(shelf.clone())), decider(Some(shelf)));
    let last = call("one", LONG);
    play(&first, "one");
    let (_, report, ticket) = send(&second, &last);
    assert!(report.edited);
    second.quarantine(&ticket.unwrap(), 1);
    // The first one has its own memory of this very prefix, in which all is well.
    assert!(!send(&first, &last).1.edited);
}

#[test]
fn what_comes_back_torn_alien_or_not_at_all_changes_no_byte() {
    let changes: [Change; 5] = [
        |_| None,
        |_| Some(vec![]),
        |value| Some(value[..value.len() / 2].to_vec()),
        |_| Some(b"something else".to_vec()),
        |mut value| {
            let last = value.len() - 1;
            value[last] ^= 1;
            Some(value)
        },
    ];
    let alone = play(&decider(None), "one");
    for change in changes {
        let shelf = Shelf::new(change);
        play(&decider(Some(shelf.clone())), "one");
        assert!(!shelf.values.lock().unwrap().is_empty());
        let other = decider(Some(shelf));
        for (turn, wanted) in alone.iter().enumerate() {
            assert!(send(&other, &call("one", turn + 1)).0 == *wanted, "turn {turn}");
        }
    }
}

fn disk(path: &Path, secret: Option<[u8; 32]>) -> Arc<Disk> {
    Arc::new(Disk::open(path, 64 << 20, 3600, secret).unwrap())
}

#[test]
fn a_restart_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (name, secret) in [("open", None), ("encrypted", Some([9; 32]))] {
        let path = folder.path().join(name);
        let store = disk(&path, secret);
        let key = store.key();
        let sent = play(&decider(Some(store.clone())), "one");
        store.flush();
        drop(store);
        let words = std::fs::read(&path).unwrap();
        assert!(!words.windows(12).any(|twelve| twelve == b"let one_0_0 "), "compressed, if nothing else");

        let store = disk(&path, secret);
        assert_eq!(store.key(), key, "tenants are hashed as before");
        let after = decider(Some(store.clone()));
        assert!(send(&after, &call("one", LONG)).0 == sent[LONG - 1]);
        assert_eq!(found(&after), [0, 1, 0]);
        drop((after, store));

        let other = decider(Some(disk(&path, Some([1; 32]))));
        assert!(send(&other, &call("one", LONG)).0 == sent[LONG - 1]);
        assert_eq!(found(&other), [0, 0, 1], "another secret opens nothing");
    }
}

#[test]
fn a_file_that_is_no_ledger_is_begun_anew_and_one_that_cannot_be_had_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let value = (Fingerprint([5; 16]), b"value".to_vec());
    for broken in [Vec::new(), vec![0; 100_000], {
        let store = disk(&path, None);
        store.put(value.0, value.1.clone());
        store.flush();
        drop(store);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() / 2);
        bytes
    }] {
        std::fs::write(&path, broken).unwrap();
        let store = disk(&path, None);
        store.put(value.0, value.1.clone());
        store.flush();
        assert_eq!(store.get(&[value.0, Fingerprint([6; 16])]), [Some(value.1.clone()), None]);
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(folder.path().join("ledger")).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "nobody else reads what conversations say");
    let other = folder.path().join("other");
    std::fs::write(&other, "somebody's notes").unwrap();
    assert!(Disk::open(&other, 1 << 20, 60, None).err().unwrap().to_string().contains("is another file"));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "somebody's notes");
    let used = disk(&path, None);
    assert!(Disk::open(&path, 1 << 20, 60, None).is_err(), "another process has it");
    drop(used);
    assert!(Disk::open(&folder.path().join("no/such/folder"), 1 << 20, 60, None).is_err());
}

#[test]
fn a_file_that_is_broken_anywhere_tells_nothing_wrong_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let value = |n: u8| (Fingerprint([n; 16]), vec![n; 3000]);
    let store = disk(&path, None);
    (0..40).for_each(|n| store.put(value(n).0, value(n).1));
    store.flush();
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    for at in used.iter().step_by(used.len() / 60) {
        let mut broken = whole.clone();
        broken[*at..].iter_mut().take(64).for_each(|byte| *byte ^= 0x5a);
        std::fs::write(&path, &broken).unwrap();
        // Its first bytes tell whose it is.
        let Ok(store) = Disk::open(&path, 64 << 20, 3600, None) else {
            assert!(*at < 4, "{at}");
            continue;
        };
        for n in 0..40 {
            let got = store.get(&[value(n).0]).pop().unwrap();
            assert!(got.is_none_or(|got| got == value(n).1), "{n}, broken at {at}");
        }
        store.put(value(99).0, value(99).1);
        store.flush();
    }
}

#[test]
fn the_file_is_bounded_and_keeps_what_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let store = Disk::open(&path, 1 << 20, 3600, None).unwrap();
    let key = |n: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&n.to_le_bytes());
        Fingerprint(key)
    };
    // Nothing that compresses.
    let value = |n: u64| {
        let mut value = vec![0; 4000];
        blake3::Hasher::new().update(&n.to_le_bytes()).finalize_xof().fill(&mut value);
        value
    };
    store.put(key(0), value(0));
    for n in 1..3000 {
        store.put(key(n), value(n));
        if n % 50 == 0 {
            store.flush();
            assert_eq!(store.get(&[key(0)]), [Some(value(0))], "after {n}");
        }
    }
    store.flush();
    assert_eq!(store.get(&[key(1), key(2999)]), [None, Some(value(2999))]);
    let size = std::fs::metadata(&path).unwrap().len();
    assert!(size < 8 << 20, "12 MB were written, {size} bytes are there");
}

fn configuration(upstream: &Upstream, ledger: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ndiscover = false\nupstream = \"{}\"\n[policy]\nwindow = {WINDOW}\n[ledger]\n{ledger}",
        upstream.url()
    )
}

async fn metric(process: &Process, name: &str) -> u64 {
    let got = ask(process.admin, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let line = got.text().lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
    line.trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_under_load_loses_the_last_writes_at_most_and_never_serves_a_torn_one() {
    let upstream = Arc::new(Upstream::new(|_, _| ok("{}")).await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, configuration(&upstream, &format!("store = \"disk\"\npath = {:?}\n", folder.path().join("ledger")))).unwrap();
    let sessions: Vec<String> = (0..6).map(|n| format!("s{n}")).collect();
    for round in 0..3 {
        let mut process = Process::serve(&file);
        let address = process.address;
        let arrived = upstream.seen().len();
        let load: Vec<_> = sessions
            .iter()
            .cloned()
            .map(|session| {
                tokio::spawn(async move {
                    for turns in 10 + round..LONG {
                        // It is killed somewhere in here.
                        let mut agent = match tokio::net::TcpStream::connect(address).await {
                            Ok(stream) => support::Agent::over(stream),
                            Err(_) => return,
                        };
                        use tokio::io::AsyncWriteExt;
                        if agent.stream.write_all(&post(CHAT, &body(&session, turns))).await.is_err() || agent.head().await.is_none() {
                            return;
                        }
                    }
                })
            })
            .collect();
        upstream.arrived(arrived + 30 + 7 * round).await;
        process.kill();
        for agent in load {
            agent.await.unwrap();
        }
    }
    let process = Process::serve(&file);
    let alone = decider(None);
    for session in &sessions {
        let before = upstream.seen().len();
        assert_eq!(ask(process.address, post(CHAT, &body(session, LONG))).await.status(), 200);
        let sent = upstream.seen()[before].body.clone();
        let wanted = play(&alone, session);
        assert!(sent == wanted[LONG - 1], "{session}");
    }
    assert!(metric(&process, "plimsoll_ledger_lookups_total{outcome=\"store\"}").await > 0, "something was still there");
}

fn redis(url: &str) -> Redis {
    Redis::new(Address::open(url), Duration::from_millis(500), 3600, [3; 32]).unwrap()
}

#[test]
fn redis_is_shared_and_what_lies_there_is_not_to_be_read() {
    let Some(server) = support::redis::Redis::start() else { return };
    let (first, second): (Arc<Redis>, Arc<Redis>) = (Arc::new(redis(&server.url())), Arc::new(redis(&server.url())));
    let sent = play(&decider(Some(first.clone())), "one");
    first.flush();
    let other = decider(Some(second.clone()));
    assert!(send(&other, &call("one", LONG)).0 == sent[LONG - 1]);
    assert_eq!(found(&other), [0, 1, 0]);

    let mut raw = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let keys: Vec<String> = ::redis::cmd("KEYS").arg("*").query(&mut raw).unwrap();
    assert!(keys.len() > 3);
    for key in &keys {
        let hash = key.strip_prefix("plimsoll:1:").unwrap();
        assert!(hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        let (value, seconds): (Vec<u8>, i64) = ::redis::pipe().cmd("GET").arg(key).cmd("TTL").arg(key).query(&mut raw).unwrap();
        assert!(seconds > 0, "it goes by itself");
        assert!(!value.windows(4).any(|four| four == b"one_" || four == b"src/"), "{key}");
        // Somebody else writes there.
        let _: () = ::redis::cmd("SET").arg(key).arg(&value[..value.len() / 2]).query(&mut raw).unwrap();
    }
    let third = decider(Some(Arc::new(redis(&server.url()))));
    assert!(send(&third, &call("one", LONG)).0 == sent[LONG - 1]);
    assert_eq!(found(&third), [0, 0, 1], "torn values are ignored");
}

#[test]
fn redis_is_trusted_by_authorities_of_its_own() {
    let (identity, stranger) = (Identity::new(), Identity::new());
    let Some(server) = support::redis::Redis::secure(&identity) else { return };
    let url = format!("rediss://{}", server.address);
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    let trust = |identity: &Identity| std::fs::copy(&identity.certificate, &ca).map(drop).unwrap();
    trust(&stranger);
    let trusting = |ca: &Path| {
        let address = Address { ca_file: Some(ca.to_owned()), ..Address::open(&url) };
        Redis::new(address, Duration::from_secs(5), 3600, [3; 32])
    };
    let store = trusting(&ca).unwrap();
    let key = Fingerprint([8; 16]);
    assert_eq!((store.get(&[key]), store.answers()), (vec![None], false));
    // The file is read for each connection.
    trust(&identity);
    while !store.answers() {
        assert_eq!(store.get(&[key]), [None]);
    }
    store.put(key, b"value".to_vec());
    store.flush();
    assert_eq!(store.get(&[key]), [Some(b"value".to_vec())]);
    assert!(trusting(&folder.path().join("none")).is_err());
}

#[test]
fn redis_is_told_its_password_of_the_moment() {
    let Some(server) = support::redis::Redis::start() else { return };
    let mut raw = ::redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let _: () = ::redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("second").query(&mut raw).unwrap();
    let word = Arc::new(Mutex::new("first"));
    let now = word.clone();
    let password = Box::new(move || Ok(Some(now.lock().unwrap().to_string())));
    let store = Redis::new(Address { password, ..Address::open(&server.url()) }, Duration::from_secs(5), 3600, [3; 32]).unwrap();
    let key = Fingerprint([8; 16]);
    assert_eq!((store.get(&[key]), store.answers()), (vec![None], false));
    *word.lock().unwrap() = "second";
    while !store.answers() {
        assert_eq!(store.get(&[key]), [None]);
    }
    store.put(key, b"value".to_vec());
    store.flush();
    assert_eq!(store.get(&[key]), [Some(b"value".to_vec())]);
}

#[test]
fn one_replica_does_what_needs_doing_once_until_its_deadline() {
    let Some(server) = support::redis::Redis::start() else { return };
    let (first, second) = (redis(&server.url()), redis(&server.url()));
    let key = Fingerprint([8; 16]);
    assert!(first.claim(key, 1));
    assert!(!second.claim(key, 1) && !first.claim(key, 1));
    assert!(second.claim(Fingerprint([9; 16]), 60));
    while !second.claim(key, 1) {
        std::thread::yield_now();
    }
}

#[test]
fn a_redis_that_is_slow_or_gone_costs_a_deadline_and_comes_back() {
    let Some(server) = support::redis::Redis::start() else { return };
    let address = server.address;
    let store = Redis::new(Address::open(&server.url()), Duration::from_millis(100), 3600, [3; 32]).unwrap();
    let key = Fingerprint([8; 16]);
    store.put(key, b"value".to_vec());
    store.flush();
    assert_eq!(store.get(&[key]), [Some(b"value".to_vec())]);
    server.freeze();
    assert_eq!(store.get(&[key]), [None]);
    assert!(!store.answers());
    // It is left alone now, and who asks does not wait.
    let asked = store.counted().get;
    assert_eq!(store.get(&[key]), [None]);
    assert_eq!(store.counted().get, [asked[0], asked[1], asked[2] + 1]);
    assert!(store.claim(key, 60), "where nobody can be asked, everybody does it");
    server.thaw();
    while store.get(&[key]) != [Some(b"value".to_vec())] {
        std::thread::yield_now();
    }
    assert!(store.answers());
    drop(server);
    while store.answers() {
        assert_eq!(store.get(&[key]), [None]);
    }
    let Some(_again) = support::redis::Redis::at(address) else { return };
    while !store.answers() {
        assert_eq!(store.get(&[key]), [None], "it is empty now");
    }
}
