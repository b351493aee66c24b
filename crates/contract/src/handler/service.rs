//! The errors of an outside service. Knows no service.

/// The reason why there is no answer. Each reason but [`Self::Unanswered`] is final: the request has no further result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// No service is configured. The text names the setting.
    #[error("{0}")]
    Off(String),
    /// The service refuses the request to everybody: its message, shortened and without control characters.
    #[error("the service refuses the request: {0}")]
    Refused(String),
    /// The service refuses this server's key, account, model or address. The text is for operators.
    #[error("{0}")]
    Setup(String),
    /// The service is overloaded, or this server has sent too many requests.
    #[error("the service is busy")]
    Busy {
        /// Milliseconds until a retry, if the service gives them.
        retry_after_ms: Option<u64>,
    },
    /// The service cannot be reached, or failed. The text is for operators.
    #[error("{0}")]
    Unavailable(String),
    /// The request was sent, and no whole answer came: it may have been carried out and charged. The text is for operators.
    #[error("{0}")]
    Unanswered(String),
    /// The answer is unusable. The text is for operators and for the model, and quotes nothing of the answer.
    #[error("{0}")]
    Unfit(String),
}
