//! How deep a tool's JSON may be nested. Code that reads, writes, compares or drops a value recurses level by level, and a thread has
//! room for some thousand levels only; so a deeper value is taken apart where it arrives. Knows no tool.

use memchr::memchr2_iter;
use serde_json::Value;

/// The most levels of lists and objects. serde_json reads 128, and a response adds some around its data.
pub const DEPTH_MAX: usize = 100;

/// Whether a value is nested deeper than [`DEPTH_MAX`].
pub fn is_too_deep(value: &Value) -> bool {
    is_deeper_than(value, DEPTH_MAX)
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        Value::Array(_) | Value::Object(_) if levels == 0 => true,
        Value::Array(items) => items.iter().any(|item| is_deeper_than(item, levels - 1)),
        Value::Object(map) => map.values().any(|item| is_deeper_than(item, levels - 1)),
    }
}

/// Whether JSON text is nested deeper than [`DEPTH_MAX`].
pub(crate) fn is_text_too_deep(json: &[u8]) -> bool {
    // A text with no more opening brackets than that is not too deep; this covers nearly all texts.
    if memchr2_iter(b'[', b'{', json).count() <= DEPTH_MAX {
        return false;
    }
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    json.iter().any(|byte| {
        match (in_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'[' | b'{') => depth += 1,
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > DEPTH_MAX
    })
}

/// Drops a value of any depth without recursion.
pub fn dismantle(value: Value) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            Value::Array(items) => left.extend(items),
            Value::Object(map) => left.extend(map.into_iter().map(|(_, item)| item)),
        }
    }
}
