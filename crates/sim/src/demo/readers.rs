//! Reads the arguments of the built-in tools from a user's words: one function for each parameter. Knows no phrase that requests a tool,
//! and nothing of a call's outcome.

use super::memory::Slot;
use super::phrases;
use super::skills::{Heard, Known};
use super::times::{self, MINUTES_USUAL, written};
use super::world::{self, quotations};
use jiff::Zoned;
use serde_json::{Map, Value, json};

/// The days that are searched without a known day.
const DAYS_USUAL: i64 = 7;
const ATTENDEES_MAX: usize = 50;
const TITLE_CHARACTERS_MAX: usize = 200;
const REASON_CHARACTERS_MAX: usize = 300;
const ITEMS_MAX: usize = 200;

/// A choice among things that were named in this order.
pub(super) fn picked(text: &str, count: usize) -> Option<usize> {
    const NOUNS: [&str; 22] = [
        "one",
        "slot",
        "option",
        "time",
        "draft",
        "prompt",
        "event",
        "meeting",
        "appointment",
        "picture",
        "please",
        "works",
        "is",
        "for",
        "with",
        "and",
        "at",
        "would",
        "of",
        "on",
        "instead",
        "looks",
    ];
    let words = phrases::words(text);
    let word = |index: usize| words.get(index).map(String::as_str);
    words.iter().enumerate().find_map(|(index, name)| {
        let last = count.checked_sub(1)?;
        let place = match name.as_str() {
            "first" | "1st" => 0,
            "second" | "2nd" => 1,
            "third" | "3rd" => 2,
            "fourth" | "4th" => 3,
            "fifth" | "5th" => 4,
            "last" => last,
            "number" | "option" | "slot" | "draft" => {
                let number = times::number(word(index + 1)?)?;
                return (number >= 1.0 && number <= count as f64).then(|| number as usize - 1);
            }
            _ => return None,
        };
        let is_choice = word(index + 1).is_none_or(|next| NOUNS.contains(&next));
        (is_choice && place <= last).then_some(place)
    })
}

pub(super) fn quotation(text: &str) -> Option<&str> {
    quotations(text).next()
}

/// The e-mail addresses in a text.
pub(super) fn emails(text: &str) -> impl Iterator<Item = Value> + '_ {
    let words = text.split(|sign: char| sign.is_whitespace() || "<>()[]\"“”,;:".contains(sign));
    let words = words.map(|word| word.trim_matches(|sign: char| !sign.is_alphanumeric()));
    let is_address = |word: &&str| {
        let parts = word.split_once('@');
        parts.is_some_and(|(name, host)| {
            !name.is_empty() && host.contains('.') && !host.contains('@') && word.len() <= 254
        })
    };
    words.filter(is_address).map(Value::from)
}

// The calendar.

/// The meant slot: by its place in the list, or by an hour within it.
fn slot(heard: &Heard<'_>, known: &Known<'_>) -> Option<Slot> {
    let offers = &known.memory.offers;
    let by_place = heard.find(|text| picked(text, offers.len()));
    by_place.and_then(|index| offers.get(index).cloned())
}

pub(super) fn start_time(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    if let Some(slot) = slot(heard, known) {
        let within = times::parsed(&slot.start, known.now);
        let said = within.filter(|_| heard.times.says_hour());
        let said = said.and_then(|start| heard.times.moved(&start));
        return Some(said.map_or(slot.start, |start| written(&start)).into());
    }
    // An hour without a day belongs to an offered slot.
    let hour = heard.times.says_hour() && !heard.times.says_day();
    let offered = known
        .memory
        .offers
        .iter()
        .filter(|_| hour)
        .find_map(|slot| {
            let start = times::parsed(&slot.start, known.now)?;
            let end = times::parsed(&slot.end, known.now)?;
            heard
                .times
                .moved(&start)
                .filter(|said| start <= *said && *said < end)
        });
    let start = offered.or_else(|| heard.times.start(known.now))?;
    Some(written(&start).into())
}

pub(super) fn end_time(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let start = known.arguments.get("start_time")?.as_str()?;
    let start = times::parsed(start, known.now)?;
    let said = heard.times.end(&start);
    let usual = || {
        let end = times::later(&start, MINUTES_USUAL)?;
        let slot = slot(heard, known).and_then(|slot| times::parsed(&slot.end, known.now));
        Some(
            slot.filter(|slot| *slot > start && *slot < end)
                .unwrap_or(end),
        )
    };
    Some(written(&said.or_else(usual)?).into())
}

pub(super) fn attendees(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let mut found: Vec<Value> = Vec::new();
    for message in heard.messages {
        let plain = phrases::words(message);
        let addresses: Vec<Value> = emails(message).collect();
        if !addresses.is_empty() && plain.iter().any(|word| word == "instead") {
            found.clear();
        }
        for address in addresses {
            if !found.contains(&address) && found.len() < ATTENDEES_MAX {
                found.push(address);
            }
        }
    }
    (!found.is_empty()).then(|| found.into())
}

/// The title in quotation marks, after `called`, or made of the kind of event and its guests.
pub(super) fn title(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let cut = |text: &str| -> Value {
        text.chars()
            .take(TITLE_CHARACTERS_MAX)
            .collect::<String>()
            .into()
    };
    if let Some(said) = heard.find(|text| quotation(text).map(&cut)) {
        return Some(said);
    }
    let named = |text: &str| {
        let words = ["called ", "titled ", "named "].iter();
        let rest = words
            .filter_map(|word| text.split_once(word))
            .map(|(_, rest)| rest)
            .next()?;
        let said: Vec<&str> = rest
            .split_whitespace()
            .take_while(|word| !ends_name(word))
            .take(8)
            .collect();
        (!said.is_empty()).then(|| said.join(" ").trim_matches(['.', ',', '!', '?']).to_owned())
    };
    if let Some(said) = heard.find(named) {
        return Some(cut(&said));
    }
    let first = heard.messages.first()?;
    const KINDS: [&str; 16] = [
        "meeting",
        "appointment",
        "call",
        "lunch",
        "dinner",
        "breakfast",
        "coffee",
        "workshop",
        "interview",
        "review",
        "session",
        "visit",
        "standup",
        "training",
        "event",
        "booking",
    ];
    let words = phrases::words(first);
    let kind = words.iter().find(|word| KINDS.contains(&word.as_str()));
    let mut title = kind.map_or_else(|| "Meeting".to_owned(), |kind| capital(kind));
    // In “the project review” the word before the noun specifies it.
    let people = first
        .split_once(" with ")
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let people: Vec<&str> = people
        .split_whitespace()
        .map(|word| word.trim_end_matches([',', '.', '!', '?']))
        .take_while(|word| word.starts_with(char::is_uppercase) || ["and", "the"].contains(word))
        .take_while(|word| !ends_name(word) || *word == "and")
        .take(6)
        .collect();
    let people = people.join(" ");
    let people = people.trim_end_matches(" and").trim();
    if people.starts_with(char::is_uppercase) {
        title = format!("{title} with {people}");
    }
    if let Some((_, about)) = first.split_once(" about ") {
        let about: Vec<&str> = about
            .split_whitespace()
            .take_while(|word| !ends_name(word))
            .take(8)
            .collect();
        if !about.is_empty() {
            let about = about.join(" ");
            title = format!("{title} about {}", about.trim_matches(['.', ',', '!', '?']));
        }
    }
    Some(cut(&title))
}

/// Whether a word after a name does not belong to it.
fn ends_name(word: &str) -> bool {
    const WORDS: [&str; 12] = [
        "on", "at", "with", "for", "from", "and", "in", "next", "this", "about", "please", "invite",
    ];
    let plain = word
        .trim_matches(|sign: char| !sign.is_alphanumeric())
        .to_lowercase();
    WORDS.contains(&plain.as_str()) || times::is_of_time(&plain) || word.contains('@')
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

pub(super) fn conference(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let wants = heard.says(&["zoom", "video", "online", "remote", "remotely", "link"]);
    let refuses = heard.says(&["person", "office", "onsite"])
        || heard.messages.iter().any(|text| {
            let plain = phrases::words(text).join(" ");
            [
                "no link",
                "without a link",
                "no zoom",
                "without zoom",
                "no video",
                "without video",
            ]
            .iter()
            .any(|no| plain.contains(no))
        });
    (wants || refuses).then(|| json!(!refuses))
}

fn free_range(heard: &Heard<'_>, known: &Known<'_>) -> Option<(Zoned, Zoned)> {
    let now = known.now;
    let said = heard
        .times
        .range(now)
        .or_else(|| times::days_from(now?, DAYS_USUAL))?;
    // Past time is not free.
    let (start, end) = said;
    let (soonest, _) = now
        .and_then(|now| times::days_from(now, 1))
        .map_or((start.clone(), end.clone()), |soon| soon);
    Some((
        if soonest > start && soonest < end {
            soonest
        } else {
            start
        },
        end,
    ))
}

pub(super) fn free_from(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    free_range(heard, known).map(|(start, _)| written(&start).into())
}

pub(super) fn free_until(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    free_range(heard, known).map(|(_, end)| written(&end).into())
}

fn listed_range(heard: &Heard<'_>, known: &Known<'_>) -> Option<(Zoned, Zoned)> {
    let said = heard.times.range(known.now);
    said.or_else(|| times::days_from(known.now?, DAYS_USUAL))
}

pub(super) fn listed_from(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    listed_range(heard, known).map(|(start, _)| written(&start).into())
}

pub(super) fn listed_until(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    listed_range(heard, known).map(|(_, end)| written(&end).into())
}

pub(super) fn calendars(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let named = ["team", "personal"].iter().find(|name| {
        let phrase = format!("{name} calendar");
        heard
            .messages
            .iter()
            .any(|text| phrases::words(text).join(" ").contains(&phrase))
    });
    named.map(|name| json!([name]))
}

pub(super) fn whole_series(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let is_answer = |text: &str| heard.asked == Some("whole_series") && text == heard.newest();
    heard.find(|text| {
        let words = phrases::words(text);
        let says = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        match (
            says(&["series", "all", "every", "whole"]),
            says(&["only", "just", "occurrence", "once", "single"]),
        ) {
            (_, true) => Some(json!(false)),
            (true, false) => Some(json!(true)),
            (false, false) if is_answer(text) && says(&["this", "one"]) => Some(json!(false)),
            (false, false) => None,
        }
    })
}

// Contacts and lists.

/// The text after a colon or a line's end, in quotation marks, or the whole message if it holds contacts.
pub(super) fn contact_text(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let text = heard.newest().trim();
    let holds = |text: &str| {
        text.contains('@')
            || text.chars().any(|sign| sign.is_ascii_digit())
            || text.contains("http")
    };
    let behind = [text.split_once(':'), text.split_once('\n')];
    let behind = behind.into_iter().flatten().map(|(_, rest)| rest.trim());
    let found = behind.chain(quotation(text)).find(|text| holds(text));
    let found = found.or_else(|| (heard.asked.is_some() || holds(text)).then_some(text));
    found.filter(|text| !text.is_empty()).map(Value::from)
}

pub(super) fn region(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    heard.find(|text| {
        let mut words = text.split(|sign: char| !sign.is_alphanumeric());
        words.find(|word| ["region", "country"].contains(&word.to_lowercase().as_str()))?;
        let code = words.next()?;
        let is_code = code.len() == 2 && code.bytes().all(|letter| letter.is_ascii_uppercase());
        is_code.then(|| code.into())
    })
}

/// Words that name a field, and its better end.
const SUPERLATIVES: &[(&str, &str, &str)] = &[
    ("cheapest", "price", "lowest"),
    ("dearest", "price", "highest"),
    ("nearest", "distance", "lowest"),
    ("fastest", "time", "lowest"),
    ("shortest", "length", "lowest"),
    ("longest", "length", "highest"),
    ("biggest", "size", "highest"),
    ("smallest", "size", "lowest"),
    ("best", "score", "highest"),
    ("lowest", "value", "lowest"),
    ("highest", "value", "highest"),
];

pub(super) fn criteria(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    heard.find(|text| {
        let text = text.split(':').next().unwrap_or_default();
        let words = phrases::words(text);
        let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        let superlative = SUPERLATIVES.iter().find(|(word, _, _)| has(&[word]));
        let is_low = has(&[
            "lowest",
            "ascending",
            "cheapest",
            "smallest",
            "nearest",
            "earliest",
            "increasing",
        ]);
        let by = words
            .iter()
            .position(|word| word == "by")
            .and_then(|at| words.get(at + 1));
        match (by, superlative) {
            (Some(field), _) => {
                let is_price = ["price", "cost", "distance", "duration"].contains(&field.as_str());
                let is_high = has(&[
                    "highest",
                    "descending",
                    "decreasing",
                    "biggest",
                    "best",
                    "most",
                ]);
                let best = if is_low || is_price && !is_high {
                    "lowest"
                } else {
                    "highest"
                };
                Some(json!([{"field": field, "best": best}]))
            }
            (None, Some((_, field, best))) => Some(json!([{"field": field, "best": best}])),
            (None, None) => None,
        }
    })
}

/// A list in JSON, a list of names and numbers after a colon, or a tool's last list.
pub(super) fn items(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let field = known.arguments.get("criteria")?[0]["field"].as_str()?;
    let read = |text: &str| {
        if let Some(start) = text.find('[')
            && let Some(end) = text.rfind(']')
            && let Some(json) = text.get(start..=end)
            && let Ok(Value::Array(list)) = serde_json::from_str::<Value>(json)
            && list.iter().all(Value::is_object)
            && (1..=ITEMS_MAX).contains(&list.len())
        {
            return Some(Value::Array(list));
        }
        let listed = text.split_once(':').map(|(_, listed)| listed);
        let listed = listed.or(heard.asked.is_some().then_some(text))?;
        let parts = listed
            .split([',', ';', '\n'])
            .flat_map(|part| part.split(" and "));
        let named = parts.filter_map(|part| named_number(part, field));
        let list: Vec<Value> = named.take(ITEMS_MAX).collect();
        (!list.is_empty()).then_some(Value::Array(list))
    };
    let remembered = || (!known.memory.list.is_empty()).then(|| known.memory.list.clone().into());
    heard.find(read).or_else(remembered)
}

/// `green tea 30`, `coffee: 20`
fn named_number(part: &str, field: &str) -> Option<Value> {
    let part = part.trim().trim_end_matches(['.', '?', '!']);
    let (name, number) = part.rsplit_once([' ', '=', ':'])?;
    let number: f64 = number
        .trim()
        .trim_matches(|sign: char| !sign.is_ascii_digit() && sign != '-')
        .parse()
        .ok()?;
    let name = name.trim().trim_end_matches([':', '=', '-']).trim();
    let number = match number.fract() == 0.0 && number.abs() < 1e15 {
        true => json!(number as i64),
        false => json!(number),
    };
    let mut item = Map::new();
    item.insert("name".to_owned(), name.into());
    if field != "name" {
        item.insert(field.to_owned(), number);
    }
    (!name.is_empty()).then_some(Value::Object(item))
}

/// The number after a word, as in `the last three`.
pub(super) fn counted_behind(heard: &Heard<'_>, word: &str) -> Option<i64> {
    heard.find(|text| {
        let words = phrases::words(text);
        let at = words.iter().position(|other| other == word)?;
        let number = times::number(words.get(at + 1)?)?;
        (number.fract() == 0.0 && (1.0..=1_000.0).contains(&number)).then_some(number as i64)
    })
}

// Dates, the conversation, people.

pub(super) fn datetime(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    if heard.times.says_hour()
        && let Some(start) = heard.times.start(known.now)
    {
        return Some(written(&start).into());
    }
    if let Some(day) = heard.times.first_day() {
        return Some(day.to_string().into());
    }
    let asks_now = heard.find(|text| {
        let plain = phrases::words(text).join(" ");
        let asks = [
            "is it",
            "time in",
            "time now",
            "the time",
            "date today",
            "right now",
        ];
        asks.iter().any(|part| plain.contains(part)).then_some(())
    });
    asks_now.map(|()| "now".into())
}

pub(super) fn date_format(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let plain = phrases::words(heard.messages.first()?).join(" ");
    let has = |parts: &[&str]| parts.iter().any(|part| plain.contains(part));
    let format = if has(&["how long", "how many days", " until ", " ago"]) {
        "relative"
    } else if has(&[" iso"]) {
        "iso"
    } else if has(&["short"]) {
        "short"
    } else if plain.starts_with("what time") {
        "time"
    } else if has(&["what date", "what day", "weekday"]) {
        "date"
    } else {
        return None;
    };
    Some(format.into())
}

/// The zone of a place after `in` or `to`, or an IANA name.
pub(super) fn zone(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    heard.find(|text| {
        let words: Vec<&str> = text
            .split_whitespace()
            .take(60)
            .map(|word| word.trim_matches(|sign: char| !sign.is_alphanumeric() && sign != '/'))
            .collect();
        let named = words
            .iter()
            .find(|word| word.contains('/') && world::time_zone(word).is_some());
        if let Some(name) = named {
            return Some((*name).into());
        }
        words.iter().enumerate().find_map(|(index, word)| {
            if !["in", "to"].contains(&word.to_lowercase().as_str()) {
                return None;
            }
            (1..=3).rev().find_map(|length| {
                let place = words.get(index + 1..index + 1 + length)?.join(" ");
                world::zone_of_place(&place).map(Value::from)
            })
        })
    })
}

pub(super) fn context_fields(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    const FIELDS: [(&str, &[&str]); 4] = [
        (
            "user",
            &[
                "who", "me", "user", "signed", "logged", "role", "roles", "rights", "name",
            ],
        ),
        ("session", &["session", "conversation", "mode"]),
        ("page", &["page", "site", "website"]),
        ("time", &["time", "timezone", "zone", "clock"]),
    ];
    let fields: Vec<&str> = FIELDS
        .iter()
        .filter(|(_, words)| heard.says(words))
        .map(|(field, _)| *field)
        .collect();
    // With `know` the user asks for more than these fields.
    (!fields.is_empty() && !heard.says(&["know"])).then(|| fields.into())
}

pub(super) fn call_id(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    heard.find(|text| {
        let mut words = text.split_whitespace();
        words.find(|word| word.eq_ignore_ascii_case("call"))?;
        let id = words
            .next()?
            .trim_matches(|sign: char| !sign.is_alphanumeric());
        let is_id = id.chars().any(|sign| sign.is_ascii_digit()) && id.len() <= 64;
        is_id.then(|| id.into())
    })
}

pub(super) fn named_tool(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let text = heard.newest();
    let named = known
        .tools
        .iter()
        .find(|tool| !tool.is_empty() && text.contains(tool.as_str()));
    named.map(|tool| tool.as_str().into())
}

pub(super) fn reason(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let said = heard.newest().trim();
    let why = [" because ", ": ", " about "]
        .iter()
        .find_map(|part| said.split_once(part));
    let why = why.map(|(_, why)| why.trim()).filter(|why| !why.is_empty());
    let reason = match why {
        Some(why) => format!("The user asks for a person: {why}"),
        None => "The user asks for a person.".to_owned(),
    };
    Some(
        reason
            .chars()
            .take(REASON_CHARACTERS_MAX)
            .collect::<String>()
            .into(),
    )
}

pub(super) fn summary(_: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let said: Vec<String> = known
        .memory
        .said
        .iter()
        .map(|text| format!("“{text}”"))
        .collect();
    Some(format!("The user said last: {}", said.join(" ")).into())
}

pub(super) fn urgency(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    if heard.says(&[
        "urgent",
        "urgently",
        "emergency",
        "immediately",
        "asap",
        "danger",
    ]) {
        return Some("high".into());
    }
    heard.says(&["hurry", "whenever"]).then(|| "low".into())
}

// Pictures and the web.

/// The text after the words that request a picture.
pub(super) fn subject(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    heard.find(shown_thing).or_else(|| {
        let said = heard.newest().trim();
        (heard.asked.is_some() && !said.is_empty()).then(|| said.into())
    })
}

fn shown_thing(text: &str) -> Option<Value> {
    if let Some(said) = quotation(text) {
        return Some(said.into());
    }
    let end = |rest: &str| -> Option<Value> {
        let rest = rest
            .trim()
            .trim_end_matches(['.', '!', '?'])
            .trim_end_matches(", please")
            .trim_end_matches(" please");
        (!rest.is_empty()).then(|| rest.into())
    };
    // A logo is part of the subject; the word picture is not.
    let kinds = ["a logo ", "an icon ", "a poster "];
    if let Some(at) = kinds.iter().find_map(|kind| text.find(kind)) {
        return end(&text[at..]);
    }
    let parts = [" of ", " showing ", " for ", " about ", ": "];
    if let Some((_, rest)) = parts.iter().find_map(|part| text.split_once(part)) {
        return end(rest);
    }
    // `Draw me a lighthouse at night`
    let verbs = ["draw", "paint", "sketch", "illustrate"];
    let mut words = text.split_whitespace();
    words.find(|word| verbs.contains(&word.to_lowercase().as_str()))?;
    let rest: Vec<&str> = words
        .skip_while(|word| ["me", "us", "please"].contains(&word.to_lowercase().as_str()))
        .collect();
    let plain = phrases::words(&rest.join(" "));
    let is_empty = phrases::begins(
        &plain,
        &[
            "a|an|the|some PICTURE $",
            "PICTURE $",
            "something",
            "it|that|this $",
        ],
    );
    if is_empty { None } else { end(&rest.join(" ")) }
}

pub(super) fn prompt(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let drafts = &known.memory.drafts;
    let picked = heard.find(|text| picked(text, drafts.len()));
    match picked.and_then(|index| drafts.get(index)) {
        Some(draft) => Some(draft.as_str().into()),
        None => subject(heard, known),
    }
}

pub(super) fn style(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let said = heard.find(|text| Some(text.split_once("in the style of ")?.1.trim().to_owned()))?;
    let said = said.trim_end_matches(['.', '!', '?']);
    (!said.is_empty()).then(|| said.chars().take(200).collect::<String>().into())
}

pub(super) fn aspect_ratio(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let ratios = ["16:9", "9:16", "4:3", "3:4", "1:1"];
    let named = heard.find(|text| ratios.iter().find(|ratio| text.contains(**ratio)));
    let meant = || match () {
        () if heard.says(&["wide", "landscape", "panorama"]) => Some(&"16:9"),
        () if heard.says(&["square"]) => Some(&"1:1"),
        () if heard.says(&["portrait", "tall", "upright"]) => Some(&"3:4"),
        () => None,
    };
    named.or_else(meant).map(|ratio| (*ratio).into())
}

pub(super) fn picture_count(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    heard.find(|text| {
        let words = phrases::words(text);
        let is_picture =
            |word: &String| ["pictures", "images", "versions", "drawings"].contains(&word.as_str());
        let at = words.iter().position(is_picture)?;
        let number = words[..at]
            .iter()
            .rev()
            .take(2)
            .find_map(|word| times::number(word))?;
        (number >= 2.0).then(|| json!(number as i64))
    })
}

/// An address or an id in the words, or the last picture.
pub(super) fn image_url(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let named = heard.find(|text| {
        let words = text
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '“', '”', ',', ';', '!', '?', '(', ')', '.']));
        let is_id = |word: &str| {
            ["photo:", "diagram:"]
                .iter()
                .any(|kind| word.starts_with(kind) && word.len() > kind.len())
        };
        let mut named = words.filter(|word| word.starts_with("https://") || is_id(word));
        named.next().map(Value::from)
    });
    named.or_else(|| known.memory.picture.as_deref().map(Value::from))
}

/// The search terms, without the words that request the search.
pub(super) fn query(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    const ASKING: [&str; 22] = [
        "please", "can", "could", "you", "search", "look", "check", "browse", "find", "google",
        "the", "web", "internet", "online", "up", "out", "on", "in", "for", "about", "me", "ask",
    ];
    let said = heard.find(|text| {
        if let Some(said) = quotation(text) {
            return Some(said.to_owned());
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let plain = |word: &str| {
            word.trim_matches(|sign: char| !sign.is_alphanumeric())
                .to_lowercase()
        };
        let start = words
            .iter()
            .position(|word| !ASKING.contains(&plain(word).as_str()))?;
        let end = words.iter().rposition(|word| {
            !["web", "internet", "online", "the", "on", "please"].contains(&plain(word).as_str())
        })?;
        let said = words.get(start..=end)?.join(" ");
        let said = said.trim_end_matches(['.', '!', '?', ',']).to_owned();
        (!said.is_empty()).then_some(said)
    })?;
    Some(said.chars().take(200).collect::<String>().into())
}
