//! The phrases for built-in tools, and their parameters: one table, a row for each tool. Knows nothing of a call's outcome.

use super::memory::Memory;
use super::phrases;
use super::readers::{
    aspect_ratio, attendees, calendars, call_id, conference, contact_text, context_fields,
    counted_behind, criteria, date_format, datetime, emails, end_time, free_from, free_until,
    image_url, items, listed_from, listed_until, named_tool, picture_count, prompt, query,
    quotation, reason, region, start_time, style, subject, summary, title, urgency, whole_series,
    zone,
};
use super::times::Times;
use jiff::Zoned;
use serde_json::{Map, Value};

/// The user's messages on one matter.
pub(super) struct Heard<'h> {
    /// At least one message, the newest at the end.
    pub(super) messages: &'h [String],
    pub(super) times: Times,
    /// The parameter that the last message answers, if the user was asked.
    pub(super) asked: Option<&'h str>,
}

impl Heard<'_> {
    pub(super) fn newest(&self) -> &str {
        self.messages.last().map_or("", String::as_str)
    }

    /// The newest message's value, as `read` finds it.
    pub(super) fn find<T>(&self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.messages.iter().rev().find_map(|message| read(message))
    }

    pub(super) fn says(&self, words: &[&str]) -> bool {
        self.messages.iter().any(|message| {
            let plain = phrases::words(message);
            plain.iter().any(|word| words.contains(&word.as_str()))
        })
    }
}

/// The other sources of arguments.
pub(super) struct Known<'k> {
    pub(super) now: Option<&'k Zoned>,
    pub(super) memory: &'k Memory,
    /// The arguments that were read before this one.
    pub(super) arguments: &'k Map<String, Value>,
    pub(super) tools: &'k [String],
}

pub(super) type Reader = fn(&Heard<'_>, &Known<'_>) -> Option<Value>;

/// One parameter of a tool.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) read: Reader,
    /// The question for a missing value. Without a question the parameter is left out.
    pub(super) asked: Option<&'static str>,
}

/// A tool, and the phrases for it.
pub(super) struct Skill {
    pub(super) tool: &'static str,
    /// The beginnings of clauses that mean it; see [`phrases::begins`].
    phrases: &'static [&'static str],
    /// Beginnings that mean it unless a tool of the project fits better.
    loose: &'static [&'static str],
    pub(super) parameters: &'static [Parameter],
    /// Whether it changes an event, which has to be found first.
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

/// All rows; earlier rows are tried first.
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
            "what|which times|slots|time|days|hours|appointments .. free|available",
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
            "what|which meetings|appointments|events|bookings do|have|are|am|i|we|DAY",
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
            "what is .. am|pm in",
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
        tool: "list_tasks",
        phrases: &[
            "what|which tasks",
            "show|list .. tasks",
            "are there .. tasks",
        ],
        loose: &[],
        parameters: &[
            optional("only_running", |heard, _| {
                heard
                    .says(&["running", "open", "still"])
                    .then(|| true.into())
            }),
            optional("limit", |heard, _| {
                counted_behind(heard, "last").map(Value::from)
            }),
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
            "connect|transfer|pass|hand|put|forward .. PERSON",
            "get|find|fetch|bring|give|let me|us .. PERSON",
            "ask|call|get|fetch|bring a|an|some|your PERSON",
            "a|an|real human|person|operator|human|agent",
            "escalate",
            "human|operator|agent $",
            "help from|by .. PERSON",
            "is there .. human|person|someone|somebody .. me|us|talk|speak|help",
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

/// How surely a message means a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sureness {
    Said,
    /// Meant, unless a tool of the project fits.
    Likely,
}

/// The tool that a message means, among the existing ones.
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
