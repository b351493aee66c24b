//! `calendar_create_event`, `calendar_move_event` and `calendar_cancel_event`: one change of the calendar each, under the key of
//! its effect, so that a repeated attempt finds what the first one made.

use crate::arguments::{read, require_active};
use crate::calendar::{calendar_report, event, note_link};
use crate::capability::answer;
use crate::outcome::{Outcome, ready, report};
use serde::Deserialize;
use serde_json::{Value, json};
use std::pin::Pin;
use std::task::{Poll, Waker};
use windlass_contract::arguments::Arguments;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{
    CalendarChange, CalendarChangeKind, CalendarEvent, Execution, Finding, Handler, Invocation,
    LinkTrouble, Lookup, LookupInvocation, OutcomeLookup, Success, downstream_key,
};

/// One of the three tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changer {
    Create,
    Move,
    Cancel,
}

#[derive(Deserialize)]
struct Create {
    title: String,
    start_time: String,
    end_time: String,
    attendees: Vec<String>,
    #[serde(default)]
    description: String,
    include_zoom_link: bool,
}

#[derive(Deserialize)]
struct Move {
    event_id: String,
    title: String,
    start_time: String,
    end_time: String,
}

#[derive(Deserialize)]
struct Cancel {
    event_id: String,
    title: String,
    start_time: String,
    whole_series: bool,
}

impl Handler for Changer {
    fn execute(&self, invocation: Invocation) -> Execution {
        change(*self, invocation).unwrap_or_else(|report| ready(Err(report)))
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        Some(self)
    }

    fn reads(&self) -> Option<Value> {
        let text = json!({"type": "string"});
        Some(match self {
            Self::Create => json!({
                "required": ["title", "start_time", "end_time", "attendees", "include_zoom_link"],
                "properties": {
                    "title": text, "start_time": text, "end_time": text,
                    "attendees": {"type": "array", "items": text},
                    "description": text, "include_zoom_link": {"type": "boolean"},
                },
            }),
            Self::Move => json!({
                "required": ["event_id", "title", "start_time", "end_time"],
                "properties": {"event_id": text, "title": text, "start_time": text, "end_time": text},
            }),
            Self::Cancel => json!({
                "required": ["event_id", "title", "start_time", "whole_series"],
                "properties": {
                    "event_id": text, "title": text, "start_time": text, "whole_series": {"type": "boolean"},
                },
            }),
        })
    }
}

fn change(changer: Changer, invocation: Invocation) -> Outcome<Execution> {
    let Invocation { arguments, context } = invocation;
    require_active(&context, "change the calendar")?;
    let kind = kind(changer, &arguments)?;
    let effect_id = context.effect_id.as_ref().ok_or_else(|| {
        report(
            FailureKind::Permanent,
            "a change of the calendar needs an effect: the tool's sideEffects have to be writes",
        )
    })?;
    let request = CalendarChange {
        key: downstream_key(effect_id),
        user_id: context.caller.user_id.clone(),
        kind,
    };
    let calendars = context.capabilities.calendars();
    Ok(answer(
        calendars.change(request),
        move |changed| match changed {
            Ok(changed) => {
                note_link(&context, &changed);
                Ok(success(&changed))
            }
            Err(error) => Err(calendar_report(error, &context)),
        },
    ))
}

fn kind(changer: Changer, arguments: &Arguments) -> Outcome<CalendarChangeKind> {
    Ok(match changer {
        Changer::Create => {
            let create: Create = read(arguments)?;
            CalendarChangeKind::Create {
                title: create.title,
                start: create.start_time,
                end: create.end_time,
                attendees: create.attendees,
                description: create.description,
                with_link: create.include_zoom_link,
            }
        }
        Changer::Move => {
            let moved: Move = read(arguments)?;
            CalendarChangeKind::Move {
                id: moved.event_id,
                title: moved.title,
                start: moved.start_time,
                end: moved.end_time,
            }
        }
        Changer::Cancel => {
            let cancel: Cancel = read(arguments)?;
            CalendarChangeKind::Cancel {
                id: cancel.event_id,
                title: cancel.title,
                start: cancel.start_time,
                is_whole_series: cancel.whole_series,
            }
        }
    })
}

fn success(changed: &CalendarEvent) -> Success {
    let mut data = json!({"event": event(changed)});
    if let Some(trouble) = changed.link_trouble {
        data["note"] = note(trouble).into();
    }
    Success::new(data)
}

fn note(trouble: LinkTrouble) -> &'static str {
    match trouble {
        LinkTrouble::NoService => {
            "the event has no conference link, because no conference service is configured"
        }
        LinkTrouble::Failed => {
            "the event was made; it has no conference link, because the conference service gave none"
        }
        LinkTrouble::Pending => {
            "the event was made; its conference link is still being made and shows up when events are listed"
        }
        LinkTrouble::Unwritten => {
            "the event was made; its conference link could not be written into it, so tell the user the link"
        }
    }
}

impl OutcomeLookup for Changer {
    fn look_up(&self, invocation: LookupInvocation) -> Lookup {
        let Ok(kind) = kind(*self, &invocation.arguments) else {
            return Lookup::Found(Finding::Unknown);
        };
        let context = &invocation.context;
        let mut found = context.capabilities.calendars().find(CalendarChange {
            key: downstream_key(&invocation.effect_id),
            user_id: context.caller.user_id.clone(),
            kind,
        });
        let finding = |found| match found {
            Ok(Some(event)) => Finding::Happened(Box::new(success(&event))),
            Ok(None) => Finding::NotHappened,
            Err(_) => Finding::Unknown,
        };
        let mut task = std::task::Context::from_waker(Waker::noop());
        match Pin::as_mut(&mut found).poll(&mut task) {
            Poll::Ready(found) => Lookup::Found(finding(found)),
            Poll::Pending => Lookup::Pending(Box::pin(async move { finding(found.await) })),
        }
    }
}
