//! Five rounds of compaction over a growing conversation, and what is left of what was planted.

use std::collections::BTreeMap;

use plimsoll::compact::digest::{Scope, digest};

use super::conversation::{Conversation, Who, count};

const ROUNDS: usize = 5;
/// Messages at the end that stay verbatim.
const TAIL: usize = 4;

/// Tokens below which there is no compaction.
const POSTCARD: usize = 300;

/// The least share of planted facts that survive, by share of the original that the digest may take.
pub struct Aims {
    /// Rules, limits, preferences and goals at 20 and 30 %.
    pub binding: f64,
    /// The same at 10 %.
    pub tight: f64,
    /// Stale values carried, at most.
    pub stale: usize,
}

impl Default for Aims {
    fn default() -> Self {
        Aims { binding: 1.0, tight: 0.8, stale: 0 }
    }
}

#[derive(Default, Clone, Copy)]
struct Score {
    kept: usize,
    all: usize,
}

impl Score {
    fn share(self) -> f64 {
        self.kept as f64 / self.all.max(1) as f64
    }
}

/// How the earlier rounds are present in the next: the client sends everything again, or only the digest is left of it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Rebuilt,
    Chained,
}

pub fn check(name: &str, conversations: &[Conversation], aims: Aims) {
    let verbose = std::env::var_os("DIGEST_MISSES").is_some();
    let mut problems = Vec::new();
    for mode in [Mode::Rebuilt, Mode::Chained] {
        let mut table: BTreeMap<String, [Score; 3]> = BTreeMap::new();
        let mut stale = [0usize; 3];
        let mut size = [Score::default(); 3];
        for (column, percent) in [10usize, 20, 30].into_iter().enumerate() {
            for talk in conversations {
                let mut before = String::new();
                let mut covered_before = 1;
                for round in 1..=ROUNDS {
                    let end = (talk.messages.len() * round / ROUNDS).saturating_sub(TAIL).max(2);
                    let all = count_all(talk, end);
                    // Nobody compacts what fits on a postcard.
                    if all < POSTCARD {
                        continue;
                    }
                    let budget = all * percent / 100;
                    let mut covered = talk.passages(if mode == Mode::Rebuilt { 1..end } else { covered_before..end });
                    let carried = talk.messages[0].passage(0);
                    if mode == Mode::Chained && !before.is_empty() {
                        covered.insert(0, plimsoll::compact::digest::Passage { text: before.clone().into(), ..carried.clone() });
                    }
                    let mut kept = talk.passages(end..(end + TAIL).min(talk.messages.len()));
                    kept.insert(0, carried);
                    let made = digest(&Scope { covered: &covered, kept: &kept }, budget, &count);
                    assert!(made.tokens <= budget && made.tokens == count(&made.text), "{}: {} of {budget}", talk.name, made.tokens);
                    size[column].kept += made.tokens;
                    size[column].all += budget;
                    let seen = format!("{}\n{}", made.text, kept.iter().map(|p| p.text.as_ref()).collect::<Vec<_>>().join("\n"));
                    for fact in talk.facts.iter().filter(|f| f.planted_at < end && f.until > end + TAIL) {
                        let kind = fact.kind.trim_start_matches("old_").split('_').next().unwrap_or_default().to_owned();
                        let here = fact.keys.iter().all(|key| seen.contains(key.as_str()));
                        let score = &mut table.entry(kind).or_default()[column];
                        score.all += 1;
                        score.kept += usize::from(here);
                        if !here && verbose && (percent == 20 || percent == 30) {
                            eprintln!(
                                "LOST {mode:?} {percent}% {} round {round}: {} {:?} in {:?}",
                                talk.name, fact.kind, fact.keys, talk.messages[fact.planted_at].text
                            );
                            if std::env::var_os("DIGEST_SHOW").is_some() {
                                eprintln!("{} of {budget}\n{}", made.tokens, made.text);
                            }
                        }
                    }
                    for gone in talk.gone.iter().filter(|g| g.from < end + TAIL) {
                        if names(&made.text, &gone.text) {
                            stale[column] += 1;
                            if verbose {
                                eprintln!(
                                    "STALE {mode:?} {percent}% {} round {round}: {:?} AFTER {:?}\n    {}",
                                    talk.name,
                                    gone.text,
                                    talk.messages[gone.from].text,
                                    made.text.lines().filter(|l| l.contains(&gone.text)).collect::<Vec<_>>().join("\n    ")
                                );
                            }
                        }
                    }
                    before = made.text;
                    covered_before = end;
                }
            }
        }
        println!(
            "\n{name}, {mode:?}: {} conversations, {ROUNDS} rounds\n{:<14}{:>10}{:>10}{:>10}",
            conversations.len(),
            "kind",
            "10 %",
            "20 %",
            "30 %"
        );
        let mut binding = [Score::default(); 3];
        for (kind, scores) in &table {
            println!("{kind:<14}{}", scores.iter().map(|s| format!("{:>9.1}%", 100.0 * s.share())).collect::<String>());
            if matches!(kind.as_str(), "safety" | "limit" | "limit2" | "preference" | "goal") {
                for (sum, score) in binding.iter_mut().zip(scores) {
                    sum.kept += score.kept;
                    sum.all += score.all;
                }
            }
        }
        println!("{:<14}{:>10}{:>10}{:>10}", "stale", stale[0], stale[1], stale[2]);
        println!("{:<14}{}", "budget used", size.iter().map(|s| format!("{:>9.1}%", 100.0 * s.share())).collect::<String>());
        for column in [1, 2] {
            if binding[column].share() < aims.binding {
                problems.push(format!("{mode:?}: {:.3} of what binds at {} %", binding[column].share(), 10 * (column + 1)));
            }
        }
        if binding[0].share() < aims.tight {
            problems.push(format!("{mode:?}: {:.3} of what binds at 10 %", binding[0].share()));
        }
        if stale.iter().sum::<usize>() > aims.stale {
            problems.push(format!("{mode:?}: {stale:?} stale values carried"));
        }
        assert!(table.values().map(|s| s[0].all).sum::<usize>() > 100, "too little was planted to judge");
    }
    assert!(problems.is_empty(), "{name}: {problems:#?}");
}

/// Whether `text` holds `part`, and not as part of a longer number.
fn names(text: &str, part: &str) -> bool {
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    text.match_indices(part).any(|(at, _)| !digit(text[..at].chars().next_back()) && !digit(text[at + part.len()..].chars().next()))
}

fn count_all(talk: &Conversation, end: usize) -> usize {
    talk.messages[..end].iter().map(|m| count(&m.text) + if matches!(m.who, Who::Call(_)) { 8 } else { 4 }).sum()
}
