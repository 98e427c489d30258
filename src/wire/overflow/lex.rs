//! Cuts an error text into what the grammar works on: words as the lexicon spells them, numbers with their multipliers, a few signs, ends of sentences.
//!
//! What only looks like a word or a number becomes [`Raw::Opaque`]: model names (`gpt-4-32k`), ids, dates, versions, paths, addresses. So no number
//! of theirs is ever taken for tokens.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::CharIndices;

use super::number::{date_end, is_unit, multiplier, number, scale, spaced_number, times};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw {
    Word(String),
    /// A count. Fractions are cut off; `None` is a number below zero.
    Num(Option<u64>),
    Sign(char),
    /// `>`, `>=`: only between numbers.
    Above,
    /// `<`, `<=`: what stands after it is a bound.
    Below,
    Stop,
    Opaque,
}

pub(super) fn lex(text: &str) -> Vec<Raw> {
    let text = halfwidth(text);
    let mut lexer = Lexer { text: &text, out: Vec::new() };
    lexer.run();
    drop_codes(lexer.out)
}

/// Full-width signs and digits as their ASCII twins.
fn halfwidth(text: &str) -> Cow<'_, str> {
    let full = |c: char| ('\u{ff01}'..='\u{ff5e}').contains(&c);
    if !text.contains(full) {
        return Cow::Borrowed(text);
    }
    let half = |c: char| if full(c) { char::from_u32(c as u32 - 0xfee0).unwrap_or(c) } else { c };
    Cow::Owned(text.chars().map(half).collect())
}

/// Words of an identifier: `ContextWindowExceededError` and `context_window_exceeded` alike.
pub(super) fn words(identifier: &str) -> Vec<Raw> {
    let mut out = Vec::new();
    split_words(identifier, &mut out);
    out
}

struct Lexer<'a> {
    text: &'a str,
    out: Vec<Raw>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        let text = self.text;
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            let before = text[..at].chars().next_back();
            let next = rest[c.len_utf8()..].chars().next();
            let path = c == '/' && before.is_none_or(|b| b.is_whitespace() || "([\"'".contains(b)) && next.is_some_and(char::is_alphabetic);
            let taken = if path || rest.starts_with("http://") || rest.starts_with("https://") {
                self.out.push(Raw::Opaque);
                address(rest)
            } else if is_ideograph(c) {
                self.out.push(Raw::Word(c.to_string()));
                c.len_utf8()
            } else if c.is_alphanumeric() {
                self.chunk(rest)
            } else {
                self.sign(c, rest, before, next)
            };
            at += taken.max(c.len_utf8());
        }
    }

    fn sign(&mut self, c: char, rest: &str, before: Option<char>, next: Option<char>) -> usize {
        let spaced = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let sign = match c {
            '.' if self.abbreviates() => return 1,
            '.' if spaced(next) || next == Some('"') => Raw::Stop,
            '!' | '?' | '。' | '｡' => Raw::Stop,
            '\n' if rest[1..].trim_start_matches([' ', '\t', '\r']).starts_with('\n') => Raw::Stop,
            // `<400> InternalError` quotes a status.
            '<' if next.is_some_and(|n| n.is_ascii_digit()) => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                if rest[1 + digits..].starts_with('>') {
                    self.out.push(Raw::Opaque);
                    return digits + 2;
                }
                Raw::Below
            }
            '<' | '≤' => Raw::Below,
            '>' if before == Some('-') || before == Some('=') => return 1,
            '>' | '≥' => Raw::Above,
            '-' | '−' if next.is_some_and(|n| n.is_ascii_digit()) && before.is_none_or(|b| !b.is_alphanumeric()) => {
                let taken = self.chunk(&rest[c.len_utf8()..]);
                if let Some(Raw::Num(value)) = self.out.last_mut() {
                    *value = None;
                }
                return c.len_utf8() + taken;
            }
            '-' | '−' if spaced(before) && spaced(next) => Raw::Sign('-'),
            '%' | '％' => Raw::Word("percent".to_owned()),
            '+' | '=' | '/' | '[' | ']' | '(' | ')' | ',' | ':' | ';' => Raw::Sign(c),
            '、' => Raw::Sign(','),
            _ => return c.len_utf8(),
        };
        self.out.push(sign);
        c.len_utf8() + usize::from(matches!(c, '<' | '>') && next == Some('='))
    }

    /// "max. 8192": the full stop ends no sentence.
    fn abbreviates(&self) -> bool {
        let short = ["max", "min", "no", "nr", "approx", "ca", "env", "aprox", "vs", "макс", "мин"];
        matches!(self.out.last(), Some(Raw::Word(word)) if short.contains(&word.as_str()))
    }

    /// A run of letters and digits with the punctuation that may stand within one.
    fn chunk(&mut self, rest: &str) -> usize {
        let end = chunk_end(rest);
        let chunk = &rest[..end];
        if !chunk.bytes().any(|b| b.is_ascii_digit()) {
            if let Some(path) = path_end(&rest[end..]) {
                self.out.push(Raw::Opaque);
                return end + path;
            }
            match chunk.contains('/') {
                true => self.out.push(Raw::Opaque),
                false => split_words(chunk, &mut self.out),
            }
            return end;
        }
        if let Some(date) = date_end(chunk, &rest[end..]) {
            self.out.push(Raw::Opaque);
            return end + date;
        }
        if let Some((value, length)) = spaced_number(chunk, rest) {
            self.out.push(Raw::Num(Some(value)));
            return length;
        }
        if let Some((value, length)) = number(chunk) {
            let tail = &chunk[length..];
            if let Some((times, taken)) = tail.is_empty().then(|| times(&rest[end..])).flatten() {
                self.out.push(Raw::Num(scale(value, chunk, length, times)));
                return end + taken;
            }
            if let Some(sentence) = tail.strip_prefix('.').filter(|tail| tail.starts_with(char::is_alphabetic)) {
                self.out.extend([Raw::Num(value), Raw::Stop]);
                return end - sentence.len();
            }
            let tail = tail.strip_prefix(['-', '_']).unwrap_or(tail);
            if let Some(times) = multiplier(tail) {
                self.out.push(Raw::Num(scale(value, chunk, length, times)));
                split_words(&tail[1..], &mut self.out);
                return end;
            }
            if tail.chars().all(|c| c.is_alphabetic() || c == '-' || c == '_') && (tail.is_empty() || is_unit(tail)) {
                self.out.push(Raw::Num(value));
                split_words(tail, &mut self.out);
                return end;
            }
        }
        self.out.push(Raw::Opaque);
        end
    }
}

fn address(rest: &str) -> usize {
    rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '>' | '<' | '`') || is_ideograph(c)).unwrap_or(rest.len())
}

pub(super) fn chunk_end(rest: &str) -> usize {
    let mut chars: Peekable<CharIndices> = rest.char_indices().peekable();
    let mut before = ' ';
    let mut letters = false;
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or(' ', |(_, next)| *next);
        let inner = |c: char| c.is_alphanumeric() && !is_ideograph(c);
        let joins = match c {
            '_' | '-' | '.' => inner(before) && inner(next) || (c == '_' && (inner(before) || inner(next) || before == '_')),
            ',' | ':' => before.is_ascii_digit() && next.is_ascii_digit(),
            '\'' | '’' => inner(before) && inner(next),
            '/' => letters && inner(before) && next.is_alphabetic() && !is_ideograph(next),
            c => inner(c),
        };
        if !joins {
            return at;
        }
        letters |= c.is_alphabetic();
        before = c;
    }
    rest.len()
}

/// `[3].content` after a name: the whole is a path into the request.
fn path_end(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('[')?;
    let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || !inner[digits..].starts_with(']') {
        return None;
    }
    let more = inner[digits + 1..]
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '[' | ']')))
        .unwrap_or(inner.len() - digits - 1);
    Some(1 + digits + 1 + more)
}

/// `[2026]` alone is a code.
fn drop_codes(raw: Vec<Raw>) -> Vec<Raw> {
    let mut out: Vec<Raw> = Vec::with_capacity(raw.len());
    for item in raw {
        if item == Raw::Sign(']')
            && let [before @ .., Raw::Sign('['), Raw::Num(_)] = out.as_slice()
            && before.last() != Some(&Raw::Sign(','))
        {
            out.truncate(out.len() - 2);
            out.push(Raw::Opaque);
        } else {
            out.push(item);
        }
    }
    out
}

fn split_words(chunk: &str, out: &mut Vec<Raw>) {
    for part in chunk.split(['_', '-', '.', ':', '/']) {
        let chars: Vec<char> = part.chars().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).collect();
        let mut word = String::new();
        for (i, &c) in chars.iter().enumerate() {
            let before = i.checked_sub(1).and_then(|i| chars.get(i)).copied().unwrap_or(c);
            let next = chars.get(i + 1).copied().unwrap_or(c);
            let hump = c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next.is_lowercase()));
            // French elision: d'entrée.
            let elision = matches!(before, '\'' | '’') && i <= 2;
            if (hump || elision) && !word.is_empty() {
                push_word(&mut word, out);
            }
            fold(c, &mut word);
        }
        push_word(&mut word, out);
    }
}

fn push_word(word: &mut String, out: &mut Vec<Raw>) {
    let trimmed = word.trim_matches('\'');
    if !trimmed.is_empty() {
        out.push(Raw::Word(trimmed.to_owned()));
    }
    word.clear();
}

/// Lower case without accents.
fn fold(c: char, out: &mut String) {
    for c in c.to_lowercase() {
        match c {
            'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => out.push('a'),
            'ç' => out.push('c'),
            'è' | 'é' | 'ê' | 'ë' => out.push('e'),
            'ì' | 'í' | 'î' | 'ï' => out.push('i'),
            'ñ' => out.push('n'),
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' => out.push('o'),
            'ù' | 'ú' | 'û' | 'ü' => out.push('u'),
            'ß' => out.push_str("ss"),
            'ё' => out.push('е'),
            '’' => out.push('\''),
            '\u{300}'..='\u{36f}' => {}
            c => out.push(c),
        }
    }
}

/// Scripts written without spaces, or with endings glued on: every character is a word of its own.
pub(super) fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as they are, numbers as `#n`, opaque as `~`, ends of sentences as `|`.
    fn show(text: &str) -> String {
        let show = |raw: &Raw| match raw {
            Raw::Word(word) => word.clone(),
            Raw::Num(Some(n)) => format!("#{n}"),
            Raw::Num(None) => "#-".to_owned(),
            Raw::Sign(c) => c.to_string(),
            Raw::Above => ">".to_owned(),
            Raw::Below => "<".to_owned(),
            Raw::Stop => "|".to_owned(),
            Raw::Opaque => "~".to_owned(),
        };
        lex(text).iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(show(text), expected, "{text}");
    }

    #[test]
    fn identifiers_and_prose_are_the_same_words() {
        check("`max_tokens` maxTokens max-tokens MAX_TOKENS", "max tokens max tokens max tokens max tokens");
        check("litellm.ContextWindowExceededError: HTTPError", "litellm context window exceeded error : http error");
        check("model's d'entrée überschreitet Größe", "model's d entree uberschreitet grosse");
        check("上下文 over", "上 下 文 over");
    }

    #[test]
    fn numbers_are_read_in_any_style() {
        check("5,958,968 150.312 131_072 1'000 33000.0 1,31,072", "#5958968 #150312 #131072 #1000 #33000 #131072");
        check("150 312 jetons", "#150312 jetons");
        check("128k 1.2M 32K-token 1M-token 12.8万 1 million", "#128000 #1200000 #32000 token #1000000 token #128000 #1000000");
        check("4104tokens 10MB n_ctx=4096 limit:8192", "#4104 tokens #10 mb n ctx = #4096 limit : #8192");
        check("300000.This model", "#300000 | this model");
        check("-312 and 8812/8192", "#- and #8812 / #8192");
    }

    #[test]
    fn names_ids_dates_and_paths_hold_no_numbers() {
        check("gpt-4-32k step-2-16k-202411 glm-4-9b-128k-0414", "~ ~ ~");
        check("2026-09-29 13:10:72 20260929131072001 v2.11.3", "~ ~ ~ ~");
        check("17851589-f2e6-405d-b67c-5550e52ee1c1 9000x9000", "~ ~");
        check("messages.84.content.1.image messages[0].content tools.0.name", "~ ~ ~");
        check("see https://x.y/errors/4096#limit-8192 (/app/llm.h:590)", "see ~ ( ~ )");
        check("[1261][Prompt too long][2026092913] <400> x", "~ [ prompt too long ] ~ ~ x");
    }

    #[test]
    fn any_text_is_read_without_a_panic() {
        for text in [
            "",
            ".",
            "-",
            "[",
            "[1",
            "1.",
            "1,",
            "_",
            "__a__",
            "'",
            "d'",
            "１２３，４５６",
            "1 234 5",
            "\u{300}",
            "é",
            "1_",
            "<",
            "<1",
            "<1>",
            "/a",
            "a/",
            "👩‍👩‍👧 1,2,3.4.5",
        ] {
            lex(text);
        }
    }
}
