//! Versions of a tool beside its current one: what is compiled of them, what is refused, and which of them a session gets.

use crate::fixture::{Folder, GUIDE, HANDLER, manifest_with};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use windlass_compile::artifact::{
    ActivationError, Artifact, Loaders, Script, ScriptLoader, rolled_out, write_artifact,
};
use windlass_compile::problem::Severity;
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{Execution, Handler, Invocation, Success};
use windlass_contract::id::ToolId;
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_contract::rollout::{Choice, Recipients, Rollout, Rollouts};
use windlass_contract::tightening::Tightening;
use windlass_contract::version::Version;

struct Silent;

impl Handler for Silent {
    fn execute(&self, _: Invocation) -> Execution {
        Execution::Ready(Ok(Success::default()))
    }
}

/// Notes what it is asked to load.
#[derive(Default)]
struct Loader(Mutex<Vec<String>>);

impl ScriptLoader for Loader {
    fn load(&self, script: &Script<'_>) -> Result<Arc<dyn Handler>, String> {
        let (tool, version, entry) = (script.tool, script.version, script.entry);
        let modules: Vec<&str> = script.modules.keys().copied().collect();
        let loaded = format!("{tool} {version} {entry} of {}", modules.join(" "));
        self.0.lock().unwrap().push(loaded);
        Ok(Arc::new(Silent))
    }
}

fn id() -> ToolId {
    ToolId::parse("some_tool").unwrap()
}

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

/// A tool of version 1.0.0 with others beside it, each with these changes of the usual manifest.
fn folder(others: &[(&str, Value)]) -> Folder {
    let folder = Folder::new();
    folder.tool("some-tool", &manifest_with(json!({})));
    for (version, changes) in others {
        let mut changes = changes.clone();
        changes["/version"] = json!(version);
        folder.tool(
            &format!("some-tool/versions/{version}"),
            &manifest_with(changes),
        );
    }
    folder
}

fn built(folder: &Folder) -> Artifact {
    let compilation = folder.compile();
    assert!(compilation.artifact.is_some(), "{:?}", compilation.problems);
    compilation.artifact.unwrap()
}

fn activated(
    folder: &Folder,
    tightening: Tightening,
) -> Result<(Registry, Vec<String>), ActivationError> {
    let loader = Loader::default();
    let loaders = Loaders {
        scripts: Some(&loader),
        files: None,
    };
    let tightenings = BTreeMap::from([(id(), tightening)]);
    let registry = built(folder).into_registry(&BTreeMap::new(), loaders, &tightenings)?;
    Ok((registry, loader.0.into_inner().unwrap()))
}

fn registry(folder: &Folder) -> Registry {
    activated(folder, Tightening::default()).unwrap().0
}

fn check(folder: &Folder, expected: &Expect) {
    expected.assert_eq(&folder.problems());
}

#[test]
fn a_version_is_a_whole_tool_beside_the_current_one() {
    let folder = folder(&[
        ("1.10.0", json!({})),
        ("1.2.0", json!({"/timeoutMs": 2_000})),
    ]);
    // What begins so is left out, and a file is the author's own.
    folder
        .file("some-tool/versions/_1.3.0/schema.json", "{")
        .file("some-tool/versions/README.md", "What changed");
    let artifact = built(&folder);
    assert_eq!(artifact.tool_ids().count(), 1);
    let versions = artifact.versions();
    assert_eq!(versions[&id()], ["1.0.0", "1.2.0", "1.10.0"]);

    // The artifact says the same once it is read back.
    write_artifact(&artifact, &folder.artifact()).unwrap();
    let read = Artifact::load(&folder.artifact()).unwrap();
    assert_eq!(read.versions(), versions);
    assert_eq!(read.to_json(), artifact.to_json());

    let (registry, loaded) = activated(&folder, Tightening::default()).unwrap();
    assert_eq!(
        loaded,
        [
            "some_tool 1.0.0 some-tool/handler.js of some-tool/handler.js",
            "some_tool 1.2.0 some-tool/versions/1.2.0/handler.js of some-tool/versions/1.2.0/handler.js",
            "some_tool 1.10.0 some-tool/versions/1.10.0/handler.js of some-tool/versions/1.10.0/handler.js",
        ]
    );
    assert_eq!(registry.len(), 1);
    assert_eq!(&*registry.get("some_tool").unwrap().version, "1.0.0");
    let versions: Vec<&str> = registry
        .versions_of("some_tool")
        .map(|tool| &*tool.version)
        .collect();
    assert_eq!(versions, ["1.0.0", "1.2.0", "1.10.0"]);
    let slow = registry.in_version("some_tool", &version("1.2.0")).unwrap();
    assert_eq!(slow.timeout_ms, 2_000);
}

#[test]
fn a_version_that_is_left_out_of_its_schema_is_that_of_its_folder() {
    let folder = Folder::new();
    folder.tool("some-tool", &manifest_with(json!({})));
    folder.tool(
        "some-tool/versions/2.0.0",
        &manifest_with(json!({"/version": null, "/toolId": null})),
    );
    let compilation = folder.compile();
    let defaults = &compilation.defaults["some_tool@2.0.0"];
    assert!(
        defaults
            .iter()
            .any(|default| default.field == "version" && default.value == "2.0.0")
    );
    let registry = registry(&folder);
    assert!(
        registry
            .in_version("some_tool", &version("2.0.0"))
            .is_some()
    );
}

#[test]
fn versions_that_are_none_or_two_of_one_number_are_errors() {
    let plain = || folder(&[]);
    let with = |path: &str, changes: Value| {
        let folder = plain();
        folder.tool(path, &manifest_with(changes));
        folder
    };
    check(
        &with("some-tool/versions/v2", json!({})),
        &expect![[
            r#"tools/some-tool/versions/v2: error: the directory's name is no semantic version (name it as in 1.2.0, or begin it with _ to leave it out; what is no version of the tool belongs elsewhere)"#
        ]],
    );
    check(
        &with("some-tool/versions/1.2", json!({})),
        &expect![[
            r#"tools/some-tool/versions/1.2: error: the directory's name is no semantic version (name it as in 1.2.0, or begin it with _ to leave it out; what is no version of the tool belongs elsewhere)"#
        ]],
    );
    check(
        &with("some-tool/versions/1.2.0", json!({"/version": "1.3.0"})),
        &expect![[
            r#"tools/some-tool/versions/1.2.0/schema.json:33:3: error: `version` is `1.3.0`, but the directory is `1.2.0` (write "1.2.0", or rename the directory to 1.3.0)"#
        ]],
    );
    check(
        &with(
            "some-tool/versions/1.2.0",
            json!({"/version": "1.2.0", "/toolId": "other_tool"}),
        ),
        &expect![[
            r#"tools/some-tool/versions/1.2.0/schema.json:32:3: error: `toolId` is `other_tool`, but the directory is `some-tool` (write "some_tool", or rename the directory to other-tool)"#
        ]],
    );
    // The current version has this number.
    check(
        &with("some-tool/versions/1.0.0", json!({})),
        &expect![[
            r#"tools/some-tool/versions/1.0.0/schema.json:33:3: error: the tool has a version of this number already, in `some-tool` (give one of them another number; what stands behind a + makes no other version)"#
        ]],
    );
    check(
        &folder(&[("2.0.0+a", json!({})), ("2.0.0+b", json!({}))]),
        &expect![[
            r#"tools/some-tool/versions/2.0.0+b/schema.json:33:3: error: the tool has a version of this number already, in `some-tool/versions/2.0.0+a` (give one of them another number; what stands behind a + makes no other version)"#
        ]],
    );
    // A version is a whole tool, and every one of its files is looked at.
    let lacking = plain();
    lacking.file("some-tool/versions/3.0.0/guide.md", GUIDE);
    check(
        &lacking,
        &expect![[r#"
            tools/some-tool/versions/3.0.0/schema.json: error: the file is missing (add it with description, sideEffects and parameters, or begin the directory's name with _ to leave it out)
            tools/some-tool/versions/3.0.0/handler.js: error: the tool `some_tool` has no handler: none is built in, and there is no such file (add a handler.js or handler.ts that exports execute, or a handler.json, or begin the directory's name with _ to leave it out)"#]],
    );
    let many: Vec<(String, Value)> = (0..17)
        .map(|number| (format!("2.{number}.0"), json!({})))
        .collect();
    let many: Vec<(&str, Value)> = many
        .iter()
        .map(|(version, changes)| (version.as_str(), changes.clone()))
        .collect();
    check(
        &folder(&many),
        &expect![[
            r#"tools/some-tool/versions: error: the tool has 17 other versions (keep 16 at most)"#
        ]],
    );
}

#[test]
fn values_of_the_conversation_are_alike_in_all_versions() {
    let schema = |kind: &str| json!({"/state": {"basket": {"type": kind}}});
    let unlike = folder(&[("1.1.0", schema("array")), ("1.2.0", schema("string"))]);
    check(
        &unlike,
        &expect![[
            r#"tools/some-tool/versions/1.2.0/schema.json: error: the value `basket` has another schema in the tool `some_tool@1.1.0` (write the same schema in both, or give one of them another key)"#
        ]],
    );
    let alike = registry(&folder(&[("1.1.0", schema("array"))]));
    // What one version has set stays known to sessions of the other.
    assert!(alike.keeps_state() && alike.state("basket").is_some());
}

/// A current tool with an effect key, and another version with another.
#[test]
fn a_note_says_which_versions_know_their_changes_by_other_arguments() {
    let writes = |key: Value| {
        json!({
            "/sideEffects": "writes", "/category": "action", "/idempotent": false, "/requiresConfirmation": true,
            "/confirmation": {"preview": "Do {title}"}, "/effectKey": key,
        })
    };
    let notes = |others: &[(&str, Value)]| -> Vec<String> {
        let folder = Folder::new();
        folder.tool("some-tool", &manifest_with(writes(json!(["/title"]))));
        for (version, changes) in others {
            let mut changes = changes.clone();
            changes["/version"] = json!(version);
            let path = format!("some-tool/versions/{version}");
            folder.tool(&path, &manifest_with(changes));
        }
        let problems = folder.compile().problems;
        let notes = problems.iter().filter(|problem| {
            problem.severity == Severity::Note && problem.message.contains("the same change")
        });
        notes
            .map(|problem| problem.file.rsplit('/').nth(1).unwrap().to_owned())
            .collect()
    };
    let same = writes(json!(["/title"]));
    let mut other = writes(json!(["/attendees"]));
    other["/parameters/required"] = json!(["title", "attendees"]);
    assert_eq!(notes(&[("1.1.0", same), ("1.2.0", other)]), ["1.2.0"]);
}

#[test]
fn an_effect_key_knows_no_version() {
    let writes = json!({
        "/sideEffects": "writes", "/category": "action", "/idempotent": false, "/requiresConfirmation": true,
        "/confirmation": {"preview": "Do {title}"}, "/effectKey": ["/title"],
    });
    let folder = Folder::new();
    folder.tool("some-tool", &manifest_with(writes.clone()));
    let mut other = writes;
    other["/version"] = json!("1.1.0");
    other["/parameters/properties/place"] = json!({"type": "string"});
    folder.tool("some-tool/versions/1.1.0", &manifest_with(other));
    let registry = registry(&folder);
    let arguments = |value: Value| Arguments::from(value.as_object().unwrap().clone());
    let keys: Vec<(String, i64)> = registry
        .versions_of("some_tool")
        .zip([json!({"title": "a"}), json!({"title": "a", "place": "b"})])
        .map(|(tool, asked)| {
            let key = tool.effect_arguments(&arguments(asked));
            (key, tool.key_spec().fingerprint())
        })
        .collect();
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn the_code_of_a_tool_does_not_depend_on_the_versions_beside_it() {
    let alone = registry(&folder(&[]));
    let beside = registry(&folder(&[("2.0.0", json!({}))]));
    let hash = |registry: &Registry| registry.get("some_tool").unwrap().code_hash.clone();
    assert_eq!(hash(&alone), hash(&beside));
    // The artifact is another one all the same, and so is one in which the two have changed places.
    let versions = |folder: &Folder| built(folder).version().to_owned();
    let first = versions(&folder(&[("2.0.0", json!({}))]));
    let swapped = Folder::new();
    swapped
        .tool("some-tool", &manifest_with(json!({"/version": "2.0.0"})))
        .tool("some-tool/versions/1.0.0", &manifest_with(json!({})));
    assert_ne!(first, versions(&folder(&[])));
    assert_ne!(first, versions(&swapped));
    // A version that moves into the tool's own folder is the same code.
    let moved = registry(&swapped);
    let new = beside.in_version("some_tool", &version("2.0.0")).unwrap();
    assert_eq!(moved.get("some_tool").unwrap().code_hash, new.code_hash);
}

/// A script imports its own folder and the shared one, and no other version.
#[test]
fn a_script_has_the_files_of_its_version_alone() {
    let folder = folder(&[("2.0.0", json!({}))]);
    folder
        .file("some-tool/helper.js", "export const a = 1;")
        .file("some-tool/versions/2.0.0/helper.js", "export const a = 2;")
        .file(
            "some-tool/handler.js",
            format!("// uses some-tool/helper.js\n{HANDLER}"),
        )
        .file(
            "some-tool/versions/2.0.0/handler.js",
            format!("// uses some-tool/versions/2.0.0/helper.js\n{HANDLER}"),
        );
    let (_, loaded) = activated(&folder, Tightening::default()).unwrap();
    assert_eq!(
        loaded,
        [
            "some_tool 1.0.0 some-tool/handler.js of some-tool/handler.js some-tool/helper.js",
            "some_tool 2.0.0 some-tool/versions/2.0.0/handler.js of some-tool/versions/2.0.0/handler.js \
             some-tool/versions/2.0.0/helper.js",
        ]
    );
    let before = built(&folder).version().to_owned();
    folder.file("some-tool/versions/2.0.0/helper.js", "export const a = 3;");
    assert_ne!(built(&folder).version(), before);
}

#[cfg(unix)]
#[test]
fn a_version_is_no_link() {
    let folder = folder(&[]);
    let elsewhere = folder.root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let versions = folder.tools().join("some-tool/versions");
    fs::create_dir(&versions).unwrap();
    std::os::unix::fs::symlink(&elsewhere, versions.join("2.0.0")).unwrap();
    check(
        &folder,
        &expect![[
            r#"tools/some-tool/versions/2.0.0: error: this is a symbolic link (put the directory itself here; what a link leads to can change unseen)"#
        ]],
    );
}

#[test]
fn the_configuration_makes_every_version_stricter() {
    let folder = folder(&[("2.0.0", json!({"/timeoutMs": 2_000}))]);
    let stricter = Tightening {
        allowed_modes: Some(vec![Mode::Text]),
        ..Tightening::default()
    };
    let (registry, _) = activated(&folder, stricter).unwrap();
    assert!(
        registry
            .all_versions()
            .all(|tool| !tool.allows(Mode::Voice))
    );
    // What fits one and loosens the other is refused.
    let loose = Tightening {
        timeout_ms: Some(3_000),
        ..Tightening::default()
    };
    let error = activated(&folder, loose).unwrap_err().to_string();
    assert!(
        error.contains("in version 2.0.0, timeout_ms has to be 1 to 2000"),
        "{error}"
    );
    // What a journal says holds for each version by itself.
    let each = Tightening {
        versions: BTreeMap::from([(
            version("1.0.0"),
            Tightening {
                timeout_ms: Some(3_000),
                ..Tightening::default()
            },
        )]),
        ..Tightening::default()
    };
    let (registry, _) = activated(&folder, each).unwrap();
    let timeouts: Vec<u64> = registry
        .all_versions()
        .map(|tool| tool.timeout_ms)
        .collect();
    assert_eq!(timeouts, [3_000, 2_000]);
}

fn rules(rest: Option<&str>, versions: &[(&str, u8)]) -> Rollouts {
    let recipients = |percent: u8| Recipients {
        percent,
        ..Recipients::default()
    };
    let rollout = Rollout {
        version: rest.map(version),
        versions: versions
            .iter()
            .map(|(text, percent)| (version(text), recipients(*percent)))
            .collect(),
    };
    Rollouts::from([(id(), rollout)])
}

#[test]
fn rules_name_versions_that_there_are() {
    let registry = registry(&folder(&[("1.1.0", json!({})), ("1.2.0", json!({}))]));
    for (rules, expected) in [
        (rules(None, &[]), Ok("1.0.0")),
        (rules(None, &[("1.2.0", 10)]), Ok("1.0.0")),
        (rules(Some("1.1.0"), &[("1.0.0", 10)]), Ok("1.1.0")),
        (
            rules(Some("1.3.0"), &[]),
            Err(
                "the configuration speaks of version 1.3.0 of the tool some_tool, which does not exist; there is 1.0.0, 1.1.0, 1.2.0: \
                 put it into the tool's folder, under versions/1.3.0, or leave it out of tools.some_tool",
            ),
        ),
        (
            rules(None, &[("2.0.0", 0)]),
            Err(
                "the configuration speaks of version 2.0.0 of the tool some_tool, which does not exist; there is 1.0.0, 1.1.0, 1.2.0: \
                 put it into the tool's folder, under versions/2.0.0, or leave it out of tools.some_tool",
            ),
        ),
        // The current version is the one for everybody else.
        (
            rules(None, &[("1.0.0", 50), ("1.1.0", 20)]),
            Err(
                "tools.some_tool.versions.\"1.0.0\".percent has a value which does not make 100 together with the percentages of the \
                 tool's other versions, although the version for everybody else has a percentage, too; let them add up to 100, or leave \
                 that one out",
            ),
        ),
    ] {
        let rolled_out = rolled_out(&registry, &rules);
        let found = rolled_out
            .as_ref()
            .map(|(registry, _)| &*registry.get("some_tool").unwrap().version);
        let found = found.map_err(ToString::to_string);
        assert_eq!(found, expected.map_err(str::to_owned));
        if let Ok((registry, filled)) = &rolled_out {
            let rest = filled[&id()].version.as_ref().unwrap();
            assert_eq!(rest.as_str(), &*registry.get("some_tool").unwrap().version);
        }
    }
}

#[test]
fn a_session_has_one_version_and_records_name_any() {
    let current = registry(&folder(&[("1.1.0", json!({}))]));
    let chosen = current.choosing(&Choice::from([(id(), version("1.1.0"))]));
    assert_eq!((chosen.len(), chosen.version()), (1, current.version()));
    for registry in [&current, &chosen] {
        let own = &registry.get("some_tool").unwrap().version;
        let of = |version: &str| &*registry.of_record("some_tool", version).unwrap().version;
        assert_eq!((of("1.0.0"), of("1.1.0")), ("1.0.0", "1.1.0"));
        // A version that is gone.
        assert_eq!(of("0.9.0"), &**own);
        assert!(registry.of_record("other_tool", "1.0.0").is_none());
        let first = current.get("some_tool").unwrap();
        let hash = Some(&*first.code_hash);
        let shown = |version, hash| registry.as_shown("some_tool", version, hash).is_some();
        assert!(shown("1.0.0", hash));
        assert!(!shown("1.1.0", hash) && !shown("1.0.0", None) && !shown("0.9.0", hash));
    }
    let names: Vec<&str> = chosen.chosen().map(|tool| &*tool.version).collect();
    assert_eq!(names, ["1.1.0"]);
    // Sessions of a special kind have neither version of a tool that they may not have, nor get one by choice.
    let only = current.only(|tool| *tool.version == *"1.0.0");
    assert_eq!(only.len(), 1);
    let none = only.choosing(&Choice::from([(id(), version("1.1.0"))]));
    assert!(none.is_empty());
    assert!(current.only(|_| false).all_versions().next().is_none());
}
