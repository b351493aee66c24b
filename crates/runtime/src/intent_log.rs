//! Rejected intents for a tool's author: one line of the log each, with tool, key and cause and nothing of the handler's data.
//! And the report to subscribers about intents that no session carried out.

use crate::subscriber::{SessionIdentity, Subscriber};
use std::sync::Arc;
use windlass_contract::id::SessionId;
use windlass_session::event::SessionEvent;

/// Writes the line, if an event is a rejection.
pub(crate) fn log_rejection(session: &SessionId, event: &SessionEvent) {
    let SessionEvent::IntentRejected {
        call,
        tool,
        intent,
        problem,
    } = event
    else {
        return;
    };
    let tool = tool.as_ref().map_or("(unknown)", |tool| tool.as_str());
    let key = intent.shown_key();
    // An intent for a session comes too late now and then. A rejected intent for the conversation, or one with an unknown name,
    // is a mistake of the tool.
    match intent.is_of_conversation() || intent.is_unknown() {
        true => tracing::error!(
            %session, %call, tool, key, problem,
            "an intent of a tool was rejected"
        ),
        false => tracing::warn!(%session, %call, tool, problem, "an intent of a tool was rejected"),
    }
}

/// Reports intents that no session carried out to the log and the subscribers. `leg` identifies the receiver of the result: it
/// has the name of the session that made the call.
pub fn tell_apart(
    subscribers: &[Arc<dyn Subscriber>],
    leg: &SessionIdentity,
    now_unix_ms: u64,
    events: &[SessionEvent],
) {
    for event in events {
        log_rejection(&leg.session_id, event);
        for subscriber in subscribers {
            subscriber.event_apart(leg, now_unix_ms, event);
        }
    }
}
