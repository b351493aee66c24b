// The handlers in docs/tools.md that are written for Node: a webhook service that checks signatures with the official package,
// and a process with a package from npm. Owns what a call of each comes to. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
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
