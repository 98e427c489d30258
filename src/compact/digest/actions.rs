//! What was done: calls with their results, the files they touched and the commands they ran.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::evidence::{floor, is_error};
use super::shell::{aim_of, exit_code, touched};
use super::{Passage, Scope, Voice};

pub(crate) struct Action<'t> {
    pub place: usize,
    pub tool: &'t str,
    /// Files it touched, with what was done to them.
    pub files: Vec<(Deed, String)>,
    pub command: Option<String>,
    /// Its arguments in short.
    pub gist: String,
    pub result: Option<&'t Passage<'t>>,
    pub failed: bool,
    pub exit: Option<i32>,
    /// It only looks.
    pub reads: bool,
}

/// What was done to a file, from least to most lasting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Deed {
    Read,
    Edited,
    Wrote,
    Moved,
    Deleted,
}

impl Deed {
    pub fn name(self) -> &'static str {
        match self {
            Deed::Read => "read",
            Deed::Edited => "edited",
            Deed::Wrote => "wrote",
            Deed::Moved => "moved",
            Deed::Deleted => "deleted",
        }
    }

    fn of_tool(tool: &str) -> Option<Deed> {
        let lower = tool.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if has(&["search", "grep", "glob", "list", "find"]) && !has(&["replace"]) {
            None
        } else if has(&["delete", "remove", "unlink"]) {
            Some(Deed::Deleted)
        } else if has(&["rename", "move"]) {
            Some(Deed::Moved)
        } else if has(&["edit", "replace", "patch", "insert", "update", "append", "modify"]) {
            Some(Deed::Edited)
        } else if has(&["write", "create", "save", "put_file"]) {
            Some(Deed::Wrote)
        } else if has(&["read", "view", "open", "cat", "get_file", "fetch_file", "show"]) {
            Some(Deed::Read)
        } else {
            None
        }
    }
}

/// Longer arguments are not parsed: what matters of them stands at their head.
const PARSED: usize = 512 * 1024;
const GIST: usize = 120;
const COMMAND: usize = 240;

pub(crate) fn actions<'t>(scope: &'t Scope<'t>) -> Vec<Action<'t>> {
    let mut actions: Vec<Action> = Vec::new();
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    for passage in scope.covered {
        match &passage.voice {
            Voice::Call { tool } => {
                if !passage.call_id.is_empty() {
                    by_id.insert(passage.call_id, actions.len());
                }
                open.push(actions.len());
                actions.push(Action::read(passage, tool));
            }
            Voice::Result { failed, .. } => {
                // Without an id, results come in the order of their calls.
                let at =
                    by_id.get(passage.call_id).copied().or_else(|| passage.call_id.is_empty().then(|| open.first().copied()).flatten());
                if let Some(at) = at {
                    open.retain(|waiting| *waiting != at);
                    let action = &mut actions[at];
                    action.exit = exit_code(&passage.text);
                    action.failed = *failed
                        || action.exit.is_some_and(|code| code != 0)
                        || (!action.quotes_files() && action.exit != Some(0) && is_error(&passage.text, false));
                    action.result = Some(passage);
                } else {
                    // Its call was covered by an earlier digest.
                    actions.push(Action::orphan(passage));
                }
            }
            Voice::User | Voice::Assistant => open.clear(),
        }
    }
    actions
}

impl<'t> Action<'t> {
    fn read(passage: &'t Passage<'t>, tool: &'t str) -> Self {
        let mut action = Action {
            place: passage.place,
            tool,
            files: Vec::new(),
            command: None,
            gist: String::new(),
            result: None,
            failed: false,
            exit: None,
            reads: false,
        };
        let parsed: Option<Value> = (passage.text.len() <= PARSED).then(|| serde_json::from_str(&passage.text).ok()).flatten();
        match parsed {
            Some(Value::Object(fields)) => action.fields(&fields),
            Some(Value::String(text)) => action.free_text(&text),
            _ => action.free_text(&passage.text[..floor(&passage.text, 4 * COMMAND)]),
        }
        if let Some(command) = &action.command {
            let (files, reads) = touched(command);
            action.files.extend(files);
            action.reads = reads;
        } else {
            action.reads = !action.files.is_empty() && action.files.iter().all(|(deed, _)| *deed == Deed::Read);
        }
        action
    }

    fn orphan(passage: &'t Passage<'t>) -> Self {
        let (tool, failed) = match passage.voice {
            Voice::Result { tool, failed } => (tool, failed),
            _ => ("", false),
        };
        let exit = exit_code(&passage.text);
        let failed = failed || exit.map_or_else(|| is_error(&passage.text, false), |code| code != 0);
        Action {
            place: passage.place,
            tool,
            files: Vec::new(),
            command: None,
            gist: String::new(),
            result: Some(passage),
            failed,
            exit,
            reads: false,
        }
    }

    fn fields(&mut self, fields: &serde_json::Map<String, Value>) {
        let mut deed = Deed::of_tool(self.tool);
        let mut gist = Vec::new();
        for (name, value) in fields {
            let text: Cow<str> = match value {
                Value::String(text) => Cow::Borrowed(text.as_str()),
                Value::Array(items) if matches!(name.as_str(), "command" | "cmd" | "args") => {
                    // ["bash", "-lc", "cargo test"]: the last word is the command, else all of them together are.
                    let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                    match words.as_slice() {
                        [_, flag, script] if flag.starts_with('-') && flag.ends_with('c') => Cow::Owned((*script).to_owned()),
                        _ => Cow::Owned(words.join(" ")),
                    }
                }
                Value::Array(_) | Value::Object(_) => {
                    let text = value.to_string();
                    Cow::Owned(text[..floor(&text, GIST)].to_owned())
                }
                Value::Null => continue,
                _ => Cow::Owned(value.to_string()),
            };
            match name.to_ascii_lowercase().as_str() {
                "command" | "cmd" | "script" | "shell_command" | "commandline"
                    if matches!(&*text, "view" | "create" | "str_replace" | "insert" | "delete" | "rename" | "undo_edit") =>
                {
                    deed = match &*text {
                        "view" => Some(Deed::Read),
                        "create" => Some(Deed::Wrote),
                        "delete" => Some(Deed::Deleted),
                        "rename" => Some(Deed::Moved),
                        _ => Some(Deed::Edited),
                    };
                }
                "command" | "cmd" | "script" | "shell_command" | "commandline" => self.command = Some(one_line(&text, COMMAND)),
                "path" | "file_path" | "filepath" | "filename" | "file" | "target_file" | "relative_path" | "absolute_path"
                | "notebook_path" | "uri" => {
                    if let Some(deed) = deed.filter(|_| text.len() < 400) {
                        self.files.push((deed, text.trim().to_owned()));
                    }
                    gist.push(one_line(&text, GIST));
                }
                "patch" | "input" | "diff" => self.patch(&text),
                "content" | "new_string" | "old_string" | "newtext" | "oldtext" | "new_str" | "old_str" | "file_text" | "insert_text" => {}
                name => gist.push(format!("{name}={}", one_line(&text, GIST / 2))),
            }
        }
        // A deed named after the path still counts for it.
        if let Some(deed) = deed {
            for file in &mut self.files {
                file.0 = file.0.max(deed);
            }
        }
        self.gist = one_line(&gist.join(" "), GIST);
    }

    fn free_text(&mut self, text: &str) {
        if text.contains("*** Begin Patch") || text.contains("*** Update File") {
            self.patch(text);
        } else if matches!(self.tool, "bash" | "shell" | "sh" | "exec" | "terminal" | "run") {
            self.command = Some(one_line(text, COMMAND));
        }
        self.gist = one_line(text, GIST);
    }

    fn patch(&mut self, text: &str) {
        for line in text.lines() {
            for (head, deed) in [
                ("*** Update File: ", Deed::Edited),
                ("*** Add File: ", Deed::Wrote),
                ("*** Delete File: ", Deed::Deleted),
                ("+++ b/", Deed::Edited),
            ] {
                if let Some(path) = line.strip_prefix(head) {
                    self.files.push((deed, path.trim().to_owned()));
                }
            }
        }
    }

    /// Its output is the text of files, in which errors may be talked of.
    pub fn quotes_files(&self) -> bool {
        match &self.command {
            Some(command) => {
                self.reads
                    && ["cat ", "head ", "tail ", "sed ", "grep ", "rg ", "less ", "git show", "git diff", "git log"]
                        .iter()
                        .any(|head| command.contains(head))
            }
            None => {
                !self.files.is_empty() && self.reads
                    || matches!(Deed::of_tool(self.tool), Some(Deed::Read))
                    || self.tool.to_ascii_lowercase().contains("grep")
            }
        }
    }

    /// What the call was about, in words: its command, or its tool and gist.
    pub fn title(&self) -> String {
        match &self.command {
            Some(command) => command.clone(),
            None => format!("{} {}", self.tool, self.gist).trim_end().to_owned(),
        }
    }

    /// The parts of the call that a later success has to repeat for an error of this one to be over, the most telling first.
    pub fn aim(&self) -> Vec<String> {
        match &self.command {
            Some(command) => aim_of(command),
            None => vec![self.tool.to_owned(), self.files.first().map_or_else(|| self.gist.clone(), |(_, path)| path.clone())],
        }
    }
}

/// At most `limit` bytes on one line, with "…" where something was left out.
pub(crate) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(limit.min(text.len()) + 4);
    for word in text[..floor(text, 4 * limit)].split_whitespace() {
        if line.len() + word.len() + 1 > limit {
            let room = limit.saturating_sub(line.len() + 1);
            if line.is_empty() {
                line.push_str(super::shorten::graphemes(word, room));
            }
            line.push('…');
            return line;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if text.len() > 4 * limit {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(tool: &'static str, arguments: &str) -> Action<'static> {
        let passage =
            Box::leak(Box::new(Passage { place: 0, voice: Voice::Call { tool }, call_id: "", text: Cow::Owned(arguments.to_owned()) }));
        Action::read(passage, tool)
    }

    #[test]
    fn files_and_commands_are_read_from_the_arguments_of_many_agents() {
        let check = |tool, arguments: &str, files: &[(Deed, &str)], command: Option<&str>| {
            let found = action(tool, arguments);
            let expected: Vec<_> = files.iter().map(|(deed, path)| (*deed, (*path).to_owned())).collect();
            assert_eq!((found.files, found.command.as_deref()), (expected, command), "{tool} {arguments}");
        };
        check("Read", r#"{"file_path":"/a/b.rs","offset":3}"#, &[(Deed::Read, "/a/b.rs")], None);
        check("edit", r#"{"path":"a.ts","oldText":"x","newText":"y"}"#, &[(Deed::Edited, "a.ts")], None);
        check("write", r#"{"content":"…","path":"a.ts"}"#, &[(Deed::Wrote, "a.ts")], None);
        check("str_replace_based_edit_tool", r#"{"command":"create","path":"a.py","file_text":"x"}"#, &[(Deed::Wrote, "a.py")], None);
        check("shell", r#"{"command":["bash","-lc","cargo test -p x"]}"#, &[], Some("cargo test -p x"));
        check(
            "bash",
            r#"{"command":"rm src/a.rs && sed -i 's/a/b/' src/b.rs > out.log"}"#,
            &[(Deed::Deleted, "src/a.rs"), (Deed::Edited, "src/b.rs"), (Deed::Wrote, "out.log")],
            Some("rm src/a.rs && sed -i 's/a/b/' src/b.rs > out.log"),
        );
        check("apply_patch", "*** Begin Patch\n*** Update File: src/x.rs\n@@\n*** End Patch", &[(Deed::Edited, "src/x.rs")], None);
        check("grep", r#"{"pattern":"x","path":"src"}"#, &[], None);
        check("bash", "not json", &[], Some("not json"));
    }
}
