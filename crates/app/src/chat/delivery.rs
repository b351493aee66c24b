//! What a client's wish is to its conversation: what it is known by when it comes again, and in whose name a question is
//! answered. Knows no turn.

use super::ChatRefusal;
use super::conversation::{Conversation, Delivery};
use super::request::Wish;
use windlass_runtime::caller::Caller;
use windlass_runtime::ids;
use windlass_runtime::text::TurnInput;
use windlass_tool::id::ClientId;

/// The client in whose name a question is answered: the conversation's own. Who shows no id shows the question's token.
pub(super) fn speaker(
    conversation: &Conversation,
    caller: &Caller,
    token_hash: &[u8; 32],
) -> Result<ClientId, ChatRefusal> {
    match conversation.owner() {
        None => Ok(caller.client_id.clone()),
        Some(owner) if *owner == caller.client_id => Ok(owner.clone()),
        Some(owner) if caller.is_other_than(owner) => Err(ChatRefusal::Foreign),
        Some(owner) if conversation.knows_token(token_hash) => Ok(owner.clone()),
        Some(_) => Err(ChatRefusal::Unknown),
    }
}

/// By what an answer to a question is known that comes again.
pub(super) fn approval_key(token_hash: &[u8; 32]) -> String {
    format!("approval {}", windlass_tool::json::hex(token_hash))
}

/// What a wish is to the conversation, and to its session.
pub(super) fn wanted(wish: Wish) -> (Delivery, TurnInput) {
    match wish {
        Wish::Say {
            message,
            input,
            again,
        } => {
            let delivery = Delivery {
                message,
                again,
                waits: false,
            };
            let input = match again {
                true => TurnInput::Again(input),
                false => TurnInput::User(input),
            };
            (delivery, input)
        }
        Wish::Approve { token, approved } => {
            let token_hash = ids::token_hash(token.expose());
            let input = TurnInput::Confirm {
                token_hash,
                approved,
            };
            let delivery = Delivery {
                message: Some(approval_key(&token_hash)),
                ..Delivery::default()
            };
            (delivery, input)
        }
    }
}
