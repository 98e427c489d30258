//! The program as it is started from a shell.

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};
use support::{Upstream, ok};

/// The program, in a folder of its own and without whatever this machine is configured to.
fn plimsoll(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("XDG_CONFIG_HOME", folder);
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a script of the shell behind a proxy.
fn run_sh(script: &str) -> Output {
    plimsoll(folder().path()).args(["run", "--", "sh", "-c", script]).output().unwrap()
}

/// Starts a script of the shell behind a proxy; its first line, and the rest to come.
fn start_sh(folder: &Path, script: &str, variables: &[(&str, &str)]) -> (Child, String) {
    let mut command = plimsoll(folder);
    command.args(["run", "--", "sh", "-c", script]).envs(variables.iter().copied());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim_end().to_owned())
}

fn kill(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn the_demo_shows_a_death_without_and_an_end_with() {
    let output = plimsoll(folder().path()).args(["demo", "--json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (alone, behind, window) = (&shown["without"], &shown["with"], shown["window"].as_u64().unwrap());
    assert_eq!(alone["finished"], false);
    assert_eq!(alone["turns"].as_array().unwrap().last().unwrap()["status"], 400);
    assert_eq!(behind["finished"], true);
    assert_eq!(behind["answered"], shown["turns"]);
    assert!(behind["compactions"].as_u64().unwrap() > 0);
    for turn in behind["turns"].as_array().unwrap() {
        assert!(turn["status"] == 200 && turn["sent"].as_u64().unwrap() <= window, "{turn}");
    }
    assert!(behind["turns"].as_array().unwrap().last().unwrap()["holds"].as_u64().unwrap() > window);
    let rules = behind["rules"].as_object().unwrap();
    assert!(!rules.is_empty() && rules.values().all(|knows| knows == true), "{rules:?}");
}

#[test]
fn the_demo_is_a_table_without_colours_where_nobody_looks() {
    let output = plimsoll(folder().path()).arg("demo").output().unwrap();
    let table = text(&output.stdout);
    assert!(output.status.success() && table.contains("refused: 400") && table.contains("compacted"), "{table}");
    assert!(!table.contains('\x1b'));
}

#[test]
fn a_command_is_told_where_its_proxy_is() {
    let output = run_sh("echo $OPENAI_BASE_URL $OPENAI_API_BASE $ANTHROPIC_BASE_URL");
    let [openai, old, anthropic] = text(&output.stdout).split_whitespace().collect::<Vec<_>>()[..] else { panic!("{output:?}") };
    let port = anthropic.strip_prefix("http://127.0.0.1:").unwrap();
    assert_ne!(port.parse::<u16>().unwrap(), 0);
    assert_eq!((openai, old), (format!("{anthropic}/v1").as_str(), openai));
}

#[test]
fn the_exit_code_is_the_commands() {
    let check = |script: &str, code: i32| assert_eq!(run_sh(script).status.code(), Some(code), "{script}");
    check("exit 0", 0);
    check("exit 7", 7);
    check("exit 255", 255);
    check("kill -9 $$", 137);
    check("kill -TERM $$", 143);
    let output = plimsoll(folder().path()).args(["run", "--", "./no-such-command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("no-such-command"), "{output:?}");
}

#[test]
fn nothing_but_the_command_writes_to_standard_output() {
    let output = run_sh("echo mine; echo also >&2");
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("mine\n", "also\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_the_environment_names_is_asked() {
    let upstream = Upstream::new(|_, _| ok("{}")).await;
    let gateway = format!("{}/gateway/v1", upstream.url());
    let folder = folder();
    let (mut child, proxy) = start_sh(folder.path(), "echo $ANTHROPIC_BASE_URL; read line; exit 5", &[("OPENAI_BASE_URL", &gateway)]);
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(proxy.strip_prefix("http://").unwrap()).unwrap();
        stream.write_all(b"GET /v1/files HTTP/1.1\r\nHost: proxy.example\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        (answer, child.wait().unwrap())
    });
    let (answer, status) = asked.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(status.code(), Some(5));
    assert_eq!(upstream.seen()[0].target(), "/gateway/v1/files");
}

#[test]
fn sigterm_is_passed_on_and_sigint_is_the_commands_affair() {
    let folder = folder();
    let (mut child, line) = start_sh(
        folder.path(),
        "trap 'exit 9' TERM; echo ready; while read line; do :; done; while kill -0 $PPID 2>/dev/null; do :; done",
        &[],
    );
    assert_eq!(line, "ready");
    // The shell looks at its traps between two rounds, and does not outlive us.
    drop(child.stdin.take());
    kill(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(9));

    let (mut child, line) = start_sh(folder.path(), "echo ready; read line; exit 5", &[]);
    assert_eq!(line, "ready");
    kill(&child, "-INT");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn agents_that_ignore_the_variables_are_helped() {
    let folder = folder();
    for name in ["codex", "opencode"] {
        let script = folder.path().join(name);
        fs::write(&script, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
        assert!(Command::new("chmod").arg("+x").arg(&script).status().unwrap().success());
    }
    let start = |name: &str| plimsoll(folder.path()).args(["run", "--", &format!("./{name}"), "exec", "hi"]).output().unwrap();

    let output = start("codex");
    let [c, setting, exec, hi] = text(&output.stdout).lines().collect::<Vec<_>>()[..] else { panic!("{output:?}") };
    assert_eq!((c, exec, hi), ("-c", "exec", "hi"));
    assert!(setting.starts_with("openai_base_url=\"http://127.0.0.1:") && setting.ends_with("/v1\""), "{setting}");

    let output = start("opencode");
    assert_eq!(text(&output.stdout), "exec\nhi\n");
    assert!(text(&output.stderr).contains("baseURL to \"http://127.0.0.1:"), "{output:?}");
}

#[test]
fn completions_are_there_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = plimsoll(folder().path()).args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains("completions"), "{shell}: {output:?}");
    }
}

#[test]
fn help_says_what_it_is_and_how_to_begin() {
    let output = plimsoll(folder().path()).arg("--help").output().unwrap();
    for words in ["context window", "OPENAI_BASE_URL", "plimsoll demo", "plimsoll run -- claude"] {
        assert!(output.status.success() && text(&output.stdout).contains(words), "{words}: {output:?}");
    }
}

#[test]
fn the_reference_of_this_version_is_in_the_program_and_is_a_configuration() {
    let folder = folder();
    let output = plimsoll(folder.path()).args(["check", "--reference"]).output().unwrap();
    assert!(text(&output.stdout).starts_with(&format!("# Plimsoll {}\n", env!("CARGO_PKG_VERSION"))));
    fs::write(folder.path().join("plimsoll.toml"), &output.stdout).unwrap();
    assert!(plimsoll(folder.path()).arg("check").output().unwrap().status.success());
}

#[test]
fn a_preset_is_chosen_by_name_and_a_wrong_name_is_told_the_right_ones() {
    let folder = folder();
    let check = |arguments: &[&str]| plimsoll(folder.path()).arg("check").args(arguments).output().unwrap();
    let output = check(&["--preset", "openclaw", "--path", "/v1/messages"]);
    assert!(output.status.success() && text(&output.stdout).contains("tail_turns = 3"), "{output:?}");
    let output = check(&["--preset", "openclwa"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("openclaw") && text(&output.stderr).contains("phosphor"), "{output:?}");
}

#[test]
fn a_wrong_configuration_ends_with_64_and_names_the_key() {
    let folder = folder();
    fs::write(folder.path().join("bad.toml"), "[policy]\ntarget = 45\n").unwrap();
    let check = |arguments: &[&str], variables: &[(&str, &str)], words: &str| {
        let output = plimsoll(folder.path()).args(arguments).envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {output:?}");
        assert!(text(&output.stderr).contains(words), "{arguments:?}: {output:?}");
        assert!(!text(&output.stdout).contains("ran"), "{arguments:?}");
    };
    check(&["check", "--config", "bad.toml"], &[], "bad.toml: policy.target: 45 is not accepted");
    check(&["serve", "--listen", "nowhere"], &[], "listen: \"nowhere\" is not accepted");
    check(&["serve"], &[("PLIMSOLL_UPSTREAM", "ftp://h")], "upstream: \"ftp://h\" is not accepted");
    let key = "[policy.compact.summarize]\nmodel = \"m\"\nupstream = \"http://h\"\nkey = \"file:/nope\"\n";
    fs::write(folder.path().join("nope.toml"), format!("listen = \"127.0.0.1:0\"\nadmin = \"off\"\n{key}")).unwrap();
    let words = "nope.toml: policy.compact.summarize.key: /nope cannot be read: No such file or directory (os error 2); expected a file";
    check(&["serve", "--config", "nope.toml"], &[], words);
    let ledger = "[ledger]\nstore = \"redis\"\nurl = \"rediss://h\"\nca_file = \"no.pem\"\nsecret = \"file:ca.toml\"\n";
    fs::write(folder.path().join("ca.toml"), ledger).unwrap();
    check(&["serve", "--config", "ca.toml"], &[], "ca.toml: ledger.ca_file: no.pem cannot be read");
    let traces = "[traces]\nendpoint = \"https://h\"\nca_file = \"traces.toml\"\n";
    fs::write(folder.path().join("traces.toml"), format!("listen = \"127.0.0.1:0\"\nadmin = \"off\"\n{traces}")).unwrap();
    check(&["serve", "--config", "traces.toml"], &[], "traces.toml: traces.ca_file: traces.toml holds no certificate; expected PEM");
    fs::write(folder.path().join("negative.toml"), "[ledger]\nbytes = -1\n").unwrap();
    check(
        &["serve", "--config", "negative.toml"],
        &[],
        "negative.toml: ledger.bytes: integer `-1` is not accepted; expected a whole number",
    );
    check(&["run", "--config", "bad.toml", "--", "echo", "ran"], &[], "policy.target");
    check(&["run", "--", "echo", "ran"], &[("OPENAI_BASE_URL", "nonsense")], "OPENAI_BASE_URL: its value is not accepted");
    check(&["run"], &[], "<CMD>");
    check(&["sail"], &[], "sail");
}

#[test]
fn compact_reads_standard_input_and_writes_a_report() {
    let folder = folder();
    let compact = |body: &str| {
        let mut command = plimsoll(folder.path());
        command.args(["compact", "--window", "4000", "--report", "report.json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let report: Value = serde_json::from_slice(&fs::read(folder.path().join("report.json")).unwrap()).unwrap();
        (text(&output.stdout).to_owned(), report)
    };

    let mut messages = vec![json!({"role": "user", "content": "Find the fault."})];
    for n in 0..40 {
        let call = json!({"id": format!("c{n}"), "type": "function", "function": {"name": "read", "arguments": format!("{{\"path\":\"{n}.rs\"}}")}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(
            json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": format!("let line_{n} = read(\"{n}\")?;\n").repeat(30)}),
        );
    }
    let long = json!({"model": "m", "messages": messages}).to_string();
    let (sent, report) = compact(&long);
    assert!(serde_json::from_str::<Value>(&sent).is_ok() && sent.len() < long.len());
    let weight = |key: &str| report[key].as_u64().unwrap();
    assert!(weight("after") < weight("before") && weight("after") <= 4000, "{report}");
    assert!(!report["rungs"].as_array().unwrap().is_empty(), "{report}");

    let short = r#"{ "model":"m", "messages":[ {"role":"user","content":"hello"} ] }"#;
    let (sent, report) = compact(short);
    assert_eq!(sent, short);
    assert_eq!(report["before"], report["after"]);
}

#[test]
fn explain_and_compact_follow_the_configuration() {
    let folder = folder();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Find the fault. ".repeat(400)}]}).to_string();
    fs::write(folder.path().join("request.json"), &body).unwrap();
    let explain = |arguments: &[&str]| -> Value {
        let output = plimsoll(folder.path()).args(["explain", "--json", "request.json"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(explain(&[])["window_assumed"], true);
    fs::write(folder.path().join("plimsoll.toml"), "[policy]\nwindow = 18000\n[[model]]\nname = \"m*\"\npolicy = { window = 9000 }\n")
        .unwrap();
    let configured = explain(&[]);
    assert_eq!((&configured["window"], &configured["window_assumed"]), (&json!(9000), &json!(false)));
    assert_eq!(explain(&["--window", "1000"])["window"], 1000);
    assert_ne!(explain(&["--preset", "p2"])["trigger"], configured["trigger"]);

    for command in ["explain", "compact"] {
        let wrong = plimsoll(folder.path()).args([command, "--config", "not-there.toml", "request.json"]).output().unwrap();
        assert!(wrong.status.code() == Some(64) && text(&wrong.stderr).contains("not-there.toml"), "{wrong:?}");
        let missing = plimsoll(folder.path()).args([command, "no-request.json"]).output().unwrap();
        assert!(missing.status.code() == Some(1) && text(&missing.stderr).contains("no-request.json"), "{missing:?}");
    }
}

#[test]
fn check_prints_what_the_configuration_comes_to() {
    let folder = folder();
    let file = "preset = \"hermes\"\n[admission]\nexchanges = 5\n[[route]]\npath = \"/or\"\nupstream = \"https://openrouter.ai/api/v1\"\n";
    fs::write(folder.path().join("plimsoll.toml"), file).unwrap();
    let output = plimsoll(folder.path()).args(["check", "--model", "gpt-4o"]).output().unwrap();
    let printed = text(&output.stdout);
    for line in ["exchanges = 5", "path = \"/or\"", "strip = true", "[policy.preflight]", "# model gpt-4o; window 128000 tokens by name"] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
}

#[test]
fn a_pipe_that_is_closed_early_is_no_failure() {
    for arguments in [&["check"][..], &["check", "--reference"], &["completions", "bash"], &["metrics"]] {
        let mut child = plimsoll(folder().path()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
}
