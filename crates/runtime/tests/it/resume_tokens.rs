//! Resume tokens across the ends of processes: what the client was told holds, also where the store was told later or the
//! client never heard it.

use crate::support::peers::{Peer, Setting, Stage};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_runtime::effects::{
    Answer, DirectStore, EffectStore, Left, SnapshotStore, TakeOver, Work,
};
use windlass_runtime::store_thread::{Closing, Reading};
use windlass_session::under_way::UnderWay;
use windlass_store::{
    Hash, Outcome, Recorded, Reserve, Reserved, Saved, Snapshot, SqliteStore, StoreUnavailable,
};
use windlass_tool::id::SessionId;

/// A store that is too slow with its saves: none comes to be before the process is killed, once that is so.
struct Slow {
    store: DirectStore,
    saves_nothing: AtomicBool,
}

impl EffectStore for Slow {
    fn under_way(&self) -> &UnderWay {
        self.store.under_way()
    }

    fn ask(&self, work: Work) -> Answer<Option<windlass_session::io::Input>> {
        self.store.ask(work)
    }

    fn ask_behind_all(&self, work: Work) -> Answer<Option<windlass_session::io::Input>> {
        self.store.ask_behind_all(work)
    }

    fn reserve(&self, request: Reserve) -> Answer<Reserved> {
        self.store.reserve(request)
    }

    fn record(&self, outcome: Outcome) -> Answer<Recorded> {
        self.store.record(outcome)
    }

    fn note_reading(&self, reading: Reading) -> Answer<()> {
        self.store.note_reading(reading)
    }

    fn close_question(&self, closing: Closing) -> Answer<()> {
        self.store.close_question(closing)
    }
}

impl SnapshotStore for Slow {
    fn save_snapshot(&self, snapshot: Snapshot) -> Answer<Saved> {
        match self.saves_nothing.load(Ordering::SeqCst) {
            true => Answer::Ready(Err(StoreUnavailable::Overloaded)),
            false => self.store.save_snapshot(snapshot),
        }
    }

    fn forget_snapshot(&self, session_id: SessionId) -> Answer<bool> {
        self.store.forget_snapshot(session_id)
    }

    fn snapshot(&self, token_hash: Hash, now_unix_ms: u64) -> Answer<Option<Snapshot>> {
        self.store.snapshot(token_hash, now_unix_ms)
    }

    fn take_over(&self, request: TakeOver) -> Answer<Option<Left>> {
        self.store.take_over(request)
    }
}

/// One of the processes that follow each other over one folder.
struct Process {
    stage: Stage,
    store: Arc<Slow>,
}

impl Process {
    async fn start(folder: &Path, number: u32) -> Self {
        let store = Arc::new(Slow {
            store: DirectStore::new(Arc::new(SqliteStore::open(folder).unwrap())),
            saves_nothing: AtomicBool::new(false),
        });
        let setting = Setting {
            store: Some(store.clone()),
            number,
            ..Setting::default()
        };
        let stage = match number {
            1 => Stage::running(setting).await.0,
            _ => Stage::set(setting).await,
        };
        Self { stage, store }
    }

    /// What a client that shows a token is answered: its session with a new token, or why not.
    async fn show(&self, token: &str) -> (Peer, Value) {
        let mut client = self.stage.another_client().await;
        client
            .send(json!({ "type": "start", "resume": token }))
            .await;
        loop {
            let answer = client.next().await;
            if answer["type"] == "started" || answer["type"] == "error" {
                return (client, answer);
            }
        }
    }

    async fn resumed(&self, token: &str) -> (Peer, String) {
        let (client, answer) = self.show(token).await;
        assert_eq!(answer["type"], "started", "{token}: {answer}");
        (client, answer["resumeToken"].as_str().unwrap().to_owned())
    }

    /// The same for the first client of a process, whose session the process's end takes along.
    async fn first_resumed(&mut self, token: &str) -> String {
        let client = &mut self.stage.client;
        client
            .send(json!({ "type": "start", "resume": token }))
            .await;
        let answer = client.until("started").await;
        answer["resumeToken"].as_str().unwrap().to_owned()
    }

    async fn refused(&self, token: &str) {
        let (_, answer) = self.show(token).await;
        assert_eq!(answer["code"], "resume_refused", "{token}: {answer}");
    }

    fn kill(self) {
        self.stage.served.abort();
    }
}

#[tokio::test]
async fn a_process_that_ends_between_its_answer_and_its_save_has_its_tokens_honoured() {
    for hears_the_answer in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let first = Process::start(folder.path(), 1).await;
        first.store.saves_nothing.store(true, Ordering::SeqCst);
        let (_client, given) = first.resumed("resume-me").await;
        first.kill();

        let second = Process::start(folder.path(), 2).await;
        let (shown, other) = match hears_the_answer {
            true => (given.as_str(), "resume-me"),
            false => ("resume-me", given.as_str()),
        };
        let (_client, newest) = second.resumed(shown).await;
        assert_ne!(newest, given);
        second.refused(other).await;
        second.refused(shown).await;
    }
}

#[tokio::test]
async fn a_token_stays_good_for_the_next_process_until_the_one_after_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let first = Process::start(folder.path(), 1).await;
    let (_client, unheard) = first.resumed("resume-me").await;
    first.refused("resume-me").await;
    first.kill();

    // This answer is lost with its process, too.
    let mut second = Process::start(folder.path(), 2).await;
    let unheard_again = second.first_resumed("resume-me").await;
    second.refused(&unheard).await;
    second.kill();

    let mut third = Process::start(folder.path(), 3).await;
    let heard = third.first_resumed("resume-me").await;
    third.refused(&unheard_again).await;
    let (_client, _) = third.resumed(&heard).await;
    third.kill();

    let mut fourth = Process::start(folder.path(), 4).await;
    fourth.refused("resume-me").await;
    fourth.refused(&unheard_again).await;
    fourth.first_resumed(&heard).await;
}

#[tokio::test]
async fn of_all_who_show_tokens_of_one_session_at_once_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let first = Process::start(folder.path(), 1).await;
    let (_client, given) = first.resumed("resume-me").await;
    first.kill();

    let second = Process::start(folder.path(), 2).await;
    let tokens = ["resume-me", &given, "resume-me", &given];
    let shown = tokens.map(|token| second.show(token));
    let [one, two, three, four] = shown;
    let answers = tokio::join!(one, two, three, four);
    let answers = [answers.0, answers.1, answers.2, answers.3];
    let started = answers
        .iter()
        .filter(|(_, answer)| answer["type"] == "started");
    assert_eq!(started.count(), 1);
}
