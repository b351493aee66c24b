//! The tools as sessions get them: builds or loads the artifact, joins it with handlers, and prepares each mode's prompt
//! and declarations once for all sessions. Knows no session.

use crate::clock::{self, UserZone};
use crate::failure::Failure;
use crate::knowledge::LiveKnowledge;
use crate::printer::Printer;
use crate::script::{EngineJudge, ServedScripts};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use windlass_compile::artifact::{
    ActivationError, Artifact, Clamp, LoadError, Loaders, WriteError, check_clamps, rolled_out,
    write_artifact,
};
use windlass_compile::problem::Problem;
use windlass_compile::{Compilation, OPENAI_TOOLS_MAX, Source, Vocabularies};
use windlass_config::{Config, TextProvider};
use windlass_contract::condition::{Facts, Given, Values};
use windlass_contract::envelope::rfc3339;
use windlass_contract::handler::Handler;
use windlass_contract::id::ToolId;
use windlass_contract::kind::Mode;
use windlass_contract::registry::{DESCRIBE_TOOL, Registry, Tool};
use windlass_contract::rollout::{Choice, Rollouts};
use windlass_contract::version::Version;
use windlass_handlers::describe_tool::{self, describe_tool};
use windlass_provider::provider_tools::ProviderTool;
use windlass_provider::{gemini_live, openai_realtime};
use windlass_runtime::declared::DeclaredHandlers;
use windlass_runtime::fetch::SystemResolver;
use windlass_runtime::mcp::{McpServers, McpSurroundings};
use windlass_runtime::prompt::{self, Now, Prompt, Texts, TextsError};
use windlass_runtime::text::TextTools;
use windlass_session::context::ContextEstimate;
use windlass_session::limits::Limits;
use windlass_session::model::{CallSupport, DeclarationForm, ModelProfile};

/// The artifact's name in the data folder.
pub(crate) const ARTIFACT_FILE: &str = "tool_registry.json";

/// The code of tools, by their ids.
pub type Handlers = BTreeMap<ToolId, Arc<dyn Handler>>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolboxError {
    #[error("{}", summary(.problems, .tools))]
    Compile {
        tools: PathBuf,
        problems: Vec<Problem>,
    },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Activate(#[from] ActivationError),
    #[error("the scripts cannot be run: {0}; this program has to be able to start itself")]
    Scripts(std::io::Error),
    #[error(transparent)]
    Texts(#[from] TextsError),
    #[error(
        "{count} tools are for {mode}, and {key} is OpenAI, which takes {OPENAI_TOOLS_MAX} in one request; leave tools out, narrow \
         their allowedModes, or choose another provider"
    )]
    TooManyForOpenai {
        count: usize,
        mode: &'static str,
        key: &'static str,
    },
    #[error(
        "the tools in {} are not those any more with which the server began; start it anew to take them up, \
         or in development with --watch",
        .tools.display()
    )]
    Changed { tools: PathBuf },
}

impl ToolboxError {
    /// Compile problems go to standard error line by line, before the one line that sums them up.
    pub(crate) fn reported(self) -> Failure {
        if let Self::Compile { problems, .. } = &self {
            for problem in problems {
                Printer.finding(problem);
            }
        }
        Failure::of(self)
    }
}

fn summary(problems: &[Problem], tools: &Path) -> String {
    let errors = count_of_errors(problems);
    let noun = if errors == 1 { "error" } else { "errors" };
    format!(
        "the tools in {} cannot be built: {errors} {noun}",
        tools.display()
    )
}

pub(crate) fn count_of_errors(problems: &[Problem]) -> usize {
    problems
        .iter()
        .filter(|problem| problem.severity == windlass_compile::problem::Severity::Error)
        .count()
}

/// Refuses a folder without any tool directory before anything is opened or made, so that nothing is left behind.
pub(crate) fn expect_tools(config: &Config) -> Result<(), Failure> {
    let folder = &*config.folders.tools;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut directories = entries.filter(|entry| entry.path().is_dir());
    match directories.next() {
        Some(_) => Ok(()),
        None => Err(Failure::Failed(format!(
            "there are no tools in {}; windlass init writes a project to begin with, --tools names another folder",
            folder.display()
        ))),
    }
}

/// Compiles the configured folder of tools for an artifact at a place. Writes nothing.
pub(crate) fn compile(
    config: &Arc<Config>,
    artifact: &Path,
    handlers: &Handlers,
    vocabularies: &Vocabularies,
) -> Compilation {
    let builtin = windlass_compile::builtin(handlers);
    let build_timestamp = rfc3339(clock::now_unix_ms());
    windlass_compile::compile(&Source {
        tools: &config.folders.tools,
        artifact,
        builtin: &builtin,
        build_timestamp: &build_timestamp,
        vocabularies,
        values: &config.condition_facts,
        permissions: &config.permissions(),
        judge: Some(&EngineJudge::new(config.clone())),
    })
}

/// The place of the tools, and everything that builds them.
pub(crate) struct Workshop {
    pub(crate) config: Arc<Config>,
    pub(crate) handlers: Handlers,
    pub(crate) profile: Arc<ModelProfile>,
    /// The knowledge base whose words the tools use.
    pub(crate) knowledge: Arc<LiveKnowledge>,
}

impl Workshop {
    pub(crate) fn artifact_path(&self) -> PathBuf {
        self.config.folders.data.join(ARTIFACT_FILE)
    }

    /// The tools as they are now. Compiles them first where the artifact is missing, was changed, or is of other sources.
    pub(crate) fn open(&self) -> Result<Toolbox, ToolboxError> {
        self.open_with(&self.knowledge.vocabularies())
    }

    /// The same, with these words.
    pub(crate) fn open_with(&self, words: &Vocabularies) -> Result<Toolbox, ToolboxError> {
        let artifact = self.artifact(words)?;
        self.activate(artifact)
    }

    /// The served tools with new words of the knowledge base. Other changes are not taken up: a change in the folder of tools is an
    /// error, and one in the folder of prompts waits for the next start.
    pub(crate) fn reworded(
        &self,
        served: &Toolbox,
        words: &Vocabularies,
        others: &Vocabularies,
    ) -> Result<Toolbox, ToolboxError> {
        let reworded = self.compile(others);
        // Compiled after the served tools were read, so that a change in between shows as well.
        let as_served = self.compile(words).artifact;
        if as_served.is_none_or(|artifact| artifact.version() != &*served.version) {
            return Err(ToolboxError::Changed {
                tools: self.config.folders.tools.to_path_buf(),
            });
        }
        let artifact = self.write(reworded)?;
        self.activate_with(artifact, served.texts.clone())
    }

    pub(crate) fn artifact(&self, words: &Vocabularies) -> Result<Artifact, ToolboxError> {
        let path = self.artifact_path();
        let builtin = windlass_compile::builtin(&self.handlers);
        let tools = &self.config.folders.tools;
        let permissions = self.config.permissions();
        let source = Source {
            tools,
            artifact: &path,
            builtin: &builtin,
            build_timestamp: "",
            vocabularies: words,
            values: &self.config.condition_facts,
            permissions: &permissions,
            judge: Some(&EngineJudge::new(self.config.clone())),
        };
        match Artifact::load(&path) {
            Ok(artifact) if windlass_compile::is_current(&artifact, &source) => Ok(artifact),
            Ok(_) => self.write(self.compile(words)),
            Err(LoadError::Missing { .. }) => self.write(self.compile(words)),
            Err(error) if error.is_cured_by_building() => {
                match error.is_usual() {
                    true => tracing::info!("the tools have changed and are built again"),
                    false => tracing::warn!(%error, "the tools are built again"),
                }
                self.write(self.compile(words))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn compile(&self, words: &Vocabularies) -> Compilation {
        compile(&self.config, &self.artifact_path(), &self.handlers, words)
    }

    /// Writes the artifact of a compilation.
    fn write(&self, compilation: Compilation) -> Result<Artifact, ToolboxError> {
        let (path, tools) = (self.artifact_path(), &self.config.folders.tools);
        let Some(artifact) = compilation.artifact else {
            return Err(ToolboxError::Compile {
                tools: tools.to_path_buf(),
                problems: compilation.problems,
            });
        };
        write_artifact(&artifact, &path)?;
        // It lies in the data folder, where everything is for its owner alone.
        if let Err(error) = windlass_contract::private::tighten_file(&path) {
            tracing::warn!(%error, artifact = %path.display(), "the artifact can be read by others");
        }
        let warnings = compilation
            .problems
            .iter()
            .filter(|problem| problem.severity == windlass_compile::problem::Severity::Warning);
        for problem in warnings {
            tracing::warn!(%problem, "a tool could be better");
        }
        tracing::info!(
            version = artifact.version(),
            tools = artifact.tool_ids().count(),
            artifact = %path.display(),
            "tools built"
        );
        Ok(artifact)
    }

    pub(crate) fn activate(&self, artifact: Artifact) -> Result<Toolbox, ToolboxError> {
        let (texts, missing) = Texts::load(&self.config.folders.prompts)?;
        if !missing.is_empty() {
            tracing::info!(
                folder = %self.config.folders.prompts.display(),
                missing = missing.join(", "),
                "built-in prompts stand for those that are not there"
            );
        }
        self.activate_with(artifact, Arc::new(texts))
    }

    fn activate_with(
        &self,
        artifact: Artifact,
        texts: Arc<Texts>,
    ) -> Result<Toolbox, ToolboxError> {
        let declared = self.declared_handlers();
        let scripts = ServedScripts::new(&self.config).map_err(ToolboxError::Scripts)?;
        let loaders = Loaders {
            files: Some(&declared),
            scripts: Some(&scripts),
        };
        let registry = artifact.into_registry(&self.handlers, loaders, &self.config.tightenings)?;
        let (registry, rollouts) = rolled_out(&registry, &self.config.rollouts)?;
        let rollouts = Arc::new(rollouts);
        check_clamps(
            &registry,
            &[
                Clamp {
                    mode: Mode::Voice,
                    key: "voice.limits.turn.top_k_max",
                    top_k_max: self.config.voice.limits.turn.top_k_max,
                },
                Clamp {
                    mode: Mode::Text,
                    key: "text.limits.turn.top_k_max",
                    top_k_max: self.config.text.limits.turn.top_k_max,
                },
            ],
        )?;
        let voice = &self.config.voice;
        let text = &self.config.text;
        let kit = |registry: &Registry, mode, guides_tokens_max, limits: &Limits| {
            Arc::new(ModeKit::new(Recipe {
                registry: registry.clone(),
                rollouts: rollouts.clone(),
                texts: texts.clone(),
                mode,
                profile: self.profile.clone(),
                provider_tools: match mode {
                    Mode::Voice => self.config.provider.provider_tools.clone(),
                    Mode::Text => text.provider_tools.clone(),
                },
                guides_tokens_max,
                retrieval_calls_max: limits.turn.retrieval_calls_max,
                values: self.config.condition_facts.clone(),
            }))
        };
        // A program that asks once and forgets cannot be asked for consent, may ask the same again, and hears of no end of a task.
        let unattended = registry.only(|tool| {
            !tool.requires_confirmation
                && (!tool.writes() || tool.idempotent)
                && !tool.runs_in_background()
        });
        let guides_tokens_max = text.guides_tokens_max.get();
        let toolbox = Toolbox {
            voice: kit(
                &registry,
                Mode::Voice,
                voice.guides_tokens_max.get(),
                &voice.limits,
            ),
            text: kit(&registry, Mode::Text, guides_tokens_max, &text.limits),
            completions: kit(&unattended, Mode::Text, guides_tokens_max, &text.limits),
            version: registry.version().clone(),
            texts,
        };
        self.check_counts(&toolbox)?;
        // Elsewhere the first call starts them.
        if tokio::runtime::Handle::try_current().is_ok() {
            scripts.start();
            declared.mcp.start();
        }
        Ok(toolbox)
    }

    /// The executors of handlers that `handler.json` files declare.
    fn declared_handlers(&self) -> DeclaredHandlers {
        let config = &self.config;
        let folder = self.artifact_path().parent().map(Path::to_path_buf);
        DeclaredHandlers {
            folder: folder.unwrap_or_default(),
            processes: config.handlers.processes,
            secrets: config.handler_secrets(),
            variables: config.process_variables(),
            granted: config.granted_secrets(),
            connections: config.granted_connections(),
            connection_hosts: config.permissions().connections,
            unlogged: config.unlogged(),
            fetch: config.handlers.fetch_limits(),
            worker: config.handlers.worker_limits(),
            resolver: Arc::new(SystemResolver),
            mcp: mcp_servers(config),
        }
    }

    /// OpenAI would refuse every request of a session with more tools. Servers that speak its protocol have limits of their
    /// own.
    fn check_counts(&self, toolbox: &Toolbox) -> Result<(), ToolboxError> {
        let text = &self.config.text;
        let is_own_server = |url: &str| !url.starts_with("https://api.openai.com/");
        let text_is_openai = self.config.text_provider == TextProvider::Openai
            && !text
                .url
                .as_ref()
                .is_some_and(|url| is_own_server(url.as_str()));
        let voice_is_openai = self.profile.declaration == DeclarationForm::OpenaiRealtime;
        for (is_openai, mode, name, key) in [
            (voice_is_openai, Mode::Voice, "voice", "provider.kind"),
            (text_is_openai, Mode::Text, "text", "text.provider"),
        ] {
            let registry = &toolbox.of(mode).all().registry;
            let of_mode = registry.all_versions().filter(|tool| tool.allows(mode));
            // A tool may be for the mode in one of its versions alone.
            let ids: BTreeSet<&ToolId> = of_mode.map(|tool| &tool.id).collect();
            let count = ids.len();
            if is_openai && count > OPENAI_TOOLS_MAX {
                return Err(ToolboxError::TooManyForOpenai {
                    count,
                    mode: name,
                    key,
                });
            }
        }
        Ok(())
    }
}

/// The MCP servers of a configuration. No server is started or asked yet.
pub(crate) fn mcp_servers(config: &Config) -> McpServers {
    let surroundings = McpSurroundings {
        secrets: config.handler_secrets(),
        connections: config.permissions().connections,
        unlogged: config.unlogged(),
        resolver: Arc::new(SystemResolver),
    };
    McpServers::new(config.mcp_servers(), &surroundings)
}

/// The tool that returns the guides for which the prompt has no room.
fn describer(registry: &Registry, mode: Mode) -> Tool {
    let guides = registry
        .declared(mode)
        .map(|tool| (tool.id.as_str().to_owned(), tool.documentation.clone()))
        .collect();
    let handler = describe_tool(Arc::new(guides));
    windlass_compile::compile_embedded(describe_tool::SCHEMA, describe_tool::GUIDE, handler)
        .expect("the program's own tool compiles, as a test shows")
}

/// All tools of one build, ready for sessions.
pub(crate) struct Toolbox {
    pub(crate) version: Arc<str>,
    pub(crate) voice: Arc<ModeKit>,
    pub(crate) text: Arc<ModeKit>,
    /// The tools of requests that are each a session of their own.
    pub(crate) completions: Arc<ModeKit>,
    /// The texts that the prompts begin with.
    texts: Arc<Texts>,
}

impl Toolbox {
    /// Reads ahead the files that the first calls of its tools would have to read. Runs on a thread of its own.
    pub(crate) fn prepare_handlers(&self) {
        let registry = &self.text.all().registry;
        let preparations = registry.all_versions();
        let preparations: Vec<fn()> = preparations
            .filter_map(|tool| tool.handler.preparation())
            .collect();
        if preparations.is_empty() {
            return;
        }
        let prepare = move || preparations.into_iter().for_each(|prepare| prepare());
        let thread = std::thread::Builder::new().name("tools".to_owned());
        if let Err(error) = thread.spawn(prepare) {
            tracing::warn!(%error, "the first calls of some tools take longer");
        }
    }

    /// Whether sessions would be given the same by both: tools, and the texts that say who the agent is.
    pub(crate) fn serves_as(&self, other: &Self) -> bool {
        self.version == other.version && self.texts == other.texts
    }

    /// The tools of a mode, and `describe_tool` also where the prompt has room for all guides: for calls that no model
    /// makes.
    pub(crate) fn with_describer(&self, mode: Mode) -> Arc<Registry> {
        let registry = &self.of(mode).all().registry;
        if registry.get(DESCRIBE_TOOL).is_some() {
            return registry.clone();
        }
        Arc::new(registry.with(describer(registry, mode)))
    }

    pub(crate) fn of(&self, mode: Mode) -> &Arc<ModeKit> {
        match mode {
            Mode::Voice => &self.voice,
            Mode::Text => &self.text,
        }
    }
}

/// The declarations in the form of the provider that reads them; the other is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    pub(crate) gemini_live: gemini_live::DeclaredTools,
    pub(crate) openai_realtime: openai_realtime::DeclaredTools,
}

impl Declared {
    fn new(registry: &Registry, mode: Mode, profile: &ModelProfile) -> Self {
        let tools = registry.declared(mode);
        match profile.declaration {
            DeclarationForm::OpenaiRealtime => Self {
                openai_realtime: openai_realtime::DeclaredTools::new(tools),
                ..Self::default()
            },
            DeclarationForm::GeminiNative
            | DeclarationForm::GeminiJson
            | DeclarationForm::Openai => Self {
                gemini_live: gemini_live::DeclaredTools::new(tools, profile),
                ..Self::default()
            },
        }
    }

    fn text(&self) -> &str {
        match self.openai_realtime.text() {
            "" => self.gemini_live.text(),
            text => text,
        }
    }
}

/// Sets of tools that are kept ready; there are as many as there are ways to leave tools out, and to choose versions of them. Each tool
/// with versions adds as many again.
const VARIANTS_MAX: usize = 64;

/// The ingredients of a mode's tools.
struct Recipe {
    /// Each tool in the version for everybody whom no rule names.
    registry: Registry,
    rollouts: Arc<Rollouts>,
    texts: Arc<Texts>,
    mode: Mode,
    profile: Arc<ModelProfile>,
    provider_tools: BTreeSet<ProviderTool>,
    guides_tokens_max: u64,
    retrieval_calls_max: u32,
    /// The configuration's values that conditions read.
    values: Arc<Values>,
}

/// The tools of one mode, made ready once for all sessions that are offered the same of them.
pub(crate) struct ModeKit {
    recipe: Recipe,
    all: Arc<ModeTools>,
    /// The tools that only some users get.
    restricted: Vec<Arc<Tool>>,
    variants: Mutex<Variants>,
}

/// A set of tools that is made by the first session that is offered it, while others wait for it and for no other one.
type MadeOnce = Arc<OnceLock<Arc<ModeTools>>>;

/// Sets that are kept ready, the most recently used ones.
struct Variants {
    kept: BTreeMap<Variant, (MadeOnce, u64)>,
    kept_max: usize,
    /// How often one was asked for.
    uses: u64,
}

impl Variants {
    fn of(rollouts: &Rollouts) -> Self {
        Self {
            kept: BTreeMap::new(),
            kept_max: VARIANTS_MAX.saturating_mul(rollouts.len().saturating_add(1)),
            uses: 0,
        }
    }

    /// The place of a set. The least recently used set makes room.
    fn place(&mut self, variant: Variant) -> MadeOnce {
        self.uses += 1;
        if let Some((made, used)) = self.kept.get_mut(&variant) {
            *used = self.uses;
            return made.clone();
        }
        if self.kept.len() >= self.kept_max {
            let oldest = self.kept.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(variant, _)| variant.clone());
            oldest.map(|oldest| self.kept.remove(&oldest));
        }
        let made = MadeOnce::default();
        self.kept.insert(variant, (made.clone(), self.uses));
        made
    }
}

/// The difference between the tools of one session and the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Variant {
    withheld: BTreeSet<ToolId>,
    /// Versions in place of the usual ones.
    choice: Choice,
}

impl ModeKit {
    fn new(recipe: Recipe) -> Self {
        let tools = recipe.registry.declared(recipe.mode);
        let restricted = tools.filter(|tool| !tool.is_for_everybody()).cloned();
        Self {
            restricted: restricted.collect(),
            all: Arc::new(recipe.make(&Variant::default())),
            variants: Mutex::new(Variants::of(&recipe.rollouts)),
            recipe,
        }
    }

    /// With every tool, for callers that may use them all.
    pub(crate) fn all(&self) -> &Arc<ModeTools> {
        &self.all
    }

    /// The facts that conditions read in a session of a user in this zone, beside those about the user.
    pub(crate) fn given(&self, zone: Option<&UserZone>) -> Given {
        Given {
            clock: clock::local_clock(zone),
            values: self.recipe.values.clone(),
        }
    }

    /// The tools of a session that begins with these facts.
    pub(crate) fn offered_to(&self, facts: &Facts<'_>) -> Arc<ModeTools> {
        let choice = self.recipe.choice(facts);
        let usual = self.restricted.iter();
        let usual = usual.filter(|tool| !choice.contains_key(&tool.id));
        let chosen = choice
            .iter()
            .filter_map(|(id, version)| self.recipe.registry.in_version(id.as_str(), version));
        let withheld = usual.chain(chosen).filter(|tool| !tool.is_offered(facts));
        let withheld = withheld.map(|tool| tool.id.clone()).collect();
        let variant = Variant { withheld, choice };
        if variant == Variant::default() {
            return self.all.clone();
        }
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let place = variants.place(variant.clone());
        drop(variants);
        let made = place.get_or_init(|| Arc::new(self.recipe.make(&variant)));
        made.clone()
    }
}

impl Recipe {
    /// Versions in place of the usual ones, by the rules.
    fn choice(&self, facts: &Facts<'_>) -> Choice {
        let chosen = self.rollouts.iter().filter_map(|(id, rollout)| {
            let chosen: &Version = rollout.choose(id, facts)?;
            let is_usual = rollout.version.as_ref() == Some(chosen);
            (!is_usual).then(|| (id.clone(), chosen.clone()))
        });
        chosen.collect()
    }

    /// The tools without some of them, and some in other versions. Sessions are pinned to all: a call of a withheld tool is refused as
    /// withheld.
    fn make(&self, variant: &Variant) -> ModeTools {
        let mode = self.mode;
        let mut registry = self.registry.choosing(&variant.choice);
        let mut offered = registry.only(|tool| !variant.withheld.contains(&tool.id));
        if !prompt::guides_fit(&offered, mode, self.guides_tokens_max) {
            registry = registry.with(describer(&offered, mode));
            offered = offered.with(describer(&offered, mode));
        }
        let prompt = Prompt::new(&prompt::Request {
            texts: &self.texts,
            mode,
            registry: &offered,
            guides_tokens_max: self.guides_tokens_max,
            retrieval_calls_max: self.retrieval_calls_max,
            calls: match mode {
                Mode::Voice => self.profile.calls,
                Mode::Text => CallSupport::BlockingOnly,
            },
        });
        let text_declared = TextTools::new(offered.declared(mode), offered.version())
            .beside(self.provider_tools.iter().copied());
        ModeTools {
            registry: Arc::new(registry),
            offered,
            mode,
            profile: self.profile.clone(),
            provider_tools: self.provider_tools.iter().copied().collect(),
            declared: OnceLock::new(),
            text_declared: Arc::new(text_declared),
            prompt,
            latest: Mutex::new(None),
        }
    }
}

/// The state of all sessions that are offered the same tools of one mode.
pub(crate) struct ModeTools {
    /// All tools of the mode, also those that are not offered.
    pub(crate) registry: Arc<Registry>,
    offered: Registry,
    mode: Mode,
    profile: Arc<ModelProfile>,
    provider_tools: Vec<ProviderTool>,
    /// Joined by the first voice session that declares them.
    declared: OnceLock<Declared>,
    pub(crate) text_declared: Arc<TextTools>,
    prompt: Prompt,
    /// The last instruction that was made. Sessions that begin in the same minute share it.
    latest: Mutex<Option<(clock::Words, Arc<str>)>>,
}

impl ModeTools {
    /// The tools that a model is offered.
    pub(crate) fn offered(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.offered.declared(self.mode)
    }

    /// The system instruction of a session that begins now.
    pub(crate) fn instruction(&self, zone: Option<&UserZone>) -> Arc<str> {
        let now = clock::Words::now(zone);
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some((moment, text)) if *moment == now => text.clone(),
            Some(_) | None => {
                let text: Arc<str> = self
                    .prompt
                    .at(&Now {
                        date: &now.date,
                        time: &now.time,
                        zone: &now.zone,
                    })
                    .into();
                *latest = Some((now, text.clone()));
                text
            }
        }
    }

    pub(crate) fn declared(&self) -> &Declared {
        self.declared.get_or_init(|| {
            let mut declared = Declared::new(&self.offered, self.mode, &self.profile);
            declared.gemini_live = declared.gemini_live.beside(&self.provider_tools);
            declared
        })
    }

    pub(crate) fn estimate(&self, instruction: &str) -> ContextEstimate {
        prompt::estimate(instruction, self.declared().text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_that_describes_others_compiles_and_says_what_it_was_given() {
        let registry = Registry::new("1.0.00000000", None, Vec::new());
        let tool = describer(&registry, Mode::Voice);
        assert_eq!(tool.id.as_str(), "describe_tool");
        assert!(tool.allows(Mode::Voice) && tool.allows(Mode::Text));
    }

    #[test]
    fn a_set_of_tools_is_kept_until_others_were_used_more_lately() {
        let mut variants = Variants::of(&Rollouts::new());
        let variant = |number: usize| Variant {
            withheld: BTreeSet::from([ToolId::parse(&format!("tool_{number}")).unwrap()]),
            ..Variant::default()
        };
        let first = variants.place(variant(0));
        let second = variants.place(variant(1));
        (2..VARIANTS_MAX).for_each(|number| drop(variants.place(variant(number))));
        assert!(Arc::ptr_eq(&first, &variants.place(variant(0))));
        // One more set replaces the least recently used one.
        variants.place(variant(VARIANTS_MAX));
        assert_eq!(variants.kept.len(), VARIANTS_MAX);
        assert!(Arc::ptr_eq(&first, &variants.place(variant(0))));
        assert!(!Arc::ptr_eq(&second, &variants.place(variant(1))));
    }
}
