//! One session's calls and its part of the ledger: performs the core's outputs about them, and turns the results into inputs. Knows no
//! client and no provider; outputs for those are given back.

use crate::effects::{LookedUp, lookup_of};
use crate::executor::{Executor, Report};
use crate::ledger::{Ledger, PendingReplies};
use crate::log_reader::LogReader;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Cause, Failure, Finding, Report as FailureReport};
use windlass_contract::id::{CallNumber, CallRef, ClientId, EffectId};
use windlass_contract::input::SentInput;
use windlass_contract::registry::Registry;
use windlass_contract::sensitive::Sensitive;
use windlass_session::event::SessionEvent;
use windlass_session::io::{AdmittedCall, AnswerRequest, Input, News, Output, StoreProblem};
use windlass_session::limits::Limits;
use windlass_session::log_text::KeptState;
use windlass_store::command::{AnswerVerdict, Command, NewLeg, OpenQuestion, Reply, Request, Run};
use windlass_store::{
    AttemptNumber, Batch, Beginner, ConversationRef, Effect, Entry, EntryEvent, EntryNumber,
    LegRef, NewEntry, Nonce, Question, QuestionNumber, StoreUnavailable, Token, denial_reason,
};

/// The number of known tokens; those of the oldest approval requests make room. A conversation has fewer open approval requests than
/// this.
const TOKENS_MAX: usize = 64;
/// The number of lookups by one request before it is told that nothing is known.
const LOOKUPS_MAX: u32 = 3;
/// The number of problems that wait for the log.
const PROBLEMS_MAX: usize = 16;

/// The session of a driver, and its settings.
pub struct DriverConfig {
    pub conversation: ConversationRef,
    pub leg: LegRef,
    /// Pinned for the session's life.
    pub registry: Arc<Registry>,
    /// The limits of the session.
    pub limits: Arc<Limits>,
    /// The last entry of the log that the session knows; `None` if the conversation's id was just made, so that no other leg can have
    /// written into it.
    pub after: Option<EntryNumber>,
}

/// A user's answer to an approval request, as a client gives it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SaidAnswer<'a> {
    pub approved: bool,
    /// The reason of a denial.
    pub reason: Option<&'a str>,
    /// Whether an approval is to stand for calls with the same values.
    pub remember: bool,
    /// The user's input for the service of a tool that asks for it.
    pub input: Option<&'a SentInput>,
}

/// Performs outputs of one session.
pub struct Driver<E> {
    pub executor: E,
    ledger: Arc<dyn Ledger>,
    conversation: ConversationRef,
    leg: LegRef,
    registry: Arc<Registry>,
    limits: Arc<Limits>,
    pending: VecDeque<Pending>,
    ready: VecDeque<Input>,
    tokens: BTreeMap<QuestionNumber, Token>,
    /// Attempts that are this session's and have not started; each starts once.
    granted: Vec<(EffectId, AttemptNumber)>,
    log: LogReader,
    problems: VecDeque<String>,
    /// The events of the intents of results that lookups have found.
    events: Vec<SessionEvent>,
    /// The client of a leg that began here.
    client_id: Option<ClientId>,
    /// The ledger takes no more commands of the leg: another process speaks for it.
    is_superseded: bool,
}

/// Commands that the ledger has not answered.
struct Pending {
    /// The replies about one call come in the order of its requests.
    call: Option<CallNumber>,
    purpose: Purpose,
    stage: Stage,
}

enum Purpose {
    Request {
        nonce: Nonce,
        request: Box<Request>,
        lookups: u32,
    },
    Answer(Nonce),
    Record(EffectId),
    /// An abandoned effect must not start after any reply.
    Abandon(EffectId),
    /// A request or an answer that was abandoned.
    Abandoned,
    /// The reply is not waited for; a problem is for the log.
    Told,
    /// The same for an entry about values that handlers have set under these keys.
    Values(Vec<Arc<str>>),
    Save,
}

impl Purpose {
    fn nonce(&self) -> Option<Nonce> {
        match self {
            Self::Request { nonce, .. } | Self::Answer(nonce) => Some(*nonce),
            Self::Record(_)
            | Self::Abandon(_)
            | Self::Abandoned
            | Self::Told
            | Self::Values(_)
            | Self::Save => None,
        }
    }
}

enum Stage {
    Asked(PendingReplies),
    /// The handler is asked about an effect first.
    LookingUp {
        effect: Box<Effect>,
        began_unix_ms: u64,
    },
}

impl<E: Executor> Driver<E> {
    pub fn new(config: DriverConfig, ledger: Arc<dyn Ledger>, executor: E) -> Self {
        let log = LogReader::new(&*ledger, &config.conversation, &config.leg, config.after);
        Self {
            executor,
            ledger,
            conversation: config.conversation,
            leg: config.leg,
            registry: config.registry,
            limits: config.limits,
            pending: VecDeque::new(),
            ready: VecDeque::new(),
            tokens: BTreeMap::new(),
            granted: Vec::new(),
            log,
            problems: VecDeque::new(),
            events: Vec::new(),
            client_id: None,
            is_superseded: false,
        }
    }

    /// Entries of other legs are no longer wanted.
    pub fn forget_heard(&mut self) {
        self.log.forget_heard();
    }

    /// The session ends: the conversation's other legs report the outcomes of its effects and approval requests.
    pub fn retire(&self) {
        self.log.retire();
    }

    /// Learns the open approval requests that the session's client may be shown.
    pub fn know(&mut self, asked: &[OpenQuestion]) {
        for asked in asked {
            self.remember(asked.token.clone());
        }
    }

    pub fn conversation(&self) -> &ConversationRef {
        &self.conversation
    }

    pub fn leg(&self) -> &LegRef {
        &self.leg
    }

    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.ledger
    }

    /// Begins the conversation if it is new, and the leg. For a leg that is not resumed, before any output is performed.
    pub fn attach(&mut self, leg: NewLeg, beginner: Beginner) {
        self.client_id = Some(leg.client_id.clone());
        self.tell([Command::Open(beginner), Command::Attach(Box::new(leg))]);
    }

    /// Stores the state that the leg needs to go on in another process.
    pub fn save(&mut self, body: Sensitive<Vec<u8>>, expires_in_ms: u64) {
        let save = Command::Save {
            leg: self.leg.clone(),
            body,
            expires_in_ms,
        };
        self.ask(None, Purpose::Save, vec![save]);
    }

    /// Whether the ledger has not answered an earlier save yet.
    pub fn is_saving(&self) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|pending| matches!(pending.purpose, Purpose::Save))
    }

    /// No client can come back to the conversation: it is deleted, if it holds nothing that is still needed.
    pub fn discard(&mut self) {
        self.tell([Command::Discard]);
    }

    /// The leg is over, and not merely resting.
    pub fn leave(&mut self) {
        self.tell([Command::Leave(self.leg.clone())]);
    }

    /// Writes entries into the log that are no output of the core.
    pub fn append(&mut self, entries: Vec<NewEntry>) {
        if entries.is_empty() {
            return;
        }
        let keys: Vec<Arc<str>> = entries.iter().flat_map(keys_set).collect();
        let purpose = match keys.is_empty() {
            true => Purpose::Told,
            false => Purpose::Values(keys),
        };
        let leg = self.leg.clone();
        self.ask(None, purpose, vec![Command::Append { leg, entries }]);
    }

    /// Performs an output, if it is about calls or the ledger, and queues the inputs that this causes at once. Gives back every other
    /// output: for the client, the model, audio, the user's limits, and events.
    pub fn perform(&mut self, output: Output, inputs: &mut VecDeque<Input>) -> Option<Output> {
        match output {
            Output::Append(entries) => self.append(entries),
            Output::Taint => self.tell([Command::Taint]),
            Output::Request { call, request } => {
                let purpose = Purpose::Request {
                    nonce: request.nonce,
                    request: request.clone(),
                    lookups: 0,
                };
                self.ask(Some(call), purpose, vec![Command::Request(request)]);
            }
            Output::Answer {
                call,
                question,
                answer,
            } => self.send_answer(call, question, *answer, inputs),
            Output::Abandon {
                nonce,
                effect_id,
                question,
            } => self.abandon(nonce, effect_id, question),
            Output::Record { call, record } => {
                let effect_id = record.effect_id.clone();
                self.log.recording(&effect_id, record.attempt);
                let purpose = Purpose::Record(effect_id);
                self.ask(Some(call), purpose, vec![Command::Record(record)]);
            }
            Output::Withdraw(questions) => {
                let leg = self.leg.clone();
                self.tell([Command::Withdraw { leg, questions }]);
            }
            Output::Revoke(question) => {
                let leg = Some(self.leg.leg.clone());
                self.tell([Command::Revoke { question, leg }]);
            }
            Output::Heard { effects, questions } => {
                self.tell([Command::Heard { effects, questions }]);
            }
            Output::Progress(told) => self.tell([Command::Progress(told)]),
            Output::CancelTask(effect_id) => self.tell([Command::CancelTask { effect_id }]),
            Output::StartCall(call) => self.start(&call, inputs),
            Output::AbortCall { call, drop } => self.executor.abort(call, drop),
            Output::AnswerHandler { reply, response } => {
                self.executor.answer(reply, response.into_inner());
            }
            other => return Some(other),
        }
        None
    }

    /// Takes a user's answer with the token that a client shows, and tells the core which approval request it is for. `Err` if the store
    /// cannot be read: the core is told nothing, and the client is to be told that its answer was not stored.
    pub fn answer(
        &mut self,
        token: &str,
        said: SaidAnswer<'_>,
        inputs: &mut VecDeque<Input>,
    ) -> Result<(), StoreUnavailable> {
        let token = Token::parse(token);
        let question = match &token {
            Some(token) => self.ledger.store().question(&self.conversation, token)?,
            None => None,
        };
        if let (Some(token), Some(_)) = (token, &question) {
            self.remember(token);
        }
        inputs.push_back(Input::Answered {
            question: question.map(Box::new),
            approved: said.approved,
            reason: said
                .reason
                .filter(|_| !said.approved)
                .and_then(denial_reason),
            remember: said.approved && said.remember,
            input: said.input.cloned().map(Box::new),
        });
        Ok(())
    }

    /// The text with which the client answers an approval request that it was shown.
    pub fn token(&self, question: QuestionNumber) -> Option<Sensitive<String>> {
        self.tokens.get(&question).map(Token::text)
    }

    /// Whether the core waits for nothing: no call runs, and the ledger owes no reply.
    pub fn is_idle(&self) -> bool {
        let is_awaited = |pending: &Pending| pending.call.is_some();
        !self.pending.iter().any(is_awaited) && self.ready.is_empty() && self.executor.is_idle()
    }

    /// The entries of other legs since the last call, oldest first, as far as they are kept.
    pub fn take_heard(&mut self) -> Vec<Entry> {
        self.log.take_heard()
    }

    /// The problems for the log.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems).into()
    }

    /// The events of the intents of results that lookups have found, for the session's subscribers.
    pub fn take_events(&mut self) -> Vec<SessionEvent> {
        std::mem::take(&mut self.events)
    }

    /// Whether the ledger takes no more commands of the leg. Its session is to end: its client goes on in another one.
    pub fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// The last entry of the log that was read.
    pub fn last_read(&self) -> EntryNumber {
        self.log.last_read()
    }

    /// Reads the commits up to now, for a session that is not polled while it rests. Returns the news for the core.
    pub fn catch_up(&mut self) -> Option<Input> {
        if self.log.look_behind() {
            self.read();
        }
        self.ready.pop_front()
    }

    /// The next input that the ledger, a handler or another leg brings.
    pub fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        loop {
            if let Some(input) = self.ready.pop_front() {
                return Poll::Ready(input);
            }
            if let Poll::Ready(input) = self.poll_pending(context) {
                return Poll::Ready(input);
            }
            match self.executor.poll_report(context) {
                Poll::Ready(Report::Message(call, message)) => {
                    return Poll::Ready(Input::HandlerMessage { call, message });
                }
                Poll::Ready(Report::Finished(call, result)) => {
                    return Poll::Ready(Input::CallFinished { call, result });
                }
                Poll::Ready(Report::LookedUp(effect_id, finding)) => {
                    self.looked_up(&effect_id, &finding);
                    continue;
                }
                Poll::Pending => {}
            }
            if self.log.poll_behind(context) {
                self.read();
            }
            if self.ready.is_empty() {
                return Poll::Pending;
            }
        }
    }

    /// Sends the ledger commands whose replies are not waited for.
    pub fn tell(&mut self, commands: impl Into<Vec<Command>>) {
        self.ask(None, Purpose::Told, commands.into());
    }

    fn ask(&mut self, call: Option<CallNumber>, purpose: Purpose, commands: Vec<Command>) {
        let stage = Stage::Asked(self.apply(commands));
        self.pending.push_back(Pending {
            call,
            purpose,
            stage,
        });
    }

    fn apply(&self, commands: Vec<Command>) -> PendingReplies {
        self.ledger.apply(Batch {
            conversation: self.conversation.clone(),
            commands,
        })
    }

    fn send_answer(
        &mut self,
        call: CallNumber,
        question: QuestionNumber,
        mut answer: AnswerRequest,
        inputs: &mut VecDeque<Input>,
    ) {
        if let AnswerVerdict::Approved(approval) = &mut answer.verdict
            && let Some(remember) = &mut approval.remember
        {
            remember.client_id.clone_from(&self.client_id);
        }
        let Some(token) = self.tokens.get(&question).cloned() else {
            let reply = Ok(Box::new(Reply::Expired));
            return inputs.push_back(Input::Decided { call, reply });
        };
        let purpose = Purpose::Answer(answer.nonce);
        let answer = Command::Answer(Box::new(answer.with_token(token)));
        self.ask(Some(call), purpose, vec![answer]);
    }

    fn abandon(&mut self, nonce: Nonce, effect_id: EffectId, question: Option<QuestionNumber>) {
        for pending in &mut self.pending {
            if pending.purpose.nonce() == Some(nonce) {
                pending.purpose = Purpose::Abandoned;
            }
        }
        // A request during a lookup of its effect is not given to the ledger again.
        self.pending.retain(|pending| {
            !matches!(
                (&pending.purpose, &pending.stage),
                (Purpose::Abandoned, Stage::LookingUp { .. })
            )
        });
        let purpose = Purpose::Abandon(effect_id.clone());
        let abandon = Command::Abandon {
            nonce,
            effect_id,
            question,
        };
        self.ask(None, purpose, vec![abandon]);
    }

    /// Starts an attempt that the ledger has granted, once, and not beyond its lease.
    fn start(&mut self, call: &AdmittedCall, inputs: &mut VecDeque<Input>) {
        let mut time = call.timeout();
        if let Some(run) = call.run() {
            let attempt = (run.effect_id.clone(), run.attempt);
            let Some(place) = self.granted.iter().position(|one| *one == attempt) else {
                let problem = "an attempt was to start that the ledger has not granted".to_owned();
                let failure = Failure {
                    cause: Cause::Broken(problem),
                    intents: Vec::new(),
                };
                return inputs.push_back(finished(call.call(), failure));
            };
            self.granted.swap_remove(place);
            let now_unix_ms = self.ledger.store().now_unix_ms();
            let left_ms = run.lease_end_unix_ms.saturating_sub(now_unix_ms);
            if left_ms == 0 {
                let mut report = FailureReport::new(
                    FailureKind::Transient,
                    "its time was over before it could begin",
                );
                // The run that this one goes on from may have done something before it asked its user.
                report.partial_side_effects = Some(call.session().input.given.is_some());
                return inputs.push_back(finished(call.call(), report.into()));
            }
            time = time.min(Duration::from_millis(left_ms));
        }
        let ended = self.executor.start(call, time);
        if let Some((call, result)) = ended {
            while let Some((call, message)) = self.executor.take_message() {
                inputs.push_back(Input::HandlerMessage { call, message });
            }
            inputs.push_back(Input::CallFinished { call, result });
        }
    }

    fn remember(&mut self, token: Token) {
        self.tokens.insert(token.question, token);
        if self.tokens.len() > TOKENS_MAX {
            self.tokens.pop_first();
        }
    }

    /// The next reply that may be given: the first of its call.
    fn poll_pending(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        let mut place = 0;
        while place < self.pending.len() {
            let call = self.pending[place].call;
            let is_overtaking = call.is_some()
                && self
                    .pending
                    .iter()
                    .take(place)
                    .any(|earlier| earlier.call == call);
            if is_overtaking {
                place += 1;
                continue;
            }
            match self.poll_stage(place, context) {
                Poll::Pending => place += 1,
                Poll::Ready(Next::Again) => {}
                Poll::Ready(Next::Answered(answer)) => {
                    let Some(pending) = self.pending.remove(place) else {
                        break;
                    };
                    if let Some(input) = self.input_of(pending, answer) {
                        return Poll::Ready(input);
                    }
                }
            }
        }
        Poll::Pending
    }

    fn poll_stage(&mut self, place: usize, context: &mut Context<'_>) -> Poll<Next> {
        let Stage::Asked(replies) = &mut self.pending[place].stage else {
            return Poll::Pending;
        };
        let Poll::Ready(replies) = replies.as_mut().poll(context) else {
            return Poll::Pending;
        };
        Poll::Ready(match replies.map(|mut replies| replies.pop()) {
            Err(error) => Next::Answered(Err(problem(&error))),
            Ok(Some(Reply::LookUp {
                effect,
                now_unix_ms,
            })) => self.look_up(place, effect, now_unix_ms),
            Ok(Some(reply)) => Next::Answered(Ok(Box::new(reply))),
            Ok(None) => Next::Answered(Err(StoreProblem {
                problem: "it gave no reply".to_owned(),
            })),
        })
    }

    /// Has the handler asked about the effect, before the same request is judged again.
    fn look_up(&mut self, place: usize, effect: Box<Effect>, began_unix_ms: u64) -> Next {
        let pending = &mut self.pending[place];
        let Purpose::Request { lookups, .. } = &mut pending.purpose else {
            return Next::Answered(Ok(Box::new(Reply::Unknown(effect))));
        };
        *lookups += 1;
        if *lookups > LOOKUPS_MAX {
            return Next::Answered(Ok(Box::new(Reply::Unknown(effect))));
        }
        let finding = match lookup_of(&effect, &self.registry) {
            Some(lookup) => self.executor.look_up(&lookup),
            None => Some(Finding::Unknown),
        };
        match finding {
            Some(finding) => {
                let (found, events) = self.found(&effect, began_unix_ms, &finding);
                self.events.extend(events);
                self.ask_again(place, found);
            }
            None => {
                self.pending[place].stage = Stage::LookingUp {
                    effect,
                    began_unix_ms,
                };
            }
        }
        Next::Again
    }

    /// A handler has answered a lookup, for the calls that still wait for it.
    fn looked_up(&mut self, effect_id: &EffectId, finding: &Finding) {
        let mut is_first = true;
        for place in 0..self.pending.len() {
            let Stage::LookingUp {
                effect,
                began_unix_ms,
            } = &self.pending[place].stage
            else {
                continue;
            };
            if effect.effect_id == *effect_id {
                let (found, events) = self.found(effect, *began_unix_ms, finding);
                // For the others it is no news.
                if std::mem::take(&mut is_first) {
                    self.events.extend(events);
                }
                self.ask_again(place, found);
            }
        }
    }

    fn found(
        &self,
        effect: &Effect,
        began_unix_ms: u64,
        finding: &Finding,
    ) -> (Command, Vec<SessionEvent>) {
        let name = effect.tool.as_str();
        let tool = self.registry.of_record(name, &effect.tool_version);
        let looked_up = LookedUp {
            store: self.ledger.store(),
            conversation: &self.conversation,
            registry: &self.registry,
            limits: &self.limits,
            effect,
            version: tool.map(|tool| &*tool.version),
            began_unix_ms,
        };
        looked_up.found(finding)
    }

    /// Stores the finding, and in the same step repeats the request.
    fn ask_again(&mut self, place: usize, found: Command) {
        let mut commands = vec![found];
        if let Purpose::Request { request, .. } = &self.pending[place].purpose {
            commands.push(Command::Request(request.clone()));
        }
        self.pending[place].stage = Stage::Asked(self.apply(commands));
    }

    fn input_of(
        &mut self,
        pending: Pending,
        answer: Result<Box<Reply>, StoreProblem>,
    ) -> Option<Input> {
        let reply = answer.as_deref().ok();
        self.is_superseded |= matches!(
            reply,
            Some(Reply::Gone | Reply::Foreign | Reply::Crowded(_))
        );
        match pending.purpose {
            Purpose::Request { .. } | Purpose::Answer(_) => {
                match reply {
                    Some(Reply::Run(run)) => self.grant(run, true),
                    Some(Reply::Ask(asked)) => {
                        self.remember(asked.token.clone());
                        self.read_again(&asked.question);
                    }
                    _ => {}
                }
                let call = pending.call?;
                Some(Input::Decided {
                    call,
                    reply: answer,
                })
            }
            Purpose::Abandoned => {
                if let Some(Reply::Run(run)) = reply {
                    self.grant(run, false);
                }
                None
            }
            Purpose::Record(effect_id) => {
                self.recorded(&effect_id, reply);
                let call = pending.call?;
                Some(Input::Recorded {
                    call,
                    reply: answer,
                })
            }
            Purpose::Abandon(effect_id) => {
                self.recorded(&effect_id, reply);
                None
            }
            Purpose::Told | Purpose::Save => {
                match &answer {
                    Err(error) => self.note(error.to_string()),
                    Ok(reply) => self.note_refusal(reply, &[]),
                }
                None
            }
            Purpose::Values(keys) => {
                match &answer {
                    Err(error) => self.note(error.to_string()),
                    Ok(reply) => self.note_refusal(reply, &keys),
                }
                None
            }
        }
    }

    fn note_refusal(&mut self, reply: &Reply, keys: &[Arc<str>]) {
        let problem = match reply {
            Reply::Gone => "the leg was taken over, and what it says is not kept",
            Reply::Foreign => "the conversation is another user's, and nothing of it is kept",
            Reply::Crowded(_) => {
                "who began the conversation has as many as its share, and nothing of it is kept"
            }
            Reply::EntryTooLong => "what was said or saved is longer than the store keeps",
            _ => return,
        };
        self.note(match keys {
            [] => problem.to_owned(),
            keys => format!(
                "{problem}; what a handler has set is not kept: {}",
                keys.join(", ")
            ),
        });
    }

    /// Notes a problem for the log, once.
    fn note(&mut self, problem: String) {
        if self.problems.back() != Some(&problem) && self.problems.len() < PROBLEMS_MAX {
            self.problems.push_back(problem);
        }
    }

    /// The attempt is this session's. If it was abandoned before it could start, it is not waited for.
    fn grant(&mut self, run: &Run, may_start: bool) {
        let Some(effect_id) = &run.effect_id else {
            return;
        };
        self.log.runs(effect_id, run.attempt);
        match may_start {
            true => self.granted.push((effect_id.clone(), run.attempt)),
            false => self.log.recording(effect_id, run.attempt),
        }
    }

    /// The ledger's reply about the end of an attempt.
    fn recorded(&mut self, asked_of: &EffectId, reply: Option<&Reply>) {
        let effect = match reply {
            Some(Reply::Recorded(effect)) => Some(&**effect),
            _ => None,
        };
        let effect_id = effect.map_or(asked_of, |effect| &effect.effect_id);
        if let Some(attempt) = self.log.recorded(effect_id, effect) {
            self.granted
                .retain(|granted| *granted != (effect_id.clone(), attempt));
        }
    }

    /// A late reply names a request that was closed or asked for again since then, and that change was read before the core knew of the
    /// request. The core is told the change once more, after the reply.
    fn read_again(&mut self, question: &Question) {
        if self.log.last_read() <= question.last_entry {
            return;
        }
        let store = self.ledger.store();
        match store.question_of_number(&self.conversation, question.number) {
            Ok(Some(now)) if now.last_entry > question.last_entry => {
                let news = News::Question(Box::new(now));
                self.ready.push_back(Input::News(vec![news]));
            }
            Ok(_) => {}
            Err(error) => self.note(error.to_string()),
        }
    }

    /// Reads the log on, and queues its news for the core.
    fn read(&mut self) {
        let tokens = &self.tokens;
        let is_shown = |question| tokens.contains_key(&question);
        match self.log.read(self.ledger.store(), is_shown) {
            Ok(news) if news.is_empty() => {}
            Ok(news) => self.ready.push_back(Input::News(news)),
            Err(error) => self.note(error.to_string()),
        }
    }
}

/// The next step after progress of a pending command.
enum Next {
    /// The command is to be polled again.
    Again,
    Answered(Result<Box<Reply>, StoreProblem>),
}

fn finished(call: CallRef, failure: Failure) -> Input {
    Input::CallFinished {
        call,
        result: Err(failure),
    }
}

fn problem(error: &StoreUnavailable) -> StoreProblem {
    StoreProblem {
        problem: error.to_string(),
    }
}

/// The keys of the values that an entry says handlers have set.
fn keys_set(entry: &NewEntry) -> Vec<Arc<str>> {
    let kept = match &entry.event {
        EntryEvent::Said(said) => KeptState::of(said.expose()),
        _ => None,
    };
    kept.map_or_else(Vec::new, |kept| kept.changed)
}
