// Owns the panel that says how each tool has done since the server's start. It asks when it is opened, and never before. Knows no
// session.
import { durationText } from "./clock.js";
import { button, element, shorten } from "./dom.js";
import { table } from "./views.js";

const TOOLS_MAX = 200;
const ERRORS_MAX = 6;
/** From the second column to before this one there are numbers. */
const NUMBERS_END = 5;
const HEADINGS = ["Tool", "Calls", "Worked", "p50", "p95", "Errors"];
const REFUSALS = {
  401: "You have to sign in first.",
  403: "On this server only callers that show an API key may read this: it tells of everybody’s calls. Ask for GET /api/tools/stats with one.",
};

export class ToolStats {
  #status;
  #box;
  /** How often was asked: an answer to an older question is not shown. */
  #asked = 0;

  /** `elements`: panel (a popover), status, box (what the table goes into). */
  constructor({ panel, status, box }) {
    this.#status = status;
    this.#box = box;
    panel.addEventListener("toggle", ({ newState }) => newState === "open" && this.#load());
  }

  async #load() {
    const asked = (this.#asked += 1);
    this.#box.replaceChildren();
    this.#say("Asking…");
    try {
      const answer = await fetch("api/tools/stats", { headers: { accept: "application/json" } });
      const stats = answer.ok ? await answer.json() : null;
      if (asked !== this.#asked) return;
      if (stats) this.#show(stats);
      else this.#say(REFUSALS[answer.status] ?? `The server answers with status ${answer.status}.`, { mayHelp: answer.status >= 500 });
    } catch (error) {
      console.debug("how the tools do is not known", error.message);
      if (asked === this.#asked) this.#say("The server does not answer.", { mayHelp: true });
    }
  }

  #say(words, { mayHelp = false } = {}) {
    this.#status.replaceChildren(words, mayHelp ? button("small", "Try again", () => this.#load()) : "");
  }

  #show(stats) {
    const isTool = ([, tool]) => tool !== null && typeof tool === "object";
    const tools = Object.entries(stats).filter(isTool).sort(([, one], [, other]) => count(other.calls) - count(one.calls));
    if (tools.length === 0) {
      this.#say("No tool was called since the server started.");
      return;
    }
    const { box, body } = table("Tool statistics", HEADINGS);
    box.querySelectorAll("th").forEach((heading, at) => heading.classList.toggle("align-right", at > 0 && at < NUMBERS_END));
    body.append(...tools.slice(0, TOOLS_MAX).map(rowOf));
    this.#box.append(box);
    const beyond = tools.length > TOOLS_MAX ? ` The ${TOOLS_MAX} tools with the most calls are shown, of ${tools.length}.` : "";
    this.#say(`Everybody’s calls since the server started. Half of a tool’s last 1,000 calls took at most its p50, 95 of 100 its p95.${beyond}`);
  }
}

function count(value) {
  return Number.isFinite(value) ? value : 0;
}

function rowOf([name, tool]) {
  const calls = count(tool.calls);
  const took = (ms) => (calls > 0 ? durationText(ms) : "–");
  const cells = [calls, Number.isFinite(tool.successRate) ? percent(tool.successRate) : "–", took(tool.p50), took(tool.p95)];
  const errors = Object.entries(tool.errorsByType ?? {}).slice(0, ERRORS_MAX).map(([type, times]) => element("div", "", `${shorten(type, 40)} ${count(times)}`));
  const head = Object.assign(element("th", "", element("code", "", shorten(name, 80))), { scope: "row" });
  return element("tr", "", head, ...cells.map((cell) => element("td", "align-right", String(cell))), element("td", "", ...(errors.length > 0 ? errors : ["none"])));
}

/** Not rounded up to all: one failure is seen. */
function percent(share) {
  return `${Math.floor(share * 1000) / 10} %`;
}
