//! Conversations in which nearly everything resembles something that it must not replace: several entities share their attributes, several
//! attributes share a unit, some values change in other words, the assistant echoes values, the user chats in numbers and pastes logs.

use serde::Deserialize;

use super::conversation::{Conversation, Dice, Gone, Who};

#[derive(Deserialize)]
struct Scenes {
    language: Vec<Language>,
}

#[derive(Deserialize)]
struct Language {
    name: String,
    chatter: Vec<String>,
    ack: Vec<String>,
    reply: Vec<String>,
    attribute: Vec<Attribute>,
}

#[derive(Deserialize)]
struct Attribute {
    set: Vec<String>,
    update: Vec<String>,
}

const ENTITIES: [&str; 12] = [
    "Falcon",
    "checkout-api",
    "Mistral",
    "report_worker",
    "Aurora",
    "Lynx",
    "mail-relay",
    "Onyx",
    "Tundra",
    "search_index",
    "Gecko",
    "Vesper",
];

pub fn conversations(seeds: std::ops::Range<u64>) -> Vec<Conversation> {
    let scenes: Scenes = toml::from_str(include_str!("../fixtures/digest/scenes.toml")).expect("the fixture reads");
    scenes.language.iter().flat_map(|language| seeds.clone().map(|seed| language.conversation(seed))).collect()
}

impl Language {
    fn conversation(&self, seed: u64) -> Conversation {
        let mut dice = Dice::new(seed * 31 + 5);
        let mut talk = Conversation { name: format!("{}/{seed}", self.name), ..Conversation::default() };
        talk.push(Who::User, "Let us go through the services one by one.");
        talk.push(Who::Assistant, dice.pick(&self.reply));
        let first = dice.roll(ENTITIES.len());
        let entities: Vec<&str> = (0..3).map(|at| ENTITIES[(first + at * 5) % ENTITIES.len()]).collect();
        let mut open: Vec<(&str, usize)> =
            entities.iter().flat_map(|entity| (0..self.attribute.len()).map(move |a| (*entity, a))).collect();
        for at in (1..open.len()).rev() {
            open.swap(at, dice.roll(at + 1));
        }
        let changing = open.len() / 3;
        let mut told: Vec<(&str, usize, String, usize)> = Vec::new();
        let mut used = Vec::new();
        for (entity, attribute) in open {
            let value = fresh(&mut used, &mut dice);
            let text = dice.pick::<String>(&self.attribute[attribute].set).replace("{e}", entity).replace("{v}", &value);
            self.say(&mut talk, &text, &mut dice);
            talk.plant(if told.len() < changing { "old" } else { "limit" }, &[entity, &value]);
            told.push((entity, attribute, value, talk.facts.len() - 1));
            self.around(&mut talk, told.last().map(|t| t.2.as_str()), &mut dice);
        }
        for (entity, attribute, value, fact) in told.into_iter().take(changing) {
            let new = fresh(&mut used, &mut dice);
            let text = dice.pick::<String>(&self.attribute[attribute].update).replace("{e}", entity).replace("{v}", &new);
            self.say(&mut talk, &text, &mut dice);
            talk.plant("update", &[entity, &new]);
            let at = talk.messages.len() - 1;
            talk.facts[fact].until = at;
            talk.gone.push(Gone { from: at, text: value });
            self.around(&mut talk, None, &mut dice);
        }
        for _ in 0..4 {
            self.around(&mut talk, None, &mut dice);
        }
        talk
    }

    /// A user message that holds `text`, alone, with small talk, or with something pasted.
    fn say(&self, talk: &mut Conversation, text: &str, dice: &mut Dice) {
        let number = format!("{}", 2 + dice.roll(37));
        let chatter = dice.pick::<String>(&self.chatter).replace("{n}", &number);
        let message = match dice.roll(4) {
            0 => format!("{chatter} {text}"),
            1 => format!(
                "{text}\n\n```\n2025-04-0{d} 08:0{d}:11 INFO worker {d} idle\n2025-04-0{d} 08:0{d}:12 INFO worker {d} idle\n```",
                d = 1 + dice.roll(8)
            ),
            _ => text.to_owned(),
        };
        talk.push(Who::User, message);
    }

    fn around(&self, talk: &mut Conversation, echo: Option<&str>, dice: &mut Dice) {
        match echo.filter(|_| dice.roll(3) == 0) {
            Some(value) => talk.push(Who::Assistant, format!("{} ({value})", dice.pick::<String>(&self.reply))),
            None => talk.push(Who::Assistant, dice.pick(&self.reply)),
        }
        for _ in 0..1 + dice.roll(2) {
            match dice.roll(3) {
                0 => {
                    let number = format!("{}", 2 + dice.roll(37));
                    talk.push(Who::User, dice.pick::<String>(&self.chatter).replace("{n}", &number));
                    talk.push(Who::Assistant, dice.pick(&self.reply));
                }
                1 => {
                    talk.push(Who::User, dice.pick(&self.ack));
                    talk.push(Who::Assistant, dice.pick(&self.reply));
                }
                _ => {
                    talk.push(Who::Call("query".into()), format!("{{\"table\":\"t{}\",\"limit\":20}}", dice.roll(90)));
                    let rows: Vec<String> = (0..10 + dice.roll(15))
                        .map(|row| {
                            format!("{row}\tactive\t{}\t{:.2}", dice.pick(&["north", "south", "west"]), dice.roll(9000) as f32 / 100.0)
                        })
                        .collect();
                    talk.push(Who::Result("query".into(), false), rows.join("\n"));
                    talk.push(Who::Assistant, dice.pick(&self.reply));
                }
            }
        }
    }
}

/// A number that no other statement of the conversation has.
fn fresh(used: &mut Vec<String>, dice: &mut Dice) -> String {
    loop {
        let value = format!("{}", 100 + dice.roll(800) + 1000 * dice.roll(3));
        if !used.contains(&value) {
            used.push(value.clone());
            return value;
        }
    }
}
