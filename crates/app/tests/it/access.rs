//! Who comes in, as whom, and with which rights: API keys, tickets, the page's cookie, tenants and roles. Real servers and
//! sockets, and the command line that makes the keys.

use crate::chat::{chat, echo, question, words};
use crate::support::http::{HttpAnswer, get, post_with, request};
use crate::support::program::{command, run};
use crate::support::voice_client::VoiceClient;
use crate::voice::server;
use serde_json::{Value, json};
use std::path::Path;
use windlass_runtime::transport::websocket::ConnectError;

/// What one run of `windlass keys` prints.
fn keys(data: &Path, arguments: &[&str]) -> String {
    let done = run(command(data)
        .arg("keys")
        .args(arguments)
        .arg("--data")
        .arg(data));
    assert_eq!(done.code, 0, "{arguments:?} {:?}", done.problems);
    done.output.trim().to_owned()
}

/// The header that shows a key.
pub(crate) fn key(data: &Path, arguments: &[&str]) -> String {
    let arguments: Vec<&str> = [&["add"], arguments].concat();
    format!("Bearer {}", keys(data, &arguments))
}

fn json_of(answer: &HttpAnswer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("no JSON: {}", answer.body))
}

pub(crate) fn with(shown: &str) -> [(&str, &str); 1] {
    [("Authorization", shown)]
}

fn status(connected: Result<VoiceClient, ConnectError>) -> u16 {
    match connected {
        Ok(_) => 101,
        Err(ConnectError::Refused { status, .. }) => status,
        Err(error) => panic!("{error}"),
    }
}

/// What a ticket's request is answered with.
fn ask_ticket(address: &str, shown: &str, wanted: Value) -> (u16, Value) {
    let body = wanted.to_string();
    let answer = post_with(address, "/api/tickets", &with(shown), body.as_bytes());
    (answer.status, json_of(&answer))
}

fn ticket(address: &str, shown: &str, wanted: Value) -> String {
    let (status, answer) = ask_ticket(address, shown, wanted);
    assert_eq!(status, 200, "{answer}");
    answer["ticket"].as_str().unwrap().to_owned()
}

/// Opens a voice connection with a ticket, as a browser shows it.
async fn with_ticket(
    address: &str,
    ticket: &str,
    origin: &str,
) -> Result<VoiceClient, ConnectError> {
    let protocols = format!("windlass, ticket.{ticket}");
    let headers = [
        ("Origin", origin),
        ("Sec-WebSocket-Protocol", protocols.as_str()),
    ];
    VoiceClient::connect(address, &headers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_lets_in_until_it_is_revoked_and_then_ends_what_it_began() {
    let data = tempfile::tempdir().unwrap();
    let shop = key(data.path(), &["shop", "--role", "staff"]);
    let other = key(data.path(), &["other"]);
    let twice = run(command(data.path())
        .args(["keys", "add", "shop", "--data"])
        .arg(data.path()));
    assert_eq!(twice.code, 1);
    assert!(
        twice.problems[0].contains("already"),
        "{:?}",
        twice.problems
    );
    let (_server, address) = server(data.path(), &[]).await;

    for open in ["/", "/app.js", "/health", "/ready", "/api/session"] {
        assert_eq!(get(&address, open).status, 200, "{open}");
    }
    let guarded = [
        "/api/info",
        "/metrics",
        "/api/tools/stats",
        "/v1/models",
        "/assets/photo:deck",
        "/api/conversations",
        "/api/conversations/c",
        "/api/conversations/c/export",
        "/api/chat/c/stream",
        "/api/effects/e",
    ];
    for path in guarded {
        for shown in ["", "Bearer wlk_00", "Bearer wlt_00.00", "Bearer x.y.z"] {
            let headers = with(shown);
            let headers = match shown.is_empty() {
                true => &headers[..0],
                false => &headers,
            };
            let answer = request(&address, "GET", path, headers);
            assert_eq!(answer.status, 401, "{path} {shown}");
            let asks = answer.header("www-authenticate");
            assert_eq!(asks, Some("Bearer realm=\"windlass\""), "{path} {shown}");
        }
        let answer = request(&address, "GET", path, &with(&shop));
        assert!(
            matches!(answer.status, 200 | 204 | 404),
            "{path} {}",
            answer.status
        );
    }
    let both = [("Authorization", shop.as_str()), ("Authorization", &other)];
    assert_eq!(request(&address, "GET", "/api/info", &both).status, 401);
    for path in [
        "/api/chat",
        "/api/confirm",
        "/v1/chat/completions",
        "/api/tickets",
    ] {
        assert_eq!(post_with(&address, path, &[], b"{}").status, 401, "{path}");
    }
    assert_eq!(status(VoiceClient::connect(&address, &[]).await), 401);

    let mut client = VoiceClient::connect(&address, &with(&shop)).await.unwrap();
    client.send(json!({"type": "start"})).await;
    client.expect("started").await;
    let mut stays = VoiceClient::connect(&address, &with(&other)).await.unwrap();
    stays.send(json!({"type": "start"})).await;
    stays.expect("started").await;
    assert!(keys(data.path(), &["revoke", "shop"]).contains("revoked shop"));
    assert_eq!(client.expect("error").await["code"], "unauthorized");
    client.expect_close().await;
    let answer = request(&address, "GET", "/api/info", &with(&shop));
    assert_eq!(answer.status, 401);
    stays.say("Thank you").await;
    stays.expect("turn_complete").await;
    for format in ["text", "json"] {
        let listed = keys(data.path(), &["list", "--format", format]);
        assert!(
            listed.contains("other") && !listed.contains("shop"),
            "{listed}"
        );
        assert!(!listed.contains(&other["Bearer ".len()..]), "{listed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_lets_one_browser_in_once_as_whom_it_names() {
    let data = tempfile::tempdir().unwrap();
    let shop = key(data.path(), &["shop", "--role", "staff"]);
    let ada = key(data.path(), &["ada", "--user", "ada"]);
    let (_server, address) = server(data.path(), &[]).await;
    let own = format!("http://{address}");

    let voice = json!({"user": "ada", "mode": "voice", "origin": own});
    let first = ticket(&address, &shop, voice.clone());
    let mut client = with_ticket(&address, &first, &own).await.unwrap();
    client
        .send(json!({"type": "start", "conversationId": "c", "userId": "eve"}))
        .await;
    let connected = client.expect("connected").await;
    assert_eq!(connected["clientId"], "user:ada");
    client.expect("started").await;
    assert_eq!(
        status(with_ticket(&address, &first, &own).await),
        401,
        "used"
    );
    let elsewhere = json!({"mode": "voice", "origin": "https://shop.example"});
    for wanted in [json!({"mode": "text"}), elsewhere] {
        let ticket = ticket(&address, &shop, wanted.clone());
        let connected = with_ticket(&address, &ticket, &own).await;
        assert_eq!(status(connected), 401, "{wanted}");
    }
    // Another user's conversation stays another user's.
    let eve = ticket(&address, &shop, json!({"user": "eve"}));
    let shown = format!("Bearer {eve}");
    let body = json!({"id": "c", "message": "Who?", "userId": "ada"}).to_string();
    let answer = post_with(&address, "/api/chat", &with(&shown), body.as_bytes());
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert_eq!(json_of(&answer)["error"]["code"], "foreign_conversation");

    for (shown, wanted, expected) in [
        (ada.as_str(), json!({}), 200),
        (&ada, json!({"user": "ada"}), 200),
        (&ada, json!({"user": "eve"}), 403),
        (&ada, json!({"roles": ["staff"]}), 403),
        (&shop, json!({"roles": ["staff"]}), 200),
        (&shop, json!({"roles": []}), 200),
        (&shop, json!({"user": ""}), 400),
        (&shop, json!({"usr": "ada"}), 400),
        (&shop, json!({"mode": "both"}), 400),
    ] {
        let (status, answer) = ask_ticket(&address, shown, wanted.clone());
        assert_eq!(status, expected, "{wanted} {answer}");
    }
    let shown = format!("Bearer {}", ticket(&address, &shop, json!({})));
    assert_eq!(
        ask_ticket(&address, &shown, json!({})).0,
        403,
        "by a ticket"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_stays_signed_in_by_a_cookie_that_ends_with_its_key() {
    let data = tempfile::tempdir().unwrap();
    let shop = key(data.path(), &["shop"]);
    let (_server, address) = server(data.path(), &[]).await;
    let session =
        |headers: &[(&str, &str)]| json_of(&request(&address, "GET", "/api/session", headers));
    let state = session(&[]);
    assert_eq!(
        (&state["required"], &state["signedIn"]),
        (&json!(true), &json!(false))
    );
    let shown = format!("Bearer {}", ticket(&address, &shop, json!({"user": "ada"})));
    let foreign = [
        ("Authorization", shown.as_str()),
        ("Origin", "http://evil.example"),
    ];
    assert_eq!(
        post_with(&address, "/api/session", &foreign, b"").status,
        403
    );
    let signed_in = post_with(&address, "/api/session", &with(&shown), b"");
    assert_eq!(signed_in.status, 200, "{}", signed_in.body);
    let cookie = signed_in.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let headers = [("Cookie", cookie)];
    assert_eq!(session(&headers)["signedIn"], true);
    assert_eq!(request(&address, "GET", "/api/info", &headers).status, 200);
    let mut client = VoiceClient::connect(&address, &headers).await.unwrap();
    client.send(json!({"type": "start"})).await;
    assert_eq!(client.expect("connected").await["clientId"], "user:ada");
    client.expect("started").await;
    let (used, _) = ask_ticket(&address, &shown, json!({}));
    assert_eq!(used, 401, "its ticket is used up");
    let out = request(&address, "DELETE", "/api/session", &headers);
    assert!(
        out.header("set-cookie")
            .unwrap()
            .starts_with("windlass_page=; ")
    );
    // A copy of the cookie counts no more than the browser's, also after a restart.
    assert_eq!(session(&headers)["signedIn"], false);
    assert_eq!(request(&address, "GET", "/api/info", &headers).status, 401);
    keys(data.path(), &["revoke", "shop"]);
    assert_eq!(client.expect("error").await["code"], "unauthorized");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_signed_out_stays_so_after_a_restart_and_others_stay_signed_in() {
    let data = tempfile::tempdir().unwrap();
    let shop = key(data.path(), &["shop"]);
    let (server_before, address) = server(data.path(), &[]).await;
    let sign_in = |user: &str| {
        let shown = format!(
            "Bearer {}",
            ticket(&address, &shop, json!({ "user": user }))
        );
        let signed_in = post_with(&address, "/api/session", &with(&shown), b"");
        let cookie = signed_in.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    };
    let cookies = [sign_in("ada"), sign_in("eve")];
    let is_in = |address: &str, cookie: &str| {
        request(address, "GET", "/api/info", &[("Cookie", cookie)]).status == 200
    };
    assert!(cookies.iter().all(|cookie| is_in(&address, cookie)));
    request(
        &address,
        "DELETE",
        "/api/session",
        &[("Cookie", &cookies[0])],
    );
    server_before.shut_down().await;
    let (_server, address) = server(data.path(), &[]).await;
    let are_in = cookies.each_ref().map(|cookie| is_in(&address, cookie));
    assert_eq!(are_in, [false, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_share_no_conversation_and_no_user() {
    let chat = chat(echo, &[]).await;
    let data = chat.data.path();
    let tenants = ["acme", "zeta"].map(|tenant| key(data, &[tenant, "--tenant", tenant]));
    let path = "/api/conversations/c?userId=ada";
    let ask = |shown: &str, text: &str| {
        let body = json!({"id": "c", "userId": "ada", "message": text}).to_string();
        // Keys that were made while the server runs are seen within seconds.
        loop {
            let answer = post_with(&chat.address, "/api/chat", &with(shown), body.as_bytes());
            if answer.status != 401 {
                return answer;
            }
        }
    };
    for shown in &tenants {
        assert_eq!(words(&ask(shown, "Who?")), "It is me.");
    }
    assert_eq!(words(&ask(&tenants[1], "And you?")), "Yes.");
    let of = |shown: &str| {
        let shown = request(&chat.address, "GET", path, &with(shown));
        let entries = json_of(&shown)["messages"].as_array().unwrap().len();
        (shown.status, entries)
    };
    assert_eq!(
        tenants.each_ref().map(|shown| of(shown)),
        [(200, 2), (200, 4)]
    );
    let outside = get(&chat.address, path);
    assert_eq!(outside.status, 404, "{}", outside.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_offered_documented_and_run_for_its_roles_alone() {
    let chat = chat(echo, &[("tools.kb_search.roles", "staff")]).await;
    let data = chat.data.path();
    let guest = key(data, &["guest", "--user", "gus"]);
    let staff = key(data, &["staff", "--user", "ada", "--role", "staff"]);
    let ask = |headers: &[(&str, &str)], id: &str| {
        let body = json!({"id": id, "message": "Search."}).to_string();
        loop {
            let answer = post_with(&chat.address, "/api/chat", headers, body.as_bytes());
            if answer.status != 401 {
                return answer;
            }
        }
    };
    let (guest, staff) = (with(&guest), with(&staff));
    for (headers, id, expected) in [
        (&[][..], "nobody", Some("is for users who have signed in")),
        (&guest, "guest", Some("is not for this user")),
        (&staff, "staff", None),
    ] {
        let requests = chat.model.seen().len();
        let answer = ask(headers, id);
        let seen = chat.model.seen();
        let first = &seen[requests];
        assert_eq!(
            first["tools"].to_string().contains("\"kb_search\""),
            expected.is_none(),
            "{id}"
        );
        let instruction = first["messages"][0]["content"].to_string();
        let is_documented = instruction.contains("## kb_search\\n");
        assert_eq!(is_documented, expected.is_none(), "{id} {instruction}");
        let told = seen[requests + 1]["messages"].to_string();
        match expected {
            Some(refusal) => assert!(told.contains("AUTH") && told.contains(refusal), "{told}"),
            None => assert!(answer.body.contains("Found."), "{}", answer.body),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_for_those_who_have_the_role() {
    let settings = [
        ("tools.kb_search.requires_confirmation", "true"),
        ("tools.kb_search.approver_roles", "manager"),
    ];
    let chat = chat(echo, &settings).await;
    let data = chat.data.path();
    let staff = key(data, &["staff", "--user", "ada", "--role", "staff"]);
    let other = key(data, &["other", "--user", "bob", "--role", "staff"]);
    let foreign = key(
        data,
        &[
            "foreign", "--user", "max", "--role", "manager", "--tenant", "acme",
        ],
    );
    let manager = key(data, &["manager", "--user", "max", "--role", "manager"]);
    let body = json!({"id": "c", "message": "Search."}).to_string();
    let asked = loop {
        let asked = post_with(&chat.address, "/api/chat", &with(&manager), b"{}");
        if asked.status != 401 {
            break post_with(&chat.address, "/api/chat", &with(&staff), body.as_bytes());
        }
    };
    let token = question(&asked)["token"].clone();
    for (shown, code) in [
        (staff.as_str(), "AUTH"),
        (&other, "CONFIRMATION_EXPIRED"),
        (&foreign, "CONFIRMATION_EXPIRED"),
        (&manager, ""),
    ] {
        let body = json!({"conversationId": "c", "token": token, "approved": true}).to_string();
        let said = post_with(&chat.address, "/api/confirm", &with(shown), body.as_bytes());
        let said = json_of(&said);
        assert_eq!(
            said["error"]["code"].as_str().unwrap_or_default(),
            code,
            "{said}"
        );
        assert_eq!(said["ok"], code.is_empty(), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_let_in_where_nobody_could_sign_in() {
    let data = tempfile::tempdir().unwrap();
    let serve = |arguments: &[&str], auth: &str| {
        run(command(data.path())
            .env("WINDLASS_ACCESS_AUTH", auth)
            .arg("serve")
            .args(arguments)
            .arg("--data")
            .arg(data.path().join("data"))
            .args(crate::support::program::folders(&data.path().join("data"))[..4].iter()))
    };
    for (arguments, auth, expected) in [
        (
            &["--listen", "127.0.0.1:0"][..],
            "required",
            "nobody could sign in",
        ),
        (
            &["--listen", "0.0.0.0:0"],
            "auto",
            "others could reach 0.0.0.0:",
        ),
        (&["--listen", "[::]:0"], "auto", "others could reach [::]:"),
        (
            &["--listen", "0.0.0.0:0"],
            "none",
            "access.auth is \"none\"",
        ),
    ] {
        let refused = serve(arguments, auth);
        assert_eq!(refused.code, 1, "{auth}");
        assert!(
            refused.problems.join(" ").contains(expected),
            "{auth} {:?}",
            refused.problems
        );
    }
    keys(&data.path().join("data"), &["add", "shop"]);
    let refused = serve(&["--listen", "0.0.0.0:0"], "none");
    assert_eq!(
        refused.code, 1,
        "a key helps nobody who is not asked for one"
    );
}
