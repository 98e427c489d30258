//! Whether a summary holds what a request is about.
//!
//! A record words a request in its own way and in fewer words, so it is told by the words, names and values that both have. One of them here and another
//! there is chance, in a text about the same conversation: enough of them have to stand in one line, or nearly all of them somewhere.

use crate::compact::digest::{About, about, said};

/// The part of what is asked that a line has to hold, and the part that the whole has to where no line does.
const IN_A_LINE: f64 = 0.3;
const IN_ALL: f64 = 0.65;
/// Shared words that are no chance, where the request has as many.
const LEAST: usize = 2;

pub fn is_held(ask: &str, summary: &str) -> bool {
    let asked = asked(ask);
    if asked.is_empty() {
        return true;
    }
    let least = LEAST.min(asked.len());
    let holds = |text: &About, share: f64| {
        let (shared, weight) = asked.shared(text);
        shared >= least && weight >= share * asked.weight()
    };
    let mut all = About::default();
    for line in summary.lines().filter(|line| super::template::heading(line).is_none()) {
        let line = about(line);
        if holds(&line, IN_A_LINE) {
            return true;
        }
        all.add(line);
    }
    holds(&all, IN_ALL)
}

/// What the sentences of a message are about that ask for something; all of them where none does.
fn asked(ask: &str) -> About {
    let (mut asks, mut all) = (About::default(), About::default());
    for sentence in said(ask) {
        let about = about(&sentence);
        if about.asks {
            asks.add(about.clone());
        }
        all.add(about);
    }
    if asks.is_empty() { all } else { asks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_in_other_words_holds_the_request() {
        let check = |ask: &str, summary: &str| assert!(is_held(ask, summary), "{ask} / {summary}");
        check("Please write the regression test for flush_batch.", "## Asks\n- A regression test for flush_batch is to be written.");
        check("Great. Can you now make the header sticky on phones?", "- Next: sticky header on phones.");
        check("Kannst du bitte noch die Kopfzeile auf Telefonen fixieren?", "- Die Kopfzeile soll auf Telefonen fixiert bleiben.");
        check("请把登录页面的按钮改成蓝色。", "- 登录页面的按钮要改为蓝色");
        check("ログイン画面のボタンを青にしてください。", "- ログイン画面のボタンを青くする");
        check("Добавь, пожалуйста, тёмную тему на страницу настроек.", "- Нужна тёмная тема на странице настроек.");
        check("ok", "- Nothing is open.");
    }

    #[test]
    fn stray_words_of_it_do_not() {
        let check = |ask: &str, summary: &str| assert!(!is_held(ask, summary), "{ask} / {summary}");
        let stray =
            "## Decisions\n- Keep SQLite, the tests need no server.\n- Batches are small.\n## Open\n- Port the store and write docs.";
        check("Please write the regression test for flush_batch in the nightly importer.", stray);
        check(
            "Why does the settings page lose the theme after a reload?",
            "- The page was read.\n- A theme is a file.\n- Nothing to reload.",
        );
        check("请把登录页面的按钮改成蓝色。", "- 页面已经读取\n- 数据库连接超时");
    }
}
