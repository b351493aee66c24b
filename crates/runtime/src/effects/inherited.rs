//! What a session inherits of earlier ones of its conversation: questions that the user may still answer, and approvals that were
//! used. Knows no snapshot.

use super::{Left, Work, known_question, remembered, response_of, unavailable};
use crate::subscriber::SessionIdentity;
use serde::{Deserialize, Serialize};
use windlass_session::io::{Continued, FoundQuestion, Input, TokenHash};
use windlass_session::under_way::UnderWay;
use windlass_store::{Grant, GrantState, StoreUnavailable, Transaction};
use windlass_tool::id::{CallNumber, ConversationId, UserId};

/// Where an earlier session of a conversation ended, as its driver wrote it down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The highest number that a call had.
    pub last_call: CallNumber,
    /// The numbers by which the client knows the calls of its questions, open or not.
    pub questions: Vec<(TokenHash, CallNumber)>,
}

/// What a session that goes on with a conversation is given before anybody is heard: what the conversation has changed, and
/// the questions to this user that are still open.
pub fn inherited(
    transaction: &mut dyn Transaction,
    conversation: &ConversationId,
    user: &UserId,
    ended: &Ended,
    under_way: &UnderWay,
    now_unix_ms: u64,
) -> Result<Vec<Input>, StoreUnavailable> {
    let left = Left::read(transaction, conversation, user, now_unix_ms)?;
    let remembered = remembered(left.effects, left.has_read, under_way);
    let questions = left.grants.into_iter().filter_map(known_question);
    let (last_call, numbers) = (ended.last_call, &ended.questions);
    let continued = Continued::of(last_call, numbers, questions, &remembered.effects);
    Ok(vec![
        Input::Ledger(Ok(remembered)),
        Input::Continued(continued),
    ])
}

/// A question to the same user that another session of the conversation has asked, and what came of it; one that is open where
/// nobody else is to have its answer. Who shows a token of anybody else's learns nothing.
pub(crate) fn approval(
    session: &SessionIdentity,
    token_hash: TokenHash,
    is_left_behind: bool,
    now_unix_ms: u64,
) -> Work {
    let (conversation, user) = (session.conversation_id.clone(), session.user_id.clone());
    Box::new(move |transaction| {
        let grant = transaction.grant(&token_hash)?.filter(|grant| {
            (is_left_behind || grant.state != GrantState::Open)
                && grant.conversation_id == conversation
                && grant.user_id == user
                && now_unix_ms < grant.expires_at_unix_ms
        });
        let found = match grant {
            None => None,
            Some(grant) => found(transaction, grant)?.map(Box::new),
        };
        let found = Ok(found);
        Ok(Some(Input::ApprovalFound { token_hash, found }))
    })
}

fn found(
    transaction: &mut dyn Transaction,
    grant: Grant,
) -> Result<Option<FoundQuestion>, StoreUnavailable> {
    let effect = match grant.state {
        GrantState::Open => None,
        GrantState::Consumed | GrantState::Declined => transaction.effect(&grant.effect_id)?,
    };
    let response = effect.as_ref().and_then(response_of);
    Ok(known_question(grant).map(|question| FoundQuestion::of(question, response)))
}

/// What is told to the core where the store cannot be asked for an approval.
pub(crate) fn unsought(token_hash: TokenHash, error: &StoreUnavailable) -> Input {
    let found = Err(unavailable(error));
    Input::ApprovalFound { token_hash, found }
}
