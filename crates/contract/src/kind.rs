//! The closed vocabularies of a tool's manifest. Each is spelt in JSON exactly as in `schema.json`.

use serde::{Deserialize, Serialize};

/// How the user talks to the model in a session. Given at the session's creation and never inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Text,
    Voice,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Voice => "voice",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    Retrieval,
    Action,
    Utility,
}

impl Category {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retrieval => "retrieval",
            Self::Action => "action",
            Self::Utility => "utility",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffects {
    None,
    ReadOnly,
    Writes,
}

/// Whether the model, and whether the session, waits for the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behavior {
    #[default]
    Blocking,
    NonBlocking,
    /// The call is answered as soon as it has begun; its end is reported separately, to the sessions that are open by then.
    Background,
}

/// When the model speaks of the result of a call that it does not wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduling {
    Interrupt,
    #[default]
    WhenIdle,
    Silent,
}

/// The treatment of a running call when the user interrupts the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnInterrupt {
    #[default]
    Finish,
    Cancel,
}

/// The origin of a tool's results. `External` results are quoted to the model as data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    #[default]
    Internal,
    External,
}

/// A limit on one user's calls of one tool, over all of the user's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    pub calls: u32,
    /// Milliseconds.
    pub window_ms: u64,
}
