// Owns where the server is and how this client shows itself there: its address, the signed token that makes a browser known again
// where no cookie travels, and a ticket for each request where callers have to sign in. Knows no conversation.
import { keep, kept } from "./storage.js";

const TOKEN_HEADER = "x-windlass-client";
const TOKEN_KEY = "windlass.client";

/** The server did not take a request. `status` and `code` are its own; the message says why, in words. */
export class WindlassError extends Error {
  name = "WindlassError";

  constructor(message, { status = 0, code = "" } = {}) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export class Server {
  #base;
  #ticket;
  #keepsToken;
  #token = "";

  /**
   * `url`: where the server's page is; the page's own address where none is given. `ticket()` brings what `Authorization` shows as
   * a bearer: a ticket, which is good for one request, so it is asked each time. `parse` reads JSON.
   */
  constructor({ url, ticket = null, parse = JSON.parse } = {}) {
    const page = globalThis.document?.baseURI;
    this.#base = url === undefined ? new URL(page) : new URL(String(url).replace(/\/?$/, "/"), page);
    this.#ticket = ticket;
    this.parse = parse;
    // A page that the server itself serves has a cookie, which no script can read.
    this.#keepsToken = this.#base.origin !== globalThis.location?.origin;
  }

  get needsTicket() {
    return this.#ticket !== null;
  }

  async ticket() {
    return this.#ticket ? await this.#ticket() : "";
  }

  /** What makes this browser known again. "" as long as the server has given nothing, and where its cookie does that. */
  get token() {
    if (!this.#keepsToken) return "";
    this.#token ||= kept("localStorage", this.#tokenKey);
    return this.#token;
  }

  set token(token) {
    if (!this.#keepsToken || !token || token === this.#token) return;
    this.#token = token;
    keep("localStorage", this.#tokenKey, token);
  }

  get #tokenKey() {
    return `${TOKEN_KEY} ${this.#base.href}`;
  }

  address(path) {
    return new URL(path, this.#base);
  }

  /** Answers as `fetch` does, where the server takes the request; throws a WindlassError where it does not. */
  async fetch(path, { headers = {}, ...request } = {}) {
    const shown = new Headers(headers);
    if (this.token) shown.set(TOKEN_HEADER, this.token);
    const ticket = await this.ticket();
    if (ticket) shown.set("authorization", `Bearer ${ticket}`);
    const answer = await fetch(this.address(path), { ...request, headers: shown });
    this.token = answer.headers.get(TOKEN_HEADER) ?? "";
    if (!answer.ok) throw await refusal(answer);
    return answer;
  }

  /** The JSON of an answer; null where it has none. */
  async json(path, { body, ...request } = {}) {
    const answer = await this.fetch(path, {
      ...request,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      headers: { accept: "application/json", ...(body === undefined ? {} : { "content-type": "application/json" }) },
    });
    const text = await answer.text();
    return text === "" ? null : this.parse(text);
  }
}

async function refusal(answer) {
  const { status } = answer;
  const { error } = await answer.json().catch(() => ({})) ?? {};
  const words = typeof error?.message === "string" && error.message !== "" ? error.message : `The server answers with status ${status}.`;
  return new WindlassError(words, { status, code: typeof error?.code === "string" ? error.code : "" });
}
