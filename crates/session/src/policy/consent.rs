//! Which calls need the user's consent by what their tools say, and why a user was asked, in words for the audit. Whether a call that
//! needs none is asked about all the same, the ledger decides.

use std::fmt;
use std::sync::Arc;
use windlass_store::{Certainty, Hazards};
use windlass_tool::condition::{Condition, Facts, Unjudged};
use windlass_tool::registry::Tool;

/// Why the user was asked about a call, or was not, of a tool that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentReason {
    /// Every call of the tool asks.
    Always,
    Holds(Condition),
    DoesNotHold(Condition),
    /// Nobody can say whether the condition holds, so that the user is asked.
    Unjudged(Condition, Unjudged),
    /// The tool does not ask for the call, and the model has read what others wrote.
    ExternalContent,
    DoneBefore,
    MayHaveHappened,
}

impl fmt::Display for ConsentReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => formatter.write_str("every call asks"),
            Self::Holds(condition) => {
                write!(formatter, "the condition holds: {}", condition.text())
            }
            Self::DoesNotHold(condition) => {
                write!(
                    formatter,
                    "the condition does not hold: {}",
                    condition.text()
                )
            }
            Self::Unjudged(condition, problem) => write!(
                formatter,
                "the condition cannot be judged, because {problem}: {}",
                condition.text()
            ),
            Self::ExternalContent => {
                formatter.write_str("text that others wrote is in the conversation")
            }
            Self::DoneBefore => formatter.write_str("it was done before"),
            Self::MayHaveHappened => formatter.write_str("it may have happened before"),
        }
    }
}

/// What a tool says of one call: whether it needs consent, and why. `None` of a tool that never asks.
pub(crate) fn judge(tool: &Tool, facts: &Facts<'_>) -> Option<ConsentReason> {
    if !tool.requires_confirmation {
        return None;
    }
    let Some(condition) = &tool.consent_condition else {
        return Some(ConsentReason::Always);
    };
    let condition = condition.clone();
    Some(match condition.holds(facts) {
        Ok(true) => ConsentReason::Holds(condition),
        Ok(false) => ConsentReason::DoesNotHold(condition),
        Err(problem) => ConsentReason::Unjudged(condition, problem),
    })
}

/// Whether a call that its tool says this of needs consent.
pub(crate) fn is_needed(reason: Option<&ConsentReason>) -> bool {
    match reason {
        None | Some(ConsentReason::DoesNotHold(_)) => false,
        Some(
            ConsentReason::Always
            | ConsentReason::Holds(_)
            | ConsentReason::Unjudged(..)
            | ConsentReason::ExternalContent
            | ConsentReason::DoneBefore
            | ConsentReason::MayHaveHappened,
        ) => true,
    }
}

/// Why the ledger has the user asked: a hazard says more than the tool.
pub(crate) fn asked_because(
    by_tool: Option<&Arc<ConsentReason>>,
    hazards: &Hazards,
) -> Option<Arc<ConsentReason>> {
    match hazards.earlier.last().map(|earlier| earlier.certainty) {
        Some(Certainty::Done) => Some(Arc::new(ConsentReason::DoneBefore)),
        Some(Certainty::MayHaveHappened) => Some(Arc::new(ConsentReason::MayHaveHappened)),
        None if hazards.external_content && !is_needed(by_tool.map(|reason| &**reason)) => {
            Some(Arc::new(ConsentReason::ExternalContent))
        }
        None => by_tool.cloned(),
    }
}
