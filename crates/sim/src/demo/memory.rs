//! The things in a conversation that the user may refer to: slots, events, drafts, pictures, a list. Knows the results of the built-in
//! tools, and no sentence.

use super::times::{Times, parsed, told};
use super::words::alike;
use jiff::Zoned;
use serde_json::Value;
use std::collections::VecDeque;

/// The most things of a kind that are remembered; the tools list no more.
const KEPT_MAX: usize = 100;
/// The most messages of the user that are passed on to a person.
const SAID_MAX: usize = 6;
const SAID_CHARACTERS_MAX: usize = 400;
/// The most characters of a title in an answer.
const TITLE_CHARACTERS_MAX: usize = 80;

/// A free time, as it was offered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slot {
    pub(super) start: String,
    pub(super) end: String,
}

/// An event, as it was listed or made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Event {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) start: String,
    pub(super) end: String,
    attendees: Vec<String>,
}

impl Event {
    /// `None` where it has no id for a change.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let attendees = value.get("attendees").and_then(Value::as_array);
        let attendees = attendees.into_iter().flatten().filter_map(Value::as_str);
        (!text("event_id").is_empty()).then(|| Self {
            id: text("event_id").to_owned(),
            title: text("title").to_owned(),
            start: text("start").to_owned(),
            end: text("end").to_owned(),
            attendees: attendees.take(KEPT_MAX).map(str::to_owned).collect(),
        })
    }

    /// The event's name for the user.
    pub(super) fn name(&self, now: Option<&Zoned>) -> String {
        let title = if self.title.is_empty() {
            "without a title"
        } else {
            &self.title
        };
        let title: String = title.chars().take(TITLE_CHARACTERS_MAX).collect();
        format!("“{title}”, {}", told(&self.start, &self.end, now))
    }

    /// Whether the event recurs. An occurrence's id has its time after the series' id, behind `/` in files and `_` at Google.
    pub(super) fn recurs(&self) -> bool {
        let last = self.id.rsplit_once(['/', '_']).map(|(_, last)| last);
        let is_time = |last: &str| {
            let day = last.as_bytes().get(..8);
            day.is_some_and(|day| day.iter().all(u8::is_ascii_digit))
        };
        last.is_some_and(is_time)
    }
}

/// The marks in a user's words that distinguish an event from others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sought {
    /// Words of its title, or of its guests' names.
    pub(super) words: Vec<String>,
    pub(super) times: Times,
}

impl Sought {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.times.is_empty()
    }

    pub(super) fn fits(&self, event: &Event, now: Option<&Zoned>) -> bool {
        let title = event.title.split(|sign: char| !sign.is_alphanumeric());
        let people = event.attendees.iter().flat_map(|who| who.split(['@', '.']));
        let named: Vec<&str> = title
            .chain(people)
            .filter(|word| !word.is_empty())
            .collect();
        let has = |word: &String| named.iter().any(|other| alike(word, other));
        self.words.iter().all(has) && self.is_then(event, now)
    }

    fn is_then(&self, event: &Event, now: Option<&Zoned>) -> bool {
        if self.times.is_empty() {
            return true;
        }
        let Some(start) = parsed(&event.start, now) else {
            return false;
        };
        let hour_fits = !self.times.says_hour()
            || self
                .times
                .moved(&start)
                .is_some_and(|said| said.time() == start.time());
        let range = self.times.range(now).filter(|_| !self.times.says_hour());
        let day_fits = match range {
            Some((from, to)) => from <= start && start < to,
            None => self.times.first_day().is_none_or(|day| day == start.date()),
        };
        hour_fits && day_fits
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub(super) offers: Vec<Slot>,
    pub(super) events: Vec<Event>,
    /// The last event of the conversation.
    pub(super) focus: Option<Event>,
    /// Prompts for a picture, to choose from.
    pub(super) drafts: Vec<String>,
    pub(super) picture: Option<String>,
    /// A tool's last list, for sorting it.
    pub(super) list: Vec<Value>,
    /// The user's last messages, the newest at the end.
    pub(super) said: VecDeque<String>,
}

impl Memory {
    pub(super) fn note_said(&mut self, text: &str) {
        if self.said.len() == SAID_MAX {
            self.said.pop_front();
        }
        self.said
            .push_back(text.trim().chars().take(SAID_CHARACTERS_MAX).collect());
    }

    /// The events that match.
    pub(super) fn sought(&self, sought: &Sought, now: Option<&Zoned>) -> Vec<Event> {
        let fitting = self.events.iter().filter(|event| sought.fits(event, now));
        fitting.cloned().collect()
    }

    /// Remembers the contents of a result.
    pub(super) fn learn(&mut self, tool: &str, data: &Value) {
        let list = |key: &str| {
            let list = data.get(key).and_then(Value::as_array);
            list.into_iter().flatten().take(KEPT_MAX)
        };
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        for key in ["items", "results", "available_slots"] {
            if data.get(key).is_some_and(Value::is_array) {
                self.list = list(key).filter(|item| item.is_object()).cloned().collect();
            }
        }
        match tool {
            "calendar_get_availability" => {
                let slots = list("available_slots");
                let slot = |slot: &Value| {
                    let (start, end) = (text(slot, "start")?, text(slot, "end")?);
                    Some(Slot { start, end })
                };
                self.offers = slots.filter_map(slot).collect();
            }
            "calendar_list_events" => {
                self.events = list("items").filter_map(Event::of).collect();
                self.focus = match self.events.as_slice() {
                    [only] => Some(only.clone()),
                    _ => None,
                };
            }
            "calendar_create_event" | "calendar_move_event" => {
                let event = data.get("event").and_then(Event::of);
                if let Some(event) = event {
                    self.offers.clear();
                    self.events.retain(|other| other.id != event.id);
                    if self.events.len() == KEPT_MAX {
                        self.events.remove(0);
                    }
                    self.events.push(event.clone());
                    self.focus = Some(event);
                }
            }
            "calendar_cancel_event" => {
                let id = data.get("event").and_then(|event| text(event, "event_id"));
                self.events.retain(|event| Some(&event.id) != id.as_ref());
                self.focus = None;
            }
            "image_draft_prompt" => {
                self.drafts = list("variants")
                    .filter_map(|draft| text(draft, "prompt"))
                    .collect();
            }
            "image_generate" => {
                let first = list("pictures").next();
                self.picture = first.and_then(|picture| text(picture, "image_url"));
                self.drafts.clear();
            }
            _ => {}
        }
    }
}
