//! The artifact: its form, its version, and what is refused at load.

use crate::fixture::{Folder, GUIDE, HANDLER, Judge, manifest, manifest_with};
use expect_test::expect;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use windlass_compile::artifact::{Artifact, write_artifact};
use windlass_compile::handler_file::Permissions;
use windlass_compile::{Builtin, Source, is_current};
use windlass_contract::id::ToolId;

fn two_tools() -> Folder {
    let folder = Folder::new();
    folder
        .tool("some-tool", &manifest("some_tool"))
        .tool("other-tool", &manifest("other_tool"));
    folder
}

fn build(folder: &Folder) -> Artifact {
    let compilation = folder.compile();
    assert!(compilation.artifact.is_some(), "{:?}", compilation.problems);
    compilation.artifact.unwrap()
}

fn version(folder: &Folder) -> String {
    build(folder).version().to_owned()
}

#[test]
fn the_artifact_has_the_form_of_the_contract() {
    let folder = Folder::new();
    folder.tool(
        "some-tool",
        &manifest_with(
            json!({"/status": "Doing {title}", "/parameters/properties/attendees": null}),
        ),
    );
    let mut value: Value = serde_json::from_slice(&build(&folder).to_json()).unwrap();
    value["sourceHash"] = json!("S");
    value["version"] = json!("V");
    expect![[r##"
        {
          "buildTimestamp": "2026-11-20T12:00:00Z",
          "gitCommit": null,
          "schemaVersion": "1.0.0",
          "sourceHash": "S",
          "tools": [
            {
              "allowedModes": [
                "text",
                "voice"
              ],
              "behavior": "blocking",
              "category": "utility",
              "description": "Does one thing well.",
              "documentation": "# A tool\n\nDoes one thing well.\n",
              "handler": {
                "kind": "script",
                "path": "tools/some-tool/handler.js",
                "sha256": "69c12924042cf404253ccebe0dee5fdb702ad91e28e8568638b8a3f0467e09b1"
              },
              "idempotent": true,
              "jsonSchema": {
                "additionalProperties": false,
                "properties": {
                  "title": {
                    "maxLength": 100,
                    "type": "string"
                  }
                },
                "required": [
                  "title"
                ],
                "type": "object"
              },
              "latencyBudgetMs": 800,
              "onInterrupt": "finish",
              "providerSchemas": {
                "geminiJson": {
                  "description": "Does one thing well.",
                  "name": "some_tool",
                  "parametersJsonSchema": {
                    "additionalProperties": false,
                    "properties": {
                      "title": {
                        "maxLength": 100,
                        "type": "string"
                      }
                    },
                    "required": [
                      "title"
                    ],
                    "type": "object"
                  }
                },
                "geminiNative": {
                  "description": "Does one thing well.",
                  "name": "some_tool",
                  "parameters": {
                    "properties": {
                      "title": {
                        "maxLength": 100,
                        "type": "STRING"
                      }
                    },
                    "required": [
                      "title"
                    ],
                    "type": "OBJECT"
                  }
                },
                "openai": {
                  "function": {
                    "description": "Does one thing well.",
                    "name": "some_tool",
                    "parameters": {
                      "additionalProperties": false,
                      "properties": {
                        "title": {
                          "maxLength": 100,
                          "type": "string"
                        }
                      },
                      "required": [
                        "title"
                      ],
                      "type": "object"
                    }
                  },
                  "type": "function"
                },
                "openaiRealtime": {
                  "description": "Does one thing well.",
                  "name": "some_tool",
                  "parameters": {
                    "additionalProperties": false,
                    "properties": {
                      "title": {
                        "maxLength": 100,
                        "type": "string"
                      }
                    },
                    "required": [
                      "title"
                    ],
                    "type": "object"
                  },
                  "type": "function"
                }
              },
              "reach": "internal",
              "requiresConfirmation": false,
              "sideEffects": "none",
              "status": "Doing {title}",
              "summary": "Does one thing well.",
              "timeoutMs": 8000,
              "toolId": "some_tool",
              "version": "1.0.0"
            }
          ],
          "version": "V"
        }"##]]
    .assert_eq(&serde_json::to_string_pretty(&value).unwrap());
}

#[test]
fn the_version_depends_on_nothing_but_what_can_change_a_call() {
    let folder = two_tools();
    let first = version(&folder);
    assert!(first.starts_with("1.0.") && first.len() == 12, "{first}");

    let later = folder.compile_at("2030-01-01T00:00:00Z").artifact.unwrap();
    assert_eq!(later.version(), first, "time");

    let reversed: serde_json::Map<String, Value> = manifest("some_tool")
        .as_object()
        .unwrap()
        .clone()
        .into_iter()
        .rev()
        .collect();
    let keys: Vec<String> = reversed
        .iter()
        .rev()
        .map(|(key, value)| format!("{}:{value}", json!(key)))
        .collect();
    folder.file(
        "some-tool/schema.json",
        format!("{{{}}}\r\n", keys.join(",\r\n")),
    );
    folder.file(
        "some-tool/guide.md",
        format!("\u{feff}{}", GUIDE.replace('\n', "\r\n")),
    );
    folder.file("some-tool/handler.js", HANDLER.replace('\n', "\r\n"));
    assert_eq!(version(&folder), first, "key order and line endings");

    let mut modes = manifest("some_tool");
    modes["allowedModes"] = json!(["voice", "text"]);
    folder.tool("some-tool", &modes);
    assert_eq!(version(&folder), first, "order of modes");

    let mut elsewhere = Folder::new();
    elsewhere
        .tool("other-tool", &manifest("other_tool"))
        .tool("some-tool", &manifest("some_tool"));
    assert_eq!(version(&elsewhere), first, "order of creation, place");
    elsewhere
        .file("some-tool/README.md", "not part of it")
        .file("_draft/schema.json", "{");
    assert_eq!(version(&elsewhere), first, "other files");
    elsewhere.build_in("unrelated");
    assert_eq!(version(&elsewhere), first, "handlers of other tools");
}

#[test]
fn the_version_changes_with_everything_that_can_change_a_call() {
    let mut versions = vec![version(&two_tools())];
    for changes in [
        json!({"/version": "1.0.1"}),
        json!({"/description": "Other."}),
        json!({"/category": "action"}),
        json!({"/sideEffects": "read_only"}),
        json!({"/idempotent": false}),
        json!({"/requiresConfirmation": true}),
        json!({"/allowedModes": ["text"]}),
        json!({"/latencyBudgetMs": 801}),
        json!({"/timeoutMs": 9_999}),
        json!({"/behavior": "non_blocking"}),
        json!({"/behavior": "non_blocking", "/scheduling": "silent"}),
        json!({"/onInterrupt": "cancel"}),
        json!({"/reach": "external"}),
        json!({"/responseSchema": {"type": "object"}}),
        json!({"/confirmation": {"preview": "{title}"}}),
        json!({"/rateLimit": {"calls": 1, "windowMs": 1}}),
        json!({"/sideEffects": "writes"}),
        json!({"/sideEffects": "writes", "/effectKey": ["/title"]}),
        json!({"/sideEffects": "writes", "/repeatable": true}),
        json!({"/sideEffects": "writes", "/repeatable": true, "/effectKey": ["/title"]}),
        json!({"/sensitive": ["/title"]}),
        json!({"/status": "Working"}),
        json!({"/parameters/properties/title/maxLength": 99}),
    ] {
        let folder = two_tools();
        folder.tool("some-tool", &manifest_with(changes));
        versions.push(version(&folder));
    }
    for (file, text) in [
        ("some-tool/guide.md", GUIDE.replace("well", "better")),
        ("some-tool/guide.md", format!("{GUIDE}\nMore.\n")),
        ("some-tool/handler.js", format!("{HANDLER}// More.\n")),
        (
            "some-tool/handler.js",
            format!("// uses _shared/a.js\n{HANDLER}"),
        ),
        ("third-tool/handler.js", HANDLER.to_owned()),
    ] {
        let folder = two_tools();
        folder.file("_shared/a.js", "export const a = 1;\n");
        if file.starts_with("third") {
            folder.tool("third-tool", &manifest("third_tool"));
        }
        folder.file(file, text);
        versions.push(version(&folder));
    }
    let mut builtin = two_tools();
    builtin.build_in("some_tool");
    std::fs::remove_file(builtin.tools().join("some-tool/handler.js")).unwrap();
    versions.push(version(&builtin));

    let count = versions.len();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), count);
}

#[test]
fn an_artifact_comes_back_as_it_was_written() {
    let folder = two_tools();
    let artifact = build(&folder);
    write_artifact(&artifact, &folder.artifact()).unwrap();
    let loaded = Artifact::load(&folder.artifact()).unwrap();
    assert_eq!(loaded.to_json(), artifact.to_json());
    let ids: Vec<&str> = loaded.tool_ids().map(ToolId::as_str).collect();
    assert_eq!(ids, ["other_tool", "some_tool"]);
    let left_behind: Vec<_> = std::fs::read_dir(folder.root.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left_behind.len(), 2, "{left_behind:?}");
}

#[test]
fn what_a_script_imports_is_part_of_it_and_nothing_else_is() {
    let folder = two_tools();
    folder
        .file(
            "some-tool/handler.js",
            format!("// uses _shared/a.js\n{HANDLER}"),
        )
        .file("_shared/a.js", "export const a = 1;\n")
        .file("_shared/b.js", "export const b = 1;\n");
    let artifact = build(&folder);
    write_artifact(&artifact, &folder.artifact()).unwrap();
    let loaded = Artifact::load(&folder.artifact()).unwrap();
    assert_eq!(loaded.to_json(), artifact.to_json());
    folder.file("_shared/b.js", "export const b = 2;\n");
    assert_eq!(version(&folder), artifact.version());
    Artifact::load(&folder.artifact()).unwrap();
    folder.file("_shared/a.js", "export const a = 2;\n");
    assert_ne!(version(&folder), artifact.version());
    let error = Artifact::load(&folder.artifact()).unwrap_err().to_string();
    expect!["the handler tools/_shared/a.js of the tool some_tool was changed after the artifact was built; run `windlass build`"].assert_eq(&error);
}

#[test]
fn an_artifact_that_was_changed_is_refused() {
    let folder = two_tools();
    let text = String::from_utf8(build(&folder).to_json()).unwrap();
    let load = |text: &str| {
        std::fs::write(folder.artifact(), text).unwrap();
        let error = Artifact::load(&folder.artifact()).unwrap_err();
        assert!(error.is_cured_by_building());
        error
            .to_string()
            .replace(&folder.root.path().display().to_string(), "")
    };
    for (from, to) in [
        (
            "\"requiresConfirmation\":false",
            "\"requiresConfirmation\":true",
        ),
        ("\"maxLength\":100", "\"maxLength\":101"),
        ("Does one thing well.", "Does two things well."),
        ("\"type\":\"STRING\"", "\"type\":\"NUMBER\""),
        ("\"toolId\":\"some_tool\"", "\"toolId\":\"sume_tool\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let error = load(&changed);
        assert!(
            error.contains("it was changed after it was built"),
            "{from}: {error}"
        );
    }
    expect!["the artifact /tool_registry.json is not one of ours: EOF while parsing an object at line 1 column 1; run `windlass build`"].assert_eq(&load("{"));
    expect!["the artifact /tool_registry.json has the form 9.0.0, and this program reads 1.0.0; run `windlass build`"].assert_eq(&load(&text.replace(
        "\"schemaVersion\": \"1.0.0\"",
        "\"schemaVersion\": \"9.0.0\"",
    )));

    let value: Value = serde_json::from_str(&text).unwrap();
    for laid_out_anew in [
        serde_json::to_string(&value).unwrap(),
        serde_json::to_string_pretty(&value).unwrap(),
        text.replace(",\"handler\":", ",\n    \"handler\":"),
        text.replace("\"providerSchemas\":", " \"providerSchemas\":"),
    ] {
        let error = load(&laid_out_anew);
        assert!(error.contains("is not one of ours"), "{error}");
    }
    let spaced = text.replace("\"toolId\":", "\"toolId\": ");
    assert!(load(&spaced).contains("it was changed after it was built"));

    std::fs::write(folder.artifact(), &text).unwrap();
    folder.file("some-tool/handler.js", format!("{HANDLER}// Changed.\n"));
    let error = Artifact::load(&folder.artifact()).unwrap_err().to_string();
    expect!["the handler tools/some-tool/handler.js of the tool some_tool was changed after the artifact was built; run `windlass build`"].assert_eq(&error);
    std::fs::remove_file(folder.tools().join("some-tool/handler.js")).unwrap();
    assert!(
        Artifact::load(&folder.artifact())
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );

    std::fs::remove_file(folder.artifact()).unwrap();
    let error = Artifact::load(&folder.artifact()).unwrap_err().to_string();
    assert!(error.contains("run `windlass build`"), "{error}");
}

#[test]
fn an_artifact_is_current_until_its_sources_change() {
    let folder = two_tools();
    let artifact = build(&folder);
    let path = folder.artifact();
    let tools = folder.tools();
    let is_current = |builtin| {
        is_current(
            &artifact,
            &Source {
                tools: &tools,
                artifact: &path,
                builtin,
                build_timestamp: "2031-01-01T00:00:00Z",
                vocabularies: &BTreeMap::new(),
                values: windlass_contract::condition::Values::none(),
                permissions: &Permissions::default(),
                judge: Some(&Judge),
            },
        )
    };
    assert!(is_current(&folder.builtin));
    let other_builtin = Builtin::from([(ToolId::parse("new_tool").unwrap(), None)]);
    assert!(!is_current(&other_builtin));
    folder.file("some-tool/notes.txt", "not part of it");
    assert!(is_current(&folder.builtin));
    folder.file("some-tool/guide.md", format!("{GUIDE}More.\n"));
    assert!(!is_current(&folder.builtin));
    std::fs::remove_dir_all(&tools).unwrap();
    assert!(!is_current(&folder.builtin));
}

#[test]
fn an_artifact_that_cannot_be_written_leaves_the_old_one() {
    let folder = two_tools();
    let artifact = build(&folder);
    std::fs::create_dir(folder.artifact()).unwrap();
    std::fs::write(folder.artifact().join("in-the-way"), "x").unwrap();
    let error = write_artifact(&artifact, &folder.artifact()).unwrap_err();
    assert!(error.to_string().contains("cannot be written"));
    assert_eq!(std::fs::read_dir(folder.root.path()).unwrap().count(), 2);
    assert!(write_artifact(&artifact, Path::new("/")).is_err());
}

/// A pipe stands for everything that is no file: a device in its place would be gone.
#[cfg(unix)]
#[test]
fn an_artifact_takes_the_place_of_regular_files_alone_and_links_are_followed() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let folder = two_tools();
    let artifact = build(&folder);
    let root = folder.root.path();
    let pipe = root.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let to_pipe = root.join("to-pipe");
    symlink("pipe", &to_pipe).unwrap();
    for path in [&pipe, &to_pipe] {
        let error = write_artifact(&artifact, path).unwrap_err().to_string();
        assert!(error.contains("is no regular file"), "{error}");
    }
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo());

    std::fs::create_dir(root.join("kept")).unwrap();
    for (link, target) in [("a.json", "kept/a.json"), ("b.json", "a.json")] {
        symlink(target, root.join(link)).unwrap();
        write_artifact(&artifact, &root.join(link)).unwrap();
        assert!(root.join(link).is_symlink());
        assert!(
            std::fs::symlink_metadata(root.join("kept/a.json"))
                .unwrap()
                .is_file()
        );
        assert!(Artifact::load(&root.join(link)).is_ok());
    }
    symlink("round.json", root.join("round.json")).unwrap();
    assert!(write_artifact(&artifact, &root.join("round.json")).is_err());
}
