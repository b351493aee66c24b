// Owns asking the user whether a call may run. Knows no connection; the answer leaves through a callback.
import { countdown, countdownText, unixMs } from "./clock.js";
import { fillArgumentsWhole, textOf } from "./dom.js";

const QUEUE_MAX = 10;
// Answers that the server has not told of yet.
const ANSWERED_MAX = 20;
const HELD_WORDS = "The connection broke. You are asked again as soon as it is back.";
// A dialog that opens under somebody's typing must not take the next key press for an answer.
const GUARD_MS = 600;
// How long a server that is back may take to ask again what is still open.
const ASKED_AGAIN_WITHIN_MS = 5_000;

export class Confirmation {
  #parts;
  #waiting = [];
  #current = null;
  /** Questions that were answered here, until the server tells what came of them. */
  #answered = [];
  #stopClock = () => {};
  #guardTimer = 0;
  #heldTimer = 0;

  /** `parts`: dialog, title, warning, preview, plain, details, args, clock, approve, decline. `onAnswer(token, approved)`. */
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

  /** A `confirmation_request`; one for a call that already asks takes its place. */
  request(message) {
    if (typeof message.token !== "string") return;
    this.#answered = this.#answered.filter(({ callId }) => callId !== message.callId);
    if (this.#current?.callId === message.callId && this.#current) {
      this.#show(message);
      return;
    }
    this.#waiting = this.#waiting.filter(({ callId }) => callId !== message.callId);
    if (this.#waiting.length < QUEUE_MAX) this.#waiting.push(message);
    if (!this.#current || this.#current.isHeld) this.#next();
  }

  /** The connection is gone: what is open is asked again when it is back. */
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

  /** The server tells what came of a question. Whether it was open here: then somebody answered it elsewhere, or it was closed. */
  resolve(callId) {
    this.#answered = this.#answered.filter((message) => message.callId !== callId);
    const wasWaiting = this.#waiting.some((message) => message.callId === callId);
    this.#waiting = this.#waiting.filter((message) => message.callId !== callId);
    const wasShown = this.#current !== null && this.#current.callId === callId;
    if (wasShown) this.#next();
    return wasWaiting || wasShown;
  }

  /** The answer that was given here could not be taken: the question is open as before. Whether it was one of these. */
  again(callId) {
    const message = this.#answered.find((answered) => answered.callId === callId);
    if (message) this.request(message);
    return message !== undefined;
  }

  closeAll() {
    this.#waiting = [];
    this.#answered = [];
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
    const { dialog, title, preview, warning, plain, details, args, approve, decline } = this.#parts;
    this.#current = message;
    warning.textContent = textOf(message.warning);
    const warns = warning.textContent !== "";
    warning.hidden = !warns;
    dialog.classList.toggle("warns", warns);
    title.textContent = warns ? "Look twice: may the agent do this?" : "May the agent do this?";
    // Without words of the tool's own the arguments are what is decided by, so that they are not folded away.
    const words = textOf(message.preview);
    preview.textContent = words || `Run ${textOf(message.tool)} with:`;
    fillArgumentsWhole(plain, words ? null : message.args);
    fillArgumentsWhole(args, words ? message.args : null);
    details.hidden = !words;
    details.open = false;
    decline.textContent = "No, do not";
    approve.textContent = warns ? "Yes, all the same" : "Yes, go ahead";
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
    const { isExpired, ...message } = this.#current;
    if (!isExpired) {
      this.#answered = [...this.#answered, message].slice(-ANSWERED_MAX);
      this.onAnswer(message.token, approved);
    }
    this.#next();
  }
}
