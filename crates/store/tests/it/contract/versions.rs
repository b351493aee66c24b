//! Tools of one key across versions: a key that is made in another way recognises what was done.

use super::check;
use crate::ledger::conversation;
use crate::support::{World, ran, recorded, request};
use serde_json::json;
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::effect_key::KeySpec;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, Reply, Request};
use windlass_store::{AttemptOutcome, LegRef, StoreLimits};

/// A version's key of these arguments; all of them where none is named.
fn spec(names: &[&str], properties: &[&str]) -> Arc<KeySpec> {
    let properties = properties
        .iter()
        .map(|name| ((*name).to_owned(), json!({})));
    let parameters = json!({"properties": properties.collect::<serde_json::Map<_, _>>()});
    KeySpec::of(&parameters, names, &Arguments::none()).into()
}

fn asked(number: u64, leg: &LegRef, spec: &Arc<KeySpec>, arguments: &str) -> Command {
    let read: Arguments = serde_json::from_str(arguments).unwrap();
    let mut request = Request {
        arguments: Sensitive(arguments.to_owned()),
        effect_arguments: Sensitive(spec.exact(&read)),
        near_arguments: Sensitive(spec.near(&read)),
        ..request(number, leg)
    };
    request.tool.key_spec = spec.clone();
    Command::Request(Box::new(request))
}

const FIRST: &str = r#"{"order":2512292042121000001,"note":"quick"}"#;

/// Whether a second version recognises arguments after the first has done its own, and after a restart.
fn recognises(world: &mut World, versions: [&Arc<KeySpec>; 2], arguments: &str) -> bool {
    let talk = conversation(&format!("{versions:?} {arguments}"), "alice");
    let leg = world.attach(&talk, "leg");
    ran(world.send(&talk, asked(1, &leg, versions[0], FIRST)));
    world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
    world.restart("process 1");
    match world.send(&talk, asked(2, &leg, versions[1], arguments)) {
        Reply::Replay(_) => true,
        Reply::Run(_) => false,
        reply => panic!("{arguments}: {reply:?}"),
    }
}

#[test]
fn another_version_recognises_what_was_done() {
    let whole = spec(&[], &["order", "note"]);
    let named = spec(&["order"], &["order", "note"]);
    let other = spec(&["note"], &["order", "note"]);
    let larger = spec(&[], &["order", "note", "gift"]);
    check(|world| {
        for (versions, arguments, is_known) in [
            ([&whole, &named], FIRST, true),
            ([&named, &whole], FIRST, true),
            ([&named, &other], FIRST, true),
            // By the new key, whatever else is said; and by the old one.
            (
                [&whole, &named],
                r#"{"order":2512292042121000001,"note":"slow"}"#,
                true,
            ),
            (
                [&named, &whole],
                r#"{"order":2512292042121000001,"note":"slow"}"#,
                true,
            ),
            (
                [&whole, &larger],
                r#"{"order":2512292042121000001,"note":"quick","gift":true}"#,
                true,
            ),
            (
                [&whole, &named],
                r#"{"order":2512292042121000002,"note":"quick"}"#,
                false,
            ),
            (
                [&whole, &larger],
                r#"{"order":2512292042121000001,"note":"slow","gift":true}"#,
                false,
            ),
            (
                [&whole, &whole],
                r#"{"order":2512292042121000001,"note":"slow"}"#,
                false,
            ),
        ] {
            assert_eq!(
                recognises(world, versions, arguments),
                is_known,
                "{versions:?} {arguments}"
            );
        }
    });
}

#[test]
fn another_version_recognises_it_until_the_end_of_its_retention() {
    let whole = spec(&[], &["order", "note"]);
    let named = spec(&["order"], &["order", "note"]);
    check(|world| {
        let talk = conversation("days", "alice");
        let leg = world.attach(&talk, "leg");
        ran(world.send(&talk, asked(1, &leg, &whole, FIRST)));
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        // Others of the tool are written in between, by both versions.
        for (number, spec) in [(2, &named), (3, &whole)] {
            world.pass(StoreLimits::default().effect_ms / 3);
            world.prune();
            let leg = world.attach(&talk, &format!("leg {number}"));
            let arguments = format!("{{\"order\":{number},\"note\":\"quick\"}}");
            ran(world.send(&talk, asked(number, &leg, spec, &arguments)));
            world.send(&talk, recorded(number, AttemptOutcome::Succeeded));
        }
        world.pass(StoreLimits::default().effect_ms / 3 - 1_000);
        world.prune();
        let leg = world.attach(&talk, "last leg");
        let repeated = world.send(&talk, asked(4, &leg, &named, FIRST));
        assert!(!matches!(repeated, Reply::Run(_)), "{repeated:?}");
    });
}

#[test]
fn another_version_recognises_a_task_as_long_as_that_is_kept() {
    let whole = spec(&[], &["order", "note"]);
    let named = spec(&["order"], &["order", "note"]);
    check(|world| {
        let talk = conversation("task", "alice");
        let leg = world.attach(&talk, "leg");
        let mut begun = asked(1, &leg, &whole, FIRST);
        if let Command::Request(request) = &mut begun {
            request.tool.is_background = true;
        }
        ran(world.send(&talk, begun));
        world.send(&talk, recorded(1, AttemptOutcome::Succeeded));
        world.send(&talk, Command::Leave(leg));
        world.pass(3 * 24 * 3_600_000);
        world.prune();
        let leg = world.attach(&talk, "days later");
        let reply = world.send(&talk, asked(2, &leg, &named, FIRST));
        assert!(!matches!(reply, Reply::Run(_)), "{reply:?}");
    });
}
