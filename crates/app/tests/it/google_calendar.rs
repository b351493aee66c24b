//! The calendar tools against a Google Calendar and a Zoom of our own on loopback: from the configuration to the service and back.

use crate::calendars::{call, meeting, on, project, windlass};
use crate::support::model_server::read_request;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
struct State {
    events: Vec<Value>,
    meetings: usize,
    /// Whether the next insert is carried out and not answered.
    loses_insert: bool,
}

/// Serves both on one port, as their references have the requests that the tools make.
fn serve() -> (String, Arc<Mutex<State>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let state = Arc::new(Mutex::new(State::default()));
    let served = state.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let state = served.clone();
            thread::spawn(move || answer_all(stream.unwrap(), &state));
        }
    });
    (url, state)
}

fn answer_all(stream: TcpStream, state: &Mutex<State>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    while let Some((head, body)) = read_request(&mut reader) {
        let line = head.lines().next().unwrap_or_default().to_owned();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let path = target.split('?').next().unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let Some((status, answer)) = state.lock().unwrap().answer(method, path, &body) else {
            return;
        };
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} Told\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        let written = writer.write_all(format!("{head}{answer}").as_bytes());
        if written.is_err() {
            return;
        }
    }
}

impl State {
    /// `None` where the connection ends without an answer.
    fn answer(&mut self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        const EVENTS: &str = "/calendars/primary/events";
        let id = path
            .strip_prefix(EVENTS)
            .map(|id| id.trim_start_matches('/'));
        let place = self
            .events
            .iter()
            .position(|event| Some(event["id"].as_str().unwrap()) == id);
        Some(match (method, path, place) {
            ("POST", "/token" | "/zoom/token", _) => {
                (200, json!({"access_token": "token", "expires_in": 3600}))
            }
            ("POST", "/zoom/users/me/meetings", _) => {
                self.meetings += 1;
                (201, json!({"join_url": "https://zoom.example/j/1"}))
            }
            ("POST", "/freeBusy", _) => {
                let taken = self
                    .events
                    .iter()
                    .filter(|event| event["status"] != "cancelled");
                let taken = taken.map(|event| {
                    json!({"start": event["start"]["dateTime"], "end": event["end"]["dateTime"]})
                });
                let busy = taken.collect::<Vec<_>>();
                (200, json!({"calendars": {"primary": {"busy": busy}}}))
            }
            ("POST", EVENTS, _) => {
                self.events.push(body.clone());
                if std::mem::take(&mut self.loses_insert) {
                    return None;
                }
                (200, body.clone())
            }
            ("GET", EVENTS, _) => (200, json!({"items": self.events})),
            ("GET", _, Some(place)) => (200, self.events[place].clone()),
            ("PATCH", _, Some(place)) => {
                let event = &mut self.events[place];
                for name in ["start", "end", "location"] {
                    if !body[name].is_null() {
                        event[name] = body[name].clone();
                    }
                }
                let private = body["extendedProperties"]["private"].as_object().unwrap();
                for (name, value) in private {
                    event["extendedProperties"]["private"][name] = value.clone();
                }
                (200, event.clone())
            }
            ("DELETE", _, Some(place)) => {
                self.events[place]["status"] = "cancelled".into();
                (200, Value::Null)
            }
            _ => (404, json!({"error": {"code": 404, "message": "Not Found"}})),
        })
    }
}

/// Has a project's tools work at the service.
fn configure(folder: &Path, url: &str) {
    let configuration = folder.join("windlass.toml");
    let text = fs::read_to_string(&configuration).unwrap();
    let text = text.replace(
        "[calendar]\n",
        "[calendar]\nservice = \"google\"\nconference = \"zoom\"\n",
    );
    let accounts = format!(
        "\n[calendar.google]\nurl = \"{url}\"\ntoken_url = \"{url}/token\"\nclient_id = \"c\"\nclient_secret = \"s\"\nrefresh_token = \"r\"\n\
         [calendar.zoom]\nurl = \"{url}/zoom\"\ntoken_url = \"{url}/zoom/token\"\naccount_id = \"a\"\nclient_id = \"c\"\nclient_secret = \"s\"\n"
    );
    fs::write(&configuration, text + &accounts).unwrap();
}

#[test]
fn an_event_at_google_is_made_with_its_link_listed_moved_and_cancelled() {
    let project = project();
    let path = project.path();
    let (url, state) = serve();
    configure(path, &url);

    let made = call(path, "calendar_create_event", &meeting("09:00", "10:00"));
    assert_eq!(made["ok"], true, "{made}");
    let event = &made["data"]["event"];
    assert_eq!(
        event["conference_link"], "https://zoom.example/j/1",
        "{made}"
    );
    assert_eq!(made["data"]["note"], Value::Null);
    let id = event["event_id"].as_str().unwrap();
    let taken = call(path, "calendar_create_event", &meeting("09:30", "10:30"));
    assert_eq!(taken["error"]["type"], "CONFLICT", "{taken}");

    let listed = call(path, "calendar_list_events", &on("01"));
    assert_eq!(listed["data"]["items"][0]["event_id"], id, "{listed}");
    let free = call(path, "calendar_get_availability", &on("01"));
    assert_eq!(
        free["data"]["available_slots"][1]["start"], "2026-12-01T10:00:00+00:00",
        "{free}"
    );
    let moved = json!({"event_id": id, "title": "Meeting; with, Anna", "start_time": "2026-12-01T11:00:00Z", "end_time": "2026-12-01T12:00:00Z"});
    assert_eq!(call(path, "calendar_move_event", &moved)["ok"], true);
    let cancel = json!({"event_id": id, "title": "Meeting; with, Anna", "start_time": "2026-12-01T11:00:00Z", "whole_series": false});
    let cancelled = call(path, "calendar_cancel_event", &cancel);
    assert_eq!(
        cancelled["data"]["event"]["status"], "cancelled",
        "{cancelled}"
    );

    let state = state.lock().unwrap();
    assert_eq!((state.events.len(), state.meetings), (1, 1));
    assert!(!path.join("data/calendars").exists());
}

#[test]
fn a_change_whose_answer_is_lost_is_told_as_unknown() {
    let project = project();
    let path = project.path();
    let (url, state) = serve();
    configure(path, &url);
    state.lock().unwrap().loses_insert = true;
    let unknown = call(path, "calendar_create_event", &meeting("09:00", "10:00"));
    assert_eq!(unknown["error"]["type"], "OUTCOME_UNKNOWN", "{unknown}");
    assert_eq!(state.lock().unwrap().events.len(), 1);
}

#[test]
fn a_key_file_that_is_none_is_named_before_anything_is_served() {
    let project = project();
    let path = project.path();
    let configuration = path.join("windlass.toml");
    let text = fs::read_to_string(&configuration).unwrap();
    let text = text.replace("[calendar]\n", "[calendar]\nservice = \"google\"\n");
    let text = text + "\n[calendar.google]\nservice_account = \"key.json\"\n";
    fs::write(&configuration, text).unwrap();
    fs::write(path.join("key.json"), "{\"private_key\": \"hidden\"}").unwrap();
    let range = on("01").to_string();
    let refused = windlass(path, &["call", "calendar_list_events", &range]);
    assert_eq!(refused.code, 1, "{}", refused.output);
    let said = refused.problems.join("\n");
    assert!(
        said.contains("calendar.google.service_account, the file key.json, cannot be used"),
        "{said}"
    );
    assert!(!said.contains("hidden"), "{said}");
}
