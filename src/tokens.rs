//! stand-in
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tokenizer {
    Estimate,
}
impl Tokenizer {
    pub fn count(self, text: &str) -> usize {
        let mut quarters = 0usize;
        for c in text.chars() {
            quarters += if c.is_ascii() {
                1
            } else if (c as u32) < 0x2e80 {
                2
            } else {
                4
            };
        }
        quarters.div_ceil(4)
    }
    pub fn is_exact(self) -> bool {
        false
    }
    pub fn for_model(_: &str) -> Self {
        Tokenizer::Estimate
    }
}
pub struct Memo;
impl Memo {
    pub fn new(_: usize) -> Self {
        Memo
    }
    pub fn get_or_count(&self, _: Tokenizer, _: u128, f: impl Fn() -> u32) -> u32 {
        f()
    }
}
#[derive(Default)]
pub struct Calibrations;
impl Calibrations {
    pub fn ratio(&self, _: &str, _: &str) -> f64 {
        1.0
    }
    pub fn learn(&self, _: &str, _: &str, _: u64, _: u64) {}
}
