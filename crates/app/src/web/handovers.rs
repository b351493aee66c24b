//! `GET /api/tickets` and `POST /api/tickets/{id}/reply`: the people to whom conversations are handed over read the tickets and
//! answer them. (`POST /api/tickets` gives callers tickets to sign in with, which is something else.)

use super::bodies::{self, Unread};
use super::chat::error;
use super::client::{self, NoCaller};
use super::peer::Peer;
use super::{ServerState, access, exceeded, typed};
use crate::access::{Means, Purpose};
use crate::handovers::{ReplyRefused, Ticket};
use axum::body::Body;
use axum::extract::{Path, Query, Request, State as Extract};
use http::request::Parts;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::id::TenantId;
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::caller::ProvenName;
use windlass_runtime::shares::{Held, Party};

/// Tickets of one list.
const LISTED_MAX: usize = 200;
/// Characters of an answer, and of the name of who wrote it.
const TEXT_CHARACTERS_MAX: usize = 4_000;
const AUTHOR_CHARACTERS_MAX: usize = 100;
/// Bytes of the body around them: each character may be written in twelve.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(Default, Deserialize)]
pub(super) struct Listed {
    #[serde(default)]
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplyBody {
    text: String,
    #[serde(default)]
    author: Option<String>,
}

/// The tickets of the caller's tenant, the newest first.
pub(super) async fn list(
    Extract(state): Extract<Arc<ServerState>>,
    listed: Result<Query<Listed>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response<Body> {
    let (head, _) = request.into_parts();
    let tenant = match tenant(&state, &head).await {
        Ok(tenant) => tenant,
        Err(refused) => return refused,
    };
    let status = listed
        .map(|Query(listed)| listed.status)
        .unwrap_or_default();
    let only_open = match status.as_deref() {
        None | Some("all") => false,
        Some("open") => true,
        Some(_) => {
            return bad("status is neither open nor all");
        }
    };
    let desk = state.handovers.clone();
    // While a file is written, others wait for the table.
    let listing = tokio::task::spawn_blocking(move || desk.list(&tenant, only_open, LISTED_MAX));
    let (tickets, left_out) = match listing.await {
        Ok(listed) => listed,
        Err(broken) => {
            tracing::error!(problem = %broken, "the tickets cannot be listed");
            return error(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "the tickets cannot be listed now; ask again",
            );
        }
    };
    let tickets: Vec<Value> = tickets.iter().map(Ticket::json).collect();
    let shown = json!({"tickets": tickets, "leftOut": left_out});
    typed("application/json", shown.to_string())
}

/// Takes an answer, and puts it into the conversation.
pub(super) async fn reply(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let tenant = match tenant(&state, &head).await {
        Ok(tenant) => tenant,
        Err(refused) => return refused,
    };
    let party = head
        .extensions
        .get()
        .map(|Peer(address)| Party::address(*address));
    let mut holding = match party {
        Some(party) => match state.shares.hold(&[party], Held::BodyBytes, 0) {
            Ok(holding) => Some(holding),
            Err(share) => return exceeded(share),
        },
        None => None,
    };
    let body = match bodies::read(body, BODY_BYTES_MAX, &mut holding).await {
        Ok(body) => body,
        Err(Unread::Exceeded(share)) => return exceeded(share),
        Err(unread) => return bad(&unread.to_string()),
    };
    let (author, text) = match answer_of(&body) {
        Ok(answer) => answer,
        Err(problem) => return bad(&problem),
    };
    let desk = state.handovers.clone();
    let taken = tokio::task::spawn_blocking(move || desk.reply(&tenant, &id, author, text)).await;
    let (ticket, place) = match taken {
        Ok(Ok(taken)) => taken,
        Ok(Err(refused @ ReplyRefused::Unknown)) => {
            return error(
                StatusCode::NOT_FOUND,
                "unknown_ticket",
                &refused.to_string(),
            );
        }
        Ok(Err(refused @ ReplyRefused::TooMany)) => {
            return error(
                StatusCode::CONFLICT,
                "too_many_replies",
                &refused.to_string(),
            );
        }
        Ok(Err(refused @ ReplyRefused::Unavailable(_))) => {
            return unavailable(&refused.to_string());
        }
        Err(broken) => return unavailable(&broken.to_string()),
    };
    let id = ticket.id.clone();
    let (chat, desk) = (state.chat.clone(), state.handovers.clone());
    // Delivery goes on if the person disconnects.
    let told = tokio::spawn(async move {
        let told = chat.deliver_ticket_replies(&desk, &ticket, place).await;
        if told.is_err() {
            desk.deliver_later();
        }
        told
    });
    match told.await {
        Ok(Ok(is_told)) => {
            let shown = json!({"ticketId": id, "status": "answered", "delivered": is_told});
            typed("application/json", shown.to_string())
        }
        Ok(Err(problem)) => unavailable(&problem.to_string()),
        Err(broken) => unavailable(&broken.to_string()),
    }
}

/// The tenant whose tickets a caller reads and answers: its key's. Where only this machine can ask and no one signs in, the only
/// tenant.
async fn tenant(state: &Arc<ServerState>, head: &Parts) -> Result<TenantId, Response<Body>> {
    let identified = state
        .access
        .identify(client::showing(head, Purpose::Other))
        .await;
    match identified {
        Ok(Some(known))
            if known.means == Means::Key && matches!(known.proven.name, ProvenName::Program(_)) =>
        {
            Ok(known.proven.tenant)
        }
        Ok(None) if state.is_local_alone && !is_anothers(head) => Ok(TenantId::default()),
        Ok(_) => Err(error(
            StatusCode::FORBIDDEN,
            "forbidden",
            "tickets are for API keys of programs; make one with windlass keys add",
        )),
        Err(problem) => Err(access::refused(&NoCaller::Refused(problem))),
    }
}

/// Whether a request names an unknown user, or came through a proxy.
fn is_anothers(head: &Parts) -> bool {
    let names = [
        "authorization",
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-real-ip",
    ];
    names.iter().any(|name| head.headers.contains_key(*name))
}

fn answer_of(body: &[u8]) -> Result<(Option<String>, Sensitive<String>), String> {
    let body: ReplyBody = crate::body::object(body)
        .map_err(|problem| format!("the body is not {{\"text\": …, \"author\"?: …}}: {problem}"))?;
    let text = body.text.trim().replace("\r\n", "\n");
    if text.is_empty() || text.chars().count() > TEXT_CHARACTERS_MAX {
        return Err(format!(
            "text has to have 1 to {TEXT_CHARACTERS_MAX} characters"
        ));
    }
    if text
        .chars()
        .any(|one| one.is_control() && !matches!(one, '\n' | '\t'))
    {
        return Err("text has control characters other than line feeds and tabs".to_owned());
    }
    let author = body.author.as_deref().map(str::trim);
    let author = author.filter(|author| !author.is_empty());
    if author.is_some_and(|author| {
        author.chars().count() > AUTHOR_CHARACTERS_MAX || author.chars().any(char::is_control)
    }) {
        return Err(format!(
            "author has more than {AUTHOR_CHARACTERS_MAX} characters, or control characters"
        ));
    }
    Ok((author.map(str::to_owned), Sensitive(text)))
}

fn bad(problem: &str) -> Response<Body> {
    error(StatusCode::BAD_REQUEST, "bad_message", problem)
}

/// The same answer may be sent again: it is stored and delivered once.
fn unavailable(problem: &str) -> Response<Body> {
    tracing::error!(%problem, "an answer to a ticket cannot be passed on");
    error(
        StatusCode::SERVICE_UNAVAILABLE,
        "unavailable",
        "the answer cannot be passed on now; send it again",
    )
}
