//! A metric with its labels, addressed by their values in order.

use std::{
    borrow::Cow,
    sync::{PoisonError, RwLock, atomic::AtomicU64},
};

use prometheus_client::{
    encoding::{EncodeLabelKey, EncodeLabelSet, EncodeLabelValue, LabelSetEncoder},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
};

/// No metric has more.
const MOST: usize = 4;
/// So many of a kind are found without hashing.
const MOST_NEAR: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Labels {
    names: &'static [&'static str],
    values: [Cow<'static, str>; MOST],
}

impl Labels {
    fn new(names: &'static [&'static str], values: &[&'static str]) -> Labels {
        debug_assert_eq!(names.len(), values.len(), "{names:?}");
        let mut own = [const { Cow::Borrowed("") }; MOST];
        own.iter_mut().zip(values).for_each(|(own, value)| *own = Cow::Borrowed(value));
        Labels { names, values: own }
    }

    fn are(&self, values: &[&str]) -> bool {
        self.values.iter().zip(values).all(|(own, value)| own == value)
    }
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (name, value) in self.names.iter().zip(&self.values) {
            let mut label = encoder.encode_label();
            let mut key = label.encode_label_key()?;
            EncodeLabelKey::encode(name, &mut key)?;
            let mut out = key.encode_label_value()?;
            EncodeLabelValue::encode(value, &mut out)?;
            out.finish()?;
        }
        Ok(())
    }
}

macro_rules! kind {
    ($(#[$doc:meta])* $name:ident, $metric:ty, $kind:literal, $new:expr) => {
        $(#[$doc])*
        pub struct $name {
            names: &'static [&'static str],
            pub family: Family<Labels, $metric, fn() -> $metric>,
            /// Those that came first. An exchange asks for a dozen, and looking through a few is faster than hashing all these words.
            near: RwLock<Vec<(Labels, $metric)>>,
        }

        impl $name {
            pub const KIND: &'static str = $kind;

            pub fn new(names: &'static [&'static str]) -> Self {
                Self { names, family: Family::new_with_constructor($new), near: RwLock::default() }
            }

            /// The one with these values, which stand in the order of the labels.
            pub fn of(&self, values: &[&'static str]) -> $metric {
                self.near(values).unwrap_or_else(|| self.far(Labels::new(self.names, values)))
            }

            fn near(&self, values: &[&str]) -> Option<$metric> {
                let near = self.near.read().unwrap_or_else(PoisonError::into_inner);
                near.iter().find(|(labels, _)| labels.are(values)).map(|(_, metric)| metric.clone())
            }

            fn far(&self, labels: Labels) -> $metric {
                let metric = self.family.get_or_create_owned(&labels);
                if self.near.read().unwrap_or_else(PoisonError::into_inner).len() < MOST_NEAR {
                    self.near.write().unwrap_or_else(PoisonError::into_inner).push((labels, metric.clone()));
                }
                metric
            }
        }
    };
}

kind!(Counts, Counter, "counter", Counter::default);
kind!(
    /// A counter that is no whole number.
    Total,
    Counter<f64, AtomicU64>,
    "counter",
    Counter::default
);
kind!(Level, Gauge, "gauge", Gauge::default);
kind!(
    /// From a quarter of a millisecond, which is what a small request costs, to the length of the longest answers.
    Seconds,
    Histogram,
    "histogram",
    || Histogram::new([
        0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0
    ])
);
kind!(
    /// Powers of four, as OpenTelemetry has them.
    Tokens,
    Histogram,
    "histogram",
    || Histogram::new(exponential_buckets(1.0, 4.0, 14))
);
kind!(Pressure, Histogram, "histogram", || Histogram::new([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0]));

impl Counts {
    /// As `of`, where the first label is a route of the configuration.
    pub fn of_route(&self, route: &str, rest: [&'static str; 3]) -> Counter {
        self.near(&[route, rest[0], rest[1], rest[2]]).unwrap_or_else(|| {
            let mut labels = Labels::new(self.names, &["", rest[0], rest[1], rest[2]]);
            labels.values[0] = Cow::Owned(route.to_owned());
            self.far(labels)
        })
    }
}
