//! Links of video conferences for calendars. Knows no service.

use crate::settling::RequestError;
use jiff::Timestamp;
use windlass_contract::handler::CapabilityFuture;

/// Bytes of a link.
const LINK_BYTES_MAX: usize = 2_000;

/// Makes meetings.
pub trait Conferences: Send + Sync {
    /// Makes a new meeting with each call. Returns its link for guests.
    fn make(&self, meeting: Meeting) -> CapabilityFuture<Result<String, RequestError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    pub title: String,
    pub start: Timestamp,
    pub end: Timestamp,
}

/// A service's link, if it may be shown.
pub fn checked(link: &str) -> Option<String> {
    let fits = |c: char| !c.is_whitespace() && !c.is_control();
    let is_link = link.starts_with("https://")
        && link.len() > "https://".len()
        && link.len() <= LINK_BYTES_MAX
        && link.chars().all(fits);
    is_link.then(|| link.to_owned())
}
