//! The page on which a person approves a call of an MCP client: it shows the request to whom it was addressed, and takes the answer as
//! every other one is taken. Works without scripts. Knows no call.

use super::super::client::{NoCaller, known, showing};
use super::super::{ServerState, typed};
use crate::access::Purpose;
use crate::chat::{ChatRefusal, GivenAnswer};
use crate::mcp::{ShownRequest, shown_request};
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State as Extract};
use http::header::CONTENT_SECURITY_POLICY;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use std::sync::Arc;
use windlass_contract::id::{ClientId, ConversationId};
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::caller::Caller;
use windlass_store::ConversationRef;
use windlass_store::command::OpenQuestion;

/// Bytes of an answer: two short members.
const BODY_BYTES_MAX: usize = 4_096;
/// The page loads nothing, and sends its form to this server alone.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}\
    pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;padding:.75rem}\
    button{font:inherit;padding:.5rem 1.25rem;margin-right:1rem}";

/// The approval request that a caller may answer.
struct Waiting {
    caller: Caller,
    place: ConversationRef,
    /// `None` where no request waits any more.
    open: Option<OpenQuestion>,
}

/// `GET /mcp/approvals/{id}`.
pub(in crate::web) async fn show(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    request: Request,
) -> Response<Body> {
    let (head, _) = request.into_parts();
    match waiting(&state, &head, id).await {
        Ok(Waiting {
            open: Some(open), ..
        }) => page(StatusCode::OK, &asked(&open)),
        Ok(_) => page(StatusCode::OK, "<p>Nothing waits for an answer here.</p>"),
        Err(refused) => *refused,
    }
}

/// `POST /mcp/approvals/{id}`.
pub(in crate::web) async fn answer(
    Extract(state): Extract<Arc<ServerState>>,
    Path(id): Path<String>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let waiting = match waiting(&state, &head, id).await {
        Ok(waiting) => waiting,
        Err(refused) => return *refused,
    };
    let body = to_bytes(body, BODY_BYTES_MAX).await.unwrap_or_default();
    let Some((token, approved)) = said(&body) else {
        return page(
            StatusCode::BAD_REQUEST,
            "<p>That was no answer. Go back and choose one.</p>",
        );
    };
    let given = GivenAnswer {
        conversation: waiting.place.conversation_id,
        token,
        approved,
        reason: None,
        remember: false,
        input: None,
        key: None,
        user: None,
        zone: None,
    };
    match state.chat.confirm(&waiting.caller, given).await {
        Ok(confirmation) if confirmation.asked_anew.is_some() => page(
            StatusCode::CONFLICT,
            "<p>Something has changed meanwhile. Load this page again to see what is asked now.</p>",
        ),
        Ok(confirmation) => {
            let words = match (confirmation.response.error(), approved) {
                (None, _) => "The call has run. You can close this page.".to_owned(),
                (Some(_), false) => "The call will not run. You can close this page.".to_owned(),
                (Some(error), true) => format!("The call did not work: {}.", error.message),
            };
            page(StatusCode::OK, &format!("<p>{}</p>", escaped(&words)))
        }
        Err(ChatRefusal::Unknown) => page(
            StatusCode::GONE,
            "<p>This request was answered before, or its time is over.</p>",
        ),
        Err(_) => page(
            StatusCode::SERVICE_UNAVAILABLE,
            "<p>The answer could not be taken. Try again.</p>",
        ),
    }
}

/// The request that waits in a conversation, for a caller who may answer it. Other callers learn nothing.
async fn waiting(
    state: &Arc<ServerState>,
    head: &Parts,
    id: String,
) -> Result<Waiting, Box<Response<Body>>> {
    let chat = &state.chat;
    let caller = match known(state, showing(head, Purpose::Other)).await {
        Ok(caller) => caller,
        Err(NoCaller::Refused(_)) => {
            return Err(page(
                StatusCode::UNAUTHORIZED,
                "<p>Sign in on <a href=\"/\">the page</a> as the user of the client that asks, and load this one again.</p>",
            )
            .into());
        }
        Err(no_caller @ NoCaller::Broken(_)) => {
            return Err(super::super::access::refused(&no_caller).into());
        }
    };
    let unknown = || {
        Box::new(page(
            StatusCode::NOT_FOUND,
            "<p>There is no such request.</p>",
        ))
    };
    let unavailable = |_| {
        let words = "<p>The server cannot look for it now. Try again.</p>";
        Box::new(page(StatusCode::SERVICE_UNAVAILABLE, words))
    };
    let id = ConversationId::new(id);
    let anybody = Caller::known(ClientId::new(super::LOCAL));
    let looks = caller.clone().unwrap_or(anybody);
    let found = chat.remote_conversation(&looks, &id);
    let (whose, place) = found.map_err(unavailable)?.ok_or_else(unknown)?;
    let newest = chat.newest_remote_question(&place);
    let open = newest.map_err(unavailable)?;
    // If no one has to sign in, every user of this machine is the only user.
    let caller = match (state.is_local_alone, whose.owner.clone()) {
        (true, Some(owner)) => state.mcp.at_this_machine(owner),
        _ => {
            let caller = caller.ok_or_else(unknown)?;
            let token = open.as_ref().map(|open| open.token.text());
            let approves = |token| chat.to_approve(&place, &caller, &token).is_ok();
            if whose.owner.as_ref() != Some(&caller.client_id) && !token.is_some_and(approves) {
                return Err(unknown());
            }
            caller
        }
    };
    Ok(Waiting {
        caller,
        place,
        open,
    })
}

/// Reads the form: the token of the shown request, and one of two buttons.
fn said(body: &[u8]) -> Option<(Sensitive<String>, bool)> {
    let body = std::str::from_utf8(body).ok()?;
    let (mut token, mut approved) = (None, None);
    for pair in body.split('&') {
        match pair.split_once('=')? {
            ("token", digits) => token = Some(Sensitive(digits.to_owned())),
            ("approved", "yes") => approved = Some(true),
            ("approved", "no") => approved = Some(false),
            _ => return None,
        }
    }
    token.zip(approved)
}

fn asked(open: &OpenQuestion) -> String {
    let ShownRequest {
        tool,
        preview,
        arguments,
        warning,
        because,
        mode: _,
    } = shown_request(&open.question);
    let paragraph = |text: String| format!("<p>{}</p>", escaped(&text));
    let warning = warning.map(|text| paragraph(format!("Look twice: {text}")));
    let because = because.map(|text| paragraph(format!("You are asked because: {text}")));
    format!(
        "<h1>May this call run?</h1>{}{}<p>A program asks for <code>{}</code> with</p><pre>{}</pre>{}\
         <form method=\"post\"><input type=\"hidden\" name=\"token\" value=\"{}\">\
         <button name=\"approved\" value=\"yes\">Approve</button><button name=\"approved\" value=\"no\">Deny</button></form>",
        warning.unwrap_or_default(),
        preview.map(paragraph).unwrap_or_default(),
        escaped(&tool),
        escaped(&arguments),
        because.unwrap_or_default(),
        escaped(open.token.text().expose()),
    )
}

fn page(status: StatusCode, content: &str) -> Response<Body> {
    // Without a referrer of its own a browser sends the form with the origin `null`, which belongs to no page.
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"referrer\" content=\"same-origin\">\
         <title>Approve a call</title><style>{STYLE}</style><body>{content}</body></html>"
    );
    let mut response = typed("text/html; charset=utf-8", html);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_a_token_and_one_of_two_buttons() {
        for (body, expected) in [
            ("token=ab12&approved=yes", Some(("ab12", true))),
            ("token=ab12&approved=no", Some(("ab12", false))),
            ("approved=yes", None),
            ("token=ab12", None),
            ("token=ab12&approved=maybe", None),
            ("token=ab12&approved=yes&more=1", None),
            ("", None),
        ] {
            let read = said(body.as_bytes());
            let read = read.map(|(token, approved)| (token.into_inner(), approved));
            let expected = expected.map(|(token, approved)| (token.to_owned(), approved));
            assert_eq!(read, expected, "{body}");
        }
    }

    #[test]
    fn nothing_of_a_request_is_markup() {
        assert_eq!(
            escaped("<b a='1'>\"&"),
            "&lt;b a=&#39;1&#39;&gt;&quot;&amp;"
        );
    }
}
