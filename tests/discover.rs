//! A window that nobody said is asked of upstream: once, beside the requests, and of local servers before the first one.

mod support;

use std::{sync::Arc, time::Duration};

use plimsoll::{
    config::Config,
    proxy::{decide::Decide, lifecycle::Running},
};
use serde_json::json;
use support::{CHAT, Got, HELLO, Upstream, agent::ask, answer, ok, post, proxy_to};
use tokio::{
    io::AsyncWriteExt,
    sync::{Barrier, Notify},
};

const PROPS: &str = r#"{"default_generation_settings":{"n_ctx":1024},"total_slots":1}"#;

async fn discovering(url: &str, change: impl FnOnce(&mut Config)) -> Running {
    let change = |config: &mut Config| {
        config.discover = true;
        // Longer than any machine takes, so that what is waited for is there.
        config.discover_wait = 60.0;
        change(config);
    };
    proxy_to(url, change, Decide::default()).await
}

/// A server that tells its window in /props and answers everything else.
async fn tells() -> Upstream {
    Upstream::new(|_, seen| if seen.target() == "/props" { ok(PROPS) } else { ok("{}") }).await
}

fn missing() -> Vec<u8> {
    answer("404 Not Found", "", "no")
}

/// A conversation of some 2,500 tokens.
fn long() -> String {
    let mut messages = vec![json!({"role": "user", "content": "Find out why the build is slow."})];
    for turn in 0..24 {
        messages.push(json!({"role": "assistant", "content": format!("Step {turn}: {}", "the linker took long again and the cache was cold ".repeat(8))}));
        messages.push(json!({"role": "user", "content": format!("go on with step {}", turn + 1)}));
    }
    json!({"model": "m", "messages": messages}).to_string()
}

fn targets(upstream: &Upstream) -> Vec<String> {
    upstream.seen().iter().map(|seen| seen.target().to_owned()).collect()
}

fn with_headers(headers: &str, body: &str) -> Vec<u8> {
    String::from_utf8(post(CHAT, body)).unwrap().replace("Host:", &format!("{headers}Host:")).into_bytes()
}

fn is_compacted(got: &Got) -> bool {
    got.header("x-plimsoll-trigger").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_to_a_local_server_waits_for_its_window_and_is_compacted_by_it() {
    let upstream = tells().await;
    let proxy = discovering(&upstream.url(), |_| {}).await;
    let got = ask(proxy.address, post(CHAT, &long())).await;
    assert!(got.status() == 200 && is_compacted(&got), "{got:?}");
    assert_eq!(targets(&upstream), ["/props", CHAT]);
    assert!(upstream.seen()[1].body.len() < long().len() / 2);
    assert!(is_compacted(&ask(proxy.address, post(CHAT, &long())).await));
    assert_eq!(targets(&upstream), ["/props", CHAT, CHAT]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_at_once_ask_once() {
    let upstream = tells().await;
    let proxy = discovering(&upstream.url(), |_| {}).await;
    let together = Arc::new(Barrier::new(8));
    let agents: Vec<_> = (0..8)
        .map(|_| {
            let (together, address) = (together.clone(), proxy.address);
            tokio::spawn(async move {
                together.wait().await;
                ask(address, post(CHAT, &long())).await
            })
        })
        .collect();
    for agent in agents {
        assert!(is_compacted(&agent.await.unwrap()));
    }
    assert_eq!(targets(&upstream).iter().filter(|target| *target == "/props").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_where_the_window_is_said_or_discovery_is_off_or_the_request_passes_anyway() {
    let check = async |what: &str, change: fn(&mut Config), headers: &str, body: &str| {
        let upstream = tells().await;
        let proxy = discovering(&upstream.url(), change).await;
        ask(proxy.address, with_headers(headers, body)).await;
        ask(proxy.address, with_headers(headers, body)).await;
        assert_eq!(targets(&upstream), [CHAT, CHAT], "{what}");
    };
    let body = &long();
    check("configured", |config| config.policy.window = 8000, "", body).await;
    check("told by the agent", |_| {}, "x-plimsoll-window: 8000\r\n", body).await;
    check("off", |config| config.discover = false, "", body).await;
    check("no compaction", |config| config.policy.mode = plimsoll::decide::Mode::Off, "", body).await;
    check("steered past", |_| {}, "x-plimsoll-compact: off\r\n", body).await;
    check("a probe", |_| {}, "", r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}"#).await;
    check("no model", |_| {}, "", r#"{"messages":[{"role":"user","content":"hello"}]}"#).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_is_header_configuration_upstream() {
    let check = async |window: u64, headers: &str, pressure: Option<&str>| {
        let upstream = tells().await;
        let proxy = discovering(&upstream.url(), |config| config.policy.window = window).await;
        // Due at any window, so that it is counted and the pressure is said.
        let got = ask(proxy.address, with_headers(&format!("x-plimsoll-compact: now\r\n{headers}"), &long())).await;
        let told = |name: &str| got.header(name).unwrap().parse::<f64>().unwrap();
        let window = told("x-plimsoll-tokens-after") / told("x-plimsoll-pressure");
        let wanted: f64 = pressure.unwrap().parse().unwrap();
        assert!((window / wanted - 1.0).abs() < 0.1, "{window} instead of {wanted}");
    };
    check(0, "", Some("1024")).await;
    check(4096, "", Some("4096")).await;
    check(4096, "x-plimsoll-window: 2048\r\n", Some("2048")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_delays_nothing_for_longer_than_it_may() {
    for wait in [0.0, 0.01] {
        let chat_came = Arc::new(Notify::new());
        let upstream = {
            let chat_came = chat_came.clone();
            Upstream::conduct(move |_, seen, mut stream| {
                let chat_came = chat_came.clone();
                async move {
                    match seen.target() {
                        // Tells it only when the request is known not to have waited.
                        "/props" => {
                            chat_came.notified().await;
                            stream.write_all(&ok(PROPS)).await.ok()?;
                        }
                        _ => {
                            chat_came.notify_one();
                            stream.write_all(&ok("{}")).await.ok()?;
                        }
                    }
                    Some(stream)
                }
            })
            .await
        };
        let proxy = discovering(&upstream.url(), |config| config.discover_wait = wait).await;
        let got = ask(proxy.address, post(CHAT, &long())).await;
        assert!(got.status() == 200 && !is_compacted(&got));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_told_too_late_holds_for_the_next_request() {
    let upstream = tells().await;
    let proxy = discovering(&upstream.url(), |config| config.discover_wait = 0.0).await;
    let late = async {
        while !is_compacted(&ask(proxy.address, post(CHAT, &long())).await) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), late).await.expect("never learnt");
    assert_eq!(targets(&upstream).iter().filter(|target| *target == "/props").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_place_is_asked_where_it_lives_with_the_agents_credential_alone() {
    let upstream = Upstream::new(|_, seen| if seen.target().ends_with("/chat/completions") { ok("{}") } else { missing() }).await;
    let proxy = discovering(&format!("{}/llm/v1", upstream.url()), |_| {}).await;
    let headers = "Authorization: Bearer k\r\nX-Api-Key: x\r\nApi-Key: a\r\nAnthropic-Version: 2023-06-01\r\nCookie: c=1\r\nX-Plimsoll-Compact: defer\r\n";
    let got = ask(proxy.address, with_headers(headers, HELLO)).await;
    assert_eq!((got.status(), got.text()), (200, "{}"), "silence is no error");
    let seen = upstream.seen();
    assert_eq!(targets(&upstream), ["/llm/props", "/llm/api/v0/models", "/llm/api/ps", "/llm/v1/models", "/llm/v1/chat/completions"]);
    for question in &seen[..4] {
        assert!(question.line.starts_with("GET ") && question.body.is_empty());
        assert_eq!(question.header("host"), Some(upstream.address.to_string().as_str()));
        for (name, value) in [("authorization", "Bearer k"), ("x-api-key", "x"), ("api-key", "a"), ("anthropic-version", "2023-06-01")] {
            assert_eq!(question.header(name), Some(value));
        }
        for name in ["cookie", "content-type", "x-plimsoll-compact"] {
            assert_eq!(question.header(name), None, "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_none_are_passed_over() {
    let huge = format!("{{\"data\":[{{\"id\":\"m\",\"max_model_len\":512}}],\"padding\":\"{}\"}}", "x".repeat(3 << 20));
    let bad = [
        answer("500 Internal Server Error", "Content-Type: application/json\r\n", PROPS),
        answer("302 Found", "Location: http://elsewhere.example/props\r\n", ""),
        ok("<html>"),
        ok(&huge),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{\"n_ctx\":512}".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(),
        answer("200 OK", "Content-Encoding: gzip\r\n", "no gzip"),
    ];
    for bad in bad {
        let upstream = Upstream::new(move |_, seen| match seen.target() {
            CHAT => ok("{}"),
            "/v1/models" => ok(r#"{"data":[{"id":"other","max_model_len":9999},{"id":"m","max_model_len":1024}]}"#),
            _ => bad.clone(),
        })
        .await;
        let proxy = discovering(&upstream.url(), |_| {}).await;
        let got = ask(proxy.address, post(CHAT, &long())).await;
        assert!(is_compacted(&got), "{:?}", targets(&upstream));
    }
}
