//! Moves and cancellations of events: the event that is meant, and its new time. Knows the calendar's tools and no others.

use super::memory::{Event, Sought};
use super::phrases;
use super::readers::{self, emails};
use super::results::{self, Outcome};
use super::skills::{self, CANCEL_EVENT, LIST_EVENTS, MOVE_EVENT};
use super::times::{self, Times, written};
use super::tools;
use super::words::is_stop_word;
use super::world::World;
use super::{Draft, EVENT, Model, Reply, Stage, ask, say};
use jiff::Zoned;
use serde_json::{Value, json};

/// The days that are searched for an event without a known day.
const DAYS_SEARCHED: i64 = 31;
const EVENTS_MAX: usize = 50;
/// The most events that the user may choose from.
const CHOICES_MAX: usize = 3;

/// Words for actions on events, and for events in general.
const GENERAL: &[&str] = &[
    "cancel",
    "delete",
    "remove",
    "drop",
    "move",
    "reschedule",
    "shift",
    "postpone",
    "push",
    "put",
    "bring",
    "forward",
    "delay",
    "make",
    "call",
    "off",
    "back",
    "meeting",
    "meetings",
    "appointment",
    "appointments",
    "event",
    "events",
    "booking",
    "bookings",
    "reservation",
    "slot",
    "session",
    "series",
    "whole",
    "every",
    "only",
    "just",
    "occurrence",
    "once",
    "single",
    "one",
    "cant",
    "cannot",
    "come",
    "make",
    "actually",
    "instead",
    "rather",
    "please",
    "no",
    "yes",
    "lets",
    "let",
    "us",
    "want",
    "need",
    "would",
    "like",
    "change",
    "calendar",
    "our",
    "occurrences",
    "first",
    "second",
    "third",
    "last",
    "ok",
    "okay",
    "sorry",
    "hi",
    "hello",
];

/// Whether the words withdraw the change that the user is being asked about.
pub(super) fn withdraws(text: &str) -> bool {
    let clauses = phrases::clauses(text);
    let patterns = [
        "cancel|forget|drop|leave it|that|this|$",
        "dont|do_not book|do|make|send|cancel|move",
        "not any_more",
    ];
    clauses
        .iter()
        .any(|clause| phrases::begins(clause, &patterns))
}

/// Whether the words give another time, or another guest, for the change that the user is being asked about.
pub(super) fn changes_mind(text: &str, now: Option<&Zoned>) -> bool {
    let times = Times::read(text, now);
    let says = !times.is_empty()
        || times.minutes.is_some()
        || times.shift_minutes.is_some()
        || emails(text).next().is_some();
    let patterns = [
        "make|change|move|put|have it|that|this",
        "rather|instead|better",
        "at|on|from|to|not",
        "add|invite|also|include|with",
    ];
    let points = phrases::clauses(text)
        .iter()
        .any(|clause| phrases::begins(clause, &patterns));
    let words = phrases::words(text);
    let corrects = words
        .iter()
        .any(|word| ["instead", "rather", "actually"].contains(&word.as_str()));
    says && (points || corrects) && !text.trim_end().ends_with('?')
}

/// The words before and after the ` to ` that precedes a time, where an event is moved.
fn parts(text: &str, now: Option<&Zoned>) -> (String, String) {
    let cut = text.match_indices(" to ").last();
    let split = cut.map(|(at, part)| (&text[..at], &text[at + part.len()..]));
    match split {
        Some((before, behind)) if !Times::read(&format!("to {behind}"), now).is_empty() => {
            (before.to_owned(), format!("to {behind}"))
        }
        Some(_) | None => (text.to_owned(), String::new()),
    }
}

/// The event that the first message means.
fn sought(tool: &str, text: &str, now: Option<&Zoned>) -> Sought {
    let (source, target) = parts(text, now);
    let is_moved = tool == MOVE_EVENT;
    let named = if is_moved { source.as_str() } else { text };
    let times = match is_moved && target.is_empty() {
        // The time in the message is the new one.
        true => Times::default(),
        false => Times::read(named, now),
    };
    let addresses: Vec<String> = emails(named)
        .filter_map(|email| Some(email.as_str()?.to_lowercase()))
        .collect();
    let words = phrases::words(named).into_iter().filter(|word| {
        !is_stop_word(word)
            && !times::is_of_time(word)
            && !GENERAL.contains(&word.as_str())
            && !addresses
                .iter()
                .any(|address| address.contains(word.as_str()))
    });
    Sought {
        words: words.collect(),
        times,
    }
}

/// The new time in the messages. In a message with a ` to ` before a time, only the part after it gives day and hour.
fn target(messages: &[String], now: Option<&Zoned>) -> Times {
    let times = messages.iter().map(|text| {
        let (_, target) = parts(text, now);
        let whole = Times::read(text, now);
        match target.is_empty() {
            true => whole,
            false => {
                let mut times = Times::read(&target, now);
                times.minutes = whole.minutes;
                times.shift_minutes = whole.shift_minutes;
                times
            }
        }
    });
    times.reduce(Times::corrected_by).unwrap_or_default()
}

impl Model {
    /// Calls for a change of an event, once the event and the change are known.
    pub(super) fn change_event(&mut self, mut draft: Draft, world: &World<'_>) -> Vec<Reply> {
        let now = world.now.as_ref();
        if draft.event.is_none() {
            draft.event = self.chosen(&draft, now);
        }
        let Some(event) = draft.event.clone() else {
            return match draft.choices.is_empty() {
                true => self.list_for(draft, world),
                false => self.ask_which(draft, world),
            };
        };
        let wanted = if draft.tool == CANCEL_EVENT {
            let series = draft.heard(world);
            let known = skills::Known {
                now,
                memory: &self.memory,
                arguments: &serde_json::Map::new(),
                tools: &[],
            };
            let reader = skills::of_tool(CANCEL_EVENT).and_then(|skill| skill.parameters.first());
            let said = reader.and_then(|parameter| (parameter.read)(&series, &known));
            let whole = match (event.recurs(), said) {
                (_, Some(whole)) => whole,
                (false, None) => json!(false),
                (true, None) => {
                    let asked = "whether only this one or the whole series is meant";
                    return self.ask_for(draft, "whole_series", asked, world);
                }
            };
            vec![
                ("event_id", Value::from(event.id.as_str())),
                ("title", event.title.as_str().into()),
                ("start_time", event.start.as_str().into()),
                ("whole_series", whole),
            ]
        } else {
            let Some((start, end)) = moved(&event, &target(&draft.messages, now), now) else {
                return self.ask_for(draft, "start_time", "when it shall be", world);
            };
            vec![
                ("event_id", Value::from(event.id.as_str())),
                ("title", event.title.as_str().into()),
                ("start_time", written(&start).into()),
                ("end_time", written(&end).into()),
            ]
        };
        match tools::arguments(world.tools, &draft.tool, &[], &wanted) {
            Ok(arguments) => self.call_with(draft, arguments, world),
            Err(lack) => say(format!("I cannot do that: {lack}")),
        }
    }

    /// The event that the words mean, among the known ones.
    fn chosen(&self, draft: &Draft, now: Option<&Zoned>) -> Option<Event> {
        let newest = draft.messages.last()?;
        if !draft.choices.is_empty() {
            let by_place = readers::picked(newest, draft.choices.len());
            let by_place = by_place.and_then(|index| draft.choices.get(index).cloned());
            let sought = sought(CANCEL_EVENT, newest, now);
            let fits = || {
                let mut fitting = draft.choices.iter().filter(|event| sought.fits(event, now));
                let found = fitting.next().filter(|_| !sought.is_empty())?;
                fitting.next().is_none().then(|| found.clone())
            };
            return by_place.or_else(fits);
        }
        let first = draft.messages.first()?;
        if let Some(index) = readers::picked(first, self.memory.events.len()) {
            return self.memory.events.get(index).cloned();
        }
        let sought = sought(&draft.tool, first, now);
        if sought.is_empty() {
            return self.memory.focus.clone();
        }
        if let Some(focus) = self
            .memory
            .focus
            .as_ref()
            .filter(|event| sought.fits(event, now))
        {
            return Some(focus.clone());
        }
        match self.memory.sought(&sought, now).as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    /// Lists the events of the meant time, to find the event.
    fn list_for(&mut self, draft: Draft, world: &World<'_>) -> Vec<Reply> {
        let now = world.now.as_ref();
        let first = draft.messages.first().map_or("", String::as_str);
        let day = |times: Times| {
            let day = times.first_day()?;
            let noon = day.to_datetime(jiff::civil::time(12, 0, 0, 0));
            let zone = now?.time_zone().clone();
            let noon = noon.to_zoned(zone).ok()?;
            Some((
                noon.start_of_day().ok()?,
                noon.tomorrow().ok()?.start_of_day().ok()?,
            ))
        };
        let sought = sought(&draft.tool, first, now);
        let range = match sought.times.says_hour() {
            true => day(sought.times.clone()),
            false => sought.times.range(now),
        };
        let Some((start, end)) = range.or_else(|| times::days_from(now?, DAYS_SEARCHED)) else {
            return say("I do not know today's date here, so that I cannot look for the event.");
        };
        let wanted = [
            ("start_date", Value::from(written(&start))),
            ("end_date", written(&end).into()),
            ("max_results", json!(EVENTS_MAX)),
        ];
        match tools::arguments(
            world.tools,
            LIST_EVENTS,
            &["start_date", "end_date"],
            &wanted,
        ) {
            Ok(arguments) => {
                self.stage = Stage::Finding(draft);
                ask(world.tools, LIST_EVENTS, arguments)
            }
            Err(lack) => say(format!("I cannot look for the event: {lack}")),
        }
    }

    /// Takes the listed events, among which the meant one is searched.
    pub(super) fn listed(
        &mut self,
        mut draft: Draft,
        outcome: Outcome,
        world: &World<'_>,
    ) -> Vec<Reply> {
        let data = match outcome {
            Outcome::Success(data) => data,
            other => return say(results::told(LIST_EVENTS, &other, world.now.as_ref())),
        };
        self.memory.learn(LIST_EVENTS, &data);
        let now = world.now.as_ref();
        let first = draft.messages.first().map_or("", String::as_str);
        let sought = sought(&draft.tool, first, now);
        let found = self.memory.sought(&sought, now);
        match found.as_slice() {
            [] if sought.times.is_empty() => say(format!(
                "I find no such event in the next {DAYS_SEARCHED} days. If it is later, please say on which day."
            )),
            [] => say("I find no such event in the calendar then."),
            [only] => {
                draft.event = Some(only.clone());
                self.change_event(draft, world)
            }
            _ => {
                draft.choices = found;
                self.ask_which(draft, world)
            }
        }
    }

    fn ask_which(&mut self, draft: Draft, world: &World<'_>) -> Vec<Reply> {
        let names: Vec<String> = draft
            .choices
            .iter()
            .take(CHOICES_MAX)
            .enumerate()
            .map(|(index, event)| format!("{}) {}", index + 1, event.name(world.now.as_ref())))
            .collect();
        let left = draft.choices.len().saturating_sub(CHOICES_MAX);
        let more = if left > 0 {
            format!(", or one of {left} more")
        } else {
            String::new()
        };
        let asked = format!("which one you mean: {}{more}", names.join("; "));
        self.ask_for(draft, EVENT, &asked, world)
    }
}

/// Start and end of an event after the move. It keeps its length unless the words give another.
fn moved(event: &Event, target: &Times, now: Option<&Zoned>) -> Option<(Zoned, Zoned)> {
    let old = times::parsed(&event.start, now)?;
    let start = target.moved(&old)?;
    let length = || {
        let end = times::parsed(&event.end, now)?;
        let seconds = end.timestamp().as_second() - old.timestamp().as_second();
        (seconds > 0).then_some(seconds / 60)
    };
    let said = target.end(&start);
    let end = said.or_else(|| times::later(&start, length().unwrap_or(times::MINUTES_USUAL)))?;
    Some((start, end))
}
