// The main job, on a real server with the demo model: a question is asked, tools are called, the answer is read and heard.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { DESK, NOT_IN_FIREFOX, PHONE, ask, launch, lowContrasts, overflowPixels, state, testInChromium, untilState, visit } from "./browser.mjs";
import { speechFile, startServer } from "./real.mjs";

const QUESTION = "Who designed the ship Fram?";
let server;
let browser;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-speech-"));
  server = await startServer();
  browser = await launch({ speechFile: speechFile(folder) });
});

after(async () => {
  await browser?.close();
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function untilAnswered(page, turns = 1) {
  await page.waitForFunction((wanted) => window.windlass.state.turnsCompleted >= wanted, turns);
  await untilState(page, { speaking: false, generating: false });
}

test("a typed question is answered with two tool calls, words, a source and sound", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, QUESTION);
    await untilAnswered(page);
    assert.deepEqual(await page.locator(".call-name").allTextContents(), ["kb_search", "kb_get"]);
    assert.deepEqual(await page.locator(".call[data-state=done]").count(), 2);
    const answer = page.locator(".line.assistant").last();
    assert.match(await answer.locator(".words").textContent(), /Colin Archer/);
    assert.ok((await answer.locator(".citation").count()) >= 1);
    const { framesReceived, framesPlayed, framesDropped, phase } = await state(page);
    assert.equal(phase, "live");
    assert.ok(framesPlayed > 0);
    assert.deepEqual([framesPlayed, framesDropped], [framesReceived, 0]);
    assert.equal(await page.locator(".line.user").count(), 1);
  });
});

test("the panel on the tools counts the calls of this server", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, QUESTION);
    await untilAnswered(page);
    await page.getByRole("button", { name: "Tool statistics" }).click();
    const row = page.locator("#tool-stats").getByRole("row", { name: "kb_search" });
    await row.waitFor();
    const [name, calls, worked] = await row.locator("th, td").allTextContents();
    assert.equal(name, "kb_search");
    assert.ok(Number(calls) >= 1 && /^\d+(\.\d)? %$/.test(worked), `${calls} ${worked}`);
  });
});

test("a call that worked shows what it brought, and one that was refused what it asked for", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, 'call kb_get {"id": "person:colin_archer"}');
    await untilAnswered(page);
    const done = page.locator(".call[data-state=done]");
    assert.match(await done.locator(".source").textContent(), /^Colin Archer/);
    assert.equal(await done.locator(".call-value").isVisible(), false);
    await done.locator(".call-result summary").click();
    assert.equal(await done.locator(".call-value").isVisible(), true);
    await ask(page, 'call kb_get {"name": "Fram"}');
    await untilAnswered(page, 2);
    const refused = page.locator(".call[data-state=refused]");
    assert.match(await refused.locator(".call-outcome").textContent(), /Refused\s*VALIDATION/);
    // Beside it are the defaults, as with any call.
    assert.equal(await refused.locator(".fields dt").first().textContent(), "Name");
    assert.equal(await refused.locator(".fields dd").first().textContent(), "Fram");
    assert.equal(await refused.locator(".call-result").isVisible(), false);
    assert.equal(await overflowPixels(page), 0);
  });
});

test("the demo model says what it is and offers questions to click", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await page.getByText("This is the demo model").waitFor();
    await page.locator("#suggestions").getByRole("button", { name: QUESTION }).click();
    await untilAnswered(page);
    assert.match(await page.locator(".line.user .words").textContent(), /Fram/);
    assert.ok((await page.locator(".offer button").count()) >= 1);
  });
});

test("a goodbye ends the session after the farewell was heard", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, "Let's stop here");
    await page.locator(".ending").waitFor();
    const { phase, speaking, framesReceived, framesPlayed, framesDropped } = await state(page);
    assert.deepEqual({ phase, speaking, framesDropped }, { phase: "ended", speaking: false, framesDropped: 0 });
    assert.ok(framesPlayed > 0);
    assert.equal(framesPlayed, framesReceived);
    await page.getByRole("button", { name: "Start again" }).click();
    await untilState(page, { phase: "live" });
  });
});

test("words that are typed after the end go on with the conversation, below what was said", async () => {
  await visit(browser, server.url, {}, async (page) => {
    const said = () => page.locator(".line.user .words").allTextContents();
    await ask(page, QUESTION);
    await untilAnswered(page);
    await page.getByRole("button", { name: "End session" }).click();
    await page.getByRole("button", { name: "Start again" }).waitFor();
    await ask(page, "Where is the Fram Museum?");
    await untilAnswered(page, 2);
    assert.deepEqual(await said(), [QUESTION, "Where is the Fram Museum?"]);
    assert.equal(await page.locator(".call").count(), 4);
    assert.equal(await page.getByRole("button", { name: "Start again" }).count(), 0);
    await page.reload();
    await untilState(page, { phase: "live" });
    assert.deepEqual(await said(), [QUESTION, "Where is the Fram Museum?"], "it is one conversation");
  });
});

test("Escape stops the answer at once, and the session goes on", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, QUESTION);
    await untilState(page, { speaking: true });
    await page.keyboard.press("Escape");
    await untilState(page, { speaking: false, generating: false });
    const { interruptions, framesDropped } = await state(page);
    assert.equal(interruptions, 1);
    assert.ok(framesDropped > 0);
    const before = await state(page);
    await ask(page, QUESTION);
    await page.waitForFunction((played) => window.windlass.state.framesPlayed > played, before.framesPlayed);
    assert.equal((await state(page)).phase, "live");
  });
});

testInChromium("spoken input reaches the model, and the demo model answers with questions to click", NOT_IN_FIREFOX.microphones, async () => {
  await visit(browser, server.url, {}, async (page) => {
    await page.getByRole("button", { name: "Talk" }).click();
    await untilState(page, { microphone: "on", phase: "live" });
    await page.locator(".offer button").first().waitFor();
    assert.match(await page.locator(".line.assistant .words").last().textContent(), /speech/i);
    assert.ok((await state(page)).framesSent > 50);
    await page.getByRole("button", { name: "Pause" }).click();
    await untilState(page, { microphone: "off", phase: "live" });
  });
});

test("a microphone that is refused is explained, and typing works", async () => {
  const refusing = await launch({ microphone: false });
  try {
    await visit(refusing, server.url, {}, async (page) => {
      await page.getByRole("button", { name: "Talk" }).click();
      await page.getByText("The microphone is not allowed").waitFor();
      await ask(page, QUESTION);
      await untilAnswered(page);
      assert.match(await page.locator(".line.assistant .words").last().textContent(), /Colin Archer/);
    });
  } finally {
    await refusing.close();
  }
});

testInChromium("the whole conversation works by keyboard alone", NOT_IN_FIREFOX.keyboard, async () => {
  await visit(browser, server.url, {}, async (page) => {
    // The field has the focus at load.
    await page.keyboard.type(QUESTION);
    await page.keyboard.press("Control+Enter");
    await untilAnswered(page);
    const reached = new Set();
    for (let presses = 0; presses < 40; presses += 1) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement.id || document.activeElement.className));
      const outline = await page.evaluate(() => {
        const focused = document.activeElement.closest(".field") ?? document.activeElement;
        return focused === document.body ? "solid" : getComputedStyle(focused).outlineStyle;
      });
      assert.equal(outline, "solid");
    }
    for (const place of ["history-button", "sound", "settings-button", "end", "talk", "message", "send", "citation", "suggestion", "icon copy", "icon for-newest"]) {
      assert.ok(reached.has(place), `${place} is not reached by Tab; reached: ${[...reached].join(", ")}`);
    }
  });
});

test("on phones nothing is wider than the screen, and the calls open on demand", async () => {
  for (const width of [320, 390]) {
    await visit(browser, server.url, { context: { ...PHONE, viewport: { width, height: 700 } } }, async (page) => {
      assert.equal(await overflowPixels(page), 0);
      await ask(page, QUESTION);
      await untilAnswered(page);
      assert.equal(await overflowPixels(page), 0);
      assert.equal(await page.locator(".call").first().isVisible(), false);
      await page.locator("#calls > summary").click();
      assert.equal(await page.locator(".call").first().isVisible(), true);
      assert.equal(await overflowPixels(page), 0);
    });
  }
});

test("the end of the conversation stays in sight where a keyboard or a turned phone leaves less room", async () => {
  await visit(browser, server.url, { context: PHONE }, async (page) => {
    await ask(page, QUESTION);
    await untilAnswered(page);
    const hidden = () => page.evaluate(() => {
      const box = document.querySelector("#conversation");
      return box.scrollHeight - box.scrollTop - box.clientHeight;
    });
    assert.ok((await hidden()) < 2);
    for (const viewport of [{ width: 390, height: 380 }, { width: 844, height: 390 }, PHONE.viewport]) {
      await page.setViewportSize(viewport);
      await page.waitForFunction(() => {
        const box = document.querySelector("#conversation");
        return box.scrollHeight - box.scrollTop - box.clientHeight < 2;
      });
    }
  });
});

test("text has the contrast of WCAG AA, light and dark", async () => {
  for (const colorScheme of ["light", "dark"]) {
    await visit(browser, server.url, { context: { ...DESK, colorScheme } }, async (page) => {
      assert.deepEqual(await lowContrasts(page), []);
      await ask(page, QUESTION);
      await untilAnswered(page);
      assert.deepEqual(await lowContrasts(page), []);
    });
  }
});

test("a reload takes the session up again with what was said", async () => {
  await visit(browser, server.url, {}, async (page) => {
    await ask(page, QUESTION);
    await untilAnswered(page);
    await page.reload();
    await untilState(page, { phase: "live" });
    assert.equal(await page.locator(".line.user").count(), 1);
    assert.match(await page.locator(".line.assistant .words").last().textContent(), /Colin Archer/);
    assert.ok((await page.locator(".citation").count()) >= 1);
    assert.deepEqual(await page.locator(".call-name").allTextContents(), ["kb_search", "kb_get"]);
  });
});
