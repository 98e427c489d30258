//! Lines that were pasted rather than said: logs, code, traces, tables, quotations.

use super::evidence::{Shape, shape_of_any};

/// A line of a text.
pub(crate) struct Line {
    pub start: usize,
    pub end: usize,
    pub blank: bool,
    /// It is part of something pasted.
    pub pasted: bool,
}

impl Line {
    pub fn read(text: &str) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut sure = Vec::new();
        let mut start = 0;
        let mut fenced = false;
        for piece in text.split_inclusive('\n') {
            let line = piece.trim_end_matches(['\n', '\r']);
            let trimmed = line.trim();
            let fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
            let likeness = if fenced || fence { Likeness::Sure } else { likeness(line) };
            // A fence that opens and closes on its own line encloses nothing that follows.
            if fence && !trimmed[3..].contains("```") {
                fenced = !fenced;
            }
            lines.push(Line { start, end: start + line.len(), blank: trimmed.is_empty() && !fenced, pasted: likeness == Likeness::Sure });
            sure.push(likeness);
            start += piece.len();
        }
        let filled: Vec<usize> = (0..lines.len()).filter(|i| !lines[*i].blank).collect();
        // Lines that only look like code count when they are neighbours; one alone may be how someone states a setting.
        for pair in filled.windows(2) {
            if sure[pair[0]] != Likeness::No && sure[pair[1]] != Likeness::No {
                lines[pair[0]].pasted = true;
                lines[pair[1]].pasted = true;
            }
        }
        // A short line between pasted ones is part of them.
        for triple in filled.windows(3) {
            if lines[triple[0]].pasted && lines[triple[2]].pasted && !lines[triple[1]].pasted && triple[2] - triple[0] == 2 {
                lines[triple[1]].pasted = true;
            }
        }
        lines
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    No,
    Maybe,
    Sure,
}

/// Whether a line looks like a log, code, a trace, a table or a quotation rather than like something said.
fn likeness(line: &str) -> Likeness {
    let trimmed = line.trim();
    if trimmed.is_empty() {
        return Likeness::No;
    }
    let bytes = trimmed.as_bytes();
    let has = |starts: &[&str]| starts.iter().any(|s| trimmed.starts_with(s));
    if has(&[
        "> ",
        "| ",
        "|-",
        "+++ ",
        "--- ",
        "@@ ",
        "diff --git",
        "Traceback (",
        "File \"",
        "Caused by:",
        "goroutine ",
        "thread '",
        "E   ",
        "#0 ",
        "$ ",
        "➜",
        "-----BEGIN",
        "<?xml",
        "<!DOCTYPE",
    ]) || (trimmed.starts_with("at ") && (trimmed.contains('(') || trimmed.contains(".js:") || trimmed.contains(".ts:")))
        || timestamped(bytes)
    {
        return Likeness::Sure;
    }
    if trimmed.len() > 60 && !trimmed.contains(' ') && trimmed.is_ascii() && !trimmed.contains("://") {
        return Likeness::Sure;
    }
    if matches!(bytes[0], b'{' | b'}' | b'<') || (bytes[0] == b'[' && bytes.len() < 3) || (bytes[0] == b'"' && trimmed.contains("\":")) {
        return Likeness::Maybe;
    }
    if matches!(bytes[bytes.len() - 1], b'{' | b'}' | b';' | b'\\') || trimmed.ends_with("});") || trimmed.ends_with("],") {
        return Likeness::Maybe;
    }
    let (mut symbols, mut seen) = (0usize, 0usize);
    for byte in bytes.iter().take(400) {
        seen += usize::from(!byte.is_ascii_whitespace());
        symbols += usize::from(matches!(
            byte,
            b'{' | b'}'
                | b'('
                | b')'
                | b'['
                | b']'
                | b'='
                | b'<'
                | b'>'
                | b'|'
                | b'\\'
                | b'_'
                | b'$'
                | b'&'
                | b'"'
                | b':'
                | b'/'
                | b'~'
                | b'^'
                | b'*'
                | b';'
        ));
    }
    if matches!(shape_of_any(trimmed), Some(Shape::Message | Shape::Log)) {
        return Likeness::Maybe;
    }
    let indented = line.starts_with("    ") || line.starts_with('\t');
    let list = matches!(bytes[0], b'-' | b'*' | b'+') || bytes[0].is_ascii_digit();
    if symbols * 100 >= seen * 16 && seen >= 6 || (indented && !list && symbols * 100 >= seen * 7) {
        return Likeness::Maybe;
    }
    Likeness::No
}

/// "2024-05-01 12:00:01", "[12:00:01]", "May  1 12:00:01": the head of a log line.
fn timestamped(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"[").unwrap_or(line);
    let digits = |range: std::ops::Range<usize>| line.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let at = |place: usize, wanted: &[u8]| line.get(place).is_some_and(|b| wanted.contains(b));
    let date = digits(0..4) && at(4, b"-/") && digits(5..7) && at(7, b"-/") && digits(8..10);
    let clock = |from: usize| {
        digits(from..from + 2) && at(from + 2, b":") && digits(from + 3..from + 5) && at(from + 5, b":") && digits(from + 6..from + 8)
    };
    (date && at(10, b"T ") && clock(11)) || clock(0)
}
