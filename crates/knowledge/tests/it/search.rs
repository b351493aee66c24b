//! Searches and look-ups over made-up records: filters, order, odd queries, near ids.

use crate::engines::{Base, Engine, each_engine};
use crate::support::{get, ids, record, request, search};
use std::collections::{BTreeMap, BTreeSet};
use windlass_contract::handler::{Facets, Knowledge, KnowledgeError, Record, SearchRequest};
use windlass_contract::id::UserId;
use windlass_knowledge::{Access, KnowledgeBase, Options, Readers, RecordsError};

/// Nine records that all hold the word `ice`, in three namespaces.
fn base(engine: Engine) -> Base {
    let with = |id: &str, namespace: &str, tags: &[&str], updated: Option<&str>| Record {
        namespace: namespace.to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        last_updated: updated.map(str::to_owned),
        ..record(id, "Ice", "Ice.")
    };
    engine.base(vec![
        with("doc:d", "public", &["sea", "Arctic"], Some("2024-03-01")),
        with("doc:a", "public", &["sea"], Some("2024-01-01")),
        with(
            "doc:b",
            "public",
            &["sea", "arctic"],
            Some("2024-02-01T12:00:00Z"),
        ),
        with("person:c", "public", &["arctic"], None),
        with("doc:e", "studio", &["sea"], Some("2024-02-01")),
        with("doc:f", "personal", &[], None),
    ])
}

fn check(change: impl Fn(&mut SearchRequest), found: &[&str]) {
    let mut request = request("ice");
    change(&mut request);
    each_engine(|engine| {
        let shown = format!("{engine:?}: {request:?}");
        assert_eq!(ids(&base(engine), request.clone()), found, "{shown}");
    });
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn an_empty_answer_names_the_namespaces_that_have_the_words() {
    let of = |namespace: &str, number: usize, tags: &[&str], body: &str| Record {
        namespace: namespace.to_owned(),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..record(&format!("doc:{namespace}{number}"), "T", body)
    };
    let owners = Readers::Owners(BTreeSet::from([UserId::new("ada")]));
    let options = Options {
        access: Access::new(BTreeMap::from([("hidden".to_owned(), owners)])),
        ..Options::default()
    };
    each_engine(|engine| {
        let records = vec![
            of("hidden", 0, &[], "Keel, oak."),
            of("lab", 0, &["new"], "Keel."),
            of("lab", 1, &[], "Keel, keel, keel."),
            of("person", 0, &[], "Sail."),
            of("project", 0, &[], "The keel of oak."),
            of("public", 0, &[], "Ice."),
        ];
        let base = engine.base_with(records, &options);
        let check = |query: &str, change: &dyn Fn(&mut SearchRequest), expected: &[&str]| {
            let mut request = request(query);
            change(&mut request);
            let answer = search(&base, request).unwrap();
            assert_eq!(answer.other_namespaces, expected, "{query}");
        };
        check("keel oak", &|_| (), &["project", "lab"]);
        check("ice", &|_| (), &[]);
        check("wheat", &|_| (), &[]);
        check(
            "sail",
            &|request| request.namespace = text("lab"),
            &["person"],
        );
        check(
            "keel",
            &|request| request.tags = vec!["new".into()],
            &["lab"],
        );
        check(
            "oak",
            &|request| request.reader = UserId::new("ada").into(),
            &["hidden", "project"],
        );
    });
}

#[test]
fn every_word_of_a_long_question_counts() {
    each_engine(|engine| {
        // Thirteen words that one record alone has, against forty that some have.
        let rare: Vec<String> = (0..13).map(|number| format!("rare{number}x")).collect();
        let common: Vec<String> = (0..40).map(|number| format!("word{number}x")).collect();
        let filled = |words: &[String]| words.join(" ") + &" filler".repeat(40 - words.len());
        let mut records = vec![
            record("doc:rare", "R", &filled(&rare)),
            record("doc:sought", "S", &filled(&common)),
        ];
        for (number, word) in (0..).zip(&common) {
            let body = filled(std::slice::from_ref(word));
            records.push(record(&format!("doc:other{number}"), "O", &body));
        }
        let base = engine.base(records);
        let question = format!("{} {}", rare.join(" "), common.join(" "));
        let found = ids(&base, request(&question));
        assert_eq!(found[..2], ["doc:sought", "doc:rare"]);
    });
}

#[test]
fn ids_are_compared_without_case() {
    each_engine(|engine| {
        let base = engine.base(vec![Record {
            id: "Doc:Hull".to_owned(),
            ..record("doc:hull", "Hull", "Oak.")
        }]);
        for id in ["doc:hull", "Doc:Hull", " DOC:HULL"] {
            let found = get(&base, id, None).unwrap().unwrap();
            assert_eq!(found.id, "doc:hull", "{id}");
        }
    });
}

#[test]
fn equal_scores_come_in_the_order_of_the_ids() {
    check(|_| (), &["doc:a", "doc:b", "doc:d", "person:c"]);
    check(|request| request.top_k = 2, &["doc:a", "doc:b"]);
    check(|request| request.top_k = 0, &[]);
    check(
        |request| request.top_k = usize::MAX,
        &["doc:a", "doc:b", "doc:d", "person:c"],
    );
}

#[test]
fn filters_apply_together() {
    check(
        |request| request.record_type = text("person"),
        &["person:c"],
    );
    check(|request| request.record_type = text("link"), &[]);
    check(|request| request.namespace = text("studio"), &["doc:e"]);
    check(|request| request.namespace = text("personal"), &["doc:f"]);
    check(
        |request| request.tags = vec!["sea".into(), "ARCTIC ".into()],
        &["doc:b", "doc:d"],
    );
    check(
        |request| request.tags = vec!["sea".into(), "desert".into()],
        &[],
    );
    check(
        |request| {
            request.record_type = text("doc");
            request.tags = vec!["arctic".into()];
            request.updated_to = text("2024-02-15T00:00:00Z");
        },
        &["doc:b"],
    );
}

#[test]
fn filters_apply_before_the_best_are_chosen() {
    check(
        |request| {
            request.record_type = text("person");
            request.top_k = 1;
        },
        &["person:c"],
    );
}

#[test]
fn a_range_of_dates_holds_both_its_ends_and_no_undated_record() {
    let range = |from: Option<&'static str>, to: Option<&'static str>| {
        move |request: &mut SearchRequest| {
            request.updated_from = from.map(str::to_owned);
            request.updated_to = to.map(str::to_owned);
        }
    };
    check(
        range(Some("2024-01-01T00:00:00Z"), None),
        &["doc:a", "doc:b", "doc:d"],
    );
    check(
        range(Some("2024-01-01T00:00:01Z"), None),
        &["doc:b", "doc:d"],
    );
    check(
        range(None, Some("2024-02-01T12:00:00Z")),
        &["doc:a", "doc:b"],
    );
    check(range(None, Some("2024-02-01T13:00:00+02:00")), &["doc:a"]);
    check(range(None, Some("2024-02-01")), &["doc:a", "doc:b"]);
    check(range(Some("2024-03-01"), Some("2024-01-01")), &[]);
}

#[test]
fn a_filter_that_cannot_be_read_is_refused_with_its_cure() {
    each_engine(|engine| {
        let mut bad_date = request("ice");
        bad_date.updated_from = text("last week");
        assert_eq!(
            search(&base(engine), bad_date).unwrap_err().to_string(),
            "the start of the date range is no date: write 2024-05-31T18:00:00Z or 2024-05-31"
        );
        let mut nowhere = request("ice");
        nowhere.namespace = text("nowhere");
        assert_eq!(
            search(&base(engine), nowhere).unwrap_err().to_string(),
            "there is no namespace \"nowhere\"; use one of these: personal, public, studio"
        );
    });
    let many = KnowledgeError::UnknownNamespace {
        name: "nowhere".to_owned(),
        readable: (10..22).map(|number| format!("n{number}")).collect(),
    };
    assert_eq!(
        many.to_string(),
        "there is no namespace \"nowhere\"; use one of these: n10, n11, n12, n13, n14, n15, n16, n17, n18, n19 and 2 more"
    );
}

#[test]
fn the_vocabularies_are_those_that_occur() {
    each_engine(|engine| {
        assert_eq!(
            base(engine).facets(),
            Facets {
                types: vec!["doc".into(), "person".into()],
                namespaces: vec!["personal".into(), "public".into(), "studio".into()],
            }
        );
        assert_eq!(base(engine).default_namespace(), "public");
        let mut studio = record("doc:a", "A", "");
        studio.namespace = "studio".to_owned();
        let studio = engine.base(vec![studio]);
        assert_eq!(studio.default_namespace(), "studio");
        assert_eq!(ids(&studio, request("a")), ["doc:a"]);
    });
}

#[test]
fn an_empty_base_answers_with_nothing() {
    each_engine(|engine| {
        let base = engine.base(Vec::new());
        assert_eq!(base.stats().records, 0);
        assert_eq!(base.facets(), Facets::default());
        let mut request = request("anything at all");
        request.namespace = text("public");
        request.record_type = text("person");
        let answer = search(&base, request).unwrap();
        assert_eq!(
            (answer.hits.len(), answer.retrieval.as_str(), answer.model),
            (0, "lexical", None)
        );
        assert_eq!(get(&base, "person:x", None), Ok(Err(Vec::new())));
    });
}

#[test]
fn a_name_in_the_title_counts_more_than_one_in_the_text() {
    each_engine(|engine| {
        let base = engine.base(vec![
            record("doc:a", "A voyage", "Archer built it."),
            record("doc:b", "Colin Archer", "He built a ship."),
        ]);
        assert_eq!(ids(&base, request("archer")), ["doc:b", "doc:a"]);
    });
}

#[test]
fn a_score_lies_between_0_and_1_and_falls_from_hit_to_hit() {
    each_engine(|engine| {
        let base = engine.base(
            (0..50)
                .map(|number| {
                    let body = "ship ".repeat(number % 7) + &"sail ".repeat(number % 5) + "sea";
                    record(&format!("doc:r{number}"), "Record", &body)
                })
                .collect(),
        );
        let answer = search(
            &base,
            SearchRequest {
                top_k: 50,
                ..request("ship sail")
            },
        )
        .unwrap();
        assert!(answer.hits.len() > 40);
        for hit in &answer.hits {
            assert!(hit.score > 0.0 && hit.score < 1.0, "{}", hit.score);
        }
        assert!(
            answer
                .hits
                .is_sorted_by(|one, next| one.score >= next.score)
        );
    });
}

/// The order must not depend on how many are asked for, whatever the search skips.
#[test]
fn the_first_of_many_are_the_first_of_all() {
    each_engine(|engine| {
        let words = ["ice", "ship", "sail", "hull", "drift", "north"];
        let base = engine.base(
            (0..3_000_usize)
                .map(|number| {
                    let body: String = (0..number % 23)
                        .map(|step| format!("{} ", words[(number * 7 + step * step) % words.len()]))
                        .collect();
                    record(&format!("doc:r{number}"), words[number % 5], &body)
                })
                .collect(),
        );
        let query = |top_k: usize| SearchRequest {
            top_k,
            snippets: false,
            ..request("ice ship hull north")
        };
        let many = ids(&base, query(100));
        assert_eq!(many.len(), 100);
        for top_k in [1, 3, 10, 64] {
            assert_eq!(ids(&base, query(top_k)), many[..top_k]);
        }
    });
}

#[test]
fn odd_queries_are_answered_and_never_parsed() {
    each_engine(|engine| {
        let base = engine.base(vec![
            record(
                "doc:ship",
                "The ship",
                "A ship in the ice with a crew of thirteen.",
            ),
            record("doc:hebrew", "ספינה", "האונייה בקרח"),
        ]);
        let long = "ship ".repeat(2_000);
        let nonsense: String = (0..2_000).map(|number| format!("zq{number}x ")).collect();
        for (query, found) in [
            ("", &[][..]),
            ("   \n\t", &[]),
            ("who is it, and what was that?", &[]),
            ("🚢🧊🐧", &[]),
            ("\u{0}\u{1b}[31m\u{202e}", &[]),
            (&nonsense, &[]),
            (&long, &["doc:ship"]),
            ("\"ship", &["doc:ship"]),
            ("-ship", &["doc:ship"]),
            ("ship AND NOT ship", &["doc:ship"]),
            ("title:ship^9999 (((( [a TO", &["doc:ship"]),
            ("*", &[]),
            ("ship~2 'or 1=1--", &["doc:ship"]),
            ("SHIPS 🚢", &["doc:ship"]),
            ("\u{202e}האונייה", &["doc:hebrew"]),
            (
                "\u{5d4}\u{5d0}\u{5d5}\u{5e0}\u{5d9}\u{5d9}\u{5d4}",
                &["doc:hebrew"],
            ),
        ] {
            assert_eq!(ids(&base, request(query)), found, "{query:.60}");
        }
    });
}

#[test]
fn of_a_query_without_end_the_rarest_terms_count() {
    each_engine(|engine| {
        let mut records: Vec<Record> = (0..30)
            .map(|number| record(&format!("doc:c{number}"), "Common", "common"))
            .collect();
        let rare: String = (0..128).map(|number| format!(" tree{number}x")).collect();
        records.push(record("doc:rare", "Trees", &rare));
        let base = engine.base(records);
        let query = format!("common {rare}");
        assert_eq!(ids(&base, request(&query)), ["doc:rare"]);
    });
}

#[test]
fn a_misspelt_word_finds_its_neighbour_and_a_known_one_only_itself() {
    each_engine(|engine| {
        let base = engine.base(vec![
            record("doc:a", "Nansen", "Nansen."),
            record("doc:b", "Hansen", "Hansen."),
        ]);
        assert_eq!(ids(&base, request("nansen")), ["doc:a"]);
        assert_eq!(ids(&base, request("nansne")), ["doc:a"]);
        assert_eq!(ids(&base, request("jansen")), ["doc:a", "doc:b"]);
        assert_eq!(ids(&base, request("nans")), [""; 0]);
    });
}

#[test]
fn a_snippet_is_the_best_window_and_lies_where_it_says() {
    each_engine(|engine| {
        let filler = "Nothing of note was written down on that day. ";
        let body = format!(
            "{}On the third day the crew sighted a whale near the ship, and the mate wrote it down. {}",
            filler.repeat(30),
            filler.repeat(30)
        );
        let unbroken = "長".repeat(5_000);
        let far = format!(
            "{}Then they saw a whale. {}They saw a walrus.",
            filler.repeat(2_000),
            filler.repeat(10_000)
        );
        for (body, query, part) in [
            (body.as_str(), "whale", "sighted a whale"),
            (body.as_str(), "title", "Nothing of note"),
            ("", "title", ""),
            ("short whale", "whale", "short whale"),
            (unbroken.as_str(), "title", "長長"),
            (far.as_str(), "whale", "saw a whale"),
            (far.as_str(), "walrus", "saw a walrus"),
            (far.as_str(), "title", "Nothing of note"),
        ] {
            let base = engine.base(vec![record("doc:a", "Title", body)]);
            let answer = search(&base, request(query)).unwrap();
            let hit = &answer.hits[0];
            let Some(snippet) = &hit.snippet else {
                assert_eq!(part, "", "{query}");
                continue;
            };
            assert!(snippet.text.contains(part), "{snippet:?}");
            assert!(snippet.text.len() <= 512, "{}", snippet.text.len());
            assert!(snippet.text.split_whitespace().count() <= 40, "{snippet:?}");
            assert_eq!(snippet.text, hit.record.body[snippet.start..snippet.end]);
        }
    });
}

#[test]
fn snippets_are_left_out_unless_asked_for() {
    each_engine(|engine| {
        let mut request = request("ice");
        request.snippets = false;
        let answer = search(&base(engine), request).unwrap();
        assert!(answer.hits.iter().all(|hit| hit.snippet.is_none()));
    });
}

#[test]
fn a_look_up_finds_the_record_or_suggests_near_ids() {
    each_engine(|engine| {
        let mut archer = record("person:colin_archer", "Colin Archer", "He built ships.");
        archer.aliases = vec!["The shipbuilder of Larvik".to_owned()];
        let mut private = record("doc:diary", "Diary of Archer", "");
        private.namespace = "personal".to_owned();
        let base = engine.base(vec![
            archer.clone(),
            private,
            record("person:otto_sverdrup", "Otto Sverdrup", ""),
        ]);
        let public = Some("public");
        assert_eq!(
            get(&base, "person:colin_archer", public),
            Ok(Ok(archer.clone()))
        );
        assert_eq!(get(&base, "person:colin_archer", None), Ok(Ok(archer)));
        assert!(get(&base, "doc:diary", Some("personal")).unwrap().is_ok());
        for (id, near) in [
            ("person:colin_archar", &["person:colin_archer"][..]),
            ("Person:Colin Archer", &["person:colin_archer"]),
            ("project:colin_archer", &["person:colin_archer"]),
            ("colin_archer", &["person:colin_archer"]),
            ("person:shipbuilder", &["person:colin_archer"]),
            ("person:sverdrup", &["person:otto_sverdrup"]),
            ("doc:diary", &[]),
            ("", &[]),
            (":::", &[]),
            ("🚢", &[]),
            (&"å".repeat(5_000), &[]),
        ] {
            let found = get(&base, id, public).unwrap().unwrap_err();
            assert_eq!(found, near, "{id:.60}");
        }
        let unknown = get(&base, "doc:diary", Some("nowhere")).unwrap_err();
        assert!(
            matches!(unknown, KnowledgeError::UnknownNamespace { .. }),
            "{unknown:?}"
        );
    });
}

#[test]
fn at_most_five_near_ids_are_suggested() {
    each_engine(|engine| {
        let base = engine.base(
            (0..9)
                .map(|number| record(&format!("doc:report_{number}"), "Report", ""))
                .collect(),
        );
        let near = get(&base, "doc:report_x", None).unwrap().unwrap_err();
        assert_eq!(near.len(), 5);
        assert_eq!(near[0], "doc:report_0");
    });
}

#[test]
fn records_that_are_given_directly_are_checked_too() {
    let twice = vec![record("doc:a", "A", ""), record("doc:a", "B", "")];
    assert!(matches!(
        KnowledgeBase::from_records(twice),
        Err(RecordsError::Duplicate(id)) if id == "doc:a"
    ));
    let error = KnowledgeBase::from_records(vec![record("doc:a", "", "")])
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "the record \"doc:a\" is not good: its `title` is missing: add it to the record, or begin the text with a heading"
    );
}
