// Owns a server that says exactly what a test wants: the page's own files over HTTP with the real content security policy,
// and the voice endpoint played by the test. For what a real server does rarely or cannot be made to do.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname } from "node:path";
import { PATIENCE_MS } from "./browser.mjs";

const FILES = new URL("../../crates/app/ui/", import.meta.url);
/** The package that the page uses is served from where it lies. */
const CLIENT = new URL("../../clients/javascript/src/", import.meta.url);
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

/**
 * Serves the page; returns `{ url, port, close }`. `answer({ method, path, query, body })` may answer what else is asked, with
 * `{ status, json }` or `{ events }`, the chunks of a stream; one that `isOpen` goes on.
 */
export async function servePage(info = {}, answer = () => null) {
  const answerInfo = { name: "Windlass", version: "0.0.0", provider: "test", model: "test-model", demo: false, suggestions: [] };
  const server = createServer(async (request, response) => {
    const { pathname: path, searchParams: query } = new URL(request.url, "http://localhost");
    const text = (await request.toArray()).join("");
    const given = answer({ method: request.method, path, query, body: text === "" ? null : JSON.parse(text) });
    if (given) {
      const { status = 200, json = null, events = null, isOpen = false } = given;
      response.writeHead(status, { "content-type": events ? "text/event-stream" : "application/json" });
      if (isOpen) return response.write(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
      response.end(events ? events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("") : json === null ? "" : JSON.stringify(json));
      return;
    }
    if (path === "/api/info") {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ ...answerInfo, ...info }));
      return;
    }
    if (path === "/api/session") {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ required: false, signedIn: false, canSignOut: false, signInAt: null }));
      return;
    }
    if (path === "/api/connections") {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ connections: [] }));
      return;
    }
    const name = path === "/" ? "index.html" : path.slice(1);
    if (!/^(?:(?:vendor|client)\/)?[a-z-]+\.[a-z]+$/.test(name)) {
      response.writeHead(404).end();
      return;
    }
    const type = `${TYPES[extname(name)]}; charset=utf-8`;
    response.writeHead(200, { "content-type": type, "content-security-policy": POLICY });
    response.end(readFileSync(name.startsWith("client/") ? new URL(name.slice("client/".length), CLIENT) : new URL(name, FILES)));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  return { url: `http://127.0.0.1:${port}/`, port, close: () => server.close() };
}

/** The server's side of the page's sockets. One object for all of them, so that a reconnection is seen as one. */
export class VoiceEndpoint {
  received = [];
  audioFrames = [];
  connections = 0;
  /** How long ago `connected` was sent when it arrives. */
  delayMs = 0;
  /** Answers a `start` where the test does not want to do it itself. */
  onStart = () => this.send({ type: "started", sessionId: "s1", conversationId: "c1", resumeToken: "r1", mode: "voice", registryVersion: "1.0.0", tools: ["kb_search"] });
  #socket = null;
  #waiting = [];

  /** Takes over `/voice` of a page that is not loaded yet. */
  async attach(page) {
    await page.routeWebSocket(/\/voice$/, (socket) => {
      this.#socket = socket;
      this.connections += 1;
      this.send({ type: "connected", clientId: "client", timestamp: Date.now() - this.delayMs });
      socket.onMessage((data) => this.#take(data));
    });
  }

  send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  sendText(text) {
    this.#socket.send(text);
  }

  /** Sends a tone in frames of 40 ms, faster than it plays, as providers do. */
  sendTone(milliseconds) {
    for (let at = 0; at < milliseconds; at += 40) {
      const frame = Buffer.alloc(1920);
      for (let sample = 0; sample < 960; sample += 1) {
        frame.writeInt16LE(Math.round(4000 * Math.sin((2 * Math.PI * 300 * (at * 24 + sample)) / 24000)), 2 * sample);
      }
      this.#socket.send(frame);
    }
  }

  close(code = 1011) {
    return this.#socket.close({ code });
  }

  all(type) {
    return this.received.filter((message) => message.type === type);
  }

  /** The next message of a type that was not asked for before; an error if none comes. */
  async next(type) {
    const giveUpAt = Date.now() + PATIENCE_MS;
    while (Date.now() < giveUpAt) {
      const at = this.received.findIndex((message) => message.type === type && !message.taken);
      if (at >= 0) {
        this.received[at].taken = true;
        return this.received[at];
      }
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, giveUpAt - Date.now());
        this.#waiting.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
    throw new Error(`the page did not send ${type}; it sent ${this.received.map((message) => message.type).join(", ")}`);
  }

  #take(data) {
    if (typeof data === "string") {
      const message = JSON.parse(data);
      this.received.push(message);
      if (message.type === "start") this.onStart(message);
    } else {
      this.audioFrames.push(data);
    }
    for (const wake of this.#waiting.splice(0)) wake();
  }
}
