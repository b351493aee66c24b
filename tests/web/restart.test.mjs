// A server that is killed in mid-conversation and started again: the page goes on by itself, by voice and by text, and what it
// was asked can still be answered.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startModel } from "../sdk/model.mjs";
import { ask, launch, state, untilState, visit } from "./browser.mjs";
import { speechFile, startOwnServer } from "./real.mjs";

const QUESTION = "Who designed the ship Fram?";
// The browser itself reports that nobody listens for a while.
const excused = /WebSocket connection to .* failed|can’t establish a connection to the server|was interrupted while the page was loading|ERR_CONNECTION_(REFUSED|RESET)/;
let browser;
let folder;
let careful;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-restart-"));
  careful = join(folder, "windlass.toml");
  writeFileSync(careful, "[tools.kb_search]\nrequires_confirmation = true\n");
  browser = await launch({ speechFile: speechFile(folder) });
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * Waits until what ended before is on the disk: turns are stored a moment after they end, and a question that nobody knows is
 * looked for behind them.
 */
async function everythingStored(url) {
  const body = JSON.stringify({ conversationId: "nobody", token: "none", approved: true });
  const answer = await fetch(new URL("/api/confirm", url), { method: "POST", body });
  assert.equal(answer.status, 410);
}

/** Runs `steps(page, restart)` on a server of its own; `restart()` kills it and starts it again once the page has seen it gone. */
async function onServer(flags, steps) {
  const server = await startOwnServer(flags);
  const restart = async (page) => {
    await everythingStored(server.url);
    await server.kill();
    if ((await state(page)).phase !== "idle") await untilState(page, { phase: "reconnecting" });
    await server.startAgain();
  };
  try {
    await visit(browser, server.url, { excused }, (page) => steps(page, () => restart(page)));
  } finally {
    await server.close();
  }
}

const untilAnswered = async (page, turns) => {
  await page.waitForFunction((wanted) => window.windlass.state.turnsCompleted >= wanted, turns);
  await untilState(page, { speaking: false, generating: false });
};

const conversation = (page) => page.evaluate(() => JSON.parse(sessionStorage.getItem("windlass.session")).conversationId);

test("a typed conversation by voice goes on after a restart", async () => {
  await onServer([], async (page, restart) => {
    await ask(page, QUESTION);
    await untilAnswered(page, 1);
    const before = await conversation(page);
    await restart();
    await untilState(page, { phase: "live" });
    assert.equal(await conversation(page), before);
    await ask(page, QUESTION);
    await untilAnswered(page, 2);
    assert.equal(await page.locator(".line.user").count(), 2);
    const answers = await page.locator(".line.assistant .words").allTextContents();
    assert.match(answers.at(0), /Colin Archer/);
    assert.match(answers.at(-1), /Colin Archer/);
  });
});

test("an open microphone is heard by the next server, too", async () => {
  await onServer([], async (page, restart) => {
    await page.getByRole("button", { name: "Talk" }).click();
    await untilState(page, { microphone: "on", phase: "live" });
    await restart();
    await untilState(page, { microphone: "on", phase: "live" });
    const { framesSent } = await state(page);
    await page.waitForFunction((sent) => window.windlass.state.framesSent > sent + 10, framesSent);
  });
});

test("words that are typed while nobody listens are answered", async () => {
  await onServer([], async (page, restart) => {
    await ask(page, "Thank you");
    await untilAnswered(page, 1);
    const restarted = restart();
    await untilState(page, { phase: "reconnecting" });
    await ask(page, QUESTION);
    await restarted;
    await untilAnswered(page, 2);
    assert.match(await page.locator(".line.assistant .words").last().textContent(), /Colin Archer/);
  });
});

test("a question that was open by voice can still be answered, once", async () => {
  for (const [button, state] of [["Yes", "done"], ["No", "refused"]]) {
    await onServer(["--config", careful], async (page, restart) => {
      await ask(page, 'call kb_search {"query": "Colin Archer"}');
      const card = page.locator(".card");
      await card.waitFor();
      await restart();
      await untilState(page, { phase: "live" });
      await card.getByRole("button", { name: new RegExp(`^${button}`), disabled: false }).click();
      await page.locator("#approvals").waitFor({ state: "hidden" });
      await page.locator(`.call[data-state=${state}]`).first().waitFor();
      assert.equal(await page.locator(".card").count(), 0, "it is asked once");
    });
  }
});

test("a question that was open in the chat can still be answered", async () => {
  const model = await startModel();
  try {
    const text = ["--text-provider", "openai", "--text-provider-url", model.url];
    await onServer(["--config", careful, ...text], async (page, restart) => {
      await ask(page, "Who designed the Fram?");
      const card = page.locator(".card");
      await card.waitFor();
      await untilState(page, { generating: false });
      const { turnsCompleted } = await state(page);
      await restart();
      await card.getByRole("button", { name: /^Yes/, disabled: false }).click();
      await page.locator("#approvals").waitFor({ state: "hidden" });
      await untilAnswered(page, turnsCompleted + 1);
      assert.equal(await page.locator(".line.assistant").last().locator(".words").textContent(), "It was looked up.");
    });
  } finally {
    model.close();
  }
});
