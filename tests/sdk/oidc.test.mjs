// A real OpenID provider (npm's oidc-provider, on loopback) signs users in at `windlass serve`; and a table of tokens that must
// not. Owns who comes in with which token; what a session is let do is tested elsewhere. Needs WINDLASS_BINARY.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SignJWT, exportJWK, exportSPKI, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';
import { ended } from './simulator.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const AUDIENCE = 'https://agent.example/api';
const SECRET = 'a secret that the token endpoint is shown';
const processes = [];
const listeners = [];
let data;
let keys;
let issuer;
let url;

before(async () => {
  assert.ok(process.env.WINDLASS_BINARY, 'WINDLASS_BINARY names the windlass program');
  data = mkdtempSync(join(tmpdir(), 'windlass-oidc-'));
  keys = await generateKeyPair('RS256', { extractable: true });
  const port = await freePort();
  issuer = await startProvider(`http://127.0.0.1:${port}/auth/callback`);
  url = await serve('main', issuer, `client_id = "page"\npage_origin = "http://127.0.0.1:${port}"\ntenant_claim = "org"`, port);
});

after(async () => {
  await Promise.all(processes.map(ended));
  for (const listener of listeners) {
    listener.closeAllConnections();
    listener.close();
  }
  rmSync(data, { recursive: true, force: true });
});

async function listening(server) {
  listeners.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${server.address().port}`;
}

async function freePort() {
  const server = createServer();
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function startProvider(redirect) {
  let callback = () => {};
  const server = createServer((request, response) => callback(request, response));
  const address = await listening(server);
  const jwk = { ...(await exportJWK(keys.privateKey)), kid: 'first', use: 'sig', alg: 'RS256' };
  const about = { roles: ['staff', 'two words'], org: 'acme' };
  const provider = new Provider(address, {
    clients: [
      { client_id: 'page', token_endpoint_auth_method: 'none', redirect_uris: [redirect], application_type: 'native' },
      { client_id: 'program', client_secret: SECRET, grant_types: ['client_credentials'], response_types: [], redirect_uris: [] },
    ],
    jwks: { keys: [jwk] },
    cookies: { keys: ['a key for the cookies of a test'] },
    claims: { openid: ['sub', 'roles', 'org'] },
    conformIdTokenClaims: false,
    extraTokenClaims: () => about,
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, ...about }) }),
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: () => ({ scope: 'talk', audience: AUDIENCE, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
      },
    },
  });
  callback = provider.callback();
  return address;
}

/** Starts a server that believes this issuer, and says where it is. */
async function serve(name, at, more = '', port = 0) {
  const config = join(data, `${name}.toml`);
  writeFileSync(config, `[access.oidc]\nissuer = "${at}"\naudience = "${AUDIENCE}"\n${more}\n`);
  const flags = ['serve', '--listen', `127.0.0.1:${port}`, '--data', join(data, name), '--config', config];
  flags.push('--provider', 'demo', '--text-provider', 'demo');
  const server = spawn(process.env.WINDLASS_BINARY, flags, { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] });
  processes.push(server);
  const [line] = await once(createInterface({ input: server.stdout }), 'line');
  return /http:\/\/\S+/.exec(line)[0];
}

/** The status of a guarded answer to a caller with this token. */
async function status(token, at = url) {
  const answer = await fetch(`${at}/api/info`, { headers: { authorization: `Bearer ${token}` } });
  await answer.arrayBuffer();
  return answer.status;
}

/** The claims of a token that counts. */
const claims = () => {
  const now = Math.floor(Date.now() / 1000);
  return { iss: issuer, aud: AUDIENCE, sub: 'ada', org: 'acme', roles: ['staff'], iat: now, exp: now + 600 };
};

const signed = (payload, { key = keys.privateKey, header = {} } = {}) =>
  new SignJWT(payload).setProtectedHeader({ alg: 'RS256', kid: 'first', ...header }).sign(key);

const encoded = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');

test('a token that the provider gave lets its program in', async () => {
  const form = new URLSearchParams({ grant_type: 'client_credentials', resource: AUDIENCE, scope: 'talk' });
  const credentials = Buffer.from(`program:${encodeURIComponent(SECRET)}`).toString('base64');
  const headers = { authorization: `Basic ${credentials}` };
  const answer = await fetch(`${issuer}/token`, { method: 'POST', headers, body: form });
  const given = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(given));
  assert.equal(await status(given.access_token), 200);
  assert.equal(await status(''), 401);
});

test('a token of one resource opens no other one', async () => {
  const resource = 'https://agent.example/mcp';
  const at = await serve('mcp', issuer, `[mcp_server]\nenabled = true\nresource = "${resource}"`);
  const hello = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {} } };
  const ask = async (token) => {
    const headers = { 'content-type': 'application/json', accept: 'application/json', authorization: `Bearer ${token}` };
    const answer = await fetch(`${at}/mcp`, { method: 'POST', headers, body: JSON.stringify(hello) });
    await answer.arrayBuffer();
    return answer;
  };
  const [general, own] = [await signed(claims()), await signed({ ...claims(), aud: resource })];
  assert.deepEqual([(await ask(own)).status, (await ask(general)).status], [200, 401]);
  assert.deepEqual([await status(own, at), await status(general, at)], [401, 200]);
  const refused = (await ask(general)).headers.get('www-authenticate');
  const place = /resource_metadata="https:\/\/agent\.example([^"]+)"/.exec(refused)[1];
  const described = await (await fetch(`${at}${place}`)).json();
  assert.equal(described.resource, resource);
  assert.deepEqual(described.authorization_servers, [issuer]);
});

test('claims become user, tenant and roles', async () => {
  const token = await signed(claims());
  const ticket = async (wanted) => {
    const headers = { authorization: `Bearer ${token}` };
    const answer = await fetch(`${url}/api/tickets`, { method: 'POST', headers, body: JSON.stringify(wanted) });
    return [answer.status, await answer.json()];
  };
  assert.equal((await ticket({ user: 'eve' }))[0], 403);
  assert.equal((await ticket({ roles: ['manager'] }))[0], 403);
  const [given, { ticket: text }] = await ticket({ roles: ['staff'], mode: 'voice' });
  assert.equal(given, 200);
  const socket = new (await import('ws')).WebSocket(`${url.replace('http', 'ws')}/voice?ticket=${text}`, ['windlass'], { origin: url });
  const [message] = await once(socket, 'message');
  assert.equal(JSON.parse(message).clientId, 'user@acme:ada');
  assert.equal(socket.protocol, 'windlass');
  socket.terminate();
});

test('no corrupted token counts', async () => {
  const good = claims();
  const now = good.iat;
  const other = await generateKeyPair('RS256');
  const curve = await generateKeyPair('ES256');
  const whole = await signed(good);
  const [head, body, signature] = whole.split('.');
  const publicKey = await exportSPKI(keys.publicKey);
  const hmac = (secret) => {
    const text = `${encoded({ alg: 'HS256', kid: 'first', typ: 'JWT' })}.${encoded(good)}`;
    return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
  };
  const without = (name) => Object.fromEntries(Object.entries(good).filter(([claim]) => claim !== name));
  const table = {
    'no algorithm': `${encoded({ alg: 'none', kid: 'first' })}.${encoded(good)}.`,
    'no algorithm, written otherwise': `${encoded({ alg: 'NONE', kid: 'first' })}.${encoded(good)}.`,
    'no algorithm, with a signature': `${encoded({ alg: 'none', kid: 'first' })}.${encoded(good)}.${signature}`,
    'no signature': `${head}.${body}.`,
    'two parts': `${head}.${body}`,
    'the public key as a secret': hmac(publicKey),
    'the public key in another form as a secret': hmac((await exportJWK(keys.publicKey)).n),
    'another algorithm than its key': `${encoded({ alg: 'RS512', kid: 'first' })}.${body}.${signature}`,
    'another family of algorithms': await signed(good, { key: curve.privateKey, header: { alg: 'ES256' } }),
    'another key under the same id': await signed(good, { key: other.privateKey }),
    'an unknown key id': await signed(good, { header: { kid: 'second' } }),
    'its own key in its head': await signed(good, { key: other.privateKey, header: { kid: undefined, jwk: await exportJWK(other.publicKey) } }),
    'other claims under the same signature': `${head}.${encoded({ ...good, sub: 'eve' })}.${signature}`,
    'another audience': await signed({ ...good, aud: 'https://other.example' }),
    'a part of the audience': await signed({ ...good, aud: AUDIENCE.slice(0, -1) }),
    'no audience': await signed(without('aud')),
    'another issuer': await signed({ ...good, iss: 'https://evil.example' }),
    'the issuer in another spelling': await signed({ ...good, iss: `${issuer}/` }),
    'no issuer': await signed(without('iss')),
    expired: await signed({ ...good, iat: now - 900, exp: now - 300 }),
    'no end': await signed(without('exp')),
    'not valid yet': await signed({ ...good, nbf: now + 300 }),
    'no user': await signed(without('sub')),
    'a user of odd characters': await signed({ ...good, sub: 'a\u0000b' }),
    'no tenant': await signed(without('org')),
    'a tenant of odd characters': await signed({ ...good, org: 'a:b' }),
    'no JSON': `${head}.${encoded('{')}.${signature}`,
    'rubbish': 'x.y.z',
    'a key that looks like ours': `wlk_${randomUUID()}`,
  };
  assert.equal(await status(whole), 200, 'the whole one counts');
  const lists = await signed({ ...good, aud: ['https://other.example', AUDIENCE] });
  assert.equal(await status(lists), 200, 'one of several audiences');
  for (const [what, token] of Object.entries(table)) assert.equal(await status(token), 401, what);
  assert.equal(await status(whole), 200, 'and still does');
});

/** An issuer of our own, whose keys are answered by `answer(response, count)`. */
async function issuerThat(answer) {
  const count = { keys: 0 };
  let address;
  const server = createServer((request, response) => {
    if (request.url === '/keys') {
      count.keys += 1;
      answer(response);
      return;
    }
    response.end(JSON.stringify({ issuer: address, jwks_uri: `${address}/keys` }));
  });
  address = await listening(server);
  return [address, count];
}

test('an issuer that hangs, or sends too much, holds nobody else up', async () => {
  const hangs = () => {};
  const endless = (response) => {
    response.write('{"keys": [');
    const piece = `${' '.repeat(64 * 1024)}\n`;
    const more = () => {
      while (!response.destroyed && response.write(piece));
    };
    response.on('drain', more);
    more();
  };
  const tenMegabytes = (response) => response.end(JSON.stringify({ keys: [], padding: 'x'.repeat(10_000_000) }));
  const slow = (response) => {
    const timer = setInterval(() => response.write(' '), 100);
    response.on('close', () => clearInterval(timer));
  };
  const broken = (response) => response.end('<html>');
  for (const [name, answer] of Object.entries({ hangs, endless, tenMegabytes, slow, broken })) {
    const [address] = await issuerThat(answer);
    const at = await serve(name, address, 'answer_seconds = 1');
    const token = await signed({ ...claims(), iss: address });
    const asked = status(token, at);
    // Others are answered meanwhile.
    assert.equal((await fetch(`${at}/health`)).status, 200, name);
    assert.equal(await asked, 503, name);
    assert.equal(await status(`${token}x`, at), 503, name);
  }
});

test('keys are fetched when they are needed, and unknown ids ask for no more', async () => {
  const jwk = { ...(await exportJWK(keys.publicKey)), kid: 'first', use: 'sig', alg: 'RS256' };
  const secret = { kty: 'oct', k: encoded('a secret among public keys, long enough'), kid: 'secret', alg: 'HS256' };
  const [address, count] = await issuerThat((response) => response.end(JSON.stringify({ keys: [jwk, secret, { kty: 'new' }] })));
  const at = await serve('counted', address, 'refetch_seconds = 3600');
  const good = { ...claims(), iss: address };
  assert.equal(count.keys, 0);
  const token = await signed(good);
  assert.deepEqual(await Promise.all(Array.from({ length: 8 }, () => status(token, at))), Array(8).fill(200));
  for (let number = 0; number < 20; number += 1) {
    assert.equal(await status(await signed(good, { header: { kid: `unknown-${number}` } }), at), 401);
  }
  assert.equal(count.keys, 1);
  const text = `${encoded({ alg: 'HS256', kid: 'secret' })}.${encoded(good)}`;
  const hmac = createHmac('sha256', 'a secret among public keys, long enough').update(text).digest('base64url');
  assert.equal(await status(`${text}.${hmac}`, at), 401);
});

/** A browser, as far as redirections and cookies go. */
class Browser {
  #cookies = new Map();

  async visit(address, init = {}) {
    const { origin } = new URL(address);
    const jar = this.#cookies.get(origin) ?? new Map();
    this.#cookies.set(origin, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(address, { redirect: 'manual', ...init, headers: { cookie, ...init.headers } });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      if (value === '') jar.delete(name);
      else jar.set(name, value);
    }
    return answer;
  }

  /** Goes where it is sent, and fills in what the provider's pages ask, until it is back at the server. */
  async signIn(login) {
    let answer = await this.visit(`${url}/auth/login`);
    let at = `${url}/auth/login`;
    for (let steps = 0; steps < 20; steps += 1) {
      const next = answer.headers.get('location');
      if (next) {
        at = new URL(next, at).href;
        if (at.startsWith(`${url}/auth/callback`)) return at;
        answer = await this.visit(at);
        continue;
      }
      const page = await answer.text();
      const action = /<form[^>]*action="([^"]+)"/.exec(page)?.[1];
      assert.ok(action, `status ${answer.status}: ${page.slice(0, 400)}`);
      const prompt = /name="prompt" value="([^"]+)"/.exec(page)[1];
      const fields = prompt === 'login' ? { prompt, login, password: 'any' } : { prompt };
      at = new URL(action, at).href;
      answer = await this.visit(at, { method: 'POST', body: new URLSearchParams(fields) });
    }
    throw new Error('the provider never sends the browser back');
  }

  async session() {
    return (await this.visit(`${url}/api/session`)).json();
  }
}

test('a browser signs in at the provider and comes back with a cookie', async () => {
  const browser = new Browser();
  const before = await browser.session();
  assert.deepEqual([before.required, before.signedIn, before.signInAt], [true, false, 'auth/login']);
  const back = await browser.signIn('ada');
  const stranger = new Browser();
  for (const [who, address] of [
    [stranger, back],
    [browser, back.replace(/state=[^&]+/, 'state=0')],
    [browser, back.replace(/code=[^&]+/, 'error=access_denied')],
  ]) {
    const answer = await who.visit(address);
    assert.equal(answer.headers.get('location'), '/#sign-in-failed', address);
    assert.equal((await who.session()).signedIn, false, address);
  }
  const again = await browser.signIn('ada');
  const answer = await browser.visit(again);
  assert.equal(answer.status, 303);
  assert.equal(answer.headers.get('location'), '/');
  const cookie = answer.headers.getSetCookie().find((line) => line.startsWith('windlass_page='));
  assert.match(cookie, /HttpOnly; SameSite=Strict/);
  assert.equal((await browser.session()).signedIn, true);
  assert.equal((await browser.visit(`${url}/api/info`)).status, 200);
  const used = await browser.visit(again);
  assert.equal(used.headers.get('location'), '/#sign-in-failed', 'a code is good once');
});
