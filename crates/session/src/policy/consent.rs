//! The calls that need the user's consent by what their tools say, the approvals that may stand for later calls, and the reason why a
//! user was asked, in words for the audit. The ledger decides whether it asks about other calls too, and whether an earlier approval
//! covers a call.

use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::condition::{ConsentCondition, Facts, Unjudged};
use windlass_contract::envelope::rfc3339;
use windlass_contract::registry::Tool;
use windlass_contract::remember::Remember;
use windlass_contract::sensitive::Sensitive;
use windlass_store::{
    Certainty, Hazards, Question, QuestionNumber, STANDING_VALUES_BYTES_MAX, StandingApproval,
    standing_id,
};

/// Why the user was asked about a call, or was not, of a tool that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsentReason {
    /// Every call of the tool asks.
    Always,
    Holds(ConsentRule),
    DoesNotHold(ConsentRule),
    /// It cannot be judged whether the condition holds, so the user is asked.
    Unjudged(ConsentRule, Unjudged),
    /// The user was asked before, and the ledger has the reason.
    AskedBefore(Arc<str>),
    /// The tool does not ask for the call, and the model has read external content.
    ExternalContent,
    DoneBefore,
    MayHaveHappened,
    /// The tool asks for the call, and the user has approved such calls before.
    Standing {
        approval: QuestionNumber,
        given_at_unix_ms: u64,
    },
}

/// The condition by which a tool asks, as far as it may be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsentRule {
    /// `None` if it reads sensitive arguments: together with its result, it would tell what they are.
    text: Option<Arc<str>>,
    /// Its author's words for people.
    because: Option<Arc<str>>,
}

impl ConsentRule {
    fn of(rule: &ConsentCondition, tool: &Tool) -> Self {
        let is_told = !rule.condition.reads_argument(&tool.sensitive);
        Self {
            text: is_told.then(|| rule.condition.text().clone()),
            because: rule.because.clone(),
        }
    }

    fn tell(&self, outcome: impl fmt::Display, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => write!(formatter, "the condition {outcome}: {text}"),
            None => write!(
                formatter,
                "the condition {outcome}; it reads sensitive arguments and is not shown"
            ),
        }
    }
}

impl fmt::Display for ConsentReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => formatter.write_str("every call asks"),
            Self::Holds(rule) => rule.tell("holds", formatter),
            Self::DoesNotHold(rule) => rule.tell("does not hold", formatter),
            Self::Unjudged(rule, problem) => {
                let outcome = format_args!("cannot be judged, because {problem}");
                rule.tell(outcome, formatter)
            }
            Self::AskedBefore(because) => formatter.write_str(because),
            Self::ExternalContent => {
                formatter.write_str("text that others wrote is in the conversation")
            }
            Self::DoneBefore => formatter.write_str("it was done before"),
            Self::MayHaveHappened => formatter.write_str("it may have happened before"),
            Self::Standing {
                approval,
                given_at_unix_ms,
            } => write!(
                formatter,
                "covered by the standing approval {}, given at {}",
                standing_id(*approval),
                rfc3339(*given_at_unix_ms)
            ),
        }
    }
}

impl ConsentReason {
    /// Why the tool asks about this call and not about every one, for the user: its author's words if the condition holds and has some.
    /// `None` if the tool does not ask, or always does.
    pub(crate) fn words(&self) -> Option<String> {
        match self {
            Self::Holds(ConsentRule {
                because: Some(because),
                ..
            })
            | Self::AskedBefore(because) => Some(because.to_string()),
            Self::Holds(_) | Self::Unjudged(..) => Some(self.to_string()),
            Self::Always
            | Self::DoesNotHold(_)
            | Self::ExternalContent
            | Self::DoneBefore
            | Self::MayHaveHappened
            | Self::Standing { .. } => None,
        }
    }
}

/// The tool's word on one call: whether it needs consent, and why. `None` for a tool that never asks.
pub(crate) fn judge(tool: &Tool, facts: &Facts<'_>) -> Option<ConsentReason> {
    if !tool.requires_confirmation {
        return None;
    }
    let Some(rule) = &tool.consent_condition else {
        return Some(ConsentReason::Always);
    };
    let told = ConsentRule::of(rule, tool);
    Some(match rule.condition.holds(facts) {
        Ok(true) => ConsentReason::Holds(told),
        Ok(false) => ConsentReason::DoesNotHold(told),
        Err(problem) => ConsentReason::Unjudged(told, problem),
    })
}

/// Whether a call with this reason of its tool needs consent.
pub(crate) fn is_needed(reason: Option<&ConsentReason>) -> bool {
    match reason {
        None | Some(ConsentReason::DoesNotHold(_) | ConsentReason::Standing { .. }) => false,
        Some(
            ConsentReason::Always
            | ConsentReason::Holds(_)
            | ConsentReason::Unjudged(..)
            | ConsentReason::AskedBefore(_)
            | ConsentReason::ExternalContent
            | ConsentReason::DoneBefore
            | ConsentReason::MayHaveHappened,
        ) => true,
    }
}

/// The approval that a user can have remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberOffer {
    /// The values that have to be the same, by the JSON pointers of their arguments.
    pub arguments: Sensitive<Value>,
    /// Minutes that it lasts at most; by voice the session's end comes first.
    pub minutes: u64,
}

impl RememberOffer {
    /// The offer of a request; `None` unless its tool lets an approval be remembered, is the one that was asked about, and the user is
    /// warned of nothing else. `minutes_max` is the limit of the request's mode. Every way on which a request is shown or answered uses
    /// this rule.
    pub fn of(question: &Question, tool: &Tool, minutes_max: u64) -> Option<Self> {
        let is_the_same = *tool.version == *question.tool_version
            && question.handler_hash.as_deref() == Some(&*tool.code_hash);
        if !is_the_same || !question.hazards.is_empty() {
            return None;
        }
        let arguments: Arguments = serde_json::from_str(question.arguments.expose()).ok()?;
        let remember = tool.remember.as_ref()?;
        let minutes = remember.minutes.unwrap_or(u64::MAX).min(minutes_max);
        standing_values(tool, &arguments).filter(|_| minutes > 0)?;
        Some(Self {
            arguments: Sensitive(remember.values(&arguments)),
            minutes,
        })
    }
}

/// The values by which an approval of a call of this tool stands for others; `None` if the tool allows none.
pub(crate) fn standing_values(tool: &Tool, arguments: &Arguments) -> Option<Sensitive<String>> {
    let remember = tool
        .remember
        .as_ref()
        .filter(|_| tool.permissions.approver_roles.is_empty())?;
    let values = Remember::text(&remember.values(arguments));
    (values.len() <= STANDING_VALUES_BYTES_MAX).then_some(Sensitive(values))
}

/// The reason why the ledger has let a call run that its tool asks about.
pub(crate) fn covered_by(standing: &StandingApproval) -> Arc<ConsentReason> {
    Arc::new(ConsentReason::Standing {
        approval: standing.question,
        given_at_unix_ms: standing.given_at_unix_ms,
    })
}

/// The reason why the ledger has the user asked: a hazard counts more than the tool's reason.
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

/// The same for a recorded request; `tool` is the one that was asked about, if it is still there. `None` if it asks about every call.
pub(crate) fn asked_before(question: &Question, tool: Option<&Tool>) -> Option<Arc<ConsentReason>> {
    let by_tool = match (question.because.as_deref(), tool) {
        (Some(because), _) => Some(ConsentReason::AskedBefore(because.into())),
        (None, Some(tool)) if tool.asks_about_every_call() => Some(ConsentReason::Always),
        (None, _) => None,
    };
    asked_because(by_tool.map(Arc::new).as_ref(), &question.hazards)
        .filter(|reason| **reason != ConsentReason::Always)
}
