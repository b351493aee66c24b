//! Standing approvals: when one is given, which request one covers, and when it ends. None covers a request about which the user is
//! asked for another reason than the tool's own.

use super::{DecisionBuilder, covers};
use crate::command::{Approval, Reply, Request, ToolFacts};
use crate::id::QuestionNumber;
use crate::log::EntryEvent;
use crate::question::{Hazards, Question};
use crate::standing::{
    STANDING_VALUES_BYTES_MAX, StandingApproval, StandingChange, StandingEnd, StandingEvent,
    StandingScope,
};
use windlass_contract::id::{EffectId, SessionId};
use windlass_contract::kind::Mode;

impl DecisionBuilder<'_> {
    /// Row 18: the standing approval that lets a request run if only its tool demands consent.
    pub(super) fn standing_for(&self, request: &Request) -> Option<StandingApproval> {
        let values = request.standing_values.as_ref()?;
        // The user has not been told of these hazards.
        let is_hazardous = !self.hazards(&request.tool).earlier.is_empty()
            || (self.conversation.has_external_content && !request.ignores_external_content);
        if is_hazardous {
            return None;
        }
        let mut standing = self.conversation.standing.iter();
        let found = standing.find(|known| {
            known.holds(self.now_unix_ms)
                && is_of_tool(known, &request.tool)
                && known.values == *values
                && self.is_for(&known.scope, request)
        });
        found.cloned()
    }

    fn is_for(&self, scope: &StandingScope, request: &Request) -> bool {
        match scope {
            StandingScope::Session(leg) => *leg == request.leg.leg,
            StandingScope::Client(client_id) => {
                let leg = self.leg.as_ref();
                request.mode == Mode::Text && leg.is_some_and(|leg| leg.client_id == *client_id)
            }
        }
    }

    /// A call runs by the standing approval.
    pub(super) fn use_standing(
        &mut self,
        standing: &StandingApproval,
        effect_id: Option<EffectId>,
        leg: &SessionId,
    ) {
        self.log_standing(standing, StandingEvent::Used(effect_id), Some(leg));
    }

    /// Remembers an approval, if that was asked for and the request named nothing but the tool's own demand.
    pub(super) fn give_standing(
        &mut self,
        question: &Question,
        approval: &Approval,
    ) -> Option<Box<StandingApproval>> {
        let new = approval.remember.as_ref()?;
        let tool = approval.tool.as_ref()?;
        let most = self.context.limits.standing_max;
        let is_plain =
            question.hazards.is_empty() && covers(&Hazards::default(), &self.hazards(tool));
        let scope = match question.mode {
            Mode::Voice => StandingScope::Session(question.leg.clone()),
            Mode::Text => StandingScope::Client(new.client_id.clone()?),
        };
        let is_kept =
            most > 0 && new.lasts_ms > 0 && new.values.expose().len() <= STANDING_VALUES_BYTES_MAX;
        if !is_plain || !is_kept {
            return None;
        }
        let given = StandingApproval {
            question: question.number,
            tool: question.tool.clone(),
            tool_version: question.tool_version.clone(),
            handler_hash: question.handler_hash.clone(),
            values: new.values.clone(),
            scope,
            given_at_unix_ms: self.now_unix_ms,
            expires_at_unix_ms: self.now_unix_ms.saturating_add(new.lasts_ms),
        };
        self.end_standing(StandingEnd::Replaced, None, |known| {
            known.tool == given.tool && known.values == given.values && known.scope == given.scope
        });
        while self.conversation.standing.len() >= most {
            let oldest = self.conversation.standing[0].question;
            self.end_standing(StandingEnd::Replaced, None, |known| {
                known.question == oldest
            });
        }
        self.log_standing(&given, StandingEvent::Given, Some(&question.leg));
        self.conversation.standing.push(given.clone());
        Some(Box::new(given))
    }

    /// The standing approval that was given with this approval request.
    pub(super) fn standing_of(&self, number: QuestionNumber) -> Option<Box<StandingApproval>> {
        let mut standing = self.conversation.standing.iter();
        let found = standing.find(|known| known.question == number);
        found.cloned().map(Box::new)
    }

    /// Ends the approvals whose time is over. With `request`, ends also those of its tool with another version or other code.
    pub(super) fn end_lapsed_standing(&mut self, request: Option<&Request>) {
        if self.conversation.standing.is_empty() {
            return;
        }
        let now_unix_ms = self.now_unix_ms;
        let leg = request.map(|request| request.leg.leg.clone());
        self.end_standing(StandingEnd::Expired, leg.as_ref(), |known| {
            !known.holds(now_unix_ms)
        });
        let Some(request) = request else {
            return;
        };
        let changed: Vec<QuestionNumber> = self
            .conversation
            .standing
            .iter()
            .filter(|known| known.tool == request.tool.id && !is_of_tool(known, &request.tool))
            .filter(|known| self.is_for(&known.scope, request))
            .map(|known| known.question)
            .collect();
        self.end_standing(StandingEnd::ToolChanged, leg.as_ref(), |known| {
            changed.contains(&known.question)
        });
    }

    /// Ends the approvals for a session that is over.
    pub(super) fn end_standing_of(&mut self, leg: &SessionId) {
        self.end_standing(
            StandingEnd::SessionEnded,
            Some(leg),
            |known| matches!(&known.scope, StandingScope::Session(own) if own == leg),
        );
    }

    /// The answer that gave it has begun nothing.
    pub(super) fn withdraw_standing(&mut self, number: QuestionNumber) {
        self.end_standing(StandingEnd::Withdrawn, None, |known| {
            known.question == number
        });
    }

    pub(super) fn revoke(&mut self, number: QuestionNumber, leg: Option<&SessionId>) -> Reply {
        self.end_lapsed_standing(None);
        match self.standing_of(number) {
            Some(standing) => {
                self.end_standing(StandingEnd::Revoked, leg, |known| known.question == number);
                Reply::Revoked(standing)
            }
            None => Reply::Missing,
        }
    }

    fn end_standing(
        &mut self,
        why: StandingEnd,
        leg: Option<&SessionId>,
        ends: impl Fn(&StandingApproval) -> bool,
    ) {
        let standing = std::mem::take(&mut self.conversation.standing);
        let (ended, kept): (Vec<_>, Vec<_>) = standing.into_iter().partition(|known| ends(known));
        self.conversation.standing = kept;
        for known in ended {
            self.log_standing(&known, StandingEvent::Ended(why), leg);
        }
    }

    fn log_standing(
        &mut self,
        standing: &StandingApproval,
        event: StandingEvent,
        leg: Option<&SessionId>,
    ) {
        let change = StandingChange {
            question: standing.question,
            tool: standing.tool.clone(),
            event,
        };
        self.log(leg, EntryEvent::Standing(change));
    }
}

/// Whether the user has approved exactly what this tool would run now.
fn is_of_tool(standing: &StandingApproval, tool: &ToolFacts) -> bool {
    standing.tool == tool.id
        && standing.tool_version == tool.version
        && standing.handler_hash == tool.handler_hash
}
