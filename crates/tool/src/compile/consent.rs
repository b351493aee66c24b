//! What the examples of a guide come to under the condition by which a tool asks for consent. Changes nothing that is compiled: an
//! author reads it.

use crate::arguments::Arguments;
use crate::artifact::Entry;
use crate::condition::{Condition, Facts, Given, Values};
use crate::guide;
use crate::kind::Mode;
use crate::rights::Rights;
use crate::validate::Validator;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Monday, 30 November 2026, 12:00 UTC: for conditions that look at the clock.
const MONDAY_NOON_UNIX_MS: u64 = 1_796_040_000_000;

/// One example, and for whom it asks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExampleConsent {
    /// The arguments, with their defaults.
    pub arguments: Value,
    /// What becomes of the call of somebody who has not signed in, as in `asks` and `does not ask`; why, where that cannot be judged.
    pub anonymous: String,
    /// The same of somebody who has, without a role.
    pub signed_in: String,
    /// Whether the condition reads more, so that another user, mode or hour may come to something else: these are by text, on a Monday
    /// at noon.
    pub may_differ: bool,
}

pub(super) fn examples(
    entry: &Entry,
    condition: &Condition,
    values: &Values,
) -> Vec<ExampleConsent> {
    let Ok(parameters) = Validator::compile(&entry.manifest.parameters) else {
        return Vec::new();
    };
    let given = Given {
        values: Arc::new(values.clone()),
        ..Given::default()
    };
    let signed_in = Rights::signed_in([]);
    let mut found = Vec::new();
    for example in guide::examples(&entry.guide.documentation) {
        let Value::Object(members) = example else {
            continue;
        };
        let mut arguments = Arguments::from(members);
        if !parameters.argument_violations(&arguments).is_empty() {
            continue;
        }
        parameters.apply_defaults(&mut arguments);
        let judged = |rights: &Rights, user_id: &str| {
            let facts = Facts {
                rights,
                user_id,
                tenant: "default",
                mode: Mode::Text,
                unix_ms: MONDAY_NOON_UNIX_MS,
                given: &given,
                arguments: Some(&arguments),
            };
            match condition.holds(&facts) {
                Ok(true) => "asks".to_owned(),
                Ok(false) => "does not ask".to_owned(),
                Err(problem) => format!("asks, because {problem}"),
            }
        };
        found.push(ExampleConsent {
            anonymous: judged(&Rights::Anonymous, "anonymous"),
            signed_in: judged(&signed_in, "user:example"),
            may_differ: condition.reads_more_than_sign_in(),
            arguments: arguments.to_value(),
        });
    }
    found
}
