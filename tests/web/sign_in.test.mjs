// Signing in on the page: with a ticket in its address, with a key that is typed, and what it says where neither counts.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, overflowPixels, PHONE, visit } from "./browser.mjs";
import { startOwnServer } from "./real.mjs";

let browser;
let folder;
let key;
let server;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "windlass-sign-in-"));
  const config = join(folder, "windlass.toml");
  writeFileSync(config, '[access]\nauth = "required"\n[server]\nuser_header = "X-Forwarded-User"\n');
  server = await startOwnServer(["--config", config]);
  const added = execFileSync(process.env.WINDLASS_BINARY, ["keys", "add", "shop", "--data", server.data], { stdio: ["ignore", "pipe", "ignore"] });
  key = added.toString().trim();
  // A running server sees a new key within seconds.
  while ((await fetch(`${server.url}api/info`, { headers: { authorization: `Bearer ${key}` } })).status !== 200);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** What a refused key leaves in the browser's console, and a conversation in which nothing was said yet. */
const REFUSED = /40[14]/;

test("a page that has to sign in says so, refuses what does not count, and goes on with a key", async () => {
  await visit(browser, server.url, { excused: REFUSED }, async (page) => {
    const dialog = page.getByRole("dialog", { name: "Sign in to go on" });
    await dialog.waitFor();
    await page.keyboard.press("Escape");
    assert.ok(await dialog.isVisible());
    const field = page.getByLabel("Or use a ticket or an API key");
    await field.fill("wlk_0000");
    await dialog.getByRole("button", { name: "Use it" }).click();
    await dialog.getByText("does not count here").waitFor();
    await field.fill(key);
    await dialog.getByRole("button", { name: "Use it" }).click();
    await dialog.waitFor({ state: "hidden" });
    await page.getByText("This is the demo model").waitFor();
    await page.reload();
    await page.getByText("This is the demo model").waitFor();
    assert.ok(!(await dialog.isVisible()));
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await dialog.waitFor();
  });
});

test("a ticket in the address signs in, and does not stay there", async () => {
  const answer = await fetch(`${server.url}api/tickets`, { method: "POST", headers: { authorization: `Bearer ${key}` } });
  const { ticket } = await answer.json();
  await visit(browser, `${server.url}#ticket=${ticket}`, {}, async (page) => {
    await page.getByText("This is the demo model").waitFor();
    assert.equal(await page.evaluate(() => location.hash), "");
  });
  await visit(browser, `${server.url}#ticket=${ticket}`, { context: PHONE, excused: REFUSED }, async (page) => {
    await page.getByRole("dialog", { name: "Sign in to go on" }).waitFor();
    await page.getByText("Signing in did not work").waitFor();
    assert.equal(await overflowPixels(page), 0);
  });
});
