//! What holds for any input.

use std::borrow::Cow;

use plimsoll::compact::digest::evidence::is_error;
use plimsoll::compact::digest::{Passage, Scope, Voice, digest};
use proptest::prelude::*;

use super::conversation::count;

/// Texts of every kind: prose with values, marks of structure, other scripts, control characters, what a digest itself looks like.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "Never push to main. ",
        "The limit is 42 MB. ",
        "The limit is 43 MB.\n",
        "ok ",
        "port 8081, not 8080; ",
        "Use tabs instead!\n",
        "单批最多500行。",
        "タイムアウトは30秒です。",
        "타임아웃은 30초. ",
        "Нельзя! ",
        "👨‍👩‍👧‍👦",
        "e\u{301}\u{301}\u{301}",
        "\u{1b}[31m",
        "\0",
        "\r\n",
        "```\n",
        "<system-reminder>",
        "</system-reminder>",
        "- item\n",
        "error: x:1:2\n",
        "Traceback (most recent call last):\n",
        "ValueError: y 7\n",
        "[plimsoll: notes on 3 earlier messages\n",
        "## User said\n",
        "## Errors (quoted tool output)\n",
        "  | quoted\n",
        "{\"path\":\"src/a.rs\"}",
        "{\"command\":[\"sh\",\"-c\",\"rm a.txt > /tmp/b\"]}",
        "https://a.example/b?c=1 ",
        "sk-abcdefgh01234567 ",
        "… ",
        "¿Qué? ",
        "a.b.c.d:99999 ",
        "2024-05-01T10:00:00Z ERROR z=1\n",
        "/// ",
        "' ",
        "\" ",
        "١٢٣ ",
        "ไม่ควร",
    ]);
    prop_oneof![
        4 => prop::collection::vec(pieces, 0..14).prop_map(|p| p.concat()),
        1 => any::<String>(),
        1 => "[ -~\n]{0,200}",
    ]
}

#[derive(Clone, Debug)]
enum Who {
    User,
    Assistant,
    Call,
    Result(bool),
}

fn passages() -> impl Strategy<Value = Vec<(usize, Who, String)>> {
    let who = prop_oneof![3 => Just(Who::User), 2 => Just(Who::Assistant), 1 => Just(Who::Call), 1 => any::<bool>().prop_map(Who::Result)];
    prop::collection::vec((0usize..2, who, text()), 0..14).prop_map(|steps| {
        let mut place = 0;
        steps
            .into_iter()
            .map(|(step, who, text)| {
                place += step;
                (place, who, text)
            })
            .collect()
    })
}

fn borrowed(made: &[(usize, Who, String)]) -> Vec<Passage<'_>> {
    let voice = |who: &Who| match who {
        Who::User => Voice::User,
        Who::Assistant => Voice::Assistant,
        Who::Call => Voice::Call { tool: "bash" },
        Who::Result(failed) => Voice::Result { tool: "bash", failed: *failed },
    };
    made.iter().map(|(place, who, text)| Passage { place: *place, voice: voice(who), call_id: "", text: Cow::Borrowed(text) }).collect()
}

fn plain(text: &str) -> String {
    // The stroke between lines may meet one of the text's own.
    text.replace('/', " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_digest_keeps_to_its_budget_repeats_itself_and_quotes_word_for_word(covered in passages(), kept in passages(), budget in 0usize..400) {
        let (covered_passages, kept_passages) = (borrowed(&covered), borrowed(&kept));
        let scope = Scope { covered: &covered_passages, kept: &kept_passages };
        let made = digest(&scope, budget, &count);
        prop_assert!(made.tokens <= budget && made.tokens == count(&made.text));
        prop_assert_eq!(&made, &digest(&scope, budget, &count));
        prop_assert!(made.text.is_empty() || made.text.starts_with("[plimsoll"));
        let said = |made: &[(usize, Who, String)], wanted: fn(&Who) -> bool| {
            plain(&made.iter().filter(|(_, who, _)| wanted(who)).map(|(.., text)| text.as_str()).collect::<Vec<_>>().join("\n"))
        };
        let source = said(&covered, |who| matches!(who, Who::User));
        let asked = said(&[covered.clone(), kept.clone()].concat(), |who| matches!(who, Who::Assistant));
        let user = made.text.split("\n## ").filter(|section| section.starts_with("User said") || section.starts_with("Open asks"));
        for line in user.flat_map(|section| section.lines().skip(1)) {
            let line = line.trim_start_matches("- ");
            // An answer stands behind the question that it answers, which is quoted.
            let answers = line.starts_with('“');
            let pieces = line.split('…').flat_map(|part| part.split("[masked]")).flat_map(|part| part.split(" / "));
            let pieces = pieces.flat_map(|part| part.split(['“', '”'])).map(|piece| piece.trim_start_matches(" — "));
            for piece in pieces {
                // Where room is short, of a mask its brackets may be left.
                let piece = piece.trim_matches(['[', ']']);
                let quoted = piece == "masked" || (answers && asked.contains(&plain(piece)));
                prop_assert!(quoted || source.contains(&plain(piece)), "{:?} is nowhere in {:?}", piece, source);
            }
        }
    }

    #[test]
    fn error_evidence_is_judged_without_panic(output in text(), failed: bool) {
        prop_assert!(is_error(&output, failed) || !failed);
    }
}
