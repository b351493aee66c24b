//! The steps before a session: its user, a slot, its open conversation, and the contents of the log. A client with a resume token
//! comes into the running session instead, or the leg is taken over after its process has ended. Knows no message of a client.

use super::resume_registry::{Held, Known, LiveLeg, Registration, Resuming};
use super::session_slot::SessionSlot;
use super::{Admission, Party, Refusal, VoiceService};
use crate::call_driver::LegStart;
use crate::caller::Caller;
use crate::client_protocol::Start;
use crate::ids::token_hash;
use crate::shares::Standing;
use std::pin::Pin;
use std::sync::Arc;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::history::{self, Found};
use windlass_session::client::ErrorCode;
use windlass_session::log_text::{self, Said};
use windlass_session::model::HistoryEntry;
use windlass_session::saved::Saved;
use windlass_store::command::{Command, NewLeg, Reply, Resumed};
use windlass_store::{
    Batch, Beginner, ConversationRef, Hash, Leg, LegRef, NewEntry, PartyKind, Presented,
    StoreUnavailable,
};

/// Entries of a conversation that are read for its words.
const ENTRIES_MAX: usize = 10_000;

/// The destination of a `start`.
pub(super) enum StartOutcome {
    /// A running session of this process.
    Reattach(Arc<LiveLeg>),
    /// A session that begins here, or is resumed here.
    Begin(Box<Prepared>),
}

/// The parts of a session that begins.
pub(super) struct Prepared {
    pub(super) party: Party,
    pub(super) admission: Admission,
    pub(super) live: Arc<LiveLeg>,
    pub(super) registration: Registration,
    pub(super) leg_start: LegStart,
    /// The contents of the conversation, if it is not new.
    pub(super) found: Option<Found>,
    /// The client's own account of a conversation that the store does not know.
    pub(super) account: Vec<NewEntry>,
}

pub(super) type Beginning = Pin<Box<dyn Future<Output = Result<StartOutcome, Refusal>> + Send>>;

/// Begins a new session, if there is room for one.
pub(super) async fn begin(
    service: Arc<VoiceService>,
    standing: Standing,
    caller: Caller,
    mut start: Start,
) -> Result<StartOutcome, Refusal> {
    let party = service.host.admit(&caller, &start)?;
    let slot = match service.resumable.clear(&party.conversation) {
        Some(Held { slot, .. }) => slot,
        None => SessionSlot::take(&service, &standing)?,
    };
    let beginner = standing.beginner();
    let found = open(&service, &party, &beginner).await?;
    let told = std::mem::take(&mut start.history);
    let mut admission = service.host.start(&party, start, None)?;
    let mut account = Vec::new();
    let session = &mut admission.session;
    if let Some(found) = &found {
        session.last_call = found.last_call;
        let bytes_max = session.limits.transcript_characters_max;
        session.history = log_text::history(&found.log, None, bytes_max);
    }
    if session.history.is_empty() {
        account = told.iter().enumerate().map(account_entry).collect();
        session.history = told;
    }
    let leg = new_leg(&service, &party, &admission);
    let grace_seconds = admission.session.limits.restart_grace_seconds;
    let attached = NewLeg {
        leg: leg.leg.clone(),
        mode: leg.mode,
        client_id: leg.client_id.clone(),
        resume_token: leg.resume_token,
        expires_in_ms: grace_seconds.saturating_mul(1_000),
    };
    let leg_start = LegStart::New(attached, beginner);
    let beginnings = Beginnings {
        slot,
        leg,
        leg_start,
        found,
        account,
    };
    let prepared = prepared(&service, party, admission, beginnings);
    Ok(StartOutcome::Begin(Box::new(prepared)))
}

/// Opens the conversation, after everything that is still to be written to it, and reads its contents.
async fn open(
    service: &VoiceService,
    party: &Party,
    beginner: &Beginner,
) -> Result<Option<Found>, Refusal> {
    let (ledger, conversation) = (&*service.shared.ledger, &party.conversation);
    if party.is_new {
        // The session's leg begins the conversation, without a wait for the store.
        let crowded = ledger.store().crowded(&conversation.tenant, beginner);
        return match crowded.map_err(|error| unavailable(&error))? {
            Some(kind) => Err(refused(service, kind)),
            None => Ok(None),
        };
    }
    match ask(service, conversation, Command::Open(beginner.clone())).await? {
        Reply::Foreign => return Err(foreign()),
        Reply::Crowded(kind) => return Err(refused(service, kind)),
        _ => {}
    }
    let found = history::find(ledger, conversation, ENTRIES_MAX);
    found.map(Some).map_err(|error| unavailable(&error))
}

/// Sends one command and waits for its reply.
async fn ask(
    service: &VoiceService,
    conversation: &ConversationRef,
    command: Command,
) -> Result<Reply, Refusal> {
    let replies = service.shared.ledger.apply(Batch {
        conversation: conversation.clone(),
        commands: vec![command],
    });
    let replies = replies.await.map_err(|error| unavailable(&error))?;
    // A command without a reply has changed nothing that a caller waits for.
    Ok(replies.into_iter().next().unwrap_or(Reply::Done))
}

fn account_entry((index, entry): (usize, &HistoryEntry)) -> NewEntry {
    let words = Said::Words {
        role: entry.role,
        text: entry.text.clone(),
        turn: 0,
        message: None,
        citations: Vec::new(),
        images: Vec::new(),
    };
    NewEntry {
        leg_number: None,
        key: Some(format!("account:{index}")),
        event: words.event(),
    }
}

/// A new leg in the store's form.
fn new_leg(service: &VoiceService, party: &Party, admission: &Admission) -> Leg {
    let session = &admission.session;
    Leg {
        leg: session.session_id.clone(),
        mode: session.mode,
        epoch: session.epoch,
        owner: service.shared.ledger.store().owner().clone(),
        client_id: party.caller.client_id.clone(),
        resume_token: token_hash(admission.resume_token.expose()),
        body: Sensitive(Vec::new()),
        last_number: 0,
        is_announced: false,
        expires_at_unix_ms: u64::MAX,
    }
}

/// The session of a token: the running one, or its leg, taken over after its process has ended.
pub(super) async fn resume(
    service: Arc<VoiceService>,
    standing: Standing,
    caller: Caller,
    token: Sensitive<String>,
    start: Start,
) -> Result<StartOutcome, Refusal> {
    let token_hash = token_hash(token.expose());
    loop {
        match service.resumable.find(&token_hash) {
            Known::Live(live) => {
                admitted(&service, &caller, &start, &live.leg, &live.conversation, 0)?;
                return Ok(StartOutcome::Reattach(live));
            }
            // An error means that the other resumption has ended.
            Known::Resuming(mut end) => drop(end.changed().await),
            Known::Free(resuming) => {
                let prepared =
                    take_over(&service, &standing, caller, token, token_hash, start).await?;
                drop::<Resuming<'_>>(resuming);
                return Ok(StartOutcome::Begin(Box::new(prepared)));
            }
        }
    }
}

/// Whether a caller may take a leg over, with the user and the conversation that it names, if it names them. [`Leg::admits`] is
/// the one check on every way in. Returns the caller's credentials.
fn admitted(
    service: &VoiceService,
    caller: &Caller,
    start: &Start,
    leg: &Leg,
    conversation: &ConversationRef,
    now_unix_ms: u64,
) -> Result<Presented, Refusal> {
    let named = start.user_id.as_deref();
    let user_id = service.host.ledger_user(caller, conversation, named);
    let presented = caller.presents(leg.resume_token, user_id, &leg.client_id);
    let id = start.conversation_id.as_deref();
    let is_of_it = id.is_none_or(|id| id == conversation.conversation_id.as_str());
    let is_of_tenant = conversation.tenant == caller.tenant;
    if !is_of_it || !is_of_tenant || !leg.admits(&conversation.user_id, &presented, now_unix_ms) {
        return Err(unknown());
    }
    Ok(presented)
}

/// Has the store give the leg to this process, once there is room for its session.
async fn take_over(
    service: &Arc<VoiceService>,
    standing: &Standing,
    caller: Caller,
    token: Sensitive<String>,
    token_hash: Hash,
    mut start: Start,
) -> Result<Prepared, Refusal> {
    let store = service.shared.ledger.store();
    let leg = store.leg(&token_hash);
    let leg = leg.map_err(|error| unavailable(&error))?;
    let (conversation, leg) = leg.ok_or_else(unknown)?;
    let now_unix_ms = store.now_unix_ms();
    let presented = admitted(service, &caller, &start, &leg, &conversation, now_unix_ms)?;
    saved(&leg)?;
    let slot = SessionSlot::take(service, standing)?;
    let resume = Command::Resume(presented);
    let Reply::Resumed(resumed) = ask(service, &conversation, resume).await? else {
        return Err(unknown());
    };
    let saved = saved(&resumed.leg)?;
    let party = Party {
        caller: caller.in_the_name_of(&resumed.leg.client_id),
        user_id: service.host.user_of(&conversation),
        conversation,
        is_new: false,
    };
    start.history = Vec::new();
    start.pending_request = saved.pending_request.clone();
    let of = LegRef {
        leg: resumed.leg.leg.clone(),
        epoch: resumed.leg.epoch,
    };
    let mut admission = service.host.start(&party, start, Some(&of))?;
    admission.resume_token = token;
    tracing::info!(session = %of.leg, epoch = of.epoch.0, "a session goes on whose process had ended");
    Ok(resumed_session(
        service, party, admission, slot, *resumed, saved,
    ))
}

fn resumed_session(
    service: &Arc<VoiceService>,
    party: Party,
    mut admission: Admission,
    slot: SessionSlot,
    resumed: Resumed,
    saved: Saved,
) -> Prepared {
    let leg = Leg {
        body: Sensitive(Vec::new()),
        expires_at_unix_ms: u64::MAX,
        ..resumed.leg.clone()
    };
    let open_from = saved.open_from();
    let found = history::resumed(&*service.shared.ledger, &party.conversation, resumed, saved);
    let session = &mut admission.session;
    let bytes_max = session.limits.transcript_characters_max;
    session.history = log_text::history(&found.log, Some((&leg.leg, open_from)), bytes_max);
    session.last_call = found.last_call;
    let beginnings = Beginnings {
        slot,
        leg,
        leg_start: LegStart::Resumed,
        found: Some(found),
        account: Vec::new(),
    };
    prepared(service, party, admission, beginnings)
}

/// The saved state of a session. Without one, or with one in an unknown form, the session is not resumed: its conversation goes
/// on in a new one.
fn saved(leg: &Leg) -> Result<Saved, Refusal> {
    let saved = serde_json::from_slice::<Saved>(leg.body.expose()).ok();
    saved.filter(Saved::is_current).ok_or_else(unknown)
}

/// The parts of a session beside its party and admission.
struct Beginnings {
    slot: SessionSlot,
    leg: Leg,
    leg_start: LegStart,
    found: Option<Found>,
    account: Vec<NewEntry>,
}

fn prepared(
    service: &Arc<VoiceService>,
    party: Party,
    mut admission: Admission,
    beginnings: Beginnings,
) -> Prepared {
    let Beginnings {
        slot,
        leg,
        leg_start,
        found,
        account,
    } = beginnings;
    let held = Held {
        slot,
        _lease: std::mem::replace(&mut admission.lease, Box::new(())),
    };
    let live = LiveLeg::new(leg, party.conversation.clone(), held);
    let registration = Registration::new(service, &live);
    Prepared {
        party,
        admission,
        live,
        registration,
        leg_start,
        found,
        account,
    }
}

fn unknown() -> Refusal {
    Refusal::Error {
        code: ErrorCode::ResumeRefused,
        message: "there is no session with this token any more; start a new one".to_owned(),
    }
}

/// The refusal of a party that has as many conversations as its share.
fn refused(service: &VoiceService, kind: PartyKind) -> Refusal {
    Refusal::Error {
        code: ErrorCode::TooManyConversations,
        message: service.host.crowded(kind),
    }
}

fn foreign() -> Refusal {
    Refusal::Error {
        code: ErrorCode::ForeignConversation,
        message: "this conversation belongs to another client; begin one with an id of its own"
            .to_owned(),
    }
}

fn unavailable(error: &StoreUnavailable) -> Refusal {
    tracing::error!(%error, "a session could not begin");
    Refusal::Error {
        code: ErrorCode::Internal,
        message: "the store does not answer; try again later".to_owned(),
    }
}
