//! `escalate`: hands a conversation over to a person by a ticket. Knows the content of a ticket; the server knows its reader and the way
//! of an answer.

use crate::arguments::{read, require_active, said};
use crate::capability::answer;
use crate::outcome::{Outcome, ready, report, without_effect};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    CapabilityFuture, Context, Execution, Finding, Handler, Handover, HandoverError, Invocation,
    Lookup, LookupInvocation, NewHandover, OutcomeLookup, Report, Success, Urgency, downstream_key,
};
use windlass_contract::id::EffectId;
use windlass_contract::sensitive::Sensitive;

pub(crate) struct Escalator;

#[derive(Deserialize)]
struct Arguments {
    reason: String,
    summary: String,
    urgency: Urgency,
    #[serde(default)]
    contact: Option<String>,
}

impl Handler for Escalator {
    fn execute(&self, invocation: Invocation) -> Execution {
        escalate(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["reason", "summary", "urgency"],
            "properties": {
                "reason": {"type": "string"},
                "summary": {"type": "string"},
                "urgency": {"type": "string", "enum": ["low", "normal", "high"]},
                "contact": {"type": "string"},
            },
        }))
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        Some(self)
    }
}

impl OutcomeLookup for Escalator {
    fn look_up(&self, invocation: LookupInvocation) -> Lookup {
        let handovers = invocation.context.capabilities.handovers();
        find(handovers.find(ticket_id(&invocation.effect_id)))
    }
}

/// The ticket's id, derived from its effect, so that a repeated attempt finds the ticket.
fn ticket_id(effect_id: &EffectId) -> String {
    format!("tk{}", downstream_key(effect_id))
}

fn escalate(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "call a person")?;
    let arguments: Arguments = read(&arguments)?;
    let Some(effect_id) = &context.effect_id else {
        return Err(report(
            FailureKind::Permanent,
            "this tool has to be declared as one that writes",
        ));
    };
    let (Some(reason), Some(summary)) = (said(&arguments.reason), said(&arguments.summary)) else {
        return Err(report(
            FailureKind::Validation,
            "`reason` and `summary` have to say something, for a person who has not heard the conversation",
        ));
    };
    let request = NewHandover {
        id: ticket_id(effect_id),
        conversation_id: context.caller.conversation_id.clone(),
        user_id: context.caller.user_id.clone(),
        reason: Sensitive(reason.to_owned()),
        summary: Sensitive(summary.to_owned()),
        urgency: arguments.urgency,
        contact: arguments
            .contact
            .as_deref()
            .and_then(said)
            .map(|contact| Sensitive(contact.to_owned())),
    };
    let told = request.reason.clone();
    let handovers = context.capabilities.handovers();
    Ok(answer(handovers.open(request), move |opened| {
        let ticket = opened.map_err(|error| refused(error, &context))?;
        // A client that has gone reads the ticket in the conversation when it comes back.
        let _ = context.send_message(json!({
            "type": "ticket",
            "ticketId": ticket.id,
            "reason": told.expose(),
            "urgency": ticket.urgency,
            "status": "open",
        }));
        let _ = context.audit(
            "ticket_opened",
            json!({"ticketId": ticket.id, "urgency": ticket.urgency}),
        );
        Ok(success(&ticket))
    }))
}

fn success(ticket: &Handover) -> Success {
    Success::new(json!({
        "ticket_id": ticket.id,
        "urgency": ticket.urgency,
        "status": "open",
        "instruction": "A person has been asked and answers in this conversation when they can. Tell the user so, and promise no time.",
    }))
}

fn refused(error: HandoverError, context: &Context) -> Box<Report> {
    match error {
        HandoverError::TooMany(message) => Box::new(Report {
            partial_side_effects: Some(false),
            suggestion: Some(
                "tell the user that a person has been asked already, and will answer here"
                    .to_owned(),
            ),
            ..Report::new(FailureKind::Conflict, message)
        }),
        HandoverError::Unavailable(cause) => {
            // The caller's answer stays the same when the audit is closed.
            let _ = context.audit("tickets_unavailable", json!({"cause": cause}));
            without_effect("the ticket could not be stored; nobody was asked")
        }
    }
}

fn find(mut asked: CapabilityFuture<Result<Option<Handover>, HandoverError>>) -> Lookup {
    let finding = |found: Result<Option<Handover>, HandoverError>| match found {
        Ok(Some(ticket)) => Finding::Happened(Box::new(success(&ticket))),
        Ok(None) => Finding::NotHappened,
        Err(HandoverError::TooMany(_) | HandoverError::Unavailable(_)) => Finding::Unknown,
    };
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    match asked.as_mut().poll(&mut task) {
        std::task::Poll::Ready(found) => Lookup::Found(finding(found)),
        std::task::Poll::Pending => Lookup::Pending(Box::pin(async move { finding(asked.await) })),
    }
}
