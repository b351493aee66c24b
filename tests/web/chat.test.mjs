// The chat beside voice, on a real server whose model for text is a rule: words, calls, sources, and the way to voice and back.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startModel } from "../sdk/model.mjs";
import { NOT_IN_FIREFOX, ask, launch, state, testInChromium, untilState, visit } from "./browser.mjs";
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

const FINISH = { type: "finish", finishReason: "stop" };
const streamOf = (chunks) => chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("");

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
      calls: [...document.querySelectorAll(".call")].map((call) => [
        call.dataset.state,
        call.querySelector(".call-name").textContent,
        call.querySelector(".fields").innerText,
        call.querySelectorAll(".call-track span").length,
      ]),
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
    assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "");
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

test("a call that needs consent asks in the conversation, and runs where the user says yes", async () => {
  const config = join(folder, "windlass.toml");
  writeFileSync(config, "[tools.kb_search]\nrequires_confirmation = true\n");
  const careful = await startServer(["--config", config, "--text-provider", "openai", "--text-provider-url", model.url]);
  try {
    for (const [name, ended, words, outcome] of [
      ["Yes, go ahead", "It was looked up.", /approved the call/, /^Done/],
      ["No, do not", "Colin Archer did.", /said no/, /^Declined/],
    ]) {
      await visit(browser, careful.url, {}, async (page) => {
        await ask(page, "Who designed the Fram?");
        const card = page.locator(".card");
        await card.waitFor();
        assert.match(await card.locator(".card-preview").textContent(), /kb_search|Fram/);
        await untilState(page, { generating: false });
        const { turnsCompleted } = await state(page);
        await card.getByRole("button", { name, disabled: false }).click();
        await page.locator("#approvals").waitFor({ state: "hidden" });
        await untilAnswered(page, turnsCompleted + 1);
        assert.equal(await page.locator(".line.assistant").last().locator(".words").textContent(), ended);
        assert.match(JSON.stringify(model.seen.at(-1).messages), words);
        assert.match(await page.locator(".call-outcome").first().textContent(), outcome);
        await page.reload();
        await page.locator(".line.assistant").first().waitFor();
        assert.match(await page.locator(".call-outcome").first().textContent(), outcome, "so it is after a reload");
        assert.equal(await page.locator(".call").count(), 1);
        assert.equal(await page.locator(".card").count(), 0);
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
      route.fulfill({ contentType: "text/event-stream", body: streamOf([{ type: "data-confirmation-request", data }, FINISH]) });
    });
  };
  await visit(browser, server.url, { prepare }, async (page) => {
    await ask(page, "Pay ten.");
    await page.getByText(/You can answer for another [45]:\d\d/).waitFor();
  });
});

testInChromium("an answer in writing that is not stored is asked for once more", NOT_IN_FIREFOX.requests, async () => {
  const request = { toolCallId: "call-1", token: "token-1", tool: "pay", args: { text: "10" }, preview: null, expiresAt: new Date(Date.now() + 300_000).toISOString() };
  const streams = [
    [{ type: "data-confirmation-request", data: request }],
    [{ type: "data-answer-again", data: { toolCallId: "call-1", code: "TRANSIENT", message: "not stored" }, transient: true }],
  ];
  const sent = [];
  const prepare = (page) => page.route("**/api/chat", (route) => {
    const body = streamOf([{ type: "start" }, ...streams[Math.min(sent.length, 1)], FINISH]);
    sent.push(route.request().postDataJSON());
    route.fulfill({ contentType: "text/event-stream", body });
  });
  await visit(browser, server.url, { prepare }, async (page) => {
    await ask(page, "Pay ten.");
    const no = page.locator(".card[data-state=open]").getByRole("button", { name: "No, do not", disabled: false });
    await no.click();
    await page.getByText("Your answer is not stored").waitFor();
    const why = page.getByLabel("If not, why?");
    await why.fill("Yes, but too dear");
    assert.equal(sent.length, 2, "what is typed there answers nothing");
    await no.click();
    await page.waitForFunction(() => document.querySelector(".card")?.dataset.state === "open");
    assert.equal(sent.length, 3);
    const answers = sent.slice(1).map((body) => body.messages[0].parts[0].approval);
    assert.deepEqual(answers, [{ id: "token-1", approved: false }, { id: "token-1", approved: false, reason: "Yes, but too dear" }]);
  });
});

testInChromium("an answer to an approval that does not reach the server can be given once more", NOT_IN_FIREFOX.requests, async () => {
  const request = { toolCallId: "call-1", token: "token-1", tool: "pay", args: { text: "10" }, preview: null, expiresAt: new Date(Date.now() + 300_000).toISOString() };
  const sent = [];
  const prepare = (page) => page.route("**/api/chat", (route) => {
    sent.push(route.request().postDataJSON());
    if (sent.length === 2) return route.abort("connectionrefused");
    const parts = sent.length === 1 ? [{ type: "data-confirmation-request", data: request }] : [{ type: "tool-output-available", toolCallId: "call-1", output: {} }];
    return route.fulfill({ contentType: "text/event-stream", body: streamOf([...parts, FINISH]) });
  });
  await visit(browser, server.url, { prepare, excused: /ERR_CONNECTION_REFUSED/ }, async (page) => {
    await ask(page, "Pay ten.");
    const yes = page.locator(".card[data-state=open]").getByRole("button", { name: "Yes, go ahead", disabled: false });
    await yes.click();
    await page.getByText("Your answer did not reach the server").waitFor();
    await yes.click();
    await page.locator("#approvals").waitFor({ state: "hidden" });
    assert.deepEqual(sent.slice(1).map((body) => body.messages[0].parts[0].approval.approved), [true, true]);
  });
});

/** A page whose chat is answered by `streams`, one after the other: lists of chunks, or null where the connection breaks at once. */
async function onStreams(streams, steps) {
  const sent = [];
  const prepare = (page) => page.route("**/api/chat", (route) => {
    const chunks = streams[Math.min(sent.length, streams.length - 1)];
    sent.push(route.request().postDataJSON());
    return chunks === null ? route.abort("connectionrefused") : route.fulfill({ contentType: "text/event-stream", body: streamOf(chunks) });
  });
  await visit(browser, server.url, { prepare, excused: /ERR_CONNECTION_REFUSED/ }, (page) => steps(page, sent));
}

const says = (delta) => ({ type: "text-delta", id: "t", delta });
const lines = (page) => page.locator(".line .words").allTextContents();

test("a message that did not arrive keeps its text, says so, and goes out again", async () => {
  await onStreams([null, [says("Here."), FINISH]], async (page, sent) => {
    await ask(page, "Are you there?");
    await page.locator(".problem").getByText("There is no answer.").waitFor();
    await page.getByText("The server cannot be reached").waitFor({ state: "hidden" });
    assert.deepEqual(await lines(page), ["Are you there?"]);
    await page.getByRole("button", { name: "Retry" }).click();
    await page.locator(".line.assistant").getByText("Here.").waitFor();
    assert.deepEqual(sent[1], sent[0], "the same message under the same id");
    assert.deepEqual(await lines(page), ["Are you there?", "Here."]);
    assert.equal(await page.locator(".problem").count(), 0);
  });
});

testInChromium("an answer that is cut off stays until its repeat begins", NOT_IN_FIREFOX.requests, async () => {
  for (const cut of [[says("Colin")], [says("Colin"), { type: "error", errorText: "The model is gone." }, { type: "finish", finishReason: "error" }]]) {
    await onStreams([cut, [says("Colin Archer."), FINISH]], async (page, sent) => {
      await ask(page, "Who?");
      await page.locator(".problem").getByText("The answer was cut off.").waitFor();
      assert.deepEqual(await lines(page), ["Who?", "Colin"]);
      await page.getByText("cut off", { exact: true }).waitFor();
      await page.getByRole("button", { name: "Retry" }).click();
      await page.locator(".line.assistant").getByText("Colin Archer.").waitFor();
      assert.deepEqual(await lines(page), ["Who?", "Colin Archer."]);
      assert.equal(sent[1].messages[0].id, sent[0].messages[0].id);
    });
  }
});

testInChromium("the newest answer can be given again, and the newest message be changed", NOT_IN_FIREFOX.requests, async () => {
  await onStreams([[says("One."), FINISH], [says("Two."), FINISH], [says("Three."), FINISH]], async (page, sent) => {
    await ask(page, "Count");
    await untilAnswered(page);
    await page.getByRole("button", { name: "Answer again" }).click();
    await page.locator(".line.assistant").getByText("Two.").waitFor();
    assert.deepEqual(await lines(page), ["Count", "Two."]);
    assert.deepEqual([sent[1].trigger, sent[1].messages[0].id], ["regenerate-message", sent[0].messages[0].id]);
    await page.getByRole("button", { name: "Edit this message" }).click();
    const field = page.getByLabel("Message", { exact: true });
    assert.equal(await field.inputValue(), "Count");
    await field.fill("Count on");
    await field.press("Enter");
    await page.locator(".line.assistant").getByText("Three.").waitFor();
    assert.deepEqual([sent[2].trigger, sent[2].messages[0].id, sent[2].messages[0].parts[0].text], ["submit-message", sent[0].messages[0].id, "Count on"]);
  });
});

testInChromium("pictures go with the message, small enough, and can be taken away before", NOT_IN_FIREFOX.requests, async () => {
  await onStreams([[says("A picture."), FINISH]], async (page, sent) => {
    const png = Buffer.from(await page.evaluate(async () => {
      const canvas = new OffscreenCanvas(3000, 1500);
      canvas.getContext("2d").fillRect(0, 0, 1500, 1500);
      return [...new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer())];
    }));
    const files = [
      { name: "large.png", mimeType: "image/png", buffer: png },
      { name: "other.png", mimeType: "image/png", buffer: png },
      { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("no picture") },
    ];
    await page.locator("#files").setInputFiles(files);
    await page.getByText("“notes.txt” is no picture").waitFor();
    await page.getByRole("button", { name: "Remove other.png" }).click();
    await page.locator("#message").press("Enter");
    await untilAnswered(page);
    const [part, ...more] = sent[0].messages[0].parts;
    assert.deepEqual([part.type, part.mediaType, part.filename, more.length], ["file", "image/jpeg", "large.png", 0]);
    assert.match(part.url, /^data:image\/jpeg;base64,/);
    assert.equal(await page.locator(".line.user").getByRole("img", { name: "large.png" }).count(), 1);
    assert.equal(await page.locator(".attachment").count(), 0);
  });
});

test("the place of the reader and what is being written outlive a reload", async () => {
  await visit(browser, server.url, {}, async (page) => {
    for (let turn = 1; turn <= 6; turn += 1) {
      await ask(page, `Thank you ${turn} ${"and ".repeat(120)}`);
      await untilAnswered(page, turn);
    }
    await page.getByLabel("Message", { exact: true }).fill("Half a th");
    const box = page.locator("#conversation");
    await box.hover();
    await page.mouse.wheel(0, -600);
    await page.locator("#to-end:visible").waitFor();
    const seen = () => page.evaluate(() => {
      const top = document.querySelector("#conversation").getBoundingClientRect().top;
      const lines = [...document.querySelectorAll(".line")];
      const at = lines.findIndex((line) => line.getBoundingClientRect().bottom > top);
      return [at, Math.round(lines[at].getBoundingClientRect().top - top)];
    });
    // A wheel moves the page smoothly: it has arrived where two looks see the same.
    let before;
    do before = await seen(); while ((await page.evaluate(() => new Promise(requestAnimationFrame)), String(await seen()) !== String(before)));
    await page.reload();
    await page.locator(".line.assistant").nth(5).waitFor();
    await page.locator("#to-end:visible").waitFor();
    const after = await seen();
    assert.equal(after[0], before[0]);
    assert.ok(Math.abs(after[1] - before[1]) <= 2, `${after} and ${before}`);
    assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "Half a th");
    await page.getByRole("button", { name: "To the newest message" }).click();
    await page.locator("#to-end").waitFor({ state: "hidden" });
  });
});

test("conversations are found again, renamed and deleted at the server", async () => {
  // The browser itself reports that what was deleted is asked for once more.
  await visit(browser, server.url, { excused: /404/ }, async (page) => {
    const list = page.getByRole("button", { name: "Conversations" });
    const titles = () => page.locator(".history-open .history-title").allTextContents();
    await ask(page, "Who designed the Fram?");
    await untilAnswered(page);
    await page.getByRole("button", { name: "New conversation" }).click();
    await ask(page, "Thank you");
    await untilAnswered(page, 2);
    await list.click();
    await page.locator(".history-open").nth(1).waitFor();
    assert.deepEqual(await titles(), ["Thank you", "Who designed the Fram?"]);
    await page.locator("#history-search").fill("DESIGNED");
    await page.getByText("1 found").waitFor();
    await page.getByRole("button", { name: "Rename Who designed the Fram?" }).click();
    await page.getByLabel("Title").fill("Ships");
    await page.getByLabel("Title").press("Enter");
    await page.locator(".history-open", { hasText: "Ships" }).click();
    await page.locator(".line.assistant").getByText("Colin Archer did.").waitFor();
    assert.match(await page.locator(".call").innerText(), /kb_search[^]*Done[^]*Colin Archer[^]*As JSON/);
    await list.click();
    await page.getByRole("button", { name: "Delete Ships" }).click();
    await page.getByRole("button", { name: "Delete it" }).click();
    await page.locator(".history-open", { hasText: "Ships" }).waitFor({ state: "detached" });
    await page.reload();
    await list.click();
    await page.locator(".history-open").waitFor();
    assert.deepEqual(await titles(), ["Thank you"]);
  });
});

test("an answer that is being written goes on after a reload, and is stopped at the server", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, "Tell me slowly");
    await page.locator(".line.assistant").getByText("One moment").waitFor();
    await page.reload();
    await page.locator(".line.assistant").getByText("One moment").waitFor();
    await untilState(page, { generating: true });
    assert.equal(await page.locator(".line.user").count(), 1);
    await page.getByRole("button", { name: /Stop the answer/ }).click();
    await untilState(page, { generating: false });
    await ask(page, "Thank you");
    await untilAnswered(page);
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
