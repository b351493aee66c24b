//! The driver on a ledger that answers when the test says so: what comes back, in which order, and what is asked again.

use crate::bench::{Hands, registry};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use windlass_contract::envelope::ToolResponse;
use windlass_contract::handler::{Finding, Success};
use windlass_contract::id::{
    CallNumber, ClientId, ConversationId, EffectId, SessionId, TenantId, ToolId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::{Concerned, Driver, DriverConfig, Ledger, PendingReplies, Tail, Tails};
use windlass_session::io::{AnswerRequest, Input, News, Output};
use windlass_session::limits::Limits;
use windlass_store::command::{
    AnswerVerdict, Command, Found, FoundState, NewLeg, Record, Reply, Request, RequestOrigin, Run,
    ToolFacts, WithdrawnQuestion,
};
use windlass_store::{
    Attempt, AttemptNumber, AttemptOutcome, Batch, Beginner, ConversationRef, Effect, EffectKey,
    EffectState, EntryEvent, EntryNumber, Epoch, LegRef, LookupState, MemoryStore, NewEntry, Nonce,
    OwnerId, QuestionNumber, QuestionState, Store, StoreUnavailable,
};

type Replies = Result<Vec<Reply>, StoreUnavailable>;

/// What was asked, and what the test has answered.
#[derive(Default)]
struct OpenRequest {
    batches: Vec<Vec<Command>>,
    answers: Vec<Option<Replies>>,
}

struct Scripted {
    asked: Arc<Mutex<OpenRequest>>,
    store: MemoryStore,
    tails: Tails,
}

impl Ledger for Scripted {
    fn apply(&self, batch: Batch) -> PendingReplies {
        let asked = self.asked.clone();
        let place = {
            let mut asked = asked.lock().unwrap();
            asked.batches.push(batch.commands);
            asked.answers.push(None);
            asked.answers.len() - 1
        };
        Box::pin(poll_fn(move |_| {
            match asked.lock().unwrap().answers[place].take() {
                Some(replies) => Poll::Ready(replies),
                None => Poll::Pending,
            }
        }))
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn tail(&self, conversation: &ConversationRef, leg: &SessionId) -> Tail {
        self.tails.listen(conversation, leg)
    }

    fn is_live(&self, conversation: &ConversationRef, leg: &SessionId) -> bool {
        self.tails.is_live(conversation, leg)
    }
}

struct Bench {
    asked: Arc<Mutex<OpenRequest>>,
    store: MemoryStore,
    tails: Tails,
    hands: Hands,
    driver: Driver<Hands>,
}

fn leg() -> LegRef {
    LegRef {
        leg: SessionId::new("s-1"),
        epoch: Epoch(1),
    }
}

fn bench() -> Bench {
    let clock = Arc::new(AtomicU64::new(0));
    let ledger = Scripted {
        asked: Arc::default(),
        store: MemoryStore::new(crate::bench::settings("p-1", &clock)),
        tails: Tails::default(),
    };
    let asked = ledger.asked.clone();
    let (store, tails) = (ledger.store.clone(), ledger.tails.clone());
    let hands = Hands::default();
    hands.0.lock().unwrap().holds_lookups = true;
    let config = DriverConfig {
        conversation: conversation(),
        leg: leg(),
        registry: registry(),
        limits: Arc::new(Limits::of(Mode::Text)),
        after: Some(EntryNumber(0)),
    };
    Bench {
        driver: Driver::new(config, Arc::new(ledger), hands.clone()),
        asked,
        store,
        tails,
        hands,
    }
}

fn conversation() -> ConversationRef {
    ConversationRef {
        tenant: TenantId::default(),
        conversation_id: ConversationId::new("c-1"),
        user_id: UserId::new("u-1"),
    }
}

impl Bench {
    /// The store takes what the driver, or somebody else, has asked, and wakes the session.
    fn commit(&self, commands: Vec<Command>) -> Vec<Reply> {
        let batch = Batch {
            conversation: conversation(),
            commands,
        };
        let batches = [batch];
        let replies = self.store.commit(&batches).unwrap().pop().unwrap();
        let concerned = Concerned::of(&batches[0], &replies);
        concerned
            .iter()
            .for_each(|concerned| self.tails.wake(concerned));
        replies
    }

    fn perform(&mut self, output: Output) -> VecDeque<Input> {
        let mut inputs = VecDeque::new();
        assert!(self.driver.perform(output, &mut inputs).is_none());
        inputs
    }

    fn answer(&self, place: usize, reply: Reply) {
        self.asked.lock().unwrap().answers[place] = Some(Ok(vec![reply]));
    }

    fn fail(&self, place: usize) {
        self.asked.lock().unwrap().answers[place] = Some(Err(StoreUnavailable::Overloaded));
    }

    /// What was asked last, and how often anything was.
    fn last(&self) -> (usize, Vec<Command>) {
        let asked = self.asked.lock().unwrap();
        (asked.batches.len(), asked.batches.last().unwrap().clone())
    }

    fn poll(&mut self) -> Option<Input> {
        let mut context = Context::from_waker(Waker::noop());
        match self.driver.poll_input(&mut context) {
            Poll::Ready(input) => Some(input),
            Poll::Pending => None,
        }
    }

    /// The states of the questions that the session is told of.
    fn question_states(&mut self) -> Vec<QuestionState> {
        let Some(Input::News(news)) = self.poll() else {
            panic!("there is news");
        };
        let state = |one: &News| match one {
            News::Question(question) => question.state,
            other => panic!("{other:?}"),
        };
        news.iter().map(state).collect()
    }

    /// The call, and the reply's name, of a decision.
    fn decided(&mut self) -> Option<(u64, String)> {
        match self.poll()? {
            Input::Decided { call, reply } => Some((call.0, name(reply.as_deref()))),
            Input::Recorded { call, reply } => Some((call.0, name(reply.as_deref()))),
            other => panic!("{other:?}"),
        }
    }
}

fn name<E>(reply: Result<&Reply, E>) -> String {
    match reply {
        Ok(reply) => {
            let text = format!("{reply:?}");
            let end = text.find(|c: char| !c.is_alphanumeric());
            text[..end.unwrap_or(text.len())].to_owned()
        }
        Err(_) => "failed".to_owned(),
    }
}

fn request(nonce: u8) -> Request {
    Request {
        nonce: Nonce([nonce; 16]),
        effect_id: EffectId::new(format!("effect-{nonce}")),
        leg: leg(),
        call: 1,
        tool: ToolFacts {
            id: ToolId::parse("book").unwrap(),
            version: "1.0.0".to_owned(),
            handler_hash: None,
            writes: true,
            is_background: false,
            is_external: false,
            idempotent: false,
            repeatable: false,
            has_lookup: true,
            key_spec: Arc::default(),
        },
        arguments: Sensitive("{\"what\":\"table\"}".to_owned()),
        effect_arguments: Sensitive("{\"what\":\"table\"}".to_owned()),
        near_arguments: Sensitive("{\"what\":\"table\"}".to_owned()),
        origin: RequestOrigin::Model {
            delivery: nonce.to_string(),
            generation: 1,
        },
        onset: None,
        may_run: true,
        needs_consent: false,
        because: None,
        clock: None,
        standing_values: None,
        ignores_external_content: false,
        can_ask: true,
        input: None,
        mode: Mode::Voice,
        preview: Sensitive(String::new()),
        lease_ms: 15_000,
        question_ms: 60_000,
        intent: Sensitive("{}".to_owned()),
    }
}

fn asks(call: u64, nonce: u8) -> Output {
    Output::Request {
        call: CallNumber(call),
        request: Box::new(request(nonce)),
    }
}

fn run(effect: &str) -> Reply {
    Reply::Run(Box::new(Run {
        effect_id: Some(EffectId::new(effect)),
        attempt: AttemptNumber(1),
        lease_end_unix_ms: u64::MAX,
        question: None,
        standing: None,
    }))
}

fn effect(id: &str, arguments: &str) -> Box<Effect> {
    Box::new(Effect {
        effect_id: EffectId::new(id),
        key: EffectKey([0; 32]),
        near: EffectKey([0; 32]),
        key_spec: Arc::default(),
        tool: ToolId::parse("book").unwrap(),
        tool_version: "1.0.0".to_owned(),
        arguments: Sensitive(arguments.to_owned()),
        state: EffectState::Unknown,
        attempts: vec![Attempt {
            number: AttemptNumber(1),
            nonce: Nonce([0; 16]),
            owner: OwnerId("p-0".to_owned()),
            lease_end_unix_ms: 1,
            question: None,
            tool_version: None,
            standing: None,
            outcome: None,
        }],
        receipt: None,
        parent: None,
        leg: SessionId::new("s-0"),
        generation: 1,
        onset: None,
        first_entry: EntryNumber(1),
        last_entry: EntryNumber(2),
        is_heard: false,
        lookup: LookupState::NONE,
        task: None,
        is_audited: true,
        intent: Sensitive("{}".to_owned()),
        begun_at_unix_ms: 1,
        changed_at_unix_ms: 2,
    })
}

fn look_up(arguments: &str) -> Reply {
    Reply::LookUp {
        effect: effect("earlier", arguments),
        now_unix_ms: 77,
    }
}

fn record(effect: &str) -> Box<Record> {
    Box::new(Record {
        next_attempt_ms: None,
        effect_id: EffectId::new(effect),
        attempt: AttemptNumber(1),
        outcome: AttemptOutcome::Succeeded,
        receipt: None,
        asks: None,
        values: None,
    })
}

#[test]
fn answers_of_one_call_keep_their_order_and_hold_up_no_other() {
    let mut bench = bench();
    bench.perform(asks(1, 1));
    bench.perform(asks(1, 2));
    bench.perform(asks(2, 3));
    bench.answer(1, Reply::Conflict);
    assert_eq!(bench.decided(), None);
    bench.answer(2, Reply::Gone);
    assert_eq!(bench.decided(), Some((2, "Gone".to_owned())));
    bench.answer(0, Reply::Missing);
    assert_eq!(bench.decided(), Some((1, "Missing".to_owned())));
    assert!(!bench.driver.is_idle());
    assert_eq!(bench.decided(), Some((1, "Conflict".to_owned())));
    assert_eq!(bench.decided(), None);
    assert!(bench.driver.is_idle());
}

#[test]
fn a_store_that_fails_is_told_once() {
    let mut bench = bench();
    bench.perform(asks(1, 1));
    let (call, record) = (CallNumber(2), record("effect-2"));
    bench.perform(Output::Record { call, record });
    bench.fail(0);
    bench.fail(1);
    assert_eq!(bench.decided(), Some((1, "failed".to_owned())));
    assert_eq!(bench.decided(), Some((2, "failed".to_owned())));
    assert_eq!(bench.decided(), None);
    // The record is the ledger's to keep: nothing is asked again.
    assert_eq!(bench.last().0, 2);
}

#[test]
fn what_was_given_up_is_not_told_and_begins_nothing() {
    let mut bench = bench();
    bench.perform(asks(1, 1));
    let abandon = Output::Abandon {
        nonce: Nonce([1; 16]),
        effect_id: EffectId::new("effect-1"),
        question: None,
    };
    bench.perform(abandon);
    assert!(matches!(bench.last().1[..], [Command::Abandon { .. }]));
    bench.answer(0, run("effect-1"));
    bench.answer(1, Reply::Done);
    assert!(bench.poll().is_none());
    assert!(bench.driver.is_idle());
}

#[test]
fn an_unknown_effect_is_looked_up_before_the_same_request_is_judged_again() {
    let mut bench = bench();
    bench.perform(asks(1, 1));
    bench.answer(0, look_up("{\"what\":\"table\"}"));
    assert!(bench.poll().is_none());
    let lookup = bench.hands.0.lock().unwrap().asked_about.clone();
    assert_eq!(lookup, ["earlier {\"what\":\"table\"} 5s"]);
    assert_eq!(bench.last().0, 1, "nothing is asked while the handler is");
    let found = Finding::Happened(Box::new(Success::new(serde_json::json!({"table": 7}))));
    bench.hands.finds("earlier", found);
    assert!(bench.poll().is_none());
    let (count, commands) = bench.last();
    assert_eq!(count, 2);
    let [Command::Found(stored), Command::Request(again)] = &commands[..] else {
        panic!("{commands:?}");
    };
    let Found {
        effect_id,
        began_unix_ms,
        finding,
        receipt,
        values,
    } = &**stored;
    assert_eq!(*values, None, "it keeps nothing");
    assert_eq!(
        (effect_id.as_str(), *began_unix_ms, *finding),
        ("earlier", 77, FoundState::Happened)
    );
    let receipt: ToolResponse = serde_json::from_str(receipt.as_ref().unwrap().expose()).unwrap();
    assert!(receipt.is_ok());
    assert_eq!(**again, request(1));
    // Only what the request came to is told.
    let replies = vec![
        Reply::Recorded(effect("earlier", "{}")),
        Reply::Replay(effect("earlier", "{}")),
    ];
    bench.asked.lock().unwrap().answers[1] = Some(Ok(replies));
    assert_eq!(bench.decided(), Some((1, "Replay".to_owned())));
}

#[test]
fn a_request_that_is_given_up_while_its_effect_is_looked_up_is_not_given_again() {
    let mut bench = bench();
    bench.perform(asks(1, 1));
    bench.answer(0, look_up("{\"what\":\"table\"}"));
    assert!(bench.poll().is_none());
    bench.perform(Output::Abandon {
        nonce: Nonce([1; 16]),
        effect_id: EffectId::new("effect-1"),
        question: None,
    });
    bench.hands.finds("earlier", Finding::NotHappened);
    bench.answer(1, Reply::Done);
    assert!(bench.poll().is_none());
    assert_eq!(bench.last().0, 2);
    assert!(bench.driver.is_idle());
}

#[test]
fn what_no_handler_can_say_is_stored_as_unknown_and_not_for_ever() {
    let mut bench = bench();
    bench.perform(asks(1, 1));
    for place in 0..3 {
        // Arguments that nobody reads.
        let replies = match place {
            0 => vec![look_up("[]")],
            _ => vec![Reply::Recorded(effect("earlier", "[]")), look_up("[]")],
        };
        bench.asked.lock().unwrap().answers[place] = Some(Ok(replies));
        assert!(bench.poll().is_none());
        let commands = bench.last().1;
        let [Command::Found(found), Command::Request(_)] = &commands[..] else {
            panic!("{commands:?}");
        };
        assert_eq!(found.finding, FoundState::Unknown);
    }
    bench.answer(3, look_up("[]"));
    assert_eq!(bench.decided(), Some((1, "Unknown".to_owned())));
    assert!(bench.hands.0.lock().unwrap().asked_about.is_empty());
}

#[test]
fn an_answer_needs_the_token_that_was_shown() {
    let mut bench = bench();
    let answers = || Output::Answer {
        call: CallNumber(1),
        question: QuestionNumber(1),
        answer: Box::new(AnswerRequest {
            nonce: Nonce([1; 16]),
            effect_id: EffectId::new("effect-1"),
            verdict: AnswerVerdict::Denied { reason: None },
            again: None,
        }),
    };
    let mut inputs = bench.perform(answers());
    let Some(Input::Decided { reply, .. }) = inputs.pop_front() else {
        panic!("{inputs:?}");
    };
    assert_eq!(*reply.unwrap(), Reply::Expired);
    assert_eq!(bench.asked.lock().unwrap().batches.len(), 0);
    assert_eq!(bench.driver.token(QuestionNumber(1)), None);
}

#[test]
fn what_nobody_waits_for_makes_no_input_and_its_trouble_is_for_the_log() {
    let mut bench = bench();
    bench.perform(Output::Append(vec![NewEntry {
        leg_number: None,
        key: None,
        event: EntryEvent::Onset,
    }]));
    bench.perform(Output::Taint);
    let body = Sensitive(vec![1]);
    bench.driver.save(body, 1_000);
    assert!(bench.driver.is_saving() && bench.driver.is_idle());
    bench.answer(0, Reply::EntryTooLong);
    bench.fail(1);
    bench.answer(2, Reply::Gone);
    assert!(bench.poll().is_none());
    assert!(!bench.driver.is_saving());
    assert_eq!(bench.driver.take_problems().len(), 3);
    assert!(bench.driver.take_problems().is_empty());
}

#[test]
fn a_request_that_was_closed_while_its_answer_was_under_way_is_told_as_closed_behind_it() {
    let mut bench = bench();
    let attach = Command::Attach(Box::new(NewLeg {
        leg: leg().leg,
        mode: Mode::Voice,
        client_id: ClientId::new("client"),
        resume_token: [0; 32],
        expires_in_ms: 60_000,
    }));
    bench.commit(vec![Command::Open(Beginner::default()), attach]);
    let request = Request {
        needs_consent: true,
        because: None,
        clock: None,
        ..request(1)
    };
    bench.perform(Output::Request {
        call: CallNumber(1),
        request: Box::new(request),
    });
    let (_, asked) = bench.last();
    let Some(Reply::Ask(asked)) = bench.commit(asked).pop() else {
        panic!("it asks");
    };
    assert_eq!(bench.question_states(), [QuestionState::Open]);
    let (question, last_entry) = (asked.question.number, asked.question.last_entry);
    bench.commit(vec![Command::Withdraw {
        leg: leg(),
        questions: vec![WithdrawnQuestion {
            question,
            last_entry,
        }],
    }]);
    assert_eq!(bench.question_states(), [QuestionState::Closed]);
    bench.answer(0, Reply::Ask(asked));
    assert_eq!(bench.decided(), Some((1, "Ask".to_owned())));
    assert_eq!(bench.question_states(), [QuestionState::Closed]);
    assert!(bench.poll().is_none());
}
