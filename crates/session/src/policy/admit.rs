//! The order of the gates that need nothing but the call, readable top to bottom: every call of every mode and provider passes
//! them, and there is no other way to a handler (`docs/policies.md`, "The pipeline").

use super::admitted::{AdmittedCall, EffectRun};
use super::arguments;
use crate::facts::{CallFacts, CallRequest, Delivered, shorten};
use serde_json::json;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::condition::Facts;
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::handler::SessionFacts;
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::rights::{Permissions, Rights, Role};

/// The reason why nothing runs.
pub(crate) type Refused = Box<(CallRequest, CallError)>;

/// The input of the gates beside the call.
pub(crate) struct Gates<'a> {
    pub(crate) registry: &'a Registry,
    /// The caller, the place and the time.
    pub(crate) facts: Facts<'a>,
    pub(crate) top_k_max: i64,
    /// The number of open calls, and its limit.
    pub(crate) open: usize,
    pub(crate) open_max: usize,
}

/// Steps 3 to 6: the tool, the mode, the arguments with their defaults, the clamps.
pub(crate) fn examine(
    gates: &Gates<'_>,
    delivered: Delivered,
    arguments: Arguments,
) -> Result<Arc<CallFacts>, Refused> {
    let tool = match look_up(gates, &delivered.name) {
        Ok(tool) => tool,
        Err((error, tool)) => {
            let call_request = CallRequest::refused(delivered, tool, Some(arguments));
            return Err(Box::new((call_request, error)));
        }
    };
    let (completed, verdict) = arguments::complete(&tool, arguments, gates.top_k_max);
    let facts = Arc::new(CallFacts {
        delivered,
        tool,
        completed,
    });
    match verdict {
        Ok(()) => Ok(facts),
        Err(error) => Err(Box::new((CallRequest::Invalid(facts), error))),
    }
}

/// Looks the tool up. `Err` says why it must not be called, with the tool if there is one.
fn look_up(gates: &Gates<'_>, name: &str) -> Result<Arc<Tool>, (CallError, Option<Arc<Tool>>)> {
    let facts = &gates.facts;
    let Some(tool) = gates.registry.get(name) else {
        let error = CallError::new(
            ErrorType::NotFound,
            format!("there is no tool {:?}", shorten(name)),
        );
        let error = match gates.registry.nearest(name, |tool| tool.is_offered(facts)) {
            Some(id) => error.with_suggestion(format!("The nearest tool is {id}.")),
            None => error,
        };
        return Err((error, None));
    };
    let refusal = |error| (error, Some(tool.clone()));
    if !tool.permissions.allow(facts.rights) {
        return Err(refusal(not_for(tool, facts.rights)));
    }
    if !tool.allows(facts.mode) {
        return Err(refusal(CallError::new(
            ErrorType::ModeRestricted,
            format!("{} is not for {} sessions", tool.id, facts.mode.as_str()),
        )));
    }
    if let Some(error) = not_available(tool, facts) {
        return Err(refusal(error));
    }
    if gates.open >= gates.open_max {
        return Err(refusal(CallError::new(
            ErrorType::BudgetExceeded,
            format!("{} calls are open already", gates.open),
        )));
    }
    Ok(tool.clone())
}

/// The caller may not use the tool.
fn not_for(tool: &Tool, rights: &Rights) -> CallError {
    match rights.is_signed_in() {
        false => CallError::new(
            ErrorType::Auth,
            format!("{} is for users who have signed in", tool.id),
        ),
        true => CallError::new(ErrorType::Auth, format!("{} is not for this user", tool.id))
            .with_suggestion("Do not call it again. Say that this user may not do that here."),
    }
}

/// The mark of a refusal by a tool's availability, in the details of its error.
const NOT_AVAILABLE: &str = "NOT_AVAILABLE";

/// Why the tool is not available now, if it is not: in its author's words, if there are any.
pub(crate) fn not_available(tool: &Tool, facts: &Facts<'_>) -> Option<CallError> {
    if tool.is_available(facts) {
        return None;
    }
    let availability = tool.availability.as_ref();
    let otherwise = availability.and_then(|availability| availability.otherwise.as_deref());
    let details = json!({ "code": NOT_AVAILABLE });
    Some(match otherwise {
        None => {
            let message = format!("{} is not available here and now", tool.id);
            CallError::new(ErrorType::ModeRestricted, message).with_details(details)
        }
        Some(words) => {
            let message = format!("{} is not available here and now: {words}", tool.id);
            CallError::new(ErrorType::ModeRestricted, message)
                .with_details(details)
                .with_suggestion(
                    "Tell the user what would make it available, and answer without it.",
                )
        }
    })
}

/// Why a caller may not approve a call of the tool, if it may not.
pub(crate) fn refused_approval(tool: &Tool, rights: &Rights) -> Option<CallError> {
    let permissions = &tool.permissions;
    if permissions.allow_approval(rights) {
        return None;
    }
    let Permissions {
        roles,
        approver_roles,
        ..
    } = permissions;
    let named = match approver_roles.is_empty() {
        true => roles,
        false => approver_roles,
    };
    let named: Vec<&str> = named.iter().map(Role::as_str).collect();
    let message = match named.is_empty() {
        true => format!("{} is approved by users who have signed in", tool.id),
        false => format!(
            "{} is approved by users with the role {}",
            tool.id,
            named.join(" or ")
        ),
    };
    Some(CallError::new(ErrorType::Auth, message))
}

/// The last step: a call that passed every gate, and the ledger if it asks that, may run once.
pub(crate) fn admitted(
    facts: &Arc<CallFacts>,
    attempt: u32,
    run: Option<EffectRun>,
    session: SessionFacts,
) -> AdmittedCall {
    AdmittedCall {
        facts: facts.clone(),
        attempt,
        run,
        session,
    }
}
