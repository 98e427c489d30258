//! Real transcripts, where they are at hand (in `PLIMSOLL_SHARED`, or in a folder `shared` beside the checkout): what of their evidence is still to be read
//! after compaction, beside what is left where a transcript is cut in the middle, or its results are cleared, to the same size.
//!
//! A thing counts as recoverable where its own words are there: all of an error's message and the place of one of its frames, the whole of anything else.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use plimsoll::{
    decide::{Decider, Policy, Steer},
    tokens::Tokenizer,
    wire::Format,
};
use regex::Regex;
use serde_json::Value;

use super::request::{self, Kind};
use super::table::{Share, print};

const TARGETS: [f64; 2] = [0.45, 0.20];
/// The plain ways are given the size that the first comes to, and the last all of the target.
const WAYS: [&str; 4] = ["plimsoll", "head and tail", "results cleared", "head and tail, whole"];
const KINDS: [&str; 5] = ["error stacks", "paths", "commands", "numbers", "identifiers"];

pub fn run() -> Vec<String> {
    let Some(folder) = folder() else {
        println!("\ncorpora: skipped, none at hand");
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| [".chat.json", ".anthropic.json"].iter().any(|end| path.to_string_lossy().ends_with(end)));
    files.sort();
    if files.is_empty() {
        println!("\ncorpora: skipped, none at hand");
        return Vec::new();
    }
    TARGETS.into_iter().flat_map(|target| judge(&files, target)).collect()
}

fn judge(files: &[PathBuf], target: f64) -> Vec<String> {
    let mut found = [[Share::default(); WAYS.len()]; KINDS.len()];
    let mut sizes = [Share::default(); WAYS.len()];
    for path in files {
        let body = Bytes::from(std::fs::read(path).expect("a corpus reads"));
        let texts = request::texts(&body);
        let size: usize = texts.iter().map(|(_, text)| count(text)).sum();
        let ours = join(&compacted(&body, target));
        let most = count(&ours);
        let all = (size as f64 * target) as usize;
        let whole = join(&texts);
        let ways = [ends(&whole, most), join(&cleared(&texts, size, most)), ends(&whole, all)];
        let evidence = Evidence::of(&texts);
        for (way, left) in [ours].into_iter().chain(ways).enumerate() {
            sizes[way].weigh(count(&left), size);
            for (kind, share) in evidence.in_text(&left).iter().enumerate() {
                found[kind][way].weigh(share.kept, share.all);
            }
        }
    }
    let cells = |shares: &[Share; WAYS.len()]| shares.iter().map(|share| share.percent()).collect::<Vec<_>>();
    let mut rows: Vec<(String, Vec<String>)> =
        KINDS.iter().zip(&found).map(|(kind, shares)| (format!("{kind} ({})", shares[0].all), cells(shares))).collect();
    rows.push(("size of what is left".into(), cells(&sizes)));
    let title = format!("corpora: {} transcripts, what is still to be read after compaction to {:.0} %", files.len(), 100.0 * target);
    print(&title, &WAYS, &rows);
    let [ours, cut, cleared, _] = found[0].map(Share::of_one);
    let plainer = ours < cut || ours < cleared;
    plainer.then(|| format!("fewer error stacks at {:.0} % than by plainer ways of the same size", 100.0 * target)).into_iter().collect()
}

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(|parent| parent.join("shared"));
    let folder = std::env::var_os("PLIMSOLL_SHARED").map(PathBuf::from).or(beside)?.join("corpora");
    folder.is_dir().then_some(folder)
}

/// What the proxy would send where the target is `target` of the request.
fn compacted(body: &Bytes, target: f64) -> Vec<(Kind, String)> {
    let format = Format::of_body(std::str::from_utf8(body).unwrap_or_default());
    let decider = Decider::new(64 << 20, 3600, 16 << 20);
    let mut policy = Policy::default();
    // One compaction of the whole, and none on the way there.
    (policy.gates.preflight.enabled, policy.gates.hygiene.enabled, policy.gates.preflight.safety) = (false, false, 1.0);
    let policy = Arc::new(policy);
    let whole = request::call(&decider, format, body.clone(), &policy, u64::MAX / 4, Steer::Now);
    let weight = request::sent(&decider, &whole).1.tokens.map_or(0, |(before, _)| before);
    // The window at which the usual share of it is the target.
    let window = (weight as f64 * target / policy.gates.target) as u64;
    let call = request::call(&decider, format, body.clone(), &policy, window, Steer::Now);
    request::texts(&request::sent(&decider, &call).0)
}

/// The first and the last half of what fits.
fn ends(text: &str, most: usize) -> String {
    let share = most as f64 / count(text).max(1) as f64;
    let half = (text.len() as f64 * share / 2.0) as usize;
    if 2 * half >= text.len() {
        return text.to_owned();
    }
    format!("{}\n[cut]\n{}", &text[..text.floor_char_boundary(half)], &text[text.ceil_char_boundary(text.len() - half)..])
}

/// Results cleared from the oldest on until it fits; where even that is too much, all of them.
fn cleared(texts: &[(Kind, String)], mut size: usize, most: usize) -> Vec<(Kind, String)> {
    let mut texts = texts.to_vec();
    for (_, text) in texts.iter_mut().filter(|(kind, _)| *kind == Kind::Result) {
        if size <= most {
            break;
        }
        size = size.saturating_sub(count(text));
        *text = "[cleared]".into();
    }
    texts
}

fn join(texts: &[(Kind, String)]) -> String {
    texts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join("\n")
}

fn count(text: &str) -> usize {
    Tokenizer::Estimate.count(text)
}

/// What can be looked for.
#[derive(Default)]
struct Evidence {
    /// Messages of errors, and the places of their frames.
    stacks: BTreeSet<(String, Vec<(String, String)>)>,
    commands: BTreeSet<String>,
    paths: BTreeSet<String>,
    numbers: BTreeSet<String>,
    identifiers: BTreeSet<String>,
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

static PATH: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:[\w.@-]+/)+[\w.-]+\.\w{1,8}"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b\d{3,}(?:\.\d+)?\b"));
static IDENTIFIER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"https?://[^\s"'<>)\]\\]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]*(?:\d[a-f]|[a-f]\d)[0-9a-f]{6,}\b|\bv?\d+\.\d+\.\d+\b|\b[\w.-]+:\d{4,5}\b|\B#\d{2,}\b|\b[A-Z][A-Z0-9]+-\d+\b"#,
    )
});
/// A frame of a stack, with file and line, in the spellings of Python, of JavaScript and Java, and of Rust, Go and Ruby.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"^\s+File "([^"]+)", line (\d+)|^\s+at .*?([^\s()/]+\.\w+):(\d+)(?::\d+)?\)?$|^\s+(?:at |from )?(\S+\.(?:rs|go|rb|cs)):(\d+)"#,
    )
});
static MESSAGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[\w.:]*(?:Error|Exception|panic|Warning|Exit|Interrupt)\w*\b.*"));

impl Evidence {
    fn of(texts: &[(Kind, String)]) -> Evidence {
        let mut evidence = Evidence::default();
        for (kind, text) in texts {
            let all = |pattern: &Regex| pattern.find_iter(text).map(|found| found.as_str().to_owned()).collect::<Vec<_>>();
            evidence.paths.extend(all(&PATH));
            evidence.numbers.extend(all(&NUMBER));
            evidence.identifiers.extend(all(&IDENTIFIER));
            match kind {
                Kind::Call => evidence.commands.extend(command(text)),
                Kind::Result => evidence.stacks.extend(stacks(text)),
                Kind::Said => {}
            }
        }
        evidence
    }

    fn in_text(&self, text: &str) -> [Share; KINDS.len()] {
        let share = |wanted: &BTreeSet<String>, there: &dyn Fn(&str) -> bool| Share {
            kept: wanted.iter().filter(|name| there(name)).count(),
            all: wanted.len(),
        };
        let found = |pattern: &Regex| pattern.find_iter(text).map(|found| found.as_str().to_owned()).collect::<HashSet<_>>();
        let numbers = found(&NUMBER);
        let lines: Vec<&str> = text.lines().collect();
        let is_there = |(message, frames): &&(String, Vec<(String, String)>)| {
            text.contains(message.as_str())
                && frames.iter().any(|(file, line)| lines.iter().any(|at| at.contains(file.as_str()) && holds(at, line)))
        };
        [
            Share { kept: self.stacks.iter().filter(is_there).count(), all: self.stacks.len() },
            share(&self.paths, &|name| text.contains(name)),
            share(&self.commands, &|name| text.contains(name)),
            share(&self.numbers, &|name| numbers.contains(name)),
            share(&self.identifiers, &|name| text.contains(name)),
        ]
    }
}

/// Whether a line holds a number, and not as part of another.
fn holds(line: &str, number: &str) -> bool {
    line.split(|c: char| !c.is_ascii_digit()).any(|word| word == number)
}

/// The first line of the command that a call runs, up to 60 characters, as JSON spells it: what is compared is a call's arguments.
fn command(arguments: &str) -> Option<String> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let command = arguments.get("command").or_else(|| arguments.get("cmd"))?.as_str()?;
    let line: String = command.trim().lines().next()?.chars().take(60).take_while(|c| !matches!(c, '"' | '\\')).collect();
    (line.chars().count() >= 4).then_some(line)
}

/// Runs of frames with the message nearest to them: in Python the first line after that looks like one, elsewhere the last before.
fn stacks(text: &str) -> Vec<(String, Vec<(String, String)>)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(python) = FRAME.captures(lines[at]).map(|frame| frame.get(1).is_some()) else {
            at += 1;
            continue;
        };
        let first = at;
        let mut frames = Vec::new();
        // Between frames stand lines of source.
        while at < lines.len() && (lines[at].starts_with([' ', '\t']) || FRAME.is_match(lines[at])) {
            if let Some(frame) = FRAME.captures(lines[at]) {
                let group = |n: usize| frame.get(n).or(frame.get(n + 2)).or(frame.get(n + 4)).map_or("", |found| found.as_str());
                let file = group(1).rsplit('/').next().unwrap_or_default();
                frames.push((file.to_owned(), group(2).to_owned()));
            }
            at += 1;
        }
        let message = if python {
            lines[at..].iter().take(3).find(|line| MESSAGE.is_match(line))
        } else {
            lines[..first].iter().rev().take(3).find(|line| !line.trim().is_empty())
        };
        // Prose that quotes a frame has no message.
        let message: String = message.map_or("", |line| line.trim()).chars().take(120).collect();
        if message.chars().count() >= 8 && (frames.len() >= 2 || python) {
            out.push((message, frames));
        }
    }
    out
}
