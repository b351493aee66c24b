//! The text that a user reads on a terminal before a call that needs consent runs, and which answer approves. Reads no input.

use serde_json::Value;
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::ConfirmationQuestion;

/// A line each: the warning, the call with the arguments that will run, and why the user is asked.
pub(super) fn details(question: &ConfirmationQuestion) -> Vec<String> {
    let arguments = question.arguments.expose().to_value();
    let call = format!("{} {}", question.tool, shown(&arguments));
    let warning = question.warning.as_ref();
    let warning = warning.map(|warning| format!("Look twice: {warning}"));
    let because = question.because.as_ref();
    let because = because.map(|because| format!("You are asked because: {}", plain(because)));
    warning.into_iter().chain([call]).chain(because).collect()
}

/// Whether a line approves the call: only `yes` does, as the questions say.
pub(super) fn is_yes(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("yes")
}

/// The reason that a denying line gives: the text beside the "no".
pub(super) fn reason(line: &str) -> Option<Sensitive<String>> {
    let line = line.trim();
    let word_end = line.find(|letter: char| !letter.is_alphanumeric());
    let (word, rest) = line.split_at(word_end.unwrap_or(line.len()));
    let is_no = ["no", "n"].iter().any(|no| word.eq_ignore_ascii_case(no));
    let said = match is_no {
        true => rest.trim_start_matches([' ', ',', ';', ':', '.', '!', '-']),
        false => line,
    };
    (!said.is_empty()).then(|| Sensitive(said.to_owned()))
}

/// JSON with every character escaped that could hide or reorder the text beside it: a terminal obeys control characters.
fn shown(value: &Value) -> String {
    plain(&value.to_string())
}

fn plain(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_beside_a_no_is_its_reason() {
        for (line, expected) in [
            ("", None),
            ("no", None),
            (" N \n", None),
            ("no.", None),
            ("No, too dear", Some("too dear")),
            ("n: wait", Some("wait")),
            ("not on Monday", Some("not on Monday")),
            ("yes, but cheaper", Some("yes, but cheaper")),
        ] {
            assert!(!is_yes(line), "{line}");
            assert_eq!(reason(line).map(Sensitive::into_inner).as_deref(), expected);
        }
        assert!(is_yes(" YES\n"));
    }
}
