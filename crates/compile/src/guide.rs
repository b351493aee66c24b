//! A tool's guide: its title, its summary, its text, and whether its examples fit the parameters. Knows no file.

use crate::problem::{Report, Severity};
use serde_json::Value;
use windlass_contract::json;
use windlass_contract::validate::Validator;
use windlass_contract::wording::brief;

/// The most characters of a summary: all summaries together are in every session's prompt.
const SUMMARY_CHARACTERS_MAX: usize = 250;
/// The sections that the older `doc.md` must have.
const SECTIONS: [&str; 7] = [
    "Summary",
    "Preconditions",
    "Postconditions",
    "Invariants",
    "Failure Modes",
    "Examples",
    "Common Mistakes",
];

/// The parts of a guide, with line endings normalised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guide {
    pub(crate) summary: String,
    pub(crate) documentation: String,
}

/// The text without its byte order mark, and with line feeds as its only line endings.
pub(crate) fn normalise(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        text.to_owned()
    }
}

/// Reads a `guide.md`. Its examples are checked where the parameters compile.
pub(crate) fn read(
    text: &str,
    parameters: Option<&Validator>,
    report: &mut Report<'_>,
) -> Option<Guide> {
    let documentation = normalise(text);
    let lines = lines(&documentation);
    check_title(&lines, report);
    let summary = summary(&lines, report);
    check_examples(&lines, Kind::Guide, parameters, report);
    Some(Guide {
        summary: summary?,
        documentation,
    })
}

/// Reads the text of a `doc_summary.md`.
pub(crate) fn read_summary(text: &str, report: &mut Report<'_>) -> Option<String> {
    let text = normalise(text);
    summary(&lines(&text), report)
}

/// Reads a `doc.md`, which has to have seven sections.
pub(crate) fn read_documentation(
    text: &str,
    parameters: Option<&Validator>,
    report: &mut Report<'_>,
) -> String {
    let documentation = normalise(text);
    let lines = lines(&documentation);
    for section in SECTIONS {
        // The documents write "Common Mistakes (Do Not)" as well.
        let there = lines.iter().any(|line| {
            line.heading()
                .is_some_and(|(level, text)| level == 2 && text.starts_with(section))
        });
        if !there {
            report.whole(
                Severity::Error,
                format!("the section `## {section}` is missing"),
                format!("add it; doc.md has the sections {}", SECTIONS.join(", ")),
            );
        }
    }
    check_examples(&lines, Kind::OlderDocument, parameters, report);
    documentation
}

/// One line, and whether it stands inside a fenced block.
struct Line<'t> {
    /// From 1.
    number: usize,
    text: &'t str,
    /// The text without the marks of a block quote.
    quoted: &'t str,
    place: LineKind<'t>,
    /// The level of a heading whose underline is the next line.
    underlined: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind<'t> {
    Prose,
    /// The line that opens a block, with the word behind the fence.
    Opening(&'t str),
    Inside,
    Closing,
}

impl<'t> Line<'t> {
    /// The level and text of a heading.
    fn heading(&self) -> Option<(usize, &'t str)> {
        if self.place != LineKind::Prose {
            return None;
        }
        let text = self.text.trim();
        if let Some(level) = self.underlined {
            let is_line = text.bytes().all(|byte| matches!(byte, b'=' | b'-'));
            return Some((level, if is_line { "" } else { text }));
        }
        let level = text.bytes().take_while(|byte| *byte == b'#').count();
        let rest = &text[level..];
        let is_heading =
            (1..=6).contains(&level) && (rest.is_empty() || rest.starts_with([' ', '\t']));
        // As many number signs may close it again, as in `## Examples ##`.
        let open = rest.trim_end_matches('#');
        let rest = if open.is_empty() || open.ends_with([' ', '\t']) {
            open
        } else {
            rest
        };
        is_heading.then(|| (level, rest.trim()))
    }
}

fn lines<'t>(text: &'t str) -> Vec<Line<'t>> {
    // A fence is three or more backticks or tildes. As many of the same close it, as in CommonMark, or the end of the block quote around
    // it.
    let mut open: Option<(u8, usize, usize)> = None;
    let line = |(index, text): (usize, &'t str)| {
        // A quotation mark inside a block belongs to the block's text, unless it stood before the opening fence.
        let (depth, quoted) = unquote(text, open.map_or(usize::MAX, |(_, _, opened)| opened));
        open = open.filter(|(_, _, opened)| depth >= *opened);
        let trimmed = quoted.trim();
        let fence = trimmed
            .bytes()
            .next()
            .filter(|byte| matches!(byte, b'`' | b'~'));
        let length = fence.map_or(0, |fence| {
            trimmed.bytes().take_while(|byte| *byte == fence).count()
        });
        let word = trimmed[length..].trim();
        let place = match (open, fence) {
            (None, Some(fence)) if length >= 3 && !word.contains('`') => {
                open = Some((fence, length, depth));
                LineKind::Opening(word)
            }
            (None, _) => LineKind::Prose,
            (Some((opener, least, _)), Some(fence))
                if fence == opener && length >= least && word.is_empty() =>
            {
                open = None;
                LineKind::Closing
            }
            (Some(_), _) => LineKind::Inside,
        };
        Line {
            number: index + 1,
            text,
            quoted,
            place,
            underlined: None,
        }
    };
    let mut lines: Vec<Line<'_>> = text.lines().enumerate().map(line).collect();
    underline(&mut lines);
    lines
}

/// The number of block quote marks at the beginning of a line, at most `depth_max`, and the rest of the line.
fn unquote(text: &str, depth_max: usize) -> (usize, &str) {
    let (mut depth, mut rest) = (0, text);
    while depth < depth_max
        && let Some(quoted) = rest.trim_start().strip_prefix('>')
    {
        depth += 1;
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    (depth, rest)
}

/// Finds one-line headings between an empty line and a line of `=` or `-`.
fn underline(lines: &mut [Line<'_>]) {
    let is_empty = |line: &Line<'_>| line.text.trim().is_empty();
    for at in 1..lines.len() {
        let [title, line] = &lines[at - 1..=at] else {
            continue;
        };
        let mark = line.text.trim();
        let level = match mark.bytes().next() {
            Some(b'=') if mark.bytes().all(|byte| byte == b'=') => 1,
            Some(b'-') if mark.bytes().all(|byte| byte == b'-') => 2,
            Some(_) | None => continue,
        };
        let begins = at < 2 || is_empty(&lines[at - 2]);
        let is_title = title.place == LineKind::Prose && line.place == LineKind::Prose;
        let is_words = !is_empty(title) && title.heading().is_none();
        let is_item = title
            .text
            .trim_start()
            .starts_with(['-', '*', '+', '>', '|']);
        if begins && is_title && is_words && !is_item {
            lines[at - 1].underlined = Some(level);
            lines[at].underlined = Some(level);
        }
    }
}

fn check_title(lines: &[Line<'_>], report: &mut Report<'_>) {
    let title = lines
        .iter()
        .filter_map(Line::heading)
        .find(|(level, _)| *level == 1);
    if title.is_none_or(|(_, text)| text.is_empty()) {
        report.whole(
            Severity::Error,
            "the guide has no title",
            "begin it with a heading such as `# Search the knowledge base`",
        );
    }
}

/// The first line that is neither empty nor a heading.
fn summary(lines: &[Line<'_>], report: &mut Report<'_>) -> Option<String> {
    let line = lines
        .iter()
        .find(|line| !line.text.trim().is_empty() && line.heading().is_none());
    let Some(line) = line.filter(|line| line.place == LineKind::Prose) else {
        report.whole(
            Severity::Error,
            "there is no summary",
            format!("write one line of at most {SUMMARY_CHARACTERS_MAX} characters under the title: what the tool does and when to call it"),
        );
        return None;
    };
    let summary = line.text.trim();
    let characters = summary.chars().count();
    if characters > SUMMARY_CHARACTERS_MAX {
        report.at_line(
            Severity::Error,
            line.number,
            None,
            format!("the summary is {characters} characters long"),
            format!("shorten the first line to {SUMMARY_CHARACTERS_MAX} characters, or break it there; the rest of the guide may be as long as it needs"),
        );
        return None;
    }
    Some(summary.to_owned())
}

/// The kind of document. Older documents were written before their examples were checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Guide,
    OlderDocument,
}

/// The lower-case words of a line.
fn words(text: &str) -> Vec<String> {
    text.split(|character: char| !character.is_alphanumeric() && character != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Whether a heading introduces examples of arguments: `Examples`, `Usage Examples`, `Example 1`. Headings of wrong examples, and of a
/// tool's results, do not.
fn is_over_examples(heading: &str) -> bool {
    const OTHERS: [&str; 9] = [
        "bad", "wrong", "invalid", "counter", "non", "not", "don't", "avoid", "mistakes",
    ];
    let words = words(heading);
    words
        .iter()
        .any(|word| word == "example" || word == "examples")
        && !words.iter().any(|word| OTHERS.contains(&word.as_str()))
        && !is_over_response(heading)
}

/// Whether a line introduces a tool's answer: `Response:`, `**Tool result**`, `Returns:`.
fn is_over_response(line: &str) -> bool {
    const RESPONSES: [&str; 6] = [
        "response",
        "responses",
        "returns",
        "result",
        "results",
        "output",
    ];
    // A line with more words is a sentence about something else.
    const WORDS_MAX: usize = 3;
    let words = words(line);
    words.len() <= WORDS_MAX
        && [words.first(), words.last()]
            .into_iter()
            .flatten()
            .any(|word| RESPONSES.contains(&word.as_str()))
}

/// A fenced `json` block under a heading of examples.
struct Block<'t> {
    first_line: usize,
    text: String,
    /// The line of prose before it, and its number.
    introduction: Option<(usize, &'t str)>,
    /// The number of the line that closes it.
    closed: Option<usize>,
}

/// Checks every example against the parameters.
fn check_examples(
    lines: &[Line<'_>],
    kind: Kind,
    parameters: Option<&Validator>,
    report: &mut Report<'_>,
) {
    for block in blocks(lines) {
        if block.closed.is_none() {
            report.at_line(
                Severity::Error,
                block.first_line - 1,
                None,
                "the fenced block is never closed",
                "close it with a line of three backticks",
            );
        } else {
            check_example(&block, kind, parameters, report);
        }
    }
}

/// Removes examples that the written parameters allow and the served ones do not, with the lines that introduce them: a schema with the
/// vocabulary of a knowledge base may allow less than the schema that the guide was written for.
pub(crate) fn without_untrue_examples(
    documentation: &str,
    written: &Validator,
    served: &Validator,
) -> String {
    let lines = lines(documentation);
    let mut left_out = vec![false; lines.len() + 1];
    for block in blocks(&lines) {
        // Other blocks are no arguments: responses, and texts of older documents that are no JSON.
        let became_untrue = json::parse(block.text.as_bytes()).is_ok_and(|value| {
            let is_admitted = |by: &Validator| by.violations(&value).is_empty();
            is_admitted(written) && !is_admitted(served)
        });
        if let (true, Some(closed)) = (became_untrue, block.closed) {
            let first = block
                .introduction
                .map_or(block.first_line - 1, |(at, _)| at);
            left_out[first..=closed].fill(true);
        }
    }
    if !left_out.contains(&true) {
        return documentation.to_owned();
    }
    let mut kept = String::with_capacity(documentation.len());
    for line in lines.iter().filter(|line| !left_out[line.number]) {
        // A removed block leaves a single empty line.
        if line.text.is_empty() && kept.ends_with("\n\n") {
            continue;
        }
        kept.push_str(line.text);
        kept.push('\n');
    }
    kept
}

/// The examples of a text that are JSON, in their order.
pub(crate) fn examples(documentation: &str) -> Vec<Value> {
    let blocks = blocks(&lines(documentation)).into_iter();
    let parsed = blocks.map(|block| json::parse(block.text.as_bytes()));
    parsed.filter_map(Result::ok).collect()
}

fn blocks<'t>(lines: &[Line<'t>]) -> Vec<Block<'t>> {
    let mut blocks = Vec::new();
    // The level of the current heading of examples.
    let mut under: Option<usize> = None;
    let mut introduction = None;
    let mut block: Option<Block<'t>> = None;
    for line in lines {
        if let Some((level, text)) = line.heading() {
            under = under.filter(|examples| level > *examples || text.is_empty());
            // A title names the tool: "Example sentences" is a tool that finds some.
            let is_title = level == 1 && words(text).len() > 1;
            if under.is_none() && !is_title && is_over_examples(text) {
                under = Some(level);
            }
        }
        // The end of a block quote ends a block as well.
        if !matches!(line.place, LineKind::Inside | LineKind::Closing)
            && let Some(mut quoted) = block.take()
        {
            quoted.closed = Some(line.number - 1);
            blocks.push(quoted);
        }
        match line.place {
            LineKind::Opening(word) => {
                let is_json = word
                    .split_whitespace()
                    .next()
                    .is_some_and(|word| word.eq_ignore_ascii_case("json"));
                block = (is_json && under.is_some()).then(|| Block {
                    first_line: line.number + 1,
                    text: String::new(),
                    introduction: introduction.take(),
                    closed: None,
                });
            }
            LineKind::Inside => {
                if let Some(Block { text, .. }) = &mut block {
                    text.push_str(line.quoted);
                    text.push('\n');
                }
            }
            LineKind::Closing => {
                if let Some(mut whole) = block.take() {
                    whole.closed = Some(line.number);
                    blocks.push(whole);
                }
                introduction = None;
            }
            LineKind::Prose if line.text.trim().is_empty() => {}
            LineKind::Prose if line.heading().is_some() => introduction = None,
            LineKind::Prose => introduction = Some((line.number, line.text)),
        }
    }
    blocks.extend(block);
    blocks
}

fn check_example(
    block: &Block<'_>,
    kind: Kind,
    parameters: Option<&Validator>,
    report: &mut Report<'_>,
) {
    let first_line = block.first_line;
    let text = block.text.as_str();
    if kind == Kind::OlderDocument
        && block
            .introduction
            .is_some_and(|(_, line)| is_over_response(line))
    {
        report.at_line(
            Severity::Warning,
            first_line - 1,
            None,
            "the example shows a response, so it is not checked",
            "nothing to do, or write a guide.md, where examples are arguments",
        );
        return;
    }
    let value = match json::parse(text.as_bytes()) {
        Ok(value) => value,
        Err(error) => {
            let severity = match kind {
                Kind::Guide => Severity::Error,
                Kind::OlderDocument => Severity::Warning,
            };
            report.at_line(
                severity,
                first_line + error.line.max(1) - 1,
                Some(error.column.max(1)),
                format!("the example is not valid JSON: {}", error.message),
                "correct it, or leave the word json off its fence",
            );
            return;
        }
    };
    let Some(parameters) = parameters else {
        return;
    };
    for violation in parameters.violations(&value) {
        let place = json::locate(text, &violation.pointer);
        let at = if violation.pointer.is_empty() {
            String::new()
        } else {
            format!(" at {}", brief(&violation.pointer))
        };
        report.at_line(
            Severity::Error,
            place.map_or(first_line, |place| first_line + place.line - 1),
            place.map(|place| place.column),
            format!(
                "the example breaks the tool's parameters{at}: {}",
                violation.message
            ),
            "correct the example or the parameters; models copy what they read here",
        );
    }
}
