//! What a handler finds around it.

use crate::worker::{ENTRY, Host, context, data, limits, result};
use serde_json::{Value, json};
use windlass_script::Limits;

/// The value of an expression in a handler, which may await.
fn check(expression: &str, expected: Value) {
    let source = format!(
        "export async function execute({{ args, context }}) {{ return {{ ok: true, data: {expression} }}; }}"
    );
    assert_eq!(
        Host::of_handler(&source).call(json!({})),
        data(expected),
        "{expression}"
    );
}

#[test]
fn addresses_are_read_and_changed_as_everywhere() {
    check(
        "(() => { const url = new URL('../x?a=1&b=%20#h', 'https://user@Exämple.org:443/y/z'); url.searchParams.append('c', 'd e');
          url.port = '8080'; return [url.href, url.host, url.origin, url.hash, url.searchParams.get('b'), String(url)]; })()",
        json!([
            "https://user@xn--exmple-cua.org:8080/x?a=1&b=+&c=d+e#h", "xn--exmple-cua.org:8080", "https://xn--exmple-cua.org:8080",
            "#h", " ", "https://user@xn--exmple-cua.org:8080/x?a=1&b=+&c=d+e#h",
        ]),
    );
    check(
        "[URL.canParse('x'), URL.canParse('a:b'), JSON.stringify({ u: new URL('http://a') })]",
        json!([false, true, "{\"u\":\"http://a/\"}"]),
    );
    check(
        "(() => { try { new URL('nothing'); } catch (error) { return [error.name, error.code]; } })()",
        json!(["TypeError", "ERR_INVALID_URL"]),
    );
    check(
        "(() => { const p = new URLSearchParams({ q: 'a&b', r: 'é' }); p.set('q', 'c'); p.append('q', 'd'); p.delete('r'); return [String(p), p.getAll('q'), [...p].length, p.size]; })()",
        json!(["q=c&q=d", ["c", "d"], 2, 2]),
    );
}

#[test]
fn texts_become_bytes_and_back() {
    check(
        "[...new TextEncoder().encode('é€😀')]",
        json!([195, 169, 226, 130, 172, 240, 159, 152, 128]),
    );
    check(
        "new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 195, 169, 255]))",
        json!("é\u{fffd}"),
    );
    check(
        "(() => { try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255])); } catch (error) { return error.name; } })()",
        json!("TypeError"),
    );
    check(
        "[btoa('ab'), atob('YWI='), new TextEncoder().encode('\\ud800').length]",
        json!(["YWI=", "ab", 3]),
    );
}

#[test]
fn values_are_cloned_deeply() {
    check(
        "(() => { const own = { list: [1, { d: new Date(5) }], map: new Map([['a', new Set([1])]]), bytes: new Uint8Array([1, 2]) }; own.self = own;
          const clone = structuredClone(own); clone.list[1].d.setTime(9); clone.bytes[0] = 7;
          return [own.list[1].d.getTime(), clone.list[1].d.getTime(), clone.self === clone, clone.map.get('a').has(1), own.bytes[0], clone.bytes[0]]; })()",
        json!([5, 9, true, true, 1, 7]),
    );
    check(
        "(() => { try { structuredClone({ f() {} }); } catch (error) { return error.name; } })()",
        json!("DataCloneError"),
    );
}

#[test]
fn timers_fire_in_their_order_and_can_be_cleared() {
    check(
        "await new Promise((resolve) => { const seen = [];
          setTimeout((x) => seen.push(x), 20, 'late'); setTimeout(() => seen.push('early'), 1); setImmediate(() => seen.push('now'));
          clearTimeout(setTimeout(() => seen.push('never'), 5)); let ticks = 0;
          const interval = setInterval(() => { seen.push('tick'); if (++ticks === 2) clearInterval(interval); }, 2);
          queueMicrotask(() => seen.push('micro')); setTimeout(() => resolve(seen.filter((item) => item !== 'tick')), 40); })",
        json!(["micro", "now", "early", "late"]),
    );
    let mut host = Host::of_handler(
        "export async function execute() { setTimeout(() => { throw new Error('late'); }, 1); await new Promise((r) => setTimeout(r, 1e6)); }",
    );
    assert_eq!(
        host.call(json!({}))["error"]["message"]
            .as_str()
            .map(|said| said.contains("Error: late")),
        Some(true)
    );
}

#[test]
fn signals_abort() {
    check(
        "(() => { const controller = new AbortController(); const seen = []; controller.signal.addEventListener('abort', () => seen.push('listener'));
          controller.signal.onabort = () => seen.push('on'); const any = AbortSignal.any([controller.signal]); controller.abort(); controller.abort();
          return [seen, any.aborted, controller.signal.reason.name, context.signal.aborted, context.signal instanceof AbortSignal]; })()",
        json!([["listener", "on"], true, "AbortError", false, true]),
    );
    check(
        "await new Promise((resolve) => AbortSignal.timeout(1).addEventListener('abort', (event) => resolve(event.type)))",
        json!("abort"),
    );
}

#[test]
fn randomness_differs_each_time() {
    check(
        "(() => { const ids = [crypto.randomUUID(), crypto.randomUUID()]; const bytes = crypto.getRandomValues(new Uint8Array(32));
          return [ids[0] !== ids[1], ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)), new Set(bytes).size > 4]; })()",
        json!([true, true, true]),
    );
}

#[test]
fn the_console_goes_to_the_log_line_by_line_and_not_without_end() {
    let source = "export async function execute({ args }) { console.log('a', { b: 1 }, 2); console.error('two\\nlines'); for (let n = 0; n < args.n; n++) console.log('x'.repeat(99)); return { ok: true }; }";
    let quiet = Limits {
        console_bytes_max: 1_000,
        ..limits()
    };
    let mut host = Host::of_files(quiet, ENTRY, [(ENTRY, source)]);
    host.call(json!({"n": 0}));
    host.call(json!({"n": 1_000}));
    let console = host.into_console();
    assert!(console.starts_with("own/handler.js: log: a {\"b\":1} 2\nown/handler.js: error: two\nown/handler.js: lines\n"), "{console}");
    assert!(console.len() < 3_000, "{}", console.len());
}

#[test]
fn fetch_asks_the_host_and_reads_its_answer() {
    let source = "export async function execute({ context }) {
        const answer = await fetch(new URL('https://example.org/a'), { method: 'post', headers: { 'X-A': '1' }, body: JSON.stringify({ n: 1 }) });
        const copy = answer.clone();
        const bytes = await context.http.fetch('https://example.org/b', { body: new Uint8Array([1, 255]), method: 'PUT' });
        let failed;
        try { await fetch('http://127.0.0.1/'); } catch (error) { failed = [error.name, error.message, error.code]; }
        return { ok: true, data: [answer.ok, answer.status, answer.headers.get('Content-Type'), await answer.json(), await copy.text(), [...(await bytes.bytes())], bytes.ok, failed] };
    }";
    let mut asked = Vec::new();
    let mut respond = |method: &str, params: &Value| {
        assert_eq!(method, "http.fetch");
        asked.push(params.clone());
        match params["url"].as_str().unwrap() {
            "https://example.org/a" => result(
                json!({"status": 200, "headers": {"content-type": "application/json"}, "body": "{\"x\":2}"}),
            ),
            "https://example.org/b" => {
                result(json!({"status": 404, "headers": {}, "body": null, "bodyBase64": "AQID"}))
            }
            _ => {
                json!({"error": {"code": -32_000, "message": "the host is not allowed", "data": {"code": "FORBIDDEN"}}})
            }
        }
    };
    let answer = Host::of_handler(source).call_with(json!({}), context(), &mut respond);
    assert_eq!(
        answer,
        data(json!([
            true, 200, "application/json", {"x": 2}, "{\"x\":2}", [1, 2, 3], false,
            ["TypeError", "fetch failed: the host is not allowed", "FORBIDDEN"],
        ]))
    );
    assert_eq!(
        asked[0],
        json!({"call": 2, "url": "https://example.org/a", "method": "POST", "body": "{\"n\":1}",
               "headers": {"x-a": "1", "content-type": "text/plain;charset=UTF-8"}})
    );
    assert_eq!(asked[1]["bodyBase64"], "Af8=");
}

#[test]
fn what_a_language_or_a_zone_decides_is_right_or_refused() {
    check(
        "(() => { const date = new Date(Date.UTC(2026, 0, 5, 0, 7, 9)); const utc = { timeZone: 'UTC' };
          return [date.toLocaleString('en-US', utc), date.toLocaleDateString('en-US', utc), date.toLocaleTimeString(undefined, utc),
            (1234567.8915).toLocaleString(), (0.256).toLocaleString('en', { style: 'percent' }), (5).toLocaleString('en-GB', { minimumFractionDigits: 2 }),
            (2.5).toLocaleString('en-US', { maximumFractionDigits: 0 }), (-1e21).toLocaleString(), NaN.toLocaleString(), 12345678901234567890n.toLocaleString(),
            [1234, 5].toLocaleString()]; })()",
        json!([
            "1/5/2026, 12:07:09 AM", "1/5/2026", "12:07:09 AM", "1,234,567.892", "26%", "5.00", "3",
            "-1,000,000,000,000,000,000,000", "NaN", "12,345,678,901,234,567,890", "1,234,5",
        ]),
    );
    check(
        "[['b', 'ä', 'B', 'a', 'z', 'A'].sort((left, right) => left.localeCompare(right)), 'a2'.localeCompare('a10', undefined, { numeric: true }),
          'Ä'.localeCompare('a', 'de', { sensitivity: 'base' }), 'é'.localeCompare('E', 'fr', { sensitivity: 'case' }), 'x'.localeCompare('x'), 'i'.toLocaleUpperCase('de')]",
        json!([["a", "A", "ä", "b", "B", "z"], -1, 0, -1, 0, "I"]),
    );
    for (expression, named) in [
        (
            "new Date(0).toLocaleString('en-US', { timeZone: 'America/New_York' })",
            "toLocaleString with timeZone: \"America/New_York\"",
        ),
        (
            "new Date(0).toLocaleDateString('de-DE')",
            "toLocaleDateString for \"de-DE\"",
        ),
        (
            "new Date(0).toLocaleTimeString('en-US', { hour: '2-digit' })",
            "toLocaleTimeString with hour: \"2-digit\"",
        ),
        (
            "(1).toLocaleString('de-DE')",
            "toLocaleString for \"de-DE\"",
        ),
        (
            "(1).toLocaleString('en-US', { style: 'currency', currency: 'EUR' })",
            "toLocaleString with style: \"currency\"",
        ),
        (
            "new Intl.DateTimeFormat('en-US', { timeZone: 'Asia/Tokyo' })",
            "Intl.DateTimeFormat is not in this engine",
        ),
        ("'a'.localeCompare('b', 'sv')", "localeCompare for \"sv\""),
        (
            "'i'.toLocaleUpperCase('tr')",
            "toLocaleUpperCase for \"tr\"",
        ),
    ] {
        let source = format!(
            "export async function execute() {{ return {{ ok: true, data: {expression} }}; }}"
        );
        let answer = Host::of_handler(&source).call(json!({}));
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(
            message.contains(named) && message.contains("run it in Node"),
            "{expression}: {answer}"
        );
    }
}

#[test]
fn the_body_of_an_answer_can_be_read_in_pieces() {
    let source = "export async function execute() {
        const get = () => fetch('https://example.org/');
        const pieces = [];
        for await (const piece of (await get()).body) pieces.push(piece.length);
        const response = await get();
        const reader = response.body.getReader();
        const decoder = new TextDecoder();
        let text = '';
        for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) text += decoder.decode(value, { stream: true });
        const twice = await response.text().catch((error) => error.message);
        const cancelled = await get();
        await cancelled.body.cancel();
        const none = await fetch('https://example.org/none');
        let piped;
        try { (await get()).body.tee(); } catch (error) { piped = error.message.includes('getReader'); }
        return { ok: true, data: [pieces, text.length, twice, cancelled.bodyUsed, none.body, piped, (await get()).body.locked] };
    }";
    let mut respond = |_: &str, params: &Value| match params["url"].as_str().unwrap() {
        "https://example.org/none" => result(json!({"status": 204, "headers": {}, "body": ""})),
        _ => result(json!({"status": 200, "headers": {}, "body": "x".repeat(70_000)})),
    };
    let answer = Host::of_handler(source).call_with(json!({}), context(), &mut respond);
    assert_eq!(
        answer,
        data(json!([
            [65_536, 4_464],
            70_000,
            "the body has been read already",
            true,
            null,
            true,
            false
        ]))
    );
}

#[test]
fn a_granted_secret_is_asked_of_the_host() {
    let source = "export async function execute({ context }) {
        const refused = await context.secret('OTHER').catch((error) => [error.message, error.code]);
        return { ok: true, data: [(await context.secret('KEY')).length, refused] };
    }";
    let mut respond = |method: &str, params: &Value| {
        assert_eq!(method, "secret");
        match params["name"].as_str().unwrap() {
            "KEY" => result(json!("value")),
            _ => {
                json!({"error": {"code": -32_000, "message": "it is not granted", "data": {"code": "NOT_ALLOWED"}}})
            }
        }
    };
    let answer = Host::of_handler(source).call_with(json!({}), context(), &mut respond);
    assert_eq!(
        answer,
        data(json!([5, ["it is not granted", "NOT_ALLOWED"]]))
    );
}

#[test]
fn what_a_context_says_of_its_call_can_be_read_and_not_changed() {
    check(
        "[context.clientId, context.userId, context.mode, context.turn, context.tool.id, context.session.toolsVersion, context.capabilities.messaging,
          context.voice.isActive(), context.effectId, typeof context.deadline, Object.isFrozen(context), Object.isFrozen(context.tool)]",
        json!(["client", "user", "text", 3, "own", "1.0.00000000", true, false, null, "number", true, true]),
    );
}
