//! Transparent: what needs nothing passes as it came, both ways, byte for byte.

mod support;

use std::io::Write;

use plimsoll::{config::Websocket, proxy::decide::Decide};
use support::{Agent, CHAT, END, HELLO, SSE, Upstream, agent::ask, answer, chunk, ok, post, proxy, proxy_with, script::Scripted};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_reach_upstream_byte_for_byte() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let mut count = 0;
    let mut check = async |path: &str, headers: &str, body: &[u8]| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        assert_eq!(ask(proxy.address, [head.as_bytes(), body].concat()).await.status(), 200);
        count += 1;
        let seen = upstream.seen();
        assert_eq!(seen.len(), count);
        assert_eq!(seen[count - 1].body, body, "{}", String::from_utf8_lossy(&body[..body.len().min(80)]));
    };
    for path in [CHAT, "/v1/responses", "/v1/messages", "/v1/messages/count_tokens?beta=true", "/v1/embeddings"] {
        check(path, "", HELLO.as_bytes()).await;
        check(path, "", b"\r\n{\r\n\t\"model\" :\t\"m\" , \"n\":1.0e-0,\"a\":\"\\u00e9\\ud83d\",\"model\":\"b\" }\n\n").await;
        check(path, "", b"\xef\xbb\xbf{\"model\":\"\xff\xc3(\"}").await;
        check(path, "", b"this is { no json").await;
        check(path, "", b"").await;
        check(path, "", b"{}").await;
        check(path, "", b" {\"messages\":null} trailing").await;
        check(path, "Content-Encoding: gzip\r\n", &gzip(HELLO.as_bytes())).await;
        check(path, "Content-Encoding: zstd\r\n", &zstd::encode_all(HELLO.as_bytes(), 3).unwrap()).await;
        check(path, "Content-Encoding: gzip\r\n", b"\x1f\x8b broken").await;
        check(path, "Content-Encoding: snappy\r\n", &[1, 2, 3]).await;
    }
    let large: Vec<u8> = (0..3_000_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
    check(CHAT, "", &large).await;
    check("/v1/files", "Content-Type: multipart/form-data; boundary=x\r\n", &large).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chunked_bodies_and_expectations_are_met() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    for path in [CHAT, "/v1/files"] {
        let request = [
            format!("POST {path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes(),
            b"3;ext=1\r\n{\"a\r\n".to_vec(),
            chunk("\":1}"),
            END.to_vec(),
        ];
        assert_eq!(ask(proxy.address, request.concat()).await.status(), 200);
        let mut agent = Agent::connect(proxy.address).await;
        agent.send(format!("POST {path} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n")).await;
        assert_eq!(agent.head().await.unwrap().0, "HTTP/1.1 100 Continue");
        agent.send("{\"a\":1}").await;
        assert_eq!(agent.answer().await.status(), 200);
    }
    let seen = upstream.seen();
    assert!(seen.len() == 4 && seen.iter().all(|seen| seen.body == b"{\"a\":1}" && seen.header("expect").is_none()), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_keep_spelling_order_and_values() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    for path in [CHAT, "/v1/embeddings"] {
        let before = upstream.seen().len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nX-Stainless-Lang: python\r\nHost: proxy.example\r\nuser-agent: Judge/1.0\r\nX-Custom: One\r\nx-custom: two\r\nx-empty:\r\n"
        );
        let request = [
            head.as_bytes(),
            b"X-Latin: caf\xe9\r\nConnection: close, X-Drop-Me\r\nX-Drop-Me: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nProxy-Authorization: Basic x\r\nx-Plimsoll-Note: ours\r\n",
            b"ACCEPT-ENCODING: gzip, br\r\nCookie: a=1; b=\"two\"\r\nAuthorization: Bearer k\r\nx-api-key: k2\r\nContent-Length: 2\r\nlast: 1\r\n\r\n{}",
        ];
        assert_eq!(ask(proxy.address, request.concat()).await.status(), 200);
        let host = upstream.address.to_string();
        let wanted: [(&str, &[u8]); 13] = [
            ("X-Stainless-Lang", b"python"),
            ("Host", host.as_bytes()),
            ("user-agent", b"Judge/1.0"),
            ("X-Custom", b"One"),
            ("x-custom", b"two"),
            ("x-empty", b""),
            ("X-Latin", b"caf\xe9"),
            ("ACCEPT-ENCODING", b"gzip, br"),
            ("Cookie", b"a=1; b=\"two\""),
            ("Authorization", b"Bearer k"),
            ("x-api-key", b"k2"),
            ("Content-Length", b"2"),
            ("last", b"1"),
        ];
        let seen = &upstream.seen()[before];
        let got: Vec<(&str, &[u8])> = seen.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        assert_eq!(got, wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_and_targets_pass_letter_for_letter() {
    let upstream =
        Upstream::new(
            |_, seen| if seen.line.starts_with("HEAD") { b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec() } else { ok("{}") },
        )
        .await;
    let proxy = proxy(&upstream).await;
    let check = async |line: &str| {
        let before = upstream.seen().len();
        let mut agent = Agent::connect(proxy.address).await;
        agent.send(format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        let (status, headers) = agent.head().await.unwrap();
        assert_eq!(status, "HTTP/1.1 200 OK", "{line}");
        if line.starts_with("HEAD") {
            assert_eq!(headers, [("Content-Length".to_owned(), b"5".to_vec())]);
        }
        let seen = &upstream.seen()[before];
        assert_eq!(seen.line, format!("{line} HTTP/1.1"));
        let framing: Vec<_> = seen.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host")).collect();
        assert!(framing.is_empty(), "{line}: {framing:?}");
    };
    check("GET /v1/models?a=%2F&b=+c&&d&e=%e4%BD%a0&client_version=0.1").await;
    check("GET /v1/files/a%2Fb%20c/..%2e/x").await;
    check("GET /v1//models").await;
    check("GET //v1/models").await;
    check("GET /v1/x/../models/./y?").await;
    check("GET /v1beta/models/m:generate?key=AIza&alt=sse").await;
    check("DELETE /v1/files/file-1?purge=1").await;
    check("HEAD /").await;
    check("OPTIONS /v1/chat/completions").await;
    check("PROPFIND /v1/things").await;
    check("GET /v1/chat/completions").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_pass_byte_for_byte() {
    let check = async |head: &str, body: &[u8], same: &[(&str, &str)]| {
        let raw = [head.as_bytes(), b"\r\n\r\n", body].concat();
        let upstream = Upstream::conduct(move |_, _, mut stream| {
            let raw = raw.clone();
            async move {
                stream.write_all(&raw).await.unwrap();
                None
            }
        })
        .await;
        let proxy = proxy(&upstream).await;
        for path in [CHAT, "/v1/files"] {
            let got = ask(proxy.address, String::from_utf8(post(path, HELLO)).unwrap().replace("Host", "TE: trailers\r\nHost")).await;
            assert_eq!(got.line, head.lines().next().unwrap());
            assert!(!got.broken && (got.body == body || head.contains("chunked")), "{head}: {got:?}");
            let headers: Vec<_> = got.headers.iter().map(|(name, value)| (name.as_str(), std::str::from_utf8(value).unwrap())).collect();
            assert_eq!(headers, same, "{head}");
        }
    };
    check(
        "HTTP/1.1 200 OK\r\nX-Request-ID: req_1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Empty:\r\nVia: 1.1 edge\r\nKeep-Alive: timeout=9\r\nConnection: keep-alive, x-hop\r\nx-hop: 1\r\nContent-Length: 3",
        b"\x00\xff{",
        &[("X-Request-ID", "req_1"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("X-Empty", ""), ("Via", "1.1 edge"), ("Content-Length", "3")],
    )
    .await;
    check("HTTP/1.1 418 I Am A Kettle\r\ncontent-length: 0", b"", &[("content-length", "0")]).await;
    check(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/x\r\ncontent-length: 0",
        b"",
        &[("Location", "http://127.0.0.1:1/x"), ("content-length", "0")],
    )
    .await;
    check("HTTP/1.1 204 No Content\r\nx: y", b"", &[("x", "y")]).await;
    check(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 22",
        &gzip(b"{}")[..22],
        &[("Content-Encoding", "gzip"), ("Content-Length", "22")],
    )
    .await;
    check("HTTP/1.1 200 OK\r\nx: close-delimited", b"{\"a\":1}", &[("x", "close-delimited"), ("transfer-encoding", "chunked")]).await;
    let chunked = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked";
    check(chunked, b"3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n", &[("Trailer", "X-Sum"), ("Transfer-Encoding", "chunked")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_that_are_announced_pass_to_upstream() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let head = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: h\r\nTrailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n");
    let body = "2\r\n{}\r\n0\r\nx-sum: abc\r\n\r\n";
    assert_eq!(ask(proxy.address, head("/v1/files") + body).await.status(), 200);
    let seen = upstream.only();
    assert_eq!((seen.header("trailer"), seen.trailers.as_slice()), (Some("x-sum"), ["x-sum: abc".to_owned()].as_slice()));
    // A chat body is read whole and goes with its length, so nothing can come behind it.
    assert_eq!(ask(proxy.address, head(CHAT) + body).await.status(), 200);
    let seen = &upstream.seen()[1];
    assert_eq!((seen.header("trailer"), seen.header("content-length")), (None, Some("2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_headers_pass_both_ways() {
    let many: String = (0..400).map(|n| format!("x-{n}: {n}\r\n")).collect();
    let given = many.clone();
    let upstream = Upstream::new(move |_, _| support::answer("200 OK", &given, "{}")).await;
    let proxy = proxy(&upstream).await;
    for path in [CHAT, "/v1/files"] {
        let got = ask(proxy.address, format!("POST {path} HTTP/1.1\r\nHost: h\r\n{many}Content-Length: 2\r\n\r\n{{}}")).await;
        assert_eq!((got.status(), got.header("x-399")), (200, Some("399")));
    }
    assert!(upstream.seen().iter().all(|seen| seen.header("x-399") == Some("399")));
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_pass_to_agents_that_take_them() {
    let upstream = Upstream::new(|_, _| {
        [b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n", chunk("abc").as_slice(), b"0\r\nX-Sum: 7\r\n\r\n"]
            .concat()
    })
    .await;
    let proxy = proxy(&upstream).await;
    let got = ask(proxy.address, "GET /x HTTP/1.1\r\nHost: h\r\nTE: trailers\r\n\r\n").await;
    assert_eq!((got.text(), got.trailers.as_slice()), ("abc", ["x-sum: 7".to_owned()].as_slice()));
    let got = ask(proxy.address, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!((got.text(), got.header("trailer"), got.trailers.len()), ("abc", None, 0));
}

/// Each piece is sent only after the agent has got the one before, so a proxy that holds one back would never end.
#[tokio::test(flavor = "multi_thread")]
async fn streams_pass_piece_by_piece() {
    let word = "data: {\"choices\":[{\"delta\":{\"content\":\"\u{1f600}\"}}]}\n\n".as_bytes();
    let cut = word.len() - 12;
    let pieces: Vec<&'static [u8]> =
        [b": keep-alive\r\n\r\n".as_slice(), word, b": again\n\n", word, b"data\n\nunknown: field\n\n", b"data: [DONE]"]
            .into_iter()
            .map(|piece| &*piece.to_vec().leak())
            .collect();
    let mut pieces = pieces;
    pieces.splice(3..4, [&*word[..cut].to_vec().leak(), &*word[cut..].to_vec().leak()]);
    for (path, mime) in [(CHAT, "text/event-stream"), ("/v1/events", "text/event-stream"), ("/v1/other", "application/x-ndjson")] {
        let (next, turn) = tokio::sync::mpsc::channel::<()>(1);
        let turn = std::sync::Arc::new(tokio::sync::Mutex::new(turn));
        let all = pieces.clone();
        let upstream = Upstream::conduct(move |_, _, mut stream| {
            let (all, turn) = (all.clone(), turn.clone());
            async move {
                stream.write_all(SSE.replace("text/event-stream", mime).as_bytes()).await.unwrap();
                for piece in all {
                    stream.write_all(&chunk(piece)).await.unwrap();
                    turn.lock().await.recv().await.unwrap();
                }
                stream.write_all(END).await.unwrap();
                Some(stream)
            }
        })
        .await;
        let proxy = proxy(&upstream).await;
        let mut agent = Agent::connect(proxy.address).await;
        agent.send(post(path, HELLO)).await;
        agent.head().await.unwrap();
        for piece in &pieces {
            agent.until(piece).await;
            agent.buffer.clear();
            next.send(()).await.unwrap();
        }
        agent.until(END).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_agents_and_to_upstream_are_kept() {
    let upstream = Upstream::new(|n, _| ok(&format!("{{\"n\":{n}}}"))).await;
    let proxy = proxy(&upstream).await;
    let mut agent = Agent::connect(proxy.address).await;
    agent.send(post(CHAT, HELLO)).await;
    assert_eq!(agent.answer().await.text(), "{\"n\":0}");
    agent.send([post(CHAT, HELLO), post("/v1/x", "{}")].concat()).await;
    assert_eq!((agent.answer().await.text(), agent.answer().await.text()), ("{\"n\":1}", "{\"n\":2}"));
    assert_eq!(upstream.seen().iter().map(|seen| seen.connection).collect::<Vec<_>>(), [0, 0, 0]);
}

async fn websocket(proxy: std::net::SocketAddr, path: &str) -> Agent {
    let mut agent = Agent::connect(proxy).await;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\nAuthorization: Bearer k\r\n\r\n"
    );
    agent.send(request).await;
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_are_tunnelled_except_on_chat_paths() {
    let upstream = Upstream::conduct(|_, seen, mut stream| async move {
        if seen.header("upgrade") != Some("websocket") || !seen.header("connection").unwrap().contains("Upgrade") {
            return None;
        }
        // The first words of the new protocol come in the same segment as the answer.
        stream
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: a=\r\n\r\nhello",
            )
            .await
            .unwrap();
        let mut said = [0; 5];
        stream.read_exact(&mut said).await.unwrap();
        said.reverse();
        stream.write_all(&said).await.unwrap();
        None
    })
    .await;
    let refusing = proxy(&upstream).await;
    let tunnelling = proxy_with(&upstream, |config| config.websocket = Websocket::Tunnel, Decide::default()).await;
    for (proxy, path) in [(&refusing, "/v1/realtime"), (&tunnelling, "/v1/responses")] {
        let mut agent = websocket(proxy.address, path).await;
        let (line, headers) = agent.head().await.unwrap();
        assert_eq!(line, "HTTP/1.1 101 Switching Protocols");
        let has =
            |name: &str, value: &str| headers.iter().any(|(n, v)| n.eq_ignore_ascii_case(name) && v.eq_ignore_ascii_case(value.as_bytes()));
        assert!(has("upgrade", "websocket") && has("connection", "upgrade") && has("sec-websocket-accept", "a="), "{headers:?}");
        agent.until("hello").await;
        agent.buffer.clear();
        agent.send("abcde").await;
        agent.until("edcba").await;
        agent.buffer.clear();
        assert!(agent.ends().await);
    }
    for path in [CHAT, "/v1/responses", "/v1/messages"] {
        let got = websocket(refusing.address, path).await.answer().await;
        assert_eq!((got.status(), got.json()["error"]["type"].as_str()), (426, Some("invalid_request_error")));
    }
    assert_eq!(upstream.seen().len(), 2);
}

/// Java's client offers HTTP/2 with its first request, and takes it well when nobody takes that up.
#[tokio::test(flavor = "multi_thread")]
async fn an_offer_of_another_protocol_ends_here_and_the_request_goes_on() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    for path in [CHAT, "/v1/embeddings"] {
        let request = format!("POST {path} HTTP/1.1\r\nHost: h\r\n{offer}Content-Length: {}\r\n\r\n{HELLO}", HELLO.len());
        let got = ask(proxy.address, request).await;
        assert_eq!((got.status(), got.text()), (200, "{}"), "{path}");
    }
    for seen in upstream.seen() {
        assert_eq!(seen.body, HELLO.as_bytes());
        assert!(["upgrade", "http2-settings"].iter().all(|name| seen.header(name).is_none()), "{seen:?}");
    }
}

/// To drop the name of a coding would change what the body is.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_coding_besides_chunked_is_refused() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let request = format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    let got = ask(proxy.address, request).await;
    assert_eq!((got.status(), got.json()["error"]["type"].as_str()), (400, Some("invalid_request_error")));
    assert!(upstream.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_upstream_refuses_is_an_answer_like_any_other() {
    let upstream = Upstream::new(|_, _| answer("403 Forbidden", "", "no")).await;
    let proxy = proxy(&upstream).await;
    let got = websocket(proxy.address, "/v1/realtime").await.answer().await;
    assert_eq!((got.status(), got.text()), (403, "no"));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_say_what_was_done_and_a_switch_silences_them() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let script = Scripted { first: Some("{\"edited\":1}"), ..Scripted::default() };
    for (annotate, wanted) in [(true, Some("cull,digest")), (false, None)] {
        let proxy = proxy_with(&upstream, |config| config.annotate = annotate, script.decide()).await;
        let got = ask(proxy.address, post(CHAT, HELLO)).await;
        assert_eq!(got.header("x-plimsoll-rungs"), wanted);
        assert_eq!(got.header("x-plimsoll-tokens-before").is_some(), annotate);
        let other = ask(proxy.address, "GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert!(other.headers.iter().all(|(name, _)| !name.starts_with("x-plimsoll")));
    }
    assert!(upstream.seen().iter().all(|seen| seen.headers.iter().all(|(name, _)| !name.to_lowercase().starts_with("x-plimsoll"))));
}

/// Only what was edited differs: the body is plain, its length true, all other headers as they came.
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_request_goes_as_identity_with_its_true_length() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let script = Scripted { first: Some("{\"edited\":1}"), ..Scripted::default() };
    let proxy = proxy_with(&upstream, |_| {}, script.decide()).await;
    let body = gzip(HELLO.as_bytes());
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: h\r\nA: 1\r\nContent-Encoding: gzip\r\nB: 2\r\nContent-Length: {}\r\nC: 3\r\n\r\n",
        body.len()
    );
    assert_eq!(ask(proxy.address, [head.as_bytes(), &body].concat()).await.status(), 200);
    let seen = upstream.only();
    assert_eq!(seen.body, b"{\"edited\":1}");
    let names: Vec<_> = seen.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Host", "A", "B", "C", "Content-Length"]);
    assert_eq!(script.told.lock().unwrap().bodies[0], HELLO, "compaction sees the plain text");
}
