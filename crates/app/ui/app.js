// Owns the wiring: finds the page's elements, hands them to the modules, and shows the session's state in words.
import { Approvals } from "./approvals.js";
import { Attachments } from "./attachments.js";
import { Calls } from "./calls.js";
import { rememberedSession } from "./client/index.js";
import { keep, kept, keptObject } from "./client/storage.js";
import { countdown, countdownText, learnServerTime } from "./clock.js";
import { Connections } from "./connections.js";
import { button, element, textOf } from "./dom.js";
import { History } from "./history.js";
import { Notices } from "./notices.js";
import { Reach } from "./reach.js";
import { Session } from "./session.js";
import { Settings } from "./settings.js";
import { SignIn } from "./sign-in.js";
import { Standing } from "./standing.js";
import { Tabs } from "./tabs.js";
import { ToolStats } from "./tool-stats.js";
import { Transcript } from "./transcript.js";

const byId = (id) => document.getElementById(id);
const SUGGESTIONS_MAX = 8;
const MESSAGE_HEIGHT_MAX_PX = 160;
const ASKED_EARLY_MAX = 8;
/** The time in a header has whole seconds. */
const HEADER_COARSE_MS = 2_000;
const DRAFT_KEY = "windlass.draft";
const PLACE_KEY = "windlass.place";
/** Pages of earlier messages that are read to find the reader's place again. */
const PAGES_BACK_MAX = 20;
/** Loudness is shown as people hear it: the middle of the meter is quiet speech. */
const METER_POWER = 0.5;

let hasInfo = false;
let isSettingUp = false;
let isSetUp = false;
let lastAsked = "";
/** The first question, until it is known how the server answers; then null. */
let asked = [];
let stopBlockClock = () => {};
/** `demo`: whether the voice is the demo model. */
const info = { demo: false, suggestions: [] };
const notices = new Notices(byId("notices"));
let isEditing = false;
const attachments = new Attachments(byId("attachments"), notices, () => render());
const transcript = new Transcript(byId("transcript"), byId("conversation"), byId("to-end"), {
  onEdit: (text) => edit(text),
  onAgain: (text) => {
    session.unlock();
    session.again(text);
  },
});
const calls = new Calls({
  list: byId("calls-list"),
  summary: byId("calls-summary"),
  empty: byId("calls-empty"),
  onChange: () => render(),
  onStop: (callId) => session.cancelCall(callId),
});
const approvals = new Approvals(
  { box: byId("approvals"), title: byId("approvals-title"), list: byId("approvals-list") },
  {
    onAnswer: (token, approved, more) => session.answerConfirmation(token, approved, more),
    onChange: () => render(),
    onLeave: () => byId("message").focus(),
  },
);
const standing = new Standing({ box: byId("standing"), list: byId("standing-list") }, { onRevoke: (approval) => session.revoke(approval) });
const reach = new Reach(notices, () => serverIsBack());
const signIn = new SignIn({
  dialog: byId("sign-in"),
  provider: byId("sign-in-provider"),
  form: byId("sign-in-form"),
  secret: byId("sign-in-secret"),
  problem: byId("sign-in-problem"),
  leave: byId("sign-out"),
});
const view = { checkSignIn: () => signIn.ensure(), transcript, calls, approvals, standing, notices, reach, render, started, turnCompleted, soundBlocked, blocked, ended, backToChat };
const session = new Session(view);
const tabs = new Tabs((id, { isDeleted }) => changedElsewhere(id, isDeleted));
new History(
  { panel: byId("history"), search: byId("history-search"), status: byId("history-status"), list: byId("history-list"), more: byId("history-more") },
  { conversations: session.conversations, current: () => session.conversationId, onOpen: openConversation, onDeleted: deleted },
);
new ToolStats({ panel: byId("tool-stats"), status: byId("tool-stats-status"), box: byId("tool-stats-box") });
new Connections({ panel: byId("settings"), box: byId("connections"), list: byId("connections-list") });
const settings = new Settings(
  {
    themes: document.querySelectorAll("[name=theme]"),
    microphone: byId("microphone"),
    speaker: byId("speaker"),
    speakerRow: byId("speaker-row"),
  },
  (name, deviceId) => (name === "speaker" ? session.useSpeaker(deviceId) : session.useMicrophone(deviceId)),
);

// Tests and curious people read the counters here.
window.windlass = { state: session.state };

function render() {
  // Modules report their first state while this one is still being built.
  if (!document.body || !window.windlass) return;
  const { phase, microphone, speaking, generating, sound } = session.state;
  Object.assign(document.body.dataset, { phase, microphone, speaking: String(speaking), generating: String(generating) });
  setText(byId("connection"), CONNECTION_WORDS[phase]);
  setText(byId("activity"), activityText());
  setText(byId("talk-label"), { off: "Talk", asking: "Allow…", on: "Pause" }[microphone]);
  byId("talk").setAttribute("aria-pressed", String(microphone === "on"));
  byId("talk").disabled = phase === "blocked";
  byId("message").disabled = phase === "blocked";
  byId("send").disabled = phase === "blocked";
  byId("end").hidden = !session.isRunning;
  byId("anew").hidden = session.isRunning || transcript.isEmpty || phase === "ended" || phase === "blocked";
  byId("interrupt").hidden = !speaking && !generating;
  byId("sound").setAttribute("aria-pressed", String(sound));
  byId("welcome").hidden = !transcript.isEmpty || approvals.waiting > 0;
  byId("earlier").hidden = !session.hasEarlier || transcript.isFull;
  byId("attach").hidden = info.demo && !session.canChat;
  byId("levels").hidden = microphone !== "on" && !speaking;
  const { waiting } = approvals;
  byId("review").hidden = waiting === 0;
  setText(byId("review"), waiting === 1 ? "Your approval is asked for" : `${waiting} approvals are asked for`);
  const title = waiting === 0 ? "Windlass" : `(${waiting}) Windlass`;
  if (document.title !== title) document.title = title;
}

const CONNECTION_WORDS = {
  idle: "Ready",
  connecting: "Connecting…",
  live: "Connected",
  reconnecting: "Reconnecting…",
  ended: "Session ended",
  blocked: "Paused",
};

function activityText() {
  const { phase, microphone, speaking, generating } = session.state;
  if (phase === "blocked" || phase === "ended" || (phase === "idle" && !generating)) return "";
  if (phase === "reconnecting") return "The connection broke; finding back…";
  if (calls.runningStatus) return calls.runningStatus;
  if (speaking) return info.demo ? "Demo tone, not a voice" : "Speaking";
  if (generating) return "Thinking…";
  return microphone === "on" ? "Listening" : "";
}

/** Writes only what changed, so that a live region says nothing twice. */
function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

function started({ tools }) {
  notices.hide("error");
  const names = Array.isArray(tools) ? tools.map((tool) => textOf(tool?.toolId ?? tool?.name ?? tool)).filter(Boolean) : [];
  if (names.length === 0) return;
  const list = element("span", "tool-names", ...names.slice(0, 30).flatMap((name) => [element("code", "", name), " "]));
  byId("calls-empty").replaceChildren("Nothing called yet. The agent can use ", list);
}

/** The rules of the demo model answer little but the questions that it names, so it names them after each of its turns. */
function turnCompleted() {
  tabs.tell(session.conversationId);
  const others = info.suggestions.filter((question) => question !== lastAsked);
  if (info.demo && session.isRunning && others.length > 0) transcript.offer(others, ask);
}

function soundBlocked() {
  notices.show("sound", { title: "Sound is waiting for you", text: "Press any key or click anywhere to hear the agent." });
}

function blocked(untilMs, farewell) {
  stopBlockClock();
  const title = "The agent has paused this conversation";
  const text = notices.show("blocked", { tone: "warning", title, text: "", lasting: true });
  stopBlockClock = countdown(untilMs, (leftMs) => {
    if (leftMs > 0) {
      text.textContent = `${farewell} You can go on in ${countdownText(leftMs)}.`.trim();
      return;
    }
    notices.hide("blocked");
    session.unblock();
    for (const again of document.querySelectorAll(".ending button")) again.hidden = false;
  });
}

function backToChat({ title, text }) {
  const hadFocus = document.activeElement === byId("end") || document.activeElement === document.body;
  const words = [text, "You can go on by typing, or talk again."].filter(Boolean).join(" ");
  transcript.end(title.replace("Session", "Voice"), words);
  render();
  if (hadFocus) byId("message").focus();
}

/** Empties the page for a new conversation, or for the one with an id. */
function startAnew(id = null) {
  // Input for another conversation is not sent here.
  if (isSetUp && asked?.length > 0) byId("message").value = [...asked.map(([text]) => text), byId("message").value].join("\n").trim();
  if (isSetUp) asked = null;
  session.forget(id);
  transcript.clear();
  calls.clear();
  approvals.closeAll();
  standing.clear();
  if (isEditing) edit(null);
  notices.hide("error");
  render();
  byId("message").focus();
}

async function openConversation(id) {
  if (id === session.conversationId && !transcript.isEmpty) return;
  startAnew(id);
  asked ??= [];
  if (await session.recall()) askWhatWaited();
}

function deleted(id) {
  tabs.tell(id, { isDeleted: true });
  if (id === session.conversationId) startAnew();
}

/** Another tab has gone on with the conversation that is shown here, or has deleted it. */
async function changedElsewhere(id, isDeleted) {
  if (id !== session.conversationId || session.isRunning || session.state.generating) return;
  if (isDeleted) {
    startAnew();
    notices.show("elsewhere", { title: "This conversation was deleted", text: "Another tab has deleted it. What you ask now begins a new one." });
    return;
  }
  const { place } = transcript;
  const { activeElement } = document;
  startAnew(id);
  await session.recall();
  if (place) transcript.goTo(place);
  if (activeElement?.isConnected) activeElement.focus({ preventScroll: true });
}

function ended({ title, text }) {
  const again = button("primary", "Start again", () => {
    session.unlock();
    startAnew();
    session.begin();
  });
  const hadFocus = document.activeElement === byId("end") || document.activeElement === document.body;
  again.hidden = session.state.phase === "blocked";
  transcript.end(title, text, again);
  render();
  if (hadFocus) again.focus();
}

function ask(text, pictures = [], options = {}) {
  session.unlock();
  if (asked !== null) {
    if (asked.length >= ASKED_EARLY_MAX) return false;
    asked.push([text, pictures, options]);
    return true;
  }
  lastAsked = text;
  return session.say(text, pictures, options);
}

function submit() {
  const field = byId("message");
  const text = field.value.trim();
  if ((text === "" && attachments.count === 0) || session.state.phase === "blocked") return;
  // No session could take it yet: it stays in sight.
  if (asked !== null && (reach.isLost || asked.length >= ASKED_EARLY_MAX)) return;
  if (!ask(text, attachments.take(), { isEdit: isEditing })) return;
  edit(null);
}

/** Puts the last message back into the field, to be changed; with null the field is empty again. */
function edit(text) {
  const field = byId("message");
  isEditing = text !== null && session.canRepeat;
  byId("editing").hidden = !isEditing;
  field.value = text ?? "";
  drafted();
  if (text !== null) field.focus();
}

function drafted() {
  keep("sessionStorage", DRAFT_KEY, byId("message").value);
  fitMessage();
}

function fitMessage() {
  const field = byId("message");
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, MESSAGE_HEIGHT_MAX_PX)}px`;
}

function showInfo(given) {
  info.demo = given.demo === true;
  info.suggestions = (Array.isArray(given.suggestions) ? given.suggestions : []).map(textOf).filter(Boolean).slice(0, SUGGESTIONS_MAX);
  const text = given.text ?? {};
  // The demo shows voice, which a typed question starts as well, unless the project has tools for writing alone.
  const isDemoText = text.provider === "demo";
  session.canChat = text.available === true && (!isDemoText || text.typed === true);
  const voice = info.demo ? "Demo model (rules, no AI)" : modelName(given);
  byId("model").textContent = session.canChat && !(isDemoText && info.demo) ? `Text: ${modelName(text)} · Voice: ${voice}` : voice;
  byId("model").title = byId("model").textContent;
  byId(session.canChat && !isDemoText ? "demo-voice" : "demo").hidden = !info.demo;
  const items = info.suggestions.map((question) => element("li", "", button("suggestion", question, () => ask(question))));
  byId("suggestions").replaceChildren(...items);
  byId("suggestions").hidden = items.length === 0;
}

function modelName({ model, provider }) {
  return [model, provider].map(textOf).filter(Boolean).join(", ");
}

async function loadInfo() {
  try {
    const answer = await fetch("api/info", { headers: { accept: "application/json" } });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    learnServerTime(answer.headers.get("date"), HEADER_COARSE_MS);
    showInfo(await answer.json());
    return true;
  } catch (error) {
    console.debug("no information about the server", error.message);
    reach.lost();
    return false;
  }
}

async function serverIsBack() {
  if (!hasInfo) hasInfo = await loadInfo();
  if (hasInfo) setUp();
}

/** Takes up the conversation and the first question, once. */
async function setUp() {
  if (isSettingUp) return;
  isSettingUp = true;
  await session.recall();
  const remembered = rememberedSession();
  if (remembered) session.begin(remembered);
  await restorePlace();
  render();
  isSetUp = true;
  askWhatWaited();
}

function askWhatWaited() {
  const early = asked ?? [];
  asked = null;
  early.forEach((given) => ask(...given));
}

/** A reload begins where the reader was. */
async function restorePlace() {
  const place = keptObject("sessionStorage", PLACE_KEY);
  if (place?.conversation !== session.conversationId) return;
  for (let pages = 0; pages < PAGES_BACK_MAX && session.hasEarlier && place.read?.fromEnd > transcript.length; pages += 1) await session.recallEarlier();
  if (place?.read) transcript.goTo(place.read);
  if (place?.calls) byId("calls").open = true;
  if (Number.isFinite(place?.callsTop)) byId("calls-scroll").scrollTop = place.callsTop;
}

function rememberPlace() {
  keep("sessionStorage", PLACE_KEY, { conversation: session.conversationId, read: transcript.place, calls: byId("calls").open, callsTop: byId("calls-scroll").scrollTop });
}

function listen() {
  byId("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  byId("message").addEventListener("keydown", (event) => {
    // Enter also ends the composition of a character; that is not meant for us.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  byId("message").addEventListener("input", drafted);
  byId("message").addEventListener("paste", (event) => attach(event, event.clipboardData));
  for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => attach(event, event.dataTransfer));
  byId("attach").addEventListener("click", () => byId("files").click());
  byId("files").addEventListener("change", () => {
    attachments.add([...byId("files").files]);
    byId("files").value = "";
    byId("message").focus();
  });
  byId("editing-end").addEventListener("click", () => {
    edit(null);
    byId("message").focus();
  });
  byId("review").addEventListener("click", () => approvals.show());
  byId("settings").addEventListener("toggle", () => settings.listDevices());
  addEventListener("pagehide", rememberPlace);
  byId("talk").addEventListener("click", () => {
    session.unlock();
    session.toggleMicrophone();
  });
  byId("interrupt").addEventListener("click", () => {
    session.interrupt();
    byId("message").focus();
  });
  byId("end").addEventListener("click", () => session.stop());
  byId("anew").addEventListener("click", () => startAnew());
  byId("history-new").addEventListener("click", () => {
    byId("history").hidePopover();
    startAnew();
  });
  byId("earlier").addEventListener("click", () => session.recallEarlier());
  byId("sound").addEventListener("click", () => session.setSound(!session.state.sound));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector(":popover-open")) session.interrupt();
  });
  for (const kind of ["pointerdown", "keydown"]) {
    document.addEventListener(kind, () => {
      if (!session.isRunning) return;
      session.unlock();
      notices.hide("sound");
    });
  }
}

/** Takes pictures that are pasted or dropped anywhere on the page. */
function attach(event, transfer) {
  if (byId("attach").hidden || ![...(transfer?.types ?? [])].includes("Files")) return;
  event.preventDefault();
  if (event.type !== "dragover") attachments.add([...transfer.files]);
}

/** Beside the conversation the calls are always open; on a phone they open on demand. */
function arrangeCalls() {
  const wide = matchMedia("(min-width: 60rem)");
  const summary = byId("calls").querySelector("summary");
  const arrange = () => {
    byId("calls").open = wide.matches;
    summary.tabIndex = wide.matches ? -1 : 0;
  };
  wide.addEventListener("change", arrange);
  byId("calls").addEventListener("toggle", () => {
    if (wide.matches) byId("calls").open = true;
  });
  arrange();
}

/** Moves the wheel's rim with the loudness of the microphone, and both meters. */
function showLevels() {
  const wheel = document.querySelector(".wheel .level");
  const shown = { in: 0, out: 0 };
  let isDrawing = false;
  const draw = () => {
    const { microphone, speaking } = session.state;
    const { levels } = session;
    shown.in += ((microphone === "on" ? levels.in : 0) - shown.in) * 0.3;
    shown.out += (levels.out - shown.out) * 0.3;
    wheel.style.setProperty("--level", Math.min(1, shown.in * 6).toFixed(3));
    for (const [name, level] of Object.entries(shown)) byId(`level-${name}`).value = Math.min(1, level ** METER_POWER);
    isDrawing = microphone === "on" || speaking || shown.in > 0.002;
    if (isDrawing) requestAnimationFrame(draw);
  };
  new MutationObserver(() => {
    if (isDrawing || (session.state.microphone !== "on" && !session.state.speaking)) return;
    isDrawing = true;
    requestAnimationFrame(draw);
  }).observe(document.body, { attributeFilter: ["data-microphone", "data-speaking"] });
}

listen();
arrangeCalls();
showLevels();
byId("message").value = kept("sessionStorage", DRAFT_KEY);
fitMessage();
byId("message").focus();
await signIn.ensure();
hasInfo = await loadInfo();
if (hasInfo) await setUp();
