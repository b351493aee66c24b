//! Every built-in tool through the real pipeline, by one table: a call that works, arguments that do not fit, a mode that is not the
//! tool's, a service that is silent, a user who stops it, the same call again, and a user who says no. Knows no tool's own rules beyond
//! its row.

use crate::chat::{Chat, chat, chunks, question, words};
use crate::support::http::{HttpAnswer, get, post_with};
use crate::support::model_server::Says;
use crate::support::program::{command, run};
use crate::support::root;
use crate::support::voice_client::VoiceClient;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::thread;
use windlass_contract::handler::Placement;

struct Row {
    tool: &'static str,
    /// Arguments that fit, as JSON. `EVENT` and `PICTURE` stand for what calls of rows before it brought.
    fits: &'static str,
    unfit: &'static str,
    modes: Modes,
    consent: Consent,
    again: Again,
    waits: Waits,
}

#[derive(Clone, Copy, PartialEq)]
enum Modes {
    Both,
    Text,
    Voice,
}

#[derive(Clone, Copy, PartialEq)]
enum Consent {
    Asked,
    Free,
}

/// What becomes of the same call once it was carried out.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    /// It runs again: it changes nothing, or its user may want another one.
    Runs,
    /// It was done, and the user is asked whether to do it once more.
    Asks,
    /// The user is shut out.
    Shut,
    /// The session is over.
    Over,
}

/// Whom a call may have to wait for.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    /// A service: with the key of the call's time limit, and how a call ends that has no answer within it.
    Service(&'static str, &'static str),
    /// A host with a public name, of which a test has none.
    Public,
    /// Nobody: it is answered while it is called, so that no limit is ever reached.
    Inline,
    /// Nobody outside the process: it computes, or reads and writes the server's own disk.
    Process,
}

use Again::{Asks, Over, Runs, Shut};
use Consent::{Asked, Free};
use Modes::{Both, Text, Voice};
use Waits::{Inline, Process, Public, Service};

const RANGE: &str = r#"{"start_date":"2090-07-05T08:00:00Z","end_date":"2090-07-05T12:00:00Z"}"#;
const NO_RANGE: &str = r#"{"start_date":"2090-07-05T12:00:00Z","end_date":"2090-07-05T08:00:00Z"}"#;
const READ: &str = "TRANSIENT";
const WRITTEN: &str = "OUTCOME_UNKNOWN";
/// The request and the call have one limit; whichever is noticed first, nothing is said to have been done.
const PAID: &str = "TRANSIENT or OUTCOME_UNKNOWN";
/// No built-in tool is a task, of which another test has some.
const NO_TASK: &str = r#"{"task_id":"none"}"#;
const LIMIT_MS: &str = "200";

#[rustfmt::skip]
const ROWS: [Row; 23] = [
    Row { tool: "kb_search", fits: r#"{"query":"Fram"}"#, unfit: r#"{"query":""}"#,
        modes: Both, consent: Free, again: Runs, waits: Inline },
    Row { tool: "kb_get", fits: r#"{"id":"doc:engines"}"#, unfit: r#"{"id":7}"#,
        modes: Both, consent: Free, again: Runs, waits: Inline },
    Row { tool: "calendar_get_availability", fits: RANGE, unfit: NO_RANGE,
        modes: Both, consent: Free, again: Runs,
        waits: Service("tools.calendar_get_availability.timeout_ms", READ) },
    Row { tool: "calendar_create_event",
        fits: r#"{"title":"Tea","start_time":"2090-07-05T09:00:00Z","end_time":"2090-07-05T10:00:00Z","attendees":["a@example.org"]}"#,
        unfit: r#"{"title":"Tea","start_time":"2090-07-05T09:00:00Z","end_time":"2090-07-05T10:00:00Z","attendees":[]}"#,
        modes: Text, consent: Asked, again: Asks,
        waits: Service("tools.calendar_create_event.timeout_ms", WRITTEN) },
    Row { tool: "calendar_list_events", fits: RANGE, unfit: NO_RANGE,
        modes: Both, consent: Free, again: Runs,
        waits: Service("tools.calendar_list_events.timeout_ms", READ) },
    Row { tool: "calendar_move_event",
        fits: r#"{"event_id":"EVENT","title":"Tea","start_time":"2090-07-05T11:00:00Z","end_time":"2090-07-05T12:00:00Z"}"#,
        unfit: r#"{"event_id":"EVENT","title":"Tea","start_time":"at noon","end_time":"2090-07-05T12:00:00Z"}"#,
        modes: Text, consent: Asked, again: Asks,
        waits: Service("tools.calendar_move_event.timeout_ms", WRITTEN) },
    Row { tool: "calendar_cancel_event",
        fits: r#"{"event_id":"EVENT","title":"Tea","start_time":"2090-07-05T11:00:00Z","whole_series":false}"#,
        unfit: r#"{"event_id":"EVENT","title":"Tea","start_time":"2090-07-05T11:00:00Z","whole_series":"no"}"#,
        modes: Text, consent: Asked, again: Asks,
        waits: Service("tools.calendar_cancel_event.timeout_ms", WRITTEN) },
    Row { tool: "escalate", fits: r#"{"reason":"A person is wanted.","summary":"The third wrong parcel."}"#, unfit: r#"{"reason":" ","summary":" "}"#,
        modes: Both, consent: Free, again: Asks, waits: Process },
    Row { tool: "extract_contacts", fits: r#"{"text":"maud@example.org"}"#, unfit: r#"{"text":"maud@example.org","region":"Norway"}"#,
        modes: Text, consent: Free, again: Runs, waits: Process },
    Row { tool: "format_datetime", fits: r#"{"datetime":"2090-07-05"}"#, unfit: r#"{"datetime":"soon"}"#,
        modes: Both, consent: Free, again: Runs, waits: Inline },
    Row { tool: "get_context", fits: "{}", unfit: r#"{"fields":["purse"]}"#,
        modes: Both, consent: Free, again: Runs, waits: Inline },
    Row { tool: "query_tool_memory", fits: "{}", unfit: r#"{"limit":0}"#,
        modes: Both, consent: Free, again: Runs, waits: Process },
    Row { tool: "get_task", fits: NO_TASK, unfit: r#"{"task_id":""}"#,
        modes: Both, consent: Free, again: Runs, waits: Process },
    Row { tool: "list_tasks", fits: "{}", unfit: r#"{"limit":0}"#,
        modes: Both, consent: Free, again: Runs, waits: Process },
    Row { tool: "cancel_task", fits: NO_TASK, unfit: r#"{"task_id":""}"#,
        modes: Both, consent: Free, again: Runs, waits: Process },
    Row { tool: "rank_results", fits: r#"{"items":[{"price":3},{"price":2}],"criteria":[{"field":"price"}]}"#, unfit: r#"{"items":[{"price":3}],"criteria":[]}"#,
        modes: Both, consent: Free, again: Runs, waits: Process },
    Row { tool: "image_draft_prompt", fits: r#"{"subject":"a lamp"}"#, unfit: r#"{"subject":" "}"#,
        modes: Text, consent: Free, again: Runs, waits: Inline },
    Row { tool: "image_generate", fits: r#"{"prompt":"a lamp"}"#, unfit: r#"{"prompt":"a lamp","count":5}"#,
        modes: Text, consent: Free, again: Runs,
        waits: Service("tools.image_generate.timeout_ms", PAID) },
    Row { tool: "send_image", fits: r#"{"image_url":"PICTURE"}"#, unfit: r#"{"image_url":"file:///etc/passwd"}"#,
        modes: Both, consent: Free, again: Runs,
        waits: Public },
    Row { tool: "web_search", fits: r#"{"query":"storm"}"#, unfit: r#"{"query":"storm","top_k":0}"#,
        modes: Both, consent: Free, again: Runs,
        waits: Service("tools.web_search.timeout_ms", READ) },
    Row { tool: "start_voice_session", fits: "{}", unfit: r#"{"pending_request":7}"#,
        modes: Text, consent: Free, again: Runs, waits: Inline },
    Row { tool: "end_voice_session", fits: "{}", unfit: r#"{"reason":"boredom"}"#,
        modes: Voice, consent: Free, again: Over, waits: Inline },
    Row { tool: "ignore_user", fits: r#"{"duration_seconds":3600,"farewell_message":"Enough."}"#, unfit: r#"{"duration_seconds":1,"farewell_message":"Enough."}"#,
        modes: Both, consent: Free, again: Shut, waits: Process },
];

#[test]
fn the_table_has_every_built_in_tool_and_no_other() {
    let builtin = windlass_handlers::builtin();
    let built_in: BTreeSet<&str> = builtin.keys().map(|id| id.as_str()).collect();
    assert_eq!(
        ROWS.iter().map(|row| row.tool).collect::<BTreeSet<_>>(),
        built_in
    );
    for row in ROWS {
        let (_, handler) = builtin
            .iter()
            .find(|(id, _)| id.as_str() == row.tool)
            .unwrap();
        let is_inline = handler.placement() == Placement::Inline;
        assert_eq!(row.waits == Inline, is_inline, "{}", row.tool);
    }
}

/// A folder with the tools of every project, and those that only some have.
fn all_tools(folder: &Path) {
    for group in ["tools", "tools/_optional"] {
        for entry in fs::read_dir(root().join(group)).unwrap() {
            let from = entry.unwrap().path();
            if !from.join("schema.json").exists() {
                continue;
            }
            let to = folder.join(from.file_name().unwrap());
            fs::create_dir(&to).unwrap();
            for name in ["schema.json", "guide.md"] {
                fs::copy(from.join(name), to.join(name)).unwrap();
            }
        }
    }
}

/// Words on which the model of these tests calls a tool.
fn wish(tool: &str, arguments: &str) -> String {
    format!("{{\"tool\":\"{tool}\",\"arguments\":{arguments}}}")
}

/// Calls what the user wishes, and then says that it has.
fn rule(last: &Value) -> Says {
    let said = last["content"].as_str().unwrap_or_default();
    let at = said.find("{\"tool\":").filter(|_| last["role"] == "user");
    let Some(wish) = at.and_then(|at| serde_json::from_str::<Value>(&said[at..]).ok()) else {
        return Says::Words("So it is.");
    };
    let tool = wish["tool"].as_str().unwrap().to_owned();
    Says::CallsNamed(tool, wish["arguments"].clone())
}

/// One browser at a server with every tool.
struct Scene {
    chat: Chat,
    cookie: String,
    _tools: tempfile::TempDir,
}

impl Scene {
    async fn open(keys: &[(&'static str, &str)]) -> Self {
        let tools = tempfile::tempdir().unwrap();
        all_tools(tools.path());
        let mut all = vec![("folders.tools", tools.path().to_str().unwrap())];
        all.extend_from_slice(keys);
        let chat = chat(rule, &all).await;
        let origin = format!("http://{}", chat.address);
        let hello = json!({"message": "Hello."}).to_string();
        let headers = [("Origin", origin.as_str())];
        let met = post_with(&chat.address, "/api/chat", &headers, hello.as_bytes());
        let cookie = met.header("set-cookie").unwrap();
        Self {
            cookie: cookie.split(';').next().unwrap().to_owned(),
            chat,
            _tools: tools,
        }
    }

    fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        let headers = [("Cookie", self.cookie.as_str())];
        post_with(
            &self.chat.address,
            path,
            &headers,
            body.to_string().as_bytes(),
        )
    }

    /// Has a tool called in a conversation that no other tool is called in.
    fn ask(&self, row: &Row, arguments: &str) -> HttpAnswer {
        self.post(
            "/api/chat",
            &json!({"id": row.tool, "message": wish(row.tool, arguments)}),
        )
    }

    /// What a call brought, as the model read it.
    fn call(&self, row: &Row, arguments: &str) -> (HttpAnswer, Value) {
        let answer = self.ask(row, arguments);
        assert_eq!(answer.status, 200, "{}: {}", row.tool, answer.body);
        let wished = wish(row.tool, "");
        let wished = wished.trim_end_matches('}');
        let is_of_row = |message: &Value| {
            let said = message["content"].as_str().unwrap_or_default();
            message["role"] == "user" && said.contains(wished)
        };
        let seen = self.chat.model.seen().into_iter().rev();
        let read = seen
            .filter_map(|body| body["messages"].as_array().cloned())
            .find(|messages| messages.iter().any(is_of_row));
        let last = read.unwrap().pop().unwrap();
        assert_eq!(last["role"], "tool", "{}: {last}", row.tool);
        let result = serde_json::from_str(last["content"].as_str().unwrap()).unwrap();
        (answer, result)
    }

    /// Answers the question that an answer holds: the status, and what the call brought.
    fn answer(&self, row: &Row, asked: &HttpAnswer, approved: bool) -> (u16, Value) {
        let token = question(asked)["token"].clone();
        let body = json!({"conversationId": row.tool, "token": token, "approved": approved});
        let answer = self.post("/api/confirm", &body);
        let said: Value = serde_json::from_str(&answer.body).unwrap();
        (answer.status, said["response"].clone())
    }
}

/// `kinds` is one kind of error, or several with `or` between them.
fn expect_error(row: &Row, result: &Value, kinds: &str) {
    let found = result["error"]["type"].as_str().unwrap_or_default();
    let is_one = kinds.split(" or ").any(|kind| kind == found);
    assert!(is_one, "{}, not {kinds}: {result}", row.tool);
}

/// Has a call that fits carried out, by way of a user who first says no, where the user is asked.
fn carry_out(scene: &Scene, row: &Row, arguments: &str) -> Value {
    let (asked, result) = scene.call(row, arguments);
    if row.consent == Free {
        return result;
    }
    expect_error(row, &result, "CONFIRMATION_REQUIRED");
    let (status, denied) = scene.answer(row, &asked, false);
    assert_eq!(status, 403, "{}: {denied}", row.tool);
    expect_error(row, &denied, "CONFIRMATION_DECLINED");
    let (asked, result) = scene.call(row, arguments);
    expect_error(row, &result, "CONFIRMATION_REQUIRED");
    scene.answer(row, &asked, true).1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_refuses_what_does_not_fit_and_does_its_work_once() {
    let search = crate::services::search_service();
    let keys = [
        ("search.service", "brave"),
        ("search.url", search.as_str()),
        ("search.api_key", "the-key"),
    ];
    let scene = Scene::open(&keys).await;
    let (mut event, mut picture) = (String::new(), String::new());
    for row in ROWS.iter().filter(|row| row.modes != Voice) {
        let filled = |arguments: &str| {
            let arguments = arguments.replace("EVENT", &event);
            arguments.replace("PICTURE", &picture)
        };
        let (_, refused) = scene.call(row, &filled(row.unfit));
        expect_error(row, &refused, "VALIDATION");

        let arguments = filled(row.fits);
        let done = carry_out(&scene, row, &arguments);
        if arguments == NO_TASK {
            expect_error(row, &done, "NOT_FOUND");
            continue;
        }
        assert_eq!(done["ok"], true, "{}: {done}", row.tool);
        if row.again == Shut {
            let shut = scene.ask(row, &arguments);
            let told = chunks(&shut);
            let is_told = |kind: &str| told.iter().any(|chunk| chunk["type"] == kind);
            assert!(is_told("data-timeout"), "{}", shut.body);
            assert!(!is_told("tool-input-available"), "{}", shut.body);
            assert_eq!(words(&shut), "Enough.");
            continue;
        }
        let (_, again) = scene.call(row, &arguments);
        match row.again {
            Runs => assert_eq!(again["ok"], true, "{}: {again}", row.tool),
            _ => {
                expect_error(row, &again, "CONFIRMATION_REQUIRED");
                let message = again["error"]["message"].as_str().unwrap();
                assert!(message.contains("was done before"), "{message}");
            }
        }
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        match row.tool {
            "calendar_create_event" => event = text(&done["data"]["event"]["event_id"]),
            "image_generate" => picture = text(&done["data"]["pictures"][0]["image_url"]),
            _ => {}
        }
    }
    let tickets: Value =
        serde_json::from_str(&get(&scene.chat.address, "/api/tickets").body).unwrap();
    assert_eq!(tickets["tickets"].as_array().unwrap().len(), 1, "{tickets}");
    let file = scene.chat.data.path().join("calendars/primary.ics");
    let file = fs::read_to_string(file).unwrap();
    assert_eq!(file.matches("BEGIN:VEVENT").count(), 1, "{file}");
    // Made, moved and cancelled, each once.
    assert!(
        file.contains("SEQUENCE:2") && file.contains("STATUS:CANCELLED"),
        "{file}"
    );

    for row in ROWS.iter().filter(|row| row.modes == Voice) {
        let start = json!({"type": "start"});
        let (mut client, _) = VoiceClient::start(&scene.chat.address, start).await;
        client
            .say(&format!("call {} {}", row.tool, row.unfit))
            .await;
        let refused = client.expect("tool_call_finished").await;
        assert_eq!(refused["errorType"], "VALIDATION", "{refused}");
        client.expect("turn_complete").await;
        client.say(&format!("call {} {}", row.tool, row.fits)).await;
        let done = client.expect("tool_call_finished").await;
        assert_eq!(done["ok"], true, "{done}");
        assert!(row.again == Over, "{}", row.tool);
        client.expect_close().await;
    }
    scene.chat.close().await;
}

#[test]
fn a_tool_is_refused_in_a_mode_that_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    fs::create_dir(&tools).unwrap();
    all_tools(&tools);
    for row in ROWS {
        let mode = match row.modes {
            Both => continue,
            Text => "voice",
            Voice => "text",
        };
        let arguments = [
            "call", row.tool, row.fits, "--mode", mode, "--tools", "tools",
        ];
        let called = run(command(folder.path()).args(arguments));
        assert_eq!(called.code, 1, "{}: {}", row.tool, called.output);
        let result: Value = serde_json::from_str(&called.output).unwrap();
        expect_error(&row, &result, "MODE_RESTRICTED");
    }
}

/// The keys under which every tool that has a service asks this one.
fn asking<'a>(host: &'a str, url: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("handlers.allow_fetch", host),
        ("search.service", "brave"),
        ("search.url", url),
        ("search.api_key", "k"),
        ("images.service", "openai"),
        ("images.url", url),
        ("images.api_key", "k"),
        ("calendar.service", "google"),
        ("calendar.google.url", url),
        ("calendar.google.token_url", url),
        ("calendar.google.client_id", "c"),
        ("calendar.google.client_secret", "s"),
        ("calendar.google.refresh_token", "r"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_to_a_service_stops_for_its_user_unless_it_may_have_changed_something() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = silent.local_addr().unwrap().to_string();
    let url = format!("http://{host}");
    let scene = Scene::open(&asking(&host, &url)).await;
    let services = ROWS.iter().filter(|row| matches!(row.waits, Service(..)));
    let mut asked = 0;
    for row in services.filter(|row| row.consent == Free) {
        let Service(_, ends) = row.waits else {
            continue;
        };
        // What only reads is stopped. What may have been done already goes on, until its service is gone.
        let (status, ends) = match ends {
            READ => (200, "CANCELLED"),
            _ => (409, ends),
        };
        let ended = thread::scope(|threads| {
            let call = threads.spawn(|| scene.call(row, row.fits).1);
            let connection = silent.accept().unwrap();
            let body = json!({"conversationId": row.tool, "callId": "call-1"});
            let stopped = scene.post("/api/cancel", &body);
            assert_eq!(stopped.status, status, "{}: {}", row.tool, stopped.body);
            drop(connection);
            call.join().unwrap()
        });
        expect_error(row, &ended, ends);
        asked += 1;
    }
    assert_eq!(asked, 4, "two calendars, pictures and the web");
    scene.chat.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_to_a_service_that_is_silent_ends_at_its_limit() {
    // It takes connections, and nobody ever reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = silent.local_addr().unwrap().to_string();
    let url = format!("http://{host}");
    let mut keys = asking(&host, &url);
    keys.extend(ROWS.iter().filter_map(|row| match row.waits {
        Service(key, _) => Some((key, LIMIT_MS)),
        Inline | Process | Public => None,
    }));
    let scene = Scene::open(&keys).await;
    let wait = |row: &Row, ends: &str| {
        let arguments = row.fits.replace("EVENT", "e");
        let ended = carry_out(&scene, row, &arguments);
        expect_error(row, &ended, ends);
        if row.again == Asks {
            // Nobody knows whether it was done, so that it is not done again by itself.
            let (_, again) = scene.call(row, &arguments);
            expect_error(row, &again, "CONFIRMATION_REQUIRED");
        }
    };
    let wait = &wait;
    thread::scope(|threads| {
        for row in &ROWS {
            if let Service(_, ends) = row.waits {
                threads.spawn(move || wait(row, ends));
            }
        }
    });
    // The calendar's calls may share the one that asks for a token; the other services are asked apart.
    silent.set_nonblocking(true).unwrap();
    let reached = std::iter::from_fn(|| silent.accept().ok()).count();
    assert!(reached >= 3, "{reached} connections reached the service");
    scene.chat.close().await;
}
