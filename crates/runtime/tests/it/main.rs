//! The runtime through its public entry points: sessions over streams in memory with a scripted client and a scripted
//! provider, both of them spoken by another WebSocket implementation than ours.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says when it skips"
)]

mod accepted_calls;
mod approved_calls;
mod at_rest;
mod audit;
mod audit_afterwards;
mod audit_chain;
mod audit_random;
mod broken_handlers;
mod client_loss;
mod confirmations;
mod direct;
mod fetch;
mod found_pictures;
mod hours_end;
mod http_client;
mod journal;
mod metrics;
mod nested_calls;
mod places;
mod provider_faults;
mod provider_loss;
mod provider_switch;
mod readings;
mod recorded;
mod refusals;
mod restarts;
mod running_changes;
mod store_thread;
mod support;
mod text;
mod voice_calls;
mod voice_flow;
mod voice_input;
mod voice_limits;
mod ways_out;
mod websocket;
mod worker;
