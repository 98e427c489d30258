//! Conversations written by hand (`tests/fixtures/digest/stories`), spread over filler. They are held out: nothing is tuned on them.

use std::path::Path;

use super::conversation::{Conversation, Dice, Gone, Who};

pub fn conversations(seeds: std::ops::Range<u64>) -> Vec<Conversation> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/digest/stories");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the stories are there")
        .filter_map(Result::ok)
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 10, "stories found: {}", files.len());
    files.iter().flat_map(|file| seeds.clone().map(|seed| read(file, seed))).collect()
}

fn read(file: &Path, seed: u64) -> Conversation {
    let script = std::fs::read_to_string(file).expect("a story reads");
    let mut talk =
        Conversation { name: format!("{}/{seed}", file.file_stem().unwrap_or_default().to_string_lossy()), ..Conversation::default() };
    let mut dice = Dice::new(seed + 77);
    for line in script.lines() {
        if let Some(more) = line.strip_prefix("  ") {
            let last = talk.messages.last_mut().expect("a message to continue");
            last.text.push('\n');
            last.text.push_str(more);
        } else if let Some(fact) = line.strip_prefix("= ") {
            let (kind, keys) = fact.split_once(": ").expect("kind: keys");
            talk.plant(kind, &keys.split(" | ").map(str::trim).collect::<Vec<_>>());
        } else if let Some(kind) = line.strip_prefix("- ") {
            let at = talk.messages.len() - 1;
            talk.facts.iter_mut().filter(|f| f.kind == kind).for_each(|f| f.until = at);
        } else if let Some(text) = line.strip_prefix("x ") {
            talk.gone.push(Gone { from: talk.messages.len() - 1, text: text.to_owned() });
        } else if let Some(rounds) = line.strip_prefix("~ ") {
            for _ in 0..rounds.trim().parse::<usize>().expect("a number of rounds") {
                filler(&mut talk, &mut dice);
            }
        } else if let Some((who, text)) = line.split_once(": ") {
            let tool = who.split_once(' ').map_or("", |(_, tool)| tool).to_owned();
            match who.split(' ').next() {
                Some("user") => talk.push(Who::User, text),
                Some("assistant") => talk.push(Who::Assistant, text),
                Some("call") => talk.push(Who::Call(tool), text),
                Some("result") => talk.push(Who::Result(tool, false), text),
                Some("failed") => talk.push(Who::Result(tool, true), text),
                other => panic!("unknown line {other:?} in {}", file.display()),
            }
        }
    }
    talk
}

/// A round of work that says nothing that binds, with the clutter of real sessions: pasted logs, listings, long answers, small talk.
fn filler(talk: &mut Conversation, dice: &mut Dice) {
    match dice.roll(5) {
        0 => {
            talk.push(Who::User, "Here's what the terminal shows right now:\n```\n$ ls -la build\ndrwxr-xr-x  12 ci  ci   384 Mar  2 09:14 objects\n-rw-r--r--   1 ci  ci  5120 Mar  2 09:14 manifest\n```");
            talk.push(Who::Assistant, "Thanks. The listing is what I would expect after a clean build, with the objects folder next to the manifest. There is nothing unusual in the dates or the sizes, so I will carry on with the plan and look at the next step of the pipeline.");
        }
        1 => {
            talk.push(Who::Assistant, "Reading another module to see how it is wired.");
            let name = ["queue", "render", "locale", "mailer", "search"][dice.roll(5)];
            talk.push(Who::Call("read".into()), format!("{{\"path\":\"lib/{name}/index.ts\"}}"));
            let body: Vec<String> = (0..25 + dice.roll(40))
                .map(|i| {
                    format!(
                        "export const {name}{i} = (input: Input{i}) => transform(input, {{ depth: {}, strict: {} }});",
                        dice.roll(9),
                        dice.roll(2) == 0
                    )
                })
                .collect();
            talk.push(Who::Result("read".into(), false), body.join("\n"));
        }
        2 => {
            talk.push(
                Who::User,
                dice.pick(&[
                    "My neighbour's dog barked all night, I'm running on coffee.",
                    "Sorry, had to take a call, back now.",
                    "That was quicker than I thought.",
                    "Ha, fair enough.",
                ])
                .to_string(),
            );
            talk.push(Who::Assistant, "No problem at all. Let me summarise where we are in general terms: the structure is clear, the pieces fit together, and the remaining work is mostly mechanical. I will continue step by step and show you each change before moving further along.");
        }
        3 => {
            talk.push(Who::Call("search".into()), "{\"query\":\"handlers\"}");
            let hits: Vec<String> = (0..12 + dice.roll(20))
                .map(|i| format!("lib/area{}/handler_{i}.ts:{}: register(handler_{i})", dice.roll(7), dice.roll(300)))
                .collect();
            talk.push(Who::Result("search".into(), false), hits.join("\n"));
            talk.push(Who::Assistant, "Many handlers, all registered in the same way.");
        }
        _ => {
            talk.push(
                Who::User,
                dice.pick(&["And what does that mean for us?", "Which of these did you look at?", "How long will this take?"]).to_string(),
            );
            talk.push(Who::Assistant, "It means we can go on as planned. I went through the obvious candidates and each of them behaves the way its name says. Nothing here needs a decision from you at the moment, and I would rather keep going than stop for a discussion of details that may turn out not to matter.");
        }
    }
}
