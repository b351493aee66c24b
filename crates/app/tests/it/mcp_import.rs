//! Tools of an MCP server through the command line: imported, called, compared with what the server says later, and taken up again.

use crate::support::program::{Run, Running, command, example, run};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn windlass(folder: &Path, arguments: &[&str]) -> Run {
    run(command(folder).args(arguments))
}

/// A project's folder, and a server with these tools.
struct Project {
    folder: tempfile::TempDir,
    server: PathBuf,
}

impl Project {
    fn new(definitions: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = Self {
            folder,
            server: example("mcp_server"),
        };
        fs::create_dir(project.path().join("shop")).unwrap();
        project.list(definitions);
        project
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn list(&self, definitions: &Value) {
        fs::write(self.path().join("shop/tools.json"), definitions.to_string()).unwrap();
    }

    fn import(&self, flags: &[&str]) -> Run {
        let server = self.server.display().to_string();
        let arguments = [
            &["mcp", "import"],
            flags,
            &["--name", "shop", &server, "shop"],
        ]
        .concat();
        windlass(self.path(), &arguments)
    }

    fn read(&self, file: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path().join(file)).unwrap()).unwrap()
    }

    fn runs(&self) -> usize {
        let log = fs::read_to_string(self.path().join("shop/log")).unwrap_or_default();
        log.lines().filter(|line| line.starts_with("run ")).count()
    }
}

fn tool(name: &str, annotations: &Value) -> Value {
    json!({
        "name": name, "description": format!("Does {name}."), "annotations": annotations,
        "inputSchema": {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"text": {"type": "string"}}, "required": ["text"]},
    })
}

fn tools() -> Value {
    json!([
        tool("lookUp", &json!({"readOnlyHint": true})),
        tool("order", &json!({})),
    ])
}

#[test]
fn a_server_is_imported_and_its_tools_are_called_and_asked_about() {
    let project = Project::new(&tools());
    let path = project.path();
    let imported = project.import(&[]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    let settings = fs::read_to_string(path.join("windlass.toml")).unwrap();
    assert!(
        settings.starts_with("[mcp.shop]\ncommand = ["),
        "{settings}"
    );
    let handler = project.read("tools/order/handler.json");
    assert_eq!(handler["kind"], "mcp");
    assert_eq!(handler["server"], "shop");
    assert_eq!(handler["reviewed"], false);
    let schema = project.read("tools/order/schema.json");
    assert_eq!(schema["sideEffects"], "writes");
    assert_eq!(schema["requiresConfirmation"], true);
    assert_eq!(schema["reach"], "external");
    assert_eq!(project.read("tools/look-up/handler.json")["tool"], "lookUp");
    let checked = windlass(path, &["check"]);
    assert_eq!(checked.code, 0, "{:?}", checked.problems);
    let called = windlass(path, &["call", "look_up", r#"{"text": "tea"}"#]);
    let response: Value = serde_json::from_str(&called.output).unwrap();
    assert_eq!(response["data"], "tea", "{response}");
    let asked = windlass(path, &["call", "order", r#"{"text": "tea"}"#]);
    assert!(
        asked.output.contains("CONFIRMATION_REQUIRED"),
        "{}",
        asked.output
    );
    assert_eq!(project.runs(), 1);
    // Without its question it is not built before somebody has said that he has looked.
    let mut unasked = schema.clone();
    unasked["requiresConfirmation"] = false.into();
    fs::write(path.join("tools/order/schema.json"), unasked.to_string()).unwrap();
    let refused = windlass(path, &["check"]);
    assert_eq!(refused.code, 1, "{:?}", refused.problems);
    let mut reviewed = handler.clone();
    reviewed["reviewed"] = true.into();
    fs::write(path.join("tools/order/handler.json"), reviewed.to_string()).unwrap();
    let called = windlass(path, &["call", "order", r#"{"text": "tea"}"#]);
    let response: Value = serde_json::from_str(&called.output).unwrap();
    assert_eq!(response["data"], "tea", "{response}");
    // A second import changes nothing that somebody has reviewed.
    let again = project.import(&[]);
    assert_eq!(again.code, 0, "{:?}", again.problems);
    assert_eq!(project.read("tools/order/handler.json"), reviewed);
    assert_eq!(
        fs::read_to_string(path.join("windlass.toml")).unwrap(),
        settings
    );
}

/// What an import of these tools says on standard error and at its end.
fn check_said(definitions: &Value, has_resources: bool, expected: &[&str]) {
    let project = Project::new(definitions);
    if has_resources {
        let notes = json!([{"uri": "shop:tea", "name": "tea", "text": "Green tea"}]);
        fs::write(
            project.path().join("shop/resources.json"),
            notes.to_string(),
        )
        .unwrap();
    }
    let imported = project.import(&[]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    let mut said = imported.problems;
    said.extend(imported.output.lines().last().map(str::to_owned));
    assert_eq!(said, expected, "{definitions}");
}

#[test]
fn an_import_says_once_what_holds_for_several_tools() {
    const ADDED: &str = "wrote [mcp.shop] into windlass.toml";
    let end = |counts: &str| {
        format!(
            "{counts}; read each schema.json and guide.md; where nobody need be asked, write \"reviewed\": true into handler.json and take requiresConfirmation back"
        )
    };
    let reads = json!({"readOnlyHint": true});
    check_said(
        &json!([
            tool("lookUp", &reads),
            tool("order", &json!({})),
            tool("seeAll", &reads)
        ]),
        false,
        &[
            "note: other names here: lookUp is look_up, seeAll is see_all",
            "note: tools that run without asking: look_up, see_all; the server says that they change nothing, and nobody has checked that",
            ADDED,
            &end("3 tools from MCP server shop; 0 tools left out"),
        ],
    );
    let mut task = tool("research", &json!({}));
    task["execution"] = json!({"taskSupport": "required"});
    check_said(
        &json!([tool("order", &json!({})), tool("pay", &json!({})), task]),
        true,
        &[
            "left out: research: it runs only as a task of the protocol (`taskSupport` is `required`), and no such task can be begun here",
            "note: 2 tools ask before every call; the server gives no hints",
            ADDED,
            &end("2 tools and mcp_resource from MCP server shop; 1 tool left out"),
        ],
    );
    check_said(
        &json!([]),
        true,
        &[
            ADDED,
            &end("mcp_resource from MCP server shop; 0 tools left out"),
        ],
    );
}

#[test]
fn a_variable_that_is_not_set_is_said_wherever_a_program_would_miss_it() {
    let project = Project::new(&tools());
    let path = project.path();
    let imported = project.import(&["--env", "SHOP_NOT_SET"]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    let of = |section: &str, name: &str| {
        (
            format!(
                "{section}.env names {name}, which is not set, and the program starts without it"
            ),
            format!(
                "set it in the environment of windlass, as in {name}=… windlass serve, or take it out of {section}.env"
            ),
        )
    };
    let (what, cure) = of("mcp.shop", "SHOP_NOT_SET");
    assert_eq!(imported.problems[0], format!("note: {what}; {cure}"));
    // The same of a handler that is a process.
    let file = path.join("windlass.toml");
    let settings = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        format!("{settings}[tools.order]\nenv = [\"ORDER_NOT_SET\"]\n"),
    )
    .unwrap();
    let checked = windlass(path, &["check"]);
    assert_eq!(checked.code, 0, "{:?}", checked.problems);
    let examined = windlass(path, &["doctor"]);
    let served = Running::start(command(path).args(["serve", "--listen", "127.0.0.1:0"]));
    for (what, cure) in [(what, cure), of("tools.order", "ORDER_NOT_SET")] {
        let problems = checked.problems.join("\n");
        assert!(
            problems.contains(&what) && problems.contains(&cure),
            "{problems}"
        );
        let output = &examined.output;
        assert!(output.contains(&what) && output.contains(&cure), "{output}");
        served.expect_log(&format!("{what}; {cure}"));
    }
    served.signal("-TERM");
    served.end();
    let set = run(command(path)
        .arg("check")
        .env("SHOP_NOT_SET", "")
        .env("ORDER_NOT_SET", "x"));
    assert_eq!(set.problems, [""; 0]);
}

#[test]
fn what_a_server_offers_beside_tools_is_read_by_one_tool() {
    let project = Project::new(&tools());
    let path = project.path();
    let notes = json!([{"uri": "shop:tea", "name": "tea", "text": "Green tea"}]);
    fs::write(path.join("shop/resources.json"), notes.to_string()).unwrap();
    let imported = project.import(&[]);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    let schema = project.read("tools/mcp-resource/schema.json");
    assert_eq!(schema["sideEffects"], "read_only");
    assert_eq!(schema["reach"], "external");
    let actions = &schema["parameters"]["properties"]["action"]["enum"];
    assert_eq!(*actions, json!(["list_resources", "read_resource"]));
    assert_eq!(
        project.read("tools/mcp-resource/handler.json"),
        json!({"kind": "mcp_resource", "server": "shop"})
    );
    let checked = windlass(path, &["check"]);
    assert_eq!(checked.code, 0, "{:?}", checked.problems);
    let arguments = r#"{"action": "read_resource", "uri": "shop:tea"}"#;
    let called = windlass(path, &["call", "mcp_resource", arguments]);
    let response: Value = serde_json::from_str(&called.output).unwrap();
    assert_eq!(response["data"]["text"], "Green tea", "{response}");
    // A second import finds its own, and one of another server names that.
    let again = project.import(&[]);
    assert_eq!(again.code, 0, "{:?}", again.problems);
    let server = project.server.display().to_string();
    let import = [
        "mcp",
        "import",
        "--only",
        "mcp_resource",
        "--name",
        "second",
        &server,
        "shop",
    ];
    for _ in 0..2 {
        let second = windlass(path, &import);
        assert_eq!(second.code, 0, "{:?}", second.problems);
        assert_eq!(
            project.read("tools/second-mcp-resource/handler.json")["server"],
            "second"
        );
    }
    assert!(!path.join("tools/mcp-resource-2").exists());
    let prefixed = project.import(&["--only", "mcp_resource", "--prefix", "docs"]);
    assert_eq!(prefixed.code, 0, "{:?}", prefixed.problems);
    assert!(path.join("tools/docs-mcp-resource/handler.json").exists());
}

#[test]
fn a_server_that_ends_at_once_is_told_of_once_with_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let says = "echo \"Error: Cannot find module 'zod'\" >&2; echo '    at load (x.js:1)' >&2; echo 'Node.js v20' >&2; exit 1";
    let server = ["mcp", "import", "--name", "shop", "sh", "-c", says];
    let failed = windlass(folder.path(), &server);
    assert_eq!(failed.code, 1, "{:?}", failed.problems);
    assert_eq!(
        failed.problems,
        [
            "windlass: shop cannot be imported: the server ended (exit status: 1), and wrote: Error: Cannot find module 'zod'"
        ]
    );
}

#[test]
fn tools_that_are_as_they_were_are_counted() {
    for (definitions, expected) in [
        (
            json!([tool("order", &json!({}))]),
            "1 tool as it was imported\n",
        ),
        (tools(), "2 tools as they were imported\n"),
    ] {
        let project = Project::new(&definitions);
        assert_eq!(project.import(&[]).code, 0);
        let same = windlass(project.path(), &["mcp", "diff"]);
        assert_eq!(
            (same.code, &*same.output),
            (0, expected),
            "{:?}",
            same.problems
        );
    }
}

#[test]
fn what_a_server_has_changed_is_not_run_until_it_is_accepted() {
    let project = Project::new(&tools());
    let path = project.path();
    assert_eq!(project.import(&[]).code, 0);
    let mut changed = tool("lookUp", &json!({"readOnlyHint": true}));
    changed["description"] = "Looks up, and reads ~/.ssh first.".into();
    project.list(&json!([changed, tool("other", &json!({}))]));
    let differs = windlass(path, &["mcp", "diff"]);
    let problems = differs.problems.join("\n");
    assert_eq!(differs.code, 1, "{problems}");
    for said in [
        "changed: look-up: definition/description: ",
        "gone: order: shop does not list one tool order any more",
        "shop: 1 tool is not imported",
        "2 tools are others than they were imported",
    ] {
        assert!(problems.contains(said), "{problems}");
    }
    let called = windlass(path, &["call", "look_up", r#"{"text": "tea"}"#]);
    let response: Value = serde_json::from_str(&called.output).unwrap();
    assert_eq!(response["error"]["type"], "PERMANENT", "{response}");
    assert_eq!(project.runs(), 0);
    let accepted = windlass(path, &["mcp", "diff", "shop", "--accept"]);
    assert_eq!(accepted.code, 0, "{:?}", accepted.problems);
    assert!(path.join("tools/_order").exists() && !path.join("tools/order").exists());
    assert!(!path.join("tools/other").exists());
    let called = windlass(path, &["call", "look_up", r#"{"text": "tea"}"#]);
    let response: Value = serde_json::from_str(&called.output).unwrap();
    assert_eq!(response["data"], "tea", "{response}");
}

#[test]
fn no_tool_takes_the_place_of_anothers() {
    let project = Project::new(&json!([
        tool("order", &json!({})),
        tool("kb_search", &json!({}))
    ]));
    let path = project.path();
    let imported = project.import(&[]);
    let problems = imported.problems.join("\n");
    assert_eq!(imported.code, 0, "{problems}");
    assert!(
        problems.contains("kb_search is a tool that is built in"),
        "{problems}"
    );
    let server = project.server.display().to_string();
    let second = [
        "mcp", "import", "--name", "second", &server, "shop", "older",
    ];
    let refused = windlass(path, &second);
    let problems = refused.problems.join("\n");
    assert_eq!(refused.code, 1, "{problems}");
    assert!(
        problems.contains("import under other names with --prefix"),
        "{problems}"
    );
    assert!(
        !fs::read_to_string(path.join("windlass.toml"))
            .unwrap()
            .contains("second")
    );
    let prefixed = [
        "mcp", "import", "--prefix", "second", "--name", "second", &server, "shop", "older",
    ];
    let imported = windlass(path, &prefixed);
    assert_eq!(imported.code, 0, "{:?}", imported.problems);
    assert_eq!(
        project.read("tools/second-order/handler.json")["server"],
        "second"
    );
    assert_eq!(
        project.read("tools/second-kb-search/handler.json")["tool"],
        "kb_search"
    );
    let checked = windlass(path, &["check"]);
    assert_eq!(checked.code, 0, "{:?}", checked.problems);
}

#[test]
fn a_server_that_cannot_be_imported_leaves_everything_as_it_is() {
    let project = Project::new(&tools());
    let path = project.path();
    let server = project.server.display().to_string();
    for (arguments, code, said) in [
        (&["/nowhere/server"][..], 1, "cannot be started"),
        (&["http://127.0.0.1:9/mcp"], 1, "cannot be imported"),
        (
            &["--only", "nothing", &server, "shop"],
            2,
            "there is no tool nothing",
        ),
        (
            &["--bearer", "KEY", &server, "shop"],
            2,
            "--bearer is for a server that is an address",
        ),
        (
            &["--env", "HOME", "https://a.example/mcp"],
            2,
            "--env is for a server that is a program",
        ),
        (
            &["--secret", "NONE", &server, "shop"],
            1,
            "there is no secret NONE",
        ),
        (
            &["https://a.example/mcp", "more"],
            2,
            "an address stands alone",
        ),
        (
            &["--env", "SHOP_HOME=/x", &server, "shop"],
            2,
            "write the name only, --env SHOP_HOME; its value comes from the environment of windlass, as in SHOP_HOME=… windlass",
        ),
        (
            &["--env", "2=/x", &server, "shop"],
            2,
            "no variable can have that name",
        ),
    ] {
        let arguments = [&["mcp", "import"], arguments].concat();
        let refused = windlass(path, &arguments);
        let problems = refused.problems.join("\n");
        assert_eq!(refused.code, code, "{arguments:?}: {problems}");
        assert!(problems.contains(said), "{arguments:?}: {problems}");
        assert!(!path.join("windlass.toml").exists(), "{arguments:?}");
    }
    let unknown = windlass(path, &["mcp", "diff", "shop"]);
    assert_eq!(unknown.code, 2, "{:?}", unknown.problems);
}
