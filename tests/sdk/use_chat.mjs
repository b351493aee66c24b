// One answer of `windlass serve` as a page with `useChat` of Vercel's AI SDK builds it. Knows nothing of what is asked.

import { DefaultChatTransport, readUIMessageStream } from 'ai';

export const user = (text, id = crypto.randomUUID()) => ({ id, role: 'user', parts: [{ type: 'text', text }] });

/** The answer to these messages, or the rest of `message`, by the server at `url`. Without `chatId` it is a conversation of its own. */
export async function chat(url, messages, { chatId = crypto.randomUUID(), trigger = 'submit-message', message } = {}) {
  const transport = new DefaultChatTransport({ api: `${url}/api/chat` });
  const stream = await transport.sendMessages({ chatId, messages, trigger, abortSignal: undefined });
  const onError = (error) => {
    throw error;
  };
  for await (message of readUIMessageStream({ stream, onError, message }));
  return message;
}

export const words = ({ parts }) => parts.filter(({ type }) => type === 'text').map(({ text }) => text).join('');
