// The package for other people's pages: its transport, its list of conversations, its voice session and its size. The server and
// the browser's sockets are played by the test; what the browser alone has is tried on the page, which is made with the package.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { afterEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { ChatTransport, Conversations, Server, Voice, WindlassError } from "../../clients/javascript/src/index.js";

const SOURCE = fileURLToPath(new URL("../../clients/javascript/", import.meta.url));
const BYTES_MAX = 10_000;
const open = [];

afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** A server that answers with `answer(request, body)`: `{ status, headers, text }`. Returns its address and what it was asked. */
async function serve(answer) {
  const asked = [];
  const server = createServer(async (request, response) => {
    const body = (await request.toArray()).join("");
    const path = request.url;
    asked.push({ method: request.method, path, headers: request.headers, body: body === "" ? null : JSON.parse(body) });
    const { status = 200, headers = {}, text = "", pieces = [text] } = answer(asked.at(-1));
    response.writeHead(status, headers);
    for (const piece of pieces) response.write(piece);
    response.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.push(server);
  return { url: `http://127.0.0.1:${server.address().port}/agent`, asked };
}

const all = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};
const user = (id, ...parts) => ({ id, role: "user", parts });
const picture = { type: "file", mediaType: "image/png", url: "data:image/png;base64,AA==" };

test("a message is posted as useChat has it, and its chunks come however the stream is cut", async () => {
  const chunks = [{ type: "start" }, { type: "text-delta", id: "t", delta: "Främ\n\n" }, { type: "finish" }];
  const bytes = Buffer.from(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}: still here\n\ndata: [DONE]\n\n`);
  const pieces = [...bytes].map((byte) => Buffer.from([byte]));
  const { url, asked } = await serve(() => ({ headers: { "content-type": "text/event-stream" }, pieces }));
  const transport = new ChatTransport({ url, body: { userId: "ada" } });
  const messages = [user("1", { type: "text", text: "Look" }, picture), user("2", { type: "text", text: "And this" }, picture)];
  const stream = await transport.sendMessages({ chatId: "c", messages, trigger: "submit-message", body: { more: 1 }, headers: { "x-more": "2" } });
  assert.deepEqual(await all(stream), chunks);
  const [{ method, path, headers, body }] = asked;
  assert.deepEqual([method, path, headers["x-more"], headers["content-type"]], ["POST", "/agent/api/chat", "2", "application/json"]);
  assert.deepEqual({ ...body, messages: null }, { resumable: true, timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, userId: "ada", more: 1, id: "c", trigger: "submit-message", messages: null });
  assert.deepEqual(body.messages.map(({ parts }) => parts.map(({ type }) => type)), [["text"], ["text", "file"]], "a picture travels once");
});

test("a refusal tells its status, its code and the server's words", async () => {
  const { url } = await serve(({ path }) =>
    path.endsWith("/chat") ? { status: 409, text: '{"error":{"code":"busy","message":"being answered"}}' } : { status: 502, text: "<html>" },
  );
  const problem = await new ChatTransport({ url }).sendMessages({ chatId: "c", messages: [] }).catch((error) => error);
  assert.ok(problem instanceof WindlassError);
  assert.deepEqual([problem.status, problem.code, problem.message], [409, "busy", "being answered"]);
  const other = await new Conversations({ url }).list().catch((error) => error);
  assert.deepEqual([other.status, other.code, other.message], [502, "", "The server answers with status 502."]);
});

test("an answer that is being written is found again, and where there is none there is null", async () => {
  const { url, asked } = await serve(({ path }) => {
    if (path.includes("running")) return { text: 'data: {"type":"finish"}\n\n' };
    return { status: path.includes("unknown") ? 404 : 204 };
  });
  const transport = new ChatTransport({ url });
  assert.deepEqual(await all(await transport.reconnectToStream({ chatId: "running/1" })), [{ type: "finish" }]);
  assert.equal(asked[0].path, "/agent/api/chat/running%2F1/stream");
  assert.equal(await transport.reconnectToStream({ chatId: "silent" }), null);
  assert.equal(await transport.reconnectToStream({ chatId: "unknown" }), null);
});

test("an answer that is stopped is stopped at the server, before the next message goes out", async () => {
  const { url, asked } = await serve(({ method }) => (method === "DELETE" ? { status: 204 } : { text: 'data: {"type":"start"}\n\n' }));
  const transport = new ChatTransport({ url });
  const stop = new AbortController();
  await transport.sendMessages({ chatId: "c", messages: [], abortSignal: stop.signal });
  stop.abort();
  await transport.sendMessages({ chatId: "c", messages: [] });
  assert.deepEqual(asked.map(({ method, path }) => [method, path]), [
    ["POST", "/agent/api/chat"],
    ["DELETE", "/agent/api/chat/c/stream"],
    ["POST", "/agent/api/chat"],
  ]);
});

test("a call is stopped at the server, and what came of it is told", async () => {
  const answers = [[200, null], [409, "call_runs_on"], [404, "call_unknown"], [401, "unauthorized"]];
  const { url, asked } = await serve(() => {
    const [status, code] = answers.shift();
    return { status, text: JSON.stringify(code ? { ok: false, error: { code, message: "so it is" } } : { ok: true, outcome: "stopped" }) };
  });
  const transport = new ChatTransport({ url, body: { userId: "ada" } });
  const stop = () => transport.cancelCall({ chatId: "c", callId: "call-3" });
  assert.deepEqual([await stop(), await stop(), await stop()], ["stopped", "runs_on", "unknown"]);
  const problem = await stop().catch((error) => error);
  assert.deepEqual([problem instanceof WindlassError, problem.status], [true, 401]);
  const [{ method, path, body }] = asked;
  assert.deepEqual([method, path, body], ["POST", "/agent/api/cancel", { userId: "ada", conversationId: "c", callId: "call-3" }]);
});

test("the signed token is kept and shown from then on, and each request has a ticket of its own", async () => {
  let count = 0;
  const { url, asked } = await serve(() => {
    count += 1;
    return { headers: count === 1 ? { "x-windlass-client": "signed" } : {}, text: "{}" };
  });
  let tickets = 0;
  const ticket = async () => `wlt_${(tickets += 1)}`;
  const conversations = new Conversations({ server: new Server({ url, ticket }) });
  await conversations.list();
  await conversations.rename("a/b", "Ships");
  await conversations.delete("c");
  assert.deepEqual(asked.map(({ headers }) => headers["x-windlass-client"]), [undefined, "signed", "signed"]);
  assert.deepEqual(asked.map(({ headers }) => headers.authorization), ["Bearer wlt_1", "Bearer wlt_2", "Bearer wlt_3"]);
  assert.deepEqual([asked[1].method, asked[1].path, asked[1].body], ["PATCH", "/agent/api/conversations/a%2Fb", { title: "Ships" }]);
  assert.equal(asked[2].method, "DELETE");
});

test("the list is searched and read page by page", async () => {
  const { url, asked } = await serve(() => ({ text: '{"conversations":[],"next":null}' }));
  const conversations = new Conversations({ url });
  assert.deepEqual(await conversations.list({ search: "a & b", limit: 20, cursor: "x=" }), { conversations: [], next: null });
  await conversations.read("c", { cursor: "older" });
  assert.deepEqual(asked.map(({ path }) => path), ["/agent/api/conversations?q=a+%26+b&limit=20&cursor=x%3D", "/agent/api/conversations/c?cursor=older"]);
  assert.match(conversations.exportAddress("c"), /\/agent\/api\/conversations\/c\/export$/);
});

/** Sockets that the test plays the server's side of. */
class PlayedSocket {
  static made = [];
  sent = [];
  bufferedAmount = 0;

  constructor(address, protocols) {
    Object.assign(this, { address: String(address), protocols });
    PlayedSocket.made.push(this);
    queueMicrotask(() => this.onopen?.());
  }

  send(data) {
    this.sent.push(typeof data === "string" ? JSON.parse(data) : data);
  }

  close() {}

  tell(...messages) {
    for (const message of messages) this.onmessage({ data: JSON.stringify(message) });
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A voice session that has started, what it told of, and its socket. */
async function started(options = {}) {
  PlayedSocket.made = [];
  globalThis.WebSocket = PlayedSocket;
  const voice = new Voice({ url: "http://127.0.0.1:1/agent/", ...options });
  const told = [];
  for (const type of ["connection", "transcript", "model_generating", "confirmation_request", "message", "cut_off", "ended", "cancel_result", "tool_output", "standing_approvals"]) {
    voice.on(type, (event) => told.push([type, event]));
  }
  voice.open({ conversationId: "c", pendingRequest: "Who?" });
  await turn();
  const [socket] = PlayedSocket.made;
  socket.tell({ type: "connected", clientId: "1" }, { type: "started", conversationId: "c", resumeToken: "r" });
  return { voice, told, socket };
}

test("a session begins with what it is given, types, answers and ends", async () => {
  const { voice, told, socket } = await started({ ticket: () => "wlt_1" });
  assert.deepEqual([socket.address, socket.protocols], ["ws://127.0.0.1:1/agent/voice", ["windlass", "ticket.wlt_1"]]);
  voice.say("Hello", [{ mimeType: "image/png", data: "AA==" }]);
  socket.tell({ type: "transcript", role: "user", text: "Hello", final: true }, { type: "transcript", role: "user", text: "Aloud", final: true });
  socket.tell({ type: "confirmation_request", callId: "1", token: "t", tool: "pay" }, { type: "weather", sky: "blue" });
  voice.answer("t", true);
  voice.answer("u", true, undefined, { remember: true });
  voice.revoke("approval-1");
  socket.tell({ type: "standing_approvals", approvals: [] });
  voice.cancelCall("call-1");
  socket.tell({ type: "cancel_result", callId: "call-1", outcome: "runs_on", message: "" }, { type: "tool_output", callId: "call-1", sequence: 1, data: "one" });
  voice.stop();
  const typesOf = ({ sent }) => sent.map(({ type }) => type);
  assert.deepEqual(typesOf(socket), ["start", "image", "text", "confirm", "confirm", "revoke", "cancel", "stop"]);
  assert.deepEqual(socket.sent[0], { type: "start", timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, conversationId: "c", pendingRequest: "Who?" });
  assert.deepEqual(socket.sent.slice(3, 6), [
    { type: "confirm", token: "t", approved: true },
    { type: "confirm", token: "u", approved: true, remember: true },
    { type: "revoke", approvalId: "approval-1" },
  ]);
  assert.deepEqual(told.filter(([type]) => type === "standing_approvals").map(([, { approvals }]) => approvals), [[]]);
  assert.deepEqual(told.filter(([type]) => type === "transcript").map(([, { isEcho }]) => isEcho), [true, false]);
  assert.deepEqual(told.filter(([type]) => type === "message").map(([, { sky }]) => sky), ["blue"]);
  assert.deepEqual(told.filter(([type]) => type === "cancel_result" || type === "tool_output").map(([, { outcome, data }]) => outcome ?? data), ["runs_on", "one"]);
  assert.deepEqual(told.at(-1), ["ended", { reason: "stopped", text: "" }]);
  assert.equal(voice.isRunning, false);
});

test("a session that breaks is taken up with its token, and its pending request is not asked again", async () => {
  const { voice, told, socket } = await started();
  socket.tell({ type: "model_generating" });
  socket.onclose({ code: 1006 });
  assert.deepEqual([voice.state.connection, voice.state.generating], ["reconnecting", false]);
  voice.say("Meanwhile");
  voice.retryNow();
  await turn();
  const next = PlayedSocket.made.at(-1);
  assert.deepEqual(next.sent, [{ type: "start", timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, resume: "r", conversationId: "c" }]);
  next.tell({ type: "started", conversationId: "c", resumeToken: "r" }, { type: "model_generating" });
  assert.deepEqual(next.sent.slice(1), [{ type: "text", text: "Meanwhile" }]);
  assert.deepEqual(told.findLast(([type]) => type === "model_generating"), ["model_generating", { type: "model_generating", isRepeat: true }]);
  voice.stop();
});

test("who interrupts is told so once, and what still comes of the answer is marked", async () => {
  const { voice, told, socket } = await started();
  socket.tell({ type: "model_generating" });
  voice.interrupt();
  socket.tell({ type: "transcript", role: "assistant", text: "late", final: false }, { type: "interrupted" }, { type: "model_generating" });
  socket.tell({ type: "transcript", role: "assistant", text: "new", final: false });
  assert.equal(told.filter(([type]) => type === "cut_off").length, 1);
  assert.deepEqual(told.filter(([type]) => type === "transcript").map(([, { text, isLate }]) => [text, isLate]), [["late", true], ["new", false]]);
  voice.stop();
});

test("all of the package, minified and compressed, has 10 kB at most", async () => {
  const entryPoints = ["src/index.js", "src/capture-worklet.js"].map((file) => SOURCE + file);
  const { outputFiles } = await build({ entryPoints, bundle: true, minify: true, format: "esm", target: "es2022", write: false, outdir: "out" });
  const bytes = outputFiles.reduce((sum, { contents }) => sum + gzipSync(contents, { level: 9 }).length, 0);
  assert.ok(bytes <= BYTES_MAX, `${bytes} bytes`);
  const { files, dependencies } = JSON.parse(readFileSync(`${SOURCE}package.json`, "utf8"));
  assert.deepEqual([files, dependencies], [["src", "index.d.ts", "README.md"], undefined]);
});
