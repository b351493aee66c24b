//! Fuses the evidence of several searches into one score. Every engine ranks by it, so that a score means the same wherever the records
//! are kept. Knows no record and no index.

/// The most hits of one search, whatever is requested.
pub(crate) const HITS_MAX: usize = 100;
/// The fewest records that each search adds to the common ranking.
pub(crate) const CANDIDATES_MIN: usize = 50;
/// The BM25 score that maps to one half: a score `b` becomes `b / (b + 20)`, which keeps the order, lies in 0..1 and does not depend on
/// the other hits. It is the lexical part of the hybrid score, so that both have one scale.
const BM25_HALFWAY: f64 = 20.0;
/// The shares of meaning and words in the hybrid score, as measured on Cranfield: better than fusing ranks, and a score that means the
/// same in every answer.
const DENSE_SHARE: f64 = 0.7;
const LEXICAL_SHARE: f64 = 0.3;
/// The part of the gap to 1 that a record gains if the question is exactly its whole name.
const NAMED_GAIN: f64 = 0.5;

/// The way in which records are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retrieval {
    /// By their words.
    Lexical,
    /// By their meaning.
    Dense,
    /// By both.
    Hybrid,
}

impl Retrieval {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
        }
    }

    /// Whether a base with this retrieval also has the other.
    pub(crate) fn includes(self, other: Self) -> bool {
        self == other || self == Self::Hybrid
    }
}

/// The evidence for a found record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// 0 for a record without any of the words.
    pub(crate) bm25: f64,
    /// `None` for a record that still has no vectors.
    pub(crate) cosine: Option<f64>,
    /// Whether the question is exactly its title or one of its aliases.
    pub(crate) is_named: bool,
}

impl Evidence {
    /// 0 to 1.
    pub(crate) fn score(self, retrieval: Retrieval) -> f64 {
        let words = self.bm25 / (self.bm25 + BM25_HALFWAY);
        let score = match (retrieval, self.cosine) {
            (Retrieval::Lexical, _) => words,
            (Retrieval::Dense, cosine) => cosine.unwrap_or_default().max(0.0),
            (Retrieval::Hybrid, Some(cosine)) => {
                DENSE_SHARE * cosine.max(0.0) + LEXICAL_SHARE * words
            }
            // The record still has no vector, which does not lower its score.
            (Retrieval::Hybrid, None) => words,
        };
        let score = match self.is_named {
            true => score + (1.0 - score) * NAMED_GAIN,
            false => score,
        };
        score.clamp(0.0, 1.0)
    }
}
