//! Reads a tool's result, however it is wrapped: a record, a list of hits, or a failure in words; and tells it to the user. Knows the
//! conventions of function responses, of knowledge bases, and the results of the built-in tools.

use super::memory::Event;
use super::skills::{CANCEL_EVENT, CREATE_EVENT, LIST_EVENTS, MOVE_EVENT, WEB_SEARCH};
use super::times;
use super::words::{self, Record, shortened, to_user};
use jiff::Zoned;
use serde_json::Value;

/// The most things of a list that are told.
const TOLD_MAX: usize = 3;
/// The most fields of an unknown result that are told.
const FIELDS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Success(Value),
    /// The user is asked first; the text is an additional message, if any.
    Asked(Option<String>),
    /// The reason in words.
    Failure(String),
}

impl Outcome {
    /// The data, or the reason why there is none.
    pub(super) fn ended(self) -> Result<Value, String> {
        match self {
            Self::Success(data) => Ok(data),
            Self::Asked(None) => Err("it waits for your yes".to_owned()),
            Self::Asked(Some(problem)) => Err(to_user(&problem)),
            Self::Failure(problem) => Err(problem),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) record: Record,
}

/// `output` holds a result and `error` a failure; without either the whole object is the result.
pub(super) fn read(response: &Value) -> Outcome {
    if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").unwrap_or(error);
        let message = message
            .as_str()
            .map_or_else(|| message.to_string(), str::to_owned);
        if error.get("type").and_then(Value::as_str) != Some("CONFIRMATION_REQUIRED") {
            return Outcome::Failure(message);
        }
        let is_plain = message.contains("runs only after the user has confirmed it")
            && !message.contains("nobody can be asked");
        return match message.contains("be asked") && !message.contains("being asked") {
            // The user is not asked, so nothing waits.
            true => Outcome::Failure(message),
            false => Outcome::Asked((!is_plain).then_some(message)),
        };
    }
    let output = response.get("output").unwrap_or(response);
    // An envelope without `data` has no data.
    let is_envelope =
        output.get("ok").is_some_and(Value::is_boolean) && output.get("meta").is_some();
    let whole = if is_envelope { &Value::Null } else { output };
    let mut data = output.get("data").unwrap_or(whole).clone();
    if let (Value::Object(fields), Some(note)) =
        (&mut data, output.get("note").and_then(Value::as_str))
        && note.starts_with("This was done before")
    {
        fields.entry("note").or_insert(Value::from(note));
    }
    Outcome::Success(data)
}

/// The hits of a search, the best first, as searches rank them.
pub(super) fn hits(data: &Value) -> Vec<Found> {
    let lists = ["results", "items", "hits"];
    let list = lists.iter().find_map(|key| data.get(*key)).unwrap_or(data);
    let hits = list.as_array().into_iter().flatten();
    hits.map(|hit| Found {
        id: text_of(hit, &["id"]),
        record: record(hit, &Record::default()),
    })
    .collect()
}

/// A record; missing fields are taken from the known record.
pub(super) fn record(data: &Value, known: &Record) -> Record {
    let or = |text: String, other: &str| {
        if text.is_empty() {
            other.to_owned()
        } else {
            text
        }
    };
    Record {
        title: or(text_of(data, &["title", "name", "id"]), &known.title),
        text: or(
            text_of(data, &["full_text", "body", "text", "content", "snippet"]),
            &known.text,
        ),
    }
}

/// The first of these fields that is a text or, as a snippet may be, an object with one.
fn text_of(value: &Value, keys: &[&str]) -> String {
    keys.iter()
        .filter_map(|key| value.get(*key))
        .find_map(|field| field.as_str().or_else(|| field.get("text")?.as_str()))
        .unwrap_or_default()
        .to_owned()
}

/// Any tool's outcome in sentences.
pub(super) fn told(tool: &str, outcome: &Outcome, now: Option<&Zoned>) -> String {
    match outcome {
        Outcome::Success(data) => {
            let row = TOLD.iter().find(|(name, _)| *name == tool);
            let told = row.and_then(|(_, tell)| tell(data, now));
            let mut told = told.unwrap_or_else(|| shortened(&fields_told(tool, data)));
            if row.is_some()
                && let Some(note) = data.get("note").and_then(Value::as_str)
            {
                told = format!("{told} {}", words::sentence(&to_user(note)));
            }
            told
        }
        Outcome::Asked(None) => format!("{tool} waits for your yes: nothing has been done yet."),
        Outcome::Asked(Some(message)) if message.contains("is being asked already") => {
            "You are being asked about that already: nothing has been done yet.".to_owned()
        }
        Outcome::Asked(Some(message)) if message.contains("It was not done again") => {
            format!(
                "{tool} was done before, and was not done again: it waits for your yes to do it once more."
            )
        }
        Outcome::Asked(Some(message)) => shortened(&words::sentence(&to_user(message))),
        Outcome::Failure(problem) => shortened(&format!(
            "{tool} gave no result: {}",
            words::sentence(&to_user(problem))
        )),
    }
}

/// The fields of a result that has only a few; any other result as it is.
fn fields_told(tool: &str, data: &Value) -> String {
    let plain = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    match data {
        Value::Null => format!("{tool} is done."),
        Value::String(text) => format!("{tool} answered: {text}"),
        // An answer in words is told as it is.
        Value::Object(fields) if fields.get("answer").is_some_and(Value::is_string) => {
            text_of(data, &["answer"])
        }
        Value::Object(fields) if (1..=FIELDS_MAX).contains(&fields.len()) => {
            let told: Option<Vec<String>> = fields
                .iter()
                .map(|(name, value)| Some(format!("{name}: {}", plain(value)?)))
                .collect();
            match told {
                Some(told) => format!(
                    "{tool} answered: {}.",
                    told.join(", ").trim_end_matches('.')
                ),
                None => format!("{tool} answered: {data}"),
            }
        }
        _ => format!("{tool} answered: {data}"),
    }
}

type Tell = fn(&Value, Option<&Zoned>) -> Option<String>;

/// The sentences for results of the built-in tools. `None` where a result has another form.
const TOLD: &[(&str, Tell)] = &[
    ("calendar_get_availability", free),
    (LIST_EVENTS, planned),
    (CREATE_EVENT, |data, now| {
        event_told(data, now, "is in the calendar")
    }),
    (MOVE_EVENT, |data, now| event_told(data, now, "was moved")),
    (CANCEL_EVENT, |data, now| {
        event_told(data, now, "is cancelled")
    }),
    ("extract_contacts", contacts),
    ("rank_results", ranked),
    ("format_datetime", |data, _| {
        Some(words::sentence(text(data, "text")?))
    }),
    ("get_context", context),
    ("query_tool_memory", calls),
    ("list_tasks", tasks),
    ("escalate", |data, _| {
        let ticket = text(data, "ticket_id")?;
        Some(format!(
            "A person of the team has been asked; your ticket is {ticket}. The answer will come here."
        ))
    }),
    ("image_draft_prompt", drafts),
    ("image_generate", pictures),
    ("send_image", |data, _| {
        (data.get("shown") == Some(&Value::Bool(true))).then(|| "Here is the picture.".to_owned())
    }),
    (WEB_SEARCH, |data, _| Some(pages(data))),
];

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value
        .get(key)?
        .as_str()
        .filter(|text| !text.trim().is_empty())
}

fn list<'v>(value: &'v Value, key: &str) -> Option<&'v Vec<Value>> {
    value.get(key)?.as_array()
}

/// The first few, numbered, and the number of the others.
fn numbered<T>(things: &[T], tell: impl Fn(&T) -> String) -> String {
    let told: Vec<String> = things
        .iter()
        .take(TOLD_MAX)
        .enumerate()
        .map(|(index, thing)| format!("{}) {}", index + 1, tell(thing)))
        .collect();
    let left = things.len().saturating_sub(TOLD_MAX);
    let more = if left > 0 {
        format!(", and {left} more")
    } else {
        String::new()
    };
    format!("{}{more}", told.join("; "))
}

fn free(data: &Value, now: Option<&Zoned>) -> Option<String> {
    let slots = list(data, "available_slots")?;
    let incomplete = match data.get("incomplete") == Some(&Value::Bool(true)) {
        true => " A part of the calendar could not be read, so that I cannot promise it.",
        false => "",
    };
    let tell = |slot: &Value| {
        times::told(
            text(slot, "start").unwrap_or_default(),
            text(slot, "end").unwrap_or_default(),
            now,
        )
    };
    Some(match slots.as_slice() {
        [] => format!("Nothing is free then.{incomplete}"),
        [only] => format!("Free is {}.{incomplete} Shall I book it?", tell(only)),
        _ => format!(
            "Free are {}.{incomplete} Which one shall I book?",
            numbered(slots, tell)
        ),
    })
}

/// The event's name for the user.
fn event_name(event: &Value, now: Option<&Zoned>) -> String {
    Event::of(event).map_or_else(|| "something".to_owned(), |event| event.name(now))
}

fn planned(data: &Value, now: Option<&Zoned>) -> Option<String> {
    let events = list(data, "items")?;
    let mut told = match events.len() {
        0 => "Nothing is planned then.".to_owned(),
        1 => format!("You have {}.", event_name(&events[0], now)),
        count => format!(
            "You have {count} events: {}.",
            numbered(events, |event| event_name(event, now))
        ),
    };
    if data.get("incomplete") == Some(&Value::Bool(true)) {
        told.push_str(" A part of the calendar could not be read.");
    }
    Some(told)
}

fn event_told(data: &Value, now: Option<&Zoned>, what: &str) -> Option<String> {
    let event = data.get("event").filter(|event| event.is_object())?;
    let title: String = text(event, "title")
        .unwrap_or("The event without a title")
        .chars()
        .take(80)
        .collect();
    let (start, end) = (
        text(event, "start")?,
        text(event, "end").unwrap_or_default(),
    );
    Some(format!(
        "“{title}” {what}: {}.",
        times::told(start, end, now)
    ))
}

fn contacts(data: &Value, _: Option<&Zoned>) -> Option<String> {
    let texts = |key: &str| -> Option<Vec<String>> {
        let found = list(data, key)?.iter();
        let found = found.filter_map(|found| found.as_str().or_else(|| text(found, "number")));
        Some(found.take(10).map(str::to_owned).collect())
    };
    let found: Vec<String> = ["emails", "phones", "links"]
        .iter()
        .filter_map(|key| texts(key))
        .flatten()
        .collect();
    Some(match found.is_empty() {
        true => "I found no addresses and no telephone numbers in it.".to_owned(),
        false => shortened(&format!("I found {}.", found.join(", "))),
    })
}

fn ranked(data: &Value, _: Option<&Zoned>) -> Option<String> {
    let items = list(data, "ranked")?;
    let name = |item: &Value| {
        let item = item.get("item").unwrap_or(&Value::Null);
        let named = ["name", "title", "id", "start"]
            .iter()
            .find_map(|key| text(item, key));
        named.map_or_else(|| item.to_string(), str::to_owned)
    };
    Some(match items.is_empty() {
        true => "There was nothing to put in order.".to_owned(),
        false => shortened(&format!("In this order: {}.", numbered(items, name))),
    })
}

fn context(data: &Value, _: Option<&Zoned>) -> Option<String> {
    let mut told = Vec::new();
    if let Some(user) = data.get("user") {
        let roles: Vec<&str> = list(user, "roles")
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let signed = user.get("signed_in") == Some(&Value::Bool(true));
        told.push(match (signed, roles.is_empty()) {
            (false, _) => "You have not signed in".to_owned(),
            (true, true) => "You have signed in".to_owned(),
            (true, false) => format!("You have signed in as {}", roles.join(", ")),
        });
    }
    if let Some(session) = data.get("session") {
        let mode = text(session, "mode").unwrap_or("some");
        let turn = session
            .get("turn")
            .map_or_else(String::new, |turn| format!(", in turn {turn}"));
        told.push(format!("we talk by {mode}{turn}"));
    }
    if let Some(time) = data.get("time") {
        let zone = text(time, "time_zone").unwrap_or("an unknown zone");
        told.push(format!("it is {} in {zone}", text(time, "now")?));
    }
    if let Some(page) = data.get("page") {
        told.push(match text(page, "title").or_else(|| text(page, "url")) {
            Some(page) => format!("you are on the page “{page}”"),
            None => "I do not know the page that you are on".to_owned(),
        });
    }
    (!told.is_empty()).then(|| shortened(&words::sentence(&told.join("; "))))
}

fn tasks(data: &Value, _: Option<&Zoned>) -> Option<String> {
    let tasks = list(data, "tasks")?;
    if tasks.is_empty() {
        return Some("There are no tasks.".to_owned());
    }
    let told = numbered(tasks, |task| {
        let tool = text(task, "tool").unwrap_or("a tool");
        let state = match text(task, "state") {
            Some("running") => "is still running",
            Some("done") => "is done",
            Some("not_done") => "was not done",
            _ => "may have been done or not",
        };
        format!("{tool} {state}")
    });
    Some(shortened(&format!("These are your tasks: {told}")))
}

fn calls(data: &Value, _: Option<&Zoned>) -> Option<String> {
    let name = |call: &Value| {
        let tool = text(call, "tool").unwrap_or("a tool");
        let result = call.get("result").map(|result| {
            result
                .as_str()
                .map_or_else(|| result.to_string(), str::to_owned)
        });
        let result: String = result.unwrap_or_default().chars().take(60).collect();
        format!("{tool}: {result}")
    };
    if let Some(call) = data.get("call") {
        return Some(shortened(&format!("That call was {}", name(call))));
    }
    let calls = list(data, "calls")?;
    Some(match calls.is_empty() {
        true => "Nothing was looked up before.".to_owned(),
        false => shortened(&format!("Looked up before: {}", numbered(calls, name))),
    })
}

fn drafts(data: &Value, _: Option<&Zoned>) -> Option<String> {
    let drafts = list(data, "variants")?;
    let name = |draft: &Value| {
        let prompt: String = text(draft, "prompt")
            .unwrap_or_default()
            .chars()
            .take(120)
            .collect();
        format!("“{prompt}”")
    };
    (!drafts.is_empty()).then(|| {
        format!(
            "I have drafted {}. Which one shall I draw?",
            numbered(drafts, name)
        )
    })
}

fn pictures(data: &Value, _: Option<&Zoned>) -> Option<String> {
    let count = list(data, "pictures")?.len();
    let are = match count {
        0 => return None,
        1 => "Here is the picture.".to_owned(),
        count => format!("Here are {count} pictures."),
    };
    Some(match data.get("placeholder") == Some(&Value::Bool(true)) {
        true => format!("{are} It is a placeholder, because no image service is configured."),
        false => are,
    })
}

/// The best page, with its title and address; without a page there is no citation.
fn pages(data: &Value) -> String {
    let page = list(data, "results")
        .into_iter()
        .flatten()
        .find(|page| text(page, "title").is_some());
    let Some(page) = page else {
        return "I do not know: the search found nothing.".to_owned();
    };
    let title: String = text(page, "title")
        .unwrap_or_default()
        .chars()
        .take(80)
        .collect();
    let said = text(page, "snippet")
        .map(words::sentence)
        .unwrap_or_default();
    let url = text(page, "url")
        .map(|url| format!(" ({url})"))
        .unwrap_or_default();
    format!("{said} That is from “{title}”{url}.")
        .trim_start()
        .to_owned()
}
