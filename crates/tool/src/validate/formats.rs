//! Formats as the quick judge knows them: each function accepts only texts in the plain form that everybody writes.
//! Any other text is left to the validator crate.

pub(super) type Check = fn(&str) -> bool;

/// The check of a format, where there is one.
pub(super) fn check_of(format: &str) -> Option<Check> {
    match format {
        "date" => Some(|text| is_date(text.as_bytes())),
        "time" => Some(|text| is_time(text.as_bytes())),
        "date-time" => Some(is_date_time),
        "email" => Some(is_email),
        "uuid" => Some(is_uuid),
        "uri" => Some(is_web_address),
        _ => None,
    }
}

fn two_digits(bytes: &[u8]) -> Option<u8> {
    match bytes {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Some((tens - b'0') * 10 + (ones - b'0')),
        _ => None,
    }
}

/// `2026-03-01`; February's 29th is left to the thorough judge.
fn is_date(bytes: &[u8]) -> bool {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = bytes else {
        return false;
    };
    let days = match two_digits(&[*m1, *m2]) {
        Some(2) => 28,
        Some(4 | 6 | 9 | 11) => 30,
        Some(1..=12) => 31,
        _ => return false,
    };
    [y1, y2, y3, y4].into_iter().all(u8::is_ascii_digit)
        && two_digits(&[*d1, *d2]).is_some_and(|day| (1..=days).contains(&day))
}

/// `12:30:00`, with a fraction or not, and `Z` or an offset; leap seconds are left to the thorough judge.
fn is_time(bytes: &[u8]) -> bool {
    let [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = bytes else {
        return false;
    };
    let clock = two_digits(&[*h1, *h2]).is_some_and(|hours| hours < 24)
        && two_digits(&[*m1, *m2]).is_some_and(|minutes| minutes < 60)
        && two_digits(&[*s1, *s2]).is_some_and(|seconds| seconds < 60);
    let offset = match rest {
        [b'.', fraction @ ..] => {
            let digits = fraction
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if digits == 0 {
                return false;
            }
            &fraction[digits..]
        }
        _ => rest,
    };
    let offset = match offset {
        [b'Z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            two_digits(&[*h1, *h2]).is_some_and(|hours| hours < 24)
                && two_digits(&[*m1, *m2]).is_some_and(|minutes| minutes < 60)
        }
        _ => false,
    };
    clock && offset
}

fn is_date_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > 11 && bytes[10] == b'T' && is_date(&bytes[..10]) && is_time(&bytes[11..])
}

/// `name.of+tag@host.example`.
fn is_email(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some(at) = bytes.iter().position(|byte| *byte == b'@') else {
        return false;
    };
    let (local, domain) = (&bytes[..at], &bytes[at + 1..]);
    at <= 64
        && parts(local, |byte| matches!(byte, b'_' | b'+' | b'-')).is_some()
        && plain_host(domain).is_some_and(|parts| parts > 1)
}

/// How many parts the name of a host has.
fn plain_host(host: &[u8]) -> Option<usize> {
    parts(host, |_| false).filter(|_| host.len() <= 200)
}

/// How many parts points divide it into. `None` unless each is letters, digits and what else is allowed, 63 of them at most
/// and one at least.
fn parts(bytes: &[u8], allows: impl Fn(u8) -> bool) -> Option<usize> {
    let is_part = |length: usize| (1..=63).contains(&length);
    let (mut parts, mut start) = (1, 0);
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'.' {
            is_part(at - start).then_some(())?;
            (parts, start) = (parts + 1, at + 1);
        } else if !ALPHANUMERIC[usize::from(*byte)] && !allows(*byte) {
            return None;
        }
    }
    is_part(bytes.len() - start).then_some(parts)
}

/// Letters and digits, looked up because texts are long.
const ALPHANUMERIC: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    table
};

/// Whether a text in letters of any script is of a format, by a judge of that format alone. The judge takes signs that nobody
/// sees for not there, as browsers do; here a name that has them is not the one that it looks like.
pub(super) fn is_international(text: &str, judge: &jsonschema::Validator) -> bool {
    !text.chars().any(is_invisible) && judge.is_valid(&text.into())
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

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// `https://host.example/path?query`, without ports, user names, fragments or escapes.
fn is_web_address(text: &str) -> bool {
    let Some(rest) = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
    else {
        return false;
    };
    let end = rest.find('/').unwrap_or(rest.len());
    plain_host(&rest.as_bytes()[..end]).is_some()
        && rest[end..]
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~/?=&".contains(&byte))
}
