//! From the bytes of an answer to events and an [`ModelAnswer`]. Knows the meaning of each event and the little state between
//! them; knows no retry and no clock.

use super::blocked;
use super::step::{OpenCall, OpenStep, StepContent, THOUGHT, UnreadStep};
use crate::answer::{AnswerLimits, AnswerPiece, Ending, ModelAnswer, Trouble};
use crate::failure::{Failure, RetryRule, printable};
use crate::log::TextPiece;
use crate::message::{Count, List, Text, message};
use crate::provider_tools::{SOURCES_MAX, external_content, source};
use crate::sse::{self, Item as SseItem, Splitter};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use windlass_session::client::Citation;
use windlass_session::model::{ModelEvent, Usage};

/// More than any model takes for one answer.
const STEPS_MAX: usize = 1_024;

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
    steps: Vec<OpenStep>,
    calls: usize,
    text_bytes: usize,
    passed_on: bool,
    usage: Option<Usage>,
    /// An error on a step, which the end of a failed answer may not repeat.
    step_error: Option<Value>,
    ending: Option<Ending>,
    /// Whether an event of the protocol has come.
    is_answering: bool,
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
    /// An event of a stream; or a whole interaction, which has a status and no type.
    Event<'a> {
        kind: Text<'a> = "event_type",
        index: Count = "index",
        step: &'a RawValue = "step",
        delta: &'a RawValue = "delta",
        interaction: &'a RawValue = "interaction",
        status: Text<'a> = "status",
        error: &'a RawValue = "error",
    }
    skips others
}

message! {
    Interaction<'a> {
        status: Text<'a> = "status",
        steps: &'a RawValue = "steps",
        usage: UsageOf<'a> = "usage",
        error: &'a RawValue = "error",
        errors: &'a RawValue = "errors",
    }
    skips others
}

message! {
    UsageOf<'a> {
        total_input_tokens: Count = "total_input_tokens",
        total_output_tokens: Count = "total_output_tokens",
        total_thought_tokens: Count = "total_thought_tokens",
        total_tool_use_tokens: Count = "total_tool_use_tokens",
        total_cached_tokens: Count = "total_cached_tokens",
        total_tokens: Count = "total_tokens",
    }
    skips others
}

message! {
    StepFields<'a> {
        kind: Text<'a> = "type",
        id: Text<'a> = "id",
        name: Text<'a> = "name",
        signature: Text<'a> = "signature",
        arguments: &'a RawValue = "arguments",
        content: List<Part<'a>> = "content",
        error: &'a RawValue = "error",
    }
    skips others
}

message! {
    /// A part of the model's answer, inside a step or alone.
    Part<'a> {
        kind: Text<'a> = "type",
        text: Text<'a> = "text",
        arguments: Text<'a> = "arguments",
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
            steps: Vec::new(),
            calls: 0,
            text_bytes: 0,
            passed_on: false,
            usage: None,
            step_error: None,
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
                // A stream ends with an event `done`, whose data is no JSON.
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
        match kind {
            "" if event.status.is_some() => return self.interaction(text, events),
            "" | "error" => return self.other(text, events),
            _ => {}
        }
        self.is_answering = true;
        let index = event.index.map(|Count(index)| index);
        match kind {
            "step.start" => match event.step {
                Some(step) => self.begin(index, step, events),
                None => self.trouble.damage("a step that cannot be read", events),
            },
            "step.delta" => match event.delta {
                Some(delta) => self.go_on(index, delta, events),
                None => self
                    .trouble
                    .damage("a piece of a step that cannot be read", events),
            },
            "interaction.completed" => match event.interaction {
                Some(interaction) => self.interaction(interaction.get(), events),
                None => self.trouble.damage("an end that cannot be read", events),
            },
            "step.stop" | "interaction.created" | "interaction.status_update" => {}
            kind => self.unknown(&format!("event_type={}", printable(kind)), events),
        }
    }

    /// Reads a text that is no event. It may still be an error: an event of its own, or a refusal.
    fn other(&mut self, text: &str, events: &mut Vec<ModelEvent>) {
        let value = serde_json::from_str::<Value>(text).unwrap_or_default();
        match Failure::of_error(&value, RetryRule::Gemini) {
            Some(failure) => match blocked(&failure) {
                Some(ending) => self.ending = Some(ending),
                None => self.trouble.fail_with(failure),
            },
            None => self
                .trouble
                .damage("something that is no message of the protocol", events),
        }
    }

    fn unknown(&self, field: &str, events: &mut Vec<ModelEvent>) {
        events.push(ModelEvent::Unknown {
            fields: vec![field.to_owned()],
        });
    }

    /// Counts bytes that are kept of an answer. Returns false if they are too many.
    fn count(&mut self, bytes: usize) -> bool {
        self.text_bytes += bytes;
        self.trouble.check_text(self.text_bytes)
    }

    fn open(&mut self, index: Option<u64>, content: StepContent) -> Option<usize> {
        if self.steps.len() == STEPS_MAX {
            self.trouble
                .fail("the answer has more steps than any model takes");
            return None;
        }
        self.steps.push(OpenStep { index, content });
        Some(self.steps.len() - 1)
    }

    fn begin(&mut self, index: Option<u64>, raw: &RawValue, events: &mut Vec<ModelEvent>) {
        let Ok(Some(step)) = crate::message::read::<StepFields<'_>>(raw.get()) else {
            return self.trouble.damage("a step that cannot be read", events);
        };
        let kind = step.kind.as_ref().map_or("", |kind| &*kind.0);
        match kind {
            "model_output" => {
                if let Some(error) = step.error {
                    self.step_error = serde_json::from_str(error.get()).ok();
                }
                let Some(at) = self.open(index, StepContent::Words(String::new())) else {
                    return;
                };
                for part in step.content.into_iter().flat_map(|parts| parts.items) {
                    self.part(at, &part, events);
                }
            }
            "function_call" => self.begin_call(index, &step),
            "user_input" | "function_result" => {
                self.open(index, StepContent::Repeated);
            }
            "" => self.trouble.damage("a step without a type", events),
            kind => {
                if kind != THOUGHT {
                    // A tool of the service itself ran, and the model has read its result.
                    events.push(external_content(Vec::new()));
                }
                let Ok(fields) = serde_json::from_str::<Map<String, Value>>(raw.get()) else {
                    return self.trouble.damage("a step that cannot be read", events);
                };
                if self.count(raw.get().len()) {
                    self.open(index, StepContent::Unread(UnreadStep::new(fields)));
                }
            }
        }
    }

    fn begin_call(&mut self, index: Option<u64>, step: &StepFields<'_>) {
        let limits = *self.trouble.limits();
        if self.calls >= limits.calls_max {
            return self
                .trouble
                .fail("the answer holds more calls than any model makes");
        }
        let whole = step.arguments.map_or("", RawValue::get);
        if whole.len() > limits.arguments_bytes_max {
            return self.trouble.fail("a call's arguments do not end");
        }
        let text_of = |text: &Option<Text<'_>>| {
            let text = text.as_ref().map(|text| &*text.0);
            text.filter(|text| !text.is_empty()).map(Arc::<str>::from)
        };
        let call = OpenCall {
            id: text_of(&step.id),
            name: text_of(&step.name),
            signature: text_of(&step.signature),
            whole: step.arguments.map(ToOwned::to_owned),
            pieces: String::new(),
        };
        let kept = [&call.id, &call.name, &call.signature];
        let kept = kept.into_iter().flatten().map(|text| text.len()).sum();
        if self.count(kept) && self.open(index, StepContent::Call(call)).is_some() {
            self.calls += 1;
        }
    }

    /// A piece of a step. A piece without an index belongs to the newest step.
    fn go_on(&mut self, index: Option<u64>, raw: &RawValue, events: &mut Vec<ModelEvent>) {
        let Ok(Some(part)) = crate::message::read::<Part<'_>>(raw.get()) else {
            return self
                .trouble
                .damage("a piece of a step that cannot be read", events);
        };
        let kind = part.kind.as_ref().map_or("", |kind| &*kind.0);
        let found = self
            .steps
            .iter()
            .rposition(|step| index.is_none() || step.index == index);
        let at = match (found, kind) {
            (Some(at), _) => Some(at),
            // Words and signatures tell by themselves which kind of step they belong to.
            (None, "text") => self.open(index, StepContent::Words(String::new())),
            (None, "thought_signature") => {
                self.open(index, StepContent::Unread(UnreadStep::thought()))
            }
            (None, _) => {
                return self
                    .trouble
                    .damage("a piece of a step that did not begin", events);
            }
        };
        let Some(at) = at else {
            return;
        };
        let arguments_bytes_max = self.trouble.limits().arguments_bytes_max;
        let is_known = match &mut self.steps[at].content {
            StepContent::Words(_) => return self.part(at, &part, events),
            StepContent::Repeated => true,
            StepContent::Call(call) => {
                match &part.arguments {
                    Some(arguments) => call.pieces.push_str(&arguments.0),
                    // Without this piece the call would run with arguments that the model did not give.
                    None if kind == "arguments_delta" => {
                        return self
                            .trouble
                            .damage("a piece of arguments that is no text", events);
                    }
                    None => {}
                }
                if call.pieces.len() > arguments_bytes_max {
                    return self.trouble.fail("a call's arguments do not end");
                }
                kind == "arguments_delta"
            }
            StepContent::Unread(_) => {
                if !self.count(raw.get().len()) {
                    return;
                }
                let Ok(piece) = serde_json::from_str(raw.get()) else {
                    return self
                        .trouble
                        .damage("a piece of a step that cannot be read", events);
                };
                match &mut self.steps[at].content {
                    StepContent::Unread(step) => step.take(piece),
                    StepContent::Words(_) | StepContent::Call(_) | StepContent::Repeated => true,
                }
            }
        };
        if !is_known {
            self.unknown(&format!("delta.type={}", printable(kind)), events);
        }
    }

    /// A part of the model's answer: words, or the pages that they rest on.
    fn part(&mut self, at: usize, part: &Part<'_>, events: &mut Vec<ModelEvent>) {
        let annotations = part.annotations.iter().flat_map(|list| &list.items);
        let sources: Vec<Citation> = annotations
            .filter_map(source_of)
            .take(SOURCES_MAX)
            .collect();
        if !sources.is_empty() {
            events.push(external_content(sources));
        }
        match part.kind.as_ref().map_or("", |kind| &*kind.0) {
            "text" => {
                let words = part.text.as_ref().map_or("", |text| &*text.0);
                self.say(at, words, events);
            }
            "text_annotation_delta" => {}
            kind => self.unknown(&format!("content.type={}", printable(kind)), events),
        }
    }

    fn say(&mut self, at: usize, words: &str, events: &mut Vec<ModelEvent>) {
        if words.is_empty() || !self.count(words.len()) {
            return;
        }
        if let StepContent::Words(said) = &mut self.steps[at].content {
            said.push_str(words);
        }
        self.passed_on = true;
        let text = words.to_owned().into();
        events.push(ModelEvent::OutputText { text });
    }

    /// The end of the answer, or the whole answer at once.
    fn interaction(&mut self, text: &str, events: &mut Vec<ModelEvent>) {
        let Ok(Some(interaction)) = crate::message::read::<Interaction<'_>>(text) else {
            return self.trouble.damage("an end that cannot be read", events);
        };
        self.is_answering = true;
        if self.steps.is_empty() {
            let steps = interaction.steps.map_or("[]", RawValue::get);
            let steps: Vec<&RawValue> = serde_json::from_str(steps).unwrap_or_default();
            for (index, step) in (0..).zip(steps) {
                self.begin(Some(index), step, events);
            }
        }
        self.usage = interaction.usage.as_ref().map(usage_of).or(self.usage);
        let status = interaction.status.as_ref().map_or("", |status| &*status.0);
        self.ending = Some(match status {
            // A model that waits for results has been seen to end with either status.
            "" | "completed" | "requires_action" => Ending::Complete,
            // The limit of tokens, or the limit of one request, whose answer would have to be continued.
            "incomplete" | "requires_continuation" if self.calls > 0 => Ending::CallCut,
            "incomplete" | "requires_continuation" => Ending::LengthReached,
            "failed" => self.failed(&interaction),
            status => Ending::Stopped {
                reason: printable(status),
            },
        });
    }

    fn failed(&mut self, interaction: &Interaction<'_>) -> Ending {
        let read = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
        let first = |errors: Value| errors.get(0).cloned();
        let error = interaction.errors.and_then(read).and_then(first);
        let error = error
            .or_else(|| interaction.error.and_then(read))
            .or_else(|| self.step_error.take());
        let failure = error
            .and_then(|error| Failure::of_error(&json!({ "error": error }), RetryRule::Gemini));
        let failure = failure.unwrap_or_else(|| {
            Failure::protocol(
                "the provider ended its answer with an error that it does not name",
                true,
            )
        });
        blocked(&failure).unwrap_or(Ending::Failed(failure))
    }

    fn finish(self) -> ModelAnswer {
        let ending = self.ending();
        let (mut pieces, mut calls) = (Vec::with_capacity(self.steps.len()), Vec::new());
        for step in self.steps {
            match step.content {
                StepContent::Words(words) if !words.is_empty() => {
                    pieces.push(AnswerPiece::Text(TextPiece::plain(words)));
                }
                StepContent::Words(_) | StepContent::Repeated => {}
                // A call or unread step is dropped if the answer that it belongs to is not complete.
                StepContent::Call(_) | StepContent::Unread(_) if ending != Ending::Complete => {}
                StepContent::Unread(unread) => {
                    pieces.extend(unread.finish().map(AnswerPiece::Text));
                }
                StepContent::Call(open) => {
                    let (call, incoming) = open.finish(self.answer_number, calls.len());
                    pieces.push(AnswerPiece::Call(call));
                    calls.push(incoming);
                }
            }
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
            // The lost piece might have been a call, or a piece of one.
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

fn usage_of(usage: &UsageOf<'_>) -> Usage {
    let count = |field: Option<Count>| field.map_or(0, |Count(count)| count);
    Usage {
        prompt_tokens: count(usage.total_input_tokens),
        response_tokens: count(usage.total_output_tokens),
        thoughts_tokens: count(usage.total_thought_tokens),
        tool_use_tokens: count(usage.total_tool_use_tokens),
        cached_tokens: count(usage.total_cached_tokens),
        total_tokens: count(usage.total_tokens),
        ..Usage::default()
    }
}
