//! Invisible characters, and characters that change how the text beside them is shown.

/// Whether a character is shown as nothing: Unicode lets a renderer ignore it
/// (<https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point>), or it is a mark between lines of notes.
pub fn is_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{00AD}'
            | '\u{034F}'
            | '\u{061C}'
            | '\u{115F}'..='\u{1160}'
            | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

/// Whether a character breaks a line, controls a terminal, or changes the direction of the text after it (UAX #9).
pub fn steers(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
        )
}

/// Whether a character could hide, move or reorder the text beside it.
pub fn is_unsafe_to_show(character: char) -> bool {
    steers(character) || is_ignorable(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_nobody_sees_are_unsafe_to_show() {
        for hidden in [
            '\u{034F}',
            '\u{115F}',
            '\u{1160}',
            '\u{17B4}',
            '\u{180E}',
            '\u{200B}',
            '\u{2028}',
            '\u{202E}',
            '\u{2061}',
            '\u{3164}',
            '\u{FE0F}',
            '\u{FEFF}',
            '\u{FFA0}',
            '\u{FFF9}',
            '\u{1D173}',
            '\u{E0041}',
            '\n',
            '\u{7f}',
        ] {
            assert!(is_unsafe_to_show(hidden), "{}", hidden.escape_unicode());
        }
        for shown in ['a', ' ', 'é', '\u{0301}', 'ש', '한', '漢', '🚢', '\u{2800}'] {
            assert!(!is_unsafe_to_show(shown), "{shown}");
        }
    }
}
