//! Figures of one run side by side, and how they stand to what they should be.

/// What is measured, by proxy, and the ratio or amount that counts.
pub struct Row {
    pub name: String,
    pub unit: &'static str,
    /// By proxy, in the order of the columns; nothing where it was not measured.
    pub figures: Vec<(&'static str, f64)>,
    /// What is compared with the two goals.
    pub score: f64,
    pub of: &'static str,
    pub must: f64,
    pub reach: f64,
    /// Whether more is better.
    pub rising: bool,
}

const COLUMNS: [&str; 5] = ["direct", "nginx", "haproxy", "floor", "plimsoll"];

pub fn head() {
    println!(
        "{:<34}{:>5}{}  {:>10} {:<13}{:>7}{:>7}",
        "",
        "",
        COLUMNS.map(|name| format!("{name:>10}")).concat(),
        "score",
        "",
        "must",
        "reach"
    );
}

impl Row {
    pub fn print(&self) {
        let figures = COLUMNS.map(|name| match self.figures.iter().find(|(of, _)| *of == name) {
            Some((_, figure)) => format!("{:>10}", short(*figure)),
            None => format!("{:>10}", ""),
        });
        let meets = |goal: f64| if self.rising { self.score >= goal } else { self.score <= goal };
        let mark = match (meets(self.reach), meets(self.must)) {
            (true, _) => "reached",
            _ if self.must.is_nan() => "",
            (false, true) => "holds",
            (false, false) => "MISSED",
        };
        let (must, reach) = (short(self.must), short(self.reach));
        println!(
            "{:<34}{:>5}{}  {:>10} {:<13}{must:>7}{reach:>7}  {mark}",
            self.name,
            self.unit,
            figures.concat(),
            short(self.score),
            self.of
        );
    }
}

fn short(figure: f64) -> String {
    match figure.abs() {
        size if size.is_nan() => "-".to_owned(),
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// The value below which a share of all lie.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

pub fn median(mut values: Vec<f64>) -> f64 {
    quantile(&mut values, 0.5)
}
