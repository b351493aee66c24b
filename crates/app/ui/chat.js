// Owns the conversation by text: posts what is typed, reads the answer's stream, and remembers which conversation it is. Knows
// no layout and no audio; what people see goes through `view`, as in session.js.
import { textOf, valueText } from "./dom.js";
import { parseExact } from "./exact.js";
import { SEND_AGAIN_NOTICE } from "./notices.js";

const STORAGE_KEY = "windlass.conversation";
const EVENT_CHARACTERS_MAX = 4_000_000;

/** The conversation of this tab: a name of 128 random bits, kept over a reload. */
export class Conversation {
  constructor() {
    try {
      this.id = sessionStorage.getItem(STORAGE_KEY) ?? "";
    } catch {
      this.id = "";
    }
    this.wasKept = this.id !== "";
    if (!this.wasKept) this.renew();
  }

  /** What was said and done in it before this page was loaded, as the server has it; null where there is nothing. */
  async recall() {
    if (!this.wasKept) return null;
    try {
      const answer = await fetch(`api/conversations/${encodeURIComponent(this.id)}`, { headers: { accept: "application/json" } });
      return answer.ok ? parseExact(await answer.text()) : null;
    } catch (error) {
      console.debug("the conversation is not recalled", error.message);
      return null;
    }
  }

  renew() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    this.id = `c-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    try {
      sessionStorage.setItem(STORAGE_KEY, this.id);
    } catch (error) {
      console.debug("the conversation is not kept", error.name);
    }
  }
}

export class Chat {
  #view;
  #conversation;
  #running = null;
  #whole = Promise.resolve();
  #citations = [];
  #tools = new Map();

  /** `onChange({generating})`, `onTurn()` after each answer, `onVoice()` where the conversation goes on by voice,
   * `onTimeout(data)` where the user is paused. */
  constructor({ view, conversation, onChange, onTurn, onVoice, onTimeout }) {
    Object.assign(this, { onChange, onTurn, onVoice, onTimeout });
    this.#view = view;
    this.#conversation = conversation;
  }

  get isRunning() {
    return this.#running !== null;
  }

  /** Says something; an answer that is still being written is broken off. */
  say(text) {
    this.stop();
    const message = { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), role: "user", parts: [{ type: "text", text }] };
    this.#begin({ id: this.#conversation.id, messages: [message], trigger: "submit-message" });
  }

  /** The user's answer to a request for approval goes back as the SDK would send it, once the answer under way is whole. */
  async answerConfirmation(token, approved) {
    while (this.#running) await this.#whole;
    const part = { type: "dynamic-tool", state: "approval-responded", approval: { id: token, approved } };
    this.#begin({ id: this.#conversation.id, messages: [{ id: "approval", role: "assistant", parts: [part] }] });
  }

  #begin(body) {
    this.#whole = this.#run(body);
  }

  /** Breaks the answer off; the server gives the turn up. */
  stop() {
    if (!this.#running) return;
    this.#running.abort();
    this.#running = null;
    this.#view.transcript.markInterrupted();
    this.onChange({ generating: false });
  }

  async #run(body) {
    const running = new AbortController();
    this.#running = running;
    this.#citations = [];
    this.onChange({ generating: true });
    try {
      const headers = { "content-type": "application/json" };
      const answer = await fetch("api/chat", { method: "POST", headers, body: JSON.stringify(body), signal: running.signal });
      if (answer.status === 401) this.#view.checkSignIn();
      if (!answer.ok) throw new Error(textOf((await answer.json())?.error?.message) || `status ${answer.status}`);
      await this.#read(answer.body.getReader(), running);
    } catch (error) {
      if (this.#running !== running) return;
      this.#view.notices.show("error", { tone: "warning", title: "There is no answer", text: textOf(error.message) });
    }
    if (this.#running !== running) return;
    this.#running = null;
    this.#view.transcript.closeTurn();
    this.onChange({ generating: false });
    this.onTurn();
  }

  async #read(reader, running) {
    const decoder = new TextDecoder();
    let waiting = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || this.#running !== running) return;
      waiting += decoder.decode(value, { stream: true });
      const events = waiting.split("\n\n");
      waiting = events.pop();
      if (waiting.length > EVENT_CHARACTERS_MAX) throw new Error("the answer is no stream of events");
      for (const event of events) this.#event(event);
    }
  }

  #event(event) {
    if (!event.startsWith("data: {")) return;
    const chunk = parseExact(event.slice("data: ".length));
    const answers = this.#answers;
    if (Object.hasOwn(answers, chunk.type)) answers[chunk.type](chunk);
  }

  #answers = {
    "text-delta": ({ delta }) => this.#view.transcript.receive({ role: "assistant", text: delta, final: false }),
    "source-url": ({ sourceId, title, url }) => this.#cite({ id: sourceId, title, url }),
    "source-document": ({ sourceId, title }) => this.#cite({ id: sourceId, title }),
    "tool-input-available": ({ toolCallId, toolName, input, title }) => {
      this.#tools.set(toolCallId, { tool: toolName, startedAt: performance.now() });
      this.#view.calls.started({ callId: toolCallId, tool: toolName, args: input, status: title });
    },
    "tool-approval-request": ({ toolCallId }) => this.#finished(toolCallId, false, "CONFIRMATION_REQUIRED"),
    "tool-output-available": ({ toolCallId, output }) => this.#finished(toolCallId, true, "", valueText(output ?? undefined)),
    "tool-output-error": ({ toolCallId, errorText }) => this.#finished(toolCallId, false, textOf(errorText).split(":")[0]),
    "tool-output-denied": ({ toolCallId }) => this.#finished(toolCallId, false, "CONFIRMATION_DECLINED"),
    "data-tool-progress": ({ data }) => this.#view.calls.progress({ ...data, callId: data?.toolCallId }),
    "data-confirmation-request": ({ data }) => this.#view.confirmation.request({ ...data, callId: data?.toolCallId ?? data?.callId }),
    "data-answer-again": ({ data }) => {
      if (this.#view.confirmation.again(data?.toolCallId)) this.#view.notices.show("answer", { tone: "warning", ...SEND_AGAIN_NOTICE });
    },
    file: ({ url }) => this.#view.transcript.receive({ role: "assistant", text: "", final: true, images: [{ url }] }),
    "data-image": ({ data }) => this.#view.transcript.image(data),
    "data-timeout": ({ data }) => this.onTimeout(data ?? {}),
    "data-voice-session-start": () => this.onVoice(),
    error: ({ errorText }) => this.#view.notices.show("error", { tone: "warning", title: "Something went wrong", text: textOf(errorText) }),
  };

  #cite(citation) {
    this.#citations.push(citation);
    this.#view.transcript.receive({ role: "assistant", text: "", final: true, citations: this.#citations });
  }

  #finished(callId, ok, errorType, result) {
    const { tool, startedAt } = this.#tools.get(callId) ?? { startedAt: performance.now() };
    this.#tools.delete(callId);
    this.#view.calls.finished({ callId, tool, ok, durationMs: performance.now() - startedAt, errorType, result });
    this.#view.confirmation.resolve(callId);
  }
}
