//! Blocks of users.

use super::check;
use crate::support::{START_UNIX_MS, World, block};
use windlass_contract::id::UserId;

fn until(world: &World, user: &str, now_unix_ms: u64) -> Option<u64> {
    let found = world.store().blocked(&UserId::new(user), now_unix_ms);
    found.unwrap().map(|block| block.until_unix_ms)
}

#[test]
fn several_users_are_blocked_together() {
    check(|world| {
        let store = world.store();
        store.block(block("mallory", 3_000, "before")).unwrap();
        let both = [block("mallory", 2_000, "Bye"), block("trudy", 2_000, "Bye")];
        store.block_all(&both).unwrap();
        store.block_all(&[]).unwrap();
        assert_eq!(until(world, "mallory", 0), Some(3_000));
        assert_eq!(until(world, "trudy", 0), Some(2_000));
    });
}

#[test]
fn a_user_is_blocked_until_the_block_ends_and_no_other_user_is() {
    check(|world| {
        world.store().block(block("mallory", 1_000, "Bye")).unwrap();
        let found = world.store().blocked(&UserId::new("mallory"), 999);
        assert_eq!(found, Ok(Some(block("mallory", 1_000, "Bye"))));
        for (user, now_unix_ms, expected) in [
            ("mallory", 0, Some(1_000)),
            ("mallory", 1_000, None),
            ("mallory", u64::MAX, None),
            ("Mallory", 0, None),
            ("alice", 0, None),
            ("", 0, None),
        ] {
            let found = until(world, user, now_unix_ms);
            assert_eq!(found, expected, "{user} {now_unix_ms}");
        }
    });
}

#[test]
fn the_later_of_two_ends_counts_with_its_own_farewell() {
    check(|world| {
        let store = world.store();
        store.block(block("mallory", 2_000, "first")).unwrap();
        store.block(block("mallory", 1_000, "shorter")).unwrap();
        store.block(block("mallory", 2_000, "as long")).unwrap();
        let found = store.blocked(&UserId::new("mallory"), 0);
        assert_eq!(found, Ok(Some(block("mallory", 2_000, "first"))));
        store.block(block("mallory", 3_000, "longer")).unwrap();
        let found = store.blocked(&UserId::new("mallory"), 0);
        assert_eq!(found, Ok(Some(block("mallory", 3_000, "longer"))));
    });
}

#[test]
fn a_block_that_ran_out_gives_way_to_a_new_one() {
    check(|world| {
        let store = world.store();
        store.block(block("mallory", 1_000, "first")).unwrap();
        assert_eq!(until(world, "mallory", 1_500), None);
        store.block(block("mallory", 2_000, "second")).unwrap();
        assert_eq!(until(world, "mallory", 1_500), Some(2_000));
    });
}

#[test]
fn any_text_and_any_time_of_a_block_is_kept() {
    check(|world| {
        let store = world.store();
        let odd = "Ø'); DROP TABLE blocks; --\u{0}\u{1f600}";
        store.block(block(odd, u64::MAX, odd)).unwrap();
        let found = store.blocked(&UserId::new(odd), 1);
        assert_eq!(found, Ok(Some(block(odd, i64::MAX as u64, odd))));
        store.block(block("past", 0, "")).unwrap();
        assert_eq!(until(world, "past", 0), None);
    });
}

#[test]
fn pruning_deletes_blocks_that_have_run_out_and_no_other() {
    check(|world| {
        for number in 1..=10 {
            let user = format!("user-{number}");
            let until_unix_ms = START_UNIX_MS + number * 1_000;
            let store = world.store();
            store.block(block(&user, until_unix_ms, "")).unwrap();
        }
        world.pass(4_000);
        assert_eq!(world.prune(), 4);
        assert_eq!(until(world, "user-4", 0), None);
        assert_eq!(until(world, "user-5", 0), Some(START_UNIX_MS + 5_000));
    });
}

#[test]
fn a_block_survives_a_restart() {
    check(|world| {
        world.store().block(block("mallory", 1_000, "Bye")).unwrap();
        world.restart("process 2");
        assert_eq!(until(world, "mallory", 0), Some(1_000));
        assert_eq!(until(world, "alice", 0), None);
    });
}

#[test]
fn many_threads_may_block_and_ask_at_once() {
    check(|world| {
        let store = world.store();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for number in 0..5 {
                        let user = format!("user-{thread}-{number}");
                        store.block(block(&user, 1_000, "")).unwrap();
                        assert!(store.blocked(&UserId::new(user), 0).unwrap().is_some());
                    }
                });
            }
        });
    });
}
