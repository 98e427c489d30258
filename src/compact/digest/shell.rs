//! What a shell command touches, aims at, and how it ended.

use std::sync::LazyLock;

use regex::Regex;

use super::actions::Deed;
use super::evidence::floor;
use super::lists::pattern;

/// The words of the last telling step of a command, without flags.
pub(crate) fn aim_of(command: &str) -> Vec<String> {
    let step = command.split("&&").map(str::trim).filter(|step| !step.starts_with("cd ")).last().unwrap_or(command);
    let step = step.split(['|', ';']).next().unwrap_or(step);
    step.split_whitespace()
        .filter(|word| !word.starts_with('-') && !word.contains("2>") && !word.contains('='))
        .map(str::to_owned)
        .collect()
}

/// Files a shell command touches, and whether it only looks.
pub(crate) fn touched(command: &str) -> (Vec<(Deed, String)>, bool) {
    let mut files = Vec::new();
    let mut reads = true;
    for step in steps(command) {
        let words: Vec<&str> = step.split_whitespace().collect();
        // "2>&1" was split as well; its halves touch no file.
        let Some(first) = words.first() else { continue };
        let path_like = |word: &&&str| {
            !word.starts_with('-') && (word.contains('/') || word.contains('.')) && !word.contains(['*', '$', '\'', '"', '('])
        };
        let paths = || words.iter().skip(1).take_while(|word| !word.contains('>')).filter(path_like).map(|word| (*word).to_owned());
        match *first {
            "rm" | "unlink" => files.extend(paths().map(|path| (Deed::Deleted, path))),
            "mv" => files.extend(paths().map(|path| (Deed::Moved, path))),
            "tee" | "touch" => files.extend(paths().map(|path| (Deed::Wrote, path))),
            "sed" | "perl" if step.contains(" -i") => files.extend(paths().last().map(|path| (Deed::Edited, path))),
            "cat" | "head" | "tail" | "sed" | "less" if !step.contains('>') => files.extend(paths().last().map(|path| (Deed::Read, path))),
            _ => {}
        }
        for (at, word) in words.iter().enumerate() {
            let target = match *word {
                ">" | ">>" => words.get(at + 1).copied(),
                word => word.strip_prefix(">>").or_else(|| word.strip_prefix('>')).filter(|path| !path.is_empty()),
            };
            if let Some(path) = target.filter(|path| !path.starts_with(['&', '/']) || path.starts_with('/') && !path.starts_with("/dev/")) {
                files.push((Deed::Wrote, path.trim_matches(['"', '\'']).to_owned()));
                reads = false;
            }
        }
        let looks = matches!(
            *first,
            "ls" | "cat"
                | "head"
                | "tail"
                | "less"
                | "grep"
                | "rg"
                | "find"
                | "pwd"
                | "echo"
                | "cd"
                | "wc"
                | "which"
                | "file"
                | "stat"
                | "tree"
                | "du"
                | "df"
                | "env"
                | "sort"
                | "uniq"
                | "awk"
                | "cut"
                | "xargs"
                | "true"
        ) || (*first == "sed" && !step.contains(" -i"))
            || (*first == "git"
                && words
                    .get(1)
                    .is_some_and(|sub| matches!(*sub, "status" | "log" | "diff" | "show" | "branch" | "blame" | "ls-files" | "grep")));
        reads &= looks;
    }
    (files, reads)
}

/// The steps of a command line, told apart by `&`, `|` and `;` outside quotation marks.
fn steps(command: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let (mut from, mut quote) = (0, None);
    let mut escaped = false;
    for (at, c) in command.char_indices() {
        match (c, quote) {
            _ if escaped => escaped = false,
            ('\\', _) => escaped = true,
            ('"' | '\'', None) => quote = Some(c),
            (_, Some(open)) if open == c => quote = None,
            ('&' | '|' | ';' | '\n', None) => {
                steps.push(&command[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    steps.push(&command[from..]);
    steps
}

/// The exit code that an output names, at its beginning or its end.
pub(crate) fn exit_code(output: &str) -> Option<i32> {
    static CODE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"(?i)(?:exit(?:ed)?(?: with)?[ _]?(?:code|status)|<returncode|return_?code)"?\s*[:=> ]*(-?\d{1,5})\b"#));
    const EDGE: usize = 400;
    let head = &output[..floor(output, EDGE)];
    let tail = &output[floor(output, output.len().saturating_sub(EDGE))..];
    CODE.captures(head).or_else(|| CODE.captures(tail)).and_then(|found| found[1].parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_found() {
        for (output, code) in [
            ("Command exited with code 1", Some(1)),
            ("<returncode>0</returncode>", Some(0)),
            ("{\"exit_code\":101}", Some(101)),
            ("Exit code: 2\nboom", Some(2)),
            ("fine", None),
        ] {
            assert_eq!(exit_code(output), code, "{output}");
        }
    }
}
