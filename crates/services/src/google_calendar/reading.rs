//! Reading of Google's calendars: taken times, free times, and the events of a range. Changes nothing.

use super::wire::{BusyTimes, Event, OWNER, Page};
use super::{Account, query, refusal};
use crate::calendar_terms::span;
use crate::settling::{Request, RequestError, escaped};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::collections::BTreeMap;
use windlass_calendar::{Span, busy, free};
use windlass_contract::handler::{
    Availability, AvailabilityRequest, CalendarError, CalendarEvent, CalendarRange, EventList,
    EventsRequest, FreeSlot,
};

/// Events of one page, and pages of one calendar in one answer.
const PAGE_EVENTS: usize = 100;
const PAGES_MAX: usize = 10;
/// The fields that are read of a page and of its events.
const FIELDS: &str = "nextPageToken,items(id,etag,status,summary,description,location,start,end,recurrence,recurringEventId,transparency,\
attendees(email,self,responseStatus),extendedProperties/private,hangoutLink,\
conferenceData(createRequest/status,entryPoints(entryPointType,uri)))";
/// Guests of an event that are read. For an event with more guests Google returns the calendar's own alone.
const ATTENDEES_MAX: usize = 100;
/// Calendars of one query (<https://developers.google.com/workspace/calendar/api/v3/reference/freebusy/query>).
const CALENDARS_MAX: usize = 50;

/// A calendar's name and Google's id of it.
type Named<'a> = (&'a str, &'a str);

/// Events of a range.
pub(super) struct Found {
    /// Events by their start, without cancelled events and those of other owners.
    pub(super) events: Vec<Event>,
    /// Later events that are left out.
    left_out: usize,
    /// Problems of events that were not read, for operators.
    pub(super) problems: Vec<String>,
}

impl Account {
    fn read_range<'a>(
        &'a self,
        range: &'a CalendarRange,
    ) -> Result<(Span, Vec<Named<'a>>), CalendarError> {
        let span = span(
            (range.start.as_str(), "/start_date"),
            (range.end.as_str(), "/end_date"),
        )?;
        if range.calendars.len() > CALENDARS_MAX {
            return Err(CalendarError::Invalid {
                pointer: "/calendars",
                message: format!("at most {CALENDARS_MAX} calendars can be asked about at once"),
            });
        }
        let calendars = range.calendars.iter().map(|name| {
            let id = self.id_of(name)?;
            Ok((name.as_str(), id))
        });
        Ok((span, calendars.collect::<Result<_, CalendarError>>()?))
    }

    pub(super) async fn availability(
        &self,
        request: &AvailabilityRequest,
    ) -> Result<Availability, CalendarError> {
        let (range, calendars) = self.read_range(&request.range)?;
        let settings = &self.settings;
        // An event outside the range keeps its buffer within it.
        let asked = Span {
            start: (range.start.checked_sub(settings.buffer)).unwrap_or(range.start),
            end: (range.end.checked_add(settings.buffer)).unwrap_or(range.end),
        };
        let spans = self.taken(&calendars, asked).await?;
        let (mut taken, mut problems) = (Vec::new(), Vec::new());
        let owner = self.owner(&request.user_id);
        for (name, id) in &calendars {
            if request.with_texts {
                let found = self.found(id, range, None, usize::MAX).await?;
                problems.extend(found.problems);
                for event in found.events.iter().filter(|event| event.is_busy()) {
                    let span = event.span(&settings.zone);
                    let told = self.told(name, event, owner.as_deref());
                    taken.extend(span.map(|span| span.start).zip(told));
                }
            } else {
                let spans = spans.get(*name).into_iter().flatten();
                for span in spans {
                    if span.start < range.end && range.start < span.end {
                        let event = CalendarEvent {
                            calendar: (*name).to_owned(),
                            start: self.shown(span.start),
                            end: self.shown(span.end),
                            ..CalendarEvent::default()
                        };
                        taken.push((span.start, event));
                    }
                }
            }
        }
        taken.sort_by_key(|(start, _)| *start);
        let busy = busy(spans.into_values().flatten(), range, settings.buffer);
        let shortest = SignedDuration::from_mins(i64::from(request.slot_minutes_min));
        let slots = free(range, &busy, &settings.hours, &settings.zone, shortest);
        Ok(Availability {
            start: self.shown(range.start),
            end: self.shown(range.end),
            zone: settings.zone_name.clone(),
            taken: taken.into_iter().map(|(_, event)| event).collect(),
            free: slots
                .iter()
                .map(|slot| FreeSlot {
                    start: self.shown(slot.start),
                    end: self.shown(slot.end),
                    minutes: u64::try_from(slot.minutes()).unwrap_or(0),
                })
                .collect(),
            problems,
        })
    }

    pub(super) async fn events(&self, request: &EventsRequest) -> Result<EventList, CalendarError> {
        let (range, calendars) = self.read_range(&request.range)?;
        let owner = self.owner(&request.user_id);
        let (mut events, mut problems, mut left_out) = (Vec::new(), Vec::new(), 0);
        for (name, id) in &calendars {
            let found = self
                .found(id, range, owner.as_deref(), request.events_max)
                .await?;
            problems.extend(found.problems);
            left_out += found.left_out;
            for event in &found.events {
                let start = event.span(&self.settings.zone).map(|span| span.start);
                events.extend(start.zip(self.told(name, event, owner.as_deref())));
            }
            events.sort_by_key(|(start, _)| *start);
            left_out += events.len().saturating_sub(request.events_max);
            events.truncate(request.events_max);
        }
        Ok(EventList {
            zone: self.settings.zone_name.clone(),
            events: events.into_iter().map(|(_, event)| event).collect(),
            left_out,
            problems,
        })
    }

    /// The taken times of each calendar. An answer that leaves a calendar out is refused, because its times would count as free.
    pub(super) async fn taken<'a>(
        &self,
        calendars: &[(&'a str, &str)],
        range: Span,
    ) -> Result<BTreeMap<&'a str, Vec<Span>>, CalendarError> {
        let items = calendars.iter().map(|(_, id)| json!({"id": id}));
        let body = json!({
            "timeMin": utc(range.start),
            "timeMax": utc(range.end),
            "items": items.collect::<Vec<_>>(),
        });
        let url = format!("{}/freeBusy", self.settings.url);
        let times: BusyTimes = self.ask(query(url, &body)).await.map_err(refusal)?;
        let taken = calendars.iter().map(|(name, id)| {
            let calendar = times.calendars.get(*id).ok_or_else(|| {
                CalendarError::Unavailable(format!("the answer leaves out the calendar {name}"))
            })?;
            let spans = calendar.spans().map_err(|reason| {
                CalendarError::Refused(format!(
                    "the calendar {name} cannot be read: {reason}; look at its id in the configuration, and whether it is shared \
                     with this program"
                ))
            })?;
            Ok((*name, spans))
        });
        taken.collect()
    }

    /// The events that touch a range, occurrences of series one by one; the earliest if there are more than `events_max`.
    pub(super) async fn found(
        &self,
        calendar_id: &str,
        range: Span,
        owner: Option<&str>,
        events_max: usize,
    ) -> Result<Found, CalendarError> {
        let mut found = Found {
            events: Vec::new(),
            left_out: 0,
            problems: Vec::new(),
        };
        let mut token: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let mut url = format!(
                "{}?singleEvents=true&orderBy=startTime&maxResults={PAGE_EVENTS}&maxAttendees={ATTENDEES_MAX}&fields={}\
                 &timeMin={}&timeMax={}",
                self.events_url(calendar_id),
                escaped(FIELDS),
                escaped(&utc(range.start)),
                escaped(&utc(range.end)),
            );
            if let Some(owner) = owner {
                let property = format!("{OWNER}={owner}");
                url += &format!("&privateExtendedProperty={}", escaped(&property));
            }
            if let Some(token) = &token {
                url += &format!("&pageToken={}", escaped(token));
            }
            let page: Page = match self.ask(Request::get(url)).await {
                Ok(page) => page,
                Err(RequestError::Status { status: 404, .. }) => {
                    return Err(CalendarError::Refused(
                        "there is no such calendar; look at its id in the configuration, and whether it is shared with this program"
                            .to_owned(),
                    ));
                }
                Err(error) => return Err(refusal(error)),
            };
            for item in page.items {
                match serde_json::from_value::<Event>(item) {
                    // Google was asked for the user's own events alone, but its selection is not trusted.
                    Ok(event) if event.is_cancelled() || !event.is_of(owner) => {}
                    Ok(event) if event.span(&self.settings.zone).is_some() => {
                        found.events.push(event);
                    }
                    Ok(_) | Err(_) => {
                        let problem = "an event has no times that can be read";
                        found.problems.push(problem.to_owned());
                        found.problems.dedup();
                    }
                }
            }
            let start = |event: &Event| event.span(&self.settings.zone).map(|span| span.start);
            found.events.sort_by_key(start);
            found.left_out += found.events.len().saturating_sub(events_max);
            found.events.truncate(events_max);
            token = page.next_page_token.filter(|token| !token.is_empty());
            if token.is_none() {
                return Ok(found);
            }
        }
        found.problems.push(format!(
            "there are more than {} events in the range; ask for a shorter one",
            PAGES_MAX * PAGE_EVENTS
        ));
        Ok(found)
    }
}

pub(super) fn utc(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
