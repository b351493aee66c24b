//! Vectors by the hash of their passage, in one piece of memory: a hundred thousand vectors need few allocations, and are freed as a
//! whole. Knows no record and no file.

use crate::hash::Hash;
use crate::vectors::CodeRef;
use std::collections::HashMap;

pub(crate) struct Codes {
    dimension: usize,
    places: HashMap<Hash, u32>,
    scales: Vec<f32>,
    numbers: Vec<i8>,
}

impl Codes {
    pub(crate) fn new(dimension: usize) -> Self {
        Self {
            dimension,
            places: HashMap::new(),
            scales: Vec::new(),
            numbers: Vec::new(),
        }
    }

    /// Reserves room for more vectors.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.places.reserve(more);
        self.scales.reserve_exact(more);
        self.numbers.reserve_exact(more * self.dimension);
    }

    pub(crate) fn len(&self) -> usize {
        self.scales.len()
    }

    pub(crate) fn contains(&self, key: &Hash) -> bool {
        self.places.contains_key(key)
    }

    /// Adds the vector of a hash, unless the hash is known: its vector never changes. A vector of another size is left out.
    pub(crate) fn insert(&mut self, key: Hash, code: CodeRef<'_>) {
        let Ok(place) = u32::try_from(self.scales.len()) else {
            return;
        };
        if code.numbers.len() == self.dimension && !self.contains(&key) {
            self.places.insert(key, place);
            self.scales.push(code.scale);
            self.numbers.extend_from_slice(code.numbers);
        }
    }

    pub(crate) fn get(&self, key: &Hash) -> Option<CodeRef<'_>> {
        let place = *self.places.get(key)? as usize;
        Some(CodeRef {
            scale: *self.scales.get(place)?,
            numbers: self
                .numbers
                .get(place * self.dimension..(place + 1) * self.dimension)?,
        })
    }

    /// All hashes in their order.
    pub(crate) fn keys(&self) -> Vec<Hash> {
        let mut keys: Vec<Hash> = self.places.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// The vectors that are wanted.
    pub(crate) fn only(&self, is_wanted: impl Fn(&Hash) -> bool) -> Self {
        let mut wanted = Self::new(self.dimension);
        for key in self.keys() {
            if let Some(code) = self.get(&key).filter(|_| is_wanted(&key)) {
                wanted.insert(key, code);
            }
        }
        wanted
    }
}
