// The official JavaScript SDK holds sessions against `windlass sim gemini-live`. Owns what that SDK must see; knows
// nothing of the simulator beyond its scripts. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { FunctionResponseScheduling, GoogleGenAI, Modality } from '@google/genai';

const WAIT_MS = 10_000;
const MODEL = 'gemini-3.8-live';
const TOOLS = [
  {
    functionDeclarations: [
      {
        name: 'lookup_order',
        description: 'Finds an order by its number.',
        behavior: 'BLOCKING',
        parameters: {
          type: 'OBJECT',
          properties: { number: { type: 'STRING' } },
          required: ['number'],
        },
      },
      {
        name: 'make_report',
        description: 'Writes a report; takes a while.',
        behavior: 'NON_BLOCKING',
        parameters: { type: 'OBJECT', properties: { pages: { type: 'INTEGER' } } },
      },
    ],
  },
];

const servers = [];

async function serve(script) {
  const binary = process.env.WINDLASS_BINARY;
  assert.ok(binary, 'WINDLASS_BINARY names the windlass program');
  const path = fileURLToPath(new URL(`scripts/${script}`, import.meta.url));
  const server = spawn(binary, ['sim', 'gemini-live', '--listen', '127.0.0.1:0', '--script', path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  servers.push(server);
  const lines = createInterface({ input: server.stdout });
  const [line] = await within(once(lines, 'line'), 'the simulator does not say where it listens');
  const address = /^listening on ws:\/\/(\S+)$/.exec(line);
  assert.ok(address, `not an address: ${line}`);
  return `http://${address[1]}`;
}

after(() => {
  for (const server of servers) server.kill();
});

function within(promise, complaint) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${complaint} within ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// A session whose messages are looked at one after the other.
async function connect(baseUrl, config = {}, options = {}) {
  const client = new GoogleGenAI({
    apiKey: options.apiKey ?? 'test-key',
    httpOptions: { baseUrl, ...(options.apiVersion && { apiVersion: options.apiVersion }) },
  });
  const messages = [];
  const wakers = [];
  const wake = () => wakers.splice(0).forEach((waker) => waker());
  const closed = Promise.withResolvers
    ? Promise.withResolvers()
    : (() => {
        const deferred = {};
        deferred.promise = new Promise((resolve) => (deferred.resolve = resolve));
        return deferred;
      })();
  const opening = client.live.connect({
    model: options.model ?? MODEL,
    config: {
      responseModalities: [Modality.AUDIO],
      outputAudioTranscription: {},
      inputAudioTranscription: {},
      tools: TOOLS,
      ...config,
    },
    callbacks: {
      onmessage: (message) => {
        messages.push(message);
        wake();
      },
      onerror: () => {},
      onclose: (event) => closed.resolve({ code: event.code, reason: event.reason }),
    },
  });
  if (options.expectsClose) return { closed: within(closed.promise, 'no close') };
  const session = await within(opening, 'the session does not open');
  const next = async (complaint) => {
    while (messages.length === 0) {
      await within(new Promise((resolve) => wakers.push(resolve)), complaint);
    }
    return messages.shift();
  };
  return {
    session,
    closed: within.bind(null, closed.promise, 'no close'),
    // The first message that the reader makes something of.
    async until(read, complaint) {
      for (;;) {
        const found = read(await next(complaint));
        if (found !== undefined) return found;
      }
    },
    // Everything up to the end of the turn.
    async turn() {
      const turn = { said: '', heard: '', audioBytes: 0, calls: [], interrupted: false, generated: false };
      for (;;) {
        const message = await next('the turn does not end');
        turn.calls.push(...(message.toolCall?.functionCalls ?? []));
        const content = message.serverContent;
        if (!content) continue;
        turn.said += content.outputTranscription?.text ?? '';
        turn.heard += content.inputTranscription?.text ?? '';
        for (const part of content.modelTurn?.parts ?? []) {
          if (part.inlineData) {
            assert.equal(part.inlineData.mimeType, 'audio/pcm;rate=24000');
            turn.audioBytes += Buffer.from(part.inlineData.data, 'base64').length;
          }
        }
        turn.interrupted ||= Boolean(content.interrupted);
        turn.generated ||= Boolean(content.generationComplete);
        if (content.turnComplete) {
          turn.usage = message.usageMetadata;
          return turn;
        }
      }
    },
  };
}

const say = (text) => ({ turns: [{ role: 'user', parts: [{ text }] }], turnComplete: true });
const firstCall = (message) => message.toolCall?.functionCalls?.[0];

// Speech or silence as PCM: a square wave is as loud as a voice.
function pcm(milliseconds, level) {
  const samples = Buffer.alloc(32 * milliseconds);
  for (let index = 0; index < samples.length; index += 2) {
    samples.writeInt16LE(index % 64 < 32 ? level : -level, index);
  }
  return samples;
}

function stream(session, samples) {
  for (let start = 0; start < samples.length; start += 3200) {
    const data = samples.subarray(start, start + 3200).toString('base64');
    session.sendRealtimeInput({ audio: { data, mimeType: 'audio/pcm;rate=16000' } });
  }
}

const speak = (session) => stream(session, Buffer.concat([pcm(200, 3), pcm(600, 6000), pcm(1000, 3)]));

test('a session calls a tool and answers with sound and words', async () => {
  const baseUrl = await serve('session.yaml');
  for (const apiVersion of ['v1alpha', 'v1beta', 'v1']) {
    const { session, until, turn } = await connect(baseUrl, {}, { apiVersion });
    session.sendClientContent(say('Where is my order?'));
    const call = await until(firstCall, 'no call');
    assert.equal(call.name, 'lookup_order');
    assert.deepEqual(call.args, { number: 'A7' });
    assert.match(call.id, /^function-call-\d{1,20}$/);
    session.sendToolResponse({
      functionResponses: [{ id: call.id, name: call.name, response: { output: { status: 'shipped' } } }],
    });
    const answer = await turn();
    assert.equal(answer.said, 'Your order has been shipped.');
    assert.ok(answer.audioBytes > 10_000 && answer.generated && !answer.interrupted);
    assert.ok(answer.usage.totalTokenCount > 0);
    session.close();
  }
});

test('parallel calls of one message are told apart by id', async () => {
  const { session, until, turn } = await connect(await serve('session.yaml'));
  session.sendRealtimeInput({ text: 'both please' });
  const calls = await until((message) => message.toolCall?.functionCalls, 'no calls');
  assert.deepEqual(calls.map((call) => call.args.number), ['A7', 'B8']);
  assert.notEqual(calls[0].id, calls[1].id);
  for (const call of calls.toReversed ? calls.toReversed() : [...calls].reverse()) {
    session.sendToolResponse({ functionResponses: [{ id: call.id, name: call.name, response: { output: 1 } }] });
  }
  assert.equal((await turn()).said, 'Both are known.');
  session.close();
});

test('speech is heard, transcribed and answered', async () => {
  const { session, turn } = await connect(await serve('session.yaml'));
  speak(session);
  const answer = await turn();
  assert.equal(answer.heard, 'What time is it?');
  assert.equal(answer.said, 'It is noon.');
  session.close();
});

test('a result of a non-blocking call is voiced as its scheduling says', async () => {
  const baseUrl = await serve('session.yaml');
  for (const scheduling of [FunctionResponseScheduling.WHEN_IDLE, FunctionResponseScheduling.INTERRUPT]) {
    const { session, until, turn } = await connect(baseUrl);
    session.sendRealtimeInput({ text: 'the report' });
    const call = await until(firstCall, 'no call');
    assert.equal((await turn()).said, 'I am working on it.');
    session.sendRealtimeInput({ text: 'nice weather' });
    assert.equal((await turn()).said, 'You said: nice weather');
    session.sendToolResponse({
      functionResponses: [{ id: call.id, name: call.name, response: { output: { summary: 'all well' } }, scheduling }],
    });
    assert.equal((await turn()).said, 'The report says all well.');
    session.close();
  }
  const { session, until, turn } = await connect(baseUrl);
  session.sendRealtimeInput({ text: 'the report' });
  const call = await until(firstCall, 'no call');
  await turn();
  session.sendToolResponse({
    functionResponses: [
      { id: call.id, name: call.name, response: { output: { summary: 'quiet' } }, scheduling: FunctionResponseScheduling.SILENT },
    ],
  });
  session.sendRealtimeInput({ text: 'do you remember?' });
  assert.equal((await turn()).said, 'You mean quiet.');
  session.close();
});

test('a call is taken back by its id', async () => {
  const { session, until, turn } = await connect(await serve('session.yaml'));
  session.sendRealtimeInput({ text: 'I changed my mind' });
  const call = await until(firstCall, 'no call');
  const ids = await until((message) => message.toolCallCancellation?.ids, 'no cancellation');
  assert.deepEqual(ids, [call.id]);
  // A result that was on its way does no harm.
  session.sendToolResponse({ functionResponses: [{ id: call.id, name: call.name, response: { output: 1 } }] });
  assert.equal((await turn()).said, 'Never mind then.');
  session.close();
});

test('speech interrupts an answer and takes back a blocking call', async () => {
  const { session, until, turn } = await connect(await serve('talkative.yaml'));
  session.sendRealtimeInput({ text: 'a story' });
  await until((message) => message.serverContent?.modelTurn, 'no audio');
  speak(session);
  const cut = await turn();
  assert.ok(cut.interrupted && !cut.generated);
  assert.equal((await turn()).said, 'Yes?');
  session.sendRealtimeInput({ text: 'slow order' });
  const call = await until(firstCall, 'no call');
  speak(session);
  const ids = await until((message) => message.toolCallCancellation?.ids, 'no cancellation');
  assert.deepEqual(ids, [call.id]);
  session.close();
});

test('close codes and reasons reach the client', async () => {
  const baseUrl = await serve('session.yaml');
  const { session, closed } = await connect(baseUrl);
  session.sendRealtimeInput({ text: 'break' });
  assert.deepEqual(await closed(), { code: 1011, reason: 'Internal error occurred.' });
  // connect() itself never settles after these.
  for (const [config, options, code, reason] of [
    [{ responseModalities: [Modality.TEXT] }, {}, 1007, /^The requested combination of response modalities \(TEXT\)/],
    [{}, { model: 'gemini-none' }, 1008, /^models\/gemini-none is not found/],
    [{ thinkingConfig: { thinkingLevel: 'LOW' } }, {}, 1007, /^Thinking level is not supported/],
    [{ sessionResumption: { handle: 'gone' } }, {}, 1008, /session not found/],
    [{}, { apiKey: 'bad-key' }, 1006, /^$/],
  ]) {
    const refused = await connect(baseUrl, config, { ...options, expectsClose: true });
    const event = await refused.closed;
    assert.equal(event.code, code, JSON.stringify(event));
    assert.match(event.reason, reason);
  }
});

test('a session survives goAway through its handle', async () => {
  const baseUrl = await serve('session.yaml');
  const first = await connect(baseUrl, { sessionResumption: {} });
  const handleOf = (message) => message.sessionResumptionUpdate?.resumable && message.sessionResumptionUpdate.newHandle;
  first.session.sendRealtimeInput({ text: 'my name is Nora' });
  await first.turn();
  const handle = await first.until((message) => handleOf(message) || undefined, 'no handle');
  first.session.sendRealtimeInput({ text: 'leave' });
  assert.equal(await first.until((message) => message.goAway?.timeLeft, 'no goAway'), '0.200s');
  assert.equal((await first.closed()).code, 1011);
  const second = await connect(baseUrl, { sessionResumption: { handle } });
  assert.equal((await second.turn()).said, 'Welcome back. You said: my name is Nora');
  // While a socket holds the session, no other may take it.
  const third = await connect(baseUrl, { sessionResumption: { handle } }, { expectsClose: true });
  assert.equal((await third.closed).code, 1011);
  second.session.close();
});
