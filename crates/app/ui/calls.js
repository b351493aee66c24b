// Owns the tree of tool calls: what was asked for, when and how long it ran, how it ended. Calls of one turn are drawn on one scale,
// and those that a tool made stand below it. Knows no connection.
import { clockTime, fillFields, flat, phrase, valueNode } from "./values.js";
import { announce, button, copyButton, element, shorten, textOf } from "./dom.js";
import { durationText, unixMs } from "./clock.js";
import { numberOf, readJson, writeJson } from "./json.js";
import { viewOf } from "./views.js";

const ROWS_MAX = 200;
const TICK_MS = 100;
const SUMMARY_CHARACTERS_MAX = 90;
const MESSAGE_CHARACTERS_MAX = 600;
const JSON_CHARACTERS_MAX = 20_000;
const OUTPUT_CHARACTERS_MAX = 20_000;
/** Longer waits are drawn as long as this. */
const PAUSE_MS = 2_000;
/** The beginning of a stopped call's message. */
const STOPPED_BY_USER = /^the user stopped /;
/** A part of a tool's message that points at an argument. */
const POINTER = /(?<![\w/])(\/[\w~-]+(?:\/[\w~-]+)*)/;

// For each error type: whether the call was turned away before it ran, and what that means to a person.
const OUTCOMES = {
  VALIDATION: ["Refused", "The arguments did not fit the tool."],
  NOT_FOUND: ["Not found", "There is no such tool or record."],
  MODE_RESTRICTED: ["Refused", "This tool is not allowed in this kind of session."],
  BUDGET_EXCEEDED: ["Refused", "The calls of this turn are used up."],
  LOOP_DETECTED: ["Refused", "The agent was repeating itself."],
  CONFIRMATION_REQUIRED: ["Waiting for you", "It runs only if you approve."],
  CONFIRMATION_EXPIRED: ["Refused", "The approval was no longer valid. Nothing was done."],
  CONFIRMATION_DECLINED: ["Declined", "You said no. Nothing was done."],
  CANCELLED: ["Cancelled", "It was stopped before its end."],
  OUTCOME_UNKNOWN: ["Outcome unknown", "It may or may not have happened."],
  SESSION_INACTIVE: ["Refused", "The session was over."],
  SESSION_ACTIVE: ["Refused", "A voice session is already running."],
  TRANSIENT: ["Failed", "It did not work this time."],
  PERMANENT: ["Failed", "It cannot work."],
  RATE_LIMIT: ["Refused", "Too many calls in a short time."],
  AUTH: ["Failed", "Somebody has to sign in again first."],
  CONFLICT: ["Failed", "It conflicts with something that is already there."],
  INTERNAL: ["Failed", "The tool broke."],
};

function nameOf(tool) {
  return shorten(textOf(tool) || "unnamed tool", 80);
}

export class Calls {
  #list;
  #summary;
  #empty;
  #rows = [];
  #groups = [];
  #isTurnOver = true;
  #timer = 0;
  #count = 0;

  /** `onChange()` follows each beginning and end. `onStop(callId)` where the user wants a call stopped. */
  constructor({ list, summary, empty, onChange, onStop }) {
    this.#list = list;
    this.#summary = summary;
    this.#empty = empty;
    Object.assign(this, { onChange, onStop });
  }

  /** The phrase of the newest call that still runs, or "". */
  get runningStatus() {
    const running = this.#rows.findLast((row) => row.state === "running");
    return running ? running.status.textContent || `Using ${running.tool}` : "";
  }

  turnBegins() {
    this.#isTurnOver = true;
  }

  started({ callId, tool, args, argsOmitted, status, parentCallId }) {
    const row = (callId ? this.#find(callId, tool) : null) ?? this.#newRow(callId, tool, parentCallId);
    if (row.state !== "running") row.runs.push({ from: Date.now(), to: null });
    this.#ask(row, args, argsOmitted);
    row.status.replaceChildren(...phrase(shorten(textOf(status), 300)));
    row.output.textContent = "";
    // What a tool asked for stops with the call above it.
    row.canStop = Boolean(callId) && !parentCallId;
    row.stop.disabled = false;
    this.#setState(row, "running");
    this.#timer ||= setInterval(() => this.#tick(), TICK_MS);
  }

  progress({ callId, tool, message, fraction }) {
    const row = this.#find(callId, tool);
    if (!row) return;
    if (textOf(message)) row.status.replaceChildren(...phrase(shorten(message, 300)));
    const part = numberOf(fraction);
    row.bar.hidden = !Number.isFinite(part);
    if (Number.isFinite(part)) row.bar.value = Math.max(0, Math.min(1, part));
    this.onChange();
  }

  /** A piece of a call's result. */
  output({ callId, tool, data }) {
    const row = this.#find(callId, tool);
    if (!row || data === undefined) return;
    const { output } = row;
    const isAtEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 1;
    const piece = typeof data === "string" ? data : `${writeJson(data)}\n`;
    output.textContent = (output.textContent + piece).slice(-OUTPUT_CHARACTERS_MAX);
    if (isAtEnd) output.scrollTop = output.scrollHeight;
  }

  /** The outcome of the user's wish to stop a call. */
  cancelled({ callId, outcome }) {
    const row = this.#find(callId);
    if (!row) return;
    row.canStop = false;
    row.stop.hidden = true;
    if (outcome === "stopping") row.outcome.replaceChildren(element("strong", "", "Asked to stop"), "What has gone too far comes to its end. How it ends is told here.");
    else if (outcome === "runs_on") row.outcome.replaceChildren(element("strong", "", "It goes on"), "What it changes has begun. How it ends is told here.");
    else if (outcome !== "stopped") row.outcome.textContent = "It cannot be stopped any more.";
    else return;
    announce(row.outcome.textContent);
  }

  notCancelled(callId, { isBusy = false } = {}) {
    const row = this.#find(callId);
    if (!row) return;
    row.stop.disabled = false;
    row.isStopWanted = false;
    const reason = isBusy ? "The conversation is busy" : "The server was not reached";
    row.outcome.textContent = `${reason}, so that it was not stopped. Try again.`;
    announce(row.outcome.textContent);
  }

  /** `args` come with a call that never ran, `result` with one that worked, `message` with one that did not. */
  finished({ callId, tool, ok, durationMs, errorType, message, accepted, args, argsOmitted, result, parentCallId }) {
    const row = this.#find(callId, tool) ?? this.#newRow(callId, tool, parentCallId);
    if (args || argsOmitted) this.#ask(row, args, argsOmitted);
    this.#ran(row, numberOf(durationMs), Date.now());
    if (accepted === true) this.#accept(row);
    else this.#conclude(row, { ok: ok === true, errorType: textOf(errorType), message: textOf(message), result });
  }

  /** A call from before the page was loaded, `at` a time of the server. */
  recalled({ at, turn, mode, callId, tool, ok, durationMs, errorType, message, accepted, args, result, parentCallId }) {
    const key = `${numberOf(turn)} ${textOf(mode)}`;
    if (Number.isFinite(numberOf(turn)) && this.#groups.at(-1)?.key !== key) this.turnBegins();
    const row = this.#find(callId, tool) ?? this.#newRow(callId, tool, parentCallId);
    if (Number.isFinite(numberOf(turn))) row.group.key = key;
    if (args) this.#ask(row, args, false);
    row.runs = row.runs.filter(({ to }) => to !== null);
    this.#ran(row, numberOf(durationMs), unixMs(at) ?? Date.now());
    row.canStop = Boolean(callId) && !parentCallId;
    if (accepted === true) this.#accept(row);
    else this.#conclude(row, { ok: ok === true, errorType: textOf(errorType), message: textOf(message), result });
  }

  #accept(row) {
    row.bar.hidden = true;
    row.outcome.replaceChildren(element("strong", "", "Accepted"), "It is at work, and how it ends is told here.");
    this.#setState(row, "waiting", { isAtWork: true });
  }

  /** Calls of earlier messages, oldest first. */
  earlier(calls) {
    const known = new Set(this.#groups);
    this.#isTurnOver = true;
    for (const call of calls.slice(-Math.max(0, ROWS_MAX - this.#rows.length))) this.recalled(call);
    const added = this.#groups.filter((group) => !known.has(group));
    this.#groups = [...added, ...known];
    this.#list.append(...added.toReversed().map(({ item }) => item));
    this.#isTurnOver = true;
  }

  /** The outcome of a call that had waited for the user's approval. */
  confirmed({ callId, tool, ok, response }) {
    const row = this.#find(callId, tool);
    if (!row) return;
    const error = response?.error;
    this.#ran(row, numberOf(response?.meta?.durationMs), Date.now());
    this.#conclude(row, { ok: ok === true, errorType: textOf(error?.type), message: textOf(error?.message), result: response?.data });
  }

  /** Ends all open calls but these. */
  settle(open = []) {
    for (const row of this.#open.filter(({ callId }) => !open.includes(callId))) {
      row.outcome.textContent = "No outcome was reported.";
      this.#ran(row, NaN, Date.now());
      this.#setState(row, "failed");
    }
  }

  clear() {
    this.#rows = [];
    this.#groups = [];
    this.#count = 0;
    this.#isTurnOver = true;
    this.#list.replaceChildren();
    this.#render();
  }

  /** The call that still runs or waits; without an id the newest of its tool. Another session counts anew, so that an id comes again. */
  #find(callId, tool) {
    const isIt = (row) => row.callId === callId && (!tool || row.tool === nameOf(tool));
    return this.#open.findLast(isIt);
  }

  get #open() {
    return this.#rows.filter(({ state }) => state === "running" || state === "waiting");
  }

  /** `parentCallId` is that of the call whose tool asks for this one. */
  #newRow(callId, tool, parentCallId) {
    const name = nameOf(tool);
    const parent = parentCallId ? this.#rows.findLast((row) => row.callId === parentCallId) : undefined;
    const group = parent?.group ?? this.#groupNow();
    const row = {
      callId,
      tool: name,
      group,
      state: "running",
      /** When it ran, by this device's clock; a second time where it waited for the user in between. */
      runs: [{ from: Date.now(), to: null }],
      time: element("span", "call-time"),
      track: element("div", "call-track"),
      status: element("p", "call-status"),
      args: element("dl", "fields"),
      bar: element("progress", "call-progress"),
      stop: button("small call-stop", "Stop", () => {
        row.stop.disabled = true;
        row.isStopWanted = true;
        this.onStop(callId);
      }),
      output: element("div", "call-output"),
      outcome: element("p", "call-outcome"),
      message: element("p", "call-message"),
      view: element("div", "call-view"),
      result: element("details", "call-result"),
      children: element("ol", "call-children"),
    };
    row.bar.hidden = true;
    row.result.hidden = true;
    row.stop.hidden = true;
    row.canStop = false;
    row.isStopWanted = false;
    row.stop.setAttribute("aria-label", `Stop ${name}`);
    row.bar.max = 1;
    row.bar.setAttribute("aria-label", `Progress of ${name}`);
    row.track.setAttribute("aria-hidden", "true");
    row.children.setAttribute("aria-label", `Calls that ${name} made`);
    row.children.hidden = true;
    const head = element("p", "call-head", element("code", "call-name", name), row.time);
    row.item = element("li", "call", head, row.track, row.status, row.bar, row.stop, row.args, row.output, row.outcome, row.message, row.view, row.result, row.children);
    this.#rows.push(row);
    this.#count += 1;
    (parent?.children ?? group.list).append(row.item);
    if (parent) parent.children.hidden = false;
    while (this.#rows.length > ROWS_MAX) this.#forget(this.#groups[0]);
    return row;
  }

  #groupNow() {
    if (!this.#isTurnOver && this.#groups.length > 0) return this.#groups.at(-1);
    this.#isTurnOver = false;
    const group = { key: "", heading: element("p", "calls-turn"), list: element("ol", "calls-of-turn") };
    group.item = element("li", "", group.heading, group.list);
    this.#groups.push(group);
    this.#list.prepend(group.item);
    return group;
  }

  #forget(group) {
    group.item.remove();
    this.#groups = this.#groups.filter((other) => other !== group);
    this.#rows = this.#rows.filter((row) => row.group !== group);
  }

  #ask(row, args, isOmitted) {
    fillFields(row.args, args);
    if (isOmitted === true) row.args.append(element("div", "", element("dt", "", "Arguments"), element("dd", "", "too long to be shown")));
  }

  #ran(row, durationMs, to) {
    const last = row.runs.at(-1);
    const run = last && last.to === null ? last : { from: to, to: null };
    if (run !== last) row.runs.push(run);
    run.to = to;
    if (Number.isFinite(durationMs)) run.from = to - durationMs;
    row.time.textContent = durationText(run.to - run.from);
  }

  #conclude(row, { ok, errorType, message, result }) {
    row.bar.hidden = true;
    row.message.replaceChildren();
    row.view.replaceChildren();
    row.result.hidden = true;
    if (ok) {
      row.outcome.replaceChildren(element("strong", "", "Done"));
      showResult(row, result);
      this.#setState(row, "done");
      return;
    }
    if (errorType === "CANCELLED" && (row.isStopWanted || STOPPED_BY_USER.test(message))) {
      row.outcome.replaceChildren(element("strong", "", "Stopped"), "You stopped this.");
      this.#setState(row, "refused");
      return;
    }
    const [label, meaning] = Object.hasOwn(OUTCOMES, errorType) ? OUTCOMES[errorType] : ["Failed", ""];
    const type = errorType ? element("code", "error-type", shorten(errorType, 40)) : "";
    row.outcome.replaceChildren(...[element("strong", "", label), type, meaning].filter(Boolean));
    if (label !== "Waiting for you") row.message.replaceChildren(...withPointers(shorten(message, MESSAGE_CHARACTERS_MAX)));
    const state = { "Failed": "failed", "Outcome unknown": "failed", "Waiting for you": "waiting" }[label] ?? "refused";
    this.#setState(row, state);
  }

  /** `isAtWork`: the call waits for no user, and goes on although its answer was given. */
  #setState(row, state, { isAtWork = false } = {}) {
    row.state = state;
    row.stop.hidden = !(row.canStop && (state === "running" || isAtWork));
    if (state === "done" || state === "failed" || state === "refused") {
      row.status.replaceChildren();
      row.output.textContent = "";
    }
    row.item.dataset.state = state;
    this.#draw(row.group);
    this.#render();
  }

  #tick() {
    const running = this.#rows.filter(({ state }) => state === "running");
    for (const row of running) row.time.textContent = durationText(Date.now() - row.runs.at(-1).from);
    new Set(running.map(({ group }) => group)).forEach((group) => this.#draw(group));
    if (running.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = 0;
  }

  #draw(group) {
    const rows = this.#rows.filter((row) => row.group === group);
    const now = Date.now();
    const runs = rows.flatMap((row) => row.runs.map((run) => ({ row, from: run.from, to: run.to ?? now })));
    const place = scale(runs);
    const whole = place(Math.max(...runs.map(({ to }) => to)));
    for (const row of rows) row.track.replaceChildren();
    for (const { row, from, to } of runs) {
      const bar = element("span", "");
      bar.style.setProperty("--from", whole === 0 ? 0 : place(from) / whole);
      bar.style.setProperty("--part", whole === 0 ? 1 : (place(to) - place(from)) / whole);
      row.track.append(bar);
      row.track.title = place(from) === 0 ? "Began first in the turn" : `Began ${durationText(place(from))} after the first call of the turn`;
    }
    const began = Math.min(...runs.map(({ from }) => from));
    const calls = rows.length === 1 ? "1 call" : `${rows.length} calls`;
    group.heading.textContent = `${clockTime(began)} · ${calls} · ${durationText(whole)}`;
  }

  #render() {
    this.#empty.hidden = this.#rows.length > 0;
    const running = this.#rows.filter(({ state }) => state === "running").length;
    const total = this.#count === 0 ? "None yet" : this.#count === 1 ? "1 call" : `${this.#count} calls`;
    this.#summary.textContent = running > 0 ? `${total}, ${running} running` : total;
    this.onChange();
  }
}

/** Milliseconds from the first beginning to a time, with pauses in which nothing ran cut to `PAUSE_MS`. */
function scale(runs) {
  const cuts = [];
  let busyUntil = Infinity;
  for (const { from, to } of [...runs].sort((one, other) => one.from - other.from)) {
    if (from - busyUntil > PAUSE_MS) cuts.push({ at: from, by: from - busyUntil - PAUSE_MS });
    busyUntil = busyUntil === Infinity ? to : Math.max(busyUntil, to);
  }
  const began = Math.min(...runs.map(({ from }) => from));
  return (time) => time - began - cuts.filter(({ at }) => at <= time).reduce((sum, { by }) => sum + by, 0);
}

/** A call's result: its view, its JSON, and a button to copy it. */
function showResult(row, result) {
  if (result === undefined || result === null || result === "") return;
  const value = typeof result === "string" ? read(result) : result;
  const text = typeof value === "string" ? value : writeJson(value);
  const view = viewOf(value);
  if (view) row.view.replaceChildren(view);
  const beginning = shorten(flat(value).replace(/\s+/g, " "), SUMMARY_CHARACTERS_MAX);
  const summary = view ? ["As JSON"] : [element("span", "", "Result "), element("span", "call-brief", beginning)];
  const whole = element("div", "call-value", view ? element("code", "", shorten(text, JSON_CHARACTERS_MAX)) : valueNode(value), copyButton("Copy the result", () => text));
  row.result.replaceChildren(element("summary", "", ...summary), whole);
  row.result.hidden = false;
}

/** The text's JSON value, or the text. */
function read(text) {
  try {
    return readJson(text);
  } catch {
    return text;
  }
}

function withPointers(message) {
  return message.split(POINTER).map((part, at) => (at % 2 === 1 ? element("code", "", part) : part)).filter((part) => part !== "");
}
