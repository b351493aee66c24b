//! Users' own connections in the real program, against an authorization server of ours: how one is made and used, what nobody else gets of
//! it, and what becomes of it where the authorization server misbehaves.

mod authorization_server;
mod scene;

use crate::access::with;
use crate::code_changed::Service;
use crate::support::http::request;
use crate::support::program::{command, run};
use authorization_server::Mood;
use scene::{Scene, call, output_of};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

/// Every file below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

fn with_other_character(text: &str, at: usize) -> String {
    let other = if text[at..].starts_with('A') {
        'B'
    } else {
        'A'
    };
    format!("{}{other}{}", &text[..at], &text[at + 1..])
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

#[test]
fn a_user_connects_and_tools_act_for_that_user_alone_until_the_connection_ends() {
    let scene = Scene::open();
    let link = scene.invitation(&scene.ada, "a", "orders");
    assert!(scene.shop.state().served.is_empty());
    // The model knows that there is something to connect, and not where.
    let read = json!(scene.model.seen()).to_string();
    assert!(
        read.contains("have to connect Example Shop first"),
        "{read}"
    );
    assert!(!read.contains("/connections/start"), "{read}");

    // The link is nobody else's.
    for (shown, expected) in [(scene.bob.as_str(), 403), ("Bearer wlk_00", 403)] {
        assert_eq!(scene.get(shown, &link).status, expected);
    }
    let (page, cookie) = scene.depart(&scene.ada, &link);
    let returned = scene.shop.agree(&page, "ada");
    let answer = scene.arrive(&returned, &cookie);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let again = scene.arrive(&returned, &cookie);
    assert_eq!(again.status, 400, "{}", again.body);

    for text in ["orders", "script", "node", "python"] {
        let output = scene.output(&scene.ada, "a", text);
        assert_eq!(output["orders_of"], "ada", "{text}");
        scene.invitation(&scene.bob, "b", text);
    }
    assert_eq!(scene.shop.state().served, ["ada"; 4]);
    scene.connect(&scene.bob, "bob");
    assert_eq!(scene.output(&scene.bob, "b", "orders")["orders_of"], "bob");
    assert_eq!(scene.listed(&scene.ada)["connected"], true);

    let ended = request(
        &scene.address,
        "DELETE",
        "/api/connections/shop",
        &with(&scene.ada),
    );
    assert_eq!(ended.status, 200, "{}", ended.body);
    let ended = request(
        &scene.address,
        "DELETE",
        "/api/connections/shop",
        &with(&scene.ada),
    );
    assert_eq!(ended.status, 404, "{}", ended.body);
    assert_eq!(scene.listed(&scene.ada)["connected"], false);
    scene.wait_for_shop(|shop| shop.revoked == ["refresh-of-ada-number-0"]);
    scene.invitation(&scene.ada, "a", "orders");
    assert_eq!(scene.output(&scene.bob, "b", "orders")["orders_of"], "bob");

    // An operator sees them, and ends one while the server runs.
    let listed = run(command(scene.folder.path()).args(["connections", "list"]));
    assert!(
        listed.output.contains("shop  user user:bob") && !listed.output.contains("user:ada"),
        "{} {:?}",
        listed.output,
        listed.problems
    );
    // A command that calls a tool has no user, and does not try again.
    let called = run(command(scene.folder.path()).args(["call", "orders", "{}"]));
    assert!(
        called.output.contains("\"PERMANENT\"") && called.output.contains("windlass serve"),
        "{}",
        called.output
    );
    let revoke = ["connections", "revoke", "shop", "--user", "user:bob"];
    for code in [0, 1] {
        let revoked = run(command(scene.folder.path()).args(revoke));
        assert_eq!(revoked.code, code, "{:?}", revoked.problems);
    }
    assert_eq!(scene.shop.state().revoked.len(), 2);
    scene.invitation(&scene.bob, "b", "orders");
    scene.connect(&scene.ada, "ada");

    // Nothing that was written holds a token.
    let backup = scene.folder.path().join("backup.zip");
    let made = run(command(scene.folder.path())
        .args(["backup", "--data", "data"])
        .arg(&backup));
    assert_eq!(made.code, 0, "{:?}", made.problems);
    let mut archive = zip::ZipArchive::new(fs::File::open(&backup).unwrap()).unwrap();
    let mut written: Vec<(String, Vec<u8>)> = files(&scene.folder.path().join("data"))
        .into_iter()
        .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
        .collect();
    for number in 0..archive.len() {
        let mut file = archive.by_index(number).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        written.push((file.name().unwrap().into_owned(), bytes));
    }
    let is_of = |name: &str| written.iter().any(|(written, _)| written.contains(name));
    let kept =
        |(name, _): &&(String, Vec<u8>)| name.contains("connections/") && name.ends_with(".json");
    assert!(is_of("connections.key"));
    assert_eq!(
        written.iter().filter(kept).count(),
        2,
        "in the folder and in the backup"
    );
    let given = scene.shop.state().given.clone();
    scene.server.signal("-TERM");
    let (_, log) = scene.server.end();
    assert_eq!(log.matches("the token is").count(), 3, "{log}");
    written.push(("the log".to_owned(), log.into_bytes()));
    written.push((
        "what the model read".to_owned(),
        json!(scene.model.seen()).to_string().into_bytes(),
    ));
    for (name, bytes) in &written {
        for token in &given {
            assert!(!holds(bytes, token), "{name} holds {token}");
        }
    }
    let audit = fs::read_to_string(scene.folder.path().join("data/audit.jsonl")).unwrap();
    let changes: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["event"] == "tool_connection")
        .map(|line| {
            json!([
                line["userId"],
                line["connection"],
                line["change"],
                line["reason"]
            ])
        })
        .collect();
    assert_eq!(
        changes,
        [
            json!(["user:ada", "shop", "connected", null]),
            json!(["user:bob", "shop", "connected", null]),
            json!(["user:ada", "shop", "ended", "user"]),
            json!(["user:bob", "shop", "ended", "operator"]),
            json!(["user:ada", "shop", "connected", null]),
        ]
    );
}

#[test]
fn an_mcp_server_is_called_with_the_token_of_the_calls_own_user() {
    let scene = Scene::open();
    scene.invitation(&scene.ada, "a", "by the protocol");
    for (shown, user) in [(&scene.ada, "ada"), (&scene.bob, "bob")] {
        scene.connect(shown, user);
    }
    let ask = |shown: &str, user: &str, conversation: &str| {
        let output = scene.output(shown, conversation, "by the protocol");
        assert_eq!(output["orders_of"], user, "{output}");
    };
    for conversation in ["a1", "a2"] {
        ask(&scene.ada, "ada", conversation);
        ask(&scene.bob, "bob", conversation.replace('a', "b").as_str());
    }
    // A token that the server takes no more is refreshed for the same call.
    scene.shop.state().access.clear();
    ask(&scene.ada, "ada", "a3");
    assert_eq!(scene.shop.state().refreshes, 1);
    {
        let mut shop = scene.shop.state();
        shop.access.clear();
        shop.refresh.clear();
    }
    scene.invitation(&scene.ada, "a4", "by the protocol");
    assert_eq!(scene.listed(&scene.ada)["connected"], false);
}

#[test]
fn a_browser_that_comes_back_as_it_should_not_connects_nothing() {
    let scene = Scene::open();
    let link = scene.invitation(&scene.ada, "a", "orders");
    // A link that was changed is none.
    let changed = with_other_character(&link, 40);
    for bad in [&changed, "/connections/start", "/connections/start?link=x"] {
        assert_eq!(scene.get(&scene.ada, bad).status, 410, "{bad}");
    }
    let change = |change: &dyn Fn(&mut BTreeMap<String, String>), status: u16, what: &str| {
        let (page, cookie) = scene.depart(&scene.ada, &link);
        let mut returned = scene.shop.agree(&page, "ada");
        change(&mut returned);
        let answer = scene.arrive(&returned, &cookie);
        assert_eq!(answer.status, status, "{what}: {}", answer.body);
    };
    let set = |name: &'static str, value: String| {
        move |returned: &mut BTreeMap<String, String>| {
            returned.insert(name.to_owned(), value.clone());
        }
    };
    change(
        &|returned| {
            let state = returned.get_mut("state").unwrap();
            *state = with_other_character(state, 20);
        },
        400,
        "a state that was changed",
    );
    change(&set("state", String::new()), 400, "no state");
    change(
        &set("iss", "https://evil.example".to_owned()),
        400,
        "another issuer",
    );
    change(
        &|returned| drop(returned.remove("iss")),
        400,
        "no issuer, although the metadata promise one",
    );
    change(
        &set("code", "another".to_owned()),
        400,
        "a code of somebody else's",
    );
    change(&|returned| drop(returned.remove("code")), 400, "no code");
    change(
        &set("error", "access_denied".to_owned()),
        200,
        "the user declines",
    );
    // Another connection's server sends the browser back with it.
    let (page, cookie) = scene.depart(&scene.ada, &link);
    let returned = scene.shop.agree(&page, "ada");
    let query: Vec<String> = returned
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let answer = scene.arrive_at("desk", &query.join("&"), &cookie);
    assert_eq!(answer.status, 400, "{}", answer.body);
    // The state of one browser, and the cookie of another.
    let (page, _) = scene.depart(&scene.ada, &link);
    let (_, cookie) = scene.depart(&scene.ada, &link);
    let returned = scene.shop.agree(&page, "ada");
    assert_eq!(scene.arrive(&returned, &cookie).status, 400);
    // A link of another server.
    let elsewhere = Scene::open();
    let foreign = elsewhere.invitation(&elsewhere.ada, "a", "orders");
    assert_eq!(scene.get(&scene.ada, &foreign).status, 410);
    assert_eq!(scene.listed(&scene.ada)["connected"], false);
    assert!(scene.shop.state().given.is_empty());
}

#[test]
fn a_link_for_any_browser_connects_for_its_user_where_it_is_opened() {
    let scene = Scene::open_with("any_browser = true", "");
    let link = scene.invitation(&scene.ada, "a", "orders");
    let (page, _) = scene.depart(&scene.bob, &link);
    let returned = scene.shop.agree(&page, "ada");
    // The way back is that of the browser which opened it, here as well.
    assert_eq!(scene.arrive(&returned, "").status, 400);
    let (page, cookie) = scene.depart("Bearer wlk_00", &link);
    let returned = scene.shop.agree(&page, "ada");
    assert_eq!(scene.arrive(&returned, &cookie).status, 200);
    assert_eq!(scene.listed(&scene.ada)["connected"], true);
    assert_eq!(scene.listed(&scene.bob)["connected"], false);
}

#[test]
fn tokens_that_cannot_be_kept_are_taken_back() {
    let scene = Scene::open_with("", "[store]\nuser_connections_max = 1");
    scene.connect(&scene.ada, "ada");
    let link = scene.invitation(&scene.bob, "b", "orders");
    let (page, cookie) = scene.depart(&scene.bob, &link);
    let answer = scene.arrive(&scene.shop.agree(&page, "bob"), &cookie);
    assert_eq!(answer.status, 503, "{}", answer.body);
    let revoked = scene.shop.state().revoked.clone();
    assert_eq!(revoked.len(), 1, "{revoked:?}");
    assert!(revoked[0].starts_with("refresh-of-bob"), "{revoked:?}");
}

#[test]
fn an_end_by_another_process_ends_the_tokens_of_a_refresh_too() {
    let scene = Scene::open_with("answer_seconds = 60", "");
    scene.connect(&scene.ada, "ada");
    let barrier = Arc::new(Barrier::new(2));
    {
        let mut shop = scene.shop.state();
        shop.access.clear();
        shop.mood = Mood::Waits(barrier.clone());
    }
    let (address, ada) = (scene.address.as_str(), scene.ada.as_str());
    thread::scope(|scope| {
        let asked = scope.spawn(move || call(address, ada, "a", "orders"));
        barrier.wait();
        let revoke = ["connections", "revoke", "shop", "--user", "user:ada"];
        let revoked = run(command(scene.folder.path()).args(revoke));
        assert_eq!(revoked.code, 0, "{:?}", revoked.problems);
        barrier.wait();
        let chunks = asked.join().unwrap();
        let is_invited = chunks.iter().any(|chunk| chunk["type"] == "data-connect");
        assert!(is_invited, "{chunks:?}");
    });
    let revoked = scene.shop.state().revoked.clone();
    assert_eq!(
        revoked,
        ["refresh-of-ada-number-0", "refresh-of-ada-number-2"]
    );
    assert_eq!(scene.listed(&scene.ada)["connected"], false);
}

#[test]
fn a_token_endpoint_that_misbehaves_connects_nothing_and_holds_nobody_up() {
    let scene = Scene::open();
    let elsewhere = Service::open();
    let link = scene.invitation(&scene.ada, "a", "orders");
    for mood in [
        Mood::Hangs,
        Mood::Redirects(format!("http://127.0.0.1:{}/token", elsewhere.port)),
        Mood::Floods,
        Mood::Fails,
    ] {
        scene.shop.state().mood = mood.clone();
        let (page, cookie) = scene.depart(&scene.ada, &link);
        let answer = scene.arrive(&scene.shop.agree(&page, "ada"), &cookie);
        assert_eq!(answer.status, 502, "{mood:?}: {}", answer.body);
        assert_eq!(scene.listed(&scene.ada)["connected"], false, "{mood:?}");
    }
    assert_eq!(elsewhere.asked(), 0);

    // Of a connection that is there, nothing is lost by it.
    scene.shop.state().mood = Mood::Well;
    scene.connect(&scene.ada, "ada");
    {
        let mut shop = scene.shop.state();
        shop.access.clear();
        shop.mood = Mood::Fails;
    }
    let chunks = scene.call(&scene.ada, "a", "orders");
    let error = chunks
        .iter()
        .find(|chunk| chunk["type"] == "tool-output-error");
    let error = error.unwrap_or_else(|| panic!("{chunks:?}"));
    assert!(
        error["errorText"]
            .as_str()
            .unwrap()
            .starts_with("TRANSIENT: "),
        "{error}"
    );
    scene.shop.state().mood = Mood::Well;
    assert_eq!(scene.output(&scene.ada, "b", "orders")["orders_of"], "ada");
}

#[test]
fn ten_calls_at_once_refresh_once_and_the_new_refresh_token_is_kept() {
    const CALLS: usize = 10;
    let scene = Scene::open();
    scene.connect(&scene.ada, "ada");
    {
        let mut shop = scene.shop.state();
        shop.access.clear();
        shop.crowd = Some(Arc::new(Barrier::new(CALLS)));
    }
    let (address, ada) = (scene.address.as_str(), scene.ada.as_str());
    thread::scope(|scope| {
        let calls: Vec<_> = (0..CALLS)
            .map(|number| {
                scope.spawn(move || {
                    output_of(&call(address, ada, &format!("crowd-{number}"), "orders"))
                })
            })
            .collect();
        for call in calls {
            assert_eq!(call.join().unwrap()["orders_of"], "ada");
        }
    });
    assert_eq!(scene.shop.state().refreshes, 1);
    // The refresh token of before is spent; the next refresh needs the new one.
    for (keeps, refreshes) in [(true, 2), (false, 3)] {
        {
            let mut shop = scene.shop.state();
            shop.crowd = None;
            shop.keeps_refresh_token = keeps;
            shop.access.clear();
        }
        let conversation = format!("again-{refreshes}");
        assert_eq!(
            scene.output(&scene.ada, &conversation, "orders")["orders_of"],
            "ada"
        );
        assert_eq!(scene.shop.state().refreshes, refreshes);
    }
}

#[test]
fn consent_that_was_withdrawn_at_the_service_ends_the_connection() {
    let scene = Scene::open();
    scene.connect(&scene.ada, "ada");
    scene.connect(&scene.bob, "bob");
    {
        let mut shop = scene.shop.state();
        let is_others = |user: &String| *user != "ada";
        shop.access.retain(|_, user| is_others(user));
        shop.refresh.retain(|_, user| is_others(user));
    }
    // The first finds out, and the second one knows.
    for text in ["orders", "script"] {
        scene.invitation(&scene.ada, text, text);
    }
    assert_eq!(scene.listed(&scene.ada)["connected"], false);
    assert_eq!(scene.listed(&scene.bob)["connected"], true);
    assert_eq!(scene.output(&scene.bob, "b", "orders")["orders_of"], "bob");
    // It can be made anew.
    scene.connect(&scene.ada, "ada");
    assert_eq!(scene.output(&scene.ada, "a3", "orders")["orders_of"], "ada");
}
