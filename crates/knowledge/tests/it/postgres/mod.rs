//! What only the engine in PostgreSQL has: bases that are written into the database, go on after an interruption, and a
//! database that goes away. That it finds what the engine in memory finds is tested with the searches.

mod near;
mod outage;
mod publishing;
pub(crate) mod server;
mod tls;
