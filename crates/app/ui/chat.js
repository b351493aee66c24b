// Owns the conversation by text: posts what is typed, reads the answer's stream, and remembers which conversation it is. Knows
// no layout and no audio; what people see goes through `view`, as in session.js.
import { textOf } from "./dom.js";
import { readJson } from "./json.js";
import { SEND_AGAIN_NOTICE } from "./notices.js";
import { keep, kept } from "./storage.js";

const STORAGE_KEY = "windlass.conversation";
const EVENT_CHARACTERS_MAX = 4_000_000;

/** The conversation of this tab: a name of 128 random bits, kept over a reload. */
export class Conversation {
  constructor() {
    this.id = kept("sessionStorage", STORAGE_KEY);
    this.wasKept = this.id !== "";
    if (!this.wasKept) this.renew();
  }

  /** What was said and done in it before this page was loaded, as the server has it; null where there is nothing. */
  async recall() {
    if (!this.wasKept) return null;
    try {
      const answer = await fetch(`api/conversations/${encodeURIComponent(this.id)}`, { headers: { accept: "application/json" } });
      return answer.ok ? readJson(await answer.text()) : null;
    } catch (error) {
      console.debug("the conversation is not recalled", error.message);
      return null;
    }
  }

  renew() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    this.id = `c-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    keep("sessionStorage", STORAGE_KEY, this.id);
  }
}

/** The server did not take a request, and says why. */
class Refusal extends Error {}

export class Chat {
  #view;
  #conversation;
  #running = null;
  #whole = Promise.resolve();
  #citations = [];
  #tools = new Map();
  /** The message of the user that was sent last, as the server knows it. */
  #message = null;
  /** Of the answer that is being read: whether it has words, whether it has ended as answers end, and what went wrong. */
  #answer = { hasWords: false, isWhole: false, problem: "" };

  /** `onChange({generating})`, `onTurn()` after each answer, `onVoice()` where the conversation goes on by voice,
   * `onTimeout(data)` where the user is paused, `onUnreachable()` where the server does not answer at all. */
  constructor({ view, conversation, onChange, onTurn, onVoice, onTimeout, onUnreachable }) {
    Object.assign(this, { onChange, onTurn, onVoice, onTimeout, onUnreachable });
    this.#view = view;
    this.#conversation = conversation;
  }

  get isRunning() {
    return this.#running !== null;
  }

  /** Whether the last message can be changed, or answered anew, as the same message. */
  get canRepeat() {
    return this.#message !== null;
  }

  /** Says something; an answer that is still being written is broken off. An `isEdit` takes the last message's place. */
  say(text, pictures = [], { isEdit = false } = {}) {
    this.stop();
    const id = isEdit && this.#message ? this.#message.id : crypto.getRandomValues(new Uint32Array(2)).join("-");
    const words = text === "" ? [] : [{ type: "text", text }];
    this.#message = { id, role: "user", parts: [...words, ...pictures] };
    this.#send("submit-message");
  }

  /** Another answer to the last message. */
  again() {
    this.stop();
    this.#view.transcript.replaceAnswer();
    this.#send("regenerate-message");
  }

  /** The user's answer to a request for approval goes back as the SDK would send it, once the answer under way is whole. */
  async answerConfirmation(token, approved) {
    while (this.#running) await this.#whole;
    const part = { type: "dynamic-tool", state: "approval-responded", approval: { id: token, approved } };
    const body = { id: this.#conversation.id, messages: [{ id: "approval", role: "assistant", parts: [part] }] };
    this.#begin(body, (wasTaken) => {
      if (wasTaken) this.#view.approvals.settled(token);
      else this.#view.approvals.notSent(token);
    });
  }

  /** What follows belongs to another conversation. */
  forget() {
    this.stop();
    this.#message = null;
  }

  #send(trigger) {
    this.#begin({ id: this.#conversation.id, messages: [this.#message], trigger });
  }

  /** Sends the last message once more: the server goes on where its turn broke off. */
  #retry() {
    this.#view.transcript.replaceAnswer();
    this.#send("submit-message");
  }

  #begin(body, onEnd = null) {
    this.#whole = this.#run(body, onEnd);
  }

  /** Breaks the answer off; the server gives the turn up. */
  stop() {
    if (!this.#running) return;
    this.#running.abort();
    this.#running = null;
    this.#view.transcript.markInterrupted();
    this.#view.calls.settle(this.#view.approvals.callIds);
    this.onChange({ generating: false });
  }

  async #run(body, onEnd) {
    const running = new AbortController();
    this.#running = running;
    this.#citations = [];
    this.#answer = { hasWords: false, isWhole: false, problem: "" };
    this.onChange({ generating: true });
    let wasTaken = false;
    try {
      const headers = { "content-type": "application/json" };
      const answer = await fetch("api/chat", { method: "POST", headers, body: JSON.stringify(body), signal: running.signal });
      if (answer.status === 401) this.#view.checkSignIn();
      if (!answer.ok) throw new Refusal((await refusalText(answer)) || `The server answers with status ${answer.status}.`);
      wasTaken = true;
      await this.#read(answer.body.getReader(), running);
    } catch (error) {
      if (this.#running !== running) return;
      this.#answer.problem = error instanceof Refusal ? error.message : "The connection to the server broke.";
      if (!(error instanceof Refusal)) this.onUnreachable();
    }
    if (this.#running !== running) return;
    this.#running = null;
    this.#ended(onEnd, wasTaken);
    this.onChange({ generating: false });
    this.onTurn();
  }

  /** Says what went wrong, where something did, and closes the turn. */
  #ended(onEnd, wasTaken) {
    const { transcript, calls, approvals } = this.#view;
    const { hasWords, isWhole, problem } = this.#answer;
    onEnd?.(wasTaken && isWhole);
    if (isWhole && !problem) {
      transcript.closeTurn();
      return;
    }
    if (isWhole) transcript.closeTurn();
    else transcript.markCut();
    if (!isWhole) calls.settle(approvals.callIds);
    const title = isWhole && hasWords ? "Something went wrong." : hasWords ? "The answer was cut off." : "There is no answer.";
    const isOver = isWhole && hasWords;
    const onRetry = onEnd || isOver || !this.#message ? null : () => this.#retry();
    transcript.problem({ title, text: problem || "The server ended it before it was whole.", onRetry });
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
      if (waiting.length > EVENT_CHARACTERS_MAX) throw new Refusal("The answer is no stream of events.");
      for (const event of events) this.#event(event);
    }
  }

  #event(event) {
    if (!event.startsWith("data: {")) return;
    const chunk = readJson(event.slice("data: ".length));
    const answers = this.#answers;
    if (Object.hasOwn(answers, chunk.type)) answers[chunk.type](chunk);
  }

  #answers = {
    "text-delta": ({ delta }) => {
      this.#answer.hasWords ||= textOf(delta).trim() !== "";
      this.#view.transcript.receive({ role: "assistant", text: delta, final: false });
    },
    "source-url": ({ sourceId, title, url }) => this.#cite({ id: sourceId, title, url }),
    "source-document": ({ sourceId, title }) => this.#cite({ id: sourceId, title }),
    "tool-input-available": ({ toolCallId, toolName, input, title }) => {
      this.#tools.set(toolCallId, { tool: toolName, startedAt: performance.now() });
      this.#view.calls.started({ callId: toolCallId, tool: toolName, args: input, status: title });
    },
    "tool-approval-request": ({ toolCallId }) => this.#finished(toolCallId, { ok: false, errorType: "CONFIRMATION_REQUIRED" }),
    "tool-output-available": ({ toolCallId, output }) => this.#finished(toolCallId, { ok: true, result: output }),
    "tool-output-error": ({ toolCallId, errorText }) => {
      const [, errorType, message] = /^([A-Z_]+)(?:: ([^]*))?$/.exec(textOf(errorText)) ?? ["", "", textOf(errorText)];
      this.#finished(toolCallId, { ok: false, errorType, message });
    },
    "tool-output-denied": ({ toolCallId }) => this.#finished(toolCallId, { ok: false, errorType: "CONFIRMATION_DECLINED" }),
    "data-tool-progress": ({ data }) => this.#view.calls.progress({ ...data, callId: data?.toolCallId }),
    "data-confirmation-request": ({ data }) => this.#view.approvals.request({ ...data, callId: data?.toolCallId ?? data?.callId }),
    "data-confirmation-replaced": ({ data }) => this.#view.approvals.resolve(data?.toolCallId),
    "data-answer-again": ({ data }) => {
      if (this.#view.approvals.again(data?.toolCallId)) this.#view.notices.show("answer", { tone: "warning", ...SEND_AGAIN_NOTICE });
    },
    file: ({ url }) => this.#view.transcript.receive({ role: "assistant", text: "", final: true, images: [{ url }] }),
    "data-image": ({ data }) => this.#view.transcript.image(data),
    "data-timeout": ({ data }) => this.onTimeout(data ?? {}),
    "data-voice-session-start": () => this.onVoice(),
    error: ({ errorText }) => {
      this.#answer.problem = textOf(errorText);
    },
    finish: ({ finishReason }) => {
      this.#answer.isWhole = finishReason !== "error";
    },
  };

  #cite(citation) {
    this.#citations.push(citation);
    this.#view.transcript.receive({ role: "assistant", text: "", final: true, citations: this.#citations });
  }

  #finished(callId, outcome) {
    const { tool, startedAt } = this.#tools.get(callId) ?? { startedAt: performance.now() };
    this.#tools.delete(callId);
    this.#view.calls.finished({ callId, tool, durationMs: performance.now() - startedAt, ...outcome });
    if (outcome.errorType !== "CONFIRMATION_REQUIRED") this.#view.approvals.resolve(callId);
  }
}

async function refusalText(answer) {
  try {
    return textOf((await answer.json())?.error?.message);
  } catch {
    return "";
  }
}
