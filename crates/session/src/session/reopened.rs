//! Questions that were approved in vain: nothing was begun, so that the approval is not used up, and the user may give it once
//! more. Knows no token, only its hash.

use super::{Lifecycle, Session};
use crate::calls::Call;
use crate::deadlines::Deadline;
use crate::event::{Resolution, SessionEvent};
use crate::io::{Output, TokenHash};
use windlass_tool::envelope::ToolResponse;
use windlass_tool::error::{CallError, ErrorType};
use windlass_tool::id::CallNumber;

impl Session {
    /// Whether the user may approve once more: nothing was begun, it may work later, and the token is still good.
    pub(super) fn opens_again(&mut self, call: &Call, response: &ToolResponse) -> bool {
        // Others may have been asked meanwhile.
        let asked = self.confirmations.open_count() + self.calls.proposing();
        let is_worth_it = asked < self.config.limits.open_confirmations_max
            && call.effect_id.is_none()
            && call.spoken
            && !call.is_taken_back
            && self.lifecycle == Lifecycle::Running
            && response.error().is_some_and(|error| error.retryable);
        let now = self.now;
        let entry = self.confirmations.by_call(call.number());
        is_worth_it && entry.is_some_and(|entry| now < entry.question.expires_at)
    }

    /// A question that was approved in vain waits for the rest of its time, under the same token.
    pub(super) fn wait_again(&mut self, call: &Call, out: &mut Vec<Output>) {
        let Some(entry) = self.confirmations.by_call(call.number()) else {
            return;
        };
        let expires_at = entry.question.expires_at;
        self.deadlines
            .set(Deadline::Confirmation(call.number()), expires_at);
        let left = expires_at.since(self.now);
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        out.push(Output::Event(SessionEvent::ConfirmationRequested {
            call: call.number(),
            tool: call.tool().id.clone(),
            expires_at_unix_ms: self.unix_ms().saturating_add(left_ms),
        }));
    }

    /// A question that was to be put anew, and of which the store has said nothing in time: the token that the user has may be
    /// dead by now, so that it is not waited for.
    pub(super) fn close_replaced(&mut self, call: &Call, out: &mut Vec<Output>) {
        let Some((number, token_hash)) = self.replaced_by(call) else {
            return;
        };
        out.push(Output::WithdrawConfirmation { token_hash });
        let error = CallError::new(
            ErrorType::ConfirmationExpired,
            "the store did not answer when this was to be asked once more; ask for it again",
        );
        self.close_question(number, error, Resolution::Withdrawn, out);
    }

    /// The question about the same wish that was open before: its token is dead, and another has taken its place.
    pub(super) fn drop_replaced(&mut self, call: &Call, out: &mut Vec<Output>) {
        let Some((replaced, _)) = self.replaced_by(call) else {
            return;
        };
        self.confirmations.take_open(replaced);
        self.deadlines.clear(Deadline::Confirmation(replaced));
        out.push(Output::Event(SessionEvent::ConfirmationResolved {
            call: Some(replaced),
            resolution: Resolution::Withdrawn,
        }));
    }

    /// The question about the same wish that is open, and its token.
    fn replaced_by(&self, call: &Call) -> Option<(CallNumber, TokenHash)> {
        let question = self.confirmations.open_like(&call.fingerprint?)?;
        Some((question.call, question.token_hash))
    }
}
