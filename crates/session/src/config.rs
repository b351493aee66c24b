//! The configuration that a session is created with and keeps for its whole life, and the facts that follow from it alone.

use crate::context::ContextEstimate;
use crate::limits::Limits;
use crate::model::{CallSupport, HistoryEntry, ModelProfile};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass_contract::condition::{Facts, Given};
use windlass_contract::id::{CallNumber, ConversationId, SessionId, TenantId, UserId};
use windlass_contract::kind::{Mode, Scheduling};
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::rights::Rights;
use windlass_store::{Epoch, LegRef};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    pub session_id: SessionId,
    /// How often the session has been taken over; 1 for a new one. With the session's id it names the leg.
    pub epoch: Epoch,
    pub tenant: TenantId,
    pub user_id: UserId,
    /// The proven rights of the caller.
    #[serde(default)]
    pub rights: Rights,
    /// The facts beside the caller that conditions of tools read: the user's clock, and the configuration's values.
    #[serde(default)]
    pub given: Given,
    pub conversation_id: ConversationId,
    pub mode: Mode,
    /// Pinned: a reload serves new sessions only. A journal names its version alone.
    #[serde(skip, default = "no_registry")]
    pub registry: Arc<Registry>,
    pub limits: Arc<Limits>,
    pub profile: Arc<ModelProfile>,
    /// The model's name, for counts per model; empty if there is none.
    #[serde(default)]
    pub model: Arc<str>,
    /// The part of the model's window that instruction and declarations take, if the session reports it: a chat does with its first
    /// turn.
    #[serde(default)]
    pub estimate: Option<ContextEstimate>,
    /// Milliseconds since the Unix epoch at timestamp zero.
    pub started_unix_ms: u64,
    /// The conversation so far, from its log or from the client's own account.
    pub history: Vec<HistoryEntry>,
    /// The highest number that a call of the conversation had: the client knows calls by their numbers.
    pub last_call: CallNumber,
    /// Whether there is a client who can be asked for consent.
    pub can_ask: bool,
    /// Whether that client also shows what the service of a tool asks its user, and sends the answers.
    #[serde(default)]
    pub can_ask_input: bool,
    /// The user's request that is answered at once.
    pub pending_request: Option<String>,
}

fn no_registry() -> Arc<Registry> {
    Arc::new(Registry::new("", None, Vec::new()))
}

impl SessionConfig {
    pub fn leg(&self) -> LegRef {
        LegRef {
            leg: self.session_id.clone(),
            epoch: self.epoch,
        }
    }

    /// The tools that the session's model is offered from its beginning.
    pub fn offered(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let tools = self.registry.declared(self.mode);
        tools.filter(|tool| tool.is_offered(&self.facts(self.started_unix_ms)))
    }

    /// The facts for conditions at a time, in milliseconds since the Unix epoch, before there are arguments.
    pub fn facts(&self, unix_ms: u64) -> Facts<'_> {
        Facts {
            rights: &self.rights,
            user_id: self.user_id.as_str(),
            tenant: self.tenant.as_str(),
            mode: self.mode,
            unix_ms,
            given: &self.given,
            arguments: None,
        }
    }

    /// The offset of the numbers by which the ledger knows this session's things: higher than any earlier process can have counted,
    /// whatever it saved.
    pub(crate) fn numbers_of_epochs_before(&self) -> u64 {
        u64::from(self.epoch.0.saturating_sub(1)) << 32
    }

    /// Whether the model waits for a tool's result: by the tool's declaration, as far as the model supports it.
    pub(crate) fn blocks(&self, tool: &Tool) -> bool {
        self.profile.calls.blocks(tool.behavior)
    }

    /// Whether the model says nothing before it has the answer to a call of this name.
    pub(crate) fn waits_for(&self, name: &str) -> bool {
        match self.profile.calls {
            CallSupport::BlockingOnly => true,
            CallSupport::NonBlockingOnly => false,
            CallSupport::Both => {
                let tool = self.registry.get(name);
                tool.is_some_and(|tool| self.blocks(tool))
            }
        }
    }

    /// When the model is to speak of an answer. By default the tool decides, but failures are spoken of as soon as possible, since
    /// silence about them would leave the user waiting. `None` if the model is not told.
    pub(crate) fn scheduling(
        &self,
        tool: &Tool,
        blocks: bool,
        by_result: Option<Scheduling>,
        is_ok: bool,
    ) -> Option<Scheduling> {
        let profile = &self.profile;
        if blocks || !profile.scheduling || profile.calls == CallSupport::BlockingOnly {
            return None;
        }
        Some(match by_result {
            Some(scheduling) => scheduling,
            None if !is_ok && tool.scheduling != Scheduling::Silent => Scheduling::WhenIdle,
            None => tool.scheduling,
        })
    }
}
