// The transport of docs/nextjs.md, word for word, on a page of another origin: two messages and an approval. Needs WINDLASS_BINARY.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';

const ROOT = join(import.meta.dirname, '../..');
const ORIGIN = 'http://localhost:3000';
/** What a page of another origin may read of any answer; the others have to be listed. */
const READABLE = ['content-type', 'cache-control'];

let folder, server, url;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-nextjs-'));
  const page = readFileSync(join(ROOT, 'docs/nextjs.md'), 'utf8');
  const asking = '[tools.start_voice_session]\nrequires_confirmation = true\n';
  writeFileSync(join(folder, 'windlass.toml'), `${page.match(/```toml\n([^]*?)```/)[1]}\n${asking}`);
  const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^WINDLASS_|_API_KEY$/.test(name)));
  const folders = ['--tools', join(ROOT, 'tools'), '--kb', join(ROOT, 'kb'), '--data', join(folder, 'data')];
  server = spawn(process.env.WINDLASS_BINARY, ['serve', '--listen', '127.0.0.1:0', ...folders], { cwd: folder, env: environment, stdio: ['ignore', 'pipe', 'ignore'] });
  for await (const line of createInterface({ input: server.stdout })) {
    url = line.match(/http:\/\/\S+/)?.[0];
    if (url) break;
  }
});

after(() => {
  server?.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

/** `fetch` as a browser has it on the page: an origin, no cookie, and the headers alone that the server lets it read. */
async function foreignFetch(input, init) {
  const headers = new Headers(init.headers);
  headers.set('origin', ORIGIN);
  const answer = await fetch(input, { ...init, headers });
  assert.equal(answer.headers.get('access-control-allow-origin'), ORIGIN);
  const listed = (answer.headers.get('access-control-expose-headers') ?? '').toLowerCase().split(/\s*,\s*/);
  const shown = [...answer.headers].filter(([name]) => [...READABLE, ...listed].includes(name));
  return new Response(answer.body, { status: answer.status, headers: shown });
}

/** The state of a chat as `useChat` keeps it, without React. */
class State {
  status = 'ready';
  error;
  messages = [];
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => (this.messages = this.messages.with(index, message));
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(options) {
    super({ ...options, state: new State() });
  }
}

test('the transport of the Next.js page holds a conversation with an approval', async () => {
  const page = readFileSync(join(ROOT, 'docs/nextjs.md'), 'utf8');
  const code = page.match(/```js\n([^]*?)```/)[1].replace(/^import .*\n/, '').replace('export const transport =', 'return');
  const kept = new Map();
  const localStorage = { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value) };
  const given = { DefaultChatTransport, localStorage, fetch: foreignFetch };
  const transport = new Function(...Object.keys(given), code.replace('http://127.0.0.1:8080', url))(...Object.values(given));
  const problems = [];
  const chat = new Chat({
    transport,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: (error) => problems.push(String(error)),
  });
  await chat.sendMessage({ text: 'Who designed the ship Fram?' });
  assert.match(JSON.stringify(chat.messages.at(-1)), /Colin Archer/);
  // The second message is the one that dies where the server does not know the browser again.
  await chat.sendMessage({ text: 'call start_voice_session {}' });
  const request = () => chat.messages.at(-1).parts.find((part) => part.toolCallId !== undefined);
  assert.equal(request()?.state, 'approval-requested', JSON.stringify(chat.messages.at(-1)));
  await chat.addToolApprovalResponse({ id: request().approval.id, approved: true });
  while (chat.status !== 'ready') await new Promise((soon) => setImmediate(soon));
  assert.equal(request().state, 'output-available');
  assert.deepEqual(problems, []);
});
