// Vercel's AI SDK and OpenAI's SDK talk to `windlass serve`. Owns what those SDKs must see; the model behind the server is
// model.mjs. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';
import OpenAI from 'openai';
import { startModel } from './model.mjs';
import { ended } from './simulator.mjs';
import { chat, user, words } from './use_chat.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
let model;
const servers = [];
let data;
let url;

before(async () => {
  assert.ok(process.env.WINDLASS_BINARY, 'WINDLASS_BINARY names the windlass program');
  model = await startModel();
  data = mkdtempSync(join(tmpdir(), 'windlass-chat-'));
  url = await serve('plain');
});

/** Starts a server with these keys, and says where it is. */
async function serve(name, keys = '') {
  const config = join(data, `${name}.toml`);
  writeFileSync(config, keys);
  const flags = ['serve', '--listen', '127.0.0.1:0', '--data', join(data, name), '--config', config];
  flags.push('--text-provider', 'openai', '--text-provider-url', model.url);
  const server = spawn(process.env.WINDLASS_BINARY, flags, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  servers.push(server);
  const [line] = await once(createInterface({ input: server.stdout }), 'line');
  return /http:\/\/\S+/.exec(line)[0];
}

after(async () => {
  await Promise.all(servers.map(ended));
  model?.close();
  rmSync(data, { recursive: true, force: true });
});

test('useChat gets words, calls with results, sources and usage', async () => {
  const message = await chat(url, [user('Who designed the Fram?')]);
  assert.equal(message.role, 'assistant');
  assert.equal(words(message), 'Colin Archer did.');
  const call = message.parts.find(({ type }) => type === 'dynamic-tool');
  assert.equal(call.toolName, 'kb_search');
  assert.equal(call.state, 'output-available');
  assert.equal(call.input.query, 'Fram designer');
  assert.ok(call.output.results.length > 0);
  assert.ok(message.parts.some(({ type }) => type === 'source-url' || type === 'source-document'));
  assert.equal(message.parts.filter(({ type }) => type === 'step-start').length, 2);
  assert.equal(message.metadata.usage.inputTokens, 200);
});

test('the server holds the conversation and knows a message again', async () => {
  const chatId = crypto.randomUUID();
  const first = user('Hello');
  const answer = await chat(url, [first], { chatId });
  const asked = model.seen.length;
  const again = await chat(url, [first], { chatId });
  assert.equal(again.id, answer.id);
  assert.equal(model.seen.length, asked);
  const other = await chat(url, [first], { chatId, trigger: 'regenerate-message' });
  assert.notEqual(other.id, answer.id);
  await chat(url, [first, other, user('And then?')], { chatId });
  const roles = model.seen.at(-1).messages.map(({ role }) => role);
  assert.deepEqual(roles.slice(0, 3), ['system', 'user', 'assistant']);
});

test('the way to voice is a data part', async () => {
  const chatId = crypto.randomUUID();
  const message = await chat(url, [user("Let's talk")], { chatId });
  const part = message.parts.find(({ type }) => type === 'data-voice-session-start');
  assert.equal(part.data.conversationId, chatId);
  assert.equal(part.data.pendingRequest, 'Who designed the Fram?');
});

test('consent is asked for and given as the SDK does it', async () => {
  const careful = await serve('careful', '[tools.start_voice_session]\nrequires_confirmation = true\n');
  for (const approved of [true, false]) {
    const options = { chatId: crypto.randomUUID() };
    const asked = user("Let's talk");
    const message = await chat(careful, [asked], options);
    const call = () => message.parts.find(({ type }) => type === 'dynamic-tool');
    assert.equal(call().state, 'approval-requested');
    const before = words(message);
    assert.ok(before, 'the model says what it waits for');
    Object.assign(call(), { state: 'approval-responded', approval: { ...call().approval, approved } });
    assert.ok(lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [asked, message] }));
    const answered = structuredClone(message);
    const after = await chat(careful, [asked, message], { ...options, message });
    assert.equal(after.id, message.id, 'the message goes on');
    assert.equal(after.metadata.turn, 1);
    const again = await chat(careful, [asked, answered], { ...options, message: answered });
    assert.deepEqual(again.parts, after.parts, 'an answer that is sent again gets the same');
    const outcome = after.parts.find(({ type }) => type === 'dynamic-tool');
    assert.equal(outcome.state, approved ? 'output-available' : 'output-denied');
    assert.equal(after.parts.some(({ type }) => type === 'data-voice-session-start'), approved);
    assert.ok(words(after).length > before.length, 'the model goes on');
  }
});

test('who aborts is not answered, and the conversation goes on', async () => {
  const chatId = crypto.randomUUID();
  const abort = new AbortController();
  const transport = new DefaultChatTransport({ api: `${url}/api/chat` });
  const messages = [user('Tell me slowly')];
  const stream = await transport.sendMessages({ chatId, messages, trigger: 'submit-message', abortSignal: abort.signal });
  const reader = stream.getReader();
  while ((await reader.read()).value.type !== 'text-delta');
  abort.abort();
  await assert.rejects(async () => {
    while (!(await reader.read()).done);
  });
  for (;;) {
    const message = await chat(url, [user('Hello?')], { chatId }).catch((error) => error);
    if (!(message instanceof Error)) return assert.equal(words(message), 'Colin Archer did.');
    assert.match(message.message, /being answered/);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});

test('an error before the answer reaches the program in words', async () => {
  const error = await chat(url, [{ id: 'a', role: 'user', parts: [] }]).catch((problem) => problem);
  assert.match(error.message, /the message is empty/);
});

test('the official OpenAI SDK gets an answer, streamed and whole', async () => {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none' });
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Who designed the Fram?' },
  ];
  const whole = await client.chat.completions.create({ model: 'any', messages });
  assert.equal(whole.choices[0].message.content, 'Colin Archer did.');
  assert.equal(whole.usage.prompt_tokens, 200);
  const stream = await client.chat.completions.create({
    model: 'any',
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let usage;
  let reason;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    reason = chunk.choices[0]?.finish_reason ?? reason;
    usage = chunk.usage ?? usage;
  }
  assert.deepEqual([text, reason, usage.total_tokens], ['Colin Archer did.', 'stop', 214]);
  const gathered = await client.chat.completions.stream({ model: 'any', messages }).finalChatCompletion();
  assert.equal(gathered.choices[0].message.content, 'Colin Archer did.');
  const refused = await client.chat.completions.create({ model: 'any', messages: [] }).catch((problem) => problem);
  assert.equal(refused.status, 400);
  const models = await client.models.list();
  assert.equal(models.data.length, 1);
});
