//! Changes of the calendar at Google, each made at most once. A new event has its id from the key of its change, a moved event
//! names the change in a private property, and a change applies only to the version that was read (`If-Match`).

use super::reading::utc;
use super::wire::{CHANGES, Event, LINK, OWNER};
use super::{Account, Links, refusal};
use crate::calendar_terms::{different, digest, not_found, owner, span, time};
use crate::conference::{Conferences, Meeting};
use crate::settling::{Kind, Request, RequestError};
use serde_json::{Value, json};
use windlass_calendar::{PRIMARY, Span, is_titled};
use windlass_contract::handler::{
    CalendarChange, CalendarChangeKind, CalendarError, CalendarEvent, LinkTrouble,
};

/// Attempts at a change, when the event was changed by others between the read and the change.
const ATTEMPTS: usize = 3;

/// An event that is to be made.
struct NewEvent<'a> {
    title: &'a str,
    span: Span,
    attendees: &'a [String],
    description: &'a str,
    with_link: bool,
}

/// The event's contents in the answer after it was made.
struct Wanted<'a> {
    title: &'a str,
    attendees: &'a [String],
    with_link: bool,
}

impl NewEvent<'_> {
    fn wanted(&self) -> Wanted<'_> {
        Wanted {
            title: self.title,
            attendees: self.attendees,
            with_link: self.with_link,
        }
    }
}

/// The event to move or cancel, as the request names it.
struct Named<'a> {
    id: &'a str,
    title: &'a str,
    /// The start that the request names, if it names one.
    start: Option<jiff::Timestamp>,
    owner: Option<String>,
}

/// The outcome of an attempt to change the version of an event that was read.
enum Attempt {
    Made(Box<Event>),
    /// The event has changed since.
    Outdated,
}

impl Account {
    pub(super) async fn change(
        &self,
        request: &CalendarChange,
    ) -> Result<CalendarEvent, CalendarError> {
        let times = |start: &str, end: &str| span((start, "/start_time"), (end, "/end_time"));
        let change = change_of(&request.key);
        match &request.kind {
            CalendarChangeKind::Create {
                title,
                start,
                end,
                attendees,
                description,
                with_link,
            } => {
                let event = NewEvent {
                    title,
                    span: times(start, end)?,
                    attendees,
                    description,
                    with_link: *with_link,
                };
                self.create(&change, &owner(&request.user_id), &event).await
            }
            CalendarChangeKind::Move {
                id,
                title,
                start,
                end,
            } => {
                let named = Named {
                    id,
                    title,
                    start: None,
                    owner: self.owner(&request.user_id),
                };
                self.move_event(&change, &named, times(start, end)?).await
            }
            CalendarChangeKind::Cancel {
                id,
                title,
                start,
                is_whole_series,
            } => {
                let named = Named {
                    id,
                    title,
                    start: Some(time(start, "/start_time")?),
                    owner: self.owner(&request.user_id),
                };
                self.cancel(&named, *is_whole_series).await
            }
        }
    }

    pub(super) async fn find(
        &self,
        request: &CalendarChange,
    ) -> Result<Option<CalendarEvent>, CalendarError> {
        let change = change_of(&request.key);
        let owner = self.owner(&request.user_id);
        let told = |event: &Event, title: &str| self.changed(event, title, owner.as_deref());
        match &request.kind {
            CalendarChangeKind::Create {
                title,
                attendees,
                with_link,
                ..
            } => {
                let wanted = Wanted {
                    title,
                    attendees,
                    with_link: *with_link,
                };
                let event = self.event(&change).await?;
                let event = event.filter(|event| is_made_by(event, &change));
                Ok(event.map(|event| self.made(&event, &wanted)))
            }
            CalendarChangeKind::Move { id, title, .. } => {
                let event = match self.event(id).await {
                    Err(CalendarError::NotFound(_)) => None,
                    event => event?,
                };
                match event {
                    Some(event) if event.has_change(&change) => Ok(Some(told(&event, title))),
                    Some(event) if event.is_bare() => Err(CalendarError::Unsettled(
                        "the event was deleted, and does not say whether it was moved before"
                            .to_owned(),
                    )),
                    Some(_) | None => Ok(None),
                }
            }
            CalendarChangeKind::Cancel {
                id,
                title,
                is_whole_series,
                ..
            } => {
                let event = match self.event(id).await {
                    Err(CalendarError::NotFound(_)) => return Ok(None),
                    event => event?,
                };
                let event = match is_whole_series {
                    true => self.event(&series_of(id, event.as_ref())).await?,
                    false => event,
                };
                // The canceller makes no difference: the event is cancelled, as the change asked.
                let is_it = |event: &Event| {
                    event.is_cancelled() && (event.is_bare() || event.is_of(owner.as_deref()))
                };
                Ok(event.filter(is_it).map(|event| told(&event, title)))
            }
        }
    }

    async fn create(
        &self,
        change: &str,
        maker: &str,
        new: &NewEvent<'_>,
    ) -> Result<CalendarEvent, CalendarError> {
        // An earlier attempt may have made the event, whose time would now count as taken.
        if let Some(event) = self.event(change).await? {
            return self.made_before(change, &event, new);
        }
        let (event, no_meet) = {
            let _only_one = match self.settings.overlaps {
                true => None,
                false => Some(self.taking.lock().await),
            };
            self.require_free(new.span, None).await?;
            match self.insert(change, maker, new).await {
                // The id is this change's own. So an earlier attempt made the event, whatever the first read says.
                Err(RequestError::Status { status: 409, .. }) => {
                    let unsettled =
                        |error: CalendarError| CalendarError::Unsettled(error.to_string());
                    let event = self.event(change).await.map_err(unsettled)?;
                    let event = event.ok_or_else(|| {
                        let cause = "the id of the new event is taken, and there is no such event";
                        CalendarError::Unsettled(cause.to_owned())
                    })?;
                    return self.made_before(change, &event, new).map_err(unsettled);
                }
                made => made.map_err(refusal_of_change)?,
            }
        };
        // Only the attempt that made the event makes its meeting, so that no repeat makes another one.
        match &self.settings.links {
            Links::Service(service) if new.with_link => {
                Ok(self.linked(&**service, event, new).await)
            }
            Links::Meet if new.with_link && event.link().is_none() && event.awaits_link() => {
                let later = self.event(change).await.ok().flatten();
                Ok(self.made(&later.unwrap_or(event), &new.wanted()))
            }
            Links::Nobody | Links::Meet | Links::Service(_) => {
                let made = self.made(&event, &new.wanted());
                Ok(CalendarEvent {
                    link_cause: no_meet.or(made.link_cause),
                    ..made
                })
            }
        }
    }

    /// Inserts the event. Returns it with the reason why it has no conference, if it was to have one.
    async fn insert(
        &self,
        change: &str,
        maker: &str,
        new: &NewEvent<'_>,
    ) -> Result<(Event, Option<String>), RequestError> {
        let guests = new.attendees.iter().map(|email| json!({"email": email}));
        let mut body = json!({
            "id": change,
            "summary": new.title,
            "start": self.when(new.span.start),
            "end": self.when(new.span.end),
            "attendees": guests.collect::<Vec<_>>(),
            "extendedProperties": {"private": {OWNER: maker, CHANGES: change}},
        });
        if !new.description.is_empty() {
            body["description"] = new.description.into();
        }
        let calendar = self
            .id_of(PRIMARY)
            .map_err(|_| RequestError::Unavailable("no calendar is called primary".to_owned()))?;
        let url = format!("{}?{}", self.events_url(calendar), self.told_to_guests());
        let plain = Request::json("POST", url.clone(), &body, Kind::Changes);
        if !(new.with_link && matches!(self.settings.links, Links::Meet)) {
            return self.ask(plain).await.map(|event| (event, None));
        }
        // Google makes the conference of one request id once (`conferenceData.createRequest.requestId`).
        body["conferenceData"] = json!({
            "createRequest": {
                "requestId": change,
                "conferenceSolutionKey": {"type": "hangoutsMeet"},
            }
        });
        let url = format!("{url}&conferenceDataVersion=1");
        let with_meeting = Request::json("POST", url, &body, Kind::Changes);
        match self.ask(with_meeting).await {
            // A calendar without Meet refuses the whole request; the event does not depend on Meet.
            Err(
                ref error @ RequestError::Status {
                    status: 400,
                    ref reason,
                    ..
                },
            ) if names(reason, "conference") => {
                let cause = error.without_words();
                let event = self.ask(plain).await?;
                Ok((event, Some(cause)))
            }
            made => made.map(|event| (event, None)),
        }
    }

    /// The event of an earlier attempt. Refused if the event with this id was made by another change.
    fn made_before(
        &self,
        change: &str,
        event: &Event,
        new: &NewEvent<'_>,
    ) -> Result<CalendarEvent, CalendarError> {
        match is_made_by(event, change) {
            true => Ok(self.made(event, &new.wanted())),
            false => Err(CalendarError::Refused(
                "the id of the new event is another event's".to_owned(),
            )),
        }
    }

    /// Has a meeting made and written into the event. The event stands whatever becomes of the meeting.
    async fn linked(
        &self,
        service: &dyn Conferences,
        event: Event,
        new: &NewEvent<'_>,
    ) -> CalendarEvent {
        let link = service.make(Meeting {
            title: new.title.to_owned(),
            start: new.span.start,
            end: new.span.end,
        });
        let link = match link.await {
            Ok(link) => link,
            Err(error) => {
                return CalendarEvent {
                    link_cause: Some(error.without_words()),
                    ..self.made(&event, &new.wanted())
                };
            }
        };
        let body = json!({
            "location": link,
            "extendedProperties": {"private": {LINK: link}},
        });
        let cause = match self.patch(&event, &body).await {
            Ok(Attempt::Made(event)) => return self.made(&event, &new.wanted()),
            Ok(Attempt::Outdated) => "the event was changed by others meanwhile".to_owned(),
            Err(CalendarError::Rejected { cause, .. }) => cause,
            Err(error) => error.to_string(),
        };
        CalendarEvent {
            link: Some(link),
            link_trouble: Some(LinkTrouble::Unwritten),
            link_cause: Some(cause),
            ..self.made(&event, &new.wanted())
        }
    }

    async fn move_event(
        &self,
        change: &str,
        named: &Named<'_>,
        to: Span,
    ) -> Result<CalendarEvent, CalendarError> {
        for _ in 0..ATTEMPTS {
            let event = self.event(named.id).await?.ok_or_else(not_found)?;
            if event.has_change(change) {
                return Ok(self.changed(&event, named.title, named.owner.as_deref()));
            }
            if event.is_cancelled() || event.is_series() {
                return Err(not_found());
            }
            let from = self.expect(named, &event)?;
            let _only_one = match self.settings.overlaps {
                true => None,
                false => Some(self.taking.lock().await),
            };
            self.require_free(to, Some((&event, from))).await?;
            let mut body = json!({
                "start": self.when(to.start),
                "end": self.when(to.end),
                "extendedProperties": {"private": {CHANGES: event.changes_with(change)}},
            });
            if event.start.date.is_some() {
                // The event no longer lasts whole days.
                body["start"]["date"] = Value::Null;
                body["end"]["date"] = Value::Null;
            }
            match self.patch(&event, &body).await? {
                Attempt::Made(event) => {
                    return Ok(self.changed(&event, named.title, named.owner.as_deref()));
                }
                Attempt::Outdated => {}
            }
        }
        Err(contended())
    }

    async fn cancel(
        &self,
        named: &Named<'_>,
        is_whole_series: bool,
    ) -> Result<CalendarEvent, CalendarError> {
        for _ in 0..ATTEMPTS {
            let event = self.event(named.id).await?.ok_or_else(not_found)?;
            if event.is_cancelled()
                && (!is_whole_series || self.has_no_series(named.id, &event).await?)
            {
                let may_see = event.is_bare() || event.is_of(named.owner.as_deref());
                return match may_see {
                    true => Ok(self.changed(&event, named.title, named.owner.as_deref())),
                    false => Err(not_found()),
                };
            }
            self.expect(named, &event)?;
            let target = match is_whole_series {
                true => {
                    let id = series_of(named.id, Some(&event));
                    self.event(&id).await?.ok_or_else(not_found)?
                }
                // A whole series is cancelled only if the request says so.
                false if event.is_series() => return Err(not_found()),
                false => event,
            };
            if !target.is_cancelled() {
                if !target.is_of(named.owner.as_deref()) {
                    return Err(not_found());
                }
                if let Attempt::Outdated = self.delete(&target).await? {
                    continue;
                }
            }
            return Ok(CalendarEvent {
                is_cancelled: true,
                ..self.changed(&target, named.title, named.owner.as_deref())
            });
        }
        Err(contended())
    }

    /// Whether a cancelled event does not belong to a series that goes on.
    async fn has_no_series(&self, id: &str, event: &Event) -> Result<bool, CalendarError> {
        let series = series_of(id, Some(event));
        if series == id {
            return Ok(true);
        }
        let series = self.event(&series).await?;
        Ok(series.is_none_or(|series| series.is_cancelled()))
    }

    /// Changes the event if its version is still the one that was read
    /// (<https://developers.google.com/workspace/calendar/api/guides/version-resources>).
    async fn patch(&self, event: &Event, body: &Value) -> Result<Attempt, CalendarError> {
        let url = format!("{}?{}", self.event_url(&event.id)?, self.told_to_guests());
        let request = Request::json("PATCH", url, body, Kind::Changes);
        match self.ask(if_match(request, event)).await {
            Ok(event) => Ok(Attempt::Made(Box::new(event))),
            Err(error) => outdated(error),
        }
    }

    async fn delete(&self, event: &Event) -> Result<Attempt, CalendarError> {
        let request = Request {
            method: "DELETE",
            url: format!("{}?{}", self.event_url(&event.id)?, self.told_to_guests()),
            headers: Vec::new(),
            body: Vec::new(),
            kind: Kind::Changes,
        };
        let gone = || Ok(Attempt::Made(Box::new(event.clone())));
        match self.tokens.send(if_match(request, event)).await {
            Ok(_) => gone(),
            // Another change came first.
            Err(RequestError::Status { status: 410, .. }) => gone(),
            Err(error) => outdated(error),
        }
    }

    /// Refuses an event of another owner, and an event other than the one the user was shown. Returns the event's time.
    fn expect(&self, named: &Named<'_>, event: &Event) -> Result<Span, CalendarError> {
        if !event.is_of(named.owner.as_deref()) {
            return Err(not_found());
        }
        let at = event.span(&self.settings.zone).ok_or_else(not_found)?;
        let title = event.summary.as_deref().unwrap_or_default();
        let is_it =
            is_titled(title, named.title) && named.start.is_none_or(|start| start == at.start);
        match is_it {
            true => Ok(at),
            false => Err(different(&self.shown(at.start))),
        }
    }

    /// Refuses a time that an event other than the moved one has.
    async fn require_free(
        &self,
        at: Span,
        moved: Option<(&Event, Span)>,
    ) -> Result<(), CalendarError> {
        if self.settings.overlaps {
            return Ok(());
        }
        let calendar = self.id_of(PRIMARY)?;
        let taken = self.taken(&[(PRIMARY, calendar)], at).await?;
        let meets = |span: &Span| span.start < at.end && at.start < span.end;
        let mut busy: Vec<Span> = taken.into_values().flatten().filter(meets).collect();
        // Busy times do not name their events. The list tells the moved event from the others.
        if let Some((event, from)) = moved
            && meets(&from)
            && !busy.is_empty()
        {
            let found = self.found(calendar, at, None, usize::MAX).await?;
            if let Some(problem) = found.problems.first() {
                return Err(CalendarError::Unavailable(problem.clone()));
            }
            let others = found.events.iter();
            let others = others.filter(|other| other.id != event.id && other.is_busy());
            let spans = others.filter_map(|other| other.span(&self.settings.zone));
            busy = spans.filter(meets).collect();
        }
        match busy.is_empty() {
            true => Ok(()),
            false => Err(CalendarError::Taken {
                busy: (busy.iter())
                    .map(|span| (self.shown(span.start), self.shown(span.end)))
                    .collect(),
            }),
        }
    }

    fn when(&self, at: jiff::Timestamp) -> Value {
        json!({"dateTime": utc(at), "timeZone": self.settings.zone_name})
    }

    fn told_to_guests(&self) -> &'static str {
        match self.settings.invites {
            true => "sendUpdates=all",
            false => "sendUpdates=none",
        }
    }

    /// The changed event, with the title that the change names and without texts that others may have written into it since: the
    /// listing of events shows those. An event of which only the id is left was cancelled.
    fn changed(&self, event: &Event, title: &str, owner: Option<&str>) -> CalendarEvent {
        match self.told(PRIMARY, event, owner) {
            Some(told) => CalendarEvent {
                title: told.title.map(|_| title.to_owned()),
                description: None,
                location: None,
                link: None,
                ..told
            },
            None => CalendarEvent {
                id: event.id.clone(),
                calendar: PRIMARY.to_owned(),
                is_cancelled: event.is_cancelled(),
                ..CalendarEvent::default()
            },
        }
    }

    /// The event as its maker sees it: the contents that the change asked for, whatever others have written into it since, and
    /// the problem of the link that it was to have.
    fn made(&self, event: &Event, wanted: &Wanted<'_>) -> CalendarEvent {
        let link = event.made_link();
        let trouble = match (&link, &self.settings.links) {
            (Some(_), _) => None,
            (None, Links::Nobody) => Some(LinkTrouble::NoService),
            (None, Links::Meet) if event.awaits_link() => Some(LinkTrouble::Pending),
            (None, Links::Meet | Links::Service(_)) => Some(LinkTrouble::Failed),
        };
        let is_place = |place: &String| link.as_ref() == Some(place);
        let trouble = trouble.filter(|_| wanted.with_link);
        let is_of_meet = matches!(self.settings.links, Links::Meet);
        let cause = trouble.filter(|trouble| is_of_meet && *trouble == LinkTrouble::Failed);
        CalendarEvent {
            link_cause: cause.and_then(|_| event.conference_status()),
            location: event.location.clone().filter(is_place),
            link_trouble: trouble,
            link,
            title: Some(wanted.title.to_owned()),
            attendees: wanted.attendees.to_vec(),
            ..self.changed(event, wanted.title, None)
        }
    }
}

/// The mark of a change in an event, and the id of the event that the change makes: 32 hexadecimal digits, all of them digits of
/// base32hex. Google takes 5 to 1,024 of those
/// (<https://developers.google.com/workspace/calendar/api/v3/reference/events/insert>, `id`).
fn change_of(key: &str) -> String {
    digest("windlass change of a calendar\n", key)
}

/// Whether this change made the event. An event with nothing left but its id has that id from the change.
fn is_made_by(event: &Event, change: &str) -> bool {
    event.has_change(change) || event.is_bare()
}

/// The series' id of an occurrence, which is the occurrence's without its time; the own id of any other event.
fn series_of(id: &str, event: Option<&Event>) -> String {
    let named = event.and_then(|event| event.recurring_event_id.clone());
    if let Some(named) = named {
        return named;
    }
    let is_time = |text: &str| {
        text.len() >= 8
            && text[..8].bytes().all(|byte| byte.is_ascii_digit())
            && text[8..]
                .trim_matches(['T', 'Z'])
                .bytes()
                .all(|byte| byte.is_ascii_digit())
    };
    match id.rsplit_once('_') {
        Some((series, time)) if event.is_none() && !series.is_empty() && is_time(time) => {
            series.to_owned()
        }
        Some(_) | None => id.to_owned(),
    }
}

fn if_match(request: Request, event: &Event) -> Request {
    match &event.etag {
        Some(etag) => request.with_header("If-Match", etag.as_str()),
        None => request,
    }
}

fn outdated(error: RequestError) -> Result<Attempt, CalendarError> {
    match error {
        RequestError::Status { status: 412, .. } => Ok(Attempt::Outdated),
        RequestError::Status {
            status: 404 | 410, ..
        } => Err(not_found()),
        error => Err(refusal_of_change(error)),
    }
}

/// The refusal of a change. Status 400 means arguments that Google does not take; its words are unvouched text, and are left out.
fn refusal_of_change(error: RequestError) -> CalendarError {
    let RequestError::Status {
        status: 400,
        reason,
        ..
    } = &error
    else {
        return refusal(error);
    };
    let (pointer, message) = match names(reason, "attendee") || names(reason, "email") {
        true => (
            "/attendees",
            "the calendar does not take one of the addresses in attendees; nothing was changed",
        ),
        false => (
            "",
            "the calendar does not take the event as these arguments have it; nothing was changed",
        ),
    };
    CalendarError::Rejected {
        pointer,
        message: message.to_owned(),
        cause: error.without_words(),
    }
}

fn names(reason: &str, word: &str) -> bool {
    reason.to_ascii_lowercase().contains(word)
}

fn contended() -> CalendarError {
    let cause = "the event was changed by others again and again";
    CalendarError::Unavailable(cause.to_owned())
}
