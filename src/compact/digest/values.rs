//! Numbers, codes, dates and addresses in a sentence, each with what it measures where the sentence says so.

use super::subjects::{Key, hash};
use super::words::{Dimension, Word, spaceless, words};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Number,
    /// Letters and digits: `HAT136`, `OPS-411`, `v1.2.3`, a hash. Two of them are two things more often than two values of one.
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
    /// The content words beside it, 0 where there is none.
    pub before: Key,
    pub after: Key,
    /// Whether nothing but its unit follows it in the sentence.
    pub last: bool,
    /// Whether it says which one, not how much: "question 4".
    pub which: bool,
}

impl Value {
    /// The value that a token is; `lower` is the token in lower case, `known` what is known of that.
    pub fn read(token: &str, lower: &str, known: &Word) -> Option<Value> {
        let digits = token.bytes().filter(u8::is_ascii_digit).count();
        let mut value = Value {
            norm: hash(lower),
            kind: Kind::Code,
            weight: token.len().min(255) as u8,
            unit: None,
            before: 0,
            after: 0,
            last: false,
            which: false,
        };
        let separators = token.contains('/') || token.contains('\\') || token.contains('@');
        if digits == 0 {
            if let Some(number) = known.numeral {
                return Some(Value { norm: hash(number), kind: Kind::Number, weight: number.len() as u8, ..value });
            }
            if let Some(day) = known.day {
                return Some(Value { norm: hash(day), kind: Kind::Number, weight: 1, unit: words().dimension("date"), ..value });
            }
            let dotted = token.split('.').count() > 1 && token.split('.').all(|p| !p.is_empty()) && token.len() > 3;
            let reference = (separators && token.len() > 3 && !token.starts_with('@')) || dotted;
            return reference.then_some(Value { kind: Kind::Reference, ..value });
        }
        if let Some(dimension) = moment(token) {
            return Some(Value { kind: Kind::Number, unit: words().dimension(dimension), ..value });
        }
        let unsigned = token.trim_start_matches(['+', '-', '~', '<', '>', '=', '#']);
        let amount = unsigned.trim_start_matches(|c: char| !c.is_ascii_digit());
        let prefix = &unsigned[..unsigned.len() - amount.len()];
        let number_end = amount.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '\'') || gap(c))).unwrap_or(amount.len());
        let (number, suffix) = amount.split_at(number_end);
        let prefixed = unit(prefix);
        let suffixed = unit(suffix);
        let plain = (prefix.is_empty() || prefixed.is_some())
            && (suffix.is_empty()
                || suffixed.is_some()
                || matches!(suffix, "k" | "K" | "m" | "M" | "x")
                || ORDINALS.contains(&suffix.trim_start_matches('-')));
        if plain && number.matches('.').count() <= 1 && !token.starts_with('#') {
            let canonical = canonical(number);
            let scaled = if matches!(suffix, "k" | "K") { format!("{canonical}000") } else { canonical };
            value.weight = scaled.bytes().filter(u8::is_ascii_digit).count().min(255) as u8;
            let phone = (token.starts_with('+') && number.contains(gap)).then(|| words().dimension("phone")).flatten();
            return Some(Value { norm: hash(&scaled), kind: Kind::Number, unit: phone.or(prefixed).or(suffixed), ..value });
        }
        if separators || token.contains("://") {
            return Some(Value { kind: Kind::Reference, ..value });
        }
        // "p95", "s3" and "utf8" are words that hold a digit.
        let worded = digits < 3 && token.len() <= 5 && token.starts_with(char::is_alphabetic) && !token.contains(['.', '-']);
        (!worded).then_some(value)
    }

    /// From 0, of different kinds, to 1, surely two values of the same quantity.
    pub fn comparable(&self, other: &Value) -> f32 {
        if self.kind != other.kind {
            return 0.0;
        }
        let same = |x: Key, y: Key| x != 0 && x == y;
        let beside = same(self.before, other.before)
            || same(self.after, other.after)
            || same(self.before, other.after)
            || same(self.after, other.before);
        match (self.unit, other.unit) {
            (Some(x), Some(y)) if x == y => 1.0,
            (Some(_), Some(_)) => 0.0,
            (None, None) if beside => 0.9,
            (None, None) => 0.4,
            _ => 0.0,
        }
    }
}

fn unit(text: &str) -> Option<Dimension> {
    if text.is_empty() { None } else { words().look_up(&text.to_lowercase()).unit }
}

/// "6:40" is a time of day, "2024-05-20" a day.
fn moment(token: &str) -> Option<&'static str> {
    let digits =
        |part: &str, lengths: std::ops::RangeInclusive<usize>| lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let bare = token.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    if let Some((hour, minute)) = bare.split_once([':', 'h'])
        && digits(hour, 1..=2)
        && digits(minute, 2..=2)
    {
        return Some("clock");
    }
    let parts: Vec<&str> = token.split(['-', '/', '.']).collect();
    let day = parts.len() == 3 && parts.iter().all(|part| digits(part, 1..=4)) && parts.iter().filter(|part| part.len() == 4).count() == 1;
    day.then_some("date")
}

/// Endings of a number that counts places: "3rd".
const ORDINALS: [&str; 17] = ["st", "nd", "rd", "th", "er", "re", "e", "ème", "º", "ª", "°", "й", "я", "е", "го", "му", "ой"];

/// A space inside a number: "12 500", "+351 912 555 014".
fn gap(c: char) -> bool {
    matches!(c, ' ' | '\u{a0}' | '\u{202f}')
}

/// "1,000", "1.000" and "1000" are one number; "0.50" is "0.5".
fn canonical(number: &str) -> String {
    let number: &str = &number.replace(gap, "");
    let groups: Vec<&str> = number.split([',', '.', '\'']).collect();
    let grouped = groups.len() > 1 && groups[0].len() <= 3 && groups[0] != "0" && groups[1..].iter().all(|g| g.len() == 3);
    if grouped {
        return groups.concat();
    }
    let plain = number.replace(',', ".");
    if plain.contains('.') { plain.trim_end_matches('0').trim_end_matches('.').to_owned() } else { plain }
}

/// Whether a token of a sentence begins with `c`, a mark, when `next` follows.
pub(crate) fn opens(c: char, next: Option<char>) -> bool {
    let follows = |wanted: fn(char) -> bool| next.is_some_and(wanted);
    match c {
        '#' | '$' | '€' | '£' | '¥' | '₩' | '₽' | '₹' | '-' | '+' => follows(|n| n.is_ascii_alphanumeric() || n == '-'),
        '/' | '~' | '.' | '@' => follows(|n| n.is_alphanumeric() || n == '/' || n == '.'),
        _ => false,
    }
}

/// The end of the token that begins at `start`.
pub(crate) fn token_end(text: &str, start: usize) -> usize {
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
        // In "port=8081" the name and the value are two tokens; in a query they are one address.
        if c == '=' && rest[..at].bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')) {
            break;
        }
        let inside = !spaceless(c)
            && (c.is_alphanumeric() || (end == 0) || matches!(c, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{963}' | '\u{966}'..='\u{dff}'))
            || (matches!(c, '.' | '_' | '-' | '/' | ':' | '@' | '#' | '%' | '&' | '=' | '+' | '~' | '\'' | '’' | '\\' | '$')
                && next.is_some_and(|n| (n.is_alphanumeric() && !spaceless(n)) || matches!(n, '/' | '_' | '-' | '.' | '~')))
            || (c == ','
                && rest[..at].ends_with(|p: char| p.is_ascii_digit())
                && rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count() == 3)
            || (gap(c) && groups_on(&rest[..at], &rest[at + c.len_utf8()..]))
            || (matches!(c, '%' | '€' | '$' | '£' | '_') && end > 0);
        if !inside || at > 400 {
            break;
        }
        end = at + c.len_utf8();
    }
    start + end.max(rest.chars().next().map_or(0, char::len_utf8))
}

/// Whether the digits after a space go on with the number before it.
fn groups_on(number: &str, rest: &str) -> bool {
    let ahead = rest.bytes().take_while(u8::is_ascii_digit).count();
    let ends = !rest[ahead..].starts_with(|c: char| c.is_alphanumeric());
    let plain = number.chars().all(|c| c.is_ascii_digit() || gap(c));
    let phone = number.starts_with('+') && number[1..].chars().all(|c| c.is_ascii_digit() || gap(c)) && (2..=4).contains(&ahead);
    let first = number.bytes().take_while(u8::is_ascii_digit).count();
    ends && (phone || (plain && (1..=3).contains(&first) && ahead == 3))
}

#[cfg(test)]
mod tests {
    use super::super::subjects::Subject;

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
        check("Leave at 6:40 on 2024-05-20", 2);
        check("Call +351 912 555 014 or pay 12 500 euros in twelve months", 3);
    }

    #[test]
    fn numbers_in_any_spelling_are_the_same_number() {
        let norm = |text: &str| Subject::of(text).values[0].norm;
        assert_eq!(norm("1,000 rows"), norm("1000 rows"));
        assert_eq!(norm("1.000 Zeilen"), norm("1000"));
        assert_eq!(norm("200ms"), norm("200 ms"));
        assert_eq!(norm("12 500 euros"), norm("12,500"));
        assert_eq!(norm("five retries"), norm("5 retries"));
        assert_ne!(norm("1.5 s"), norm("15 s"));
    }
}
