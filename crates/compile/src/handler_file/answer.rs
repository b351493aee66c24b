//! Turns a web service's answer, or its silence, into the result of a call. Knows no connection.

use super::{DeclaredError, HttpTemplate};
use serde_json::Value;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    FetchError, Finding, HandlerResult, HttpAnswer, Loss, Mended, Report, Success, mend,
};
use windlass_contract::retry_after;

/// The most characters of a service's own message about an error.
const WORDS_CHARACTERS_MAX: usize = 300;
/// The members in which services write their error messages.
const WORDS: [&str; 6] = [
    "message",
    "error",
    "detail",
    "error_description",
    "title",
    "description",
];

/// An answer, and the template that reads it.
#[derive(Clone, Copy)]
pub struct Answered<'a> {
    pub template: &'a HttpTemplate,
    pub answer: &'a HttpAnswer,
    /// Whether the request was to change something.
    pub writes: bool,
}

impl Answered<'_> {
    /// The result of the call.
    pub fn result(&self) -> HandlerResult {
        match (self.answer.status, &self.answer.body) {
            (200..=299, Ok(body)) => Ok(self.success(body)),
            // The status shows that the change was made; only the details are lost.
            (200..=299, Err(incomplete)) if self.writes => {
                Ok(Success::default().with_loss(Loss::breach(incomplete.problem.as_str())))
            }
            (200..=299, Err(incomplete)) => {
                let message = format!("the service did not answer whole: {}", incomplete.problem);
                Err(Report::new(FailureKind::Transient, message).into())
            }
            (status, _) => Err(self.failure(status).into()),
        }
    }

    /// The outcome of the effect that was looked up.
    pub fn finding(&self) -> Finding {
        match (self.answer.status, &self.answer.body) {
            (200..=299, Ok(body)) => {
                let success = self.success(body);
                let is_found = success.data.as_ref().is_some_and(|data| !data.is_null());
                match self.template.result.is_some() && !is_found {
                    // The result pointer finds nothing: the search had no hit.
                    true => Finding::NotHappened,
                    false => Finding::Happened(Box::new(success)),
                }
            }
            (404 | 410, _) => Finding::NotHappened,
            _ => Finding::Unknown,
        }
    }

    fn success(&self, body: &[u8]) -> Success {
        let Some((body, mended)) = read(body) else {
            return Success::default();
        };
        let data = match &self.template.result {
            Some(pointer) => body.pointer(pointer).cloned(),
            None => Some(body),
        };
        let success = data.map_or_else(Success::default, Success::new);
        match mended.and_then(|mended| mended.words()) {
            Some(words) => success.with_loss(Loss::replaced(words)),
            None => success,
        }
    }

    fn failure(&self, status: u16) -> Report {
        let errors = &self.template.errors;
        let named = errors
            .get(&status.to_string())
            .or_else(|| errors.get(&format!("{}xx", status / 100)));
        let declared = DeclaredError {
            kind: kind_of(status),
            not_done: false,
        };
        report(named.copied().unwrap_or(declared), self.answer, self.writes)
    }
}

/// The report for an answer that is no success, where the file declares nothing else.
pub fn status_failure(answer: &HttpAnswer, writes: bool) -> Report {
    let declared = DeclaredError {
        kind: kind_of(answer.status),
        not_done: false,
    };
    report(declared, answer, writes)
}

/// Whether a status alone proves that a request has changed nothing. Every other status may stand for a change that was made: a redirect
/// after a form was accepted, a gateway that stopped waiting.
pub(crate) fn is_definite(status: u16) -> bool {
    matches!(
        status,
        400 | 401 | 403 | 404 | 405 | 409 | 410 | 413 | 415 | 422 | 429 | 501
    )
}

fn report(declared: DeclaredError, answer: &HttpAnswer, writes: bool) -> Report {
    let DeclaredError { kind, not_done } = declared;
    let mut report = Report::new(kind, message(answer));
    if writes {
        report.partial_side_effects = Some(!not_done && !is_definite(answer.status));
    }
    if kind == FailureKind::RateLimit || answer.status == 503 {
        let [wait, date] = ["retry-after", "date"].map(|name| answer.header(name));
        report.retry_after_ms = retry_after::by_its_own_clock(wait, date);
    }
    report
}

fn kind_of(status: u16) -> FailureKind {
    match status {
        400 | 422 => FailureKind::Validation,
        401 | 403 => FailureKind::Auth,
        404 => FailureKind::NotFound,
        409 => FailureKind::Conflict,
        429 => FailureKind::RateLimit,
        501 => FailureKind::Permanent,
        500.. => FailureKind::Transient,
        _ => FailureKind::Permanent,
    }
}

/// The body as JSON, mended if needed, else as text; `None` for an empty body.
fn read(body: &[u8]) -> Option<(Value, Option<Mended>)> {
    if body.trim_ascii().is_empty() {
        return None;
    }
    if let Ok(read) = serde_json::from_slice(body) {
        return Some((read, None));
    }
    let mended = mend(body);
    if let Ok(read) = serde_json::from_str(&mended.text) {
        return Some((read, Some(mended)));
    }
    Some((String::from_utf8_lossy(body).into_owned().into(), None))
}

fn message(answer: &HttpAnswer) -> String {
    let status = answer.status;
    let body = answer.body.as_ref().ok().and_then(|body| read(body));
    match body.as_ref().and_then(|(body, _)| words(body)) {
        Some(words) => {
            let words: String = words.chars().take(WORDS_CHARACTERS_MAX).collect();
            format!("the service answered {status}: {words}")
        }
        None => format!("the service answered {status}"),
    }
}

/// A service's message about an error, if it is in one of the usual members.
fn words(body: &Value) -> Option<&str> {
    let object = body.as_object()?;
    WORDS.iter().find_map(|name| match object.get(*name)? {
        Value::String(text) => Some(text.as_str()),
        inner @ Value::Object(_) => words(inner),
        _ => None,
    })
}

/// The report of a request without an answer. The outcome of a request that may have arrived is unknown.
pub fn unanswered(error: &FetchError) -> Report {
    let (message, was_sent) = match error {
        FetchError::Refused(_) => ("the request was not allowed", false),
        FetchError::Unreachable(_) => ("the service cannot be reached", false),
        FetchError::Unanswered(_) => ("the service did not answer", true),
    };
    let kind = match error {
        FetchError::Refused(_) => FailureKind::Permanent,
        FetchError::Unreachable(_) | FetchError::Unanswered(_) => FailureKind::Transient,
    };
    Report {
        partial_side_effects: (!was_sent).then_some(false),
        ..Report::new(kind, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_proves_it_says_that_a_change_was_not_made() {
        let definite: Vec<u16> = (300..600).filter(|status| is_definite(*status)).collect();
        assert_eq!(
            definite,
            [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 501]
        );
        for status in 300..600 {
            let answer = HttpAnswer {
                status,
                url: String::new(),
                headers: Vec::new(),
                body: Ok(Vec::new()),
            };
            let report = status_failure(&answer, true);
            assert_eq!(report.partial_side_effects, Some(!is_definite(status)));
            assert_eq!(status_failure(&answer, false).partial_side_effects, None);
        }
    }

    #[test]
    fn a_service_says_when_to_come_back() {
        const NOW: &str = "Tue, 24 Nov 2026 10:00:00 GMT";
        for (status, retry_after, expected) in [
            (429, "7", Some(7_000)),
            (429, "Tue, 24 Nov 2026 10:02:00 GMT", Some(120_000)),
            (503, "7", Some(7_000)),
            (429, "soon", None),
            (500, "7", None),
        ] {
            let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let answer = HttpAnswer {
                status,
                url: String::new(),
                headers: vec![header("retry-after", retry_after), header("date", NOW)],
                body: Ok(Vec::new()),
            };
            let found = status_failure(&answer, true).retry_after_ms;
            assert_eq!(found, expected, "{status} {retry_after}");
        }
    }
}
