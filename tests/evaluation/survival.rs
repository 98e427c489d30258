//! Five rounds of compaction by the whole pipeline, as a client's history grows, and which planted facts the model still reads after each.

use std::sync::Arc;

use plimsoll::{
    compact::Rung,
    decide::{Decider, Policy, Steer},
    tokens::Tokenizer,
    wire::Format,
};

use super::conversation::{Conversation, Fact};
use super::table::{NOTHING, Share, Shares, print};
use super::{request, scenes, stories, templates};

const ROUNDS: usize = 5;
pub const BUDGETS: [usize; 3] = [10, 20, 30];
const COLUMNS: [&str; 3] = ["10 %", "20 %", "30 %"];
/// Messages at the end that stay word for word.
const TAIL: usize = 4;
/// Tokens below which nobody compacts.
const POSTCARD: u64 = 300;

/// Rules, limits, preferences and goals.
const BINDING: [&str; 4] = ["safety rule", "limit", "preference", "goal state"];
/// A survival this far under that of the first round is a cliff.
const CLIFF: f64 = 0.1;

/// Where conversations come from, and the least share of what binds and of all that is planted, by budget: the best that was reached. Of values that no
/// longer hold none is carried, and both of what only resembles one another are held. A checklist keeps two in five at 10 %.
struct Source {
    name: &'static str,
    conversations: Vec<Conversation>,
    binding: [f64; BUDGETS.len()],
    all: [f64; BUDGETS.len()],
}

pub fn run() -> Vec<String> {
    let sources = [
        Source { name: "templates", conversations: templates::conversations(5..7), binding: [1.0; 3], all: [0.99, 1.0, 1.0] },
        Source { name: "scenes", conversations: scenes::conversations(6..8), binding: [0.99, 1.0, 1.0], all: [0.99, 1.0, 1.0] },
        Source { name: "stories, held out", conversations: stories::conversations(4..5), binding: [1.0; 3], all: [1.0; 3] },
    ];
    sources.into_iter().flat_map(judge).collect()
}

fn judge(source: Source) -> Vec<String> {
    let mut scores = Scores::default();
    for (column, percent) in BUDGETS.into_iter().enumerate() {
        let policy = Arc::new(policy(percent));
        for talk in &source.conversations {
            for round in 1..=ROUNDS {
                let Some(end) = end(talk, round) else { continue };
                let decider = Decider::new(1 << 20, 3600, 1 << 20);
                let body = request::body(&talk.messages[..end]);
                let weight = weight(&decider, &body, &policy);
                if weight < POSTCARD {
                    continue;
                }
                let call = request::call(&decider, Format::Chat, body, &policy, weight - 1, Steer::Now);
                let (sent, report) = request::sent(&decider, &call);
                let read = Read::of(&sent, talk);
                scores.round(talk, end, round, column, &read);
                scores.notes[column].weigh(Tokenizer::Estimate.count(&read.notes), weight as usize);
                scores.size[column].weigh(report.tokens.map_or(weight, |(_, after)| after) as usize, weight as usize);
            }
        }
    }
    scores.print(source.name, source.conversations.len());
    scores.missed(&source)
}

/// Messages of a conversation by the end of a round.
pub fn end(talk: &Conversation, round: usize) -> Option<usize> {
    let end = talk.messages.len() * round / ROUNDS;
    (end > TAIL + 2).then_some(end)
}

/// Notes of at most `percent` of what the whole request weighs, and a tail of a few messages.
pub fn policy(percent: usize) -> Policy {
    let mut policy = Policy::default();
    policy.gates.target = 1.0;
    policy.gates.preflight.safety = 1.0;
    // One compaction of the whole in each round, and none on the way there.
    (policy.gates.hygiene.enabled, policy.gates.preflight.enabled) = (false, false);
    let knobs = &mut policy.compact;
    knobs.plan = vec![Rung::Summarize, Rung::Digest];
    (knobs.tail, knobs.tail_messages, knobs.running_loop) = (0.0, TAIL, 0.0);
    knobs.digest.share = percent as f64 / 100.0;
    policy
}

/// Tokens of a request.
pub fn weight(decider: &Decider, body: &bytes::Bytes, policy: &Arc<Policy>) -> u64 {
    let call = request::call(decider, Format::Chat, body.clone(), policy, u64::MAX / 4, Steer::Now);
    request::sent(decider, &call).1.tokens.map_or(0, |(before, _)| before)
}

/// What a model reads after compaction.
pub struct Read {
    pub all: String,
    /// What stands for the messages that are gone.
    pub notes: String,
}

impl Read {
    pub fn of(sent: &[u8], talk: &Conversation) -> Read {
        let texts = request::texts(sent);
        let opener = talk.messages.first().map_or("", |message| message.text.as_str());
        let notes = texts.first().and_then(|(_, text)| text.strip_prefix(opener)).unwrap_or_default().to_owned();
        Read { all: texts.into_iter().map(|(_, text)| text + "\n").collect(), notes }
    }
}

#[derive(Default)]
pub struct Scores {
    kinds: Shares<3>,
    styles: Shares<3>,
    languages: Shares<3>,
    positions: Shares<3>,
    binding: [[Share; ROUNDS]; 3],
    pairs: [Share; 3],
    stale: [Share; 3],
    size: [Share; 3],
    notes: [Share; 3],
}

impl Scores {
    pub fn round(&mut self, talk: &Conversation, end: usize, round: usize, column: usize, read: &Read) {
        let counts = |fact: &&Fact| fact.planted_at < end && end <= fact.until;
        let (language, style) = about(&talk.name);
        let mut pairs = [0, 0];
        for fact in talk.facts.iter().filter(counts) {
            let kind = kind(&fact.kind);
            let held = fact.keys.iter().all(|key| read.all.contains(key.as_str()));
            if !held && std::env::var_os("EVALUATION_MISSES").is_some() {
                println!("lost at {} %: {} round {round}: {kind} {:?}", BUDGETS[column], talk.name, fact.keys);
            }
            self.kinds.add(kind, column, held);
            self.styles.add(style, column, held);
            self.languages.add(language, column, held);
            self.positions.add(["early", "late", "middle"][[0, 2, 1][fact.planted_at * 3 / talk.messages.len()]], column, held);
            if BINDING.contains(&kind) {
                self.binding[column][round - 1].add(held);
            }
            if kind == "near-duplicate" {
                pairs[usize::from(held)] += 1;
            }
        }
        if pairs[0] + pairs[1] == 2 {
            self.pairs[column].add(pairs[0] == 0);
        }
        for gone in talk.gone.iter().filter(|gone| gone.from < end) {
            let carried = names(&read.notes, &gone.text);
            if carried && std::env::var_os("EVALUATION_MISSES").is_some() {
                println!("stale at {} %: {} round {round}: {:?}", BUDGETS[column], talk.name, gone.text);
            }
            self.stale[column].add(carried);
        }
    }

    pub fn print(&self, name: &str, conversations: usize) {
        self.kinds.print(&format!("{name}: {conversations} conversations, {ROUNDS} rounds: survival by kind"), &COLUMNS);
        self.styles.print(&format!("{name}: by style"), &COLUMNS);
        self.languages.print(&format!("{name}: by language"), &COLUMNS);
        self.positions.print(&format!("{name}: by position"), &COLUMNS);
        let row = |name: &str, cell: &dyn Fn(usize) -> String| (name.to_owned(), (0..BUDGETS.len()).map(cell).collect());
        let rows = [
            row("what binds", &|column| self.bound(column).percent()),
            row("distinct pairs held", &|column| self.pairs[column].percent()),
            row("stale values carried", &|column| match self.stale[column] {
                Share { all: 0, .. } => NOTHING.into(),
                Share { kept, all } => format!("{kept} of {all}"),
            }),
            row("size of the notes", &|column| self.notes[column].percent()),
            row("size of what is sent", &|column| self.size[column].percent()),
            row("cliff round", &|column| match self.cliff(column) {
                _ if self.bound(column).all == 0 => NOTHING.into(),
                None => "none".into(),
                Some(round) => round.to_string(),
            }),
        ];
        print(&format!("{name}: in all"), &COLUMNS, &rows);
    }

    fn bound(&self, column: usize) -> Share {
        let mut sum = Share::default();
        self.binding[column].iter().for_each(|share| sum.weigh(share.kept, share.all));
        sum
    }

    /// The first round after which far less of what binds is left than after the first.
    fn cliff(&self, column: usize) -> Option<usize> {
        let mut rounds = self.binding[column].iter().enumerate().filter(|(_, share)| share.all > 0);
        let first = rounds.next()?.1.of_one();
        rounds.find(|(_, share)| share.of_one() < first - CLIFF).map(|(n, _)| n + 1)
    }

    fn missed(&self, source: &Source) -> Vec<String> {
        let mut missed = Vec::new();
        for (column, percent) in BUDGETS.into_iter().enumerate() {
            let mut check = |held: bool, what: String| {
                if !held {
                    missed.push(format!("{}: {what} at {percent} %", source.name));
                }
            };
            let (bound, all, pairs) = (self.bound(column), self.kinds.sum(column), self.pairs[column]);
            check(bound.all >= 50 && bound.of_one() >= source.binding[column], format!("{} of what binds", bound.percent()));
            check(all.of_one() >= source.all[column], format!("{} of all that is planted", all.percent()));
            check(pairs.kept == pairs.all, format!("{} of distinct pairs", pairs.percent()));
            check(self.notes[column].of_one() <= percent as f64 / 100.0, format!("notes of {}", self.notes[column].percent()));
            check(self.stale[column].kept == 0, format!("{} stale values", self.stale[column].kept));
        }
        missed
    }
}

/// The kinds by the names of all generators.
fn kind(name: &str) -> &'static str {
    match name {
        "safety" => "safety rule",
        "limit" | "limit2" => "limit",
        "preference" => "preference",
        "fact" => "fact",
        "goal" => "goal state",
        "superseded" => "superseded value, the new one",
        "old" => "value not yet superseded",
        "paraphrase" | "update" => "paraphrased update",
        "neardup" => "near-duplicate",
        "error" => "error evidence",
        "identifier" => "identifier",
        "decision" => "decision",
        _ => "other values",
    }
}

/// Language and style, from a conversation's name: `de/coding/3`, `ja/1` or `umzug.de/0`.
fn about(name: &str) -> (&str, &str) {
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or_default();
    let style = parts.next().filter(|style| style.parse::<u64>().is_err());
    match first.split_once('.') {
        Some((_, language)) => (language, "story"),
        None => (first, style.unwrap_or("scene")),
    }
}

/// Whether `text` holds `part`, and not as part of a longer number.
fn names(text: &str, part: &str) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    text.match_indices(part).any(|(at, _)| !digit(text[..at].chars().next_back()) && !digit(text[at + part.len()..].chars().next()))
}
