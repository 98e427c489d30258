//! What a platform team relies on: limits, tokens, certificates, and a configuration that changes whole or not at all, without a dropped connection.

mod support;

use std::{net::SocketAddr, path::PathBuf};

use plimsoll::{
    config::{self, Config, Overrides},
    proxy::{
        decide::Decide,
        lifecycle::{Running, start_from},
        reload::Source,
    },
};
use support::{Agent, CHAT, END, HELLO, SSE, Upstream, agent::ask, chunk, ok, post, proxy_to, proxy_with, secure::Identity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MESSAGES: &str = "/v1/messages";

/// A proxy that runs from a file in a folder of its own.
struct FromFile {
    running: Running,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl FromFile {
    async fn new(text: &str) -> FromFile {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        let head = "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ndiscover = false\nreload = 0.01\n";
        std::fs::write(&file, format!("{head}{text}")).unwrap();
        let source = Source { file: Some(file.clone()), overrides: Overrides::default() };
        let (config, _) = config::load(Some(&file), &source.overrides).unwrap();
        let running = start_from(&config, Some(source), Decide::default(), true).await.unwrap();
        FromFile { running, file, _folder: folder }
    }

    /// Replaces a part of the file.
    fn edit(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.file).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        std::fs::write(&self.file, text.replace(from, to)).unwrap();
    }

    async fn admin(&self, path: &str) -> String {
        ask(self.running.admin.unwrap(), format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await.text().to_owned()
    }

    /// Returns when the admin API says so.
    async fn until(&self, path: &str, wanted: &str) {
        while !self.admin(path).await.contains(wanted) {
            tokio::task::yield_now().await;
        }
    }
}

fn with(headers: &str, path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: proxy.example\r\n{headers}Content-Length: {}\r\n\r\n{HELLO}", HELLO.len())
}

/// An upstream whose answers to `/hold` wait, and the way to let one go.
async fn holding() -> (Upstream, std::sync::Arc<tokio::sync::Semaphore>) {
    let release = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let wait = release.clone();
    let upstream = Upstream::conduct(move |_, seen, mut stream| {
        let wait = wait.clone();
        async move {
            if seen.target().contains("hold") {
                stream.write_all(&[SSE.as_bytes(), &chunk("data: {}\n\n")].concat()).await.ok()?;
                wait.acquire().await.unwrap().forget();
                stream.write_all(END).await.ok()?;
            } else {
                stream.write_all(&ok("{}")).await.ok()?;
            }
            Some(stream)
        }
    })
    .await;
    (upstream, release)
}

async fn hold(address: SocketAddr) -> Agent {
    let mut agent = Agent::connect(address).await;
    agent.send(with("", "/v1/hold")).await;
    agent.until("data: {}").await;
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_put_in_force_whole_or_not_at_all() {
    let (first, second) = (Upstream::new(|_, _| ok("{}")).await, Upstream::new(|_, _| ok("{}")).await);
    let proxy = FromFile::new(&format!("upstream = \"{}\"\n", first.url())).await;
    let mut agent = Agent::connect(proxy.running.address).await;
    let through = async |agent: &mut Agent| {
        agent.send(post(CHAT, HELLO)).await;
        assert_eq!(agent.answer().await.status(), 200);
    };
    through(&mut agent).await;
    proxy.edit(&first.url(), &second.url());
    proxy.until("/metrics", "plimsoll_configuration_loads_total{outcome=\"applied\"} 1").await;
    through(&mut agent).await;
    assert_eq!((first.seen().len(), second.seen().len()), (1, 1));

    // Half of this is right.
    proxy.edit(&second.url(), &format!("{}\"\n[policy]\ntarget = 45\n#\"", first.url()));
    proxy.until("/status", "policy.target: 45 is not accepted").await;
    assert!(proxy.admin("/metrics").await.contains("plimsoll_configuration_valid 0"));
    through(&mut agent).await;
    assert_eq!((first.seen().len(), second.seen().len()), (1, 2), "the old one stays");

    proxy.edit("target = 45", "target = 0.4");
    proxy.until("/status", "\"problem\":null").await;
    assert!(proxy.admin("/metrics").await.contains("plimsoll_configuration_valid 1"));
    through(&mut agent).await;
    assert_eq!((first.seen().len(), second.seen().len()), (2, 2));

    proxy.edit("admin = \"127.0.0.1:0\"", "admin = \"127.0.0.1:1\"");
    proxy.until("/status", "admin: cannot change while it runs").await;
    through(&mut agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_half_written_is_not_read() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = FromFile::new(&format!("upstream = \"{}\"\n", upstream.url())).await;
    let text = std::fs::read_to_string(&proxy.file).unwrap() + "annotate = false\n";
    // Longer than from one look to the next, a byte at a time.
    let mut file = std::fs::File::create(&proxy.file).unwrap();
    let remark = format!("#{}\n", "x".repeat(20_000));
    for byte in remark.bytes().chain(text.bytes()) {
        std::io::Write::write_all(&mut file, &[byte]).unwrap();
    }
    proxy.until("/metrics", "plimsoll_configuration_loads_total{outcome=\"applied\"} 1").await;
    assert!(proxy.admin("/metrics").await.contains("plimsoll_configuration_loads_total{outcome=\"refused\"} 0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_to_an_upstream_that_stays_are_kept_over_a_reload() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = FromFile::new(&format!("upstream = \"{}\"\nannotate = true\n", upstream.url())).await;
    ask(proxy.running.address, post(CHAT, HELLO)).await;
    proxy.edit("annotate = true", "annotate = false");
    proxy.until("/metrics", "loads_total{outcome=\"applied\"} 1").await;
    ask(proxy.running.address, post(CHAT, HELLO)).await;
    assert_eq!(upstream.seen().iter().map(|seen| seen.connection).collect::<Vec<_>>(), [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_rotated_without_dropping_a_connection() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let (old, new) = (Identity::new(), Identity::new());
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let mount = |identity: &Identity| {
        std::fs::copy(&identity.certificate, &certificate).unwrap();
        std::fs::copy(&identity.key, &key).unwrap();
    };
    mount(&old);
    let proxy = FromFile::new(&format!("upstream = \"{}\"\n[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n", upstream.url())).await;
    let mut before = Agent::over(old.connect(proxy.running.address, &["http/1.1"]).await);
    before.send(post(CHAT, HELLO)).await;
    assert_eq!(before.answer().await.status(), 200);
    mount(&new);
    // Between the two files they do not go together, and the old ones stay.
    let mut after = loop {
        match new.try_connect(proxy.running.address, &["http/1.1"], None).await {
            Ok(stream) => break Agent::over(stream),
            Err(_) => tokio::task::yield_now().await,
        }
    };
    for agent in [&mut before, &mut after] {
        agent.send(post(CHAT, HELLO)).await;
        assert_eq!(agent.answer().await.status(), 200);
    }
    assert!(old.try_connect(proxy.running.address, &["http/1.1"], None).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_without_the_certificate_that_is_asked_for_get_nothing() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let (server, client, stranger) = (Identity::new(), Identity::new(), Identity::new());
    let mutual = |config: &mut Config| {
        config.tls.certificate = server.certificate.to_str().unwrap().into();
        config.tls.key = server.key.to_str().unwrap().into();
        config.tls.client_ca = client.certificate.to_str().unwrap().into();
    };
    let proxy = proxy_with(&upstream, mutual, Decide::default()).await;
    for own in [None, Some(&stranger)] {
        // TLS 1.3 tells a client that it was refused after the client is done.
        if let Ok(mut stream) = server.try_connect(proxy.address, &["http/1.1"], own).await {
            let _ = stream.write_all(&post(CHAT, HELLO)).await;
            assert!(matches!(stream.read(&mut [0; 1]).await, Err(_) | Ok(0)));
        }
    }
    let mut agent = Agent::over(server.try_connect(proxy.address, &["http/1.1"], Some(&client)).await.unwrap());
    agent.send(post(CHAT, HELLO)).await;
    assert_eq!((agent.answer().await.status(), upstream.seen().len()), (200, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_shown_the_certificate_of_its_route() {
    let (server, client) = (Identity::new(), Identity::new());
    let acceptor = server.demanding(&client);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut asked = Vec::new();
                while !asked.ends_with(HELLO.as_bytes()) && stream.read_buf(&mut asked).await.unwrap_or(0) > 0 {}
                stream.write_all(&ok("{}")).await.unwrap();
                let _ = stream.shutdown().await;
            });
        }
    });
    let path = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let proxy = proxy_to(
        &format!("https://{address}"),
        |config| {
            config.connection.ca_file = path(&server.certificate);
            let mut route = config::Route { path: "/mutual".into(), upstream: format!("https://{address}"), ..Default::default() };
            route.connection.insert("certificate".into(), path(&client.certificate).into());
            route.connection.insert("key".into(), path(&client.key).into());
            config.route.push(route);
        },
        Decide::default(),
    )
    .await;
    assert_eq!(ask(proxy.address, post(&format!("/mutual{CHAT}"), HELLO)).await.status(), 200);
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 502);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_exchange_too_many_is_told_so_in_its_own_words() {
    let (upstream, release) = holding().await;
    let proxy = proxy_with(&upstream, |config| config.admission.exchanges = 1, Decide::default()).await;
    let mut held = hold(proxy.address).await;
    for (path, outer) in [(CHAT, false), (MESSAGES, true), ("/v1/responses", false)] {
        let got = ask(proxy.address, post(path, HELLO)).await;
        assert_eq!((got.status(), got.header("retry-after")), (503, Some("1")));
        let said = got.json();
        assert_eq!((said["error"]["type"].as_str(), said["type"] == "error"), (Some("overloaded_error"), outer), "{said}");
    }
    release.add_permits(1);
    held.until(END).await;
    // The place is free when the exchange is dropped, just after its last byte.
    while ask(proxy.address, post(CHAT, HELLO)).await.status() == 503 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_tenant_cannot_take_it_all() {
    let (upstream, _release) = holding().await;
    let proxy = proxy_with(
        &upstream,
        |config| {
            config.admission.tenant_exchanges = 1;
            config.admission.tenant_requests = 3;
        },
        Decide::default(),
    )
    .await;
    let _held = hold(proxy.address).await;
    let status = async |key: &str| ask(proxy.address, with(&format!("x-api-key: {key}\r\n"), CHAT)).await;
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 429, "the one without a key has one running");
    for _ in 0..3 {
        // The place is given back just after the last byte.
        while status("other").await.header("retry-after") == Some("1") {}
    }
    let got = status("other").await;
    assert_eq!((got.status(), got.json()["error"]["type"].as_str()), (429, Some("rate_limit_error")));
    assert!(got.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(status("third").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_over_what_may_be_held_are_refused() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(&upstream, |config| config.admission.body_bytes = 1000, Decide::default()).await;
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
    assert_eq!(ask(proxy.address, post(CHAT, &" ".repeat(2000))).await.status(), 503);
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200, "what was held is free again");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut gzip, " ".repeat(100_000).as_bytes()).unwrap();
    let small = gzip.finish().unwrap();
    assert!(small.len() < 500);
    let head = format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", small.len());
    assert_eq!(ask(proxy.address, [head.as_bytes(), &small].concat()).await.status(), 503, "also by what they decode to");
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
    assert_eq!(upstream.seen().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_announcement_holds_nothing() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(&upstream, |config| config.admission.body_bytes = 1000, Decide::default()).await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        let mut agent = Agent::connect(proxy.address).await;
        agent.send(format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 900\r\n\r\n")).await;
        agent.until("100 Continue").await;
        agent.send("{").await;
        silent.push(agent);
    }
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_limited_in_size_and_time_and_silence_between_requests_is_not() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(
        &upstream,
        |config| {
            config.admission.header_bytes = 8192;
            config.admission.header_timeout = 0.05;
        },
        Decide::default(),
    )
    .await;
    let large = format!("GET /v1/models HTTP/1.1\r\nHost: h\r\nx-large: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(ask(proxy.address, large).await.status(), 431);
    let mut silent = Agent::connect(proxy.address).await;
    silent.send(post(CHAT, HELLO)).await;
    assert_eq!(silent.answer().await.status(), 200);
    let mut slow = Agent::connect(proxy.address).await;
    slow.send("POST /v1/chat/completions HTTP/1.1\r\nHost:").await;
    assert!(slow.ends().await, "cut off");
    // By now this one has been silent for longer than a head may take.
    silent.send(post(CHAT, HELLO)).await;
    assert_eq!(silent.answer().await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_connects_and_does_not_ask_is_not_waited_for_forever() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(&upstream, |config| config.keep_alive = 0.05, Decide::default()).await;
    // Nothing, the beginning of HTTP/2, and all of that but a request.
    for said in ["", "PRI * HTTP/2.0", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut agent = Agent::connect(proxy.address).await;
        agent.send(said).await;
        let _ = agent.stream.read_to_end(&mut Vec::new()).await;
    }
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_have_tokens_and_keys_live_in_the_proxy_only() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        format!("file:{}", file.display())
    };
    let (tokens, bearer, key) =
        (write("tokens", "me token-of-an-agent-1\n"), write("openai", "sk-openai\n"), write("anthropic", "sk-anthropic\n"));
    let proxy = FromFile::new(&format!(
        "upstream = \"{}\"\n[access]\ntokens = {tokens:?}\n[credential]\nopenai = {bearer:?}\nanthropic = {key:?}\n",
        upstream.url()
    ))
    .await;
    let address = proxy.running.address;
    for path in [CHAT, MESSAGES] {
        let got = ask(address, with("authorization: Bearer sk-of-somebody\r\n", path)).await;
        assert_eq!((got.status(), got.json()["error"]["type"].as_str()), (401, Some("authentication_error")));
    }
    assert!(upstream.seen().is_empty());
    let token = "authorization: Bearer token-of-an-agent-1\r\n";
    assert_eq!(ask(address, with(token, CHAT)).await.status(), 200);
    assert_eq!(ask(address, with("x-api-key: token-of-an-agent-1\r\n", MESSAGES)).await.status(), 200);
    let seen = upstream.seen();
    assert_eq!((seen[0].header("authorization"), seen[0].header("x-api-key")), (Some("Bearer sk-openai"), None));
    assert_eq!((seen[1].header("authorization"), seen[1].header("x-api-key")), (None, Some("sk-anthropic")));

    let twice =
        "x-plimsoll-token: token-of-an-agent-1\r\nauthorization: Bearer token-of-an-agent-1\r\nx-auth-token: token-of-an-agent-1\r\n";
    assert_eq!(ask(address, with(twice, "/v1/other")).await.status(), 200);

    write("openai", "sk-rotated");
    write("tokens", "me token-of-an-agent-2\n");
    while ask(address, with(token, CHAT)).await.status() == 200 {}
    ask(address, with("x-plimsoll-token: token-of-an-agent-2\r\n", CHAT)).await;
    let seen = upstream.seen().pop().unwrap();
    assert_eq!((seen.header("authorization"), seen.header("x-plimsoll-token")), (Some("Bearer sk-rotated"), None));
    assert!(upstream.seen().iter().all(|seen| !format!("{:?}", seen.headers).contains("token-of-an-agent")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_api_has_a_token_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admin");
    std::fs::write(&file, "the-token-of-the-admin").unwrap();
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let open = FromFile::new(&format!("upstream = \"{}\"\n", upstream.url())).await;
    let closed = FromFile::new(&format!("upstream = \"{}\"\n[access]\nadmin_token = \"file:{}\"\n", upstream.url(), file.display())).await;
    let asked = async |proxy: &FromFile, line: &str, headers: &str| {
        ask(proxy.running.admin.unwrap(), format!("{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n")).await
    };
    assert_eq!(asked(&open, "GET /status", "").await.status(), 200);
    assert_eq!(asked(&open, "POST /reload", "").await.text(), "applied\n");
    assert_eq!(asked(&open, "POST /reload", "Origin: http://evil.example\r\n").await.status(), 401, "a page in a browser");
    assert_eq!(asked(&open, "GET /reload", "").await.status(), 405);
    for path in ["GET /status", "POST /reload"] {
        assert_eq!(asked(&closed, path, "").await.status(), 401);
        assert_eq!(asked(&closed, path, "Authorization: Bearer the-token-of-the-admiN\r\n").await.status(), 401);
        assert_eq!(asked(&closed, path, "Authorization: Bearer the-token-of-the-admin\r\n").await.status(), 200);
    }
    for path in ["GET /healthz", "GET /readyz", "GET /metrics"] {
        assert_eq!(asked(&closed, path, "").await.status(), 200);
    }
    let public = proxy_with(&upstream, |config| config.admin = "0.0.0.0:0".into(), Decide::default()).await;
    let port = public.admin.unwrap().port();
    let got = ask(([127, 0, 0, 1], port).into(), "GET /status HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!(got.status(), 401, "a public address without a token tells health and metrics only");
}

/// What upstream says of the framing of its answers, and agents would read another way.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_upstream_says_ends_an_answer_early_or_begins_another() {
    let upstream = Upstream::conduct(|_, seen, mut stream| async move {
        let answer: &[u8] = match seen.target() {
            "/v1/both" => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
            "/v1/lengths" => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
            "/v1/folded" => b"HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
            "/v1/return" => b"HTTP/1.1 200 OK\r\nX-A: a\rX-B: b\r\nContent-Length: 2\r\n\r\n{}",
            "/v1/other" => b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
            "/v1/more" => b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine",
        };
        stream.write_all(answer).await.ok()?;
        Some(stream)
    })
    .await;
    let proxy = support::proxy(&upstream).await;
    for (path, status, body) in [
        ("/v1/both", 200, Some("0123456789")),
        ("/v1/lengths", 502, None),
        ("/v1/folded", 502, None),
        ("/v1/return", 502, None),
        ("/v1/other", 502, None),
        ("/v1/more", 200, Some("{}")),
    ] {
        let mut agent = Agent::connect(proxy.address).await;
        agent.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        let got = agent.answer().await;
        assert_eq!((got.status(), got.broken), (status, false), "{path}");
        assert!(body.is_none_or(|body| got.text() == body), "{path}: {}", got.text());
        agent.send("GET /v1/fine HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert_eq!(agent.answer().await.text(), "fine", "the next one, behind {path}");
    }
}

/// Whatever is made of request line, headers and framing, upstream is asked at its own address and sees the requests that were answered, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_an_agent_says_sends_a_request_elsewhere_or_smuggles_one() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let elsewhere = Upstream::new(|_, _| ok("{}")).await;
    // Some of these are never whole.
    let proxy = proxy_with(&upstream, |config| config.admission.header_timeout = 0.2, Decide::default()).await;
    let there = elsewhere.address;
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
    let chat = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n";
    let tries = [
        format!("GET http://{there}/v1/models HTTP/1.1\r\nHost: {there}\r\n\r\n"),
        format!("GET //{there}/v1/models HTTP/1.1\r\nHost: {there}\r\n\r\n"),
        format!(
            "GET /v1/models@{there} HTTP/1.1\r\nHost: {there}\r\nX-Forwarded-Host: {there}\r\nForwarded: host={there}\r\nX-Original-URL: http://{there}/\r\n\r\n"
        ),
        format!("CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n\r\n"),
        format!("{chat}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}", 5 + smuggled.len()),
        format!("{chat}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
        format!("{chat}Content-Length: 2\r\nContent-Length: {}\r\n\r\n{{}}{smuggled}", 2 + smuggled.len()),
        format!("{chat}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{chat}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{chat}Content-Length: +2\r\n\r\n{{}}{smuggled}"),
        format!("{chat}X: a\rTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{{}}"),
        format!("{chat}X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{{}}"),
        format!("{chat}Connection: content-length, host, x-a\r\nX-A: 1\r\nContent-Length: 2\r\n\r\n{{}}"),
        format!("{chat}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\nContent-Length: 900\r\nHost: {there}\r\n\r\n"),
        "GET /a%0d%0aHost:%20evil HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(),
        format!("{chat}Content-Length: 2, {}\r\n\r\n{{}}{smuggled}", 2 + smuggled.len()),
        format!("{chat}Content-Length: 2, 2\r\n\r\n{{}}"),
        format!("{chat}Content-Length: 0x2\r\n\r\n{{}}"),
        format!("{chat}Content-Length: 2\r\nTransfer-Encoding: identity\r\n\r\n{{}}"),
        format!("{chat}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{chat}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{chat}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("{chat}Transfer-Encoding: chunked\r\n\r\n2;a=\nx\r\n{{}}\r\n0\r\n\r\n{smuggled}"),
        format!("{chat}Transfer-Encoding: chunked\r\n\r\n2\n{{}}\r\n0\r\n\r\n{smuggled}"),
        format!("{chat}Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{{}}\r\n0\r\n\r\n{smuggled}"),
        format!("{chat}X: a\nContent-Length: 2\r\n\r\n{{}}"),
        "POST /v1/chat/completions HTTP/1.1\nHost: h\nContent-Length: 2\n\n{}".to_owned(),
        format!("{chat}X\0: a\r\nContent-Length: 2\r\n\r\n{{}}"),
        format!("{chat} Content-Length: 2\r\n\r\n{{}}"),
        format!("{chat}Host: {there}\r\nContent-Length: 2\r\n\r\n{{}}"),
        format!("GET /v1/models HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len()),
        "GET /v1/models HTTP/1.1 \r\nHost: h\r\n\r\n".to_owned(),
        format!("POST /v1/chat/completions HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        "GET /v1/models HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n".to_owned(),
        format!("GET *{there} HTTP/1.1\r\nHost: h\r\n\r\n"),
        format!("GET \\\\{there}\\v1 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ];
    for tried in tries {
        let before = upstream.seen().len();
        let mut agent = Agent::connect(proxy.address).await;
        // The last request ends the connection, whatever was made of those before it.
        agent.send(format!("{tried}GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")).await;
        let mut said = Vec::new();
        let _ = agent.stream.read_to_end(&mut said).await;
        let said = String::from_utf8_lossy(&said);
        let answered = said.matches("HTTP/1.1 200").count();
        let seen = upstream.seen().split_off(before);
        // What follows a whole request on a connection is the next request, and is answered as one: upstream and agent agree on how many there were.
        assert_eq!(seen.len(), answered, "{tried:?}: {said:?} {seen:?}");
        for seen in seen {
            assert_eq!(seen.header("host"), Some(upstream.address.to_string().as_str()), "{tried:?}");
            assert_eq!(seen.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).count(), 1, "{tried:?}");
            let framed = ["content-length", "transfer-encoding"].iter().filter(|name| seen.header(name).is_some()).count();
            assert!(framed <= 1, "{tried:?}: {seen:?}");
        }
    }
    assert!(elsewhere.seen().is_empty());
}
