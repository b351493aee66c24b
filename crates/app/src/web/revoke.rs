//! `POST /api/revoke`: the user wants to be asked again about the calls that a standing approval covers. Knows statuses and the body;
//! the chat knows the approvals.

use super::ServerState;
use super::chat::{Entrance, error};
use super::ledger::answered;
use super::part;
use crate::chat::WantedRevocation;
use axum::body::Body;
use axum::extract::State as Extract;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use windlass_runtime::client_protocol::NO_APPROVAL_ID;
use windlass_session::client::ErrorCode;
use windlass_store::standing_number;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedApproval {
    approval_id: String,
}

/// Whether a body revokes a standing approval.
pub(crate) fn understands(body: &[u8]) -> bool {
    wanted(body).is_ok()
}

fn wanted(body: &[u8]) -> Result<WantedRevocation, String> {
    let named = part::read(body, "standing approval", |named: &NamedApproval| {
        standing_number(&named.approval_id).ok_or(NO_APPROVAL_ID)
    })?;
    Ok(WantedRevocation {
        conversation: named.conversation,
        approval: named.id,
        user: named.user,
    })
}

/// Ends a standing approval, and says which are left.
pub(super) async fn revoke(
    Extract(state): Extract<Arc<ServerState>>,
    entrance: Entrance,
) -> Response<Body> {
    let response = match wanted(&entrance.body) {
        Err(problem) => error(
            StatusCode::BAD_REQUEST,
            ErrorCode::BadMessage.as_str(),
            &problem,
        ),
        Ok(wanted) => {
            let left = state.chat.revoke(&entrance.caller, wanted).await;
            let shown = left.map(|left| json!({ "ok": true, "standingApprovals": left }));
            answered(
                shown,
                "unknown_approval",
                "there is no such standing approval, or it stands no longer",
            )
        }
    };
    entrance.finish(response)
}
