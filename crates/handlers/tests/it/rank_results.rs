//! What comes first, and why.

use crate::bench::Bench;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::kind::Mode;

fn ranked(items: &Value, criteria: &Value) -> Vec<(u64, f64, String)> {
    let data = Bench::new(Mode::Text).data(
        "rank_results",
        json!({"items": items, "criteria": criteria}),
    );
    let entries = data["ranked"].as_array().unwrap();
    let entry = |entry: &Value| {
        (
            entry["rank"].as_u64().unwrap(),
            entry["score"].as_f64().unwrap(),
            entry["item"]["id"].as_str().unwrap().to_owned(),
        )
    };
    entries.iter().map(entry).collect()
}

#[test]
fn items_come_in_the_order_of_their_weighed_criteria() {
    let offers = json!([
        {"id": "a", "price": {"total": 30}, "km": 2, "name": "Zoe", "from": "2026-11-28"},
        {"id": "b", "price": {"total": 20}, "km": 9, "name": "adam", "from": "2026-12-24T10:00:00+01:00"},
        {"id": "c", "price": {"total": 25.0}, "km": "5.5", "name": "Bea", "from": "2026-11-29T00:00:00"},
    ]);
    for (criteria, expected) in [
        (
            json!([{"field": "price.total", "best": "lowest"}]),
            [(1, 1.0, "b"), (2, 0.5, "c"), (3, 0.0, "a")],
        ),
        (
            json!([{"field": "km", "best": "lowest", "weight": 2}, {"field": "price.total", "best": "lowest"}]),
            [(1, 0.6667, "a"), (2, 0.5, "c"), (3, 0.3333, "b")],
        ),
        (
            json!([{"field": "name", "best": "lowest"}]),
            [(1, 1.0, "b"), (2, 0.5, "c"), (3, 0.0, "a")],
        ),
        (
            json!([{"field": "from"}]),
            [(1, 1.0, "b"), (2, 0.0379, "c"), (3, 0.0, "a")],
        ),
    ] {
        let found = ranked(&offers, &criteria);
        let expected = expected.map(|(rank, score, id)| (rank, score, id.to_owned()));
        assert_eq!(found, expected, "{criteria}");
    }
}

#[test]
fn equals_share_a_rank_and_keep_their_order() {
    let items =
        json!([{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "c", "n": 1}, {"id": "d", "n": 2}]);
    let order: Vec<(u64, String)> = ranked(&items, &json!([{"field": "n"}]))
        .into_iter()
        .map(|(rank, _, id)| (rank, id))
        .collect();
    let expected = [(1, "b"), (1, "d"), (3, "a"), (3, "c")];
    assert_eq!(order, expected.map(|(rank, id)| (rank, id.to_owned())));
    let same = json!([{"id": "a", "n": 1}, {"id": "b", "n": 1}]);
    for best in ["highest", "lowest"] {
        let found = ranked(&same, &json!([{"field": "n", "best": best}]));
        assert_eq!(found[1], (1, 1.0, "b".to_owned()), "{best}");
    }
}

#[test]
fn what_is_missing_counts_as_the_worst_and_is_named() {
    let items = json!([{"id": "a"}, {"id": "b", "n": null}, {"id": "c", "n": 1e308}, {"id": "d", "n": -1e308}]);
    let data = Bench::new(Mode::Voice).data(
        "rank_results",
        json!({"items": items, "criteria": [{"field": "n"}], "top": 3}),
    );
    assert_eq!(
        data,
        json!({"count": 4, "ranked": [
            {"rank": 1, "score": 1.0, "item": {"id": "c", "n": 1e308}},
            {"rank": 2, "score": 0.0, "item": {"id": "a"}, "missing": ["n"]},
            {"rank": 2, "score": 0.0, "item": {"id": "b", "n": null}, "missing": ["n"]},
        ]})
    );
    let report = Bench::new(Mode::Text).report(
        "rank_results",
        json!({"items": items, "criteria": [{"field": "price"}]}),
    );
    assert_eq!(report.kind, FailureKind::Validation);
    assert_eq!(report.message, "no item has the field `price`");
}
