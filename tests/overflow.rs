//! Every answer of the corpora is classed as its line says, and its numbers are read.
//!
//! Lines of tests/fixtures/overflow/*.jsonl and of ../shared/data/overflow-errors.jsonl have the same shape: an answer (`status`, `headers`, `body`,
//! `stream_event`) and what it means (`is_overflow`, `kind`, `limit_tokens`, `requested_tokens`, `output_tokens`). A new wording is a new line:
//! `seen.jsonl` holds wordings of public code, issues and error lists (envelopes filled in), `imagined.jsonl` and `varied.jsonl` plausible ones.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use plimsoll::wire::overflow::{Answer, Class, Classified, classify};
use proptest::prelude::*;
use serde_json::{Value, json};

static FIXTURES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/overflow");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).expect("fixtures").filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    files.iter().flat_map(|file| lines(file)).collect()
});

#[test]
fn every_answer_of_the_fixtures_is_understood() {
    check(&FIXTURES, 850);
}

#[test]
fn every_answer_of_the_shared_corpus_is_understood() {
    let Some(file) = shared("data/overflow-errors.jsonl") else { return };
    check(&lines(&file), 196);
}

#[test]
fn what_the_model_says_decides_nothing() {
    for body in bodies() {
        let chunk =
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": body}, "finish_reason": null}], "error": null});
        for (answer, stream) in [
            (
                json!({"choices": [{"message": {"role": "assistant", "content": body}, "finish_reason": "stop"}], "error": null})
                    .to_string(),
                false,
            ),
            (json!({"type": "message", "content": [{"type": "tool_use", "name": "error", "input": {"error": body}}]}).to_string(), false),
            (
                json!({"object": "response", "error": null, "status": "completed", "output": [{"content": [{"text": body}]}]}).to_string(),
                false,
            ),
            (json!({"message": {"role": "assistant", "content": body}, "done": true}).to_string(), true),
            (format!("data: {chunk}\n\ndata: [DONE]\n\n"), true),
            (format!("data: {}\n\n", json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": body}})), true),
            (format!("data: {}\n\n", json!({"type": "response.output_text.delta", "delta": body})), true),
        ] {
            let verdict = classify(Answer { status: 200, body: answer.as_bytes(), stream }, []);
            assert_eq!(verdict.class, Class::None, "{answer}");
        }
    }
}

#[test]
fn an_echo_of_the_request_decides_nothing() {
    for body in bodies() {
        for answer in [
            json!({"detail": [{"type": "string_type", "loc": ["body", "messages", 3], "msg": "Input should be a valid string", "input": body}]}),
            json!({"error": {"message": "Invalid role", "request": {"model": "x", "messages": [{"role": "user", "content": body}]}}}),
            json!({"error": "Bad Request", "body": {"model": "x", "input": [{"role": "user", "content": body}]}}),
        ] {
            let verdict = classify(Answer { status: 422, body: answer.to_string().as_bytes(), stream: false }, []);
            assert_eq!(verdict.class, Class::None, "{answer}");
        }
    }
}

#[test]
fn refusals_for_money_permission_or_load_are_no_overflows() {
    for body in bodies() {
        for status in [401, 402, 403, 429, 529] {
            let verdict = classify(Answer { status, body: body.as_bytes(), stream: false }, []);
            assert!(matches!(verdict.class, Class::None | Class::RateCeiling), "{status} {body}");
            assert_eq!(verdict.learnable_limit(), None);
        }
    }
}

#[test]
fn an_answer_without_a_body_is_left_to_an_estimate() {
    let verdict = |status, stream| classify(Answer { status, body: b" \n", stream }, []);
    assert!(verdict(400, false).needs_estimate() && verdict(200, true).needs_estimate() && verdict(500, false).needs_estimate());
    assert_eq!(verdict(413, false).class, Class::Bytes);
    assert!(!verdict(429, false).needs_estimate());
}

#[test]
fn an_exception_in_a_binary_stream_is_read() {
    let frame = |kind: &str, text: &str| {
        let payload = json!({"message": text}).to_string();
        let mut frame = b"\0\0\0\xb7\0\0\0\x61\xe2\x80:exception-type\x07\0\x13".to_vec();
        frame.extend_from_slice(kind.as_bytes());
        frame.extend_from_slice(b"\r:content-type\x07\0\x10application/json\r:message-type\x07\0\texception");
        frame.extend_from_slice(payload.as_bytes());
        frame.extend_from_slice(&[0xb0, 0x9d, 0x3c, 0xff]);
        frame
    };
    let headers = [("content-type", &b"application/vnd.amazon.eventstream"[..])];
    let class = |frame: &[u8]| classify(Answer { status: 200, body: frame, stream: true }, headers).class;
    assert_eq!(class(&frame("validationException", "Input is too long for requested model.")), Class::Input);
    assert_eq!(class(&frame("throttlingException", "Too many tokens")), Class::None);
    assert_eq!(class(b"\0\0\0\x8c:event-type\x07\0\x05chunk{\"bytes\":\"eyJ0eXBlIjoicGluZyJ9\"}"), Class::None);
}

proptest! {
    #[test]
    fn any_bytes_under_any_status_have_a_verdict(status: u16, stream: bool, body: Vec<u8>, header in "[ -~]{0,40}") {
        classify(Answer { status, body: &body, stream }, [("content-type", header.as_bytes()), ("x-amzn-errortype", header.as_bytes())]);
    }

    #[test]
    fn texts_that_look_like_errors_have_a_verdict(body in r#"([{}\[\]"'`():,<>\\/.=+-]|[0-9]{1,12}|max_tokens|prompt|context|exceeds|tokens|too long| |\n|data: |上下文|超|é|b'){0,60}"#) {
        for (status, stream) in [(400, false), (413, false), (200, true)] {
            classify(Answer { status, body: body.as_bytes(), stream }, []);
        }
    }

    #[test]
    fn answers_cut_anywhere_have_a_verdict(line in 0..FIXTURES.len(), cut in 0usize..2000) {
        let body = body(&FIXTURES[line]);
        let cut = cut.min(body.len());
        classify(Answer { status: 400, body: &body.as_bytes()[..cut], stream: false }, []);
        classify(Answer { status: 200, body: &body.as_bytes()[cut..], stream: true }, []);
    }
}

fn bodies() -> impl Iterator<Item = String> {
    FIXTURES.iter().map(body)
}

fn body(line: &Value) -> String {
    line["body"].as_str().map_or_else(|| line["body"].to_string(), str::to_owned)
}

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("readable");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn shared(path: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(|parent| parent.join("shared"));
    let folder = std::env::var_os("PLIMSOLL_SHARED").map(PathBuf::from).or(beside)?;
    let file = folder.join(path);
    if !file.exists() {
        eprintln!("skipped: no {}", file.display());
    }
    file.exists().then_some(file)
}

#[track_caller]
fn check(lines: &[Value], least: usize) {
    assert!(lines.len() >= least, "{} lines", lines.len());
    let wrong: Vec<String> = lines.iter().flat_map(|line| faults(line, classified(line))).collect();
    assert!(wrong.is_empty(), "{} faults in {} answers:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}

fn classified(line: &Value) -> Classified {
    let body = body(line);
    let headers: Vec<(String, String)> = line["headers"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    let answer = Answer {
        status: line["status"].as_u64().expect("a status") as u16,
        body: body.as_bytes(),
        stream: line["stream_event"] == Value::Bool(true),
    };
    classify(answer, headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// What is wrong with a verdict. A request that is only a lower bound may be left out, a sum may be given as the prompt alone.
fn faults(line: &Value, got: Classified) -> Vec<String> {
    let id = line["id"].as_str().unwrap_or_default();
    if line["body"].as_str().is_some_and(|body| body.trim().is_empty()) {
        return if got.needs_estimate() || got.class == Class::Bytes { vec![] } else { vec![format!("{id}: {got:?}")] };
    }
    let kind = line["kind"].as_str().unwrap_or_default();
    let fine = match (line["is_overflow"] == Value::Bool(true), kind) {
        (true, "input") => got.class == Class::Input,
        (true, "input_plus_output") => got.class == Class::InputPlusOutput,
        (true, "byte_size") => got.class == Class::Bytes,
        (true, kind) => panic!("{id}: kind {kind}"),
        (false, "rate_limit_tpm_single") => got.class == Class::RateCeiling,
        (false, "payload_too_large") => matches!(got.class, Class::Bytes | Class::None),
        (false, _) => got.class == Class::None,
    };
    if !fine {
        return vec![format!("{id}: is {kind}, got {:?} by {:?}", got.class, got.rule)];
    }
    if line["is_overflow"] != Value::Bool(true) {
        return vec![];
    }
    let expected = |name: &str| line[name].as_u64();
    let flag = |name: &str| line[name] == Value::Bool(true);
    let requested = match (expected("requested_tokens"), got.requested) {
        (_, None) if flag("requested_is_lower_bound") => true,
        (Some(total), Some(got))
            if flag("requested_is_computed") && got == total.saturating_sub(expected("output_tokens").unwrap_or(0)) =>
        {
            true
        }
        (expected, got) => expected == got,
    };
    let output = expected("output_tokens") == got.output || expected("output_tokens") == Some(0) && got.output.is_none();
    [("limit", expected("limit_tokens") == got.limit), ("requested", requested), ("output", output)]
        .iter()
        .filter(|(_, fine)| !fine)
        .map(|(name, _)| {
            format!(
                "{id}: {name} of limit {:?} requested {:?} output {:?}, got {:?} {:?} {:?}",
                expected("limit_tokens"),
                expected("requested_tokens"),
                expected("output_tokens"),
                got.limit,
                got.requested,
                got.output
            )
        })
        .collect()
}
