//! Error evidence in tool output: whether there is any, and which lines of it say what went wrong.

mod line;
mod raised;

use std::collections::HashSet;

use super::subjects::Key;
pub(crate) use line::{Shape, floor, plain, shape_of_any};
use line::{beside, candidates, cut, exception, foreign, located, news, settings, shape, signature};
use raised::{ASSERTED, names, raised};

/// Bytes looked at from the beginning and from the end of an output. Errors stand at the end of most, at the beginning of some.
const HEAD: usize = 24 * 1024;
const TAIL: usize = 40 * 1024;
/// Lines of one output judged by their shape.
const JUDGED: usize = 400;
/// Whether a tool's output is evidence of an error: `failed` says so, or a line of it has the shape of one.
pub fn is_error(output: &str, failed: bool) -> bool {
    failed || windows(output).iter().any(|window| candidates(window).any(|(at, _)| shape(line_at(window, at)).is_some()))
}

/// What went wrong, in lines of the output.
pub(crate) struct Excerpt<'t> {
    /// The line that says it.
    pub main: &'t str,
    /// What it is the cause of, which a trace says first.
    pub above: Option<&'t str>,
    /// What follows it, where it only announces a message: "FAIL src/a.test.ts".
    pub message: Option<String>,
    /// Where, when a line near it says so.
    pub location: Option<&'t str>,
    /// The telling lines in order, `main` among them.
    pub lines: Vec<&'t str>,
    /// The same for two occurrences of one error: digits, addresses and quotations left out.
    pub signature: Key,
}

/// Lines around the main one that may explain it.
const BEFORE: usize = 8;
const AFTER: usize = 12;
/// Lines that a summary announces.
const FOLLOWING: usize = 5;
const QUOTED: usize = 24;

pub(crate) fn excerpt(output: &str, failed: bool) -> Option<Excerpt<'_>> {
    let mut best: Option<(Shape, &str, usize)> = None;
    for window in windows(output) {
        for (found, start, line) in judged(window, failed) {
            // In a trace the exception stands last; of log lines the one that says most; elsewhere the first is the cause of the rest.
            let better = best.is_none_or(|(known, known_window, known_at)| {
                let known_line = line_bounds(known_window, known_at).1;
                let later = match found {
                    Shape::Log => news(line) >= news(known_line),
                    _ => exception(line) && !known_line.starts_with("error"),
                };
                found > known || (found == known && later)
            });
            if better {
                best = Some((found, window, start));
            }
        }
    }
    let (window, main_at) = match best {
        Some((_, window, at)) => (window, at),
        None if failed => {
            let text = output.trim_start();
            (text, 0)
        }
        None => return None,
    };
    let around = surroundings(window, main_at);
    let main = cut(line_bounds(window, main_at).1.trim_end());
    if main.trim().is_empty() {
        return None;
    }
    let location = location(&around, main);
    let beside = |line: &str| beside(line) && !names(line, main);
    let known = best.is_some();
    let mut chosen: Vec<&str> = Vec::new();
    for line in around {
        let telling = std::ptr::eq(line.as_ptr(), main.as_ptr())
            || shape(line).is_some()
            || located(line)
            || settings(line)
            || line.trim_start().starts_with(['^', '|', '=', '>'])
            || line.starts_with(ASSERTED);
        if (telling || failed) && !(known && beside(line)) && chosen.len() < QUOTED && !line.trim().is_empty() {
            chosen.push(line);
        }
    }
    let announces = main.trim_end().ends_with(':') || best.is_some_and(|(shape, ..)| shape == Shape::Summary);
    let following = window[main_at..].lines().skip(1).map(str::trim).filter(|line| !line.is_empty());
    let taken = if main.trim_end().ends_with(':') { 1 } else { FOLLOWING };
    let message = announces.then(|| following.take(taken).map(cut).collect::<Vec<_>>().join(" ")).filter(|line| !line.is_empty());
    let above = caused(window, main_at).map(str::trim);
    Some(Excerpt { above, message, signature: signature(main), main: main.trim(), location: location.map(str::trim), lines: chosen })
}

/// Of the most telling `most` errors in an output the lines that say what went wrong and where, in order.
pub(crate) fn telling(output: &str, most: usize) -> Vec<&str> {
    let mut errors: Vec<(Shape, bool, &str, usize)> = Vec::new();
    let mut signatures = HashSet::new();
    for window in windows(output) {
        for (shape, start, line) in judged(window, false) {
            if shape > Shape::Summary && signatures.insert(signature(cut(line))) {
                errors.push((shape, exception(line), window, start));
            }
        }
    }
    errors.sort_by_key(|&(shape, exception, ..)| std::cmp::Reverse((shape, exception)));
    let mut lines: Vec<&str> = Vec::new();
    for (_, _, window, at) in errors.into_iter().take(most) {
        let main = cut(line_bounds(window, at).1.trim_end());
        lines.push(main);
        let near = |line: &&str| line.as_ptr().addr().abs_diff(window.as_ptr().addr() + at);
        let places = |line: &&str| located(line) && (!beside(line) || names(line, main)) && line.as_ptr() != window[at..].as_ptr();
        let located = surroundings(window, at).into_iter().filter(places);
        lines.extend(located.min_by_key(|line| (foreign(line), near(line))));
    }
    lines.sort_by_key(|line| line.as_ptr());
    lines.dedup_by_key(|line| line.as_ptr());
    lines
}

fn windows(output: &str) -> Vec<&str> {
    if output.len() <= HEAD + TAIL {
        return vec![output];
    }
    let head = floor(output, HEAD);
    let tail = floor(output, output.len() - TAIL);
    vec![&output[..head], &output[tail..]]
}

/// The lines of a window that say by their shape that something went wrong, with where they begin.
fn judged(window: &str, failed: bool) -> Vec<(Shape, usize, &str)> {
    let mut judged: Vec<(Shape, usize, &str)> =
        suspects(window).filter_map(|(start, line)| shape(line).map(|shape| (shape, start, line))).collect();
    if (failed || !judged.is_empty())
        && let Some(start) = raised(window)
        && !judged.iter().any(|(shape, at, _)| *at == start && *shape == Shape::Message)
    {
        judged.push((Shape::Message, start, line_bounds(window, start).1));
    }
    judged
}

/// The lines that hold a telling word, each once, with where they begin.
fn suspects(window: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut last = None;
    candidates(window).take(JUDGED).map(|(at, _)| line_bounds(window, at)).filter(move |&(start, _)| last.replace(start) != Some(start))
}

/// Frames between an exception and its cause that are passed over.
const FRAMES: usize = 80;

/// The exception that the cause at `main_at` led to: the line above the frames between.
fn caused(window: &str, main_at: usize) -> Option<&str> {
    if !window[main_at..].starts_with("Caused by:") {
        return None;
    }
    let between = |line: &&str| line.starts_with(char::is_whitespace) || line.starts_with("Caused by:");
    let head = window[..main_at].lines().rev().take(FRAMES).find(|line| !between(line)).map(cut)?;
    (shape(head) == Some(Shape::Message)).then_some(head)
}

/// The place that is nearest to what went wrong, of one's own code where there is any.
fn location<'t>(around: &[&'t str], main: &str) -> Option<&'t str> {
    let main_at = around.iter().position(|line| std::ptr::eq(line.as_ptr(), main.as_ptr())).unwrap_or(0);
    let places = around.iter().enumerate().filter(|(_, line)| located(line) && (!beside(line) || names(line, main)));
    places.min_by_key(|(at, line)| (foreign(line), at.abs_diff(main_at))).map(|(_, line)| *line)
}

fn surroundings(window: &str, main_at: usize) -> Vec<&str> {
    let mut before: Vec<&str> = window[..main_at].lines().rev().take(BEFORE).collect();
    before.reverse();
    before.into_iter().chain(window[main_at..].lines().take(AFTER + 1)).map(cut).collect()
}

fn line_at(window: &str, at: usize) -> &str {
    line_bounds(window, at).1
}

fn line_bounds(window: &str, at: usize) -> (usize, &str) {
    let start = window[..at].rfind('\n').map_or(0, |n| n + 1);
    let end = window[at..].find('\n').map_or(window.len(), |n| at + n);
    (start, &window[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_many_tools_are_recognised() {
        for output in [
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nValueError: bad",
            "src/main.rs:3:5\nerror[E0308]: mismatched types",
            "src/app.ts(3,4): error TS2322: no",
            "Exception in thread \"main\" java.lang.IllegalStateException: x\n\tat a.B.c(B.java:3)",
            "panic: runtime error: index out of range [3]\n\ngoroutine 1 [running]:",
            "thread 'main' panicked at src/lib.rs:3:4:\nboom",
            "main.c:3:4: error: expected ';'",
            "bash: foo: command not found",
            "cat: x: No such file or directory",
            "3 passed, 1 failed",
            "FAILED tests/test_a.py::test_b - assert 1 == 2",
            "2024-05-01 12:00:00 ERROR db: pool exhausted",
            "HTTP/1.1 503 Service Unavailable",
            "{\"error\": \"not allowed\"}",
            "Error: payment amount does not add up, total price is 305, but paid 255",
            "Command exited with code 1",
            "<returncode>2</returncode>",
            "PHP Fatal error:  Uncaught TypeError",
            "Unhandled exception. System.NullReferenceException: x",
            "ERROR:  duplicate key value violates unique constraint \"u\"",
            "npm ERR! code ELIFECYCLE",
            "pod/web-1   0/1   CrashLoopBackOff   5",
            "错误：连接被拒绝",
            "level=error msg=\"no route\"",
            "make: *** [all] Error 2",
        ] {
            assert!(is_error(output, false), "{output}");
        }
        assert!(is_error("anything", true));
    }

    #[test]
    fn what_went_wrong_and_where_is_picked_out_of_a_long_output() {
        let noise = "reading chunk\n".repeat(400);
        let python = "Traceback (most recent call last):\n  File \"/usr/lib/python3/json.py\", line 9, in load\n    x()\n  File \"app/pay.py\", line 31, in total\n    y()\nValueError: total is 305, paid 255\n";
        let node = "TypeError: cart.items is not iterable\n    at sum (src/cart.ts:14:20)\n    at node:internal/process:95\n";
        let output = [&noise, python, &noise, node, node, &noise].concat();
        let all = [
            "  File \"app/pay.py\", line 31, in total",
            "ValueError: total is 305, paid 255",
            "TypeError: cart.items is not iterable",
            "    at sum (src/cart.ts:14:20)",
        ];
        assert_eq!(telling(&output, 6), all);
        assert_eq!(telling(&output, 1).len(), 2);
        assert!(telling(&output, 0).is_empty() && telling(&noise, 6).is_empty());
    }

    #[test]
    fn colours_hide_nothing() {
        let cargo = "\u{1b}[1m\u{1b}[91merror[E0308]\u{1b}[0m\u{1b}[1m: mismatched types\u{1b}[0m\n \u{1b}[1m\u{1b}[94m--> \u{1b}[0msrc/main.rs:3:5";
        let python = "  File \u{1b}[35m\"app/pay.py\"\u{1b}[0m, line \u{1b}[35m31\u{1b}[0m, in total\n\u{1b}[1;35mValueError\u{1b}[0m: \u{1b}[35mbad\u{1b}[0m";
        for output in [cargo, python] {
            assert!(is_error(output, false), "{output}");
            assert_eq!(telling(output, 6).len(), 2, "{output}");
        }
    }

    #[test]
    fn what_only_talks_of_errors_is_none() {
        for output in [
            "",
            "12 passed, 0 failed",
            "test result: ok. 3 passed; 0 failed; 0 ignored",
            "fn error(&self) -> Error { todo }",
            "class FooError(Exception):\n    pass",
            "0 errors, 2 warnings",
            "    raise ValueError(\"x\")",
            "if err != nil {\n\treturn err\n}",
            "exit code: 0",
            "docs/errors.md\nsrc/error.rs",
            "HTTP/1.1 200 OK",
        ] {
            assert!(!is_error(output, false), "{output}");
        }
    }

    #[test]
    fn what_only_stands_beside_an_error_is_no_part_of_it() {
        let beside =
            "src/a/b.py:3:    x = y(z)\n2025-03-22T23:42:22Z DEBUG [merge-6] stone took 5.19s\n| name | state |\ntest a::b ... ok\n";
        let check = |error: &str, main: &str, place: &str| {
            let output = [beside, error, beside].concat();
            let found = excerpt(&output, true).unwrap();
            assert_eq!((found.main, found.location), (main, Some(place)));
            assert!(found.lines.iter().all(|line| error.contains(*line)), "{:?}", found.lines);
        };
        check(
            "panic: full\n\ngoroutine 17 [running]:\nmain.put(0xc0)\n\t/srv/queue.go:123 +0x1d\nexit status 2\n",
            "panic: full",
            "/srv/queue.go:123 +0x1d",
        );
        check("RangeError: full\n    at put (/srv/queue.js:21:11)\n", "RangeError: full", "at put (/srv/queue.js:21:11)");
        let ruby = "/srv/queue.rb:339:in `put': full after 5 (FullError)";
        check(&format!("{ruby}\n\tfrom /srv/main.rb:12:in `<main>'\n"), ruby, ruby);
    }

    #[test]
    fn a_cause_is_told_with_what_it_led_to() {
        let frames = "\tat a.B.c(B.java:3)\n".repeat(20);
        let output = format!(
            "Exception in thread \"main\" a.FullException: 5 of 5\n{frames}Caused by: java.io.IOException: closed\n\t... 14 more\n"
        );
        let found = excerpt(&output, false).unwrap();
        assert_eq!(
            (found.main, found.above),
            ("Caused by: java.io.IOException: closed", Some("Exception in thread \"main\" a.FullException: 5 of 5"))
        );
    }

    #[test]
    fn the_excerpt_holds_message_place_and_settings() {
        let output = "connecting pool_size=20 max_overflow=10\nTraceback (most recent call last):\n  File \"/app/db/pool.py\", line 88, in get\n    raise\nsqlalchemy.exc.TimeoutError: QueuePool limit of size 20 overflow 10 reached\n";
        let found = excerpt(output, false).unwrap();
        assert_eq!(found.main, "sqlalchemy.exc.TimeoutError: QueuePool limit of size 20 overflow 10 reached");
        assert_eq!(found.location, Some("File \"/app/db/pool.py\", line 88, in get"));
        assert!(found.lines.iter().any(|l| l.contains("pool_size=20")));
    }
}
