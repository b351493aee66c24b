//! The demo model's knowledge beside the conversation: its declared tools, and the facts about them and about today in the system
//! instruction. Knows the program's form of the instruction, and no protocol.

use crate::declaration::Declaration;
use jiff::Zoned;
use jiff::civil::{Date, Time};
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// The most bytes of an instruction that are read; Windlass writes a tenth of it.
const INSTRUCTION_BYTES_MAX: usize = 1 << 20;
/// The most examples of guides that are read.
const EXAMPLES_MAX: usize = 1_024;
/// The most characters of an example sentence.
const EXAMPLE_CHARACTERS_MAX: usize = 200;
/// The most bytes of an example's arguments.
const ARGUMENTS_BYTES_MAX: usize = 16 << 10;
/// The longest name of a zone that there is has 38.
const ZONE_BYTES_MAX: usize = 64;

/// The zones of the data that is built in: no file of the machine is read.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// A sentence of a user that means a tool, from a guide.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Example {
    pub(super) tool: String,
    pub(super) said: String,
    /// The arguments that the guide gives below it.
    pub(super) arguments: Map<String, Value>,
}

/// The surroundings of a conversation.
#[derive(Clone, Debug)]
pub struct World<'a> {
    pub(super) tools: &'a [Declaration],
    /// The user's local time. `None` where the instruction does not give it: the demo model has no clock.
    pub(super) now: Option<Zoned>,
    pub(super) examples: Vec<Example>,
}

impl<'a> World<'a> {
    /// Reads the system instruction that came with these tools.
    pub fn read(instruction: &str, tools: &'a [Declaration]) -> Self {
        let end = instruction.floor_char_boundary(INSTRUCTION_BYTES_MAX);
        let instruction = &instruction[..end];
        let mut examples = examples_of_instruction(instruction, tools);
        for tool in tools {
            let room = EXAMPLES_MAX.saturating_sub(examples.len());
            let said = quoted(&tool.description).take(room);
            examples.extend(said.map(|said| Example {
                tool: tool.name.clone(),
                said: said.to_owned(),
                arguments: Map::new(),
            }));
        }
        Self {
            tools,
            now: instruction.lines().find_map(moment),
            examples,
        }
    }

    pub(super) fn tool(&self, name: &str) -> Option<&'a Declaration> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.tool(name).is_some()
    }
}

/// `It is Friday, 20 November 2026, 18:25 (Europe/Oslo, UTC+01:00; the user's time zone).`
fn moment(line: &str) -> Option<Zoned> {
    let line = line.strip_prefix("It is ")?;
    let (sentence, zone) = line.split_once('(')?;
    let mut parts = sentence.splitn(3, ", ").skip(1);
    let date = day(parts.next()?)?;
    let time = parts.next()?.trim();
    let (hour, minute) = time.split_once(':')?;
    let time = Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()?;
    let zone = zone.split([';', ')']).next()?;
    let zone = zone.split(", ").find_map(time_zone)?;
    date.to_datetime(time).to_zoned(zone).ok()
}

/// `20 November 2026`
fn day(text: &str) -> Option<Date> {
    let mut words = text.split(' ');
    let day = words.next()?.parse().ok()?;
    let month = month(&words.next()?.to_lowercase())?;
    let year = words.next()?.parse().ok()?;
    Date::new(year, month, day).ok()
}

/// The number of a month, from its name or at least its first three letters, in lower case.
pub(super) fn month(name: &str) -> Option<i8> {
    let is_meant = |month: &str| name.len() >= 3 && month.starts_with(name);
    let index = MONTHS.iter().position(|month| is_meant(month))?;
    i8::try_from(index + 1).ok()
}

/// An IANA name, or `UTC+01:00`.
pub(super) fn time_zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name.len() > ZONE_BYTES_MAX {
        return None;
    }
    let Some(offset) = name.strip_prefix("UTC") else {
        return ZONES.get(name).ok();
    };
    if offset.is_empty() {
        return Some(TimeZone::UTC);
    }
    let is_west = offset.starts_with(['-', '−']);
    let (hours, minutes) = offset.trim_start_matches(['+', '-', '−']).split_once(':')?;
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = i32::from(hours) * 3_600 + i32::from(minutes) * 60;
    let seconds = if is_west { -seconds } else { seconds };
    Some(Offset::from_seconds(seconds).ok()?.to_time_zone())
}

/// The zone of a place, such as `tokyo` or `new york`, by the IANA names.
pub(super) fn zone_of_place(place: &str) -> Option<String> {
    let place = place.trim().replace(' ', "_");
    if place.is_empty() || place.len() > ZONE_BYTES_MAX {
        return None;
    }
    let is_meant = |name: &String| {
        let last = name.rsplit('/').next().unwrap_or_default();
        name.contains('/') && !name.starts_with("Etc/") && last.eq_ignore_ascii_case(&place)
            || name.eq_ignore_ascii_case(&place)
    };
    let names = ZONES.available().map(|name| name.to_string());
    names.filter(is_meant).min()
}

/// The examples in the instruction. A section's heading is the tool's id; elsewhere a sentence may name a tool.
fn examples_of_instruction(instruction: &str, tools: &[Declaration]) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut section: Option<&str> = None;
    let mut fence: Option<String> = None;
    for line in instruction.lines() {
        if line.trim_start().starts_with("```") {
            if let Some(text) = fence.take() {
                // Arguments stand below the user's sentence.
                let last = examples.last_mut();
                if let Some(example) = last.filter(|last| Some(last.tool.as_str()) == section)
                    && let Ok(arguments) = serde_json::from_str(&text)
                    && example.arguments.is_empty()
                {
                    example.arguments = arguments;
                }
            } else {
                fence = Some(String::new());
            }
            continue;
        }
        if let Some(text) = &mut fence {
            if text.len() + line.len() <= ARGUMENTS_BYTES_MAX {
                text.push_str(line);
                text.push('\n');
            }
            continue;
        }
        if let Some(heading) = heading(line) {
            let named = tools.iter().find(|tool| tool.name == heading);
            let is_beneath = line.starts_with("###");
            section = named
                .map(|tool| tool.name.as_str())
                .or(section.filter(|_| is_beneath));
            continue;
        }
        let tool = named(line, tools).or_else(|| section.filter(|_| is_example(line)));
        let Some(tool) = tool else { continue };
        let room = EXAMPLES_MAX.saturating_sub(examples.len());
        examples.extend(quoted(line).take(room).map(|said| Example {
            tool: tool.to_owned(),
            said: said.to_owned(),
            arguments: Map::new(),
        }));
    }
    examples
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    (text.len() < line.len()).then(|| text.trim())
}

/// The only declared tool that a sentence names.
fn named<'t>(line: &str, tools: &'t [Declaration]) -> Option<&'t str> {
    if !line.contains(['"', '“']) {
        return None;
    }
    let is_named = |tool: &&Declaration| {
        let is_inner = |sign: char| sign.is_alphanumeric() || "_-.".contains(sign);
        !tool.name.is_empty()
            && line.match_indices(tool.name.as_str()).any(|(start, name)| {
                let before = line[..start].chars().next_back();
                let mut after = line[start + name.len()..].chars();
                let (next, behind) = (after.next(), after.next());
                let goes_on = next.is_some_and(|next| {
                    is_inner(next) && (next != '.' || behind.is_some_and(char::is_alphanumeric))
                });
                !before.is_some_and(is_inner) && !goes_on
            })
    };
    let mut named = tools.iter().filter(is_named);
    let tool = named.next()?;
    named.next().is_none().then_some(tool.name.as_str())
}

/// Whether a line has a user's sentence: in bold, or after a word that announces it. Other quotations are values and mistakes.
fn is_example(line: &str) -> bool {
    const WORDS: [&str; 8] = [
        "ask", "asks", "asked", "say", "says", "said", "request", "example",
    ];
    let line = line.trim();
    let mut words = line.split(|sign: char| !sign.is_alphabetic());
    line.starts_with("**") || words.any(|word| WORDS.contains(&word.to_lowercase().as_str()))
}

/// The sentences of two words and more in quotation marks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    quotations(text).filter(|said| {
        said.split_whitespace().nth(1).is_some() && said.chars().count() <= EXAMPLE_CHARACTERS_MAX
    })
}

/// The texts in double quotation marks.
pub(super) fn quotations(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(['"', '“'])?;
        let mark = rest[start..].chars().next()?;
        let behind = &rest[start + mark.len_utf8()..];
        let end = behind.find(['"', '”'])?;
        let (inner, after) = behind.split_at(end);
        let mark = after.chars().next()?;
        rest = &after[mark.len_utf8()..];
        Some(inner.trim())
    })
    .filter(|inner| !inner.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_instruction_says_what_time_it_is_and_where() {
        for (line, expected) in [
            (
                "It is Friday, 20 November 2026, 18:25 (Europe/Oslo, UTC+01:00; the user's time zone).",
                "2026-11-20T18:25:00+01:00[Europe/Oslo]",
            ),
            (
                "It is Friday, 3 July 2026, 08:05 (UTC; the server's time zone; the user's is not known).",
                "2026-07-03T08:05:00+00:00[UTC]",
            ),
            (
                "It is Friday, 3 July 2026, 08:05 (UTC-03:30; the server's time zone).",
                "2026-07-03T08:05:00-03:30[-03:30]",
            ),
        ] {
            let instruction = format!("You help.\n\n# Today\n\n{line}\n\n# Available Tools (v1)\n");
            let now = World::read(&instruction, &[]).now;
            assert_eq!(now.unwrap().to_string(), expected, "{line}");
        }
        for line in [
            "It is late.",
            "It is Friday, 31 February 2026, 18:25 (UTC).",
            "It is Friday, 20 November 2026, 18:25 (Middle/Earth).",
            "It is Friday, 20 November 2026, 18:25 (",
            "It is Friday, 20 November 2026, 18:25 (UTC+999999999999:00).",
            "It is Friday, 20 November 2026, 18:25 (UTC+99:00).",
            "It is Friday, 20 November 2026, 99:99 (UTC).",
            "",
        ] {
            assert_eq!(World::read(line, &[]).now, None, "{line}");
        }
    }

    #[test]
    fn examples_are_read_from_guides_descriptions_and_sentences() {
        let tool = |name: &str, description: &str| Declaration {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: Value::Null,
            json_schema: false,
            blocking: true,
        };
        let tools = [
            tool(
                "lookup_order",
                "Finds orders, as in “What about order B-2?”.",
            ),
            tool("lookup", ""),
        ];
        let instruction = "Call lookup_order when the user asks \"Where is order A-1001?\".\n\
            # Available Tools (v1)\n## lookup\nLooks up.\n### Examples\n**\"What is a keel?\"**\n```json\n{\"word\": \"keel\"}\n```\n\
            ### Watch Out\n- Numbers such as \"about 30\" are texts.\n# How you work\n**\"Not of a tool\"**";
        let examples = World::read(instruction, &tools).examples;
        let shown: Vec<(&str, &str, Value)> = examples
            .iter()
            .map(|example| {
                let arguments = Value::Object(example.arguments.clone());
                (example.tool.as_str(), example.said.as_str(), arguments)
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("lookup_order", "Where is order A-1001?", json!({})),
                ("lookup", "What is a keel?", json!({"word": "keel"})),
                ("lookup_order", "What about order B-2?", json!({})),
            ]
        );
    }
}
