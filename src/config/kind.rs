//! Which value of a table is of the wrong kind. Serde knows what it met and what it wanted, but not where: so the values are tried one by one.

use toml::{Table, Value, de::Error};

use super::Problem;

/// The problem with `table`, which stands at `at` and does not become what it should; `text` is where its lines are.
pub fn problem(table: &Table, at: &str, text: &str, error: &Error, becomes: &dyn Fn(&Table) -> bool) -> Problem {
    let key = culprit(table, &|table| becomes(&table)).unwrap_or_default();
    let key = [at, &key].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
    Problem::new(&key, said(text, error))
}

/// What an error says, in a user's words. What stands at that place is not repeated whole: it may hold a secret.
pub fn said(text: &str, error: &Error) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected u32", "expected a whole number, 0 or more"),
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("invalid type: ", ""),
        ("invalid value: ", ""),
    ];
    let message = WORDS.iter().fold(error.message().to_owned(), |message, (theirs, ours)| message.replace(theirs, ours));
    let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let message = message
        .replace("map, expected a sequence", "a table, expected a list: a [table] of that name is written [[table]], a word [\"word\"]");
    let message = message.replace(", expected", " is not accepted; expected");
    line.map_or_else(|| message.clone(), |line| format!("{message} (line {line})"))
}

/// The path of the first value that fails where it stands alone.
fn culprit(table: &Table, becomes: &dyn Fn(Table) -> bool) -> Option<String> {
    let alone = |key: &str, value: Value| becomes(Table::from_iter([(key.to_owned(), value)]));
    table.iter().find_map(|(key, value)| {
        if alone(key, value.clone()) {
            return None;
        }
        let below = match value {
            // Unless no table at all may stand there.
            Value::Table(inner) if alone(key, Table::new().into()) => culprit(inner, &|inner| alone(key, inner.into())),
            Value::Array(list) if alone(key, Value::Array(Vec::new())) => list.iter().enumerate().find_map(|(index, value)| {
                let element = |value: Value| alone(key, Value::Array(vec![value]));
                let Value::Table(inner) = value else { return (!element(value.clone())).then(|| index.to_string()) };
                Some(format!("{index}.{}", culprit(inner, &|inner| element(inner.into()))?))
            }),
            _ => None,
        };
        Some(below.map_or_else(|| key.clone(), |below| format!("{key}.{below}")))
    })
}
