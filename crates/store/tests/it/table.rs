//! The decision, row by row: what is asked, and what the ledger replies. `docs/policies.md` shows what these tests print.

use crate::ledger::Act::{
    Abandon, AbandonNext, Accepts, Back, CallsBack, CallsBackFailed, CallsBackInDoubt, Cancels,
    Crash, EndsInDoubt, Fails, FailsForNow, FindsIt, FindsNoAnswer, FindsNothing, FirstFails,
    FirstSucceeds, Heard, LooksUp, NearKey, Nested, NestedConsent, NestedOtherWords, No, NoToFirst,
    Now, OldConnection, Onset, OtherKey, OtherLeg, OtherWords, Passes, Reconnect, Request,
    SameAnswer, SameCommand, SameMessage, SameMessageOtherWords, Settles, Succeeds, Taint,
    TakenOver, ThirdKey, Upgrade, Withdraw, Yes, YesAgain, YesChanged, YesElsewhere, YesForged,
    YesNotAllowed, YesToFirst, YesUnknownTool,
};
use crate::ledger::{Act, HOUR_MS, LANDING_MS, LEASE_MS, Ledger, PLAIN, Policy, QUESTION_MS};
use expect_test::{ExpectFile, expect_file};

/// One line of the table.
struct Line {
    row: &'static str,
    when: &'static str,
    policy: Policy,
    acts: &'static [Act],
}

const fn line(row: &'static str, when: &'static str, acts: &'static [Act]) -> Line {
    with(PLAIN, row, when, acts)
}

const fn with(policy: Policy, row: &'static str, when: &'static str, acts: &'static [Act]) -> Line {
    Line {
        row,
        when,
        policy,
        acts,
    }
}

/// Prints the reply to the last act of each line.
fn check(lines: &[Line], expected: &ExpectFile) {
    let mut table = "| row | when | reply |\n| --- | --- | --- |\n".to_owned();
    for line in lines {
        let reply = Ledger::new(line.policy).all(line.acts);
        table += &format!("| {} | {} | {reply} |\n", line.row, line.when);
    }
    expected.assert_eq(&table);
}

const CONSENT: Policy = Policy {
    consent: true,
    ..PLAIN
};
const REPEATABLE: Policy = Policy {
    repeatable: true,
    ..PLAIN
};
const REPEATABLE_CONSENT: Policy = Policy {
    repeatable: true,
    ..CONSENT
};
const IDEMPOTENT: Policy = Policy {
    idempotent: true,
    ..PLAIN
};
const LOOKUP: Policy = Policy {
    lookup: true,
    ..PLAIN
};
const LOOKUP_IDEMPOTENT: Policy = Policy {
    idempotent: true,
    ..LOOKUP
};
const LOOKUP_CONSENT: Policy = Policy {
    lookup: true,
    ..CONSENT
};
const ALONE: Policy = Policy {
    can_ask: false,
    ..PLAIN
};
const ALONE_CONSENT: Policy = Policy {
    can_ask: false,
    ..CONSENT
};
const ALONE_LOOKUP: Policy = Policy {
    can_ask: false,
    ..LOOKUP
};
const OVER_BUDGET: Policy = Policy {
    may_run: false,
    ..PLAIN
};
const OVER_BUDGET_CONSENT: Policy = Policy {
    may_run: false,
    ..CONSENT
};
const READS: Policy = Policy {
    writes: false,
    ..PLAIN
};
const READS_CONSENT: Policy = Policy {
    writes: false,
    ..CONSENT
};
const TASK: Policy = Policy {
    background: true,
    ..PLAIN
};
const REPEATABLE_TASK: Policy = Policy {
    repeatable: true,
    ..TASK
};
const READ_TASK: Policy = Policy {
    writes: false,
    ..TASK
};
const READ_TASK_CONSENT: Policy = Policy {
    consent: true,
    ..READ_TASK
};
const IGNORES_EXTERNAL: Policy = Policy {
    ignores_external: true,
    ..PLAIN
};

/// Within which the next attempt begins.
const PAUSE_MS: u64 = 60_000;
/// When a lookup's finding counts.
const LANDED_MS: u64 = LEASE_MS + LANDING_MS;

#[test]
fn requests() {
    #[rustfmt::skip]
    let lines = [
        line("1", "another has taken the leg over", &[Onset, TakenOver, Request]),
        line("2", "the reply to a run was lost", &[Request, SameCommand]),
        with(CONSENT, "2", "the reply to a question was lost", &[Request, SameCommand]),
        with(CONSENT, "2", "the same, and the user has said no since", &[Request, No, SameCommand]),
        line("2", "the reply to a replay was lost", &[Request, Succeeds, Request, SameCommand]),
        line("2", "it was given up before it came", &[AbandonNext, Request]),
        line("2", "it was given up, and comes again", &[Request, Abandon, SameCommand]),
        line("3", "one message, other arguments", &[Request, SameMessageOtherWords]),
        line("3", "the same id of another connection, other arguments", &[Request, Succeeds, Heard, Reconnect, SameMessageOtherWords]),
        line("4", "the message again, running", &[Request, SameMessage]),
        line("4", "the message again, done", &[Request, Succeeds, Heard, SameMessage]),
        line("4", "the message again, done, in a later turn", &[Request, Succeeds, Heard, Onset, SameMessage]),
        line("4", "the message again, which a replay has answered, in a later turn", &[Request, Succeeds, Request, Heard, Onset, SameMessage]),
        line("4", "the message again, not done", &[Request, Fails, SameMessage]),
        line("4", "the message again, unknown", &[Request, EndsInDoubt, SameMessage]),
        with(CONSENT, "4", "the message again, asked", &[Request, SameMessage]),
        with(CONSENT, "4", "the message again, denied", &[Request, No, Onset, SameMessage]),
        line("4", "the message again, denied, and an earlier attempt has succeeded since", &[Request, EndsInDoubt, Request, No, FirstSucceeds, SameMessage]),
        with(CONSENT, "4", "the message again, which a denial has answered, in a later turn", &[Request, No, Request, Onset, SameMessage]),
        with(CONSENT, "4", "the message again, approved and done", &[Request, Yes, Succeeds, Heard, Onset, SameMessage]),
        line("5", "nested, none", &[Nested]),
        line("5", "nested, running", &[Nested, Nested]),
        line("5", "nested, a service has accepted it", &[Nested, Accepts(HOUR_MS), Nested]),
        line("5", "nested, done", &[Nested, Succeeds, Onset, Nested]),
        line("5", "nested, not done", &[Nested, Fails, Nested]),
        line("5", "nested, unknown", &[Nested, EndsInDoubt, Nested]),
        with(LOOKUP, "5", "nested, unknown, with `lookup`", &[Nested, EndsInDoubt, Nested]),
        with(LOOKUP, "5", "nested, the lookup found nothing", &[Nested, Passes(LANDED_MS), Nested, FindsNothing, Nested]),
        with(LOOKUP_IDEMPOTENT, "5", "nested, the lookup found nothing, `idempotent`", &[Nested, Passes(LANDED_MS), Nested, FindsNothing, Nested]),
        line("5", "nested, other arguments", &[Nested, NestedOtherWords]),
        line("5", "nested, needs consent", &[NestedConsent]),
        with(OVER_BUDGET, "5", "nested, over budget", &[Nested]),
        line("5", "not nested, the arguments of a nested one", &[Nested, Succeeds, Request]),
        with(REPEATABLE, "6", "`repeatable`, done, asked for again", &[Request, Succeeds, Request]),
        with(REPEATABLE, "6", "`repeatable`, running, asked for again", &[Request, Request]),
        with(REPEATABLE, "6", "`repeatable`, unknown, asked for again", &[Request, EndsInDoubt, Request]),
        with(REPEATABLE, "6", "`repeatable`, the message again", &[Request, Succeeds, SameMessage]),
        with(REPEATABLE, "6", "`repeatable`, the message again, running", &[Request, SameMessage]),
        with(REPEATABLE, "6", "`repeatable`, the message again, unknown", &[Request, EndsInDoubt, SameMessage]),
        with(REPEATABLE, "6", "`repeatable`, running, asked for before a reconnect", &[Request, Reconnect, Request]),
        with(REPEATABLE, "6", "`repeatable`, done, asked for before a reconnect and not heard of", &[Request, Succeeds, Reconnect, Request]),
        with(REPEATABLE, "6", "`repeatable`, done, asked for before a reconnect and heard of", &[Request, Succeeds, Heard, Reconnect, Request]),
        with(REPEATABLE_CONSENT, "6", "`repeatable`, needs consent, asked for again while asked", &[Request, Request]),
        with(REPEATABLE_CONSENT, "6", "`repeatable`, needs consent, asked for again while running", &[Request, Yes, Request]),
        with(REPEATABLE_CONSENT, "6", "`repeatable`, denied, same turn", &[Request, No, Request]),
        line("7", "running", &[Request, Request]),
        line("7", "running, later turn", &[Request, Onset, Request]),
        line("7", "running, other words", &[Request, OtherWords]),
        line("7", "running, another leg asks", &[Request, OtherLeg, Onset, Request]),
        with(ALONE, "7", "running, nobody to ask", &[Request, Request]),
        with(CONSENT, "7", "running after an approval", &[Request, Yes, Request]),
        line("7", "a service has accepted it", &[Request, Accepts(HOUR_MS), Request]),
        line("7", "the same, later turn, another leg asks", &[Request, Accepts(HOUR_MS), OtherLeg, Onset, Request]),
        line("7", "the same, and the process that asked is dead", &[Request, Accepts(HOUR_MS), Crash, Onset, Request]),
        line("7", "the same, and its service has called back", &[Request, Accepts(HOUR_MS), Crash, CallsBack, Onset, Request]),
        with(TASK, "7", "`background`, running, later turn", &[Request, Onset, Request]),
        with(READ_TASK, "7", "`background`, no side effects, running, later turn", &[Request, Onset, Request]),
        with(TASK, "7", "`background`, running, cancelled", &[Request, Cancels, Onset, Request]),
        line("8", "a service has accepted it, and its time is over", &[Request, Accepts(HOUR_MS), Passes(HOUR_MS), Request]),
        line("8", "running, the lease is over", &[Request, Passes(LEASE_MS), Request]),
        line("8", "running, the lease is almost over", &[Request, Passes(LEASE_MS - 1), Request]),
        line("8", "running, its process is dead", &[Request, Crash, Request]),
        with(LOOKUP, "8", "the same, with `lookup`", &[Request, Crash, Request]),
        with(ALONE, "8", "the same, nobody to ask", &[Request, Crash, Request]),
        with(CONSENT, "9", "asked, same arguments", &[Request, Request]),
        with(CONSENT, "9", "asked, later turn", &[Request, Onset, Request]),
        with(CONSENT, "9", "asked, time extended", &[Request, Passes(QUESTION_MS - 1), Request, Passes(QUESTION_MS - 1), Request]),
        with(CONSENT, "9", "asked, the time was up", &[Request, Passes(QUESTION_MS), Request]),
        with(LOOKUP_IDEMPOTENT, "9", "asked because it may have happened, and a lookup has found nothing since, `idempotent`", &[Request, EndsInDoubt, LooksUp, FindsNothing, Request, Passes(LANDED_MS), LooksUp, FindsNothing, Request]),
        with(LOOKUP, "9", "the same, not `idempotent`", &[Request, EndsInDoubt, LooksUp, FindsNothing, Request, Passes(LANDED_MS), LooksUp, FindsNothing, Request]),
        with(LOOKUP, "9", "the same, and the lookup has found that it happened", &[Request, EndsInDoubt, LooksUp, FindsNothing, Request, FindsIt, Request]),
        with(LOOKUP, "9", "the same, and a yes to the request that was closed", &[Request, EndsInDoubt, LooksUp, FindsNothing, Request, FindsIt, Request, Yes]),
        with(CONSENT, "9", "asked, external content came since", &[Request, Taint, Request]),
        with(CONSENT, "9", "asked, the tool has another version", &[Request, Upgrade, Request]),
        with(CONSENT, "10", "asked, other arguments in the same user turn", &[Onset, Request, OtherWords]),
        with(CONSENT, "10", "the same, and a yes", &[Onset, Request, OtherWords, Yes]),
        with(CONSENT, "10", "asked, other arguments in the same turn, external content came since", &[Onset, Request, Taint, OtherWords]),
        with(CONSENT, "10", "asked, other arguments in a later user turn", &[Onset, Request, Onset, OtherWords]),
        with(CONSENT, "10", "a yes to the older of two", &[Onset, Request, Onset, OtherWords, YesToFirst]),
        with(CONSENT, "10", "a yes to the newer of two", &[Onset, Request, Onset, OtherWords, Yes]),
        with(CONSENT, "10", "asked again in a later turn, then other arguments in that turn", &[Onset, Request, Onset, Passes(1), Request, OtherWords]),
        with(CONSENT, "11", "denied, same turn", &[Onset, Request, No, Request]),
        with(CONSENT, "11", "denied, same turn, third time", &[Request, No, Request, Request]),
        with(CONSENT, "11", "denied, later turn", &[Request, No, Onset, Request]),
        with(CONSENT, "11", "denied, same turn, another leg", &[Request, No, OtherLeg, Request]),
        line("11", "denied to do it again, same turn", &[Request, Succeeds, Heard, Onset, Request, No, Request]),
        line("11", "denied, and an earlier attempt has succeeded since", &[Request, EndsInDoubt, Request, No, FirstSucceeds, Request]),
        with(LOOKUP, "12", "unknown, with `lookup`", &[Request, EndsInDoubt, Request]),
        with(ALONE_LOOKUP, "12", "the same, nobody to ask", &[Request, EndsInDoubt, Request]),
        with(LOOKUP, "12", "the same, and the handler is being asked", &[Request, EndsInDoubt, Request, Request]),
        with(LOOKUP, "12", "it found that it happened", &[Request, EndsInDoubt, Request, FindsIt, SameCommand]),
        with(LOOKUP, "12", "it found nothing before it could have landed", &[Request, EndsInDoubt, Request, FindsNothing, SameCommand]),
        with(LOOKUP, "12", "the same, and by now it would have landed", &[Request, EndsInDoubt, Request, FindsNothing, Passes(LANDED_MS), Request]),
        with(LOOKUP, "12", "it found nothing, asked before it could have landed, and says so after that", &[Request, EndsInDoubt, Request, Passes(LANDED_MS), FindsNothing, SameCommand]),
        with(LOOKUP, "12", "it found nothing after it would have landed", &[Request, Passes(LANDED_MS), Request, FindsNothing, SameCommand]),
        with(LOOKUP_IDEMPOTENT, "12", "the same, `idempotent`", &[Request, Passes(LANDED_MS), Request, FindsNothing, SameCommand]),
        with(ALONE_LOOKUP, "12", "the same, nobody to ask", &[Request, Passes(LANDED_MS), Request, FindsNothing, SameCommand]),
        with(LOOKUP_IDEMPOTENT, "12", "it found nothing, `idempotent`, and another version of the tool asks", &[Request, Passes(LANDED_MS), Request, FindsNothing, Upgrade, Request]),
        with(LOOKUP, "12", "it found nothing, and the attempt's process says that it failed", &[Request, Passes(LANDED_MS), Request, FindsNothing, Fails, SameCommand]),
        with(LOOKUP, "12", "it did not know", &[Request, Passes(LANDED_MS), Request, FindsNoAnswer, SameCommand]),
        line("13", "unknown", &[Request, EndsInDoubt, Request]),
        line("13", "unknown, later turn", &[Request, EndsInDoubt, Heard, Onset, Request]),
        line("13", "unknown, other words", &[Request, EndsInDoubt, OtherWords]),
        with(ALONE, "13", "unknown, nobody to ask", &[Request, EndsInDoubt, Request]),
        with(IDEMPOTENT, "13", "unknown, `idempotent`", &[Request, EndsInDoubt, Request]),
        with(TASK, "13", "`background`, cancelled while a service had it", &[Request, Accepts(HOUR_MS), Cancels, Onset, Request]),
        with(TASK, "15", "the same, and its service has called back", &[Request, Accepts(HOUR_MS), Cancels, CallsBack, Heard, Onset, Request]),
        line("14", "done, same turn, not heard", &[Onset, Request, Succeeds, Request]),
        line("14", "done, same turn, heard", &[Onset, Request, Succeeds, Heard, Request]),
        line("14", "done, later turn, not heard", &[Onset, Request, Succeeds, Onset, Request]),
        line("14", "done, no user turn yet, heard", &[Request, Succeeds, Heard, Request]),
        line("14", "done, same turn, other words", &[Onset, Request, Succeeds, Heard, OtherWords]),
        line("14", "done while the next turn had begun, heard", &[Onset, Request, Onset, Succeeds, Heard, Request]),
        line("15", "done, later turn", &[Onset, Request, Succeeds, Heard, Onset, Request]),
        line("15", "done, later turn, another leg", &[Onset, Request, Succeeds, Heard, OtherLeg, Onset, Request]),
        line("14", "done, later turn, replayed in it", &[Request, Succeeds, Onset, Request, Heard, Request]),
        with(ALONE, "15", "done, later turn, nobody to ask", &[Onset, Request, Succeeds, Heard, Onset, Request]),
        line("15", "done, later turn, over budget", &[Onset, Request, Succeeds, Heard, Onset, Now(OVER_BUDGET), Request]),
        line("16", "not done, an older one done", &[Request, Succeeds, Heard, Onset, Request, Yes, Fails, Request]),
        line("16", "not done, an older one unknown, which was named", &[Request, EndsInDoubt, Request, Yes, Fails, Request]),
        with(LOOKUP, "16", "not found by a lookup, but may still land, an older one done, nobody to ask", &[Request, Succeeds, Heard, Onset, Request, Yes, Passes(LANDED_MS), Settles, LooksUp, FindsNothing, Now(ALONE_LOOKUP), Request]),
        line("17", "another key of the tool, running since before a reconnect", &[Onset, Request, Reconnect, OtherKey]),
        line("17", "the same, done and not heard of", &[Onset, Request, Succeeds, Reconnect, OtherKey]),
        line("17", "the same, heard of", &[Onset, Request, Succeeds, Heard, Reconnect, OtherKey]),
        line("17", "the same, not done", &[Onset, Request, Fails, Reconnect, OtherKey]),
        with(LOOKUP, "17", "the same, not found by a lookup, but may still land", &[Onset, Request, Passes(LANDED_MS), Request, FindsNothing, Reconnect, OtherKey]),
        line("17", "the same, in another turn", &[Onset, Request, Reconnect, Onset, OtherKey]),
        line("17", "no reconnect", &[Onset, Request, OtherKey]),
        line("17", "near the key, running, same turn", &[Onset, Request, NearKey]),
        line("17", "near the key, done and heard of, same turn", &[Onset, Request, Succeeds, Heard, NearKey]),
        line("17", "near the key, done, later turn", &[Onset, Request, Succeeds, Heard, Onset, NearKey]),
        line("17", "near the key, done and not heard of, later turn", &[Onset, Request, Succeeds, Onset, NearKey]),
        line("17", "near the key, done, later turn, replayed in it", &[Onset, Request, Succeeds, Onset, Request, Heard, NearKey]),
        line("17", "near the key, done, later turn, asked about in it", &[Onset, Request, Succeeds, Heard, Onset, Request, NearKey]),
        line("17", "near the key, done, later turn, refused in it", &[Onset, Request, Succeeds, Heard, Onset, Request, No, NearKey]),
        line("17", "near the key, done, nobody has spoken", &[Request, Succeeds, Heard, NearKey]),
        line("17", "near the key, running, later turn", &[Onset, Request, Onset, NearKey]),
        line("17", "near the key, unknown, later turn", &[Onset, Request, EndsInDoubt, Onset, NearKey]),
        line("17", "near the key, not done, same turn", &[Onset, Request, Fails, NearKey]),
        with(CONSENT, "17", "near the key, done, same turn, needs consent", &[Onset, Request, Yes, Succeeds, NearKey]),
        with(REPEATABLE, "17", "near the key, `repeatable`", &[Onset, Request, Succeeds, NearKey]),
        with(ALONE, "17", "near the key, nobody to ask", &[Onset, Request, NearKey]),
        with(CONSENT, "17", "the same, approved, running", &[Onset, Request, Yes, Reconnect, OtherKey]),
        line("17", "the older connection's request comes last", &[Onset, Reconnect, Request, OldConnection, OtherKey]),
        with(ALONE, "17", "nobody to ask", &[Onset, Request, Reconnect, OtherKey]),
        with(CONSENT, "18", "none, needs consent", &[Request]),
        with(ALONE_CONSENT, "18", "none, needs consent, nobody to ask", &[Request]),
        line("18", "none, external content", &[Taint, Request]),
        with(ALONE, "18", "none, external content, nobody to ask", &[Taint, Request]),
        with(IGNORES_EXTERNAL, "18", "none, external content, which it may ignore", &[Taint, Request]),
        with(READS, "18", "no side effects, external content", &[Taint, Request]),
        with(READS_CONSENT, "18", "no side effects, needs consent", &[Request]),
        with(OVER_BUDGET_CONSENT, "18", "needs consent, over budget", &[Request]),
        with(CONSENT, "18", "not done after an approval", &[Request, Yes, Fails, Request]),
        line("19", "none", &[Request]),
        line("19", "not done", &[Request, Fails, Request]),
        with(OVER_BUDGET, "19", "none, over budget", &[Request]),
        with(READS, "19", "no side effects", &[Request]),
        with(READS, "19", "no side effects, again", &[Request, Request]),
        with(READ_TASK, "19", "`background`, no side effects", &[Request]),
        with(READ_TASK, "19", "`background`, no side effects, external content", &[Taint, Request]),
        with(READ_TASK, "19", "`background`, no side effects, done, same turn", &[Onset, Request, Succeeds, Heard, Request]),
        with(READ_TASK, "19", "`background`, no side effects, its process is dead", &[Request, Crash, Request]),
        with(READ_TASK_CONSENT, "18", "`background`, no side effects, needs consent", &[Request]),
        line("19", "another key, same turn", &[Onset, Request, Succeeds, OtherKey]),
    ];
    check(&lines, &expect_file!["table/requests.md"]);
}

#[test]
fn answers() {
    #[rustfmt::skip]
    let lines = [
        with(CONSENT, "20", "token tampered with", &[Request, YesForged]),
        with(CONSENT, "20", "token of another conversation", &[Request, YesElsewhere]),
        with(CONSENT, "20", "time is up", &[Request, Passes(QUESTION_MS), Yes]),
        with(CONSENT, "20", "time is almost up", &[Request, Passes(QUESTION_MS - 1), Yes]),
        with(CONSENT, "20", "withdrawn", &[Request, Withdraw, Yes]),
        with(CONSENT, "20", "another version of the tool", &[Request, YesChanged]),
        with(CONSENT, "20", "the same again, its reply was lost", &[Request, YesChanged, SameAnswer]),
        with(CONSENT, "20", "the tool is gone", &[Request, YesUnknownTool]),
        with(CONSENT, "20", "no", &[Request, No]),
        with(CONSENT, "20", "yes, what is near the key was done since", &[Onset, Request, NearKey, Yes, Succeeds, YesToFirst]),
        with(CONSENT, "20", "no, its reply was lost", &[Request, No, SameAnswer]),
        with(CONSENT, "20", "no, then yes", &[Request, No, Yes]),
        with(CONSENT, "20", "yes", &[Request, Yes]),
        with(CONSENT, "20", "yes, its reply was lost", &[Request, Yes, SameAnswer]),
        with(CONSENT, "20", "yes, given up before it came", &[Request, AbandonNext, Yes]),
        with(CONSENT, "20", "yes, given up, and it comes again", &[Request, Yes, Abandon, SameAnswer]),
        with(CONSENT, "20", "yes, over the rate limit", &[Request, YesNotAllowed]),
        with(CONSENT, "20", "the same, and again later", &[Request, YesNotAllowed, Yes]),
        with(CONSENT, "20", "yes, with another leg of the conversation", &[Request, OtherLeg, Yes]),
        with(CONSENT, "20", "yes, to another process", &[Request, Crash, Yes]),
        with(CONSENT, "20", "yes twice, running", &[Request, Yes, Yes]),
        with(CONSENT, "20", "yes twice, done", &[Request, Yes, Succeeds, Yes]),
        with(CONSENT, "20", "yes twice, not done", &[Request, Yes, Fails, Yes]),
        with(CONSENT, "20", "yes twice, unknown", &[Request, Yes, EndsInDoubt, Yes]),
        with(CONSENT, "20", "yes, then no", &[Request, Yes, No]),
        with(CONSENT, "20", "yes, external content since", &[Request, Taint, Yes]),
        with(CONSENT, "20", "the same, of another key's change that it named", &[Request, Yes, Reconnect, OtherKey, Taint, Yes]),
        with(CONSENT, "20", "the same, its reply was lost", &[Request, Taint, Yes, SameAnswer]),
        with(CONSENT, "20", "the same, yes to the question that names it", &[Request, Taint, Yes, Yes]),
        with(CONSENT, "20", "yes, another key was approved since", &[Onset, Request, OtherKey, YesToFirst, Yes]),
        with(CONSENT, "20", "the same, an older connection's", &[Onset, Request, Reconnect, OtherKey, YesToFirst, Yes]),
        with(CONSENT, "20", "the same, yes to the question that names it", &[Onset, Request, Reconnect, OtherKey, YesToFirst, Yes, Yes]),
        with(CONSENT, "20", "the same, a newer connection's", &[Onset, Request, Reconnect, OtherKey, Yes, YesToFirst]),
        with(CONSENT, "20", "the same, not done", &[Onset, Request, Reconnect, OtherKey, Yes, Fails, YesToFirst]),
        with(LOOKUP_CONSENT, "20", "the same, not found by a lookup, but may still land", &[Onset, Request, Reconnect, OtherKey, Yes, Passes(LANDED_MS), Settles, LooksUp, FindsNothing, YesToFirst]),
        with(CONSENT, "20", "the same, in another turn", &[Onset, Request, Reconnect, Onset, OtherKey, Yes, YesToFirst]),
        line("20", "yes, the older connection began another key since", &[Onset, Request, Reconnect, OtherKey, OldConnection, ThirdKey, Yes]),
        line("20", "the same, yes to the question that names it", &[Onset, Request, Reconnect, OtherKey, OldConnection, ThirdKey, Yes, Yes]),
        line("20", "yes to another try at what may have happened", &[Request, EndsInDoubt, Request, Yes]),
        line("20", "the same, and it has happened since", &[Request, EndsInDoubt, Request, FirstSucceeds, Yes]),
        line("20", "yes to doing it again", &[Request, Succeeds, Heard, Onset, Request, Yes]),
        line("20", "no to doing it again", &[Request, Succeeds, Heard, Onset, Request, No]),
        with(CONSENT, "20", "yes, and an earlier attempt has succeeded since", &[Request, Yes, Fails, Request, FirstSucceeds, Yes]),
        line("20", "approval after a denial, and an earlier attempt has succeeded since", &[Request, EndsInDoubt, Request, No, FirstSucceeds, Yes]),
        with(CONSENT, "20", "yes, and a lookup has found that it happened", &[Request, Yes, Fails, Request, FindsIt, Yes]),
        with(CONSENT, "20", "no to the newer of two", &[Onset, Request, Onset, OtherWords, No]),
        with(CONSENT, "20", "no to the older of two", &[Onset, Request, Onset, OtherWords, NoToFirst]),
        with(READS_CONSENT, "20", "yes, no side effects", &[Request, Yes]),
        with(READS_CONSENT, "20", "the same, its reply was lost", &[Request, Yes, SameAnswer]),
        with(READS_CONSENT, "20", "yes twice, no side effects", &[Request, Yes, Yes]),
        with(READS_CONSENT, "18", "no side effects, asked for again after a yes", &[Request, Yes, Request]),
        with(READ_TASK_CONSENT, "20", "yes, `background`, no side effects", &[Request, Yes]),
        with(READ_TASK_CONSENT, "20", "yes twice, `background`, no side effects, done", &[Request, Yes, Succeeds, Yes]),
        with(REPEATABLE_CONSENT, "20", "yes, `repeatable`, while one runs", &[Request, Yes, Request, Yes]),
        with(REPEATABLE_CONSENT, "20", "yes, `repeatable`, after one in doubt", &[Request, Yes, EndsInDoubt, Request, Yes]),
    ];
    check(&lines, &expect_file!["table/answers.md"]);
}

#[test]
fn records() {
    #[rustfmt::skip]
    let lines = [
        line("Record", "success", &[Request, Succeeds]),
        line("Record", "success, twice", &[Request, Succeeds, Succeeds]),
        line("Record", "failure", &[Request, Fails]),
        line("Record", "doubt", &[Request, EndsInDoubt]),
        line("Record", "failure after success", &[Request, Succeeds, Fails]),
        line("Record", "success after failure", &[Request, Fails, Succeeds]),
        line("Record", "doubt after failure", &[Request, Fails, EndsInDoubt]),
        line("Record", "failure after doubt", &[Request, EndsInDoubt, Fails]),
        line("Record", "success after the lease", &[Request, Passes(LEASE_MS), Settles, Succeeds]),
        line("Record", "failure after the lease", &[Request, Passes(LEASE_MS), Settles, Fails]),
        line("Record", "success of a process that was taken for dead", &[Request, Crash, Settles, Succeeds]),
        line("Record", "of a leg that was taken over", &[Request, TakenOver, Succeeds]),
        line("Record", "failure, an older attempt in doubt", &[Request, EndsInDoubt, Request, Yes, Fails]),
        line("Record", "the same, and the older one has failed too", &[Request, EndsInDoubt, Request, Yes, Fails, FirstFails]),
        line("Record", "success of an older attempt while a newer runs", &[Request, EndsInDoubt, Request, Yes, FirstSucceeds]),
        line("Record", "the same, then the newer fails", &[Request, EndsInDoubt, Request, Yes, FirstSucceeds, Fails]),
        line("Record", "failure of an older attempt while a newer runs", &[Request, EndsInDoubt, Request, Yes, FirstFails]),
        line("Retry", "an attempt has failed, and its wait is over", &[Request, Fails, SameMessage]),
        line("Retry", "the same, and the wait was longer than the lease", &[Request, Fails, Passes(LEASE_MS), Settles, SameMessage]),
        line("Retry", "its reply was lost", &[Request, Fails, SameMessage, SameCommand]),
        line("Retry", "the process died while it waited", &[Request, Fails, Crash, Settles]),
        line("Retry", "another request has begun the next attempt meanwhile", &[Request, Fails, Request, SameMessage]),
        line("Retry", "and that one has done it", &[Request, Fails, Request, Succeeds, SameMessage]),
        line("Retry", "external content was read meanwhile", &[Request, Fails, Taint, SameMessage]),
        line("Retry", "given up before it came", &[Request, Fails, AbandonNext, SameMessage]),
        line("Retry", "given up after it came", &[Request, Fails, SameMessage, Abandon]),
        line("Retry", "then failure", &[Request, Fails, SameMessage, Fails]),
        line("Retry", "a new lease", &[Request, Passes(LEASE_MS - 1), Fails, SameMessage, Passes(2), Request]),
        with(CONSENT, "Retry", "of an approved attempt", &[Request, Yes, Fails, YesAgain]),
        with(CONSENT, "Retry", "the same, its reply was lost", &[Request, Yes, Fails, YesAgain, SameAnswer]),
        with(CONSENT, "Retry", "the same, the request's time is over", &[Request, Yes, Fails, Passes(QUESTION_MS), YesAgain]),
        with(CONSENT, "Retry", "of an approved attempt that runs", &[Request, Yes, YesAgain]),
        with(CONSENT, "Retry", "of an approved attempt in doubt", &[Request, Yes, EndsInDoubt, YesAgain]),
        with(CONSENT, "Retry", "of an approved attempt, external content was read meanwhile", &[Request, Yes, Fails, Taint, YesAgain]),
        with(CONSENT, "Retry", "of an approved attempt, and the tool has changed", &[Request, Yes, Fails, Upgrade, YesAgain]),
        with(CONSENT, "Retry", "no retry: an approval that is used up, once more", &[Request, Yes, Fails, Yes]),
        with(REPEATABLE_CONSENT, "Retry", "of an approved attempt, `repeatable`", &[Request, Yes, Fails, YesAgain]),
        with(TASK, "Pause", "a task's attempt has failed, and another is to follow", &[Request, FailsForNow(PAUSE_MS)]),
        with(PLAIN, "Pause", "the same, of what is no task", &[Request, FailsForNow(PAUSE_MS)]),
        with(TASK, "Pause", "its wait is over", &[Request, FailsForNow(PAUSE_MS), SameMessage]),
        with(TASK, "Pause", "the same, and its reply was lost", &[Request, FailsForNow(PAUSE_MS), SameMessage, SameCommand]),
        with(TASK, "Pause", "another leg asks for the same meanwhile", &[Request, FailsForNow(PAUSE_MS), OtherLeg, Request]),
        with(TASK, "Pause", "another message of its leg asks for the same meanwhile", &[Request, FailsForNow(PAUSE_MS), Request]),
        with(REPEATABLE_TASK, "Pause", "the same, `repeatable`", &[Request, FailsForNow(PAUSE_MS), Request]),
        with(REPEATABLE_TASK, "Pause", "its wait is over, `repeatable`", &[Request, FailsForNow(PAUSE_MS), SameMessage]),
        with(TASK, "Pause", "nothing follows", &[Request, FailsForNow(PAUSE_MS), Fails]),
        with(TASK, "Pause", "nobody says whether anything follows", &[Request, FailsForNow(PAUSE_MS), Passes(PAUSE_MS), Settles]),
        with(TASK, "Pause", "a moment before its end", &[Request, FailsForNow(PAUSE_MS), Passes(PAUSE_MS - 1), Settles]),
        with(TASK, "Pause", "the process died while it waited", &[Request, FailsForNow(PAUSE_MS), Crash, Settles]),
        with(TASK, "Pause", "the same, and then it asks all the same", &[Request, FailsForNow(PAUSE_MS), Passes(PAUSE_MS), Settles, SameMessage]),
        with(TASK, "Pause", "the attempt has succeeded after all", &[Request, FailsForNow(PAUSE_MS), Succeeds]),
        with(TASK, "Pause", "the user wants no more of it", &[Request, FailsForNow(PAUSE_MS), Cancels]),
        with(TASK, "Pause", "external content was read meanwhile", &[Request, FailsForNow(PAUSE_MS), Taint, SameMessage]),
        with(TASK, "Pause", "an older attempt is in doubt", &[Request, FailsForNow(PAUSE_MS), SameMessage, EndsInDoubt]),
        with(TASK, "Pause", "then failure", &[Request, FailsForNow(PAUSE_MS), SameMessage, Fails]),
        with(READ_TASK, "Pause", "of what changes nothing", &[Request, FailsForNow(PAUSE_MS), SameMessage]),
        with(READ_TASK_CONSENT, "Pause", "of what changes nothing and was approved", &[Request, Yes, FailsForNow(PAUSE_MS), YesAgain]),
        line("Record", "a service has accepted it", &[Request, Accepts(HOUR_MS)]),
        line("Record", "the same, after the lease", &[Request, Passes(LEASE_MS), Settles, Accepts(HOUR_MS)]),
        line("Record", "the same, after doubt", &[Request, EndsInDoubt, Accepts(HOUR_MS)]),
        line("CalledBack", "success", &[Request, Accepts(HOUR_MS), CallsBack]),
        line("CalledBack", "failure", &[Request, Accepts(HOUR_MS), CallsBackFailed]),
        line("CalledBack", "doubt", &[Request, Accepts(HOUR_MS), CallsBackInDoubt]),
        line("CalledBack", "twice", &[Request, Accepts(HOUR_MS), CallsBack, CallsBack]),
        line("CalledBack", "failure after success", &[Request, Accepts(HOUR_MS), CallsBack, CallsBackFailed]),
        line("CalledBack", "success after failure", &[Request, Accepts(HOUR_MS), CallsBackFailed, CallsBack]),
        line("CalledBack", "failure, told once more while the next attempt runs", &[Request, Accepts(HOUR_MS), CallsBackFailed, Request, CallsBackFailed]),
        line("CalledBack", "the same, and that attempt's process says that it failed", &[Request, Accepts(HOUR_MS), CallsBackFailed, Request, CallsBackFailed, Fails]),
        line("CalledBack", "failure of a further attempt", &[Request, Accepts(HOUR_MS), CallsBackFailed, Request, Accepts(HOUR_MS), CallsBackFailed]),
        line("CalledBack", "the same, then success", &[Request, Accepts(HOUR_MS), CallsBackFailed, Request, Accepts(HOUR_MS), CallsBackFailed, CallsBack]),
        line("CalledBack", "before the service was known to have accepted it", &[Request, CallsBack]),
        line("CalledBack", "the same, and then it is", &[Request, CallsBack, Accepts(HOUR_MS)]),
        line("CalledBack", "a failure before, and then it is", &[Request, CallsBackFailed, Accepts(HOUR_MS)]),
        line("CalledBack", "its acceptance was never heard of", &[Request, EndsInDoubt, CallsBack]),
        line("CalledBack", "a moment before its time is over", &[Request, Accepts(HOUR_MS), Passes(HOUR_MS - 1), CallsBack]),
        line("CalledBack", "when its time is over", &[Request, Accepts(HOUR_MS), Passes(HOUR_MS), CallsBack]),
        line("CalledBack", "when its time is over, and the sweep has seen that", &[Request, Accepts(HOUR_MS), Passes(HOUR_MS), Settles, CallsBack]),
        line("CalledBack", "it wanted more than a day, a moment before a day has passed", &[Request, Accepts(48 * HOUR_MS), Passes(24 * HOUR_MS - 1), CallsBack]),
        line("CalledBack", "it wanted more than a day, and a day has passed", &[Request, Accepts(48 * HOUR_MS), Passes(24 * HOUR_MS), CallsBack]),
        line("CalledBack", "after its process has died", &[Request, Accepts(HOUR_MS), Crash, CallsBack]),
        line("CalledBack", "after its process has died and before it had accepted", &[Request, Crash, Settles, CallsBack]),
        line("CalledBack", "after a lookup has found that it had happened", &[Request, EndsInDoubt, LooksUp, FindsIt, CallsBackFailed]),
        line("CalledBack", "of an effect that is none", &[CallsBack]),
        line("Retry", "of what a service has accepted", &[Request, Accepts(HOUR_MS), SameMessage]),
        line("Settle", "a service has accepted it, and the process that asked is dead", &[Request, Accepts(HOUR_MS), Crash, Settles]),
        line("Settle", "a service has accepted it, and its time is over", &[Request, Accepts(HOUR_MS), Passes(HOUR_MS), Settles]),
        line("Found", "it happened", &[Request, EndsInDoubt, LooksUp, FindsIt]),
        line("Found", "nothing, before it could have landed", &[Request, EndsInDoubt, LooksUp, Passes(LANDED_MS), FindsNothing]),
        line("Found", "nothing, a moment too early", &[Request, EndsInDoubt, Passes(LANDED_MS - 1), LooksUp, FindsNothing]),
        line("Found", "nothing, after it would have landed", &[Request, EndsInDoubt, Passes(LANDED_MS), LooksUp, FindsNothing]),
        line("Found", "nothing, and a newer attempt has begun since it was asked", &[Request, EndsInDoubt, Passes(LANDED_MS), LooksUp, Request, Yes, FindsNothing]),
        line("Found", "the same, and that one has ended in doubt", &[Request, EndsInDoubt, Passes(LANDED_MS), LooksUp, Request, Yes, EndsInDoubt, FindsNothing]),
        line("Found", "no answer", &[Request, EndsInDoubt, LooksUp, FindsNoAnswer]),
        line("Found", "nothing, then another lookup found it", &[Request, EndsInDoubt, Passes(LANDED_MS), LooksUp, FindsNothing, FindsIt]),
        line("Found", "it happened, then the attempt's process says that it failed", &[Request, EndsInDoubt, LooksUp, FindsIt, Fails]),
        line("Found", "it happened, while a further attempt runs", &[Request, EndsInDoubt, LooksUp, Request, Yes, FindsIt]),
        line("Found", "nothing, after success", &[Request, EndsInDoubt, Passes(LANDED_MS), LooksUp, Succeeds, FindsNothing]),
        line("LookUp", "of an effect that is done", &[Request, Succeeds, LooksUp]),
        line("Settle", "nothing has lapsed", &[Request, Settles]),
        line("Settle", "a lease is over", &[Request, Passes(LEASE_MS), Settles]),
        line("Settle", "a process is dead", &[Request, Crash, Settles]),
        line("Settle", "twice", &[Request, Crash, Settles, Settles]),
        line("Abandon", "before the request comes", &[AbandonNext]),
        line("Abandon", "after it has begun a run", &[Request, Abandon]),
        line("Abandon", "then asked for anew", &[Request, Abandon, Request]),
        with(CONSENT, "Abandon", "after an approval has begun a run", &[Request, Yes, Abandon]),
        with(CONSENT, "Abandon", "the same, then approved again", &[Request, Yes, Abandon, Yes]),
        with(CONSENT, "Abandon", "the same, the request's time is over", &[Request, Yes, Abandon, Passes(QUESTION_MS), Yes]),
        with(CONSENT, "Abandon", "of an approval whose attempt had ended", &[Request, Yes, Fails, Abandon, Yes]),
        with(CONSENT, "Abandon", "of the second attempt of an approval", &[Request, Yes, Fails, YesAgain, Abandon, Yes]),
        with(READS_CONSENT, "Abandon", "of an approval, no side effects, then approved again", &[Request, Yes, Abandon, Yes]),
        line("Abandon", "of a further attempt at what may have happened", &[Request, EndsInDoubt, Request, Yes, Abandon]),
        line("Abandon", "the same, and a lookup has found that it had happened", &[Request, EndsInDoubt, Request, Yes, FindsIt, Abandon]),
        line("Abandon", "of a retry, and a lookup has found that it had happened", &[Request, Fails, SameMessage, FindsIt, Abandon]),
        with(LOOKUP, "Abandon", "after a lookup has found nothing, then asked for anew", &[Request, Passes(LANDED_MS), Settles, LooksUp, FindsNothing, Abandon, Request]),
        line("Abandon", "twice", &[Request, Abandon, Abandon]),
        line("Abandon", "after success", &[Request, Succeeds, Abandon]),
        with(CONSENT, "Withdraw", "an open question", &[Request, Withdraw]),
        with(CONSENT, "Withdraw", "then asked for anew", &[Request, Withdraw, Request]),
        with(CONSENT, "Withdraw", "another leg's question", &[Request, OtherLeg, Withdraw, Yes]),
        with(CONSENT, "Withdraw", "an approved one", &[Request, Yes, Withdraw, Succeeds]),
        line("Heard", "while it runs, which is nothing", &[Onset, Request, Heard, Succeeds, Onset, Request]),
        line("time", "an hour forward while it runs", &[Request, Passes(HOUR_MS), Request]),
        line("time", "an hour back while it runs", &[Request, Back(HOUR_MS), Request]),
        line("time", "forward, an effect, back, and the lease passes", &[Passes(HOUR_MS), Request, Back(HOUR_MS), Passes(LEASE_MS), Request]),
        with(CONSENT, "time", "an hour back does not prolong a question", &[Request, Passes(QUESTION_MS), Onset, Back(HOUR_MS), Yes]),
    ];
    check(&lines, &expect_file!["table/records.md"]);
}

/// How it stands with a key before a request.
struct Stand {
    name: &'static str,
    acts: &'static [Act],
    /// Something has happened, or may have.
    is_hazard: bool,
}

const fn stand(name: &'static str, acts: &'static [Act], is_hazard: bool) -> Stand {
    Stand {
        name,
        acts,
        is_hazard,
    }
}

const STANDS: [Stand; 14] = [
    stand("nothing", &[Onset], false),
    stand("running", &[Onset, Request], false),
    stand("lease over", &[Onset, Request, Passes(LEASE_MS)], true),
    stand("process dead", &[Onset, Request, Crash], true),
    stand("unknown", &[Onset, Request, EndsInDoubt], true),
    stand(
        "found nothing",
        &[
            Onset,
            Request,
            Passes(LANDED_MS),
            Settles,
            LooksUp,
            FindsNothing,
        ],
        false,
    ),
    stand("not done", &[Onset, Request, Fails], false),
    stand("done, not heard", &[Onset, Request, Succeeds], true),
    stand("done, heard", &[Onset, Request, Succeeds, Heard], true),
    stand(
        "not done, older done",
        &[Onset, Request, Succeeds, Heard, Onset, Request, Yes, Fails],
        true,
    ),
    stand("asked", &[Onset, Now(CONSENT), Request], false),
    stand(
        "asked, time up",
        &[Onset, Now(CONSENT), Request, Passes(QUESTION_MS)],
        false,
    ),
    stand("denied", &[Onset, Now(CONSENT), Request, No], false),
    stand(
        "withdrawn",
        &[Onset, Now(CONSENT), Request, Withdraw],
        false,
    ),
];

/// The reply to a request where it stands so.
fn reply(stand: &Stand, is_later: bool, policy: Policy, has_external_content: bool) -> String {
    let mut ledger = Ledger::new(PLAIN);
    ledger.all(stand.acts);
    if has_external_content {
        ledger.act(Taint);
    }
    if is_later {
        ledger.act(Onset);
    }
    ledger.all(&[Now(policy), Request])
}

#[test]
fn matrix() {
    let columns = [
        ("plain", PLAIN, false),
        ("`repeatable`", REPEATABLE, false),
        ("`idempotent`", IDEMPOTENT, false),
        ("`lookup`", LOOKUP, false),
        ("consent", CONSENT, false),
        ("nobody to ask", ALONE, false),
        ("external content", PLAIN, true),
        ("over budget", OVER_BUDGET, false),
    ];
    let mut table = "| before | turn |".to_owned();
    for (name, _, _) in columns {
        table += &format!(" {name} |");
    }
    table += &format!("\n|{}\n", " --- |".repeat(columns.len() + 2));
    for stand in &STANDS {
        for (turn, is_later) in [("same", false), ("later", true)] {
            table += &format!("| {} | {turn} |", stand.name);
            for (_, policy, has_external_content) in columns {
                let reply = reply(stand, is_later, policy, has_external_content);
                table += &format!(" {reply} |");
            }
            table += "\n";
        }
    }
    expect_file!["table/matrix.md"].assert_eq(&table);
}

#[test]
fn whatever_the_policy() {
    for bits in 0..1_u32 << 8 {
        let has = |bit: u32| bits & (1 << bit) != 0;
        let policy = Policy {
            writes: true,
            background: false,
            consent: has(0),
            repeatable: has(1),
            idempotent: has(2),
            lookup: has(3),
            can_ask: has(4),
            may_run: has(5),
            ignores_external: has(6),
        };
        for (stand, is_later) in STANDS
            .iter()
            .flat_map(|stand| [(stand, false), (stand, true)])
        {
            let reply = reply(stand, is_later, policy, has(7));
            let at = format!("{}, later: {is_later}, {policy:?}: {reply}", stand.name);
            let external = has(7) && !policy.ignores_external;
            if reply.starts_with("`Run`") {
                assert!(!policy.consent && !external && policy.may_run, "{at}");
                assert!(policy.repeatable || !stand.is_hazard, "{at}");
                let may_arrive = stand.name == "found nothing" && !policy.idempotent;
                assert!(policy.repeatable || !may_arrive, "{at}");
            }
            if reply.starts_with("`Ask`") {
                assert!(policy.can_ask, "{at}");
                assert!(policy.may_run || reply.contains("again"), "{at}");
            }
        }
    }
}
