// Owns the wiring: finds the page's elements, hands them to the modules, and shows the session's state in words.
import { Calls } from "./calls.js";
import { countdown, countdownText, learnServerTime } from "./clock.js";
import { Confirmation } from "./confirmation.js";
import { button, element, textOf } from "./dom.js";
import { Notices } from "./notices.js";
import { Session } from "./session.js";
import { SignIn } from "./sign-in.js";
import { rememberedSession } from "./socket.js";
import { Transcript } from "./transcript.js";

const byId = (id) => document.getElementById(id);
const SUGGESTIONS_MAX = 8;
const MESSAGE_HEIGHT_MAX_PX = 160;
const ASKED_EARLY_MAX = 8;
/** The time in a header has whole seconds. */
const HEADER_COARSE_MS = 2_000;

let lastAsked = "";
/** What is asked before it is known how the server answers, and whether a session is to be taken up; null from then on. */
let asked = [];
let stopBlockClock = () => {};
/** `demo`: whether the voice is the demo model. */
const info = { demo: false, suggestions: [] };
const notices = new Notices(byId("notices"));
const transcript = new Transcript(byId("transcript"), byId("conversation"));
const calls = new Calls({
  list: byId("calls-list"),
  summary: byId("calls-summary"),
  empty: byId("calls-empty"),
  onChange: () => render(),
});
const confirmation = new Confirmation(
  {
    dialog: byId("confirmation"),
    title: byId("confirmation-title"),
    preview: byId("confirmation-preview"),
    warning: byId("confirmation-warning"),
    plain: byId("confirmation-plain"),
    details: byId("confirmation-details"),
    args: byId("confirmation-args"),
    clock: byId("confirmation-clock"),
    approve: byId("approve"),
    decline: byId("decline"),
  },
  (token, approved) => session.answerConfirmation(token, approved),
);
const signIn = new SignIn({
  dialog: byId("sign-in"),
  provider: byId("sign-in-provider"),
  form: byId("sign-in-form"),
  secret: byId("sign-in-secret"),
  problem: byId("sign-in-problem"),
  leave: byId("sign-out"),
});
const view = { checkSignIn: () => signIn.ensure(), transcript, calls, confirmation, notices, render, started, turnCompleted, soundBlocked, blocked, ended, backToChat };
const session = new Session(view);

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
  byId("welcome").hidden = !transcript.isEmpty;
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

/** Voice is over and the conversation is not. */
function backToChat({ title, text }) {
  const hadFocus = document.activeElement === byId("end") || document.activeElement === document.body;
  const words = [text, "You can go on by typing, or talk again."].filter(Boolean).join(" ");
  transcript.end(title.replace("Session", "Voice"), words);
  render();
  if (hadFocus) byId("message").focus();
}

function startAnew() {
  session.forget();
  transcript.clear();
  calls.clear();
  confirmation.closeAll();
  notices.hide("error");
  render();
  byId("message").focus();
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

function ask(text) {
  session.unlock();
  if (asked !== null) {
    if (asked.length >= ASKED_EARLY_MAX) return false;
    asked.push(text);
    return true;
  }
  lastAsked = text;
  return session.say(text);
}

function submit() {
  const field = byId("message");
  const text = field.value.trim();
  if (text === "" || !ask(text)) return;
  field.value = "";
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
  // The demo shows voice, which a typed question starts as well; its chat is there for programs.
  session.canChat = text.available === true && text.provider !== "demo";
  const voice = info.demo ? "Demo model (rules, no AI)" : modelName(given);
  byId("model").textContent = session.canChat ? `Text: ${modelName(text)} · Voice: ${voice}` : voice;
  byId("model").title = byId("model").textContent;
  byId(session.canChat ? "demo-voice" : "demo").hidden = !info.demo;
  const items = info.suggestions.map((question) => element("li", "", button("suggestion", question, () => ask(question))));
  byId("suggestions").replaceChildren(...items);
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
  } catch (error) {
    console.debug("no information about the server", error.message);
    notices.show("server", { tone: "warning", title: "The server does not answer", text: "Check that it runs, then reload this page." });
  }
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
  byId("message").addEventListener("input", fitMessage);
  byId("talk").addEventListener("click", () => {
    session.unlock();
    session.toggleMicrophone();
  });
  byId("interrupt").addEventListener("click", () => {
    session.interrupt();
    byId("message").focus();
  });
  byId("end").addEventListener("click", () => session.stop());
  byId("anew").addEventListener("click", startAnew);
  byId("sound").addEventListener("click", () => session.setSound(!session.state.sound));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !byId("confirmation").open) session.interrupt();
  });
  for (const kind of ["pointerdown", "keydown"]) {
    document.addEventListener(kind, () => {
      if (!session.isRunning) return;
      session.unlock();
      notices.hide("sound");
    });
  }
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

/** Moves the wheel's rim with the loudness of the microphone. */
function showLevel() {
  const wheel = document.querySelector(".wheel .level");
  let shown = 0;
  const draw = () => {
    const target = session.state.microphone === "on" ? Math.min(1, session.level * 6) : 0;
    shown += (target - shown) * 0.3;
    wheel.style.setProperty("--level", shown.toFixed(3));
    if (session.state.microphone === "on" || shown > 0.01) requestAnimationFrame(draw);
    else drawing = false;
  };
  let drawing = false;
  new MutationObserver(() => {
    if (drawing || session.state.microphone !== "on") return;
    drawing = true;
    requestAnimationFrame(draw);
  }).observe(document.body, { attributeFilter: ["data-microphone"] });
}

listen();
arrangeCalls();
showLevel();
await signIn.ensure();
await loadInfo();
await session.recall();
const kept = rememberedSession();
if (kept) session.begin(kept);
render();
const early = asked;
asked = null;
early.forEach(ask);
