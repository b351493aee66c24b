// Calls of an answer in writing on the page: what they show before their end, and how the user stops them. Needs no server of ours.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, launch, visit } from "./browser.mjs";
import { servePage } from "./scripted.mjs";

let files;
let browser;
/** What the server answers to the next request to stop a call, and what it was asked. */
let answers = [];
let asked = [];

const CALL = { type: "tool-input-available", toolCallId: "call-3", toolName: "export", input: {}, dynamic: true };
const piece = (output) => ({ type: "tool-output-available", toolCallId: "call-3", output, dynamic: true, preliminary: true });

function answer({ path, body }) {
  if (path === "/api/cancel") {
    asked.push(body);
    return answers.shift();
  }
  const events = [{ type: "start" }, CALL, piece("one "), piece("two"), piece({ rows: 7 })];
  return path === "/api/chat" ? { events, isOpen: true } : null;
}

before(async () => {
  files = await servePage({ text: { available: true, provider: "test", model: "test" } }, answer);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
});

const refusal = (status, outcome) => ({ status, json: { ok: false, outcome, error: { code: `call_${outcome}`, message: "so it is" } } });

test("pieces of a result grow on the page while the call runs, and the user stops it", async () => {
  await visit(browser, files.url, { excused: /status of (?:404|409|500)/ }, async (page) => {
    await ask(page, "Export it");
    const row = page.locator(".call").last();
    await row.locator(".call-output").getByText("rows").waitFor();
    assert.match(await row.locator(".call-output").textContent(), /^one two\{\s*"rows":\s*7/);
    const stop = row.getByRole("button", { name: "Stop export" });
    answers = [
      { status: 500, json: null },
      { status: 409, json: { error: { code: "busy", message: "so it is" } } },
      { json: { ok: true, outcome: "stopped" } },
    ];
    await stop.click();
    await row.getByText("The server was not reached").waitFor();
    await stop.click();
    await row.getByText("The conversation is busy").waitFor();
    await stop.click();
    await stop.waitFor({ state: "hidden" });
    const conversationId = asked[0].conversationId;
    assert.match(conversationId, /^c-/);
    assert.deepEqual(asked, Array(3).fill({ conversationId, callId: "call-3" }));
  });
});

test("the page says of a change that has begun that it goes on", async () => {
  for (const [status, outcome, words] of [[409, "runs_on", "It goes on"], [409, "ended", "cannot be stopped"], [404, "unknown", "cannot be stopped"]]) {
    await visit(browser, files.url, { excused: /status of (?:404|409|500)/ }, async (page) => {
      answers = [refusal(status, outcome)];
      await ask(page, "Export it");
      await page.getByRole("button", { name: "Stop export" }).click();
      await page.locator(".call-outcome").getByText(words).waitFor();
    });
  }
});
