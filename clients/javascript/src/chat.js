// Owns the conversation in writing, as a transport of the AI SDK's `useChat`: posts messages, reads the answer's stream, and finds a
// stream again that is still running. Knows no layout.
import { Server, WindlassError } from "./server.js";
import { timeZone } from "./zone.js";

const EVENT_CHARACTERS_MAX = 4_000_000;

const streamOf = (chatId) => `api/chat/${encodeURIComponent(chatId)}/stream`;

/** `new ChatTransport({ url })` in `useChat({ transport })`. */
export class ChatTransport {
  #server;
  #body;
  #isResumable;
  /** An answer that is being stopped: what is asked next waits for that. */
  #stopping = Promise.resolve();

  /**
   * Takes the options of `Server`, or `server` itself. `body` goes along with each message, `{ userId }` for example. `resumable`:
   * an answer outlives a reload, so that `reconnectToStream` finds it; then `abortSignal` ends it at the server, too.
   */
  constructor({ server, body = {}, resumable = true, ...options } = {}) {
    this.#server = server ?? new Server(options);
    this.#body = body;
    this.#isResumable = resumable;
  }

  /** The chunks of the answer to the newest message, as a stream. */
  async sendMessages({ chatId, messages, trigger, messageId, abortSignal, headers, body }) {
    await this.#stopping;
    abortSignal?.throwIfAborted();
    if (this.#isResumable) abortSignal?.addEventListener("abort", () => this.#stop(chatId), { once: true });
    const resumable = this.#isResumable || undefined;
    const answer = await this.#server.fetch("api/chat", {
      method: "POST",
      headers: { ...Object.fromEntries(new Headers(headers)), "content-type": "application/json" },
      body: JSON.stringify({ resumable, timeZone: timeZone(), ...this.#body, ...body, id: chatId, messages: withoutOldPictures(messages), trigger, messageId }),
      signal: abortSignal,
    });
    return chunksOf(answer.body, this.#server.parse);
  }

  #stop(chatId) {
    this.#stopping = this.#server.fetch(streamOf(chatId), { method: "DELETE" }).catch((error) => console.debug("the answer is not stopped", error.message));
  }

  /**
   * Stops one call of the conversation; the answer goes on. What came of it: `stopped`; `runs_on` where what the call changes has begun;
   * `already_cancelled`, `ended` or `unknown`.
   */
  async cancelCall({ chatId, callId }) {
    try {
      await this.#server.json("api/cancel", { method: "POST", body: { ...this.#body, conversationId: chatId, callId } });
      return "stopped";
    } catch (error) {
      const [, outcome] = /^call_(\w+)$/.exec(error.code) ?? [];
      if (!outcome) throw error;
      return outcome;
    }
  }

  /** Ends a standing approval: the next call that it would cover asks the user again. Gives those of the conversation that are left. */
  async revoke({ chatId, approvalId }) {
    try {
      const body = { ...this.#body, conversationId: chatId, approvalId };
      return (await this.#server.json("api/revoke", { method: "POST", body })).standingApprovals;
    } catch (error) {
      if (error.code !== "unknown_approval") throw error;
      // It stands no longer, which is what was asked for.
      const { standingApprovals } = await this.#server.json(`api/conversations/${encodeURIComponent(chatId)}?limit=1`);
      return standingApprovals;
    }
  }

  /** The answer that is being written in the conversation, from its beginning; null where there is none. */
  async reconnectToStream({ chatId, headers, abortSignal }) {
    try {
      const answer = await this.#server.fetch(streamOf(chatId), { headers, signal: abortSignal });
      if (this.#isResumable) abortSignal?.addEventListener("abort", () => this.#stop(chatId), { once: true });
      return answer.status === 204 ? null : chunksOf(answer.body, this.#server.parse);
    } catch (error) {
      if (error instanceof WindlassError && error.status === 404) return null;
      throw error;
    }
  }
}

/** The server holds the conversation: pictures that it has seen need not travel again. */
function withoutOldPictures(messages) {
  const newest = messages.findLastIndex(({ role }) => role === "user");
  const isOld = ({ type, url }) => type === "file" && String(url).startsWith("data:");
  return messages.map((message, at) => (at === newest ? message : { ...message, parts: message.parts.filter((part) => !isOld(part)) }));
}

/** Server-sent events as the chunks that they hold. */
function chunksOf(body, parse) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  const nextEvent = async () => {
    for (;;) {
      const end = waiting.indexOf("\n\n");
      if (end >= 0) {
        const event = waiting.slice(0, end);
        waiting = waiting.slice(end + 2);
        return event;
      }
      if (waiting.length > EVENT_CHARACTERS_MAX) throw new WindlassError("The answer is no stream of events.");
      const { done, value } = await reader.read();
      if (done) return null;
      waiting += value;
    }
  };
  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        const event = await nextEvent();
        if (event === null) {
          controller.close();
          return;
        }
        if (!event.startsWith("data: {")) continue;
        controller.enqueue(parse(event.slice("data: ".length)));
        return;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
