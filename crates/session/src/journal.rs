//! The record of a session from which it can be run again: its configuration, its inputs in their order, and the outputs of each. Owns
//! the form of a journal's lines; knows no file and no handler.

use crate::client::ClientUpdate;
use crate::io::{Input, Output};
use crate::model::ModelCommand;
use crate::session::{Session, SessionConfig};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::rights::Role;
use windlass_contract::tightening::Tightening;
use windlass_contract::version::Version;
use windlass_store::command::AnswerVerdict;

/// The version of this form. A journal of another version is not read: the core that wrote it was another one.
pub const JOURNAL_VERSION: u32 = 12;

/// Characters of an output's text. The rest is cut, and compared by its sum.
const OUTPUT_CHARACTERS_MAX: usize = 2_000;

/// One line of a journal, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first line.
    Header(Box<Header>),
    Step(JournalStep),
    /// From here on arguments are left out because of this tool, which marks some as sensitive. The rest can be read, but not compared.
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
    /// The configuration's changes to each tool, by its id. Without an entry, a tool's changes are unknown.
    #[serde(default)]
    pub tools: BTreeMap<String, Tightening>,
    /// The session's version of each tool that has several, by its id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, Version>,
    /// The configuration without its registry. It holds the clock's reading at timestamp zero.
    pub session: SessionConfig,
    /// The outputs before the first input.
    pub outputs: Vec<String>,
}

/// One input and its outputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JournalStep {
    /// From 1, one more with each recorded step. A step that is left out or moved shows, even if it changed nothing.
    pub number: u64,
    pub at: Timestamp,
    pub input: Input,
    /// Empty in a partial journal.
    pub outputs: Vec<String>,
}

/// The settings of all tools that the configuration may have changed, as they are.
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

/// The chosen versions of the tools that have several.
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

/// No list means no roles: an empty list would admit no one.
fn named(roles: &BTreeSet<Role>) -> Option<BTreeSet<Role>> {
    (!roles.is_empty()).then(|| roles.clone())
}

/// Outputs in a journal's form: enough to tell two apart, in words that a person can read. Sensitive content stays out; a sum tells
/// apart outputs to the world, the model and the client. All of them follow from inputs, which stand in the journal for as long as
/// outputs do. Events say the same once more, without a sum.
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

/// The content that an output's text does not show. The frames of a camera are left out: a journal has none.
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
    windlass_contract::json::hex(&windlass_contract::json::hash(value)[..8])
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
    /// Begins the session with the registry at hand, whose version may differ from the header's. Returns also the outputs before the
    /// first input.
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

    /// Gives the session one input and returns its outputs.
    pub fn step(&mut self, at: Timestamp, input: Input) -> Vec<String> {
        self.outputs.clear();
        self.session.handle(at, input, &mut self.outputs);
        texts_of(&self.outputs)
    }
}
