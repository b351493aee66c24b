//! The path of one call in one process: a frame is decoded, the session judges it, the handler runs, the answer is
//! recorded and encoded. Does what a driver does, without sockets and tasks.

use crate::kit::Ids;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use windlass_contract::handler::{
    Blocks, Caller, Cancellation, Capabilities, Context, Execution, HandlerMessage, Invocation,
    Knowledge, Outbox, OutboxClosed, SessionContext, SessionFacts, ToolFacts,
};
use windlass_contract::id::{
    CallNumber, CallRef, ClientId, ConversationId, SessionId, TenantId, ToolId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_contract::sensitive::Sensitive;
use windlass_provider::gemini_live::{Codec, Sink};
use windlass_provider::profile;
use windlass_session::client::ClientEvent;
use windlass_session::io::{AdmittedCall, Input, Output};
use windlass_session::limits::Limits;
use windlass_session::model::{ConnectionEvent, ModelCommand, ModelEvent};
use windlass_session::session::{Session, SessionConfig};
use windlass_session::time::Timestamp;
use windlass_store::Epoch;

/// Calls in one turn before the user says something again.
pub(crate) const CALLS_PER_TURN: usize = 16;

/// One session with its codec.
pub(crate) struct CallPath {
    pub(crate) codec: Codec,
    pub(crate) session: Session,
    begun: Instant,
    inputs: VecDeque<Input>,
    outputs: Vec<Output>,
    frames: Vec<Vec<u8>>,
    context: Arc<SessionContext>,
    cancellation: Cancellation,
    keeps_commands: bool,
    kept: Vec<ModelCommand>,
    /// Events and client updates seen, so that a test can tell that they came.
    pub(crate) notices: usize,
}

struct Inputs<'i>(&'i mut VecDeque<Input>);

impl Sink for Inputs<'_> {
    fn event(&mut self, event: ModelEvent) {
        self.0.push_back(Input::Model(event));
    }

    fn audio(&mut self, _: &[u8]) {}
}

/// The kit's handler reaches for nothing.
struct NoCapabilities;

impl Capabilities for NoCapabilities {
    fn now_unix_ms(&self) -> u64 {
        0
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        unreachable!("the measured tool reads no knowledge base")
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        unreachable!("the measured tool blocks nobody")
    }
}

struct NoOutbox;

impl Outbox for NoOutbox {
    fn is_open(&self) -> bool {
        false
    }

    fn send(&self, _: CallRef, _: HandlerMessage) -> Result<(), OutboxClosed> {
        Err(OutboxClosed)
    }
}

/// One attempt of a tool that has a minute, for a handler without a session around it.
pub(crate) fn invocation(number: usize) -> Invocation {
    let arguments =
        serde_json::json!({ "query": format!("how do refunds work {number}"), "limit": 5 });
    let serde_json::Value::Object(arguments) = arguments else {
        unreachable!("it is an object")
    };
    let of_session = SessionContext {
        caller: Caller {
            client_id: ClientId::new("client-1"),
            session_id: SessionId::new("session-1"),
            user_id: UserId::new("user-1"),
            conversation_id: ConversationId::new("conversation-1"),
            rights: windlass_contract::rights::Rights::Anonymous,
        },
        mode: Mode::Voice,
        registry_version: "1.0.00000000".into(),
        capabilities: Arc::new(NoCapabilities),
        outbox: Arc::new(NoOutbox),
    };
    Invocation {
        arguments: Arc::new(arguments.into()),
        context: Context {
            of_session: Arc::new(of_session),
            call: CallRef {
                call: CallNumber(1),
                attempt: 1,
            },
            turn: 1,
            tool: ToolFacts {
                id: ToolId::parse("echo").expect("it is an id"),
                version: "1.0.0".into(),
                idempotent: true,
                writes: false,
            },
            session: SessionFacts {
                is_active: true,
                is_model_generating: true,
                pending_end_voice_session: false,
                values: windlass_contract::handler::StateValues::default(),
                input: windlass_contract::input::InputFacts::default(),
            },
            effect_id: None,
            writes: windlass_contract::handler::RunWrites::none(),
            deadline_unix_ms: 60_000,
            cancellation: Cancellation::default(),
        },
    }
}

/// The limits of a voice session, with the budgets out of the way.
pub(crate) fn limits() -> Limits {
    let mut limits = Limits::of(Mode::Voice);
    limits.turn.calls_max = u32::MAX;
    limits.turn.retrieval_calls_max = u32::MAX;
    limits
}

/// The configuration of the measured sessions.
pub(crate) fn config(registry: Arc<Registry>) -> SessionConfig {
    SessionConfig {
        session_id: SessionId::new("session-1"),
        epoch: Epoch(1),
        tenant: TenantId::default(),
        user_id: UserId::new("user-1"),
        rights: windlass_contract::rights::Rights::Anonymous,
        given: windlass_contract::condition::Given::default(),
        conversation_id: ConversationId::new("conversation-1"),
        mode: Mode::Voice,
        registry,
        limits: Arc::new(limits()),
        profile: Arc::new(
            profile::gemini_live(profile::GEMINI_LIVE_MODEL)
                .profile
                .model,
        ),
        model: "model".into(),
        estimate: None,
        started_unix_ms: 1_795_199_143_511,
        history: Vec::new(),
        last_call: CallNumber(0),
        can_ask: true,
        can_ask_input: false,
        pending_request: None,
    }
}

impl CallPath {
    /// A voice session that is connected and ready.
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        let found = profile::gemini_live(profile::GEMINI_LIVE_MODEL);
        let mut outputs = Vec::new();
        let session = Session::new(config(registry), &mut outputs);
        let caller = Caller {
            client_id: ClientId::new("client-1"),
            session_id: session.config().session_id.clone(),
            user_id: session.config().user_id.clone(),
            conversation_id: session.config().conversation_id.clone(),
            rights: windlass_contract::rights::Rights::Anonymous,
        };
        let context = SessionContext {
            caller,
            mode: session.config().mode,
            registry_version: session.config().registry.version().clone(),
            capabilities: Arc::new(NoCapabilities),
            outbox: Arc::new(NoOutbox),
        };
        let mut path = Self {
            codec: Codec::new(found.profile.model),
            session,
            begun: Instant::now(),
            inputs: VecDeque::new(),
            outputs,
            frames: Vec::new(),
            context: Arc::new(context),
            cancellation: Cancellation::default(),
            keeps_commands: false,
            kept: Vec::new(),
            notices: 0,
        };
        path.inputs
            .push_back(Input::Connection(ConnectionEvent::Connected {
                generation: 1,
                resumed: false,
            }));
        path.run();
        path.frame(br#"{"setupComplete":{}}"#);
        path
    }

    /// Takes one frame of the model and does everything that follows from it. The messages to the model can be read from [`Self::sent`]
    /// until the next input.
    pub(crate) fn frame(&mut self, frame: &[u8]) {
        self.codec.decode(frame, &mut Inputs(&mut self.inputs));
        self.run();
    }

    /// Takes one event of the model, as [`Self::frame`] does for the events of a frame.
    pub(crate) fn event(&mut self, event: ModelEvent) {
        self.inputs.push_back(Input::Model(event));
        self.run();
    }

    /// Runs one call and keeps its answer from being encoded.
    pub(crate) fn answer(&mut self, frame: &[u8]) -> Option<ModelCommand> {
        self.keeps_commands = true;
        self.frame(frame);
        self.keeps_commands = false;
        self.kept.pop()
    }

    /// The whole way of one call: number `number` of a session, with a new turn every [`CALLS_PER_TURN`].
    pub(crate) fn call(&mut self, number: usize, frame: &[u8]) -> usize {
        if number.is_multiple_of(CALLS_PER_TURN) {
            self.turn();
        }
        self.frame(frame);
        self.sent().iter().map(Vec::len).sum()
    }

    /// Ends the turn, and begins the next with typed text of the user.
    pub(crate) fn turn(&mut self) {
        self.frame(br#"{"serverContent":{"turnComplete":true}}"#);
        self.inputs.push_back(Input::Client(ClientEvent::Text {
            text: Sensitive("and what about monthly plans?".to_owned()),
            message: None,
        }));
        self.run();
    }

    /// The frames that the last input had sent.
    pub(crate) fn sent(&self) -> &[Vec<u8>] {
        &self.frames
    }

    /// One input for the core. Nothing of it is sent, and no handler is started.
    pub(crate) fn core(&mut self, input: Input) -> usize {
        let now = self.now();
        self.outputs.clear();
        self.session.handle(now, input, &mut self.outputs);
        self.outputs.len()
    }

    fn now(&self) -> Timestamp {
        Timestamp(u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn run(&mut self) {
        self.frames.clear();
        while let Some(input) = self.inputs.pop_front() {
            let now = self.now();
            self.session.handle(now, input, &mut self.outputs);
            let mut outputs = std::mem::take(&mut self.outputs);
            for output in outputs.drain(..) {
                self.obey(output);
            }
            self.outputs = outputs;
        }
    }

    fn obey(&mut self, output: Output) {
        match output {
            Output::StartCall(call) => {
                if let Execution::Ready(result) =
                    call.tool().handler.execute(self.invocation(&call))
                {
                    let call = call.call();
                    self.inputs.push_back(Input::CallFinished { call, result });
                }
            }
            Output::SendModel(command) if self.keeps_commands => self.kept.push(command),
            Output::SendModel(command) => self.codec.encode(&command, &mut self.frames),
            Output::Event(event) => {
                std::hint::black_box(&event);
                self.notices += 1;
            }
            Output::SendClient(update) => {
                std::hint::black_box(&update);
                self.notices += 1;
            }
            Output::Append(_)
            | Output::Taint
            | Output::Request { .. }
            | Output::Answer { .. }
            | Output::Abandon { .. }
            | Output::Record { .. }
            | Output::Progress(_)
            | Output::CancelTask(_)
            | Output::Part(_)
            | Output::Withdraw(_)
            | Output::Revoke(_)
            | Output::Heard { .. }
            | Output::CheckRate { .. }
            | Output::Connect { .. }
            | Output::AbortCall { .. }
            | Output::AnswerHandler { .. }
            | Output::DiscardAudio
            | Output::AcceptAudio
            | Output::SuppressAudio(_)
            | Output::HoldMicrophone(_)
            | Output::Close(_) => {}
        }
    }

    fn invocation(&mut self, call: &AdmittedCall) -> Invocation {
        self.cancellation.renew();
        let config = self.session.config();
        let tool = call.tool();
        let deadline = u64::try_from(call.timeout().as_millis()).unwrap_or(u64::MAX);
        Invocation {
            arguments: call.arguments().clone(),
            context: Context {
                of_session: self.context.clone(),
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
                deadline_unix_ms: config.started_unix_ms.saturating_add(deadline),
                cancellation: self.cancellation.clone(),
            },
        }
    }
}

/// Proves that the measured calls do their work: every call is answered with success under its own id.
pub(crate) fn check(path: &mut CallPath, frames: &[Vec<u8>], ids: Ids) -> Result<usize, String> {
    let mut bytes = 0;
    for (number, frame) in frames.iter().enumerate().take(3 * CALLS_PER_TURN) {
        bytes = path.call(number, frame);
        let sent = path
            .sent()
            .first()
            .map(|text| String::from_utf8_lossy(text));
        let id = match ids {
            Ids::Gemini => "\"id\":\"function-call-",
            Ids::Short => "\"id\":\"fc-",
        };
        let is_good = sent.as_ref().is_some_and(|text| {
            text.contains(id) && text.contains("\"status\":\"success\"") && text.contains("doc-1")
        });
        if !is_good {
            return Err(format!("call {number} was answered with {sent:?}"));
        }
    }
    Ok(bytes)
}
