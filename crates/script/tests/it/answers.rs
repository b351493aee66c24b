//! What a handler returns or throws, and what its host gets.

use crate::worker::{ENTRY, Host, context, data, limits, result};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_script::Limits;

fn check(body: &str, expected: Value) {
    let source = format!(
        "import {{ ToolError, ErrorType }} from '../error-types.js';\nexport async function execute({{ args, context }}) {{ {body} }}"
    );
    assert_eq!(
        Host::of_handler(&source).call(json!({"n": 2})),
        expected,
        "{body}"
    );
}

fn broken(message: &str) -> Value {
    json!({"error": {"code": -32_000, "message": message}})
}

#[test]
fn a_response_arrives_as_it_was_returned() {
    check(
        "return { ok: true, data: { n: args.n + 1 } };",
        data(json!({"n": 3})),
    );
    check("return { ok: true };", result(json!({"ok": true})));
    check(
        "return { ok: true, data: null, intents: [{ type: 'SUPPRESS_AUDIO' }], scheduling: 'silent', other: 1 };",
        result(
            json!({"ok": true, "data": null, "intents": [{"type": "SUPPRESS_AUDIO"}], "scheduling": "silent"}),
        ),
    );
    check(
        "return { ok: false, error: { type: 'CONFLICT', message: 'taken', retryable: false } };",
        result(
            json!({"ok": false, "error": {"type": "CONFLICT", "message": "taken", "retryable": false}}),
        ),
    );
}

#[test]
fn a_tool_error_that_is_thrown_is_a_failure_that_the_handler_reports() {
    check(
        "throw new ToolError(ErrorType.RATE_LIMIT, 'slow down', { retryable: true, retryAfter: 2, partialSideEffects: false });",
        result(json!({"ok": false, "error": {
            "type": "RATE_LIMIT", "message": "slow down", "retryable": true, "retryAfterMs": 2_000, "partialSideEffects": false,
        }})),
    );
    check(
        "throw new ToolError('TRANSIENT', 'later', { retryAfter: 2, retryAfterMs: 30, details: [1], suggestion: 'wait' });",
        result(json!({"ok": false, "error": {
            "type": "TRANSIENT", "message": "later", "retryAfterMs": 30, "details": [1], "suggestion": "wait",
        }})),
    );
}

#[test]
fn an_error_names_the_file_and_the_line_of_its_author() {
    let files = [
        (
            ENTRY,
            "import { inner } from './inner.js';\n\nexport async function execute() {\n  await null;\n  inner();\n}",
        ),
        (
            "own/inner.js",
            "export function inner() {\n  return undefined.x;\n}",
        ),
    ];
    assert_eq!(
        Host::of_files(limits(), ENTRY, files).call(json!({})),
        broken(
            "own/inner.js:2:10: TypeError: cannot read property 'x' of undefined, from own/handler.js:5:3"
        )
    );
}

#[test]
fn both_shapes_of_execute_get_the_same() {
    for source in [
        "export async function execute({ args, context }) { return { ok: true, data: [args.n, context.turn, context.args === args] }; }",
        "export const execute = (context) => ({ ok: true, data: [context.args.n, context.turn, context.context === context] });",
        "async function run({ args, context }) { return { ok: true, data: [args.n, context.turn, true] }; }\nexport { run as execute };",
    ] {
        assert_eq!(
            Host::of_handler(source).call(json!({"n": 2})),
            data(json!([2, 3, true])),
            "{source}"
        );
    }
}

#[test]
fn what_is_no_response_is_the_handlers_fault() {
    for (body, message) in [
        (
            "return 1;",
            "TypeError: execute returned a number: return { ok: true, data } or { ok: false, error }",
        ),
        (
            "return;",
            "TypeError: execute returned undefined: return { ok: true, data } or { ok: false, error }",
        ),
        (
            "return () => 1;",
            "TypeError: execute returned a function: return { ok: true, data } or { ok: false, error }",
        ),
        (
            "return { success: true };",
            "TypeError: execute returned an object without `ok`: return { ok: true, data } or { ok: false, error }",
        ),
        (
            "return { ok: false };",
            "TypeError: execute returned { ok: false } without an `error` object",
        ),
        ("throw 'no';", "threw a string: no"),
        ("throw undefined;", "threw undefined: undefined"),
        ("throw { code: 1 };", "threw an object: {\"code\":1}"),
    ] {
        let source = format!("export async function execute() {{ {body} }}");
        let answer = Host::of_handler(&source).call(json!({}));
        let said = answer["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{body}: {answer}"));
        assert!(said.ends_with(message), "{body}: {said}");
        assert_eq!(answer["error"]["code"], -32_000);
    }
}

#[test]
fn a_call_that_has_worked_stays_so_where_its_answer_cannot_be_sent() {
    for (body, problem) in [
        (
            "return { ok: true, data: () => 1 };",
            "TypeError: execute returned a function as `data`, which JSON cannot hold",
        ),
        (
            "const data = {}; data.self = data; return { ok: true, data };",
            "TypeError: circular reference",
        ),
        (
            "return { ok: true, data: { n: 1n } };",
            "TypeError: BigInt are forbidden in JSON.stringify",
        ),
        (
            "return { ok: true, get data() { throw new Error('gone'); } };",
            "Error: gone",
        ),
        (
            "return { ok: true, data: { toJSON() { for (;;); } } };",
            "the call computed for longer than 200 ms",
        ),
        (
            "return { ok: true, data: 'x'.repeat(2 << 20) };",
            "bytes long as JSON, and 1048576 is the most",
        ),
    ] {
        let source = format!("export async function execute() {{ {body} }}");
        let limits = Limits {
            compute_max: Duration::from_millis(200),
            ..limits()
        };
        let answer = Host::of_files(limits, ENTRY, [(ENTRY, &source)]).call(json!({}));
        assert_eq!(answer["result"]["ok"], true, "{body}: {answer}");
        let said = answer["result"]["meta"]["problem"].as_str();
        assert!(
            said.is_some_and(|said| said.ends_with(problem)),
            "{body}: {answer}"
        );
    }
}

#[test]
fn what_a_generator_yields_are_pieces_and_what_it_returns_is_the_answer() {
    for (source, pieces, answer) in [
        (
            "async function* execute({ args }) { yield 'one'; yield Promise.resolve({ n: args.n }); yield; return { ok: true, data: 3 }; }",
            vec![json!("one"), json!({"n": 2}), json!(null)],
            data(json!(3)),
        ),
        (
            "function* execute() { yield 1; return { ok: true }; }",
            vec![json!(1)],
            result(json!({"ok": true})),
        ),
        (
            "async function execute({ output }) { output('a'); output(); return { ok: true }; }",
            vec![json!("a"), json!(null)],
            result(json!({"ok": true})),
        ),
        (
            "async function* execute() { yield 'one'; throw new ToolError('CONFLICT', 'taken'); }",
            vec![json!("one")],
            result(json!({"ok": false, "error": {"type": "CONFLICT", "message": "taken"}})),
        ),
        (
            "async function* execute() { yield 'one'; }",
            vec![json!("one")],
            broken(
                "TypeError: execute returned undefined: return { ok: true, data } or { ok: false, error }",
            ),
        ),
        (
            "async function* execute() { yield 'x'.repeat(2_000_000); yield 1n; yield 'end'; return { ok: true }; }",
            vec![json!("end")],
            result(json!({"ok": true})),
        ),
        // So it is where they are no generator's.
        (
            "async function execute({ output }) { for (const piece of ['x'.repeat(2_000_000), 1n, () => 1, 'end']) output(piece); return { ok: true }; }",
            vec![json!("end")],
            result(json!({"ok": true})),
        ),
    ] {
        let source = format!("import {{ ToolError }} from '../error-types.js';\nexport {source}");
        let mut host = Host::of_handler(&source);
        let answered = host.call(json!({"n": 2}));
        let said = host.notifications.iter();
        let shown: Vec<Value> = said
            .filter(|line| line["method"] == "output")
            .map(|line| line["params"]["data"].clone())
            .filter(|piece| piece.as_str().is_none_or(|text| text.len() < 100))
            .collect();
        assert_eq!(shown, pieces, "{source}");
        let has_begun = |answered: &Value| {
            let message = answered["error"]["message"].as_str();
            message
                .and_then(|text| text.split('\n').next())
                .map(str::to_owned)
        };
        match has_begun(&answered) {
            Some(message) => assert_eq!(json!(message), answer["error"]["message"], "{source}"),
            None => assert_eq!(answered, answer, "{source}"),
        }
    }
}

#[test]
fn what_a_handler_asks_for_is_answered_and_what_it_says_is_passed_on() {
    let mut host = Host::of_handler(
        "export async function execute({ context }) {
            context.progress('half', 0.5);
            await context.messaging.send({ type: 'note', text: 'x' });
            context.audit.log('seen', { n: 1 });
            context.events.emit('happened');
            const [found, record] = await Promise.all([context.kb.search({ query: 'fram', topK: 2 }), context.kb.get('a')]);
            let code;
            try { await context.callTool('other', { x: 1 }); } catch (error) { code = [error.message, error.code]; }
            return { ok: true, data: { found, record, code } };
        }",
    );
    let mut respond = |method: &str, params: &Value| {
        assert_eq!(params["call"], 2);
        match method {
            "kb.search" => {
                assert_eq!(params["query"], "fram");
                result(json!([{"id": "a"}]))
            }
            "kb.get" => result(json!(null)),
            "messaging.send" => {
                assert_eq!(params["message"], json!({"type": "note", "text": "x"}));
                result(json!(null))
            }
            "callTool" => {
                assert_eq!(
                    (&params["id"], &params["args"]),
                    (&json!("other"), &json!({"x": 1}))
                );
                json!({"error": {"code": -32_000, "message": "too deep", "data": {"code": "DEPTH"}}})
            }
            _ => panic!("{method}"),
        }
    };
    let answer = host.call_with(json!({}), context(), &mut respond);
    assert_eq!(
        answer,
        data(json!({"found": [{"id": "a"}], "record": null, "code": ["too deep", "DEPTH"]}))
    );
    let said: Vec<(&Value, &Value)> = host
        .notifications
        .iter()
        .map(|line| (&line["method"], &line["params"]))
        .collect();
    assert_eq!(
        said,
        [
            (
                &json!("progress"),
                &json!({"call": 2, "message": "half", "fraction": 0.5})
            ),
            (
                &json!("audit.log"),
                &json!({"call": 2, "event": "seen", "data": {"n": 1}})
            ),
            (
                &json!("events.emit"),
                &json!({"call": 2, "name": "happened", "payload": null})
            ),
        ]
    );
}

#[test]
fn modules_are_the_tools_own_and_the_shared_ones() {
    let files = [
        (
            ENTRY,
            "import { shared } from '../_shared/names.js';
             import facts from './facts.json' with { type: 'json' };
             import { ToolError } from '../_core/error-types.js';
             import { ToolError as Same, IntentType } from '../error-types.js';
             export const execute = async () => ({ ok: true, data: [shared, facts.n, ToolError === Same, IntentType.SUPPRESS_AUDIO,
               (await import('./late.js')).late] });",
        ),
        ("_shared/names.js", "export const shared = 'shared';"),
        ("own/facts.json", "{\"n\": 4}"),
        ("own/late.js", "export const late = 'late';"),
    ];
    assert_eq!(
        Host::of_files(limits(), ENTRY, files).call(json!({})),
        data(json!(["shared", 4, true, "SUPPRESS_AUDIO", "late"]))
    );
}
