//! Answers that turn down what the assistant asked leave for: "No." binds, and says nothing without its question.

use super::corrections::refuses;
use super::statements::{Speaker, Statement};

/// Bytes of an answer that needs its question, and words that it may have of its own.
const SHORT: usize = 60;
const WORDS: usize = 1;

/// Puts questions before the answers that refuse them, each pair as one statement of the user.
pub(crate) fn join(statements: &mut Vec<Statement>) {
    let mut joined = Vec::with_capacity(statements.len());
    let mut rest = std::mem::take(statements).into_iter().peekable();
    while let Some(statement) = rest.next() {
        let mut message = vec![statement];
        while let Some(next) = rest.next_if(|next| (next.place, next.note) == (message[0].place, message[0].note)) {
            message.push(next);
        }
        match joined.last().filter(|asked| is_refusal(&message) && asks(asked)) {
            Some(asked) => joined.push(with_question(asked, message)),
            None => joined.extend(message),
        }
    }
    *statements = joined;
}

fn asks(statement: &Statement) -> bool {
    statement.speaker == Speaker::Assistant && statement.subject.question && !statement.subject.words.is_empty()
}

fn is_refusal(message: &[Statement]) -> bool {
    let is_short = message.iter().map(|said| said.text.len()).sum::<usize>() <= SHORT;
    let says_little = |said: &Statement| !said.kept && !said.earlier && said.subject.values.is_empty() && said.subject.words.len() <= WORDS;
    is_short
        && message.iter().all(|said| said.speaker == Speaker::User && says_little(said))
        && message.iter().any(|said| said.subject.marks.negation || refuses(&said.text))
}

/// One sentence, so that it stays one where these notes are read again.
fn with_question<'t>(asked: &Statement<'t>, message: Vec<Statement<'t>>) -> Statement<'t> {
    let question = asked.text.trim_end_matches(|c: char| !c.is_alphanumeric());
    let answer: Vec<&str> = message.iter().map(|said| &*said.text).collect();
    let said = Statement::said(message[0].place, Speaker::User, format!("“{question}” — {}", answer.join(" ")));
    let Statement { note, line, .. } = message[0];
    let mut joined = Statement { note, line, ..said };
    joined.subject.question = false;
    joined.subject.marks.negation = true;
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(messages: &[(Speaker, &'static str)]) -> Vec<String> {
        let mut statements: Vec<Statement> =
            messages.iter().enumerate().map(|(place, (speaker, text))| Statement::said(place, *speaker, *text)).collect();
        join(&mut statements);
        statements.into_iter().map(|statement| statement.text.into_owned()).collect()
    }

    #[test]
    fn a_refusal_keeps_its_question() {
        use Speaker::{Assistant, User};
        for (question, answer) in [
            ("Shall I delete the table t1 now?", "No."),
            ("Shall I delete the table t1 now?", "No, never."),
            ("May I touch keel.conf?", "You may not."),
            ("May I use tabs?", "Never!"),
            ("Should I go ahead with the deletion?", "Don't."),
            ("May I delete the backups?", "Under no circumstances."),
            ("Soll ich die Tabelle löschen?", "Nein."),
            ("¿Borro la tabla de clientes?", "No."),
            ("要不要删除备份？", "不要。"),
        ] {
            let question_alone = question.trim_end_matches(['?', '？']);
            assert_eq!(said(&[(Assistant, question), (User, answer)])[1], format!("“{question_alone}” — {answer}"));
        }
    }

    #[test]
    fn what_says_something_or_answers_nothing_stays_as_it_is() {
        use Speaker::{Assistant, User};
        for (before, answer) in [
            ("Shall I delete the table?", "Yes."),
            ("The table is gone.", "No."),
            ("Shall I delete the table?", "No, keep the old rows and rename the table first."),
        ] {
            assert_eq!(said(&[(Assistant, before), (User, answer)]), [before, answer]);
        }
    }
}
