//! Conversations: whose they are, how long they are known, and what time it is in them.

use super::{check, check_with};
use crate::ledger::{HOUR_MS, conversation, nonce};
use crate::support::{START_UNIX_MS, World, appended, ran, request, requested, said};
use std::sync::atomic::Ordering;
use windlass_contract::id::{EffectId, TenantId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, Record, Refusal, Reply};
use windlass_store::party::Parties;
use windlass_store::{
    AttemptOutcome, Batch, Beginner, Conversation, ConversationRef, EntryNumber, Heading,
    QuestionNumber, StoreLimits,
};

fn find(world: &World, of: &ConversationRef) -> Option<Conversation> {
    let found = world.store().conversation(&of.tenant, &of.conversation_id);
    found.unwrap()
}

#[test]
fn a_conversation_begins_when_it_is_opened_and_goes_on_when_it_is_opened_again() {
    check(|world| {
        let talk = conversation("talk", "alice");
        assert_eq!(find(world, &talk), None);
        let begun = Conversation {
            tenant: TenantId::default(),
            conversation_id: talk.conversation_id.clone(),
            user_id: talk.user_id.clone(),
            parties: Parties::default(),
            has_external_content: false,
            last_entry: EntryNumber(0),
            first_entry: EntryNumber(1),
            last_question: QuestionNumber(0),
            begun_at_unix_ms: START_UNIX_MS,
            used_at_unix_ms: START_UNIX_MS,
            heading: Heading::default(),
            standing: Vec::new(),
        };
        let reply = world.send(&talk, Command::Open(Beginner::default()));
        assert_eq!(reply, Reply::Opened(Box::new(begun.clone())));
        assert_eq!(find(world, &talk), Some(begun.clone()));
        world.pass(1_000);
        world.restart("process 2");
        let used = Conversation {
            used_at_unix_ms: START_UNIX_MS + 1_000,
            ..begun
        };
        let reply = world.send(&talk, Command::Open(Beginner::default()));
        assert_eq!(reply, Reply::Opened(Box::new(used.clone())));
        assert_eq!(find(world, &talk), Some(used));
    });
}

#[test]
fn another_user_changes_nothing_of_a_conversation_and_reads_nothing() {
    check(|world| {
        let (alice, eve) = (conversation("talk", "alice"), conversation("talk", "eve"));
        let leg = world.attach(&alice, "leg");
        world.send(&alice, appended(&leg, vec![said(1, Some("key"), "secret")]));
        world.send(&alice, requested(1, &leg));
        let before = find(world, &alice);
        for command in [
            Command::Open(Beginner::default()),
            Command::Taint,
            Command::Settle,
            Command::Rename(Sensitive("Mine".to_owned())),
            Command::Erase,
            Command::CancelTask {
                effect_id: EffectId::new("effect-1"),
            },
            Command::Leave(leg.clone()),
            appended(&leg, vec![said(2, None, "I am alice")]),
            requested(2, &leg),
        ] {
            assert_eq!(world.send(&eve, command), Reply::Foreign);
        }
        assert_eq!(find(world, &alice), before);
        let store = world.store();
        assert_eq!(store.entries(&eve, EntryNumber(0), 10), Ok(Vec::new()));
        assert_eq!(store.entry_of_key(&eve, "key"), Ok(None));
        assert_eq!(store.unheard(&eve), Ok(Vec::new()));
        assert_eq!(store.open_questions(&eve), Ok(Vec::new()));
    });
}

#[test]
fn two_tenants_have_a_conversation_of_one_name_each() {
    check(|world| {
        let one = conversation("talk", "alice");
        let other = ConversationRef {
            tenant: TenantId::new("other"),
            user_id: UserId::new("bob"),
            ..one.clone()
        };
        for of in [&one, &other] {
            let leg = world.attach(of, "leg");
            let reply = world.send(of, requested(1, &leg));
            assert!(matches!(reply, Reply::Run(_)), "{reply:?}");
        }
        let effect_id = EffectId::new("effect-1");
        for of in [&one, &other] {
            let found = world.store().effect(&of.tenant, &effect_id).unwrap();
            assert_eq!(found.map(|(whose, _)| whose), Some(of.clone()));
        }
        let third = world.store().effect(&TenantId::new("third"), &effect_id);
        assert_eq!(third, Ok(None));
    });
}

#[test]
fn nothing_of_a_conversation_is_known_once_it_was_idle_for_too_long() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.send(&talk, appended(&leg, vec![said(1, Some("key"), "hello")]));
        world.send(&talk, Command::Taint);
        world.send(&talk, Command::Leave(leg.clone()));
        world.pass(24 * HOUR_MS - 1);
        assert!(find(world, &talk).is_some());
        world.pass(1);
        assert_eq!(find(world, &talk), None);
        assert_eq!(world.store().entry_of_key(&talk, "key"), Ok(None));
        // The next user of that name begins anew.
        let bob = conversation("talk", "bob");
        let reply = world.send(&bob, Command::Open(Beginner::default()));
        let Reply::Opened(opened) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(opened.last_entry, EntryNumber(0));
        assert!(!opened.has_external_content);
        let entries = world.store().entries(&bob, EntryNumber(0), 10);
        assert_eq!(entries, Ok(Vec::new()));
        assert_eq!(world.send(&bob, Command::Leave(leg)), Reply::Gone);
    });
}

#[test]
fn a_conversation_with_a_running_effect_is_known_however_long_it_was_idle() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.send(&talk, requested(1, &leg));
        world.pass(100 * HOUR_MS);
        assert!(find(world, &talk).is_some());
        let reply = world.send(&talk, Command::Settle);
        assert!(matches!(reply, Reply::Settled(effects) if effects.len() == 1));
    });
}

#[test]
fn what_others_wrote_is_remembered_of_a_conversation() {
    check(|world| {
        let talk = conversation("talk", "alice");
        world.send(&talk, Command::Open(Beginner::default()));
        assert_eq!(world.send(&talk, Command::Taint), Reply::Done);
        world.restart("process 2");
        assert!(find(world, &talk).unwrap().has_external_content);
    });
}

#[test]
fn the_time_of_a_conversation_never_runs_backwards() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.pass(HOUR_MS);
        world.send(&talk, appended(&leg, vec![said(1, None, "now")]));
        world.clock.fetch_sub(HOUR_MS, Ordering::Relaxed);
        world.send(&talk, appended(&leg, vec![said(2, None, "then")]));
        let entries = world.store().entries(&talk, EntryNumber(0), 10).unwrap();
        assert!(entries.is_sorted_by_key(|entry| entry.at_unix_ms));
        let used_at_unix_ms = find(world, &talk).unwrap().used_at_unix_ms;
        assert_eq!(used_at_unix_ms, START_UNIX_MS + HOUR_MS);
    });
}

#[test]
fn a_conversation_whose_time_is_ahead_changes_nothing_for_others() {
    check(|world| {
        let ahead = conversation("ahead", "alice");
        let leg = world.attach(&ahead, "leg");
        world.pass(HOUR_MS);
        world.send(&ahead, appended(&leg, vec![said(1, None, "now")]));
        world.clock.fetch_sub(HOUR_MS, Ordering::Relaxed);
        world.restart("process 2");
        assert_eq!(world.store().now_unix_ms(), world.now());
        // A service promises its end within ten minutes, by this process's clock, in both.
        for (number, name) in [(1, "ahead"), (2, "other")] {
            let talk = conversation(name, "alice");
            let leg = world.attach(&talk, "another leg");
            let run = ran(world.send(&talk, requested(number, &leg)));
            let record = Command::Record(Box::new(Record {
                next_attempt_ms: None,
                effect_id: run.effect_id.unwrap(),
                attempt: run.attempt,
                outcome: AttemptOutcome::Accepted {
                    until_unix_ms: world.now() + 600_000,
                },
                receipt: None,
                asks: None,
                values: None,
            }));
            world.send(&talk, record);
            assert_eq!(
                world.send(&talk, Command::Settle),
                Reply::Settled(Vec::new()),
                "{name}"
            );
        }
        world.pass(599_999);
        let other = conversation("other", "alice");
        let settled = Reply::Settled(Vec::new());
        assert_eq!(world.send(&other, Command::Settle), settled);
        world.pass(1);
        assert_ne!(world.send(&other, Command::Settle), settled);
    });
}

#[test]
fn batches_of_many_conversations_are_answered_in_their_order() {
    check(|world| {
        let batches = (0..5).map(|number| {
            let talk = conversation(&format!("talk-{number}"), "alice");
            let leg = world.attach(&talk, "leg");
            Batch {
                conversation: talk,
                commands: vec![
                    appended(&leg, vec![said(1, None, "hello"), said(2, None, "again")]),
                    requested(number, &leg),
                ],
            }
        });
        let batches: Vec<Batch> = batches.collect();
        let replies = world.store().commit(&batches).unwrap();
        for (number, replies) in replies.iter().enumerate() {
            let numbers = vec![EntryNumber(2), EntryNumber(3)];
            assert_eq!(replies[0], Reply::Appended(numbers));
            let Reply::Run(run) = &replies[1] else {
                panic!("{:?}", replies[1]);
            };
            let effect_id = EffectId::new(format!("effect-{number}"));
            assert_eq!(run.effect_id, Some(effect_id));
        }
        assert_eq!(replies.len(), 5);
        assert_eq!(world.store().commit(&[]), Ok(Vec::new()));
    });
}

#[test]
fn a_refusal_spoils_nothing_for_the_others() {
    let limits = StoreLimits {
        entry_bytes_max: 10,
        effects_max: 1,
        ..StoreLimits::default()
    };
    check_with(limits, |world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let batch = Batch {
            conversation: talk.clone(),
            commands: vec![
                requested(1, &leg),
                requested(2, &leg),
                appended(&leg, vec![said(1, None, "far too long for it")]),
                appended(&leg, vec![said(1, None, "short")]),
            ],
        };
        let replies = world.store().commit(&[batch]).unwrap().remove(0);
        assert!(matches!(replies[0], Reply::Run(_)));
        assert_eq!(replies[1], Reply::Refused(Refusal::Full));
        assert_eq!(replies[2], Reply::EntryTooLong);
        assert!(matches!(replies[3], Reply::Appended(_)));
    });
}

#[test]
fn what_was_given_up_is_refused_when_it_comes_later() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let late = request(1, &leg);
        let give_up = Command::Abandon {
            nonce: nonce(1),
            effect_id: late.effect_id.clone(),
            question: None,
        };
        assert_eq!(world.send(&talk, give_up.clone()), Reply::Done);
        assert_eq!(world.send(&talk, give_up), Reply::Done);
        world.restart("process 2");
        let reply = world.send(&talk, Command::Request(Box::new(late)));
        assert_eq!(reply, Reply::Refused(Refusal::Abandoned));
        // Another conversation knows nothing of that nonce.
        let other = conversation("other", "alice");
        let leg = world.attach(&other, "leg");
        let reply = world.send(&other, requested(1, &leg));
        assert!(matches!(reply, Reply::Run(_)), "{reply:?}");
    });
}
