//! From the bytes of an answer to events and an [`ModelAnswer`]. Reads OpenAI's protocol and the variants of compatible servers;
//! knows no retry and no clock.

use super::accumulate::{Calls, TooMuch};
use super::plain_chunk::{Plain, PlainChunks};
use super::request::{EXTRA_CONTENT, REASONING_CONTENT, REASONING_DETAILS};
use crate::answer::{AnswerLimits, AnswerPiece, Ending, ModelAnswer, Trouble};
use crate::failure::{Failure, RetryRule};
use crate::log::{Opaque, TextPiece};
use crate::message::{List, PassedOver, message};
use crate::profile::{Profile, Reasoning};
use crate::sse::{self, Item, Splitter};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use windlass_contract::json::Strict;
use windlass_session::model::{ModelEvent, Usage};

/// Reads one answer. Make a new one for each request.
#[derive(Debug)]
pub struct Decoder {
    splitter: Splitter,
    state: StreamState,
}

#[derive(Debug)]
struct StreamState {
    trouble: Trouble,
    plain_chunks: PlainChunks,
    returns: Reasoning,
    answer_number: u32,
    text: String,
    reasoning: String,
    details: Vec<Value>,
    details_bytes: usize,
    extra: Option<Value>,
    calls: Calls,
    /// Whether a `function_call` has begun, which goes on without its name.
    has_function_call: bool,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    /// Whether the end mark has come.
    is_done: bool,
    /// Whether a message of the protocol has come.
    is_answering: bool,
    /// Whether a delta with contents has come.
    has_delta: bool,
}

impl Decoder {
    /// `answer_number` is [`ConversationLog::next_answer`]. The decoder makes ids from it for calls that came without.
    ///
    /// [`ConversationLog::next_answer`]: crate::log::ConversationLog::next_answer
    pub fn new(profile: &Profile, answer_number: u32, limits: AnswerLimits) -> Self {
        Self {
            splitter: Splitter::new(sse::Limits::of_line(limits.line_bytes_max)),
            state: StreamState::new(profile, answer_number, limits),
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

    /// Whether later bytes cannot matter, so that the connection may be closed.
    pub fn is_finished(&self) -> bool {
        self.state.is_done || self.state.trouble.has_failed()
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
    profile: &Profile,
    answer_number: u32,
    limits: AnswerLimits,
    events: &mut Vec<ModelEvent>,
) -> ModelAnswer {
    let mut state = StreamState::new(profile, answer_number, limits);
    if state.trouble.count(body.len()) {
        state.chunk(body, false, events);
        // A whole body is complete without an end mark.
        state.is_done = true;
    }
    state.finish()
}

message! {
    /// A chunk of a stream, or a whole answer.
    Chunk<'a> {
        choices: List<Choice<'a>> = "choices",
        usage: &'a RawValue = "usage",
        error: &'a RawValue = "error",
        object: &'a RawValue = "object",
        detail: &'a RawValue = "detail",
    }
    skips others
}

message! {
    Choice<'a> {
        index: &'a RawValue = "index",
        delta: Delta<'a> = "delta",
        // Present in a whole answer. Some servers send one although a stream was asked for, even beside an empty delta.
        message: Delta<'a> = "message",
        finish_reason: &'a RawValue = "finish_reason",
    }
    skips others
}

message! {
    Delta<'a> {
        content: &'a RawValue = "content",
        refusal: &'a RawValue = "refusal",
        reasoning_content: &'a RawValue = "reasoning_content",
        reasoning_details: &'a RawValue = "reasoning_details",
        tool_calls: &'a RawValue = "tool_calls",
        // The form before tools; some servers still answer in it.
        function_call: &'a RawValue = "function_call",
        extra_content: &'a RawValue = "extra_content",
    }
    skips others
}

impl StreamState {
    fn new(profile: &Profile, answer_number: u32, limits: AnswerLimits) -> Self {
        Self {
            trouble: Trouble::new(limits),
            plain_chunks: PlainChunks::default(),
            returns: profile.request.reasoning,
            answer_number,
            text: String::new(),
            reasoning: String::new(),
            details: Vec::new(),
            details_bytes: 0,
            extra: None,
            calls: Calls::default(),
            has_function_call: false,
            usage: None,
            finish_reason: None,
            is_done: false,
            is_answering: false,
            has_delta: false,
        }
    }

    fn item(&mut self, item: Item<'_>, events: &mut Vec<ModelEvent>) {
        if self.trouble.has_failed() || self.is_done {
            return;
        }
        match item {
            Item::Event { name, data } => {
                let data = data.trim_ascii();
                if data == b"[DONE]" {
                    self.is_done = true;
                } else if !data.is_empty() {
                    self.chunk(data, name == b"error", events);
                }
            }
            Item::Bare(text) => {
                if matches!(text.trim_ascii_start().first(), Some(b'{' | b'[')) {
                    self.chunk(text, false, events);
                } else {
                    self.trouble.damage("a line that is no event", events);
                }
            }
        }
    }

    fn chunk(&mut self, data: &[u8], is_error: bool, events: &mut Vec<ModelEvent>) {
        let Ok(text) = std::str::from_utf8(data) else {
            return self.trouble.damage("bytes that are no UTF-8 text", events);
        };
        if !is_error && let Some(plain) = self.plain_chunks.read(text) {
            return self.plain(plain, events);
        }
        let chunk = match crate::message::read::<Chunk<'_>>(text) {
            Ok(Some(chunk)) if !is_error => chunk,
            Ok(_) | Err(_) => return self.other(text, is_error, events),
        };
        let is_error = chunk.error.is_some_and(is_truthy)
            || chunk.choices.is_none() && (chunk.object.is_some() || chunk.detail.is_some());
        if is_error && self.error(text) {
            return;
        }
        let is_whole = chunk.is_whole();
        self.is_answering |= is_whole;
        if let Some(usage) = chunk.usage {
            self.usage = usage_of(usage).or(self.usage);
        }
        if !is_whole {
            self.trouble
                .damage("a choice of a type that nobody knows", events);
        }
        for choice in chunk.choices.into_iter().flat_map(|list| list.items) {
            if choice.index.is_none_or(|index| index.get() == "0") {
                self.choice(choice, events);
            }
        }
    }

    fn plain(&mut self, plain: Plain<'_>, events: &mut Vec<ModelEvent>) {
        self.is_answering = true;
        match plain {
            Plain::Words(words) => {
                self.has_delta |= !words.is_empty();
                self.said(words, events);
            }
            Plain::Arguments { index, piece } => {
                self.has_delta = true;
                let added = self
                    .calls
                    .add_arguments(index, &piece, self.trouble.limits());
                self.check_calls(added);
            }
        }
    }

    /// Reads a text that is no chunk. It may still be an error.
    fn other(&mut self, text: &str, is_error: bool, events: &mut Vec<ModelEvent>) {
        if self.error(text) {
            return;
        }
        if !is_error {
            return self
                .trouble
                .damage("something that is no message of the protocol", events);
        }
        let error: Value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        if let Some(failure) = Failure::of_error(&json!({ "error": error }), RetryRule::Openai) {
            self.trouble.fail_with(failure);
        }
    }

    /// Whether the text is an error object, which ends the answer.
    fn error(&mut self, text: &str) -> bool {
        let error = serde_json::from_str::<Value>(text)
            .ok()
            .and_then(|body| Failure::of_error(&body, RetryRule::Openai));
        let is_error = error.is_some();
        if let Some(failure) = error {
            self.trouble.fail_with(failure);
        }
        is_error
    }

    fn choice(&mut self, choice: Choice<'_>, events: &mut Vec<ModelEvent>) {
        match (
            choice.delta.filter(|delta| !delta.is_empty()),
            choice.message,
        ) {
            (Some(delta), _) => {
                self.has_delta = true;
                self.delta(&delta, events);
            }
            (None, Some(message)) if self.has_delta => {
                self.delta(&self.news_of(message), events);
            }
            (None, Some(message)) => self.delta(&message, events),
            (None, None) => {}
        }
        let reason = choice.finish_reason.and_then(string);
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason.into_owned());
        }
    }

    /// The parts of a message that are new in this stream. Some servers repeat beside each delta all earlier parts.
    fn news_of<'a>(&self, mut message: Delta<'a>) -> Delta<'a> {
        if !self.text.is_empty() {
            message.content = None;
            message.refusal = None;
        }
        if !self.reasoning.is_empty() {
            message.reasoning_content = None;
        }
        if !self.details.is_empty() {
            message.reasoning_details = None;
        }
        if !self.calls.is_empty() {
            message.tool_calls = None;
            message.function_call = None;
        }
        message
    }

    fn delta(&mut self, delta: &Delta<'_>, events: &mut Vec<ModelEvent>) {
        for words in [delta.content, delta.refusal].into_iter().flatten() {
            self.words(words, events);
        }
        if let Some(reasoning) = delta.reasoning_content
            && self.returns == Reasoning::ReturnedWithCalls
        {
            let reasoning = words_of(reasoning).unwrap_or_default();
            self.reasoning.push_str(&reasoning);
            self.check_text();
        }
        if let Some(details) = delta.reasoning_details
            && self.returns == Reasoning::DetailsReturned
        {
            self.details_bytes += details.get().len();
            if self.check_text() {
                self.add_details(details);
            }
        }
        if let Some(extra) = delta.extra_content
            && let Ok(Value::Object(extra)) = serde_json::from_str(extra.get())
        {
            self.extra = Some(Value::Object(extra));
        }
        if let Some(calls) = delta.tool_calls {
            match serde_json::from_str::<Strict>(calls.get()) {
                Ok(Strict(Value::Array(entries))) => {
                    for entry in entries {
                        self.call(entry);
                    }
                }
                Ok(Strict(entry)) => self.call(entry),
                Err(_) => self.trouble.damage("a call that cannot be read", events),
            }
        }
        if let Some(call) = delta.function_call
            && let Ok(Strict(function @ Value::Object(_))) = serde_json::from_str(call.get())
            && (self.has_function_call || !is_nameless(&function))
        {
            self.has_function_call = true;
            self.call(json!({ "function": function }));
        }
    }

    /// Pieces of one detail share its index and its type, and their texts are joined; its other fields come once.
    fn add_details(&mut self, details: &RawValue) {
        let Ok(pieces) = serde_json::from_str::<Vec<Map<String, Value>>>(details.get()) else {
            return;
        };
        for mut piece in pieces {
            let is_same = |detail: &&mut Value| {
                piece.get("index").is_some()
                    && detail.get("index") == piece.get("index")
                    && detail.get("type") == piece.get("type")
            };
            let Some(Value::Object(detail)) = self.details.iter_mut().find(is_same) else {
                self.details.push(Value::Object(piece));
                continue;
            };
            for key in ["text", "summary", "data"] {
                if let (Some(Value::String(whole)), Some(Value::String(more))) =
                    (detail.get_mut(key), piece.get(key))
                {
                    whole.push_str(more);
                    piece.remove(key);
                }
            }
            let news = piece.into_iter().filter(|(_, value)| !value.is_null());
            detail.extend(news);
        }
    }

    fn words(&mut self, words: &RawValue, events: &mut Vec<ModelEvent>) {
        match words_of(words) {
            Some(words) => self.said(words, events),
            None => self.trouble.damage("words that cannot be read", events),
        }
    }

    fn said(&mut self, words: Cow<'_, str>, events: &mut Vec<ModelEvent>) {
        if words.is_empty() {
            return;
        }
        self.text.push_str(&words);
        if self.check_text() {
            let text = words.into_owned().into();
            events.push(ModelEvent::OutputText { text });
        }
    }

    fn check_text(&mut self) -> bool {
        self.trouble
            .check_text(self.text.len() + self.reasoning.len() + self.details_bytes)
    }

    fn call(&mut self, entry: Value) {
        let added = self.calls.add(entry, self.trouble.limits());
        self.check_calls(added);
    }

    fn check_calls(&mut self, added: Result<(), TooMuch>) {
        match added {
            Ok(()) => {}
            Err(TooMuch::Calls) => self
                .trouble
                .fail("the answer holds more calls than any model makes"),
            Err(TooMuch::Arguments) => self.trouble.fail("a call's arguments do not end"),
        }
    }

    fn finish(self) -> ModelAnswer {
        let ending = self.ending();
        let mut pieces = Vec::new();
        let mut incoming = Vec::new();
        let passed_on = !self.text.is_empty();
        if passed_on {
            pieces.push(AnswerPiece::Text(TextPiece::plain(self.text)));
        }
        if ending == Ending::Complete {
            for (call, call_of_core) in self.calls.finish(self.answer_number) {
                pieces.push(AnswerPiece::Call(call));
                incoming.push(call_of_core);
            }
        }
        let mut fields = Map::new();
        if let Some(extra) = self.extra {
            fields.insert(EXTRA_CONTENT.to_owned(), extra);
        }
        if !self.reasoning.is_empty() {
            fields.insert(REASONING_CONTENT.to_owned(), self.reasoning.into());
        }
        if !self.details.is_empty() {
            fields.insert(REASONING_DETAILS.to_owned(), self.details.into());
        }
        ModelAnswer {
            pieces,
            opaque: (!fields.is_empty()).then(|| Opaque::Fields(fields.into())),
            calls: incoming,
            usage: self.usage,
            ending,
            passed_on,
        }
    }

    /// Any reason to finish makes the calls ready: servers name it differently, and OpenAI itself says `stop` after a call that
    /// was forced.
    fn ending(&self) -> Ending {
        if let Some(failure) = self.trouble.failure() {
            return Ending::Failed(failure.clone());
        }
        match self.finish_reason.as_deref() {
            Some("length" | "max_tokens" | "MAX_TOKENS") if !self.calls.is_empty() => {
                Ending::CallCut
            }
            Some("length" | "max_tokens" | "MAX_TOKENS") => Ending::LengthReached,
            Some("content_filter") => Ending::Blocked {
                reason: "content_filter".to_owned(),
            },
            Some("error") => Ending::Failed(Failure::protocol(
                "the provider ended its answer with an error that it does not name",
                true,
            )),
            // The lost piece might have been one of a call.
            Some(_) if self.trouble.is_damaged() && !self.calls.is_empty() => Ending::Failed(
                Failure::protocol("a piece of the provider's answer cannot be read", true),
            ),
            Some(_) => Ending::Complete,
            None if self.is_done && self.calls.is_empty() && !self.text.is_empty() => {
                Ending::Complete
            }
            None if self.trouble.is_damaged() && !self.is_answering => {
                Ending::Failed(Failure::protocol(
                    "the provider's answer is no stream of the protocol: check the provider's address",
                    false,
                ))
            }
            None => Ending::Cut,
        }
    }
}

impl Delta<'_> {
    /// Whether the delta has no contents.
    fn is_empty(&self) -> bool {
        let fields = [
            self.content,
            self.refusal,
            self.reasoning_content,
            self.reasoning_details,
            self.tool_calls,
            self.extra_content,
        ];
        let says = |field: &RawValue| is_truthy(field) && field.get() != "[]";
        let calls = self.function_call.is_some_and(|call| {
            let call = serde_json::from_str::<Value>(call.get()).unwrap_or_default();
            let value = |key: &str| call.get(key).and_then(Value::as_str);
            let has = |key: &str| value(key).is_some_and(|text| !text.is_empty());
            has("name") || has("arguments")
        });
        !calls && !fields.into_iter().flatten().any(says)
    }
}

fn is_truthy(value: &RawValue) -> bool {
    !matches!(value.get(), "null" | "false" | "\"\"" | "{}")
}

/// Whether a call names no function: some servers put an empty call into every piece of their words.
fn is_nameless(function: &Value) -> bool {
    let name = function.get("name").and_then(Value::as_str);
    name.unwrap_or_default().is_empty()
}

fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    let text = value.get();
    match serde_json::from_str::<&str>(text) {
        Ok(text) => Some(Cow::Borrowed(text)),
        Err(_) => serde_json::from_str(text).ok().map(Cow::Owned),
    }
}

/// The words of a string, or of a list's parts of type `text`. `None` if the value has neither form.
fn words_of(value: &RawValue) -> Option<Cow<'_, str>> {
    if !value.get().starts_with('[') {
        return string(value);
    }
    let parts: Vec<Value> = serde_json::from_str(value.get()).ok()?;
    let texts = parts
        .iter()
        .filter(|part| part.get("type").is_none_or(|kind| kind == "text"))
        .filter_map(|part| part.get("text")?.as_str());
    Some(Cow::Owned(texts.collect()))
}

/// `None` if the value is no object, as in the chunks before the last.
fn usage_of(value: &RawValue) -> Option<Usage> {
    let usage: Map<String, Value> = serde_json::from_str(value.get()).ok()?;
    let count = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
    let detail = |details: &str, key: &str| {
        let details = usage.get(details);
        count(details.and_then(|details| details.get(key)))
    };
    let thoughts_tokens = detail("completion_tokens_details", "reasoning_tokens");
    // The cached tokens are a detail at OpenAI, and a field of their own at DeepSeek.
    let cached_tokens = detail("prompt_tokens_details", "cached_tokens")
        .max(count(usage.get("prompt_cache_hit_tokens")));
    let completion_tokens = count(usage.get("completion_tokens"));
    Some(Usage {
        prompt_tokens: count(usage.get("prompt_tokens")),
        response_tokens: completion_tokens.saturating_sub(thoughts_tokens),
        thoughts_tokens,
        tool_use_tokens: 0,
        cached_tokens,
        total_tokens: count(usage.get("total_tokens")),
        ..Usage::default()
    })
}
