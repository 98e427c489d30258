//! What is said and done in the demo.

use std::{collections::HashMap, io};

use serde::Deserialize;
use serde_json::{Value, json};

const SCRIPT: &str = include_str!("script.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// How much the model takes, in tokens.
    pub window: u64,
    pub system: String,
    /// What the user said that has to hold to the end.
    pub rules: Vec<String>,
    /// The only tool's name and description.
    tool: (String, String),
    /// What commands print, by a name; `{name}` is filled in.
    output: HashMap<String, String>,
    step: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// What the user says first.
    user: Option<String>,
    /// What the model says.
    say: Option<String>,
    /// What the model runs.
    run: Option<String>,
    /// Which output that has.
    prints: Option<String>,
    /// The step is played once for each, as `{name}`.
    #[serde(default)]
    names: Vec<String>,
}

/// One request of the agent and what comes of it.
pub struct Turn {
    /// What the user says before it.
    pub user: Option<String>,
    /// The assistant message that the model answers with.
    pub answer: Value,
    /// What its tool call prints, where it makes one.
    pub output: Option<String>,
}

impl Script {
    pub fn built_in() -> io::Result<Script> {
        toml::from_str(SCRIPT).map_err(io::Error::other)
    }

    pub fn tools(&self) -> Value {
        let (name, description) = &self.tool;
        let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]});
        json!([{"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}])
    }

    pub fn turns(&self) -> Vec<Turn> {
        let once = [String::new()];
        let names = |step: &Step| if step.names.is_empty() { once.to_vec() } else { step.names.clone() };
        let all = self.step.iter().flat_map(|step| names(step).into_iter().enumerate().map(move |(nth, name)| (step, nth, name)));
        all.enumerate().map(|(n, (step, nth, name))| self.turn(step, n, nth, &name)).collect()
    }

    /// The nth turn of all, the step's own for `name`.
    fn turn(&self, step: &Step, n: usize, nth: usize, name: &str) -> Turn {
        let fill = |text: &String| text.replace("{name}", name);
        let mut answer = json!({"role": "assistant", "content": step.say.as_ref().map(fill)});
        if let Some(command) = &step.run {
            let arguments = json!({"command": fill(command)}).to_string();
            answer["tool_calls"] =
                json!([{"id": format!("call_{n}"), "type": "function", "function": {"name": self.tool.0, "arguments": arguments}}]);
        }
        let output =
            step.run.as_ref().map(|_| step.prints.as_ref().and_then(|output| self.output.get(output)).map(fill).unwrap_or_default());
        Turn { user: step.user.clone().filter(|_| nth == 0), answer, output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_conversation() {
        let script = Script::built_in().unwrap();
        let turns = script.turns();
        let said: String = turns.iter().filter_map(|turn| turn.user.as_deref()).collect();
        assert!(script.rules.iter().all(|rule| said.contains(rule)), "a rule that nobody stated");
        assert!(turns[0].user.is_some() && turns.last().unwrap().output.is_none(), "it begins with a task and ends with an answer");
        for pair in turns.windows(2) {
            assert_eq!(pair[0].output.is_none(), pair[1].user.is_some(), "after an answer the user speaks, after a call the tool");
        }
        assert!(turns.iter().all(|turn| turn.output.as_deref() != Some("")), "a command without its output");
    }
}
