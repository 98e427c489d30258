//! stand-in
pub mod evidence {
    pub fn is_error(_o: &str, failed: bool) -> bool {
        failed
    }
}
use std::borrow::Cow;
#[derive(Clone, Debug)]
pub enum Voice<'a> {
    User,
    Assistant,
    Call { tool: &'a str },
    Result { tool: &'a str, failed: bool },
}
#[derive(Clone, Debug)]
pub struct Passage<'a> {
    pub place: usize,
    pub voice: Voice<'a>,
    pub call_id: &'a str,
    pub text: Cow<'a, str>,
}
pub struct Scope<'a> {
    pub covered: &'a [Passage<'a>],
    pub kept: &'a [Passage<'a>],
}
pub struct Digest {
    pub text: String,
    pub tokens: usize,
}
pub fn digest(scope: &Scope, budget: usize, count: &dyn Fn(&str) -> usize) -> Digest {
    let mut text = String::from("[plimsoll] notes on earlier messages that were removed:");
    for p in scope.covered.iter().filter(|p| matches!(p.voice, Voice::User)) {
        let line = format!("\n- {}", p.text.chars().take(200).collect::<String>());
        if count(&text) + count(&line) > budget {
            break;
        }
        text.push_str(&line);
    }
    let tokens = count(&text);
    Digest { text, tokens }
}
