//! The registry as sessions hold it: tools by id, each in the version that the session has, with its compiled validators and its
//! handler; and beside them the other versions, which records of the ledger name. Immutable; a session pins the one it began with.

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

/// The only `writes` tools that run without a grant beside external content. They change this conversation or call for
/// people, and nothing outside: a switch to voice ends the turn, and the user's browser still asks for the microphone.
pub const EXEMPT_FROM_EXTERNAL_CONTENT_RULE: [&str; 4] = [
    "end_voice_session",
    "escalate",
    "ignore_user",
    "start_voice_session",
];

/// The tools that move a conversation between its sessions. They return intents only and make no effect.
pub const STEERING_TOOLS: [&str; 2] = ["end_voice_session", "start_voice_session"];

/// The program's own tool, which has no directory: it returns the guides for which a prompt has no room.
pub const DESCRIBE_TOOL: &str = "describe_tool";

/// One version of a tool as it runs.
pub struct Tool {
    pub id: ToolId,
    pub version: Arc<str>,
    /// The hash of what a call runs: what an approval is bound to.
    pub code_hash: Arc<str>,
    pub description: String,
    pub category: Category,
    pub side_effects: SideEffects,
    pub idempotent: bool,
    /// Whether any of its calls needs the user's consent.
    pub requires_confirmation: bool,
    /// Of a tool that requires confirmation: the calls that need it. Without, all of them do.
    pub consent_condition: Option<ConsentCondition>,
    /// Which approvals may stand for the calls that follow; `None` where each call asks that needs consent.
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
    /// A template over the arguments.
    pub confirmation_preview: Option<String>,
    pub rate_limit: Option<RateLimit>,
    /// Who may use it, and who may approve its calls.
    pub permissions: Permissions,
    /// To whom of them, and when, it is offered.
    pub availability: Option<Availability>,
    /// The arguments that say which effect a call means. Empty where all of them do.
    pub effect_key: Arc<[Arc<str>]>,
    /// Whether a second request is a second effect, as with "louder" or "the next page".
    pub repeatable: bool,
    /// JSON pointers of arguments that never reach logs, audit or traces.
    pub sensitive: Vec<String>,
    /// A template over the arguments: a phrase for people while the call runs.
    pub status: Option<String>,
    /// Of the values of the conversation that its handler may set, by their keys.
    pub state: BTreeMap<Arc<str>, Validator>,
    /// Of the arguments; [`Validator::schema`] is the JSON Schema itself.
    pub parameters: Validator,
    /// Of `data` on success.
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

/// The longest that a handler is asked what became of an effect.
const LOOKUP_MS_MAX: u64 = 60_000;

impl Tool {
    /// What a response of this tool says of itself.
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

    /// Whether there is a user and a time for which it is offered in a mode, as far as its own files say.
    pub fn may_be_offered(&self, mode: Mode) -> bool {
        let is_never_available = || {
            let condition = self.availability.as_ref().map(|rule| &rule.condition);
            let constant =
                condition.map(|condition| condition.constant(ArgumentsOf::Nothing, &[mode]));
            constant.flatten() == Some(Constant::Never)
        };
        self.allows(mode) && !is_never_available()
    }

    /// Whether the user's clock decides about its availability.
    pub fn is_available_by_time(&self) -> bool {
        let availability = self.availability.as_ref();
        availability.is_some_and(|availability| availability.condition.reads_time())
    }

    pub fn writes(&self) -> bool {
        self.side_effects == SideEffects::Writes
    }

    /// Whether its calls are answered as soon as they have begun, and their ends told apart.
    pub fn runs_in_background(&self) -> bool {
        self.behavior == Behavior::Background
    }

    /// Whether somebody may use it, and finds it available.
    pub fn is_offered(&self, facts: &Facts<'_>) -> bool {
        self.permissions.allow(facts.rights) && self.is_available(facts)
    }

    /// Whether its [availability](Tool::availability) holds. What cannot be judged does not.
    pub fn is_available(&self, facts: &Facts<'_>) -> bool {
        self.availability
            .as_ref()
            .is_none_or(|availability| availability.condition.holds(facts) == Ok(true))
    }

    /// Whether everybody is offered it in its modes, whatever the facts.
    pub fn is_for_everybody(&self) -> bool {
        self.permissions.is_empty() && self.availability.is_none()
    }

    /// Milliseconds for which its handler is asked what became of an effect: somebody may wait for that.
    pub fn lookup_ms(&self) -> u64 {
        self.timeout_ms.min(LOOKUP_MS_MAX)
    }

    /// How the arguments that say which effect a call means are compared: those that [`Tool::effect_key`] names, or where it is
    /// empty all but those that are equal to their default.
    pub fn key_spec(&self) -> &Arc<KeySpec> {
        self.parameters.key_spec(&self.effect_key)
    }

    /// The arguments that say which effect a call means, in the form in which two calls are compared. Whether the defaults were
    /// filled in before changes nothing.
    pub fn effect_arguments(&self, arguments: &Arguments) -> String {
        self.key_spec().exact(&self.complete(arguments))
    }

    /// The same without regard to case, width and accents.
    pub fn near_arguments(&self, arguments: &Arguments) -> String {
        self.key_spec().near(&self.complete(arguments))
    }

    fn complete(&self, arguments: &Arguments) -> Arguments {
        let mut complete = arguments.clone();
        self.parameters.apply_defaults(&mut complete);
        complete
    }

    /// Whether the tool may write without a grant while text that others wrote is in the model's context. Those that may
    /// are capped instead.
    pub fn is_exempt_from_external_content_rule(&self) -> bool {
        EXEMPT_FROM_EXTERNAL_CONTENT_RULE.contains(&self.id.as_str())
    }
}

/// A tool as each provider's API wants it declared, as JSON text; computed at build time only. Text takes a tenth of the
/// memory of a tree, and a codec can copy it into a frame as it is.
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

/// A declaration as a tree, for who has to add to it.
pub fn declaration_tree(declaration: &RawValue) -> Value {
    serde_json::from_str(declaration.get()).expect("a raw value is valid JSON")
}

/// All tools of one artifact. A clone shares them.
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

    /// The same registry with other versions of its tools beside them, which no session has unless it is [chosen](Self::choosing).
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

    /// The same registry with these versions in place of those that it has. A tool that does not have its version is left out.
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

    /// The same registry with one tool more, or with another one in its place. Its version stays: what is added is the
    /// program's own.
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

    /// The same registry with those tools alone that a session of a special kind may have. Its version stays.
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

    /// The tool of a record of the ledger: in the version that the record names, or where that is gone in the one of this registry.
    pub fn of_record(&self, name: &str, version: &str) -> Option<&Arc<Tool>> {
        let own = self.tools.get(name);
        if own.is_some_and(|tool| *tool.version == *version) {
            return own;
        }
        let mut versions = self.versions.get(name).into_iter().flatten();
        versions.find(|tool| *tool.version == *version).or(own)
    }

    /// The tool that runs exactly what a user was asked about; `None` where it is gone or runs something else by now.
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

    /// The versions that this registry has of the tools that have several.
    pub fn chosen(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let several = self.versions.keys();
        several.filter_map(|id| self.tools.get(id))
    }

    /// The schema of a value of the conversation; `None` where no tool declares it. Tools and versions that declare the same agree
    /// on it.
    pub fn state(&self, key: &str) -> Option<&Validator> {
        self.all_versions().find_map(|tool| tool.state.get(key))
    }

    /// Whether a tool declares a value of the conversation.
    pub fn keeps_state(&self) -> bool {
        self.all_versions().any(|tool| !tool.state.is_empty())
    }

    /// In the order of their ids.
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

    /// The tool, of those that `offers` takes, whose name is nearest to one that does not exist, if any is near. Models write
    /// capitals and hyphens, and put a namespace before a name, as in `functions.kb_get`.
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

#[cfg(test)]
mod tests {
    use super::Registry;
    use crate::compile::compile_embedded;
    use crate::handler::{Execution, Handler, Invocation, Success};
    use std::sync::Arc;

    struct Silent;

    impl Handler for Silent {
        fn execute(&self, _: Invocation) -> Execution {
            Execution::Ready(Ok(Success::default()))
        }
    }

    #[test]
    fn the_nearest_tool_is_found_behind_capitals_and_namespaces() {
        let tool = |id: &str| {
            let schema = format!(
                r#"{{"toolId": "{id}", "version": "1.0.0", "description": "x", "category": "utility",
                "sideEffects": "none", "idempotent": true, "requiresConfirmation": false, "allowedModes": ["text"],
                "latencyBudgetMs": 100, "parameters": {{"type": "object", "additionalProperties": false}}}}"#
            );
            compile_embedded(&schema, "# A\n\nDoes.\n", Arc::new(Silent)).unwrap()
        };
        let registry = Registry::new("1", None, vec![tool("kb_get"), tool("kb_search")]);
        for (name, expected) in [
            ("kb_serch", Some("kb_search")),
            ("KB_GET", Some("kb_get")),
            ("functions.kb_get", Some("kb_get")),
            ("default_api:kb-search", Some("kb_search")),
            ("tools/KbGet", Some("kb_get")),
            ("order_pizza", None),
            ("functions.", None),
            ("", None),
        ] {
            let nearest = registry.nearest(name, |_| true).map(|id| id.as_str());
            assert_eq!(nearest, expected, "{name}");
        }
    }
}
