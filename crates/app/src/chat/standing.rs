//! Standing approvals of a conversation for its client: their list, the offers in approval requests, and revoking without a socket.
//! Knows no HTTP; the ledger decides which calls one covers.

use super::owner::ConversationOwner;
use super::{ChatHost, ChatRefusal, unavailable};
use serde_json::Value;
use windlass_contract::id::ConversationId;
use windlass_contract::kind::Mode;
use windlass_runtime::caller::Caller;
use windlass_runtime::client_protocol::standing_json;
use windlass_session::RememberOffer;
use windlass_session::client::because_of;
use windlass_store::command::{Command, Reply};
use windlass_store::{Conversation, Question, QuestionNumber, StandingApproval, StandingScope};

/// A standing approval that is to end.
pub(crate) struct WantedRevocation {
    pub(crate) conversation: ConversationId,
    pub(crate) approval: QuestionNumber,
    /// The user for whom the caller says it speaks.
    pub(crate) user: Option<String>,
}

/// The parts of an approval request that depend on its tool.
pub(super) struct ToldWithRequest {
    /// Why the user is asked about this call.
    pub(super) because: Option<String>,
    /// The approval that the user can have remembered.
    pub(super) remember: Option<RememberOffer>,
}

impl ChatHost {
    /// Ends a standing approval. Returns the remaining ones. [`ChatRefusal::Unknown`] where the caller has no such one: a caller who
    /// asks for another's learns nothing of it.
    pub(crate) async fn revoke(
        &self,
        caller: &Caller,
        wanted: WantedRevocation,
    ) -> Result<Vec<Value>, ChatRefusal> {
        let caller = &caller.speaking_for(wanted.user.as_deref());
        let id = &wanted.conversation;
        let (whose, known) = self.conversation_of(caller, id).await?;
        let mut own = standing(&whose, &known, caller);
        if !own.any(|standing| standing.question == wanted.approval) {
            return Err(ChatRefusal::Unknown);
        }
        drop(own);
        let reference = whose.reference(&caller.tenant, id);
        let revoke = Command::Revoke {
            question: wanted.approval,
            leg: None,
        };
        let replies = self.conversations.commit(reference.clone(), vec![revoke]);
        let replies = replies.await.map_err(unavailable)?;
        let Some(Reply::Revoked(revoked)) = replies.into_iter().next() else {
            return Err(ChatRefusal::Unknown);
        };
        if let Some(audit) = &self.audit {
            let now_unix_ms = crate::clock::now_unix_ms();
            audit.revoked(&reference, whose.user_id.clone(), &revoked, now_unix_ms);
        }
        let (whose, known) = self.conversation_of(caller, id).await?;
        Ok(self.standing_of(&whose, &known, caller))
    }

    /// The caller's standing approvals in a conversation, for the client that has just given one; empty where the caller has none.
    pub(crate) async fn standing_approvals(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Vec<Value> {
        let found = self.conversation_of(caller, id).await;
        found.map_or_else(
            |_| Vec::new(),
            |(whose, known)| self.standing_of(&whose, &known, caller),
        )
    }

    /// The standing approvals of a conversation that belong to the caller and are valid now.
    pub(super) fn standing_of(
        &self,
        whose: &ConversationOwner,
        known: &Conversation,
        caller: &Caller,
    ) -> Vec<Value> {
        standing(whose, known, caller).map(standing_json).collect()
    }

    /// Additions to approval requests for clients, by the tools as they are now. Only sessions know which version of a tool the user has, so
    /// the version of the request is judged.
    pub(super) fn told_with_requests(&self) -> impl Fn(&Question) -> ToldWithRequest + use<> {
        let toolbox = self.toolbox.load_full();
        let (text, voice) = (self.limits.clone(), self.voice_limits.clone());
        move |question| {
            let registry = &toolbox.of(question.mode).all().registry;
            let (version, code_hash) = (&question.tool_version, question.handler_hash.as_deref());
            let tool = registry.as_shown(question.tool.as_str(), version, code_hash);
            let minutes_max = match question.mode {
                Mode::Text => text.standing_approval_minutes,
                Mode::Voice => voice.standing_approval_minutes,
            };
            ToldWithRequest {
                because: because_of(question, tool.map(|tool| &**tool)),
                remember: tool.and_then(|tool| RememberOffer::of(question, tool, minutes_max)),
            }
        }
    }

    /// A conversation that the caller may go on with, as the store has it.
    async fn conversation_of(
        &self,
        caller: &Caller,
        id: &ConversationId,
    ) -> Result<(ConversationOwner, Conversation), ChatRefusal> {
        let known = self.conversations.known(&caller.tenant, id);
        let known = known.map_err(unavailable)?.ok_or(ChatRefusal::Unknown)?;
        let whose = ConversationOwner::of(&known.user_id);
        let admitted = whose.admits(caller, None);
        admitted.map_err(|_| ChatRefusal::Unknown)?;
        Ok((whose, known))
    }
}

/// In a conversation without an owner, a standing approval belongs to its client alone.
fn standing<'k>(
    whose: &ConversationOwner,
    known: &'k Conversation,
    caller: &Caller,
) -> impl Iterator<Item = &'k StandingApproval> + use<'k> {
    let now_unix_ms = crate::clock::now_unix_ms().max(known.used_at_unix_ms);
    let is_owned = whose.owner.is_some();
    let client_id = caller.client_id.clone();
    known.standing.iter().filter(move |standing| {
        let is_own = match &standing.scope {
            StandingScope::Client(own) => *own == client_id,
            StandingScope::Session(_) => false,
        };
        standing.holds(now_unix_ms) && (is_owned || is_own)
    })
}
