//! How far our counts are from what the provider says it counted.
//!
//! Every answer carries the provider's own count of its request. Where we have no tokenizer for the model, the ratio of the two corrects
//! later estimates; where we have, it shows what we don't see (a template, hidden tools) only if it is off again and again.

use std::collections::hash_map::RandomState;
use std::sync::{Mutex, PoisonError};

use super::{Tokenizer, generations::Generations};

/// The ratio of real tokens to counted ones, learnt from samples. A new one is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// The weighted mean of the logarithms, so that twice and half are equally far from 1.
    mean: f64,
    samples: u32,
    exact: bool,
}

impl Ratio {
    /// What a ratio may be. Beyond that, something else is wrong than the estimate.
    const RANGE: (f64, f64) = (0.5, 2.0);
    /// A sample further off than this says nothing about the tokenizer: a cached, cut or hidden prompt.
    const OUTLIER: f64 = 4.0;
    /// Counts below this are mostly what the provider adds to every request.
    const SMALL: u64 = 1_000;
    /// The newest sample's share in the mean, once there were as many samples as that is of one.
    const SHARE: f64 = 0.05;
    /// An exact count is doubted after so many samples, if they are off by more than this on average.
    const DOUBT: (u32, f64) = (20, 0.05);

    pub fn new(tokenizer: Tokenizer) -> Self {
        Ratio { mean: 0.0, samples: 0, exact: tokenizer.is_exact() }
    }

    /// Learns from one answer: what the provider says the prompt was, and what we had counted. Small counts and outliers are ignored.
    pub fn learn(&mut self, real: u64, counted: u64) {
        if real.min(counted) < Self::SMALL {
            return;
        }
        let sample = (real as f64 / counted as f64).ln();
        if sample.abs() > Self::OUTLIER.ln() {
            return;
        }
        self.samples = self.samples.saturating_add(1);
        self.mean += (sample - self.mean) * Self::SHARE.max(1.0 / f64::from(self.samples));
    }

    /// By what a count is to be multiplied, 0.5 to 2.
    pub fn get(&self) -> f64 {
        let (samples, off) = Self::DOUBT;
        if self.exact && (self.samples < samples || self.mean.abs() < off.ln_1p()) {
            return 1.0;
        }
        self.mean.exp().clamp(Self::RANGE.0, Self::RANGE.1)
    }
}

/// A [`Ratio`] for each upstream and model, shared by all threads. Of a few thousand, those not used lately are forgotten.
#[derive(Debug)]
pub struct Calibration {
    ratios: Mutex<Generations<String, Ratio, RandomState>>,
}

impl Default for Calibration {
    fn default() -> Self {
        Calibration { ratios: Mutex::new(Generations::new(2_048)) }
    }
}

impl Calibration {
    pub fn learn(&self, upstream: &str, model: &str, tokenizer: Tokenizer, real: u64, counted: u64) {
        // A name this long is nobody's model, and isn't kept.
        if upstream.len() + model.len() > 512 {
            return;
        }
        let key = Self::key(upstream, model);
        let mut ratios = self.ratios.lock().unwrap_or_else(PoisonError::into_inner);
        match ratios.get_mut(&key) {
            Some(ratio) => ratio.learn(real, counted),
            None => {
                let mut ratio = Ratio::new(tokenizer);
                ratio.learn(real, counted);
                ratios.insert(key, ratio);
            }
        }
    }

    /// 1 where nothing was learnt yet.
    pub fn ratio(&self, upstream: &str, model: &str) -> f64 {
        let key = Self::key(upstream, model);
        self.ratios.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key).map_or(1.0, |ratio| ratio.get())
    }

    fn key(upstream: &str, model: &str) -> String {
        [upstream, "\n", model].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn learnt(tokenizer: Tokenizer, samples: &[(u64, u64)]) -> f64 {
        let mut ratio = Ratio::new(tokenizer);
        samples.iter().for_each(|&(real, counted)| ratio.learn(real, counted));
        ratio.get()
    }

    #[test]
    fn an_estimate_is_corrected_from_the_first_answer_on() {
        assert_eq!(learnt(Tokenizer::Estimate, &[]), 1.0);
        assert!((learnt(Tokenizer::Estimate, &[(13_000, 10_000)]) - 1.3).abs() < 1e-9);
        assert!((learnt(Tokenizer::Estimate, &[(12_000, 10_000), (10_000, 12_000)]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_odd_answer_moves_it_little() {
        let mut samples = vec![(11_000, 10_000); 100];
        samples.push((30_000, 10_000));
        let ratio = learnt(Tokenizer::Estimate, &samples);
        assert!((1.1..1.17).contains(&ratio), "{ratio}");
        samples.extend(vec![(11_000, 10_000); 100]);
        assert!((learnt(Tokenizer::Estimate, &samples) - 1.1).abs() < 0.01);
    }

    #[test]
    fn small_counts_and_outliers_are_ignored() {
        for sample in [(0, 0), (999, 10_000), (50_000, 500), (u64::MAX, 1), (u64::MAX, 10_000), (10_000, 41_000)] {
            assert_eq!(learnt(Tokenizer::Estimate, &[sample]), 1.0, "{sample:?}");
        }
    }

    #[test]
    fn an_exact_count_is_doubted_only_if_it_is_off_again_and_again() {
        assert_eq!(learnt(Tokenizer::O200k, &[(12_000, 10_000); 19]), 1.0);
        assert!((learnt(Tokenizer::O200k, &[(12_000, 10_000); 20]) - 1.2).abs() < 1e-9);
        assert_eq!(learnt(Tokenizer::O200k, &[(10_300, 10_000); 1000]), 1.0);
    }

    #[test]
    fn each_upstream_and_model_learns_for_itself() {
        let calibration = Calibration::default();
        calibration.learn("a", "m", Tokenizer::Estimate, 15_000, 10_000);
        assert!((calibration.ratio("a", "m") - 1.5).abs() < 1e-9);
        assert_eq!((calibration.ratio("b", "m"), calibration.ratio("a", "n"), calibration.ratio("am", "")), (1.0, 1.0, 1.0));
        for n in 0..10_000 {
            calibration.learn("many", &n.to_string(), Tokenizer::Estimate, 15_000, 10_000);
        }
        assert!(calibration.ratios.lock().unwrap().len() <= 4_096);
    }

    proptest! {
        #[test]
        fn the_ratio_stays_in_range(samples: Vec<(u64, u64)>, exact: bool) {
            let ratio = learnt(if exact { Tokenizer::O200k } else { Tokenizer::Estimate }, &samples);
            prop_assert!((0.5..=2.0).contains(&ratio));
        }
    }
}
