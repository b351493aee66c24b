//! Reads the single fields of a `schema.json`, each with its problems. Knows no rule that spans two fields.

use super::conditions::in_words;
use super::{Confirmation, schema};
use crate::problem::Report;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use windlass_contract::condition::{Availability, Condition, ConsentCondition, Purpose};
use windlass_contract::handler::is_state_key;
use windlass_contract::id::ToolId;
use windlass_contract::kind::{Mode, RateLimit};
use windlass_contract::reference;
use windlass_contract::remember::{ARGUMENTS_MAX, MINUTES_MAX, Remember};
use windlass_contract::rights::Permissions;
use windlass_contract::version::is_version;
use windlass_contract::wording::{brief, kind_of, pointer};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
}

/// A field that takes a condition, with its author's text for people.
struct ConditionField {
    name: &'static str,
    /// The member that holds the text.
    words: &'static str,
    /// The subject of the text.
    subject: &'static str,
    purpose: Purpose,
    cure: &'static str,
}

pub(super) struct Fields<'o, 'r, 't> {
    pub(super) object: &'o Map<String, Value>,
    pub(super) report: &'r mut Report<'t>,
}

impl<'o> Fields<'o, '_, '_> {
    fn get(&mut self, name: &str, presence: Presence, cure: &str) -> Option<&'o Value> {
        let value = self.object.get(name);
        if value.is_none() && presence == Presence::Required {
            self.report
                .error("", format!("the field `{name}` is missing"), cure);
        }
        value
    }

    fn wrong(&mut self, name: &str, message: String, cure: impl Into<String>) {
        self.report.error(&format!("/{name}"), message, cure);
    }

    pub(super) fn text(
        &mut self,
        name: &str,
        presence: Presence,
        characters_max: usize,
    ) -> Option<String> {
        let cure = format!("write a text of 1 to {characters_max} characters");
        let value = self.get(name, presence, &cure)?;
        let Some(text) = value.as_str() else {
            self.wrong(
                name,
                format!("`{name}` is {}, not a string", kind_of(value)),
                cure,
            );
            return None;
        };
        let characters = text.chars().count();
        if text.trim().is_empty() || characters > characters_max {
            let found = if characters > characters_max {
                format!("{characters} characters long")
            } else {
                "empty".to_owned()
            };
            self.wrong(name, format!("`{name}` is {found}"), cure);
            return None;
        }
        Some(text.to_owned())
    }

    pub(super) fn tool_id(&mut self) -> Option<ToolId> {
        const CURE: &str =
            "write lower-case letters, digits and underscores, a letter first, 63 at most";
        let text = self.get("toolId", Presence::Optional, CURE)?;
        let id = text.as_str().and_then(ToolId::parse);
        if id.is_none() {
            let message = match text.as_str() {
                Some(text) => format!("`toolId` is `{}`, which is no tool id", brief(text)),
                None => format!("`toolId` is {}, not a string", kind_of(text)),
            };
            self.wrong("toolId", message, CURE);
        }
        id
    }

    pub(super) fn semantic_version(&mut self) -> Option<String> {
        const CURE: &str = "write a semantic version such as 1.0.0";
        let value = self.get("version", Presence::Optional, CURE)?;
        let version = value.as_str().filter(|text| is_version(text));
        if version.is_none() {
            let message = match value.as_str() {
                Some(text) => format!(
                    "`version` is `{}`, which is no semantic version",
                    brief(text)
                ),
                None => format!("`version` is {}, not a string", kind_of(value)),
            };
            self.wrong("version", message, CURE);
        }
        version.map(str::to_owned)
    }

    pub(super) fn choice<T: DeserializeOwned>(
        &mut self,
        name: &str,
        presence: Presence,
        names: &[&str],
    ) -> Option<T> {
        let cure = format!("write one of {}", names.join(", "));
        let value = self.get(name, presence, &cure)?;
        let choice = serde_json::from_value(value.clone()).ok();
        if choice.is_none() {
            let message = match value.as_str() {
                Some(text) => format!("`{name}` is `{}`, which it cannot be", brief(text)),
                None => format!("`{name}` is {}, not a string", kind_of(value)),
            };
            self.wrong(name, message, cure);
        }
        choice
    }

    pub(super) fn boolean(&mut self, name: &str, presence: Presence) -> Option<bool> {
        const CURE: &str = "write true or false";
        let value = self.get(name, presence, CURE)?;
        if value.as_bool().is_none() {
            self.wrong(
                name,
                format!("`{name}` is {}, not a boolean", kind_of(value)),
                CURE,
            );
        }
        value.as_bool()
    }

    /// Whether consent is needed, and by which condition. Both are unknown where the field cannot be read.
    pub(super) fn requires_confirmation(
        &mut self,
        characters_max: usize,
    ) -> (Option<bool>, Option<ConsentCondition>) {
        const FIELD: ConditionField = ConditionField {
            name: "requiresConfirmation",
            words: "because",
            subject: "why the user is asked",
            purpose: Purpose::Consent,
            cure: "write true, false, or {\"condition\": \"args.amount > 100\"}",
        };
        match self.get(FIELD.name, Presence::Optional, FIELD.cure) {
            None => (None, None),
            Some(Value::Bool(is_required)) => (Some(*is_required), None),
            Some(Value::Object(members)) => match self.condition(&FIELD, members, characters_max) {
                Some((condition, words)) => {
                    let because = words.map(Arc::from);
                    (Some(true), Some(ConsentCondition { condition, because }))
                }
                None => (None, None),
            },
            Some(other) => {
                let message = format!(
                    "`{}` is {}, not a boolean or a condition",
                    FIELD.name,
                    kind_of(other)
                );
                self.wrong(FIELD.name, message, FIELD.cure);
                (None, None)
            }
        }
    }

    pub(super) fn availability(&mut self, characters_max: usize) -> Option<Availability> {
        const FIELD: ConditionField = ConditionField {
            name: "availability",
            words: "otherwise",
            subject: "what would make the tool available",
            purpose: Purpose::Availability,
            cure: "write {\"condition\": \"user.isAuthenticated\", \"otherwise\": \"Sign in first.\"}",
        };
        match self.get(FIELD.name, Presence::Optional, FIELD.cure)? {
            Value::Object(members) => {
                let (condition, otherwise) = self.condition(&FIELD, members, characters_max)?;
                Some(Availability {
                    condition,
                    otherwise,
                })
            }
            other => {
                let message = format!("`{}` is {}, not an object", FIELD.name, kind_of(other));
                self.wrong(FIELD.name, message, FIELD.cure);
                None
            }
        }
    }

    /// Reads the condition of a field from its members, and its author's text.
    fn condition(
        &mut self,
        field: &ConditionField,
        members: &Map<String, Value>,
        characters_max: usize,
    ) -> Option<(Condition, Option<String>)> {
        let ConditionField { name, words, .. } = *field;
        let known = ["condition", words];
        if let Some(unknown) = members
            .keys()
            .find(|member| !known.contains(&member.as_str()))
        {
            let message = format!("`{name}` has no member `{}`", brief(unknown));
            self.wrong(name, message, field.cure);
            return None;
        }
        let condition = self.condition_text(field, members);
        let said = match members.get(words) {
            None => None,
            Some(Value::String(said))
                if !said.trim().is_empty() && said.chars().count() <= characters_max =>
            {
                Some(said.trim().to_owned())
            }
            Some(_) => {
                let message = format!("`{words}` is no text that people can read");
                let cure = format!("say in 1 to {characters_max} characters {}", field.subject);
                self.report
                    .error(&format!("/{name}/{words}"), message, cure);
                return None;
            }
        };
        Some((condition?, said))
    }

    fn condition_text(
        &mut self,
        field: &ConditionField,
        members: &Map<String, Value>,
    ) -> Option<Condition> {
        let name = field.name;
        let Some(text) = members.get("condition").and_then(Value::as_str) else {
            let message = format!("`{name}` has no text `condition`");
            self.wrong(name, message, field.cure);
            return None;
        };
        match Condition::parse_for(text, field.purpose) {
            Ok(condition) => Some(condition),
            Err(flaw) => {
                self.report
                    .error(&format!("/{name}/condition"), in_words(&flaw), flaw.cure);
                None
            }
        }
    }

    pub(super) fn positive(&mut self, name: &str, presence: Presence) -> Option<u64> {
        const CURE: &str = "write a whole number of milliseconds above 0";
        let value = self.get(name, presence, CURE)?;
        let number = value.as_u64().filter(|number| *number > 0);
        if number.is_none() {
            let message = match value {
                Value::Number(number) => format!("`{name}` is {number}, not a positive integer"),
                other => format!("`{name}` is {}, not a positive integer", kind_of(other)),
            };
            self.wrong(name, message, CURE);
        }
        number
    }

    pub(super) fn timeout_ms(&mut self, allowed: RangeInclusive<u64>, cure: &str) -> Option<u64> {
        let timeout_ms = self.positive("timeoutMs", Presence::Optional)?;
        if !allowed.contains(&timeout_ms) {
            let message = format!("`timeoutMs` is {timeout_ms}");
            self.wrong("timeoutMs", message, cure);
            return None;
        }
        Some(timeout_ms)
    }

    pub(super) fn modes(&mut self) -> Option<Vec<Mode>> {
        const CURE: &str = "write [\"text\"], [\"voice\"] or [\"text\", \"voice\"]";
        let value = self.get("allowedModes", Presence::Optional, CURE)?;
        let Ok(mut modes) = serde_json::from_value::<Vec<Mode>>(value.clone()) else {
            let message = "`allowedModes` is not a list of modes".to_owned();
            self.wrong("allowedModes", message, CURE);
            return None;
        };
        let written = modes.len();
        modes.sort_unstable();
        modes.dedup();
        if modes.is_empty() {
            self.wrong("allowedModes", "`allowedModes` is empty".to_owned(), CURE);
            return None;
        }
        if modes.len() < written {
            self.wrong(
                "allowedModes",
                "`allowedModes` names a mode twice".to_owned(),
                CURE,
            );
        }
        Some(modes)
    }

    pub(super) fn parameters(&mut self) -> Option<Value> {
        const CURE: &str =
            "write a JSON Schema with \"type\": \"object\" and \"additionalProperties\": false";
        let value = self.get("parameters", Presence::Required, CURE)?;
        if !value.is_object() {
            self.wrong(
                "parameters",
                format!("`parameters` is {}, not an object", kind_of(value)),
                CURE,
            );
            return None;
        }
        if value.get("type").and_then(Value::as_str) != Some("object") {
            self.report.error(
                "/parameters/type",
                "`parameters` does not say \"type\": \"object\"",
                "arguments are always an object; write \"type\": \"object\"",
            );
        }
        if value.get("additionalProperties") != Some(&Value::Bool(false)) {
            self.report.error(
                "/parameters/additionalProperties",
                "`parameters` does not say \"additionalProperties\": false",
                "unknown arguments are always refused; write \"additionalProperties\": false",
            );
        }
        schema::check(value, "/parameters", self.report).then(|| value.clone())
    }

    pub(super) fn response_schema(&mut self) -> Option<Value> {
        const CURE: &str = "write a JSON Schema of the data that a success brings";
        let value = self.get("responseSchema", Presence::Optional, CURE)?;
        if !value.is_object() {
            self.wrong(
                "responseSchema",
                format!("`responseSchema` is {}, not an object", kind_of(value)),
                CURE,
            );
            return None;
        }
        schema::check(value, "/responseSchema", self.report).then(|| value.clone())
    }

    pub(super) fn confirmation(&mut self, characters_max: usize) -> Option<Confirmation> {
        const CURE: &str = "write {\"preview\": \"Create {title}\"}, with arguments in braces";
        let value = self.get("confirmation", Presence::Optional, CURE)?;
        match serde_json::from_value::<Confirmation>(value.clone()) {
            Ok(confirmation) if confirmation.preview.trim().is_empty() => {
                let message = "the preview is empty".to_owned();
                self.report.error(
                    "/confirmation/preview",
                    message,
                    "say what the user is asked to approve, such as \"Create {title}\", or leave `confirmation` out",
                );
                None
            }
            Ok(confirmation) if confirmation.preview.chars().count() <= characters_max => {
                Some(confirmation)
            }
            Ok(_) => {
                let message = format!("the preview is over {characters_max} characters long");
                self.report.error(
                    "/confirmation/preview",
                    message,
                    "shorten it; a person reads it before approving",
                );
                None
            }
            Err(_) => {
                let message = "`confirmation` is not an object with one text, `preview`".to_owned();
                self.wrong("confirmation", message, CURE);
                None
            }
        }
    }

    pub(super) fn rate_limit(&mut self) -> Option<RateLimit> {
        const CURE: &str = "write {\"calls\": 10, \"windowMs\": 60000}, both above 0";
        let value = self.get("rateLimit", Presence::Optional, CURE)?;
        let limit = serde_json::from_value::<RateLimit>(value.clone())
            .ok()
            .filter(|limit| limit.calls > 0 && limit.window_ms > 0);
        if limit.is_none() {
            let message =
                "`rateLimit` is not an object with the positive integers `calls` and `windowMs`";
            self.wrong("rateLimit", message.to_owned(), CURE);
        }
        limit
    }

    pub(super) fn permissions(&mut self) -> Option<Permissions> {
        const CURE: &str = "write {\"requiresAuth\": true, \"roles\": [\"staff\"], \"approverRoles\": [\"manager\"]}, or some of it";
        let value = self.get("permissions", Presence::Optional, CURE)?;
        let permissions = serde_json::from_value::<Permissions>(value.clone());
        // An empty list is ambiguous: it may mean no user or every user.
        let lists = ["roles", "approverRoles"].map(|name| value.get(name));
        let has_empty = lists
            .iter()
            .flatten()
            .any(|list| *list == &Value::Array(Vec::new()));
        match permissions {
            Ok(permissions) if !has_empty => Some(permissions),
            Ok(_) => {
                let message = "`permissions` has an empty list of roles".to_owned();
                self.wrong("permissions", message, "name a role, or leave the list out");
                None
            }
            Err(error) => {
                let message = format!("`permissions` does not say who may use the tool: {error}");
                self.wrong("permissions", message, CURE);
                None
            }
        }
    }

    pub(super) fn effect_key(&mut self) -> Vec<String> {
        const CURE: &str = "write JSON pointers to required arguments, such as [\"/title\"]";
        let Some(value) = self.get("effectKey", Presence::Optional, CURE) else {
            return Vec::new();
        };
        let Ok(pointers) = serde_json::from_value::<Vec<String>>(value.clone()) else {
            let message = "`effectKey` is not a list of strings".to_owned();
            self.wrong("effectKey", message, CURE);
            return Vec::new();
        };
        if pointers.is_empty() {
            self.wrong(
                "effectKey",
                "`effectKey` is empty".to_owned(),
                "name the arguments that say which effect is meant, or leave it out, so that all of them do",
            );
        }
        pointers
    }

    pub(super) fn remember(&mut self) -> Option<Remember> {
        const CURE: &str = "write {\"scope\": \"session\", \"arguments\": [\"/folder\"]} with the arguments whose values have to be the same, and \"minutes\" where a session is too long";
        let value = self.get("remember", Presence::Optional, CURE)?;
        let remember = match serde_json::from_value::<Remember>(value.clone()) {
            Ok(remember) => remember,
            Err(error) => {
                let message = format!("`remember` does not say what may be remembered: {error}");
                self.wrong("remember", message, CURE);
                return None;
            }
        };
        let arguments = remember.arguments.len();
        if !(1..=ARGUMENTS_MAX).contains(&arguments) {
            self.report.error(
                "/remember/arguments",
                format!("`remember` names {arguments} arguments"),
                format!(
                    "name 1 to {ARGUMENTS_MAX}: a yes holds for calls in which they are the same"
                ),
            );
            return None;
        }
        let minutes = remember.minutes;
        if minutes.is_some_and(|minutes| !(1..=MINUTES_MAX).contains(&minutes)) {
            self.report.error(
                "/remember/minutes",
                "`minutes` is no number of minutes for which a user could be taken at their word",
                format!("write 1 to {MINUTES_MAX}, or leave it out"),
            );
            return None;
        }
        Some(remember)
    }

    pub(super) fn state(&mut self) -> BTreeMap<String, Value> {
        const CURE: &str = "write a JSON Schema for each value, such as {\"basket\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}}";
        let mut state = BTreeMap::new();
        let Some(value) = self.get("state", Presence::Optional, CURE) else {
            return state;
        };
        let Some(schemas) = value.as_object().filter(|schemas| !schemas.is_empty()) else {
            let message = "`state` is not an object that names values".to_owned();
            self.wrong("state", message, CURE);
            return state;
        };
        if schemas.len() > STATE_KEYS_MAX {
            let message = format!("`state` names {} values", schemas.len());
            let cure = format!("name {STATE_KEYS_MAX} at most; one value may be an object");
            self.wrong("state", message, cure);
        }
        for (key, schema) in schemas {
            let place = pointer("/state", key);
            if !is_state_key(key) {
                let message = format!("`{}` is no name of a value", brief(key));
                let cure =
                    "begin it with a letter; letters, digits and _ follow, 63 characters at most";
                self.report.error(&place, message, cure);
            } else if !schema.is_object() {
                let message = format!("the value's schema is {}, not an object", kind_of(schema));
                self.report.error(&place, message, CURE);
            } else if schema::check(schema, &place, self.report) {
                state.insert(key.clone(), schema.clone());
            }
        }
        state
    }

    pub(super) fn sensitive(&mut self) -> Vec<String> {
        const CURE: &str = "write JSON pointers to parameters, such as [\"/attendees\"]";
        let Some(value) = self.get("sensitive", Presence::Optional, CURE) else {
            return Vec::new();
        };
        let Ok(pointers) = serde_json::from_value::<Vec<String>>(value.clone()) else {
            self.wrong(
                "sensitive",
                "`sensitive` is not a list of strings".to_owned(),
                CURE,
            );
            return Vec::new();
        };
        let parameters = self.object.get("parameters");
        for (index, pointer) in pointers.iter().enumerate() {
            let is_unknown =
                parameters.is_none_or(|schema| reference::parameter(schema, pointer).is_none());
            if is_unknown {
                self.report.error(
                    &format!("/sensitive/{index}"),
                    format!("`{}` names no parameter", brief(pointer)),
                    CURE,
                );
            }
        }
        pointers
    }
}

/// The most conversation values of one tool.
const STATE_KEYS_MAX: usize = 16;
