//! Error texts as the lexer wants them: without quotations, leftover escapes and tags.

/// The beginning of a text, `most` bytes of it.
pub(super) fn head(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Without the quotations: sentences in quotes, and the value pydantic prints. Quoted single words stay, they name things.
pub(super) fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Kinds of quotes that nothing closes any more, so that no text is searched twice in vain.
    let mut open = String::new();
    while let Some(at) = rest.find(['"', '“', '«', '\'']) {
        let quote = rest[at..].chars().next().unwrap_or('"');
        let start = at + quote.len_utf8();
        let close = match quote {
            '“' => '”',
            '«' => '»',
            other => other,
        };
        let opens =
            quote != '\'' || rest[..at].ends_with('=') || rest[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        let end = if !opens || open.contains(close) { None } else { closing(&rest[start..], close).map(|length| start + length) };
        if opens && end.is_none() && !open.contains(close) {
            open.push(close);
        }
        match end {
            Some(end) if rest[start..end].split_whitespace().count() >= 3 && !reports(&rest[..at]) => {
                out.push_str(&rest[..at]);
                rest = &rest[end + close.len_utf8()..];
            }
            Some(end) => {
                out.push_str(&rest[..at]);
                out.push(' ');
                out.push_str(&rest[start..end]);
                out.push(' ');
                rest = &rest[end + close.len_utf8()..];
            }
            _ => {
                out.push_str(&rest[..start]);
                rest = &rest[start..];
            }
        }
    }
    out.push_str(rest);
    match out.find("(parameter=") {
        Some(at) => out[..at].to_owned(),
        None => out,
    }
}

/// Where a quotation ends: an apostrophe within a word is no end of it.
fn closing(text: &str, close: char) -> Option<usize> {
    let within_a_word = |at: usize| {
        let follows = |text: &str| text.chars().next().is_some_and(char::is_alphanumeric);
        close == '\'' && follows(&text[at + 1..]) && text[..at].chars().next_back().is_some_and(char::is_alphanumeric)
    };
    text.match_indices(close).map(|(at, _)| at).find(|&at| !within_a_word(at))
}

/// Whether what stands before a quotation says that it quotes an error.
fn reports(before: &str) -> bool {
    let from = before.char_indices().rev().nth(40).map_or(0, |(at, _)| at);
    let before = before[from..].to_lowercase();
    let verbs =
        ["error", "returned", "respon", "said", "replied", "exception", "message:", "failed", "reason", "upstream", "错误", "エラー"];
    !before.ends_with("input_value=") && !before.ends_with("input=") && verbs.iter().any(|verb| before.contains(verb))
}

/// Escapes that survived one decoding, and the few entities of HTML.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = text.to_owned();
    for (from, to) in [
        ("\\u003e", ">"),
        ("\\u003c", "<"),
        ("\\n", " "),
        ("\\\"", "\""),
        ("&gt;", ">"),
        ("&lt;", "<"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ] {
        if out.contains(from) {
            out = out.replace(from, to);
        }
    }
    out
}

/// The text of an HTML or XML page; every tag ends a sentence.
pub(super) fn without_tags(html: &str) -> String {
    let mut out = String::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let hidden =
            ["script", "style"].into_iter().find(|tag| rest[1..].get(..tag.len()).is_some_and(|name| name.eq_ignore_ascii_case(tag)));
        let end = match hidden {
            Some(tag) => rest.find(&format!("</{tag}")).unwrap_or(rest.len()),
            None => 0,
        };
        rest = rest[end..].find('>').map_or("", |close| &rest[end + close + 1..]);
        out.push_str(". ");
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_in_quotes_are_dropped_and_names_are_kept() {
        for (text, expected) in [
            (r#"flagged: "the prompt is too long" looks odd"#, "flagged:  looks odd"),
            ("Invalid 'messages': too long", "Invalid  messages : too long"),
            ("valid string [input_value='prompt is too long', input_type=str]", "valid string [input_value=, input_type=str]"),
            (r#"upstream error: "prompt is too long""#, "upstream error:  prompt is too long "),
            ("Invalid value: 'This model's maximum context length is 100 tokens.'. Use 'low'.", "Invalid value: . Use  low ."),
            ("the model's limit can't be 5", "the model's limit can't be 5"),
            ("an open \"quote stays as it is", "an open \"quote stays as it is"),
            ("513 tokens. (parameter=input_tokens, value=513)", "513 tokens. "),
        ] {
            assert_eq!(unquoted(text), expected);
        }
    }

    #[test]
    fn pages_are_read_without_their_tags() {
        let page = "<html><style>p{max:1}</style><p>Prompt <b>too long</b> &gt; 8192</p>";
        assert_eq!(unescaped(&without_tags(page)).split_whitespace().collect::<Vec<_>>().join(" "), ". . . Prompt . too long. > 8192.");
        assert_eq!(without_tags("a < b"), "a . ");
    }
}
