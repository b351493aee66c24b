//! From an artifact to tools that run: handlers, scripts, and what the configuration may change.

use crate::fixture::{Folder, manifest, manifest_with};
use expect_test::expect;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use windlass_compile::artifact::{
    ActivationError, Artifact, Clamp, DeclaredTool, FileLoader, Loaders, Script, ScriptLoader,
    check_clamps, write_artifact,
};
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;
use windlass_contract::kind::{Mode, RateLimit};
use windlass_contract::registry::{Registry, declaration_tree};
use windlass_contract::rights::{Permissions, Role};
use windlass_contract::tightening::Tightening;

struct Echo(&'static str);

impl Handler for Echo {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }

    fn response_version(&self) -> &str {
        self.0
    }
}

struct Loader(Result<&'static str, &'static str>);

impl ScriptLoader for Loader {
    fn load(&self, script: &Script<'_>) -> Result<Arc<dyn Handler>, String> {
        assert_eq!(
            (script.tool.as_str(), script.entry),
            ("some_tool", "some-tool/handler.js")
        );
        assert!(script.modules[script.entry].contains("export async function execute"));
        self.0
            .map(|version| Arc::new(Echo(version)) as Arc<dyn Handler>)
            .map_err(str::to_owned)
    }
}

fn artifact(changes: serde_json::Value) -> Artifact {
    let folder = Folder::new();
    folder.tool("some-tool", &manifest_with(changes));
    folder.compile().artifact.unwrap()
}

fn activate(
    changes: serde_json::Value,
    tightening: Tightening,
) -> Result<Registry, ActivationError> {
    let id = ToolId::parse("some_tool").unwrap();
    artifact(changes).into_registry(
        &BTreeMap::new(),
        Loaders {
            scripts: Some(&Loader(Ok("1.0.0"))),
            files: None,
        },
        &BTreeMap::from([(id, tightening)]),
    )
}

#[test]
fn a_registry_has_what_the_manifest_says_and_its_defaults() {
    let registry = activate(
        json!({"/latencyBudgetMs": 50, "/status": "Doing {title}"}),
        Tightening::default(),
    )
    .unwrap();
    let tool = registry.get("some_tool").unwrap();
    assert_eq!((tool.timeout_ms, tool.latency_budget_ms), (1_000, 50));
    assert_eq!(tool.summary, "Does one thing well.");
    assert_eq!(tool.status.as_deref(), Some("Doing {title}"));
    assert_eq!(tool.parameters.schema()["required"], json!(["title"]));
    assert!(tool.parameters.is_valid(&json!({"title": "x"})));
    assert_eq!(tool.parameters.violations(&json!({})).len(), 1);
    let declaration = declaration_tree(&tool.declarations.gemini_native);
    assert_eq!(
        declaration["parameters"]["properties"]["title"],
        json!({"type": "STRING", "maxLength": 100})
    );
    assert_eq!(declaration.get("behavior"), None);
    let slow = activate(json!({"/latencyBudgetMs": 9_000}), Tightening::default()).unwrap();
    assert_eq!(slow.get("some_tool").unwrap().timeout_ms, 60_000);
}

#[test]
fn handlers_that_are_missing_broken_or_of_another_version_are_named() {
    let none = BTreeMap::new();
    let error = |scripts: Option<&dyn ScriptLoader>| {
        artifact(json!({}))
            .into_registry(
                &none,
                Loaders {
                    scripts,
                    files: None,
                },
                &BTreeMap::new(),
            )
            .unwrap_err()
            .to_string()
    };
    expect!["the tool some_tool has its handler in tools/some-tool/handler.js, and this build cannot run script handlers; remove the tool, or begin its directory's name with _"].assert_eq(&error(None));
    expect!["the handler tools/some-tool/handler.js of the tool some_tool does not load: line 3: nonsense"].assert_eq(&error(Some(&Loader(Err("line 3: nonsense")))));
    expect!["the handler of the tool some_tool speaks response version 2.0.0, and this program speaks 1.1.0 and 1.0.0"].assert_eq(&error(Some(&Loader(Ok("2.0.0")))));

    let mut folder = Folder::new();
    folder.build_in("some_tool");
    folder.tool("some-tool", &manifest("some_tool"));
    std::fs::remove_file(folder.tools().join("some-tool/handler.js")).unwrap();
    let artifact = folder.compile().artifact.unwrap();
    let error = artifact
        .into_registry(&none, Loaders::default(), &BTreeMap::new())
        .unwrap_err();
    expect!["the tool some_tool needs a built-in handler that this program does not have; run `windlass build` with this program"].assert_eq(&error.to_string());
}

fn roles(names: &[&str]) -> BTreeSet<Role> {
    names.iter().filter_map(|name| Role::parse(name)).collect()
}

#[test]
fn the_configuration_may_tighten_a_tool() {
    let registry = activate(
        json!({}),
        Tightening {
            requires_confirmation: Some(true),
            allowed_modes: Some(vec![Mode::Text]),
            timeout_ms: Some(500),
            rate_limit: Some(RateLimit {
                calls: 1,
                window_ms: 10,
            }),
            requires_auth: Some(true),
            roles: Some(roles(&["staff"])),
            approver_roles: Some(roles(&["manager"])),
            ..Tightening::default()
        },
    )
    .unwrap();
    let tool = registry.get("some_tool").unwrap();
    let permissions = Permissions {
        requires_auth: true,
        roles: roles(&["staff"]),
        approver_roles: roles(&["manager"]),
    };
    assert_eq!(tool.permissions, permissions);
    assert!(tool.requires_confirmation && !tool.allows(Mode::Voice) && tool.timeout_ms == 500);
    assert_eq!(
        tool.rate_limit,
        Some(RateLimit {
            calls: 1,
            window_ms: 10
        })
    );
}

#[test]
fn a_tool_that_the_configuration_has_ask_takes_no_confirmation_from_the_model() {
    let error = activate(
        json!({"/parameters/properties/options": {"type": "object", "properties": {"confirm_delete": {"type": "boolean"}}}}),
        Tightening {
            requires_confirmation: Some(true),
            ..Tightening::default()
        },
    )
    .unwrap_err();
    expect!["the configuration has the tool some_tool ask the user first, and its parameter confirm_delete looks like a confirmation, which only the user can give; give the parameter another name, or leave requires_confirmation out"].assert_eq(&error.to_string());
}

#[test]
fn a_clamp_leaves_what_the_schema_allows() {
    let registry = |top_k: serde_json::Value| {
        let changes = json!({"/category": "retrieval", "/parameters/properties/top_k": top_k});
        activate(changes, Tightening::default()).unwrap()
    };
    let clamps = |voice, text| {
        [
            Clamp {
                mode: Mode::Voice,
                key: "voice.limits.turn.top_k_max",
                top_k_max: voice,
            },
            Clamp {
                mode: Mode::Text,
                key: "text.limits.turn.top_k_max",
                top_k_max: text,
            },
        ]
    };
    let three = registry(json!({"type": "integer", "minimum": 3, "maximum": 10, "default": 5}));
    assert!(check_clamps(&three, &clamps(3, 10)).is_ok());
    // Nothing above 20 is allowed, so that a clamp to 20 changes nothing.
    assert!(check_clamps(&three, &clamps(3, 20)).is_ok());
    let error = check_clamps(&three, &clamps(1, 10)).unwrap_err();
    expect!["voice.limits.turn.top_k_max = 1 would clamp `top_k` of the tool some_tool to a number that its schema forbids: its minimum is 3; raise the limit, or have the tool's schema.json allow 1"].assert_eq(&error.to_string());
    let fives = registry(json!({"enum": [3, 5, 10, 20], "default": 5}));
    assert!(check_clamps(&fives, &clamps(3, 5)).is_ok());
    let error = check_clamps(&fives, &clamps(3, 7)).unwrap_err();
    expect!["text.limits.turn.top_k_max = 7 would clamp `top_k` of the tool some_tool to a number that its schema forbids: its schema does not allow 7; raise the limit, or have the tool's schema.json allow 7"].assert_eq(&error.to_string());
}

#[test]
fn a_tool_that_asks_by_a_condition_may_be_made_to_ask_always() {
    let changes = json!({"/requiresConfirmation": {"condition": "!user.isAuthenticated"}});
    for (requires_confirmation, asks_by_condition) in [(None, true), (Some(true), false)] {
        let tightening = Tightening {
            requires_confirmation,
            ..Tightening::default()
        };
        let registry = activate(changes.clone(), tightening).unwrap();
        let tool = registry.get("some_tool").unwrap();
        assert!(tool.requires_confirmation);
        assert_eq!(tool.consent_condition.is_some(), asks_by_condition);
    }
    let never = Tightening {
        requires_confirmation: Some(false),
        ..Tightening::default()
    };
    assert!(matches!(
        activate(changes, never),
        Err(ActivationError::Loosened { .. })
    ));
}

#[test]
fn the_configuration_may_have_no_approval_of_a_tool_stand() {
    let asks_by_condition = json!({
        "/requiresConfirmation": {"condition": "args.title != 'x'"},
        "/remember": {"scope": "session", "arguments": ["/title"]},
    });
    let plain = Tightening::default;
    for (tightening, stands) in [
        (plain(), true),
        (
            Tightening {
                timeout_ms: Some(1_000),
                ..plain()
            },
            true,
        ),
        (
            Tightening {
                remember: Some(true),
                ..plain()
            },
            true,
        ),
        (
            Tightening {
                remember: Some(false),
                ..plain()
            },
            false,
        ),
        // Who writes that it asks means that it asks each time.
        (
            Tightening {
                requires_confirmation: Some(true),
                ..plain()
            },
            false,
        ),
        (
            Tightening {
                approver_roles: Some(roles(&["manager"])),
                ..plain()
            },
            false,
        ),
    ] {
        let registry = activate(asks_by_condition.clone(), tightening.clone()).unwrap();
        let tool = registry.get("some_tool").unwrap();
        assert_eq!(tool.remember.is_some(), stands, "{tightening:?}");
        assert!(tool.requires_confirmation);
    }
    let invented = Tightening {
        remember: Some(true),
        ..plain()
    };
    let error = activate(json!({"/requiresConfirmation": true}), invented).unwrap_err();
    expect!["the configuration would loosen the tool some_tool: remember is true, and its schema.json has none; it may only make a tool stricter"].assert_eq(&error.to_string());
}

#[test]
fn the_configuration_may_not_loosen_a_tool() {
    let strict = json!({
        "/requiresConfirmation": true, "/allowedModes": ["text"], "/timeoutMs": 1_000,
        "/rateLimit": {"calls": 5, "windowMs": 100},
        "/permissions": {"requiresAuth": true, "roles": ["staff"]},
    });
    let plain = Tightening::default;
    for (tightening, expected) in [
        (
            Tightening {
                requires_confirmation: Some(false),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: requires_confirmation is true in its schema.json; it may only make a tool stricter"
            ],
        ),
        (
            Tightening {
                allowed_modes: Some(vec![Mode::Voice]),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: allowed_modes has voice, which its schema.json has not; it may only make a tool stricter"
            ],
        ),
        (
            Tightening {
                allowed_modes: Some(vec![]),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: allowed_modes is empty, which leaves the tool of no use: remove the tool instead; it may only make a tool stricter"
            ],
        ),
        (
            Tightening {
                timeout_ms: Some(1_001),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: timeout_ms has to be 1 to 1000; it may only make a tool stricter"
            ],
        ),
        (
            Tightening {
                rate_limit: Some(RateLimit {
                    calls: 6,
                    window_ms: 100,
                }),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: rate_limit may be at most 5 calls in at least 100 ms; it may only make a tool stricter"
            ],
        ),
        (
            Tightening {
                rate_limit: Some(RateLimit {
                    calls: 5,
                    window_ms: 99,
                }),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: rate_limit may be at most 5 calls in at least 100 ms; it may only make a tool stricter"
            ],
        ),
        (
            Tightening {
                requires_auth: Some(false),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: requires_auth is true in its schema.json; it may only make a tool stricter"
            ],
        ),
        (
            Tightening {
                roles: Some(roles(&["staff", "guest"])),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: roles has a role that its schema.json has not; it may only make a tool stricter"
            ],
        ),
        (
            Tightening {
                approver_roles: Some(BTreeSet::new()),
                ..plain()
            },
            expect![
                "the configuration would loosen the tool some_tool: approver_roles is empty, which would let everybody: name a role, or leave it out; it may only make a tool stricter"
            ],
        ),
    ] {
        expected.assert_eq(
            &activate(strict.clone(), tightening)
                .unwrap_err()
                .to_string(),
        );
    }
    let unknown = BTreeMap::from([(ToolId::parse("sometool").unwrap(), plain())]);
    let error = artifact(json!({}))
        .into_registry(&BTreeMap::new(), Loaders::default(), &unknown)
        .unwrap_err();
    expect!["the configuration speaks of the tool sometool, which does not exist; did you mean some_tool?"].assert_eq(&error.to_string());
}

/// Every script and every `handler.json` is taken.
struct AnyLoader;

impl ScriptLoader for AnyLoader {
    fn load(&self, _: &Script<'_>) -> Result<Arc<dyn Handler>, String> {
        Ok(Arc::new(Echo("1.0.0")))
    }
}

impl FileLoader for AnyLoader {
    fn load(&self, _: DeclaredTool<'_>) -> Result<Arc<dyn Handler>, String> {
        Ok(Arc::new(Echo("1.0.0")))
    }
}

const LOADERS: Loaders<'_> = Loaders {
    scripts: Some(&AnyLoader),
    files: Some(&AnyLoader),
};

fn code_hash(folder: &Folder) -> String {
    let compilation = folder.compile();
    assert!(compilation.artifact.is_some(), "{:?}", compilation.problems);
    let artifact = compilation.artifact.unwrap();
    write_artifact(&artifact, &folder.artifact()).unwrap();
    let hash = |artifact: Artifact| {
        let registry = artifact.into_registry(&BTreeMap::new(), LOADERS, &BTreeMap::new());
        let registry = registry.unwrap();
        registry.get("some_tool").unwrap().code_hash.to_string()
    };
    let first = hash(artifact);
    let loaded = Artifact::load(&folder.artifact()).unwrap();
    assert_eq!(hash(loaded), first, "an artifact that is read back");
    first
}

fn http(url: &str) -> String {
    json!({"kind": "http", "method": "POST", "url": url, "body": {}}).to_string()
}

/// A tool whose handler is this file.
fn declared(handler: &str) -> Folder {
    let mut folder = Folder::new();
    folder.permissions.processes = true;
    folder.tool(
        "some-tool",
        &manifest_with(json!({"/sideEffects": "writes"})),
    );
    std::fs::remove_file(folder.tools().join("some-tool/handler.js")).unwrap();
    folder.file("some-tool/handler.json", handler);
    folder
}

const PROCESS: &str = r#"{"kind": "process", "command": ["node", "main.js"]}"#;

#[test]
fn an_approval_is_bound_to_what_will_run_and_to_nothing_else() {
    let script = |change: &dyn Fn(&Folder)| {
        let folder = Folder::new();
        folder.tool("some-tool", &manifest("some_tool"));
        folder.file("_shared/a.js", "export const a = 1;\n");
        change(&folder);
        code_hash(&folder)
    };
    let process = |change: &dyn Fn(&Folder)| {
        let folder = declared(PROCESS);
        folder.file("some-tool/main.js", "1");
        folder.file("some-tool/lib/data.bin", [0xff, 0xfe]);
        change(&folder);
        code_hash(&folder)
    };
    let import = format!("// uses _shared/a.js\n{}", crate::fixture::HANDLER);
    let mut different = vec![
        script(&|_| {}),
        script(&|folder| {
            folder.file("some-tool/handler.js", &import);
        }),
        script(&|folder| {
            folder.file("some-tool/handler.js", &import);
            folder.file("_shared/a.js", "export const a = 2;\n");
        }),
        script(&|folder| {
            folder.tool("some-tool", &manifest_with(json!({"/timeoutMs": 9_999})));
        }),
        code_hash(&declared(&http("https://a.example/x"))),
        code_hash(&declared(&http("https://b.example/x"))),
        process(&|_| {}),
        process(&|folder| {
            folder.file("some-tool/main.js", "2");
        }),
        process(&|folder| {
            folder.file("some-tool/lib/data.bin", [0xff]);
        }),
        process(&|folder| {
            folder.file("some-tool/lib/more.js", "");
        }),
    ];
    let count = different.len();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), count);
    let same = script(&|_| {});
    assert_eq!(
        script(&|folder| {
            folder.file("some-tool/guide.md", "# B\n\nDoes more.\n");
        }),
        same
    );
    assert_eq!(
        script(&|folder| {
            folder.tool("some-tool", &manifest_with(json!({"/description": "B."})));
        }),
        same
    );
    let same = process(&|_| {});
    for file in [
        "guide.md",
        "node_modules/x/index.js",
        "__pycache__/a.pyc",
        ".cache",
    ] {
        let text = "# B\n\nDoes more.\n";
        let file = format!("some-tool/{file}");
        assert_eq!(
            process(&|folder| {
                folder.file(&file, text);
            }),
            same,
            "{file}"
        );
    }
}

#[test]
fn an_artifact_whose_program_has_changed_is_refused() {
    let folder = declared(PROCESS);
    folder.file("some-tool/main.js", "1");
    code_hash(&folder);
    folder.file("some-tool/main.js", "2");
    let error = Artifact::load(&folder.artifact()).unwrap_err().to_string();
    assert!(
        error.contains("main.js of the tool some_tool was changed"),
        "{error}"
    );
}

#[test]
fn a_program_has_so_many_files_and_no_more() {
    let folder = declared(PROCESS);
    for number in 0..513 {
        folder.file(&format!("some-tool/{number}.js"), "1");
    }
    let problems = folder.problems();
    assert!(
        problems.contains("holds 512 files of its program at most"),
        "{problems}"
    );
}
