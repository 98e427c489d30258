//! Which statement replaces which.
//!
//! A later statement about the same subject with another value replaces the earlier one. The same subject: most of what the shorter of the
//! two is about, weighed by rarity, stands in the other too. Two statements that differ in an entity as well (staging and production,
//! customer A and B) speak of two things. Words that announce a change only lower the bar.

use std::collections::{HashMap, HashSet};

use super::statements::{Speaker, Statement};
use super::subjects::{Key, Kind, Rarity, Subject, Token, Value};

/// What became of each statement, and the values nobody holds any more.
pub(crate) struct Resolved {
    /// By index: the statement that took its place.
    pub replaced_by: Vec<Option<usize>>,
    pub stale: Stale,
}

/// Values of replaced statements that no standing statement of the user holds.
#[derive(Default)]
pub(crate) struct Stale {
    values: HashMap<Key, Vec<Outdated>>,
}

struct Outdated {
    value: Value,
    subject: Vec<Key>,
}

/// Rare words looked up for a statement, statements looked at for each, and compared in full. They bound the work for a statement.
const KEYS: usize = 8;
const POSTINGS: usize = 48;
const COMPARED: usize = 24;
/// Tokens of a sentence that are aligned with another's.
const ALIGNED: usize = 40;

pub(crate) fn resolve(statements: &[Statement], rarity: &Rarity) -> Resolved {
    let mut replaced_by: Vec<Option<usize>> = vec![None; statements.len()];
    let mut postings: HashMap<Key, Vec<usize>> = HashMap::new();
    let mut stale = Stale::default();
    let mut outdated: Vec<(usize, usize)> = Vec::new();
    for (later, statement) in statements.iter().enumerate() {
        let subject = &statement.subject;
        let mut keys: Vec<Key> = subject.words.iter().copied().chain(subject.values.iter().map(|v| v.norm)).collect();
        keys.sort_unstable_by(|a, b| rarity.seen(*a).cmp(&rarity.seen(*b)).then(a.cmp(b)));
        keys.dedup();
        let mut met: HashMap<usize, u32> = HashMap::new();
        for key in keys.iter().take(KEYS) {
            for earlier in postings.get(key).into_iter().flatten().rev().take(POSTINGS) {
                *met.entry(*earlier).or_default() += 1;
            }
        }
        let mut candidates: Vec<(u32, usize)> = met.into_iter().map(|(earlier, times)| (times, earlier)).collect();
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        for &(_, earlier) in candidates.iter().take(COMPARED) {
            if replaced_by[earlier].is_some() || !may_replace(&statements[earlier], statement) {
                continue;
            }
            match relation(&statements[earlier], statement, rarity) {
                Some(Relation::Same) => replaced_by[earlier] = Some(later),
                Some(Relation::Contained) => {
                    replaced_by[later] = Some(earlier);
                    break;
                }
                Some(Relation::Replaces) => {
                    replaced_by[earlier] = Some(later);
                    outdated.push((earlier, later));
                }
                None => {}
            }
        }
        for key in keys.into_iter().take(4 * KEYS) {
            postings.entry(key).or_default().push(later);
        }
    }
    // A value that a standing statement of the user names is not stale, unless that statement names it to take it back.
    let taken_back: HashSet<(usize, Key)> =
        outdated.iter().flat_map(|(earlier, later)| statements[*earlier].subject.values.iter().map(|v| (*later, v.norm))).collect();
    let held: HashSet<Key> = statements
        .iter()
        .enumerate()
        .filter(|(at, s)| s.speaker == Speaker::User && replaced_by[*at].is_none())
        .flat_map(|(at, s)| s.subject.values.iter().map(move |v| (at, v.norm)))
        .filter(|named| !taken_back.contains(named))
        .map(|(_, norm)| norm)
        .collect();
    for (earlier, _) in outdated {
        let subject = &statements[earlier].subject;
        for value in subject.values.iter().filter(|v| v.kind != Kind::Reference && !held.contains(&v.norm)) {
            stale.values.entry(value.norm).or_default().push(Outdated { value: value.clone(), subject: subject.words.clone() });
        }
    }
    Resolved { replaced_by, stale }
}

impl Stale {
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The stale values that `subject` names. A short number is everywhere, so it has to measure the same or stand by the same words.
    pub fn named_in(&self, subject: &Subject) -> Vec<Key> {
        if self.values.is_empty() {
            return Vec::new();
        }
        let mut named: Vec<Key> = subject.values.iter().filter(|value| self.is_stale(value, subject)).map(|value| value.norm).collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    fn is_stale(&self, value: &Value, subject: &Subject) -> bool {
        self.values.get(&value.norm).into_iter().flatten().any(|old| {
            let telling = if old.value.kind == Kind::Number { old.value.weight >= 4 } else { old.value.weight >= 5 };
            let measures = old.value.unit.is_some() && old.value.unit == value.unit;
            let near = |key: Key| key != 0 && (key == value.before || key == value.after);
            let shared = old.subject.iter().filter(|key| subject.has_word(**key)).count();
            telling || (measures && shared > 0) || near(old.value.before) || near(old.value.after) || shared >= 2
        })
    }
}

/// Nobody but the user takes the user's words back.
fn may_replace(earlier: &Statement, later: &Statement) -> bool {
    later.speaker == Speaker::User || earlier.speaker == Speaker::Assistant
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Relation {
    /// The later says the same again, or more.
    Same,
    /// The later says nothing that the earlier does not say.
    Contained,
    Replaces,
}

fn relation(earlier: &Statement, later: &Statement, rarity: &Rarity) -> Option<Relation> {
    let (old, new) = (&earlier.subject, &later.subject);
    let shared: Vec<Key> = old.words.iter().copied().filter(|key| new.has_word(*key)).collect();
    if shared.is_empty() {
        return None;
    }
    let (common, old_weight, new_weight) = (rarity.sum(&shared), rarity.sum(&old.words), rarity.sum(&new.words));
    let contained = common / old_weight.min(new_weight).max(f32::MIN_POSITIVE);
    let old_values: Vec<&Value> = old.values.iter().filter(|v| !new.has_value(v.norm)).collect();
    let new_values: Vec<&Value> = new.values.iter().filter(|v| !old.has_value(v.norm)).collect();
    let flipped = old.marks.negation != new.marks.negation;
    let contrast = contrasts(old, new);

    // A statement that names the old value beside a new one takes the old one back.
    let mentions = old.values.iter().any(|v| new.has_value(v.norm)) && !new_values.is_empty();
    let announced = new.marks.change || new.marks.retract;
    let swaps = mentions && (announced || new.marks.negation);
    if old_values.is_empty() && !swaps && !flipped && !contrast && common >= 0.8 * old_weight && old.question == new.question {
        return Some(Relation::Same);
    }
    if new_values.is_empty()
        && !flipped
        && !contrast
        && common >= 0.9 * new_weight
        && !new.marks.change
        && !new.marks.retract
        && earlier.speaker == later.speaker
    {
        return Some(Relation::Contained);
    }
    if new.question {
        return None;
    }
    let aligned = Alignment::of(old, new);
    let outgoing: Vec<&Value> = if swaps { old.values.iter().collect() } else { old_values.clone() };
    let match_strength = outgoing.iter().flat_map(|a| new_values.iter().map(|b| comparable(a, b))).fold(0.0, f32::max);

    if match_strength > 0.0 {
        if flipped && new.marks.negation && !swaps && !new.marks.retract {
            return None;
        }
        let entities = contrast || aligned.substituted || other_names(old, new);
        if entities && (contrast || !swaps) {
            return None;
        }
        // Two codes, or two numbers among several, are two things unless something says otherwise.
        let number = outgoing.iter().any(|a| a.kind == Kind::Number) && new_values.iter().any(|b| b.kind == Kind::Number);
        let predicate = old_values.iter().any(|a| a.last) && new_values.iter().any(|b| b.last);
        let evident = number || announced || swaps || (predicate && aligned.ratio >= 0.5);
        if !evident {
            return None;
        }
        if old_values.len() >= 2 && new_values.len() >= 2 && aligned.ratio >= 0.6 && !announced {
            return None;
        }
        let mut bar = 0.58;
        bar -= if new.marks.retract {
            0.16
        } else if new.marks.change {
            0.12
        } else {
            0.0
        };
        bar -= if swaps { 0.25 } else { 0.0 };
        bar -= if aligned.ratio >= 0.7 { 0.1 } else { 0.0 };
        bar += if new.marks.additive { 0.25 } else { 0.0 };
        bar += 0.12 * (1.0 - match_strength);
        return (contained >= bar).then_some(Relation::Replaces);
    }
    // No number changes: only a statement that takes something back, or the same sentence with another end, replaces.
    let jaccard = common / (old_weight + new_weight - common).max(f32::MIN_POSITIVE);
    if new.marks.additive || old.question {
        return None;
    }
    let turned = flipped && old.marks.negation && announced && contained >= 0.7;
    let alike = contained >= 0.6 || (aligned.ratio >= 0.5 && contained >= 0.38);
    let taken_back = new.marks.retract && alike && jaccard >= 0.22 && (old_values.is_empty() || contained >= 0.8) && new_weight > common;
    let reworded = new.marks.change && aligned.ratio >= 0.6 && contained >= 0.5 && aligned.substituted && aligned.substitutions == 1;
    (turned || taken_back || reworded).then_some(Relation::Replaces)
}

/// From 0, of different kinds, to 1, surely two values of the same quantity.
fn comparable(a: &Value, b: &Value) -> f32 {
    if a.kind != b.kind {
        return 0.0;
    }
    match (a.unit, b.unit) {
        (Some(x), Some(y)) if x == y => 1.0,
        (Some(_), Some(_)) => 0.0,
        (None, None) => {
            let beside = |x: Key, y: Key| x != 0 && x == y;
            if beside(a.before, b.before) || beside(a.after, b.after) || beside(a.before, b.after) || beside(a.after, b.before) {
                0.9
            } else {
                0.4
            }
        }
        _ => 0.3,
    }
}

/// Whether one names a thing and the other names what excludes it.
fn contrasts(old: &Subject, new: &Subject) -> bool {
    let only = |a: &Subject, b: &Subject| -> Vec<(u16, Key)> {
        a.contrasts.iter().copied().filter(|(_, key)| !b.contrasts.iter().any(|(_, k)| k == key)).collect()
    };
    let (old_only, new_only) = (only(old, new), only(new, old));
    old_only.iter().any(|(group, key)| new_only.iter().any(|(g, k)| g == group && k != key))
}

/// Whether both name something, and nothing they name is the same.
fn other_names(old: &Subject, new: &Subject) -> bool {
    let only = |a: &Subject, b: &Subject| a.names.iter().any(|key| !b.has_word(*key));
    only(old, new) && only(new, old) && !old.names.iter().any(|key| new.names.contains(key))
}

/// Two sentences laid beside one another.
struct Alignment {
    /// Share of tokens in the same order, values left out: near 1 for two fillings of one template.
    ratio: f32,
    /// Places where both have content words, and not the same.
    substitutions: usize,
    /// Such places in sentences that are alike otherwise: two things, not two wordings.
    substituted: bool,
}

impl Alignment {
    fn of(old: &Subject, new: &Subject) -> Self {
        let a = &old.tokens[..old.tokens.len().min(ALIGNED)];
        let b = &new.tokens[..new.tokens.len().min(ALIGNED)];
        let same = |x: &Token, y: &Token| x == y || matches!((x, y), (Token::Value(_), Token::Value(_)));
        let width = b.len() + 1;
        let mut longest = vec![0u16; (a.len() + 1) * width];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                longest[i * width + j] = if same(&a[i], &b[j]) {
                    longest[(i + 1) * width + j + 1] + 1
                } else {
                    longest[(i + 1) * width + j].max(longest[i * width + j + 1])
                };
            }
        }
        let ratio = 2.0 * f32::from(longest[0]) / (a.len() + b.len()).max(1) as f32;
        let (mut i, mut j, mut substitutions) = (0, 0, 0);
        let (mut left, mut right) = (false, false);
        let content = |token: &Token, other: &Subject| matches!(token, Token::Word(key) if !other.has_word(*key));
        while i < a.len() || j < b.len() {
            if i < a.len() && j < b.len() && same(&a[i], &b[j]) {
                substitutions += usize::from(left && right);
                (left, right) = (false, false);
                i += 1;
                j += 1;
            } else if j >= b.len() || (i < a.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1]) {
                left |= content(&a[i], new);
                i += 1;
            } else {
                right |= content(&b[j], old);
                j += 1;
            }
        }
        substitutions += usize::from(left && right);
        Alignment { ratio, substitutions, substituted: substitutions > 0 && ratio >= 0.55 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::statements::Statement;
    use super::*;

    fn fates(said: &[&str]) -> Vec<Option<usize>> {
        let filler = [
            "We looked at the import path and the docs.",
            "The parser reads every row of a table.",
            "Logs are written to standard output.",
            "The build takes a while on this box.",
            "Colours come from the theme file.",
            "A user may have several roles.",
        ];
        let statements: Vec<Statement> =
            filler.iter().chain(said).enumerate().map(|(place, text)| Statement::said(place, Speaker::User, *text)).collect();
        let rarity = Rarity::of(statements.iter().map(|s| &s.subject));
        let resolved = resolve(&statements, &rarity);
        resolved.replaced_by[filler.len()..].iter().map(|by| by.map(|at| at - filler.len())).collect()
    }

    #[test]
    fn an_update_replaces_what_it_supersedes() {
        let mut wrong = Vec::new();
        let mut check = |old: &str, new: &str| {
            if fates(&[old, new]) != [Some(1), None] {
                wrong.push(format!("{old} -> {new}"))
            }
        };
        check("The staging port is 8081.", "The staging port is 9090.");
        check("It should listen on port 8081.", "Correction: the port must be 9090, not 8081; operations gave me the wrong number.");
        check("Keep batches at most 500 rows.", "Let's cap the batch size to 250 rows.");
        check("API responses must stay under 200 ms.", "Relax the API latency: responses may take 350 ms now.");
        check("Retry the payment call at most 3 times.", "Actually, make that 5 retries for the payment call.");
        check("Use tabs for indentation.", "Use spaces for indentation instead.");
        check("Die Obergrenze für Anfragen liegt bei 100 pro Minute.", "Die Obergrenze für Anfragen liegt jetzt bei 250 pro Minute.");
        check("Le budget du projet est de 4000 euros.", "Finalement, le budget du projet passe à 5500 euros.");
        check("El límite de memoria es de 512 MB.", "Sube el límite de memoria a 768 MB.");
        check("单批最多处理500行。", "单批上限改为800行。");
        check("タイムアウトは30秒にしてください。", "タイムアウトを45秒に変更してください。");
        check("타임아웃은 30초로 해 주세요.", "타임아웃을 45초로 변경해 주세요.");
        check("Максимальный размер файла — 10 МБ.", "Теперь максимальный размер файла — 25 МБ.");
        check("O prazo do relatório é 12 de maio.", "O prazo do relatório mudou para 19 de maio.");
        check("Never push to main.", "You may push to main again now.");
        assert!(wrong.is_empty(), "not replaced: {wrong:#?}");
    }

    #[test]
    fn what_differs_in_an_entity_stays_apart() {
        let mut wrong = Vec::new();
        let mut check = |one: &str, other: &str| {
            if fates(&[one, other]) != [None, None] {
                wrong.push(format!("{one} | {other}"))
            }
        };
        check("The staging port is 8081.", "The production port is 9090.");
        check("Customer A gets 10 % off.", "Customer B gets 15 % off.");
        check("The EU limit is 500 orders a day.", "The US limit is 700 orders a day.");
        check("Use port 8081 for metrics.", "Use port 9090 for the admin page.");
        check("Order 1042 ships to Berlin.", "Order 1043 ships to Munich.");
        check("Staging must be backed up nightly.", "Production must be backed up nightly.");
        check("Der Testserver läuft auf Port 7001.", "Der Produktionsserver läuft auf Port 7002.");
        check("测试环境的端口是8081。", "生产环境的端口是9090。");
        check("ステージングのポートは8081です。", "本番のポートは9090です。");
        check("The limit is 5.", "Do not raise the limit to 10.");
        check("The README must stay in English.", "Now update the README.");
        check("Timeout for Redis: 20 seconds.", "Timeout for Postgres: 45 seconds.");
        check("The limit is 5.", "Should the limit be 8?");
        check("Never email Alice.", "Never email Bob.");
        assert!(wrong.is_empty(), "not kept apart: {wrong:#?}");
    }
}
