//! What the store is to keep of a session, so that it can go on in another process: made anew where something is new, one save at a
//! time. Knows no store.

use crate::call_driver::CallDriver;
use windlass_session::session::Session;
use windlass_tool::sensitive::Sensitive;

#[derive(Default)]
pub(super) struct Saving {
    is_wanted: bool,
}

impl Saving {
    /// What the store has is out of date.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Whether a save is wanted, and none is on its way.
    pub(super) fn is_due(&self, calls: &CallDriver) -> bool {
        self.is_wanted && !calls.is_saving()
    }

    pub(super) fn save(&mut self, calls: &mut CallDriver, session: &Session) {
        self.is_wanted = false;
        match serde_json::to_vec(&session.saved()) {
            Ok(body) => {
                let grace_seconds = session.config().limits.restart_grace_seconds;
                calls.save(Sensitive(body), grace_seconds.saturating_mul(1_000));
            }
            Err(error) => tracing::error!(%error, "a session cannot be written down"),
        }
    }
}
