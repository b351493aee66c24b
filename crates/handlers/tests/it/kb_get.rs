//! What fetching one record shows of it.

use crate::bench::{Bench, record};
use serde_json::json;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{ContentPart, GetRequest, HandlerMessage, KnowledgeError};
use windlass_contract::id::UserId;
use windlass_contract::kind::Mode;

#[test]
fn a_record_comes_whole_in_text() {
    let bench = Bench::new(Mode::Text).with_records(vec![(record("person:a"), 1.0)]);
    assert_eq!(
        bench.data("kb_get", json!({"id": "person:a"})),
        json!({
            "id": "person:a",
            "type": "person",
            "title": "Title of person:a",
            "aliases": ["Alias"],
            "tags": ["builder"],
            "source_type": "markdown",
            "last_updated": "2026-01-10T15:30:00Z",
            "full_text": "A body that is long enough for a snippet.",
            "url": "https://example.org/record",
            "metadata": {"role": "builder"},
            "sources": [{"source_type": "markdown", "source_path": "people/record.md"}]
        })
    );
    assert_eq!(
        *bench.fakes.fetched.lock().unwrap(),
        [GetRequest {
            id: "person:a".into(),
            namespace: Some("public".into()),
            reader: UserId::new("user").into(),
        }]
    );
}

#[test]
fn optional_fields_come_as_asked_for() {
    for (mode, arguments, fields) in [
        (Mode::Voice, json!({}), vec!["full_text", "url"]),
        (Mode::Text, json!({"return_fields": []}), vec![]),
        (Mode::Voice, json!({"return_fields": ["url"]}), vec!["url"]),
        (
            Mode::Voice,
            json!({"return_fields": ["metadata", "sources"]}),
            vec!["metadata", "sources"],
        ),
    ] {
        let bench = Bench::new(mode).with_records(vec![(record("person:a"), 1.0)]);
        let mut call = arguments.clone();
        call["id"] = json!("person:a");
        let data = bench.data("kb_get", call);
        for field in ["full_text", "url", "metadata", "sources"] {
            let is_there = data.get(field).is_some();
            assert_eq!(
                is_there,
                fields.contains(&field),
                "{field} {mode:?} {arguments}"
            );
        }
    }
}

#[test]
fn a_long_text_is_cut_in_voice_and_says_so() {
    let mut long = record("person:a");
    long.body = "Oak and greenheart, inside and out. ".repeat(100);
    for (mode, is_cut) in [(Mode::Voice, true), (Mode::Text, false)] {
        let bench = Bench::new(mode).with_records(vec![(long.clone(), 1.0)]);
        let data = bench.data("kb_get", json!({"id": "person:a"}));
        let text = data["full_text"].as_str().unwrap();
        assert_eq!(text.chars().count() <= 1_200, is_cut);
        assert_eq!(data.get("truncated").is_some(), is_cut);
        assert!(text.trim_end().ends_with("out."), "{text}");
        assert!(!is_cut || data.to_string().chars().count() <= 1_500);
    }
}

#[test]
fn an_id_that_does_not_exist_is_not_found_with_the_nearest_ones() {
    let ids = [
        "person:a", "person:b", "person:c", "person:d", "person:e", "person:f",
    ];
    let records = ids.iter().map(|id| (record(id), 1.0)).collect();
    let bench = Bench::new(Mode::Text).with_records(records);
    for is_slow in [false, true] {
        *bench.fakes.knowledge_is_slow.lock().unwrap() = is_slow;
        let report = bench.report("kb_get", json!({"id": "person:x"}));
        assert_eq!(report.kind, FailureKind::NotFound);
        assert!(report.message.contains("person:x"));
        assert!(report.suggestion.unwrap().contains("person:a, person:b"));
        assert_eq!(report.details.unwrap()["near"], json!(ids[..5]));
    }
    let bench = Bench::new(Mode::Text);
    let report = bench.report("kb_get", json!({"id": "person:x"}));
    assert!(report.suggestion.unwrap().contains("Search"));
}

#[test]
fn an_outage_is_transient_and_a_wrong_namespace_is_the_callers_mistake() {
    for (error, kind) in [
        (
            KnowledgeError::Unavailable("down".into()),
            FailureKind::Transient,
        ),
        (
            KnowledgeError::UnknownNamespace {
                name: "x".into(),
                readable: Vec::new(),
            },
            FailureKind::Validation,
        ),
    ] {
        let bench = Bench::new(Mode::Voice);
        *bench.fakes.knowledge_error.lock().unwrap() = Some(error);
        assert_eq!(bench.report("kb_get", json!({"id": "a"})).kind, kind);
    }
}

#[test]
fn nothing_is_fetched_for_a_session_that_is_over() {
    let mut bench = Bench::new(Mode::Text);
    bench.session_is_active = false;
    assert_eq!(
        bench.report("kb_get", json!({"id": "a"})).kind,
        FailureKind::SessionInactive
    );
}

#[test]
fn a_picture_is_shown_to_the_client_and_given_to_models_that_see() {
    let photo = |url: Option<&str>, file: Option<&str>| {
        let mut photo = windlass_contract::handler::Record {
            record_type: "photo".into(),
            url: url.map(str::to_owned),
            ..record("photo:deck")
        };
        if let Some(file) = file {
            photo.metadata.insert("file".into(), file.into());
        }
        photo
    };
    for (record, shown, part) in [
        (
            photo(Some("https://example.org/a.JPG?x=1"), None),
            Some("https://example.org/a.JPG?x=1"),
            Some("image/jpeg"),
        ),
        (
            photo(Some("http://example.org/a.png"), None),
            Some("http://example.org/a.png"),
            None,
        ),
        (
            photo(Some("https://example.org/a.svg"), None),
            Some("https://example.org/a.svg"),
            None,
        ),
        (
            photo(None, Some("photos/deck.jpg")),
            Some("/assets/photo:deck"),
            Some("image/jpeg"),
        ),
        (
            photo(None, Some("photos/deck.svg")),
            Some("/assets/photo:deck"),
            None,
        ),
        (record("person:a"), None, None),
    ] {
        let bench = Bench::new(Mode::Voice).with_records(vec![(record.clone(), 1.0)]);
        let success = bench.succeed("kb_get", json!({"id": record.id}));
        let parts: Vec<&str> = success
            .content
            .iter()
            .map(|ContentPart::Image { mime_type, .. }| mime_type.as_str())
            .collect();
        assert_eq!(parts, part.into_iter().collect::<Vec<_>>(), "{record:?}");
        let expected: Vec<HandlerMessage> = shown
            .map(|url| {
                HandlerMessage::Client(
                    json!({"type": "image", "url": url, "caption": "Title of photo:deck"}),
                )
            })
            .into_iter()
            .collect();
        assert_eq!(*bench.fakes.messages.lock().unwrap(), expected);
    }
}
