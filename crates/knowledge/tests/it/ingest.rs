//! Folders good and bad: what is kept, what is reported and where.

use crate::support::{folder, get, open};
use windlass_contract::handler::Record;
use windlass_knowledge::{
    Access, FolderError, IngestLimits, IngestReport, KnowledgeBase, OpenError, Options,
};

/// The record of a folder whose configuration names the namespace `studio`.
fn only_record(path: &str, text: &str) -> Record {
    let folder = folder(&[(path, text.as_bytes())]);
    let options = Options {
        access: Access::open(["studio".to_owned()]),
        ..Options::default()
    };
    let (base, report) = KnowledgeBase::open(folder.path(), &options).unwrap();
    assert_eq!(report.problems, [], "{text}");
    base.records().next().unwrap().as_ref().clone()
}

/// One bad file between two good ones: it is reported where it is bad, and the others are kept.
fn check(bytes: impl AsRef<[u8]>, line: Option<usize>, message_part: &str) {
    let bytes = bytes.as_ref();
    let good = |id: &str| format!("---\nid: doc:{id}\ntype: doc\ntitle: T\n---\nText.\n");
    let folder = folder(&[
        ("a.md", good("a").as_bytes()),
        ("public/bad.md", bytes),
        ("z.md", good("z").as_bytes()),
    ]);
    let (base, report) = open(folder.path());
    let shown = String::from_utf8_lossy(bytes);
    let shown = &shown[..shown.floor_char_boundary(200)];
    assert_eq!((base.len(), report.records), (2, 2), "{shown}");
    let [problem] = &report.problems[..] else {
        panic!("{shown}: {:?}", report.problems);
    };
    assert_eq!(problem.path, "public/bad.md");
    assert_eq!(problem.line, line, "{shown}: {problem}");
    assert!(problem.message.contains(message_part), "{shown}: {problem}");
}

#[test]
fn a_file_without_good_front_matter_is_reported_with_its_place() {
    check("", None, "the file is empty");
    check(" \n\n", None, "the file is empty");
    check("---\nid: doc:x\ntype: doc\n", Some(1), "has no end");
    check("---\nid: doc:x\ntype: [\n---\n", Some(3), "not good YAML");
    check("---\ntype: doc\n\tid: x\n---\n", Some(2), "not good YAML");
    check("---\n- a\n- b\n---\n", Some(2), "not good YAML");
    check(
        "---\nid: doc:x\ntype: doc\nid: doc:y\n---\n",
        Some(4),
        "not good YAML",
    );
    check(b"---\ntype: doc\ntitle: \xff\n---\n", Some(3), "not UTF-8");
    check(
        b"---\ntype: doc\ntitle: T\n---\n\none\n\xc3",
        Some(7),
        "not UTF-8",
    );
    check(
        format!(
            "---\ntype: doc\ntitle: T\nnote: {}\n---\n",
            "x".repeat(70_000)
        ),
        Some(1),
        "longer than 65536 bytes",
    );
    check(
        format!("---\ntype: doc\ntitle: T\n---\n{}", "x".repeat(1024 * 1024)),
        None,
        "larger than 1048576 bytes",
    );
}

#[test]
fn a_record_with_a_bad_field_is_reported_with_its_place() {
    check(
        "---\ntype: doc\nid: 7.5\ntitle: T\n---\n",
        Some(3),
        "`id` is not text: put it in quotes",
    );
    check(
        "---\nid: doc:../../x\ntype: doc\ntitle: T\n---\n",
        Some(2),
        "`id`",
    );
    check(
        "---\nid: x y\ntype: doc\ntitle: T\n---\n",
        Some(2),
        "after the colon use",
    );
    check(
        "---\nid: person:x\ntype: doc\ntitle: T\n---\n",
        Some(2),
        "make them the same",
    );
    check(
        "---\ntype: Some Thing\ntitle: T\n---\n",
        Some(2),
        "`type` is \"Some Thing\"",
    );
    check(
        "---\ntype: doc\ntitle: T\naliases: one\n---\n",
        Some(4),
        "`aliases` is not a list",
    );
    check(
        "---\ntype: doc\ntitle: T\ntags: [[a]]\n---\n",
        Some(4),
        "`tags` is not a list",
    );
    check(
        "---\ntype: doc\ntitle: T\nurl: ftp://x\n---\n",
        Some(4),
        "`url`",
    );
    check(
        "---\ntype: doc\ntitle: T\nlast_updated: 2024-02-30\n---\n",
        Some(4),
        "`last_updated` is \"2024-02-30\", which is no date",
    );
    check(
        "---\ntype: doc\nnamespace: ../x\ntitle: T\n---\n",
        Some(3),
        "`namespace`",
    );
}

#[test]
fn an_alias_bomb_is_a_bad_record_and_no_more() {
    let mut front = "---\ntype: doc\ntitle: T\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        front += &format!(
            "a{level}: &a{level} [{}]\n",
            [below.as_str(); 10].join(", ")
        );
    }
    front += "---\n";
    let folder = folder(&[("public/bomb.md", front.as_bytes())]);
    let (base, report) = open(folder.path());
    assert_eq!(
        (base.len(), report.problems.len()),
        (0, 1),
        "{:?}",
        report.problems
    );
}

#[test]
fn what_the_front_matter_leaves_out_comes_from_the_path_and_the_text() {
    let record = only_record(
        "studio/person/Ada-Lovelace.md",
        "\u{feff}---\r\ntags: [maths, 1843]\r\nborn: 1815\r\n---\r\n\r\n# Ada Lovelace\r\n\r\nShe wrote.\r\n",
    );
    assert_eq!(record.id, "person:ada_lovelace");
    assert_eq!(record.namespace, "studio");
    assert_eq!(record.record_type, "person");
    assert_eq!(record.title, "Ada Lovelace");
    assert_eq!(record.body, "# Ada Lovelace\n\nShe wrote.");
    assert_eq!(record.tags, ["maths", "1843"]);
    assert_eq!(record.source_type, "markdown");
    assert_eq!(record.source_path, "studio/person/Ada-Lovelace.md");
    assert_eq!(record.metadata["born"], 1815);
    for (path, front, id, namespace) in [
        ("x.md", "type: doc", "doc:x", "public"),
        ("studio/x.md", "type: doc", "doc:x", "studio"),
        (
            "studio/doc/x.md",
            "namespace: personal",
            "doc:x",
            "personal",
        ),
        (
            "studio/doc/2024/x y.md",
            "tags: []",
            "doc:2024_x_y",
            "studio",
        ),
        ("studio/notes/x.md", "type: doc", "doc:notes_x", "studio"),
        ("studio/x.md", "id: link:y", "link:y", "studio"),
        // No other folder is a namespace.
        ("person/x.md", "tags: []", "person:x", "public"),
        ("public/person/x.md", "tags: []", "person:x", "public"),
        ("lab/x.md", "namespace: studio", "lab:x", "studio"),
        ("lab/notes/x.md", "type: doc", "doc:lab_notes_x", "public"),
        ("studio/doc/x.md", "id: Link:Y", "link:y", "studio"),
        (
            "Getting-Started/x.md",
            "tags: []",
            "getting_started:x",
            "public",
        ),
        ("2024/x.md", "tags: []", "document:2024_x", "public"),
        ("guides/x.md", "id: intro", "guides:intro", "public"),
        ("guides/x.md", "id: 7", "guides:7", "public"),
        // A folder of that name makes no video of a text.
        ("video/x.md", "tags: []", "document:video_x", "public"),
    ] {
        let record = only_record(path, &format!("---\n{front}\ntitle: No\n---\n"));
        assert_eq!(
            (record.id.as_str(), record.namespace.as_str()),
            (id, namespace),
            "{path}"
        );
        assert_eq!(record.title, "No");
    }
}

#[test]
fn texts_are_records_as_they_are() {
    for (path, text, id, title, body) in [
        (
            "Guides/Getting-Started.md",
            "<h1 align=\"center\">Fram</h1>\n\n## Getting started\n\nCast off.\n",
            "guides:getting_started",
            "Getting started",
            "<h1 align=\"center\">Fram</h1>\n\n## Getting started\n\nCast off.",
        ),
        (
            "cast_off.md",
            "Cast off.\n",
            "document:cast_off",
            "cast off",
            "Cast off.",
        ),
        (
            "x.markdown",
            "\u{feff}Hull\r\n====\r\n\r\nOak.\r\n",
            "document:x",
            "Hull",
            "Hull\n====\n\nOak.",
        ),
        (
            "tabs.mdx",
            "---\nsidebar_position: 2\n---\nimport Tabs from '@theme/Tabs';\n\n# Hull\n\n<Tabs>Oak.</Tabs>\n",
            "document:tabs",
            "Hull",
            "# Hull\n\n<Tabs>Oak.</Tabs>",
        ),
        (
            "log/Day 1.txt",
            "---\nWind from the north.\n",
            "log:day_1",
            "Day 1",
            "---\nWind from the north.",
        ),
    ] {
        let record = only_record(path, text);
        let shown = (
            record.id.as_str(),
            record.title.as_str(),
            record.body.as_str(),
        );
        assert_eq!(shown, (id, title, body), "{path}");
    }
}

/// Two files whose names differ are two records, whatever their names are made of.
#[test]
fn no_name_costs_a_text_its_place() {
    let deep = format!("{}x.md", "a rather long folder/".repeat(12));
    let names = [
        "C++.md",
        "C#.md",
        "日本.md",
        "中国.md",
        "Café.md",
        "?.md",
        "!.md",
        &deep,
    ];
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, &b"Text."[..])).collect();
    let folder = folder(&files);
    let (base, report) = open(folder.path());
    assert_eq!(report.problems, []);
    assert_eq!(base.len(), names.len());
}

#[test]
fn of_two_files_with_one_id_both_are_named_and_the_first_is_kept() {
    let text = |title: &str| format!("---\ntype: doc\nid: doc:x\ntitle: {title}\n---\n");
    let folder = folder(&[
        ("b.md", text("second").as_bytes()),
        ("a/a.md", text("first").as_bytes()),
    ]);
    let (base, report) = open(folder.path());
    assert_eq!(get(&base, "doc:x", None).unwrap().unwrap().title, "first");
    assert_eq!(
        report
            .problems
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        [
            "b.md:3: the id \"doc:x\" is already that of a/a.md, which is kept: give one of the two another id"
        ]
    );
}

#[test]
fn hidden_files_and_those_of_other_kinds_are_counted_and_not_read() {
    let good = b"---\ntype: doc\ntitle: T\n---\n".as_slice();
    let folder = folder(&[
        (".hidden.md", b"bad"),
        ("_draft.md", b"bad"),
        (".git/x.md", b"bad"),
        ("_old/x.md", b"bad"),
        ("picture.png", b"bad"),
        ("README", b"bad"),
        ("x.MD", good),
        (
            "photos.jsonl",
            br#"{"id": "photo:a", "title": "A", "file": "a.png"}"#,
        ),
        ("a.png", b"shown"),
    ]);
    let (base, report) = open(folder.path());
    assert_eq!((base.len(), report.problems.len()), (2, 0));
    assert_eq!(
        report.left_out.to_string(),
        "1 without a known ending, 1 .png, 4 whose name begins with . or _"
    );
    assert!(!report.is_unreadable());
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_may_not_leave_the_folder_or_go_round_in_circles() {
    use std::os::unix::fs::symlink;
    let good = |id: &str| format!("---\ntype: doc\nid: doc:{id}\ntitle: T\n---\n");
    let outside = folder(&[("secret.md", good("secret").as_bytes())]);
    let inside = folder(&[("_kept/real.md", good("real").as_bytes())]);
    let root = inside.path();
    symlink(outside.path().join("secret.md"), root.join("a_file.md")).unwrap();
    symlink(outside.path(), root.join("b_folder")).unwrap();
    symlink(root, root.join("c_circle")).unwrap();
    symlink(root.join("nowhere"), root.join("d_broken.md")).unwrap();
    symlink(root.join("_kept/real.md"), root.join("e_inside.md")).unwrap();
    let (base, report) = open(root);
    assert_eq!(
        base.records()
            .map(|record| record.id.as_str())
            .collect::<Vec<_>>(),
        ["doc:real"]
    );
    for (problem, (path, part)) in report.problems.iter().zip([
        ("a_file.md", "leaves the knowledge base folder"),
        ("b_folder", "leaves the knowledge base folder"),
        ("c_circle", "round in circles"),
        ("d_broken.md", "leads nowhere"),
    ]) {
        assert_eq!(problem.path, path);
        assert!(problem.message.contains(part), "{problem}");
    }
    assert_eq!(report.problems.len(), 4);
}

#[test]
fn an_empty_folder_is_an_empty_base_and_none_is_an_error() {
    let empty = folder(&[]);
    let (base, report) = open(empty.path());
    assert!(base.is_empty());
    assert_eq!(report, IngestReport::default());

    let missing = empty.path().join("no such folder");
    let error = KnowledgeBase::open(&missing, &Options::default())
        .err()
        .unwrap();
    assert!(matches!(error, OpenError::Folder(FolderError::Missing(_))));
    assert_eq!(
        error.to_string(),
        format!(
            "there is no knowledge base folder {}: create it, or name another",
            missing.display()
        )
    );

    let file = folder(&[("x.md", b"")]);
    let error = KnowledgeBase::open(file.path().join("x.md"), &Options::default());
    assert!(matches!(
        error.err(),
        Some(OpenError::Folder(FolderError::NotAFolder(_)))
    ));
}

#[test]
fn a_folder_with_too_many_files_keeps_the_first_ones() {
    let text = b"---\ntype: doc\ntitle: T\n---\n".as_slice();
    let folder = folder(&[
        ("a.md", text),
        ("b/b.md", text),
        ("c.md", text),
        ("d.md", text),
    ]);
    let limits = IngestLimits {
        files_max: 3,
        ..IngestLimits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let (base, report) = KnowledgeBase::open(folder.path(), &options).unwrap();
    assert_eq!(
        base.records()
            .map(|record| record.id.as_str())
            .collect::<Vec<_>>(),
        ["doc:a", "doc:b_b"]
    );
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].path, "c.md");
    assert!(report.problems[0].message.contains("more than 3 files"));
}

#[test]
fn a_folder_that_is_too_deep_is_reported() {
    let path = format!("{}x.md", "d/".repeat(20));
    let folder = folder(&[(&path, b"---\ntype: doc\ntitle: T\n---\n")]);
    let (base, report) = open(folder.path());
    assert!(base.is_empty());
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].message.contains("more than 16 deep"));
}
