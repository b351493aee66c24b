//! `end_voice_session`: asks for the end of a voice session after its farewell. The state controller ends it.

use crate::arguments::{read, require_active, said};
use crate::outcome::{Outcome, ready};
use serde::Deserialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use windlass_contract::arguments::Arguments as Given;
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};
use windlass_contract::intent::{EndAfter, Intent};

pub(crate) struct Ender;

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    closing_message: Cow<'a, str>,
    #[serde(borrow)]
    text_response: Cow<'a, str>,
}

impl Handler for Ender {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        ready(end(&invocation))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["reason", "closing_message", "text_response"],
            "properties": {
                "reason": {"type": "string"},
                "closing_message": {"type": "string"},
                "text_response": {"type": "string"},
            },
        }))
    }
}

fn end(invocation: &Invocation) -> Outcome {
    require_active(&invocation.context, "end the session")?;
    success(&invocation.arguments)
}

fn success(arguments: &Given) -> Outcome {
    let arguments: Arguments<'_> = read(arguments)?;
    let closing_message = said(&arguments.closing_message);
    let text_response = said(&arguments.text_response);
    let instruction = match closing_message {
        Some(message) => format!("Speak exactly this and nothing else: {message}"),
        None => "Unless you have just said goodbye, speak one short farewell and nothing else."
            .to_owned(),
    };
    Ok(Success {
        intents: vec![Intent::EndVoiceSession {
            after: EndAfter::FarewellSpoken,
            reason: Some(arguments.reason.to_string()),
            closing_message: closing_message.map(str::to_owned),
            text_response: text_response.map(str::to_owned),
        }],
        ..Success::new(json!({
            "reason": arguments.reason,
            "finalMessage": closing_message,
            "textResponse": text_response,
            "instruction": instruction,
        }))
    })
}
