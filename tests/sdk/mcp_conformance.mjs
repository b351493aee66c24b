// The official conformance suite against `windlass serve` at /mcp and against the client of `windlass mcp import` and `windlass call`.
// Owns which scenarios apply here, and why the others do not. It ends with 1 where one that applies fails. A scenario that this list
// does not know is run.
//
// Run by hand, with the suite installed apart, because it needs a newer Node than the other tests do:
//   WINDLASS_BINARY=… CONFORMANCE=…/conformance/dist/index.js node tests/sdk/mcp_conformance.mjs

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';

const REVISIONS = ['2025-11-25', '2026-07-28'];
const SCENARIO_MS = 60_000;

/** A red picture of one pixel. */
const DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';

/** Answers each call after so many seconds. */
const SLOW_WORKER = `import { createInterface } from 'node:readline';
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method !== 'execute') return;
  const answer = () => console.log(JSON.stringify({ id, result: { ok: true, data: 'computed' } }));
  setTimeout(answer, params.args.seconds * 1_000);
});
`;

const APPLIES = undefined;
const OTHER_CONTENT = 'wants a kind of content that no result or prompt here has';
const OTHER_ADDRESSES = 'wants resources under addresses of its own; here they are the records of the knowledge base';
const NO_ARGUMENTS = 'wants a prompt with arguments; here a prompt is the guide of a tool';
const NOT_OFFERED = 'tests a part of the protocol that is not declared here';
const STREAMS = 'tests resumption of streams, which is not offered';
const OWN_APPROVALS = 'wants a tool that asks its client for anything it likes; here the ledger alone asks, for an approval';
const DISCOVERS = 'wants a client that finds the authorization server by itself; here the configuration names it, with client id and scopes';
const OTHER_GRANTS = 'tests a grant or a proof that connections do not use';
const OTHER_SERVER = 'tests an extension that is not spoken here';
const ASKING_TASKS = 'wants a task that asks its client while it runs; here a person approves before there is a task';

// By the beginning of a scenario's name, the longest first.
const LEFT_OUT = {
  server: {
    'logging-set-level': NOT_OFFERED,
    'completion-complete': NOT_OFFERED,
    'tools-call-audio': OTHER_CONTENT,
    'tools-call-embedded-resource': OTHER_CONTENT,
    'tools-call-mixed-content': OTHER_CONTENT,
    'tools-call-with-logging': NOT_OFFERED,
    'tools-call-sampling': NOT_OFFERED,
    'elicitation-': OWN_APPROVALS,
    'input-required-result-': OWN_APPROVALS,
    // These look at the manner of a request for input, whatever it asks.
    'input-required-result-result-type': APPLIES,
    'input-required-result-missing-input-response': APPLIES,
    'input-required-result-tampered-state': APPLIES,
    'input-required-result-validate-input': APPLIES,
    // It looks at requests that are no calls of tools, and needs none of its own.
    'input-required-result-unsupported-methods': APPLIES,
    'input-required-result-capability-check': 'wants sampling in the place of a form; here a client without forms is told where a person approves',
    'input-required-result-ignore-extra-params': 'wants an answer to count without the requestState that it belongs to',
    'json-schema-2020-12': 'wants keywords at the top of a schema that model providers refuse there',
    'server-sse-polling': STREAMS,
    'resources-read-': OTHER_ADDRESSES,
    'resources-templates-': OTHER_ADDRESSES,
    'resources-subscribe': NOT_OFFERED,
    'resources-unsubscribe': NOT_OFFERED,
    'prompts-get-with-args': NO_ARGUMENTS,
    'prompts-get-embedded-resource': NO_ARGUMENTS,
    'prompts-get-with-image': OTHER_CONTENT,
    'http-custom-header-server-validation': 'wants a tool whose schema names headers',
    'tasks-mrtr-': ASKING_TASKS,
    'tasks-required-task-error': 'wants a tool that no client without tasks can call; here such a client waits for the end',
    'tasks-status-notifications': NOT_OFFERED,
    'sep-2640-': OTHER_SERVER,
  },
  client: {
    'elicitation-': 'wants a client that shows forms',
    'sse-retry': STREAMS,
    'auth/': DISCOVERS,
    // These begin where the authorization server is known.
    'auth/iss-': APPLIES,
    'auth/metadata-issuer-mismatch': APPLIES,
    'auth/pre-registration': APPLIES,
    'auth/token-endpoint-auth-': APPLIES,
    'auth/client-credentials-': OTHER_GRANTS,
    'auth/enterprise-managed-authorization': OTHER_GRANTS,
    'auth/dpop': OTHER_GRANTS,
    'auth/wif-jwt-bearer': OTHER_GRANTS,
    'sep-2640-': OTHER_SERVER,
    'sep-2322-client-request-state': 'wants a client that answers what a server asks for',
  },
};

/** Single checks of scenarios that apply, with the reason. */
const CHECKS_LEFT_OUT = {
  'sep-2575-server-rejects-undeclared-capability': 'wants a tool that needs sampling of its client',
  'sep-2575-missing-capability-http-400': 'wants a tool that needs sampling of its client',
  'sep-2663-tasks-get-status-failed': 'wants a tool that fails as the protocol does; here every failure of a tool is a result',
};

if (process.argv[2] === '--as-client') {
  await actAsClient(process.argv.at(-1));
} else {
  process.exitCode = await main();
}

async function main() {
  for (const name of ['WINDLASS_BINARY', 'CONFORMANCE']) {
    assert.ok(process.env[name], `${name} is to be set`);
  }
  const folder = mkdtempSync(join(tmpdir(), 'windlass-conformance-'));
  const known = listed(folder);
  const server = await serve(folder);
  const rows = [];
  try {
    for (const side of ['server', 'client']) {
      for (const { name, revisions } of known[side]) {
        const reason = whyLeftOut(side, name);
        for (const revision of tested(revisions)) {
          rows.push({ side, name, revision, ...(reason ? { reason } : run(folder, side, name, revision, server.url)) });
        }
        if (tested(revisions).length === 0) {
          rows.push({ side, name, revision: revisions.join(','), reason: reason ?? 'is of no revision that is tested here' });
        }
      }
    }
  } finally {
    server.process.kill();
    await once(server.process, 'exit');
    rmSync(folder, { recursive: true, force: true });
  }
  for (const { side, name, revision, reason, passed, warnings, but, words } of rows) {
    const exceptions = but?.map((check) => `, but for ${check}, which ${CHECKS_LEFT_OUT[check]}`).join('') ?? '';
    const outcome = reason ? `left out: ${reason}` : passed ? `passed, ${warnings} warnings${exceptions}` : `FAILED\n${words}`;
    console.log(`${side} ${revision} ${name}: ${outcome}`);
  }
  const ran = rows.filter((row) => !row.reason);
  const failed = ran.filter((row) => !row.passed);
  console.log(`${ran.length - failed.length} of ${ran.length} passed, ${rows.length - ran.length} left out`);
  return failed.length === 0 && ran.length > 0 ? 0 : 1;
}

function suite(folder, ...flags) {
  return spawnSync(process.execPath, [process.env.CONFORMANCE, ...flags], {
    cwd: folder,
    encoding: 'utf8',
    timeout: SCENARIO_MS,
  });
}

function listed(folder) {
  const known = { server: [], client: [] };
  let side;
  for (const line of suite(folder, 'list').stdout.split('\n')) {
    const heading = /^(Server|Client|Authorization server) scenarios/.exec(line);
    if (heading) {
      side = heading[1].toLowerCase();
    }
    const row = /^\s+- (\S+) \[(.+)\]/.exec(line);
    if (row && known[side]) {
      known[side].push({ name: row[1], revisions: row[2].split(',') });
    }
  }
  assert.ok(known.server.length > 0 && known.client.length > 0, 'the suite lists its scenarios');
  return known;
}

/** The revisions in which a scenario is run. Extensions are those of the newest. */
function tested(revisions) {
  return revisions.includes('extension') ? REVISIONS.slice(-1) : revisions.filter((revision) => REVISIONS.includes(revision));
}

function whyLeftOut(side, name) {
  const beginnings = Object.entries(LEFT_OUT[side]).filter(([beginning]) => name.startsWith(beginning));
  return beginnings.sort(([one], [other]) => other.length - one.length)[0]?.[1];
}

function run(folder, side, name, revision, url) {
  // Extensions are of no revision, so that the suite leaves them out unless it is forced.
  const about = ['--scenario', name, '--spec-version', revision, ...(side === 'server' ? ['--force'] : [])];
  const way =
    side === 'server'
      ? ['--url', url]
      : ['--command', `${process.execPath} ${fileURLToPath(import.meta.url)} --as-client`];
  const { status, stdout, stderr } = suite(folder, side, ...way, ...about);
  const warnings = /(\d+) warnings/.exec(stdout)?.[1] ?? '0';
  const checks = [...stripVTControlCharacters(stdout).matchAll(/\[(\S+)\s*\] FAILURE /g)].map(([, check]) => check);
  const but = checks.filter((check) => CHECKS_LEFT_OUT[check]);
  const isRun = !`${stdout}${stderr}`.includes('SKIPPED: scenario');
  const passed = isRun && (status === 0 || (but.length > 0 && but.length === checks.length));
  return { passed, warnings, but, words: `${stdout}${stderr}` };
}

/** A project with the fixtures of the suite that a project can have, served. */
async function serve(folder) {
  const settings = '[mcp_server]\nenabled = true\nassume_external_content = false\n[handlers]\nprocesses = true\n';
  const project = projectIn(folder, 'served', settings);
  const done = 'return { ok: true, data: "done" };';
  const asks = { sideEffects: 'writes', idempotent: false, requiresConfirmation: true };
  const message = { type: 'string', description: 'What the user reads' };
  const takes = (properties) => ({ parameters: { type: 'object', additionalProperties: false, properties } });
  const text = { type: 'string', maxLength: 100 };
  const fixtures = {
    test_simple_text: ['return { ok: true, data: "This is a simple text response for testing." };'],
    test_error_handling: ['throw new Error("This tool intentionally returns an error for testing");'],
    test_tool_with_progress: [`for (const part of [0, 0.5, 1]) { args.context.progress("on its way", part); } ${done}`],
    test_image_content: [`return { ok: true, data: { picture: "data:image/png;base64,${DOT}" } };`],
    // Its guide is the prompt.
    test_simple_prompt: [done],
    test_logging_tool: [done],
    test_streaming_elicitation: [done, asks],
    test_input_required_result_elicitation: [done, asks],
    test_input_required_result_tampered_state: [done, asks],
    test_elicitation: [
      done,
      { ...asks, parameters: { type: 'object', additionalProperties: false, required: ['message'], properties: { message } } },
    ],
  };
  const background = { behavior: 'background', sideEffects: 'read_only' };
  Object.assign(fixtures, {
    greet: ['return { ok: true, data: `Hello, ${args.args.name}!` };', takes({ name: text })],
    failing_job: ['throw new Error("This job fails");', background],
    // A task that asks is asked about before it begins.
    confirm_delete: [done, { ...asks, ...takes({ filename: text }), behavior: 'background' }],
  });
  for (const [name, [body, more]] of Object.entries(fixtures)) {
    writeTool(project, name, body, more);
  }
  const seconds = { type: 'integer', minimum: 0, maximum: 60 };
  writeWorker(project, 'slow_compute', SLOW_WORKER, { ...background, ...takes({ seconds, label: text }) });
  const running = await started(project);
  return { process: running.process, url: new URL('/mcp', running.url).href };
}

function writeTool(project, name, body, more = {}) {
  const directory = join(project, 'tools', name.replaceAll('_', '-'));
  mkdirSync(directory, { recursive: true });
  const schema = {
    toolId: name,
    version: '1.0.0',
    description: 'A fixture of the conformance suite.',
    category: 'utility',
    sideEffects: 'none',
    idempotent: true,
    requiresConfirmation: false,
    allowedModes: ['text'],
    latencyBudgetMs: 1_000,
    parameters: { type: 'object', additionalProperties: false, properties: {} },
    ...more,
  };
  writeFileSync(join(directory, 'schema.json'), JSON.stringify(schema));
  writeFileSync(join(directory, 'guide.md'), `# ${name}\n\nA fixture of the conformance suite.\n`);
  writeFileSync(join(directory, 'handler.js'), `export async function execute(args) { ${body} }\n`);
}

/** A tool whose handler is a process, because scripts have no timers. */
function writeWorker(project, name, source, more) {
  writeTool(project, name, '', more);
  const directory = join(project, 'tools', name.replaceAll('_', '-'));
  rmSync(join(directory, 'handler.js'));
  writeFileSync(join(directory, 'worker.mjs'), source);
  const handler = { kind: 'process', command: [process.execPath, 'worker.mjs'], concurrency: 16 };
  writeFileSync(join(directory, 'handler.json'), JSON.stringify(handler));
}

async function started(project) {
  const flags = ['serve', '--listen', '127.0.0.1:0', '--provider', 'demo', '--text-provider', 'demo'];
  const running = spawn(process.env.WINDLASS_BINARY, flags, { cwd: project, stdio: ['ignore', 'pipe', 'inherit'] });
  const began = once(createInterface({ input: running.stdout }), 'line');
  const [line] = await Promise.race([began, once(running, 'exit').then(() => assert.fail('the server ends before it listens'))]);
  return { process: running, url: /http:\/\/\S+/.exec(line)[0] };
}

function projectIn(folder, name, configuration) {
  const project = join(folder, name);
  for (const inner of ['tools', 'kb']) {
    mkdirSync(join(project, inner), { recursive: true });
  }
  writeFileSync(join(project, 'windlass.toml'), configuration);
  return project;
}

/** What the suite starts as the client: connects a user, or imports the suite's server and calls each of its tools once. */
async function actAsClient(url) {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-conformance-client-'));
  if (process.env.MCP_CONFORMANCE_SCENARIO?.startsWith('auth/')) {
    try {
      await connect(folder, url);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
    return;
  }
  const say = (...flags) => {
    const { status, stdout, stderr } = spawnSync(process.env.WINDLASS_BINARY, flags, { cwd: folder, encoding: 'utf8', timeout: 20_000 });
    process.stderr.write(`${flags.join(' ')}: ${status}\n${stdout}${stderr}`);
    return status;
  };
  try {
    projectIn(folder, '.', '');
    say('mcp', 'import', '--name', 'peer', url.replace('//localhost:', '//127.0.0.1:'));
    for (const tool of readdirSync(join(folder, 'tools'))) {
      const path = join(folder, 'tools', tool, 'schema.json');
      const schema = JSON.parse(readFileSync(path, 'utf8'));
      // Nobody is here whom a tool could ask; a person has read what these do.
      const handlerPath = join(folder, 'tools', tool, 'handler.json');
      const handler = { ...JSON.parse(readFileSync(handlerPath, 'utf8')), reviewed: true };
      writeFileSync(handlerPath, JSON.stringify(handler));
      writeFileSync(path, JSON.stringify({ ...schema, requiresConfirmation: false }));
      say('call', schema.toolId, JSON.stringify(argumentsOf(schema.parameters, wanted(folder, handler.tool))));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Registers a client by hand where a scenario has no other way, as an operator does. */
async function registered(issuer) {
  const { name, client_id, client_secret } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
  if (client_id || !process.env.MCP_CONFORMANCE_SCENARIO.includes('token-endpoint-auth')) {
    return { client_id: client_id ?? 'conformance', client_secret };
  }
  const found = await (await fetch(`${issuer}/.well-known/oauth-authorization-server`)).json();
  const asked = { client_name: name ?? 'Windlass', application_type: 'web', redirect_uris: ['http://127.0.0.1/connections/callback/peer'] };
  const headers = { 'Content-Type': 'application/json' };
  const made = await fetch(found.registration_endpoint, { method: 'POST', headers, body: JSON.stringify(asked) });
  return made.json();
}

/** Writes the configuration as an operator would who has read the service's metadata, and follows the link to connect as a browser does. */
async function connect(folder, url) {
  const service = new URL(url);
  const metadata = await (await fetch(new URL(`/.well-known/oauth-protected-resource${service.pathname}`, service))).json();
  const issuer = metadata.authorization_servers[0];
  const client = await registered(issuer);
  const secret = client.client_secret ? `client_secret = "${client.client_secret}"` : '';
  const project = projectIn(
    folder,
    '.',
    `[server]
user_header = "X-User"
[connections.peer]
title = "Peer"
issuer = "${issuer}"
resource = "${metadata.resource}"
client_id = "${client.client_id}"
hosts = ["${service.host}"]
${secret}
`,
  );
  // No project is without a tool.
  writeTool(project, 'idle', 'return { ok: true };');
  const running = await started(project);
  try {
    const listed = await fetch(new URL('/api/connections', running.url), { headers: { 'X-User': 'ada' } });
    let next = new URL((await listed.json()).connections[0].connectUrl, running.url);
    let cookie = '';
    for (let steps = 0; next && steps < 5; steps += 1) {
      const own = next.origin === new URL(running.url).origin ? { 'X-User': 'ada', Cookie: cookie } : {};
      const answer = await fetch(next, { headers: own, redirect: 'manual' });
      cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? cookie;
      process.stderr.write(`${next}: ${answer.status} ${await answer.text()}\n`);
      next = answer.headers.has('location') ? new URL(answer.headers.get('location'), next) : undefined;
    }
  } finally {
    running.process.kill();
    await once(running.process, 'exit');
  }
}

/** The arguments that a scenario asks its client to use, where it does. */
function wanted(folder, tool) {
  if (tool === 'json_schema_echo') {
    // It is given the schema of the other tool, as it was kept when that was imported.
    const others = readdirSync(join(folder, 'tools')).filter((name) => name !== 'json-schema-echo');
    const kept = JSON.parse(readFileSync(join(folder, 'tools', others[0], 'imported.json'), 'utf8'));
    return { schema: kept.definition.inputSchema };
  }
  const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
  const call = (context.toolCalls ?? []).find(({ name }) => name === tool);
  return call?.arguments ?? {};
}

function argumentsOf({ properties = {}, required = [] }, chosen) {
  const values = { string: 'us-west1', integer: 3, number: 3, boolean: true, array: [], object: {} };
  const usual = required.map((name) => [name, properties[name].enum?.[0] ?? values[[properties[name].type].flat()[0]]]);
  return { ...Object.fromEntries(usual), ...chosen };
}
