//! Finds records by the closeness of vectors: an exact scan over bytes. Knows no text and no model.

use crate::catalogue::{Allowed, Ordinal};
use fearless_simd::{Level, dispatch};
use std::collections::{BTreeSet, HashSet};

/// The largest size of a number of a passage's vector.
const CODE_MAX: f32 = 127.0;
/// The largest size of a number of a query's vector. The sum of 400 products of the largest numbers still fits 32 bits;
/// vectors with more numbers get smaller ones.
const QUERY_CODE_MAX: f32 = 32_767.0;
const NUMBERS_AT_FULL_SIZE: usize = 400;

/// A vector in bytes, with the size of one step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Code {
    pub(crate) scale: f32,
    pub(crate) numbers: Vec<i8>,
}

/// A borrowed [`Code`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CodeRef<'a> {
    pub(crate) scale: f32,
    pub(crate) numbers: &'a [i8],
}

impl Code {
    pub(crate) fn lent(&self) -> CodeRef<'_> {
        CodeRef {
            scale: self.scale,
            numbers: &self.numbers,
        }
    }

    pub(crate) fn of(vector: &[f32]) -> Self {
        let largest = largest(vector);
        if largest == 0.0 || !largest.is_finite() {
            return Self {
                scale: 0.0,
                numbers: vec![0; vector.len()],
            };
        }
        let scale = largest / CODE_MAX;
        Self {
            scale,
            numbers: vector
                .iter()
                .map(|number| (number / scale).round() as i8)
                .collect(),
        }
    }
}

/// The vectors of all passages, each with its record.
pub(crate) struct VectorIndex {
    level: Level,
    dimension: usize,
    numbers: Vec<i8>,
    scales: Vec<f32>,
    owners: Vec<Ordinal>,
}

impl VectorIndex {
    pub(crate) fn with_capacity(dimension: usize, passages: usize) -> Self {
        Self {
            level: Level::new(),
            dimension,
            numbers: Vec::with_capacity(dimension * passages),
            scales: Vec::with_capacity(passages),
            owners: Vec::with_capacity(passages),
        }
    }

    /// Adds a passage's vector; a vector of another size is left out.
    pub(crate) fn push(&mut self, owner: Ordinal, code: CodeRef<'_>) {
        if code.numbers.len() == self.dimension {
            self.numbers.extend_from_slice(code.numbers);
            self.scales.push(code.scale);
            self.owners.push(owner);
        }
    }

    /// The vectors of a record's passages, in their order. Owners come in rising order.
    #[cfg(feature = "postgres")]
    pub(crate) fn of_owner(&self, owner: Ordinal) -> impl Iterator<Item = Vec<f32>> {
        let start = self.owners.partition_point(|other| *other < owner);
        let end = self.owners.partition_point(|other| *other <= owner);
        (start..end).map(|place| {
            let numbers = &self.numbers[place * self.dimension..(place + 1) * self.dimension];
            let scale = self.scales[place];
            numbers
                .iter()
                .map(|number| f32::from(*number) * scale)
                .collect()
        })
    }

    /// The index of a record's closest passage, and the number of its passages; `None` for fewer than two.
    pub(crate) fn closest_passage(&self, query: &[f32], owner: Ordinal) -> Option<(usize, usize)> {
        let start = self.owners.partition_point(|other| *other < owner);
        let end = self.owners.partition_point(|other| *other <= owner);
        if end - start < 2 || query.len() != self.dimension {
            return None;
        }
        let closeness = |place: usize| {
            let numbers = &self.numbers[place * self.dimension..(place + 1) * self.dimension];
            let products = numbers.iter().zip(query);
            let sum: f32 = products.map(|(left, right)| f32::from(*left) * right).sum();
            sum * self.scales[place]
        };
        let mut best = (start, closeness(start));
        for place in start + 1..end {
            let close = closeness(place);
            if close > best.1 {
                best = (place, close);
            }
        }
        Some((best.0 - start, end - start))
    }

    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    /// The records, of so many in all, that have no vector.
    pub(crate) fn without_vectors(&self, records: usize) -> BTreeSet<Ordinal> {
        let with: HashSet<Ordinal> = self.owners.iter().copied().collect();
        (0..records as Ordinal)
            .filter(|ordinal| !with.contains(ordinal))
            .collect()
    }

    /// The closeness to each of so many records: the cosine of its closest passage; 0 for a record that is not allowed, has no passage,
    /// or points the other way.
    pub(crate) fn closeness(&self, query: &[f32], records: usize, allowed: &Allowed) -> Vec<f32> {
        let mut closest = vec![0.0_f32; records];
        let largest = largest(query);
        if query.len() != self.dimension || largest == 0.0 || !largest.is_finite() {
            return closest;
        }
        let share = (NUMBERS_AT_FULL_SIZE as f32 / self.dimension as f32).min(1.0);
        let step = largest / (QUERY_CODE_MAX * share);
        let query: Vec<i16> = query
            .iter()
            .map(|number| (number / step).round() as i16)
            .collect();
        let passages = Passages {
            numbers: &self.numbers,
            scales: &self.scales,
            owners: &self.owners,
        };
        dispatch!(self.level, _simd => scan(&query, step, passages, allowed, &mut closest));
        closest
    }
}

#[derive(Clone, Copy)]
struct Passages<'a> {
    numbers: &'a [i8],
    scales: &'a [f32],
    owners: &'a [Ordinal],
}

#[inline(always)]
fn scan(query: &[i16], step: f32, passages: Passages<'_>, allowed: &Allowed, closest: &mut [f32]) {
    let vectors = passages.numbers.chunks_exact(query.len());
    for ((vector, scale), owner) in vectors.zip(passages.scales).zip(passages.owners) {
        if !allowed.contains(*owner) {
            continue;
        }
        let mut sum = 0_i32;
        for (left, right) in vector.iter().zip(query) {
            sum += i32::from(*left) * i32::from(*right);
        }
        let cosine = sum as f32 * scale * step;
        if let Some(best) = closest.get_mut(*owner as usize) {
            *best = best.max(cosine);
        }
    }
}

fn largest(vector: &[f32]) -> f32 {
    vector
        .iter()
        .fold(0.0, |largest: f32, number| largest.max(number.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random numbers between -1 and 1 that are always the same.
    fn vectors(count: usize, dimension: usize) -> Vec<Vec<f32>> {
        let mut state = 1_u64;
        (0..count)
            .map(|_| {
                let mut vector: Vec<f32> = (0..dimension)
                    .map(|_| {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
                    })
                    .collect();
                crate::embed::normalise(&mut vector);
                vector
            })
            .collect()
    }

    fn dot(left: &[f32], right: &[f32]) -> f32 {
        left.iter()
            .zip(right)
            .map(|(left, right)| left * right)
            .sum()
    }

    /// Vectors mixed from some dozens of traits, like those of texts: neighbours are much closer than others.
    fn mixtures(count: usize, dimension: usize) -> Vec<Vec<f32>> {
        const TRAITS: usize = 48;
        let traits = vectors(TRAITS, dimension);
        let shares = vectors(count, TRAITS);
        let mixture = |shares: &Vec<f32>| {
            let mut vector = vec![0.0; dimension];
            for (share, of_trait) in shares.iter().zip(&traits) {
                for (number, part) in vector.iter_mut().zip(of_trait) {
                    *number += share * part;
                }
            }
            crate::embed::normalise(&mut vector);
            vector
        };
        shares.iter().map(mixture).collect()
    }

    /// The share of the ten closest by exact arithmetic that the scan finds among its ten closest.
    fn recall(vectors: &[Vec<f32>], allowed: &Allowed) -> f64 {
        let (queries, passages) = vectors.split_at(100);
        let dimension = queries[0].len();
        let mut index = VectorIndex::with_capacity(dimension, passages.len());
        for (owner, passage) in (0..).zip(passages) {
            index.push(owner, Code::of(passage).lent());
        }
        let (mut found, mut wanted) = (0, 0);
        for query in queries {
            let closeness = index.closeness(query, passages.len(), allowed);
            let is_allowed = |place: &usize| allowed.contains(*place as Ordinal);
            let exact: Vec<f32> = (0..passages.len())
                .map(|place| {
                    if is_allowed(&place) {
                        dot(query, &passages[place])
                    } else {
                        0.0
                    }
                })
                .collect();
            let best = |scores: &[f32]| {
                // A vector that points the other way is not found.
                let is_found = |place: &usize| is_allowed(place) && scores[*place] > 0.0;
                let mut order: Vec<usize> = (0..scores.len()).filter(is_found).collect();
                order.sort_by(|left, right| scores[*right].total_cmp(&scores[*left]));
                order.truncate(10);
                order
            };
            let truth = best(&exact);
            wanted += truth.len();
            let best = best(&closeness);
            found += best.iter().filter(|place| truth.contains(place)).count();
            for (close, exact) in closeness.iter().zip(&exact) {
                assert!((close - exact.max(0.0)).abs() < 0.01, "{close} {exact}");
            }
        }
        assert!(wanted > 0);
        found as f64 / wanted as f64
    }

    #[test]
    fn the_first_ten_are_those_of_exact_arithmetic() {
        for dimension in [384, 1_536, 7] {
            // Random vectors are the hardest: all neighbours are about equally far.
            let recall = recall(&vectors(3_000, dimension), &Allowed::All);
            assert!(recall >= 0.96, "{dimension}: {recall}");
        }
    }

    #[test]
    fn with_any_filter_the_scan_finds_ninety_nine_of_a_hundred() {
        const PASSAGES: usize = 4_000;
        let vectors = mixtures(100 + PASSAGES, 384);
        let every = |step: usize| {
            let mut words = vec![0_u64; PASSAGES.div_ceil(64)];
            for place in (0..PASSAGES).step_by(step) {
                words[place / 64] |= 1 << (place % 64);
            }
            Allowed::Only(words)
        };
        let filters = [Allowed::All, every(2), every(10), every(300)];
        for (place, filter) in filters.iter().enumerate() {
            let recall = recall(&vectors, filter);
            assert!(recall >= 0.99, "{place}: {recall}");
        }
    }

    #[test]
    fn a_record_is_as_close_as_its_closest_passage_and_filters_hold() {
        let mut index = VectorIndex::with_capacity(2, 3);
        index.push(0, Code::of(&[0.0, 1.0]).lent());
        index.push(0, Code::of(&[1.0, 0.0]).lent());
        index.push(1, Code::of(&[1.0, 0.0]).lent());
        index.push(2, Code::of(&[-1.0, 0.0]).lent());
        index.push(3, Code::of(&[1.0, 0.0, 0.0]).lent());
        assert_eq!(index.len(), 4);
        let allowed = Allowed::Only(vec![0b101]);
        let closeness = index.closeness(&[1.0, 0.0], 4, &allowed);
        assert!((closeness[0] - 1.0).abs() < 1e-4);
        assert_eq!(closeness[1..], [0.0, 0.0, 0.0]);
        assert_eq!(index.closest_passage(&[1.0, 0.0], 0), Some((1, 2)));
        assert_eq!(index.closest_passage(&[0.0, 1.0], 0), Some((0, 2)));
        assert_eq!(index.closest_passage(&[1.0, 0.0], 1), None);
    }

    #[test]
    fn what_is_no_vector_is_close_to_nothing() {
        let mut index = VectorIndex::with_capacity(2, 1);
        index.push(0, Code::of(&[f32::NAN, f32::INFINITY]).lent());
        index.push(1, Code::of(&[0.0, 0.0]).lent());
        for query in [&[1.0, 0.0][..], &[f32::NAN, 0.0], &[0.0, 0.0], &[1.0], &[]] {
            assert_eq!(
                index.closeness(query, 2, &Allowed::All),
                [0.0, 0.0],
                "{query:?}"
            );
        }
    }
}
