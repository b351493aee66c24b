// Owns the banner while the server cannot be reached: when it is tried next, and a button to try at once. Knows no conversation.
import { countdown, countdownText, serverNow } from "./clock.js";
import { button, element } from "./dom.js";

const WAIT_FIRST_MS = 1_000;
const WAIT_MAX_MS = 15_000;
const PROBE_MS = 10_000;

export class Reach {
  #notices;
  #wait = WAIT_FIRST_MS;
  #timer = 0;
  #stopClock = () => {};
  #clock = null;
  #tryNow = null;

  /** `onBack()`: the server answers again, after this has tried it. */
  constructor(notices, onBack) {
    this.#notices = notices;
    this.onBack = onBack;
    addEventListener("online", () => this.#timer !== 0 && this.#probe());
  }

  get isLost() {
    return this.#clock !== null;
  }

  /** A request found no server: it is tried until it answers. */
  lost() {
    if (this.#timer !== 0) return;
    this.#wait = WAIT_FIRST_MS;
    this.#next();
  }

  /** Somebody else tries again in `delayMs`, and at once after `tryNow()`. */
  waits(delayMs, tryNow) {
    this.#stop();
    this.#show(delayMs, tryNow);
  }

  /** Who tried again has given up. */
  takeOver() {
    if (this.#clock && this.#timer === 0) this.#next();
  }

  /** The server answers. */
  back() {
    this.#stop();
    this.#clock = null;
    this.#notices.hide("reach");
  }

  #next() {
    this.#show(this.#wait, () => this.#probe());
    this.#timer = setTimeout(() => this.#probe(), this.#wait);
    this.#wait = Math.min(WAIT_MAX_MS, this.#wait * 2);
  }

  async #probe() {
    this.#stop();
    this.#show(0, null);
    try {
      await fetch("health", { cache: "no-store", signal: AbortSignal.timeout(PROBE_MS) });
    } catch (error) {
      console.debug("the server does not answer", error.name);
      this.#next();
      return;
    }
    this.back();
    this.onBack();
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#stopClock();
  }

  #show(delayMs, tryNow) {
    this.#tryNow = tryNow;
    this.#clock ??= this.#banner();
    this.#stopClock();
    this.#stopClock = countdown(serverNow() + delayMs, (leftMs) => {
      this.#clock.textContent = leftMs > 0 ? `The next try is in ${countdownText(leftMs)}.` : "Trying…";
    });
  }

  /** Stays as it is until the server is back, so that a button in use is not taken away. */
  #banner() {
    const clock = element("span", "reach-clock");
    // A count each second is nothing to listen to.
    clock.setAttribute("aria-live", "off");
    const action = button("small", "Try now", () => this.#tryNow?.());
    const [title, words] = ["The server cannot be reached", "What you have written is kept. "];
    this.#notices.show("reach", { tone: "warning", title, text: words, action, lasting: true }).append(clock);
    return clock;
  }
}
