//! How many sessions the server holds: a slot is a session's own from before its begin until nothing of it runs any more, whoever
//! is connected to it. Knows no client and no conversation.

use super::{Refusal, VoiceService};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_session::client::ErrorCode;

/// How many are taken in this process.
#[derive(Default)]
pub(super) struct SessionSlots(AtomicUsize);

/// Room for one session, until it is dropped.
pub(super) struct SessionSlot(Arc<VoiceService>);

impl SessionSlot {
    /// For a session that does not run in this process yet. To be taken before anything is done for it that a refusal would
    /// have to undo.
    pub(super) fn take(service: &Arc<VoiceService>) -> Result<Self, Refusal> {
        let sessions_max = service.settings.sessions_max;
        let more = |taken: usize| (taken < sessions_max).then(|| taken + 1);
        let SessionSlots(taken) = &service.slots;
        match taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Self(service.clone())),
            Err(_) => Err(Refusal::Error {
                code: ErrorCode::Overloaded,
                message: "the server has as many sessions as it can hold; try again later"
                    .to_owned(),
            }),
        }
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let SessionSlots(taken) = &self.0.slots;
        taken.fetch_sub(1, Ordering::AcqRel);
    }
}
