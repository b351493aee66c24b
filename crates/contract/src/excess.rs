//! Limits the characters of a tool's answer besides its data: the error report, the pictures and the state changes that it asks for.
//! Short values are measured and not copied.

use crate::cap::{self, LeftOut};
use crate::content::ContentPart;
use crate::error::CallError;
use crate::intent::Intent;
use serde_json::Value;

/// Keeps the message first, then the suggestion, then as much of the details as fits. Returns words for the cuts; `None` where everything
/// was short enough.
pub fn shorten_error(error: &mut CallError, characters_max: usize) -> Option<String> {
    let mut left_out = LeftOut::default();
    let mut room = characters_max;
    shorten_text(&mut error.message, &mut room, &mut left_out);
    if let Some(suggestion) = &mut error.suggestion {
        shorten_text(suggestion, &mut room, &mut left_out);
        if suggestion.is_empty() {
            error.suggestion = None;
        }
    }
    let mut of_details = None;
    if let Some(details) = &error.details
        && let Some((short, words)) = cap::cap(details, room)
    {
        // If no detail fits, the words alone say that there were details.
        error.details = Some(short).filter(|short| !short.is_null());
        match error.details {
            Some(_) => of_details = Some(words),
            None => left_out.fields += 1,
        }
    }
    match (left_out.is_nothing(), of_details) {
        (true, of_details) => of_details,
        (false, None) => Some(left_out.words()),
        (false, Some(of_details)) => Some(format!(
            "{}, and of its details {of_details}",
            left_out.words()
        )),
    }
}

/// Drops whole parts from the end: half an address leads nowhere.
pub fn shorten_content(content: &mut Vec<ContentPart>, characters_max: usize) -> Option<String> {
    let mut room = characters_max;
    let fitting = content.iter().position(|part| {
        let ContentPart::Image { mime_type, url } = part;
        let left = cap::spend_text(mime_type, room).and_then(|left| cap::spend_text(url, left));
        left.map(|left| room = left).is_none()
    })?;
    let count = content.len() - fitting;
    content.truncate(fitting);
    content.shrink_to_fit();
    Some(format!("{count} pictures were left out for length"))
}

/// Cuts the ends of texts first. A whole state change is dropped only if its name does not fit. Both begin at the end.
pub fn shorten_intents(intents: &mut Vec<Intent>, characters_max: usize) -> Option<String> {
    let mut left_out = LeftOut::default();
    let mut room = characters_max;
    let fitting = intents
        .iter_mut()
        .position(|intent| !shorten_intent(intent, &mut room, &mut left_out));
    if let Some(fitting) = fitting {
        left_out.items += intents.len() - fitting;
        intents.truncate(fitting);
        intents.shrink_to_fit();
    }
    (!left_out.is_nothing()).then(|| format!("of state changes, {}", left_out.words()))
}

/// `false` where there is no room for it.
fn shorten_intent(intent: &mut Intent, room: &mut usize, left_out: &mut LeftOut) -> bool {
    /// The characters reserved around each of its texts, so that many short ones are not free.
    const AROUND: usize = 64;
    let Some(left) = room.checked_sub(AROUND) else {
        return false;
    };
    *room = left;
    match intent {
        Intent::EndVoiceSession {
            after: _,
            reason,
            closing_message,
            text_response,
        } => {
            for text in [reason, closing_message, text_response]
                .into_iter()
                .flatten()
            {
                shorten_text(text, room, left_out);
            }
        }
        Intent::SetPendingMessage { message } => shorten_text(message, room, left_out),
        Intent::SuppressAudio { .. } | Intent::SuppressTranscript { .. } => {}
        // Half a value has no meaning.
        Intent::SetState { key, value } => {
            if cap::is_long(value.expose(), *room) {
                return false;
            }
            let length = key.chars().count() + value.expose().to_string().chars().count();
            *room = room.saturating_sub(length);
        }
        Intent::Unknown(value) => return shorten_unknown(value, room, left_out),
    }
    true
}

/// Shortens an unknown intent. It is rejected and recorded under its name, so its name field is always kept.
fn shorten_unknown(value: &mut Value, room: &mut usize, left_out: &mut LeftOut) -> bool {
    if cap::is_long(value, *room) {
        let Some(mut name) = value.get("type").and_then(Value::as_str).map(str::to_owned) else {
            return false;
        };
        shorten_text(&mut name, room, left_out);
        left_out.fields += value.as_object().map_or(0, |fields| fields.len() - 1);
        *value = serde_json::json!({ "type": name });
        return true;
    }
    *room = cap::room_after(value, *room);
    true
}

/// Subtracts a text's written length from the room; cuts the text's end where the room is too small.
fn shorten_text(text: &mut String, room: &mut usize, left_out: &mut LeftOut) {
    match cap::spend_text(text, *room) {
        Some(left) => *room = left,
        None => {
            *text = cap::beginning(text, *room);
            left_out.texts += 1;
            *room = cap::spend_text(text, *room).unwrap_or(0);
        }
    }
}

/// The texts of a failure for the model within `characters_max`, quotes and escapes included. Both stay whole where they fit; otherwise
/// neither takes more than half of the room while the other needs it.
pub(crate) fn both_texts(
    message: &str,
    suggestion: &str,
    characters_max: usize,
) -> (String, String) {
    let half = characters_max / 2;
    let after = |text| cap::spend_text(text, characters_max).unwrap_or(0);
    let kept = |text: &str, room| match cap::spend_text(text, room) {
        Some(_) => text.to_owned(),
        None => cap::beginning(text, room),
    };
    let suggestion = kept(suggestion, half.max(after(message)));
    let message = kept(message, after(&suggestion));
    (message, suggestion)
}

/// The beginning of a text that fits in so many characters.
pub fn beginning(text: String, characters_max: usize) -> String {
    match cap::spend_text(&text, characters_max) {
        Some(_) => text,
        None => cap::beginning(&text, characters_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorType;
    use serde_json::json;

    fn written_length(value: &impl serde::Serialize) -> usize {
        serde_json::to_string(value).unwrap().chars().count()
    }

    #[test]
    fn a_failures_message_is_kept_before_its_suggestion_and_that_before_its_details() {
        let error = |message: usize, suggestion: usize| {
            CallError::new(ErrorType::Permanent, "\n".repeat(message))
                .with_suggestion("s".repeat(suggestion))
                .with_details(json!({"id": "a-1", "rows": vec!["row"; 1_000]}))
        };
        for (message, suggestion, words) in [
            (10, 10, "992 list items were left out for length"),
            (45, 10, "1 fields were left out for length"),
            (
                45,
                999,
                "1 fields were left out and 1 texts were cut for length",
            ),
            (
                999,
                9,
                "1 fields were left out and 2 texts were cut for length",
            ),
        ] {
            let mut error = error(message, suggestion);
            let whole = error.message.clone();
            assert_eq!(shorten_error(&mut error, 104).as_deref(), Some(words));
            let texts = (&error.message, &error.suggestion, &error.details);
            // The names of two texts that may be missing, commas and brackets are not counted.
            let of_none = 2 * "null".len();
            assert!(written_length(&texts) <= 104 + 4 + of_none, "{texts:?}");
            assert_eq!(error.message == whole, message < 100);
            assert!(error.message.ends_with('…') || message < 100);
        }
        let mut short = CallError::new(ErrorType::Permanent, "short").with_details(json!(null));
        let whole = short.clone();
        assert_eq!(shorten_error(&mut short, 104), None);
        assert_eq!(short, whole);
    }

    #[test]
    fn pictures_are_whole_or_not_there() {
        let part = |url: usize| ContentPart::Image {
            mime_type: "image/png".into(),
            url: "u".repeat(url),
        };
        let mut content = vec![part(10), part(10), part(1_000), part(1)];
        assert_eq!(shorten_content(&mut content, 2_000), None);
        let words = shorten_content(&mut content, 1_000);
        assert_eq!(
            words.as_deref(),
            Some("2 pictures were left out for length")
        );
        assert_eq!(content, [part(10), part(10)]);
    }

    #[test]
    fn state_changes_lose_their_texts_before_they_are_left_out() {
        let pending = |length: usize| Intent::SetPendingMessage {
            message: "m".repeat(length),
        };
        let unknown = Intent::Unknown(json!({"type": "FORMAT_DISK", "disk": "d".repeat(500)}));
        let mut intents = vec![pending(100), unknown, pending(500), pending(1), pending(1)];
        assert_eq!(shorten_intents(&mut intents.clone(), 2_000), None);
        let words = shorten_intents(&mut intents, 350);
        assert_eq!(
            words.as_deref(),
            Some(
                "of state changes, 1 fields were left out and 2 list items were left out and 1 texts were cut for length"
            )
        );
        assert_eq!(intents[0], pending(100));
        assert_eq!(intents[1], Intent::Unknown(json!({"type": "FORMAT_DISK"})));
        let Intent::SetPendingMessage { message } = &intents[2] else {
            panic!("{intents:?}");
        };
        assert!(message.ends_with("m…") && message.len() < 50, "{message}");
        assert_eq!(intents.len(), 3);
    }
}
