//! Counts are what the providers' own tokenizer says, on any text; estimates are near, and behave.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

use plimsoll::tokens::Tokenizer::{self, Cl100k, Estimate, O200k};
use proptest::prelude::*;
use serde_json::Value;
use tiktoken_rs::CoreBPE;

/// What OpenAI's vocabulary makes of a text. On some long runs the oracle gives up, so it is not asked about those.
fn oracle(tokenizer: Tokenizer) -> &'static CoreBPE {
    match tokenizer {
        O200k => tiktoken_rs::o200k_base_singleton(),
        _ => tiktoken_rs::cl100k_base_singleton(),
    }
}

#[track_caller]
fn check(text: &str) {
    for tokenizer in [O200k, Cl100k] {
        let expected = oracle(tokenizer).encode_ordinary(text).len();
        assert_eq!(tokenizer.count(text), expected, "{tokenizer:?} of {:?}", text.chars().take(200).collect::<String>());
    }
}

/// The texts of conversations recorded or collected elsewhere, where they are there, each text once.
fn shared(folder: &str) -> Vec<(String, Vec<String>)> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).join("shared");
    let root = env::var_os("PLIMSOLL_SHARED").map_or_else(beside, PathBuf::from).join(folder);
    let (mut folders, mut files) = (vec![root.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|extension| extension == "json") => files.push(path),
                false => {}
            }
        }
    }
    if files.is_empty() {
        println!("skipped: nothing in {}", root.display());
    }
    files.sort();
    let mut known = HashSet::new();
    let read = |path: PathBuf| {
        let mut texts = Vec::new();
        if let Ok(json) = serde_json::from_slice(&fs::read(&path).unwrap()) {
            collect(&json, &mut texts);
        }
        texts.retain(|text| known.insert(text.clone()));
        (path.file_name().unwrap().to_string_lossy().into_owned(), texts)
    };
    files.into_iter().map(read).collect()
}

/// All strings but pictures.
fn collect(json: &Value, texts: &mut Vec<String>) {
    match json {
        Value::String(text) if !text.starts_with("data:") => texts.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
        Value::Object(members) if members.get("type").is_none_or(|kind| kind != "base64") => {
            members.values().for_each(|value| collect(value, texts))
        }
        _ => {}
    }
}

#[test]
fn counts_are_exact_on_real_conversations() {
    for (_, texts) in shared("corpora").iter().chain(&shared("captures")) {
        texts.iter().for_each(|text| check(text));
    }
}

#[test]
fn counts_are_exact_on_the_texts_of_many_languages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokens");
    let mut found = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        check(&text);
        check(&text.replace('\n', "\r\n"));
        text.split_inclusive(char::is_whitespace).for_each(check);
        found += 1;
    }
    assert!(found >= 3);
}

#[test]
fn counts_are_exact_for_every_character() {
    let characters: Vec<char> = (0..=char::MAX as u32).filter_map(char::from_u32).collect();
    for some in characters.chunks(4096) {
        check(&some.iter().collect::<String>());
        check(&some.iter().map(|char| format!(" {char}a {char}A{char}-{char}'s 1{char}\n{char}")).collect::<String>());
    }
}

/// One kind of text, a megabyte of it, and its tokens in both vocabularies, as `tiktoken` counts them where it can.
static HOSTILE: LazyLock<Vec<(&str, String, usize, usize)>> = LazyLock::new(|| {
    let megabyte = |unit: &str| unit.repeat((1 << 20) / unit.len());
    let noise = |letters: &str| {
        let (letters, mut state) = (letters.as_bytes(), 1u64);
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            letters[(state >> 33) as usize % letters.len()] as char
        };
        (0..1 << 20).map(|_| letter()).collect::<String>()
    };
    vec![
        ("letters", megabyte("a"), 131_072, 131_072),
        ("spaces", megabyte(" "), 8_192, 8_192),
        ("tabs", megabyte("\t"), 0, 0),
        ("newlines", megabyte("\n"), 65_536, 32_768),
        ("spaces and newlines", megabyte("  \n"), 0, 0),
        ("dashes", megabyte("-"), 16_384, 16_384),
        ("rulers", megabyte("|-----------------------------------------------------------------------------------------------"), 0, 0),
        ("digits", megabyte("7"), 349_526, 349_526),
        ("combining marks", megabyte("\u{301}"), 524_288, 524_288),
        ("a letter and marks", megabyte("e\u{301}\u{302}"), 0, 0),
        ("apostrophes", megabyte("'s"), 0, 0),
        ("capitals and ideographs", megabyte("漢ABC"), 0, 0),
        ("emoji", megabyte("👩‍👩‍👧‍👦"), 0, 0),
        ("special tokens", megabyte("<|endoftext|><|im_start|>"), 0, 0),
        ("base64", noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"), 0, 0),
        ("random letters", noise("abcdefghijklmnopqrstuvwxyz"), 0, 0),
        ("random rulers", noise("-=_*#~"), 0, 0),
        ("nothing", megabyte("\0"), 524_288, 1_048_576),
    ]
});

#[test]
fn hostile_texts_are_counted_exactly() {
    for (kind, text, o200k, cl100k) in HOSTILE.iter() {
        let (found, of_cl100k) = (O200k.count(text), Cl100k.count(text));
        if *o200k > 0 {
            assert_eq!((found, of_cl100k), (*o200k, *cl100k), "{kind}");
        }
        assert!(found <= text.len() && of_cl100k <= text.len(), "{kind}");
        // The oracle is slow on these, so it sees a part, cut at many places.
        let end = |at: usize| text.floor_char_boundary(at);
        (20_000..20_016).step_by(8).for_each(|at| check(&text[..end(at)]));
        (0..300).for_each(|at| check(&text[end(at)..end(2 * at)]));
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,12}", 2 => "[A-Z]?[a-z]{0,9}", 1 => "[A-Z]{1,6}", 2 => "[0-9]{1,8}",
        2 => " {1,20}", 1 => "[ \t\r\n]{1,9}", 1 => "(\r\n|\n){1,5}", 1 => r"\s{1,4}",
        1 => "'(s|S|t|re|RE|ve|Ve|m|ll|lL|d|D|ſ|x|)", 2 => "[!-/:-@\\[-`{-~]{1,9}", 1 => "[-=_*#~./]{8,150}",
        1 => r"\p{Han}{1,9}", 1 => r"[\p{Hiragana}\p{Katakana}\p{Hangul}]{1,9}", 1 => r"[\p{Arabic}\p{Devanagari}\p{Cyrillic}\p{Thai}]{1,9}",
        1 => r"\p{M}{1,4}", 1 => r"[\p{Lt}\p{Lm}\p{Lo}]{1,5}", 1 => r"\p{Lu}\p{M}?\p{Ll}{0,3}", 1 => r"\p{N}{1,5}", 1 => r"\p{Emoji}{1,4}",
        1 => "<\\|(endoftext|im_start|fim_prefix|endofprompt)\\|>", 1 => ".{1,9}", 1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_are_exact_on_any_text(text in any_text()) {
        check(&text);
    }

    #[test]
    fn estimates_grow_with_a_text_and_its_parts_are_no_less_than_the_whole(a in any_text(), b in any_text()) {
        let (of_a, of_b, of_both) = (Estimate.count(&a), Estimate.count(&b), Estimate.count(&format!("{a}{b}")));
        prop_assert!(of_a <= of_both && of_both <= of_a + of_b, "{} {} {}", of_a, of_b, of_both);
        prop_assert_eq!(of_both == 0, a.is_empty() && b.is_empty());
    }
}

/// The measure that conversations are commonly sized by: a quarter token an ASCII character, one a character of Chinese, Japanese or
/// Korean, half a token for every other UTF-16 unit.
fn yardstick(text: &str) -> f64 {
    let weight = |char: char| match char {
        '\0'..='\x7f' => 0.25,
        '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' => 1.0,
        other => 0.5 * other.len_utf16() as f64,
    };
    text.chars().map(weight).sum()
}

#[test]
fn estimates_are_near_on_real_conversations() {
    for (file, texts) in shared("corpora") {
        let sum = |count: &dyn Fn(&str) -> f64| texts.iter().map(|text| count(text)).sum::<f64>();
        let estimate = sum(&|text| Estimate.count(text) as f64);
        let (of_exact, of_yardstick) = (estimate / sum(&|text| O200k.count(text) as f64), estimate / sum(&yardstick));
        println!("{file}: {of_exact:.2} of o200k, {of_yardstick:.2} of the yardstick");
        if texts.iter().map(String::len).sum::<usize>() > 10_000 {
            assert!((0.75..1.2).contains(&of_exact) && (0.97..1.1).contains(&of_yardstick), "{file}: {of_exact:.2}, {of_yardstick:.2}");
        }
    }
}

#[test]
fn estimates_know_ideographs() {
    let check = |text: &str, bytes_a_token: std::ops::Range<f64>| {
        let chars = text.chars().count() as f64 / Estimate.count(text) as f64;
        assert!(bytes_a_token.contains(&chars), "{chars:.2} characters a token in {text}");
    };
    check("可以看到这个函数在每次请求时都会重新读取配置文件因此性能很差", 0.95..1.01);
    check("このプログラムはリクエストのたびに設定ファイルを読み直します", 0.95..1.01);
    check("이 함수는 요청할 때마다 설정 파일을 다시 읽습니다", 1.0..1.6);
    check("The function reads its configuration again for every request, which is slow.", 3.5..4.1);
}
