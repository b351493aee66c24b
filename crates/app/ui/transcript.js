// Owns the conversation as it is read: bubbles, citations, images. Knows no connection and no audio.
// A transcript message that is not final brings the next piece of its speaker's words; a final one brings all of them.
import { button, element, link, shorten, textOf, webAddress } from "./dom.js";

const LINES_MAX = 200;
const TYPED_MAX = 20;
const CITATIONS_MAX = 12;
/** So far from its end a reader still reads the end. */
const END_PX = 240;
const SPEAKERS = { user: "You", assistant: "Agent" };

export class Transcript {
  #log;
  #scroller;
  #isAtEnd = true;
  #open = { user: null, assistant: null };
  #last = { user: null, assistant: null };
  #typed = [];
  /** Addresses of the pictures since the user spoke last: each comes at once and again with the whole answer. */
  #shown = new Set();

  constructor(log, scroller) {
    this.#log = log;
    this.#scroller = scroller;
    scroller.addEventListener("scroll", () => (this.#isAtEnd = this.#isNearEnd()), { passive: true });
    // A keyboard that opens, or a phone that is turned, leaves less room: what was read stays in sight.
    new ResizeObserver(() => this.#isAtEnd && this.#toEnd()).observe(scroller);
  }

  get isEmpty() {
    return this.#log.childElementCount === 0;
  }

  /** Words that the user typed: shown at once, and not once more when the server tells them back. */
  typed(text) {
    this.#typed.push(text.trim());
    if (this.#typed.length > TYPED_MAX) this.#typed.shift();
    this.#settle(this.#newLine("user", text));
    this.#toEnd();
  }

  /**
   * Takes a `transcript` message. Returns whether it was the user's speech (and not typed words coming back). What is late, of
   * an answer that the user has cut off, completes its line or is dropped: below the line stands a newer question.
   */
  receive({ role, text, final, citations, images, isLate = false }) {
    if (!Object.hasOwn(SPEAKERS, role)) return false;
    const words = textOf(text);
    if (role === "user" && this.#isEcho(words)) return false;
    const line = this.#lineFor(role, words, final === true, isLate);
    if (!line) return false;
    if (final !== true) line.words.data += words;
    else if (words !== "") line.words.data = words;
    if (Array.isArray(citations)) this.#cite(line, citations);
    for (const image of Array.isArray(images) ? images : []) {
      const address = this.#newAddress(image);
      if (address) this.#addImage(line, address, image);
    }
    if (final === true) this.#settle(line);
    this.#follow();
    return role === "user";
  }

  /** An `image` message: a line of the agent's, or part of the one that is being spoken. */
  image(image) {
    const address = this.#newAddress(image);
    if (!address) return;
    this.#addImage(this.#open.assistant ?? this.#newLine("assistant", ""), address, image);
    this.#follow();
  }

  /** The answer under way begins again. */
  takeBack() {
    if (this.#open.assistant) this.#open.assistant.words.data = "";
  }

  /** The turn is over: nobody's words go on. */
  closeTurn() {
    for (const role of Object.keys(SPEAKERS)) if (this.#open[role]) this.#close(this.#open[role]);
  }

  /** The agent was cut off: what it said last is marked so. */
  markInterrupted() {
    const line = this.#open.assistant ?? this.#last.assistant;
    if (line && !line.article.classList.contains("interrupted") && line.article === this.#log.lastElementChild) {
      line.article.classList.add("interrupted");
      line.article.append(element("p", "remark", "interrupted"));
    }
    this.closeTurn();
  }

  /** Questions to click beneath the latest words. */
  offer(questions, onChoose) {
    this.#log.querySelector(".offer")?.remove();
    const list = element("ul", "suggestions offer");
    for (const question of questions) list.append(element("li", "", button("suggestion", question, () => onChoose(question))));
    this.#log.append(list);
    this.#follow();
  }

  /** The user goes on: what was offered in place of that is gone. */
  withdrawOffers() {
    for (const offer of this.#log.querySelectorAll(".offer, .ending button")) offer.remove();
  }

  /** The end of a session: a quiet line with what it means and a way on. */
  end(title, text, action) {
    this.closeTurn();
    this.withdrawOffers();
    const card = element("section", "ending", element("h2", "", title), text ? element("p", "", text) : "", action ?? "");
    this.#log.append(card);
    this.#follow();
  }

  clear() {
    this.#log.replaceChildren();
    this.#open = { user: null, assistant: null };
    this.#last = { user: null, assistant: null };
    this.#typed = [];
    this.#shown.clear();
  }

  #isEcho(words) {
    const at = this.#typed.indexOf(words.trim());
    if (at < 0) return false;
    this.#typed.splice(0, at + 1);
    return true;
  }

  /** The line that a message continues; a new one, or none for a message that says nothing. */
  #lineFor(role, words, isFinal, isLate) {
    if (this.#open[role]) return this.#open[role];
    const last = this.#last[role];
    // A final text may come after its turn was closed, and citations after their final text.
    if (last && isFinal && (words === "" || (!last.isSettled && words.startsWith(last.words.data)))) return last;
    return isLate || words.trim() === "" ? null : this.#newLine(role, "");
  }

  #newLine(role, text) {
    const words = document.createTextNode(text);
    const article = element("article", `line ${role}`, element("h3", "speaker", SPEAKERS[role]), element("p", "words", words));
    const line = { role, article, words, isSettled: false };
    article.dataset.open = "";
    // Screen readers hear a line once, when it is whole, not piece by piece.
    article.setAttribute("aria-hidden", "true");
    // Recognised speech often arrives when its answer has begun already; it still belongs before it.
    const answer = role === "user" ? this.#open.assistant : null;
    if (role === "user" && !answer) this.#shown.clear();
    this.#log.insertBefore(article, answer?.article ?? null);
    this.#open[role] = line;
    while (this.#log.childElementCount > LINES_MAX) this.#log.firstElementChild.remove();
    return line;
  }

  #settle(line) {
    line.isSettled = true;
    this.#close(line);
  }

  #close(line) {
    delete line.article.dataset.open;
    line.article.removeAttribute("aria-hidden");
    if (this.#open[line.role] === line) this.#open[line.role] = null;
    this.#last[line.role] = line;
  }

  #cite(line, citations) {
    line.article.querySelector(".citations")?.remove();
    const list = element("ol", "citations");
    list.setAttribute("aria-label", "Sources");
    for (const citation of citations.slice(0, CITATIONS_MAX)) {
      const given = typeof citation === "string" ? { id: citation } : citation ?? {};
      const [id, title, url] = [given.id, given.title, given.url].map(textOf);
      const made = link("citation", shorten(title || id || url, 120), url);
      if (id) made.title = id;
      list.append(element("li", "", made));
    }
    if (list.childElementCount > 0) line.article.append(list);
  }

  /** Where an image is that is not shown yet. */
  #newAddress(image) {
    const address = webAddress(textOf(image?.url ?? image));
    if (!address || this.#shown.has(address.href)) return null;
    this.#shown.add(address.href);
    return address;
  }

  /** An image of this server is shown; one from elsewhere is a link, so that reading a page tells no stranger. */
  #addImage(line, address, image) {
    const caption = textOf(image?.caption);
    const figure = element("figure", "image");
    if (address.origin === location.origin) {
      const picture = element("img");
      picture.alt = caption || "Image from the agent";
      picture.addEventListener("load", () => this.#follow());
      picture.src = address.href;
      figure.append(picture, caption ? element("figcaption", "", caption) : "");
    } else {
      figure.append(link("citation", `Open image: ${shorten(caption || address.hostname, 120)}`, address.href));
    }
    line.article.append(figure);
  }

  /** Keeps the end in sight, unless the reader has scrolled back. */
  #follow() {
    if (this.#isNearEnd()) this.#toEnd();
  }

  #isNearEnd() {
    const box = this.#scroller;
    return box.scrollHeight - box.scrollTop - box.clientHeight < END_PX;
  }

  #toEnd() {
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }
}
