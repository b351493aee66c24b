//! The JSON form of a ToolResponse as a handler writes it that is no Rust: a script, a worker, a web service. Whatever is not
//! of the contract becomes a broken handler.

use super::{Cause, ContentPart, Failure, HandlerResult, Report, Success};
use crate::data::Data;
use crate::envelope::RESPONSE_VERSION;
use crate::error::{ErrorType, FailureKind};
use crate::intent::Intent;
use crate::kind::Scheduling;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Characters of a handler's own words that go into the log.
const QUOTED_MAX: usize = 40;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    ok: Option<bool>,
    #[serde(default, deserialize_with = "even_null")]
    data: Option<Data>,
    #[serde(default)]
    content: Option<Vec<ContentPart>>,
    #[serde(default)]
    error: Option<ErrorForm>,
    #[serde(default)]
    intents: Option<Vec<Intent>>,
    #[serde(default)]
    scheduling: Option<Scheduling>,
    #[serde(default)]
    meta: Option<MetaForm>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaForm {
    response_schema_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorForm {
    #[serde(rename = "type")]
    error_type: String,
    message: Option<String>,
    retryable: Option<bool>,
    partial_side_effects: Option<bool>,
    suggestion: Option<String>,
    #[serde(default)]
    details: Option<Value>,
    retry_after_ms: Option<f64>,
    /// Seconds; the older spelling.
    retry_after: Option<f64>,
    max_retries: Option<u32>,
    idempotency_required: Option<bool>,
}

/// `data: null` is data.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Data>, D::Error> {
    Data::deserialize(deserializer).map(Some)
}

/// Reads what a handler answered.
///
/// # Errors
///
/// The failure that it reports; and [`Cause::Broken`] for everything that is no ToolResponse.
pub fn read_response(text: &[u8]) -> HandlerResult {
    let form: Form = serde_json::from_slice(text).map_err(|error| {
        // The parser's words about a wrong type quote the value, which may be a user's.
        let problem = match error.is_data() {
            true => format!(
                "a member has another type than the contract says, before column {}",
                error.column()
            ),
            false => error.to_string(),
        };
        broken(format!("the answer is no ToolResponse: {problem}"))
    })?;
    let version = form.meta.and_then(|meta| meta.response_schema_version);
    if let Some(version) = version.filter(|version| version != RESPONSE_VERSION) {
        return Err(broken(format!(
            "the answer is of response version {}, and this program speaks {RESPONSE_VERSION}",
            quoted(&version)
        )));
    }
    let intents = form.intents.unwrap_or_default();
    match (form.ok, form.error) {
        (Some(true), None) => Ok(Success {
            data: form.data,
            content: form.content.unwrap_or_default(),
            intents,
            scheduling: form.scheduling,
            accepted_until_unix_ms: None,
        }),
        (Some(false), Some(error)) => Err(Failure {
            cause: error.cause(),
            intents,
        }),
        (Some(true), Some(_)) => Err(broken("the answer has `ok: true` and an error")),
        (Some(false), None) => Err(broken("the answer has `ok: false` and no error")),
        (None, _) => Err(broken(
            "the answer has no `ok`; a ToolResponse is { \"ok\": true, \"data\": … } or { \"ok\": false, \"error\": … }",
        )),
    }
}

impl ErrorForm {
    fn cause(self) -> Cause {
        let Ok(kind) = serde_json::from_value::<FailureKind>(self.error_type.as_str().into())
        else {
            let is_of_others = ErrorType::ALL
                .iter()
                .any(|error_type| error_type.code() == self.error_type);
            let why = match is_of_others {
                true => "which a handler may not report",
                false => "which is no type of errors",
            };
            return Cause::Broken(format!(
                "the handler reports {}, {why}",
                quoted(&self.error_type)
            ));
        };
        let in_ms = self
            .retry_after_ms
            .or(self.retry_after.map(|seconds| seconds * 1000.0));
        Cause::Reported(Box::new(Report {
            retryable: self.retryable,
            partial_side_effects: self.partial_side_effects,
            suggestion: self.suggestion,
            details: self.details,
            retry_after_ms: in_ms.and_then(milliseconds),
            max_retries: self.max_retries,
            idempotency_required: self.idempotency_required,
            ..Report::new(kind, self.message.unwrap_or_default())
        }))
    }
}

/// What is below nothing, or no number, says nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float that is not below nothing becomes the nearest integer there is"
)]
fn milliseconds(given: f64) -> Option<u64> {
    (given >= 0.0).then_some(given as u64)
}

fn broken(problem: impl Into<String>) -> Failure {
    Failure {
        cause: Cause::Broken(problem.into()),
        intents: Vec::new(),
    }
}

/// The beginning of somebody's words on one line.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(QUOTED_MAX).collect();
    format!("{shown:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(answer: Value, expected: Result<Success, &str>) {
        let read = read_response(answer.to_string().as_bytes());
        match (read, expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{answer}"),
            (Err(failure), Err(expected)) => {
                let shown = match failure.cause {
                    Cause::Broken(text) => format!("broken: {text}"),
                    Cause::Reported(report) => format!("{report:?}"),
                };
                assert!(shown.contains(expected), "{answer}: {shown}");
            }
            (read, _) => panic!("{answer}: {read:?}"),
        }
    }

    #[test]
    fn an_answer_is_a_success_or_a_failure_and_everything_else_is_broken() {
        check(json!({"ok": true}), Ok(Success::default()));
        check(
            json!({"ok": true, "data": null}),
            Ok(Success::new(Value::Null)),
        );
        check(
            json!({"ok": true, "data": {"n": 1}, "own": 2, "meta": {}}),
            Ok(Success::new(json!({"n": 1}))),
        );
        let with_intents =
            json!({"ok": true, "intents": [{"type": "SUPPRESS_AUDIO"}, {"type": "MINE"}]});
        let intents = vec![
            Intent::SuppressAudio { value: true },
            Intent::Unknown(json!({"type": "MINE"})),
        ];
        check(
            with_intents,
            Ok(Success {
                intents,
                ..Success::default()
            }),
        );
        let silent = Success {
            scheduling: Some(Scheduling::Silent),
            ..Success::default()
        };
        check(json!({"ok": true, "scheduling": "silent"}), Ok(silent));
        for (answer, expected) in [
            (json!({}), "broken: the answer has no `ok`"),
            (json!([]), "broken: the answer is no ToolResponse"),
            (json!("x"), "broken: the answer is no ToolResponse"),
            (
                json!({"ok": "yes"}),
                "broken: the answer is no ToolResponse",
            ),
            (
                json!({"ok": false}),
                "broken: the answer has `ok: false` and no error",
            ),
            (
                json!({"ok": true, "error": {"type": "AUTH"}}),
                "broken: the answer has `ok: true` and an error",
            ),
            (
                json!({"ok": true, "meta": {"responseSchemaVersion": "3.0.0"}}),
                "broken: the answer is of response version \"3.0.0\"",
            ),
            (
                json!({"ok": false, "error": {"type": "LOOP_DETECTED", "message": "m"}}),
                "broken: the handler reports \"LOOP_DETECTED\", which a handler may not report",
            ),
            (
                json!({"ok": false, "error": {"type": "OOPS"}}),
                "which is no type of errors",
            ),
            (
                json!({"ok": false, "error": {"type": "TRANSIENT", "message": "m", "retryAfter": 1.5, "maxRetries": 2}}),
                "retry_after_ms: Some(1500), max_retries: Some(2)",
            ),
            (
                json!({"ok": false, "error": {"type": "RATE_LIMIT", "retryAfterMs": -4}}),
                "retry_after_ms: None",
            ),
            (
                json!({"ok": false, "error": {"type": "CONFLICT", "partialSideEffects": true, "retryable": true}}),
                "kind: Conflict, message: \"\", retryable: Some(true), partial_side_effects: Some(true)",
            ),
        ] {
            check(answer, Err(expected));
        }
    }
}
