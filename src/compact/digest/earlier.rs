//! A digest of an earlier round, read back into its parts, so that it is merged and never nested.

use super::render::{HEADING, Section};
use super::statements::Speaker;

pub(crate) struct Earlier<'t> {
    /// Messages it stood for.
    pub messages: usize,
    lines: Vec<(Section, &'t str)>,
}

impl<'t> Earlier<'t> {
    /// The text before the first digest in `text`, and that digest.
    pub fn find(text: &'t str) -> Option<(&'t str, Earlier<'t>)> {
        let start = text.match_indices(HEADING).map(|(at, _)| at).find(|at| *at == 0 || text[..*at].ends_with('\n'))?;
        let mut lines = text[start..].lines();
        let heading = lines.next()?;
        let messages = heading.split(|c: char| !c.is_ascii_digit()).find_map(|part| part.parse().ok()).unwrap_or(0);
        let mut earlier = Earlier { messages, lines: Vec::new() };
        let mut section = None;
        for line in lines {
            if let Some(name) = line.strip_prefix("## ") {
                section = Section::named(name);
            } else if let (Some(section), false) = (section, line.trim().is_empty()) {
                earlier.lines.push((section, line));
            }
        }
        Some((&text[..start], earlier))
    }

    pub fn lines(&self, wanted: Section) -> impl Iterator<Item = &'t str> {
        self.lines.iter().filter(move |(section, _)| *section == wanted).map(|(_, line)| line.strip_prefix("- ").unwrap_or(line))
    }

    /// What was said, by whom, line by line.
    pub fn statements(&self) -> impl Iterator<Item = (Speaker, &'t str)> {
        let spoken = |section: Section, speaker: Speaker| self.lines(section).map(move |line| (speaker, line));
        spoken(Section::User, Speaker::User)
            .chain(spoken(Section::Asks, Speaker::User))
            .chain(spoken(Section::Assistant, Speaker::Assistant))
    }
}
