//! Does an answer say that the request was too large, and with what numbers?
//!
//! Providers say it in a thousand ways, so nothing here matches sentences. An answer is taken apart (`answer`): what speaks for the provider is
//! kept, what quotes the model or the request is not. Its words get meanings (`lexicon`), a small grammar finds who is over what bound
//! (`meaning`), and numbers get their roles from the words beside them (`roles`).
//!
//! Pure, total and linear: any bytes under any status have an answer, and of a long body only the head is read.

use std::sync::LazyLock;

use regex::Regex;

mod answer;
mod figures;
mod lex;
mod lexicon;
mod literal;
mod meaning;
mod number;
mod prose;
mod roles;

use answer::Parts;
use figures::Figures;
use lexicon::Concept;
use meaning::{Reading, Sense};

/// Bytes of a body that are looked at.
pub const MAX_BODY: usize = 256 << 10;

/// What an answer means for the request that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The prompt alone does not fit the window.
    Input,
    /// Prompt and asked output together do not fit: a lower output cap may be enough.
    InputPlusOutput,
    /// The body has too many bytes or characters. Says nothing of tokens.
    Bytes,
    /// A rate limit that this request can never pass, being larger than what a whole minute or day allows.
    RateCeiling,
    /// Anything else, success included.
    None,
}

/// What `requested` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Input,
    /// Prompt and asked output.
    Total,
}

/// The verdict on an answer. Numbers are tokens, as the provider gave them; what it didn't give is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    pub class: Class,
    pub limit: Option<u64>,
    pub requested: Option<u64>,
    pub requested_scope: Scope,
    /// The asked output.
    pub output: Option<u64>,
    /// By how much the limit is exceeded, where only that is said. May be taken from an own estimate.
    pub excess: Option<u64>,
    /// `requested` is at least this: the provider stopped counting. No ratio to an estimate may be learnt from it.
    pub lower_bound: bool,
    /// What decided.
    pub rule: &'static str,
}

/// An answer of a provider, as far as it is known. `content-encoding` is undone. The wire format doesn't matter: gateways mix them.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub status: u16,
    /// The whole body of an error, or the head of a stream.
    pub body: &'a [u8],
    /// The body is (the head of) a stream of events or lines.
    pub stream: bool,
}

impl Classified {
    fn none(rule: &'static str) -> Classified {
        Classified {
            class: Class::None,
            limit: None,
            requested: None,
            requested_scope: Scope::Input,
            output: None,
            excess: None,
            lower_bound: false,
            rule,
        }
    }

    fn of(class: Class, rule: &'static str) -> Classified {
        Classified { class, ..Classified::none(rule) }
    }

    pub fn is_overflow(&self) -> bool {
        matches!(self.class, Class::Input | Class::InputPlusOutput | Class::Bytes)
    }

    /// A limit that may be remembered as the model's window. Output caps, rates and bytes never teach one.
    pub fn learnable_limit(&self) -> Option<u64> {
        matches!(self.class, Class::Input | Class::InputPlusOutput).then_some(self.limit).flatten()
    }

    /// The answer has no body to judge by: some servers refuse an overflow that way. Whether it was one, only an own estimate of the request can say.
    pub fn needs_estimate(&self) -> bool {
        self.rule == EMPTY || self.rule == EMPTY_STREAM
    }
}

const EMPTY: &str = "empty";
const EMPTY_STREAM: &str = "empty stream";
const NOTHING: &str = "nothing recognised";
const STATUS: &str = "status";

/// Says what an answer means. `headers` are names and values; only `content-type`, `retry-after` and the error type of AWS are looked at.
pub fn classify<'a>(answer: Answer<'a>, headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Classified {
    let hints = Hints::of(headers);
    let failed = answer.status >= 400;
    if !failed && !(200..300).contains(&answer.status) {
        return Classified::none("no answer");
    }
    // Money, permission and overload: whatever the words, a smaller request is not what helps. A rate limit may be one that no waiting passes.
    let never = matches!(answer.status, 401 | 402 | 403 | 429 | 529);
    let body = String::from_utf8_lossy(&answer.body[..answer.body.len().min(MAX_BODY)]);
    if body.trim().is_empty() {
        return match answer.status {
            413 => Classified::of(Class::Bytes, "status 413"),
            _ if never => Classified::none(STATUS),
            200..300 if answer.stream || hints.events => Classified::none(EMPTY_STREAM),
            _ => Classified::none(EMPTY),
        };
    }
    if !failed && !hints.frames && !may_hold_error(&body) {
        return Classified::none("success");
    }
    let parts = Parts::of(&body, failed, hints.events);
    let texts: Vec<Reading> = parts.texts.iter().map(|text| meaning::read(text)).collect();
    let rated = parts.texts.iter().zip(&texts).filter(|(_, reading)| reading.veto == Some(Concept::Rate) && reading.tokens);
    if (!never || answer.status == 429)
        && let Some(verdict) = rated.map(|(text, _)| text).find_map(|text| rate_ceiling(text))
    {
        return verdict;
    }
    if never {
        return Classified::none(STATUS);
    }
    if parts.no_room && !parts.error {
        return match parts.output {
            true => Classified::none("usable reply"),
            false => Classified { requested: parts.input_tokens, ..Classified::of(Class::Input, "stop reason") },
        };
    }
    if hints.throttled || hints.frames && body.contains("throttlingException") {
        return Classified::none("rate limit");
    }
    if !parts.error {
        return Classified::none("success");
    }
    let verdict = judge(&parts, &texts, hints.retry_after);
    match verdict.class {
        // Said under a status that means "too large", a count of tokens needs no more words: "messages resulted in 67328 tokens".
        Class::None if answer.status == 413 && verdict.rule == NOTHING && texts.iter().any(Reading::counts_tokens) => {
            numbered(Class::Input, "status 413", figures(&parts, &texts))
        }
        Class::None if answer.status == 413 && !matches!(verdict.rule, "rate limit" | "plan") => Classified::of(Class::Bytes, "status 413"),
        _ => verdict,
    }
}

/// What the headers say.
#[derive(Default)]
struct Hints {
    events: bool,
    /// The binary frames of AWS, whose exceptions name themselves in a header of the frame.
    frames: bool,
    /// Waiting helps, so vague words are no overflow.
    retry_after: bool,
    throttled: bool,
}

impl Hints {
    fn of<'a>(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Hints {
        let mut hints = Hints::default();
        for (name, value) in headers {
            let value = String::from_utf8_lossy(&value[..value.len().min(200)]).to_ascii_lowercase();
            match name.to_ascii_lowercase().as_str() {
                "content-type" => {
                    hints.events = value.contains("event-stream");
                    hints.frames = value.contains("amazon.eventstream");
                }
                "retry-after" | "retry-after-ms" => hints.retry_after = true,
                "x-amzn-errortype" => hints.throttled = value.contains("throttl") || value.contains("toomanyrequests"),
                _ => {}
            }
        }
        hints
    }
}

/// A quick look at a successful answer, so that long ones are not parsed for nothing.
fn may_hold_error(body: &str) -> bool {
    let needles = ["rror", "\"success\"", "\"ok\"", "\"code\"", "_exceeded", "window_limit", "status_msg", "\"msg\"", "xception"];
    needles.iter().any(|needle| memchr::memmem::find(body.as_bytes(), needle.as_bytes()).is_some())
}

/// "tokens per minute (TPM): Limit 8000, Requested 11387": waiting can't help. With less requested than the limit it can.
fn rate_ceiling(text: &str) -> Option<Classified> {
    static LIMIT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)\blimit\W{0,3}([\d,]+)").expect("a pattern"));
    static REQUESTED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)\brequested\W{0,3}([\d,]+)").expect("a pattern"));
    let number = |pattern: &Regex| pattern.captures(text)?.get(1)?.as_str().replace(',', "").parse::<u64>().ok();
    let (limit, requested) = (number(&LIMIT)?, number(&REQUESTED)?);
    if requested <= limit {
        return Some(Classified::none("rate limit"));
    }
    let verdict = Classified::of(Class::RateCeiling, "rate ceiling");
    Some(Classified { limit: Some(limit), requested: Some(requested), requested_scope: Scope::Total, ..verdict })
}

/// Weighs everything the answer says of its error.
fn judge(parts: &Parts, texts: &[Reading], retry_after: bool) -> Classified {
    let codes: Vec<Reading> = parts.codes.iter().map(|code| meaning::read_code(code)).collect();
    let all = || texts.iter().chain(&codes);
    let says = |sense: Sense| all().any(|reading| reading.sense == sense);
    let figures = figures(parts, texts);
    let typed = codes.iter().any(|code| code.sense == Sense::Input && code.window);
    let sure = typed || figures.over() && all().any(|reading| reading.sense >= Sense::Bound && reading.window && reading.veto.is_none());
    if let Some(veto) = all().find_map(|reading| reading.veto).filter(|_| !sure) {
        return Classified::none(match veto {
            Concept::Rate => "rate limit",
            Concept::Plan => "plan",
            Concept::Policy => "policy",
            Concept::Timeout => "timeout",
            _ => "authentication",
        });
    }
    let output = figures.output.is_some_and(|output| output > 0);
    if says(Sense::Both) {
        numbered(Class::InputPlusOutput, "prompt and output over the window", figures)
    } else if says(Sense::Input) {
        let class = if output && figures.over() { Class::InputPlusOutput } else { Class::Input };
        numbered(class, if typed { "error code" } else { "prompt over a bound" }, figures)
    } else if says(Sense::Bytes) && !says(Sense::Bound) {
        Classified::of(Class::Bytes, "body over a bound")
    } else if says(Sense::Bound) {
        numbered(if output { Class::InputPlusOutput } else { Class::Input }, "window stated", figures)
    } else if says(Sense::Cap) {
        Classified::none("output cap")
    } else if says(Sense::Other) {
        Classified::none("another limit")
    } else if says(Sense::Hint) && !retry_after {
        numbered(Class::Input, "hint", figures)
    } else if let Some(class) = numeric_code(parts).filter(|_| texts.is_empty()) {
        Classified::of(class, "error code")
    } else {
        Classified::none(NOTHING)
    }
}

/// Numbers of the texts that speak of the overflow; names of fields fill what the texts leave open.
fn figures(parts: &Parts, texts: &[Reading]) -> Figures {
    let told = texts.iter().filter(|reading| reading.sense > Sense::Cap);
    let hinted = texts.iter().filter(|reading| reading.sense <= Sense::Hint);
    let told = told.chain(hinted).map(|reading| reading.figures).fold(Figures::default(), Figures::or);
    let mut fields = Figures::default();
    for (name, value) in &parts.fields {
        fields.field(&meaning::name(name), *value);
    }
    // A lone `max_tokens` beside a count of the prompt is the limit.
    if fields.limit.is_none() && fields.input.or(fields.total).is_some() {
        fields.limit = fields.output.take();
    }
    told.or(fields)
}

fn numbered(class: Class, rule: &'static str, figures: Figures) -> Classified {
    let fits = |requested: &u64| *requested == 0 || figures.output.is_none() && figures.limit.is_some_and(|limit| *requested < limit);
    let requested = figures.requested().filter(|requested| !fits(requested));
    let total = class == Class::InputPlusOutput || figures.total.is_some() && figures.input.is_none();
    Classified {
        limit: figures.limit,
        requested,
        requested_scope: if total { Scope::Total } else { Scope::Input },
        output: figures.output,
        excess: figures.excess,
        lower_bound: figures.at_least && requested.is_some(),
        ..Classified::of(class, rule)
    }
}

/// Numbers that two providers (z.ai, Workers AI) use for nothing else. They decide only where no word does.
fn numeric_code(parts: &Parts) -> Option<Class> {
    parts.codes.iter().find_map(|code| match code.as_str() {
        "1261" => Some(Class::Input),
        "5021" => Some(Class::InputPlusOutput),
        _ => None,
    })
}
