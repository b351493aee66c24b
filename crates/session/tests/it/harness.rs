//! A session under a script. A line that starts with `>` is an input; every other line is an output that it must cause.

use expect_test::Expect;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use windlass_session::client::{ClientEvent, ClientUpdate};
use windlass_session::event::SessionEvent;
use windlass_session::io::{Input, Output, RateDecision, Reservation, ReservationError};
use windlass_session::limits::Limits;
use windlass_session::model::{
    AnswerBatching, ArgumentsProblem, CallSupport, ConnectionEvent, DeclarationForm, HistoryInput,
    IncomingCall, LostReason, ModelCommand, ModelEvent, ModelProfile, TextInput, Thinking,
};
use windlass_session::session::{Session, SessionConfig};
use windlass_session::time::Timestamp;
use windlass_tool::envelope::{Projection, ProjectionBody};
use windlass_tool::error::FailureKind;
use windlass_tool::handler::{
    Cause, Execution, Failure, Handler, HandlerMessage, HandlerResult, Invocation, Report, Success,
};
use windlass_tool::id::{CallNumber, CallRef, ConversationId, EffectId, SessionId, ToolId, UserId};
use windlass_tool::kind::{
    Behavior, Category, Mode, OnInterrupt, RateLimit, Reach, Scheduling, SideEffects,
};
use windlass_tool::registry::{Declarations, Registry, Tool};
use windlass_tool::validate::Validator;

struct Unused;

impl Handler for Unused {
    fn execute(&self, _: Invocation) -> Execution {
        unreachable!("the core starts no handler itself")
    }
}

pub(crate) fn tool(
    id: &str,
    category: Category,
    side_effects: SideEffects,
    parameters: Value,
) -> Tool {
    let declaration =
        || serde_json::value::RawValue::from_string(json!({ "name": id }).to_string()).unwrap();
    Tool {
        id: ToolId::parse(id).unwrap(),
        version: "1.0.0".into(),
        description: id.to_owned(),
        category,
        side_effects,
        idempotent: side_effects != SideEffects::Writes,
        requires_confirmation: false,
        allowed_modes: vec![Mode::Voice, Mode::Text],
        latency_budget_ms: 500,
        timeout_ms: 5_000,
        behavior: Behavior::Blocking,
        scheduling: Scheduling::WhenIdle,
        on_interrupt: OnInterrupt::Finish,
        reach: Reach::Internal,
        confirmation_preview: None,
        rate_limit: None,
        sensitive: Vec::new(),
        status: None,
        parameters: Validator::compile(&parameters).unwrap(),
        response: None,
        declarations: Declarations {
            openai: declaration(),
            openai_realtime: declaration(),
            gemini_native: declaration(),
            gemini_json: declaration(),
        },
        summary: String::new(),
        documentation: String::new(),
        handler: Arc::new(Unused),
    }
}

/// Tools of every kind that a policy tells apart.
pub(crate) fn registry() -> Registry {
    let any = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "text": { "type": "string" } }
    });
    let search = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["query"],
        "properties": {
            "query": { "type": "string", "minLength": 1 },
            "top_k": { "type": "integer", "minimum": 1, "maximum": 10, "default": 5 },
        }
    });
    let make = |id, category, side_effects| tool(id, category, side_effects, any.clone());
    let tools = vec![
        Tool {
            status: Some("Searching for {query}".to_owned()),
            reach: Reach::External,
            ..tool("search", Category::Retrieval, SideEffects::ReadOnly, search)
        },
        make("look", Category::Utility, SideEffects::None),
        make("write", Category::Action, SideEffects::Writes),
        make("post", Category::Action, SideEffects::Writes),
        Tool {
            requires_confirmation: true,
            ..make("pay", Category::Action, SideEffects::Writes)
        },
        Tool {
            allowed_modes: vec![Mode::Text],
            ..make("text_only", Category::Utility, SideEffects::None)
        },
        Tool {
            on_interrupt: OnInterrupt::Cancel,
            ..make("cancellable", Category::Utility, SideEffects::None)
        },
        Tool {
            rate_limit: Some(RateLimit {
                calls: 1,
                window_ms: 60_000,
            }),
            ..make("limited", Category::Utility, SideEffects::None)
        },
        Tool {
            response: Some(
                Validator::compile(&json!({"type": "object", "required": ["n"]})).unwrap(),
            ),
            ..make("typed", Category::Utility, SideEffects::None)
        },
        Tool {
            behavior: Behavior::NonBlocking,
            scheduling: Scheduling::Interrupt,
            ..make("slow", Category::Utility, SideEffects::None)
        },
        make("describe_tool", Category::Utility, SideEffects::None),
    ];
    Registry::new("1.0.test0000", None, tools)
}

pub(crate) fn profile() -> ModelProfile {
    ModelProfile {
        calls: CallSupport::Both,
        scheduling: true,
        declaration: DeclarationForm::GeminiNative,
        answers: AnswerBatching::Together,
        text_input: TextInput::RealtimeInput,
        history: HistoryInput::ClientContent,
        resumption: true,
        hold_microphone: false,
        thinking: Thinking::Omit,
        vision: false,
        context_tokens_max: 131_072,
    }
}

pub(crate) struct Bench {
    pub(crate) session: Session,
    now: Timestamp,
    effects: u64,
    store_is_down: bool,
    rate: Option<Duration>,
    /// The turn and the tool of each call that was started.
    pub(crate) starts: Vec<(u64, String)>,
}

impl Bench {
    pub(crate) fn new(mode: Mode) -> (Self, String) {
        Self::with(mode, |_| {})
    }

    pub(crate) fn with(mode: Mode, change: impl FnOnce(&mut SessionConfig)) -> (Self, String) {
        let mut config = SessionConfig {
            session_id: SessionId::new("s-1"),
            user_id: UserId::new("u-1"),
            conversation_id: ConversationId::new("c-1"),
            mode,
            registry: Arc::new(registry()),
            limits: Arc::new(Limits::of(mode)),
            profile: Arc::new(profile()),
            started_unix_ms: 1_795_000_000_000,
            history: Vec::new(),
            pending_request: None,
        };
        change(&mut config);
        let mut outputs = Vec::new();
        let session = Session::new(config, &mut outputs);
        let bench = Self {
            session,
            now: Timestamp(0),
            effects: 0,
            store_is_down: false,
            rate: None,
            starts: Vec::new(),
        };
        (bench, render_all(&outputs))
    }

    /// Runs one input line and returns the lines that it causes. Questions of the core to store and limiter are answered
    /// at once, as the driver does.
    pub(crate) fn line(&mut self, line: &str) -> String {
        if line == "store down" || line == "store up" {
            self.store_is_down = line == "store down";
            return String::new();
        }
        if let Some(wait) = line.strip_prefix("rate ") {
            self.rate = wait.parse().ok().map(Duration::from_millis);
            return String::new();
        }
        if let Some(millis) = line.strip_prefix("wait ") {
            self.now = self.now + Duration::from_millis(millis.parse().unwrap());
            return self.step(Input::Tick);
        }
        let input = parse(line);
        self.step(input)
    }

    pub(crate) fn step(&mut self, input: Input) -> String {
        let mut text = String::new();
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            let mut outputs = Vec::new();
            self.session
                .handle(self.now, inputs.remove(0), &mut outputs);
            text.push_str(&render_all(&outputs));
            for output in &outputs {
                match output {
                    Output::StartCall(call) => {
                        self.starts.push((call.turn(), call.tool().id.to_string()));
                    }
                    Output::Reserve { call, .. } => {
                        self.effects += 1;
                        let outcome = if self.store_is_down {
                            Err(ReservationError {
                                problem: "disk full".to_owned(),
                            })
                        } else {
                            Ok(EffectId::new(format!("effect-{}", self.effects)))
                        };
                        inputs.push(Input::Reserved(Reservation {
                            call: *call,
                            outcome,
                        }));
                    }
                    Output::CheckRate { call, .. } => {
                        let decision = match self.rate {
                            None => RateDecision::Allowed,
                            Some(retry_after) => RateDecision::Refused { retry_after },
                        };
                        inputs.push(Input::RateChecked {
                            call: *call,
                            decision,
                        });
                    }
                    _ => {}
                }
            }
        }
        text
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }
}

/// Runs a script against a fresh session that is connected already, and compares all that it says with what the script
/// says.
pub(crate) fn check(mode: Mode, script: Expect) {
    check_with(mode, |_| {}, script);
}

pub(crate) fn check_with(mode: Mode, change: impl FnOnce(&mut SessionConfig), script: Expect) {
    let (mut bench, _) = Bench::with(mode, change);
    bench.line("connected 1");
    bench.line("ready");
    let mut actual = String::new();
    for line in script.data().lines() {
        if let Some(input) = line.trim().strip_prefix("> ") {
            writeln!(actual, "> {input}").unwrap();
            actual.push_str(&bench.line(input));
        }
    }
    script.assert_eq(&actual);
}

fn parse(line: &str) -> Input {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let model = Input::Model;
    match word {
        "connected" => Input::Connection(ConnectionEvent::Connected {
            generation: rest.parse().unwrap(),
            resumed: false,
        }),
        "lost" => Input::Connection(ConnectionEvent::Lost {
            generation: rest.parse().unwrap(),
            reason: LostReason::Closed {
                code: 1011,
                reason: "Internal error".to_owned(),
            },
        }),
        "unauthorized" => Input::Connection(ConnectionEvent::Lost {
            generation: rest.parse().unwrap(),
            reason: LostReason::Unauthorized,
        }),
        "ready" => model(ModelEvent::Ready {
            provider_session_id: None,
        }),
        "calls" => model(ModelEvent::Calls(
            rest.split(" + ").map(parse_call).collect(),
        )),
        "cancel" => model(ModelEvent::CallsCancelled(
            rest.split(' ').map(Into::into).collect(),
        )),
        "hears" => model(ModelEvent::InputTranscript {
            text: rest.to_owned().into(),
            finished: false,
        }),
        "speech" => model(ModelEvent::SpeechStarted),
        "says" => model(ModelEvent::OutputTranscript {
            text: rest.to_owned().into(),
            finished: false,
        }),
        "audio" => model(ModelEvent::AudioStarted),
        "generated" => model(ModelEvent::GenerationComplete),
        "done" => model(ModelEvent::TurnComplete {
            idle: true,
            reason: None,
            unplayed: Duration::from_millis(rest.parse().unwrap_or(0)),
        }),
        "busy" => model(ModelEvent::TurnComplete {
            idle: false,
            reason: None,
            unplayed: Duration::ZERO,
        }),
        "interrupted" => model(ModelEvent::Interrupted),
        "text" => Input::Client(ClientEvent::Text {
            text: rest.to_owned().into(),
        }),
        "interrupt" => Input::Client(ClientEvent::Interrupt),
        "spoken" => Input::Client(ClientEvent::TurnComplete),
        "played" => Input::Client(ClientEvent::PlaybackDone),
        "stop" => Input::Client(ClientEvent::Stop),
        "gone" => Input::Client(ClientEvent::Lost),
        "shutdown" => Input::Shutdown,
        "returns" => {
            let (call, result) = rest.split_once(' ').unwrap();
            Input::CallFinished {
                call: parse_ref(call),
                result: parse_result(result),
            }
        }
        "message" => {
            let (call, message) = rest.split_once(' ').unwrap();
            let message = HandlerMessage::Client(serde_json::from_str(message).unwrap());
            Input::HandlerMessage {
                call: parse_ref(call),
                message,
            }
        }
        "progress" => {
            let (call, message) = rest.split_once(' ').unwrap();
            let message = HandlerMessage::Progress {
                message: message.to_owned(),
                fraction: Some(0.5),
            };
            Input::HandlerMessage {
                call: parse_ref(call),
                message,
            }
        }
        other => panic!("no such input: {other}"),
    }
}

fn parse_ref(text: &str) -> CallRef {
    let (call, attempt) = text.split_once('/').unwrap_or((text, "1"));
    CallRef {
        call: CallNumber(call.parse().unwrap()),
        attempt: attempt.parse().unwrap(),
    }
}

/// `id name {arguments}`, where `-` stands for no id or no name.
fn parse_call(text: &str) -> IncomingCall {
    let mut parts = text.splitn(3, ' ');
    let mut part = || parts.next().filter(|part| *part != "-");
    let (id, name, arguments) = (part(), part(), part().unwrap_or("{}"));
    let arguments = windlass_tool::json::parse(arguments.as_bytes())
        .map_err(|error| ArgumentsProblem(error.to_string()))
        .map(|value| value.as_object().unwrap().clone());
    IncomingCall {
        id: id.map(Into::into),
        name: name.map(Into::into),
        arguments,
    }
}

fn parse_result(text: &str) -> HandlerResult {
    let failure = |kind| Err(Failure::new(kind, "it failed"));
    match text {
        "nothing" => Ok(Success::default()),
        "broken" => Err(Failure {
            cause: Cause::Broken("panicked at secret".to_owned()),
            intents: vec![],
        }),
        "transient" => failure(FailureKind::Transient),
        "clean_transient" => Err(Report {
            partial_side_effects: Some(false),
            ..Report::new(FailureKind::Transient, "it failed")
        }
        .into()),
        "permanent" => failure(FailureKind::Permanent),
        json => {
            let value: Value = serde_json::from_str(json).unwrap();
            let intents = value.get("intents").cloned().unwrap_or(json!([]));
            let mut success = Success::new(value);
            success.intents = serde_json::from_value(intents).unwrap();
            Ok(success)
        }
    }
}

fn render_all(outputs: &[Output]) -> String {
    outputs
        .iter()
        .filter_map(render)
        .map(|line| line + "\n")
        .collect()
}

fn render(output: &Output) -> Option<String> {
    Some(match output {
        Output::Reserve { call, tool, .. } => format!("reserve {call} {tool}"),
        Output::CheckRate { call, tool, .. } => format!("check rate {call} {tool}"),
        Output::StartCall(call) => format!(
            "start {} {}{} {}",
            call.call().call,
            call.tool().id,
            call.effect_id()
                .map(|id| format!(" ({id})"))
                .unwrap_or_default(),
            serde_json::to_string(call.arguments()).unwrap()
        ),
        Output::AbortCall { call, drop } => {
            format!(
                "abort {}{}",
                call.call,
                if *drop { "" } else { " (let it end)" }
            )
        }
        Output::SendModel(command) => render_command(command),
        Output::SendClient(update) => render_update(update),
        Output::DiscardAudio => "discard audio".to_owned(),
        Output::AcceptAudio => "accept audio".to_owned(),
        Output::SuppressAudio(value) => format!("suppress audio {value}"),
        Output::HoldMicrophone(value) => format!("hold microphone {value}"),
        Output::Event(event) => return render_event(event),
        Output::Close(reason) => format!("close {reason:?}"),
    })
}

fn render_command(command: &ModelCommand) -> String {
    match command {
        ModelCommand::ToolResponses(responses) => {
            let texts: Vec<String> = responses
                .iter()
                .map(|response| {
                    let id = response.id.as_deref().unwrap_or("-");
                    let scheduling = response
                        .scheduling
                        .map(|value| format!(" {value:?}"))
                        .unwrap_or_default();
                    format!(
                        "{id}{scheduling} {}",
                        render_projection(&response.projection)
                    )
                })
                .collect();
            format!("to model: {}", texts.join(" + "))
        }
        ModelCommand::UserText(text) => format!("to model: text {:?}", text.expose()),
        ModelCommand::History { entries, .. } => format!("to model: {} of history", entries.len()),
        ModelCommand::Image { .. } => "to model: image".to_owned(),
        ModelCommand::AudioEnded => "to model: audio ended".to_owned(),
    }
}

fn render_projection(projection: &Projection) -> String {
    match &projection.body {
        ProjectionBody::Success { data, quoted, .. } => {
            let data = data.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("ok{} {data}", if *quoted { " quoted" } else { "" })
        }
        ProjectionBody::Failure {
            error_type,
            message,
            ..
        } => {
            format!("{} {message}", error_type.code())
        }
    }
}

fn render_update(update: &ClientUpdate) -> String {
    match update {
        ClientUpdate::Transcript {
            role,
            text,
            is_final,
            citations,
            ..
        } => {
            let cited: Vec<&str> = citations.iter().map(|citation| &*citation.id).collect();
            let cited = if cited.is_empty() {
                String::new()
            } else {
                format!(" citing {}", cited.join(", "))
            };
            let kind = if *is_final { "said" } else { "piece" };
            format!("client: {role:?} {kind} {:?}{cited}", text.expose())
        }
        ClientUpdate::SessionComplete { transcripts } => {
            format!(
                "client: session complete, {} transcripts",
                transcripts.len()
            )
        }
        ClientUpdate::Error { code, message, .. } => {
            format!("client: error {}: {message}", code.as_str())
        }
        ClientUpdate::EndVoiceSession { reason, .. } => {
            format!("client: end voice session: {reason}")
        }
        ClientUpdate::Message(message) => format!("client: message {message}"),
        other => format!("client: {other:?}"),
    }
}

fn render_event(event: &SessionEvent) -> Option<String> {
    Some(match event {
        SessionEvent::TurnStarted { turn } => format!("turn {turn} started"),
        SessionEvent::TurnEnded { turn, summary } => format!(
            "turn {turn} ended: calls {} retrieval {} refusals {} repeats {}{}{}",
            summary.calls,
            summary.retrieval_calls,
            summary.refusals,
            summary.repeats,
            if summary.interrupted {
                " interrupted"
            } else {
                ""
            },
            if summary.wound_up { " wound up" } else { "" },
        ),
        SessionEvent::CallRejected(record) => {
            format!(
                "{} rejected {:?}",
                record.call,
                record.error_type().unwrap()
            )
        }
        SessionEvent::CallFinished(record) => match record.error_type() {
            None => format!("{} finished", record.call),
            Some(error_type) => format!("{} finished {error_type:?}", record.call),
        },
        SessionEvent::CallCancelled(record) => format!("{} cancelled", record.call),
        SessionEvent::CallDeduplicated { call, rule, .. } => {
            format!("{call} is a repeat: {rule:?}")
        }
        SessionEvent::CallReturnedLate { call } => format!("{call} returned late"),
        SessionEvent::ArgumentClamped {
            call,
            argument,
            from,
            to,
            ..
        } => {
            format!("{call} clamped {argument} {from} to {to}")
        }
        SessionEvent::LatencyExceeded {
            call,
            limit,
            limit_ms,
            actual_ms,
        } => {
            format!("{call} took {actual_ms} ms, over {limit:?} {limit_ms}")
        }
        SessionEvent::IntentApplied { call, intent, .. } => {
            format!("{call} applied {}", intent.name())
        }
        SessionEvent::IntentRejected { call, problem, .. } => {
            format!("{call} intent rejected: {problem}")
        }
        SessionEvent::ProviderSilentAfterResult { .. } => {
            "provider silent after a result".to_owned()
        }
        SessionEvent::HandlerProblem { call, problem, .. } => format!("{call} problem: {problem}"),
        SessionEvent::CallProgressed { call, message, .. } => format!("{call} progress: {message}"),
        SessionEvent::SessionEnded { reason } => format!("session ended: {reason:?}"),
        // What every script would repeat without saying more.
        _ => return None,
    })
}
