//! `calendar_list_events`: the events that the user may see, with the ids by which they are moved and cancelled.

use crate::arguments::{read, require_active};
use crate::calendar::{calendar_report, event, note_problems};
use crate::capability::answer;
use crate::outcome::{Outcome, ready};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_contract::handler::{
    CalendarRange, EventsRequest, Execution, Handler, Invocation, Success,
};

pub(crate) struct Lister;

#[derive(Deserialize)]
struct Arguments {
    start_date: String,
    end_date: String,
    calendars: Vec<String>,
    max_results: usize,
}

impl Handler for Lister {
    fn execute(&self, invocation: Invocation) -> Execution {
        list(invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn reads(&self) -> Option<Value> {
        Some(json!({
            "required": ["start_date", "end_date", "calendars", "max_results"],
            "properties": {
                "start_date": {"type": "string"},
                "end_date": {"type": "string"},
                "calendars": {"type": "array", "items": {"type": "string"}},
                "max_results": {"type": "integer"},
            },
        }))
    }
}

fn list(invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "look into the calendar")?;
    let arguments: Arguments = read(&arguments)?;
    let request = EventsRequest {
        range: CalendarRange {
            start: arguments.start_date,
            end: arguments.end_date,
            calendars: arguments.calendars,
        },
        events_max: arguments.max_results,
        user_id: context.caller.user_id.clone(),
    };
    let calendars = context.capabilities.calendars();
    Ok(answer(
        calendars.events(request),
        move |found| match found {
            Ok(found) => {
                note_problems(&context, &found.problems);
                let events: Vec<Value> = found.events.iter().map(event).collect();
                let mut data = json!({
                    "time_zone": found.zone,
                    "items": events,
                    "left_out": found.left_out,
                });
                if !found.problems.is_empty() {
                    data["incomplete"] = true.into();
                }
                Ok(Success::new(data))
            }
            Err(error) => Err(calendar_report(error, &context)),
        },
    ))
}
