//! Conclusions from a sample to the whole: intervals that hold the true value in 95 of 100 cases, and whether two samples differ.
//! Knows no tool.
//!
//! A share has Wilson's score interval (E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
//! Journal of the American Statistical Association 22, 1927). The difference of two shares has the interval that R. G. Newcombe
//! makes of two of those ("Interval estimation for the difference between independent proportions", Statistics in Medicine 17,
//! 1998, method 10). A median has the interval between two of the sorted values (W. R. Thompson, "On confidence ranges for the
//! median", Annals of Mathematical Statistics 7, 1936), which assumes nothing about the distribution.

use serde::Serialize;

/// Standard deviations of a normal distribution that hold 95 of 100 cases.
const DEVIATIONS: f64 = 1.959_964;

/// The least size of samples that are compared.
pub(super) const SAMPLE_MIN: u64 = 20;

/// The least and the greatest value that fit the sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Interval(pub(super) f64, pub(super) f64);

/// A part of a sample, such as its calls that succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) part: u64,
    pub(super) whole: u64,
}

/// The result of comparing two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Higher,
    Lower,
    /// There are too few values, or their difference may be chance.
    NothingYet,
}

/// The difference between a value and that of another sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Difference {
    /// `None` unless both samples have a value.
    pub(super) difference: Option<f64>,
    /// The interval of the difference, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interval: Option<Interval>,
    pub(super) verdict: Verdict,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a rate needs no more than the digits of a double"
)]
fn float(count: u64) -> f64 {
    count as f64
}

impl Share {
    /// `None` for an empty sample.
    pub(super) fn rate(self) -> Option<f64> {
        (self.whole > 0).then(|| float(self.part) / float(self.whole))
    }

    /// Wilson's interval. `None` for an empty sample.
    pub(super) fn interval(self) -> Option<Interval> {
        let rate = self.rate()?;
        let whole = float(self.whole);
        let square = DEVIATIONS * DEVIATIONS;
        let middle = rate + square / (2.0 * whole);
        let spread = rate * (1.0 - rate) / whole + square / (4.0 * whole * whole);
        let reach = DEVIATIONS * spread.sqrt();
        let scale = 1.0 + square / whole;
        let least = ((middle - reach) / scale).max(0.0);
        let greatest = ((middle + reach) / scale).min(1.0);
        Some(Interval(least, greatest))
    }

    /// The share's difference from another one, with Newcombe's interval.
    pub(super) fn above(self, other: Self) -> Difference {
        let (Some(rate), Some(others)) = (self.rate(), other.rate()) else {
            return Difference::UNKNOWN;
        };
        let (Some(Interval(least, greatest)), Some(Interval(others_least, others_greatest))) =
            (self.interval(), other.interval())
        else {
            return Difference::UNKNOWN;
        };
        let difference = rate - others;
        let down = (rate - least).hypot(others_greatest - others);
        let up = (greatest - rate).hypot(others - others_least);
        let interval = Interval(difference - down, difference + up);
        let is_small = self.whole.min(other.whole) < SAMPLE_MIN;
        Difference {
            difference: Some(difference),
            interval: Some(interval),
            verdict: match interval {
                _ if is_small => Verdict::NothingYet,
                Interval(least, _) if least > 0.0 => Verdict::Higher,
                Interval(_, greatest) if greatest < 0.0 => Verdict::Lower,
                Interval(..) => Verdict::NothingYet,
            },
        }
    }
}

impl Difference {
    const UNKNOWN: Self = Self {
        difference: None,
        interval: None,
        verdict: Verdict::NothingYet,
    };
}

/// The median of sorted values, by nearest rank.
fn median(sorted: &[u32]) -> Option<f64> {
    let rank = sorted.len().div_ceil(2).checked_sub(1)?;
    sorted.get(rank).copied().map(f64::from)
}

/// Thompson's interval for the median of sorted values. `None` for too few values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks are those of some thousand values, and are above 0 where they are used"
)]
pub(super) fn of_median(sorted: &[u32]) -> Option<Interval> {
    let count = sorted.len() as f64;
    let reach = DEVIATIONS * count.sqrt() / 2.0;
    let first = (count / 2.0 - reach).floor();
    let last = (1.0 + count / 2.0 + reach).ceil();
    if first < 1.0 || last > count {
        return None;
    }
    let value = |rank: f64| sorted.get(rank as usize - 1).copied().map(f64::from);
    Some(Interval(value(first)?, value(last)?))
}

/// The difference between the medians of sorted values. It is certain if their intervals do not meet.
pub(super) fn above(sorted: &[u32], others: &[u32]) -> Difference {
    let (Some(own), Some(other)) = (median(sorted), median(others)) else {
        return Difference::UNKNOWN;
    };
    let verdict = match (of_median(sorted), of_median(others)) {
        _ if (sorted.len().min(others.len()) as u64) < SAMPLE_MIN => Verdict::NothingYet,
        (Some(Interval(least, _)), Some(Interval(_, greatest))) if least > greatest => {
            Verdict::Higher
        }
        (Some(Interval(_, greatest)), Some(Interval(least, _))) if greatest < least => {
            Verdict::Lower
        }
        _ => Verdict::NothingYet,
    };
    Difference {
        difference: Some(own - other),
        interval: None,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(Interval(least, greatest): Interval) -> (f64, f64) {
        let round = |value: f64| (value * 10_000.0).round() / 10_000.0;
        (round(least), round(greatest))
    }

    /// The values of the table in Newcombe's other paper of 1998, on single proportions, method 3.
    #[test]
    fn a_share_has_the_interval_of_the_textbook() {
        for (part, whole, expected) in [
            (81, 263, (0.2553, 0.3662)),
            (15, 148, (0.0624, 0.1605)),
            (0, 20, (0.0, 0.1611)),
            (1, 29, (0.0061, 0.1718)),
            (29, 29, (0.883, 1.0)),
        ] {
            let found = Share { part, whole }.interval().unwrap();
            assert_eq!(rounded(found), expected, "{part} of {whole}");
        }
        assert_eq!(Share::default().interval(), None);
    }

    /// The values of that paper's table on differences, method 10.
    #[test]
    fn the_difference_of_two_shares_has_the_interval_of_the_textbook() {
        for ((part, whole), (others, other_whole), expected, verdict) in [
            ((56, 70), (48, 80), (0.0524, 0.3339), Verdict::Higher),
            ((9, 10), (3, 10), (0.1705, 0.809), Verdict::NothingYet),
            ((5, 56), (0, 29), (-0.0381, 0.1926), Verdict::NothingYet),
            ((0, 29), (5, 56), (-0.1926, 0.0381), Verdict::NothingYet),
            ((48, 80), (56, 70), (-0.3339, -0.0524), Verdict::Lower),
        ] {
            let own = Share { part, whole };
            let other = Share {
                part: others,
                whole: other_whole,
            };
            let found = own.above(other);
            assert_eq!(rounded(found.interval.unwrap()), expected, "{own:?}");
            assert_eq!(found.verdict, verdict, "{own:?} {other:?}");
        }
        let of_nothing = Share { part: 1, whole: 2 }.above(Share::default());
        assert_eq!(of_nothing, Difference::UNKNOWN);
    }

    #[test]
    fn a_median_has_the_interval_between_two_of_the_values() {
        let values = |count: u32| -> Vec<u32> { (1..=count).collect() };
        for (count, expected) in [
            (0, None),
            (5, None),
            (20, Some(Interval(5.0, 16.0))),
            (100, Some(Interval(40.0, 61.0))),
            (1_000, Some(Interval(469.0, 532.0))),
        ] {
            assert_eq!(of_median(&values(count)), expected, "{count}");
        }
    }

    #[test]
    fn medians_differ_where_their_intervals_do_not_meet() {
        let values = |from: u32, count: u32| -> Vec<u32> { (from..from + count).collect() };
        for (own, others, difference, verdict) in [
            (
                values(0, 100),
                values(0, 100),
                Some(0.0),
                Verdict::NothingYet,
            ),
            (
                values(10, 100),
                values(0, 100),
                Some(10.0),
                Verdict::NothingYet,
            ),
            (values(30, 100), values(0, 100), Some(30.0), Verdict::Higher),
            (values(0, 100), values(30, 100), Some(-30.0), Verdict::Lower),
            // Too few values for a verdict.
            (
                values(1_000, 19),
                values(0, 100),
                Some(960.0),
                Verdict::NothingYet,
            ),
            (Vec::new(), values(0, 100), None, Verdict::NothingYet),
        ] {
            let found = above(&own, &others);
            assert_eq!((found.difference, found.verdict), (difference, verdict));
        }
    }
}
