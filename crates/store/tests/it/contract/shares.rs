//! How many conversations a party may have, and which of its own go for new ones.

use super::check_with;
use crate::ledger::{HOUR_MS, conversation, new_leg, nonce};
use crate::support::{
    World, answered, appended, asked, asking, recorded, request, requested, said,
};
use windlass_contract::id::{ClientId, EffectId, SessionId, TenantId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, Reply, Request, RequestOrigin};
use windlass_store::{
    AttemptOutcome, Batch, Beginner, ConversationRef, ConversationShares, Epoch, LegRef, PartyKind,
    StoreLimits,
};

fn limits(address_max: usize, user_max: usize, tenant_max: usize) -> StoreLimits {
    StoreLimits {
        shares: ConversationShares {
            address_max,
            user_max,
            tenant_max,
        },
        ..StoreLimits::default()
    }
}

fn beginner(address: u8, user: Option<&str>) -> Beginner {
    Beginner {
        address: Some(Sensitive([192, 0, 2, address].into())),
        user: user.map(ClientId::new),
    }
}

fn open(world: &World, name: &str, by: &Beginner) -> Reply {
    let of = conversation(name, "alice");
    let crowded = world.store().crowded(&of.tenant, by).unwrap();
    let is_known = is_known(world, name);
    let reply = world.send(&of, Command::Open(by.clone()));
    if !is_known {
        let expected = crowded.map(Reply::Crowded);
        let refused = Some(&reply).filter(|reply| matches!(reply, Reply::Crowded(_)));
        assert_eq!(
            refused,
            expected.as_ref(),
            "what is told before is what happens"
        );
    }
    world.pass(1);
    reply
}

fn is_opened(reply: &Reply) -> bool {
    matches!(reply, Reply::Opened(_))
}

fn attach(world: &World, name: &str) -> (ConversationRef, LegRef) {
    let of = conversation(name, "alice");
    let leg = format!("leg of {name}");
    let reply = world.send(&of, Command::Attach(Box::new(new_leg(&leg))));
    assert_eq!(reply, Reply::Attached { epoch: Epoch(1) });
    let leg = SessionId::new(leg);
    (
        of,
        LegRef {
            leg,
            epoch: Epoch(1),
        },
    )
}

/// Something was said in it, and nobody is in it any more.
fn speak(world: &World, name: &str) {
    let (of, leg) = attach(world, name);
    world.send(&of, appended(&leg, vec![said(1, None, "hello")]));
    world.send(&of, Command::Leave(leg));
}

fn is_known(world: &World, name: &str) -> bool {
    let of = conversation(name, "alice");
    let found = world.store().conversation(&of.tenant, &of.conversation_id);
    found.unwrap().is_some()
}

#[test]
fn a_session_that_left_nothing_takes_no_row() {
    check_with(StoreLimits::default(), |world| {
        let by = beginner(1, None);
        for round in 0..3 {
            assert!(is_opened(&open(world, "talk", &by)), "{round}");
            let (of, leg) = attach(world, "talk");
            assert!(is_known(world, "talk"));
            assert_eq!(world.send(&of, Command::Leave(leg.clone())), Reply::Done);
            assert!(!is_known(world, "talk"));
            assert_eq!(world.send(&of, Command::Leave(leg)), Reply::Gone);
            // Nobody but an opening begins a conversation.
            assert_eq!(world.send(&of, Command::Taint), Reply::Done);
            let again = Command::Attach(Box::new(new_leg("late")));
            assert_eq!(world.send(&of, again), Reply::Gone);
            assert!(!is_known(world, "talk"));
        }
        // In a conversation that has something it leaves nothing either.
        open(world, "kept", &by);
        speak(world, "kept");
        let of = conversation("kept", "alice");
        let found = || world.store().conversation(&of.tenant, &of.conversation_id);
        let before = found().unwrap().unwrap();
        for number in 0..3 {
            open(world, "kept", &by);
            let (of, leg) = attach(world, "kept");
            world.send(&of, Command::Leave(leg));
            let after = found().unwrap().unwrap();
            assert_eq!(after.last_entry, before.last_entry, "{number}");
        }
        world.pass(24 * HOUR_MS);
        // The conversation, and that its session began, spoke and ended.
        assert_eq!(world.prune(), 4);
    });
}

#[test]
fn a_conversation_with_another_session_outlives_one_that_left_nothing() {
    check_with(StoreLimits::default(), |world| {
        open(world, "talk", &Beginner::default());
        let (of, first) = attach(world, "talk");
        let second = world.attach(&of, "second");
        assert_eq!(world.send(&of, Command::Leave(first)), Reply::Done);
        let reply = world.send(&of, appended(&second, vec![said(1, None, "hello")]));
        assert!(matches!(reply, Reply::Appended(_)), "{reply:?}");
        assert_eq!(world.send(&of, Command::Leave(second)), Reply::Done);
        assert!(is_known(world, "talk"));
    });
}

#[test]
fn at_its_share_a_party_loses_its_own_empty_ones_and_then_is_refused() {
    check_with(limits(3, 100, 100), |world| {
        let (own, other) = (beginner(1, None), beginner(2, None));
        open(world, "victim", &other);
        open(world, "empty-1", &own);
        open(world, "full", &own);
        speak(world, "full");
        open(world, "empty-2", &own);
        // The older of the empty ones goes, whatever others have.
        assert!(is_opened(&open(world, "new-1", &own)));
        let known = |world: &World, names: &[&str]| -> Vec<bool> {
            names.iter().map(|name| is_known(world, name)).collect()
        };
        let names = ["victim", "empty-1", "full", "empty-2", "new-1"];
        assert_eq!(known(world, &names), [true, false, true, true, true]);
        // Somebody is in it.
        attach(world, "empty-2");
        speak(world, "new-1");
        let refused = open(world, "new-2", &own);
        assert_eq!(refused, Reply::Crowded(PartyKind::Address));
        assert_eq!(known(world, &names), [true, false, true, true, true]);
        assert!(!is_known(world, "new-2"));
        // Nothing begins by another way.
        let of = conversation("new-2", "alice");
        let reply = world.send(&of, Command::Attach(Box::new(new_leg("leg"))));
        assert_eq!(reply, Reply::Gone);
        // What it has goes on, and so do others.
        assert!(is_opened(&open(world, "full", &own)));
        assert!(is_opened(&open(world, "others", &other)));
    });
}

#[test]
fn users_and_tenants_have_shares_of_their_own_and_a_restart_forgets_none() {
    check_with(limits(100, 2, 4), |world| {
        let by = |address: u8, user: &str| beginner(address, Some(user));
        for (number, address) in (1..=2).zip([1, 2]) {
            let name = format!("ada-{number}");
            assert!(is_opened(&open(world, &name, &by(address, "ada"))));
            speak(world, &name);
        }
        world.restart("process 2");
        assert_eq!(
            open(world, "ada-3", &by(3, "ada")),
            Reply::Crowded(PartyKind::User)
        );
        for name in ["bob-1", "bob-2"] {
            assert!(is_opened(&open(world, name, &by(1, "bob"))));
            speak(world, name);
        }
        world.restart("process 3");
        assert_eq!(
            open(world, "eve", &by(9, "eve")),
            Reply::Crowded(PartyKind::Tenant)
        );
        // Another tenant is another one.
        let elsewhere = ConversationRef {
            tenant: TenantId::new("acme"),
            ..conversation("eve", "alice")
        };
        assert!(is_opened(
            &world.send(&elsewhere, Command::Open(by(9, "eve")))
        ));
        // What has rested for too long is counted until it is deleted.
        world.pass(25 * HOUR_MS);
        world.prune();
        assert!(is_opened(&open(world, "ada-3", &by(3, "ada"))));
    });
}

#[test]
fn conversations_that_begin_in_one_commit_count_each_other() {
    check_with(limits(2, 100, 100), |world| {
        let by = beginner(1, None);
        let batch = |name: &str, command: Command| Batch {
            conversation: conversation(name, "alice"),
            commands: vec![command],
        };
        let attach = Command::Attach(Box::new(new_leg("leg")));
        let leg = LegRef {
            leg: SessionId::new("leg"),
            epoch: Epoch(1),
        };
        let replies = world.store().commit(&[
            batch("a", Command::Open(by.clone())),
            batch("a", attach.clone()),
            batch("a", appended(&leg, vec![said(1, None, "hello")])),
            batch("a", Command::Leave(leg)),
            batch("b", Command::Open(by.clone())),
            batch("b", attach.clone()),
            batch("c", Command::Open(by.clone())),
            batch("b", Command::Settle),
        ]);
        let replies: Vec<Reply> = replies.unwrap().into_iter().flatten().collect();
        assert_eq!(replies[6], Reply::Crowded(PartyKind::Address));
        assert!(is_known(world, "a") && is_known(world, "b"));
        // The same where the empty one goes.
        let replies = world.store().commit(&[
            batch(
                "b",
                Command::Leave(LegRef {
                    leg: SessionId::new("leg"),
                    epoch: Epoch(1),
                }),
            ),
            batch("d", Command::Open(by.clone())),
            batch("e", Command::Open(by)),
        ]);
        let replies: Vec<Reply> = replies.unwrap().into_iter().flatten().collect();
        assert!(replies[1..].iter().all(is_opened), "{replies:?}");
        assert!(!is_known(world, "d") && is_known(world, "e"));
    });
}

#[test]
fn a_conversation_that_nobody_comes_back_to_goes_unless_it_holds_something() {
    check_with(StoreLimits::default(), |world| {
        for (name, left) in [("said", 0), ("done", 1), ("asks", 2)] {
            open(world, name, &Beginner::default());
            let (of, leg) = attach(world, name);
            world.send(&of, appended(&leg, vec![said(1, None, "hello")]));
            match left {
                0 => {}
                1 => {
                    world.send(&of, requested(1, &leg));
                    world.send(&of, recorded(1, AttemptOutcome::Succeeded));
                }
                _ => drop(asked(world.send(&of, asking(2, &leg)))),
            }
            assert_eq!(world.send(&of, Command::Discard), Reply::Done);
            assert!(is_known(world, name), "somebody is in it");
            world.send(&of, Command::Leave(leg));
            world.send(&of, Command::Discard);
            assert_eq!(is_known(world, name), left > 0, "{name}");
        }
    });
}

#[test]
fn no_flood_ends_the_time_of_anothers_effect_or_open_request() {
    check_with(limits(20, 100, 10_000), |world| {
        let (attacker, victim) = (beginner(1, None), beginner(2, None));
        open(world, "done", &victim);
        let (done, leg) = attach(world, "done");
        world.send(&done, requested(1, &leg));
        world.send(&done, recorded(1, AttemptOutcome::Succeeded));
        world.send(&done, Command::Leave(leg));
        open(world, "asks", &victim);
        let (asks, leg) = attach(world, "asks");
        let question = asked(world.send(&asks, asking(2, &leg)));
        world.send(&asks, Command::Leave(leg));
        for number in 0..300 {
            let name = format!("stopped-{number}");
            open(world, &name, &attacker);
            let (of, leg) = attach(world, &name);
            world.send(&of, Command::Leave(leg));
        }
        let mut refused = 0;
        for number in 0..300 {
            let name = format!("spoken-{number}");
            match open(world, &name, &attacker) {
                Reply::Crowded(PartyKind::Address) => refused += 1,
                _ => speak(world, &name),
            }
            world.prune();
        }
        assert_eq!(refused, 280);
        world.restart("process 2");
        world.prune();
        let effect = world
            .store()
            .effect(&done.tenant, &EffectId::new("effect-1"));
        assert!(effect.unwrap().is_some());
        // What was done is recognised, and what was asked can be answered.
        let leg = world.attach(&done, "later");
        let again = Request {
            nonce: nonce(3),
            effect_id: EffectId::new("effect-3"),
            origin: RequestOrigin::Model {
                delivery: "call_3".to_owned(),
                generation: 1,
            },
            ..request(1, &leg)
        };
        let reply = world.send(&done, Command::Request(Box::new(again)));
        assert!(
            matches!(&reply, Reply::Replay(effect) if effect.effect_id.as_str() == "effect-1"),
            "{reply:?}"
        );
        let reply = world.send(&asks, answered(4, &question, true));
        assert!(matches!(reply, Reply::Run(_)), "{reply:?}");
    });
}

#[test]
fn twenty_thousand_sessions_that_left_nothing_leave_nothing() {
    let world = World::in_sqlite(limits(200, 100, 100_000));
    let by = beginner(1, Some("eve"));
    for hundred in 0..200 {
        let batches = (0..100).map(|number| {
            let leg = LegRef {
                leg: SessionId::new("leg"),
                epoch: Epoch(1),
            };
            Batch {
                conversation: conversation(&format!("talk-{hundred}-{number}"), "alice"),
                commands: vec![
                    Command::Open(by.clone()),
                    Command::Attach(Box::new(new_leg("leg"))),
                    Command::Leave(leg),
                ],
            }
        });
        let batches: Vec<Batch> = batches.collect();
        let replies = world.store().commit(&batches).unwrap();
        let is_left = |replies: &Vec<Reply>| replies[2] == Reply::Done;
        assert!(replies.iter().all(is_left), "{replies:?}");
    }
    assert!(is_opened(&open(&world, "one more", &by)));
    world.pass(24 * HOUR_MS);
    assert_eq!(world.prune(), 1);
}
