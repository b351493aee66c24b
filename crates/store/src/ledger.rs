//! Effects as the ledger keeps them: what is stored, what may follow what, and the one decision about a reservation that
//! every store takes the same way. Knows no SQL, no policy of a session and no clock.

use crate::grant::{Grant, GrantRefusal, GrantState};
use crate::{Hash, StoreUnavailable, TIME_MAX_UNIX_MS};
use windlass_tool::id::{ConversationId, EffectId, SessionId, ToolId, UserId};
use windlass_tool::sensitive::Sensitive;

/// Intended changes in the outside world, each kept from before it starts until its retention ends.
pub trait Ledger {
    /// Stores the intention to run an effect, uses up its grant where it has one, and keeps the audit's record of the
    /// intention, all in this transaction. A refusal changes nothing.
    fn reserve(&mut self, request: &Reserve) -> Result<Reserved, StoreUnavailable>;

    /// Stores how an effect ended, or what became known of it later. A definite outcome is never overwritten; one that
    /// follows upon "unknown" has not reached the model, whatever that had.
    fn record(&mut self, outcome: &Outcome) -> Result<Recorded, StoreUnavailable>;

    /// Notes that the effect's answer has reached the model. False where there is no such effect.
    fn mark_answered(&mut self, effect_id: &EffectId) -> Result<bool, StoreUnavailable>;

    fn effect(&mut self, effect_id: &EffectId) -> Result<Option<Effect>, StoreUnavailable>;

    /// The effects of a conversation that were reserved or changed at or after a time, oldest first.
    fn effects_of(
        &mut self,
        conversation_id: &ConversationId,
        since_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable>;

    /// Effects whose attempt has ended, however, without their responses: the one that was reserved last comes first. Goes on
    /// behind an effect of an earlier answer, or begins. At most [`SETTLED_MAX`] at once.
    fn settled(&mut self, behind: Option<&Effect>) -> Result<Vec<Effect>, StoreUnavailable>;

    /// Marks as unknown what was reserved before a time and has no outcome, and returns it, so that the audit can say so.
    /// The time must lie further back than any handler may run. At most [`ABANDONED_MAX`] at once.
    fn abandon(
        &mut self,
        reserved_before_unix_ms: u64,
        now_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable>;
}

/// How many effects one [`Ledger::abandon`] settles.
pub const ABANDONED_MAX: usize = 1_000;

/// How many effects one [`Ledger::settled`] returns.
pub const SETTLED_MAX: usize = 500;

/// A wish to run an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Minted by the driver; that of an earlier attempt where the wish failed definitely before, or is unknown.
    pub effect_id: EffectId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    pub tool: ToolId,
    pub tool_version: String,
    /// SHA-256 over tool, tool version, user and canonical arguments.
    pub fingerprint: Hash,
    /// The hash of the token with which the user approved it.
    pub grant: Option<Hash>,
    /// Refused where a model has read what others wrote in any other session of the conversation; `None` where that does not
    /// matter.
    pub read_by_none_but: Option<SessionId>,
    /// What the audit is to know of the intention, as JSON: enough to say afterwards what was begun, should nothing ever
    /// be heard of it again.
    pub intent: Sensitive<String>,
    pub now_unix_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// Durable once the transaction is.
    Reserved,
    /// The same of an effect that was begun before, and of which nobody knows how that ended.
    ReservedAgain,
    Refused(ReserveRefusal),
}

impl Reserved {
    pub fn may_start(&self) -> bool {
        match self {
            Self::Reserved | Self::ReservedAgain => true,
            Self::Refused(_) => false,
        }
    }
}

/// Why an effect may not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReserveRefusal {
    /// The same wish was reserved and has no definite outcome. A grant lets that very effect be tried again, and begins no other
    /// beside it.
    Open(Box<Effect>),
    /// This very effect has happened.
    Done(Box<Effect>),
    Grant(GrantRefusal),
    /// The conversation has as many effects as the ledger keeps of one.
    Full,
    /// A model of the conversation has read what others wrote, which the request does not allow. It could have been reserved
    /// otherwise.
    Read,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectState {
    /// It may have started. Where nobody runs it any more, nobody knows whether it happened.
    Reserved,
    Succeeded,
    /// It has definitely not happened.
    Failed,
    /// It was started, and how it ended is not known.
    Unknown,
}

impl EffectState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Reserved, Self::Succeeded, Self::Failed, Self::Unknown]
            .into_iter()
            .find(|state| state.as_str() == text)
    }

    /// Whether the same wish must not run again without the user's word.
    pub fn is_open(self) -> bool {
        match self {
            Self::Reserved | Self::Unknown => true,
            Self::Succeeded | Self::Failed => false,
        }
    }
}

/// One effect, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub effect_id: EffectId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    pub tool: ToolId,
    pub tool_version: String,
    pub fingerprint: Hash,
    pub state: EffectState,
    /// The recorded answer in its JSON form; `None` before the outcome, and where it was too long to keep.
    pub response: Option<Sensitive<String>>,
    /// The model has read the answer.
    pub is_answered: bool,
    pub intent: Sensitive<String>,
    pub reserved_at_unix_ms: u64,
    /// Of the last change of its state.
    pub changed_at_unix_ms: u64,
}

/// How an effect ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub effect_id: EffectId,
    pub state: OutcomeState,
    /// The answer in its JSON form. A longer one than the store keeps is left out, and the state is kept all the same.
    pub response: Option<Sensitive<String>>,
    pub now_unix_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeState {
    Succeeded,
    Failed,
    Unknown,
}

impl From<OutcomeState> for EffectState {
    fn from(state: OutcomeState) -> Self {
        match state {
            OutcomeState::Succeeded => Self::Succeeded,
            OutcomeState::Failed => Self::Failed,
            OutcomeState::Unknown => Self::Unknown,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    Stored,
    /// It had a definite outcome already, which stays.
    Kept(Box<Effect>),
    /// There is no such effect, or its retention is over.
    Missing,
}

impl Reserve {
    /// Whether other questions of this effect may be open, which were asked before it is begun by this request: what their
    /// texts say of it will not hold any more.
    pub(crate) fn outdates_questions(&self, same_effect: Option<&Effect>) -> bool {
        self.grant.is_some() || same_effect.is_some()
    }

    pub(crate) fn outdates(&self, grant: &Grant) -> bool {
        grant.state == GrantState::Open
            && grant.conversation_id == self.conversation_id
            && grant.effect_id == self.effect_id
            && self.grant != Some(grant.token_hash)
    }
}

impl Effect {
    fn has_failed(&self) -> bool {
        self.state == EffectState::Failed
    }

    fn is_of(&self, request: &Reserve) -> bool {
        self.conversation_id == request.conversation_id
            && self.user_id == request.user_id
            && self.tool == request.tool
            && self.fingerprint == request.fingerprint
    }

    /// What a reservation that was granted leaves in the ledger. An earlier attempt's response goes.
    pub(crate) fn begun(request: &Reserve) -> Self {
        let now_unix_ms = request.now_unix_ms.min(TIME_MAX_UNIX_MS);
        Self {
            effect_id: request.effect_id.clone(),
            conversation_id: request.conversation_id.clone(),
            user_id: request.user_id.clone(),
            tool: request.tool.clone(),
            tool_version: request.tool_version.clone(),
            fingerprint: request.fingerprint,
            state: EffectState::Reserved,
            response: None,
            is_answered: false,
            intent: request.intent.clone(),
            reserved_at_unix_ms: now_unix_ms,
            changed_at_unix_ms: now_unix_ms,
        }
    }
}

impl Outcome {
    pub(crate) fn kept_response(&self, bytes_max: usize) -> Option<&Sensitive<String>> {
        let response = self.response.as_ref();
        response.filter(|response| response.expose().len() <= bytes_max)
    }
}

/// What a store found that bears on a reservation.
#[derive(Debug)]
pub(crate) struct Found {
    /// The one that the request names.
    pub(crate) grant: Option<Grant>,
    /// Under the request's effect id.
    pub(crate) same_effect: Option<Effect>,
    /// Another effect of the conversation with the same fingerprint, reserved or unknown.
    pub(crate) open_wish: Option<Effect>,
    /// Effects of the conversation.
    pub(crate) effects: usize,
    /// The request minds what was read in the conversation, and something was.
    pub(crate) is_read: bool,
}

/// Whether an effect may be reserved: the rule of every store. The grant is judged first, so that a second click learns
/// what became of the first one.
pub(crate) fn decide(request: &Reserve, found: Found, effects_max: usize) -> Reserved {
    let refused = Reserved::Refused;
    if let Some(token_hash) = &request.grant {
        let verdict = match found.grant {
            None => match found.same_effect {
                // The user has approved it another way, and it was done: the question was closed with that.
                Some(done) if done.state == EffectState::Succeeded && done.is_of(request) => {
                    return refused(ReserveRefusal::Done(Box::new(done)));
                }
                // The same, and how that ended is not known: nobody has said yes to another try.
                Some(open) if open.state.is_open() && open.is_of(request) => {
                    return refused(ReserveRefusal::Open(Box::new(open)));
                }
                Some(_) | None => Err(GrantRefusal::Unknown),
            },
            Some(grant) => grant.admits(token_hash, request, found.same_effect.as_ref()),
        };
        if let Err(refusal) = verdict {
            return refused(ReserveRefusal::Grant(refusal));
        }
    }
    // Whoever gave a grant was not asked about that one.
    if found.same_effect.as_ref().is_none_or(Effect::has_failed)
        && let Some(open) = found.open_wish
    {
        return refused(ReserveRefusal::Open(Box::new(open)));
    }
    let is_granted = request.grant.is_some();
    let mut verdict = Reserved::Reserved;
    match found.same_effect {
        None if found.effects >= effects_max => return refused(ReserveRefusal::Full),
        None => {}
        Some(effect) => match effect.state {
            EffectState::Failed => {}
            // Nobody is at it any more: whoever is, the process that reserves knows. Its process was killed, and how it ended
            // is as little known as of an effect that is recorded so.
            EffectState::Unknown | EffectState::Reserved if is_granted => {
                verdict = Reserved::ReservedAgain;
            }
            EffectState::Unknown | EffectState::Reserved => {
                return refused(ReserveRefusal::Open(Box::new(effect)));
            }
            EffectState::Succeeded => return refused(ReserveRefusal::Done(Box::new(effect))),
        },
    }
    if found.is_read {
        return refused(ReserveRefusal::Read);
    }
    verdict
}

/// Whether an outcome may follow a state: a definite one stays for good.
pub(crate) fn may_follow(state: EffectState) -> bool {
    state.is_open()
}
