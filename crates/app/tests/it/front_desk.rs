//! Front-desk dialogues by text with the model that needs no key. Each ends with what is planned, and the calendar's file holds exactly
//! the events that these last words say.

use crate::calendars::project;
use crate::chat::{chunks, question, words};
use crate::support::http::{HttpAnswer, post};
use crate::support::program::{Running, command};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use windlass_calendar::{Status, expand, read, zone};

const ZONE: &str = "Europe/Oslo";
const ASKED: &str = "calendar_create_event waits for your yes: nothing has been done yet.";
const MADE: &str = "The event has no conference link, because no conference service is configured.";

/// The server of a project with a calendar, and one conversation with it.
struct Desk {
    project: TempDir,
    _server: Running,
    address: String,
    /// The questions that were asked, in their order: tool and token.
    questions: Vec<(String, String)>,
}

impl Desk {
    fn open() -> Self {
        let project = project();
        let configuration = project.path().join("windlass.toml");
        let text = fs::read_to_string(&configuration).unwrap();
        let in_oslo = text.replace("zone = \"UTC\"", &format!("zone = \"{ZONE}\""));
        assert_ne!(in_oslo, text);
        fs::write(&configuration, in_oslo).unwrap();
        let mut serve = command(project.path());
        serve.args(["serve", "--listen", "127.0.0.1:0", "--provider", "demo"]);
        let mut server = Running::start(&mut serve);
        Self {
            address: server.address(),
            project,
            _server: server,
            questions: Vec::new(),
        }
    }

    fn ask(&mut self, mut body: Value) -> String {
        body["id"] = "c-desk".into();
        body["timeZone"] = ZONE.into();
        let answer = post(&self.address, "/api/chat", body.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
        self.keep_question(&answer);
        words(&answer)
    }

    fn keep_question(&mut self, answer: &HttpAnswer) {
        let is_asked = |chunk: &Value| chunk["type"] == "tool-approval-request";
        if !chunks(answer).iter().any(is_asked) {
            return;
        }
        let asked = question(answer);
        let text = |name: &str| asked[name].as_str().unwrap().to_owned();
        let asked = (text("tool"), text("token"));
        // A question that is open is shown again where the same is wanted again.
        if !self.questions.contains(&asked) {
            self.questions.push(asked);
        }
    }

    /// Answers a question, as a client's page does.
    fn answer(&mut self, number: usize, approved: bool, reason: &str) -> String {
        let question = self.questions.get(number - 1);
        let (tool, token) =
            question.unwrap_or_else(|| panic!("no question {number} of {:?}", self.questions));
        let mut approval = json!({"id": token, "approved": approved});
        if !reason.is_empty() {
            approval["reason"] = reason.into();
        }
        let part = json!({
            "type": "dynamic-tool", "toolName": tool, "toolCallId": format!("call-{number}"),
            "state": "approval-responded", "input": {}, "approval": approval,
        });
        let message = json!({"id": "m", "role": "assistant", "parts": [part]});
        self.ask(json!({"messages": [message]}))
    }

    /// One line of a dialogue that is not the model's.
    fn hear(&mut self, line: &str) -> String {
        let (who, said) = line.split_once(": ").unwrap();
        let (number, reason) = said.split_once(' ').unwrap_or((said, ""));
        match who {
            "user" => self.ask(json!({"message": said})),
            "yes" => self.answer(number.parse().unwrap(), true, reason),
            "no" => self.answer(number.parse().unwrap(), false, reason),
            _ => panic!("nobody is called {who}"),
        }
    }
}

/// What a calendar's file has planned, in the words of the model.
fn planned(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let zone = zone(ZONE).unwrap();
    let calendar = read(&text, &zone);
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let (from, to) = (at("2000-01-01T00:00:00Z"), at("2199-01-01T00:00:00Z"));
    let (mut found, problems) = expand(&calendar, &zone, from, to).unwrap();
    assert_eq!(problems.len(), 0, "{text}");
    found.retain(|found| found.event.status != Status::Cancelled);
    found.sort_by_key(|found| found.start);
    let events: Vec<String> = found
        .iter()
        .map(|found| {
            let [start, end] = [found.start, found.end].map(|at| at.to_zoned(zone.clone()));
            let title = found.event.summary.as_deref().unwrap();
            format!(
                "“{title}”, {} to {}",
                start.strftime("%A %-d %B %Y, %H:%M"),
                end.strftime("%H:%M")
            )
        })
        .collect();
    match events.as_slice() {
        [] => "Nothing is planned then.".to_owned(),
        [only] => format!("You have {only}."),
        events => {
            let numbered = events.iter().enumerate();
            let numbered: Vec<String> = numbered
                .map(|(index, event)| format!("{}) {event}", index + 1))
                .collect();
            format!("You have {} events: {}.", events.len(), numbered.join("; "))
        }
    }
}

/// Holds a dialogue: `user:`, `yes:` and `no:` (with the question's number, and a reason) go in, `says:` has to come out.
fn hold(dialogue: &str) {
    let mut desk = Desk::open();
    let mut held = String::new();
    let mut last = String::new();
    let lines = dialogue
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    for line in lines.clone() {
        if line.starts_with("says: ") {
            continue;
        }
        last = desk.hear(line);
        held.push_str(&format!("{line}\nsays: {last}\n"));
    }
    assert_eq!(
        held.lines().collect::<Vec<_>>(),
        lines.collect::<Vec<_>>(),
        "\n{held}"
    );
    let file = desk.project.path().join("data/calendars/primary.ics");
    assert_eq!(planned(&file), last, "\n{held}");
}

/// The dialogue with the model's usual sentences put in.
fn usual(dialogue: &str) -> String {
    dialogue.replace("ASKED", ASKED).replace("MADE", MADE)
}

#[test]
fn slots_are_listed_and_one_is_booked_after_the_users_yes() {
    hold(&usual(
        "
        user: Am I free on 5 July 2090 between 9 am and 12 pm?
        says: Free is Wednesday 5 July 2090, 09:00 to 12:00. Shall I book it?
        user: Book the first one for \"Fram review\" with maud@example.org
        says: ASKED
        user: What do I have on 5 July 2090?
        says: Nothing is planned then.
        yes: 1
        says: Something has changed since you were asked, so that nothing was done. Please answer the new question.
        yes: 2
        says: You said yes. “Fram review” is in the calendar: Wednesday 5 July 2090, 09:00 to 10:00. MADE
        user: Am I free on 5 July 2090 between 8 am and 12 pm?
        says: Free are 1) Wednesday 5 July 2090, 08:00 to 09:00; 2) Wednesday 5 July 2090, 10:00 to 12:00. Which one shall I book?
        user: The second one.
        says: Please tell me the e-mail addresses of those who take part.
        user: bob@example.org
        says: ASKED
        yes: 3
        says: You said yes. “Meeting” is in the calendar: Wednesday 5 July 2090, 10:00 to 11:00. MADE
        user: What do I have on 5 July 2090?
        says: You have 2 events: 1) “Fram review”, Wednesday 5 July 2090, 09:00 to 10:00; 2) “Meeting”, Wednesday 5 July 2090, 10:00 to 11:00.
        ",
    ));
}

#[test]
fn a_booking_that_is_denied_is_not_made() {
    hold(&usual(
        "
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 10 am with anna@example.org
        says: ASKED
        no: 1 too early
        says: You said no to calendar_create_event, and it has not run. Your words were: “too early”.
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 11 am with anna@example.org
        says: ASKED
        no: 2
        says: You said no to calendar_create_event, and it has not run.
        yes: 1
        says: You said no to calendar_create_event, and it has not run. Your words were: “too early”.
        user: What do I have on 5 July 2090?
        says: Nothing is planned then.
        ",
    ));
}

#[test]
fn a_booking_that_is_asked_for_twice_is_made_once() {
    hold(&usual(
        "
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 10 am with anna@example.org
        says: ASKED
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 10 am with anna@example.org
        says: ASKED
        yes: 1
        says: You said yes. “Kick-off” is in the calendar: Wednesday 5 July 2090, 10:00 to 11:00. MADE
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 10 am with anna@example.org
        says: calendar_create_event was done before, and was not done again: it waits for your yes to do it once more.
        yes: 2
        says: You said yes to calendar_create_event, but it did not work: The time is taken; nothing was changed.
        user: What do I have on 5 July 2090?
        says: You have “Kick-off”, Wednesday 5 July 2090, 10:00 to 11:00.
        ",
    ));
}

#[test]
fn a_change_of_mind_while_the_question_is_open_makes_the_last_wish_alone() {
    hold(&usual(
        "
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 10 am with anna@example.org
        says: ASKED
        user: yes
        says: Please answer the question that you are shown: a yes in words is no approval.
        user: Actually, make it 2 pm.
        says: ASKED Please say no to the question before it.
        no: 1
        says: You said no to calendar_create_event, and it has not run.
        user: Actually, make it 3 pm.
        says: ASKED Please say no to the question before it.
        no: 2 three is better
        says: You said no to calendar_create_event, and it has not run. Your words were: “three is better”.
        yes: 3
        says: You said yes. “Kick-off” is in the calendar: Wednesday 5 July 2090, 15:00 to 16:00. MADE
        user: What do I have on 5 July 2090?
        says: You have “Kick-off”, Wednesday 5 July 2090, 15:00 to 16:00.
        ",
    ));
}

#[test]
fn a_wish_that_is_given_up_while_the_question_is_open_is_not_made() {
    hold(&usual(
        "
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 10 am with anna@example.org
        says: ASKED
        user: Never mind
        says: Then please say no to the question that you are shown: without your yes nothing is done.
        user: What do I have on 5 July 2090?
        says: Nothing is planned then.
        no: 1
        says: You said no to calendar_create_event, and it has not run.
        user: What do I have on 5 July 2090?
        says: Nothing is planned then.
        ",
    ));
}

#[test]
fn an_event_is_moved_and_cancelled_once_the_user_agrees() {
    let change = |tool: &str| format!("{tool} waits for your yes: nothing has been done yet.");
    let dialogue = usual(
        "
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 10 am with anna@example.org
        says: ASKED
        yes: 1
        says: You said yes. “Kick-off” is in the calendar: Wednesday 5 July 2090, 10:00 to 11:00. MADE
        user: Book a call \"Tea\" on 5 July 2090 at 1 pm with bob@example.org
        says: ASKED
        yes: 2
        says: You said yes. “Tea” is in the calendar: Wednesday 5 July 2090, 13:00 to 14:00. MADE
        user: Move the Kick-off to 5 July 2090 at 4 pm
        says: MOVE
        no: 3 I stay
        says: You said no to calendar_move_event, and it has not run. Your words were: “I stay”.
        user: Move the Kick-off to 5 July 2090 at 4 pm
        says: MOVE
        user: No, at 5 pm instead.
        says: MOVE Please say no to the question before it.
        no: 4
        says: You said no to calendar_move_event, and it has not run.
        yes: 5
        says: You said yes. “Kick-off” was moved: Wednesday 5 July 2090, 17:00 to 18:00.
        user: Make it an hour later.
        says: MOVE
        yes: 6
        says: You said yes. “Kick-off” was moved: Wednesday 5 July 2090, 18:00 to 19:00.
        user: Cancel the Tea
        says: CANCEL
        no: 7 I come after all
        says: You said no to calendar_cancel_event, and it has not run. Your words were: “I come after all”.
        user: What do I have on 5 July 2090?
        says: You have 2 events: 1) “Tea”, Wednesday 5 July 2090, 13:00 to 14:00; 2) “Kick-off”, Wednesday 5 July 2090, 18:00 to 19:00.
        user: Cancel the Tea
        says: CANCEL
        yes: 8
        says: You said yes. “Tea” is cancelled: Wednesday 5 July 2090, 13:00 to 14:00.
        user: Cancel the Tea
        says: I find no such event in the next 31 days. If it is later, please say on which day.
        user: Cancel the Tea on 5 July 2090
        says: I find no such event in the calendar then.
        user: What do I have on 5 July 2090?
        says: You have “Kick-off”, Wednesday 5 July 2090, 18:00 to 19:00.
        ",
    );
    let dialogue = dialogue.replace("MOVE", &change("calendar_move_event"));
    hold(&dialogue.replace("CANCEL", &change("calendar_cancel_event")));
}

#[test]
fn a_taken_time_is_neither_booked_nor_moved_to() {
    hold(&usual(
        "
        user: Book a meeting \"Kick-off\" on 5 July 2090 at 10 am with anna@example.org
        says: ASKED
        yes: 1
        says: You said yes. “Kick-off” is in the calendar: Wednesday 5 July 2090, 10:00 to 11:00. MADE
        user: Book a call \"Tea\" on 5 July 2090 at 10:30 am with bob@example.org
        says: ASKED
        yes: 2
        says: You said yes to calendar_create_event, but it did not work: The time is taken; nothing was changed.
        user: Book a call \"Tea\" on 5 July 2090 at 11 am with bob@example.org
        says: ASKED
        yes: 3
        says: You said yes. “Tea” is in the calendar: Wednesday 5 July 2090, 11:00 to 12:00. MADE
        user: Move the Tea to 5 July 2090 at 10:30 am
        says: calendar_move_event waits for your yes: nothing has been done yet.
        yes: 4
        says: You said yes to calendar_move_event, but it did not work: The time is taken; nothing was changed.
        user: What do I have on 5 July 2090?
        says: You have 2 events: 1) “Kick-off”, Wednesday 5 July 2090, 10:00 to 11:00; 2) “Tea”, Wednesday 5 July 2090, 11:00 to 12:00.
        ",
    ));
}
