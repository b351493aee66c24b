//! Makes a registry of an artifact: each tool with its handler and the configuration's settings. Knows no file.

use super::{Artifact, Entry, HandlerCode};
use crate::handler_file::{self, HandlerFile, Judged, Permissions};
use crate::manifest::{Manifest, rules};
use crate::problem::Report;
use crate::program::ProgramFile;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_contract::envelope::{self, RESPONSE_VERSION, RESPONSE_VERSION_BEFORE};
use windlass_contract::handler::Handler;
use windlass_contract::id::ToolId;
use windlass_contract::kind::{Category, Mode, SideEffects};
use windlass_contract::reference::argument_of;
use windlass_contract::registry::{Registry, Tool};
use windlass_contract::rollout::{Choice, Rollout, RolloutFlaw, Rollouts};
use windlass_contract::tightening::Tightening;
use windlass_contract::validate::Validator;
use windlass_contract::version::Version;
use windlass_contract::wording::nearest;

/// Makes handlers of `handler.js` files.
pub trait ScriptLoader {
    /// The error's text is the problem of the script.
    fn load(&self, script: &Script<'_>) -> Result<Arc<dyn Handler>, String>;
}

/// A script whose hashes were checked.
#[derive(Clone, Debug)]
pub struct Script<'a> {
    pub tool: &'a ToolId,
    pub version: &'a str,
    /// The handler's path from the folder of the tools.
    pub entry: &'a str,
    /// The sources of the handler and of everything that it imports, by their paths from the folder of the tools.
    pub modules: BTreeMap<&'a str, &'a Arc<str>>,
    /// Milliseconds.
    pub timeout_ms: u64,
}

/// Makes handlers of what `handler.json` files declare.
pub trait FileLoader {
    /// The error's text names the missing part of the handler.
    fn load(&self, declared: DeclaredTool<'_>) -> Result<Arc<dyn Handler>, String>;
}

/// A `handler.json` whose hash was checked.
#[derive(Clone, Debug)]
pub struct DeclaredTool<'a> {
    pub tool: &'a ToolId,
    /// Relative to the artifact's folder.
    pub path: &'a str,
    pub file: HandlerFile,
    /// The files of the handler's program.
    pub program: &'a [ProgramFile],
}

/// The loaders for handlers in files; `None` where none is available.
#[derive(Clone, Copy, Default)]
pub struct Loaders<'a> {
    pub scripts: Option<&'a dyn ScriptLoader>,
    pub files: Option<&'a dyn FileLoader>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActivationError {
    #[error(
        "the tool {tool} has its handler in {path}, and this build cannot run script handlers; remove the tool, or begin its directory's name with _"
    )]
    ScriptsUnavailable { tool: ToolId, path: String },
    #[error(
        "the tool {tool} has its handler in {path}, and this program has nobody to run it; remove the tool, or begin its directory's name with _"
    )]
    FilesUnavailable { tool: ToolId, path: String },
    #[error("the handler {path} of the tool {tool} does not load: {cause}")]
    Script {
        tool: ToolId,
        path: String,
        cause: String,
    },
    #[error(
        "the tool {tool} needs a built-in handler that this program does not have; run `windlass build` with this program"
    )]
    HandlerMissing { tool: ToolId },
    #[error(
        "the handler of the tool {tool} speaks response version {found}, and this program speaks {RESPONSE_VERSION} and {RESPONSE_VERSION_BEFORE}"
    )]
    ResponseVersion { tool: ToolId, found: String },
    #[error("the configuration speaks of the tool {tool}, which does not exist{}", suggestion(.near.as_deref()))]
    UnknownTool { tool: ToolId, near: Option<String> },
    #[error(
        "the configuration speaks of version {version} of the tool {tool}, which does not exist; there is {known}: put it into the \
         tool's folder, under versions/{version}, or leave it out of tools.{tool}"
    )]
    UnknownVersion {
        tool: ToolId,
        version: Version,
        known: String,
    },
    #[error("tools.{tool}.versions.\"{}\".{} has a value which {}", .flaw.version, .flaw.key, .flaw.cause)]
    Rollout { tool: ToolId, flaw: RolloutFlaw },
    #[error(
        "the configuration would loosen the tool {tool}: {cause}; it may only make a tool stricter"
    )]
    Loosened { tool: ToolId, cause: String },
    #[error(
        "the configuration has the tool {tool} ask the user first, and its parameter {parameter} looks like a confirmation, which only the user can give; give the parameter another name, or leave requires_confirmation out"
    )]
    ConfirmationParameter { tool: ToolId, parameter: String },
    #[error(
        "{key} = {clamp} would clamp `top_k` of the tool {tool} to a number that its schema forbids: {cause}; raise the limit, or have the tool's schema.json allow {clamp}"
    )]
    Clamp {
        key: &'static str,
        clamp: i64,
        tool: ToolId,
        cause: String,
    },
}

impl ActivationError {
    /// The tool that the error is about.
    pub(crate) fn tool(&self) -> &ToolId {
        match self {
            Self::ScriptsUnavailable { tool, .. }
            | Self::FilesUnavailable { tool, .. }
            | Self::Script { tool, .. }
            | Self::HandlerMissing { tool }
            | Self::ResponseVersion { tool, .. }
            | Self::UnknownTool { tool, .. }
            | Self::UnknownVersion { tool, .. }
            | Self::Rollout { tool, .. }
            | Self::Loosened { tool, .. }
            | Self::ConfirmationParameter { tool, .. }
            | Self::Clamp { tool, .. } => tool,
        }
    }
}

fn suggestion(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

impl Artifact {
    /// Checks that rules name existing tools and versions, and make sense beside the current ones. Activation checks the same.
    ///
    /// # Errors
    ///
    /// The first tool whose rules fail the check.
    pub fn check_rollouts(&self, rollouts: &Rollouts) -> Result<(), ActivationError> {
        for (tool, rollout) in rollouts {
            let of_tool = || {
                let entries = self.entries.iter().map(|entry| &entry.manifest);
                entries.filter(|manifest| manifest.tool_id == *tool)
            };
            // The current version comes first.
            let Some(current) = of_tool().next() else {
                let ids = self.tool_ids().map(ToolId::as_str);
                return Err(ActivationError::UnknownTool {
                    tool: tool.clone(),
                    near: nearest(tool.as_str(), ids).map(str::to_owned),
                });
            };
            let numbers = of_tool().map(|manifest| manifest.version.as_str());
            let current = Version::parse(&current.version);
            check_rollout(tool, rollout, numbers, current.as_ref())?;
        }
        Ok(())
    }

    /// Joins the tools with their handlers.
    pub fn into_registry(
        self,
        handlers: &BTreeMap<ToolId, Arc<dyn Handler>>,
        loaders: Loaders<'_>,
        tightenings: &BTreeMap<ToolId, Tightening>,
    ) -> Result<Registry, ActivationError> {
        if let Some(error) = self.unknown_tools(tightenings).next() {
            return Err(error);
        }
        let mut tools = Vec::with_capacity(self.entries.len());
        let mut beside = Vec::new();
        for mut entry in self.entries {
            entry.manifest = tightened(entry.manifest, entry.is_beside, tightenings)?;
            let handler = handler_of(&entry, handlers, loaders)?;
            let kind = match entry.is_beside {
                true => &mut beside,
                false => &mut tools,
            };
            kind.push(tool(entry, handler));
        }
        let registry = Registry::new(self.version, self.git_commit, tools);
        Ok(registry.beside(beside))
    }

    /// Errors for the settings of tools that do not exist.
    pub(crate) fn unknown_tools<'a>(
        &'a self,
        tightenings: &'a BTreeMap<ToolId, Tightening>,
    ) -> impl Iterator<Item = ActivationError> + 'a {
        let ids = move || {
            let entries = self.entries.iter();
            entries.map(|entry| entry.manifest.tool_id.as_str())
        };
        let unknown = move |tool: &&ToolId| !ids().any(|id| id == tool.as_str());
        let named = tightenings.keys().filter(unknown);
        named.map(move |tool| ActivationError::UnknownTool {
            tool: tool.clone(),
            near: nearest(tool.as_str(), ids()).map(str::to_owned),
        })
    }
}

/// A version of a tool with the configuration's settings. `is_beside` marks a version other than the one in the tool's own folder.
///
/// # Errors
///
/// The configuration would make the tool looser, or would add a confirmation that its model seems able to give.
pub(crate) fn tightened(
    mut manifest: Manifest,
    is_beside: bool,
    tightenings: &BTreeMap<ToolId, Tightening>,
) -> Result<Manifest, ActivationError> {
    let tightening = tightenings.get(&manifest.tool_id);
    let Some(tightening) = tightening.and_then(|of_tool| of_tool.of(&manifest.version)) else {
        return Ok(manifest);
    };
    if let Err(cause) = tighten(&mut manifest, tightening) {
        return Err(ActivationError::Loosened {
            cause: match is_beside {
                true => format!("in version {}, {cause}", manifest.version),
                false => cause,
            },
            tool: manifest.tool_id,
        });
    }
    match forged_confirmation(&manifest) {
        Some(parameter) => Err(ActivationError::ConfirmationParameter {
            tool: manifest.tool_id,
            parameter,
        }),
        None => Ok(manifest),
    }
}

/// Finds a parameter by which the model could seem to confirm in the user's place, in a tool that asks the user.
fn forged_confirmation(manifest: &Manifest) -> Option<String> {
    let names = manifest
        .requires_confirmation
        .then(|| rules::confirmation_names(&manifest.parameters))?;
    names.into_iter().next().map(|(_, name)| name)
}

/// Checks that the rules of one tool name its own versions, and make sense beside the current one.
fn check_rollout<'v>(
    tool: &ToolId,
    rollout: &Rollout,
    numbers: impl Iterator<Item = &'v str>,
    current: Option<&Version>,
) -> Result<(), ActivationError> {
    let numbers: Vec<Version> = numbers.filter_map(Version::parse).collect();
    if let Some(version) = rollout.named().find(|version| !numbers.contains(version)) {
        let known: Vec<&str> = numbers.iter().map(Version::as_str).collect();
        return Err(ActivationError::UnknownVersion {
            tool: tool.clone(),
            version: version.clone(),
            known: known.join(", "),
        });
    }
    match rollout.flaw(current) {
        Some(flaw) => {
            let tool = tool.clone();
            Err(ActivationError::Rollout { tool, flaw })
        }
        None => Ok(()),
    }
}

/// The limit of `top_k` of retrieval tools in one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clamp {
    pub mode: Mode,
    /// The key of the configuration that has to change.
    pub key: &'static str,
    pub top_k_max: i64,
}

/// The registry for callers without a rule, and the rules, each with the registry's version.
///
/// # Errors
///
/// The first tool whose rules name a version that it does not have, or make no sense beside its current version.
pub fn rolled_out(
    registry: &Registry,
    rollouts: &Rollouts,
) -> Result<(Registry, Rollouts), ActivationError> {
    let mut rollouts = rollouts.clone();
    let mut choice = Choice::new();
    for (tool, rollout) in &mut rollouts {
        let numbers = registry
            .versions_of(tool.as_str())
            .map(|tool| &*tool.version);
        let current = registry.get(tool.as_str()).map(|tool| &*tool.version);
        let current = current.and_then(Version::parse);
        check_rollout(tool, rollout, numbers, current.as_ref())?;
        rollout.version = rollout.version.take().or(current);
        choice.extend(
            rollout
                .version
                .clone()
                .map(|version| (tool.clone(), version)),
        );
    }
    Ok((registry.choosing(&choice), rollouts))
}

/// Checks that clamped arguments satisfy the tools' schemas, as the arguments of every run must.
///
/// # Errors
///
/// The first tool whose schema forbids the clamp of one of its modes.
pub fn check_clamps(registry: &Registry, clamps: &[Clamp]) -> Result<(), ActivationError> {
    for clamp in clamps {
        let tools = registry
            .all_versions()
            .filter(|tool| tool.allows(clamp.mode))
            .filter(|tool| tool.category == Category::Retrieval);
        for tool in tools {
            if let Some(cause) = rules::clamp_refusal(tool.parameters.schema(), clamp.top_k_max) {
                return Err(ActivationError::Clamp {
                    key: clamp.key,
                    clamp: clamp.top_k_max,
                    tool: tool.id.clone(),
                    cause,
                });
            }
        }
    }
    Ok(())
}

fn handler_of(
    entry: &Entry,
    handlers: &BTreeMap<ToolId, Arc<dyn Handler>>,
    loaders: Loaders<'_>,
) -> Result<Arc<dyn Handler>, ActivationError> {
    let tool = &entry.manifest.tool_id;
    let handler = match (&entry.handler, loaders.scripts) {
        (
            HandlerCode::Declared {
                path,
                source,
                program,
                ..
            },
            _,
        ) => declared(&entry.manifest, path, (source, program), loaders.files)?,
        (HandlerCode::Builtin, _) => handlers
            .get(tool)
            .cloned()
            .ok_or_else(|| ActivationError::HandlerMissing { tool: tool.clone() })?,
        (
            HandlerCode::Script {
                entry: file,
                modules,
            },
            Some(loader),
        ) => {
            let (folder, name) = entry.split_path(&file.path);
            let files = modules.iter().chain([file]);
            let sources =
                files.filter_map(|file| Some((file.path.strip_prefix(folder)?, &file.source)));
            let script = Script {
                tool,
                version: &entry.manifest.version,
                entry: name,
                modules: sources.collect(),
                timeout_ms: entry.manifest.timeout_ms,
            };
            loader
                .load(&script)
                .map_err(|cause| ActivationError::Script {
                    tool: tool.clone(),
                    path: file.path.clone(),
                    cause,
                })?
        }
        (HandlerCode::Script { entry: file, .. }, None) => {
            return Err(ActivationError::ScriptsUnavailable {
                tool: tool.clone(),
                path: file.path.clone(),
            });
        }
    };
    if !envelope::is_read(handler.response_version()) {
        return Err(ActivationError::ResponseVersion {
            tool: tool.clone(),
            found: handler.response_version().to_owned(),
        });
    }
    Ok(handler)
}

fn declared(
    manifest: &Manifest,
    path: &str,
    (source, program): (&str, &[ProgramFile]),
    loader: Option<&dyn FileLoader>,
) -> Result<Arc<dyn Handler>, ActivationError> {
    let tool = &manifest.tool_id;
    let path_of_it = path.to_owned();
    let Some(loader) = loader else {
        return Err(ActivationError::FilesUnavailable {
            tool: tool.clone(),
            path: path_of_it,
        });
    };
    // The loader checks the configuration's current permissions.
    let permissions = Permissions {
        processes: true,
        ..Permissions::default()
    };
    let judged = Judged {
        parameters: &manifest.parameters,
        writes: manifest.side_effects == SideEffects::Writes,
        always_asks: manifest.requires_confirmation && manifest.consent_condition.is_none(),
        state: &manifest.state,
        timeout_ms: None,
        permissions: &permissions,
    };
    let mut report = Report::new("", path, source);
    let loaded = match handler_file::read(source, &judged, &mut report) {
        Some(file) => loader.load(DeclaredTool {
            tool,
            path,
            file,
            program,
        }),
        None => Err("the file is no handler of this program's version".to_owned()),
    };
    loaded.map_err(|cause| ActivationError::Script {
        tool: tool.clone(),
        path: path_of_it,
        cause,
    })
}

/// `Err` names the setting that would be looser.
fn tighten(manifest: &mut Manifest, tightening: &Tightening) -> Result<(), String> {
    match tightening.requires_confirmation {
        Some(false) if manifest.requires_confirmation => {
            return Err("requires_confirmation is true in its schema.json".to_owned());
        }
        Some(required) => {
            manifest.requires_confirmation = required;
            // Every call asks now.
            manifest.consent_condition = None;
            manifest.remember = None;
        }
        None => {}
    }
    match tightening.remember {
        Some(true) if manifest.remember.is_none() => {
            return Err("remember is true, and its schema.json has none".to_owned());
        }
        Some(false) => manifest.remember = None,
        Some(true) | None => {}
    }
    if let Some(modes) = &tightening.allowed_modes {
        if let Some(mode) = modes
            .iter()
            .find(|mode| !manifest.allowed_modes.contains(mode))
        {
            return Err(format!(
                "allowed_modes has {}, which its schema.json has not",
                mode.as_str()
            ));
        }
        if modes.is_empty() {
            return Err(
                "allowed_modes is empty, which leaves the tool of no use: remove the tool instead"
                    .to_owned(),
            );
        }
        manifest.allowed_modes.retain(|mode| modes.contains(mode));
    }
    if let Some(timeout_ms) = tightening.timeout_ms {
        if timeout_ms == 0 || timeout_ms > manifest.timeout_ms {
            return Err(format!("timeout_ms has to be 1 to {}", manifest.timeout_ms));
        }
        manifest.timeout_ms = timeout_ms;
    }
    if let Some(limit) = tightening.rate_limit {
        if limit.calls == 0 || limit.window_ms == 0 {
            return Err("rate_limit has to have calls and window_ms above 0".to_owned());
        }
        if let Some(own) = manifest.rate_limit
            && (limit.calls > own.calls || limit.window_ms < own.window_ms)
        {
            return Err(format!(
                "rate_limit may be at most {} calls in at least {} ms",
                own.calls, own.window_ms
            ));
        }
        manifest.rate_limit = Some(limit);
    }
    let permissions = &mut manifest.permissions;
    match tightening.requires_auth {
        Some(false) if permissions.requires_auth => {
            return Err("requires_auth is true in its schema.json".to_owned());
        }
        Some(required) => permissions.requires_auth = required,
        None => {}
    }
    for (name, own, roles) in [
        ("roles", &mut permissions.roles, &tightening.roles),
        (
            "approver_roles",
            &mut permissions.approver_roles,
            &tightening.approver_roles,
        ),
    ] {
        let Some(roles) = roles else { continue };
        if roles.is_empty() {
            return Err(format!(
                "{name} is empty, which would let everybody: name a role, or leave it out"
            ));
        }
        if !own.is_empty() && !roles.is_subset(own) {
            return Err(format!("{name} has a role that its schema.json has not"));
        }
        own.clone_from(roles);
    }
    // Each call is approved by another person.
    if !permissions.approver_roles.is_empty() {
        manifest.remember = None;
    }
    if !permissions.approver_roles.is_empty() && !manifest.requires_confirmation {
        return Err(
            "approver_roles needs requires_confirmation = true beside it: without it nobody is asked"
                .to_owned(),
        );
    }
    Ok(())
}

/// The preview with the tools that the handler may call.
fn with_calls(preview: String, handler: &HandlerCode) -> String {
    let called: Vec<String> = handler.called_tools().into_iter().collect();
    match called.is_empty() {
        true => preview,
        false => format!("{preview} (may call {})", called.join(", ")),
    }
}

/// Joins one tool with its handler.
pub(crate) fn tool(entry: Entry, handler: Arc<dyn Handler>) -> Tool {
    let code_hash = entry.code_hash();
    let manifest = entry.manifest;
    // The compiler has compiled the schemas, and the artifact's version shows that they are unchanged.
    let validator = |schema| Validator::trusting(Arc::new(schema));
    Tool {
        id: manifest.tool_id,
        version: manifest.version.into(),
        code_hash,
        description: manifest.description,
        category: manifest.category,
        side_effects: manifest.side_effects,
        idempotent: manifest.idempotent,
        requires_confirmation: manifest.requires_confirmation,
        consent_condition: manifest.consent_condition,
        remember: manifest.remember,
        allowed_modes: manifest.allowed_modes,
        latency_budget_ms: manifest.latency_budget_ms,
        timeout_ms: manifest.timeout_ms,
        behavior: manifest.behavior,
        scheduling: manifest.scheduling.unwrap_or_default(),
        on_interrupt: manifest.on_interrupt,
        reach: manifest.reach,
        confirmation_preview: manifest
            .confirmation
            .map(|confirmation| with_calls(confirmation.preview, &entry.handler)),
        rate_limit: manifest.rate_limit,
        permissions: manifest.permissions,
        availability: manifest.availability,
        effect_key: manifest
            .effect_key
            .iter()
            .map(|pointer| argument_of(pointer).into())
            .collect(),
        repeatable: manifest.repeatable,
        sensitive: manifest.sensitive,
        status: manifest.status,
        state: manifest
            .state
            .into_iter()
            .map(|(key, schema)| (key.into(), validator(schema)))
            .collect(),
        parameters: validator(manifest.parameters),
        response: manifest.response_schema.map(validator),
        declarations: entry.declarations,
        summary: entry.guide.summary,
        documentation: entry.guide.documentation,
        handler,
    }
}
