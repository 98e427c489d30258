//! A real model's summaries, held against what was planted: asked as the proxy asks, believed as the proxy believes.
//!
//! Here an epoch begins where the proxy would begin it, a little before the newest message; what is replaced after that stands in both versions, in order,
//! and is counted as carried.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use plimsoll::{
    budget::Reserve,
    compact::summary::{Answer, Content, Failure, Outcome, Step, SummaryRequest, When},
    decide::{Decider, Need, Policy, Steer},
    wire::{
        Format, Said, alone,
        overflow::{self, Class},
    },
};

use super::conversation::Conversation;
use super::survival::{self, Read, Scores};
use super::{Arguments, request, stories, table, templates};

const ROUNDS: usize = 5;
/// The budget, as a place in [`survival::BUDGETS`].
const COLUMN: usize = 1;
const CONVERSATIONS: usize = 9;
const SECONDS: u32 = 600;
/// Of a model of today, in tokens. The conversations are far smaller.
const LEAST_WINDOW: u64 = 32_768;

pub fn run(arguments: &Arguments) -> Vec<String> {
    let (Some(base), Some(model)) = (&arguments.base, &arguments.model) else {
        println!("\nsummaries: skipped, no --base and --model");
        return Vec::new();
    };
    let server = Server::new(base);
    let policy = Arc::new(policy(model, arguments.window));
    let (mut sent, mut alone) = (Scores::default(), Scores::default());
    let mut tally = Tally::default();
    let all: Vec<Conversation> = templates::conversations(0..1).into_iter().chain(stories::conversations(0..1)).collect();
    let wanted = arguments.conversations.unwrap_or(CONVERSATIONS).clamp(1, all.len());
    for at in 0..wanted {
        let talk = &all[at * all.len() / wanted];
        // Later summaries go on from earlier ones.
        let decider = Decider::new(16 << 20, 3600, 16 << 20);
        for round in 1..=ROUNDS {
            let Some(end) = survival::end(talk, round) else { continue };
            let body = request::body(&talk.messages[..end]);
            let weight = survival::weight(&decider, &body, &policy);
            let call = request::call(&decider, Format::Chat, body, &policy, weight, Steer::Default);
            let summary = ask(&decider, &call, &server, &mut tally);
            let read = Read::of(&request::sent(&decider, &call).0, talk);
            sent.round(talk, end, round, COLUMN, &read);
            if let Some(summary) = summary {
                let all = read.all.replacen(&read.notes, &summary, 1);
                alone.round(talk, end, round, COLUMN, &Read { all, notes: summary });
            }
        }
        eprintln!("{}: {} calls so far", talk.name, tally.calls);
    }
    alone.print("summaries alone, where there is one", wanted);
    sent.print("summaries and anchors, or the digest, as sent", wanted);
    tally.print(model);
    if tally.calls == 0 { vec!["no model was asked".into()] } else { Vec::new() }
}

fn policy(model: &str, window: Option<u64>) -> Policy {
    let mut policy = survival::policy(survival::BUDGETS[COLUMN]);
    let gates = &mut policy.gates;
    (gates.target, gates.preflight.threshold, gates.preflight.soft) = (0.85, 0.9, 0);
    gates.preflight.reserve = Reserve::Tokens(0);
    let knobs = &mut policy.compact.summarize;
    (knobs.model, knobs.when, knobs.window) = (model.to_owned(), When::Request, window.unwrap_or(LEAST_WINDOW));
    // Any other base than the request's own: its window is that of the model.
    knobs.upstream = "http://summaries".into();
    policy
}

#[derive(Default)]
struct Tally {
    calls: usize,
    asked: usize,
    believed: usize,
    /// What was put right in those that were believed, and why the rest were not.
    mended: BTreeMap<&'static str, usize>,
    refused: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn print(&self, model: &str) {
        let row = |name: String, number: usize| (name, vec![number.to_string()]);
        let mut rows =
            vec![row("summaries asked for".into(), self.asked), row("calls".into(), self.calls), row("believed".into(), self.believed)];
        rows.extend(self.mended.iter().map(|(fault, times)| row(format!("  mended: {fault}"), *times)));
        rows.extend(self.refused.iter().map(|(fault, times)| row(format!("refused: {fault}"), *times)));
        table::print(&format!("summaries by {model}"), &["times"], &rows);
    }
}

/// Makes the summary that a request needs, if it needs one.
fn ask(decider: &Decider, call: &plimsoll::decide::Call, server: &Server, tally: &mut Tally) -> Option<String> {
    let Some(Need::Begin(mut job)) = decider.summary(call) else { return None };
    tally.asked += 1;
    let mut step = job.pipeline.step(None);
    let outcome = loop {
        match step {
            Step::Done(outcome) => break outcome,
            Step::Ask(asked) => {
                tally.calls += 1;
                step = job.pipeline.step(Some(server.ask(&asked, &job.model)));
            }
        }
    };
    let summary = match outcome {
        Outcome::Digest(cause) => {
            *tally.refused.entry(cause).or_default() += 1;
            None
        }
        Outcome::Summary(summary) => {
            tally.believed += 1;
            summary.mended.iter().for_each(|fault| *tally.mended.entry(fault).or_default() += 1);
            Some(summary)
        }
    };
    decider.summarized(job.claim, summary.clone(), 0, 0);
    summary.map(|summary| summary.text)
}

/// An OpenAI-compatible server, spoken to by curl: it knows every proxy and certificate that its user has set up.
struct Server {
    url: String,
    key: Option<String>,
    /// OpenAI's newer models refuse the old name, other servers do not know the new one.
    cap: &'static str,
}

impl Server {
    fn new(base: &str) -> Server {
        let base = base.trim_end_matches('/');
        let path = if base.ends_with("/v1") { "/chat/completions" } else { "/v1/chat/completions" };
        let cap = if base.contains("openai.com") { "max_completion_tokens" } else { "max_tokens" };
        Server { url: format!("{base}{path}"), key: std::env::var("OPENAI_API_KEY").ok(), cap }
    }

    fn ask(&self, asked: &SummaryRequest, model: &str) -> Answer {
        let body = match &asked.content {
            Content::Ride(body) => body.clone(),
            Content::Quoted { system, user } => alone(Format::Chat, model, system, user, Some((self.cap, asked.output))),
        };
        match self.post(&body) {
            None => Answer::Failed(Failure::Silent),
            Some((200, text)) => Said::of_answer(Format::Chat, text.as_bytes()).map_or(Answer::Failed(Failure::Unavailable), Answer::Said),
            Some((status, text)) => Answer::Failed(refusal(status, &text)),
        }
    }

    /// Status and body of what answers. The key is in no argument, where other users of the machine could read it.
    fn post(&self, body: &str) -> Option<(u16, String)> {
        let mut file = tempfile::NamedTempFile::new().ok()?;
        file.write_all(body.as_bytes()).ok()?;
        let mut settings = format!(
            "url = \"{}\"\ndata-binary = \"@{}\"\nheader = \"content-type: application/json\"\nsilent\nmax-time = {SECONDS}\nwrite-out = \"\\n%{{http_code}}\"\n",
            self.url,
            file.path().display()
        );
        if let Some(key) = &self.key {
            settings.push_str(&format!("header = \"authorization: Bearer {key}\"\n"));
        }
        let mut curl = Command::new("curl").args(["--config", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        curl.stdin.take()?.write_all(settings.as_bytes()).ok()?;
        let output = curl.wait_with_output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (body, status) = text.rsplit_once('\n')?;
        Some((status.parse().ok()?, body.to_owned()))
    }
}

fn refusal(status: u16, body: &str) -> Failure {
    let answer = overflow::Answer { status, body: body.as_bytes(), stream: false };
    match overflow::classify(answer, []).class {
        Class::Input | Class::InputPlusOutput | Class::Bytes => Failure::TooLong,
        _ if status >= 500 || matches!(status, 408 | 425 | 429) => Failure::Unavailable,
        _ => Failure::Rejected,
    }
}
