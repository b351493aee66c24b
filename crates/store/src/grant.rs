//! Grants: what the user was asked, by the hash of a token, and what became of it. Knows no token, no policy of a session
//! and no clock.

use crate::ledger::{Effect, Reserve};
use crate::{Hash, StoreLimits, StoreUnavailable, TIME_MAX_UNIX_MS};
use windlass_tool::id::{ConversationId, EffectId, ToolId, UserId};
use windlass_tool::sensitive::Sensitive;

/// Questions to users and their answers. [`Ledger::reserve`](crate::Ledger::reserve) uses a grant up.
pub trait Grants {
    /// Keeps a question until it runs out. Where the conversation has an open one about the same wish, both are about one effect,
    /// so that it begins once, whichever is approved.
    fn propose(&mut self, proposal: &Proposal) -> Result<Proposed, StoreUnavailable>;

    fn grant(&mut self, token_hash: &Hash) -> Result<Option<Grant>, StoreUnavailable>;

    /// The questions of a conversation that wait for their answer, those that run out first at the front.
    fn open_grants(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Vec<Grant>, StoreUnavailable>;

    /// The questions of a conversation whose time is not up, answered ones too, in the same order.
    fn grants_of(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Vec<Grant>, StoreUnavailable>;

    /// The user said no. A refusal changes nothing.
    fn decline(&mut self, answer: &Decline) -> Result<Declined, StoreUnavailable>;

    /// Gives an open question a new token and end; the old token is unknown afterwards. `None` where the old one is not
    /// open any more, or the new one is taken.
    fn renew(&mut self, renewal: &Renewal) -> Result<Option<Grant>, StoreUnavailable>;

    /// Forgets an open question. False where it was not open.
    fn revoke(&mut self, token_hash: &Hash) -> Result<bool, StoreUnavailable>;
}

/// What the user is asked, and all that an approval is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// SHA-256 of the token; the token itself is never kept.
    pub token_hash: Hash,
    pub effect_id: EffectId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    pub tool: ToolId,
    pub tool_version: String,
    /// SHA-256 over tool, tool version, user and canonical arguments.
    pub fingerprint: Hash,
    /// The canonical arguments that were shown, as JSON: those that run.
    pub arguments: Sensitive<String>,
    /// The text that was shown.
    pub preview: Sensitive<String>,
    /// The user is told that this very effect may have happened.
    pub says_unknown: bool,
    pub expires_at_unix_ms: u64,
    pub now_unix_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// Durable once the transaction is. With the effect that an approval lets start: that of another open question about the
    /// same wish where there is one.
    Stored(EffectId),
    /// The same wish was reserved and has no definite outcome, of which the user would not be told.
    Begun(Box<Effect>),
    /// Arguments or preview are longer than the store keeps.
    TooLong,
    /// The conversation has as many open questions as it may have.
    TooMany,
    /// The token was given before.
    TokenTaken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantState {
    Open,
    Declined,
    /// It let its effect start, once.
    Consumed,
}

impl GrantState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Declined => "declined",
            Self::Consumed => "consumed",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Open, Self::Declined, Self::Consumed]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// A question, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub token_hash: Hash,
    pub effect_id: EffectId,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
    pub tool: ToolId,
    pub tool_version: String,
    pub fingerprint: Hash,
    pub arguments: Sensitive<String>,
    pub preview: Sensitive<String>,
    pub state: GrantState,
    pub expires_at_unix_ms: u64,
}

/// The user's no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decline {
    pub token_hash: Hash,
    pub conversation_id: ConversationId,
    pub user_id: UserId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declined {
    Declined(Box<Grant>),
    Refused(GrantRefusal),
}

/// A new token for an open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    pub token_hash: Hash,
    pub new_token_hash: Hash,
    pub expires_at_unix_ms: u64,
    pub now_unix_ms: u64,
}

/// Why a token does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantRefusal {
    /// No question has it, or its question has been forgotten.
    Unknown,
    Expired,
    /// It was given to another conversation, user, tool or version, for other arguments or another effect.
    Foreign,
    /// The user said no.
    Declined,
    /// It is used up. What became of its effect; `None` where that is not kept any more.
    Consumed(Option<Box<Effect>>),
}

impl Proposal {
    pub(crate) fn is_too_long(&self, limits: &StoreLimits) -> bool {
        [&self.arguments, &self.preview]
            .iter()
            .any(|text| text.expose().len() > limits.grant_bytes_max)
    }
}

impl Grant {
    pub(crate) fn of(proposal: &Proposal, effect_id: EffectId) -> Self {
        Self {
            token_hash: proposal.token_hash,
            effect_id,
            conversation_id: proposal.conversation_id.clone(),
            user_id: proposal.user_id.clone(),
            tool: proposal.tool.clone(),
            tool_version: proposal.tool_version.clone(),
            fingerprint: proposal.fingerprint,
            arguments: proposal.arguments.clone(),
            preview: proposal.preview.clone(),
            state: GrantState::Open,
            expires_at_unix_ms: proposal.expires_at_unix_ms.min(TIME_MAX_UNIX_MS),
        }
    }

    pub(crate) fn is_open(&self, now_unix_ms: u64) -> bool {
        self.state == GrantState::Open && now_unix_ms < self.expires_at_unix_ms
    }

    /// Whether the grant lets a reservation pass. A stranger learns nothing of its state.
    pub(crate) fn admits(
        &self,
        token_hash: &Hash,
        request: &Reserve,
        effect: Option<&Effect>,
    ) -> Result<(), GrantRefusal> {
        let is_bound = self.token_hash == *token_hash
            && self.conversation_id == request.conversation_id
            && self.user_id == request.user_id
            && self.tool == request.tool
            && self.tool_version == request.tool_version
            && self.fingerprint == request.fingerprint
            && self.effect_id == request.effect_id;
        if !is_bound {
            return Err(GrantRefusal::Foreign);
        }
        self.counts(request.now_unix_ms, effect)
    }

    /// Whether the user may still say no.
    pub(crate) fn may_be_declined(
        &self,
        answer: &Decline,
        effect: Option<&Effect>,
    ) -> Result<(), GrantRefusal> {
        if self.conversation_id != answer.conversation_id || self.user_id != answer.user_id {
            return Err(GrantRefusal::Foreign);
        }
        // A no counts though its time is up: a clock that was set back must not make it a question again.
        self.is_unanswered(effect)
    }

    fn counts(&self, now_unix_ms: u64, effect: Option<&Effect>) -> Result<(), GrantRefusal> {
        if now_unix_ms >= self.expires_at_unix_ms {
            return Err(GrantRefusal::Expired);
        }
        self.is_unanswered(effect)
    }

    fn is_unanswered(&self, effect: Option<&Effect>) -> Result<(), GrantRefusal> {
        match self.state {
            GrantState::Open => Ok(()),
            GrantState::Declined => Err(GrantRefusal::Declined),
            GrantState::Consumed => Err(GrantRefusal::Consumed(effect.cloned().map(Box::new))),
        }
    }
}
