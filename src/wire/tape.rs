//! A JSON value as a list of the values in it, in the order in which they begin: every byte is looked at once, then places are looked up.

use super::json::{self, Members};
use crate::conversation::Span;

/// One value after another is read into the same tape, so that little is allocated.
#[derive(Debug, Default)]
pub struct Tape {
    nodes: Vec<Node>,
    /// Containers that have begun and not ended.
    open: Vec<u32>,
}

/// A value, or the contents of a key, which stands before its value.
#[derive(Clone, Copy, Debug)]
struct Node {
    span: Span,
    /// The node after everything in this one.
    next: u32,
}

impl Tape {
    /// Reads the value that starts at `at` in place of what was read before, and says where it ends. `None` when it is not well-formed; what single
    /// words and numbers look like is not checked.
    pub fn read(&mut self, text: &str, mut at: usize) -> Option<usize> {
        let bytes = text.as_bytes();
        self.nodes.clear();
        self.open.clear();
        loop {
            let start = at;
            let close = match bytes.get(at)? {
                b'{' => Some(b'}'),
                b'[' => Some(b']'),
                _ => None,
            };
            match close {
                Some(close) => {
                    self.open.push(self.nodes.len() as u32);
                    self.nodes.push(Node { span: Span::new(start, start), next: 0 });
                    at = json::space(bytes, at + 1);
                    if bytes.get(at)? != &close {
                        at = self.begin(bytes, at, close)?;
                        continue;
                    }
                }
                None => {
                    at = json::skip(bytes, at)?;
                    self.push(start, at);
                }
            }
            loop {
                let Some(&container) = self.open.last() else { return Some(at) };
                let node = &mut self.nodes[container as usize];
                let close = if bytes[node.span.start as usize] == b'{' { b'}' } else { b']' };
                at = json::space(bytes, at);
                match bytes.get(at)? {
                    b',' => {
                        at = self.begin(bytes, json::space(bytes, at + 1), close)?;
                        break;
                    }
                    byte if *byte == close => {
                        at += 1;
                        node.span.end = at as u32;
                        let next = self.nodes.len() as u32;
                        self.nodes[container as usize].next = next;
                        self.open.pop();
                        if self.open.is_empty() {
                            return Some(at);
                        }
                    }
                    _ => return None,
                }
            }
        }
    }

    /// Where the next value of a container starts: behind its key, in an object.
    fn begin(&mut self, bytes: &[u8], at: usize, close: u8) -> Option<usize> {
        if close == b']' {
            return Some(at);
        }
        let end = json::string(bytes, at)?;
        self.push(at + 1, end - 1);
        let colon = json::space(bytes, end);
        (bytes.get(colon) == Some(&b':')).then(|| json::space(bytes, colon + 1))
    }

    fn push(&mut self, start: usize, end: usize) {
        let next = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { span: Span::new(start, end), next });
    }

    /// The members of the object that lies at `span`: key (contents, quotes not included) and value.
    pub fn members(&self, span: Span) -> Option<Members> {
        let mut children = self.children(span)?;
        let mut members = Members::new();
        while let (Some(key), Some(value)) = (children.next(), children.next()) {
            members.push((key, value));
        }
        Some(members)
    }

    /// The elements of the list that lies at `span`.
    pub fn elements(&self, span: Span) -> Option<Vec<Span>> {
        Some(self.children(span)?.collect())
    }

    fn children(&self, span: Span) -> Option<impl Iterator<Item = Span>> {
        let at = self.nodes.partition_point(|node| node.span.start < span.start);
        let node = self.nodes.get(at).filter(|node| node.span == span)?;
        let (mut at, end) = (at + 1, node.next as usize);
        Some(std::iter::from_fn(move || {
            let node = self.nodes.get(at).filter(|_| at < end)?;
            at = node.next as usize;
            Some(node.span)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tape_finds_what_skipping_finds(value in json::tests::json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let mut tape = Tape::default();
            prop_assert_eq!(tape.read(&text, 0), Some(text.len()));
            let mut waiting = vec![Span::new(0, text.len())];
            while let Some(span) = waiting.pop() {
                match text.as_bytes()[span.start as usize] {
                    b'{' => {
                        let (members, _) = json::members(&text, span.start as usize).unwrap();
                        prop_assert_eq!(tape.members(span), Some(members.clone()));
                        waiting.extend(members.into_iter().map(|(_, value)| value));
                    }
                    b'[' => {
                        let (elements, _) = json::elements(&text, span.start as usize).unwrap();
                        prop_assert_eq!(tape.elements(span), Some(elements.clone()));
                        waiting.extend(elements);
                    }
                    _ => {}
                }
            }
        }

        #[test]
        fn what_a_strict_reader_takes_is_taken(text in r#"([\[\]{},:" ]|"a"|1|null|\\.){0,24}"#) {
            let read = Tape::default().read(&text, 0);
            if json::is_strict(&text) && !text.starts_with(' ') {
                prop_assert_eq!(read, Some(text.trim_end().len()));
            }
        }
    }

    #[test]
    fn what_is_not_well_formed_is_refused() {
        for text in ["", "{", "[", "[1 2]", "[1,]", "{\"a\":1,}", "{\"a\"}", "{a:1}", "[}", "{\"a\":[1}", "\"", "{\"a\":{]}}"] {
            assert_eq!(Tape::default().read(text, 0), None, "{text}");
        }
    }
}
