// What a page meets outside of tests: a microphone that is busy, missing or unplugged, storage that is full, and a network that is lost
// wherever the page is just then. Nothing that was written is lost, and each is said with a way on. The server is played by the test.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { NOT_IN_FIREFOX, ask, launch, testInChromium, untilState, visit } from "./browser.mjs";
import { VoiceEndpoint, servePage } from "./scripted.mjs";

const AT = "2026-11-20T10:00:00Z";
const LOST = /Failed to load resource|NetworkError|ERR_/;
let files;
let browser;
let title;

/** A server with one conversation of two pages, that answers each message with one word. */
function answer({ method, path, query }) {
  const said = (text) => ({ id: `entry-${text}`, role: "user", metadata: { turn: 1, at: AT }, parts: [{ type: "text", text }] });
  const row = { id: "tea", title, createdAt: AT, updatedAt: AT };
  if (path === "/api/conversations") return { json: { conversations: title === null ? [] : [{ ...row, messages: 2 }], next: null } };
  if (path === "/api/conversations/tea") {
    if (method === "DELETE") title = null;
    if (method === "DELETE") return { status: 204 };
    return { json: query.get("cursor") ? { ...row, messages: [said("Earlier")], next: null } : { ...row, messages: [said("Later")], next: "1" } };
  }
  return path === "/api/chat" ? { events: [{ type: "text-delta", id: "t", delta: "Yes." }, { type: "finish", finishReason: "stop" }] } : null;
}

before(async () => {
  files = await servePage({ text: { available: true, provider: "test", model: "test" } }, answer);
  browser = await launch();
});

beforeEach(() => {
  title = "Tea";
});

after(async () => {
  await browser?.close();
  files?.close();
});

test("a microphone that is busy, missing or cannot be had is explained, and typing goes on", async () => {
  for (const [name, words] of [
    ["NotReadableError", "The microphone does not answer"],
    ["AbortError", "The microphone does not answer"],
    ["NotFoundError", "No microphone was found"],
    ["NotAllowedError", "The microphone is not allowed"],
    ["TypeError", "This browser cannot record here"],
  ]) {
    const prepare = (page) => page.addInitScript((name) => {
      // The empty page that a tab begins with has no devices in Firefox.
      if (navigator.mediaDevices) navigator.mediaDevices.getUserMedia = () => Promise.reject(name === "TypeError" ? new TypeError("no") : new DOMException("no", name));
    }, name);
    await visit(browser, files.url, { prepare }, async (page) => {
      await page.getByRole("button", { name: "Talk" }).click();
      await page.getByText(words).waitFor();
      await untilState(page, { microphone: "off", phase: "idle" });
      await ask(page, "Can you read me?");
      await page.locator(".line.assistant").getByText("Yes.").waitFor();
    });
  }
});

testInChromium("a microphone that is unplugged is missed, and the session goes on", NOT_IN_FIREFOX.microphones, async () => {
  const endpoint = new VoiceEndpoint();
  const prepare = async (page) => {
    await page.addInitScript(() => {
      const { getUserMedia } = navigator.mediaDevices;
      navigator.mediaDevices.getUserMedia = async (wanted) => {
        const stream = await getUserMedia.call(navigator.mediaDevices, wanted);
        window.unplug = () => stream.getTracks().forEach((track) => track.dispatchEvent(new Event("ended")));
        return stream;
      };
    });
    await endpoint.attach(page);
  };
  await visit(browser, files.url, { prepare }, async (page) => {
    await page.getByRole("button", { name: "Talk" }).click();
    await untilState(page, { microphone: "on", phase: "live" });
    await page.evaluate(() => window.unplug());
    await page.getByText("The microphone went away").waitFor();
    await untilState(page, { microphone: "off", phase: "live" });
    await ask(page, "Still there?");
    assert.equal((await endpoint.next("text")).text, "Still there?");
    await page.getByRole("button", { name: "Talk" }).click();
    await untilState(page, { microphone: "on" });
    await page.getByText("The microphone went away").waitFor({ state: "hidden" });
  });
});

test("storage that is full takes nothing away but memory", async () => {
  const prepare = (page) => page.addInitScript(() => {
    Storage.prototype.setItem = () => {
      throw new DOMException("full", "QuotaExceededError");
    };
  });
  await visit(browser, files.url, { prepare }, async (page) => {
    await page.locator("#settings-button").click();
    await page.getByRole("radio", { name: "Dark" }).check();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    await page.keyboard.press("Escape");
    await ask(page, "Hello");
    await page.locator(".line.assistant").getByText("Yes.").waitFor();
    await ask(page, "Hello again");
    await page.locator(".line.assistant").nth(1).waitFor();
  });
});

/** Loses what is asked at `path` for as long as `network.isLost`. */
async function losing(path, steps) {
  const network = { isLost: true };
  const prepare = (page) => page.route(path, (route) => (network.isLost ? route.abort("connectionrefused") : route.continue()));
  await visit(browser, files.url, { prepare, excused: LOST }, (page) => steps(page, network));
}

test("a network that is lost while the list is read is said so, and the list comes", async () => {
  await losing(/api\/conversations\?|api\/conversations$/, async (page, network) => {
    await page.getByRole("button", { name: "Conversations" }).click();
    await page.getByText("The list cannot be read. The server does not answer.").waitFor();
    network.isLost = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".history-open", { hasText: "Tea" }).waitFor();
  });
});

test("a conversation that cannot be read, renamed or deleted now stays, and can be later", async () => {
  await losing(/api\/conversations\/tea/, async (page, network) => {
    const list = page.getByRole("button", { name: "Conversations" });
    const words = () => page.locator(".line .words").allTextContents();
    await list.click();
    await page.getByRole("button", { name: "Delete Tea" }).click();
    await page.getByRole("button", { name: "Delete it" }).click();
    await page.getByText("It is not deleted. The server does not answer.").waitFor();
    await page.getByRole("button", { name: "Rename Tea" }).click();
    await page.getByLabel("Title").fill("Coffee");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("It keeps its name. The server does not answer.").waitFor();
    assert.equal(await page.getByLabel("Title").inputValue(), "Coffee", "what was written stays");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator(".history-open", { hasText: "Tea" }).click();
    await page.getByText("What was said before cannot be shown now").waitFor();
    network.isLost = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".line.user").getByText("Later").waitFor();
    network.isLost = true;
    await page.getByRole("button", { name: "Show earlier messages" }).click();
    await page.getByText("What was said before cannot be shown now").waitFor();
    assert.deepEqual(await words(), ["Later"]);
    network.isLost = false;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator(".line.user").getByText("Earlier").waitFor();
    assert.deepEqual(await words(), ["Earlier", "Later"]);
    await page.getByText("What was said before cannot be shown now").waitFor({ state: "hidden" });
  });
});
