//! The four handlers of the source documents, unchanged, where the documents lie beside the repository; and for everybody a
//! small one of each shape.

use crate::worker::{Host, context, limits, result};
use serde_json::json;
use std::path::Path;

/// Where the documents lie: beside the repository, whose folder this crate is two levels down in.
const DOCUMENTS: &str = "../../../shared/seeds";

/// The code block that follows a heading, of whichever document has it. `None` where the documents are not there.
fn reference(heading: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCUMENTS);
    let documents = std::fs::read_dir(folder).ok()?;
    let texts =
        documents.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default());
    let found = texts.into_iter().find_map(|text| {
        let (_, behind) = text.split_once(heading)?;
        let (_, code) = behind.split_once("```javascript\n")?;
        let (code, _) = code.split_once("\n```")?;
        Some(code.to_owned())
    });
    Some(found.unwrap_or_else(|| panic!("no document has {heading}")))
}

/// Calls the handler of the documents, if they are there, and the small one, which do the same.
fn check(heading: &str, small: &str, tool: &str, call: impl Fn(&mut Host)) {
    let entry = format!("{tool}/handler.js");
    for source in reference(heading).as_deref().into_iter().chain([small]) {
        call(&mut Host::of_files(
            limits(),
            &entry,
            [(entry.as_str(), source)],
        ));
    }
}

const IGNORE_USER: &str = "import { ToolError, ErrorType } from '../error-types.js';
export async function execute({ args, context }) {
  if (!context.session.isActive) return { ok: false, error: { type: ErrorType.SESSION_INACTIVE, message: 'over', retryable: false } };
  const timeoutUntil = Date.now() + args.duration_seconds * 1000;
  try {
    await context.messaging.send({ type: 'timeout', durationSeconds: args.duration_seconds, timeoutUntil, farewellMessage: args.farewell_message });
  } catch {
    throw new ToolError(ErrorType.TRANSIENT, 'not sent', { retryable: true, partialSideEffects: false });
  }
  context.audit.log('user_timeout', { duration: args.duration_seconds, timeoutUntil, reason: 'tool_invocation' });
  return { ok: true, data: { timeoutUntil, duration: args.duration_seconds },
    intents: [{ type: 'END_VOICE_SESSION', after: 'farewell_spoken' }, { type: 'SUPPRESS_AUDIO', value: true }] };
}";

#[test]
fn a_user_is_blocked() {
    check(
        "#### 3. Handler File (`handler.js`)",
        IGNORE_USER,
        "ignore-user",
        |host| {
            let args = json!({"duration_seconds": 60, "farewell_message": "Bye"});
            let mut sent = Vec::new();
            let answer = host.call_with(args.clone(), context(), &mut |method, params| {
                assert_eq!(method, "messaging.send");
                sent.push(params["message"].clone());
                result(json!(null))
            });
            let response = &answer["result"];
            assert_eq!(
                (&response["ok"], &response["data"]["duration"]),
                (&json!(true), &json!(60)),
                "{answer}"
            );
            assert_eq!(
                response["intents"],
                json!([{"type": "END_VOICE_SESSION", "after": "farewell_spoken"}, {"type": "SUPPRESS_AUDIO", "value": true}])
            );
            let sent = &sent[0];
            assert_eq!(
                (&sent["type"], &sent["farewellMessage"]),
                (&json!("timeout"), &json!("Bye"))
            );
            assert_eq!(host.notifications[0]["params"]["event"], "user_timeout");
            let answer = host.call_with(args.clone(), context(), &mut |_, _| {
            json!({"error": {"code": -32_000, "message": "gone", "data": {"code": "CLOSED"}}})
        });
            assert_eq!(answer["result"]["error"]["type"], "TRANSIENT", "{answer}");
            let mut over = context();
            over["session"]["isActive"] = json!(false);
            let answer = host.call_with(args, over, &mut |method, _| panic!("{method}"));
            assert_eq!(
                answer["result"]["error"]["type"], "SESSION_INACTIVE",
                "{answer}"
            );
        },
    );
}

const KB_SEARCH: &str = "import { ToolError, ErrorType } from '../error-types.js';
export async function execute({ args, context }) {
  const topK = context.mode === 'voice' ? Math.min(args.top_k, 3) : args.top_k;
  try {
    const results = await context.kb.search({ query: args.query, namespace: args.namespace, topK });
    return { ok: true, data: { results: results.map((r) => ({ id: r.id, title: r.title, snippet: r.snippet || null, source_type: r.sourceType })), clamped: topK !== args.top_k } };
  } catch (error) {
    if (error.code === 'TIMEOUT') throw new ToolError(ErrorType.TRANSIENT, 'Search timeout', { retryable: true, partialSideEffects: false });
    if (error.code === 'INVALID_NAMESPACE') throw new ToolError(ErrorType.VALIDATION, `Invalid namespace: ${args.namespace}`, { retryable: false });
    throw error;
  }
}";

#[test]
fn the_knowledge_base_is_searched() {
    check(
        "#### `tools/kb-search/handler.js`",
        KB_SEARCH,
        "kb-search",
        |host| {
            let args = json!({"query": "fram", "namespace": "x", "top_k": 5});
            let mut voice = context();
            voice["mode"] = json!("voice");
            let found = json!([{"id": "a", "type": "ship", "title": "Fram", "snippet": "…", "score": 1, "sourceType": "markdown", "metadata": {}}]);
            let answer = host.call_with(args.clone(), voice, &mut |method, params| {
                assert_eq!((method, &params["topK"]), ("kb.search", &json!(3)));
                result(found.clone())
            });
            let data = &answer["result"]["data"];
            assert_eq!(data["clamped"], true, "{answer}");
            assert_eq!(
                (
                    &data["results"][0]["id"],
                    &data["results"][0]["source_type"]
                ),
                (&json!("a"), &json!("markdown"))
            );
            for (code, error_type) in [
                ("TIMEOUT", "TRANSIENT"),
                ("INVALID_NAMESPACE", "VALIDATION"),
            ] {
                let answer = host.call_with(args.clone(), context(), &mut |_, _| {
                json!({"error": {"code": -32_000, "message": "no", "data": {"code": code}}})
            });
                assert_eq!(answer["result"]["error"]["type"], error_type, "{answer}");
            }
            let answer = host.call_with(
                args,
                context(),
                &mut |_, _| json!({"error": {"code": -32_000, "message": "odd"}}),
            );
            assert_eq!(answer["error"]["code"], -32_000, "{answer}");
        },
    );
}

const AVAILABILITY: &str = "import { ToolError, ErrorType } from '../error-types.js';
export async function execute({ args, context }) {
  if (new Date(args.start_date) >= new Date(args.end_date)) return { ok: false, error: { type: ErrorType.VALIDATION, message: 'start_date must be before end_date', retryable: false } };
  try {
    const free = await context.calendar.getFreeBusy({ timeMin: args.start_date, timeMax: args.end_date, items: args.calendars.map((id) => ({ id })) });
    const busy = args.calendars.flatMap((id) => free.calendars[id]?.busy ?? []);
    return { ok: true, data: { existing_events: busy, available_slots: [
      { start: new Date(args.start_date).toISOString(), end: new Date(busy[0].start).toISOString(), duration_minutes: 60 },
      { start: new Date(busy[0].end).toISOString(), end: args.end_date, duration_minutes: 120 }] } };
  } catch (error) {
    if (error.code === 'RATE_LIMIT') throw new ToolError(ErrorType.RATE_LIMIT, 'slow', { retryable: true, retryAfter: error.retryAfter || 60 });
    throw error;
  }
}";

#[test]
fn a_calendar_is_asked() {
    check(
        "#### `tools/calendar-get-availability/handler.js`",
        AVAILABILITY,
        "calendar-get-availability",
        |host| {
            let args = json!({
                "start_date": "2026-11-24T08:00:00Z", "end_date": "2026-11-24T12:00:00Z", "calendars": ["primary"],
                "include_details": false, "min_duration_minutes": 30,
            });
            let answer = host.call_with(args.clone(), context(), &mut |method, params| {
            assert_eq!((method, &params["items"]), ("calendar.getFreeBusy", &json!([{"id": "primary"}])));
            result(json!({"calendars": {"primary": {"busy": [{"start": "2026-11-24T09:00:00Z", "end": "2026-11-24T10:00:00Z"}]}}}))
        });
            assert_eq!(
                answer["result"]["data"]["available_slots"],
                json!([
                    {"start": "2026-11-24T08:00:00.000Z", "end": "2026-11-24T09:00:00.000Z", "duration_minutes": 60},
                    {"start": "2026-11-24T10:00:00.000Z", "end": "2026-11-24T12:00:00Z", "duration_minutes": 120},
                ]),
                "{answer}"
            );
            let answer = host.call_with(args.clone(), context(), &mut |_, _| {
            json!({"error": {"code": -32_000, "message": "slow", "data": {"code": "RATE_LIMIT", "retryAfter": 5}}})
        });
            assert_eq!(answer["result"]["error"]["retryAfterMs"], 5_000, "{answer}");
            let mut reversed = args;
            reversed["end_date"] = json!("2026-11-23T08:00:00Z");
            assert_eq!(host.call(reversed)["result"]["error"]["type"], "VALIDATION");
        },
    );
}

const START_VOICE: &str = "import { ToolError, ErrorType } from '../error-types.js';
export async function execute({ args, context }) {
  if (context.mode === 'voice') return { ok: false, error: { type: ErrorType.SESSION_ACTIVE, message: 'Already in voice mode', retryable: false } };
  const sessionId = `voice-${Date.now()}-${Math.random().toString(36).slice(2, 8)}`;
  await context.messaging.send({ type: 'voice_session_start', sessionId, pendingRequest: args.pending_request || null });
  context.audit.log('voice_session_start', { sessionId, pendingRequestPreview: args.pending_request?.substring(0, 100) });
  return { ok: true, data: { session_id: sessionId, pending_request: args.pending_request || null } };
}";

#[test]
fn a_voice_session_is_started() {
    check(
        "#### `tools/start-voice-session/handler.js`",
        START_VOICE,
        "start-voice-session",
        |host| {
            let answer = host.call_with(
                json!({"pending_request": "book it"}),
                context(),
                &mut |method, params| {
                    assert_eq!(
                        (method, &params["message"]["type"]),
                        ("messaging.send", &json!("voice_session_start"))
                    );
                    result(json!(null))
                },
            );
            assert_eq!(
                answer["result"]["data"]["pending_request"], "book it",
                "{answer}"
            );
            let mut voice = context();
            voice["mode"] = json!("voice");
            let answer = host.call_with(json!({}), voice, &mut |method, _| panic!("{method}"));
            assert_eq!(answer["result"]["error"]["type"], "SESSION_ACTIVE");
        },
    );
}
