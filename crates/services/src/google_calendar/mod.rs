//! Calendars at Google, over its Calendar API v3 (<https://developers.google.com/workspace/calendar/api/v3/reference>): the
//! requests and the texts of refusals. Reading is in `reading`, changes are in `changes`, the service's own shapes in `wire`.

mod changes;
mod reading;
mod wire;

use crate::Clock;
use crate::calendar_terms::{not_found, owner, shown};
use crate::conference::Conferences;
use crate::settling::{Exchange, Kind, Request, RequestError, escaped, read};
use crate::tokens::{Grant, Tokens};
use futures_util::lock::Mutex;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_calendar::{PRIMARY, WorkingHours};
use windlass_contract::handler::{
    Availability, AvailabilityRequest, CalendarChange, CalendarError, CalendarEvent, Calendars,
    CapabilityFuture, EventList, EventsRequest, Http,
};
use windlass_contract::id::UserId;
use wire::Event;

/// The access to the calendars, and the rights in them.
pub struct GoogleSettings {
    /// The address of the API, such as `https://www.googleapis.com/calendar/v3`.
    pub url: String,
    /// The address of the token endpoint, such as `https://oauth2.googleapis.com/token`.
    pub token_url: String,
    pub grant: Grant,
    /// Google's ids of calendars by the names that tools call them; changes go to the one called `primary`.
    pub calendars: BTreeMap<String, String>,
    /// The zone of all times in answers, and its name.
    pub zone: TimeZone,
    pub zone_name: String,
    pub hours: WorkingHours,
    pub buffer: SignedDuration,
    /// Whether events may be made at times that are taken.
    pub overlaps: bool,
    /// Whether users see and change only the events that they had made.
    pub only_own: bool,
    /// Whether Google writes to the guests.
    pub invites: bool,
    pub links: Links,
    /// The time for each request, to the end of its answer.
    pub timeout_ms: u64,
}

/// The service that makes the links of conferences.
#[derive(Clone)]
pub enum Links {
    Nobody,
    /// Google Meet, with the event.
    Meet,
    /// Another service, after the event.
    Service(Arc<dyn Conferences>),
}

pub struct GoogleCalendars(Arc<Account>);

struct Account {
    settings: GoogleSettings,
    tokens: Tokens,
    /// Held by a change from its check that a time is free until it has taken the time.
    taking: Mutex<()>,
}

impl GoogleCalendars {
    /// Opens no connection: the first request to the service comes with the first call.
    pub fn new(settings: GoogleSettings, http: Arc<dyn Http>, clock: Clock) -> Self {
        let exchange = Exchange {
            http,
            timeout_ms: settings.timeout_ms,
            clock,
        };
        let tokens = Tokens::new(exchange, settings.token_url.clone(), settings.grant.clone());
        Self(Arc::new(Account {
            settings,
            tokens,
            taking: Mutex::default(),
        }))
    }
}

impl Calendars for GoogleCalendars {
    fn availability(
        &self,
        request: AvailabilityRequest,
    ) -> CapabilityFuture<Result<Availability, CalendarError>> {
        let account = self.0.clone();
        Box::pin(async move { account.availability(&request).await })
    }

    fn events(&self, request: EventsRequest) -> CapabilityFuture<Result<EventList, CalendarError>> {
        let account = self.0.clone();
        Box::pin(async move { account.events(&request).await })
    }

    fn change(
        &self,
        request: CalendarChange,
    ) -> CapabilityFuture<Result<CalendarEvent, CalendarError>> {
        let account = self.0.clone();
        Box::pin(async move { account.change(&request).await })
    }

    fn find(
        &self,
        change: CalendarChange,
    ) -> CapabilityFuture<Result<Option<CalendarEvent>, CalendarError>> {
        let account = self.0.clone();
        Box::pin(async move { account.find(&change).await })
    }
}

impl Account {
    /// The mark of the owner whose events are seen and changed; `None` for all events.
    fn owner(&self, user_id: &UserId) -> Option<String> {
        self.settings.only_own.then(|| owner(user_id))
    }

    /// Google's id of a calendar.
    fn id_of(&self, name: &str) -> Result<&str, CalendarError> {
        let calendars = &self.settings.calendars;
        match calendars.get(name) {
            Some(id) => Ok(id),
            None => Err(CalendarError::Invalid {
                pointer: "/calendars",
                message: format!(
                    "there is no calendar {name:?}; there are {}",
                    calendars.keys().cloned().collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }

    /// The address of a calendar's events.
    fn events_url(&self, calendar_id: &str) -> String {
        let url = &self.settings.url;
        format!("{url}/calendars/{}/events", escaped(calendar_id))
    }

    /// The address of an event in the calendar that changes go to. Refuses an id that Google gives to no event.
    fn event_url(&self, id: &str) -> Result<String, CalendarError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if id.is_empty() || id.len() > 1_024 || !id.bytes().all(fits) {
            return Err(not_found());
        }
        Ok(format!("{}/{id}", self.events_url(self.id_of(PRIMARY)?)))
    }

    fn shown(&self, at: Timestamp) -> String {
        shown(at, &self.settings.zone)
    }

    async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, RequestError> {
        let kind = request.kind;
        let body = self.tokens.send(request).await?;
        read(&body, kind)
    }

    /// An event; `None` if the calendar does not have it. A deleted event remains for a while, as cancelled.
    async fn event(&self, id: &str) -> Result<Option<Event>, CalendarError> {
        let request = Request::get(self.event_url(id)?);
        match self.ask(request).await {
            Ok(event) => Ok(Some(event)),
            Err(RequestError::Status {
                status: 404 | 410, ..
            }) => Ok(None),
            Err(error) => Err(refusal(error)),
        }
    }

    /// An event as tools see it, with its texts if the user may see them.
    fn told(&self, calendar: &str, event: &Event, owner: Option<&str>) -> Option<CalendarEvent> {
        let span = event.span(&self.settings.zone)?;
        let told = CalendarEvent {
            calendar: calendar.to_owned(),
            start: self.shown(span.start),
            end: self.shown(span.end),
            is_all_day: event.start.date.is_some(),
            is_tentative: event.is_tentative(),
            is_cancelled: event.is_cancelled(),
            ..CalendarEvent::default()
        };
        if !event.is_of(owner) {
            return Some(told);
        }
        let attendees = event.attendees.iter();
        Some(CalendarEvent {
            id: event.id.clone(),
            title: event.summary.clone(),
            description: event.description.clone(),
            location: event.location.clone(),
            attendees: attendees
                .filter_map(|attendee| attendee.email.clone())
                .collect(),
            link: event.link(),
            ..told
        })
    }
}

/// A request that only reads, though it carries a body.
fn query(url: String, body: &Value) -> Request {
    Request::json("POST", url, body, Kind::Reads)
}

fn refusal(error: RequestError) -> CalendarError {
    match error {
        RequestError::Unavailable(cause) => CalendarError::Unavailable(cause),
        RequestError::Unsettled(cause) => CalendarError::Unsettled(cause),
        RequestError::Limited { retry_after_ms } => CalendarError::Limited { retry_after_ms },
        RequestError::Denied(_) | RequestError::Status { .. } => {
            CalendarError::Refused(error.to_string())
        }
    }
}
