//! `ignore_user`: blocks a user for a time, after a farewell. Knows the parts of a block; whether a user deserves one is the model's
//! judgement, and refusing a blocked user is the server's task.

use crate::arguments::{read, require_active, said};
use crate::outcome::{Outcome, ready, without_effect};
use serde::Deserialize;
use serde_json::{Number, Value, json};
use windlass_contract::handler::{
    Block, Context, Execution, Finding, Handler, Invocation, Lookup, LookupInvocation,
    OutboxClosed, OutcomeLookup, Placement, Success,
};
use windlass_contract::intent::{EndAfter, Intent};
use windlass_contract::kind::Mode;

pub(crate) struct Blocker;

#[derive(Deserialize)]
struct Arguments<'a> {
    duration_seconds: Number,
    #[serde(borrow)]
    farewell_message: std::borrow::Cow<'a, str>,
}

impl Handler for Blocker {
    fn execute(&self, invocation: Invocation) -> Execution {
        ready(block(&invocation))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["duration_seconds", "farewell_message"],
            "properties": {
                "duration_seconds": {"type": "number"}, "farewell_message": {"type": "string"},
            },
        }))
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        Some(self)
    }

    /// A block is on the disk before the call is answered, which takes milliseconds.
    fn placement(&self) -> Placement {
        Placement::Apart
    }
}

impl OutcomeLookup for Blocker {
    fn look_up(&self, invocation: LookupInvocation) -> Lookup {
        Lookup::Found(find(&invocation).unwrap_or(Finding::Unknown))
    }
}

fn block(invocation: &Invocation) -> Outcome {
    let context = &invocation.context;
    require_active(context, "block the user")?;
    let arguments: Arguments<'_> = read(&invocation.arguments)?;
    let duration = arguments.duration_seconds;
    let now_unix_ms = context.capabilities.now_unix_ms();
    let until_unix_ms = now_unix_ms.saturating_add(milliseconds(&duration));
    let farewell = arguments.farewell_message;

    if !context.can_send() {
        return Err(without_effect(
            "the client could not be told; the user is not blocked",
        ));
    }
    let blocked = context.capabilities.blocks().block(Block {
        user_id: context.caller.user_id.clone(),
        until_unix_ms,
        farewell_message: farewell.to_string(),
    });
    if let Err(unavailable) = blocked {
        let _ = context.audit(
            "blocks_unavailable",
            json!({"cause": unavailable.to_string()}),
        );
        return Err(without_effect(
            "the block could not be stored; the user is not blocked",
        ));
    }
    // The block holds even if this process ends now. A client that is not connected is told when it comes back, and the block stands
    // whether or not its audit line could be taken.
    let _ = notify(context, &duration, until_unix_ms, &farewell);
    let _ = context.audit(
        "user_timeout",
        json!({"duration": duration, "timeoutUntil": until_unix_ms, "reason": "tool_invocation"}),
    );
    Ok(Success {
        intents: intents(context.mode, &farewell),
        ..success(context.mode, &duration, until_unix_ms, &farewell)
    })
}

fn success(mode: Mode, duration: &Number, until_unix_ms: u64, farewell: &str) -> Success {
    Success::new(json!({
        "timeoutUntil": until_unix_ms,
        "duration": duration,
        "instruction": instruction(mode, farewell),
    }))
}

/// Whether the block stands. A block is made after its effect's id, so it lasts at least its duration from that moment on. `None` where
/// it may have been made and be over, or where nothing can be read.
fn find(invocation: &LookupInvocation) -> Option<Finding> {
    let context = &invocation.context;
    let arguments: Arguments<'_> = read(&invocation.arguments).ok()?;
    let duration = arguments.duration_seconds;
    let minted_at_unix_ms = invocation.effect_id.minted_at_unix_ms()?;
    let lasts_until = minted_at_unix_ms.saturating_add(milliseconds(&duration));
    let now_unix_ms = context.capabilities.now_unix_ms();
    let user_id = &context.caller.user_id;
    let block = context
        .capabilities
        .blocks()
        .blocked(user_id, now_unix_ms)
        .ok()?;
    match block.map(|block| block.until_unix_ms) {
        Some(until_unix_ms) if until_unix_ms >= lasts_until => {
            let farewell = &arguments.farewell_message;
            let success = success(context.mode, &duration, until_unix_ms, farewell);
            Some(Finding::Happened(Box::new(success)))
        }
        Some(_) | None => (now_unix_ms < lasts_until).then_some(Finding::NotHappened),
    }
}

fn milliseconds(seconds: &Number) -> u64 {
    // The schema bounds the seconds to a day; the conversion saturates beyond that.
    (seconds.as_f64().unwrap_or(0.0) * 1000.0).round() as u64
}

fn notify(
    context: &Context,
    duration: &Number,
    until_unix_ms: u64,
    farewell: &str,
) -> Result<(), OutboxClosed> {
    context.send_message(json!({
        "type": "timeout",
        "durationSeconds": duration,
        "timeoutUntil": until_unix_ms,
        "farewellMessage": farewell,
    }))
}

fn instruction(mode: Mode, farewell: &str) -> String {
    let act = match mode {
        Mode::Voice => "The user is blocked and the session ends after your farewell. Speak",
        Mode::Text => "The user is blocked. Answer with",
    };
    match said(farewell) {
        Some(farewell) => format!("{act} exactly this and nothing else: {farewell}"),
        None => format!("{act} one short, calm farewell and nothing else."),
    }
}

/// A text conversation has no voice to end: its next message is refused by the block itself.
fn intents(mode: Mode, farewell: &str) -> Vec<Intent> {
    match mode {
        Mode::Text => Vec::new(),
        Mode::Voice => vec![
            Intent::EndVoiceSession {
                after: EndAfter::FarewellSpoken,
                reason: Some("user_blocked".to_owned()),
                closing_message: said(farewell).map(str::to_owned),
                text_response: None,
            },
            Intent::SuppressAudio { value: true },
        ],
    }
}
