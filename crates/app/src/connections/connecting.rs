//! How a user connects: the link that a call or a list gives, the authorization request, and its response. Knows no route.

use super::pending::{PENDING_SECONDS, PendingAuthorization, PendingAuthorizations};
use super::service::Service;
use super::vault::{ConnectionId, Kept};
use super::{ConnectProblem, ConnectionDesk, blocking};
use crate::clock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, MutexGuard, PoisonError};
use windlass_contract::handler::CONNECT_PATH;
use windlass_contract::id::{ClientId, TenantId};
use windlass_contract::sensitive::Sensitive;
use windlass_runtime::ids::{self, NoRandomness};
use windlass_services::oauth::AuthorizationRequest;

/// The path to which authorization servers send users back, with the address of its connection for each: a response from one server is
/// never given to another.
const CALLBACK: &str = "/connections/callback";
/// The beginning of the cookie names of pending authorizations.
const COOKIE_PREFIX: &str = "windlass_connect_";
/// Characters of an authorization's id in the name of its cookie.
const COOKIE_ID_CHARACTERS: usize = 16;
/// How long a link counts.
const LINK_SECONDS: u64 = 600;
/// The purposes of sealed texts.
const LINK: &str = "link";
const STATE: &str = "state";

/// The content of a link to connect.
#[derive(Serialize, Deserialize)]
struct Link {
    connection_id: ConnectionId,
    expires_unix_ms: u64,
}

/// The `state` of an authorization request, which its response repeats.
#[derive(Serialize, Deserialize)]
struct State {
    /// The id of the pending authorization, used once.
    id: String,
    connection_id: ConnectionId,
    expires_unix_ms: u64,
}

/// The address that a browser goes to, and the cookie that it takes along.
#[derive(Debug)]
pub(crate) struct Departure {
    pub(crate) address: String,
    pub(crate) cookie: String,
}

/// The authorization response, as a browser brings it: RFC 6749, section 4.1.2, and `iss` of RFC 9207.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Returned {
    #[serde(default)]
    code: Option<Sensitive<String>>,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

impl ConnectionDesk {
    pub(super) fn link(
        &self,
        service: &Service,
        connection_id: &ConnectionId,
    ) -> Result<String, NoRandomness> {
        let link = Link {
            connection_id: connection_id.clone(),
            expires_unix_ms: clock::now_unix_ms() + LINK_SECONDS * 1_000,
        };
        let sealed = self.seal(LINK, &link)?;
        let origin = service.page_origin.as_deref().unwrap_or_default();
        Ok(format!("{origin}{CONNECT_PATH}?link={sealed}"))
    }

    fn seal(&self, purpose: &str, value: &impl Serialize) -> Result<String, NoRandomness> {
        let text = serde_json::to_vec(value).expect("links and states are plain JSON");
        self.vault.sealer().seal(purpose, &text)
    }

    fn unseal<T: DeserializeOwned>(&self, purpose: &str, sealed: &str) -> Option<T> {
        let text = self.vault.sealer().open(purpose, sealed)?;
        serde_json::from_slice(&text).ok()
    }

    /// Begins an authorization, if the link is its user's. `browser` is the user that it shows, if it shows one.
    pub(crate) async fn depart(
        &self,
        link: &str,
        browser: Option<(&TenantId, &ClientId)>,
        host: Option<&str>,
    ) -> Result<Departure, ConnectProblem> {
        let now_unix_ms = clock::now_unix_ms();
        let link = self.unseal::<Link>(LINK, link);
        let link = link.filter(|link| now_unix_ms < link.expires_unix_ms);
        let Link { connection_id, .. } = link.ok_or(ConnectProblem::BadLink)?;
        let service = self.services.get(&connection_id.connection);
        let service = service.ok_or(ConnectProblem::BadLink)?;
        let is_own = browser == Some((&connection_id.tenant, &connection_id.owner));
        if !is_own && !service.any_browser {
            return Err(ConnectProblem::OtherUser);
        }
        let origin = match (&service.page_origin, host) {
            (Some(origin), _) => origin.clone(),
            (None, Some(host)) => format!("http://{host}"),
            (None, None) => return Err(ConnectProblem::BadLink),
        };
        let (id, secret) = (ids::random_hex()?, ids::random_secret()?);
        let verifier = Sensitive(ids::random_secret()?);
        let redirect = format!("{origin}{CALLBACK}/{}", connection_id.connection);
        let expires_unix_ms = now_unix_ms + PENDING_SECONDS * 1_000;
        let state = self.seal(
            STATE,
            &State {
                id: id.clone(),
                connection_id: connection_id.clone(),
                expires_unix_ms,
            },
        )?;
        let request = AuthorizationRequest {
            redirect: &redirect,
            state: &state,
            verifier: verifier.expose(),
        };
        let (address, names_issuer) = service.client.authorization_address(request).await?;
        let authorization = PendingAuthorization {
            connection_id,
            verifier,
            redirect,
            names_issuer,
            browser: ids::digest(secret.as_bytes()),
            expires_unix_ms,
        };
        let cookie = cookie(
            &id,
            &secret,
            PENDING_SECONDS,
            origin.starts_with("https://"),
        );
        let begun = self.pending().begin(id, authorization, now_unix_ms);
        begun.map_err(|_| ConnectProblem::TooMany)?;
        Ok(Departure { address, cookie })
    }

    fn pending(&self) -> MutexGuard<'_, PendingAuthorizations> {
        // A panic elsewhere leaves it whole: each change is one step.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends an authorization by its response. Returns the title of the service that its user has connected, and the cookie that removes
    /// the authorization's. `cookie_of` gives the browser's value of a cookie.
    pub(crate) async fn arrive(
        self: &Arc<Self>,
        connection: &str,
        returned: Returned,
        cookie_of: impl Fn(&str) -> Vec<String>,
    ) -> Result<(String, String), ConnectProblem> {
        let now_unix_ms = clock::now_unix_ms();
        let state = returned.state.as_deref().unwrap_or_default();
        let state = self.unseal::<State>(STATE, state);
        let state = state.filter(|state| {
            now_unix_ms < state.expires_unix_ms && state.connection_id.connection == connection
        });
        let state = state.ok_or(ConnectProblem::UnknownAuthorization)?;
        // Used up from here on, whatever the browser is.
        let authorization = self.pending().end(&state.id, now_unix_ms);
        let authorization = authorization
            .filter(|authorization| authorization.connection_id == state.connection_id);
        let authorization = authorization.ok_or(ConnectProblem::UnknownAuthorization)?;
        let is_its = |secret: &String| ids::digest(secret.as_bytes()) == authorization.browser;
        if !cookie_of(&cookie_name(&state.id)).iter().any(is_its) {
            return Err(ConnectProblem::UnknownAuthorization);
        }
        let service = self.services.get(&authorization.connection_id.connection);
        let service = service.ok_or(ConnectProblem::UnknownAuthorization)?;
        // Checked before anything else of the response is believed.
        let issuer = returned.iss.as_deref();
        service
            .client
            .judge_issuer(issuer, authorization.names_issuer)?;
        if let Some(error) = &returned.error {
            let word = error.chars().filter(char::is_ascii_graphic).take(64);
            return Err(ConnectProblem::Declined(word.collect()));
        }
        let code = returned.code.ok_or(ConnectProblem::UnknownAuthorization)?;
        let title = service.title.clone();
        let desk = self.clone();
        let connecting = tokio::spawn(async move { desk.connect(authorization, &code).await });
        connecting.await.map_err(|_| ConnectProblem::Ending)??;
        Ok((title, cookie(&state.id, "", 0, false)))
    }

    /// Goes on where the browser leaves meanwhile: a code is good once.
    async fn connect(
        self: Arc<Self>,
        authorization: PendingAuthorization,
        code: &Sensitive<String>,
    ) -> Result<(), ConnectProblem> {
        let PendingAuthorization {
            connection_id,
            verifier,
            redirect,
            ..
        } = authorization;
        let service = self.services.get(&connection_id.connection);
        let service = service.ok_or(ConnectProblem::UnknownAuthorization)?;
        let redeemed = service
            .client
            .redeem(code.expose(), &redirect, verifier.expose());
        let kept = Kept::new(redeemed.await?, clock::now_unix_ms());
        let lock = self.lock_of(&connection_id);
        let _held = lock.lock().await;
        let (desk, put, unkept) = (self.clone(), connection_id.clone(), kept.clone());
        let written = blocking(move || desk.vault.put(&put, &kept)).await;
        if let Err(problem) = written.and_then(|put| Ok(put?)) {
            // Tokens that are not stored could be neither used nor revoked.
            self.take_back(&connection_id, &unkept).await;
            return Err(problem);
        }
        self.note(&connection_id, "connected", None);
        Ok(())
    }
}

fn cookie_name(id: &str) -> String {
    let id: String = id.chars().take(COOKIE_ID_CHARACTERS).collect();
    format!("{COOKIE_PREFIX}{id}")
}

/// The cookie of a pending authorization. The authorization server's page leads back here, which `Strict` would not let it come along with.
fn cookie(id: &str, secret: &str, seconds: u64, is_secure: bool) -> String {
    let name = cookie_name(id);
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={secret}; Path=/connections; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}
