//! The program as a process: start, signals, exit codes, and what it writes.

mod support;

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
};

use plimsoll::{config::Config, proxy::decide::Decide};
use support::{Agent, CHAT, END, HELLO, SSE, Upstream, agent::ask, chunk, nobody, ok, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const WORD: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"},\"finish_reason\":null}]}\n\n";

struct Process {
    child: Child,
    log: BufReader<ChildStdout>,
    address: SocketAddr,
    admin: Option<SocketAddr>,
    /// What was logged before and with the line that says where it listens.
    said: String,
}

fn plimsoll(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    // No configuration of whoever runs the tests.
    command
        .args(arguments)
        .env_clear()
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Process {
    fn serve(upstream: &str, more: &[&str]) -> Process {
        Process::spawn(plimsoll(&["serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--window", "100000"]).args(more))
    }

    #[expect(clippy::zombie_processes, reason = "a test that fails while it starts ends anyway, and `end` waits for the rest")]
    fn spawn(command: &mut Command) -> Process {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        loop {
            let from = said.len();
            assert!(log.read_line(&mut said).unwrap() > 0, "it ended: {said}");
            let line: serde_json::Value = serde_json::from_str(&said[from..]).unwrap();
            if line["message"] == "listening" {
                let address = |name: &str| line[name].as_str().map(|address| address.parse().unwrap());
                return Process { child, log, address: address("address").unwrap(), admin: address("admin"), said };
            }
        }
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Reads the log up to a message.
    fn until(&mut self, message: &str) {
        while !self.said.contains(message) {
            assert!(self.log.read_line(&mut self.said).unwrap() > 0, "it ended: {}", self.said);
        }
    }

    /// Waits for the end; the whole log.
    async fn end(mut self) -> (ExitStatus, String) {
        tokio::task::spawn_blocking(move || {
            self.log.read_to_string(&mut self.said).unwrap();
            (self.child.wait().unwrap(), std::mem::take(&mut self.said))
        })
        .await
        .unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// An upstream that sends one word, waits to be told, and ends.
async fn slow() -> (Upstream, tokio::sync::oneshot::Sender<()>) {
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let wait = std::sync::Mutex::new(Some(wait));
    let upstream = Upstream::conduct(move |_, _, mut stream| {
        let wait = wait.lock().unwrap().take();
        async move {
            stream.write_all(&[SSE.as_bytes(), &chunk(WORD)].concat()).await.unwrap();
            wait?.await.ok()?;
            stream.write_all(&[chunk("data: [DONE]\n\n"), END.to_vec()].concat()).await.unwrap();
            Some(stream)
        }
    })
    .await;
    (upstream, go)
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_lets_streams_finish_and_nothing_begin() {
    let (upstream, go) = slow().await;
    let mut process = Process::serve(&upstream.url(), &["--admin", "127.0.0.1:0"]);
    let admin = process.admin.unwrap();
    let probe = async |path: &str| ask(admin, format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).await.status();
    assert_eq!((probe("/healthz").await, probe("/readyz").await, probe("/other").await), (200, 200, 404));
    let mut agent = Agent::connect(process.address).await;
    agent.send(post(CHAT, HELLO)).await;
    agent.until(WORD).await;
    process.signal("TERM");
    process.until("draining");
    assert_eq!((probe("/healthz").await, probe("/readyz").await), (200, 503));
    // The listener is closed as soon as its task has noticed, which is very soon.
    while tokio::net::TcpStream::connect(process.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    agent.head().await.unwrap();
    agent.until(END).await;
    assert!(process.end().await.0.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_it_at_once() {
    let (upstream, _go) = slow().await;
    let mut process = Process::serve(&upstream.url(), &["--admin", "off"]);
    let mut agent = Agent::connect(process.address).await;
    agent.send(post(CHAT, HELLO)).await;
    agent.until(WORD).await;
    process.signal("TERM");
    process.until("draining");
    process.signal("TERM");
    assert!(process.end().await.0.success());
    assert!(agent.answer().await.broken);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grace_period_ends_what_does_not_end() {
    let (upstream, _go) = slow().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "grace = 0.05").unwrap();
    let process = Process::serve(&upstream.url(), &["--admin", "off", "--config", file.to_str().unwrap()]);
    let mut agent = Agent::connect(process.address).await;
    agent.send(post(CHAT, HELLO)).await;
    agent.until(WORD).await;
    process.signal("INT");
    let (status, log) = process.end().await;
    assert!(status.success());
    let cut = log.lines().find(|line| line.contains("grace period")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(cut).unwrap()["cut"], 1, "it says how many it cut");
    let exchange = log.lines().find(|line| line.contains("\"message\":\"exchange\"")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(exchange).unwrap()["end"], "cut", "and which: {log}");
    assert!(agent.answer().await.broken);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_ask_for_nothing_do_not_hold_up_the_end() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let process = Process::serve(&upstream.url(), &["--admin", "off"]);
    let mut agents = Vec::new();
    for answered in [false, true] {
        for said in ["", "P", "\r\n", "POST /v1/models HTTP/1.1\r\nHost: h\r\nCont"] {
            let mut agent = Agent::connect(process.address).await;
            if answered {
                agent.send(post(CHAT, HELLO)).await;
                assert_eq!(agent.answer().await.status(), 200);
            }
            agent.send(said).await;
            agents.push(agent);
        }
    }
    // The beginning of HTTP/2, all of that, and settings; they never hear that it is over, for nobody reads.
    for said in ["PRI ", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut agent = Agent::connect(process.address).await;
        agent.send(said).await;
        agents.push(agent);
    }
    // All that came before it has most likely been read.
    assert_eq!(ask(process.address, post(CHAT, HELLO)).await.status(), 200);
    process.signal("TERM");
    assert!(process.end().await.0.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_stops_short_ends_with_the_grace_period() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    std::fs::write(&file, "grace = 0").unwrap();
    let process = Process::serve(&format!("http://{}", nobody()), &["--admin", "off", "--config", file.to_str().unwrap()]);
    let mut agent = Agent::connect(process.address).await;
    agent.send(format!("POST {CHAT} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 900\r\n\r\n")).await;
    agent.until("100 Continue\r\n\r\n").await;
    agent.send("{").await;
    process.signal("TERM");
    let (status, log) = process.end().await;
    assert!(status.success());
    assert!(log.contains("\"cut\":1") && log.contains("\"end\":\"cut\""), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_of_0_is_no_time_and_not_no_limit() {
    // Begins to answer one path, and never answers another.
    let upstream = Upstream::conduct(|_, seen, mut stream| async move {
        if seen.line.contains("/begun") {
            stream.write_all(SSE.as_bytes()).await.ok()?;
        }
        let _ = stream.read(&mut [0; 1]).await;
        None
    })
    .await;
    let with = async |change: fn(&mut Config)| support::proxy_with(&upstream, change, Decide::default()).await.address;
    let mut agent = Agent::connect(with(|config| config.keep_alive = 0.0).await).await;
    assert!(agent.ends().await);
    let mut agent = Agent::connect(with(|config| config.admission.header_timeout = 0.0).await).await;
    agent.send("GET / HTTP/1.1\r\nHost:").await;
    assert!(agent.ends().await);
    let address = with(|config| config.connection.response_timeout = 0.0).await;
    assert_eq!(ask(address, post(CHAT, HELLO)).await.status(), 504);
    let address = with(|config| config.connection.idle_timeout = 0.0).await;
    assert!(ask(address, "GET /v1/begun HTTP/1.1\r\nHost: h\r\n\r\n").await.broken);
}

#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_the_configuration_again() {
    let (first, second) = (Upstream::new(|_, _| ok("{}")).await, Upstream::new(|_, _| ok("{}")).await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    let route = |upstream: &Upstream| format!("reload = 0\n[[route]]\npath = \"/r\"\nupstream = \"{}\"\n", upstream.url());
    std::fs::write(&file, route(&first)).unwrap();
    let mut process = Process::serve(&first.url(), &["--admin", "off", "--config", file.to_str().unwrap()]);
    let mut agent = Agent::connect(process.address).await;
    let through = async |agent: &mut Agent| {
        agent.send(post(&format!("/r{CHAT}"), HELLO)).await;
        assert_eq!(agent.answer().await.status(), 200);
    };
    through(&mut agent).await;
    std::fs::write(&file, route(&second)).unwrap();
    process.signal("HUP");
    process.until("configuration applied");
    through(&mut agent).await;
    std::fs::write(&file, "listn = 1").unwrap();
    process.signal("HUP");
    process.until("configuration refused");
    assert!(process.said.contains("listn: no such key"), "{}", process.said);
    through(&mut agent).await;
    assert_eq!((first.seen().len(), second.seen().len()), (1, 2), "on one connection of the agent");
}

fn with_few_files(upstream: &Upstream) -> Process {
    let url = upstream.url();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--window", "100000", "--upstream", &url];
    let limited = ["-c", "ulimit -n 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_plimsoll")];
    Process::spawn(Command::new("sh").args(limited).args(serve))
}

/// One connection of HTTP/2 may want more connections to upstream than there are file descriptors for.
#[tokio::test(flavor = "multi_thread")]
async fn streams_beyond_the_file_descriptors_are_told_to_come_again() {
    let upstream = Upstream::conduct(|_, _, mut stream| async move {
        stream.write_all(&[SSE.as_bytes(), &chunk(WORD)].concat()).await.ok()?;
        // Until the proxy leaves.
        let _ = stream.read(&mut [0; 1]).await;
        None
    })
    .await;
    let process = with_few_files(&upstream);
    let stream = tokio::net::TcpStream::connect(process.address).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let chat = async |mut sender: hyper::client::conn::http2::SendRequest<String>| {
        sender.send_request(http::Request::post(format!("http://h{CHAT}")).body(HELLO.to_owned()).unwrap()).await.unwrap()
    };
    let all: Vec<_> = futures_util::future::join_all((0..80).map(|_| chat(sender.clone()))).await;
    let (answered, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(|answer| answer.status() == 200);
    assert!(answered.len() > 10 && !refused.is_empty(), "{} {}", answered.len(), refused.len());
    for answer in refused {
        assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    }
    drop(answered);
    while chat(sender.clone()).await.status() != 200 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn few_file_descriptors_make_agents_wait_and_lose_nobody() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let process = with_few_files(&upstream);
    let agents: Vec<_> = (0..100).map(|_| tokio::spawn(ask(process.address, post(CHAT, HELLO)))).collect();
    for agent in agents {
        assert_eq!(agent.await.unwrap().status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_starts_before_its_upstream() {
    let address = nobody();
    let process = Process::serve(&format!("http://{address}"), &["--admin", "off"]);
    assert_eq!(ask(process.address, post(CHAT, HELLO)).await.status(), 502);
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let upstream = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The whole request, so that it is not answered before it was asked.
        let mut asked = Vec::new();
        while !asked.ends_with(HELLO.as_bytes()) {
            assert!(stream.read_buf(&mut asked).await.unwrap() > 0);
        }
        stream.write_all(&ok("{}")).await.unwrap();
        stream
    });
    assert_eq!(ask(process.address, post(CHAT, HELLO)).await.status(), 200);
    drop(upstream.await);
}

#[tokio::test(flavor = "multi_thread")]
async fn private_no_credential_and_no_word_of_a_message_is_ever_logged() {
    let secrets = ["SECRET-AUTH", "SECRET-XKEY", "SECRET-COOKIE", "SECRET-BODY", "SECRET-QUERY", "SECRET-ANSWER"];
    let upstream = Upstream::new(|n, _| match n {
        0 => ok("{\"text\":\"SECRET-ANSWER\"}"),
        1 => support::answer("400 Bad Request", "", "{\"error\":{\"message\":\"SECRET-ANSWER\"}}"),
        _ => b"HTTP/1.1 SECRET-ANSWER\r\n\r\n".to_vec(),
    })
    .await;
    let dead = nobody();
    for (url, requests) in [(upstream.url(), 3), (format!("http://{dead}"), 1)] {
        let process = Process::serve(&url, &["--admin", "off", "--log-level", "trace"]);
        for _ in 0..requests {
            let body = "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"SECRET-BODY\"}]}";
            let request = format!(
                "POST {CHAT}?key=SECRET-QUERY HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer SECRET-AUTH\r\nx-api-key: SECRET-XKEY\r\nCookie: s=SECRET-COOKIE\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            ask(process.address, request).await;
        }
        // Not even a request that makes no sense.
        let mut agent = Agent::connect(process.address).await;
        agent.send("POST /SECRET-BODY\x01 HTTP/1.1\r\nAuthorization SECRET-AUTH\r\n\r\n").await;
        agent.head().await.unwrap();
        process.signal("TERM");
        let (_, log) = process.end().await;
        assert_eq!(log.matches("\"message\":\"exchange\"").count(), requests, "{log}");
        let unreachable = format!("\"upstream\":\"{dead}\",\"cause\":\"connection refused\"");
        assert_eq!(log.contains(&unreachable), url.contains(&dead.to_string()), "{log}");
        for secret in secrets {
            assert!(!log.contains(secret), "{secret} in {log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_exchange_is_one_line_of_the_log() {
    let upstream = Upstream::new(|_, _| ok("{\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":2}}")).await;
    let process = Process::serve(&upstream.url(), &["--admin", "off"]);
    ask(process.address, post(&format!("{CHAT}?a=b"), HELLO)).await;
    ask(process.address, "GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n").await;
    ask(process.address, post("/v1/messages", &HELLO.replace("\"m\"", &format!("\"{}\"", "é".repeat(50_000))))).await;
    process.signal("TERM");
    let (_, log) = process.end().await;
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| line["message"] == "exchange")
        .collect();
    assert_eq!(lines.len(), 3);
    // A line is written when the agent has its answer, and so perhaps after the next connection's.
    let of = |path: &str| lines.iter().find(|line| line["path"] == path).expect("a line");
    let (chat, models) = (of(CHAT), of("/v1/models"));
    assert_eq!(
        (chat["method"].as_str(), chat["path"].as_str(), chat["route"].as_str(), chat["format"].as_str()),
        (Some("POST"), Some(CHAT), Some("openai"), Some("chat"))
    );
    assert_eq!(
        (chat["status"].as_u64(), chat["bytes_in"].as_u64(), chat["tokens_in"].as_u64(), chat["end"].as_str()),
        (Some(200), Some(HELLO.len() as u64), Some(11), Some("complete"))
    );
    assert!(chat["ms"].as_f64() >= chat["ttfb_ms"].as_f64() && chat["added_ms"].is_number());
    assert_eq!(of("/v1/messages")["model"].as_str(), Some("é".repeat(128).as_str()), "as much of a name as is written");
    assert_eq!((models["path"].as_str(), models["format"].as_str(), models["trigger"].is_null()), (Some("/v1/models"), Some("none"), true));
}

#[test]
fn keys_that_everybody_may_use_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let [file, tokens] = ["c.toml", "tokens"].map(|name| folder.path().join(name));
    std::fs::write(&tokens, "me token-of-an-agent-1\n").unwrap();
    let check = |listen: &str, access: &str, wanted: bool| {
        let key = format!("[credential]\nopenai = \"file:{}\"\n", tokens.display());
        std::fs::write(&file, format!("listen = \"{listen}\"\nadmin = \"off\"\n{key}{access}")).unwrap();
        let process = Process::spawn(&mut plimsoll(&["serve", "--config", file.to_str().unwrap()]));
        assert_eq!(process.said.contains("says who may"), wanted, "{}", process.said);
    };
    check("0.0.0.0:0", "", true);
    check("127.0.0.1:0", "", false);
    check("0.0.0.0:0", &format!("[access]\ntokens = \"file:{}\"\n", tokens.display()), false);
}

fn refusal(arguments: &[&str], file: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    std::fs::write(&path, text).unwrap();
    let end = plimsoll(arguments).current_dir(folder.path()).output().unwrap();
    assert_eq!(end.status.code(), Some(64), "{end:?}");
    String::from_utf8(end.stderr).unwrap()
}

#[test]
fn a_wrong_configuration_stops_the_start_with_file_and_key() {
    let said = refusal(&["serve"], "plimsoll.toml", "[policy.hygiene]\ntreshold = 0.5\n");
    assert!(said.contains("plimsoll.toml: policy.hygiene.treshold: no such key; did you mean threshold?"), "{said}");
    let said = refusal(&["check", "--config", "other.toml"], "other.toml", "listen = 4790\n");
    assert!(said.contains("other.toml") && said.contains("listen: integer `4790` is not accepted; expected a string (line 1)"), "{said}");
    assert!(refusal(&["serve", "--config", "missing.toml"], "x", "").contains("missing.toml: cannot be read"));
    assert!(refusal(&["serve", "--window", "many"], "x", "").contains("--window"));
    assert!(refusal(&["serve", "--wndow", "1"], "x", "").contains("--window"));
    assert!(
        refusal(
            &["serve", "--admin", "off", "--listen", "127.0.0.1:0"],
            "plimsoll.toml",
            "tls = { certificate = \"no.pem\", key = \"no.pem\" }"
        )
        .contains("no.pem cannot be read")
    );
}

#[test]
fn an_address_that_is_taken_stops_the_start_if_it_was_asked_for() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(refusal(&["serve", "--listen", &address, "--admin", "off"], "x", "").contains("listen: cannot listen on"));
    assert!(refusal(&["serve", "--listen", "127.0.0.1:0", "--admin", &address], "x", "").contains("admin: cannot listen on"));
}

#[test]
fn check_prints_what_the_configuration_resolves_to() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("plimsoll.toml"),
        "[[route]]\npath = \"/router\"\nupstream = \"https://openrouter.ai/api/v1\"\npolicy = { target = 0.3 }\n[[model]]\nname = \"big-*\"\npolicy = { window = 1000000 }\n",
    )
    .unwrap();
    let check = |arguments: &[&str], wanted: &[&str]| {
        let end = plimsoll(arguments).current_dir(folder.path()).env("PLIMSOLL_WINDOW", "5000").output().unwrap();
        let said = String::from_utf8(end.stdout).unwrap();
        assert!(end.status.success());
        wanted.iter().for_each(|wanted| assert!(said.contains(wanted), "{wanted} in {said}"));
    };
    check(
        &["check"],
        &["plimsoll.toml", "listen = \"127.0.0.1:4790\"", "https://api.anthropic.com", "https://openrouter.ai/api/v1", "window = 5000"],
    );
    check(
        &["check", "--path", "/router/v1/chat/completions?a=1", "--model", "big-one"],
        &["/router", "target = 0.3", "goes to https://openrouter.ai/api/v1/chat/completions?a=1"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_what_is_logged() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plimsoll.toml");
    let write = |level: &str| {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nreload = 0.0\nupstream = \"{}\"\n[log]\nlevel = \"{level}\"\n",
            upstream.url()
        );
        std::fs::write(&file, text).unwrap();
    };
    write("info");
    let mut process = Process::spawn(&mut plimsoll(&["serve", "--config", file.to_str().unwrap()]));
    let admin = process.admin.unwrap();
    let applied = async |count: usize| {
        let wanted = format!("plimsoll_configuration_loads_total{{outcome=\"applied\"}} {count}");
        while !ask(admin, "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").await.text().contains(&wanted) {
            tokio::task::yield_now().await;
        }
    };
    ask(process.address, "GET /v1/loud HTTP/1.1\r\nHost: h\r\n\r\n").await;
    process.until("/v1/loud");
    write("warn");
    process.signal("HUP");
    applied(1).await;
    ask(process.address, "GET /v1/quiet HTTP/1.1\r\nHost: h\r\n\r\n").await;
    ask(process.address, "GET /v1/quiet/too HTTP/1.1\r\nHost: h\r\n\r\n").await;
    write("info");
    process.signal("HUP");
    process.until("configuration applied");
    process.signal("TERM");
    let (status, log) = process.end().await;
    assert!(status.success());
    assert!(!log.contains("/v1/quiet\"") && log.matches("configuration applied").count() == 1, "{log}");
}
