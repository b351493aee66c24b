//! What the log brings to sessions, what a session finds when it begins, and what the sweep does: on a ledger in memory.

use crate::bench::{Leg, Process, of, other_version, registry};
use serde_json::json;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use windlass_contract::handler::Finding;
use windlass_contract::kind::Mode;
use windlass_contract::registry::Registry;
use windlass_driver::{Sweep, history};
use windlass_session::limits::Limits;
use windlass_store::{EffectState, LookupState, Store};

/// What is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it is not ready"),
    }
}

#[test]
fn an_attempt_whose_time_is_over_before_it_begins_is_not_started() {
    let process = Process::new();
    let mut leg = Leg::begin(&process, "s-1", Mode::Voice);
    leg.user_says("book the table");
    // The answer of the ledger lies there for a minute.
    leg.slow_calls("book", json!({"what": "table"}), 60_000);
    assert_eq!(leg.started(), 0);
    assert!(
        leg.last_answer().starts_with("TRANSIENT"),
        "{:?}",
        leg.answers
    );
}

#[test]
fn the_sweep_settles_what_a_dead_process_began_and_finds_out_what_came_of_it() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    voice.user_says("book the table");
    voice.calls("book", json!({"what": "table"}));
    drop(voice);
    let next = process.next();
    let mut sweep = Sweep::new(next.ledger.clone());
    let registry = registry();
    let mut swept = now(sweep.round(&registry)).unwrap();
    assert_eq!((swept.settled.len(), swept.unaudited.len()), (1, 0));
    let due = swept.lookups.pop().unwrap();
    assert_eq!(due.lookup.tool.id.as_str(), "book");
    // It is asked once at a time.
    let swept = now(sweep.round(&registry)).unwrap();
    assert!(swept.settled.is_empty() && swept.lookups.is_empty());
    let found = Finding::Happened(Box::default());
    let limits = Arc::new(Limits::of(Mode::Voice));
    let found = now(sweep.found(due, (&registry, &limits), &found));
    let (of, effect) = found.settled.unwrap();
    assert_eq!(effect.state, EffectState::Done);
    // Nobody has written a line, and then somebody has.
    process.clock.fetch_add(30_000, Ordering::Relaxed);
    let swept = now(sweep.round(&registry)).unwrap();
    assert_eq!(swept.unaudited.len(), 1);
    sweep.audited([&(of, effect)]);
    assert!(now(sweep.round(&registry)).unwrap().unaudited.is_empty());
}

#[test]
fn only_the_version_that_ran_can_say_that_nothing_has_happened() {
    for (is_loaded, expected) in [
        (true, EffectState::NotDone),
        // Its service knows nothing of what the other version's service was sent.
        (false, EffectState::Unknown),
    ] {
        let process = Process::new();
        let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
        voice.user_says("book the table");
        voice.calls("book", json!({"what": "table"}));
        drop(voice);
        let next = process.next();
        process.clock.fetch_add(3_600_000, Ordering::Relaxed);
        let mut sweep = Sweep::new(next.ledger.clone());
        let asked = match is_loaded {
            true => registry(),
            false => other_version(),
        };
        let due = now(sweep.round(&asked)).unwrap().lookups.pop().unwrap();
        let effect_id = due.lookup.effect_id.clone();
        // While its handler is asked, the version that ran comes back.
        let limits = Arc::new(Limits::of(Mode::Voice));
        let known = (&registry(), &limits);
        now(sweep.found(due, known, &Finding::NotHappened));
        let found = next.store.effect(&of().tenant, &effect_id).unwrap();
        assert_eq!(found.unwrap().1.state, expected, "loaded: {is_loaded}");
    }
}

#[test]
fn what_no_handler_can_be_asked_about_is_put_off() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    voice.user_says("book the table");
    voice.calls("book", json!({"what": "table"}));
    drop(voice);
    let next = process.next();
    let mut sweep = Sweep::new(next.ledger.clone());
    let nothing = Arc::new(Registry::new("2", None, Vec::new()));
    let swept = now(sweep.round(&nothing)).unwrap();
    assert!(swept.lookups.is_empty());
    let (of, effect) = &swept.settled[0];
    let (_, effect) = next
        .store
        .effect(&of.tenant, &effect.effect_id)
        .unwrap()
        .unwrap();
    assert!(matches!(
        effect.lookup,
        LookupState::Tried { failed: 1, .. }
    ));
}

#[test]
fn a_session_that_begins_finds_what_nobody_has_heard_and_nothing_of_those_that_live() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    voice.user_says("book the table");
    voice.calls("book", json!({"what": "table"}));
    let find = || history::find(&*process.ledger, &of(), 1_000).unwrap();
    voice.handler_succeeds();
    assert!(
        find().began.unheard.is_empty(),
        "its own session tells of it"
    );
    drop(voice);
    let found = find();
    assert_eq!(found.began.unheard.len(), 1);
    assert_eq!(found.after, found.log.last().unwrap().number);
}

#[test]
fn a_session_takes_over_what_those_had_asked_that_are_gone_and_hears_of_denials() {
    let process = Process::new();
    let mut first = Leg::begin(&process, "s-1", Mode::Text);
    let mut voice = Leg::begin(&process, "s-2", Mode::Voice);
    for (leg, what) in [(&mut first, "rent"), (&mut voice, "tea")] {
        leg.user_says("pay");
        leg.calls("pay", json!({ "what": what }));
    }
    first.user_says("pay that, too");
    first.calls("pay", json!({"what": "wine"}));
    let tokens: Vec<String> = first.asked.iter().map(|asked| asked.0.clone()).collect();
    drop(first);
    voice.answer(&tokens[1], false);
    let find = || history::find(&*process.ledger, &of(), 1_000).unwrap();
    let found = find();
    let asked: Vec<&str> = found
        .asked
        .iter()
        .map(|asked| asked.question.arguments.expose().as_str())
        .collect();
    assert_eq!(asked, ["{\"what\":\"rent\"}"]);
    assert_eq!(found.asked[0].token.text().into_inner(), tokens[0]);
    let [denied] = &found.began.unheard_questions[..] else {
        panic!("{:?}", found.began.unheard_questions);
    };
    assert_eq!(denied.arguments.expose(), "{\"what\":\"wine\"}");
    // What was asked by voice, too, once its session is gone.
    drop(voice);
    let found = find();
    let asked = found.asked.iter().map(|asked| asked.question.mode);
    assert_eq!(asked.collect::<Vec<_>>(), [Mode::Text, Mode::Voice]);
}

#[test]
fn words_of_another_session_are_kept_for_who_wants_them() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    let mut text = Leg::begin(&process, "s-2", Mode::Text);
    voice.user_says("book the table");
    voice.turn_ends();
    text.settle();
    assert_eq!(text.driver.take_heard().len(), 1);
    voice.driver.forget_heard();
    text.user_says("and a chair");
    text.turn_ends();
    voice.settle();
    assert!(voice.driver.take_heard().is_empty());
}
