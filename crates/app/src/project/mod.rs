//! The files of a new project and of a new tool, as texts: each tool runs as it is written. Writes nothing itself.

use crate::adapters;
use serde_json::{Value, json};

/// A file that is to be written, with `/` between folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }
}

/// What a tool's handler is written in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// In the engine that comes with the program.
    JavaScript,
    /// In the same engine, without its types.
    TypeScript,
    /// In a process of its own, with npm's packages.
    Node,
    /// In a process of its own, with packages of PyPI.
    Python,
    /// Built into a program of the project's own. `lock` has the versions that its libraries were tested with.
    Rust { sources: String, lock: String },
    /// No code: a request to this address.
    Http { url: String },
}

impl Language {
    /// Whether the configuration has to allow processes for it.
    pub(crate) fn needs_process(&self) -> bool {
        matches!(self, Self::Node | Self::Python)
    }
}

/// The tools that every project begins with: those of the knowledge base, and those that begin and end a voice session.
const BUILT_IN: [(&str, &str, &str); 5] = [
    (
        "kb-search",
        include_str!("../../../../tools/kb-search/schema.json"),
        include_str!("../../../../tools/kb-search/guide.md"),
    ),
    (
        "kb-get",
        include_str!("../../../../tools/kb-get/schema.json"),
        include_str!("../../../../tools/kb-get/guide.md"),
    ),
    (
        "ignore-user",
        include_str!("../../../../tools/ignore-user/schema.json"),
        include_str!("../../../../tools/ignore-user/guide.md"),
    ),
    (
        "start-voice-session",
        include_str!("../../../../tools/start-voice-session/schema.json"),
        include_str!("../../../../tools/start-voice-session/guide.md"),
    ),
    (
        "end-voice-session",
        include_str!("../../../../tools/end-voice-session/schema.json"),
        include_str!("../../../../tools/end-voice-session/guide.md"),
    ),
];

/// The id of the tool that a new project has of its own.
const FIRST_TOOL: &str = "say_hello";

/// A project that serves and chats at once.
pub(crate) fn new_project(language: &Language) -> Vec<File> {
    let mut files = vec![
        File::new("windlass.toml", configuration(language)),
        File::new(
            ".gitignore",
            "/data\n/target\nnode_modules\n.venv\n__pycache__\n",
        ),
        File::new("README.md", include_str!("templates/README.md")),
        File::new("types.d.ts", windlass_script::TYPES),
        File::new(
            "kb/public/doc/welcome.md",
            include_str!("templates/welcome.md"),
        ),
    ];
    for (name, schema, guide) in BUILT_IN {
        files.push(File::new(format!("tools/{name}/schema.json"), schema));
        files.push(File::new(format!("tools/{name}/guide.md"), guide));
    }
    if let Language::Rust { sources, lock } = language {
        let manifest = include_str!("templates/rust/Cargo.toml.txt");
        let sources = sources.replace('\\', "/");
        files.push(File::new(
            "Cargo.toml",
            manifest.replace("SOURCES", &sources),
        ));
        files.push(File::new("Cargo.lock", lock.as_str()));
        files.push(File::new(
            "src/main.rs",
            include_str!("templates/rust/main.rs"),
        ));
        files.push(File::new(
            "src/say_hello.rs",
            include_str!("templates/rust/say_hello.rs"),
        ));
    }
    for file in new_tool(FIRST_TOOL, language) {
        files.push(File::new(format!("tools/{}", file.path), file.text));
    }
    files
}

fn configuration(language: &Language) -> String {
    let processes = match language.needs_process() {
        true => {
            "\n[handlers]\n# Tools with a handler.json of kind process run as programs of their own.\nprocesses = true\n"
        }
        false => "",
    };
    format!("{}{processes}", include_str!("templates/windlass.toml"))
}

/// A tool's directory. Its code answers each call with what it was asked, until somebody writes more.
pub(crate) fn new_tool(id: &str, language: &Language) -> Vec<File> {
    let folder = id.replace('_', "-");
    let file = |name: &str, text: String| File::new(format!("{folder}/{name}"), text);
    let mut files = vec![
        file("schema.json", pretty(&schema(id, language))),
        file("guide.md", guide(id)),
    ];
    let template = |text: &str| text.replace("TOOL", id);
    match language {
        Language::JavaScript => {
            files.push(file(
                "handler.js",
                template(include_str!("templates/handler.js")),
            ));
        }
        Language::TypeScript => {
            files.push(file(
                "handler.ts",
                template(include_str!("templates/handler.ts")),
            ));
        }
        Language::Node => {
            let handler = json!({ "kind": "process", "command": ["node", "windlass.mjs"] });
            files.push(file("handler.json", pretty(&handler)));
            files.push(file(
                "handler.mjs",
                template(include_str!("templates/handler.mjs")),
            ));
            files.push(file("windlass.mjs", adapters::NODE.to_owned()));
        }
        Language::Python => {
            let handler = json!({ "kind": "process", "command": ["python3", "windlass.py"] });
            files.push(file("handler.json", pretty(&handler)));
            files.push(file(
                "handler.py",
                template(include_str!("templates/handler.py")),
            ));
            files.push(file("windlass.py", adapters::PYTHON.to_owned()));
        }
        // Its code is not in its directory.
        Language::Rust { .. } => {}
        Language::Http { url } => {
            let handler = json!({
                "kind": "http",
                "method": "GET",
                "url": url,
                "query": { "query": "{query}" },
            });
            files.push(file("handler.json", pretty(&handler)));
        }
    }
    files
}

fn schema(id: &str, language: &Language) -> Value {
    let is_remote = matches!(language, Language::Http { .. });
    let mut schema = json!({
        "toolId": id,
        "version": "1.0.0",
        "description": format!("Say here what {id} does; the model reads it with every request."),
        "category": "utility",
        "sideEffects": if is_remote { "read_only" } else { "none" },
        "idempotent": true,
        "requiresConfirmation": false,
        "allowedModes": ["text", "voice"],
        "latencyBudgetMs": if is_remote { 1_500 } else { 300 },
        "parameters": {
            "type": "object",
            "additionalProperties": false,
            "required": ["query"],
            "properties": {
                "query": {
                    "type": "string",
                    "description": "What the user wants to know",
                    "minLength": 1,
                    "maxLength": 500,
                },
            },
        },
    });
    if is_remote {
        // Text that others wrote: what it says is data and no order.
        schema["reach"] = "external".into();
    }
    schema
}

fn guide(id: &str) -> String {
    format!(
        "# {id}\n\nSay here in one sentence when to use it.\n\n## Examples\n\n**\"What about A-1001?\"**\n\n```json\n{{ \"query\": \"A-1001\" }}\n```\n"
    )
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}
