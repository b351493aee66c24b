//! The answer of an authorization server: tokens, or an error. Only an error's code is passed on, because the server's texts may
//! quote the request.

use crate::settling::is_code;
use serde::Deserialize;
use serde_json::Value;
use windlass_contract::handler::HttpAnswer;
use windlass_contract::sensitive::Sensitive;

/// Bytes of a token.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Characters of the scopes that are kept.
const SCOPE_CHARACTERS_MAX: usize = 2_048;

/// The reason why there are no tokens. The texts are for operators, and quote no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OauthError {
    /// The code or the refresh token is no longer valid: the user has to agree anew.
    #[error("the authorization server does not take the code or the refresh token any more")]
    Ended,
    /// The server refuses this program, or its request.
    #[error("the authorization server refuses: {0}")]
    Refused(String),
    #[error("the authorization server cannot be asked: {0}")]
    Unavailable(String),
    #[error("the browser comes back from another issuer than the one that it was sent to")]
    OtherIssuer,
}

/// Tokens for one user.
#[derive(Clone, Debug)]
pub struct Granted {
    pub access_token: Sensitive<String>,
    /// Milliseconds since the Unix epoch; `None` where the server does not say.
    pub expires_unix_ms: Option<u64>,
    pub refresh_token: Option<Sensitive<String>>,
    /// The granted scope, if the server names one other than the requested scope.
    pub scope: Option<String>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    token_type: Option<String>,
    /// Some servers write it as a text.
    expires_in: Option<Value>,
    refresh_token: Option<String>,
    scope: Option<String>,
}

/// The whole body of an answer.
pub(super) fn body(answer: HttpAnswer) -> Result<Vec<u8>, OauthError> {
    answer
        .body
        .map_err(|cut| OauthError::Unavailable(cut.problem))
}

/// Reads the answer of a token endpoint.
pub(super) fn granted(answer: HttpAnswer, now_unix_ms: u64) -> Result<Granted, OauthError> {
    settled(&answer)?;
    let unfit = |problem: &str| OauthError::Unavailable(problem.to_owned());
    let read = serde_json::from_slice::<TokenAnswer>(&body(answer)?);
    let read = read.map_err(|_| unfit("its answer holds no access token"))?;
    // RFC 6749 wants the type; some servers leave it out.
    let is_bearer = read
        .token_type
        .is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    if !is_bearer {
        return Err(unfit("its tokens are of a type other than Bearer"));
    }
    let seconds = read.expires_in.as_ref().and_then(seconds);
    let refresh_token = read.refresh_token.filter(|token| !token.is_empty());
    Ok(Granted {
        access_token: token(read.access_token)?,
        expires_unix_ms: seconds
            .map(|seconds| now_unix_ms.saturating_add(seconds.saturating_mul(1_000))),
        refresh_token: refresh_token.map(token).transpose()?,
        scope: read
            .scope
            .filter(|scope| scope.len() <= SCOPE_CHARACTERS_MAX),
    })
}

/// Seconds as a number, with a fraction or without, or as a text.
fn seconds(value: &Value) -> Option<u64> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    if text.starts_with('-') {
        // The token is over already; it must not count as a token without an end.
        return Some(0);
    }
    text.split('.').next()?.parse().ok()
}

/// A text that a header can carry.
fn token(text: String) -> Result<Sensitive<String>, OauthError> {
    let fits = (1..=TOKEN_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    match fits {
        true => Ok(Sensitive(text)),
        false => Err(OauthError::Unavailable(
            "it gave a token that no header can carry".to_owned(),
        )),
    }
}

/// Whether the server says that it carried the request out.
pub(super) fn settled(answer: &HttpAnswer) -> Result<(), OauthError> {
    let body = match &answer.body {
        Ok(body) => body.as_slice(),
        Err(cut) => cut.beginning.as_slice(),
    };
    // Some servers report an error with status 200.
    let code = error_code(body);
    match (answer.status, code) {
        (200..=299, None) => Ok(()),
        (300..=399, _) => Err(OauthError::Unavailable(
            "it sends elsewhere with a redirect, which nothing follows with a token".to_owned(),
        )),
        (200..=299 | 400..=499, Some(code)) => Err(match code.as_str() {
            "invalid_grant" | "bad_verification_code" | "bad_refresh_token" => OauthError::Ended,
            "temporarily_unavailable" | "server_error" | "slow_down" => {
                OauthError::Unavailable(format!("it says {code}"))
            }
            _ => OauthError::Refused(code),
        }),
        (408 | 429, None) => Err(OauthError::Unavailable(format!(
            "it answers with status {}",
            answer.status
        ))),
        (400..=499, None) => Err(OauthError::Refused(format!("status {}", answer.status))),
        (status, _) => Err(OauthError::Unavailable(format!(
            "it answers with status {status}"
        ))),
    }
}

/// The code of an error (RFC 6749, section 5.2).
fn error_code(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let code = value.get("error")?.as_str()?;
    is_code(code).then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_contract::handler::IncompleteBody;

    fn read(status: u16, body: &Value) -> Result<Granted, OauthError> {
        let answer = HttpAnswer {
            status,
            url: "https://a.example/token".to_owned(),
            headers: Vec::new(),
            body: Ok(body.to_string().into_bytes()),
        };
        granted(answer, 1_000)
    }

    #[test]
    fn tokens_are_read_as_servers_write_them() {
        for (answer, expires, refresh) in [
            (json!({"access_token": "a"}), None, None),
            (
                json!({"access_token": "a", "token_type": "bearer", "expires_in": 60, "refresh_token": "r"}),
                Some(61_000),
                Some("r"),
            ),
            (
                json!({"access_token": "a", "expires_in": "60", "refresh_token": ""}),
                Some(61_000),
                None,
            ),
            (
                json!({"access_token": "a", "expires_in": -1}),
                Some(1_000),
                None,
            ),
            (
                json!({"access_token": "a", "expires_in": 59.9}),
                Some(60_000),
                None,
            ),
        ] {
            let granted = read(200, &answer).unwrap();
            assert_eq!(granted.expires_unix_ms, expires, "{answer}");
            let token = granted.refresh_token.map(Sensitive::into_inner);
            assert_eq!(token.as_deref(), refresh, "{answer}");
        }
    }

    #[test]
    fn what_is_no_token_is_an_error_that_quotes_nothing() {
        use OauthError::{Ended, Refused, Unavailable};
        let same = |one: &OauthError, other: &OauthError| {
            std::mem::discriminant(one) == std::mem::discriminant(other)
        };
        let (refused, unavailable) = (Refused(String::new()), Unavailable(String::new()));
        for (status, answer, expected) in [
            (
                400,
                json!({"error": "invalid_grant", "error_description": "sesame"}),
                Ended,
            ),
            (200, json!({"error": "bad_verification_code"}), Ended),
            (401, json!({"error": "invalid_client"}), refused.clone()),
            (403, json!("sesame"), refused.clone()),
            (400, json!({"error": "sesame, of many words"}), refused),
            (302, json!({}), unavailable.clone()),
            (429, json!({}), unavailable.clone()),
            (503, json!({"error": "sesame"}), unavailable.clone()),
            (200, json!({"token": "sesame"}), unavailable.clone()),
            (
                200,
                json!({"access_token": "ses\name"}),
                unavailable.clone(),
            ),
            (
                200,
                json!({"access_token": "sesame", "token_type": "mac"}),
                unavailable,
            ),
        ] {
            let error = read(status, &answer).unwrap_err();
            assert!(same(&error, &expected), "{answer}: {error:?}");
            assert!(
                !format!("{error} {error:?}").contains("sesame"),
                "{error:?}"
            );
        }
    }

    #[test]
    fn an_answer_without_its_end_holds_no_token() {
        let answer = HttpAnswer {
            status: 200,
            url: String::new(),
            headers: Vec::new(),
            body: Err(IncompleteBody {
                beginning: b"{\"access_token\": \"sesame\"".to_vec(),
                problem: "the answer is longer than 10 bytes".to_owned(),
            }),
        };
        let error = granted(answer, 0).unwrap_err();
        assert!(
            error.to_string().contains("longer than 10 bytes"),
            "{error}"
        );
    }
}
