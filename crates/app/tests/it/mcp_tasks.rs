//! Calls of MCP clients that run in the background: a handle at once, the end from the task, for the caller alone, and once however often
//! the call comes. Real sockets.

use crate::access::key;
use crate::mcp_server::{Scene, answered, code, consent, forms, scene, scene_with, yes};
use crate::support::change::FAILS;
use crate::support::http::HttpAnswer;
use crate::support::mcp_client::{Headers, STATELESS, message, post, read, send};
use serde_json::{Value, json};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Between two looks at a task: an address may ask only so often.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The capabilities of a client that takes tasks.
pub(crate) fn tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn tasks_and_forms() -> Value {
    let mut both = tasks();
    both["elicitation"] = forms()["elicitation"].clone();
    both
}

fn background(more: Value) -> Value {
    let mut tool = json!({"behavior": "background"});
    let Value::Object(more) = more else {
        panic!("fields are an object");
    };
    tool.as_object_mut().unwrap().extend(more);
    tool
}

fn reading() -> Value {
    background(json!({"sideEffects": "read_only", "category": "utility"}))
}

/// A request about a task, by a client that takes tasks.
pub(crate) fn about(
    address: &str,
    headers: Headers<'_>,
    method: &str,
    params: Value,
) -> HttpAnswer {
    send(address, headers, &message(3, method, params, &tasks()))
}

pub(crate) fn get(address: &str, id: &str) -> Value {
    let answer = read(&about(address, &[], "tasks/get", json!({"taskId": id})));
    let result = &answer["result"];
    assert_eq!(result["taskId"], id, "{answer}");
    assert_eq!(result["resultType"], "complete", "{answer}");
    result.clone()
}

fn cancel(address: &str, id: &str) -> Value {
    read(&about(address, &[], "tasks/cancel", json!({"taskId": id})))
}

/// The task once it stands there.
pub(crate) fn until(address: &str, id: &str, status: &str) -> Value {
    loop {
        let task = get(address, id);
        if task["status"] == status {
            return task;
        }
        assert_eq!(task["status"], "working", "{task}");
        thread::sleep(LOOK_PAUSE);
    }
}

/// The id in the handle of a task.
pub(crate) fn id_of(handle: &Value) -> String {
    assert_eq!(handle["resultType"], "task", "{handle}");
    for member in [
        "result",
        "error",
        "inputRequests",
        "requestState",
        "content",
    ] {
        assert_eq!(handle.get(member), None, "{member} {handle}");
    }
    handle["taskId"].as_str().unwrap().to_owned()
}

/// Has a task begun by `change`.
fn begin(scene: &Scene, what: &str) -> String {
    id_of(&scene.change(&[], json!({"arguments": {"what": what}}), &tasks()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_the_background_gets_a_handle_and_its_end_is_in_the_task() {
    for tool in [background(json!({})), reading()] {
        let scene = scene(tool.clone(), &[]).await;
        scene.changes.hold();
        let handle = scene.change(&[], json!({"arguments": {"what": "one"}}), &tasks());
        let id = id_of(&handle);
        assert_eq!(handle["status"], "working", "{handle}");
        assert_eq!(handle["ttlMs"], Value::Null, "it is kept while it runs");
        assert!(handle["pollIntervalMs"].as_u64().unwrap() >= 1_000);
        let task = get(&scene.address, &id);
        for same in ["status", "createdAt", "ttlMs"] {
            assert_eq!(task[same], handle[same], "{task}");
        }
        // The handle may have been lost: the same call, under another id or a number of times, is the same task.
        for _ in 0..3 {
            assert_eq!(begin(&scene, "one"), id);
        }
        scene.changes.until_begun(1).await;
        scene.changes.let_go();
        let ended = until(&scene.address, &id, "completed");
        let result = &ended["result"];
        assert_eq!(
            result["structuredContent"],
            json!({"done": true}),
            "{tool} {ended}"
        );
        assert_eq!(result.get("isError"), None, "{ended}");
        let kept_ms = ended["ttlMs"].as_u64().unwrap();
        assert!(kept_ms >= 7 * 24 * 60 * 60 * 1_000, "{ended}");
        assert_eq!(ended.get("pollIntervalMs"), None, "{ended}");
        assert_eq!(get(&scene.address, &id), ended);
        assert_eq!(scene.changes.made(), ["one"], "{tool}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_has_ended_in_the_background_is_not_made_again() {
    let scene = scene(background(json!({})), &[]).await;
    let id = begin(&scene, "one");
    until(&scene.address, &id, "completed");
    let again = scene.change(&[], json!({"arguments": {"what": "one"}}), &tasks());
    assert_eq!(
        again["structuredContent"],
        json!({"done": true}),
        "what is done has a result and needs no handle: {again}"
    );
    assert_eq!(again["_meta"]["dev.windlass/replayed"], true);
    assert_eq!(scene.changes.made(), ["one"]);
    // A key of its own says that it is meant, and names the same task each time.
    scene.changes.hold();
    let meta = json!({"dev.windlass/idempotency-key": "k"});
    let keyed = json!({"arguments": {"what": "one"}, "_meta": meta});
    let other = id_of(&scene.change(&[], keyed.clone(), &tasks()));
    assert_ne!(other, id);
    assert_eq!(id_of(&scene.change(&[], keyed, &tasks())), other);
    let reused =
        json!({"arguments": {"what": "two"}, "_meta": {"dev.windlass/idempotency-key": "k"}});
    assert_eq!(code(&scene.change(&[], reused, &tasks())), "CONFLICT");
    scene.changes.let_go();
    until(&scene.address, &other, "completed");
    assert_eq!(scene.changes.made(), ["one", "one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_tasks_waits_for_the_end_and_learns_nothing_of_tasks() {
    let scene = scene(background(json!({})), &[]).await;
    let result = scene.change(&[], json!({"arguments": {"what": "one"}}), &json!({}));
    assert_eq!(result["structuredContent"], json!({"done": true}));
    assert_eq!(result["resultType"], "complete");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": "e-1", "inputResponses": {}});
        let refused = send(&scene.address, &[], &message(1, method, params, &json!({})));
        assert_eq!(refused.status, 400, "{method}");
        let error = read(&refused)["error"].clone();
        assert_eq!(error["code"], -32021, "{method}");
        let needed = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        assert_eq!(error["data"]["requiredCapabilities"], needed, "{method}");
    }
    // What the extension has given up, nobody gets.
    for method in ["tasks/result", "tasks/list"] {
        let refused = about(&scene.address, &[], method, json!({"taskId": "e-1"}));
        let answer = (refused.status, read(&refused)["error"]["code"].clone());
        assert_eq!(answer, (404, json!(-32601)), "{method}");
    }
    let discovered = scene.ask("server/discover", json!({}))["result"].clone();
    assert_eq!(
        discovered["capabilities"]["extensions"],
        json!({"io.modelcontextprotocol/tasks": {}})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_callers_task_is_as_unknown_as_one_that_never_was() {
    let keys = |data: &Path| ["ada", "eve"].map(|name| key(data, &[name, "--user", name]));
    let (scene, [ada, eve]) = scene_with(background(json!({})), &[], keys).await;
    let (ada, eve) = ([("Authorization", &*ada)], [("Authorization", &*eve)]);
    scene.changes.hold();
    let id = id_of(&scene.change(&ada, json!({"arguments": {"what": "one"}}), &tasks()));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let ask = |headers: Headers<'_>, id: &str| {
            let params = json!({"taskId": id, "inputResponses": {}});
            let answer = about(&scene.address, headers, method, params);
            (answer.status, read(&answer))
        };
        let unknown = ask(&eve, "e-none");
        assert_eq!(unknown.1["error"]["code"], -32602, "{method}");
        assert_eq!(ask(&eve, &id), unknown, "{method}");
        assert_eq!(ask(&eve, "../../etc"), unknown, "{method}");
    }
    let params = json!({"taskId": id});
    let hers = read(&about(&scene.address, &ada, "tasks/get", params));
    assert_eq!(hers["result"]["status"], "working", "{hers}");
    assert_eq!(
        hers["result"].get("statusMessage"),
        None,
        "nobody wanted it stopped"
    );
    // The same call of another caller is a task of their own.
    let own = id_of(&scene.change(&eve, json!({"arguments": {"what": "one"}}), &tasks()));
    assert_ne!(own, id);
    scene.changes.let_go();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_about_a_task_that_says_too_little_is_refused() {
    let scene = scene(background(json!({})), &[]).await;
    scene.changes.hold();
    let id = begin(&scene, "one");
    for (method, params) in [
        ("tasks/get", json!({})),
        ("tasks/get", json!({"taskId": 1})),
        ("tasks/update", json!({"taskId": id})),
        ("tasks/update", json!({"taskId": id, "inputResponses": []})),
        ("tasks/cancel", json!({})),
    ] {
        let refused = about(&scene.address, &[], method, params.clone());
        let code = read(&refused)["error"]["code"].clone();
        assert_eq!(code, -32602, "{method} {params}");
    }
    let elsewhere = [
        ("MCP-Protocol-Version", STATELESS),
        ("Mcp-Method", "tasks/get"),
        ("Mcp-Name", "e-other"),
    ];
    let body = message(1, "tasks/get", json!({"taskId": id}), &tasks());
    let refused = post(&scene.address, &elsewhere, &body);
    assert_eq!(refused.status, 400);
    assert_eq!(read(&refused)["error"]["code"], -32020);
    // Nothing is asked while a task runs, so that an answer is one to nothing.
    let params = json!({"taskId": id, "inputResponses": {"k": {"action": "accept"}}});
    let answer = read(&about(&scene.address, &[], "tasks/update", params));
    is_acknowledged(&answer);
    scene.changes.let_go();
}

/// Whether a request was taken, without a word on the task.
fn is_acknowledged(answer: &Value) {
    let result = answer["result"]
        .as_object()
        .unwrap_or_else(|| panic!("{answer}"));
    let members: Vec<&String> = result.keys().collect();
    assert_eq!(members, ["_meta", "resultType"], "{answer}");
    assert_eq!(result["resultType"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_that_reads_is_stopped_and_a_change_goes_on() {
    let scene_of_reads = scene(reading(), &[]).await;
    scene_of_reads.changes.hold();
    let id = begin(&scene_of_reads, "one");
    scene_of_reads.changes.until_begun(1).await;
    is_acknowledged(&cancel(&scene_of_reads.address, &id));
    let ended = until(&scene_of_reads.address, &id, "cancelled");
    assert_eq!(ended.get("result"), None, "{ended}");
    // Once more changes nothing.
    is_acknowledged(&cancel(&scene_of_reads.address, &id));
    assert_eq!(get(&scene_of_reads.address, &id), ended);
    scene_of_reads.changes.let_go();
    assert!(scene_of_reads.changes.made().is_empty());

    let scene = scene(background(json!({})), &[]).await;
    scene.changes.hold();
    let id = begin(&scene, "one");
    scene.changes.until_begun(1).await;
    is_acknowledged(&cancel(&scene.address, &id));
    let task = get(&scene.address, &id);
    assert_eq!(task["status"], "working", "a change is never torn: {task}");
    let said = task["statusMessage"].as_str().unwrap();
    assert!(said.starts_with("It was cancelled."), "{task}");
    scene.changes.let_go();
    let ended = until(&scene.address, &id, "completed");
    assert_eq!(ended["result"]["structuredContent"], json!({"done": true}));
    is_acknowledged(&cancel(&scene.address, &id));
    assert_eq!(scene.changes.made(), ["one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_approves_before_there_is_a_task() {
    for (more, external) in [
        (consent(), "false"),
        // Each call of it is another one, unless the client comes back with what it has.
        (json!({"repeatable": true}), "true"),
    ] {
        let keys = [("mcp_server.assume_external_content", external)];
        let scene = scene(background(more.clone()), &keys).await;
        let can = tasks_and_forms();
        let asked = scene.change(&[], json!({"arguments": {"what": "one"}}), &can);
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        assert_eq!(asked.get("taskId"), None);
        scene.changes.hold();
        let id = id_of(&scene.change(&[], answered(&asked, "one", yes()), &can));
        // A client that has lost the handle comes back with what it has.
        let again = id_of(&scene.change(&[], answered(&asked, "one", yes()), &can));
        assert_eq!(again, id, "{more}");
        scene.changes.let_go();
        let ended = until(&scene.address, &id, "completed");
        assert_eq!(ended["result"]["structuredContent"], json!({"done": true}));
        assert_eq!(scene.changes.made(), ["one"], "{more}");
        // A client that takes no tasks waits for the end of what it has approved.
        let asked = scene.change(&[], json!({"arguments": {"what": "two"}}), &forms());
        let done = scene.change(&[], answered(&asked, "two", yes()), &forms());
        assert_eq!(done["structuredContent"], json!({"done": true}), "{done}");
        assert_eq!(scene.changes.made(), ["one", "two"], "{more}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_result_says_which_server_it_is_of() {
    let scene = scene(background(consent()), &[]).await;
    let named = |result: &Value| {
        let info = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "windlass", "{result}");
        assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    };
    for method in [
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ] {
        named(&scene.ask(method, json!({}))["result"]);
    }
    let can = tasks_and_forms();
    let asked = scene.change(&[], json!({"arguments": {"what": "one"}}), &can);
    named(&asked);
    scene.changes.hold();
    let handle = scene.change(&[], answered(&asked, "one", yes()), &can);
    named(&handle);
    scene.changes.let_go();
    let id = handle["taskId"].as_str().unwrap();
    named(&until(&scene.address, id, "completed"));
    let failed = scene.change(&[], json!({"arguments": {"what": 1}}), &json!({}));
    assert_eq!(code(&failed), "VALIDATION");
    named(&failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tools_failure_is_the_result_of_its_task() {
    let scene = scene(background(json!({})), &[]).await;
    let id = begin(&scene, FAILS);
    let ended = until(&scene.address, &id, "completed");
    let result = &ended["result"];
    assert_eq!(
        (&result["isError"], code(result)),
        (&json!(true), &json!("PERMANENT"))
    );
    assert_eq!(ended.get("error"), None, "{ended}");
    assert!(scene.changes.made().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_was_read_is_not_told_as_the_answer_of_a_later_call() {
    for is_read in [false, true] {
        let scene = scene(background(json!({})), &[("mcp_server.repeat_seconds", "0")]).await;
        scene.changes.hold();
        let id = begin(&scene, "one");
        scene.changes.let_go();
        match is_read {
            true => drop(until(&scene.address, &id, "completed")),
            // A client without tasks waits for the end, and is told it.
            false => drop(scene.change(&[], json!({"arguments": {"what": "one"}}), &json!({}))),
        }
        let later = scene.change(&[], json!({"arguments": {"what": "one"}}), &forms());
        assert_eq!(later["resultType"], "input_required", "{is_read} {later}");
        assert_eq!(scene.changes.made(), ["one"]);
    }
}
