//! Google's events and busy times in JSON (<https://developers.google.com/workspace/calendar/api/v3/reference/events>,
//! `/freebusy/query`), and our marks in them. Sends no request.

use crate::conference::checked;
use crate::settling::is_code;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use windlass_calendar::Span;

/// The private property with the user who had an event made.
pub(super) const OWNER: &str = "windlassOwner";
/// The changes that were made in an event, with a space between them; the newest is the last.
pub(super) const CHANGES: &str = "windlassChanges";
/// The link of a conference that is not Google's.
pub(super) const LINK: &str = "windlassLink";
/// The address of Google's own conferences.
const MEET: &str = "https://meet.google.com/";
/// Changes that an event remembers. A value has at most 1,024 characters
/// (<https://developers.google.com/workspace/calendar/api/guides/extended-properties>).
const CHANGES_MAX: usize = 24;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) etag: Option<String>,
    status: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) description: Option<String>,
    pub(super) location: Option<String>,
    pub(super) start: When,
    end: When,
    recurrence: Vec<String>,
    pub(super) recurring_event_id: Option<String>,
    transparency: Option<String>,
    pub(super) attendees: Vec<Attendee>,
    extended_properties: Properties,
    hangout_link: Option<String>,
    conference_data: Option<ConferenceData>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct When {
    /// The date of an event of whole days.
    pub(super) date: Option<String>,
    date_time: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Attendee {
    pub(super) email: Option<String>,
    #[serde(rename = "self")]
    is_self: bool,
    response_status: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Properties {
    private: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConferenceData {
    create_request: CreateRequest,
    entry_points: Vec<EntryPoint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CreateRequest {
    status: CreateStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CreateStatus {
    status_code: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EntryPoint {
    entry_point_type: String,
    uri: String,
}

impl When {
    fn at(&self, zone: &TimeZone) -> Option<Timestamp> {
        match (&self.date_time, &self.date) {
            (Some(time), _) => time.parse().ok(),
            (None, Some(date)) => {
                let date: Date = date.parse().ok()?;
                zone.to_ambiguous_timestamp(date.at(0, 0, 0, 0))
                    .compatible()
                    .ok()
            }
            (None, None) => None,
        }
    }
}

impl Event {
    /// `None` if the event does not say its time, as a deleted event may.
    pub(super) fn span(&self, zone: &TimeZone) -> Option<Span> {
        let start = self.start.at(zone)?;
        let end = self.end.at(zone)?;
        Some(Span {
            start,
            end: end.max(start),
        })
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.status.as_deref() == Some("cancelled")
    }

    pub(super) fn is_tentative(&self) -> bool {
        self.status.as_deref() == Some("tentative")
    }

    /// Whether the event stands for all occurrences of a series.
    pub(super) fn is_series(&self) -> bool {
        !self.recurrence.is_empty()
    }

    pub(super) fn is_busy(&self) -> bool {
        let declined = |attendee: &Attendee| {
            attendee.is_self && attendee.response_status.as_deref() == Some("declined")
        };
        !self.is_cancelled()
            && self.transparency.as_deref() != Some("transparent")
            && !self.attendees.iter().any(declined)
    }

    pub(super) fn is_of(&self, owner: Option<&str>) -> bool {
        owner.is_none() || self.private(OWNER) == owner
    }

    /// Whether the event is a deleted one, for which Google returns the id alone.
    pub(super) fn is_bare(&self) -> bool {
        let has_time = self.start.date.is_some() || self.start.date_time.is_some();
        self.is_cancelled() && self.extended_properties.private.is_empty() && !has_time
    }

    fn private(&self, name: &str) -> Option<&str> {
        let properties = &self.extended_properties.private;
        properties.get(name).map(String::as_str)
    }

    pub(super) fn has_change(&self, change: &str) -> bool {
        let known = self.private(CHANGES).unwrap_or_default();
        known.split(' ').any(|known| known == change)
    }

    /// The event's changes with one more, without the oldest if there are too many.
    pub(super) fn changes_with(&self, change: &str) -> String {
        let known = self.private(CHANGES).unwrap_or_default();
        let mut known: Vec<&str> = known.split(' ').filter(|one| !one.is_empty()).collect();
        known.push(change);
        let oldest = known.len().saturating_sub(CHANGES_MAX);
        known[oldest..].join(" ")
    }

    /// The address of the event's conference.
    pub(super) fn link(&self) -> Option<String> {
        let entries = self.conference_data.iter();
        let mut entries = entries.flat_map(|data| &data.entry_points);
        let video = entries.find(|entry| entry.entry_point_type == "video");
        let link = self
            .private(LINK)
            .or(video.map(|entry| entry.uri.as_str()))
            .or(self.hangout_link.as_deref());
        checked(link?)
    }

    /// The event's link, if it was made with the event: ours, or Meet's. Other links may have been written by anybody.
    pub(super) fn made_link(&self) -> Option<String> {
        let is_ours = self.private(LINK).is_some();
        let link = self.link()?;
        (is_ours || link.starts_with(MEET)).then_some(link)
    }

    /// Whether Google is still making the event's conference.
    pub(super) fn awaits_link(&self) -> bool {
        let data = self.conference_data.as_ref();
        data.is_some_and(|data| data.create_request.status.status_code == "pending")
    }

    /// The state of the requested conference, in words for operators.
    pub(super) fn conference_status(&self) -> Option<String> {
        let data = self.conference_data.as_ref()?;
        let code = &data.create_request.status.status_code;
        is_code(code).then(|| format!("the status of the conference is {code}"))
    }
}

/// A page of events.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Page {
    /// The events, read one by one, so that a broken event hides no other.
    pub(super) items: Vec<Value>,
    pub(super) next_page_token: Option<String>,
}

/// Busy times of calendars, by their ids.
#[derive(Debug, Deserialize)]
pub(super) struct BusyTimes {
    pub(super) calendars: BTreeMap<String, BusyCalendar>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BusyCalendar {
    busy: Vec<BusySpan>,
    errors: Vec<BusyError>,
}

#[derive(Debug, Deserialize)]
struct BusySpan {
    start: String,
    end: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BusyError {
    reason: String,
}

impl BusyCalendar {
    /// The taken times, or the reason why they are unknown.
    pub(super) fn spans(&self) -> Result<Vec<Span>, String> {
        if let Some(error) = self.errors.first() {
            return Err(error.reason.chars().take(100).collect());
        }
        let spans = self.busy.iter().map(|span| {
            let start: Option<Timestamp> = span.start.parse().ok();
            let end: Option<Timestamp> = span.end.parse().ok();
            let (start, end) = start.zip(end)?;
            Some(Span { start, end })
        });
        let spans: Option<Vec<Span>> = spans.collect();
        spans.ok_or_else(|| "a busy time of it is none".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_remembers_its_newest_changes_within_the_limit_of_a_value() {
        let mut value = String::new();
        for number in 0..40 {
            let event: Event = serde_json::from_value(
                json!({"id": "a", "extendedProperties": {"private": {CHANGES: value}}}),
            )
            .unwrap();
            value = event.changes_with(&format!("{number:032}"));
        }
        assert!(value.len() <= 1_024);
        let event: Event = serde_json::from_value(
            json!({"id": "a", "extendedProperties": {"private": {CHANGES: value}}}),
        )
        .unwrap();
        assert!(event.has_change(&format!("{:032}", 39)));
        assert!(!event.has_change(&format!("{:032}", 0)));
        assert!(!event.has_change(""));
    }
}
