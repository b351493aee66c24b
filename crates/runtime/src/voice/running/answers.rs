//! The user's answers to questions, as a running session gets them: over its socket, through its door, and those that are for
//! another session. Knows no policy.

use super::Running;
use crate::ids;
use crate::voice::client_side::ClientSide;
use crate::voice::confirm::{Answer, Elsewhere};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::Instant;
use windlass_session::client::{ClientEvent, ClientUpdate};
use windlass_session::io::{Input, TokenHash};
use windlass_tool::sensitive::Sensitive;

impl Running {
    /// An answer to a confirmation request that did not come over the socket. One with a token of nobody's is none.
    pub(in crate::voice) fn answer(
        &mut self,
        answer: Answer,
        client: &mut ClientSide,
        now: Instant,
    ) {
        let Answer {
            token_hash,
            approved,
            reply,
        } = answer;
        if let Some(call) = self.core.call_of_question(&token_hash) {
            self.waiting.wait(call, reply);
            self.decide(token_hash, approved, client, now);
        }
    }

    /// One that came over the socket: the conversation's session by text may have asked, or one that is gone.
    pub(super) fn confirm(
        &mut self,
        token_hash: TokenHash,
        approved: bool,
        client: &mut ClientSide,
        now: Instant,
    ) {
        if let Some(call) = self.core.call_of_question(&token_hash) {
            self.waiting.wait_on_socket(call);
            return self.decide(token_hash, approved, client, now);
        }
        let (host, caller) = (&self.service.host, &self.door.owner.caller);
        let elsewhere = match self.waiting.has_room() {
            true => host.answer(caller, &self.calls.identity, token_hash, approved),
            false => Elsewhere::Foreign,
        };
        match elsewhere {
            Elsewhere::Nowhere => self.decide(token_hash, approved, client, now),
            Elsewhere::Gone => {
                self.calls.may_take_up(token_hash);
                self.decide(token_hash, approved, client, now);
            }
            Elsewhere::Foreign => self.decide(nobodys(), approved, client, now),
            Elsewhere::Taken(answered) => self.waiting.elsewhere.push(answered),
        }
    }

    fn decide(
        &mut self,
        token_hash: TokenHash,
        approved: bool,
        client: &mut ClientSide,
        now: Instant,
    ) {
        let event = ClientEvent::Confirm {
            token_hash,
            approved,
        };
        self.input(Input::Client(event), client, now);
    }

    /// Tells the client what came of its answers to questions of other sessions; whether anything did.
    pub(super) fn poll_elsewhere(
        &mut self,
        context: &mut Context<'_>,
        client: &mut ClientSide,
        now: Instant,
    ) -> bool {
        let mut heard = Vec::new();
        let elsewhere = &mut self.waiting.elsewhere;
        elsewhere.retain_mut(|answered| match Pin::new(answered).poll(context) {
            Poll::Ready(response) => {
                heard.push(response);
                false
            }
            Poll::Pending => true,
        });
        let has_heard = !heard.is_empty();
        for response in heard {
            match response {
                Ok(response) => {
                    // The numbers of another session's calls are not this one's.
                    let (call, response) = (None, Sensitive(response));
                    let result = ClientUpdate::ConfirmationResult { call, response };
                    self.tell_client(&result, client);
                }
                Err(_) => self.decide(nobodys(), true, client, now),
            }
        }
        has_heard
    }
}

/// A token that no question has, for one that does not count.
fn nobodys() -> TokenHash {
    ids::token_hash("")
}
