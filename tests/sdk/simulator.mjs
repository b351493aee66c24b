// Runs the simulators for the tests with JavaScript SDKs. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';

const WAIT_MS = 10_000;
const SCRIPTS = fileURLToPath(new URL('scripts', import.meta.url));
const servers = [];

after(() => Promise.all(servers.map(ended)));

// Ends a program, and waits until it is gone: one that still shuts down writes to the folder that a test would remove.
export async function ended(program) {
  const gone = program.exitCode === null && program.signalCode === null ? once(program, 'exit') : undefined;
  program.kill();
  await gone;
}

// The host and port of a new simulator of this provider. Scripts are named as files of scripts/, or by a path from the root; without
// one the demo model answers.
export async function serve(provider, script) {
  const binary = process.env.WINDLASS_BINARY;
  assert.ok(binary, 'WINDLASS_BINARY names the windlass program');
  const arguments_ = ['sim', provider, '--listen', '127.0.0.1:0'];
  if (script) {
    arguments_.push('--script', resolve(SCRIPTS, script));
  }
  const server = spawn(binary, arguments_, { stdio: ['ignore', 'pipe', 'inherit'] });
  servers.push(server);
  const lines = createInterface({ input: server.stdout });
  const [line] = await within(once(lines, 'line'), 'the simulator does not say where it listens');
  const address = /^listening on \w+:\/\/(\S+)$/.exec(line);
  assert.ok(address, `not an address: ${line}`);
  return address[1];
}

export function within(promise, complaint) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${complaint} within ${WAIT_MS} ms`)), WAIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
