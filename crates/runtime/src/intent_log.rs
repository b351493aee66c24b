//! What a tool's author reads of intents that were rejected: one line of the log each, with tool, key and cause and nothing of what the
//! handler gave. And how those that no session carried out reach whoever watches sessions.

use crate::subscriber::{SessionIdentity, Subscriber};
use std::sync::Arc;
use windlass_session::event::SessionEvent;
use windlass_tool::id::SessionId;

/// Writes the line, where an event is a rejection.
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
    // What is for a session comes too late now and then. What is kept, or has no name that anybody knows, is a mistake of the tool.
    match intent.is_of_conversation() || intent.is_unknown() {
        true => tracing::error!(
            %session, %call, tool, key, problem,
            "an intent of a tool was rejected"
        ),
        false => tracing::warn!(%session, %call, tool, problem, "an intent of a tool was rejected"),
    }
}

/// Tells log and subscribers what came of intents that no session carried out. `leg` says for whom the result was: it has the name of the
/// session that made the call.
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
