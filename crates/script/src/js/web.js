// What handlers know from browsers and from Node, as far as a handler needs it. Evaluated in a context when its first name is
// used. Addresses, UTF-8 and randomness are the host's; everything else is here.
export default (function (native, request, call) {
  const { stringify } = JSON;
  const PIECE_BYTES = 65_536;

  class DOMException extends Error {
    constructor(message = '', name = 'Error') {
      super(message);
      this.name = name;
    }
  }

  class Event {
    constructor(type, init = {}) {
      Object.assign(this, init);
      this.type = String(type);
    }
  }

  class EventTarget {
    #listeners = new Map();

    addEventListener(type, listener, options) {
      const once = typeof options === 'object' && options !== null && options.once === true;
      const known = this.#listeners.get(type) ?? [];
      if (!known.some((other) => other.listener === listener)) this.#listeners.set(type, [...known, { listener, once }]);
    }

    removeEventListener(type, listener) {
      this.#listeners.set(type, (this.#listeners.get(type) ?? []).filter((other) => other.listener !== listener));
    }

    dispatchEvent(event) {
      for (const { listener, once } of this.#listeners.get(event.type) ?? []) {
        if (once) this.removeEventListener(event.type, listener);
        if (typeof listener === 'function') listener.call(this, event);
        else listener?.handleEvent?.(event);
      }
      this[`on${event.type}`]?.(event);
      return true;
    }
  }

  class AbortSignal extends EventTarget {
    aborted = false;
    reason = undefined;
    onabort = null;

    throwIfAborted() {
      if (this.aborted) throw this.reason;
    }

    static abort(reason) {
      const signal = new AbortSignal();
      abort(signal, reason);
      return signal;
    }

    static timeout(milliseconds) {
      const signal = new AbortSignal();
      setTimeout(() => abort(signal, new DOMException('the time is over', 'TimeoutError')), milliseconds);
      return signal;
    }

    static any(signals) {
      const any = new AbortSignal();
      for (const signal of signals) {
        if (signal.aborted) abort(any, signal.reason);
        else signal.addEventListener('abort', () => abort(any, signal.reason), { once: true });
      }
      return any;
    }
  }

  function abort(signal, reason = new DOMException('the operation was aborted', 'AbortError')) {
    if (signal.aborted) return;
    signal.aborted = true;
    signal.reason = reason;
    signal.dispatchEvent(new Event('abort'));
  }

  class AbortController {
    signal = new AbortSignal();

    abort(reason) {
      abort(this.signal, reason);
    }
  }

  // The signal of the call itself, from when the handler first asks for it.
  let signal;
  function ofCall() {
    if (!signal) {
      signal = new AbortSignal();
      if (call.aborted()) abort(signal);
      else call.listen(() => abort(signal));
    }
    return signal;
  }

  const FIELDS = ['href', 'origin', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'];
  const PARTS = Symbol('parts');

  class URL {
    #parameters;

    constructor(url, base) {
      const parts = native.urlParse(String(url), base === undefined ? undefined : String(base));
      if (!parts) throw Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input: String(url) });
      this[PARTS] = parts;
    }

    static canParse(url, base) {
      return native.urlParse(String(url), base === undefined ? undefined : String(base)) !== undefined;
    }

    static parse(url, base) {
      return URL.canParse(url, base) ? new URL(url, base) : null;
    }

    get searchParams() {
      return (this.#parameters ??= new URLSearchParams(this.search, (text) => set(this, 'search', text)));
    }

    toString() {
      return this.href;
    }

    toJSON() {
      return this.href;
    }
  }

  function set(url, name, value) {
    const parts = native.urlSet(url[PARTS][0], name, value);
    if (parts) url[PARTS] = parts;
    else if (name === 'href') throw new TypeError('Invalid URL');
  }

  FIELDS.forEach((name, index) => {
    Object.defineProperty(URL.prototype, name, {
      get() {
        return this[PARTS][index];
      },
      set(value) {
        if (name !== 'origin') set(this, name, String(value));
        if (name === 'search' || name === 'href') this.searchParams[RESET](this.search);
      },
      configurable: true,
      enumerable: true,
    });
  });

  const RESET = Symbol('reset');
  const decode = (part) => {
    try {
      return decodeURIComponent(part.replaceAll('+', ' '));
    } catch {
      return part;
    }
  };
  const encode = (part) => encodeURIComponent(part).replace(/%20/g, '+').replace(/[!'()~]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);

  class URLSearchParams {
    #pairs = [];
    #changed;

    constructor(init = '', changed = () => {}) {
      this.#changed = typeof changed === 'function' ? changed : () => {};
      if (typeof init === 'object' && init !== null) {
        const entries = init[Symbol.iterator] ? [...init] : Object.entries(init);
        this.#pairs = entries.map(([name, value]) => [String(name), String(value)]);
      } else {
        this[RESET](String(init));
      }
    }

    [RESET](text) {
      const parts = text.replace(/^\?/, '').split('&').filter((part) => part !== '');
      this.#pairs = parts.map((part) => {
        const at = part.indexOf('=');
        return at < 0 ? [decode(part), ''] : [decode(part.slice(0, at)), decode(part.slice(at + 1))];
      });
    }

    #change(pairs) {
      this.#pairs = pairs;
      this.#changed(this.toString());
    }

    get size() {
      return this.#pairs.length;
    }

    append(name, value) {
      this.#change([...this.#pairs, [String(name), String(value)]]);
    }

    delete(name, value) {
      this.#change(this.#pairs.filter((pair) => pair[0] !== name || (value !== undefined && pair[1] !== String(value))));
    }

    get(name) {
      return this.#pairs.find((pair) => pair[0] === name)?.[1] ?? null;
    }

    getAll(name) {
      return this.#pairs.filter((pair) => pair[0] === name).map((pair) => pair[1]);
    }

    has(name) {
      return this.#pairs.some((pair) => pair[0] === name);
    }

    set(name, value) {
      const at = this.#pairs.findIndex((pair) => pair[0] === name);
      if (at < 0) return this.append(name, value);
      const pairs = this.#pairs.filter((pair, index) => index <= at || pair[0] !== name);
      pairs[at] = [String(name), String(value)];
      this.#change(pairs);
    }

    sort() {
      this.#change([...this.#pairs].sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0)));
    }

    forEach(callback, self) {
      for (const [name, value] of this.#pairs) callback.call(self, value, name, this);
    }

    *entries() {
      for (const [name, value] of this.#pairs) yield [name, value];
    }

    *keys() {
      for (const [name] of this.#pairs) yield name;
    }

    *values() {
      for (const [, value] of this.#pairs) yield value;
    }

    [Symbol.iterator]() {
      return this.entries();
    }

    toString() {
      return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&');
    }
  }

  // A character for each byte.
  function binary(bytes) {
    let text = '';
    for (let at = 0; at < bytes.length; at += 4096) text += String.fromCharCode.apply(null, bytes.subarray(at, at + 4096));
    return text;
  }

  class TextEncoder {
    encoding = 'utf-8';

    encode(text = '') {
      return native.utf8Encode(String(text).toWellFormed());
    }

    encodeInto(text, target) {
      let read = 0;
      let written = 0;
      for (const character of String(text)) {
        const bytes = this.encode(character);
        if (written + bytes.length > target.length) break;
        target.set(bytes, written);
        written += bytes.length;
        read += character.length;
      }
      return { read, written };
    }
  }

  const bytesOf = (data) => {
    if (data === undefined) return new Uint8Array();
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw new TypeError('this takes an ArrayBuffer or a view of one');
  };

  class TextDecoder {
    encoding = 'utf-8';

    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      if (!/^(utf-?8|unicode-1-1-utf-8)$/i.test(label.trim())) throw new RangeError(`there is no decoder for ${label} here, but for utf-8`);
      this.fatal = fatal;
      this.ignoreBOM = ignoreBOM;
    }

    decode(data) {
      const text = native.utf8Decode(binary(bytesOf(data)), this.fatal);
      if (text === undefined) throw Object.assign(new TypeError('the data is no UTF-8'), { code: 'ERR_ENCODING_INVALID_ENCODED_DATA' });
      return !this.ignoreBOM && text.startsWith('\ufeff') ? text.slice(1) : text;
    }
  }

  function structuredClone(value) {
    const seen = new Map();
    const copy = (value) => {
      if (typeof value === 'function' || typeof value === 'symbol') throw new DOMException(`${String(value).slice(0, 60)} could not be cloned.`, 'DataCloneError');
      if (typeof value !== 'object' || value === null) return value;
      if (seen.has(value)) return seen.get(value);
      const keep = (clone) => (seen.set(value, clone), clone);
      if (value instanceof Date) return keep(new Date(value.getTime()));
      if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
      if (value instanceof ArrayBuffer) return keep(value.slice(0));
      if (value instanceof DataView) return keep(new DataView(copy(value.buffer), value.byteOffset, value.byteLength));
      if (ArrayBuffer.isView(value)) return keep(new value.constructor(copy(value.buffer), value.byteOffset, value.length));
      if (value instanceof Map) {
        const clone = keep(new Map());
        for (const [key, item] of value) clone.set(copy(key), copy(item));
        return clone;
      }
      if (value instanceof Set) {
        const clone = keep(new Set());
        for (const item of value) clone.add(copy(item));
        return clone;
      }
      if (value instanceof Error) {
        const clone = keep(Object.create(Object.getPrototypeOf(value)));
        for (const name of ['name', 'message', 'stack', 'cause']) if (name in value) Object.defineProperty(clone, name, { value: copy(value[name]), writable: true, configurable: true });
        return clone;
      }
      const clone = keep(Array.isArray(value) ? new Array(value.length) : {});
      for (const name of Object.keys(value)) clone[name] = copy(value[name]);
      return clone;
    };
    return copy(value);
  }

  const crypto = Object.freeze({
    randomUUID: () => native.randomUuid(),
    getRandomValues(array) {
      const bytes = bytesOf(array);
      if (bytes.length > 65536) throw new DOMException('65,536 bytes at most', 'QuotaExceededError');
      bytes.set(native.randomBytes(bytes.length));
      return array;
    },
  });

  class Headers {
    #values = new Map();

    constructor(init = {}) {
      const entries = init[Symbol.iterator] ? [...init] : Object.entries(init);
      for (const [name, value] of entries) this.append(name, value);
    }

    append(name, value) {
      const key = String(name).toLowerCase();
      const known = this.#values.get(key);
      this.#values.set(key, known === undefined ? String(value) : `${known}, ${value}`);
    }

    set(name, value) {
      this.#values.set(String(name).toLowerCase(), String(value));
    }

    get(name) {
      return this.#values.get(String(name).toLowerCase()) ?? null;
    }

    has(name) {
      return this.#values.has(String(name).toLowerCase());
    }

    delete(name) {
      this.#values.delete(String(name).toLowerCase());
    }

    forEach(callback, self) {
      for (const [name, value] of this) callback.call(self, value, name, this);
    }

    entries() {
      return [...this.#values].sort(([left], [right]) => (left < right ? -1 : 1))[Symbol.iterator]();
    }

    keys() {
      return [...this.entries()].map(([name]) => name)[Symbol.iterator]();
    }

    values() {
      return [...this.entries()].map(([, value]) => value)[Symbol.iterator]();
    }

    [Symbol.iterator]() {
      return this.entries();
    }
  }

  // The body of a response, all of which is there already, in the form in which pieces are read. Only what a handler reads with.
  class BodyStream {
    #take;
    #bytes;
    #at = 0;
    #isLocked = false;

    constructor(take) {
      this.#take = take;
    }

    get locked() {
      return this.#isLocked;
    }

    #next() {
      this.#bytes ??= this.#take();
      if (this.#at >= this.#bytes.length) return { done: true, value: undefined };
      const value = this.#bytes.slice(this.#at, this.#at + PIECE_BYTES);
      this.#at += value.length;
      return { done: false, value };
    }

    #lock() {
      if (this.#isLocked) throw new TypeError('the body is read by another reader already');
      this.#isLocked = true;
    }

    getReader(options) {
      if (options?.mode !== undefined) throw new TypeError('the body has a reader without a `mode` only');
      this.#lock();
      return Object.freeze({
        read: async () => this.#next(),
        cancel: async () => this.#end(),
        releaseLock: () => {
          this.#isLocked = false;
        },
      });
    }

    #end() {
      this.#bytes ??= this.#take();
      this.#at = this.#bytes.length;
    }

    async cancel() {
      if (this.#isLocked) throw new TypeError('the body is read by another reader already');
      this.#end();
    }

    async *values() {
      this.#lock();
      try {
        for (let piece = this.#next(); !piece.done; piece = this.#next()) yield piece.value;
      } finally {
        this.#end();
        this.#isLocked = false;
      }
    }

    [Symbol.asyncIterator]() {
      return this.values();
    }
  }

  for (const name of ['pipeTo', 'pipeThrough', 'tee']) {
    BodyStream.prototype[name] = () => {
      throw new TypeError(`a body has no ${name} here: read it with getReader(), \`for await\`, text(), json() or bytes()`);
    };
  }

  // Makes reading the body of a response an error.
  let lose;

  class Response {
    #body;
    #problem;
    #stream;
    #isNull;

    static {
      lose = (response, problem) => (response.#problem = problem);
    }

    constructor(body = null, { status = 200, statusText = '', headers = {}, url = '' } = {}) {
      this.#isNull = body === null;
      this.#body = body === null || typeof body === 'string' ? (body ?? '') : body instanceof URLSearchParams ? body.toString() : bytesOf(body);
      this.status = status;
      this.statusText = statusText;
      this.headers = new Headers(headers);
      this.url = url;
      this.redirected = false;
      this.type = 'default';
      this.bodyUsed = false;
    }

    static json(data, init = {}) {
      return new Response(stringify(data), { ...init, headers: { 'content-type': 'application/json', ...init.headers } });
    }

    get ok() {
      return this.status >= 200 && this.status < 300;
    }

    #take() {
      if (this.#problem) throw Object.assign(new TypeError(`fetch failed: ${this.#problem}`), { code: 'UNANSWERED' });
      if (this.bodyUsed) throw new TypeError('the body has been read already');
      this.bodyUsed = true;
      return this.#body;
    }

    get body() {
      if (this.#isNull) return null;
      return (this.#stream ??= new BodyStream(() => {
        const body = this.#take();
        return typeof body === 'string' ? new TextEncoder().encode(body) : body;
      }));
    }

    async text() {
      const body = this.#take();
      return typeof body === 'string' ? body : new TextDecoder().decode(body);
    }

    async json() {
      return JSON.parse(await this.text());
    }

    async bytes() {
      const body = this.#take();
      return typeof body === 'string' ? new TextEncoder().encode(body) : body;
    }

    async arrayBuffer() {
      const bytes = await this.bytes();
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    }

    clone() {
      if (this.bodyUsed) throw new TypeError('the body has been read already');
      const clone = new Response(this.#isNull ? null : this.#body, this);
      clone.#problem = this.#problem;
      return clone;
    }
  }

  const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  function bodyOf(body, headers) {
    if (body === undefined || body === null) return {};
    if (body instanceof URLSearchParams) {
      if (!headers.has('content-type')) headers.set('content-type', 'application/x-www-form-urlencoded;charset=UTF-8');
      return { body: body.toString() };
    }
    if (typeof body === 'string') {
      if (!headers.has('content-type')) headers.set('content-type', 'text/plain;charset=UTF-8');
      return { body };
    }
    return { bodyBase64: btoa(binary(bytesOf(body))) };
  }

  async function fetch(input, init = {}) {
    const of = init.signal;
    of?.throwIfAborted();
    const headers = new Headers(init.headers ?? {});
    const body = bodyOf(init.body, headers);
    const sent = request('http.fetch', {
      url: String(input),
      method: String(init.method ?? 'GET').toUpperCase(),
      headers: Object.fromEntries(headers),
      redirect: init.redirect,
      ...body,
    });
    const answered = of
      ? Promise.race([sent, new Promise((_, reject) => of.addEventListener('abort', () => reject(of.reason), { once: true }))])
      : sent;
    const answer = await answered.catch((error) => {
      // As in browsers and in Node, a request without an answer is a TypeError.
      throw error instanceof DOMException ? error : Object.assign(new TypeError(`fetch failed: ${error.message}`), { code: error.code, cause: error });
    });
    const hasNone = [204, 205, 304].includes(answer.status);
    const content = hasNone ? null : typeof answer.bodyBase64 === 'string' ? fromBase64(answer.bodyBase64) : (answer.body ?? '');
    const response = new Response(content, { ...answer, url: answer.url ?? String(input) });
    // The status counts. A reader of the body learns that its end did not come.
    if (answer.bodyProblem) lose(response, answer.bodyProblem);
    return response;
  }

  return {
    URL, URLSearchParams, TextEncoder, TextDecoder, AbortController, AbortSignal, Headers, Response, fetch, structuredClone, crypto,
    DOMException, Event, EventTarget, ofCall,
  };
});
