// The chat beside voice, on a real server whose model for text is a rule: words, calls, sources, and the way to voice and back.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startModel } from "../sdk/model.mjs";
import { ask, launch, state, untilState, visit } from "./browser.mjs";
import { speechFile, startServer } from "./real.mjs";

let model;
let server;
let browser;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-speech-"));
  model = await startModel();
  server = await startServer(["--text-provider", "openai", "--text-provider-url", model.url]);
  browser = await launch({ speechFile: speechFile(folder) });
});

after(async () => {
  await browser?.close();
  await server?.close();
  model?.close();
  rmSync(folder, { recursive: true, force: true });
});

const untilAnswered = (page, turns = 1) =>
  page.waitForFunction((wanted) => window.windlass.state.turnsCompleted >= wanted, turns);

test("a typed question is answered in writing, with its calls and sources", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, "Who designed the Fram?");
    await untilAnswered(page);
    assert.equal((await state(page)).phase, "idle", "no voice session was needed");
    assert.deepEqual(await page.locator(".call-name").allTextContents(), ["kb_search"]);
    const answer = page.locator(".line.assistant").last();
    assert.equal(await answer.locator(".words").textContent(), "Colin Archer did.");
    assert.ok((await answer.locator(".citation").count()) >= 1);
    await ask(page, "Thank you");
    await untilAnswered(page, 2);
    assert.ok(model.seen.at(-1).messages.length >= 5, "the server holds the conversation");
  });
});

test("a text model beside the demo voice is told apart from it", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await page.getByText("The voice is a demo").waitFor();
    assert.equal(await page.getByText("This is the demo model").isVisible(), false);
    assert.match(await page.locator("#model").textContent(), /^Text: .+, openai · Voice: Demo model \(rules, no AI\)$/);
    await ask(page, "Who designed the Fram?");
    await untilAnswered(page);
    assert.equal(await page.locator(".offer").count(), 0, "the demo's questions are not offered beneath another model's answer");
  });
});

test("a reload shows what was said, its sources and the calls again, and the conversation goes on", async () => {
  await visit(browser, server.url, {}, async (page) => {
    const shown = () => page.evaluate(() => ({
      words: [...document.querySelectorAll(".line .words")].map(({ textContent }) => textContent),
      sources: [...document.querySelectorAll(".citation")].map(({ textContent, href }) => [textContent, href]),
      calls: [...document.querySelectorAll(".call")].map(({ dataset, innerText }) => [dataset.state, innerText.split("\n")[0]]),
    }));
    await ask(page, "Who designed the Fram?");
    await untilAnswered(page);
    const before = await shown();
    assert.deepEqual(before.words, ["Who designed the Fram?", "Colin Archer did."]);
    assert.deepEqual([before.calls.length, before.sources.length > 0], [1, true]);
    await page.reload();
    await page.locator(".line.assistant").waitFor();
    assert.deepEqual(await shown(), before);
    await ask(page, "Thank you");
    await untilAnswered(page);
    const heard = () => model.seen.at(-1).messages.filter(({ role }) => role === "user").length;
    assert.equal(heard(), 2);
    await page.getByRole("button", { name: "New conversation" }).click();
    assert.deepEqual(await shown(), { words: [], sources: [], calls: [] });
    await ask(page, "Hello");
    await untilAnswered(page, 2);
    assert.equal(heard(), 1);
  });
});

test("a question that is typed before the page knows its server is answered in writing, too", async () => {
  let answer;
  const typed = new Promise((resolve) => {
    answer = resolve;
  });
  const prepare = (page) =>
    page.route("**/api/info", async (route) => {
      await typed;
      await route.continue();
    });
  await visit(browser, server.url, { prepare }, async (page) => {
    await ask(page, "Who designed the Fram?");
    assert.equal(await page.getByLabel("Message").inputValue(), "");
    answer();
    await untilAnswered(page);
    assert.equal((await state(page)).phase, "idle", "no voice session was needed");
    assert.equal(await page.locator(".line.user").count(), 1);
  });
});

test("an answer that is stopped stays stopped", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, "Tell me slowly");
    await page.getByText("One moment").waitFor();
    await page.getByRole("button", { name: /Stop the answer/ }).click();
    await page.getByText("interrupted", { exact: true }).waitFor();
    await untilState(page, { generating: false });
  });
});

test("a call that needs consent asks in a dialog, and runs where the user says yes", async () => {
  const config = join(folder, "windlass.toml");
  writeFileSync(config, "[tools.kb_search]\nrequires_confirmation = true\n");
  const careful = await startServer(["--config", config, "--text-provider", "openai", "--text-provider-url", model.url]);
  try {
    for (const [button, ended, words, outcome] of [
      ["Yes", "It was looked up.", /approved the call/, /^Done/],
      ["No", "Colin Archer did.", /said no/, /^Declined/],
    ]) {
      await visit(browser, careful.url, {}, async (page) => {
        await ask(page, "Who designed the Fram?");
        const dialog = page.locator("#confirmation[open]");
        await dialog.waitFor();
        assert.match(await page.locator("#confirmation-preview").textContent(), /kb_search|Fram/);
        await untilState(page, { generating: false });
        const { turnsCompleted } = await state(page);
        await dialog.getByRole("button", { name: new RegExp(`^${button}`) }).click();
        await page.locator("#confirmation").waitFor({ state: "hidden" });
        await untilAnswered(page, turnsCompleted + 1);
        assert.equal(await page.locator(".line.assistant").last().locator(".words").textContent(), ended);
        assert.match(JSON.stringify(model.seen.at(-1).messages), words);
        assert.match(await page.locator(".call-outcome").first().textContent(), outcome);
        await page.reload();
        await page.locator(".line.assistant").first().waitFor();
        assert.match(await page.locator(".call-outcome").first().textContent(), outcome, "so it is after a reload");
        assert.equal(await page.locator(".call").count(), 1);
      });
    }
  } finally {
    await careful.close();
  }
});

test("a clock of this device that is wrong does not take the time to answer away", async () => {
  const request = { toolCallId: "call-1", token: "token-1", tool: "pay", args: { text: "10" }, preview: null };
  const prepare = async (page) => {
    await page.addInitScript(() => {
      const { now } = Date;
      Date.now = () => now() + 600_000;
    });
    await page.route("**/api/chat", (route) => {
      const data = { ...request, expiresAt: new Date(Date.now() + 300_000).toISOString() };
      route.fulfill({ contentType: "text/event-stream", body: `data: ${JSON.stringify({ type: "data-confirmation-request", data })}\n\n` });
    });
  };
  await visit(browser, server.url, { prepare }, async (page) => {
    await ask(page, "Pay ten.");
    await page.getByText(/You can answer for another [45]:\d\d/).waitFor();
  });
});

test("an answer in writing that is not stored is asked for once more", async () => {
  const request = { toolCallId: "call-1", token: "token-1", tool: "pay", args: { text: "10" }, preview: null, expiresAt: new Date(Date.now() + 300_000).toISOString() };
  const streams = [
    [{ type: "data-confirmation-request", data: request }],
    [{ type: "data-answer-again", data: { toolCallId: "call-1", code: "TRANSIENT", message: "not stored" }, transient: true }],
  ];
  const sent = [];
  const prepare = (page) => page.route("**/api/chat", (route) => {
    const chunks = [{ type: "start" }, ...streams[Math.min(sent.length, 1)]];
    sent.push(route.request().postDataJSON());
    route.fulfill({ contentType: "text/event-stream", body: chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("") });
  });
  await visit(browser, server.url, { prepare }, async (page) => {
    await ask(page, "Pay ten.");
    const no = page.locator("#confirmation[open]").getByRole("button", { name: /^No/ });
    await no.click();
    await page.getByText("Your answer is not stored").waitFor();
    await no.click();
    await page.waitForFunction(() => document.querySelector("#confirmation")?.open === true);
    assert.equal(sent.length, 3);
    const answers = sent.slice(1).map((body) => body.messages[0].parts[0].approval);
    assert.deepEqual(answers, [{ id: "token-1", approved: false }, { id: "token-1", approved: false }]);
  });
});

test("the conversation goes on by voice, and comes back", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, "Let's talk");
    await untilState(page, { phase: "live" });
    // The voice session answers what was asked, without being asked again.
    await page.locator(".call-name", { hasText: "kb_search" }).first().waitFor();
    await page.locator("#end").click();
    await untilState(page, { phase: "idle" });
    await page.getByText("Voice ended").waitFor();
    const asked = model.seen.length;
    const { turnsCompleted } = await state(page);
    await ask(page, "Where were we?");
    await untilAnswered(page, turnsCompleted + 1);
    const told = JSON.stringify(model.seen[asked].messages);
    assert.match(told, /Let's talk/);
    assert.match(told, /Who designed the Fram\?/, "what was said by voice is known");
  });
});
