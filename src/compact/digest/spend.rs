//! A budget spent by worth.
//!
//! Every record has its forms, from the shortest that still says it to the whole. Shortest forms are bought first, by worth; what is left
//! buys the rest of the sentences. So under pressure sentences shrink before any is dropped.

use std::collections::HashMap;

use super::render::{Entry, Order, Section, heading, render};
use super::worth::{LEAST, REST, WHOLE};

pub(crate) struct Record {
    pub section: Section,
    pub order: Order,
    pub worth: f32,
    /// From the shortest; at least one.
    pub forms: Vec<String>,
}

impl Record {
    pub fn new(section: Section, order: Order, worth: f32, text: String) -> Self {
        Record { section, order, worth, forms: vec![text] }
    }
}

pub(crate) struct Spent {
    pub text: String,
    pub tokens: usize,
    /// Records written and left out, by section.
    pub written: HashMap<Section, usize>,
    pub left_out: HashMap<Section, usize>,
}

/// Offers that did not fit before the search for smaller ones ends.
const MISSES: usize = 200;

/// The part of the budget that a section may take.
fn share(section: Section) -> f32 {
    match section {
        Section::User | Section::Asks => 1.0,
        Section::Assistant => 0.4,
        Section::Errors => 0.5,
        Section::Files | Section::Commands | Section::Identifiers => 0.2,
        Section::Calls => 0.12,
    }
}

pub(crate) fn spend(messages: usize, records: &[Record], budget: usize, count: &dyn Fn(&str) -> usize) -> Spent {
    let mut offers: Vec<(f32, usize, usize)> = Vec::new();
    for (at, record) in records.iter().enumerate().filter(|(_, r)| r.worth >= LEAST) {
        for form in 0..record.forms.len() {
            let worth = if form == 0 { record.worth } else { (record.worth * WHOLE).min(REST) };
            // Of two records of the same worth the shorter is the better bargain.
            let size = (40.0 / (record.forms[form].len() as f32 / 4.0 + 20.0)).powf(0.35);
            offers.push((worth * size, at, form));
        }
    }
    offers.sort_by(|a, b| b.0.total_cmp(&a.0).then(records[b.1].order.cmp(&records[a.1].order)).then(a.2.cmp(&b.2)));
    let heading = heading(messages, budget);
    let mut purse = Purse { left: budget.saturating_sub(count(&heading)), sections: HashMap::new(), bought: HashMap::new() };
    let mut misses = 0;
    for &(_, at, form) in &offers {
        if misses >= MISSES || purse.left < 4 {
            break;
        }
        misses += usize::from(!purse.buy(&records[at], at, form, budget, count));
    }
    let mut bought: Vec<(f32, usize, usize)> =
        offers.iter().copied().filter(|(_, at, form)| purse.bought.get(at).is_some_and(|b| b.form == *form)).collect();
    loop {
        let mut entries: Vec<Entry> = bought
            .iter()
            .map(|&(_, at, form)| Entry { section: records[at].section, order: records[at].order, text: &records[at].forms[form] })
            .collect();
        let text = if entries.is_empty() { String::new() } else { render(heading.clone(), &mut entries) };
        let tokens = if text.is_empty() { 0 } else { count(&text) };
        if tokens <= budget {
            let mut written = HashMap::new();
            for &(_, at, _) in &bought {
                *written.entry(records[at].section).or_default() += 1;
            }
            let mut left_out: HashMap<Section, usize> = HashMap::new();
            for record in records {
                *left_out.entry(record.section).or_default() += 1;
            }
            for (section, taken) in &written {
                left_out.entry(*section).and_modify(|all| *all -= taken);
            }
            return Spent { text, tokens, written, left_out };
        }
        // Counts of lines do not quite add up to the count of the text. Give back the least worth until the difference is made good.
        let mut over = tokens - budget;
        while let Some((_, at, _)) = bought.pop() {
            let cost = purse.bought.get(&at).map_or(1, |b| b.cost);
            if cost >= over {
                break;
            }
            over -= cost;
        }
    }
}

struct Bought {
    form: usize,
    cost: usize,
}

struct Purse {
    left: usize,
    sections: HashMap<Section, usize>,
    bought: HashMap<usize, Bought>,
}

impl Purse {
    fn buy(&mut self, record: &Record, at: usize, form: usize, budget: usize, count: &dyn Fn(&str) -> usize) -> bool {
        let paid = match self.bought.get(&at) {
            Some(bought) if bought.form >= form => return true,
            Some(bought) => bought.cost,
            // The whole is never bought where its short form did not fit.
            None if form > 0 => return false,
            None => 0,
        };
        let opening = if self.sections.contains_key(&record.section) { 0 } else { count(&record.section.heading()) };
        let cost = count(&record.forms[form]) + 2;
        let spent = self.sections.get(&record.section).copied().unwrap_or(0);
        let price = (cost + opening).saturating_sub(paid);
        if price > self.left || (spent + price) as f32 > share(record.section) * budget as f32 {
            return false;
        }
        self.left -= price;
        *self.sections.entry(record.section).or_default() += price;
        self.bought.insert(at, Bought { form, cost });
        true
    }
}
