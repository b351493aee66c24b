//! Pairs of requests that are equal, near, or different. Uses the public forms alone.

use super::*;
use serde_json::json;

fn arguments(value: &Value) -> Arguments {
    Arguments::from(value.as_object().unwrap().clone())
}

/// One argument under a schema.
fn spec(schema: Value) -> KeySpec {
    let parameters = json!({"type": "object", "properties": {"a": schema}});
    KeySpec::of(&parameters, &["a"], &Arguments::none())
}

enum Closest {
    Exact,
    Near,
    Neither,
}

fn check(spec: &KeySpec, left: &str, right: &str, expected: &Closest) {
    let read = |text: &str| serde_json::from_str(&format!("{{\"a\":{text}}}")).unwrap();
    let (one, other): (Arguments, Arguments) = (read(left), read(right));
    let found = (
        spec.exact(&one) == spec.exact(&other),
        spec.near(&one) == spec.near(&other),
    );
    let wanted = match expected {
        Closest::Exact => (true, true),
        Closest::Near => (false, true),
        Closest::Neither => (false, false),
    };
    assert_eq!(found, wanted, "{left} and {right}");
}

#[test]
fn values_are_compared_by_what_they_mean() {
    let instant = spec(json!({"type": "string", "format": "date-time"}));
    for (other, expected) in [
        ("2026-12-01T10:00:00+00:00", Closest::Exact),
        ("2026-12-01T10:00:00.000Z", Closest::Exact),
        ("2026-12-01t10:00:00z", Closest::Exact),
        ("2026-12-01T11:30:00+01:30", Closest::Exact),
        ("2026-11-30T23:00:00-11:00", Closest::Exact),
        (" 2026-12-01T10:00:00Z ", Closest::Exact),
        ("2026-12-01T10:00:00.5Z", Closest::Neither),
        ("2026-12-01T10:00:00+01:00", Closest::Neither),
    ] {
        check(
            &instant,
            "\"2026-12-01T10:00:00Z\"",
            &format!("{other:?}"),
            &expected,
        );
    }
    let text = spec(json!({"type": "string"}));
    for (left, right, expected) in [
        ("\"Café\"", "\"Cafe\u{301}\"", Closest::Exact),
        ("\"Anna Berg\"", "\" Anna \\n\\t Berg \"", Closest::Exact),
        (
            "\"Anna Berg\"",
            "\"An\u{ad}na\u{a0}B\u{200b}erg\u{202c}\u{feff}\"",
            Closest::Exact,
        ),
        ("\"Café\"", "\"Cafe\"", Closest::Near),
        ("\"Anna\"", "\"ANNA\"", Closest::Near),
        ("\"Straße\"", "\"STRASSE\"", Closest::Near),
        ("\"Ａｎｎａ　１\"", "\"anna 1\"", Closest::Near),
        ("\"σίγμας\"", "\"ΣΙΓΜΑΣ\"", Closest::Near),
        ("\"Anna\"", "\"Anne\"", Closest::Neither),
        ("\"Anna Berg\"", "\"AnnaBerg\"", Closest::Neither),
        ("\"7\"", "7", Closest::Neither),
    ] {
        check(&text, left, right, &expected);
    }
    for (format, left, right, expected) in [
        ("email", "Anna@Fram.Org", "Anna@fram.org", Closest::Exact),
        ("email", "Anna@fram.org", "anna@fram.org", Closest::Near),
        ("idn-email", "ä@BÄR.de", "ä@bär.de", Closest::Exact),
        (
            "uri",
            "HTTPS://u@Fram.Org:8/A",
            "https://u@fram.org:8/A",
            Closest::Exact,
        ),
        (
            "uri",
            "https://fram.org/A",
            "https://fram.org/a",
            Closest::Near,
        ),
        ("uri", "mailto:A@x.org", "mailto:a@x.org", Closest::Near),
        (
            "uuid",
            "0F8FAD5B-D9CB-469F-A165-70867728950E",
            "0f8fad5b-d9cb-469f-a165-70867728950e",
            Closest::Exact,
        ),
        ("date", "2026-12-01", "2026-12-01 ", Closest::Exact),
        ("time", "10:00:00Z", "10:00:00z", Closest::Exact),
        ("hostname", "Fram.Org", "fram.org", Closest::Exact),
        ("unheard-of", "A", "a", Closest::Near),
    ] {
        let spec = spec(json!({"type": "string", "format": format}));
        check(
            &spec,
            &format!("{left:?}"),
            &format!("{right:?}"),
            &expected,
        );
    }
    for (left, right, expected) in [
        ("1000", "1e3", Closest::Exact),
        ("1000", "1000.0", Closest::Exact),
        ("-0", "0", Closest::Exact),
        (
            "2512292042121000001",
            "2512292042121000002",
            Closest::Neither,
        ),
        ("9007199254740992", "9007199254740993", Closest::Neither),
        (
            "0.1",
            "0.1000000000000000055511151231257827",
            Closest::Neither,
        ),
        ("[1,\" x\"]", "[1.0,\"x\"]", Closest::Exact),
        ("[1,2]", "[2,1]", Closest::Neither),
        (
            "{\"b\":{\"c\":\" x\"}}",
            "{\"b\":{\"c\":\"x\"}}",
            Closest::Exact,
        ),
    ] {
        check(&spec(json!({})), left, right, &expected);
    }
}

#[test]
fn a_format_counts_wherever_the_schema_says_it() {
    let when = json!({"format": "date-time"});
    let parameters = json!({
        "type": "object",
        "properties": {
            "either": {"anyOf": [{"type": "null"}, when, {"type": "string"}]},
            "all": {"allOf": [{"$ref": "#/$defs/when"}]},
            "list": {"items": {"$ref": "#/$defs/when"}},
            "deep": {"oneOf": [{"properties": {"at": {"$ref": "#/$defs/when"}}}]},
            "self": {"$ref": "#/$defs/tree"},
        },
        "$defs": {"when": when, "tree": {"properties": {"at": when, "next": {"$ref": "#/$defs/tree"}}}},
    });
    let spec = KeySpec::of(&parameters, &[] as &[&str], &Arguments::none());
    let both = ["2026-12-01T10:00:00Z", "2026-12-01T12:00:00+02:00"].map(|at| {
        let made = json!({"either": at, "all": at, "list": [at], "deep": {"at": at},
            "self": {"next": {"next": {"at": at}}}});
        spec.exact(&arguments(&made))
    });
    assert_eq!(both[0], both[1]);
    let text = |text: &str| spec.exact(&arguments(&json!({"either": text})));
    assert_ne!(text("Tuesday"), text("tuesday"));
    assert_eq!(text(" Tuesday"), text("Tuesday"));
}

#[test]
fn a_key_is_kept_as_text_and_tells_versions_apart() {
    let parameters = json!({"properties": {
        "at": {"format": "date-time"}, "count": {"default": 1}, "note": {}}});
    let defaults = arguments(&json!({"count": 1}));
    let whole = KeySpec::of(&parameters, &[] as &[&str], &defaults);
    let named = KeySpec::of(&parameters, &["at"], &defaults);
    assert_ne!(whole.fingerprint(), named.fingerprint());
    for spec in [&whole, &named] {
        let text = serde_json::to_string(spec).unwrap();
        let read: KeySpec = serde_json::from_str(&text).unwrap();
        assert_eq!((&read, read.fingerprint()), (spec, spec.fingerprint()));
    }
    // A new argument of a later version does not hide the effect of an earlier one.
    let before = arguments(&json!({"at": "2026-12-01T10:00:00Z", "count": 1.0}));
    let after = arguments(&json!({"at": "2026-12-01T10:00:00Z", "count": 1, "room": 7}));
    assert_eq!(whole.exact(&before), whole.exact_of_other_version(&after));
    assert_ne!(whole.exact(&before), whole.exact(&after));
    assert_eq!(named.exact(&before), named.exact(&after));
    assert_eq!(named.words(), [("at", "by instant".to_owned())]);
}

#[test]
fn instants_are_read_at_the_ends_of_the_calendar() {
    for (text, expected) in [
        ("2024-02-29T23:59:60Z", Some("2024-03-01T00:00:00Z")),
        ("1969-12-31T23:30:00-01:00", Some("1970-01-01T00:30:00Z")),
        ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z")),
        (
            "2000-03-01T00:30:00.120+01:00",
            Some("2000-02-29T23:30:00.12Z"),
        ),
        ("2026-13-01T00:00:00Z", None),
        ("2026-12-01T00:00:00", None),
        ("2026-12-01T00:00:00.Z", None),
        ("2026-12-01", None),
        ("2026-12-01Tä0:00:00Z", None),
        ("", None),
    ] {
        assert_eq!(instant::utc(text).as_deref(), expected, "{text}");
    }
}
