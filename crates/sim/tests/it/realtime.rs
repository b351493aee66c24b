//! The simulated Realtime service through its public face: events and a virtual clock in, events out.

use serde_json::{Value, json};
use std::time::Duration;
use windlass_session::time::Timestamp;
use windlass_sim::openai_realtime::Server;
use windlass_sim::runner::{ConnectionId, Input, Options, Output, Upgrade};
use windlass_sim::script::Script;

fn upgrade(target: &str, headers: &[(&str, &str)]) -> Upgrade {
    Upgrade {
        target: target.to_owned(),
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

const TARGET: &str = "/v1/realtime?model=gpt-realtime-2.1";
const KEY: (&str, &str) = ("Authorization", "Bearer k");

/// One client, and the kinds of the events that it received since it last asked.
struct Client {
    server: Server,
    id: ConnectionId,
    now: Timestamp,
    events: Vec<Value>,
    closed: Option<u16>,
}

impl Client {
    fn with(options: Options, target: &str) -> Self {
        let mut server = Server::new(options);
        let id = server.connect(&upgrade(target, &[KEY])).unwrap();
        let mut client = Self {
            server,
            id,
            now: Timestamp::default(),
            events: Vec::new(),
            closed: None,
        };
        client.input(Input::Tick);
        client
    }

    fn scripted(actions: &str) -> Self {
        let script = format!("settings: {{speed: 1}}\nexchanges:\n- when: any\n  do:\n{actions}");
        let script = Script::parse("test.yaml", &script).unwrap();
        let mut client = Self::with(Options::scripted(script), TARGET);
        client.events.clear();
        client
    }

    fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.server.handle(self.now, self.id, input, &mut out);
        for output in out {
            match output {
                Output::Send(frame) => self.events.push(serde_json::from_slice(&frame).unwrap()),
                Output::Close { code, .. } => self.closed = Some(code),
                Output::Drop | Output::DropWithin(_) => self.closed = Some(1006),
                Output::StopReading { .. } => {}
            }
        }
    }

    fn send(&mut self, event: &Value) -> &mut Self {
        self.input(Input::Frame(event.to_string().as_bytes()));
        self
    }

    fn types(&mut self, text: &str) -> &mut Self {
        self.send(
            &json!({"type": "conversation.item.create", "item": {"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": text}]}}),
        );
        self.events.clear();
        self.send(&json!({"type": "response.create", "event_id": "mine"}))
    }

    fn wait_ms(&mut self, milliseconds: u64) -> &mut Self {
        let end = self.now + Duration::from_millis(milliseconds);
        while let Some(due) = self.server.next_deadline(self.id).filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.input(Input::Tick);
        }
        self.now = end;
        self
    }

    fn speak_ms(&mut self, milliseconds: usize, level: i16) -> &mut Self {
        for _ in 0..milliseconds / 20 {
            let samples = (0..480).map(|at| if at % 48 < 24 { level } else { -level });
            let pcm: Vec<u8> = samples.flat_map(i16::to_le_bytes).collect();
            let audio = base64_simd::STANDARD.encode_to_string(&pcm);
            self.send(&json!({"type": "input_audio_buffer.append", "audio": audio}));
            self.wait_ms(20);
        }
        self
    }

    /// What came, by kind, repeats once, without what every event is followed by.
    fn kinds(&mut self) -> String {
        let events = std::mem::take(&mut self.events);
        let mut kinds: Vec<String> = events
            .iter()
            .map(|event| {
                assert!(event["event_id"].is_string(), "{event}");
                let kind = event["type"].as_str().unwrap();
                match event["error"]["code"].as_str() {
                    Some(code) => format!("error:{code}"),
                    None => kind.trim_start_matches("response.").to_owned(),
                }
            })
            .collect();
        kinds.dedup();
        kinds.join(" ")
    }

    fn last(&self, kind: &str) -> Value {
        let found = self.events.iter().rev().find(|event| event["type"] == kind);
        found.unwrap_or_else(|| panic!("no {kind}")).clone()
    }
}

#[test]
fn who_may_connect_is_decided_by_path_model_and_key() {
    let mut server = Server::new(Options::demo());
    let browser = (
        "Sec-WebSocket-Protocol",
        "realtime, openai-insecure-api-key.k",
    );
    for (target, headers, status) in [
        (TARGET, vec![KEY], None),
        (TARGET, vec![browser], None),
        (TARGET, vec![], Some(401)),
        (TARGET, vec![("Authorization", "Bearer bad-key")], Some(401)),
        (
            TARGET,
            vec![("Authorization", "Bearer quota-key")],
            Some(429),
        ),
        ("/v1/realtime", vec![KEY], Some(400)),
        ("/v1/other?model=m", vec![KEY], Some(404)),
    ] {
        let outcome = server.connect(&upgrade(target, &headers));
        let refused = outcome.err().map(|rejection| rejection.http_status);
        assert_eq!(refused, status, "{target} {headers:?}");
    }
    let beta = [KEY, ("OpenAI-Beta", "realtime=v1")];
    let id = server.connect(&upgrade(TARGET, &beta)).unwrap();
    let mut out = Vec::new();
    server.handle(Timestamp::default(), id, Input::Tick, &mut out);
    assert!(matches!(
        &out[..],
        [Output::Send(_), Output::Close { code: 4000, .. }]
    ));
}

#[test]
fn a_change_is_shown_in_full_or_refused_as_a_whole() {
    let mut client = Client::with(Options::demo(), TARGET);
    assert_eq!(client.kinds(), "session.created");
    client.send(&json!({"type": "session.update", "session": {"type": "realtime", "instructions": "Be brief.",
        "audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 700}}}}}));
    let session = client.last("session.updated")["session"].clone();
    assert_eq!(session["instructions"], "Be brief.");
    let detection = &session["audio"]["input"]["turn_detection"];
    assert_eq!(
        (&detection["silence_duration_ms"], &detection["threshold"]),
        (&json!(700), &json!(0.5))
    );
    assert_eq!(session["audio"]["output"]["voice"], "marin");
    for (change, code, param) in [
        (
            json!({"instructions": "x"}),
            "missing_required_parameter",
            "session.type",
        ),
        (
            json!({"type": "realtime", "voice": "x"}),
            "unknown_parameter",
            "session.voice",
        ),
        (
            json!({"type": "realtime", "model": "other"}),
            "invalid_value",
            "session.model",
        ),
        (
            json!({"type": "realtime", "tools": [{"type": "function", "name": "f", "strict": true}]}),
            "unknown_parameter",
            "session.tools[0].strict",
        ),
        (
            json!({"type": "realtime", "tools": (0..129).map(|number| json!({"type": "function", "name": format!("f{number}")})).collect::<Vec<_>>()}),
            "array_above_max_length",
            "session.tools",
        ),
        (
            json!({"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}}),
            "invalid_value",
            "session.audio.input.format.rate",
        ),
    ] {
        client.send(&json!({"type": "session.update", "event_id": "u1", "session": change}));
        let error = client.last("error")["error"].clone();
        assert_eq!(
            (&error["code"], &error["param"], &error["event_id"]),
            (&json!(code), &json!(param), &json!("u1"))
        );
    }
    let mut older = Client::with(Options::demo(), "/v1/realtime?model=gpt-realtime");
    older.send(&json!({"type": "session.update", "session": {"type": "realtime", "reasoning": {"effort": "low"}}}));
    assert_eq!(older.last("error")["error"]["code"], "unknown_parameter");
}

#[test]
fn an_answer_comes_in_the_services_order() {
    let mut client = Client::scripted("  - say: Good day to you.\n");
    client.types("Hi").wait_ms(10_000);
    let done = client.last("response.done");
    assert_eq!(done["response"]["status"], "completed");
    assert_eq!(
        done["response"]["output"][0]["content"][0]["transcript"],
        "Good day to you."
    );
    let kinds = client.kinds();
    assert!(
        kinds.starts_with(
            "created output_item.added conversation.item.added content_part.added \
             output_audio_transcript.delta output_audio.delta"
        ),
        "{kinds}"
    );
    assert!(
        kinds.ends_with(
            "output_audio.done output_audio_transcript.done content_part.done conversation.item.done \
             output_item.done done rate_limits.updated"
        ),
        "{kinds}"
    );
}

#[test]
fn one_response_is_active_at_a_time() {
    let mut client = Client::scripted("  - say: One two three four five six.\n");
    client.types("Hi");
    client.events.clear();
    client.send(&json!({"type": "response.create", "event_id": "second"}));
    assert_eq!(client.last("error")["error"]["event_id"], "second");
    client.send(&json!({"type": "response.cancel"}));
    let response = client.last("response.done")["response"].clone();
    assert_eq!(response["status_details"]["reason"], "client_cancelled");
    assert_eq!(response["output"][0]["status"], "incomplete");
    client.events.clear();
    client.send(&json!({"type": "response.cancel"}));
    assert_eq!(client.kinds(), "error:response_cancel_not_active");
}

#[test]
fn a_call_is_answered_by_its_id_and_only_once_it_exists() {
    let mut client = Client::scripted(
        "  - call: {name: look, args: {q: 1}, id: c1}\n  - expect_response\n  - say: \"It is {result.t}.\"\n",
    );
    client.types("Hi").wait_ms(100);
    assert_eq!(
        client.kinds(),
        "created output_item.added conversation.item.added function_call_arguments.delta \
         function_call_arguments.done conversation.item.done output_item.done done rate_limits.updated"
    );
    let output = |id: &str| {
        json!({"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": id,
            "output": "{\"t\":12}"}})
    };
    client.send(&output("c9"));
    assert_eq!(client.kinds(), "error:invalid_tool_call_id");
    client
        .send(&output("c1"))
        .send(&json!({"type": "response.create"}));
    client.wait_ms(10_000);
    let response = client.last("response.done")["response"].clone();
    assert_eq!(
        response["output"][0]["content"][0]["transcript"],
        "It is 12."
    );
}

#[test]
fn speech_is_heard_answered_and_cuts_in() {
    let script = "settings: {speed: 1}\nexchanges:\n- when: {speech: what time is it}\n  do:\n  - say: It is noon and the sun is high above the ship.\n";
    let script = Script::parse("test.yaml", script).unwrap();
    let mut client = Client::with(Options::scripted(script), TARGET);
    client.send(
        &json!({"type": "session.update", "session": {"type": "realtime",
        "audio": {"input": {"transcription": {"model": "gpt-4o-mini-transcribe"}}}}}),
    );
    client.events.clear();
    client
        .speak_ms(200, 0)
        .speak_ms(600, 6_000)
        .speak_ms(400, 0);
    let transcript = client.last("conversation.item.input_audio_transcription.completed");
    assert_eq!(transcript["transcript"], "what time is it");
    let kinds = client.kinds();
    assert!(
        kinds.starts_with(
            "input_audio_buffer.speech_started input_audio_buffer.speech_stopped input_audio_buffer.committed \
             conversation.item.added conversation.item.done \
             conversation.item.input_audio_transcription.delta \
             conversation.item.input_audio_transcription.completed created output_item.added"
        ),
        "{kinds}"
    );
    client.speak_ms(600, 6_000);
    let response = client.last("response.done")["response"].clone();
    assert_eq!(response["status_details"]["reason"], "turn_detected");
    let item = response["output"][0]["id"].clone();
    client.events.clear();
    client.send(&json!({"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": 60000}));
    assert_eq!(client.kinds(), "error:invalid_value");
    client.send(&json!({"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": 50}));
    assert_eq!(client.kinds(), "conversation.item.truncated");
}

#[test]
fn faults_come_as_the_script_says() {
    let mut client = Client::scripted("  - fail: {status: 429}\n");
    client.types("Hi").wait_ms(10);
    let response = client.last("response.done")["response"].clone();
    assert_eq!(
        (
            &response["status"],
            &response["status_details"]["error"]["code"]
        ),
        (&json!("failed"), &json!("rate_limit_exceeded"))
    );
    let mut client = Client::scripted("  - go_away_ms: 1000\n  - leave_open\n");
    client.types("Hi").wait_ms(2_000);
    assert_eq!(client.last("error")["error"]["code"], "session_expired");
    assert_eq!(client.closed, Some(1001));
    for cut in ["drop", "half_frame: {type: error}"] {
        let mut client = Client::scripted(&format!("  - refuse_connects: 1\n  - {cut}\n"));
        client.types("Hi").wait_ms(10);
        assert_eq!(client.closed, Some(1006));
        let again = upgrade(TARGET, &[KEY]);
        let refusal = client.server.connect(&again).unwrap_err();
        assert_eq!(refusal.http_status, 503);
        client.server.connect(&again).unwrap();
    }
}

#[test]
fn what_is_no_event_is_refused_and_the_session_goes_on() {
    let mut client = Client::scripted("  - say: Yes.\n");
    for frame in [
        "",
        "null",
        "{",
        "[]",
        "{\"type\":7}",
        "{\"type\":\"session.pause\"}",
    ] {
        client.input(Input::Frame(frame.as_bytes()));
    }
    assert_eq!(client.kinds(), "error:invalid_event error:invalid_value");
    for event in [
        json!({"type": "conversation.item.create"}),
        json!({"type": "conversation.item.create", "item": {"type": "message", "role": "assistant",
            "content": [{"type": "output_audio", "audio": "AAAA"}]}}),
        json!({"type": "conversation.item.delete", "item_id": "nobody"}),
        json!({"type": "conversation.item.retrieve"}),
        json!({"type": "input_audio_buffer.append", "audio": "é"}),
        json!({"type": "input_audio_buffer.commit"}),
    ] {
        client.send(&event);
        assert!(client.kinds().starts_with("error:"), "{event}");
    }
    client.types("Hi").wait_ms(5_000);
    assert_eq!(
        client.last("response.done")["response"]["status"],
        "completed"
    );
}
