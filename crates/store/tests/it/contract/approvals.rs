//! Rules of approved reservations: what a grant lets start, once, and what it counts for no more.

use super::check;
use super::ledger::{record, refusal, try_reserve};
use crate::support::{ask, hash, outcome, proposal, reserve, warned};
use std::sync::Arc;
use windlass_store::{
    EffectState, GrantRefusal, GrantState, OutcomeState, Reserve, ReserveRefusal, Reserved,
};
use windlass_tool::id::{ConversationId, EffectId, UserId};

#[test]
fn a_grant_lets_its_own_effect_start_once() {
    check(|store| {
        let mut request = reserve("effect-1", "wish", 2_000);
        request.grant = Some(hash("token"));
        assert_eq!(refusal(try_reserve(store, &request)).0, "unknown grant");
        ask(store, |tables| tables.propose(&proposal("token", &request)));
        assert_eq!(try_reserve(store, &request), Reserved::Reserved);
        let grant = ask(store, |tables| tables.grant(&hash("token"))).unwrap();
        assert_eq!(grant.state, GrantState::Consumed);
        let running = ("consumed", Some(EffectState::Reserved));
        assert_eq!(refusal(try_reserve(store, &request)), running);
        record(store, "effect-1", OutcomeState::Succeeded);
        let Reserved::Refused(ReserveRefusal::Grant(GrantRefusal::Consumed(Some(effect)))) =
            try_reserve(store, &request)
        else {
            panic!("a used token has to give the recorded answer");
        };
        assert_eq!(effect.state, EffectState::Succeeded);
        assert_eq!(
            effect.response,
            outcome("", OutcomeState::Succeeded).response
        );
        let late = Reserve {
            now_unix_ms: grant.expires_at_unix_ms,
            ..request
        };
        assert_eq!(refusal(try_reserve(store, &late)).0, "expired");
    });
}

#[test]
fn a_grant_counts_for_exactly_what_was_asked_and_by_whom() {
    let request = Reserve {
        grant: Some(hash("token")),
        ..reserve("effect-1", "wish", 2_000)
    };
    let changed = |change: &dyn Fn(&mut Reserve)| {
        let mut changed = request.clone();
        change(&mut changed);
        changed
    };
    check(|store| {
        ask(store, |tables| tables.propose(&proposal("token", &request)));
        for (what, request, expected) in [
            (
                "another conversation",
                changed(&|request| request.conversation_id = ConversationId::new("other")),
                "foreign",
            ),
            (
                "another user",
                changed(&|request| request.user_id = UserId::new("mallory")),
                "foreign",
            ),
            (
                "another tool",
                changed(&|request| request.tool = crate::support::tool("other_tool")),
                "foreign",
            ),
            (
                "another version",
                changed(&|request| "9.9.9".clone_into(&mut request.tool_version)),
                "foreign",
            ),
            (
                "other arguments",
                changed(&|request| request.fingerprint = hash("other")),
                "foreign",
            ),
            (
                "another effect",
                changed(&|request| request.effect_id = EffectId::new("effect-2")),
                "foreign",
            ),
            (
                "another token",
                changed(&|request| request.grant = Some(hash("forged"))),
                "unknown grant",
            ),
            (
                "too late",
                changed(&|request| request.now_unix_ms = u64::MAX),
                "expired",
            ),
        ] {
            assert_eq!(refusal(try_reserve(store, &request)).0, expected, "{what}");
        }
        assert_eq!(try_reserve(store, &request), Reserved::Reserved);
    });
}

#[test]
fn a_grant_lets_an_unknown_effect_run_again_and_no_done_one() {
    check(|store| {
        try_reserve(store, &reserve("first", "wish", 1_000));
        record(store, "first", OutcomeState::Unknown);
        let same = Reserve {
            grant: Some(hash("same")),
            ..reserve("first", "wish", 2_000)
        };
        ask(store, |tables| tables.propose(&warned("same", &same)));
        assert_eq!(try_reserve(store, &same), Reserved::ReservedAgain);
        record(store, "first", OutcomeState::Succeeded);
        let done = Reserve {
            grant: Some(hash("done")),
            ..reserve("first", "wish", 4_000)
        };
        ask(store, |tables| tables.propose(&proposal("done", &done)));
        let expected = ("done", Some(EffectState::Succeeded));
        assert_eq!(refusal(try_reserve(store, &done)), expected);
        let grant = ask(store, |tables| tables.grant(&hash("done"))).unwrap();
        assert_eq!(grant.state, GrantState::Open, "a refusal changes nothing");
    });
}

#[test]
fn a_grant_begins_no_second_effect_beside_one_whose_end_is_not_known() {
    check(|store| {
        let granted = |effect: &str, token: &str| Reserve {
            grant: Some(hash(token)),
            ..reserve(effect, "wish", 2_000)
        };
        // Each is a question about its own effect.
        let ask_user = |request: &Reserve, token: &str| {
            ask(store, |tables| tables.propose(&warned(token, request)));
        };
        // An effect that has failed may be tried again, and another session begins the same wish meanwhile.
        try_reserve(store, &reserve("failed", "wish", 1_000));
        record(store, "failed", OutcomeState::Failed);
        let (text, again) = (granted("second", "text"), granted("failed", "again"));
        ask_user(&text, "text");
        ask_user(&again, "again");
        try_reserve(store, &reserve("first", "wish", 1_500));
        let failed = reserve("failed", "wish", 2_500);
        for state in [EffectState::Reserved, EffectState::Unknown] {
            let open = ("open", Some(state));
            for request in [&text, &again, &failed] {
                assert_eq!(refusal(try_reserve(store, request)), open);
            }
            record(store, "first", OutcomeState::Unknown);
        }
        let grant = ask(store, |tables| tables.grant(&hash("text"))).unwrap();
        assert_eq!(grant.state, GrantState::Open, "a refusal changes nothing");
        // Once it is known, the user's word counts for the effect that it was given for.
        record(store, "first", OutcomeState::Succeeded);
        assert_eq!(try_reserve(store, &text), Reserved::Reserved);
    });
}

#[test]
fn a_question_that_was_asked_before_another_try_counts_for_nothing_after_it() {
    check(|store| {
        try_reserve(store, &reserve("effect", "wish", 1_000));
        record(store, "effect", OutcomeState::Unknown);
        let granted = |token: &str, now_unix_ms| Reserve {
            grant: Some(hash(token)),
            ..reserve("effect", "wish", now_unix_ms)
        };
        let ask_user = |token: &str| {
            let request = granted(token, 2_000);
            ask(store, |tables| tables.propose(&warned(token, &request)));
        };
        ask_user("voice");
        ask_user("text");
        assert_eq!(
            try_reserve(store, &granted("voice", 3_000)),
            Reserved::ReservedAgain
        );
        // How it ended is as little known as before, and the user was not asked about this try.
        record(store, "effect", OutcomeState::Unknown);
        let unknown = ("open", Some(EffectState::Unknown));
        let text = granted("text", 4_000);
        assert_eq!(refusal(try_reserve(store, &text)), unknown);
        ask_user("later");
        record(store, "effect", OutcomeState::Failed);
        assert_eq!(
            try_reserve(store, &reserve("effect", "wish", 5_000)),
            Reserved::Reserved
        );
        record(store, "effect", OutcomeState::Unknown);
        let later = granted("later", 6_000);
        assert_eq!(refusal(try_reserve(store, &later)), unknown);
        // Whoever approves what was done meanwhile hears that it was.
        record(store, "effect", OutcomeState::Succeeded);
        let done = ("done", Some(EffectState::Succeeded));
        assert_eq!(refusal(try_reserve(store, &later)), done);
        let foreign = Reserve {
            user_id: UserId::new("somebody"),
            ..later
        };
        assert_eq!(refusal(try_reserve(store, &foreign)).0, "unknown grant");
    });
}

#[test]
fn what_a_killed_process_had_reserved_begins_again_with_a_grant_alone() {
    check(|store| {
        let first = Reserve {
            grant: Some(hash("first")),
            ..reserve("effect", "wish", 1_000)
        };
        ask(store, |tables| tables.propose(&proposal("first", &first)));
        assert_eq!(try_reserve(store, &first), Reserved::Reserved);
        let open = ("open", Some(EffectState::Reserved));
        let plain = reserve("effect", "wish", 2_000);
        assert_eq!(refusal(try_reserve(store, &plain)), open);
        let granted = Reserve {
            grant: Some(hash("again")),
            ..plain
        };
        ask(store, |tables| tables.propose(&warned("again", &granted)));
        assert_eq!(try_reserve(store, &granted), Reserved::ReservedAgain);
        let used = ("consumed", Some(EffectState::Reserved));
        assert_eq!(refusal(try_reserve(store, &granted)), used);
    });
}

#[test]
fn fifty_approvals_at_one_instant_start_one_effect() {
    super::check_shared(|store| {
        let request = Reserve {
            grant: Some(hash("token")),
            ..reserve("effect-1", "wish", 2_000)
        };
        ask(&*store, |tables| {
            tables.propose(&proposal("token", &request))
        });
        let threads: Vec<_> = (0..50)
            .map(|_| {
                let (store, request) = (Arc::clone(&store), request.clone());
                std::thread::spawn(move || try_reserve(&*store, &request))
            })
            .collect();
        let verdicts: Vec<_> = threads
            .into_iter()
            .map(|thread| refusal(thread.join().unwrap()).0)
            .collect();
        let count = |word| verdicts.iter().filter(|verdict| **verdict == word).count();
        assert_eq!((count("reserved"), count("consumed")), (1, 49));
    });
}
