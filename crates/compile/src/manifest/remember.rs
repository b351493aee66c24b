//! The rules of `remember`: the arguments by which an approval may stand for later calls. Knows no approval.

use super::Readable;
use super::effects::{is_declared, is_required, segments_of};
use crate::problem::Report;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use windlass_contract::reference;
use windlass_contract::reference::argument_of;
use windlass_contract::wording::{brief, nearest, pointer};

/// Checks each rule whose fields could be read.
pub(super) fn check(manifest: &Readable, report: &mut Report<'_>) {
    let Some(remember) = &manifest.remember else {
        return;
    };
    if manifest.requires_confirmation == Some(false) {
        report.error(
            "/remember",
            "`remember` means nothing for a tool that asks nobody",
            "remove it, or write \"requiresConfirmation\": true",
        );
    }
    let has_approvers = manifest
        .permissions
        .as_ref()
        .is_some_and(|permissions| !permissions.approver_roles.is_empty());
    if has_approvers {
        report.error(
            "/remember",
            "`remember` and `approverRoles` exclude each other: another person approves each call",
            "remove one of them",
        );
    }
    let mut seen = BTreeSet::new();
    for (index, named) in remember.arguments.iter().enumerate() {
        let place = format!("/remember/arguments/{index}");
        if !seen.insert(named) {
            let message = format!("`{}` is there twice", brief(named));
            report.error(&place, message, "write it once");
            continue;
        }
        let is_argument = check_pointer(named, manifest.parameters.as_ref(), &place, report);
        if is_argument && is_sensitive(named, &manifest.sensitive) {
            report.error(
                &place,
                format!(
                    "`{}` is sensitive, so that nobody could be shown what was agreed to",
                    brief(named)
                ),
                "take it off this list, or off the list `sensitive`",
            );
        }
    }
    // An approval of one amount would approve every other amount.
    let read = manifest.consent_condition.iter();
    let read: BTreeSet<&str> = read.flat_map(|rule| rule.condition.arguments()).collect();
    for name in read {
        let is_named = |named: &String| argument_of(named) == name;
        if !remember.arguments.iter().any(is_named) {
            report.error(
                "/remember/arguments",
                format!(
                    "the condition of `requiresConfirmation` reads the argument `{}`, which may differ from call to call",
                    brief(name)
                ),
                format!("add \"{}\" to the list", pointer("", name)),
            );
        }
    }
}

/// Checks that a pointer names an argument of every call; without readable parameters only its form.
fn check_pointer(
    named: &str,
    parameters: Option<&Value>,
    place: &str,
    report: &mut Report<'_>,
) -> bool {
    let shown = brief(named);
    let Some(segments) = segments_of(named) else {
        report.error(
            place,
            format!("`{shown}` is not a JSON pointer to an argument"),
            "write a slash and the argument's name, such as \"/folder\", with ~1 for a slash and ~0 for a tilde in the name",
        );
        return false;
    };
    let Some(parameters) = parameters else {
        return true;
    };
    let root = reference::parts(parameters, &[parameters]);
    let argument = segments[0].as_str();
    if !is_declared(&root, argument) {
        let declared = root.iter().filter_map(|part| part.get("properties"));
        let names = declared.filter_map(Value::as_object).flat_map(Map::keys);
        let cure = nearest(argument, names.map(String::as_str)).map_or_else(
            || "name an argument of `parameters`, such as \"/folder\"".to_owned(),
            |near| format!("did you mean \"{}\"?", pointer("", near)),
        );
        report.error(place, format!("`{shown}` names no argument"), cure);
        return false;
    }
    if segments.len() > 1 {
        report.error(
            place,
            format!(
                "`{shown}` points into the argument `{}`, and whole values are compared",
                brief(argument)
            ),
            format!("name the whole argument: \"{}\"", pointer("", argument)),
        );
        return false;
    }
    let has_default = reference::parameter(parameters, &pointer("", argument))
        .is_some_and(|parts| parts.iter().any(|part| part.contains_key("default")));
    if !is_required(&root, argument) && !has_default {
        report.error(
            place,
            format!("`{shown}` names an optional argument, which calls may leave out"),
            "add it to `required` of the parameters, give it a default, or take it off the list",
        );
    }
    true
}

/// Whether a part of the argument is sensitive.
fn is_sensitive(named: &str, sensitive: &[String]) -> bool {
    let first = |pointer: &str| pointer.split('/').nth(1).map(str::to_owned);
    let is_of = |hidden: &String| first(hidden) == first(named) || hidden.starts_with("/*");
    sensitive.iter().any(is_of)
}
