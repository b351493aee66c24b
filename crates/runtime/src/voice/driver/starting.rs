//! The first message of a client: a new session, the way back into a running one, or one whose process has ended and that is
//! taken up again.

use super::{Driver, Stage};
use crate::client_protocol::{AudioMode, ServerMessage, Start};
use crate::ids::token_hash;
use crate::voice::restart::{self, Before, TakenUp};
use crate::voice::running::Running;
use crate::voice::{Admission, Refusal};
use std::task::{Context, Poll};
use tokio::time::Instant;
use windlass_session::client::ErrorCode;

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
        if let Some(conversation_id) = &start.conversation_id {
            let user_id = start.user_id.as_deref();
            self.service
                .doors
                .clear(&self.client_id, user_id, conversation_id);
        }
        match self.service.host.start(&self.client_id, start) {
            Ok(admission) => self.begin(admission, None, audio, now),
            Err(refusal) => self.refuse(refusal, now),
        }
    }

    /// The session runs in this process, or what it left is in the store.
    fn resume(&mut self, token_hash: [u8; 32], start: Start, now: Instant) {
        let (user_id, conversation_id) =
            (start.user_id.as_deref(), start.conversation_id.as_deref());
        let audio = start.audio;
        let door = self
            .service
            .doors
            .take(&token_hash, user_id, conversation_id);
        if let Some(door) = door {
            self.client.audio = audio;
            self.resumed = Some(door);
            return;
        }
        let (service, client_id) = (self.service.clone(), self.client_id.clone());
        self.stage = Stage::TakingUp {
            until: now + self.service.settings.start_timeout,
            work: Box::pin(restart::take_up(service, client_id, token_hash, start)),
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
            Ok(TakenUp { admission, before }) => {
                self.begin(admission, Some(before), audio, now);
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
        admission: Admission,
        before: Option<Before>,
        audio: AudioMode,
        now: Instant,
    ) {
        self.client.audio = audio;
        self.stage = Stage::Running(Running::begin(
            self.service.clone(),
            self.client_id.clone(),
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
                self.client.error(code, message);
                self.close(1008, code.as_str(), now);
            }
        }
    }
}
