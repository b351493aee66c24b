// Owns the tasks that the page shows: calls that go on by themselves. Asks the server how far each is, until it has ended. Knows no
// layout.
import { textOf } from "./dom.js";

/** The pause before the server is asked again; it doubles up to the longest. */
const PAUSE_MS = 2_000;
const PAUSE_MS_MAX = 30_000;
/** Tasks that are asked for; of more, the oldest are left to the conversation. */
const WATCHED_MAX = 50;

/** The id of the task that the result of an accepted call names; "" where it names none. */
export function taskOf(result) {
  return result?.status === "accepted" ? textOf(result.backgroundTaskId) : "";
}

/** The end of a task, as the page shows that of a call. */
function outcomeOf({ state, response }) {
  if (state === "done") return { ok: true, result: response?.data };
  const { type, message } = response?.error ?? {};
  const errorType = state === "unknown" ? "OUTCOME_UNKNOWN" : textOf(type);
  return { ok: false, errorType, message: textOf(message) };
}

export class Tasks {
  /** By the id of the task, which call it is. */
  #watched = new Map();
  /** Calls whose ends were shown here. */
  #shown = new Set();
  #pauseMs = PAUSE_MS;
  #timer;

  /** `read(id)` gives a task; it throws an error with the status 404 where there is none. `onProgress` and `onEnd` are given what `Calls` takes. */
  constructor({ read, onProgress, onEnd }) {
    Object.assign(this, { read, onProgress, onEnd });
  }

  /** Calls that go on by themselves. */
  get callIds() {
    return [...this.#watched.values()].map(({ callId }) => callId);
  }

  /** The task that a call is, as long as it goes on; "" where it is none. */
  idOf(callId) {
    for (const [id, call] of this.#watched) if (call.callId === callId) return id;
    return "";
  }

  /** A call was accepted as a task. */
  accepted(id, { callId, tool }) {
    this.#watched.delete(id);
    this.#watched.set(id, { callId, tool });
    this.#shown.delete(callId);
    while (this.#watched.size > WATCHED_MAX) this.#watched.delete(this.#watched.keys().next().value);
    this.lookSoon();
  }

  /** The end of a task, or of the call that it is, came by another way. The call, where the end is not shown yet; else null. */
  told({ id = "", callId = "" }) {
    const known = id || this.idOf(callId);
    const call = this.#watched.get(known) ?? null;
    this.#watched.delete(known);
    if (call) this.#shown.add(call.callId);
    return call;
  }

  /** Whether the end of a call was shown. */
  wasShown(callId) {
    return this.#shown.has(callId);
  }

  /** Asks before long, because something has happened. */
  lookSoon() {
    this.#pauseMs = PAUSE_MS;
    this.#watch();
  }

  /** Another conversation is shown. */
  forget() {
    clearTimeout(this.#timer);
    this.#watched = new Map();
    this.#shown = new Set();
  }

  #watch() {
    clearTimeout(this.#timer);
    if (this.#watched.size > 0) this.#timer = setTimeout(() => this.#look(), this.#pauseMs);
  }

  async #look() {
    const watched = this.#watched;
    for (const [id, call] of [...watched]) {
      const task = await this.read(id).catch((error) => (error?.status === 404 ? null : undefined));
      if (this.#watched !== watched) return;
      // It ended by another way meanwhile, or the server does not answer now.
      if (!watched.has(id) || task === undefined) continue;
      if (task === null) watched.delete(id);
      else if (task.state === "running") this.#tell(call, task);
      else if (this.told({ id })) this.onEnd({ ...call, ...outcomeOf(task) });
    }
    this.#pauseMs = Math.min(2 * this.#pauseMs, PAUSE_MS_MAX);
    this.#watch();
  }

  #tell(call, { progress }) {
    if (progress) this.onProgress({ ...call, message: progress.message, fraction: progress.fraction });
  }
}
