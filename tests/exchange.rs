//! What an exchange does when things do not go well: errors in the agent's own words, nothing lost, nothing done twice, nothing left open.

mod support;

use plimsoll::{config::Route, proxy::decide::Decide};
use support::{Agent, CHAT, END, HELLO, SSE, Upstream, agent::ask, chunk, nobody, ok, post, proxy, proxy_to, proxy_with, script::Scripted};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"},\"finish_reason\":null}]}\n\n";

/// An error of ours in the shape of the API at `path`, without anything that is nobody's business.
fn assert_ours(got: &support::Got, path: &str, status: u16, secret: &str) {
    assert_eq!(got.status(), status, "{got:?}");
    assert_eq!(got.header("content-type"), Some("application/json"));
    assert!(got.json()["error"]["message"].as_str().unwrap().starts_with("plimsoll: "));
    assert_eq!(got.json()["type"] == "error", path.ends_with("/messages"));
    assert!(!got.text().contains(secret) && !got.text().contains("sk-"), "{}", got.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_is_not_there_is_a_502_in_the_api_s_own_shape() {
    let address = nobody();
    let proxy = proxy_to(&format!("http://{address}/v1?key=SECRET"), |_| {}, Decide::default()).await;
    for path in [CHAT, "/v1/responses", "/v1/messages", "/v1/embeddings"] {
        let got = ask(proxy.address, post(path, HELLO)).await;
        assert_ours(&got, path, 502, "SECRET");
        assert!(
            got.text().contains("cannot be reached: connection refused") && !got.text().contains(&address.to_string()),
            "{}",
            got.text()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_a_504() {
    let upstream = Upstream::conduct(|_, _, stream| async move {
        let _open = stream;
        std::future::pending().await
    })
    .await;
    let proxy = proxy_with(&upstream, |config| config.connection.response_timeout = 0.05, Decide::default()).await;
    assert_ours(&ask(proxy.address, post("/v1/messages", HELLO)).await, "/v1/messages", 504, "127.0.0.1");
    // Once: what upstream has taken is not sent again.
    upstream.only();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_pauses_for_too_long_breaks() {
    let upstream = Upstream::conduct(|_, _, mut stream| async move {
        stream.write_all(&[SSE.as_bytes(), &chunk(WORD)].concat()).await.unwrap();
        let _open = stream;
        std::future::pending().await
    })
    .await;
    let proxy = proxy_with(&upstream, |config| config.connection.idle_timeout = 0.05, Decide::default()).await;
    let got = ask(proxy.address, post(CHAT, HELLO)).await;
    assert!(got.broken && got.body == chunk(WORD), "{got:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_is_a_502_and_asked_once() {
    let upstream = Upstream::new(|_, _| b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()).await;
    let proxy = proxy(&upstream).await;
    assert_ours(&ask(proxy.address, post(CHAT, HELLO)).await, CHAT, 502, "SSH");
    upstream.only();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_connection_that_upstream_closes_is_a_502_and_asked_once() {
    let upstream = Upstream::new(|_, _| Vec::new()).await;
    let proxy = proxy(&upstream).await;
    assert_ours(&ask(proxy.address, post(CHAT, HELLO)).await, CHAT, 502, "127.0.0.1");
    upstream.only();
}

/// Upstream sees each request once, although it closes every connection behind its answer without saying so.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_died_in_the_pool_costs_nobody_an_answer() {
    let upstream = Upstream::conduct(|n, _, mut stream| async move {
        stream.write_all(&ok(&format!("{{\"n\":{n}}}"))).await.unwrap();
        None
    })
    .await;
    let proxy = proxy(&upstream).await;
    for n in 0..40 {
        let path = if n % 2 == 0 { CHAT } else { "/v1/embeddings" };
        assert_eq!(ask(proxy.address, post(path, &format!("{{\"ask\":{n}}}"))).await.text(), format!("{{\"n\":{n}}}"));
    }
    assert_eq!(
        upstream.seen().iter().map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).collect::<Vec<_>>(),
        (0..40).map(|n| format!("{{\"ask\":{n}}}")).collect::<Vec<_>>()
    );
}

/// The harder kind: upstream closes only when the next request is already on its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_on_a_connection_that_closes_under_it_is_sent_on_a_new_one() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let upstream = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        let mut buffer = vec![0; 4096];
        let _ = first.read(&mut buffer).await.unwrap();
        first.write_all(&ok("{\"n\":1}")).await.unwrap();
        // Takes the second request and drops it unanswered, as a server does that had decided to close.
        let taken = first.read(&mut buffer).await.unwrap();
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        let again = second.read(&mut buffer).await.unwrap();
        second.write_all(&ok("{\"n\":2}")).await.unwrap();
        (taken, again)
    });
    let proxy = proxy_to(&format!("http://{address}"), |_| {}, Decide::default()).await;
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.text(), "{\"n\":1}");
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.text(), "{\"n\":2}");
    let (taken, again) = upstream.await.unwrap();
    assert_eq!(taken, again);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_leaves_before_the_answer_cancels_it_upstream() {
    let (gone, left) = tokio::sync::oneshot::channel();
    let gone = std::sync::Mutex::new(Some(gone));
    let upstream = Upstream::conduct(move |_, _, mut stream| {
        let gone = gone.lock().unwrap().take();
        async move {
            let end = stream.read(&mut [0; 1]).await.unwrap_or(0);
            gone?.send(end).unwrap();
            None
        }
    })
    .await;
    let proxy = proxy(&upstream).await;
    let mut agent = Agent::connect(proxy.address).await;
    agent.send(post(CHAT, HELLO)).await;
    upstream.arrived(1).await;
    drop(agent);
    assert_eq!(left.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_leaves_in_the_middle_of_an_answer_cancels_it_upstream() {
    let (gone, left) = tokio::sync::oneshot::channel();
    let gone = std::sync::Mutex::new(Some(gone));
    let upstream = Upstream::conduct(move |_, _, mut stream| {
        let gone = gone.lock().unwrap().take();
        async move {
            stream.write_all(&[SSE.as_bytes(), &chunk(WORD)].concat()).await.unwrap();
            let end = stream.read(&mut [0; 1]).await.unwrap_or(0);
            gone?.send(end).unwrap();
            None
        }
    })
    .await;
    let proxy = proxy(&upstream).await;
    let mut agent = Agent::connect(proxy.address).await;
    agent.send(post(CHAT, HELLO)).await;
    agent.until(WORD).await;
    drop(agent);
    assert_eq!(left.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_dies_in_mid_stream_breaks_the_agent_s_connection_too() {
    for cut in [true, false] {
        let upstream = Upstream::conduct(move |_, _, mut stream| async move {
            stream.write_all(&[SSE.as_bytes(), &chunk(WORD), &chunk(WORD)].concat()).await.unwrap();
            if cut {
                stream.write_all(b"ff\r\nhalf a chu").await.unwrap();
            }
            None
        })
        .await;
        let proxy = proxy(&upstream).await;
        let got = ask(proxy.address, post(CHAT, HELLO)).await;
        assert!(got.broken, "{got:?}");
        assert!(got.body.starts_with(&[chunk(WORD), chunk(WORD)].concat()), "what came before is delivered: {got:?}");
        assert!(!got.body.ends_with(END));
        upstream.only();
    }
    let upstream =
        Upstream::new(|_, _| b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"half\":".to_vec()).await;
    let upstream_closes = Upstream::conduct(|_, _, mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"half\":").await.unwrap();
        None
    })
    .await;
    drop(upstream);
    let proxy = proxy(&upstream_closes).await;
    let got = ask(proxy.address, post(CHAT, HELLO)).await;
    assert!(got.broken && got.text() == "{\"half\":", "{got:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_body_over_the_limit_is_a_413_and_stays_here() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(&upstream, |config| config.max_chat_bytes = 1000, Decide::default()).await;
    let large = "x".repeat(300_000);
    for path in [CHAT, "/v1/messages"] {
        assert_ours(&ask(proxy.address, post(path, &large)).await, path, 413, "127.0.0.1");
        let chunked =
            [format!("POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes(), chunk(&large), END.to_vec()]
                .concat();
        assert_ours(&ask(proxy.address, chunked).await, path, 413, "127.0.0.1");
    }
    // One that waits to be asked for its body never has to send it.
    let mut agent = Agent::connect(proxy.address).await;
    agent.send(format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 300000\r\n\r\n")).await;
    assert_ours(&agent.answer().await, CHAT, 413, "127.0.0.1");
    assert!(upstream.seen().is_empty());
    // Other bodies have no limit.
    assert_eq!(ask(proxy.address, post("/v1/files", &large)).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_open_what_cannot_be_decoded_or_decodes_to_too_much_passes_unread() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let script = Scripted { first: Some("{\"edited\":1}"), ..Scripted::default() };
    let proxy = proxy_with(&upstream, |config| config.max_chat_bytes = 1000, script.decide()).await;
    let bomb = zstd::encode_all([b' '; 5000].as_slice(), 3).unwrap();
    let often = vec!["identity, gzip"; 60].join(", ");
    for (encoding, body) in [("zstd", bomb), ("gzip", b"no gzip".to_vec()), ("unheard-of", b"?".to_vec()), (&often, b"?".to_vec())] {
        let head = format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n", body.len());
        let before = upstream.seen().len();
        assert_eq!(ask(proxy.address, [head.as_bytes(), &body].concat()).await.status(), 200);
        let seen = &upstream.seen()[before];
        assert_eq!((&seen.body, seen.header("content-encoding")), (&body, Some(encoding)));
    }
    assert!(script.told.lock().unwrap().bodies.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_open_a_panic_in_compaction_sends_the_original() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(&upstream, |_| {}, Scripted { panic: true, ..Scripted::default() }.decide()).await;
    let large = format!("{{\"pad\":\"{}\"}}", "x".repeat(100_000));
    for body in [HELLO, &large] {
        assert_eq!(ask(proxy.address, post(CHAT, body)).await.text(), "{}");
    }
    assert_eq!(upstream.seen().iter().map(|seen| seen.body.len()).collect::<Vec<_>>(), [HELLO.len(), large.len()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_can_be_left_alone() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(&upstream, |_| {}, Scripted { first: Some("{\"edited\":1}"), ..Scripted::default() }.decide()).await;
    let request = |headers: &str| format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {}\r\n\r\n{HELLO}", HELLO.len());
    for (headers, wanted) in [
        ("", "{\"edited\":1}"),
        ("X-Plimsoll-Compact: off; comparing\r\n", HELLO),
        ("Authorization: AWS4-HMAC-SHA256 Credential=x, Signature=y\r\n", HELLO),
    ] {
        let before = upstream.seen().len();
        assert_eq!(ask(proxy.address, request(headers)).await.status(), 200);
        assert_eq!(String::from_utf8_lossy(&upstream.seen()[before].body), wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_cannot_choose_the_upstream() {
    let decoy = Upstream::new(|_, _| ok("{\"decoy\":1}")).await;
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let evil = decoy.address;
    for line in [format!("POST http://{evil}{CHAT}"), format!("POST //{evil}{CHAT}"), format!("POST {CHAT}")] {
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {evil}\r\nX-Forwarded-Host: {evil}\r\nX-Upstream-Url: http://{evil}/\r\nForwarded: host={evil}\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        assert_eq!(ask(proxy.address, request).await.text(), "{}");
    }
    let got = ask(proxy.address, format!("CONNECT {evil} HTTP/1.1\r\nHost: {evil}\r\n\r\n")).await;
    assert_ours(&got, "", 405, &evil.to_string());
    assert!(decoy.seen().is_empty());
    assert!(upstream.seen().iter().all(|seen| seen.header("host") == Some(&upstream.address.to_string())));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_by_route_with_its_own_base_and_policy() {
    let (first, second) = (Upstream::new(|_, _| ok("{}")).await, Upstream::new(|_, _| ok("{}")).await);
    let route = Route { path: "/router".into(), upstream: format!("{}/api/v4", second.url()), ..Route::default() };
    let proxy = proxy_with(&first, |config| config.route.push(route), Decide::default()).await;
    for path in ["/router/v1/chat/completions?x=1", "/router/chat/completions?x=1"] {
        assert_eq!(ask(proxy.address, post(path, HELLO)).await.status(), 200);
    }
    assert_eq!(ask(proxy.address, post("/chat/completions", HELLO)).await.status(), 200);
    assert_eq!(second.seen().iter().map(|seen| seen.target().to_owned()).collect::<Vec<_>>(), ["/api/v4/chat/completions?x=1"; 2]);
    assert_eq!(first.only().target(), "/v1/chat/completions");
}

/// Back pressure: a fast upstream and an agent that does not read. What is sent is far more than any buffer on the way.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_agent_slows_its_upstream() {
    const PIECE: usize = 64 << 10;
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let upstream = Upstream::conduct(move |_, _, mut stream| {
        let count = count.clone();
        async move {
            stream.write_all(SSE.as_bytes()).await.unwrap();
            let piece = chunk(format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(PIECE)));
            for _ in 0..2000 {
                stream.write_all(&piece).await.ok()?;
                count.fetch_add(piece.len(), std::sync::atomic::Ordering::Relaxed);
            }
            stream.write_all(END).await.ok()?;
            Some(stream)
        }
    })
    .await;
    let proxy = proxy(&upstream).await;
    let mut agent = Agent::connect(proxy.address).await;
    agent.send(post(CHAT, HELLO)).await;
    agent.until("data: ").await;
    // Upstream gets stuck: what it has sent stops growing long before all of it is sent.
    let mut before = usize::MAX;
    loop {
        let now = sent.load(std::sync::atomic::Ordering::Relaxed);
        if now == before {
            break;
        }
        before = now;
        // Another exchange takes its time, and shows that nobody else is held up.
        assert_eq!(
            ask(proxy_to(&Upstream::new(|_, _| ok("{}")).await.url(), |_| {}, Decide::default()).await.address, post(CHAT, HELLO))
                .await
                .status(),
            200
        );
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert!(before < 64 << 20, "{before} bytes of 128 MB went out to an agent that reads nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_of_ours_that_cannot_be_meant_is_answered_in_the_agents_wire_format() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let with = |header: &str, path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: proxy.example\r\n{header}\r\nContent-Length: {}\r\n\r\n{HELLO}", HELLO.len())
    };
    for path in [CHAT, "/v1/responses", "/v1/messages"] {
        for (header, accepted) in
            [("x-plimsoll-window: 8k", "a whole number of tokens"), ("x-plimsoll-compact: maybe", "off, now or defer")]
        {
            let got = ask(proxy.address, with(header, path)).await;
            let (name, value) = header.split_once(": ").unwrap();
            let error = &got.json()["error"];
            let message = error["message"].as_str().unwrap();
            assert_eq!((got.status(), error["type"].as_str()), (400, Some("invalid_request_error")), "{got:?}");
            assert!(message.contains(name) && message.contains(accepted) && !message.contains(value), "{message}");
            assert_eq!(got.json()["type"] == "error", path == "/v1/messages");
        }
    }
    assert_eq!(upstream.seen().len(), 0);
    // Where the header means nothing, nothing is made of it.
    assert_eq!(ask(proxy.address, with("x-plimsoll-window: 8k", "/v1/other")).await.status(), 200);
}
