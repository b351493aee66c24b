// The package in a page of another origin, against a real server: no cookie reaches it, and the signed token makes it one client.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { startModel } from "../sdk/model.mjs";
import { launch, PATIENCE_MS } from "./browser.mjs";
import { startServer } from "./real.mjs";

const SOURCE = new URL("../../clients/javascript/src/", import.meta.url);
let site;
let model;
let server;
let browser;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-origin-"));
  site = createServer((request, response) => {
    const isScript = /^\/[a-z-]+\.js$/.test(request.url);
    response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html" });
    response.end(isScript ? readFileSync(new URL(request.url.slice(1), SOURCE)) : "<!doctype html><title>Elsewhere</title>");
  });
  site.listen(0, "127.0.0.1");
  await once(site, "listening");
  const config = join(folder, "windlass.toml");
  writeFileSync(config, `[server]\nallowed_origins = ["http://127.0.0.1:${site.address().port}"]\n`);
  model = await startModel();
  server = await startServer(["--config", config, "--text-provider", "openai", "--text-provider-url", model.url]);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
  model?.close();
  site?.close();
  rmSync(folder, { recursive: true, force: true });
});

test("a page of another origin chats, reads its conversations back and goes on by voice, as one client", async () => {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
  const found = await page.evaluate(async (url) => {
    const { ChatTransport, Conversations, Voice } = await import("/index.js");
    const transport = new ChatTransport({ url });
    const say = async (text) => {
      const message = { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] };
      const stream = await transport.sendMessages({ chatId: "elsewhere", messages: [message], trigger: "submit-message" });
      let words = "";
      const reader = stream.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return words;
        if (value.type === "text-delta") words += value.delta;
      }
    };
    const answers = [await say("Who designed the Fram?"), await say("Thank you")];
    const conversations = new Conversations({ url });
    const { conversations: rows } = await conversations.list();
    const { messages } = await conversations.read("elsewhere");
    const voice = new Voice({ url });
    const started = new Promise((resolve, reject) => {
      voice.on("started", ({ conversationId }) => resolve(conversationId));
      voice.on("ended", ({ reason }) => reject(new Error(reason)));
    });
    voice.open({ conversationId: "elsewhere" });
    const heard = await started;
    const refused = await fetch(new URL("api/conversations/elsewhere", url)).then(({ status }) => status);
    return { answers, ids: rows.map(({ id }) => id), roles: messages.map(({ role }) => role), heard, refused, token: Object.keys(localStorage).length };
  }, server.url);
  assert.equal(found.answers[0], "Colin Archer did.");
  assert.deepEqual({ ...found, answers: null }, { answers: null, ids: ["elsewhere"], roles: ["user", "assistant", "user", "assistant"], heard: "elsewhere", refused: 404, token: 1 });
});
