//! Traces: what a collector gets, what upstream is told, and that nothing depends on either.

mod support;

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value,
    trace::v1::{Span, span::SpanKind},
};
use plimsoll::{
    compact::summary::When,
    config::Config,
    proxy::{decide::Decide, lifecycle::Running},
};
use prost::Message;
use support::{
    CHAT, HELLO, Upstream,
    agent::ask,
    answer, long, nobody, ok, proxy_with,
    script::Scripted,
    secure::{Identity, Server},
    upstream::Seen,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
const TOO_LONG: &str = "{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.\",\"type\":\"invalid_request_error\",\"code\":\"context_length_exceeded\"}}";
const ANSWER: &str = "{\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":8}}}";

async fn collector() -> Upstream {
    Upstream::new(|_, _| answer("200 OK", "Content-Type: application/x-protobuf\r\n", "")).await
}

async fn traced(upstream: &Upstream, collector: &str, change: impl FnOnce(&mut Config), decide: Decide) -> Running {
    let set = |config: &mut Config| {
        config.traces.endpoint = collector.to_owned();
        change(config);
    };
    proxy_with(upstream, set, decide).await
}

fn with(headers: &str, body: &str) -> String {
    format!("POST {CHAT} HTTP/1.1\r\nHost: proxy.example\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn traceparent(flags: &str) -> String {
    format!("Traceparent: 00-{TRACE}-{SPAN}-{flags}\r\nTracestate: vendor=one\r\n")
}

/// What a collector has, read with OpenTelemetry's own messages.
fn spans(collector: &Upstream) -> Vec<Span> {
    let read = |seen: Seen| {
        assert_eq!((seen.target(), seen.header("content-type")), ("/v1/traces", Some("application/x-protobuf")));
        let export = ExportTraceServiceRequest::decode(seen.body.as_slice()).unwrap();
        let [resource] = export.resource_spans.try_into().unwrap();
        let attributes: BTreeMap<String, String> = resource.resource.unwrap().attributes.into_iter().map(spelt).collect();
        assert_eq!((attributes["service.name"].as_str(), attributes["service.version"].as_str()), ("plimsoll", env!("CARGO_PKG_VERSION")));
        resource.scope_spans.into_iter().flat_map(|scope| scope.spans)
    };
    collector.seen().into_iter().flat_map(read).collect()
}

fn spelt(pair: opentelemetry_proto::tonic::common::v1::KeyValue) -> (String, String) {
    let spell = |value: Value| match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(yes) => yes.to_string(),
        Value::DoubleValue(number) => format!("{number:.3}"),
        Value::ArrayValue(list) => format!("{} of them", list.values.len()),
        other => panic!("{other:?}"),
    };
    (pair.key, spell(pair.value.unwrap().value.unwrap()))
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    span.attributes.iter().cloned().map(spelt).collect()
}

fn says(span: &Span, wanted: &[(&str, &str)]) {
    let all = attributes(span);
    for (key, value) in wanted {
        assert_eq!(all.get(*key).map(String::as_str), Some(*value), "{key} of {all:#?}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The exchange's span, and those below it in their order.
fn family(spans: Vec<Span>) -> (Span, Vec<Span>) {
    let (mut servers, mut clients): (Vec<Span>, Vec<Span>) = spans.into_iter().partition(|span| span.kind() == SpanKind::Server);
    let server = servers.pop().unwrap();
    assert!(servers.is_empty(), "one span an exchange");
    clients.sort_by_key(|span| span.start_time_unix_nano);
    for client in &clients {
        assert_eq!((client.kind(), &client.trace_id, &client.parent_span_id), (SpanKind::Client, &server.trace_id, &server.span_id));
        assert!(client.start_time_unix_nano >= server.start_time_unix_nano && client.end_time_unix_nano >= client.start_time_unix_nano);
    }
    (server, clients)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_is_a_span_below_the_agents_with_a_child_for_each_time_upstream_was_asked() {
    let check = async |first: Vec<u8>, scripted: Scripted, kinds: [&str; 2], wanted: &[(&str, &str)]| {
        let upstream = Upstream::new(move |n, _| if n == 0 { first.clone() } else { ok(ANSWER) }).await;
        let collector = collector().await;
        let proxy = traced(&upstream, &collector.url(), |_| {}, scripted.decide()).await;
        let got = ask(proxy.address, with(&traceparent("01"), HELLO)).await;
        assert_eq!(got.status(), 200);
        assert_eq!(proxy.drain().await, 0);
        let (server, clients) = family(spans(&collector));
        assert_eq!(
            (hex(&server.trace_id).as_str(), hex(&server.parent_span_id).as_str(), server.trace_state.as_str()),
            (TRACE, SPAN, "vendor=one")
        );
        let common =
            [("gen_ai.operation.name", "chat"), ("gen_ai.usage.input_tokens", "11"), ("gen_ai.usage.cache_read.input_tokens", "8")];
        says(&server, &common);
        says(&server, &[("gen_ai.usage.output_tokens", "2"), ("http.response.status_code", "200"), ("plimsoll.end", "complete")]);
        says(&server, wanted);
        assert!(server.status.is_none(), "{server:?}");

        let seen = upstream.seen();
        assert_eq!((clients.len(), seen.len()), (2, 2));
        for ((client, seen), kind) in clients.iter().zip(&seen).zip(kinds) {
            // Upstream's spans are children of the request that it got.
            assert_eq!(seen.header("traceparent"), Some(format!("00-{TRACE}-{}-01", hex(&client.span_id)).as_str()));
            assert_eq!(seen.header("tracestate"), Some("vendor=one"));
            assert!(seen.headers.iter().any(|(name, _)| name == "Traceparent"), "spelt as the agent spells it");
            says(client, &[("plimsoll.attempt", kind), ("server.address", "127.0.0.1"), ("http.request.method", "POST")]);
            says(client, &[("server.port", &upstream.address.port().to_string())]);
        }
        assert!(clients[0].status.is_some() && clients[1].status.is_none(), "the first was refused");
        says(&clients[1], &[("http.response.status_code", "200"), ("http.request.resend_count", "1")]);
    };
    let json = "Content-Type: application/json\r\n";
    let harder = Scripted { harder: Some("{\"h\":1}"), ..Scripted::default() };
    check(
        answer("400 Bad Request", json, TOO_LONG),
        harder,
        ["first", "harder"],
        &[("plimsoll.retried", "harder"), ("plimsoll.trigger", "overflow")],
    )
    .await;
    let edited = Scripted { first: Some("{\"less\":1}"), ..Scripted::default() };
    let wanted = [
        ("plimsoll.retried", "original"),
        ("plimsoll.trigger", "test"),
        ("plimsoll.tokens.before", "9"),
        ("plimsoll.tokens.after", "4"),
        ("plimsoll.rungs", "2 of them"),
    ];
    check(answer("422 Unprocessable Entity", json, "{\"error\":{\"message\":\"no\"}}"), edited, ["first", "original"], &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_parent_that_makes_sense_a_trace_of_its_own_begins() {
    for came in ["", "traceparent: 00-nonsense\r\ntracestate: of=nothing\r\n"] {
        let (upstream, collector) = (Upstream::new(|_, _| ok("{}")).await, collector().await);
        let proxy = traced(&upstream, &collector.url(), |_| {}, Decide::default()).await;
        ask(proxy.address, with(came, HELLO)).await;
        proxy.drain().await;
        let (server, clients) = family(spans(&collector));
        assert!(server.parent_span_id.is_empty() && server.trace_state.is_empty() && clients.len() == 1);
        assert_eq!((server.name.as_str(), clients[0].name.as_str()), ("chat m", "chat m"));
        let seen = upstream.only();
        let told = seen.header("traceparent").unwrap();
        assert!(told.starts_with(&format!("00-{}-{}-", hex(&server.trace_id), hex(&clients[0].span_id))), "{told}");
        assert_eq!(seen.header("tracestate"), None, "what stood beside a malformed parent belongs to nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transparent_what_is_not_traced_goes_on_as_it_came() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let collector = collector().await;
    let came = [traceparent("01"), traceparent("00"), "traceparent: 00-nonsense\r\ntracestate: of=nothing\r\n".into(), String::new()];
    let off = support::proxy(&upstream).await;
    for headers in &came {
        ask(off.address, with(headers, HELLO)).await;
    }
    // The agent says that its trace is not recorded; or it says nothing that makes sense, and nothing is to be recorded then.
    let none = traced(&upstream, &collector.url(), |config| config.traces.sample = 0.0, Decide::default()).await;
    for headers in &came[1..] {
        ask(none.address, with(headers, HELLO)).await;
    }
    none.drain().await;
    assert_eq!(collector.seen().len(), 0);
    let context = |headers: &[(String, Vec<u8>)]| -> Vec<(String, Vec<u8>)> {
        headers.iter().filter(|(name, _)| name.to_ascii_lowercase().starts_with("trace")).cloned().collect()
    };
    let seen = upstream.seen();
    for (seen, wanted) in seen.iter().zip(came.iter().chain(&came[1..])) {
        let wanted: Vec<(String, Vec<u8>)> =
            wanted.lines().map(|line| line.split_once(": ").unwrap()).map(|(name, value)| (name.into(), value.into())).collect();
        assert_eq!(context(&seen.headers), wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_gone_or_silent_harms_no_exchange() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let silent = Upstream::conduct(|_, _, stream| async move {
        std::future::pending::<()>().await;
        Some(stream)
    })
    .await;
    for collector in [format!("http://{}", nobody()), silent.url()] {
        let change = |config: &mut Config| {
            config.admin = "127.0.0.1:0".into();
            config.grace = 0.2;
        };
        let proxy = traced(&upstream, &collector, change, Decide::default()).await;
        let before = upstream.seen().len();
        for _ in 0..8 {
            assert_eq!(ask(proxy.address, with("", HELLO)).await.status(), 200);
        }
        assert_eq!(upstream.seen().len(), before + 8);
        // Nor does it hold up the end for longer than the grace period.
        assert_eq!(proxy.drain().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_turns_traces_on_and_off() {
    let (upstream, collector) = (Upstream::new(|_, _| ok("{}")).await, collector().await);
    let config = |endpoint: &str| {
        let mut config =
            Config { listen: "127.0.0.1:0".into(), admin: "off".into(), discover: false, upstream: upstream.url(), ..Config::default() };
        config.traces.endpoint = endpoint.to_owned();
        config
    };
    let proxy = plimsoll::proxy::lifecycle::start(&config(""), Decide::default(), true).await.unwrap();
    let url = collector.url();
    for endpoint in ["", &url, ""] {
        proxy.renew(&config(endpoint)).unwrap();
        ask(proxy.address, with("", HELLO)).await;
    }
    // What was under way ends as it began, and its spans arrive.
    collector.arrived(1).await;
    assert_eq!(spans(&collector).len(), 2);
    assert_eq!(upstream.seen().iter().map(|seen| seen.header("traceparent").is_some()).collect::<Vec<_>>(), [false, true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_call_of_a_summary_is_a_child_too() {
    let models = Upstream::new(|_, _| ok("{\"choices\":[{\"message\":{\"content\":\"no\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":1}}")).await;
    let (upstream, collector) = (Upstream::new(|_, _| ok("{}")).await, collector().await);
    let url = models.url();
    let change = |config: &mut Config| {
        config.policy.window = long::WINDOW;
        let summarize = &mut config.policy.compact.summarize;
        (summarize.model, summarize.upstream, summarize.when) = ("summary-model".into(), url, When::Request);
    };
    let proxy = traced(&upstream, &collector.url(), change, Decide::default()).await;
    let body = long::body("one", 24);
    assert_eq!(ask(proxy.address, with(&traceparent("01"), &body)).await.status(), 200);
    proxy.drain().await;
    let (server, clients) = family(spans(&collector));
    says(&server, &[("plimsoll.edited", "true")]);
    let (summaries, asked): (Vec<&Span>, Vec<&Span>) = clients.iter().partition(|span| span.name == "chat summary-model");
    assert_eq!((summaries.len(), asked.len()), (models.seen().len(), 1));
    says(
        summaries[0],
        &[("gen_ai.request.model", "summary-model"), ("gen_ai.usage.input_tokens", "40"), ("http.response.status_code", "200")],
    );
    let told = models.seen()[0].header("traceparent").unwrap().to_owned();
    assert!(summaries.iter().any(|span| told == format!("00-{TRACE}-{}-01", hex(&span.span_id))), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn private_no_text_no_credential_and_no_query_is_in_a_span_and_the_collector_gets_its_own_headers() {
    let (upstream, collector) =
        (Upstream::new(|_, _| ok("{\"choices\":[{\"message\":{\"content\":\"SECRET-ANSWER\"}}]}")).await, collector().await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("headers");
    std::fs::write(&file, "api-key=for%20the%20collector\nx-scope-orgid=team\n").unwrap();
    let change = |config: &mut Config| config.traces.headers = format!("file:{}", file.display());
    let proxy = traced(&upstream, &format!("{}/v1/traces", collector.url()), change, Decide::default()).await;
    let body = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"SECRET-BODY\"}]}";
    let head = format!(
        "POST {CHAT}?key=SECRET-QUERY HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer SECRET-KEY\r\nx-api-key: SECRET-KEY\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(ask(proxy.address, head).await.status(), 200);
    proxy.drain().await;
    let seen = collector.only();
    assert_eq!((seen.header("api-key"), seen.header("x-scope-orgid")), (Some("for the collector"), Some("team")));
    assert_eq!((seen.header("authorization"), spans(&collector).len()), (None, 2));
    assert!(!String::from_utf8_lossy(&seen.body).contains("SECRET"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_before_anything_is_known_of_it_is_a_span_too() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "me token-of-an-agent-1\n").unwrap();
    let (upstream, collector) = (Upstream::new(|_, _| ok("{}")).await, collector().await);
    let change = |config: &mut Config| config.access.tokens = format!("file:{}", tokens.display());
    let proxy = traced(&upstream, &collector.url(), change, Decide::default()).await;
    assert_eq!(ask(proxy.address, with(&traceparent("01"), HELLO)).await.status(), 401);
    assert_eq!(ask(proxy.address, with(&traceparent("00"), HELLO)).await.status(), 401, "the agent says that this one is not recorded");
    assert_eq!(proxy.drain().await, 0);
    let (span, below) = family(spans(&collector));
    assert_eq!((hex(&span.trace_id).as_str(), hex(&span.parent_span_id).as_str(), below.len()), (TRACE, SPAN, 0));
    says(
        &span,
        &[
            ("http.request.method", "POST"),
            ("url.path", CHAT),
            ("http.response.status_code", "401"),
            ("error.type", "unauthorized"),
            ("plimsoll.format", "chat"),
        ],
    );
    assert!(upstream.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_is_trusted_by_authorities_of_its_own() {
    let upstream = Upstream::new(|_, _| ok(ANSWER)).await;
    let (identity, stranger) = (Identity::new(), Identity::new());
    let collector = Server::new(Some((&identity, &["http/1.1"])), 100).await;
    for (trusted, brought) in [(&stranger, 0), (&identity, 1)] {
        let change = |config: &mut Config| config.traces.ca_file = trusted.certificate.to_str().unwrap().into();
        let proxy = traced(&upstream, &format!("https://{}", collector.address), change, Decide::default()).await;
        assert_eq!(ask(proxy.address, with("", HELLO)).await.status(), 200);
        assert_eq!(proxy.drain().await, 0);
        assert_eq!(collector.seen.lock().unwrap().iter().filter(|seen| seen.target == "/v1/traces").count(), brought);
    }
}
