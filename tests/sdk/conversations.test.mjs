// Vercel's AI SDK at `windlass serve` with what it keeps: conversations that are read back, answers that are taken up again, and
// the snippet of the documentation on a page of another origin. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, validateUIMessages } from 'ai';
import { startModel } from './model.mjs';
import { ended } from './simulator.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ORIGIN = 'https://shop.example';
const CONFIG = `
[server]
allowed_origins = ["${ORIGIN}"]
[tools.start_voice_session]
requires_confirmation = true
`;
let model;
let server;
let data;
let url;

before(async () => {
  assert.ok(process.env.WINDLASS_BINARY, 'WINDLASS_BINARY names the windlass program');
  model = await startModel();
  data = mkdtempSync(join(tmpdir(), 'windlass-conversations-'));
  const config = join(data, 'windlass.toml');
  writeFileSync(config, CONFIG);
  const flags = ['serve', '--listen', '127.0.0.1:0', '--data', join(data, 'data'), '--config', config];
  flags.push('--text-provider', 'openai', '--text-provider-url', model.url);
  server = spawn(process.env.WINDLASS_BINARY, flags, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(createInterface({ input: server.stdout }), 'line');
  url = /http:\/\/[^\s/]+/.exec(line)[0];
});

after(async () => {
  if (server) await ended(server);
  model?.close();
  rmSync(data, { recursive: true, force: true });
});

/** What `useChat` keeps of a chat, without React. */
class State {
  status = 'ready';
  error = undefined;
  snapshot = structuredClone;

  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (message) => {
    this.messages = [...this.messages, message];
  };
  popMessage = () => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index, message) => {
    this.messages = this.messages.with(index, structuredClone(message));
  };
}

const callOf = (messages) => messages.flatMap(({ parts }) => parts).findLast(({ toolName }) => toolName === 'start_voice_session');

class Chat extends AbstractChat {
  constructor({ messages = [], ...options }) {
    const onError = (error) => {
      throw error;
    };
    super({ onError, ...options, state: new State(messages) });
  }

  /** The call that the user is asked about. */
  get call() {
    return callOf(this.messages);
  }

  get words() {
    const parts = this.messages.at(-1).parts.filter(({ type }) => type === 'text');
    return parts.map(({ text }) => text).join('');
  }

  /** Once what came of the user's answer is there, and nothing more is read. */
  async settled() {
    await until(() => this.call.state !== 'approval-responded' && this.status === 'ready');
  }
}

async function until(holds) {
  for (let left = 1_000; !holds(); left -= 1) {
    assert.ok(left > 0, 'it does not come');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** The server's cookie of a browser. */
async function browser() {
  const answer = await fetch(`${url}/api/conversations`, { headers: { origin: url } });
  return { cookie: answer.headers.get('set-cookie').split(';')[0] };
}

const SAFE_HEADERS = ['accept', 'accept-language', 'content-language'];
const READABLE_HEADERS = ['cache-control', 'content-language', 'content-length', 'content-type', 'expires', 'last-modified', 'pragma'];
const list = (answer, name) => (answer.headers.get(name) ?? '').toLowerCase().split(',').map((entry) => entry.trim());

/** `fetch` as a browser gives it to a page of another origin: with a preflight, without cookies, and with what the server lets it read. */
async function foreignFetch(input, init = {}) {
  const headers = new Headers(init.headers);
  const method = init.method ?? 'GET';
  const asked = [...headers.keys()].filter((name) => !SAFE_HEADERS.includes(name)).sort();
  const isAllowed = (answer) => {
    if (answer.headers.get('access-control-allow-origin') !== ORIGIN) throw new TypeError('Failed to fetch');
  };
  if (asked.length > 0 || !['GET', 'HEAD', 'POST'].includes(method)) {
    const asking = { origin: ORIGIN, 'access-control-request-method': method, 'access-control-request-headers': asked.join(',') };
    const preflight = await fetch(input, { method: 'OPTIONS', headers: asking });
    isAllowed(preflight);
    const may = (name, entries) => entries.every((entry) => list(preflight, name).includes(entry));
    if (!may('access-control-allow-headers', asked)) throw new TypeError('a header is not allowed');
    if (!may('access-control-allow-methods', [method.toLowerCase()])) throw new TypeError('the method is not allowed');
  }
  headers.set('origin', ORIGIN);
  const answer = await fetch(input, { ...init, headers });
  isAllowed(answer);
  const readable = [...READABLE_HEADERS, ...list(answer, 'access-control-expose-headers')];
  const shown = new Headers([...answer.headers].filter(([name]) => readable.includes(name)));
  return new Response(answer.body, { status: answer.status, headers: shown });
}

/** The documentation's snippet for pages of other origins, at our server. */
function documented(storage) {
  const page = readFileSync(join(ROOT, 'docs/chat.md'), 'utf8');
  const blocks = page.match(/(?<=```js\n)[^]*?(?=```)/g).filter((block) => block.includes('x-windlass-client'));
  assert.equal(blocks.length, 1, 'one snippet of docs/chat.md shows the client token');
  const code = blocks[0].replace('https://agent.example.com', url);
  const useChat = (options) => ({ chat: new Chat(options) });
  const given = { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, useChat, fetch: foreignFetch, localStorage: storage };
  const run = new Function(...Object.keys(given), `${code.replace(/const \{[^}]*\} = useChat/, 'return useChat')}`);
  return run(...Object.values(given)).chat;
}

function storage() {
  const kept = new Map();
  return { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, String(value)), kept };
}

test('the documented snippet holds a conversation with an approval from another origin', async () => {
  const kept = storage();
  const chat = documented(kept);
  await chat.sendMessage({ text: 'Who designed the Fram?' });
  assert.equal(chat.words, 'Colin Archer did.');
  await chat.sendMessage({ text: "Let's talk" });
  assert.equal(chat.call.state, 'approval-requested');
  await chat.addToolApprovalResponse({ id: chat.call.approval.id, approved: true });
  await chat.settled();
  assert.equal(chat.call.state, 'output-available');
  const told = model.seen.at(-1).messages.filter(({ role }) => role === 'user');
  assert.ok(JSON.stringify(told).includes('Who designed the Fram?'), 'the server holds the conversation');

  // Without what the snippet keeps, a browser of another origin is somebody new each time.
  const transport = new DefaultChatTransport({ api: `${url}/api/chat`, fetch: foreignFetch });
  let problem;
  const stranger = new Chat({ transport, onError: (error) => (problem = error) });
  await stranger.sendMessage({ text: 'Hello' });
  await stranger.sendMessage({ text: 'And then?' });
  assert.match(String(problem), /belongs to another client/);
});

test('a client token counts until its client ends it', async () => {
  const post = (id, headers) => {
    const body = JSON.stringify({ id, message: 'Hello' });
    return foreignFetch(`${url}/api/chat`, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body });
  };
  const first = await post('ended', {});
  await first.text();
  const token = first.headers.get('x-windlass-client');
  assert.match(token, /^[0-9a-f]{32}\.[0-9a-f]{64}$/);
  const mine = { 'x-windlass-client': token };
  const second = await post('ended', mine);
  await second.text();
  assert.deepEqual([second.status, second.headers.get('x-windlass-client')], [200, null]);
  const listed = async () => (await (await foreignFetch(`${url}/api/conversations`, { headers: mine })).json()).conversations;
  assert.deepEqual((await listed()).map(({ id }) => id), ['ended']);
  const forged = await post('ended', { 'x-windlass-client': token.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')) });
  assert.equal(forged.status, 403);

  const over = await foreignFetch(`${url}/api/session`, { method: 'DELETE', headers: mine });
  assert.equal(over.status, 200);
  const after = await post('ended', mine);
  assert.equal(after.status, 403);
  assert.notEqual(after.headers.get('x-windlass-client'), null, 'it is somebody new');
  assert.deepEqual(await listed(), []);
});

test('the page of the server has its cookie and no token', async () => {
  const answer = await fetch(`${url}/api/conversations`, { headers: { origin: url } });
  assert.match(answer.headers.get('set-cookie'), /HttpOnly; SameSite=Strict/);
  assert.equal(answer.headers.get('x-windlass-client'), null);
  const read = await fetch(`${url}/api/conversations`, { headers: { 'sec-fetch-site': 'same-origin' } });
  assert.equal(read.headers.get('x-windlass-client'), null);
  const cookie = answer.headers.get('set-cookie').split(';')[0];
  const over = await fetch(`${url}/api/session`, { method: 'DELETE', headers: { origin: url, cookie } });
  assert.match(over.headers.getSetCookie().join('\n'), /windlass_client=; Path=\/; Max-Age=0/);
  const after = await fetch(`${url}/api/conversations`, { headers: { origin: url, cookie } });
  assert.match(after.headers.get('set-cookie'), /^windlass_client=[0-9a-f]/, 'the cookie counts no more');
});

test('a conversation is read back as messages that the SDK takes, and goes on', async () => {
  const headers = await browser();
  const transport = new DefaultChatTransport({ api: `${url}/api/chat`, headers });
  const id = crypto.randomUUID();
  const options = { id, transport, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses };
  const chat = new Chat(options);
  await chat.sendMessage({ text: 'Who designed the Fram?' });
  await chat.sendMessage({ text: "Let's talk" });
  const read = async () => (await fetch(`${url}/api/conversations/${id}`, { headers })).json();
  const shown = await read();
  await validateUIMessages({ messages: shown.messages });
  const ids = ({ messages }) => messages.filter(({ role }) => role === 'user').map((message) => message.id);
  assert.deepEqual(ids(shown), ids(chat));
  assert.deepEqual(shown.messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant']);

  // Another page takes it up, answers what is asked, and wants another answer.
  const loaded = new Chat({ ...options, messages: shown.messages });
  assert.equal(loaded.call.state, 'approval-requested');
  await loaded.addToolApprovalResponse({ id: loaded.call.approval.id, approved: false });
  await loaded.settled();
  assert.equal(loaded.call.state, 'output-denied');
  const later = await read();
  await validateUIMessages({ messages: later.messages });
  assert.equal(callOf(later.messages).state, 'output-denied');
  await loaded.sendMessage({ text: 'Thanks' });
  await loaded.regenerate();
  const last = await read();
  assert.deepEqual(last.messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant', 'user', 'assistant']);
});

test('useChat takes a running answer up from its beginning, and stops it', async () => {
  const headers = await browser();
  const id = crypto.randomUUID();
  const transport = new DefaultChatTransport({ api: `${url}/api/chat`, headers, body: { resumable: true } });
  const chat = new Chat({ id, transport });
  const whole = chat.sendMessage({ text: 'Tell me slowly' });
  await until(() => chat.messages.at(-1)?.role === 'assistant' && chat.words === 'One moment');
  await chat.stop();
  await whole;

  const loaded = await (await fetch(`${url}/api/conversations/${id}`, { headers })).json();
  assert.equal(loaded.running, true);
  const next = new Chat({ id, transport, messages: loaded.messages });
  const resumed = next.resumeStream();
  await until(() => next.messages.at(-1)?.role === 'assistant' && next.words === 'One moment');
  assert.equal(next.messages.length, 2);
  const stopped = await fetch(`${url}/api/chat/${id}/stream`, { method: 'DELETE', headers });
  assert.equal(stopped.status, 204);
  await resumed;
  assert.equal(await transport.reconnectToStream({ chatId: id }), null);
  assert.equal(await transport.reconnectToStream({ chatId: 'nobody' }), null);
});
