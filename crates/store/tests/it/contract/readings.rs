//! Rules of what was read: a conversation that holds text which others wrote is known for as long as it is.

use super::{check, check_with};
use crate::support::{HOUR_MS, ask, hash, proposal, reserve};
use windlass_store::{Reserve, ReserveRefusal, Reserved, Store, StoreLimits};
use windlass_tool::id::{ConversationId, SessionId, UserId};

fn id() -> ConversationId {
    ConversationId::new("conversation")
}

fn note_of(store: &dyn Store, session: &str, now_unix_ms: u64) {
    let session = SessionId::new(session);
    ask(store, |tables| {
        tables.note_reading(&id(), &session, now_unix_ms)
    });
}

fn note(store: &dyn Store, now_unix_ms: u64) {
    note_of(store, "reader", now_unix_ms);
}

fn has_read(store: &dyn Store, now_unix_ms: u64) -> bool {
    ask(store, |tables| tables.has_read(&id(), now_unix_ms))
}

/// What a wish of a session comes to that has no grant, and minds what was read elsewhere.
fn reserve_as(store: &dyn Store, session: &str, request: Reserve) -> Reserved {
    let request = Reserve {
        read_by_none_but: Some(SessionId::new(session)),
        ..request
    };
    ask(store, |tables| tables.reserve(&request))
}

fn try_reserve(store: &dyn Store, request: Reserve) -> Reserved {
    reserve_as(store, "another", request)
}

#[test]
fn a_reading_is_known_in_its_conversation_and_in_no_other() {
    check(|store| {
        assert!(!has_read(store, 1_000));
        note(store, 1_000);
        note(store, 1_000);
        assert!(has_read(store, 1_000));
        for (other, expected) in [("conversation", true), ("Conversation", false), ("", false)] {
            let other = ConversationId::new(other);
            let found = ask(store, |tables| tables.has_read(&other, 1_000));
            assert_eq!(found, expected, "{other}");
        }
    });
}

#[test]
fn a_reading_is_known_for_as_long_as_its_conversation_goes_on() {
    check(|store| {
        note(store, HOUR_MS);
        // A clock that was set back makes it no older.
        note(store, 1);
        assert!(has_read(store, 25 * HOUR_MS - 1));
        assert!(!has_read(store, 25 * HOUR_MS));
        let user = UserId::new("alice");
        for now in [2 * HOUR_MS, 20 * HOUR_MS, 40 * HOUR_MS] {
            ask(store, |tables| {
                tables.open_conversation(&id(), &user, now).map(drop)
            });
            store.prune(now).unwrap();
            assert!(has_read(store, now));
        }
        assert!(has_read(store, 64 * HOUR_MS - 1));
        assert!(!has_read(store, 64 * HOUR_MS));
    });
}

#[test]
fn a_reading_is_known_for_no_less_time_than_a_change() {
    let limits = StoreLimits {
        conversation_ms: HOUR_MS,
        ..StoreLimits::default()
    };
    check_with(limits, |store| {
        note(store, HOUR_MS);
        store.prune(25 * HOUR_MS - 1).unwrap();
        assert!(has_read(store, 25 * HOUR_MS - 1));
        assert!(!has_read(store, 25 * HOUR_MS));
    });
}

#[test]
fn a_reading_that_has_run_out_is_deleted() {
    check(|store| {
        note(store, HOUR_MS);
        assert_eq!(store.prune(25 * HOUR_MS - 1), Ok(0));
        assert_eq!(store.prune(25 * HOUR_MS), Ok(1));
        assert!(!has_read(store, HOUR_MS));
    });
}

#[test]
fn where_something_was_read_no_effect_is_reserved_that_minds_it() {
    check(|store| {
        let read = Reserved::Refused(ReserveRefusal::Read);
        assert_eq!(
            try_reserve(store, reserve("effect-1", "first", 1_000)),
            Reserved::Reserved
        );
        note(store, 1_000);
        let second = reserve("effect-2", "second", 1_000);
        assert_eq!(try_reserve(store, second.clone()), read);
        let found = ask(store, |tables| tables.effect(&second.effect_id));
        assert_eq!(found, None, "a refusal changes nothing");
        let elsewhere = Reserve {
            conversation_id: ConversationId::new("another"),
            ..reserve("effect-3", "second", 1_000)
        };
        assert_eq!(try_reserve(store, elsewhere), Reserved::Reserved);
        // The user's word is all that it wants.
        ask(store, |tables| tables.propose(&proposal("token", &second)));
        let granted = Reserve {
            grant: Some(hash("token")),
            ..second
        };
        let reserved = ask(store, |tables| tables.reserve(&granted));
        assert_eq!(reserved, Reserved::Reserved);
    });
}

#[test]
fn a_session_minds_what_was_read_in_the_others_alone() {
    check(|store| {
        let read = Reserved::Refused(ReserveRefusal::Read);
        note_of(store, "first", 1_000);
        note_of(store, "first", 2_000);
        let wish = |number: u64| reserve(&format!("effect-{number}"), &number.to_string(), 3_000);
        assert_eq!(reserve_as(store, "first", wish(1)), Reserved::Reserved);
        assert_eq!(reserve_as(store, "second", wish(2)), read);
        note_of(store, "second", 2_000);
        assert_eq!(reserve_as(store, "first", wish(3)), read);
        assert_eq!(reserve_as(store, "second", wish(4)), read);
        note_of(store, "first", 2_000);
        assert_eq!(reserve_as(store, "first", wish(5)), read);
        assert_eq!(
            ask(store, |tables| tables.reserve(&wish(6))),
            Reserved::Reserved
        );
    });
}

#[test]
fn what_was_begun_before_is_said_before_what_was_read() {
    let limits = StoreLimits {
        effects_max: 1,
        ..StoreLimits::default()
    };
    check_with(limits, |store| {
        let first = reserve("effect-1", "wish", 1_000);
        assert_eq!(try_reserve(store, first), Reserved::Reserved);
        note(store, 1_000);
        let again = try_reserve(store, reserve("effect-2", "wish", 1_000));
        assert!(
            matches!(again, Reserved::Refused(ReserveRefusal::Open(_))),
            "{again:?}"
        );
        assert_eq!(
            try_reserve(store, reserve("effect-3", "other", 1_000)),
            Reserved::Refused(ReserveRefusal::Full)
        );
    });
}
