//! Counts the files of a folder without a record, by the reason. Names none of them.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The most different endings with their own count.
const ENDINGS_MAX: usize = 32;
/// The most letters of an ending; a longer one is none.
const ENDING_BYTES_MAX: usize = 12;
/// The key for names without an ending, and for endings beyond the limit.
const NO_ENDING: &str = "";

/// The files without a record, by the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    /// Names that begin with `.` or `_`; a hidden folder counts as one.
    pub hidden: usize,
    /// HTML pages and PDF files, if no document reader is set.
    pub documents: usize,
    /// Files whose problem left no record.
    pub bad: usize,
    /// Files of other kinds, by the ending of their names.
    pub other_kinds: BTreeMap<String, usize>,
}

impl LeftOut {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Counts files of other kinds by their names.
    pub(crate) fn count_kinds<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            let name = name.rsplit('/').next().unwrap_or_default();
            let ending = name
                .rsplit_once('.')
                .map_or(NO_ENDING, |(_, ending)| ending);
            let mut ending = ending.to_ascii_lowercase();
            let is_known = self.other_kinds.contains_key(&ending);
            let is_full = !is_known && self.other_kinds.len() >= ENDINGS_MAX;
            if is_full || ending.len() > ENDING_BYTES_MAX {
                ending = NO_ENDING.to_owned();
            }
            *self.other_kinds.entry(ending).or_default() += 1;
        }
    }
}

/// In words, the largest count of endings first: `3 .png, 1 without an ending, 2 with a problem`.
impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<_> = self.other_kinds.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let kinds = kinds
            .into_iter()
            .map(|(ending, count)| match ending.as_str() {
                NO_ENDING => format!("{count} without a known ending"),
                ending => format!("{count} .{ending}"),
            });
        let others = [
            (self.bad, "with a problem"),
            (
                self.documents,
                "that need a build with --features documents",
            ),
            (self.hidden, "whose name begins with . or _"),
        ];
        let others = others
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, why)| format!("{count} {why}"));
        formatter.write_str(&kinds.chain(others).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_told_in_words_by_reason() {
        let mut left_out = LeftOut::default();
        assert!(left_out.is_empty());
        left_out
            .count_kinds(["a.PNG", "b/c.png", "d.svg", "LICENSE", "e.averylongending"].into_iter());
        left_out.bad = 2;
        left_out.hidden = 1;
        assert_eq!(
            left_out.to_string(),
            "2 without a known ending, 2 .png, 1 .svg, 2 with a problem, 1 whose name begins with . or _"
        );
    }

    #[test]
    fn endings_without_end_are_counted_together() {
        let names: Vec<String> = (0..100).map(|number| format!("x.e{number}")).collect();
        let mut left_out = LeftOut::default();
        left_out.count_kinds(names.iter().map(String::as_str));
        assert_eq!(left_out.other_kinds.len(), ENDINGS_MAX + 1);
        assert_eq!(left_out.other_kinds.values().sum::<usize>(), 100);
    }
}
