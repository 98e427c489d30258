//! Instructions instead of seconds: the same on a busy machine, and compared with those that were committed.
//!
//! `cargo test --bench proxy -- instructions` runs each kind of work under callgrind, and fails where one takes over 5 % more than
//! `instructions.txt` says; `--update` writes that file, and where it is missing nothing is compared. It holds for the profile that tests are built with.

use std::{fs, path::Path, process::Command};

use super::work;

/// More than this is a regression; hash maps are seeded anew in each run and make a difference of a few in a thousand.
const TOLERATED: f64 = 1.05;

/// Does some work so many times, for a tool that looks on.
pub fn work(name: &str, times: &str) {
    let name = work::NAMES.into_iter().find(|known| *known == name).expect("a kind of work");
    let mut work = work::named(name);
    for _ in 0..times.parse().unwrap_or(1) {
        (work.once)();
    }
}

/// Whether nothing takes more than it did.
pub fn check(update: bool) -> bool {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/instructions.txt");
    let committed = fs::read_to_string(&file).unwrap_or_default();
    let was = |name: &str| {
        let line = committed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|count| count.trim().replace('_', "").parse::<f64>().ok())
    };
    let (mut now, mut holds) = (String::new(), true);
    println!("{:<12}{:>16}{:>16}{:>8}", "", "committed", "now", "");
    for name in work::NAMES {
        let Some(count) = count(name) else {
            println!("valgrind is not installed, or cannot run this program: nothing is checked");
            return true;
        };
        let ratio = was(name).map_or(f64::NAN, |was| count / was);
        let verdict = if ratio > TOLERATED { "MORE" } else { "" };
        holds &= ratio.is_nan() || ratio <= TOLERATED;
        println!("{name:<12}{:>16.0}{count:>16.0}{ratio:>8.3} {verdict}", was(name).unwrap_or(f64::NAN));
        now += &format!("{name} {count:.0}\n");
    }
    if update {
        fs::write(&file, now).expect("a file that can be written");
        return true;
    }
    holds
}

/// Instructions of doing it once, without what prepares it.
fn count(name: &str) -> Option<f64> {
    // Hash maps are seeded anew each time; over many times that evens out.
    const TIMES: usize = 17;
    Some((run(name, TIMES)? - run(name, 1)?) / (TIMES - 1) as f64)
}

fn run(name: &str, times: usize) -> Option<f64> {
    let me = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(["work", name, &times.to_string()])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    report.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok())
}
