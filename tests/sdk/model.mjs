// A model that answers by rules over Chat Completions, for tests of the server in front of it. Owns what it says; knows nothing
// of the server.

import { createServer } from 'node:http';
import { once } from 'node:events';

const RULES = [
  [/approved the call/, { words: ['It', ' was', ' looked', ' up.'] }],
  [/talk/i, { call: 'start_voice_session', arguments: { pending_request: 'Who designed the Fram?' } }],
  [/Fram/, { call: 'kb_search', arguments: { query: 'Fram designer' } }],
  [/slowly/, { words: ['One', ' moment'], hangs: true }],
];

/** Returns `{ url, seen, close }`; `seen` holds the bodies that came. */
export async function startModel() {
  const seen = [];
  const server = createServer(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const body = JSON.parse(Buffer.concat(pieces).toString());
    seen.push(body);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    answer(body, (delta, reason = null) => {
      const chunk = { object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: reason }] };
      if (reason) chunk.usage = { prompt_tokens: 100, completion_tokens: 7, total_tokens: 107 };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    }) || response.end('data: [DONE]\n\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}/v1`, seen, close };
}

/** Whether the answer goes on for ever. */
function answer({ messages, tool_choice: choice }, say) {
  const last = messages.at(-1);
  const said = JSON.stringify(last.content ?? '');
  const rule = last.role === 'user' && choice !== 'none' ? RULES.find(([pattern]) => pattern.test(said))?.[1] : undefined;
  if (rule?.call) {
    const call = { name: rule.call, arguments: JSON.stringify(rule.arguments) };
    say({ tool_calls: [{ index: 0, id: `call_${crypto.randomUUID()}`, type: 'function', function: call }] });
    say({}, 'tool_calls');
    return false;
  }
  for (const word of rule?.words ?? ['Colin', ' Archer', ' did.']) say({ content: word });
  if (rule?.hangs) return true;
  say({}, 'stop');
  return false;
}
