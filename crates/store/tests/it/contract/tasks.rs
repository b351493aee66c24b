//! Tasks: whose they are, how many run, how long they are kept, and what becomes of those that their user wants no more of.

use super::{check, check_with};
use crate::ledger::{HOUR_MS, conversation};
use crate::support::{
    START_UNIX_MS, World, asked, asking, attach, ran, recorded, request, requested,
};
use windlass_contract::id::{EffectId, TenantId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{
    AnswerVerdict, Approval, ApprovalAnswer, CalledBack, Command, Refusal, Reply, Request,
    SentTask, TaskProgress, ToolFacts,
};
use windlass_store::{
    AttemptNumber, AttemptOutcome, Batch, ConversationRef, Effect, EffectState, EntryEvent,
    EntryNumber, LegRef, PartyKind, Progress, StoreLimits, TaskShares, WantedTasks,
};

fn background() -> ToolFacts {
    ToolFacts {
        is_background: true,
        ..crate::support::tool()
    }
}

/// A request of a tool whose calls are tasks.
fn begun(number: u64, leg: &LegRef) -> Command {
    Command::Request(Box::new(Request {
        tool: background(),
        ..request(number, leg)
    }))
}

fn id(number: u64) -> EffectId {
    EffectId::new(format!("effect-{number}"))
}

fn task(world: &World, number: u64) -> Effect {
    let found = world.store().effect(&TenantId::default(), &id(number));
    found.unwrap().expect("the task is known").1
}

fn is_known(world: &World, number: u64) -> bool {
    let found = world.store().effect(&TenantId::default(), &id(number));
    found.unwrap().is_some()
}

fn cancel(number: u64) -> Command {
    Command::CancelTask {
        effect_id: id(number),
    }
}

fn called_back(number: u64, outcome: AttemptOutcome) -> Command {
    Command::CalledBack(Box::new(CalledBack {
        effect_id: id(number),
        outcome,
        receipt: Some(Sensitive("{\"late\":true}".to_owned())),
        values: None,
    }))
}

fn progress(number: u64, attempt: u32, message: &str) -> Command {
    Command::Progress(Box::new(TaskProgress {
        effect_id: id(number),
        attempt: AttemptNumber(attempt),
        progress: Progress {
            message: Sensitive(message.to_owned()),
            fraction: Some(0.5),
            at_unix_ms: 0,
        },
    }))
}

fn wanted<'a>(tenant: &'a TenantId, user_id: &'a UserId) -> WantedTasks<'a> {
    WantedTasks {
        tenant,
        user_id,
        prefix: None,
        conversation_id: None,
        only_running: false,
        behind: None,
        tasks_max: 100,
    }
}

fn ids(tasks: &[(ConversationRef, Effect)]) -> Vec<&str> {
    let ids = tasks.iter();
    ids.map(|(_, effect)| effect.effect_id.as_str()).collect()
}

fn state_of(reply: Reply) -> EffectState {
    match reply {
        Reply::Recorded(effect) => effect.state,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_user_s_tasks_are_listed_newest_first_and_nobody_else_s() {
    check(|world| {
        let own = conversation("own", "alice");
        let named = conversation("named", "alice/bob");
        let others = conversation("others", "alicea");
        for (number, talk) in [(1, &own), (2, &named), (3, &own), (4, &others)] {
            let leg = world.attach(talk, &format!("leg {number}"));
            ran(world.send(talk, begun(number, &leg)));
            world.pass(1_000);
        }
        let leg = world.attach(&own, "leg 5");
        // One that is waited for is no task.
        ran(world.send(&own, requested(5, &leg)));
        world.send(&own, recorded(1, AttemptOutcome::Succeeded));
        world.restart("process 1");
        let (tenant, alice) = (TenantId::default(), UserId::new("alice"));
        let all = wanted(&tenant, &alice);
        let listed = |wanted: &WantedTasks<'_>| world.store().tasks_of(wanted).unwrap();
        let found = listed(&all);
        assert_eq!(ids(&found), ["effect-3", "effect-1"]);
        assert_eq!(found[0].0, own);
        let wide = WantedTasks {
            prefix: Some("alice/"),
            ..all.clone()
        };
        assert_eq!(ids(&listed(&wide)), ["effect-3", "effect-2", "effect-1"]);
        let running = WantedTasks {
            only_running: true,
            ..all.clone()
        };
        assert_eq!(ids(&listed(&running)), ["effect-3"]);
        let of_one = WantedTasks {
            conversation_id: Some(&named.conversation_id),
            ..wide.clone()
        };
        assert_eq!(ids(&listed(&of_one)), ["effect-2"]);
        let first = WantedTasks {
            tasks_max: 1,
            ..wide.clone()
        };
        assert_eq!(ids(&listed(&first)), ["effect-3"]);
        let third = id(3);
        let behind = WantedTasks {
            behind: Some((START_UNIX_MS + 2_000, &third)),
            ..wide
        };
        assert_eq!(ids(&listed(&behind)), ["effect-2", "effect-1"]);
        let elsewhere = TenantId::new("elsewhere");
        assert_eq!(listed(&wanted(&elsewhere, &alice)), []);
    });
}

#[test]
fn no_more_run_than_may_and_an_end_makes_room() {
    let limits = StoreLimits {
        tasks: TaskShares {
            user_max: 2,
            tenant_max: 3,
        },
        ..StoreLimits::default()
    };
    let refused = |of, most| Reply::Refused(Refusal::TooManyTasks { of, most });
    check_with(limits, |world| {
        let alice = conversation("alice's", "alice");
        let other = conversation("alice's other", "alice");
        let bob = conversation("bob's", "bob");
        let (first, second) = (world.attach(&alice, "a"), world.attach(&other, "b"));
        let third = world.attach(&bob, "c");
        ran(world.send(&alice, begun(1, &first)));
        ran(world.send(&other, begun(2, &second)));
        let full = world.send(&alice, begun(3, &first));
        assert_eq!(full, refused(PartyKind::User, 2));
        // What is waited for is counted elsewhere.
        ran(world.send(&alice, requested(4, &first)));
        ran(world.send(&bob, begun(5, &third)));
        let full = world.send(&bob, begun(6, &third));
        assert_eq!(full, refused(PartyKind::Tenant, 3));
        // A message again is no further task.
        let again = world.send(&bob, begun(5, &third));
        assert!(matches!(again, Reply::Run(_)), "{again:?}");
        world.send(&other, recorded(2, AttemptOutcome::Failed));
        ran(world.send(&alice, begun(3, &first)));
        // What ran for a process that is dead runs no more.
        world.restart("process 2");
        for talk in [&alice, &other, &bob] {
            world.send(talk, Command::Settle);
        }
        let leg = world.attach(&bob, "d");
        ran(world.send(&bob, begun(7, &leg)));
    });
}

#[test]
fn an_approval_begins_no_task_too_many_and_counts_later() {
    let limits = StoreLimits {
        tasks: TaskShares {
            user_max: 1,
            tenant_max: 9,
        },
        ..StoreLimits::default()
    };
    check_with(limits, |world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let Command::Request(asks) = asking(2, &leg) else {
            panic!("it asks");
        };
        let asks = Request {
            tool: background(),
            ..*asks
        };
        let question = asked(world.send(&talk, Command::Request(Box::new(asks))));
        ran(world.send(&talk, begun(1, &leg)));
        let yes = |number: u64| {
            let approval = Approval {
                tool: Some(background()),
                may_run: true,
                remember: None,
                lease_ms: HOUR_MS,
                question_ms: HOUR_MS,
                intent: Sensitive("{}".to_owned()),
            };
            Command::Answer(Box::new(ApprovalAnswer {
                nonce: crate::ledger::nonce(number),
                effect_id: id(number),
                token: question.token.clone(),
                verdict: AnswerVerdict::Approved(Box::new(approval)),
                again: None,
            }))
        };
        let full = world.send(&talk, yes(3));
        assert!(
            matches!(full, Reply::Refused(Refusal::TooManyTasks { .. })),
            "{full:?}"
        );
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        ran(world.send(&talk, yes(4)));
        assert!(task(world, 4).task.is_some());
    });
}

#[test]
fn a_task_and_its_conversation_are_kept_for_its_days_and_its_end_is_unheard_until_then() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        ran(world.send(&talk, begun(1, &leg)));
        ran(world.send(&talk, requested(2, &leg)));
        world.send(&talk, Command::Leave(leg));
        world.pass(12 * HOUR_MS);
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        world.send(&talk, recorded(2, AttemptOutcome::Succeeded));
        world.pass(6 * 24 * HOUR_MS);
        world.prune();
        assert_eq!((is_known(world, 1), is_known(world, 2)), (true, false));
        let found = world
            .store()
            .conversation(&talk.tenant, &talk.conversation_id);
        assert!(found.unwrap().is_some());
        let unheard = world.store().unheard(&talk).unwrap();
        assert_eq!(unheard.len(), 1);
        world.restart("process 2");
        // Somebody comes back.
        let leg = world.attach(&talk, "days later");
        world.send(
            &talk,
            Command::Heard {
                effects: vec![id(1)],
                questions: Vec::new(),
            },
        );
        assert_eq!(world.store().unheard(&talk), Ok(Vec::new()));
        world.send(&talk, Command::Leave(leg));
        world.pass(24 * HOUR_MS);
        world.prune();
        assert!(!is_known(world, 1));
    });
}

#[test]
fn what_a_task_says_last_is_kept_as_long_as_it_runs() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        ran(world.send(&talk, begun(1, &leg)));
        let entries = || {
            let read = world.store().entries(&talk, EntryNumber(0), 100);
            read.unwrap().len()
        };
        let before = entries();
        world.pass(1_000);
        for message in ["reading", "writing"] {
            assert_eq!(world.send(&talk, progress(1, 1, message)), Reply::Done);
        }
        // Of another attempt, of none, and of a task that nobody knows.
        world.send(&talk, progress(1, 2, "dreaming"));
        world.send(&talk, progress(9, 1, "dreaming"));
        let said = |world: &World| {
            let progress = task(world, 1).task.unwrap().progress.unwrap();
            (progress.message.into_inner(), progress.at_unix_ms)
        };
        assert_eq!(said(world), ("writing".to_owned(), START_UNIX_MS + 1_000));
        assert_eq!(entries(), before, "the log says nothing of it");
        world.send(&talk, progress(1, 1, &"ä".repeat(2_000)));
        assert_eq!(said(world).0, "ä".repeat(500));
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        world.send(&talk, progress(1, 1, "late"));
        assert_eq!(said(world).0, "ä".repeat(500));
    });
}

#[test]
fn who_cancels_what_runs_asks_whoever_runs_it_once() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        ran(world.send(&talk, begun(1, &leg)));
        ran(world.send(&talk, requested(2, &leg)));
        let requests = || {
            let read = world.store().entries(&talk, EntryNumber(0), 100).unwrap();
            let is_one = |event: &EntryEvent| *event == EntryEvent::CancelRequested(id(1));
            read.iter().filter(|entry| is_one(&entry.event)).count()
        };
        for _ in 0..2 {
            let reply = world.send(&talk, cancel(1));
            assert_eq!(state_of(reply), EffectState::Running);
        }
        assert_eq!(requests(), 1);
        let asked_at = task(world, 1).task.unwrap().cancel_requested_at_unix_ms;
        assert_eq!(asked_at, Some(START_UNIX_MS));
        // One that somebody waits for is stopped by its call, and one that there is not by nobody.
        assert_eq!(world.send(&talk, cancel(2)), Reply::Missing);
        assert_eq!(world.send(&talk, cancel(9)), Reply::Missing);
        world.send(&talk, recorded(1, AttemptOutcome::Failed));
        let late = world.send(&talk, cancel(1));
        assert!(
            matches!(&late, Reply::TooLate(effect) if effect.state == EffectState::NotDone),
            "{late:?}"
        );
    });
}

#[test]
fn what_a_service_has_is_given_up_and_its_callback_counts_all_the_same() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let until_unix_ms = START_UNIX_MS + HOUR_MS;
        for number in [1, 2] {
            ran(world.send(&talk, begun(number, &leg)));
            let accepted = AttemptOutcome::Accepted { until_unix_ms };
            world.send(&talk, recorded(number, accepted));
            let reply = world.send(&talk, cancel(number));
            assert_eq!(state_of(reply), EffectState::Unknown);
        }
        world.restart("process 2");
        world.pass(60_000);
        let happened = world.send(&talk, called_back(1, AttemptOutcome::Succeeded));
        assert_eq!(state_of(happened), EffectState::Done);
        let failed = world.send(&talk, called_back(2, AttemptOutcome::Failed));
        assert_eq!(state_of(failed), EffectState::NotDone);
        let unheard = world.store().unheard(&talk).unwrap();
        assert_eq!(unheard.len(), 2, "both are news");
        for (number, outcome) in [(1, AttemptOutcome::Failed), (1, AttemptOutcome::Succeeded)] {
            let late = world.send(&talk, called_back(number, outcome));
            assert!(matches!(late, Reply::TooLate(_)), "{late:?}");
        }
        assert_eq!(task(world, 1).state, EffectState::Done);
    });
}

#[test]
fn each_end_is_to_be_told_outside_until_it_was() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        ran(world.send(&talk, begun(1, &leg)));
        ran(world.send(&talk, requested(2, &leg)));
        world.send(&talk, recorded(2, AttemptOutcome::Succeeded));
        let unsent = |world: &World| world.store().unsent_tasks(None, 10).unwrap();
        assert_eq!(unsent(world), []);
        world.send(&talk, recorded(1, AttemptOutcome::Unknown));
        let doubt = unsent(world);
        assert_eq!(ids(&doubt), ["effect-1"]);
        world.pass(1_000);
        world.send(&talk, called_back(1, AttemptOutcome::Succeeded));
        // The older end was taken, and the newer one was not.
        let sent = |found: &[(ConversationRef, Effect)]| {
            let sent = found.iter().map(|(_, effect)| SentTask::of(effect));
            Command::TasksSent(sent.collect())
        };
        world.send(&talk, sent(&doubt));
        let done = unsent(world);
        assert_eq!(ids(&done), ["effect-1"]);
        world.send(&talk, sent(&done));
        world.restart("process 2");
        assert_eq!(unsent(world), []);
    });
}

#[test]
fn nobody_is_told_how_a_task_of_a_deleted_conversation_ends() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        ran(world.send(&talk, begun(1, &leg)));
        let until_unix_ms = START_UNIX_MS + HOUR_MS;
        world.send(
            &talk,
            recorded(1, AttemptOutcome::Accepted { until_unix_ms }),
        );
        world.send(&talk, Command::Leave(leg));
        assert_eq!(world.send(&talk, Command::Erase), Reply::Done);
        world.restart("process 2");
        assert_eq!(task(world, 1).state, EffectState::Running);
        let ended = called_back(1, AttemptOutcome::Succeeded);
        assert_eq!(state_of(world.send(&talk, ended)), EffectState::Done);
        assert_eq!(world.store().unheard(&talk), Ok(Vec::new()));
        assert_eq!(world.store().unsent_tasks(None, 10), Ok(Vec::new()));
        // Its user finds it among the tasks.
        let (tenant, alice) = (TenantId::default(), UserId::new("alice"));
        let found = world.store().tasks_of(&wanted(&tenant, &alice)).unwrap();
        assert_eq!(ids(&found), ["effect-1"]);
    });
}

#[test]
fn ends_that_are_to_be_told_are_read_on_behind_any_of_them() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        for number in 1..=5 {
            ran(world.send(&talk, begun(number, &leg)));
        }
        for number in [3, 1, 2] {
            world.send(&talk, recorded(number, AttemptOutcome::Succeeded));
        }
        world.pass(1_000);
        world.send(&talk, recorded(5, AttemptOutcome::Succeeded));
        let mut behind: Option<(u64, EffectId)> = None;
        let mut read = Vec::new();
        for _ in 0..4 {
            let behind_one = behind.as_ref().map(|(at, id)| (*at, id));
            let page = world.store().unsent_tasks(behind_one, 1).unwrap();
            let (_, end) = &page[0];
            behind = Some((end.changed_at_unix_ms, end.effect_id.clone()));
            read.extend(ids(&page).into_iter().map(str::to_owned));
        }
        assert_eq!(read, ["effect-1", "effect-2", "effect-3", "effect-5"]);
        let behind = behind.as_ref().map(|(at, id)| (*at, id));
        assert_eq!(world.store().unsent_tasks(behind, 10).unwrap(), []);
    });
}

#[test]
fn ten_thousand_tasks_of_one_user_are_counted_and_paged() {
    const TALKS: u64 = 100;
    const OF_EACH: u64 = 100;
    let limits = StoreLimits {
        tasks: TaskShares {
            user_max: 10_000,
            tenant_max: 20_000,
        },
        ..StoreLimits::default()
    };
    check_with(limits, |world| {
        let talk = |number: u64| conversation(&format!("talk {number}"), "alice");
        let mut batches = Vec::new();
        for number in 0..TALKS {
            let leg = attach(world.store(), &talk(number), "leg");
            let begun = (0..OF_EACH).map(|one| begun(number * OF_EACH + one, &leg));
            batches.push(Batch {
                conversation: talk(number),
                commands: begun.collect(),
            });
        }
        let replies = world.store().commit(&batches).unwrap();
        let is_run = |reply: &Reply| matches!(reply, Reply::Run(_));
        assert!(replies.iter().flatten().all(is_run));
        let leg = world.attach(&talk(0), "leg");
        let one_more = world.send(&talk(0), begun(TALKS * OF_EACH, &leg));
        assert!(
            matches!(one_more, Reply::Refused(Refusal::TooManyTasks { .. })),
            "{one_more:?}"
        );
        let (tenant, alice) = (TenantId::default(), UserId::new("alice"));
        let mut behind: Option<(u64, EffectId)> = None;
        let (mut pages, mut listed) = (0, 0);
        loop {
            let page = world.store().tasks_of(&WantedTasks {
                behind: behind.as_ref().map(|(begun, id)| (*begun, id)),
                tasks_max: 1_000,
                ..wanted(&tenant, &alice)
            });
            let page = page.unwrap();
            let Some((_, last)) = page.last() else {
                break;
            };
            behind = Some((last.begun_at_unix_ms, last.effect_id.clone()));
            (pages, listed) = (pages + 1, listed + page.len());
        }
        assert_eq!((pages, listed), (10, 10_000));
    });
}
