//! Promises of the core, on generated conversations.

mod support;

use bytes::Bytes;
use plimsoll::budget::{Window, load::Scale};
use plimsoll::compact::summary::Summary;
use plimsoll::compact::{Knobs, Rung, schedule::Course, schedule::Forgetful};
use plimsoll::conversation::{Fingerprint, Role};
use plimsoll::decide::{Call, Decider, Decision, Mode, Need, Policy, Report, Rewrite, Steer};
use plimsoll::wire::overflow::{Class, Classified, Scope};
use plimsoll::wire::{Format, Request, check};
use proptest::prelude::*;
use serde_json::json;
use std::cell::Cell;
use std::sync::Arc;
use support::conversations::{Event, Tool, history, render};

fn decider() -> Decider {
    Decider::new(8 << 20, 3600, 4 << 20)
}

fn call(format: Format, body: Vec<u8>, window: u64) -> Call {
    Call {
        request: Request::read(format, body.into()).unwrap(),
        tenant: Fingerprint::default(),
        upstream: "test".into(),
        policy: Arc::new(Policy::default()),
        steer: Steer::Default,
        focus: String::new(),
        window: Some(Window { tokens: window, separate_output: false }),
        now: 1,
    }
}

fn send(decider: &Decider, call: &Call) -> (Bytes, Report) {
    match decider.before_send(call) {
        Decision::Send(Rewrite { body, report, .. }) => (body, report),
        Decision::Pass(report) | Decision::Refuse(report) => (call.request.bytes().clone(), report),
    }
}

fn format() -> impl Strategy<Value = Format> {
    prop::sample::select(Format::ALL.to_vec())
}

/// Where an agent with this history would have sent its requests.
fn requests(events: &[Event]) -> Vec<usize> {
    (1..=events.len())
        .filter(|&end| {
            matches!(events[end - 1], Event::Says(_) | Event::Uses { .. })
                && !matches!(events.get(end), Some(Event::Says(_) | Event::Told(_)))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Transparent: reading and writing without edits gives back the very bytes.
    #[test]
    fn transparent_reading_and_writing_is_identity(format in format(), events in history(0..20)) {
        let body = render(format, &events, None);
        let request = Request::read(format, body.clone().into()).unwrap();
        prop_assert_eq!(request.apply(&[], None).into_bytes(), body);
        prop_assert!(check::faults(&request).is_empty(), "the generator makes valid conversations: {:?}", check::faults(&request));
    }

    /// Valid, Smaller, Surgical, The last word stays: what an edited request may and may not be.
    #[test]
    fn valid_smaller_and_surgical(format in format(), events in history(8..60), window in 1500u64..20_000, pins in any::<bool>()) {
        let body = render(format, &events, None);
        let pin_tools = if pins { vec!["grep".into()] } else { Vec::new() };
        let policy = Policy { compact: Knobs { pin_tools, ..Knobs::default() }, ..Policy::default() };
        let call = Call { policy: Arc::new(policy), ..call(format, body, window) };
        let (sent, report) = send(&decider(), &call);
        prop_assert!(report.cause.is_none() || report.cause == Some("off"), "failed open: {:?}", report.cause);
        if !report.edited {
            prop_assert_eq!(&sent, call.request.bytes());
            return Ok(());
        }
        let (came, went) = (&call.request, &Request::read(format, sent.clone()).unwrap());
        prop_assert_eq!(check::rewrite(came, went), vec![]);
        let (before, after) = report.tokens.unwrap();
        prop_assert!(after < before && sent.len() < call.request.bytes().len());
        prop_assert_eq!(&came.text()[..came.list.start as usize], &went.text()[..went.list.start as usize]);
        prop_assert_eq!(&came.text()[came.list.end as usize..], &went.text()[went.list.end as usize..]);
        // Unedited messages are slices of what came, in order.
        let mut at = 0;
        for message in &went.conversation.messages {
            if let Some(found) = came.text()[at..].find(message.span.of(went.text())) {
                at += found;
            }
        }
        let systems = |request: &Request| request.conversation.messages.iter().filter(|message| message.role == Role::System).map(|message| message.fingerprint).collect::<Vec<_>>();
        prop_assert_eq!(systems(came), systems(went));
        let Event::Says(task) = &events[0] else { unreachable!() };
        let task = serde_json::to_string(task).unwrap();
        if window > 4000 {
            prop_assert!(went.text().contains(&task[..task.len() - 1]), "the task is gone");
        }
    }

    /// A compaction that is put off is only that: what was sent stays, what fits goes as it is, and the schedule goes on as if nobody had asked. Of a
    /// history that nobody remembers, what the schedule would have sent earlier counts as sent.
    #[test]
    fn stable_when_a_compaction_is_put_off(format in format(), events in history(20..60), window in 2000u64..9000, puts_off in prop::collection::vec(any::<bool>(), 60)) {
        let (steered, plain) = (decider(), decider());
        let mut epoch = 0;
        for (end, puts_off) in requests(&events).into_iter().zip(puts_off) {
            let scheduled = call(format, render(format, &events[..end], None), window);
            let asked = Call { steer: if puts_off { Steer::Defer } else { Steer::Default }, ..scheduled.clone() };
            let (sent, report) = send(&steered, &asked);
            if sent != send(&plain, &scheduled).0 {
                prop_assert!(puts_off, "what is not put off is as the schedule has it");
                prop_assert!(report.trigger.is_none_or(|trigger| trigger == "ledger"), "no epoch begins now: {:?}", report.trigger);
                prop_assert!(epoch == 0 || report.epoch == epoch, "what was sent stays");
                prop_assert!(report.tokens.is_some_and(|(_, after)| after <= window));
            }
            epoch = report.epoch;
        }
    }

    /// Stable: the same history gives the same bytes, whether it grew through one process or arrives at another.
    #[test]
    fn stable_across_turns_and_restarts(format in format(), events in history(20..60), window in 2000u64..9000) {
        let grown = decider();
        for end in requests(&events) {
            let call = call(format, render(format, &events[..end], None), window);
            let (sent, report) = send(&grown, &call);
            let (again, _) = send(&grown, &call);
            prop_assert_eq!(&sent, &again, "the same request twice");
            let (fresh, fresh_report) = send(&decider(), &call);
            prop_assert_eq!(&sent, &fresh, "a fresh process at {}: {:?} {:?}", end, report, fresh_report);
        }
    }

    /// Progress: a compaction lands under its trigger, and its result is not compacted again.
    #[test]
    fn progress_and_no_second_helping(format in format(), events in history(20..60), window in 4000u64..9000) {
        let call = call(format, render(format, &events, None), window);
        let (sent, report) = send(&decider(), &call);
        prop_assume!(report.edited);
        let again = Call { request: Request::read(format, sent.clone()).unwrap(), ..call.clone() };
        let (twice, _) = send(&decider(), &again);
        prop_assert_eq!(sent, twice);
    }

    /// Where epochs begin and how far they reach does not depend on whether a model's summary stands in them.
    #[test]
    fn epochs_are_the_same_with_and_without_summaries(format in format(), events in history(20..60), window in 4000u64..9000, words in 0usize..400) {
        let mut policy = Policy::default();
        policy.compact.summarize.model = "request".into();
        let (with, without, policy) = (decider(), decider(), Arc::new(policy));
        for end in requests(&events) {
            let plain = call(format, render(format, &events[..end], None), window);
            let asking = Call { policy: policy.clone(), ..plain.clone() };
            if let Some(Need::Begin(job)) = with.summary(&asking) {
                let text = format!("## Decisions\n- {}", "as before ".repeat(words));
                with.summarized(job.claim, Some(Summary { text, generation: 1, messages: 1, ..Summary::default() }), 1, 1);
            }
            let ((sent, ours), (other, theirs)) = (send(&with, &asking), send(&without, &plain));
            prop_assert_eq!((ours.epoch, ours.trigger, ours.edited), (theirs.epoch, theirs.trigger, theirs.edited));
            let messages = |body: Bytes| Request::read(format, body).map_or(0, |request| request.conversation.messages.len());
            prop_assert_eq!(messages(sent), messages(other), "of epoch {}", ours.epoch);
        }
    }

    /// Shadow mode decides and reports, and changes nothing.
    #[test]
    fn shadow_changes_nothing(format in format(), events in history(20..50)) {
        let body = render(format, &events, None);
        let call = Call { policy: Arc::new(Policy { mode: Mode::Shadow, ..Policy::default() }), ..call(format, body, 2000) };
        let (sent, report) = send(&decider(), &call);
        prop_assert_eq!(&sent, call.request.bytes());
        prop_assert!(!report.edited);
    }

    /// Fail open: no bytes at all make anything panic, or change.
    #[test]
    fn fail_open_on_arbitrary_bytes(format in format(), bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..5000, events in history(2..12)) {
        let mut body = render(format, &events, None);
        plimsoll::decide::rewrite_any(format as u8, 500, bytes.clone());
        body.truncate(cut % body.len());
        body.extend_from_slice(&bytes[..bytes.len().min(3)]);
        plimsoll::decide::rewrite_any(format as u8, 500, body);
    }
}

/// Private: two tenants with the same words share no entry.
#[test]
fn private_ledger_entries_are_told_apart_by_tenant() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let events = history(40..60).new_tree(&mut runner).unwrap().current();
    let decider = decider();
    let one = call(Format::Chat, render(Format::Chat, &events, None), 3000);
    send(&decider, &one);
    let entries = decider.ledger.len();
    assert!(entries > 0);
    send(&decider, &one);
    assert_eq!(decider.ledger.len(), entries, "the same tenant finds its own");
    send(&decider, &Call { tenant: Fingerprint([7; 16]), ..one });
    assert_eq!(decider.ledger.len(), 2 * entries, "another starts anew");
}

fn refusal(class: Class, limit: Option<u64>, requested: Option<u64>) -> Classified {
    Classified { class, limit, requested, requested_scope: Scope::Input, output: None, excess: None, lower_bound: false, rule: "test" }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Once: the one retry after an overflow is sized from the error's own numbers, is valid, and is smaller than what was refused. Private: what it
    /// teaches holds for its tenant.
    #[test]
    fn once_the_retry_is_sized_from_the_error(format in format(), events in history(10..50), ratio in 0.7f64..1.6, share in 0.3f64..0.9) {
        let call = Call { window: None, ..call(format, render(format, &events, None), 0) };
        let came = &call.request;
        let counted = { let scale = plimsoll::budget::load::Scale::of(came, "test"); scale.rest(came) + came.conversation.messages.iter().map(|message| scale.message(came, message)).sum::<u64>() };
        prop_assume!(counted > 3000);
        let requested = (counted as f64 * ratio) as u64;
        let limit = (requested as f64 * share) as u64;
        let decider = decider();
        let Some(retry) = decider.after_overflow(&call, call.request.bytes(), &refusal(Class::Input, Some(limit), Some(requested))) else {
            return Ok(());
        };
        let went = Request::read(format, retry.body.clone()).unwrap();
        prop_assert_eq!(check::rewrite(came, &went), vec![]);
        prop_assert!(retry.body.len() < call.request.bytes().len());
        let (before, after) = retry.report.tokens.unwrap();
        prop_assert!(after < before);
        // The window is known once the provider has taken what fits it: the next request is compacted before it is sent, to the same bytes or fewer.
        prop_assert_eq!(send(&decider, &call).1.window, None);
        decider.accepted(&retry.ticket, call.now);
        let (next, report) = send(&decider, &call);
        let fits = after as f64 * (requested as f64 / counted as f64) <= limit as f64;
        prop_assert_eq!(report.window, fits.then_some(limit));
        prop_assert!(!fits || report.edited && next.len() <= retry.body.len(), "{:?}", report);
        // Nobody else has learnt anything.
        prop_assert_eq!(send(&decider, &Call { tenant: Fingerprint([7; 16]), ..call.clone() }).1.window, None);
        // Nor has anybody for another window, nor for ever.
        let believed = Call { window: Some(Window { tokens: 1 << 40, separate_output: false }), ..call.clone() };
        prop_assert_eq!(send(&decider, &believed).1.window, Some(1 << 40));
        prop_assert_eq!(send(&decider, &Call { now: call.now + 24 * 3600, ..call.clone() }).1.window, None);
    }
}

/// A refusal that names no number teaches a window too, but only if the shorter request was taken: else it may have meant anything.
#[test]
fn a_window_that_nobody_named_is_learnt_when_the_retry_is_taken() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let events = history(40..60).new_tree(&mut TestRunner::deterministic()).unwrap().current();
    let decider = decider();
    let call = call(Format::Chat, render(Format::Chat, &events, None), 10_000_000);
    let retry = decider.after_overflow(&call, call.request.bytes(), &refusal(Class::Input, None, None)).unwrap();
    assert!(matches!(decider.before_send(&call), Decision::Pass(report) if report.window == Some(10_000_000)));
    decider.accepted(&retry.ticket, call.now);
    let (_, report) = send(&decider, &call);
    let (before, _) = retry.report.tokens.unwrap();
    assert!(report.edited && report.window.is_some_and(|window| window < before), "{report:?}");
}

fn one_turn(text: &str, cap: u64) -> Vec<u8> {
    serde_json::to_vec(&serde_json::json!({"model": "m", "max_tokens": cap, "messages": [{"role": "user", "content": text}]})).unwrap()
}

/// An answer that is too long is shortened before any history is.
#[test]
fn an_output_cap_that_does_not_fit_is_lowered_and_nothing_else_changes() {
    let call = Call { window: None, ..call(Format::Chat, one_turn(&"word ".repeat(400), 4000), 0) };
    let refusal =
        Classified { output: Some(4000), requested_scope: Scope::Total, ..refusal(Class::InputPlusOutput, Some(4096), Some(4500)) };
    let retry = decider().after_overflow(&call, call.request.bytes(), &refusal).unwrap();
    let sent = String::from_utf8(retry.body.to_vec()).unwrap();
    let cap: u64 =
        sent.split("\"max_tokens\":").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
    assert!((3000..=3596).contains(&cap), "{cap}");
    let restored = sent.replace(&format!("\"max_tokens\":{cap}"), "\"max_tokens\":4000");
    assert_eq!(restored.as_bytes(), &call.request.bytes()[..]);
}

/// Valid: where a person's word stays amid what goes, and only turns that end in results are light, the answer before it stays all the same.
#[test]
fn valid_a_turn_that_ends_in_results_bridges_nothing() {
    let explains = "so this is how it works, and that is what comes next: ".repeat(20);
    let uses = |text: &str| Event::Uses {
        thinks: false,
        text: Some(text.into()),
        calls: vec![Tool { name: "bash", path: "src".into(), body: "ls".into(), output: "ok, done".into(), failed: false, picture: false }],
        with_results: None,
    };
    let mut events = vec![Event::Says("read the sources and tell me how they work".into())];
    for part in 0..6 {
        events.extend([Event::Answers { thinks: false, text: explains.clone() }, Event::Says(format!("and part {part}?"))]);
    }
    events.extend([uses("look"), Event::Answers { thinks: false, text: explains.clone() }, Event::Says("go ahead then".into())]);
    events.extend((0..16).map(|_| uses(&explains)));
    for format in Format::ALL {
        let call = call(format, render(format, &events, None), 8192);
        let (_, report) = send(&decider(), &call);
        assert!(report.cause.is_none(), "{format:?}: {report:?}");
        // Items of the Responses format carry no text beside their calls, so there it fits.
        assert!(report.edited || format == Format::Responses, "{format:?}: {report:?}");
    }
}

/// Valid: what stays for a reason of its own in the middle ends in results, which are a user's message in some formats. A person's word after it does
/// not follow on them.
#[test]
fn valid_a_persons_word_does_not_follow_on_results_that_stay() {
    let says = |text: &str| json!({"role": "user", "content": text});
    let answers = |words: usize| json!({"role": "assistant", "content": "it works like this. ".repeat(words)});
    let uses = [
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "p1", "name": "plan", "input": {"a": 1}}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "p1", "content": "the plan"}]}),
    ];
    let told = [says("mind this"), json!({"role": "system", "content": "The user switched to plan mode."})];
    let rounds = (0..12).flat_map(|n| [answers(300), says(&format!("next {n}"))]);
    let pinned = Policy { compact: Knobs { pin_tools: vec!["plan".into()], ..Knobs::default() }, ..Policy::default() };
    let cases = [
        ("a pinned tool", pinned, vec![vec![says("Task: fix it")], uses.to_vec(), rounds.clone().collect()]),
        (
            "a system message",
            Policy::default(),
            vec![vec![says("Task: fix it"), answers(20)], told.to_vec(), uses.to_vec(), rounds.collect()],
        ),
    ];
    for (name, policy, messages) in cases {
        let body = serde_json::to_vec(&json!({"model": "claude-sonnet-4", "max_tokens": 100, "messages": messages.concat()})).unwrap();
        let call = Call { policy: Arc::new(policy), ..call(Format::Messages, body, 8_000) };
        let (sent, report) = send(&decider(), &call);
        assert!(report.edited && report.cause.is_none(), "{name}: {report:?}");
        assert!(String::from_utf8_lossy(&sent).contains("the plan"), "{name}");
    }
}

fn calls(outputs: impl Iterator<Item = String>) -> Vec<u8> {
    let call =
        |n: usize| json!({"id": format!("c{n}"), "type": "function", "function": {"name": "run", "arguments": format!("{{\"n\":{n}}}")}});
    let turn = |(n, output)| {
        let call = json!({"role": "assistant", "content": null, "tool_calls": [call(n)]});
        [call, json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": output})]
    };
    let messages = std::iter::once(json!({"role": "user", "content": "Task"})).chain(outputs.enumerate().flat_map(turn));
    serde_json::to_vec(&json!({"model": "gpt-4o", "messages": messages.collect::<Vec<_>>()})).unwrap()
}

/// The last word stays: what a user said long ago is in the notes of every later epoch, also where that needed to take away nothing but output.
/// The last word stays, also where the newest user messages are pictures: in Chat Completions a tool has no other way to show one.
#[test]
fn the_last_word_stays_where_pictures_follow() {
    let steps = |from: usize, to: usize| {
        (from..to).flat_map(|n| {
            let call = json!({"id": format!("c{n}"), "type": "function", "function": {"name": "click", "arguments": "{}"}});
            let shown = json!([{"type": "image_url", "image_url": {"url": "https://shots.example/1.png"}}]);
            [
                json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": "the page has loaded and looks well. ".repeat(20)}),
                json!({"role": "user", "content": shown}),
            ]
        })
    };
    let last = "Now look at the settings page.\nTell me which of its labels is cut off on a small screen.";
    let messages: Vec<_> = [json!({"role": "user", "content": "Test the page of the boat."})]
        .into_iter()
        .chain(steps(0, 12))
        .chain([json!({"role": "assistant", "content": "Done."}), json!({"role": "user", "content": last})])
        .chain(steps(12, 40))
        .collect();
    let body = json!({"model": "m", "messages": messages}).to_string().into_bytes();
    let (sent, report) = send(&decider(), &call(Format::Chat, body, 16_000));
    assert!(report.edited);
    let sent: serde_json::Value = serde_json::from_slice(&sent).unwrap();
    assert!(sent["messages"].as_array().unwrap().iter().any(|message| message["content"] == last));
}

#[test]
fn what_notes_hold_outlives_the_epoch_that_wrote_them() {
    let said = |role: &str, text: &str| json!({"role": role, "content": text});
    let mut messages = vec![
        said("user", "Let us tidy up the importer."),
        said("assistant", "Where do we begin?"),
        said("user", "Never push to main-7411."),
        said("assistant", "Understood."),
    ];
    let decider = decider();
    let mut epochs = std::collections::HashSet::new();
    for n in 0..60 {
        let lines = (0..12 + n % 3 * 20).map(|line| format!("row {n} {line} of the table is fine and so is what follows on it\n"));
        let arguments = format!("{{\"path\":\"src/part{}.rs\"}}", n % 7);
        let call = json!({"id": format!("c{n}"), "type": "function", "function": {"name": "read", "arguments": arguments}});
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": lines.collect::<String>()}));
        messages.push(said("assistant", &format!("Part {n} is read.")));
        messages.push(said("user", "ok"));
        let body = serde_json::to_vec(&json!({"model": "gpt-4o", "messages": messages})).unwrap();
        let (sent, report) = send(&decider, &call_of(body));
        assert!(String::from_utf8_lossy(&sent).contains("Never push to main-7411."), "turn {n}: {report:?}");
        if report.edited {
            epochs.insert((report.epoch, report.rungs.contains(&"digest")));
        }
    }
    assert!(epochs.iter().any(|(_, folds)| !folds) && epochs.iter().any(|(_, folds)| *folds), "{epochs:?}");

    fn call_of(body: Vec<u8>) -> Call {
        call(Format::Chat, body, 8_000)
    }
}

/// What could not be cut while it was the newest is cut soon after, also by a plan that never touches the newest.
#[test]
fn a_compaction_that_could_not_help_is_tried_again_a_few_turns_later() {
    let plan = vec![Rung::Elide, Rung::Microcompact, Rung::ShrinkArguments, Rung::Digest];
    let policy = Arc::new(Policy { compact: Knobs { plan, ..Knobs::default() }, ..Policy::default() });
    let decider = decider();
    let edited = |turns: usize| {
        let outputs = ["hi".into(), "word ".repeat(40_000)].into_iter().chain((0..turns).map(|n| format!("{n} is fine")));
        let call = Call { policy: policy.clone(), ..call(Format::Chat, calls(outputs), 8_000) };
        send(&decider, &call).1.edited
    };
    assert!(!edited(0), "nothing in this plan touches the newest turn");
    assert!((1..=4).any(edited), "it is not the newest any more");
}

/// Half of a character can be cut away with what is around it, but never comes out as another.
#[test]
fn valid_a_call_that_stands_twice_keeps_its_answer() {
    let call = json!({"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "so ".repeat(99)});
    let user = json!({"role": "user", "content": "Go on, please."});
    let request =
        |input: &[&serde_json::Value]| Request::read(Format::Responses, json!({"model": "m", "input": input}).to_string().into()).unwrap();
    let check = |source: &[&serde_json::Value], rewritten: &[&serde_json::Value], wanted: &[&str]| {
        let faults = check::rewrite(&request(source), &request(rewritten));
        assert_eq!(faults.iter().map(|fault| fault.rule).collect::<Vec<_>>(), wanted);
    };
    check(&[&user, &call, &output, &call, &user], &[&user, &call, &user], &["unheard_call"]);
    check(&[&user, &output, &call, &user], &[&user, &output, &user], &["uncalled_result"]);
    check(&[&user, &call, &output, &call, &output, &user], &[&user, &call, &output, &user], &[]);
    check(&[&user, &call, &output, &user], &[&user, &user], &[]);
}

#[test]
fn valid_half_a_character_is_not_replaced() {
    let body = String::from_utf8(calls((0..12).map(|n| format!("{n} {}", "HALF ".repeat(400))))).unwrap().replace("HALF", "\\ud83d!");
    assert!(body.contains(r"\ud83d!"));
    let call = call(Format::Chat, body.into_bytes(), 8_000);
    let (sent, report) = send(&decider(), &call);
    let sent = String::from_utf8_lossy(&sent).to_lowercase();
    assert!(report.edited && !sent.contains('\u{fffd}') && !sent.contains("\\ufffd"), "{report:?}");
}

/// A conversation that nobody remembers is replayed in steps that grow with it, however many epochs it has had, and with however small a window.
#[test]
fn a_cold_replay_looks_at_each_message_a_few_times() {
    let looks = |turns: usize, window: u64| {
        let said =
            |n: usize| [Event::Says(format!("and part {n}?")), Event::Answers { thinks: false, text: "it works like this. ".repeat(20) }];
        let events: Vec<Event> = (0..turns).flat_map(said).chain([Event::Says("go on".into())]).collect();
        let request = Request::read(Format::Chat, render(Format::Chat, &events, None).into()).unwrap();
        let looks = Cell::new(0);
        let (scale, policy) = (Scale::of(&request, ""), Policy::default());
        let weigh = |message: usize| {
            looks.set(looks.get() + 1);
            scale.message(&request, &request.conversation.messages[message])
        };
        let limits = policy.gates.limits(Window { tokens: window, separate_output: false }, None, false);
        let (prefixes, knobs) = (request.prefixes(), &policy.compact);
        let course = Course { request: &request, prefixes, scale: &scale, rest: 0, limits, knobs, weigh: &weigh, shelf: None };
        let epochs = course.follow(&Forgetful).epoch.map_or(0, |epoch| epoch.number);
        (looks.get(), epochs)
    };
    for window in [1, 2_000, 8_000] {
        let ((few, _), (many, epochs)) = (looks(200, window), looks(2_000, window));
        assert!(epochs > 20, "{window}: {epochs}");
        assert!(many < 12 * few, "{window}: {few} looks at 400 messages, {many} at ten times as many");
    }
}

/// Where nothing can be cut there is no retry, and the first error goes down.
#[test]
fn nothing_to_cut_means_no_retry() {
    let call = Call { window: None, ..call(Format::Chat, one_turn("hello", 100), 0) };
    assert!(decider().after_overflow(&call, call.request.bytes(), &refusal(Class::Input, Some(10), Some(20))).is_none());
}

/// Fail open: after our edit was refused for another reason, the conversation goes as it came until it has grown.
#[test]
fn fail_open_quarantines_a_refused_edit() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let events = history(40..60).new_tree(&mut TestRunner::deterministic()).unwrap().current();
    let decider = decider();
    let call = call(Format::Messages, render(Format::Messages, &events, None), 3000);
    let Decision::Send(rewrite) = decider.before_send(&call) else { panic!("this history is over its trigger") };
    decider.quarantine(&rewrite.ticket, call.now);
    assert!(matches!(decider.before_send(&call), Decision::Pass(_)));
}

/// What steers a provider and is never shown to its model weighs nothing, so it neither fills a window nor tells one conversation from another.
#[test]
fn what_a_model_never_reads_weighs_nothing() {
    let weight = |more: &str| {
        let body = format!(r#"{{"model":"claude-sonnet-4-5"{more},"messages":[{{"role":"user","content":"hello"}}]}}"#);
        let request = Request::read(Format::Messages, body.into_bytes().into()).unwrap();
        Scale::of(&request, "").rest(&request)
    };
    let long = "a1b2 ".repeat(200);
    for more in [r#","metadata":{"user_id":"LONG"}"#, r#","user":"LONG""#, r#","context_management":{"edits":[{"type":"LONG"}]}"#] {
        assert_eq!(weight(&more.replace("LONG", &long)), weight(""), "{more}");
    }
    assert!(weight(&format!(r#","system":"{long}""#)) > weight("") + 200);
}

/// A provider that counts more than we do is believed once it has refused something, and with room to spare: not all text is equally dense.
#[test]
fn a_provider_that_refused_once_is_not_asked_again_for_nearly_as_much() {
    let events: Vec<Event> = (0..60)
        .flat_map(|n| [Event::Says(format!("and part {n}?")), Event::Answers { thinks: false, text: "it works like this. ".repeat(20) }])
        .chain([Event::Says("go on".into())])
        .collect();
    let body = render(Format::Messages, &events, None);
    let (counted, _) = send(&decider(), &call(Format::Messages, body.clone(), 8_000)).1.tokens.unwrap();
    let real = counted * 3 / 2;
    let call = call(Format::Messages, body, real * 100 / 95);
    let decider = decider();
    decider.learn_usage("test", call.request.model(), real, counted);
    assert!(!send(&decider, &call).1.edited, "nothing was refused yet");
    let longer = refusal(Class::Input, Some(real * 100 / 95), Some(real * 2));
    assert!(decider.after_overflow(&call, call.request.bytes(), &longer).is_some());
    // Another branch of it, so that what the retry left behind is not found.
    let branch = [&events[..], &[Event::Answers { thinks: false, text: "done".into() }, Event::Says("thanks, next".into())]].concat();
    let call = Call { request: Request::read(Format::Messages, render(Format::Messages, &branch[2..], None).into()).unwrap(), ..call };
    assert!(send(&decider, &call).1.edited);
}
