//! An answer cut into the pieces in which a model would write it. Knows no protocol.

/// The most words in one piece of transcription.
const WORDS_PER_PIECE: usize = 3;

/// Pieces of one to three words, each after the first with its leading space, as the service cuts them.
pub(crate) fn split(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut pieces = Vec::new();
    let mut rest = &words[..];
    while !rest.is_empty() {
        // Lengths 1, 2, 3, 1, … so that a listener sees pieces of every size.
        let length = (pieces.len() % WORDS_PER_PIECE + 1).min(rest.len());
        let (taken, tail) = rest.split_at(length);
        let lead = if pieces.is_empty() { "" } else { " " };
        pieces.push(format!("{lead}{}", taken.join(" ")));
        rest = tail;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_the_text() {
        for text in [
            "",
            "Yes.",
            "one two three four five six seven eight",
            "I have recorded 5.",
        ] {
            assert_eq!(split(text).concat(), text);
        }
    }
}
