//! A conversation as a reader of meaning sees it: who said what, without wire formats.

use super::View;
use super::digest::{Passage, Voice};
use crate::conversation::{Kind, Role};

/// The passages of a view, in order.
pub fn all<'a>(view: &View<'a>) -> Vec<Passage<'a>> {
    let mut out = Vec::new();
    for message in 0..view.messages().len() {
        of(view, message, &mut out);
    }
    out
}

/// The passages of a message.
pub fn of<'a>(view: &View<'a>, message: usize, out: &mut Vec<Passage<'a>>) {
    let body = view.body();
    let role = view.messages()[message].role;
    for block in view.blocks(message) {
        match &block.kind {
            Kind::Text { text } => {
                let voice = match role {
                    Role::User => Voice::User,
                    Role::Assistant => Voice::Assistant,
                    _ => continue,
                };
                out.push(Passage { place: view.place(message), voice, call_id: "", text: view.said(*text) });
            }
            Kind::Call(call) => out.push(Passage {
                place: view.place(message),
                voice: Voice::Call { tool: call.tool.of(body) },
                call_id: call.id.of(body),
                text: view.arguments(call),
            }),
            Kind::Result(outcome) => {
                let tool = view.call_of(message, outcome).map_or("", |(call, _)| call.tool.of(body));
                out.push(Passage {
                    place: view.place(message),
                    voice: Voice::Result { tool, failed: outcome.failed },
                    call_id: outcome.id.of(body),
                    text: view.output(outcome),
                });
            }
            _ => {}
        }
    }
}
