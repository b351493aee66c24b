//! The state of a session that the store keeps, so that the session can be resumed in another process: saved anew after each
//! change, one save at a time. Knows no store.

use crate::call_driver::CallDriver;
use windlass_contract::sensitive::Sensitive;
use windlass_session::session::Session;

#[derive(Default)]
pub(super) struct Saving {
    is_wanted: bool,
}

impl Saving {
    /// Notes that the store's state is out of date.
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
