//! What the user and the assistant said, sentence by sentence.

use std::borrow::Cow;
use std::collections::HashSet;

use super::earlier::Earlier;
use super::secrets;
use super::sentences::{Part, parts};
use super::subjects::{Key, Subject, hash};
use super::{Scope, Voice};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Speaker {
    User,
    Assistant,
}

pub(crate) struct Statement<'t> {
    /// Index of its message.
    pub place: usize,
    pub speaker: Speaker,
    /// It stands in a message that stays, so it is compared but never repeated.
    pub kept: bool,
    /// Inside a long document.
    pub buried: bool,
    /// Of an assistant: not followed by a call in the same message, so it reports rather than narrates.
    pub report: bool,
    /// It comes from an earlier digest.
    pub earlier: bool,
    /// Without known credentials.
    pub text: Cow<'t, str>,
    pub subject: Subject,
}

impl<'t> Statement<'t> {
    pub fn said(place: usize, speaker: Speaker, text: impl Into<Cow<'t, str>>) -> Self {
        let text = secrets::masked(text.into());
        let subject = Subject::of(&text);
        Statement { place, speaker, kept: false, buried: false, report: false, earlier: false, text, subject }
    }
}

/// Everything said, in the order of the conversation, and the texts that were pasted between.
pub(crate) struct Said<'t> {
    pub statements: Vec<Statement<'t>>,
    pub pasted: Vec<(usize, &'t str)>,
    /// Digests of earlier rounds found in the covered part.
    pub earlier: Vec<Earlier<'t>>,
}

/// Sentences of one message looked at: beyond, it is material.
const SENTENCES: usize = 400;

pub(crate) fn said<'t>(scope: &'t Scope<'t>) -> Said<'t> {
    let mut said = Said { statements: Vec::new(), pasted: Vec::new(), earlier: Vec::new() };
    let mut passages: Vec<_> = scope.covered.iter().map(|p| (p, false)).chain(scope.kept.iter().map(|p| (p, true))).collect();
    passages.sort_by_key(|(p, _)| p.place);
    let calling: HashSet<usize> = scope.covered.iter().filter(|p| matches!(p.voice, Voice::Call { .. })).map(|p| p.place).collect();
    for (passage, kept) in passages {
        let speaker = match passage.voice {
            Voice::User => Speaker::User,
            Voice::Assistant => Speaker::Assistant,
            Voice::Call { .. } | Voice::Result { .. } => continue,
        };
        let mut text: &str = &passage.text;
        if speaker == Speaker::User
            && let Some((before, earlier)) = Earlier::find(text)
        {
            text = before;
            for (speaker, line) in earlier.statements() {
                for part in parts(line) {
                    let text = match part {
                        Part::Said { text, .. } => text,
                        Part::Pasted(text) => Cow::Borrowed(text),
                    };
                    said.statements.push(Statement { kept, earlier: true, report: true, ..Statement::said(passage.place, speaker, text) });
                }
            }
            said.earlier.push(earlier);
        }
        for part in parts(text).into_iter().take(SENTENCES) {
            match part {
                Part::Said { text, buried } => {
                    let report = speaker == Speaker::Assistant && !calling.contains(&passage.place);
                    said.statements.push(Statement { kept, buried, report, ..Statement::said(passage.place, speaker, text) });
                }
                Part::Pasted(text) if speaker == Speaker::User && !kept => said.pasted.push((passage.place, text)),
                Part::Pasted(_) => {}
            }
        }
    }
    said
}

/// A sentence by its letters and digits alone, to tell a repetition.
pub(crate) fn fingerprint(text: &str) -> Key {
    let plain: String = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    hash(&plain)
}
