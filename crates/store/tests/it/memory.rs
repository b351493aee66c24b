//! Legs, the log and the bounds of what is kept, on the store that forgets.

use crate::ledger::Act::{
    CallsBack, Crash, EndsInDoubt, Fails, FirstFails, FirstSucceeds, Heard, Leaves, Nested, No,
    Onset, OtherKey, OtherLeg, OtherWords, Passes, Request, SameMessage, Succeeds, Taint, Yes,
};
use crate::ledger::{
    Act, HOUR_MS, LANDING_MS, LEASE_MS, Ledger, PLAIN, Policy, QUESTION_MS, conversation, new_leg,
    one, onset, settings,
};
use std::sync::atomic::Ordering;
use windlass_contract::handler::{Block, Blocks};
use windlass_contract::id::{ClientId, EffectId, SessionId, TenantId, UserId};
use windlass_contract::intent::Intent;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, NewLeg, Record, Refusal, Reply, RequestOrigin};
use windlass_store::log::LegRequest;
use windlass_store::{
    AttemptNumber, AttemptOutcome, Batch, Beginner, EffectState, EntryEvent, EntryNumber, Epoch,
    LegNumber, LegRef, LookupState, NewEntry, Presented, QuestionNumber, Store, StoreLimits,
};

const CONSENT: Policy = Policy {
    consent: true,
    ..PLAIN
};

fn said(number: u64, key: Option<&str>, text: &str) -> NewEntry {
    NewEntry {
        leg_number: Some(LegNumber(number)),
        key: key.map(str::to_owned),
        event: EntryEvent::Said(Sensitive(text.to_owned())),
    }
}

fn append(ledger: &mut Ledger, entries: Vec<NewEntry>) -> Reply {
    let leg = ledger.leg();
    ledger.send(Command::Append { leg, entries })
}

fn appended(ledger: &mut Ledger, entries: Vec<NewEntry>) -> Vec<u64> {
    match append(ledger, entries) {
        Reply::Appended(numbers) => numbers.into_iter().map(|number| number.0).collect(),
        other => panic!("{other:?}"),
    }
}

fn presented(leg: &str) -> Presented {
    Presented {
        resume_token: new_leg(leg).resume_token,
        client_id: ClientId::new("phone"),
        user_id: UserId::new("alice"),
    }
}

#[test]
fn an_entry_is_appended_once() {
    let mut ledger = Ledger::new(PLAIN);
    // The first entry says that the leg is attached.
    assert_eq!(
        appended(
            &mut ledger,
            vec![said(1, None, "a"), said(2, Some("k"), "b")]
        ),
        [2, 3]
    );
    // The same command again.
    assert_eq!(
        appended(
            &mut ledger,
            vec![said(1, None, "a"), said(2, Some("k"), "b")]
        ),
        [2, 3]
    );
    // Some of it is known.
    assert_eq!(
        appended(&mut ledger, vec![said(2, None, "b"), said(3, None, "c")]),
        [3, 4]
    );
    // A client's message again, by another number.
    assert_eq!(
        appended(
            &mut ledger,
            vec![said(4, Some("k"), "b"), said(5, None, "d")]
        ),
        [3, 5]
    );
    // Twice in one command.
    let twice = vec![
        said(6, Some("l"), "e"),
        said(7, Some("l"), "e"),
        said(6, None, "e"),
    ];
    assert_eq!(appended(&mut ledger, twice), [6, 6, 6]);
    // Another leg counts for itself, and shares the keys.
    ledger.act(OtherLeg);
    assert_eq!(
        appended(
            &mut ledger,
            vec![said(1, None, "f"), said(2, Some("k"), "b")]
        ),
        [8, 3]
    );
    // Known by its key alone.
    let keyed = NewEntry {
        leg_number: None,
        ..said(0, Some("m"), "g")
    };
    assert_eq!(appended(&mut ledger, vec![keyed.clone()]), [9]);
    assert_eq!(appended(&mut ledger, vec![keyed]), [9]);

    let entries = ledger
        .store
        .entries(&ledger.conversation, EntryNumber(0), 100)
        .unwrap();
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.number.0).collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<u64>>());
    let by_key = ledger
        .store
        .entry_of_key(&ledger.conversation, "k")
        .unwrap();
    assert_eq!(by_key.map(|entry| entry.number), Some(EntryNumber(3)));
}

#[test]
fn old_entries_make_room() {
    let limits = StoreLimits {
        entries_max: 2_000,
        entry_bytes_max: 10,
        ..StoreLimits::default()
    };
    let mut ledger = Ledger::with_limits(PLAIN, limits);
    for batch in 0..10_u64 {
        let first = batch * 1_000 + 1;
        let entries = (first..first + 1_000).map(|number| said(number, None, "word"));
        let numbers = appended(&mut ledger, entries.collect());
        assert_eq!(numbers.last(), Some(&(first + 1_000)));
    }
    let known = ledger.store.conversation(
        &ledger.conversation.tenant,
        &ledger.conversation.conversation_id,
    );
    let known = known.unwrap().unwrap();
    assert_eq!(
        (known.first_entry, known.last_entry),
        (EntryNumber(8_002), EntryNumber(10_001))
    );
    let entries = |after, entries_max| {
        let entries = ledger
            .store
            .entries(&ledger.conversation, EntryNumber(after), entries_max);
        let entries = entries.unwrap();
        let place = |entry: Option<&windlass_store::Entry>| entry.map(|entry| entry.number.0);
        (entries.len(), place(entries.first()), place(entries.last()))
    };
    assert_eq!(entries(0, 10_000), (2_000, Some(8_002), Some(10_001)));
    assert_eq!(entries(0, 3), (3, Some(9_999), Some(10_001)));
    assert_eq!(entries(10_000, 10_000), (1, Some(10_001), Some(10_001)));
    assert_eq!(entries(10_001, 10_000), (0, None, None));

    // More at once than are kept, and one that is too long.
    let many = (10_001..=13_000).map(|number| said(number, None, "word"));
    assert_eq!(appended(&mut ledger, many.collect()).last(), Some(&13_001));
    let entries = ledger
        .store
        .entries(&ledger.conversation, EntryNumber(0), 10_000)
        .unwrap();
    assert_eq!(entries.len(), 2_000);
    let long = vec![
        said(13_001, None, "short"),
        said(13_002, None, "eleven byte"),
    ];
    assert_eq!(append(&mut ledger, long), Reply::EntryTooLong);
    assert_eq!(
        append(&mut ledger, vec![onset(13_001)]),
        Reply::Appended(vec![EntryNumber(13_002)])
    );
}

#[test]
fn a_leg_is_taken_over_and_ends() {
    let mut ledger = Ledger::new(PLAIN);
    let old = ledger.leg();
    assert_eq!(old.epoch, Epoch(1));
    let save = |ledger: &mut Ledger, leg: &LegRef| {
        ledger.send(Command::Save {
            leg: leg.clone(),
            body: Sensitive(b"state".to_vec()),
            expires_in_ms: HOUR_MS,
        })
    };
    assert_eq!(save(&mut ledger, &old), Reply::Done);
    ledger.all(&[Onset, Request, Succeeds]);

    let resumed = match ledger.send(Command::Resume(presented("leg 1"))) {
        Reply::Resumed(resumed) => resumed,
        other => panic!("{other:?}"),
    };
    assert_eq!(resumed.leg.epoch, Epoch(2));
    assert_eq!(resumed.leg.body, Sensitive(b"state".to_vec()));
    assert_eq!(resumed.unheard.len(), 1);
    let events: Vec<&EntryEvent> = resumed.log.iter().map(|entry| &entry.event).collect();
    assert!(matches!(
        events[..],
        [
            EntryEvent::Attached(_),
            EntryEvent::Onset,
            EntryEvent::Effect(_),
            EntryEvent::Effect(_)
        ]
    ));

    // Of the old epoch only records count.
    let new = LegRef {
        epoch: Epoch(2),
        ..old.clone()
    };
    assert_eq!(save(&mut ledger, &old), Reply::Gone);
    assert_eq!(append(&mut ledger, vec![onset(2)]), Reply::Gone);
    assert_eq!(ledger.send(Command::Leave(old.clone())), Reply::Gone);
    let withdraw = Command::Withdraw {
        leg: old,
        questions: Vec::new(),
    };
    assert_eq!(ledger.send(withdraw), Reply::Gone);
    assert_eq!(ledger.act(Request), "`Gone`");
    assert_eq!(ledger.act(Succeeds), "recorded: effect 1, done");

    assert_eq!(save(&mut ledger, &new), Reply::Done);
    assert_eq!(ledger.send(Command::Leave(new.clone())), Reply::Done);
    assert_eq!(save(&mut ledger, &new), Reply::Gone);
    assert_eq!(
        ledger.send(Command::Resume(presented("leg 1"))),
        Reply::NotResumed
    );
    // Of one that is over nothing is left.
    let attach = Command::Attach(Box::new(new_leg("leg 1")));
    assert_eq!(
        ledger.send(attach.clone()),
        Reply::Attached { epoch: Epoch(1) }
    );
    // The acknowledgement was lost.
    assert_eq!(
        ledger.send(attach.clone()),
        Reply::Attached { epoch: Epoch(1) }
    );
    // A leg of another process was resumed since.
    ledger.act(Crash);
    assert_eq!(ledger.send(attach), Reply::Gone);
    // Another client's is another one, and so is one with another token.
    let of_tablet = NewLeg {
        client_id: ClientId::new("tablet"),
        ..new_leg("leg 1")
    };
    let with_token = NewLeg {
        resume_token: [9; 32],
        ..of_tablet.clone()
    };
    for (leg, epoch) in [(of_tablet, Epoch(2)), (with_token, Epoch(3))] {
        let attach = Command::Attach(Box::new(leg));
        assert_eq!(ledger.send(attach.clone()), Reply::Attached { epoch });
        assert_eq!(ledger.send(attach), Reply::Attached { epoch });
    }
}

#[test]
fn only_its_client_resumes_a_leg() {
    let mut ledger = Ledger::new(CONSENT);
    ledger.all(&[Onset, Request]);
    let refused = |ledger: &Ledger, user: &str, change: &dyn Fn(&mut Presented)| {
        let mut shown = presented("leg 1");
        change(&mut shown);
        let of = conversation("conversation", user);
        one(&ledger.store, &of, Command::Resume(shown))
    };
    let nothing = |_: &mut Presented| {};
    assert_eq!(
        refused(&ledger, "alice", &|shown| shown.resume_token[0] ^= 1),
        Reply::NotResumed
    );
    assert_eq!(
        refused(&ledger, "alice", &|shown| shown.client_id =
            ClientId::new("desk")),
        Reply::NotResumed
    );
    assert_eq!(
        refused(&ledger, "alice", &|shown| shown.user_id =
            UserId::new("bob")),
        Reply::NotResumed
    );
    assert_eq!(refused(&ledger, "bob", &nothing), Reply::Foreign);
    let known = ledger.store.leg(&presented("leg 1").resume_token).unwrap();
    let (of, leg) = known.unwrap();
    assert_eq!((of, leg.epoch), (ledger.conversation.clone(), Epoch(1)));
    assert_eq!(ledger.store.leg(&[0; 32]).unwrap(), None);

    let token = ledger.token();
    match refused(&ledger, "alice", &nothing) {
        Reply::Resumed(resumed) => {
            assert_eq!(resumed.questions.len(), 1);
            assert_eq!(resumed.questions[0].token, token);
        }
        other => panic!("{other:?}"),
    }
    ledger.act(Passes(HOUR_MS));
    assert_eq!(refused(&ledger, "alice", &nothing), Reply::NotResumed);
}

#[test]
fn an_id_of_another_connection_in_other_words_is_another_message() {
    let mut ledger = Ledger::new(PLAIN);
    let first = ledger.request("{\"note\":1}", "{}");
    ledger.send(Command::Request(Box::new(first.clone())));
    ledger.all(&[Succeeds, Heard, Onset]);
    let RequestOrigin::Model { delivery, .. } = first.origin else {
        panic!("it is a model's");
    };
    let again = windlass_store::command::Request {
        origin: RequestOrigin::Model {
            delivery,
            generation: 2,
        },
        ..ledger.request("{\"note\":2}", "{}")
    };
    let reply = ledger.send(Command::Request(Box::new(again)));
    assert!(matches!(reply, Reply::Ask(_)), "{reply:?}");
}

#[test]
fn a_denial_is_heard_of_where_the_leg_that_asked_asks_again() {
    for (acts, unheard) in [
        (&[Request, No, Request][..], 0),
        (&[Request, No, OtherLeg, Request], 1),
    ] {
        let mut ledger = Ledger::new(CONSENT);
        ledger.all(acts);
        let reply = ledger.send(Command::Resume(presented("leg 1")));
        let Reply::Resumed(resumed) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(resumed.unheard_questions.len(), unheard, "{acts:?}");
    }
}

#[test]
fn the_end_of_a_nested_call_is_told_to_no_model() {
    let mut ledger = Ledger::new(PLAIN);
    ledger.all(&[Nested, Crash]);
    let reply = ledger.send(Command::Resume(presented("leg 1")));
    let Reply::Resumed(resumed) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(resumed.unheard, []);
}

#[test]
fn a_question_that_is_asked_anew_is_asked_now() {
    let mut ledger = Ledger::new(CONSENT);
    ledger.all(&[Request, Passes(1_000), Taint, Yes]);
    let open = ledger.store.open_questions(&ledger.conversation).unwrap();
    let times = open.iter().map(|asked| {
        let question = &asked.question;
        (question.asked_at_unix_ms, question.expires_at_unix_ms)
    });
    let now = ledger.now();
    assert_eq!(times.collect::<Vec<_>>(), [(now, now + QUESTION_MS)]);
}

#[test]
fn a_receipt_is_of_the_attempt_that_says_how_it_stands() {
    for (ends, is_kept) in [
        (&[FirstFails][..], false),
        (&[FirstSucceeds], true),
        (&[Fails], true),
        (&[Succeeds], true),
    ] {
        let mut ledger = Ledger::new(PLAIN);
        ledger.all(&[Request, EndsInDoubt, Request, Yes]);
        assert_eq!(ledger.effect().receipt, None);
        ledger.all(ends);
        assert_eq!(ledger.effect().receipt.is_some(), is_kept, "{ends:?}");
    }
}

/// How often a session is asked for what a run wants of it, and whether that is rejected.
fn intents_after(acts: &[Act], intents: Vec<Intent>) -> Vec<bool> {
    let mut ledger = Ledger::new(CONSENT);
    ledger.all(&[Request, Yes]);
    let asker = ledger.leg().leg;
    ledger.all(acts);
    let record = Record {
        next_attempt_ms: None,
        effect_id: ledger.effect().effect_id,
        attempt: AttemptNumber(1),
        outcome: AttemptOutcome::Succeeded,
        receipt: None,
        asks: Some(LegRequest {
            leg: asker,
            question: QuestionNumber(1),
            intents,
            is_rejected: false,
        }),
        values: None,
    };
    // Its acknowledgement may be lost.
    for _ in 0..2 {
        ledger.send(Command::Record(Box::new(record.clone())));
    }
    let log = ledger
        .store
        .entries(&ledger.conversation, EntryNumber(0), 100);
    let asked = log
        .unwrap()
        .into_iter()
        .filter_map(|entry| match entry.event {
            EntryEvent::Asked(asked) => Some(asked.is_rejected),
            _ => None,
        });
    asked.collect()
}

#[test]
fn intents_of_an_approved_run_are_one_entry_and_rejected_where_the_leg_is_gone() {
    let wanted = || vec![Intent::SuppressAudio { value: true }];
    assert_eq!(intents_after(&[], Vec::new()), [] as [bool; 0]);
    assert_eq!(intents_after(&[], wanted()), [false]);
    // Its service has told the end before the process that ran it.
    assert_eq!(intents_after(&[CallsBack], wanted()), [false]);
    assert_eq!(intents_after(&[Leaves], wanted()), [true]);
}

#[test]
fn a_question_names_the_newest_effects_of_many() {
    let mut ledger = Ledger::new(CONSENT);
    for _ in 0..40 {
        ledger.all(&[Onset, Request, Yes, Succeeds, Heard]);
    }
    ledger.all(&[Onset, Request]);
    assert_eq!(ledger.question().hazards.earlier.len(), 16);
    // What it names covers what there is, so that an approval of it runs.
    assert!(ledger.act(Yes).ends_with("approved by question 41"));
}

#[test]
fn what_ran_for_a_dead_process_is_told_to_the_next() {
    let mut ledger = Ledger::new(PLAIN);
    ledger.all(&[Onset, Request, Crash]);
    let due = ledger.store.due().unwrap();
    assert_eq!(due.lapsed, [ledger.conversation.clone()]);
    assert!(due.lookups.is_empty());
    match ledger.send(Command::Resume(presented("leg 1"))) {
        Reply::Resumed(resumed) => {
            let states: Vec<EffectState> =
                resumed.unheard.iter().map(|effect| effect.state).collect();
            assert_eq!(states, [EffectState::Unknown]);
        }
        other => panic!("{other:?}"),
    }
    let due = ledger.store.due().unwrap();
    assert!(due.lapsed.is_empty());
    assert_eq!(due.lookups.len(), 1);
}

#[test]
fn a_conversation_is_one_users() {
    let mut ledger = Ledger::new(CONSENT);
    ledger.all(&[Onset, Request]);
    let mallory = conversation("conversation", "mallory");
    let request = ledger.request("{}", "{}");
    let commands = [
        Command::Open(Beginner::default()),
        Command::Taint,
        Command::Settle,
        Command::Attach(Box::new(new_leg("leg 9"))),
        Command::Request(Box::new(request)),
        Command::Heard {
            effects: Vec::new(),
            questions: Vec::new(),
        },
    ];
    for command in commands {
        assert_eq!(one(&ledger.store, &mallory, command), Reply::Foreign);
    }
    assert_eq!(
        ledger.store.entries(&mallory, EntryNumber(0), 9).unwrap(),
        []
    );
    assert_eq!(ledger.store.open_questions(&mallory).unwrap(), []);
    assert_eq!(
        ledger.store.question(&mallory, &ledger.token()).unwrap(),
        None
    );
    assert_eq!(ledger.store.unheard(&mallory).unwrap(), []);
    let own = ledger
        .store
        .question(&ledger.conversation, &ledger.token())
        .unwrap();
    assert!(own.is_some());
    let open = ledger.store.open_questions(&ledger.conversation).unwrap();
    assert_eq!(open.len(), 1);

    let effect = ledger.all(&[Yes, Succeeds]);
    assert_eq!(effect, "recorded: effect 1, done");
    let effect_id = ledger.effect().effect_id;
    let elsewhere = TenantId::new("elsewhere");
    assert_eq!(ledger.store.effect(&elsewhere, &effect_id).unwrap(), None);
}

#[test]
fn nothing_is_more_than_is_kept() {
    let limits = StoreLimits {
        effects_max: 1,
        questions_max: 1,
        question_bytes_max: 40,
        receipt_bytes_max: 20,
        leg_bytes_max: 4,
        ..StoreLimits::default()
    };
    let mut ledger = Ledger::with_limits(PLAIN, limits);
    ledger.all(&[Onset, Request]);
    // A receipt that is too long is left out, and the effect is done all the same.
    assert_eq!(ledger.act(Succeeds), "recorded: effect 1, done");
    assert_eq!(ledger.effect().receipt, None);
    assert_eq!(ledger.act(OtherKey), "refused: `Full`");
    let save = Command::Save {
        leg: ledger.leg(),
        body: Sensitive(vec![0; 5]),
        expires_in_ms: HOUR_MS,
    };
    assert_eq!(ledger.send(save), Reply::EntryTooLong);

    let mut ledger = Ledger::with_limits(CONSENT, limits);
    assert_eq!(ledger.act(Request), "`Ask` question 1");
    assert_eq!(ledger.act(OtherKey), "refused: `TooManyQuestions`");
    // One in place of another is no further one.
    assert_eq!(ledger.all(&[Onset, OtherWords]), "`Ask` question 2");
    assert_eq!(
        ledger.all(&[Passes(QUESTION_MS), OtherKey]),
        "`Ask` question 3"
    );
    let mut long = ledger.request("{}", "{}");
    for (bytes, refusal) in [(40, Refusal::TooManyQuestions), (41, Refusal::TooLong)] {
        long.preview = Sensitive("a".repeat(bytes));
        let reply = ledger.send(Command::Request(Box::new(long.clone())));
        assert_eq!(reply, Reply::Refused(refusal));
    }
    let long = "a".repeat(41);
    let long = ledger.request(&long, "{}");
    let reply = ledger.send(Command::Request(Box::new(long)));
    assert_eq!(reply, Reply::Refused(Refusal::TooLong));
    assert_eq!(ledger.act(Yes), "`Run` effect 1, approved by question 3");
    // A further attempt at a known effect is always possible.
    assert_eq!(
        ledger.all(&[Fails, OtherKey, Yes]),
        "`Run` effect 1, attempt 2, approved by question 4"
    );
}

#[test]
fn time_never_runs_backwards_within_a_conversation() {
    let mut ledger = Ledger::new(PLAIN);
    let jumps: [i64; 6] = [1, -3_600_000, 3_600_000, 7_200_000, -7_200_000, 5];
    for jump in jumps {
        let now = ledger.now().checked_add_signed(jump).unwrap();
        ledger.clock.store(now, Ordering::Relaxed);
        ledger.all(&[Onset, OtherKey, Fails]);
    }
    let entries = ledger
        .store
        .entries(&ledger.conversation, EntryNumber(0), 100)
        .unwrap();
    assert!(entries.is_sorted_by_key(|entry| entry.at_unix_ms));
    // Another conversation has its own time.
    let other = conversation("other", "alice");
    let reply = one(&ledger.store, &other, Command::Open(Beginner::default()));
    let Reply::Opened(opened) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(opened.begun_at_unix_ms, ledger.now());
}

#[test]
fn a_retry_holds_its_own_lease() {
    let mut ledger = Ledger::new(PLAIN);
    ledger.all(&[Request, Passes(LEASE_MS - 1), Fails, SameMessage]);
    let effect = ledger.effect();
    let outcomes: Vec<Option<AttemptOutcome>> = effect
        .attempts
        .iter()
        .map(|attempt| attempt.outcome)
        .collect();
    assert_eq!(outcomes, [Some(AttemptOutcome::Failed), None]);
    assert_eq!(effect.lease_end_unix_ms(), ledger.now() + LEASE_MS);
}

#[test]
fn lookups_pause_ever_longer() {
    let mut ledger = Ledger::new(PLAIN);
    ledger.all(&[Request, EndsInDoubt]);
    let mut pauses = Vec::new();
    for _ in 0..11 {
        assert_eq!(ledger.store.due().unwrap().lookups.len(), 1);
        ledger.all(&[Act::LooksUp, Act::FindsNoAnswer]);
        assert!(ledger.store.due().unwrap().lookups.is_empty());
        let LookupState::Tried {
            next_at_unix_ms, ..
        } = ledger.effect().lookup
        else {
            panic!("it was looked up");
        };
        let pause = next_at_unix_ms - ledger.now();
        pauses.push(pause / 1_000);
        ledger.act(Passes(pause));
    }
    assert_eq!(
        pauses,
        [20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600, 3_600]
    );

    // One that was too early comes again when what was sent must have landed.
    let mut ledger = Ledger::new(PLAIN);
    ledger.all(&[Request, EndsInDoubt, Act::LooksUp, Act::FindsNothing]);
    ledger.act(Passes(LEASE_MS + LANDING_MS - 1));
    assert!(ledger.store.due().unwrap().lookups.is_empty());
    ledger.act(Passes(1));
    assert_eq!(ledger.store.due().unwrap().lookups.len(), 1);
}

#[test]
fn what_the_audit_has_to_write() {
    let mut ledger = Ledger::new(PLAIN);
    ledger.all(&[Request, OtherKey]);
    assert_eq!(ledger.store.unaudited(10).unwrap(), []);
    ledger.all(&[Succeeds]);
    let unaudited = ledger.store.unaudited(10).unwrap();
    assert_eq!(unaudited.len(), 1);
    let effect_id = unaudited[0].1.effect_id.clone();
    assert_eq!(ledger.send(Command::Audited(vec![effect_id])), Reply::Done);
    assert_eq!(ledger.store.unaudited(10).unwrap(), []);
    ledger.all(&[Passes(LEASE_MS), Act::Settles]);
    assert_eq!(ledger.store.unaudited(10).unwrap().len(), 1);
    assert_eq!(ledger.store.unaudited(0).unwrap().len(), 0);
}

#[test]
fn what_has_run_out_is_deleted() {
    const DAY_MS: u64 = 24 * HOUR_MS;
    let mut ledger = Ledger::new(CONSENT);
    ledger.all(&[
        Onset,
        Request,
        Yes,
        Succeeds,
        Heard,
        OtherKey,
        Act::AbandonNext,
    ]);
    assert_eq!(ledger.store.prune().unwrap(), 0);
    let done = ledger.effect();
    // The conversation goes on, and what is old in it goes: an effect, two questions, two deliveries, a nonce.
    ledger.all(&[
        Passes(20 * HOUR_MS),
        Onset,
        Passes(4 * HOUR_MS + QUESTION_MS),
        Onset,
    ]);
    assert_eq!(ledger.store.prune().unwrap(), 6);
    assert_eq!(ledger.store.prune().unwrap(), 0);
    let tenant = &ledger.conversation.tenant;
    assert_eq!(ledger.store.effect(tenant, &done.effect_id).unwrap(), None);
    assert_eq!(ledger.act(Request), "`Ask` question 3");

    // What runs stays, and so does its conversation.
    ledger.all(&[Yes, Passes(30 * DAY_MS)]);
    ledger.store.prune().unwrap();
    assert_eq!(ledger.effect().state, EffectState::Running);
    let known = |ledger: &Ledger| {
        let id = &ledger.conversation.conversation_id;
        let known = ledger.store.conversation(&ledger.conversation.tenant, id);
        known.unwrap().is_some()
    };
    assert!(known(&ledger));
    ledger.all(&[Act::Settles, Leaves, Passes(DAY_MS)]);
    // Nobody knows of it any more, before it is deleted and after.
    assert!(!known(&ledger));
    assert!(ledger.store.prune().unwrap() > 0);
    assert_eq!(ledger.store.prune().unwrap(), 0);
    assert!(!known(&ledger));
}

#[test]
fn a_conversation_that_rested_too_long_begins_anew() {
    let mut ledger = Ledger::new(PLAIN);
    ledger.all(&[Request, Succeeds, Heard, Leaves, Passes(24 * HOUR_MS)]);
    assert_eq!(ledger.act(Request), "`Gone`");
    ledger.act(OtherLeg);
    assert_eq!(ledger.act(Request), "`Run` effect 2");
    // Another user may have its name now.
    ledger.all(&[Fails, Leaves, Passes(24 * HOUR_MS)]);
    let bob = conversation("conversation", "bob");
    assert!(matches!(
        one(&ledger.store, &bob, Command::Open(Beginner::default())),
        Reply::Opened(_)
    ));
}

#[test]
fn batches_are_answered_in_their_order() {
    let ledger = Ledger::new(PLAIN);
    let batch = |name: &str, commands: Vec<Command>| Batch {
        conversation: conversation(name, "alice"),
        commands,
    };
    let open = Command::Open(Beginner::default());
    let attach = Command::Attach(Box::new(new_leg("leg")));
    let leave = Command::Leave(LegRef {
        leg: SessionId::new("leg"),
        epoch: Epoch(1),
    });
    let batches = [
        batch("a", vec![open.clone(), attach.clone(), leave.clone()]),
        batch("b", vec![leave.clone(), open, attach]),
        batch("a", vec![leave]),
        batch("c", Vec::new()),
    ];
    let mut replies = ledger.store.commit(&batches).unwrap();
    for replies in &mut replies {
        replies.retain(|reply| !matches!(reply, Reply::Opened(_)));
    }
    let attached = Reply::Attached { epoch: Epoch(1) };
    assert_eq!(
        replies,
        [
            vec![attached.clone(), Reply::Done],
            vec![Reply::Gone, attached],
            vec![Reply::Gone],
            Vec::new()
        ]
    );
}

#[test]
fn what_is_not_there_is_missing() {
    let mut ledger = Ledger::new(PLAIN);
    let effect_id = EffectId::new("no such effect");
    let record = Record {
        next_attempt_ms: None,
        effect_id: effect_id.clone(),
        attempt: AttemptNumber(1),
        outcome: AttemptOutcome::Succeeded,
        receipt: None,
        asks: None,
        values: None,
    };
    assert_eq!(
        ledger.send(Command::Record(Box::new(record.clone()))),
        Reply::Missing
    );
    let look_up = Command::LookUp {
        effect_id: effect_id.clone(),
    };
    assert_eq!(ledger.send(look_up), Reply::Missing);
    ledger.act(Request);
    let no_such_attempt = Record {
        next_attempt_ms: None,
        effect_id: ledger.effect().effect_id,
        attempt: AttemptNumber(2),
        ..record
    };
    assert_eq!(
        ledger.send(Command::Record(Box::new(no_such_attempt))),
        Reply::Missing
    );
}

#[test]
fn a_user_is_blocked_until_the_later_time() {
    let ledger = Ledger::new(PLAIN);
    let block = |until_unix_ms| Block {
        user_id: UserId::new("mallory"),
        until_unix_ms,
        farewell_message: "Goodbye.".to_owned(),
    };
    let now = ledger.now();
    ledger.store.block(block(now + 10)).unwrap();
    ledger.store.block(block(now + 5)).unwrap();
    let until = |at| {
        let blocked = ledger.store.blocked(&UserId::new("mallory"), at).unwrap();
        blocked.map(|block| block.until_unix_ms)
    };
    assert_eq!(until(now + 9), Some(now + 10));
    assert_eq!(until(now + 10), None);
    let other = ledger
        .store
        .for_another_process(settings(&ledger.clock, "other", ledger.limits));
    assert!(
        other
            .blocked(&UserId::new("mallory"), now)
            .unwrap()
            .is_some()
    );
    ledger.clock.fetch_add(10, Ordering::Relaxed);
    assert_eq!(ledger.store.prune().unwrap(), 1);
}
