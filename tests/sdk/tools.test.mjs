// The handlers in docs/tools.md that are written for Node: a webhook service that checks signatures with the official package,
// and a process with a package from npm. Owns what a call of each comes to. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { ended } from './simulator.mjs';

const HERE = import.meta.dirname;
const ROOT = join(HERE, '../..');
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const document = await readFile(join(ROOT, 'docs/tools.md'), 'utf8');
// Beside node_modules, so that a handler finds its packages.
const folder = await mkdtemp(join(HERE, 'tools-'));
const programs = [];

after(async () => {
  await Promise.all(programs.map(ended));
  await rm(folder, { recursive: true });
});

// The block of the document in this language that holds this text.
function block(language, text) {
  const blocks = document.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm'));
  const found = [...blocks].map(([, inside]) => inside).find((inside) => inside.includes(text));
  assert.ok(found, `no ${language} block with ${text}`);
  return found;
}

async function tool(name, parameter, files) {
  const directory = join(folder, name, 'tools', name);
  await mkdir(directory, { recursive: true });
  const schema = {
    toolId: name.replaceAll('-', '_'),
    version: '1.0.0',
    description: 'Does one thing.',
    category: 'utility',
    sideEffects: 'none',
    idempotent: true,
    requiresConfirmation: false,
    allowedModes: ['text'],
    latencyBudgetMs: 2_000,
    parameters: {
      type: 'object',
      additionalProperties: false,
      required: [parameter],
      properties: { [parameter]: { type: 'string' } },
    },
  };
  await writeFile(join(directory, 'schema.json'), JSON.stringify(schema));
  await writeFile(join(directory, 'guide.md'), '# A tool\n\nDoes one thing.\n');
  for (const [file, text] of Object.entries(files)) await writeFile(join(directory, file), text);
  return directory;
}

// The answer to one call, as `windlass call` prints it.
function call(name, args, environment = {}) {
  const base = join(folder, name);
  const arguments_ = ['call', name.replaceAll('-', '_'), JSON.stringify(args), '--kb', join(ROOT, 'kb')];
  const options = { cwd: base, env: { ...process.env, ...environment } };
  return new Promise((resolve, reject) => {
    execFile(process.env.WINDLASS_BINARY, arguments_, options, (_, stdout, stderr) => {
      try {
        resolve(JSON.parse(stdout));
      } catch {
        reject(new Error(`${stdout}\n${stderr}`));
      }
    });
  });
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

async function listening(port) {
  for (;;) {
    const is = await fetch(`http://127.0.0.1:${port}/`).then(() => true, () => false);
    if (is) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test('a webhook of twenty lines checks the signature with the official package and answers', async () => {
  const port = await freePort();
  const service = block('js', 'standardwebhooks');
  assert.ok(service.trim().split('\n').length <= 20);
  const hook = block('json', '"webhook"').replace('9001', String(port));
  const directory = await tool('order-state', 'order', { 'handler.json': hook });
  await writeFile(join(directory, '../../service.mjs'), service);
  await writeFile(join(folder, 'order-state/windlass.toml'), `[secrets.SHOP_WEBHOOK]\nhosts = ["127.0.0.1:${port}"]\n`);
  const environment = { SHOP_WEBHOOK: SECRET, WINDLASS_SECRET_SHOP_WEBHOOK: SECRET, PORT: String(port) };
  const program = spawn('node', [join(folder, 'order-state/service.mjs')], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  programs.push(program);
  await listening(port);
  const found = await call('order-state', { order: '4711' }, environment);
  assert.deepEqual(found.data, { state: 'on its way' });
  const missing = await call('order-state', { order: '1' }, environment);
  assert.equal(missing.error.type, 'NOT_FOUND');
  const forged = { ...environment, WINDLASS_SECRET_SHOP_WEBHOOK: 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' };
  const refused = await call('order-state', { order: '4711' }, forged);
  assert.equal(refused.error.type, 'AUTH');
});

// What windlass.mjs writes for one call of a handler, which is cancelled once its first line has come.
async function spoken(name, execute, { effectId = null } = {}) {
  const directory = join(folder, name);
  await mkdir(directory);
  await writeFile(join(directory, 'handler.mjs'), `export ${execute}`);
  await cp(join(ROOT, 'crates/app/src/adapters/windlass.mjs'), join(directory, 'windlass.mjs'));
  const program = spawn(process.execPath, ['windlass.mjs'], { cwd: directory });
  programs.push(program);
  let log = '';
  program.stderr.on('data', (bytes) => (log += bytes));
  const context = { voice: { isActive: false }, effectId };
  program.stdin.write(`${JSON.stringify({ id: 7, method: 'execute', params: { args: {}, context } })}\n`);
  const lines = [];
  for await (const line of createInterface({ input: program.stdout })) {
    lines.push(JSON.parse(line));
    if (lines.length === 1) program.stdin.write(`${JSON.stringify({ method: '$/cancel', params: { id: 7 } })}\n`);
    if (lines.at(-1).id === 7) program.stdin.end();
  }
  return { lines, log };
}

test('a piece that JSON cannot write is left out, which the log says, and its call goes on', async () => {
  const { lines, log } = await spoken(
    'odd-pieces',
    `async function* execute({ output }) {
      const around = {};
      around.itself = around;
      for (const piece of [1n, around, () => 1]) output(piece);
      yield 2n;
      yield 'one';
      return { ok: true };
    }`,
    { effectId: 'e-1' },
  );
  const data = lines.filter(({ method }) => method === 'output').map(({ params }) => [params.call, params.data]);
  assert.deepEqual(data, [[7, 'one']]);
  assert.deepEqual(lines.at(-1), { jsonrpc: '2.0', id: 7, result: { ok: true } });
  assert.equal(log.match(/a piece was left out: /g).length, 4);
});

test('a call that shows pieces ends when nobody waits for it, and a change goes on', async () => {
  const until = (end) => `async function* execute({ signal }) {
    for (;;) {
      yield 'one';
      await new Promise((resolve) => setTimeout(resolve, 1));
      ${end}
    }
  }`;
  const read = await spoken('endless-read', until(''));
  assert.deepEqual(read.lines.at(-1).error, { code: -32000, message: 'nobody waits for the call any more' });
  const change = await spoken('long-change', until("if (signal.aborted) return { ok: true, data: 'whole' };"), { effectId: 'e-1' });
  assert.deepEqual(change.lines.at(-1).result, { ok: true, data: 'whole' });
});

test('a process runs a handler that uses a package from npm', async () => {
  const directory = await tool('page-name', 'title', {
    'handler.json': block('json', '"process"'),
    'handler.mjs': block('js', 'slugify'),
  });
  await cp(join(ROOT, 'crates/app/src/adapters/windlass.mjs'), join(directory, 'windlass.mjs'));
  await writeFile(join(directory, '../../windlass.toml'), block('toml', 'processes = true'));
  const named = await call('page-name', { title: 'Où est le Fram?' });
  assert.deepEqual(named.data, { name: 'ou-est-le-fram', mode: 'text' });
  const long = await call('page-name', { title: 'x'.repeat(101) });
  assert.deepEqual([long.error.type, long.error.message], ['VALIDATION', 'the title is too long']);
});
