//! The registry artifact `tool_registry.json`: the compiler makes it and the runtime loads it. Knows its JSON form and its
//! version; knows no tool directory.

mod activate;
mod load;
mod write;

pub use activate::{
    ActivationError, Clamp, DeclaredTool, FileLoader, Loaders, Script, ScriptLoader, check_clamps,
    rolled_out,
};
pub use load::LoadError;
pub use write::{WriteError, write_artifact};

pub(crate) use activate::{tightened, tool};

use crate::guide::Guide;
use crate::manifest::Manifest;
use crate::program::ProgramFile;
use crate::script_calls::calls_in;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::effect_key::KeySpec;
use windlass_contract::id::ToolId;
use windlass_contract::json;
use windlass_contract::kind::SideEffects;
use windlass_contract::reference::argument_of;
use windlass_contract::registry::{Declarations, STEERING_TOOLS};
use windlass_contract::version::Version;

/// The version of the artifact's own form.
const SCHEMA_VERSION: &str = "1.0.0";

/// All tools of one build.
#[derive(Debug)]
pub struct Artifact {
    version: Arc<str>,
    git_commit: Option<String>,
    build_timestamp: String,
    source_hash: String,
    /// Sorted by id. Each tool's current version comes first, then its other versions by their numbers.
    entries: Vec<Entry>,
}

/// One version of a tool of an artifact.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) manifest: Manifest,
    pub(crate) declarations: Declarations,
    pub(crate) guide: Guide,
    pub(crate) handler: HandlerCode,
    /// Whether the version lies beside the current one, which is the one in the tool's own folder.
    pub(crate) is_beside: bool,
}

/// The code of a tool's handler, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HandlerCode {
    Builtin,
    Script {
        entry: ScriptFile,
        /// The files that the script imports, sorted by path.
        modules: Vec<ScriptFile>,
    },
    /// A `handler.json`.
    Declared {
        kind: DeclaredKind,
        /// Relative to the artifact's folder.
        path: String,
        sha256: String,
        /// With line endings normalised, as it was when its hash was checked.
        source: Arc<str>,
        /// The files of the program: the other files of the tool's folder, sorted by name. Empty where the handler runs none.
        program: Vec<ProgramFile>,
    },
}

impl HandlerCode {
    /// The files of a script, its own first.
    pub(crate) fn script_files(&self) -> impl Iterator<Item = &ScriptFile> {
        let (entry, modules) = match self {
            Self::Script { entry, modules } => (Some(entry), modules.as_slice()),
            Self::Builtin | Self::Declared { .. } => (None, &[][..]),
        };
        entry.into_iter().chain(modules)
    }

    /// The tools that its text says it calls.
    pub(crate) fn called_tools(&self) -> BTreeSet<String> {
        self.script_files()
            .flat_map(|file| calls_in(&file.source))
            .map(|call| call.tool)
            .collect()
    }
}

/// The kind of handler that a `handler.json` declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeclaredKind {
    Http,
    Webhook,
    Process,
    Mcp,
    McpResource,
}

/// One file of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptFile {
    /// Relative to the artifact's folder.
    pub(crate) path: String,
    pub(crate) sha256: String,
    /// With line endings normalised, as it was when its hash was checked.
    pub(crate) source: Arc<str>,
}

impl ScriptFile {
    pub(crate) fn new(path: String, source: Arc<str>) -> Self {
        Self {
            path,
            sha256: json::hex(&Sha256::digest(&*source)),
            source,
        }
    }

    fn form(&self) -> FileForm {
        FileForm {
            path: self.path.clone(),
            sha256: self.sha256.clone(),
        }
    }
}

/// The JSON form of [`HandlerCode`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum HandlerForm {
    Builtin,
    Script {
        path: String,
        sha256: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        modules: Vec<FileForm>,
    },
    Http {
        path: String,
        sha256: String,
    },
    Webhook {
        path: String,
        sha256: String,
    },
    Process {
        path: String,
        sha256: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        program: Vec<ProgramFile>,
    },
    Mcp {
        path: String,
        sha256: String,
    },
    #[serde(rename = "mcp_resource")]
    McpResource {
        path: String,
        sha256: String,
    },
}

/// The JSON form of a [`ScriptFile`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    path: String,
    sha256: String,
}

impl Artifact {
    pub(crate) fn new(
        mut entries: Vec<Entry>,
        git_commit: Option<String>,
        build_timestamp: String,
        source_hash: String,
    ) -> Self {
        entries.sort_by(|left, right| left.place().cmp(&right.place()));
        Self {
            version: version_of(&entries).into(),
            git_commit,
            build_timestamp,
            source_hash,
            entries,
        }
    }

    /// `1.0.` and eight hexadecimal digits of the hash over everything that can change a call.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn git_commit(&self) -> Option<&str> {
        self.git_commit.as_deref()
    }

    /// RFC 3339.
    pub fn build_timestamp(&self) -> &str {
        &self.build_timestamp
    }

    /// The entries in their order.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn tool_ids(&self) -> impl Iterator<Item = &ToolId> {
        let current = self.entries.iter().filter(|entry| !entry.is_beside);
        current.map(|entry| &entry.manifest.tool_id)
    }

    /// The version numbers of each tool that has more than one, the current one first, and then by their order.
    pub fn versions(&self) -> BTreeMap<&ToolId, Vec<&str>> {
        let mut versions: BTreeMap<&ToolId, Vec<&str>> = BTreeMap::new();
        for Manifest {
            tool_id, version, ..
        } in self.entries.iter().map(|entry| &entry.manifest)
        {
            versions.entry(tool_id).or_default().push(version);
        }
        versions.retain(|_, versions| versions.len() > 1);
        versions
    }

    /// For each tool with effects, the arguments that identify an effect and how each is compared, in words. Versions beside the current
    /// one stand under names such as `book_table@1.2.0`.
    pub fn keys(&self) -> impl Iterator<Item = (String, Vec<(String, String)>)> {
        let writing = self.entries.iter().filter(|entry| {
            let manifest = &entry.manifest;
            let is_steering = STEERING_TOOLS.contains(&manifest.tool_id.as_str());
            manifest.side_effects == SideEffects::Writes && !is_steering
        });
        writing.map(|entry| {
            let spec = entry.key_spec();
            let words = spec.words().into_iter();
            let words = words.map(|(name, words)| (name.to_owned(), words));
            (entry.label(), words.collect())
        })
    }

    /// For each tool with approvals that may be remembered, which ones these are, in words.
    pub fn remembers(&self) -> impl Iterator<Item = (&ToolId, String)> {
        self.entries.iter().filter_map(|entry| {
            let remember = entry.manifest.remember.as_ref()?;
            Some((&entry.manifest.tool_id, remember.words()))
        })
    }

    pub(crate) fn source_hash(&self) -> &str {
        &self.source_hash
    }

    /// The artifact's text: a short head, then one line for each tool.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(4_096 * (self.entries.len() + 1));
        text.extend_from_slice(b"{\n");
        for (name, value) in [
            ("schemaVersion", json!(SCHEMA_VERSION)),
            ("version", json!(self.version)),
            ("gitCommit", json!(self.git_commit)),
            ("buildTimestamp", json!(self.build_timestamp)),
            ("sourceHash", json!(self.source_hash)),
        ] {
            text.extend_from_slice(format!("  \"{name}\": {value},\n").as_bytes());
        }
        text.extend_from_slice(b"  \"tools\": [");
        for (index, entry) in self.entries.iter().enumerate() {
            text.extend_from_slice(if index == 0 { b"\n    " } else { b",\n    " });
            entry.write_json(&mut text);
        }
        text.extend_from_slice(b"\n  ]\n}\n");
        text
    }
}

impl Entry {
    /// The tool's id; for a version beside the current one with its number, as in `book_table@1.2.0`.
    pub(crate) fn label(&self) -> String {
        let Manifest {
            tool_id, version, ..
        } = &self.manifest;
        match self.is_beside {
            true => format!("{tool_id}@{version}"),
            false => tool_id.to_string(),
        }
    }

    /// The sort key among entries.
    fn place(&self) -> (&ToolId, bool, Option<Version>) {
        let version = Version::parse(&self.manifest.version);
        (&self.manifest.tool_id, self.is_beside, version)
    }

    /// How the arguments that identify an effect are compared, as the file declares them.
    pub(crate) fn key_spec(&self) -> KeySpec {
        let named = self.manifest.effect_key.iter();
        let named: Vec<String> = named.map(|named| argument_of(named)).collect();
        KeySpec::of(&self.manifest.parameters, &named, &Arguments::none())
    }

    /// A handler file's path in two parts: up to the folder of the tools, with its last slash, and from there on.
    pub(crate) fn split_path<'p>(&self, path: &'p str) -> (&'p str, &'p str) {
        // The handler lies in a tool's directory, which lies in the folder of the tools; a version lies two folders deeper.
        let slashes = match self.is_beside {
            true => 3,
            false => 1,
        };
        let depth = path
            .rmatch_indices('/')
            .nth(slashes)
            .map_or(0, |(at, _)| at + 1);
        path.split_at(depth)
    }

    fn write_json(&self, text: &mut Vec<u8>) {
        let mut object = self.facts();
        object.insert("handler".to_owned(), self.handler_form());
        json::write_canonical(&Value::Object(object), text);
        // The declarations are text already and are appended as they are.
        text.pop();
        text.extend_from_slice(b",\"providerSchemas\":");
        self.write_declarations(text);
        text.push(b'}');
    }

    fn handler_form(&self) -> Value {
        let form = match &self.handler {
            HandlerCode::Builtin => HandlerForm::Builtin,
            HandlerCode::Script { entry, modules } => HandlerForm::Script {
                path: entry.path.clone(),
                sha256: entry.sha256.clone(),
                modules: modules.iter().map(ScriptFile::form).collect(),
            },
            HandlerCode::Declared {
                kind,
                path,
                sha256,
                program,
                ..
            } => {
                let (path, sha256) = (path.clone(), sha256.clone());
                match kind {
                    DeclaredKind::Http => HandlerForm::Http { path, sha256 },
                    DeclaredKind::Webhook => HandlerForm::Webhook { path, sha256 },
                    DeclaredKind::Mcp => HandlerForm::Mcp { path, sha256 },
                    DeclaredKind::McpResource => HandlerForm::McpResource { path, sha256 },
                    DeclaredKind::Process => HandlerForm::Process {
                        path,
                        sha256,
                        program: program.clone(),
                    },
                }
            }
        };
        serde_json::to_value(form).expect("a handler's form is plain JSON")
    }

    /// Everything but the declarations and the handler.
    fn facts(&self) -> Map<String, Value> {
        let Ok(Value::Object(mut object)) = serde_json::to_value(&self.manifest) else {
            unreachable!("a manifest serializes to an object");
        };
        object.insert("summary".to_owned(), json!(self.guide.summary));
        object.insert("documentation".to_owned(), json!(self.guide.documentation));
        if self.is_beside {
            object.insert("beside".to_owned(), json!(true));
        }
        object
    }

    fn write_declarations(&self, text: &mut Vec<u8>) {
        let declarations = &self.declarations;
        let mut before: &[u8] = b"{";
        for (name, declaration) in [
            ("geminiJson", &declarations.gemini_json),
            ("geminiNative", &declarations.gemini_native),
            ("openai", &declarations.openai),
            ("openaiRealtime", &declarations.openai_realtime),
        ] {
            text.extend_from_slice(before);
            text.extend_from_slice(format!("\"{name}\":").as_bytes());
            text.extend_from_slice(declaration.get().as_bytes());
            before = b",";
        }
        text.push(b'}');
    }

    /// The hash of the code that a call runs: the runtime facts of `schema.json`, and the handler. Words for the model are left out.
    pub(crate) fn code_hash(&self) -> Arc<str> {
        let Ok(Value::Object(mut object)) = serde_json::to_value(&self.manifest) else {
            unreachable!("a manifest serializes to an object");
        };
        for words in ["description", "status"] {
            object.remove(words);
        }
        object.insert("handler".to_owned(), self.handler.hashed_form());
        if self.handler == HandlerCode::Builtin {
            object.insert("program".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        }
        let mut text = Vec::new();
        json::write_canonical(&Value::Object(object), &mut text);
        json::hex(&Sha256::digest(&text)).into()
    }

    /// Adds the entry to the version: everything that can change a call, and nothing else.
    fn add_to(&self, version: &mut ArtifactVersion) {
        let mut object = self.facts();
        object.insert("handler".to_owned(), self.handler.hashed_form());
        let mut facts = Vec::new();
        json::write_canonical(&Value::Object(object), &mut facts);
        // The compiler writes declarations in canonical form.
        let mut declarations = Vec::new();
        self.write_declarations(&mut declarations);
        version.add(facts, declarations);
    }
}

impl HandlerCode {
    /// The form of the handler that goes into the version: its content, because its path changes no call.
    fn hashed_form(&self) -> Value {
        match self {
            Self::Builtin => json!({"kind": "builtin"}),
            Self::Declared {
                kind,
                sha256,
                program,
                ..
            } => {
                let kind = match kind {
                    DeclaredKind::Http => "http",
                    DeclaredKind::Webhook => "webhook",
                    DeclaredKind::Process => "process",
                    DeclaredKind::Mcp => "mcp",
                    DeclaredKind::McpResource => "mcp_resource",
                };
                match &program[..] {
                    [] => json!({"kind": kind, "sha256": sha256}),
                    program => json!({"kind": kind, "sha256": sha256, "program": program}),
                }
            }
            Self::Script { entry, modules } => {
                let sha256: Vec<&str> = modules.iter().map(|file| file.sha256.as_str()).collect();
                match &sha256[..] {
                    [] => json!({"kind": "script", "sha256": entry.sha256}),
                    modules => {
                        json!({"kind": "script", "sha256": entry.sha256, "modules": modules})
                    }
                }
            }
        }
    }
}

/// The version over tools that are added in the order of their ids.
#[derive(Default)]
struct ArtifactVersion {
    hasher: Sha256,
    has_tools: bool,
}

impl ArtifactVersion {
    /// Adds one tool: everything but its declarations, and the declarations, both as canonical JSON.
    fn add(&mut self, facts: impl AsRef<[u8]>, declarations: impl AsRef<[u8]>) {
        let is_first = !std::mem::replace(&mut self.has_tools, true);
        self.hasher.update(if is_first { "[[" } else { ",[" });
        self.hasher.update(facts);
        self.hasher.update(",");
        self.hasher.update(declarations);
        self.hasher.update("]");
    }

    fn finish(mut self) -> String {
        self.hasher.update(if self.has_tools { "]" } else { "[]" });
        format!("1.0.{}", json::hex(&self.hasher.finalize()[..4]))
    }
}

/// The version of a list of tools that is sorted by id.
fn version_of(entries: &[Entry]) -> String {
    let mut version = ArtifactVersion::default();
    for entry in entries {
        entry.add_to(&mut version);
    }
    version.finish()
}
