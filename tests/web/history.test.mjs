// The list of conversations and what is read back of one: opened, searched, renamed, deleted, and shown page by page. The server is
// played by the test.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { ask, launch, PHONE, visit } from "./browser.mjs";
import { servePage } from "./scripted.mjs";

const AT = "2026-11-20T10:00:00Z";
const text = { available: true, provider: "test", model: "test" };
let files;
let browser;
let stored;
let posts;
let isRefusing;

/** Conversations as the server keeps them, by id. */
function serveConversations({ method, path, query, body }) {
  const [, id] = /^\/api\/conversations\/([^/]+)$/.exec(path) ?? [];
  if (path === "/api/conversations") {
    if (isRefusing) return { status: 503, json: { error: { code: "unavailable", message: "the store does not answer" } } };
    const words = (query.get("q") ?? "").toLowerCase();
    const found = [...stored.values()].filter(({ title, messages }) => JSON.stringify([title, messages]).toLowerCase().includes(words));
    const from = Number(query.get("cursor") ?? 0);
    const conversations = found.slice(from, from + 20).map(({ messages, ...row }) => ({ ...row, messages: messages.length }));
    return { json: { conversations, next: from + 20 < found.length ? String(from + 20) : null } };
  }
  if (id !== undefined) {
    const known = stored.get(decodeURIComponent(id));
    if (!known) return { status: 404, json: { error: { code: "unknown_conversation", message: "there is no such conversation" } } };
    if (method === "DELETE") {
      stored.delete(known.id);
      return { status: 204 };
    }
    if (method === "PATCH") return { json: Object.assign(known, { title: body.title }) };
    const to = Number(query.get("cursor") ?? known.messages.length);
    const from = Math.max(0, to - 50);
    const { running = false, questions = [] } = known;
    return { json: { ...known, running, questions, messages: known.messages.slice(from, to), next: from > 0 ? String(from) : null } };
  }
  if (path === "/api/chat") {
    posts.push(body);
    return { events: [{ type: "text-delta", id: "t", delta: "Yes." }, { type: "finish", finishReason: "stop" }] };
  }
  if (/^\/api\/chat\/.+\/stream$/.test(path)) {
    return { events: [{ type: "text-delta", id: "t", delta: "Still " }, { type: "text-delta", id: "t", delta: "being written." }, { type: "finish", finishReason: "stop" }] };
  }
  return null;
}

const message = (role, words, parts = [], turn = 1) => ({ id: `entry-${words}`, role, metadata: { turn, at: AT, mode: "text" }, parts: [...parts, { type: "text", text: words }] });
const call = (toolCallId, more) => ({ type: "dynamic-tool", toolName: "kb_search", toolCallId, input: { query: "Fram" }, callProviderMetadata: { windlass: { at: AT, durationMs: 1500 } }, ...more });

before(async () => {
  files = await servePage({ text }, serveConversations);
  browser = await launch();
});

beforeEach(() => {
  posts = [];
  isRefusing = false;
  const found = call("1", { state: "output-available", output: { name: "Colin Archer" } });
  const refused = call("2", { state: "output-error", errorText: "VALIDATION: /query is too short" });
  stored = new Map([
    ["ships", { id: "ships", title: "Who built it?", createdAt: AT, updatedAt: AT, messages: [message("user", "Who built it?"), message("assistant", "Colin Archer.", [found, refused])] }],
    ["tea", { id: "tea", title: null, createdAt: AT, updatedAt: AT, messages: [message("user", "Tea, please")] }],
  ]);
});

after(async () => {
  await browser?.close();
  files?.close();
});

const openList = (page) => page.getByRole("button", { name: "Conversations" }).click();
const item = (page, name) => page.locator(".history-open", { hasText: name });
const words = (page) => page.locator(".line .words").allTextContents();

test("an earlier conversation is opened with its calls, their results and times, and goes on", async () => {
  await visit(browser, files.url, {}, async (page) => {
    await openList(page);
    await page.locator("#history-search:focus").waitFor();
    assert.match(await item(page, "Who built it?").locator(".history-details").textContent(), /Nov.* · 2 messages$/);
    await item(page, "Who built it?").click();
    await page.locator(".line.assistant").waitFor();
    assert.deepEqual(await words(page), ["Who built it?", "Colin Archer."]);
    assert.equal(await page.evaluate(() => document.activeElement.id), "message");
    const [done, refused] = await page.locator(".call").evaluateAll((calls) => calls.map((one) => one.innerText));
    assert.match(done, /kb_search\s+1\.5 s[^]*Query\s+Fram[^]*Done[^]*Result[^]*Colin Archer/);
    assert.match(refused, /Refused\s+VALIDATION[^]*\/query is too short/);
    await ask(page, "Really?");
    await page.locator(".line.assistant").getByText("Yes.").waitFor();
    assert.equal(posts[0].id, "ships");
    await openList(page);
    await page.locator(".history-open[aria-current=true]", { hasText: "Who built it?" }).waitFor();
    await page.locator("#history-new").click();
    assert.deepEqual(await words(page), []);
    await ask(page, "Another thing");
    await page.locator(".line.assistant").getByText("Yes.").waitFor();
    assert.notEqual(posts[1].id, "ships");
  });
});

test("the list is searched, and says where nothing is found or the server refuses", async () => {
  await visit(browser, files.url, { excused: /503/ }, async (page) => {
    await openList(page);
    await item(page, "Without a title").waitFor();
    await page.locator("#history-search").fill("archer");
    await page.getByText("1 found").waitFor();
    assert.deepEqual(await page.locator(".history-title").allTextContents(), ["Who built it?"]);
    await page.locator("#history-search").fill("whale");
    await page.getByText("No conversation holds these words.").waitFor();
    isRefusing = true;
    await page.locator("#history-search").fill("tea");
    await page.getByText("The list cannot be read. the store does not answer").waitFor();
    isRefusing = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByText("1 found").waitFor();
  });
});

test("a conversation is renamed and deleted by keyboard alone", async () => {
  await visit(browser, files.url, {}, async (page) => {
    await page.locator("#history-button").focus();
    await page.keyboard.press("Enter");
    await item(page, "Who built it?").waitFor();
    const tabs = async (count) => {
      for (let presses = 0; presses < count; presses += 1) await page.keyboard.press("Tab");
    };
    await tabs(3);
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Rename Who built it?");
    await page.keyboard.press("Enter");
    await page.keyboard.type("Ships");
    await page.keyboard.press("Escape");
    assert.equal(stored.get("ships").title, "Who built it?", "Escape leaves the name");
    assert.equal(await page.locator("#history").isVisible(), true, "and the list open");
    await page.keyboard.press("Enter");
    await page.keyboard.type("Ships");
    await page.keyboard.press("Enter");
    await item(page, "Ships").waitFor();
    assert.equal(stored.get("ships").title, "Ships");
    await tabs(1);
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Keep it");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    await page.locator(".history-item", { hasText: "Ships" }).waitFor({ state: "detached" });
    assert.deepEqual([...stored.keys()], ["tea"]);
  });
});

test("the conversation that is shown gives way to an empty one where it is deleted, in every tab", async () => {
  await visit(browser, files.url, {}, async (page) => {
    await openList(page);
    await item(page, "Who built it?").click();
    await page.locator(".line.assistant").waitFor();
    const other = await page.context().newPage();
    await other.goto(files.url);
    await other.getByRole("button", { name: "Conversations" }).click();
    await item(other, "Who built it?").click();
    await other.locator(".line.assistant").waitFor();
    await ask(other, "And the sails?");
    await page.locator(".line").getByText("Colin Archer.").waitFor();
    await other.getByRole("button", { name: "Conversations" }).click();
    await other.getByRole("button", { name: "Delete Who built it?" }).click();
    await other.getByRole("button", { name: "Delete it" }).click();
    await page.getByText("This conversation was deleted").waitFor();
    assert.deepEqual(await words(page), []);
    await other.close();
  });
});

test("two tabs of one conversation show the same", async () => {
  await visit(browser, files.url, {}, async (page) => {
    const opened = async (tab) => {
      await openList(tab);
      await item(tab, "Without a title").click();
      await tab.locator(".line.user").waitFor();
    };
    await opened(page);
    const other = await page.context().newPage();
    await other.goto(files.url);
    await opened(other);
    await page.getByLabel("Message", { exact: true }).fill("Half a th");
    stored.get("tea").messages.push(message("user", "With milk"), message("assistant", "Yes."));
    await ask(other, "With milk");
    await page.locator(".line.assistant").getByText("Yes.").waitFor();
    assert.deepEqual(await words(page), ["Tea, please", "With milk", "Yes."]);
    assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "Half a th");
    await other.close();
  });
});

test("a long conversation is read back page by page, and a reload begins where the reader was", async () => {
  const messages = Array.from({ length: 180 }, (_, at) => message(at % 2 ? "assistant" : "user", `Message ${at + 1}`, at % 2 ? [call(`c${at}`, { state: "output-available", output: at })] : [], at >> 1));
  stored.set("long", { id: "long", title: "Long", createdAt: AT, updatedAt: AT, messages });
  await visit(browser, files.url, {}, async (page) => {
    await openList(page);
    await item(page, "Long").click();
    await page.getByText("Message 180", { exact: true }).waitFor();
    assert.equal(await page.locator("#spoken").textContent(), "", "what is read back is not read out");
    const order = () => page.locator(".line .words").evaluateAll((lines) => lines.map((line) => Number(line.textContent.split(" ")[1])));
    assert.deepEqual(await order(), Array.from({ length: 50 }, (_, at) => at + 131));
    const seen = () => page.evaluate(() => {
      const top = document.querySelector("#conversation").getBoundingClientRect().top;
      const line = [...document.querySelectorAll(".line")].find((one) => one.getBoundingClientRect().bottom > top);
      return line.querySelector(".words").textContent;
    });
    await page.locator("#conversation").focus();
    await page.keyboard.press("Home");
    await page.waitForFunction(() => document.querySelector("#conversation").scrollTop === 0);
    for (const first of [81, 31]) {
      await page.getByRole("button", { name: "Show earlier messages" }).click();
      await page.getByText(`Message ${first}`, { exact: true }).waitFor({ state: "attached" });
    }
    assert.deepEqual(await order(), Array.from({ length: 150 }, (_, at) => at + 31));
    const calls = await page.locator(".call-value").evaluateAll((values) => values.map((value) => Number(value.textContent)));
    assert.deepEqual([calls.length, calls[0], calls.at(-1)], [75, 179, 31], "the calls are in order, the newest first");
    await page.evaluate(() => [...document.querySelectorAll(".line")].find((line) => line.textContent.includes("Message 40")).scrollIntoView());
    await page.waitForFunction(() => !document.querySelector("#to-end").hidden);
    const before = await seen();
    await page.reload();
    await page.getByText("Message 40", { exact: true }).waitFor({ state: "attached" });
    await page.locator("#to-end:visible").waitFor();
    assert.equal(await seen(), before);
  });
});

test("who is quicker than the server gets each message once, and in its place", async () => {
  const messages = Array.from({ length: 60 }, (_, at) => message("user", `Message ${at + 1}`));
  stored.set("long", { id: "long", title: "Long", createdAt: AT, updatedAt: AT, messages });
  const held = [];
  const prepare = (page) => page.route(/api\/conversations\/./, (route) => held.push(route));
  await visit(browser, files.url, { prepare }, async (page) => {
    const letGo = async (count) => {
      while (held.length < count) await page.evaluate(() => new Promise(requestAnimationFrame));
      await Promise.all(held.splice(0).map((route) => route.continue()));
    };
    for (let opened = 0; opened < 2; opened += 1) {
      await openList(page);
      await item(page, "Long").click();
    }
    await ask(page, "And now?");
    await letGo(2);
    await page.locator(".line.assistant").getByText("Yes.").waitFor();
    const read = await words(page);
    assert.deepEqual([read.length, read[0], ...read.slice(-3)], [52, "Message 11", "Message 60", "And now?", "Yes."]);
    await page.getByRole("button", { name: "Show earlier messages" }).dblclick();
    await letGo(2);
    await page.getByText("Message 1", { exact: true }).waitFor({ state: "attached" });
    assert.equal((await words(page)).length, 62);
  });
});

test("an answer that is being written is shown after a reload, too", async () => {
  stored.set("running", { id: "running", title: "Running", createdAt: AT, updatedAt: AT, running: true, messages: [message("user", "Go on")] });
  await visit(browser, files.url, {}, async (page) => {
    await openList(page);
    await item(page, "Running").click();
    await page.locator(".line.assistant").getByText("Still being written.").waitFor();
    assert.deepEqual(await words(page), ["Go on", "Still being written."]);
  });
});

test("on a phone the list has the whole width", async () => {
  await visit(browser, files.url, { context: PHONE }, async (page) => {
    await openList(page);
    await item(page, "Who built it?").waitFor();
    assert.ok((await page.locator("#history").boundingBox()).width >= 360);
    await page.getByRole("button", { name: "Close the list" }).click();
    await page.locator("#history").waitFor({ state: "hidden" });
  });
});
