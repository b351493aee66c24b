//! Rules of conversations and of snapshots.

use super::{check, check_with};
use crate::support::{HOUR_MS, ask, hash};
use windlass_store::{
    Appended, Entry, NewEntry, Opened, ResumeTokens, Saved, Snapshot, Store, StoreLimits,
};
use windlass_tool::id::{ConversationId, SessionId, UserId};
use windlass_tool::sensitive::Sensitive;

fn id() -> ConversationId {
    ConversationId::new("conversation")
}

fn open(store: &dyn Store, user: &str, now_unix_ms: u64) -> &'static str {
    let user = UserId::new(user);
    let opened = ask(store, |tables| {
        tables.open_conversation(&id(), &user, now_unix_ms)
    });
    match opened {
        Opened::Begun => "begun",
        Opened::Continued(_) => "continued",
        Opened::Foreign => "foreign",
    }
}

fn append(store: &dyn Store, entries: &[(Option<&str>, &str)], now_unix_ms: u64) -> Appended {
    let entries: Vec<NewEntry> = entries
        .iter()
        .map(|(key, body)| NewEntry {
            key: key.map(str::to_owned),
            body: Sensitive((*body).to_owned()),
        })
        .collect();
    ask(store, |tables| tables.append(&id(), &entries, now_unix_ms))
}

fn entries(store: &dyn Store, entries_max: usize) -> Vec<(u64, String)> {
    let found = ask(store, |tables| tables.entries(&id(), entries_max));
    let pairs = found
        .into_iter()
        .map(|entry| (entry.sequence, entry.body.0));
    pairs.collect()
}

fn pairs(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
    let pairs = expected
        .iter()
        .map(|(number, text)| (*number, (*text).to_owned()));
    pairs.collect()
}

#[test]
fn the_conversations_that_rest_longest_go_where_there_are_too_many() {
    let limits = StoreLimits {
        conversations_max: 2,
        ..StoreLimits::default()
    };
    check_with(limits, |store| {
        let user = UserId::new("alice");
        let ids: Vec<ConversationId> = (0..4)
            .map(|number| ConversationId::new(format!("conversation-{number}")))
            .collect();
        for (at, id) in (1_000..).zip(&ids) {
            ask(store, |tables| tables.open_conversation(id, &user, at));
        }
        ask(store, |tables| {
            tables.open_conversation(&ids[0], &user, 2_000)
        });
        assert_eq!(store.prune(3_000), Ok(2));
        let kept: Vec<bool> = ids
            .iter()
            .map(|id| ask(store, |tables| tables.conversation(id, 3_000)).is_some())
            .collect();
        assert_eq!(kept, [true, false, false, true]);
        assert_eq!(store.prune(3_000), Ok(0));
    });
}

#[test]
fn a_conversation_belongs_to_its_user_and_ends_when_it_is_idle() {
    check(|store| {
        let day_ms = 24 * HOUR_MS;
        assert_eq!(open(store, "alice", 1_000), "begun");
        assert_eq!(open(store, "mallory", 2_000), "foreign");
        assert_eq!(open(store, "alice", 3_000), "continued");
        append(store, &[(None, "hello")], 4_000);
        let found = |now| ask(store, |tables| tables.conversation(&id(), now));
        assert_eq!(found(5_000).unwrap().begun_at_unix_ms, 1_000);
        assert_eq!(found(4_000 + day_ms - 1).unwrap().used_at_unix_ms, 4_000);
        assert_eq!(found(4_000 + day_ms), None);
        assert_eq!(open(store, "mallory", 4_000 + day_ms), "begun");
        assert_eq!(entries(store, 10), [], "the earlier user's words are gone");
    });
}

#[test]
fn entries_keep_their_order_and_an_earlier_key_keeps_its_entry() {
    check(|store| {
        assert_eq!(append(store, &[(None, "lost")], 1_000), Appended::Missing);
        open(store, "alice", 1_000);
        let first = append(store, &[(Some("m1"), "one"), (None, "two")], 1_000);
        assert_eq!(first, Appended::Stored(vec![1, 2]));
        let second = append(
            store,
            &[(Some("m1"), "again"), (Some("m2"), "three")],
            1_000,
        );
        assert_eq!(second, Appended::Stored(vec![1, 3]));
        assert_eq!(
            entries(store, 10),
            pairs(&[(1, "one"), (2, "two"), (3, "three")])
        );
        assert_eq!(entries(store, 2), pairs(&[(2, "two"), (3, "three")]));
        assert_eq!(entries(store, 0), []);
        let known = ask(store, |tables| tables.entry(&id(), "m2"));
        let expected = Entry {
            sequence: 3,
            key: Some("m2".to_owned()),
            body: Sensitive("three".to_owned()),
        };
        assert_eq!(known, Some(expected));
        assert_eq!(ask(store, |tables| tables.entry(&id(), "m3")), None);
    });
}

#[test]
fn the_oldest_entries_make_room_and_long_ones_are_refused() {
    let limits = StoreLimits {
        entries_max: 2,
        entry_bytes_max: 5,
        ..StoreLimits::default()
    };
    check_with(limits, |store| {
        open(store, "alice", 1_000);
        append(
            store,
            &[(None, "one"), (None, "two"), (None, "three")],
            1_000,
        );
        assert_eq!(entries(store, 10), pairs(&[(2, "two"), (3, "three")]));
        let refused = append(store, &[(None, "four"), (None, "longer")], 1_000);
        assert_eq!(refused, Appended::TooLong);
        let key = "k".repeat(257);
        assert_eq!(append(store, &[(Some(&key), "")], 1_000), Appended::TooLong);
        assert_eq!(
            append(store, &[(None, "five")], 1_000),
            Appended::Stored(vec![4])
        );
        assert_eq!(entries(store, 10), pairs(&[(3, "three"), (4, "five")]));
    });
}

#[test]
fn idle_conversations_are_pruned_with_their_entries() {
    check(|store| {
        open(store, "alice", 1_000);
        append(store, &[(Some("m1"), "one")], 2_000);
        assert_eq!(store.prune(24 * HOUR_MS + 1_999), Ok(0));
        assert_eq!(store.prune(24 * HOUR_MS + 2_000), Ok(1));
        assert_eq!(entries(store, 10), []);
    });
}

fn snapshot(session: &str, token: &str, body: &str) -> Snapshot {
    Snapshot {
        session_id: SessionId::new(session),
        conversation_id: id(),
        user_id: UserId::new("alice"),
        tokens: ResumeTokens::only(hash(token)),
        body: Sensitive(body.as_bytes().to_vec()),
        expires_at_unix_ms: 10_000,
    }
}

#[test]
fn a_session_has_one_snapshot_and_its_newest_token_counts() {
    check(|store| {
        let save = |snapshot: &Snapshot| ask(store, |tables| tables.save_snapshot(snapshot));
        let find = |token: &str, now| ask(store, |tables| tables.snapshot(&hash(token), now));
        let (first, second) = (snapshot("s1", "a", "first"), snapshot("s1", "b", "second"));
        assert_eq!(save(&first), Saved::Stored);
        assert_eq!(find("a", 9_999), Some(first));
        assert_eq!(find("a", 10_000), None);
        assert_eq!(save(&second), Saved::Stored);
        assert_eq!((find("a", 0), find("b", 0)), (None, Some(second.clone())));
        assert_eq!(save(&snapshot("s2", "b", "")), Saved::TokenTaken);
        assert_eq!(find("b", 0), Some(second));
        assert!(ask(store, |tables| tables
            .forget_snapshot(&SessionId::new("s1"))));
        assert!(!ask(store, |tables| tables
            .forget_snapshot(&SessionId::new("s1"))));
        assert_eq!(find("b", 0), None);
    });
}

#[test]
fn each_token_of_a_session_leads_to_it_until_a_save_leaves_it_out() {
    check(|store| {
        let save = |snapshot: &Snapshot| ask(store, |tables| tables.save_snapshot(snapshot));
        let find = |token: &str| ask(store, |tables| tables.snapshot(&hash(token), 0));
        let with = |previous: Option<&str>, current: &str, next: Option<&str>| Snapshot {
            tokens: ResumeTokens {
                current: hash(current),
                next: next.map(hash),
                previous: previous.map(hash),
            },
            ..snapshot("s1", "", "state")
        };
        let first = with(None, "a", Some("b"));
        assert_eq!(save(&first), Saved::Stored);
        assert_eq!((find("a"), find("b")), (Some(first.clone()), Some(first)));
        let second = with(Some("a"), "b", Some("c"));
        assert_eq!(save(&second), Saved::Stored);
        for token in ["a", "b", "c"] {
            assert_eq!(find(token), Some(second.clone()), "{token}");
            assert_eq!(
                save(&snapshot("s2", token, "")),
                Saved::TokenTaken,
                "{token}"
            );
        }
        let third = with(Some("b"), "c", None);
        assert_eq!(save(&third), Saved::Stored);
        assert_eq!((find("a"), find("b")), (None, Some(third)));
        assert_eq!(save(&snapshot("s2", "a", "")), Saved::Stored);
        assert_eq!(save(&with(Some("a"), "c", None)), Saved::TokenTaken);
    });
}

#[test]
fn snapshots_are_bounded_and_pruned() {
    let limits = StoreLimits {
        snapshot_bytes_max: 5,
        ..StoreLimits::default()
    };
    check_with(limits, |store| {
        for (body, expected) in [("12345", Saved::Stored), ("123456", Saved::TooLong)] {
            let saved = ask(store, |tables| {
                tables.save_snapshot(&snapshot("s1", "a", body))
            });
            assert_eq!(saved, expected);
        }
        let kept = ask(store, |tables| tables.snapshot(&hash("a"), 0)).unwrap();
        assert_eq!(kept.body.expose(), b"12345");
        assert_eq!(store.prune(9_999), Ok(0));
        assert_eq!(store.prune(10_000), Ok(1));
    });
}
