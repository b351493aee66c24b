// Owns asking the user whether calls may run: a card for each request, in the conversation. Never moves the focus, so that no key
// that somebody types is taken for an answer. Knows no connection; the answer leaves through a callback.
import { askedForm } from "./asked.js";
import { countdown, countdownText, unixMs } from "./clock.js";
import { announce, button, element, textOf } from "./dom.js";
import { fillFields, phrase, visible } from "./values.js";

const CARDS_MAX = 20;
const HELD_WORDS = "The connection broke. You are asked again as soon as it is back.";
/** Milliseconds after cards have moved in which no click counts. */
const GUARD_MS = 600;
/** Milliseconds for a server that is back to ask again. */
const ASKED_AGAIN_WITHIN_MS = 5_000;
/** As the server keeps it. */
const REASON_CHARACTERS_MAX = 1_000;
const KEYS = { y: true, n: false };

const APPROVAL_TOO_LATE = "The time to approve has run out. Nothing was done; ask again if you still want it.";
// A service may have begun before it asked.
const ASKED_TOO_LATE = "The time to answer has run out. Whether anything was done is not known; ask before you want it again.";

export class Approvals {
  #box;
  #list;
  #title;
  #cards = [];
  #guardTimer = 0;
  #heldTimer = 0;

  /** `onAnswer(token, approved, { reason, remember, content, cancelled })`, `onChange()`, `onLeave()` where the user goes back to typing. */
  constructor({ box, title, list }, { onAnswer, onChange, onLeave }) {
    this.#box = box;
    this.#title = title;
    this.#list = list;
    Object.assign(this, { onAnswer, onChange, onLeave });
  }

  /** How many requests wait for the user. */
  get waiting() {
    return this.#cards.filter(({ state }) => state === "open" || state === "held").length;
  }

  get callIds() {
    return this.#cards.map(({ message }) => message.callId);
  }

  /** Takes the user to the oldest request: only ever where the user asks for it. */
  show() {
    const card = this.#cards.find(({ state }) => state === "open" || state === "held");
    card?.item.scrollIntoView({ block: "nearest" });
    card?.item.focus({ preventScroll: true });
  }

  /** A `confirmation_request`; one for a call that already asks takes its place. */
  request(message) {
    if (typeof message.token !== "string") return;
    const known = this.#cards.find(({ message: { callId, token } }) => token === message.token || (callId === message.callId && callId));
    if (!known && this.#cards.length >= CARDS_MAX) return;
    const card = known ?? this.#newCard();
    const isNews = !known || known.message.token !== message.token;
    this.#fill(card, message);
    const who = card.asked ? `“${card.asked.from}” asks you something` : "The agent asks for your approval";
    if (isNews) announce(`${who}: ${card.summary}`, { isUrgent: true });
    this.#arrange();
  }

  /** The connection is gone. */
  hold() {
    clearTimeout(this.#heldTimer);
    for (const card of this.#cards) {
      if (card.state === "open" || card.state === "answered") this.#setState(card, "held", HELD_WORDS);
    }
    this.#arrange();
  }

  /** The connection is back: held cards that are not asked again go. */
  reconnected() {
    clearTimeout(this.#heldTimer);
    this.#heldTimer = setTimeout(() => {
      this.#cards.filter(({ state }) => state === "held").forEach((card) => this.#remove(card));
    }, ASKED_AGAIN_WITHIN_MS);
  }

  /** Requests can be answered without the connection that asked them. */
  release() {
    clearTimeout(this.#heldTimer);
    this.#cards.filter(({ state }) => state === "held").forEach((card) => this.#reopen(card));
  }

  /** The outcome of a request; whether it was open here. */
  resolve(callId) {
    const card = this.#cards.find(({ message }) => message.callId === callId);
    if (!card) return false;
    this.#remove(card);
    return card.state === "open" || card.state === "held";
  }

  /** The answer was not taken, and the request is open; whether it is one of these. */
  again(callId) {
    return this.#reopen(this.#cards.find((card) => card.state === "answered" && card.message.callId === callId));
  }

  /** The answer with this token did not reach the server. */
  notSent(token) {
    const card = this.#cards.find(({ message }) => message.token === token);
    if (this.#reopen(card)) card.clock.textContent = "Your answer did not reach the server. Nothing was done; answer once more.";
  }

  settled(token) {
    const card = this.#cards.find(({ message, state }) => message.token === token && state === "answered");
    if (card) this.#remove(card);
  }

  closeAll() {
    this.#cards.slice().forEach((card) => this.#remove(card));
  }

  #reopen(card) {
    if (!card) return false;
    this.#fill(card, card.message);
    this.#arrange();
    return true;
  }

  #newCard() {
    const parts = {
      title: element("h3", "card-title"),
      warning: element("p", "card-warning"),
      preview: element("p", "card-preview"),
      because: element("p", "card-because"),
      form: element("div", "card-form"),
      plain: element("dl", "fields"),
      sent: element("dl", "fields"),
      clock: element("p", "card-clock"),
    };
    const card = { ...parts, state: "open", message: {}, summary: "", stopClock: () => {} };
    card.details = element("details", "card-details", element("summary", "", "What exactly is sent"), card.sent);
    card.decline = button("secondary", "", () => this.#choose(card, false));
    card.approve = button("primary", "", () => this.#choose(card, true));
    card.later = button("secondary", "I do not want to decide", () => this.#choose(card, false, true));
    card.choices = element("div", "choices", card.decline, card.later, card.approve);
    card.reason = element("input", "");
    Object.assign(card.reason, { maxLength: REASON_CHARACTERS_MAX, placeholder: "Optional, for the agent", autocomplete: "off" });
    card.why = element("label", "card-why", "If not, why?", card.reason);
    card.remember = Object.assign(element("input", ""), { type: "checkbox" });
    card.rememberWords = element("span", "");
    card.standing = element("label", "card-remember", card.remember, card.rememberWords);
    card.item = element("li", "card", card.title, card.warning, card.preview, card.because, card.form, card.plain, card.details, card.why, card.standing, card.clock, card.choices);
    card.item.tabIndex = -1;
    card.item.addEventListener("keydown", (event) => this.#key(card, event));
    this.#cards.push(card);
    this.#list.append(card.item);
    return card;
  }

  #fill(card, message) {
    card.message = message;
    const warning = textOf(message.warning);
    const words = textOf(message.preview);
    card.title.textContent = warning ? "Look twice: may the agent do this?" : "May the agent do this?";
    card.warning.replaceChildren(...phrase(warning));
    card.warning.hidden = warning === "";
    card.item.classList.toggle("warns", warning !== "");
    // Without a preview the arguments are unfolded.
    card.preview.replaceChildren(...(words ? phrase(words) : ["Run ", element("code", "", textOf(message.tool)), " with:"]));
    this.#fillForm(card, message);
    const because = textOf(message.because);
    card.because.textContent = `Why you are asked: ${because}`;
    card.because.hidden = because === "";
    fillFields(card.plain, words ? null : message.args, true);
    fillFields(card.sent, words ? message.args : null, true);
    card.details.hidden = !words;
    const offer = rememberWords(message.remember);
    card.rememberWords.textContent = offer;
    // A box that is ticked belongs to the request for which it was.
    if (card.offered !== offer + message.token) card.remember.checked = false;
    card.offered = offer + message.token;
    card.summary = [card.warning.textContent, card.preview.textContent].filter(Boolean).join(" ");
    setChoice(card.decline, card.asked ? "No, I will not" : "No, do not", "N");
    setChoice(card.approve, card.asked ? "Send" : warning ? "Yes, all the same" : "Yes, go ahead", "Y");
    this.#setState(card, "open", "");
    card.stopClock();
    const expiresAt = unixMs(message.expiresAt);
    card.stopClock = expiresAt === null ? () => {} : countdown(expiresAt, (leftMs) => this.#tick(card, leftMs));
  }

  /** A service's form replaces the question whether the call may run. */
  #fillForm(card, message) {
    if (card.asked && card.formToken === message.token) return this.#showForm(card);
    card.asked = askedForm(message.input);
    card.formToken = message.token;
    card.form.replaceChildren(...(card.asked?.parts ?? []));
    this.#showForm(card);
  }

  #showForm(card) {
    card.form.hidden = !card.asked;
    card.preview.hidden = Boolean(card.asked);
    if (card.asked) card.title.textContent = `“${card.asked.from}” asks you something, for ${textOf(card.message.tool)}`;
  }

  /** `state`: open, held while the connection is gone, answered and not heard of yet, or expired. */
  #setState(card, state, words) {
    card.state = state;
    card.item.dataset.state = state;
    card.clock.textContent = words;
    card.approve.hidden = state === "expired";
    card.why.hidden = state !== "open" || Boolean(card.asked);
    card.later.hidden = state !== "open" || !card.asked;
    for (const field of card.form.querySelectorAll("input, select")) field.disabled = state !== "open";
    card.standing.hidden = state !== "open" || card.rememberWords.textContent === "";
    for (const choice of [card.decline, card.later, card.approve]) choice.setAttribute("aria-disabled", String(state === "held" || state === "answered"));
  }

  #tick(card, leftMs) {
    if (leftMs > 0) {
      if (card.state === "open") card.clock.textContent = `You can answer for another ${countdownText(leftMs)}.`;
      return;
    }
    if (card.state === "answered") return;
    card.title.textContent = "Too late to answer";
    this.#setState(card, "expired", card.asked ? ASKED_TOO_LATE : APPROVAL_TOO_LATE);
    setChoice(card.decline, "Close", "N");
    announce(`Too late to answer: ${card.summary}`);
    this.#arrange();
  }

  #key(card, event) {
    if (event.key === "Escape") {
      event.stopPropagation();
      this.onLeave();
      return;
    }
    // Keys in a form answer nothing; Enter sends it.
    if (card.form.contains(event.target)) {
      if (event.key === "Enter" && !event.isComposing && event.target.matches("input")) this.#choose(card, true);
      return;
    }
    // A key on the box ticks it, and answers nothing.
    if (event.target === card.remember) return;
    // Keys in a reason answer nothing; Enter there says no with it.
    if (event.target === card.reason) {
      if (event.key === "Enter" && !event.isComposing) this.#choose(card, false);
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !Object.hasOwn(KEYS, event.key.toLowerCase())) return;
    event.preventDefault();
    if (!event.repeat) this.#choose(card, KEYS[event.key.toLowerCase()]);
  }

  #choose(card, approved, cancelled) {
    if (card.decline.getAttribute("aria-disabled") === "true") return;
    if (card.state === "expired") {
      if (!approved) this.#remove(card);
      return;
    }
    // The browser says what is wrong, beside the field.
    if (approved && card.asked?.wrong()) return;
    const content = approved && card.asked ? card.asked.content() : undefined;
    const words = card.asked && approved ? "You have answered." : approved ? "You said yes." : "You said no.";
    this.#setState(card, "answered", `${words} The server is told.`);
    const reason = approved ? undefined : card.reason.value.trim() || undefined;
    const remember = (approved && card.rememberWords.textContent !== "" && card.remember.checked) || undefined;
    this.onAnswer(card.message.token, approved, { reason, remember, content, cancelled });
    this.#arrange();
  }

  #remove(card) {
    card.stopClock();
    this.#cards = this.#cards.filter((other) => other !== card);
    const hadFocus = card.item.contains(document.activeElement);
    card.item.remove();
    this.#arrange();
    if (!hadFocus) return;
    if (this.waiting > 0) this.show();
    else this.onLeave();
  }

  /** Says how many there are, and lets no click through to a card that has just come to lie under the pointer. */
  #arrange() {
    const { waiting } = this;
    this.#box.hidden = this.#cards.length === 0;
    this.#title.textContent = waiting > 1 ? `${waiting} requests wait for your approval` : "Waiting for your approval";
    const usable = () => this.#cards.filter(({ state }) => state === "open" || state === "expired").flatMap(({ decline, later, approve }) => [decline, later, approve]);
    usable().forEach((choice) => choice.setAttribute("aria-disabled", "true"));
    clearTimeout(this.#guardTimer);
    this.#guardTimer = setTimeout(() => usable().forEach((choice) => choice.setAttribute("aria-disabled", "false")), GUARD_MS);
    this.onChange();
  }
}

/** What the user is offered not to be asked about again; empty where nothing is offered. */
function rememberWords(offer) {
  if (offer === null || typeof offer !== "object") return "";
  const values = Object.entries(offer.arguments ?? {}).map(([pointer, value]) => `${pointer.slice(1).replaceAll("~1", "/").replaceAll("~0", "~")} ${typeof value === "string" ? `“${visible(value)}”` : textOf(JSON.stringify(value))}`);
  const minutes = Number(offer.minutes) === 1 ? "1 minute" : `${Number(offer.minutes)} minutes`;
  return `If yes, do not ask again for ${values.join(" and ")} for ${minutes}, or until the session ends.`;
}

function setChoice(choice, words, key) {
  const hint = element("kbd", "", key);
  hint.setAttribute("aria-hidden", "true");
  choice.replaceChildren(words, hint);
  choice.setAttribute("aria-keyshortcuts", key);
}
