// The panel that says how the tools do: asked for when it is opened, honest where it may not be read.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, PHONE, visit, overflowPixels } from "./browser.mjs";
import { servePage } from "./scripted.mjs";

const TOOL = { calls: 12, errors: 2, avgDuration: 40, errorsByType: { VALIDATION: 1, TRANSIENT: 1 }, successRate: 10 / 12, p50: 31, p95: 1250, p99: 1300, budgetViolations: 0 };

let answer;
let asked = 0;
let files;
let browser;

before(async () => {
  files = await servePage({}, ({ path }) => {
    if (path !== "/api/tools/stats") return null;
    asked += 1;
    return answer;
  });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
});

async function open(page) {
  await page.getByRole("button", { name: "Tool statistics" }).click();
  await page.getByRole("dialog", { name: "Tool statistics" }).waitFor();
}

const status = (page) => page.locator("#tool-stats-status");

test("it asks when it is opened, and shows each tool in a row", async () => {
  asked = 0;
  answer = { json: { kb_get: { ...TOOL, calls: 3, errors: 0, errorsByType: {}, successRate: 1 }, kb_search: TOOL, "<b>odd</b>": { ...TOOL, calls: 1000, successRate: 0.9999, errorsByType: { INTERNAL: 1 } }, idle: { ...TOOL, calls: 0, successRate: null, errorsByType: {}, p50: 0, p95: 0 }, broken: null } };
  await visit(browser, files.url, {}, async (page) => {
    assert.equal(asked, 0);
    await open(page);
    await page.getByRole("row").nth(4).waitFor();
    assert.equal(asked, 1);
    assert.deepEqual(await page.locator("#tool-stats th[scope=col]").allTextContents(), ["Tool", "Calls", "Worked", "p50", "p95", "Errors"]);
    assert.deepEqual(await page.locator("#tool-stats tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText.replaceAll("\n", ", ")))), [
      ["<b>odd</b>", "1000", "99.9 %", "31 ms", "1.3 s", "INTERNAL 1"],
      ["kb_search", "12", "83.3 %", "31 ms", "1.3 s", "VALIDATION 1, TRANSIENT 1"],
      ["kb_get", "3", "100 %", "31 ms", "1.3 s", "none"],
      ["idle", "0", "–", "–", "–", "none"],
    ]);
    await page.keyboard.press("Escape");
    await page.locator("#tool-stats").waitFor({ state: "hidden" });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Tool statistics");
    const answered = page.waitForResponse(/\/api\/tools\/stats$/);
    await page.keyboard.press("Enter");
    await answered;
    assert.equal(asked, 2);
    await page.getByRole("dialog").getByRole("button", { name: "Close" }).click();
    await page.locator("#tool-stats").waitFor({ state: "hidden" });
  });
});

test("who may not read it is told who may, and a server without an answer can be asked again", async () => {
  await visit(browser, files.url, { excused: /40[13]|500/ }, async (page) => {
    answer = { status: 403, json: { error: { code: "forbidden", message: "metrics are for API keys" } } };
    await open(page);
    await status(page).getByText("only callers that show an API key").waitFor();
    assert.equal(await status(page).getByRole("button").count(), 0);
    await page.keyboard.press("Escape");
    answer = { status: 500, json: {} };
    await open(page);
    await status(page).getByText("status 500").waitFor();
    answer = { json: {} };
    await status(page).getByRole("button", { name: "Try again" }).click();
    await status(page).getByText("No tool was called since the server started.").waitFor();
    assert.equal(await page.locator("#tool-stats table").count(), 0);
  });
});

test("on a phone it opens from the list of calls and is no wider than the screen", async () => {
  answer = { json: { a_tool_with_a_name_that_is_rather_long: TOOL } };
  await visit(browser, files.url, { context: PHONE }, async (page) => {
    await page.locator("#calls > summary").click();
    await open(page);
    await page.getByRole("row").nth(1).waitFor();
    assert.equal(await overflowPixels(page), 0);
  });
});
