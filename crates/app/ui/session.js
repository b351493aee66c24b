// Owns one session's course: what the user asks for, what the server says, and which of both comes first. Knows no layout;
// what people see goes through `view`: transcript, calls, approvals, notices, reach, and what app.js does with them.
import { Chat, Conversation } from "./chat.js";
import { openMicrophone } from "./capture.js";
import { unixMs } from "./clock.js";
import { textOf } from "./dom.js";
import { numberOf } from "./json.js";
import { ERROR_NOTICES, MICROPHONE_NOTICES, outcomeNotice, SEND_AGAIN_NOTICE } from "./notices.js";
import { Playback } from "./playback.js";
import { Connection, forgetSession } from "./socket.js";

// Loudness above which a frame of the microphone may hold speech, and how long ago it must lie to be finished.
const SPEECH_LEVEL = 0.015;
const SPEECH_TAIL_MS = 1000;

export class Session {
  #view;
  #connection;
  #playback;
  #closeMicrophone = null;
  #lastLoudAt = -Infinity;
  #turnOpen = false;
  /** The user's own interruption: `sent`, `heard` once the server has followed, and `none` once a newer answer begins. */
  #interruption = "none";
  /** Whether the answer that was being given when the connection broke may be given again. */
  #mayRepeat = false;
  #ending = null;
  #conversation = new Conversation();
  #chat;

  /** What is the case, for the view and for tests. `phase`: idle, connecting, live, reconnecting, ended or blocked. */
  state = {
    phase: "idle",
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
  level = 0;
  devices = { microphone: "", speaker: "" };
  /** Whether the server answers by text as well. */
  canChat = false;

  constructor(view) {
    this.#view = view;
    this.#playback = new Playback({
      counters: this.state,
      onDone: () => this.#playbackDone(),
      onChange: () => this.#changed({ speaking: this.#playback.isActive }),
      onBlocked: () => this.#view.soundBlocked(),
    });
    this.#chat = new Chat({
      view,
      conversation: this.#conversation,
      onChange: (change) => this.#changed(change),
      onTurn: () => this.#chatTurnComplete(),
      onVoice: () => this.#goOnByVoice(),
      onTimeout: (data) => this.#timeout(data),
      onUnreachable: () => view.reach.lost(),
    });
    this.#connection = new Connection({
      counters: this.state,
      onMessage: (message) => this.#received(message),
      onAudio: (frame) => this.#heard(frame),
      onState: (state) => this.#connectionChanged(state),
      onWait: (delayMs) => view.reach.waits(delayMs, () => this.#connection.dialNow()),
    });
  }

  get isRunning() {
    return !this.#connection.isClosed;
  }

  /** Lets sound play; to be called in any click or key press. */
  unlock() {
    this.#playback.unlock();
  }

  /** How loud the agent is. */
  get voiceLevel() {
    return this.#playback.level;
  }

  /** Uses another microphone from here on. */
  async useMicrophone(deviceId) {
    this.devices.microphone = deviceId;
    if (this.state.microphone !== "on") return;
    this.#stopMicrophone();
    await this.toggleMicrophone();
  }

  useSpeaker(deviceId) {
    this.devices.speaker = deviceId;
    this.#playback.useSpeaker(deviceId);
  }

  setSound(on) {
    this.#playback.mute(!on);
    this.#changed({ sound: on });
  }

  /** Begins a session, or takes up the one that `kept` names. */
  begin(kept = null) {
    if (this.isRunning || this.state.phase === "blocked") return;
    this.#ending = null;
    this.#turnOpen = false;
    this.#interruption = "none";
    this.#chat.stop();
    this.#view.transcript.withdrawOffers();
    this.#connection.open(kept ?? { conversationId: this.#conversation.id });
  }

  /** Shows what was said and asked in this tab's conversation before the page was loaded. */
  async recall() {
    const { entries, questions } = (await this.#conversation.recall()) ?? {};
    const { transcript, calls, approvals } = this.#view;
    for (const entry of Array.isArray(entries) ? entries : []) {
      if (entry?.kind === "words") transcript.receive({ ...entry, final: true });
      if (entry?.kind === "call") calls.recalled(entry);
    }
    const asked = Array.isArray(questions) ? questions : [];
    asked.forEach((question) => approvals.request(question));
    calls.settle(asked.map(({ callId }) => callId));
    this.#view.render();
  }

  /** What follows has nothing to do with what was said. */
  forget() {
    this.#chat.forget();
    this.#conversation.renew();
  }

  /** Turns the microphone on, beginning a session where there is none, or off. */
  async toggleMicrophone() {
    if (this.state.microphone === "on") {
      this.#stopMicrophone();
      return;
    }
    if (this.state.microphone === "asking" || this.state.phase === "blocked") return;
    this.#changed({ microphone: "asking" });
    try {
      const close = await openMicrophone({
        onFrame: (frame, level) => this.#captured(frame, level),
        onLost: () => this.#microphoneFailed("lost"),
        deviceId: this.devices.microphone,
      });
      if (this.state.microphone !== "asking") {
        close();
        return;
      }
      this.#closeMicrophone = close;
      this.#view.notices.hide("microphone");
      this.#changed({ microphone: "on" });
      this.begin();
    } catch (error) {
      this.#microphoneFailed(error.reason ?? "unsupported");
    }
  }

  /**
   * Sends typed words and pictures; they cut off an answer that is still being given. An `isEdit` takes the place of the message
   * before, where it can. `pictures` are those of attachments.js.
   */
  say(text, pictures = [], { isEdit = false } = {}) {
    if (this.state.phase === "blocked") return false;
    const { transcript, calls } = this.#view;
    transcript.withdrawOffers();
    calls.turnBegins();
    if (this.canChat && !this.isRunning) {
      this.#chat.stop();
      transcript.typed(text, pictures.map(({ shown }) => shown));
      this.#chat.say(text, pictures.map(({ part }) => part), { isEdit });
      return true;
    }
    this.begin();
    this.interrupt();
    this.#turnOpen = true;
    transcript.typed(text, pictures.map(({ shown }) => shown));
    for (const { part } of pictures) this.#connection.deliver({ type: "image", mimeType: part.mediaType, data: part.url.split(",")[1] });
    this.#connection.deliver({ type: "text", text: text || "(a picture)" });
    this.#changed({ generating: true });
    return true;
  }

  /** Whether the last message can be changed, or answered anew, as the same message. Else it is said once more. */
  get canRepeat() {
    return this.canChat && !this.isRunning && this.#chat.canRepeat;
  }

  /** Another answer to what the user said last, which was `text`. */
  again(text) {
    if (this.state.phase === "blocked") return;
    if (!this.canRepeat) {
      this.say(text);
      return;
    }
    this.#view.calls.turnBegins();
    this.#chat.again();
  }

  /** The user wants silence now. */
  interrupt() {
    if (!this.state.speaking && !this.state.generating) return;
    if (this.#chat.isRunning) {
      this.state.interruptions += 1;
      this.#chat.stop();
      return;
    }
    this.#connection.send({ type: "interrupt" });
    this.#interruption = this.#connection.state === "live" ? "sent" : "none";
    if (this.#turnOpen) this.#playback.discard();
    this.#cutOff();
  }

  answerConfirmation(token, approved) {
    if (this.isRunning) this.#connection.deliver({ type: "confirm", token, approved });
    else this.#chat.answerConfirmation(token, approved);
  }

  /** The user ends the session. */
  stop() {
    this.#connection.send({ type: "stop" });
    this.#playback.stop();
    this.#end({ title: "Session ended", text: "You ended it." });
  }

  /** A block is over: sessions may begin again. */
  unblock() {
    if (this.state.phase === "blocked") this.#changed({ phase: "idle" });
  }

  #captured(frame, level) {
    this.level = level;
    if (level > SPEECH_LEVEL) this.#lastLoudAt = performance.now();
    this.#connection.sendAudio(frame);
  }

  #microphoneFailed(reason) {
    this.#stopMicrophone();
    this.#view.notices.show("microphone", { tone: "warning", ...MICROPHONE_NOTICES[reason] });
  }

  #stopMicrophone() {
    const wasOn = this.#closeMicrophone !== null;
    this.#closeMicrophone?.();
    this.#closeMicrophone = null;
    this.level = 0;
    // Who switches off in the middle of a sentence has finished it: the silence that would say so is not sent any more.
    if (wasOn && performance.now() - this.#lastLoudAt < SPEECH_TAIL_MS) this.#connection.send({ type: "turn_complete" });
    this.#changed({ microphone: "off" });
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
    this.#view.transcript.markInterrupted();
    this.state.interruptions += 1;
    this.#changed({ generating: false });
  }

  #playbackDone() {
    this.#connection.send({ type: "playback_done" });
    if (this.#ending) this.#end(this.#ending);
  }

  #connectionChanged(state) {
    if (state === "closed") return;
    if (state === "lost") {
      this.#view.reach.lost();
      this.#end({ title: "The connection was lost", text: "The server could not be reached for a minute." });
      return;
    }
    if ((state === "reconnecting" || state === "taken") && (this.#ending || this.state.phase === "blocked")) {
      this.#connection.close();
      if (!this.#ending) this.#end({ title: "Session ended", text: "" });
      return;
    }
    if (state === "taken") {
      this.#end({ title: "Session ended here", text: "Another window has taken the conversation up." });
      return;
    }
    if (state === "reconnecting") {
      // A browser does not say why a connection was refused.
      this.#view.checkSignIn();
      this.#mayRepeat = true;
      this.#view.approvals.hold();
    }
    if (state === "reconnecting" && this.state.phase === "live") this.#changed({ generating: false });
    if (state === "live") this.#view.reach.back();
    if (this.state.phase !== "blocked") this.#changed({ phase: state });
  }

  #received(message) {
    const answers = this.#answers;
    if (Object.hasOwn(answers, message.type)) answers[message.type](message);
    else console.debug("ignored a message of an unknown type", message.type);
  }

  #answers = {
    connected: () => {},
    started: (message) => {
      this.#interruption = "none";
      this.#view.started(message);
      this.#view.approvals.reconnected();
    },
    transcript: (message) => {
      const isLate = message.role === "assistant" && this.#interruption !== "none";
      const isSpeech = this.#view.transcript.receive({ ...message, isLate });
      if (isSpeech) this.#turnOpen = true;
      if (isSpeech && message.final === true) this.#view.calls.turnBegins();
    },
    model_generating: () => {
      if (this.#interruption === "sent") return;
      this.#interruption = "none";
      this.#turnOpen = true;
      if (this.#mayRepeat) this.#view.transcript.takeBack();
      this.#mayRepeat = false;
      this.#playback.accept();
      this.#changed({ generating: true });
    },
    tool_call_started: (message) => {
      this.#turnOpen = true;
      this.#view.calls.started(message);
    },
    tool_progress: (message) => this.#view.calls.progress(message),
    tool_call_finished: (message) => this.#view.calls.finished(message),
    tools_complete: () => this.#changed({}),
    confirmation_request: (message) => this.#view.approvals.request(message),
    confirmation_result: (message) => this.#confirmed(message),
    interrupted: () => this.#interrupted(),
    turn_complete: () => this.#turnComplete(),
    image: (message) => this.#view.transcript.image(message),
    timeout: (message) => this.#timeout(message),
    end_voice_session: (message) => this.#endAfterPlayback(message),
    session_complete: () => this.#endAfterPlayback({}),
    stopped: () => this.#endAfterPlayback({}),
    reconnecting: () => this.#changed({ phase: "reconnecting", generating: false }),
    reconnected: () => this.#changed({ phase: "live" }),
    error: (message) => this.#error(message),
  };

  /** What came of a question. One that is open as before is shown again. */
  #confirmed(message) {
    const { approvals, calls, notices } = this.#view;
    if (message.response?.error?.retryable === true) {
      approvals.again(message.callId);
      notices.show("answer", { tone: "warning", ...SEND_AGAIN_NOTICE });
    } else {
      const wasOpen = approvals.resolve(message.callId);
      // The request that takes its place follows.
      const isReplaced = message.response?.error?.details?.reason === "replaced";
      if (wasOpen && !isReplaced) notices.show("elsewhere", outcomeNotice(message.response));
      notices.hide("answer");
    }
    calls.confirmed(message);
  }

  #turnComplete() {
    this.state.turnsCompleted += 1;
    this.#playback.endTurn();
    if (this.#interruption === "sent") return;
    this.#interruption = "none";
    this.#mayRepeat = false;
    this.#turnOpen = false;
    this.#view.transcript.closeTurn();
    this.#changed({ generating: false });
    this.#view.turnCompleted();
  }

  #chatTurnComplete() {
    this.state.turnsCompleted += 1;
    this.#view.turnCompleted();
    this.#view.render();
  }

  /** The agent answers aloud from here on, beginning with what was asked last. */
  #goOnByVoice() {
    this.begin();
    if (this.state.microphone === "off") this.toggleMicrophone();
  }

  #timeout({ durationSeconds, timeoutUntil, farewellMessage }) {
    const until = unixMs(timeoutUntil) ?? Date.now() + 1000 * (numberOf(durationSeconds) || 0);
    this.#stopMicrophone();
    this.#changed({ phase: "blocked" });
    this.#view.blocked(until, textOf(farewellMessage));
  }

  /** The server has ended the session; what is still being spoken is heard to its end. */
  #endAfterPlayback({ closingMessage, textResponse }) {
    const said = textOf(textResponse);
    if (said) this.#view.transcript.receive({ role: "assistant", text: said, final: true });
    const text = textOf(closingMessage) || this.#ending?.text || "";
    this.#ending = { title: "Session ended", text };
    this.#stopMicrophone();
    if (!this.#playback.isActive) this.#end(this.#ending);
    else this.#playback.endTurn();
  }

  #error({ code, message }) {
    const known = Object.hasOwn(ERROR_NOTICES, code) ? ERROR_NOTICES[code] : null;
    const title = known?.title ?? "Something went wrong";
    const text = known?.text ?? textOf(message);
    if (this.#connection.state !== "live" || code === "provider_auth" || code === "SESSION_ACTIVE") {
      this.#view.notices.show("error", { tone: "warning", title, text });
      this.#end({ title: "The session could not begin", text: "" });
      return;
    }
    this.#view.notices.show("error", { tone: "warning", title, text });
    this.#changed({ generating: false });
  }

  #end(ending) {
    const wasBlocked = this.state.phase === "blocked";
    const hadEnded = this.state.phase === "ended";
    this.#ending = null;
    this.#turnOpen = false;
    this.#stopMicrophone();
    this.#connection.close();
    forgetSession();
    this.#view.calls.settle(this.canChat ? this.#view.approvals.callIds : []);
    this.#view.reach.takeOver();
    if (this.canChat && !wasBlocked) {
      // Every session of the conversation can take an answer.
      this.#view.approvals.release();
      this.#changed({ phase: "idle", generating: false });
      this.#view.backToChat(ending);
      return;
    }
    this.#view.approvals.closeAll();
    this.#changed({ phase: wasBlocked ? "blocked" : "ended", generating: false });
    if (!hadEnded) this.#view.ended(ending);
  }

  #changed(change) {
    Object.assign(this.state, change);
    this.#view.render();
  }
}
