//! The names in a text that may neither be lost nor made up.

use super::words;
use regex::Regex;
use std::collections::HashSet;
use std::sync::LazyLock;

static SHAPES: LazyLock<Vec<Regex>> = LazyLock::new(|| words::patterns(include_str!("words/identifiers.txt"), ""));
static FIGURES: LazyLock<Vec<Regex>> = LazyLock::new(|| words::patterns(include_str!("words/figures.txt"), ""));

/// Names that are shorter say too little.
const SHORTEST: usize = 4;
/// Text of one passage that is searched, in bytes.
const SEARCHED: usize = 64 << 10;

/// All names in `text`, in the order of their kinds, each once.
pub fn all(text: &str) -> Vec<&str> {
    let text = words::head(text, SEARCHED);
    let mut taken: Vec<(usize, usize)> = Vec::new();
    let mut out: Vec<(usize, &str)> = Vec::new();
    let mut seen = HashSet::new();
    for shape in SHAPES.iter() {
        for found in shape.find_iter(text) {
            let name = found.as_str().trim_end_matches(['.', ',', ':', ';', '!', '?', '\'', '"', ')', ']', '*', '_', '-', '/']);
            // A part of a name that was found whole is none of its own.
            let inside = taken.iter().any(|(start, end)| found.start() < *end && *start < found.end());
            if inside || name.len() < SHORTEST || !telling(name) {
                continue;
            }
            taken.push((found.start(), found.end()));
            if seen.insert(name) {
                out.push((found.start(), name));
            }
        }
    }
    out.sort_by_key(|(at, _)| *at);
    out.into_iter().map(|(_, name)| name).collect()
}

/// Numbers in `text` that mean something, each once.
pub fn figures(text: &str) -> Vec<&str> {
    let text = words::head(text, SEARCHED);
    let mut seen = HashSet::new();
    let found = FIGURES.iter().flat_map(|shape| shape.find_iter(text)).map(|found| found.as_str().trim_end_matches(['.', ',']));
    found.filter(|figure| seen.insert(*figure)).collect()
}

/// Whether `source` has a figure, as it is or with other separators; a day, also with its year elsewhere or its month in words.
pub fn is_said(figure: &str, source: &Source) -> bool {
    let figure = figure.trim_start_matches(['v', '#']);
    if source.has(figure) || source.has_in_lower_case(&figure.to_ascii_lowercase()) {
        return true;
    }
    if figure.contains('@') {
        return false;
    }
    let mut parts = figure.split('-');
    if let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        && year.len() == 4
    {
        let (m, d) = (month.trim_start_matches('0'), day.trim_start_matches('0'));
        let spellings = ['-', '/', '.']
            .map(|mark| [format!("{month}{mark}{day}"), format!("{day}{mark}{month}"), format!("{m}{mark}{d}"), format!("{d}{mark}{m}")]);
        let name = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
        let in_words = name.is_some_and(|name| source.has_in_lower_case(name)) && source.has(d);
        return source.has(year) && (spellings.iter().flatten().any(|spelling| source.has(spelling)) || in_words);
    }
    let digits: String = figure.chars().filter(char::is_ascii_digit).collect();
    digits.len() < LEAST_DIGITS || source.has_digits(&digits)
}

/// Numbers of fewer digits say too little.
const LEAST_DIGITS: usize = 3;
/// How months begin, in English and most languages that name them alike.
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "ma", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Words that happen to be spelt with hex digits, and fractions, are no names.
fn telling(name: &str) -> bool {
    let hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
    !hex || name.bytes().any(|byte| byte.is_ascii_digit())
}

/// Whether `source` has `name`, as it is or spelt in another way: hex in other case, a path from another folder.
pub fn occurs(name: &str, source: &Source) -> bool {
    let name = name.trim_start_matches("./");
    if source.has(name) {
        return true;
    }
    if name.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'x') {
        return source.has_in_lower_case(&name.to_ascii_lowercase());
    }
    // `src/lib.rs:12` names a place in `src/lib.rs`.
    if let Some((file, line)) = name.rsplit_once(':')
        && line.bytes().all(|byte| byte.is_ascii_digit())
        && source.has(file)
        && source.has(line)
    {
        return true;
    }
    let segments: Vec<&str> =
        name.split(['/', '\\']).filter(|segment| !segment.is_empty() && !matches!(*segment, "." | ".." | "~")).collect();
    !name.contains("://") && segments.len() > 1 && segments.iter().all(|segment| source.has(segment))
}

/// A text to look names up in.
pub struct Source<'a> {
    text: &'a str,
    lower: std::cell::OnceCell<String>,
    digits: std::cell::OnceCell<String>,
}

impl<'a> Source<'a> {
    pub fn of(text: &'a str) -> Self {
        Self { text, lower: std::cell::OnceCell::new(), digits: std::cell::OnceCell::new() }
    }

    fn has(&self, name: &str) -> bool {
        memchr::memmem::find(self.text.as_bytes(), name.as_bytes()).is_some()
    }

    /// Whether these digits stand somewhere in a row, whatever separates them.
    fn has_digits(&self, digits: &str) -> bool {
        let all = self
            .digits
            .get_or_init(|| self.text.chars().filter(|c| !matches!(c, ',' | '.' | '\'' | '_' | '\u{a0}' | '\u{202f}')).collect());
        memchr::memmem::find(all.as_bytes(), digits.as_bytes()).is_some()
    }

    fn has_in_lower_case(&self, name: &str) -> bool {
        let lower = self.lower.get_or_init(|| self.text.to_ascii_lowercase());
        memchr::memmem::find(lower.as_bytes(), name.as_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_kinds_are_found_and_words_are_not() {
        let text = "See https://a.example/x?y=1, /srv/app/main.py and src/lib.rs; C:\\Users\\me\\a.txt on db.internal:5432 or 10.0.0.7, \
                    commit 9f86d081884c, OPS-411, E0308, 4412987. A face, a decade, and/or 3/4 of it, effaced facade, 12345.";
        assert_eq!(
            all(text),
            [
                "https://a.example/x?y=1",
                "/srv/app/main.py",
                "src/lib.rs",
                "C:\\Users\\me\\a.txt",
                "db.internal:5432",
                "10.0.0.7",
                "9f86d081884c",
                "OPS-411",
                "E0308",
                "4412987"
            ]
        );
    }

    #[test]
    fn figures_may_be_spelt_otherwise_but_not_made_up() {
        let source = Source::of(
            "release 2.4.1 of March 5, 2026 and 07/09/2025 cost $48,200 for 12 500 rows; see #8812, ann@corp.example, port 4417, 12,345 ms",
        );
        let text = "v2.4.1, 2026-03-05, 2025-07-09, $48200, #8812, Ann@corp.example, 4417, 12345, 12.345, 999 and 17 rows";
        assert_eq!(figures(text).into_iter().filter(|figure| !is_said(figure, &source)).collect::<Vec<_>>(), Vec::<&str>::new());
        let made_up = "2.4.7 of 2031-03-05 cost $48,900; #8813, bob@corp.example, 4418, 54,321";
        assert_eq!(figures(made_up).into_iter().filter(|figure| is_said(figure, &source)).collect::<Vec<_>>(), Vec::<&str>::new());
    }

    #[test]
    fn another_spelling_of_a_name_is_no_other_name() {
        let source = Source::of("cwd /home/me/proj\nsrc/lib.rs has 9F86D081, line 12");
        for name in ["src/lib.rs", "./src/lib.rs", "9f86d081", "/home/me/proj/src/lib.rs", "src/lib.rs:12"] {
            assert!(occurs(name, &source), "{name}");
        }
        for name in ["src/main.rs", "9f86d082", "https://me/proj", "src/lib.rs:99"] {
            assert!(!occurs(name, &source), "{name}");
        }
    }
}
