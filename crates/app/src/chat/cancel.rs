//! Stops a user's calls without a socket: finds the session of the conversation that has the call, and checks the caller. Knows no
//! HTTP; the session decides which calls may be stopped.

use super::owner::ConversationOwner;
use super::{ChatHost, ChatRefusal, unavailable};
use crate::users;
use std::time::Duration;
use windlass_contract::id::{CallNumber, ConversationId};
use windlass_runtime::caller::Caller;
use windlass_runtime::text::StopAnswer;
use windlass_session::client::CancelOutcome;

/// How long a session may take to answer.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A call that is to be stopped.
pub(crate) struct WantedCancel {
    pub(crate) conversation: ConversationId,
    pub(crate) call: CallNumber,
    /// The user for whom the caller says it speaks.
    pub(crate) user: Option<String>,
}

impl ChatHost {
    /// Stops a call of the conversation's sessions by text. [`ChatRefusal::Unknown`] where the caller has no such conversation: a
    /// caller who asks for another's learns nothing of it. [`ChatRefusal::Busy`] where the only session that may have the call does not
    /// answer.
    pub(crate) async fn cancel(
        &self,
        caller: &Caller,
        wanted: WantedCancel,
    ) -> Result<CancelOutcome, ChatRefusal> {
        let WantedCancel {
            conversation: id,
            call,
            user,
        } = wanted;
        let caller = &caller.speaking_for(user.as_deref());
        let (own, _) = self.capabilities.of_user(caller, user.as_deref());
        let named = (own != users::of_client(&caller.client_id)).then_some(own);
        let held = self.conversations.get(&caller.tenant, &id);
        let whose = match &held {
            Some(held) => held.whose.clone(),
            None => {
                let known = self.conversations.known(&caller.tenant, &id);
                let known = known.map_err(unavailable)?.ok_or(ChatRefusal::Unknown)?;
                ConversationOwner::of(&known.user_id)
            }
        };
        let admitted = whose.admits(caller, named.as_ref());
        admitted.map_err(|_| ChatRefusal::Unknown)?;
        let sessions = held.iter().flat_map(|held| held.sessions());
        let mut is_busy = false;
        for session in sessions {
            match session.stop(call, STOP_PATIENCE).await {
                // Another session may have it.
                StopAnswer::Outcome(CancelOutcome::Ended) | StopAnswer::NotHere => {}
                StopAnswer::Outcome(outcome) => return Ok(outcome),
                StopAnswer::Busy => is_busy = true,
            }
        }
        if is_busy {
            return Err(ChatRefusal::Busy);
        }
        let past = self.past_of(&whose.reference(&caller.tenant, &id)).await?;
        let counted = held.map_or(CallNumber(0), |held| held.last_call());
        Ok(match call <= past.last_call().max(counted) {
            true => CancelOutcome::Ended,
            false => CancelOutcome::Unknown,
        })
    }
}
