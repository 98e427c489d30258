//! Conversations filled from templates: every kind of fact in nine languages, in three styles, between filler.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::conversation::{Conversation, Dice, Gone, Who};

#[derive(Deserialize)]
struct Planted {
    language: Vec<Language>,
}

#[derive(Deserialize)]
struct Language {
    name: String,
    superseded: Vec<[String; 2]>,
    paraphrase: Vec<[String; 2]>,
    neardup: Vec<[String; 2]>,
    filler_user: Vec<String>,
    filler_assistant: Vec<String>,
    decision: Vec<String>,
    #[serde(flatten)]
    single: BTreeMap<String, Vec<String>>,
}

const NAMES: [&str; 16] = [
    "Kestrel", "Bramble", "Osprey", "Juniper", "Marlin", "Quartz", "Tansy", "Walnut", "Heron", "Saffron", "Ibis", "Cobalt", "Larch",
    "Pelican", "Sorrel", "Basalt",
];

#[derive(Clone, Copy, PartialEq)]
pub enum Style {
    Chat,
    Coding,
    Support,
}

pub fn conversations(seeds: std::ops::Range<u64>) -> Vec<Conversation> {
    let planted: Planted = toml::from_str(include_str!("../fixtures/digest/planted.toml")).expect("the fixture reads");
    let mut made = Vec::new();
    for language in &planted.language {
        for style in [Style::Chat, Style::Coding, Style::Support] {
            for seed in seeds.clone() {
                made.push(language.conversation(style, seed));
            }
        }
    }
    made
}

impl Language {
    fn conversation(&self, style: Style, seed: u64) -> Conversation {
        let mut dice = Dice::new(seed * 7 + style as u64 + 1);
        let mut talk = Conversation {
            name: format!("{}/{}/{seed}", self.name, ["chat", "coding", "support"][style as usize]),
            ..Conversation::default()
        };
        let mut names: Vec<&str> = NAMES.to_vec();
        let mut steps: Vec<Step> = Vec::new();
        for kind in ["safety", "limit", "preference", "fact", "goal"] {
            if let Some(list) = self.single.get(kind) {
                steps.push(Step::Say(kind, self.fill(dice.pick::<String>(list), &mut names, &mut dice)));
            }
        }
        steps.push(Step::Decide(self.fill(dice.pick::<String>(&self.decision), &mut names, &mut dice)));
        steps.push(Step::Pair("superseded", self.fill_pair(dice.pick(&self.superseded), &mut names, &mut dice), true));
        steps.push(Step::Pair("paraphrase", self.fill_pair(dice.pick(&self.paraphrase), &mut names, &mut dice), true));
        steps.push(Step::Pair("neardup", self.fill_pair(dice.pick(&self.neardup), &mut names, &mut dice), false));
        steps.push(Step::Break);
        steps.push(Step::Identify);
        for at in (1..steps.len()).rev() {
            steps.swap(at, dice.roll(at + 1));
        }
        talk.push(Who::User, "Hello, let us begin with the work on the repository.");
        talk.push(Who::Assistant, &self.filler_assistant[0]);
        let mut later: Vec<(&str, String, usize, Vec<String>)> = Vec::new();
        for step in steps {
            self.filler(&mut talk, style, &mut dice);
            match step {
                Step::Say(kind, (text, keys)) => {
                    talk.push(Who::User, text);
                    talk.plant(kind, &keys.iter().map(String::as_str).collect::<Vec<_>>());
                    talk.push(Who::Assistant, dice.pick(&self.filler_assistant));
                }
                Step::Decide((text, keys)) => {
                    talk.push(Who::Assistant, text);
                    talk.plant("decision", &keys.iter().map(String::as_str).collect::<Vec<_>>());
                }
                Step::Pair(kind, [(first, first_keys), (second, second_keys)], replaces) => {
                    talk.push(Who::User, first);
                    talk.plant(if replaces { "old" } else { kind }, &first_keys.iter().map(String::as_str).collect::<Vec<_>>());
                    talk.push(Who::Assistant, dice.pick(&self.filler_assistant));
                    later.push((kind, second, if replaces { talk.facts.len() - 1 } else { usize::MAX }, second_keys));
                }
                Step::Break => self.fail(&mut talk, &mut dice),
                Step::Identify => {
                    let id = format!("run-{}-{:05x}", dice.roll(900) + 100, dice.roll(0xfffff));
                    talk.push(Who::Call("deploy".into()), "{\"target\":\"preview\"}");
                    talk.push(
                        Who::Result("deploy".into(), false),
                        format!("queued\nrun id: {id}\nurl: https://ci.example/runs/{id}\nwaiting for a worker\n"),
                    );
                    talk.plant("identifier", &[&id]);
                }
            }
            if !later.is_empty() && dice.roll(2) == 0 {
                self.second(&mut talk, later.remove(0), style, &mut dice);
            }
        }
        for second in later {
            self.second(&mut talk, second, style, &mut dice);
        }
        for _ in 0..3 {
            self.filler(&mut talk, style, &mut dice);
        }
        talk
    }

    fn second(&self, talk: &mut Conversation, (kind, text, old, keys): (&str, String, usize, Vec<String>), style: Style, dice: &mut Dice) {
        self.filler(talk, style, dice);
        talk.push(Who::User, text);
        talk.plant(kind, &keys.iter().map(String::as_str).collect::<Vec<_>>());
        if let Some(fact) = talk.facts.get_mut(old) {
            let at = talk.messages.len() - 1;
            fact.until = at;
            let number = fact.keys.iter().find(|k| k.bytes().all(|b| b.is_ascii_digit())).cloned();
            talk.gone.extend(number.map(|text| Gone { from: at, text }));
        }
        talk.push(Who::Assistant, dice.pick(&self.filler_assistant));
    }

    fn fill(&self, template: &str, names: &mut Vec<&str>, dice: &mut Dice) -> (String, Vec<String>) {
        let mut keys = Vec::new();
        let mut text = template.to_owned();
        for slot in ["{a}", "{b}"] {
            if text.contains(slot) {
                let name = names.remove(dice.roll(names.len()));
                text = text.replace(slot, name);
                keys.push(name.to_owned());
            }
        }
        for (slot, value) in [
            ("{n}", format!("{}", 103 + dice.roll(890))),
            ("{m}", format!("{}", 1103 + dice.roll(7890))),
            ("{id}", format!("store-{}{:03}", ["qx", "lm", "vt"][dice.roll(3)], dice.roll(1000))),
        ] {
            if text.contains(slot) {
                text = text.replace(slot, &value);
                keys.push(value);
            }
        }
        (text, keys)
    }

    fn fill_pair(&self, pair: &[String; 2], names: &mut Vec<&str>, dice: &mut Dice) -> [(String, Vec<String>); 2] {
        let (a, b) = (names.remove(dice.roll(names.len())), names.remove(dice.roll(names.len() - 1)));
        let (n, m) = (format!("{}", 1003 + dice.roll(4000)), format!("{}", 5103 + dice.roll(4000)));
        [0, 1].map(|which| {
            let text = pair[which].replace("{a}", a).replace("{b}", b).replace("{n}", &n).replace("{m}", &m);
            let keys = [a, b, &n, &m].into_iter().filter(|key| text.contains(*key)).map(str::to_owned).collect();
            (text, keys)
        })
    }

    fn filler(&self, talk: &mut Conversation, style: Style, dice: &mut Dice) {
        for _ in 0..1 + dice.roll(3) {
            match style {
                Style::Chat => {
                    talk.push(Who::User, dice.pick(&self.filler_user));
                    let answer: Vec<&str> = (0..3 + dice.roll(5)).map(|_| dice.pick(&self.filler_assistant).as_str()).collect();
                    talk.push(Who::Assistant, answer.join(" "));
                }
                Style::Coding => {
                    talk.push(Who::Assistant, dice.pick(&self.filler_assistant));
                    let file = format!("src/part_{}/mod_{}.rs", dice.roll(9), dice.roll(40));
                    if dice.roll(2) == 0 {
                        talk.push(Who::Call("read".into()), format!("{{\"path\":\"{file}\"}}"));
                        let code: Vec<String> = (0..20 + dice.roll(30))
                            .map(|line| format!("    let value_{} = step(input, {});", line, dice.roll(100)))
                            .collect();
                        talk.push(Who::Result("read".into(), false), code.join("\n"));
                    } else {
                        talk.push(Who::Call("bash".into()), format!("{{\"command\":\"grep -rn step {file}\"}}"));
                        let found: Vec<String> =
                            (0..8 + dice.roll(10)).map(|line| format!("{file}:{}: let x = step(y);", line * 7 + dice.roll(7))).collect();
                        talk.push(Who::Result("bash".into(), false), found.join("\n"));
                    }
                    if dice.roll(4) == 0 {
                        talk.push(Who::User, dice.pick(&self.filler_user));
                    }
                }
                Style::Support => {
                    talk.push(Who::User, dice.pick(&self.filler_user));
                    talk.push(Who::Call("lookup".into()), format!("{{\"record\":\"{}\"}}", 40000 + dice.roll(9999)));
                    let rows: Vec<String> = (0..6 + dice.roll(12))
                        .map(|row| {
                            format!(
                                "{{\"row\":{row},\"state\":\"{}\",\"amount\":{}}}",
                                dice.pick(&["open", "closed", "held"]),
                                dice.roll(5000)
                            )
                        })
                        .collect();
                    talk.push(Who::Result("lookup".into(), false), format!("[{}]", rows.join(",")));
                    talk.push(Who::Assistant, dice.pick(&self.filler_assistant));
                }
            }
        }
    }

    fn fail(&self, talk: &mut Conversation, dice: &mut Dice) {
        let (line, pool) = (dice.roll(400) + 10, dice.roll(90) + 5);
        talk.push(Who::Call("bash".into()), "{\"command\":\"make integration\"}");
        let outputs = [
            format!(
                "collecting ...\nTraceback (most recent call last):\n  File \"app/pool_{pool}.py\", line {line}, in acquire\n    raise PoolError(size)\napp.errors.PoolError: no free connection, pool_size={pool}\nexit code: 1"
            ),
            format!(
                "running 9 tests\nthread 'main' panicked at src/pool_{pool}.rs:{line}:9:\nno free connection, pool_size={pool}\ntest result: FAILED. 8 passed; 1 failed"
            ),
            format!(
                "2025-03-01T10:00:00Z INFO start\n2025-03-01T10:00:01Z ERROR pool_{pool}.go:{line} no free connection, pool_size={pool}\nexit status 1"
            ),
        ];
        talk.push(Who::Result("bash".into(), dice.roll(2) == 0), dice.pick(&outputs).clone());
        talk.plant("error", &["no free connection", &format!("pool_size={pool}"), &format!("{line}")]);
    }
}

enum Step {
    Say(&'static str, (String, Vec<String>)),
    Decide((String, Vec<String>)),
    Pair(&'static str, [(String, Vec<String>); 2], bool),
    Break,
    Identify,
}
