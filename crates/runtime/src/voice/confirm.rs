//! Answers to confirmation requests that reach a running session another way than over its own socket, and those on its socket
//! that are for another session: who may give one, and how what comes of it finds back. Knows no HTTP.

use super::{Refusal, VoiceService};
use crate::caller::Caller;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;
use windlass_session::client::ClientUpdate;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::ErrorType;
use windlass_tool::id::{CallNumber, ConversationId};

/// Answers of one session that wait for what comes of them, of each kind; the oldest is let go.
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
    /// where there is no session, or where the caller shows that it is another client than the session's or names another
    /// user. Refused where the session's user is not served any more.
    pub fn confirm(
        &self,
        caller: &Caller,
        named: Option<&str>,
        conversation: &ConversationId,
        token_hash: [u8; 32],
        approved: bool,
    ) -> Result<Option<Answered>, Refusal> {
        let Some(door) = self.doors.of_conversation(caller, conversation) else {
            return Ok(None);
        };
        let owner = &door.owner;
        if named.is_some_and(|named| self.host.user(caller, named) != owner.user_id) {
            return Ok(None);
        }
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

/// What becomes of an answer to a question that a voice session did not ask.
pub enum Elsewhere {
    /// Nobody is known to have been asked: what the store has of one that was answered counts.
    Nowhere,
    /// The session that asked is gone: this one takes the question up, where it is this user's and open.
    Gone,
    /// The question is another user's, or another client's.
    Foreign,
    /// Another session gets it. What comes of it follows; nothing does where it is refused there.
    Taken(Answered),
}

/// Those who wait for what comes of their answers to a session's questions, and what the client was told of that.
#[derive(Default)]
pub(super) struct Waiting {
    /// Not on the session's own socket.
    others: VecDeque<(CallNumber, oneshot::Sender<Arc<ToolResponse>>)>,
    /// On its socket.
    own: VecDeque<CallNumber>,
    /// What came of a call is known to the client; whether that was that nobody knows.
    told: VecDeque<(CallNumber, bool)>,
    /// Answers on its socket to questions of other sessions.
    pub(super) elsewhere: Vec<Answered>,
}

impl Waiting {
    /// `call` is the one that the answer is about.
    pub(super) fn wait(&mut self, call: CallNumber, reply: oneshot::Sender<Arc<ToolResponse>>) {
        push(&mut self.others, (call, reply));
    }

    /// The same for one on the session's own socket.
    pub(super) fn wait_on_socket(&mut self, call: CallNumber) {
        push(&mut self.own, call);
    }

    /// Whether another answer to a question of another session may wait.
    pub(super) fn has_room(&self) -> bool {
        self.elsewhere.len() < WAITING_MAX
    }

    /// What comes of a call is told to one who waits for it. Whether the client is to hear it, too: once, and again for each
    /// of its own answers. `is_open` where the question waits for its answer as before.
    pub(super) fn hear(&mut self, update: &ClientUpdate, is_open: bool) -> bool {
        let ClientUpdate::ConfirmationResult {
            call: Some(call),
            response,
        } = update
        else {
            return true;
        };
        let response = response.expose();
        let own = self.own.iter().position(|own| own == call);
        let other = self.others.iter().position(|(waited, _)| waited == call);
        let is_news = match other.and_then(|at| self.others.remove(at)) {
            Some((_, reply)) => {
                // Whoever asked may have left.
                let _ = reply.send(response.clone());
                let mut told = self.told.iter();
                let is_told = told.any(|(told, was_unknown)| told == call && !was_unknown);
                own.is_none() && !is_open && !is_told
            }
            None => {
                own.and_then(|at| self.own.remove(at));
                true
            }
        };
        if is_news && !is_open {
            let is_unknown = response.error_type() == Some(ErrorType::OutcomeUnknown);
            push(&mut self.told, (*call, is_unknown));
        }
        is_news
    }
}

/// The oldest makes room.
fn push<T>(waiting: &mut VecDeque<T>, one: T) {
    if waiting.len() >= WAITING_MAX {
        waiting.pop_front();
    }
    waiting.push_back(one);
}
