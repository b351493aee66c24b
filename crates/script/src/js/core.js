// What surrounds an author's module in its context: the frozen `context`, timers, the console, and the way back to the host.
// Evaluates to a function of the host's natives, which answers what the host calls. Each context evaluates it anew.
export default (function (native) {
  const NOBODY_WAITS = 'nobody waits for the call any more';
  const { freeze, defineProperty } = Object;
  const { stringify, parse } = JSON;
  const pending = new Map();
  const timers = new Map();
  let listeners = [];
  let aborted;

  function request(method, parameters) {
    return new Promise((resolve, reject) => {
      let id;
      try {
        id = native.request(method, stringify(parameters));
      } catch (error) {
        return reject(error);
      }
      pending.set(id, { resolve, reject });
    });
  }

  function notify(method, parameters) {
    native.notify(method, stringify(parameters));
  }

  function text(value) {
    if (typeof value === 'string') return value;
    if (value instanceof Error) return value.stack ? `${value}\n${value.stack}` : String(value);
    try {
      return stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  }

  const say = (level) => (...values) => native.log(`${level}: ${values.map(text).join(' ')}`.toWellFormed());
  const console = {};
  for (const level of ['debug', 'log', 'info', 'warn', 'error', 'trace']) console[level] = say(level);

  function timer(repeats) {
    return (callback, milliseconds, ...values) => {
      if (typeof callback !== 'function') throw new TypeError('the first argument of a timer is no function');
      const wait = Math.max(repeats ? 1 : 0, Number(milliseconds) || 0);
      const id = native.timer(wait);
      timers.set(id, { callback, values, wait, repeats });
      return id;
    };
  }

  function clear(id) {
    if (timers.delete(id)) native.clear(id);
  }

  const setTimeout = timer(false);
  const own = {
    console,
    setTimeout,
    setInterval: timer(true),
    setImmediate: (callback, ...values) => setTimeout(callback, 0, ...values),
    clearTimeout: clear,
    clearInterval: clear,
    clearImmediate: clear,
  };
  Object.assign(globalThis, own);

  // Most handlers use none of these, so they are made when the first is asked for.
  let web;
  const listen = (listener) => {
    native.listens();
    listeners.push(listener);
  };
  const made = () => (web ??= native.web(native)(native, request, { aborted: () => aborted, listen }));
  for (const name of [
    'URL', 'URLSearchParams', 'TextEncoder', 'TextDecoder', 'AbortController', 'AbortSignal', 'Headers', 'Response', 'fetch',
    'structuredClone', 'crypto', 'DOMException', 'Event', 'EventTarget',
  ]) {
    const set = (value) => defineProperty(globalThis, name, { value, writable: true, configurable: true });
    const get = () => {
      set(made()[name]);
      return globalThis[name];
    };
    defineProperty(globalThis, name, { get, set, configurable: true });
  }

  // The engine's own methods pass over the language and the zone that they are told.
  let locale;
  const ofLocale = () => (locale ??= native.locale()());
  function speak(prototype, answer, ...names) {
    for (const name of names) {
      const { [name]: value } = { [name](...given) { return answer(name, this, given); } };
      defineProperty(prototype, name, { value, writable: true, configurable: true });
    }
  }
  speak(Date.prototype, (name, date, given) => ofLocale().date(name, date, ...given), 'toLocaleString', 'toLocaleDateString', 'toLocaleTimeString');
  speak(Number.prototype, (name, number, given) => ofLocale().number(name, number.valueOf(), ...given), 'toLocaleString');
  speak(BigInt.prototype, (name, number, given) => ofLocale().number(name, number.valueOf(), ...given), 'toLocaleString');
  speak(String.prototype, (name, text, given) => ofLocale().compare(name, text, ...given), 'localeCompare');
  speak(String.prototype, (name, text, given) => ofLocale().caseOf(name, String(text), ...given), 'toLocaleUpperCase', 'toLocaleLowerCase');
  defineProperty(globalThis, 'Intl', { get: () => ofLocale().Intl, configurable: true });

  // All of a value: what a handler keeps for the conversation it changes by an intent, and in no other way.
  function frozen(value) {
    if (value === null || typeof value !== 'object') return value;
    for (const name of Object.keys(value)) frozen(value[name]);
    return freeze(value);
  }

  function contextOf(facts, args) {
    const { voice, ...plain } = facts;
    freeze(plain.tool);
    freeze(plain.time);
    freeze(plain.capabilities);
    const values = frozen(plain.session?.state?.values ?? {});
    if (plain.session) freeze(plain.session.state);
    freeze(plain.session);
    const isInVoice = voice?.isActive === true;
    const ask = (method) => async (parameters) => request(method, parameters ?? {});
    const context = {
      ...plain,
      args,
      getState: () => values,
      voice: freeze({ isActive: () => isInVoice }),
      messaging: freeze({
        async send(message) {
          if (message === null || typeof message !== 'object' || typeof message.type !== 'string') {
            throw new TypeError('messaging.send takes an object with a `type`');
          }
          await request('messaging.send', { message });
        },
      }),
      audit: freeze({ log: (event, data) => notify('audit.log', { event: String(event), data: data ?? null }) }),
      events: freeze({ emit: (name, payload) => notify('events.emit', { name: String(name), payload: payload ?? null }) }),
      kb: freeze({
        search: async (query) => request('kb.search', typeof query === 'string' ? { query } : (query ?? {})),
        get: async (id) => request('kb.get', typeof id === 'string' ? { id } : (id ?? {})),
      }),
      calendar: freeze({
        getFreeBusy: ask('calendar.getFreeBusy'),
        getEvents: ask('calendar.getEvents'),
        createEvent: ask('calendar.createEvent'),
      }),
      images: freeze({ generate: ask('images.generate') }),
      blocks: freeze({ add: ask('blocks.add') }),
      http: freeze({ fetch: (input, init) => globalThisFetch()(input, init) }),
      secret: async (name) => request('secret', { name: String(name) }),
      connection: async (name) => request('connection', { name: String(name) }),
      output(piece) {
        // A change that has begun goes on.
        if (aborted && !plain.effectId) throw new Error(NOBODY_WAITS);
        try {
          const data = stringify(piece ?? null);
          if (data === undefined) throw new TypeError(`JSON cannot hold ${kindOf(piece)}`);
          native.notify('output', `{"data":${data}}`);
        } catch (error) {
          console.warn('a piece was left out:', error);
        }
      },
      progress(message, fraction) {
        notify('progress', fraction === undefined ? { message: String(message) } : { message: String(message), fraction: Number(fraction) });
      },
      async callTool(id, args) {
        return request('callTool', { id: String(id), args: args ?? {} });
      },
      get signal() {
        return made().ofCall();
      },
    };
    // `execute({ args, context })` and `execute(context)` get the same object.
    context.context = context;
    return freeze(context);
  }

  const globalThisFetch = () => made().fetch;

  function errorOf(error) {
    const { type, message, retryable, partialSideEffects, suggestion, details, retryAfterMs, retryAfter, maxRetries, idempotencyRequired } = error;
    return {
      type,
      message: String(message),
      retryable,
      partialSideEffects,
      suggestion,
      details,
      retryAfterMs: retryAfterMs ?? (typeof retryAfter === 'number' ? retryAfter * 1000 : undefined),
      maxRetries,
      idempotencyRequired,
    };
  }

  function kindOf(value) {
    if (value === null) return 'null';
    if (Array.isArray(value)) return 'an array';
    const kind = typeof value;
    return kind === 'undefined' || kind === 'bigint' ? kind : kind === 'object' ? 'an object' : `a ${kind}`;
  }

  function responseOf(value) {
    if (value === null || typeof value !== 'object') throw new TypeError(`execute returned ${kindOf(value)}: return { ok: true, data } or { ok: false, error }`);
    const { ok } = value;
    // From here on the call has worked, whatever becomes of its answer.
    if (ok === true) native.worked();
    const { data, content, intents, scheduling, error } = value;
    if (typeof ok !== 'boolean') throw new TypeError('execute returned an object without `ok`: return { ok: true, data } or { ok: false, error }');
    if (ok) {
      if (typeof data === 'function' || typeof data === 'symbol') throw new TypeError(`execute returned ${kindOf(data)} as \`data\`, which JSON cannot hold`);
      return { ok, data, content, intents, scheduling };
    }
    if (error === null || typeof error !== 'object') throw new TypeError('execute returned { ok: false } without an `error` object');
    return { ok, error: errorOf(error), intents };
  }

  function describe(error) {
    if (error instanceof Error) return { message: String(error), stack: String(error.stack ?? '') };
    return { message: `threw ${kindOf(error)}: ${text(error)}`, stack: '' };
  }

  function fail(error) {
    if (error instanceof Error && error.name === 'ToolError' && typeof error.type === 'string') {
      try {
        return native.answer(stringify({ ok: false, error: errorOf(error), intents: error.intents }));
      } catch (other) {
        error = other;
      }
    }
    const { message, stack } = describe(error);
    native.broke(message.toWellFormed(), stack.toWellFormed());
  }

  // What a generator yields are pieces, and what it returns is the answer.
  async function run(execute, context) {
    const value = await execute(context);
    if (typeof value?.next !== 'function') return value;
    for (;;) {
      const { done, value: piece } = await value.next();
      if (done) return piece;
      let shown = () => {};
      try {
        const data = await piece;
        shown = () => context.output(data);
      } catch (error) {
        console.warn('a piece was left out:', error);
      }
      // A change that has begun goes on.
      if (aborted && !context.effectId) {
        await value.return?.();
        throw new Error(NOBODY_WAITS);
      }
      shown();
    }
  }

  return {
    start(execute, args, facts) {
      run(execute, contextOf(parse(facts), parse(args))).then((value) => {
        let answer;
        try {
          answer = stringify(responseOf(value));
        } catch (error) {
          return fail(error);
        }
        native.answer(answer);
      }, fail);
    },
    fail,
    settle(id, succeeded, json) {
      const waiting = pending.get(id);
      if (!waiting) return;
      pending.delete(id);
      const { resolve, reject } = waiting;
      const value = parse(json);
      if (succeeded) return resolve(value);
      const { message, ...facts } = value;
      reject(Object.assign(new Error(message), facts));
    },
    fire(id) {
      const due = timers.get(id);
      if (!due) return;
      timers.delete(id);
      if (due.repeats) {
        // The id that the author has stays the one that clears it.
        native.again(id, due.wait);
        timers.set(id, due);
      }
      due.callback(...due.values);
    },
    abort() {
      aborted = true;
      for (const listener of listeners.splice(0)) listener();
    },
  };
});
