//! The effect of a configuration on compiled tools, reported to their author: forbidden settings, and which examples of guides ask for
//! consent under the tools' conditions. Changes nothing that is compiled.

use crate::artifact::{ActivationError, Artifact, Entry, tightened};
use crate::guide;
use crate::manifest::Manifest;
use crate::manifest::conditions::needless;
use crate::problem::{Problem, Severity};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::condition::{
    ArgumentsOf, Condition, Facts, Forecast, Given, OpenFacts, Purpose, Values,
};
use windlass_contract::id::ToolId;
use windlass_contract::kind::Mode;
use windlass_contract::rights::Rights;
use windlass_contract::tightening::Tightening;
use windlass_contract::validate::Validator;

/// An arbitrary moment: conditions that read the clock are not judged by it.
const ANY_MOMENT_UNIX_MS: u64 = 0;

/// Tools as a configuration has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Configured {
    /// Forbidden settings of tools, and conditions that have no meaning under the configuration.
    pub problems: Vec<Problem>,
    /// For tools whose consent depends on a condition: the outcome of each example in their guides.
    /// Keyed like [`Compilation::defaults`](super::Compilation::defaults).
    pub consents: BTreeMap<String, Vec<ExampleConsent>>,
}

/// One example, and the users for whom it asks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExampleConsent {
    /// The arguments, with their defaults and without the sensitive ones.
    pub arguments: Value,
    /// The outcome for a user who has not signed in, as in `asks`, `does not ask` and `depends on time.hour`.
    pub anonymous: String,
    /// The outcome for a signed-in user.
    pub signed_in: String,
}

/// Judges the tools of an artifact under the configuration's values and its settings of tools.
pub fn configured(
    artifact: &Artifact,
    values: &Values,
    tightenings: &BTreeMap<ToolId, Tightening>,
) -> Configured {
    let given = Given {
        values: Arc::new(values.clone()),
        ..Given::default()
    };
    let unknown = artifact.unknown_tools(tightenings);
    let mut configured = Configured {
        problems: unknown.map(|error| refused(&error)).collect(),
        consents: BTreeMap::new(),
    };
    for entry in artifact.entries() {
        let manifest = match tightened(entry.manifest.clone(), entry.is_beside, tightenings) {
            Ok(manifest) => manifest,
            Err(error) => {
                configured.problems.push(refused(&error));
                continue;
            }
        };
        configured.problems.extend(meaningless(entry, &manifest));
        if entry.manifest.consent_condition.is_some() {
            let examples = examples(entry, &manifest, &given);
            configured.consents.insert(entry.label(), examples);
        }
    }
    configured
}

fn problem(tool: &ToolId, severity: Severity, (message, cure): (String, String)) -> Problem {
    Problem {
        file: format!("[tools.{tool}] of the configuration"),
        line: None,
        column: None,
        severity,
        tool: Some(tool.as_str().replace('_', "-")),
        message,
        cure,
    }
}

/// The problem of an error that keeps the tools from being served.
fn refused(error: &ActivationError) -> Problem {
    let text = error.to_string();
    let said = match text.rsplit_once("; ") {
        Some((message, cure)) => (message.to_owned(), cure.to_owned()),
        None => (
            text,
            "remove the table, or name a tool that there is".to_owned(),
        ),
    };
    problem(error.tool(), Severity::Error, said)
}

/// Conditions that decide nothing under the configuration.
fn meaningless(entry: &Entry, manifest: &Manifest) -> Vec<Problem> {
    let consent = manifest.consent_condition.as_ref();
    let availability = manifest.availability.as_ref();
    let parameters = ArgumentsOf::Schema(&manifest.parameters);
    let conditions = [
        (
            "requiresConfirmation",
            consent.map(|rule| (&rule.condition, Purpose::Consent, parameters)),
        ),
        (
            "availability",
            availability.map(|rule| {
                let nothing = ArgumentsOf::Nothing;
                (&rule.condition, Purpose::Availability, nothing)
            }),
        ),
    ];
    let found = conditions.into_iter().filter_map(|(field, rule)| {
        let (condition, purpose, arguments) = rule?;
        let of = |modes: &[Mode]| needless(condition, purpose, arguments, modes);
        let (message, cure) = of(&manifest.allowed_modes)?;
        // Problems that the tool's own files cause were reported with them.
        let is_known = of(&entry.manifest.allowed_modes).is_some_and(|(known, _)| known == message);
        let message = match entry.is_beside {
            true => format!("in version {}, {field}: {message}", manifest.version),
            false => format!("{field}: {message}"),
        };
        let said = (message, cure.to_owned());
        (!is_known).then(|| problem(&manifest.tool_id, Severity::Warning, said))
    });
    found.collect()
}

fn examples(entry: &Entry, manifest: &Manifest, given: &Given) -> Vec<ExampleConsent> {
    let Ok(parameters) = Validator::compile(&manifest.parameters) else {
        return Vec::new();
    };
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
        let outcome = |rights: &Rights| outcome(manifest, &arguments, rights, given);
        // A user who may use the tool has its role, where it requires exactly one.
        let sole = manifest.permissions.roles.iter().take(1);
        let roles = sole.filter(|_| manifest.permissions.roles.len() == 1);
        found.push(ExampleConsent {
            anonymous: outcome(&Rights::Anonymous),
            signed_in: outcome(&Rights::signed_in(roles.cloned())),
            arguments: Value::Object(arguments.parted(&manifest.sensitive).0),
        });
    }
    found
}

/// The outcome of a call with these arguments, in words.
fn outcome(manifest: &Manifest, arguments: &Arguments, rights: &Rights, given: &Given) -> String {
    let permissions = &manifest.permissions;
    if !rights.is_signed_in() && (permissions.requires_auth || !permissions.roles.is_empty()) {
        return "is refused".to_owned();
    }
    let facts = Facts {
        rights,
        user_id: "",
        tenant: "",
        mode: manifest
            .allowed_modes
            .first()
            .copied()
            .unwrap_or(Mode::Text),
        unix_ms: ANY_MOMENT_UNIX_MS,
        given,
        arguments: None,
    };
    let open = OpenFacts {
        mode: manifest.allowed_modes.len() > 1,
        roles: rights.is_signed_in(),
    };
    let availability = manifest.availability.as_ref();
    let is_available = availability.map(|rule| rule.condition.forecast(&facts, open));
    if let Some(Forecast::Known(false) | Forecast::Unjudged(_)) = is_available {
        return "is not available".to_owned();
    }
    let of_call = |condition: &Condition| {
        let facts = Facts {
            arguments: Some(arguments),
            ..facts
        };
        condition.forecast(&facts, open)
    };
    match (&manifest.consent_condition, manifest.requires_confirmation) {
        (None, true) => "asks, because the configuration says so".to_owned(),
        (None, false) => "does not ask".to_owned(),
        (Some(rule), _) => match of_call(&rule.condition) {
            Forecast::Known(true) => "asks".to_owned(),
            Forecast::Known(false) => "does not ask".to_owned(),
            Forecast::Unjudged(problem) => format!("asks, because {problem}"),
            Forecast::DependsOn(names) => {
                let names: Vec<String> = names.into_iter().collect();
                format!("depends on {}", names.join(" and "))
            }
        },
    }
}
