//! How many sessions the server holds, and which these are: a place is a session's own from before its begin until nothing of it
//! runs any more, whoever is connected to it. Knows no door and no client.

use super::{Admission, Refusal, VoiceService};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use windlass_session::client::ErrorCode;
use windlass_tool::id::SessionId;

/// The places of one process.
#[derive(Default)]
pub(super) struct Places(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    count: usize,
    /// The sessions of this process, also those whose last changes still run.
    sessions: HashSet<SessionId>,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a session lives in this process, so that no other may take its place.
    pub(super) fn knows(&self, session_id: &SessionId) -> bool {
        self.lock().sessions.contains(session_id)
    }
}

/// Room for one session, until it is dropped.
pub(super) struct Place(Arc<VoiceService>);

impl Place {
    /// For a session that does not run in this process yet. To be taken before anything is done for it that a refusal would
    /// have to undo.
    pub(super) fn take(service: &Arc<VoiceService>) -> Result<Self, Refusal> {
        let mut taken = service.places.lock();
        if taken.count >= service.settings.sessions_max {
            return Err(Refusal::Error {
                code: ErrorCode::Overloaded,
                message: "the server has as many sessions as it can hold; try again later"
                    .to_owned(),
            });
        }
        taken.count += 1;
        Ok(Self(service.clone()))
    }

    /// The session that has it, from now on.
    pub(super) fn living(self, admission: &Admission) -> Living {
        let session_id = admission.session.session_id.clone();
        self.0.places.lock().sessions.insert(session_id.clone());
        Living {
            place: self,
            session_id,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.places.lock().count -= 1;
    }
}

/// Says that a session lives in this process, until it is dropped.
pub(super) struct Living {
    place: Place,
    session_id: SessionId,
}

impl Drop for Living {
    fn drop(&mut self) {
        let Place(service) = &self.place;
        service.places.lock().sessions.remove(&self.session_id);
    }
}
