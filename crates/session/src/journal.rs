//! What is recorded of a session so that it can be run again: its configuration, its inputs in the order in which they
//! were taken, and what came out of each. Owns the form of a journal's lines; knows no file and no handler.

use crate::client::ClientUpdate;
use crate::io::{Input, Output};
use crate::model::ModelCommand;
use crate::session::{Session, SessionConfig};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_store::command::AnswerVerdict;
use windlass_tool::artifact::Tightening;
use windlass_tool::registry::{Registry, Tool};
use windlass_tool::rights::Role;
use windlass_tool::version::Version;

/// The version of this form. A journal of another version is not read: the core that wrote it was another one.
pub const JOURNAL_VERSION: u32 = 12;

/// Characters of an output's text. What is longer is cut, and is compared by a sum of the rest.
const OUTPUT_CHARACTERS_MAX: usize = 2_000;

/// One line of a journal, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Header(Box<Header>),
    Step(Step),
    /// From here on arguments are left out for the sake of this tool, which marks some as sensitive; what follows can be
    /// read, and not be compared.
    Partial {
        tool: String,
    },
    /// The journal is full; the session went on.
    Full,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    pub version: u32,
    pub registry_version: String,
    /// What the configuration had made of each tool, by its id. Without, nothing is known of it.
    #[serde(default)]
    pub tools: BTreeMap<String, Tightening>,
    /// The session's version of each tool that has several, by its id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, Version>,
    /// Without its registry. The clock's reading at timestamp zero is in it.
    pub session: SessionConfig,
    /// What came out before the first input.
    pub outputs: Vec<String>,
}

/// One input and what it caused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// From 1, and one more with each step that is recorded: what is left out or moved shows, though it changed nothing.
    pub number: u64,
    pub at: Timestamp,
    pub input: Input,
    /// Empty in a partial journal.
    pub outputs: Vec<String>,
}

/// What of tools the configuration may have changed, as they are.
pub fn settings_of(registry: &Registry) -> BTreeMap<String, Tightening> {
    let settings = registry.tools().map(|tool| {
        let versions: Vec<&Arc<Tool>> = registry.versions_of(tool.id.as_str()).collect();
        let mut settings = setting_of(tool);
        if versions.len() > 1 {
            let each = versions
                .into_iter()
                .filter_map(|tool| Some((Version::parse(&tool.version)?, setting_of(tool))));
            settings.versions = each.collect();
        }
        (tool.id.to_string(), settings)
    });
    settings.collect()
}

/// The versions that a registry has of the tools that have several.
pub fn versions_of(registry: &Registry) -> BTreeMap<String, Version> {
    let chosen = registry.chosen();
    chosen
        .filter_map(|tool| Some((tool.id.to_string(), Version::parse(&tool.version)?)))
        .collect()
}

fn setting_of(tool: &Tool) -> Tightening {
    Tightening {
        // These stand in the tool's own files, and would be lost by being made stricter.
        requires_confirmation: match (&tool.consent_condition, &tool.remember) {
            (Some(_), _) | (_, Some(_)) => None,
            (None, None) => Some(tool.requires_confirmation),
        },
        remember: tool.remember.is_none().then_some(false),
        allowed_modes: Some(tool.allowed_modes.clone()),
        timeout_ms: Some(tool.timeout_ms),
        rate_limit: tool.rate_limit,
        requires_auth: Some(tool.permissions.requires_auth),
        roles: named(&tool.permissions.roles),
        approver_roles: named(&tool.permissions.approver_roles),
        versions: BTreeMap::new(),
    }
}

/// No roles are said by saying nothing: an empty list would be nobody.
fn named(roles: &BTreeSet<Role>) -> Option<BTreeSet<Role>> {
    (!roles.is_empty()).then(|| roles.clone())
}

/// Outputs as a journal holds them: enough to tell two apart, in words that a person can read. What is wrapped as
/// sensitive stays out. What acts on the world, the model and the client is told apart by a sum: all of it follows from
/// inputs, which stand in the journal as they are for as long as outputs do. Events say the same once more, without one.
pub fn texts_of(outputs: &[Output]) -> Vec<String> {
    let text = |output| {
        let text = shortened(format!("{output:?}"));
        match left_out(output) {
            Some(left_out) => format!("{text} #{}", sum(&left_out)),
            None => text,
        }
    };
    outputs.iter().map(text).collect()
}

/// What an output's words do not show. The frames of a camera are no part of it: a journal has none.
fn left_out(output: &Output) -> Option<Value> {
    Some(match output {
        Output::StartCall(call) => json!(call.arguments()),
        Output::Request { request, .. } => json!([request.arguments, request.preview]),
        Output::Answer { answer, .. } => match &answer.verdict {
            AnswerVerdict::Denied { reason } => json!(reason.as_ref()?),
            AnswerVerdict::Approved(_) => return None,
        },
        Output::Record { record, .. } => json!(record.receipt.as_ref()?),
        Output::AnswerHandler { response, .. } => json!(response),
        Output::Connect { handle, .. } => json!(handle.as_ref()?),
        Output::SendModel(command) => match command {
            ModelCommand::UserText(text) | ModelCommand::Notice(text) => json!(text),
            ModelCommand::History { entries, .. } => json!(entries),
            _ => return None,
        },
        Output::SendClient(update) => match update {
            ClientUpdate::Transcript { text, .. } => json!(text),
            ClientUpdate::ConfirmationRequest(question) => {
                json!([question.arguments, question.preview])
            }
            ClientUpdate::ConfirmationResult { response, .. } => json!(response),
            ClientUpdate::SessionComplete { transcripts } => json!(transcripts),
            _ => return None,
        },
        _ => return None,
    })
}

fn sum(value: &Value) -> String {
    windlass_tool::json::hex(&windlass_tool::json::hash(value)[..8])
}

fn shortened(mut text: String) -> String {
    let Some((end, _)) = text.char_indices().nth(OUTPUT_CHARACTERS_MAX) else {
        return text;
    };
    let sum = sum(&Value::from(&text[end..]));
    text.truncate(end);
    text.push_str("… ");
    text.push_str(&sum);
    text
}

/// A session that is run again.
pub struct Replay {
    session: Session,
    outputs: Vec<Output>,
}

impl Replay {
    /// Begins it with the registry at hand, whose version may be another one than the header's. Returns what comes out
    /// before the first input, too.
    pub fn begin(config: SessionConfig, registry: Arc<Registry>) -> (Self, Vec<String>) {
        let mut outputs = Vec::new();
        let config = SessionConfig { registry, ..config };
        let session = Session::new(config, &mut outputs);
        let texts = texts_of(&outputs);
        (Self { session, outputs }, texts)
    }

    /// Whether the session came to its end.
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }

    /// Gives it one input and returns what comes out.
    pub fn step(&mut self, at: Timestamp, input: Input) -> Vec<String> {
        self.outputs.clear();
        self.session.handle(at, input, &mut self.outputs);
        texts_of(&self.outputs)
    }
}
