//! Version numbers of tools: their form and their order. Knows no tool.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The most bytes of a version's text.
const BYTES_MAX: usize = 64;
/// The most digits of one of its numbers.
const DIGITS_MAX: usize = 10;

/// MAJOR.MINOR.PATCH with an optional pre-release and build, as in semver.org's version 2.0.0. Compared by precedence: versions that
/// differ only in their builds are equal.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub struct Version(Arc<str>);

impl Version {
    /// `None` where the text is no version.
    pub fn parse(text: &str) -> Option<Self> {
        is_version(text).then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The three numbers, and the parts of the pre-release.
    fn parts(&self) -> (Vec<u64>, Vec<&str>) {
        let rest = self.0.split_once('+').map_or(&*self.0, |(rest, _)| rest);
        let (core, before) = rest.split_once('-').unwrap_or((rest, ""));
        let numbers = core.split('.').map(|part| part.parse().unwrap_or(0));
        let before = before.split('.').filter(|part| !part.is_empty());
        (numbers.collect(), before.collect())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((own, own_before), (others, others_before)) = (self.parts(), other.parts());
        let by_numbers = own.cmp(&others);
        let by_being_before = own_before.is_empty().cmp(&others_before.is_empty());
        by_numbers.then(by_being_before).then_with(|| {
            let mut pairs = own_before.iter().zip(&others_before);
            let first = pairs.find_map(|(own, other)| {
                let order = compare_parts(own, other);
                order.is_ne().then_some(order)
            });
            first.unwrap_or_else(|| own_before.len().cmp(&others_before.len()))
        })
    }
}

/// Numbers by value and before words, words by their bytes.
fn compare_parts(own: &str, other: &str) -> Ordering {
    match (own.parse::<u64>(), other.parse::<u64>()) {
        (Ok(own), Ok(other)) => own.cmp(&other),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => own.cmp(other),
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl fmt::Debug for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let shown: String = text.chars().take(BYTES_MAX).collect();
            serde::de::Error::custom(format!(
                "{shown:?} is no semantic version; write one such as \"1.2.0\""
            ))
        })
    }
}

pub fn is_version(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.len() <= DIGITS_MAX
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let word = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let (rest, build) = text
        .split_once('+')
        .map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, before) = rest
        .split_once('-')
        .map_or((rest, None), |(core, before)| (core, Some(before)));
    let parts: Vec<&str> = core.split('.').collect();
    text.len() <= BYTES_MAX
        && parts.len() == 3
        && parts.into_iter().all(number)
        && build.is_none_or(|build| build.split('.').all(word))
        && before.is_none_or(|before| {
            before.split('.').all(|part| {
                word(part) && (number(part) || !part.bytes().all(|byte| byte.is_ascii_digit()))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for (text, good) in [
            ("1.0.0", true),
            ("0.10.3-rc.1+build.5", true),
            ("1.0", false),
            ("01.0.0", false),
            ("1.0.0-", false),
            ("1.0.0-01", false),
            ("v1.0.0", false),
            ("1.0.0+", false),
            ("1.0.0 ", false),
            ("", false),
            ("99999999999.0.0", false),
            ("1.0.0-äh", false),
        ] {
            assert_eq!(Version::parse(text).is_some(), good, "{text}");
        }
    }

    #[test]
    fn versions_are_ordered_by_precedence() {
        let ascending = [
            "0.9.10",
            "1.0.0-1",
            "1.0.0-2.a",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta",
            "1.0.0",
            "1.2.0",
            "1.10.0",
            "2.0.0-0",
        ];
        let mut sorted: Vec<Version> = ascending
            .iter()
            .rev()
            .filter_map(|text| Version::parse(text))
            .collect();
        sorted.sort();
        let sorted: Vec<&str> = sorted.iter().map(Version::as_str).collect();
        assert_eq!(sorted, ascending);
        let same = ["1.0.0+a", "1.0.0+b"].map(|text| Version::parse(text).unwrap());
        assert_eq!(same[0], same[1]);
    }
}
