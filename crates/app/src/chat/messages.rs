//! The log of a conversation as messages of the AI SDK: the user's words, and the model's words and calls. Pure; knows no store and no
//! HTTP.

use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use windlass_contract::envelope::rfc3339;
use windlass_contract::error::ErrorType;
use windlass_contract::id::{CallNumber, SessionId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_session::client::{Citation, Image, MessageKey};
use windlass_session::log_text::{Said, TicketReply};
use windlass_session::model::Role;
use windlass_store::{Entry, EntryEvent, EntryNumber, Question, QuestionState};

/// The text of an approval that no longer counts.
const NOT_VALID: &str = "this approval is not valid, or not valid any more";

/// The part of a message that shows a person's answer to a ticket.
const TICKET_REPLY: &str = "data-ticket-reply";

/// An entry of the log, read once.
pub(super) struct Line {
    pub(super) entry: Entry,
    said: Option<Said>,
}

impl Line {
    pub(super) fn of(entry: Entry) -> Self {
        Self {
            said: Said::of(&entry),
            entry,
        }
    }

    pub(super) fn begins_message(&self) -> bool {
        matches!(
            self.said,
            Some(Said::Words {
                role: Role::User,
                ..
            })
        )
    }

    /// About how many bytes of memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match &self.entry.event {
            EntryEvent::Said(text) => text.expose().len(),
            _ => 0,
        }
    }
}

/// An approval request about a call.
#[derive(Clone, Debug)]
pub(super) struct AskedApproval {
    pub(super) question: Question,
    /// It waits for its answer.
    pub(super) is_open: bool,
    /// The token that answers it, for a client that may.
    pub(super) token: Option<Sensitive<String>>,
}

/// The parts of messages that are not in the log.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    pub(super) asked: BTreeMap<CallNumber, AskedApproval>,
    /// The answer that is being written stands after this entry; its own stream has it.
    pub(super) written_behind: Option<EntryNumber>,
}

/// A message that is being built.
pub(super) struct ShownMessage {
    /// Its first entry.
    pub(super) first: EntryNumber,
    is_users: bool,
    id: Option<String>,
    turn: u64,
    at_unix_ms: u64,
    mode: Option<Mode>,
    /// `None` where another answer replaced the part.
    parts: Vec<Option<Value>>,
}

impl ShownMessage {
    pub(super) fn is_users(&self) -> bool {
        self.is_users
    }

    /// The message in the SDK's form.
    pub(super) fn json(self) -> Value {
        let id = self.id.unwrap_or_else(|| format!("entry-{}", self.first.0));
        let mut metadata = json!({"turn": self.turn, "at": rfc3339(self.at_unix_ms)});
        if let Some(mode) = self.mode {
            metadata["mode"] = mode.as_str().into();
        }
        let role = if self.is_users { "user" } else { "assistant" };
        let parts: Vec<Value> = self.parts.into_iter().flatten().collect();
        json!({"id": id, "role": role, "metadata": metadata, "parts": parts})
    }
}

/// The messages of a piece of the log, oldest first.
pub(super) fn messages(lines: &[Line], surroundings: &Surroundings) -> Vec<ShownMessage> {
    let mut messages = Messages {
        surroundings,
        ids: ids_of(lines),
        modes: HashMap::new(),
        shown: Vec::new(),
        users: HashMap::new(),
        calls: HashMap::new(),
    };
    for line in lines {
        messages.line(line);
    }
    let has_parts = |message: &ShownMessage| message.parts.iter().any(Option::is_some);
    messages.shown.retain(has_parts);
    messages.shown
}

/// The ids that clients gave to messages, as far as their kept answers say them.
fn ids_of(lines: &[Line]) -> HashMap<String, String> {
    let mut ids = HashMap::new();
    for line in lines {
        let Some(Said::Answered { message, body }) = &line.said else {
            continue;
        };
        let content = body.get("content").and_then(Value::as_str);
        if let Some(content) = content
            && body.get("stream").is_some()
        {
            let key = MessageKey::of(&format!("{message} {content}"));
            ids.insert(key.into(), message.clone());
        }
    }
    ids
}

struct Messages<'a> {
    surroundings: &'a Surroundings,
    ids: HashMap<String, String>,
    modes: HashMap<&'a SessionId, Mode>,
    shown: Vec<ShownMessage>,
    /// The positions of the user's messages, by their keys.
    users: HashMap<String, usize>,
    /// The positions of the parts of calls.
    calls: HashMap<CallNumber, (usize, usize)>,
}

impl<'a> Messages<'a> {
    fn line(&mut self, line: &'a Line) {
        let entry = &line.entry;
        if let (EntryEvent::Attached(mode), Some(leg)) = (&entry.event, &entry.leg) {
            self.modes.insert(leg, *mode);
        }
        let written_behind = self.surroundings.written_behind;
        let is_written = written_behind.is_some_and(|last| entry.number > last);
        match &line.said {
            Some(Said::Words {
                role: Role::User,
                text,
                turn,
                message,
                ..
            }) => self.user(entry, text.expose(), *turn, *message),
            Some(Said::Words {
                role: Role::Assistant,
                text,
                turn,
                citations,
                images,
                ..
            }) if !is_written => {
                let message = self.answer(entry, *turn);
                message.parts.extend(citations.iter().map(source).map(Some));
                message.parts.extend(images.iter().map(file).map(Some));
                if !text.expose().is_empty() {
                    let words = json!({"type": "text", "text": text.expose(), "state": "done"});
                    message.parts.push(Some(words));
                }
            }
            Some(said @ Said::Call { .. }) if !is_written => self.call(entry, said),
            // No stream has it: it is of no turn.
            Some(Said::TicketReply(reply)) => self.ticket_reply(entry, reply),
            Some(
                Said::Words { .. }
                | Said::Call { .. }
                | Said::Notice { .. }
                | Said::Answered { .. }
                | Said::Summary { .. }
                | Said::State { .. }
                | Said::ContextWarned { .. },
            )
            | None => {}
        }
    }

    fn ticket_reply(&mut self, entry: &Entry, reply: &TicketReply) {
        let turn = self.shown.last().map_or(0, |message| message.turn);
        let part = json!({
            "type": TICKET_REPLY,
            "id": format!("entry-{}", entry.number.0),
            "data": {
                "ticketId": reply.ticket,
                "author": reply.author,
                "text": reply.text.expose(),
                "at": rfc3339(entry.at_unix_ms),
            },
        });
        self.answer(entry, turn).parts.push(Some(part));
    }

    fn user(&mut self, entry: &Entry, text: &str, turn: u64, message: Option<MessageKey>) {
        let key = message.map(String::from);
        if let Some(first) = key.as_ref().and_then(|key| self.users.get(key)) {
            // The same message, sent again: from here on, new parts replace the old answer.
            for answer in &mut self.shown[first + 1..] {
                let parts = answer.parts.iter_mut().filter(|_| !answer.is_users);
                for part in parts {
                    let stays = |part: &Value| {
                        part["type"] == "dynamic-tool" || part["type"] == TICKET_REPLY
                    };
                    *part = part.take().filter(stays);
                }
            }
            return;
        }
        let id = key.as_ref().and_then(|key| self.ids.get(key)).cloned();
        // The newest form of an edited message has the client's id: no two messages may have the same.
        if id.is_some() {
            let mut shown = self.shown.iter_mut();
            if let Some(older) = shown.find(|older| older.id == id) {
                older.id = None;
            }
        }
        if let Some(key) = key {
            self.users.insert(key, self.shown.len());
        }
        self.begin(entry, true, turn);
        if let Some(message) = self.shown.last_mut() {
            message.id = id;
            message
                .parts
                .push(Some(json!({"type": "text", "text": text})));
        }
    }

    fn begin(&mut self, entry: &Entry, is_users: bool, turn: u64) {
        let mode = entry.leg.as_ref().and_then(|leg| self.modes.get(leg));
        self.shown.push(ShownMessage {
            first: entry.number,
            is_users,
            id: None,
            turn,
            at_unix_ms: entry.at_unix_ms,
            mode: mode.copied(),
            parts: Vec::new(),
        });
    }

    /// The model's message that goes on, or a new one behind the user's.
    fn answer(&mut self, entry: &Entry, turn: u64) -> &mut ShownMessage {
        if self.shown.last().is_none_or(ShownMessage::is_users) {
            self.begin(entry, false, turn);
        }
        self.shown.last_mut().expect("a message was begun")
    }

    /// A call, or news of a call that is shown already: its end is shown where the user was asked about it.
    fn call(&mut self, entry: &Entry, said: &Said) {
        let Said::Call {
            call,
            tool,
            turn,
            arguments,
            result,
            error,
            duration_ms,
            ..
        } = said
        else {
            return;
        };
        let asked = self.surroundings.asked.get(call);
        let known = self.calls.get(call).copied();
        let before = known.and_then(|(message, part)| self.shown[message].parts[part].clone());
        let input = arguments
            .as_ref()
            .map(|arguments| arguments.expose().clone());
        let input = input.or_else(|| before.map(|mut before| before["input"].take()));
        let input = input.or_else(|| asked.and_then(arguments_of));
        let details = json!({"at": rfc3339(entry.at_unix_ms), "durationMs": duration_ms});
        let mut part = json!({
            "type": "dynamic-tool",
            "toolName": tool,
            "toolCallId": call.to_string(),
            "input": input.unwrap_or_else(|| json!({})),
            "callProviderMetadata": {"windlass": details},
        });
        match error {
            None => {
                part["state"] = "output-available".into();
                part["output"] = result.expose().get("data").cloned().unwrap_or_default();
            }
            Some(ErrorType::ConfirmationRequired) => await_approval(&mut part, asked, result),
            Some(ErrorType::ConfirmationDeclined) => deny(&mut part, asked),
            Some(error) => {
                let message = result.expose()["message"].as_str().unwrap_or_default();
                fail(&mut part, *error, message);
            }
        }
        match known {
            Some((message, at)) => self.shown[message].parts[at] = Some(part),
            None => {
                let message = self.answer(entry, *turn);
                message.parts.push(Some(part));
                let at = message.parts.len() - 1;
                self.calls.insert(*call, (self.shown.len() - 1, at));
            }
        }
    }
}

/// Sets the state of a call's part by its approval request, for a call without an end in the log.
fn await_approval(part: &mut Value, asked: Option<&AskedApproval>, result: &Sensitive<Value>) {
    let Some(asked) = asked else {
        return fail(part, ErrorType::ConfirmationExpired, NOT_VALID);
    };
    match (asked.question.state, &asked.token) {
        (QuestionState::Open, Some(token)) if asked.is_open => {
            part["state"] = "approval-requested".into();
            part["approval"] = json!({"id": token.expose()});
        }
        (QuestionState::Open, None) if asked.is_open => {
            let message = result.expose()["message"].as_str().unwrap_or_default();
            fail(part, ErrorType::ConfirmationRequired, message);
        }
        (QuestionState::Approved, _) => {
            part["state"] = "approval-responded".into();
            part["approval"] = json!({"id": approval_id(asked), "approved": true});
        }
        (QuestionState::Denied, _) => deny(part, Some(asked)),
        (QuestionState::Open | QuestionState::Closed, _) => {
            fail(part, ErrorType::ConfirmationExpired, NOT_VALID);
        }
    }
}

fn deny(part: &mut Value, asked: Option<&AskedApproval>) {
    part["state"] = "output-denied".into();
    let id = asked.map_or_else(String::new, approval_id);
    part["approval"] = json!({"id": id, "approved": false});
    if let Some(reason) = asked.and_then(|asked| asked.question.reason.as_ref()) {
        part["approval"]["reason"] = reason.expose().as_str().into();
    }
}

fn fail(part: &mut Value, error: ErrorType, message: &str) {
    part["state"] = "output-error".into();
    part["errorText"] = format!("{}: {message}", error.code()).into();
}

/// The name of an approval request that is answered. It opens nothing.
fn approval_id(asked: &AskedApproval) -> String {
    format!("approval-{}", asked.question.number.0)
}

fn arguments_of(asked: &AskedApproval) -> Option<Value> {
    serde_json::from_str(asked.question.arguments.expose()).ok()
}

fn source(citation: &Citation) -> Value {
    match &citation.url {
        Some(url) => json!({
            "type": "source-url", "sourceId": citation.id, "url": url, "title": citation.title,
        }),
        None => json!({
            "type": "source-document", "sourceId": citation.id, "mediaType": "text/markdown",
            "title": citation.title,
        }),
    }
}

fn file(image: &Image) -> Value {
    let mut part = json!({"type": "file", "mediaType": "image/*", "url": image.url});
    if let Some(caption) = &image.caption {
        part["providerMetadata"] = json!({"windlass": {"caption": caption}});
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_store::LegNumber;

    fn line(number: u64, event: EntryEvent) -> Line {
        Line::of(Entry {
            number: EntryNumber(number),
            at_unix_ms: 1_700_000_000_000,
            leg: Some(SessionId::new("s-1")),
            leg_number: Some(LegNumber(number)),
            key: None,
            event,
        })
    }

    fn words(role: Role, text: &str, message: Option<&str>) -> EntryEvent {
        Said::Words {
            role,
            text: Sensitive(text.to_owned()),
            turn: 1,
            message: message.map(MessageKey::of),
            citations: Vec::new(),
            images: Vec::new(),
        }
        .event()
    }

    fn call(number: u64, result: Value, error: Option<ErrorType>) -> EntryEvent {
        Said::Call {
            call: CallNumber(number),
            tool: "order".to_owned(),
            turn: 1,
            arguments: Some(Sensitive(json!({"item": "tea"}))),
            result: Sensitive(result),
            error,
            duration_ms: 12,
            is_external: false,
        }
        .event()
    }

    fn answered(message: &str, content: &str) -> EntryEvent {
        let said = Said::Answered {
            message: message.to_owned(),
            body: json!({"content": content, "stream": "data: …"}),
        };
        said.event()
    }

    fn shown(lines: &[Line], surroundings: &Surroundings) -> Value {
        let messages = messages(lines, surroundings).into_iter();
        messages.map(ShownMessage::json).collect()
    }

    #[test]
    fn a_log_is_the_messages_of_user_and_model() {
        let required = Some(ErrorType::ConfirmationRequired);
        let notice = Said::Notice {
            text: Sensitive("for the model".to_owned()),
        };
        let lines = [
            line(1, EntryEvent::Attached(Mode::Text)),
            line(2, words(Role::User, "Order it.", Some("m-1 ab"))),
            line(3, words(Role::Assistant, "A moment.", None)),
            line(4, call(3, json!({"message": "ask"}), required)),
            line(5, notice.event()),
            line(6, words(Role::Assistant, "Shall I?", None)),
            line(7, answered("m-1", "ab")),
            line(8, call(3, json!({"data": {"number": 1}}), None)),
            line(9, words(Role::Assistant, "Done.", None)),
            line(10, words(Role::User, "Thanks.", None)),
        ];
        let at = "2023-11-14T22:13:20.000Z";
        let metadata = json!({"turn": 1, "at": at, "mode": "text"});
        let text = |text| json!({"type": "text", "text": text, "state": "done"});
        assert_eq!(
            shown(&lines, &Surroundings::default()),
            json!([
                {"id": "m-1", "role": "user", "metadata": metadata, "parts": [{"type": "text", "text": "Order it."}]},
                {"id": "entry-3", "role": "assistant", "metadata": metadata, "parts": [
                    text("A moment."),
                    {"type": "dynamic-tool", "toolName": "order", "toolCallId": "call-3", "state": "output-available",
                        "input": {"item": "tea"}, "output": {"number": 1},
                        "callProviderMetadata": {"windlass": {"at": at, "durationMs": 12}}},
                    text("Shall I?"),
                    text("Done."),
                ]},
                {"id": "entry-10", "role": "user", "metadata": metadata, "parts": [{"type": "text", "text": "Thanks."}]},
            ])
        );
    }

    #[test]
    fn a_persons_answer_is_shown_where_it_came_and_stays() {
        let reply = Said::TicketReply(TicketReply {
            ticket: "tk1".to_owned(),
            author: Some("Maya".to_owned()),
            text: Sensitive("It is on its way.".to_owned()),
        });
        let lines = [
            line(2, words(Role::User, "Where is it?", Some("m"))),
            line(3, words(Role::Assistant, "I have asked.", None)),
            line(4, reply.event()),
            line(5, words(Role::User, "Where is it?", Some("m"))),
            line(6, words(Role::Assistant, "On its way.", None)),
        ];
        let shown = shown(&lines, &Surroundings::default());
        let data = json!({
            "ticketId": "tk1", "author": "Maya", "text": "It is on its way.", "at": "2023-11-14T22:13:20.000Z",
        });
        assert_eq!(
            shown[1]["parts"],
            json!([
                {"type": "data-ticket-reply", "id": "entry-4", "data": data},
                {"type": "text", "text": "On its way.", "state": "done"},
            ])
        );
    }

    #[test]
    fn another_answer_takes_the_place_of_what_was_said_and_of_nothing_that_was_done() {
        let lines = [
            line(2, words(Role::User, "Order it.", Some("m"))),
            line(3, call(3, json!({"data": 1}), None)),
            line(4, words(Role::Assistant, "Done.", None)),
            line(5, words(Role::User, "Order it.", Some("m"))),
            line(6, words(Role::Assistant, "It is ordered.", None)),
        ];
        let shown = shown(&lines, &Surroundings::default());
        assert_eq!(shown.as_array().unwrap().len(), 2, "{shown}");
        let parts = shown[1]["parts"].as_array().unwrap();
        let kinds: Vec<&Value> = parts.iter().map(|part| &part["type"]).collect();
        assert_eq!(kinds, ["dynamic-tool", "text"]);
        assert_eq!(parts[1]["text"], "It is ordered.");
    }

    #[test]
    fn the_answer_that_is_being_written_is_left_to_its_stream() {
        let lines = [
            line(2, words(Role::User, "One.", None)),
            line(3, words(Role::Assistant, "First.", None)),
            line(4, words(Role::User, "Two.", None)),
            line(5, words(Role::Assistant, "Sec", None)),
            line(6, call(1, json!({"data": 1}), None)),
        ];
        let surroundings = Surroundings {
            written_behind: Some(EntryNumber(3)),
            ..Surroundings::default()
        };
        let shown = shown(&lines, &surroundings);
        let roles: Vec<&Value> = shown
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["role"])
            .collect();
        assert_eq!(roles, ["user", "assistant", "user"]);
    }

    #[test]
    fn two_forms_of_an_edited_message_have_two_ids() {
        let lines = [
            line(1, words(Role::User, "Order te.", Some("m a"))),
            line(2, answered("m", "a")),
            line(3, words(Role::User, "Order tea.", Some("m b"))),
            line(4, answered("m", "b")),
        ];
        let shown = shown(&lines, &Surroundings::default());
        assert_eq!(
            (&shown[0]["id"], &shown[1]["id"]),
            (&json!("entry-1"), &json!("m"))
        );
    }
}
