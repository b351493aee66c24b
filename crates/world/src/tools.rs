//! Tools of every kind that the ledger and the policies tell apart. Their handlers are the world's, so that none of these ever
//! runs.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Execution, Failure, Finding, Handler, Invocation, Lookup, LookupInvocation, OutcomeLookup,
};
use windlass_contract::id::ToolId;
use windlass_contract::kind::{
    Behavior, Category, Mode, OnInterrupt, RateLimit, Reach, Scheduling, SideEffects,
};
pub(crate) use windlass_contract::registry::Tool;
use windlass_contract::registry::{Declarations, Registry};
use windlass_contract::remember::{Remember, RememberScope};
use windlass_contract::validate::Validator;
use windlass_contract::version::Version;
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};

/// The tools that models ask for, those that change something more often than others.
pub(crate) const NAMES: [&str; 50] = [
    FILE,
    FILE,
    FILE,
    ARCHIVE,
    ARCHIVE,
    TRIP,
    TRIP,
    TRIP,
    MEET,
    MEET,
    MEET,
    WIRE,
    WIRE,
    WIRE,
    "book",
    "book",
    "book",
    "send",
    "send",
    "post",
    "post",
    "push",
    "push",
    "pay",
    "pay",
    "pay",
    "order",
    "order",
    "louder",
    "next",
    "memo",
    "memo",
    "memo",
    "memo",
    "slow_book",
    "slow_book",
    "export",
    "export",
    "export",
    CRAWL,
    "search",
    "look",
    "share",
    "text_only",
    "voice_only",
    "cancellable",
    "limited",
    "typed",
    "quiet",
    "end_voice_session",
];

/// The tool whose results hold external content.
pub(crate) const EXTERNAL: &str = "search";
/// The tool that changes nothing and goes on by itself.
pub(crate) const CRAWL: &str = "crawl";
/// The tool whose free text is a part of its meaning: in other words it is another effect.
pub(crate) const MEMO: &str = "memo";
/// The tools whose arguments are written in every way that means the same: a moment, and a number.
pub(crate) const MEET: &str = "meet";
pub(crate) const WIRE: &str = "wire";
/// The tools whose user may approve all calls with the same note at once. The note is the place where they put things. The second tool
/// goes on by itself.
pub(crate) const FILE: &str = "file";
pub(crate) const ARCHIVE: &str = "archive";
pub(crate) const PLACES: [&str; 2] = ["here", "there"];
/// The tool whose handler calls [`STAGE`] for each of its parts, before its own work.
pub(crate) const TRIP: &str = "trip";
/// A change that no model asks for. It names the trip and the part of it.
pub(crate) const STAGE: &str = "stage";
pub(crate) const STAGES: u32 = 2;
/// The values that handlers keep for a conversation, each a whole number.
pub(crate) const KEPT: [&str; 3] = ["one", "two", "three"];
/// The member of a result that numbers it.
pub(crate) const TAG: &str = "n";

/// A handler as the registry knows it. Its behaviour is in `handlers`.
struct Simulated {
    has_lookup: bool,
}

impl Handler for Simulated {
    fn execute(&self, _: Invocation) -> Execution {
        let problem = "handlers are simulated";
        Execution::Ready(Err(Failure::new(FailureKind::Permanent, problem)))
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        self.has_lookup.then_some(self as &dyn OutcomeLookup)
    }
}

impl OutcomeLookup for Simulated {
    fn look_up(&self, _: LookupInvocation) -> Lookup {
        Lookup::Found(Finding::Unknown)
    }
}

/// The present edition of the tools: it changes while sessions and approval requests are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Edition {
    First,
    /// Other code under the same version.
    OtherCode,
    /// Another schema under the same version.
    OtherSchema,
    OtherVersion,
    /// A version that lies beside the current ones. Its handlers ask services of their own, which do not know the others' effects.
    Beside,
}

impl Edition {
    /// The editions that are the current ones for a while.
    pub(crate) const CURRENT: [Self; 4] = [
        Self::First,
        Self::OtherCode,
        Self::OtherSchema,
        Self::OtherVersion,
    ];

    fn version(self) -> &'static str {
        match self {
            Self::First | Self::OtherCode | Self::OtherSchema => "1.0.0",
            Self::OtherVersion => "1.1.0",
            Self::Beside => "2.0.0",
        }
    }

    /// The edition of a tool, for observers of the whole world.
    pub(crate) fn of(tool: &Tool) -> Option<Self> {
        let mut all = Self::CURRENT.into_iter().chain([Self::Beside]);
        all.find(|edition| format!("{edition:?}") == tool.documentation)
    }

    /// Whether another version lies beside it: that version goes and comes while sessions have it.
    fn has_beside(self) -> bool {
        self != Self::OtherCode
    }
}

/// The tools of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) current: Edition,
    /// It has the version beside the current one, if there is one.
    pub(crate) chooses_beside: bool,
}

impl Offer {
    /// The tools outside any session.
    pub(crate) fn of(current: Edition) -> Self {
        Self {
            current,
            chooses_beside: false,
        }
    }

    /// The edition that the session's model calls.
    pub(crate) fn edition(self) -> Edition {
        match self.chooses_beside && self.current.has_beside() {
            true => Edition::Beside,
            false => self.current,
        }
    }

    /// Whether an approval of this edition can be carried out.
    pub(crate) fn has(self, edition: Edition) -> bool {
        edition == self.current || edition == Edition::Beside && self.current.has_beside()
    }

    pub(crate) fn registry(self) -> Arc<Registry> {
        static REGISTRIES: OnceLock<Vec<(Offer, Arc<Registry>)>> = OnceLock::new();
        let all = REGISTRIES.get_or_init(|| {
            let offers = Edition::CURRENT.into_iter().flat_map(|current| {
                [false, true].map(|chooses_beside| Offer {
                    current,
                    chooses_beside,
                })
            });
            offers
                .map(|offer| (offer, Arc::new(offer.make())))
                .collect()
        });
        let mut all = all.iter();
        let found = all.find(|(offer, _)| *offer == self);
        found
            .map(|(_, registry)| registry.clone())
            .expect("there is one of every offer")
    }

    fn make(self) -> Registry {
        let registry = Registry::new("1.0.world000", None, tools(self.current));
        if !self.current.has_beside() {
            return registry;
        }
        let registry = registry.beside(tools(Edition::Beside));
        if !self.chooses_beside {
            return registry;
        }
        let version = Version::parse(Edition::Beside.version()).expect("it is a version");
        let ids = registry.tools().map(|tool| tool.id.clone());
        let choice = ids.map(|id| (id, version.clone())).collect();
        registry.choosing(&choice)
    }
}

fn tools(edition: Edition) -> Vec<Tool> {
    let noted: Arc<[Arc<str>]> = Arc::new(["text".into()]);
    let make = |id: &str, side_effects, has_lookup| tool(id, side_effects, has_lookup, edition);
    let read = |id| make(id, SideEffects::None, false);
    let write = |id| make(id, SideEffects::Writes, false);
    let found = |id| make(id, SideEffects::Writes, true);
    vec![
        Tool {
            effect_key: noted.clone(),
            ..found("book")
        },
        Tool {
            effect_key: noted.clone(),
            ..write("send")
        },
        Tool {
            idempotent: true,
            effect_key: noted.clone(),
            ..found("post")
        },
        Tool {
            idempotent: true,
            ..write("push")
        },
        Tool {
            requires_confirmation: true,
            confirmation_preview: Some("Pay {text}".to_owned()),
            effect_key: noted.clone(),
            ..found("pay")
        },
        Tool {
            requires_confirmation: true,
            idempotent: true,
            effect_key: noted.clone(),
            ..write("order")
        },
        Tool {
            repeatable: true,
            ..write("louder")
        },
        Tool {
            repeatable: true,
            requires_confirmation: true,
            ..found("next")
        },
        Tool {
            effect_key: Arc::new(["text".into(), "at".into()]),
            ..found(MEET)
        },
        Tool {
            requires_confirmation: true,
            confirmation_preview: Some("Wire {sum} to {text}".to_owned()),
            effect_key: Arc::new(["text".into(), "sum".into()]),
            ..found(WIRE)
        },
        Tool {
            requires_confirmation: true,
            remember: Some(by_place()),
            effect_key: noted.clone(),
            ..found(FILE)
        },
        Tool {
            requires_confirmation: true,
            remember: Some(by_place()),
            behavior: Behavior::Background,
            timeout_ms: 60_000,
            effect_key: noted.clone(),
            ..found(ARCHIVE)
        },
        found(MEMO),
        Tool {
            idempotent: true,
            timeout_ms: 15_000,
            ..found(TRIP)
        },
        found(STAGE),
        Tool {
            behavior: Behavior::NonBlocking,
            effect_key: noted.clone(),
            ..found("slow_book")
        },
        Tool {
            behavior: Behavior::Background,
            timeout_ms: 60_000,
            effect_key: noted,
            ..found("export")
        },
        Tool {
            behavior: Behavior::Background,
            timeout_ms: 60_000,
            ..read(CRAWL)
        },
        Tool {
            reach: Reach::External,
            category: Category::Retrieval,
            ..make(EXTERNAL, SideEffects::ReadOnly, false)
        },
        read("look"),
        Tool {
            requires_confirmation: true,
            ..read("share")
        },
        Tool {
            allowed_modes: vec![Mode::Text],
            ..write("text_only")
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
            response: Validator::compile(&json!({"type": "object", "required": [TAG]})).ok(),
            ..read("typed")
        },
        Tool {
            behavior: Behavior::NonBlocking,
            scheduling: Scheduling::Silent,
            ..read("quiet")
        },
        Tool {
            allowed_modes: vec![Mode::Voice],
            ..read("end_voice_session")
        },
    ]
}

fn by_place() -> Remember {
    Remember {
        scope: RememberScope::Session,
        arguments: vec!["/note".to_owned()],
        minutes: None,
    }
}

fn parameters(edition: Edition) -> Value {
    let characters_max = match edition {
        Edition::OtherSchema => 200,
        Edition::First | Edition::OtherCode | Edition::OtherVersion | Edition::Beside => 100,
    };
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "text": { "type": "string", "maxLength": characters_max },
            "at": { "type": "string", "format": "date-time" },
            "sum": { "type": "number" },
            "note": { "type": "string", "default": "" },
            "top_k": { "type": "integer", "minimum": 1, "maximum": 10, "default": 5 },
        },
    })
}

fn kept() -> Validator {
    Validator::compile(&json!({ "type": "integer" })).expect("the schema is sound")
}

fn tool(id: &str, side_effects: SideEffects, has_lookup: bool, edition: Edition) -> Tool {
    let declaration = || {
        let text = json!({ "name": id }).to_string();
        serde_json::value::RawValue::from_string(text).expect("what serde wrote is JSON")
    };
    Tool {
        id: ToolId::parse(id).expect("the names above are tool ids"),
        version: edition.version().into(),
        code_hash: format!("{edition:?}").into(),
        description: id.to_owned(),
        category: match side_effects {
            SideEffects::Writes => Category::Action,
            SideEffects::None | SideEffects::ReadOnly => Category::Utility,
        },
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
        permissions: windlass_contract::rights::Permissions::default(),
        availability: None,
        effect_key: Arc::new([]),
        repeatable: false,
        sensitive: Vec::new(),
        state: match id {
            "look" => KEPT.map(|key| (key.into(), kept())).into(),
            _ => BTreeMap::new(),
        },
        status: None,
        parameters: Validator::compile(&parameters(edition)).expect("the schema above is sound"),
        response: None,
        declarations: Declarations {
            openai: declaration(),
            openai_realtime: declaration(),
            gemini_native: declaration(),
            gemini_json: declaration(),
        },
        summary: String::new(),
        documentation: format!("{edition:?}"),
        handler: Arc::new(Simulated { has_lookup }),
    }
}

/// Whether a call of this tool may say the same in another free text.
/// Whether an approval of it may stand for calls that put things in the same place.
pub(crate) fn has_places(name: &str) -> bool {
    matches!(name, FILE | ARCHIVE)
}

pub(crate) fn takes_notes(name: &str) -> bool {
    matches!(
        name,
        "book" | "send" | "post" | "pay" | "order" | "slow_book" | "export"
    )
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
