//! The thread that writes the store: requests share transactions, and no outcome is lost to a disk that is full.

mod bench;

use bench::{Bench, full, occupy, reserve, start, state, succeeded};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use windlass_runtime::store_thread::{Closing, Pending, Reading, StoreHandle, StoreSettings};
use windlass_store::{
    Decline, EffectState, GrantRefusal, Proposal, Proposed, Recorded, Reserve, ReserveRefusal,
    Reserved, StoreUnavailable, Transaction,
};
use windlass_tool::id::{ConversationId, EffectId, SessionId};
use windlass_tool::sensitive::Sensitive;

#[test]
fn requests_that_come_during_a_transaction_share_the_next_one() {
    let bench = start(StoreSettings::default());
    let handle = bench.thread.handle();
    let before = bench.disk.transactions.load(Ordering::SeqCst);
    let release = occupy(&handle);
    let pending: Vec<_> = (b'a'..=b'z')
        .map(|letter| handle.reserve(reserve(&char::from(letter).to_string())))
        .collect();
    drop(release);
    for pending in pending {
        assert_eq!(pending.wait(), Ok(Reserved::Reserved));
    }
    assert_eq!(bench.disk.transactions.load(Ordering::SeqCst) - before, 2);
}

/// Settings under which nothing is written for the time alone.
fn gathers_for_ever() -> StoreSettings {
    StoreSettings {
        gathering: Duration::from_secs(60 * 60),
        ..StoreSettings::default()
    }
}

/// Leaves something to be written later, and says what is written by then.
fn leave(handle: &StoreHandle, what: &'static str, written: &Arc<Mutex<Vec<&'static str>>>) {
    let written = written.clone();
    handle.ask_later(move |_| {
        written.lock().unwrap().push(what);
        Ok(())
    });
}

#[test]
fn what_nobody_waits_for_is_gathered_and_shares_one_transaction() {
    let bench = start(gathers_for_ever());
    let handle = bench.thread.handle();
    let before = bench.disk.transactions.load(Ordering::SeqCst);
    let written = Arc::new(Mutex::new(Vec::new()));
    for what in ["a", "b", "c"] {
        leave(&handle, what, &written);
        // What somebody waits for does not wait for it, nor has it written.
        handle.ask(|_| Ok(())).wait().unwrap();
    }
    assert!(written.lock().unwrap().is_empty());
    // Whoever wants to read it has it written first.
    let seen = written.clone();
    let found = handle.ask_behind_all(move |_| Ok(seen.lock().unwrap().clone()));
    assert_eq!(found.wait().unwrap(), ["a", "b", "c"]);
    assert_eq!(bench.disk.transactions.load(Ordering::SeqCst) - before, 4);
}

#[test]
fn what_nobody_waits_for_is_written_when_its_time_has_come_and_when_it_is_much() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let (told, heard) = mpsc::channel();
    let tell = move |_: &mut dyn Transaction| {
        // Whoever listens may have heard enough.
        let _ = told.send(());
        Ok(())
    };
    let soon = StoreSettings {
        gathering: Duration::from_millis(1),
        ..StoreSettings::default()
    };
    let bench = start(soon);
    bench.thread.handle().ask_later(tell.clone());
    heard.recv().unwrap();
    let much = StoreSettings {
        batch_max: 2,
        ..gathers_for_ever()
    };
    let bench = start(much);
    leave(&bench.thread.handle(), "a", &written);
    bench.thread.handle().ask_later(tell);
    heard.recv().unwrap();
    assert_eq!(*written.lock().unwrap(), ["a"]);
}

#[test]
fn what_nobody_waits_for_is_written_when_the_store_is_closed() {
    let bench = start(gathers_for_ever());
    let written = Arc::new(Mutex::new(Vec::new()));
    leave(&bench.thread.handle(), "a", &written);
    bench.thread.close();
    leave(&bench.thread.handle(), "b", &written);
    assert_eq!(*written.lock().unwrap(), ["a"]);
}

#[test]
fn a_full_queue_refuses_at_once() {
    let bench = start(StoreSettings {
        waiting_max: 2,
        ..StoreSettings::default()
    });
    let handle = bench.thread.handle();
    let release = occupy(&handle);
    let waiting = [handle.reserve(reserve("a")), handle.reserve(reserve("b"))];
    let refused = handle.reserve(reserve("c"));
    assert_eq!(refused.wait(), Err(StoreUnavailable::Overloaded));
    let outcome = handle.record(succeeded("a"));
    drop(release);
    for pending in waiting {
        assert_eq!(pending.wait(), Ok(Reserved::Reserved));
    }
    assert_eq!(
        outcome.wait(),
        Ok(Recorded::Stored),
        "what has happened is not refused"
    );
}

#[test]
fn an_outcome_that_a_full_disk_refused_is_stored_before_anything_else() {
    let bench = start(StoreSettings {
        retry: Duration::from_secs(3_600),
        ..StoreSettings::default()
    });
    let handle = bench.thread.handle();
    assert_eq!(handle.reserve(reserve("a")).wait(), Ok(Reserved::Reserved));
    bench.disk.is_full.store(true, Ordering::SeqCst);
    assert_eq!(handle.record(succeeded("a")).wait(), Err(full()));
    assert_eq!(handle.reserve(reserve("b")).wait(), Err(full()));
    assert_eq!(state(&bench, "a"), Some(EffectState::Reserved));
    bench.disk.is_full.store(false, Ordering::SeqCst);
    assert_eq!(handle.reserve(reserve("c")).wait(), Ok(Reserved::Reserved));
    assert_eq!(state(&bench, "a"), Some(EffectState::Succeeded));
    assert_eq!(state(&bench, "b"), None);
}

#[test]
fn what_was_read_while_the_disk_was_full_is_known_before_anything_is_reserved() {
    let bench = start(StoreSettings {
        retry: Duration::from_secs(3_600),
        waiting_max: 1,
        ..StoreSettings::default()
    });
    let handle = bench.thread.handle();
    let reading = || Reading {
        conversation_id: ConversationId::new("conversation"),
        session_id: SessionId::new("reader"),
        now_unix_ms: 1_000,
    };
    bench.disk.is_full.store(true, Ordering::SeqCst);
    assert_eq!(handle.note_reading(reading()).wait(), Err(full()));
    bench.disk.is_full.store(false, Ordering::SeqCst);
    let minds = |effect, session| Reserve {
        read_by_none_but: Some(SessionId::new(session)),
        ..reserve(effect)
    };
    let read = Reserved::Refused(ReserveRefusal::Read);
    assert_eq!(handle.reserve(minds("a", "another")).wait(), Ok(read));
    let own = handle.reserve(minds("b", "reader")).wait();
    assert_eq!(own, Ok(Reserved::Reserved));
    // A queue that is full takes it all the same.
    let release = occupy(&handle);
    let waiting = handle.ask(|_| Ok(()));
    let noted = handle.note_reading(reading());
    drop(release);
    assert_eq!((waiting.wait(), noted.wait()), (Ok(()), Ok(())));
}

#[test]
fn what_was_declined_or_withdrawn_while_the_disk_was_full_is_known_before_anything_is_reserved() {
    let of_user = |granted: &Reserve| {
        Closing::Declined(Decline {
            token_hash: [7; 32],
            conversation_id: granted.conversation_id.clone(),
            user_id: granted.user_id.clone(),
        })
    };
    check_closing(of_user, GrantRefusal::Declined);
    check_closing(|_| Closing::Withdrawn([7; 32]), GrantRefusal::Unknown);
}

fn check_closing(closing: impl Fn(&Reserve) -> Closing, refusal: GrantRefusal) {
    let bench = start(StoreSettings {
        retry: Duration::from_secs(3_600),
        ..StoreSettings::default()
    });
    let handle = bench.thread.handle();
    let granted = Reserve {
        grant: Some([7; 32]),
        ..reserve("a")
    };
    let asked = Proposal {
        token_hash: [7; 32],
        effect_id: granted.effect_id.clone(),
        conversation_id: granted.conversation_id.clone(),
        user_id: granted.user_id.clone(),
        tool: granted.tool.clone(),
        tool_version: granted.tool_version.clone(),
        fingerprint: granted.fingerprint,
        arguments: Sensitive("{}".to_owned()),
        preview: Sensitive("Send it".to_owned()),
        says_unknown: false,
        expires_at_unix_ms: 300_000,
        now_unix_ms: 1_000,
    };
    let proposed = handle.ask(move |tables| tables.propose(&asked)).wait();
    assert!(matches!(proposed, Ok(Proposed::Stored(_))));
    bench.disk.is_full.store(true, Ordering::SeqCst);
    let closed = handle.close_question(closing(&granted));
    assert_eq!(closed.wait(), Err(full()));
    bench.disk.is_full.store(false, Ordering::SeqCst);
    let refused = Reserved::Refused(ReserveRefusal::Grant(refusal));
    assert_eq!(handle.reserve(granted).wait(), Ok(refused));
}

fn look(handle: &StoreHandle) -> Pending<Option<EffectState>> {
    let of_a = |tables: &mut dyn Transaction| tables.effect(&EffectId::new("a"));
    handle.ask_behind_all(move |tables| Ok(of_a(tables)?.map(|effect| effect.state)))
}

#[test]
fn a_full_disk_is_read_whatever_is_to_be_written_beside() {
    let bench = start(gathers_for_ever());
    let handle = bench.thread.handle();
    assert_eq!(handle.reserve(reserve("a")).wait(), Ok(Reserved::Reserved));
    bench.disk.takes_no_change.store(true, Ordering::SeqCst);
    handle.ask_later(|tables| tables.reserve(&reserve("later")).map(|_| ()));
    assert_eq!(look(&handle).wait(), Ok(Some(EffectState::Reserved)));
}

#[test]
fn an_outcome_that_a_full_disk_refused_stops_new_changes_and_nothing_else() {
    let bench = start(StoreSettings {
        retry: Duration::from_secs(3_600),
        ..StoreSettings::default()
    });
    let handle = bench.thread.handle();
    assert_eq!(handle.reserve(reserve("a")).wait(), Ok(Reserved::Reserved));
    bench.disk.takes_no_change.store(true, Ordering::SeqCst);
    assert_eq!(handle.record(succeeded("a")).wait(), Err(full()));
    assert_eq!(look(&handle).wait(), Ok(Some(EffectState::Reserved)));
    // This reservation would change nothing, as the effect is reserved already, and is refused all the same.
    assert_eq!(handle.reserve(reserve("a")).wait(), Err(full()));
    bench.disk.takes_no_change.store(false, Ordering::SeqCst);
    assert_eq!(look(&handle).wait(), Ok(Some(EffectState::Succeeded)));
    assert_eq!(handle.reserve(reserve("b")).wait(), Ok(Reserved::Reserved));
}

#[test]
fn an_outcome_that_is_tried_again_and_again_takes_one_place() {
    let bench = start(StoreSettings {
        retry: Duration::from_secs(3_600),
        unrecorded_max: 2,
        ..StoreSettings::default()
    });
    let handle = bench.thread.handle();
    for effect in ["a", "b"] {
        assert_eq!(
            handle.reserve(reserve(effect)).wait(),
            Ok(Reserved::Reserved)
        );
    }
    bench.disk.is_full.store(true, Ordering::SeqCst);
    for effect in ["a", "b", "b", "b"] {
        assert_eq!(handle.record(succeeded(effect)).wait(), Err(full()));
    }
    bench.disk.is_full.store(false, Ordering::SeqCst);
    assert_eq!(handle.reserve(reserve("c")).wait(), Ok(Reserved::Reserved));
    assert_eq!(
        state(&bench, "a"),
        Some(EffectState::Succeeded),
        "it is not pushed out"
    );
    assert_eq!(state(&bench, "b"), Some(EffectState::Succeeded));
}

#[test]
fn an_outcome_is_tried_again_without_being_asked() {
    let bench = start(StoreSettings {
        retry: Duration::from_millis(1),
        ..StoreSettings::default()
    });
    let handle = bench.thread.handle();
    assert_eq!(handle.reserve(reserve("a")).wait(), Ok(Reserved::Reserved));
    bench.disk.is_full.store(true, Ordering::SeqCst);
    assert!(handle.record(succeeded("a")).wait().is_err());
    bench.disk.is_full.store(false, Ordering::SeqCst);
    while state(&bench, "a") != Some(EffectState::Succeeded) {
        std::thread::yield_now();
    }
}

#[test]
fn a_request_that_breaks_spoils_no_other() {
    let bench = start(StoreSettings::default());
    let handle = bench.thread.handle();
    let release = occupy(&handle);
    let good = handle.reserve(reserve("a"));
    let broken = handle.ask(|_| -> Result<(), StoreUnavailable> { panic!("a test") });
    let recorded = handle.record(succeeded("a"));
    drop(release);
    assert!(broken.wait().is_err());
    // The memory store takes nothing back, so that the second attempt finds the first one's work.
    assert!(good.wait().is_ok());
    assert_eq!(recorded.wait(), Ok(Recorded::Stored));
    assert_eq!(handle.reserve(reserve("b")).wait(), Ok(Reserved::Reserved));
}

#[test]
fn what_cannot_be_written_down_is_not_begun_and_outcomes_are_stored_all_the_same() {
    let bench = start(StoreSettings::default());
    let handle = bench.thread.handle();
    assert_eq!(handle.reserve(reserve("a")).wait(), Ok(Reserved::Reserved));
    bench.refuses_effects.store(true, Ordering::SeqCst);
    assert_eq!(handle.reserve(reserve("b")).wait(), Err(full()));
    assert_eq!(handle.record(succeeded("a")).wait(), Ok(Recorded::Stored));
    bench.refuses_effects.store(false, Ordering::SeqCst);
    assert_eq!(handle.reserve(reserve("b")).wait(), Ok(Reserved::Reserved));
}

#[test]
fn closing_answers_what_waits_and_refuses_what_comes_later() {
    let bench = start(StoreSettings::default());
    let handle = bench.thread.handle();
    let release = occupy(&handle);
    let waiting = handle.reserve(reserve("a"));
    drop(release);
    bench.thread.close();
    assert_eq!(waiting.wait(), Ok(Reserved::Reserved));
    assert!(handle.reserve(reserve("b")).wait().is_err());
}

#[test]
fn an_effect_of_which_nothing_is_heard_is_told_of_once() {
    let bench = start(StoreSettings {
        upkeep: Duration::from_millis(1),
        abandoned_after: Duration::from_secs(10),
        ..StoreSettings::default()
    });
    let reserved = bench.thread.handle().reserve(reserve("a"));
    assert_eq!(reserved.wait(), Ok(Reserved::Reserved));
    bench.now_unix_ms.store(11_001, Ordering::SeqCst);
    while state(&bench, "a") != Some(EffectState::Unknown) {
        std::thread::yield_now();
    }
    bench.thread.close();
    assert_eq!(*bench.abandoned.lock().unwrap(), ["a"]);
}

#[tokio::test]
async fn an_answer_can_be_awaited() {
    let bench = start_blocking().await;
    let reserved = bench.thread.handle().reserve(reserve("a")).await;
    assert_eq!(reserved, Ok(Reserved::Reserved));
}

async fn start_blocking() -> Bench {
    tokio::task::spawn_blocking(|| start(StoreSettings::default()))
        .await
        .unwrap()
}
