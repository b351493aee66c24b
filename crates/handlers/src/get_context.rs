//! `get_context`: returns the session's facts about the user, itself, the time and the client's page. Knows no way to find out more.

use crate::arguments::read;
use crate::outcome::{Outcome, ready, without_effect};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_contract::handler::{
    Context, Execution, Handler, Invocation, Page, Placement, Success,
};
use windlass_contract::rights::Rights;
use windlass_contract::sensitive::Sensitive;

pub(crate) struct Teller;

#[derive(Deserialize)]
struct Arguments {
    fields: Vec<Field>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Field {
    User,
    Session,
    Page,
    Time,
}

impl Handler for Teller {
    fn execute(&self, invocation: Invocation) -> Execution {
        ready(tell(&invocation))
    }

    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["fields"],
            "properties": {
                "fields": {
                    "type": "array",
                    "items": {"type": "string", "enum": ["user", "session", "page", "time"]},
                },
            },
        }))
    }
}

fn tell(invocation: &Invocation) -> Outcome {
    let Arguments { fields } = read(&invocation.arguments)?;
    let context = &invocation.context;
    let mut data = json!({});
    for field in fields {
        match field {
            Field::User => data["user"] = user(context),
            Field::Session => data["session"] = session(context),
            Field::Time => data["time"] = time(context),
            Field::Page => data["page"] = page(context)?,
        }
    }
    Ok(Success::new(data))
}

fn user(context: &Context) -> Value {
    let roles = match &context.caller.rights {
        Rights::Anonymous => Vec::new(),
        Rights::SignedIn(roles) => roles.iter().map(ToString::to_string).collect(),
    };
    json!({
        "id": context.caller.user_id.as_str(),
        "signed_in": context.caller.rights.is_signed_in(),
        "roles": roles,
    })
}

fn session(context: &Context) -> Value {
    json!({
        "mode": context.mode,
        "conversation_id": context.caller.conversation_id.as_str(),
        "turn": context.turn,
    })
}

fn time(context: &Context) -> Value {
    let local = context.capabilities.local_time();
    json!({"time_zone": local.zone, "now": local.now})
}

/// A page's title may be text of strangers.
fn page(context: &Context) -> Outcome<Value> {
    let Some(Page { url, title }) = context.capabilities.page() else {
        return Ok(json!({"known": false}));
    };
    if context.mark_external().is_err() {
        return Err(without_effect(
            "the page cannot be told of now; ask for the other fields",
        ));
    }
    let text = |text: Option<Sensitive<String>>| text.map(Sensitive::into_inner);
    Ok(json!({"known": true, "url": text(url), "title": text(title)}))
}
