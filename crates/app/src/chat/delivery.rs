//! What a client's wish is to its conversation: what it is known by when it comes again, and in whose name a question is
//! answered. Knows no turn.

use super::ChatRefusal;
use super::conversation::{Conversation, Delivery, Message};
use super::request::Wish;
use windlass_runtime::caller::Caller;
use windlass_runtime::ids;
use windlass_runtime::text::TurnInput;
use windlass_session::io::TokenHash;
use windlass_tool::id::{ClientId, UserId};

/// Who answers a question.
pub(super) struct Answerer {
    /// The client in whose name it is answered: the one that was asked, where it is known.
    pub(super) client_id: ClientId,
    /// The user who was asked, where it is known.
    pub(super) user_id: Option<UserId>,
}

/// Who answers the question of this token, if the caller may. Who shows no id shows the question's token, which speaks for the
/// client that was asked; but not where the caller shows another id, or names another user than the one who was asked.
pub(super) fn answerer(
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
    })
}

/// By what an answer to a question is known that comes again.
pub(super) fn approval(token_hash: &TokenHash) -> Message {
    Message {
        id: format!("approval {}", windlass_tool::json::hex(token_hash)),
        content: None,
    }
}

/// What a wish is to the conversation, and to its session. `may_answer` says whether a question is the caller's to answer: a
/// token in other hands is like one of nobody's, and by such an answer nothing is known that comes again.
pub(super) fn wanted(
    wish: Wish,
    may_answer: impl FnOnce(&TokenHash) -> Result<bool, ChatRefusal>,
) -> Result<(Delivery, TurnInput), ChatRefusal> {
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
            let input = match again {
                true => TurnInput::Again(input),
                false => TurnInput::User(input),
            };
            Ok((delivery, input))
        }
        Wish::Approve { token, approved } => {
            let token_hash = ids::token_hash(token.expose());
            let (token_hash, message) = match may_answer(&token_hash)? {
                true => (token_hash, Some(approval(&token_hash))),
                false => (ids::token_hash(""), None),
            };
            let input = TurnInput::Confirm {
                token_hash,
                approved,
            };
            let delivery = Delivery {
                message,
                ..Delivery::default()
            };
            Ok((delivery, input))
        }
    }
}
