//! A conversation under test: acts with defaults that drive a store by its public trait, and replies as text.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_contract::id::{
    ClientId, ConversationId, EffectId, SessionId, TenantId, ToolId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{
    AnswerVerdict, Approval, ApprovalAnswer, CalledBack, Command, Found, FoundState, NewLeg,
    OpenQuestion, Record, Reply, Request, RequestOrigin, Resumed, Run, ToolFacts,
    WithdrawnQuestion,
};
use windlass_store::{
    AttemptNumber, AttemptOutcome, Batch, Beginner, Certainty, ConversationRef, Effect,
    EffectState, EntryEvent, Epoch, LegNumber, LegRef, MemoryStore, NewEntry, Nonce, OwnerId,
    Presented, Question, QuestionInput, QuestionNumber, ServerKey, Store, StoreLimits,
    StoreSettings, Token,
};

pub(crate) const LEASE_MS: u64 = 30_000;
pub(crate) const QUESTION_MS: u64 = 300_000;
pub(crate) const LANDING_MS: u64 = 60_000;
pub(crate) const HOUR_MS: u64 = 60 * 60 * 1_000;
const START_UNIX_MS: u64 = 1_700_000_000_000;

/// What is said of the tool, its configuration and the leg.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Policy {
    pub(crate) writes: bool,
    pub(crate) background: bool,
    pub(crate) consent: bool,
    pub(crate) repeatable: bool,
    pub(crate) idempotent: bool,
    pub(crate) lookup: bool,
    pub(crate) can_ask: bool,
    pub(crate) may_run: bool,
    pub(crate) ignores_external: bool,
}

pub(crate) const PLAIN: Policy = Policy {
    writes: true,
    background: false,
    consent: false,
    repeatable: false,
    idempotent: false,
    lookup: false,
    can_ask: true,
    may_run: true,
    ignores_external: false,
};

/// One thing that happens to a conversation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// The user begins a turn.
    Onset,
    /// The model asks: a new message, the same arguments.
    Request,
    /// Other arguments that mean the same effect.
    OtherWords,
    /// Arguments that mean another effect of the same tool.
    OtherKey,
    /// The same, and yet another.
    ThirdKey,
    /// Arguments that differ from [`Act::Request`]'s by case alone.
    NearKey,
    /// The newest message comes again.
    SameMessage,
    /// The newest message comes again with other arguments.
    SameMessageOtherWords,
    /// The newest request comes again: its acknowledgement was lost.
    SameCommand,
    /// A handler calls a tool: the first of its calls.
    Nested,
    NestedOtherWords,
    NestedConsent,
    /// Another leg of the conversation goes on.
    OtherLeg,
    /// The provider's connection was lost and is there again.
    Reconnect,
    /// What was asked for on the connection before comes now.
    OldConnection,
    /// The leg was taken over, which the process does not know.
    TakenOver,
    /// The newest attempt, or the run of a tool without side effects, comes to a question of its service's to the user.
    Asks,
    /// The first attempt comes to one.
    FirstAsks,
    /// The user answers the newest question.
    Yes,
    No,
    /// The newest answer comes again.
    SameAnswer,
    /// The user answers the first question.
    YesToFirst,
    NoToFirst,
    /// A yes with a token that was tampered with.
    YesForged,
    /// A yes with the token of a question of another conversation.
    YesElsewhere,
    /// A yes, and the tool has another version.
    YesChanged,
    /// A yes, and the registry has the tool no more.
    YesUnknownTool,
    /// A yes, over the rate limit.
    YesNotAllowed,
    /// The newest attempt ends.
    Succeeds,
    Fails,
    /// The same, and its session is to try again within so long.
    FailsForNow(u64),
    EndsInDoubt,
    /// The first attempt ends.
    FirstSucceeds,
    FirstFails,
    /// The newest attempt ran by an approval and has failed; the same approval has the next one begun.
    YesAgain,
    Passes(u64),
    /// The clock is set back.
    Back(u64),
    /// The process is dead; another goes on.
    Crash,
    /// The model has heard how everything ended.
    Heard,
    /// A handler is asked about the newest effect.
    LooksUp,
    /// What it answers.
    FindsIt,
    FindsNothing,
    FindsNoAnswer,
    /// A service takes the newest attempt on, for so long.
    Accepts(u64),
    /// It tells how that ended.
    CallsBack,
    CallsBackFailed,
    CallsBackInDoubt,
    /// The user wants no more of the newest task.
    Cancels,
    /// The sweep.
    Settles,
    /// The model reads what others wrote.
    Taint,
    /// Nobody waits for the newest request or answer any more.
    Abandon,
    /// The next request or answer is given up before it comes.
    AbandonNext,
    Withdraw,
    /// The leg is over.
    Leaves,
    /// The tool has another version from now on.
    Upgrade,
    /// Another policy from now on.
    Now(Policy),
}

/// A conversation of alice's and who drives it.
pub(crate) struct Ledger {
    pub(crate) clock: Arc<AtomicU64>,
    pub(crate) store: MemoryStore,
    pub(crate) conversation: ConversationRef,
    pub(crate) limits: StoreLimits,
    pub(crate) policy: Policy,
    version: &'static str,
    leg: LegRef,
    legs: u32,
    owners: u32,
    made: u64,
    generation: u64,
    entries: u64,
    onset: Option<LegNumber>,
    request: Option<Request>,
    answer: Option<ApprovalAnswer>,
    /// The attempt that the next answer has tried again.
    again: Option<AttemptNumber>,
    given_up: Option<(Nonce, EffectId, Option<QuestionNumber>)>,
    looked_up_at: u64,
    runs: Vec<(EffectId, AttemptNumber)>,
    asked: Vec<OpenQuestion>,
    /// In the order in which they were seen.
    effects: Vec<EffectId>,
}

pub(crate) fn settings(clock: &Arc<AtomicU64>, owner: &str, limits: StoreLimits) -> StoreSettings {
    let clock = clock.clone();
    StoreSettings {
        key: ServerKey::new([7; 32]),
        owner: OwnerId(owner.to_owned()),
        clock: Arc::new(move || clock.load(Ordering::Relaxed)),
        limits,
    }
}

pub(crate) fn conversation(id: &str, user: &str) -> ConversationRef {
    ConversationRef {
        tenant: TenantId::default(),
        conversation_id: ConversationId::new(id),
        user_id: UserId::new(user),
    }
}

pub(crate) fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    Nonce(bytes)
}

/// One command in a transaction of its own.
pub(crate) fn one(store: &dyn Store, conversation: &ConversationRef, command: Command) -> Reply {
    let batch = Batch {
        conversation: conversation.clone(),
        commands: vec![command],
    };
    let mut replies = store.commit(&[batch]).unwrap();
    replies.remove(0).remove(0)
}

pub(crate) fn new_leg(leg: &str) -> NewLeg {
    let mut resume_token = [0; 32];
    for (byte, place) in leg.bytes().zip(&mut resume_token) {
        *place = byte;
    }
    NewLeg {
        leg: SessionId::new(leg),
        mode: Mode::Voice,
        client_id: ClientId::new("phone"),
        resume_token,
        expires_in_ms: HOUR_MS,
    }
}

pub(crate) fn onset(number: u64) -> NewEntry {
    NewEntry {
        leg_number: Some(LegNumber(number)),
        key: None,
        event: EntryEvent::Onset,
    }
}

impl Ledger {
    pub(crate) fn new(policy: Policy) -> Self {
        Self::with_limits(policy, StoreLimits::default())
    }

    pub(crate) fn with_limits(policy: Policy, limits: StoreLimits) -> Self {
        let clock = Arc::new(AtomicU64::new(START_UNIX_MS));
        let mut ledger = Self {
            store: MemoryStore::new(settings(&clock, "process 1", limits)),
            clock,
            conversation: conversation("conversation", "alice"),
            limits,
            policy,
            version: "1.0.0",
            leg: LegRef {
                leg: SessionId::new("leg 0"),
                epoch: Epoch(0),
            },
            legs: 0,
            owners: 1,
            made: 0,
            generation: 1,
            entries: 0,
            onset: None,
            request: None,
            answer: None,
            again: None,
            given_up: None,
            looked_up_at: 0,
            runs: Vec::new(),
            asked: Vec::new(),
            effects: Vec::new(),
        };
        ledger.act(Act::OtherLeg);
        ledger
    }

    /// Everything in order, and the text of the last reply.
    pub(crate) fn all(&mut self, acts: &[Act]) -> String {
        let mut text = String::new();
        for act in acts {
            text = self.act(*act);
        }
        text
    }

    pub(crate) fn send(&mut self, command: Command) -> Reply {
        let reply = one(&self.store, &self.conversation, command);
        match &reply {
            Reply::Run(run) => {
                if let Some(effect_id) = &run.effect_id {
                    self.see(effect_id);
                    self.runs.push((effect_id.clone(), run.attempt));
                }
            }
            Reply::Ask(asked) => self.asked.push((**asked).clone()),
            _ => {}
        }
        reply
    }

    pub(crate) fn leg(&self) -> LegRef {
        self.leg.clone()
    }

    /// The question that was asked last.
    pub(crate) fn question(&self) -> &Question {
        &self.asked.last().expect("something was asked").question
    }

    /// The effect that was run last, as it is kept.
    pub(crate) fn effect(&self) -> Effect {
        let (effect_id, _) = self.runs.last().expect("something ran");
        let tenant = &self.conversation.tenant;
        self.store.effect(tenant, effect_id).unwrap().unwrap().1
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn make(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub(crate) fn request(&mut self, arguments: &str, effect_arguments: &str) -> Request {
        let number = self.make();
        let policy = self.policy;
        Request {
            nonce: nonce(number),
            effect_id: EffectId::new(format!("effect-{number}")),
            leg: self.leg.clone(),
            call: number,
            tool: self.tool(),
            arguments: Sensitive(arguments.to_owned()),
            effect_arguments: Sensitive(effect_arguments.to_owned()),
            near_arguments: Sensitive(effect_arguments.to_owned()),
            origin: RequestOrigin::Model {
                delivery: format!("call_{number}"),
                generation: self.generation,
            },
            onset: self.onset,
            may_run: policy.may_run,
            needs_consent: policy.consent,
            because: None,
            clock: None,
            standing_values: None,
            ignores_external_content: policy.ignores_external,
            can_ask: policy.can_ask,
            mode: Mode::Voice,
            preview: Sensitive("Book a table".to_owned()),
            lease_ms: LEASE_MS,
            question_ms: QUESTION_MS,
            intent: Sensitive("{}".to_owned()),
            input: None,
        }
    }

    fn tool(&self) -> ToolFacts {
        ToolFacts {
            id: ToolId::parse("table_book").unwrap(),
            version: self.version.to_owned(),
            handler_hash: None,
            writes: self.policy.writes,
            is_background: self.policy.background,
            is_external: false,
            idempotent: self.policy.idempotent,
            repeatable: self.policy.repeatable,
            has_lookup: self.policy.lookup,
            key_spec: Arc::default(),
        }
    }

    pub(crate) fn approval(&self) -> Approval {
        Approval {
            tool: Some(self.tool()),
            may_run: true,
            remember: None,
            lease_ms: LEASE_MS,
            question_ms: QUESTION_MS,
            intent: Sensitive("{}".to_owned()),
        }
    }

    pub(crate) fn token(&self) -> Token {
        self.asked
            .last()
            .expect("something was asked")
            .token
            .clone()
    }

    pub(crate) fn act(&mut self, act: Act) -> String {
        let reply = match act {
            Act::Onset => {
                self.entries += 1;
                self.onset = Some(LegNumber(self.entries));
                self.send(Command::Append {
                    leg: self.leg.clone(),
                    entries: vec![onset(self.entries)],
                })
            }
            Act::Request => self.model("{\"at\":\"noon\"}", "{\"at\":\"noon\"}"),
            Act::OtherWords => self.model("{\"at\":\"noon\",\"note\":\"!\"}", "{\"at\":\"noon\"}"),
            Act::OtherKey => self.model("{\"at\":\"one\"}", "{\"at\":\"one\"}"),
            Act::ThirdKey => self.model("{\"at\":\"three\"}", "{\"at\":\"three\"}"),
            Act::NearKey => {
                let mut request = self.request("{\"at\":\"Noon\"}", "{\"at\":\"Noon\"}");
                request.near_arguments = Sensitive("{\"at\":\"noon\"}".to_owned());
                self.requests(request)
            }
            Act::SameMessage => self.same_message(None),
            Act::SameMessageOtherWords => self.same_message(Some("{\"at\":\"two\"}")),
            Act::SameCommand => {
                let request = self.request.clone().expect("something was requested");
                self.send(Command::Request(Box::new(request)))
            }
            Act::Nested => self.nested("{}", false),
            Act::NestedOtherWords => self.nested("{\"at\":\"two\"}", false),
            Act::NestedConsent => self.nested("{}", true),
            Act::OtherLeg => {
                self.legs += 1;
                let name = format!("leg {}", self.legs);
                let leg = SessionId::new(name.as_str());
                self.send(Command::Open(Beginner::default()));
                let reply = self.send(Command::Attach(Box::new(new_leg(&name))));
                let Reply::Attached { epoch } = &reply else {
                    panic!("{reply:?}");
                };
                self.leg = LegRef { leg, epoch: *epoch };
                (self.entries, self.onset, self.generation) = (0, None, 1);
                reply
            }
            Act::Reconnect => {
                self.generation += 1;
                Reply::Done
            }
            Act::OldConnection => {
                self.generation -= 1;
                Reply::Done
            }
            Act::TakenOver => self.send(Command::Resume(Presented {
                resume_token: new_leg(self.leg.leg.as_str()).resume_token,
                client_id: ClientId::new("phone"),
                user_id: UserId::new("alice"),
            })),
            Act::Asks | Act::FirstAsks => {
                let mut request = self.request("{\"at\":\"noon\"}", "{\"at\":\"noon\"}");
                let run = match act {
                    Act::FirstAsks => self.runs.first().cloned(),
                    _ => self.runs.last().cloned(),
                };
                request.input = Some(Box::new(QuestionInput {
                    asked: Sensitive("{}".to_owned()),
                    run: run.filter(|_| self.policy.writes),
                }));
                self.requests(request)
            }
            Act::Yes => self.answers(self.token(), Some(self.approval())),
            Act::No => self.answers(self.token(), None),
            Act::SameAnswer => {
                let answer = self.answer.clone().expect("something was answered");
                self.send(Command::Answer(Box::new(answer)))
            }
            Act::YesToFirst => self.answers(self.asked[0].token.clone(), Some(self.approval())),
            Act::NoToFirst => self.answers(self.asked[0].token.clone(), None),
            Act::YesForged => {
                let text = self.token().text().into_inner();
                let last = match text.ends_with('0') {
                    true => "1",
                    false => "0",
                };
                let forged = format!("{}{last}", &text[..text.len() - 1]);
                self.answers(Token::parse(&forged).unwrap(), Some(self.approval()))
            }
            Act::YesElsewhere => {
                let number = self.asked.last().unwrap().question.number;
                let elsewhere = conversation("another", "alice");
                let arguments = "{\"at\":\"noon\"}";
                let token = ServerKey::new([7; 32]).token(&elsewhere, number, arguments);
                self.answers(token, Some(self.approval()))
            }
            Act::YesChanged => {
                let mut approval = self.approval();
                approval.tool.as_mut().unwrap().version = "3.0.0".to_owned();
                self.answers(self.token(), Some(approval))
            }
            Act::YesUnknownTool => {
                let approval = Approval {
                    tool: None,
                    ..self.approval()
                };
                self.answers(self.token(), Some(approval))
            }
            Act::YesNotAllowed => {
                let approval = Approval {
                    may_run: false,
                    ..self.approval()
                };
                self.answers(self.token(), Some(approval))
            }
            Act::Succeeds => self.ends(self.runs.len() - 1, AttemptOutcome::Succeeded),
            Act::Fails => self.ends(self.runs.len() - 1, AttemptOutcome::Failed),
            Act::FailsForNow(next_attempt_ms) => {
                let (run, outcome) = (self.runs.len() - 1, AttemptOutcome::Failed);
                self.ends_before(run, outcome, Some(next_attempt_ms))
            }
            Act::EndsInDoubt => self.ends(self.runs.len() - 1, AttemptOutcome::Unknown),
            Act::FirstSucceeds => self.ends(0, AttemptOutcome::Succeeded),
            Act::FirstFails => self.ends(0, AttemptOutcome::Failed),
            Act::YesAgain => {
                let (_, attempt) = self.runs.last().expect("something ran");
                self.again = Some(*attempt);
                let reply = self.answers(self.token(), Some(self.approval()));
                self.again = None;
                reply
            }
            Act::Passes(ms) => {
                self.clock.fetch_add(ms, Ordering::Relaxed);
                Reply::Done
            }
            Act::Back(ms) => {
                self.clock.fetch_sub(ms, Ordering::Relaxed);
                Reply::Done
            }
            Act::Crash => {
                self.owners += 1;
                let owner = format!("process {}", self.owners);
                let settings = settings(&self.clock, &owner, self.limits);
                self.store = self.store.for_another_process(settings);
                Reply::Done
            }
            Act::Heard => {
                let questions = self.asked.iter().map(|asked| asked.question.number);
                let command = Command::Heard {
                    effects: self.effects.clone(),
                    questions: questions.collect(),
                };
                self.send(command)
            }
            Act::LooksUp => {
                let effect_id = self.runs.last().unwrap().0.clone();
                self.send(Command::LookUp { effect_id })
            }
            Act::FindsIt => self.finds(FoundState::Happened),
            Act::FindsNothing => self.finds(FoundState::NotHappened),
            Act::FindsNoAnswer => self.finds(FoundState::Unknown),
            Act::Accepts(ms) => self.ends(
                self.runs.len() - 1,
                AttemptOutcome::Accepted {
                    until_unix_ms: self.now() + ms,
                },
            ),
            Act::CallsBack => self.calls_back(AttemptOutcome::Succeeded),
            Act::CallsBackFailed => self.calls_back(AttemptOutcome::Failed),
            Act::CallsBackInDoubt => self.calls_back(AttemptOutcome::Unknown),
            Act::Cancels => {
                let effect_id = self.runs.last().unwrap().0.clone();
                self.send(Command::CancelTask { effect_id })
            }
            Act::Settles => self.send(Command::Settle),
            Act::Taint => self.send(Command::Taint),
            Act::Abandon => {
                let (nonce, effect_id, question) =
                    self.given_up.clone().expect("something was sent");
                self.send(Command::Abandon {
                    nonce,
                    effect_id,
                    question,
                })
            }
            Act::AbandonNext => {
                let number = self.made + 1;
                self.send(Command::Abandon {
                    nonce: nonce(number),
                    effect_id: EffectId::new(format!("effect-{number}")),
                    question: None,
                })
            }
            Act::Leaves => self.send(Command::Leave(self.leg.clone())),
            Act::Upgrade => {
                self.version = "2.0.0";
                Reply::Done
            }
            Act::Now(policy) => {
                self.policy = policy;
                Reply::Done
            }
            Act::Withdraw => {
                let questions = self.asked.iter().map(|asked| WithdrawnQuestion {
                    question: asked.question.number,
                    last_entry: asked.question.last_entry,
                });
                let questions = questions.collect();
                self.send(Command::Withdraw {
                    leg: self.leg.clone(),
                    questions,
                })
            }
        };
        if let Reply::LookUp { now_unix_ms, .. } = &reply {
            self.looked_up_at = *now_unix_ms;
        }
        self.text(&reply)
    }

    fn model(&mut self, arguments: &str, effect_arguments: &str) -> Reply {
        let request = self.request(arguments, effect_arguments);
        self.requests(request)
    }

    fn requests(&mut self, request: Request) -> Reply {
        self.given_up = Some((request.nonce, request.effect_id.clone(), None));
        self.request = Some(request.clone());
        self.send(Command::Request(Box::new(request)))
    }

    /// The message again, over the connection that there is now, by a command of its own.
    fn same_message(&mut self, arguments: Option<&str>) -> Reply {
        let known = self.request.clone().expect("something was requested");
        let RequestOrigin::Model { delivery, .. } = known.origin else {
            panic!("a nested call");
        };
        let arguments = arguments.unwrap_or(known.arguments.expose());
        let again = Request {
            origin: RequestOrigin::Model {
                delivery,
                generation: self.generation,
            },
            ..self.request(arguments, arguments)
        };
        self.requests(again)
    }

    fn nested(&mut self, arguments: &str, needs_consent: bool) -> Reply {
        let nested = Request {
            origin: RequestOrigin::Handler {
                parent: EffectId::new("parent"),
                ordinal: 1,
            },
            needs_consent,
            ..self.request(arguments, arguments)
        };
        self.requests(nested)
    }

    fn answers(&mut self, token: Token, approval: Option<Approval>) -> Reply {
        let number = self.make();
        let answer = ApprovalAnswer {
            nonce: nonce(number),
            effect_id: EffectId::new(format!("effect-{number}")),
            token,
            verdict: match approval {
                Some(approval) => AnswerVerdict::Approved(Box::new(approval)),
                None => AnswerVerdict::Denied { reason: None },
            },
            again: self.again,
        };
        let question = Some(answer.token.question);
        self.given_up = Some((answer.nonce, answer.effect_id.clone(), question));
        self.answer = Some(answer.clone());
        self.send(Command::Answer(Box::new(answer)))
    }

    fn ends(&mut self, run: usize, outcome: AttemptOutcome) -> Reply {
        self.ends_before(run, outcome, None)
    }

    fn ends_before(
        &mut self,
        run: usize,
        outcome: AttemptOutcome,
        next_attempt_ms: Option<u64>,
    ) -> Reply {
        let (effect_id, attempt) = self.runs[run].clone();
        self.send(Command::Record(Box::new(Record {
            next_attempt_ms,
            effect_id,
            attempt,
            outcome,
            receipt: Some(Sensitive(format!("{{\"outcome\":\"{outcome:?}\"}}"))),
            asks: None,
            values: None,
        })))
    }

    fn calls_back(&mut self, outcome: AttemptOutcome) -> Reply {
        let effect_id = match self.runs.last() {
            Some((effect_id, _)) => effect_id.clone(),
            None => EffectId::new("effect of nobody"),
        };
        self.send(Command::CalledBack(Box::new(CalledBack {
            effect_id,
            outcome,
            receipt: Some(Sensitive(format!("{{\"called back\":\"{outcome:?}\"}}"))),
            values: None,
        })))
    }

    fn finds(&mut self, finding: FoundState) -> Reply {
        let effect_id = self.runs.last().expect("something ran").0.clone();
        self.send(Command::Found(Box::new(Found {
            effect_id,
            began_unix_ms: self.looked_up_at,
            finding,
            receipt: None,
            values: None,
        })))
    }

    fn see(&mut self, effect_id: &EffectId) -> usize {
        let mut known = self.effects.iter();
        let place = known.position(|known| known == effect_id);
        place.unwrap_or_else(|| {
            self.effects.push(effect_id.clone());
            self.effects.len() - 1
        }) + 1
    }

    /// A reply as the table shows it: effects by their order.
    fn text(&mut self, reply: &Reply) -> String {
        match reply {
            Reply::Run(run) => self.run_text(run),
            Reply::Ask(asked) => self.asked_text(asked),
            Reply::Attach(effect) => format!("`Attach` to {}", self.name(effect)),
            Reply::Replay(effect) => format!("`Replay` of {}", self.stand(effect)),
            Reply::LookUp { effect, .. } => format!("`LookUp` of {}", self.name(effect)),
            Reply::Unknown(effect) => format!("OUTCOME_UNKNOWN of {}", self.name(effect)),
            Reply::Denied(question) => format!("`Denied`, question {}", question.number.0),
            Reply::Changed(question) => format!("`Changed`, question {}", question.number.0),
            Reply::Refused(refusal) => format!("refused: `{refusal:?}`"),
            Reply::TooLate(effect) => format!("too late: {}", self.stand(effect)),
            Reply::Recorded(effect) => format!("recorded: {}", self.stand(effect)),
            Reply::Settled(effects) => {
                let texts: Vec<String> = effects.iter().map(|effect| self.stand(effect)).collect();
                format!("settled: {}", texts.join(", "))
            }
            Reply::Resumed(resumed) => resumed_text(resumed),
            other => format!(
                "`{}`",
                format!("{other:?}").split(['(', ' ']).next().unwrap()
            ),
        }
    }

    fn run_text(&mut self, run: &Run) -> String {
        let mut text = match &run.effect_id {
            Some(effect_id) => format!("`Run` effect {}", self.see(effect_id)),
            None => "`Run`, no effect".to_owned(),
        };
        if run.attempt.0 > 1 {
            text += &format!(", attempt {}", run.attempt.0);
        }
        if let Some(question) = &run.question {
            text += &format!(", approved by question {}", question.number.0);
        }
        text
    }

    fn asked_text(&mut self, asked: &OpenQuestion) -> String {
        let mut text = match asked.is_repeated {
            true => format!("`Ask` question {} again", asked.question.number.0),
            false => format!("`Ask` question {}", asked.question.number.0),
        };
        for earlier in &asked.question.hazards.earlier {
            let certainty = match earlier.certainty {
                Certainty::Done => "was done",
                Certainty::MayHaveHappened => "may have happened",
            };
            text += &format!(", effect {} {certainty}", self.see(&earlier.effect_id));
        }
        if asked.question.hazards.external_content {
            text += ", external content";
        }
        text
    }

    fn name(&mut self, effect: &Effect) -> String {
        format!("effect {}", self.see(&effect.effect_id))
    }

    fn stand(&mut self, effect: &Effect) -> String {
        let state = match effect.state {
            EffectState::Running => "running",
            EffectState::Done => "done",
            EffectState::NotDone => "not done",
            EffectState::Unknown => "unknown",
        };
        format!("{}, {state}", self.name(effect))
    }
}

fn resumed_text(resumed: &Resumed) -> String {
    format!("`Resumed`, epoch {}", resumed.leg.epoch.0)
}
