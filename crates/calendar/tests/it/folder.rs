//! Changes of files: made once, found again, and nothing else touched.

use crate::{at, file_of, span};
use jiff::tz::TimeZone;
use std::fs;
use tempfile::TempDir;
use windlass_calendar::{
    Change, EditError, Folder, FolderError, Kind, NewEvent, PRIMARY, Scope, expand, is_titled,
};

const TITLE: &str = "Chat; with, everybody\nEND:VEVENT";

struct Bench {
    base: TempDir,
    folder: Folder,
}

impl Bench {
    fn new() -> Self {
        let base = TempDir::new().unwrap();
        let folder = Folder::new(base.path().join("calendars"), TimeZone::UTC);
        Self { base, folder }
    }

    fn with(text: &str) -> Self {
        let bench = Self::new();
        fs::create_dir_all(bench.base.path().join("calendars")).unwrap();
        fs::write(bench.path(), text).unwrap();
        bench
    }

    fn path(&self) -> std::path::PathBuf {
        self.base.path().join("calendars/primary.ics")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn change(
        &self,
        key: &str,
        kind: Kind<'_>,
        owner: Option<&str>,
    ) -> Result<String, FolderError> {
        let at = at("2026-11-28T08:00:00Z");
        let change = Change {
            key,
            at,
            owner,
            kind,
        };
        self.folder
            .change(PRIMARY, &change, false)
            .map(|found| found.id)
    }

    fn add(&self, key: &str, start: &str, end: &str) -> Result<String, FolderError> {
        self.change(key, Kind::Add(event(start, end)), None)
    }

    /// `START ID` of what takes time in November and December.
    fn shown(&self) -> Vec<String> {
        let calendar = self.folder.calendar(PRIMARY).unwrap();
        let range = span("2026-11-01T00:00:00Z", "2027-01-01T00:00:00Z");
        let (found, _) = expand(&calendar, &TimeZone::UTC, range.start, range.end).unwrap();
        let found = found.iter().filter(|found| found.event.is_busy());
        found
            .map(|found| format!("{} {}", found.start, found.id()))
            .collect()
    }
}

fn event<'a>(start: &str, end: &str) -> NewEvent<'a> {
    NewEvent {
        title: TITLE,
        start: at(start),
        end: at(end),
        description: "",
        attendees: &[],
        owner: "anna",
    }
}

#[test]
fn an_event_is_made_once_whatever_is_repeated() {
    let bench = Bench::new();
    assert_eq!(bench.folder.names(), [PRIMARY]);
    assert_eq!(bench.shown(), [] as [String; 0]);
    let id = bench
        .add("k1", "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")
        .unwrap();
    let text = bench.text();
    assert_eq!(
        bench
            .add("k1", "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")
            .unwrap(),
        id
    );
    assert_eq!(bench.text(), text);
    assert_eq!(bench.shown(), [format!("2026-11-30T09:00:00Z {id}")]);
    let found = bench.folder.find(PRIMARY, "k1").unwrap().unwrap();
    assert_eq!(
        found.title.as_deref(),
        Some("Chat; with, everybody\nEND:VEVENT")
    );
    assert_eq!(
        found.span,
        span("2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")
    );
    assert_eq!(bench.folder.find(PRIMARY, "k2").unwrap(), None);
    let left = fs::read_dir(bench.path().parent().unwrap())
        .unwrap()
        .count();
    assert_eq!(left, 1, "nothing lies beside the file");
}

#[test]
fn where_an_event_takes_place_is_written_once_and_found_with_it() {
    let bench = Bench::new();
    let id = bench
        .add("k1", "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")
        .unwrap();
    let locate = |location| Kind::Locate { id: &id, location };
    bench
        .change("k1 link", locate("https://a.example/1?a=1,2;3"), None)
        .unwrap();
    // The same change, whatever it says.
    bench
        .change("k1 link", locate("https://a.example/2"), None)
        .unwrap();
    let found = bench.folder.find(PRIMARY, "k1").unwrap().unwrap();
    assert_eq!(
        found.location.as_deref(),
        Some("https://a.example/1?a=1,2;3")
    );
    assert_eq!(bench.text().matches("LOCATION:").count(), 1);
    let refused = bench.change("k2", locate("https://a.example/2"), Some("bob"));
    assert!(matches!(
        refused,
        Err(FolderError::Edit(EditError::NotFound))
    ));
}

#[test]
fn whether_an_event_was_made_now_is_said() {
    let bench = Bench::new();
    let change = Change {
        key: "k1",
        at: at("2026-11-28T08:00:00Z"),
        owner: None,
        kind: Kind::Add(event("2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")),
    };
    for is_new in [true, false] {
        let made = bench.folder.change(PRIMARY, &change, false).unwrap();
        assert_eq!(made.is_new, is_new);
    }
}

#[test]
fn a_taken_time_is_refused_and_a_touching_one_is_not() {
    let bench = Bench::new();
    bench
        .add("k1", "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")
        .unwrap();
    let refusal = bench
        .add("k2", "2026-11-30T09:30:00Z", "2026-11-30T11:00:00Z")
        .unwrap_err();
    let FolderError::Taken { busy } = refusal else {
        panic!("{refusal}");
    };
    assert_eq!(busy, [span("2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")]);
    bench
        .add("k3", "2026-11-30T10:00:00Z", "2026-11-30T11:00:00Z")
        .unwrap();
    assert_eq!(bench.shown().len(), 2);
}

#[test]
fn an_event_is_moved_and_cancelled_once() {
    let bench = Bench::new();
    let id = bench
        .add("k1", "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z")
        .unwrap();
    let moved = || Kind::Move {
        title: TITLE,
        id: &id,
        start: at("2026-11-30T09:30:00Z"),
        end: at("2026-11-30T10:30:00Z"),
    };
    assert_eq!(bench.change("k2", moved(), None).unwrap(), id);
    assert_eq!(bench.shown(), [format!("2026-11-30T09:30:00Z {id}")]);
    let text = bench.text();
    assert!(
        text.contains("SEQUENCE:1\r\n") && text.matches("DTSTART").count() == 1,
        "{text}"
    );
    bench.change("k2", moved(), None).unwrap();
    assert_eq!(bench.text(), text);

    let cancel = || Kind::Cancel {
        title: TITLE,
        start: at("2026-11-30T09:30:00Z"),
        id: &id,
        scope: Scope::Occurrence,
    };
    bench.change("k3", cancel(), None).unwrap();
    assert_eq!(bench.shown(), [] as [String; 0]);
    assert!(
        bench
            .folder
            .find(PRIMARY, "k3")
            .unwrap()
            .unwrap()
            .is_cancelled
    );
    let text = bench.text();
    bench.change("k3", cancel(), None).unwrap();
    assert_eq!(bench.text(), text);
}

#[test]
fn a_series_changes_where_it_is_meant_to() {
    let series = file_of(&[
        "DTSTART;TZID=Europe/Oslo:20261130T090000",
        "DTEND;TZID=Europe/Oslo:20261130T093000",
        "RRULE:FREQ=WEEKLY;COUNT=4",
        "SUMMARY:Weekly",
        "BEGIN:VALARM",
        "TRIGGER:-PT5M",
        "ACTION:DISPLAY",
        "END:VALARM",
    ]);
    let bench = Bench::with(&series);
    let second = "one/20261207T080000Z";
    assert_eq!(bench.shown()[1], format!("2026-12-07T08:00:00Z {second}"));
    let kind = Kind::Move {
        title: "Weekly",
        id: second,
        start: at("2026-12-08T12:00:00Z"),
        end: at("2026-12-08T12:30:00Z"),
    };
    assert_eq!(bench.change("k1", kind, None).unwrap(), second);
    let kind = Kind::Cancel {
        title: "Weekly",
        start: at("2026-12-14T08:00:00Z"),
        id: "one/20261214T080000Z",
        scope: Scope::Occurrence,
    };
    bench.change("k2", kind, None).unwrap();
    assert_eq!(
        bench.shown(),
        [
            "2026-11-30T08:00:00Z one/20261130T080000Z",
            "2026-12-08T12:00:00Z one/20261207T080000Z",
            "2026-12-21T08:00:00Z one/20261221T080000Z"
        ]
    );
    // The moved one once more, then away with it.
    let kind = Kind::Move {
        title: "Weekly",
        id: second,
        start: at("2026-12-09T12:00:00Z"),
        end: at("2026-12-09T12:30:00Z"),
    };
    bench.change("k3", kind, None).unwrap();
    assert_eq!(bench.shown()[1], format!("2026-12-09T12:00:00Z {second}"));
    bench
        .change(
            "k4",
            Kind::Cancel {
                title: "Weekly",
                start: at("2026-12-09T12:00:00Z"),
                id: second,
                scope: Scope::Occurrence,
            },
            None,
        )
        .unwrap();
    assert_eq!(bench.shown().len(), 2);
    for key in ["k1", "k2", "k3", "k4"] {
        assert!(bench.folder.find(PRIMARY, key).unwrap().is_some(), "{key}");
    }
    // The series has the alarm, and so have the two occurrences that became instances.
    assert_eq!(bench.text().matches("BEGIN:VALARM").count(), 3);
    bench
        .change(
            "k5",
            Kind::Cancel {
                title: "Weekly",
                start: at("2026-11-30T08:00:00Z"),
                id: "one",
                scope: Scope::Series,
            },
            None,
        )
        .unwrap();
    assert_eq!(bench.shown(), [] as [String; 0]);
}

#[test]
fn other_peoples_events_are_not_there_for_who_may_change_only_their_own() {
    let bench = Bench::with(&file_of(&["DTSTART:20261130T090000Z", "DURATION:PT1H"]));
    let mine = bench
        .add("k1", "2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z")
        .unwrap();
    for id in ["one", "two", "one/20261130T090000Z", "", "/", "../primary"] {
        let kind = Kind::Cancel {
            title: "",
            start: at("2026-11-30T09:00:00Z"),
            id,
            scope: Scope::Occurrence,
        };
        let refusal = bench.change("k2", kind, Some("anna")).unwrap_err();
        assert!(
            matches!(refusal, FolderError::Edit(EditError::NotFound)),
            "{id}: {refusal}"
        );
    }
    let kind = Kind::Cancel {
        title: TITLE,
        start: at("2026-12-01T09:00:00Z"),
        id: &mine,
        scope: Scope::Occurrence,
    };
    assert!(bench.change("k3", kind.clone(), Some("bo")).is_err());
    assert!(bench.change("k3", kind, Some("anna")).is_ok());
}

#[test]
fn what_was_in_the_file_stays_as_it_was() {
    let before = "BEGIN:VCALENDAR\nX-WR-CALNAME:Mine\nBEGIN:VEVENT\nUID:a\nDTSTART:20261130T090000Z\nDURATION:PT1H\nX-ODD;P=\"a:b\":kept\n\
        SUMMARY:Lo\n ng\nEND:VEVENT\nBEGIN:VTODO\nUID:t\nEND:VTODO\nEND:VCALENDAR\n";
    let bench = Bench::with(before);
    bench
        .add("k1", "2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z")
        .unwrap();
    let kind = Kind::Move {
        title: "Long",
        id: "a",
        start: at("2026-12-02T09:00:00Z"),
        end: at("2026-12-02T10:00:00Z"),
    };
    bench.change("k2", kind, None).unwrap();
    let text = bench.text();
    let kept = before
        .lines()
        .filter(|line| !line.starts_with("DTSTART") && !line.starts_with("DURATION"));
    for line in kept {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(bench.shown().len(), 2);
}

#[test]
fn what_cannot_be_kept_is_not_written() {
    for broken in ["no calendar", "BEGIN:VCALENDAR\nBEGIN:VEVENT\n"] {
        let bench = Bench::with(broken);
        let refusal = bench
            .add("k1", "2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z")
            .unwrap_err();
        assert!(
            matches!(refusal, FolderError::Edit(EditError::Broken)),
            "{refusal}"
        );
        assert_eq!(bench.text(), broken);
    }
    let bench = Bench::with("");
    fs::write(bench.path(), b"BEGIN:VCALENDAR\nX:\xff\nEND:VCALENDAR\n").unwrap();
    let refusal = bench
        .add("k1", "2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z")
        .unwrap_err();
    assert!(matches!(refusal, FolderError::Encoding(_)), "{refusal}");
    for name in ["../primary", "Primary", "", "a/b", "team"] {
        assert!(bench.folder.calendar(name).is_err(), "{name}");
    }
}

#[test]
fn a_file_that_another_program_wrote_is_read_again() {
    let bench = Bench::with(&file_of(&["DTSTART:20261130T090000Z", "DURATION:PT1H"]));
    assert_eq!(bench.shown().len(), 1);
    fs::write(
        bench.path(),
        file_of(&["DTSTART:20271130T090000Z", "DURATION:PT1H", "X:longer"]),
    )
    .unwrap();
    assert_eq!(bench.shown().len(), 0);
}

#[test]
fn nothing_but_what_the_user_was_shown_is_changed() {
    let series = file_of(&[
        "DTSTART:20261130T090000Z",
        "DURATION:PT1H",
        "RRULE:FREQ=DAILY",
        "SUMMARY:Daily",
    ]);
    let bench = Bench::with(&series);
    let (id, start) = ("one/20261201T090000Z", at("2026-12-01T09:00:00Z"));
    let scope = Scope::Occurrence;
    for (title, wrong) in [("Weekly", start), ("Daily", at("2026-12-02T09:00:00Z"))] {
        let kind = Kind::Cancel {
            title,
            start: wrong,
            id,
            scope,
        };
        let refusal = bench.change("k1", kind, None).unwrap_err();
        let different = EditError::Different { start };
        assert!(matches!(refusal, FolderError::Edit(error) if error == different));
    }
    // A series is changed as a whole only where that is said.
    let title = "Daily";
    let first = at("2026-11-30T09:00:00Z");
    for kind in [
        Kind::Cancel {
            title,
            start: first,
            id: "one",
            scope,
        },
        Kind::Move {
            title,
            id: "one",
            start,
            end: at("2026-12-01T10:30:00Z"),
        },
    ] {
        let refusal = bench.change("k1", kind, None).unwrap_err();
        assert!(
            !matches!(refusal, FolderError::Edit(EditError::Different { .. })),
            "{refusal}"
        );
    }
    assert_eq!(bench.text(), series);
}

#[test]
fn a_change_that_could_not_be_read_back_is_not_made() {
    let bench = Bench::new();
    bench
        .add("k", "2026-12-01T09:00:00Z", "2026-12-01T10:00:00Z")
        .unwrap();
    let before = bench.text();
    // Files reach to the year 2200.
    let made = bench.add("l", "2300-01-01T09:00:00Z", "2300-01-01T10:00:00Z");
    assert!(
        matches!(made, Err(FolderError::Edit(EditError::Unreadable))),
        "{made:?}"
    );
    assert_eq!(bench.text(), before);
}

#[test]
fn a_long_title_is_named_by_the_beginning_that_is_shown() {
    let title = "ä".repeat(300);
    for (characters, is_it) in [(300, true), (200, true), (199, false), (201, false)] {
        let named: String = title.chars().take(characters).collect();
        assert_eq!(is_titled(&title, &named), is_it, "{characters}");
    }
    assert!(is_titled(" Lunch\n", "Lunch") && !is_titled("Lunch", ""));
}
