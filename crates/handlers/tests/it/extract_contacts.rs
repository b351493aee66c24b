//! Addresses and numbers in prose, and what only looks like them.

use crate::bench::Bench;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::kind::Mode;

fn found(text: &str, region: Option<&str>) -> Value {
    let mut arguments = json!({"text": text});
    if let Some(region) = region {
        arguments["region"] = json!(region);
    }
    Bench::new(Mode::Text).data("extract_contacts", arguments)
}

fn numbers(text: &str, region: Option<&str>) -> Vec<String> {
    let data = found(text, region);
    let phones = data["phones"].as_array().unwrap().iter();
    phones
        .map(|phone| phone["number"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_is_known_about_numbers_is_read_beforehand_and_by_no_other_tool() {
    let handlers = windlass_handlers::builtin();
    let prepared = handlers.iter().filter_map(|(id, handler)| {
        let prepare = handler.preparation()?;
        prepare();
        Some(id.as_str())
    });
    assert_eq!(prepared.collect::<Vec<_>>(), ["extract_contacts"]);
}

#[test]
fn a_signature_is_read() {
    let text = "Maud Lind <Maud.Lind@Example.ORG>, office: 030 901820 ext. 12, mobile +49 (170) 123-4567.\n\
                See https://example.org/maud?tel=030901820 (or https://example.org/a_(b)). Again: maud.lind@example.org, +491701234567.";
    assert_eq!(
        found(text, Some("DE")),
        json!({
            "emails": ["Maud.Lind@example.org"],
            "phones": [
                {"number": "+4930901820", "written": "030 901820 ext. 12", "extension": "12", "region": "DE"},
                {"number": "+491701234567", "written": "+49 (170) 123-4567", "region": "DE"},
            ],
            "links": ["https://example.org/maud?tel=030901820", "https://example.org/a_(b)"],
            "more": false,
        })
    );
}

#[test]
fn numbers_of_ten_countries_are_read_as_they_are_written_there() {
    for (region, written, number) in [
        ("US", "(212) 736-5000", "+12127365000"),
        ("GB", "020 7946 0958", "+442079460958"),
        ("DE", "030/90 18 20", "+4930901820"),
        ("FR", "01 42 68 53 00", "+33142685300"),
        ("IT", "06 6982 4567", "+390669824567"),
        ("ES", "912 345 678", "+34912345678"),
        ("CH", "044 668 18 00", "+41446681800"),
        ("IN", "098765 43210", "+919876543210"),
        ("JP", "03-3224-9999", "+81332249999"),
        ("BR", "(11) 96123-4567", "+5511961234567"),
    ] {
        assert_eq!(
            numbers(&format!("Call {written}, please."), Some(region)),
            [number]
        );
        let international = number.to_owned();
        assert_eq!(numbers(&format!("Call {international}."), None), [number]);
    }
}

#[test]
fn what_only_looks_like_a_number_is_none() {
    for text in [
        "Order 2512292042121000001 of 2026-11-28 10:15:00, 28.11.2026",
        "Invoice #0301234567, EUR 030123456.78, IBAN DE89370400440532013000",
        "192.168.100.200 and 10:30-11:45, ISBN 978-3-16-148410-0",
        "A0301234567B, €0301234567, 901820",
        "+49 1",
    ] {
        assert_eq!(numbers(text, Some("DE")), Vec::<String>::new(), "{text}");
    }
    // Without a country only an international number counts.
    assert_eq!(
        numbers("030 901820, 0049 30 901820", None),
        Vec::<String>::new()
    );
    assert_eq!(numbers("0049 30 901820", Some("DE")), ["+4930901820"]);
}

#[test]
fn what_is_found_is_bounded() {
    let many: String = (0..300)
        .map(|n| format!("u{n}@example.org +49 30 9018{n:03} https://example.org/{n} "))
        .collect();
    let data = found(&many, None);
    for kind in ["emails", "phones", "links"] {
        assert_eq!(data[kind].as_array().unwrap().len(), 100, "{kind}");
    }
    assert_eq!(data["more"], true);
    let hostile = [
        "1 ".repeat(50_000),
        "a@".repeat(50_000),
        "+".repeat(100_000),
        "(".repeat(100_000),
    ];
    for text in hostile {
        assert_eq!(found(&text, Some("US"))["emails"], json!([]));
    }
}

#[test]
fn a_country_that_is_none_is_named() {
    let arguments = json!({"text": "030 901820", "region": "XQ"});
    let report = Bench::new(Mode::Text).report("extract_contacts", arguments);
    assert_eq!(report.kind, FailureKind::Validation);
    assert!(
        report.message.starts_with("there is no country `XQ`"),
        "{}",
        report.message
    );
}
