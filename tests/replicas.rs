//! Summaries where replicas share a Redis: each prefix is summarised once, and what one replica sends all of them send.

mod support;

use std::sync::Arc;

use plimsoll::{
    compact::summary::When,
    config::{Config, Store},
    proxy::{decide::Decide, lifecycle::Running},
};
use support::{CHAT, Upstream, agent::ask, long, ok, post, proxy_with, redis::Redis, upstream::Seen};

const REPLICAS: usize = 3;

/// A summary that is beyond reproach, of what it was given.
fn good(seen: &Seen, session: &str) -> String {
    let text = String::from_utf8_lossy(&seen.body).into_owned();
    let files: Vec<String> = (0..99).map(|n| format!("src/{session}/f{n}.rs")).filter(|path| text.contains(path.as_str())).collect();
    format!(
        "## Decisions\n- Go through the files one by one.\n## Open TODOs\n- Find where the port is set.\n## Constraints/Rules\n- Never touch the tests.\n\
         ## Pending user asks\n- In {session}: find where the port is set. Never touch the tests.\n## Exact identifiers\n- {}",
        files.join(", ")
    )
}

fn says(text: &str) -> Vec<u8> {
    let choice = serde_json::json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"});
    ok(&serde_json::json!({"choices": [choice]}).to_string())
}

async fn replica(upstream: &Upstream, models: &Upstream, redis: &Redis, secret: &std::path::Path, when: When) -> Running {
    let mut config = Config::default();
    config.ledger.store = Store::Redis;
    (config.ledger.url, config.ledger.secret) = (redis.url(), format!("file:{}", secret.display()));
    // This is not about a slow one.
    config.ledger.deadline = 10.0;
    let decide = Decide::new(&config).unwrap();
    let url = models.url();
    let change = |config: &mut Config| {
        config.policy.window = long::WINDOW;
        let summarize = &mut config.policy.compact.summarize;
        (summarize.model, summarize.upstream, summarize.when) = ("summary-model".into(), url, when);
    };
    proxy_with(upstream, change, decide).await
}

/// The calls with which a summary begins; a second one may ask for what was missing.
fn begun(models: &Upstream) -> Vec<Vec<u8>> {
    let again = |body: &Vec<u8>| body.windows(15).any(|text| text == b"A first attempt");
    models.seen().into_iter().map(|seen| seen.body).filter(|body| !again(body)).collect()
}

/// What upstream got for this request from each of the replicas, which are asked at once.
async fn from_all(replicas: &[Running], upstream: &Upstream, body: &str) -> Vec<Vec<u8>> {
    let before = upstream.seen().len();
    let asked: Vec<_> = replicas.iter().map(|replica| tokio::spawn(ask(replica.address, post(CHAT, body)))).collect();
    for got in asked {
        assert_eq!(got.await.unwrap().status(), 200);
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), before + replicas.len(), "one request each");
    seen[before..].iter().map(|seen| seen.body.clone()).collect()
}

/// Sessions that are played at all replicas at once, turn after turn: the same bytes from all, one summary a prefix. How many turns had one.
async fn play(when: When, sessions: [&'static str; 4]) -> Option<usize> {
    let redis = Redis::start()?;
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "shared by all replicas").unwrap();
    let mut summarised = 0;
    for session in sessions {
        let upstream = Upstream::new(|_, _| ok("{}")).await;
        let models = Upstream::new(move |_, seen| says(&good(seen, session))).await;
        let mut replicas = Vec::new();
        for _ in 0..REPLICAS {
            replicas.push(replica(&upstream, &models, &redis, &secret, when).await);
        }
        for turns in 8..30 {
            let sent = from_all(&replicas, &upstream, &long::body(session, turns)).await;
            assert!(sent.iter().all(|body| *body == sent[0]), "{session}, turn {turns}: replicas differ");
            summarised += usize::from(sent[0].windows(22).any(|text| text == b"[plimsoll: summary of "));
        }
        let calls = begun(&models);
        let mut prefixes = calls.clone();
        prefixes.sort();
        prefixes.dedup();
        assert!(!calls.is_empty() && prefixes.len() == calls.len(), "{} calls for {} prefixes", calls.len(), prefixes.len());
    }
    Some(summarised)
}

#[tokio::test(flavor = "multi_thread")]
async fn once_three_replicas_that_are_asked_at_once_make_one_summary_and_send_the_same_bytes() {
    let Some(summarised) = play(When::Request, ["one", "two", "three", "four"]).await else { return };
    assert!(summarised > 16, "{summarised} turns with a summary");
}

/// Nobody waits here, so whether a turn has a summary is chance; that all replicas send the same is not.
#[tokio::test(flavor = "multi_thread")]
async fn stable_replicas_send_the_same_bytes_while_summaries_arrive_in_between() {
    play(When::Background, ["five", "six", "seven", "eight"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_waits_for_anothers_summary_hears_that_there_is_none() {
    let Some(redis) = Redis::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "shared by all replicas").unwrap();
    let (upstream, release) = (Upstream::new(|_, _| ok("{}")).await, Arc::new(tokio::sync::Semaphore::new(0)));
    let wait = release.clone();
    let models = Upstream::conduct(move |_, _, mut stream| {
        let wait = wait.clone();
        async move {
            wait.acquire().await.ok()?.forget();
            tokio::io::AsyncWriteExt::write_all(&mut stream, &says("I'm sorry, but I can't help with that.")).await.ok()?;
            Some(stream)
        }
    })
    .await;
    let mut replicas = Vec::new();
    for _ in 0..REPLICAS {
        replicas.push(replica(&upstream, &models, &redis, &secret, When::Request).await);
    }
    let asked = async {
        models.arrived(1).await;
        release.add_permits(100);
    };
    let body = long::body("one", 16);
    let (sent, ()) = tokio::join!(from_all(&replicas, &upstream, &body), asked);
    assert!(sent.iter().all(|body| *body == sent[0] && body.windows(20).any(|text| text == b"[plimsoll: notes on ")), "the digest serves");
}
