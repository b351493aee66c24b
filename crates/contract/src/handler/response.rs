//! The JSON form of a ToolResponse from a handler outside Rust: a script, a worker, a web service. A text that breaks the contract makes
//! a broken handler. Exception: an answer that reports success stays a success, whatever else of it cannot be read.

use super::mending::{Mended, glance, mend};
use super::{Cause, ContentPart, Failure, HandlerResult, Loss, Report, Success};
use crate::data::Data;
use crate::envelope::{self, RESPONSE_VERSION, RESPONSE_VERSION_BEFORE};
use crate::error::{ErrorType, FailureKind};
use crate::intent::Intent;
use crate::kind::Scheduling;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// The most characters of a handler's own words in the log.
const QUOTED_MAX: usize = 40;
/// The most characters of a handler's own words about missing parts of its answer.
const LOSS_MAX: usize = 200;

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
    /// Words about replaced or omitted values.
    cut: Option<String>,
    /// The reason why the result of a successful call is missing.
    problem: Option<String>,
}

impl MetaForm {
    fn loss(&self) -> Option<Loss> {
        let loss = match (&self.problem, &self.cut) {
            (Some(problem), _) => Loss::breach(brief(problem)),
            (None, Some(cut)) => Loss::replaced(brief(cut)),
            (None, None) => return None,
        };
        Some(loss)
    }
}

/// The members of an answer, each unread.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    intents: Option<&'a RawValue>,
    #[serde(borrow)]
    scheduling: Option<&'a RawValue>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
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

/// Reads a handler's answer. An answer that reports success is a success, with a note of the parts that cannot be kept.
///
/// # Errors
///
/// The failure that the answer reports; [`Cause::Broken`] for every other text that is no ToolResponse.
pub fn read_response(text: &[u8]) -> HandlerResult {
    let strict = serde_json::from_slice::<Form>(text);
    let problem = match strict.map(Form::result) {
        Ok(Ok(result)) => return result,
        Ok(Err(breach)) => breach,
        // The parser's message about a wrong type quotes the value, which may be a user's.
        Err(error) if error.is_data() => format!(
            "the answer is no ToolResponse: a member has another type than the contract says, before column {}",
            error.column()
        ),
        Err(error) => format!("the answer is no ToolResponse: {error}"),
    };
    let mended = mend(text);
    if let Ok(Ok(result)) = serde_json::from_str::<Form>(&mended.text).map(Form::result) {
        return noted(result, &mended);
    }
    match worked(mended.text.as_bytes()) {
        Some(success) => Ok(success.with_loss(Loss::breach(problem))),
        None => Err(broken(problem)),
    }
}

/// Adds a note of the replaced parts of an answer's text.
pub fn noted(result: HandlerResult, mended: &Mended) -> HandlerResult {
    result.map(|success| match mended.words() {
        Some(words) => success.with_loss(Loss::replaced(words)),
        None => success,
    })
}

/// The readable parts of an answer that reports success.
fn worked(text: &[u8]) -> Option<Success> {
    let Ok(parts) = serde_json::from_slice::<Parts<'_>>(text) else {
        return (glance(text).ok == Some(true)).then(Success::default);
    };
    let is_null = |part: &&RawValue| part.get() == "null";
    let says_error = parts.error.is_some_and(|error| !is_null(&error));
    if parts.ok?.get() != "true" || says_error {
        return None;
    }
    fn read<T: DeserializeOwned>(part: Option<&RawValue>) -> Option<T> {
        serde_json::from_str(part?.get()).ok()
    }
    let meta = read::<MetaForm>(parts.meta);
    let version = meta
        .as_ref()
        .and_then(|meta| meta.response_schema_version.as_deref());
    // The members of another version may mean something else.
    if version.is_some_and(|version| !envelope::is_read(version)) {
        return Some(Success::default());
    }
    let success = Success {
        data: read(parts.data),
        content: read(parts.content).unwrap_or_default(),
        intents: read(parts.intents).unwrap_or_default(),
        scheduling: read(parts.scheduling),
        ..Success::default()
    };
    Some(match meta.and_then(|meta| meta.loss()) {
        Some(loss) => success.with_loss(loss),
        None => success,
    })
}

impl Form {
    /// The result that the answer states; `Err` tells how it breaks the contract.
    fn result(self) -> Result<HandlerResult, String> {
        let loss = self.meta.as_ref().and_then(MetaForm::loss);
        let version = self.meta.and_then(|meta| meta.response_schema_version);
        if let Some(version) = version.filter(|version| !envelope::is_read(version)) {
            return Err(format!(
                "the answer is of response version {}, and this program speaks {RESPONSE_VERSION} and {RESPONSE_VERSION_BEFORE}",
                quoted(&version)
            ));
        }
        let intents = self.intents.unwrap_or_default();
        match (self.ok, self.error) {
            (Some(true), None) => {
                let success = Success {
                    data: self.data,
                    content: self.content.unwrap_or_default(),
                    intents,
                    scheduling: self.scheduling,
                    ..Success::default()
                };
                Ok(Ok(match loss {
                    Some(loss) => success.with_loss(loss),
                    None => success,
                }))
            }
            (Some(false), Some(error)) => Ok(Err(Failure {
                cause: error.cause(),
                intents,
            })),
            (Some(true), Some(_)) => Err("the answer has `ok: true` and an error".to_owned()),
            (Some(false), None) => Err("the answer has `ok: false` and no error".to_owned()),
            (None, _) => Err("the answer has no `ok`; a ToolResponse is { \"ok\": true, \"data\": … } or { \"ok\": false, \"error\": … }".to_owned()),
        }
    }
}

impl ErrorForm {
    fn cause(self) -> Cause {
        // The handler reports that it is broken. Its message is for operators, like that of an exception.
        if self.error_type == ErrorType::Internal.code() {
            let said = self.message.unwrap_or_default();
            return Cause::Broken(format!("the handler reports INTERNAL: {said}"));
        }
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

/// Milliseconds as an integer; `None` for a negative value or NaN.
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

/// The beginning of a handler's message about its own answer.
fn brief(words: &str) -> String {
    words.chars().take(LOSS_MAX).collect()
}

/// The beginning of a text, on one line.
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
    fn a_handler_may_say_that_it_is_broken() {
        check(
            json!({"ok": false, "error": {"type": "INTERNAL", "message": "no route to the ledger"}}),
            Err("broken: the handler reports INTERNAL: no route to the ledger"),
        );
        check(
            json!({"ok": false, "error": {"type": "INTERNAL"}}),
            Err("broken: the handler reports INTERNAL: "),
        );
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

    #[test]
    fn an_answer_that_says_that_the_call_worked_is_a_success_whatever_else_it_says() {
        for (answer, data, loss) in [
            (
                r#"{"ok":true,"meta":{"responseSchemaVersion":"3.0.0"},"data":1}"#,
                None,
                "the answer is of response version \"3.0.0\"",
            ),
            (
                r#"{"ok":true,"data":{"n":1},"content":"text","intents":7}"#,
                Some(json!({"n": 1})),
                "a member has another type than the contract says",
            ),
            (
                r#"{"ok":true,"data":"\ud83d","scheduling":"soon"}"#,
                Some(json!("\u{fffd}")),
                "the answer is no ToolResponse",
            ),
            (
                r#"{"ok":true,"data":1e,"#,
                None,
                "the answer is no ToolResponse",
            ),
            (
                r#"{"ok":true,"meta":{"problem":"it is a circle"}}"#,
                None,
                "it is a circle",
            ),
        ] {
            let read = read_response(answer.as_bytes()).unwrap();
            assert_eq!(read.data.as_deref(), data.as_ref(), "{answer}");
            let breach = read.loss.and_then(|loss| loss.breach).unwrap();
            assert!(
                breach.starts_with(loss) || breach.contains(loss),
                "{breach}"
            );
        }
        let deep = format!(
            r#"{{"ok":true,"data":{}1{}}}"#,
            "[".repeat(500),
            "]".repeat(500)
        );
        assert!(read_response(deep.as_bytes()).unwrap().loss.is_some());
        let replaced = r#"{"ok":true,"data":["\ud83d",NaN,"\u0000"]}"#;
        let read = read_response(replaced.as_bytes()).unwrap();
        assert_eq!(*read.data.unwrap(), json!(["\u{fffd}", null, "\0"]));
        assert_eq!(
            read.loss,
            Some(Box::new(Loss::replaced(
                "2 characters or numbers that JSON cannot hold were replaced"
            )))
        );
    }
}
