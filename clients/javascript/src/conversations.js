// Owns the list of the user's conversations as the server keeps it: reads, renames, deletes. Knows no layout.
import { Server } from "./server.js";

const pathOf = (id) => `api/conversations/${encodeURIComponent(id)}`;

export class Conversations {
  #server;

  /** Takes the options of `Server`, or `server` itself. */
  constructor({ server, ...options } = {}) {
    this.#server = server ?? new Server(options);
  }

  /** One page of the list, newest first; those alone whose title or words hold `search`, where that is given. */
  list({ search = "", limit, cursor } = {}) {
    return this.#server.json(`api/conversations${query({ q: search, limit, cursor })}`);
  }

  /** One page of a conversation's messages, oldest first, beginning with the newest page. */
  read(id, { limit, cursor } = {}) {
    return this.#server.json(`${pathOf(id)}${query({ limit, cursor })}`);
  }

  rename(id, title) {
    return this.#server.json(pathOf(id), { method: "PATCH", body: { title } });
  }

  delete(id) {
    return this.#server.json(pathOf(id), { method: "DELETE" });
  }

  /** Where all of a conversation can be downloaded, by whom its cookie lets. */
  exportAddress(id) {
    return this.#server.address(`${pathOf(id)}/export`).href;
  }
}

function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
}
