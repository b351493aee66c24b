//! A written stream in its form for reading again: with each of its texts in one event, and without pieces of results. Knows the
//! form of these events, and of no other event.

use memchr::memmem;
use std::iter::once;

/// The event of a text's piece before the text's id.
pub(super) const BEFORE_ID: &str = "data: {\"type\":\"text-delta\",\"id\":\"";
/// The part between the id and the words, which are a JSON string.
pub(super) const BEFORE_WORDS: &str = "\",\"delta\":";
pub(super) const AFTER_WORDS: &str = "}\n\n";

/// The end of the event of a result's piece. Within a string its quotes would be escaped.
const RESULT_PIECE_END: &str = ",\"dynamic\":true,\"preliminary\":true}\n\n";

const EVENT_END: &str = "\n\n";

/// The same stream with each text in one `text-delta`, and without pieces of results. A model's words come one by one, and the
/// event around a word is longer than the word; a result is complete without its pieces.
pub fn condensed(stream: &str) -> String {
    let mut whole = String::with_capacity(stream.len());
    let mut open: Option<&str> = None;
    for event in events(stream).filter(|event| !event.ends_with(RESULT_PIECE_END)) {
        match (open, piece(event)) {
            (Some(id), Some((of, words))) if id == of => whole += words,
            (_, Some((of, words))) => {
                close(&mut whole, open);
                whole.extend([BEFORE_ID, of, BEFORE_WORDS, "\"", words]);
                open = Some(of);
            }
            (_, None) => {
                close(&mut whole, open.take());
                whole += event;
            }
        }
    }
    close(&mut whole, open);
    whole.shrink_to_fit();
    whole
}

/// The events, each with its end; the last one may have none.
fn events(stream: &str) -> impl Iterator<Item = &str> {
    let ends = memmem::find_iter(stream.as_bytes(), EVENT_END).map(|at| at + EVENT_END.len());
    let mut from = 0;
    ends.chain(once(stream.len())).map(move |to| {
        let event = &stream[from..to];
        from = to;
        event
    })
}

/// Ends the event of the open text.
fn close(whole: &mut String, open: Option<&str>) {
    if open.is_some() {
        whole.extend(["\"", AFTER_WORDS]);
    }
}

/// The id of an event's text, and the words as they stand within the JSON's quotes.
fn piece(event: &str) -> Option<(&str, &str)> {
    let piece = event.strip_prefix(BEFORE_ID)?.strip_suffix(AFTER_WORDS)?;
    let (id, _) = piece.split_once('"')?;
    let words = piece[id.len()..].strip_prefix(BEFORE_WORDS)?;
    Some((id, words.strip_prefix('"')?.strip_suffix('"')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT_START: &str = "data: {\"type\":\"text-start\",\"id\":\"text-1\"}\n\n";

    fn delta(id: &str, words: &str) -> String {
        format!("data: {{\"type\":\"text-delta\",\"id\":\"{id}\",\"delta\":\"{words}\"}}\n\n")
    }

    #[test]
    fn only_pieces_of_one_text_that_follow_each_other_are_joined() {
        let quoted = delta("text-1", r#"\"}\n\ndata: {\"type\":\"text-delta\"\"#);
        let other = "data: {\"type\":\"reasoning-delta\",\"id\":\"text-1\",\"delta\":\"x\"}\n\n";
        let check = |events: &[&str], kept: &[&str]| {
            assert_eq!(condensed(&events.concat()), kept.concat());
        };
        let (one, two) = (delta("text-1", "one "), delta("text-1", "two"));
        let (of_other, both) = (delta("text-2", "x"), delta("text-1", "one two"));
        check(&[], &[]);
        check(&[&one, &two], &[&both]);
        check(&[&one, &of_other, &two], &[&one, &of_other, &two]);
        check(&[&one, other, other, &two], &[&one, other, other, &two]);
        check(
            &[&one, &two, TEXT_START, &one, &two],
            &[&both, TEXT_START, &both],
        );
        let joined_quote = delta("text-1", &format!("one {}", piece(&quoted).unwrap().1));
        check(&[&one, &quoted], &[&joined_quote]);
        let result = |more: &str| {
            let call =
                "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"call-1\",\"output\":";
            format!("{call}\"x\",\"dynamic\":true{more}}}\n\n")
        };
        let (shown, whole) = (result(",\"preliminary\":true"), result(""));
        check(&[&one, &shown, &two, &shown, &whole], &[&both, &whole]);
        let quoted = delta("text-1", &shown.trim_end().replace('"', "\\\""));
        check(&[&quoted], &[&quoted]);
        // Unfinished events, and events of another form, stay as they are.
        check(&[&one, one.trim_end()], &[&one, one.trim_end()]);
        check(&["data: x", "\n\n\n\n"], &["data: x", "\n\n\n\n"]);
    }
}
