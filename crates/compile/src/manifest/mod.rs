//! A tool's `schema.json`: read into a typed manifest, with all its problems. Knows nothing of files, guides or handlers.

pub(crate) mod conditions;
mod defaults;
pub(crate) mod effects;
mod fields;
mod patterns;
mod remember;
pub(crate) mod rules;
pub(crate) mod schema;

use crate::problem::{Report, Severity};
use crate::published;
pub use defaults::FieldDefault;
pub(crate) use defaults::Named;
use fields::{Fields, Presence};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use windlass_contract::condition::{Availability, ConsentCondition};
use windlass_contract::id::ToolId;
use windlass_contract::json;
use windlass_contract::kind::{
    Behavior, Category, Mode, OnInterrupt, RateLimit, Reach, Scheduling, SideEffects,
};
use windlass_contract::remember::Remember;
use windlass_contract::rights::Permissions;
use windlass_contract::wording::{brief, kind_of, nearest, pointer};

/// The content of `schema.json`, with the defaults of missing fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) tool_id: ToolId,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) category: Category,
    pub(crate) side_effects: SideEffects,
    pub(crate) idempotent: bool,
    pub(crate) requires_confirmation: bool,
    /// The calls that need confirmation, of a tool that requires it; `None` where all calls need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) consent_condition: Option<ConsentCondition>,
    /// The approvals that may stand for later calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remember: Option<Remember>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) availability: Option<Availability>,
    /// In the order of the vocabulary, so that the file's order changes nothing.
    pub(crate) allowed_modes: Vec<Mode>,
    /// Milliseconds; soft.
    pub(crate) latency_budget_ms: u64,
    /// Milliseconds; hard limit on one attempt.
    pub(crate) timeout_ms: u64,
    #[serde(default)]
    pub(crate) behavior: Behavior,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scheduling: Option<Scheduling>,
    #[serde(default)]
    pub(crate) on_interrupt: OnInterrupt,
    #[serde(default)]
    pub(crate) reach: Reach,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) confirmation: Option<Confirmation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rate_limit: Option<RateLimit>,
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub(crate) permissions: Permissions,
    /// JSON pointers, sorted, so that the file's order changes nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) effect_key: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repeatable: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sensitive: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
    /// The schemas of the conversation values that the tool may set, by their keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) state: BTreeMap<String, Value>,
    #[serde(rename = "jsonSchema")]
    pub(crate) parameters: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) response_schema: Option<Value>,
}

/// The texts of a confirmation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirmation {
    pub(crate) preview: String,
}

/// The fields that a `schema.json` may have.
const FIELDS: [&str; 26] = [
    "toolId",
    "version",
    "description",
    "category",
    "sideEffects",
    "idempotent",
    "requiresConfirmation",
    "remember",
    "allowedModes",
    "latencyBudgetMs",
    "parameters",
    "timeoutMs",
    "behavior",
    "scheduling",
    "onInterrupt",
    "reach",
    "responseSchema",
    "confirmation",
    "rateLimit",
    "permissions",
    "availability",
    "effectKey",
    "repeatable",
    "sensitive",
    "status",
    "state",
];
const DESCRIPTION_CHARACTERS_MAX: usize = 1_024;
const TEMPLATE_CHARACTERS_MAX: usize = 500;
/// The longest timeout of one attempt of any tool, in milliseconds: a day.
pub(crate) const TIMEOUT_MS_MAX: u64 = 86_400_000;
/// The longest timeout of a tool that writes or is non-blocking, but does not run in the background.
const LONG_TIMEOUT_MS_MAX: u64 = 600_000;
/// The default timeout of background work: an hour.
const BACKGROUND_TIMEOUT_MS: u64 = 3_600_000;
/// The longest timeout of a blocking tool that does not write.
const WAITED_TIMEOUT_MS_MAX: u64 = 60_000;
const TIMEOUT_MS_MIN: u64 = 1_000;

/// The readable fields of a `schema.json`; the report has the problems of the rest.
#[derive(Debug, Default)]
pub(crate) struct Readable {
    pub(crate) tool_id: Option<ToolId>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) category: Option<Category>,
    pub(crate) side_effects: Option<SideEffects>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) requires_confirmation: Option<bool>,
    pub(crate) consent_condition: Option<ConsentCondition>,
    /// In the order of the file, with malformed and repeated pointers.
    pub(crate) remember: Option<Remember>,
    pub(crate) availability: Option<Availability>,
    pub(crate) allowed_modes: Option<Vec<Mode>>,
    pub(crate) latency_budget_ms: Option<u64>,
    pub(crate) parameters: Option<Value>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) behavior: Option<Behavior>,
    pub(crate) scheduling: Option<Scheduling>,
    pub(crate) on_interrupt: Option<OnInterrupt>,
    pub(crate) reach: Option<Reach>,
    pub(crate) response_schema: Option<Value>,
    pub(crate) confirmation: Option<Confirmation>,
    pub(crate) rate_limit: Option<RateLimit>,
    pub(crate) permissions: Option<Permissions>,
    /// In the order of the file, with malformed and repeated pointers.
    pub(crate) effect_key: Vec<String>,
    pub(crate) repeatable: Option<bool>,
    pub(crate) sensitive: Vec<String>,
    pub(crate) status: Option<String>,
    pub(crate) state: BTreeMap<String, Value>,
    /// The defaults of missing fields, in the order of the fields.
    pub(crate) defaults: Vec<FieldDefault>,
}

impl Readable {
    /// The hard limit on one attempt, in milliseconds.
    pub(crate) fn longest_ms(&self) -> Option<u64> {
        let default = |latency_budget_ms| match self.behavior {
            Some(Behavior::Background) => BACKGROUND_TIMEOUT_MS,
            Some(Behavior::Blocking | Behavior::NonBlocking) | None => {
                default_timeout_ms(latency_budget_ms, self.timeout_max())
            }
        };
        self.timeout_ms.or(self.latency_budget_ms.map(default))
    }

    /// The greatest `timeoutMs` that is allowed.
    fn timeout_max(&self) -> u64 {
        match self.behavior {
            Some(Behavior::Background) => TIMEOUT_MS_MAX,
            Some(Behavior::NonBlocking) => LONG_TIMEOUT_MS_MAX,
            _ if self.side_effects == Some(SideEffects::Writes) => LONG_TIMEOUT_MS_MAX,
            Some(Behavior::Blocking) | None => WAITED_TIMEOUT_MS_MAX,
        }
    }

    /// `None` where a required field could not be read.
    pub(crate) fn whole(mut self) -> Option<Manifest> {
        self.effect_key.sort_unstable();
        if let Some(remember) = &mut self.remember {
            remember.arguments.sort_unstable();
        }
        let latency_budget_ms = self.latency_budget_ms?;
        let timeout_ms = self.longest_ms()?;
        Some(Manifest {
            tool_id: self.tool_id?,
            version: self.version?,
            description: self.description?,
            category: self.category?,
            side_effects: self.side_effects?,
            idempotent: self.idempotent?,
            requires_confirmation: self.requires_confirmation?,
            consent_condition: self.consent_condition,
            remember: self.remember,
            availability: self.availability,
            allowed_modes: self.allowed_modes?,
            latency_budget_ms,
            timeout_ms,
            behavior: self.behavior.unwrap_or_default(),
            scheduling: self.scheduling,
            on_interrupt: self.on_interrupt.unwrap_or_default(),
            reach: self.reach.unwrap_or_default(),
            confirmation: self.confirmation,
            rate_limit: self.rate_limit,
            permissions: self.permissions.unwrap_or_default(),
            effect_key: self.effect_key,
            repeatable: self.repeatable.unwrap_or_default(),
            sensitive: self.sensitive,
            status: self.status,
            state: self.state,
            parameters: self.parameters?,
            response_schema: self.response_schema,
        })
    }
}

/// Reads the text of a `schema.json`, and checks each rule whose fields could be read. `is_built_in` tells whether a tool's handler is
/// part of the program. The names in conditions are checked by [`conditions::check`].
pub(crate) fn read(
    text: &str,
    named: Named<'_>,
    is_built_in: impl Fn(&str) -> bool,
    report: &mut Report<'_>,
) -> Readable {
    let value = match json::parse(text.as_bytes()) {
        Ok(value) => value,
        Err(error) => {
            report.at_line(
                Severity::Error,
                error.line.max(1),
                Some(error.column.max(1)),
                format!("this is not valid JSON: {}", error.message),
                "correct the JSON; comments and trailing commas are not part of it",
            );
            return Readable::default();
        }
    };
    let Value::Object(object) = value else {
        report.error(
            "",
            format!("schema.json holds {}, not an object", kind_of(&value)),
            "write an object with description, sideEffects and parameters",
        );
        return Readable::default();
    };
    report_unknown(&object, report);
    let mut readable = read_fields(&object, report);
    defaults::fill(&mut readable, &object, named, report);
    rules::check(&readable, &object, is_built_in, report);
    remember::check(&readable, report);
    readable
}

fn report_unknown(object: &Map<String, Value>, report: &mut Report<'_>) {
    published::check_member(object, report);
    for name in object.keys().filter(|name| *name != published::MEMBER) {
        if !FIELDS.contains(&name.as_str()) {
            let cure = nearest(name, FIELDS.into_iter()).map_or_else(
                || format!("remove it; the fields are {}", FIELDS.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            report.error(
                &pointer("", name),
                format!("there is no field `{}`", brief(name)),
                cure,
            );
        }
    }
}

fn read_fields(object: &Map<String, Value>, report: &mut Report<'_>) -> Readable {
    let mut fields = Fields { object, report };
    let (requires_confirmation, consent_condition) =
        fields.requires_confirmation(TEMPLATE_CHARACTERS_MAX);
    Readable {
        tool_id: fields.tool_id(),
        version: fields.semantic_version(),
        description: fields.text(
            "description",
            Presence::Required,
            DESCRIPTION_CHARACTERS_MAX,
        ),
        category: fields.choice(
            "category",
            Presence::Optional,
            &["retrieval", "action", "utility"],
        ),
        side_effects: fields.choice(
            "sideEffects",
            Presence::Required,
            &["none", "read_only", "writes"],
        ),
        idempotent: fields.boolean("idempotent", Presence::Optional),
        requires_confirmation,
        consent_condition,
        remember: fields.remember(),
        availability: fields.availability(TEMPLATE_CHARACTERS_MAX),
        allowed_modes: fields.modes(),
        latency_budget_ms: fields.positive("latencyBudgetMs", Presence::Optional),
        parameters: fields.parameters(),
        timeout_ms: fields.timeout_ms(TIMEOUT_MS_MIN..=TIMEOUT_MS_MAX, TIMEOUT_CURE),
        behavior: fields.choice(
            "behavior",
            Presence::Optional,
            &["blocking", "non_blocking", "background"],
        ),
        scheduling: fields.choice(
            "scheduling",
            Presence::Optional,
            &["interrupt", "when_idle", "silent"],
        ),
        on_interrupt: fields.choice("onInterrupt", Presence::Optional, &["finish", "cancel"]),
        reach: fields.choice("reach", Presence::Optional, &["internal", "external"]),
        response_schema: fields.response_schema(),
        confirmation: fields.confirmation(TEMPLATE_CHARACTERS_MAX),
        rate_limit: fields.rate_limit(),
        permissions: fields.permissions(),
        effect_key: fields.effect_key(),
        repeatable: fields.boolean("repeatable", Presence::Optional),
        sensitive: fields.sensitive(),
        status: fields.text("status", Presence::Optional, TEMPLATE_CHARACTERS_MAX),
        state: fields.state(),
        defaults: Vec::new(),
    }
}

const TIMEOUT_CURE: &str = "write 1000 to 60000 milliseconds, up to 600000 where the tool writes or is non_blocking, or up to 86400000 where it is background";

/// Ten times the latency budget, within the allowed range.
fn default_timeout_ms(latency_budget_ms: u64, timeout_ms_max: u64) -> u64 {
    latency_budget_ms
        .saturating_mul(10)
        .clamp(TIMEOUT_MS_MIN, timeout_ms_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_published_schema_has_the_fields_that_the_compiler_reads() {
        let schema: Value = serde_json::from_str(published::TOOL).expect("it is JSON");
        let published = schema["properties"].as_object().expect("it has properties");
        let published: BTreeSet<&str> = published.keys().map(String::as_str).collect();
        let read = FIELDS.into_iter().chain([published::MEMBER]);
        assert_eq!(published, read.collect());
    }
}
