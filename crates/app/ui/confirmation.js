// Owns asking the user whether a call may run. Knows no connection; the answer leaves through a callback.
import { countdown, countdownText, unixMs } from "./clock.js";
import { fillArguments, textOf } from "./dom.js";

const QUEUE_MAX = 10;
const HELD_WORDS = "The connection broke. You are asked again as soon as it is back.";
// A dialog that opens under somebody's typing must not take the next key press for an answer.
const GUARD_MS = 600;
// How long a server that is back may take to ask again what is still open.
const ASKED_AGAIN_WITHIN_MS = 5_000;

export class Confirmation {
  #parts;
  #waiting = [];
  #current = null;
  #stopClock = () => {};
  #guardTimer = 0;
  #heldTimer = 0;

  /** `parts`: dialog, title, preview, warning, args, clock, approve, decline. `onAnswer(token, approved)`. */
  constructor(parts, onAnswer) {
    this.#parts = parts;
    parts.approve.addEventListener("click", () => this.#answer(true));
    parts.decline.addEventListener("click", () => this.#answer(false));
    // Escape is an answer, and the safe one.
    parts.dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      this.#answer(false);
    });
    this.onAnswer = onAnswer;
  }

  /** A `confirmation_request`; one for a call that already asks replaces it, for its old token is dead. */
  request(message) {
    if (typeof message.token !== "string") return;
    if (this.#current?.callId === message.callId && this.#current) {
      this.#show(message);
      return;
    }
    this.#waiting = this.#waiting.filter(({ callId }) => callId !== message.callId);
    if (this.#waiting.length < QUEUE_MAX) this.#waiting.push(message);
    if (!this.#current || this.#current.isHeld) this.#next();
  }

  /** The connection is gone, and with it the tokens: what is open is asked again under new ones. */
  hold() {
    clearTimeout(this.#heldTimer);
    this.#waiting = [];
    if (!this.#current || this.#current.isExpired) return;
    this.#current = { ...this.#current, isHeld: true };
    clearTimeout(this.#guardTimer);
    const { approve, decline, clock } = this.#parts;
    approve.disabled = decline.disabled = true;
    clock.textContent = HELD_WORDS;
  }

  /** The connection is back. What is not asked again was settled meanwhile. */
  reconnected() {
    if (!this.#current?.isHeld) return;
    clearTimeout(this.#heldTimer);
    this.#heldTimer = setTimeout(() => {
      if (this.#current?.isHeld) this.#next();
    }, ASKED_AGAIN_WITHIN_MS);
  }

  /** The call was settled, here or in another window. */
  resolve(callId) {
    this.#waiting = this.#waiting.filter((message) => message.callId !== callId);
    if (this.#current?.callId === callId) this.#next();
  }

  closeAll() {
    this.#waiting = [];
    if (this.#current) this.#next();
  }

  #next() {
    this.#stopClock();
    this.#current = null;
    const message = this.#waiting.shift();
    if (message) this.#show(message);
    else this.#parts.dialog.close();
  }

  #show(message) {
    const { dialog, title, preview, warning, args, approve, decline } = this.#parts;
    this.#current = message;
    title.textContent = "May the agent do this?";
    preview.textContent = textOf(message.preview) || `Run ${textOf(message.tool)}`;
    warning.textContent = textOf(message.warning);
    warning.hidden = !warning.textContent;
    fillArguments(args, message.args);
    decline.textContent = "No, do not";
    approve.hidden = false;
    approve.disabled = decline.disabled = true;
    clearTimeout(this.#guardTimer);
    this.#guardTimer = setTimeout(() => {
      approve.disabled = decline.disabled = false;
      decline.focus();
    }, GUARD_MS);
    if (!dialog.open) dialog.showModal();
    this.#stopClock();
    const expiresAt = unixMs(message.expiresAt);
    this.#parts.clock.textContent = "";
    this.#stopClock = expiresAt === null ? () => {} : countdown(expiresAt, (leftMs) => this.#tick(leftMs));
  }

  #tick(leftMs) {
    const { title, clock, approve, decline } = this.#parts;
    if (leftMs > 0) {
      clock.textContent = this.#current.isHeld ? HELD_WORDS : `You can answer for another ${countdownText(leftMs)}.`;
      return;
    }
    title.textContent = "Too late to answer";
    clock.textContent = "The time to approve has run out. Nothing was done; ask again if you still want it.";
    approve.hidden = true;
    decline.textContent = "Close";
    decline.disabled = false;
    this.#current = { ...this.#current, isExpired: true };
  }

  #answer(approved) {
    if (!this.#current || this.#parts.decline.disabled) return;
    const { token, isExpired } = this.#current;
    if (!isExpired) this.onAnswer(token, approved);
    this.#next();
  }
}
