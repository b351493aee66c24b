//! The knowledge base in a server that runs: changes are taken up, namespaces keep their readers, pictures are shown.

use crate::chat::{chat, echo};
use crate::knowledge::{HULL, place};
use crate::support::http::{get, request};
use crate::support::program::{Running, command};
use crate::support::voice_client::VoiceClient;
use crate::support::{config, root};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};
use windlass_app::server::{Setup, start};

/// How long what must come may take; only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program with the tools of this repository and a folder's own records.
fn serve(folder: &std::path::Path) -> Running {
    let tools = root().join("tools").display().to_string();
    Running::start(command(folder).args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--tools",
        &tools,
        "--kb",
        "kb",
        "--data",
        "data",
    ]))
}

#[test]
fn a_server_takes_up_what_changes_in_the_folder() {
    let folder = place(None);
    let mut server = serve(folder.path());
    server.expect_log("knowledge base read records=1");
    // The line comes once everything runs, the watch among it.
    server.address();
    let records = folder.path().join("kb/public/doc");
    fs::write(
        records.join("sails.md"),
        HULL.replace("The hull", "The sails"),
    )
    .unwrap();
    server.expect_log("knowledge base read records=2");
    fs::write(records.join("sails.md"), "---\nbroken").unwrap();
    server.expect_log("a record was left out problem=public/doc/sails.md:1: ");
    server.expect_log("knowledge base read records=1");
    fs::remove_file(records.join("sails.md")).unwrap();
    server.expect_log("knowledge base read records=1");
}

/// As the user sees it: in one conversation, with the program as it is shipped, and without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_shows_in_a_conversation_that_goes_on() {
    let folder = place(None);
    let mut server = serve(folder.path());
    server.expect_log("knowledge base read records=1");
    let address = server.address();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    let record = folder.path().join("kb/public/doc/hull.md");
    for id in ["doc:larch", "doc:elm", "doc:oak"] {
        let text = HULL.replace("type: doc", &format!("id: {id}\ntype: doc"));
        fs::write(&record, text).unwrap();
        // The log has it once it is served; one edit may be heard of twice.
        loop {
            tokio::task::block_in_place(|| server.expect_log("knowledge base read records=1"));
            client
                .say(&format!("call kb_get {{\"id\": \"{id}\"}}"))
                .await;
            if client.expect("tool_call_finished").await["ok"] == true {
                break;
            }
        }
    }
    // What it was before is gone.
    client.say("call kb_get {\"id\": \"doc:elm\"}").await;
    assert_eq!(client.expect("tool_call_finished").await["ok"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_conversations_are_told_of_types_and_namespaces_that_are_new() {
    let folder = place(None);
    let records = folder.path().join("kb");
    let path = records.display().to_string();
    let settings = [
        ("folders.knowledge", path.as_str()),
        ("knowledge.namespaces.crew.readers", "everybody"),
    ];
    let chat = chat(echo, &settings).await;
    let declared = || {
        chat.ask(&json!({"message": "Who?"}));
        let tools = chat.model.seen().pop().unwrap()["tools"].clone();
        let mut tools = tools.as_array().unwrap().iter();
        let search = tools.find(|tool| tool["function"]["name"] == "kb_search");
        let parameters = &search.unwrap()["function"]["parameters"]["properties"];
        (
            parameters["filters"]["properties"]["type"]["enum"].clone(),
            parameters["namespace"]["enum"].clone(),
        )
    };
    assert_eq!(declared(), (json!(["doc"]), json!(["public"])));
    fs::create_dir_all(records.join("crew/ship")).unwrap();
    let ship = HULL.replace("doc", "ship").replace("The hull", "Gjøa");
    fs::write(records.join("crew/ship/gjoa.md"), ship).unwrap();
    let begun = Instant::now();
    while declared() != (json!(["doc", "ship"]), json!(["crew", "public"])) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", declared());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Also one of the same name, which is another folder, is watched from then on.
#[test]
fn a_folder_that_is_away_leaves_the_base_as_it_was_until_it_is_back() {
    let folder = place(None);
    let mut server = serve(folder.path());
    server.expect_log("knowledge base read records=1");
    server.address();
    let (base, away) = (folder.path().join("kb"), folder.path().join("away"));
    fs::rename(&base, &away).unwrap();
    server.expect_log("the knowledge base stays as it was");
    fs::rename(&away, &base).unwrap();
    server.expect_log("knowledge base read records=1");
    let sails = HULL.replace("The hull", "The sails");
    fs::write(base.join("public/doc/sails.md"), sails).unwrap();
    server.expect_log("knowledge base read records=2");

    fs::rename(base.join("public"), &away).unwrap();
    server.expect_log("the folder holds no records: the knowledge base stays as it was");
    fs::rename(&away, base.join("public")).unwrap();
    server.expect_log("knowledge base read records=2");
}

/// As releases are put in place: by one link that is pointed at the next.
#[test]
fn a_link_to_the_folder_that_is_pointed_elsewhere_is_followed() {
    let folder = place(None);
    let path = |name: &str| folder.path().join(name);
    let write = |base: &str, title: &str| {
        let records = path(base).join("public/doc");
        fs::create_dir_all(&records).unwrap();
        let text = HULL.replace("The hull", title);
        fs::write(records.join(format!("{title}.md")), text).unwrap();
    };
    fs::create_dir(path("first")).unwrap();
    fs::rename(path("kb"), path("first/base")).unwrap();
    write("second/base", "Sails");
    write("second/base", "Masts");
    symlink("first", path("current")).unwrap();
    symlink("current/base", path("kb")).unwrap();
    let mut server = serve(folder.path());
    server.expect_log("knowledge base read records=1");
    server.address();

    symlink("second", path("next")).unwrap();
    fs::rename(path("next"), path("current")).unwrap();
    server.expect_log("knowledge base read records=2");
    write("second/base", "Decks");
    server.expect_log("knowledge base read records=3");

    fs::remove_file(path("kb")).unwrap();
    symlink("first/base", path("kb")).unwrap();
    server.expect_log("knowledge base read records=1");
    write("first/base", "Keels");
    server.expect_log("knowledge base read records=2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_for_signed_in_users_is_there_for_whom_the_proxy_names() {
    let folder = place(None);
    let staff = folder.path().join("kb/staff/doc");
    fs::create_dir_all(&staff).unwrap();
    fs::write(
        staff.join("wages.md"),
        HULL.replace("The hull", "The wages"),
    )
    .unwrap();
    let records = folder.path().join("kb").display().to_string();
    let config = config(
        &folder.path().join("data"),
        &[
            ("folders.knowledge", &records),
            ("server.user_header", "X-Forwarded-User"),
            ("knowledge.namespaces.staff.readers", "signed_in"),
        ],
    );
    let setup = Setup {
        config,
        handlers: windlass_handlers::builtin(),
        watch: false,
    };
    let server = start(setup).await.unwrap();
    let address = server.address().to_string();
    for (headers, claim, may_read) in [
        (&[("x-forwarded-user", "ada")][..], None, true),
        (&[("x-forwarded-user", "ada")], Some("eve"), true),
        (&[], None, false),
        (&[], Some("user:ada"), false),
        (
            &[("x-forwarded-user", "ada"), ("x-forwarded-user", "eve")],
            None,
            false,
        ),
    ] {
        let mut client = VoiceClient::connect(&address, headers).await.unwrap();
        client.send(json!({"type": "start", "userId": claim})).await;
        client.expect("started").await;
        client
            .say("call kb_get {\"id\": \"doc:wages\", \"namespace\": \"staff\"}")
            .await;
        let finished = client.expect("tool_call_finished").await;
        assert_eq!(finished["ok"], may_read, "{headers:?} {claim:?} {finished}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_photo_reaches_the_page_and_its_file_can_be_fetched() {
    let folder = place(None);
    let path = |name: &str| folder.path().join("kb").join(name);
    fs::create_dir_all(path("photos")).unwrap();
    fs::write(path("photos/deck.png"), b"\x89PNG").unwrap();
    fs::write(folder.path().join("secret.png"), b"secret").unwrap();
    symlink(folder.path().join("secret.png"), path("photos/link.png")).unwrap();
    let photo = |id: &str, namespace: &str, file: &str| json!({"id": format!("photo:{id}"), "namespace": namespace, "title": id, "file": file, "body": "In winter."});
    let photos = json!([
        photo("deck", "public", "photos/deck.png"),
        photo("link", "public", "photos/link.png"),
        photo("gone", "public", "photos/gone.png"),
        photo("record", "public", "public/doc/hull.md"),
        photo("wages", "staff", "photos/deck.png"),
    ]);
    fs::write(path("photos.json"), photos.to_string()).unwrap();
    let records = path("").display().to_string();
    let config = config(
        &folder.path().join("data"),
        &[
            ("folders.knowledge", &records),
            ("server.user_header", "X-Forwarded-User"),
            ("knowledge.namespaces.staff.readers", "signed_in"),
        ],
    );
    let setup = Setup {
        config,
        handlers: windlass_handlers::builtin(),
        watch: false,
    };
    let server = start(setup).await.unwrap();
    let address = server.address().to_string();
    let (mut client, _) = VoiceClient::start(&address, json!({"type": "start"})).await;
    client.say("call kb_get {\"id\": \"photo:deck\"}").await;
    let image = client.expect("image").await;
    assert_eq!(
        (&image["url"], &image["caption"]),
        (&json!("/assets/photo:deck"), &json!("deck"))
    );
    let said = loop {
        let said = client.expect("transcript").await;
        if said["role"] == "assistant" && said["final"] == true {
            break said;
        }
    };
    let shown = json!([{"url": "/assets/photo:deck", "caption": "deck"}]);
    assert_eq!(said["images"], shown, "{said}");
    let found = get(&address, "/assets/photo:deck");
    assert_eq!((found.status, found.body.as_str()), (200, "\u{fffd}PNG"));
    for id in ["link", "gone", "record", "wages", "none", "..%2fsecret.png"] {
        assert_eq!(
            get(&address, &format!("/assets/photo:{id}")).status,
            404,
            "{id}"
        );
    }
    assert_eq!(get(&address, "/assets/doc:hull").status, 404);
    let signed_in = [("x-forwarded-user", "ada")];
    let wages = request(&address, "GET", "/assets/photo:wages", &signed_in);
    assert_eq!(wages.status, 200);
    assert!(
        wages
            .header("cache-control")
            .is_some_and(|caching| caching.starts_with("private")),
    );
}
