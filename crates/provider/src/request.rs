//! What the requests of all text models have in common. Knows no field of any.

/// What a model may do with its tools in one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolUse {
    /// As it sees fit.
    Free,
    /// At least one call.
    Required,
    /// None: it is to answer with what it has.
    Forbidden,
}

/// How an answer is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Stream,
    Whole,
}
