//! The translation between calls and the ledger's rows: the contents of a request, and the meaning of an effect's or an approval
//! request's record. It decides nothing.

use crate::event::SessionEvent;
use crate::facts::Completed;
use crate::facts::{CallFacts, CallRequest, Delivered, DeliveryKey};
use crate::limits::Limits;
use crate::policy::{self, RememberOffer, Settled, confirm, consent, judge, outcome_of};
use crate::step::SessionStep;
use crate::values_apart::{SetApart, ValuesApart};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::envelope::{Outcome, ToolResponse};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::handler::HandlerResult;
use windlass_contract::id::CallNumber;
use windlass_contract::kind::Reach;
use windlass_contract::registry::{Registry, STEERING_TOOLS, Tool};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Approval, CalledBack, ToolFacts};
use windlass_store::{Effect, EffectState, Entry, NewStanding, Question};

/// Milliseconds that an attempt holds its lease beyond its tool's timeout: the time to record how it ended.
const LEASE_MARGIN_MS: u64 = 5_000;

/// Characters of a result in a service's callback.
const CALLED_BACK_CHARACTERS_MAX: usize = 262_144;

/// Whether the ledger decides about a tool's calls: the tool changes something outside, runs in the background, or needs consent.
pub(crate) fn decides_about(tool: &Tool) -> bool {
    tool.runs_in_background() || decides_about_nested(tool)
}

/// The same for calls that handlers make, and wait for.
pub(crate) fn decides_about_nested(tool: &Tool) -> bool {
    has_effects(tool) || tool.requires_confirmation
}

fn has_effects(tool: &Tool) -> bool {
    tool.writes() && !STEERING_TOOLS.contains(&tool.id.as_str())
}

pub(crate) fn tool_facts(tool: &Tool) -> ToolFacts {
    ToolFacts {
        id: tool.id.clone(),
        version: tool.version.to_string(),
        handler_hash: Some(tool.code_hash.to_string()),
        writes: has_effects(tool),
        is_background: tool.runs_in_background(),
        is_external: tool.reach == Reach::External,
        idempotent: tool.idempotent,
        repeatable: tool.repeatable,
        has_lookup: tool.handler.outcome_lookup().is_some(),
        key_spec: tool.key_spec().clone(),
    }
}

pub(crate) fn lease_ms(tool: &Tool) -> u64 {
    tool.timeout_ms.saturating_add(LEASE_MARGIN_MS)
}

pub(crate) fn question_ms(step: &SessionStep) -> u64 {
    step.limits().confirmation_seconds.saturating_mul(1_000)
}

/// Arguments that the ledger kept. They were written from arguments, so they are an object.
pub(crate) fn arguments_of(text: &str) -> Arguments {
    let object = serde_json::from_str::<Map<String, Value>>(text);
    object.unwrap_or_default().into()
}

/// A response as the ledger keeps it.
pub(crate) fn receipt(response: &ToolResponse) -> Sensitive<String> {
    let text = serde_json::to_string(response);
    Sensitive(text.expect("a response has text keys and finite numbers"))
}

/// The audit's facts about an intention.
pub(crate) fn intent(
    (call, parent): (CallNumber, Option<CallNumber>),
    turn: u64,
    is_confirmed: bool,
    step: &SessionStep,
) -> Sensitive<String> {
    let mut intent = json!({
        "sessionId": step.config.session_id,
        "callId": call.to_string(),
        "turn": turn,
        "mode": step.config.mode.as_str(),
        "confirmed": is_confirmed,
    });
    if let Some(parent) = parent {
        intent["parentCallId"] = parent.to_string().into();
    }
    Sensitive(intent.to_string())
}

/// The user's approval, with the tool that may run by it, if the tool still exists.
pub(crate) fn approval(
    tool: Option<&Tool>,
    (call, turn): (CallNumber, u64),
    (may_run, remember): (bool, Option<NewStanding>),
    step: &SessionStep,
) -> Approval {
    Approval {
        tool: tool.map(tool_facts),
        may_run,
        remember,
        lease_ms: tool.map_or(0, lease_ms),
        question_ms: question_ms(step),
        intent: intent((call, None), turn, true, step),
    }
}

/// The standing approval that this session can offer with a request; `None` if the session has another version of the tool, whose calls
/// would not be covered. Only sessions of the request's own mode know how long it stands at most.
pub(crate) fn remember_offer(question: &Question, step: &SessionStep) -> Option<RememberOffer> {
    let tool = step.config.registry.get(question.tool.as_str())?;
    let minutes_max = step.limits().standing_approval_minutes;
    let is_here = question.mode == step.config.mode && question.input.is_none();
    RememberOffer::of(question, tool, minutes_max).filter(|_| is_here)
}

/// The tool that the user was asked about, if it is still there as it was shown.
pub(crate) fn shown_tool<'s>(question: &Question, step: &'s SessionStep) -> Option<&'s Tool> {
    let (version, code_hash) = (&question.tool_version, question.handler_hash.as_deref());
    let registry = &step.config.registry;
    let tool = registry.as_shown(question.tool.as_str(), version, code_hash)?;
    Some(tool)
}

/// The standing approval for the ledger to remember; `None` if the tool does not allow one.
pub(crate) fn new_standing(
    question: &Question,
    tool: &Tool,
    step: &SessionStep,
) -> Option<NewStanding> {
    let offer = remember_offer(question, step)?;
    let arguments = arguments_of(question.arguments.expose());
    Some(NewStanding {
        values: consent::standing_values(tool, &arguments)?,
        lasts_ms: offer.minutes.saturating_mul(60_000),
        // The driver knows whose session this is.
        client_id: None,
    })
}

/// The outcome of an effect.
pub(crate) fn settled_of(effect: &Effect, turn: u64, step: &SessionStep) -> Settled {
    let registry = &step.config.registry;
    let tool = registry.of_record(effect.tool.as_str(), &effect.tool_version);
    let reach = tool.map_or(Reach::External, |tool| tool.reach);
    let response = response_of(effect, step);
    Settled::outcome(response, turn, reach, Some(effect.effect_id.clone()))
}

/// The outcome of an effect, as the model reads it again.
pub(crate) fn replayed_with_note(effect: &Effect, turn: u64, step: &SessionStep) -> Settled {
    let mut settled = settled_of(effect, turn, step);
    if effect.state == EffectState::Done {
        settled.note = Some(confirm::replay_note(effect).into());
    }
    settled
}

/// The facts of a service's callback, and of the conversation that it belongs to.
pub struct CallbackFacts<'a> {
    pub effect: &'a Effect,
    pub tool: &'a Arc<Tool>,
    pub registry: &'a Arc<Registry>,
    /// The limits of the conversation's sessions.
    pub limits: &'a Arc<Limits>,
    /// The newest entries of its log, oldest first.
    pub log: &'a [Entry],
    pub now_unix_ms: u64,
}

/// A callback's outcome for the ledger, with the values that it keeps for the conversation; the problem of its result, for the log; and
/// the events of its intents. Other intents are left out: the session for which it ran may be another one by now.
pub fn called_back(
    of: &CallbackFacts<'_>,
    result: HandlerResult,
) -> (CalledBack, Option<String>, Vec<SessionEvent>) {
    let (effect, tool, now_unix_ms) = (of.effect, of.tool, of.now_unix_ms);
    let judged = judge(tool, result, CALLED_BACK_CHARACTERS_MAX);
    let apart = ValuesApart {
        tool: &tool.id,
        registry: of.registry,
        limits: of.limits,
        log: of.log,
    };
    let SetApart { values, events } = apart.set(&judged.intents);
    let mut meta = tool.meta(of.registry.version().clone(), now_unix_ms, Arc::default());
    meta.duration_ms = now_unix_ms.saturating_sub(effect.begun_at_unix_ms);
    meta.cut = judged.cut;
    let response = ToolResponse {
        outcome: judged.outcome,
        intents: Vec::new(),
        meta,
    };
    let called_back = CalledBack {
        effect_id: effect.effect_id.clone(),
        outcome: outcome_of(&response),
        receipt: Some(receipt(&response)),
        values,
    };
    (called_back, judged.problem, events)
}

/// The recorded response, or the known state if no response was kept.
pub(crate) fn response_of(effect: &Effect, step: &SessionStep) -> Arc<ToolResponse> {
    let id = &effect.tool;
    if effect.state != EffectState::Unknown
        && let Some(receipt) = &effect.receipt
        && let Ok(mut response) = serde_json::from_str::<ToolResponse>(receipt.expose())
    {
        // The intents were carried out then.
        response.intents.clear();
        return Arc::new(response);
    }
    let failure =
        |error_type, message| Outcome::Failure(CallError::new(error_type, message).into());
    let outcome = match effect.state {
        EffectState::Done => Outcome::Success {
            data: Some(json!({ "note": "It was done. Its details are not kept." }).into()),
            content: Vec::new(),
        },
        EffectState::NotDone => failure(ErrorType::Cancelled, format!("{id} was not done")),
        EffectState::Running | EffectState::Unknown => {
            failure(ErrorType::OutcomeUnknown, in_doubt(effect))
        }
    };
    Arc::new(ToolResponse {
        outcome,
        intents: Vec::new(),
        meta: step.meta_by_name(id.as_str()),
    })
}

/// The message that an effect's outcome is unknown, with the consequences.
fn in_doubt(effect: &Effect) -> String {
    let id = &effect.tool;
    let Some(task) = &effect.task else {
        return format!("{id} was started, and how it ended is not known");
    };
    if task.is_read_only {
        return format!(
            "{id} was started, and whoever worked on it is gone without an answer; it has changed nothing, and may be called again if its result is still wanted"
        );
    }
    match task.cancel_requested_at_unix_ms {
        Some(_) => format!(
            "{id} was cancelled while it was at work; whether it happens all the same is not known, and if that becomes known, it is told"
        ),
        None => format!(
            "{id} was started, and how it ended is not known; if that becomes known, it is told"
        ),
    }
}

/// The call of a recorded approval request, with its arguments if its tool would still take them.
pub(crate) fn call_request_of(
    question: &Question,
    call: CallNumber,
    turn: u64,
    step: &SessionStep,
) -> CallRequest {
    let delivered = Delivered {
        number: call,
        batch: 0,
        key: DeliveryKey::Question(CallNumber(question.call)).into(),
        unstable_id: None,
        name: question.tool.as_str().into(),
        turn,
        generation: 0,
    };
    let registry = &step.config.registry;
    let tool = registry.of_record(question.tool.as_str(), &question.tool_version);
    let Some(tool) = tool else {
        return CallRequest::unreadable(delivered);
    };
    let arguments = arguments_of(question.arguments.expose());
    if policy::judge_arguments(tool, &arguments).is_err() {
        return CallRequest::refused(delivered, Some(tool.clone()), Some(arguments));
    }
    CallRequest::Valid(Arc::new(CallFacts {
        delivered,
        tool: tool.clone(),
        completed: Completed {
            arguments: Sensitive(Arc::new(arguments)),
            defaults_applied: Arc::default(),
            nulls_left_out: Arc::default(),
            clamped: None,
        },
    }))
}
