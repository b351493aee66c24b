// The official JavaScript SDKs hold sessions against `windlass sim openai-realtime`. Owns what those SDKs must see; knows
// nothing of the simulator beyond its scripts. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { RealtimeAgent, RealtimeSession, tool } from '@openai/agents/realtime';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { z } from 'zod';
import { serve, within } from './simulator.mjs';

const MODEL = 'gpt-realtime-2.1';

// The SDK insists on wss; a plain connection is put beneath it.
async function realtime(script, apiKey = 'test-key') {
  const address = await serve('openai-realtime', script);
  const [host, port] = address.split(':');
  const client = new OpenAI({ apiKey, baseURL: `http://${address}/v1` });
  const socket = new OpenAIRealtimeWS(
    { model: MODEL, options: { createConnection: () => connect({ host, port: Number(port) }) } },
    client,
  );
  const events = [];
  const waiting = [];
  socket.on('event', (event) => {
    events.push(event);
    for (const check of waiting.splice(0)) check();
  });
  socket.on('error', () => {});
  const next = (type) =>
    within(
      new Promise((resolve) => {
        const check = () => {
          const at = events.findIndex((event) => event.type === type);
          if (at < 0) waiting.push(check);
          else resolve(events.splice(0, at + 1).pop());
        };
        check();
      }),
      `no ${type}`,
    );
  return { socket, next };
}

function tone(milliseconds, level) {
  const samples = new Int16Array(24 * milliseconds).map((_, at) => (at % 48 < 24 ? level : -level));
  return Buffer.from(samples.buffer).toString('base64');
}

test('the SDK opens a session, speaks, and hears an answer', async () => {
  const { socket, next } = await realtime('look.yaml');
  await next('session.created');
  socket.send({
    type: 'session.update',
    session: {
      type: 'realtime',
      audio: { input: { transcription: { model: 'gpt-4o-mini-transcribe' } } },
    },
  });
  const { session } = await next('session.updated');
  assert.equal(session.audio.output.format.rate, 24_000);
  for (const [milliseconds, level] of [[200, 0], [600, 6_000], [400, 0]]) {
    socket.send({ type: 'input_audio_buffer.append', audio: tone(milliseconds, level) });
  }
  await next('input_audio_buffer.speech_started');
  const heard = await next('conversation.item.input_audio_transcription.completed');
  assert.equal(heard.transcript, 'hello there');
  const done = await next('response.done');
  assert.equal(done.response.output[0].content[0].transcript, 'I hear you.');
  socket.close();
});

test('an agent runs its tools and speaks their results', async () => {
  const address = await serve('openai-realtime', 'look.yaml');
  const asked = [];
  const agent = new RealtimeAgent({
    name: 'Clerk',
    instructions: 'Be brief.',
    tools: [
      tool({
        name: 'lookup_order',
        description: 'Finds an order.',
        parameters: z.object({ number: z.string() }),
        execute: async ({ number }) => {
          asked.push(number);
          return `order ${number} is on its way`;
        },
      }),
    ],
  });
  const session = new RealtimeSession(agent, { transport: 'websocket', model: MODEL, tracingDisabled: true });
  const errors = [];
  session.on('error', (error) => errors.push(error));
  let heard = 0;
  session.on('audio', () => (heard += 1));
  const answered = new Promise((resolve) => {
    session.on('history_updated', (history) => {
      const said = history.flatMap((item) => item.content ?? []).map((part) => part.transcript ?? '');
      if (said.includes('Both are on their way.')) resolve();
    });
  });
  await session.connect({ apiKey: 'test-key', url: `ws://${address}/v1/realtime?model=${MODEL}` });
  session.sendMessage('Where are my orders?');
  await within(answered, 'the agent does not answer');
  assert.deepEqual(asked.sort(), ['17', '18']);
  assert.ok(heard > 0);
  assert.deepEqual(errors, []);
  session.close();
});
