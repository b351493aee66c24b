//! Files of data: JSON, JSON Lines, YAML and CSV beside Markdown, good and bad.

use crate::support::{folder, ids, open, request};
use windlass_knowledge::{AssetKind, AssetPlace, IngestLimits, KnowledgeBase, Options, asset};

/// The ids of a file's good records, and the lines and messages of its bad ones.
fn check(path: &str, text: &str, ids: &[&str], problems: &[(Option<usize>, &str)]) {
    let folder = folder(&[(path, text.as_bytes())]);
    let (base, report) = open(folder.path());
    let found: Vec<&str> = base.records().map(|record| record.id.as_str()).collect();
    assert_eq!(found, ids, "{text}: {:?}", report.problems);
    assert_eq!(
        report.problems.len(),
        problems.len(),
        "{text}: {:?}",
        report.problems
    );
    for (problem, (line, part)) in report.problems.iter().zip(problems) {
        assert_eq!(
            (problem.path.as_str(), problem.line),
            (path, *line),
            "{problem}"
        );
        assert!(problem.message.contains(part), "{problem}");
    }
}

#[test]
fn json_is_one_record_or_a_list_and_problems_have_their_lines() {
    check(
        "public/person/jo.json",
        r#"{"title": "Jo", "body": "A sailor."}"#,
        &["person:jo"],
        &[],
    );
    let list = r#"[
  {"id": "doc:a", "title": "A", "text": "Text."},
  {"id": "doc:b",
   "title": 7},
  {"title": "C", "type": "doc"},
  "no record",
  {"id": "doc:d", "title": "D"}
]"#;
    check(
        "all.json",
        list,
        &["doc:a", "doc:d"],
        &[
            (Some(3), "`title` is not text"),
            (Some(5), "`id` is missing: in a file of several"),
            (Some(6), "is no record"),
        ],
    );
    check(
        "bad.json",
        "[\n {\"id\": }\n]",
        &[],
        &[(Some(2), "not good JSON")],
    );
    check("bad.json", "", &[], &[(Some(1), "not good JSON")]);
    check(
        "bad.json",
        &"[".repeat(100_000),
        &[],
        &[(Some(1), "not good JSON")],
    );
    check("none.json", "[]", &[], &[]);
}

#[test]
fn a_list_of_records_may_stand_under_a_key() {
    let assets = r#"{
  "version": 2,
  "names": ["a"],
  "assets": [
    {"id": "Photo:A", "title": "A", "url": "https://h/a.png"},
    {"id": "doc:b", "title": 7}
  ]
}"#;
    check(
        "all.json",
        assets,
        &["photo:a"],
        &[(Some(6), "`title` is not text")],
    );
    check(
        "all.yaml",
        "assets:\n- id: doc:a\n  title: A\n- {id: doc:b, title: B}\n",
        &["doc:a", "doc:b"],
        &[],
    );
    // A record that has a list of objects stays one.
    check(
        "doc/one.json",
        r#"{"title": "One", "parts": [{"id": "doc:x", "title": "X"}]}"#,
        &["doc:one"],
        &[],
    );
    check(
        "doc/two.json",
        r##"{"a": [{"id": "doc:x", "title": "X"}], "b": [{"id": "doc:y", "title": "Y"}]}"##,
        &[],
        &[(Some(1), "`title` is missing")],
    );
    check(
        "all.json",
        r#"{"assets": [{"id": "doc:a", "title": "A"}], "assets": []}"#,
        &[],
        &[(Some(1), "the key \"assets\" is there twice")],
    );
}

#[test]
fn a_missing_field_is_asked_for_where_the_file_has_its_fields() {
    for (path, text, place) in [
        ("x.json", r#"{"title": "T"}"#, "add it to the JSON object"),
        ("x.yaml", "title: T\n", "add it to the YAML mapping"),
    ] {
        check(path, text, &[], &[(Some(1), place)]);
    }
    check(
        "x.csv",
        "id,body\ndoc:x,B\n",
        &[],
        &[(Some(2), "add it to the row")],
    );
}

#[test]
fn questions_with_answers_are_records_in_every_format() {
    let expected = ["faq:help_how_much_is_it", "faq:help_when_do_you_open"];
    for (path, text) in [
        (
            "help.csv",
            "Question,Answer,tags\nWhen do you open?,\"At nine, daily.\",hours;door\nHow much is it?,Twelve kroner.,\n",
        ),
        (
            "help.jsonl",
            "{\"question\": \"When do you open?\", \"answer\": \"At nine, daily.\", \"tags\": [\"hours\", \"door\"]}\n\
             {\"question\": \"How much is it?\", \"answer\": \"Twelve kroner.\"}\n",
        ),
        (
            "help.json",
            r#"{"faqs": [{"question": "When do you open?", "answer": "At nine, daily.", "tags": ["hours", "door"]},
                {"question": "How much is it?", "answer": "Twelve kroner."}]}"#,
        ),
        (
            "help.yaml",
            "- question: When do you open?\n  answer: At nine, daily.\n  tags: [hours, door]\n- question: How much is it?\n  answer: Twelve kroner.\n",
        ),
    ] {
        check(path, text, &expected, &[]);
        let folder = folder(&[(path, text.as_bytes())]);
        let (base, report) = open(folder.path());
        let record = base.records().nth(1).unwrap();
        assert_eq!(record.title, "When do you open?", "{path}");
        assert_eq!(record.body, "At nine, daily.", "{path}");
        assert_eq!(record.tags, ["hours", "door"], "{path}");
        assert!(record.metadata.is_empty(), "{path}: {:?}", record.metadata);
        assert_eq!(report.warnings, [], "{path}");
        let found = ids(&base, request("opening hours: when do you open"));
        assert_eq!(found[0], "faq:help_when_do_you_open", "{path}");
    }
    let long = format!("{}what?", "so ".repeat(150));
    for (path, text, ids, problems) in [
        // What the row says of itself goes first.
        (
            "support/help.csv",
            "id,question,answer\n17,When?,Nine.\n".to_owned(),
            &["support:17"][..],
            &[][..],
        ),
        (
            "help.jsonl",
            "{\"id\": 17, \"question\": \"When?\", \"answer\": \"Nine.\"}\n".to_owned(),
            &["faq:17"],
            &[],
        ),
        (
            "help.csv",
            "question,answer\nWhen?,Nine.\nwhen,Ten.\n,Eleven.\n".to_owned(),
            &["faq:help_when"],
            &[
                (Some(3), "is already that of help.csv"),
                (Some(4), "`id` is missing"),
            ],
        ),
        (
            "help.json",
            format!(r#"{{"id": "faq:long", "question": "{long}", "answer": "That."}}"#),
            &["faq:long"],
            &[],
        ),
    ] {
        check(path, &text, ids, problems);
    }
    let text = format!(r#"{{"id": "faq:long", "question": "{long}", "answer": "That."}}"#);
    let folder = folder(&[("help.json", text.as_bytes())]);
    let (base, _) = open(folder.path());
    let record = base.records().next().unwrap();
    // The hundredth word ends before the three hundredth letter.
    assert_eq!(record.title.chars().count(), 299);
    assert!(
        record.body.ends_with("so what?\n\nThat."),
        "{}",
        record.body
    );
}

#[test]
fn a_bad_line_of_json_lines_costs_only_itself() {
    check(
        "all.jsonl",
        "{\"id\": \"doc:a\", \"title\": \"A\"}\n\n{\"id\": \n{\"id\": \"doc:a\", \"title\": \"A\"}\n{\"id\": \"doc:b\", \"title\": \"B\"}",
        &["doc:a", "doc:b"],
        &[
            (Some(3), "the line is no JSON object"),
            (Some(4), "is already that of all.jsonl"),
        ],
    );
}

#[test]
fn yaml_is_one_record_or_a_list() {
    check(
        "public/doc/one.yaml",
        "title: One\nbody: |\n  Text.\n",
        &["doc:one"],
        &[],
    );
    check(
        "all.yml",
        "# people\n- id: doc:a\n  title: A\n- id: doc:b\n  title: [B]\n- plain\n- id: doc:c\n  title: C\n",
        &["doc:a", "doc:c"],
        &[(Some(4), "`title` is not text"), (Some(6), "is no record")],
    );
    check(
        "bad.yaml",
        "title: [a\n",
        &[],
        &[(Some(1), "not good YAML")],
    );
    check(
        "bad.yaml",
        "just words",
        &[],
        &[(Some(1), "neither a record nor a list")],
    );
    check("none.yaml", "", &[], &[]);
}

#[test]
fn rows_of_csv_are_records_with_lists_between_semicolons() {
    let text = "id,title,aliases,tags,body,ship\ndoc:a,A,One; Two,x;y,\"Text, with\na line\",Fram\ndoc:b,B\ndoc:c,,,,,\ndoc:d,D,,,,\n";
    check(
        "all.csv",
        text,
        &["doc:a", "doc:d"],
        &[
            (Some(4), "the row has 2 cells, not 6"),
            (Some(5), "`title` is missing"),
        ],
    );
    let folder = folder(&[("all.csv", text.as_bytes())]);
    let (base, _) = open(folder.path());
    let record = base.records().next().unwrap();
    assert_eq!(record.aliases, ["One", "Two"]);
    assert_eq!(record.tags, ["x", "y"]);
    assert_eq!(record.body, "Text, with\na line");
    assert_eq!(record.metadata["ship"], "Fram");
    assert_eq!(
        (record.source_type.as_str(), record.record_type.as_str()),
        ("csv", "doc")
    );
}

#[test]
fn binary_and_broken_text_is_reported_in_every_format() {
    for path in ["x.md", "x.json", "x.jsonl", "x.yaml", "x.csv"] {
        let folder = folder(&[(path, b"\x89PNG\r\n\x1a\n\0\0\0\xff\xfe")]);
        let (base, report) = open(folder.path());
        assert!(base.is_empty());
        assert!(
            report.problems[0].message.contains("not UTF-8"),
            "{path}: {report:?}"
        );
    }
}

#[test]
fn a_file_of_fifty_megabytes_is_left_out_and_said() {
    let big = vec![b' '; 50 * 1024 * 1024];
    for path in ["x.md", "x.jsonl"] {
        let folder = folder(&[
            (path, &big),
            ("ok.json", br#"{"id": "doc:a", "title": "A"}"#),
        ]);
        let (base, report) = open(folder.path());
        assert_eq!(base.len(), 1);
        assert!(
            report.problems[0].message.contains("larger than"),
            "{path}: {report:?}"
        );
    }
}

#[test]
fn photos_diagrams_and_videos_say_where_they_lie() {
    let text = r#"[
{"id": "photo:a", "title": "A", "file": "photos/a.JPG"},
{"id": "video:b", "title": "B", "url": "https://example.org/b.mp4?x=1"},
{"id": "diagram:c", "title": "C"},
{"id": "photo:d", "title": "D", "file": "../secret.png"},
{"id": "photo:e", "title": "E", "file": "/etc/passwd"},
{"id": "doc:f", "title": "F", "file": "anything"}]"#;
    check(
        "all.json",
        text,
        &["doc:f", "photo:a", "video:b"],
        &[
            (Some(4), "`url` is missing"),
            (Some(5), "`file` is no path below"),
            (Some(6), "`file` is no path below"),
        ],
    );
    let folder = folder(&[("all.json", text.as_bytes())]);
    let (base, _) = open(folder.path());
    let assets: Vec<_> = base.records().map(|record| asset(record)).collect();
    assert_eq!(assets[0], None);
    let photo = assets[1].as_ref().unwrap();
    assert_eq!(photo.kind, AssetKind::Photo);
    assert_eq!(photo.place, AssetPlace::File("photos/a.JPG".into()));
    assert_eq!(photo.mime_type, Some("image/jpeg"));
    let video = assets[2].as_ref().unwrap();
    assert_eq!(
        (video.kind, video.mime_type),
        (AssetKind::Video, Some("video/mp4"))
    );
}

#[test]
fn a_manifest_of_assets_keeps_descriptions_and_pictures() {
    let text = r#"{"version": 2, "assets": [
{"id": "ship", "type": "image", "title": "The Fram", "description": "A ship for ice.", "path": "photos/fram.jpg"},
{"id": "map", "type": "diagram", "title": "Route", "description": "Through the ice.", "src": "https://example.org/map.png"},
{"id": "doc:f", "type": "doc", "title": "F", "body": "Text.", "description": "Beside the text."}]}"#;
    let folder = folder(&[("assets.json", text.as_bytes())]);
    let (base, report) = open(folder.path());
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let records: Vec<_> = base.records().collect();
    let found: Vec<(&str, Option<AssetPlace>)> = records
        .iter()
        .map(|record| (record.body.as_str(), asset(record).map(|asset| asset.place)))
        .collect();
    let url = AssetPlace::Url("https://example.org/map.png".to_owned());
    let file = AssetPlace::File("photos/fram.jpg".to_owned());
    assert_eq!(found.len(), 3);
    for expected in [
        ("A ship for ice.", Some(file)),
        ("Through the ice.", Some(url)),
        ("Text.", None),
    ] {
        assert!(found.contains(&expected), "{found:?}");
    }
}

#[test]
fn a_key_that_is_there_twice_is_reported_and_neither_is_taken() {
    let good = r#"{"id": "doc:ok", "title": "Ok"}"#;
    for (path, text, line) in [
        (
            "x.jsonl",
            format!("{good}\n{{\"id\": \"doc:a\", \"title\": \"One\", \"title\": \"Two\"}}\n"),
            Some(2),
        ),
        (
            "x.json",
            format!(
                "[{good},\n{{\"id\": \"doc:a\", \"title\": \"One\", \"x\": [{{\"y\": 1, \"y\": 2}}]}}]"
            ),
            Some(2),
        ),
        (
            "x.json",
            format!(
                "[{good},\n{{\"id\": \"doc:a\", \"title\": \"One\", \"metadata\": {{\"title\": \"Two\"}}}}]"
            ),
            Some(2),
        ),
    ] {
        let folder = folder(&[(path, text.as_bytes())]);
        let (base, report) = open(folder.path());
        assert_eq!(base.len(), 1, "{text}");
        let problem = &report.problems[0];
        assert_eq!(problem.line, line, "{problem}");
        assert!(problem.message.contains("keep one of the two"), "{problem}");
    }
    for (path, text) in [
        (
            "x.json",
            r#"{"id": "doc:a", "title": "One", "title": "Two"}"#,
        ),
        ("x.csv", "id,title,ship, title\ndoc:a,One,Fram,Two\n"),
        ("x.yaml", "id: doc:a\ntitle: One\ntitle: Two\n"),
        (
            "x.md",
            "---\nid: doc:a\ntype: doc\ntitle: One\ntitle: Two\n---\n",
        ),
    ] {
        let folder = folder(&[(path, text.as_bytes())]);
        let (base, report) = open(folder.path());
        assert_eq!((base.len(), report.problems.len()), (0, 1), "{path}");
    }
}

#[test]
fn a_row_with_bad_quotes_or_bytes_costs_only_itself() {
    let unclosed = "a cell of the row opens a quote that nothing closes";
    let goes_on = "a cell of the row goes on behind its closing quote";
    check(
        "all.csv",
        "id,title,body\ndoc:a,A,\"open\ndoc:b,B,fine\ndoc:c,C,\"two\nlines\"\ndoc:d,\"D\"x,\ndoc:e,E,5\" wide\ndoc:f,\"F \"\"f\"\"\" ,last\n",
        &["doc:b", "doc:c", "doc:e", "doc:f"],
        &[(Some(2), goes_on), (Some(6), goes_on)],
    );
    check(
        "all.csv",
        "id,title,body\ndoc:a,A,\"open\ndoc:b,B,fine\ndoc:c,C,fine",
        &["doc:b", "doc:c"],
        &[(Some(2), unclosed)],
    );
    for (text, line) in [
        ("id,\"title\ndoc:a,A", 1),
        ("\n\r\nid,\"title\ndoc:a,A\ndoc:b,B", 3),
    ] {
        check("all.csv", text, &[], &[(Some(line), unclosed)]);
    }
    for (path, bytes) in [
        (
            "all.csv",
            &b"\xef\xbb\xbfid,title,body\ndoc:a,A,fine\ndoc:b,B,\"caf\xe9\nbar\"\ndoc:c,C,fine\n"[..],
        ),
        (
            "all.jsonl",
            &b"\xef\xbb\xbf\n{\"id\": \"doc:a\", \"title\": \"A\"}\n{\"id\": \"doc:b\", \"title\": \"caf\xe9\"}\n{\"id\": \"doc:c\", \"title\": \"C\"}\n"[..],
        ),
    ] {
        let folder = folder(&[(path, bytes)]);
        let (base, report) = open(folder.path());
        let found: Vec<&str> = base.records().map(|record| record.id.as_str()).collect();
        assert_eq!(found, ["doc:a", "doc:c"], "{:?}", report.problems);
        assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
        assert_eq!(report.problems[0].line, Some(3));
        assert!(report.problems[0].message.contains("not UTF-8"));
    }
}

#[test]
fn a_bad_item_of_a_yaml_list_costs_only_itself() {
    check(
        "all.yml",
        "# people\n- id: doc:a\n  title: A\n- id: doc:b\n  title: B\n  title: C\n-\n  id: doc:c\n  title: C\n- [open\n- id: doc:d\n  title: D\n",
        &["doc:a", "doc:c", "doc:d"],
        &[
            (Some(6), "the item is not good YAML"),
            (Some(10), "the item is not good YAML"),
        ],
    );
}

#[test]
fn metadata_that_is_no_object_is_reported() {
    check(
        "all.jsonl",
        "{\"id\": \"doc:a\", \"title\": \"A\", \"metadata\": 7}\n{\"id\": \"doc:b\", \"title\": \"B\", \"metadata\": null}",
        &["doc:b"],
        &[(Some(1), "`metadata` is no object")],
    );
}

#[test]
fn questions_without_answers_are_found_and_warned_of_in_one_line() {
    for (path, text) in [
        (
            "faq.csv",
            "question,answer\nHow do I reset it?,\nWhere is it?,\" \"\n",
        ),
        ("faq.csv", "question\nHow do I reset it?\nWhere is it?\n"),
        (
            "faq.json",
            "[{\"question\": \"How do I reset it?\", \"answer\": null}, {\"question\": \"Where is it?\"}]",
        ),
    ] {
        let folder = folder(&[(path, text.as_bytes())]);
        let (base, report) = open(folder.path());
        assert_eq!((base.len(), report.problems.len()), (2, 0), "{text}");
        let [warning] = &report.warnings[..] else {
            panic!("{text}: {:?}", report.warnings);
        };
        let warning = warning.to_string();
        assert!(
            warning.starts_with(path) && warning.contains("2 records have no text"),
            "{warning}"
        );
        assert_eq!(
            ids(&base, request("how can I reset it"))[0],
            "faq:faq_how_do_i_reset_it"
        );
    }
}

#[test]
fn what_nobody_sees_is_taken_out_and_pictures_of_signs_stay() {
    let folder = folder(&[(
        "all.jsonl",
        "{\"id\": \"doc:a\", \"title\": \"Amund\u{ad}sen\u{3164}\u{180e}\", \"body\": \"a\u{fe0f}b\u{e0100}c\u{fe01}d ❤\u{fe0f}\u{fe0f} ☀\u{fe0f}\u{e01ef}\"}"
            .as_bytes(),
    )]);
    let (base, report) = open(folder.path());
    let record = base.records().next().unwrap();
    assert_eq!(report.problems.len(), 0);
    assert_eq!(record.title, "Amundsen");
    assert_eq!(record.body, "abcd ❤\u{fe0f} ☀\u{fe0f}");
}

#[test]
fn a_file_that_a_record_names_and_that_is_not_there_is_reported_and_the_record_kept() {
    let folder = folder(&[
        (
            "photos.jsonl",
            b"{\"id\": \"photo:deck\", \"title\": \"Deck\", \"file\": \"photos/deck.png\"}\n{\"id\": \"photo:gone\", \"title\": \"Gone\", \"file\": \"photos/gone.png\"}",
        ),
        ("photos/deck.png", b"\x89PNG"),
    ]);
    let (base, report) = open(folder.path());
    assert_eq!((base.records().count(), report.problems.len()), (2, 0));
    let [missing] = &report.warnings[..] else {
        panic!("{:?}", report.warnings);
    };
    assert_eq!(
        missing.to_string(),
        "photos.jsonl:2: photo:gone names the file photos/gone.png, which is not there: put it there, or name another"
    );
    assert_eq!(report.warnings_untold, 0);
    let limits = IngestLimits {
        problems_max: 0,
        ..IngestLimits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let (_, report) = KnowledgeBase::open(folder.path(), &options).unwrap();
    let counts = (report.warnings.len(), report.warnings_untold);
    assert_eq!(counts, (0, 1), "what is not told is counted");
}
