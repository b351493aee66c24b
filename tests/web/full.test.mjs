// A server that has no room now: a page that begins is told so and can try again, and one that comes back to its session keeps
// its token and comes back. Once with a real server, and played by the test where a real one would take its time.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ask, launch, untilState, visit } from "./browser.mjs";
import { startOwnServer } from "./real.mjs";
import { VoiceEndpoint, servePage } from "./scripted.mjs";

const QUESTION = "Who designed the ship Fram?";
let browser;
let files;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-full-"));
  files = await servePage();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** Opens the page, waits until its session runs, and runs `steps(page, endpoint)`. */
async function inSession(steps) {
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { prepare: (page) => endpoint.attach(page) }, async (page) => {
    await ask(page, "Hello");
    await endpoint.next("text");
    await steps(page, endpoint);
  });
}

test("who finds no place is told so and can try again, and who has one keeps it over a reload", async () => {
  const config = join(folder, "windlass.toml");
  writeFileSync(config, "[server]\nsessions_max = 1\n");
  const server = await startOwnServer(["--config", config]);
  try {
    await visit(browser, server.url, {}, async (first) => {
      await ask(first, QUESTION);
      await untilState(first, { phase: "live" });
      await visit(browser, server.url, {}, async (second) => {
        await ask(second, QUESTION);
        await second.getByText("The server is full").waitFor();
        const again = second.getByRole("button", { name: "Start again" });
        await again.waitFor();
        await untilState(second, { phase: "ended" });

        const conversation = () => first.evaluate(() => JSON.parse(sessionStorage.getItem("windlass.session")).conversationId);
        const before = await conversation();
        await first.reload();
        await first.waitForFunction(() => window.windlass?.state.phase === "live");
        assert.equal(await conversation(), before);

        await first.getByRole("button", { name: "End session" }).click();
        await untilState(first, { phase: "ended" });
        // The place is free a moment after its session has ended.
        const phases = ["live", "ended"];
        let phase;
        do {
          await again.click();
          await second.waitForFunction((wanted) => wanted.includes(window.windlass.state.phase), phases);
          phase = await second.evaluate(() => window.windlass.state.phase);
        } while (phase !== "live");
        await second.getByText("The server is full").waitFor({ state: "hidden" });
        await ask(second, QUESTION);
        await second.waitForFunction(() => window.windlass.state.turnsCompleted >= 1);
      });
    });
  } finally {
    await server.close();
  }
});

test("a token is kept for as long as the server may still take it", async () => {
  for (const code of ["overloaded", "internal", "shutting_down"]) {
    await inSession(async (page, endpoint) => {
      const kept = () => page.evaluate(() => JSON.parse(sessionStorage.getItem("windlass.session"))?.resumeToken);
      const start = endpoint.onStart;
      let refusals = 0;
      endpoint.onStart = async (message) => {
        if (refusals === 2) return start(message);
        refusals += 1;
        endpoint.send({ type: "error", code, message: "not now" });
        await endpoint.close(1013);
      };
      await endpoint.close();
      await untilState(page, { phase: "reconnecting" });
      assert.equal(await kept(), "r1");
      await ask(page, "Still there?");
      await untilState(page, { phase: "live" });
      const shown = endpoint.all("start").slice(1).map(({ resume }) => resume);
      assert.deepEqual(shown, ["r1", "r1", "r1"], code);
      assert.equal((await endpoint.next("text")).text, "Still there?");
      assert.equal(await page.locator(".notice[data-subject=error]").count(), 0);
    });
  }
});

test("who comes back and finds no place in time is told why", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.onStart = () => endpoint.send({ type: "error", code: "overloaded", message: "full" });
    await page.evaluate(() => {
      const { now } = Date;
      window.later = (milliseconds) => {
        Date.now = () => now() + milliseconds;
      };
    });
    await endpoint.close();
    await untilState(page, { phase: "reconnecting" });
    await page.evaluate(() => window.later(120_000));
    await page.getByText("The server is full").waitFor();
    await page.getByRole("button", { name: "Start again" }).waitFor();
    await untilState(page, { phase: "ended" });
    const [, ...again] = endpoint.all("start");
    assert.ok(again.length > 0 && again.every(({ resume }) => resume === "r1"), JSON.stringify(again));
  });
});
