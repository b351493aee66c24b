//! The files of a new project and of a new tool, as texts: each tool runs as it is written. Writes nothing itself.

use crate::adapters;
use serde_json::{Map, Value, json};
use windlass_compile::handler_file::arguments_of_address;
use windlass_runtime::prompt::Texts;

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

/// The language of a tool's handler.
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
const BUILT_IN: [(&str, &str, &str); 4] = [
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

/// The tools of the calendar.
const CALENDAR: [(&str, &str, &str); 5] = [
    (
        "calendar-get-availability",
        include_str!("../../../../tools/_optional/calendar-get-availability/schema.json"),
        include_str!("../../../../tools/_optional/calendar-get-availability/guide.md"),
    ),
    (
        "calendar-list-events",
        include_str!("../../../../tools/_optional/calendar-list-events/schema.json"),
        include_str!("../../../../tools/_optional/calendar-list-events/guide.md"),
    ),
    (
        "calendar-create-event",
        include_str!("../../../../tools/_optional/calendar-create-event/schema.json"),
        include_str!("../../../../tools/_optional/calendar-create-event/guide.md"),
    ),
    (
        "calendar-move-event",
        include_str!("../../../../tools/_optional/calendar-move-event/schema.json"),
        include_str!("../../../../tools/_optional/calendar-move-event/guide.md"),
    ),
    (
        "calendar-cancel-event",
        include_str!("../../../../tools/_optional/calendar-cancel-event/schema.json"),
        include_str!("../../../../tools/_optional/calendar-cancel-event/guide.md"),
    ),
];

/// The tools about work that goes on by itself.
const TASKS: [(&str, &str, &str); 3] = [
    (
        "cancel-task",
        include_str!("../../../../tools/_optional/cancel-task/schema.json"),
        include_str!("../../../../tools/_optional/cancel-task/guide.md"),
    ),
    (
        "get-task",
        include_str!("../../../../tools/_optional/get-task/schema.json"),
        include_str!("../../../../tools/_optional/get-task/guide.md"),
    ),
    (
        "list-tasks",
        include_str!("../../../../tools/_optional/list-tasks/schema.json"),
        include_str!("../../../../tools/_optional/list-tasks/guide.md"),
    ),
];

/// The tools of pictures.
const IMAGES: [(&str, &str, &str); 3] = [
    (
        "image-draft-prompt",
        include_str!("../../../../tools/_optional/image-draft-prompt/schema.json"),
        include_str!("../../../../tools/_optional/image-draft-prompt/guide.md"),
    ),
    (
        "image-generate",
        include_str!("../../../../tools/_optional/image-generate/schema.json"),
        include_str!("../../../../tools/_optional/image-generate/guide.md"),
    ),
    (
        "send-image",
        include_str!("../../../../tools/_optional/send-image/schema.json"),
        include_str!("../../../../tools/_optional/send-image/guide.md"),
    ),
];

/// Built-in tools that a project has where it asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extra {
    Calendar,
    Contacts,
    Images,
    Ranking,
    Blocks,
    Context,
    Memory,
    Escalate,
    Search,
    Tasks,
}

impl Extra {
    pub(crate) const ALL: [Self; 10] = [
        Self::Calendar,
        Self::Contacts,
        Self::Images,
        Self::Ranking,
        Self::Blocks,
        Self::Context,
        Self::Memory,
        Self::Escalate,
        Self::Search,
        Self::Tasks,
    ];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Calendar => "calendar",
            Self::Contacts => "contacts",
            Self::Images => "images",
            Self::Ranking => "ranking",
            Self::Blocks => "blocks",
            Self::Context => "context",
            Self::Memory => "memory",
            Self::Escalate => "escalate",
            Self::Search => "search",
            Self::Tasks => "tasks",
        }
    }

    /// The purpose of its tools, as the command line's help says it.
    pub(crate) fn purpose(self) -> &'static str {
        match self {
            Self::Calendar => "Free times, events; made, moved and cancelled after the user's yes",
            Self::Contacts => "Find telephone numbers and addresses in a text",
            Self::Images => "Draft prompts, make pictures and show them",
            Self::Ranking => "Put lists in order by what counts",
            Self::Blocks => "Block abusive users for a time",
            Self::Context => "Say dates in the user's zone, and what is known of the user",
            Self::Memory => "Look up what earlier calls of the conversation brought back",
            Self::Escalate => "Hand a conversation over to a person",
            Self::Search => "Search the web by a service with a key",
            Self::Tasks => "Tell of work in the background, and stop it",
        }
    }

    /// The requirements for it.
    pub(crate) fn needs(self) -> &'static str {
        match self {
            Self::Calendar => "nothing (Google Calendar, Zoom and Meet: credentials)",
            Self::Images => "nothing (pictures by Gemini or OpenAI: a key)",
            Self::Escalate => "nothing (to tell people at once: a webhook)",
            Self::Search => "a key of Brave, Tavily or a model that searches",
            Self::Contacts
            | Self::Ranking
            | Self::Blocks
            | Self::Context
            | Self::Memory
            | Self::Tasks => "nothing",
        }
    }

    /// The group that has this tool.
    pub(crate) fn of_tool(id: &str) -> Option<Self> {
        let directory = id.replace('_', "-");
        let has = |extra: &Self| extra.tools().iter().any(|(name, _, _)| *name == directory);
        Self::ALL.into_iter().find(has)
    }

    pub(crate) fn schemas(self) -> impl Iterator<Item = &'static str> {
        self.tools().iter().map(|(_, schema, _)| *schema)
    }

    /// The files of its tools, within a folder of tools.
    pub(crate) fn files(self) -> Vec<File> {
        let tools = self.tools().iter();
        let files = tools.flat_map(|(name, schema, guide)| {
            [
                File::new(format!("{name}/schema.json"), *schema),
                File::new(format!("{name}/guide.md"), *guide),
            ]
        });
        files.collect()
    }

    /// Directory, schema and guide of each.
    fn tools(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Calendar => &CALENDAR,
            Self::Contacts => &[(
                "extract-contacts",
                include_str!("../../../../tools/_optional/extract-contacts/schema.json"),
                include_str!("../../../../tools/_optional/extract-contacts/guide.md"),
            )],
            Self::Images => &IMAGES,
            Self::Search => &[(
                "web-search",
                include_str!("../../../../tools/_optional/web-search/schema.json"),
                include_str!("../../../../tools/_optional/web-search/guide.md"),
            )],
            Self::Ranking => &[(
                "rank-results",
                include_str!("../../../../tools/_optional/rank-results/schema.json"),
                include_str!("../../../../tools/_optional/rank-results/guide.md"),
            )],
            Self::Blocks => &[(
                "ignore-user",
                include_str!("../../../../tools/ignore-user/schema.json"),
                include_str!("../../../../tools/ignore-user/guide.md"),
            )],
            Self::Context => &[
                (
                    "get-context",
                    include_str!("../../../../tools/_optional/get-context/schema.json"),
                    include_str!("../../../../tools/_optional/get-context/guide.md"),
                ),
                (
                    "format-datetime",
                    include_str!("../../../../tools/_optional/format-datetime/schema.json"),
                    include_str!("../../../../tools/_optional/format-datetime/guide.md"),
                ),
            ],
            Self::Memory => &[(
                "query-tool-memory",
                include_str!("../../../../tools/_optional/query-tool-memory/schema.json"),
                include_str!("../../../../tools/_optional/query-tool-memory/guide.md"),
            )],
            Self::Escalate => &[(
                "escalate",
                include_str!("../../../../tools/_optional/escalate/schema.json"),
                include_str!("../../../../tools/_optional/escalate/guide.md"),
            )],
            Self::Tasks => &TASKS,
        }
    }

    /// Its part of the configuration.
    pub(crate) fn configuration(self) -> &'static str {
        match self {
            Self::Calendar => include_str!("templates/calendar.toml"),
            Self::Escalate => include_str!("templates/escalation.toml"),
            Self::Images => include_str!("templates/images.toml"),
            Self::Search => include_str!("templates/search.toml"),
            Self::Contacts
            | Self::Ranking
            | Self::Blocks
            | Self::Context
            | Self::Memory
            | Self::Tasks => "",
        }
    }
}

/// The id of the tool that a new project has of its own.
const FIRST_TOOL: &str = "say_hello";

/// The schema and the guide of a built-in tool, by its directory's name.
pub(crate) fn built_in(name: &str) -> Option<[(&'static str, &'static str); 2]> {
    let extras = Extra::ALL.into_iter().flat_map(Extra::tools).copied();
    let (_, schema, guide) = BUILT_IN
        .into_iter()
        .chain(extras)
        .find(|(known, _, _)| *known == name)?;
    Some([("schema.json", schema), ("guide.md", guide)])
}

/// The files of a directory of tools as a new project has them, by their names, of a built-in tool or the first one; none of others.
pub(crate) fn beginning(name: &str) -> Vec<(String, String)> {
    if let Some(files) = built_in(name) {
        return files
            .map(|(file, text)| (file.to_owned(), text.to_owned()))
            .into();
    }
    let first = new_tool(&Draft {
        id: FIRST_TOOL,
        language: &Language::JavaScript,
        writes: false,
    });
    first
        .into_iter()
        .filter_map(|file| {
            let (directory, path) = file.path.split_once('/')?;
            (directory == name).then(|| (path.to_owned(), file.text))
        })
        .collect()
}

/// The properties of a new project.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The name in the prompts.
    pub(crate) name: String,
    pub(crate) language: Language,
    /// The folder of tools. One of another program's keeps its own.
    pub(crate) tools: &'static str,
    /// The directories of tools that an import writes in place of this.
    pub(crate) without: Vec<String>,
    /// The extras besides the tools of every project.
    pub(crate) with: Vec<Extra>,
}

/// The usual folder of tools.
pub(crate) const TOOLS: &str = "tools";
/// The folder of tools where another program has one of the usual name.
pub(crate) const OTHER_TOOLS: &str = "agent-tools";

/// A project that serves and chats at once.
pub(crate) fn new_project(plan: &Plan) -> Vec<File> {
    let Plan {
        language, tools, ..
    } = plan;
    let texts = Texts::of_project(&plan.name);
    let mut files = vec![
        File::new("windlass.toml", configuration(plan)),
        File::new(
            ".gitignore",
            "/data\n/target\nnode_modules\n.venv\n__pycache__\n",
        ),
        File::new("README.md", include_str!("templates/README.md")),
        File::new("types.d.ts", windlass_script::TYPES),
        File::new("prompts/core.md", texts.core),
        File::new("prompts/text.md", texts.text),
        File::new("prompts/voice.md", texts.voice),
        File::new(
            "kb/public/doc/welcome.md",
            include_str!("templates/welcome.md"),
        ),
    ];
    let extras = plan.with.iter().flat_map(|extra| extra.tools());
    let built_in = BUILT_IN.into_iter().chain(extras.copied());
    let is_wanted = |name: &str| !plan.without.iter().any(|other| other == name);
    for (name, schema, guide) in built_in.filter(|(name, _, _)| is_wanted(name)) {
        files.push(File::new(format!("{tools}/{name}/schema.json"), schema));
        files.push(File::new(format!("{tools}/{name}/guide.md"), guide));
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
    let first = Draft {
        id: FIRST_TOOL,
        language,
        writes: false,
    };
    let first = new_tool(&first);
    for file in first.into_iter().filter(|_| is_wanted("say-hello")) {
        files.push(File::new(format!("{tools}/{}", file.path), file.text));
    }
    files
}

fn configuration(plan: &Plan) -> String {
    let folders = match plan.tools {
        TOOLS => String::new(),
        tools => format!(
            "\n[folders]\n# The folder `{TOOLS}` is the Node project's own.\ntools = \"{tools}\"\n"
        ),
    };
    let processes = match plan.language.needs_process() {
        true => {
            "\n[handlers]\n# Tools with a handler.json of kind process run as programs of their own.\nprocesses = true\n"
        }
        false => "",
    };
    let extras: String = plan
        .with
        .iter()
        .map(|extra| extra.configuration())
        .collect();
    format!(
        "{}{folders}{processes}{extras}",
        include_str!("templates/windlass.toml")
    )
}

/// The properties of a new tool.
pub(crate) struct Draft<'a> {
    pub(crate) id: &'a str,
    pub(crate) language: &'a Language,
    /// Whether it changes something.
    pub(crate) writes: bool,
}

/// The argument of a tool whose address names none.
const USUAL_ARGUMENT: &str = "query";
/// The value of an argument in examples, and the one in those of the first tool.
const EXAMPLE: &str = "A-1001";
const FIRST_EXAMPLE: &str = "Ada";

fn example(draft: &Draft<'_>) -> &'static str {
    match draft.id {
        FIRST_TOOL => FIRST_EXAMPLE,
        _ => EXAMPLE,
    }
}

/// The names of its arguments: the places of its address, else one.
fn arguments(draft: &Draft<'_>) -> Vec<String> {
    let named = match draft.language {
        Language::Http { url } => arguments_of_address(url),
        _ => Vec::new(),
    };
    match named.is_empty() {
        true => vec![USUAL_ARGUMENT.to_owned()],
        false => named,
    }
}

/// Arguments for a first call, as people write JSON.
pub(crate) fn example_arguments(draft: &Draft<'_>) -> String {
    let (names, value) = (arguments(draft), example(draft));
    let members: Vec<String> = names
        .iter()
        .map(|name| format!("\"{name}\": \"{value}\""))
        .collect();
    format!("{{{}}}", members.join(", "))
}

/// A tool's directory. Its code answers each call with the call's arguments, until the author writes more.
pub(crate) fn new_tool(draft: &Draft<'_>) -> Vec<File> {
    let Draft {
        id,
        language,
        writes,
    } = *draft;
    let folder = id.replace('_', "-");
    let file = |name: &str, text: String| File::new(format!("{folder}/{name}"), text);
    let mut files = vec![
        file("schema.json", pretty(&schema(draft))),
        file("guide.md", guide(draft)),
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
            let mut handler = json!({
                "kind": "http",
                "method": if writes { "POST" } else { "GET" },
                "url": url,
            });
            // Each argument is sent once: where the address has a place for it, there.
            if arguments_of_address(url).is_empty() {
                let place = if writes { "body" } else { "query" };
                handler[place] = json!({ USUAL_ARGUMENT: format!("{{{USUAL_ARGUMENT}}}") });
            }
            files.push(file("handler.json", pretty(&handler)));
        }
    }
    files
}

/// The fields that every tool has to have. `windlass check` prints the defaults of the rest.
fn schema(draft: &Draft<'_>) -> Value {
    let is_remote = matches!(draft.language, Language::Http { .. });
    let names = arguments(draft);
    let properties: Map<String, Value> = names
        .iter()
        .map(|name| {
            let description = match name.as_str() {
                USUAL_ARGUMENT if draft.writes => "What is to be changed".to_owned(),
                USUAL_ARGUMENT => "What the user wants to know".to_owned(),
                name => format!("Say here what {name} is"),
            };
            let schema = json!({
                "type": "string",
                "description": description,
                "minLength": 1,
                "maxLength": 500,
            });
            (name.clone(), schema)
        })
        .collect();
    let side_effects = match (draft.writes, is_remote) {
        (true, _) => "writes",
        (false, true) => "read_only",
        (false, false) => "none",
    };
    let mut schema = json!({
        "description": format!("Say here what {} does; the model reads it with every request.", draft.id),
        "sideEffects": side_effects,
        "parameters": {
            "type": "object",
            "additionalProperties": false,
            "required": names,
            "properties": properties,
        },
    });
    if draft.writes {
        // The text that the user reads before approving.
        let places: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
        let preview = format!("{}: {}", draft.id.replace('_', " "), places.join(", "));
        schema["confirmation"] = json!({ "preview": preview });
    }
    if is_remote {
        // External text: its content is data and no order.
        schema["reach"] = "external".into();
    }
    schema
}

fn guide(draft: &Draft<'_>) -> String {
    let (id, example) = (draft.id, example_arguments(draft));
    let example = example.replacen('{', "{ ", 1);
    let example = example.trim_end_matches('}');
    let asked = match draft.id {
        FIRST_TOOL => format!("Say hello to {FIRST_EXAMPLE}."),
        _ if draft.writes => format!("Change {EXAMPLE}."),
        _ => format!("What about {EXAMPLE}?"),
    };
    format!(
        "# {id}\n\nSay here in one sentence when to use it.\n\n## Examples\n\n**\"{asked}\"**\n\n```json\n{example} }}\n```\n"
    )
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}
