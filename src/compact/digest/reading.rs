//! A sentence read token by token into its subject.

use super::lists::Languages;
use super::naming::{Naming, Noun};
use super::phrases;
use super::subjects::{Key, Subject, TOKENS, Token, concept_key, hash, is_concept, stem};
use super::values::{Kind, Value, opens, token_end};
use super::words::{spaceless, words};

pub(crate) fn read(text: &str) -> Subject {
    let lower = text.to_lowercase();
    let languages = words().languages(&lower);
    let marks = phrases::marks(&lower, languages);
    let mut reader = Reader {
        subject: Subject { marks, unspaced: lower.chars().any(spaceless), ..Subject::default() },
        languages,
        nouns: words().capitalises(languages),
        empty: true,
        ..Reader::default()
    };
    reader.read(text);
    reader.phrases(&lower);
    reader.finish(text, &lower)
}

/// Bytes of the part of a verb that may stand apart from it.
const SEPARATED: usize = 4;

#[derive(Default)]
struct Reader<'t> {
    subject: Subject,
    languages: Languages,
    /// Every noun has a capital.
    nouns: bool,
    empty: bool,
    last_word: Key,
    waiting: Option<usize>,
    naming: Naming<'t>,
}

impl<'t> Reader<'t> {
    fn read(&mut self, text: &'t str) {
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
                if matches!(c, ':' | '：' | '—') && self.subject.head.is_none() && !self.subject.tokens.is_empty() {
                    self.subject.head = Some(self.subject.tokens.len());
                }
                if matches!(c, '%' | '€' | '£') {
                    self.sign(c);
                } else if !(c.is_whitespace() || matches!(c, '#' | '№' | '*' | '`')) {
                    self.naming.pause(&mut self.subject.values);
                }
                // A new clause may begin with a capital that names nothing.
                first |= matches!(c, ':' | '.' | '!' | '?' | '"' | '“' | '(' | '\n');
                chars.next();
            }
        }
    }

    /// A run of a script without spaces: its pairs of characters. A unit may stand at its head, after a number.
    fn run(&mut self, run: &'t str) {
        let mut rest = run;
        if let Some(waiting) = self.waiting.take() {
            let ends = run.char_indices().skip(1).map(|(at, _)| at).chain([run.len()]);
            let unit = ends.take(3).filter_map(|end| words().look_up(&run[..end]).unit.map(|unit| (unit, end))).last();
            if let Some((unit, end)) = unit {
                self.subject.values[waiting].unit = Some(unit);
                rest = &run[end..];
            }
            if let Some(c) = rest.chars().next() {
                self.subject.values[waiting].after = hash(c.encode_utf8(&mut [0; 4]));
            }
        }
        self.naming.run(run, &mut self.subject.values);
        let known = words();
        if !known.look_up(run).filler {
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
                let mut bytes = [0; 4];
                let single = c.encode_utf8(&mut bytes);
                self.subject.tokens.push(Token::Stop(hash(single)));
                if known.look_up(single).links && self.subject.head.is_none() {
                    self.subject.head = Some(self.subject.tokens.len());
                }
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

    /// A unit that is a sign, apart from its number.
    fn sign(&mut self, sign: char) {
        if let Some(waiting) = self.waiting.take() {
            self.subject.values[waiting].unit = words().look_up(sign.encode_utf8(&mut [0; 4])).unit;
            self.naming.unit(&mut self.subject.values);
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

    /// A name is no attribute: what a value measures is told by the word before the name.
    fn name(&mut self, key: Key) {
        let before = self.last_word;
        self.word(key);
        self.last_word = before;
    }

    fn token(&mut self, token: &str, first: bool) {
        let token = token.trim_end_matches(['.', ',', ':', ';', '!', '?', '-', '/', '\'', '’']);
        if token.is_empty() {
            return;
        }
        // "job 3's timeout".
        let owner = token
            .strip_suffix("'s")
            .or(token.strip_suffix("’s"))
            .filter(|owner| !owner.is_empty() && owner.bytes().all(|b| b.is_ascii_digit()));
        let token = owner.unwrap_or(token);
        let lower = token.to_lowercase();
        let known = words().look_up(&lower);
        if let Some(mut value) = Value::read(token, &lower, known) {
            value.before = self.last_word;
            self.empty = false;
            self.waiting = (value.kind == Kind::Number && value.unit.is_none()).then_some(self.subject.values.len());
            self.subject.tokens.push(Token::Value(value.norm));
            if value.kind != Kind::Number {
                self.last_word = value.norm;
            }
            // A path is what a sentence is about as much as it is a value.
            if value.kind == Kind::Reference {
                self.subject.words.push(value.norm);
            }
            self.subject.values.push(value);
            self.naming.value(token, &mut self.subject.values);
            return;
        }
        if let (Some(waiting), Some(unit)) = (self.waiting, known.unit) {
            self.waiting = None;
            self.subject.values[waiting].unit = Some(unit);
            self.naming.unit(&mut self.subject.values);
            self.subject.tokens.push(Token::Stop(hash(&lower)));
            return;
        }
        // "l'abonnement" is an "abonnement"; "don't" is one word.
        if let Some((article, word)) = token.split_once(['\'', '’'])
            && article.chars().count() <= 5
            && word.chars().count() >= 3
        {
            let article = article.to_lowercase();
            self.subject.tokens.push(Token::Stop(hash(&article)));
            self.naming.stop(words().look_up(&article), &mut self.subject.values);
            return self.token(word, false);
        }
        if !known.filler {
            self.empty &= known.is_stop(self.languages);
        }
        let key = known.concept.map_or_else(|| stem(&lower), concept_key);
        // Also of words that are grammar elsewhere: "min" is Swedish for "my".
        self.subject.contrasts.extend(known.contrasts.iter().map(|group| (*group, key)));
        let single = token.chars().count() == 1;
        let capital = token.chars().next().is_some_and(char::is_uppercase);
        // "the US limit" speaks of a country, "let us limit" of us.
        let acronym = (2..=5).contains(&token.len()) && token.chars().all(char::is_uppercase);
        if known.is_stop(self.languages) && !(single && capital && (!first || self.subject.unspaced)) && !acronym {
            self.subject.tokens.push(Token::Stop(hash(&lower)));
            self.naming.stop(known, &mut self.subject.values);
            // Beside "B is late", what "A is late" begins with is a name.
            if single && capital {
                self.subject.capitals.push(hash(&lower));
            }
            if known.links && self.subject.head.is_none() && !self.subject.words.is_empty() {
                self.subject.head = Some(self.subject.tokens.len());
            }
            return;
        }
        let label = single && (capital || token.chars().all(|c| c.is_ascii_digit()));
        let coined = token.contains(['_', '-']) || token.chars().skip(1).any(char::is_uppercase);
        // Among characters of a script without spaces, a word in letters is somebody's name for something.
        let foreign = self.subject.unspaced && !is_concept(key);
        let named = capital && !first && !self.nouns;
        if known.determines {
            self.naming.stop(known, &mut self.subject.values);
        } else {
            let several = lower.ends_with(['s', 'x']) && !lower.ends_with("ss");
            let unnamed = !coined && !acronym && !named;
            // What has no function word is likely to be English where it may be.
            let bare = words().numbers_bare(self.languages) || (self.languages == Languages::MAX && token.is_ascii());
            let noun = Noun {
                attribute: known.attribute,
                bare: bare && unnamed && (self.nouns || !several),
                strict: bare && !self.nouns,
                articled: words().numbers_with_article(self.languages) && unnamed && !several,
                counted: if self.nouns { capital } else { several },
            };
            self.naming.word(noun, &mut self.subject.values);
        }
        if label || coined || acronym || named || foreign || token.chars().any(|c| c.is_ascii_digit()) {
            self.subject.names.push(key);
            self.name(key);
            return;
        }
        if !capital {
            self.subject.small.push(key);
        } else if !is_concept(key) {
            self.subject.capitals.push(key);
        }
        self.word(key);
    }

    /// Concepts and contrasts of scripts without word borders, and those of several words.
    fn phrases(&mut self, lower: &str) {
        self.separated(lower);
        for named in phrases::named(lower) {
            self.subject.words.extend(named.concept.map(concept_key));
            self.subject.contrasts.extend(named.contrasts.iter().map(|group| (*group, hash(named.text))));
        }
    }

    /// In German the first part of a verb may stand last: "it runs after 5 s out" is "it outruns".
    fn separated(&mut self, lower: &str) {
        if !words().separates(self.languages) {
            return;
        }
        let mut spoken = lower.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
        let Some(first) = spoken.next_back().filter(|last| last.len() <= SEPARATED) else { return };
        let concepts = spoken.filter_map(|verb| words().look_up(&[first, verb].concat()).concept);
        self.subject.words.extend(concepts.map(concept_key));
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
        self.naming.finish(&mut subject);
        subject.question = text.trim_end_matches(['"', '\'', ')', '”', '*', ' ']).ends_with(['?', '？', '؟']) || asks_in_words(lower);
        subject.filler = self.empty || words().look_up(lower.trim_matches(|c: char| !c.is_alphanumeric())).filler;
        subject
    }
}

/// Chinese, Japanese and Korean questions that end without a question mark.
fn asks_in_words(lower: &str) -> bool {
    let end = lower.trim_end_matches(['。', '.', ' ']);
    ["吗", "呢", "ですか", "ますか", "でしょうか", "습니까", "나요", "까요"].iter().any(|particle| end.ends_with(particle))
}
