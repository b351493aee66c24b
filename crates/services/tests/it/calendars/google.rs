//! Google's token endpoint and Calendar API v3 as their reference has them, and Zoom's beside them: events with etags, pages, private properties,
//! busy times, deleted events of which only the id is left (<https://developers.google.com/workspace/calendar/api/v3/reference>,
//! <https://developers.zoom.us/docs/api/meetings/>).

use super::client::Client;
use super::server::{Answer, Asked, Server, Service};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use windlass_contract::sensitive::Sensitive;
use windlass_services::{GoogleCalendars, GoogleSettings, Grant, Links, Zoom, ZoomSettings};

pub(crate) const NOW_UNIX_MS: u64 = 1_795_000_000_000;

pub(crate) fn clock() -> u64 {
    NOW_UNIX_MS
}

/// How Meet answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meet {
    AtOnce,
    /// It is ready when the event is read again.
    Later,
    Failing,
    /// The calendar has none.
    Missing,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) events: BTreeMap<String, Value>,
    pub(crate) meetings: Vec<Value>,
    pub(crate) tokens: BTreeSet<String>,
    pub(crate) tokens_given: usize,
    pub(crate) meet: Option<Meet>,
    changes: usize,
}

#[derive(Default)]
pub(crate) struct Google(pub(crate) Mutex<State>);

impl Service for Google {
    fn name(&self, asked: &Asked) -> &'static str {
        let path = asked.path.as_str();
        match asked.method.as_str() {
            "POST" if path == "/token" => "token",
            "POST" if path == "/zoom/token" => "zoom token",
            "POST" if path == "/zoom/users/me/meetings" => "meeting",
            "POST" if path == "/freeBusy" => "busy",
            "POST" if path == "/calendars/desk@example.org/events" => "insert",
            "GET" if path.ends_with("/events") => "list",
            "GET" => "get",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "other",
        }
    }

    fn answer(&self, asked: &Asked) -> Answer {
        let mut state = self.0.lock().unwrap();
        let name = self.name(asked);
        if name.ends_with("token") {
            return state.token(asked);
        }
        let token = asked.header("Authorization").unwrap_or_default();
        let token = token.strip_prefix("Bearer ").unwrap_or_default();
        if !state.tokens.contains(token) {
            return refused(401, "authError", "Invalid Credentials");
        }
        let id = asked.path.rsplit('/').next().unwrap_or_default().to_owned();
        match name {
            "busy" => state.busy(&asked.json()),
            "list" => state.list(asked),
            "get" => state.get(&id),
            "insert" => state.insert(asked),
            "patch" => state.patch(&id, asked),
            "delete" => state.delete(&id, asked),
            "meeting" => state.meeting(&asked.json()),
            _ => refused(404, "notFound", "Not Found"),
        }
    }
}

pub(crate) fn refused(status: u16, reason: &str, message: &str) -> Answer {
    let body =
        json!({"error": {"errors": [{"reason": reason}], "code": status, "message": message}});
    Answer::json(status, &body)
}

fn time(value: &Value) -> Timestamp {
    match value["dateTime"].as_str() {
        Some(time) => time.parse().unwrap(),
        None => format!("{}T00:00:00Z", value["date"].as_str().unwrap())
            .parse()
            .unwrap(),
    }
}

fn is_taken(event: &Value) -> bool {
    event["status"] != "cancelled"
        && event["transparency"] != "transparent"
        && event["recurrence"].is_null()
}

/// As RFC 7396 has it.
fn merge(into: &mut Value, patch: &Value) {
    match patch {
        Value::Object(patch) => {
            if !into.is_object() {
                *into = json!({});
            }
            for (name, value) in patch {
                match value {
                    Value::Null => {
                        into.as_object_mut().unwrap().remove(name);
                    }
                    value => merge(&mut into[name], value),
                }
            }
        }
        patch => *into = patch.clone(),
    }
}

impl State {
    fn token(&mut self, asked: &Asked) -> Answer {
        let form = asked.form();
        let has = |name: &str, value: &str| form.contains(&(name.to_owned(), value.to_owned()));
        let fits = has("grant_type", "refresh_token") && has("refresh_token", "refresh & more")
            || has("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
            || has("grant_type", "account_credentials")
                && has("account_id", "account")
                && asked.header("Authorization") == Some("Basic em9vbTpzZWNyZXQ=");
        if !fits {
            return Answer::json(400, &json!({"error": "invalid_grant"}));
        }
        self.tokens_given += 1;
        let token = format!("token-{}", self.tokens_given);
        self.tokens.insert(token.clone());
        Answer::json(
            200,
            &json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"}),
        )
    }

    fn busy(&self, body: &Value) -> Answer {
        let at = |name: &str| body[name].as_str().unwrap().parse::<Timestamp>().unwrap();
        let (from, to) = (at("timeMin"), at("timeMax"));
        let mut calendars = json!({});
        for item in body["items"].as_array().unwrap() {
            let id = item["id"].as_str().unwrap();
            calendars[id] = match id {
                "desk@example.org" => {
                    let taken = self.events.values().filter(|event| is_taken(event));
                    let taken = taken
                        .map(|event| (time(&event["start"]), time(&event["end"])))
                        .filter(|(start, end)| *start < to && from < *end)
                        .map(|(start, end)| json!({"start": start.to_string(), "end": end.to_string()}));
                    json!({"busy": taken.collect::<Vec<_>>()})
                }
                "empty@example.org" => json!({"busy": []}),
                _ => json!({"errors": [{"domain": "global", "reason": "notFound"}], "busy": []}),
            };
        }
        Answer::json(
            200,
            &json!({"kind": "calendar#freeBusy", "calendars": calendars}),
        )
    }

    fn list(&self, asked: &Asked) -> Answer {
        let at = |name: &str| asked.parameter(name).unwrap().parse::<Timestamp>().unwrap();
        let (from, to) = (at("timeMin"), at("timeMax"));
        assert_eq!(asked.parameter("singleEvents"), Some("true"));
        if asked.path.contains("empty@") {
            return Answer::json(200, &json!({"items": []}));
        }
        let property = asked.parameter("privateExtendedProperty");
        let property = property.and_then(|property| property.split_once('='));
        let mut events: Vec<&Value> = (self.events.values())
            .filter(|event| event["status"] != "cancelled" && event["recurrence"].is_null())
            .filter(|event| {
                event["start"].is_null() || time(&event["start"]) < to && from < time(&event["end"])
            })
            .filter(|event| {
                let private = &event["extendedProperties"]["private"];
                property.is_none_or(|(name, value)| private[name] == value)
            })
            .collect();
        events.sort_by_key(|event| event["start"]["dateTime"].to_string());
        let most: usize = asked.parameter("maxResults").unwrap().parse().unwrap();
        let page: usize = asked.parameter("pageToken").map_or(0, |token| {
            token.strip_prefix("page & ").unwrap().parse().unwrap()
        });
        let shown: Vec<&Value> = events
            .iter()
            .skip(page * most)
            .take(most)
            .copied()
            .collect();
        let mut body = json!({"kind": "calendar#events", "items": shown});
        if events.len() > (page + 1) * most {
            body["nextPageToken"] = format!("page & {}", page + 1).into();
        }
        Answer::json(200, &body)
    }

    fn get(&mut self, id: &str) -> Answer {
        match self.events.get_mut(id) {
            Some(event) => {
                let answer = Answer::json(200, event);
                if event["conferenceData"]["createRequest"]["status"]["statusCode"] == "pending" {
                    event["conferenceData"] = ready();
                    return Answer::json(200, event);
                }
                answer
            }
            None => refused(404, "notFound", "Not Found"),
        }
    }

    fn stamped(&mut self, id: &str) -> Answer {
        self.changes += 1;
        let event = self.events.get_mut(id).unwrap();
        event["etag"] = format!("\"{}\"", self.changes).into();
        Answer::json(200, event)
    }

    fn insert(&mut self, asked: &Asked) -> Answer {
        let mut event = asked.json();
        let id = event["id"].as_str().unwrap().to_owned();
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'v').contains(&byte);
        if !(5..=1_024).contains(&id.len()) || !id.bytes().all(digit) {
            return refused(400, "invalid", "Invalid resource id value.");
        }
        if self.events.contains_key(&id) {
            return refused(409, "duplicate", "The requested identifier already exists.");
        }
        if !event["conferenceData"].is_null() {
            assert_eq!(asked.parameter("conferenceDataVersion"), Some("1"));
            assert_eq!(
                event["conferenceData"]["createRequest"]["conferenceSolutionKey"]["type"],
                "hangoutsMeet"
            );
            match self.meet {
                Some(Meet::AtOnce) => event["conferenceData"] = ready(),
                Some(Meet::Later) => event["conferenceData"] = asking("pending"),
                Some(Meet::Failing) => event["conferenceData"] = asking("failure"),
                Some(Meet::Missing) | None => {
                    return refused(400, "invalid", "Invalid conference type value.");
                }
            }
        }
        event["status"] = "confirmed".into();
        self.events.insert(id.clone(), event);
        self.stamped(&id)
    }

    fn is_outdated(&self, id: &str, asked: &Asked) -> bool {
        let known = self.events[id]["etag"].as_str();
        asked
            .header("If-Match")
            .is_some_and(|etag| Some(etag) != known)
    }

    fn patch(&mut self, id: &str, asked: &Asked) -> Answer {
        if !self.events.contains_key(id) {
            return refused(404, "notFound", "Not Found");
        }
        if self.is_outdated(id, asked) {
            return refused(412, "conditionNotMet", "Precondition Failed");
        }
        merge(self.events.get_mut(id).unwrap(), &asked.json());
        self.stamped(id)
    }

    fn delete(&mut self, id: &str, asked: &Asked) -> Answer {
        match self.events.get(id) {
            None => return refused(404, "notFound", "Not Found"),
            Some(event) if event["status"] == "cancelled" => {
                return refused(410, "deleted", "Resource has been deleted");
            }
            Some(_) if self.is_outdated(id, asked) => {
                return refused(412, "conditionNotMet", "Precondition Failed");
            }
            Some(_) => {}
        }
        for (own, event) in &mut self.events {
            if own == id || event["recurringEventId"] == id {
                let series = event["recurringEventId"].take();
                *event = json!({"id": own, "status": "cancelled"});
                if !series.is_null() {
                    event["recurringEventId"] = series;
                }
            }
        }
        Answer {
            status: 204,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    fn meeting(&mut self, body: &Value) -> Answer {
        self.meetings.push(body.clone());
        let link = format!("https://zoom.example/j/{}", self.meetings.len());
        let start = "https://zoom.example/s/1?zak=secret";
        Answer::json(201, &json!({"id": 1, "join_url": link, "start_url": start}))
    }
}

fn asking(status: &str) -> Value {
    json!({"createRequest": {"status": {"statusCode": status}}})
}

fn ready() -> Value {
    json!({
        "createRequest": {"status": {"statusCode": "success"}},
        "entryPoints": [
            {"entryPointType": "phone", "uri": "tel:+1-2"},
            {"entryPointType": "video", "uri": "https://meet.google.com/abc-defg-hij"},
        ],
    })
}

/// What a test changes of the settings.
pub(crate) struct Desk {
    pub(crate) server: Server<Google>,
    pub(crate) overlaps: bool,
    pub(crate) only_own: bool,
    pub(crate) invites: bool,
    pub(crate) refresh_token: &'static str,
    pub(crate) grant: Option<Grant>,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            server: Server::start(Google::default()),
            overlaps: false,
            only_own: true,
            invites: false,
            refresh_token: "refresh & more",
            grant: None,
        }
    }
}

impl Desk {
    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.server.service.0.lock().unwrap()
    }

    /// Puts an event into the calendar, as another program would.
    pub(crate) fn put(&self, event: Value) {
        let mut state = self.state();
        let id = event["id"].as_str().unwrap().to_owned();
        state.events.insert(id.clone(), event);
        state.stamped(&id);
    }

    pub(crate) fn zoom(&self) -> Links {
        let settings = ZoomSettings {
            url: format!("{}/zoom", self.server.url),
            token_url: format!("{}/zoom/token", self.server.url),
            account_id: "account".into(),
            client_id: "zoom".into(),
            client_secret: Sensitive("secret".into()),
            timeout_ms: TIMEOUT_MS,
        };
        Links::Service(Arc::new(Zoom::new(settings, Arc::new(Client), clock)))
    }

    pub(crate) fn calendars(&self, links: Links) -> GoogleCalendars {
        let grant = self.grant.clone().unwrap_or(Grant::Refresh {
            client_id: "client".into(),
            client_secret: Sensitive("secret".into()),
            refresh_token: Sensitive(self.refresh_token.into()),
        });
        let names = [
            ("primary", "desk@example.org"),
            ("team", "empty@example.org"),
            ("gone", "gone@example.org"),
        ];
        let settings = GoogleSettings {
            url: self.server.url.clone(),
            token_url: format!("{}/token", self.server.url),
            grant,
            calendars: names
                .into_iter()
                .map(|(name, id)| (name.to_owned(), id.to_owned()))
                .collect(),
            zone: TimeZone::get("Europe/Oslo").unwrap(),
            zone_name: "Europe/Oslo".into(),
            hours: "Mon-Fri 09:00-17:00".parse().unwrap(),
            buffer: SignedDuration::from_mins(15),
            overlaps: self.overlaps,
            only_own: self.only_own,
            invites: self.invites,
            links,
            timeout_ms: TIMEOUT_MS,
        };
        GoogleCalendars::new(settings, Arc::new(Client), clock)
    }
}

/// Long enough for a busy machine, and short, because some answers never come.
const TIMEOUT_MS: u64 = 2_000;
