//! Every way in which a tool directory as a whole can be bad, and what its author is told.

use crate::fixture::{Folder, GUIDE, manifest};
use expect_test::{Expect, expect};
use serde_json::json;
use windlass_compile::problem::Severity;

fn check(build: impl FnOnce(&mut Folder), expected: Expect) {
    let mut folder = Folder::new();
    build(&mut folder);
    expected.assert_eq(&folder.problems());
}

#[test]
fn a_good_directory_has_no_problems() {
    check(
        |folder| {
            folder.tool("some-tool", &manifest("some_tool"));
        },
        expect![""],
    );
}

#[test]
fn a_folder_that_is_absent_empty_or_a_file_says_what_to_do() {
    check(
        |folder| std::fs::remove_dir(folder.tools()).unwrap(),
        expect![
            "tools: error: there is no such folder (create it with one directory per tool, or name another folder with --tools)"
        ],
    );
    check(
        |_| {},
        expect![
            "tools: error: the folder holds no tool (add a directory with schema.json, guide.md and a handler, or name another folder with --tools)"
        ],
    );
    check(
        |folder| {
            std::fs::remove_dir(folder.tools()).unwrap();
            std::fs::write(folder.tools(), "x").unwrap();
        },
        expect![
            "tools: error: this is a file, not a folder of tools (name a folder with one directory per tool with --tools)"
        ],
    );
    check(
        |folder| {
            folder
                .file("_draft/schema.json", "{")
                .file(".git/x", "")
                .file("README.md", "");
        },
        expect![
            "tools: error: the folder holds no tool (add a directory with schema.json, guide.md and a handler, or name another folder with --tools)"
        ],
    );
}

#[test]
fn files_that_are_missing_are_all_named() {
    check(
        |folder| std::fs::create_dir(folder.tools().join("some-tool")).unwrap(),
        expect![[r#"
            tools/some-tool/schema.json: error: the file is missing (add it with description, sideEffects and parameters, or begin the directory's name with _ to leave it out)
            tools/some-tool/guide.md: error: the file is missing (add it: a title, one line that says what the tool does and when to call it, and what else a model should know)
            tools/some-tool/handler.js: error: the tool `some_tool` has no handler: none is built in, and there is no such file (add a handler.js or handler.ts that exports execute, or a handler.json, or begin the directory's name with _ to leave it out)"#]],
    );
    check(
        |folder| {
            folder
                .tool("some-tool", &manifest("some_tool"))
                .file("some-tool/doc.md", "# Old");
            std::fs::remove_file(folder.tools().join("some-tool/guide.md")).unwrap();
        },
        expect![
            "tools/some-tool/doc_summary.md: error: the file is missing (doc_summary.md and doc.md come together; add it, or write one guide.md instead)"
        ],
    );
}

#[test]
fn json_that_is_none_is_reported_with_its_line_and_column() {
    for (text, expected) in [
        (
            "{\n  \"toolId\": \"some_tool\",\n}",
            expect![
                "tools/some-tool/schema.json:3:1: error: this is not valid JSON: trailing comma (correct the JSON; comments and trailing commas are not part of it)"
            ],
        ),
        (
            "{\n  \"toolId\": 1,\n  \"toolId\": 2\n}",
            expect![[
                r#"tools/some-tool/schema.json:3:10: error: this is not valid JSON: the key "toolId" is there twice: keep one of the two (correct the JSON; comments and trailing commas are not part of it)"#
            ]],
        ),
        (
            "",
            expect![
                "tools/some-tool/schema.json:1:1: error: this is not valid JSON: EOF while parsing a value (correct the JSON; comments and trailing commas are not part of it)"
            ],
        ),
        (
            "[1]",
            expect![
                "tools/some-tool/schema.json:1:1: error: schema.json holds an array, not an object (write an object with description, sideEffects and parameters)"
            ],
        ),
    ] {
        check(
            |folder| {
                folder
                    .tool("some-tool", &manifest("some_tool"))
                    .file("some-tool/schema.json", text);
            },
            expected,
        );
    }
    check(
        |folder| {
            folder
                .tool("some-tool", &manifest("some_tool"))
                .file("some-tool/schema.json", "[".repeat(100_000));
        },
        expect![
            "tools/some-tool/schema.json:1:128: error: this is not valid JSON: recursion limit exceeded (correct the JSON; comments and trailing commas are not part of it)"
        ],
    );
}

#[test]
fn the_id_and_the_directory_agree_and_no_two_tools_share_an_id() {
    check(
        |folder| {
            folder
                .tool("a-tool", &manifest("b_tool"))
                .tool("b-tool", &manifest("b_tool"));
        },
        expect![[r#"
            tools/a-tool/schema.json:32:3: error: `toolId` is `b_tool`, but the directory is `a-tool` (write "a_tool", or rename the directory to b-tool)
            tools/b-tool/schema.json:32:3: error: the tool `b_tool` is in the directory `a-tool` already (give one of them another id and directory)"#]],
    );
    check(
        |folder| {
            folder.tool("Some_Tool", &manifest("some_tool"));
        },
        expect![
            "tools/Some_Tool: error: the directory's name is not in kebab-case (rename it to some-tool, or begin it with _ to leave it out)"
        ],
    );
}

#[test]
fn files_that_are_no_text_or_too_long_are_not_read() {
    check(
        |folder| {
            folder
                .tool("some-tool", &manifest("some_tool"))
                .file("some-tool/schema.json", b"{\n \"toolId\": \"\xff\"}")
                .file("some-tool/guide.md", vec![b'x'; 1024 * 1024 + 1]);
        },
        expect![[r#"
            tools/some-tool/schema.json:2:13: error: the file is not UTF-8 (save it as UTF-8)
            tools/some-tool/guide.md: error: the file is 1048577 bytes long (keep it within 1 MiB (1048576 bytes))"#]],
    );
    check(
        |folder| {
            folder
                .tool("some-tool", &manifest("some_tool"))
                .file("some-tool/schema.json", vec![b' '; 10 * 1024 * 1024]);
        },
        expect![
            "tools/some-tool/schema.json: error: the file is 10485760 bytes long (keep it within 1 MiB (1048576 bytes))"
        ],
    );
}

#[cfg(unix)]
#[test]
fn symbolic_links_are_refused() {
    use std::os::unix::fs::symlink;
    check(
        |folder| {
            folder.tool("some-tool", &manifest("some_tool"));
            symlink(
                folder.tools().join("some-tool"),
                folder.tools().join("other-tool"),
            )
            .unwrap();
            let guide = folder.tools().join("some-tool/guide.md");
            std::fs::remove_file(&guide).unwrap();
            symlink("/etc/passwd", guide).unwrap();
            symlink("/etc/passwd", folder.tools().join("some-tool/notes.md")).unwrap();
        },
        expect![[r#"
            tools/other-tool: error: this is a symbolic link (put the directory itself here; what a link leads to can change unseen)
            tools/some-tool/notes.md: error: this is a symbolic link (put the file itself here; what a link leads to can change unseen)
            tools/some-tool/guide.md: error: this is a symbolic link (put the file itself here; what a link leads to can change unseen)"#]],
    );
}

#[test]
fn a_tool_has_exactly_one_handler() {
    check(
        |folder| {
            folder.tool("some-tool", &manifest("some_tool")).file(
                "some-tool/handler.json",
                r#"{"kind": "http", "method": "GET", "url": "https://a.example/"}"#,
            );
        },
        expect![
            "tools/some-tool/handler.json: error: the tool has two handlers, handler.js and handler.json (remove one of them)"
        ],
    );
    check(
        |folder| {
            folder.tool("some-tool", &manifest("some_tool"));
            std::fs::remove_file(folder.tools().join("some-tool/handler.js")).unwrap();
        },
        expect![
            "tools/some-tool/handler.js: error: the tool `some_tool` has no handler: none is built in, and there is no such file (add a handler.js or handler.ts that exports execute, or a handler.json, or begin the directory's name with _ to leave it out)"
        ],
    );
}

#[test]
fn a_handler_file_wins_over_a_built_in_handler() {
    let mut folder = Folder::new();
    folder.build_in("some_tool");
    folder.tool("some-tool", &manifest("some_tool"));
    let compilation = folder.compile();
    let notes: Vec<&str> = compilation
        .problems
        .iter()
        .filter(|problem| problem.message.contains("built-in"))
        .map(|problem| problem.message.as_str())
        .collect();
    assert_eq!(
        notes,
        ["this handler takes the place of the built-in one of `some_tool`"]
    );
    assert!(compilation.artifact.is_some());
}

#[test]
fn other_handlers_beside_a_handler_are_refused() {
    check(
        |folder| {
            folder
                .tool("some-tool", &manifest("some_tool"))
                .file("some-tool/handler.mjs", "")
                .file("some-tool/handler.py", "")
                .file("some-tool/handler.test.js", "")
                .file("some-tool/handler.js~", "")
                .file("some-tool/handler.d/notes.txt", "")
                .file("some-tool/handlers.md", "");
        },
        expect![[r#"
            tools/some-tool/handler.mjs: error: a tool has one handler: built in, handler.js, handler.ts, or handler.json (remove the file, or give it another name if it is no handler)
            tools/some-tool/handler.py: error: a tool has one handler: built in, handler.js, handler.ts, or handler.json (remove the file, or give it another name if it is no handler)"#]],
    );
}

#[test]
fn a_script_is_what_its_engine_can_run() {
    check(
        |folder| {
            folder
                .tool("some-tool", &manifest("some_tool"))
                .file("some-tool/handler.js", "bad\n");
        },
        expect!["tools/some-tool/handler.js:2:3: error: it is bad (make it good)"],
    );
    check(
        |folder| {
            folder.judge = None;
            folder.tool("some-tool", &manifest("some_tool"));
        },
        expect![
            "tools/some-tool/handler.js: error: this build cannot run scripts (build the program with its script engine, or write the handler another way)"
        ],
    );
    check(
        |folder| {
            folder
                .tool("some-tool", &manifest("some_tool"))
                .file("some-tool/lib/long.js", "x".repeat(1024 * 1024 + 1))
                .file(
                    "some-tool/node_modules/y/long.js",
                    "x".repeat(1024 * 1024 + 1),
                )
                .file("_shared/bytes.js", [0xff]);
        },
        expect![[r#"
            tools/_shared/bytes.js:1:1: error: the file is not UTF-8 (save it as UTF-8)
            tools/some-tool/lib/long.js: error: the file is 1048577 bytes long (keep it within 1 MiB (1048576 bytes))"#]],
    );
}

#[test]
fn a_script_says_which_answers_it_gives() {
    for (version, severity) in [
        ("1.1.0", Some(Severity::Note)),
        ("1.0.0", Some(Severity::Note)),
        ("2.0.0", Some(Severity::Error)),
        ("soon", Some(Severity::Error)),
        ("", None),
    ] {
        let folder = Folder::new();
        let script = match version {
            "" => "export async function execute() {}".to_owned(),
            version => format!("// speaks {version}\nexport async function execute() {{}}"),
        };
        folder
            .tool("some-tool", &manifest("some_tool"))
            .file("some-tool/handler.js", script);
        let compilation = folder.compile();
        let about = format!("the handler speaks response version {version:?}");
        let problems = compilation.problems.iter();
        let found: Vec<Severity> = problems
            .filter(|problem| problem.message.starts_with("the handler speaks"))
            .map(|problem| {
                assert_eq!(problem.message, about);
                problem.severity
            })
            .collect();
        assert_eq!(found, Vec::from_iter(severity), "{version}");
        assert_eq!(
            compilation.artifact.is_none(),
            severity == Some(Severity::Error)
        );
    }
}

#[test]
fn a_value_of_the_conversation_has_one_schema() {
    let basket = |kind: &str| {
        let mut schema = manifest("some_tool");
        schema["state"] = json!({"basket": {"type": kind}});
        schema
    };
    check(
        |folder| {
            let mut other = basket("array");
            other["toolId"] = "other_tool".into();
            folder
                .tool("some-tool", &basket("object"))
                .tool("other-tool", &other);
        },
        expect![
            "tools/some-tool/schema.json: error: the value `basket` has another schema in the tool `other_tool` (write the same schema in both, or give one of them another key)"
        ],
    );
    check(
        |folder| {
            let mut other = basket("array");
            other["toolId"] = "other_tool".into();
            folder
                .tool("some-tool", &basket("array"))
                .tool("other-tool", &other);
        },
        expect![""],
    );
}

#[test]
fn examples_are_checked_under_every_heading_that_is_about_examples() {
    for (heading, checked) in [
        ("## Examples ##", true),
        ("## Usage Examples", true),
        ("## Example", true),
        ("### Example 2: with guests", true),
        ("## Examples:", true),
        ("## Bad examples", false),
        ("## Example response", false),
        ("## Exemplary", false),
        ("# Example sentences", false),
    ] {
        let folder = Folder::new();
        folder.tool("some-tool", &manifest("some_tool")).file(
            "some-tool/guide.md",
            format!("{GUIDE}\n{heading}\n\n### More\n\n```json\n{{\"title\": 5}}\n```\n"),
        );
        let problems = folder.problems();
        // A heading of the same level ends them.
        let expected = checked && !heading.starts_with("###");
        assert_eq!(
            problems.contains("the example breaks"),
            expected,
            "{heading}: {problems}"
        );
    }
}

#[test]
fn a_guide_has_a_title_a_short_summary_and_true_examples() {
    let long = format!("# T\n\n{}\n", "x".repeat(251));
    let example =
        |json: &str| format!("{GUIDE}\n## Examples\n\nLike this:\n\n```json\n{json}\n```\n");
    for (text, expected) in [
        (GUIDE.replace('\n', "\r\n"), expect![""]),
        (format!("\u{feff}{GUIDE}"), expect![""]),
        (
            String::new(),
            expect![[r#"
            tools/some-tool/guide.md: error: the guide has no title (begin it with a heading such as `# Search the knowledge base`)
            tools/some-tool/guide.md: error: there is no summary (write one line of at most 250 characters under the title: what the tool does and when to call it)"#]],
        ),
        (
            long,
            expect![
                "tools/some-tool/guide.md:3: error: the summary is 251 characters long (shorten the first line to 250 characters, or break it there; the rest of the guide may be as long as it needs)"
            ],
        ),
        (example("{\"title\": \"Tea\"}"), expect![""]),
        (
            example("{\n  \"titel\": \"Tea\",\n  \"attendees\": [\"a@x.org\", \"nobody\"]\n}"),
            expect![[r#"
                tools/some-tool/guide.md:10:1: error: the example breaks the tool's parameters at /title: `title` is required (correct the example or the parameters; models copy what they read here)
                tools/some-tool/guide.md:11:3: error: the example breaks the tool's parameters at /titel: there is no argument named `titel` (correct the example or the parameters; models copy what they read here)
                tools/some-tool/guide.md:12:28: error: the example breaks the tool's parameters at /attendees/1: must be a valid email (correct the example or the parameters; models copy what they read here)"#]],
        ),
        (
            example("{ title: 1 }"),
            expect![
                "tools/some-tool/guide.md:10:3: error: the example is not valid JSON: key must be a string (correct it, or leave the word json off its fence)"
            ],
        ),
        (
            format!("{GUIDE}\n## Notes\n\n```json\n{{\"titel\": 1}}\n```\n"),
            expect![""],
        ),
        // A mark of a block quote inside a block that stands in none is a part of it.
        (
            example("> {\"title\": \"Tea\"}"),
            expect![
                "tools/some-tool/guide.md:10:1: error: the example is not valid JSON: expected value (correct it, or leave the word json off its fence)"
            ],
        ),
        // In a block quote, under a line, and behind a tab, too.
        (
            format!(
                "{GUIDE}\n## Examples\n\n> ```json\n> {{\"titel\": 1,\n>  \"title\": \"x\"}}\n> ```\n"
            ),
            expect![
                "tools/some-tool/guide.md:8:2: error: the example breaks the tool's parameters at /titel: there is no argument named `titel` (correct the example or the parameters; models copy what they read here)"
            ],
        ),
        (
            format!("{GUIDE}\n## Examples\n\n> ```json\n> {{\"titel\": 1}}\n\nMore.\n"),
            expect![[r#"
                tools/some-tool/guide.md:8:1: error: the example breaks the tool's parameters at /title: `title` is required (correct the example or the parameters; models copy what they read here)
                tools/some-tool/guide.md:8:2: error: the example breaks the tool's parameters at /titel: there is no argument named `titel` (correct the example or the parameters; models copy what they read here)"#]],
        ),
        (
            format!("{GUIDE}\nExamples\n--------\n\n```json\n{{\"titel\": 1}}\n```\n"),
            expect![[r#"
                tools/some-tool/guide.md:9:1: error: the example breaks the tool's parameters at /title: `title` is required (correct the example or the parameters; models copy what they read here)
                tools/some-tool/guide.md:9:2: error: the example breaks the tool's parameters at /titel: there is no argument named `titel` (correct the example or the parameters; models copy what they read here)"#]],
        ),
        (
            "Title\n=====\n\nIt does something.\n".to_owned(),
            expect![""],
        ),
        ("#\tTitle\n\nIt does something.\n".to_owned(), expect![""]),
        (
            format!("{GUIDE}\n## Examples\n\n```json\n{{\"title\": \"x\"}}\n"),
            expect![
                "tools/some-tool/guide.md:7: error: the fenced block is never closed (close it with a line of three backticks)"
            ],
        ),
    ] {
        check(
            |folder| {
                folder
                    .tool("some-tool", &manifest("some_tool"))
                    .file("some-tool/guide.md", text);
            },
            expected,
        );
    }
}

#[test]
fn the_older_pair_of_documents_needs_its_seven_sections() {
    let whole = "# T\n\n## Summary\nx\n## Preconditions\n## Postconditions\n## Invariants\n## Failure Modes\n## Examples\n### One\n```json\n{\"title\": 5}\n```\n## Common Mistakes (Do Not)\n";
    for (doc, expected) in [
        (whole.replace("5", "\"Tea\""), expect![""]),
        (
            whole.to_owned(),
            expect![
                "tools/some-tool/doc.md:12:2: error: the example breaks the tool's parameters at /title: must be a string (correct the example or the parameters; models copy what they read here)"
            ],
        ),
        // What shows what the tool answers is no example of arguments, and what is no JSON cannot be judged.
        (
            whole.replace(
                "{\"title\": 5}\n```\n",
                "{\"title\": \"Tea\"}\n```\n\n**Response:**\n\n```json\n{\"ok\": true}\n```\n### Two\n```json\n{\"title\": \"x\"} // short\n```\n### Three\n```json\n{\"ok\": true}\n```\n",
            ),
            expect![[r#"
                tools/some-tool/doc.md:17: warning: the example shows a response, so it is not checked (nothing to do, or write a guide.md, where examples are arguments)
                tools/some-tool/doc.md:22:16: warning: the example is not valid JSON: trailing characters (correct it, or leave the word json off its fence)
                tools/some-tool/doc.md:26:1: error: the example breaks the tool's parameters at /title: `title` is required (correct the example or the parameters; models copy what they read here)
                tools/some-tool/doc.md:26:2: error: the example breaks the tool's parameters at /ok: there is no argument named `ok` (correct the example or the parameters; models copy what they read here)"#]],
        ),
        (
            "# T\n\n## Summary\n\n## Examples\n".to_owned(),
            expect![[r#"
            tools/some-tool/doc.md: error: the section `## Common Mistakes` is missing (add it; doc.md has the sections Summary, Preconditions, Postconditions, Invariants, Failure Modes, Examples, Common Mistakes)
            tools/some-tool/doc.md: error: the section `## Failure Modes` is missing (add it; doc.md has the sections Summary, Preconditions, Postconditions, Invariants, Failure Modes, Examples, Common Mistakes)
            tools/some-tool/doc.md: error: the section `## Invariants` is missing (add it; doc.md has the sections Summary, Preconditions, Postconditions, Invariants, Failure Modes, Examples, Common Mistakes)
            tools/some-tool/doc.md: error: the section `## Postconditions` is missing (add it; doc.md has the sections Summary, Preconditions, Postconditions, Invariants, Failure Modes, Examples, Common Mistakes)
            tools/some-tool/doc.md: error: the section `## Preconditions` is missing (add it; doc.md has the sections Summary, Preconditions, Postconditions, Invariants, Failure Modes, Examples, Common Mistakes)"#]],
        ),
    ] {
        check(
            |folder| {
                folder
                    .tool("some-tool", &manifest("some_tool"))
                    .file("some-tool/doc_summary.md", "Does one thing.\n")
                    .file("some-tool/doc.md", doc);
                std::fs::remove_file(folder.tools().join("some-tool/guide.md")).unwrap();
            },
            expected,
        );
    }
}

#[test]
fn all_problems_of_all_tools_are_reported_at_once() {
    check(
        |folder| {
            let mut bad = manifest("a_tool");
            bad["category"] = json!("magic");
            bad["parameters"]["properties"]["title"]["type"] = json!("strng");
            folder
                .tool("a-tool", &bad)
                .file("a-tool/guide.md", "no title\n")
                .file("b-tool/schema.json", "{")
                .tool("c-tool", &manifest("c_tool"));
        },
        expect![[r#"
            tools/a-tool/schema.json:6:3: error: `category` is `magic`, which it cannot be (write one of retrieval, action, utility)
            tools/a-tool/schema.json:22:9: error: there is no type `strng` (did you mean `string`?)
            tools/a-tool/guide.md: error: the guide has no title (begin it with a heading such as `# Search the knowledge base`)
            tools/b-tool/schema.json:1:1: error: this is not valid JSON: EOF while parsing an object (correct the JSON; comments and trailing commas are not part of it)
            tools/b-tool/guide.md: error: the file is missing (add it: a title, one line that says what the tool does and when to call it, and what else a model should know)
            tools/b-tool/handler.js: error: the tool `b_tool` has no handler: none is built in, and there is no such file (add a handler.js or handler.ts that exports execute, or a handler.json, or begin the directory's name with _ to leave it out)"#]],
    );
}

#[test]
fn a_problem_serializes_for_programs() {
    let folder = Folder::new();
    folder.tool("some-tool", &manifest("other_tool"));
    let problems = folder.compile().problems;
    let error = problems
        .iter()
        .find(|problem| problem.severity == Severity::Error);
    let mut value = serde_json::to_value(error).unwrap();
    value["file"] = json!("F");
    assert_eq!(
        value,
        json!({
            "file": "F", "line": 32, "column": 3, "severity": "error", "tool": "some-tool",
            "message": "`toolId` is `other_tool`, but the directory is `some-tool`",
            "cure": "write \"some_tool\", or rename the directory to other-tool",
        })
    );
}

#[test]
fn more_tools_than_openai_takes_are_a_note_for_each_mode() {
    let notes = |in_voice: usize| {
        let folder = Folder::new();
        for number in 0..129 {
            let mut tool = manifest(&format!("tool_{number}"));
            if number >= in_voice {
                tool["allowedModes"] = json!(["text"]);
            }
            folder.tool(&format!("tool-{number}"), &tool);
        }
        let compilation = folder.compile();
        assert!(compilation.artifact.is_some());
        let notes = compilation
            .problems
            .iter()
            .filter(|problem| problem.message.contains("OpenAI takes"));
        notes
            .map(|problem| (problem.severity, problem.message.clone()))
            .collect::<Vec<_>>()
    };
    let note = |mode: &str| {
        (
            Severity::Note,
            format!("129 tools are for {mode}, and OpenAI takes 128 in one request"),
        )
    };
    assert_eq!(notes(128), [note("text")]);
    assert_eq!(notes(129), [note("text"), note("voice")]);
}
