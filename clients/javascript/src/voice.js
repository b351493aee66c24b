// Owns one voice session's course: what the user asks for, what the server says, and which of both comes first; microphone and
// playback on the way. Knows no layout: who shows it listens.
import { Connection, forgetSession } from "./connection.js";
import { openMicrophone } from "./microphone.js";
import { Playback } from "./playback.js";
import { Server } from "./server.js";

// Loudness above which a frame of the microphone may hold speech, and how long ago it must lie to be finished.
const SPEECH_LEVEL = 0.015;
const SPEECH_TAIL_MS = 1000;
const TYPED_MAX = 20;

const BEGINNING = {
  connection: "closed",
  microphone: "off",
  generating: false,
  speaking: false,
  sound: true,
  turnsCompleted: 0,
  interruptions: 0,
  framesSent: 0,
  framesReceived: 0,
  framesPlayed: 0,
  framesDropped: 0,
};

export class Voice {
  #connection;
  #playback;
  #closeMicrophone = null;
  #workletUrl;
  #deviceId = "";
  #lastLoudAt = -Infinity;
  #turnOpen = false;
  /** The user's own interruption: `sent`, `heard` once the server has followed, and `none` once a newer answer begins. */
  #interruption = "none";
  /** Whether the answer that was being given when the connection broke may be given again. */
  #mayRepeat = false;
  /** Why the session ends, once what is being spoken has been heard. */
  #ending = null;
  /** The server wants nothing more from this user. */
  #isPaused = false;
  #typed = [];
  #listeners = new Map();

  /** How loud the microphone is, 0 to 1. */
  level = 0;

  /**
   * Takes the options of `Server`, or `server` itself; `state`, an object of the caller's that says what is the case and is kept
   * up to date; `workletUrl`, where capture-worklet.js lies if a bundler has moved it.
   */
  constructor({ server, state = {}, workletUrl, ...options } = {}) {
    this.state = Object.assign(state, BEGINNING);
    this.#workletUrl = workletUrl;
    this.#playback = new Playback({
      counters: this.state,
      onDone: () => this.#playbackDone(),
      onChange: () => this.#changed({ speaking: this.#playback.isActive }),
      onBlocked: () => this.#emit("sound_blocked"),
    });
    this.#connection = new Connection({
      server: server ?? new Server(options),
      counters: this.state,
      onMessage: (message) => this.#received(message),
      onAudio: (frame) => this.#heard(frame),
      onState: (state) => this.#connectionChanged(state),
      onWait: (delayMs) => this.#emit("retry", { delayMs }),
    });
  }

  /** Calls `listener(event)` for each event of a kind. Returns what ends that. */
  on(type, listener) {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  get isRunning() {
    return !this.#connection.isClosed;
  }

  /** How loud the agent is, 0 to 1. */
  get voiceLevel() {
    return this.#playback.level;
  }

  /** Begins a session with the fields of a `start` message, or takes up the one whose `resumeToken` is given. */
  open(start = {}) {
    if (this.isRunning) return;
    this.#ending = null;
    this.#isPaused = false;
    this.#turnOpen = false;
    this.#interruption = "none";
    this.#connection.open(start);
  }

  /** Tries to reconnect without waiting any longer. */
  retryNow() {
    this.#connection.dialNow();
  }

  /** The user ends the session. */
  stop() {
    this.#connection.send({ type: "stop" });
    this.#playback.stop();
    this.#end({ reason: "stopped" });
  }

  /** Lets sound play; to be called in any click or key press. */
  unlock() {
    this.#playback.unlock();
  }

  useSpeaker(deviceId) {
    this.#playback.useSpeaker(deviceId);
  }

  setSound(on) {
    this.#playback.mute(!on);
    this.#changed({ sound: on });
  }

  /** Uses another microphone from here on, "" for the system's. */
  async useMicrophone(deviceId) {
    this.#deviceId = deviceId;
    if (this.state.microphone !== "on") return;
    this.stopMicrophone();
    await this.startMicrophone();
  }

  /** Turns the microphone on; to be called in a click. Whether it is on then; where not, `microphone_failed` says why. */
  async startMicrophone() {
    if (this.state.microphone !== "off") return this.state.microphone === "on";
    this.#changed({ microphone: "asking" });
    try {
      const close = await openMicrophone({
        onFrame: (frame, level) => this.#captured(frame, level),
        onLost: () => this.#microphoneFailed("lost"),
        deviceId: this.#deviceId,
        workletUrl: this.#workletUrl,
      });
      if (this.state.microphone !== "asking") {
        close();
        return false;
      }
      this.#closeMicrophone = close;
      this.#changed({ microphone: "on" });
      return true;
    } catch (error) {
      this.#microphoneFailed(error.reason ?? "unsupported");
      return false;
    }
  }

  stopMicrophone() {
    const wasOn = this.#closeMicrophone !== null;
    this.#closeMicrophone?.();
    this.#closeMicrophone = null;
    this.level = 0;
    // Who switches off in the middle of a sentence has finished it: the silence that would say so is not sent any more.
    if (wasOn && performance.now() - this.#lastLoudAt < SPEECH_TAIL_MS) this.#connection.send({ type: "turn_complete" });
    this.#changed({ microphone: "off" });
  }

  /** Sends typed words and pictures (`{ mimeType, data }`, in base64) to a session that runs; they cut off an answer under way. */
  say(text, pictures = []) {
    this.interrupt();
    this.#turnOpen = true;
    this.typed(text);
    for (const picture of pictures) this.#connection.deliver({ type: "image", ...picture });
    this.#connection.deliver({ type: "text", text });
    this.#changed({ generating: true });
  }

  /** Words that the user has typed: where the server tells them back, they are no speech. */
  typed(text) {
    this.#typed.push(text.trim());
    if (this.#typed.length > TYPED_MAX) this.#typed.shift();
  }

  /** What follows has nothing to do with what was typed. */
  forgetTyped() {
    this.#typed = [];
  }

  /** The user wants silence now. */
  interrupt() {
    if (!this.state.speaking && !this.state.generating) return;
    this.#connection.send({ type: "interrupt" });
    this.#interruption = this.#connection.state === "live" ? "sent" : "none";
    if (this.#turnOpen) this.#playback.discard();
    this.#cutOff();
  }

  /** Stops one call; what comes of it is told as `cancel_result`. */
  cancelCall(callId) {
    this.#connection.deliver({ type: "cancel", callId });
  }

  /** The user's answer to the `confirmation_request` with this token; `reason`, why the user says no; `remember`, a yes to calls with the same values;
   * `content`, the values of a request with `input`; `cancelled`, that the user did not want to decide about that. */
  answer(token, approved, reason, { remember, content, cancelled } = {}) {
    this.#connection.deliver({ type: "confirm", token, approved, reason, remember, content, cancelled });
  }

  /** Ends a standing approval; `standing_approvals` tells which are left. */
  revoke(approvalId) {
    this.#connection.deliver({ type: "revoke", approvalId });
  }

  #captured(frame, level) {
    this.level = level;
    if (level > SPEECH_LEVEL) this.#lastLoudAt = performance.now();
    this.#connection.sendAudio(frame);
  }

  #microphoneFailed(reason) {
    this.stopMicrophone();
    this.#emit("microphone_failed", { reason });
  }

  #heard(frame) {
    this.state.framesReceived += 1;
    this.#turnOpen = true;
    this.#playback.enqueue(frame);
  }

  #interrupted() {
    this.#playback.accept();
    // What the user asked for has been done already, and a newer question may be on its way.
    if (this.#interruption === "sent") {
      this.#interruption = "heard";
      return;
    }
    this.#turnOpen = false;
    if (this.state.speaking || this.state.generating) this.#cutOff();
  }

  #cutOff() {
    this.#playback.stop();
    this.state.interruptions += 1;
    this.#emit("cut_off");
    this.#changed({ generating: false });
  }

  #playbackDone() {
    this.#connection.send({ type: "playback_done" });
    if (this.#ending) this.#end(this.#ending);
  }

  #connectionChanged(connection) {
    const before = this.state.connection;
    this.state.connection = connection;
    if (connection === "closed") return;
    if ((connection === "reconnecting" || connection === "taken") && (this.#ending || this.#isPaused)) {
      this.#connection.close();
      if (!this.#ending) this.#end({ reason: "server" });
      return;
    }
    if (connection === "lost" || connection === "taken") {
      this.#end({ reason: connection });
      return;
    }
    if (connection === "reconnecting") this.#mayRepeat = true;
    this.#emit("connection", { connection });
    this.#changed(connection === "reconnecting" && before === "live" ? { generating: false } : {});
  }

  #received(message) {
    const take = Object.hasOwn(this.#messages, message.type) ? this.#messages[message.type] : null;
    if (take) take(message);
    else this.#emit("message", message);
  }

  /** Tells on what means nothing to the session's course itself. */
  #tell = (message) => this.#emit(message.type, message);

  #messages = {
    connected: this.#tell,
    started: (message) => {
      this.#interruption = "none";
      this.#tell(message);
    },
    transcript: (message) => {
      const isEcho = message.role === "user" && this.#isEcho(message.text);
      if (message.role === "user" && !isEcho) this.#turnOpen = true;
      this.#tell({ ...message, isEcho, isLate: message.role === "assistant" && this.#interruption !== "none" });
    },
    model_generating: (message) => {
      if (this.#interruption === "sent") return;
      this.#interruption = "none";
      this.#turnOpen = true;
      this.#tell({ ...message, isRepeat: this.#mayRepeat });
      this.#mayRepeat = false;
      this.#playback.accept();
      this.#changed({ generating: true });
    },
    tool_call_started: (message) => {
      this.#turnOpen = true;
      this.#tell(message);
    },
    tool_progress: this.#tell,
    tool_output: this.#tell,
    cancel_result: this.#tell,
    tool_call_finished: this.#tell,
    tools_complete: this.#tell,
    confirmation_request: this.#tell,
    confirmation_result: this.#tell,
    standing_approvals: this.#tell,
    interrupted: () => this.#interrupted(),
    turn_complete: (message) => this.#turnComplete(message),
    image: this.#tell,
    ticket: this.#tell,
    ticket_reply: this.#tell,
    context_nearly_full: this.#tell,
    timeout: (message) => {
      this.stopMicrophone();
      this.#isPaused = true;
      this.#tell(message);
    },
    end_voice_session: (message) => this.#endAfterPlayback(message),
    session_complete: () => this.#endAfterPlayback({}),
    stopped: () => this.#endAfterPlayback({}),
    reconnecting: () => this.#providerLost(),
    reconnected: () => this.#emit("connection", { connection: "live" }),
    error: (message) => this.#error(message),
  };

  #isEcho(text) {
    const at = this.#typed.indexOf(String(text).trim());
    if (at >= 0) this.#typed.splice(0, at + 1);
    return at >= 0;
  }

  /** The server lives and looks for its model. */
  #providerLost() {
    this.#emit("connection", { connection: "reconnecting", isProvider: true });
    this.#changed({ generating: false });
  }

  #turnComplete(message) {
    this.state.turnsCompleted += 1;
    this.#playback.endTurn();
    if (this.#interruption === "sent") return;
    this.#interruption = "none";
    this.#mayRepeat = false;
    this.#turnOpen = false;
    this.state.generating = false;
    this.#tell(message);
    this.#changed({});
  }

  /** The server has ended the session; what is still being spoken is heard to its end. */
  #endAfterPlayback({ closingMessage, textResponse }) {
    if (typeof textResponse === "string" && textResponse !== "") {
      this.#emit("transcript", { type: "transcript", role: "assistant", text: textResponse, final: true, isEcho: false, isLate: false });
    }
    const text = typeof closingMessage === "string" && closingMessage !== "" ? closingMessage : this.#ending?.text;
    this.#ending = { reason: "server", text };
    this.stopMicrophone();
    if (!this.#playback.isActive) this.#end(this.#ending);
    else this.#playback.endTurn();
  }

  #error(message) {
    const { code } = message;
    this.#tell(message);
    if (this.#connection.state !== "live" || code === "provider_auth" || code === "SESSION_ACTIVE") this.#end({ reason: "refused" });
    else this.#changed({ generating: false });
  }

  #end({ reason, text = "" }) {
    this.#ending = null;
    this.#turnOpen = false;
    this.stopMicrophone();
    this.#connection.close();
    forgetSession();
    this.state.connection = "closed";
    this.state.generating = false;
    this.#emit("ended", { reason, text });
    this.#changed({});
  }

  #changed(change) {
    Object.assign(this.state, change);
    this.#emit("state", this.state);
  }

  #emit(type, event = {}) {
    for (const listener of this.#listeners.get(type) ?? []) listener(event);
  }
}
