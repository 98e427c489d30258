//! What is still known after compaction, in tables: `cargo test --test evaluation`, without a network.
//!
//! Facts planted in generated conversations (`survival`), evidence in real transcripts (`corpora`), and what compaction does to a provider's prompt cache
//! (`cache`). With a model at hand, `cargo test --test evaluation -- --base URL --model NAME` holds its summaries against the same facts (`summaries`).
//! A word narrows the run to the parts whose name it is in. An aim that is missed is named at the end, and the run fails.

mod cache;
#[path = "../digest/conversation.rs"]
#[allow(dead_code, reason = "shared with the digest's tests, which use the rest")]
mod conversation;
mod corpora;
mod request;
#[path = "../digest/scenes.rs"]
mod scenes;
#[path = "../digest/stories.rs"]
mod stories;
mod summaries;
mod survival;
mod table;
#[path = "../digest/templates.rs"]
mod templates;

use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo test --test evaluation -- [PART]... [--base URL --model NAME [--conversations N] [--window TOKENS]]

Parts: survival, corpora, cache, summaries
  --base URL           an OpenAI-compatible server, for the part `summaries`; its key is read from OPENAI_API_KEY
  --model NAME         the model that writes summaries
  --conversations N    how many conversations it is asked about [default: 9]
  --window TOKENS      the model's window [default: 32768]";

type Part = (&'static str, fn(&Arguments) -> Vec<String>);

const PARTS: [Part; 4] =
    [("survival", |_| survival::run()), ("corpora", |_| corpora::run()), ("cache", |_| cache::run()), ("summaries", summaries::run)];

#[derive(Default)]
pub struct Arguments {
    pub base: Option<String>,
    pub model: Option<String>,
    pub conversations: Option<usize>,
    pub window: Option<u64>,
    parts: Vec<String>,
    list: bool,
}

impl Arguments {
    /// Flags of the standard test harness are taken for nothing, as `cargo test` hands the same ones to every target.
    fn read(words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--base" => arguments.base = Some(value()?),
                "--model" => arguments.model = Some(value()?),
                "--conversations" => arguments.conversations = Some(number(&value()?)?),
                "--window" => arguments.window = Some(number(&value()?)? as u64),
                "--help" | "-h" => return Err(HELP.into()),
                "--list" => arguments.list = true,
                "--test-threads" | "--format" | "--color" | "--skip" => drop(value()?),
                flag if flag.starts_with('-') => {}
                _ => arguments.parts.push(word),
            }
        }
        if arguments.base.is_some() != arguments.model.is_some() {
            return Err("--base and --model go together".into());
        }
        Ok(arguments)
    }
}

fn number(word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(u8::from(message != HELP) * 2);
        }
    };
    let mut missed = Vec::new();
    for (name, run) in PARTS {
        if arguments.list {
            println!("{name}: test");
        } else if arguments.parts.is_empty() || arguments.parts.iter().any(|part| name.contains(part.as_str())) {
            missed.extend(run(&arguments).into_iter().map(|aim| format!("{name}: {aim}")));
        }
    }
    for aim in &missed {
        println!("missed: {aim}");
    }
    ExitCode::from(u8::from(!missed.is_empty()))
}
