//! HTTP/1.1 and HTTP/2, with and without TLS, on either side.

mod support;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use plimsoll::{config::Http2, proxy::decide::Decide};
use support::{
    Agent, CHAT, HELLO, SSE, Upstream,
    agent::ask,
    chunk, ok, post, proxy, proxy_to, proxy_with,
    secure::{Identity, Server},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

/// An agent on HTTP/2.
async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(path: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::post(format!("http://proxy.example{path}")).header("x-mine", "1").body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_may_speak_http2_without_tls() {
    let upstream = Upstream::new(|n, _| ok(&format!("{{\"n\":{n}}}"))).await;
    let proxy = proxy(&upstream).await;
    let mut agent = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
    for (n, path) in [CHAT, "/v1/x//y?a=%20&b"].into_iter().enumerate() {
        let answer = agent.send_request(request(path, HELLO)).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), format!("{{\"n\":{n}}}"));
        let seen = &upstream.seen()[n];
        assert_eq!((seen.line.as_str(), seen.body.as_slice()), (format!("POST {path} HTTP/1.1").as_str(), HELLO.as_bytes()));
        assert_eq!((seen.header("host"), seen.header("x-mine")), (Some(upstream.address.to_string().as_str()), Some("1")));
    }
}

/// Which protocol it is must not depend on how its bytes arrive.
#[tokio::test(flavor = "multi_thread")]
async fn http1_may_begin_with_as_few_bytes_as_it_likes() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let asked = post(CHAT, HELLO);
    for length in [1, 2, 3, 4, 12] {
        let stream = TcpStream::connect(proxy.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut agent = Agent::over(stream);
        agent.send(&asked[..length]).await;
        // Another one is answered meanwhile, so the first bytes have most likely been seen alone.
        assert_eq!(ask(proxy.address, &asked).await.status(), 200);
        agent.send(&asked[length..]).await;
        assert_eq!(agent.answer().await.status(), 200, "{length}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_may_begin_with_as_few_bytes_as_it_likes() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let begins = async |pieces: &[&[u8]], goes_on: bool| {
        let mut agent = Agent::connect(proxy.address).await;
        for piece in pieces {
            agent.send(piece).await;
            // So that it has most likely been seen alone.
            assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
        }
        match goes_on {
            // The frame by which settings are acknowledged.
            true => agent.until(b"\0\0\0\x04\x01\0\0\0\0").await,
            false => {
                let _ = agent.stream.shutdown().await;
                assert!(agent.ends().await, "{pieces:?}");
            }
        }
    };
    let whole = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for length in [1, 2, 3, 4, 5, 24] {
        begins(&[&whole[..length], &whole[length..]], true).await;
    }
    begins(&[b"P", b"R", b"I", b" ", &whole[4..]], true).await;
    begins(&[b"PR"], false).await;
}

/// Of HTTP/1 or HTTP/2, which nobody knows yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_byte_that_nothing_follows_is_waited_for_no_longer_than_a_head() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(&upstream, |config| config.admission.header_timeout = 0.05, Decide::default()).await;
    let mut agent = Agent::connect(proxy.address).await;
    agent.send("P").await;
    assert!(agent.ends().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_that_http2_brings_in_crumbs_go_on_in_one_line() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy(&upstream).await;
    let mut agent = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
    let mut asked = request(CHAT, HELLO);
    for crumb in ["a=1", "b=2", "c=3"] {
        asked.headers_mut().append("cookie", crumb.parse().unwrap());
    }
    assert_eq!(agent.send_request(asked).await.unwrap().status(), 200);
    let cookies: Vec<Vec<u8>> = upstream.only().headers.into_iter().filter(|(name, _)| name == "cookie").map(|(_, value)| value).collect();
    assert_eq!(cookies, [b"a=1; b=2; c=3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_agent_that_resets_its_stream_cancels_it_upstream() {
    let (gone, left) = tokio::sync::oneshot::channel();
    let gone = std::sync::Mutex::new(Some(gone));
    let upstream = Upstream::conduct(move |_, _, mut stream| {
        let gone = gone.lock().unwrap().take();
        async move {
            stream
                .write_all(&[SSE.as_bytes(), &chunk("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")].concat())
                .await
                .unwrap();
            let end = stream.read(&mut [0; 1]).await.unwrap_or(0);
            gone?.send(end).unwrap();
            None
        }
    })
    .await;
    let proxy = proxy(&upstream).await;
    let mut agent = http2(TcpStream::connect(proxy.address).await.unwrap()).await;
    let mut answer = agent.send_request(request(CHAT, HELLO)).await.unwrap();
    assert!(answer.body_mut().frame().await.unwrap().unwrap().is_data());
    drop(answer);
    assert_eq!(left.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_may_use_tls_and_negotiate() {
    let identity = Identity::new();
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let secure = |config: &mut plimsoll::config::Config| {
        config.tls.certificate = identity.certificate.to_str().unwrap().into();
        config.tls.key = identity.key.to_str().unwrap().into();
    };
    let proxy = proxy_with(&upstream, secure, Decide::default()).await;
    let mut agent = Agent::over(identity.connect(proxy.address, &["http/1.1"]).await);
    agent.send(post(CHAT, HELLO)).await;
    assert_eq!(agent.answer().await.text(), "{}");
    let mut agent = http2(identity.connect(proxy.address, &["h2", "http/1.1"]).await).await;
    let answer = agent.send_request(request(CHAT, HELLO)).await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn providers_are_asked_over_tls_in_the_protocol_they_negotiate() {
    let identity = Identity::new();
    let trusted = |config: &mut plimsoll::config::Config| config.connection.ca_file = identity.certificate.to_str().unwrap().into();
    for (protocols, version) in [(&["http/1.1"][..], Version::HTTP_11), (&["h2", "http/1.1"], Version::HTTP_2)] {
        let server = Server::new(Some((&identity, protocols)), 100).await;
        let url = format!("https://{}/v1", server.address);
        let proxy = proxy_to(&url, trusted, Decide::default()).await;
        for _ in 0..3 {
            let got = ask(proxy.address, post("/v1/chat/completions?a=%2F&b", HELLO)).await;
            assert_eq!((got.status(), got.text()), (200, HELLO));
        }
        assert_eq!(server.carried(), [(version, 0); 3], "one connection for all");
        let seen = server.seen.lock().unwrap();
        let named = seen[0].authority.as_ref().or(seen[0].host.as_ref());
        assert_eq!((named.unwrap(), seen[0].target.as_str()), (&server.address.to_string(), "/v1/chat/completions?a=%2F&b"));
        assert_eq!(seen[0].host.is_some(), version == Version::HTTP_11);
    }
    let server = Server::new(Some((&identity, &["h2", "http/1.1"])), 100).await;
    let never = |config: &mut plimsoll::config::Config| {
        trusted(config);
        config.connection.http2 = Http2::Never;
    };
    let proxy = proxy_to(&format!("https://{}", server.address), never, Decide::default()).await;
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
    assert_eq!(server.carried(), [(Version::HTTP_11, 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_cannot_be_trusted_gets_nothing() {
    let server = Server::new(Some((&Identity::new(), &["h2", "http/1.1"])), 100).await;
    let proxy = proxy_to(&format!("https://{}", server.address), |_| {}, Decide::default()).await;
    let got = ask(proxy.address, post(CHAT, HELLO)).await;
    assert_eq!(got.status(), 502);
    assert!(got.text().contains("its certificate is not accepted"), "{}", got.text());
    assert!(server.seen.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_to_a_provider_without_tls_is_spoken_where_it_is_asked_for() {
    let server = Server::new(None, 100).await;
    let always = |config: &mut plimsoll::config::Config| config.connection.http2 = Http2::Always;
    let proxy = proxy_to(&format!("http://{}", server.address), always, Decide::default()).await;
    for path in [CHAT, "/v1/embeddings"] {
        assert_eq!(ask(proxy.address, post(path, HELLO)).await.text(), HELLO);
    }
    let large = format!("{{\"pad\":\"{}\"}}", "x".repeat(5_000_000));
    assert_eq!(ask(proxy.address, post("/v1/files", &large)).await.text(), large);
    assert_eq!(server.carried(), [(Version::HTTP_2, 0); 3]);
}

/// Answers last minutes, so nobody waits for a place on a connection.
#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_a_connection_takes_go_on_another_one() {
    let server = Server::new(None, 2).await;
    let always = |config: &mut plimsoll::config::Config| config.connection.http2 = Http2::Always;
    let proxy = proxy_to(&format!("http://{}", server.address), always, Decide::default()).await;
    // The first answer tells how many streams there may be.
    ask(proxy.address, post(CHAT, HELLO)).await;
    let holding: Vec<_> = (0..5).map(|_| tokio::spawn(ask(proxy.address, post("/v1/hold", HELLO)))).collect();
    while server.carried().len() < 6 {
        tokio::task::yield_now().await;
    }
    server.release.add_permits(5);
    for held in holding {
        assert_eq!(held.await.unwrap().status(), 200);
    }
    let used: std::collections::BTreeSet<usize> = server.carried().iter().map(|(_, connection)| *connection).collect();
    assert!(used.len() > 1, "{used:?}");
}

/// A reset says whether upstream may have begun to work. Only if not is it asked again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_reset_is_sent_again_only_where_it_was_refused() {
    let server = Server::new(None, 100).await;
    let always = |config: &mut plimsoll::config::Config| config.connection.http2 = Http2::Always;
    let proxy = proxy_to(&format!("http://{}", server.address), always, Decide::default()).await;
    for (path, times) in [("/v1/broken", 1), ("/v1/refused", 2)] {
        assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
        let before = server.carried().len();
        assert_eq!(ask(proxy.address, post(path, HELLO)).await.status(), 502);
        assert_eq!(server.carried().len() - before, times, "{path}");
    }
}

/// An answer that comes before its upload was read holds up neither the agent nor anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_nobody_reads_keeps_its_stream_and_no_other() {
    let server = Server::new(None, 1).await;
    let always = |config: &mut plimsoll::config::Config| config.connection.http2 = Http2::Always;
    let proxy = proxy_to(&format!("http://{}", server.address), always, Decide::default()).await;
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
    let large = format!("{{\"pad\":\"{}\"}}", "x".repeat(1_500_000));
    let mut agent = Agent::connect(proxy.address).await;
    agent.send(post("/v1/files/early", &large)).await;
    assert_eq!(agent.answer().await.status(), 413);
    for _ in 0..3 {
        assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
    }
    server.release.add_permits(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_connection_that_died_costs_nobody_an_answer() {
    // Upstream is restarted at the same address: its old connections are gone.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let first = runtime.spawn(async { Server::new(None, 100).await }).await.unwrap();
    let address = first.address;
    let always = |config: &mut plimsoll::config::Config| config.connection.http2 = Http2::Always;
    let proxy = proxy_to(&format!("http://{address}"), always, Decide::default()).await;
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
    tokio::task::spawn_blocking(move || drop(runtime)).await.unwrap();
    let second = Server::at(address, None, 100).await;
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
    assert_eq!(second.carried().len(), 1);
}
