//! Agents that come and go for as long as one likes, and what the proxy holds meanwhile.
//!
//! The short version makes some hundred requests and runs with all tests: it looks that everybody was told what upstream said and that nothing is left
//! of those who hung up. `tests/fleet/churn` is the long one, and looks that memory is flat; it sets the variables that are read here.

mod support;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustls::pki_types::ServerName;
use support::{
    Agent, CHAT, END, SSE,
    agent::ask,
    answer, chunk,
    long::{WINDOW, told},
    post,
    process::Process,
    secure::Identity,
    upstream::request,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const TOO_LONG: &str = r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
const FAILED: &str = r#"{"error":{"message":"The server had an error","type":"server_error"}}"#;
const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"},\"finish_reason\":null}]}\n\n";
const LAST: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5000,\"completion_tokens\":4,\"prompt_tokens_details\":{\"cached_tokens\":4000}}}\n\ndata: [DONE]\n\n";
const WORDS: usize = 4;

/// So many agents are there at any time.
const AGENTS: usize = 40;
const REQUESTS_A_RELOAD: usize = 600;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

/// Numbers that look drawn, the same every time.
struct Dice(u64);

impl Dice {
    fn of(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

struct Churn {
    process: Process,
    tls: TlsConnector,
    /// Requests that may be made.
    turns: Semaphore,
    sessions: AtomicUsize,
    forks: AtomicUsize,
    whole: AtomicUsize,
    refused: AtomicUsize,
    hung_up: AtomicUsize,
}

/// What upstream makes of its nth request.
async fn conduct(n: usize, stream: &mut TcpStream, pause: Duration) -> Option<()> {
    match n {
        n if n % 97 == 13 => stream.write_all(&answer("400 Bad Request", "Content-Type: application/json\r\n", TOO_LONG)).await.ok()?,
        n if n % 89 == 13 => stream.write_all(&answer("500 Oops", "Content-Type: application/json\r\n", FAILED)).await.ok()?,
        n if n % 83 == 13 => return None,
        _ => {
            stream.write_all(SSE.as_bytes()).await.ok()?;
            for _ in 0..WORDS {
                stream.write_all(&chunk(WORD)).await.ok()?;
                tokio::time::sleep(pause).await;
            }
            stream.write_all(&[chunk(LAST), END.to_vec()].concat()).await.ok()?;
        }
    }
    Some(())
}

/// An upstream that remembers nothing, so that it can go on for long.
async fn provider(pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let count = Arc::<AtomicUsize>::default();
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = count.clone();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut buffer = Vec::new();
                while request(&mut stream, &mut buffer, 0).await.is_some() {
                    if conduct(count.fetch_add(1, Ordering::Relaxed), &mut stream, pause).await.is_none() {
                        return;
                    }
                }
            });
        }
    });
    url
}

impl Churn {
    /// One agent after another, until there are no turns left.
    async fn play(&self, mut dice: Dice) {
        while self.session(&mut dice).await.is_some() {}
    }

    /// A conversation that grows, and is sometimes taken back to an earlier turn, on connections of its own.
    async fn session(&self, dice: &mut Dice) -> Option<()> {
        let name = format!("s{}", self.sessions.fetch_add(1, Ordering::Relaxed));
        let (mut line, mut history, mut fork) = (None, Vec::new(), 0);
        for _ in 0..3 + dice.of(60) {
            if history.len() > 6 && dice.of(15) == 0 {
                history.truncate(history.len() - 1 - dice.of(5));
                fork += 1;
                self.forks.fetch_add(1, Ordering::Relaxed);
            }
            history.push(format!("{name}_{fork}_{}", history.len()));
            self.turns.acquire().await.ok()?.forget();
            let mut agent = match line.take() {
                Some(agent) => agent,
                None => self.connect().await,
            };
            if self.turn(&mut agent, &told(&name, &history), dice).await {
                line = Some(agent);
            }
        }
        Some(())
    }

    async fn connect(&self) -> Agent<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.process.address).await.unwrap();
        Agent::over(self.tls.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap())
    }

    /// Whether the connection is still there.
    async fn turn(&self, agent: &mut Agent<TlsStream<TcpStream>>, body: &str, dice: &mut Dice) -> bool {
        let asked = post(CHAT, body);
        match dice.of(40) {
            // It goes in the middle of its own request,
            0 => agent.send(&asked[..asked.len() / 2]).await,
            // or of the answer.
            1 | 2 => {
                agent.send(&asked).await;
                drop(agent.head().await);
            }
            _ => {
                agent.send(&asked).await;
                let got = agent.answer().await;
                let wanted = match got.status() {
                    200 => WORD.repeat(WORDS) + LAST,
                    400 => TOO_LONG.to_owned(),
                    500 => FAILED.to_owned(),
                    502 => got.text().to_owned(),
                    other => panic!("{other}: {}", got.text()),
                };
                assert_eq!((got.text(), got.broken), (wanted.as_str(), false));
                let count = if got.status() == 200 { &self.whole } else { &self.refused };
                count.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
        self.hung_up.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn served(&self) -> usize {
        [&self.whole, &self.refused, &self.hung_up].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    async fn metric(&self, name: &str) -> u64 {
        let got = ask(self.process.admin, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let line = got.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    }
}

/// Memory by the time it was looked at. Flat: the mean of the last third is within a tenth of that of the middle third.
fn verdict(samples: &[u64]) -> (f64, f64, bool) {
    let third = samples.len() / 3;
    let mean = |samples: &[u64]| samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64;
    let (middle, last) = (mean(&samples[third..2 * third]), mean(&samples[2 * third..]));
    (middle, last, (last - middle).abs() <= middle / 10.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_come_and_go_leave_nothing_behind() {
    let minutes = variable("PLIMSOLL_CHURN_MINUTES");
    let rate = variable("PLIMSOLL_CHURN_RATE").unwrap_or(20) as usize;
    let seconds = variable("PLIMSOLL_CHURN_SAMPLE").unwrap_or(30) as usize;
    let total = minutes.map_or(400, |minutes| minutes as usize * 60 * rate);
    let (a_reload, a_sample) = if minutes.is_some() { (REQUESTS_A_RELOAD, seconds * rate) } else { (100, 100) };
    let upstream = provider(Duration::from_millis(if minutes.is_some() { 50 } else { 0 })).await;

    let folder = tempfile::tempdir().unwrap();
    let identities = [Identity::new(), Identity::new()];
    let [file, certificate, key] = ["plimsoll.toml", "tls.crt", "tls.key"].map(|name| folder.path().join(name));
    let mount = |from: &PathBuf, to: &PathBuf| std::fs::copy(from, to).map(drop).unwrap();
    let configure = |n: usize| {
        let identity = &identities[n % 2];
        mount(&identity.certificate, &certificate);
        mount(&identity.key, &key);
        // Now and then it is a bad one.
        let target = if n % 5 == 4 { 45.0 } else { 0.45 };
        let text = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nreload = 0.5\ndiscover = false\nupstream = \"{upstream}\"\nannotate = {}\n[policy]\n\
             window = {WINDOW}\ntarget = {target}\n[ledger]\nbytes = 16777216\n[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n",
            n.is_multiple_of(2)
        );
        std::fs::write(&file, text).unwrap();
    };
    configure(0);
    let churn = Arc::new(Churn {
        process: Process::serve(&file),
        tls: Identity::trusted(&[&identities[0], &identities[1]]),
        turns: Semaphore::new(0),
        sessions: AtomicUsize::new(0),
        forks: AtomicUsize::new(0),
        whole: AtomicUsize::new(0),
        refused: AtomicUsize::new(0),
        hung_up: AtomicUsize::new(0),
    });
    let agents: Vec<_> = (0..AGENTS)
        .map(|n| {
            let churn = churn.clone();
            tokio::spawn(async move { churn.play(Dice(n as u64)).await })
        })
        .collect();

    let began = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate as u32);
    let mut samples = Vec::new();
    if minutes.is_some() {
        println!("  seconds  requests  sessions  MB resident  ledger entries  connections  open files");
    }
    for n in 1..=total {
        match minutes {
            Some(_) => drop(ticks.tick().await),
            None => {
                while churn.served() + AGENTS < n {
                    tokio::task::yield_now().await;
                }
            }
        }
        churn.turns.add_permits(1);
        if n.is_multiple_of(a_reload) {
            configure(n / a_reload);
        }
        if n.is_multiple_of(a_sample) {
            samples.push(churn.metric("process_resident_memory_bytes").await);
            if minutes.is_some() {
                println!(
                    "{:>9}{:>10}{:>10}{:>13.1}{:>16}{:>13}{:>12}",
                    began.elapsed().as_secs(),
                    churn.served(),
                    churn.sessions.load(Ordering::Relaxed),
                    samples[samples.len() - 1] as f64 / f64::from(1 << 20),
                    churn.metric("plimsoll_ledger_entries").await,
                    churn.metric("plimsoll_connections").await,
                    churn.metric("process_open_fds").await
                );
            }
        }
    }
    while churn.served() < total {
        tokio::task::yield_now().await;
    }
    churn.turns.close();
    for agent in agents {
        agent.await.unwrap();
    }
    // All have gone, and nothing is kept for them.
    for name in ["plimsoll_exchanges_in_flight", "plimsoll_connections"] {
        while churn.metric(name).await > 0 {
            tokio::task::yield_now().await;
        }
    }
    let (middle, last, flat) = verdict(&samples);
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    println!(
        "{} requests of {} sessions with {} forks: {} answered, {} refused in upstream's words, {} hung up; {} reloads, {} refused; \
         resident {:.1} MB in the middle third, {:.1} MB in the last: {}",
        churn.served(),
        count(&churn.sessions),
        count(&churn.forks),
        count(&churn.whole),
        count(&churn.refused),
        count(&churn.hung_up),
        churn.metric("plimsoll_configuration_loads_total{outcome=\"applied\"}").await,
        churn.metric("plimsoll_configuration_loads_total{outcome=\"refused\"}").await,
        middle / f64::from(1 << 20),
        last / f64::from(1 << 20),
        if flat { "flat" } else { "NOT flat" }
    );
    assert!(flat || minutes.is_none(), "memory is not flat");
}

#[test]
fn memory_that_grows_is_not_called_flat() {
    let flat: Vec<u64> = [50, 90, 110, 100, 101, 102, 103, 99, 101].to_vec();
    assert!(verdict(&flat).2);
    let growing: Vec<u64> = (1..=90).map(|n| 100 + 2 * n).collect();
    assert!(!verdict(&growing).2);
}
