//! Common parts of the requests to all text models. Knows no field of any.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// The model's use of its tools in one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolUse {
    /// Calls at the model's own choice.
    Free,
    /// At least one call.
    Required,
    /// No call: the model is to answer from the conversation.
    Forbidden,
}

/// The delivery of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Stream,
    Whole,
}

/// A system instruction with its JSON form, which is long and the same in request after request.
#[derive(Clone, Debug)]
pub struct WrittenInstruction {
    text: String,
    json: Box<RawValue>,
}

impl WrittenInstruction {
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let json = serde_json::value::to_raw_value(&text).expect("a string always serializes");
        Self { text, json }
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The instruction before everything else in a request; an empty one is left out.
#[derive(Clone, Copy, Debug)]
pub struct Instruction<'a> {
    text: &'a str,
    json: Option<&'a RawValue>,
}

impl Instruction<'_> {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl<'a> From<&'a str> for Instruction<'a> {
    fn from(text: &'a str) -> Self {
        Self { text, json: None }
    }
}

impl<'a> From<&'a WrittenInstruction> for Instruction<'a> {
    fn from(written: &'a WrittenInstruction) -> Self {
        Self {
            text: &written.text,
            json: Some(&written.json),
        }
    }
}

impl Serialize for Instruction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.json {
            Some(json) => json.serialize(serializer),
            None => self.text.serialize(serializer),
        }
    }
}
