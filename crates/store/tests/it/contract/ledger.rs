//! Rules of the ledger: what is reserved once is not reserved again, and what is known stays known.

use super::{check, check_with};
use crate::support::{HOUR_MS, ask, outcome, reserve};
use windlass_store::{
    Effect, EffectState, GrantRefusal, OutcomeState, Recorded, Reserve, ReserveRefusal, Reserved,
    SETTLED_MAX, Store, StoreLimits,
};
use windlass_tool::id::{ConversationId, EffectId};
use windlass_tool::sensitive::Sensitive;

fn state(store: &dyn Store, effect: &str) -> Option<EffectState> {
    let effect = EffectId::new(effect);
    let found = ask(store, |tables| tables.effect(&effect));
    found.map(|effect| effect.state)
}

pub(super) fn try_reserve(store: &dyn Store, request: &Reserve) -> Reserved {
    ask(store, |tables| tables.reserve(request))
}

pub(super) fn record(store: &dyn Store, effect: &str, state: OutcomeState) -> Recorded {
    ask(store, |tables| tables.record(&outcome(effect, state)))
}

/// What refused, as a word, with the state of the effect that it names.
pub(super) fn refusal(reserved: Reserved) -> (&'static str, Option<EffectState>) {
    let state = |effect: &Effect| Some(effect.state);
    match reserved {
        Reserved::Reserved => ("reserved", None),
        Reserved::ReservedAgain => ("reserved again", None),
        Reserved::Refused(ReserveRefusal::Open(effect)) => ("open", state(&effect)),
        Reserved::Refused(ReserveRefusal::Done(effect)) => ("done", state(&effect)),
        Reserved::Refused(ReserveRefusal::Full) => ("full", None),
        Reserved::Refused(ReserveRefusal::Read) => ("read", None),
        Reserved::Refused(ReserveRefusal::Grant(refusal)) => match refusal {
            GrantRefusal::Unknown => ("unknown grant", None),
            GrantRefusal::Expired => ("expired", None),
            GrantRefusal::Foreign => ("foreign", None),
            GrantRefusal::Declined => ("declined", None),
            GrantRefusal::Consumed(effect) => ("consumed", effect.map(|effect| effect.state)),
        },
    }
}

#[test]
fn what_was_reserved_is_kept_as_it_was_asked_for() {
    check(|store| {
        let request = reserve("effect-1", "wish", 1_000);
        assert_eq!(try_reserve(store, &request), Reserved::Reserved);
        let kept = ask(store, |tables| tables.effect(&request.effect_id));
        let expected = Effect {
            effect_id: request.effect_id,
            conversation_id: request.conversation_id,
            user_id: request.user_id,
            tool: request.tool,
            tool_version: request.tool_version,
            fingerprint: request.fingerprint,
            state: EffectState::Reserved,
            response: None,
            is_answered: false,
            intent: request.intent,
            reserved_at_unix_ms: 1_000,
            changed_at_unix_ms: 1_000,
        };
        assert_eq!(kept, Some(expected));
        assert_eq!(state(store, "effect-2"), None);
    });
}

#[test]
fn an_effect_runs_again_only_after_it_has_definitely_failed() {
    use OutcomeState::{Failed, Succeeded, Unknown};
    check(|store| {
        for (effect, outcome, expected) in [
            ("running", None, ("open", Some(EffectState::Reserved))),
            (
                "done",
                Some(Succeeded),
                ("done", Some(EffectState::Succeeded)),
            ),
            ("failed", Some(Failed), ("reserved", None)),
            (
                "unknown",
                Some(Unknown),
                ("open", Some(EffectState::Unknown)),
            ),
        ] {
            let request = reserve(effect, effect, 1_000);
            assert_eq!(try_reserve(store, &request), Reserved::Reserved);
            if let Some(outcome) = outcome {
                assert_eq!(record(store, effect, outcome), Recorded::Stored);
            }
            let again = Reserve {
                now_unix_ms: 2_000,
                ..request
            };
            assert_eq!(refusal(try_reserve(store, &again)), expected, "{effect}");
        }
        assert_eq!(state(store, "failed"), Some(EffectState::Reserved));
    });
}

#[test]
fn the_same_wish_under_a_new_id_waits_for_the_first_to_be_known() {
    check(|store| {
        try_reserve(store, &reserve("first", "wish", 1_000));
        let second = reserve("second", "wish", 2_000);
        let open = ("open", Some(EffectState::Reserved));
        assert_eq!(refusal(try_reserve(store, &second)), open);
        let elsewhere = Reserve {
            conversation_id: ConversationId::new("another"),
            effect_id: EffectId::new("elsewhere"),
            ..second.clone()
        };
        assert_eq!(try_reserve(store, &elsewhere), Reserved::Reserved);
        record(store, "first", OutcomeState::Unknown);
        let unknown = ("open", Some(EffectState::Unknown));
        assert_eq!(refusal(try_reserve(store, &second)), unknown);
        record(store, "first", OutcomeState::Succeeded);
        assert_eq!(try_reserve(store, &second), Reserved::Reserved);
    });
}

#[test]
fn a_definite_outcome_is_never_overwritten_and_an_unknown_one_may_be_settled() {
    use OutcomeState::{Failed, Succeeded, Unknown};
    check(|store| {
        for (number, (first, second, last)) in [
            (Succeeded, Failed, EffectState::Succeeded),
            (Succeeded, Unknown, EffectState::Succeeded),
            (Failed, Succeeded, EffectState::Failed),
            (Unknown, Succeeded, EffectState::Succeeded),
            (Unknown, Failed, EffectState::Failed),
            (Unknown, Unknown, EffectState::Unknown),
        ]
        .into_iter()
        .enumerate()
        {
            let effect = format!("effect-{number}");
            try_reserve(store, &reserve(&effect, &effect, 1_000));
            assert_eq!(record(store, &effect, first), Recorded::Stored);
            let kept = matches!(record(store, &effect, second), Recorded::Kept(_));
            assert_eq!(kept, first != Unknown, "{effect}");
            assert_eq!(state(store, &effect), Some(last), "{effect}");
        }
        assert_eq!(record(store, "never", Succeeded), Recorded::Missing);
    });
}

#[test]
fn a_response_that_is_too_long_is_left_out_and_its_outcome_kept() {
    let limits = StoreLimits {
        response_bytes_max: 10,
        ..StoreLimits::default()
    };
    check_with(limits, |store| {
        for (effect, length, is_kept) in [("short", 10, true), ("long", 11, false)] {
            try_reserve(store, &reserve(effect, effect, 1_000));
            let mut outcome = outcome(effect, OutcomeState::Succeeded);
            outcome.response = Some(Sensitive("x".repeat(length)));
            ask(store, |tables| tables.record(&outcome));
            let kept = ask(store, |tables| tables.effect(&EffectId::new(effect))).unwrap();
            assert_eq!(kept.state, EffectState::Succeeded);
            assert_eq!(kept.response.is_some(), is_kept, "{effect}");
        }
    });
}

#[test]
fn a_conversation_has_its_effects_in_order_and_within_a_bound() {
    let limits = StoreLimits {
        effects_max: 3,
        ..StoreLimits::default()
    };
    check_with(limits, |store| {
        for (number, expected) in [
            (3, "reserved"),
            (1, "reserved"),
            (2, "reserved"),
            (4, "full"),
        ] {
            let effect = format!("effect-{number}");
            let request = reserve(&effect, &effect, number * 1_000);
            assert_eq!(
                refusal(try_reserve(store, &request)).0,
                expected,
                "{number}"
            );
        }
        let conversation = reserve("", "", 0).conversation_id;
        let of = |since: u64| -> Vec<String> {
            let effects = ask(store, |tables| tables.effects_of(&conversation, since));
            let ids = effects.iter().map(|effect| effect.effect_id.to_string());
            ids.collect()
        };
        assert_eq!(of(0), ["effect-1", "effect-2", "effect-3"]);
        assert_eq!(of(2_000), ["effect-2", "effect-3"]);
        record(store, "effect-1", OutcomeState::Failed);
        let again = reserve("effect-1", "effect-1", 5_000);
        assert_eq!(try_reserve(store, &again), Reserved::Reserved);
    });
}

#[test]
fn an_answer_that_reached_the_model_is_noted() {
    check(|store| {
        try_reserve(store, &reserve("effect-1", "wish", 1_000));
        record(store, "effect-1", OutcomeState::Succeeded);
        let effect = EffectId::new("effect-1");
        assert!(
            !ask(store, |tables| tables.effect(&effect))
                .unwrap()
                .is_answered
        );
        assert!(ask(store, |tables| tables.mark_answered(&effect)));
        assert!(
            ask(store, |tables| tables.effect(&effect))
                .unwrap()
                .is_answered
        );
        assert!(!ask(store, |tables| tables
            .mark_answered(&EffectId::new("never"))));
    });
}

#[test]
fn whoever_heard_that_it_is_unknown_has_not_heard_how_it_ended() {
    check(|store| {
        try_reserve(store, &reserve("effect-1", "wish", 1_000));
        let effect = EffectId::new("effect-1");
        let is_answered = || {
            ask(store, |tables| tables.effect(&effect))
                .unwrap()
                .is_answered
        };
        record(store, "effect-1", OutcomeState::Unknown);
        ask(store, |tables| tables.mark_answered(&effect));
        record(store, "effect-1", OutcomeState::Unknown);
        assert!(is_answered(), "it was told the same");
        record(store, "effect-1", OutcomeState::Succeeded);
        assert!(!is_answered());
    });
}

#[test]
fn what_was_reserved_long_ago_without_an_outcome_becomes_unknown_once() {
    check(|store| {
        for (effect, reserved_at) in [("old", 1_000), ("older", 500), ("young", 2_000)] {
            try_reserve(store, &reserve(effect, effect, reserved_at));
        }
        try_reserve(store, &reserve("done", "done", 500));
        record(store, "done", OutcomeState::Succeeded);
        let mut abandoned: Vec<String> = ask(store, |tables| tables.abandon(2_000, 9_000))
            .iter()
            .map(|effect| format!("{} {}", effect.effect_id, effect.state.as_str()))
            .collect();
        abandoned.sort();
        assert_eq!(abandoned, ["old unknown", "older unknown"]);
        assert_eq!(ask(store, |tables| tables.abandon(2_000, 9_000)), []);
        assert_eq!(state(store, "young"), Some(EffectState::Reserved));
        assert_eq!(state(store, "done"), Some(EffectState::Succeeded));
    });
}

#[test]
fn what_has_ended_is_told_from_the_last_to_the_first_and_a_part_at_a_time() {
    check(|store| {
        let count = SETTLED_MAX as u64 + 5;
        for number in 0..count {
            let effect = format!("effect-{number:04}");
            // Some of them at the same time.
            try_reserve(store, &reserve(&effect, &effect, 1_000 + number / 3));
            record(store, &effect, OutcomeState::Succeeded);
        }
        try_reserve(store, &reserve("young", "young", 9_000));
        let mut told = Vec::new();
        loop {
            let page = ask(store, |tables| tables.settled(told.last()));
            assert!(page.len() <= SETTLED_MAX);
            if page.is_empty() {
                break;
            }
            told.extend(page);
        }
        let ids: Vec<&str> = told
            .iter()
            .map(|effect| effect.effect_id.as_str())
            .collect();
        let expected: Vec<String> = (0..count)
            .rev()
            .map(|number| format!("effect-{number:04}"))
            .collect();
        assert_eq!(ids, expected);
        assert!(told.iter().all(|effect| effect.response.is_none()));
    });
}

#[test]
fn effects_stay_for_their_time_and_go_after_it() {
    check(|store| {
        try_reserve(store, &reserve("old", "old", 1_000));
        try_reserve(store, &reserve("young", "young", 2_000));
        assert_eq!(store.prune(24 * HOUR_MS + 999), Ok(0));
        assert_eq!(store.prune(24 * HOUR_MS + 1_000), Ok(1));
        assert_eq!(state(store, "old"), None);
        assert_eq!(state(store, "young"), Some(EffectState::Reserved));
    });
}
