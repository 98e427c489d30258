//! A strategy for conversations as agents have them, rendered in each wire format.

use plimsoll::wire::Format;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What happens in a conversation, before any wire format.
#[derive(Clone, Debug)]
pub enum Event {
    Says(String),
    Answers { thinks: bool, text: String },
    Uses { thinks: bool, text: Option<String>, calls: Vec<Tool>, with_results: Option<String> },
    Told(String),
}

#[derive(Clone, Debug)]
pub struct Tool {
    pub name: &'static str,
    pub path: String,
    pub body: String,
    pub output: String,
    pub failed: bool,
    pub picture: bool,
}

pub fn words(most: usize) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => "[a-z]{1,9}",
        1 => "[A-Z]{1,4}-[0-9]{1,5}",
        1 => "/[a-z]{1,6}/[a-z]{1,6}\\.rs",
        1 => Just("数据库连接超时".to_owned()),
        1 => Just("👩‍🚀é\"\\\u{1b}[31m\t".to_owned()),
        1 => Just("must not".to_owned()),
    ];
    prop::collection::vec(word, 1..most).prop_map(|words| words.join(" "))
}

fn tool() -> impl Strategy<Value = Tool> {
    (
        prop::sample::select(vec!["read_file", "bash", "grep", "write_file"]),
        "[a-z]{1,3}",
        prop_oneof![4 => words(8), 1 => words(400)],
        prop_oneof![2 => words(12), 3 => words(700)],
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.08),
    )
        .prop_map(|(name, path, body, output, failed, picture)| Tool {
            name,
            path: format!("src/{path}.rs"),
            body,
            output,
            failed,
            picture,
        })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => prop_oneof![4 => words(30), 1 => Just("thanks".to_owned()), 1 => words(300)].prop_map(Event::Says),
        2 => (any::<bool>(), prop_oneof![3 => words(60), 1 => words(500)]).prop_map(|(thinks, text)| Event::Answers { thinks, text }),
        5 => (any::<bool>(), prop::option::of(words(20)), prop::collection::vec(tool(), 1..4), prop::option::weighted(0.1, words(10))).prop_map(|(thinks, text, calls, with_results)| Event::Uses { thinks, text, calls, with_results }),
        1 => words(10).prop_map(Event::Told),
    ]
}

/// A history with `events` events, ready to be sent: the assistant speaks next, roles take turns.
pub fn history(events: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Event>> {
    (words(40), prop::collection::vec(event(), events)).prop_map(|(task, events)| {
        let mut out = vec![Event::Says(task)];
        // Who had the last word, developers' remarks aside: a person, tools, or the assistant.
        let mut last = 'p';
        for event in events {
            let next = match event {
                Event::Says(_) => 'p',
                Event::Answers { .. } => 'a',
                Event::Uses { .. } => 't',
                Event::Told(_) => {
                    out.push(event);
                    continue;
                }
            };
            match (last, next) {
                ('p', 'p') | ('a', 'a') => continue,
                // Strict formats want an answer between a tool's result and a person's word, and a word between two moves.
                ('t', 'p') => out.push(Event::Answers { thinks: false, text: "done".to_owned() }),
                ('a', 't') => out.push(Event::Says("go on".to_owned())),
                _ => {}
            }
            out.push(event);
            last = next;
        }
        while matches!(out.last(), Some(Event::Answers { .. } | Event::Told(_))) {
            out.pop();
        }
        out
    })
}

const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA10dzkAAAAAXNSR0IArs4c6QAAAA==";

/// The body of a request with this history.
pub fn render(format: Format, events: &[Event], cap: Option<u64>) -> Vec<u8> {
    let mut ids = 0;
    let mut list = Vec::new();
    for event in events {
        match format {
            Format::Chat => chat(event, &mut ids, &mut list),
            Format::Responses => responses(event, &mut ids, &mut list),
            Format::Messages => messages(event, &mut ids, &mut list),
        }
    }
    let mut body = match format {
        Format::Chat => {
            list.insert(0, json!({"role": "system", "content": "You are a careful engineer."}));
            json!({"model": "some-model", "temperature": 0.5, "messages": list, "tools": [{"type": "function", "function": {"name": "bash"}}]})
        }
        Format::Responses => json!({"model": "some-model", "store": false, "instructions": "Be careful.", "input": list}),
        Format::Messages => json!({"model": "some-model", "system": "Be careful.", "messages": list, "max_tokens": 1024}),
    };
    if let Some(cap) = cap {
        body[format.output_caps()[0]] = cap.into();
    }
    serde_json::to_vec(&body).unwrap()
}

fn arguments(tool: &Tool) -> Value {
    json!({"path": tool.path, "content": tool.body, "n": 12345678901234567u64})
}

fn chat(event: &Event, ids: &mut usize, list: &mut Vec<Value>) {
    match event {
        Event::Says(text) => list.push(json!({"role": "user", "content": text})),
        Event::Told(_) => {}
        Event::Answers { thinks, text } => {
            let mut message = json!({"role": "assistant", "content": text});
            if *thinks {
                message["reasoning_content"] = "hm".into();
            }
            list.push(message);
        }
        Event::Uses { text, calls, .. } => {
            let first = *ids;
            *ids += calls.len();
            let tool_calls: Vec<Value> = calls.iter().enumerate().map(|(n, tool)| json!({"id": format!("call_{}", first + n), "type": "function", "function": {"name": tool.name, "arguments": arguments(tool).to_string()}})).collect();
            list.push(json!({"role": "assistant", "content": text, "tool_calls": tool_calls}));
            for (n, tool) in calls.iter().enumerate().rev() {
                list.push(json!({"role": "tool", "tool_call_id": format!("call_{}", first + n), "content": tool.output}));
            }
        }
    }
}

fn responses(event: &Event, ids: &mut usize, list: &mut Vec<Value>) {
    let thought = |ids: &mut usize, list: &mut Vec<Value>| {
        *ids += 1;
        list.push(json!({"type": "reasoning", "id": format!("rs_{ids}"), "summary": [], "encrypted_content": "gAAAAB+/=="}));
    };
    match event {
        Event::Says(text) => list.push(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})),
        Event::Told(text) => list.push(json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]})),
        Event::Answers { thinks, text } => {
            if *thinks {
                thought(ids, list);
            }
            *ids += 1;
            list.push(json!({"type": "message", "id": format!("msg_{ids}"), "role": "assistant", "content": [{"type": "output_text", "text": text}]}));
        }
        Event::Uses { thinks, calls, .. } => {
            if *thinks {
                thought(ids, list);
            }
            let first = *ids;
            *ids += calls.len();
            for (n, tool) in calls.iter().enumerate() {
                list.push(json!({"type": "function_call", "id": format!("fc_{}", first + n), "call_id": format!("call_{}", first + n), "name": tool.name, "arguments": arguments(tool).to_string()}));
            }
            for (n, tool) in calls.iter().enumerate().rev() {
                let output = if tool.picture {
                    json!([{"type": "input_text", "text": tool.output}, {"type": "input_image", "image_url": format!("data:image/png;base64,{PICTURE}")}])
                } else {
                    json!(tool.output)
                };
                list.push(json!({"type": "function_call_output", "call_id": format!("call_{}", first + n), "output": output}));
            }
        }
    }
}

fn messages(event: &Event, ids: &mut usize, list: &mut Vec<Value>) {
    let thought = json!({"type": "thinking", "thinking": "", "signature": "Eo+/=="});
    match event {
        Event::Says(text) => match list.last_mut() {
            // Where results came last, somebody speaks beside them.
            Some(last) if last["role"] == "user" => {
                last["content"].as_array_mut().map(|content| content.push(json!({"type": "text", "text": text}))).unwrap_or_default()
            }
            _ => list.push(json!({"role": "user", "content": [{"type": "text", "text": text}]})),
        },
        Event::Told(_) => {}
        Event::Answers { thinks, text } => {
            let mut content = vec![json!({"type": "text", "text": text})];
            if *thinks {
                content.insert(0, thought);
            }
            list.push(json!({"role": "assistant", "content": content}));
        }
        Event::Uses { thinks, text, calls, with_results } => {
            let mut content = Vec::new();
            if *thinks {
                content.push(thought);
            }
            content.extend(text.iter().map(|text| json!({"type": "text", "text": text})));
            let mut results = Vec::new();
            for tool in calls {
                *ids += 1;
                content.push(json!({"type": "tool_use", "id": format!("toolu_{ids}"), "name": tool.name, "input": arguments(tool)}));
                let output = if tool.picture {
                    json!([{"type": "text", "text": tool.output}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}])
                } else {
                    json!(tool.output)
                };
                results.push(
                    json!({"type": "tool_result", "tool_use_id": format!("toolu_{ids}"), "content": output, "is_error": tool.failed}),
                );
            }
            results.extend(with_results.iter().map(|text| json!({"type": "text", "text": text})));
            list.push(json!({"role": "assistant", "content": content}));
            list.push(json!({"role": "user", "content": results}));
        }
    }
}
