//! What has run out goes, and nothing that is still needed.

use super::check;
use crate::ledger::{HOUR_MS, conversation, new_leg};
use crate::support::{World, appended, asked, asking, recorded, requested, said};
use windlass_contract::id::{EffectId, TenantId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, Reply};
use windlass_store::{AttemptOutcome, Beginner, ConversationRef};

fn is_known(world: &World, of: &ConversationRef) -> bool {
    let found = world.store().conversation(&of.tenant, &of.conversation_id);
    found.unwrap().is_some()
}

fn has_effect(world: &World, number: u64) -> bool {
    let effect_id = EffectId::new(format!("effect-{number}"));
    let found = world.store().effect(&TenantId::default(), &effect_id);
    found.unwrap().is_some()
}

fn has_leg(world: &World, leg: &str) -> bool {
    let found = world.store().leg(&new_leg(leg).resume_token);
    found.unwrap().is_some()
}

#[test]
fn a_conversation_that_was_idle_for_too_long_goes_with_everything() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.send(&talk, appended(&leg, vec![said(1, None, "hello")]));
        world.send(&talk, requested(1, &leg));
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        world.send(&talk, asking(2, &leg));
        world.send(&talk, Command::Leave(leg));
        assert_eq!(world.prune(), 0);
        world.pass(24 * HOUR_MS);
        // The conversation, an effect, a question, two deliveries, and six entries.
        assert_eq!(world.prune(), 11);
        assert!(!has_effect(world, 1));
        assert!(!has_leg(world, "leg"));
        assert_eq!(world.prune(), 0);
    });
}

#[test]
fn running_effects_and_live_legs_keep_a_conversation() {
    check(|world| {
        let runs = conversation("runs", "alice");
        let leg = world.attach(&runs, "runs");
        world.send(&runs, requested(1, &leg));
        world.send(&runs, Command::Leave(leg));
        let lives = conversation("lives", "alice");
        let leg = world.attach(&lives, "lives");
        let save = Command::Save {
            leg,
            body: Sensitive(Vec::new()),
            expires_in_ms: 200 * HOUR_MS,
        };
        assert_eq!(world.send(&lives, save), Reply::Done);
        let left = conversation("left", "alice");
        let leg = world.attach(&left, "left");
        world.send(&left, Command::Leave(leg));
        world.pass(100 * HOUR_MS);
        world.prune();
        assert!(has_effect(world, 1));
        assert!(has_leg(world, "lives"));
        assert!(!has_leg(world, "left"));
        // Once it has ended, nothing keeps it.
        world.send(&runs, Command::Settle);
        world.pass(24 * HOUR_MS);
        world.prune();
        assert!(!has_effect(world, 1));
        assert!(!is_known(world, &runs));
    });
}

#[test]
fn effects_and_questions_of_a_conversation_that_goes_on_go_once_they_are_old() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        for number in 1..=3 {
            world.send(&talk, requested(number, &leg));
        }
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        let old = asked(world.send(&talk, asking(4, &leg)));
        let kept = |world: &World| [1, 2, 3].map(|number| has_effect(world, number));
        world.pass(12 * HOUR_MS);
        world.send(&talk, recorded(2, AttemptOutcome::Succeeded));
        world.pass(12 * HOUR_MS);
        world.send(&talk, Command::Open(Beginner::default()));
        // The first effect and its delivery.
        assert_eq!(world.prune(), 2);
        assert_eq!(kept(world), [false, true, true]);
        world.pass(HOUR_MS - 1);
        // The question, which has run out a day ago, and its delivery.
        assert_eq!(world.prune(), 2);
        let found = world.store().question(&talk, &old.token);
        assert_eq!(found, Ok(None));
        world.pass(11 * HOUR_MS + 1);
        // The second effect and its delivery. The leg still speaks.
        assert_eq!(world.prune(), 2);
        assert_eq!(kept(world), [false, false, true]);
        assert!(is_known(world, &talk));
    });
}

#[test]
fn an_effect_that_was_pruned_may_run_again() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.send(&talk, requested(1, &leg));
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        world.pass(12 * HOUR_MS);
        let leg = world.attach(&talk, "later");
        world.pass(12 * HOUR_MS);
        assert_eq!(world.prune(), 2);
        let reply = world.send(&talk, requested(1, &leg));
        assert!(matches!(reply, Reply::Run(_)), "{reply:?}");
    });
}

#[test]
fn an_open_request_keeps_a_conversation_that_rests() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let request = match asking(1, &leg) {
            Command::Request(mut request) => {
                request.question_ms = 48 * HOUR_MS;
                Command::Request(request)
            }
            other => panic!("{other:?}"),
        };
        let asked = asked(world.send(&talk, request));
        world.send(&talk, Command::Leave(leg));
        world.pass(47 * HOUR_MS);
        world.prune();
        let found = world.store().question(&talk, &asked.token).unwrap();
        assert_eq!(found, Some(asked.question));
        world.pass(HOUR_MS);
        world.prune();
        assert!(!is_known(world, &talk));
    });
}

#[test]
fn a_session_that_goes_on_for_days_still_speaks_and_changes_something() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        for number in 1..=20 {
            world.pass(12 * HOUR_MS);
            world.prune();
            let said = appended(&leg, vec![said(number, None, "still here")]);
            let reply = world.send(&talk, said);
            assert!(matches!(reply, Reply::Appended(_)), "{number}: {reply:?}");
            let reply = world.send(&talk, requested(number, &leg));
            assert!(matches!(reply, Reply::Run(_)), "{number}: {reply:?}");
            world.send(&talk, recorded(number, AttemptOutcome::Succeeded));
        }
        // Nobody has said anything for longer than a conversation is kept.
        world.pass(100 * HOUR_MS);
        world.prune();
        let reply = world.send(&talk, requested(21, &leg));
        assert!(matches!(reply, Reply::Run(_)), "{reply:?}");
        // Its process has ended, and nobody comes back to it.
        world.send(&talk, recorded(21, AttemptOutcome::Succeeded));
        world.restart("process 2");
        world.pass(25 * HOUR_MS);
        world.prune();
        assert!(!has_leg(world, "leg"));
        assert!(!is_known(world, &talk));
    });
}

#[test]
fn more_rows_than_one_slice_has_are_deleted_bit_by_bit() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        for hundred in 0..12 {
            let entries = (1..=100).map(|number| said(hundred * 100 + number, None, "text"));
            world.send(&talk, appended(&leg, entries.collect()));
        }
        world.send(&talk, Command::Leave(leg));
        let other = conversation("other", "alice");
        world.send(&other, Command::Open(Beginner::default()));
        world.pass(24 * HOUR_MS);
        // Two conversations and the entries of one.
        assert_eq!(world.prune(), 1_204);
    });
}
