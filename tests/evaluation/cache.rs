//! A session of 200 turns, request by request: how much of each begins as the one before, which is what a provider's prompt cache holds, and what the session
//! costs where cached tokens cost a tenth.

use std::sync::Arc;

use bytes::Bytes;
use plimsoll::{
    compact::summary::{Answer, Content, Outcome, Step},
    decide::{Claim, Decider, Need, Policy, Steer},
    tokens::Tokenizer,
    wire::{Format, Said, usage::Finish},
};

use super::conversation::{Conversation, Dice, Message, Who};
use super::{request, table};

const TURNS: usize = 200;
const WINDOW: u64 = 64_000;
const CACHED: f64 = 0.1;
/// Results that stay where they are cleared every turn.
const KEPT_RESULTS: usize = 5;
/// Turns until a summary that was begun is there.
const SUMMARY_TAKES: usize = 2;

pub fn run() -> Vec<String> {
    let (talk, ends) = session();
    let nothing = play(&talk, &ends, |messages, _| (request::body(messages), 0));
    let cleared = play(&talk, &ends, |messages, _| (request::body(&clear(messages)), 0));
    let digest = play(&talk, &ends, Proxy::new(Policy::default()).turn());
    let mut policy = Policy::default();
    policy.compact.summarize.model = "summary-model".into();
    let summary = play(&talk, &ends, Proxy::new(policy).turn());
    let rows = [
        nothing.row("no compaction"),
        cleared.row("results cleared every turn"),
        digest.row("plimsoll, digest"),
        summary.row("plimsoll, summaries"),
    ];
    table::print(
        &format!("cache: a session of {TURNS} turns, a window of {WINDOW} tokens"),
        &["tokens sent", "cached", "prefix changes", "epochs", "price", "longest request", "with a summary"],
        &rows,
    );
    let mut missed = Vec::new();
    for (name, ours) in [("digest", &digest), ("summaries", &summary)] {
        if ours.epochs < 2 || ours.changes != ours.epochs as usize {
            missed.push(format!("{name}: the prefix changes {} times in {} epochs", ours.changes, ours.epochs));
        }
        if ours.price() >= nothing.price() || ours.price() >= cleared.price() {
            missed.push(format!("{name}: dearer than no compaction, or than clearing"));
        }
        if ours.longest > WINDOW {
            missed.push(format!("{name}: a request of {} tokens", ours.longest));
        }
    }
    if summary.summarized == 0 {
        missed.push("no summary was used".into());
    }
    missed
}

#[derive(Default)]
struct Bill {
    tokens: u64,
    cached: u64,
    /// Requests that do not begin with all of the one before.
    changes: usize,
    epochs: u32,
    longest: u64,
    /// Requests in which a model's summary stands.
    summarized: usize,
}

impl Bill {
    /// In tokens at full price.
    fn price(&self) -> f64 {
        (self.tokens - self.cached) as f64 + CACHED * self.cached as f64
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

/// Sends the session, a request for each of `ends`, as `send` makes them: bodies, and the epochs so far.
fn play(talk: &Conversation, ends: &[usize], mut send: impl FnMut(&[Message], usize) -> (Bytes, u32)) -> Bill {
    let mut bill = Bill::default();
    let mut before = Bytes::new();
    for (turn, &end) in ends.iter().enumerate() {
        let (body, epochs) = send(&talk.messages[..end], turn);
        // What closes the list and the body is no part of what is cached.
        let (whole, tail) = (body.len(), b"]}".len());
        let same = body.iter().zip(&before[..]).take_while(|(a, b)| a == b).count();
        let tokens = count(&body);
        bill.tokens += tokens;
        bill.cached += tokens * same as u64 / whole.max(1) as u64;
        bill.changes += usize::from(same + tail < before.len());
        bill.longest = bill.longest.max(tokens);
        bill.epochs = epochs;
        bill.summarized += usize::from(memchr::memmem::find(&body, b"[plimsoll: summary of ").is_some());
        before = body;
    }
    bill
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
        let path = format!("src/tables/port_{}.rs", dice.roll(60));
        talk.push(Who::Call("read".into()), format!("{{\"path\":\"{path}\"}}"));
        let lines: Vec<String> =
            (0..30 + dice.roll(120)).map(|line| format!("    let level_{line} = reader.level({}, tide);", dice.roll(9000))).collect();
        talk.push(Who::Result("read".into(), false), lines.join("\n"));
        if turn % 8 == 0 {
            talk.push(Who::Assistant, format!("{path} is moved; its levels are read by the new reader now."));
            talk.push(Who::User, format!("Good. Keep the offsets of port {turn} under {} cm, and go on.", 100 + dice.roll(80)));
        }
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
}

impl Proxy {
    fn new(policy: Policy) -> Proxy {
        Proxy { decider: Decider::new(64 << 20, 3600, 16 << 20), policy: Arc::new(policy), flights: Vec::new(), epochs: 0 }
    }

    fn turn(mut self) -> impl FnMut(&[Message], usize) -> (Bytes, u32) {
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
                    step = job.pipeline.step(Some(Answer::Said(good(&asked.content))));
                }
                let Step::Done(outcome) = step else { unreachable!("a step asks or is the last") };
                self.flights.push((turn + SUMMARY_TAKES, job.claim, outcome));
            }
            let (body, report) = request::sent(&self.decider, &call);
            self.epochs = self.epochs.max(report.epoch);
            (body, self.epochs)
        }
    }
}

/// A model that does as it is told.
fn good(content: &Content) -> Said {
    let (Content::Ride(text) | Content::Quoted { user: text, .. }) = content;
    let mut paths: Vec<String> = (0..60).map(|port| format!("src/tables/port_{port}.rs")).filter(|path| text.contains(path)).collect();
    paths.truncate(20);
    let text = format!(
        "## Decisions\n- The tables are moved file by file.\n## Open TODOs\n- Go on with the tables that are left.\n## Constraints/Rules\n- Never change a \
         table that is signed.\n## Pending user asks\n- Move the tide tables from the old reader to the new one; keep the offsets of the port under its \
         bound, and go on.\n## Exact identifiers\n- {}",
        paths.join(", ")
    );
    Said { text, finish: Some(Finish::Stop), ..Said::default() }
}
