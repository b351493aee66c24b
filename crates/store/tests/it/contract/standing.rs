//! Standing approvals: what one covers, and how each ends, in the same transaction that lets a call run.

use super::{check, check_with};
use crate::ledger::{conversation, new_leg, nonce, one};
use crate::support::{
    MINUTES_MS, PLACE, World, answered, asked, ran, recorded, remembered, request, tool,
};
use windlass_contract::id::{ClientId, EffectId};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, OpenQuestion, Reply, Request};
use windlass_store::{
    AttemptOutcome, Beginner, ConversationRef, EntryEvent, EntryNumber, LegRef, QuestionNumber,
    StandingEnd, StandingEvent, StoreLimits,
};

/// A request about the one place, of a tool that needs consent.
fn filing(number: u64, leg: &LegRef) -> Request {
    Request {
        needs_consent: true,
        standing_values: Some(Sensitive(PLACE.to_owned())),
        ..request(number, leg)
    }
}

fn send(world: &World, of: &ConversationRef, request: Request) -> Reply {
    world.send(of, Command::Request(Box::new(request)))
}

/// What a conversation begins with in each test: an approval that stands, for call 1.
fn given(world: &World, of: &ConversationRef, mode: Mode) -> (LegRef, OpenQuestion) {
    let leg = world.attach(of, "leg");
    let request = Request {
        mode,
        ..filing(1, &leg)
    };
    let asked = asked(send(world, of, request));
    let run = ran(world.send(of, remembered(2, &asked)));
    assert!(run.standing.is_some());
    world.send(of, recorded(2, AttemptOutcome::Succeeded));
    (leg, asked)
}

fn standing(world: &World, of: &ConversationRef) -> Vec<u32> {
    let known = world.store().conversation(&of.tenant, &of.conversation_id);
    let standing = known.unwrap().unwrap().standing;
    standing.iter().map(|known| known.question.0).collect()
}

/// Why those that have ended have.
fn ends(world: &World, of: &ConversationRef) -> Vec<(u32, StandingEnd)> {
    let entries = world.store().entries(of, EntryNumber(0), 1_000).unwrap();
    let ended = entries.into_iter().filter_map(|entry| match entry.event {
        EntryEvent::Standing(change) => match change.event {
            StandingEvent::Ended(why) => Some((change.question.0, why)),
            StandingEvent::Given | StandingEvent::Used(_) => None,
        },
        _ => None,
    });
    ended.collect()
}

#[test]
fn it_covers_equal_values_of_the_same_tool_and_code_alone() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, _) = given(world, &talk, Mode::Voice);
        world.restart("process 2");
        let run = ran(send(world, &talk, filing(3, &leg)));
        assert_eq!(run.standing.unwrap().question, QuestionNumber(1));
        for (number, request) in [
            (
                4,
                Request {
                    standing_values: Some(Sensitive(r#"{"/folder":"reports"}"#.to_owned())),
                    ..filing(4, &leg)
                },
            ),
            (
                5,
                Request {
                    standing_values: None,
                    ..filing(5, &leg)
                },
            ),
        ] {
            let reply = send(world, &talk, request);
            assert!(matches!(reply, Reply::Ask(_)), "{number}: {reply:?}");
        }
        assert_eq!(standing(world, &talk), [1]);
        let mut other = filing(6, &leg);
        other.tool.handler_hash = Some("other".to_owned());
        asked(send(world, &talk, other));
        assert_eq!(ends(world, &talk), [(1, StandingEnd::ToolChanged)]);
        asked(send(world, &talk, filing(7, &leg)));
    });
}

#[test]
fn another_version_ends_it_also_for_calls_of_the_version_that_was_approved() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, _) = given(world, &talk, Mode::Voice);
        let mut other = filing(3, &leg);
        other.tool.version = "9.0.0".to_owned();
        asked(send(world, &talk, other));
        assert_eq!(ends(world, &talk), [(1, StandingEnd::ToolChanged)]);
        asked(send(world, &talk, filing(4, &leg)));
    });
}

#[test]
fn a_task_that_begins_by_it_keeps_its_number_and_goes_on_without_it() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, _) = given(world, &talk, Mode::Voice);
        let mut task = filing(3, &leg);
        task.tool.is_background = true;
        let run = ran(send(world, &talk, task));
        assert_eq!(run.standing.unwrap().question, QuestionNumber(1));
        let revoke = Command::Revoke {
            question: QuestionNumber(1),
            leg: None,
        };
        let reply = world.send(&talk, revoke);
        assert!(matches!(reply, Reply::Revoked(_)), "{reply:?}");
        let reply = world.send(&talk, recorded(3, AttemptOutcome::Succeeded));
        assert!(matches!(reply, Reply::Recorded(_)), "{reply:?}");
        let found = world
            .store()
            .effect(&talk.tenant, &EffectId::new("effect-3"));
        let (_, effect) = found.unwrap().unwrap();
        assert!(effect.task.is_some());
        assert_eq!(effect.newest_attempt().standing, Some(QuestionNumber(1)));
    });
}

#[test]
fn it_covers_nothing_that_a_hazard_is_asked_about() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, _) = given(world, &talk, Mode::Voice);
        // In doubt, then near to it, then near to what was done.
        ran(send(world, &talk, filing(3, &leg)));
        world.send(&talk, recorded(3, AttemptOutcome::Unknown));
        let again = Request {
            effect_arguments: filing(3, &leg).effect_arguments,
            near_arguments: filing(3, &leg).near_arguments,
            ..filing(4, &leg)
        };
        let doubtful = asked(send(world, &talk, again));
        assert!(!doubtful.question.hazards.is_empty());
        let near = Request {
            near_arguments: filing(3, &leg).near_arguments,
            ..filing(5, &leg)
        };
        let near = asked(send(world, &talk, near));
        assert!(!near.question.hazards.is_empty());
        // A yes to that is for that one call.
        let run = ran(world.send(&talk, remembered(6, &near)));
        assert_eq!(run.standing, None);
        assert_eq!(standing(world, &talk), [1]);
        world.send(&talk, Command::Taint);
        let external = asked(send(world, &talk, filing(7, &leg)));
        assert!(external.question.hazards.external_content);
        let reads = Request {
            tool: windlass_store::command::ToolFacts {
                writes: false,
                ..tool()
            },
            ..filing(8, &leg)
        };
        asked(send(world, &talk, reads));
    });
}

#[test]
fn it_needs_the_verdict_of_budgets_as_every_run_does() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, _) = given(world, &talk, Mode::Voice);
        let request = Request {
            may_run: false,
            ..filing(3, &leg)
        };
        let reply = send(world, &talk, request);
        assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
    });
}

#[test]
fn by_voice_it_ends_with_its_session_and_covers_no_other() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, _) = given(world, &talk, Mode::Voice);
        let other = world.attach(&talk, "other");
        asked(send(world, &talk, filing(3, &other)));
        assert_eq!(world.send(&talk, Command::Leave(leg)), Reply::Done);
        assert_eq!(ends(world, &talk), [(1, StandingEnd::SessionEnded)]);
        assert!(standing(world, &talk).is_empty());
    });
}

#[test]
fn by_text_it_covers_other_sessions_of_its_client_and_no_session_by_voice() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, _) = given(world, &talk, Mode::Text);
        world.send(&talk, Command::Leave(leg));
        let next = world.attach(&talk, "next");
        let by_text = |number| Request {
            mode: Mode::Text,
            ..filing(number, &next)
        };
        ran(send(world, &talk, by_text(3)));
        asked(send(world, &talk, filing(4, &next)));
        let mut stranger = new_leg("stranger");
        stranger.client_id = ClientId::new("laptop");
        let attached = one(
            world.store(),
            &talk,
            Command::Attach(Box::new(stranger.clone())),
        );
        let Reply::Attached { epoch } = attached else {
            panic!("{attached:?}");
        };
        let stranger = LegRef {
            leg: stranger.leg,
            epoch,
        };
        let request = Request {
            leg: stranger,
            ..by_text(5)
        };
        asked(send(world, &talk, request));
        world.pass(10 * MINUTES_MS);
        asked(send(world, &talk, by_text(6)));
        assert_eq!(ends(world, &talk), [(1, StandingEnd::Expired)]);
    });
}

#[test]
fn what_is_revoked_covers_no_later_request_and_is_revoked_once() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, given) = given(world, &talk, Mode::Voice);
        let revoke = || Command::Revoke {
            question: QuestionNumber(1),
            leg: None,
        };
        let eve = conversation("talk", "eve");
        assert_eq!(world.send(&eve, revoke()), Reply::Foreign);
        let reply = world.send(&talk, revoke());
        assert!(matches!(reply, Reply::Revoked(_)), "{reply:?}");
        assert_eq!(world.send(&talk, revoke()), Reply::Missing);
        assert_eq!(ends(world, &talk), [(1, StandingEnd::Revoked)]);
        // The same answer, sent again, gives nothing anew.
        world.send(&talk, remembered(3, &given));
        assert!(standing(world, &talk).is_empty());
        asked(send(world, &talk, filing(4, &leg)));
        let nowhere = conversation("nowhere", "alice");
        assert_eq!(world.send(&nowhere, revoke()), Reply::Missing);
    });
}

#[test]
fn an_approval_that_came_to_nothing_leaves_nothing_that_stands() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let asked = asked(send(world, &talk, filing(1, &leg)));
        ran(world.send(&talk, remembered(2, &asked)));
        assert_eq!(standing(world, &talk), [1]);
        world.send(
            &talk,
            Command::Abandon {
                nonce: nonce(2),
                effect_id: EffectId::new("effect-2"),
                question: Some(QuestionNumber(1)),
            },
        );
        assert_eq!(ends(world, &talk), [(1, StandingEnd::Withdrawn)]);
        assert!(standing(world, &talk).is_empty());
    });
}

#[test]
fn the_oldest_make_room_and_none_is_kept_where_none_may_be() {
    for (most, kept) in [(2, vec![2, 3]), (1, vec![3]), (0, vec![])] {
        let limits = StoreLimits {
            standing_max: most,
            ..StoreLimits::default()
        };
        check_with(limits, |world| {
            let talk = conversation("talk", "alice");
            let leg = world.attach(&talk, "leg");
            for number in 1..=3 {
                let mut request = filing(number, &leg);
                let values = Sensitive(format!("{{\"/folder\":{number}}}"));
                request.standing_values = Some(values.clone());
                let asked = asked(send(world, &talk, request));
                let mut answer = remembered(10 + number, &asked);
                name_values(&mut answer, values);
                ran(world.send(&talk, answer));
            }
            assert_eq!(standing(world, &talk), kept, "{most}");
        });
    }
}

#[test]
fn values_that_are_too_long_and_a_yes_without_the_wish_give_nothing() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let long = asked(send(world, &talk, filing(1, &leg)));
        let mut answer = remembered(2, &long);
        name_values(&mut answer, Sensitive("x".repeat(2_049)));
        ran(world.send(&talk, answer));
        let plain = asked(send(world, &talk, filing(3, &leg)));
        ran(world.send(&talk, answered(4, &plain, true)));
        let denied = asked(send(world, &talk, filing(5, &leg)));
        world.send(&talk, answered(6, &denied, false));
        assert!(standing(world, &talk).is_empty());
    });
}

fn name_values(answer: &mut Command, values: Sensitive<String>) {
    use windlass_store::command::AnswerVerdict;
    if let Command::Answer(answer) = answer
        && let AnswerVerdict::Approved(approval) = &mut answer.verdict
        && let Some(remember) = &mut approval.remember
    {
        remember.values = values;
    }
}

#[test]
fn a_conversation_that_is_deleted_remembers_nothing() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (leg, _) = given(world, &talk, Mode::Text);
        world.send(&talk, Command::Leave(leg));
        assert_eq!(world.send(&talk, Command::Erase), Reply::Done);
        assert!(standing(world, &talk).is_empty());
        world.send(&talk, Command::Open(Beginner::default()));
        let next = world.attach(&talk, "next");
        let request = Request {
            mode: Mode::Text,
            ..filing(3, &next)
        };
        asked(send(world, &talk, request));
    });
}
