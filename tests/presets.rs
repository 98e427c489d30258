//! Every system that the presets are named after, as it is described, is what its preset comes to.

mod support;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, LazyLock},
};

use plimsoll::{
    budget::Window,
    config::{Config, Overrides, PRESETS, Policy, load},
    conversation::Fingerprint,
    decide::{Call, Decider, Decision, Steer},
    proxy::Routes,
    wire::{Format, Request, check},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::conversations::{history, render};

fn configured(text: &str, overrides: &Overrides) -> Result<Config, plimsoll::config::Problem> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plimsoll.toml");
    std::fs::write(&file, text).unwrap();
    load(Some(&file), overrides).map(|(config, _)| config)
}

fn named(preset: &str) -> Config {
    configured("", &Overrides { preset: Some(preset.into()), ..Overrides::default() }).unwrap()
}

/// The policy for a model, as a request on the default route meets it.
fn policy(config: &Config, model: &str) -> Policy {
    let routes = Routes::new(config, None).unwrap();
    routes.of("/v1/chat/completions", &http::HeaderMap::new()).0.policies.of(model).policy.clone()
}

#[test]
fn every_preset_is_a_configuration_file_with_a_reason_for_each_choice() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/presets");
    let files: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap().trim_end_matches(".toml").to_owned())
        .collect();
    assert_eq!(files, PRESETS.iter().map(|(name, _)| name.to_string()).collect(), "a file that is not listed, or the other way round");
    for (name, text) in PRESETS {
        // As a file of its own, and laid under an empty one: the same.
        let (own, under) = (configured(text, &Overrides::default()).unwrap(), named(name));
        assert_eq!(Config { preset: (*name).into(), ..own }, under, "{name}");
        assert!(plimsoll::config::REFERENCE.contains(name), "{name} is missing in the reference");
        let mut reason = false;
        for line in text.lines() {
            match line.starts_with('#') {
                true => reason = true,
                false if line.is_empty() || line.starts_with('[') => reason = false,
                false => assert!(reason, "{name}: no reason for {line}"),
            }
        }
    }
}

#[test]
fn gates_are_due_where_the_system_says() {
    // Counted tokens above which hygiene and preflight are due; exact says that the model's tokenizer is known.
    let check = |preset: &str, model: &str, window: u64, cap: Option<u64>, exact: bool, hygiene: Option<u64>, preflight: Option<u64>| {
        let gates = policy(&named(preset), model).decisions().gates;
        let limits = gates.limits(Window { tokens: window, separate_output: false }, cap, exact);
        assert_eq!((limits.hygiene.map(|(limit, _)| limit), limits.preflight), (hygiene, preflight), "{preset} {model} {cap:?}");
    };
    check("drover", "m", 200_000, None, true, Some(160_000), None);
    check("drover-drop-only", "m", 200_000, None, true, Some(170_000), None);
    check("drover-manual", "m", 200_000, None, true, None, None);
    check("hermes", "m", 200_000, None, false, Some(170_000), Some(100_000));
    check("hermes", "gpt-5.5", 272_000, None, true, Some(231_200), Some(231_200));
    check("oh-my-pi", "m", 200_000, None, true, Some(160_000), Some(200_000));
    check("openclaw", "m", 200_000, Some(32_000), true, None, Some(176_000));
    check("openclaw", "m", 200_000, None, false, None, Some(146_666));
    check("opencode", "m", 200_000, Some(32_000), false, None, Some(168_000));
    check("opencode", "m", 200_000, Some(1_000), false, None, Some(196_000));
    check("opencode", "m", 200_000, None, false, None, Some(196_000));
    check("p2", "m", 200_000, None, false, None, Some(140_000));
    check("phosphor", "m", 200_000, None, false, Some(160_000), Some(200_000));
    for name in ["souveraine", "souveraine-subagent", "souveraine-subconscious"] {
        check(name, "m", 200_000, None, true, Some(190_000), None);
    }
}

#[test]
fn budgets_are_the_numbers_of_the_system() {
    let check = |preset: &str, numbers: &[(&str, toml::Value)]| {
        let table = toml::Value::Table(policy(&named(preset), "m").table());
        for (path, wanted) in numbers {
            let found = path.split('.').try_fold(&table, |table, key| table.get(key));
            assert_eq!(found, Some(wanted), "{preset}: {path}");
        }
    };
    let names = |names: &[&str]| toml::Value::from(names.to_vec());
    check(
        "drover",
        &[
            ("compact.tail_turns", 3.into()),
            ("compact.pin_tools", names(&["remember", "recall"])),
            ("compact.min_reclaim_tokens", 4096.into()),
            ("compact.cooldown_turns", 2.into()),
            ("compact.plan", names(&["microcompact", "digest", "sliding_window"])),
        ],
    );
    check("drover-drop-only", &[("compact.tail_turns", 4.into()), ("compact.min_reclaim_tokens", 2048.into())]);
    check("drover-manual", &[("compact.tail_turns", 5.into()), ("overflow.retry", false.into())]);
    check(
        "hermes",
        &[
            ("hygiene.min_messages", 4.into()),
            ("compact.tail", 0.1.into()),
            ("compact.tail_messages", 20.into()),
            ("compact.microcompact.min_chars", 200.into()),
            ("compact.digest.share", 0.05.into()),
            ("compact.digest.max_tokens", 12_000.into()),
        ],
    );
    check(
        "oh-my-pi",
        &[
            ("compact.microcompact.keep_tokens", 40_000.into()),
            ("compact.microcompact.min_reclaim", 20_000.into()),
            ("compact.pin_tools", names(&["skill"])),
        ],
    );
    check("openclaw", &[("compact.tail_turns", 3.into()), ("compact.digest.max_tokens", (16_000 / 4).into())]);
    check("opencode", &[("compact.tail_tokens", 20_000.into()), ("overflow.retry", true.into())]);
    check("phosphor", &[("compact.microcompact.min_chars", 200.into()), ("compact.microcompact.hard_chars", 50.into())]);
    check(
        "souveraine",
        &[
            ("compact.tail_messages", 10.into()),
            ("compact.microcompact.keep_newest", 5.into()),
            ("compact.microcompact.tools", names(&["read", "bash", "grep", "glob", "list_dir", "edit", "write"])),
            ("compact.clamp_output.floor", 512.into()),
            ("compact.clamp_output.before_sending", true.into()),
        ],
    );
    check("souveraine-subconscious", &[("compact.tail_messages", 4.into())]);
    check("souveraine-subagent", &[("compact.tail_messages", 2.into())]);
}

#[test]
fn what_a_user_says_wins_over_a_preset() {
    let config = configured(
        "preset = \"openclaw\"\n[policy]\npreflight.soft = 1\n[[model]]\nname = \"big-*\"\npreset = \"hermes\"\npolicy = { compact = { tail = 0.2 } }\n\
         [[route]]\npath = \"/aster\"\nupstream = \"http://h\"\npreset = \"souveraine-subagent\"\n",
        &Overrides::default(),
    )
    .unwrap();
    let plain = policy(&config, "m");
    assert_eq!((plain.preflight.soft, plain.compact.tail_turns, plain.hygiene.enabled), (1, 3, false));
    let big = policy(&config, "big-one");
    assert_eq!((big.compact.tail, big.compact.tail_messages, big.preflight.threshold), (0.2, 20, 0.5));
    let routes = Routes::new(&config, None).unwrap();
    assert_eq!(routes.of("/aster/v1/messages", &http::HeaderMap::new()).0.policies.of("m").compact.tail_messages, 2);
    // A flag names another one; an entry for a model stands after the preset's, so it wins.
    let flag = |preset: &str| Overrides { preset: Some(preset.into()), ..Overrides::default() };
    let config =
        configured("preset = \"p2\"\n[[model]]\nname = \"gpt-*\"\npolicy = { preflight = { threshold = 0.6 } }\n", &flag("hermes"));
    assert_eq!(policy(&config.unwrap(), "gpt-5.5").preflight.threshold, 0.6);
    let problem = configured("preset = \"hermse\"\n", &Overrides::default()).unwrap_err();
    assert_eq!(problem.key, "preset");
    assert!(problem.what.contains("hermes"), "{problem}");
}

/// A task, then so many turns of one call each, with results of `chars` characters.
fn session(turns: usize, chars: usize) -> Vec<Value> {
    let mut messages =
        vec![json!({"role": "system", "content": "be brief"}), json!({"role": "user", "content": "port the parser to the new grammar"})];
    for turn in 0..turns {
        let tool = if turn % 2 == 0 { "read" } else { "fetch" };
        let call = json!({"id": format!("c{turn}"), "type": "function", "function": {"name": tool, "arguments": format!("{{\"path\":\"src/{turn}.rs\"}}")}});
        let output: String = (0..chars / 12).map(|line| format!("{turn:04} {line:05}\n\n")).collect();
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("c{turn}"), "content": output}));
    }
    messages
}

fn ask(decider: &Decider, policy: &Policy, messages: &[Value], steer: Steer) -> (Vec<Value>, plimsoll::decide::Report) {
    let body = serde_json::to_vec(&json!({"model": "gpt-4o", "messages": messages})).unwrap();
    let call = Call {
        request: Request::read(Format::Chat, body.clone().into()).unwrap(),
        tenant: Fingerprint::default(),
        upstream: "test".into(),
        policy: Arc::new(policy.decisions()),
        steer,
        focus: String::new(),
        window: Some(Window { tokens: 20_000, separate_output: false }),
        now: 1,
    };
    let (sent, report) = match decider.before_send(&call) {
        Decision::Send(rewrite) => (rewrite.body.to_vec(), rewrite.report),
        Decision::Pass(report) | Decision::Refuse(report) => (body, report),
    };
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    (sent["messages"].as_array().unwrap().clone(), report)
}

fn decider() -> Decider {
    Decider::new(8 << 20, 3600, 4 << 20)
}

/// How many of the newest messages left as they came.
fn untouched(came: &[Value], sent: &[Value]) -> usize {
    came.iter().rev().zip(sent.iter().rev()).take_while(|(came, sent)| came == sent).count()
}

#[test]
fn the_newest_turns_and_messages_that_were_asked_for_stay() {
    let mut policy = Policy::default();
    (policy.compact.tail, policy.compact.running_loop, policy.target) = (0.0, 0.01, 0.4);
    policy.compact.plan = vec![plimsoll::compact::Rung::SlidingWindow];
    let came = session(40, 1200);
    let check = |change: fn(&mut Policy), least: usize, most: usize| {
        let mut policy = policy.clone();
        change(&mut policy);
        let (sent, report) = ask(&decider(), &policy, &came, Steer::Now);
        assert!(report.edited, "{report:?}");
        let stayed = untouched(&came, &sent);
        assert!((least..=most).contains(&stayed), "{stayed} of {least} to {most}");
    };
    check(|_| {}, 2, 3);
    check(|policy| policy.compact.tail_turns = 3, 6, 6);
    check(|policy| policy.compact.tail_messages = 7, 8, 8);
    check(|policy| policy.compact.tail_tokens = 2_000, 4, 12);
    // More than fits is not kept at any price.
    check(|policy| policy.compact.tail_turns = 1000, 4, 60);
}

#[test]
fn results_stay_by_their_tool_and_their_tokens() {
    let mut policy = Policy::default();
    (policy.compact.tail, policy.compact.running_loop, policy.compact.min_reclaim) = (0.0, 0.01, 0.0);
    policy.compact.plan = vec![plimsoll::compact::Rung::Microcompact];
    (policy.compact.microcompact.keep_newest, policy.compact.microcompact.keep_chars) = (0, 0);
    let came = session(30, 1200);
    let cut = |policy: &Policy| {
        let (sent, _) = ask(&decider(), policy, &came, Steer::Now);
        came.iter().zip(&sent).enumerate().filter(|(_, (came, sent))| came != sent).map(|(place, _)| place).collect::<Vec<_>>()
    };
    assert_eq!(cut(&policy).len(), 29, "all but the newest");
    policy.compact.microcompact.tools = vec!["read".into()];
    let read = cut(&policy);
    assert_eq!(read.len(), 15, "every other");
    assert!(read.iter().all(|place| came[place - 1]["tool_calls"][0]["function"]["name"] == "read"));
    policy.compact.microcompact.tools.clear();
    policy.compact.microcompact.keep_tokens = 5_000;
    let old = cut(&policy);
    assert!(!old.is_empty() && old.len() < 29 && *old.last().unwrap() < came.len() - 8, "{old:?}");
    policy.compact.microcompact.min_reclaim = 1_000_000;
    assert_eq!(cut(&policy), Vec::<usize>::new());
}

#[test]
fn a_compaction_has_to_save_enough_and_the_next_one_waits_its_turns() {
    let mut policy = Policy::default();
    (policy.compact.tail, policy.compact.running_loop) = (0.0, 0.01);
    let came = session(40, 1200);
    assert!(ask(&decider(), &policy, &came, Steer::Default).1.edited);
    policy.compact.min_reclaim_tokens = 1_000_000;
    assert!(!ask(&decider(), &policy, &came, Steer::Default).1.edited);

    // With a trigger that is due again after every turn, only the cool-down keeps epochs apart.
    (policy.compact.min_reclaim_tokens, policy.compact.min_reclaim, policy.hygiene.threshold, policy.target) = (0, 0.0, 0.2, 0.15);
    policy.compact.plan = vec![plimsoll::compact::Rung::Microcompact];
    let epochs = |cooldown: usize| {
        let policy = {
            let mut policy = policy.clone();
            policy.compact.cooldown_turns = cooldown;
            policy
        };
        ask(&decider(), &policy, &session(30, 1200), Steer::Default).1.epoch
    };
    let (free, cooled) = (epochs(0), epochs(4));
    assert!(free > 2 * cooled && cooled > 1, "{free} {cooled}");
}

/// The policy of every preset, for any model.
static POLICIES: LazyLock<Vec<(&str, Arc<plimsoll::decide::Policy>)>> =
    LazyLock::new(|| PRESETS.iter().map(|(name, _)| (*name, Arc::new(policy(&named(name), "m").decisions()))).collect());

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Valid, Smaller, Stable: whatever a preset cuts.
    #[test]
    fn every_preset_keeps_the_promises(
        format in prop::sample::select(Format::ALL.to_vec()), events in history(8..60), window in 1500u64..20_000, now in any::<bool>(),
    ) {
        let body = render(format, &events, None);
        for (name, policy) in POLICIES.iter() {
            let call = Call {
                request: Request::read(format, body.clone().into()).unwrap(),
                tenant: Fingerprint::default(),
                upstream: "test".into(),
                policy: policy.clone(),
                steer: if now { Steer::Now } else { Steer::Default },
                focus: String::new(),
                window: Some(Window { tokens: window, separate_output: false }),
                now: 1,
            };
            let Decision::Send(rewrite) = decider().before_send(&call) else { continue };
            let went = Request::read(format, rewrite.body.clone()).unwrap();
            prop_assert_eq!(check::rewrite(&call.request, &went), vec![], "{}", name);
            let (before, after) = rewrite.report.tokens.unwrap();
            prop_assert!(after <= before && rewrite.body.len() <= body.len(), "{name}: {:?}", rewrite.report);
            let Decision::Send(again) = decider().before_send(&call) else { panic!("{name}: once more, and nothing is sent") };
            prop_assert_eq!(&rewrite.body, &again.body, "{}", name);
        }
    }
}
