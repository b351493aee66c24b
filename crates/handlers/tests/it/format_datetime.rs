//! How a moment is said, in the user's zone and in others. The bench's clock stands at 2027-01-15T08:00:00Z, a Friday.

use crate::bench::Bench;
use serde_json::{Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::kind::Mode;

fn bench(zone: Option<&str>) -> Bench {
    let bench = Bench::new(Mode::Text);
    *bench.fakes.zone.lock().unwrap() = zone.map(str::to_owned);
    bench
}

fn said(zone: &str, datetime: &str, format: &str) -> String {
    let data = bench(Some(zone)).data(
        "format_datetime",
        json!({"datetime": datetime, "format": format}),
    );
    assert_eq!(data["time_zone"], zone);
    data["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_moment_is_said_in_the_users_zone() {
    let moment = "2026-11-28T23:05:00Z";
    for (zone, format, expected) in [
        ("Europe/Oslo", "long", "Sunday, 29 November 2026, 00:05"),
        ("Europe/Oslo", "short", "29 Nov 2026, 00:05"),
        ("Europe/Oslo", "date", "Sunday, 29 November 2026"),
        ("Europe/Oslo", "time", "00:05"),
        ("Europe/Oslo", "iso", "2026-11-29T00:05:00+01:00"),
        (
            "America/New_York",
            "long",
            "Saturday, 28 November 2026, 18:05",
        ),
        ("Asia/Kathmandu", "iso", "2026-11-29T04:50:00+05:45"),
    ] {
        assert_eq!(said(zone, moment, format), expected, "{zone} {format}");
    }
    let data = bench(Some("Europe/Oslo")).data(
        "format_datetime",
        json!({"datetime": " NOW ", "format": "time", "time_zone": "asia/tokyo"}),
    );
    assert_eq!(
        data,
        json!({"text": "17:00", "iso": "2027-01-15T17:00:00+09:00", "time_zone": "Asia/Tokyo"})
    );
}

#[test]
fn a_distance_counts_hours_near_by_and_days_of_the_calendar_beyond() {
    for (datetime, expected) in [
        ("2027-01-15T08:00:59Z", "now"),
        ("2027-01-15T08:01:00Z", "in 1 minute"),
        ("2027-01-15T07:15:00Z", "45 minutes ago"),
        ("2027-01-15T10:59:59Z", "in 2 hours"),
        // The same day by the user's calendar, and more than half a day away.
        ("2027-01-15T22:30:00Z", "in 14 hours"),
        ("2027-01-14T22:30:00Z", "9 hours ago"),
        ("2027-01-14T19:00:00Z", "yesterday"),
        ("2027-01-15T23:30:00Z", "tomorrow"),
        ("2027-01-18T08:00:00Z", "in 3 days"),
        ("2027-01-01T08:00:00Z", "2 weeks ago"),
        ("2027-04-15T08:00:00Z", "in 3 months"),
        ("2028-01-14T08:00:00Z", "in 11 months"),
        ("2030-02-01T08:00:00Z", "in 3 years"),
        ("2027-01-15", "today"),
        ("2027-01-16", "tomorrow"),
        ("2027-01-13", "2 days ago"),
    ] {
        assert_eq!(
            said("Europe/Oslo", datetime, "relative"),
            expected,
            "{datetime}"
        );
    }
}

#[test]
fn hours_that_the_clock_leaves_out_or_has_twice_are_named() {
    for (zone, datetime, iso, words) in [
        (
            "Europe/Oslo",
            "2027-03-28T02:30",
            "2027-03-28T03:30:00+02:00",
            "02:30 does not exist on that day; 03:30 is meant",
        ),
        (
            "America/New_York",
            "2026-11-01T01:30:00",
            "2026-11-01T01:30:00-04:00",
            "is there twice; the first is meant, at -04, and the second is at -05",
        ),
        // A change of half an hour.
        (
            "Australia/Lord_Howe",
            "2026-10-04T02:15:00",
            "2026-10-04T02:45:00+11:00",
            "02:15 does not exist on that day; 02:45 is meant",
        ),
    ] {
        let data = bench(Some(zone)).data("format_datetime", json!({"datetime": datetime}));
        assert_eq!(data["iso"], iso);
        let note = data["note"].as_str().unwrap();
        assert!(note.contains(words), "{note}");
    }
    let data =
        bench(Some("Europe/Oslo")).data("format_datetime", json!({"datetime": "2027-03-28T03:30"}));
    assert_eq!(data.get("note"), None);
}

#[test]
fn a_day_is_the_same_day_everywhere() {
    for zone in ["Pacific/Kiritimati", "Pacific/Pago_Pago"] {
        assert_eq!(
            said(zone, "2026-12-24", "long"),
            "Thursday, 24 December 2026"
        );
        assert_eq!(said(zone, "2026-12-24", "iso"), "2026-12-24");
    }
}

#[test]
fn where_nobody_knows_the_zone_a_moment_keeps_its_offset() {
    let bench = bench(None);
    for (datetime, text) in [
        ("2026-11-28T23:05:00-03:00", "23:05"),
        ("2026-11-28T23:05:00", "23:05"),
        ("now", "13:30"),
    ] {
        let data = bench.data(
            "format_datetime",
            json!({"datetime": datetime, "format": "time"}),
        );
        assert_eq!(
            (&data["text"], &data["time_zone"]),
            (&json!(text), &Value::Null)
        );
        assert!(data["note"].as_str().unwrap().contains("nobody has said"));
    }
}

#[test]
fn where_nobody_knows_the_zone_a_time_by_the_clock_is_given_no_offset() {
    // The server's clock has another offset in July than at the bench's moment, in January.
    let july = "2026-07-01T10:00";
    let bench = bench(None);
    for (format, text) in [
        ("long", "Wednesday, 1 July 2026, 10:00"),
        ("short", "1 Jul 2026, 10:00"),
        ("date", "Wednesday, 1 July 2026"),
        ("time", "10:00"),
    ] {
        let arguments = json!({"datetime": july, "format": format});
        let data = bench.data("format_datetime", arguments);
        assert_eq!(data["text"], text);
        assert_eq!(data["iso"], "2026-07-01T10:00:00");
    }
    for format in ["iso", "relative"] {
        let arguments = json!({"datetime": july, "format": format});
        let report = bench.report("format_datetime", arguments);
        assert_eq!(report.kind, FailureKind::Validation);
        assert!(report.message.contains("has no offset"), "{format}");
        let placed = json!({"datetime": july, "format": format, "time_zone": "Europe/Oslo"});
        assert_eq!(
            bench.data("format_datetime", placed)["iso"],
            "2026-07-01T10:00:00+02:00"
        );
    }
}

#[test]
fn what_is_no_date_or_no_zone_is_refused_with_the_cure() {
    for (arguments, pointer, cure) in [
        (
            json!({"datetime": "tomorrow at 5"}),
            "/datetime",
            "write it as 2026-11-28T14:05:00+01:00",
        ),
        (
            json!({"datetime": "2026-02-30"}),
            "/datetime",
            "write it as",
        ),
        (
            json!({"datetime": "2026-02-03T25:00:00Z"}),
            "/datetime",
            "write it as",
        ),
        (
            json!({"datetime": "-009999-01-01T00:00:00+23:00"}),
            "/datetime",
            "beyond the years",
        ),
        (
            json!({"datetime": "2026-02-03T10:00[Europe/Oslo]"}),
            "/datetime",
            "give the name as `time_zone`",
        ),
        (
            json!({"datetime": "2026-02-03", "format": "time"}),
            "/datetime",
            "give the time, too",
        ),
        (
            json!({"datetime": "now", "time_zone": "Mars/Olympus"}),
            "/time_zone",
            "no time zone \"Mars/Olympus\"; give a name of the IANA",
        ),
        (
            json!({"datetime": "now", "time_zone": "../../etc/passwd"}),
            "/time_zone",
            "such as Europe/Oslo",
        ),
    ] {
        let report = bench(Some("Europe/Oslo")).report("format_datetime", arguments.clone());
        assert_eq!(report.kind, FailureKind::Validation, "{arguments}");
        assert_eq!(
            report.details,
            Some(json!({"pointer": pointer})),
            "{arguments}"
        );
        assert!(report.message.contains(cure), "{}", report.message);
    }
}
