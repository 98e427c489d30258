//! Tells "too long" from every other refusal.

/// Why a provider refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// No overflow.
    None,
    Input,
    InputPlusOutput,
    Bytes,
    RateCeiling,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    pub class: Class,
    /// The window the provider named, in tokens.
    pub limit: Option<u64>,
    /// What the request weighed in the provider's count, in tokens.
    pub requested: Option<u64>,
    pub output: Option<u64>,
    pub rule: &'static str,
}

/// `body` is the decoded body of an error answer, or the data of an error event.
pub fn classify(status: u16, body: &[u8]) -> Classified {
    let none = Classified { class: Class::None, limit: None, requested: None, output: None, rule: "none" };
    if matches!(status, 401 | 402 | 403 | 429 | 529) {
        return none;
    }
    let has = |text: &str| memchr::memmem::find(body, text.as_bytes()).is_some();
    if has("context_length_exceeded") || has("prompt is too long") || has("maximum context length") || has("exceed_context_size_error") {
        return Classified { class: Class::Input, rule: "stand-in", ..none };
    }
    if status == 413 {
        return Classified { class: Class::Bytes, rule: "status 413", ..none };
    }
    none
}
