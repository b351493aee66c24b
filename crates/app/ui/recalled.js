// Reads a conversation's messages, in the form of the AI SDK in which the server keeps them, as what the page shows: words and
// calls. Knows no layout.
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

/** The answers of people to one ticket. */
export function ticketRepliesOf(messages, ticketId) {
  const parts = (Array.isArray(messages) ? messages : []).flatMap((message) => (Array.isArray(message?.parts) ? message.parts : []));
  return parts.filter((part) => part?.type === "data-ticket-reply" && part.data?.ticketId === ticketId).map(({ data }) => data);
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
