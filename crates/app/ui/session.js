// Owns one conversation's course on the page: what the user asks for, whether it goes by voice or in writing, and what the server
// says to it. Knows no layout; what people see goes through `view`: transcript, calls, approvals, notices, reach, and what app.js
// does with them.
import { ChatTransport, Conversations, Server, Voice, WindlassError } from "./client/index.js";
import { Chat, Conversation } from "./chat.js";
import { learnServerTime, unixMs } from "./clock.js";
import { connectNotice } from "./connections.js";
import { button, textOf } from "./dom.js";
import { numberOf, readJson } from "./json.js";
import { CONTEXT_NOTICE, ERROR_NOTICES, MICROPHONE_NOTICES, outcomeNotice, SEND_AGAIN_NOTICE, ticketNotice } from "./notices.js";
import { linesOf, ticketReplyText, Tickets } from "./recalled.js";
import { taskOf, Tasks } from "./tasks.js";

/** Why voice is over, by the reasons of the client. */
const ENDINGS = {
  stopped: { title: "Session ended", text: "You ended it." },
  lost: { title: "The connection was lost", text: "The server could not be reached for a minute." },
  taken: { title: "Session ended here", text: "Another window has taken the conversation up." },
  refused: { title: "The session could not begin", text: "" },
  server: { title: "Session ended", text: "" },
};

/** A result as the socket brings it: JSON as text, which may have been cut. */
function parsed(result) {
  try {
    return typeof result === "string" ? readJson(result) : result;
  } catch {
    return null;
  }
}

export class Session {
  #view;
  #voice;
  #conversation;
  #chat;
  /** Where what is shown of the conversation goes on at its beginning. */
  #earlier = null;
  /** The newest reading of the conversation; older ones are not shown. */
  #recalling = null;
  #tickets;
  #tasks;
  #server;

  /** The state, for the view and for tests; `phase` is idle, connecting, live, reconnecting, ended or blocked. */
  state = { phase: "idle" };
  /** Whether the server answers by text as well. */
  canChat = false;

  constructor(view) {
    this.#view = view;
    const server = (this.#server = new Server({ parse: readJson }));
    this.#tasks = new Tasks({
      read: (id) => server.json(this.#taskPath(id)),
      onProgress: (progress) => view.calls.progress(progress),
      onEnd: (call) => this.#taskEnded(call),
    });
    this.conversations = new Conversations({ server });
    this.#voice = new Voice({ server, state: this.state });
    for (const [type, listener] of Object.entries(this.#answers)) this.#voice.on(type, listener);
    this.#conversation = new Conversation(this.conversations);
    this.#chat = new Chat({
      view,
      transport: new ChatTransport({ server }),
      conversation: this.#conversation,
      onChange: (change) => this.#changed(change),
      onTurn: () => this.#chatTurnComplete(),
      onVoice: () => this.#goOnByVoice(),
      onTimeout: (data) => this.#timeout(data),
      onTicket: (data) => this.#ticket(data),
      tasks: this.#tasks,
      onUnreachable: () => view.reach.lost(),
    });
    this.#tickets = new Tickets(() => this.#newest(), (reply) => this.#showReply(reply));
  }

  get isRunning() {
    return this.#voice.isRunning;
  }

  /** Lets sound play; to be called in any click or key press. */
  unlock() {
    this.#voice.unlock();
  }

  /** How loud the user is, and the agent. */
  get levels() {
    return { in: this.#voice.level, out: this.#voice.voiceLevel };
  }

  useMicrophone(deviceId) {
    return this.#voice.useMicrophone(deviceId);
  }

  useSpeaker(deviceId) {
    this.#voice.useSpeaker(deviceId);
  }

  setSound(on) {
    this.#voice.setSound(on);
  }

  /** Begins a session, or takes up the one that `kept` names. */
  begin(kept = null) {
    if (this.isRunning || this.state.phase === "blocked") return;
    this.#chat.stop();
    this.#view.transcript.withdrawOffers();
    this.#voice.open(kept ?? { conversationId: this.#conversation.use() });
  }

  get conversationId() {
    return this.#conversation.id;
  }

  /** Shows this tab's conversation so far. False if another one was asked for meanwhile. */
  async recall() {
    const { transcript, calls, approvals, standing } = this.#view;
    const recalling = (this.#recalling = {});
    const { messages, questions, standingApprovals, next, running } = (await this.#read(() => this.recall())) ?? {};
    if (this.#recalling !== recalling) return false;
    for (const line of linesOf(messages)) {
      if (line.kind === "words") transcript.receive({ ...line, final: true, isOld: true });
      if (line.kind === "call") calls.recalled(this.#recalledCall(line));
    }
    this.#tickets.recalled(messages);
    const asked = Array.isArray(questions) ? questions : [];
    asked.forEach((question) => approvals.request(question));
    standing.recalled(standingApprovals);
    calls.settle([...asked.map(({ callId }) => callId), ...this.#tasks.callIds]);
    this.#earlier = textOf(next) || null;
    this.#chat.recalled(Array.isArray(messages) ? messages.findLast(({ role }) => role === "user") : null);
    if (running === true && !this.isRunning) this.#chat.resume();
    this.#view.render();
    return true;
  }

  /** A call from before the page was loaded. */
  #recalledCall(line) {
    const id = line.ok ? taskOf(line.result) : "";
    if (id) this.#tasks.accepted(id, line);
    return { ...line, accepted: id !== "" };
  }

  #taskPath(id, action = "") {
    return `api/tasks/${encodeURIComponent(id)}${action}?${new URLSearchParams({ conversationId: this.#conversation.id })}`;
  }

  #taskEnded(call) {
    this.#view.calls.finished(call);
    this.#view.render();
  }

  /** Whether the server has more of this conversation than is shown. */
  get hasEarlier() {
    return this.#earlier !== null;
  }

  /** Shows the page of messages before those that are shown. */
  async recallEarlier() {
    const recalling = (this.#recalling = {});
    const page = await this.#read(() => this.recallEarlier(), this.#earlier);
    if (page === null || this.#recalling !== recalling) return;
    const lines = linesOf(page.messages);
    this.#view.transcript.earlier(lines.filter(({ kind }) => kind === "words"));
    this.#view.calls.earlier(lines.filter(({ kind }) => kind === "call").map((line) => this.#recalledCall(line)));
    this.#tickets.recalled(page.messages);
    this.#earlier = textOf(page.next) || null;
    this.#view.render();
  }

  /** A page of the conversation, or null; a failure is said with a way to try again. */
  async #read(again, cursor = null) {
    const { notices } = this.#view;
    try {
      const page = await this.#conversation.read(cursor);
      notices.hide("recall");
      return page;
    } catch (error) {
      const text = error instanceof WindlassError ? error.message : "The server does not answer.";
      const action = button("small", "Try again", again);
      notices.show("recall", { tone: "warning", title: "What was said before cannot be shown now", text, action });
      return null;
    }
  }

  /** Goes on in a new conversation, or in the one with an id. */
  forget(id = null) {
    if (this.isRunning) this.#voice.stop();
    this.#chat.forget();
    this.#voice.forgetTyped();
    this.#tickets.forget();
    this.#tasks.forget();
    this.#view.notices.hide("ticket");
    this.#view.notices.hide("recall");
    this.#recalling = null;
    this.#earlier = null;
    if (id === null) this.#conversation.renew();
    else this.#conversation.take(id);
    if (this.state.phase === "ended") this.#changed({ phase: "idle" });
  }

  /** Turns the microphone on, beginning a session where there is none, or off. */
  async toggleMicrophone() {
    if (this.state.microphone === "on") {
      this.#voice.stopMicrophone();
      return;
    }
    if (this.state.phase === "blocked" || !(await this.#voice.startMicrophone())) return;
    this.#view.notices.hide("microphone");
    this.begin();
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
      this.#voice.typed(text);
      this.#chat.say(text, pictures.map(({ part }) => part), { isEdit });
      return true;
    }
    this.begin();
    this.#voice.interrupt();
    transcript.typed(text, pictures.map(({ shown }) => shown));
    this.#voice.say(text || "(a picture)", pictures.map(({ part }) => ({ mimeType: part.mediaType, data: part.url.split(",")[1] })));
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

  interrupt() {
    if (!this.state.speaking && !this.state.generating) return;
    if (this.#chat.isRunning) {
      this.state.interruptions += 1;
      this.#chat.stop();
      return;
    }
    this.#voice.interrupt();
  }

  answerConfirmation(token, approved, { reason, ...more } = {}) {
    if (this.isRunning) this.#voice.answer(token, approved, reason, more);
    else this.#chat.answerConfirmation(token, approved, { reason, ...more });
  }

  /** The user wants to be asked again about what a standing approval covers. */
  revoke(approval) {
    if (this.isRunning && approval.mode === "voice") this.#voice.revoke(approval.approvalId);
    else this.#chat.revoke(approval);
  }

  /** The user wants one call stopped, and the conversation to go on. */
  cancelCall(callId) {
    const task = this.#tasks.idOf(callId);
    if (task) this.#cancelTask(task, callId);
    else if (this.isRunning) this.#voice.cancelCall(callId);
    else this.#chat.cancelCall(callId);
  }

  /** A task goes on beside its session, so that the server is asked by its id. */
  async #cancelTask(id, callId) {
    const { calls } = this.#view;
    try {
      await this.#server.json(this.#taskPath(id, "/cancel"), { method: "POST" });
      calls.cancelled({ callId, outcome: "stopping" });
    } catch (error) {
      if (error.status === 401) this.#view.checkSignIn();
      // It has ended by now, which is shown before long.
      if (error.status === 409) calls.cancelled({ callId, outcome: "ended" });
      else calls.notCancelled(callId);
    }
    this.#tasks.lookSoon();
  }

  stop() {
    this.#voice.stop();
  }

  /** A block is over: sessions may begin again. */
  unblock() {
    if (this.state.phase === "blocked") this.#changed({ phase: "idle" });
  }

  #answers = {
    state: () => this.#view.render(),
    connection: (event) => this.#connectionChanged(event),
    retry: ({ delayMs }) => this.#view.reach.waits(delayMs, () => this.#voice.retryNow()),
    ended: (ending) => this.#ended(ending),
    cut_off: () => this.#view.transcript.markInterrupted(),
    sound_blocked: () => this.#view.soundBlocked(),
    microphone_failed: ({ reason }) => this.#view.notices.show("microphone", { tone: "warning", ...MICROPHONE_NOTICES[reason] }),
    connected: ({ timestamp }) => learnServerTime(timestamp),
    started: (message) => {
      this.#view.started(message);
      this.#view.approvals.reconnected();
    },
    transcript: (message) => {
      if (message.isEcho) return;
      this.#view.transcript.receive(message);
      if (message.role === "user" && message.final === true) this.#view.calls.turnBegins();
    },
    model_generating: ({ isRepeat }) => isRepeat && this.#view.transcript.takeBack(),
    tool_call_started: (message) => this.#view.calls.started(message),
    tool_progress: (message) => this.#view.calls.progress(message),
    tool_output: (message) => this.#view.calls.output(message),
    cancel_result: (message) => this.#view.calls.cancelled(message),
    tool_call_finished: (message) => this.#callFinished(message),
    tools_complete: () => this.#view.render(),
    confirmation_request: (message) => this.#view.approvals.request(message),
    confirmation_result: (message) => this.#confirmed(message),
    standing_approvals: ({ approvals }) => this.#view.standing.show("voice", approvals),
    turn_complete: () => {
      this.#view.transcript.closeTurn();
      this.#view.render();
      this.#view.turnCompleted();
    },
    image: (message) => this.#view.transcript.image(message),
    ticket: (message) => this.#ticket(message),
    ticket_reply: (message) => this.#tickets.replied(message),
    context_nearly_full: () => this.#view.notices.show("context", { tone: "warning", ...CONTEXT_NOTICE }),
    timeout: (message) => this.#timeout(message),
    error: (message) => this.#error(message),
    message: ({ type }) => console.debug("ignored a message of an unknown type", type),
  };

  /** By voice the end of a task comes by itself, and it may be known by then. */
  #callFinished(message) {
    const { callId, tool, accepted, result } = message;
    const id = accepted === true ? taskOf(parsed(result)) : "";
    if (accepted !== true && this.#tasks.wasShown(callId)) return;
    this.#view.calls.finished(message);
    if (message.connect) this.#view.notices.show("connect", connectNotice(message.connect));
    if (id) this.#tasks.accepted(id, { callId, tool });
    else if (accepted !== true) this.#tasks.told({ callId });
  }

  #connectionChanged({ connection, isProvider = false }) {
    if (connection === "reconnecting" && !isProvider) {
      // A browser does not say why a connection was refused.
      this.#view.checkSignIn();
      this.#view.approvals.hold();
    }
    if (connection === "live") this.#view.reach.back();
    if (this.state.phase !== "blocked") this.#changed({ phase: connection });
  }

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

  #chatTurnComplete() {
    this.state.turnsCompleted += 1;
    this.#view.turnCompleted();
    this.#view.render();
  }

  /** The agent answers aloud from here on, the last question first. */
  #goOnByVoice() {
    this.begin();
    if (this.state.microphone === "off") this.#voice.startMicrophone();
  }

  /** A person was asked. Their answer comes by voice by itself; without it, it is looked for. */
  #ticket({ ticketId, reason }) {
    this.#view.notices.show("ticket", ticketNotice({ reason }));
    this.#tickets.opened(ticketId);
  }

  /** The newest messages, where somebody looks and nothing is being said. */
  async #newest() {
    const mayLook = !document.hidden && !this.isRunning && !this.#chat.isRunning;
    return mayLook ? (await this.#conversation.read(null))?.messages : null;
  }

  /** A person's answer stands in the transcript, as theirs. */
  #showReply(reply) {
    if (!this.#tickets.areOpen) this.#view.notices.hide("ticket");
    this.#view.transcript.receive({ role: "assistant", text: ticketReplyText(reply), final: true });
  }

  #timeout({ durationSeconds, timeoutUntil, farewellMessage }) {
    const until = unixMs(timeoutUntil) ?? Date.now() + 1000 * (numberOf(durationSeconds) || 0);
    this.#voice.stopMicrophone();
    this.#changed({ phase: "blocked" });
    this.#view.blocked(until, textOf(farewellMessage));
  }

  #error({ code, message }) {
    const known = Object.hasOwn(ERROR_NOTICES, code) ? ERROR_NOTICES[code] : null;
    this.#view.notices.show("error", { tone: "warning", title: known?.title ?? "Something went wrong", text: known?.text ?? textOf(message) });
  }

  #ended({ reason, text }) {
    const ending = { ...ENDINGS[reason], ...(text ? { text } : {}) };
    const wasBlocked = this.state.phase === "blocked";
    const hadEnded = this.state.phase === "ended";
    if (reason === "lost") this.#view.reach.lost();
    this.#view.standing.show("voice", []);
    this.#view.calls.settle([...(this.canChat ? this.#view.approvals.callIds : []), ...this.#tasks.callIds]);
    this.#view.reach.takeOver();
    if (this.canChat && !wasBlocked) {
      // Every session of the conversation can take an answer.
      this.#view.approvals.release();
      this.#changed({ phase: "idle" });
      this.#view.backToChat(ending);
      return;
    }
    this.#view.approvals.closeAll();
    this.#changed({ phase: wasBlocked ? "blocked" : "ended" });
    if (!hadEnded) this.#view.ended(ending);
  }

  #changed(change) {
    Object.assign(this.state, change);
    this.#view.render();
  }
}
