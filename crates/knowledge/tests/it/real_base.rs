//! The base that ships with Windlass: every record is good, and the questions people ask find their answers.

use crate::support::{get, ids, request, search};
use std::path::PathBuf;
use windlass_contract::handler::Knowledge;
use windlass_knowledge::{KnowledgeBase, Options};

fn base() -> KnowledgeBase {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../kb");
    let (base, report) = KnowledgeBase::open(folder, &Options::default()).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!(report.records, base.len());
    base
}

#[test]
fn every_record_is_good_and_says_where_it_comes_from() {
    let base = base();
    assert!(base.len() >= 25, "{}", base.len());
    assert_eq!(base.default_namespace(), "public");
    let facets = base.facets();
    assert_eq!(facets.namespaces, ["public"]);
    assert_eq!(
        facets.types,
        ["doc", "link", "person", "process", "project"]
    );
    for record in base.records() {
        assert!(record.source_path.ends_with(".md"), "{}", record.id);
        assert!(record.last_updated.is_some(), "{}", record.id);
        assert!(!record.tags.is_empty(), "{}", record.id);
    }
}

#[test]
fn a_record_that_another_one_names_exists() {
    let base = base();
    for record in base.records() {
        for (key, value) in &record.metadata {
            if let Some(id) = value.as_str().filter(|text| text.starts_with("person:")) {
                assert!(
                    get(&base, id, None).unwrap().is_ok(),
                    "{}: {key} {id}",
                    record.id
                );
            }
        }
    }
}

#[test]
fn a_question_finds_its_answer_first() {
    let base = base();
    let mut wrong = Vec::new();
    for (query, first) in [
        ("Who designed the ship Fram?", "doc:ship_fram"),
        ("Who designed Fram?", "person:colin_archer"),
        ("who built fram", "doc:ship_fram"),
        (
            "When did Amundsen reach the South Pole?",
            "project:south_pole_expedition",
        ),
        ("How thick was Fram's hull?", "doc:hull"),
        (
            "Who was the captain on the first voyage?",
            "project:first_voyage",
        ),
        (
            "Who was captain on the second voyage?",
            "project:second_voyage",
        ),
        ("How long and wide is the ship Fram?", "doc:ship_fram"),
        ("What does the name Fram mean?", "doc:ship_fram"),
        ("Where can I see Fram today?", "link:fram_museum"),
        (
            "How did they make electric light on board?",
            "doc:windmill_and_dynamo",
        ),
        ("What engine did Fram have?", "doc:engines"),
        (
            "How far north did Nansen and Johansen get?",
            "project:farthest_north",
        ),
        ("Tell me about Hjalmar Johansen", "person:hjalmar_johansen"),
        ("oscar wisting", "person:oscar_wisting"),
        ("Who was the cook at Framheim?", "person:adolf_lindstrom"),
        ("northwest passage", "project:gjoa_expedition"),
        ("What happened to the Maud?", "project:maud_expedition"),
        (
            "why did the ice not crush the ship",
            "process:rising_above_the_ice",
        ),
        ("Ekman spiral", "process:wind_and_ice_drift"),
        ("how does drifting with the ice work", "process:ice_drift"),
        (
            "What did they eat on Fram, and was it warm?",
            "doc:living_quarters",
        ),
        (
            "Who won the Nobel Peace Prize in 1922?",
            "link:nobel_peace_prize_1922",
        ),
        ("Axel Heiberg Island", "project:second_voyage"),
        // As speech recognition and keyboards without å and ø spell them.
        ("Gjoa", "project:gjoa_expedition"),
        ("LINDSTROM", "person:adolf_lindstrom"),
        ("Colin Archar", "person:colin_archer"),
        ("Hjalmar Johannsen", "person:hjalmar_johansen"),
        ("Sverdrop captain", "person:otto_sverdrup"),
    ] {
        let found = ids(&base, request(query));
        if found.first().is_none_or(|found| found != first) {
            wrong.push(format!("{query}: {found:?}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_snippet_shows_the_answer() {
    let base = base();
    for (query, words) in [
        (
            "Who designed the ship Fram?",
            "designed and built by Colin Archer",
        ),
        (
            "When did Amundsen reach the South Pole?",
            "14 December 1911",
        ),
        ("How thick was Fram's hull?", "60 to 70 centimetres thick"),
        (
            "Who was the captain on the first voyage?",
            "the captain was Otto Sverdrup",
        ),
        ("horsepower of the diesel engine", "180 horsepower"),
        ("Who died on the second voyage?", "died during the voyage"),
    ] {
        let answer = search(&base, request(query)).unwrap();
        let hit = &answer.hits[0];
        let snippet = hit.snippet.as_ref().unwrap();
        let one_line = snippet.text.replace('\n', " ");
        assert!(one_line.contains(words), "{query}: {one_line}");
        let length = one_line.split_whitespace().count();
        assert!((20..=40).contains(&length), "{query}: {length} {one_line}");
        assert_eq!(snippet.text, hit.record.body[snippet.start..snippet.end]);
    }
}
