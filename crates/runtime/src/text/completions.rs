//! A turn in the format of OpenAI's Chat Completions, streamed or whole. The tools run here, so that a client sees words alone.
//! Knows that format; knows no connection.

use super::ui_stream::Outlet;
use super::{FinishReason, TurnEnd, TurnSink};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::failure::{Failure, FailureClass};
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode};
use windlass_session::event::SessionEvent;
use windlass_session::model::{Role, Usage};

/// The fields that every part of one answer repeats.
#[derive(Clone, Debug)]
pub struct Envelope {
    pub id: String,
    pub created_unix_seconds: u64,
    /// The model's name in the request.
    pub model: String,
}

/// Writes a turn as a stream of chunks.
pub struct ChunkStream<O> {
    outlet: O,
    bytes: Vec<u8>,
    envelope: Envelope,
    /// The text of a chunk before its words.
    opening: String,
    includes_usage: bool,
    /// Requests to the model so far. The second one shows that the first was answered.
    steps: u32,
    is_begun: bool,
    has_failed: bool,
    provider: Option<ProviderFailure>,
    /// The failure of a turn before anything was written, so that the answer can have a status of its own.
    unsent: Option<Failed>,
}

/// A turn that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    pub code: ErrorCode,
    pub body: Value,
    pub provider: Option<ProviderFailure>,
}

/// The provider's failure, as far as the client may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderFailure {
    /// The status, 400 or higher.
    pub status: u16,
    /// Whether the same request fails again.
    pub is_permanent: bool,
    pub retry_after: Option<Duration>,
}

impl ProviderFailure {
    fn of(failure: &Failure) -> Self {
        let of_class = match failure.class {
            FailureClass::InvalidRequest | FailureClass::ContextTooLong => 400,
            FailureClass::Auth => 401,
            FailureClass::NotFound => 404,
            FailureClass::RateLimited | FailureClass::QuotaExhausted => 429,
            FailureClass::Overloaded => 503,
            FailureClass::Timeout => 504,
            FailureClass::Conflict
            | FailureClass::Cancelled
            | FailureClass::ServerFault
            | FailureClass::NoWay
            | FailureClass::Protocol => 502,
        };
        // A provider's error status is no error of this server.
        let own = failure
            .status
            .filter(|status| (400..500).contains(status) || *status == 503);
        Self {
            status: own.unwrap_or(of_class),
            is_permanent: !failure.retryable,
            retry_after: failure.retry_after,
        }
    }
}

impl<O: Outlet> ChunkStream<O> {
    pub fn new(outlet: O, envelope: Envelope, includes_usage: bool) -> Self {
        let opening = format!(
            "data: {{\"id\":{},\"object\":\"chat.completion.chunk\",\"created\":{},\"model\":{},\
             \"choices\":[{{\"index\":0,\"finish_reason\":null,\"delta\":{{\"content\":",
            json!(envelope.id),
            envelope.created_unix_seconds,
            json!(envelope.model)
        );
        Self {
            outlet,
            bytes: Vec::with_capacity(1_024),
            envelope,
            opening,
            includes_usage,
            steps: 0,
            is_begun: false,
            has_failed: false,
            provider: None,
            unsent: None,
        }
    }

    /// The outlet, and the failure of the turn if nothing was written.
    pub fn into_parts(self) -> (O, Option<Failed>) {
        (self.outlet, self.unsent)
    }

    fn chunk(&mut self, choices: &Value, usage: Option<&Value>) {
        let mut chunk = json!({
            "id": self.envelope.id,
            "object": "chat.completion.chunk",
            "created": self.envelope.created_unix_seconds,
            "model": self.envelope.model,
            "choices": choices,
        });
        if self.includes_usage {
            chunk["usage"] = usage.cloned().unwrap_or(Value::Null);
        }
        self.event(&chunk);
    }

    fn event(&mut self, value: &Value) {
        self.bytes
            .extend_from_slice(format!("data: {value}\n\n").as_bytes());
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.is_begun, true) {
            let delta = json!({"role": "assistant", "content": ""});
            self.chunk(
                &json!([{"index": 0, "delta": delta, "finish_reason": null}]),
                None,
            );
        }
    }
}

impl<O: Outlet> TurnSink for ChunkStream<O> {
    /// Begins the stream once the provider has taken the request: until then a refusal has a status of its own.
    fn step(&mut self) {
        self.steps += 1;
        if self.steps > 1 {
            self.begin();
        }
    }

    fn client(&mut self, update: &ClientUpdate) {
        if let Some(words) = words_of(update) {
            self.begin();
            self.bytes.extend_from_slice(self.opening.as_bytes());
            serde_json::to_writer(&mut self.bytes, words).expect("memory takes every text");
            let end: &[u8] = match self.includes_usage {
                true => b"}}],\"usage\":null}\n\n",
                false => b"}}]}\n\n",
            };
            self.bytes.extend_from_slice(end);
        }
    }

    fn event(&mut self, _event: &SessionEvent) {}

    /// The tools of these sessions need no consent.
    fn asks(&mut self, _question: &ConfirmationQuestion, _token: &Sensitive<String>) {}

    fn provider_failed(&mut self, failure: &Failure) {
        self.provider = Some(ProviderFailure::of(failure));
    }

    fn failed(&mut self, code: ErrorCode, message: &str) {
        self.has_failed = true;
        let body = error_body(code, message);
        if self.is_begun {
            self.event(&body);
        } else {
            let provider = self.provider;
            self.unsent = Some(Failed {
                code,
                body,
                provider,
            });
        }
    }

    fn finished(&mut self, end: &TurnEnd) {
        if self.unsent.is_some() {
            return;
        }
        if !self.has_failed {
            self.begin();
            self.chunk(
                &json!([{"index": 0, "delta": {}, "finish_reason": finish_reason(end.reason)}]),
                None,
            );
            if self.includes_usage {
                let usage = usage_of(&end.usage);
                self.chunk(&json!([]), Some(&usage));
            }
        }
        self.bytes.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn flush(&mut self) {
        if !self.bytes.is_empty() {
            self.outlet.send(&mut self.bytes);
        }
    }
}

/// Gathers a turn into one answer.
#[derive(Debug, Default)]
pub struct Whole {
    text: String,
    provider: Option<ProviderFailure>,
    failure: Option<(ErrorCode, String)>,
    end: Option<(FinishReason, Usage)>,
}

impl Whole {
    /// The body of the answer.
    ///
    /// # Errors
    ///
    /// The turn failed.
    pub fn body(self, envelope: &Envelope) -> Result<Value, Failed> {
        if let Some((code, message)) = self.failure {
            return Err(Failed {
                code,
                body: error_body(code, &message),
                provider: self.provider,
            });
        }
        let (reason, usage) = self.end.unwrap_or((FinishReason::Stop, Usage::default()));
        let message = json!({"role": "assistant", "content": self.text, "refusal": null});
        Ok(json!({
            "id": envelope.id,
            "object": "chat.completion",
            "created": envelope.created_unix_seconds,
            "model": envelope.model,
            "choices": [{
                "index": 0, "message": message, "logprobs": null,
                "finish_reason": finish_reason(reason),
            }],
            "usage": usage_of(&usage),
        }))
    }
}

impl TurnSink for Whole {
    fn step(&mut self) {}

    fn client(&mut self, update: &ClientUpdate) {
        if let Some(words) = words_of(update) {
            self.text.push_str(words);
        }
    }

    fn event(&mut self, _event: &SessionEvent) {}

    /// The tools of these sessions need no consent.
    fn asks(&mut self, _question: &ConfirmationQuestion, _token: &Sensitive<String>) {}

    fn provider_failed(&mut self, failure: &Failure) {
        self.provider = Some(ProviderFailure::of(failure));
    }

    fn failed(&mut self, code: ErrorCode, message: &str) {
        self.failure = Some((code, message.to_owned()));
    }

    fn finished(&mut self, end: &TurnEnd) {
        self.end = Some((end.reason, end.usage));
    }

    fn flush(&mut self) {}
}

/// The end of a stream whose failure came too late for a status.
pub fn failed_stream(failed: &Failed) -> Vec<u8> {
    format!("data: {}\n\ndata: [DONE]\n\n", failed.body).into_bytes()
}

/// An error in the protocol's form.
pub fn error_body(code: ErrorCode, message: &str) -> Value {
    let kind = match code {
        ErrorCode::BadMessage
        | ErrorCode::UnknownType
        | ErrorCode::TooLarge
        | ErrorCode::Unsupported => "invalid_request_error",
        _ => "server_error",
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code.as_str()}})
}

fn words_of(update: &ClientUpdate) -> Option<&str> {
    match update {
        ClientUpdate::Transcript {
            role: Role::Assistant,
            text,
            is_final: false,
            ..
        } => Some(text.expose()),
        _ => None,
    }
}

fn finish_reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::Cancelled | FinishReason::Failed => "stop",
        FinishReason::Length => "length",
        FinishReason::Blocked => "content_filter",
    }
}

fn usage_of(usage: &Usage) -> Value {
    let completion = usage.response_tokens + usage.thoughts_tokens;
    json!({
        "prompt_tokens": usage.input_tokens(),
        "completion_tokens": completion,
        "total_tokens": usage.input_tokens() + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.thoughts_tokens},
    })
}
