//! `query_tool_memory`: says what earlier calls of the conversation brought back. Knows how a call is summed up, and not where calls
//! are kept.

use crate::arguments::read;
use crate::capability::answer;
use crate::outcome::{Outcome, ready, report, without_effect};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_contract::envelope::rfc3339;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    CallsRequest, Context, EarlierCall, Execution, Handler, Invocation, MemoryUnavailable, Report,
    Success, WantedCalls,
};
use windlass_contract::sensitive::Sensitive;

pub(crate) struct Rememberer;

/// Characters of arguments and of a result that a summary shows.
const ARGUMENTS_CHARACTERS_MAX: usize = 200;
const RESULT_CHARACTERS_MAX: usize = 300;

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    limit: usize,
}

impl Handler for Rememberer {
    fn execute(&self, invocation: Invocation) -> Execution {
        remember(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["limit"],
            "properties": {
                "call_id": {"type": "string"},
                "tool": {"type": "string"},
                "limit": {"type": "integer"},
            },
        }))
    }
}

fn remember(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    let Arguments {
        call_id,
        tool,
        limit,
    } = read(&arguments)?;
    let wanted = match &call_id {
        Some(id) => WantedCalls::One(id.clone()),
        None => WantedCalls::Newest {
            tool,
            but: context.tool.id.as_str().to_owned(),
            calls_max: limit,
        },
    };
    let request = CallsRequest {
        conversation_id: context.caller.conversation_id.clone(),
        user_id: context.caller.user_id.clone(),
        wanted,
    };
    let memory = context.capabilities.memory();
    Ok(answer(memory.calls(request), move |found| {
        let found = found.map_err(|MemoryUnavailable(cause)| unavailable(&cause, &context))?;
        // External content stays external whenever it is summed up.
        if found.iter().any(|call| call.is_external) && context.mark_external().is_err() {
            return Err(without_effect(
                "earlier calls cannot be told of now; go on with what you have",
            ));
        }
        match (call_id, found.into_iter()) {
            (Some(id), mut found) => match found.next() {
                Some(call) => Ok(Success::new(json!({"call": whole(call)}))),
                None => Err(unknown(&id)),
            },
            (None, found) => {
                let calls: Vec<Value> = found.map(|call| summary(&call)).collect();
                Ok(Success::new(json!({"calls": calls})))
            }
        }
    }))
}

fn unavailable(cause: &str, context: &Context) -> Box<Report> {
    // The caller's answer stays the same when the audit is closed.
    let _ = context.audit("memory_unavailable", json!({"cause": cause}));
    without_effect("earlier calls cannot be read now; try again in a moment")
}

fn unknown(id: &str) -> Box<Report> {
    Box::new(Report {
        suggestion: Some("list the calls without `call_id`, and take one from there".to_owned()),
        details: Some(json!({"pointer": "/call_id"})),
        ..*report(
            FailureKind::NotFound,
            format!("this conversation has no call {id:?}"),
        )
    })
}

fn head(call: &EarlierCall) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("call_id".into(), call.id.as_str().into());
    head.insert("tool".into(), call.tool.as_str().into());
    head.insert("turn".into(), call.turn.into());
    head.insert("at".into(), rfc3339(call.at_unix_ms).into());
    head.insert("ok".into(), call.error.is_none().into());
    if let Some(error) = call.error {
        head.insert("error".into(), json!(error));
    }
    head.insert("external".into(), call.is_external.into());
    head
}

fn summary(call: &EarlierCall) -> Value {
    let mut object = head(call);
    if let Some(arguments) = &call.arguments {
        let arguments = beginning(arguments.expose(), ARGUMENTS_CHARACTERS_MAX);
        object.insert("arguments".into(), arguments.into());
    }
    let result = beginning(result(&call.result), RESULT_CHARACTERS_MAX);
    object.insert("result".into(), result.into());
    Value::Object(object)
}

fn whole(call: EarlierCall) -> Value {
    let mut object = head(&call);
    object.insert("duration_ms".into(), call.duration_ms.into());
    if let Some(arguments) = call.arguments {
        object.insert("arguments".into(), arguments.into_inner());
    }
    object.insert("result".into(), result(&call.result).clone());
    Value::Object(object)
}

/// The call's result, taken out of the form in which the log keeps it.
fn result(kept: &Sensitive<Value>) -> &Value {
    let kept = kept.expose();
    let data = kept.get("data").or_else(|| kept.get("message"));
    data.unwrap_or(kept)
}

/// A text as it is, everything else as JSON.
fn beginning(value: &Value, characters_max: usize) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
