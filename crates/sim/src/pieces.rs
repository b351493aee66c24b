//! An answer cut into pieces, like a model writes it. Knows no protocol.

/// The most words in one piece of transcription.
const WORDS_PER_PIECE: usize = 3;

/// Pieces of one to three words, each with the original space before it: they add up to the text without its trailing space.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut words = words(text.trim_end());
    let mut pieces = Vec::new();
    while !words.is_empty() {
        // Lengths 1, 2, 3, 1, … so that a listener gets pieces of every size.
        let length = (pieces.len() % WORDS_PER_PIECE + 1).min(words.len());
        pieces.push(words.drain(..length).collect());
    }
    pieces
}

/// Each word with the space before it.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let begin = rest.len() - rest.trim_start().len();
        let length = rest[begin..].find(char::is_whitespace);
        let (word, tail) = rest.split_at(length.map_or(rest.len(), |length| begin + length));
        words.push(word);
        rest = tail;
    }
    words
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
            "A list:\n\n- one two\n- three  four\n\tfive",
        ] {
            assert_eq!(split(text).concat(), text);
        }
    }
}
