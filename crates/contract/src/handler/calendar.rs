//! Calendars as tools see them: requests and answers. Knows no file and no service. Times are RFC 3339.

use super::CapabilityFuture;
use crate::id::UserId;

/// The calendars that this program keeps or reaches.
pub trait Calendars: Send + Sync {
    fn availability(
        &self,
        request: AvailabilityRequest,
    ) -> CapabilityFuture<Result<Availability, CalendarError>>;

    /// The events that the user may see, sorted by start.
    fn events(&self, request: EventsRequest) -> CapabilityFuture<Result<EventList, CalendarError>>;

    /// Makes a change, unless it was made before. Returns the event after the change.
    fn change(
        &self,
        request: CalendarChange,
    ) -> CapabilityFuture<Result<CalendarEvent, CalendarError>>;

    /// The event as this change left it, if the change was made; changes nothing.
    fn find(
        &self,
        change: CalendarChange,
    ) -> CapabilityFuture<Result<Option<CalendarEvent>, CalendarError>>;
}

/// A range from one time to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarRange {
    pub start: String,
    pub end: String,
    /// Names of calendars.
    pub calendars: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailabilityRequest {
    pub range: CalendarRange,
    pub slot_minutes_min: u32,
    /// Whether the events' texts are wanted, where the user may see them. Without them only the taken times are needed.
    pub with_texts: bool,
    /// The user who asks.
    pub user_id: UserId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsRequest {
    pub range: CalendarRange,
    pub events_max: usize,
    pub user_id: UserId,
}

/// Taken and free times, by the calendars' clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    pub start: String,
    pub end: String,
    /// The name of the zone that the times are in.
    pub zone: String,
    /// Events that take time, sorted by start; with texts only where the user may see them.
    pub taken: Vec<CalendarEvent>,
    pub free: Vec<FreeSlot>,
    /// Parts of a calendar that could not be read, for operators.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventList {
    pub zone: String,
    pub events: Vec<CalendarEvent>,
    /// The number of events that are not listed.
    pub left_out: usize,
    /// Parts of a calendar that could not be read, for operators.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeSlot {
    pub start: String,
    pub end: String,
    pub minutes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalendarEvent {
    /// The id by which a change names the event.
    pub id: String,
    pub calendar: String,
    pub start: String,
    pub end: String,
    pub is_all_day: bool,
    pub is_tentative: bool,
    pub is_cancelled: bool,
    /// `None` where the event has no title, or the user may not see it.
    pub title: Option<String>,
    pub description: Option<String>,
    pub location: Option<String>,
    pub attendees: Vec<String>,
    /// The link of its video conference.
    pub link: Option<String>,
    /// The problem with the link that the event was to have, for the user.
    pub link_trouble: Option<LinkTrouble>,
    /// The cause of that problem, if the service has just reported it. The text is for operators and holds no words of the user.
    pub link_cause: Option<String>,
}

/// A problem with the link that an event was to have. The event itself stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTrouble {
    /// No configured service makes links.
    NoService,
    /// The service made no link, or its outcome is unknown.
    Failed,
    /// The service is still making it.
    Pending,
    /// The link exists, and the event does not contain it.
    Unwritten,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarChange {
    /// The key of one change: equal for all attempts at it, and different for every other change.
    pub key: String,
    pub user_id: UserId,
    pub kind: CalendarChangeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalendarChangeKind {
    Create {
        title: String,
        start: String,
        end: String,
        attendees: Vec<String>,
        description: String,
        /// Whether the event is to have a conference link.
        with_link: bool,
    },
    Move {
        id: String,
        /// The event's title as it was shown to the user; empty where it has none.
        title: String,
        start: String,
        end: String,
    },
    Cancel {
        id: String,
        title: String,
        /// The start as it was shown to the user.
        start: String,
        /// Whether all its other occurrences are meant, too.
        is_whole_series: bool,
    },
}

/// The reason why a calendar refuses a request. Except for [`CalendarError::Unsettled`] nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    #[error("{message}")]
    Invalid {
        /// The JSON pointer of the argument that does not fit.
        pointer: &'static str,
        message: String,
    },
    /// The service rejects the request.
    #[error("{message}")]
    Rejected {
        /// The JSON pointer of the argument that does not fit; empty where it is unknown.
        pointer: &'static str,
        message: String,
        /// For operators. It holds no words of the user.
        cause: String,
    },
    #[error("{0}")]
    NotFound(String),
    /// The event differs from the named one.
    #[error("{0}")]
    Different(String),
    #[error("the time is taken")]
    Taken {
        /// Start and end of the events that take the time.
        busy: Vec<(String, String)>,
    },
    /// The calendar does not answer, or cannot. The text is for operators.
    #[error("{0}")]
    Unavailable(String),
    /// The change was requested, and its outcome is unknown. The text is for operators.
    #[error("{0}")]
    Unsettled(String),
    /// The calendar takes no more requests for now.
    #[error("the calendar takes no more requests for {retry_after_ms} ms")]
    Limited { retry_after_ms: u64 },
    /// The calendar does not allow this program the request. The text is for operators.
    #[error("{0}")]
    Refused(String),
}

/// The calendars where none are set up: each request is refused.
pub(super) struct NoCalendars;

impl NoCalendars {
    fn answer<T: Send + 'static>() -> CapabilityFuture<Result<T, CalendarError>> {
        let cause = CalendarError::Unavailable("this program keeps no calendar".to_owned());
        Box::pin(std::future::ready(Err(cause)))
    }
}

impl Calendars for NoCalendars {
    fn availability(
        &self,
        _: AvailabilityRequest,
    ) -> CapabilityFuture<Result<Availability, CalendarError>> {
        Self::answer()
    }

    fn events(&self, _: EventsRequest) -> CapabilityFuture<Result<EventList, CalendarError>> {
        Self::answer()
    }

    fn change(&self, _: CalendarChange) -> CapabilityFuture<Result<CalendarEvent, CalendarError>> {
        Self::answer()
    }

    fn find(
        &self,
        _: CalendarChange,
    ) -> CapabilityFuture<Result<Option<CalendarEvent>, CalendarError>> {
        Self::answer()
    }
}
