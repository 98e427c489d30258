//! `plimsoll demo`: an agent that dies of its own history, and the same agent behind Plimsoll. No key, no network: the provider is built in, and
//! everything goes over real sockets.

mod provider;

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::{Config, Level, LogFormat, Problem};
use crate::proxy::{decide::Decide, lifecycle, log};
use provider::{Provider, post};

/// Watch an agent outgrow its model's window, without and with Plimsoll (no key, no network)
#[derive(clap::Args)]
pub struct Demo {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

const SCRIPT: &str = include_str!("demo/script.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    window: u64,
    system: String,
    rules: Vec<String>,
    stale: String,
    asks: Vec<String>,
    output: String,
    turns: usize,
}

/// One request of the agent, and what the provider got and said.
struct Turn {
    history: u64,
    sent: u64,
    status: u16,
    trigger: String,
}

/// A whole session.
struct Session {
    turns: Vec<Turn>,
    last_sent: String,
    cached: f64,
}

impl Demo {
    pub fn run(self) -> ExitCode {
        match self.play() {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => super::failed(error),
        }
    }

    /// Whether the agent behind Plimsoll finished.
    fn play(&self) -> io::Result<bool> {
        let script: Script = toml::from_str(SCRIPT).map_err(io::Error::other)?;
        log::init(&crate::config::Log { level: Level::Off, format: LogFormat::Auto });
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let (alone, behind) = runtime.block_on(async {
            let alone = session(&script, false).await?;
            let behind = session(&script, true).await?;
            Ok::<_, io::Error>((alone, behind))
        })?;
        runtime.shutdown_background();
        let finished = behind.finished(&script);
        if self.json {
            print_json(&script, &alone, &behind)?
        } else {
            print_table(&script, &alone, &behind)?
        }
        Ok(finished)
    }
}

impl Session {
    fn finished(&self, script: &Script) -> bool {
        self.turns.len() == script.turns && self.turns.iter().all(|turn| turn.status == 200)
    }

    fn compactions(&self) -> usize {
        self.turns.iter().filter(|turn| matches!(turn.trigger.as_str(), "preflight" | "hygiene" | "overflow")).count()
    }

    fn holds(&self, words: &str) -> bool {
        self.last_sent.contains(words)
    }
}

/// Plays the script to its end, or to the first refusal.
async fn session(script: &Script, through: bool) -> io::Result<Session> {
    let provider = Provider::start(script.window).await?;
    let mut address = provider.address;
    if through {
        let config =
            Config { listen: "127.0.0.1:0".into(), admin: "off".into(), upstream: format!("http://{address}"), ..Config::default() };
        let running =
            lifecycle::start(&config, Decide::default(), false).await.map_err(|problem: Problem| io::Error::other(problem.to_string()))?;
        address = running.address;
    }
    let mut messages = vec![json!({"role": "system", "content": script.system})];
    let mut turns = Vec::new();
    for n in 0..script.turns {
        // Somebody speaks at the beginning, early on, and at the end.
        match n {
            0 => messages.push(json!({"role": "user", "content": script.asks[0]})),
            3 => messages.extend([
                json!({"role": "assistant", "content": "I have read the first steps."}),
                json!({"role": "user", "content": script.asks[1]}),
            ]),
            n if n + 1 == script.turns => messages.extend([
                json!({"role": "assistant", "content": "That file is fine."}),
                json!({"role": "user", "content": script.asks[2]}),
            ]),
            _ => {}
        }
        let body = json!({"model": "demo", "messages": messages}).to_string();
        let answer = post(address, body.clone()).await?;
        let seen = provider.seen();
        turns.push(Turn { history: provider::count(&body), sent: provider::count(&seen), status: answer.status, trigger: answer.trigger });
        if answer.status != 200 {
            break;
        }
        let id = format!("call_{n}");
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "bash", "arguments": json!({"command": format!("cat src/export/step_{n}.rs && cargo test step_{n}")}).to_string()}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": script.output.replace("{n}", &n.to_string())}));
    }
    Ok(Session { turns, last_sent: provider.seen(), cached: provider.cached() })
}

fn print_table(script: &Script, alone: &Session, behind: &Session) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let bold = Style::new().bold();
    let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    let green = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
    writeln!(out, "An agent with a history that grows, a model with a window of {} tokens.\n", script.window)?;
    writeln!(out, "{bold}turn   history │ without Plimsoll        │ with Plimsoll{bold:#}")?;
    for (n, turn) in behind.turns.iter().enumerate() {
        let left = match alone.turns.get(n) {
            Some(turn) if turn.status == 200 => format!("{:>6} sent, ok          ", turn.sent),
            Some(turn) => format!("{red}{:>6} sent, refused {}{red:#} ", turn.sent, turn.status),
            None => format!("{:>6}{:18}", "", "(the agent is dead)"),
        };
        let what = match turn.trigger.as_str() {
            "" | "ledger" => "ok".to_owned(),
            trigger => format!("ok, {green}compacted{green:#} ({trigger})"),
        };
        writeln!(out, "{:>4}   {:>7} │ {left:<24}│ {:>6} sent, {what}", n + 1, turn.history, turn.sent)?;
    }
    writeln!(out, "\n{bold}{:<34} {:>12} {:>14}{bold:#}", "", "without", "with Plimsoll")?;
    let mut row = |name: &str, a: String, b: String| writeln!(out, "{name:<34} {a:>12} {b:>14}");
    row(
        "turns finished",
        format!("{} of {}", alone.turns.iter().filter(|turn| turn.status == 200).count(), script.turns),
        format!("{} of {}", behind.turns.iter().filter(|turn| turn.status == 200).count(), script.turns),
    )?;
    row(
        "requests refused as too long",
        alone.turns.iter().filter(|turn| turn.status != 200).count().to_string(),
        behind.turns.iter().filter(|turn| turn.status != 200).count().to_string(),
    )?;
    row("compactions", "-".into(), behind.compactions().to_string())?;
    row("prompt bytes repeated (cacheable)", format!("{:.0} %", 100.0 * alone.cached), format!("{:.0} %", 100.0 * behind.cached))?;
    for rule in &script.rules {
        row(&format!("still knows \"{rule}\""), "-".into(), if behind.holds(rule) { "yes" } else { "no" }.into())?;
    }
    row(
        &format!("still says \"{}\"", script.stale),
        "-".into(),
        if behind.holds(&script.stale) { "yes, in the task" } else { "no" }.into(),
    )?;
    Ok(())
}

fn print_json(script: &Script, alone: &Session, behind: &Session) -> io::Result<()> {
    let session = |session: &Session| -> Value {
        json!({
            "finished": session.finished(script),
            "compactions": session.compactions(),
            "cached": session.cached,
            "turns": session.turns.iter().map(|turn| json!({"history": turn.history, "sent": turn.sent, "status": turn.status, "trigger": turn.trigger})).collect::<Vec<_>>(),
            "rules": script.rules.iter().map(|rule| (rule.clone(), session.holds(rule).into())).collect::<serde_json::Map<_, Value>>(),
        })
    };
    writeln!(io::stdout().lock(), "{}", json!({"window": script.window, "without": session(alone), "with": session(behind)}))
}
