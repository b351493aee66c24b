//! The entries of a conversation's log for messages that were answered: their form, how they are written, and how they are found when a
//! message comes again. Knows no turn.

use super::conversation::{AnswerNames, Conversation, Message};
use super::record::TurnRecord;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::json::hex;
use windlass_runtime::text::ui_stream;
use windlass_session::log_text::Said;
use windlass_store::{
    ConversationRef, Entry, EntryNumber, NewEntry, QuestionNumber, Store, StoreUnavailable,
};

/// Bytes of one answer that are kept.
const KEPT_BYTES_MAX: usize = 192 * 1024;
/// The most answers that are kept for one message: for its first form, for its edits, and for repeats that asked for another answer.
const ANSWERS_MAX: u32 = 32;

/// An answer that the log has an entry for.
struct Kept {
    number: EntryNumber,
    content: Option<[u8; 32]>,
    stream: String,
}

/// Takes the log's entries about a message into memory, if memory does not know the message.
pub(super) fn recall(
    conversation: &Conversation,
    store: &dyn Store,
    message: &Message,
) -> Result<(), StoreUnavailable> {
    if conversation.knows(message) {
        return Ok(());
    }
    let reference = &conversation.reference;
    let mut newest: Option<Kept> = None;
    let mut answers = 0;
    for answer in 1..=ANSWERS_MAX {
        let key = message_key(&message.id, answer);
        let Some(entry) = store.entry_of_key(reference, &key)? else {
            break;
        };
        answers = answer;
        let kept = kept_of(&entry);
        if kept.as_ref().map(|kept| kept.number) > newest.as_ref().map(|kept| kept.number) {
            newest = kept;
        }
    }
    if let Some(kept) = newest {
        let message = Message {
            id: message.id.clone(),
            content: kept.content,
        };
        conversation.recall(message, record_of(kept.stream), false, answers);
    }
    Ok(())
}

/// The same for a message that is known by an idempotency key: the answer to that key.
pub(super) fn recall_key(
    conversation: &Conversation,
    store: &dyn Store,
    key: &Message,
) -> Result<KnownKey, StoreUnavailable> {
    if conversation.knows(key) {
        return Ok(KnownKey::Same);
    }
    let reference = &conversation.reference;
    let Some(begun) = store.entry_of_key(reference, &key.id)? else {
        return Ok(KnownKey::New);
    };
    let content = answered_body(&begun).and_then(|body| content_of(&body));
    if content != key.content {
        return Ok(KnownKey::Conflict);
    }
    let Some(answered) = store.entry_of_key(reference, &answer_key(key))? else {
        return Ok(KnownKey::Same);
    };
    let of = answered_body(&answered).and_then(|body| text_of(&body, "of"));
    let answer = of
        .map(|of| store.entry_of_key(reference, &of))
        .transpose()?;
    if let Some(kept) = answer.flatten().as_ref().and_then(kept_of) {
        conversation.recall(key.clone(), record_of(kept.stream), true, 1);
    }
    Ok(KnownKey::Same)
}

/// The same where the log keeps no answer, only the change.
pub(super) fn known_key(
    reference: &ConversationRef,
    store: &dyn Store,
    key: &Message,
) -> Result<KnownKey, StoreUnavailable> {
    let Some(begun) = store.entry_of_key(reference, &key.id)? else {
        return Ok(KnownKey::New);
    };
    let content = answered_body(&begun).and_then(|body| content_of(&body));
    Ok(match content == key.content {
        true => KnownKey::Same,
        false => KnownKey::Conflict,
    })
}

/// Whether an idempotency key was used before, and with the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownKey {
    New,
    /// It came with the same before; the answer is in memory if it was kept there.
    Same,
    /// It came with something else.
    Conflict,
}

/// Says that a key is used for this, before anything is done for it.
pub(super) fn key_entry(key: &Message) -> NewEntry {
    entry(key.id.clone(), &key.id, content_body(key))
}

/// The entries that keep the answer of a turn that is over, under all names of its message. Empty where no client can ask for it again.
pub(super) fn answer_entries(
    names: AnswerNames,
    record: &TurnRecord,
    entry_bytes_max: usize,
) -> Vec<NewEntry> {
    let AnswerNames {
        message,
        keys,
        answers,
    } = names;
    // A message without an id of its own is known by its key alone.
    let Some(message) = message.or_else(|| keys.first().cloned()) else {
        return Vec::new();
    };
    if answers >= ANSWERS_MAX {
        return Vec::new();
    }
    let Some(text) = record.kept(KEPT_BYTES_MAX) else {
        return Vec::new();
    };
    let key = message_key(&message.id, answers + 1);
    let mut body = content_body(&message);
    body["stream"] = ui_stream::to_keep(&text).into();
    let answer = entry(key.clone(), &message.id, body);
    if bytes_of(&answer) > entry_bytes_max {
        return Vec::new();
    }
    let pointer = |known: &Message| entry(answer_key(known), &known.id, json!({ "of": key }));
    [answer]
        .into_iter()
        .chain(keys.iter().map(pointer))
        .collect()
}

/// The name of the message that answers these approval requests. It is the same when the message comes again.
pub(super) fn approval_of(questions: &[QuestionNumber]) -> Message {
    let numbers = questions.iter().map(|number| number.0.to_string());
    Message {
        id: format!("approval {}", numbers.collect::<Vec<_>>().join(" ")),
        content: None,
    }
}

/// The entry that keeps an answer given without a stream, for a client that sends it again. The ledger has the outcome of an effect,
/// but none of a tool that changes nothing.
pub(super) fn confirmation_entry(
    question: QuestionNumber,
    approved: bool,
    response: &Value,
    entry_bytes_max: usize,
) -> Option<NewEntry> {
    let key = confirmation_key(question, approved);
    let kept = entry(key.clone(), &key, json!({ "response": response }));
    (bytes_of(&kept) <= entry_bytes_max).then_some(kept)
}

/// The recorded answer, as JSON.
pub(super) fn confirmation(
    reference: &ConversationRef,
    store: &dyn Store,
    question: QuestionNumber,
    approved: bool,
) -> Result<Option<Value>, StoreUnavailable> {
    let known = store.entry_of_key(reference, &confirmation_key(question, approved))?;
    let body = known.as_ref().and_then(answered_body);
    Ok(body.and_then(|mut body| body.get_mut("response").map(Value::take)))
}

fn confirmation_key(question: QuestionNumber, approved: bool) -> String {
    format!("confirmed:{}:{approved}", question.0)
}

fn message_key(id: &str, answer: u32) -> String {
    match answer {
        1 => format!("message:{id}"),
        // No id makes the one of the other.
        _ => format!("message#{answer}:{id}"),
    }
}

fn answer_key(key: &Message) -> String {
    format!("{}:answer", key.id)
}

fn entry(key: String, message: &str, body: Value) -> NewEntry {
    let said = Said::Answered {
        message: message.to_owned(),
        body,
    };
    NewEntry {
        leg_number: None,
        key: Some(key),
        event: said.event(),
    }
}

fn bytes_of(entry: &NewEntry) -> usize {
    match &entry.event {
        windlass_store::EntryEvent::Said(text) => text.expose().len(),
        _ => 0,
    }
}

fn answered_body(entry: &Entry) -> Option<Value> {
    match Said::of(entry)? {
        Said::Answered { body, .. } => Some(body),
        _ => None,
    }
}

fn kept_of(entry: &Entry) -> Option<Kept> {
    let body = answered_body(entry)?;
    Some(Kept {
        number: entry.number,
        content: content_of(&body),
        stream: text_of(&body, "stream")?,
    })
}

fn record_of(stream: String) -> Arc<TurnRecord> {
    TurnRecord::of(stream.into_bytes())
}

fn content_body(message: &Message) -> Value {
    json!({ "content": message.content.map(|content| hex(&content)) })
}

fn content_of(body: &Value) -> Option<[u8; 32]> {
    let text = body.get("content")?.as_str()?;
    let mut content = [0; 32];
    for (index, byte) in content.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(content)
}

fn text_of(body: &Value, name: &str) -> Option<String> {
    Some(body.get(name)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_a_message_are_told_from_messages_with_ids_like_them() {
        let keys =
            ["a", "a#2", "2:a", "#2:a"].map(|id| [1, 2].map(|answer| message_key(id, answer)));
        let distinct: std::collections::BTreeSet<&String> = keys.iter().flatten().collect();
        assert_eq!(distinct.len(), 8);
    }

    #[test]
    fn what_a_message_said_is_read_back() {
        for content in [None, Some([7; 32]), Some([0xAB; 32])] {
            let message = Message {
                id: "m-1".to_owned(),
                content,
            };
            assert_eq!(content_of(&content_body(&message)), content);
        }
        for odd in [json!({}), json!({"content": "0g"}), json!({"content": 1})] {
            assert_eq!(content_of(&odd), None, "{odd}");
        }
    }
}
