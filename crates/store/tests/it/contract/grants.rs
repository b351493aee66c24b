//! Rules of grants: what the user is asked, and what an answer does.

use super::{check, check_with};
use crate::support::{ask, hash, proposal, reserve};
use windlass_store::{
    Decline, Declined, Grant, GrantRefusal, GrantState, Proposed, Renewal, Store, StoreLimits,
};
use windlass_tool::id::{ConversationId, UserId};
use windlass_tool::sensitive::Sensitive;

/// Five minutes, and two seconds for the time at which the tests ask.
const END_MS: u64 = 302_000;

fn propose(store: &dyn Store, token: &str) -> Proposed {
    let proposal = proposal(token, &reserve(token, token, 2_000));
    ask(store, |tables| tables.propose(&proposal))
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
            Proposed::Stored
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
        assert_eq!(propose(store, "one"), Proposed::Stored);
        assert_eq!(propose(store, "one"), Proposed::TokenTaken);
        assert_eq!(propose(store, "two"), Proposed::Stored);
        assert_eq!(propose(store, "three"), Proposed::TooMany);
        ask(store, |tables| tables.decline(&decline("one")));
        assert_eq!(propose(store, "one"), Proposed::TokenTaken);
        assert_eq!(propose(store, "three"), Proposed::Stored);
        let mut long = proposal("long", &reserve("long", "long", 2_000));
        long.preview = Sensitive("x".repeat(101));
        assert_eq!(
            ask(store, |tables| tables.propose(&long)),
            Proposed::TooLong
        );
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
        assert_eq!(reserved, windlass_store::Reserved::Refused(expected));
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
