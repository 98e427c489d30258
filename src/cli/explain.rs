//! `plimsoll explain`: where the tokens of a request are, and what each rung would save.

use super::{body::Body, refuse};
use crate::budget::{Window, load::Scale};
use crate::compact::{Goal, Knobs, Outcome, Rung, run};
use crate::conversation::{Kind, Role};
use crate::wire::Request;
use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Show where the tokens of a request body are, message by message, and what each rung would save
#[derive(Args, Debug)]
pub struct Explain {
    #[command(flatten)]
    body: Body,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Show every message, not only the heaviest
    #[arg(long)]
    all: bool,
}

/// A line of the table.
struct Row {
    place: usize,
    role: &'static str,
    what: String,
    tokens: u64,
    bytes: usize,
}

/// A rung, what it would save alone, and whether it acts when the plan runs.
struct Step {
    rung: &'static str,
    saves: u64,
    acts: bool,
}

/// Everything there is to say about a request.
struct Account {
    rows: Vec<Row>,
    steps: Vec<Step>,
    rest: u64,
    total: u64,
    after: u64,
    window: Window,
    /// Nobody says what the window is: it is taken to be twice the request.
    assumed: bool,
    ceiling: u64,
    due: bool,
}

/// So many messages are shown where not all were asked for.
const HEAVIEST: usize = 20;

impl Explain {
    pub fn run(self) -> std::io::Result<ExitCode> {
        let body = self.body.read()?;
        let format = self.body.format(&body);
        let request = match Request::read(format, body) {
            Ok(request) => request,
            Err(unreadable) => {
                writeln!(
                    std::io::stderr(),
                    "plimsoll explain: this is no {} request ({}); the proxy would pass it as it is",
                    format.name(),
                    unreadable.name()
                )?;
                return Ok(ExitCode::FAILURE);
            }
        };
        let scale = Scale::of(&request, "");
        let weights: Vec<u64> = request.conversation.messages.iter().map(|message| scale.message(&request, message)).collect();
        let rest = scale.rest(&request);
        let total = rest + weights.iter().sum::<u64>();
        let policy = match self.body.policy(request.model()) {
            Ok(policy) => policy,
            Err(problem) => return Ok(refuse(&problem)),
        };
        let known = self.body.window(&request, &policy);
        let window = known.unwrap_or(Window { tokens: (2 * total).max(1), separate_output: false });
        let decisions = policy.decisions();
        let limits = decisions.gates.limits(window, request.cap.map(|(_, cap)| cap), scale.tokenizer.is_exact());
        let goal = Goal::of(limits);
        let outcome = run(&request, &weights, rest, &scale, &goal, &decisions.compact);
        let account = Account {
            rows: rows(&request, &weights),
            steps: steps(&request, &weights, rest, &scale, &goal, &decisions.compact, &outcome),
            rest,
            total,
            after: outcome.load.tokens + rest,
            window,
            assumed: known.is_none(),
            ceiling: limits.ceiling(),
            due: total > limits.ceiling(),
        };
        if self.json {
            account.print_json(&request)?
        } else {
            account.print_table(&request, self.all)?
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Account {
    fn print_table(&self, request: &Request, all: bool) -> std::io::Result<()> {
        let Account { total, rest, ceiling, .. } = *self;
        let mut out = anstream::stdout().lock();
        let bold = Style::new().bold();
        let dim = Style::new().dimmed();
        writeln!(
            out,
            "{bold}{total}{bold:#} tokens in {} messages, {} {} format, window {}{}",
            self.rows.len(),
            model(request),
            request.format.name(),
            self.window.tokens,
            if self.assumed { " (assumed: twice the request; --window says what it is)" } else { "" }
        )?;
        writeln!(out, "{dim}trigger above {ceiling} tokens: {}{dim:#}\n", if self.due { "a compaction is due" } else { "nothing is due" })?;
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        if !all && rows.len() > HEAVIEST {
            rows.sort_by_key(|row| std::cmp::Reverse(row.tokens));
            rows.truncate(HEAVIEST);
            rows.sort_by_key(|row| row.place);
        }
        writeln!(out, "{bold}{:>5}  {:<9}  {:>8}  {:>9}  what{bold:#}", "place", "role", "tokens", "bytes")?;
        writeln!(out, "{:>5}  {:<9}  {rest:>8}  {:>9}  everything but the messages", "-", "rest", "")?;
        for row in rows {
            let color = colour(row.tokens, total);
            writeln!(out, "{:>5}  {:<9}  {color}{:>8}{color:#}  {:>9}  {}", row.place, row.role, row.tokens, row.bytes, row.what)?;
        }
        writeln!(out, "\n{bold}{:<17} {:>12}  in the plan{bold:#}", "rung", "saves alone")?;
        for step in &self.steps {
            let mark = if self.due && step.acts { "acts" } else { "" };
            writeln!(out, "{:<17} {:>12}  {mark}", step.rung, step.saves)?;
        }
        if self.due {
            let share = 100.0 * self.after as f64 / self.window.tokens.max(1) as f64;
            writeln!(out, "\nThe ladder would stop at {bold}{}{bold:#} tokens ({share:.0} % of the window).", self.after)?;
        }
        Ok(())
    }

    fn print_json(&self, request: &Request) -> std::io::Result<()> {
        let message = |row: &Row| json!({"place": row.place, "role": row.role, "tokens": row.tokens, "bytes": row.bytes, "what": row.what});
        let rung = |step: &Step| json!({"rung": step.rung, "saves": step.saves, "acts": self.due && step.acts});
        let report = json!({
            "format": request.format.name(),
            "model": request.model(),
            "window": self.window.tokens,
            "window_assumed": self.assumed,
            "trigger": self.ceiling,
            "due": self.due,
            "tokens": self.total,
            "rest": self.rest,
            "after": if self.due { self.after } else { self.total },
            "messages": self.rows.iter().map(message).collect::<Vec<_>>(),
            "rungs": self.steps.iter().map(rung).collect::<Vec<_>>(),
        });
        writeln!(std::io::stdout().lock(), "{report}")
    }
}

fn model(request: &Request) -> String {
    if request.model().is_empty() { "no model,".to_owned() } else { format!("model {},", request.model()) }
}

fn colour(tokens: u64, total: u64) -> Style {
    let share = tokens as f64 / total.max(1) as f64;
    match share {
        share if share > 0.10 => Style::new().fg_color(Some(AnsiColor::Red.into())).bold(),
        share if share > 0.03 => Style::new().fg_color(Some(AnsiColor::Yellow.into())),
        _ => Style::new(),
    }
}

fn rows(request: &Request, weights: &[u64]) -> Vec<Row> {
    let conversation = &request.conversation;
    let row = |(place, message): (usize, &crate::conversation::Message)| {
        let mut kinds: Vec<String> = Vec::new();
        for block in conversation.blocks_of(message) {
            kinds.push(match &block.kind {
                Kind::Text { .. } => "text".to_owned(),
                Kind::Reasoning => "reasoning".to_owned(),
                Kind::Call(call) => format!("call {}", call.tool.of(request.text())),
                Kind::Result(_) => "result".to_owned(),
                Kind::Media(_) => "attachment".to_owned(),
                Kind::Opaque => "opaque".to_owned(),
            });
        }
        kinds.dedup();
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
            Role::Opaque => "?",
        };
        Row { place, role, what: kinds.join(", "), tokens: weights[place], bytes: message.span.len() }
    };
    conversation.messages.iter().enumerate().map(row).collect()
}

/// Each rung of the plan by itself, and whether it acts when the plan runs.
fn steps(request: &Request, weights: &[u64], rest: u64, scale: &Scale, goal: &Goal, knobs: &Knobs, whole: &Outcome) -> Vec<Step> {
    let came: u64 = weights.iter().sum();
    Rung::ALL
        .into_iter()
        // What a model would make of it is not known.
        .filter(|rung| *rung != Rung::Summarize)
        .map(|rung| {
            let alone = Knobs { plan: vec![rung], ..knobs.clone() };
            let outcome = run(request, weights, rest, scale, goal, &alone);
            Step { rung: rung.name(), saves: came.saturating_sub(outcome.load.tokens), acts: whole.rungs.contains(&rung) }
        })
        .collect()
}
