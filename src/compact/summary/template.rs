//! The sections a summary must have, as a file says them.

use std::sync::Arc;

/// The built-in templates by name.
pub const BUILT_IN: [(&str, &str); 5] = [
    ("headings", include_str!("../prompts/templates/headings.md")),
    ("nine", include_str!("../prompts/templates/nine.md")),
    ("progress", include_str!("../prompts/templates/progress.md")),
    ("checkpoint", include_str!("../prompts/templates/checkpoint.md")),
    ("anchor", include_str!("../prompts/templates/anchor.md")),
];

/// What `src/compact/prompts/README.md` says of templates, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// As the model is told it: without comments.
    pub text: Arc<str>,
    /// Names of the sections, in order.
    pub sections: Vec<String>,
    pub rules: Option<String>,
    pub asks: Option<String>,
    pub identifiers: Option<String>,
    pub append_only: Vec<String>,
    /// Only what stands inside `<summary>` is meant.
    pub scratchpad: bool,
}

impl Template {
    pub fn read(file: &str) -> Template {
        let mut template = Template {
            text: "".into(),
            sections: Vec::new(),
            rules: None,
            asks: None,
            identifiers: None,
            append_only: Vec::new(),
            scratchpad: file.contains("<summary>"),
        };
        let mut text = String::new();
        for line in file.lines() {
            if let Some(comment) = line.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) {
                template.comment(comment.trim());
                continue;
            }
            if let Some(name) = heading(line) {
                template.sections.push(name.to_owned());
            }
            text.push_str(line);
            text.push('\n');
        }
        template.text = text.trim().into();
        template
    }

    /// The built-in template of that name.
    pub fn built_in(name: &str) -> Option<Template> {
        BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, file)| Template::read(file))
    }

    fn comment(&mut self, comment: &str) {
        let Some((key, name)) = comment.split_once(':') else { return };
        let name = name.trim().to_owned();
        match key.trim() {
            "rules" => self.rules = Some(name),
            "asks" => self.asks = Some(name),
            "identifiers" => self.identifiers = Some(name),
            "append-only" => self.append_only.push(name),
            _ => {}
        }
    }
}

/// The name in a line that is a heading of the second level.
pub fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("## ").map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_template_has_the_sections_that_its_comments_name() {
        let check = |name: &str, sections: usize| {
            let template = Template::built_in(name).unwrap();
            assert_eq!(template.sections.len(), sections, "{name}");
            let named = [&template.rules, &template.asks, &template.identifiers].into_iter().flatten().chain(&template.append_only);
            assert!(named.into_iter().all(|section| template.sections.contains(section)), "{name}");
            assert!(!template.text.contains("<!--"), "{name}");
        };
        check("headings", 5);
        check("nine", 9);
        check("progress", 8);
        check("checkpoint", 7);
        check("anchor", 6);
        assert!(Template::built_in("nine").unwrap().scratchpad);
        assert_eq!(Template::built_in("anchor").unwrap().append_only, ["Decisions", "Ruled-out Options"]);
        assert_eq!(
            Template::built_in("headings").unwrap().sections,
            ["Decisions", "Open TODOs", "Constraints/Rules", "Pending user asks", "Exact identifiers"]
        );
        assert!(Template::built_in("other").is_none());
    }
}
