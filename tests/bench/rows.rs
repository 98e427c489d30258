//! The scenarios, one function each.

use std::{
    hint::black_box,
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use plimsoll::tokens::Tokenizer;

use super::{
    client::{Client, counted, request},
    payload::{self, Writer},
    peers::Peer,
    streams,
    table::{self, Row, median, quantile},
};

/// Everything that requests are sent to: the provider itself comes first, Plimsoll last.
struct Bench {
    peers: Vec<Peer>,
    /// A tenth of everything.
    quick: bool,
}

type Scenario = fn(&Bench);
const SCENARIOS: [(&str, Scenario); 8] = [
    ("latency", latency),
    ("session", session),
    ("compacted", compacted),
    ("counting", counting),
    ("sse", sse),
    ("memory", memory),
    ("throughput", throughput),
    ("growth", growth),
];

pub fn run(arguments: &[&str]) -> ExitCode {
    let named: Vec<&&str> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    if let Some(unknown) = named.iter().find(|name| SCENARIOS.iter().all(|(known, _)| known != **name)) {
        eprintln!("no scenario {unknown}; there are {}", SCENARIOS.map(|(name, _)| name).join(", "));
        return ExitCode::FAILURE;
    }
    let provider = Peer::provider();
    let upstream = provider.address;
    let mut peers = vec![provider];
    peers.extend(Peer::nginx(upstream));
    peers.extend(Peer::haproxy(upstream));
    peers.extend([Peer::floor(upstream), Peer::plimsoll(upstream)]);
    let bench = Bench { peers, quick: arguments.contains(&"--quick") };
    if bench.peer("nginx").is_none() || bench.peer("haproxy").is_none() {
        eprintln!("nginx or haproxy is not installed: what is compared with it has no score");
    }
    // Whatever runs first would find everybody cold.
    bench.in_turn(&request(&payload::request(1, 2 << 10), None, ""), bench.times(1000));
    table::head();
    for (name, scenario) in SCENARIOS {
        if named.is_empty() || named.contains(&&name) {
            scenario(&bench);
        }
    }
    ExitCode::SUCCESS
}

impl Bench {
    fn times(&self, times: usize) -> usize {
        if self.quick { (times / 10).max(3) } else { times }
    }

    fn rounds(&self, rounds: usize) -> usize {
        if self.quick { 1 } else { rounds }
    }

    fn peer(&self, name: &str) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.name == name)
    }

    fn plimsoll(&self) -> &Peer {
        self.peer("plimsoll").expect("it runs")
    }

    /// Sends the request to everybody in turn, a tenth of the times in a row; microseconds, by peer.
    fn in_turn(&self, request: &[u8], times: usize) -> Vec<(&'static str, Vec<f64>)> {
        const ROUNDS: usize = 10;
        let in_a_row = times.div_ceil(ROUNDS);
        // Whoever comes first finds the processor cold.
        let cold = 2 + in_a_row / 10;
        let mut clients: Vec<Client> = self.peers.iter().map(|peer| Client::new(peer.address)).collect();
        let mut took: Vec<_> = self.peers.iter().map(|peer| (peer.name, Vec::with_capacity(times))).collect();
        for round in 0..=ROUNDS {
            for n in 0..clients.len() {
                let at = (n + round) % clients.len();
                for time in 0..cold + in_a_row {
                    let micros = clients[at].send(request).as_secs_f64() * 1e6;
                    if round > 0 && time >= cold {
                        took[at].1.push(micros);
                    }
                }
            }
        }
        took
    }
}

/// What each adds to asking the provider directly, by a share of the requests.
fn added(took: &[(&'static str, Vec<f64>)], share: f64) -> Vec<(&'static str, f64)> {
    let at: Vec<(&str, f64)> = took.iter().map(|(name, took)| (*name, quantile(&mut took.clone(), share))).collect();
    at.iter().map(|(name, micros)| (*name, if *name == "direct" { *micros } else { micros - at[0].1 })).collect()
}

fn of(figures: &[(&'static str, f64)], name: &str) -> f64 {
    figures.iter().find(|(of, _)| *of == name).map_or(f64::NAN, |(_, figure)| *figure)
}

fn versus(figures: &[(&'static str, f64)], other: &str) -> f64 {
    of(figures, "plimsoll") / of(figures, other)
}

fn row(name: &str, unit: &'static str, figures: Vec<(&'static str, f64)>, against: (f64, &'static str), must: f64, reach: f64) {
    Row { name: name.to_owned(), unit, figures, score: against.0, of: against.1, must, reach, rising: false }.print();
}

const MUST: [(&str, usize, usize, f64, f64); 4] = [
    ("2 KB", 2 << 10, 3000, 1.75, 1.25),
    ("64 KB", 64 << 10, 1500, 1.0, 0.6),
    ("512 KB", 512 << 10, 400, 1.0, 0.5),
    ("2 MB", 2 << 20, 200, 1.0, 2.0),
];

/// A history that was seen before, under the configuration that there is by default. Up to some size that reads it, and sees by its bytes that it fits;
/// what it costs where it is also fingerprinted, and its counts and its place in the ledger are looked up, is a row below.
fn latency(bench: &Bench) {
    for (name, len, times, must, reach) in MUST {
        let body = payload::request(1, len);
        let took = bench.in_turn(&request(&body, None, ""), bench.times(times));
        let figures = added(&took, 0.5);
        let against_haproxy = versus(&figures, "haproxy");
        row(
            &format!("added p50, {name}"),
            "us",
            figures.clone(),
            (versus(&figures, "nginx"), "x nginx"),
            must,
            if len > 1 << 20 { f64::NAN } else { reach },
        );
        if len > 1 << 20 {
            row(&format!("added p50, {name}"), "us", figures, (against_haproxy, "x haproxy"), f64::NAN, reach);
        }
        if name == "64 KB" {
            let figures = added(&took, 0.99);
            row(&format!("added p99, {name}"), "us", figures.clone(), (versus(&figures, "nginx"), "x nginx"), 1.5, 1.0);
        }
        let took = bench.in_turn(&request(&body, counted(&body), ""), bench.times(times));
        let figures = added(&took, 0.5);
        row(&format!("added p50, {name}, counted"), "us", figures.clone(), (versus(&figures, "nginx"), "x nginx"), f64::NAN, f64::NAN);
    }
}

/// Sixty turns of one agent, and all of them once more.
fn session(bench: &Bench) {
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for seed in 0..bench.rounds(3) as u64 {
        let bodies = payload::session(60, seed);
        for sums in [&mut first, &mut again] {
            let mut clients: Vec<Client> = bench.peers.iter().map(|peer| Client::new(peer.address)).collect();
            let mut sum = vec![0.0; clients.len()];
            let bytes = request(&payload::request(9, 2048), None, "");
            clients.iter_mut().for_each(|client| _ = client.send(&bytes));
            for body in &bodies {
                let bytes = request(body, counted(body), "");
                for (client, sum) in clients.iter_mut().zip(&mut sum) {
                    *sum += client.send(&bytes).as_secs_f64() * 1e3;
                }
            }
            sums.push(sum);
        }
        if seed == 0 {
            eprintln!("session: {:.1} MB in 60 requests", bodies.iter().map(Vec::len).sum::<usize>() as f64 / 1e6);
        }
    }
    let added = |sums: &[Vec<f64>]| -> Vec<(&'static str, f64)> {
        let of = |n: usize| median(sums.iter().map(|sum| if n == 0 { sum[0] } else { sum[n] - sum[0] }).collect());
        bench.peers.iter().enumerate().map(|(n, peer)| (peer.name, of(n))).collect()
    };
    let (first, again) = (added(&first), added(&again));
    let score = of(&first, "plimsoll");
    row("60 turns, first time", "ms", first, (score, "ms"), 200.0, 80.0);
    let score = versus(&again, "nginx");
    row("60 turns, resent", "ms", again, (score, "x nginx"), 3.0, 1.5);
}

/// What it costs to compact, and to send what was compacted before.
fn compacted(bench: &Bench) {
    const WINDOW: u64 = 128_000;
    let mut client = Client::new(bench.plimsoll().address);
    let body = payload::request(2, 2 << 20);
    let (untouched, small) = (request(&body, counted(&body), ""), request(&body, Some(WINDOW), ""));
    client.send(&untouched);
    let cold = client.send(&small).as_secs_f64() * 1e3;
    assert!(client.header("x-plimsoll-epoch").is_some(), "it was compacted");
    let (mut plain, mut edited) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(100) {
        plain.push(client.send(&untouched).as_secs_f64() * 1e6);
        edited.push(client.send(&small).as_secs_f64() * 1e6);
    }
    let (plain, edited) = (median(plain), median(edited));
    row("compacted from the ledger, 2 MB", "us", vec![("plimsoll", edited)], (edited / plain, "x untouched"), 1.3, 1.1);

    let mut epochs = Vec::new();
    for seed in 0..bench.rounds(7) as u64 {
        let body = payload::request(100 + seed, 1 << 20);
        client.send(&request(&body, counted(&body), ""));
        let tokens: u64 = client.header("x-plimsoll-tokens-before").and_then(|tokens| tokens.parse().ok()).expect("a count");
        // A window that it fits, but whose target it is far over.
        let window = Some(tokens * 13 / 10);
        let untouched = request(&body, window, "");
        let plain = median((0..5).map(|_| client.send(&untouched).as_secs_f64() * 1e3).collect());
        let now = client.send(&request(&body, window, "x-plimsoll-compact: now\r\n")).as_secs_f64() * 1e3;
        assert!(client.header("x-plimsoll-epoch").is_some(), "it was compacted");
        epochs.push(now - plain);
    }
    let epoch = median(epochs);
    row("a new epoch over 1 MB", "ms", vec![("plimsoll", epoch)], (epoch, "ms"), 60.0, 25.0);
    row("a replay of 2 MB, never seen", "ms", vec![("plimsoll", cold)], (cold, "ms"), f64::NAN, f64::NAN);
}

/// In this process, on one thread.
fn counting(bench: &Bench) {
    let mut writer = Writer::new(4);
    let text: String = (0..400).map(|_| writer.prose(1500) + &writer.output(6000)).collect();
    let time = |text: &str| {
        let times = (0..bench.times(30)).map(|_| {
            let started = Instant::now();
            black_box(Tokenizer::O200k.count(black_box(text)));
            started.elapsed().as_secs_f64()
        });
        median(times.collect())
    };
    let speed = text.len() as f64 / 1e6 / time(&text);
    let figures = vec![("plimsoll", speed)];
    Row { name: "counting".into(), unit: "MB/s", figures, score: speed, of: "MB/s", must: 30.0, reach: 60.0, rising: true }.print();

    let mut numbers = payload::Numbers::new(7);
    let mut random = |alphabet: &[u8]| (0..1 << 20).map(|_| alphabet[numbers.below(alphabet.len())] as char).collect::<String>();
    let hostile = [
        "a".repeat(1 << 20),
        " ".repeat(1 << 20),
        "-".repeat(1 << 20),
        "7".repeat(1 << 20),
        "e\u{301}".repeat(350_000),
        "<|endoftext|>".repeat(80_000),
        random(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"),
        random(b"-=_*#~"),
    ];
    let worst = hostile.iter().map(|text| time(text) * 1e3).fold(0.0, f64::max);
    row("1 MB of hostile text, the worst", "ms", vec![("plimsoll", worst)], (worst, "ms"), 1000.0, 150.0);
}

fn sse(bench: &Bench) {
    let compared: Vec<&Peer> = bench.peers.iter().collect();
    let cpu = |chunks: usize, pause: usize, connections: usize| -> Vec<(&'static str, f64)> {
        let bytes = request(&payload::streamed(chunks, pause), None, "");
        let mut spent = vec![Vec::new(); compared.len()];
        for time in 0..bench.rounds(4) + 1 {
            for n in 0..compared.len() {
                let (at, before) = ((n + time) % compared.len(), compared[(n + time) % compared.len()].cpu());
                streams::delays(compared[at].address, &bytes, connections);
                if time > 0 {
                    spent[at].push((compared[at].cpu() - before) * 1e6 / (chunks * connections) as f64);
                }
            }
        }
        compared.iter().zip(spent).map(|(peer, spent)| (peer.name, median(spent))).collect()
    };
    let paced = cpu(100, 20_000, 100);
    let score = versus(&paced, "nginx");
    row("SSE: processor a paced chunk", "us", paced.clone(), (score, "x nginx"), 1.15, f64::NAN);
    row("SSE: processor a paced chunk", "us", paced.clone(), (versus(&paced, "haproxy"), "x haproxy"), f64::NAN, 1.0);
    let burst = cpu(500, 0, 50);
    let score = versus(&burst, "nginx");
    row("SSE: processor a burst chunk", "us", burst, (score, "x nginx"), 5.0, 2.0);

    let bytes = request(&payload::streamed(200, 2000), None, "");
    let mut delays: Vec<(&str, Vec<f64>)> = compared.iter().map(|peer| (peer.name, Vec::new())).collect();
    for _ in 0..bench.rounds(6) {
        for (peer, (_, delays)) in compared.iter().zip(&mut delays) {
            delays.extend(streams::delays(peer.address, &bytes, 1).into_iter().map(|delay| delay as f64 / 1e3));
        }
    }
    let figures = added(&delays, 0.5);
    let score = versus(&figures, "nginx");
    row("SSE: added delay of a chunk, p50", "us", figures, (score, "x nginx"), 1.5, 1.1);
}

fn memory(bench: &Bench) {
    let fresh = Peer::plimsoll(bench.peers[0].address);
    let mut client = Client::new(fresh.address);
    // Every table of the tokenizers is touched.
    let body = payload::request(5, 200 << 10);
    client.send(&request(&body, counted(&body), ""));
    let idle = fresh.memory() as f64 / 1024.0;
    row("memory: idle, tables touched", "MB", vec![("plimsoll", idle)], (idle, "MB"), 100.0, 50.0);

    let open = if bench.quick { 100 } else { 1000 };
    let bytes = request(&payload::streamed(60, 1_000_000), None, "");
    let peers = bench.peers.iter().filter(|peer| !matches!(peer.name, "direct" | "plimsoll")).chain([&fresh]);
    let figures: Vec<(&str, f64)> = peers
        .map(|peer| {
            let before = peer.memory();
            let held = streams::hold(peer.address, &bytes, open, || {
                std::thread::sleep(Duration::from_secs(1));
                peer.memory()
            });
            (peer.name, (held as f64 - before as f64) / open as f64)
        })
        .collect();
    let score = of(&figures, "plimsoll");
    row("memory: an open stream", "KB", figures, (score, "KB"), 32.0, 20.0);

    let sessions = if bench.quick { 1000 } else { 10_000 };
    let mut after = Vec::new();
    for n in 0..sessions {
        let body = payload::request(1000 + n, 4 << 10);
        client.send(&request(&body, Some(body.len() as u64 / 2), ""));
        if [sessions / 2 - 1, sessions - 1].contains(&n) {
            after.push(fresh.memory() as f64 / 1024.0);
        }
    }
    let grown = after[1] - after[0];
    row(
        &format!("memory: after {sessions} sessions"),
        "MB",
        vec![("plimsoll", after[1])],
        (grown, "MB by half"),
        2.0 + after[0] / 20.0,
        1.0,
    );
}

/// Sixteen connections that never pause.
fn throughput(bench: &Bench) {
    let body = payload::request(1, 64 << 10);
    at_once(bench, "64 KB, 16 connections", &request(&body, None, ""), 0.7, 1.0);
    at_once(bench, "64 KB, 16 connections, counted", &request(&body, counted(&body), ""), f64::NAN, f64::NAN);
}

fn at_once(bench: &Bench, name: &str, bytes: &[u8], must: f64, reach: f64) {
    let second = Duration::from_millis(if bench.quick { 300 } else { 1500 });
    let mut rates: Vec<(&str, Vec<f64>)> = bench.peers.iter().map(|peer| (peer.name, Vec::new())).collect();
    for _ in 0..bench.rounds(4) + 1 {
        for (peer, (_, rates)) in bench.peers.iter().zip(&mut rates) {
            let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
            let started = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        let mut client = Client::new(peer.address);
                        while !stop.load(Ordering::Relaxed) {
                            client.send(bytes);
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                std::thread::sleep(second);
                stop.store(true, Ordering::Relaxed);
            });
            rates.push(done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64());
        }
    }
    let figures: Vec<(&str, f64)> = rates.into_iter().map(|(name, rates)| (name, median(rates))).collect();
    let score = versus(&figures, "nginx");
    Row { name: name.into(), unit: "1/s", figures, score, of: "x nginx", must, reach, rising: true }.print();
}

/// What the next turn costs when the history is ten times as long: only reading and hashing may grow.
fn growth(bench: &Bench) {
    let cost = |len: usize| {
        let body = payload::request(6, len);
        let took = bench.in_turn(&request(&body, counted(&body), ""), bench.times(200));
        let figures = added(&took, 0.5);
        (of(&figures, "plimsoll") - of(&figures, "floor")) / (body.len() as f64 / 1e6)
    };
    let (short, long) = (cost(200 << 10), cost(2 << 20));
    row("over the floor, a MB of 2 MB", "us", vec![("plimsoll", long)], (long / short, "x of 0.2 MB"), 1.2, 1.0);
}
