// What the page makes of each message of the voice protocol, hostile and unlucky ones included. Needs no server of ours.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { NOT_IN_FIREFOX, ask, launch, overflowPixels, state, testInChromium, untilState, visit } from "./browser.mjs";
import { VoiceEndpoint, servePage } from "./scripted.mjs";

let files;
let browser;

before(async () => {
  files = await servePage();
  browser = await launch({ more: ["--host-resolver-rules=MAP phone.test 127.0.0.1"] });
});

after(async () => {
  await browser?.close();
  files?.close();
});

/** Opens the page, begins a session by typing, and runs `steps(page, endpoint)`. */
async function inSession(steps, { url = files.url, context } = {}) {
  const endpoint = new VoiceEndpoint();
  await visit(browser, url, { context, prepare: (page) => endpoint.attach(page) }, async (page) => {
    await ask(page, "Hello");
    assert.equal((await endpoint.next("text")).text, "Hello");
    await steps(page, endpoint);
  });
}

test("typing begins a session, and the words arrive after the start", async () => {
  await inSession(async (page, endpoint) => {
    assert.deepEqual(endpoint.received.map(({ type }) => type), ["start", "text"]);
    endpoint.send({ type: "transcript", role: "user", text: "Hello", final: true });
    endpoint.send({ type: "turn_complete", turn: 1 });
    await untilState(page, { turnsCompleted: 1 });
    assert.equal(await page.locator(".line.user").count(), 1);
  });
});

test("pieces of a transcript join, and the final text replaces them", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ type: "transcript", role: "assistant", text: "Good ", final: false });
    endpoint.send({ type: "transcript", role: "assistant", text: "mornin", final: false });
    await page.locator("#transcript").getByText("Good mornin", { exact: true }).waitFor();
    endpoint.send({ type: "transcript", role: "assistant", text: "Good morning.", final: true });
    await page.locator("#transcript").getByText("Good morning.", { exact: true }).waitFor();
    assert.equal(await page.locator(".line.assistant").count(), 1);
  });
});

test("recognised speech that arrives late stands before its answer", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ type: "transcript", role: "assistant", text: "An answer", final: false });
    endpoint.send({ type: "transcript", role: "user", text: "A question", final: true });
    await page.getByText("A question").waitFor();
    assert.deepEqual(await page.locator(".line .words").allTextContents(), ["Hello", "A question", "An answer"]);
  });
});

test("what others wrote is text and never markup, and only web addresses are links", async () => {
  const markup = "<img src=x onerror=alert(1)><b>bold</b>";
  await inSession(async (page, endpoint) => {
    const citations = [
      { id: "a", title: markup, url: "javascript:alert(1)" },
      { id: "b", title: "data", url: "data:text/html,x" },
      { id: "c", title: "good", url: "https://example.org/a" },
      null,
      "plain-id",
    ];
    const images = [{ url: "javascript:alert(1)" }, { url: "https://example.org/i.png", caption: markup }];
    endpoint.send({ type: "transcript", role: "assistant", text: markup, final: true, citations, images });
    endpoint.send({ type: "tool_call_started", callId: "1", tool: markup, args: { [markup]: markup }, status: markup });
    endpoint.send({ type: "error", code: "other", message: markup });
    await page.locator(".notice[data-subject=error]").waitFor();
    assert.equal(await page.locator("main b, main img").count(), 0);
    const links = page.locator("main a");
    assert.deepEqual(await links.evaluateAll((all) => all.map(({ href, rel }) => [href, rel])), [
      ["https://example.org/a", "noopener noreferrer"],
      ["https://example.org/i.png", "noopener noreferrer"],
    ]);
    assert.equal(await overflowPixels(page), 0);
  });
});

test("a picture is shown as soon as it comes, once an answer", async () => {
  await inSession(async (page, endpoint) => {
    const deck = { url: "icon.svg", caption: "Deck" };
    const hull = { url: "https://example.org/hull.png", caption: "Hull" };
    endpoint.send({ type: "image", ...deck });
    await page.getByText("Deck", { exact: true }).waitFor();
    endpoint.send({ type: "transcript", role: "assistant", text: "Here they are.", final: true, images: [deck, hull, { url: "icon.svg" }] });
    await page.getByText("Open image: Hull").waitFor();
    assert.equal(await page.locator(".line.assistant").count(), 1);
    assert.equal(await page.locator("main figure").count(), 2);
    endpoint.send({ type: "turn_complete", turn: 1 });
    endpoint.send({ type: "transcript", role: "user", text: "Once more", final: true });
    endpoint.send({ type: "transcript", role: "assistant", text: "Again.", final: true, images: [deck] });
    await page.locator("main figure").nth(2).waitFor();
    assert.equal(await page.locator("main img").count(), 2);
  });
});

test("messages that the page does not know or cannot read change nothing", async () => {
  await inSession(async (page, endpoint) => {
    for (const text of ["{", "null", "[]", '"text"', '{"type":"__proto__"}', '{"type":"constructor"}', '{"type":"novelty"}']) {
      endpoint.sendText(text);
    }
    endpoint.send({ type: "transcript", role: "__proto__", text: "x", final: true });
    endpoint.send({ type: "transcript", role: "assistant", text: { a: 1 }, final: true });
    endpoint.send({ type: "tool_call_finished", callId: "never-started", tool: "kb_get", ok: true, durationMs: 3 });
    endpoint.send({ type: "turn_complete", turn: 1 });
    await untilState(page, { turnsCompleted: 1, phase: "live" });
    assert.equal(await page.locator(".line.assistant").count(), 0);
    assert.deepEqual(await page.locator(".call-name").allTextContents(), ["kb_get"]);
  });
});

test("each way a call can end is told", async () => {
  const outcomes = [
    ["done", { ok: true }, /^Done$/],
    ["done", { ok: true, result: '{"result":{"id":"ship:fram"}}' }, /^Done$/, "Result: (Id: ship:fram)"],
    ["done", { ok: true, result: '{"id":12345678901234567890,"price":1.10}' }, /^Done$/, "Id: 12345678901234567890; Price: 1.10"],
    ["done", { ok: true, result: '{"cut":"…' }, /^Done$/, '{"cut":"…'],
    ["done", { ok: true, result: "x".repeat(1000) }, /^Done$/, `${"x".repeat(89)}…`],
    ["refused", { ok: false, errorType: "VALIDATION", message: "/query is required" }, /Refused\s*VALIDATION/],
    ["refused", { ok: false, errorType: "CANCELLED" }, /Cancelled/],
    ["failed", { ok: false, errorType: "TRANSIENT" }, /Failed\s*TRANSIENT/],
    ["failed", { ok: false, errorType: "OUTCOME_UNKNOWN" }, /may or may not/],
    ["waiting", { ok: false, errorType: "CONFIRMATION_REQUIRED" }, /Waiting for you/],
    ["failed", { ok: false, errorType: "constructor" }, /Failed/],
    ["failed", { ok: false }, /Failed/],
  ];
  await inSession(async (page, endpoint) => {
    for (const [index, [wanted, outcome, words, result]] of outcomes.entries()) {
      const callId = `call-${index}`;
      endpoint.send({ type: "tool_call_started", callId, tool: "kb_search", args: { query: "Fram" }, status: "Searching" });
      const row = page.locator(".call").last();
      await page.locator(`.call[data-state=running]`).waitFor();
      endpoint.send({ type: "tool_progress", callId, message: "Half way", fraction: 0.5 });
      await row.getByText("Half way").waitFor();
      assert.equal(await row.getByRole("progressbar").evaluate(({ value }) => value), 0.5);
      endpoint.send({ type: "tool_call_finished", callId, tool: "kb_search", durationMs: 1234, ...outcome });
      await page.locator(".call").last().and(page.locator(`[data-state=${wanted}]`)).waitFor();
      assert.equal(await row.getByRole("button", { name: "Stop" }).count(), 0, "nothing is left to stop");
      if (wanted !== "waiting") assert.equal(await row.locator(".call-status").textContent(), "", "nothing goes on");
      assert.match(await row.locator(".call-outcome").textContent(), words);
      assert.equal(await row.locator(".call-message").textContent(), outcome.message ?? "");
      assert.deepEqual(await row.locator(".call-message code").allTextContents(), outcome.message ? ["/query"] : []);
      assert.deepEqual(await row.locator(".call-brief").allTextContents(), result === undefined ? [] : [result]);
      assert.equal(await row.locator(".call-time").textContent(), "1.2 s");
    }
    assert.equal(await page.locator("#calls-summary").textContent(), `${outcomes.length} calls`);
  });
});

test("a running call can be stopped, and what came of that is told", async () => {
  await inSession(async (page, endpoint) => {
    const row = page.locator(".call").last();
    const stop = row.getByRole("button", { name: "Stop" });
    for (const [outcome, words] of [
      ["stopped", null],
      ["runs_on", /It goes on.*has begun/],
      ["already_cancelled", /cannot be stopped/],
      ["ended", /cannot be stopped/],
      ["unknown", /cannot be stopped/],
    ]) {
      const callId = `call-${outcome}`;
      endpoint.send({ type: "tool_call_started", callId, tool: "export", args: {}, status: "Exporting" });
      await page.locator(".call[data-state=running]").waitFor();
      await stop.click();
      assert.equal((await endpoint.next("cancel")).callId, callId);
      assert.equal(await stop.isDisabled(), true, "one click asks once");
      endpoint.send({ type: "cancel_result", callId, outcome, message: "so it is" });
      await stop.waitFor({ state: "hidden" });
      if (words) assert.match(await row.locator(".call-outcome").textContent(), words);
      endpoint.send({ type: "tool_call_finished", callId, tool: "export", ok: outcome === "runs_on", errorType: outcome === "runs_on" ? undefined : "CANCELLED", message: "the user stopped export before it had ended", durationMs: 5 });
      await page.locator(".call").last().and(page.locator(`[data-state=${outcome === "runs_on" ? "done" : "refused"}]`)).waitFor();
      if (outcome !== "runs_on") {
        assert.match(await row.locator(".call-outcome").textContent(), /^Stopped\s*You stopped this\.$/);
        assert.equal(await row.locator(".call-message").textContent(), "", "what the model reads is not said to people");
      }
    }
    // Of tools with sensitive arguments nobody is told a message, and another tab has no click.
    for (const [callId, message, isClicked] of [["call-7", undefined, true], ["call-8", "the user stopped export before it had ended", false]]) {
      endpoint.send({ type: "tool_call_started", callId, tool: "export", args: {}, status: "" });
      await page.locator(".call[data-state=running]").waitFor();
      if (isClicked) await stop.click();
      endpoint.send({ type: "tool_call_finished", callId, tool: "export", ok: false, errorType: "CANCELLED", message, durationMs: 5 });
      await row.getByText("You stopped this.").waitFor();
    }
    assert.equal((await endpoint.next("cancel")).callId, "call-7");
    // A call that a tool made stops with the one above it.
    endpoint.send({ type: "tool_call_started", callId: "call-11", tool: "plan", args: {}, status: "" });
    endpoint.send({ type: "tool_call_started", callId: "call-12", tool: "find", args: {}, status: "", parentCallId: "call-11" });
    await page.locator(".call-children .call[data-state=running]").waitFor();
    assert.equal(await page.getByRole("button", { name: "Stop plan" }).count(), 1);
    assert.equal(await page.getByRole("button", { name: "Stop find" }).count(), 0);
    endpoint.send({ type: "tool_call_finished", callId: "call-12", tool: "find", ok: true, durationMs: 5, parentCallId: "call-11" });
    endpoint.send({ type: "tool_call_finished", callId: "call-11", tool: "plan", ok: true, durationMs: 5 });
    await page.locator(".call[data-state=done]").nth(2).waitFor();
    endpoint.send({ type: "cancel_result", callId: "never-started", outcome: "unknown" });
    endpoint.send({ type: "cancel_result" });
    // What is at work can be stopped, too, and what waits for the user cannot.
    endpoint.send({ type: "tool_call_started", callId: "call-9", tool: "export", args: {}, status: "" });
    endpoint.send({ type: "tool_call_finished", callId: "call-9", tool: "export", ok: true, accepted: true, durationMs: 5 });
    await stop.click();
    assert.equal((await endpoint.next("cancel")).callId, "call-9");
    endpoint.send({ type: "tool_call_finished", callId: "call-10", tool: "export", ok: false, errorType: "CONFIRMATION_REQUIRED", durationMs: 5 });
    await page.locator(".call[data-state=waiting]").nth(1).waitFor();
    assert.equal(await page.locator(".call").last().getByRole("button", { name: "Stop" }).count(), 0);
  });
});

test("what a call shows before its end grows, as text, and gives way to the result", async () => {
  await inSession(async (page, endpoint) => {
    const output = page.locator(".call").last().locator(".call-output");
    const callId = "call-1";
    endpoint.send({ type: "tool_output", callId: "never-started", sequence: 1, data: "x" });
    endpoint.send({ type: "tool_call_started", callId, tool: "export", args: {}, status: "" });
    endpoint.send({ type: "tool_output", callId, sequence: 1, data: "<b>one</b> " });
    endpoint.send({ type: "tool_output", callId, sequence: 2, data: "two\n" });
    endpoint.send({ type: "tool_output", callId, sequence: 4, data: { row: 12345678901234567890n.toString() } });
    endpoint.send({ type: "tool_output", callId, sequence: 5 });
    await output.getByText("12345678901234567890").waitFor();
    assert.match(await output.textContent(), /^<b>one<\/b> two\n\{\s*"row"/);
    for (let sequence = 6; sequence < 20; sequence += 1) endpoint.send({ type: "tool_output", callId, sequence, data: "y".repeat(10_000) });
    endpoint.send({ type: "tool_output", callId, sequence: 20, data: "last" });
    await output.getByText("last").waitFor();
    assert.equal((await output.textContent()).length, 20_000);
    assert.equal(await overflowPixels(page), 0);
    endpoint.send({ type: "tool_call_finished", callId, tool: "export", ok: true, durationMs: 5, result: '{"rows":7}' });
    await page.locator(".call[data-state=done]").waitFor();
    assert.equal(await output.textContent(), "");
    endpoint.send({ type: "tool_output", callId, sequence: 21, data: "late" });
    endpoint.send({ type: "tool_call_started", callId: "call-2", tool: "export", args: {}, status: "" });
    endpoint.send({ type: "tool_output", callId: "call-2", sequence: 1, data: "begun" });
    await output.getByText("begun").waitFor();
    endpoint.send({ type: "tool_call_finished", callId: "call-2", tool: "export", ok: false, errorType: "TRANSIENT", message: "broken", durationMs: 5 });
    await page.locator(".call[data-state=failed]").waitFor();
    assert.deepEqual(await page.locator(".call-output").allTextContents(), ["", ""]);
  });
});

test("calls stand below the call that made them, and those of a turn share one scale", async () => {
  await inSession(async (page, endpoint) => {
    const start = (callId, tool, more = {}) => endpoint.send({ type: "tool_call_started", callId, tool, args: {}, status: "", ...more });
    const end = (callId, tool, durationMs, more = {}) => endpoint.send({ type: "tool_call_finished", callId, tool, ok: true, durationMs, ...more });
    start("1", "plan_trip");
    start("2", "find_ship", { parentCallId: "1" });
    start("3", "find_crew", { parentCallId: "2" });
    end("3", "find_crew", 50, { parentCallId: "2" });
    end("2", "find_ship", 100, { parentCallId: "1" });
    end("1", "plan_trip", 200);
    await page.locator(".call[data-state=done]").nth(2).waitFor();
    const parents = await page.locator(".call").evaluateAll((all) => all.map((call) => {
      const parent = call.parentElement.closest(".call");
      return [call, parent].map((each) => each?.querySelector(".call-name").textContent ?? null);
    }));
    assert.deepEqual(parents, [["plan_trip", null], ["find_ship", "plan_trip"], ["find_crew", "find_ship"]]);
    const parts = await page.locator(".call-track span").evaluateAll((all) => all.map(({ style }) => Number(style.getPropertyValue("--part"))));
    assert.equal(parts[0], 1, "the longest fills the scale");
    assert.ok(Math.abs(parts[1] - 0.5) < 0.01 && Math.abs(parts[2] - 0.25) < 0.01, `${parts}`);
    assert.match(await page.locator(".calls-turn").textContent(), / · 3 calls · 200 ms$/);
    // What the user says next is another turn.
    await ask(page, "And now?");
    end("4", "find_port", 10);
    await page.getByText("find_port").waitFor();
    assert.deepEqual(await page.locator(".calls-turn").allTextContents().then((all) => all.map((text) => text.split(" · ")[1])), ["1 call", "3 calls"]);
  });
});

test("a refused call, which never started, shows what it asked for", async () => {
  await inSession(async (page, endpoint) => {
    const refusal = { type: "tool_call_finished", tool: "kb_search", ok: false, durationMs: 0, errorType: "BUDGET_EXCEEDED" };
    endpoint.send({ ...refusal, callId: "call-3", args: { query: "Fram", top_k: 3 } });
    await page.locator(".call[data-state=refused]").waitFor();
    assert.match(await page.locator(".call-outcome").textContent(), /Refused\s*BUDGET_EXCEEDED/);
    assert.deepEqual(await page.locator(".call .fields dt").allTextContents(), ["Query", "Top k"]);
    assert.deepEqual(await page.locator(".call .fields dd").allTextContents(), ["Fram", "3"]);
    assert.equal(await page.locator("#calls-summary").textContent(), "1 call");
  });
});

test("playback is reported done once, when the audio of a finished turn has been heard", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(2000);
    await untilState(page, { speaking: true });
    endpoint.send({ type: "turn_complete", turn: 1 });
    await untilState(page, { turnsCompleted: 1 });
    assert.equal(endpoint.all("playback_done").length, 0);
    await endpoint.next("playback_done");
    const { framesPlayed, framesReceived, speaking } = await state(page);
    assert.deepEqual({ framesPlayed, framesReceived, speaking }, { framesPlayed: 50, framesReceived: 50, speaking: false });
    assert.equal(endpoint.all("playback_done").length, 1);
  });
});

test("a turn without audio is reported done at once", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ type: "turn_complete", turn: 1 });
    await endpoint.next("playback_done");
  });
});

test("an interruption by the server silences what was queued, and the next answer is heard", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(5000);
    await untilState(page, { speaking: true, framesReceived: 125 });
    endpoint.send({ type: "interrupted" });
    await untilState(page, { speaking: false, interruptions: 1 });
    const { framesPlayed, framesDropped } = await state(page);
    assert.equal(framesPlayed + framesDropped, 125);
    endpoint.sendTone(200);
    await untilState(page, { framesPlayed: framesPlayed + 5 });
    assert.equal((await state(page)).framesDropped, framesDropped);
  });
});

test("after the user interrupted, audio of the old answer is thrown away until the server has followed", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(2000);
    await untilState(page, { speaking: true, framesReceived: 50 });
    await page.getByRole("button", { name: "Stop the answer" }).click();
    await endpoint.next("interrupt");
    const { framesPlayed } = await state(page);
    endpoint.sendTone(400);
    await untilState(page, { framesReceived: 60, framesDropped: 60 - framesPlayed, speaking: false });
    endpoint.send({ type: "interrupted" });
    endpoint.sendTone(200);
    await untilState(page, { framesPlayed: framesPlayed + 5 });
    assert.equal((await state(page)).interruptions, 1);
  });
});

test("typed words cut off the answer that is being spoken", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(3000);
    await untilState(page, { speaking: true });
    await ask(page, "Something else");
    await endpoint.next("interrupt");
    assert.equal((await endpoint.next("text")).text, "Something else");
    await untilState(page, { speaking: false });
    // The server's answer to the interruption must not end the wait for the new answer.
    endpoint.send({ type: "turn_complete", turn: 1 });
    endpoint.send({ type: "interrupted" });
    endpoint.send({ type: "tool_call_finished", callId: "last", tool: "kb_get", ok: true, durationMs: 3 });
    await page.getByText("kb_get").waitFor();
    assert.deepEqual([(await state(page)).generating, (await state(page)).interruptions], [true, 1]);
  });
});

test("what still comes of an answer that was cut off completes its line and opens none below the newer question", async () => {
  const piece = (text) => ({ type: "transcript", role: "assistant", text, final: false });
  for (const seen of [true, false]) {
    await inSession(async (page, endpoint) => {
      if (seen) {
        endpoint.send(piece("Colin"));
        await page.getByText("Colin", { exact: true }).waitFor();
      }
      await ask(page, "Something else");
      await endpoint.next("interrupt");
      endpoint.send(piece(" Arch"));
      endpoint.send({ type: "model_generating" });
      endpoint.send(piece("er did"));
      endpoint.send({ type: "interrupted" });
      endpoint.send(piece("."));
      endpoint.send({ type: "transcript", role: "assistant", text: "Colin Archer did.", final: true });
      endpoint.send({ type: "model_generating" });
      endpoint.send(piece("A new "));
      endpoint.send(piece("answer"));
      await page.getByText("A new answer").waitFor();
      const old = seen ? ["Colin Archer did."] : [];
      assert.deepEqual(await page.locator(".line .words").allTextContents(), ["Hello", ...old, "Something else", "A new answer"]);
    });
  }
});

const PROPOSAL = {
  type: "confirmation_request",
  callId: "call-1",
  token: "token-1",
  tool: "calendar_create_event",
  args: { title: "Visit", guests: 2 },
  preview: "Create Visit with 2 guests",
};

const card = (page, state = "open") => page.locator(`.card[data-state=${state}]`);
const choice = (page, name) => card(page).getByRole("button", { name, disabled: false });

test("an approval is asked for with its preview, and the answer carries its token", async () => {
  for (const [name, approved] of [["Yes, go ahead", true], ["No, do not", false]]) {
    await inSession(async (page, endpoint) => {
      endpoint.send({ type: "tool_call_started", callId: "call-1", tool: PROPOSAL.tool, args: PROPOSAL.args, status: "" });
      endpoint.send({ type: "tool_call_finished", callId: "call-1", tool: PROPOSAL.tool, ok: false, durationMs: 1, errorType: "CONFIRMATION_REQUIRED" });
      endpoint.send({ ...PROPOSAL, expiresAt: Date.now() + 300_000 });
      await card(page).getByText(PROPOSAL.preview).waitFor();
      await card(page).getByText(/You can answer for another [45]:\d\d/).waitFor();
      await choice(page, name).click();
      const { token, approved: given } = await endpoint.next("confirm");
      assert.deepEqual([token, given], ["token-1", approved]);
      await card(page, "answered").getByText(approved ? "You said yes" : "You said no").waitFor();
      const response = approved ? { ok: true, meta: { durationMs: 42 } } : { ok: false, error: { type: "CONFIRMATION_DECLINED" } };
      endpoint.send({ type: "confirmation_result", callId: "call-1", ok: approved, response });
      await page.locator(`.call[data-state=${approved ? "done" : "refused"}]`).waitFor();
      await page.locator("#approvals").waitFor({ state: "hidden" });
      assert.equal(await page.locator(".notice[data-subject=elsewhere]").count(), 0);
    });
  }
});

test("an approval says why it is asked for, as the words are and where there are any", async () => {
  await inSession(async (page, endpoint) => {
    const because = "the condition holds: args.guests > 1 && mode in ['voice'] || <b>";
    endpoint.send({ ...PROPOSAL, because, expiresAt: Date.now() + 300_000 });
    await card(page).getByText(PROPOSAL.preview).waitFor();
    assert.equal(await page.locator(".card-because").textContent(), `Why you are asked: ${because}`);
    endpoint.send({ ...PROPOSAL, token: "token-2", expiresAt: Date.now() + 300_000 });
    await page.locator(".card-because").waitFor({ state: "hidden" });
  });
});

test("the time to answer begins with five minutes, however long a message of the server takes", async () => {
  for (const delayMs of [0, 300]) {
    const endpoint = new VoiceEndpoint();
    endpoint.delayMs = delayMs;
    await visit(browser, files.url, { prepare: (page) => endpoint.attach(page) }, async (page) => {
      await ask(page, "Hello");
      await endpoint.next("text");
      await page.evaluate(() => {
        window.shownTimes = [];
        const look = () => window.shownTimes.push(document.querySelector(".card-clock")?.textContent ?? "");
        new MutationObserver(look).observe(document.querySelector("#approvals"), { childList: true, subtree: true });
      });
      endpoint.send({ ...PROPOSAL, expiresAt: Date.now() + 300_000 });
      await page.getByText(/You can answer/).waitFor();
      const shown = await page.evaluate(() => window.shownTimes.find((text) => text !== ""));
      assert.equal(shown, "You can answer for another 5:00.");
    });
  }
});

test("an answer that is not stored is asked for once more, under the same token", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ ...PROPOSAL, expiresAt: Date.now() + 300_000 });
    await choice(page, "No, do not").click();
    await endpoint.next("confirm");
    const response = { ok: false, error: { type: "TRANSIENT", retryable: true } };
    endpoint.send({ type: "confirmation_result", callId: "call-1", ok: false, response });
    await page.locator(".notice[data-subject=answer]").getByText("Your answer is not stored").waitFor();
    await choice(page, "No, do not").click();
    await card(page, "answered").waitFor();
    assert.deepEqual(endpoint.all("confirm").map(({ token, approved }) => [token, approved]), [["token-1", false], ["token-1", false]]);
  });
});

test("an approval takes no key from somebody who types, and is said to screen readers", async () => {
  await inSession(async (page, endpoint) => {
    const field = page.getByLabel("Message", { exact: true });
    await field.pressSequentially("I think ");
    endpoint.send({ ...PROPOSAL, expiresAt: new Date(Date.now() + 300_000).toISOString() });
    await choice(page, "No, do not").waitFor();
    await field.pressSequentially(" no, y n");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Space");
    assert.equal(await field.inputValue(), "I think  no, y n ");
    assert.equal(await page.evaluate(() => document.activeElement.id), "message");
    assert.equal(endpoint.all("confirm").length, 0);
    assert.match(await page.locator("#urgent").textContent(), /asks for your approval: Create Visit with 2 guests/);
    assert.equal(await page.title(), "(1) Windlass");
  });
});

test("the keys of an approval count on its card alone", async () => {
  for (const [key, approved] of [["y", true], ["N", false]]) {
    await inSession(async (page, endpoint) => {
      endpoint.send({ ...PROPOSAL, expiresAt: Date.now() + 300_000 });
      await choice(page, "No, do not").waitFor();
      await page.getByRole("button", { name: "Your approval is asked for" }).click();
      await page.locator(".card:focus").waitFor();
      await page.keyboard.press("Escape");
      assert.equal(await page.evaluate(() => document.activeElement.id), "message");
      assert.equal(endpoint.all("confirm").length, 0);
      await page.getByRole("button", { name: "Your approval is asked for" }).click();
      await page.keyboard.press(key);
      assert.equal((await endpoint.next("confirm")).approved, approved);
    });
  }
});

test("several approvals are a list, and a click on one that has just moved answers nothing", async () => {
  await inSession(async (page, endpoint) => {
    for (const [callId, preview] of [["call-1", "Pay 10"], ["call-2", "Pay 20"]]) {
      endpoint.send({ ...PROPOSAL, callId, token: `token-${callId}`, preview, expiresAt: Date.now() + 300_000 });
    }
    await page.getByText("2 requests wait for your approval").waitFor();
    await choice(page, "Yes, go ahead").nth(1).waitFor();
    await page.evaluate(() => {
      const [first, second] = [...document.querySelectorAll(".card .primary")];
      first.click();
      second.click();
    });
    await endpoint.next("confirm");
    await choice(page, "Yes, go ahead").click();
    assert.deepEqual(endpoint.all("confirm").map(({ token }) => token), ["token-call-1", "token-call-2"]);
    endpoint.send({ type: "confirmation_result", callId: "call-2", ok: true, response: { ok: true } });
    await page.locator(".card", { hasText: "Pay 20" }).waitFor({ state: "hidden" });
    assert.equal(await page.locator(".card").count(), 1);
  });
});

test("arguments and times are in the user's words and zone, with every digit and without JSON", async () => {
  const args = {
    start_time: "2026-12-24T16:00:00Z",
    guestNames: ["Ada", "Bo"],
    price: { amount: "@AMOUNT@", ids: ["@ID@"], gift: false },
    day: "2026-12-24",
    note: "",
    "raw-text": "a\u202eb",
  };
  const warning = 'This was done before, at 2026-11-27T11:03:00Z, with {"amount":@AMOUNT@}. If you approve it, it is done once more.';
  const context = { locale: "en-GB", timezoneId: "Europe/Oslo" };
  await inSession(async (page, endpoint) => {
    const message = { ...PROPOSAL, preview: 'Book 2026-12-24T17:00:00+01:00 for ["Ada","Bo"]', warning, args, expiresAt: Date.now() + 300_000 };
    const exact = (text) => text.replaceAll('"@AMOUNT@"', "1.10").replaceAll("@AMOUNT@", "1.10").replaceAll('"@ID@"', "12345678901234567890");
    endpoint.sendText(exact(JSON.stringify(message)));
    await card(page).waitFor();
    assert.equal(await page.locator(".card-preview").textContent(), "Book Thu, 24 Dec 2026, 17:00 CET for Ada, Bo");
    assert.match(await page.locator(".card-warning").textContent(), /at Fri, 27 Nov 2026, 12:03 CET, with Amount: 1\.10\. If/);
    await page.getByText("What exactly is sent").click();
    const shown = await page.locator(".card .fields:visible").first().evaluate(({ innerText }) => innerText.split(/\s*\n\s*/));
    assert.deepEqual(shown, [
      "Start time", "Thu, 24 Dec 2026, 17:00 CET",
      "Guest names", "Ada", "Bo",
      "Price", "Amount", "1.10", "Ids", "12345678901234567890", "Gift", "No",
      "Day", "Thu, 24 December 2026",
      "Note", "empty",
      "Raw text", "a\\u{202e}b",
    ]);
  }, { context });
});

test("on a narrow phone the way to an approval and the end of the answer are both in reach", async () => {
  const context = { viewport: { width: 320, height: 700 } };
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(5000);
    endpoint.send({ type: "confirmation_request", callId: "1", token: "t", tool: "pay", args: { amount: 10 }, expiresAt: Date.now() + 60_000 });
    for (const name of ["Your approval is asked for", "Stop the answer"]) {
      const { x, width } = await page.getByRole("button", { name }).boundingBox();
      assert.ok(x >= 0 && x + width <= context.viewport.width, `${name}: ${x} to ${x + width}`);
    }
  }, { context });
});

test("an approval shows its warning, and one without shows none", async () => {
  await inSession(async (page, endpoint) => {
    const warning = "The same may have been done already.";
    endpoint.send({ ...PROPOSAL, warning, expiresAt: Date.now() + 300_000 });
    await card(page).getByText(warning).waitFor();
    endpoint.send({ ...PROPOSAL, token: "token-2", expiresAt: Date.now() + 300_000 });
    await page.locator(".card-warning").waitFor({ state: "hidden" });
    assert.equal(await page.locator(".card").count(), 1);
  });
});

test("an approval that expired can only be closed", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ ...PROPOSAL, expiresAt: Date.now() - 1 });
    await page.getByRole("heading", { name: "Too late to answer" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Yes, go ahead" }).isVisible(), false);
    await page.getByRole("button", { name: "Close", disabled: false }).click();
    await page.locator("#approvals").waitFor({ state: "hidden" });
    assert.equal(endpoint.all("confirm").length, 0);
  });
});

test("after a resume the new token of a request is the one that is sent", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ ...PROPOSAL, expiresAt: Date.now() + 300_000 });
    endpoint.send({ ...PROPOSAL, token: "token-2", expiresAt: Date.now() + 300_000 });
    await choice(page, "Yes, go ahead").click();
    assert.equal((await endpoint.next("confirm")).token, "token-2");
    assert.equal(await page.locator(".card").count(), 1);
  });
});

test("a request waits for the connection, and is answered under its new token", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ ...PROPOSAL, expiresAt: Date.now() + 300_000 });
    await choice(page, "Yes, go ahead").waitFor();
    await endpoint.next("start");
    const onStart = endpoint.onStart;
    endpoint.onStart = () => {};
    await endpoint.close(1011);
    await card(page, "held").getByText("The connection broke. You are asked again").waitFor();
    await page.evaluate(() => document.querySelector(".card .primary").click());
    await endpoint.next("start");
    onStart();
    await untilState(page, { phase: "live" });
    endpoint.send({ ...PROPOSAL, token: "token-2", expiresAt: Date.now() + 300_000 });
    await choice(page, "Yes, go ahead").click();
    assert.equal((await endpoint.next("confirm")).token, "token-2");
    assert.equal(endpoint.all("confirm").length, 1, "nothing was answered under the old token");
  });
});

test("a request that is not asked again was settled meanwhile", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ ...PROPOSAL, expiresAt: Date.now() + 300_000 });
    await card(page).waitFor();
    await endpoint.close(1011);
    await untilState(page, { phase: "reconnecting" });
    await untilState(page, { phase: "live" });
    await page.locator("#approvals").waitFor({ state: "hidden" });
    assert.equal(endpoint.all("confirm").length, 0);
  });
});

test("a blocked user sees until when, and can type again after that", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ type: "timeout", durationSeconds: 3, timeoutUntil: Date.now() + 3000, farewellMessage: "That was rude." });
    await page.getByText(/That was rude\. You can go on in 0:0\d/).waitFor();
    assert.equal(await page.getByLabel("Message", { exact: true }).isDisabled(), true);
    assert.equal(await page.locator("#talk").isDisabled(), true);
    await endpoint.close(1000);
    await page.getByRole("heading", { name: "Session ended" }).waitFor();
    assert.equal(endpoint.connections, 1);
    await page.locator("#message:enabled").waitFor();
    await page.getByRole("button", { name: "Start again" }).click();
    await untilState(page, { phase: "live" });
  });
});

test("the end of a session waits for the farewell, even when the server has hung up", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(2000);
    await untilState(page, { speaking: true });
    endpoint.send({ type: "end_voice_session", reason: "user_request", closingMessage: "Fair winds.", textResponse: "In writing." });
    await endpoint.close(1000);
    await page.locator(".ending").getByText("Fair winds.").waitFor();
    assert.equal((await state(page)).framesPlayed, 50);
    assert.equal(await page.locator(".line.assistant .words").textContent(), "In writing.");
    assert.equal(endpoint.connections, 1);
  });
});

test("ending by hand tells the server and silences the page", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(5000);
    await untilState(page, { speaking: true });
    await page.getByRole("button", { name: "End session" }).click();
    await endpoint.next("stop");
    await untilState(page, { phase: "ended", speaking: false });
    await page.getByRole("button", { name: "Start again" }).click();
    await untilState(page, { phase: "live" });
    assert.equal(endpoint.all("start")[1].resume, undefined);
    assert.equal(await page.locator(".line").count(), 0);
  });
});

test("a lost connection is taken up with the token, and words typed meanwhile arrive", async () => {
  await inSession(async (page, endpoint) => {
    await untilState(page, { phase: "live" });
    await endpoint.close();
    await untilState(page, { phase: "reconnecting" });
    await ask(page, "Still there?");
    await untilState(page, { phase: "live" });
    assert.equal(endpoint.all("start")[1].resume, "r1");
    assert.equal((await endpoint.next("text")).text, "Still there?");
  });
});

test("an answer that is given again after a loss is shown once", async () => {
  await inSession(async (page, endpoint) => {
    const piece = (text) => endpoint.send({ type: "transcript", role: "assistant", text, final: false });
    endpoint.send({ type: "model_generating" });
    piece("Colin");
    await page.getByText("Colin", { exact: true }).waitFor();
    await endpoint.close();
    await untilState(page, { phase: "reconnecting" });
    await untilState(page, { phase: "live" });
    endpoint.send({ type: "model_generating" });
    piece("Colin Archer");
    await page.getByText("Colin Archer").waitFor();
    assert.deepEqual(await page.locator(".line.assistant .words").allTextContents(), ["Colin Archer"]);
  });
});

test("a page whose session another window has taken up lets it go", async () => {
  await inSession(async (page, endpoint) => {
    await untilState(page, { phase: "live" });
    await endpoint.close(1000);
    await page.getByText("Another window has taken the conversation up.").waitFor();
    await untilState(page, { phase: "ended" });
    assert.equal(endpoint.connections, 1);
  });
});

test("a session that cannot be taken up goes on as a new one of its conversation", async () => {
  await inSession(async (page, endpoint) => {
    await untilState(page, { phase: "live" });
    const start = endpoint.onStart;
    endpoint.onStart = (message) => (message.resume ? endpoint.send({ type: "error", code: "resume_unknown", message: "gone" }) : start(message));
    await endpoint.close();
    await untilState(page, { phase: "reconnecting" });
    await untilState(page, { phase: "live" });
    const { resume, conversationId } = endpoint.all("start")[2];
    assert.deepEqual([resume, conversationId], [undefined, "c1"]);
  });
});

test("a refused key is explained, and the page offers to start again", async () => {
  const endpoint = new VoiceEndpoint();
  endpoint.onStart = () => endpoint.send({ type: "error", code: "provider_auth", message: "refused" });
  await visit(browser, files.url, { prepare: (page) => endpoint.attach(page) }, async (page) => {
    await ask(page, "Hello");
    await page.getByText("The model refused the server's key").waitFor();
    await page.getByRole("button", { name: "Start again" }).waitFor();
    await untilState(page, { phase: "ended" });
    assert.equal(endpoint.connections, 1);
  });
});

test("the microphone sends frames of 20 ms from the start on, and pausing stops them", async () => {
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { prepare: (page) => endpoint.attach(page) }, async (page) => {
    await page.getByRole("button", { name: "Talk" }).click();
    await page.waitForFunction(() => window.windlass.state.framesSent > 50);
    assert.equal(endpoint.received[0].type, "start");
    assert.deepEqual([...new Set(endpoint.audioFrames.map(({ length }) => length))], [640]);
    assert.ok(endpoint.audioFrames.some((frame) => frame.some((byte) => byte !== 0)));
    await page.getByRole("button", { name: "Pause" }).click();
    await untilState(page, { microphone: "off" });
    const { framesSent } = await state(page);
    endpoint.send({ type: "turn_complete", turn: 1 });
    await endpoint.next("playback_done");
    assert.equal((await state(page)).framesSent, framesSent);
  });
});

testInChromium("over plain http talking is refused with the reason, and typing and listening work", NOT_IN_FIREFOX.names, async () => {
  await inSession(
    async (page, endpoint) => {
      await page.getByRole("button", { name: "Talk" }).click();
      await page.getByText("Talking needs HTTPS").waitFor();
      endpoint.sendTone(200);
      endpoint.send({ type: "turn_complete", turn: 1 });
      await endpoint.next("playback_done");
      assert.equal((await state(page)).framesPlayed, 5);
    },
    { url: `http://phone.test:${files.port}/` },
  );
});

/** A browser that lets no sound out before a click. */
function holdSoundBack() {
  window.AudioContext = class extends AudioContext {
    constructor(options) {
      super(options);
      super.suspend();
    }

    resume() {
      return window.wasClicked ? super.resume() : new Promise(() => {});
    }
  };
  addEventListener("pointerdown", () => { window.wasClicked = true; }, { capture: true });
}

test("sound that the browser holds back is announced, and a click brings it", async () => {
  const endpoint = new VoiceEndpoint();
  const prepare = async (page) => {
    await page.addInitScript(holdSoundBack);
    await endpoint.attach(page);
  };
  await visit(browser, files.url, { prepare }, async (page) => {
    await ask(page, "Hello");
    await endpoint.next("text");
    endpoint.sendTone(400);
    await page.getByText("Sound is waiting for you").waitFor();
    await page.locator("#transcript").click();
    await untilState(page, { framesPlayed: 10 });
    assert.equal(await page.getByText("Sound is waiting for you").isVisible(), false);
  });
});

testInChromium("who asks for less motion gets none", NOT_IN_FIREFOX.system, async () => {
  await inSession(
    async (page, endpoint) => {
      endpoint.sendTone(5000);
      endpoint.send({ type: "tool_call_started", callId: "1", tool: "kb_search", args: {}, status: "" });
      await untilState(page, { speaking: true });
      assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
    },
    { context: { reducedMotion: "reduce" } },
  );
});
