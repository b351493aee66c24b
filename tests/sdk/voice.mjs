// A voice client of `windlass serve`, as docs/voice-protocol.md has it: speaks, and waits for messages. Its voice is a tone, since
// the simulators do not understand words either.

import WebSocket from 'ws';
import { within } from './simulator.mjs';

const FRAME_BYTES = 3_200;

/** Opens a session of this conversation at the server. */
export async function startVoice(url, conversationId) {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/voice`);
  const messages = [];
  const waiting = [];
  const wake = () => waiting.splice(0).forEach((resolve) => resolve());
  socket.on('message', (data, isBinary) => {
    if (!isBinary) messages.push(JSON.parse(data));
    wake();
  });
  // A connection that fails delivers nothing, which is what the wait then says.
  socket.on('error', () => {});
  const send = (message) => socket.send(JSON.stringify(message));
  /** The first message of this type that fits, of those that nothing has waited for. */
  const next = (type, fits = () => true) => {
    const taken = async () => {
      for (;;) {
        const at = messages.findIndex((message) => message.type === type && fits(message));
        if (at >= 0) return messages.splice(at, 1)[0];
        await new Promise((resolve) => waiting.push(resolve));
      }
    };
    return within(taken(), `no ${type}`);
  };
  await next('connected');
  send({ type: 'start', conversationId });
  await next('started');
  return {
    send,
    next,
    speak() {
      const sound = Buffer.concat([tone(200, 3), tone(600, 6_000), tone(1_000, 3)]);
      for (let start = 0; start < sound.length; start += FRAME_BYTES) socket.send(sound.subarray(start, start + FRAME_BYTES));
    },
    async stop() {
      send({ type: 'stop' });
      await next('stopped');
      socket.close();
    },
  };
}

/** Speech or silence at 16 kHz: a square wave is as loud as a voice. */
function tone(milliseconds, level) {
  const samples = new Int16Array(16 * milliseconds).map((_, at) => (at % 32 < 16 ? level : -level));
  return Buffer.from(samples.buffer);
}
