//! The calendars as tools see them: what is asked of them, and what they answer. Knows no file and no service. Times are RFC 3339.

use super::CapabilityFuture;
use crate::id::UserId;

/// The calendars that this program keeps or reaches.
pub trait Calendars: Send + Sync {
    fn availability(
        &self,
        request: AvailabilityRequest,
    ) -> CapabilityFuture<Result<Availability, CalendarError>>;

    /// The events that the user may see, by their start.
    fn events(&self, request: EventsRequest) -> CapabilityFuture<Result<EventList, CalendarError>>;

    /// Makes a change, or finds that it was made before. The event as it stands then.
    fn change(
        &self,
        request: CalendarChange,
    ) -> CapabilityFuture<Result<CalendarEvent, CalendarError>>;

    /// The event as this change has left it, where the change was made; changes nothing.
    fn find(
        &self,
        change: CalendarChange,
    ) -> CapabilityFuture<Result<Option<CalendarEvent>, CalendarError>>;
}

/// From a time to another.
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
    /// Whether the events' texts are wanted, where the user may see them. Without them it is enough to know what is taken.
    pub with_texts: bool,
    /// Who asks.
    pub user_id: UserId,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsRequest {
    pub range: CalendarRange,
    pub events_max: usize,
    pub user_id: UserId,
}

/// Taken and free times. All times are by the calendars' clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    pub start: String,
    pub end: String,
    /// The name of the zone that the times are in.
    pub zone: String,
    /// Events that take time, by their start; with texts only where the user may see them.
    pub taken: Vec<CalendarEvent>,
    pub free: Vec<FreeSlot>,
    /// Parts of a calendar that could not be read, for operators.
    pub problems: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventList {
    pub zone: String,
    pub events: Vec<CalendarEvent>,
    /// Events beyond those that are listed.
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
    /// By which a change names it.
    pub id: String,
    pub calendar: String,
    pub start: String,
    pub end: String,
    pub is_all_day: bool,
    pub is_tentative: bool,
    pub is_cancelled: bool,
    /// `None` where there is none, or the user may not see it.
    pub title: Option<String>,
    pub description: Option<String>,
    pub location: Option<String>,
    pub attendees: Vec<String>,
    /// Where its conference is, by video.
    pub link: Option<String>,
    /// Of an event that was to have a link, what the user has to know of it.
    pub link_trouble: Option<LinkTrouble>,
    /// Why that is so, where the service has just said it. The text is for operators, and holds nothing of what the user said.
    pub link_cause: Option<String>,
}

/// What is wrong with the link that an event was to have. The event itself stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkTrouble {
    /// No service is configured that makes links.
    NoService,
    /// The service made none, or nobody knows of it.
    Failed,
    /// The service still makes it.
    Pending,
    /// There is a link, and the event does not say it.
    Unwritten,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarChange {
    /// The same for every attempt at one change, and of no other change.
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
        /// Whether the event is to have the link of a conference.
        with_link: bool,
    },
    Move {
        id: String,
        /// The event's title, as the user was shown it; empty where it has none.
        title: String,
        start: String,
        end: String,
    },
    Cancel {
        id: String,
        title: String,
        /// When it starts, as the user was shown it.
        start: String,
        /// With all its other occurrences.
        is_whole_series: bool,
    },
}

/// The reason why a calendar does not do what it is asked. Except for [`CalendarError::Unsettled`] nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    #[error("{message}")]
    Invalid {
        /// The argument that does not fit.
        pointer: &'static str,
        message: String,
    },
    /// The service does not take what it was asked with.
    #[error("{message}")]
    Rejected {
        /// The argument that does not fit; empty where that is not known.
        pointer: &'static str,
        message: String,
        /// For operators. It holds nothing of what the user said.
        cause: String,
    },
    #[error("{0}")]
    NotFound(String),
    /// The event is another than the one that was named.
    #[error("{0}")]
    Different(String),
    #[error("the time is taken")]
    Taken {
        /// Start and end of what takes it.
        busy: Vec<(String, String)>,
    },
    /// It does not answer, or cannot. The text is for operators.
    #[error("{0}")]
    Unavailable(String),
    /// It was asked for the change, and nobody knows what became of that. The text is for operators.
    #[error("{0}")]
    Unsettled(String),
    /// It takes no more requests for now.
    #[error("the calendar takes no more requests for {retry_after_ms} ms")]
    Limited { retry_after_ms: u64 },
    /// It does not let this program do that. The text is for operators.
    #[error("{0}")]
    Refused(String),
}

/// The calendars of a world without any: each call is refused.
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
