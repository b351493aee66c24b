//! Chats that rest between their turns, by a clock that is moved on: what falls due then is neither forgotten nor taken for
//! something else.

use crate::support::text_server::{
    Chat, Place, Reply, TextServer, Written, calls, model, text, yes,
};
use crate::support::tools::{ready, tool};
use crate::support::{memory_store, shared};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use windlass_contract::error::FailureKind;
use windlass_contract::handler::{Block, Blocks, BlocksUnavailable, Execution, Failure, Success};
use windlass_contract::id::{CallNumber, ClientId, ConversationId, EffectId, TenantId, UserId};
use windlass_contract::kind::{Mode, SideEffects};
use windlass_contract::registry::Tool;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::{DirectLedger, Ledger};
use windlass_runtime::text::{Confirmed, Consent, TextSession, TurnEnd, TurnInput, TurnSink};
use windlass_session::client::{ClientUpdate, ConfirmationQuestion, ErrorCode};
use windlass_session::event::SessionEvent;
use windlass_session::limits::Limits;
use windlass_store::command::{OpenQuestion, Reply as Answered};
use windlass_store::{
    Batch, Beginner, Conversation, ConversationRef, Due, Effect, Entry, EntryNumber, Hash, Leg,
    MemoryStore, OwnerId, PartyKind, Question, QuestionNumber, Searched, Store, StoreUnavailable,
    Token, Wanted, WantedTasks,
};

/// Moves the clock on. While sockets are read it stands where it is.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

/// Takes a quarter of a minute. Nobody has to wait for it.
fn order() -> Tool {
    Tool {
        side_effects: SideEffects::Writes,
        idempotent: false,
        requires_confirmation: true,
        timeout_ms: 60_000,
        ..tool("order", |invocation| {
            let ordered = json!({ "ordered": invocation.arguments.get("text") });
            Execution::Pending(Box::pin(async move {
                tokio::time::pause();
                tokio::time::sleep(Duration::from_secs(15)).await;
                tokio::time::resume();
                Ok(Success::new(ordered))
            }))
        })
    }
}

fn wants(tool: &str, text: &str) -> Reply {
    calls(&[("call_one_00001", tool, json!({ "text": text }))])
}

fn token(asked: &Written) -> String {
    let question = asked.of_type("tool-approval-request").next().unwrap();
    question["approvalId"].as_str().unwrap().to_owned()
}

/// A chat in which the user was asked two things, 100 seconds apart, and the token of the second question.
async fn asked_twice() -> (Chat, String) {
    let server = TextServer::start(vec![
        wants("order", "tea"),
        text("You are asked about tea."),
        wants("order", "rum"),
        text("You are asked about rum."),
        text("It is ordered."),
    ])
    .await;
    let mut chat = Chat::new(vec![model(&server.url, "fake")], vec![order()]);
    chat.say("Order tea.").await;
    pass(100).await;
    let asked = chat.say("Order rum.").await;
    (chat, token(&asked))
}

/// The calls whose end a message shows, with the ends.
fn ends(written: &Written) -> Vec<(&str, &str)> {
    let chunks = written.chunks.iter();
    let ends = chunks.filter(|chunk| chunk["type"].as_str().unwrap().starts_with("tool-output"));
    ends.map(|chunk| {
        let text = |key: &str| chunk[key].as_str().unwrap();
        (text("toolCallId"), text("type"))
    })
    .collect()
}

/// Until the first question has run out, and until just before that.
const RESTS: [u64; 2] = [210, 190];

#[tokio::test]
async fn the_end_of_another_question_is_not_the_answer_to_the_one_that_was_approved() {
    for rest in RESTS {
        let (mut chat, token) = asked_twice().await;
        pass(rest).await;
        let approved = chat.approve(&token).await;
        assert_eq!(approved.words(), "It is ordered.", "{rest}");
        let expected = [
            ("call-1", "tool-output-error"),
            ("call-2", "tool-output-available"),
        ];
        assert_eq!(ends(&approved), expected, "{rest}");
    }
}

/// Who waits for what comes of an answer, and reads nothing else.
#[derive(Default)]
struct Waiting(Vec<(Option<CallNumber>, bool)>);

impl TurnSink for Waiting {
    fn step(&mut self) {}
    fn client(&mut self, _: &ClientUpdate) {}
    fn confirmed(&mut self, confirmed: &Confirmed<'_>) {
        self.0.push((confirmed.call, confirmed.response.is_ok()));
    }
    fn event(&mut self, _: &SessionEvent) {}
    fn asks(&mut self, _: &ConfirmationQuestion, _: &Sensitive<String>) {}
    fn failed(&mut self, _: ErrorCode, _: &str) {}
    fn finished(&mut self, _: &TurnEnd) {}
    fn flush(&mut self) {}
}

#[tokio::test]
async fn who_waits_for_an_answer_hears_of_no_other_question() {
    for rest in RESTS {
        let (mut chat, token) = asked_twice().await;
        pass(rest).await;
        let mut waiting = Waiting::default();
        let mut never = std::pin::pin!(std::future::pending());
        let input = TurnInput::Confirm(vec![yes(&token)]);
        let turn = chat
            .session
            .turn(input, "Be brief.", &mut waiting, never.as_mut());
        turn.await;
        assert_eq!(waiting.0, [(Some(CallNumber(2)), true)], "{rest}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_told_so_once_and_in_words() {
    let server = TextServer::start(vec![wants("order", "tea"), text("You are asked.")]).await;
    let mut chat = Chat::new(vec![model(&server.url, "fake")], vec![order()]);
    let asked = chat.say("Order tea.").await;
    pass(310).await;
    let token = token(&asked);
    let approved = chat.approve(&token).await;
    assert_eq!(ends(&approved), [("call-1", "tool-output-error")]);
    assert_eq!(
        approved.words(),
        "This was answered before. Nothing more was done."
    );
}

/// Lets a chat rest until nothing of it is under way, by a clock that does not wait.
async fn rest(session: &mut TextSession) {
    tokio::time::pause();
    while session.is_working() {
        session.work().await;
    }
    tokio::time::resume();
}

/// A disk that has no space left, for a time. What is on it can be read.
struct Disk {
    store: MemoryStore,
    is_full: AtomicBool,
}

impl Store for Disk {
    fn commit(&self, batches: &[Batch]) -> Result<Vec<Vec<Answered>>, StoreUnavailable> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(StoreUnavailable::Overloaded),
            false => self.store.commit(batches),
        }
    }

    fn crowded(
        &self,
        tenant: &TenantId,
        beginner: &Beginner,
    ) -> Result<Option<PartyKind>, StoreUnavailable> {
        self.store.crowded(tenant, beginner)
    }

    fn conversation(
        &self,
        tenant: &TenantId,
        conversation_id: &ConversationId,
    ) -> Result<Option<Conversation>, StoreUnavailable> {
        self.store.conversation(tenant, conversation_id)
    }

    fn entries(
        &self,
        conversation: &ConversationRef,
        after: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.store.entries(conversation, after, entries_max)
    }

    fn entries_before(
        &self,
        conversation: &ConversationRef,
        before: EntryNumber,
        entries_max: usize,
    ) -> Result<Vec<Entry>, StoreUnavailable> {
        self.store.entries_before(conversation, before, entries_max)
    }

    fn conversations_of(&self, wanted: &Wanted<'_>) -> Result<Vec<Conversation>, StoreUnavailable> {
        self.store.conversations_of(wanted)
    }

    fn search(
        &self,
        conversation: &ConversationRef,
        entries_max: usize,
        is_meant: &dyn Fn(&str) -> bool,
    ) -> Result<Searched, StoreUnavailable> {
        self.store.search(conversation, entries_max, is_meant)
    }

    fn entry_of_key(
        &self,
        conversation: &ConversationRef,
        key: &str,
    ) -> Result<Option<Entry>, StoreUnavailable> {
        self.store.entry_of_key(conversation, key)
    }

    fn question(
        &self,
        conversation: &ConversationRef,
        token: &Token,
    ) -> Result<Option<Question>, StoreUnavailable> {
        self.store.question(conversation, token)
    }

    fn open_questions(
        &self,
        conversation: &ConversationRef,
    ) -> Result<Vec<OpenQuestion>, StoreUnavailable> {
        self.store.open_questions(conversation)
    }

    fn question_of_number(
        &self,
        conversation: &ConversationRef,
        number: QuestionNumber,
    ) -> Result<Option<Question>, StoreUnavailable> {
        self.store.question_of_number(conversation, number)
    }

    fn effect(
        &self,
        tenant: &TenantId,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.effect(tenant, effect_id)
    }

    fn effect_of_any(
        &self,
        effect_id: &EffectId,
    ) -> Result<Option<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.effect_of_any(effect_id)
    }

    fn unheard(&self, conversation: &ConversationRef) -> Result<Vec<Effect>, StoreUnavailable> {
        self.store.unheard(conversation)
    }

    fn tasks_of(
        &self,
        wanted: &WantedTasks<'_>,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.tasks_of(wanted)
    }

    fn unsent_tasks(
        &self,
        behind: Option<(u64, &EffectId)>,
        tasks_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.unsent_tasks(behind, tasks_max)
    }

    fn leg(&self, token: &Hash) -> Result<Option<(ConversationRef, Leg)>, StoreUnavailable> {
        self.store.leg(token)
    }

    fn due(&self) -> Result<Due, StoreUnavailable> {
        self.store.due()
    }

    fn unaudited(
        &self,
        effects_max: usize,
    ) -> Result<Vec<(ConversationRef, Effect)>, StoreUnavailable> {
        self.store.unaudited(effects_max)
    }

    fn prune(&self) -> Result<usize, StoreUnavailable> {
        self.store.prune()
    }

    fn end_client(&self, client_id: &ClientId) -> Result<(), StoreUnavailable> {
        self.store.end_client(client_id)
    }

    fn ended_clients(&self) -> Result<Vec<ClientId>, StoreUnavailable> {
        self.store.ended_clients()
    }

    fn now_unix_ms(&self) -> u64 {
        self.store.now_unix_ms()
    }

    fn owner(&self) -> &OwnerId {
        self.store.owner()
    }
}

impl Blocks for Disk {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        self.store.block_all(blocks)
    }

    fn blocked(&self, user: &UserId, now_unix_ms: u64) -> Result<Option<Block>, BlocksUnavailable> {
        self.store.blocked(user, now_unix_ms)
    }
}

#[tokio::test]
async fn an_answer_that_could_not_be_stored_counts_when_it_is_given_again() {
    for approved in [true, false] {
        let disk = Arc::new(Disk {
            store: memory_store(),
            is_full: AtomicBool::new(false),
        });
        let server = TextServer::start(vec![
            wants("order", "tea"),
            text("You are asked."),
            text("So it is."),
        ])
        .await;
        let models = vec![model(&server.url, "fake")];
        let ledger: Arc<dyn Ledger> = Arc::new(DirectLedger::new(disk.clone()));
        let mut chat = Chat::over(ledger, models, vec![order()]);
        let asked = chat.say("Order tea.").await;
        let consent = Consent {
            approved,
            ..yes(&token(&asked))
        };
        disk.is_full.store(true, Ordering::SeqCst);
        let unstored = chat.answer(consent.clone()).await;
        let again = unstored.of_type("data-answer-again").next();
        let again = again.unwrap_or_else(|| panic!("{:?}", unstored.chunks));
        assert_eq!(again["data"]["code"], "TRANSIENT");
        assert_eq!(ends(&unstored), []);
        assert_eq!(server.seen().len(), 2, "the model is told nothing");

        disk.is_full.store(false, Ordering::SeqCst);
        let taken = chat.answer(consent).await;
        let end = match approved {
            true => "tool-output-available",
            false => "tool-output-denied",
        };
        assert_eq!(ends(&taken), [("call-1", end)], "{:?}", taken.chunks);
        assert_eq!(taken.words(), "So it is.");
    }
}

#[tokio::test]
async fn a_change_that_is_to_be_tried_again_is_while_the_chat_rests() {
    let tries = Arc::new(AtomicUsize::new(0));
    let has_begun = Arc::new(Semaphore::new(0));
    let (tried, begun) = (tries.clone(), has_begun.clone());
    let change = Tool {
        side_effects: SideEffects::Writes,
        ..tool("change", move |_| {
            begun.add_permits(1);
            match tried.fetch_add(1, Ordering::SeqCst) {
                0 => Execution::Ready(Err(Failure::new(FailureKind::RateLimit, "busy"))),
                _ => ready(json!({})),
            }
        })
    };
    let server = TextServer::start(vec![wants("change", "a"), text("It is done.")]).await;
    let mut chat = Chat::new(vec![model(&server.url, "fake")], vec![change]);
    let mut leaves = std::pin::pin!(async move {
        has_begun.acquire().await.unwrap().forget();
    });
    chat.say_until("Change it.", leaves.as_mut()).await;
    assert_eq!(tries.load(Ordering::SeqCst), 1);
    rest(&mut chat.session).await;
    assert_eq!(tries.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_answer_that_nobody_waits_for_is_not_missed_in_a_later_turn() {
    let (has_begun, goes_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (begun, opens) = (has_begun.clone(), goes_on.clone());
    let change = Tool {
        side_effects: SideEffects::Writes,
        ..tool("change", move |_| {
            begun.add_permits(1);
            let opens = opens.clone();
            Execution::Pending(Box::pin(async move {
                opens.acquire().await.unwrap().forget();
                Ok(Success::new(json!({})))
            }))
        })
    };
    let server = TextServer::start(vec![
        wants("order", "tea"),
        text("You are asked."),
        wants("change", "a"),
        text("It is ordered."),
    ])
    .await;
    let mut place = Place::usual(shared(Vec::new()));
    place.limits = Limits {
        provider_silence_seconds: 100,
        ..Limits::of(Mode::Text)
    };
    let models = vec![model(&server.url, "fake")];
    let mut chat = Chat::at(place, models, vec![order(), change]);
    let asked = chat.say("Order tea.").await;
    let mut leaves = std::pin::pin!(async move {
        has_begun.acquire().await.unwrap().forget();
    });
    chat.say_until("Change it.", leaves.as_mut()).await;
    goes_on.add_permits(1);
    rest(&mut chat.session).await;
    pass(150).await;
    let approved = chat.approve(&token(&asked)).await;
    assert_eq!(approved.errors(), Vec::<&str>::new());
    assert_eq!(approved.words(), "It is ordered.");
}
