//! Sessions whose process has ended: what each leaves in the store, and how a client that holds its token goes on in another.
//! The token speaks for whoever shows it, but for one who names another user or shows to be another client, and not for a user who has signed in.

use super::place::{Living, Place};
use super::tokens::Tokens;
use super::{Admission, Refusal, VoiceService, unix_ms};
use crate::caller::{Acquaintance, Caller};
use crate::client_protocol::Start;
use crate::effects::{Left, TakeOver, known_question, ledger_entries};
use crate::subscriber::SessionIdentity;
use serde::{Deserialize, Serialize};
use std::pin::Pin;
use std::sync::Arc;
use windlass_session::client::ErrorCode;
use windlass_session::session::{Session, SessionConfig};
use windlass_session::snapshot::{Restored, Snapshot};
use windlass_session::under_way::UnderWay;
use windlass_store::{ResumeTokens, StoreUnavailable};
use windlass_tool::id::ClientId;
use windlass_tool::sensitive::Sensitive;

/// What the store keeps of a session.
#[derive(Serialize, Deserialize)]
struct Body<'a> {
    /// Whose it is.
    client_id: ClientId,
    /// The client that came with a token last: it may show itself by another id than that.
    #[serde(default)]
    bearer: Option<ClientId>,
    snapshot: std::borrow::Cow<'a, Snapshot>,
}

/// A session that goes on in another.
pub(super) struct TakenUp {
    /// As the session that it left knew it.
    pub(super) caller: Caller,
    pub(super) admission: Admission,
    pub(super) before: Before,
}

/// What a session takes over from the one whose place it has, if it has one's.
pub(super) struct Before {
    pub(super) restored: Option<Box<Restored>>,
    pub(super) tokens: Tokens,
    pub(super) living: Living,
    /// Who came with the token, as far as that shows itself.
    pub(super) bearer: Option<ClientId>,
}

impl Before {
    /// For a session that begins as itself.
    pub(super) fn nothing(place: Place, admission: &Admission) -> Self {
        Self {
            restored: None,
            tokens: Tokens::first(&admission.resume_token, None),
            living: place.living(admission),
            bearer: None,
        }
    }
}

pub(super) type TakingUp = Pin<Box<dyn Future<Output = Result<TakenUp, Refusal>> + Send>>;

/// The session as the store is to keep it.
pub(super) fn saved(
    identity: &SessionIdentity,
    session: &Session,
    tokens: ResumeTokens,
    bearer: Option<&ClientId>,
) -> Option<windlass_store::Snapshot> {
    let snapshot = session.snapshot();
    stored(identity, session.config(), &snapshot, tokens, bearer)
}

fn stored(
    identity: &SessionIdentity,
    config: &SessionConfig,
    snapshot: &Snapshot,
    tokens: ResumeTokens,
    bearer: Option<&ClientId>,
) -> Option<windlass_store::Snapshot> {
    let body = Body {
        client_id: identity.client_id.clone(),
        bearer: bearer.cloned(),
        snapshot: std::borrow::Cow::Borrowed(snapshot),
    };
    let body = serde_json::to_vec(&body)
        .inspect_err(|error| tracing::error!(%error, "a session cannot be written down"))
        .ok()?;
    let grace_ms = config.limits.restart_grace_seconds.saturating_mul(1_000);
    Some(windlass_store::Snapshot {
        session_id: identity.session_id.clone(),
        conversation_id: identity.conversation_id.clone(),
        user_id: identity.user_id.clone(),
        tokens,
        body: Sensitive(body),
        expires_at_unix_ms: unix_ms().saturating_add(grace_ms),
    })
}

/// Finds what the token's session left, has the host begin another for it, and gives the one's place to the other in one
/// transaction. Until that is done, the token stays what it was.
pub(super) async fn take_up(
    service: Arc<VoiceService>,
    caller: Caller,
    token: [u8; 32],
    start: Start,
) -> Result<TakenUp, Refusal> {
    let (found, body) = left_to(&service, &caller, token, &start).await?;
    let place = Place::take(&service)?;
    let mut snapshot = body.snapshot.into_owned();
    let bearer = caller.keeper().cloned().or(body.bearer);
    let caller = in_the_name_of(body.client_id, caller);
    let is_nameless = found.user_id.as_str() == caller.client_id.as_str();
    let start = Start {
        user_id: (!is_nameless).then(|| found.user_id.to_string()),
        conversation_id: Some(found.conversation_id.to_string()),
        history: snapshot.history.clone(),
        pending_request: snapshot.pending_request.clone(),
        resume: None,
        ..start
    };
    let mut admission = service.host.start(&caller, start)?;
    if admission.session.user_id != found.user_id {
        return Err(unknown());
    }
    // What was said meanwhile is in the host's account alone, and what the user waits for an answer to is asked again.
    snapshot.hear_account(&admission.session.history);
    admission.session.history.clone_from(&snapshot.history);
    let session = &admission.session;
    let identity = SessionIdentity::of(caller.client_id.clone(), session);
    let tokens = Tokens::first(&admission.resume_token, Some(token));
    // From the moment that the store has it, the shown token leads to this session, which is not to be taken from itself.
    let living = place.living(&admission);
    let take_over = TakeOver {
        token_hash: token,
        before: found.session_id.clone(),
        snapshot: stored(
            &identity,
            session,
            &snapshot,
            tokens.stored(),
            bearer.as_ref(),
        )
        .ok_or_else(unknown)?,
        now_unix_ms: admission.world.now_unix_ms(),
    };
    let left = service.shared.store.take_over(take_over).wait().await;
    let left = left.map_err(|error| unavailable(&error))?;
    let left = left.ok_or_else(unknown)?;
    tracing::info!(before = %found.session_id, session = %session.session_id, "a session goes on whose process had ended");
    let under_way = service.shared.store.under_way();
    let restored = Some(Box::new(restored(snapshot, left, under_way)));
    let before = Before {
        restored,
        tokens,
        living,
        bearer,
    };
    Ok(TakenUp {
        caller,
        admission,
        before,
    })
}

/// What the token's session left, where that is the caller's to go on with.
async fn left_to(
    service: &VoiceService,
    caller: &Caller,
    token: [u8; 32],
    start: &Start,
) -> Result<(windlass_store::Snapshot, Body<'static>), Refusal> {
    let found = service.shared.store.snapshot(token, unix_ms()).wait().await;
    let found = found.map_err(|error| unavailable(&error))?;
    let found = found.ok_or_else(unknown)?;
    if service.places.knows(&found.session_id) {
        return Err(unknown());
    }
    let body: Body<'static> = serde_json::from_slice(found.body.expose()).map_err(|_| unknown())?;
    let is_theirs = is_theirs(service, caller, start, &found);
    let known = [Some(&body.client_id), body.bearer.as_ref()];
    let is_other = known
        .into_iter()
        .flatten()
        .all(|id| caller.is_other_than(id));
    if !is_theirs || is_other || !body.snapshot.is_current() {
        return Err(unknown());
    }
    Ok((found, body))
}

/// A caller that has shown nothing but the token speaks for the client whose it was.
fn in_the_name_of(client_id: ClientId, caller: Caller) -> Caller {
    match caller.client_id == client_id {
        true => caller,
        false => Caller {
            client_id,
            acquaintance: Acquaintance::Passing,
        },
    }
}

/// Whether a session is the one that its user and conversation are named of, as far as they are.
fn is_theirs(
    service: &VoiceService,
    caller: &Caller,
    start: &Start,
    found: &windlass_store::Snapshot,
) -> bool {
    let named = start.user_id.as_deref();
    let conversation = start.conversation_id.as_deref();
    named.is_none_or(|named| service.host.user(caller, named) == found.user_id)
        && conversation.is_none_or(|id| id == found.conversation_id.as_str())
}

fn restored(snapshot: Snapshot, left: Left, under_way: &UnderWay) -> Restored {
    Restored {
        questions: left.grants.into_iter().filter_map(known_question).collect(),
        effects: ledger_entries(left.effects, under_way),
        has_read: left.has_read,
        snapshot,
    }
}

fn unknown() -> Refusal {
    Refusal::Error {
        code: ErrorCode::ResumeRefused,
        message: "there is no session with this token any more; start a new one".to_owned(),
    }
}

fn unavailable(error: &StoreUnavailable) -> Refusal {
    tracing::error!(%error, "a session could not be taken up");
    Refusal::Error {
        code: ErrorCode::Internal,
        message: "the store does not answer; try again later with the same token".to_owned(),
    }
}
