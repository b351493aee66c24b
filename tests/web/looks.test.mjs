// Each state of the page, light and dark, on a desk, a phone and a phone on its side: axe finds nothing, contrasts are those of WCAG
// AA, nothing is wider than the screen, and the conversation keeps room. WINDLASS_SCREENSHOTS names a folder for pictures of them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ask, DESK, IS_FIREFOX, launch, lowContrasts, NOT_IN_FIREFOX, overflowPixels, PHONE, testInChromium, untilState, visit } from "./browser.mjs";
import { VoiceEndpoint, servePage } from "./scripted.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FINDING = IS_FIREFOX ? "contrasts and widths are right" : "axe finds nothing, and contrasts and widths are right";
const SIDEWAYS = { ...PHONE, viewport: { width: 844, height: 390 } };
const DEVICES = { desk: DESK, phone: PHONE, sideways: SIDEWAYS };
const ANSWER = "# Fram\n\nThe **Fram** was designed by *Colin Archer*:\n\n1. Strong hull\n2. Round bottom\n\n> A ship for the ice.\n\n| Voyage | Years |\n|---|---:|\n| Nansen | 1893–96 |\n\n```js\nconst ship = \"Fram\";\n```\n\nSee [the museum](https://frammuseum.no/).";

const TITLES = ["Who designed the ship Fram?", "A title that is much longer than the list is wide, so that it is cut", null, "מי בנה את הספינה?"];

const EVENT = { event_id: "e", calendar: "primary", title: "Meeting the shipyard", start: "2026-11-30T14:00:00Z", end: "2026-11-30T15:30:00Z", all_day: false, status: "confirmed", attendees: ["anna@example.org"] };
const RESULTS = [
  { ticket_id: "T-1042", status: "open", urgency: "high", created_at: "2026-11-28T12:00:00Z" },
  { ranked: Array.from({ length: 14 }, (_, at) => ({ rank: at + 1, score: 1 - at / 20, item: { name: `A ship with a long name ${at}`, built: "1892-10-26", price: 1200 - at } })), count: 14 },
  { results: [{ id: "ship:fram", type: "ship", title: "Fram", snippet: "Fram was designed by Colin Archer for the ice, with a round hull that it lifts.", last_updated: "2026-01-05", url: "https://frammuseum.no/polar-history/vessels/the-polar-ship-fram/" }, { id: "person:archer", type: "person", title: "Colin Archer", snippet: "A shipbuilder." }], retrieval: "lexical" },
  { emails: ["anna@example.org"], phones: [{ number: "+4723282950", written: "+47 23 28 29 50", region: "NO" }], links: ["https://frammuseum.no/en"], more: false },
  { time_zone: "Europe/Oslo", existing_events: [{ ...EVENT, title: null, status: "busy" }], available_slots: [{ start: "2026-11-30T08:00:00Z", end: "2026-11-30T12:00:00Z", duration_minutes: 240 }, { start: "2026-12-01T08:00:00Z", end: "2026-12-01T08:30:00Z", duration_minutes: 30 }], summary: "1 busy period, 2 slots" },
  { time_zone: "Europe/Oslo", items: [EVENT, { ...EVENT, title: "A night at sea", end: "2026-12-01T06:00:00Z", status: "tentative", location: "Quay 4", description: "Bring warm clothes." }, { ...EVENT, title: "Given up", start: "2026-12-02T14:00:00Z", end: "2026-12-02T15:00:00Z", status: "cancelled" }, { ...EVENT, title: "Holiday", start: "2026-12-24T00:00:00Z", end: "2026-12-27T00:00:00Z", all_day: true }], left_out: 40 },
];
const STATS = Object.fromEntries(["kb_search", "calendar_get_availability", "lookup_order"].map((name, at) => [name, { calls: 120 - at, errors: at, errorsByType: at === 0 ? {} : { VALIDATION: at, TRANSIENT: 1 }, successRate: 1 - at / 120, p50: 4, p95: 1250 }]));

let files;
let written;
let browser;

/** A server that answers in writing: with half an answer at first, and with a request for approval that is already answered. */
function answerInWriting({ path }) {
  if (path === "/api/conversations") {
    const rows = TITLES.map((title, at) => ({ id: `c${at}`, title, createdAt: "2026-11-20T10:00:00Z", updatedAt: "2026-11-20T10:00:00Z", messages: 2 * at + 1 }));
    return { json: { conversations: rows, next: "more" } };
  }
  return path === "/api/chat" ? { events: [{ type: "text-delta", id: "t", delta: "Colin Arch" }, { type: "error", errorText: "The model is gone." }, { type: "finish", finishReason: "error" }] } : null;
}

before(async () => {
  files = await servePage({ suggestions: ["Who designed the ship Fram?", "Where is the Fram Museum?"] }, ({ path }) => (path === "/api/tools/stats" ? { json: STATS } : null));
  written = await servePage({ text: { available: true, provider: "test", model: "test-model" } }, answerInWriting);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
  written?.close();
});

async function look(page, name) {
  // A page that is being drawn has colours that nobody reads.
  await page.evaluate(() => Promise.all(document.getAnimations().filter(({ effect }) => effect.getTiming().iterations !== Infinity).map(({ finished }) => finished)));
  if (process.env.WINDLASS_SCREENSHOTS) await page.screenshot({ path: join(process.env.WINDLASS_SCREENSHOTS, `${name}.png`) });
  if (!IS_FIREFOX) await findNothing(page, name);
  assert.deepEqual(await lowContrasts(page), [], name);
  assert.equal(await overflowPixels(page), 0, name);
}

/** In Chromium alone: `NOT_IN_FIREFOX.axe`. */
async function findNothing(page, name) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(" ")}`), []);
}

/** Calls that bring what has a form of its own. */
function bringResults(endpoint) {
  for (const [at, result] of RESULTS.entries()) {
    const call = { callId: `result-${at}`, tool: `tool_${at}` };
    endpoint.send({ type: "tool_call_started", ...call, args: {}, status: "Looking" });
    endpoint.send({ type: "tool_call_finished", ...call, ok: true, durationMs: 20, result: JSON.stringify(result) });
  }
}

/** The states that a visitor comes through, one after the other. */
async function goThrough(page, endpoint, show) {
  await show("empty");
  await ask(page, "Who designed the Fram?");
  await endpoint.next("text");
  endpoint.send({ type: "tool_call_started", callId: "1", tool: "plan_trip", args: { query: "Fram", start_date: "2026-12-01", topK: 3 }, status: "Planning" });
  endpoint.send({ type: "tool_call_started", callId: "2", tool: "kb_search", args: { query: "Fram" }, status: "Searching", parentCallId: "1" });
  endpoint.send({ type: "transcript", role: "assistant", text: ANSWER.slice(0, 90), final: false });
  endpoint.send({ type: "tool_progress", callId: "2", message: "half way", fraction: 0.5 });
  await page.getByText("half way").first().waitFor({ state: "attached" });
  await show("working");
  endpoint.send({ type: "tool_call_finished", callId: "2", tool: "kb_search", ok: false, durationMs: 40, errorType: "VALIDATION", message: "/query is too short", parentCallId: "1" });
  endpoint.send({ type: "tool_call_finished", callId: "1", tool: "plan_trip", ok: true, durationMs: 90, result: '{"stops":[{"name":"Oslo"}]}' });
  endpoint.send({ type: "transcript", role: "assistant", text: ANSWER, final: true, citations: [{ id: "ship:fram", title: "Fram", url: "https://frammuseum.no/" }, { id: "p", title: "Colin Archer" }] });
  endpoint.send({ type: "turn_complete", turn: 1 });
  await untilState(page, { turnsCompleted: 1 });
  await show("answered");
  bringResults(endpoint);
  await page.locator(".ticket").waitFor({ state: "attached" });
  await page.evaluate(() => {
    document.querySelector("#calls").open = true;
    document.querySelectorAll(".call-result").forEach((result, at) => (result.open = at % 2 === 0));
  });
  await show("results");
  await page.getByRole("button", { name: "Tool statistics" }).click();
  await page.locator("#tool-stats").getByRole("row").nth(3).waitFor();
  await show("tool-stats");
  await page.keyboard.press("Escape");
  await page.evaluate(() => (document.querySelector("#calls").open = false));
  const request = { type: "confirmation_request", tool: "pay", args: { amount: 10, recipients: ["Ada", "Bo"], urgent: true, when: { day: "2026-12-24" } }, expiresAt: Date.now() + 300_000 };
  endpoint.send({ ...request, callId: "3", token: "t3", preview: "Pay 10 on 2026-12-24T17:00:00Z" });
  endpoint.send({ ...request, callId: "4", token: "t4", warning: 'This was done before, at 2026-11-27T12:03:10Z, with {"amount":10}.' });
  await page.getByRole("button", { name: "Yes, go ahead", disabled: false }).waitFor();
  await show("approvals");
  await page.locator("#settings-button").click();
  await page.locator("#settings").waitFor();
  await show("settings");
  await page.keyboard.press("Escape");
  await endpoint.close();
  await untilState(page, { phase: "reconnecting" });
  await page.getByText("The server cannot be reached").waitFor();
  await show("unreachable");
}

/** The states of a conversation in writing, and of the list of conversations. */
async function goThroughWriting(page, show) {
  await page.locator("#history-button").click();
  await page.locator(".history-item").nth(TITLES.length - 1).waitFor();
  await show("list");
  await page.getByRole("button", { name: "Rename Who designed" }).click();
  await page.getByRole("button", { name: "Delete A title" }).click();
  await show("list-changing");
  await page.getByRole("button", { name: "Close the list" }).click();
  await page.locator("#files").setInputFiles([{ name: "ship.png", mimeType: "image/png", buffer: await picture(page) }]);
  await page.locator(".attachment").waitFor();
  await page.getByLabel("Message", { exact: true }).fill("Who designed this ship?");
  await show("attached");
  await page.getByLabel("Message", { exact: true }).press("Enter");
  await page.getByRole("button", { name: "Retry" }).waitFor();
  await page.getByRole("button", { name: "Edit this message" }).click();
  await page.locator("#editing").waitFor();
  await show("failed-editing");
}

async function picture(page) {
  return Buffer.from(await page.evaluate(async () => {
    const canvas = new OffscreenCanvas(600, 400);
    const context = canvas.getContext("2d");
    context.fillStyle = "#2d6a77";
    context.fillRect(0, 0, 600, 400);
    return [...new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer())];
  }));
}

for (const [device, context] of Object.entries(DEVICES)) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${FINDING} in writing and in the list, ${device}, ${colorScheme}`, async () => {
      await visit(browser, written.url, { context: { ...context, colorScheme } }, async (page) => {
        await goThroughWriting(page, (state) => look(page, `${device}-${colorScheme}-${state}`));
      });
    });

    test(`${FINDING} in any state, ${device}, ${colorScheme}`, async () => {
      const endpoint = new VoiceEndpoint();
      const prepare = async (page) => {
        await endpoint.attach(page);
        // Who has been in once is refused from then on, so that the page stays without its server.
        const start = endpoint.onStart;
        endpoint.onStart = () => {
          start();
          endpoint.onStart = () => endpoint.close();
        };
      };
      await visit(browser, files.url, { context: { ...context, colorScheme }, prepare }, async (page) => {
        await goThrough(page, endpoint, (state) => look(page, `${device}-${colorScheme}-${state}`));
      });
    });
  }
}

test("on a phone on its side the conversation has most of the screen", async () => {
  await visit(browser, files.url, { context: SIDEWAYS }, async (page) => {
    const { width, height } = await page.locator("#conversation").boundingBox();
    assert.ok(height >= 0.85 * 390 && width >= 0.6 * 844, `${width} by ${height}`);
    assert.ok((await page.getByLabel("Message", { exact: true }).boundingBox()).width > 100);
  });
});

testInChromium("the theme is the system's until another is chosen, and stays chosen over a reload", NOT_IN_FIREFOX.system, async () => {
  await visit(browser, files.url, { context: { ...DESK, colorScheme: "light" }, excused: /404/ }, async (page) => {
    // The page hears of the system's choice some time later.
    const untilTheme = (theme) => page.waitForFunction((theme) => {
      const root = document.documentElement;
      return root.dataset.theme === theme && getComputedStyle(root).colorScheme === theme;
    }, theme);
    await untilTheme("light");
    await page.emulateMedia({ colorScheme: "dark" });
    await untilTheme("dark");
    await page.locator("#settings-button").click();
    await page.getByRole("radio", { name: "Light" }).check();
    await untilTheme("light");
    await page.reload();
    await untilTheme("light");
    await page.locator("#settings-button").click();
    await page.keyboard.press("Tab");
    await page.keyboard.press("ArrowLeft");
    await untilTheme("dark");
  });
});

test("storage that is forbidden takes nothing away but memory", async () => {
  const prepare = (page) => page.addInitScript(() => {
    for (const name of ["localStorage", "sessionStorage"]) {
      Object.defineProperty(window, name, { get: () => { throw new DOMException("forbidden", "SecurityError"); } });
    }
  });
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { prepare: async (page) => { await prepare(page); await endpoint.attach(page); } }, async (page) => {
    await page.locator("#settings-button").click();
    await page.getByRole("radio", { name: "Dark" }).check();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await page.keyboard.press("Escape");
    await ask(page, "Hello");
    assert.equal((await endpoint.next("text")).text, "Hello");
  });
});

testInChromium("microphone and speaker can be chosen, and both are metered", NOT_IN_FIREFOX.microphones, async () => {
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { prepare: (page) => endpoint.attach(page) }, async (page) => {
    await page.getByRole("button", { name: "Talk" }).click();
    await untilState(page, { microphone: "on", phase: "live" });
    await page.waitForFunction(() => document.querySelector("#level-in").value > 0);
    await page.locator("#settings-button").click();
    const choice = page.getByLabel("Microphone", { exact: true });
    await page.waitForFunction(() => document.querySelector("#microphone").options.length > 2);
    const label = await choice.locator("option").nth(2).textContent();
    await choice.selectOption({ label });
    await untilState(page, { microphone: "on" });
    const kept = await page.evaluate(() => localStorage.getItem("windlass.microphone"));
    assert.equal(kept, await choice.inputValue());
    assert.notEqual(kept, "");
    await page.keyboard.press("Escape");
    endpoint.sendTone(3_000);
    await page.waitForFunction(() => document.querySelector("#level-out").value > 0);
  });
});

test("a server that is gone is said so, tried again, and tried at once on a click", async () => {
  let isGone = true;
  const prepare = (page) => page.route(/\/(health|api\/info)$/, (route) => (isGone ? route.abort("connectionrefused") : route.fulfill({ json: { suggestions: [], text: {} } })));
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { excused: /ERR_CONNECTION_REFUSED/, prepare: async (page) => { await prepare(page); await endpoint.attach(page); } }, async (page) => {
    const banner = page.locator(".notice[data-subject=reach]");
    await banner.getByText(/The next try is in 0:0\d/).waitFor();
    await ask(page, "Hello");
    assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "Hello", "what nobody can take stays");
    isGone = false;
    await banner.getByRole("button", { name: "Try now" }).click();
    await banner.waitFor({ state: "hidden" });
    await page.getByLabel("Message", { exact: true }).press("Enter");
    assert.equal((await endpoint.next("text")).text, "Hello");
  });
});

test("of a conversation of 10,000 messages the browser draws what is in sight", async () => {
  await visit(browser, files.url, {}, async (page) => {
    const drawn = await page.evaluate(async () => {
      const { Transcript } = await import(new URL("transcript.js", document.baseURI));
      const log = document.querySelector("#transcript");
      const transcript = new Transcript(log, document.querySelector("#conversation"), document.querySelector("#to-end"), { onEdit() {}, onAgain() {} });
      for (let at = 1; at <= 10_040; at += 1) transcript.receive({ role: at % 2 ? "user" : "assistant", text: `Message **${at}**`, final: true });
      const frame = () => new Promise(requestAnimationFrame);
      for (let frames = 0; frames < 3; frames += 1) await frame();
      const lines = [...log.querySelectorAll(".line")];
      const inSight = lines.filter((line) => line.checkVisibility({ contentVisibilityAuto: true }));
      return { lines: lines.length, first: lines[0].querySelector(".words").textContent, inSight: inSight.length, last: inSight.at(-1) === lines.at(-1) };
    });
    assert.deepEqual([drawn.lines, drawn.first, drawn.last], [10_000, "Message **41**", true]);
    assert.ok(drawn.inSight <= 200, `${drawn.inSight} lines are drawn`);
  });
});
