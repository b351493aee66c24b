//! One client with a virtual clock, and what it received as lines that are easy to compare. Owns no expectation.

use serde_json::{Map, Value, json};
use std::time::Duration;
use windlass_session::time::Timestamp;
use windlass_sim::gemini_live::Server;
use windlass_sim::runner::{ConnectionId, Input, Options, Output, Rejection, Upgrade};
use windlass_sim::script::Script;

pub(crate) const LIVE: &str = "models/gemini-3.8-live";
pub(crate) const NATIVE: &str = "models/gemini-2.5-flash-native-audio-latest";
pub(crate) const FLASH: &str = "models/gemini-3.1-flash-live-preview";
pub(crate) const EXTENDED: &str = "models/gemini-3.8-live-extended-thinking";
pub(crate) const ON_VERTEX: &str = "publishers/google/models/gemini-live-2.5-flash-native-audio";
/// Settings under which everything comes at once.
pub(crate) const AT_ONCE: &str = "settings: {speed: 0, await_playback: false}\n";

/// What a client does.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    Send(Value),
    Bytes(&'static [u8]),
    WaitMs(u64),
    /// Answers the call of this number, from 0, with these fields beside `id` and `name`.
    Answer(usize, Value),
    /// Speech of this length between silences.
    SpeakMs(usize),
    Hang,
}

pub(crate) struct Dialogue {
    pub(crate) server: Server,
    pub(crate) id: ConnectionId,
    pub(crate) now: Timestamp,
    pub(crate) lines: Vec<String>,
    /// Calls as received.
    pub(crate) calls: Vec<Value>,
    pub(crate) handles: Vec<String>,
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) stalled: Option<Timestamp>,
}

pub(crate) fn gemini() -> Upgrade {
    Upgrade {
        target:
            "//ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=k"
                .into(),
        headers: Vec::new(),
    }
}

pub(crate) fn vertex() -> Upgrade {
    Upgrade {
        target: "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent".into(),
        headers: vec![("Authorization".into(), "Bearer t".into())],
    }
}

pub(crate) fn scripted(script: &str) -> Server {
    Server::new(Options::scripted(
        Script::parse("test.yaml", script).unwrap(),
    ))
}

/// A setup with transcription of both sides and three tools: blocking, non-blocking, undeclared behaviour.
pub(crate) fn setup_of(model: &str) -> Value {
    let tools = json!([{"functionDeclarations": [
        {"name": "lookup", "behavior": "BLOCKING", "parameters": {"type": "OBJECT", "properties": {"n": {"type": "STRING"}}}},
        {"name": "report", "behavior": "NON_BLOCKING"},
        {"name": "either"}
    ]}]);
    setup_with(
        model,
        json!({"tools": tools, "outputAudioTranscription": {}, "inputAudioTranscription": {}}),
    )
}

/// The smallest setup with these fields beside the model.
pub(crate) fn setup_with(model: &str, fields: Value) -> Value {
    let mut setup = fields;
    setup["model"] = Value::from(model);
    json!({ "setup": setup })
}

pub(crate) fn text(text: &str) -> Do {
    Do::Send(json!({"realtimeInput": {"text": text}}))
}

pub(crate) fn content(text: &str) -> Do {
    Do::Send(
        json!({"clientContent": {"turns": [{"role": "user", "parts": [{"text": text}]}], "turnComplete": true}}),
    )
}

pub(crate) fn output(value: Value) -> Value {
    json!({"response": {"output": value}})
}

/// Runs a dialogue and compares everything that the client received.
pub(crate) fn check(script: &str, model: &str, steps: &[Do], expected: &[&str]) {
    let upgrade = if model.starts_with("publishers") {
        vertex()
    } else {
        gemini()
    };
    check_setup(script, &upgrade, &setup_of(model), steps, expected);
}

pub(crate) fn check_setup(
    script: &str,
    upgrade: &Upgrade,
    setup: &Value,
    steps: &[Do],
    expected: &[&str],
) {
    let mut dialogue = Dialogue::connect(scripted(script), upgrade).unwrap();
    dialogue.act(&Do::Send(setup.clone()));
    for step in steps {
        dialogue.act(step);
    }
    assert_eq!(dialogue.lines, expected, "{script}\n{setup}\n{steps:?}");
}

impl Dialogue {
    pub(crate) fn connect(mut server: Server, upgrade: &Upgrade) -> Result<Self, Rejection> {
        let id = server.connect(upgrade)?;
        Ok(Self {
            server,
            id,
            now: Timestamp::from_millis(5),
            lines: Vec::new(),
            calls: Vec::new(),
            handles: Vec::new(),
            frames: Vec::new(),
            stalled: None,
        })
    }

    /// A new connection to the same server, the lines so far forgotten.
    pub(crate) fn reconnect(&mut self, upgrade: &Upgrade) -> Result<ConnectionId, Rejection> {
        let old = self.id;
        self.id = self.server.connect(upgrade)?;
        self.lines.clear();
        Ok(old)
    }

    pub(crate) fn act(&mut self, step: &Do) {
        match step {
            Do::Send(message) => self.input(Input::Frame(message.to_string().as_bytes())),
            Do::Bytes(bytes) => self.input(Input::Frame(bytes)),
            Do::WaitMs(length) => self.wait(Duration::from_millis(*length)),
            Do::Hang => self.input(Input::Closed),
            Do::Answer(index, fields) => {
                let call = &self.calls[*index];
                let mut response = fields.clone();
                response["name"] = call["name"].clone();
                if let Some(id) = call.get("id") {
                    response["id"] = id.clone();
                }
                self.act(&Do::Send(
                    json!({"toolResponse": {"functionResponses": [response]}}),
                ));
            }
            Do::SpeakMs(length) => {
                for (level, milliseconds) in [(3, 200), (6_000, *length), (3, 700)] {
                    self.play(level, milliseconds);
                }
            }
        }
    }

    /// Sends audio in real time, 100 ms a frame.
    pub(crate) fn play(&mut self, level: i16, milliseconds: usize) {
        let sample = |index: usize| if index % 32 < 16 { level } else { -level };
        let pcm: Vec<u8> = (0..16 * milliseconds)
            .flat_map(|index| sample(index).to_le_bytes())
            .collect();
        for part in pcm.chunks(3_200) {
            let data = base64_simd::STANDARD.encode_to_string(part);
            let blob = json!({"data": data, "mimeType": "audio/pcm;rate=16000"});
            self.act(&Do::Send(json!({"realtimeInput": {"audio": blob}})));
            self.wait(Duration::from_millis(part.len() as u64 / 32));
        }
    }

    /// Lets time pass, with a tick at every deadline.
    fn wait(&mut self, length: Duration) {
        let end = self.now + length;
        while let Some(deadline) = self.server.next_deadline(self.id) {
            if deadline > end {
                break;
            }
            self.now = self.now.max(deadline);
            self.input(Input::Tick);
            let next = self.server.next_deadline(self.id);
            assert!(
                next.is_none_or(|next| next > deadline),
                "a tick at a deadline makes progress"
            );
        }
        self.now = end;
    }

    fn input(&mut self, input: Input<'_>) {
        let mut out = Vec::new();
        self.server.handle(self.now, self.id, input, &mut out);
        for output in out {
            match output {
                Output::Send(frame) => {
                    assert!(frame.len() < 1 << 20);
                    match serde_json::from_slice::<Value>(&frame) {
                        Ok(Value::Object(message)) => self.note(message),
                        Ok(_) | Err(_) => self
                            .lines
                            .push(String::from_utf8_lossy(&frame).into_owned()),
                    }
                    self.frames.push(frame);
                }
                Output::Close { code, reason } => {
                    self.lines.push(format!("closed {code} {reason}"))
                }
                Output::Drop => self.lines.push("dropped".into()),
                Output::DropWithin(frame) => self.lines.push(format!(
                    "dropped within {}",
                    String::from_utf8_lossy(&frame)
                )),
                Output::StopReading { until } => self.stalled = Some(until),
            }
        }
    }

    fn note(&mut self, message: Map<String, Value>) {
        for (kind, body) in message {
            match kind.as_str() {
                "setupComplete" => self.lines.push(
                    format!("ready {}", body["sessionId"].as_str().unwrap_or(""))
                        .trim_end()
                        .into(),
                ),
                "serverContent" => self.note_content(body),
                "toolCall" => {
                    for call in body["functionCalls"].as_array().unwrap() {
                        self.lines.push(format!(
                            "call {} {}",
                            call["name"].as_str().unwrap(),
                            call.get("args").unwrap_or(&Value::Null)
                        ));
                        self.calls.push(call.clone());
                    }
                }
                "toolCallCancellation" => {
                    let ids = body["ids"].as_array().unwrap();
                    for id in ids {
                        let index = self
                            .calls
                            .iter()
                            .position(|call| call.get("id") == Some(id));
                        self.lines
                            .push(index.map_or("cancelled unknown".into(), |index| {
                                format!("cancelled {index}")
                            }));
                    }
                }
                "sessionResumptionUpdate" => match body["newHandle"].as_str() {
                    Some(handle) if body["resumable"] == true => {
                        self.handles.push(handle.to_owned());
                        self.lines.push("handle".into());
                    }
                    _ => self.lines.push("no handle".into()),
                },
                "goAway" => self
                    .lines
                    .push(format!("go away {}", body["timeLeft"].as_str().unwrap())),
                "voiceActivity" => self.lines.push(body["type"].as_str().unwrap().to_owned()),
                "usageMetadata" => {}
                _ => self.lines.push(format!("{kind} {body}")),
            }
        }
    }

    fn note_content(&mut self, body: Value) {
        let Value::Object(body) = body else {
            panic!("content is an object")
        };
        if body.is_empty() {
            self.lines.push("empty".into());
        }
        let order = [
            "interrupted",
            "modelTurn",
            "inputTranscription",
            "outputTranscription",
            "generationComplete",
            "turnComplete",
        ];
        for key in order {
            let Some(value) = body.get(key) else { continue };
            match key {
                "modelTurn" => value["parts"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .for_each(|part| self.note_part(part)),
                "outputTranscription" => self.note_words("says", value),
                "inputTranscription" => self.note_words("hears", value),
                "generationComplete" => self.lines.push("generated".into()),
                "turnComplete" => {
                    let status = body
                        .get("interactionStatus")
                        .and_then(Value::as_str)
                        .unwrap_or("");
                    self.lines
                        .push(format!("turn over {status}").trim_end().into());
                }
                _ => self.lines.push(key.to_owned()),
            }
        }
        if let Some((key, value)) = body
            .iter()
            .find(|(key, _)| !order.contains(&key.as_str()) && *key != "interactionStatus")
        {
            self.lines.push(format!("{key} {value}"));
        }
    }

    /// Words of one utterance add up; audio between them belongs to it.
    fn note_words(&mut self, who: &str, value: &Value) {
        let words = value["text"].as_str().unwrap_or("");
        let heading = format!("{who}: ");
        match self.lines.last_mut() {
            Some(last) if last.starts_with(&heading) => last.push_str(words),
            Some(last) if last == "audio" && who == "says" && !words.is_empty() => {
                *last = format!("{heading}{words}")
            }
            _ if words.is_empty() => {}
            _ => self.lines.push(format!("{heading}{words}")),
        }
    }

    fn note_part(&mut self, part: &Value) {
        if part["inlineData"].is_object() {
            let inside = self
                .lines
                .last()
                .is_some_and(|last| last == "audio" || last.starts_with("says: "));
            if !inside {
                self.lines.push("audio".into());
            }
        } else if part["thought"] == true {
            self.lines.push("thinks".into());
        } else if let Some(call) = part.get("functionCall") {
            self.lines.push(format!(
                "part {} {}",
                call["name"].as_str().unwrap(),
                call["args"]
            ));
            self.calls.push(call.clone());
        } else {
            self.lines.push(format!("part {part}"));
        }
    }
}
