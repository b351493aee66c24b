//! A session of one conversation on a ledger in memory, with handlers that do as the test says.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use windlass_contract::envelope::{ProjectionBody, ToolResponse};
use windlass_contract::handler::{
    Execution, Finding, Handler, HandlerMessage, HandlerResult, Invocation, Lookup,
    LookupInvocation, OutcomeLookup, ReplyNumber, Success,
};
use windlass_contract::id::{
    CallNumber, CallRef, ClientId, ConversationId, EffectId, SessionId, TenantId, ToolId, UserId,
};
use windlass_contract::kind::{
    Behavior, Category, Mode, OnInterrupt, Reach, Scheduling, SideEffects,
};
use windlass_contract::registry::{Declarations, Registry, Tool};
use windlass_contract::sensitive::Sensitive;
use windlass_contract::validate::Validator;
use windlass_driver::{
    DirectLedger, Driver, DriverConfig, EffectLookup, Executor, Report, SaidAnswer,
};
use windlass_session::client::{ClientEvent, ClientUpdate};
use windlass_session::io::{AdmittedCall, Input, Output, RateDecision};
use windlass_session::limits::Limits;
use windlass_session::model::{
    AnswerBatching, CallSupport, ConnectionEvent, DeclarationForm, HistoryInput, IncomingCall,
    ModelCommand, ModelEvent, ModelProfile, RequestEvent, TextInput, Thinking,
};
use windlass_session::session::{Session, SessionConfig};
use windlass_session::time::Timestamp;
use windlass_store::command::NewLeg;
use windlass_store::{
    Beginner, ConversationRef, EntryNumber, Epoch, MemoryStore, OwnerId, ServerKey, StoreLimits,
    StoreSettings,
};

pub(crate) const STARTED_UNIX_MS: u64 = 1_795_000_000_000;

struct Unused;

impl Handler for Unused {
    fn execute(&self, _: Invocation) -> Execution {
        unreachable!("the bench's executor runs no handler")
    }

    fn outcome_lookup(&self) -> Option<&dyn OutcomeLookup> {
        Some(self)
    }
}

impl OutcomeLookup for Unused {
    fn look_up(&self, _: LookupInvocation) -> Lookup {
        unreachable!("the bench's executor asks no handler")
    }
}

fn tool(id: &str) -> Tool {
    let declaration =
        || serde_json::value::RawValue::from_string(json!({ "name": id }).to_string()).unwrap();
    let parameters = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["what"],
        "properties": { "what": { "type": "string" }, "note": { "type": "string" } }
    });
    Tool {
        id: ToolId::parse(id).unwrap(),
        version: "1.0.0".into(),
        code_hash: "1".into(),
        description: id.to_owned(),
        category: Category::Action,
        side_effects: SideEffects::Writes,
        idempotent: false,
        requires_confirmation: false,
        consent_condition: None,
        remember: None,
        allowed_modes: vec![Mode::Voice, Mode::Text],
        latency_budget_ms: 500,
        timeout_ms: 5_000,
        behavior: Behavior::Blocking,
        scheduling: Scheduling::WhenIdle,
        on_interrupt: OnInterrupt::Finish,
        reach: Reach::Internal,
        confirmation_preview: None,
        rate_limit: None,
        permissions: windlass_contract::rights::Permissions::default(),
        availability: None,
        effect_key: vec!["what".into()].into(),
        repeatable: false,
        sensitive: Vec::new(),
        state: std::collections::BTreeMap::new(),
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

pub(crate) fn registry() -> Arc<Registry> {
    let pay = Tool {
        requires_confirmation: true,
        ..tool("pay")
    };
    let tools = vec![tool("book"), tool("order"), pay];
    Arc::new(Registry::new("1.0.test", None, tools))
}

/// The same tools in another version.
pub(crate) fn other_version() -> Arc<Registry> {
    let other = |id| Tool {
        version: "2.0.0".into(),
        ..tool(id)
    };
    let tools = vec![other("book"), other("order"), other("pay")];
    Arc::new(Registry::new("2.0.test", None, tools))
}

fn profile() -> ModelProfile {
    ModelProfile {
        calls: CallSupport::BlockingOnly,
        scheduling: false,
        declaration: DeclarationForm::GeminiNative,
        answers: AnswerBatching::Together,
        text_input: TextInput::RealtimeInput,
        history: HistoryInput::ClientContent,
        resumption: true,
        hold_microphone: false,
        thinking: Thinking::Omit,
        vision: false,
        context_tokens_max: 100_000,
    }
}

/// One process: a ledger, and a clock in milliseconds.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) ledger: Arc<DirectLedger>,
    pub(crate) store: MemoryStore,
    pub(crate) clock: Arc<AtomicU64>,
}

impl Process {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let store = MemoryStore::new(settings("p-1", &clock));
        Self {
            ledger: Arc::new(DirectLedger::new(Arc::new(store.clone()))),
            store,
            clock,
        }
    }

    /// Another process on the same rows, for which the first is dead.
    pub(crate) fn next(&self) -> Self {
        let store = self.store.for_another_process(settings("p-2", &self.clock));
        Self {
            ledger: Arc::new(DirectLedger::new(Arc::new(store.clone()))),
            store,
            clock: self.clock.clone(),
        }
    }
}

pub(crate) fn settings(owner: &str, clock: &Arc<AtomicU64>) -> StoreSettings {
    let clock = clock.clone();
    StoreSettings {
        key: ServerKey::new([7; 32]),
        owner: OwnerId(owner.to_owned()),
        clock: Arc::new(move || STARTED_UNIX_MS + clock.load(Ordering::Relaxed)),
        limits: StoreLimits::default(),
    }
}

/// What was started and not answered yet, and what a lookup finds.
#[derive(Default)]
pub(crate) struct Scripted {
    pub(crate) running: Vec<(CallRef, Option<EffectId>)>,
    pub(crate) started: usize,
    pub(crate) finding: Option<Finding>,
    pub(crate) lookups: usize,
    /// Lookups end when the test says so, by [`Hands::finds`].
    pub(crate) holds_lookups: bool,
    /// Effects that handlers were asked about, with arguments and time.
    pub(crate) asked_about: Vec<String>,
    /// What handlers say.
    pub(crate) messages: VecDeque<(CallRef, HandlerMessage)>,
    /// Answers of tools that handlers called.
    pub(crate) answered: Vec<(ReplyNumber, Arc<ToolResponse>)>,
    replies: u64,
    found: VecDeque<(EffectId, Finding)>,
    ended: VecDeque<(CallRef, HandlerResult)>,
}

#[derive(Clone, Default)]
pub(crate) struct Hands(pub(crate) Arc<Mutex<Scripted>>);

impl Hands {
    /// What a lookup that is held comes to.
    pub(crate) fn finds(&self, effect: &str, finding: Finding) {
        let found = (EffectId::new(effect), finding);
        self.0.lock().unwrap().found.push_back(found);
    }
}

impl Executor for Hands {
    fn start(&mut self, call: &AdmittedCall, _: Duration) -> Option<(CallRef, HandlerResult)> {
        let mut scripted = self.0.lock().unwrap();
        scripted.started += 1;
        scripted
            .running
            .push((call.call(), call.effect_id().cloned()));
        None
    }

    fn look_up(&mut self, lookup: &EffectLookup) -> Option<Finding> {
        let mut scripted = self.0.lock().unwrap();
        scripted.lookups += 1;
        let arguments = serde_json::to_string(&*lookup.arguments).unwrap();
        let asked = format!("{} {arguments} {:?}", lookup.effect_id, lookup.timeout);
        scripted.asked_about.push(asked);
        if scripted.holds_lookups {
            return None;
        }
        Some(scripted.finding.clone().unwrap_or(Finding::Unknown))
    }

    fn abort(&mut self, _: CallRef, _: bool) {}

    fn take_message(&mut self) -> Option<(CallRef, HandlerMessage)> {
        None
    }

    fn poll_report(&mut self, _: &mut Context<'_>) -> Poll<Report> {
        let mut scripted = self.0.lock().unwrap();
        if let Some((effect_id, finding)) = scripted.found.pop_front() {
            return Poll::Ready(Report::LookedUp(effect_id, finding));
        }
        if let Some((call, message)) = scripted.messages.pop_front() {
            return Poll::Ready(Report::Message(call, message));
        }
        match scripted.ended.pop_front() {
            Some((call, result)) => Poll::Ready(Report::Finished(call, result)),
            None => Poll::Pending,
        }
    }

    fn answer(&mut self, reply: ReplyNumber, response: Arc<ToolResponse>) {
        self.0.lock().unwrap().answered.push((reply, response));
    }

    fn is_idle(&self) -> bool {
        self.0.lock().unwrap().running.is_empty()
    }
}

/// The one conversation.
pub(crate) fn of() -> ConversationRef {
    ConversationRef {
        tenant: TenantId::default(),
        conversation_id: ConversationId::new("c-1"),
        user_id: UserId::new("u-1"),
    }
}

/// One session with its driver.
pub(crate) struct Leg {
    pub(crate) core: Session,
    pub(crate) driver: Driver<Hands>,
    pub(crate) hands: Arc<Mutex<Scripted>>,
    process: Process,
    calls: u32,
    /// What the model was answered, each as the error's type or `ok`, with what stands beside it.
    pub(crate) answers: Vec<String>,
    pub(crate) notices: Vec<String>,
    /// Tokens of the questions that the client was shown, with their warnings.
    pub(crate) asked: Vec<(String, Option<String>)>,
    /// What came of answers, as the error's type or `ok`.
    pub(crate) results: Vec<String>,
}

impl Leg {
    pub(crate) fn begin(process: &Process, id: &str, mode: Mode) -> Self {
        let config = SessionConfig {
            session_id: SessionId::new(id),
            epoch: Epoch(1),
            tenant: TenantId::default(),
            user_id: UserId::new("u-1"),
            rights: windlass_contract::rights::Rights::Anonymous,
            given: windlass_contract::condition::Given::default(),
            conversation_id: ConversationId::new("c-1"),
            mode,
            registry: registry(),
            limits: Arc::new(Limits::of(mode)),
            profile: Arc::new(profile()),
            model: "model".into(),
            estimate: None,
            started_unix_ms: STARTED_UNIX_MS,
            history: Vec::new(),
            last_call: CallNumber(0),
            can_ask: true,
            can_ask_input: false,
            pending_request: None,
        };
        let hands: Arc<Mutex<Scripted>> = Arc::default();
        let mut driver = Driver::new(
            DriverConfig {
                conversation: of(),
                leg: config.leg(),
                registry: config.registry.clone(),
                limits: config.limits.clone(),
                after: Some(EntryNumber(0)),
            },
            process.ledger.clone(),
            Hands(hands.clone()),
        );
        driver.attach(
            NewLeg {
                leg: config.session_id.clone(),
                mode,
                client_id: ClientId::new("cl-1"),
                resume_token: [1; 32],
                expires_in_ms: 3_600_000,
            },
            Beginner::default(),
        );
        let mut out = Vec::new();
        let core = Session::new(config, &mut out);
        let mut leg = Self {
            core,
            driver,
            hands,
            process: process.clone(),
            calls: 0,
            answers: Vec::new(),
            notices: Vec::new(),
            asked: Vec::new(),
            results: Vec::new(),
        };
        leg.perform(out, &mut VecDeque::new());
        match mode {
            Mode::Voice => {
                leg.input(Input::Connection(ConnectionEvent::Connected {
                    generation: 1,
                    resumed: false,
                }));
                leg.input(Input::Model(ModelEvent::Ready {
                    provider_session_id: None,
                }));
            }
            Mode::Text => leg.input(Input::Request(RequestEvent::Sent { number: 1 })),
        }
        leg
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.process.clock.load(Ordering::Relaxed) * 1_000)
    }

    /// Gives the core an input, and all that follows at once.
    pub(crate) fn input(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        self.feed(&mut inputs);
        self.settle();
    }

    /// Whatever the ledger, the log and the handlers bring.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(input) = self.driver.poll_input(&mut context) else {
                return;
            };
            self.feed(&mut VecDeque::from([input]));
        }
    }

    fn feed(&mut self, inputs: &mut VecDeque<Input>) {
        while let Some(input) = inputs.pop_front() {
            let mut out = Vec::new();
            self.core.handle(self.now(), input, &mut out);
            self.perform(out, inputs);
        }
    }

    fn perform(&mut self, out: Vec<Output>, inputs: &mut VecDeque<Input>) {
        for output in out {
            match self.driver.perform(output, inputs) {
                Some(Output::CheckRate { call, .. }) => inputs.push_back(Input::RateChecked {
                    call,
                    decision: RateDecision::Allowed,
                }),
                Some(Output::SendModel(ModelCommand::ToolResponses(answers)))
                | Some(Output::SendModel(ModelCommand::LateResults(answers))) => {
                    for answer in answers {
                        self.answers.push(match answer.projection.body {
                            ProjectionBody::Success { cut, .. } => {
                                format!("ok {}", cut.unwrap_or_default())
                            }
                            ProjectionBody::Failure {
                                error_type,
                                message,
                                ..
                            } => format!("{} {message}", error_type.facts().code),
                        });
                    }
                }
                Some(Output::SendModel(ModelCommand::Notice(text))) => {
                    self.notices.push(text.into_inner());
                }
                Some(Output::SendClient(ClientUpdate::ConfirmationRequest(question))) => {
                    let token = self.driver.token(question.question).unwrap();
                    self.asked.push((token.into_inner(), question.warning));
                }
                Some(Output::SendClient(ClientUpdate::ConfirmationResult { response, .. })) => {
                    let error = response.expose().error_type();
                    self.results
                        .push(error.map_or("ok", |error| error.facts().code).to_owned());
                }
                _ => {}
            }
        }
    }

    pub(crate) fn user_says(&mut self, text: &str) {
        self.input(Input::Client(ClientEvent::Text {
            text: text.to_owned().into(),
            message: None,
        }));
    }

    /// The model ends its answer.
    pub(crate) fn turn_ends(&mut self) {
        self.input(Input::Model(ModelEvent::AudioStarted));
        self.input(Input::Model(ModelEvent::GenerationComplete));
        self.input(Input::Model(ModelEvent::TurnComplete {
            idle: true,
            reason: None,
            unplayed: Duration::ZERO,
        }));
    }

    pub(crate) fn calls(&mut self, tool: &str, arguments: Value) {
        self.slow_calls(tool, arguments, 0);
    }

    /// The same with a ledger whose answer is heard after a time.
    pub(crate) fn slow_calls(&mut self, tool: &str, arguments: Value, milliseconds: u64) {
        self.calls += 1;
        let id = format!("provider-call-{}", self.calls);
        let calls = Input::Model(ModelEvent::Calls(vec![IncomingCall {
            id: Some(id.as_str().into()),
            name: Some(tool.into()),
            arguments: Ok(arguments.as_object().unwrap().clone().into()),
        }]));
        self.feed(&mut VecDeque::from([calls]));
        let clock = &self.process.clock;
        clock.fetch_add(milliseconds, Ordering::Relaxed);
        self.settle();
    }

    /// The handler that was started last has done it.
    pub(crate) fn handler_succeeds(&mut self) {
        let mut hands = self.hands.lock().unwrap();
        let (call, _) = hands.running.pop().unwrap();
        let result = Ok(Success {
            data: Some(json!({ "done": true }).into()),
            ..Success::default()
        });
        hands.ended.push_back((call, result));
        drop(hands);
        self.settle();
    }

    /// The handler that was started last calls another tool.
    pub(crate) fn handler_calls(&mut self, tool: &str, arguments: Value) {
        let mut hands = self.hands.lock().unwrap();
        let call = hands.running.last().unwrap().0;
        hands.replies += 1;
        let message = HandlerMessage::CallTool {
            reply: ReplyNumber(hands.replies),
            tool: tool.into(),
            arguments: Sensitive(arguments),
        };
        hands.messages.push_back((call, message));
        drop(hands);
        self.settle();
    }

    /// What handlers were answered, each as the error's type or `ok`, with `again` beside it where it was known.
    pub(crate) fn handlers_were_told(&self) -> Vec<String> {
        let hands = self.hands.lock().unwrap();
        let answered = hands.answered.iter().map(|(reply, response)| {
            let error = response.error_type().map(|error| error.facts().code);
            let again = match response.meta.idempotent_cache_hit {
                true => " again",
                false => "",
            };
            format!("#{} {}{again}", reply.0, error.unwrap_or("ok"))
        });
        answered.collect()
    }

    pub(crate) fn answer(&mut self, token: &str, approved: bool) {
        let mut inputs = VecDeque::new();
        self.driver
            .answer(
                token,
                SaidAnswer {
                    approved,
                    ..SaidAnswer::default()
                },
                &mut inputs,
            )
            .unwrap();
        self.feed(&mut inputs);
        self.settle();
    }

    pub(crate) fn wait(&mut self, milliseconds: u64) {
        self.process
            .clock
            .fetch_add(milliseconds, Ordering::Relaxed);
        self.input(Input::Tick);
    }

    pub(crate) fn started(&self) -> usize {
        self.hands.lock().unwrap().started
    }

    pub(crate) fn last_answer(&self) -> &str {
        self.answers.last().map_or("", String::as_str)
    }
}
