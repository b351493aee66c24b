//! Folders of tools for tests, and how their problems are shown.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use windlass_compile::handler_file::Permissions;
use windlass_compile::problem::{Problem, Severity};
use windlass_compile::published;
use windlass_compile::{
    Builtin, Compilation, ScriptFlaw, ScriptJudge, ScriptSources, ScriptVerdict, Source,
    Vocabularies, compile,
};
use windlass_contract::condition::Values;
use windlass_contract::id::ToolId;
use windlass_contract::validate::Validator;

pub(crate) const GUIDE: &str = "# A tool\n\nDoes one thing well.\n";
pub(crate) const HANDLER: &str =
    "export async function execute({ args }) { return { ok: true, data: args }; }\n";

/// A folder of tools that goes away with the test.
pub(crate) struct Folder {
    pub(crate) root: tempfile::TempDir,
    pub(crate) builtin: Builtin,
    pub(crate) vocabularies: Vocabularies,
    pub(crate) permissions: Permissions,
    pub(crate) values: Values,
    pub(crate) judge: Option<Judge>,
}

/// An engine of the tests: what begins with `bad` has a flaw in its second line, `uses PATH` in a first line imports that, and
/// `speaks VERSION` names the version of its answers.
#[derive(Debug)]
pub(crate) struct Judge;

impl ScriptJudge for Judge {
    fn judge(&self, script: &ScriptSources<'_>) -> ScriptVerdict {
        let source = &script.modules[script.entry];
        let import = source
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("// uses "));
        let first = source.lines().next();
        let speaks = first.and_then(|line| line.strip_prefix("// speaks "));
        let flaw = source.starts_with("bad").then(|| ScriptFlaw {
            file: script.entry.to_owned(),
            line: Some(2),
            column: Some(3),
            message: "it is bad".to_owned(),
            cure: "make it good".to_owned(),
        });
        ScriptVerdict {
            used: import
                .into_iter()
                .chain([script.entry])
                .map(str::to_owned)
                .collect(),
            flaws: flaw.into_iter().collect(),
            response_version: speaks.map(str::to_owned),
        }
    }
}

impl Folder {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("tools")).unwrap();
        Self {
            root,
            builtin: Builtin::new(),
            vocabularies: Vocabularies::new(),
            permissions: Permissions::default(),
            values: Values::default(),
            judge: Some(Judge),
        }
    }

    pub(crate) fn tools(&self) -> PathBuf {
        self.root.path().join("tools")
    }

    pub(crate) fn artifact(&self) -> PathBuf {
        self.root.path().join("tool_registry.json")
    }

    /// Writes one file of a tool, and the directories on the way.
    pub(crate) fn file(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.tools().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    /// Writes a whole tool with a script handler.
    pub(crate) fn tool(&self, directory: &str, schema: &Value) -> &Self {
        self.file(
            &format!("{directory}/schema.json"),
            serde_json::to_vec_pretty(schema).unwrap(),
        )
        .file(&format!("{directory}/guide.md"), GUIDE)
        .file(&format!("{directory}/handler.js"), HANDLER)
    }

    /// Has the program bring a tool's handler, which reads whatever it is given.
    pub(crate) fn build_in(&mut self, id: &str) {
        self.builtin.insert(ToolId::parse(id).unwrap(), None);
    }

    pub(crate) fn compile_at(&self, build_timestamp: &str) -> Compilation {
        let compilation = compile(&Source {
            tools: &self.tools(),
            artifact: &self.artifact(),
            builtin: &self.builtin,
            build_timestamp,
            vocabularies: &self.vocabularies,
            permissions: &self.permissions,
            values: &self.values,
            judge: self.judge.as_ref().map(|judge| judge as &dyn ScriptJudge),
        });
        accepted_by_editors(&self.tools(), &compilation.problems);
        compilation
    }

    pub(crate) fn compile(&self) -> Compilation {
        self.compile_at("2026-11-20T12:00:00Z")
    }

    /// The problems, one per line, as people see them but without the temporary folder's name. Notes are left out.
    pub(crate) fn problems(&self) -> String {
        let compilation = self.compile();
        let lines: Vec<String> = compilation
            .problems
            .iter()
            .filter(|problem| problem.severity != Severity::Note)
            .map(|problem| {
                problem
                    .to_string()
                    .replace(&self.root.path().display().to_string(), "")
                    .trim_start_matches('/')
                    .to_owned()
            })
            .collect();
        let errors = compilation.count(Severity::Error);
        assert_eq!(compilation.artifact.is_none(), errors > 0, "{lines:?}");
        lines.join("\n")
    }
}

/// Whatever the compiler finds no error in, the schemas that editors are given accept.
pub(crate) fn accepted_by_editors(tools: &Path, problems: &[Problem]) {
    let directories = std::fs::read_dir(tools).into_iter().flatten().flatten();
    for directory in directories {
        for (name, schema) in [
            ("schema.json", published::TOOL),
            ("handler.json", published::HANDLER),
        ] {
            let file = directory.path().join(name);
            let shown = file.display().to_string();
            let tool = directory.file_name().to_string_lossy().into_owned();
            // What a handler is judged by is its tool; and nothing of a directory is read that is no tool's.
            let is_wrong = |problem: &Problem| {
                problem.severity == Severity::Error
                    && (problem.file == shown
                        || problem.file == directory.path().display().to_string()
                        || (name == "handler.json" && problem.tool.as_deref() == Some(&tool)))
            };
            let is_skipped = tool.starts_with(['.', '_']);
            let Ok(text) = std::fs::read(&file) else {
                continue;
            };
            if is_skipped || problems.iter().any(is_wrong) {
                continue;
            }
            // A file that nobody read, because something else is wrong with its directory, may hold anything.
            let Ok(value) = windlass_contract::json::parse(&text) else {
                continue;
            };
            let schema = serde_json::from_str(schema).unwrap();
            let schema = Validator::compile(&schema).unwrap();
            let violations = schema.violations(&value);
            assert!(
                violations.is_empty(),
                "{shown} is taken, and its schema refuses it: {violations:?}"
            );
        }
    }
}

/// A manifest that is right in every way.
pub(crate) fn manifest(tool_id: &str) -> Value {
    json!({
        "toolId": tool_id,
        "version": "1.0.0",
        "description": "Does one thing well.",
        "category": "utility",
        "sideEffects": "none",
        "idempotent": true,
        "requiresConfirmation": false,
        "allowedModes": ["text", "voice"],
        "latencyBudgetMs": 800,
        "parameters": {
            "type": "object",
            "additionalProperties": false,
            "required": ["title"],
            "properties": {
                "title": {"type": "string", "maxLength": 100},
                "attendees": {"type": "array", "items": {"type": "string", "format": "email"}},
            },
        },
    })
}

/// The same with fields replaced; `null` removes one. Names are JSON pointers.
pub(crate) fn manifest_with(changes: Value) -> Value {
    let mut manifest = manifest("some_tool");
    for (pointer, value) in changes.as_object().unwrap() {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let parent = manifest
            .pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap();
        if value.is_null() {
            parent.remove(name);
        } else {
            parent.insert(name.to_owned(), value.clone());
        }
    }
    manifest
}
