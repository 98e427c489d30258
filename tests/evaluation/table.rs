//! Tables of shares.

use std::collections::BTreeMap;

/// Of a column, in characters.
const WIDTH: usize = 22;
/// Stands where nothing was there to be counted.
pub const NOTHING: &str = "–";

#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    pub kept: usize,
    pub all: usize,
}

impl Share {
    pub fn add(&mut self, kept: bool) {
        self.weigh(usize::from(kept), 1);
    }

    pub fn weigh(&mut self, kept: usize, all: usize) {
        self.kept += kept;
        self.all += all;
    }

    /// From 0 to 1, or more; nothing of nothing is 1.
    pub fn of_one(self) -> f64 {
        if self.all == 0 { 1.0 } else { self.kept as f64 / self.all as f64 }
    }

    pub fn percent(self) -> String {
        if self.all == 0 { NOTHING.into() } else { format!("{:.1} %", 100.0 * self.of_one()) }
    }
}

/// Shares in rows with names, which come in the order of the names.
pub struct Shares<const COLUMNS: usize>(pub BTreeMap<String, [Share; COLUMNS]>);

impl<const COLUMNS: usize> Default for Shares<COLUMNS> {
    fn default() -> Self {
        Shares(BTreeMap::new())
    }
}

impl<const COLUMNS: usize> Shares<COLUMNS> {
    pub fn add(&mut self, row: &str, column: usize, kept: bool) {
        self.0.entry(row.to_owned()).or_insert([Share::default(); COLUMNS])[column].add(kept);
    }

    pub fn sum(&self, column: usize) -> Share {
        let mut sum = Share::default();
        self.0.values().for_each(|shares| sum.weigh(shares[column].kept, shares[column].all));
        sum
    }

    pub fn print(&self, title: &str, columns: &[&str]) {
        let rows: Vec<(String, Vec<String>)> =
            self.0.iter().map(|(name, shares)| (name.clone(), shares.iter().map(|share| share.percent()).collect())).collect();
        print(title, columns, &rows);
    }
}

/// Columns that hold nothing are left out.
pub fn print(title: &str, columns: &[&str], rows: &[(String, Vec<String>)]) {
    let cell = |text: &str| format!("{}{text}", " ".repeat(WIDTH.saturating_sub(text.chars().count())));
    let line = |cells: &mut dyn Iterator<Item = &str>| -> String {
        let holds = |column: &usize| rows.iter().any(|(_, cells)| cells.get(*column).is_some_and(|text| text != NOTHING));
        cells.enumerate().filter(|(column, _)| holds(column)).map(|(_, text)| cell(text)).collect()
    };
    println!("\n{title}\n{:<32}{}", "", line(&mut columns.iter().copied()));
    for (name, cells) in rows {
        println!("{name:<32}{}", line(&mut cells.iter().map(String::as_str)));
    }
}
