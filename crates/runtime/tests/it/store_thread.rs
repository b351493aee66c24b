//! The thread that writes the store: batches share transactions, nothing of a conversation overtakes anything, and no outcome is
//! lost to a disk that is full.

mod bench;

use crate::support::ledger::{attach, batch, conversation, leg, record, request};
use crate::support::store_settings;
use bench::{Bench, full, start, start_broken, start_with_old};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use windlass_contract::id::SessionId;
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::{Ledger, PendingReplies};
use windlass_runtime::ids;
use windlass_runtime::store_thread::ThreadSettings;
use windlass_store::command::{Command, Refusal, Reply};
use windlass_store::{
    AttemptOutcome, Batch, Beginner, DATABASE_FILE, EffectState, EntryEvent, EntryNumber,
    LegNumber, NewEntry, SqliteStore, Store, StoreUnavailable,
};

/// Settings under which nothing is tried again, or written, for the time alone.
fn patient() -> ThreadSettings {
    ThreadSettings {
        gathering: Duration::from_secs(60 * 60),
        retry: Duration::from_secs(60 * 60),
        ..ThreadSettings::default()
    }
}

fn append(number: u64) -> Command {
    Command::Append {
        leg: leg(),
        entries: vec![NewEntry {
            leg_number: Some(LegNumber(number)),
            key: None,
            event: EntryEvent::Said(Sensitive(number.to_string())),
        }],
    }
}

/// What was said in a conversation, as far as it is committed.
fn said(bench: &Bench) -> Vec<String> {
    let store = bench.thread.handle();
    let entries = store
        .store()
        .entries(&conversation("c"), EntryNumber(0), 1_000);
    let said = entries
        .unwrap()
        .into_iter()
        .filter_map(|entry| match entry.event {
            EntryEvent::Said(text) => Some(text.into_inner()),
            _ => None,
        });
    said.collect()
}

/// Waits for an answer on a thread of its own, as nobody's runtime is here.
fn wait(pending: PendingReplies) -> Result<Vec<Reply>, StoreUnavailable> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(pending)
}

#[test]
fn what_has_run_out_is_deleted_step_by_step_without_waiting_for_the_next_upkeep() {
    let settings = ThreadSettings {
        upkeep: Duration::from_secs(60 * 60),
        ..ThreadSettings::default()
    };
    let bench = start_with_old(settings, 3);
    while bench.disk.prunings.load(Ordering::SeqCst) < 4 {
        std::thread::yield_now();
    }
    assert_eq!(bench.disk.old_steps.load(Ordering::SeqCst), 0);
    // However much there is, a batch waits for one step of it at most.
    let bench = start_with_old(settings, usize::MAX);
    for effect in ["e", "f", "g"] {
        assert_eq!(bench.begins("c", effect), Ok(true));
    }
}

#[test]
fn a_store_that_breaks_while_it_deletes_goes_on_to_take_batches() {
    let settings = ThreadSettings {
        upkeep: Duration::from_millis(1),
        ..ThreadSettings::default()
    };
    let bench = start_broken(settings);
    while bench.disk.prunings.load(Ordering::SeqCst) < 3 {
        std::thread::yield_now();
    }
    assert_eq!(bench.begins("c", "e"), Ok(true));
}

#[test]
fn batches_that_come_during_a_transaction_share_the_next_one() {
    let bench = start(ThreadSettings::default());
    let handle = bench.thread.handle();
    let before = bench.disk.transactions.load(Ordering::SeqCst);
    let held = bench.occupy();
    let pending: Vec<_> = (b'a'..=b'z')
        .map(|letter| handle.apply(batch("c", request(&char::from(letter).to_string()))))
        .collect();
    drop(held);
    for pending in pending {
        assert!(matches!(wait(pending).unwrap()[..], [Reply::Run(_)]));
    }
    assert_eq!(bench.disk.transactions.load(Ordering::SeqCst) - before, 2);
}

#[test]
fn what_nobody_waits_for_is_gathered_and_is_not_overtaken() {
    let bench = start(patient());
    let handle = bench.thread.handle();
    let before = bench.disk.transactions.load(Ordering::SeqCst);
    for number in 1..=3 {
        drop(handle.apply(batch("c", append(number))));
    }
    assert!(said(&bench).is_empty());
    assert_eq!(bench.begins("c", "a"), Ok(true));
    assert_eq!(said(&bench), ["1", "2", "3"]);
    assert_eq!(bench.disk.transactions.load(Ordering::SeqCst) - before, 1);
}

#[test]
fn a_leg_by_text_is_gathered_with_its_conversation_and_what_is_asked_for_is_not() {
    let by = |mode: Mode| {
        let mut batch = attach("new");
        for command in &mut batch.commands {
            if let Command::Attach(leg) = command {
                leg.mode = mode;
            }
        }
        batch
    };
    let opened = batch("new", Command::Open(Beginner::default()));
    for (batch, is_gathered) in [
        (by(Mode::Text), true),
        (by(Mode::Voice), false),
        (opened, false),
    ] {
        let bench = start(patient());
        let pending = bench.thread.handle().apply(batch);
        if is_gathered {
            let known = bench.thread.handle().store().conversation(
                &conversation("new").tenant,
                &conversation("new").conversation_id,
            );
            assert!(known.unwrap().is_none());
            assert_eq!(bench.begins("c", "a"), Ok(true));
        }
        wait(pending).unwrap();
    }
}

#[test]
fn what_nobody_waits_for_is_written_when_its_time_has_come_and_when_it_is_much() {
    let soon = ThreadSettings {
        gathering: Duration::from_millis(1),
        ..patient()
    };
    let much = ThreadSettings {
        batch_max: 2,
        ..patient()
    };
    for (settings, entries) in [(soon, 1), (much, 2)] {
        let bench = start(settings);
        for number in 1..=entries {
            drop(bench.thread.handle().apply(batch("c", append(number))));
        }
        while said(&bench).len() < usize::try_from(entries).unwrap() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn closing_writes_what_waits_and_refuses_what_comes_later() {
    let bench = start(patient());
    let handle = bench.thread.handle();
    drop(handle.apply(batch("c", append(1))));
    let held = bench.occupy();
    let waiting = handle.apply(batch("c", request("a")));
    drop(held);
    bench.thread.close();
    assert_eq!(said(&bench), ["1"]);
    assert!(matches!(wait(waiting).unwrap()[..], [Reply::Run(_)]));
    assert!(bench.begins("c", "b").is_err());
}

#[test]
fn a_full_queue_refuses_at_once_and_no_outcome() {
    let bench = start(ThreadSettings {
        waiting_max: 2,
        unrecorded_max: 1,
        ..patient()
    });
    assert_eq!(bench.begins("c", "a"), Ok(true));
    let handle = bench.thread.handle();
    let held = bench.occupy();
    let waiting = ["b", "c"].map(|effect| handle.apply(batch("c", request(effect))));
    let refused = wait(handle.apply(batch("c", request("d"))));
    assert_eq!(refused, Err(StoreUnavailable::Overloaded));
    let lasting = handle.apply(batch("c", append(1)));
    let refused = wait(handle.apply(batch("c", append(2))));
    assert_eq!(refused, Err(StoreUnavailable::Overloaded));
    let outcome = handle.apply(batch("c", record("a", 1, AttemptOutcome::Succeeded)));
    drop(held);
    for pending in waiting {
        assert!(matches!(wait(pending).unwrap()[..], [Reply::Run(_)]));
    }
    assert!(wait(lasting).is_ok());
    assert!(matches!(wait(outcome).unwrap()[..], [Reply::Recorded(_)]));
}

#[test]
fn an_outcome_that_a_full_disk_refused_is_stored_before_anything_else() {
    let bench = start(patient());
    assert_eq!(bench.begins("c", "a"), Ok(true));
    bench.disk.is_full.store(true, Ordering::SeqCst);
    assert_eq!(bench.ends("c", "a"), Err(full()));
    assert_eq!(bench.begins("c", "b"), Err(full()));
    assert_eq!(bench.state("a"), Some(EffectState::Running));
    bench.disk.is_full.store(false, Ordering::SeqCst);
    assert_eq!(bench.begins("c", "c"), Ok(true));
    assert_eq!(bench.state("a"), Some(EffectState::Done));
    assert_eq!(bench.state("b"), None);
}

#[test]
fn what_was_read_and_given_up_while_the_disk_was_full_is_known_before_anything_is_asked() {
    let bench = start(patient());
    let Command::Request(given_up) = request("a") else {
        unreachable!()
    };
    let abandon = Command::Abandon {
        nonce: given_up.nonce,
        effect_id: given_up.effect_id.clone(),
        question: None,
    };
    bench.disk.is_full.store(true, Ordering::SeqCst);
    // It is gathered, and committed with the next.
    drop(bench.thread.handle().apply(batch("c", Command::Taint)));
    assert_eq!(bench.apply(batch("c", abandon)), Err(full()));
    bench.disk.is_full.store(false, Ordering::SeqCst);
    // It lands late.
    let late = bench.apply(batch("c", Command::Request(given_up)));
    assert_eq!(late, Ok(vec![Reply::Refused(Refusal::Abandoned)]));
    let asked = bench.apply(batch("c", request("b"))).unwrap();
    let [Reply::Ask(asked)] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert!(asked.question.hazards.external_content);
}

#[test]
fn a_conversation_that_the_disk_refuses_holds_up_no_other() {
    let bench = start(patient());
    assert_eq!(bench.begins("c", "a"), Ok(true));
    assert_eq!(bench.begins("d", "b"), Ok(true));
    *bench.disk.refused.lock().unwrap() = Some("c");
    assert_eq!(bench.ends("c", "a"), Err(full()));
    assert_eq!(bench.begins("c", "c"), Err(full()));
    assert_eq!(bench.ends("d", "b"), Ok(true));
    assert_eq!(bench.begins("d", "d"), Ok(true));
    *bench.disk.refused.lock().unwrap() = None;
    assert_eq!(bench.begins("d", "e"), Ok(true));
    assert_eq!(bench.state("a"), Some(EffectState::Done));
}

#[test]
fn words_make_room_for_outcomes_where_too_much_waits() {
    let bench = start(ThreadSettings {
        unrecorded_max: 2,
        ..patient()
    });
    for effect in ["a", "b"] {
        assert_eq!(bench.begins("c", effect), Ok(true));
    }
    bench.disk.is_full.store(true, Ordering::SeqCst);
    // A batch that is gathered is committed with the next one.
    drop(bench.thread.handle().apply(batch("c", append(1))));
    for effect in ["a", "b"] {
        assert_eq!(bench.ends("c", effect), Err(full()));
    }
    bench.disk.is_full.store(false, Ordering::SeqCst);
    assert_eq!(bench.begins("c", "c"), Ok(true));
    for effect in ["a", "b"] {
        assert_eq!(bench.state(effect), Some(EffectState::Done));
    }
    assert!(said(&bench).is_empty());
}

#[test]
fn an_outcome_is_tried_again_without_being_asked() {
    let bench = start(ThreadSettings {
        retry: Duration::from_millis(1),
        ..ThreadSettings::default()
    });
    assert_eq!(bench.begins("c", "a"), Ok(true));
    bench.disk.is_full.store(true, Ordering::SeqCst);
    assert!(bench.ends("c", "a").is_err());
    bench.disk.is_full.store(false, Ordering::SeqCst);
    while bench.state("a") != Some(EffectState::Done) {
        std::thread::yield_now();
    }
}

#[test]
fn a_batch_that_breaks_spoils_no_other() {
    let bench = start(ThreadSettings::default());
    let handle = bench.thread.handle();
    let held = bench.occupy();
    let good = handle.apply(batch("c", request("a")));
    let broken = handle.apply(batch("broken", request("b")));
    let recorded = handle.apply(batch("c", record("a", 1, AttemptOutcome::Succeeded)));
    drop(held);
    assert!(wait(broken).is_err());
    assert!(wait(good).is_ok());
    assert!(matches!(wait(recorded).unwrap()[..], [Reply::Recorded(_)]));
    assert_eq!(bench.state("a"), Some(EffectState::Done));
}

#[test]
fn what_cannot_be_written_down_is_not_begun_and_outcomes_are_stored_all_the_same() {
    let bench = start(ThreadSettings::default());
    assert_eq!(bench.begins("c", "a"), Ok(true));
    bench.refuses_changes.store(true, Ordering::SeqCst);
    assert_eq!(bench.begins("c", "b"), Err(full()));
    let Command::Request(mut reads) = request("c") else {
        unreachable!()
    };
    reads.tool.writes = false;
    let read = bench.apply(batch("c", Command::Request(reads)));
    assert!(matches!(read.unwrap()[..], [Reply::Run(_)]));
    assert_eq!(bench.ends("c", "a"), Ok(true));
    bench.refuses_changes.store(false, Ordering::SeqCst);
    assert_eq!(bench.begins("c", "b"), Ok(true));
}

#[test]
fn a_commit_wakes_the_legs_of_its_conversation_but_the_one_that_speaks() {
    let bench = start(ThreadSettings::default());
    let handle = bench.thread.handle();
    let of = conversation("c");
    let mut tails = ["s", "other"].map(|leg| handle.tail(&of, &SessionId::new(leg)));
    let mut elsewhere = handle.tail(&conversation("d"), &SessionId::new("s"));
    let mut context = Context::from_waker(Waker::noop());
    let mut woken = |bench: &Bench, batch: Batch| {
        bench.apply(batch).unwrap();
        // The answer comes before the wake.
        bench.apply(attach("behind")).unwrap();
        let woken = tails
            .each_mut()
            .map(|tail| tail.poll_committed(&mut context) == Poll::Ready(()));
        assert!(elsewhere.poll_committed(&mut context).is_pending());
        woken
    };
    assert_eq!(woken(&bench, batch("c", append(1))), [false, true]);
    // It is there already.
    assert_eq!(woken(&bench, batch("c", Command::Taint)), [false, false]);
    assert_eq!(woken(&bench, batch("c", request("a"))), [true, true]);
    let end = record("a", 1, AttemptOutcome::Succeeded);
    assert_eq!(woken(&bench, batch("c", end)), [true, true]);
    assert!(handle.is_live(&of, &SessionId::new("other")));
    drop(tails);
    assert!(!handle.is_live(&of, &SessionId::new("other")));
}

/// Bytes of SQLite's log after 600 conversations of ten entries each, thirty in a transaction.
fn log_bytes(id_of: impl Fn(usize) -> String) -> u64 {
    const IN_A_TRANSACTION: usize = 30;
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), store_settings(1)).unwrap();
    let all: Vec<Batch> = (0..600)
        .map(|number| {
            let mut began = attach(&id_of(number));
            let said = (1..=10).map(|number| {
                let event = EntryEvent::Said(Sensitive("x".repeat(200)));
                let key = Some(format!("message {number}"));
                let leg_number = Some(LegNumber(number));
                NewEntry {
                    leg_number,
                    key,
                    event,
                }
            });
            began.commands.push(Command::Append {
                leg: leg(),
                entries: said.collect(),
            });
            began
        })
        .collect();
    for batches in all.chunks(IN_A_TRANSACTION) {
        store.commit(batches).unwrap();
    }
    std::fs::metadata(folder.path().join(format!("{DATABASE_FILE}-wal")))
        .unwrap()
        .len()
}

#[test]
fn new_conversations_lie_side_by_side_in_the_file() {
    let minted = log_bytes(|_| ids::conversation_id().unwrap().to_string());
    let scattered = log_bytes(|_| ids::random_hex().unwrap());
    assert!(minted * 2 < scattered, "{minted} of {scattered} bytes");
}

#[test]
fn a_commit_that_fails_wakes_the_legs_too_as_the_store_may_have_taken_it() {
    let bench = start(ThreadSettings {
        retry: Duration::from_secs(60 * 60),
        ..ThreadSettings::default()
    });
    let handle = bench.thread.handle();
    let of = conversation("c");
    let mut tails = ["s", "other"].map(|leg| handle.tail(&of, &SessionId::new(leg)));
    let mut context = Context::from_waker(Waker::noop());
    bench.disk.is_full.store(true, Ordering::SeqCst);
    for (command, expected) in [
        (append(1), [false, true]),
        (Command::Taint, [false, false]),
        (request("a"), [true, true]),
    ] {
        bench.apply(batch("c", command)).unwrap_err();
        // The answer comes before the wake.
        bench.apply(attach("behind")).unwrap_err();
        let woken = tails
            .each_mut()
            .map(|tail| tail.poll_committed(&mut context) == Poll::Ready(()));
        assert_eq!(woken, expected);
    }
}
