//! What a search asks of the knowledge base, and what it shows of the answer.

use crate::bench::{Bench, record};
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{KnowledgeError, SearchRequest};
use windlass_contract::id::UserId;
use windlass_contract::kind::Mode;

fn ids(data: &Value) -> Vec<&str> {
    let results = data["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| result["id"].as_str().unwrap())
        .collect()
}

#[test]
fn every_argument_reaches_the_knowledge_base() {
    let bench = Bench::new(Mode::Text);
    bench.succeed(
        "kb_search",
        json!({
            "query": "hull",
            "namespace": "public",
            "filters": {
                "type": "process",
                "tags": ["ice", "oak"],
                "date_range": {"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}
            },
            "top_k": 7
        }),
    );
    bench.succeed("kb_search", json!({"query": "keel"}));
    let all_given = SearchRequest {
        query: "hull".into(),
        namespace: Some("public".into()),
        record_type: Some("process".into()),
        tags: vec!["ice".into(), "oak".into()],
        updated_from: Some("2026-01-01T00:00:00Z".into()),
        updated_to: Some("2026-02-01T00:00:00Z".into()),
        top_k: 7,
        snippets: true,
        reader: UserId::new("user").into(),
        mode: Mode::Text,
    };
    let defaults_only = SearchRequest {
        query: "keel".into(),
        record_type: None,
        tags: Vec::new(),
        updated_from: None,
        updated_to: None,
        top_k: 5,
        ..all_given.clone()
    };
    assert_eq!(
        *bench.fakes.searched.lock().unwrap(),
        [all_given, defaults_only]
    );
}

#[test]
fn results_are_evidence_objects_whether_the_answer_comes_at_once_or_later() {
    for is_slow in [false, true] {
        let bench = Bench::new(Mode::Text).with_records(vec![(record("person:a"), 0.94)]);
        *bench.fakes.knowledge_is_slow.lock().unwrap() = is_slow;
        assert_eq!(
            bench.data("kb_search", json!({"query": "a"})),
            json!({
                "results": [{
                    "id": "person:a",
                    "type": "person",
                    "title": "Title of person:a",
                    "snippet": "A body that is long ",
                    "score": 0.94,
                    "source_type": "markdown",
                    "last_updated": "2026-01-10T15:30:00Z",
                    "url": "https://example.org/record",
                    "metadata": {"role": "builder"}
                }],
                "retrieval": "lexical"
            })
        );
    }
}

#[test]
fn results_always_hold_what_a_citation_needs_and_optional_fields_as_asked_for() {
    let always = [
        "id",
        "last_updated",
        "score",
        "source_type",
        "title",
        "type",
    ];
    for (mode, arguments, optional) in [
        (Mode::Text, json!({}), vec!["metadata", "snippet", "url"]),
        (Mode::Voice, json!({}), vec!["snippet", "url"]),
        (
            Mode::Text,
            json!({"include_snippets": false}),
            vec!["metadata", "url"],
        ),
        (Mode::Voice, json!({"include_snippets": false}), vec!["url"]),
        (Mode::Text, json!({"return_fields": []}), vec![]),
        (Mode::Text, json!({"return_fields": ["url"]}), vec!["url"]),
        (
            Mode::Text,
            json!({"return_fields": ["snippet", "sources"], "include_snippets": false}),
            vec!["sources"],
        ),
        (
            Mode::Text,
            json!({"return_fields": ["full_text", "metadata", "sources", "snippet", "url"]}),
            vec!["full_text", "metadata", "snippet", "sources", "url"],
        ),
        (
            Mode::Voice,
            json!({"return_fields": ["full_text", "metadata"]}),
            vec!["metadata"],
        ),
    ] {
        let bench = Bench::new(mode).with_records(vec![(record("person:a"), 0.5)]);
        let mut call = arguments.clone();
        call["query"] = json!("a");
        let data = bench.data("kb_search", call);
        let mut expected: Vec<&str> = always.into_iter().chain(optional).collect();
        expected.sort_unstable();
        let mut names: Vec<&String> = data["results"][0].as_object().unwrap().keys().collect();
        names.sort();
        assert_eq!(names, expected, "{mode:?} {arguments}");
        let searched = bench.fakes.searched.lock().unwrap();
        assert_eq!(searched[0].snippets, expected.contains(&"snippet"));
    }
}

#[test]
fn full_text_is_refused_in_voice_with_a_word_about_it() {
    let call = json!({"query": "a", "return_fields": ["full_text"]});
    for (mode, has_note) in [(Mode::Voice, true), (Mode::Text, false)] {
        let bench = Bench::new(mode).with_records(vec![(record("person:a"), 0.5)]);
        assert_eq!(
            bench.data("kb_search", call.clone())["note"].is_string(),
            has_note
        );
    }
}

#[test]
fn fields_that_a_record_lacks_are_null() {
    let mut bare = record("person:a");
    (bare.url, bare.last_updated) = (None, None);
    let bench = Bench::new(Mode::Text).with_records(vec![(bare, 0.5)]);
    let data = bench.data("kb_search", json!({"query": "a"}));
    let result = &data["results"][0];
    assert_eq!(
        (&result["url"], &result["last_updated"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn results_are_sorted_by_score_without_repeats_and_at_most_top_k() {
    let scored = [
        ("person:b", 0.5),
        ("person:a", 0.5),
        ("person:c", 7.0),
        ("person:a", 0.4),
        ("person:d", f64::NAN),
        ("person:e", -1.0),
    ];
    let records = scored
        .iter()
        .map(|(id, score)| (record(id), *score))
        .collect();
    let bench = Bench::new(Mode::Text).with_records(records);
    let data = bench.data("kb_search", json!({"query": "a"}));
    assert_eq!(
        ids(&data),
        ["person:c", "person:a", "person:b", "person:d", "person:e"]
    );
    assert_eq!(data["results"][0]["score"], 1.0);
    assert_eq!(data["results"][3]["score"], 0.0);
    let data = bench.data("kb_search", json!({"query": "a", "top_k": 2}));
    assert_eq!(ids(&data), ["person:c", "person:a"]);
}

#[test]
fn scores_that_look_the_same_when_rounded_keep_the_order_of_the_base() {
    let scored = [
        ("person:z", 0.000_44),
        ("person:m", 0.000_43),
        ("person:a", 0.000_01),
    ];
    let records = scored.map(|(id, score)| (record(id), score)).into();
    let bench = Bench::new(Mode::Text).with_records(records);
    let data = bench.data("kb_search", json!({"query": "a"}));
    assert_eq!(ids(&data), ["person:z", "person:m", "person:a"]);
    for result in data["results"].as_array().unwrap() {
        assert_eq!(result["score"], 0.0);
    }
    let data = bench.data("kb_search", json!({"query": "a", "top_k": 1}));
    assert_eq!(ids(&data), ["person:z"]);
}

#[test]
fn an_empty_result_is_an_answer_and_not_an_error() {
    let data = Bench::new(Mode::Voice).data("kb_search", json!({"query": "zeppelin"}));
    assert_eq!(data, json!({"results": [], "retrieval": "lexical"}));
    assert!(windlass_contract::envelope::is_empty_result(Some(
        &data.into()
    )));
}

#[test]
fn errors_of_the_knowledge_base_keep_their_meaning() {
    for (error, kind, pointer) in [
        (no_studio(), FailureKind::Validation, Some("/namespace")),
        (
            KnowledgeError::InvalidFilter("the date range ends before it starts".into()),
            FailureKind::Validation,
            Some("/filters"),
        ),
        (
            KnowledgeError::Unavailable("no such file: /srv/secret/index".into()),
            FailureKind::Transient,
            None,
        ),
    ] {
        for is_slow in [false, true] {
            let bench = Bench::new(Mode::Text);
            *bench.fakes.knowledge_error.lock().unwrap() = Some(error.clone());
            *bench.fakes.knowledge_is_slow.lock().unwrap() = is_slow;
            let report = bench.report("kb_search", json!({"query": "a"}));
            assert_eq!(report.kind, kind, "{error:?}");
            let details = report.details.unwrap_or_default();
            assert_eq!(details["pointer"].as_str(), pointer, "{error:?}");
            assert!(!report.message.contains("/srv"), "{}", report.message);
        }
    }
}

#[test]
fn an_outage_may_be_retried_and_its_cause_is_for_operators_only() {
    let bench = Bench::new(Mode::Text);
    let cause = "no such file: /srv/secret/index";
    *bench.fakes.knowledge_error.lock().unwrap() = Some(KnowledgeError::Unavailable(cause.into()));
    let report = bench.report("kb_search", json!({"query": "a"}));
    assert_eq!(report.partial_side_effects, Some(false));
    assert_eq!(
        bench.audit_lines(),
        [("knowledge_unavailable".to_owned(), json!({"cause": cause}))]
    );
}

fn no_studio() -> KnowledgeError {
    KnowledgeError::UnknownNamespace {
        name: "studio".into(),
        readable: vec!["crew".into(), "public".into()],
    }
}

#[test]
fn an_unknown_namespace_is_answered_with_those_there_are() {
    let bench = Bench::new(Mode::Text);
    *bench.fakes.knowledge_error.lock().unwrap() = Some(no_studio());
    let report = bench.report("kb_search", json!({"query": "a"}));
    assert_eq!(
        report.details.unwrap()["allowed"],
        json!(["crew", "public"])
    );
    assert_eq!(
        report.message,
        "there is no namespace \"studio\"; use one of these: crew, public"
    );
}

#[test]
fn nothing_is_searched_for_a_session_that_is_over() {
    let mut bench = Bench::new(Mode::Voice);
    bench.session_is_active = false;
    let report = bench.report("kb_search", json!({"query": "a"}));
    assert_eq!(report.kind, FailureKind::SessionInactive);
    assert!(bench.fakes.searched.lock().unwrap().is_empty());
}

#[test]
fn arguments_that_were_never_validated_are_refused_and_break_nothing() {
    let bench = Bench::new(Mode::Text);
    for arguments in [
        json!({}),
        json!({"query": 7, "top_k": 1, "include_snippets": true}),
        json!({"query": "a", "top_k": -1, "include_snippets": true}),
        json!({"query": "a", "top_k": 1, "include_snippets": true, "return_fields": ["soul"]}),
    ] {
        let handler = windlass_handlers::builtin()["kb_search"].clone();
        let arguments = arguments.as_object().unwrap().clone();
        let is_empty = arguments.is_empty();
        let failure = bench
            .execute(&*handler, "kb_search", arguments.into())
            .unwrap_err();
        let report = crate::bench::reported(*failure);
        assert_eq!(report.kind, FailureKind::Validation);
        if is_empty {
            assert!(
                report.message.ends_with("is required"),
                "{}",
                report.message
            );
        }
        // Neither the types of the handler nor what was sent is anybody's business.
        for inside in ["usize", "expected", "soul", "field"] {
            assert!(!report.message.contains(inside), "{}", report.message);
        }
    }
}

#[test]
fn pictures_are_shown_where_they_come_first() {
    let photo = |id: &str| windlass_contract::handler::Record {
        record_type: "photo".into(),
        ..record(id)
    };
    for (records, shown) in [
        (
            vec![
                (photo("photo:a"), 0.9),
                (photo("photo:b"), 0.8),
                (record("person:c"), 0.7),
                (photo("photo:d"), 0.6),
            ],
            2,
        ),
        (vec![(record("person:c"), 0.9), (photo("photo:a"), 0.8)], 0),
        (
            ["a", "b", "c", "d"]
                .map(|name| (photo(&format!("photo:{name}")), 0.5))
                .into(),
            3,
        ),
    ] {
        let bench = Bench::new(Mode::Text).with_records(records);
        bench.succeed("kb_search", json!({"query": "deck"}));
        assert_eq!(bench.fakes.messages.lock().unwrap().len(), shown);
    }
}

#[test]
fn pictures_are_shown_in_the_order_of_the_results_and_none_that_is_not_among_them() {
    let photo = |id: &str| windlass_contract::handler::Record {
        record_type: "photo".into(),
        ..record(id)
    };
    let bench = Bench::new(Mode::Text).with_records(vec![
        (photo("photo:a"), 0.000_2),
        (photo("photo:z"), 0.000_3),
        (photo("photo:z"), 0.000_3),
        (photo("photo:b"), 0.000_1),
    ]);
    let data = bench.data("kb_search", json!({"query": "deck", "top_k": 2}));
    assert_eq!(ids(&data), ["photo:z", "photo:a"]);
    let messages = bench.client_messages();
    let captions: Vec<&Value> = messages.iter().map(|message| &message["caption"]).collect();
    assert_eq!(captions, ["Title of photo:z", "Title of photo:a"]);
}
