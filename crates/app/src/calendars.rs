//! The calendars of the data folder as tools see them: reads what a call asks for, keeps each user to the events that the
//! configuration lets them see and change, and says times by the calendars' clock. Knows no tool.

use crate::clock;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use windlass_calendar::{
    Calendar, Change, EditError, ExpandError, Folder, FolderError, Found, Kind, NewEvent,
    Occurrence, PRIMARY, Scope, Span, Status, WorkingHours, busy, expand, free,
};
use windlass_config::{CalendarAccess, Config};
use windlass_tool::handler::{
    Availability, AvailabilityRequest, CalendarChange, CalendarChangeKind, CalendarError,
    CalendarEvent, CalendarRange, Calendars, CapabilityFuture, EventList, EventsRequest, FreeSlot,
};
use windlass_tool::id::UserId;
use windlass_tool::json;

/// The folder in the data folder.
const FOLDER: &str = "calendars";
/// Days of one range, and of one event.
const DAYS_MAX: i64 = 31;
/// Times of calendars lie in these years; a file may have a day more on both sides, by its own clock.
const YEARS: std::ops::RangeInclusive<i16> = 1901..=2199;
/// Problems of a file that operators are told in one answer.
const PROBLEMS_MAX: usize = 5;

/// A calendar with its name.
type Named = (String, Arc<Calendar>);

pub(crate) struct FileCalendars {
    folder: Folder,
    zone_name: String,
    hours: WorkingHours,
    buffer: SignedDuration,
    overlaps: bool,
    access: CalendarAccess,
}

impl FileCalendars {
    /// Opens nothing: the folder is read when somebody asks.
    pub(crate) fn new(config: &Config) -> Self {
        let settings = &config.calendar;
        let zone = windlass_calendar::zone(settings.zone.as_str()).unwrap_or(TimeZone::UTC);
        let minutes = i64::try_from(settings.buffer_minutes.get()).unwrap_or(0);
        Self {
            folder: Folder::new(config.folders.data.join(FOLDER), zone),
            zone_name: settings.zone.as_str().to_owned(),
            hours: settings.working_hours.get().clone(),
            buffer: SignedDuration::from_mins(minutes),
            overlaps: settings.overlaps,
            access: settings.access,
        }
    }

    /// Who may see and change which events; `None` for all.
    fn owner(&self, user_id: &UserId) -> Option<String> {
        match self.access {
            CalendarAccess::Own => Some(owner(user_id)),
            CalendarAccess::All => None,
        }
    }

    fn shown(&self, at: Timestamp) -> String {
        let local = at.to_zoned(self.folder.zone().clone());
        local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
    }

    fn read(&self, range: &CalendarRange) -> Result<(Span, Vec<Named>), CalendarError> {
        let span = span(
            (range.start.as_str(), "/start_date"),
            (range.end.as_str(), "/end_date"),
        )?;
        let mut calendars = Vec::with_capacity(range.calendars.len());
        for name in &range.calendars {
            let calendar = self
                .folder
                .calendar(name)
                .map_err(|error| self.refusal(error))?;
            calendars.push((name.clone(), calendar));
        }
        Ok((span, calendars))
    }

    fn find_availability(
        &self,
        request: &AvailabilityRequest,
    ) -> Result<Availability, CalendarError> {
        let (range, calendars) = self.read(&request.range)?;
        let owner = self.owner(&request.user_id);
        let mut taken = Vec::new();
        let mut spans = Vec::new();
        let mut problems = Vec::new();
        // An event beside the range keeps its buffer within it.
        let from = range.start.checked_sub(self.buffer).unwrap_or(range.start);
        let to = range.end.checked_add(self.buffer).unwrap_or(range.end);
        for (name, calendar) in &calendars {
            let (found, more) =
                expand(calendar, self.folder.zone(), from, to).map_err(|error| too_much(&error))?;
            problems.extend(problems_of(name, calendar, &more));
            for found in found.iter().filter(|found| found.event.is_busy()) {
                spans.push(found.span());
                if found.start < found.end && found.start < range.end && range.start < found.end {
                    taken.push((found.start, self.event(name, found, owner.as_deref())));
                }
            }
        }
        taken.sort_by_key(|(start, _)| *start);
        let busy = busy(spans, range, self.buffer);
        let shortest = SignedDuration::from_mins(i64::from(request.slot_minutes_min));
        let slots = free(range, &busy, &self.hours, self.folder.zone(), shortest);
        Ok(Availability {
            start: self.shown(range.start),
            end: self.shown(range.end),
            zone: self.zone_name.clone(),
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

    fn list(&self, request: &EventsRequest) -> Result<EventList, CalendarError> {
        let (range, calendars) = self.read(&request.range)?;
        let owner = self.owner(&request.user_id);
        let mut events = Vec::new();
        let mut problems = Vec::new();
        for (name, calendar) in &calendars {
            let (found, more) = expand(calendar, self.folder.zone(), range.start, range.end)
                .map_err(|error| too_much(&error))?;
            problems.extend(problems_of(name, calendar, &more));
            for found in &found {
                if may_see(found, owner.as_deref()) && found.event.status != Status::Cancelled {
                    events.push((found.start, self.event(name, found, owner.as_deref())));
                }
            }
        }
        events.sort_by_key(|(start, _)| *start);
        let left_out = events.len().saturating_sub(request.events_max);
        events.truncate(request.events_max);
        Ok(EventList {
            zone: self.zone_name.clone(),
            events: events.into_iter().map(|(_, event)| event).collect(),
            left_out,
            problems,
        })
    }

    /// An occurrence, with its texts where the user may see them.
    fn event(&self, calendar: &str, found: &Occurrence<'_>, owner: Option<&str>) -> CalendarEvent {
        let event = CalendarEvent {
            calendar: calendar.to_owned(),
            start: self.shown(found.start),
            end: self.shown(found.end),
            is_all_day: found.is_all_day(),
            is_tentative: found.event.status == Status::Tentative,
            is_cancelled: found.event.status == Status::Cancelled,
            ..CalendarEvent::default()
        };
        if !may_see(found, owner) {
            return event;
        }
        let attendees = found.event.attendees.iter();
        CalendarEvent {
            id: found.id(),
            title: found.event.summary.clone(),
            description: found.event.description.clone(),
            location: found.event.location.clone(),
            attendees: attendees.map(|attendee| attendee.email.clone()).collect(),
            ..event
        }
    }

    fn make(&self, request: &CalendarChange) -> Result<CalendarEvent, CalendarError> {
        let times = |start: &str, end: &str| span((start, "/start_time"), (end, "/end_time"));
        let maker = owner(&request.user_id);
        let kind = match &request.kind {
            CalendarChangeKind::Create {
                title,
                start,
                end,
                attendees,
                description,
            } => {
                let Span { start, end } = times(start, end)?;
                Kind::Add(NewEvent {
                    title,
                    start,
                    end,
                    description,
                    attendees,
                    owner: &maker,
                })
            }
            CalendarChangeKind::Move {
                id,
                title,
                start,
                end,
            } => {
                let Span { start, end } = times(start, end)?;
                Kind::Move {
                    id,
                    title,
                    start,
                    end,
                }
            }
            CalendarChangeKind::Cancel {
                id,
                title,
                start,
                is_whole_series,
            } => Kind::Cancel {
                id,
                title,
                start: time(start, "/start_time")?,
                scope: match is_whole_series {
                    true => Scope::Series,
                    false => Scope::Occurrence,
                },
            },
        };
        let now_ms = i64::try_from(clock::now_unix_ms()).unwrap_or(i64::MAX);
        let owner = self.owner(&request.user_id);
        let change = Change {
            key: &request.key,
            at: Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::MAX),
            owner: owner.as_deref(),
            kind,
        };
        let found = self.folder.change(PRIMARY, &change, self.overlaps);
        let found = found.map_err(|error| self.refusal(error))?;
        Ok(self.changed(found))
    }

    fn changed(&self, found: Found) -> CalendarEvent {
        CalendarEvent {
            id: found.id,
            calendar: PRIMARY.to_owned(),
            start: self.shown(found.span.start),
            end: self.shown(found.span.end),
            is_all_day: found.is_all_day,
            is_cancelled: found.is_cancelled,
            title: found.title,
            attendees: found.attendees,
            ..CalendarEvent::default()
        }
    }

    fn refusal(&self, error: FolderError) -> CalendarError {
        match error {
            FolderError::Name(_) | FolderError::Unknown { .. } => CalendarError::Invalid {
                pointer: "/calendars",
                message: error.to_string(),
            },
            FolderError::Taken { busy } => CalendarError::Taken {
                busy: (busy.iter())
                    .map(|span| (self.shown(span.start), self.shown(span.end)))
                    .collect(),
            },
            FolderError::Edit(EditError::NotFound) => CalendarError::NotFound(
                "there is no such event, or it is not one that this user may change".to_owned(),
            ),
            // The title is another's text, and stays where texts of others are marked as such.
            FolderError::Edit(EditError::Different { start }) => CalendarError::Different(format!(
                "this event_id has another title, or starts at another time, which is {}; nothing was changed",
                self.shown(start)
            )),
            FolderError::Expand(error) => too_much(&error),
            FolderError::File { .. }
            | FolderError::TooLong(_)
            | FolderError::Encoding(_)
            | FolderError::Contended(_)
            | FolderError::Edit(EditError::Broken | EditError::Unreadable) => {
                CalendarError::Unavailable(error.to_string())
            }
        }
    }
}

impl Calendars for FileCalendars {
    fn availability(
        &self,
        request: AvailabilityRequest,
    ) -> CapabilityFuture<Result<Availability, CalendarError>> {
        Box::pin(std::future::ready(self.find_availability(&request)))
    }

    fn events(&self, request: EventsRequest) -> CapabilityFuture<Result<EventList, CalendarError>> {
        Box::pin(std::future::ready(self.list(&request)))
    }

    fn change(
        &self,
        request: CalendarChange,
    ) -> CapabilityFuture<Result<CalendarEvent, CalendarError>> {
        Box::pin(std::future::ready(self.make(&request)))
    }

    fn find(&self, key: String) -> CapabilityFuture<Result<Option<CalendarEvent>, CalendarError>> {
        let found = self.folder.find(PRIMARY, &key);
        let found = found.map_err(|error| self.refusal(error));
        let found = found.map(|found| found.map(|found| self.changed(found)));
        Box::pin(std::future::ready(found))
    }
}

/// Who had an event made, as its file says it: not the id itself, because files of calendars are passed on.
fn owner(user_id: &UserId) -> String {
    let mut hasher = Sha256::new();
    hasher.update("windlass owner of an event\n");
    hasher.update(user_id.as_str());
    json::hex(&hasher.finalize()[..16])
}

fn may_see(found: &Occurrence<'_>, owner: Option<&str>) -> bool {
    owner.is_none() || found.event.owner.as_deref() == owner
}

fn too_much(error: &ExpandError) -> CalendarError {
    CalendarError::Unavailable(error.to_string())
}

fn problems_of(
    name: &str,
    calendar: &Calendar,
    more: &[windlass_calendar::Problem],
) -> Vec<String> {
    let all = calendar.problems.iter().chain(more);
    let all = all.map(|problem| format!("{name}.ics {problem}"));
    all.take(PROBLEMS_MAX).collect()
}

fn time(text: &str, pointer: &'static str) -> Result<Timestamp, CalendarError> {
    let refuse = |why: &str| CalendarError::Invalid {
        pointer,
        message: format!("{} is {why}", &pointer[1..]),
    };
    let time: Timestamp = text
        .parse()
        .map_err(|_| refuse("no date-time with an offset, such as 2026-11-30T09:00:00+01:00"))?;
    let year = time.to_zoned(TimeZone::UTC).year();
    match YEARS.contains(&year) {
        true => Ok(time),
        false => Err(refuse("in a year that calendars here do not reach")),
    }
}

/// From a time to a later one, with the arguments that say them.
fn span(
    (start, start_pointer): (&str, &'static str),
    (end, end_pointer): (&str, &'static str),
) -> Result<Span, CalendarError> {
    let span = Span {
        start: time(start, start_pointer)?,
        end: time(end, end_pointer)?,
    };
    let invalid = |message: String| {
        Err(CalendarError::Invalid {
            pointer: end_pointer,
            message,
        })
    };
    let length = span.end.duration_since(span.start);
    if length <= SignedDuration::ZERO {
        return invalid(format!(
            "{} must be after {}",
            &end_pointer[1..],
            &start_pointer[1..]
        ));
    }
    // By the clock on the wall, a month may have an hour more.
    if length > SignedDuration::from_hours(24 * DAYS_MAX + 1) {
        return invalid(format!(
            "{} is more than {DAYS_MAX} days after {}",
            &end_pointer[1..],
            &start_pointer[1..]
        ));
    }
    Ok(span)
}
