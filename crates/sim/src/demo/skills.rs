//! When the built-in tools are meant, and where their arguments stand in the words: one table, a row for each tool. Knows the tools'
//! parameters, nothing of what comes of a call.

use super::memory::{Memory, Slot};
use super::phrases;
use super::times::{self, MINUTES_USUAL, Times, written};
use super::world::{self, quotations};
use jiff::Zoned;
use serde_json::{Map, Value, json};

/// Days that are looked at where nobody says which.
const DAYS_USUAL: i64 = 7;
const ATTENDEES_MAX: usize = 50;
const TITLE_CHARACTERS_MAX: usize = 200;
const REASON_CHARACTERS_MAX: usize = 300;
const ITEMS_MAX: usize = 200;

/// What the user has said of one matter.
pub(super) struct Heard<'h> {
    /// The newest at the end; there is one at least.
    pub(super) messages: &'h [String],
    pub(super) times: Times,
    /// The parameter that the last message answers, where the user was asked.
    pub(super) asked: Option<&'h str>,
}

impl Heard<'_> {
    pub(super) fn newest(&self) -> &str {
        self.messages.last().map_or("", String::as_str)
    }

    /// What the newest message has that has it.
    fn find<T>(&self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.messages.iter().rev().find_map(|message| read(message))
    }

    fn says(&self, words: &[&str]) -> bool {
        self.messages.iter().any(|message| {
            let plain = phrases::words(message);
            plain.iter().any(|word| words.contains(&word.as_str()))
        })
    }
}

/// What else arguments are made of.
pub(super) struct Known<'k> {
    pub(super) now: Option<&'k Zoned>,
    pub(super) memory: &'k Memory,
    /// Those that were read before this one.
    pub(super) arguments: &'k Map<String, Value>,
    pub(super) tools: &'k [String],
}

pub(super) type Reader = fn(&Heard<'_>, &Known<'_>) -> Option<Value>;

/// One parameter of a tool.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) read: Reader,
    /// What the user is asked to tell where the words do not have it. Others are left out.
    pub(super) asked: Option<&'static str>,
}

/// A tool, and when it is meant.
pub(super) struct Skill {
    pub(super) tool: &'static str,
    /// How clauses begin that mean it; see [`phrases::begins`].
    phrases: &'static [&'static str],
    /// The same, where no tool of the project fits better.
    loose: &'static [&'static str],
    pub(super) parameters: &'static [Parameter],
    /// It changes an event, which has to be found first.
    pub(super) changes_event: bool,
}

const fn optional(name: &'static str, read: Reader) -> Parameter {
    Parameter {
        name,
        read,
        asked: None,
    }
}

const fn needed(name: &'static str, read: Reader, asked: &'static str) -> Parameter {
    Parameter {
        name,
        read,
        asked: Some(asked),
    }
}

pub(super) const LIST_EVENTS: &str = "calendar_list_events";
pub(super) const CREATE_EVENT: &str = "calendar_create_event";
pub(super) const MOVE_EVENT: &str = "calendar_move_event";
pub(super) const CANCEL_EVENT: &str = "calendar_cancel_event";
pub(super) const WEB_SEARCH: &str = "web_search";

/// Every row, the ones that are to be tried first at the top.
pub(super) const SKILLS: &[Skill] = &[
    Skill {
        tool: CANCEL_EVENT,
        phrases: &[
            "cancel|delete|remove|drop .. EVENT",
            "cancel|delete it|that|this|them|one",
            "cancel $",
            "call_off ..",
            "cancel on|at DAY",
        ],
        loose: &["cancel"],
        parameters: &[optional("whole_series", whole_series)],
        changes_event: true,
    },
    Skill {
        tool: MOVE_EVENT,
        phrases: &[
            "move|reschedule|shift|postpone|push|put_off|put_back|bring_forward|delay|change .. EVENT",
            "move|reschedule|shift|postpone|push|put_off|put_back|bring_forward|delay it|that|this|one",
            "make it|that .. later|earlier",
            "put|bring|push it|that off|back|forward",
            "make it|that at|to|on|DAY",
            "have it .. later|earlier",
        ],
        loose: &["move|reschedule|postpone"],
        parameters: &[],
        changes_event: true,
    },
    Skill {
        tool: "calendar_get_availability",
        phrases: &[
            "am|are|is i|we|you|they|he|she|anybody|anyone|everybody .. free|busy|available",
            "when am|are|is i|we|you|they .. free|available",
            "when can|could|shall|do i|we|you|they .. meet|talk|come|call|see",
            "what|which times|slots|time|days|hours|appointments .. free|available|open",
            "what times|slots are|do|is",
            "which slots|times",
            "find|show|list|give|offer|get|suggest|propose|see .. slot|slots|free|opening|openings|availability|free_time",
            "list slots|openings",
            "do you|they|we have .. slot|slots|opening|openings|free|time",
            "is|are there .. slot|slots|opening|openings|free|time|appointments",
            "check .. availability|calendar|free",
            "any .. slots|slot|openings|free",
            "free|available|open slots|times|appointments",
            "is tomorrow|today|monday|tuesday|wednesday|thursday|friday|saturday|sunday .. free|available|busy",
        ],
        loose: &["when can i|we"],
        parameters: &[
            needed("start_date", free_from, "from when"),
            needed("end_date", free_until, "until when"),
            optional("calendars", calendars),
            optional("min_duration_minutes", |heard, _| {
                heard.times.minutes.map(Value::from)
            }),
        ],
        changes_event: false,
    },
    Skill {
        tool: CREATE_EVENT,
        phrases: &[
            "book|schedule|arrange|set_up|plan|create|make|add|put|organise|organize|reserve|enter .. EVENT",
            "book|schedule|take|reserve .. first|second|third|fourth|fifth|last|it|that|this",
            "book|schedule|reserve me|us .. DAY|at",
            "an|a|the EVENT with|at|for|DAY",
            "meeting|appointment|lunch|dinner|coffee|call with|at|DAY",
            "invite",
        ],
        loose: &["book|schedule|reserve"],
        parameters: &[
            needed("start_time", start_time, "when it shall start"),
            optional("end_time", end_time),
            needed(
                "attendees",
                attendees,
                "the e-mail addresses of those who take part",
            ),
            optional("title", title),
            optional("include_zoom_link", conference),
        ],
        changes_event: false,
    },
    Skill {
        tool: LIST_EVENTS,
        phrases: &[
            "what do|did i|we have .. DAY|CALENDAR",
            "what|whats is|are .. CALENDAR",
            "whats .. CALENDAR",
            "what is|are|whats planned|scheduled",
            "whats planned|scheduled",
            "what|which meetings|appointments|events|bookings",
            "list|show|read|see|give .. meetings|events|appointments|bookings|CALENDAR",
            "do|have i|we .. meeting|meetings|appointment|appointments|event|events|anything|planned",
            "my meetings|appointments|events|CALENDAR",
            "when is .. EVENT",
        ],
        loose: &[],
        parameters: &[
            needed("start_date", listed_from, "from when"),
            needed("end_date", listed_until, "until when"),
            optional("calendars", calendars),
        ],
        changes_event: false,
    },
    Skill {
        tool: "extract_contacts",
        phrases: &[
            "extract|find|get|pull|read|list|pick|collect .. CONTACTS in|from|out",
            "extract|pull|collect .. CONTACTS",
            "which|what CONTACTS .. in|are",
            "which|what phone|telephone|e|email numbers|addresses|mail ..",
        ],
        loose: &[],
        parameters: &[
            needed("text", contact_text, "the text that I shall read"),
            optional("region", region),
        ],
        changes_event: false,
    },
    Skill {
        tool: "rank_results",
        phrases: &[
            "rank|sort|compare|order|arrange|put .. by",
            "rank|sort|compare",
            "which|what is|are .. cheapest|nearest|best|lowest|highest|fastest|shortest|biggest|smallest|dearest",
            "which|what of .. cheapest|nearest|best|lowest|highest|fastest|shortest|biggest|smallest|dearest",
        ],
        loose: &[],
        parameters: &[
            needed(
                "criteria",
                criteria,
                "by what I shall rank, such as “by price, lowest first”",
            ),
            needed("items", items, "the list, such as “tea 30, coffee 20”"),
            optional("top", |heard, _| {
                counted_behind(heard, "top").map(Value::from)
            }),
        ],
        changes_event: false,
    },
    Skill {
        tool: "format_datetime",
        phrases: &[
            "what time|date|day is it",
            "what_is|whats the date|time",
            "what time|date|day is .. in|at",
            "what is .. in",
            "convert|format|translate .. to|in|as",
            "convert|format ..",
            "how long until|till|is_it_until|ago",
            "how many days until|till",
            "what weekday|day is|was|will|of",
            "when is .. time|here",
        ],
        loose: &[],
        parameters: &[
            needed("datetime", datetime, "which date and time is meant"),
            optional("format", date_format),
            optional("time_zone", zone),
        ],
        changes_event: false,
    },
    Skill {
        tool: "query_tool_memory",
        phrases: &[
            "what did|have you .. look|looked|find|found|search|searched|call|called|do|done .. before|earlier|already|so_far|up|$",
            "what did|have you look|looked|find|found",
            "which|what tools|calls did|have|were",
            "show|list|repeat .. earlier|last|previous|past .. results|calls|searches|result|call|answers",
            "what was|were .. you .. found|looked|earlier|before",
            "what was|were the .. result|results|answer of|from",
            "show|list what you .. found|did|called|looked",
        ],
        loose: &[],
        parameters: &[
            optional("call_id", call_id),
            optional("tool", named_tool),
            optional("limit", |heard, _| {
                counted_behind(heard, "last").map(Value::from)
            }),
        ],
        changes_event: false,
    },
    Skill {
        tool: "get_context",
        phrases: &[
            "what do you know about|of me|us|this",
            "what do you know $",
            "who am i",
            "am i signed|logged",
            "which|what user|session|conversation|page|site|roles|role|rights",
            "what|whats is|are my name|id|role|roles|time|timezone|rights|zone",
            "what is this page|site|conversation|session",
            "where am i",
            "which|what time_zone|timezone",
        ],
        loose: &[],
        parameters: &[optional("fields", context_fields)],
        changes_event: false,
    },
    Skill {
        tool: "escalate",
        phrases: &[
            "talk|speak|chat .. to|with .. PERSON",
            "get|find|fetch|call|bring|ask|connect|transfer|pass|hand|put|give|forward|let .. PERSON",
            "a|an|real human|person|operator|human|agent",
            "escalate",
            "human|operator|agent $",
            "help .. PERSON",
            "is there .. human|person|someone|somebody",
        ],
        loose: &[],
        parameters: &[
            optional("reason", reason),
            optional("summary", summary),
            optional("urgency", urgency),
            optional("contact", |heard, _| heard.find(|text| emails(text).next())),
        ],
        changes_event: false,
    },
    Skill {
        tool: "image_draft_prompt",
        phrases: &[
            "draft|suggest|write|propose|improve|refine|polish|sketch .. prompt|prompts|drafts",
            "draft|suggest|propose .. PICTURE",
            "describe a|an|the PICTURE",
        ],
        loose: &[],
        parameters: &[
            needed("subject", subject, "what the picture shall show"),
            optional("style", style),
            optional("aspect_ratio", aspect_ratio),
        ],
        changes_event: false,
    },
    Skill {
        tool: "image_generate",
        phrases: &[
            "draw|paint|sketch|illustrate",
            "show|give|have .. PICTURE of|showing",
            "generate|create|make|produce|render|design .. PICTURE",
            "a|an|the PICTURE of",
            "generate|take|use|make|draw .. first|second|third|last one|draft|prompt|$",
        ],
        loose: &[],
        parameters: &[
            needed("prompt", prompt, "what the picture shall show"),
            optional("aspect_ratio", aspect_ratio),
            optional("count", picture_count),
        ],
        changes_event: false,
    },
    Skill {
        tool: "send_image",
        phrases: &[
            "send|show|display|post|share .. PICTURE",
            "show|send|display it|that again",
            "show|send|display https|http|photo|diagram",
        ],
        loose: &[],
        parameters: &[
            needed("image_url", image_url, "the address of the picture"),
            optional("caption", |heard, _| {
                heard.find(|text| quotation(text).map(Value::from))
            }),
        ],
        changes_event: false,
    },
    Skill {
        tool: WEB_SEARCH,
        phrases: &[
            "search|look|check|browse|find|ask .. web|internet|online|google",
            "google",
            "what does the web|internet",
            "web search",
            "whats|what .. news|latest",
        ],
        loose: &["search for", "look up", "find out"],
        parameters: &[needed("query", query, "what I shall search for")],
        changes_event: false,
    },
];

/// The skill of a tool.
pub(super) fn of_tool(tool: &str) -> Option<&'static Skill> {
    SKILLS.iter().find(|skill| skill.tool == tool)
}

/// How sure a skill is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sureness {
    Said,
    /// Unless a tool of the project fits.
    Likely,
}

/// The tool that a message means, among those that there are.
pub(super) fn meant(
    text: &str,
    sureness: Sureness,
    has: impl Fn(&str) -> bool,
) -> Option<&'static Skill> {
    let clauses = phrases::clauses(text);
    let mut skills = SKILLS.iter().filter(|skill| has(skill.tool));
    skills.find(|skill| {
        let patterns = match sureness {
            Sureness::Said => skill.phrases,
            Sureness::Likely => skill.loose,
        };
        clauses
            .iter()
            .any(|clause| phrases::begins(clause, patterns))
    })
}

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

fn quotation(text: &str) -> Option<&str> {
    quotations(text).next()
}

/// E-mail addresses as they stand in a text.
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

/// The slot that is meant: by its place, or by an hour within it.
fn slot(heard: &Heard<'_>, known: &Known<'_>) -> Option<Slot> {
    let offers = &known.memory.offers;
    let by_place = heard.find(|text| picked(text, offers.len()));
    by_place.and_then(|index| offers.get(index).cloned())
}

fn start_time(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    if let Some(slot) = slot(heard, known) {
        let within = times::parsed(&slot.start, known.now);
        let said = within.filter(|_| heard.times.says_hour());
        let said = said.and_then(|start| heard.times.moved(&start));
        return Some(said.map_or(slot.start, |start| written(&start)).into());
    }
    // An hour without a day belongs to a slot that was offered.
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

fn end_time(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
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

fn attendees(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

/// In quotation marks, behind `called`, or made of what it is and who comes.
fn title(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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
    // “the project review”: the word before it says which one.
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

/// A word behind a name that is none of it.
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

fn conference(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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
    // What is over is not free.
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

fn free_from(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    free_range(heard, known).map(|(start, _)| written(&start).into())
}

fn free_until(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    free_range(heard, known).map(|(_, end)| written(&end).into())
}

fn listed_range(heard: &Heard<'_>, known: &Known<'_>) -> Option<(Zoned, Zoned)> {
    let said = heard.times.range(known.now);
    said.or_else(|| times::days_from(known.now?, DAYS_USUAL))
}

fn listed_from(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    listed_range(heard, known).map(|(start, _)| written(&start).into())
}

fn listed_until(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    listed_range(heard, known).map(|(_, end)| written(&end).into())
}

fn calendars(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let named = ["team", "personal"].iter().find(|name| {
        let phrase = format!("{name} calendar");
        heard
            .messages
            .iter()
            .any(|text| phrases::words(text).join(" ").contains(&phrase))
    });
    named.map(|name| json!([name]))
}

fn whole_series(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

/// Behind a colon or a line's end, in quotation marks, or the whole where it holds what is looked for.
fn contact_text(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

fn region(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    heard.find(|text| {
        let mut words = text.split(|sign: char| !sign.is_alphanumeric());
        words.find(|word| ["region", "country"].contains(&word.to_lowercase().as_str()))?;
        let code = words.next()?;
        let is_code = code.len() == 2 && code.bytes().all(|letter| letter.is_ascii_uppercase());
        is_code.then(|| code.into())
    })
}

/// Words that name a field and say which end of it is the better one.
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

fn criteria(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

/// A list in JSON, one of names and numbers behind a colon, or the last list that a tool gave.
fn items(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
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

/// The number behind a word, as in `the last three`.
fn counted_behind(heard: &Heard<'_>, word: &str) -> Option<i64> {
    heard.find(|text| {
        let words = phrases::words(text);
        let at = words.iter().position(|other| other == word)?;
        let number = times::number(words.get(at + 1)?)?;
        (number.fract() == 0.0 && (1.0..=1_000.0).contains(&number)).then_some(number as i64)
    })
}

// Dates, the conversation, people.

fn datetime(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
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

fn date_format(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

/// The zone of a place behind `in` or `to`, or an IANA name.
fn zone(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

fn context_fields(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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
    // What is known of the user is more than who it is.
    (!fields.is_empty() && !heard.says(&["know"])).then(|| fields.into())
}

fn call_id(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

fn named_tool(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let text = heard.newest();
    let named = known
        .tools
        .iter()
        .find(|tool| !tool.is_empty() && text.contains(tool.as_str()));
    named.map(|tool| tool.as_str().into())
}

fn reason(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

fn summary(_: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let said: Vec<String> = known
        .memory
        .said
        .iter()
        .map(|text| format!("“{text}”"))
        .collect();
    Some(format!("The user said last: {}", said.join(" ")).into())
}

fn urgency(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

/// What stands behind the words that ask for a picture.
fn subject(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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
    // A logo is a part of what is shown; a picture is not.
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

fn prompt(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
    let drafts = &known.memory.drafts;
    let picked = heard.find(|text| picked(text, drafts.len()));
    match picked.and_then(|index| drafts.get(index)) {
        Some(draft) => Some(draft.as_str().into()),
        None => subject(heard, known),
    }
}

fn style(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
    let said = heard.find(|text| Some(text.split_once("in the style of ")?.1.trim().to_owned()))?;
    let said = said.trim_end_matches(['.', '!', '?']);
    (!said.is_empty()).then(|| said.chars().take(200).collect::<String>().into())
}

fn aspect_ratio(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

fn picture_count(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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

/// An address or an id that the words have, or the picture that was there last.
fn image_url(heard: &Heard<'_>, known: &Known<'_>) -> Option<Value> {
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

/// What is to be searched for, without the words that ask for the search.
fn query(heard: &Heard<'_>, _: &Known<'_>) -> Option<Value> {
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
