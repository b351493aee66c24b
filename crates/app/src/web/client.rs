//! Which client a request comes from: who it has proven to be, or the id that this server signed and a browser keeps as a
//! cookie. Knows no session.

use super::ServerState;
use super::peer::Peer;
use crate::access::{Identified, Purpose, Refused, Showing, SocketPeer, cookies};
use http::header::{COOKIE, ORIGIN};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderValue};
use std::net::IpAddr;
use windlass_runtime::caller::{Acquaintance, Caller};
use windlass_runtime::ids::NoRandomness;
use windlass_runtime::shares::{Party, Standing};

const COOKIE_NAME: &str = "windlass_client";
/// 400 days, the longest that browsers keep a cookie.
const COOKIE_SECONDS: u32 = 34_560_000;

/// Why a request has no caller.
#[derive(Debug)]
pub(super) enum NoCaller {
    Refused(Refused),
    Broken(NoRandomness),
}

/// What a request shows of its caller.
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

/// Who the caller has proven to be, or the id that this server signed for the client, or a new one with the cookie that carries
/// it. Browsers are known by their origin.
pub(super) async fn client(
    state: &ServerState,
    showing: Showing<'_>,
    is_secure: bool,
) -> Result<(Caller, Option<HeaderValue>), NoCaller> {
    let headers = showing.headers;
    if let Some(caller) = known(state, showing).await? {
        return Ok((caller, None));
    }
    let minted = state.client_key.mint().map_err(NoCaller::Broken)?;
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE_NAME}={}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict{secure}",
        minted.text
    );
    let cookie = HeaderValue::from_str(&cookie).expect("an id and its signature are digits");
    let acquaintance = match headers.contains_key(ORIGIN) {
        true => Acquaintance::Kept,
        false => Acquaintance::Passing,
    };
    let caller = Caller::unproven(minted.client_id, acquaintance);
    Ok((caller, Some(cookie)))
}

/// The same where nobody is to be given a new id.
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

/// Whose shares a client uses: those of its address, of itself where it has shown who it is, and of its tenant.
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

/// The id that this server signed, in a cookie.
fn signed(state: &ServerState, headers: &HeaderMap) -> Option<windlass_tool::id::ClientId> {
    headers.get(COOKIE)?;
    cookies(headers, COOKIE_NAME).find_map(|text| state.client_key.verify(text))
}
