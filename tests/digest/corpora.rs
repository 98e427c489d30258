//! Real transcripts, where they are at hand: in `PLIMSOLL_SHARED`, or in a folder `shared` beside the checkout.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use plimsoll::compact::digest::{Scope, digest};
use serde_json::Value;

use super::conversation::{Conversation, Message, Who, count};

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(|parent| parent.join("shared"));
    let folder = std::env::var_os("PLIMSOLL_SHARED").map(PathBuf::from).or(beside)?.join("corpora");
    folder.is_dir().then_some(folder)
}

fn read(path: &Path) -> Conversation {
    let body: Value = serde_json::from_slice(&std::fs::read(path).expect("a corpus reads")).expect("a corpus is JSON");
    let mut talk = Conversation { name: path.display().to_string(), ..Conversation::default() };
    let mut tools: HashMap<String, String> = HashMap::new();
    let mut add =
        |who: Who, text: &str, call_id: &str| talk.messages.push(Message { who, text: text.to_owned(), call_id: call_id.to_owned() });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let blocks = |content: &Value| -> String {
        match content {
            Value::Array(parts) => parts.iter().map(|part| text(&part["text"])).collect::<Vec<_>>().join("\n"),
            other => text(other),
        }
    };
    for message in body["messages"].as_array().into_iter().flatten() {
        let who = match message["role"].as_str() {
            Some("user") => Who::User,
            Some("assistant") => Who::Assistant,
            Some("tool") => {
                let id = text(&message["tool_call_id"]);
                add(Who::Result(tools.get(&id).cloned().unwrap_or_default(), false), &blocks(&message["content"]), &id);
                continue;
            }
            _ => continue,
        };
        match &message["content"] {
            Value::Array(parts) => {
                for part in parts {
                    match part["type"].as_str() {
                        Some("text") => add(who.clone(), &text(&part["text"]), ""),
                        Some("tool_use") => {
                            tools.insert(text(&part["id"]), text(&part["name"]));
                            add(Who::Call(text(&part["name"])), &part["input"].to_string(), &text(&part["id"]));
                        }
                        Some("tool_result") => {
                            let id = text(&part["tool_use_id"]);
                            add(
                                Who::Result(tools.get(&id).cloned().unwrap_or_default(), part["is_error"] == true),
                                &blocks(&part["content"]),
                                &id,
                            );
                        }
                        _ => {}
                    }
                }
            }
            other => add(who, &text(other), ""),
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            tools.insert(text(&call["id"]), text(&call["function"]["name"]));
            add(Who::Call(text(&call["function"]["name"])), &text(&call["function"]["arguments"]), &text(&call["id"]));
        }
    }
    talk
}

#[test]
fn real_sessions_come_down_to_notes_that_quote_their_user() {
    let Some(folder) = folder() else {
        println!("skipped: no corpora at hand");
        return;
    };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the folder reads").filter_map(Result::ok) {
        let path = entry.path();
        if !path.to_string_lossy().ends_with(".chat.json") && !path.to_string_lossy().ends_with(".anthropic.json") {
            continue;
        }
        let talk = read(&path);
        let end = talk.messages.len().saturating_sub(6);
        let (covered, kept) = (talk.passages(1..end.max(1)), talk.passages(end.max(1)..talk.messages.len()));
        let size: usize = covered.iter().map(|p| count(&p.text)).sum();
        for share in [20, 10, 5] {
            let made = digest(&Scope { covered: &covered, kept: &kept }, size / share, &count);
            println!(
                "{}: {size} tokens, {} of {} spent, {:?}",
                path.file_name().unwrap_or_default().to_string_lossy(),
                made.tokens,
                size / share,
                made.written
            );
            assert!(made.tokens <= size / share);
            assert!(size < 5_000 || !made.text.is_empty(), "{} has nothing worth a line", talk.name);
        }
        seen += 1;
    }
    assert!(seen >= 3, "corpora found: {seen}");
}
