//! A whole voice session in memory: the session core, the Gemini Live codec, the built-in tools and, at the other end, the
//! simulated server with the demo model. Owns no socket and no clock: time jumps from one deadline to the next.
//!
//! Run it with `cargo run --example simulated_voice_session`.

use futures_util::FutureExt;
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use windlass_compile::artifact::Loaders;
use windlass_compile::handler_file::Permissions;
use windlass_compile::{Source, builtin, compile};
use windlass_contract::handler::{
    Blocks, Caller, Cancellation, Capabilities, Context, Execution, Failure, HandlerMessage,
    HandlerResult, Invocation, Knowledge, Outbox, OutboxClosed, SessionContext, ToolFacts,
};
use windlass_contract::id::{
    CallNumber, CallRef, ClientId, ConversationId, SessionId, TenantId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::KnowledgeBase;
use windlass_provider::gemini_live::address::{Address, Backend, Credentials};
use windlass_provider::gemini_live::{
    Codec, DeclaredTools, SetupRequest, Sink, SpeechDetection, encode_setup,
};
use windlass_provider::profile::{self, GEMINI_LIVE_MODEL};
use windlass_session::client::{ClientEvent, ClientUpdate};
use windlass_session::event::SessionEvent;
use windlass_session::io::{AdmittedCall, Input, Output, RateDecision, StoreProblem};
use windlass_session::limits::Limits;
use windlass_session::model::{ConnectionEvent, ModelEvent, ModelProfile};
use windlass_session::session::{Session, SessionConfig};
use windlass_session::time::Timestamp;
use windlass_sim::gemini_live::Server;
use windlass_sim::runner::{self, ConnectionId, Options, Upgrade};
use windlass_store::{Epoch, MemoryStore, OwnerId, ServerKey, StoreLimits, StoreSettings};

/// What the user types, each line once the model has answered the one before.
const USER: [&str; 2] = ["Who designed the ship Fram?", "Let's stop here."];

/// 20 November 2026, 12:00 UTC. Nothing here asks a real clock.
const STARTED_UNIX_MS: u64 = 1_795_176_000_000;

/// 24 kHz, 16 bits, one channel.
const SPEAKER_BYTES_PER_MS: u64 = 48;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    run(&mut std::io::stdout().lock())
}

/// Runs the session and writes what happens, line by line.
pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let registry = Arc::new(registry(&root)?);
    let (knowledge, _) =
        KnowledgeBase::open(root.join("kb"), &windlass_knowledge::Options::default())?;
    let capabilities = Arc::new(Memory {
        knowledge: Arc::new(knowledge),
        blocks: Arc::new(MemoryStore::new(StoreSettings {
            key: ServerKey::new([0; 32]),
            owner: OwnerId("example".to_owned()),
            clock: Arc::new(|| STARTED_UNIX_MS),
            limits: StoreLimits::default(),
        })),
    });
    Conversation::begin(registry, capabilities, out)?.run()
}

/// Compiles the tool directories of this repository, as `windlass build` does.
fn registry(root: &Path) -> Result<Registry, Box<dyn Error>> {
    let handlers = windlass_handlers::builtin();
    let builtin = builtin(&handlers);
    let compilation = compile(&Source {
        tools: &root.join("tools"),
        artifact: &root.join("data/tool_registry.json"),
        builtin: &builtin,
        build_timestamp: "2026-11-20T12:00:00Z",
        vocabularies: &BTreeMap::new(),
        values: windlass_contract::condition::Values::none(),
        permissions: &Permissions::default(),
        judge: None,
    });
    let artifact = compilation.artifact.ok_or_else(|| {
        let problems: Vec<String> = compilation
            .problems
            .iter()
            .map(ToString::to_string)
            .collect();
        problems.join("\n")
    })?;
    Ok(artifact.into_registry(&handlers, Loaders::default(), &BTreeMap::new())?)
}

/// What the server's driver does with sockets, here done with two queues.
struct Conversation<'a> {
    now: Timestamp,
    session: Session,
    inputs: VecDeque<Input>,
    codec: Codec,
    server: Server,
    connection: ConnectionId,
    capabilities: Arc<Memory>,
    user: VecDeque<&'static str>,
    audio_bytes: u64,
    out: &'a mut dyn Write,
}

impl<'a> Conversation<'a> {
    fn begin(
        registry: Arc<Registry>,
        capabilities: Arc<Memory>,
        out: &'a mut dyn Write,
    ) -> Result<Self, Box<dyn Error>> {
        let profile = profile::gemini_live(GEMINI_LIVE_MODEL).profile.model;
        let backend = Backend::DeveloperApi { version: None };
        let key = Credentials::ApiKey(Sensitive("any-key".to_owned()));
        let address = backend.address(Some(&key), Some("ws://simulator"))?;
        let mut server = Server::new(Options::demo());
        let connection = server.connect(&upgrade(&address))?;

        let mut setup = Vec::new();
        let tools = DeclaredTools::new(registry.declared(Mode::Voice), &profile);
        let model = backend.model_name(GEMINI_LIVE_MODEL);
        encode_setup(&setup_request(&model, &tools), &profile, &mut setup);

        let mut outputs = Vec::new();
        let session = Session::new(session_config(registry, &profile), &mut outputs);
        let mut conversation = Self {
            now: Timestamp::default(),
            session,
            inputs: VecDeque::from([Input::Connection(ConnectionEvent::Connected {
                generation: 1,
                resumed: false,
            })]),
            codec: Codec::new(profile),
            server,
            connection,
            capabilities,
            user: USER.into(),
            audio_bytes: 0,
            out,
        };
        conversation.perform(outputs)?;
        conversation.tell_server(runner::Input::Frame(&setup))?;
        conversation.user_speaks()?;
        Ok(conversation)
    }

    /// Until the session is over: take what is there, else jump to the next deadline of either side.
    fn run(mut self) -> Result<(), Box<dyn Error>> {
        while !self.session.is_over() {
            if let Some(input) = self.inputs.pop_front() {
                let mut outputs = Vec::new();
                self.session.handle(self.now, input, &mut outputs);
                self.perform(outputs)?;
                continue;
            }
            let server = self.server.next_deadline(self.connection);
            let session = self.session.next_deadline();
            let Some(next) = server.into_iter().chain(session).min() else {
                return Err("the session waits for nothing and is not over".into());
            };
            self.now = self.now.max(next);
            if session == Some(next) {
                self.inputs.push_back(Input::Tick);
            }
            if server == Some(next) {
                self.tell_server(runner::Input::Tick)?;
            }
        }
        Ok(())
    }

    /// Hands one frame, or the time, to the server and decodes what it answers.
    fn tell_server(&mut self, input: runner::Input<'_>) -> Result<(), Box<dyn Error>> {
        let mut answers = Vec::new();
        self.server
            .handle(self.now, self.connection, input, &mut answers);
        for answer in answers {
            match answer {
                runner::Output::Send(frame) => {
                    let mut heard = Heard::default();
                    self.codec.decode(&frame, &mut heard);
                    self.audio_bytes += heard.audio_bytes;
                    self.inputs
                        .extend(heard.events.into_iter().map(Input::Model));
                }
                runner::Output::Close { code, reason } => {
                    return Err(format!("the server closed with {code}: {reason}").into());
                }
                runner::Output::Drop
                | runner::Output::DropWithin(_)
                | runner::Output::StopReading { .. } => {}
            }
        }
        Ok(())
    }

    fn perform(&mut self, outputs: Vec<Output>) -> Result<(), Box<dyn Error>> {
        for output in outputs {
            match output {
                Output::StartCall(call) => {
                    let result = self.execute(&call);
                    let call = call.call();
                    self.inputs.push_back(Input::CallFinished { call, result });
                }
                // There is no ledger here, so that nothing changes anything.
                Output::Request { call, .. } | Output::Answer { call, .. } => {
                    let problem = "this example has no ledger".to_owned();
                    self.inputs.push_back(Input::Decided {
                        call,
                        reply: Err(StoreProblem { problem }),
                    });
                }
                Output::CheckRate { call, .. } => self.inputs.push_back(Input::RateChecked {
                    call,
                    decision: RateDecision::Allowed,
                }),
                Output::SendModel(command) => {
                    let mut frames = Vec::new();
                    self.codec.encode(&command, &mut frames);
                    for frame in frames {
                        self.tell_server(runner::Input::Frame(&frame))?;
                    }
                }
                Output::SendClient(update) => self.show_update(&update)?,
                Output::Event(event) => self.show_event(&event)?,
                Output::Connect { .. } => {
                    return Err(
                        "the core wants another connection, and this example has one".into(),
                    );
                }
                // There is no player here whose audio would have to be held back or thrown away.
                Output::AbortCall { .. }
                | Output::AnswerHandler { .. }
                | Output::Append(_)
                | Output::Taint
                | Output::Abandon { .. }
                | Output::Record { .. }
                | Output::Progress(_)
                | Output::CancelTask(_)
                | Output::Part(_)
                | Output::Withdraw(_)
                | Output::Revoke(_)
                | Output::Heard { .. }
                | Output::DiscardAudio
                | Output::AcceptAudio
                | Output::SuppressAudio(_)
                | Output::HoldMicrophone(_)
                | Output::Close(_) => {}
            }
        }
        Ok(())
    }

    /// Runs a handler where it stands. The built-in tools have their answers at hand in memory.
    fn execute(&mut self, call: &AdmittedCall) -> HandlerResult {
        let tool = call.tool();
        let config = self.session.config();
        let of_session = SessionContext {
            caller: Caller {
                client_id: ClientId::new("client"),
                session_id: config.session_id.clone(),
                user_id: config.user_id.clone(),
                conversation_id: config.conversation_id.clone(),
                rights: windlass_contract::rights::Rights::Anonymous,
            },
            mode: config.mode,
            registry_version: config.registry.version().clone(),
            capabilities: self.capabilities.clone(),
            outbox: Arc::new(Unheard),
        };
        let context = Context {
            of_session: Arc::new(of_session),
            call: call.call(),
            turn: call.turn(),
            tool: ToolFacts {
                id: tool.id.clone(),
                version: tool.version.clone(),
                idempotent: tool.idempotent,
                writes: tool.writes(),
            },
            session: call.session().clone(),
            effect_id: call.effect_id().cloned(),
            writes: windlass_contract::handler::RunWrites::none(),
            deadline_unix_ms: STARTED_UNIX_MS + (self.now + call.timeout()).as_millis(),
            cancellation: Cancellation::default(),
        };
        let arguments = call.arguments().clone();
        match tool.handler.execute(Invocation { arguments, context }) {
            Execution::Ready(result) => result,
            Execution::Pending(future) => future.now_or_never().unwrap_or_else(|| {
                let kind = windlass_contract::error::FailureKind::Transient;
                Err(Failure::new(kind, "nothing here can be waited for"))
            }),
        }
    }

    fn user_speaks(&mut self) -> std::io::Result<()> {
        let Some(line) = self.user.pop_front() else {
            return Ok(());
        };
        self.line(&format!("user: {line}"))?;
        let text = Sensitive(line.to_owned());
        self.inputs.push_back(Input::Client(ClientEvent::Text {
            text,
            message: None,
        }));
        Ok(())
    }

    fn show_update(&mut self, update: &ClientUpdate) -> std::io::Result<()> {
        match update {
            ClientUpdate::Transcript {
                text,
                is_final: true,
                citations,
                ..
            } => {
                let titles: Vec<&str> = citations.iter().map(|one| one.title.as_str()).collect();
                let sources = match titles.as_slice() {
                    [] => String::new(),
                    titles => format!(" [{}]", titles.join(", ")),
                };
                self.line(&format!("model: {}{sources}", text.expose()))
            }
            ClientUpdate::TurnComplete { .. } => self.user_speaks(),
            ClientUpdate::EndVoiceSession { reason, .. } => {
                self.line(&format!("the session ends: {reason}"))
            }
            ClientUpdate::Error { code, message, .. } => {
                self.line(&format!("error {}: {message}", code.as_str()))
            }
            _ => Ok(()),
        }
    }

    fn show_event(&mut self, event: &SessionEvent) -> std::io::Result<()> {
        match event {
            SessionEvent::CallStarted(started) => {
                let arguments = serde_json::to_string(started.arguments().expose())?;
                self.line(&format!(
                    "{} {} {arguments}",
                    started.call(),
                    started.tool().id
                ))
            }
            SessionEvent::CallFinished(record) => {
                let outcome = match record.error_type() {
                    None => "ok",
                    Some(error_type) => error_type.code(),
                };
                self.line(&format!("{} {outcome}", record.call()))
            }
            SessionEvent::TurnEnded { turn, summary } => {
                let spoken_ms = std::mem::take(&mut self.audio_bytes) / SPEAKER_BYTES_PER_MS;
                self.line(&format!(
                    "turn {turn} is over: {} calls, {}.{} s of audio",
                    summary.calls,
                    spoken_ms / 1_000,
                    spoken_ms % 1_000 / 100
                ))
            }
            _ => Ok(()),
        }
    }

    fn line(&mut self, text: &str) -> std::io::Result<()> {
        let millis = self.now.as_millis();
        writeln!(
            self.out,
            "{:>3}.{:03} s  {text}",
            millis / 1_000,
            millis % 1_000
        )
    }
}

/// What one frame of the server held.
#[derive(Default)]
struct Heard {
    events: Vec<ModelEvent>,
    audio_bytes: u64,
}

impl Sink for Heard {
    fn event(&mut self, event: ModelEvent) {
        self.events.push(event);
    }

    fn audio(&mut self, pcm: &[u8]) {
        self.audio_bytes += pcm.len() as u64;
    }
}

struct Memory {
    knowledge: Arc<KnowledgeBase>,
    blocks: Arc<MemoryStore>,
}

impl Capabilities for Memory {
    fn now_unix_ms(&self) -> u64 {
        STARTED_UNIX_MS
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        self.knowledge.clone()
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        self.blocks.clone()
    }
}

/// Takes what handlers say beside their answers. The server hands it to the session.
struct Unheard;

impl Outbox for Unheard {
    fn is_open(&self) -> bool {
        true
    }

    fn send(&self, _: CallRef, _: HandlerMessage) -> Result<(), OutboxClosed> {
        Ok(())
    }
}

fn upgrade(address: &Address) -> Upgrade {
    let target = address.url.trim_start_matches("ws://simulator").to_owned();
    let headers = address
        .headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.expose().clone()))
        .collect();
    Upgrade { target, headers }
}

fn setup_request<'a>(model: &'a str, tools: &'a DeclaredTools) -> SetupRequest<'a> {
    SetupRequest {
        model,
        system_instruction: "Answer in one or two sentences, and say where you found it.",
        tools,
        voice: None,
        language: None,
        temperature: None,
        output_tokens_max: None,
        thinking_level: None,
        thinking_budget: None,
        transcribe_input: true,
        transcribe_output: true,
        speech_detection: SpeechDetection::default(),
        barge_in: true,
        resumption_handle: None,
        compression: None,
        history_follows: false,
    }
}

fn session_config(registry: Arc<Registry>, profile: &ModelProfile) -> SessionConfig {
    SessionConfig {
        session_id: SessionId::new("session"),
        epoch: Epoch(1),
        tenant: TenantId::default(),
        user_id: UserId::new("user"),
        rights: windlass_contract::rights::Rights::Anonymous,
        given: windlass_contract::condition::Given::default(),
        conversation_id: ConversationId::new("conversation"),
        mode: Mode::Voice,
        registry,
        limits: Arc::new(Limits::of(Mode::Voice)),
        profile: Arc::new(profile.clone()),
        model: "model".into(),
        estimate: None,
        started_unix_ms: STARTED_UNIX_MS,
        history: Vec::new(),
        last_call: CallNumber(0),
        can_ask: false,
        can_ask_input: false,
        pending_request: None,
    }
}
