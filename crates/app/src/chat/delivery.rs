//! A client's message as its conversation sees it: the name by which it is known when it comes again, and the approval requests that it
//! answers. Knows no turn.

use super::answers::approval_of;
use super::conversation::{Delivery, Message};
use super::owner::ConversationOwner;
use super::request::{ApprovalAnswer, RequestKind};
use serde_json::{Value, json};
use windlass_contract::id::{ClientId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::caller::Caller;
use windlass_runtime::text::{Consent, TurnInput, UserInput};
use windlass_session::client::MessageKey;
use windlass_store::{
    ConversationRef, Entry, EntryEvent, NewEntry, Question, QuestionNumber, Store,
    StoreUnavailable, Token,
};

/// The approval request of a token, if the caller may answer it. A caller that may not learns nothing.
pub(super) fn question_of(
    reference: &ConversationRef,
    whose: &ConversationOwner,
    store: &dyn Store,
    caller: &Caller,
    named: Option<&UserId>,
    token: &Sensitive<String>,
) -> Result<Option<Question>, StoreUnavailable> {
    let Some(token) = Token::parse(token.expose()) else {
        return Ok(None);
    };
    let Some(question) = store.question(reference, &token)? else {
        return Ok(None);
    };
    let asked = match whose.owner {
        Some(_) => None,
        // In a conversation without an owner it may be another client's.
        None => asked_client(reference, store, question.number)?,
    };
    let admitted = whose.admits_answer(caller, named, asked.as_ref());
    Ok(admitted.is_ok().then_some(question))
}

/// The entry that names the client of an approval request, in a conversation without an owner.
pub(super) fn asked_entry(question: QuestionNumber, client: &ClientId) -> NewEntry {
    let body = json!({"kind": "asked", "client": client.as_str()});
    NewEntry {
        leg_number: None,
        key: Some(asked_key(question)),
        event: EntryEvent::Said(Sensitive(body.to_string())),
    }
}

fn asked_client(
    reference: &ConversationRef,
    store: &dyn Store,
    question: QuestionNumber,
) -> Result<Option<ClientId>, StoreUnavailable> {
    let entry = store.entry_of_key(reference, &asked_key(question))?;
    Ok(entry.as_ref().and_then(client_of))
}

fn asked_key(question: QuestionNumber) -> String {
    format!("asked:{}", question.0)
}

fn client_of(entry: &Entry) -> Option<ClientId> {
    let EntryEvent::Said(text) = &entry.event else {
        return None;
    };
    let said: Value = serde_json::from_str(text.expose()).ok()?;
    Some(ClientId::new(said.get("client")?.as_str()?))
}

/// The forms of a request for the conversation and for its session. `answers` are to approval requests that the caller may answer;
/// other answers are not recognized when they come again.
pub(super) fn wanted(
    kind: RequestKind,
    answers: Vec<(Question, ApprovalAnswer)>,
    key: Option<Message>,
) -> (Delivery, TurnInput) {
    let numbers: Vec<QuestionNumber> = answers.iter().map(|(asked, _)| asked.number).collect();
    let consents: Vec<Consent> = answers
        .into_iter()
        .map(|(_, answer)| Consent {
            token: answer.token,
            approved: answer.approved,
            reason: answer.reason,
            remember: answer.remember,
            input: answer.input,
        })
        .collect();
    match kind {
        RequestKind::Say {
            message,
            content,
            input,
            again,
        } => {
            let content = Some(content);
            let known_by = key.as_ref().map(|key| MessageKey::of(&key.id));
            let delivery = Delivery {
                message: message.map(|id| Message { id, content }),
                key,
                again,
                waits: false,
                is_resumable: false,
            };
            let input = UserInput {
                consents,
                message: input.message.or(known_by),
                ..input
            };
            let input = match again {
                true => TurnInput::Again(input),
                false => TurnInput::User(input),
            };
            (delivery, input)
        }
        RequestKind::Answer => {
            let delivery = Delivery {
                message: Some(approval_of(&numbers)),
                key,
                ..Delivery::default()
            };
            (delivery, TurnInput::Confirm(consents))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_session::log_text::Said;

    #[test]
    fn an_entry_that_says_who_was_asked_is_no_words_of_a_session() {
        let entry = asked_entry(QuestionNumber(3), &ClientId::new("c-1"));
        let entry = Entry {
            number: windlass_store::EntryNumber(1),
            at_unix_ms: 0,
            leg: None,
            leg_number: None,
            key: entry.key,
            event: entry.event,
        };
        assert_eq!(client_of(&entry), Some(ClientId::new("c-1")));
        assert_eq!(Said::of(&entry), None);
    }
}
