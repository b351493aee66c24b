//! What becomes of changes: asked for twice, by two sessions, approved here and there, begun by a process that is dead.

use crate::bench::{Leg, Process, of};
use serde_json::json;
use windlass_contract::handler::Finding;
use windlass_contract::kind::Mode;
use windlass_driver::history;
use windlass_session::io::Input;

#[test]
fn a_change_that_is_asked_for_again_in_other_words_is_told_and_not_done_again() {
    let process = Process::new();
    let mut leg = Leg::begin(&process, "s-1", Mode::Voice);
    leg.user_says("book the table");
    leg.calls("book", json!({"what": "table", "note": "by the window"}));
    leg.handler_succeeds();
    assert_eq!(leg.last_answer(), "ok ");
    leg.calls("book", json!({"what": "table", "note": "window seat"}));
    assert_eq!(leg.started(), 1);
    let told = leg.last_answer();
    assert!(
        told.starts_with("ok This was done before, at 2026-"),
        "{told}"
    );
    assert!(told.contains("by the window"), "{told}");
}

#[test]
fn a_deliberate_repeat_runs_with_one_click_that_names_the_earlier_one() {
    let process = Process::new();
    let mut leg = Leg::begin(&process, "s-1", Mode::Voice);
    leg.user_says("book the table");
    leg.calls("book", json!({"what": "table"}));
    leg.handler_succeeds();
    leg.turn_ends();
    leg.wait(1_000);
    leg.user_says("book another one");
    leg.calls("book", json!({"what": "table"}));
    assert!(
        leg.last_answer().starts_with("CONFIRMATION_REQUIRED"),
        "{}",
        leg.last_answer()
    );
    let (token, warning) = leg.asked.pop().unwrap();
    assert!(
        warning
            .unwrap()
            .starts_with("This was done before, at 2026-")
    );
    leg.turn_ends();
    leg.answer(&token, true);
    assert_eq!(leg.started(), 2);
    leg.handler_succeeds();
    assert_eq!(leg.results, ["ok"]);
    assert!(leg.notices.last().unwrap().contains("it has run"));
    leg.answer(&token, true);
    assert_eq!((leg.started(), leg.results.len()), (2, 2));
}

#[test]
fn a_second_session_waits_for_the_first_ones_change_and_hears_of_its_end() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    let mut text = Leg::begin(&process, "s-2", Mode::Text);
    voice.user_says("book the table");
    voice.calls("book", json!({"what": "table"}));
    text.user_says("book the table");
    text.calls("book", json!({"what": "table"}));
    assert_eq!((voice.started(), text.started()), (1, 0));
    assert!(text.answers.is_empty());
    voice.handler_succeeds();
    text.settle();
    assert_eq!((voice.started(), text.started()), (1, 0));
    assert!(
        text.last_answer().starts_with("ok This was done before"),
        "{:?}",
        text.answers
    );
}

#[test]
fn an_approval_that_is_given_to_another_session_is_told_to_the_one_that_asked() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    voice.user_says("pay");
    voice.calls("pay", json!({"what": "rent"}));
    voice.turn_ends();
    let (token, warning) = voice.asked.pop().unwrap();
    assert_eq!(warning, None);
    let mut text = Leg::begin(&process, "s-2", Mode::Text);
    text.answer(&token, true);
    assert_eq!((voice.started(), text.started()), (0, 1));
    text.handler_succeeds();
    assert_eq!(text.results, ["ok"]);
    voice.settle();
    assert_eq!(voice.results, ["ok"]);
    assert_eq!(voice.notices.len(), 1, "{:?}", voice.notices);
    assert!(text.notices.is_empty());
}

#[test]
fn a_denial_is_told_to_the_session_that_asked_and_holds_for_its_turn() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    voice.user_says("pay");
    voice.calls("pay", json!({"what": "rent"}));
    let (token, _) = voice.asked.pop().unwrap();
    let mut text = Leg::begin(&process, "s-2", Mode::Text);
    text.answer(&token, false);
    assert_eq!(text.results, ["CONFIRMATION_DECLINED"]);
    voice.settle();
    assert_eq!(voice.results, ["CONFIRMATION_DECLINED"]);
    voice.calls("pay", json!({"what": "rent"}));
    assert!(
        voice.last_answer().starts_with("CONFIRMATION_DECLINED"),
        "{:?}",
        voice.answers
    );
    voice.answer(&token, true);
    assert_eq!(voice.started(), 0);
}

#[test]
fn what_a_dead_process_began_is_looked_up_and_not_run_again() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    voice.user_says("book the table");
    voice.calls("book", json!({"what": "table"}));
    drop(voice);
    let next = process.next();
    let mut text = Leg::begin(&next, "s-2", Mode::Text);
    text.hands.lock().unwrap().finding = Some(Finding::Happened(Box::default()));
    text.user_says("did you book?");
    text.calls("book", json!({"what": "table"}));
    assert_eq!((text.started(), text.hands.lock().unwrap().lookups), (0, 1));
    assert!(
        text.last_answer().starts_with("ok This was done before"),
        "{:?}",
        text.answers
    );
}

#[test]
fn a_lookup_that_says_no_while_the_request_may_still_land_leads_to_a_question() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    voice.user_says("book the table");
    voice.calls("book", json!({"what": "table"}));
    drop(voice);
    let next = process.next();
    let mut text = Leg::begin(&next, "s-2", Mode::Text);
    text.hands.lock().unwrap().finding = Some(Finding::NotHappened);
    text.user_says("book the table");
    text.calls("book", json!({"what": "table"}));
    assert_eq!(text.started(), 0);
    assert!(
        text.last_answer().starts_with("CONFIRMATION_REQUIRED"),
        "{:?}",
        text.answers
    );
    assert!(
        text.asked[0]
            .1
            .as_ref()
            .unwrap()
            .contains("may happen a second time")
    );
}

#[test]
fn the_token_of_another_conversation_counts_for_nothing() {
    let process = Process::new();
    let mut voice = Leg::begin(&process, "s-1", Mode::Voice);
    for token in ["", "1.00000000000000000000000000000000", "x", "1.zz"] {
        voice.answer(token, true);
    }
    assert_eq!(voice.results, ["CONFIRMATION_EXPIRED"; 4]);
}

#[test]
fn what_a_handler_calls_is_answered_to_it_and_to_no_model() {
    let process = Process::new();
    let mut leg = Leg::begin(&process, "s-1", Mode::Text);
    leg.user_says("book the table, with flowers");
    leg.calls("book", json!({"what": "table"}));
    leg.handler_calls("order", json!({"what": "flowers"}));
    assert_eq!((leg.started(), leg.handlers_were_told().len()), (2, 0));
    leg.handler_succeeds();
    leg.handler_calls("pay", json!({"what": "flowers"}));
    leg.handler_calls("order", json!({"for": "flowers"}));
    assert_eq!(
        leg.handlers_were_told(),
        ["#1 ok", "#2 PERMANENT", "#3 VALIDATION"]
    );
    assert!(leg.answers.is_empty(), "{:?}", leg.answers);
    leg.handler_succeeds();
    assert_eq!(leg.answers, ["ok "]);
}

#[test]
fn a_change_that_a_dead_process_made_for_a_handler_is_found_by_the_next_attempt() {
    let process = Process::new();
    let mut leg = Leg::begin(&process, "s-1", Mode::Text);
    leg.user_says("book the table, with flowers");
    leg.calls("book", json!({"what": "table"}));
    leg.handler_calls("order", json!({"what": "flowers"}));
    leg.handler_succeeds();

    let process = process.next();
    let mut leg = Leg::begin(&process, "s-2", Mode::Text);
    leg.user_says("did you book it?");
    leg.calls("book", json!({"what": "table"}));
    let (token, _) = leg.asked.pop().unwrap();
    leg.answer(&token, true);
    assert_eq!(leg.started(), 1, "{:?}", leg.answers);
    leg.handler_calls("order", json!({"what": "flowers"}));
    assert_eq!(leg.handlers_were_told(), ["#1 ok again"]);
    assert_eq!(leg.started(), 1);
    leg.handler_succeeds();
    assert_eq!(leg.results, ["ok"]);
}

#[test]
fn a_denial_that_no_model_has_heard_of_is_told_to_the_next_one() {
    let process = Process::new();
    let mut asker = Leg::begin(&process, "s-1", Mode::Voice);
    asker.user_says("pay the bill");
    asker.calls("pay", json!({"what": "bill"}));
    let (token, _) = asker.asked.pop().unwrap();
    drop(asker);
    // Its session takes the request over, and ends before its model has said a word.
    let mut between = Leg::begin(&process, "s-2", Mode::Voice);
    between.answer(&token, false);
    drop(between);
    let found = history::find(&*process.ledger, &of(), 1_000).unwrap();
    let mut next = Leg::begin(&process, "s-3", Mode::Voice);
    next.input(Input::Began(Box::new(found.began)));
    next.wait(60_000);
    let is_told = |notice: &String| notice.contains("whether pay may run");
    assert!(next.notices.iter().any(is_told), "{:?}", next.notices);
}
