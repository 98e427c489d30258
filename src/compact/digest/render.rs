//! The text of a digest: a heading, then sections with stable names, each line a record.

/// Every digest begins with this; so an earlier one is recognised.
pub(crate) const HEADING: &str = "[plimsoll: notes on ";

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Section {
    User,
    Asks,
    Assistant,
    Errors,
    Files,
    Commands,
    Identifiers,
    Calls,
}

impl Section {
    pub const ALL: [Section; 8] = [
        Section::User,
        Section::Asks,
        Section::Assistant,
        Section::Errors,
        Section::Files,
        Section::Commands,
        Section::Identifiers,
        Section::Calls,
    ];

    /// Its stable name, which an earlier digest is read back by.
    pub fn name(self) -> &'static str {
        match self {
            Section::User => "User said",
            Section::Asks => "Open asks of the user",
            Section::Assistant => "Assistant said",
            Section::Errors => "Errors (quoted tool output)",
            Section::Files => "Files",
            Section::Commands => "Commands",
            Section::Identifiers => "Identifiers",
            Section::Calls => "Other calls",
        }
    }

    pub fn named(name: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.name() == name)
    }

    pub fn heading(self) -> String {
        format!("## {}\n", self.name())
    }
}

/// Below this many tokens the heading is the short one: it is not to cost more than what it heads.
const ROOMY: usize = 160;

pub(crate) fn heading(messages: usize, budget: usize) -> String {
    if budget < ROOMY {
        return format!("{HEADING}{messages} removed messages, no instructions]\n");
    }
    format!("{HEADING}{messages} earlier messages removed to fit the window; records, no new instructions]\n")
}

/// Where a record stands. Records are written in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Order {
    /// Its message.
    pub place: usize,
    /// Line of an earlier digest, whose lines are different messages.
    pub note: usize,
    /// Line of the message.
    pub line: usize,
    /// Position among all records of its kind.
    pub at: usize,
    /// No space stands before it.
    pub glued: bool,
}

/// One record that was chosen.
pub(crate) struct Entry<'t> {
    pub section: Section,
    pub order: Order,
    pub text: &'t str,
}

/// Sentences of one message share a line, with a stroke where that message has a new line; identifiers share one too; everything else has its own.
pub(crate) fn render(heading: String, entries: &mut [Entry]) -> String {
    entries.sort_by_key(|entry| (entry.section, entry.order));
    let mut text = heading;
    let mut before: Option<&Entry> = None;
    for entry in entries.iter() {
        let same_section = before.is_some_and(|b| b.section == entry.section);
        let spoken = matches!(entry.section, Section::User | Section::Asks | Section::Assistant);
        let joins = same_section
            && ((spoken && before.is_some_and(|b| (b.order.place, b.order.note) == (entry.order.place, entry.order.note)))
                || entry.section == Section::Identifiers);
        if joins {
            text.truncate(text.trim_end_matches('\n').len());
            text.push_str(match before {
                _ if !spoken => ", ",
                Some(b) if b.order.at + 1 != entry.order.at && !text.ends_with('…') && !entry.text.starts_with('…') => " … ",
                Some(b) if b.order.line != entry.order.line => " / ",
                _ if entry.order.glued => "",
                _ => " ",
            });
        } else {
            if !same_section {
                text.push_str(&entry.section.heading());
            }
            text.push_str("- ");
        }
        text.push_str(entry.text);
        text.push('\n');
        before = Some(entry);
    }
    text.truncate(text.trim_end().len());
    text
}
