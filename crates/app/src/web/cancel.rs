//! `POST /api/cancel`: the user wants one call of a conversation by text stopped. Knows statuses and the body; the chat stops the call.

use super::chat::{Entrance, error, refused};
use super::{ServerState, part, typed};
use crate::chat::{ChatRefusal, WantedCancel};
use axum::body::Body;
use axum::extract::State as Extract;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_contract::id::CallNumber;
use windlass_runtime::client_protocol::NO_CALL_ID;
use windlass_session::client::{CancelOutcome, ErrorCode};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedCall {
    call_id: String,
}

/// Whether a body asks for a call to be stopped.
pub(crate) fn understands(body: &[u8]) -> bool {
    wanted(body).is_ok()
}

fn wanted(body: &[u8]) -> Result<WantedCancel, String> {
    let named = part::read(body, "call to stop", |named: &NamedCall| {
        CallNumber::parse(&named.call_id).ok_or(NO_CALL_ID)
    })?;
    Ok(WantedCancel {
        conversation: named.conversation,
        call: named.id,
        user: named.user,
    })
}

/// Stops a call, or says why not.
pub(super) async fn cancel(
    Extract(state): Extract<Arc<ServerState>>,
    entrance: Entrance,
) -> Response<Body> {
    let response = match wanted(&entrance.body) {
        Err(problem) => error(
            StatusCode::BAD_REQUEST,
            ErrorCode::BadMessage.as_str(),
            &problem,
        ),
        Ok(wanted) => match state.chat.cancel(&entrance.caller, wanted).await {
            Ok(outcome) => answered(outcome),
            Err(ChatRefusal::Unknown) => answered(CancelOutcome::Unknown),
            Err(ChatRefusal::Busy) => error(
                StatusCode::CONFLICT,
                "busy",
                "the conversation does not answer now, so that nothing is stopped; send it again",
            ),
            Err(refusal) => refused(&refusal),
        },
    };
    entrance.finish(response)
}

/// The outcome, and an error where the call is not stopped.
fn answered(outcome: CancelOutcome) -> Response<Body> {
    let (status, is_stopped) = match outcome {
        CancelOutcome::Stopped => (StatusCode::OK, true),
        CancelOutcome::RunsOn | CancelOutcome::AlreadyCancelled | CancelOutcome::Ended => {
            (StatusCode::CONFLICT, false)
        }
        CancelOutcome::Unknown => (StatusCode::NOT_FOUND, false),
    };
    let mut body = json!({ "ok": is_stopped, "outcome": outcome.as_str() });
    if !is_stopped {
        let code = format!("call_{}", outcome.as_str());
        body["error"] = json!({ "code": code, "message": outcome.words() });
    }
    let mut answer = typed("application/json", body.to_string());
    *answer.status_mut() = status;
    answer
}
