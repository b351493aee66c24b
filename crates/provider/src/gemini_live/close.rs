//! The meaning of a close by the service, from its code and its words. Knows no reaction to it.

/// The reason why the service closed a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseClass {
    /// The session ended as it should.
    Normal,
    /// A message that this model does not take, a context that is full, or a session that cannot be resumed. The same message
    /// fails again: drop the handle and begin anew, once.
    InvalidContent,
    /// Something that the service does not allow or does not know. Worth one more attempt; with a fresh session if the session
    /// was not found.
    Policy { session_not_found: bool },
    /// A problem of the service or the network, or a deadline of the service. Worth another attempt after a pause.
    ServerFault,
    /// Too many requests. An immediate retry makes it worse.
    Quota,
    /// The key or token was refused.
    Auth,
}

/// Classifies a close by its WebSocket code and its reason, as far as the service has been seen to send them. If the two
/// disagree, words on keys and quotas decide, because they come under several codes.
pub fn classify_close(code: u16, reason: &str) -> CloseClass {
    let reason = reason.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if code == 1000 {
        return CloseClass::Normal;
    }
    if says(&[
        "api key",
        "api_key",
        "unauthenticated",
        "authentication",
        "permission denied",
        "permission_denied",
        "credential",
        "token has expired",
        "token expired",
        "auth token",
        "auth_token",
    ]) {
        return CloseClass::Auth;
    }
    if says(&[
        "quota",
        "resource_exhausted",
        "resource has been exhausted",
        "rate limit",
    ]) {
        return CloseClass::Quota;
    }
    match code {
        // Unacceptable data, malformed text, a message over the size limit.
        1002 | 1003 | 1007 | 1009 => CloseClass::InvalidContent,
        1008 => CloseClass::Policy {
            session_not_found: says(&["session not found"]),
        },
        _ => CloseClass::ServerFault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_close_that_was_seen_has_its_class() {
        let policy = |session_not_found| CloseClass::Policy { session_not_found };
        for (code, reason, class) in [
            (1000, "", CloseClass::Normal),
            (1006, "", CloseClass::ServerFault),
            (
                1007,
                "Request contains an invalid argument.",
                CloseClass::InvalidContent,
            ),
            (
                1007,
                "Invalid JSON payload received. Unknown name \"x\" at 'setup': Cannot find field.",
                CloseClass::InvalidContent,
            ),
            (
                1007,
                "Thinking level is not supported for this model",
                CloseClass::InvalidContent,
            ),
            (
                1007,
                "API key not valid. Please pass a valid API key.",
                CloseClass::Auth,
            ),
            (
                1008,
                "Operation is not implemented, or supported, or enabled.",
                policy(false),
            ),
            (1008, "Requested entity was not found", policy(false)),
            (1008, "BidiGenerateContent session not found", policy(true)),
            (1008, "Publisher Model x was not found", policy(false)),
            (1008, "API key expired", CloseClass::Auth),
            (1011, "Internal error occurred.", CloseClass::ServerFault),
            (
                1011,
                "Deadline expired before operation could complete.",
                CloseClass::ServerFault,
            ),
            (
                1011,
                "The service is currently unavailable.",
                CloseClass::ServerFault,
            ),
            (
                1011,
                "You exceeded your current quota, please check your plan.",
                CloseClass::Quota,
            ),
            (1001, "going away", CloseClass::ServerFault),
            (4999, "", CloseClass::ServerFault),
        ] {
            assert_eq!(classify_close(code, reason), class, "{code} {reason}");
        }
    }
}
