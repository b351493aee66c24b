//! The distance of two spellings. Knows no language and no index.

use tantivy_fst::Automaton;

/// Accepts the words that differ from a word by one slip: a byte changed, added or left out, or two neighbours swapped. It walks a
/// dictionary's common prefixes once, so that most of the dictionary is never read.
///
/// A nondeterministic automaton in bit sets: bit `n` of a set stands for "the first `n` bytes of the word were read".
pub(crate) struct OneSlip {
    /// For each byte, its positions in the word.
    places: [u64; 256],
    /// The bit of the whole word.
    end: u64,
}

/// The possible positions of a reading in the word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    without_slip: u64,
    /// Within a swap: the later of the two bytes was read, the earlier one is expected.
    swapping: u64,
    after_slip: u64,
}

impl OneSlip {
    /// The most bytes of a word: one fewer than a set has bits.
    const WORD_BYTES_MAX: usize = 63;

    /// `None` for a word that is too long for any language.
    pub(crate) fn from(word: &str) -> Option<Self> {
        if word.len() > Self::WORD_BYTES_MAX {
            return None;
        }
        let mut places = [0; 256];
        for (place, byte) in word.bytes().enumerate() {
            places[usize::from(byte)] |= 1 << place;
        }
        Some(Self {
            places,
            end: 1 << word.len(),
        })
    }

    /// The bits up to that of the whole word; a reading goes no further.
    fn within(&self) -> u64 {
        self.end | (self.end - 1)
    }
}

impl Automaton for OneSlip {
    type State = Reading;

    fn start(&self) -> Reading {
        Reading {
            without_slip: 1,
            swapping: 0,
            after_slip: 0b10 & self.within(),
        }
    }

    fn is_match(&self, reading: &Reading) -> bool {
        reading.after_slip & self.end != 0
    }

    fn can_match(&self, reading: &Reading) -> bool {
        reading.without_slip | reading.swapping | reading.after_slip != 0
    }

    fn accept(&self, reading: &Reading, byte: u8) -> Reading {
        let here = self.places[usize::from(byte)];
        let without_slip = (reading.without_slip & here) << 1;
        let added = reading.without_slip;
        let changed = (reading.without_slip & !here) << 1;
        let left_out = without_slip << 1;
        let swapped = (reading.swapping & here) << 2;
        let after_slip = (reading.after_slip & here) << 1;
        Reading {
            without_slip: without_slip & self.within(),
            swapping: reading.without_slip & (here >> 1),
            after_slip: (after_slip | added | changed | left_out | swapped) & self.within(),
        }
    }
}

/// The distance of two texts if it is at most `distance_max`: the number of characters to change, add, leave out, or swap with their
/// neighbours.
pub(crate) fn distance(left: &str, right: &str, distance_max: usize) -> Option<usize> {
    if left.is_ascii() && right.is_ascii() {
        return between(left.as_bytes(), right.as_bytes(), distance_max);
    }
    let count = |text: &str| text.chars().count();
    if count(left).abs_diff(count(right)) > distance_max {
        return None;
    }
    let characters = |text: &str| text.chars().collect::<Vec<char>>();
    between(&characters(left), &characters(right), distance_max)
}

fn between<T: Copy + Eq>(left: &[T], right: &[T], distance_max: usize) -> Option<usize> {
    if left.len().abs_diff(right.len()) > distance_max {
        return None;
    }
    let mut above: Vec<usize> = vec![0; right.len() + 1];
    let mut before: Vec<usize> = (0..=right.len()).collect();
    let mut row = vec![0; right.len() + 1];
    for (index, letter) in left.iter().enumerate() {
        row[0] = index + 1;
        let mut least = row[0];
        for (column, other) in right.iter().enumerate() {
            let changed = before[column] + usize::from(letter != other);
            let mut best = changed.min(before[column + 1] + 1).min(row[column] + 1);
            let is_swap = index > 0
                && column > 0
                && left[index - 1] == *other
                && right[column - 1] == *letter;
            if is_swap {
                best = best.min(above[column - 1] + 1);
            }
            row[column + 1] = best;
            least = least.min(best);
        }
        // A swap can step over one row, so that this row and the one before it decide together.
        if least > distance_max && before.iter().all(|distance| *distance > distance_max) {
            return None;
        }
        std::mem::swap(&mut above, &mut before);
        std::mem::swap(&mut before, &mut row);
    }
    let last = before[right.len()];
    (last <= distance_max).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(word: &str, text: &str) -> bool {
        let automaton = OneSlip::from(word).unwrap();
        let reading = text.bytes().fold(automaton.start(), |reading, byte| {
            automaton.accept(&reading, byte)
        });
        assert!(automaton.can_match(&reading) || !automaton.is_match(&reading));
        automaton.is_match(&reading)
    }

    #[test]
    fn one_slip_is_a_change_an_addition_an_omission_or_a_swap() {
        let long = "n".repeat(OneSlip::WORD_BYTES_MAX);
        assert!(OneSlip::from(&format!("{long}n")).is_none());
        for (left, right, near) in [
            ("amundson", "amundsen", true),
            ("nansn", "nansen", true),
            ("nanssen", "nansen", true),
            ("nansne", "nansen", true),
            ("ansen", "nansen", true),
            ("nansens", "nansen", true),
            ("aab", "ab", true),
            ("nansen", "nansens bror", false),
            ("nensan", "nansen", false),
            ("nansenss", "nansen", false),
            ("", "n", true),
            ("", "na", false),
            (long.as_str(), &long[1..], true),
            (long.as_str(), &long[2..], false),
            ("ab", "cd", false),
        ] {
            assert_eq!(accepts(left, right), near, "{left} {right}");
            assert_eq!(accepts(right, left), near, "{right} {left}");
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
            ("abcd", "badc", Some(2)),
            ("sverdurp", "sverdrup", Some(1)),
            ("нансн", "нансен", Some(1)),
            ("naïve", "naive", Some(1)),
            ("эйнштейн", "нансен", None),
        ] {
            assert_eq!(distance(left, right, 3), found, "{left} {right}");
        }
    }
}
