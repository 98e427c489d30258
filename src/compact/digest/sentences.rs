//! A text taken apart: what someone says, and what they paste.
//!
//! Logs, code, quotes, tables and documents inside a message are material, not statements; the sentences around them are what the speaker
//! says. Blocks that an agent's program puts into a user message are neither.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::lists::lines;
use super::material::Line;
use super::words::{spaceless, words};

/// Part of a message.
#[derive(Debug)]
pub(crate) enum Part<'t> {
    /// One sentence. `line`: the same for sentences that follow on one another. `glued`: no space before it. `buried`: it stands inside a long document, so it is likely to be part of one.
    Said { text: Cow<'t, str>, line: usize, glued: bool, buried: bool },
    /// Lines that were pasted, as they came.
    Pasted(&'t str),
}

/// A message with more sentences than this is read as a document: its first and last sentences speak, the rest is buried.
const DOCUMENT: usize = 24;
const DOCUMENT_EDGE: usize = 4;

/// Runs of sentences on one line of a message.
const RUNS: usize = 1 << 12;

pub(crate) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut lines = 0;
    for spoken in without_harness(text) {
        lines += split(spoken, lines, &mut parts);
    }
    bury_paragraphs(&mut parts);
    let said = parts.iter().filter(|p| matches!(p, Part::Said { .. })).count();
    if said > DOCUMENT {
        let mut at = 0;
        for part in &mut parts {
            if let Part::Said { buried, .. } = part {
                *buried |= at >= DOCUMENT_EDGE && at + DOCUMENT_EDGE < said;
                at += 1;
            }
        }
    }
    parts
}

/// A paragraph of so many sentences beside another is a text that is shown, more often than something said: only its first sentence speaks.
const TEXT: usize = 10;

fn bury_paragraphs(parts: &mut [Part]) {
    let mut paragraphs: Vec<(usize, usize)> = Vec::new();
    for line in parts.iter().filter_map(|part| if let Part::Said { line, .. } = part { Some(line / RUNS) } else { None }) {
        match paragraphs.last_mut() {
            Some((paragraph, sentences)) if *paragraph == line => *sentences += 1,
            _ => paragraphs.push((line, 1)),
        }
    }
    if paragraphs.len() < 2 {
        return;
    }
    let mut long = paragraphs.into_iter().filter(|(_, sentences)| *sentences >= TEXT).map(|(paragraph, _)| paragraph).peekable();
    let mut before = None;
    for part in parts {
        let Part::Said { line, buried, .. } = part else { continue };
        let paragraph = *line / RUNS;
        while long.next_if(|known| *known < paragraph).is_some() {}
        *buried = long.peek() == Some(&paragraph) && before == Some(paragraph);
        before = Some(paragraph);
    }
}

/// What remains of a user's text when the blocks of the agent's program are taken out, in order.
pub(crate) fn without_harness(text: &str) -> Vec<&str> {
    let mut spoken = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(open) = text[at..].find('<').map(|o| at + o) {
        let name_end =
            text[open + 1..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).map_or(text.len(), |e| open + 1 + e);
        let name = &text[open + 1..name_end];
        at = open + 1;
        if !is_harness(name) {
            continue;
        }
        let close = format!("</{name}>");
        // A block that never ends is a fragment of one: all that follows belongs to it.
        let end = text[name_end..].find(&close).map_or(text.len(), |e| name_end + e + close.len());
        spoken.push(&text[from..open]);
        from = end;
        at = end;
    }
    spoken.push(&text[from..]);
    spoken.retain(|part| !part.trim().is_empty());
    spoken
}

fn is_harness(name: &str) -> bool {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| lines(include_str!("words/harness.txt")).collect());
    name.len() > 4 && NAMES.iter().any(|known| known.strip_prefix('*').map_or(*known == name, |end| name.ends_with(end)))
}

/// Splits `text`, whose first line is line `before`, and says how many lines it has.
fn split<'t>(text: &'t str, before: usize, parts: &mut Vec<Part<'t>>) -> usize {
    let lines: Vec<Line> = Line::read(text);
    let mut at = 0;
    while at < lines.len() {
        if lines[at].pasted {
            let from = lines[at].start;
            while at < lines.len() && (lines[at].pasted || (lines[at].blank && lines.get(at + 1).is_some_and(|next| next.pasted))) {
                at += 1;
            }
            parts.push(Part::Pasted(text[from..lines[at - 1].end].trim_end()));
        } else if lines[at].blank {
            at += 1;
        } else {
            let from_line = at;
            let mut paragraph: Cow<'t, str> = Cow::Borrowed(text[lines[at].start..lines[at].end].trim());
            at += 1;
            while at < lines.len()
                && !lines[at].pasted
                && !lines[at].blank
                && continues(&paragraph, text[lines[at].start..lines[at].end].trim())
            {
                paragraph = Cow::Owned(format!("{paragraph} {}", text[lines[at].start..lines[at].end].trim()));
                at += 1;
            }
            sentences(paragraph, RUNS * (before + from_line), parts);
        }
    }
    lines.len()
}

/// A line wrapped by hand: no full stop at its end, and the next begins small.
fn continues(line: &str, next: &str) -> bool {
    let open = line.chars().next_back().is_some_and(|c| c.is_lowercase() || c == ',' || c.is_ascii_digit());
    line.len() >= 50 && line.len() < 2_000 && open && next.chars().next().is_some_and(char::is_lowercase)
}

fn sentences<'t>(paragraph: Cow<'t, str>, mut line: usize, parts: &mut Vec<Part<'t>>) {
    let mut borders = Vec::new();
    let mut from = 0;
    let mut chars = paragraph.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let wide = matches!(c, '。' | '！' | '？' | '．' | '।' | '؟' | '۔' | '…');
        if !wide && !matches!(c, '.' | '!' | '?' | ';' | '；') {
            continue;
        }
        let mut end = at + c.len_utf8();
        // Closing marks belong to the sentence that they close.
        while let Some(&(_, next)) = chars.peek() {
            if !matches!(next, '.' | '!' | '?' | '。' | '！' | '？' | '"' | '\'' | ')' | '”' | '’' | '」' | '』' | '）' | '*' | '…')
            {
                break;
            }
            end += next.len_utf8();
            chars.next();
        }
        let rest = &paragraph[end..];
        if rest.trim().is_empty() {
            continue;
        }
        let spaced = rest.starts_with(char::is_whitespace);
        let next = rest.trim_start().chars().next().unwrap_or(' ');
        let breaks = match c {
            ';' => spaced && end - from >= 40,
            '.' => spaced && !abbreviated(&paragraph[from..at], next.is_lowercase()),
            '!' | '?' => spaced,
            '…' => spaced && !next.is_lowercase(),
            _ => true,
        };
        if breaks {
            borders.push((from, end));
            from = end;
        }
    }
    borders.push((from, paragraph.len()));
    for (start, end) in borders {
        let text: Cow<'t, str> = match &paragraph {
            Cow::Borrowed(whole) => Cow::Borrowed(bare(&whole[start..end], start == 0)),
            Cow::Owned(whole) => Cow::Owned(bare(&whole[start..end], start == 0).to_owned()),
        };
        if text.chars().any(char::is_alphanumeric) {
            let glued = start > 0 && !paragraph[start..].starts_with(char::is_whitespace);
            parts.push(Part::Said { text, line, glued, buried: false });
        } else {
            // What follows does not follow on what was said before.
            line += 1;
        }
    }
}

/// A sentence without the list mark at the beginning of its line.
fn bare(sentence: &str, begins: bool) -> &str {
    let sentence = sentence.trim();
    let marks = ["- [ ] ", "- [x] ", "- ", "* ", "+ ", "• ", "· ", "– ", "— ", "### ", "## ", "# "];
    let marked = marks.iter().filter(|_| begins).find_map(|mark| sentence.strip_prefix(mark));
    marked.map_or(sentence, str::trim_start)
}

/// "1." of a list, "e.g.", "Dr.", an initial: a full stop that ends no sentence. Many people begin sentences small.
fn abbreviated(before: &str, small: bool) -> bool {
    const KNOWN: [&str; 22] = [
        "dr", "mr", "mrs", "ms", "sr", "sra", "nr", "no", "vs", "bzw", "ca", "approx", "inc", "st", "etc", "usw", "resp", "ggf", "evtl",
        "incl", "cf", "aprox",
    ];
    let word = before.rsplit(char::is_whitespace).next().unwrap_or("");
    let letters = word.chars().count();
    let list_number = before.trim_start_matches(['*', '-', ' ']).len() <= 3 && letters > 0 && word.chars().all(|c| c.is_ascii_digit());
    let initial = letters == 1 && word.chars().all(|c| c.is_alphabetic() && !spaceless(c));
    let dotted = word.contains('.') && word.len() <= 5 && word.chars().all(|c| c.is_alphabetic() || c == '.');
    let short = small
        && letters <= 2
        && word.chars().all(|c| c.is_alphabetic() && !spaceless(c))
        && !words().look_up(&word.to_lowercase()).is_function();
    list_number || initial || dotted || short || KNOWN.contains(&word.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        parts(text).into_iter().filter_map(|p| if let Part::Said { text, .. } = p { Some(text.into_owned()) } else { None }).collect()
    }

    #[test]
    fn sentences_of_any_script_are_told_apart() {
        let check = |text: &str, expected: &[&str]| assert_eq!(said(text), expected, "{text}");
        check("Use port 8.5. Never push, e.g. to main! Ok?", &["Use port 8.5.", "Never push, e.g. to main!", "Ok?"]);
        check("不要修改文件。端口是8080！好吗？", &["不要修改文件。", "端口是8080！", "好吗？"]);
        check(
            "fix it. also keep approx. 5 rows, etc. and so on. then stop",
            &["fix it.", "also keep approx. 5 rows, etc. and so on.", "then stop"],
        );
        check("늦었어요. checkout은 8080입니다.", &["늦었어요.", "checkout은 8080입니다."]);
        check("1. One-way\n2. Economy", &["1. One-way", "2. Economy"]);
        check("- [ ] write tests\n- keep v1.2.3 pinned", &["write tests", "keep v1.2.3 pinned"]);
        check("यह करें। वह न करें।", &["यह करें।", "वह न करें।"]);
    }

    #[test]
    fn a_text_that_is_shown_is_buried() {
        let buried = |text: &str| parts(text).iter().filter(|part| matches!(part, Part::Said { buried: true, .. })).count();
        let text = "When a page arrives, the index is asked. ".repeat(12);
        assert_eq!(buried(&format!("Keep the pool at 5.\n\n{text}\n\nThen stop.")), 11);
        assert_eq!(buried(&text), 0, "who says nothing else says this");
        assert_eq!(buried("Keep it at 5.\n\nNever push. Ask me first.\n\nStop at 6."), 0);
    }

    #[test]
    fn what_is_pasted_is_not_said() {
        let log = "It fails:\n\n2024-05-01 12:00:01 INFO start\n2024-05-01 12:00:02 ERROR boom\n\nPlease keep the pool at 5.";
        assert_eq!(said(log), ["It fails:", "Please keep the pool at 5."]);
        let code = "Change this\n```rust\nfn never() {}\n```\nand keep the name.";
        assert_eq!(said(code), ["Change this", "and keep the name."]);
        let json = "Here:\n{\n  \"port\": 80,\n  \"host\": \"a\"\n}\nUse it.";
        assert_eq!(said(json), ["Here:", "Use it."]);
    }

    #[test]
    fn blocks_of_the_agent_are_not_the_users_words() {
        let text = "Fix it.<system-reminder>\nNever stop.\n</system-reminder>\nKeep a < b and <b>bold</b>.";
        assert_eq!(said(text), ["Fix it.", "Keep a < b and <b>bold</b>."]);
        assert!(said("<environment_context><cwd>/x</cwd></environment_context>").is_empty());
    }
}
