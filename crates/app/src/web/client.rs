//! The client of a request: its proven identity, or the id that this server signed. The server's own page keeps the id as a cookie;
//! pages of other origins, which no cookie reaches, and programs keep the same text and send it in a header. Knows no session.

use super::peer::Peer;
use super::{ServerState, origin};
use crate::access::{Identified, Purpose, Refused, Showing, SocketPeer, cookies};
use http::header::{HeaderName, ORIGIN, SEC_WEBSOCKET_PROTOCOL, SET_COOKIE};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue};
use std::net::IpAddr;
use windlass_contract::id::ClientId;
use windlass_runtime::caller::{Acquaintance, Caller};
use windlass_runtime::ids::NoRandomness;
use windlass_runtime::shares::{Party, Standing};
use windlass_store::StoreUnavailable;

const COOKIE_NAME: &str = "windlass_client";
/// The same text, for clients without cookies: the server's answer has it, and the client sends it back.
pub(super) const CLIENT_HEADER: HeaderName = HeaderName::from_static("x-windlass-client");
/// How the page that sends a request stands to this server, as a browser sees it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The prefix of the id in `Sec-WebSocket-Protocol`: a page sets no headers where it opens a WebSocket.
const CLIENT_PROTOCOL: &str = "client.";
/// 400 days, the longest that browsers keep a cookie.
const COOKIE_SECONDS: u32 = 34_560_000;

/// Why a request has no caller.
#[derive(Debug)]
pub(super) enum NoCaller {
    Refused(Refused),
    Broken(NoRandomness),
}

/// The evidence that a request gives of its caller.
pub(super) fn showing(head: &Parts, purpose: Purpose) -> Showing<'_> {
    Showing {
        headers: &head.headers,
        query: head.uri.query(),
        peer: peer(&head.extensions),
        purpose,
    }
}

/// The address at the other end of the connection.
pub(super) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<SocketPeer>().map(|peer| peer.0)
}

/// An id that was made for a client, as the answer gives it.
#[derive(Debug)]
pub(super) struct MintedClient {
    cookie: HeaderValue,
    /// The text for clients that the cookie does not reach.
    token: Option<HeaderValue>,
}

impl MintedClient {
    pub(super) fn give(self, headers: &mut HeaderMap) {
        headers.insert(SET_COOKIE, self.cookie);
        if let Some(token) = self.token {
            headers.insert(CLIENT_HEADER, token);
        }
    }
}

/// The caller's proven identity, or the id that this server signed for the client, or a new one. Browsers are known by their origin.
pub(super) async fn client(
    state: &ServerState,
    showing: Showing<'_>,
    is_secure: bool,
) -> Result<(Caller, Option<MintedClient>), NoCaller> {
    let headers = showing.headers;
    if let Some(caller) = known(state, showing).await? {
        return Ok((caller, None));
    }
    let minted = state.client_key.mint().map_err(NoCaller::Broken)?;
    let text = HeaderValue::from_str(&minted.text).expect("an id and its signature are digits");
    let acquaintance = match headers.contains_key(ORIGIN) {
        true => Acquaintance::Kept,
        false => Acquaintance::Passing,
    };
    let caller = Caller::unproven(minted.client_id, acquaintance);
    let given = MintedClient {
        cookie: cookie(&minted.text, COOKIE_SECONDS, is_secure),
        // Scripts of the server's own page must not read the content of its cookie.
        token: (!is_of_own_page(headers)).then_some(text),
    };
    Ok((caller, Some(given)))
}

/// Whether a page of this server's own sends a request. Where it reads something, a browser names no origin.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE);
    origin::is_own(headers) || site.is_some_and(|site| site == "same-origin")
}

/// The cookie of an id. One of no seconds is thrown away by the browser.
fn cookie(text: &str, seconds: u32, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE_NAME}={text}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    HeaderValue::from_str(&cookie).expect("a cookie of ours is plain text")
}

/// Ends the id that a request shows, in the browser and here.
pub(super) fn end(
    state: &ServerState,
    headers: &HeaderMap,
) -> Result<HeaderValue, StoreUnavailable> {
    if let Some(client_id) = signed(state, headers) {
        state.ended_clients.end(client_id)?;
    }
    Ok(cookie("", 0, false))
}

/// The same, but never makes a new id.
pub(super) async fn known(
    state: &ServerState,
    showing: Showing<'_>,
) -> Result<Option<Caller>, NoCaller> {
    let identified = state.access.identify(showing).await;
    Ok(match identified.map_err(NoCaller::Refused)? {
        Some(Identified { proven, .. }) => Some(Caller::proven(proven)),
        None => signed(state, showing.headers).map(Caller::known),
    })
}

/// The parties whose shares a client uses: its address, itself if it has shown its identity, and its tenant.
pub(super) fn standing(state: &ServerState, peer: Option<&Peer>, caller: &Caller) -> Standing {
    let tenant = caller.tenant.clone();
    let mut parties: Vec<Party> = peer
        .map(|peer| Party::address(peer.0))
        .into_iter()
        .collect();
    // An id that was made a moment ago has used nothing. A client that has one made for each request gains nothing by it.
    if caller.acquaintance == Acquaintance::Shown {
        parties.push(Party::User(tenant.clone(), caller.client_id.clone()));
    }
    parties.push(Party::Tenant(tenant));
    Standing::new(state.shares.clone(), parties)
}

/// The id that this server signed, if it still counts. An id that the page sends itself wins over the cookie's.
fn signed(state: &ServerState, headers: &HeaderMap) -> Option<ClientId> {
    let texts = |name: &HeaderName| {
        let values = headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok())
    };
    let by_protocol = texts(&SEC_WEBSOCKET_PROTOCOL)
        .flat_map(|value| value.split(','))
        .filter_map(|protocol| protocol.trim().strip_prefix(CLIENT_PROTOCOL));
    texts(&CLIENT_HEADER)
        .chain(by_protocol)
        .chain(cookies(headers, COOKIE_NAME))
        .filter_map(|text| state.client_key.verify(text))
        .find(|client_id| !state.ended_clients.has(client_id))
}
