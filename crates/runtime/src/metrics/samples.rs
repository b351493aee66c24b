//! The last values of a measure, and their percentiles. Knows no unit.

use serde::Serialize;

/// Last calls of a tool from which its percentiles are computed.
const SAMPLES_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Samples {
    values: Vec<u32>,
    /// The place of the next value once the buffer is full.
    next: usize,
    sum: u64,
    count: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Percentiles {
    pub(super) p50: u32,
    pub(super) p95: u32,
    pub(super) p99: u32,
}

impl Samples {
    pub(super) fn add(&mut self, value: u32) {
        self.sum += u64::from(value);
        self.count += 1;
        if self.values.len() < SAMPLES_MAX {
            self.values.push(value);
            return;
        }
        self.values[self.next] = value;
        self.next = (self.next + 1) % SAMPLES_MAX;
    }

    /// Several measures as one. The last values of each are kept.
    pub(super) fn merged<'s>(of: impl Iterator<Item = &'s Self>) -> Self {
        of.fold(Self::default(), |mut merged, samples| {
            merged.values.extend(&samples.values);
            merged.sum += samples.sum;
            merged.count += samples.count;
            merged
        })
    }

    /// The kept values, the least first.
    pub(super) fn sorted(&self) -> Vec<u32> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        sorted
    }

    /// The percentiles of the kept values, by nearest rank.
    pub(super) fn percentiles(&self) -> Percentiles {
        let sorted = self.sorted();
        let rank = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().unwrap_or(0)
        };
        Percentiles {
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
        }
    }

    /// The average of the kept values, rounded up.
    pub(super) fn average(&self) -> u64 {
        let sum: u64 = self.values.iter().map(|value| u64::from(*value)).sum();
        sum.div_ceil(self.values.len().max(1) as u64)
    }

    /// The sum of all values ever.
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_last_thousand() {
        let mut samples = Samples::default();
        assert_eq!(samples.percentiles(), Percentiles::default());
        for value in 1..=100 {
            samples.add(value);
        }
        let (p50, p95, p99) = (50, 95, 99);
        assert_eq!(samples.percentiles(), Percentiles { p50, p95, p99 });
        assert_eq!(samples.average(), 51);
        for _ in 0..1_000 {
            samples.add(7);
        }
        let (p50, p95, p99) = (7, 7, 7);
        assert_eq!(samples.percentiles(), Percentiles { p50, p95, p99 });
        assert_eq!((samples.count(), samples.sum()), (1_100, 5_050 + 7_000));
    }
}
