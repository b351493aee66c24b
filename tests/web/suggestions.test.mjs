// The empty page of a new project suggests what its guides can do, and says nothing of suggestions where there are none.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ask, launch, overflowPixels, PHONE, visit } from "./browser.mjs";
import { startOwnServer } from "./real.mjs";
import { servePage, VoiceEndpoint } from "./scripted.mjs";

let browser;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-suggestions-"));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** What a user says in the first example of a tool's guide. */
function firstExample(project, tool) {
  return /^\*\*"(.+)"\*\*$/m.exec(readFileSync(join(project, "tools", tool, "guide.md"), "utf8"))[1];
}

test("a new project suggests the first examples of the tools that only look", async () => {
  const project = join(folder, "desk");
  execFileSync(process.env.WINDLASS_BINARY, ["init", project, "--with", "calendar"], { stdio: "ignore" });
  // The demo model, and a service where nobody answers: what is suggested is known before a model is asked.
  const service = [["--provider", "openai-realtime", "--provider-url", "ws://127.0.0.1:9/"], { OPENAI_API_KEY: "none" }];
  for (const [flags, secrets] of [[[], {}], service]) {
    const server = await startOwnServer(flags, { folder: project, secrets });
    try {
      await visit(browser, server.url, {}, async (page) => {
        const shown = page.locator("#suggestions button");
        await shown.first().waitFor();
        const offered = await shown.allTextContents();
        for (const tool of ["calendar-get-availability", "calendar-list-events", "kb-search", "say-hello"]) assert.ok(offered.includes(firstExample(project, tool)), `${tool}: ${offered}`);
        for (const tool of ["calendar-create-event", "calendar-cancel-event"]) assert.ok(!offered.includes(firstExample(project, tool)), `${tool}: ${offered}`);
      });
    } finally {
      await server.close();
    }
  }
});

test("the demo model keeps a calendar in writing: it asks, makes the event and lists it", async () => {
  const project = join(folder, "front-desk");
  execFileSync(process.env.WINDLASS_BINARY, ["init", project, "--with", "calendar"], { stdio: "ignore" });
  const server = await startOwnServer([], { folder: project, secrets: {} });
  try {
    await visit(browser, server.url, {}, async (page) => {
      await page.waitForFunction(() => document.querySelector("#model").textContent !== "");
      const say = async (words) => {
        await page.locator("#message").fill(words);
        await page.keyboard.press("Enter");
      };
      await say('Book a meeting "Tea with Anna" on 2030-12-02 at 10:00 with anna@example.org');
      await page.getByRole("button", { name: /^Yes, go ahead/ }).click();
      await page.getByText("You said yes. “Tea with Anna” is in the calendar").first().waitFor();
      await say("What do I have on 2030-12-02?");
      await page.getByText("You have “Tea with Anna”, Monday 2 December 2030, 10:00 to 11:00.").first().waitFor();
    });
  } finally {
    await server.close();
  }
});

test("a suggestion is asked with a click, however long it is, and without any there is no list", async () => {
  const long = "Which of the ships that are in the harbour today can take twelve passengers and their dogs to the island?";
  for (const suggestions of [[long, "Am I free tomorrow afternoon?"], []]) {
    const files = await servePage({ suggestions });
    const endpoint = new VoiceEndpoint();
    try {
      await visit(browser, files.url, { context: PHONE, prepare: (page) => endpoint.attach(page) }, async (page) => {
        await page.waitForFunction(() => document.querySelector("#model").textContent !== "");
        assert.equal(await page.getByRole("list", { name: "Suggested questions" }).count(), suggestions.length > 0 ? 1 : 0);
        assert.equal(await overflowPixels(page), 0);
        if (suggestions.length === 0) return;
        await page.getByRole("button", { name: long }).click();
        assert.equal((await endpoint.next("text")).text, long);
      });
    } finally {
      files.close();
    }
  }
});

test("what the demo model offers is gone when it goes on by itself", async () => {
  const files = await servePage({ demo: true, suggestions: ["When are you open?"] });
  const endpoint = new VoiceEndpoint();
  try {
    await visit(browser, files.url, { prepare: (page) => endpoint.attach(page) }, async (page) => {
      await ask(page, "Book a table");
      await endpoint.next("text");
      endpoint.send({ type: "transcript", role: "assistant", text: "One moment.", final: true });
      endpoint.send({ type: "turn_complete", turn: 1 });
      const offer = page.locator(".offer");
      await offer.waitFor();
      endpoint.send({ type: "transcript", role: "assistant", text: "It waits for your yes.", final: true });
      await offer.waitFor({ state: "hidden" });
    });
  } finally {
    files.close();
  }
});
