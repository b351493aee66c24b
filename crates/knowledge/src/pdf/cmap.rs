//! What a font's map of codes would grow to in the library's hands. Knows how such maps are written, and no font.

use super::Refusal;

/// Dictionaries of a map, wherever they stand.
const DICTIONARIES_MAX: usize = 16;

/// How many codes a map has by its ranges. Refuses maps whose parts lie in one another, which none needs.
pub(super) fn codes(map: &[u8]) -> Result<usize, Refusal> {
    const RANGES: &[u8] = b"beginbfrange";
    check_nesting(map)?;
    let mut codes = 0_usize;
    let mut rest = map;
    while let Some(place) = super::inflate::find(rest, RANGES) {
        rest = &rest[place + RANGES.len()..];
        let (found, after) = range_codes(rest);
        codes = codes.saturating_add(found);
        rest = after;
    }
    Ok(codes)
}

fn check_nesting(map: &[u8]) -> Result<(), Refusal> {
    let mut is_list = false;
    let mut is_text = false;
    let mut dictionaries = 0;
    for (place, byte) in map.iter().enumerate() {
        let is_plain = match byte {
            b'[' => !std::mem::replace(&mut is_list, true) && !is_text,
            b']' => std::mem::replace(&mut is_list, false) || !is_text,
            b'(' => !std::mem::replace(&mut is_text, true) && !is_list,
            b')' => {
                is_text = false;
                true
            }
            b'\\' => !is_text,
            b'<' if map.get(place + 1) == Some(&b'<') => {
                dictionaries += 1;
                dictionaries <= DICTIONARIES_MAX
            }
            _ => true,
        };
        if !is_plain {
            return Err(Refusal::TooDeep);
        }
    }
    Ok(())
}

/// The codes of ranges, each of a first code, a last one and what they stand for, and what follows the ranges.
fn range_codes(mut rest: &[u8]) -> (usize, &[u8]) {
    let mut codes = 0_usize;
    let mut first = None;
    let mut part = 0;
    loop {
        rest = rest.trim_ascii_start();
        let end = match rest.first() {
            Some(b'<') => b'>',
            Some(b'[') => b']',
            // A code that is written as text.
            Some(b'(') => return (usize::MAX, rest),
            Some(b'%') => {
                let end = rest.iter().position(|byte| b"\r\n".contains(byte));
                rest = &rest[end.unwrap_or(rest.len())..];
                continue;
            }
            _ => return (codes, rest),
        };
        let length = rest.iter().position(|byte| *byte == end);
        let length = length.unwrap_or(rest.len() - 1);
        let code = code(&rest[..length]);
        match (part, first) {
            (0, _) => first = Some(code),
            (1, Some(first)) => {
                let more = usize::try_from(code.saturating_sub(first)).unwrap_or(usize::MAX);
                codes = codes.saturating_add(more).saturating_add(1);
            }
            _ => {}
        }
        part = (part + 1) % 3;
        rest = &rest[length + 1..];
    }
}

/// A code as the library reads it: of a longer one its end.
fn code(digits: &[u8]) -> u32 {
    let digits = digits
        .iter()
        .filter_map(|byte| char::from(*byte).to_digit(16));
    digits.fold(0, |code, digit| (code << 4) | digit)
}
