//! Where the instructions of a request go: `cargo bench --bench proxy -- profile`.
//!
//! The release program runs under callgrind and counts only while requests of one size pass whose history it knows. Shown is what each of its own and
//! hyper's functions takes, with all that it calls.

use std::{collections::HashSet, process::Command};

use super::{
    client::{Client, counted, request},
    payload,
    peers::{Peer, folder},
};

const SIZES: [(&str, usize); 2] = [("2 KB", 2 << 10), ("64 KB", 64 << 10)];
const TIMES: u64 = 200;
const SHOWN: usize = 20;
/// What takes more of it all stands around everything else.
const EVERYTHING: f64 = 0.7;

pub fn run() {
    let provider = Peer::provider();
    for (name, size) in SIZES {
        let Some((total, functions)) = profile(&provider, size) else {
            println!("valgrind is not installed, or cannot run this program");
            return;
        };
        println!("\n{name}, known: {} instructions a request", total / TIMES);
        let mut shown = HashSet::new();
        let telling = |(cost, function): &&(u64, String)| {
            let ours = ["plimsoll::", "hyper::"].iter().any(|krate| function.contains(krate));
            ours && (*cost as f64) < total as f64 * EVERYTHING
        };
        for (cost, function) in functions.iter().filter(telling) {
            // Twice where it calls itself, or is a compiler's copy of it.
            if shown.len() < SHOWN && shown.insert(function) {
                println!("{:>10} {:>5.1} %  {function}", cost / TIMES, 100.0 * *cost as f64 / total as f64);
            }
        }
    }
}

/// Instructions of so many requests, and of each function with what it calls, the dearest first.
fn profile(provider: &Peer, size: usize) -> Option<(u64, Vec<(u64, String)>)> {
    let out = folder("profile").join("callgrind.out");
    let _ = std::fs::remove_file(&out);
    let peer = Peer::under_callgrind(provider.address, &out)?;
    let body = payload::request(1, size);
    let request = request(&body, counted(&body), "");
    let mut client = Client::new(peer.address);
    let mut send = |times| (0..times).for_each(|_| _ = client.send(&request));
    send(10);
    peer.counts(true)?;
    send(TIMES);
    peer.counts(false)?;
    // Written when it ends.
    drop(peer);
    let report = Command::new("callgrind_annotate").args(["--inclusive=yes", "--threshold=100"]).arg(&out).output().ok()?;
    read(&String::from_utf8_lossy(&report.stdout))
}

/// Lines of `12,345 (6.7%)  file:function [object]`; the one of everything ends in `PROGRAM TOTALS`.
fn read(report: &str) -> Option<(u64, Vec<(u64, String)>)> {
    let lines = report.lines().filter_map(|line| {
        let (cost, rest) = line.trim_start().split_once(' ')?;
        let cost: u64 = cost.replace(',', "").parse().ok()?;
        let named = rest.split_once(')').map_or(rest, |(_, named)| named).trim();
        let function = named.split_once(':').map_or(named, |(_, function)| function);
        let function = function.rsplit_once(" [").map_or(function, |(function, _)| function);
        Some((cost, function.to_owned()))
    });
    let (totals, functions): (Vec<_>, Vec<_>) = lines.partition(|(_, function)| function == "PROGRAM TOTALS");
    Some((totals.first()?.0, functions))
}
