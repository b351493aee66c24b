//! The formats that the validator crate alone does not check strictly enough. It ignores invisible characters in letters of any script,
//! as browsers do; here a name with such characters is refused, because it is not the name that it looks like. Plain addresses are
//! accepted without parsing.

use std::sync::LazyLock;

static EMAIL: LazyLock<jsonschema::Validator> = LazyLock::new(|| judge_of("email"));
static IDN_EMAIL: LazyLock<jsonschema::Validator> = LazyLock::new(|| judge_of("idn-email"));
static DATE_TIME: LazyLock<jsonschema::Validator> = LazyLock::new(|| judge_of("date-time"));
static HOSTNAME: LazyLock<jsonschema::Validator> = LazyLock::new(|| judge_of("idn-hostname"));

fn judge_of(format: &str) -> jsonschema::Validator {
    jsonschema::options()
        .should_validate_formats(true)
        .offline()
        .build(&serde_json::json!({ "format": format }))
        .expect("a format alone is a schema")
}

pub(super) fn is_email(text: &str) -> bool {
    is_plain_email(text) || EMAIL.is_valid(&text.into())
}

pub(super) fn is_idn_email(text: &str) -> bool {
    !text.chars().any(is_invisible) && IDN_EMAIL.is_valid(&text.into())
}

pub(super) fn is_hostname(text: &str) -> bool {
    !text.chars().any(is_invisible) && HOSTNAME.is_valid(&text.into())
}

/// Whether only the offset is missing for an instant.
pub(super) fn lacks_offset(text: &str) -> bool {
    const BYTES_MAX: usize = 64;
    text.len() <= BYTES_MAX && DATE_TIME.is_valid(&format!("{text}Z").into())
}

/// Invisible hyphens, spaces and marks of direction.
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

/// Whether a text is surely an address: letters, digits, single dots and hyphens around one `@`. `false` proves nothing.
fn is_plain_email(text: &str) -> bool {
    /// The limit for each part. A label of a name may have 63 bytes, and the part before the `@` 64 (RFC 1035, RFC 5321).
    const PART_BYTES_MAX: usize = 63;
    const BYTES_MAX: usize = 128;
    let is_plain = |part: &[u8]| {
        let ends = part.first().zip(part.last());
        part.len() <= PART_BYTES_MAX
            && ends.is_some_and(|(first, last)| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
            && part.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            // Such names stand for another alphabet, in an encoded form.
            && part.get(2..4) != Some(b"--")
    };
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'@');
    at.filter(|at| *at <= PART_BYTES_MAX && bytes.len() <= BYTES_MAX)
        .is_some_and(|at| {
            let mut parts = bytes[..at]
                .split(is_dot)
                .chain(bytes[at + 1..].split(is_dot));
            parts.all(is_plain)
        })
}

fn is_dot(byte: &u8) -> bool {
    *byte == b'.'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_for_a_plain_address_is_an_address_to_the_validator_too() {
        const SIGNS: &[u8] = b"ab1xn-.@@";
        let mut random = 7_u64;
        let mut plain = 0;
        for _ in 0..200_000 {
            let mut text = String::new();
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            for step in 0..3 + (random >> 60) {
                let sign = random.rotate_left(u32::try_from(5 * step).unwrap()) % 9;
                text.push(char::from(SIGNS[usize::try_from(sign).unwrap()]));
            }
            if is_plain_email(&text) {
                plain += 1;
                assert!(EMAIL.is_valid(&text.as_str().into()), "{text}");
            }
        }
        assert!(plain > 1_000, "{plain}");
        let long =
            |local: usize, label: usize| format!("{}@{}.org", "a".repeat(local), "b".repeat(label));
        for (local, label) in [(63, 60), (64, 10), (65, 10), (10, 63), (10, 64), (1, 1)] {
            let text = long(local, label);
            assert!(!is_plain_email(&text) || EMAIL.is_valid(&text.into()));
        }
        assert!(is_plain_email("docs.team@mail.example-one.com"));
        for odd in [
            "", "@", "a@", "@b", "a@b@c", "a..b@c", "a@-b", "a@b.", "a@xn--b", "a b@c", "ä@b",
        ] {
            assert!(!is_plain_email(odd), "{odd}");
        }
    }
}
