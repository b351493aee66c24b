//! What the examples that measure have in common: made-up records and questions, vectors that cost nothing, and
//! percentiles.

use std::cell::Cell;
use std::future::ready;
use std::time::Instant;
use windlass_contract::handler::{CapabilityFuture, Record, SearchRequest};
use windlass_contract::id::UserId;
use windlass_contract::kind::Mode;
use windlass_knowledge::embed::{EmbedError, Embedder, Model, Purpose};

pub(crate) const ATTEMPTS: usize = 5;
pub(crate) const DIMENSION: usize = 384;
const WORDS: u64 = 20_000;
/// Texts of one subject lie close together, as those of a language do.
const SUBJECTS: u64 = 500;

/// Milliseconds of the quickest of some attempts.
pub(crate) fn quickest<E>(
    attempts: usize,
    mut work: impl FnMut() -> Result<(), E>,
) -> Result<f64, E> {
    let mut quickest = f64::INFINITY;
    for _ in 0..attempts {
        let begun = Instant::now();
        work()?;
        quickest = quickest.min(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(quickest)
}

pub(crate) fn percentiles(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    format!(
        "mean {mean:.3} ms, p50 {:.3} ms, p99 {:.3} ms",
        at(0.50),
        at(0.99)
    )
}

pub(crate) fn record(number: usize, chance: &Chance) -> Record {
    Record {
        id: format!("doc:r{number}"),
        namespace: "public".to_owned(),
        record_type: "doc".to_owned(),
        title: chance.words(4),
        body: format!("{}.", chance.words(75)),
        // A filter for half of the records, and one for a tenth.
        tags: vec![
            format!("half{}", number % 2),
            format!("tenth{}", number % 10),
        ],
        ..Record::default()
    }
}

pub(crate) fn request(query: String) -> SearchRequest {
    SearchRequest {
        query,
        namespace: None,
        record_type: None,
        tags: Vec::new(),
        updated_from: None,
        updated_to: None,
        top_k: 3,
        snippets: true,
        reader: UserId::new("user").into(),
        mode: Mode::Voice,
    }
}

/// Words that are as unevenly frequent as those of a language, and always the same.
pub(crate) struct Chance(Cell<u64>);

impl Default for Chance {
    fn default() -> Self {
        Self(Cell::new(1))
    }
}

impl Chance {
    fn number(&self) -> u64 {
        let state = self.0.get();
        let next = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        next >> 33
    }

    pub(crate) fn words(&self, count: usize) -> String {
        let words: Vec<String> = (0..count).map(|_| self.word()).collect();
        words.join(" ")
    }

    fn word(&self) -> String {
        const SYLLABLES: [&str; 16] = [
            "ka", "lo", "mi", "ne", "ru", "so", "ta", "vi", "bra", "den", "fol", "gar", "hin",
            "jor", "pel", "stu",
        ];
        // The square of a share of chance prefers small numbers.
        let share = (self.number() % 10_000) as f64 / 10_000.0;
        let mut rank = (share * share * share * WORDS as f64) as u64 + 16;
        let mut word = String::new();
        while rank > 0 {
            word.push_str(SYLLABLES[(rank % 16) as usize]);
            rank /= 16;
        }
        word
    }
}

/// Vectors that cost nothing, so that the engine alone is measured: half of each is its subject's, half its own.
pub(crate) struct BySubject(Model);

impl BySubject {
    pub(crate) fn new() -> Self {
        Self(Model {
            id: "by subject".to_owned(),
            hash: String::new(),
            dimension: DIMENSION,
        })
    }
}

impl Embedder for BySubject {
    fn model(&self) -> &Model {
        &self.0
    }

    fn embed(
        &self,
        texts: Vec<String>,
        _purpose: Purpose,
    ) -> CapabilityFuture<Result<Vec<Vec<f32>>, EmbedError>> {
        Box::pin(ready(Ok(texts.iter().map(|text| vector(text)).collect())))
    }

    fn batch_size(&self) -> usize {
        256
    }
}

/// A vector of length 1, always the same for a text.
pub(crate) fn vector(text: &str) -> Vec<f32> {
    let seed = text.bytes().fold(1_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let own = Chance(Cell::new(seed));
    let subject = Chance(Cell::new(1_000_000 + (seed >> 17) % SUBJECTS));
    // What comes first of two seeds that lie side by side is almost the same.
    for _ in 0..8 {
        subject.number();
    }
    let share = |chance: &Chance| (chance.number() % 2_000) as f32 / 1_000.0 - 1.0;
    let mut vector: Vec<f32> = (0..DIMENSION)
        .map(|_| share(&subject) + share(&own))
        .collect();
    let length = vector
        .iter()
        .map(|number| number * number)
        .sum::<f32>()
        .sqrt();
    for number in &mut vector {
        *number /= length.max(f32::MIN_POSITIVE);
    }
    vector
}
