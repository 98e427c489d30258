//! Numbers that say which one, not how much: "question 4", "the report of 2024", 第4题.
//!
//! Such a number stands right behind a thing and counts nothing: what follows is grammar, or nothing, or else a word that is not counted, behind
//! a thing without an article ("leave question 4 blank", and not "give the worker 37 threads"). A number behind an attribute ("timeout 30"), or
//! that a statement with a subject of its own ends with ("the queue holds 37"), is how much.

use super::subjects::{Subject, Token};
use super::values::{Kind, Value};
use super::words::{Word, spaceless, words};

/// What stands right before the next token.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    #[default]
    Nothing,
    /// Something that a number may tell from others of its kind; `bare` where it is asked for something, without an article.
    Thing { bare: bool },
    /// Something that no number tells from others.
    Other,
    /// A word that opens a noun phrase.
    Determiner,
    /// A word that ties a year to the thing before it.
    Belonging,
    /// The mark of an ordinal: 第.
    Ordinal,
}

/// When a number that was read says which one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum If {
    Always,
    /// If no word follows.
    Last,
    /// If no word follows that may be counted.
    Uncounted,
    /// If a word follows: "the 2024 report".
    Followed,
    /// If it ends as an ordinal.
    Ordinal,
}

/// A number that waits for what follows.
struct Waiting {
    value: usize,
    which: If,
    /// It looks like a year.
    year: bool,
}

/// A content word of a script with spaces, as it stands.
#[derive(Clone, Copy)]
pub(crate) struct Noun {
    /// It is how much there is of something.
    pub attribute: bool,
    /// It may be told by a number where it has no article.
    pub bare: bool,
    /// It is told by no number where it has an article.
    pub strict: bool,
    /// It may be told by a number in any case, as what is counted looks different.
    pub articled: bool,
    /// It may be counted by a number before it.
    pub counted: bool,
}

/// The state of a sentence that is read token by token.
#[derive(Default)]
pub(crate) struct Naming<'t> {
    before: Before,
    /// The noun phrase that is read has a determiner.
    determined: bool,
    /// It has an article.
    article: bool,
    /// The next word may be what something is asked for.
    asked: bool,
    tokens: usize,
    /// The sentence opens with a determiner or a pronoun.
    declares: bool,
    /// The run of a script without spaces before the next token.
    run: &'t str,
    waiting: Option<Waiting>,
}

/// Marks of an ordinal after its number, within so many characters.
const ORDINALS: [char; 5] = ['目', '番', '号', '號', '째'];
const ENDING: usize = 3;
/// Characters that follow on a name of a thing, and count nothing.
const PARTICLES: &str = "をはのにがもとでへや的和与或及用按在从以是을를의은는이가에로와과도";
/// Last characters of what is measured, and of verbs that lead to a value.
const MEASURES: &str = "数數度率量值値额額价価费費长長时時수률율량값成至约約达達到按用够限级級";
/// Characters of a run that its noun is looked for in, and of a word in it.
const NOUN: usize = 8;
const WORD: usize = 6;

impl<'t> Naming<'t> {
    /// A function word.
    pub fn stop(&mut self, known: &Word, values: &mut [Value]) {
        const COUNTED: Noun = Noun { attribute: false, bare: false, strict: false, articled: false, counted: true };
        self.settle(values, known.counts.then_some(COUNTED));
        self.declares |= self.tokens == 0 && known.determines;
        self.before = match self.before {
            Before::Thing { .. } | Before::Other if known.belongs => Before::Belonging,
            Before::Belonging if known.determines => Before::Belonging,
            _ if known.determines => Before::Determiner,
            _ => Before::Nothing,
        };
        (self.determined, self.article, self.asked) = (known.determines, known.article, known.requests);
        self.next();
    }

    /// A content word.
    pub fn word(&mut self, noun: Noun, values: &mut [Value]) {
        self.settle(values, Some(noun));
        let bare = noun.articled || (noun.bare && self.asked);
        self.before = match noun {
            Noun { attribute: true, .. } => Before::Nothing,
            Noun { strict: true, .. } if self.article => Before::Other,
            _ => Before::Thing { bare },
        };
        self.asked = !self.determined;
        self.next();
    }

    /// The value at the end of `values`, as it is written.
    pub fn value(&mut self, token: &str, values: &mut [Value]) {
        self.settle(values, None);
        let year = token.len() == 4 && (token.starts_with("19") || token.starts_with("20"));
        let which = match self.before {
            Before::Ordinal => If::Always,
            Before::Thing { .. } if !self.run.is_empty() && measured(self.run) => If::Ordinal,
            Before::Thing { bare: true } => If::Uncounted,
            Before::Thing { bare: false } => If::Last,
            Before::Belonging if year => If::Last,
            Before::Determiner if year => If::Followed,
            _ => If::Ordinal,
        };
        self.waiting = match values {
            [.., value] if value.kind == Kind::Number && value.unit.is_none() => Some(Waiting { value: values.len() - 1, which, year }),
            _ => None,
        };
        self.before = Before::Nothing;
        (self.determined, self.article, self.asked) = (false, false, false);
        self.next();
    }

    /// The unit of the value before, as a word. That of a year changes nothing.
    pub fn unit(&mut self, values: &mut [Value]) {
        if self.waiting.as_ref().is_some_and(|waiting| waiting.year && waiting.which == If::Last) {
            self.settle(values, None);
        }
        self.waiting = None;
        self.before = Before::Nothing;
        self.next();
    }

    /// A run of a script without spaces; the unit of the value before may stand at its head.
    pub fn run(&mut self, run: &'t str, values: &mut [Value]) {
        if let Some(waiting) = self.waiting.take()
            && let Some(value) = values.get_mut(waiting.value)
        {
            let year = waiting.year && ["年的", "年の", "年度"].iter().any(|ending| run.starts_with(ending));
            let ordinal = run.chars().take(ENDING).any(|c| ORDINALS.contains(&c));
            let uncounted = run.starts_with(|c| PARTICLES.contains(c));
            value.which = match waiting.which {
                If::Always => true,
                _ if value.unit.is_some() || year => year,
                If::Last | If::Uncounted => ordinal || uncounted,
                If::Followed | If::Ordinal => ordinal,
            };
        }
        self.before = match run.chars().next_back() {
            Some('第') => Before::Ordinal,
            _ if run == "제" => Before::Ordinal,
            Some(last) if !words().is_stop_char(last) => Before::Thing { bare: false },
            _ => Before::Nothing,
        };
        self.next();
        self.run = run;
    }

    /// A mark that parts what stands beside it.
    pub fn pause(&mut self, values: &mut [Value]) {
        self.settle(values, None);
        self.before = Before::Nothing;
        (self.determined, self.article, self.asked) = (false, false, false);
    }

    pub fn finish(mut self, subject: &mut Subject) {
        self.settle(&mut subject.values, None);
        let Subject { tokens, values, head, .. } = subject;
        if let Some(value) = values.last_mut() {
            value.which &= !(value.last && self.declares);
        }
        // What is said of a subject may be nothing but a number: "the meeting is in room 12".
        let said = tokens.iter().enumerate().filter(|(_, token)| matches!(token, Token::Value(_))).map(|(at, _)| at);
        for (value, at) in values.iter_mut().zip(said) {
            let between = head.filter(|head| *head <= at).map(|head| &tokens[head..at]);
            let content = |between: &[Token]| between.iter().filter(|token| matches!(token, Token::Word(_))).count();
            value.which &= between.is_none_or(|between| content(between) > 1);
        }
    }

    /// Decides on the number before, which `word` follows.
    fn settle(&mut self, values: &mut [Value], word: Option<Noun>) {
        let Some(waiting) = self.waiting.take() else { return };
        if let Some(value) = values.get_mut(waiting.value) {
            value.which = match waiting.which {
                If::Always => true,
                If::Last => word.is_none(),
                If::Uncounted => word.is_none_or(|word| !word.counted),
                If::Followed => word.is_some(),
                If::Ordinal => false,
            };
        }
    }

    fn next(&mut self) {
        self.tokens += 1;
        self.run = "";
    }
}

/// Whether a run of a script without spaces ends with something that a number measures, or with a verb that leads to it.
fn measured(run: &str) -> bool {
    if run.ends_with(|c| MEASURES.contains(c)) {
        return true;
    }
    let stop = run.char_indices().rev().take(NOUN).find(|(_, c)| words().is_stop_char(*c) || !spaceless(*c));
    let noun = match stop {
        Some((at, c)) => &run[at + c.len_utf8()..],
        None => run.char_indices().rev().nth(NOUN).map_or(run, |(at, _)| &run[at..]),
    };
    let borders: Vec<usize> = noun.char_indices().map(|(at, _)| at).chain([noun.len()]).collect();
    let pieces = borders.iter().enumerate().flat_map(|(n, from)| borders[n + 1..].iter().take(WORD).map(move |to| (*from, *to)));
    pieces.into_iter().any(|(from, to)| words().look_up(&noun[from..to]).attribute)
}
