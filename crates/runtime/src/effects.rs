//! What a session asks of the store about its effects and confirmations, and how the store's answers become inputs of the
//! core. Mints tokens and ids; knows no policy.

mod inherited;
mod questions;
mod snapshots;

use crate::ids::{self, NoRandomness};
use crate::store_thread::{Closing, Pending, Reading, StoreHandle};
use crate::subscriber::SessionIdentity;
pub use inherited::{Ended, inherited};
pub(crate) use inherited::{approval, unsought};
pub(crate) use questions::{not_proposed, propose};
use serde::Deserialize;
use serde_json::json;
pub(crate) use snapshots::known_question;
pub use snapshots::{Left, SnapshotStore, TakeOver};
use std::sync::Arc;
use windlass_session::io::{
    Begun, Input, LedgerEntry, OutcomeRecord, OutcomeState, Remembered, Reservation,
    ReservationError, ReservationRefusal, ReserveRequest, Spared, Wish,
};
use windlass_session::under_way::UnderWay;
use windlass_store::{
    Decline, Effect, EffectState, GrantRefusal, Outcome, Recorded, Reserve, ReserveRefusal,
    Reserved, Store, StoreUnavailable, Transaction,
};
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallNumber, EffectId};
use windlass_tool::sensitive::Sensitive;

/// How far back a session is told what the conversation has changed (`docs/policies.md`, "The same call twice").
const LEDGER_MS: u64 = 24 * 60 * 60 * 1000;

/// A request to the store that ends in an input of the core, or in none.
pub type Work =
    Box<dyn FnMut(&mut dyn Transaction) -> Result<Option<Input>, StoreUnavailable> + Send>;

/// What is written down in the transaction that stores a question to the user, so that neither is there without the other.
pub type Beside = Box<dyn FnMut(&mut dyn Transaction) -> Result<(), StoreUnavailable> + Send>;

/// The store as sessions use it.
pub trait EffectStore: SnapshotStore {
    /// Which sessions of this process are at which of its effects.
    fn under_way(&self) -> &UnderWay;
    fn ask(&self, work: Work) -> Answer<Option<Input>>;
    /// The same behind whatever was left to be written before.
    fn ask_behind_all(&self, work: Work) -> Answer<Option<Input>>;
    fn reserve(&self, request: Reserve) -> Answer<Reserved>;
    fn record(&self, outcome: Outcome) -> Answer<Recorded>;
    /// Notes that a model of this conversation has read what others wrote, before whatever is asked later.
    fn note_reading(&self, reading: Reading) -> Answer<()>;
    /// Notes that nobody may approve a question any more, before whatever is asked later.
    fn close_question(&self, closing: Closing) -> Answer<()>;
}

/// An answer of the store: at hand already, or to be awaited.
pub enum Answer<T> {
    Ready(Result<T, StoreUnavailable>),
    Pending(Pending<T>),
}

impl<T> Answer<T> {
    pub(crate) async fn wait(self) -> Result<T, StoreUnavailable> {
        match self {
            Self::Ready(answer) => answer,
            Self::Pending(pending) => pending.await,
        }
    }
}

impl EffectStore for StoreHandle {
    fn under_way(&self) -> &UnderWay {
        StoreHandle::under_way(self)
    }

    fn ask(&self, work: Work) -> Answer<Option<Input>> {
        Answer::Pending(StoreHandle::ask(self, work))
    }

    fn ask_behind_all(&self, work: Work) -> Answer<Option<Input>> {
        Answer::Pending(StoreHandle::ask_behind_all(self, work))
    }

    fn reserve(&self, request: Reserve) -> Answer<Reserved> {
        Answer::Pending(StoreHandle::reserve(self, request))
    }

    fn record(&self, outcome: Outcome) -> Answer<Recorded> {
        Answer::Pending(StoreHandle::record(self, outcome))
    }

    fn note_reading(&self, reading: Reading) -> Answer<()> {
        Answer::Pending(StoreHandle::note_reading(self, reading))
    }

    fn close_question(&self, closing: Closing) -> Answer<()> {
        Answer::Pending(StoreHandle::close_question(self, closing))
    }
}

/// A store that is asked where it stands: for one session at a time, and for tests.
pub struct DirectStore {
    store: Arc<dyn Store>,
    under_way: UnderWay,
    is_of_one_session: bool,
}

impl DirectStore {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            under_way: UnderWay::default(),
            is_of_one_session: false,
        }
    }

    /// The same for a session whose conversation no other one is of: what is read in it is not written down.
    pub fn of_one_session(store: Arc<dyn Store>) -> Self {
        Self {
            is_of_one_session: true,
            ..Self::new(store)
        }
    }
}

impl EffectStore for DirectStore {
    fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    fn ask(&self, work: Work) -> Answer<Option<Input>> {
        Answer::Ready(self.store.ask(work))
    }

    fn ask_behind_all(&self, work: Work) -> Answer<Option<Input>> {
        self.ask(work)
    }

    fn reserve(&self, request: Reserve) -> Answer<Reserved> {
        Answer::Ready(self.store.ask(|transaction| transaction.reserve(&request)))
    }

    fn record(&self, outcome: Outcome) -> Answer<Recorded> {
        Answer::Ready(self.store.ask(|transaction| transaction.record(&outcome)))
    }

    fn note_reading(&self, reading: Reading) -> Answer<()> {
        Answer::Ready(match self.is_of_one_session {
            true => Ok(()),
            false => self.store.ask(|transaction| reading.note(transaction)),
        })
    }

    fn close_question(&self, closing: Closing) -> Answer<()> {
        Answer::Ready(self.store.ask(|transaction| closing.note(transaction)))
    }
}

/// What another session has made of an effect that one is about to look up; nothing where it is not settled.
pub(crate) fn settled(call: CallNumber, effect_id: EffectId) -> Work {
    Box::new(move |transaction| {
        let effect = transaction.effect(&effect_id)?;
        let settled = effect.filter(|effect| !effect.state.is_open());
        Ok(settled.map(|effect| Input::LookupSpared {
            call,
            reason: Spared::Settled(Box::new(ledger_entry(effect))),
        }))
    })
}

/// What the ledger has of an effect for whose end a user waits.
pub(crate) fn awaited(call: CallNumber, effect_id: EffectId) -> Work {
    Box::new(move |transaction| {
        let effect = transaction.effect(&effect_id)?;
        let entry = effect.map(ledger_entry).map(Box::new);
        Ok(Some(Input::EffectAwaited { call, entry }))
    })
}

pub(crate) fn ledger(session: &SessionIdentity, under_way: UnderWay, now_unix_ms: u64) -> Work {
    let conversation = session.conversation_id.clone();
    Box::new(move |transaction| {
        let effects = snapshots::changed(transaction, &conversation, now_unix_ms)?;
        let has_read = transaction.has_read(&conversation, now_unix_ms)?;
        let remembered = remembered(effects, has_read, &under_way);
        Ok(Some(Input::Ledger(Ok(remembered))))
    })
}

fn remembered(effects: Vec<Effect>, has_read: bool, under_way: &UnderWay) -> Remembered {
    Remembered {
        effects: ledger_entries(effects, under_way),
        has_read,
    }
}

/// Whoever is at an effect lets go of it when its outcome is stored, so that one without an outcome which nobody is at has lost
/// its process.
pub(crate) fn ledger_entries(effects: Vec<Effect>, under_way: &UnderWay) -> Vec<LedgerEntry> {
    let entry = |effect: Effect| LedgerEntry {
        is_under_way: effect.state.is_open() && !under_way.is_free(&effect.effect_id),
        ..ledger_entry(effect)
    };
    effects.into_iter().map(entry).collect()
}

/// What is told to the core where the ledger cannot be read.
pub(crate) fn unread(error: &StoreUnavailable) -> Input {
    Input::Ledger(Err(unavailable(error)))
}

pub(crate) fn ledger_entry(effect: Effect) -> LedgerEntry {
    LedgerEntry {
        response: response_of(&effect),
        wish: wish_of(&effect),
        fingerprint: effect.fingerprint,
        effect_id: effect.effect_id,
        tool: effect.tool,
        state: match effect.state {
            EffectState::Succeeded => OutcomeState::Succeeded,
            EffectState::Failed => OutcomeState::Failed,
            // Whoever reserved it is not here any more to say how it ended.
            EffectState::Reserved | EffectState::Unknown => OutcomeState::Unknown,
        },
        is_answered: effect.is_answered,
        is_under_way: false,
        reserved_at_unix_ms: effect.reserved_at_unix_ms,
    }
}

/// What an effect was asked for with; of one that says nothing of it, nothing.
fn wish_of(effect: &Effect) -> Wish {
    #[derive(Deserialize)]
    struct Intent {
        wish: Wish,
    }
    let intent = serde_json::from_str::<Intent>(effect.intent.expose());
    intent.map(|intent| intent.wish).unwrap_or_default()
}

fn response_of(effect: &Effect) -> Option<Arc<ToolResponse>> {
    let text = effect.response.as_ref()?.expose();
    serde_json::from_str(text).ok().map(Arc::new)
}

pub(crate) fn declined(session: &SessionIdentity, token_hash: [u8; 32]) -> Closing {
    Closing::Declined(Decline {
        token_hash,
        conversation_id: session.conversation_id.clone(),
        user_id: session.user_id.clone(),
    })
}

pub(crate) fn mark_answered(effect_id: EffectId) -> Work {
    Box::new(move |transaction| transaction.mark_answered(&effect_id).map(|_| None))
}

pub(crate) fn reserve(
    session: &SessionIdentity,
    request: &ReserveRequest,
    now_unix_ms: u64,
) -> Result<Reserve, ReservationError> {
    let intent = json!({
        "sessionId": session.session_id,
        "callId": request.call.to_string(),
        "turn": request.turn,
        "wish": request.wish,
        "confirmed": request.grant.is_some(),
    });
    Ok(Reserve {
        effect_id: effect_id(request.effect_id.as_ref(), now_unix_ms)?,
        conversation_id: session.conversation_id.clone(),
        user_id: session.user_id.clone(),
        tool: request.tool.clone(),
        tool_version: request.tool_version.to_string(),
        fingerprint: request.fingerprint,
        grant: request.grant,
        read_by_none_but: request.minds_reading.then(|| session.session_id.clone()),
        intent: Sensitive(intent.to_string()),
        now_unix_ms,
    })
}

pub(crate) fn reserved(
    call: CallNumber,
    effect_id: EffectId,
    answer: Result<Reserved, StoreUnavailable>,
) -> Reservation {
    let outcome = match answer {
        Ok(Reserved::Reserved) => Ok(Begun::first(effect_id)),
        Ok(Reserved::ReservedAgain) => Ok(Begun {
            effect_id,
            may_be_done: true,
        }),
        Ok(Reserved::Refused(refusal)) => Err(refused(refusal)),
        Err(error) => Err(ReservationRefusal::Unavailable(unavailable(&error))),
    };
    Reservation { call, outcome }
}

fn refused(refusal: ReserveRefusal) -> ReservationRefusal {
    match refusal {
        ReserveRefusal::Open(effect) => ReservationRefusal::Open(effect.effect_id),
        ReserveRefusal::Done(effect) => ReservationRefusal::Done(response_of(&effect)),
        ReserveRefusal::Full => ReservationRefusal::Full,
        ReserveRefusal::Read => ReservationRefusal::Read,
        ReserveRefusal::Grant(refusal) => match refusal {
            GrantRefusal::Unknown | GrantRefusal::Foreign => ReservationRefusal::GrantUnknown,
            GrantRefusal::Expired => ReservationRefusal::GrantExpired,
            GrantRefusal::Declined => ReservationRefusal::GrantDeclined,
            GrantRefusal::Consumed(effect) => {
                let response = effect.as_deref().and_then(response_of);
                ReservationRefusal::GrantConsumed(response)
            }
        },
    }
}

pub(crate) fn outcome(record: &OutcomeRecord, now_unix_ms: u64) -> Outcome {
    let response = record.response.as_ref().map(|response| {
        let text = serde_json::to_string(&**response.expose());
        Sensitive(text.expect("a response has text keys and finite numbers"))
    });
    Outcome {
        effect_id: record.effect_id.clone(),
        state: match record.state {
            OutcomeState::Succeeded => windlass_store::OutcomeState::Succeeded,
            OutcomeState::Failed => windlass_store::OutcomeState::Failed,
            OutcomeState::Unknown => windlass_store::OutcomeState::Unknown,
        },
        response,
        now_unix_ms,
    }
}

fn effect_id(kept: Option<&EffectId>, now_unix_ms: u64) -> Result<EffectId, ReservationError> {
    match kept {
        Some(effect_id) => Ok(effect_id.clone()),
        None => ids::effect_id(now_unix_ms).map_err(no_randomness),
    }
}

fn no_randomness(error: NoRandomness) -> ReservationError {
    ReservationError {
        problem: error.to_string(),
    }
}

fn unavailable(error: &StoreUnavailable) -> ReservationError {
    ReservationError {
        problem: error.to_string(),
    }
}
