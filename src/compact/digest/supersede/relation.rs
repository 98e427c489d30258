//! What a later statement is to an earlier one.

use super::weighed::Weighed;
use crate::compact::digest::alignment::Alignment;
use crate::compact::digest::shorten;
use crate::compact::digest::statements::{Speaker, Statement};
use crate::compact::digest::subjects::{Key, Subject, Token, concept_key, is_concept};
use crate::compact::digest::values::{Kind, Value};
use crate::compact::digest::words::words;

/// The later to the earlier.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Relation {
    /// The later says the same again, or more.
    Same,
    /// The later says nothing that the earlier does not say.
    Contained,
    Replaces,
    /// Another value in the same unit for the same name, in other words. It replaces where it is the only one.
    Quantity(f32),
}

/// How alike two sentences have to be where a name and a unit say already that they speak of one thing.
const NAMED: f32 = 0.1;

/// And where a unit does, and the later takes something back.
const REVISED: f32 = 0.25;

pub fn relation(earlier: &Statement, later: &Statement, old_weighed: &Weighed, new_weighed: &Weighed) -> Option<Relation> {
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
    // "Never change this" announces nothing beside "never change that": a word that both have is part of what they say.
    let (changes, retracts) = (new.marks.change && !old.marks.change, new.marks.retract && !old.marks.retract);
    let announced = changes || retracts;
    // A statement that names the old value beside a new one takes the old one back.
    let swaps = !new_values.is_empty() && old_values.len() < old.values.len() && (announced || new.marks.negation);

    if !announced && (forbids_less(old, new) || of_another(old, new, &old_values)) {
        return None;
    }
    if !retracts && !swaps && numbered(&old_values, &new_values) {
        return None;
    }
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
    let agreed =
        strength == 1.0 && old_values.len() == 1 && new_values.len() == 1 && !contrast && agreed(old, new) && !other_names(old, new);
    let alone = (revised && likeness >= REVISED) || agreed || (one_name && !contrast && likeness >= NAMED);
    let quantity = alone && !new.marks.additive;
    // Laying them side by side is dear, and is not done where it could not tip the scales.
    const ALIKE: f32 = 0.1;
    if likeness < bar - ALIKE {
        return quantity.then_some(Relation::Quantity(likeness));
    }
    let aligned = Alignment::of(old, new);
    let apart = contrast || other_names(old, new) || numbered_apart(old, new);
    if (apart || aligned.substituted(one_name)) && (contrast || !swaps) {
        // Where something is taken back of what the earlier speaks of, the one word that differs is how it is said.
        return (quantity && revised && !apart && spoken_of(old, new)).then_some(Relation::Quantity(likeness));
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

/// Whether a prohibition says something that the later one does not forbid: in these the verb counts as much as its object. How much is forbidden may
/// change; what is forbidden on one day is not what is on another.
fn forbids_less(old: &Subject, new: &Subject) -> bool {
    let date = words().dimension("date");
    let amount = |token: &Token| {
        let of = |value: &Value| value.kind == Kind::Number && value.unit != date && *token == Token::Value(value.norm);
        old.values.iter().any(of)
    };
    old.marks.negation && new.marks.negation && !old.tokens.iter().all(|token| amount(token) || new.tokens.contains(token))
}

/// Whether both are rules, and the numbers of the earlier that are not in the later name things, "issue 118", rather than how much of them.
fn of_another(old: &Subject, new: &Subject, old_values: &[&Value]) -> bool {
    let rules = |subject: &Subject| subject.marks.negation || subject.marks.binding > 0;
    let is_word = |token: Option<&Token>| matches!(token, Some(Token::Word(_)));
    let behind_a_name = |norm: Key| {
        let at = old.tokens.iter().position(|token| *token == Token::Value(norm));
        // Where no spaces stand, what is counted follows at once: "31杯".
        at.is_some_and(|at| at > 0 && is_word(old.tokens.get(at - 1)) && !(old.unspaced && is_word(old.tokens.get(at + 1))))
    };
    let name = |value: &&Value| value.unit.is_none() && behind_a_name(value.norm);
    rules(old) && rules(new) && !old_values.is_empty() && old_values.iter().all(name)
}

/// Whether each names a thing by a number that the other does not name: "question 4" and "question 9". "Now" may say what comes next.
fn numbered(old_values: &[&Value], new_values: &[&Value]) -> bool {
    old_values.iter().any(|value| value.which) && new_values.iter().any(|value| value.which)
}

/// Words beside a value that may be what it is said of; in a script without spaces these are pairs of characters.
const BESIDE: [usize; 2] = [1, 3];

/// Whether the later says that somebody agrees to a value for what the earlier speaks of in the first place, and neither names an attribute
/// that the other does not: "The canary gets 5 %", then "They are comfortable with 15 % for the canary".
fn agreed(old: &Subject, new: &Subject) -> bool {
    if !new.marks.consent || old.marks.consent {
        return false;
    }
    let near = BESIDE[usize::from(new.unspaced)];
    let beside = new.tokens.iter().position(|token| matches!(token, Token::Value(_))).is_some_and(|at| {
        let before = new.tokens[..at].iter().rev().filter_map(word).take(near);
        before.chain(new.tokens[at..].iter().filter_map(word).take(near)).any(|key| old.has_word(key))
    });
    let consent = words().look_up("approval").concept.map(concept_key);
    let other = |a: &Subject, b: &Subject| a.words.iter().any(|key| is_concept(*key) && !b.has_word(*key) && Some(*key) != consent);
    spoken_of(old, new) && beside && !other(old, new) && !other(new, old)
}

/// Whether the later names what the earlier speaks of in the first place.
fn spoken_of(old: &Subject, new: &Subject) -> bool {
    old.tokens.iter().find_map(word).is_some_and(|key| new.has_word(key))
}

fn word(token: &Token) -> Option<Key> {
    if let Token::Word(key) = token { Some(*key) } else { None }
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
pub fn contrasts(old: &Subject, new: &Subject) -> bool {
    let only = |a: &Subject, b: &Subject| -> Vec<(u16, Key)> {
        a.contrasts.iter().copied().filter(|(_, key)| !b.contrasts.iter().any(|(_, k)| k == key)).collect()
    };
    let (old_only, new_only) = (only(old, new), only(new, old));
    old_only.iter().any(|(group, key)| new_only.iter().any(|(g, k)| g == group && k != key))
}

/// Whether what is spoken of has a number, and another or none in the other: "Machine two is at 40".
fn numbered_apart(old: &Subject, new: &Subject) -> bool {
    let value = |token: &Token| if let Token::Value(norm) = token { Some(*norm) } else { None };
    let numbers = |s: &Subject| -> Option<Vec<Key>> {
        let (spoken_of, said) = s.tokens.split_at(s.head?);
        said.iter().any(|token| value(token).is_some()).then(|| spoken_of.iter().filter_map(value).collect())
    };
    numbers(old).zip(numbers(new)).is_some_and(|(old, new)| old != new)
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
