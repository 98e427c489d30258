//! Both sessions side by side.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value, json};

use super::agent::{Session, Turn};
use super::script::Script;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const RED: Style = AnsiColor::Red.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default().bold();

/// How wide the column of the agent without Plimsoll is.
const COLUMN: usize = 28;

/// Written line by line, while the second session runs.
pub struct Table<'a> {
    script: &'a Script,
    alone: &'a Session,
}

impl<'a> Table<'a> {
    pub fn of(script: &'a Script, alone: &'a Session) -> Self {
        Table { script, alone }
    }

    pub fn begin(&self) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        writeln!(out, "One agent, one task, one model with a window of {} tokens; the same session twice.", grouped(self.script.window))?;
        writeln!(out, "Provider, agent and Plimsoll run in this process and talk over sockets; the provider plays a script.\n")?;
        writeln!(out, "{BOLD}turn  the agent holds │ {:<COLUMN$}│ with Plimsoll{BOLD:#}", "without: what is sent")
    }

    /// The nth turn, as it went with Plimsoll.
    pub fn turn(&self, n: usize, turn: &Turn) -> io::Result<()> {
        let (style, left) = match self.alone.turns.get(n) {
            Some(turn) if turn.status == 200 => (Style::new(), format!("{:>6}  ok", grouped(turn.sent))),
            Some(turn) => (RED, format!("{:>6}  refused: {}", grouped(turn.sent), turn.status)),
            None if n == self.alone.turns.len() => (DIM, "        the agent is dead".into()),
            None => (DIM, String::new()),
        };
        let mut out = anstream::stdout().lock();
        write!(out, "{:>4} {:>16} │ {style}{left:<COLUMN$}{style:#}│ {:>6}  ", n + 1, grouped(turn.holds), grouped(turn.sent))?;
        match turn.status {
            200 if turn.is_compaction() => writeln!(out, "ok, {GREEN}compacted{GREEN:#} {DIM}{} by {}{DIM:#}", turn.trigger, turn.rungs),
            200 => writeln!(out, "ok"),
            status => writeln!(out, "{RED}refused: {status}{RED:#}"),
        }
    }

    pub fn end(&self, behind: &Session) -> io::Result<()> {
        let (alone, all) = (self.alone, self.script.turns().len());
        let mut out = anstream::stdout().lock();
        writeln!(out, "\n{BOLD}{:<64} {:>12} {:>14}{BOLD:#}", "", "without", "with Plimsoll")?;
        let mut row = |name: &str, a: String, b: String| writeln!(out, "{name:<64} {a:>12} {b:>14}");
        let turns = |session: &Session| format!("{} of {all}", session.answered());
        row("turns finished", turns(alone), turns(behind))?;
        row("requests that the provider got", alone.tally.requests.to_string(), behind.tally.requests.to_string())?;
        row("requests that it refused as too long", alone.tally.refused.to_string(), behind.tally.refused.to_string())?;
        row("compactions", "-".into(), behind.compactions().to_string())?;
        row("tokens sent", grouped(alone.tally.tokens), grouped(behind.tally.tokens))?;
        row("of them in the provider's prompt cache", percent(alone.share_cached()), percent(behind.share_cached()))?;
        for rule in &self.script.rules {
            let knows = if behind.knows(rule) { "yes" } else { "no" };
            row(&format!("told to the end: \"{rule}\""), "-".into(), knows.into())?;
        }
        Ok(())
    }
}

impl Session {
    fn share_cached(&self) -> f64 {
        self.tally.cached as f64 / self.tally.tokens.max(1) as f64
    }
}

pub fn json(script: &Script, alone: &Session, behind: &Session) -> io::Result<()> {
    let turn =
        |turn: &Turn| json!({"holds": turn.holds, "sent": turn.sent, "status": turn.status, "trigger": turn.trigger, "rungs": turn.rungs});
    let session = |session: &Session| {
        json!({
            "finished": session.finished,
            "answered": session.answered(),
            "requests": session.tally.requests,
            "refused": session.tally.refused,
            "compactions": session.compactions(),
            "tokens_sent": session.tally.tokens,
            "tokens_cached": session.tally.cached,
            "rules": script.rules.iter().map(|rule| (rule.clone(), session.knows(rule).into())).collect::<Map<_, Value>>(),
            "turns": session.turns.iter().map(turn).collect::<Vec<_>>(),
        })
    };
    let all = json!({"window": script.window, "turns": script.turns().len(), "without": session(alone), "with": session(behind)});
    writeln!(io::stdout().lock(), "{all}")
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// 12345 as 12,345.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(super::grouped(number), text);
        }
    }
}
