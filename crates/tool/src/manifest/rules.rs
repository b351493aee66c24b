//! The rules of a manifest that span several fields. Knows nothing of how the fields were read.

use super::{Manifest, pointer, schema};
use crate::kind::{Behavior, Category, OnInterrupt, SideEffects};
use crate::problem::{Report, Severity};
use crate::template;
use crate::validate::Validator;
use serde_json::{Value, json};

/// What `top_k` is clamped to, voice first: the budgets that the runtime has by default. What runs always satisfies its
/// schema, so a clamped value has to be one that the schema allows.
const TOP_K_CLAMPS: [u64; 2] = [3, 10];

pub(super) fn check(manifest: &Manifest, scheduling_given: bool, report: &mut Report<'_>) {
    check_kinds(manifest, scheduling_given, report);
    if manifest.requires_confirmation {
        check_names(&manifest.parameters, "/parameters", report);
    }
    if manifest.category == Category::Retrieval
        && let Some(top_k) = schema::parameter(&manifest.parameters, "/top_k")
    {
        check_top_k(&manifest.parameters, top_k, report);
    }
    if let Some(confirmation) = &manifest.confirmation {
        check_template(
            &confirmation.preview,
            "/confirmation/preview",
            manifest,
            report,
        );
    }
    if let Some(status) = &manifest.status {
        check_template(status, "/status", manifest, report);
    }
}

fn check_kinds(manifest: &Manifest, scheduling_given: bool, report: &mut Report<'_>) {
    let writes = manifest.side_effects == SideEffects::Writes;
    let retrieval = manifest.category == Category::Retrieval;
    if retrieval && !manifest.idempotent {
        report.error(
            "/idempotent",
            "a retrieval tool has to be idempotent",
            "write true, or choose another category",
        );
    }
    if retrieval && writes {
        report.error(
            "/sideEffects",
            "a retrieval tool cannot write",
            "write \"none\" or \"read_only\", or choose another category",
        );
    }
    if writes && manifest.on_interrupt == OnInterrupt::Cancel {
        report.error(
            "/onInterrupt",
            "a tool that writes cannot be cancelled half-way",
            "write \"finish\", or leave it out",
        );
    }
    if scheduling_given && manifest.behavior != Behavior::NonBlocking {
        report.error(
            "/scheduling",
            "`scheduling` means nothing without \"behavior\": \"non_blocking\"",
            "remove it, or make the tool non_blocking",
        );
    }
    if manifest.category == Category::Action && writes && !manifest.requires_confirmation {
        report.at_pointer(
            Severity::Warning,
            "/requiresConfirmation",
            "this action writes without asking the user",
            "write true, unless the user would expect it to just happen",
        );
    }
}

/// Reports parameters that look as if the model could confirm for the user.
fn check_names(parameters: &Value, place: &str, report: &mut Report<'_>) {
    let Some(object) = parameters.as_object() else {
        return;
    };
    for (keyword, value) in object {
        let here = pointer(place, keyword);
        let name = keyword.as_str();
        if schema::SCHEMA_MAPS.contains(&name) {
            for (member, inner) in value.as_object().into_iter().flatten() {
                let inner_place = pointer(&here, member);
                if name == "properties" && is_confirmation(member) {
                    report.error(
                        &inner_place,
                        format!("the parameter `{member}` looks like a confirmation, and only the user can confirm"),
                        "remove it; the user is asked by the runtime, and the handler runs only after a yes",
                    );
                }
                check_names(inner, &inner_place, report);
            }
        } else if schema::SCHEMA_LISTS.contains(&name) {
            for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                check_names(inner, &format!("{here}/{index}"), report);
            }
        } else if schema::SCHEMAS.contains(&name) {
            check_names(value, &here, report);
        }
    }
}

/// Whether a name says "confirmed" and nothing else: `confirmation_email` names a thing, `user_confirmed` does not.
fn is_confirmation(name: &str) -> bool {
    const CORE: [&str; 8] = [
        "confirm",
        "confirmed",
        "confirms",
        "confirmation",
        "approve",
        "approved",
        "approval",
        "confirmationtoken",
    ];
    const AROUND: [&str; 22] = [
        "is", "was", "has", "been", "user", "users", "by", "the", "to", "token", "id", "code",
        "key", "flag", "yes", "already", "pre", "auto", "force", "skip", "action", "explicit",
    ];
    let words = words(name);
    words.iter().any(|word| CORE.contains(&word.as_str()))
        && words
            .iter()
            .all(|word| CORE.contains(&word.as_str()) || AROUND.contains(&word.as_str()))
}

/// The lower-case words of a name in snake, kebab or camel case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for character in name.chars() {
        let starts_word = !character.is_alphanumeric() || (character.is_uppercase() && after_lower);
        after_lower = character.is_lowercase();
        if starts_word {
            words.push(String::new());
        }
        if character.is_alphanumeric() {
            words
                .last_mut()
                .expect("there is a word from the beginning")
                .extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn check_top_k(root: &Value, top_k: &Value, report: &mut Report<'_>) {
    const PLACE: &str = "/parameters/properties/top_k";
    if top_k.get("default").is_none() {
        report.error(
            PLACE,
            "a retrieval tool's `top_k` needs a default",
            "add one, such as \"default\": 5",
        );
    }
    let minimum = top_k.get("minimum").and_then(Value::as_f64);
    let lowest_clamp = TOP_K_CLAMPS[0];
    if minimum.is_some_and(|minimum| minimum > 3.0) {
        report.error(
            &format!("{PLACE}/minimum"),
            format!(
                "`top_k` may not go below {}, but voice clamps it to {lowest_clamp}",
                minimum.unwrap_or_default()
            ),
            format!("write a minimum of {lowest_clamp} or less"),
        );
        return;
    }
    // The whole document judges, so that references work; other parameters may be missing.
    let mut document = root.clone();
    if let Some(object) = document.as_object_mut() {
        object.remove("required");
    }
    let Ok(validator) = Validator::compile(&document) else {
        return;
    };
    for clamp in TOP_K_CLAMPS {
        let allows_more = top_k
            .get("maximum")
            .and_then(Value::as_f64)
            .is_none_or(|maximum| {
                Value::from(clamp)
                    .as_f64()
                    .is_some_and(|clamp| maximum > clamp)
            });
        if allows_more && !validator.is_valid(&json!({"top_k": clamp})) {
            report.error(
                PLACE,
                format!("`top_k` can be clamped to {clamp}, which its schema does not allow"),
                format!("let the schema allow {clamp}, or nothing above it"),
            );
        }
    }
}

fn check_template(text: &str, place: &str, manifest: &Manifest, report: &mut Report<'_>) {
    for problem in template::problems(text, &manifest.parameters) {
        report.error(
            place,
            problem,
            "put names of parameters in braces, such as {title}, or {attendees.length} for how many there are",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::is_confirmation;

    #[test]
    fn names_that_only_say_confirmed_are_told_from_things() {
        for (name, expected) in [
            ("confirm", true),
            ("confirmed", true),
            ("confirmation_token", true),
            ("confirmationToken", true),
            ("userConfirmed", true),
            ("is-approved", true),
            ("Confirm", true),
            ("confirmation_email", false),
            ("title", false),
            ("confirmable", false),
        ] {
            assert_eq!(is_confirmation(name), expected, "{name}");
        }
    }
}
