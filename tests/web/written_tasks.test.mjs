// A call that goes on as a task, on the page: how far it is, how the user stops it, and how it ended, also after a reload. Needs no
// server of ours.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, launch, visit } from "./browser.mjs";
import { servePage } from "./scripted.mjs";

let files;
let browser;
/** The task as the server shows it, and what it was asked to stop. */
let task;
let stopped = [];

const ACCEPTED = { status: "accepted", state: "running", backgroundTaskId: "e-1", note: "It is still running." };
const CALL = { toolCallId: "call-3", toolName: "export", input: { year: 2025 }, dynamic: true };
const ANSWER = [
  { type: "start" },
  { type: "tool-input-available", ...CALL },
  { type: "tool-output-available", toolCallId: "call-3", output: ACCEPTED, dynamic: true },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "It is on its way." },
  { type: "text-end", id: "t" },
  { type: "finish", finishReason: "stop" },
];
const MESSAGES = [
  { id: "m-1", role: "user", parts: [{ type: "text", text: "Export it" }] },
  {
    id: "m-2",
    role: "assistant",
    parts: [
      { type: "dynamic-tool", state: "output-available", output: ACCEPTED, ...CALL },
      { type: "text", text: "It is on its way." },
    ],
  },
];

function answer({ method, path, query }) {
  if (path === "/api/chat") return { events: ANSWER };
  if (path.startsWith("/api/conversations/")) return task ? { json: { messages: MESSAGES, questions: [], running: false, next: null } } : { status: 404, json: {} };
  if (path === "/api/tasks/e-1" && method === "GET") {
    assert.match(query.get("conversationId"), /^c-/);
    return { json: task };
  }
  if (path === "/api/tasks/e-1/cancel") {
    stopped.push(method);
    return { json: { ok: true, outcome: "stopping", task } };
  }
  return null;
}

const running = (message, fraction) => ({ taskId: "e-1", tool: "export", state: "running", progress: { message, fraction } });

before(async () => {
  files = await servePage({ text: { available: true, provider: "test", model: "test" } }, answer);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
});

test("a task says how far it is, is stopped, and ends on the page long after the answer", async () => {
  await visit(browser, files.url, { excused: /status of 404/ }, async (page) => {
    task = running("half of them", 0.5);
    await ask(page, "Export it");
    const row = page.locator(".call").last();
    await row.getByText("Accepted").waitFor();
    await page.locator("#spoken").getByText("It is on its way.").waitFor({ state: "attached" });
    await row.getByText("half of them").waitFor();
    await row.getByRole("button", { name: "Stop export" }).click();
    await row.getByText("Asked to stop").waitFor();
    assert.deepEqual(stopped, ["POST"]);
    task = { ...task, state: "not_done", response: { ok: false, error: { type: "CANCELLED", message: "the user stopped it" } } };
    await row.getByText("You stopped this.").waitFor();
    await row.getByRole("button", { name: "Stop export" }).waitFor({ state: "hidden" });
  });
});

test("after a reload a task that goes on is looked after again", async () => {
  await visit(browser, files.url, { excused: /status of 404/ }, async (page) => {
    task = running("most of them", 0.9);
    await ask(page, "Export it");
    await page.locator(".call").last().getByText("Accepted").waitFor();
    await page.reload();
    const row = page.locator(".call").last();
    await row.getByText("most of them").waitFor();
    task = { ...task, state: "done", response: { ok: true, data: { rows: 7 } } };
    await row.getByText("Accepted").waitFor({ state: "hidden" });
    assert.equal(await page.locator(".call").count(), 1);
  });
});
