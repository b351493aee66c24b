// What the service of a tool asks, on the page: a form and a link as the service's own words, answered by the user alone. Needs no
// server of ours.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, launch, lowContrasts, PHONE, visit } from "./browser.mjs";
import { servePage, VoiceEndpoint } from "./scripted.mjs";

let files;
let chat;
let browser;
let asked = [];
let events = [];

const FORM = [
  { name: "count", type: "integer", required: true, minimum: 1, maximum: 9 },
  { name: "gift", type: "boolean", required: false, title: "As a gift" },
  { name: "name", type: "text", required: true, minLength: 2, description: "As on the card\u202e" },
  { name: "note", type: "text", required: false },
  { name: "size", type: "choice", required: true, options: [{ value: "s", title: "Small" }, { value: "l", title: "Large" }] },
];
const INPUT = {
  from: "shop",
  asks: [
    { key: "who", message: "Who orders?\u202e <b>Approve now</b>", form: FORM },
    { key: "pay", message: "Pay there.", link: "https://pay.example/till", host: "pay.example" },
  ],
};
const REQUEST = { tool: "order", token: "token-1", args: { what: "a book" }, input: INPUT };

before(async () => {
  files = await servePage();
  chat = await servePage({ text: { available: true, provider: "test", model: "test" } }, ({ path, body }) => {
    if (path !== "/api/chat") return null;
    asked.push(body);
    return { events: [{ type: "start" }, ...events, { type: "finish" }] };
  });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
  chat?.close();
});

const send = (page) => page.locator(".choices").getByRole("button", { name: "Send", disabled: false });

async function inSession(steps, { context } = {}) {
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { context, prepare: (page) => endpoint.attach(page) }, async (page) => {
    await ask(page, "Hello");
    await endpoint.next("text");
    await steps(page, endpoint);
  });
}

const request = (more = {}) => ({ type: "confirmation_request", callId: "call-1", ...REQUEST, expiresAt: Date.now() + 300_000, ...more });

async function fill(page) {
  await page.getByLabel("count").fill("2");
  await page.getByLabel("name").fill("Ada");
  await page.getByLabel("size").selectOption("l");
}

test("a form is shown as its service's words, and its values go out once they fit", async () => {
  for (const context of [undefined, PHONE]) {
    await inSession(async (page, endpoint) => {
      endpoint.send(request());
      await page.getByText("These are the words of “shop”, not of this page or its agent.").waitFor();
      await page.getByText("Who orders?\\u{202e} <b>Approve now</b>").waitFor();
      const place = page.getByRole("link", { name: "Open that page" });
      assert.equal(await place.getAttribute("href"), "https://pay.example/till");
      assert.deepEqual(await lowContrasts(page), []);
      await send(page).click();
      await page.getByLabel("count").fill("10");
      await page.getByLabel("name").fill("A");
      await send(page).click();
      assert.deepEqual(endpoint.all("confirm"), []);
      await fill(page);
      await send(page).click();
      const { token, approved, content } = await endpoint.next("confirm");
      assert.deepEqual([token, approved], ["token-1", true]);
      assert.deepEqual(content, { who: { count: 2, gift: false, name: "Ada", size: "l" }, pay: {} });
    }, { context });
  }
});

test("letters typed into the form answer nothing, and Enter sends it", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send(request());
    await fill(page);
    await page.getByLabel("note").pressSequentially("yes no");
    assert.deepEqual(endpoint.all("confirm"), []);
    // The same request comes again after a connection was lost: what was typed stays.
    endpoint.send(request());
    assert.equal(await page.getByLabel("note").inputValue(), "yes no");
    await send(page).waitFor();
    await page.getByLabel("note").press("Enter");
    assert.equal((await endpoint.next("confirm")).content.who.note, "yes no");
  });
});

test("a service is told apart whether the user says no or does not decide", async () => {
  for (const [name, cancelled] of [[/^No/, undefined], ["I do not want to decide", true]]) {
    await inSession(async (page, endpoint) => {
      endpoint.send(request());
      await page.getByRole("button", { name, disabled: false }).last().click();
      const answer = await endpoint.next("confirm");
      assert.deepEqual([answer.approved, answer.cancelled, answer.content], [false, cancelled, undefined]);
    });
  }
});

test("in the chat the answer carries the values", async () => {
  await visit(browser, chat.url, {}, async (page) => {
    events = [{ type: "data-confirmation-request", data: { toolCallId: "call-1", ...REQUEST, expiresAt: new Date(Date.now() + 300_000).toISOString() } }];
    await ask(page, "Order it");
    await fill(page);
    events = [{ type: "tool-output-available", toolCallId: "call-1", output: {} }];
    await send(page).click();
    await page.waitForFunction(() => !document.querySelector("blockquote.asked-words"));
    const { approval } = asked.at(-1).messages[0].parts[0];
    assert.deepEqual([approval.id, approval.approved], ["token-1", true]);
    assert.deepEqual(approval.content.who, { count: 2, gift: false, name: "Ada", size: "l" });
  });
});

test("rubbish in place of a question is no form, and a link that is none opens nothing", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.send(request({ input: { from: 3, asks: [null, "a", { key: "k", message: null, form: [null, { type: "odd" }], link: "javascript:alert(1)" }] } }));
    await page.getByText("Open that page").waitFor();
    assert.equal(await page.getByRole("link", { name: "Open that page" }).count(), 0);
  });
});
