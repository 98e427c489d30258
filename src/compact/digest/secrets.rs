//! Credentials never enter a digest: what has a known shape of one is masked.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::lists::{ascii, lines};

const MASK: &str = "[masked]";

static SHAPES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| lines(include_str!("words/secrets.txt")).filter_map(|shape| Regex::new(&ascii(shape)).ok()).collect());

/// One of these stands in every shape; most texts hold none and are not searched further.
static HEADS: LazyLock<aho_corasick::AhoCorasick> = LazyLock::new(|| {
    let heads = [
        "sk-",
        "sk_",
        "rk-",
        "rk_",
        "pk-",
        "pk_",
        "gho_",
        "ghp_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "xox",
        "AKIA",
        "ASIA",
        "AIza",
        "npm_",
        "hf_",
        "whsec_",
        "eyJ",
        "earer",
        "EARER",
        "asic ",
        "PRIVATE KEY",
        "://",
    ];
    super::lists::automaton(heads.into_iter())
});

pub(crate) fn masked(text: Cow<'_, str>) -> Cow<'_, str> {
    if !HEADS.is_match(text.as_ref()) {
        return text;
    }
    let mut secret: Vec<(usize, usize)> = Vec::new();
    for shape in SHAPES.iter() {
        secret.extend(
            shape
                .captures_iter(&text)
                .filter_map(|found| found.get(1))
                .filter(|found| random(found.as_str()))
                .map(|found| (found.start(), found.end())),
        );
    }
    if secret.is_empty() {
        return text;
    }
    secret.sort_unstable();
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    for (start, end) in secret {
        if start >= from {
            clean.push_str(&text[from..start]);
            clean.push_str(MASK);
        }
        from = from.max(end);
    }
    clean.push_str(&text[from..]);
    Cow::Owned(clean)
}

/// "sk-learn-extensions" has the shape of a key, but is made of words.
fn random(secret: &str) -> bool {
    secret.len() >= 40
        || secret.bytes().any(|b| b.is_ascii_digit())
        || secret.bytes().any(|b| b.is_ascii_uppercase())
        || !secret.contains(['-', '_'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_credentials_are_masked_and_nothing_else() {
        let check = |text: &str, expected: &str| assert_eq!(masked(Cow::Borrowed(text)), expected);
        check("use sk-ant-REDACTED now", "use [masked] now");
        check("token ghp_0123456789abcdefghij0123456789abcdef.", "token [masked].");
        check("Authorization: Bearer abc.def-ghi_jkl012", "Authorization: Bearer [masked]");
        check("key AKIAIOSFODNN7EXAMPLE", "key [masked]");
        check("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- ok", "[masked] ok");
        check("postgres://bob:hunter22@db:5432/x", "postgres://bob:[masked]@db:5432/x");
        for plain in [
            "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
            "run 550e8400-e29b-41d4-a716-446655440000",
            "install sk-learn-extensions",
            "task-0123456789abcdef",
            "https://a.b/c:d",
        ] {
            check(plain, plain);
        }
    }
}
