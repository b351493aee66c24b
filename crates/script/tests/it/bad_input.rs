//! Handlers that misbehave: each ends in one clean error, and the next call works.

use crate::worker::{ENTRY, Host, context, data, limits};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_script::Limits;

/// A handler that does what its arguments say, or answers.
fn host(body: &str, limits: Limits) -> Host {
    let source = format!(
        "export async function execute({{ args, context }}) {{ if (args.good) return {{ ok: true, data: 'good' }}; {body} }}"
    );
    Host::of_files(limits, ENTRY, [(ENTRY, &source)])
}

/// The error of a bad call, after which a good one works.
fn check(body: &str, limits: Limits, code: i32, message: &str) {
    let mut host = host(body, limits);
    let answer = host.call(json!({}));
    // A call that says that it has worked only loses its answer.
    let has_worked = answer["result"]["ok"] == true;
    let said = match has_worked {
        true => &answer["result"]["meta"]["problem"],
        false => &answer["error"]["message"],
    };
    let said = said.as_str().unwrap_or_else(|| panic!("{body}: {answer}"));
    assert!(said.contains(message), "{body}: {said}");
    assert!(
        has_worked || answer["error"]["code"] == code,
        "{body}: {answer}"
    );
    assert_eq!(host.call(json!({"good": true})), data(json!("good")));
}

const BROKEN: i32 = -32_000;
const STOPPED: i32 = -32_001;

fn short() -> Limits {
    Limits {
        compute_max: Duration::from_millis(100),
        // A quick machine fills the usual room with promises before the time is over.
        memory_bytes_max: 512 * 1024 * 1024,
        ..limits()
    }
}

#[test]
fn a_handler_that_computes_for_ever_is_stopped() {
    for body in [
        "for (;;) {}",
        "try { for (;;) {} } finally { for (;;) {} }",
        "const next = () => Promise.resolve().then(next); await next();",
        "const next = async () => { await null; return next(); }; await next();",
        "const next = () => queueMicrotask(next); next(); await new Promise(() => {});",
        "/^(a+)+$/.test('a'.repeat(40) + 'b');",
        "const o = { toJSON() { for (;;) {} } }; return { ok: true, data: o };",
    ] {
        check(body, short(), STOPPED, "computed for longer than 100 ms");
    }
}

#[test]
fn a_handler_that_takes_too_much_memory_breaks() {
    for body in [
        "return { ok: true, data: new Uint8Array(1024 ** 3).length };",
        "const all = []; for (;;) all.push('x'.repeat(1000) + all.length);",
        "let text = 'x'; for (;;) text += text;",
        "return { ok: true, data: 'x'.repeat(50 * 1024 * 1024) };",
    ] {
        check(body, limits(), BROKEN, "");
    }
}

#[test]
fn a_handler_that_calls_itself_without_end_breaks() {
    check(
        "const again = () => again() + 1; return again();",
        limits(),
        BROKEN,
        "Maximum call stack size exceeded",
    );
    check(
        "let deep = []; for (let n = 0; n < 20000; n++) deep = [deep]; return { ok: true, data: deep };",
        limits(),
        BROKEN,
        "",
    );
}

#[test]
fn an_answer_has_a_longest_length() {
    check(
        "return { ok: true, data: 'x'.repeat(2 * 1024 * 1024) };",
        limits(),
        BROKEN,
        "the answer is 2097",
    );
}

#[test]
fn a_promise_that_nothing_settles_is_known_at_once() {
    check(
        "await new Promise(() => {});",
        limits(),
        BROKEN,
        "can never settle",
    );
}

#[test]
fn a_call_ends_at_its_deadline() {
    let mut host = host(
        "await new Promise((resolve) => setTimeout(resolve, 1e6));",
        limits(),
    );
    let mut late = context();
    late["deadline"] = json!(1);
    let answer = host.call_with(json!({}), late, &mut |method, _| panic!("{method}"));
    assert_eq!(
        answer,
        json!({"error": {"code": STOPPED, "message": "own/handler.js: the call did not end within its time"}})
    );
    assert_eq!(host.call(json!({"good": true})), data(json!("good")));
}

#[test]
fn a_call_that_is_taken_back_notices_it_or_is_stopped() {
    let mut host = host(
        "context.progress('runs');
         if (args.heeds) return new Promise((resolve) => context.signal.addEventListener('abort', () =>
           resolve({ ok: true, data: context.signal.aborted })));
         if (args.computes) for (;;) {}
         await new Promise((resolve) => setTimeout(resolve, 1e6));",
        limits(),
    );
    for (args, expected) in [
        (json!({"heeds": true}), None),
        (json!({"computes": true}), Some(STOPPED)),
        (json!({}), Some(STOPPED)),
    ] {
        let id = host.execute(args, context());
        assert_eq!(host.receive()["method"], "progress");
        host.send(&json!({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": id}}));
        let answer = host.answer(id, &mut |method, _| panic!("{method}"));
        match expected {
            None => assert_eq!(answer, data(json!(true))),
            Some(code) => assert_eq!(answer["error"]["code"], code),
        }
    }
    assert_eq!(host.call(json!({"good": true})), data(json!("good")));
}

#[test]
fn what_shows_pieces_that_nobody_waits_for_is_told_so_and_a_change_goes_on() {
    let waits = "context.progress('runs'); await new Promise((resolve) => context.signal.addEventListener('abort', resolve));";
    let asks = format!(
        "{waits} try {{ context.output('late'); }} catch (error) {{ return {{ ok: true, data: error.message }}; }}
         return {{ ok: true, data: 'shown' }};"
    );
    let yields = "context.progress('runs'); return (async function* () {
            try {
              for (;;) {
                await new Promise((resolve) => setTimeout(resolve, 1));
                if (context.signal.aborted && context.effectId) return { ok: true, data: 'whole' };
                yield 'one';
              }
            } finally { context.audit.log('closed', null); }
          })();";
    let nobody_waits = "nobody waits for the call any more";
    for (body, effect, expected) in [
        (asks.as_str(), None, nobody_waits),
        (asks.as_str(), Some("e-1"), "shown"),
        (yields, None, nobody_waits),
        (yields, Some("e-1"), "whole"),
    ] {
        let mut host = host(body, limits());
        let mut context = context();
        context["effectId"] = json!(effect);
        let id = host.execute(json!({}), context);
        while host.receive()["method"] != "progress" {}
        host.send(&json!({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": id}}));
        let answer = host.answer(id, &mut |method, _| panic!("{method}"));
        let said = match answer["error"]["message"].as_str() {
            Some(problem) => problem,
            None => answer["result"]["data"].as_str().unwrap(),
        };
        assert!(said.contains(expected), "{body}: {answer}");
        // A generator is told that nothing more is asked of it.
        let has_closed = |line: &Value| line["params"]["event"] == "closed";
        let closed = host.notifications.iter().any(has_closed);
        assert_eq!(closed, body == yields, "{body}");
    }
}

#[test]
fn no_call_sees_what_another_changed() {
    let mut host = Host::of_handler(
        "export async function execute({ args, context }) {
            const seen = [({}).polluted, globalThis.left, typeof JSON.parse, [].at.own, Object.isFrozen(context.session)];
            Object.prototype.polluted = 'polluted';
            globalThis.left = 'left';
            JSON.parse = 1;
            Array.prototype.at.own = 1;
            try { context.mode = 'voice'; } catch {}
            try { context.session.state.isModelGenerating = false; } catch {}
            return { ok: true, data: [...seen, context.mode, context.session.state.isModelGenerating] };
        }",
    );
    for _ in 0..4 {
        assert_eq!(
            host.call(json!({})),
            data(json!([null, null, "function", null, true, "text", true]))
        );
    }
}

#[test]
fn calls_that_wait_do_not_hold_up_others() {
    let mut host = Host::of_handler(
        "export async function execute({ args, context }) {
            if (args.waits) await context.kb.get('x');
            return { ok: true, data: args.n };
        }",
    );
    let waiting: Vec<u64> = (0..50)
        .map(|n| host.execute(json!({"waits": true, "n": n}), context()))
        .collect();
    let requests: Vec<Value> = waiting.iter().map(|_| host.receive()).collect();
    assert!(requests.iter().all(|request| request["method"] == "kb.get"));
    assert_eq!(host.call(json!({"n": "quick"})), data(json!("quick")));
    for request in &requests {
        host.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": null}));
    }
    let mut answered: Vec<u64> = waiting
        .iter()
        .map(|_| {
            let answer = host.receive();
            assert_eq!(answer["result"]["ok"], true);
            answer["id"].as_u64().unwrap()
        })
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, waiting);
}

#[test]
fn calls_that_compute_for_ever_do_not_hold_up_others() {
    let mut host = host("context.progress('runs'); for (;;) {}", limits());
    let stuck: Vec<u64> = (0..4).map(|_| host.execute(json!({}), context())).collect();
    for _ in &stuck {
        assert_eq!(host.receive()["method"], "progress");
    }
    assert_eq!(host.call(json!({"good": true})), data(json!("good")));
    for id in stuck {
        host.send(&json!({"jsonrpc": "2.0", "method": "$/cancel", "params": {"id": id}}));
        assert_eq!(host.receive()["error"]["code"], STOPPED);
    }
}

#[test]
fn a_worker_takes_no_more_calls_than_it_may() {
    let mut host = host(
        "await context.kb.get('x');",
        Limits {
            calls_max: 2,
            ..limits()
        },
    );
    for _ in 0..2 {
        host.execute(json!({}), context());
        assert_eq!(host.receive()["method"], "kb.get");
    }
    let id = host.execute(json!({}), context());
    let answer = host.answer(id, &mut |method, _| panic!("{method}"));
    assert_eq!(answer["error"]["message"], "2 calls run already");
}

#[test]
fn a_call_has_so_many_requests_and_timers_and_no_more() {
    check(
        "for (let n = 0; n < 2000; n++) setTimeout(() => {}, 1e6);",
        limits(),
        BROKEN,
        "RangeError: too many timers wait",
    );
    check(
        "context.audit.log('x', 'y'.repeat(2e6));",
        limits(),
        BROKEN,
        "RangeError: the message is too long",
    );
    let mut host = host(
        "for (let n = 0; n < 65; n++) context.kb.get('x').catch((error) => context.progress(error.message)); await null;",
        limits(),
    );
    let id = host.execute(json!({}), context());
    let mut requests = 0;
    loop {
        let line = host.receive();
        match line["method"].as_str() {
            Some("kb.get") => requests += 1,
            Some("progress") => assert_eq!(
                line["params"]["message"],
                "too many requests wait for an answer"
            ),
            _ => {
                assert_eq!(line["id"], id);
                break;
            }
        }
    }
    assert_eq!(requests, 64);
}

#[test]
fn tools_that_are_not_there_are_refused() {
    let mut host = Host::start(limits());
    let id = host.execute(json!({}), context());
    let answer = host.answer(id, &mut |method, _| panic!("{method}"));
    assert_eq!(answer["error"]["message"], "the tool own is not loaded");
    let id = host.send_request("dance", json!({}));
    let answer = host.answer(id, &mut |method, _| panic!("{method}"));
    assert_eq!(answer["error"]["code"], -32_601);
}

#[test]
fn there_is_no_way_to_the_machine() {
    for body in [
        "process.exit(1);",
        "require('fs');",
        "await import('fs');",
        "await import('os');",
        "Deno.exit();",
        "std.exit(1);",
    ] {
        check(body, limits(), BROKEN, "");
    }
    check(
        "await import('../other/handler.js');",
        limits(),
        BROKEN,
        "a tool imports files of its own folder",
    );
}

#[test]
fn modules_that_import_each_other_work_or_break_cleanly() {
    let run = |other: &str| {
        let files = [
            (
                ENTRY,
                "import { other } from './other.js';\nexport const own = 'own';\nexport const execute = async () => ({ ok: true, data: other() });",
            ),
            ("own/other.js", other),
        ];
        Host::of_files(limits(), ENTRY, files).call(json!({}))
    };
    assert_eq!(
        run("import { own } from './handler.js';\nexport const other = () => own;"),
        data(json!("own"))
    );
    let early =
        run("import { own } from './handler.js';\nexport const other = () => own;\nother();");
    assert_eq!(
        early["error"]["message"]
            .as_str()
            .map(|said| said.starts_with("own/other.js:2:")),
        Some(true),
        "{early}"
    );
}

/// The engine bounds what it cannot interrupt: an integer has a largest size.
#[test]
fn a_huge_integer_breaks_or_ends() {
    check("3n ** 2000000n;", limits(), BROKEN, "BigInt is too large");
}
