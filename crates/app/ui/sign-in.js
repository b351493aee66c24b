// Owns signing in: asks the server whether it is needed, shows how, and waits until it is done. A ticket may come along in the
// address, behind `#ticket=`; it is taken out of there at once. Knows no session.
import { textOf } from "./dom.js";

const TICKET = "#ticket=";
const FAILED = "#sign-in-failed";

export class SignIn {
  #elements;
  #waiting = null;
  #signedIn = () => {};

  /** `elements`: dialog, provider (a link), form, secret (a field), problem, leave (a button). */
  constructor(elements) {
    this.#elements = elements;
    elements.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#use(elements.secret.value.trim());
    });
    // Without signing in there is nothing to see behind it.
    elements.dialog.addEventListener("cancel", (event) => event.preventDefault());
    elements.leave.addEventListener("click", () => this.#leave());
  }

  /** Resolves when the server answers this browser: at once where it need not sign in, or has. */
  async ensure() {
    const shown = location.hash;
    if (shown.startsWith(TICKET) || shown === FAILED) history.replaceState(null, "", `${location.pathname}${location.search}`);
    if (shown.startsWith(TICKET) && (await this.#show(decodeURIComponent(shown.slice(TICKET.length))))) return;
    const state = await this.#ask();
    this.#elements.leave.hidden = state?.canSignOut !== true;
    if (state?.required !== true || state.signedIn === true) return;
    const { dialog, provider, problem, secret } = this.#elements;
    const at = textOf(state.signInAt);
    provider.hidden = at === "";
    if (at !== "") provider.href = at;
    problem.textContent = shown === "" ? "" : "Signing in did not work. Try again.";
    this.#waiting ??= new Promise((resolve) => {
      this.#signedIn = resolve;
    });
    if (!dialog.open) dialog.showModal();
    (at === "" ? secret : provider).focus();
    await this.#waiting;
  }

  async #ask() {
    try {
      const answer = await fetch("api/session", { headers: { accept: "application/json" } });
      return answer.ok ? await answer.json() : null;
    } catch (error) {
      console.debug("the server does not say whether to sign in", error.message);
      return null;
    }
  }

  async #use(secret) {
    const { dialog, problem, secret: field } = this.#elements;
    if (secret === "") return;
    problem.textContent = "";
    if (!(await this.#show(secret))) {
      problem.textContent = "This ticket or key does not count here, or not any more.";
      field.select();
      return;
    }
    field.value = "";
    dialog.close();
    this.#elements.leave.hidden = false;
    this.#waiting = null;
    this.#signedIn();
  }

  /** Whether the server has taken a ticket, a key or a token; then this browser has a cookie that says so. */
  async #show(secret) {
    try {
      const headers = { authorization: `Bearer ${secret}` };
      const answer = await fetch("api/session", { method: "POST", headers });
      return answer.ok;
    } catch (error) {
      console.debug("signing in did not reach the server", error.message);
      return false;
    }
  }

  async #leave() {
    await fetch("api/session", { method: "DELETE" });
    location.reload();
  }
}
