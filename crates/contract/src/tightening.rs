//! The configuration's settings for tools, which can make a tool stricter. Knows no configuration file.

use crate::kind::{Mode, RateLimit};
use crate::rights::Role;
use crate::version::Version;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The configuration's settings for one tool. They may make a tool stricter and never looser.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tightening {
    pub requires_confirmation: Option<bool>,
    /// `false` makes every call that needs consent ask for it.
    pub remember: Option<bool>,
    pub allowed_modes: Option<Vec<Mode>>,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
    pub rate_limit: Option<RateLimit>,
    pub requires_auth: Option<bool>,
    /// The roles that may use the tool.
    pub roles: Option<BTreeSet<Role>>,
    /// The roles that may approve its calls.
    pub approver_roles: Option<BTreeSet<Role>>,
    /// Settings for single versions of the tool. If any is named, they replace all the other fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<Version, Tightening>,
}

impl Tightening {
    /// The settings for one version of the tool; `None` where other versions alone are set.
    pub fn of(&self, version: &str) -> Option<&Self> {
        match self.versions.is_empty() {
            true => Some(self),
            false => self.versions.get(&Version::parse(version)?),
        }
    }
}
