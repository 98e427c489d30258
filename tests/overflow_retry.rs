//! Once: after a refusal there is at most one extra request, never after output began, and the agent sees one clean answer.

mod support;

use std::{io::Write, sync::atomic::Ordering};

use support::{CHAT, HELLO, SSE, Upstream, agent::ask, answer, chunk, ok, post, proxy_with, script::Scripted, sse};

const OVERFLOW: &str = r#"{"error":{"message":"This model's maximum context length is 8 tokens","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
const OTHER: &str = r#"{"error":{"message":"Invalid value for temperature","type":"invalid_request_error","code":null}}"#;
const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"},\"finish_reason\":null}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

fn refused(status: &str, body: &str) -> Vec<u8> {
    answer(status, "Content-Type: application/json\r\nX-Request-Id: first\r\n", body)
}

fn error_event() -> String {
    format!("data: {OVERFLOW}\n\n")
}

/// What came of one request.
struct Outcome {
    got: support::Got,
    /// Bodies that upstream saw.
    sent: Vec<String>,
    script: Scripted,
}

/// One request to an upstream that answers in turn with `answers`.
async fn run(script: Scripted, answers: Vec<Vec<u8>>) -> Outcome {
    let upstream = Upstream::new(move |n, _| answers.get(n).cloned().unwrap_or_else(|| ok(r#"{"too":"many"}"#))).await;
    let proxy = proxy_with(&upstream, |_| {}, script.decide()).await;
    let got = ask(proxy.address, post(CHAT, HELLO)).await;
    // What is learnt of an answer is learnt when the agent has it.
    while proxy.metrics.unsettled.load(Ordering::Acquire) > 0 {
        tokio::task::yield_now().await;
    }
    let sent = upstream.seen().into_iter().map(|seen| String::from_utf8(seen.body).unwrap()).collect();
    Outcome { got, sent, script }
}

fn harder() -> Scripted {
    Scripted { harder: Some("{\"less\":1}"), ..Scripted::default() }
}

fn edits() -> Scripted {
    Scripted { first: Some("{\"edited\":1}"), harder: Some("{\"less\":1}"), ..Scripted::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overflow_is_answered_by_a_shorter_request_and_never_seen() {
    let check = async |first: Vec<u8>, second: Vec<u8>, body: &str| {
        let outcome = run(harder(), vec![first, second]).await;
        assert_eq!((outcome.got.status(), outcome.got.text()), (200, body));
        assert_eq!(outcome.got.header("x-plimsoll-retried"), Some("harder"));
        assert_eq!(outcome.got.header("x-plimsoll-trigger"), Some("overflow"));
        assert_eq!(outcome.got.header("x-request-id"), None, "of the first answer");
        assert_eq!(outcome.sent, [HELLO, "{\"less\":1}"]);
    };
    check(refused("400 Bad Request", OVERFLOW), ok("{}"), "{}").await;
    check(refused("413 Payload Too Large", "<html>"), ok("{}"), "{}").await;
    check(refused("500 Internal Server Error", OVERFLOW), ok("{}"), "{}").await;
    check(refused("200 OK", OVERFLOW), ok("{}"), "{}").await;
    let good = format!("{ROLE}{WORD}{DONE}");
    check(refused("400 Bad Request", OVERFLOW), sse(&[ROLE, WORD, DONE]), &good).await;
    check(sse(&[&error_event(), DONE]), sse(&[ROLE, WORD, DONE]), &good).await;
    let shouted =
        |stream: Vec<u8>| String::from_utf8(stream).unwrap().replace("text/event-stream", "Text/Event-Stream; Charset=UTF-8").into_bytes();
    check(shouted(sse(&[&error_event(), DONE])), sse(&[ROLE, WORD, DONE]), &good).await;
    check(sse(&[ROLE, &error_event()]), sse(&[ROLE, WORD, DONE]), &good).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn once_a_second_request_that_gets_no_answer_is_not_sent_again() {
    for script in [harder(), edits()] {
        // On the connection that has just carried the first.
        let first = refused("400 Bad Request", if script.first.is_some() { OTHER } else { OVERFLOW });
        let outcome = run(script, vec![first, Vec::new()]).await;
        assert_eq!((outcome.got.status(), outcome.sent.len()), (400, 2), "{:?}", outcome.sent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_overflow_is_seen() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(OVERFLOW.as_bytes()).unwrap();
    let first = answer("400 Bad Request", "Content-Encoding: gzip\r\n", gzip.finish().unwrap());
    let outcome = run(harder(), vec![first, ok("{}")]).await;
    assert_eq!((outcome.got.text(), outcome.sent.len()), ("{}", 2));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(error_event().as_bytes()).unwrap();
    let head = SSE.replace("\r\n\r\n", "\r\nContent-Encoding: gzip\r\n\r\n");
    let first = [head.as_bytes(), &chunk(gzip.finish().unwrap()), support::END].concat();
    let outcome = run(harder(), vec![first, sse(&[WORD, DONE])]).await;
    assert_eq!((outcome.got.text(), outcome.sent.len()), (format!("{WORD}{DONE}").as_str(), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_second_try_fails_too_the_first_error_goes_down_byte_for_byte() {
    let seconds = [
        refused("400 Bad Request", OVERFLOW),
        refused("400 Bad Request", OTHER),
        refused("500 Internal Server Error", "{}"),
        sse(&[&error_event()]),
        b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(),
    ];
    for second in seconds {
        let outcome = run(harder(), vec![refused("400 Too Long", OVERFLOW), second, ok("third")]).await;
        assert_eq!((outcome.got.line.as_str(), outcome.got.text()), ("HTTP/1.1 400 Too Long", OVERFLOW));
        assert_eq!(outcome.got.header("x-request-id"), Some("first"));
        assert_eq!(outcome.sent.len(), 2);
        assert_eq!(outcome.script.told.lock().unwrap().overflows, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overflow_that_cannot_be_helped_goes_down_unchanged() {
    let outcome = run(Scripted::default(), vec![refused("400 Too Long", OVERFLOW)]).await;
    assert_eq!((outcome.got.line.as_str(), outcome.got.text(), outcome.sent.len()), ("HTTP/1.1 400 Too Long", OVERFLOW, 1));
    let stream = sse(&[ROLE, &error_event(), DONE]);
    let outcome = run(Scripted::default(), vec![stream]).await;
    assert_eq!((outcome.got.text(), outcome.sent.len()), (format!("{ROLE}{}{DONE}", error_event()).as_str(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_refusal_of_an_edit_is_answered_by_the_original_and_the_edit_is_quarantined() {
    for (status, second) in [
        ("400 Bad Request", ok("{}")),
        ("422 Unprocessable Entity", refused("400 Bad Request", OTHER)),
        ("400 Bad Request", refused("400 Bad Request", OVERFLOW)),
    ] {
        let outcome = run(edits(), vec![refused(status, OTHER), second.clone()]).await;
        assert_eq!(outcome.sent, ["{\"edited\":1}", HELLO]);
        assert_eq!(outcome.got.header("x-plimsoll-retried"), Some("original"));
        assert!(second.ends_with(&outcome.got.body), "the answer to the original is final");
        assert_eq!(outcome.script.told.lock().unwrap().quarantined, [support::script::ticket(1)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_request_that_overflows_is_tried_harder() {
    let outcome = run(edits(), vec![refused("400 Bad Request", OVERFLOW), ok("{}")]).await;
    assert_eq!((outcome.got.status(), outcome.sent), (200, vec!["{\"edited\":1}".to_owned(), "{\"less\":1}".to_owned()]));
    assert!(outcome.script.told.lock().unwrap().quarantined.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harder_edit_that_is_refused_for_another_reason_is_quarantined() {
    let outcome = run(harder(), vec![refused("400 Bad Request", OVERFLOW), refused("400 Bad Request", OTHER)]).await;
    assert_eq!(outcome.got.text(), OVERFLOW);
    assert_eq!(outcome.script.told.lock().unwrap().quarantined, [support::script::ticket(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_overflow_is_asked_once() {
    let statuses = [
        "400 Bad Request",
        "401 Unauthorized",
        "404 Not Found",
        "422 Unprocessable Entity",
        "429 Too Many Requests",
        "500 Oops",
        "529 Overloaded",
    ];
    for status in statuses {
        let outcome = run(harder(), vec![refused(status, OTHER)]).await;
        assert_eq!((outcome.got.line.as_str(), outcome.got.text(), outcome.sent.len()), (format!("HTTP/1.1 {status}").as_str(), OTHER, 1));
    }
    for status in ["401 Unauthorized", "429 Too Many Requests"] {
        let outcome = run(edits(), vec![refused(status, OVERFLOW)]).await;
        assert_eq!((outcome.got.text(), outcome.sent.len()), (OVERFLOW, 1), "{status}");
    }
    let quoted = r#"{"choices":[{"message":{"content":"context_length_exceeded"}}]}"#;
    let outcome = run(harder(), vec![ok(quoted)]).await;
    assert_eq!((outcome.got.text(), outcome.sent.len()), (quoted, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_second_try_after_output() {
    let outcome = run(harder(), vec![sse(&[ROLE, WORD, &error_event()]), sse(&[WORD])]).await;
    assert_eq!((outcome.got.text(), outcome.sent.len()), (format!("{ROLE}{WORD}{}", error_event()).as_str(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn comments_pass_at_once_and_do_not_prevent_the_second_try() {
    let (passed, seen) = tokio::sync::oneshot::channel::<()>();
    let seen = std::sync::Mutex::new(Some(seen));
    let upstream = Upstream::conduct(move |n, _, mut stream| {
        let seen = seen.lock().unwrap().take();
        async move {
            use tokio::io::AsyncWriteExt;
            if n == 0 {
                stream.write_all(&[SSE.as_bytes(), &chunk(": waiting\n\n")].concat()).await.unwrap();
                // Only when the agent has the comment does the error come.
                seen.unwrap().await.unwrap();
                stream.write_all(&[chunk(error_event()), support::END.to_vec()].concat()).await.unwrap();
            } else {
                stream.write_all(&sse(&[ROLE, WORD, DONE])).await.unwrap();
            }
            Some(stream)
        }
    })
    .await;
    let proxy = proxy_with(&upstream, |_| {}, harder().decide()).await;
    let mut agent = support::Agent::connect(proxy.address).await;
    agent.send(post(CHAT, HELLO)).await;
    agent.until(": waiting\n\n").await;
    passed.send(()).unwrap();
    let got = agent.answer().await;
    assert_eq!((got.text(), upstream.seen().len()), (format!(": waiting\n\n{ROLE}{WORD}{DONE}").as_str(), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn bookkeeping_is_not_held_for_ever() {
    let (passed, seen) = tokio::sync::oneshot::channel::<()>();
    let seen = std::sync::Mutex::new(Some(seen));
    let upstream = Upstream::conduct(move |_, _, mut stream| {
        let seen = seen.lock().unwrap().take();
        async move {
            use tokio::io::AsyncWriteExt;
            stream.write_all(&[SSE.as_bytes(), &chunk(ROLE)].concat()).await.unwrap();
            seen?.await.unwrap();
            stream.write_all(&[chunk(error_event()), support::END.to_vec()].concat()).await.unwrap();
            Some(stream)
        }
    })
    .await;
    let proxy = proxy_with(&upstream, |_| {}, harder().decide()).await;
    let mut agent = support::Agent::connect(proxy.address).await;
    agent.send(post(CHAT, HELLO)).await;
    agent.until(ROLE).await;
    passed.send(()).unwrap();
    let got = agent.answer().await;
    assert_eq!((got.text(), upstream.seen().len()), (format!("{ROLE}{}", error_event()).as_str(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_body_goes_under_no_old_idempotency_key() {
    let answers = [refused("400 Bad Request", OVERFLOW), ok("{}")];
    let upstream = Upstream::new(move |n, _| answers[n].clone()).await;
    let proxy = proxy_with(&upstream, |_| {}, harder().decide()).await;
    let request =
        format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nX-Other: o\r\nContent-Length: {}\r\n\r\n{HELLO}", HELLO.len());
    assert_eq!(ask(proxy.address, request).await.status(), 200);
    let keys: Vec<_> =
        upstream.seen().iter().map(|seen| (seen.header("idempotency-key").is_some(), seen.header("x-other").is_some())).collect();
    assert_eq!(keys, [(true, true), (false, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_request_over_the_rate_limit_is_tried_again_only_where_that_is_wanted() {
    // The classifier's own tests say which refusals are of this kind; here only that a 429 is left alone.
    let outcome =
        run(harder(), vec![refused("429 Too Many Requests", r#"{"error":{"message":"Request too large (TPM): Limit 8, Requested 9"}}"#)])
            .await;
    assert_eq!((outcome.got.status(), outcome.sent.len()), (429, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_learnt() {
    let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2}}\n\n";
    let outcome = run(harder(), vec![refused("400 Bad Request", OVERFLOW), sse(&[ROLE, WORD, usage, DONE])]).await;
    let told = outcome.script.told.lock().unwrap();
    assert_eq!(told.usage.iter().map(|usage| (usage.input, usage.output)).collect::<Vec<_>>(), [(Some(11), Some(2))]);
}
