//! Reads the structures that people paste into error texts: JSON, the `repr` of Python dicts, tuples and bytes, JavaScript objects with bare keys,
//! escaped JSON within quotes, and any of these cut off in the middle.
//!
//! Forgiving and linear: what can't be read ends the structure, and what was read until then is kept.

use serde_json::{Map, Value};

/// Structures nested deeper are not looked into.
const MAX_DEPTH: usize = 24;

/// The structure at the start of `text` (at `{`, `[` or `(`), and its length in bytes. `None` where nothing could be read of it.
pub(super) fn parse(text: &str) -> Option<(Value, usize)> {
    let mut parser = Parser { text, at: 0 };
    let value = parser.value(0)?;
    let empty = match &value {
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    (!empty).then_some((value, parser.at))
}

/// Whether a structure, not just a bracket, may start here.
pub(super) fn starts(text: &str) -> bool {
    let inner = |open| text.strip_prefix(open).map(|inner: &str| skip_space(inner).chars().next());
    match inner('{').or_else(|| inner('[')) {
        Some(Some(c)) if text.starts_with('{') => c == '"' || c == '\'' || c == '\\' || c.is_alphabetic() || c == '_',
        Some(Some(c)) => matches!(c, '{' | '"' | '\'' | '('),
        _ => false,
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.space();
        if depth > MAX_DEPTH {
            return None;
        }
        let rest = &self.text[self.at..];
        match rest.chars().next()? {
            '{' => Some(Value::Object(self.object(depth))),
            '[' | '(' => Some(Value::Array(self.array(depth))),
            '"' | '\'' => self.string().map(Value::String),
            'b' | 'u' | 'r' if rest[1..].starts_with(['"', '\'']) => {
                self.at += 1;
                self.string().map(Value::String)
            }
            '\\' if rest[1..].starts_with('"') => self.string().map(Value::String),
            _ => self.bare(),
        }
    }

    fn object(&mut self, depth: usize) -> Map<String, Value> {
        let mut map = Map::new();
        self.at += 1;
        loop {
            self.space();
            if self.eat('}') || self.at >= self.text.len() {
                return map;
            }
            let key = match self.text[self.at..].starts_with(['"', '\'', '\\']) {
                true => self.string(),
                false => self.identifier(),
            };
            let Some(key) = key else { return map };
            self.space();
            if !self.eat(':') && !self.eat('=') {
                return map;
            }
            let Some(value) = self.value(depth + 1) else { return map };
            map.insert(key, value);
            self.space();
            if !self.eat(',') {
                self.eat('}');
                return map;
            }
        }
    }

    fn array(&mut self, depth: usize) -> Vec<Value> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.space();
            if self.eat(']') || self.eat(')') || self.at >= self.text.len() {
                return items;
            }
            let Some(value) = self.value(depth + 1) else { return items };
            items.push(value);
            self.space();
            if !self.eat(',') {
                let _ = self.eat(']') || self.eat(')');
                return items;
            }
        }
    }

    /// A string in either kind of quotes, whose quotes may themselves be escaped (`\"key\"`).
    fn string(&mut self) -> Option<String> {
        let escaped = self.eat('\\');
        let quote = self.text[self.at..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
        self.at += 1;
        let mut out = String::new();
        let mut chars = self.text[self.at..].char_indices();
        while let Some((i, c)) = chars.next() {
            match c {
                '\\' => match chars.next() {
                    Some((j, c)) if escaped && c == quote => {
                        self.at += j + 1;
                        return Some(out);
                    }
                    Some((_, 'n' | 'r' | 't')) => out.push(' '),
                    Some((_, 'u')) => {
                        let hex: String = chars.clone().take(4).map(|(_, c)| c).collect();
                        let decoded = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                        if let Some(decoded) = decoded.filter(|_| hex.len() == 4) {
                            out.push(decoded);
                            chars.nth(3);
                        }
                    }
                    Some((_, c)) => out.push(c),
                    None => {}
                },
                c if c == quote && !escaped => {
                    self.at += i + 1;
                    return Some(out);
                }
                c => out.push(c),
            }
        }
        self.at = self.text.len();
        Some(out)
    }

    fn identifier(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$'))).unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| rest[..end].to_owned())
    }

    /// A number, `None`, `true`, or any other word without quotes.
    fn bare(&mut self) -> Option<Value> {
        let word = self.identifier()?;
        Some(match word.as_str() {
            "None" | "null" | "undefined" | "nil" => Value::Null,
            "True" | "true" => Value::Bool(true),
            "False" | "false" => Value::Bool(false),
            _ => word.parse::<i64>().map(Value::from).unwrap_or(Value::String(word)),
        })
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.text[self.at..].starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn space(&mut self) {
        self.at = self.text.len() - skip_space(&self.text[self.at..]).len();
    }
}

/// White space, and white space that stayed escaped because the structure was inside a string.
fn skip_space(mut text: &str) -> &str {
    loop {
        let trimmed = text.trim_start();
        match trimmed.strip_prefix("\\n").or_else(|| trimmed.strip_prefix("\\r")).or_else(|| trimmed.strip_prefix("\\t")) {
            Some(more) => text = more,
            None => return trimmed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: Option<Value>, rest: &str) {
        let got = parse(text);
        assert_eq!(got.as_ref().map(|(value, _)| value), expected.as_ref(), "{text}");
        if let Some((_, end)) = got {
            assert_eq!(&text[end..], rest, "{text}");
        }
    }

    #[test]
    fn all_kinds_of_pasted_structures_are_read() {
        check(r#"{"a": {"b": [1, "x"]}} tail"#, Some(json!({"a": {"b": [1, "x"]}})), " tail");
        check(r#"{'a': None, 'b': ('x', True), 'c': "it's"}'"#, Some(json!({"a": null, "b": ["x", true], "c": "it's"})), "'");
        check("{code:500, message:'Context size'}", Some(json!({"code": 500, "message": "Context size"})), "");
        check(r#"{\n  "a": "b",\n  "c": 4\n}\n'"#, Some(json!({"a": "b", "c": 4})), r"\n'");
        check(r#"{\"a\":\"b c\",\"d\":1} x"#, Some(json!({"a": "b c", "d": 1})), " x");
        check(r#"{"a": b'{"x": 1}'}"#, Some(json!({"a": "{\"x\": 1}"})), "");
        check(r#"{"a": "\u4e0a\u4e0b"}"#, Some(json!({"a": "上下"})), "");
    }

    #[test]
    fn what_is_cut_off_is_kept_until_there() {
        check(r#"{"a": "b", "c": "prompt is too lo"#, Some(json!({"a": "b", "c": "prompt is too lo"})), "");
        check(r#"{"a": [{"b": 1}, "#, Some(json!({"a": [{"b": 1}]})), "");
        check("{x} y", None, "");
        check("{", None, "");
        assert!(parse(&"[".repeat(5000)).is_some(), "and the stack holds");
    }

    #[test]
    fn a_bracket_is_not_always_a_structure() {
        assert!(starts("{\"a\"") && starts("[{") && starts("['a'") && starts("{code:1") && starts("[('a',"));
        assert!(!starts("[1, 129024]") && !starts("[Prompt]") && !starts("{1}") && !starts("{") && !starts("a"));
    }
}
