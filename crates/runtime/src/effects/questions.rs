//! Questions to users: minted, stored, and what the store says to them. Knows no client.

use super::{Beside, Work, effect_id, no_randomness, unavailable};
use crate::ids;
use crate::subscriber::SessionIdentity;
use windlass_session::io::{
    ConfirmationRequest, Input, Proposed, ReservationError, ReservationRefusal, TokenHash,
};
use windlass_store::{Proposal, Renewal, StoreUnavailable};
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::json;
use windlass_tool::sensitive::Sensitive;

/// A confirmation as it is minted: what the store keeps, and the token that only the client gets.
pub(crate) struct Minted {
    pub(crate) token: Sensitive<String>,
    pub(crate) token_hash: TokenHash,
    pub(crate) work: Work,
}

impl Minted {
    /// Has something else written down together with the question.
    pub(crate) fn with(self, mut beside: Beside) -> Work {
        let mut work = self.work;
        Box::new(move |transaction| {
            let input = work(transaction)?;
            // Where the question is refused as well: nobody else keeps what stands beside it.
            beside(transaction)?;
            Ok(input)
        })
    }
}

pub(crate) fn propose(
    session: &SessionIdentity,
    request: &ConfirmationRequest,
    now_unix_ms: u64,
) -> Result<Minted, ReservationError> {
    let token = ids::confirmation_token().map_err(no_randomness)?;
    let effect_id = effect_id(request.effect_id.as_ref(), now_unix_ms)?;
    let valid_ms = u64::try_from(request.valid_for.as_millis()).unwrap_or(u64::MAX);
    let token_hash = ids::token_hash(token.expose());
    let expires_at_unix_ms = now_unix_ms.saturating_add(valid_ms);
    let arguments = request.arguments.expose().to_value();
    let arguments = String::from_utf8_lossy(&json::canonical(&arguments)).into_owned();
    let proposal = Proposal {
        token_hash,
        effect_id,
        conversation_id: session.conversation_id.clone(),
        user_id: session.user_id.clone(),
        tool: request.tool.clone(),
        tool_version: request.tool_version.to_string(),
        fingerprint: request.fingerprint,
        arguments: Sensitive(arguments),
        preview: request.preview.clone(),
        says_unknown: request.says_unknown,
        expires_at_unix_ms,
        now_unix_ms,
    };
    let call = request.call;
    let replaced = request.replaces;
    let work: Work = Box::new(move |transaction| {
        let asked = match replaced {
            Some(replaced) => {
                let renewal = Renewal {
                    token_hash: replaced,
                    new_token_hash: proposal.token_hash,
                    expires_at_unix_ms,
                    now_unix_ms,
                };
                let renewed = transaction.renew(&renewal)?;
                renewed
                    .map(|grant| grant.effect_id)
                    .ok_or(ReservationRefusal::GrantUnknown)
            }
            None => asked(transaction.propose(&proposal)?),
        };
        let outcome = asked.map(|effect_id| Proposed {
            effect_id,
            token_hash,
            expires_at_unix_ms,
        });
        Ok(Some(Input::Proposed { call, outcome }))
    });
    Ok(Minted {
        token,
        token_hash,
        work,
    })
}

/// The effect that the user is asked about, or why nobody is asked.
fn asked(answer: windlass_store::Proposed) -> Result<EffectId, ReservationRefusal> {
    match answer {
        windlass_store::Proposed::Stored(effect_id) => Ok(effect_id),
        windlass_store::Proposed::Begun(begun) => Err(ReservationRefusal::Open(begun.effect_id)),
        windlass_store::Proposed::TooLong => Err(ReservationRefusal::QuestionTooLong),
        windlass_store::Proposed::TooMany => Err(ReservationRefusal::TooManyQuestions),
        windlass_store::Proposed::TokenTaken => {
            let problem = "the store has this token already".to_owned();
            Err(ReservationRefusal::Unavailable(ReservationError {
                problem,
            }))
        }
    }
}

/// What is told to the core where the store does not answer about a confirmation.
pub(crate) fn not_proposed(call: CallNumber, error: &StoreUnavailable) -> Input {
    Input::Proposed {
        call,
        outcome: Err(ReservationRefusal::Unavailable(unavailable(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answer, DirectStore, EffectStore};
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use windlass_store::MemoryStore;

    #[test]
    fn what_stands_beside_a_refused_question_is_written_down() {
        let minted = Minted {
            token: Sensitive(String::new()),
            token_hash: [0; 32],
            work: Box::new(|_| {
                let call = CallNumber(1);
                Ok(Some(not_proposed(call, &StoreUnavailable::Overloaded)))
            }),
        };
        let is_written = Arc::new(AtomicBool::new(false));
        let written = is_written.clone();
        let work = minted.with(Box::new(move |_| {
            written.store(true, Ordering::SeqCst);
            Ok(())
        }));
        let store = DirectStore::new(Arc::new(MemoryStore::new()));
        assert!(matches!(
            store.ask_behind_all(work),
            Answer::Ready(Ok(Some(_)))
        ));
        assert!(is_written.load(Ordering::SeqCst));
    }
}
