//! What a session inherits of earlier ones of its conversation: questions that the user may still answer, and approvals that were
//! used. Knows no snapshot.

use super::{Left, Work, known, response_of, unavailable};
use crate::subscriber::SessionIdentity;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_session::io::{AnsweredQuestion, Continued, Input, OpenQuestion, TokenHash};
use windlass_store::{Effect, Grant, GrantState, StoreUnavailable, Transaction};
use windlass_tool::id::{CallNumber, ConversationId, UserId};
use windlass_tool::sensitive::Sensitive;

/// Where an earlier session of a conversation ended, as its driver wrote it down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The highest number that a call had.
    pub last_call: CallNumber,
    /// The numbers by which the client knows the calls of its questions, open or not.
    pub questions: Vec<(TokenHash, CallNumber)>,
    /// Whether its model has read what others wrote.
    #[serde(default)]
    pub external_in_context: bool,
}

/// What a session that goes on with a conversation is given before anybody is heard: what the conversation has changed, and
/// the questions to this user that are still open.
pub fn inherited(
    transaction: &mut dyn Transaction,
    conversation: &ConversationId,
    user: &UserId,
    ended: &Ended,
    now_unix_ms: u64,
) -> Result<Vec<Input>, StoreUnavailable> {
    let Left { effects, grants } = Left::read(transaction, conversation, user, now_unix_ms)?;
    let mut continued = Continued {
        last_call: ended.last_call,
        questions: Vec::new(),
        approved: Vec::new(),
        declined: Vec::new(),
        external_in_context: ended.external_in_context,
    };
    for grant in grants {
        let number =
            |(hash, call): &(TokenHash, CallNumber)| (*hash == grant.token_hash).then_some(*call);
        let known = ended.questions.iter().find_map(number);
        match (grant.state, known) {
            (GrantState::Open, known) => {
                // One that was asked after the last word of its session was written down.
                let next = CallNumber(continued.last_call.0.saturating_add(1));
                let call = known.unwrap_or(next);
                continued.last_call = continued.last_call.max(call);
                continued.questions.extend(question(grant, call));
            }
            // Whoever sends its token again hears what came of it.
            (GrantState::Consumed, Some(call)) => {
                let of_it = |effect: &&Effect| effect.effect_id == grant.effect_id;
                continued.approved.push(AnsweredQuestion {
                    call: Some(call),
                    token_hash: grant.token_hash,
                    response: effects.iter().find(of_it).and_then(response_of),
                    effect_id: grant.effect_id,
                    tool: grant.tool,
                    expires_at_unix_ms: grant.expires_at_unix_ms,
                });
            }
            (GrantState::Declined, call) => continued.declined.push(AnsweredQuestion {
                call,
                token_hash: grant.token_hash,
                response: None,
                effect_id: grant.effect_id,
                tool: grant.tool,
                expires_at_unix_ms: grant.expires_at_unix_ms,
            }),
            (GrantState::Consumed, None) => {}
        }
    }
    Ok(vec![known(effects), Input::Continued(continued)])
}

/// What came of an approval that was used in another session of the conversation, by the same user. Who shows a token of
/// anybody else's learns nothing.
pub(crate) fn approval(session: &SessionIdentity, token_hash: TokenHash, now_unix_ms: u64) -> Work {
    let (conversation, user) = (session.conversation_id.clone(), session.user_id.clone());
    Box::new(move |transaction| {
        let grant = transaction.grant(&token_hash)?.filter(|grant| {
            grant.state == GrantState::Consumed
                && grant.conversation_id == conversation
                && grant.user_id == user
                && now_unix_ms < grant.expires_at_unix_ms
        });
        let found = match grant {
            None => None,
            Some(grant) => Some(Box::new(AnsweredQuestion {
                call: None,
                token_hash,
                response: transaction
                    .effect(&grant.effect_id)?
                    .as_ref()
                    .and_then(response_of),
                effect_id: grant.effect_id,
                tool: grant.tool,
                expires_at_unix_ms: grant.expires_at_unix_ms,
            })),
        };
        let found = Ok(found);
        Ok(Some(Input::ApprovalFound { token_hash, found }))
    })
}

/// What is told to the core where the store cannot be asked for an approval.
pub(crate) fn unsought(token_hash: TokenHash, error: &StoreUnavailable) -> Input {
    let found = Err(unavailable(error));
    Input::ApprovalFound { token_hash, found }
}

/// `None` where its arguments cannot be read any more, so that nobody can approve them.
fn question(grant: Grant, call: CallNumber) -> Option<OpenQuestion> {
    let arguments = serde_json::from_str(grant.arguments.expose()).ok()?;
    Some(OpenQuestion {
        call,
        token_hash: grant.token_hash,
        effect_id: grant.effect_id,
        tool: grant.tool,
        tool_version: grant.tool_version.into(),
        fingerprint: grant.fingerprint,
        arguments: Sensitive(Arc::new(arguments)),
        expires_at_unix_ms: grant.expires_at_unix_ms,
    })
}
