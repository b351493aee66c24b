//! Tools that a test writes as closures.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use windlass_contract::handler::{Execution, Handler, Invocation, Placement, Success};
use windlass_contract::id::ToolId;
use windlass_contract::kind::{
    Behavior, Category, Mode, OnInterrupt, Reach, Scheduling, SideEffects,
};
use windlass_contract::registry::{Declarations, Registry, Tool};
use windlass_contract::validate::Validator;
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};

/// A handler made of a closure.
pub(crate) struct Run<F>(pub(crate) F, pub(crate) Placement);

impl<F: Fn(Invocation) -> Execution + Send + Sync> Handler for Run<F> {
    fn execute(&self, invocation: Invocation) -> Execution {
        (self.0)(invocation)
    }

    fn placement(&self) -> Placement {
        self.1
    }
}

/// A tool without side effects that takes an optional `text`.
pub(crate) fn tool(
    id: &str,
    run: impl Fn(Invocation) -> Execution + Send + Sync + 'static,
) -> Tool {
    tool_at(id, Placement::Inline, run)
}

pub(crate) fn tool_at(
    id: &str,
    placement: Placement,
    run: impl Fn(Invocation) -> Execution + Send + Sync + 'static,
) -> Tool {
    let parameters = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "text": { "type": "string" }, "pin": { "type": "string" } }
    });
    let declaration = || {
        let declared = json!({ "name": id, "description": id });
        serde_json::value::RawValue::from_string(declared.to_string()).unwrap()
    };
    Tool {
        id: ToolId::parse(id).unwrap(),
        version: "1.0.0".into(),
        code_hash: "1".into(),
        description: id.to_owned(),
        category: Category::Utility,
        side_effects: SideEffects::None,
        idempotent: true,
        requires_confirmation: false,
        consent_condition: None,
        remember: None,
        allowed_modes: vec![Mode::Voice, Mode::Text],
        latency_budget_ms: 500,
        timeout_ms: 5_000,
        behavior: Behavior::Blocking,
        scheduling: Scheduling::WhenIdle,
        on_interrupt: OnInterrupt::Finish,
        reach: Reach::Internal,
        confirmation_preview: None,
        rate_limit: None,
        permissions: windlass_contract::rights::Permissions::default(),
        availability: None,
        effect_key: Arc::default(),
        repeatable: false,
        sensitive: vec!["/pin".to_owned()],
        state: std::collections::BTreeMap::new(),
        status: None,
        parameters: Validator::compile(&parameters).unwrap(),
        response: None,
        declarations: Declarations {
            openai: declaration(),
            openai_realtime: declaration(),
            gemini_native: declaration(),
            gemini_json: declaration(),
        },
        summary: String::new(),
        documentation: String::new(),
        handler: Arc::new(Run(run, placement)),
    }
}

pub(crate) fn ready(data: Value) -> Execution {
    Execution::Ready(Ok(Success::new(data)))
}

/// Counts futures that were dropped before they ended.
#[derive(Clone, Default)]
pub(crate) struct Dropped(Arc<AtomicUsize>);

impl Dropped {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// An execution that never ends by itself.
    pub(crate) fn never(&self) -> Execution {
        struct Guard(Dropped);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let guard = Guard(self.clone());
        Execution::Pending(Box::pin(async move {
            let _guard = guard;
            std::future::pending().await
        }))
    }
}

pub(crate) fn registry(tools: Vec<Tool>) -> Arc<Registry> {
    Arc::new(Registry::new("1.0.test0000", None, tools))
}

/// `echo` says what it was given.
pub(crate) fn echo() -> Tool {
    Tool {
        status: Some("Echoing {text}".to_owned()),
        ..tool("echo", |invocation| {
            ready(json!({ "said": invocation.arguments.get("text") }))
        })
    }
}

pub(crate) fn profile() -> ModelProfile {
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
