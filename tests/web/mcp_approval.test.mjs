// The page on which a person approves a call that a client of MCP makes: opened in a browser, answered there, and what the client
// gets afterwards.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { startOwnServer } from "./real.mjs";

const SCHEMA = {
  description: "Greets somebody in writing.",
  sideEffects: "writes",
  requiresConfirmation: true,
  parameters: { type: "object", additionalProperties: false, required: ["name"], properties: { name: { type: "string", maxLength: 40 } } },
};

let browser;
let folder;
let server;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-mcp-"));
  const tool = join(folder, "tools", "greet");
  mkdirSync(tool, { recursive: true });
  mkdirSync(join(folder, "kb"));
  writeFileSync(join(tool, "schema.json"), JSON.stringify(SCHEMA));
  writeFileSync(join(tool, "guide.md"), "# Greet\n\nGreets somebody in writing.\n");
  writeFileSync(join(tool, "handler.js"), "export function execute({ args }) { return { ok: true, data: { greeted: args.name } }; }\n");
  writeFileSync(join(folder, "windlass.toml"), "[mcp_server]\nenabled = true\n");
  server = await startOwnServer([], { folder });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** Calls the tool as a client that can ask nobody. */
async function call() {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "t", version: "1" },
  };
  const params = { name: "greet", arguments: { name: "Ada" }, _meta: meta };
  const answer = await fetch(new URL("/mcp", server.url), {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "greet",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  });
  const text = await answer.text();
  const json = text.startsWith("{") ? text : text.split("\n").findLast((line) => line.startsWith("data: {")).slice(6);
  return JSON.parse(json).result;
}

test("a person approves a call on its page, and the client that sends it again gets what it brought", async () => {
  const told = await call();
  const address = told?._meta?.["dev.windlass/error"]?.details?.approveAt;
  assert.ok(address, JSON.stringify(told));
  const page = await browser.newPage();
  await page.goto(address);
  await page.getByText("Ada").first().waitFor();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("The call has run.").waitFor();
  const done = await call();
  assert.deepEqual(done.structuredContent, { greeted: "Ada" });
});
