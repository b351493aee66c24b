//! One suite of rules for every store. A store that passes may stand in for another.

mod approvals;
mod conversations;
mod grants;
mod ledger;
mod readings;

use std::sync::Arc;
use windlass_store::{MemoryStore, SqliteStore, Store, StoreLimits};
use windlass_tool::handler::{Block, Blocks};
use windlass_tool::id::UserId;

pub(crate) fn block(user: &str, until_unix_ms: u64, farewell_message: &str) -> Block {
    Block {
        user_id: UserId::new(user),
        until_unix_ms,
        farewell_message: farewell_message.to_owned(),
    }
}

/// Runs a rule against a fresh store of each kind.
fn check(rule: impl Fn(&dyn Store)) {
    check_with(StoreLimits::default(), rule);
}

/// The same, under limits.
fn check_with(limits: StoreLimits, rule: impl Fn(&dyn Store)) {
    rule(&MemoryStore::with_limits(limits));
    let folder = tempfile::tempdir().unwrap();
    rule(&SqliteStore::open_with(folder.path(), limits).unwrap());
}

/// The same, for rules that need many threads.
fn check_shared(rule: impl Fn(Arc<dyn Store>)) {
    rule(Arc::new(MemoryStore::new()));
    let folder = tempfile::tempdir().unwrap();
    rule(Arc::new(SqliteStore::open(folder.path()).unwrap()));
}

fn until(store: &dyn Store, user: &str, now_unix_ms: u64) -> Option<u64> {
    let found = store.blocked(&UserId::new(user), now_unix_ms).unwrap();
    found.map(|block| block.until_unix_ms)
}

#[test]
fn several_users_are_blocked_together() {
    check(|store| {
        store.block(block("mallory", 3_000, "before")).unwrap();
        let both = [block("mallory", 2_000, "Bye"), block("trudy", 2_000, "Bye")];
        store.block_all(&both).unwrap();
        assert_eq!(until(store, "mallory", 0), Some(3_000));
        assert_eq!(until(store, "trudy", 0), Some(2_000));
        store.block_all(&[]).unwrap();
    });
}

#[test]
fn a_user_is_blocked_until_the_block_ends_and_no_other_user_is() {
    check(|store| {
        store.block(block("mallory", 1_000, "Bye")).unwrap();
        let found = store.blocked(&UserId::new("mallory"), 999).unwrap();
        assert_eq!(found, Some(block("mallory", 1_000, "Bye")));
        for (user, now_unix_ms, expected) in [
            ("mallory", 0, Some(1_000)),
            ("mallory", 1_000, None),
            ("mallory", u64::MAX, None),
            ("Mallory", 0, None),
            ("alice", 0, None),
            ("", 0, None),
        ] {
            assert_eq!(
                until(store, user, now_unix_ms),
                expected,
                "{user} {now_unix_ms}"
            );
        }
    });
}

#[test]
fn the_later_of_two_ends_counts_with_its_own_farewell() {
    check(|store| {
        store.block(block("mallory", 2_000, "first")).unwrap();
        store.block(block("mallory", 1_000, "shorter")).unwrap();
        store.block(block("mallory", 2_000, "as long")).unwrap();
        let found = store.blocked(&UserId::new("mallory"), 0).unwrap();
        assert_eq!(found, Some(block("mallory", 2_000, "first")));
        store.block(block("mallory", 3_000, "longer")).unwrap();
        let found = store.blocked(&UserId::new("mallory"), 0).unwrap();
        assert_eq!(found, Some(block("mallory", 3_000, "longer")));
    });
}

#[test]
fn a_block_that_ran_out_gives_way_to_a_new_one() {
    check(|store| {
        store.block(block("mallory", 1_000, "first")).unwrap();
        assert_eq!(until(store, "mallory", 1_500), None);
        store.block(block("mallory", 2_000, "second")).unwrap();
        assert_eq!(until(store, "mallory", 1_500), Some(2_000));
    });
}

#[test]
fn any_text_and_any_time_is_kept() {
    check(|store| {
        let odd = "Ø'); DROP TABLE blocks; --\u{0}\u{1f600}";
        store.block(block(odd, u64::MAX, odd)).unwrap();
        let found = store.blocked(&UserId::new(odd), 1).unwrap().unwrap();
        assert_eq!(found, block(odd, i64::MAX as u64, odd));
        store.block(block("past", 0, "")).unwrap();
        assert_eq!(until(store, "past", 0), None);
    });
}

#[test]
fn pruning_deletes_what_has_run_out_and_nothing_else() {
    check(|store| {
        for number in 1..=10_u64 {
            store
                .block(block(&format!("user-{number}"), number * 1_000, ""))
                .unwrap();
        }
        assert_eq!(store.prune(4_000), Ok(4));
        assert_eq!(store.prune(4_000), Ok(0));
        assert_eq!(until(store, "user-4", 0), None);
        assert_eq!(until(store, "user-5", 0), Some(5_000));
    });
}

#[test]
fn a_store_that_is_only_asked_prunes_by_itself() {
    check(|store| {
        let day_ms = 24 * 60 * 60 * 1_000;
        store.block(block("mallory", day_ms, "")).unwrap();
        assert_eq!(until(store, "alice", 2 * day_ms), None);
        assert_eq!(store.prune(2 * day_ms), Ok(0));
        assert_eq!(until(store, "mallory", 0), None);
    });
}

#[test]
fn many_threads_may_block_and_ask_at_once() {
    check_shared(|store| {
        let blocks: Arc<dyn Blocks> = store;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let blocks = &blocks;
                scope.spawn(move || {
                    for number in 0..5 {
                        let user = format!("user-{thread}-{number}");
                        blocks.block(block(&user, 1_000, "")).unwrap();
                        assert!(blocks.blocked(&UserId::new(user), 0).unwrap().is_some());
                    }
                });
            }
        });
    });
}
