//! The number of sessions that the server holds. A session has its slot from before its beginning until nothing of it runs any
//! more, with or without a client. Knows no client and no conversation.

use super::{Refusal, VoiceService};
use crate::shares::{Exceeded, Held, Holding, Standing};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_session::client::ErrorCode;

/// The slots that are taken in this process.
#[derive(Default)]
pub(super) struct SessionSlots(AtomicUsize);

/// Room for one session, until it is dropped.
pub(super) struct SessionSlot {
    service: Arc<VoiceService>,
    /// The session's part of the shares of its user and of the address that it began from.
    _share: Option<Holding>,
}

impl SessionSlot {
    /// Takes a slot for a session that does not run in this process yet. Call it before any step for the session that a refusal
    /// would have to undo.
    pub(super) fn take(service: &Arc<VoiceService>, standing: &Standing) -> Result<Self, Refusal> {
        let share = standing.hold(Held::Sessions, 1).map_err(exceeded)?;
        let sessions_max = service.settings.sessions_max;
        let more = |taken: usize| (taken < sessions_max).then(|| taken + 1);
        let SessionSlots(taken) = &service.slots;
        match taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Self {
                service: service.clone(),
                _share: share,
            }),
            Err(_) => Err(Refusal::Error {
                code: ErrorCode::Overloaded,
                message: "the server has as many sessions as it can hold; try again later"
                    .to_owned(),
            }),
        }
    }
}

fn exceeded(exceeded: Exceeded) -> Refusal {
    Refusal::Error {
        code: ErrorCode::Overloaded,
        message: exceeded.to_string(),
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let SessionSlots(taken) = &self.service.slots;
        taken.fetch_sub(1, Ordering::AcqRel);
    }
}
