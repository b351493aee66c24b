//! Effects and questions as they are found: by id, by token, by what is still to be done with them.

use super::check;
use crate::ledger::{LANDING_MS, LEASE_MS, QUESTION_MS, conversation, nonce};
use crate::support::{
    START_UNIX_MS, World, answered, asked, asking, ran, recorded, request, requested,
};
use windlass_contract::id::{EffectId, TenantId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, Found, FoundState, Reply, Request, RequestOrigin};
use windlass_store::{
    Attempt, AttemptNumber, AttemptOutcome, ConversationRef, Effect, EffectState, LookupState,
    OwnerId, QuestionNumber, QuestionState, ServerKey,
};

fn effect(world: &World, number: u64) -> Effect {
    let effect_id = EffectId::new(format!("effect-{number}"));
    let found = world.store().effect(&TenantId::default(), &effect_id);
    found.unwrap().expect("the effect is known").1
}

fn ids(effects: &[(ConversationRef, Effect)]) -> Vec<&str> {
    let ids = effects.iter();
    ids.map(|(_, effect)| effect.effect_id.as_str()).collect()
}

#[test]
fn an_effect_is_found_by_its_id_as_it_was_left() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let run = ran(world.send(&talk, requested(1, &leg)));
        assert_eq!(run.lease_end_unix_ms, START_UNIX_MS + LEASE_MS);
        world.pass(1_000);
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        world.restart("process 2");
        let found = effect(world, 1);
        let request = request(1, &leg);
        assert_eq!(found.state, EffectState::Done);
        assert_eq!(found.arguments, request.arguments);
        assert_eq!(found.tool, request.tool.id);
        assert_eq!(found.receipt, Some(Sensitive("{\"number\":1}".to_owned())));
        assert_eq!(found.begun_at_unix_ms, START_UNIX_MS);
        assert_eq!(found.changed_at_unix_ms, START_UNIX_MS + 1_000);
        let attempt = Attempt {
            number: AttemptNumber(1),
            nonce: request.nonce,
            owner: OwnerId("process 1".to_owned()),
            lease_end_unix_ms: START_UNIX_MS + LEASE_MS,
            question: None,
            tool_version: Some(request.tool.version.clone()),
            standing: None,
            outcome: Some(AttemptOutcome::Succeeded),
        };
        assert_eq!(found.attempts, [attempt]);
        let unknown = EffectId::new("effect-2");
        let found = world.store().effect(&talk.tenant, &unknown);
        assert_eq!(found, Ok(None));
    });
}

#[test]
fn an_effect_runs_once_however_often_it_is_asked_for() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let first = world.send(&talk, requested(1, &leg));
        // The acknowledgement was lost.
        assert_eq!(world.send(&talk, requested(1, &leg)), first);
        let again = Request {
            nonce: nonce(2),
            effect_id: EffectId::new("effect-2"),
            ..request(1, &leg)
        };
        let reply = world.send(&talk, Command::Request(Box::new(again.clone())));
        assert!(matches!(reply, Reply::Attach(_)), "{reply:?}");
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        world.restart("process 2");
        let reply = world.send(&talk, Command::Request(Box::new(again)));
        assert!(matches!(reply, Reply::Replay(_)), "{reply:?}");
    });
}

#[test]
fn a_nested_call_is_known_by_its_parent_and_its_place() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let arguments = Sensitive("{}".to_owned());
        let child = |number: u64, ordinal: u32| {
            Command::Request(Box::new(Request {
                origin: RequestOrigin::Handler {
                    parent: EffectId::new("effect-1"),
                    ordinal,
                },
                arguments: arguments.clone(),
                effect_arguments: arguments.clone(),
                near_arguments: arguments.clone(),
                ..request(number, &leg)
            }))
        };
        world.send(&talk, requested(1, &leg));
        ran(world.send(&talk, child(2, 0)));
        ran(world.send(&talk, child(3, 1)));
        world.restart("process 1");
        let reply = world.send(&talk, child(4, 1));
        let Reply::Attach(attached) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(attached.effect_id.as_str(), "effect-3");
        assert_eq!(attached.parent, Some((EffectId::new("effect-1"), 1)));
        // A model that asks for the same is another matter.
        let outside = Request {
            arguments: arguments.clone(),
            effect_arguments: arguments.clone(),
            near_arguments: arguments.clone(),
            ..request(5, &leg)
        };
        ran(world.send(&talk, Command::Request(Box::new(outside))));
    });
}

#[test]
fn what_no_model_has_heard_of_is_named_until_one_has() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        for number in 1..=3 {
            world.send(&talk, requested(number, &leg));
        }
        let unheard = |world: &World| -> Vec<String> {
            let effects = world.store().unheard(&talk).unwrap();
            let ids = effects.iter().map(|effect| effect.effect_id.to_string());
            ids.collect()
        };
        assert_eq!(unheard(world), Vec::<String>::new());
        world.send(&talk, recorded(3, AttemptOutcome::Succeeded));
        world.send(&talk, recorded(1, AttemptOutcome::Failed));
        assert_eq!(unheard(world), ["effect-1", "effect-3"]);
        let heard = Command::Heard {
            effects: vec![EffectId::new("effect-1"), EffectId::new("effect-2")],
            questions: vec![],
        };
        world.send(&talk, heard);
        world.restart("process 1");
        assert_eq!(unheard(world), ["effect-3"]);
        world.send(&talk, recorded(2, AttemptOutcome::Succeeded));
        assert_eq!(unheard(world), ["effect-2", "effect-3"]);
    });
}

#[test]
fn what_the_audit_lacks_is_named_oldest_first() {
    check(|world| {
        let talks = [conversation("b", "alice"), conversation("a", "bob")];
        for (number, talk) in (1..).zip(&talks) {
            let leg = world.attach(talk, "leg");
            world.send(talk, requested(number, &leg));
            world.send(talk, requested(number + 10, &leg));
        }
        assert_eq!(world.store().unaudited(10), Ok(Vec::new()));
        for (talk, number) in [(1, 2), (0, 11), (0, 1)] {
            world.pass(10);
            let command = recorded(number, AttemptOutcome::Unknown);
            world.send(&talks[talk], command);
        }
        let found = world.store().unaudited(10).unwrap();
        assert_eq!(ids(&found), ["effect-2", "effect-11", "effect-1"]);
        assert_eq!(found[0].0, talks[1]);
        let found = world.store().unaudited(2).unwrap();
        assert_eq!(ids(&found), ["effect-2", "effect-11"]);
        let audited = vec![EffectId::new("effect-11"), EffectId::new("effect-1")];
        world.send(&talks[0], Command::Audited(audited));
        world.restart("process 1");
        let found = world.store().unaudited(10).unwrap();
        assert_eq!(ids(&found), ["effect-2"]);
    });
}

#[test]
fn attempts_are_due_when_their_lease_is_over_or_their_process_is_dead() {
    check(|world| {
        let (one, two) = (conversation("one", "alice"), conversation("two", "bob"));
        for (number, talk) in [(1, &one), (2, &two)] {
            let leg = world.attach(talk, "leg");
            world.send(talk, requested(number, &leg));
            world.pass(1_000);
        }
        let lapsed = |world: &World| world.store().due().unwrap().lapsed;
        assert_eq!(lapsed(world), []);
        world.pass(LEASE_MS - 2_000);
        assert_eq!(lapsed(world), std::slice::from_ref(&one));
        world.restart("process 2");
        assert_eq!(lapsed(world), [one.clone(), two.clone()]);
        for talk in [&one, &two] {
            let reply = world.send(talk, Command::Settle);
            assert!(matches!(reply, Reply::Settled(effects) if effects.len() == 1));
        }
        assert_eq!(lapsed(world), []);
        assert_eq!(effect(world, 1).state, EffectState::Unknown);
    });
}

#[test]
fn unknown_effects_are_due_to_be_looked_up_with_pauses_until_they_are_settled() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.send(&talk, requested(1, &leg));
        world.send(&talk, recorded(1, AttemptOutcome::Unknown));
        let due = |world: &World| world.store().due().unwrap().lookups;
        assert_eq!(ids(&due(world)), ["effect-1"]);
        let effect_id = EffectId::new("effect-1");
        let look_up = Command::LookUp {
            effect_id: effect_id.clone(),
        };
        let reply = world.send(&talk, look_up);
        assert!(matches!(reply, Reply::LookUp { .. }), "{reply:?}");
        assert_eq!(due(world), []);
        world.restart("process 2");
        let LookupState::Tried {
            next_at_unix_ms, ..
        } = effect(world, 1).lookup
        else {
            panic!("{:?}", effect(world, 1).lookup);
        };
        world.pass(next_at_unix_ms - world.now() - 1);
        assert_eq!(due(world), []);
        world.pass(1);
        assert_eq!(ids(&due(world)), ["effect-1"]);
        world.pass(LEASE_MS + LANDING_MS);
        let found = Found {
            effect_id,
            began_unix_ms: world.now(),
            finding: FoundState::NotHappened,
            receipt: None,
            values: None,
        };
        world.send(&talk, Command::Found(Box::new(found)));
        assert_eq!(effect(world, 1).state, EffectState::NotDone);
        assert_eq!(effect(world, 1).lookup, LookupState::NotHappened);
        assert_eq!(due(world), []);
    });
}

#[test]
fn a_question_is_found_by_its_token_and_by_no_other() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let open = asked(world.send(&talk, asking(1, &leg)));
        world.restart("process 2");
        let store = world.store();
        let (number, arguments) = (open.question.number, open.question.arguments.expose());
        let found = store.question(&talk, &open.token);
        assert_eq!(found, Ok(Some(open.question.clone())));
        let forged = ServerKey::new([8; 32]).token(&talk, number, arguments);
        assert_eq!(store.question(&talk, &forged), Ok(None));
        for (id, user) in [("talk", "eve"), ("other", "alice")] {
            let other = conversation(id, user);
            assert_eq!(store.question(&other, &open.token), Ok(None));
        }
        let found = store.question_of_number(&talk, number);
        assert_eq!(found, Ok(Some(open.question)));
        let found = store.question_of_number(&talk, QuestionNumber(99));
        assert_eq!(found, Ok(None));
    });
}

#[test]
fn questions_that_wait_are_named_with_their_tokens_until_they_are_answered_or_over() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let mut waiting = Vec::new();
        for number in 1..=3 {
            waiting.push(asked(world.send(&talk, asking(number, &leg))));
            world.pass(1_000);
        }
        world.restart("process 1");
        let check_open = |world: &World, expected: &[usize]| {
            let open = world.store().open_questions(&talk).unwrap();
            let tokens: Vec<_> = open.iter().map(|asked| &asked.token).collect();
            let expected: Vec<_> = expected.iter().map(|at| &waiting[*at].token).collect();
            assert_eq!(tokens, expected);
        };
        check_open(world, &[0, 1, 2]);
        world.send(&talk, answered(4, &waiting[1], false));
        check_open(world, &[0, 2]);
        world.pass(QUESTION_MS - 3_000);
        check_open(world, &[2]);
        let run = ran(world.send(&talk, answered(5, &waiting[2], true)));
        check_open(world, &[]);
        let approved = world.store().question(&talk, &waiting[2].token);
        let approved = approved.unwrap().unwrap();
        assert_eq!(approved.state, QuestionState::Approved);
        assert_eq!(approved.effect_id, run.effect_id);
    });
}
