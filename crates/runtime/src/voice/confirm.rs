//! Answers to confirmation requests that reach a running session another way than over its own socket: who may give one, and
//! how what comes of it finds back. Knows no HTTP.

use super::{Refusal, VoiceService};
use crate::caller::Caller;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_session::client::ClientUpdate;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallNumber, ConversationId};

/// Answers of one session that wait for what comes of them; the oldest is let go.
const WAITING_MAX: usize = 64;

/// The user's answer to a request for consent.
pub(super) struct Answer {
    pub(super) token_hash: [u8; 32],
    pub(super) approved: bool,
    /// Who waits for what comes of it.
    pub(super) reply: oneshot::Sender<Arc<ToolResponse>>,
}

/// What came of an answer. Nothing comes where the session has asked nothing with that token, or ends before.
pub type Answered = oneshot::Receiver<Arc<ToolResponse>>;

impl VoiceService {
    /// Gives an answer to the session that a conversation has now. The token of the question says who may give it; `None`
    /// where there is no session, or where the caller shows that it is another client than the session's. Refused where the
    /// session's user is not served any more.
    pub fn confirm(
        &self,
        caller: &Caller,
        conversation: &ConversationId,
        token_hash: [u8; 32],
        approved: bool,
    ) -> Result<Option<Answered>, Refusal> {
        let Some(door) = self.doors.of_conversation(caller, conversation) else {
            return Ok(None);
        };
        let owner = &door.owner;
        self.host.serves(&owner.caller.client_id, &owner.user_id)?;
        let (reply, answered) = oneshot::channel();
        door.answer(Answer {
            token_hash,
            approved,
            reply,
        });
        Ok(Some(answered))
    }
}

/// Those of a session who wait for what comes of their answers.
#[derive(Default)]
pub(super) struct Waiting(VecDeque<(CallNumber, oneshot::Sender<Arc<ToolResponse>>)>);

impl Waiting {
    /// `call` is the one that the answer is about.
    pub(super) fn wait(&mut self, call: CallNumber, reply: oneshot::Sender<Arc<ToolResponse>>) {
        if self.0.len() >= WAITING_MAX {
            self.0.pop_front();
        }
        self.0.push_back((call, reply));
    }

    /// What the client is told of a call is told to one who waits for it, too.
    pub(super) fn hear(&mut self, update: &ClientUpdate) {
        let ClientUpdate::ConfirmationResult {
            call: Some(call),
            response,
        } = update
        else {
            return;
        };
        let waits = self.0.iter().position(|(waited, _)| waited == call);
        if let Some((_, reply)) = waits.and_then(|at| self.0.remove(at)) {
            // Whoever asked may have left.
            let _ = reply.send(response.expose().clone());
        }
    }
}
