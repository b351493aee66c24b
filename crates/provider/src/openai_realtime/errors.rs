//! The meaning of an `error` event, by its code. Knows no reaction to it.

use super::wire::{ServerError, text};
use crate::failure::printable;
use windlass_session::model::LostReason;

pub(super) enum Meaning {
    /// The session is over, for this reason.
    Lost(LostReason),
    /// A response was asked for while another is active.
    AnotherResponse,
    /// A response was to be cancelled, and none is active.
    NothingToCancel,
    /// The outcome of a race that does not matter.
    Harmless,
    /// The server refused an event of ours; the session goes on.
    Refused,
}

pub(super) fn meaning(error: &ServerError<'_>) -> Meaning {
    let closed = |code| {
        Meaning::Lost(LostReason::Closed {
            code,
            reason: described(error),
        })
    };
    match text(&error.code) {
        // The service closes with 1001 after this event, but not always.
        "session_expired" => closed(1001),
        "invalid_api_key" | "account_deactivated" => Meaning::Lost(LostReason::Unauthorized),
        "insufficient_quota" | "billing_hard_limit_reached" | "credit_balance_exhausted" => {
            closed(1008)
        }
        "beta_api_shape_disabled" => closed(4000),
        "conversation_already_has_active_response" => Meaning::AnotherResponse,
        "response_cancel_not_active" => Meaning::NothingToCancel,
        "input_audio_buffer_commit_empty"
        | "item_retrieve_invalid_item_id"
        | "cannot_update_voice" => Meaning::Harmless,
        _ => Meaning::Refused,
    }
}

/// The reason of a close by the service. The close's words are type and code of the error event, which does not always come
/// before it.
pub fn close_reason(code: u16, reason: String) -> LostReason {
    match reason.rsplit('.').next() {
        Some("invalid_api_key" | "account_deactivated") => LostReason::Unauthorized,
        Some(_) | None => LostReason::Closed { code, reason },
    }
}

/// Code and place, without the message, which may quote users or models.
pub(super) fn described(error: &ServerError<'_>) -> String {
    let name = [text(&error.code), text(&error.kind)]
        .into_iter()
        .find(|name| !name.is_empty())
        .map_or_else(|| "an error without a code".to_owned(), printable);
    match text(&error.param) {
        "" => name,
        param => format!("{name} ({})", printable(param)),
    }
}
