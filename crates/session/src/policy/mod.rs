//! The gates of the call pipeline, one file each, and the one function that puts them in their order. Every policy of the
//! system lives here and nowhere else.

mod admit;
mod admitted;
mod arguments;
mod budget;
pub(crate) mod confirm;
mod idempotency;
mod loop_guard;
mod outcome;
mod recognise;
mod reconnect;
mod retry;

pub(crate) use admit::Proposal;
pub use admitted::{AdmittedCall, EffectLookup};
pub(crate) use arguments::Completed;
pub use idempotency::names_delivery;
pub(crate) use idempotency::{
    Deliveries, DeliveryState, Effect, EffectState, Settled, delivery_key,
};
pub(crate) use loop_guard::{LoopHistory, SavedLoops};
pub(crate) use outcome::{Judged, judge, outcome_unknown, state_of, timed_out};
pub(crate) use reconnect::{Reconnect, Verdict};
pub(crate) use retry::{Failed, retry_delay};

/// The one tool that costs no budget: it returns a guide that the prompt had no room for (`docs/policies.md`, "The pipeline").
pub(crate) use windlass_tool::registry::DESCRIBE_TOOL;

/// Tools whose changes concern the session that made them, or who may begin another.
pub(crate) const STEERING_TOOLS: [&str; 3] =
    ["end_voice_session", BLOCKING_TOOL, "start_voice_session"];

/// The tool that blocks a user, once a session (`docs/policies.md`, "Limits that are not a turn's").
pub(crate) const BLOCKING_TOOL: &str = "ignore_user";
