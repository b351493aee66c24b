//! Rules of grants: what the user is asked, and what an answer does.

use super::ledger::{record, refusal, try_reserve};
use super::{check, check_with};
use crate::support::{ask, hash, proposal, reserve, warned};
use windlass_store::{
    Decline, Declined, EffectState, Grant, GrantRefusal, GrantState, OutcomeState, Proposed,
    Renewal, Reserve, Reserved, Store, StoreLimits,
};
use windlass_tool::id::{ConversationId, EffectId, UserId};
use windlass_tool::sensitive::Sensitive;

/// Five minutes, and two seconds for the time at which the tests ask.
const END_MS: u64 = 302_000;

fn propose(store: &dyn Store, token: &str) -> Proposed {
    let proposal = proposal(token, &reserve(token, token, 2_000));
    ask(store, |tables| tables.propose(&proposal))
}

fn stored(effect: &str) -> Proposed {
    Proposed::Stored(EffectId::new(effect))
}

fn decline(token: &str) -> Decline {
    Decline {
        token_hash: hash(token),
        conversation_id: ConversationId::new("conversation"),
        user_id: UserId::new("alice"),
    }
}

fn open(store: &dyn Store, now_unix_ms: u64) -> Vec<Grant> {
    let conversation = ConversationId::new("conversation");
    ask(store, |tables| {
        tables.open_grants(&conversation, now_unix_ms)
    })
}

#[test]
fn a_question_is_kept_as_it_was_shown_until_it_runs_out() {
    check(|store| {
        let proposal = proposal("token", &reserve("effect-1", "wish", 2_000));
        assert_eq!(
            ask(store, |tables| tables.propose(&proposal)),
            Proposed::Stored(proposal.effect_id.clone())
        );
        let grant = ask(store, |tables| tables.grant(&hash("token"))).unwrap();
        assert_eq!(grant.effect_id, proposal.effect_id);
        assert_eq!(grant.arguments, proposal.arguments);
        assert_eq!(grant.preview, proposal.preview);
        assert_eq!(grant.state, GrantState::Open);
        assert_eq!(open(store, END_MS - 1), [grant]);
        assert_eq!(open(store, END_MS), []);
        assert_eq!(ask(store, |tables| tables.grant(&hash("other"))), None);
        assert_eq!(store.prune(END_MS - 1), Ok(0));
        assert_eq!(store.prune(END_MS), Ok(1));
        assert_eq!(ask(store, |tables| tables.grant(&hash("token"))), None);
    });
}

#[test]
fn questions_are_bounded_in_number_and_length_and_a_token_is_given_once() {
    let limits = StoreLimits {
        grants_max: 2,
        grant_bytes_max: 100,
        ..StoreLimits::default()
    };
    check_with(limits, |store| {
        assert_eq!(propose(store, "one"), stored("one"));
        assert_eq!(propose(store, "one"), Proposed::TokenTaken);
        assert_eq!(propose(store, "two"), stored("two"));
        assert_eq!(propose(store, "three"), Proposed::TooMany);
        ask(store, |tables| tables.decline(&decline("one")));
        assert_eq!(propose(store, "one"), Proposed::TokenTaken);
        assert_eq!(propose(store, "three"), stored("three"));
        let mut long = proposal("long", &reserve("long", "long", 2_000));
        long.preview = Sensitive("x".repeat(101));
        assert_eq!(
            ask(store, |tables| tables.propose(&long)),
            Proposed::TooLong
        );
    });
}

#[test]
fn two_questions_about_one_wish_are_about_one_effect() {
    check(|store| {
        let wish = |effect: &str, now_unix_ms| Reserve {
            grant: Some(hash(effect)),
            ..reserve(effect, "wish", now_unix_ms)
        };
        let ask_user = |effect: &str, now_unix_ms| {
            let proposal = proposal(effect, &wish(effect, now_unix_ms));
            ask(store, |tables| tables.propose(&proposal))
        };
        assert_eq!(ask_user("voice", 2_000), stored("voice"));
        assert_eq!(ask_user("text", 3_000), stored("voice"));
        let text = ask(store, |tables| tables.grant(&hash("text"))).unwrap();
        assert_eq!(text.effect_id, EffectId::new("voice"));
        // Another wish has an effect of its own, and so has one that is said in another conversation.
        assert_eq!(propose(store, "other"), stored("other"));
        let mut elsewhere = proposal("elsewhere", &wish("elsewhere", 3_000));
        elsewhere.conversation_id = ConversationId::new("another");
        let asked = ask(store, |tables| tables.propose(&elsewhere));
        assert_eq!(asked, stored("elsewhere"));
        // Whichever is approved begins it, and whoever approves the other hears what came of it.
        let by_text = Reserve {
            grant: Some(hash("text")),
            ..wish("voice", 4_000)
        };
        let by_voice = wish("voice", 5_000);
        assert_eq!(try_reserve(store, &by_text), Reserved::Reserved);
        let running = ("open", Some(EffectState::Reserved));
        assert_eq!(refusal(try_reserve(store, &by_voice)), running);
        record(store, "voice", OutcomeState::Succeeded);
        let done = ("done", Some(EffectState::Succeeded));
        assert_eq!(refusal(try_reserve(store, &by_voice)), done);
        assert_eq!(ask_user("once more", 6_000), stored("once more"));
    });
}

#[test]
fn a_question_that_has_run_out_or_whose_effect_is_done_lends_its_effect_to_none() {
    check(|store| {
        let ask_user = |effect: &str, now_unix_ms| {
            let proposal = proposal(effect, &reserve(effect, "wish", now_unix_ms));
            ask(store, |tables| tables.propose(&proposal))
        };
        assert_eq!(ask_user("first", 2_000), stored("first"));
        assert_eq!(ask_user("second", END_MS), stored("second"));
        // A late result has settled what the user is asked about.
        let again = reserve("third", "another wish", 2_000);
        try_reserve(store, &again);
        record(store, "third", OutcomeState::Unknown);
        ask(store, |tables| tables.propose(&warned("third", &again)));
        record(store, "third", OutcomeState::Succeeded);
        let later = proposal("later", &reserve("later", "another wish", 3_000));
        let asked = ask(store, |tables| tables.propose(&later));
        assert_eq!(asked, stored("later"));
    });
}

#[test]
fn nobody_is_asked_without_a_warning_about_what_was_begun_and_has_no_known_end() {
    check(|store| {
        let begun = reserve("begun", "wish", 1_000);
        try_reserve(store, &begun);
        let unwarned = proposal("token", &reserve("second", "wish", 2_000));
        for state in [EffectState::Reserved, EffectState::Unknown] {
            let Proposed::Begun(effect) = ask(store, |tables| tables.propose(&unwarned)) else {
                panic!("the user would approve it without knowing of the first");
            };
            assert_eq!(effect.effect_id, begun.effect_id);
            assert_eq!(effect.state, state);
            record(store, "begun", OutcomeState::Unknown);
        }
        assert_eq!(ask(store, |tables| tables.grant(&hash("token"))), None);
        let warned = warned("token", &begun);
        let asked = ask(store, |tables| tables.propose(&warned));
        assert_eq!(asked, stored("begun"));
    });
}

#[test]
fn a_no_is_taken_from_the_one_who_was_asked_while_the_question_is_open() {
    check(|store| {
        propose(store, "token");
        let foreign = [
            Decline {
                user_id: UserId::new("mallory"),
                ..decline("token")
            },
            Decline {
                conversation_id: ConversationId::new("other"),
                ..decline("token")
            },
        ];
        for answer in foreign {
            let verdict = ask(store, |tables| tables.decline(&answer));
            assert_eq!(verdict, Declined::Refused(GrantRefusal::Foreign));
        }
        let unknown = ask(store, |tables| tables.decline(&decline("other")));
        assert_eq!(unknown, Declined::Refused(GrantRefusal::Unknown));
        let verdict = ask(store, |tables| tables.decline(&decline("token")));
        let Declined::Declined(grant) = verdict else {
            panic!("{verdict:?}");
        };
        assert_eq!(grant.state, GrantState::Declined);
        let again = ask(store, |tables| tables.decline(&decline("token")));
        assert_eq!(again, Declined::Refused(GrantRefusal::Declined));
        let mut approved = reserve("token", "token", 2_000);
        approved.grant = Some(hash("token"));
        let reserved = ask(store, |tables| tables.reserve(&approved));
        let expected = windlass_store::ReserveRefusal::Grant(GrantRefusal::Declined);
        assert_eq!(reserved, Reserved::Refused(expected));
        assert_eq!(open(store, 2_000), []);
    });
}

#[test]
fn questions_of_a_conversation_are_known_until_their_time_is_up_answered_or_not() {
    check(|store| {
        for token in ["declined", "open", "used"] {
            propose(store, token);
        }
        ask(store, |tables| tables.decline(&decline("declined")));
        let mut approved = reserve("used", "used", 2_000);
        approved.grant = Some(hash("used"));
        ask(store, |tables| tables.reserve(&approved));
        let known = |conversation: &str, now_unix_ms| {
            let conversation = ConversationId::new(conversation);
            let grants = ask(store, |tables| tables.grants_of(&conversation, now_unix_ms));
            let mut states: Vec<(String, GrantState)> = grants
                .into_iter()
                .map(|grant| (grant.effect_id.to_string(), grant.state))
                .collect();
            states.sort_by_key(|(effect, _)| effect.clone());
            states
        };
        let all = [
            ("declined".to_owned(), GrantState::Declined),
            ("open".to_owned(), GrantState::Open),
            ("used".to_owned(), GrantState::Consumed),
        ];
        let own = approved.conversation_id.as_str();
        assert_eq!(known(own, END_MS - 1), all);
        assert_eq!(known(own, END_MS), []);
        assert_eq!(known("other", 2_000), []);
    });
}

#[test]
fn a_new_token_takes_the_place_of_the_old_one() {
    check(|store| {
        propose(store, "old");
        propose(store, "taken");
        let renew = |old: &str, new: &str, now_unix_ms| {
            let renewal = Renewal {
                token_hash: hash(old),
                new_token_hash: hash(new),
                expires_at_unix_ms: 400_000,
                now_unix_ms,
            };
            ask(store, |tables| tables.renew(&renewal))
        };
        assert_eq!(renew("unknown", "new", 2_000), None);
        assert_eq!(renew("old", "taken", 2_000), None);
        assert_eq!(renew("old", "new", END_MS), None);
        let renewed = renew("old", "new", 2_000).unwrap();
        assert_eq!(renewed.token_hash, hash("new"));
        assert_eq!(renewed.effect_id.as_str(), "old");
        assert_eq!(ask(store, |tables| tables.grant(&hash("old"))), None);
        assert_eq!(open(store, 399_999), [renewed]);
    });
}

#[test]
fn an_open_question_can_be_taken_back_and_an_answered_one_cannot() {
    check(|store| {
        propose(store, "open");
        propose(store, "declined");
        ask(store, |tables| tables.decline(&decline("declined")));
        for (token, expected) in [("open", true), ("open", false), ("declined", false)] {
            let revoked = ask(store, |tables| tables.revoke(&hash(token)));
            assert_eq!(revoked, expected, "{token}");
        }
        assert!(ask(store, |tables| tables.grant(&hash("declined"))).is_some());
    });
}
