//! The questions that the user has been asked, by the hash of each one's token, and what became of them. Knows when a token
//! stops to count; nothing of why a call needs one.

use crate::calls::Call;
use crate::io::TokenHash;
use crate::time::Timestamp;
use std::sync::Arc;
use windlass_tool::envelope::ToolResponse;
use windlass_tool::id::{CallNumber, EffectId, ToolId};

/// Questions for whose end nobody waits that are remembered for tokens that come again; the oldest make room.
const RESOLVED_MAX: usize = 32;
/// Answers to one question that wait for what comes of it; more are not answered.
const ASKERS_MAX: u32 = 64;

#[derive(Debug)]
pub(crate) struct Confirmation {
    pub(crate) question: Question,
    pub(crate) state: ConfirmationState,
}

/// What a question is known by.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) call: CallNumber,
    pub(crate) token_hash: TokenHash,
    pub(crate) effect_id: EffectId,
    /// By the session's own time: a wall clock that jumps neither ends nor prolongs it.
    pub(crate) expires_at: Timestamp,
}

#[derive(Debug)]
pub(crate) enum ConfirmationState {
    /// Waits for the user, with the call that is to run.
    Open(Box<Call>),
    /// Approved; so many answers wait for what comes of it. `is_refused` where the user has said no since, which counts if
    /// nothing is begun.
    Running {
        askers: u32,
        is_refused: bool,
    },
    /// The user said no, of which the store may have yet to hear.
    Declined(Box<Declined>),
    /// The change is made by another right, as in another session of the conversation, or was; so many answers wait to hear of it.
    Elsewhere {
        tool: ToolId,
        askers: u32,
    },
    Resolved(Arc<ToolResponse>),
}

/// A no, and what the store knows of it.
#[derive(Debug)]
pub(crate) struct Declined {
    pub(crate) response: Arc<ToolResponse>,
    /// The newest token that the question has in the store: once that is declined there, the no is stored.
    pub(crate) token_hash: TokenHash,
    /// The call for whose sake the question was being put once more, under a token of which nothing is known yet.
    pub(crate) put_again_by: Option<CallNumber>,
    /// What is to be told once it is stored, until that is.
    pub(crate) untold: Option<Untold>,
}

#[derive(Debug)]
pub(crate) struct Untold {
    /// `None` where another session has asked.
    pub(crate) call: Option<Call>,
    /// What was asked about has neither been done by then, nor is being done.
    pub(crate) is_undone: bool,
    /// So many answers wait to be told that the no counts.
    pub(crate) askers: u32,
}

impl ConfirmationState {
    /// How many answers wait for what comes of it.
    pub(crate) fn askers(&self) -> u32 {
        match self {
            Self::Running { askers, .. } | Self::Elsewhere { askers, .. } => *askers,
            Self::Declined(declined) => declined.untold.as_ref().map_or(0, |untold| untold.askers),
            Self::Open(_) | Self::Resolved(_) => 0,
        }
    }

    /// Whether somebody will still hear of it who has not yet.
    fn is_awaited(&self) -> bool {
        match self {
            Self::Open(_) | Self::Running { .. } => true,
            Self::Declined(declined) => declined.untold.is_some(),
            Self::Elsewhere { askers, .. } => *askers > 0,
            Self::Resolved(_) => false,
        }
    }
}

impl Confirmation {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, ConfirmationState::Open(_))
    }

    /// Whether the user has said no to what is running already.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.state, ConfirmationState::Running { is_refused, .. } if is_refused)
    }

    /// One more answer to what is running already, here or elsewhere, or is being declined; false where too many wait.
    pub(crate) fn join(&mut self) -> bool {
        let askers = match &mut self.state {
            ConfirmationState::Running { askers, .. }
            | ConfirmationState::Elsewhere { askers, .. } => askers,
            ConfirmationState::Declined(declined) => match &mut declined.untold {
                Some(untold) => &mut untold.askers,
                None => return false,
            },
            ConfirmationState::Open(_) | ConfirmationState::Resolved(_) => return false,
        };
        let has_room = *askers < ASKERS_MAX;
        *askers += u32::from(has_room);
        has_room
    }
}

/// Few at a time, so that a list beats a table.
#[derive(Debug, Default)]
pub(crate) struct Confirmations(Vec<Confirmation>);

impl Confirmations {
    pub(crate) fn open(&mut self, confirmation: Confirmation) {
        let is_over = |entry: &Confirmation| !entry.state.is_awaited();
        if self.0.iter().filter(|entry| is_over(entry)).count() >= RESOLVED_MAX
            && let Some(oldest) = self.0.iter().position(is_over)
        {
            self.0.remove(oldest);
        }
        self.0.push(confirmation);
    }

    pub(crate) fn open_count(&self) -> usize {
        self.0.iter().filter(|entry| entry.is_open()).count()
    }

    /// How many questions are open, or were approved and run here.
    pub(crate) fn busy_count(&self) -> usize {
        let is_busy = |entry: &&Confirmation| match entry.state {
            ConfirmationState::Open(_) | ConfirmationState::Running { .. } => true,
            ConfirmationState::Elsewhere { .. }
            | ConfirmationState::Declined(_)
            | ConfirmationState::Resolved(_) => false,
        };
        self.0.iter().filter(is_busy).count()
    }

    pub(crate) fn by_token(&mut self, token_hash: &TokenHash) -> Option<&mut Confirmation> {
        self.0
            .iter_mut()
            .find(|entry| entry.question.token_hash == *token_hash)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (CallNumber, TokenHash)> {
        let questions = self.0.iter().map(|entry| &entry.question);
        questions.map(|question| (question.call, question.token_hash))
    }

    pub(crate) fn call_of(&self, token_hash: &TokenHash) -> Option<CallNumber> {
        let mut questions = self.0.iter().map(|entry| &entry.question);
        let known = questions.find(|question| question.token_hash == *token_hash);
        known.map(|question| question.call)
    }

    pub(crate) fn by_call(&mut self, call: CallNumber) -> Option<&mut Confirmation> {
        self.0.iter_mut().find(|entry| entry.question.call == call)
    }

    /// The questions that wait for the user.
    pub(crate) fn iter_open(&self) -> impl Iterator<Item = (&Confirmation, &Call)> {
        self.0.iter().filter_map(|entry| match &entry.state {
            ConfirmationState::Open(call) => Some((entry, &**call)),
            ConfirmationState::Running { .. }
            | ConfirmationState::Declined(_)
            | ConfirmationState::Elsewhere { .. }
            | ConfirmationState::Resolved(_) => None,
        })
    }

    /// The question that waits for the user about the same wish.
    pub(crate) fn open_like(&self, fingerprint: &[u8; 32]) -> Option<&Question> {
        self.like(fingerprint).map(|(entry, _)| &entry.question)
    }

    /// The call that such a question is about.
    pub(crate) fn call_like(&self, fingerprint: &[u8; 32]) -> Option<&Call> {
        self.like(fingerprint).map(|(_, call)| call)
    }

    fn like(&self, fingerprint: &[u8; 32]) -> Option<(&Confirmation, &Call)> {
        let mut open = self.iter_open();
        open.find(|(_, call)| call.fingerprint.as_ref() == Some(fingerprint))
    }

    /// The questions whose approval waits for another session's change.
    pub(crate) fn awaited_elsewhere(&self) -> Vec<CallNumber> {
        let is_awaited = |entry: &&Confirmation| matches!(entry.state, ConfirmationState::Elsewhere { askers, .. } if askers > 0);
        let awaited = self.0.iter().filter(is_awaited);
        awaited.map(|entry| entry.question.call).collect()
    }

    /// The no of which the store is being told by this token.
    pub(crate) fn declined_by(&mut self, token_hash: &TokenHash) -> Option<CallNumber> {
        let mut declined = self.iter_declined();
        let (question, _) = declined.find(|(_, declined)| declined.token_hash == *token_hash)?;
        Some(question.call)
    }

    /// The no to a question that this call has put under a new token: to its own, or to one like it.
    pub(crate) fn declined_under(&mut self, call: CallNumber) -> Option<&mut Declined> {
        let mut declined = self.iter_declined();
        let is_its = |(question, declined): &(&Question, &mut Declined)| {
            question.call == call || declined.put_again_by == Some(call)
        };
        declined.find(is_its).map(|(_, declined)| declined)
    }

    /// The no to the question about this call.
    pub(crate) fn declined(&mut self, call: CallNumber) -> Option<&mut Declined> {
        let mut declined = self.iter_declined();
        declined
            .find(|(question, _)| question.call == call)
            .map(|(_, declined)| declined)
    }

    fn iter_declined(&mut self) -> impl Iterator<Item = (&Question, &mut Declined)> {
        self.0
            .iter_mut()
            .filter_map(|entry| match &mut entry.state {
                ConfirmationState::Declined(declined) => Some((&entry.question, &mut **declined)),
                ConfirmationState::Open(_)
                | ConfirmationState::Running { .. }
                | ConfirmationState::Elsewhere { .. }
                | ConfirmationState::Resolved(_) => None,
            })
    }

    /// Whether somebody is to be told of a no once it is stored.
    pub(crate) fn is_any_no_untold(&self) -> bool {
        let mut states = self.0.iter().map(|entry| &entry.state);
        states.any(|state| {
            matches!(state, ConfirmationState::Declined(declined) if declined.untold.is_some())
        })
    }

    /// The questions of which the client has not heard the end.
    pub(crate) fn iter_unresolved(&self) -> impl Iterator<Item = &Question> {
        let awaited = self.0.iter().filter(|entry| entry.state.is_awaited());
        awaited.map(|entry| &entry.question)
    }

    /// Takes a question out that waits for the user: its call, and what it is known by.
    pub(crate) fn take_open(&mut self, call: CallNumber) -> Option<(Box<Call>, Question)> {
        let index = self
            .0
            .iter()
            .position(|entry| entry.question.call == call && entry.is_open())?;
        let entry = self.0.remove(index);
        match entry.state {
            ConfirmationState::Open(call) => Some((call, entry.question)),
            ConfirmationState::Running { .. }
            | ConfirmationState::Declined(_)
            | ConfirmationState::Elsewhere { .. }
            | ConfirmationState::Resolved(_) => None,
        }
    }
}
