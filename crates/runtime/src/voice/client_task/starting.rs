//! The first message of a client: it begins a new session, returns to a running one, or resumes one whose process has ended.

use super::{ClientTask, Stage};
use crate::client_protocol::{AudioMode, ServerMessage, Start};
use crate::voice::Refusal;
use crate::voice::beginning::{self, Beginning, Prepared, StartOutcome};
use crate::voice::running::Running;
use std::task::{Context, Poll};
use tokio::time::Instant;
use windlass_session::client::ErrorCode;

/// The code for "try again later" in IANA's registry of WebSocket close codes.
const TRY_AGAIN_LATER: u16 = 1013;

impl ClientTask {
    pub(super) fn start(&mut self, mut start: Start, now: Instant) {
        if !matches!(self.stage, Stage::AwaitingStart { .. }) {
            let message = "the session has started already";
            return self.bad_message(ErrorCode::SessionActive, message);
        }
        let audio = start.audio;
        let caller = self.caller.speaking_for(start.user_id.as_deref());
        let service = self.service.clone();
        let standing = self.traffic.standing.clone();
        let work: Beginning = match start.resume.take() {
            Some(token) => Box::pin(beginning::resume(service, standing, caller, token, start)),
            None => Box::pin(beginning::begin(service, standing, caller, start)),
        };
        self.stage = Stage::Beginning {
            until: now + self.service.settings.start_timeout,
            work,
            audio,
        };
    }

    pub(super) fn is_beginning(&self) -> bool {
        matches!(self.stage, Stage::Beginning { .. })
    }

    /// Continues once the store has answered. Returns whether it has.
    pub(super) fn poll_beginning(&mut self, context: &mut Context<'_>, now: Instant) -> bool {
        let Stage::Beginning { work, audio, .. } = &mut self.stage else {
            return false;
        };
        let audio = *audio;
        let Poll::Ready(led) = work.as_mut().poll(context) else {
            return false;
        };
        match led {
            Ok(StartOutcome::Reattach(live)) => {
                self.client.audio = audio;
                self.resumed = Some(live);
            }
            Ok(StartOutcome::Begin(prepared)) => {
                self.begin(*prepared, audio, now);
                if let Some(reading) = self.client.socket().already_read() {
                    self.read(reading, now);
                }
            }
            Err(refusal) => self.refuse(refusal, now),
        }
        true
    }

    /// Ends a start for which the store takes too long.
    pub(super) fn give_up_beginning(&mut self, now: Instant) {
        let message = "the store does not answer; try again later".to_owned();
        let code = ErrorCode::Internal;
        self.refuse(Refusal::Error { code, message }, now);
    }

    fn begin(&mut self, prepared: Prepared, audio: AudioMode, now: Instant) {
        self.client.audio = audio;
        self.lease = None;
        self.stage = Stage::Running(Running::begin(
            self.service.clone(),
            prepared,
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
