//! A message as clauses of plain words, and patterns for the beginnings of clauses. Knows English openings, nothing of tools.

/// Words before the actual request.
const OPENINGS: &[&str] = &[
    "please",
    "hello",
    "hi",
    "hey",
    "ok",
    "okay",
    "and",
    "then",
    "now",
    "so",
    "well",
    "no",
    "yes",
    "but",
    "actually",
    "great",
    "thanks",
    "thank you",
    "good",
    "perfect",
    "fine",
    "sorry",
    "can you",
    "could you",
    "would you",
    "will you",
    "can i",
    "can we",
    "could we",
    "could i",
    "may i",
    "i would like to",
    "id like to",
    "i want to",
    "i want you to",
    "i need to",
    "i need you to",
    "we need to",
    "i have to",
    "lets",
    "let us",
    "help me",
    "also",
    "just",
    "wait",
    "i would like",
    "id like",
    "i want",
    "i need",
    "we need",
    "do you know",
    "can you tell me",
    "tell me",
    "in that case",
];
const OPENINGS_MAX: usize = 8;
/// The most clauses that are read, and the most words of each.
const CLAUSES_MAX: usize = 24;
const WORDS_MAX: usize = 60;
/// The most words in place of `..` in a pattern.
const GAP_WORDS_MAX: usize = 8;

/// Classes of words, which patterns name in capitals.
const CLASSES: &[(&str, &str)] = &[
    (
        "EVENT",
        "meeting|meetings|appointment|appointments|event|events|call|booking|reservation|lunch|dinner|breakfast|coffee|workshop|interview|review|session|slot|visit|standup|training",
    ),
    (
        "DAY",
        "today|tonight|tomorrow|monday|tuesday|wednesday|thursday|friday|saturday|sunday|week|weekend|month|next|this|on|planned|scheduled|coming|morning|afternoon|evening",
    ),
    ("CALENDAR", "calendar|agenda|diary|schedule"),
    (
        "PERSON",
        "human|humans|person|people|agent|operator|colleague|manager|supervisor|representative|someone|somebody|staff|team",
    ),
    (
        "PICTURE",
        "picture|pictures|image|images|drawing|illustration|photo|photograph|painting|sketch|logo|icon|poster",
    ),
    (
        "CONTACTS",
        "contact|contacts|phone|phones|telephone|number|numbers|email|emails|mail|mails|address|addresses|links",
    ),
];

/// The clauses of a message, each without the words before the request.
pub(super) fn clauses(text: &str) -> Vec<Vec<String>> {
    let mut clauses = Vec::new();
    let mut start = 0;
    let signs = text
        .char_indices()
        .filter(|(_, sign)| ".!?;,:\n".contains(*sign));
    let ends = signs.map(|(index, sign)| (index, index + sign.len_utf8()));
    for (end, next) in ends.chain([(text.len(), text.len())]) {
        // A sign inside a word, as in `10:00` or `a.b`, ends no clause.
        let is_inner = text[next..].starts_with(|sign: char| !sign.is_whitespace());
        if is_inner && !text[end..].starts_with('\n') {
            continue;
        }
        let words = words(&text[start..end]);
        start = next;
        if !words.is_empty() {
            clauses.push(without_opening(words));
        }
        if clauses.len() == CLAUSES_MAX {
            break;
        }
    }
    clauses
}

/// The words in lower case, without apostrophes.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split(|sign: char| !(sign.is_alphanumeric() || "'’".contains(sign)))
        .map(|word| word.replace(['\'', '’'], "").to_lowercase())
        .filter(|word| !word.is_empty())
        .take(WORDS_MAX)
        .collect()
}

fn without_opening(words: Vec<String>) -> Vec<String> {
    let mut rest = words.as_slice();
    for _ in 0..OPENINGS_MAX {
        let found = OPENINGS.iter().filter_map(|opening| without(rest, opening));
        match found.min_by_key(|left| left.len()) {
            Some(left) if !left.is_empty() => rest = left,
            Some(_) | None => break,
        }
    }
    rest.to_vec()
}

/// Whether a clause begins like one of the patterns. `a|b` is either word, `a_b` both in this order, `..` some words or none, and `$` the
/// end.
pub(super) fn begins(clause: &[String], patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| {
        let parts: Vec<&str> = pattern.split(' ').collect();
        fits(clause, &parts)
    })
}

fn fits(words: &[String], parts: &[&str]) -> bool {
    match parts.split_first() {
        None => true,
        Some((&"$", _)) => words.is_empty(),
        Some((&"..", rest)) => {
            (0..=GAP_WORDS_MAX.min(words.len())).any(|gap| fits(&words[gap..], rest))
        }
        Some((part, rest)) => choices(part).any(|choice| {
            without(words, &choice.replace('_', " ")).is_some_and(|left| fits(left, rest))
        }),
    }
}

fn choices(part: &str) -> impl Iterator<Item = &str> {
    let class = |choice: &str| CLASSES.iter().find(|(name, _)| *name == choice);
    part.split('|')
        .flat_map(move |choice| class(choice).map_or(choice, |(_, words)| words).split('|'))
}

/// The words after this beginning.
fn without<'w>(words: &'w [String], beginning: &str) -> Option<&'w [String]> {
    let mut left = words;
    for word in beginning.split(' ') {
        let (first, rest) = left.split_first()?;
        if first != word {
            return None;
        }
        left = rest;
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_begin_with_what_is_asked_for() {
        let clauses = clauses("Hello! I can't come at 10:30, so please cancel it.\nThanks");
        let clauses: Vec<String> = clauses.iter().map(|clause| clause.join(" ")).collect();
        assert_eq!(
            clauses,
            ["hello", "i cant come at 10 30", "cancel it", "thanks"]
        );
    }

    #[test]
    fn a_pattern_says_how_a_clause_begins() {
        let begin = |text: &str, pattern: &str| {
            let clauses = clauses(text);
            clauses.iter().any(|clause| begins(clause, &[pattern]))
        };
        let asked = "Could you book me a meeting?";
        assert!(begin(asked, "book|arrange .. EVENT"));
        assert!(begin("set up lunch", "set_up .. EVENT"));
        assert!(!begin("the book of meetings", "book .. EVENT"));
        assert!(!begin("book", "book .. EVENT"));
        assert!(begin("cancel", "cancel $") && !begin("cancel order", "cancel $"));
        assert!(!begin("book a b c d e f g h i meeting", "book .. EVENT"));
    }
}
