// Owns the list of tool calls: what was asked for, how long it takes, how it ended. Knows no connection.
import { element, fillArguments, shorten, textOf, valueText } from "./dom.js";
import { durationText } from "./clock.js";

const ROWS_MAX = 100;
const TICK_MS = 100;
const RESULT_CHARACTERS_MAX = 301;

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
  CANCELLED: ["Cancelled", "The call was taken back."],
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
  #timer = 0;
  #count = 0;

  /** `onChange()` follows each beginning and end. */
  constructor({ list, summary, empty, onChange }) {
    this.#list = list;
    this.#summary = summary;
    this.#empty = empty;
    this.onChange = onChange;
  }

  /** The phrase of the newest call that still runs, or "". */
  get runningStatus() {
    const running = this.#rows.findLast((row) => row.state === "running");
    return running ? running.status.textContent || `Using ${running.tool}` : "";
  }

  started({ callId, tool, args, status, parentCallId }) {
    const row = (callId ? this.#find(callId, tool) : null) ?? this.#newRow(callId, tool, parentCallId);
    fillArguments(row.args, args);
    row.status.textContent = shorten(textOf(status), 300);
    this.#setState(row, "running");
    this.#timer ||= setInterval(() => this.#tick(), TICK_MS);
  }

  progress({ callId, tool, message, fraction }) {
    const row = this.#find(callId, tool);
    if (!row) return;
    if (textOf(message)) row.status.textContent = shorten(message, 300);
    row.bar.hidden = !Number.isFinite(fraction);
    if (Number.isFinite(fraction)) row.bar.value = Math.max(0, Math.min(1, fraction));
    this.onChange();
  }

  /** `args` come with a call that never ran, `result` with one that worked. */
  finished({ callId, tool, ok, durationMs, errorType, accepted, args, result, parentCallId }) {
    const row = this.#find(callId, tool) ?? this.#newRow(callId, tool, parentCallId);
    if (args) fillArguments(row.args, args);
    const duration = Number.isFinite(durationMs) ? durationMs : performance.now() - row.startedAt;
    row.time.textContent = durationText(duration);
    if (accepted === true) {
      row.bar.hidden = true;
      row.outcome.replaceChildren(element("strong", "", "Accepted"), "A service is at work. It tells how it ends.");
      this.#setState(row, "waiting");
      return;
    }
    this.#conclude(row, ok === true, textOf(errorType), textOf(result));
  }

  /** The outcome of a call that had waited for the user's approval. */
  confirmed({ callId, tool, ok, response }) {
    const row = this.#find(callId, tool);
    if (!row) return;
    const ran = response?.meta?.durationMs;
    if (Number.isFinite(ran)) row.time.textContent = durationText(ran);
    this.#conclude(row, ok === true, textOf(response?.error?.type), valueText(response?.data ?? undefined));
  }

  /** Nothing more is heard of what still runs or waits, but for these calls. */
  settle(open = []) {
    for (const row of this.#open.filter(({ callId }) => !open.includes(callId))) {
      row.outcome.textContent = "No outcome was reported.";
      this.#setState(row, "failed");
    }
  }

  clear() {
    this.#rows = [];
    this.#count = 0;
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
    const parent = parentCallId ? this.#find(parentCallId) : undefined;
    const row = {
      callId,
      tool: name,
      state: "running",
      startedAt: performance.now(),
      time: element("span", "call-time"),
      status: element("p", "call-status"),
      args: element("dl", "args"),
      bar: element("progress", "call-progress"),
      outcome: element("p", "call-outcome"),
    };
    row.bar.hidden = true;
    row.bar.max = 1;
    row.bar.setAttribute("aria-label", `Progress of ${name}`);
    const asking = parent ? element("span", "call-parent", `for ${parent.tool}`) : "";
    const head = element("p", "call-head", element("code", "call-name", name), asking, row.time);
    row.item = element("li", "call", head, row.status, row.bar, row.args, row.outcome);
    this.#rows.push(row);
    this.#count += 1;
    this.#list.prepend(row.item);
    if (this.#rows.length > ROWS_MAX) this.#rows.shift().item.remove();
    return row;
  }

  #conclude(row, ok, errorType, result) {
    row.bar.hidden = true;
    if (ok) {
      const brought = result ? element("span", "call-result", shorten(result, RESULT_CHARACTERS_MAX)) : "";
      row.outcome.replaceChildren(element("strong", "", "Done"), brought);
      this.#setState(row, "done");
      return;
    }
    const [label, meaning] = Object.hasOwn(OUTCOMES, errorType) ? OUTCOMES[errorType] : ["Failed", ""];
    row.outcome.replaceChildren(
      element("strong", "", label),
      errorType ? element("code", "error-type", shorten(errorType, 40)) : "",
      meaning,
    );
    const state = { "Failed": "failed", "Outcome unknown": "failed", "Waiting for you": "waiting" }[label] ?? "refused";
    this.#setState(row, state);
  }

  #setState(row, state) {
    row.state = state;
    row.item.dataset.state = state;
    this.#render();
  }

  #tick() {
    const running = this.#rows.filter(({ state }) => state === "running");
    for (const row of running) row.time.textContent = durationText(performance.now() - row.startedAt);
    if (running.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = 0;
  }

  #render() {
    this.#empty.hidden = this.#rows.length > 0;
    const running = this.#rows.filter(({ state }) => state === "running").length;
    const total = this.#count === 0 ? "None yet" : this.#count === 1 ? "1 call" : `${this.#count} calls`;
    this.#summary.textContent = running > 0 ? `${total}, ${running} running` : total;
    this.onChange();
  }
}
