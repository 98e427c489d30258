//! Requests of our own: one that goes on where a request leaves off, and one that stands alone.

use super::{Change, Edit, Format, Request, json};
use crate::conversation::Role;
use serde_json::{Value, json};

/// A body with a gap for what we say at its end: the beginning of a conversation as it was sent, and one more word of the user's.
///
/// It begins with the bytes that the provider has seen, so that it is read from its prompt cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ride {
    head: String,
    tail: String,
}

/// Stands in the gap until it is cut out. In a body by chance it would have to be put there on purpose, and then there is no ride.
const GAP: &str = "plimsoll-gap-6f1c0b52e8";
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// Marks that a provider takes.
const MOST_MARKS: usize = 4;

impl Ride {
    /// The first `end` messages of a request as `edits` change them. Nothing where there is no assistant's turn to follow, or where the request asks for
    /// answers that are no text.
    pub fn of(request: &Request, edits: &[Edit], end: usize, output: u64) -> Option<Ride> {
        let messages = &request.conversation.messages;
        let hindered = request.rest.iter().any(|(name, value)| hinders(name.of(request.text()), value.of(request.text())));
        if end == 0 || end >= messages.len() || hindered {
            return None;
        }
        let dropped = |message: usize| edits.iter().any(|edit| edit.message == message && edit.change == Change::Drop);
        let last = (0..end).rev().find(|&message| !dropped(message) && messages[message].role != Role::System)?;
        let mut all: Vec<Edit> = edits.iter().filter(|edit| edit.message < end).cloned().collect();
        let joins = messages[last].role == Role::User && last + 1 == end;
        if joins {
            let at = all.iter().rposition(|edit| edit.message <= last).map_or(0, |at| at + 1);
            let notes =
                all.iter().position(|edit| edit.message == last && matches!(edit.change, Change::Append { .. })).map(|at| all.remove(at));
            let text = match notes.map(|edit| edit.change) {
                Some(Change::Append { text }) => format!("{text}\n\n{GAP}"),
                _ => GAP.to_owned(),
            };
            all.insert(at.min(all.len()), Edit { message: last, change: Change::Append { text: text.into() } });
        } else {
            all.push(Edit { message: end, change: Change::Before { text: GAP.into() } });
        }
        all.extend((end..messages.len()).map(|message| Edit { message, change: Change::Drop }));
        let needed = output + request.thinking.unwrap_or(0);
        let body = request.apply(&all, request.cap.filter(|(_, cap)| *cap < needed).map(|_| needed));
        let (head, tail) = body.split_once(GAP).filter(|(head, tail)| !head.contains(GAP) && !tail.contains(GAP))?;
        Some(Ride { head: head.to_owned(), tail: tail.to_owned() }.marked(request.format))
    }

    pub fn body(&self, prompt: &str) -> String {
        let quoted = json::quote(prompt);
        [&self.head, &quoted[1..quoted.len() - 1], &self.tail].concat()
    }

    /// With a cache mark at its end where the request uses some and has one to spare: marks are what such a cache is looked up from.
    fn marked(self, format: Format) -> Ride {
        let marks =
            memchr::memmem::find_iter(self.head.as_bytes(), b"\"cache_control\"").count() + self.tail.matches("\"cache_control\"").count();
        if format != Format::Messages || marks == 0 || marks >= MOST_MARKS {
            return self;
        }
        let Some(rest) = self.tail.strip_prefix("\"}") else { return self };
        if self.head.ends_with(r#""text":""#) {
            return Ride { tail: format!("\"{MARK}}}{rest}"), ..self };
        }
        match self.head.strip_suffix(r#""content":""#) {
            Some(head) => Ride { head: format!(r#"{head}"content":[{{"type":"text","text":""#), tail: format!("\"{MARK}}}]}}{rest}") },
            None => self,
        }
    }
}

/// Whether a model that is asked with this member calls a tool, writes JSON, stops where a text of ours goes on, answers more than once, or not at once.
fn hinders(name: &str, raw: &str) -> bool {
    match name {
        "tool_choice" | "function_call" => raw != "null" && !["\"auto\"", "\"none\""].iter().any(|free| raw.contains(free)),
        "response_format" | "text" | "output_format" | "output_config" => raw.contains("\"json_"),
        "stop" | "stop_sequences" => !matches!(raw, "null" | "[]" | "\"\""),
        "n" => !matches!(raw, "null" | "1"),
        "background" => raw == "true",
        _ => false,
    }
}

/// A request that stands alone: a system prompt and one message of a user, no tools.
///
/// `cap` is the member that caps the output, and its number.
pub fn alone(format: Format, model: &str, system: &str, user: &str, cap: Option<(&str, u64)>) -> String {
    let mut body = match format {
        Format::Chat => json!({"model": model, "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}),
        Format::Messages => json!({"model": model, "system": system, "messages": [{"role": "user", "content": user}]}),
        Format::Responses => json!({
            "model": model,
            "instructions": system,
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": user}]}],
            // Nobody will ask for it again.
            "store": false,
        }),
    };
    if let (Some((name, cap)), Value::Object(members)) = (cap, &mut body) {
        members.insert(name.to_owned(), cap.into());
    }
    body.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::check;

    fn request(format: Format, body: &str) -> Request {
        Request::read(format, body.to_owned().into()).unwrap()
    }

    #[track_caller]
    fn check(format: Format, body: &str, end: usize, expected: &str) {
        let request = request(format, body);
        let sent = Ride::of(&request, &[], end, 100).unwrap().body("sum \"up\"\n");
        assert_eq!(sent, expected);
        assert_eq!(check::faults(&Request::read(format, sent.into()).unwrap()), []);
    }

    #[test]
    fn a_ride_is_the_very_bytes_and_one_more_word() {
        check(
            Format::Chat,
            r#"{"model":"m","messages":[ {"role":"user","content":"a"}, {"role":"assistant","content":"b"}, {"role":"user","content":"c"}],"tools":[]}"#,
            2,
            r#"{"model":"m","messages":[ {"role":"user","content":"a"}, {"role":"assistant","content":"b"}, {"role":"user","content":"sum \"up\"\n"}],"tools":[]}"#,
        );
        check(
            Format::Messages,
            r#"{"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"x","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#,
            3,
            r#"{"max_tokens":100,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"x","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r","cache_control":{"type":"ephemeral"}},{"type":"text","text":"sum \"up\"\n","cache_control":{"type":"ephemeral"}}]}]}"#,
        );
        check(
            Format::Messages,
            r#"{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#,
            2,
            r#"{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":[{"type":"text","text":"sum \"up\"\n","cache_control":{"type":"ephemeral"}}]}]}"#,
        );
    }

    #[test]
    fn a_ride_goes_on_from_what_was_sent() {
        let request = request(
            Format::Chat,
            r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}]}"#,
        );
        let drop = |message| Edit { message, change: Change::Drop };
        let edits = [Edit { message: 0, change: Change::Append { text: "notes".into() } }, drop(1), drop(2)];
        let sent = Ride::of(&request, &edits, 4, 100).unwrap().body("P");
        assert_eq!(
            sent,
            r#"{"messages":[{"role":"user","content":"a\n\nnotes"},{"role":"assistant","content":"d"},{"role":"user","content":"P"}]}"#
        );
        assert_eq!(Ride::of(&request, &edits, 5, 100), None);
    }

    #[test]
    fn a_request_for_answers_that_are_no_text_is_not_ridden_on() {
        let check = |format: Format, member: &str, rides: bool| {
            let list = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#;
            let body = format!(r#"{{"model":"m",{member},"{}":{list}}}"#, format.list());
            assert_eq!(Ride::of(&request(format, &body), &[], 2, 100).is_some(), rides, "{member}");
        };
        for member in [r#""n":3"#, r#""stop":["\n"]"#, r#""tool_choice":"required""#, r#""response_format":{"type":"json_object"}"#] {
            check(Format::Chat, member, false);
        }
        for member in
            [r#""n":1"#, r#""stop":null"#, r#""tool_choice":"auto""#, r#""response_format":{"type":"text"}"#, r#""logprobs":true"#]
        {
            check(Format::Chat, member, true);
        }
        check(Format::Messages, r#""tool_choice":{"type":"any"}"#, false);
        check(Format::Messages, r#""tool_choice":{"type":"auto"}"#, true);
        check(Format::Messages, r###""stop_sequences":["##"]"###, false);
        check(Format::Responses, r#""text":{"format":{"type":"json_schema","name":"x","schema":{}}}"#, false);
        check(Format::Responses, r#""text":{"format":{"type":"text"},"verbosity":"low"}"#, true);
        check(Format::Responses, r#""background":true"#, false);
    }

    #[test]
    fn a_request_of_its_own_is_read_by_its_format() {
        for format in Format::ALL {
            let body = alone(format, "m", "s", "u", Some((format.output_caps()[0], 500)));
            let read = request(format, &body);
            assert_eq!((read.model(), read.cap.map(|(_, cap)| cap), check::faults(&read)), ("m", Some(500), vec![]));
        }
    }
}
