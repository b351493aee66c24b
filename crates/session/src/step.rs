//! A step of the session, for its components: the time, the session's constants, the one table of deadlines, fresh ids, and the list of
//! outputs. It knows no component.

use crate::client::{ClientUpdate, ErrorCode};
use crate::config::SessionConfig;
use crate::deadlines::{Deadline, Deadlines};
use crate::event::SessionEvent;
use crate::io::Output;
use crate::limits::Limits;
use crate::model::ModelCommand;
use crate::time::Timestamp;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::condition::Facts;
use windlass_contract::envelope::{self, Meta, Outcome, ToolResponse};
use windlass_contract::error::CallError;
use windlass_contract::id::{CallNumber, EffectId};
use windlass_contract::json::hex;
use windlass_contract::registry::Tool;
use windlass_store::{EntryEvent, LegNumber, NewEntry, Nonce};

pub(crate) struct SessionStep {
    pub(crate) now: Timestamp,
    pub(crate) config: SessionConfig,
    pub(crate) deadlines: Deadlines,
    pub(crate) outputs: Vec<Output>,
    last_call: u64,
    /// The number of nonces made so far.
    nonces: u64,
}

impl SessionStep {
    pub(crate) fn new(config: SessionConfig) -> Self {
        Self {
            now: Timestamp::default(),
            deadlines: Deadlines::default(),
            outputs: Vec::new(),
            last_call: config.last_call.0,
            nonces: 0,
            config,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.config.limits
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.config.started_unix_ms + self.now.as_millis()
    }

    /// The facts for conditions now.
    pub(crate) fn facts(&self) -> Facts<'_> {
        self.config.facts(self.unix_ms())
    }

    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }

    pub(crate) fn event(&mut self, event: SessionEvent) {
        self.push(Output::Event(event));
    }

    pub(crate) fn tell_client(&mut self, update: ClientUpdate) {
        self.push(Output::SendClient(update));
    }

    pub(crate) fn tell_model(&mut self, command: ModelCommand) {
        self.push(Output::SendModel(command));
    }

    pub(crate) fn error(&mut self, code: ErrorCode, message: impl Into<String>) {
        self.tell_client(ClientUpdate::Error {
            code,
            message: message.into(),
            details: None,
        });
    }

    /// Writes an entry of the leg's own.
    pub(crate) fn append(&mut self, number: LegNumber, event: EntryEvent) {
        self.push(Output::Append(vec![NewEntry {
            leg_number: Some(number),
            key: None,
            event,
        }]));
    }

    pub(crate) fn set_deadline(&mut self, deadline: Deadline, after: Duration) {
        self.deadlines.set(deadline, self.now + after);
    }

    pub(crate) fn clear(&mut self, deadline: Deadline) {
        self.deadlines.clear(deadline);
    }

    /// The provider owes an answer from now on.
    pub(crate) fn expect_answer(&mut self) {
        let seconds = self.limits().provider_silence_seconds;
        self.set_deadline(Deadline::ProviderSilence, Duration::from_secs(seconds));
    }

    /// Whether the model owes an answer, or words about a result, within a counted time.
    pub(crate) fn expects_model(&self) -> bool {
        let awaited = [Deadline::ProviderSilence, Deadline::ResultSilence];
        awaited
            .iter()
            .any(|deadline| self.deadlines.is_set(*deadline))
    }

    /// The provider has said something.
    pub(crate) fn heard_provider(&mut self) {
        self.clear(Deadline::ProviderSilence);
        self.clear(Deadline::ResultSilence);
    }

    /// The highest number that a call had so far.
    pub(crate) fn last_call(&self) -> CallNumber {
        CallNumber(self.last_call)
    }

    pub(crate) fn next_call(&mut self) -> CallNumber {
        self.last_call = self.last_call.saturating_add(1);
        CallNumber(self.last_call)
    }

    /// Later calls get higher numbers than this one.
    pub(crate) fn number_after(&mut self, number: CallNumber) {
        self.last_call = self.last_call.max(number.0);
    }

    /// Mints a nonce for a command to the ledger, and an id for the effect that it may begin. Both follow from the session's random id,
    /// so that a replay makes the same; a later epoch of the session makes others.
    pub(crate) fn mint(&mut self) -> (Nonce, EffectId) {
        self.nonces += 1;
        let mut hasher = Sha256::new();
        hasher.update(self.config.session_id.as_str().as_bytes());
        hasher.update(self.config.epoch.0.to_be_bytes());
        hasher.update(self.config.started_unix_ms.to_be_bytes());
        hasher.update(self.nonces.to_be_bytes());
        let hash: [u8; 32] = hasher.finalize().into();
        let (nonce, _) = hash.split_first_chunk().unwrap_or((&[0; 16], &[]));
        let effect_id = EffectId::minted(self.unix_ms(), &hex(&hash[16..]));
        (Nonce(*nonce), effect_id)
    }

    pub(crate) fn meta(&self, tool: &Tool, defaults_applied: Arc<[Arc<str>]>) -> Meta {
        let version = self.config.registry.version().clone();
        tool.meta(version, self.unix_ms(), defaults_applied)
    }

    /// A failure of a call of this tool.
    pub(crate) fn failed(&self, tool: &Tool, error: CallError) -> Arc<ToolResponse> {
        failure(error, self.meta(tool, Arc::default()))
    }

    /// The same if the tool may be unknown.
    pub(crate) fn failed_by_name(&self, name: &str, error: CallError) -> Arc<ToolResponse> {
        failure(error, self.meta_by_name(name))
    }

    pub(crate) fn meta_by_name(&self, name: &str) -> Meta {
        let version = self.config.registry.version().clone();
        envelope::meta_without_tool(name, version, self.unix_ms())
    }
}

fn failure(error: CallError, meta: Meta) -> Arc<ToolResponse> {
    Arc::new(ToolResponse {
        outcome: Outcome::Failure(error.into()),
        intents: Vec::new(),
        meta,
    })
}

#[cfg(test)]
pub(crate) mod bench {
    //! Steps for the tests of components.

    use super::*;
    use crate::model::{
        AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput,
        Thinking,
    };
    use windlass_contract::id::{ConversationId, SessionId, TenantId, UserId};
    use windlass_contract::kind::Mode;
    use windlass_contract::registry::Registry;
    use windlass_store::Epoch;

    impl SessionStep {
        pub(crate) fn for_tests() -> Self {
            Self::new(SessionConfig {
                session_id: SessionId::new("s-1"),
                epoch: Epoch(1),
                tenant: TenantId::new("t-1"),
                user_id: UserId::new("u-1"),
                rights: windlass_contract::rights::Rights::Anonymous,
                given: windlass_contract::condition::Given::default(),
                conversation_id: ConversationId::new("c-1"),
                mode: Mode::Voice,
                registry: Arc::new(Registry::new("1.0.00000000", None, Vec::new())),
                limits: Arc::new(Limits::of(Mode::Voice)),
                profile: Arc::new(profile()),
                model: "model".into(),
                estimate: None,
                started_unix_ms: 1_000,
                history: Vec::new(),
                last_call: CallNumber(0),
                can_ask: true,
                can_ask_input: false,
                pending_request: None,
            })
        }

        /// Takes the outputs since the last call, by the names of events, updates, commands and other outputs.
        pub(crate) fn take_names(&mut self) -> Vec<String> {
            self.outputs
                .drain(..)
                .map(|output| name_of(&output))
                .collect()
        }
    }

    fn profile() -> ModelProfile {
        ModelProfile {
            calls: CallSupport::Both,
            scheduling: true,
            declaration: DeclarationForm::GeminiNative,
            answers: AnswerBatching::Together,
            text_input: TextInput::RealtimeInput,
            history: HistoryInput::ClientContent,
            resumption: true,
            hold_microphone: false,
            thinking: Thinking::Omit,
            vision: false,
            context_tokens_max: 131_072,
        }
    }

    fn name_of(output: &Output) -> String {
        let text = match output {
            Output::Event(event) => format!("{event:?}"),
            Output::SendClient(update) => format!("{update:?}"),
            Output::SendModel(command) => format!("{command:?}"),
            other => format!("{other:?}"),
        };
        let end = text.find(|letter: char| !letter.is_alphanumeric());
        text[..end.unwrap_or(text.len())].to_owned()
    }
}
