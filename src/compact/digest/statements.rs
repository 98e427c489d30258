//! What the user and the assistant said, sentence by sentence.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::answers;
use super::earlier::Earlier;
use super::frames;
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
    /// Text of its message, or line of an earlier digest: what is apart in these stays apart.
    pub note: usize,
    /// Line of its message.
    pub line: usize,
    /// No space stands between it and the sentence before.
    pub glued: bool,
    pub speaker: Speaker,
    /// It stands in a message that stays, so it is compared but never repeated.
    pub kept: bool,
    /// Inside a long document.
    pub buried: bool,
    /// Of an assistant: it does not lead over to a call in the same message, so it reports rather than narrates.
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
        Statement {
            place,
            note: 0,
            line: 0,
            glued: false,
            speaker,
            kept: false,
            buried: false,
            report: false,
            earlier: false,
            text,
            subject,
        }
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

/// Lines of one digest, at most.
const NOTES: usize = 1 << 20;
/// Of a long answer, its first and last sentences are looked at: it opens with what it is about and ends with what came of it.
const ANSWER_HEAD: usize = 8;
const ANSWER_TAIL: usize = 16;

pub(crate) fn said<'t>(scope: &'t Scope<'t>) -> Said<'t> {
    let mut said = Said { statements: Vec::new(), pasted: Vec::new(), earlier: Vec::new() };
    let mut passages: Vec<_> = scope.covered.iter().map(|p| (p, false)).chain(scope.kept.iter().map(|p| (p, true))).collect();
    passages.sort_by_key(|(p, _)| p.place);
    let framed: HashSet<usize> = frames::framed(&passages.iter().map(|(p, _)| *p).collect::<Vec<_>>()).into_iter().collect();
    let calling: HashSet<usize> = scope.covered.iter().filter(|p| matches!(p.voice, Voice::Call { .. })).map(|p| p.place).collect();
    let mut texts: HashMap<usize, usize> = HashMap::new();
    for (passage, kept) in passages {
        let speaker = match passage.voice {
            Voice::User => Speaker::User,
            Voice::Assistant => Speaker::Assistant,
            Voice::Call { .. } | Voice::Result { .. } => continue,
        };
        let mut text: &str = &passage.text;
        if speaker == Speaker::User && framed.contains(&passage.place) {
            if !kept {
                said.pasted.push((passage.place, text));
            }
            continue;
        }
        let note = texts.entry(passage.place).and_modify(|texts| *texts += NOTES).or_insert(NOTES);
        let note = *note;
        if speaker == Speaker::User
            && let Some((before, earlier)) = Earlier::find(text)
        {
            text = before;
            for (number, (speaker, line)) in earlier.statements().enumerate() {
                for part in parts(line) {
                    let (text, line, glued) = match part {
                        Part::Said { text, line, glued, .. } => (text, line, glued),
                        Part::Pasted(text) => (Cow::Borrowed(text), 0, false),
                    };
                    said.statements.push(Statement {
                        kept,
                        note: note + 1 + number,
                        line,
                        glued,
                        earlier: true,
                        report: true,
                        ..Statement::said(passage.place, speaker, text)
                    });
                }
            }
            said.earlier.push(earlier);
        }
        let parts = parts(text);
        let spoken = parts.len();
        for (number, part) in parts.into_iter().enumerate() {
            if number >= SENTENCES || (speaker == Speaker::Assistant && (ANSWER_HEAD..spoken.saturating_sub(ANSWER_TAIL)).contains(&number))
            {
                continue;
            }
            match part {
                Part::Said { text, line, glued, buried } => {
                    let leads_over = calling.contains(&passage.place) && number + 1 == spoken;
                    let report = speaker == Speaker::Assistant && !leads_over;
                    said.statements.push(Statement {
                        kept,
                        note,
                        line,
                        glued,
                        buried,
                        report,
                        ..Statement::said(passage.place, speaker, text)
                    });
                }
                Part::Pasted(text) if speaker == Speaker::User && !kept => said.pasted.push((passage.place, text)),
                Part::Pasted(_) => {}
            }
        }
    }
    answers::join(&mut said.statements);
    said
}

/// A sentence by its letters and digits alone, to tell a repetition.
pub(crate) fn fingerprint(text: &str) -> Key {
    let plain: String = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    hash(&plain)
}
