use super::{file::parse, *};
use crate::budget::{Preflight, Reserve, ReserveOf};

fn keys(table: &toml::Table, at: &str, out: &mut Vec<String>) {
    for (key, value) in table {
        let path = format!("{at}{key}");
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => keys(inner, &format!("{path}."), out),
            _ => out.push(path),
        }
    }
}

fn paths(value: &impl serde::Serialize) -> Vec<String> {
    let mut out = Vec::new();
    keys(&toml::Table::try_from(value).unwrap(), "", &mut out);
    out
}

#[test]
fn the_reference_says_every_default_and_nothing_else() {
    assert_eq!(parse(REFERENCE, None).unwrap(), Config::default());
    let mut said = Vec::new();
    keys(&REFERENCE.parse().unwrap(), "", &mut said);
    let mut fields = paths(&Config::default());
    // Lists have no default entries; their examples are looked at below.
    fields.retain(|field| field != "route" && field != "model");
    said.sort();
    fields.sort();
    assert_eq!(said, fields);
}

#[test]
fn the_reference_has_a_sentence_for_every_knob() {
    let lines: Vec<&str> = REFERENCE.lines().collect();
    let mut knobs = 0;
    for pair in lines.windows(2) {
        if let Some((key, _)) = pair[1].split_once(" = ").filter(|_| !pair[1].starts_with('#')) {
            assert!(pair[0].starts_with("# ") && pair[0].ends_with(['.', ')']), "{key} has no sentence: {}", pair[0]);
            knobs += 1;
        }
    }
    assert_eq!(knobs, paths(&Config::default()).len() - 2);
}

#[test]
fn the_examples_in_the_reference_show_every_key_of_a_list() {
    let example: String = REFERENCE
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .filter(|line| line.starts_with("[[") || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = parse(&example, None).unwrap();
    let table: toml::Table = example.parse().unwrap();
    for (list, fields) in [("route", paths(&Route::default())), ("model", paths(&Model::default()))] {
        let shown = table[list].as_array().unwrap()[0].as_table().unwrap();
        assert_eq!(shown.keys().collect::<std::collections::BTreeSet<_>>(), fields.iter().collect(), "{list}");
    }
    assert!(config.model[0].matches("claude-opus-4-8"));
}

#[test]
fn overlays_reach_every_policy_knob() {
    let config = parse("[[model]]\nname = \"m*\"\npolicy = { preflight = { reserve = \"request\" }, target = 0.5 }\n", None).unwrap();
    let policy = config.policy.overlaid([&config.model[0].policy]).unwrap();
    assert_eq!(policy.preflight.reserve, Reserve::Named(ReserveOf::Request));
    assert_eq!(policy.target, 0.5);
    assert_eq!(policy.preflight.soft, Preflight::default().soft);
}

#[test]
fn a_wrong_file_is_refused_with_key_and_remedy() {
    let check = |text: &str, key: &str, what: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plimsoll.toml");
        std::fs::write(&file, text).unwrap();
        let problem = load(Some(&file), &Overrides::default()).unwrap_err();
        assert_eq!((problem.file.as_deref(), problem.key.as_str()), (Some(file.as_path()), key), "{problem}");
        assert!(problem.what.contains(what), "{problem}");
    };
    check("listn = \"127.0.0.1:1\"", "listn", "did you mean listen?");
    check(
        "[policy.hygiene]\ntreshold = 1",
        "policy.hygiene.treshold",
        "did you mean threshold? known here: enabled, min_messages, threshold",
    );
    check("[policy]\ntarget = 45", "policy.target", "45 is not accepted; expected a share of the window");
    check("[policy.preflight]\nthreshold = 0", "policy.preflight.threshold", "0 is not accepted; expected a share of the window");
    check("discover_wait = -1", "discover_wait", "expected a number of seconds");
    check("\n[policy]\nwindow = \"big\"", "policy.window", "string \"big\" is not accepted; expected a whole number, 0 or more (line 3)");
    check("[ledger]\nstore = \"disk\"\nbytes = -1", "ledger.bytes", "integer `-1` is not accepted; expected a whole number, 0 or more");
    check("ledger = 5", "ledger", "integer `5`");
    check("[ledger]\nbytes = { a = 1 }", "ledger.bytes", "is not accepted; expected a whole number");
    check("annotate = \"yes\"", "annotate", "expected true or false");
    check("[policy.preflight]\nreserve = \"some\"", "policy.preflight.reserve", "expected a number of tokens or \"request\"");
    check("websocket = \"maybe\"", "websocket", "unknown variant `maybe` is not accepted; expected `refuse` or `tunnel`");
    check("[access]\nupstream_hosts = [\"a\", 5]", "access.upstream_hosts.1", "expected a string");
    check("[[model]]\nname = \"m\"\n[[model]]\nname = 5", "model.1.name", "expected a string");
    check("grace = 1e300", "grace", "1e300 is not accepted");
    check("[policy]\ntarget = 1e300", "policy.target", "1e300 is not accepted");
    check("[policy.compact]\ntail = nan", "policy.compact.tail", "accepted");
    check("[policy.compact]\nrunning_loop = 50.0", "policy.compact.running_loop", "a share of the window, from 0 to 1");
    check(
        "[[model]]\nname = \"m\"\npolicy = { compact = { digest = { share = -1.0 } } }",
        "model.0.policy.compact.digest.share",
        "a share of the window",
    );
    check("listen = \"localhost\"", "listen", "expected an address and port");
    check("admin = \"on\"", "admin", "or \"off\"");
    check("upstream = \"api.openai.com\"", "upstream", "expected a URL such as");
    check("upstream = \"https://me:secret@host\"", "upstream", "credentials come from the agent");
    check("grace = -1", "grace", "expected a number of seconds");
    check("window = 8000", "window", "did you mean policy.window?");
    check("[compact]\nplan = []", "compact", "did you mean policy.compact?");
    check("[route]\npath = \"/x\"", "route", "[[table]]");
    check("[policy.compact]\nplan = [\"elide\", \"digest\", \"elide\"]", "policy.compact.plan", "each rung once");
    check("[policy.compact.summarize]\nupstream = \"http://h\"", "policy.compact.summarize.upstream", "as long as `model` is empty");
    check("listen = \"127.0.0.1:80\"\nupstream = \"http://127.0.0.1\"", "upstream", "another address than `listen`");
    check("listen = \"[::]:4790\"\nanthropic = \"http://localhost:4790/v1\"", "anthropic", "another address than `listen`");
    let twice = "[[route]]\npath = \"/x\"\nupstream = \"http://a\"\n".repeat(2);
    check(&twice, "route.1.path", "that no route above has");
    check(
        "[[route]]\npath = \"/x\"\nupstream = \"http://a\"\ncredential_header = \"api-key\"",
        "route.0.credential_header",
        "is for `credential`",
    );
    check("[access]\nupstream_hosts = [\"*.example.com\"]", "openai", "api.openai.com is not among access.upstream_hosts");
    check(
        "upstream = \"http://a.example.com\"\n[access]\nupstream_hosts = [\"*.example.com\"]\n[[route]]\npath = \"/x\"\nupstream = \"http://169.254.169.254\"",
        "route.0.upstream",
        "169.254.169.254 is not among",
    );
    let only = "upstream = \"http://a.example.com\"\n[access]\nupstream_hosts = [\"*.example.com\"]\n";
    let elsewhere = "compact.summarize = { model = \"m\", upstream = \"http://169.254.169.254\" }";
    check(&format!("{only}[policy]\n{elsewhere}"), "policy.compact.summarize.upstream", "169.254.169.254 is not among");
    check(
        &format!("{only}[[model]]\nname = \"m\"\n[model.policy]\n{elsewhere}"),
        "model.0.policy.compact.summarize.upstream",
        "169.254.169.254 is not among",
    );
    let summaries = "[policy.compact.summarize]\nmodel = \"m\"\n";
    check(
        &format!("{summaries}upstream = \"http://h\"\nkey = \"sk-the-secret-itself\""),
        "policy.compact.summarize.key",
        "a secret does not stand in the configuration",
    );
    check(&format!("{summaries}key = \"env:NAME\""), "policy.compact.summarize.key", "nothing, as long as `upstream` is empty");
    check("[ledger]\nca_file = \"ca.pem\"", "ledger.ca_file", "a `url` that begins with \"rediss://\"");
    check("[traces]\nendpoint = \"http://h\"\nca_file = \"ca.pem\"", "traces.ca_file", "begins with \"https://\"");
    check("[access]\ntokens = \"sk-the-secret-itself\"", "access.tokens", "a secret does not stand in the configuration");
    check("[ledger]\nstore = \"disk\"", "ledger.path", "is missing");
    check("[ledger]\nstore = \"redis\"\nurl = \"redis://h\"", "ledger.secret", "is missing");
    check("[ledger]\nstore = \"redis\"\nurl = \"http://h\"", "ledger.url", "redis://host:6379");
    check("[ledger]\nstore = \"redis\"\nurl = \"redis://:word@h\"", "ledger.url", "holds a password");
    check("[admission]\nheader_bytes = 10", "admission.header_bytes", "8192 bytes or more");
    check("[traces]\nendpoint = \"collector:4317\"", "traces.endpoint", "expected a URL such as");
    check("[traces]\nsample = 2", "traces.sample", "from 0 to 1");
    check("[traces]\nheaders = \"api-key=x\"", "traces.headers", "a secret does not stand in the configuration");
    check("[tls]\nclient_ca = \"ca.pem\"", "tls.client_ca", "certificate and key are needed too");
    check("[tls]\nkey = \"k.pem\"", "tls", "needed together");
    check("[[route]]\nupstream = \"http://h\"\npath = \"x/\"", "route.0.path", "expected a path such as");
    check(
        "[[route]]\nupstream = \"http://h\"\npath = \"/x\"\npolicy.preflight.sof = 1",
        "route.0.policy.preflight.sof",
        "did you mean soft?",
    );
    check(
        "[[route]]\nupstream = \"http://h\"\npath = \"/x\"\nconnection.http2 = \"often\"",
        "route.0.connection.http2",
        "unknown variant `often`",
    );
    check("[[model]]\nname = \"m\"\npolicy = { target = 2.0 }", "model.0.policy.target", "share of the window");
    check("[[model]]\npolicy = { target = 0.5 }", "model.0.name", "is missing");
    check("[[model]]\nname = \"m\"\npolicy = { window = -1 }", "model.0.policy.window", "expected a whole number");
    check("= 1", "", "not TOML");
}

#[test]
fn every_file_that_is_named_is_watched() {
    let secret = |name: &str| format!("\"file:/{name}\"");
    let text = format!(
        "[tls]\ncertificate = \"/a\"\nkey = \"/b\"\nclient_ca = \"/c\"\n[access]\ntokens = {}\nadmin_token = {}\n[credential]\nopenai = {}\n\
         anthropic = {}\n[ledger]\nstore = \"redis\"\nurl = \"rediss://h\"\nca_file = \"/h\"\npassword = \"file:/t\"\nsecret = {}\n[traces]\nendpoint = \"https://h\"\n\
         ca_file = \"/j\"\nheaders = {}\n[connection]\nca_file = \"/l\"\ncertificate = \"/m\"\nkey = \"/n\"\n[policy.compact.summarize]\n\
         upstream = \"http://h\"\nkey = {}\n[[route]]\npath = \"/x\"\nupstream = \"http://h\"\ncredential = {}\nconnection.ca_file = \"/q\"\n\
         policy.compact.summarize.key = {}\n[[model]]\nname = \"m\"\npolicy.compact.summarize.key = {}\n",
        secret("d"),
        secret("e"),
        secret("f"),
        secret("g"),
        secret("i"),
        secret("k"),
        secret("o"),
        secret("p"),
        secret("r"),
        secret("s"),
    );
    let files = parse(&text, None).unwrap().files();
    for name in 'a'..='t' {
        assert!(files.contains(&format!("/{name}").into()), "{name} of {files:?}");
    }
    let mine = parse("[policy.compact.summarize]\ntemplate = \"mine\"", None).unwrap().files();
    assert!(mine.contains(&".plimsoll/templates/mine.md".into()), "before it is there, too: {mine:?}");
}

#[test]
fn private_a_wrong_file_is_not_quoted() {
    for text in ["[access]\ntokens = sk-the-secret-itself", "[access]\ntokens = [\"sk-the-secret-itself\"]"] {
        let problem = parse(text, None).unwrap_err().to_string();
        assert!(!problem.contains("the-secret") && problem.contains("line 2"), "{problem}");
    }
}

#[test]
fn a_wrong_flag_is_refused_without_blaming_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.toml");
    std::fs::write(&file, "").unwrap();
    let problem = load(Some(&file), &Overrides { listen: Some("nowhere".into()), ..Overrides::default() }).unwrap_err();
    assert_eq!((problem.file, problem.key.as_str()), (None, "listen"));
}

#[test]
fn a_window_from_the_command_line_wins_over_patterns() {
    let mut config = parse("[policy]\nwindow = 1\n[[model]]\nname = \"m\"\npolicy = { window = 2, target = 0.5 }", None).unwrap();
    Overrides { window: Some(3), ..Overrides::default() }.apply(&mut config);
    let policy = config.policy.overlaid([&config.model[0].policy]).unwrap();
    assert_eq!((policy.window, policy.target), (3, 0.5));
}

#[test]
fn model_patterns_match_whole_names() {
    let check = |pattern: &str, yes: &[&str], no: &[&str]| {
        let model = Model { name: pattern.into(), ..Model::default() };
        yes.iter().for_each(|name| assert!(model.matches(name), "{pattern} {name}"));
        no.iter().for_each(|name| assert!(!model.matches(name), "{pattern} {name}"));
    };
    check("gpt-5", &["gpt-5"], &["gpt-5.1", "a-gpt-5", ""]);
    check("gpt-5*", &["gpt-5", "gpt-5.1-mini"], &["gpt-4"]);
    check("*-mini", &["gpt-5-mini", "-mini"], &["gpt-5-mini-x", "mini"]);
    check("a*b*c", &["abc", "aXbYc", "abbcc"], &["ac", "acb"]);
    check("*", &["", "anything"], &[]);
}
