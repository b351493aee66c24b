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

const REVISIONS = ['2025-11-25', '2026-07-28'];
const SCENARIO_MS = 60_000;

const APPLIES = undefined;
const FIXED_CONTENT = 'wants tools, prompts or resources that answer with a kind of content, or under addresses, that no project of ours has';
const NOT_OFFERED = 'tests a part of the protocol that is not declared here';
const STREAMS = 'tests resumption of streams, which is not offered';
const OWN_APPROVALS = 'wants a tool that asks its client for anything it likes; here the ledger alone asks, for an approval';
const OAUTH = 'tests signing in for a user, which this client does not do';
const OTHER_SERVER = 'tests an extension that is not spoken here';

// By the beginning of a scenario's name, the longest first.
const LEFT_OUT = {
  server: {
    'logging-set-level': NOT_OFFERED,
    'completion-complete': NOT_OFFERED,
    'tools-call-image': FIXED_CONTENT,
    'tools-call-audio': FIXED_CONTENT,
    'tools-call-embedded-resource': FIXED_CONTENT,
    'tools-call-mixed-content': FIXED_CONTENT,
    'tools-call-with-logging': NOT_OFFERED,
    'tools-call-sampling': NOT_OFFERED,
    'tools-call-elicitation': OWN_APPROVALS,
    'elicitation-': OWN_APPROVALS,
    'input-required-result-': OWN_APPROVALS,
    // It looks at requests that are no calls of tools, and needs none of its own.
    'input-required-result-unsupported-methods': APPLIES,
    'json-schema-2020-12': 'wants a schema with definitions and references, which tools here do not have',
    'server-sse-polling': STREAMS,
    'resources-read-': FIXED_CONTENT,
    'resources-templates-': FIXED_CONTENT,
    'resources-subscribe': NOT_OFFERED,
    'resources-unsubscribe': NOT_OFFERED,
    'prompts-get-': FIXED_CONTENT,
    'http-custom-header-server-validation': 'wants a tool whose schema names headers',
    'tasks-': OTHER_SERVER,
    'sep-2640-': OTHER_SERVER,
  },
  client: {
    'elicitation-': 'wants a client that shows forms',
    'sse-retry': STREAMS,
    'auth/': OAUTH,
    'sep-2640-': OTHER_SERVER,
    'sep-2322-client-request-state': 'wants a client that answers what a server asks for',
  },
};

if (process.argv[2] === '--as-client') {
  actAsClient(process.argv.at(-1));
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
        for (const revision of revisions.filter((revision) => REVISIONS.includes(revision))) {
          rows.push({ side, name, revision, ...(reason ? { reason } : run(folder, side, name, revision, server.url)) });
        }
        if (!revisions.some((revision) => REVISIONS.includes(revision))) {
          rows.push({ side, name, revision: revisions.join(','), reason: reason ?? 'is of no revision that is tested here' });
        }
      }
    }
  } finally {
    server.process.kill();
    await once(server.process, 'exit');
    rmSync(folder, { recursive: true, force: true });
  }
  for (const { side, name, revision, reason, passed, warnings, words } of rows) {
    const outcome = reason ? `left out: ${reason}` : passed ? `passed, ${warnings} warnings` : `FAILED\n${words}`;
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

function whyLeftOut(side, name) {
  const beginnings = Object.entries(LEFT_OUT[side]).filter(([beginning]) => name.startsWith(beginning));
  return beginnings.sort(([one], [other]) => other.length - one.length)[0]?.[1];
}

function run(folder, side, name, revision, url) {
  const about = ['--scenario', name, '--spec-version', revision];
  const way =
    side === 'server'
      ? ['--url', url]
      : ['--command', `${process.execPath} ${fileURLToPath(import.meta.url)} --as-client`];
  const { status, stdout, stderr } = suite(folder, side, ...way, ...about);
  const warnings = /(\d+) warnings/.exec(stdout)?.[1] ?? '0';
  return { passed: status === 0, warnings, words: `${stdout}${stderr}` };
}

/** A project with the fixtures of the suite that a project can have, served. */
async function serve(folder) {
  const project = projectIn(folder, 'served', '[mcp_server]\nenabled = true\nassume_external_content = false\n');
  const fixtures = {
    test_simple_text: 'return { ok: true, data: "This is a simple text response for testing." };',
    test_error_handling: 'throw new Error("This tool intentionally returns an error for testing");',
    test_tool_with_progress:
      'for (const part of [0, 0.5, 1]) { args.context.progress("on its way", part); } return { ok: true, data: "done" };',
  };
  for (const [name, body] of Object.entries(fixtures)) {
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
    };
    writeFileSync(join(directory, 'schema.json'), JSON.stringify(schema));
    writeFileSync(join(directory, 'guide.md'), `# ${name}\n\nA fixture of the conformance suite.\n`);
    writeFileSync(join(directory, 'handler.js'), `export async function execute(args) { ${body} }\n`);
  }
  const flags = ['serve', '--listen', '127.0.0.1:0', '--provider', 'demo', '--text-provider', 'demo'];
  const running = spawn(process.env.WINDLASS_BINARY, flags, { cwd: project, stdio: ['ignore', 'pipe', 'inherit'] });
  const began = once(createInterface({ input: running.stdout }), 'line');
  const [line] = await Promise.race([began, once(running, 'exit').then(() => assert.fail('the server ends before it listens'))]);
  return { process: running, url: new URL('/mcp', /http:\/\/\S+/.exec(line)[0]).href };
}

function projectIn(folder, name, configuration) {
  const project = join(folder, name);
  for (const inner of ['tools', 'kb']) {
    mkdirSync(join(project, inner), { recursive: true });
  }
  writeFileSync(join(project, 'windlass.toml'), configuration);
  return project;
}

/** What the suite starts as the client: imports the suite's server, and calls each of its tools once. */
function actAsClient(url) {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-conformance-client-'));
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

/** The arguments that a scenario asks its client to use, where it does. */
function wanted(folder, tool) {
  if (tool === 'json_schema_echo') {
    // It is given the schema of the other tool, as it was kept when that was imported.
    const others = readdirSync(join(folder, 'tools')).filter((name) => name !== 'json-schema-echo');
    const kept = JSON.parse(readFileSync(join(folder, 'tools', others[0], 'imported.json'), 'utf8'));
    return { schema: kept.inputSchema };
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
