//! One step of an answer while it comes, put together from its beginning and its pieces. Knows no stream and no limit.

use crate::arguments::{read_arguments, read_arguments_text};
use crate::log::{Arguments, Call, Opaque, TextPiece, UnreadItem, own_call_id};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use std::sync::Arc;
use windlass_session::model::IncomingCall;

/// A step, as far as it has come.
#[derive(Debug)]
pub(super) struct OpenStep {
    /// The step's number in the answer, which its pieces name.
    pub(super) index: Option<u64>,
    pub(super) content: StepContent,
}

#[derive(Debug)]
pub(super) enum StepContent {
    Words(String),
    Call(OpenCall),
    /// A step that goes back as it came: a thought, or a call or result of the service's own tools.
    Unread(UnreadStep),
    /// Input of ours that the service repeats. It says nothing new.
    Repeated,
}

/// A call of one of our tools. Its arguments come whole with its beginning, or in pieces behind an empty one.
#[derive(Debug)]
pub(super) struct OpenCall {
    pub(super) id: Option<Arc<str>>,
    pub(super) name: Option<Arc<str>>,
    pub(super) signature: Option<Arc<str>>,
    pub(super) whole: Option<Box<RawValue>>,
    pub(super) pieces: String,
}

impl OpenCall {
    /// The call for the log and for the core. A call without an id gets one made of `answer` and `number`.
    pub(super) fn finish(self, answer: u32, number: usize) -> (Call, IncomingCall) {
        let is_in_pieces = !self.pieces.trim().is_empty();
        let whole = self.whole.as_deref().map_or("{}", RawValue::get);
        let (text, arguments) = match is_in_pieces {
            true => (self.pieces.as_str(), read_arguments_text(&self.pieces)),
            false => (whole, read_arguments(whole)),
        };
        let id = self.id.unwrap_or_else(|| own_call_id(answer, number));
        let read = arguments.as_ref().ok();
        let call = Call {
            id: Some(id.clone()),
            name: self.name.clone().unwrap_or_default(),
            arguments: read.map(|read| Arguments::from_parsed(text, read)),
            opaque: self
                .signature
                .map(|signature| Opaque::ThoughtSignature(signature.into())),
        };
        let incoming = IncomingCall {
            id: Some(id),
            name: self.name,
            arguments,
        };
        (call, incoming)
    }
}

const TYPE: &str = "type";
const SIGNATURE: &str = "signature";
const SUMMARY: &str = "summary";
pub(super) const THOUGHT: &str = "thought";

/// A step that is kept for the service alone.
#[derive(Debug)]
pub(super) struct UnreadStep(Map<String, Value>);

impl UnreadStep {
    pub(super) fn new(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    pub(super) fn thought() -> Self {
        Self(Map::from_iter([(TYPE.to_owned(), Value::from(THOUGHT))]))
    }

    /// Adds a piece. Returns false if the piece does not fit this kind of step.
    pub(super) fn take(&mut self, mut piece: Map<String, Value>) -> bool {
        let kind = piece.remove(TYPE);
        let kind = kind.as_ref().and_then(Value::as_str).unwrap_or_default();
        let is_thought = self.is_thought();
        match kind {
            "thought_signature" if is_thought => self.merge(piece),
            "thought_summary" if is_thought => {
                if let Some(content) = piece.remove("content") {
                    self.summarize(content);
                }
            }
            kind if self.0.get(TYPE).is_some_and(|own| own == kind) => self.merge(piece),
            _ => return false,
        }
        true
    }

    fn is_thought(&self) -> bool {
        self.0.get(TYPE).is_some_and(|kind| kind == THOUGHT)
    }

    /// Replaces fields by the piece's fields. An empty signature replaces nothing.
    fn merge(&mut self, piece: Map<String, Value>) {
        for (key, value) in piece {
            if key != SIGNATURE || value.as_str().is_some_and(|text| !text.is_empty()) {
                self.0.insert(key, value);
            }
        }
    }

    /// Joins text to the text before it, as in an answer that comes whole.
    fn summarize(&mut self, content: Value) {
        let summary = self
            .0
            .entry(SUMMARY)
            .or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(summary) = summary else {
            return;
        };
        let is_text = |value: &Value| value[TYPE] == "text" && value["text"].is_string();
        match summary.last_mut() {
            Some(last) if is_text(last) && is_text(&content) => {
                if let (Value::String(before), Some(more)) =
                    (&mut last["text"], content["text"].as_str())
                {
                    before.push_str(more);
                }
            }
            Some(_) | None => summary.push(content),
        }
    }

    /// The step for the log. A thought without a signature is of no use, and is dropped.
    pub(super) fn finish(self) -> Option<TextPiece> {
        let signature = self.0.get(SIGNATURE).and_then(Value::as_str);
        if self.is_thought() && signature.unwrap_or_default().is_empty() {
            return None;
        }
        let step = to_raw_value(&self.0).expect("JSON values always serialize");
        Some(TextPiece {
            text: String::new().into(),
            is_thought: true,
            opaque: Some(Opaque::Item(UnreadItem::new(&step))),
        })
    }
}
