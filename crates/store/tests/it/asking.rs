//! What becomes of a run whose service asks the user something: what waits, what goes on by the answer, and what is in doubt where no answer
//! comes.

use crate::ledger::Act::{
    self, Abandon, Asks, Crash, EndsInDoubt, Fails, FirstAsks, No, Onset, OtherLeg, Passes,
    Request, SameAnswer, SameCommand, SameMessage, Settles, Succeeds, Upgrade, Yes, YesChanged,
    YesNotAllowed, YesToFirst,
};
use crate::ledger::{LEASE_MS, Ledger, PLAIN, Policy, QUESTION_MS};
use windlass_store::{AttemptOutcome, EffectState, QuestionState, Store};

const READS: Policy = Policy {
    writes: false,
    ..PLAIN
};

/// What happens, the last reply, the state of the effect and how each of its attempts ended, and the state of the question.
#[track_caller]
fn check(policy: Policy, acts: &[Act], expected: &str) {
    let mut ledger = Ledger::new(policy);
    let reply = ledger.all(acts);
    let number = ledger.question().number;
    let (token, of) = (ledger.token(), ledger.conversation.clone());
    let question = ledger.store.question(&of, &token).unwrap();
    let question = question.filter(|question| question.number == number);
    let question = match question.map(|question| question.state) {
        Some(QuestionState::Open) => "open",
        Some(QuestionState::Approved) => "answered",
        Some(QuestionState::Denied) => "denied",
        Some(QuestionState::Closed) => "closed",
        None => "gone",
    };
    let effect = policy.writes.then(|| ledger.effect());
    let effect = effect.map_or_else(String::new, |effect| {
        let state = match effect.state {
            EffectState::Running => "running",
            EffectState::Done => "done",
            EffectState::NotDone => "not done",
            EffectState::Unknown => "unknown",
        };
        let attempts = effect.attempts.iter().map(|attempt| match attempt.outcome {
            None => "runs",
            Some(AttemptOutcome::Succeeded) => "succeeded",
            Some(AttemptOutcome::Failed) => "failed",
            Some(AttemptOutcome::Unknown) => "in doubt",
            Some(AttemptOutcome::Accepted { .. }) => "accepted",
            Some(AttemptOutcome::Asked { .. }) => "asks",
        });
        format!(" | {state}: {}", attempts.collect::<Vec<_>>().join(", "))
    });
    let reply = reply.split(' ').next().unwrap_or_default();
    let reply = reply.trim_matches(['`', ':', ',']);
    let shown = format!("{reply}{effect} | {question}");
    assert_eq!(shown, expected, "{acts:?}");
}

#[test]
fn a_change_goes_on_by_the_answer_and_ends_as_its_service_says() {
    let asked = [Request, Asks];
    let then = |acts: &[Act]| [&asked[..], acts].concat();
    for (acts, expected) in [
        (then(&[]), "Ask | running: asks | open"),
        // The acknowledgement was lost.
        (then(&[SameCommand]), "Ask | running: asks | open"),
        (then(&[Yes]), "Run | running: asks, runs | answered"),
        (
            then(&[Yes, Succeeds]),
            "recorded | done: asks, succeeded | answered",
        ),
        // The service's word is of the whole call.
        (
            then(&[Yes, Fails]),
            "recorded | not done: asks, failed | answered",
        ),
        (
            then(&[Yes, EndsInDoubt]),
            "recorded | unknown: asks, in doubt | answered",
        ),
        // It asks something further.
        (then(&[Yes, Asks]), "Ask | running: asks, asks | open"),
        (
            then(&[Yes, Asks, Yes, Succeeds]),
            "recorded | done: asks, asks, succeeded | answered",
        ),
    ] {
        check(PLAIN, &acts, expected);
    }
}

#[test]
fn what_nobody_answers_is_in_doubt() {
    let asked = [Request, Asks];
    let then = |acts: &[Act]| [&asked[..], acts].concat();
    for (acts, expected) in [
        // Longer than its tool may take, and not longer than the user may.
        (
            then(&[Passes(LEASE_MS * 2), Settles]),
            "settled | running: asks | open",
        ),
        (
            then(&[Passes(QUESTION_MS + 1), Settles]),
            "settled | unknown: in doubt | open",
        ),
        (
            then(&[Passes(QUESTION_MS + 1), Yes]),
            "Expired | running: asks | open",
        ),
        // The process does not hold it.
        (then(&[Crash, Settles]), "settled | running: asks | open"),
        (
            then(&[Crash, Yes, Succeeds]),
            "recorded | done: asks, succeeded | answered",
        ),
        (
            then(&[Yes, Crash, Settles]),
            "settled | unknown: asks, runs | answered",
        ),
        // Its tool is another one by now, or its user said no where nobody could tell the service.
        (then(&[YesChanged]), "Changed | unknown: in doubt | closed"),
        (then(&[No]), "Denied | unknown: in doubt | denied"),
        // The session gave up waiting for the question, which the ledger has.
        (then(&[EndsInDoubt]), "recorded | unknown: in doubt | open"),
        (
            then(&[EndsInDoubt, Yes]),
            "OUTCOME_UNKNOWN | unknown: in doubt | open",
        ),
        // It was done all the same.
        (then(&[Succeeds]), "recorded | done: succeeded | closed"),
    ] {
        check(PLAIN, &acts, expected);
    }
}

#[test]
fn a_later_run_says_nothing_of_one_that_was_not_answered() {
    let unanswered = [Request, Asks, Passes(QUESTION_MS + 1), Settles];
    let then = |acts: &[Act]| [&unanswered[..], acts].concat();
    for (acts, expected) in [
        (then(&[Request]), "Ask | unknown: in doubt | open"),
        (
            then(&[Request, Yes, Fails]),
            "recorded | unknown: in doubt, failed | answered",
        ),
        (
            then(&[Request, Yes, Succeeds]),
            "recorded | done: in doubt, succeeded | answered",
        ),
        (
            then(&[Request, Yes, Asks, Yes, Fails]),
            "recorded | unknown: in doubt, asks, failed | answered",
        ),
    ] {
        check(PLAIN, &acts, expected);
    }
}

#[test]
fn two_runs_of_one_meaning_each_have_their_question() {
    let repeatable = Policy {
        repeatable: true,
        ..PLAIN
    };
    let asked = [Request, Onset, OtherLeg, Request, FirstAsks, Asks];
    let first = "`Run` effect 1, attempt 2, approved by question 1";
    let then = |acts: &[Act]| [&asked[..], acts].concat();
    for (acts, expected) in [
        (then(&[YesToFirst]), first),
        (
            then(&[Yes]),
            "`Run` effect 2, attempt 2, approved by question 2",
        ),
        (then(&[Yes, YesToFirst]), first),
    ] {
        let reply = Ledger::new(repeatable).all(&acts);
        assert_eq!(reply, expected, "{acts:?}");
    }
}

#[test]
fn one_answer_counts_once() {
    let asked = [Request, Asks];
    let then = |acts: &[Act]| [&asked[..], acts].concat();
    for (acts, expected) in [
        (
            then(&[Yes, SameAnswer]),
            "Run | running: asks, runs | answered",
        ),
        (then(&[Yes, Yes]), "Attach | running: asks, runs | answered"),
        (
            then(&[Yes, Succeeds, Yes]),
            "Replay | done: asks, succeeded | answered",
        ),
        (then(&[YesNotAllowed]), "refused | running: asks | open"),
        (
            then(&[YesNotAllowed, Yes]),
            "Run | running: asks, runs | answered",
        ),
        // The answer came too late for the session that gave it: nothing has begun, and the question is open as before.
        (then(&[Yes, Abandon]), "recorded | running: asks | open"),
        (
            then(&[Yes, Abandon, Yes, Succeeds]),
            "recorded | done: asks, succeeded | answered",
        ),
    ] {
        check(PLAIN, &acts, expected);
    }
}

#[test]
fn the_same_call_waits_for_the_same_answer() {
    let asked = [Request, Asks];
    let then = |acts: &[Act]| [&asked[..], acts].concat();
    for acts in [
        then(&[Request]),
        then(&[Onset, Request]),
        then(&[SameMessage]),
    ] {
        check(PLAIN, &acts, "Ask | running: asks | open");
    }
    let none = Policy {
        can_ask: false,
        ..PLAIN
    };
    let mut ledger = Ledger::new(none);
    assert!(ledger.all(&[Request, Asks]).starts_with("refused"));
}

#[test]
fn what_changes_nothing_asks_and_goes_on_without_an_effect() {
    for (acts, expected) in [
        (&[Asks][..], "Ask | open"),
        (&[Asks, Yes], "Run | answered"),
        (&[Asks, Yes, SameAnswer], "Run | answered"),
        (&[Asks, Yes, Yes], "Answered | answered"),
        (&[Asks, Passes(QUESTION_MS + 1), Yes], "Expired | open"),
        (&[Asks, YesChanged], "Changed | closed"),
    ] {
        check(READS, acts, expected);
    }
}

#[test]
fn a_reading_call_that_comes_again_waits_for_the_same_answer() {
    for (acts, expected) in [
        (&[Asks, Asks][..], "`Ask` question 1 again"),
        (&[Asks, Onset, Asks], "`Ask` question 1 again"),
        (&[Asks, OtherLeg, Asks], "`Ask` question 1 again"),
        (&[Asks, Upgrade, Asks], "`Ask` question 2"),
        (&[Asks, Passes(QUESTION_MS + 1), Asks], "`Ask` question 2"),
        (&[Asks, Yes, Asks], "`Ask` question 2"),
    ] {
        let reply = Ledger::new(READS).all(acts);
        assert_eq!(reply.split(',').next(), Some(expected), "{acts:?}");
    }
}

#[test]
fn a_request_for_consent_stays_beside_the_question_of_a_run() {
    let asking = Policy {
        repeatable: true,
        consent: true,
        ..PLAIN
    };
    // The user approves one call; another one waits for its approval when the first comes to a question.
    let mut ledger = Ledger::new(asking);
    ledger.all(&[Request, Yes, Onset, OtherLeg, Request, FirstAsks]);
    let open = ledger.store.open_questions(&ledger.conversation).unwrap();
    let open = open
        .iter()
        .filter(|open| open.question.state == QuestionState::Open);
    assert_eq!(open.count(), 2);
}
