//! `shrink_arguments`: long texts inside the arguments of old calls. What is left is still the same JSON, with the same members.

use super::{Knobs, View, Zones, marker, view::text};
use crate::conversation::{Fingerprint, Form, Kind, Span};
use crate::wire::{Change, json};

/// Deeper than this arguments are left as they are.
const DEEPEST: usize = 32;

pub fn run(view: &mut View, zones: &Zones, knobs: &Knobs) {
    for message in 0..view.messages().len() {
        if !zones.is_middle(view, message) {
            continue;
        }
        for n in 0..view.blocks(message).len() {
            let Kind::Call(call) = &view.blocks(message)[n].kind else { continue };
            if call.form == Form::Free || call.arguments.len() <= knobs.shrink_arguments.min_chars || view.is_changed(message, n) {
                continue;
            }
            let arguments = view.arguments(call).into_owned();
            if let Some(shorter) = shrink(&arguments, knobs, view.messages()[message].fingerprint) {
                view.propose(message, Change::Arguments { block: n, json: text(shorter) });
            }
        }
    }
}

/// The arguments with their long strings cut to their ends; `None` when there are none, or when this is no object.
fn shrink(arguments: &str, knobs: &Knobs, id: Fingerprint) -> Option<String> {
    if !arguments.trim_start().starts_with('{') || !json::is_strict(arguments) {
        return None;
    }
    let mut long = Vec::new();
    leaves(arguments, json::space(arguments.as_bytes(), 0), 0, &mut |span| {
        // A character takes a byte at least, so no long one is missed here.
        if span.len() > knobs.shrink_arguments.min_chars {
            long.push(span);
        }
    });
    let keep = knobs.shrink_arguments.keep_chars;
    let mut out = String::with_capacity(arguments.len() / 2);
    let mut at = 0;
    for span in long {
        let said = json::unescape(json::inner(arguments, span).of(arguments));
        let Some(short) = Some(&said)
            .filter(|said| marker::is_longer(said, knobs.shrink_arguments.min_chars))
            .and_then(|said| marker::ends(said, keep * 3 / 4, keep / 4, id))
        else {
            continue;
        };
        out.push_str(&arguments[at..span.start as usize]);
        out.push_str(&json::quote(&short));
        at = span.end as usize;
    }
    (at > 0).then(|| {
        out.push_str(&arguments[at..]);
        out
    })
}

/// Calls `f` with every string value, in order.
fn leaves(text: &str, at: usize, depth: usize, f: &mut dyn FnMut(Span)) {
    if depth > DEEPEST {
        return;
    }
    let children: Vec<Span> = match text.as_bytes().get(at) {
        Some(b'{') => json::members(text, at).map(|(members, _)| members.into_iter().map(|(_, value)| value).collect()).unwrap_or_default(),
        Some(b'[') => json::elements(text, at).map(|(elements, _)| elements).unwrap_or_default(),
        _ => return,
    };
    for child in children {
        match text.as_bytes().get(child.start as usize) {
            Some(b'"') => f(child),
            Some(b'{' | b'[') => leaves(text, child.start as usize, depth + 1, f),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arguments_stay_json_with_the_same_members(path in "[a-z/]{1,30}", body in "(?s).{0,3000}", big in any::<u64>(), pretty in any::<bool>()) {
            let value = serde_json::json!({"path": path, "id": big, "nested": [{"content": body}], "n": 1.0});
            let came = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            if let Some(short) = shrink(&came, &Knobs::default(), Fingerprint::default()) {
                let back: serde_json::Value = serde_json::from_str(&short).unwrap();
                prop_assert_eq!(&back["path"], &value["path"]);
                prop_assert_eq!(&back["id"], &value["id"]);
                prop_assert!(short.len() < came.len());
            }
        }
    }
}
