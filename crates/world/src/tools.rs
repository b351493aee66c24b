//! Tools of every kind that a policy tells apart. Their handlers are the world's, so that none of these ever runs.

use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};
use windlass_tool::error::FailureKind;
use windlass_tool::handler::{Execution, Failure, Handler, Invocation};
use windlass_tool::id::ToolId;
use windlass_tool::kind::{
    Behavior, Category, Mode, OnInterrupt, RateLimit, Reach, Scheduling, SideEffects,
};
use windlass_tool::registry::{Declarations, Registry, Tool};
use windlass_tool::validate::Validator;

/// The tools that models ask for, those that change something more often than others.
pub(crate) const NAMES: [&str; 21] = [
    "search",
    "look",
    "write",
    "write",
    "write",
    "post",
    "post",
    "pay",
    "pay",
    "pay",
    "share",
    "text_only",
    "voice_only",
    "cancellable",
    "limited",
    "typed",
    "slow",
    "slow_write",
    "quiet",
    "describe_tool",
    "note",
];

/// The one whose results hold what others wrote.
pub(crate) const EXTERNAL: &str = "search";

/// The one of whose results the model is to say nothing.
pub(crate) const SILENT: &str = "quiet";
/// The member of a result that numbers it.
pub(crate) const TAG: &str = "n";

struct Elsewhere;

impl Handler for Elsewhere {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Err(Failure::new(
            FailureKind::Permanent,
            "handlers are simulated",
        )))
    }
}

/// The registry before and after a reload: the same tools in another version.
pub(crate) fn registry(is_reloaded: bool) -> Arc<Registry> {
    static REGISTRIES: OnceLock<[Arc<Registry>; 2]> = OnceLock::new();
    let both = REGISTRIES.get_or_init(|| {
        ["1.0.0", "1.1.0"].map(|version| {
            let tools = tools(version);
            Arc::new(Registry::new("1.0.world000", None, tools))
        })
    });
    both[usize::from(is_reloaded)].clone()
}

fn tools(version: &str) -> Vec<Tool> {
    let (text, query) = (text(), query());
    let make = |id: &str, category, side_effects, parameters: &Value| Tool {
        version: version.into(),
        ..tool(id, category, side_effects, parameters)
    };
    let read = |id| make(id, Category::Utility, SideEffects::None, &text);
    let write = |id| make(id, Category::Action, SideEffects::Writes, &text);
    vec![
        Tool {
            reach: Reach::External,
            ..make(EXTERNAL, Category::Retrieval, SideEffects::ReadOnly, &query)
        },
        read("look"),
        write("write"),
        Tool {
            idempotent: true,
            ..write("post")
        },
        Tool {
            requires_confirmation: true,
            confirmation_preview: Some("Pay {text}".to_owned()),
            ..write("pay")
        },
        Tool {
            requires_confirmation: true,
            ..read("share")
        },
        Tool {
            allowed_modes: vec![Mode::Text],
            ..read("text_only")
        },
        Tool {
            allowed_modes: vec![Mode::Voice],
            ..write("voice_only")
        },
        Tool {
            on_interrupt: OnInterrupt::Cancel,
            ..read("cancellable")
        },
        Tool {
            rate_limit: Some(RateLimit {
                calls: 1,
                window_ms: 60_000,
            }),
            ..write("limited")
        },
        Tool {
            response: Validator::compile(&json!({"type": "object", "required": ["n"]})).ok(),
            ..read("typed")
        },
        Tool {
            behavior: Behavior::NonBlocking,
            scheduling: Scheduling::Interrupt,
            ..read("slow")
        },
        Tool {
            behavior: Behavior::NonBlocking,
            ..write("slow_write")
        },
        Tool {
            behavior: Behavior::NonBlocking,
            scheduling: Scheduling::Silent,
            ..read(SILENT)
        },
        read("describe_tool"),
        read("note"),
    ]
}

fn text() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "text": { "type": "string" } },
    })
}

fn query() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "text": { "type": "string" },
            "top_k": { "type": "integer", "minimum": 1, "maximum": 10, "default": 5 },
        },
    })
}

fn tool(id: &str, category: Category, side_effects: SideEffects, parameters: &Value) -> Tool {
    let declaration = || {
        let text = json!({ "name": id }).to_string();
        serde_json::value::RawValue::from_string(text).expect("what serde wrote is JSON")
    };
    Tool {
        id: ToolId::parse(id).expect("the names above are tool ids"),
        version: "1.0.0".into(),
        description: id.to_owned(),
        category,
        side_effects,
        idempotent: side_effects != SideEffects::Writes,
        requires_confirmation: false,
        allowed_modes: vec![Mode::Voice, Mode::Text],
        latency_budget_ms: 500,
        timeout_ms: 5_000,
        behavior: Behavior::Blocking,
        scheduling: Scheduling::WhenIdle,
        on_interrupt: OnInterrupt::Finish,
        reach: Reach::Internal,
        confirmation_preview: None,
        rate_limit: None,
        sensitive: Vec::new(),
        status: None,
        parameters: Validator::compile(parameters).expect("the schemas above are sound"),
        response: None,
        declarations: Declarations {
            openai: declaration(),
            openai_realtime: declaration(),
            gemini_native: declaration(),
            gemini_json: declaration(),
        },
        summary: String::new(),
        documentation: String::new(),
        handler: Arc::new(Elsewhere),
    }
}

pub(crate) fn profile(
    calls: CallSupport,
    answers: AnswerBatching,
    scheduling: bool,
) -> ModelProfile {
    ModelProfile {
        calls,
        scheduling,
        declaration: DeclarationForm::GeminiNative,
        answers,
        text_input: TextInput::RealtimeInput,
        history: HistoryInput::ClientContent,
        resumption: true,
        hold_microphone: false,
        thinking: Thinking::Omit,
        vision: false,
        context_tokens_max: 131_072,
    }
}
