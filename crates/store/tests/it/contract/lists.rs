//! What a user sees of conversations: their list with titles, their pages, a search, and what is left of one that was deleted.

use super::check;
use crate::ledger::{conversation, onset};
use crate::support::{World, answered, appended, asked, asking, ran, recorded, request, said};
use windlass_contract::id::{TenantId, UserId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, Reply, Request};
use windlass_store::{
    AttemptOutcome, Beginner, ConversationRef, EntryNumber, LegNumber, NewEntry, Searched, Wanted,
};

fn words(number: u64, role: &str, text: &str) -> NewEntry {
    let text = format!(r#"{{"kind":"words","role":"{role}","text":"{text}","turn":1}}"#);
    said(number, None, &text)
}

/// A conversation in which its user has said this, and which no session is live in.
fn talked(world: &World, of: &ConversationRef, text: &str) {
    let leg = world.attach(of, "leg");
    let spoken = vec![words(1, "user", text), words(2, "assistant", "Yes.")];
    world.send(of, appended(&leg, spoken));
    world.send(of, Command::Leave(leg));
}

/// Ids of a user's conversations, with their titles.
fn listed(world: &World, wanted: &Wanted<'_>) -> Vec<(String, Option<String>, u64)> {
    let found = world.store().conversations_of(wanted).unwrap();
    let shown = found.into_iter().map(|one| {
        let title = one.heading.title.map(|title| title.0);
        (one.conversation_id.to_string(), title, one.heading.messages)
    });
    shown.collect()
}

fn row(id: &str, title: &str, messages: u64) -> (String, Option<String>, u64) {
    (id.to_owned(), Some(title.to_owned()), messages)
}

fn of_alice<'a>(tenant: &'a TenantId, user_id: &'a UserId) -> Wanted<'a> {
    Wanted {
        tenant,
        user_id,
        prefix: None,
        behind: None,
        conversations_max: 10,
    }
}

#[test]
fn conversations_are_listed_for_their_user_the_newest_first() {
    check(|world| {
        let (tenant, alice) = (TenantId::default(), UserId::new("alice"));
        for (id, user) in [
            ("a", "alice"),
            ("b", "alice"),
            ("c", "alice/ada"),
            ("d", "alice-2"),
            ("e", "alice0"),
            ("f", "bob"),
        ] {
            talked(world, &conversation(id, user), &format!("Say  {id}."));
            world.pass(1_000);
        }
        // Nothing was said in this one.
        world.send(
            &conversation("g", "alice"),
            Command::Open(Beginner::default()),
        );
        let mut elsewhere = conversation("h", "alice");
        elsewhere.tenant = TenantId::new("other");
        talked(world, &elsewhere, "Elsewhere.");
        // Two of one time.
        talked(world, &conversation("j", "alice"), "Say j.");
        talked(world, &conversation("i", "alice"), "Say i.");
        world.restart("process 2");

        let own = of_alice(&tenant, &alice);
        let expected = [
            row("i", "Say i.", 2),
            row("j", "Say j.", 2),
            row("b", "Say b.", 2),
            row("a", "Say a.", 2),
        ];
        assert_eq!(listed(world, &own), expected);
        let with_users = Wanted {
            prefix: Some("alice/"),
            ..own.clone()
        };
        let ids: Vec<String> = listed(world, &with_users)
            .into_iter()
            .map(|(id, ..)| id)
            .collect();
        assert_eq!(ids, ["i", "j", "c", "b", "a"]);
        // Page after page, each once.
        let mut seen = Vec::new();
        let mut behind = None;
        loop {
            let page = Wanted {
                behind: behind.as_ref().map(|(used, id)| (*used, id)),
                conversations_max: 1,
                ..own.clone()
            };
            let found = world.store().conversations_of(&page).unwrap();
            let Some(last) = found.into_iter().next() else {
                break;
            };
            seen.push(last.conversation_id.to_string());
            behind = Some((last.used_at_unix_ms, last.conversation_id));
        }
        assert_eq!(seen, ["i", "j", "b", "a"]);
    });
}

#[test]
fn a_title_is_the_first_message_until_its_user_gives_another() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (tenant, alice) = (TenantId::default(), UserId::new("alice"));
        let wanted = of_alice(&tenant, &alice);
        let rename = Command::Rename(Sensitive("Mine".to_owned()));
        assert_eq!(world.send(&talk, rename.clone()), Reply::Missing);
        let leg = world.attach(&talk, "leg");
        world.send(&talk, appended(&leg, vec![words(1, "assistant", "Hello!")]));
        assert_eq!(listed(world, &wanted), [("talk".to_owned(), None, 1)]);
        world.send(&talk, appended(&leg, vec![words(2, "user", "Hello.")]));
        // An entry that comes again counts once.
        world.send(&talk, appended(&leg, vec![words(2, "user", "Hello.")]));
        world.send(&talk, appended(&leg, vec![words(3, "user", "Order tea.")]));
        assert_eq!(listed(world, &wanted), [row("talk", "Hello.", 3)]);
        let used = |world: &World| {
            let found = world.store().conversations_of(&wanted).unwrap();
            found[0].used_at_unix_ms
        };
        let before = used(world);
        world.pass(5_000);
        assert_eq!(world.send(&talk, rename), Reply::Done);
        world.send(&talk, Command::Settle);
        world.restart("process 2");
        assert_eq!(listed(world, &wanted), [row("talk", "Mine", 3)]);
        assert_eq!(used(world), before);
    });
}

#[test]
fn a_log_is_read_backwards_and_searched_for_words() {
    check(|world| {
        let (talk, eve) = (conversation("talk", "alice"), conversation("talk", "eve"));
        let leg = world.attach(&talk, "leg");
        let call = r#"{"kind":"call","tool":"order","text":"wine"}"#;
        let entries = vec![
            words(1, "user", "Order tea."),
            said(2, None, call),
            words(3, "assistant", "Done."),
        ];
        world.send(&talk, appended(&leg, entries));
        let store = world.store();
        let before = |of: &ConversationRef, before: u64, entries_max: usize| {
            let entries = store.entries_before(of, EntryNumber(before), entries_max);
            let entries = entries.unwrap().into_iter();
            entries.map(|entry| entry.number.0).collect::<Vec<_>>()
        };
        assert_eq!(before(&talk, u64::MAX, 10), [1, 2, 3, 4]);
        assert_eq!(before(&talk, 4, 2), [2, 3]);
        assert_eq!(before(&talk, 2, 10), [1]);
        assert!(before(&talk, 1, 10).is_empty());
        assert!(before(&talk, 4, 0).is_empty());
        assert!(before(&eve, 4, 10).is_empty());
        for (of, entries_max, text, is_found, entries) in [
            (&talk, 10, "tea", true, 3),
            (&talk, 10, "Done", true, 1),
            (&talk, 10, "wine", false, 4),
            (&talk, 2, "tea", false, 2),
            (&eve, 10, "tea", false, 0),
        ] {
            let searched = store.search(of, entries_max, &|words| words.contains(text));
            assert_eq!(searched, Ok(Searched { is_found, entries }), "{text}");
        }
    });
}

/// The first request once more, in a new turn of a new session.
fn again(world: &World, talk: &ConversationRef) -> Reply {
    let leg = world.attach(talk, "leg 2");
    world.send(talk, appended(&leg, vec![onset(1)]));
    let first = request(1, &leg);
    let repeated = Request {
        onset: Some(LegNumber(1)),
        arguments: first.arguments,
        effect_arguments: first.effect_arguments,
        near_arguments: first.near_arguments,
        ..request(9, &leg)
    };
    world.send(talk, Command::Request(Box::new(repeated)))
}

#[test]
fn a_deleted_conversation_leaves_nothing_that_was_said_and_all_that_was_done() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let (tenant, alice) = (TenantId::default(), UserId::new("alice"));
        assert_eq!(world.send(&talk, Command::Erase), Reply::Missing);
        let leg = world.attach(&talk, "leg");
        let spoken = vec![onset(1), words(2, "user", "Order tea and wine.")];
        world.send(&talk, appended(&leg, spoken));
        ran(world.send(&talk, Command::Request(Box::new(request(1, &leg)))));
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        let question = asked(world.send(&talk, asking(2, &leg)));
        assert_eq!(world.send(&talk, Command::Erase), Reply::InUse);
        let last = last_entry(world, &talk);
        world.send(&talk, Command::Leave(leg.clone()));

        assert_eq!(world.send(&talk, Command::Erase), Reply::Done);
        world.restart("process 2");
        let store = world.store();
        assert_eq!(store.entries(&talk, EntryNumber(0), 100), Ok(Vec::new()));
        let wanted = of_alice(&tenant, &alice);
        assert!(listed(world, &wanted).is_empty());
        assert_eq!(store.open_questions(&talk), Ok(Vec::new()));
        assert_eq!(store.unheard(&talk), Ok(Vec::new()));
        // The token that its client has opens nothing.
        let answer = world.send(&talk, answered(3, &question, true));
        assert_eq!(answer, Reply::Expired);
        // It stays its user's.
        let eve = conversation("talk", "eve");
        assert_eq!(
            world.send(&eve, Command::Open(Beginner::default())),
            Reply::Foreign
        );
        // What was done is known.
        let reply = again(world, &talk);
        let Reply::Ask(asked) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(asked.question.hazards.earlier.len(), 1);
        assert!(last_entry(world, &talk) > last);
        // What is said from now on is a conversation again.
        let leg = world.attach(&talk, "leg");
        world.send(&talk, appended(&leg, vec![words(9, "user", "Hello.")]));
        assert_eq!(listed(world, &wanted), [row("talk", "Hello.", 1)]);
    });
}

#[test]
fn a_session_of_a_dead_process_cannot_be_resumed_in_a_deleted_conversation() {
    check(|world| {
        let talk = conversation("talk", "alice");
        let leg = world.attach(&talk, "leg");
        world.send(&talk, appended(&leg, vec![words(1, "user", "Order.")]));
        ran(world.send(&talk, Command::Request(Box::new(request(1, &leg)))));
        let save = Command::Save {
            leg: leg.clone(),
            body: Sensitive(b"what was said".to_vec()),
            expires_in_ms: 1_000_000,
        };
        world.send(&talk, save);
        world.restart("process 2");
        assert_eq!(world.send(&talk, Command::Erase), Reply::Done);
        let token = crate::ledger::new_leg("leg").resume_token;
        assert!(world.store().leg(&token).unwrap().is_none());
        // Nobody knows how the change ended that was running, so that it does not run again unasked.
        let reply = again(world, &talk);
        let is_run = matches!(reply, Reply::Run(_));
        assert!(!is_run, "{reply:?}");
    });
}

fn last_entry(world: &World, of: &ConversationRef) -> EntryNumber {
    let found = world.store().conversation(&of.tenant, &of.conversation_id);
    found.unwrap().unwrap().last_entry
}

#[test]
fn clients_that_were_ended_are_known_after_a_restart_each_once() {
    check(|world| {
        let ids = ["c-2", "c-1", "c-2"].map(windlass_contract::id::ClientId::new);
        for id in &ids {
            world.store().end_client(id).unwrap();
        }
        world.restart("process 2");
        assert_eq!(world.store().ended_clients().unwrap(), ids[..2]);
    });
}
