//! The model's next actions in a request's conversation: the script's, or the demo model's. Knows no protocol.

use crate::declaration::Declaration;
use crate::demo::{self, World};
use crate::runner::Options;
use crate::script::{Action, CallForm, CallId, Delivery, Exchange, When};
use crate::template::Scope;
use serde_json::Value;
use std::collections::BTreeMap;

/// One part of the conversation, in its order. Texts of the model without calls do not matter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    User(Heard),
    /// Speech of the user, which is not recognised here.
    Speech,
    /// The tool and result of each call of one answer.
    Results(Vec<(String, Value)>),
}

/// The user's messages: the parts may be several messages, of which only the last waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Heard {
    parts: Vec<String>,
    /// The whole text, for scripts.
    text: String,
}

impl Said {
    /// Parts of one content, joined by `between`.
    pub(crate) fn user(parts: Vec<String>, between: &str) -> Self {
        Self::User(Heard {
            text: parts.join(between),
            parts,
        })
    }
}

/// The model's next actions, with their places filled in. `instruction` is the system's.
pub(crate) fn next(
    options: &Options,
    instruction: &str,
    said: &[Said],
    tools: &[Declaration],
) -> Vec<Action> {
    match &options.exchanges {
        None => demo_next(said, &World::read(instruction, tools)),
        Some(exchanges) => scripted_next(exchanges, said),
    }
}

/// Replays the whole conversation with the demo model, which is fast enough for that.
fn demo_next(said: &[Said], world: &World<'_>) -> Vec<Action> {
    let mut model = demo::Model::new();
    let mut replies = Vec::new();
    for said in said {
        replies = match said {
            Said::User(heard) => model.hear_parts(&heard.parts, world),
            Said::Speech => model.hear_speech(),
            Said::Results(results) => model.consult(results, world),
        };
    }
    replies
        .into_iter()
        .filter_map(|reply| match reply {
            demo::Reply::Say(text) => Some(Action::Say(text)),
            demo::Reply::Call { name, args } => Some(Action::Call(CallForm {
                name,
                args: Value::Object(args),
                id: CallId::Minted,
                deliver: Delivery::Call,
            })),
            demo::Reply::AwaitResults => None,
        })
        .collect()
}

fn scripted_next(exchanges: &[Exchange], said: &[Said]) -> Vec<Action> {
    let is_input = |said: &Said| matches!(said, Said::User(_) | Said::Speech);
    let Some(last) = said.iter().rposition(is_input) else {
        return vec![Action::Say("Nobody has said anything.".to_owned())];
    };
    let inputs: Vec<&Said> = said.iter().filter(|said| is_input(said)).collect();
    let found = found(exchanges, &inputs);
    let heard = heard(&said[last], found);
    let rounds = said.len() - 1 - last;
    let actions = found.and_then(|exchange| {
        exchange
            .actions
            .split(|action| *action == Action::ExpectResponse)
            .nth(rounds)
    });
    let Some(actions) = actions else {
        return vec![Action::Say("The script has no answer to this.".to_owned())];
    };
    let mut results = BTreeMap::new();
    let mut result = None;
    for said in &said[last..] {
        if let Said::Results(those) = said {
            for (tool, value) in those {
                results.insert(tool.clone(), value.clone());
                result = Some(value);
            }
        }
    }
    let earlier = inputs[..inputs.len() - 1].iter();
    let earlier: Vec<&str> = earlier.map(|said| self::heard(said, None)).collect();
    let remembered = earlier.join("; ");
    let scope = Scope {
        result,
        results: &results,
        heard,
        remembered: &remembered,
    };
    actions
        .iter()
        .map(|action| filled(action, &scope))
        .collect()
}

/// The exchange that answers the last of these inputs.
fn found<'e>(exchanges: &'e [Exchange], inputs: &[&Said]) -> Option<&'e Exchange> {
    let turn = u32::try_from(inputs.len()).unwrap_or(u32::MAX);
    let last = inputs.last()?;
    exchanges.iter().find(|exchange| {
        exchange.turn.is_none_or(|number| number == turn)
            && match (&exchange.when, last) {
                (When::Any, _) | (When::Speech(_), Said::Speech) => true,
                (When::Text(part), Said::User(heard)) => {
                    heard.text.to_lowercase().contains(&part.to_lowercase())
                }
                (When::Text(_) | When::Speech(_) | When::Setup | When::Resumed, _) => false,
            }
    })
}

/// The transcript of an input.
fn heard<'s>(said: &'s Said, exchange: Option<&'s Exchange>) -> &'s str {
    match (said, exchange.map(|exchange| &exchange.when)) {
        (Said::User(heard), _) => &heard.text,
        (Said::Speech, Some(When::Speech(text))) => text,
        (Said::Speech | Said::Results(_), _) => demo::SPEECH_TRANSCRIPT,
    }
}

/// The transcript of the user's last spoken input.
pub(crate) fn transcript(options: &Options, said: &[Said]) -> String {
    let inputs: Vec<&Said> = said
        .iter()
        .filter(|said| matches!(said, Said::User(_) | Said::Speech))
        .collect();
    let exchanges = options.exchanges.as_deref().unwrap_or_default();
    inputs
        .last()
        .map_or("", |last| heard(last, found(exchanges, &inputs)))
        .to_owned()
}

fn filled(action: &Action, scope: &Scope<'_>) -> Action {
    let call = |call: &CallForm| CallForm {
        args: scope.fill_value(&call.args),
        ..call.clone()
    };
    match action {
        Action::Say(text) => Action::Say(scope.fill(text)),
        Action::Think(text) => Action::Think(scope.fill(text)),
        Action::Call(form) => Action::Call(call(form)),
        Action::Calls(forms) => Action::Calls(forms.iter().map(call).collect()),
        other => other.clone(),
    }
}

/// The approximate number of tokens of a text.
pub(crate) fn tokens(characters: usize) -> usize {
    characters.div_ceil(4)
}

/// The text of a message's content: a text, or parts with one text each.
pub(crate) fn text_of(content: &Value) -> String {
    texts_of(content).concat()
}

/// The texts of the parts.
pub(crate) fn texts_of(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// The system's texts among the items of a conversation that have a role.
pub(crate) fn instruction_of(items: &[Value]) -> String {
    let is_systems = |item: &&Value| {
        ["system", "developer"]
            .iter()
            .any(|role| item["role"] == *role)
    };
    let texts = items
        .iter()
        .filter(is_systems)
        .map(|item| text_of(&item["content"]));
    texts.collect::<Vec<_>>().join("\n\n")
}
