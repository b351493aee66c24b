//! What no order of commands leads to, and what the decision is safe against all the same: rows that were put together by hand.

use crate::ledger::Act::{EndsInDoubt, Fails, Request, Succeeds};
use crate::ledger::{Act, LEASE_MS, Ledger, PLAIN, Policy, nonce};
use std::sync::atomic::Ordering;
use windlass_contract::id::EffectId;
use windlass_store::command::{AnswerVerdict, ApprovalAnswer, Command, Reply};
use windlass_store::decide::{Context, decide};
use windlass_store::rows::{Change, Rows};
use windlass_store::{Certainty, Effect, Question, ServerKey, Store};

/// An open question that names nothing, beside an effect of its key that came to be behind its back.
fn rows(acts: &[Act]) -> (Ledger, Rows, Question) {
    let mut asking = Ledger::new(Policy {
        consent: true,
        ..PLAIN
    });
    asking.act(Request);
    let question = asking.store.question(&asking.conversation, &asking.token());
    let question = question.unwrap().unwrap();
    let mut running = Ledger::new(PLAIN);
    running.all(acts);
    let effect: Effect = running.effect();
    assert_eq!(effect.key, question.key);
    let of = &asking.conversation;
    let rows = Rows {
        conversation: asking
            .store
            .conversation(&of.tenant, &of.conversation_id)
            .unwrap(),
        leg: Some(
            asking
                .store
                .leg(&crate::ledger::new_leg("leg 1").resume_token)
                .unwrap()
                .unwrap()
                .1,
        ),
        key: Some(question.key),
        effects: vec![effect],
        questions: vec![question.clone()],
        question: Some(question.clone()),
        ..Rows::default()
    };
    (asking, rows, question)
}

fn decided(ledger: &Ledger, rows: Rows, command: &Command) -> (Reply, Vec<Change>) {
    let context = Context {
        conversation: &ledger.conversation,
        key: &ServerKey::new([7; 32]),
        limits: &ledger.limits,
        owner: ledger.store.owner(),
        now_unix_ms: ledger.now(),
        clock_unix_ms: ledger.now(),
    };
    let decision = decide(rows, command, &context);
    (decision.reply, decision.changes)
}

fn yes(ledger: &Ledger) -> Command {
    Command::Answer(Box::new(ApprovalAnswer {
        nonce: nonce(77),
        effect_id: EffectId::new("effect 77"),
        token: ledger.token(),
        verdict: AnswerVerdict::Approved(Box::new(ledger.approval())),
        again: None,
    }))
}

#[track_caller]
fn assert_names(reply: &Reply, certainty: Certainty, before: &Question) {
    let Reply::Ask(asked) = reply else {
        panic!("{reply:?}");
    };
    assert_ne!(asked.question.number, before.number);
    let certainties: Vec<Certainty> = asked
        .question
        .hazards
        .earlier
        .iter()
        .map(|earlier| earlier.certainty)
        .collect();
    assert_eq!(certainties, [certainty]);
}

#[test]
fn a_yes_is_only_to_what_was_named() {
    for (acts, certainty) in [
        (&[Request, EndsInDoubt], Certainty::MayHaveHappened),
        (&[Request, Succeeds], Certainty::Done),
    ] {
        let (ledger, rows, question) = rows(acts);
        let (reply, _) = decided(&ledger, rows, &yes(&ledger));
        assert_names(&reply, certainty, &question);
    }
    let (ledger, rows, _) = rows(&[Request, Fails]);
    let (reply, _) = decided(&ledger, rows, &yes(&ledger));
    assert!(matches!(reply, Reply::Run(_)), "{reply:?}");
}

#[test]
fn a_yes_while_it_runs_begins_nothing() {
    let (ledger, rows, _) = rows(&[Request]);
    let (reply, changes) = decided(&ledger, rows, &yes(&ledger));
    assert!(matches!(reply, Reply::Attach(_)), "{reply:?}");
    assert_eq!(changes, []);
}

#[test]
fn a_yes_after_the_lease_is_asked_for_once_more() {
    let (ledger, rows, question) = rows(&[Request]);
    ledger.clock.fetch_add(LEASE_MS, Ordering::Relaxed);
    let (reply, _) = decided(&ledger, rows, &yes(&ledger));
    assert_names(&reply, Certainty::MayHaveHappened, &question);
}

#[test]
fn a_question_that_does_not_name_everything_is_put_anew() {
    let (mut ledger, rows, question) = rows(&[Request, EndsInDoubt]);
    let request = Command::Request(Box::new(
        ledger.request("{\"at\":\"noon\"}", "{\"at\":\"noon\"}"),
    ));
    let (reply, _) = decided(&ledger, rows, &request);
    assert_names(&reply, Certainty::MayHaveHappened, &question);
}

#[test]
fn another_user_changes_nothing() {
    let (ledger, mut rows, _) = rows(&[Request]);
    let conversation = rows.conversation.as_mut().unwrap();
    conversation.user_id = windlass_contract::id::UserId::new("bob");
    let (reply, changes) = decided(&ledger, rows, &yes(&ledger));
    assert_eq!(reply, Reply::Foreign);
    assert_eq!(changes, []);
}
