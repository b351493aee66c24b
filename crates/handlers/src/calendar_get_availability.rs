//! `calendar_get_availability`: what is taken in a range, and which slots are free. Knows the shape of the answer; what is free
//! is the calendars' to say.

use crate::arguments::{read, require_active};
use crate::calendar::{calendar_report, line, note_problems};
use crate::capability::{answer, mark_external};
use crate::outcome::{Outcome, ready};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_contract::handler::{
    Availability, AvailabilityRequest, CalendarEvent, CalendarRange, Execution, FreeSlot, Handler,
    Invocation, Success,
};
use windlass_contract::kind::Mode;

pub(crate) struct Finder;

#[derive(Deserialize)]
struct Arguments {
    start_date: String,
    end_date: String,
    calendars: Vec<String>,
    include_details: bool,
    min_duration_minutes: u32,
}

/// The most events, and the most slots, of one answer. Spoken answers are short.
fn listed_max(mode: Mode) -> usize {
    match mode {
        Mode::Text => 100,
        Mode::Voice => 12,
    }
}

impl Handler for Finder {
    fn execute(&self, invocation: Invocation) -> Execution {
        find(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["start_date", "end_date", "calendars", "include_details", "min_duration_minutes"],
            "properties": {
                "start_date": {"type": "string"},
                "end_date": {"type": "string"},
                "calendars": {"type": "array", "items": {"type": "string"}},
                "include_details": {"type": "boolean"},
                "min_duration_minutes": {"type": "integer"},
            },
        }))
    }
}

fn find(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "look into the calendar")?;
    let arguments: Arguments = read(&arguments)?;
    let request = AvailabilityRequest {
        range: CalendarRange {
            start: arguments.start_date,
            end: arguments.end_date,
            calendars: arguments.calendars,
        },
        slot_minutes_min: arguments.min_duration_minutes,
        with_texts: arguments.include_details,
        user_id: context.caller.user_id.clone(),
    };
    let details = arguments.include_details;
    let calendars = context.capabilities.calendars();
    Ok(answer(
        calendars.availability(request),
        move |found| match found {
            Ok(found) => {
                note_problems(&context, &found.problems);
                if details && found.taken.iter().any(|event| event.title.is_some()) {
                    mark_external(&context)?;
                }
                Ok(Success::new(data(&found, details, context.mode)))
            }
            Err(error) => Err(calendar_report(error, &context)),
        },
    ))
}

fn data(found: &Availability, details: bool, mode: Mode) -> Value {
    let listed = listed_max(mode);
    let taken: Vec<Value> = (found.taken.iter().take(listed))
        .map(|event| taken(event, details))
        .collect();
    let free: Vec<Value> = found.free.iter().take(listed).map(slot).collect();
    let minutes: u64 = found.free.iter().map(|slot| slot.minutes).sum();
    let mut data = json!({
        "date_range": {"start": found.start, "end": found.end},
        "time_zone": found.zone,
        "existing_events": taken,
        "available_slots": free,
        "summary": format!(
            "{} busy periods, {} available slots ({minutes} minutes total)",
            found.taken.len(),
            found.free.len(),
        ),
    });
    if found.taken.len() > listed || found.free.len() > listed {
        data["note"] = "not all are listed; ask for a shorter range to see the others".into();
    }
    if !found.problems.is_empty() {
        data["incomplete"] = true.into();
    }
    data
}

fn taken(event: &CalendarEvent, details: bool) -> Value {
    let mut object = Map::new();
    object.insert("start".into(), event.start.as_str().into());
    object.insert("end".into(), event.end.as_str().into());
    let status = if event.is_tentative {
        "tentative"
    } else {
        "busy"
    };
    object.insert("status".into(), status.into());
    object.insert("calendar".into(), event.calendar.as_str().into());
    let title = event.title.as_deref().filter(|_| details);
    object.insert("title".into(), title.map(line).into());
    if title.is_some() {
        object.insert("attendees".into(), event.attendees.len().into());
    }
    Value::Object(object)
}

fn slot(slot: &FreeSlot) -> Value {
    json!({"start": slot.start, "end": slot.end, "duration_minutes": slot.minutes})
}
