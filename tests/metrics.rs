//! What the admin port tells.

mod support;

use std::collections::BTreeSet;

use plimsoll::{
    compact::summary::When,
    proxy::{decide::Decide, metrics::CATALOGUE},
};
use support::{
    Agent, CHAT, HELLO, Upstream, agent::ask, long, nobody, ok, post, proxy_to, proxy_with, script::Scripted, secure::Identity, sse,
};

fn with_admin(config: &mut plimsoll::config::Config) {
    config.admin = "127.0.0.1:0".into();
}

async fn scrape(admin: std::net::SocketAddr) -> String {
    let got = ask(admin, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert!(got.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    got.text().to_owned()
}

/// Exchanges are counted when they are dropped, which is just after their last byte was read.
async fn until(admin: std::net::SocketAddr, wanted: &[&str]) {
    let mut text = String::new();
    for _ in 0..2000 {
        text = scrape(admin).await;
        if wanted.iter().all(|wanted| text.lines().any(|line| line == *wanted)) {
            return;
        }
        tokio::task::yield_now().await;
    }
    let missing: Vec<_> = wanted.iter().filter(|wanted| !text.lines().any(|line| line == **wanted)).collect();
    panic!("{missing:#?} not in\n{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_exchange_is_counted_with_what_happened_to_it() {
    let usage = "{\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":8}}}";
    let upstream = Upstream::new(move |_, _| ok(usage)).await;
    let scripted = Scripted { first: Some("{\"less\":1}"), ..Scripted::default() };
    let proxy = proxy_with(&upstream, with_admin, scripted.decide()).await;
    let admin = proxy.admin.unwrap();
    ask(proxy.address, post(CHAT, HELLO)).await;
    ask(proxy.address, "GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n").await;
    ask(proxy.address, "CONNECT evil.example:443 HTTP/1.1\r\nHost: h\r\n\r\n").await;
    until(
        admin,
        &[
            "plimsoll_exchanges_total{route=\"openai\",format=\"chat\",status=\"2xx\",end=\"complete\"} 1",
            "plimsoll_exchanges_total{route=\"openai\",format=\"none\",status=\"2xx\",end=\"complete\"} 1",
            "plimsoll_exchanges_total{route=\"none\",format=\"none\",status=\"4xx\",end=\"no_tunnel\"} 1",
            "plimsoll_exchanges_in_flight 0",
            &format!("plimsoll_body_bytes_total{{part=\"received\"}} {}", HELLO.len()),
            "plimsoll_body_bytes_total{part=\"sent\"} 10",
            &format!("plimsoll_body_bytes_total{{part=\"answered\"}} {}", 2 * usage.len()),
            "plimsoll_provider_tokens_total{kind=\"input\"} 11",
            "plimsoll_provider_tokens_total{kind=\"cached\"} 8",
            "plimsoll_provider_tokens_total{kind=\"output\"} 2",
            "gen_ai_client_token_usage_sum{gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"_OTHER\",gen_ai_token_type=\"input\"} 11.0",
            "gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"_OTHER\",error_type=\"\"} 1",
            "plimsoll_added_seconds_count 1",
            "plimsoll_overflows_total 0",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_fail_opens_and_failures_are_counted_by_cause() {
    let too_long = "{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.\",\"type\":\"invalid_request_error\",\"code\":\"context_length_exceeded\"}}";
    let upstream = Upstream::new(move |n, _| match n {
        0 => support::answer("400 Bad Request", "Content-Type: application/json\r\n", too_long),
        _ => ok("{}"),
    })
    .await;
    let proxy = proxy_with(&upstream, with_admin, Scripted { harder: Some("{\"h\":1}"), ..Scripted::default() }.decide()).await;
    assert_eq!(ask(proxy.address, post(CHAT, HELLO)).await.status(), 200);
    until(
        proxy.admin.unwrap(),
        &[
            "plimsoll_overflows_total 1",
            "plimsoll_retries_total{kind=\"harder\",outcome=\"answered\"} 1",
            "plimsoll_retries_total{kind=\"harder\",outcome=\"refused\"} 0",
        ],
    )
    .await;

    let proxy = proxy_with(&upstream, with_admin, Scripted { panic: true, ..Scripted::default() }.decide()).await;
    ask(proxy.address, post(CHAT, HELLO)).await;
    until(proxy.admin.unwrap(), &["plimsoll_fail_opens_total{cause=\"panic\"} 1"]).await;

    let proxy = proxy_to(&format!("http://{}", nobody()), with_admin, Decide::default()).await;
    ask(proxy.address, post(CHAT, HELLO)).await;
    ask(proxy.address, post(CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"messages\":[]}")).await;
    until(
        proxy.admin.unwrap(),
        &[
            "plimsoll_exchanges_total{route=\"openai\",format=\"chat\",status=\"5xx\",end=\"upstream_unreachable\"} 2",
            "plimsoll_passes_total{cause=\"window_unknown\"} 1",
            "plimsoll_fail_opens_total{cause=\"ambiguous\"} 1",
            "gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name=\"chat\",gen_ai_provider_name=\"_OTHER\",error_type=\"upstream_unreachable\"} 2",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_summaries_cost_and_what_digests_leave_out_is_counted() {
    let usage = "\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":1}";
    let models = Upstream::new(move |_, _| {
        ok(&format!("{{\"choices\":[{{\"message\":{{\"content\":\"\"}},\"finish_reason\":\"stop\"}}],{usage}}}"))
    })
    .await;
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let url = models.url();
    let change = |config: &mut plimsoll::config::Config| {
        with_admin(config);
        config.policy.window = long::WINDOW;
        let compact = &mut config.policy.compact;
        (compact.summarize.model, compact.summarize.upstream, compact.summarize.when) = ("s".into(), url, When::Request);
        // Room for a few lines only.
        compact.digest.max_tokens = 100;
    };
    let proxy = proxy_with(&upstream, change, Decide::default()).await;
    for turns in 8..24 {
        ask(proxy.address, post(CHAT, &long::body("one", turns))).await;
    }
    let calls = models.seen().len();
    assert!(calls > 0);
    let wanted = [
        format!("plimsoll_summary_calls_total{{outcome=\"wasted\"}} {calls}"),
        "plimsoll_summary_calls_total{outcome=\"kept\"} 0".into(),
        format!("plimsoll_summary_tokens_total{{kind=\"input\",outcome=\"wasted\"}} {}", 40 * calls),
        format!("plimsoll_summary_tokens_total{{kind=\"output\",outcome=\"wasted\"}} {calls}"),
        "plimsoll_summaries_total{end=\"empty\"} 1".into(),
        "plimsoll_exchanges_in_flight 0".into(),
        "plimsoll_summaries_total{end=\"kept\"} 0".into(),
    ];
    until(proxy.admin.unwrap(), &wanted.each_ref().map(String::as_str)).await;
    let text = scrape(proxy.admin.unwrap()).await;
    let records = |text: &str, outcome: &str| -> u64 {
        let counts = text.lines().filter(|line| line.starts_with("plimsoll_digest_records_total{") && line.contains(outcome));
        counts.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let (written, left_out) = (records(&text, "\"written\""), records(&text, "\"left_out\""));
    assert!(written > 0 && left_out > written, "{text}");
    // The same epoch again loses nothing more.
    let reapplied =
        |text: &str| text.lines().find_map(|line| line.strip_prefix("plimsoll_epochs_reapplied_total ")?.parse::<u64>().ok()).unwrap();
    ask(proxy.address, post(CHAT, &long::body("one", 23).replace("]}", ",{\"role\":\"user\",\"content\":\"Go on.\"}]}"))).await;
    until(proxy.admin.unwrap(), &[&format!("plimsoll_epochs_reapplied_total {}", reapplied(&text) + 1)]).await;
    assert_eq!(records(&scrape(proxy.admin.unwrap()).await, "outcome"), written + left_out);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_certificates_that_are_shown_is_told() {
    let (upstream, server) = (Upstream::new(|_, _| ok("{}")).await, Identity::new());
    let change = |config: &mut plimsoll::config::Config| {
        with_admin(config);
        config.tls.certificate = server.certificate.to_str().unwrap().into();
        config.tls.key = server.key.to_str().unwrap().into();
    };
    let proxy = proxy_with(&upstream, change, Decide::default()).await;
    let text = scrape(proxy.admin.unwrap()).await;
    let end = text.lines().find_map(|line| line.strip_prefix("plimsoll_certificate_expiry_timestamp_seconds{use=\"server\"} ")).unwrap();
    assert!(end.parse::<u64>().unwrap() > 1_700_000_000, "{end}");
    assert!(text.contains("plimsoll_certificate_expiry_timestamp_seconds{use=\"client\"} 0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_served_is_what_is_listed() {
    let upstream = Upstream::new(|_, _| sse(&["data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "data: [DONE]\n\n"])).await;
    let proxy = proxy_with(&upstream, with_admin, Decide::default()).await;
    ask(proxy.address, post(CHAT, "{\"model\":\"gpt-4o\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}")).await;
    let text = scrape(proxy.admin.unwrap()).await;
    let served: BTreeSet<(&str, &str)> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let listed: BTreeSet<(&str, &str)> = CATALOGUE.iter().map(|entry| (entry.name.trim_end_matches("_total"), entry.kind)).collect();
    assert!(served.is_subset(&listed), "{served:?}");
    // What has labels that only an exchange fills in comes with the first one.
    assert!(served.len() + 3 >= listed.len(), "{served:?}");
    // A label that is not listed would be one that nobody has closed.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').map_or((series, ""), |(name, labels)| (name, labels.trim_end_matches('}')));
        let entry =
            CATALOGUE.iter().find(|entry| ["", "_bucket", "_sum", "_count"].iter().any(|suffix| name == format!("{}{suffix}", entry.name)));
        let entry = entry.unwrap_or_else(|| panic!("{name} is not listed"));
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let label = label.split('=').next().unwrap();
            assert!(entry.labels.contains(&label) || label == "le", "{line}");
        }
    }
}

#[test]
fn the_program_lists_its_metrics() {
    let list = |arguments: &[&str]| {
        let end = std::process::Command::new(env!("CARGO_BIN_EXE_plimsoll")).args(arguments).output().unwrap();
        assert!(end.status.success());
        String::from_utf8(end.stdout).unwrap()
    };
    let names = list(&["metrics", "--names"]);
    assert_eq!(names.lines().collect::<Vec<_>>(), CATALOGUE.iter().map(|entry| entry.name).collect::<Vec<_>>());
    assert!(list(&["metrics"]).contains("plimsoll_retries_total\tcounter\tkind,outcome\t"));
}

#[tokio::test(flavor = "multi_thread")]
async fn private_no_model_no_path_and_no_credential_is_in_a_metric() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let proxy = proxy_with(&upstream, with_admin, Decide::default()).await;
    let mut agent = Agent::connect(proxy.address).await;
    let body = "{\"model\":\"SECRET-MODEL\",\"messages\":[{\"role\":\"user\",\"content\":\"SECRET-BODY\"}]}";
    agent
        .send(format!(
            "POST /SECRET-PATH{CHAT}?k=SECRET-QUERY HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer SECRET-KEY\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    agent.answer().await;
    let admin = proxy.admin.unwrap();
    until(admin, &["plimsoll_exchanges_in_flight 0"]).await;
    assert!(!scrape(admin).await.contains("SECRET"));
}
