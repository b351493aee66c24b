//! The registry as sessions hold it: tools by id, each in the session's version, with compiled validators and a handler; beside them the
//! other versions, which records of the ledger name. Immutable; a session keeps the one it began with.

use crate::arguments::Arguments;
use crate::condition::{ArgumentsOf, Availability, ConsentCondition, Constant, Facts};
use crate::effect_key::KeySpec;
use crate::envelope::Meta;
use crate::handler::Handler;
use crate::id::ToolId;
use crate::kind::{
    Behavior, Category, Mode, OnInterrupt, RateLimit, Reach, Scheduling, SideEffects,
};
use crate::remember::Remember;
use crate::rights::Permissions;
use crate::rollout::Choice;
use crate::validate::Validator;
use crate::version::Version;
use crate::wording::edit_distance;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The only `writes` tools that run without a grant while external content is present. They change this conversation or notify people,
/// and nothing outside: a switch to voice ends the turn, and the user's browser still asks for the microphone.
pub const EXEMPT_FROM_EXTERNAL_CONTENT_RULE: [&str; 4] = [
    "end_voice_session",
    "escalate",
    "ignore_user",
    "start_voice_session",
];

/// The tools that move a conversation between its sessions. They return only intents and have no effect.
pub const STEERING_TOOLS: [&str; 2] = ["end_voice_session", "start_voice_session"];

/// The program's own tool, which has no directory: it returns guides that did not fit in the prompt.
pub const DESCRIBE_TOOL: &str = "describe_tool";

/// One version of a tool, ready to run.
pub struct Tool {
    pub id: ToolId,
    pub version: Arc<str>,
    /// The hash of the code that a call runs; an approval is bound to it.
    pub code_hash: Arc<str>,
    pub description: String,
    pub category: Category,
    pub side_effects: SideEffects,
    pub idempotent: bool,
    /// Whether any of its calls needs the user's consent.
    pub requires_confirmation: bool,
    /// The calls that need confirmation, of a tool that requires it; `None` where all calls need it.
    pub consent_condition: Option<ConsentCondition>,
    /// The approvals that may stand for later calls; `None` where each call that needs consent asks for it.
    pub remember: Option<Remember>,
    pub allowed_modes: Vec<Mode>,
    /// Milliseconds; soft.
    pub latency_budget_ms: u64,
    /// Milliseconds; hard limit on one attempt.
    pub timeout_ms: u64,
    pub behavior: Behavior,
    pub scheduling: Scheduling,
    pub on_interrupt: OnInterrupt,
    pub reach: Reach,
    /// A template over the arguments, for the confirmation.
    pub confirmation_preview: Option<String>,
    pub rate_limit: Option<RateLimit>,
    /// The users who may use it, and those who may approve its calls.
    pub permissions: Permissions,
    /// The condition under which it is offered to them.
    pub availability: Option<Availability>,
    /// The arguments that identify an effect. Empty where all of them do.
    pub effect_key: Arc<[Arc<str>]>,
    /// Whether a repeated request is a new effect, as with "louder" or "the next page".
    pub repeatable: bool,
    /// JSON pointers of arguments that never reach logs, audit or traces.
    pub sensitive: Vec<String>,
    /// A template over the arguments: a phrase for people while the call runs.
    pub status: Option<String>,
    /// The schemas of the conversation values that its handler may set, by their keys.
    pub state: BTreeMap<Arc<str>, Validator>,
    /// The schema of the arguments; [`Validator::schema`] is the JSON Schema itself.
    pub parameters: Validator,
    /// The schema of `data` on success.
    pub response: Option<Validator>,
    pub declarations: Declarations,
    pub summary: String,
    pub documentation: String,
    pub handler: Arc<dyn Handler>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Tool({} {})", self.id, self.version)
    }
}

/// The longest time for a lookup of an effect's outcome.
const LOOKUP_MS_MAX: u64 = 60_000;

impl Tool {
    /// The metadata of a response of this tool.
    pub fn meta(
        &self,
        registry_version: Arc<str>,
        timestamp: u64,
        defaults_applied: Arc<[Arc<str>]>,
    ) -> Meta {
        let version = Some(self.version.clone());
        Meta::new(
            self.id.clone().into(),
            version,
            registry_version,
            timestamp,
            defaults_applied,
        )
    }

    pub fn allows(&self, mode: Mode) -> bool {
        self.allowed_modes.contains(&mode)
    }

    /// Whether its own files allow that any user at any time is offered it in a mode.
    pub fn may_be_offered(&self, mode: Mode) -> bool {
        let is_never_available = || {
            let condition = self.availability.as_ref().map(|rule| &rule.condition);
            let constant =
                condition.map(|condition| condition.constant(ArgumentsOf::Nothing, &[mode]));
            constant.flatten() == Some(Constant::Never)
        };
        self.allows(mode) && !is_never_available()
    }

    /// Whether its availability depends on the user's clock.
    pub fn is_available_by_time(&self) -> bool {
        let availability = self.availability.as_ref();
        availability.is_some_and(|availability| availability.condition.reads_time())
    }

    pub fn writes(&self) -> bool {
        self.side_effects == SideEffects::Writes
    }

    /// Whether its calls are answered as soon as they have begun, and their ends reported separately.
    pub fn runs_in_background(&self) -> bool {
        self.behavior == Behavior::Background
    }

    /// Whether a user may use it and finds it available.
    pub fn is_offered(&self, facts: &Facts<'_>) -> bool {
        self.permissions.allow(facts.rights) && self.is_available(facts)
    }

    /// Whether its [availability](Tool::availability) holds. An availability that cannot be judged does not hold.
    pub fn is_available(&self, facts: &Facts<'_>) -> bool {
        self.availability
            .as_ref()
            .is_none_or(|availability| availability.condition.holds(facts) == Ok(true))
    }

    /// Whether every user is offered it in its modes, whatever the facts.
    pub fn is_for_everybody(&self) -> bool {
        self.permissions.is_empty() && self.availability.is_none()
    }

    /// The time limit of an outcome lookup in milliseconds: a user may be waiting for it.
    pub fn lookup_ms(&self) -> u64 {
        self.timeout_ms.min(LOOKUP_MS_MAX)
    }

    /// How the arguments that identify an effect are compared: the arguments in [`Tool::effect_key`]; if it is empty, all arguments
    /// that differ from their default.
    pub fn key_spec(&self) -> &Arc<KeySpec> {
        self.parameters.key_spec(&self.effect_key)
    }

    /// The arguments that identify an effect, in the form in which two calls are compared. Defaults that were filled in before change
    /// nothing.
    pub fn effect_arguments(&self, arguments: &Arguments) -> String {
        self.key_spec().exact(&self.complete(arguments))
    }

    /// The same arguments without regard to case, width and accents.
    pub fn near_arguments(&self, arguments: &Arguments) -> String {
        self.key_spec().near(&self.complete(arguments))
    }

    /// Whether the user is asked about every call, whatever its arguments and its conversation are.
    pub fn asks_about_every_call(&self) -> bool {
        self.requires_confirmation && self.consent_condition.is_none()
    }

    fn complete(&self, arguments: &Arguments) -> Arguments {
        let mut complete = arguments.clone();
        self.parameters.apply_defaults(&mut complete);
        complete
    }

    /// Whether the tool may write without a grant while external content is in the model's context. Such tools have a cap instead.
    pub fn is_exempt_from_external_content_rule(&self) -> bool {
        EXEMPT_FROM_EXTERNAL_CONTENT_RULE.contains(&self.id.as_str())
    }
}

/// A tool's declaration for each provider's API, as JSON text; made at build time only. Text takes a tenth of the memory of a tree, and a
/// codec can copy it into a frame as it is.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Declarations {
    /// Chat Completions: `{type, function: {name, description, parameters}}`.
    pub openai: Box<RawValue>,
    /// OpenAI Realtime: `{type, name, description, parameters}`.
    pub openai_realtime: Box<RawValue>,
    /// Gemini's own schema: `{name, description, parameters?}`.
    pub gemini_native: Box<RawValue>,
    /// Gemini with JSON Schema: `{name, description, parametersJsonSchema}`.
    pub gemini_json: Box<RawValue>,
}

/// A declaration as a tree, for callers that add to it.
pub fn declaration_tree(declaration: &RawValue) -> Value {
    serde_json::from_str(declaration.get()).expect("a raw value is valid JSON")
}

/// All tools of one artifact. Clones share them.
#[derive(Clone, Debug)]
pub struct Registry {
    version: Arc<str>,
    git_commit: Option<String>,
    tools: BTreeMap<ToolId, Arc<Tool>>,
    /// All versions of the tools that have several, the lowest first.
    versions: Arc<BTreeMap<ToolId, Vec<Arc<Tool>>>>,
}

impl Registry {
    pub fn new(version: impl Into<Arc<str>>, git_commit: Option<String>, tools: Vec<Tool>) -> Self {
        let tools = tools
            .into_iter()
            .map(|tool| (tool.id.clone(), Arc::new(tool)))
            .collect();
        Self {
            version: version.into(),
            git_commit,
            tools,
            versions: Arc::default(),
        }
    }

    /// The same registry with other versions of its tools. Sessions get one of these only by [`choosing`](Self::choosing).
    #[must_use]
    pub fn beside(&self, others: Vec<Tool>) -> Self {
        let mut versions = (*self.versions).clone();
        for other in others {
            let Some(current) = self.tools.get(&other.id) else {
                continue;
            };
            let known = versions.entry(other.id.clone());
            let known = known.or_insert_with(|| vec![current.clone()]);
            known.push(Arc::new(other));
            known.sort_by_key(|tool| Version::parse(&tool.version));
        }
        Self {
            versions: Arc::new(versions),
            ..self.clone()
        }
    }

    /// The same registry with these versions in place of the current ones. A tool without its chosen version is left out.
    #[must_use]
    pub fn choosing(&self, choice: &Choice) -> Self {
        let mut tools = self.tools.clone();
        for (id, version) in choice {
            match self.in_version(id.as_str(), version) {
                Some(tool) => tools.insert(id.clone(), tool.clone()),
                None => tools.remove(id),
            };
        }
        Self {
            tools,
            ..self.clone()
        }
    }

    /// The same registry with one tool added or replaced. Its version stays: the added tool belongs to the program.
    #[must_use]
    pub fn with(&self, tool: Tool) -> Self {
        let mut tools = self.tools.clone();
        tools.insert(tool.id.clone(), Arc::new(tool));
        Self {
            version: self.version.clone(),
            git_commit: self.git_commit.clone(),
            tools,
            versions: self.versions.clone(),
        }
    }

    /// The same registry with only the tools for a special kind of session. Its version stays.
    #[must_use]
    pub fn only(&self, keeps: impl Fn(&Tool) -> bool) -> Self {
        let kept = self.tools.iter().filter(|(_, tool)| keeps(tool));
        let versions = self.versions.iter().map(|(id, versions)| {
            let kept = versions.iter().filter(|tool| keeps(tool));
            (id.clone(), kept.cloned().collect())
        });
        Self {
            version: self.version.clone(),
            git_commit: self.git_commit.clone(),
            tools: kept.map(|(id, tool)| (id.clone(), tool.clone())).collect(),
            versions: Arc::new(versions.collect()),
        }
    }

    /// `1.0.` and eight hexadecimal digits.
    pub fn version(&self) -> &Arc<str> {
        &self.version
    }

    pub fn git_commit(&self) -> Option<&str> {
        self.git_commit.as_deref()
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// The tool of a ledger record, in the version that the record names; if that has gone, in this registry's version.
    pub fn of_record(&self, name: &str, version: &str) -> Option<&Arc<Tool>> {
        let own = self.tools.get(name);
        if own.is_some_and(|tool| *tool.version == *version) {
            return own;
        }
        let mut versions = self.versions.get(name).into_iter().flatten();
        versions.find(|tool| *tool.version == *version).or(own)
    }

    /// The tool with exactly the code that was shown to a user; `None` where it has gone or has changed.
    pub fn as_shown(
        &self,
        name: &str,
        version: &str,
        code_hash: Option<&str>,
    ) -> Option<&Arc<Tool>> {
        let tool = self.of_record(name, version)?;
        (*tool.version == *version && code_hash == Some(&*tool.code_hash)).then_some(tool)
    }

    pub fn in_version(&self, name: &str, version: &Version) -> Option<&Arc<Tool>> {
        let mut versions = self.versions_of(name);
        versions.find(|tool| Version::parse(&tool.version).as_ref() == Some(version))
    }

    /// All versions of a tool, the lowest first.
    pub fn versions_of(&self, name: &str) -> impl Iterator<Item = &Arc<Tool>> {
        let versions = self.versions.get(name);
        let only = self.tools.get(name).filter(|_| versions.is_none());
        versions.into_iter().flatten().chain(only)
    }

    /// All versions of all tools.
    pub fn all_versions(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let single = self.tools.iter();
        let single = single.filter(|(id, _)| !self.versions.contains_key(*id));
        let several = self.versions.values().flatten();
        single.map(|(_, tool)| tool).chain(several)
    }

    /// This registry's version of each tool with several versions.
    pub fn chosen(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let several = self.versions.keys();
        several.filter_map(|id| self.tools.get(id))
    }

    /// The schema of a conversation value; `None` where no tool declares it. All tools and versions that declare a key agree on it.
    pub fn state(&self, key: &str) -> Option<&Validator> {
        self.all_versions().find_map(|tool| tool.state.get(key))
    }

    /// Whether any tool declares a conversation value.
    pub fn keeps_state(&self) -> bool {
        self.all_versions().any(|tool| !tool.state.is_empty())
    }

    /// The tools in the order of their ids.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }

    pub fn len(&self) -> usize {
        self.tools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tools that a session of this mode declares, in the order of their ids.
    pub fn declared(&self, mode: Mode) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools().filter(move |tool| tool.allows(mode))
    }

    /// The tool with the name nearest to an unknown one, among tools that `offers` accepts; `None` if none is near. Models write capitals
    /// and hyphens, and put a namespace before a name, as in `functions.kb_get`.
    pub fn nearest(&self, name: &str, offers: impl Fn(&Tool) -> bool) -> Option<&ToolId> {
        let name = name.to_ascii_lowercase().replace('-', "_");
        let bare = name.rsplit(['.', ':', '/']).next().unwrap_or(&name);
        let farthest = 1 + bare.len() / 3;
        self.tools()
            .filter(|tool| offers(tool))
            .map(|tool| (edit_distance(bare, tool.id.as_str()), &tool.id))
            .filter(|(distance, _)| *distance <= farthest)
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, id)| id)
    }
}
