//! Cuts a record's text into the passages that are embedded: short enough for a model to read whole, at headings, paragraphs and
//! sentences. Knows no model; a function counts the tokens.

use std::ops::Range;
use windlass_contract::handler::Record;

/// The most tokens of a passage without its title. The smallest model reads 256 with it.
const TOKENS_MAX: usize = 200;
/// The fewest tokens of a passage that ends with its section; a shorter one continues into the next section.
const SECTION_TOKENS_MIN: usize = 60;
/// The most bytes of a sentence. A longer one is data or has no full stops, and is cut at a word.
const SENTENCE_BYTES_MAX: usize = 600;

/// The passages of a record, each with the title and its headings. A record without text has one passage: its title.
pub(crate) fn split(record: &Record, count: &dyn Fn(&str) -> usize) -> Vec<String> {
    let body = record.body.trim();
    if body.len() <= TOKENS_MAX || count(body) <= TOKENS_MAX {
        return vec![joined(&record.title, "", body)];
    }
    cut(record, count).passages
}

/// The range of a passage in the text of a record with `count` passages. `None` where the text is now cut differently.
pub(crate) fn place(
    record: &Record,
    nth: usize,
    passages: usize,
    count: &dyn Fn(&str) -> usize,
) -> Option<Range<usize>> {
    let places = cut(record, count).places;
    places
        .get(nth)
        .filter(|_| places.len() == passages)
        .cloned()
}

fn cut<'a>(record: &'a Record, count: &'a dyn Fn(&str) -> usize) -> Cutter<'a> {
    let mut cutter = Cutter {
        title: &record.title,
        body: &record.body,
        count,
        headings: Vec::new(),
        heading_line: String::new(),
        sentences: Vec::new(),
        tokens: 0,
        passages: Vec::new(),
        places: Vec::new(),
        is_overlap_only: true,
    };
    let lines = record.body.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        match heading(line) {
            Some((depth, text)) => cutter.enter(depth, text),
            None => sentences(line).for_each(|sentence| cutter.add(sentence)),
        }
    }
    cutter.finish();
    cutter
}

struct Cutter<'a> {
    title: &'a str,
    body: &'a str,
    count: &'a dyn Fn(&str) -> usize,
    /// The headings above the current line, with their depths.
    headings: Vec<(usize, &'a str)>,
    /// The headings under which the current passage began.
    heading_line: String,
    sentences: Vec<(&'a str, usize)>,
    tokens: usize,
    passages: Vec<String>,
    /// The range of each passage in the body.
    places: Vec<Range<usize>>,
    /// Whether the current passage holds only the end of the previous one.
    is_overlap_only: bool,
}

impl<'a> Cutter<'a> {
    fn enter(&mut self, depth: usize, text: &'a str) {
        if self.tokens >= SECTION_TOKENS_MIN {
            self.finish();
        }
        self.headings.retain(|(above, _)| *above < depth);
        self.headings.push((depth, text));
        if self.sentences.is_empty() {
            self.name_section();
        }
    }

    fn add(&mut self, sentence: &'a str) {
        let tokens = (self.count)(sentence);
        if self.tokens + tokens > TOKENS_MAX && !self.is_overlap_only {
            let last = self.sentences.last().copied();
            self.finish();
            self.name_section();
            // A sentence of overlap keeps references to it findable.
            if let Some((text, overlap)) =
                last.filter(|(_, overlap)| overlap + tokens <= TOKENS_MAX)
            {
                self.sentences.push((text, overlap));
                self.tokens = overlap;
            }
        }
        self.sentences.push((sentence, tokens));
        self.tokens += tokens;
        self.is_overlap_only = false;
    }

    fn name_section(&mut self) {
        let names: Vec<&str> = self.headings.iter().map(|(_, text)| *text).collect();
        self.heading_line = names.join(" – ");
    }

    fn finish(&mut self) {
        if !self.is_overlap_only {
            let texts: Vec<&str> = self.sentences.iter().map(|(text, _)| *text).collect();
            let text = texts.join(" ");
            self.passages
                .push(joined(self.title, &self.heading_line, &text));
            // Sentences are slices of the body, so their positions follow from their addresses.
            let place = |text: &str| text.as_ptr().addr() - self.body.as_ptr().addr();
            let ends = self.sentences.first().zip(self.sentences.last());
            let range = ends.map(|((first, _), (last, _))| place(first)..place(last) + last.len());
            self.places.push(range.unwrap_or_default());
        }
        self.sentences.clear();
        self.tokens = 0;
        self.is_overlap_only = true;
    }
}

fn joined(title: &str, headings: &str, text: &str) -> String {
    let mut passage = title.to_owned();
    for part in [headings, text] {
        // The first heading often repeats the title.
        if !part.is_empty() && part != title {
            passage.push('\n');
            passage.push_str(part);
        }
    }
    passage
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let depth = line.len() - text.len();
    (1..=6)
        .contains(&depth)
        .then(|| text.strip_prefix(' '))
        .flatten()
        .map(|text| (depth, text.trim()))
}

/// The sentences of a line, none longer than the limit.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let end = sentence_end(rest);
        let (sentence, after) = rest.split_at(end);
        rest = after;
        Some(sentence.trim_end())
    })
}

fn sentence_end(text: &str) -> usize {
    let limit = text.floor_char_boundary(SENTENCE_BYTES_MAX);
    let head = &text[..limit];
    let stop = head
        .match_indices(['.', '!', '?', '。', '！', '？'])
        .map(|(place, mark)| place + mark.len())
        .find(|end| {
            *end == text.len()
                || text[*end..].starts_with(char::is_whitespace)
                || !text[..*end].ends_with(|mark: char| mark.is_ascii())
        });
    if let Some(end) = stop {
        return end;
    }
    if limit == text.len() {
        return limit;
    }
    head.rfind(char::is_whitespace)
        .filter(|end| *end > 0)
        .unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn passages(body: &str) -> Vec<String> {
        let record = Record {
            title: "Fram".to_owned(),
            body: body.to_owned(),
            ..Record::default()
        };
        split(&record, &words)
    }

    #[test]
    fn a_short_text_is_one_passage_under_its_title() {
        assert_eq!(passages("A ship."), ["Fram\nA ship."]);
        assert_eq!(passages(""), ["Fram"]);
    }

    #[test]
    fn a_long_text_is_cut_at_sentences_that_overlap_by_one() {
        let body: String = (0..50)
            .map(|number| format!("Sentence {number} has exactly eight words in it. "))
            .collect();
        let passages = passages(&body);
        assert_eq!(passages.len(), 3);
        assert!(passages.iter().all(|passage| words(passage) <= 201));
        assert!(passages[0].ends_with("Sentence 24 has exactly eight words in it."));
        assert!(passages[1].starts_with("Fram\nSentence 24 has"));
        assert!(passages[2].ends_with("Sentence 49 has exactly eight words in it."));
    }

    #[test]
    fn a_passage_lies_where_its_first_and_last_sentence_do() {
        let section = "A sentence of seven words is here. ".repeat(40);
        let record = Record {
            body: format!("\n # Hull\n{section}\n## Keel\nThe keel lies here. {section}"),
            ..Record::default()
        };
        let passages = split(&record, &words);
        for (nth, passage) in passages.iter().enumerate() {
            let range = place(&record, nth, passages.len(), &words).unwrap();
            let text = &record.body[range];
            assert!(
                passage.ends_with("here.") && text.ends_with("here."),
                "{text}"
            );
            assert!(
                text.starts_with("A sentence") || text.starts_with("The keel"),
                "{text}"
            );
        }
        let keel = (0..passages.len())
            .find(|nth| passages[*nth].contains("The keel"))
            .unwrap();
        let range = place(&record, keel, passages.len(), &words).unwrap();
        assert!(record.body[range].contains("The keel lies here."));
        assert_eq!(place(&record, 0, 1, &words), None);
    }

    #[test]
    fn a_section_begins_a_passage_that_names_it() {
        let section = "A sentence of seven words is here. ".repeat(12);
        let body =
            format!("# Hull\n{section}\n## Keel\n{section}\n# Sails\nShort.\n## Jib\n{section}");
        let passages = passages(&body);
        let beginnings: Vec<&str> = passages
            .iter()
            .map(|passage| passage.lines().nth(1).unwrap())
            .collect();
        assert_eq!(beginnings, ["Hull", "Hull – Keel", "Sails"]);
        assert!(passages[2].contains("Short. A sentence"));
    }

    #[test]
    fn text_without_full_stops_or_spaces_is_cut_all_the_same() {
        for body in ["word ".repeat(3_000), "x".repeat(9_000), "船".repeat(3_000)] {
            let record = Record {
                title: "T".to_owned(),
                body: body.clone(),
                ..Record::default()
            };
            let passages = split(&record, &|text| text.len() / 4);
            assert!(passages.len() > 3, "{body:.10}");
            assert!(
                passages
                    .iter()
                    .all(|passage| passage.len() <= 4 * TOKENS_MAX + 10)
            );
        }
    }

    /// Cuts are stored, so a change of the cutting needs a new number.
    #[test]
    fn the_analysers_number_stands_for_these_passages() {
        let body: String = (0..400)
            .map(|number| match number % 23 {
                0 => format!("\n## Part {number}\n\n"),
                7 => format!("Håkon said {number}!  "),
                _ => format!("Sentence {number} of the log, e.g. of the Fram. "),
            })
            .collect();
        let texts: Vec<String> = passages(&body);
        let parts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let found = crate::hash::hex(&crate::hash::sha256(&parts)[..8]);
        assert_eq!(
            (crate::manifest::ANALYSER, texts.len(), found.as_str()),
            (2, 18, "cfa37f6f924fbca4"),
            "raise `ANALYSER` with this"
        );
    }
}
