//! Tools of every kind that a policy tells apart. None of them ever runs.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_contract::handler::{
    Execution, Finding, Handler, Invocation, Lookup, LookupInvocation, OutcomeLookup,
};
use windlass_contract::id::ToolId;
use windlass_contract::kind::{
    Behavior, Category, Mode, OnInterrupt, RateLimit, Reach, Scheduling, SideEffects,
};
use windlass_contract::registry::{Declarations, Registry, Tool};
use windlass_contract::remember::{Remember, RememberScope};
use windlass_contract::rights::{Permissions, Role};
use windlass_contract::validate::Validator;
use windlass_contract::version::Version;
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};

/// A handler that is never called; whether it says that it can be asked what became of an effect.
struct Unused {
    has_lookup: bool,
}

impl Handler for Unused {
    fn execute(&self, _: Invocation) -> Execution {
        unreachable!("the core starts no handler itself")
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        self.has_lookup.then_some(self as &dyn OutcomeLookup)
    }
}

impl OutcomeLookup for Unused {
    fn look_up(&self, _: LookupInvocation) -> Lookup {
        Lookup::Found(Finding::Unknown)
    }
}

/// Of values of the conversation.
fn declared_state() -> std::collections::BTreeMap<Arc<str>, Validator> {
    let basket = json!({"type": "array", "items": {"type": "string"}});
    let address = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "city": {"type": "string"},
            "notes": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    });
    let total = json!({"type": "number"});
    let schemas = [("address", address), ("basket", basket), ("total", total)];
    let compiled = schemas.map(|(key, schema)| (key.into(), Validator::compile(&schema).unwrap()));
    compiled.into()
}

pub(crate) fn tool(
    id: &str,
    category: Category,
    side_effects: SideEffects,
    parameters: Value,
) -> Tool {
    let declaration =
        || serde_json::value::RawValue::from_string(json!({ "name": id }).to_string()).unwrap();
    Tool {
        id: ToolId::parse(id).unwrap(),
        version: "1.0.0".into(),
        code_hash: "1".into(),
        description: id.to_owned(),
        category,
        side_effects,
        idempotent: side_effects != SideEffects::Writes,
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
        permissions: Permissions::default(),
        availability: None,
        effect_key: Arc::default(),
        repeatable: false,
        sensitive: Vec::new(),
        state: match id {
            "look" => declared_state(),
            _ => std::collections::BTreeMap::new(),
        },
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
        handler: Arc::new(Unused { has_lookup: false }),
    }
}

/// Tools of every kind that a policy tells apart.
pub(crate) fn registry() -> Registry {
    Registry::new("1.0.test0000", None, tools())
}

/// The same with other code of each, under the same version.
pub(crate) fn changed_registry() -> Registry {
    let mut tools = tools();
    for tool in &mut tools {
        tool.code_hash = "2".into();
    }
    Registry::new("1.0.test0001", None, tools)
}

/// The same in another version of each, which has other code, and beside which the first ones lie.
pub(crate) fn registry_with_other_version() -> Registry {
    let others = other_version();
    let ids = others.iter().map(|tool| tool.id.clone());
    let version = Version::parse("2.0.0").unwrap();
    let choice = ids.map(|id| (id, version.clone())).collect();
    registry().beside(others).choosing(&choice)
}

/// The other versions alone.
pub(crate) fn registry_of_other_version() -> Registry {
    Registry::new("1.0.test0002", None, other_version())
}

fn other_version() -> Vec<Tool> {
    let mut others = tools();
    for tool in &mut others {
        (tool.version, tool.code_hash) = ("2.0.0".into(), "2".into());
    }
    others
}

pub(crate) fn roles(names: &[&str]) -> BTreeSet<Role> {
    names.iter().filter_map(|name| Role::parse(name)).collect()
}

fn remembering(minutes: Option<u64>) -> Option<Remember> {
    Some(Remember {
        scope: RememberScope::Session,
        arguments: vec!["/folder".to_owned()],
        minutes,
    })
}

fn tools() -> Vec<Tool> {
    let any = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "text": { "type": "string" } }
    });
    let search = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["query"],
        "properties": {
            "query": { "type": "string", "minLength": 1 },
            "top_k": { "type": "integer", "minimum": 1, "maximum": 10, "default": 5 },
        }
    });
    let booking = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["about"],
        "properties": { "about": { "type": "string" }, "text": { "type": "string" } }
    });
    let filing = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["folder"],
        "properties": { "folder": { "type": "string" }, "name": { "type": "string" } }
    });
    let make = |id, category, side_effects| tool(id, category, side_effects, any.clone());
    vec![
        Tool {
            status: Some("Searching for {query}".to_owned()),
            reach: Reach::External,
            ..tool("search", Category::Retrieval, SideEffects::ReadOnly, search)
        },
        make("look", Category::Utility, SideEffects::None),
        make("write", Category::Action, SideEffects::Writes),
        Tool {
            idempotent: true,
            ..make("upsert", Category::Action, SideEffects::Writes)
        },
        // What it is about, and in which words.
        Tool {
            effect_key: [Arc::from("about")].into(),
            ..tool(
                "book",
                Category::Action,
                SideEffects::Writes,
                booking.clone(),
            )
        },
        Tool {
            effect_key: [Arc::from("about")].into(),
            requires_confirmation: true,
            ..tool("reserve", Category::Action, SideEffects::Writes, booking)
        },
        // Whose user may say yes once for a folder.
        Tool {
            requires_confirmation: true,
            remember: remembering(None),
            ..tool(
                "archive",
                Category::Action,
                SideEffects::Writes,
                filing.clone(),
            )
        },
        Tool {
            requires_confirmation: true,
            idempotent: true,
            remember: remembering(None),
            ..tool(
                "refile",
                Category::Action,
                SideEffects::Writes,
                filing.clone(),
            )
        },
        Tool {
            behavior: Behavior::Background,
            timeout_ms: 3_600_000,
            requires_confirmation: true,
            idempotent: true,
            remember: remembering(None),
            ..tool(
                "deposit",
                Category::Action,
                SideEffects::Writes,
                filing.clone(),
            )
        },
        Tool {
            requires_confirmation: true,
            remember: remembering(Some(1)),
            ..tool("unlock", Category::Utility, SideEffects::None, filing)
        },
        // Not for everybody, and not for everybody to approve.
        Tool {
            permissions: Permissions {
                roles: roles(&["staff"]),
                ..Permissions::default()
            },
            ..make("inspect", Category::Utility, SideEffects::None)
        },
        Tool {
            requires_confirmation: true,
            permissions: Permissions {
                approver_roles: roles(&["manager"]),
                ..Permissions::default()
            },
            ..make("release", Category::Action, SideEffects::Writes)
        },
        Tool {
            repeatable: true,
            ..make("louder", Category::Action, SideEffects::Writes)
        },
        Tool {
            handler: Arc::new(Unused { has_lookup: true }),
            ..make("send", Category::Action, SideEffects::Writes)
        },
        Tool {
            requires_confirmation: true,
            ..make("peek", Category::Utility, SideEffects::None)
        },
        make("post", Category::Action, SideEffects::Writes),
        make("ignore_user", Category::Action, SideEffects::Writes),
        Tool {
            requires_confirmation: true,
            confirmation_preview: Some("Pay {text}".to_owned()),
            ..make("pay", Category::Action, SideEffects::Writes)
        },
        Tool {
            requires_confirmation: true,
            idempotent: true,
            ..make("settle", Category::Action, SideEffects::Writes)
        },
        Tool {
            requires_confirmation: true,
            rate_limit: Some(RateLimit {
                calls: 1,
                window_ms: 60_000,
            }),
            ..make("limited_pay", Category::Action, SideEffects::Writes)
        },
        Tool {
            rate_limit: Some(RateLimit {
                calls: 1,
                window_ms: 60_000,
            }),
            ..make("limited_write", Category::Action, SideEffects::Writes)
        },
        Tool {
            allowed_modes: vec![Mode::Text],
            ..make("text_only", Category::Utility, SideEffects::None)
        },
        Tool {
            on_interrupt: OnInterrupt::Cancel,
            ..make("cancellable", Category::Utility, SideEffects::None)
        },
        Tool {
            rate_limit: Some(RateLimit {
                calls: 1,
                window_ms: 60_000,
            }),
            ..make("limited", Category::Utility, SideEffects::None)
        },
        Tool {
            response: Some(
                Validator::compile(&json!({"type": "object", "required": ["n"]})).unwrap(),
            ),
            ..make("typed", Category::Utility, SideEffects::None)
        },
        Tool {
            behavior: Behavior::NonBlocking,
            scheduling: Scheduling::Interrupt,
            ..make("slow", Category::Utility, SideEffects::None)
        },
        Tool {
            behavior: Behavior::NonBlocking,
            scheduling: Scheduling::Silent,
            ..make("silent", Category::Utility, SideEffects::None)
        },
        Tool {
            behavior: Behavior::NonBlocking,
            ..make("background", Category::Utility, SideEffects::None)
        },
        Tool {
            behavior: Behavior::Background,
            timeout_ms: 3_600_000,
            ..make("export", Category::Action, SideEffects::Writes)
        },
        Tool {
            behavior: Behavior::Background,
            timeout_ms: 3_600_000,
            ..make("crawl", Category::Utility, SideEffects::ReadOnly)
        },
        Tool {
            behavior: Behavior::Background,
            timeout_ms: 3_600_000,
            requires_confirmation: true,
            ..make("migrate", Category::Action, SideEffects::Writes)
        },
        make("describe_tool", Category::Utility, SideEffects::None),
        make("send_image", Category::Utility, SideEffects::None),
    ]
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
