//! The first message of a client: a new session, the way back into a running one, or one whose process has ended and that is
//! taken up again.

use super::{Driver, Stage};
use crate::caller::Caller;
use crate::client_protocol::{AudioMode, ServerMessage, Start};
use crate::ids::token_hash;
use crate::voice::place::Place;
use crate::voice::restart::{self, Before, TakenUp};
use crate::voice::running::Running;
use crate::voice::{Admission, Refusal};
use std::task::{Context, Poll};
use tokio::time::Instant;
use windlass_session::client::ErrorCode;
use windlass_tool::id::{ConversationId, UserId};

/// From the registry of WebSocket close codes that IANA keeps.
const TRY_AGAIN_LATER: u16 = 1013;

impl Driver {
    pub(super) fn start(&mut self, start: Start, now: Instant) {
        if !matches!(self.stage, Stage::AwaitingStart { .. }) {
            let message = "the session has started already";
            return self.bad_message(ErrorCode::SessionActive, message);
        }
        let audio = start.audio;
        if let Some(token) = &start.resume {
            let hash = token_hash(token.expose());
            return self.resume(hash, start, now);
        }
        match self.new_session(start) {
            Ok((admission, before)) => {
                self.begin(self.caller.clone(), admission, before, audio, now);
            }
            Err(refusal) => self.refuse(refusal, now),
        }
    }

    /// A session that begins as itself, where there is room for one.
    fn new_session(&self, start: Start) -> Result<(Admission, Before), Refusal> {
        self.make_room(&start)?;
        let place = Place::take(&self.service)?;
        let admission = self.service.host.start(&self.caller, start)?;
        let before = Before::nothing(place, &admission);
        Ok((admission, before))
    }

    /// Ends the session that the conversation has had, where its client has left it and begins anew.
    fn make_room(&self, start: &Start) -> Result<(), Refusal> {
        let Some(conversation_id) = &start.conversation_id else {
            return Ok(());
        };
        let conversation_id = ConversationId::new(conversation_id.as_str());
        self.service.host.admit(&self.caller, &conversation_id)?;
        let user_id = self.named_user(start);
        let doors = &self.service.doors;
        doors.clear(&self.caller, user_id.as_ref(), &conversation_id);
        Ok(())
    }

    /// The user whom the client names, as sessions have it.
    fn named_user(&self, start: &Start) -> Option<UserId> {
        let named = start.user_id.as_deref();
        named.map(|named| self.service.host.user(&self.caller, named))
    }

    /// The session runs in this process, or what it left is in the store.
    fn resume(&mut self, token_hash: [u8; 32], start: Start, now: Instant) {
        let user_id = self.named_user(&start);
        let audio = start.audio;
        let door = self.service.doors.take(
            &self.caller,
            &token_hash,
            user_id.as_ref(),
            start.conversation_id.as_deref(),
        );
        if let Some(door) = door {
            self.client.audio = audio;
            self.resumed = Some(door);
            return;
        }
        let (service, caller) = (self.service.clone(), self.caller.clone());
        self.stage = Stage::TakingUp {
            until: now + self.service.settings.start_timeout,
            work: Box::pin(restart::take_up(service, caller, token_hash, start)),
            audio,
        };
    }

    pub(super) fn is_taking_up(&self) -> bool {
        matches!(self.stage, Stage::TakingUp { .. })
    }

    /// Goes on where the store has answered; whether it has.
    pub(super) fn poll_taking_up(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let Stage::TakingUp { work, audio, .. } = &mut self.stage else {
            return false;
        };
        let audio = *audio;
        let Poll::Ready(taken_up) = work.as_mut().poll(context) else {
            return false;
        };
        match taken_up {
            Ok(TakenUp {
                caller,
                admission,
                before,
            }) => {
                self.begin(caller, admission, before, audio, now);
                if let Some(reading) = self.client.socket().already_read() {
                    self.read(reading, now);
                }
            }
            Err(refusal) => self.refuse(refusal, now),
        }
        true
    }

    /// The store takes too long.
    pub(super) fn give_up_taking_up(&mut self, now: Instant) {
        let message = "the store does not answer; try again later with the same token".to_owned();
        let code = ErrorCode::Internal;
        self.refuse(Refusal::Error { code, message }, now);
    }

    fn begin(
        &mut self,
        caller: Caller,
        admission: Admission,
        before: Before,
        audio: AudioMode,
        now: Instant,
    ) {
        self.client.audio = audio;
        self.lease = None;
        self.stage = Stage::Running(Running::begin(
            self.service.clone(),
            caller,
            admission,
            before,
            &mut self.client,
            now,
        ));
    }

    fn refuse(&mut self, refusal: Refusal, now: Instant) {
        match refusal {
            Refusal::Blocked {
                now_unix_ms,
                until_unix_ms,
                farewell_message,
            } => {
                self.client.say(&ServerMessage::Timeout {
                    duration_seconds: until_unix_ms.saturating_sub(now_unix_ms).div_ceil(1_000),
                    timeout_until: until_unix_ms,
                    farewell_message: &farewell_message,
                });
                self.close(1000, "", now);
            }
            Refusal::Error { code, message } => {
                let is_full = code == ErrorCode::Overloaded;
                self.client.error(code, message);
                let close_code = if is_full { TRY_AGAIN_LATER } else { 1008 };
                self.close(close_code, code.as_str(), now);
            }
        }
    }
}
