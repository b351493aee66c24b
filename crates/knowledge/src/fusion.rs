//! What was found in several ways becomes one score. Every engine ranks by it, so that a score means the same wherever the
//! records are kept. Knows no record and no index.

/// Hits of one search, whatever is asked for.
pub(crate) const HITS_MAX: usize = 100;
/// Records that each way of finding brings to the common ranking, at least.
pub(crate) const CANDIDATES_MIN: usize = 50;
/// The BM25 score that is halfway to certainty: a score `b` becomes `b / (b + 20)`, which keeps the order, lies in 0..1
/// and does not depend on the other hits. It is the lexical part of the hybrid score, so that both have one scale.
const BM25_HALFWAY: f64 = 20.0;
/// What meaning and words count in the hybrid score, as measured on Cranfield: better than fusing ranks, and a score
/// that means the same in every answer.
const DENSE_SHARE: f64 = 0.7;
const LEXICAL_SHARE: f64 = 0.3;
/// How much of what is missing to 1 a record gains whose whole name was said and nothing else.
const NAMED_GAIN: f64 = 0.5;

/// How records are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retrieval {
    /// By their words.
    Lexical,
    /// By what they mean.
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

    /// Whether a base that can do this can do the other.
    pub(crate) fn includes(self, other: Self) -> bool {
        self == other || self == Self::Hybrid
    }
}

/// What is known of a record that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// 0 where it has none of the words.
    pub(crate) bm25: f64,
    /// `None` for a record whose vectors are still to be made.
    pub(crate) cosine: Option<f64>,
    /// Whether the question is nothing but its title or one of its aliases.
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
            // Its vector is still to be made; nothing is held against it until then.
            (Retrieval::Hybrid, None) => words,
        };
        let score = match self.is_named {
            true => score + (1.0 - score) * NAMED_GAIN,
            false => score,
        };
        score.clamp(0.0, 1.0)
    }
}
