//! How a connection begins: which revision the server speaks, and the handshake of the older one. Knows no tool.

use super::link::{AskError, Asked, Link, Offers, Wire};
use super::listing::ListError;
use super::message::{
    CLIENT, HANDSHAKE, HANDSHAKES, Nothing, Revision, STATELESS, UNSUPPORTED_VERSION,
    is_of_stateless, object,
};
use super::process::LISTENING;
use crate::worker::wire::{self, RpcError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use windlass_contract::error::FailureKind;

/// The requests that come before every other one.
const DISCOVER: u64 = 1;
const INITIALIZE: u64 = 2;
const DISCOVER_AGAIN: u64 = 3;

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotOpened {
    pub(super) problem: String,
    /// The failure of a call that needs the connection. Nothing was done.
    pub(super) kind: FailureKind,
}

impl NotOpened {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            kind: FailureKind::Transient,
        }
    }

    /// The error for a list that cannot be read.
    pub(super) fn of_list(error: &ListError) -> Self {
        match error {
            ListError::Asking(asked) => Self {
                problem: error.for_log(),
                ..Self::of(asked)
            },
            ListError::Unreadable(_) => Self::new(error.for_log()),
        }
    }

    fn of(error: &AskError) -> Self {
        match error {
            AskError::Status(answer) if matches!(answer.status, 401 | 403) => Self {
                problem: format!(
                    "the server answered {}: it wants to know who asks; set `bearer` or `headers` in its section of the configuration",
                    answer.status
                ),
                kind: FailureKind::Auth,
            },
            error => Self::new(error.for_log()),
        }
    }
}

/// The outcome of a request for the newer revision.
enum Probed {
    Stateless(Discovered),
    /// A server of the older revision, or of none.
    Older,
    Failed(NotOpened),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovered {
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: String,
    #[serde(default)]
    capabilities: Value,
}

/// The outcome of a handshake.
struct Shaken {
    version: &'static str,
    offers: Offers,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    protocol_version: &'static str,
    capabilities: Nothing,
    client_info: super::message::ClientInfo,
}

/// Settles how a server is spoken to that is a program. A program that says nothing to the newer revision is asked in the older one as well:
/// until it has started, nobody can tell which of the two it is.
///
/// `Err` with `true` where the server broke off, so that another process may be asked in the older revision alone.
pub(super) async fn open_process(
    wire: Wire,
    until: Instant,
    is_known_older: bool,
) -> Result<Link, (NotOpened, bool)> {
    if is_known_older {
        let settled = handshake(&wire, until).await;
        let settled = settled.map_err(|error| (error, false))?;
        return Ok(shaken(wire, settled).await);
    }
    match settle(&wire, until).await {
        Ok(Settled::Stateless(discovered)) => Ok(stateless(wire, &discovered)),
        Ok(Settled::Shaken(settled)) => Ok(shaken(wire, settled).await),
        Err(error) => Err((error, true)),
    }
}

/// Which revision a server speaks, with the handshake where it is the older one.
enum Settled {
    Stateless(Discovered),
    Shaken(Shaken),
}

async fn settle(wire: &Wire, until: Instant) -> Result<Settled, NotOpened> {
    let half = Instant::now() + until.saturating_duration_since(Instant::now()) / 2;
    let discovering = discover(wire, until);
    tokio::pin!(discovering);
    if let Ok(probed) = timeout_at(half, &mut discovering).await {
        return match probed {
            Probed::Stateless(discovered) => Ok(Settled::Stateless(discovered)),
            Probed::Failed(error) => Err(error),
            Probed::Older => handshake(wire, until).await.map(Settled::Shaken),
        };
    }
    let shaking = handshake(wire, until);
    tokio::pin!(shaking);
    tokio::select! {
        probed = &mut discovering => match probed {
            Probed::Stateless(discovered) => Ok(Settled::Stateless(discovered)),
            Probed::Failed(error) => Err(error),
            Probed::Older => shaking.await.map(Settled::Shaken),
        },
        settled = &mut shaking => settled.map(Settled::Shaken),
    }
}

/// The same of a server over HTTP.
pub(super) async fn open_http(wire: Wire, until: Instant) -> Result<Link, NotOpened> {
    match settle(&wire, until).await? {
        Settled::Stateless(discovered) => Ok(stateless(wire, &discovered)),
        Settled::Shaken(settled) => Ok(shaken(wire, settled).await),
    }
}

async fn discover(wire: &Wire, until: Instant) -> Probed {
    let asked = match ask_discover(wire, DISCOVER, until).await {
        // One of several servers at an address may know the revision that another has just refused.
        Err(AskError::Refused(refusal)) if names(&refusal, &[STATELESS]) => {
            ask_discover(wire, DISCOVER_AGAIN, until).await
        }
        asked => asked,
    };
    let error = match asked {
        Ok(result) => {
            return match object::<Discovered>(&result) {
                Some(discovered) => chosen(discovered),
                // Some older servers answer everything with something.
                None => Probed::Older,
            };
        }
        Err(error) => error,
    };
    match &error {
        AskError::Refused(refusal) if refusal.code == UNSUPPORTED_VERSION => supported(refusal),
        AskError::Refused(refusal) if is_of_stateless(refusal.code) => {
            Probed::Failed(NotOpened::of(&error))
        }
        error if is_of_older(error, wire) => Probed::Older,
        error => Probed::Failed(NotOpened::of(error)),
    }
}

async fn ask_discover(wire: &Wire, id: u64, until: Instant) -> Result<Box<RawValue>, AskError> {
    let revision = Revision::Stateless;
    let params = json!({ "_meta": revision.meta() });
    let asked = Asked::new(id, "server/discover", &params, until)?;
    wire.ask(asked, Some(&revision)).await
}

/// Whether a server that refuses a version says that it speaks one of these.
fn names(refusal: &RpcError, known: &[&str]) -> bool {
    let versions = refusal.data.as_ref().and_then(|data| data.get("supported"));
    let mut versions = versions.and_then(Value::as_array).into_iter().flatten();
    refusal.code == UNSUPPORTED_VERSION
        && versions.any(|version| known.iter().any(|known| version == known))
}

/// Whether a server fails so that knows neither the method nor its headers: some say it with one status, some with another, and some
/// break the connection off.
fn is_of_older(error: &AskError, wire: &Wire) -> bool {
    match error {
        AskError::Refused(_) | AskError::SessionOver => true,
        AskError::Status(answer) => matches!(answer.status, 400 | 404..=501),
        AskError::Lost(_) => matches!(wire, Wire::Http(_)),
        AskError::NotSent(_) => false,
    }
}

fn chosen(discovered: Discovered) -> Probed {
    let has = |version: &str| {
        let mut versions = discovered.supported_versions.iter();
        versions.any(|known| known == version)
    };
    if has(STATELESS) {
        return Probed::Stateless(discovered);
    }
    match HANDSHAKES.iter().any(|version| has(version)) {
        true => Probed::Older,
        false => Probed::Failed(speaks_neither()),
    }
}

/// Judges a server that does not speak the newer revision, by the revisions that its refusal names.
fn supported(refusal: &RpcError) -> Probed {
    match names(refusal, &HANDSHAKES) {
        true => Probed::Older,
        false => Probed::Failed(speaks_neither()),
    }
}

fn speaks_neither() -> NotOpened {
    NotOpened {
        problem: format!(
            "the server speaks neither revision {STATELESS} nor {HANDSHAKE} of the protocol"
        ),
        kind: FailureKind::Permanent,
    }
}

/// Which version of the older revisions the server settles on.
async fn handshake(wire: &Wire, until: Instant) -> Result<Shaken, NotOpened> {
    let params = Initialize {
        protocol_version: HANDSHAKE,
        capabilities: Nothing {},
        client_info: CLIENT,
    };
    let asked = Asked::new(INITIALIZE, "initialize", &params, until)
        .map_err(|error| NotOpened::of(&error))?;
    let result = wire.ask(asked, None).await;
    let result = result.map_err(|error| NotOpened::of(&error))?;
    let settled = object::<Initialized>(&result)
        .ok_or_else(|| NotOpened::new("the server's answer to `initialize` cannot be read"))?;
    let mut known = HANDSHAKES.into_iter();
    let version = known.find(|version| *version == settled.protocol_version);
    Ok(Shaken {
        version: version.ok_or_else(speaks_neither)?,
        offers: Offers::of(&settled.capabilities),
    })
}

/// How long a server may take to hear that the handshake is over.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

async fn shaken(wire: Wire, Shaken { version, offers }: Shaken) -> Link {
    let link = Link::new(wire, Revision::Handshake(version), offers, DISCOVER_AGAIN);
    let mut line = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}".to_vec();
    match &link.wire {
        Wire::Process(process) => {
            line.push(b'\n');
            process.tell(line);
        }
        Wire::Http(http) => {
            // A server that does not take it says so again at the next request.
            if let Err(problem) = http.tell(line, &link.revision, TOLD_WITHIN).await {
                tracing::debug!(problem, "an MCP server did not hear that it is initialized");
            }
        }
    }
    link
}

fn stateless(wire: Wire, discovered: &Discovered) -> Link {
    let tells = discovered.capabilities.pointer("/tools/listChanged");
    let offers = Offers::of(&discovered.capabilities);
    let link = Link::new(wire, Revision::Stateless, offers, DISCOVER_AGAIN);
    // Over HTTP that would take a connection of its own: there the list is asked for again after a time.
    if let (Wire::Process(process), Some(Value::Bool(true))) = (&link.wire, tells) {
        let params = json!({
            "_meta": link.revision.meta(),
            "notifications": { "toolsListChanged": true },
        });
        if let Ok(tail) = wire::tail("subscriptions/listen", &params) {
            process.tell(wire::request(LISTENING, &tail));
        }
    }
    link
}
