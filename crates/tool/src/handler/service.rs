//! Why a service of others did not do what it was asked. Knows no service.

/// Why there is no answer. Each but [`Self::Unanswered`] is certain: nothing more comes of the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// No service is configured. The text says what to set.
    #[error("{0}")]
    Off(String),
    /// The service does not do this for anybody: what it says of the request, shortened and without control characters.
    #[error("the service refuses the request: {0}")]
    Refused(String),
    /// The service does nothing for this server as it is set up: with this key, account, model or address. The text is for operators.
    #[error("{0}")]
    Setup(String),
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
