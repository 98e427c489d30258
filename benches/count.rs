//! How fast tokens are counted, beside `tiktoken-rs` on the same text: `cargo bench --bench count`.
//!
//! Throughputs are in bytes of text. Set `PLIMSOLL_SHARED` to measure recorded conversations as well.

use std::{env, fs, hint::black_box, path::Path};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use plimsoll::tokens::{Tokenizer, images, unescape};

/// A source of numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn text(&mut self, alphabet: &str, len: usize) -> String {
        let alphabet: Vec<char> = alphabet.chars().collect();
        (0..len).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

/// What agents send: this crate's own sources and tables, as a reading agent would get them.
fn agent() -> String {
    let mut text = String::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), Path::new(env!("CARGO_MANIFEST_DIR")).join("config")];
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            match fs::read_to_string(&path) {
                Ok(file) => file.lines().enumerate().for_each(|(number, line)| text += &format!("{:>6}\t{line}\n", number + 1)),
                Err(_) => folders.push(path),
            }
        }
    }
    text
}

fn texts() -> Vec<(String, String)> {
    let mut numbers = Numbers(7);
    let megabyte = |unit: &str| unit.repeat((1 << 20) / unit.len());
    let mut texts = vec![
        ("agent/sources".to_owned(), agent()),
        ("cjk".to_owned(), numbers.text("的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经、，。", 300_000)),
        ("hostile/letter".to_owned(), megabyte("a")),
        ("hostile/spaces".to_owned(), megabyte(" ")),
        ("hostile/newlines".to_owned(), megabyte("\n")),
        ("hostile/dashes".to_owned(), megabyte("-")),
        ("hostile/rulers".to_owned(), megabyte(&format!("|{}", "-".repeat(113)))),
        ("hostile/digits".to_owned(), megabyte("7")),
        ("hostile/marks".to_owned(), megabyte("\u{301}")),
        ("hostile/base64".to_owned(), numbers.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 1 << 20)),
        ("hostile/letters".to_owned(), numbers.text("abcdefghijklmnopqrstuvwxyz", 1 << 20)),
        ("hostile/symbols".to_owned(), numbers.text("-=_*#~", 1 << 20)),
        ("hostile/special".to_owned(), megabyte("<|endoftext|>")),
    ];
    if let Some(shared) = env::var_os("PLIMSOLL_SHARED") {
        for file in ["pi-refactor.anthropic.json", "pair-programming.chat.json", "stack-traces.chat.json", "zh-code-review.anthropic.json"]
        {
            let json = fs::read_to_string(Path::new(&shared).join("corpora").join(file)).unwrap();
            texts.push((format!("agent/{file}"), unescape(&json).into_owned()));
        }
    }
    texts
}

fn count(criterion: &mut Criterion) {
    // The oracle makes whole lists of tokens, panics on long runs of spaces, and takes seconds on other hostile text.
    let oracle = tiktoken_rs::o200k_base_singleton();
    for (name, text) in texts() {
        let mut group = criterion.benchmark_group(&name);
        group.throughput(Throughput::Bytes(text.len() as u64)).sample_size(10).sampling_mode(SamplingMode::Flat);
        group.bench_function("o200k", |bencher| bencher.iter(|| Tokenizer::O200k.count(black_box(&text))));
        group.bench_function("cl100k", |bencher| bencher.iter(|| Tokenizer::Cl100k.count(black_box(&text))));
        group.bench_function("estimate", |bencher| bencher.iter(|| Tokenizer::Estimate.count(black_box(&text))));
        if !name.starts_with("hostile") {
            group.bench_function("tiktoken-rs", |bencher| bencher.iter(|| oracle.count_ordinary(black_box(&text))));
        }
        group.finish();
    }
}

/// A message of a few hundred bytes, where what a call costs counts.
fn small(criterion: &mut Criterion) {
    let text = "I'll check how `parse_config` handles a missing section, then fix the failing test in tests/config.rs:142.";
    let picture = format!("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAABQAAAAPACAYAAAA{}", "A".repeat(1 << 20));
    criterion.bench_function("small/o200k", |bencher| bencher.iter(|| Tokenizer::O200k.count(black_box(text))));
    criterion.bench_function("small/picture", |bencher| {
        bencher.iter(|| images::price(black_box("claude-opus-4-7"), images::Source::Base64(black_box(&picture)), None))
    });
}

criterion_group!(benches, count, small);
criterion_main!(benches);
