// Owns the conversation by text: sends what is typed, shows the answer's stream, and remembers which conversation it is. Knows
// no layout and no audio; what people see goes through `view`, as in session.js.
import { WindlassError } from "./client/index.js";
import { keep, kept } from "./client/storage.js";
import { connectNotice } from "./connections.js";
import { textOf } from "./dom.js";
import { SEND_AGAIN_NOTICE } from "./notices.js";
import { taskOf } from "./tasks.js";

const STORAGE_KEY = "windlass.conversation";
/** Messages that a page of a conversation brings. */
const RECALLED_MAX = 200;

/** The conversation of this tab: a name of 128 random bits, kept over a reload. */
export class Conversation {
  #conversations;

  /** `conversations`: those of the client. */
  constructor(conversations) {
    this.#conversations = conversations;
    this.id = kept("sessionStorage", STORAGE_KEY);
    this.wasKept = this.id !== "";
    if (!this.wasKept) this.renew();
  }

  /** A page of what was said and done in it, the newest or the one before a cursor; null where there is nothing. */
  async read(cursor = null) {
    if (!this.wasKept) return null;
    try {
      return await this.#conversations.read(this.id, { limit: RECALLED_MAX, cursor });
    } catch (error) {
      if (error instanceof WindlassError && [401, 403, 404].includes(error.status)) return null;
      throw error;
    }
  }

  /** Goes on with another one. */
  take(id) {
    this.id = id;
    this.wasKept = true;
    keep("sessionStorage", STORAGE_KEY, id);
  }

  renew() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    this.wasKept = false;
    this.id = `c-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    keep("sessionStorage", STORAGE_KEY, null);
  }

  /** Something is said in it: from here on the server knows it, and a reload takes it up. */
  use() {
    this.wasKept = true;
    keep("sessionStorage", STORAGE_KEY, this.id);
    return this.id;
  }
}

export class Chat {
  #view;
  #transport;
  #conversation;
  #running = null;
  #reader = null;
  #whole = Promise.resolve();
  #citations = [];
  #tools = new Map();
  /** The message of the user that was sent last, as the server knows it. */
  #message = null;
  /** Of the answer that is being read: whether it has words, whether it has ended as answers end, and what went wrong. */
  #answer = { hasWords: false, isWhole: false, problem: "" };

  /** `onChange({generating})`, `onTurn()` after each answer, `onVoice()` where the conversation goes on by voice,
   * `onTimeout(data)` where the user is paused, `onTicket(data)` where a person was asked, `onUnreachable()` where the server does not answer at all. */
  constructor({ view, transport, conversation, onChange, onTurn, onVoice, onTimeout, onTicket, tasks, onUnreachable }) {
    Object.assign(this, { onChange, onTurn, onVoice, onTimeout, onTicket, tasks, onUnreachable });
    this.#view = view;
    this.#transport = transport;
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
  async answerConfirmation(token, approved, { reason, remember, content, cancelled } = {}) {
    while (this.#running) await this.#whole;
    const part = { type: "dynamic-tool", state: "approval-responded", approval: { id: token, approved, reason, remember, content, cancelled } };
    this.#post({ messages: [{ id: "approval", role: "assistant", parts: [part] }] }, (wasTaken) => {
      if (wasTaken) this.#view.approvals.settled(token);
      else this.#view.approvals.notSent(token);
    });
  }

  /** A standing approval is to end. */
  async revoke(approval) {
    const { standing } = this.#view;
    try {
      standing.recalled(await this.#transport.revoke({ chatId: this.#conversation.id, approvalId: approval.approvalId }));
    } catch (error) {
      if (error.status === 401) this.#view.checkSignIn();
      standing.notRevoked(approval);
    }
  }

  /** One call is to stop; the answer goes on. */
  async cancelCall(callId) {
    const { calls } = this.#view;
    try {
      const outcome = await this.#transport.cancelCall({ chatId: this.#conversation.id, callId });
      calls.cancelled({ callId, outcome });
    } catch (error) {
      if (error.status === 401) this.#view.checkSignIn();
      calls.notCancelled(callId, { isBusy: error.code === "busy" });
    }
  }

  /** What the user said last before the page was loaded can be changed, or answered anew, where its id is the one that it was sent with. */
  recalled(message) {
    const isOurs = message?.role === "user" && textOf(message.id) !== "" && !message.id.startsWith("entry-");
    this.#message = isOurs ? { id: message.id, role: "user", parts: message.parts } : null;
  }

  /** Goes on showing an answer that was being written when the page was loaded. */
  resume() {
    this.#begin((request) => this.#transport.reconnectToStream(request));
  }

  /** What follows belongs to another conversation. An answer under way goes on at the server, without being read. */
  forget() {
    const reader = this.#running && this.#reader;
    this.#running = null;
    reader?.cancel().catch((error) => console.debug("the answer was left", error.name));
    this.onChange({ generating: false });
    this.#message = null;
  }

  #send(trigger) {
    this.#post({ messages: [this.#message], trigger });
  }

  /** Sends the last message once more: the server goes on where its turn broke off. */
  #retry() {
    this.#view.transcript.replaceAnswer();
    this.#send("submit-message");
  }

  #post(request, onEnd = null) {
    this.#begin((more) => this.#transport.sendMessages({ ...request, ...more }), onEnd);
  }

  #begin(ask, onEnd = null) {
    this.#whole = this.#run(ask, onEnd);
  }

  /** Breaks the answer off; the server gives the turn up. */
  stop() {
    if (!this.#running) return;
    this.#running.abort();
    this.#running = null;
    this.#view.transcript.markInterrupted();
    this.#view.calls.settle([...this.#view.approvals.callIds, ...this.tasks.callIds]);
    this.onChange({ generating: false });
  }

  /** `ask(request)` brings the answer's chunks, or null where there is no answer any more. */
  async #run(ask, onEnd) {
    const running = new AbortController();
    this.#running = running;
    this.#citations = [];
    this.#answer = { hasWords: false, isWhole: false, problem: "" };
    this.onChange({ generating: true });
    let wasTaken = false;
    try {
      const chunks = await ask({ chatId: this.#conversation.use(), abortSignal: running.signal });
      wasTaken = true;
      if (chunks === null) this.#answer.isWhole = true;
      else await this.#read(chunks.getReader(), running);
    } catch (error) {
      if (this.#running !== running) return;
      const isRefused = error instanceof WindlassError;
      if (error.status === 401) this.#view.checkSignIn();
      this.#answer.problem = isRefused ? error.message : "The connection to the server broke.";
      if (!isRefused) this.onUnreachable();
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
    if (!isWhole) calls.settle([...approvals.callIds, ...this.tasks.callIds]);
    const title = isWhole && hasWords ? "Something went wrong." : hasWords ? "The answer was cut off." : "There is no answer.";
    const isOver = isWhole && hasWords;
    const onRetry = onEnd || isOver || !this.#message ? null : () => this.#retry();
    transcript.problem({ title, text: problem || "The server ended it before it was whole.", onRetry });
  }

  async #read(reader, running) {
    this.#reader = reader;
    for (;;) {
      if (this.#running !== running) {
        await reader.cancel();
        return;
      }
      const { done, value: chunk } = await reader.read();
      if (done) return;
      if (this.#running !== running) continue;
      if (Object.hasOwn(this.#answers, chunk?.type)) this.#answers[chunk.type](chunk);
    }
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
    "tool-output-available": ({ toolCallId, output, preliminary }) => {
      if (preliminary === true) this.#view.calls.output({ callId: toolCallId, data: output });
      else this.#brought(toolCallId, output);
    },
    "tool-output-error": ({ toolCallId, errorText }) => {
      const [, errorType, message] = /^([A-Z_]+)(?:: ([^]*))?$/.exec(textOf(errorText)) ?? ["", "", textOf(errorText)];
      this.#finished(toolCallId, { ok: false, errorType, message });
    },
    "tool-output-denied": ({ toolCallId }) => this.#finished(toolCallId, { ok: false, errorType: "CONFIRMATION_DECLINED" }),
    "data-tool-progress": ({ data }) => this.#view.calls.progress({ ...data, callId: data?.toolCallId }),
    "data-call-settled": ({ data }) => {
      const call = this.tasks.told({ id: textOf(data?.effectId) }) ?? { callId: data?.effectId, tool: data?.tool };
      this.#view.calls.finished({ ...call, ok: data?.ok, result: data?.output, message: data?.errorText });
    },
    "data-confirmation-request": ({ data }) => this.#view.approvals.request({ ...data, callId: data?.toolCallId ?? data?.callId }),
    "data-standing-approvals": ({ data }) => this.#view.standing.show("text", data?.approvals),
    "data-connect": ({ data }) => this.#view.notices.show("connect", connectNotice(data ?? {})),
    "data-confirmation-replaced": ({ data }) => this.#view.approvals.resolve(data?.toolCallId),
    "data-answer-again": ({ data }) => {
      if (this.#view.approvals.again(data?.toolCallId)) this.#view.notices.show("answer", { tone: "warning", ...SEND_AGAIN_NOTICE });
    },
    file: ({ url }) => this.#view.transcript.receive({ role: "assistant", text: "", final: true, images: [{ url }] }),
    "data-image": ({ data }) => this.#view.transcript.image(data),
    "data-ticket": ({ data }) => this.onTicket(data ?? {}),
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

  /** A result, or that the call was accepted and goes on by itself. */
  #brought(callId, output) {
    const id = taskOf(output);
    if (id === "" && this.tasks.wasShown(callId)) return;
    const { tool } = this.#tools.get(callId) ?? {};
    this.#finished(callId, { ok: true, result: output, accepted: id !== "" });
    if (id) this.tasks.accepted(id, { callId, tool });
    else this.tasks.told({ callId });
  }

  #finished(callId, outcome) {
    const { tool, startedAt } = this.#tools.get(callId) ?? { startedAt: performance.now() };
    this.#tools.delete(callId);
    this.#view.calls.finished({ callId, tool, durationMs: performance.now() - startedAt, ...outcome });
    if (outcome.errorType !== "CONFIRMATION_REQUIRED") this.#view.approvals.resolve(callId);
  }
}
