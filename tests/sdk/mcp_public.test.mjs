// Public MCP servers, which others have written, as tools of a project: each is imported into a fresh project, and a model calls a
// tool that reads and one that writes, by text and by voice. Owns the way from the import to the effect in the world; the servers
// and their tools are in public_servers.mjs. Needs WINDLASS_BINARY, and no network.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { SERVERS } from './public_servers.mjs';
import { ended, serve, within } from './simulator.mjs';
import { chat, user, words } from './use_chat.mjs';
import { startVoice } from './voice.mjs';

const MODULES = fileURLToPath(new URL('node_modules', import.meta.url));
const VERSIONS = JSON.parse(readFileSync(new URL('package.json', import.meta.url))).devDependencies;
const LOOK = 'Please look.';
const WRITE = 'Please write.';
const APPROVED = 'The user approved the call';
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';

// Runs within each server before its own code, and keeps what it is sent. It runs within npx, too, which leaves its input to the server.
const RECORDER = `
import { appendFileSync } from 'node:fs';
const { stdin } = process;
const emit = stdin.emit;
stdin.emit = (name, ...values) => {
  if (name === 'data') appendFileSync(new URL('received', import.meta.url), values[0]);
  return emit.call(stdin, name, ...values);
};
`;

for (const server of SERVERS) {
  test(`${server.package}: its tools are imported, and called by text and by voice`, () => check(server));
}

async function check(server) {
  const project = new Project(server);
  try {
    project.import();
    const script = project.write('script.yaml', JSON.stringify(exchanges(server)));
    await project.serve(await serve('gemini-live', script), await serve('openai', script));
    await byText(project, server);
    await byVoice(project, server);
    const calls = project.received('tools/call');
    assert.equal(calls.length, server.writes ? 4 : 2, 'each call ran once');
    for (const { params } of calls) assert.equal(params._meta?.[VERSION_KEY], server.version);
  } finally {
    await project.end();
  }
}

/** A folder of its own with a new project, and the programs that run in it. */
class Project {
  #server;
  #folder = mkdtempSync(join(tmpdir(), 'windlass-public-'));
  #running;
  #environment;
  url;

  constructor(server) {
    this.#server = server;
    // Where npx finds the package, so that it downloads nothing.
    symlinkSync(MODULES, this.at('node_modules'));
    const recorder = this.write('recorder.mjs', RECORDER);
    const [variable, place] = server.variable ?? [];
    const keys = { WINDLASS_TEXT_API_KEY: 'test', GEMINI_API_KEY: 'test' };
    this.#environment = { ...process.env, ...keys, NODE_OPTIONS: `--import ${pathToFileURL(recorder)}` };
    if (variable) this.#environment[variable] = this.at(place);
    for (const [file, content] of Object.entries(server.files ?? {})) this.write(file, content);
    this.#run('init', '.');
  }

  at = (place) => join(this.#folder, place);

  write(place, content) {
    mkdirSync(dirname(this.at(place)), { recursive: true });
    writeFileSync(this.at(place), content);
    return this.at(place);
  }

  #run(...args) {
    const options = { cwd: this.#folder, env: this.#environment, encoding: 'utf8' };
    const { status, stdout, stderr } = spawnSync(process.env.WINDLASS_BINARY, args, options);
    assert.equal(status, 0, `windlass ${args.join(' ')}: ${stdout}${stderr}`);
    return { printed: stdout.trimEnd().split('\n'), told: stderr.trimEnd().split('\n') };
  }

  import() {
    const { package: name, behind = [], variable: [variable] = [], tools, silent, says, reviewed = [] } = this.#server;
    const variables = ['NODE_OPTIONS', variable].filter(Boolean).flatMap((given) => ['--env', given]);
    const { printed, told } = this.#run('mcp', 'import', ...variables, 'npx', '--offline', '-y', `${name}@${VERSIONS[name]}`, ...behind);
    assert.equal(printed.filter((line) => line.startsWith('wrote tools/')).length, tools, printed.join('\n'));
    for (const pattern of says) assert.ok([...printed, ...told].some((line) => pattern.test(line)), `${pattern}\n${told.join('\n')}`);
    assert.ok(!told.some((line) => line.includes('speaks to the model')), told.join('\n'));
    const imported = this.#tools().filter(({ handler }) => handler.server === this.#server.name);
    assert.equal(imported.length, tools);
    assert.deepEqual(imported.filter(({ schema }) => !schema.requiresConfirmation).map(({ schema }) => schema.toolId).sort(), silent);
    assert.ok(imported.every(({ schema }) => schema.reach === 'external'));
    for (const { folder, schema, handler } of imported.filter(({ schema }) => reviewed.includes(schema.toolId))) {
      this.write(join(folder, 'handler.json'), JSON.stringify({ ...handler, reviewed: true }));
      this.write(join(folder, 'schema.json'), JSON.stringify({ ...schema, sideEffects: 'read_only', requiresConfirmation: false }));
    }
    this.#run('check');
  }

  #tools() {
    const read = (...place) => {
      const file = this.at(join(...place));
      return readdirSync(dirname(file)).includes(place.at(-1)) ? JSON.parse(readFileSync(file, 'utf8')) : {};
    };
    return readdirSync(this.at('tools')).map((name) => {
      const folder = join('tools', name);
      return { folder, schema: read(folder, 'schema.json'), handler: read(folder, 'handler.json') };
    });
  }

  async serve(voice, text) {
    const flags = ['serve', '-q', '--listen', '127.0.0.1:0', '--provider', 'gemini-live', '--provider-url', `ws://${voice}`];
    flags.push('--text-provider', 'openai', '--text-provider-url', `http://${text}/v1`);
    const options = { cwd: this.#folder, env: this.#environment, stdio: ['ignore', 'pipe', 'inherit'] };
    this.#running = spawn(process.env.WINDLASS_BINARY, flags, options);
    const lines = createInterface({ input: this.#running.stdout });
    const [line] = await within(once(lines, 'line'), 'the server is not ready');
    this.url = /http:\/\/\S+/.exec(line)[0];
  }

  /** What the server was sent of this method, whenever it ran. */
  received(method) {
    const messages = readFileSync(this.at('received'), 'utf8').trimEnd().split('\n').map((line) => JSON.parse(line));
    return messages.filter((message) => message.method === method);
  }

  async end() {
    if (this.#running) await ended(this.#running);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The script of both simulated models: they call as they are asked to, and then repeat what came back. */
function exchanges({ reads, writes }) {
  const call = (name, { args }) => [{ call: { name, args } }, 'expect_response', { say: '{result}' }];
  // What is said is not understood, so that its place in the session decides.
  const both = (asked, turn, { tool, text, voice }) => [
    { when: { text: asked }, do: call(tool, text) },
    { when: { speech: asked }, turn, do: call(tool, voice) },
  ];
  return {
    settings: { speed: 0, await_playback: false },
    exchanges: [
      { when: { text: APPROVED }, do: [{ say: '{heard}' }] },
      ...both(LOOK, 1, reads),
      ...(writes ? both(WRITE, 2, writes) : []),
    ],
  };
}

/** Whether this is the data that is expected: the value, or what its text matches. */
function is(data, expected) {
  if (expected instanceof RegExp) assert.match(typeof data === 'string' ? data : JSON.stringify(data), expected);
  else assert.deepEqual(data, expected);
}

/** The data of the result in what the model is told of an approved call. */
function told(text) {
  const result = new RegExp(`${APPROVED}.* Its result: (.*\\}) `, 's').exec(text);
  assert.ok(result, text);
  return JSON.parse(result[1]).data;
}

async function byText(project, { reads, writes }) {
  const { url } = project;
  const chatId = crypto.randomUUID();
  const call = ({ parts }) => parts.find(({ type }) => type === 'dynamic-tool');
  const look = user(LOOK);
  const answer = await chat(url, [look], { chatId });
  assert.equal(call(answer).state, 'output-available', JSON.stringify(answer.parts));
  is(call(answer).output, reads.text.data);
  is(JSON.parse(words(answer)).data, reads.text.data);
  if (!writes) return;
  const { text } = writes;
  const write = user(WRITE);
  const request = await chat(url, [look, answer, write], { chatId });
  assert.equal(call(request).state, 'approval-requested', JSON.stringify(request.parts));
  assert.equal(JSON.parse(words(request)).error.type, 'CONFIRMATION_REQUIRED');
  assert.equal(project.received('tools/call').length, 1, 'nothing is written before the approval');
  Object.assign(call(request), { state: 'approval-responded', approval: { ...call(request).approval, approved: true } });
  const messages = [look, answer, write, structuredClone(request)];
  const done = await chat(url, messages, { chatId, message: structuredClone(request) });
  is(call(done).output, text.data);
  is(told(words(done)), text.data);
  const again = await chat(url, messages, { chatId, message: structuredClone(request) });
  assert.deepEqual(again.parts, done.parts, 'an approval that is sent again brings the same');
  if (text.seen) assert.deepEqual(text.seen(project.at), text.is);
}

async function byVoice(project, { reads, writes }) {
  const session = await startVoice(project.url, crypto.randomUUID());
  const said = async (who) => (await session.next('transcript', ({ role, final }) => role === who && final)).text;
  session.speak();
  assert.equal(await said('user'), LOOK);
  is(JSON.parse(await said('assistant')).output.data, reads.voice.data);
  await session.next('turn_complete');
  if (writes) {
    const { voice } = writes;
    const before = project.received('tools/call').length;
    session.speak();
    assert.equal(await said('user'), WRITE);
    const { tool, args, token } = await session.next('confirmation_request');
    assert.deepEqual({ tool, args }, { tool: writes.tool, args: voice.args });
    assert.equal(JSON.parse(await said('assistant')).error.type, 'CONFIRMATION_REQUIRED');
    await session.next('turn_complete');
    assert.equal(project.received('tools/call').length, before, 'nothing is written before the approval');
    for (const isAgain of [false, true]) {
      session.send({ type: 'confirm', token, approved: true });
      const { response } = await session.next('confirmation_result');
      is(response.data, voice.data);
      if (!isAgain) is(told(await said('assistant')), voice.data);
    }
    if (voice.seen) assert.deepEqual(voice.seen(project.at), voice.is);
  }
  await session.stop();
}
