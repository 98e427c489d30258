//! What spans say. The names are OpenTelemetry's where it has one: for generative AI, for HTTP. No text of a message and no credential is among them.

use super::otlp::{AnyValue, KeyValue, ListValue, Value};
use crate::{
    proxy::{error::Error, events::Line},
    wire::usage::Usage,
};

/// The longest text of an attribute, in bytes: agents make up the names of models.
const LONGEST: usize = 256;

pub type Attributes = Vec<KeyValue>;

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

pub fn text(key: &str, value: &str) -> KeyValue {
    pair(key, Value::Text(short(value).to_owned()))
}

pub fn number(key: &str, value: u64) -> KeyValue {
    pair(key, Value::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

fn list(key: &str, values: &[&'static str]) -> KeyValue {
    let values = values.iter().map(|value| AnyValue { value: Some(Value::Text((*value).to_owned())) }).collect();
    pair(key, Value::List(ListValue { values }))
}

/// What a span of a chat request is called.
pub fn chat(model: &str) -> String {
    if model.is_empty() { "chat".into() } else { format!("chat {}", short(model)) }
}

/// What every span of a chat request says.
pub fn generation(provider: &str, model: &str) -> Attributes {
    let mut out = vec![text("gen_ai.operation.name", "chat"), text("gen_ai.provider.name", provider)];
    if !model.is_empty() {
        out.push(text("gen_ai.request.model", model));
    }
    out
}

/// As the provider counts.
pub fn usage(usage: Usage) -> impl Iterator<Item = KeyValue> {
    let counts = [
        ("gen_ai.usage.input_tokens", usage.input),
        ("gen_ai.usage.cache_read.input_tokens", usage.cached),
        ("gen_ai.usage.output_tokens", usage.output),
    ];
    counts.into_iter().filter_map(|(key, tokens)| Some(number(key, tokens?)))
}

/// What the span of a request says that was refused before it was known where it would go.
pub fn refused(method: &str, path: &str, format: &str, error: &Error) -> Attributes {
    vec![
        text("http.request.method", method),
        text("url.path", path),
        number("http.response.status_code", error.status().as_u16().into()),
        text("error.type", error.name()),
        text("plimsoll.format", format),
        text("plimsoll.end", error.name()),
    ]
}

/// The name of an exchange's span, what it says, and whether it went wrong.
pub fn exchange(line: &Line) -> (String, Attributes, bool) {
    let report = &line.report;
    let is_chat = line.format != "none";
    let name = if is_chat { chat(&report.model) } else { format!("{} {}", line.method, line.route.name) };
    let mut out = if is_chat { generation(line.provider, &report.model) } else { Attributes::new() };
    out.extend(line.usage.into_iter().flat_map(usage));

    let status = line.status.map(|status| status.as_u16());
    let wrong = match line.end {
        "complete" | "upgraded" => status.filter(|status| *status >= 500).map(|status| status.to_string()),
        end => Some(end.to_owned()),
    };
    let tokens = report.tokens;
    let milliseconds = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    let texts = [
        ("http.request.method", Some(line.method.as_str())),
        ("url.path", Some(line.path.as_str())),
        ("error.type", wrong.as_deref()),
        ("plimsoll.route", Some(line.route.name.as_str())),
        ("plimsoll.format", Some(line.format)),
        ("plimsoll.trigger", report.trigger),
        ("plimsoll.cause", report.cause),
        ("plimsoll.overflow", line.overflow),
        ("plimsoll.retried", line.retried),
        ("plimsoll.end", Some(line.end)),
    ];
    let numbers = [
        ("http.response.status_code", status.map(u64::from)),
        ("http.request.body.size", line.bytes_in),
        ("http.response.body.size", Some(line.bytes_out)),
        ("plimsoll.request.sent.size", line.bytes_sent),
        ("plimsoll.tokens.before", tokens.map(|(before, _)| before)),
        ("plimsoll.tokens.after", tokens.map(|(_, after)| after)),
        ("plimsoll.records.left_out", (!report.rungs.is_empty()).then(|| report.records.left_out.counts().iter().sum::<usize>() as u64)),
        ("plimsoll.window", report.window),
        ("plimsoll.epoch", Some(report.epoch.into()).filter(|epoch| *epoch > 0)),
    ];
    let fractions = [
        ("plimsoll.pressure", report.pressure()),
        ("plimsoll.added_ms", line.added.map(milliseconds)),
        ("plimsoll.first_byte_ms", line.first.map(milliseconds)),
    ];
    out.extend(texts.into_iter().filter_map(|(key, value)| Some(text(key, value?))));
    out.extend(numbers.into_iter().filter_map(|(key, value)| Some(number(key, value?))));
    out.extend(fractions.into_iter().filter_map(|(key, value)| Some(pair(key, Value::Double(value?)))));
    if !report.rungs.is_empty() {
        out.push(list("plimsoll.rungs", &report.rungs));
    }
    if is_chat {
        out.push(pair("plimsoll.edited", Value::Bool(report.edited)));
    }
    (name, out, wrong.is_some())
}
