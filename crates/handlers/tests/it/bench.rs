//! A bench to run one call on: a fake world that records what a handler does, and the tool's own schemas around it.

use serde_json::Value;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use windlass_contract::arguments::Arguments;
use windlass_contract::handler::{
    Availability, AvailabilityRequest, Block, Blocks, BlocksUnavailable, CalendarChange,
    CalendarError, CalendarEvent, Calendars, CallMemory, Caller, CallsRequest, Cancellation,
    Capabilities, CapabilityFuture, Cause, Context, EarlierCall, EventList, EventsRequest,
    Execution, Facets, Failure, FetchError, Finding, GeneratedImages, GetRequest, Handler,
    HandlerMessage, Handover, HandoverError, Handovers, Hit, Http, HttpAnswer, HttpRequest,
    ImageRequest, Images, Invocation, Knowledge, KnowledgeError, KnowledgeReader, ListedTasks,
    LocalTime, Lookup, LookupInvocation, MemoryUnavailable, NewHandover, Outbox, OutboxClosed,
    PICTURES, Page, Record, Report, RunWrites, SearchAnswer, SearchRequest, ServiceError,
    SessionContext, SessionFacts, Snippet, Success, TaskAsker, TaskCancel, TaskFacts, TaskList,
    Tasks, TasksUnavailable, ToolFacts, WebSearch, WebSearchAnswer, WebSearchRequest,
};
use windlass_contract::id::{
    CallNumber, CallRef, ClientId, ConversationId, EffectId, SessionId, ToolId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_contract::rights::Rights;
use windlass_contract::validate::Validator;

/// A handler's result; boxed, because failures are large.
pub(crate) type CallOutcome = Result<Success, Box<Failure>>;

pub(crate) const NOW_UNIX_MS: u64 = 1_800_000_000_000;

/// The effect of every call, minted at the bench's time.
pub(crate) fn effect_id() -> EffectId {
    EffectId::minted(NOW_UNIX_MS, "0123")
}

/// What happens around one call. Fields are set before the call, read after it.
pub(crate) struct Bench {
    pub(crate) mode: Mode,
    pub(crate) session_is_active: bool,
    pub(crate) fakes: Arc<Fakes>,
}

#[derive(Default)]
pub(crate) struct Fakes {
    pub(crate) records: Mutex<Vec<(Record, f64)>>,
    pub(crate) knowledge_error: Mutex<Option<KnowledgeError>>,
    pub(crate) knowledge_is_slow: Mutex<bool>,
    pub(crate) searched: Mutex<Vec<SearchRequest>>,
    pub(crate) fetched: Mutex<Vec<GetRequest>>,
    pub(crate) blocks: Mutex<Vec<Block>>,
    pub(crate) blocks_fail: Mutex<bool>,
    pub(crate) outbox_is_closed: Mutex<bool>,
    pub(crate) calendar: Mutex<CalendarEvent>,
    pub(crate) calendar_error: Mutex<Option<CalendarError>>,
    /// What the calendars were asked, in order, as `Debug` has it.
    pub(crate) calendar_asked: Mutex<Vec<String>>,
    /// The changes that were made, each once.
    pub(crate) calendar_changes: Mutex<Vec<CalendarChange>>,
    pub(crate) is_in_voice: Mutex<bool>,
    pub(crate) page: Mutex<Option<Page>>,
    /// The tickets that were opened, each once, and why none is.
    pub(crate) tickets: Mutex<Vec<NewHandover>>,
    pub(crate) ticket_error: Mutex<Option<HandoverError>>,
    /// Earlier calls, or why they cannot be read.
    pub(crate) calls: Mutex<Vec<EarlierCall>>,
    pub(crate) memory_fails: Mutex<bool>,
    pub(crate) calls_asked: Mutex<Vec<CallsRequest>>,
    /// Tasks, what comes of cancelling one, or that they cannot be read; and what was asked about them.
    pub(crate) tasks: Mutex<Vec<TaskFacts>>,
    pub(crate) task_cancel: Mutex<Option<TaskCancel>>,
    pub(crate) tasks_fail: Mutex<bool>,
    pub(crate) tasks_asked: Mutex<Vec<String>>,
    pub(crate) rights: Mutex<Rights>,
    /// The user's zone, if it is known.
    pub(crate) zone: Mutex<Option<String>>,

    /// What the image service answers, and what it was asked.
    pub(crate) images: Mutex<Option<Result<GeneratedImages, ServiceError>>>,
    pub(crate) images_asked: Mutex<Vec<ImageRequest>>,
    /// The same of the web search.
    pub(crate) web: Mutex<Option<Result<WebSearchAnswer, ServiceError>>>,
    pub(crate) web_asked: Mutex<Vec<WebSearchRequest>>,
    /// What other hosts answer, in order, and what they were asked.
    pub(crate) hosts: Mutex<VecDeque<Result<HttpAnswer, FetchError>>>,
    pub(crate) hosts_asked: Mutex<Vec<HttpRequest>>,
    /// The pictures that are kept, and how many more there is no room for.
    pub(crate) pictures: Mutex<Vec<Vec<u8>>>,
    pub(crate) pictures_max: Mutex<Option<usize>>,
    pub(crate) messages: Mutex<Vec<HandlerMessage>>,
    /// How long after [`NOW_UNIX_MS`] it is.
    pub(crate) elapsed_ms: Mutex<u64>,
}

/// The fakes behind the handles that a handler is given.
#[derive(Clone)]
struct Handle(Arc<Fakes>);

impl Bench {
    pub(crate) fn new(mode: Mode) -> Self {
        Self {
            mode,
            session_is_active: true,
            fakes: Arc::default(),
        }
    }

    pub(crate) fn with_records(self, records: Vec<(Record, f64)>) -> Self {
        *self.fakes.records.lock().unwrap() = records;
        self
    }

    /// Runs a call of a built-in tool as the pipeline does: arguments checked, defaults applied, the answer checked.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> CallOutcome {
        let schema = schema(tool);
        let arguments = admitted(&schema, arguments);
        let handler = windlass_handlers::builtin()[tool].clone();
        let result = self.execute(&*handler, tool, arguments);
        check_response(&schema, &result);
        result
    }

    pub(crate) fn succeed(&self, tool: &str, arguments: Value) -> Success {
        self.call(tool, arguments).unwrap()
    }

    pub(crate) fn data(&self, tool: &str, arguments: Value) -> Value {
        (*self.succeed(tool, arguments).data.unwrap()).clone()
    }

    pub(crate) fn report(&self, tool: &str, arguments: Value) -> Report {
        reported(*self.call(tool, arguments).unwrap_err())
    }

    pub(crate) fn execute(
        &self,
        handler: &dyn Handler,
        tool: &str,
        arguments: Arguments,
    ) -> CallOutcome {
        finish(handler.execute(Invocation {
            arguments: Arc::new(arguments),
            context: self.context(tool),
        }))
    }

    /// What the tool finds out about its effect afterwards.
    pub(crate) fn look_up(&self, tool: &str, arguments: Value) -> Finding {
        let handler = windlass_handlers::builtin()[tool].clone();
        let lookup = handler.outcome_lookup().expect("it can find out");
        let found = lookup.look_up(LookupInvocation {
            effect_id: effect_id(),
            arguments: Arc::new(admitted(&schema(tool), arguments)),
            context: self.context(tool),
        });
        match found {
            Lookup::Found(finding) => finding,
            Lookup::Pending(_) => panic!("{tool} needs no waiting"),
        }
    }

    fn context(&self, tool: &str) -> Context {
        let of_session = SessionContext {
            caller: Caller {
                client_id: ClientId::new("client"),
                session_id: SessionId::new("session"),
                user_id: UserId::new("user"),
                conversation_id: ConversationId::new("conversation"),
                rights: self.fakes.rights.lock().unwrap().clone(),
            },
            mode: self.mode,
            registry_version: "1.0.00000000".into(),
            capabilities: Arc::new(Handle(self.fakes.clone())),
            outbox: Arc::new(Handle(self.fakes.clone())),
        };
        Context {
            of_session: Arc::new(of_session),
            call: CallRef {
                call: CallNumber(1),
                attempt: 1,
            },
            turn: 1,
            tool: ToolFacts {
                id: ToolId::parse(tool).unwrap(),
                version: "1.0.0".into(),
                idempotent: false,
                writes: true,
            },
            session: SessionFacts {
                is_active: self.session_is_active,
                is_model_generating: true,
                pending_end_voice_session: false,
                values: windlass_contract::handler::StateValues::default(),
                input: windlass_contract::input::InputFacts::default(),
            },
            effect_id: Some(effect_id()),
            writes: RunWrites::default(),
            deadline_unix_ms: NOW_UNIX_MS + 10_000,
            cancellation: Cancellation::default(),
        }
    }

    /// What the client was sent, in order.
    pub(crate) fn client_messages(&self) -> Vec<Value> {
        let messages = self.fakes.messages.lock().unwrap();
        messages
            .iter()
            .filter_map(|message| match message {
                HandlerMessage::Client(value) => Some(value.clone()),
                _ => None,
            })
            .collect()
    }

    /// The audit lines, in order.
    pub(crate) fn audit_lines(&self) -> Vec<(String, Value)> {
        let messages = self.fakes.messages.lock().unwrap();
        messages
            .iter()
            .filter_map(|message| match message {
                HandlerMessage::Audit { event, data } => Some((event.clone(), data.clone())),
                _ => None,
            })
            .collect()
    }
}

/// The `schema.json` of a tool directory.
pub(crate) fn schema(tool: &str) -> Value {
    let text = std::fs::read(tool_file(tool, "schema.json")).unwrap();
    windlass_contract::json::parse(&text).unwrap()
}

pub(crate) fn tool_file(tool: &str, file: &str) -> PathBuf {
    let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools");
    let directory = tool.replace('_', "-");
    let usual = tools.join(&directory);
    match usual.is_dir() {
        true => usual.join(file),
        false => tools.join("_optional").join(directory).join(file),
    }
}

/// The arguments as a handler gets them: valid, with their defaults.
pub(crate) fn admitted(schema: &Value, arguments: Value) -> Arguments {
    let validator = Validator::compile(&schema["parameters"]).unwrap();
    assert_eq!(validator.violations(&arguments), []);
    let Value::Object(map) = arguments else {
        panic!("arguments are an object");
    };
    let mut arguments = Arguments::from(map);
    validator.apply_defaults(&mut arguments);
    arguments
}

pub(crate) fn check_response(schema: &Value, result: &CallOutcome) {
    if let Ok(success) = result {
        let validator = Validator::compile(&schema["responseSchema"]).unwrap();
        let data = success.data.as_ref().unwrap();
        assert_eq!(validator.violations(data), [], "{data}");
    }
}

pub(crate) fn reported(failure: Failure) -> Report {
    match failure.cause {
        Cause::Reported(report) => *report,
        Cause::Broken(cause) => panic!("the handler broke: {cause}"),
    }
}

fn finish(execution: Execution) -> CallOutcome {
    let mut future = match execution {
        Execution::Ready(result) => return result.map_err(Box::new),
        Execution::Pending(future) => future,
    };
    let mut task = std::task::Context::from_waker(Waker::noop());
    for _ in 0..10 {
        if let Poll::Ready(result) = future.as_mut().poll(&mut task) {
            return result.map_err(Box::new);
        }
    }
    panic!("the handler never finished")
}

/// A future that has its value only when it is asked the second time.
struct Slow<T>(Option<T>, bool);

impl<T: Unpin> Future for Slow<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut std::task::Context<'_>) -> Poll<T> {
        if std::mem::replace(&mut self.1, true) {
            return Poll::Ready(self.0.take().unwrap());
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Handle {
    fn answer<T: Unpin + Send + 'static>(&self, value: T) -> CapabilityFuture<T> {
        Box::pin(Slow(
            Some(value),
            !*self.0.knowledge_is_slow.lock().unwrap(),
        ))
    }
}

impl Capabilities for Handle {
    fn is_in_voice(&self, _: &ConversationId) -> bool {
        *self.0.is_in_voice.lock().unwrap()
    }

    fn now_unix_ms(&self) -> u64 {
        NOW_UNIX_MS + *self.0.elapsed_ms.lock().unwrap()
    }

    fn memory(&self) -> Arc<dyn CallMemory> {
        Arc::new(self.clone())
    }

    fn tasks(&self) -> Arc<dyn Tasks> {
        Arc::new(self.clone())
    }

    fn handovers(&self) -> Arc<dyn Handovers> {
        Arc::new(self.clone())
    }

    fn page(&self) -> Option<Page> {
        self.0.page.lock().unwrap().clone()
    }

    fn local_time(&self) -> LocalTime {
        LocalTime {
            zone: self.0.zone.lock().unwrap().clone(),
            now: "2027-01-15T13:30:00+05:30".into(),
        }
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        Arc::new(self.clone())
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        Arc::new(self.clone())
    }

    fn calendars(&self) -> Arc<dyn Calendars> {
        Arc::new(self.clone())
    }

    fn images(&self) -> Arc<dyn Images> {
        Arc::new(self.clone())
    }

    fn web_search(&self) -> Arc<dyn WebSearch> {
        Arc::new(self.clone())
    }

    fn http(&self) -> Arc<dyn Http> {
        Arc::new(self.clone())
    }

    /// Whoever waits for it holds up nobody: it is kept when it is asked about for the second time.
    fn keep_picture(&self, data: Arc<[u8]>) -> CapabilityFuture<Option<String>> {
        let mut pictures = self.0.pictures.lock().unwrap();
        let pictures_max = *self.0.pictures_max.lock().unwrap();
        let has_room = pictures_max.is_none_or(|max| pictures.len() < max);
        let kept = has_room.then(|| {
            pictures.push(data.to_vec());
            format!("{PICTURES}{}", pictures.len())
        });
        Box::pin(Slow(Some(kept), false))
    }

    fn keep_picture_here(&self, _: &[u8]) -> Option<String> {
        panic!("a tool holds up its thread for the disk");
    }

    fn picture(
        &self,
        address: &str,
        _: &KnowledgeReader,
        bytes_max: usize,
    ) -> CapabilityFuture<Option<Arc<[u8]>>> {
        let number = address.strip_prefix(PICTURES);
        let number: Option<usize> = number.and_then(|number| number.parse().ok());
        let pictures = self.0.pictures.lock().unwrap();
        let found = number.and_then(|number| pictures.get(number.checked_sub(1)?));
        let found = found.filter(|found| found.len() <= bytes_max);
        self.answer(found.map(|found| found.as_slice().into()))
    }
}

impl Images for Handle {
    fn generate(
        &self,
        request: ImageRequest,
    ) -> CapabilityFuture<Result<GeneratedImages, ServiceError>> {
        self.0.images_asked.lock().unwrap().push(request);
        let answer = self.0.images.lock().unwrap().clone();
        self.answer(answer.expect("the test says what is made"))
    }
}

impl WebSearch for Handle {
    fn search(
        &self,
        request: WebSearchRequest,
    ) -> CapabilityFuture<Result<WebSearchAnswer, ServiceError>> {
        self.0.web_asked.lock().unwrap().push(request);
        let answer = self.0.web.lock().unwrap().clone();
        self.answer(answer.expect("the test says what is found"))
    }
}

impl Http for Handle {
    fn fetch(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        self.0.hosts_asked.lock().unwrap().push(request);
        let answer = self.0.hosts.lock().unwrap().pop_front();
        self.answer(answer.expect("the test says what a host answers"))
    }
}

impl Handle {
    fn calendar<T: Send + 'static>(
        &self,
        asked: String,
        answer: T,
    ) -> CapabilityFuture<Result<T, CalendarError>> {
        self.0.calendar_asked.lock().unwrap().push(asked);
        let error = self.0.calendar_error.lock().unwrap().clone();
        Box::pin(std::future::ready(error.map_or(Ok(answer), Err)))
    }
}

impl Calendars for Handle {
    fn availability(
        &self,
        request: AvailabilityRequest,
    ) -> CapabilityFuture<Result<Availability, CalendarError>> {
        let event = self.0.calendar.lock().unwrap().clone();
        let found = Availability {
            start: request.range.start.clone(),
            end: request.range.end.clone(),
            zone: "Europe/Oslo".into(),
            taken: vec![event; 150],
            ..Availability::default()
        };
        self.calendar(format!("{request:?}"), found)
    }

    fn events(&self, request: EventsRequest) -> CapabilityFuture<Result<EventList, CalendarError>> {
        let event = self.0.calendar.lock().unwrap().clone();
        let found = EventList {
            zone: "Europe/Oslo".into(),
            events: vec![event],
            left_out: 3,
            problems: Vec::new(),
        };
        self.calendar(format!("{request:?}"), found)
    }

    fn change(
        &self,
        request: CalendarChange,
    ) -> CapabilityFuture<Result<CalendarEvent, CalendarError>> {
        if self.0.calendar_error.lock().unwrap().is_none() {
            self.0
                .calendar_changes
                .lock()
                .unwrap()
                .push(request.clone());
        }
        let event = self.0.calendar.lock().unwrap().clone();
        self.calendar(format!("{request:?}"), event)
    }

    fn find(
        &self,
        sought: CalendarChange,
    ) -> CapabilityFuture<Result<Option<CalendarEvent>, CalendarError>> {
        let changes = self.0.calendar_changes.lock().unwrap();
        let is_made = changes.contains(&sought);
        let event = self.0.calendar.lock().unwrap().clone();
        self.calendar(format!("{sought:?}"), is_made.then_some(event))
    }
}

fn opened(ticket: &NewHandover) -> Handover {
    Handover {
        id: ticket.id.clone(),
        urgency: ticket.urgency,
        opened_at_unix_ms: NOW_UNIX_MS,
    }
}

impl Handovers for Handle {
    fn open(&self, request: NewHandover) -> CapabilityFuture<Result<Handover, HandoverError>> {
        if let Some(error) = self.0.ticket_error.lock().unwrap().clone() {
            return self.answer(Err(error));
        }
        let ticket = opened(&request);
        let mut tickets = self.0.tickets.lock().unwrap();
        if !tickets.iter().any(|known| known.id == request.id) {
            tickets.push(request);
        }
        self.answer(Ok(ticket))
    }

    fn find(&self, id: String) -> CapabilityFuture<Result<Option<Handover>, HandoverError>> {
        let error = self.0.ticket_error.lock().unwrap().clone();
        let tickets = self.0.tickets.lock().unwrap();
        let found = tickets.iter().find(|ticket| ticket.id == id).map(opened);
        Box::pin(std::future::ready(error.map_or(Ok(found), Err)))
    }
}

impl CallMemory for Handle {
    fn calls(
        &self,
        request: CallsRequest,
    ) -> CapabilityFuture<Result<Vec<EarlierCall>, MemoryUnavailable>> {
        self.0.calls_asked.lock().unwrap().push(request);
        let found = match *self.0.memory_fails.lock().unwrap() {
            true => Err(MemoryUnavailable("disk full at /var/lib/x".into())),
            false => Ok(self.0.calls.lock().unwrap().clone()),
        };
        Box::pin(std::future::ready(found))
    }
}

impl Handle {
    fn tasks<T: Send + 'static>(
        &self,
        asked: String,
        answer: impl FnOnce(&[TaskFacts]) -> T,
    ) -> CapabilityFuture<Result<T, TasksUnavailable>> {
        self.0.tasks_asked.lock().unwrap().push(asked);
        let found = match *self.0.tasks_fail.lock().unwrap() {
            true => Err(TasksUnavailable("disk full at /var/lib/x".into())),
            false => Ok(answer(&self.0.tasks.lock().unwrap())),
        };
        Box::pin(std::future::ready(found))
    }
}

fn one(tasks: &[TaskFacts], id: &EffectId) -> Option<TaskFacts> {
    tasks.iter().find(|task| task.id == *id).cloned()
}

impl Tasks for Handle {
    fn find(
        &self,
        asker: TaskAsker,
        id: EffectId,
    ) -> CapabilityFuture<Result<Option<TaskFacts>, TasksUnavailable>> {
        self.tasks(format!("{asker:?}"), |tasks| one(tasks, &id))
    }

    fn list(
        &self,
        _: TaskAsker,
        wanted: ListedTasks,
    ) -> CapabilityFuture<Result<TaskList, TasksUnavailable>> {
        self.tasks(format!("{wanted:?}"), |tasks| TaskList {
            tasks: tasks.iter().take(wanted.tasks_max).cloned().collect(),
            has_more: tasks.len() > wanted.tasks_max,
        })
    }

    fn cancel(
        &self,
        _: TaskAsker,
        id: EffectId,
    ) -> CapabilityFuture<Result<Option<(TaskFacts, TaskCancel)>, TasksUnavailable>> {
        let outcome = self
            .0
            .task_cancel
            .lock()
            .unwrap()
            .unwrap_or(TaskCancel::Ended);
        self.tasks(format!("cancel {}", id.as_str()), |tasks| {
            one(tasks, &id).map(|task| (task, outcome))
        })
    }
}

impl Outbox for Handle {
    fn is_open(&self) -> bool {
        !*self.0.outbox_is_closed.lock().unwrap()
    }

    fn send(&self, _call: CallRef, message: HandlerMessage) -> Result<(), OutboxClosed> {
        if *self.0.outbox_is_closed.lock().unwrap() {
            return Err(OutboxClosed);
        }
        self.0.messages.lock().unwrap().push(message);
        Ok(())
    }
}

impl Blocks for Handle {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        if *self.0.blocks_fail.lock().unwrap() {
            return Err(BlocksUnavailable("disk full at /var/lib/x".into()));
        }
        self.0.blocks.lock().unwrap().extend_from_slice(blocks);
        Ok(())
    }

    fn blocked(&self, user: &UserId, now_unix_ms: u64) -> Result<Option<Block>, BlocksUnavailable> {
        if *self.0.blocks_fail.lock().unwrap() {
            return Err(BlocksUnavailable("disk full at /var/lib/x".into()));
        }
        let blocks = self.0.blocks.lock().unwrap();
        let of_user = blocks.iter().filter(|block| block.user_id == *user);
        let longest = of_user.max_by_key(|block| block.until_unix_ms);
        Ok(longest
            .filter(|block| block.until_unix_ms > now_unix_ms)
            .cloned())
    }
}

impl Knowledge for Handle {
    fn search(
        &self,
        request: SearchRequest,
    ) -> CapabilityFuture<Result<SearchAnswer, KnowledgeError>> {
        let snippets = request.snippets;
        self.0.searched.lock().unwrap().push(request);
        if let Some(error) = self.0.knowledge_error.lock().unwrap().clone() {
            return self.answer(Err(error));
        }
        let records = self.0.records.lock().unwrap();
        let hits = records.iter().map(|(record, score)| Hit {
            record: Arc::new(record.clone()),
            score: *score,
            snippet: snippets.then(|| Snippet {
                text: record.body.chars().take(20).collect(),
                start: 0,
                end: 20,
            }),
        });
        self.answer(Ok(SearchAnswer {
            hits: hits.collect(),
            retrieval: "lexical".into(),
            model: None,
            degraded: None,
            other_namespaces: Vec::new(),
        }))
    }

    fn get(
        &self,
        request: GetRequest,
    ) -> CapabilityFuture<Result<Result<Record, Vec<String>>, KnowledgeError>> {
        let id = request.id.clone();
        self.0.fetched.lock().unwrap().push(request);
        if let Some(error) = self.0.knowledge_error.lock().unwrap().clone() {
            return self.answer(Err(error));
        }
        let records = self.0.records.lock().unwrap();
        let found = records.iter().find(|(record, _)| record.id == id);
        self.answer(Ok(match found {
            Some((record, _)) => Ok(record.clone()),
            None => Err(records
                .iter()
                .map(|(record, _)| record.id.clone())
                .collect()),
        }))
    }

    fn facets(&self) -> Facets {
        Facets {
            types: vec!["person".into()],
            namespaces: vec!["public".into()],
        }
    }
}

/// A record with every field filled.
pub(crate) fn record(id: &str) -> Record {
    Record {
        id: id.to_owned(),
        namespace: "public".into(),
        record_type: "person".into(),
        title: format!("Title of {id}"),
        aliases: vec!["Alias".into()],
        body: "A body that is long enough for a snippet.".into(),
        tags: vec!["builder".into()],
        url: Some("https://example.org/record".into()),
        source_type: "markdown".into(),
        source_path: "people/record.md".into(),
        last_updated: Some("2026-01-10T15:30:00Z".into()),
        metadata: serde_json::from_str(r#"{"role": "builder"}"#).unwrap(),
    }
}
