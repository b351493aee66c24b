//! The kit's `kb_search`: its schema and arguments as the peers are measured with, tool directories made of them, and
//! the frames in which a model calls it. Knows nothing of how a call is run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_compile::artifact::{Artifact, Loaders, write_artifact};
use windlass_compile::handler_file::Permissions;
use windlass_compile::{Source, compile};
use windlass_contract::arguments::Arguments;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    Execution, Failure, Handler, HandlerResult, Invocation, Placement, Success,
};
use windlass_contract::id::ToolId;
use windlass_contract::registry::Registry;

/// How many different calls rotate, as in the kit: many more than a session remembers, so that none is a repeat.
pub(crate) const CALLS: usize = 4_096;

/// The files beside the workspace that the peers and we measure with.
pub(crate) struct Kit {
    pub(crate) schema: Value,
    pub(crate) arguments: Map<String, Value>,
}

/// How the ids of calls look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Ids like those of Gemini Live: long enough to be trusted.
    Gemini,
    /// Ids like those of the kit: so short that the call's identity is a hash of its request.
    Short,
}

impl Kit {
    /// The kit's folder, beside the workspace.
    pub(crate) fn folder() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/bench/peers/shared")
    }

    /// `None` where the kit is missing.
    pub(crate) fn load() -> Option<Self> {
        let read = |name: &str| -> Option<Value> {
            let text = std::fs::read(Self::folder().join(name)).ok()?;
            serde_json::from_slice(&text).ok()
        };
        let Value::Object(arguments) = read("kb_search.args.json")? else {
            return None;
        };
        Some(Self {
            schema: read("kb_search.schema.json")?,
            arguments,
        })
    }

    /// One frame for each of [`CALLS`] calls with different arguments and ids.
    pub(crate) fn frames(&self, ids: Ids) -> Vec<Vec<u8>> {
        (0..CALLS)
            .map(|number| {
                let id = match ids {
                    Ids::Gemini => format!("function-call-{}", 3_225_422_447_732_038_294 + number),
                    Ids::Short => format!("fc-{number}"),
                };
                let call =
                    json!({"id": id, "name": "kb_search", "args": self.arguments_of(number)});
                json!({"toolCall": {"functionCalls": [call]}})
                    .to_string()
                    .into_bytes()
            })
            .collect()
    }

    pub(crate) fn arguments_of(&self, number: usize) -> Map<String, Value> {
        let mut arguments = self.arguments.clone();
        let query = arguments["query"].as_str().unwrap_or_default();
        arguments["query"] = json!(format!("{query} {number}"));
        arguments
    }

    /// A registry with `kb_search` alone, made by the compiler from a tool directory and loaded from its artifact.
    pub(crate) fn registry(&self) -> io::Result<Arc<Registry>> {
        let folder = tempfile::tempdir()?;
        let tool = |name: &str| (name.to_owned(), self.schema.clone());
        build(folder.path(), &[tool("kb_search")])?;
        Ok(Arc::new(load(&artifact_path(folder.path()))?))
    }

    /// `count` schemas like the kit's, each with a difference, as the peers' start-up measurement has them.
    pub(crate) fn many(&self, count: usize) -> Vec<(String, Value)> {
        (0..count)
            .map(|number| {
                let mut schema = self.schema.clone();
                schema["properties"]["query"]["maxLength"] = json!(100 + number);
                schema["properties"]["limit"]["maximum"] = json!(50 + number);
                schema["properties"]["filters"]["properties"][format!("facet_{number}")] = json!({
                    "type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 5 + number % 7
                });
                (format!("tool_{number}"), schema)
            })
            .collect()
    }
}

pub(crate) fn artifact_path(folder: &Path) -> PathBuf {
    folder.join("tool_registry.json")
}

/// Writes tool directories into `tools`.
pub(crate) fn write_tools(folder: &Path, tools: &[(String, Value)]) -> io::Result<PathBuf> {
    let directories = folder.join("tools");
    for (id, schema) in tools {
        let directory = directories.join(id.replace('_', "-"));
        std::fs::create_dir_all(&directory)?;
        let manifest = json!({
            "toolId": id, "version": "1.0.0", "description": "Search the knowledge base",
            "category": "retrieval", "sideEffects": "read_only", "idempotent": true,
            "requiresConfirmation": false, "allowedModes": ["text", "voice"], "latencyBudgetMs": 800,
            "parameters": schema,
        });
        std::fs::write(directory.join("schema.json"), manifest.to_string())?;
        std::fs::write(
            directory.join("guide.md"),
            format!("# {id}\n\nSearches the knowledge base.\n"),
        )?;
    }
    Ok(directories)
}

/// Writes tool directories, compiles them, and writes the artifact into the same folder.
pub(crate) fn build(folder: &Path, tools: &[(String, Value)]) -> io::Result<()> {
    let directories = write_tools(folder, tools)?;
    let artifact_path = artifact_path(folder);
    let builtin = tools
        .iter()
        .filter_map(|(id, _)| Some((ToolId::parse(id)?, None)))
        .collect();
    let compilation = compile(&Source {
        tools: &directories,
        artifact: &artifact_path,
        builtin: &builtin,
        build_timestamp: "2026-11-20T00:00:00Z",
        vocabularies: &BTreeMap::new(),
        values: windlass_contract::condition::Values::none(),
        permissions: &Permissions::default(),
        judge: None,
    });
    let artifact = compilation
        .artifact
        .ok_or_else(|| io::Error::other(format!("{:?}", compilation.problems)))?;
    write_artifact(&artifact, &artifact_path).map_err(io::Error::other)
}

/// Loads an artifact as the server does.
pub(crate) fn load(artifact: &Path) -> io::Result<Registry> {
    let artifact = Artifact::load(artifact).map_err(io::Error::other)?;
    let handlers: BTreeMap<ToolId, Arc<dyn Handler>> = artifact
        .tool_ids()
        .map(|id| (id.clone(), Arc::new(KbSearch) as Arc<dyn Handler>))
        .collect();
    artifact
        .into_registry(&handlers, Loaders::default(), &BTreeMap::new())
        .map_err(io::Error::other)
}

/// The kit's handler: one made-up hit.
pub(crate) struct KbSearch;

#[derive(Deserialize)]
struct SearchArguments<'a> {
    query: &'a str,
    limit: u32,
}

#[derive(Serialize)]
struct Found<'a> {
    hits: [Hit; 1],
    total: u32,
    query: &'a str,
    limit: u32,
}

#[derive(Serialize)]
struct Hit {
    id: &'static str,
    title: &'static str,
    score: f64,
}

fn search(arguments: &Arguments) -> HandlerResult {
    let SearchArguments { query, limit } = arguments
        .read()
        .map_err(|error| Failure::new(FailureKind::Validation, error.to_string()))?;
    Success::of(&Found {
        hits: [Hit {
            id: "doc-1",
            title: "Refunds",
            score: 0.87,
        }],
        total: 1,
        query,
        limit,
    })
}

impl Handler for KbSearch {
    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn execute(&self, invocation: Invocation) -> Execution {
        Execution::Ready(search(&invocation.arguments))
    }
}
