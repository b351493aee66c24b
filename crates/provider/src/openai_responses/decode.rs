//! From the bytes of an answer to events and an [`ModelAnswer`]. Knows the meaning of each event and the little state between
//! them; knows no retry and no clock.

use crate::answer::{AnswerLimits, AnswerPiece, Ending, ModelAnswer, Trouble};
use crate::arguments::{read_arguments, read_arguments_text};
use crate::failure::{Failure, RetryRule, printable};
use crate::log::{Arguments, Call, Opaque, TextPiece, UnreadItem, own_call_id};
use crate::message::{Count, List, Text, message};
use crate::provider_tools::{SOURCES_MAX, external_content, source};
use crate::sse::{self, Item as SseItem, Splitter};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use windlass_session::client::Citation;
use windlass_session::model::{ArgumentsProblem, IncomingCall, ModelEvent, Usage};

/// Messages and calls of one answer.
const ITEMS_MAX: usize = 1_024;

/// The field with a message's part in the answer. Models want it back.
pub(super) const PHASE: &str = "phase";

/// Reads one answer. Make a new one for each request.
#[derive(Debug)]
pub struct Decoder {
    splitter: Splitter,
    state: StreamState,
}

#[derive(Debug)]
struct StreamState {
    trouble: Trouble,
    answer_number: u32,
    items: Vec<Placed>,
    calls: usize,
    /// Whether a call has begun.
    has_call: bool,
    text_bytes: usize,
    passed_on: bool,
    /// Whether an item has come in an event of its own, so that the list at the end brings nothing new.
    has_items: bool,
    usage: Option<Usage>,
    ending: Option<Ending>,
    /// Whether an event of the protocol has come.
    is_answering: bool,
}

/// One item of the answer, whole or begun.
#[derive(Debug)]
struct Placed {
    place: Place,
    /// Whether this is a message whose end has not come.
    is_open: bool,
    piece: AnswerPiece,
    call: Option<IncomingCall>,
}

/// The item that an event is about, as far as the event says it. Gateways send events of several items in turn, and end the items
/// in another order than they began.
#[derive(Debug, Default)]
struct Place {
    index: Option<u64>,
    id: String,
}

impl Place {
    fn new(index: Option<Count>, id: &Option<Text<'_>>) -> Self {
        Self {
            index: index.map(|Count(index)| index),
            id: id.as_ref().map_or("", |id| &*id.0).to_owned(),
        }
    }

    /// `None` if the two cannot be compared.
    fn is_same(&self, other: &Self) -> Option<bool> {
        match (self.index, other.index) {
            (Some(one), Some(other)) => Some(one == other),
            _ if self.id.is_empty() || other.id.is_empty() => None,
            _ => Some(self.id == other.id),
        }
    }
}

impl Decoder {
    /// `answer_number` is [`ConversationLog::next_answer`]. The decoder makes ids from it for calls that came without.
    ///
    /// [`ConversationLog::next_answer`]: crate::log::ConversationLog::next_answer
    pub fn new(answer_number: u32, limits: AnswerLimits) -> Self {
        Self {
            splitter: Splitter::new(sse::Limits::of_line(limits.line_bytes_max)),
            state: StreamState::new(answer_number, limits),
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
        self.state.ending.is_some() || self.state.trouble.has_failed()
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
    answer_number: u32,
    limits: AnswerLimits,
    events: &mut Vec<ModelEvent>,
) -> ModelAnswer {
    let mut state = StreamState::new(answer_number, limits);
    if state.trouble.count(body.len()) {
        state.event(body, events);
    }
    state.finish()
}

message! {
    /// An event of a stream; or a whole answer, which has no type.
    Event<'a> {
        kind: Text<'a> = "type",
        object: Text<'a> = "object",
        delta: Text<'a> = "delta",
        output_index: Count = "output_index",
        item_id: Text<'a> = "item_id",
        item: &'a RawValue = "item",
        response: &'a RawValue = "response",
        error: &'a RawValue = "error",
    }
    skips others
}

message! {
    Response<'a> {
        status: Text<'a> = "status",
        output: &'a RawValue = "output",
        usage: UsageOf<'a> = "usage",
        incomplete_details: Details<'a> = "incomplete_details",
        error: &'a RawValue = "error",
    }
    skips others
}

message! {
    Details<'a> {
        reason: Text<'a> = "reason",
    }
    skips others
}

message! {
    UsageOf<'a> {
        input_tokens: Count = "input_tokens",
        output_tokens: Count = "output_tokens",
        total_tokens: Count = "total_tokens",
        input_details: InputDetails<'a> = "input_tokens_details",
        output_details: OutputDetails<'a> = "output_tokens_details",
    }
    skips others
}

message! {
    InputDetails<'a> {
        cached_tokens: Count = "cached_tokens",
    }
    skips others
}

message! {
    OutputDetails<'a> {
        reasoning_tokens: Count = "reasoning_tokens",
    }
    skips others
}

message! {
    Item<'a> {
        kind: Text<'a> = "type",
        id: Text<'a> = "id",
        status: Text<'a> = "status",
        call_id: Text<'a> = "call_id",
        name: Text<'a> = "name",
        arguments: &'a RawValue = "arguments",
        content: List<Part<'a>> = "content",
        phase: Text<'a> = "phase",
    }
    skips others
}

message! {
    Part<'a> {
        text: Text<'a> = "text",
        refusal: Text<'a> = "refusal",
        annotations: List<Annotation<'a>> = "annotations",
    }
    skips others
}

message! {
    Annotation<'a> {
        kind: Text<'a> = "type",
        url: Text<'a> = "url",
        title: Text<'a> = "title",
    }
    skips others
}

impl StreamState {
    fn new(answer_number: u32, limits: AnswerLimits) -> Self {
        Self {
            trouble: Trouble::new(limits),
            answer_number,
            items: Vec::new(),
            calls: 0,
            has_call: false,
            text_bytes: 0,
            passed_on: false,
            has_items: false,
            usage: None,
            ending: None,
            is_answering: false,
        }
    }

    fn item(&mut self, item: SseItem<'_>, events: &mut Vec<ModelEvent>) {
        if self.trouble.has_failed() || self.ending.is_some() {
            return;
        }
        match item {
            SseItem::Event { name: _, data } => {
                // Some gateways end every stream with the mark of another protocol.
                if !matches!(data.trim_ascii(), b"" | b"[DONE]") {
                    self.event(data, events);
                }
            }
            SseItem::Bare(text) => {
                if matches!(text.trim_ascii_start().first(), Some(b'{' | b'[')) {
                    self.event(text, events);
                } else {
                    self.trouble.damage("a line that is no event", events);
                }
            }
        }
    }

    fn event(&mut self, data: &[u8], events: &mut Vec<ModelEvent>) {
        let Ok(text) = std::str::from_utf8(data) else {
            return self.trouble.damage("bytes that are no UTF-8 text", events);
        };
        let event = match crate::message::read::<Event<'_>>(text) {
            Ok(Some(event)) => event,
            Ok(None) | Err(_) => return self.other(text, events),
        };
        let kind = event.kind.as_ref().map_or("", |kind| &*kind.0);
        if kind == "error" || kind.is_empty() && event.error.is_some_and(is_some) {
            return self.other(text, events);
        }
        if kind.is_empty() && event.object.is_some_and(|object| object.0 == "response") {
            return self.response(text, events);
        }
        if kind.is_empty() {
            return self.other(text, events);
        }
        self.is_answering = true;
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                let delta = event.delta.map(|delta| delta.0).unwrap_or_default();
                let place = Place::new(event.output_index, &event.item_id);
                self.said(&delta, place, events);
            }
            "response.output_item.added" => self.item_begins(event.item),
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.has_items = true;
                    self.item_done(item, event.output_index, events);
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => match event.response {
                Some(response) => self.response(response.get(), events),
                None => self.trouble.damage("an end that cannot be read", events),
            },
            kind if is_known(kind) => {}
            kind => events.push(ModelEvent::Unknown {
                fields: vec![format!("type={}", printable(kind))],
            }),
        }
    }

    /// Reads a text that is no event. It may still be an error: in the flat form of this protocol, or in that of a refusal.
    fn other(&mut self, text: &str, events: &mut Vec<ModelEvent>) {
        let value = serde_json::from_str::<Value>(text).unwrap_or_default();
        let is_flat = value.get("error").is_none_or(Value::is_null)
            && value.get("type").is_some_and(|kind| kind == "error");
        let failure = match is_flat {
            true => {
                let error = json!({"code": value["code"], "message": value["message"], "param": value["param"]});
                Failure::of_error(&json!({ "error": error }), RetryRule::Openai)
            }
            false => Failure::of_error(&value, RetryRule::Openai),
        };
        match failure {
            Some(failure) => self.trouble.fail_with(failure),
            None => self
                .trouble
                .damage("something that is no message of the protocol", events),
        }
    }

    fn said(&mut self, words: &str, place: Place, events: &mut Vec<ModelEvent>) {
        if words.is_empty() {
            return;
        }
        self.text_bytes += words.len();
        if !self.trouble.check_text(self.text_bytes) {
            return;
        }
        let open = self.open_message(&place);
        if open.is_none() && self.items.len() >= ITEMS_MAX {
            return self
                .trouble
                .fail("the answer has more items than any model makes");
        }
        match open.map(|at| &mut self.items[at].piece) {
            Some(AnswerPiece::Text(message)) => message.text.0.push_str(words),
            Some(AnswerPiece::Call(_)) | None => self.items.push(Placed {
                place,
                is_open: true,
                piece: AnswerPiece::Text(TextPiece::plain(words.to_owned())),
                call: None,
            }),
        }
        self.passed_on = true;
        let text = words.to_owned().into();
        events.push(ModelEvent::OutputText { text });
    }

    /// The open message that an event is about: the message with its place, else the newest one that cannot be compared with it.
    fn open_message(&self, place: &Place) -> Option<usize> {
        let find = |same: Option<bool>| {
            let fits = |item: &Placed| item.is_open && item.place.is_same(place) == same;
            self.items.iter().rposition(fits)
        };
        find(Some(true)).or_else(|| find(None))
    }

    /// A message begins: later events without a place belong to it, so older open messages without one close.
    fn item_begins(&mut self, raw: Option<&RawValue>) {
        let item = raw.and_then(|raw| crate::message::read::<Item<'_>>(raw.get()).ok().flatten());
        let kind = item.as_ref().and_then(|item| item.kind.as_ref());
        self.has_call |= kind.is_some_and(|kind| kind.0 == "function_call");
        if item.is_none_or(|item| item.kind.is_none_or(|kind| kind.0 == "message")) {
            for item in &mut self.items {
                item.is_open &= item.place.index.is_some() || !item.place.id.is_empty();
            }
        }
    }

    /// Takes a whole item.
    fn item_done(&mut self, raw: &RawValue, index: Option<Count>, events: &mut Vec<ModelEvent>) {
        let Ok(Some(item)) = crate::message::read::<Item<'_>>(raw.get()) else {
            return self.trouble.damage("an item that cannot be read", events);
        };
        let place = Place::new(index, &item.id);
        match item.kind.as_ref().map_or("", |kind| &*kind.0) {
            "message" => self.message_done(&item, place, events),
            "function_call" => self.call(&item, place),
            // Reasoning goes back unread, in its place.
            "reasoning" => self.unread(raw, place),
            // So do the calls and results of the provider's own tools, which the model has read.
            _ => {
                events.push(external_content(Vec::new()));
                self.unread(raw, place);
            }
        }
    }

    fn message_done(&mut self, item: &Item<'_>, place: Place, events: &mut Vec<ModelEvent>) {
        let mut said = self.open_message(&place);
        if said.is_none() {
            // No piece of the message came before.
            let parts = item.content.iter().flat_map(|content| &content.items);
            let words = parts.flat_map(|part| [&part.text, &part.refusal]);
            let words: String = words.flatten().map(|words| &*words.0).collect();
            let before = self.items.len();
            self.said(&words, place, events);
            said = (self.items.len() > before).then_some(before);
        }
        let said = said.map(|at| &mut self.items[at]);
        let parts = item.content.iter().flat_map(|content| &content.items);
        let annotations = parts.filter_map(|part| part.annotations.as_ref());
        let sources: Vec<Citation> = annotations
            .flat_map(|annotations| &annotations.items)
            .filter_map(source_of)
            .take(SOURCES_MAX)
            .collect();
        if !sources.is_empty() {
            events.push(external_content(sources));
        }
        let phase = item.phase.as_ref().filter(|phase| !phase.0.is_empty());
        if let Some(said) = said {
            said.is_open = false;
            if let (Some(phase), AnswerPiece::Text(piece)) = (phase, &mut said.piece) {
                let fields = Map::from_iter([(PHASE.to_owned(), Value::from(&*phase.0))]);
                piece.opaque = Some(Opaque::Fields(fields.into()));
            }
        }
    }

    fn unread(&mut self, raw: &RawValue, place: Place) {
        self.text_bytes += raw.get().len();
        if self.trouble.check_text(self.text_bytes) {
            self.items.push(Placed {
                place,
                is_open: false,
                piece: AnswerPiece::Text(TextPiece {
                    text: String::new().into(),
                    is_thought: true,
                    opaque: Some(Opaque::Item(UnreadItem::new(raw))),
                }),
                call: None,
            });
        }
    }

    /// Takes a call. A call that was cut off is dropped, and its answer is not complete.
    fn call(&mut self, item: &Item<'_>, place: Place) {
        self.has_call = true;
        let limits = *self.trouble.limits();
        let text_of = |text: &Option<Text<'_>>| {
            let text = text.as_ref().map(|text| &*text.0);
            text.filter(|text| !text.is_empty()).map(Arc::<str>::from)
        };
        let status = item.status.as_ref().map_or("", |status| &*status.0);
        if !matches!(status, "" | "completed") {
            return;
        }
        if self.calls >= limits.calls_max {
            return self
                .trouble
                .fail("the answer holds more calls than any model makes");
        }
        let raw = item.arguments.map_or("\"\"", RawValue::get);
        if raw.len() > limits.arguments_bytes_max {
            return self.trouble.fail("a call's arguments do not end");
        }
        let text: String = serde_json::from_str(raw).unwrap_or_default();
        let arguments = match raw.as_bytes().first() {
            Some(b'"') => read_arguments_text(&text),
            Some(b'{') => read_arguments(raw),
            _ => Err(ArgumentsProblem(
                "the arguments must be the text of a JSON object".to_owned(),
            )),
        };
        let id = text_of(&item.call_id).or_else(|| text_of(&item.id));
        let id = id.unwrap_or_else(|| own_call_id(self.answer_number, self.calls));
        let name = text_of(&item.name);
        self.calls += 1;
        self.items.push(Placed {
            place,
            is_open: false,
            piece: AnswerPiece::Call(Call {
                id: Some(id.clone()),
                name: name.clone().unwrap_or_default(),
                arguments: arguments.as_ref().ok().map(|map| {
                    let written = if text.is_empty() { raw } else { &text };
                    Arguments::from_parsed(written, map)
                }),
                opaque: None,
            }),
            call: Some(IncomingCall {
                id: Some(id),
                name,
                arguments,
            }),
        });
    }

    /// The end of the answer, or the whole answer at once.
    fn response(&mut self, text: &str, events: &mut Vec<ModelEvent>) {
        let Ok(Some(response)) = crate::message::read::<Response<'_>>(text) else {
            return self.trouble.damage("an end that cannot be read", events);
        };
        self.is_answering = true;
        if !self.has_items {
            let output = response.output.map_or("[]", RawValue::get);
            let output: Vec<&RawValue> = serde_json::from_str(output).unwrap_or_default();
            for (index, item) in (0..).zip(output) {
                self.item_done(item, Some(Count(index)), events);
            }
        }
        self.usage = response.usage.as_ref().map(usage_of).or(self.usage);
        let reason = response
            .incomplete_details
            .and_then(|details| details.reason);
        let reason = reason.map(|reason| reason.0).unwrap_or_default();
        let status = response.status.map(|status| status.0).unwrap_or_default();
        self.ending = Some(match (&*status, &*reason) {
            ("failed", _) => {
                let error = response.error.map_or("null", RawValue::get);
                let error: Value = serde_json::from_str(error).unwrap_or_default();
                let failure = Failure::of_error(&json!({ "error": error }), RetryRule::Openai);
                Ending::Failed(failure.unwrap_or_else(|| {
                    Failure::protocol(
                        "the provider ended its answer with an error that it does not name",
                        true,
                    )
                }))
            }
            ("incomplete", "max_output_tokens") if self.has_call => Ending::CallCut,
            ("incomplete", "max_output_tokens") => Ending::LengthReached,
            ("incomplete", "content_filter") => Ending::Blocked {
                reason: "content_filter".to_owned(),
            },
            ("" | "completed", _) => Ending::Complete,
            (status, "") => Ending::Stopped {
                reason: printable(status),
            },
            (_, reason) => Ending::Stopped {
                reason: printable(reason),
            },
        });
    }

    fn finish(mut self) -> ModelAnswer {
        let ending = self.ending();
        if ending != Ending::Complete {
            // The service refuses a thought or a call that comes back without the item that follows it.
            self.items.retain(|item| match &item.piece {
                AnswerPiece::Text(text) => !text.is_thought,
                AnswerPiece::Call(_) => false,
            });
        }
        // Items go back in the order of the answer. They may have ended in another.
        if self.items.iter().all(|item| item.place.index.is_some()) {
            self.items.sort_by_key(|item| item.place.index);
        }
        let (mut pieces, mut calls) = (Vec::with_capacity(self.items.len()), Vec::new());
        for item in self.items {
            pieces.push(item.piece);
            calls.extend(item.call);
        }
        ModelAnswer {
            pieces,
            opaque: None,
            calls,
            usage: self.usage,
            ending,
            passed_on: self.passed_on,
        }
    }

    fn ending(&self) -> Ending {
        if let Some(failure) = self.trouble.failure() {
            return Ending::Failed(failure.clone());
        }
        match &self.ending {
            // The lost item might have been a call.
            Some(Ending::Complete) if self.trouble.is_damaged() && self.calls > 0 => {
                Ending::Failed(Failure::protocol(
                    "a piece of the provider's answer cannot be read",
                    true,
                ))
            }
            Some(ending) => ending.clone(),
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

fn source_of(annotation: &Annotation<'_>) -> Option<Citation> {
    let is_page = annotation.kind.as_ref()?.0 == "url_citation";
    let title = annotation.title.as_ref().map(|title| &*title.0);
    source(&annotation.url.as_ref()?.0, title).filter(|_| is_page)
}

fn is_some(value: &RawValue) -> bool {
    !matches!(value.get(), "null" | "false" | "\"\"" | "{}")
}

/// Whether an event is a beginning, an end or progress, whose content comes with the items.
fn is_known(kind: &str) -> bool {
    const PREFIXES: [&str; 10] = [
        "response.output_text.",
        "response.refusal.",
        "response.content_part.",
        "response.function_call_arguments.",
        "response.reasoning",
        "response.web_search_call.",
        "response.code_interpreter_call",
        "response.file_search_call.",
        "response.mcp_",
        "response.custom_tool_call",
    ];
    matches!(
        kind,
        "response.created" | "response.in_progress" | "response.queued" | "keepalive" | "ping"
    ) || PREFIXES.iter().any(|prefix| kind.starts_with(prefix))
}

fn usage_of(usage: &UsageOf<'_>) -> Usage {
    let count = |field: Option<Count>| field.map_or(0, |Count(count)| count);
    let input = usage.input_details.as_ref();
    let output = usage.output_details.as_ref();
    let thoughts_tokens = output.map_or(0, |details| count(details.reasoning_tokens));
    Usage {
        prompt_tokens: count(usage.input_tokens),
        response_tokens: count(usage.output_tokens).saturating_sub(thoughts_tokens),
        thoughts_tokens,
        tool_use_tokens: 0,
        cached_tokens: input.map_or(0, |details| count(details.cached_tokens)),
        total_tokens: count(usage.total_tokens),
        ..Usage::default()
    }
}
