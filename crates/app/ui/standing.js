// Owns the list of what the user has approved for more than one call, with a button for each that has the agent ask again. Knows no
// connection; the wish to be asked leaves through a callback.
import { countdown, countdownText, unixMs } from "./clock.js";
import { announce, button, element, textOf } from "./dom.js";
import { fillFields } from "./values.js";

const SHOWN_MAX = 100;

export class Standing {
  #box;
  #list;
  /** Rows by the mode of their sessions, and in each by their ids. */
  #rows = { text: new Map(), voice: new Map() };

  /** `onRevoke(approval)`, whose `mode` says for which sessions it stands. */
  constructor({ box, list }, { onRevoke }) {
    this.#box = box;
    this.#list = list;
    this.onRevoke = onRevoke;
  }

  /** The approvals that stand for sessions of a mode: all of them. */
  show(mode, approvals) {
    const rows = this.#rows[mode];
    const known = (Array.isArray(approvals) ? approvals : []).slice(0, SHOWN_MAX).filter((approval) => textOf(approval?.approvalId) !== "");
    const ids = new Set(known.map(({ approvalId }) => approvalId));
    for (const [id, row] of rows) if (!ids.has(id)) this.#remove(rows, id, row);
    for (const approval of known) if (!rows.has(approval.approvalId)) this.#add(rows, approval);
    this.#arrange();
  }

  /** Those of all sessions of the conversation, as the server keeps them. */
  recalled(approvals) {
    const known = Array.isArray(approvals) ? approvals : [];
    for (const mode of Object.keys(this.#rows)) this.show(mode, known.filter((approval) => approval?.mode === mode));
  }

  clear() {
    for (const mode of Object.keys(this.#rows)) this.show(mode, []);
  }

  /** The server was not told. */
  notRevoked({ mode, approvalId }) {
    const row = this.#rows[mode]?.get(approvalId);
    if (!row) return;
    row.ask.disabled = false;
    row.clock.textContent = "The server was not reached. It still stands; try once more.";
  }

  #add(rows, approval) {
    const values = element("dl", "fields");
    // Each argument is named by its JSON pointer.
    const names = Object.entries(approval.arguments ?? {}).map(([pointer, value]) => [pointer.slice(1).replaceAll("~1", "/").replaceAll("~0", "~"), value]);
    fillFields(values, Object.fromEntries(names), true);
    const tool = textOf(approval.tool);
    const row = { clock: element("p", "card-clock"), stopClock: () => {} };
    row.ask = button("small", "Ask me again", () => {
      row.ask.disabled = true;
      this.onRevoke(approval);
    });
    row.ask.setAttribute("aria-label", `Ask me again before ${tool}`);
    row.item = element("li", "standing-row", element("p", "", element("code", "", tool), " runs without asking, with:"), values, row.clock, row.ask);
    rows.set(approval.approvalId, row);
    this.#list.append(row.item);
    const expiresAt = unixMs(approval.expiresAt);
    if (expiresAt !== null) row.stopClock = countdown(expiresAt, (leftMs) => this.#tick(rows, approval.approvalId, leftMs));
    announce(`${tool} runs without asking until its approval ends.`);
  }

  #tick(rows, id, leftMs) {
    const row = rows.get(id);
    if (leftMs > 0) row.clock.textContent = `For another ${countdownText(leftMs)}.`;
    else {
      this.#remove(rows, id, row);
      this.#arrange();
    }
  }

  #remove(rows, id, row) {
    row.stopClock();
    row.item.remove();
    rows.delete(id);
  }

  #arrange() {
    this.#box.hidden = Object.values(this.#rows).every((rows) => rows.size === 0);
  }
}
