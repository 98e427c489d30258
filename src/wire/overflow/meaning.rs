//! What a text says, by a small grammar: a *subject* (the prompt, the request, tokens), a *relation* (too long, exceeds, must be less than) and a
//! *bound* (the context window, a limit). Which words are which is the lexicon's; here is what their combinations mean.

use super::figures::Figures;
use super::lex::{Raw, lex, words};
use super::lexicon::{Concept, Concept::*, Tok, tag};

/// What one text says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    pub sense: Sense,
    /// The context window is named in what decided.
    pub window: bool,
    /// Tokens are spoken of.
    pub tokens: bool,
    /// A word that is never said of an overflow.
    pub veto: Option<Concept>,
    pub figures: Figures,
}

/// From the surest to the vaguest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sense {
    #[default]
    Nothing,
    /// "too many tokens", "shorten your prompt": an overflow if nothing speaks against it.
    Hint,
    /// Something else is too long, too large, too many.
    Other,
    /// The asked output alone is over its own cap.
    Cap,
    /// Bytes or characters are over a limit.
    Bytes,
    /// The limit is stated, and the request is over it or nothing else is said.
    Bound,
    /// The prompt is too long.
    Input,
    /// Prompt and output together are too long.
    Both,
}

pub(super) fn read(text: &str) -> Reading {
    let toks = tag(&lex(text));
    Reading::of(&toks, Figures::of(&toks))
}

/// The same for a machine word (`context_length_exceeded`).
pub(super) fn read_code(code: &str) -> Reading {
    let toks = tag(&words(code));
    Reading::of(&toks, Figures::default())
}

/// The words of a field's name, for [`Figures::field`].
pub(super) fn name(field: &str) -> Vec<Tok> {
    let raw: Vec<Raw> = words(field);
    tag(&raw)
}

#[derive(Default)]
struct Found {
    both: bool,
    input: bool,
    window: bool,
    bytes: bool,
    cap: bool,
    other: bool,
    hint: bool,
    no_room: bool,
}

/// What is true of a whole sentence, asked once.
#[derive(Clone, Copy)]
struct About {
    tokens: bool,
    bytes: bool,
    /// Where something of the prompt is counted: "600 prompts".
    counts: Option<usize>,
    last_number: Option<usize>,
}

impl About {
    fn of(sentence: &[Tok], tokens: bool) -> About {
        About {
            tokens,
            bytes: sentence.contains(&Tok::Is(Bytes)),
            counts: sentence.windows(2).position(|pair| matches!(pair, [Tok::Num(_), Tok::Is(Input)])),
            last_number: sentence.iter().rposition(|tok| matches!(tok, Tok::Num(_))),
        }
    }
}

impl Reading {
    /// A count of tokens, whatever is said of it.
    pub(super) fn counts_tokens(&self) -> bool {
        self.tokens && self.figures.total.or(self.figures.input).is_some()
    }

    fn of(toks: &[Tok], figures: Figures) -> Reading {
        let mut found = Found::default();
        let tokens = toks.contains(&Tok::Is(Token));
        for sentence in toks.split(|tok| *tok == Tok::Stop) {
            let about = About::of(sentence, tokens);
            for at in (0..sentence.len()).filter(|i| matches!(sentence[*i], Tok::Is(concept) if concept.is_relation())) {
                found.relation(sentence, at, about);
            }
            found.advice(sentence);
            found.body_limit(sentence);
            found.no_room |= no_room(sentence);
        }
        let veto = [Rate, Plan, Policy, Timeout, Auth].into_iter().find(|reason| toks.contains(&Tok::Is(*reason)));
        let sense = found.sense(&figures, toks);
        let window = found.window || sense == Sense::Bound || figures.limit_is_window;
        Reading { sense, window, tokens, veto, figures }
    }
}

impl Found {
    fn sense(&self, figures: &Figures, toks: &[Tok]) -> Sense {
        let asks_output = figures.output.is_some_and(|output| output > 0);
        let of_tokens = toks.iter().any(|tok| matches!(tok, Tok::Is(Token | Context | Input)));
        // The prompt is known beside the output, so a number over the limit is no mere output cap.
        let counted = figures.over()
            && figures.input.or(figures.total).is_some()
            && of_tokens
            && !self.other
            && (!self.cap || figures.input.is_some() && figures.limit_is_window);
        let stated = figures.limit.is_some()
            && figures.limit_is_window
            && !self.other
            && !self.cap
            && (figures.requested().is_some() || figures.output.is_none());
        let fits = |sense| if asks_output && sense != Sense::Nothing && figures.requested().is_some() { Sense::Both } else { sense };
        if self.no_room {
            Sense::Input
        } else if self.both {
            Sense::Both
        } else if self.input || counted {
            fits(Sense::Input)
        } else if self.bytes && !stated {
            Sense::Bytes
        } else if stated && of_tokens {
            Sense::Bound
        } else if self.cap {
            Sense::Cap
        } else if self.other {
            Sense::Other
        } else if self.hint {
            Sense::Hint
        } else {
            Sense::Nothing
        }
    }

    /// One relation: who is compared with what?
    fn relation(&mut self, sentence: &[Tok], at: usize, about: About) {
        let before = nouns(sentence[..at].iter().rev());
        let after = nouns(sentence[at + 1..].iter());
        let many = sentence[at] == Tok::Is(TooMany);
        let compares = matches!(sentence[at], Tok::Is(Exceed | Must));
        let (subject, bound) = match (many && !after.list.is_empty(), before.list.is_empty()) {
            (true, _) => (&after, &before),
            (_, false) => (&before, &after),
            (_, true) => (&after, &after),
        };
        let Some(nearest) = subject.list.first() else { return };
        let has = |concept| subject.list.contains(&concept);
        let window = has(Context) || bound.list.contains(&Context);
        // "600 prompts exceed": a count of them, not their length.
        let counted = !about.tokens && !before.list.is_empty() && about.counts.is_some_and(|counts| counts < at);
        // "exceeds the allowed safety threshold": the bound belongs to something else.
        let foreign =
            compares && subject != bound && matches!(bound.list.first(), Some(Other | Param)) && !window && !bound.list.contains(&Token);
        let means = match nearest {
            Param => Other,
            Input if counted => Other,
            Other if !(bound.list.contains(&Context) && (has(Input) || has(Token) || has(Request))) => Other,
            _ if foreign => Other,
            _ if subject.joined => {
                self.both = true;
                Context
            }
            Output => Output,
            _ if has(Output) && !has(Context) && !has(Input) => Output,
            _ if about.bytes && !window && !about.tokens => Bytes,
            _ if has(Input) || window => Input,
            // "too many tokens in the prompt"
            Token if bound.list.contains(&Input) || many && after.list.contains(&Input) => Input,
            Token => Token,
            // A count of requests, not a size.
            Request if many => Other,
            Request | Body if about.tokens => Input,
            Request | Body if before.list.is_empty() && compares => return,
            Request if compares && !about.bytes && about.last_number.is_some_and(|number| number > at) => Token,
            Request | Body => Bytes,
            _ => return,
        };
        match means {
            Input => self.input = true,
            Output => self.cap = true,
            Bytes => self.bytes = true,
            Token => self.hint = true,
            Other => self.other = true,
            _ => {}
        }
        self.window |= window && matches!(means, Input | Context);
    }

    /// "Please reduce the length of the messages."
    fn advice(&mut self, sentence: &[Tok]) {
        for at in (0..sentence.len()).filter(|i| sentence[*i] == Tok::Is(Remedy)) {
            let more = |tok: &&Tok| **tok != Tok::Is(Remedy);
            let object = nouns(sentence[at + 1..].iter().take_while(more)).list.first().copied();
            // Verbs at the end of the sentence: Japanese, Korean.
            let object = object.or_else(|| nouns(sentence[..at].iter().rev().take_while(more)).list.first().copied());
            self.hint |= matches!(object, Some(Input | Context));
        }
    }

    /// "the max input characters is 11200": a limit of bytes or characters, without a relation.
    fn body_limit(&mut self, sentence: &[Tok]) {
        let has = |concept| sentence.contains(&Tok::Is(concept));
        let relation = sentence.iter().any(|tok| matches!(tok, Tok::Is(concept) if concept.is_relation()));
        self.bytes |= !relation
            && has(Limit)
            && has(Bytes)
            && (has(Input) || has(Request) || has(Body))
            && !has(Other)
            && !has(Token)
            && !has(Context);
    }
}

/// "max_tokens must be at least 1, got 0": the prompt fills the window to its last token.
fn no_room(sentence: &[Tok]) -> bool {
    let Some(floor) = sentence.iter().position(|tok| *tok == Tok::Is(Min)) else { return false };
    let got = sentence[floor..].iter().position(|tok| *tok == Tok::Is(Has)).map(|at| &sentence[floor + at..]);
    let none = got
        .is_some_and(|got| got.iter().find_map(|tok| if let Tok::Num(n) = tok { Some(n.unwrap_or(0) == 0) } else { None }) == Some(true));
    none && sentence[..floor].contains(&Tok::Is(Output))
}

/// Nouns, the nearest first.
#[derive(Default, PartialEq)]
struct Nouns {
    list: Vec<Concept>,
    /// Prompt and output stand together: "input length and max_tokens".
    joined: bool,
}

/// The nouns from a relation outwards, up to the next relation; once there is one, up to the next comma or colon.
fn nouns<'a>(toks: impl Iterator<Item = &'a Tok>) -> Nouns {
    let mut out = Nouns::default();
    // The last of prompt and output, as long as no other word follows it.
    let mut partner = None;
    for tok in toks {
        match tok {
            Tok::Is(concept) if concept.is_noun() => {
                out.list.push(*concept);
                if matches!(concept, Input | Output) {
                    out.joined |= partner.is_some_and(|partner| partner != *concept);
                    partner = Some(*concept);
                }
            }
            Tok::Is(concept) if concept.is_relation() => break,
            Tok::Sign(',' | ':' | ';') if !out.list.is_empty() => break,
            Tok::Word => partner = None,
            _ => {}
        }
    }
    out
}
