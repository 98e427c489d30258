//! Which number of a sentence is the limit, which the request, which the asked output.
//!
//! A number gets its role from the words nearest to it: what follows at once ("350 in the completion", "32000 tokens allowed") before what came
//! last ("limit is 4096", "you requested 4120"), and a comparison ("9412 > 8192") before both. A number without such a word has no role.

use super::lexicon::{Concept, Concept::*, Tok};

/// A number with the role its words give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub value: u64,
    pub role: Role,
    /// "at least" this much.
    pub at_least: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// `window`: named as one of the context or of the prompt. `labelled`: with a colon between, so that it may be something else.
    Limit {
        window: bool,
        labelled: bool,
    },
    /// Prompt and output.
    Total,
    /// The prompt.
    Input,
    /// A part of the prompt.
    Part,
    Output,
    /// What the request has over the limit.
    Excess,
    /// Tokens of which nothing more is said.
    Loose,
}

/// Texts quote them, mostly without a name.
const STATUSES: [u64; 14] = [400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504];

/// A number with the words on either side of it that may speak of it.
struct Place<'a> {
    /// From the previous number or the start of the sentence.
    left: &'a [Tok],
    /// The same from the last comma or bracket, if words of meaning stand after it.
    near: &'a [Tok],
    /// Up to the next number or the end of the sentence.
    right: &'a [Tok],
    /// A number stands before in the sentence; it is the limit; it is smaller.
    follows: bool,
    after_limit: bool,
    more: bool,
    /// A number stands after; it is larger.
    leads: bool,
    less: bool,
}

/// The numbers of a sentence that mean something.
pub(super) fn of(sentence: &[Tok]) -> Vec<Named> {
    let differences = differences(sentence);
    let at: Vec<usize> = (0..sentence.len()).filter(|i| matches!(sentence[*i], Tok::Num(_)) && !differences[*i]).collect();
    let mut out: Vec<Named> = Vec::new();
    for (k, &i) in at.iter().enumerate() {
        let Tok::Num(Some(value)) = sentence[i] else { continue };
        let named = matches!(i.checked_sub(1).map(|i| sentence[i]), Some(Tok::Is(concept)) if concept != Code);
        let status = STATUSES.contains(&value) && !named && sentence.get(i + 1) != Some(&Tok::Is(Token));
        if status || at.len() == 1 && is_code(sentence, i, value) {
            continue;
        }
        let start = k.checked_sub(1).map_or(0, |k| at[k] + 1);
        let end = at.get(k + 1).copied().unwrap_or(sentence.len());
        let left = &sentence[start..i];
        let after_limit = matches!(out.last(), Some(Named { role: Role::Limit { .. }, .. }));
        let number = |at: Option<&usize>| at.and_then(|at| if let Tok::Num(n) = sentence[*at] { n } else { None });
        let less = number(at.get(k + 1)).is_some_and(|next| value < next);
        let more = number(k.checked_sub(1).and_then(|k| at.get(k))).is_some_and(|before| before < value);
        let right = &sentence[i + 1..end];
        let place = Place { left, near: near(left), right, follows: k > 0, after_limit, leads: k + 1 < at.len(), less, more };
        if let Some(role) = place.range(sentence, i).unwrap_or_else(|| place.role()) {
            out.push(Named { value, role, at_least: place.near.contains(&Tok::Is(AtLeast)) });
        }
    }
    out
}

/// "context window exceeds limit (2013)": four digits in brackets at the end, without a unit and no size a window has, are a code.
fn is_code(sentence: &[Tok], i: usize, value: u64) -> bool {
    let bracketed = i.checked_sub(1).is_some_and(|i| sentence[i] == Tok::Sign('(')) && sentence.get(i + 1) == Some(&Tok::Sign(')'));
    let round = value.is_multiple_of(100) || matches!(value % 8, 0 | 1 | 7);
    bracketed && i + 2 == sentence.len() && (1000..10_000).contains(&value) && !round
}

/// Numbers in brackets that hold a difference, "(2000 > 4096 - 2104)": a repetition, not the claim.
fn differences(sentence: &[Tok]) -> Vec<bool> {
    let mut out = vec![false; sentence.len()];
    let mut open = None;
    for (i, tok) in sentence.iter().enumerate() {
        match (tok, open) {
            (Tok::Sign('('), _) => open = Some(i),
            (Tok::Sign(')'), Some(start)) => {
                let difference = sentence[start..i].contains(&Tok::Sign('-'));
                out[start..i].fill(difference);
                open = None;
            }
            _ => {}
        }
    }
    out
}

fn near(left: &[Tok]) -> &[Tok] {
    let mut says = false;
    for (i, tok) in left.iter().enumerate().rev() {
        match tok {
            Tok::Sign(',' | '(') if says => return &left[i + 1..],
            Tok::Is(concept) => says |= *concept != Filler && *concept != AtLeast,
            _ => {}
        }
    }
    left
}

impl Place<'_> {
    fn role(&self) -> Option<Role> {
        let unit = self.right.first();
        if matches!(unit, Some(Tok::Is(Bytes | Time | Other | Rate))) || self.last() == Some(Code) && unit != Some(&Tok::Is(Token)) {
            return None;
        }
        if self.is_excess() {
            return Some(Role::Excess);
        }
        if self.next_sign() == Some('+') {
            return Some(if self.cued() == Some(Role::Output) { Role::Output } else { Role::Part });
        }
        let role = self.adjacent().unwrap_or_else(|| self.cued());
        match role {
            Some(Role::Output | Role::Part | Role::Excess) => role,
            // "maximum of 8192 tokens exceeded (9001 tokens)": the verb closes what stands before it.
            Some(Role::Limit { .. }) if self.compared() && self.is_exceeded() => role,
            Some(Role::Limit { .. }) if self.after_limit && self.exceeds_before() => Some(Role::Input),
            // Left of a comparison stands the request, right of it the limit.
            _ if self.compared() => Some(match role {
                Some(Role::Total) => Role::Total,
                _ => Role::Input,
            }),
            Some(Role::Total | Role::Input) => role,
            _ if self.bounds() => Some(Role::Limit { window: self.left.contains(&Tok::Is(Context)), labelled: false }),
            None if unit == Some(&Tok::Is(Token)) || self.near.last() == Some(&Tok::Sign(':')) => Some(Role::Loose),
            role => role,
        }
    }

    /// `[1, 8192]` and `9000/8192`.
    fn range(&self, sentence: &[Tok], i: usize) -> Option<Option<Role>> {
        let tok = |i: usize| sentence.get(i);
        let is = |at: Option<usize>, sign| at.and_then(tok) == Some(&Tok::Sign(sign));
        if is(i.checked_sub(1), '[') && is(Some(i + 1), ',') {
            return Some(None);
        }
        let limit = || Some(Role::Limit { window: sentence.iter().any(|tok| matches!(tok, Tok::Is(Input | Context))), labelled: false });
        if is(i.checked_sub(1), ',') && is(i.checked_sub(3), '[') && is(Some(i + 1), ']') {
            return Some(limit());
        }
        let slash = |toks: &[Tok]| matches!(toks, [Tok::Sign('/')] | [Tok::Is(Token), Tok::Sign('/')]);
        if slash(self.right) && self.leads && !self.less {
            return Some(Some(Role::Total));
        }
        (slash(self.left) && self.follows && !self.more).then(limit)
    }

    /// "exceeded by 168512 tokens", "2,150 tokens over the limit of 8192", "512 tokens too many".
    fn is_excess(&self) -> bool {
        if self.last() == Some(By) {
            return true;
        }
        let mut right = self.right.iter().skip_while(|tok| **tok == Tok::Is(Token));
        let relation = right.next().is_some_and(|tok| matches!(tok, Tok::Is(Exceed | TooLong | TooMany)));
        relation && (!self.leads || self.less && relates(self.right) && !self.is_exceeded()) && self.right.first() == Some(&Tok::Is(Token))
    }

    /// The role given by what follows at once. `Some(None)`: it is known to have none.
    fn adjacent(&self) -> Option<Option<Role>> {
        let direct = self.right.first();
        let rest = self.right.iter().position(|tok| !matches!(tok, Tok::Is(Token | Filler))).unwrap_or(self.right.len());
        let Some(Tok::Is(next)) = self.right.get(rest) else { return None };
        let bound = self.bound_at_once();
        Some(match next {
            Output if bound => None,
            Output => Some(Role::Output),
            Input if bound => Some(Role::Limit { window: true, labelled: false }),
            Input => Some(Role::Part),
            Other if direct != Some(&Tok::Is(Other)) && rest > 0 && !bound => Some(Role::Part),
            Left => None,
            Limit | Context if !self.leads || self.right[rest..].iter().any(|tok| matches!(tok, Tok::Sign(',' | '(' | ')'))) => {
                Some(Role::Limit { window: *next == Context || self.right.contains(&Tok::Is(Context)), labelled: false })
            }
            Asked if self.cue().is_none_or(|cue| matches!(cue, Limit | Context | TooLong)) => Some(Role::Total),
            Has if !bound && self.last() != Some(Context) => Some(Role::Input),
            _ => return None,
        })
    }

    /// The role given by the words before.
    fn cued(&self) -> Option<Role> {
        if let Some(role) = self.assigned() {
            return Some(role);
        }
        let mut weak = None;
        for (i, tok) in self.near.iter().enumerate().rev() {
            let before = &self.near[..i];
            match tok {
                Tok::Is(Asked) => return Some(Role::Total),
                // "the window has 8192"; what a context *contains* may be the request, so this one gives way to another limit.
                Tok::Is(Has) if last_noun(before) == Some(Context) => return Some(Role::Limit { window: true, labelled: true }),
                Tok::Is(Has) => return Some(Role::Input),
                Tok::Is(Output) if before.contains(&Tok::Is(Input)) => return Some(Role::Total),
                Tok::Is(Output) => {
                    let capped = before.iter().any(|tok| matches!(tok, Tok::Is(Exceed | Must)));
                    return (!capped || before.contains(&Tok::Sign('+'))).then_some(Role::Output);
                }
                // "plus the maximum tokens (512)".
                Tok::Is(Limit) if before.contains(&Tok::Sign('+')) => return Some(Role::Output),
                Tok::Is(Limit | Context | Exceed | Must) => {
                    let labelled = self.near[i..].contains(&Tok::Sign(':'));
                    return Some(Role::Limit { window: self.near.iter().any(|tok| matches!(tok, Tok::Is(Context | Input))), labelled });
                }
                Tok::Is(TooLong | TooMany) => {
                    return match last_noun(before).or_else(|| self.near[i..].iter().find_map(noun)) {
                        Some(Output) => Some(Role::Output),
                        Some(Other | Param) => None,
                        _ => Some(Role::Input),
                    };
                }
                Tok::Is(By) => return Some(Role::Excess),
                Tok::Is(Min | Param | Left | Other | Bytes | Remedy) => return None,
                Tok::Is(Input) => weak = Some(Role::Input),
                Tok::Is(Request | Token) => weak = weak.or(Some(Role::Total)),
                Tok::Sign(':') if weak.is_some() => break,
                Tok::Sign('+') if weak.is_none() && self.follows => return Some(Role::Output),
                Tok::Sign('+') => return Some(Role::Part),
                // "7900 + 500 = 8400"
                Tok::Sign('=') if weak.is_none() && self.follows && before.iter().all(|tok| matches!(tok, Tok::Sign(_))) => {
                    return Some(Role::Total);
                }
                _ => {}
            }
        }
        weak
    }

    /// `prompt_tokens=40000`: the name before the sign says it all.
    fn assigned(&self) -> Option<Role> {
        let (Tok::Sign('='), name) = self.near.split_last()? else { return None };
        let start = name.iter().rposition(|tok| !matches!(tok, Tok::Is(concept) if concept.is_noun() || matches!(concept, Limit | Filler)));
        let name = &name[start.map_or(0, |at| at + 1)..];
        let is = |concept| name.contains(&Tok::Is(concept));
        if is(Output) || is(Param) || is(Other) {
            return is(Output).then_some(Role::Output);
        }
        if is(Context) || is(Limit) {
            return Some(Role::Limit { window: is(Context) || is(Input), labelled: false });
        }
        (is(Input) || is(Token)).then_some(Role::Input)
    }

    /// The last word of meaning before, fillers aside.
    fn last(&self) -> Option<Concept> {
        self.near.iter().rev().find_map(|tok| match tok {
            Tok::Is(Filler | AtLeast) | Tok::Sign(_) => None,
            Tok::Is(concept) => Some(Some(*concept)),
            _ => Some(None),
        })?
    }

    fn cue(&self) -> Option<Concept> {
        self.near.iter().rev().find_map(|tok| match tok {
            Tok::Is(concept) if !matches!(concept, Filler | Token | Input | AtLeast) => Some(*concept),
            _ => None,
        })
    }

    /// "limit of 8192 input tokens": a bound stands right before, not with a colon between.
    fn bound_at_once(&self) -> bool {
        let at = self.near.iter().rposition(|tok| !matches!(tok, Tok::Is(Filler)));
        matches!(at.map(|at| self.near[at]), Some(Tok::Is(Limit | Must | Exceed)))
    }

    fn next_sign(&self) -> Option<char> {
        self.right.iter().find(|tok| !matches!(tok, Tok::Sign(')') | Tok::Is(Token | Input | Filler))).and_then(|tok| match tok {
            Tok::Sign(c) => Some(*c),
            _ => None,
        })
    }

    /// A comparison leads from this number to the next one.
    fn compared(&self) -> bool {
        self.leads && relates(self.right)
    }

    /// A bound right before this number, and after the comparison nothing that could be a bound.
    fn is_exceeded(&self) -> bool {
        let bracketed = self.right.first() == Some(&Tok::Sign(')'));
        let name = |tok: &&Tok| match tok {
            Tok::Is(concept) => concept.is_noun() || matches!(concept, Limit | Filler),
            tok => bracketed && **tok == Tok::Sign('('),
        };
        self.near.iter().rev().take_while(name).any(|tok| matches!(tok, Tok::Is(Limit | Context))) && bare(self.right)
    }

    fn exceeds_before(&self) -> bool {
        relates(self.left) && bare(self.left)
    }

    fn bounds(&self) -> bool {
        self.follows && relates(self.left)
    }
}

fn noun(tok: &Tok) -> Option<Concept> {
    match tok {
        Tok::Is(concept) if concept.is_noun() => Some(*concept),
        _ => None,
    }
}

fn last_noun(toks: &[Tok]) -> Option<Concept> {
    toks.iter().rev().find_map(noun)
}

/// Words after the last comparison name no bound.
fn bare(between: &[Tok]) -> bool {
    let at = between.iter().rposition(|tok| *tok == Tok::Is(Exceed));
    at.is_some_and(|at| !between[at..].iter().any(|tok| matches!(tok, Tok::Is(Limit | Context | Input | Must))))
}

fn relates(between: &[Tok]) -> bool {
    match between.iter().rposition(|tok| matches!(tok, Tok::Is(Exceed | Must))) {
        Some(at) => !between[at..].iter().any(|tok| matches!(tok, Tok::Is(Asked | Has | By | Output) | Tok::Sign('+'))),
        None => false,
    }
}
