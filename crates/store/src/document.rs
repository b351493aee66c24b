//! Rows as documents: the body of each row, which is JSON, and the columns beside it, by which statements search, sort and count. An
//! engine with tables writes and reads every row through this file. Knows no statement.
//!
//! A body is the whole row. A field that is added to a row needs a default, because earlier bodies lack it; unknown fields are ignored.
//! Only a new column needs a migration. Columns follow from the row, and no row is read from its columns.

use crate::Hash;
use crate::effect::{Effect, LookupState};
use crate::id::{EffectKey, EntryNumber, OwnerId, QuestionNumber};
use crate::leg::{Became, Conversation, Delivery, Leg};
use crate::log::{EffectState, QuestionState};
use crate::party::PartyHash;
use crate::question::Question;
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use windlass_contract::id::{EffectId, SessionId, ToolId, UserId};
use windlass_contract::sensitive::Sensitive;

/// A row with a body.
pub(crate) trait Document: Serialize + DeserializeOwned {
    fn body(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    fn from_body(body: &str) -> serde_json::Result<Self> {
        serde_json::from_str(body)
    }
}

impl Document for Effect {
    fn from_body(body: &str) -> serde_json::Result<Self> {
        let effect: Self = serde_json::from_str(body)?;
        // Without this check, an effect without attempts would stop the program.
        match effect.attempts.is_empty() {
            true => Err(serde_json::Error::custom("an effect without attempts")),
            false => Ok(effect),
        }
    }
}

/// The columns of an effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectColumns<'a> {
    pub(crate) effect_id: &'a EffectId,
    pub(crate) near: &'a EffectKey,
    /// The parent effect of a nested call, and the call's ordinal.
    pub(crate) parent: Option<&'a EffectId>,
    pub(crate) ordinal: Option<u32>,
    pub(crate) tool: &'a ToolId,
    pub(crate) key_fingerprint: i64,
    pub(crate) state: &'static str,
    pub(crate) first_entry: EntryNumber,
    pub(crate) is_heard: bool,
    pub(crate) is_audited: bool,
    pub(crate) begun_at_unix_ms: u64,
    pub(crate) changed_at_unix_ms: u64,
    /// Of the newest attempt; empty if no process holds it, because a service or the user has it.
    pub(crate) owner: &'a str,
    pub(crate) lease_end_unix_ms: u64,
    /// When the handler of an unknown effect is to be asked next.
    pub(crate) lookup_at_unix_ms: Option<u64>,
    /// The user of a task; `None` for every other effect.
    pub(crate) task_user: Option<&'a UserId>,
    pub(crate) task_is_sent: Option<bool>,
}

impl<'a> EffectColumns<'a> {
    /// The columns of an effect of this user.
    pub(crate) fn of(effect: &'a Effect, user_id: &'a UserId) -> Self {
        let newest = effect.newest_attempt();
        let task = effect.task.as_ref();
        Self {
            effect_id: &effect.effect_id,
            near: &effect.near,
            parent: effect.parent.as_ref().map(|(parent, _)| parent),
            ordinal: effect.parent.as_ref().map(|(_, ordinal)| *ordinal),
            tool: &effect.tool,
            key_fingerprint: effect.key_spec.fingerprint(),
            state: match effect.state {
                EffectState::Running => "running",
                EffectState::Done => "done",
                EffectState::NotDone => "not_done",
                EffectState::Unknown => "unknown",
            },
            first_entry: effect.first_entry,
            is_heard: effect.is_heard,
            is_audited: effect.is_audited,
            begun_at_unix_ms: effect.begun_at_unix_ms,
            changed_at_unix_ms: effect.changed_at_unix_ms,
            owner: match effect.is_accepted() || effect.is_asking() {
                true => "",
                false => &newest.owner.0,
            },
            lease_end_unix_ms: newest.lease_end_unix_ms,
            lookup_at_unix_ms: match effect.lookup {
                LookupState::Due { .. } => Some(0),
                LookupState::Tried {
                    next_at_unix_ms, ..
                } => Some(next_at_unix_ms),
                LookupState::NotHappened => None,
            },
            task_user: task.map(|_| user_id),
            task_is_sent: task.map(|task| task.is_sent),
        }
    }
}

impl Document for Question {}

/// The columns of an approval request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuestionColumns<'a> {
    pub(crate) number: QuestionNumber,
    pub(crate) key: &'a EffectKey,
    pub(crate) state: &'static str,
    pub(crate) is_heard: bool,
    pub(crate) expires_at_unix_ms: u64,
}

impl<'a> QuestionColumns<'a> {
    pub(crate) fn of(question: &'a Question) -> Self {
        Self {
            number: question.number,
            key: &question.key,
            state: match question.state {
                QuestionState::Open => "open",
                QuestionState::Approved => "approved",
                QuestionState::Denied => "denied",
                QuestionState::Closed => "closed",
            },
            is_heard: question.is_heard,
            expires_at_unix_ms: question.expires_at_unix_ms,
        }
    }
}

impl Document for Conversation {}

/// The columns of a conversation, beside its tenant and its id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversationColumns<'a> {
    pub(crate) user_id: &'a UserId,
    pub(crate) address: Option<PartyHash>,
    pub(crate) beginner: Option<PartyHash>,
    pub(crate) has_external_content: bool,
    pub(crate) last_entry: EntryNumber,
    pub(crate) messages: u64,
    pub(crate) used_at_unix_ms: u64,
}

impl<'a> ConversationColumns<'a> {
    pub(crate) fn of(conversation: &'a Conversation) -> Self {
        Self {
            user_id: &conversation.user_id,
            address: conversation.parties.address,
            beginner: conversation.parties.user,
            has_external_content: conversation.has_external_content,
            last_entry: conversation.last_entry,
            messages: conversation.heading.messages,
            used_at_unix_ms: conversation.used_at_unix_ms,
        }
    }
}

/// The saved state of a leg is no part of its body: it is bytes, may be long, and changes seldom. An engine keeps it apart.
impl Document for Leg {
    fn body(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Self {
            leg: self.leg.clone(),
            mode: self.mode,
            epoch: self.epoch,
            owner: self.owner.clone(),
            client_id: self.client_id.clone(),
            resume_token: self.resume_token,
            body: Sensitive::default(),
            last_number: self.last_number,
            is_announced: self.is_announced,
            expires_at_unix_ms: self.expires_at_unix_ms,
        })
    }
}

/// The columns of a leg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LegColumns<'a> {
    pub(crate) leg: &'a SessionId,
    pub(crate) owner: &'a OwnerId,
    pub(crate) resume_token: &'a Hash,
    pub(crate) expires_at_unix_ms: u64,
}

impl<'a> LegColumns<'a> {
    pub(crate) fn of(leg: &'a Leg) -> Self {
        Self {
            leg: &leg.leg,
            owner: &leg.owner,
            resume_token: &leg.resume_token,
            expires_at_unix_ms: leg.expires_at_unix_ms,
        }
    }
}

impl Document for Delivery {}

/// The columns of a delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryColumns<'a> {
    pub(crate) leg: &'a SessionId,
    pub(crate) id: &'a str,
    /// The row that it became: one of the two.
    pub(crate) effect_id: Option<&'a EffectId>,
    pub(crate) question: Option<QuestionNumber>,
}

impl<'a> DeliveryColumns<'a> {
    pub(crate) fn of(delivery: &'a Delivery) -> Self {
        let (effect_id, question) = match &delivery.became {
            Became::Effect(effect_id) => (Some(effect_id), None),
            Became::Question(question) => (None, Some(*question)),
        };
        Self {
            leg: &delivery.leg,
            id: &delivery.id,
            effect_id,
            question,
        }
    }
}
