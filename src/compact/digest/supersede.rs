//! Which statement replaces which.
//!
//! A later statement about the same subject with another value replaces the earlier one. The same subject: most of what the earlier is
//! about, weighed by rarity, stands in the later too. Two statements that differ in an entity as well (staging and production, customer A
//! and B) speak of two things. Words that announce a change only lower the bar.

use std::collections::{HashMap, HashSet};

use super::alignment::Alignment;
use super::corrections::corrections;
use super::shorten;
use super::stale::Stale;
use super::statements::{Speaker, Statement};
use super::subjects::{Key, Rarity, Subject, Token, is_concept};
use super::values::{Kind, Value};

/// What became of each statement, and the values nobody holds any more.
pub(crate) struct Resolved {
    /// By index: the statement that took its place.
    pub replaced_by: Vec<Option<usize>>,
    /// Statements that stand but for a number, each with the one that says the new number.
    pub corrected: Vec<(usize, usize)>,
    /// Of the assistant: what it says contradicts the user, who let it stand.
    pub contradicts: HashSet<usize>,
    pub stale: Stale,
}

/// Keys looked up for a statement, statements looked at for each, and compared in full. They bound the work for a statement.
const KEYS: usize = 8;
const POSTINGS: usize = 32;
const COMPARED: usize = 16;
/// Keys under which a statement can be found.
const INDEXED: usize = 24;

pub(crate) fn resolve(statements: &[Statement], rarity: &Rarity) -> Resolved {
    let mut replaced_by: Vec<Option<usize>> = vec![None; statements.len()];
    let mut outdated: Vec<(usize, usize)> = Vec::new();
    let mut postings: HashMap<Key, Vec<usize>> = HashMap::new();
    let weighed: Vec<Weighed> = statements.iter().map(|s| Weighed::of(&s.subject, rarity)).collect();
    let mut met: Vec<usize> = Vec::new();
    let mut contradicts = HashSet::new();
    for (later, statement) in statements.iter().enumerate() {
        let keys = weighed[later].keys();
        met.clear();
        for key in keys.iter().take(KEYS) {
            met.extend(postings.get(key).into_iter().flatten().rev().take(POSTINGS).filter(|earlier| replaced_by[**earlier].is_none()));
        }
        let mut quantities: Vec<(f32, usize)> = Vec::new();
        for earlier in most_met(&mut met) {
            if !may_replace(&statements[earlier], statement) {
                if contradictory(&weighed[earlier], &weighed[later]) {
                    contradicts.insert(later);
                }
                continue;
            }
            match relation(&statements[earlier], statement, &weighed[earlier], &weighed[later]) {
                Some(Relation::Same) => replaced_by[earlier] = Some(later),
                Some(Relation::Contained) => {
                    replaced_by[later] = Some(earlier);
                    break;
                }
                Some(Relation::Replaces) => {
                    replaced_by[earlier] = Some(later);
                    outdated.push((earlier, later));
                }
                Some(Relation::Quantity(likeness)) => quantities.push((likeness, earlier)),
                None => {}
            }
        }
        if let [(_, earlier)] = quantities[..]
            && replaced_by[later].is_none()
        {
            replaced_by[earlier] = Some(later);
            outdated.push((earlier, later));
        }
        for key in keys {
            postings.entry(key).or_default().push(later);
        }
    }
    let mut corrected = corrections(statements);
    for at in 0..corrected.len() {
        let (earlier, later) = corrected[at];
        let again = corrected[at + 1..].iter().find(|next| next.0 == earlier).map(|next| next.1);
        // What replaces the statement, or corrects it again, replaces the correction.
        if let Some(newest) = again.or(replaced_by[earlier]).filter(|newest| *newest > later) {
            replaced_by[later].get_or_insert(newest);
            outdated.push((later, newest));
        }
    }
    let stale = Stale::of(statements, &replaced_by, &outdated, &corrected);
    corrected.retain(|(earlier, later)| replaced_by[*earlier].is_none() && replaced_by[*later].is_none());
    Resolved { replaced_by, corrected, contradicts, stale }
}

/// Whether the later names another value for something of the earlier.
fn contradictory(earlier: &Weighed, later: &Weighed) -> bool {
    const ALIKE: f32 = 0.3;
    let others = |old: &Value| later.subject.values.iter().any(|new| new.norm != old.norm && old.comparable(new) >= 0.9);
    let other = earlier.subject.values.iter().filter(|old| !later.subject.has_value(old.norm)).any(others);
    other && earlier.common(later) >= ALIKE * earlier.total && !contrasts(earlier.subject, later.subject)
}

/// The statements met most often, the newest first among equals.
fn most_met(met: &mut [usize]) -> Vec<usize> {
    met.sort_unstable();
    let mut times: Vec<(usize, usize)> = met.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    times.into_iter().take(COMPARED).map(|(_, at)| at).collect()
}

/// Nobody but the user takes the user's words back.
fn may_replace(earlier: &Statement, later: &Statement) -> bool {
    later.speaker == Speaker::User || earlier.speaker == Speaker::Assistant
}

/// A subject with the rarity of each of its words.
struct Weighed<'s> {
    subject: &'s Subject,
    weights: Vec<f32>,
    total: f32,
}

impl<'s> Weighed<'s> {
    fn of(subject: &'s Subject, rarity: &Rarity) -> Self {
        let weights: Vec<f32> = subject.words.iter().map(|key| rarity.weight(*key)).collect();
        Weighed { total: weights.iter().sum(), weights, subject }
    }

    /// What it is looked up by: values and names, then words, the rarest first.
    fn keys(&self) -> Vec<Key> {
        let mut words: Vec<(f32, Key)> = self.weights.iter().copied().zip(self.subject.words.iter().copied()).collect();
        words.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let values = self.subject.values.iter().map(|v| v.norm).take(KEYS / 4);
        let mut keys: Vec<Key> = values.chain(self.subject.names.iter().copied().take(KEYS / 4)).collect();
        for (_, key) in words {
            if !keys.contains(&key) {
                keys.push(key);
            }
            if keys.len() >= INDEXED {
                break;
            }
        }
        keys
    }

    /// The weight of the words that both have.
    fn common(&self, other: &Weighed) -> f32 {
        let (a, b) = (&self.subject.words, &other.subject.words);
        let (mut i, mut j, mut sum) = (0, 0, 0.0);
        while i < a.len() && j < b.len() {
            match a[i].cmp(&b[j]) {
                std::cmp::Ordering::Less => i += 1,
                std::cmp::Ordering::Greater => j += 1,
                std::cmp::Ordering::Equal => {
                    sum += self.weights[i];
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
        sum
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Relation {
    /// The later says the same again, or more.
    Same,
    /// The later says nothing that the earlier does not say.
    Contained,
    Replaces,
    /// Another value in the same unit for the same name, in other words. It replaces where it is the only one.
    Quantity(f32),
}

fn relation(earlier: &Statement, later: &Statement, old_weighed: &Weighed, new_weighed: &Weighed) -> Option<Relation> {
    let (old, new) = (&earlier.subject, &later.subject);
    let common = old_weighed.common(new_weighed);
    if common <= 0.0 {
        return None;
    }
    let of_old = common / old_weighed.total.max(f32::MIN_POSITIVE);
    let of_new = common / new_weighed.total.max(f32::MIN_POSITIVE);
    let old_values: Vec<&Value> = old.values.iter().filter(|v| !new.has_value(v.norm)).collect();
    let new_values: Vec<&Value> = new.values.iter().filter(|v| !old.has_value(v.norm)).collect();
    let flipped = old.marks.negation != new.marks.negation;
    let contrast = contrasts(old, new);
    let announced = new.marks.change || new.marks.retract;
    // A statement that names the old value beside a new one takes the old one back.
    let swaps = !new_values.is_empty() && old_values.len() < old.values.len() && (announced || new.marks.negation);

    if old_values.is_empty() && !swaps && !flipped && !contrast && of_old >= 0.8 && old.question == new.question {
        return Some(Relation::Same);
    }
    let echo = earlier.speaker == Speaker::User && later.speaker == Speaker::Assistant;
    let alone = if echo && !new.values.is_empty() { 0.6 } else { 0.9 };
    let heard = earlier.speaker == Speaker::User || later.speaker == Speaker::Assistant;
    if heard && new_values.is_empty() && !flipped && !contrast && of_new >= alone && !announced {
        return Some(Relation::Contained);
    }
    if new.question || new.marks.condition || echo {
        return None;
    }
    let outgoing: Vec<&Value> = if swaps { old.values.iter().collect() } else { old_values.clone() };
    let strength = outgoing.iter().flat_map(|a| new_values.iter().map(|b| a.comparable(b))).fold(0.0, f32::max);
    if strength == 0.0 {
        return reworded(old, new, of_old, of_new, old_values.is_empty(), contrast).then_some(Relation::Replaces);
    }
    if flipped && new.marks.negation && !swaps && !new.marks.retract && denied(&later.text, &new_values) {
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
    bar += if new.marks.additive { 0.25 } else { 0.0 };
    bar += 0.12 * (1.0 - strength);
    let likeness = 0.5 * of_old + 0.5 * of_old.max(of_new);
    let one_name = strength == 1.0 && of_one_name(old, new);
    // One new value, said to be one, for the one of its unit that there is.
    let news = new.words.iter().filter(|key| !old.has_word(**key)).count();
    let revised = new.marks.retract && strength == 1.0 && old_values.len() == 1 && new_values.len() == 1 && news <= 1;
    let revised = revised && !contrast && !other_names(old, new);
    let alone = (revised && likeness >= REVISED) || (one_name && !contrast && likeness >= NAMED);
    let quantity = alone && !new.marks.additive;
    // Laying them side by side is dear, and is not done where it could not tip the scales.
    const ALIKE: f32 = 0.1;
    if likeness < bar - ALIKE {
        return quantity.then_some(Relation::Quantity(likeness));
    }
    let aligned = Alignment::of(old, new);
    let entities = contrast || aligned.substituted(one_name) || other_names(old, new);
    if entities && (contrast || !swaps) {
        return None;
    }
    // Two codes or paths are two things unless something says otherwise, and so are several numbers at once.
    let kinds = |kind: Kind| outgoing.iter().any(|a| a.kind == kind) && new_values.iter().any(|b| b.kind == kind);
    let number = kinds(Kind::Number);
    let predicate = old_values.iter().any(|a| a.last) && new_values.iter().any(|b| b.last) && old.head.is_some() && aligned.ratio >= 0.5;
    if !(number || swaps || predicate || (announced && of_old >= 0.75)) {
        return None;
    }
    if old_values.len() >= 2 && new_values.len() >= 2 && aligned.ratio >= 0.6 && !announced {
        return None;
    }
    bar -= if aligned.ratio >= 0.7 { ALIKE } else { 0.0 };
    if likeness >= bar { Some(Relation::Replaces) } else { quantity.then_some(Relation::Quantity(likeness)) }
}

/// Whether a negation stands in every clause that names one of the values: "do not raise it to 10".
fn denied(text: &str, values: &[&Value]) -> bool {
    let clauses = shorten::clauses(text).into_iter().map(Subject::of);
    clauses.filter(|clause| values.iter().any(|v| clause.has_value(v.norm))).all(|clause| clause.marks.negation)
}

/// No number changes: only a statement that takes something back, or says something else of the very same thing, replaces.
fn reworded(old: &Subject, new: &Subject, of_old: f32, of_new: f32, no_value_lost: bool, contrast: bool) -> bool {
    if new.marks.additive || old.question {
        return false;
    }
    let most = of_old.max(of_new);
    let announced = new.marks.change || new.marks.retract;
    if predicated(old, new) {
        return true;
    }
    if !announced || most < 0.38 || of_old < 0.35 {
        return false;
    }
    let aligned = Alignment::of(old, new);
    let turned = old.marks.negation && !new.marks.negation && new.marks.permission && of_old >= 0.7;
    let alike = most >= 0.6 || (aligned.ratio >= 0.5 && most >= 0.38);
    let taken_back = new.marks.retract && alike && (no_value_lost || of_old >= 0.8) && of_new < 1.0;
    let other_end = new.marks.change && aligned.substituted(false) && aligned.substitutions == 1 && of_old >= 0.5 && !contrast;
    turned || taken_back || other_end
}

/// Content tokens after "is" or a colon that make a value of words.
const PREDICATE: usize = 6;

/// "The reviewer on call is Ann", then "The reviewer on call is Ben".
fn predicated(old: &Subject, new: &Subject) -> bool {
    let (Some(old_head), Some(new_head)) = (old.head, new.head) else { return false };
    let content = |tokens: &[Token]| -> Vec<Token> { tokens.iter().copied().filter(|t| !matches!(t, Token::Stop(_))).collect() };
    let (old_subject, old_value) = (content(&old.tokens[..old_head]), content(&old.tokens[old_head..]));
    let (new_subject, new_value) = (content(&new.tokens[..new_head]), content(&new.tokens[new_head..]));
    let plain = |s: &Subject| !s.marks.negation && s.marks.binding == 0;
    let short = |value: &[Token]| (1..=PREDICATE).contains(&value.len());
    let other = old_value.iter().any(|t| !new_value.contains(t)) && new_value.iter().any(|t| !old_value.contains(t));
    let same_subject =
        old_subject.len() >= 2 && old_subject.iter().all(|t| new_subject.contains(t)) && new_subject.len() <= old_subject.len() + 2;
    let qualified = new.names.iter().any(|name| new_subject.contains(&Token::Word(*name)) && !old_subject.contains(&Token::Word(*name)));
    plain(old) && plain(new) && short(&old_value) && short(&new_value) && other && same_subject && !qualified
}

/// How alike two sentences have to be where a name and a unit say already that they speak of one thing.
const NAMED: f32 = 0.1;

/// And where a unit does, and the later takes something back.
const REVISED: f32 = 0.25;

/// Whether both speak of one name, and not of two attributes of it.
fn of_one_name(old: &Subject, new: &Subject) -> bool {
    if !old.names.iter().any(|key| new.names.contains(key)) || other_names(old, new) {
        return false;
    }
    let concepts = |a: &Subject| -> Vec<Key> { a.words.iter().copied().filter(|key| is_concept(*key)).collect() };
    let (old_concepts, new_concepts) = (concepts(old), concepts(new));
    if old_concepts.iter().any(|key| new_concepts.contains(key)) || new_concepts.is_empty() {
        return true;
    }
    // The later names an attribute. The earlier has to leave open which it speaks of.
    old_concepts.is_empty() && old.words.iter().all(|key| new.has_word(*key))
}

/// Whether one names a thing and the other names what excludes it.
fn contrasts(old: &Subject, new: &Subject) -> bool {
    let only = |a: &Subject, b: &Subject| -> Vec<(u16, Key)> {
        a.contrasts.iter().copied().filter(|(_, key)| !b.contrasts.iter().any(|(_, k)| k == key)).collect()
    };
    let (old_only, new_only) = (only(old, new), only(new, old));
    old_only.iter().any(|(group, key)| new_only.iter().any(|(g, k)| g == group && k != key))
}

/// Whether each names something that the other does not. On one side a word that only may be a name is enough.
fn other_names(old: &Subject, new: &Subject) -> bool {
    let named = |a: &Subject, b: &Subject| a.names.iter().any(|key| !b.has_word(*key));
    let maybe = |a: &Subject, b: &Subject| a.capitals.iter().any(|key| !b.has_word(*key));
    match (named(old, new), named(new, old)) {
        (true, true) => true,
        (true, false) => maybe(new, old),
        (false, true) => maybe(old, new),
        (false, false) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::names;
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
        let mut statements: Vec<Statement> =
            filler.iter().chain(said).enumerate().map(|(place, text)| Statement::said(place, Speaker::User, *text)).collect();
        names::share(&mut statements);
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
        check("Opening day is the 3rd of May.", "The mayor can't make it, so opening day is the 17th of May.");
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
        check("The reviewer on call is Ann.", "The reviewer on call is Ben.");
        check("Sitzungen bleiben 57 Minuten offen.", "Bei den Sitzungen doch lieber 87 Minuten.");
        check("Colour of the header: light blue.", "Colour of the header: sea green.");
        check("El turno de noche es de Marta.", "El turno de noche es de Luis.");
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
        check("API responses must stay under 200 ms.", "The API connect retry delay is 350 ms.");
        check("Never email Alice.", "Never email Bob.");
        check("Add tests for the reader.", "Add tests for the writer.");
        check("The billing report is late.", "The shipping report is late.");
        check("Rule: never delete a branch.", "Rule: never rename a branch.");
        check("I'm willing to pay up to $600 for the business class upgrades.", "I'm willing to pay a change fee if needed, up to $100.");
        check("Please read src/main.rs in full.", "Move src/config.rs to the root, read it in full.");
        assert!(wrong.is_empty(), "not kept apart: {wrong:#?}");
    }
}
