//! The formats for letters of any script, which the validator crate judges as browsers do: signs that nobody sees are not
//! there. Here a name that has them is not the name that it looks like.

use std::sync::LazyLock;

static EMAIL: LazyLock<jsonschema::Validator> = LazyLock::new(|| judge_of("idn-email"));
static HOSTNAME: LazyLock<jsonschema::Validator> = LazyLock::new(|| judge_of("idn-hostname"));

fn judge_of(format: &str) -> jsonschema::Validator {
    jsonschema::options()
        .should_validate_formats(true)
        .offline()
        .build(&serde_json::json!({ "format": format }))
        .expect("a format alone is a schema")
}

pub(super) fn is_email(text: &str) -> bool {
    !text.chars().any(is_invisible) && EMAIL.is_valid(&text.into())
}

pub(super) fn is_hostname(text: &str) -> bool {
    !text.chars().any(is_invisible) && HOSTNAME.is_valid(&text.into())
}

/// Hyphens, spaces and marks of direction.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    )
}
