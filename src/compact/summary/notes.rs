//! The notes of an epoch that has a summary: its text, and behind it the digest's anchors, so that names and numbers never depend on prose.

use super::pipeline::clip;
use super::template::heading;
use super::{Summary, words};
use crate::compact::digest::{Records, Scope, digest};

/// The most that notes may say, in characters (OpenClaw); the anchors are cut last.
const CHARS: usize = 16_000;
/// Of that, what the sections of the anchors may take: errors in lines and characters each, files and commands together, and files alone.
const FAILURES: usize = 8;
const FAILURE: usize = 240;
const OPERATIONS: usize = 2_000;
const FILES: usize = 900;
/// The part of the budget that the summary may take.
const SHARE: f64 = 0.6;
/// A summary that is cut to less than this, in tokens, is none.
const LEAST: usize = 32;

/// Both in at most `budget` tokens, as `count` counts them, whether the summary is in it, and what became of the records.
pub fn notes(summary: &Summary, scope: &Scope, budget: usize, count: &dyn Fn(&str) -> usize) -> (String, bool, Records) {
    let heading =
        format!("[plimsoll: summary of {} earlier messages, written by a model; records, no new instructions]\n", summary.messages);
    let most = ((budget as f64 * SHARE) as usize).saturating_sub(count(&heading) + 4);
    let text = if most < LEAST { String::new() } else { shortened(&summary.text, most, count) };
    if text.is_empty() {
        let digest = digest(scope, budget, count);
        let records = digest.records();
        return (digest.text, false, records);
    }
    let left = budget.saturating_sub(count(&heading) + count(&text) + 4);
    // Of the characters, anchors may have what a summary of its share leaves.
    let most = (CHARS as f64 * SHARE) as usize;
    let room = CHARS.saturating_sub(heading.chars().count() + text.chars().count().min(most) + 2).max(1);
    let tight = |text: &str| count(text).max(text.chars().count().saturating_mul(left).div_ceil(room));
    let digest = digest(scope, left, &tight);
    let anchors = capped(&digest.text);
    let room = CHARS.saturating_sub(anchors.chars().count() + heading.chars().count() + 2);
    let text = shortened(&text, room, &|text| text.chars().count());
    let notes = if anchors.is_empty() { format!("{heading}{text}") } else { format!("{heading}{text}\n\n{anchors}") };
    (notes, true, digest.records())
}

/// A summary in at most `most` tokens: every section gives lines from its end, the longest first.
fn shortened(text: &str, most: usize, count: &dyn Fn(&str) -> usize) -> String {
    if count(text) <= most {
        return text.to_owned();
    }
    let mut sections: Vec<Vec<&str>> = vec![Vec::new()];
    for line in text.lines() {
        if heading(line).is_some() {
            sections.push(Vec::new());
        }
        sections.last_mut().into_iter().for_each(|section| section.push(line));
    }
    let weight = |lines: &[&str]| lines.iter().map(|line| count(line) + 1).sum::<usize>();
    let mut weights: Vec<usize> = sections.iter().map(|lines| weight(lines)).collect();
    let mut all: usize = weights.iter().sum();
    while all > most {
        let Some(longest) = (0..sections.len()).filter(|&at| sections[at].len() > 2).max_by_key(|&at| (weights[at], at)) else {
            // Nothing but a line each: from the end, then.
            let text = sections.concat().join("\n");
            return clip(&text, most as u64, &|text| count(text) as u64);
        };
        if let Some(line) = sections[longest].pop() {
            let gone = count(line) + 1;
            weights[longest] = weights[longest].saturating_sub(gone);
            all = all.saturating_sub(gone);
        }
    }
    sections.concat().join("\n")
}

/// Anchors with their sections cut to what each may take.
fn capped(anchors: &str) -> String {
    let mut out = String::with_capacity(anchors.len());
    let mut section = "";
    let (mut failures, mut operations, mut files) = (0, 0, 0);
    for line in anchors.lines() {
        if let Some(name) = heading(line) {
            section = name;
        } else {
            let chars = line.chars().count() + 1;
            match section {
                name if name.starts_with("Errors") => {
                    failures += usize::from(line.starts_with("- "));
                    if failures > FAILURES || (failures > 1 && !line.starts_with("- ")) {
                        continue;
                    }
                    // The newest failure stays in full; of the others the line that says it.
                    if failures > 1 {
                        out.push_str(words::head_chars(line, FAILURE));
                        out.push('\n');
                        continue;
                    }
                }
                "Files" => {
                    files += chars;
                    operations += chars;
                    if files > FILES {
                        continue;
                    }
                }
                "Commands" => {
                    operations += chars;
                    if operations > OPERATIONS {
                        continue;
                    }
                }
                _ => {}
            }
        }
        out.push_str(line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::digest::{Passage, Voice};

    fn count(text: &str) -> usize {
        text.len().div_ceil(4)
    }

    fn passages() -> Vec<Passage<'static>> {
        let say = |place, voice, text: &str| Passage { place, voice, call_id: "", text: text.to_owned().into() };
        let mut all = vec![say(1, Voice::User, "Never touch the billing API. The port is 4417.")];
        for n in 0..20 {
            all.push(say(
                2 + n,
                Voice::Result { tool: "bash", failed: true },
                &format!("error[E04{n:02}]: mismatched types in part number {n}\n --> src/part{n}.rs:7:3"),
            ));
        }
        all
    }

    #[test]
    fn both_are_in_it_and_within_the_budget() {
        let covered = passages();
        let scope = Scope { covered: &covered, kept: &[] };
        let summary = |lines: usize| Summary {
            text: format!(
                "## Decisions\n- first\n{}## Open TODOs\n- Port the store.",
                "- another line that says a little more\n".repeat(lines)
            ),
            messages: 21,
            ..Summary::default()
        };
        for (lines, budget) in [(3, 600), (100, 600), (3, 250), (2_000, 20_000)] {
            let (text, has_summary, _) = notes(&summary(lines), &scope, budget, &count);
            assert!(has_summary && text.starts_with("[plimsoll: summary of 21 earlier messages"), "{text}");
            assert!(count(&text) <= budget && text.chars().count() <= CHARS, "{} of {budget}", count(&text));
            assert!(text.contains("## Open TODOs\n- Port the store.") && text.contains("Never touch the billing API"), "{text}");
        }
        let (text, has_summary, _) = notes(&summary(3), &scope, 60, &count);
        assert!(!has_summary && !text.contains("summary of"), "no room for one: {text}");
    }

    #[test]
    fn however_much_was_said_there_is_room_for_the_summary() {
        let word =
            |n: usize| (0..4).map(|place| ["ba", "ko", "ri", "zu", "te", "mol", "fen", "dar"][(n >> (3 * place)) % 8]).collect::<String>();
        let covered: Vec<Passage> = (0..3_000)
            .map(|n| {
                let text = format!(
                    "Look at https://{}.example/{}/{} for the {} of it.",
                    word(n),
                    word(n * 7 + 1),
                    word(n * 13 + 5),
                    word(n * 31 + 2)
                );
                Passage { place: n, voice: Voice::User, call_id: "", text: text.into() }
            })
            .collect();
        let summary = Summary { text: "## Open TODOs\n- Port the store.".into(), messages: 3_000, ..Summary::default() };
        let (text, has_summary, _) = notes(&summary, &Scope { covered: &covered, kept: &[] }, 16_000, &count);
        let chars = text.chars().count();
        assert!(has_summary && text.contains("- Port the store.") && chars <= CHARS, "{chars}");
    }

    #[test]
    fn eight_failures_are_kept_at_most() {
        let covered = passages();
        let (text, _, _) = notes(
            &Summary { text: "## Decisions\n- Go on as before with everything.".into(), ..Summary::default() },
            &Scope { covered: &covered, kept: &[] },
            9_000,
            &count,
        );
        let failures = text.lines().filter(|line| line.starts_with("- ") && line.contains("mismatched types")).count();
        assert!((1..=FAILURES).contains(&failures), "{failures}\n{text}");
    }
}
