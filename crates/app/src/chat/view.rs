//! What the log of a conversation holds, for its client: words, calls, questions that wait, and what became of an effect. Knows
//! the JSON of these answers, and no session.

use super::whose::Whose;
use super::{ChatHost, ChatRefusal, unavailable};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use windlass_runtime::caller::Caller;
use windlass_session::client::warning;
use windlass_session::said::Said;
use windlass_store::command::OpenQuestion;
use windlass_store::{
    ConversationRef, Effect, EffectState, Entry, EntryEvent, EntryNumber, QuestionNumber,
    QuestionState,
};
use windlass_tool::envelope::rfc3339;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, ConversationId, EffectId, SessionId};
use windlass_tool::kind::Mode;
use windlass_tool::sensitive::Sensitive;

/// Entries of a log that one answer holds: the newest behind the one that was asked for.
const ENTRIES_MAX: usize = 500;
/// Bytes of a call's arguments in such an answer. Longer ones are left out.
const ARGUMENTS_BYTES_MAX: usize = 4 * 1024;

impl ChatHost {
    /// What a conversation's client is shown of it, from behind an entry on.
    pub(crate) async fn conversation(
        &self,
        caller: &Caller,
        id: &ConversationId,
        after: EntryNumber,
    ) -> Result<Value, ChatRefusal> {
        let read = || {
            let known = self.conversations.known(&caller.tenant, id);
            known.map_err(unavailable)?.ok_or(ChatRefusal::Unknown)
        };
        // One that began a moment ago is in memory before it is in the store.
        let whose = match self.conversations.get(&caller.tenant, id) {
            Some(held) => held.whose.clone(),
            None => Whose::of(&read()?.user_id),
        };
        let admitted = whose.admits(caller, None);
        admitted.map_err(|_| ChatRefusal::Foreign)?;
        let reference = whose.reference(&caller.tenant, id);
        self.conversations.settle(&reference).await;
        let known = read()?;
        let store = self.conversations.store();
        let entries = store.entries(&reference, after, ENTRIES_MAX);
        let entries = entries.map_err(unavailable)?;
        let mut asked = BTreeMap::new();
        for number in entries.iter().filter_map(refused) {
            let question = store.question_of_number(&reference, number);
            if let Some(question) = question.map_err(unavailable)? {
                asked.insert(number, CallNumber(question.call));
            }
        }
        let questions = store.open_questions(&reference).map_err(unavailable)?;
        // Of a conversation that belongs to nobody the token is its asker's alone.
        let shows_tokens = whose.owner.is_some();
        let questions = questions.iter().map(|asked| question(asked, shows_tokens));
        Ok(json!({
            "conversationId": id.as_str(),
            "lastEntry": known.last_entry.0,
            "entries": said(&entries, &asked),
            "questions": questions.collect::<Vec<_>>(),
        }))
    }

    /// What became of an effect of one of the caller's conversations. For all other callers the effect does not exist.
    pub(crate) fn effect(
        &self,
        caller: &Caller,
        effect_id: &EffectId,
        conversation: Option<&str>,
    ) -> Result<Value, ChatRefusal> {
        let store = self.conversations.store();
        let found = store
            .effect(&caller.tenant, effect_id)
            .map_err(unavailable)?;
        let (reference, effect) = found.ok_or(ChatRefusal::Unknown)?;
        let whose = Whose::of(&reference.user_id);
        let admitted = whose.admits(caller, None);
        if admitted.is_err() || !knows(&whose, &reference, conversation) {
            return Err(ChatRefusal::Unknown);
        }
        Ok(effect_json(&effect))
    }
}

/// Whether the caller shows that it knows the conversation, where that is what makes it its own.
fn knows(whose: &Whose, reference: &ConversationRef, named: Option<&str>) -> bool {
    let id = reference.conversation_id.as_str();
    match named {
        Some(named) => named == id,
        None => whose.owner.is_some(),
    }
}

/// The question that an entry says was denied or closed.
fn refused(entry: &Entry) -> Option<QuestionNumber> {
    match &entry.event {
        EntryEvent::Question(change) => refusal(change.state).map(|_| change.number),
        _ => None,
    }
}

/// What a call ends with whose question ended so.
fn refusal(state: QuestionState) -> Option<ErrorType> {
    match state {
        QuestionState::Denied => Some(ErrorType::ConfirmationDeclined),
        QuestionState::Closed => Some(ErrorType::ConfirmationExpired),
        QuestionState::Open | QuestionState::Approved => None,
    }
}

/// Words and calls, oldest first, and the calls that a refusal has ended. A message that was sent again is there once.
fn said(entries: &[Entry], asked: &BTreeMap<QuestionNumber, CallNumber>) -> Vec<Value> {
    let mut modes: BTreeMap<&SessionId, Mode> = BTreeMap::new();
    let mut messages = Vec::new();
    let mut shown = Vec::new();
    for entry in entries {
        if let (EntryEvent::Attached(mode), Some(leg)) = (&entry.event, &entry.leg) {
            modes.insert(leg, *mode);
        }
        let mut fields = match Said::of(entry) {
            None => {
                let EntryEvent::Question(change) = &entry.event else {
                    continue;
                };
                let (Some(error), Some(call)) = (refusal(change.state), asked.get(&change.number))
                else {
                    continue;
                };
                json!({
                    "kind": "call", "callId": call.to_string(), "tool": change.tool.as_str(),
                    "ok": false, "errorType": error.code(),
                })
            }
            Some(Said::Words {
                role,
                text,
                turn,
                message,
                citations,
                images,
            }) => {
                if let Some(message) = message {
                    let is_known = messages.contains(&message);
                    messages.push(message);
                    if is_known {
                        continue;
                    }
                }
                let mut words = json!({
                    "kind": "words", "role": role, "text": text.expose(), "turn": turn
                });
                if !citations.is_empty() {
                    words["citations"] = json!(citations);
                }
                if !images.is_empty() {
                    words["images"] = json!(images);
                }
                words
            }
            Some(Said::Call {
                call,
                tool,
                turn,
                arguments,
                error,
                duration_ms,
                ..
            }) => {
                let mut called = json!({
                    "kind": "call", "callId": call.to_string(), "tool": tool, "turn": turn,
                    "ok": error.is_none(), "durationMs": duration_ms,
                });
                if let Some(error) = error {
                    called["errorType"] = error.code().into();
                }
                if let Some(arguments) = arguments.filter(is_bearable) {
                    called["args"] = arguments.0;
                }
                called
            }
            Some(Said::Notice { .. } | Said::Answered { .. } | Said::Summary { .. }) => continue,
        };
        fields["entry"] = entry.number.0.into();
        fields["at"] = rfc3339(entry.at_unix_ms).into();
        if let Some(mode) = entry.leg.as_ref().and_then(|leg| modes.get(leg)) {
            fields["mode"] = mode.as_str().into();
        }
        shown.push(fields);
    }
    shown
}

/// Whether arguments are short enough for a list of many calls.
fn is_bearable(arguments: &Sensitive<Value>) -> bool {
    arguments.expose().to_string().len() <= ARGUMENTS_BYTES_MAX
}

fn question(asked: &OpenQuestion, shows_token: bool) -> Value {
    let question = &asked.question;
    let arguments = serde_json::from_str::<Value>(question.arguments.expose());
    let preview = question.preview.expose();
    let mut fields = json!({
        "callId": CallNumber(question.call).to_string(),
        "tool": question.tool.as_str(),
        "args": arguments.unwrap_or_default(),
        "preview": (!preview.is_empty()).then_some(preview),
        "expiresAt": rfc3339(question.expires_at_unix_ms),
        "mode": question.mode.as_str(),
    });
    if shows_token {
        fields["token"] = asked.token.text().expose().as_str().into();
    }
    if let Some(warning) = warning(question) {
        fields["warning"] = warning.into();
    }
    fields
}

fn effect_json(effect: &Effect) -> Value {
    let state = match effect.state {
        EffectState::Running => "running",
        EffectState::Done => "done",
        EffectState::NotDone => "not_done",
        EffectState::Unknown => "unknown",
    };
    let mut fields = json!({
        "effectId": effect.effect_id.as_str(),
        "tool": effect.tool.as_str(),
        "state": state,
        "beganAt": rfc3339(effect.begun_at_unix_ms),
        "changedAt": rfc3339(effect.changed_at_unix_ms),
        "attempts": effect.attempts.len(),
    });
    let receipt = effect.receipt.as_ref();
    if let Some(receipt) = receipt.and_then(|text| serde_json::from_str(text.expose()).ok()) {
        let receipt: Value = receipt;
        fields["receipt"] = receipt;
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_session::client::MessageKey;
    use windlass_session::model::Role;
    use windlass_store::LegNumber;

    fn entry(number: u64, leg: &str, event: EntryEvent) -> Entry {
        Entry {
            number: EntryNumber(number),
            at_unix_ms: 1_700_000_000_000,
            leg: Some(SessionId::new(leg)),
            leg_number: Some(LegNumber(number)),
            key: None,
            event,
        }
    }

    fn words(role: Role, text: &str, message: Option<&str>) -> EntryEvent {
        Said::Words {
            role,
            text: Sensitive(text.to_owned()),
            turn: 1,
            message: message.map(MessageKey::of),
            citations: Vec::new(),
            images: Vec::new(),
        }
        .event()
    }

    #[test]
    fn a_log_is_shown_as_words_and_calls() {
        let call = Said::Call {
            call: CallNumber(3),
            tool: "order".to_owned(),
            turn: 1,
            arguments: Some(Sensitive(json!({"item": "tea"}))),
            result: Sensitive(json!({"data": 1})),
            error: Some(ErrorType::Transient),
            duration_ms: 12,
            is_external: false,
        };
        let notice = Said::Notice {
            text: Sensitive("for the model".to_owned()),
        };
        let shown = said(
            &[
                entry(1, "s-1", EntryEvent::Attached(Mode::Text)),
                entry(2, "s-1", words(Role::User, "Order it.", Some("a"))),
                entry(3, "s-1", words(Role::User, "Order it.", Some("a"))),
                entry(4, "s-1", call.event()),
                entry(5, "s-1", notice.event()),
                entry(6, "s-2", words(Role::Assistant, "Done.", None)),
            ],
            &BTreeMap::new(),
        );
        let at = "2023-11-14T22:13:20.000Z";
        assert_eq!(
            Value::from(shown),
            json!([
                {"entry": 2, "at": at, "kind": "words", "role": "user", "text": "Order it.", "turn": 1, "mode": "text"},
                {"entry": 4, "at": at, "kind": "call", "callId": "call-3", "tool": "order", "turn": 1, "ok": false,
                    "durationMs": 12, "errorType": "TRANSIENT", "args": {"item": "tea"}, "mode": "text"},
                {"entry": 6, "at": at, "kind": "words", "role": "assistant", "text": "Done.", "turn": 1},
            ])
        );
    }
}
