//! What a user reads on a terminal before a call that needs consent runs, and which answer is a yes. Reads no input.

use serde_json::Value;
use windlass_session::client::ConfirmationQuestion;

/// What is to be known before anything else, and the call with the arguments that will run, a line each.
pub(super) fn details(question: &ConfirmationQuestion) -> Vec<String> {
    let arguments = question.arguments.expose().to_value();
    let call = format!("{} {}", question.tool, shown(&arguments));
    let warning = question.warning.as_ref();
    let warning = warning.map(|warning| format!("Look twice: {warning}"));
    warning.into_iter().chain([call]).collect()
}

/// Whether a line says that the call may run: `yes` alone does, as the questions say.
pub(super) fn is_yes(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("yes")
}

/// JSON with everything escaped that could hide or reorder what stands beside it: a terminal obeys what it is sent.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_graphic() || character == ' ' || character.is_alphanumeric() {
            shown.push(character);
        } else {
            shown.extend(character.escape_unicode());
        }
    }
    shown
}
