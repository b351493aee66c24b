// Reads a conversation's messages, in the form of the AI SDK in which the server keeps them, as what the page shows: words and
// calls; and looks for people's answers in them. Knows no layout.
import { textOf } from "./dom.js";

const ERROR = /^([A-Z_]+)(?:: ([^]*))?$/;

/** Words and calls of messages, in their order. */
export function linesOf(messages) {
  return (Array.isArray(messages) ? messages : []).flatMap((message) => linesOfOne(message ?? {}));
}

function linesOfOne({ role, parts, metadata }) {
  const { turn, mode } = metadata ?? {};
  const lines = [];
  let [citations, images] = [[], []];
  const words = (text) => {
    lines.push({ kind: "words", role, text, citations, images });
    [citations, images] = [[], []];
  };
  for (const part of Array.isArray(parts) ? parts : []) {
    if (part?.type === "text") words(textOf(part.text));
    else if (part?.type === "source-url" || part?.type === "source-document") citations.push({ id: part.sourceId, title: part.title, url: part.url });
    else if (part?.type === "file") images.push({ url: part.url, caption: part.providerMetadata?.windlass?.caption });
    else if (part?.type === "data-ticket-reply") words(ticketReplyText(part.data ?? {}));
    else if (part?.type === "dynamic-tool") lines.push({ kind: "call", turn, mode, ...callOf(part) });
  }
  if (citations.length > 0 || images.length > 0) words("");
  return lines;
}

/** What a person has answered, as the transcript shows it. */
export function ticketReplyText({ author, text }) {
  return `**${textOf(author) || "A person of the team"}:** ${textOf(text)}`;
}

/** The tickets of the conversation that is shown, and people's answers, each shown once. */
export class Tickets {
  #open = new Set();
  #shown = new Set();
  #timer;

  /** `read()` gives the newest messages, if it can; `show(reply)` shows an answer. */
  constructor(read, show) {
    Object.assign(this, { read, show });
  }

  /** Whether one waits for an answer. */
  get areOpen() {
    return this.#open.size > 0;
  }

  opened(id) {
    if (![...this.#shown].some((said) => said.startsWith(`${id}\n`))) this.#open.add(id);
    this.#watch();
  }

  /** The server takes the same words of the same person once. */
  replied(reply, isShown = false) {
    const said = [reply.ticketId, reply.author, reply.text].map(textOf).join("\n");
    this.#open.delete(reply.ticketId);
    if (!isShown && !this.#shown.has(said)) this.show(reply);
    this.#shown.add(said);
    this.#watch();
  }

  /** Takes what messages say; `areShown` where the transcript has them. */
  recalled(messages, areShown = true) {
    for (const part of (Array.isArray(messages) ? messages : []).flatMap((message) => message?.parts)) {
      if (part?.type === "data-ticket-reply") this.replied(part.data ?? {}, areShown);
      else if (part?.toolName === "escalate" && part.output?.ticket_id) this.opened(part.output.ticket_id);
    }
  }

  /** Another conversation is shown. */
  forget() {
    clearTimeout(this.#timer);
    this.#open = new Set();
    this.#shown = new Set();
  }

  /** Also after an answer, since a person may add to it. */
  #watch() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#look(), this.areOpen ? 15_000 : 60_000);
  }

  async #look() {
    const shown = this.#shown;
    const messages = await this.read().catch(() => null);
    if (this.#shown !== shown) return;
    this.recalled(messages, false);
    this.#watch();
  }
}

function callOf({ toolCallId, toolName, state, input, output, errorText, callProviderMetadata }) {
  const { at, durationMs } = callProviderMetadata?.windlass ?? {};
  const call = { callId: toolCallId, tool: toolName, args: input, at, durationMs };
  if (state === "output-available") return { ...call, ok: true, result: output };
  if (state === "output-denied") return { ...call, ok: false, errorType: "CONFIRMATION_DECLINED" };
  if (state === "output-error") {
    const [, errorType, message] = ERROR.exec(textOf(errorText)) ?? ["", "", textOf(errorText)];
    return { ...call, ok: false, errorType, message };
  }
  return { ...call, ok: false, errorType: "CONFIRMATION_REQUIRED" };
}
