// The package for other people's pages, as they use it: its types are those of the AI SDK's `useChat`, and its transport holds a
// conversation with `windlass serve` from another origin. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { readUIMessageStream } from 'ai';
import { ChatTransport } from '../../clients/javascript/src/index.js';
import { startModel } from './model.mjs';
import { ended } from './simulator.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const MODULES = fileURLToPath(new URL('node_modules', import.meta.url));
let folder;

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'windlass-client-'));
});

after(() => rmSync(folder, { recursive: true, force: true }));

const PROGRAM = `
import type { ChatTransport as Transport, UIMessage } from 'ai';
import { ChatTransport, Conversations, rememberedSession, Server, Voice, WindlassError } from '@windlass/client';

const server = new Server({ url: 'https://agent.example.com/', ticket: async () => 'wlt_1' });
export const transport: Transport<UIMessage> = new ChatTransport({ server, body: { userId: 'ada' } });

const voice = new Voice({ server });
voice.on('transcript', ({ role, text, final }) => console.log(role.length, text.length, final === true));
voice.on('confirmation_request', ({ token, preview }) => voice.answer(token, preview !== null));
const off: () => void = voice.on('ended', ({ reason }) => console.log(reason === 'taken'));
// @ts-expect-error there is no such event
voice.on('transcripts', () => {});
// @ts-expect-error an answer is yes or no
voice.answer('token', 'yes');
voice.open(rememberedSession() ?? { conversationId: 'c' });

const { conversations, next } = await new Conversations({ server }).list({ search: 'ship' });
export const titles: (string | null)[] = conversations.map(({ title }) => title);
export const cursor: string | null = next;
export const status = (error: unknown): number => (error instanceof WindlassError ? error.status : 0);
off();
`;

/** What the examples of the README stand among. */
const AROUND = `
declare module '@ai-sdk/react' {
  export function useChat(options: { transport: import('ai').ChatTransport<import('ai').UIMessage>; resume?: boolean; sendAutomaticallyWhen?: (given: { messages: import('ai').UIMessage[] }) => boolean }): any;
}
declare const url: string;
declare const button: HTMLButtonElement;
`;

test('the types are those that useChat asks for, and wrong uses do not compile', () => {
  const modules = join(folder, 'node_modules');
  mkdirSync(join(modules, '@windlass'), { recursive: true });
  symlinkSync(join(ROOT, 'clients/javascript'), join(modules, '@windlass/client'));
  for (const name of ['ai', '@ai-sdk', '@types', 'zod', 'json-schema', '@standard-schema', 'undici-types']) symlinkSync(join(MODULES, name), join(modules, name));
  writeFileSync(join(folder, 'program.ts'), PROGRAM);
  writeFileSync(join(folder, 'around.d.ts'), AROUND);
  const readme = readFileSync(join(ROOT, 'clients/javascript/README.md'), 'utf8');
  const examples = [...readme.matchAll(/```js\n([^]*?)```/g)].map(([, code], at) => {
    const needs = ['ChatTransport', 'Voice'].filter((name) => code.includes(`new ${name}(`) && !code.includes('import'));
    const imports = needs.length > 0 ? `import { ${needs.join(', ')} } from '@windlass/client';\n` : '';
    writeFileSync(join(folder, `example-${at}.ts`), `${imports}${code}`);
    return `example-${at}.ts`;
  });
  assert.equal(examples.length, 4);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const settings = { target: 'es2022', module: 'nodenext', lib: ['es2023', 'dom', 'dom.iterable'], types: [], strict: true, noEmit: true };
  // What other packages declare is not ours to judge; what this one declares is looked at alone.
  for (const [name, files, skipLibCheck] of [
    ['program', ['program.ts', 'around.d.ts', ...examples], true],
    ['package', [join(modules, '@windlass/client/index.d.ts')], false],
  ]) {
    const project = join(folder, `${name}.json`);
    writeFileSync(project, JSON.stringify({ compilerOptions: { ...settings, skipLibCheck }, files }));
    const { stdout, status } = spawnSync(join(MODULES, '.bin/tsc'), ['--project', project], { encoding: 'utf8' });
    assert.equal(`${stdout}${status}`, '0', name);
  }
});

test('the transport holds a conversation with the server', async () => {
  assert.ok(process.env.WINDLASS_BINARY, 'WINDLASS_BINARY names the windlass program');
  const model = await startModel();
  const flags = ['serve', '--listen', '127.0.0.1:0', '--data', join(folder, 'data'), '--text-provider', 'openai', '--text-provider-url', model.url];
  const server = spawn(process.env.WINDLASS_BINARY, flags, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [line] = await once(createInterface({ input: server.stdout }), 'line');
    const transport = new ChatTransport({ url: /http:\/\/[^\s/]+/.exec(line)[0] });
    const chatId = crypto.randomUUID();
    const messages = [];
    for (const text of ['Who designed the Fram?', 'Thank you']) {
      messages.push({ id: crypto.randomUUID(), role: 'user', parts: [{ type: 'text', text }] });
      const stream = await transport.sendMessages({ chatId, messages, trigger: 'submit-message' });
      let message;
      const onError = (error) => {
        throw error;
      };
      for await (message of readUIMessageStream({ stream, onError }));
      messages.push(message);
    }
    assert.equal(messages[1].parts.find(({ type }) => type === 'text').text, 'Colin Archer did.');
    assert.equal(messages[1].parts.find(({ type }) => type === 'dynamic-tool').state, 'output-available');
    const told = model.seen.at(-1).messages.filter(({ role }) => role === 'user');
    assert.equal(told.length, 2, 'the server holds the conversation');
    assert.equal(await transport.reconnectToStream({ chatId: 'nobody' }), null);
  } finally {
    await ended(server);
    model.close();
  }
});
