//! The JSON form of a response read back: from the ledger, whose recorded answers are given again, and from a journal. Reads responses of
//! this version and of the previous one.

use super::{Meta, Outcome, RESPONSE_VERSION, ToolResponse, is_read};
use crate::content::ContentPart;
use crate::data::Data;
use crate::error::CallError;
use crate::intent::Intent;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    ok: bool,
    #[serde(default, deserialize_with = "even_null")]
    data: Option<Data>,
    #[serde(default)]
    content: Vec<ContentPart>,
    error: Option<CallError>,
    #[serde(default)]
    intents: Vec<Intent>,
    meta: MetaForm,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaForm {
    tool_id: Arc<str>,
    tool_version: Option<Arc<str>>,
    registry_version: Arc<str>,
    response_schema_version: String,
    duration_ms: u64,
    timestamp: String,
    #[serde(default)]
    retry_count: u32,
    #[serde(default)]
    clamped: BTreeMap<Arc<str>, [i64; 2]>,
    #[serde(default)]
    defaults_applied: Arc<[Arc<str>]>,
    #[serde(default)]
    nulls_left_out: Arc<[Arc<str>]>,
    #[serde(default)]
    idempotent_cache_hit: bool,
    original_turn: Option<u64>,
    parent_call_id: Option<String>,
    cut: Option<Arc<str>>,
    accepted_until: Option<String>,
    background_task_id: Option<Arc<str>>,
    #[serde(default)]
    preliminary: bool,
    recorded: Option<bool>,
}

/// `data: null` is data.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Data>, D::Error> {
    Data::deserialize(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for ToolResponse {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = Form::deserialize(deserializer)?;
        let outcome = match (form.ok, form.error) {
            (true, None) => Outcome::Success {
                data: form.data,
                content: form.content,
            },
            (false, Some(error)) if form.data.is_none() => Outcome::Failure(error.into()),
            (true, Some(_)) | (false, _) => {
                return Err(D::Error::custom(
                    "a response is either a success or an error",
                ));
            }
        };
        let meta = form.meta;
        if !is_read(&meta.response_schema_version) {
            return Err(D::Error::custom("the response is of another version"));
        }
        Ok(Self {
            outcome,
            intents: form.intents,
            meta: Meta {
                tool_id: meta.tool_id,
                tool_version: meta.tool_version,
                registry_version: meta.registry_version,
                response_schema_version: RESPONSE_VERSION,
                duration_ms: meta.duration_ms,
                timestamp: unix_ms(&meta.timestamp)
                    .ok_or_else(|| D::Error::custom("the timestamp is none of ours"))?,
                retry_count: meta.retry_count,
                clamped: meta.clamped,
                defaults_applied: meta.defaults_applied,
                nulls_left_out: meta.nulls_left_out,
                idempotent_cache_hit: meta.idempotent_cache_hit,
                original_turn: meta.original_turn,
                parent_call_id: meta.parent_call_id,
                cut: meta.cut,
                accepted_until: meta.accepted_until.as_deref().and_then(unix_ms),
                background_task_id: meta.background_task_id,
                preliminary: meta.preliminary,
                recorded: meta.recorded,
            },
        })
    }
}

/// Milliseconds since the Unix epoch, from a time in the one form that [`super::rfc3339`] writes.
///
/// The days-from-civil arithmetic is Howard Hinnant's, <https://howardhinnant.github.io/date_algorithms.html>.
fn unix_ms(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let is_ours = bytes.len() == 24
        && bytes
            .iter()
            .zip(b"0000-00-00T00:00:00.000Z")
            .all(|(found, pattern)| match pattern {
                b'0' => found.is_ascii_digit(),
                other => found == other,
            });
    if !is_ours {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let shifted_month = (month + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(seconds * 1_000 + number(20, 23)?)
}

#[cfg(test)]
mod tests {
    use super::super::{meta_without_tool, rfc3339};
    use super::*;
    use crate::error::ErrorType;
    use serde_json::{Value, json};

    #[test]
    fn what_was_written_is_read_back_as_it_was() {
        let meta = Meta {
            tool_version: Some("1.2.3".into()),
            duration_ms: 12,
            retry_count: 2,
            clamped: BTreeMap::from([("top_k".into(), [10, 3])]),
            defaults_applied: ["/top_k".into()].into(),
            nulls_left_out: ["/note".into()].into(),
            idempotent_cache_hit: true,
            original_turn: Some(4),
            parent_call_id: Some("call-1".to_owned()),
            cut: Some("1 texts were cut for length".into()),
            accepted_until: Some(1_763_663_143_511),
            recorded: Some(false),
            ..meta_without_tool("kb_get", "1.0.00000000".into(), 1_795_199_143_511)
        };
        let success = |data: Option<Value>| Outcome::Success {
            data: data.map(Into::into),
            content: vec![ContentPart::Image {
                mime_type: "image/png".to_owned(),
                url: "https://example.org".to_owned(),
            }],
        };
        for outcome in [
            success(None),
            success(Some(Value::Null)),
            success(Some(json!({"n": 1, "list": [0.1, "x"]}))),
            Outcome::Failure(
                CallError::new(ErrorType::RateLimit, "slow down")
                    .with_details(json!(["d"]))
                    .into(),
            ),
        ] {
            let response = ToolResponse {
                outcome,
                intents: vec![Intent::SuppressAudio { value: true }],
                meta: meta.clone(),
            };
            let text = serde_json::to_string(&response).unwrap();
            assert_eq!(
                serde_json::from_str::<ToolResponse>(&text).unwrap(),
                response
            );
        }
    }

    #[test]
    fn what_is_neither_success_nor_error_is_refused() {
        let meta = json!({
            "toolId": "x", "registryVersion": "1", "responseSchemaVersion": "1.1.0", "durationMs": 0,
            "timestamp": "2026-11-20T18:25:43.511Z"
        });
        let error = json!({"type": "NOT_FOUND", "message": "", "retryable": false});
        let mut other_version = meta.clone();
        other_version["responseSchemaVersion"] = json!("2.0.0");
        let mut version_before = meta.clone();
        version_before["responseSchemaVersion"] = json!("1.0.0");
        for (form, is_good) in [
            (json!({"ok": true, "meta": meta}), true),
            (json!({"ok": false, "error": error, "meta": meta}), true),
            (json!({"ok": true, "error": error, "meta": meta}), false),
            (json!({"ok": false, "meta": meta}), false),
            (
                json!({"ok": false, "error": error, "data": 1, "meta": meta}),
                false,
            ),
            (json!({"ok": true, "meta": other_version}), false),
            (json!({"ok": true, "meta": version_before}), true),
        ] {
            let read = serde_json::from_value::<ToolResponse>(form.clone());
            assert_eq!(read.is_ok(), is_good, "{form}");
        }
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for time in [0, 951_782_400_000, 1_795_199_143_511, 4_102_444_799_999] {
            assert_eq!(unix_ms(&rfc3339(time)), Some(time));
        }
        for text in [
            "",
            "2026-11-20",
            "2026-13-20T18:25:43.511Z",
            "2026-11-20T18:25:43.511+",
            "1969-12-31T23:59:59.999Z",
        ] {
            assert_eq!(unix_ms(text), None, "{text}");
        }
    }
}
