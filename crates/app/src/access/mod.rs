//! The authentication of callers: by an API key, by a ticket, by a token of an OpenID provider, by the page's cookie, or by a proxy's
//! word. Decides who a caller is; knows no route, no session and no tool.

pub(crate) mod cost;
mod ended;
mod key_file;
mod key_ring;
pub(crate) mod oidc;
mod proxy;
mod signed_out;
mod tickets;

pub(crate) use ended::EndedClients;
pub(crate) use key_file::{KeyChange, KeyFile, KeyFileError, NewKey, StoredKey};
pub(crate) use tickets::{Grant, GrantedName, Means, PAGE_COOKIE, TicketTerms, no_page_cookie};

use crate::failure::Failure;
use crate::{clock, users};
use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE, HeaderName, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use key_ring::{KeyId, KeyRing};
use oidc::{Oidc, TokenProblem};
use proxy::ProxyRule;
use signed_out::SignedOut;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tickets::{PageSessions, TicketOffice, TicketProblem};
use windlass_config::{AuthKind, Config};
use windlass_contract::kind::Mode;
use windlass_runtime::caller::{Proven, Validity};
use windlass_runtime::client_key::ClientKey;

/// The prefix of a ticket in `Sec-WebSocket-Protocol`.
const TICKET_PROTOCOL: &str = "ticket.";

/// The address at the other end of a connection, in the extensions of each of its requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketPeer(pub(crate) IpAddr);

/// The rules of one server for who may use it.
pub(crate) struct Access {
    pub(crate) is_required: bool,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) tickets: TicketOffice,
    pub(crate) pages: PageSessions,
    pub(crate) oidc: Option<Arc<Oidc>>,
    /// The audience (`aud`) that tokens name at `/mcp`, where that is another resource than the rest.
    mcp_resource: Option<String>,
    proxy: Option<ProxyRule>,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Voice,
    Text,
    /// The page wants to be signed in.
    Page,
    /// A message of an MCP client.
    Mcp,
    /// Anything else, for which no ticket is given.
    Other,
}

/// The evidence that a request gives of its caller.
#[derive(Clone, Copy)]
pub(crate) struct Showing<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: Option<&'a str>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) purpose: Purpose,
}

/// Why a caller does not come in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error(
        "sign in first: show an API key or a token as `Authorization: Bearer …`, or a ticket; \
         docs/security.md says how"
    )]
    Missing,
    #[error("{0}")]
    Invalid(&'static str),
    #[error("{0}")]
    Unavailable(&'static str),
}

/// A caller, and the means by which it is known.
#[derive(Clone, Debug)]
pub(crate) struct Identified {
    pub(crate) proven: Proven,
    pub(crate) means: Means,
    /// The key behind the caller, if there is one.
    pub(crate) key: Option<KeyId>,
}

enum Credential<'a> {
    Key(&'a str),
    Ticket(&'a str),
    Token(&'a str),
}

impl Access {
    /// # Errors
    ///
    /// The keys cannot be read, or the server would let everybody in whom its address reaches.
    pub(crate) fn open(
        config: &Config,
        address: SocketAddr,
        client_key: &Arc<ClientKey>,
    ) -> Result<Self, Failure> {
        let keys = KeyRing::open(&config.folders.data).map_err(Failure::of)?;
        let oidc = config.access.oidc.as_ref();
        let proxy = ProxyRule::of(&config.server);
        let has_way = !keys.is_empty() || oidc.is_some() || proxy.is_some();
        let is_loopback = address.ip().is_loopback();
        let is_required = match config.access.auth {
            AuthKind::None if is_loopback => false,
            AuthKind::None => return Err(open_to_all(address, "access.auth is \"none\"")),
            AuthKind::Required => true,
            AuthKind::Auto => !is_loopback || !keys.is_empty() || oidc.is_some(),
        };
        if is_required && !has_way {
            return Err(match is_loopback {
                true => Failure::Failed(format!(
                    "access.auth is \"required\" and nobody could sign in: {WAYS}"
                )),
                false => open_to_all(address, "nobody has to sign in"),
            });
        }
        let access = &config.access;
        let signed_out = SignedOut::open(&config.folders.data, clock::now_unix_ms());
        let signed_out = signed_out.map_err(Failure::of)?;
        Ok(Self {
            is_required,
            keys: Arc::new(keys),
            tickets: TicketOffice::new(access).map_err(Failure::of)?,
            pages: PageSessions::new(client_key.clone(), access.page_minutes.get(), signed_out),
            oidc: oidc.map(|oidc| Oidc::new(oidc).map(Arc::new)).transpose()?,
            mcp_resource: config
                .mcp_server
                .resource
                .as_ref()
                .map(|address| address.as_str().to_owned()),
            proxy,
        })
    }

    /// The proven identity of a caller; `None` where it has proven nothing, and does not have to.
    pub(crate) async fn identify(
        &self,
        showing: Showing<'_>,
    ) -> Result<Option<Identified>, Refused> {
        let known = match credential(&showing)? {
            Some(Credential::Key(key)) => Some(self.by_key(key)?),
            Some(Credential::Ticket(ticket)) => Some(self.by_ticket(ticket, &showing)?),
            Some(Credential::Token(token)) => self.by_token(token, showing.purpose).await?,
            None => None,
        };
        let known = known
            .or_else(|| self.by_page(showing.headers))
            .or_else(|| self.by_proxy(&showing));
        match known {
            None if self.is_required => Err(Refused::Missing),
            known => Ok(known),
        }
    }

    fn by_key(&self, key: &str) -> Result<Identified, Refused> {
        const UNKNOWN: Refused = Refused::Invalid("this API key is not known here, or was revoked");
        let (id, proven) = self.keys.find(key).ok_or(UNKNOWN)?;
        Ok(Identified {
            proven,
            means: Means::Key,
            key: Some(id),
        })
    }

    fn by_ticket(&self, ticket: &str, showing: &Showing<'_>) -> Result<Identified, Refused> {
        let mode = match showing.purpose {
            Purpose::Voice => Some(Mode::Voice),
            Purpose::Text => Some(Mode::Text),
            Purpose::Page | Purpose::Mcp | Purpose::Other => None,
        };
        let origin = showing.headers.get(ORIGIN);
        let used_for = TicketTerms {
            mode,
            origin: origin.and_then(|origin| origin.to_str().ok().map(str::to_owned)),
        };
        let grant = self
            .tickets
            .redeem(ticket, &used_for, clock::now_unix_ms())
            .map_err(|problem| match problem {
                TicketProblem::Full => {
                    Refused::Unavailable("too many tickets are in use; try again later")
                }
                TicketProblem::Unknown => {
                    Refused::Invalid("this ticket was not made by this server, or was used before")
                }
                TicketProblem::Expired => {
                    Refused::Invalid("this ticket has expired; ask for a new one")
                }
                TicketProblem::OtherMode => Refused::Invalid("this ticket is for the other mode"),
                TicketProblem::OtherOrigin => {
                    Refused::Invalid("this ticket is for pages of another origin")
                }
            })?;
        self.of_grant(grant, Means::Ticket)
            .ok_or(Refused::Invalid("the key behind this ticket was revoked"))
    }

    /// The caller that a grant names, if the key behind the grant still counts.
    fn of_grant(&self, grant: Grant, means: Means) -> Option<Identified> {
        let validity = match &grant.key {
            Some(key) => self.keys.validity(key)?,
            None => Validity::default(),
        };
        Some(Identified {
            key: grant.key.clone(),
            proven: grant.proven(validity),
            means,
        })
    }

    async fn by_token(&self, token: &str, purpose: Purpose) -> Result<Option<Identified>, Refused> {
        let Some(oidc) = &self.oidc else {
            // Programs of OpenAI's protocol send a key whether anybody wants one or not.
            return match self.is_required {
                true => Err(Refused::Invalid(
                    "this is no API key and no ticket of this server, and it takes no other tokens",
                )),
                false => Ok(None),
            };
        };
        // A token that was made for one resource opens no other one.
        let resource = self.mcp_resource.as_deref();
        let resource = resource.filter(|_| purpose == Purpose::Mcp);
        match oidc.verify(token, resource).await {
            Ok(proven) => Ok(Some(Identified {
                proven,
                means: Means::Token,
                key: None,
            })),
            Err(problem) => Err(refused_token(problem)),
        }
    }

    /// An invalid cookie counts as none.
    fn by_page(&self, headers: &HeaderMap) -> Option<Identified> {
        let mut shown = cookies(headers, PAGE_COOKIE);
        let now_unix_ms = clock::now_unix_ms();
        let grant = shown.find_map(|text| self.pages.open(text, now_unix_ms))?;
        self.of_grant(grant, Means::Page)
    }

    fn by_proxy(&self, showing: &Showing<'_>) -> Option<Identified> {
        let proven = self.proxy.as_ref()?.user(showing.headers, showing.peer)?;
        Some(Identified {
            proven,
            means: Means::Proxy,
            key: None,
        })
    }
}

pub(crate) fn refused_token(problem: TokenProblem) -> Refused {
    match problem {
        TokenProblem::Invalid(cause) => {
            tracing::debug!(cause, "a token was refused");
            Refused::Invalid(
                "this token does not count here: it is not of the configured issuer and audience, or has expired",
            )
        }
        TokenProblem::KeysUnavailable => Refused::Unavailable(
            "the keys of the token's issuer cannot be fetched now; try again later",
        ),
    }
}

/// The values of the cookies of this name.
pub(crate) fn cookies<'h>(headers: &'h HeaderMap, name: &'h str) -> impl Iterator<Item = &'h str> {
    headers
        .get_all(COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

fn credential<'a>(showing: &Showing<'a>) -> Result<Option<Credential<'a>>, Refused> {
    if let Some(value) = only(showing.headers, &AUTHORIZATION)? {
        let bearer = value
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // Other schemes are for a proxy in front of this server.
        return Ok(bearer.map(|(_, shown)| Credential::of(shown.trim())));
    }
    if showing.purpose != Purpose::Voice {
        return Ok(None);
    }
    // A browser cannot set headers where it opens a WebSocket.
    let by_protocol = showing
        .headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|protocol| protocol.trim().strip_prefix(TICKET_PROTOCOL));
    let by_query = || {
        let mut pairs = showing.query.unwrap_or_default().split('&');
        pairs.find_map(|pair| pair.strip_prefix("ticket="))
    };
    Ok(by_protocol.or_else(by_query).map(Credential::Ticket))
}

impl<'a> Credential<'a> {
    fn of(shown: &'a str) -> Self {
        if shown.starts_with(key_file::KEY_PREFIX) {
            Self::Key(shown)
        } else if shown.starts_with(tickets::TICKET_PREFIX) {
            Self::Ticket(shown)
        } else {
            Self::Token(shown)
        }
    }
}

fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, Refused> {
    const ODD: Refused =
        Refused::Invalid("the request has more than one Authorization, or one that cannot be read");
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| ODD),
        (Some(_), Some(_)) => Err(ODD),
    }
}

/// How a server can be given a way in.
const WAYS: &str = "make an API key with `windlass keys add NAME`, set access.oidc.issuer and access.oidc.audience, or \
                    set server.user_header behind a proxy that signs users in";

fn open_to_all(address: SocketAddr, why: &str) -> Failure {
    Failure::Failed(format!(
        "others could reach {address}, and {why}: {WAYS}; or listen on a loopback address, as in --listen 127.0.0.1:8080"
    ))
}

/// Whether a text can be the name of a user: of a sensible length, without invisible characters.
pub(crate) fn is_user_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= users::NAME_CHARACTERS_MAX
        && !name.chars().any(char::is_control)
}
