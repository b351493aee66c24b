// Runs handler.mjs beside it as a worker of Windlass: JSON-RPC 2.0, one message a line, on standard input and output.
//
//   handler.json   { "kind": "process", "command": ["node", "windlass.mjs"] }
//   handler.mjs    export async function execute({ args, context }) { return { ok: true, data: … }; }
//
// A handler may import { ToolError, ErrorType, IntentType } from './windlass.mjs'. What it prints goes to the server's log.

import { Console } from 'node:console';
import { pathToFileURL } from 'node:url';

export const ErrorType = Object.freeze(
  Object.fromEntries(
    [
      'VALIDATION', 'NOT_FOUND', 'SESSION_INACTIVE', 'SESSION_ACTIVE', 'TRANSIENT', 'PERMANENT', 'RATE_LIMIT', 'AUTH',
      'CONFLICT', 'INTERNAL',
    ].map((name) => [name, name]),
  ),
);

export const IntentType = Object.freeze(
  Object.fromEntries(
    ['END_VOICE_SESSION', 'SUPPRESS_AUDIO', 'SUPPRESS_TRANSCRIPT', 'SET_PENDING_MESSAGE', 'SET_STATE'].map((name) => [name, name]),
  ),
);

// What a handler throws to say how a call failed. Options: retryable, partialSideEffects, suggestion, details, retryAfterMs,
// retryAfter (seconds), maxRetries, idempotencyRequired.
export class ToolError extends Error {
  constructor(type, message, options = {}) {
    super(message);
    this.name = 'ToolError';
    this.type = type;
    this.options = options;
  }
}

// What the server refuses within a call. An error of the contract fails the call as it is, where the handler does not catch it.
function refusal({ message, code, data }) {
  const { type, retryable, suggestion, details } = data ?? {};
  const error = type ? new ToolError(type, message, { retryable, suggestion, details }) : new Error(message);
  return Object.assign(error, { code: data?.code ?? code });
}

const write = process.stdout.write.bind(process.stdout);
const open = new Map(); // calls that run, by their id
const asked = new Map(); // what they wait for, by the id of the request
let lastId = 0;
const NOBODY_WAITS = 'nobody waits for the call any more';

function send(message) {
  write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

// A call that has worked stays so where its answer cannot be written: the server is told that, and why the rest is missing.
function answer(id, result) {
  const { ok, ...rest } = result ?? { ok: true };
  try {
    send({ id, result: { ok, ...rest } });
  } catch (error) {
    if (ok !== true) throw error;
    send({ id, result: { ok, meta: { problem: String(error?.message ?? error) } } });
  }
}

// Asks the server for something within a call.
function ask(call, method, params) {
  const id = `w${++lastId}`;
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve, reject });
    send({ id, method, params: { ...params, call } });
  });
}

// Shows a piece of a result. The call goes on without one that JSON cannot write.
function show(call, piece) {
  try {
    const data = JSON.stringify(piece ?? null);
    if (data === undefined) throw new TypeError(`JSON cannot hold a ${typeof piece}`);
    write(`{"jsonrpc":"2.0","method":"output","params":{"data":${data},"call":${JSON.stringify(call)}}}\n`);
  } catch (error) {
    console.error(`a piece was left out: ${error?.message ?? error}`);
  }
}

function contextOf(call, given, signal) {
  const say = (method, params) => send({ method, params: { ...params, call } });
  return Object.freeze({
    ...given.context,
    args: given.args,
    getState: () => given.context.session?.state?.values ?? {},
    signal,
    voice: { isActive: () => given.context.voice.isActive },
    messaging: { send: (message) => ask(call, 'messaging.send', { message }) },
    audit: { log: (event, data) => say('audit.log', { event, data }) },
    events: { emit: (name, payload) => say('events.emit', { name, payload }) },
    output: (piece) => {
      // A change that has begun goes on.
      if (signal.aborted && !given.context.effectId) throw new Error(NOBODY_WAITS);
      show(call, piece);
    },
    progress: (message, fraction) => say('progress', { message, fraction }),
    kb: {
      search: (query) => ask(call, 'kb.search', query),
      get: (id, options = {}) => ask(call, 'kb.get', { id, ...options }),
    },
    secret: (name) => ask(call, 'secret', { name }),
    connection: (name) => ask(call, 'connection', { name }),
    blocks: { add: (block) => ask(call, 'blocks.add', block) },
    callTool: (id, args = {}) => ask(call, 'callTool', { id, args }),
    http: { fetch: (url, options) => fetchWithin(call, url, options) },
  });
}

// A request to a host of the allow-list, made by the server. The answer is a Response.
async function fetchWithin(call, url, { method, headers, body, redirect } = {}) {
  const isText = body === undefined || typeof body === 'string';
  const answer = await ask(call, 'http.fetch', {
    url: String(url),
    method,
    headers: Object.fromEntries(new Headers(headers)),
    body: isText ? body : undefined,
    bodyBase64: isText ? undefined : Buffer.from(body).toString('base64'),
    redirect,
  });
  const hasNone = [204, 205, 304].includes(answer.status);
  const content = answer.bodyBase64 ? Buffer.from(answer.bodyBase64, 'base64') : answer.body;
  return new Response(hasNone ? null : content, { status: answer.status, headers: answer.headers });
}

// What a generator yields are pieces of the result, and what it returns is the answer.
async function drained(pieces, { output, signal, effectId }) {
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) return value;
    const piece = await value;
    if (signal.aborted && !effectId) {
      await pieces.return?.();
      throw new Error(NOBODY_WAITS);
    }
    output(piece);
  }
}

async function run(execute, id, given) {
  const cancellation = new AbortController();
  open.set(id, cancellation);
  try {
    const context = contextOf(id, given, cancellation.signal);
    // Both forms are taken: execute({ args, context }), and execute(context) with context.args.
    const result = await execute({ ...context, args: given.args, context });
    answer(id, typeof result?.next === 'function' ? await drained(result, context) : result);
  } catch (error) {
    if (error instanceof ToolError || error?.name === 'ToolError') {
      const { type, message, options = {} } = error;
      send({ id, result: { ok: false, error: { ...options, type, message } } });
    } else {
      console.error(error);
      send({ id, error: { code: -32000, message: String(error?.message ?? error) } });
    }
  } finally {
    open.delete(id);
  }
}

function take(execute, line) {
  const { id, method, params, result, error } = JSON.parse(line);
  if (method === 'execute') {
    run(execute, id, params);
  } else if (method === '$/cancel') {
    open.get(params.id)?.abort();
  } else if (asked.has(id)) {
    const { resolve, reject } = asked.get(id);
    asked.delete(id);
    if (error) reject(refusal(error));
    else resolve(result);
  }
}

// Serves calls with a function until the server closes the input.
export function serve(execute) {
  // Only messages belong on standard output.
  process.stdout.write = process.stderr.write.bind(process.stderr);
  globalThis.console = new Console(process.stderr, process.stderr);
  // An error that nobody caught is of one call, and other calls go on.
  for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, (error) => console.error(error));
  // A line ends with \n alone: other separators may stand in its texts.
  let begun = [];
  process.stdin.on('data', (bytes) => {
    let start = 0;
    for (let end; (end = bytes.indexOf(10, start)) >= 0; start = end + 1) {
      const line = Buffer.concat([...begun, bytes.subarray(start, end)]).toString();
      begun = [];
      if (line.trim()) take(execute, line);
    }
    if (start < bytes.length) begun.push(bytes.subarray(start));
  });
  process.stdin.on('end', () => process.exit(0));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const file = process.argv[2] ?? 'handler.mjs';
  // Not awaited here: the handler may import this file, which has to be loaded by then.
  import(pathToFileURL(file).href).then(({ execute }) => {
    if (typeof execute !== 'function') throw new Error(`${file} exports no function execute`);
    serve(execute);
  });
}
