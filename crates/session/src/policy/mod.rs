//! The gates of the call pipeline, one file each, and the one function that puts them in their order. Every policy of the
//! system lives here and nowhere else.

mod admit;
mod admitted;
mod arguments;
pub(crate) mod budget;
pub(crate) mod confirm;
pub(crate) mod consent;
mod idempotency;
mod loop_guard;
pub(crate) mod nested;
mod outcome;
mod reconnect;
mod retry;

pub(crate) use admit::{Gates, admitted, examine, not_available, refused_approval};
pub use admitted::{AdmittedCall, EffectRun};
pub(crate) use arguments::judge as judge_arguments;
pub(crate) use budget::BLOCKING_TOOL;
pub use consent::{ConsentReason, ConsentRule, RememberOffer};
pub use idempotency::names_delivery;
pub(crate) use idempotency::{Deliveries, Delivery, DeliveryState, Settled, delivery_key};
pub(crate) use loop_guard::{LoopHistory, SavedLoops, Seen};
pub(crate) use outcome::{Judged, judge, outcome_of, outcome_unknown, timed_out};
pub(crate) use reconnect::{Reconnect, Verdict};
pub(crate) use retry::{Failed, retry_delay};

/// The one tool that costs no budget: it returns a guide that the prompt had no room for (`docs/policies.md`, "The pipeline").
pub(crate) use windlass_contract::registry::DESCRIBE_TOOL;
