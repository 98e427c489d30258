//! What is asked on each way, and whether it fits.

use super::super::guard::Fault;
use super::super::knobs::MOST_INSTRUCTIONS;
use super::super::material::{self, From, render, render_one};
use super::super::numbers::chunks;
use super::super::words;
use super::{Brief, Content, Pipeline, SummaryRequest, Way};
use std::fmt::Write as _;
use std::ops::Range;

/// Parts that are merged; a longer history is summarised by its small messages.
const MOST_PARTS: usize = 10;
/// The longest piece of a line that is cut, in bytes a token: no tokenizer makes more tokens than bytes.
const SAFE_BYTES: f64 = 0.8;

impl Pipeline {
    pub(super) fn chunks(&self) -> Vec<Range<usize>> {
        let entries: Vec<(u64, usize)> = self.weights.iter().copied().zip(self.brief.entries.iter().map(|entry| entry.group)).collect();
        chunks(&entries, self.brief.measures.chunk(&self.weights))
    }

    /// What to ask on the way that is tried; nothing where that would be too much.
    pub(super) fn request(&self) -> Option<SummaryRequest> {
        let Brief { entries, previous, measures, .. } = &self.brief;
        match &self.way {
            Way::Ride => {
                let (ride, weight) = self.brief.ride.as_ref()?;
                let prompt = self.with_feedback(include_str!("../../prompts/riding.md").replace("{rules}", &self.rules()));
                let tokens = weight + measures.count(&prompt);
                (tokens + measures.output() <= measures.window).then(|| SummaryRequest {
                    content: Content::Ride(ride.body(&prompt)),
                    output: measures.most_output(tokens),
                    tokens,
                    way: "ride",
                })
            }
            Way::Full => {
                // Not rendered where it cannot fit.
                (self.weights.iter().sum::<u64>() <= measures.window).then(|| self.quoted("full", previous.as_deref(), render(entries)))?
            }
            Way::Chunked { chunks, at, record } => {
                let chunk = chunks.get(*at)?.clone();
                self.quoted("chunk", record.as_deref().or(previous.as_deref()), render(&entries[chunk]))
            }
            Way::Staged { parts, .. } if parts.len() > MOST_PARTS => None,
            Way::Staged { parts, records } => match parts.get(records.len()) {
                Some(part) => self.quoted("part", previous.as_deref().filter(|_| records.is_empty()), render(&entries[part.clone()])),
                None => self.merge(records),
            },
            Way::Small => self.small(),
        }
    }

    fn merge(&self, records: &[String]) -> Option<SummaryRequest> {
        let most = self.brief.measures.input() / 2 / records.len().max(1) as u64;
        let mut parts = String::new();
        for (n, record) in records.iter().enumerate() {
            let _ = write!(parts, "<record part=\"{}\">\n{}\n</record>\n", n + 1, self.clipped(record, most));
        }
        self.prompt("merge", include_str!("../../prompts/merge.md").replace("{history}", &parts))
    }

    /// Whatever fits of the small messages, the user's first and then the newest, with notes of how many are missing.
    fn small(&self) -> Option<SummaryRequest> {
        let measures = &self.brief.measures;
        let previous = self.brief.previous.as_deref().map(|previous| self.clipped(previous, measures.output()));
        let spent = self.quoted("small", previous.as_deref(), String::new())?.tokens;
        let mut left = (measures.window.saturating_sub(spent + measures.output()) as f64 * 0.9) as u64;
        let mut order: Vec<usize> = (0..self.weights.len()).rev().collect();
        order.sort_by_key(|&at| self.brief.entries[at].from != From::User);
        let mut keep = vec![false; self.weights.len()];
        for at in order {
            // Its note costs something too.
            let weight = self.weights[at] + 24;
            if weight <= left {
                left -= weight;
                keep[at] = true;
            }
        }
        if !keep.contains(&true) {
            return None;
        }
        let mut history = String::new();
        let mut missing = 0;
        for (at, entry) in self.brief.entries.iter().enumerate() {
            if !keep[at] {
                missing += 1;
                continue;
            }
            if std::mem::take(&mut missing) > 0 {
                history.push_str("[… messages left out …]\n");
            }
            render_one(entry, &mut history);
        }
        self.quoted("small", previous.as_deref(), history)
    }

    fn quoted(&self, way: &'static str, previous: Option<&str>, history: String) -> Option<SummaryRequest> {
        let prompt = match previous {
            Some(previous) => {
                let previous = material::quoted(previous);
                fill(include_str!("../../prompts/update.md"), &[("{previous}", &previous), ("{history}", &history)])
            }
            None => fill(include_str!("../../prompts/full.md"), &[("{history}", &history)]),
        };
        self.prompt(way, prompt)
    }

    fn prompt(&self, way: &'static str, prompt: String) -> Option<SummaryRequest> {
        let measures = &self.brief.measures;
        // The history may hold the word too; the last one is the prompt's own.
        let (before, after) = prompt.rsplit_once("{rules}")?;
        let user = self.with_feedback([before, &self.rules(), after].concat());
        let system = include_str!("../../prompts/system.md");
        let tokens = measures.count(system) + measures.count(&user) + 16;
        (tokens + measures.output() <= measures.window).then_some(SummaryRequest {
            content: Content::Quoted { system, user },
            output: measures.most_output(tokens),
            tokens,
            way,
        })
    }

    fn rules(&self) -> String {
        let instructions = words::head_chars(self.brief.instructions.trim(), MOST_INSTRUCTIONS);
        let rules = fill(
            include_str!("../../prompts/rules.md"),
            &[
                ("{budget}", &self.brief.measures.budget.to_string()),
                ("{template}", &self.brief.template.text),
                ("{instructions}", instructions),
            ],
        );
        rules.trim_end().to_owned()
    }

    fn with_feedback(&self, prompt: String) -> String {
        let prompt = prompt.trim_end().to_owned();
        if self.feedback.is_empty() {
            return prompt;
        }
        let faults: Vec<String> = self.feedback.iter().map(Fault::advice).collect();
        let feedback = fill(include_str!("../../prompts/feedback.md"), &[("{faults}", &material::quoted(&faults.join("\n")))]);
        prompt + feedback.trim_end()
    }

    /// As many lines of a record as fit.
    pub(super) fn clipped(&self, text: &str, most: u64) -> String {
        clip(text, most, &|text| self.brief.measures.count(text))
    }
}

/// As many lines of a text as weigh `most` at most.
pub fn clip(text: &str, most: u64, count: &dyn Fn(&str) -> u64) -> String {
    if count(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut left = most;
    for line in text.lines() {
        let weight = count(line) + 1;
        if weight > left {
            if out.is_empty() {
                out.push_str(words::head(line, (left as f64 * SAFE_BYTES) as usize));
            }
            break;
        }
        left -= weight;
        out.push_str(line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// A prompt with its gaps filled, each once and in one pass, so that what is filled in is never filled itself.
fn fill(prompt: &str, gaps: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(prompt.len() + gaps.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = prompt;
    while let Some((at, gap, text)) = gaps.iter().filter_map(|(gap, text)| Some((rest.find(gap)?, gap, text))).min_by_key(|(at, ..)| *at) {
        out.push_str(&rest[..at]);
        out.push_str(text);
        rest = &rest[at + gap.len()..];
    }
    out + rest
}
