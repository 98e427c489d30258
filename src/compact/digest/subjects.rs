//! What a sentence is about: its content words, names and values, comparable across wordings.
//!
//! Words are compared by a short stem, or by the concept that several words of several languages share; scripts without spaces by pairs
//! of characters. Values are numbers, codes, versions, dates and addresses, each with what it measures where the sentence says so.

use std::collections::HashMap;

use super::words::{Dimension, Marks, spaceless, words};

/// A word, name, pair of characters or value, by hash.
pub(crate) type Key = u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Number,
    /// Letters and digits: `HAT136`, `OPS-411`, `v1.2.3`, a hash, a date. Two of them are two things more often than two values of one.
    Code,
    /// A path, URL or address.
    Reference,
}

#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub norm: Key,
    pub kind: Kind,
    /// Digits of a number, characters of anything else.
    pub weight: u8,
    pub unit: Option<Dimension>,
    /// The content words beside it.
    pub before: Key,
    pub after: Key,
    /// Whether anything but its unit follows it in the sentence.
    pub last: bool,
}

/// One token of the sentence in order; `content` words and values carry the subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Stop(Key),
    Word(Key),
    Value(Key),
}

/// At most this many tokens of a sentence are looked at: beyond, it is a document.
const TOKENS: usize = 160;

#[derive(Default, Debug)]
pub(crate) struct Subject {
    pub tokens: Vec<Token>,
    /// Content words, sorted, without repeats.
    pub words: Vec<Key>,
    /// Those of them that look like names: capitals inside the sentence, snake_case, single letters and short labels.
    pub names: Vec<Key>,
    pub values: Vec<Value>,
    /// Words that exclude others, with their group.
    pub contrasts: Vec<(u16, Key)>,
    pub marks: Marks,
    pub question: bool,
    /// Nothing but acknowledgement.
    pub filler: bool,
}

impl Subject {
    pub fn of(text: &str) -> Self {
        let lower = text.to_lowercase();
        let mut reader =
            Reader { subject: Subject { marks: words().marks(&lower), ..Subject::default() }, empty: true, ..Reader::default() };
        reader.read(text);
        reader.spaceless_names(&lower);
        reader.finish(text, &lower)
    }

    pub fn has_value(&self, norm: Key) -> bool {
        self.values.iter().any(|v| v.norm == norm)
    }

    pub fn has_word(&self, key: Key) -> bool {
        self.words.binary_search(&key).is_ok()
    }
}

/// How much a word tells: rare words of a conversation say what a sentence is about.
pub(crate) struct Rarity {
    seen: HashMap<Key, u32>,
    sentences: u32,
}

impl Rarity {
    pub fn of<'s>(subjects: impl Iterator<Item = &'s Subject>) -> Self {
        let mut rarity = Rarity { seen: HashMap::new(), sentences: 0 };
        for subject in subjects {
            rarity.sentences += 1;
            for key in &subject.words {
                *rarity.seen.entry(*key).or_default() += 1;
            }
        }
        rarity
    }

    pub fn weight(&self, key: Key) -> f32 {
        let seen = self.seen.get(&key).copied().unwrap_or(0) as f32;
        ((self.sentences as f32 + 1.5) / (seen + 0.5)).ln().max(0.05)
    }

    pub fn seen(&self, key: Key) -> u32 {
        self.seen.get(&key).copied().unwrap_or(0)
    }

    pub fn sum(&self, keys: &[Key]) -> f32 {
        keys.iter().map(|key| self.weight(*key)).sum()
    }
}

pub(crate) fn hash(text: &str) -> Key {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn concept_key(number: u16) -> Key {
    0xC0DE_0000_0000_0000 | u64::from(number)
}

/// Inflection lies in endings, so the beginning of a word stands for it.
fn stem(word: &str) -> Key {
    if let Some(number) = words().concept(word) {
        return concept_key(number);
    }
    let plain = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
    let plain = if plain.len() > 3 { plain.strip_suffix('s').unwrap_or(plain) } else { plain };
    let end = plain.char_indices().nth(6).map_or(plain.len(), |(at, _)| at);
    hash(&plain[..end])
}

#[derive(Default)]
struct Reader {
    subject: Subject,
    empty: bool,
    last_word: Key,
    waiting: Option<usize>,
}

impl Reader {
    fn read(&mut self, text: &str) {
        let mut chars = text.char_indices().peekable();
        let mut first = true;
        while let Some(&(start, c)) = chars.peek() {
            if self.subject.tokens.len() >= TOKENS {
                return;
            }
            if spaceless(c) {
                let mut end = start;
                while let Some(&(at, c)) = chars.peek() {
                    if !spaceless(c) {
                        break;
                    }
                    end = at + c.len_utf8();
                    chars.next();
                }
                self.run(&text[start..end]);
                first = false;
            } else if c.is_alphanumeric() || opens(c, text[start + c.len_utf8()..].chars().next()) {
                let end = token_end(text, start);
                while chars.peek().is_some_and(|(at, _)| *at < end) {
                    chars.next();
                }
                self.token(&text[start..end], first);
                first = false;
            } else {
                // A new clause may begin with a capital that names nothing.
                first |= matches!(c, ':' | '.' | '!' | '?' | '"' | '“' | '(' | '\n');
                chars.next();
            }
        }
    }

    /// A run of a script without spaces: its pairs of characters. A unit may stand at its head, after a number.
    fn run(&mut self, run: &str) {
        let mut rest = run;
        if let Some(waiting) = self.waiting.take() {
            let ends = run.char_indices().skip(1).map(|(at, _)| at).chain([run.len()]);
            let unit = ends.take(3).filter_map(|end| words().unit(&run[..end]).map(|unit| (unit, end))).last();
            if let Some((unit, end)) = unit {
                self.subject.values[waiting].unit = Some(unit);
                rest = &run[end..];
            }
            if let Some(c) = rest.chars().next() {
                self.subject.values[waiting].after = hash(c.encode_utf8(&mut [0; 4]));
            }
        }
        let known = words();
        if !known.is_filler(run) {
            self.empty = false;
        }
        let mut before: Option<char> = None;
        let mut paired = false;
        let mut buffer = String::with_capacity(8);
        for c in rest.chars() {
            if known.is_stop_char(c) {
                if let (Some(single), false) = (before, paired) {
                    self.word(hash(single.encode_utf8(&mut [0; 4])));
                }
                self.subject.tokens.push(Token::Stop(hash(c.encode_utf8(&mut [0; 4]))));
                (before, paired) = (None, false);
                continue;
            }
            if let Some(previous) = before {
                buffer.clear();
                buffer.push(previous);
                buffer.push(c);
                self.word(hash(&buffer));
                paired = true;
            }
            before = Some(c);
            if self.subject.tokens.len() >= TOKENS {
                return;
            }
        }
        if let (Some(single), false) = (before, paired) {
            self.word(hash(single.encode_utf8(&mut [0; 4])));
        }
    }

    fn word(&mut self, key: Key) {
        self.subject.tokens.push(Token::Word(key));
        self.subject.words.push(key);
        self.last_word = key;
        if let Some(waiting) = self.waiting.take() {
            self.subject.values[waiting].after = key;
        }
    }

    fn token(&mut self, token: &str, first: bool) {
        let token = token.trim_end_matches(['.', ',', ':', ';', '!', '?', '-', '/', '\'', '’']);
        if token.is_empty() {
            return;
        }
        let known = words();
        let lower = token.to_lowercase();
        if let Some(value) = self.value(token, &lower) {
            self.empty = false;
            self.waiting = (value.kind == Kind::Number && value.unit.is_none()).then_some(self.subject.values.len());
            self.subject.tokens.push(Token::Value(value.norm));
            if value.kind != Kind::Number {
                self.last_word = value.norm;
            }
            self.subject.values.push(value);
            return;
        }
        if let (Some(waiting), Some(unit)) = (self.waiting, known.unit(&lower)) {
            self.waiting = None;
            self.subject.values[waiting].unit = Some(unit);
            self.subject.tokens.push(Token::Stop(hash(&lower)));
            return;
        }
        if !known.is_filler(&lower) {
            self.empty &= known.is_stop(&lower);
        }
        let single = token.chars().count() == 1;
        let capital = token.chars().next().is_some_and(char::is_uppercase);
        // "the US limit" speaks of a country, "let us limit" of us.
        let acronym = (2..=5).contains(&token.len()) && token.chars().all(char::is_uppercase);
        if known.is_stop(&lower) && !(single && capital && !first) && !acronym {
            self.subject.tokens.push(Token::Stop(hash(&lower)));
            return;
        }
        let key = stem(&lower);
        for group in known.contrasts(&lower) {
            self.subject.contrasts.push((*group, key));
        }
        let label = single && (capital || token.chars().all(|c| c.is_ascii_digit()));
        let coined = token.contains('_') || token.chars().skip(1).any(char::is_uppercase);
        if label || coined || acronym || (capital && !first) || token.chars().any(|c| c.is_ascii_digit()) {
            self.subject.names.push(key);
        }
        self.word(key);
    }

    fn value(&self, token: &str, lower: &str) -> Option<Value> {
        let digits = token.bytes().filter(u8::is_ascii_digit).count();
        let mut value = Value {
            norm: hash(lower),
            kind: Kind::Code,
            weight: token.len().min(255) as u8,
            unit: None,
            before: self.last_word,
            after: 0,
            last: false,
        };
        let separators = token.contains('/') || token.contains('\\') || token.contains('@');
        if digits == 0 {
            let dotted = token.split('.').count() > 1 && token.split('.').all(|p| !p.is_empty()) && token.len() > 3;
            let reference = (separators && token.len() > 3 && !token.starts_with('@')) || dotted;
            return reference.then_some(Value { kind: Kind::Reference, ..value });
        }
        let unsigned = token.trim_start_matches(['+', '-', '~', '<', '>', '=', '#']);
        let amount = unsigned.trim_start_matches(|c: char| !c.is_ascii_digit());
        let prefix = &unsigned[..unsigned.len() - amount.len()];
        let number_end = amount.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',' || c == '\'')).unwrap_or(amount.len());
        let (number, suffix) = amount.split_at(number_end);
        let known = words();
        let prefixed = known.unit(&prefix.to_lowercase());
        let suffixed = known.unit(&suffix.to_lowercase());
        let plain = (prefix.is_empty() || prefixed.is_some())
            && (suffix.is_empty() || suffixed.is_some() || matches!(suffix, "k" | "K" | "m" | "M" | "x"));
        if plain && number.matches('.').count() <= 1 && !token.starts_with('#') {
            let canonical = canonical(number);
            let scaled = match suffix {
                "k" | "K" => format!("{canonical}000"),
                _ => canonical,
            };
            value.weight = scaled.bytes().filter(u8::is_ascii_digit).count().min(255) as u8;
            return Some(Value { norm: hash(&scaled), kind: Kind::Number, unit: prefixed.or(suffixed), ..value });
        }
        if separators || token.contains("://") {
            return Some(Value { kind: Kind::Reference, ..value });
        }
        // "p95", "s3" and "utf8" are words that hold a digit.
        if digits < 3
            && token.len() <= 5
            && token.chars().next().is_some_and(char::is_alphabetic)
            && !token.contains('.')
            && !token.contains('-')
        {
            return None;
        }
        Some(value)
    }

    /// Concepts and contrasts of scripts without word borders.
    fn spaceless_names(&mut self, lower: &str) {
        if !lower.chars().any(spaceless) {
            return;
        }
        for (word, concept, groups) in words().spaceless_named(lower) {
            if let Some(number) = concept {
                self.subject.words.push(concept_key(number));
            }
            self.subject.contrasts.extend(groups.iter().map(|group| (*group, hash(word))));
        }
    }

    fn finish(self, text: &str, lower: &str) -> Subject {
        let mut subject = self.subject;
        subject.words.sort_unstable();
        subject.words.dedup();
        subject.names.sort_unstable();
        subject.names.dedup();
        subject.contrasts.sort_unstable();
        subject.contrasts.dedup();
        let last_content = subject.tokens.iter().rposition(|t| !matches!(t, Token::Stop(_)));
        if let (Some(last), Some(value)) = (last_content, subject.values.last_mut()) {
            value.last = subject.tokens[last] == Token::Value(value.norm);
        }
        subject.question = text.trim_end_matches(['"', '\'', ')', '”', '*', ' ']).ends_with(['?', '？', '؟']) || asks_in_words(lower);
        subject.filler = self.empty || words().is_filler(lower.trim_matches(|c: char| !c.is_alphanumeric()));
        subject
    }
}

/// Chinese, Japanese and Korean questions that end without a question mark.
fn asks_in_words(lower: &str) -> bool {
    let end = lower.trim_end_matches(['。', '.', ' ']);
    ["吗", "呢", "ですか", "ますか", "でしょうか", "습니까", "나요", "까요"].iter().any(|particle| end.ends_with(particle))
}

/// "1,000", "1.000" and "1000" are one number; "0.50" is "0.5".
fn canonical(number: &str) -> String {
    let groups: Vec<&str> = number.split([',', '.', '\'']).collect();
    let grouped = groups.len() > 1 && groups[0].len() <= 3 && groups[0] != "0" && groups[1..].iter().all(|g| g.len() == 3);
    if grouped {
        return groups.concat();
    }
    let plain = number.replace(',', ".");
    if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.').to_owned() } else { plain }
}

fn opens(c: char, next: Option<char>) -> bool {
    let follows = |wanted: fn(char) -> bool| next.is_some_and(wanted);
    match c {
        '#' | '$' | '€' | '£' | '¥' | '₩' | '₽' | '₹' | '-' => follows(|n| n.is_ascii_alphanumeric() || n == '-'),
        '/' | '~' | '.' | '@' => follows(|n| n.is_alphanumeric() || n == '/' || n == '.'),
        _ => false,
    }
}

fn token_end(text: &str, start: usize) -> usize {
    let rest = &text[start..];
    if rest.starts_with("http://") || rest.starts_with("https://") {
        return start
            + rest
                .find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '\'' | ')' | ']' | '`') || spaceless(c))
                .unwrap_or(rest.len());
    }
    let mut chars = rest.char_indices().peekable();
    let mut end = 0;
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, n)| *n);
        let inside = !spaceless(c) && (c.is_alphanumeric() || (end == 0) || matches!(c, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{dff}'))
            || (matches!(c, '.' | '_' | '-' | '/' | ':' | '@' | '#' | '%' | '&' | '=' | '+' | '~' | '\'' | '’' | '\\' | '$')
                && next.is_some_and(|n| (n.is_alphanumeric() && !spaceless(n)) || matches!(n, '/' | '_' | '-' | '.' | '~')))
            || (c == ','
                && rest[..at].ends_with(|p: char| p.is_ascii_digit())
                && rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count() == 3)
            || (matches!(c, '%' | '€' | '$' | '£' | '_') && end > 0);
        if !inside || at > 400 {
            break;
        }
        end = at + c.len_utf8();
    }
    start + end.max(rest.chars().next().map_or(0, char::len_utf8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_with_what_they_measure() {
        let check =
            |text: &str, expected: usize| assert_eq!(Subject::of(text).values.len(), expected, "{text}: {:?}", Subject::of(text).values);
        check("Listen on port 8081.", 1);
        check("Keep it under 200 ms, at most 5 retries", 2);
        check("Pay $1,000 or 30%", 2);
        check("单批最多500行", 1);
        check("See src/db/pool.rs and https://a.b/c?d=1", 2);
        check("Nothing here", 0);
    }

    #[test]
    fn numbers_in_any_spelling_are_the_same_number() {
        let norm = |text: &str| Subject::of(text).values[0].norm;
        assert_eq!(norm("1,000 rows"), norm("1000 rows"));
        assert_eq!(norm("1.000 Zeilen"), norm("1000"));
        assert_eq!(norm("200ms"), norm("200 ms"));
        assert_ne!(norm("1.5 s"), norm("15 s"));
    }

    #[test]
    fn acknowledgements_are_filler_in_any_language() {
        for text in [
            "ok, thanks!",
            "Yes, please continue.",
            "好的，继续",
            "はい、お願いします",
            "네, 계속하세요",
            "Danke, weiter so",
            "Parfait, merci",
            "да, продолжай",
        ] {
            assert!(Subject::of(text).filler, "{text}");
        }
        for text in ["ok, but use tabs", "端口是80", "Never push", "Nein, nimm Postgres"] {
            assert!(!Subject::of(text).filler, "{text}");
        }
    }
}
