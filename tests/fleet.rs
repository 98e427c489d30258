//! Three replicas behind a round-robin balancer, one Redis, many agents at once; then everything around them fails in turn.
//!
//! The short version runs with all tests. `tests/fleet/run` is the long one; it sets PLIMSOLL_FLEET_AGENTS.

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::Instant,
};

use plimsoll::{
    budget::Window,
    conversation::Fingerprint,
    decide::{Call, Decider, Decision, Policy, Rewrite, Steer},
    wire::{Format, Request},
};
use rustls::pki_types::ServerName;
use support::{
    Agent, CHAT, Upstream,
    agent::ask,
    long::{WINDOW, body},
    ok, post,
    process::Process,
    redis::Redis,
    secure::Identity,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsConnector;

/// How upstream behaves.
#[derive(Clone, Copy)]
enum Mood {
    Fine,
    /// Answers when it is let go.
    Slow,
    /// Closes the connection without a word.
    Gone,
}

struct Fleet {
    upstream: Upstream,
    mood: Arc<AtomicU8>,
    release: Arc<Semaphore>,
    replicas: Mutex<Vec<Process>>,
    balancer: SocketAddr,
    tls: TlsConnector,
    agents: usize,
    retried: AtomicUsize,
}

/// What an agent was told: a status, or nothing because its connection broke.
type Told = Option<u16>;

impl Fleet {
    async fn request(&self, session: &str, turns: usize) -> Told {
        let stream = TcpStream::connect(self.balancer).await.ok()?;
        let stream = self.tls.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.ok()?;
        let mut agent = Agent::over(stream);
        agent.stream.write_all(&post(CHAT, &body(session, turns))).await.ok()?;
        agent.stream.flush().await.ok()?;
        let (line, _) = agent.head().await?;
        line.split(' ').nth(1)?.parse().ok()
    }

    /// All agents take this turn at once. What each was told first; who was told nothing asks again, as every agent does.
    async fn turn(self: &Arc<Self>, turns: usize) -> Vec<Told> {
        let all: Vec<_> = (0..self.agents)
            .map(|n| {
                let fleet = self.clone();
                tokio::spawn(async move {
                    let first = fleet.request(&format!("s{n}"), turns).await;
                    let mut told = first;
                    while told.is_none() {
                        fleet.retried.fetch_add(1, Ordering::Relaxed);
                        told = fleet.request(&format!("s{n}"), turns).await;
                    }
                    first
                })
            })
            .collect();
        let mut told = Vec::new();
        for agent in all {
            told.push(agent.await.unwrap());
        }
        told
    }

    fn become_(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::Relaxed);
    }

    async fn metric(&self, name: &str) -> Vec<u64> {
        let admins: Vec<SocketAddr> = self.replicas.lock().unwrap().iter().map(|replica| replica.admin).collect();
        let mut values = Vec::new();
        for admin in admins {
            let got = ask(admin, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").await;
            values.extend(got.text().lines().filter_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()));
        }
        values
    }

    /// Returns when every replica says so.
    async fn until(&self, name: &str, wanted: impl Fn(u64) -> bool) {
        while !self.metric(name).await.iter().all(|value| wanted(*value)) {
            tokio::task::yield_now().await;
        }
    }
}

/// Passes connections on, to the next replica that takes one.
async fn balance(replicas: Vec<SocketAddr>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut next = 0;
        while let Ok((mut agent, _)) = listener.accept().await {
            next += 1;
            let replicas = replicas.clone();
            tokio::spawn(async move {
                for n in 0..replicas.len() {
                    if let Ok(mut replica) = TcpStream::connect(replicas[(next + n) % replicas.len()]).await {
                        let _ = tokio::io::copy_bidirectional(&mut agent, &mut replica).await;
                        return;
                    }
                }
            });
        }
    });
    address
}

async fn upstream(mood: Arc<AtomicU8>, release: Arc<Semaphore>) -> Upstream {
    Upstream::conduct(move |_, _, mut stream| {
        let (mood, release) = (mood.clone(), release.clone());
        async move {
            match mood.load(Ordering::Relaxed) {
                mood if mood == Mood::Gone as u8 => return None,
                mood if mood == Mood::Slow as u8 => release.acquire().await.ok()?.forget(),
                _ => {}
            }
            stream.write_all(&ok("{}")).await.ok()?;
            Some(stream)
        }
    })
    .await
}

/// What one process that never forgets sends.
fn alone(session: &str, turns: impl Iterator<Item = usize>) -> Vec<bytes::Bytes> {
    let decider = Decider::new(64 << 20, 3600, 16 << 20);
    turns
        .map(|turns| {
            let call = Call {
                request: Request::read(Format::Chat, body(session, turns).into()).unwrap(),
                tenant: Fingerprint::default(),
                upstream: "test".into(),
                policy: Arc::new(Policy::default()),
                steer: Steer::Default,
                focus: String::new(),
                window: Some(Window { tokens: WINDOW, separate_output: false }),
                now: 1,
            };
            match decider.before_send(&call) {
                Decision::Send(Rewrite { body, .. }) => body,
                Decision::Pass(_) | Decision::Refuse(_) => call.request.bytes().clone(),
            }
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_and_every_replica_sends_the_same_bytes_whatever_fails() {
    let Some(redis) = Redis::start() else { return };
    let agents: usize = std::env::var("PLIMSOLL_FLEET_AGENTS").map_or(12, |agents| agents.parse().unwrap());
    let began = Instant::now();
    let (mood, release) = (Arc::<AtomicU8>::default(), Arc::new(Semaphore::new(0)));
    let upstream = upstream(mood.clone(), release.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Identity::new(), Identity::new());
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let mount = |identity: &Identity| {
        std::fs::copy(&identity.certificate, &certificate).unwrap();
        std::fs::copy(&identity.key, &key).unwrap();
    };
    mount(&old);
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "shared by all replicas").unwrap();
    let file = folder.path().join("plimsoll.toml");
    let (provider, shared) = (upstream.url(), redis.url());
    let configuration = |more: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nreload = 0.02\ndiscover = false\nupstream = \"{provider}\"\n{more}\n[policy]\nwindow = {WINDOW}\n\
             [tls]\ncertificate = {certificate:?}\nkey = {key:?}\n[ledger]\nstore = \"redis\"\nurl = \"{shared}\"\nsecret = \"file:{}\"\n",
            secret.display()
        )
    };
    std::fs::write(&file, configuration("")).unwrap();
    let replicas: Vec<Process> = (0..3).map(|_| Process::serve(&file)).collect();
    let balancer = balance(replicas.iter().map(|replica| replica.address).collect()).await;
    let tls = Identity::trusted(&[&old, &new]);
    let fleet = Arc::new(Fleet { upstream, mood, release, replicas: replicas.into(), balancer, tls, agents, retried: AtomicUsize::new(0) });
    let fine = vec![Some(200); agents];

    // All is well.
    for turns in 8..16 {
        assert_eq!(fleet.turn(turns).await, fine, "turn {turns}");
    }
    let shared: u64 = fleet.metric("plimsoll_ledger_lookups_total{outcome=\"store\"}").await.iter().sum();
    assert!(shared > 0, "what one replica decided another one found");

    // Redis is stopped.
    drop(redis);
    assert_eq!(fleet.turn(16).await, fine);
    assert_eq!(fleet.turn(17).await, fine);
    fleet.until("plimsoll_ledger_store_up", |up| up == 0).await;

    // A replica is killed under load. Whose connection broke asks again.
    let arrived = fleet.upstream.seen().len();
    let load = tokio::spawn({
        let fleet = fleet.clone();
        async move { fleet.turn(18).await }
    });
    fleet.upstream.arrived(arrived + agents / 4).await;
    fleet.replicas.lock().unwrap().pop().unwrap().kill();
    let told = load.await.unwrap();
    assert!(told.iter().all(|told| matches!(told, Some(200) | None)), "{told:?}");
    let broken = told.iter().filter(|told| told.is_none()).count();

    // Certificates and configuration are rotated under load.
    let load = tokio::spawn({
        let fleet = fleet.clone();
        async move { [fleet.turn(19).await, fleet.turn(20).await] }
    });
    mount(&new);
    std::fs::write(&file, configuration("annotate = false")).unwrap();
    assert_eq!(load.await.unwrap(), [fine.clone(), fine.clone()]);
    fleet.until("plimsoll_configuration_loads_total{outcome=\"applied\"}", |loads| loads > 0).await;
    fleet.until("plimsoll_configuration_valid", |valid| valid == 1).await;
    let replica = fleet.replicas.lock().unwrap()[0].address;
    assert!(old.try_connect(replica, &["http/1.1"], None).await.is_err(), "the old certificate is gone");

    // Upstream is slow: every agent waits, and nothing else happens.
    fleet.become_(Mood::Slow);
    let arrived = fleet.upstream.seen().len();
    let load = tokio::spawn({
        let fleet = fleet.clone();
        async move { fleet.turn(21).await }
    });
    fleet.upstream.arrived(arrived + agents).await;
    fleet.release.add_permits(agents);
    assert_eq!(load.await.unwrap(), fine);

    // And then not there at all: agents are told so, and nothing else.
    fleet.become_(Mood::Gone);
    assert_eq!(fleet.turn(22).await, vec![Some(502); agents]);
    fleet.become_(Mood::Fine);
    assert_eq!(fleet.turn(22).await, fine);

    // Every request that arrived, whoever sent it, is what one process would have sent that never forgets.
    let seen = fleet.upstream.seen();
    let mut same = 0;
    for n in 0..agents {
        let wanted = alone(&format!("s{n}"), 8..23);
        let name = format!("In s{n}: ");
        for seen in seen.iter().filter(|seen| seen.body.windows(name.len()).any(|window| window == name.as_bytes())) {
            assert!(wanted.iter().any(|wanted| *wanted == seen.body), "s{n}: a body that nobody would send");
            same += 1;
        }
    }
    assert_eq!(same, seen.len());
    let memory = fleet.metric("process_resident_memory_bytes").await;
    println!(
        "{agents} agents, {} requests at upstream, all as wanted; {shared} look-ups answered by another replica's work; {broken} connections broke when \
         a replica was killed, {} tries again; none lost; replicas hold {:?} MB; {:.1} s",
        seen.len(),
        fleet.retried.load(Ordering::Relaxed),
        memory.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>(),
        began.elapsed().as_secs_f64()
    );
}
