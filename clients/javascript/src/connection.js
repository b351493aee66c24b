// Owns the WebSocket: opening, the start message, finding back after a loss, and what waits meanwhile. Knows no meaning of
// messages beyond `started`, `pong` and an `error` that answers a start.
import { keep, keptObject } from "./storage.js";
import { timeZone } from "./zone.js";

// The server keeps a session for 60 s after its client was lost.
const GRACE_MS = 60_000;
const BACKOFF_FIRST_MS = 400;
const BACKOFF_MAX_MS = 8_000;
const STABLE_MS = 10_000;
const PING_EVERY_MS = 20_000;
const OPEN_WITHIN_MS = 10_000;
const WAITING_MESSAGES_MAX = 20;
const WAITING_FRAMES_MAX = 100;
// Two seconds of microphone: a network that is further behind than that gets no more until it has caught up.
const BUFFERED_BYTES_MAX = 64_000;
const TAKEN_AFTER_MS = 300;
/** With which the server closes a connection that it has no more to say on. */
const DONE_CODE = 1000;
const STORAGE_KEY = "windlass.session";
/** Refusals of a server that may take the same token a moment later. */
const PASSING_REFUSALS = new Set(["overloaded", "internal", "shutting_down"]);

/** The session of this tab that a reload may take up again, or null. */
export function rememberedSession() {
  const session = keptObject("sessionStorage", STORAGE_KEY);
  return typeof session?.resumeToken === "string" ? session : null;
}

export function forgetSession() {
  keep("sessionStorage", STORAGE_KEY, null);
}

export class Connection {
  #server;
  #dialing = null;
  #socket = null;
  #kept = null;
  #startSent = false;
  #isResuming = false;
  #waiting = [];
  #waitingFrames = [];
  #lostAt = 0;
  #attempt = 0;
  #retryTimer = 0;
  #pingTimer = 0;
  #openTimer = 0;
  #stableTimer = 0;
  #pongDue = false;

  /**
   * `onState` gets `connecting`, `live`, `reconnecting`, `lost`, `taken` by another window, or `closed`. `onWait(delayMs)` follows
   * where the next try to reconnect waits, from the second one on.
   */
  constructor({ server, counters, onMessage, onAudio, onState, onWait }) {
    this.#server = server;
    Object.assign(this, { counters, onMessage, onAudio, onState, onWait, state: "closed" });
    globalThis.addEventListener?.("online", () => this.dialNow());
  }

  /** Tries to reconnect without waiting any longer. */
  dialNow() {
    if (this.state === "reconnecting") this.#dial();
  }

  get isClosed() {
    return this.state === "closed" || this.state === "lost";
  }

  /** Begins a session with the fields of a `start` message, or takes up the one that `resumeToken` names. */
  open(kept) {
    this.#drop();
    this.#kept = kept;
    this.#attempt = 0;
    this.#lostAt = Date.now();
    this.#setState("connecting");
    this.#dial();
  }

  /** Ends the connection for good; nothing is reconnected. */
  close() {
    this.#kept = null;
    this.#waiting = [];
    this.#waitingFrames = [];
    this.#drop();
    if (!this.isClosed) this.#setState("closed");
  }

  /** Sends now, or not at all: for messages that mean nothing later. */
  send(message) {
    if (this.state === "live") this.#socket?.send(JSON.stringify(message));
  }

  /** Sends as soon as the session runs. */
  deliver(message) {
    if (this.state === "live") this.send(message);
    else if (!this.isClosed && this.#waiting.length < WAITING_MESSAGES_MAX) this.#waiting.push(message);
  }

  sendAudio(frame) {
    if (this.isClosed) return;
    if (!this.#startSent) {
      this.#waitingFrames.push(frame);
      if (this.#waitingFrames.length > WAITING_FRAMES_MAX) this.#waitingFrames.shift();
    } else if (this.#socket.bufferedAmount < BUFFERED_BYTES_MAX) {
      this.#socket.send(frame);
      this.counters.framesSent += 1;
    }
  }

  #dial() {
    this.#drop();
    this.#openTimer = setTimeout(() => this.#lost(), OPEN_WITHIN_MS);
    if (!this.#server.needsTicket) {
      this.#connect("");
      return;
    }
    const dialing = (this.#dialing = {});
    const isCurrent = () => this.#dialing === dialing;
    this.#server.ticket().then(
      (ticket) => isCurrent() && this.#connect(ticket),
      () => isCurrent() && this.#lost(),
    );
  }

  /** A page sets no headers where it opens a socket: what it shows goes as subprotocols. */
  #connect(ticket) {
    const { token } = this.#server;
    const shown = [ticket && `ticket.${ticket}`, token && `client.${token}`].filter(Boolean);
    const protocols = shown.length > 0 ? ["windlass", ...shown] : [];
    const address = this.#server.address("voice");
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address, protocols);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.#opened();
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.#received(data) : this.onAudio(data));
    socket.onclose = ({ code }) => this.#hungUp(code);
    this.#socket = socket;
  }

  #opened() {
    clearTimeout(this.#openTimer);
    const { resumeToken, ...begin } = this.#kept ?? {};
    this.#isResuming = Boolean(resumeToken);
    const start = { type: "start", timeZone: timeZone(), ...(this.#isResuming && { resume: resumeToken }), ...begin };
    this.#socket.send(JSON.stringify(start));
    this.#startSent = true;
    for (const frame of this.#waitingFrames.splice(0)) this.sendAudio(frame);
    this.#pongDue = false;
    this.#pingTimer = setInterval(() => this.#ping(), PING_EVERY_MS);
  }

  #received(text) {
    let message;
    try {
      message = this.#server.parse(text);
    } catch {
      console.debug("a message that is not JSON was ignored");
      return;
    }
    if (message === null || typeof message !== "object") return;
    this.#pongDue = false;
    if (message.type === "pong") return;
    if (message.type === "error" && this.#isResuming && this.state !== "live" && message.code !== "provider_auth") {
      this.#notResumed(message);
      return;
    }
    if (message.type === "started") this.#started(message);
    else this.onMessage(message);
  }

  #notResumed(refusal) {
    if (PASSING_REFUSALS.has(refusal.code)) {
      // Who asks in vain to the end is told why.
      if (this.#isTimeLeft) this.#lost();
      else this.onMessage(refusal);
      return;
    }
    // The session is gone. Its conversation may go on in a new one.
    const { resumeToken: _, ...begin } = this.#kept ?? {};
    this.open(begin);
  }

  get #isTimeLeft() {
    return Date.now() - this.#lostAt <= GRACE_MS;
  }

  #started(message) {
    this.#kept = { ...this.#kept, resumeToken: message.resumeToken, conversationId: message.conversationId };
    // What was said before, and what is to be answered, the session knows from here on.
    delete this.#kept.conversationHistory;
    delete this.#kept.pendingRequest;
    keep("sessionStorage", STORAGE_KEY, this.#kept);
    this.#setState("live");
    this.onMessage(message);
    for (const waiting of this.#waiting.splice(0)) this.send(waiting);
    this.#stableTimer = setTimeout(() => {
      this.#attempt = 0;
    }, STABLE_MS);
  }

  /** A phone's network can vanish without the socket noticing; an unanswered ping does. */
  #ping() {
    if (this.#pongDue) {
      this.#lost();
      return;
    }
    this.#pongDue = true;
    this.#socket.send('{"type":"ping"}');
  }

  /** Who comes back with this session's token takes its place. To take it back would go on for ever. */
  #hungUp(code) {
    if (code !== DONE_CODE || this.state !== "live") {
      this.#lost();
      return;
    }
    this.#drop();
    // Some browsers close so what a page leaves behind, before they tell the page that it goes.
    this.#retryTimer = setTimeout(() => this.#setState("taken"), TAKEN_AFTER_MS);
  }

  #lost() {
    this.#drop();
    if (this.isClosed) return;
    if (this.state === "live") this.#lostAt = Date.now();
    if (!this.#isTimeLeft) {
      this.#setState("lost");
      return;
    }
    this.#setState("reconnecting");
    // A listener may have given up at this.
    if (this.state !== "reconnecting") return;
    // Jitter, so that a restarted server is not met by all its clients in one instant.
    const delayMs = Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** this.#attempt) * (0.8 + 0.4 * Math.random());
    if (this.#attempt > 0) this.onWait(delayMs);
    this.#attempt += 1;
    this.#retryTimer = setTimeout(() => this.#dial(), delayMs);
  }

  #drop() {
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#openTimer);
    clearTimeout(this.#stableTimer);
    clearInterval(this.#pingTimer);
    this.#dialing = null;
    this.#startSent = false;
    if (!this.#socket) return;
    this.#socket.onopen = this.#socket.onmessage = this.#socket.onclose = null;
    this.#socket.close();
    this.#socket = null;
  }

  #setState(state) {
    this.state = state;
    this.onState(state);
  }
}
