// A user's account at another service, on the real server: the page says that it is missing, connects it, shows and ends it; what is
// connected outlives kill -9, and the command line ends it, too.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { ask, launch, visit } from "./browser.mjs";
import { startOwnServer } from "./real.mjs";

const SCHEMA = {
  description: "Shows the user's orders.",
  sideEffects: "none",
  idempotent: true,
  requiresConfirmation: false,
  parameters: { type: "object", additionalProperties: false, properties: {} },
};

let shop;
let browser;
let folder;
let server;

/** An authorization server whose user always agrees, the service behind it, and a model that asks for orders and then says what it read. */
async function openShop() {
  const codes = new Map();
  const access = new Set();
  const refresh = new Set();
  const seen = { refreshes: 0, revoked: [], served: 0 };
  let number = 0;
  const json = (response, status, value) => response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  const granted = (response) => {
    number += 1;
    access.clear();
    const tokens = { access_token: `access-${number}`, refresh_token: `refresh-${number}`, token_type: "Bearer", expires_in: 3600 };
    access.add(tokens.access_token);
    refresh.add(tokens.refresh_token);
    json(response, 200, tokens);
  };
  const token = (response, form) => {
    if (form.get("grant_type") === "refresh_token") {
      seen.refreshes += 1;
      return refresh.delete(form.get("refresh_token")) ? granted(response) : json(response, 400, { error: "invalid_grant" });
    }
    const kept = codes.get(form.get("code"));
    codes.delete(form.get("code"));
    const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
    const isGood = kept?.challenge === challenge && kept.redirect === form.get("redirect_uri");
    return isGood ? granted(response) : json(response, 400, { error: "invalid_grant" });
  };
  const model = (response, { messages }) => {
    const last = messages.at(-1);
    const call = { index: 0, id: `call_${messages.length}`, type: "function", function: { name: "orders", arguments: "{}" } };
    const delta = last.role === "user" ? { tool_calls: [call] } : { content: "Well." };
    const choice = { index: 0, delta, finish_reason: last.role === "user" ? "tool_calls" : "stop" };
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`data: ${JSON.stringify({ id: "1", choices: [choice] })}\n\ndata: [DONE]\n\n`);
  };
  const listening = createServer(async (request, response) => {
    const url = new URL(request.url, issuer());
    let body = "";
    for await (const chunk of request) body += chunk;
    if (url.pathname === "/.well-known/oauth-authorization-server") {
      const at = (path) => `${issuer()}${path}`;
      json(response, 200, { issuer: issuer(), authorization_endpoint: at("/authorize"), token_endpoint: at("/token"), revocation_endpoint: at("/revoke"), authorization_response_iss_parameter_supported: true });
    } else if (url.pathname === "/authorize") {
      const code = `code-${codes.size + number}`;
      const redirect = url.searchParams.get("redirect_uri");
      codes.set(code, { challenge: url.searchParams.get("code_challenge"), redirect });
      const back = new URLSearchParams({ code, state: url.searchParams.get("state"), iss: issuer() });
      response.writeHead(302, { location: `${redirect}?${back}` }).end();
    } else if (url.pathname === "/token") token(response, new URLSearchParams(body));
    else if (url.pathname === "/revoke") {
      seen.revoked.push(new URLSearchParams(body).get("token"));
      json(response, 200, {});
    } else if (url.pathname === "/orders") {
      const isGood = access.has((request.headers.authorization ?? "").replace("Bearer ", ""));
      if (isGood) seen.served += 1;
      json(response, isGood ? 200 : 401, isGood ? { orders: ["a boat"] } : {});
    } else if (url.pathname.endsWith("/chat/completions")) model(response, JSON.parse(body));
    else json(response, 404, {});
  });
  await new Promise((resolve) => listening.listen(0, "127.0.0.1", resolve));
  const issuer = () => `http://127.0.0.1:${listening.address().port}`;
  return { issuer: issuer(), host: new URL(issuer()).host, seen, expire: () => access.clear(), close: () => listening.close() };
}

before(async () => {
  shop = await openShop();
  folder = mkdtempSync(join(tmpdir(), "windlass-connections-"));
  const tool = join(folder, "tools", "orders");
  mkdirSync(tool, { recursive: true });
  mkdirSync(join(folder, "kb"));
  writeFileSync(join(tool, "schema.json"), JSON.stringify(SCHEMA));
  writeFileSync(join(tool, "guide.md"), "# Orders\n\nShows the user's orders.\n");
  writeFileSync(join(tool, "handler.json"), JSON.stringify({ kind: "http", method: "GET", url: `${shop.issuer}/orders`, connection: "shop" }));
  writeFileSync(join(folder, "windlass.toml"), `[connections.shop]\ntitle = "Example Shop"\nissuer = "${shop.issuer}"\nclient_id = "windlass"\nhosts = ["${shop.host}"]\n`);
  server = await startOwnServer(["--allow-fetch", shop.host, "--text-provider", "openai", "--text-provider-url", `${shop.issuer}/v1`], { folder });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.close();
  shop?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** Follows a link to connect in the tab that it opens. */
async function connect(page, link) {
  const [tab] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
  await tab.getByText("Example Shop is connected").waitFor();
  await tab.close();
}

/** Beside this process, whose shop it asks. */
const windlass = (...more) => promisify(execFile)(process.env.WINDLASS_BINARY, ["connections", ...more, "--data", server.data], { cwd: folder });

const untilAnswered = (page, turns) => page.waitForFunction((wanted) => window.windlass.state.turnsCompleted >= wanted, turns);

const notice = (page) => page.getByText("Example Shop is not connected");

async function openSettings(page) {
  const listed = page.waitForResponse(/\/api\/connections$/);
  await page.getByRole("button", { name: "Settings" }).click();
  await listed;
  return page.locator("#connections-list");
}

test("an account is connected from the call that needs it, survives kill -9, and ends on the page and by the command line", async () => {
  await visit(browser, server.url, { excused: /ERR_|Failed to load/ }, async (page) => {
    await ask(page, "What did I order?");
    await notice(page).waitFor();
    assert.equal(shop.seen.served, 0);
    await connect(page, page.getByRole("link", { name: "Connect Example Shop" }));
    await untilAnswered(page, 1);
    await ask(page, "And now?");
    await untilAnswered(page, 2);
    assert.equal(shop.seen.served, 1);

    await server.kill();
    await server.startAgain();
    await page.reload();
    await page.waitForFunction(() => window.windlass !== undefined);
    shop.expire();
    await ask(page, "And after the fall?");
    await untilAnswered(page, 1);
    assert.deepEqual([shop.seen.served, shop.seen.refreshes], [2, 1]);

    const list = await openSettings(page);
    await list.getByRole("button", { name: "Disconnect Example Shop" }).waitFor();
    if (process.env.WINDLASS_SCREENSHOTS) await page.screenshot({ path: join(process.env.WINDLASS_SCREENSHOTS, "connections.png") });
    await list.getByRole("button", { name: "Disconnect Example Shop" }).click();
    await connect(page, list.getByRole("link", { name: "Connect Example Shop" }));
    assert.deepEqual(shop.seen.revoked, ["refresh-2"]);

    const listed = await windlass("list");
    const user = /shop {2}user (\S+)/.exec(listed.stdout)?.[1];
    assert.ok(user, listed.stdout + listed.stderr);
    await windlass("revoke", "shop", "--user", user);
    assert.deepEqual(shop.seen.revoked, ["refresh-2", "refresh-3"]);
    const audit = readFileSync(join(server.data, "audit.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
    const changes = audit.filter(({ event }) => event === "tool_connection").map(({ change, reason }) => [change, reason ?? ""].join(" ").trim());
    assert.deepEqual(changes, ["connected", "ended user", "connected", "ended operator"]);
    await page.keyboard.press("Escape");
    await ask(page, "And at the end?");
    await notice(page).waitFor();
    assert.equal(shop.seen.served, 2);
  });
});
