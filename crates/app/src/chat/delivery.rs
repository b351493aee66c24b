//! What a client's wish is to its conversation: what it is known by when it comes again, and in whose name a question is
//! answered. Knows no turn.

use super::conversation::{Asked, Conversation, Delivery, Message};
use super::conversations::Conversations;
use super::request::{Answer, Wish};
use super::{ChatRefusal, unavailable};
use crate::clock;
use std::sync::Arc;
use windlass_runtime::caller::Caller;
use windlass_runtime::ids;
use windlass_runtime::text::{Consent, TurnInput, UserInput};
use windlass_session::io::TokenHash;
use windlass_tool::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_tool::error::CallError;
use windlass_tool::id::{ClientId, ConversationId, UserId};

/// Who answers a question.
pub(crate) struct Answerer {
    /// The client in whose name it is answered: the one that was asked, where it is known.
    pub(crate) client_id: ClientId,
    /// The user who was asked, where it is known.
    pub(crate) user_id: Option<UserId>,
    /// Whoever takes the answer may take the question up.
    pub(crate) is_left_behind: bool,
}

/// Who answers the question of this token, if the caller may. Who shows no id shows the question's token, which speaks for the
/// client that was asked; but not where the caller shows another id, or names another user than the one who was asked.
pub(crate) fn answerer(
    conversation: &Conversation,
    caller: &Caller,
    named: Option<&UserId>,
    token_hash: &TokenHash,
) -> Result<Answerer, ChatRefusal> {
    let (owner, asked) = (conversation.owner(), conversation.asked(token_hash));
    let client = asked.as_ref().and_then(|asked| asked.client_id.as_ref());
    let is_other = [owner, client]
        .into_iter()
        .flatten()
        .any(|client| caller.is_other_than(client));
    let user = asked.as_ref().map(|asked| &asked.user_id);
    let names_other = named.is_some_and(|named| user.is_some_and(|user| user != named));
    // Of an owner's conversation a token has to be known that is shown without an id.
    let is_nobodys = asked.is_none() && owner.is_some_and(|owner| *owner != caller.client_id);
    if is_other || names_other || is_nobodys {
        return Err(ChatRefusal::Unknown);
    }
    Ok(Answerer {
        client_id: client.or(owner).unwrap_or(&caller.client_id).clone(),
        user_id: user.cloned(),
        is_left_behind: asked.as_ref().is_some_and(Asked::is_left_behind),
    })
}

/// The conversation in which the caller was asked with a token, if it may answer that. Whoever may not learns nothing.
pub(crate) async fn asking(
    conversations: &Conversations,
    caller: &Caller,
    id: &ConversationId,
    token_hash: &TokenHash,
) -> Result<Arc<Conversation>, ChatRefusal> {
    let asking = conversations.asking(id, token_hash).await;
    let conversation = asking.map_err(unavailable)?.ok_or(ChatRefusal::Unknown)?;
    answerer(&conversation, caller, None, token_hash)?;
    Ok(conversation)
}

/// What is said of an answer to a question that no session has taken.
pub(crate) fn no_answer(error: CallError, registry_version: Arc<str>) -> Arc<ToolResponse> {
    Arc::new(ToolResponse {
        outcome: Outcome::Failure(error.into()),
        intents: Vec::new(),
        meta: meta_without_tool("confirm", registry_version, clock::now_unix_ms()),
    })
}

/// By what answers to questions are known that come again.
pub(super) fn approval(token_hashes: &[TokenHash]) -> Message {
    let hashes = token_hashes
        .iter()
        .map(|hash| windlass_tool::json::hex(hash));
    Message {
        id: format!("approval {}", hashes.collect::<Vec<_>>().join(" ")),
        content: None,
    }
}

/// What a wish is to the conversation, and to its session. `may_answer` says whether a question is the caller's to answer, and
/// then whether it is left behind: a token in other hands is like one of nobody's, and by such an answer nothing is known that
/// comes again.
pub(super) fn wanted(
    wish: Wish,
    consents: &[Answer],
    may_answer: impl Fn(&TokenHash) -> Result<Option<bool>, ChatRefusal>,
) -> Result<(Delivery, TurnInput), ChatRefusal> {
    let mut given = Vec::new();
    for Answer { token, approved } in consents {
        let token_hash = ids::token_hash(token.expose());
        if let Some(is_left_behind) = may_answer(&token_hash)? {
            given.push(Consent {
                token_hash,
                approved: *approved,
                is_left_behind,
            });
        }
    }
    match wish {
        Wish::Say {
            message,
            content,
            input,
            again,
        } => {
            let content = Some(content);
            let delivery = Delivery {
                message: message.map(|id| Message { id, content }),
                again,
                waits: false,
            };
            let input = UserInput {
                consents: given,
                ..input
            };
            let input = match again {
                true => TurnInput::Again(input),
                false => TurnInput::User(input),
            };
            Ok((delivery, input))
        }
        Wish::Answer => {
            let hashes: Vec<TokenHash> = given.iter().map(|given| given.token_hash).collect();
            let message = (!hashes.is_empty()).then(|| approval(&hashes));
            if given.is_empty() {
                given.push(Consent {
                    token_hash: ids::token_hash(""),
                    approved: false,
                    is_left_behind: false,
                });
            }
            let delivery = Delivery {
                message,
                ..Delivery::default()
            };
            Ok((delivery, TurnInput::Confirm(given)))
        }
    }
}
