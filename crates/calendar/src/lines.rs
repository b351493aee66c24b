//! Content lines of iCalendar: unfolding, names, parameters and values, components in each other, and the way back. Knows no
//! property.

use crate::read::Problems;
use crate::{FILE_BYTES_MAX, FILE_LINES_MAX, LINE_BYTES_MAX, LINES_MAX, Problem};
use std::ops::Range;

/// Components in each other that are kept.
const DEPTH_MAX: usize = 8;
/// Components in each other at which reading ends.
const OPEN_MAX: usize = 64;
/// Octets of a line that is written, its break apart.
const WRITTEN_OCTETS_MAX: usize = 75;

/// One content line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// In capitals.
    pub(crate) name: String,
    /// Names in capitals; values without quotes.
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) value: String,
    /// The place in the file, the line break included.
    pub(crate) place: Range<usize>,
    pub(crate) number: usize,
}

impl Line {
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(known, _)| known == name)?;
        Some(&found.1)
    }
}

/// The lines between a `BEGIN` and its `END`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Component {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
    pub(crate) children: Vec<Component>,
    /// The place from its `BEGIN` to the break after its `END`.
    pub(crate) place: Range<usize>,
    /// The place of its `END`.
    pub(crate) end: usize,
    pub(crate) number: usize,
}

impl Component {
    pub(crate) fn line(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name)
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Line> {
        self.lines.iter().filter(move |line| line.name == name)
    }
}

/// The components of a file, and the problems of unreadable parts. An unreadable line is left out; a component without an end, or with
/// too many lines, is left out as a whole.
pub(crate) fn components(text: &str, problems: &mut Problems) -> Vec<Component> {
    let text = match text.len() > FILE_BYTES_MAX {
        true => {
            let cause = format!("the file is longer than {FILE_BYTES_MAX} bytes, and is not read");
            problems.push(Problem::new(1, cause));
            ""
        }
        false => text,
    };
    let mut found = Vec::new();
    let mut open: Vec<Component> = Vec::new();
    for (count, raw) in Unfolded::of(text).enumerate() {
        if count == FILE_LINES_MAX {
            let cause = format!("there are more than {FILE_LINES_MAX} lines; the rest is not read");
            problems.push(Problem::new(raw.number, cause));
            break;
        }
        let line = match raw.read() {
            Ok(Some(line)) => line,
            Ok(None) => continue,
            Err(cause) => {
                problems.push(Problem::new(raw.number, cause));
                continue;
            }
        };
        match line.name.as_str() {
            "BEGIN" if open.len() == OPEN_MAX => {
                let cause = format!(
                    "more than {OPEN_MAX} components stand in each other; the rest is not read"
                );
                problems.push(Problem::new(line.number, cause));
                break;
            }
            "BEGIN" => open.push(Component {
                name: line.value.trim().to_ascii_uppercase(),
                place: line.place.clone(),
                number: line.number,
                ..Component::default()
            }),
            "END" => {
                let name = line.value.trim().to_ascii_uppercase();
                if !open.iter().any(|component| component.name == name) {
                    let cause = format!("END:{} ends nothing", shown(&name));
                    problems.push(Problem::new(line.number, cause));
                    continue;
                }
                while let Some(mut component) = open.pop() {
                    if component.name != name {
                        let cause =
                            format!("{} has no end; it is left out", shown(&component.name));
                        problems.push(Problem::new(component.number, cause));
                        continue;
                    }
                    component.place.end = line.place.end;
                    component.end = line.place.start;
                    keep(component, &mut open, &mut found, problems);
                    break;
                }
            }
            _ => match open.last_mut() {
                // One line more than allowed shows that there are too many.
                Some(component) if component.lines.len() > LINES_MAX => {}
                Some(component) => component.lines.push(line),
                None => {
                    let cause = format!("{} stands outside of BEGIN and END", shown(&line.name));
                    problems.push(Problem::new(line.number, cause));
                }
            },
        }
    }
    for component in open {
        // Whole components of a calendar that was cut off are read all the same.
        if component.name == "VCALENDAR" {
            problems.push(Problem::new(component.number, "VCALENDAR has no end"));
            found.push(component);
            continue;
        }
        let cause = format!("{} has no end; it is left out", shown(&component.name));
        problems.push(Problem::new(component.number, cause));
    }
    found
}

fn keep(
    component: Component,
    open: &mut [Component],
    found: &mut Vec<Component>,
    problems: &mut Problems,
) {
    if component.lines.len() > LINES_MAX {
        let cause = format!(
            "{} has more than {LINES_MAX} lines; it is left out",
            shown(&component.name)
        );
        problems.push(Problem::new(component.number, cause));
        return;
    }
    if open.len() >= DEPTH_MAX {
        let cause = format!(
            "{} stands too deep in other components; it is left out",
            shown(&component.name)
        );
        problems.push(Problem::new(component.number, cause));
        return;
    }
    match open.last_mut() {
        Some(parent) => parent.children.push(component),
        None => found.push(component),
    }
}

/// A text of a file for a message.
pub(crate) fn shown(text: &str) -> String {
    let text = text.chars().filter(|character| !character.is_control());
    text.take(60).collect()
}

/// One line of a file before it is read.
struct Raw {
    text: String,
    place: Range<usize>,
    number: usize,
    is_too_long: bool,
}

/// The lines of a text, with folded lines put together.
struct Unfolded<'a> {
    text: &'a str,
    at: usize,
    number: usize,
}

impl<'a> Unfolded<'a> {
    fn of(text: &'a str) -> Self {
        let at = if text.starts_with('\u{feff}') {
            '\u{feff}'.len_utf8()
        } else {
            0
        };
        Self {
            text,
            at,
            number: 0,
        }
    }

    /// The next line as it stands, and where the one after it begins.
    fn next_physical(&mut self) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let length = rest.find('\n').map_or(rest.len(), |at| at + 1);
        self.at += length;
        self.number += 1;
        let line = rest[..length].trim_end_matches('\n');
        Some(line.strip_suffix('\r').unwrap_or(line))
    }
}

impl Iterator for Unfolded<'_> {
    type Item = Raw;

    fn next(&mut self) -> Option<Raw> {
        let start = self.at;
        let mut text = self.next_physical()?.to_owned();
        let number = self.number;
        let mut is_too_long = text.len() > LINE_BYTES_MAX;
        while self.text[self.at..].starts_with([' ', '\t']) {
            let Some(more) = self.next_physical() else {
                break;
            };
            is_too_long |= text.len() + more.len() > LINE_BYTES_MAX;
            if !is_too_long {
                text.push_str(&more[1..]);
            }
        }
        Some(Raw {
            text,
            place: start..self.at,
            number,
            is_too_long,
        })
    }
}

impl Raw {
    /// `None` where the line is blank.
    fn read(&self) -> Result<Option<Line>, String> {
        if self.is_too_long {
            return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
        }
        let text = self.text.trim_end();
        if text.is_empty() {
            return Ok(None);
        }
        let broken = || format!("{} is no line NAME:VALUE", shown(text));
        let name_end = text.find([';', ':']).ok_or_else(broken)?;
        let name = &text[..name_end];
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(broken());
        }
        let mut rest = &text[name_end..];
        let mut parameters = Vec::new();
        while let Some(parameter) = rest.strip_prefix(';') {
            let (name, value) = parameter.split_once('=').ok_or_else(broken)?;
            let end = end_of_value(value).ok_or_else(broken)?;
            parameters.push((
                name.trim().to_ascii_uppercase(),
                value[..end].replace('"', ""),
            ));
            rest = &value[end..];
        }
        let value = rest.strip_prefix(':').ok_or_else(broken)?;
        Ok(Some(Line {
            name: name.to_ascii_uppercase(),
            parameters,
            value: value.to_owned(),
            place: self.place.clone(),
            number: self.number,
        }))
    }
}

/// The end of a parameter's value: at the next colon or semicolon that is not in quotes.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    text.char_indices().find_map(|(at, character)| {
        if character == '"' {
            is_quoted = !is_quoted;
        }
        (!is_quoted && matches!(character, ';' | ':')).then_some(at)
    })
}

/// A text value as people read it.
pub(crate) fn unescaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n' | 'N') => text.push('\n'),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            character => text.push(character),
        }
    }
    text
}

/// The way back. Control characters that iCalendar does not know are left out.
pub(crate) fn escaped(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | ';' | ',' => {
                value.push('\\');
                value.push(character);
            }
            '\n' => value.push_str("\\n"),
            '\t' => value.push('\t'),
            character if character.is_control() => {}
            character => value.push(character),
        }
    }
    value
}

/// A line as it is written: folded, and ended as the standard says.
pub(crate) fn written(line: &str) -> String {
    let mut text = String::with_capacity(line.len() + 2);
    let mut octets = 0;
    for character in line.chars() {
        if octets + character.len_utf8() > WRITTEN_OCTETS_MAX {
            text.push_str("\r\n ");
            octets = 1;
        }
        text.push(character);
        octets += character.len_utf8();
    }
    text.push_str("\r\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back_from_its_escaped_and_folded_form() {
        for text in [
            "",
            "plain",
            "a; b, c\\ d\ne",
            "\u{1F600}".repeat(100).as_str(),
            "END:VEVENT\nBEGIN:VEVENT",
        ] {
            let line = written(&format!("SUMMARY:{}", escaped(text)));
            assert!(
                line.split("\r\n")
                    .all(|part| part.len() <= WRITTEN_OCTETS_MAX)
            );
            let file = format!("BEGIN:VEVENT\r\n{line}END:VEVENT\r\n");
            let mut problems = Problems::default();
            let read = components(&file, &mut problems);
            assert!(problems.list.is_empty(), "{problems:?}");
            assert_eq!(read.len(), 1);
            let line = read[0].line("SUMMARY").unwrap();
            assert_eq!(unescaped(&line.value), text);
        }
        assert_eq!(escaped("a\rb\u{7}c\u{85}"), "abc");
    }

    #[test]
    fn parameters_are_read_with_and_without_quotes() {
        let file = "BEGIN:X\nATTENDEE;CN=\"Berg; Anna: chief\";ROLE=CHAIR:mailto:anna@example.org\nEND:X\n";
        let mut problems = Problems::default();
        let read = components(file, &mut problems);
        let line = read[0].line("ATTENDEE").unwrap();
        assert_eq!(line.parameter("CN"), Some("Berg; Anna: chief"));
        assert_eq!(line.parameter("ROLE"), Some("CHAIR"));
        assert_eq!(line.value, "mailto:anna@example.org");
        assert_eq!(
            &file[line.place.clone()],
            file.lines().nth(1).unwrap().to_owned() + "\n"
        );
    }

    #[test]
    fn what_is_broken_costs_itself_and_is_named_with_its_line() {
        for (file, expected) in [
            (
                "BEGIN:A\nnonsense\nEND:A\n",
                (1, "line 2: nonsense is no line NAME:VALUE"),
            ),
            (
                "BEGIN:A\nX;Y:1\nEND:A\n",
                (1, "line 2: X;Y:1 is no line NAME:VALUE"),
            ),
            ("X:1\n", (0, "line 1: X stands outside of BEGIN and END")),
            ("END:A\n", (0, "line 1: END:A ends nothing")),
            (
                "BEGIN:A\nBEGIN:B\nEND:A\n",
                (1, "line 2: B has no end; it is left out"),
            ),
            (
                "BEGIN:VCALENDAR\nBEGIN:VEVENT\nX:1\n",
                (1, "line 1: VCALENDAR has no end"),
            ),
        ] {
            let mut problems = Problems::default();
            let read = components(file, &mut problems);
            let problems: Vec<String> = problems.list.iter().map(Problem::to_string).collect();
            assert_eq!(read.len(), expected.0, "{file}");
            assert_eq!(problems[0], expected.1, "{file}");
        }
        let deep = "BEGIN:A\n".repeat(2_000) + &"END:A\n".repeat(2_000);
        let mut problems = Problems::default();
        components(&deep, &mut problems);
        assert!(!problems.list.is_empty());
        let long = format!("BEGIN:A\nX:{}\nEND:A\n", "y".repeat(LINE_BYTES_MAX));
        let mut problems = Problems::default();
        assert_eq!(components(&long, &mut problems)[0].lines.len(), 0);
        assert_eq!(
            problems.list[0].to_string(),
            "line 2: the line is longer than 65536 bytes"
        );
    }
}
