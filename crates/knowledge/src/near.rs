//! Says how far apart two spellings are. Knows no language and no index.

/// Whether two different words are one letter apart: one changed, added or left out, or two neighbours swapped.
pub(crate) fn is_one_slip_away(left: &str, right: &str) -> bool {
    // A letter takes at most four bytes, which rules most words out without reading them.
    if left == right || left.len().abs_diff(right.len()) > 4 {
        return false;
    }
    let mut left_rest = left.chars();
    let mut right_rest = right.chars();
    loop {
        let (left_after, right_after) = (left_rest.clone(), right_rest.clone());
        match (left_rest.next(), right_rest.next()) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => {
                let changed = left_rest.as_str() == right_rest.as_str();
                let added = left_after.as_str() == right_rest.as_str()
                    || left_rest.as_str() == right_after.as_str();
                let swapped = left_rest.next() == Some(other)
                    && right_rest.next() == Some(one)
                    && left_rest.as_str() == right_rest.as_str();
                return changed || added || swapped;
            }
            (Some(_), None) => return left_rest.next().is_none(),
            (None, Some(_)) => return right_rest.next().is_none(),
            (None, None) => return false,
        }
    }
}

/// The Levenshtein distance of two byte strings where it is at most `distance_max`.
pub(crate) fn distance(left: &[u8], right: &[u8], distance_max: usize) -> Option<usize> {
    if left.len().abs_diff(right.len()) > distance_max {
        return None;
    }
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, byte) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        let mut least = row[0];
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(byte != other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
            least = least.min(row[column + 1]);
        }
        if least > distance_max {
            return None;
        }
    }
    let last = row[right.len()];
    (last <= distance_max).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slip_is_a_change_an_addition_an_omission_or_a_swap() {
        for (left, right, near) in [
            ("amundson", "amundsen", true),
            ("nansn", "nansen", true),
            ("nanssen", "nansen", true),
            ("nansne", "nansen", true),
            ("ansen", "nansen", true),
            ("nansens", "nansen", true),
            ("gjøa", "gjoa", true),
            ("nansen", "nansen", false),
            ("nensan", "nansen", false),
            ("nansenss", "nansen", false),
            ("", "n", true),
            ("", "", false),
            ("", "na", false),
            ("ab", "cd", false),
        ] {
            assert_eq!(is_one_slip_away(left, right), near, "{left} {right}");
            assert_eq!(is_one_slip_away(right, left), near, "{right} {left}");
        }
    }

    #[test]
    fn a_distance_is_counted_up_to_its_limit() {
        for (left, right, found) in [
            ("kitten", "sitting", Some(3)),
            ("same", "same", Some(0)),
            ("", "abc", Some(3)),
            ("", "abcd", None),
            ("abcdef", "uvwxyz", None),
        ] {
            assert_eq!(
                distance(left.as_bytes(), right.as_bytes(), 3),
                found,
                "{left} {right}"
            );
        }
    }
}
