//! Services of others that built-in tools ask, each over the capability `Http`. Knows requests, answers and what a service's refusals
//! mean; owns no socket, no clock and no tool.

mod exchange;
pub mod images;
mod plain;
pub mod search;

pub use exchange::Endpoint;
