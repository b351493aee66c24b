//! Why a service of others did not do what it was asked. Knows no service.

/// Each says for certain that nothing of the request goes on, except [`Self::Unanswered`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// No service is configured. The text says what to set.
    #[error("{0}")]
    Off(String),
    /// The service does not do this for anybody: what it says of the request, shortened and without control characters.
    #[error("the service refuses the request: {0}")]
    Refused(String),
    /// The service does not take the key, or not the account behind it. The text is for operators.
    #[error("{0}")]
    Account(String),
    /// It has too much to do, or this server has asked too often.
    #[error("the service is busy")]
    Busy {
        /// Milliseconds, where it says when to come back.
        retry_after_ms: Option<u64>,
    },
    /// It cannot be reached, or failed. The text is for operators.
    #[error("{0}")]
    Unavailable(String),
    /// The request was sent, and no whole answer came: it may have been carried out and charged. The text is for operators.
    #[error("{0}")]
    Unanswered(String),
    /// It answered something that is of no use. The text is for operators and for the model, and quotes nothing of the answer.
    #[error("{0}")]
    Unfit(String),
}
