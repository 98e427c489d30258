//! A session of 200 turns, request by request: how much of each begins as the one before, which is what a provider's prompt cache holds, and what the session
//! costs where cached tokens cost a tenth, and those of summaries as much as any.

use std::sync::Arc;

use bytes::Bytes;
use plimsoll::{
    compact::summary::{Answer, Content, OWN, Outcome, Step, SummaryRequest},
    decide::{Claim, Decider, Need, Policy, Steer},
    tokens::Tokenizer,
    wire::{Format, Said, usage::Finish},
};

use super::conversation::{Conversation, Dice, Message, Who};
use super::{request, table};

const TURNS: usize = 200;
const WINDOW: u64 = 64_000;
const CACHED: f64 = 0.1;
const PORTS: usize = 60;
/// Results that stay where they are cleared every turn.
const KEPT_RESULTS: usize = 5;
/// Turns until a summary that was begun is there.
const SUMMARY_TAKES: usize = 2;

pub fn run() -> Vec<String> {
    let (talk, ends) = session();
    let nothing = play(&talk, &ends, |messages, _| Sent::plain(request::body(messages)));
    let cleared = play(&talk, &ends, |messages, _| Sent::plain(request::body(&clear(messages))));
    let digest = play(&talk, &ends, Proxy::new(Policy::default()).turn());
    let by_model = |model: &str| {
        let mut policy = Policy::default();
        policy.compact.summarize.model = model.into();
        play(&talk, &ends, Proxy::new(policy).turn())
    };
    let (other, own) = (by_model("summary-model"), by_model(OWN));
    let rows = [
        nothing.row("no compaction"),
        cleared.row("results cleared every turn"),
        digest.row("plimsoll, digest"),
        other.row("plimsoll, another model"),
        own.row("plimsoll, the request's model"),
    ];
    table::print(
        &format!("cache: a session of {TURNS} turns, a window of {WINDOW} tokens"),
        &["tokens sent", "cached", "prefix changes", "epochs", "price", "longest request", "with a summary"],
        &rows,
    );
    let mut missed = Vec::new();
    for (name, ours) in [("digest", &digest), ("another model", &other), ("the request's model", &own)] {
        if ours.epochs < 2 || ours.changes != ours.epochs as usize {
            missed.push(format!("{name}: the prefix changes {} times in {} epochs", ours.changes, ours.epochs));
        }
        if ours.price() >= nothing.price() {
            missed.push(format!("{name}: dearer than no compaction"));
        }
        if ours.longest > WINDOW {
            missed.push(format!("{name}: a request of {} tokens", ours.longest));
        }
    }
    if digest.price() >= cleared.price() {
        missed.push("digest: dearer than clearing every turn".into());
    }
    if other.summarized == 0 || own.summarized == 0 {
        missed.push("no summary was used".into());
    }
    missed
}

struct Sent {
    body: Bytes,
    /// So far; summaries in tokens at full price.
    epochs: u32,
    summaries: f64,
}

impl Sent {
    fn plain(body: Bytes) -> Sent {
        Sent { body, epochs: 0, summaries: 0.0 }
    }
}

#[derive(Default)]
struct Bill {
    tokens: u64,
    cached: u64,
    /// Requests that do not begin with all of the one before.
    changes: usize,
    epochs: u32,
    /// The price of summaries.
    summaries: f64,
    longest: u64,
    /// Requests in which a model's summary stands.
    summarized: usize,
}

impl Bill {
    fn price(&self) -> f64 {
        price(self.tokens, self.cached) + self.summaries
    }

    fn row(&self, name: &str) -> (String, Vec<String>) {
        let cells = vec![
            format!("{:.2} M", self.tokens as f64 / 1e6),
            format!("{:.1} %", 100.0 * self.cached as f64 / self.tokens.max(1) as f64),
            self.changes.to_string(),
            self.epochs.to_string(),
            format!("{:.2} M", self.price() / 1e6),
            self.longest.to_string(),
            self.summarized.to_string(),
        ];
        (name.to_owned(), cells)
    }
}

/// Sends the session, a request for each of `ends`, as `send` makes them.
fn play(talk: &Conversation, ends: &[usize], mut send: impl FnMut(&[Message], usize) -> Sent) -> Bill {
    let mut bill = Bill::default();
    let mut before = Bytes::new();
    for (turn, &end) in ends.iter().enumerate() {
        let Sent { body, epochs, summaries } = send(&talk.messages[..end], turn);
        // What closes the list and the body is no part of what is cached.
        let (whole, tail) = (body.len(), b"]}".len());
        let same = common(&body, &before);
        let tokens = count(&body);
        bill.tokens += tokens;
        bill.cached += tokens * same as u64 / whole.max(1) as u64;
        bill.changes += usize::from(same + tail < before.len());
        bill.longest = bill.longest.max(tokens);
        (bill.epochs, bill.summaries) = (epochs, summaries);
        bill.summarized += usize::from(memchr::memmem::find(&body, b"[plimsoll: summary of ").is_some());
        before = body;
    }
    bill
}

/// In tokens at full price.
fn price(tokens: u64, cached: u64) -> f64 {
    (tokens - cached) as f64 + CACHED * cached as f64
}

/// Bytes with which both begin.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn count(body: &Bytes) -> u64 {
    request::texts(body).iter().map(|(_, text)| Tokenizer::Estimate.count(text) as u64 + 4).sum()
}

/// A coding agent at work, and the number of messages in each of its requests.
fn session() -> (Conversation, Vec<usize>) {
    let mut dice = Dice::new(3);
    let mut talk = Conversation::default();
    talk.push(Who::User, "Move the tide tables from the old reader to the new one, file by file. Never change a table that is signed.");
    let mut ends = vec![1];
    for turn in 1..TURNS {
        let path = format!("src/tables/port_{}.rs", dice.roll(PORTS));
        talk.push(Who::Call("read".into()), format!("{{\"path\":\"{path}\"}}"));
        let lines: Vec<String> =
            (0..30 + dice.roll(120)).map(|line| format!("    let level_{line} = reader.level({}, tide);", dice.roll(9000))).collect();
        talk.push(Who::Result("read".into(), false), lines.join("\n"));
        let levels: Vec<String> = (0..20).map(|_| format!("level {} stood at {} cm", dice.roll(150), dice.roll(9000))).collect();
        talk.push(Who::Assistant, format!("{path} is moved; its levels are read by the new reader now: {}.", levels.join(", ")));
        let bound = format!("Keep the offsets of port {turn} under {} cm, and go on.", 100 + dice.roll(80));
        talk.push(Who::User, if turn % 8 == 0 { bound } else { "Go on.".into() });
        ends.push(talk.messages.len());
    }
    (talk, ends)
}

fn clear(messages: &[Message]) -> Vec<Message> {
    let results = |messages: &[Message]| messages.iter().filter(|message| matches!(message.who, Who::Result(..))).count();
    let mut old = results(messages).saturating_sub(KEPT_RESULTS);
    let mut out = messages.to_vec();
    for message in out.iter_mut().filter(|message| matches!(message.who, Who::Result(..))) {
        if old == 0 {
            break;
        }
        old -= 1;
        message.text = "[cleared]".into();
    }
    out
}

/// The core of the proxy, with a model that writes summaries in the background where the policy has one.
struct Proxy {
    decider: Decider,
    policy: Arc<Policy>,
    /// Summaries under way, with the turn at which they are there.
    flights: Vec<(usize, Claim, Outcome)>,
    epochs: u32,
    /// The price of the summaries so far.
    spent: f64,
    /// The body that was sent last.
    before: Bytes,
}

impl Proxy {
    fn new(policy: Policy) -> Proxy {
        Proxy {
            decider: Decider::new(64 << 20, 3600, 16 << 20),
            policy: Arc::new(policy),
            flights: Vec::new(),
            epochs: 0,
            spent: 0.0,
            before: Bytes::new(),
        }
    }

    /// What it costs to read a prompt: one that rides on what was sent last is read from the cache as far as it is the same.
    fn price_of(&self, asked: &SummaryRequest) -> f64 {
        match &asked.content {
            Content::Ride(body) => {
                price(asked.tokens, asked.tokens * common(body.as_bytes(), &self.before) as u64 / body.len().max(1) as u64)
            }
            Content::Quoted { .. } => asked.tokens as f64,
        }
    }

    fn turn(mut self) -> impl FnMut(&[Message], usize) -> Sent {
        move |messages, turn| {
            for (_, claim, outcome) in self.flights.extract_if(.., |(due, ..)| *due <= turn) {
                let summary = match outcome {
                    Outcome::Summary(summary) => Some(summary),
                    Outcome::Digest(_) => None,
                };
                self.decider.summarized(claim, summary, turn as u64, turn as u64 + 1);
            }
            let call = request::call(&self.decider, Format::Chat, request::body(messages), &self.policy, WINDOW, Steer::Default);
            if let Some(Need::Begin(mut job)) = self.decider.summary(&call) {
                let mut step = job.pipeline.step(None);
                while let Step::Ask(asked) = step {
                    let said = good(&asked.content);
                    self.spent += self.price_of(&asked) + Tokenizer::Estimate.count(&said.text) as f64;
                    step = job.pipeline.step(Some(Answer::Said(said)));
                }
                let Step::Done(outcome) = step else { unreachable!("a step asks or is the last") };
                self.flights.push((turn + SUMMARY_TAKES, job.claim, outcome));
            }
            let (body, report) = request::sent(&self.decider, &call);
            self.epochs = self.epochs.max(report.epoch);
            self.before = body.clone();
            Sent { body, epochs: self.epochs, summaries: self.spent }
        }
    }
}

/// A model that does as it is told.
fn good(content: &Content) -> Said {
    let (Content::Ride(text) | Content::Quoted { user: text, .. }) = content;
    let found = (0..PORTS).map(|port| format!("src/tables/port_{port}.rs")).filter_map(|path| Some((text.rfind(&path)?, path)));
    let mut paths: Vec<(usize, String)> = found.collect();
    paths.sort();
    let newest: Vec<&str> = paths.iter().rev().take(20).map(|(_, path)| path.as_str()).collect();
    let text = format!(
        "## Decisions\n- The tables are moved file by file.\n## Open TODOs\n- Go on with the tables that are left.\n## Constraints/Rules\n- Never change a \
         table that is signed.\n## Pending user asks\n- Move the tide tables from the old reader to the new one; keep the offsets of the port under its \
         bound, and go on.\n## Exact identifiers\n- {}",
        newest.join(", ")
    );
    Said { text, finish: Some(Finish::Stop), ..Said::default() }
}
