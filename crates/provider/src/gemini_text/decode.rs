//! From the bytes of an answer to events and an [`ModelAnswer`]. Knows the meaning of each message and the little state between
//! them; knows no retry and no clock.

use super::call;
use crate::answer::{AnswerLimits, AnswerPiece, Ending, ModelAnswer, Trouble};
use crate::failure::{Failure, RetryRule, printable};
use crate::log::{Opaque, TextPiece, UnreadItem};
use crate::message::{Count, List, PassedOver, Text, message};
use crate::provider_tools::{Grounding, external_content};
use crate::sse::{self, Item, Splitter};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;
use windlass_session::model::{IncomingCall, ModelEvent, Usage};

/// Reads one answer. Make a new one for each request.
#[derive(Debug)]
pub struct Decoder {
    splitter: Splitter,
    state: StreamState,
}

#[derive(Debug)]
struct StreamState {
    trouble: Trouble,
    pieces: Vec<AnswerPiece>,
    calls: Vec<IncomingCall>,
    text_bytes: usize,
    passed_on: bool,
    usage: Option<Usage>,
    block_reason: Option<String>,
    finish_reason: Option<String>,
    /// Whether a message of the protocol has come.
    is_answering: bool,
}

impl Decoder {
    pub fn new(limits: AnswerLimits) -> Self {
        Self {
            splitter: Splitter::new(sse::Limits::of_line(limits.line_bytes_max)),
            state: StreamState::new(limits),
        }
    }

    /// Reads the next bytes of the body, however they were cut. Appends the events that the core gets at once: the words. After a
    /// failure it appends nothing more.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<ModelEvent>) {
        let state = &mut self.state;
        if !state.trouble.count(bytes.len()) {
            return;
        }
        let split = self
            .splitter
            .push(bytes, &mut |item| state.item(item, events));
        state.trouble.note(split);
    }

    /// Whether later bytes cannot matter, so that the connection may be closed. The service sends no end mark: an answer has
    /// ended when its stream has.
    pub fn is_finished(&self) -> bool {
        self.state.trouble.has_failed()
    }

    /// Ends the answer: the body has ended, or will not be read any further.
    pub fn finish(self, events: &mut Vec<ModelEvent>) -> ModelAnswer {
        let Self {
            splitter,
            mut state,
        } = self;
        if !state.trouble.has_failed() {
            let split = splitter.finish(&mut |item| state.item(item, events));
            state.trouble.note(split);
        }
        state.finish()
    }
}

/// Reads the whole body of an answer that is not streamed.
pub fn decode_whole(
    body: &[u8],
    limits: AnswerLimits,
    events: &mut Vec<ModelEvent>,
) -> ModelAnswer {
    let mut state = StreamState::new(limits);
    if state.trouble.count(body.len()) {
        state.message(body, events);
    }
    state.finish()
}

message! {
    Message<'a> {
        candidates: List<Candidate<'a>> = "candidates",
        prompt_feedback: PromptFeedback<'a> = "promptFeedback" or "prompt_feedback",
        usage_metadata: &'a RawValue = "usageMetadata" or "usage_metadata",
        error: &'a RawValue = "error",
    }
    skips others
}

message! {
    PromptFeedback<'a> {
        block_reason: Text<'a> = "blockReason" or "block_reason",
    }
    skips others
}

message! {
    Candidate<'a> {
        index: Count = "index",
        content: Content<'a> = "content",
        finish_reason: Text<'a> = "finishReason" or "finish_reason",
        grounding: Grounding<'a> = "groundingMetadata" or "grounding_metadata",
    }
    skips others
}

message! {
    Content<'a> {
        parts: List<Part<'a>> = "parts",
    }
    skips others
}

message! {
    Part<'a> {
        text: Text<'a> = "text",
        thought: bool = "thought",
        thought_signature: Text<'a> = "thoughtSignature" or "thought_signature",
        function_call: &'a RawValue = "functionCall" or "function_call",
        tool_call: &'a RawValue = "toolCall" or "tool_call",
        tool_response: &'a RawValue = "toolResponse" or "tool_response",
        code: &'a RawValue = "executableCode" or "executable_code",
        code_result: &'a RawValue = "codeExecutionResult" or "code_execution_result",
    }
    skips others
}

impl StreamState {
    fn new(limits: AnswerLimits) -> Self {
        Self {
            trouble: Trouble::new(limits),
            pieces: Vec::new(),
            calls: Vec::new(),
            text_bytes: 0,
            passed_on: false,
            usage: None,
            block_reason: None,
            finish_reason: None,
            is_answering: false,
        }
    }

    fn item(&mut self, item: Item<'_>, events: &mut Vec<ModelEvent>) {
        if self.trouble.has_failed() {
            return;
        }
        match item {
            Item::Event { name: _, data } => {
                // Some gateways end every stream with the mark of another protocol.
                if !matches!(data.trim_ascii(), b"" | b"[DONE]") {
                    self.message(data, events);
                }
            }
            // The service has put bare errors into a stream, without the form of an event.
            Item::Bare(text) => {
                if matches!(text.trim_ascii_start().first(), Some(b'{' | b'[')) {
                    self.message(text, events);
                } else {
                    self.trouble.damage("a line that is no event", events);
                }
            }
        }
    }

    fn message(&mut self, data: &[u8], events: &mut Vec<ModelEvent>) {
        let Ok(text) = std::str::from_utf8(data) else {
            return self.trouble.damage("bytes that are no UTF-8 text", events);
        };
        let message = match crate::message::read::<Message<'_>>(text) {
            Ok(Some(message)) if message.error.is_none() => message,
            Ok(_) | Err(_) => {
                let error = serde_json::from_str::<Value>(text)
                    .ok()
                    .and_then(|body| Failure::of_error(&body, RetryRule::Gemini));
                return match error {
                    Some(failure) => self.trouble.fail_with(failure),
                    None => self
                        .trouble
                        .damage("something that is no message of the protocol", events),
                };
            }
        };
        let is_whole = message.is_whole();
        self.is_answering |= is_whole;
        if !is_whole {
            self.trouble
                .damage("a part of a type that nobody knows", events);
        }
        // Each message's sums include the earlier ones; the last message has the totals.
        if let Some(usage) = message.usage_metadata {
            self.usage = usage_of(usage).or(self.usage);
        }
        if let Some(reason) = message
            .prompt_feedback
            .and_then(|feedback| feedback.block_reason)
        {
            self.block_reason =
                named(&reason.0, "BLOCK_REASON_UNSPECIFIED").or(self.block_reason.take());
        }
        for candidate in message.candidates.into_iter().flat_map(|list| list.items) {
            if candidate.index.unwrap_or_default() == Count(0) {
                self.candidate(candidate, events);
            }
        }
    }

    fn candidate(&mut self, candidate: Candidate<'_>, events: &mut Vec<ModelEvent>) {
        let reason = candidate
            .finish_reason
            .and_then(|reason| named(&reason.0, "FINISH_REASON_UNSPECIFIED"));
        // The text beside a malformed call is that call.
        let is_call_text = reason.as_deref() == Some(MALFORMED_FUNCTION_CALL);
        if reason.is_some() {
            self.finish_reason = reason;
        }
        if is_call_text {
            return;
        }
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.into_iter().flat_map(|list| list.items) {
            self.part(part, events);
        }
        events.extend(candidate.grounding.and_then(|grounding| grounding.event()));
    }

    fn part(&mut self, part: Part<'_>, events: &mut Vec<ModelEvent>) {
        let signature = part.thought_signature.map(|signature| signature.0);
        let signature = signature.filter(|signature| !signature.is_empty());
        // Calls and results of the service's own tools are neither run nor shown by us.
        for (name, own, is_result) in [
            ("toolCall", part.tool_call, false),
            ("toolResponse", part.tool_response, true),
            ("executableCode", part.code, false),
            ("codeExecutionResult", part.code_result, true),
        ] {
            if let Some(own) = own {
                if is_result {
                    events.push(external_content(Vec::new()));
                }
                return self.unread(name, own, signature.as_deref());
            }
        }
        self.text_bytes += signature.as_ref().map_or(0, |signature| signature.len());
        let signature =
            signature.map(|signature| Opaque::ThoughtSignature(Arc::<str>::from(signature).into()));
        if let Some(call) = part.function_call {
            return self.call(call, signature);
        }
        let is_thought = part.thought == Some(true);
        let text = part.text.unwrap_or_default().0.into_owned();
        // A thought without a signature is of no use, and is dropped. So is an empty text without one.
        if signature.is_none() && (is_thought || text.is_empty()) {
            return;
        }
        self.text_bytes += text.len();
        if !self.trouble.check_text(self.text_bytes) {
            return;
        }
        self.keep(&text, is_thought, signature);
        if !is_thought && !text.is_empty() {
            self.passed_on = true;
            events.push(ModelEvent::OutputText { text: text.into() });
        }
    }

    /// A part of the service's own tools goes back as it came, with the signature that stood on it.
    fn unread(&mut self, name: &str, value: &RawValue, signature: Option<&str>) {
        let signature = signature.map(|signature| {
            let signature = Value::from(signature);
            format!(",\"thoughtSignature\":{signature}")
        });
        let signature = signature.unwrap_or_default();
        let part = format!("{{\"{name}\":{value}{signature}}}");
        self.text_bytes += part.len();
        if !self.trouble.check_text(self.text_bytes) {
            return;
        }
        let part = RawValue::from_string(part).expect("JSON joined as JSON");
        self.pieces.push(AnswerPiece::Text(TextPiece {
            text: String::new().into(),
            is_thought: true,
            opaque: Some(Opaque::Item(UnreadItem::new(&part))),
        }));
    }

    /// Joins a text to the text before it. Parts with a signature stay apart and go back as they came.
    fn keep(&mut self, text: &str, is_thought: bool, signature: Option<Opaque>) {
        match self.pieces.last_mut() {
            Some(AnswerPiece::Text(last)) if signature.is_none() && last.opaque.is_none() => {
                last.text.0.push_str(text);
            }
            Some(AnswerPiece::Text(_) | AnswerPiece::Call(_)) | None => {
                self.pieces.push(AnswerPiece::Text(TextPiece {
                    text: text.to_owned().into(),
                    is_thought,
                    opaque: signature,
                }));
            }
        }
    }

    fn call(&mut self, call: &RawValue, signature: Option<Opaque>) {
        let limits = *self.trouble.limits();
        if self.calls.len() >= limits.calls_max {
            return self
                .trouble
                .fail("the answer holds more calls than any model makes");
        }
        match call::read(call, signature, limits.arguments_bytes_max) {
            Some((call, incoming)) => {
                self.pieces.push(AnswerPiece::Call(call));
                self.calls.push(incoming);
            }
            None => self.trouble.fail("a call's arguments do not end"),
        }
    }

    fn finish(mut self) -> ModelAnswer {
        let ending = self.ending();
        if ending != Ending::Complete {
            self.calls.clear();
            // A call of the service's own tools without its result would be refused when it comes back.
            self.pieces.retain(|piece| match piece {
                AnswerPiece::Text(text) => !matches!(text.opaque, Some(Opaque::Item(_))),
                AnswerPiece::Call(_) => false,
            });
        }
        ModelAnswer {
            pieces: self.pieces,
            opaque: None,
            calls: self.calls,
            usage: self.usage,
            ending,
            passed_on: self.passed_on,
        }
    }

    fn ending(&self) -> Ending {
        if let Some(failure) = self.trouble.failure() {
            return Ending::Failed(failure.clone());
        }
        if let Some(reason) = &self.finish_reason {
            let ending = ending_of(reason);
            // The lost message might have held a call.
            return if ending == Ending::Complete
                && self.trouble.is_damaged()
                && !self.calls.is_empty()
            {
                Ending::Failed(Failure::protocol(
                    "a piece of the provider's answer cannot be read",
                    true,
                ))
            } else if ending == Ending::LengthReached && !self.calls.is_empty() {
                Ending::CallCut
            } else {
                ending
            };
        }
        if let Some(reason) = &self.block_reason {
            return Ending::Blocked {
                reason: reason.clone(),
            };
        }
        if self.trouble.is_damaged() && !self.is_answering {
            return Ending::Failed(Failure::protocol(
                "the provider's answer is no stream of the protocol: check the provider's address",
                false,
            ));
        }
        Ending::Cut
    }
}

const MALFORMED_FUNCTION_CALL: &str = "MALFORMED_FUNCTION_CALL";

/// Calls run only after `STOP`. The model ends with that after calls too.
fn ending_of(reason: &str) -> Ending {
    match reason {
        "STOP" => Ending::Complete,
        "MAX_TOKENS" => Ending::LengthReached,
        MALFORMED_FUNCTION_CALL => Ending::MalformedCall,
        "UNEXPECTED_TOOL_CALL" => Ending::UndeclaredCall,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_OTHER"
        | "IMAGE_RECITATION" => Ending::Blocked {
            reason: reason.to_owned(),
        },
        "MALFORMED_RESPONSE" => Ending::Failed(Failure::protocol(
            "the provider could not read its model's answer",
            true,
        )),
        "MISSING_THOUGHT_SIGNATURE" => Ending::Failed(Failure::protocol(
            "the provider misses a thought signature in the request",
            false,
        )),
        other => Ending::Stopped {
            reason: other.to_owned(),
        },
    }
}

/// The name of a reason, made fit for a log; `None` for the name that stands for no reason.
fn named(reason: &str, unspecified: &str) -> Option<String> {
    (!reason.is_empty() && reason != unspecified).then(|| printable(reason))
}

/// Protobuf JSON writes 64-bit integers as strings or numbers, and names in both casings.
fn usage_of(value: &RawValue) -> Option<Usage> {
    let usage: Map<String, Value> = serde_json::from_str(value.get()).ok()?;
    let count = |camel: &str, snake: &str| {
        let value = usage.get(camel).or_else(|| usage.get(snake));
        value
            .and_then(|value| value.as_u64().or_else(|| value.as_str()?.parse().ok()))
            .unwrap_or(0)
    };
    Some(Usage {
        prompt_tokens: count("promptTokenCount", "prompt_token_count"),
        response_tokens: count("candidatesTokenCount", "candidates_token_count"),
        thoughts_tokens: count("thoughtsTokenCount", "thoughts_token_count"),
        tool_use_tokens: count("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
        cached_tokens: count("cachedContentTokenCount", "cached_content_token_count"),
        total_tokens: count("totalTokenCount", "total_token_count"),
        ..Usage::default()
    })
}
