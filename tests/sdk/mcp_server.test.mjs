// The official MCP clients use the tools of `windlass serve` at /mcp and of `windlass mcp serve`: that of the revision without
// sessions, and that of the older ones. Owns that they get along; what the ledger makes of a call is tested elsewhere. Needs
// WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as OlderStdioTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as OlderHttpTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { ended } from './simulator.mjs';

const processes = [];
let folder;
let url;

before(async () => {
  assert.ok(process.env.WINDLASS_BINARY, 'WINDLASS_BINARY names the windlass program');
  folder = mkdtempSync(join(tmpdir(), 'windlass-mcp-'));
  tool('say', { sideEffects: 'none', requiresConfirmation: false }, { said: { type: 'string' } });
  tool('keep', { sideEffects: 'writes', category: 'action', requiresConfirmation: true }, { said: { type: 'string' } });
  mkdirSync(join(folder, 'kb'));
  writeFileSync(join(folder, 'kb', 'fram.md'), '# Fram\n\nA ship.\n');
  writeFileSync(join(folder, 'windlass.toml'), '[mcp_server]\nenabled = true\n');
  const flags = ['serve', '--listen', '127.0.0.1:0', '--provider', 'demo', '--text-provider', 'demo'];
  const server = spawn(process.env.WINDLASS_BINARY, flags, { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
  processes.push(server);
  const [line] = await once(createInterface({ input: server.stdout }), 'line');
  url = new URL('/mcp', /http:\/\/\S+/.exec(line)[0]);
});

after(async () => {
  await Promise.all(processes.map(ended));
  rmSync(folder, { recursive: true, force: true });
});

function tool(name, more, properties) {
  const directory = join(folder, 'tools', name);
  mkdirSync(directory, { recursive: true });
  const schema = {
    toolId: name,
    version: '1.0.0',
    description: 'Says it.',
    category: 'utility',
    idempotent: true,
    allowedModes: ['text'],
    latencyBudgetMs: 1_000,
    parameters: { type: 'object', additionalProperties: false, required: ['text'], properties: { text: { type: 'string' } } },
    responseSchema: { type: 'object', required: ['said'], properties },
    ...more,
  };
  writeFileSync(join(directory, 'schema.json'), JSON.stringify(schema));
  writeFileSync(join(directory, 'guide.md'), '# Say\n\nSays it.\n');
  writeFileSync(
    join(directory, 'handler.js'),
    'export async function execute({ args, context }) { context.progress("half", 0.5); return { ok: true, data: { said: args.text } }; }\n',
  );
}

const about = { name: 'test', version: '1.0.0' };
const capabilities = { elicitation: { form: {} } };

function newer() {
  const client = new Client(about, { capabilities, versionNegotiation: { mode: { pin: '2026-07-28' } } });
  const asked = [];
  client.setRequestHandler('elicitation/create', async ({ params }) => {
    asked.push(params.message);
    return { action: 'accept', content: { approve: true } };
  });
  return { client, asked };
}

function older() {
  const client = new OlderClient(about, { capabilities });
  const asked = [];
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    asked.push(params.message);
    return { action: 'accept', content: { approve: true } };
  });
  return { client, asked };
}

// In a folder of its own, because the server has the other one.
function program(name) {
  const args = ['mcp', 'serve', '--data', join(folder, name)];
  return { command: process.env.WINDLASS_BINARY, args, cwd: folder, stderr: 'ignore' };
}

const WAYS = {
  'the revision without sessions over HTTP': [newer, () => new StreamableHTTPClientTransport(url)],
  'the revision without sessions over a pipe': [newer, () => new StdioClientTransport(program('newer'))],
  'a session over HTTP': [older, () => new OlderHttpTransport(url)],
  'a session over a pipe': [older, () => new OlderStdioTransport(program('older'))],
};

for (const [way, [make, transport]] of Object.entries(WAYS)) {
  test(`${way}: lists, calls, and asks its user`, async () => {
    const { client, asked } = make();
    await client.connect(transport());
    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name);
    assert.deepEqual([names.includes('keep'), names.includes('say')], [true, true]);
    const said = await client.callTool({ name: 'say', arguments: { text: 'hi' } });
    assert.deepEqual(said.structuredContent, { said: 'hi' });
    assert.deepEqual(asked, []);
    const kept = await client.callTool({ name: 'keep', arguments: { text: way } });
    assert.deepEqual(kept.structuredContent, { said: way });
    assert.equal(asked.length, 1);
    assert.match(asked[0], /May this call run\?/);
    const again = await client.callTool({ name: 'keep', arguments: { text: way } });
    assert.deepEqual(again.structuredContent, { said: way });
    assert.equal(again._meta['dev.windlass/replayed'], true);
    assert.equal(asked.length, 1, 'nobody is asked about what was done');
    const wrong = await client.callTool({ name: 'say', arguments: { text: 1 } });
    assert.equal(wrong.isError, true);
    await assert.rejects(client.callTool({ name: 'no_such', arguments: {} }), { code: -32602 });
    const { prompts } = await client.listPrompts();
    assert.ok(prompts.some(({ name }) => name === 'say'));
    const { messages } = await client.getPrompt({ name: 'say' });
    assert.match(messages[0].content.text, /# Say/);
    const { resources } = await client.listResources();
    assert.equal(resources.length, 1);
    const { contents } = await client.readResource({ uri: resources[0].uri });
    assert.match(contents[0].text, /A ship/);
    await client.close();
  });
}
