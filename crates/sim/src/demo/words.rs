//! Words of a question, and the sentences of a text that answer it best. Knows English function words, and counts words; it understands
//! nothing.

use std::cmp::Reverse;

/// A text with the name for its citation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    pub(super) title: String,
    pub(super) text: String,
}

/// A question as its words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    /// The content words, as spelt: its own words first, then those of the earlier topic that it refers to.
    content: Vec<String>,
    own: usize,
    /// Whether it refers to a person or thing named before.
    refers_back: bool,
    wants_number: bool,
    wants_date: bool,
}

const STOP_WORDS: &str = "\
    a about all also an and any anybody anyone anything are as at be been but by can could describe did do does \
    everybody everyone explain find for from get give had happen happened has have he her hers him his how i if in \
    into is it its know like look many may me much my nobody now of on or please s say search she show so some \
    somebody someone something tell than that the their them then there these they this those time to today up us \
    was we were what when where which who whom whose why will with would you your";
const PRONOUNS: &[&str] = &[
    "he", "him", "his", "she", "her", "hers", "it", "its", "they", "them", "their", "there",
];
const QUERY_WORDS_MAX: usize = 12;
const QUERY_CHARACTERS_MAX: usize = 120;
/// The most characters of an answer: about five seconds of the demo's voice.
const ANSWER_CHARACTERS_MAX: usize = 220;
/// The length of the first sentence up to which a second one is told.
const SECOND_SENTENCE_AT: usize = 90;
/// The letters that two forms of one word share: `design`, `designed`, `designer`.
const STEM_LETTERS: usize = 5;

impl Question {
    pub(super) fn new(text: &str) -> Self {
        let words: Vec<&str> = text
            .split(|sign: char| !sign.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let has = |list: &[&str]| lower.iter().any(|word| list.contains(&word.as_str()));
        let content: Vec<String> = words
            .iter()
            .zip(&lower)
            .filter(|(_, lower)| !is_stop_word(lower))
            .map(|(word, _)| (*word).to_owned())
            .take(QUERY_WORDS_MAX)
            .collect();
        Self {
            own: content.len(),
            content,
            refers_back: has(PRONOUNS),
            wants_number: has(&["how", "many", "much"])
                && has(&[
                    "thick", "long", "wide", "deep", "far", "old", "many", "much", "big", "large",
                    "heavy", "fast", "tall", "high",
                ]),
            wants_date: has(&["when", "year", "date"]),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Whether a word is spelt like a name.
    pub(super) fn has_name(&self) -> bool {
        self.content.iter().any(|word| is_name(word))
    }

    /// Adds the earlier topic's words, if the question only refers to it.
    pub(super) fn lean_on(&mut self, topic: &str) {
        if !self.refers_back {
            return;
        }
        for word in Self::new(topic).content {
            if self.content.len() < QUERY_WORDS_MAX
                && !self.content.iter().any(|own| alike(own, &word))
            {
                self.content.push(word);
            }
        }
    }

    pub(super) fn query(&self) -> String {
        self.content
            .join(" ")
            .chars()
            .take(QUERY_CHARACTERS_MAX)
            .collect()
    }

    /// The number of its words in the record's best sentence, together with the title.
    pub(super) fn coverage(&self, record: &Record) -> usize {
        let heading = words_of(&record.title);
        let sentences = sentences(&record.text);
        let texts = sentences.iter().map(|sentence| words_of(sentence));
        texts
            .chain([Vec::new()])
            .map(|words| Self::covered(&self.content, &words, &heading))
            .max()
            .unwrap_or_default()
    }

    /// One or two sentences of the record with the most words of the question, and their source. `None` where no sentence has the names
    /// in the question and most of its other words: it would answer something else.
    pub(super) fn answer_from(&self, record: &Record) -> Option<String> {
        let sentences = sentences(&record.text);
        let heading = words_of(&record.title);
        let own = &self.content[..self.own];
        let names: Vec<String> = own.iter().filter(|word| is_name(word)).cloned().collect();
        let fits = |sentence: &str| {
            let words = words_of(sentence);
            2 * Self::covered(own, &words, &heading) > own.len()
                && Self::covered(&names, &words, &heading) == names.len()
        };
        let (index, first) = sentences
            .iter()
            .enumerate()
            .filter(|(_, sentence)| fits(sentence))
            .max_by_key(|(index, sentence)| (self.score(sentence, &heading), Reverse(*index)))?;
        let mut told = shortened(first);
        if let Some(second) = sentences.get(index + 1)
            && told.chars().count() < SECOND_SENTENCE_AT
            && told.chars().count() + second.chars().count() < ANSWER_CHARACTERS_MAX
        {
            told = format!("{told} {second}");
        }
        Some(match record.title.as_str() {
            "" => told,
            title => format!("{told} That is from “{title}”."),
        })
    }

    fn covered(wanted: &[String], words: &[String], heading: &[String]) -> usize {
        let has = |own: &&String| words.iter().chain(heading).any(|word| alike(own, word));
        wanted.iter().filter(has).count()
    }

    /// The score of a sentence. A word that is in the title as well counts little.
    fn score(&self, sentence: &str, heading: &[String]) -> usize {
        let words = words_of(sentence);
        let shared: usize = self
            .content
            .iter()
            .filter(|own| words.iter().any(|word| alike(own, word)))
            .map(|own| {
                if heading.iter().any(|word| alike(own, word)) {
                    1
                } else {
                    4
                }
            })
            .sum();
        let digits = sentence.chars().any(|sign| sign.is_ascii_digit());
        let year = words
            .iter()
            .any(|word| word.len() == 4 && word.chars().all(|sign| sign.is_ascii_digit()));
        // The right kind of fact does not suffice for a sentence without a shared word.
        let fitting = (self.wants_date && year) || (self.wants_number && digits);
        if shared > 0 && fitting {
            shared + 3
        } else {
            shared
        }
    }
}

/// Whether a word, in lower case, occurs in all sentences and has no meaning.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.split(' ').any(|stop| stop == word)
}

fn is_name(word: &str) -> bool {
    word.starts_with(char::is_uppercase)
}

fn words_of(text: &str) -> Vec<String> {
    text.split(|sign: char| !sign.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether two words begin alike and may be forms of one word.
pub(super) fn alike(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let stem = |word: &str| word.chars().take(STEM_LETTERS).collect::<String>();
    if one.chars().count() < STEM_LETTERS || other.chars().count() < STEM_LETTERS {
        let plain = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
        return plain(&one) == plain(&other);
    }
    stem(&one) == stem(&other)
}

/// The sentences of a Markdown text, without its marks. Headings are left out.
fn sentences(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    for line in text.lines().map(str::trim) {
        if line.starts_with('#') || line.starts_with("---") {
            continue;
        }
        let line = line.trim_start_matches(['-', '*', '>']).trim_start();
        plain.push_str(&without_links(line));
        // The end of a paragraph ends a sentence; the end of a line does not.
        plain.push(if line.is_empty() { '\n' } else { ' ' });
    }
    let mut sentences = Vec::new();
    for paragraph in plain.split('\n') {
        split_paragraph(paragraph, &mut sentences);
    }
    sentences
}

fn split_paragraph(paragraph: &str, sentences: &mut Vec<String>) {
    let mut start = 0;
    let mut add = |part: &str| {
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        if part.chars().any(char::is_alphanumeric) {
            sentences.push(part);
        }
    };
    for (index, sign) in paragraph.char_indices() {
        if !matches!(sign, '.' | '!' | '?') {
            continue;
        }
        let rest = &paragraph[index + 1..];
        let next = rest.trim_start().chars().next();
        let last_word = paragraph[start..index]
            .rsplit(' ')
            .next()
            .unwrap_or_default();
        // An initial or a short form such as “St.” ends no sentence.
        let short = last_word.chars().count() <= 2 && last_word.starts_with(char::is_uppercase);
        let ends = rest.is_empty()
            || rest.starts_with(' ') && next.is_none_or(|next| !next.is_lowercase());
        if ends && !short {
            add(&paragraph[start..=index]);
            start = index + 1;
        }
    }
    add(&paragraph[start..]);
}

/// The line with `[text](address)` replaced by its text, and without marks of emphasis.
fn without_links(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(open) = rest.find('[') {
        plain.push_str(&rest[..open]);
        let tail = &rest[open + 1..];
        let link = tail.find("](").and_then(|middle| {
            let end = tail[middle..].find(')')? + middle;
            Some((&tail[..middle], &tail[end + 1..]))
        });
        match link {
            Some((text, after)) => {
                plain.push_str(text);
                rest = after;
            }
            None => {
                plain.push('[');
                rest = tail;
            }
        }
    }
    plain.push_str(rest);
    plain.replace(['*', '`'], "")
}

/// The text cut at a word to the length of an answer.
pub(super) fn shortened(text: &str) -> String {
    if text.chars().count() <= ANSWER_CHARACTERS_MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(ANSWER_CHARACTERS_MAX - 1).collect();
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}

/// A message to the model about the user, reworded for the user.
pub(super) fn to_user(text: &str) -> String {
    const FORMS: [(&str, &str); 10] = [
        ("the user is", "you are"),
        ("The user is", "You are"),
        ("the user was", "you were"),
        ("The user was", "You were"),
        ("the user has", "you have"),
        ("The user has", "You have"),
        ("the user's", "your"),
        ("The user's", "Your"),
        ("the user", "you"),
        ("The user", "You"),
    ];
    FORMS
        .iter()
        .fold(text.to_owned(), |text, (of, to)| text.replace(of, to))
}

/// A message as a sentence: first letter capital, full stop last.
pub(super) fn sentence(message: &str) -> String {
    let message = shortened(message.trim());
    // A tool's name keeps its spelling.
    let first = message.split(' ').next().unwrap_or_default();
    let is_name = first.contains('_');
    let mut characters = message.chars();
    let mut sentence: String = match characters.next() {
        Some(first) if is_name => std::iter::once(first).chain(characters).collect(),
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => return "no reason was given.".to_owned(),
    };
    if !sentence.ends_with(['.', '!', '?', '…']) {
        sentence.push('.');
    }
    sentence
}
