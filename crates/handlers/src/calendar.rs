//! Events and errors of calendars as the calendar tools answer them. Knows no calendar.

use crate::outcome::without_effect;
use serde_json::{Map, Value, json};
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{CalendarError, CalendarEvent, Context, Report};

/// The most characters of a description in an answer.
const DESCRIPTION_CHARACTERS_MAX: usize = 500;

/// The most characters of a title and of a place. `windlass_calendar::is_titled` compares as many of a title.
const LINE_CHARACTERS_MAX: usize = 200;

/// The most characters of a guest's address (RFC 5321 allows 254).
const ADDRESS_CHARACTERS_MAX: usize = 320;

/// The most guests of an event in an answer.
const ATTENDEES_MAX: usize = 20;

/// The most taken times in a refusal.
const BUSY_MAX: usize = 20;

/// An event that the user may see, with its texts.
pub(crate) fn event(event: &CalendarEvent) -> Value {
    let mut object = Map::new();
    object.insert("event_id".into(), event.id.as_str().into());
    object.insert("calendar".into(), event.calendar.as_str().into());
    let title = event.title.as_deref();
    let title = title.map(line);
    object.insert("title".into(), title.into());
    object.insert("start".into(), event.start.as_str().into());
    object.insert("end".into(), event.end.as_str().into());
    object.insert("all_day".into(), event.is_all_day.into());
    object.insert("status".into(), status(event).into());
    // A part of an address would be another address.
    let is_whole = |address: &&String| address.chars().count() <= ADDRESS_CHARACTERS_MAX;
    let attendees = event.attendees.iter().filter(is_whole).take(ATTENDEES_MAX);
    let attendees: Vec<&str> = attendees.map(String::as_str).collect();
    let left_out = event.attendees.len() - attendees.len();
    object.insert("attendees".into(), attendees.into());
    if left_out > 0 {
        object.insert("attendees_left_out".into(), left_out.into());
    }
    if let Some(link) = &event.link {
        object.insert("conference_link".into(), link.as_str().into());
    }
    if let Some(location) = &event.location {
        let location = line(location);
        object.insert("location".into(), location.into());
    }
    if let Some(description) = &event.description {
        let description = beginning(description, DESCRIPTION_CHARACTERS_MAX);
        object.insert("description".into(), description.into());
    }
    Value::Object(object)
}

/// A title or a place, cut to the length that is shown.
pub(crate) fn line(text: &str) -> String {
    beginning(text, LINE_CHARACTERS_MAX)
}

fn beginning(text: &str, characters_max: usize) -> String {
    text.chars().take(characters_max).collect()
}

fn status(event: &CalendarEvent) -> &'static str {
    match (event.is_cancelled, event.is_tentative) {
        (true, _) => "cancelled",
        (false, true) => "tentative",
        (false, false) => "confirmed",
    }
}

/// A calendar's failure, in words for the model. The cause of an outage is for operators only.
pub(crate) fn calendar_report(error: CalendarError, context: &Context) -> Box<Report> {
    match error {
        CalendarError::Invalid { pointer, message } => Box::new(Report {
            details: Some(json!({"pointer": pointer})),
            ..Report::new(FailureKind::Validation, message)
        }),
        CalendarError::Rejected {
            pointer,
            message,
            cause,
        } => {
            let _ = context.audit("calendar_rejected", json!({"cause": cause}));
            Box::new(Report {
                details: Some(json!({"pointer": pointer})),
                ..Report::new(FailureKind::Validation, message)
            })
        }
        CalendarError::NotFound(message) => Box::new(Report {
            suggestion: Some("list the events first, and take event_id from there".to_owned()),
            ..Report::new(FailureKind::NotFound, message)
        }),
        CalendarError::Different(message) => Box::new(Report {
            suggestion: Some("list the events again, and tell the user what is there".to_owned()),
            partial_side_effects: Some(false),
            ..Report::new(FailureKind::Conflict, message)
        }),
        CalendarError::Taken { busy } => {
            let busy = busy
                .iter()
                .take(BUSY_MAX)
                .map(|(start, end)| json!({"start": start, "end": end}));
            Box::new(Report {
                details: Some(json!({"busy": busy.collect::<Vec<_>>()})),
                suggestion: Some(
                    "offer the user another time from calendar_get_availability".to_owned(),
                ),
                partial_side_effects: Some(false),
                ..Report::new(
                    FailureKind::Conflict,
                    "the time is taken; nothing was changed",
                )
            })
        }
        CalendarError::Unavailable(cause) => {
            // The caller's answer stays the same when the audit is closed.
            let _ = context.audit("calendar_unavailable", json!({"cause": cause}));
            without_effect("the calendar does not answer; nothing was changed")
        }
        CalendarError::Unsettled(cause) => {
            let _ = context.audit("calendar_unsettled", json!({"cause": cause}));
            Box::new(Report {
                partial_side_effects: Some(true),
                ..Report::new(
                    FailureKind::Transient,
                    "the calendar was asked for the change and did not say what became of it",
                )
            })
        }
        CalendarError::Limited { retry_after_ms } => Box::new(Report {
            retry_after_ms: Some(retry_after_ms),
            partial_side_effects: Some(false),
            ..Report::new(
                FailureKind::RateLimit,
                "the calendar takes no more requests for now; nothing was changed",
            )
        }),
        CalendarError::Refused(cause) => {
            let _ = context.audit("calendar_refused", json!({"cause": cause}));
            Box::new(Report {
                suggestion: Some(
                    "tell the user that the calendar's operator has to look into it".to_owned(),
                ),
                partial_side_effects: Some(false),
                ..Report::new(
                    FailureKind::Permanent,
                    "the calendar does not let this program do that; nothing was changed",
                )
            })
        }
    }
}

/// Reports to operators why an event lacks the link that it was to have.
pub(crate) fn note_link(context: &Context, changed: &CalendarEvent) {
    if let Some(cause) = &changed.link_cause {
        let _ = context.audit("conference_failed", json!({"cause": cause}));
    }
}

/// Reports to operators the parts of a calendar that could not be read.
pub(crate) fn note_problems(context: &Context, problems: &[String]) {
    if !problems.is_empty() {
        let _ = context.audit("calendar_problems", json!({"problems": problems}));
    }
}
