// Approvals that stand for further calls, on the page: they are offered, never ticked beforehand, shown while they stand, and ended by
// a button. Needs no server of ours.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, launch, lowContrasts, PHONE, visit } from "./browser.mjs";
import { servePage, VoiceEndpoint } from "./scripted.mjs";

let files;
let chat;
let browser;
/** What the server was asked beside the page's files. */
let asked = [];
/** What the chat's next answer holds, and what is left when an approval is revoked. */
let events = [];
let left = { json: { ok: true, standingApprovals: [] } };

const OFFER = { scope: "session", arguments: { "/folder": "Reports\u202e", "/a~1b": 2 }, minutes: 15 };
const REQUEST = { tool: "archive", token: "token-1", args: { folder: "Reports", name: "a" } };
const standing = (more = {}) => ({
  approvalId: "approval-1",
  tool: "archive",
  arguments: { "/folder": "Reports" },
  mode: "text",
  givenAt: new Date().toISOString(),
  expiresAt: new Date(Date.now() + 600_000).toISOString(),
  ...more,
});

function answer({ path, body }) {
  if (path !== "/api/chat" && path !== "/api/revoke") return null;
  asked.push({ path, body });
  return path === "/api/revoke" ? left : { events: [{ type: "start" }, ...events, { type: "finish" }] };
}

before(async () => {
  files = await servePage();
  chat = await servePage({ text: { available: true, provider: "test", model: "test" } }, answer);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
  chat?.close();
});

const box = (page) => page.getByRole("checkbox");
const yes = (page) => page.getByRole("button", { name: "Yes, go ahead", disabled: false });
const again = (page) => page.getByRole("button", { name: "Ask me again before archive" });

async function inSession(steps, { context } = {}) {
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { context, prepare: (page) => endpoint.attach(page) }, async (page) => {
    await ask(page, "Hello");
    await endpoint.next("text");
    await steps(page, endpoint);
  });
}

const request = (more = {}) => ({ type: "confirmation_request", callId: "call-1", ...REQUEST, expiresAt: Date.now() + 300_000, ...more });

test("what may be remembered is offered with its values, and said only where the user ticks it", async () => {
  for (const isTicked of [false, true]) {
    await inSession(async (page, endpoint) => {
      endpoint.send(request({ remember: OFFER }));
      await page.getByText("folder “Reports\\u{202e}” and a/b 2 for 15 minutes").waitFor();
      assert.equal(await box(page).isChecked(), false);
      if (isTicked) await box(page).check();
      await yes(page).click();
      const { token, approved, remember } = await endpoint.next("confirm");
      assert.deepEqual([token, approved, remember], ["token-1", true, isTicked || undefined]);
    });
  }
});

test("a request that offers nothing has no box, and a no remembers nothing", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send(request());
    await yes(page).waitFor();
    assert.equal(await box(page).isVisible(), false);
    endpoint.send(request({ token: "token-2", remember: OFFER }));
    await box(page).check();
    // A tick belongs to its request.
    endpoint.send(request({ token: "token-3", remember: OFFER }));
    await page.waitForFunction(() => document.querySelector(".card-remember input").checked === false);
    await box(page).check();
    await page.getByRole("button", { name: "No, do not", disabled: false }).click();
    const { approved, remember } = await endpoint.next("confirm");
    assert.deepEqual([approved, remember], [false, undefined]);
  });
});

test("keys on the box tick it and answer nothing", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send(request({ remember: OFFER }));
    await yes(page).waitFor();
    await box(page).focus();
    await page.keyboard.press("y");
    await page.keyboard.press("Space");
    assert.equal(await box(page).isChecked(), true);
    assert.deepEqual(endpoint.all("confirm"), []);
  });
});

test("what stands by voice is listed until the user wants to be asked again", async () => {
  for (const context of [undefined, PHONE]) {
    await inSession(async (page, endpoint) => {
      endpoint.send({ type: "standing_approvals", approvals: [standing({ mode: "voice" })] });
      await again(page).waitFor();
      await page.locator(".standing-row").getByText("Reports").waitFor();
      await page.locator(".standing-row").getByText(/For another (9|10):\d\d/).waitFor();
      assert.deepEqual(await lowContrasts(page), []);
      await again(page).click();
      assert.equal((await endpoint.next("revoke")).approvalId, "approval-1");
      endpoint.send({ type: "standing_approvals", approvals: [] });
      await page.locator("#standing").waitFor({ state: "hidden" });
    }, { context });
  }
});

test("what stands no longer leaves the list by itself", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send({ type: "standing_approvals", approvals: [standing({ mode: "voice", expiresAt: new Date(Date.now() + 1_500).toISOString() })] });
    await page.locator("#standing").waitFor({ state: "hidden" });
    endpoint.send({ type: "standing_approvals", approvals: ["rubbish", null, { approvalId: 3 }, standing({ mode: "voice", arguments: null, expiresAt: "never" })] });
    await again(page).waitFor();
    assert.equal(await page.locator(".standing-row").count(), 1);
  });
});

test("in the chat the answer carries the tick, and the server is told what is revoked", async () => {
  await visit(browser, chat.url, { excused: /status of (?:404|500)/ }, async (page) => {
    events = [{ type: "data-confirmation-request", data: { toolCallId: "call-1", ...REQUEST, remember: OFFER, expiresAt: new Date(Date.now() + 300_000).toISOString() } }];
    await ask(page, "File it");
    await box(page).check();
    events = [{ type: "data-standing-approvals", data: { approvals: [standing()] } }];
    await yes(page).click();
    await again(page).waitFor();
    const { body } = asked.findLast(({ path }) => path === "/api/chat");
    assert.deepEqual(body.messages[0].parts[0].approval, { id: "token-1", approved: true, remember: true });
    left = { status: 500, json: null };
    await again(page).click();
    await page.locator(".standing-row").getByText("The server was not reached").waitFor();
    left = { json: { ok: true, standingApprovals: [] } };
    await again(page).click();
    await page.locator("#standing").waitFor({ state: "hidden" });
    const revoked = asked.findLast(({ path }) => path === "/api/revoke");
    assert.equal(revoked.body.approvalId, "approval-1");
    assert.match(revoked.body.conversationId, /^c-/);
  });
});
