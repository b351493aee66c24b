//! Legs: who speaks for one, and how a client comes back to it.

use super::{check, check_with};
use crate::ledger::{HOUR_MS, conversation, new_leg};
use crate::support::{
    START_UNIX_MS, World, answered, appended, asked, asking, recorded, requested, said,
};
use windlass_contract::condition::LocalClock;
use windlass_contract::id::{ClientId, UserId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, Reply, Resumed};
use windlass_store::{
    AttemptOutcome, Beginner, ConversationRef, Epoch, Leg, LegRef, OwnerId, Presented, StoreLimits,
};

fn presented(leg: &str) -> Presented {
    Presented {
        resume_token: new_leg(leg).resume_token,
        client_id: ClientId::new("phone"),
        user_id: UserId::new("alice"),
    }
}

fn resume(world: &World, of: &ConversationRef, presented: Presented) -> Option<Resumed> {
    match world.send(of, Command::Resume(presented)) {
        Reply::Resumed(resumed) => Some(*resumed),
        Reply::NotResumed => None,
        other => panic!("{other:?}"),
    }
}

fn save(leg: &LegRef, body: &[u8]) -> Command {
    Command::Save {
        leg: leg.clone(),
        body: Sensitive(body.to_vec()),
        expires_in_ms: 2 * HOUR_MS,
    }
}

fn found(world: &World, leg: &str) -> Option<(ConversationRef, Leg)> {
    world.store().leg(&new_leg(leg).resume_token).unwrap()
}

#[test]
fn a_leg_is_found_by_its_token_as_it_was_saved() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let body: Vec<u8> = (0..=255).collect();
        assert_eq!(world.send(&talk, save(&leg, &body)), Reply::Done);
        world.send(&talk, appended(&leg, vec![said(7, None, "hello")]));
        world.restart("process 2");
        let expected = Leg {
            leg: leg.leg.clone(),
            mode: Mode::Voice,
            epoch: Epoch(1),
            owner: OwnerId("process 1".to_owned()),
            client_id: ClientId::new("phone"),
            resume_token: new_leg("leg").resume_token,
            body: Sensitive(body),
            last_number: 7,
            is_announced: true,
            expires_at_unix_ms: START_UNIX_MS + 2 * HOUR_MS,
        };
        assert_eq!(found(world, "leg"), Some((talk, expected)));
        assert_eq!(found(world, "other"), None);
    });
}

#[test]
fn a_leg_is_resumed_with_the_next_epoch_and_everything_that_it_needs() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.send(&talk, save(&leg, b"state"));
        world.send(&talk, appended(&leg, vec![said(1, None, "hello")]));
        world.send(&talk, requested(1, &leg));
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        world.send(&talk, requested(2, &leg));
        let open = asked(world.send(&talk, asking(3, &leg)));
        let denied = asked(world.send(&talk, asking(4, &leg)));
        world.send(&talk, answered(5, &denied, false));
        world.restart("process 2");
        let resumed = resume(world, &talk, presented("leg")).unwrap();
        assert_eq!(resumed.leg.epoch, Epoch(2));
        assert_eq!(resumed.leg.owner, OwnerId("process 2".to_owned()));
        assert_eq!(resumed.leg.body, Sensitive(b"state".to_vec()));
        let tokens = resumed.questions.iter().map(|asked| &asked.token);
        assert_eq!(tokens.collect::<Vec<_>>(), [&open.token]);
        let told = resumed.unheard_questions.iter();
        let told = told.map(|question| question.number);
        assert_eq!(told.collect::<Vec<_>>(), [denied.question.number]);
        let reason = Some(Sensitive("too dear".to_owned()));
        assert_eq!(resumed.unheard_questions[0].reason, reason);
        assert_eq!(
            resumed.unheard_questions[0].because.as_deref(),
            Some("the condition holds: true")
        );
        let clock = LocalClock::new([(0, 3_600)]);
        assert_eq!(resumed.unheard_questions[0].clock, Some(clock));
        let heard = Command::Heard {
            effects: Vec::new(),
            questions: vec![denied.question.number],
        };
        world.send(&talk, heard);
        let again = resume(world, &talk, presented("leg")).unwrap();
        assert_eq!(again.unheard_questions, []);
        // The second ran for a process that is dead.
        let unheard = resumed.unheard.iter();
        let unheard = unheard.map(|effect| effect.effect_id.as_str());
        assert_eq!(unheard.collect::<Vec<_>>(), ["effect-1", "effect-2"]);
        let numbers = resumed.log.iter().map(|entry| entry.number.0);
        let last = resumed.log.last().unwrap().number.0;
        assert_eq!(numbers.collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());
    });
}

#[test]
fn of_a_leg_that_was_taken_over_nothing_counts() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let old = world.attach(&talk, "leg");
        world.send(&talk, requested(1, &old));
        let resumed = resume(world, &talk, presented("leg")).unwrap();
        let new = LegRef {
            leg: old.leg.clone(),
            epoch: resumed.leg.epoch,
        };
        for command in [
            save(&old, b"old"),
            appended(&old, vec![said(1, None, "old")]),
            requested(2, &old),
            Command::Leave(old.clone()),
        ] {
            assert_eq!(world.send(&talk, command), Reply::Gone);
        }
        // What it began ends all the same.
        let reply = world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        assert!(matches!(reply, Reply::Recorded(_)), "{reply:?}");
        assert_eq!(world.send(&talk, save(&new, b"new")), Reply::Done);
    });
}

#[test]
fn a_repeated_attach_takes_no_leg_back_from_who_resumed_it() {
    check(|world| {
        let talk = conversation("talk", "alice");
        world.attach(&talk, "leg");
        world.restart("process 2");
        let resumed = resume(world, &talk, presented("leg")).unwrap();
        let new = LegRef {
            leg: resumed.leg.leg.clone(),
            epoch: resumed.leg.epoch,
        };
        // The first process goes on, and has not heard that its leg has begun.
        world.restart("process 1");
        let attach = Command::Attach(Box::new(new_leg("leg")));
        assert_eq!(world.send(&talk, attach), Reply::Gone);
        world.restart("process 2");
        assert_eq!(world.send(&talk, save(&new, b"new")), Reply::Done);
    });
}

#[test]
fn a_leg_is_resumed_by_its_client_and_its_user_alone_and_in_time() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let right = presented("leg");
        for wrong in [
            presented("other"),
            Presented {
                client_id: ClientId::new("laptop"),
                ..right.clone()
            },
            Presented {
                user_id: UserId::new("eve"),
                ..right.clone()
            },
        ] {
            assert_eq!(resume(world, &talk, wrong), None);
        }
        let elsewhere = conversation("other", "alice");
        world.send(&elsewhere, Command::Open(Beginner::default()));
        assert_eq!(resume(world, &elsewhere, right.clone()), None);
        world.pass(HOUR_MS - 1);
        assert!(resume(world, &talk, right.clone()).is_some());
        world.pass(1);
        assert_eq!(resume(world, &talk, right.clone()), None);
        // Another process begins one of the same name.
        world.restart("process 2");
        let mut another = new_leg("leg");
        another.resume_token = [7; 32];
        let reply = world.send(&talk, Command::Attach(Box::new(another)));
        let epoch = Epoch(leg.epoch.0 + 2);
        assert_eq!(reply, Reply::Attached { epoch });
        let again = LegRef { epoch, ..leg };
        world.send(&talk, appended(&again, vec![said(1, None, "back")]));
        assert_eq!(world.send(&talk, Command::Leave(again)), Reply::Done);
        assert_eq!(resume(world, &talk, right), None);
        assert_eq!(found(world, "leg"), None);
    });
}

#[test]
fn a_body_that_is_too_long_is_not_kept() {
    let limits = StoreLimits {
        leg_bytes_max: 4,
        ..StoreLimits::default()
    };
    check_with(limits, |world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        assert_eq!(world.send(&talk, save(&leg, b"1234")), Reply::Done);
        let reply = world.send(&talk, save(&leg, b"12345"));
        assert_eq!(reply, Reply::EntryTooLong);
        let (_, kept) = found(world, "leg").unwrap();
        assert_eq!(kept.body, Sensitive(b"1234".to_vec()));
    });
}
