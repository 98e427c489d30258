//! The arrows between modules point one way, and the core knows no sockets, clocks, files or environment.

use std::path::{Path, PathBuf};

/// For each part of the core, the parts it may use. What is not listed here is `proxy`, `config`, `cli` or `main`, which may use everything.
const ARROWS: [(&str, &[&str]); 8] = [
    ("escape", &[]),
    ("conversation", &[]),
    ("tokens", &["escape"]),
    ("wire", &["conversation", "escape"]),
    ("budget", &["conversation", "wire", "tokens"]),
    ("compact", &["conversation", "wire", "tokens", "budget"]),
    ("ledger", &["conversation", "budget", "compact"]),
    ("decide", &["conversation", "wire", "tokens", "budget", "compact", "ledger"]),
];

const IO: [&str; 9] = ["tokio::", "hyper::", "hyper_util::", "std::net", "std::fs", "std::env", "std::time", "std::process", "SystemTime"];

fn sources(of: &str) -> Vec<(PathBuf, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![src.join(of)];
    let file = src.join(format!("{of}.rs"));
    found.extend(std::fs::read_to_string(&file).ok().map(|text| (file, text)));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "no sources of {of}");
    found
}

/// The stores behind a ledger are the one part of it that knows files and sockets.
fn is_store(path: &Path) -> bool {
    ["disk.rs", "queue.rs", "redis.rs", "seal.rs"].iter().any(|name| path.ends_with(Path::new("src/ledger").join(name)))
}

/// The code of a file without its tests, line by line with numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split("#[cfg(test)]")
        .next()
        .unwrap_or("")
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(n, line)| (n + 1, line))
}

#[test]
fn arrows_point_one_way() {
    let mut wrong = Vec::new();
    for (part, allowed) in ARROWS {
        for (path, text) in sources(part) {
            for (n, line) in code(&text) {
                for used in line.split("crate::").skip(1) {
                    // A braced list names several parts at once.
                    let names: Vec<&str> =
                        if let Some(list) = used.strip_prefix('{') { list.split(',').map(str::trim).collect() } else { vec![used] };
                    for name in names {
                        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
                        if name != part && !allowed.contains(&name) && !name.is_empty() {
                            wrong.push(format!("{}:{n}: {part} uses {name}", path.display()));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_core_does_no_io() {
    let mut wrong = Vec::new();
    for (part, _) in ARROWS {
        for (path, text) in sources(part).into_iter().filter(|(path, _)| !is_store(path)) {
            for (n, line) in code(&text) {
                wrong.extend(IO.iter().filter(|io| line.contains(**io)).map(|io| format!("{}:{n}: {io}", path.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A provider's name in a strategy, or a strategy's in a wire format, is a seam in the wrong place.
#[test]
fn no_strategy_knows_a_provider_and_no_format_a_strategy() {
    let strategies = ["elide", "microcompact", "shrink_arguments", "cull", "digest", "fold", "trim_tail"];
    let mut wrong = Vec::new();
    for (path, text) in sources("compact")
        .into_iter()
        .filter(|(path, _)| path.file_stem().is_some_and(|stem| strategies.contains(&stem.to_string_lossy().as_ref())))
    {
        for (n, line) in code(&text) {
            for name in ["Format::Chat", "Format::Messages", "Format::Responses", "anthropic", "openai"] {
                if line.to_lowercase().contains(&name.to_lowercase()) {
                    wrong.push(format!("{}:{n}: {name}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
