//! The log: numbers without gaps, nothing twice, and the oldest make room.

use super::{check, check_with};
use crate::ledger::{conversation, new_leg};
use crate::support::{START_UNIX_MS, World, appended, recorded, requested, said};
use windlass_contract::id::{ClientId, EffectId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{CalledBack, Command, Found, FoundState, Record, Reply, ValuesEntry};
use windlass_store::{
    AttemptNumber, AttemptOutcome, ConversationRef, Entry, EntryEvent, EntryNumber, LegNumber,
    LegRef, NewEntry, Presented, StoreLimits,
};

fn read(world: &World, of: &ConversationRef, after: u64, entries_max: usize) -> Vec<u64> {
    let entries = world.store().entries(of, EntryNumber(after), entries_max);
    let entries = entries.unwrap();
    entries.iter().map(|entry| entry.number.0).collect()
}

fn replied(numbers: &[u64]) -> Reply {
    Reply::Appended(numbers.iter().copied().map(EntryNumber).collect())
}

#[test]
fn the_newest_entries_behind_one_are_read_oldest_first() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let entries = (1..=5).map(|number| said(number, None, &number.to_string()));
        let reply = world.send(&talk, appended(&leg, entries.collect()));
        // The first entry tells that the leg was attached.
        assert_eq!(reply, replied(&[2, 3, 4, 5, 6]));
        world.restart("process 2");
        for (after, entries_max, expected) in [
            (0, 10, vec![1, 2, 3, 4, 5, 6]),
            (0, 2, vec![5, 6]),
            (4, 10, vec![5, 6]),
            (4, 1, vec![6]),
            (6, 10, vec![]),
            (u64::MAX, 10, vec![]),
            (0, 0, vec![]),
            (0, usize::MAX, vec![1, 2, 3, 4, 5, 6]),
        ] {
            let found = read(world, &talk, after, entries_max);
            assert_eq!(found, expected, "{entries_max} behind {after}");
        }
    });
}

#[test]
fn an_entry_comes_back_as_it_was_written() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let odd = "Ø'); DROP TABLE entries; --\u{0}\u{1f600}\"\\";
        world.pass(5);
        world.send(&talk, appended(&leg, vec![said(u64::MAX, Some(odd), odd)]));
        let expected = Entry {
            number: EntryNumber(2),
            at_unix_ms: START_UNIX_MS + 5,
            leg: Some(leg.leg.clone()),
            leg_number: Some(LegNumber(u64::MAX)),
            key: Some(odd.to_owned()),
            event: EntryEvent::Said(Sensitive(odd.to_owned())),
        };
        let store = world.store();
        let found = store.entries(&talk, EntryNumber(1), 10);
        assert_eq!(found, Ok(vec![expected.clone()]));
        assert_eq!(store.entry_of_key(&talk, odd), Ok(Some(expected)));
        assert_eq!(store.entry_of_key(&talk, "other"), Ok(None));
    });
}

#[test]
fn what_was_said_comes_back_whatever_it_looks_like() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let texts = [
            "",
            "=",
            "==x",
            "\"onset\"",
            "{\"said\":\"x\"}",
            "{\"kind\":\"words\"}",
        ];
        let numbered = texts.iter().zip(1..);
        let entries = numbered
            .map(|(text, number)| said(number, None, text))
            .collect();
        world.send(&talk, appended(&leg, entries));
        let found = world.store().entries(&talk, EntryNumber(1), 10).unwrap();
        let events: Vec<EntryEvent> = found.into_iter().map(|entry| entry.event).collect();
        let said = texts.map(|text| EntryEvent::Said(Sensitive(text.to_owned())));
        assert_eq!(events, said);
    });
}

#[test]
fn an_entry_that_comes_again_by_number_or_by_key_is_not_written_again() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let first = vec![said(1, Some("a"), "one"), said(2, None, "two")];
        let reply = world.send(&talk, appended(&leg, first.clone()));
        assert_eq!(reply, replied(&[2, 3]));
        world.restart("process 2");
        assert_eq!(world.send(&talk, appended(&leg, first)), replied(&[2, 3]));
        let again = vec![
            said(2, None, "two"),
            said(3, Some("a"), "one"),
            said(4, None, "four"),
        ];
        let reply = world.send(&talk, appended(&leg, again));
        assert_eq!(reply, replied(&[3, 2, 4]));
        // Another leg counts for itself, and knows the conversation's keys.
        let other = world.attach(&talk, "other");
        let its = vec![said(1, None, "one"), said(2, Some("a"), "one")];
        let reply = world.send(&talk, appended(&other, its));
        assert_eq!(reply, replied(&[6, 2]));
    });
}

#[test]
fn an_entry_may_be_known_by_its_key_alone() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let entry = NewEntry {
            leg_number: None,
            ..said(1, Some("message"), "hello")
        };
        let command = appended(&leg, vec![entry]);
        assert_eq!(world.send(&talk, command.clone()), replied(&[2]));
        assert_eq!(world.send(&talk, command), replied(&[2]));
    });
}

#[test]
fn the_oldest_entries_make_room() {
    let limits = StoreLimits {
        entries_max: 3,
        ..StoreLimits::default()
    };
    check_with(limits, |world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        for number in 1..=5 {
            let entry = said(number, Some(&format!("key-{number}")), "text");
            world.send(&talk, appended(&leg, vec![entry]));
        }
        assert_eq!(read(world, &talk, 0, 10), [4, 5, 6]);
        assert_eq!(world.store().entry_of_key(&talk, "key-2"), Ok(None));
        let many = (6..=15).map(|number| said(number, None, "text"));
        world.send(&talk, appended(&leg, many.collect()));
        world.restart("process 2");
        assert_eq!(read(world, &talk, 0, 10), [14, 15, 16]);
        let (tenant, id) = (&talk.tenant, &talk.conversation_id);
        let found = world.store().conversation(tenant, id).unwrap().unwrap();
        let kept = (found.first_entry, found.last_entry);
        assert_eq!(kept, (EntryNumber(14), EntryNumber(16)));
    });
}

#[test]
fn an_entry_that_is_too_long_keeps_the_others_of_its_command_out() {
    let limits = StoreLimits {
        entry_bytes_max: 5,
        ..StoreLimits::default()
    };
    check_with(limits, |world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        let entries = vec![said(1, None, "12345"), said(2, None, "123456")];
        let reply = world.send(&talk, appended(&leg, entries));
        assert_eq!(reply, Reply::EntryTooLong);
        assert!(read(world, &talk, 0, 10).is_empty());
        let longest = appended(&leg, vec![said(1, None, "12345")]);
        assert_eq!(world.send(&talk, longest), replied(&[2]));
    });
}

fn kept(by: Option<(&LegRef, u64)>, text: &str) -> Option<ValuesEntry> {
    Some(ValuesEntry {
        by: by.map(|(leg, number)| (leg.leg.clone(), LegNumber(number))),
        said: Sensitive(text.to_owned()),
    })
}

/// What the log says that sessions or outcomes say, oldest first.
fn said_texts(world: &World, of: &ConversationRef) -> Vec<String> {
    let entries = world.store().entries(of, EntryNumber(0), 100).unwrap();
    let texts = entries.into_iter().filter_map(|entry| match entry.event {
        EntryEvent::Said(text) => Some(text.into_inner()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn what_an_outcome_keeps_is_written_with_it_once_whoever_has_the_leg() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.send(&talk, requested(1, &leg));
        // The leg is another process's by now.
        world.restart("process 2");
        world.send(
            &talk,
            Command::Resume(Presented {
                resume_token: new_leg("leg").resume_token,
                client_id: ClientId::new("phone"),
                user_id: UserId::new("alice"),
            }),
        );
        let record = Command::Record(Box::new(Record {
            next_attempt_ms: None,
            effect_id: EffectId::new("effect-1"),
            attempt: AttemptNumber(1),
            outcome: AttemptOutcome::Succeeded,
            receipt: None,
            asks: None,
            values: kept(Some((&leg, 7)), "tea"),
        }));
        world.send(&talk, record.clone());
        // The acknowledgement was lost.
        world.send(&talk, record);
        assert_eq!(said_texts(world, &talk), ["tea"]);
    });
}

#[test]
fn what_a_callback_or_a_lookup_keeps_is_written_where_its_end_is_news() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        for number in [1, 2] {
            world.send(&talk, requested(number, &leg));
            world.send(&talk, recorded(number, AttemptOutcome::Unknown));
        }
        let called_back = Command::CalledBack(Box::new(CalledBack {
            effect_id: EffectId::new("effect-1"),
            outcome: AttemptOutcome::Succeeded,
            receipt: None,
            values: kept(None, "by callback"),
        }));
        let found = Command::Found(Box::new(Found {
            effect_id: EffectId::new("effect-2"),
            began_unix_ms: world.now(),
            finding: FoundState::Happened,
            receipt: None,
            values: kept(None, "by lookup"),
        }));
        for command in [&called_back, &called_back, &found, &found] {
            world.send(&talk, command.clone());
        }
        assert_eq!(said_texts(world, &talk), ["by callback", "by lookup"]);
        world.send(&talk, Command::Leave(leg));
        world.send(&talk, Command::Erase);
        assert_eq!(said_texts(world, &talk), [""; 0]);
    });
}
