//! What a request weighs: tokens, message by message, priced in one place.

use super::models;
use crate::conversation::{Block, Form, Kind, Media, MediaKind, Message, Outcome, PartKind, Span};
use crate::tokens::{Tokenizer, count_json_string, images};
use crate::wire::{Format, Request, json};

/// What is limited: tokens, bytes of the messages, pictures and documents, messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Load {
    pub tokens: u64,
    pub bytes: u64,
    pub media: usize,
    pub messages: usize,
}

impl std::ops::Add for Load {
    type Output = Load;

    fn add(self, more: Load) -> Load {
        Load {
            tokens: self.tokens + more.tokens,
            bytes: self.bytes + more.bytes,
            media: self.media + more.media,
            messages: self.messages + more.messages,
        }
    }
}

/// Tokens a provider's template spends around a message, a call and a result; measured on OpenAI's and Anthropic's counts, rounded up.
const MESSAGE: u64 = 4;
const CALL: u64 = 8;
const RESULT: u64 = 4;
/// What is shorter names a file, what is longer is one.
const LONGEST_FILE_ID: usize = 256;
/// Around a tool list: the preamble that makes a model use it.
const REST: u64 = 8;

/// Members of a request that steer the provider and are no part of the prompt.
const UNREAD: [&str; 18] = [
    "model",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
    "include",
    "modalities",
    "audio",
    "stop",
    "stop_sequences",
    "logit_bias",
    "stream_options",
    "context_management",
    "thinking",
    "reasoning",
    "provider",
];

/// The billing line that some agents put first into the system prompt changes with every request and says nothing: it has a flat price.
const BILLING_PREFIX: &str = "x-anthropic-billing-header:";
const BILLING: u64 = 32;

/// The measure of one request: which tokenizer, whose picture prices.
#[derive(Clone, Debug)]
pub struct Scale {
    pub tokenizer: Tokenizer,
    pub model: String,
    pub format: Format,
}

impl Scale {
    /// The scale of the model that is asked for, at an upstream of that host.
    pub fn of(request: &Request, host: &str) -> Self {
        let tokenizer = models::model(request.model(), host).map(|model| model.tokenizer).unwrap_or_default();
        Self { tokenizer, model: request.model().to_owned(), format: request.format }
    }

    /// Tokens of a text of ours.
    pub fn text(&self, text: &str) -> u64 {
        self.tokenizer.count(text) as u64
    }

    /// Tokens of a JSON string as it stands in the body.
    pub fn string(&self, body: &str, span: Span) -> u64 {
        count_json_string(self.tokenizer, span.of(body)) as u64
    }

    pub fn message(&self, request: &Request, message: &Message) -> u64 {
        MESSAGE + request.conversation.blocks_of(message).iter().map(|block| self.block(request, block)).sum::<u64>()
    }

    pub fn block(&self, request: &Request, block: &Block) -> u64 {
        let body = request.text();
        match &block.kind {
            Kind::Text { text } => self.string(body, *text),
            Kind::Reasoning | Kind::Opaque => opaque(block.span),
            Kind::Call(call) => {
                let arguments = match call.form {
                    Form::JsonText => self.string(body, call.arguments),
                    Form::Json => self.text(call.arguments.of(body)),
                    Form::Free if call.arguments.of(body).starts_with('"') => self.string(body, call.arguments),
                    Form::Free => self.text(call.arguments.of(body)),
                };
                CALL + self.text(call.tool.of(body)) + arguments
            }
            Kind::Result(outcome) => RESULT + self.output(request, outcome),
            Kind::Media(media) => self.media(body, media),
        }
    }

    /// Tokens of a result's output.
    pub fn output(&self, request: &Request, outcome: &Outcome) -> u64 {
        let parts = request.conversation.parts_of(outcome);
        if parts.is_empty() {
            return self.text(outcome.content.of(request.text()));
        }
        parts
            .iter()
            .map(|part| match &part.kind {
                PartKind::Text { text } => self.string(request.text(), *text),
                PartKind::Media(media) => self.media(request.text(), media),
                PartKind::Opaque => opaque(part.span),
            })
            .sum()
    }

    pub fn media(&self, body: &str, media: &Media) -> u64 {
        let data = media.data.of(body);
        let tokens = match media.kind {
            MediaKind::Image => {
                let detail = media.detail.of(body);
                let is_here = data.starts_with("data:") || (!data.contains("://") && data.len() > LONGEST_FILE_ID);
                let source = if is_here { images::Source::Base64(data) } else { images::Source::Reference };
                images::price(&self.model, source, (!detail.is_empty()).then_some(detail))
            }
            MediaKind::Document => images::document(data),
            MediaKind::Audio => images::audio("", images::decoded_len(data)),
        };
        u64::from(tokens)
    }

    /// Everything outside of the list: system prompt, tools, schemas.
    pub fn rest(&self, request: &Request) -> u64 {
        self.rest_by(request, |_, count| count())
    }

    /// The same, where members worth it are counted, or remembered, by `remember`: it is given the text of one, its key included, and how to count it.
    pub fn rest_by(&self, request: &Request, remember: impl Fn(&str, &dyn Fn() -> u64) -> u64) -> u64 {
        /// Shorter ones are counted faster than they are looked up.
        const WORTH: usize = 32;
        let body = request.text();
        let weight = |&(key, value): &(Span, Span)| {
            let count = || self.member(body, key, value);
            if value.len() < WORTH { count() } else { remember(Span { start: key.start, end: value.end }.of(body), &count) }
        };
        REST + request.rest.iter().map(weight).sum::<u64>()
    }

    fn member(&self, body: &str, key: Span, value: Span) -> u64 {
        let raw = value.of(body);
        if UNREAD.contains(&key.of(body)) {
            return 0;
        }
        match raw.as_bytes().first() {
            Some(b'[') if key.of(body) == "system" => self.system(body, value),
            Some(b'"') => self.string(body, value),
            Some(b'[' | b'{') => self.text(raw),
            _ => 1,
        }
    }

    fn system(&self, body: &str, list: Span) -> u64 {
        let elements = json::elements(body, list.start as usize).map(|(elements, _)| elements).unwrap_or_default();
        elements
            .into_iter()
            .map(|element| {
                let raw = element.of(body);
                if raw.get(..raw.len().min(160)).unwrap_or(raw).contains(BILLING_PREFIX) { BILLING } else { self.text(raw) }
            })
            .sum()
    }
}

/// What only the provider can read weighs about a token for four of its letters.
fn opaque(span: Span) -> u64 {
    span.len() as u64 / 4 + 1
}
