//! Conversations that outgrow a small window, the same every time.

use std::fmt::Write;

/// The request of `session` after so many turns, each of which read a file.
pub fn body(session: &str, turns: usize) -> String {
    told(session, &(0..turns).map(|turn| format!("{session}_{turn}")).collect::<Vec<_>>())
}

/// The request of `session` after turns of these names.
pub fn told(session: &str, turns: &[String]) -> String {
    let mut out = format!(
        "{{\"model\":\"m\",\"messages\":[{{\"role\":\"system\",\"content\":\"You are careful.\"}},{{\"role\":\"user\",\"content\":\"In {session}: find where the port is set. Never touch the tests.\"}}"
    );
    for (turn, name) in turns.iter().enumerate() {
        let _ = write!(
            out,
            ",{{\"role\":\"assistant\",\"content\":\"Next is file {turn}.\",\"tool_calls\":[{{\"id\":\"call_{turn}\",\"type\":\"function\",\"function\":{{\"name\":\"read_file\",\"arguments\":\"{{\\\"path\\\":\\\"src/{session}/f{turn}.rs\\\"}}\"}}}}]}},{{\"role\":\"tool\",\"tool_call_id\":\"call_{turn}\",\"content\":\""
        );
        for line in 0..40 {
            let _ = write!(out, "let {name}_{line} = compute({});\\n", turn * 7919 + line * 31);
        }
        out.push_str("\"}");
    }
    out.push_str("]}");
    out
}

/// The window for it, in tokens.
pub const WINDOW: u64 = 8192;
