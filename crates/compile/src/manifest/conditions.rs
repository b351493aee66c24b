//! The conditions of a manifest: checks their names, and whether they do what their author means. Judges no call.

use super::Readable;
use crate::problem::{NOTHING_TO_DO, Report, Severity};
use serde_json::Value;
use windlass_contract::condition::{
    ArgumentsOf, Condition, Constant, Flaw, Purpose, Scope, Values,
};
use windlass_contract::kind::Mode;
use windlass_contract::wording::brief;

/// Both modes, for a tool that names none.
const MODES: [Mode; 2] = [Mode::Text, Mode::Voice];

/// Reports all problems of a manifest's conditions. `parameters` is the schema that calls are checked against, as far as it is known when
/// tools are compiled.
pub(crate) fn check(
    manifest: &Readable,
    parameters: Option<&Value>,
    values: &Values,
    report: &mut Report<'_>,
) {
    let arguments = parameters.map_or(ArgumentsOf::Unread, ArgumentsOf::Schema);
    let consent = manifest.consent_condition.as_ref();
    let availability = manifest.availability.as_ref();
    for (condition, purpose, field, arguments) in [
        (
            consent.map(|consent| &consent.condition),
            Purpose::Consent,
            "requiresConfirmation",
            arguments,
        ),
        (
            availability.map(|availability| &availability.condition),
            Purpose::Availability,
            "availability",
            ArgumentsOf::Nothing,
        ),
    ] {
        let Some(condition) = condition else { continue };
        let place = format!("/{field}/condition");
        let flaws = condition.flaws(&Scope { values, arguments });
        let is_sound = flaws.is_empty();
        for flaw in flaws {
            report.error(&place, in_words(&flaw), flaw.cure);
        }
        if let ArgumentsOf::Schema(parameters) = arguments {
            for name in condition.may_be_missing(parameters) {
                report.at_pointer(
                    Severity::Note,
                    &place,
                    format!("a call may leave out `{}`, and then the user is asked", brief(&name)),
                    format!("{NOTHING_TO_DO} a required argument, or a default, makes the condition clear"),
                );
            }
        }
        let modes = manifest.allowed_modes.as_deref().unwrap_or(&MODES);
        if let Some((message, cure)) = needless(condition, purpose, arguments, modes)
            && is_sound
        {
            report.at_pointer(Severity::Warning, &place, message, cure);
        }
    }
}

/// A needless part of a condition, for a tool of these modes, and its cure.
pub(crate) fn needless(
    condition: &Condition,
    purpose: Purpose,
    arguments: ArgumentsOf<'_>,
    modes: &[Mode],
) -> Option<(String, &'static str)> {
    let constant = condition.constant(arguments, modes);
    if let [only] = modes
        && condition.reads_mode()
    {
        let outcome = match constant {
            Some(Constant::Holds) => ", so that it always holds",
            Some(Constant::Never) => ", so that it never holds",
            None => "",
        };
        let message = format!(
            "the condition reads `mode`, and the tool is for {} alone{outcome}",
            only.as_str()
        );
        let cure = "leave `mode` out of the condition, or allow the other mode, too";
        return Some((message, cure));
    }
    let (message, cure) = match (purpose, constant?) {
        (Purpose::Availability, Constant::Holds) => (
            "the condition always holds, so that the tool is withheld from nobody",
            "leave `availability` out, or mend the condition",
        ),
        (Purpose::Availability, Constant::Never) => (
            "the condition never holds, so that the tool is offered to nobody",
            "mend the condition, or begin the directory's name with _ to leave the tool out",
        ),
        (Purpose::Consent, Constant::Holds) => (
            "the condition always holds, so that every call asks",
            "write true, or mend the condition",
        ),
        (Purpose::Consent, Constant::Never) => (
            "the condition never holds, so that no call asks by it",
            "write false, or mend the condition",
        ),
    };
    Some((message.to_owned(), cure))
}

/// The problem of a condition, with its position.
pub(super) fn in_words(flaw: &Flaw) -> String {
    format!(
        "at column {} of the condition: {}",
        flaw.column, flaw.message
    )
}
