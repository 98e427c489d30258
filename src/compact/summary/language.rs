//! Which language a text is in, as far as it takes to tell that a summary is in another one.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Letters of a script, or function words of a language, before anything is said of a text.
const LEAST_LETTERS: usize = 40;
const LEAST_WORDS: usize = 8;
/// Text that is looked at, in bytes.
const LOOKED_AT: usize = 32 << 10;

/// The language of a text, where it can be told; languages of the same script are told by their function words.
pub fn of(text: &str) -> Option<&'static str> {
    let text = super::words::head(text, LOOKED_AT);
    let mut scripts: [usize; 8] = [0; 8];
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        scripts[script(c)] += 1;
    }
    let letters: usize = scripts.iter().sum();
    // One Chinese character says as much as several Latin letters, and text in any language is full of Latin names.
    let weight = |script: usize| if script == LATIN { scripts[script] } else { 3 * scripts[script] };
    let most = (0..scripts.len()).max_by_key(|script| weight(*script))?;
    if letters < LEAST_LETTERS || 2 * weight(most) < (0..scripts.len()).map(weight).sum::<usize>() {
        return None;
    }
    match most {
        LATIN => by_words(text),
        // Japanese is Chinese characters with kana between them.
        HAN if 10 * scripts[KANA] > scripts[HAN] => Some(NAMES[KANA]),
        _ => Some(NAMES[most]),
    }
}

const LATIN: usize = 0;
const HAN: usize = 1;
const KANA: usize = 2;
const NAMES: [&str; 8] = ["latin", "zh", "ja", "ko", "cyrillic", "arabic", "thai", "other"];

fn script(c: char) -> usize {
    match c as u32 {
        0x41..=0x24F | 0x1E00..=0x1EFF => LATIN,
        0x3400..=0x9FFF | 0x20000..=0x3134F | 0xF900..=0xFAFF => HAN,
        0x3040..=0x30FF | 0xFF66..=0xFF9F => KANA,
        0xAC00..=0xD7AF | 0x1100..=0x11FF => 3,
        0x400..=0x52F => 4,
        0x590..=0x77F => 5,
        0xE00..=0xE7F => 6,
        _ => 7,
    }
}

/// Function words that belong to one language of Latin script alone.
static WORDS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let mut words: HashMap<&str, Option<&str>> = HashMap::new();
    for line in include_str!("../digest/words/stop.txt").lines().filter(|line| !line.starts_with('#')) {
        let Some((name, list)) = line.split_once(':') else { continue };
        for word in list.split_whitespace() {
            words.entry(word).and_modify(|known| *known = known.filter(|known| *known == name)).or_insert(Some(name));
        }
    }
    words.into_iter().filter_map(|(word, name)| Some((word, name?))).collect()
});

fn by_words(text: &str) -> Option<&'static str> {
    let mut hits: HashMap<&str, usize> = HashMap::new();
    for word in text.split(|c: char| !c.is_alphabetic() && c != '\'') {
        if let Some(name) = WORDS.get(word.to_lowercase().as_str()) {
            *hits.entry(name).or_default() += 1;
        }
    }
    let (name, most) = hits.iter().max_by_key(|(name, hits)| (**hits, **name)).map(|(name, hits)| (*name, *hits))?;
    (most >= LEAST_WORDS && 3 * most > 2 * hits.values().sum::<usize>()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_where_there_is_enough_of_them() {
        let check = |text: &str, language: Option<&str>| assert_eq!(of(text), language, "{text}");
        check(
            "The user wants that the file is not changed because it is used by the others, and they have asked for it to be kept as it was.",
            Some("en"),
        );
        check(
            "Die Datei darf nicht geändert werden, weil sie von den anderen benutzt wird, und der Nutzer will, dass sie so bleibt, wie sie war.",
            Some("de"),
        );
        check(
            "用户要求不要修改配置文件，因为其他服务正在使用它。所有的数据库迁移都必须先在测试环境中运行，然后才能部署到生产环境。",
            Some("zh"),
        );
        check(
            "ユーザーは設定ファイルを変更しないように求めています。他のサービスがそれを使っているからです。すべて確認してください。",
            Some("ja"),
        );
        check(
            "Пользователь просит не менять файл настроек, потому что им пользуются другие службы, и всё должно остаться как было.",
            Some("cyrillic"),
        );
        check("OK", None);
        check("src/lib.rs src/main.rs cargo test --all fn main struct impl pub mod use crate", None);
    }
}
