//! The rules of a manifest that span several fields. Knows nothing of how the fields were read.

use super::{Readable, TIMEOUT_CURE, effects};
use crate::problem::{Report, Severity};
use serde_json::{Map, Value, json};
use windlass_contract::kind::{Behavior, Category, OnInterrupt, SideEffects};
use windlass_contract::reference;
use windlass_contract::registry::EXEMPT_FROM_EXTERNAL_CONTENT_RULE;
use windlass_contract::template;
use windlass_contract::validate::Validator;
use windlass_contract::wording::{brief, pointer};

/// The limits of `top_k`, voice first: the runtime's default budgets. Arguments of a run always satisfy the schema, so the schema has to
/// allow each limit.
const TOP_K_CLAMPS: [i64; 2] = [3, 10];

/// Checks each rule whose fields could be read. `object` is the file's JSON.
pub(super) fn check(
    manifest: &Readable,
    object: &Map<String, Value>,
    is_built_in: impl Fn(&str) -> bool,
    report: &mut Report<'_>,
) {
    check_kinds(manifest, report);
    check_timeout(manifest, object, report);
    let is_blocking = match manifest.behavior {
        Some(behavior) => behavior == Behavior::Blocking,
        None => !object.contains_key("behavior"),
    };
    if object.contains_key("scheduling") && is_blocking {
        report.error(
            "/scheduling",
            "`scheduling` means nothing without \"behavior\": \"non_blocking\" or \"background\"",
            "remove it, or make the tool non_blocking or background",
        );
    }
    let is_exempt = manifest.tool_id.as_ref().is_some_and(|id| {
        let id = id.as_str();
        EXEMPT_FROM_EXTERNAL_CONTENT_RULE.contains(&id) && is_built_in(id)
    });
    if manifest.category == Some(Category::Action)
        && manifest.side_effects == Some(SideEffects::Writes)
        && manifest.requires_confirmation == Some(false)
        && !is_exempt
        // The author has declared that an accidental repetition does no harm.
        && manifest.repeatable != Some(true)
    {
        report.at_pointer(
            Severity::Warning,
            "/requiresConfirmation",
            "this action writes without asking the user",
            "write true, unless the user would expect it to just happen",
        );
    }
    let has_approvers = manifest
        .permissions
        .as_ref()
        .is_some_and(|permissions| !permissions.approver_roles.is_empty());
    if has_approvers && manifest.requires_confirmation == Some(false) {
        report.at_pointer(
            Severity::Warning,
            "/permissions/approverRoles",
            "`approverRoles` means little on a tool that runs without an approval",
            "write \"requiresConfirmation\": true, or remove it",
        );
    }
    effects::check(manifest, object, is_built_in, report);
    if let Some(parameters) = &manifest.parameters {
        check_parameters(manifest, parameters, report);
    }
}

fn check_parameters(manifest: &Readable, parameters: &Value, report: &mut Report<'_>) {
    if manifest.requires_confirmation == Some(true) {
        for (place, name) in confirmation_names(parameters) {
            report.error(
                &format!("/parameters{place}"),
                format!("the parameter `{}` looks like a confirmation, and only the user can confirm", brief(&name)),
                "remove it or give it another name; the user is asked by the runtime, and the handler runs only after a yes",
            );
        }
    }
    if manifest.category == Some(Category::Retrieval)
        && let Some(top_k) = reference::parameter(parameters, "/top_k")
    {
        check_top_k(parameters, &top_k, report);
    }
    if let Some(confirmation) = &manifest.confirmation {
        let place = "/confirmation/preview";
        check_template(&confirmation.preview, place, parameters, report);
    }
    if let Some(status) = &manifest.status {
        check_template(status, "/status", parameters, report);
        for shown in template::shown(status, parameters) {
            if manifest
                .sensitive
                .iter()
                .any(|hidden| reference::overlap(&shown, hidden))
            {
                report.at_pointer(
                    Severity::Warning,
                    "/status",
                    format!("the status shows `{}`, which is sensitive", brief(&shown)),
                    "leave it out of the phrase, or take it off the list `sensitive`",
                );
            }
        }
    }
}

/// Refuses a timeout above the limit for tools of this kind.
fn check_timeout(manifest: &Readable, object: &Map<String, Value>, report: &mut Report<'_>) {
    let is_read = manifest.side_effects.is_some()
        && (manifest.behavior.is_some() || !object.contains_key("behavior"));
    let too_long = manifest
        .timeout_ms
        .filter(|timeout_ms| is_read && *timeout_ms > manifest.timeout_max());
    if let Some(timeout_ms) = too_long {
        let longest = manifest.timeout_max();
        let message = format!(
            "`timeoutMs` is {timeout_ms}, which is longer than the {longest} that this tool may take"
        );
        report.error("/timeoutMs", message, TIMEOUT_CURE);
    }
}

fn check_kinds(manifest: &Readable, report: &mut Report<'_>) {
    let writes = manifest.side_effects == Some(SideEffects::Writes);
    let retrieval = manifest.category == Some(Category::Retrieval);
    if retrieval && manifest.idempotent == Some(false) {
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
    if writes && manifest.on_interrupt == Some(OnInterrupt::Cancel) {
        report.error(
            "/onInterrupt",
            "a tool that writes cannot be cancelled half-way",
            "write \"finish\", or leave it out",
        );
    }
}

/// The parameters by which the model could seem to confirm in the user's place: the JSON pointer and the name of each.
pub(crate) fn confirmation_names(parameters: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    gather_confirmation_names(parameters, "", &mut found);
    found
}

fn gather_confirmation_names(schema: &Value, place: &str, found: &mut Vec<(String, String)>) {
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        let here = pointer(place, keyword);
        let name = keyword.as_str();
        if reference::SCHEMA_MAPS.contains(&name) {
            for (member, inner) in value.as_object().into_iter().flatten() {
                let inner_place = pointer(&here, member);
                if name == "properties" && is_confirmation(member) {
                    found.push((inner_place.clone(), member.clone()));
                }
                gather_confirmation_names(inner, &inner_place, found);
            }
        } else if reference::SCHEMA_LISTS.contains(&name) {
            for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
                gather_confirmation_names(inner, &format!("{here}/{index}"), found);
            }
        } else if reference::SCHEMAS.contains(&name) {
            gather_confirmation_names(value, &here, found);
        }
    }
}

/// Whether a name means that something is confirmed: `confirm_delete`, `i_confirm` and `user_confirmation` do, while `confirmation_email`
/// names a thing.
fn is_confirmation(name: &str) -> bool {
    const DONE: [&str; 5] = ["confirm", "confirmed", "confirms", "approve", "approved"];
    const NOUNS: [&str; 3] = ["confirmation", "approval", "confirmationtoken"];
    const AROUND: [&str; 34] = [
        "is", "was", "has", "been", "user", "users", "by", "the", "to", "token", "id", "code",
        "key", "flag", "yes", "already", "pre", "auto", "force", "skip", "action", "explicit",
        "at", "given", "received", "granted", "phrase", "word", "answer", "reply", "response",
        "status", "text", "value",
    ];
    let words = words(name);
    let ends = [words.first(), words.last()];
    let ends_in = |known: &[&str], end: Option<&String>| {
        end.is_some_and(|word| known.contains(&word.as_str()))
    };
    let begins_with_noun = ends_in(&NOUNS, ends[0])
        && words.iter().all(|word| {
            let word = word.as_str();
            NOUNS.contains(&word) || DONE.contains(&word) || AROUND.contains(&word)
        });
    ends.into_iter().any(|end| ends_in(&DONE, end)) || ends_in(&NOUNS, ends[1]) || begins_with_noun
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

/// The lowest and the highest number that the schemas allow, if they give bounds.
fn bounds(parts: &[&Map<String, Value>]) -> (Option<f64>, Option<f64>) {
    let numbers = |keyword: &'static str| {
        parts
            .iter()
            .filter_map(move |part| part.get(keyword)?.as_f64())
    };
    (
        numbers("minimum").reduce(f64::max),
        numbers("maximum").reduce(f64::min),
    )
}

fn check_top_k(root: &Value, top_k: &[&Map<String, Value>], report: &mut Report<'_>) {
    const PLACE: &str = "/parameters/properties/top_k";
    if !top_k.iter().any(|part| part.contains_key("default")) {
        report.error(
            PLACE,
            "a retrieval tool's `top_k` needs a default",
            "add one, such as \"default\": 5",
        );
    }
    let (minimum, _) = bounds(top_k);
    let lowest_clamp = TOP_K_CLAMPS[0];
    if let Some(minimum) = minimum.filter(|minimum| *minimum > 3.0) {
        report.error(
            &format!("{PLACE}/minimum"),
            format!("`top_k` may not go below {minimum}, but voice clamps it to {lowest_clamp}"),
            format!("write a minimum of {lowest_clamp} or less"),
        );
        return;
    }
    for clamp in TOP_K_CLAMPS {
        if !allows_clamp(root, top_k, clamp) {
            report.error(
                PLACE,
                format!("`top_k` can be clamped to {clamp}, which its schema does not allow"),
                format!("let the schema allow {clamp}, or nothing above it"),
            );
        }
    }
}

/// Whether a clamped value satisfies the schema. It does where the maximum is at or below the clamp, because then nothing is clamped.
fn allows_clamp(root: &Value, top_k: &[&Map<String, Value>], clamp: i64) -> bool {
    let (_, maximum) = bounds(top_k);
    if maximum.is_some_and(|maximum| {
        Value::from(clamp)
            .as_f64()
            .is_some_and(|clamp| maximum <= clamp)
    }) {
        return true;
    }
    // The whole document is used, so that references work; its `required` is removed, so that only the rules for `top_k` count.
    let mut document = root.clone();
    if let Some(object) = document.as_object_mut() {
        object.remove("required");
    }
    // A schema that does not compile is reported elsewhere.
    Validator::compile(&document).map_or(true, |validator| {
        let violations = validator.violations(&json!({"top_k": clamp}));
        violations
            .iter()
            .all(|violation| violation.pointer != "/top_k")
    })
}

/// The reason why `top_k` of these parameters cannot be clamped to a number, in the words of the schema's violation. `None` where it can
/// be clamped, or there is no `top_k`.
pub(crate) fn clamp_refusal(parameters: &Value, clamp: i64) -> Option<String> {
    // The compiler has checked these clamps; checking again would compile the schema at each start.
    if TOP_K_CLAMPS.contains(&clamp) {
        return None;
    }
    let top_k = reference::parameter(parameters, "/top_k")?;
    if allows_clamp(parameters, &top_k, clamp) {
        return None;
    }
    Some(match bounds(&top_k).0 {
        Some(minimum)
            if Value::from(clamp)
                .as_f64()
                .is_some_and(|clamp| clamp < minimum) =>
        {
            format!("its minimum is {minimum}")
        }
        Some(_) | None => format!("its schema does not allow {clamp}"),
    })
}

fn check_template(text: &str, place: &str, parameters: &Value, report: &mut Report<'_>) {
    for problem in template::problems(text, parameters) {
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
    fn names_that_say_confirmed_are_told_from_things() {
        for (name, expected) in [
            ("confirm", true),
            ("confirmed", true),
            ("confirmation_token", true),
            ("confirmationToken", true),
            ("userConfirmed", true),
            ("is-approved", true),
            ("Confirm", true),
            ("confirm_delete", true),
            ("i_confirm", true),
            ("confirmedAt", true),
            ("deletion_approved", true),
            ("delete_confirmation", true),
            ("confirmation_phrase", true),
            ("confirmation_email", false),
            ("confirmation_email_text", false),
            ("unconfirmed", false),
            ("title", false),
            ("confirmable", false),
        ] {
            assert_eq!(is_confirmation(name), expected, "{name}");
        }
    }
}
