//! Calendars at Google and meetings at Zoom, over a client and a server of these tests.

mod client;
mod faults;
mod google;
mod google_calendar;
mod links;
mod server;
mod tokens;
