//! What was committed for the fuzzer, and much that is made of it by chance: cut, doubled, mixed and changed. No parser may end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use windlass_fuzz::Target;

/// For each seed. The fuzzer tries millions; these show in every run that a mend still holds.
const VARIANTS: u64 = 100;

#[test]
fn no_parser_ends_by_what_was_found_before() {
    for target in Target::all() {
        let seeds = seeds(target.name);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for (number, seed) in seeds.iter().enumerate() {
            target.read(seed);
            let mut chance = Chance(number as u64 + 1);
            for _ in 0..VARIANTS {
                let other = &seeds[chance.below(seeds.len())];
                target.read(&variant(seed, other, &mut chance));
            }
        }
    }
}

#[test]
fn every_folder_of_seeds_is_of_a_parser() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(Target::named(&name).is_some(), "seeds/{name}");
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(name);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn variant(seed: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=chance.below(3) {
        let at = chance.below(bytes.len() + 1);
        match chance.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(at..),
            2 => {
                let from = chance.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            3 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
            _ => drop(bytes.splice(at..at, *b"{\"[\\u0000\xff")),
        }
    }
    bytes
}

/// The same on every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}
