//! Outside services behind the capabilities of tools: each sends requests over [`windlass_contract::handler::Http`] and reads the
//! answers as hostile. Knows no tool, no session, no socket and no clock but the given one.

pub mod calendar_terms;
pub mod conference;
mod exchange;
pub mod google_calendar;
pub mod images;
pub mod oauth;
mod plain;
pub mod search;
mod service_account;
mod settling;
mod tokens;
mod zoom;

pub use exchange::Endpoint;
pub use google_calendar::{GoogleCalendars, GoogleSettings, Links};
pub use service_account::{KeyFileError, ServiceAccount};
pub use settling::RequestError;
pub use tokens::Grant;
pub use zoom::{Zoom, ZoomSettings};

/// Milliseconds since the Unix epoch.
pub type Clock = fn() -> u64;
