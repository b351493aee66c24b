//! Which client a request comes from: the id that this server signed and a browser keeps as a cookie. Knows no session.

use super::State;
use super::peer::Peer;
use crate::users;
use http::header::{COOKIE, ORIGIN};
use http::{HeaderMap, HeaderValue};
use windlass_runtime::caller::{Acquaintance, Caller};
use windlass_runtime::shares::{Party, Standing};
use windlass_tool::id::{ClientId, TenantId};

const COOKIE_NAME: &str = "windlass_client";
/// 400 days, the longest that browsers keep a cookie.
const COOKIE_SECONDS: u32 = 34_560_000;

/// The user whom the proxy has named, or the id that this server signed for the client, or a new one with the cookie that
/// carries it. Browsers are known by their origin.
pub(super) fn client(
    state: &State,
    headers: &HeaderMap,
    is_secure: bool,
) -> Result<(Caller, Option<HeaderValue>), String> {
    if let Some(client_id) = known(state, headers) {
        return Ok((Caller::known(client_id), None));
    }
    let minted = state.client_key.mint().map_err(|error| error.to_string())?;
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE_NAME}={}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict{secure}",
        minted.text
    );
    let cookie = HeaderValue::from_str(&cookie).map_err(|error| error.to_string())?;
    let acquaintance = match headers.contains_key(ORIGIN) {
        true => Acquaintance::Kept,
        false => Acquaintance::Passing,
    };
    let caller = Caller {
        client_id: minted.client_id,
        acquaintance,
    };
    Ok((caller, Some(cookie)))
}

/// The same where nobody is to be given a new id.
pub(super) fn known(state: &State, headers: &HeaderMap) -> Option<ClientId> {
    users::signed_in(headers, state.user_header.as_ref())
        .or_else(|| cookies(headers).find_map(|text| state.client_key.verify(text)))
}

/// Whose shares a client uses: those of its address, of itself where it has shown who it is, and of its tenant.
pub(super) fn standing(state: &State, peer: Option<&Peer>, caller: &Caller) -> Standing {
    let tenant = TenantId::default();
    let mut parties: Vec<Party> = peer
        .map(|peer| Party::address(peer.0))
        .into_iter()
        .collect();
    // An id that was made a moment ago has used nothing, and is of no use to whoever has one made for each request.
    if caller.acquaintance == Acquaintance::Shown {
        parties.push(Party::User(tenant.clone(), caller.client_id.clone()));
    }
    parties.push(Party::Tenant(tenant));
    Standing::new(state.shares.clone(), parties)
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
}
