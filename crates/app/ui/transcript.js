// Owns the conversation as it is read: messages, sources, images, and what can be done with each. Knows no connection and no audio.
// A transcript message that is not final brings the next piece of its speaker's words; a final one brings all of them.
import { announce, button, copyButton, DRAWINGS, element, iconButton, link, shorten, textOf, webAddress } from "./dom.js";
import { Markdown } from "./markdown.js";

const LINES_MAX = 10_000;
/** Lines of one part, and parts of one group: a browser skips, lays out and draws them together. */
const PART_LINES = 20;
const CHAPTER_PARTS = 25;
const CITATIONS_MAX = 12;
const SPOKEN_CHARACTERS_MAX = 4_000;
/** Pixels from the end at which a reader still reads the end. */
const END_PX = 240;
/** Milliseconds after a wheel, a finger or a key in which the reader moves the window. */
const USED_MS = 400;
const SPEAKERS = { user: "You", assistant: "Agent" };

/** What the user said, as it was typed. */
class PlainText {
  #node = document.createTextNode("");

  constructor(box) {
    box.append(this.#node);
  }

  get text() {
    return this.#node.data;
  }

  append(piece) {
    this.#node.data += piece;
  }

  set(text) {
    this.#node.data = text;
  }

  settle() {}
}

export class Transcript {
  #log;
  #scroller;
  #toEndButton;
  #isAtEnd = true;
  /** What the window was when it was scrolled last, and when a reader last used it. */
  #seen = { top: 0, height: 0 };
  #usedAt = -Infinity;
  #open = { user: null, assistant: null };
  #last = { user: null, assistant: null };
  /** The lines with which most can be done. */
  #newest = [];
  #count = 0;
  #parts = 0;
  /** The next answer replaces the one on the page. */
  #isReplaced = false;
  /** Addresses of pictures since the user's last message: each comes twice. */
  #shown = new Set();

  /** `onEdit(text)` and `onAgain()` where the user wants to change the last message, or another answer. */
  constructor(log, scroller, toEndButton, { onEdit, onAgain }) {
    this.#log = log;
    this.#scroller = scroller;
    this.#toEndButton = toEndButton;
    Object.assign(this, { onEdit, onAgain });
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
      scroller.addEventListener(kind, () => (this.#usedAt = performance.now()), { passive: true });
    }
    // The end stays in sight while lines or keyboards change the room. Once a frame:
    // reading the height lays out all lines.
    const follow = new ResizeObserver(() => this.#isAtEnd && this.#toEnd());
    [scroller, scroller.firstElementChild].forEach((box) => follow.observe(box));
    toEndButton.addEventListener("click", () => this.#toEnd());
    log.addEventListener("keydown", (event) => this.#walk(event));
  }

  get isEmpty() {
    return this.#log.querySelector(".part > *") === null;
  }

  /** Whether older lines would have no room. */
  get isFull() {
    return this.#parts >= LINES_MAX / PART_LINES;
  }

  get length() {
    return this.#entries.length;
  }

  get #entries() {
    return [...this.#log.querySelectorAll(".part > *")];
  }

  #add(entry) {
    let part = this.#log.lastElementChild?.lastElementChild;
    if (!part || part.childElementCount >= PART_LINES) {
      part = element("div", "part");
      let chapter = this.#log.lastElementChild;
      if (!chapter || chapter.childElementCount >= CHAPTER_PARTS) {
        chapter = element("div", "chapter");
        this.#log.append(chapter);
      }
      chapter.append(part);
      this.#parts += 1;
    }
    part.append(entry);
  }

  typed(text, pictures = []) {
    for (const way of this.#log.querySelectorAll(".problem button")) way.remove();
    const line = this.#newLine("user", text);
    if (pictures.length > 0) line.article.querySelector(".words").after(element("div", "attached", ...pictures));
    this.#settle(line);
    this.#toEnd();
  }

  /**
   * Takes a `transcript` message. What is late, of an answer that the user has cut off, completes its line or is dropped: below
   * the line stands a newer question. What is old is not said to screen readers.
   */
  receive({ role, text, final, citations, images, isLate = false, isOld = false }) {
    if (!Object.hasOwn(SPEAKERS, role)) return;
    const words = textOf(text);
    if (role === "assistant" && this.#isReplaced && words !== "") this.#removeAnswer();
    const line = this.#lineFor(role, words, final === true, isLate);
    if (!line) return;
    line.isOld = isOld;
    if (final !== true) line.words.append(words);
    else if (words !== "") line.words.set(words);
    if (Array.isArray(citations)) this.#cite(line, citations);
    for (const image of Array.isArray(images) ? images : []) {
      const address = this.#newAddress(image);
      if (address) this.#addImage(line, address, image);
    }
    if (final === true) this.#settle(line);
  }

  /** Shows words that were said before all that stands here, oldest first; what the reader sees stays where it is. */
  earlier(words) {
    const { scrollHeight, scrollTop } = this.#scroller;
    const lines = words.map(({ role, text, citations, images }) => this.#oldLine(role, textOf(text), citations, images));
    const parts = inPieces(lines, PART_LINES).map((piece) => element("div", "part", ...piece));
    this.#log.prepend(...inPieces(parts, CHAPTER_PARTS).map((piece) => element("div", "chapter", ...piece)));
    this.#parts += parts.length;
    this.#measure();
    if (!this.#isAtEnd) this.#scroller.scrollTop = scrollTop + this.#scroller.scrollHeight - scrollHeight;
  }

  #oldLine(role, text, citations, images) {
    const line = this.#made(role, text);
    line.words.settle();
    if (Array.isArray(citations)) this.#cite(line, citations);
    for (const image of Array.isArray(images) ? images : []) {
      const address = webAddress(textOf(image?.url));
      if (address) this.#addImage(line, address, image);
    }
    const copy = copyButton("Copy this message", () => line.words.text);
    copy.tabIndex = -1;
    line.actions.append(copy);
    return line.article;
  }

  /** An `image` message: a line of the agent's, or part of the one that is being spoken. */
  image(image) {
    const address = this.#newAddress(image);
    if (!address) return;
    this.#addImage(this.#open.assistant ?? this.#newLine("assistant", ""), address, image);
  }

  takeBack() {
    if (this.#open.assistant) this.#open.assistant.words.set("");
  }

  /** The last message is answered anew; the old answer stays until then. */
  replaceAnswer() {
    this.#settleProblem();
    this.#isReplaced = true;
  }

  /** The turn is over: nobody's words go on. */
  closeTurn() {
    this.#isReplaced = false;
    for (const role of Object.keys(SPEAKERS)) if (this.#open[role]) this.#close(this.#open[role]);
    this.#offerActions();
  }

  /** Marks the agent's last words as cut off. */
  markInterrupted() {
    const line = this.#open.assistant ?? this.#last.assistant;
    if (line && !line.article.classList.contains("interrupted") && line.article === this.#log.lastElementChild.lastElementChild.lastElementChild) this.#remark(line, "interrupted");
    this.closeTurn();
  }

  /** Marks an answer that broke off. */
  markCut() {
    const line = this.#open.assistant;
    if (line) this.#remark(line, "cut off");
    this.closeTurn();
  }

  #remark(line, words) {
    line.article.classList.add("interrupted");
    line.article.querySelector(".words").after(element("p", "remark", words));
  }

  /** Why a message has no answer, or half of one, with a way to try again where there is one. */
  problem({ title, text, onRetry = null }) {
    this.#settleProblem();
    const retry = onRetry
      ? button("small", "Retry", () => {
          this.#settleProblem();
          onRetry();
        })
      : "";
    this.#add(element("section", "problem", element("p", "problem-text", element("strong", "", title), " ", text), retry));
    announce(`${title} ${text}`);
  }

  #settleProblem() {
    this.#log.querySelectorAll(".problem").forEach((problem) => problem.remove());
  }

  /** Questions to click beneath the latest words. */
  offer(questions, onChoose) {
    this.#log.querySelector(".offer")?.remove();
    const list = element("ul", "suggestions offer");
    for (const question of questions) list.append(element("li", "", button("suggestion", question, () => onChoose(question))));
    this.#add(list);
  }

  /** Takes offers away once the user goes on. */
  withdrawOffers() {
    for (const offer of this.#log.querySelectorAll(".offer, .ending button")) offer.remove();
  }

  /** The end of a session: a quiet line with what it means and a way on. */
  end(title, text, action) {
    this.closeTurn();
    this.withdrawOffers();
    const card = element("section", "ending", element("h2", "", title), text ? element("p", "", text) : "", action ?? "");
    this.#add(card);
  }

  clear() {
    this.#log.replaceChildren();
    this.#parts = 0;
    this.#open = { user: null, assistant: null };
    this.#last = { user: null, assistant: null };
    this.#newest = [];
    this.#isReplaced = false;
    this.#shown.clear();
    this.#isAtEnd = true;
    this.#scrolled();
  }

  /** Where the reader is: null at the end, else a line counted from the end and how far its top lies below the window's. */
  get place() {
    if (this.#isAtEnd) return null;
    const top = this.#scroller.getBoundingClientRect().top;
    const lines = this.#entries;
    const at = lines.findIndex((line) => line.getBoundingClientRect().bottom > top);
    return at < 0 ? null : { fromEnd: lines.length - at, offset: lines[at].getBoundingClientRect().top - top };
  }

  goTo({ fromEnd, offset }) {
    const line = this.#entries.at(-fromEnd);
    if (!line || !Number.isFinite(offset)) return;
    this.#isAtEnd = false;
    this.#toEndButton.hidden = false;
    this.#measure();
    this.#scroller.scrollTop += line.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top - offset;
  }

  /** Measures all lines once: unseen ones have a guessed height. */
  #measure() {
    this.#log.classList.add("measured");
    requestAnimationFrame(() => requestAnimationFrame(() => this.#log.classList.remove("measured")));
  }

  /** The line that a message continues; a new one, or none for a message that says nothing. */
  #lineFor(role, words, isFinal, isLate) {
    if (this.#open[role]) return this.#open[role];
    const last = this.#last[role];
    // A final text may come after its turn was closed, and citations after their final text.
    if (last && isFinal && (words === "" || (!last.isSettled && words.startsWith(last.words.text)))) return last;
    return isLate || words.trim() === "" ? null : this.#newLine(role, "");
  }

  #made(role, text) {
    const box = element(role === "user" ? "p" : "div", "words");
    box.dir = "auto";
    const words = role === "user" ? new PlainText(box) : new Markdown(box);
    const actions = element("div", "actions");
    const article = element("article", `line ${role}`, element("h2", "speaker", SPEAKERS[role]), box, actions);
    words.append(text);
    return { role, article, words, actions, order: 0, isSettled: false, isOld: false };
  }

  #newLine(role, text) {
    const line = this.#made(role, text);
    const { article } = line;
    article.dataset.open = "";
    // Recognised speech often arrives when its answer has begun already; it still belongs before it.
    const answer = role === "user" ? this.#open.assistant : null;
    this.#count += 1;
    line.order = answer ? answer.order - 0.5 : this.#count;
    if (role === "user" && !answer) this.#shown.clear();
    if (answer) answer.article.before(article);
    else this.#add(article);
    this.#open[role] = line;
    for (; this.#parts > LINES_MAX / PART_LINES; this.#parts -= 1) {
      const chapter = this.#log.firstElementChild;
      (chapter.childElementCount > 1 ? chapter.firstElementChild : chapter).remove();
    }
    return line;
  }

  #settle(line) {
    line.isSettled = true;
    this.#close(line);
  }

  #close(line) {
    line.words.settle();
    const isNew = Object.hasOwn(line.article.dataset, "open");
    delete line.article.dataset.open;
    if (this.#open[line.role] === line) this.#open[line.role] = null;
    this.#last[line.role] = line;
    if (!isNew) return;
    line.actions.append(copyButton("Copy this message", () => line.words.text));
    // Screen readers hear an answer once, when it is whole, not piece by piece.
    const said = line.article.querySelector(".words").textContent;
    if (line.role === "assistant" && said !== "" && !line.isOld) announce(shorten(said, SPOKEN_CHARACTERS_MAX));
    this.#offerActions();
  }

  /** The newest message and answer alone have actions that Tab meets. */
  #offerActions() {
    for (const { actions } of this.#newest) {
      actions.classList.remove("newest");
      actions.querySelector(".for-newest")?.remove();
      for (const action of actions.children) action.tabIndex = -1;
    }
    const { user, assistant } = this.#last;
    this.#newest = [user, assistant].filter((line) => line?.actions.isConnected);
    for (const { actions } of this.#newest) {
      actions.classList.add("newest");
      for (const action of actions.children) action.tabIndex = 0;
    }
    user?.actions.append(iconButton("for-newest", "Edit this message", DRAWINGS.edit, () => this.onEdit(user.words.text)));
    if (!user || this.#open.assistant || !this.#newest.includes(assistant) || assistant.order < user.order) return;
    assistant.actions.append(iconButton("for-newest", "Answer again", DRAWINGS.again, () => this.onAgain(user.words.text)));
  }

  /** Up and down lead from the actions of one message to those of its neighbours. */
  #walk(event) {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    const actions = event.target.closest?.(".actions");
    if (!actions) return;
    const all = [...this.#log.querySelectorAll(".actions:has(button)")];
    const next = all[all.indexOf(actions) + (event.key === "ArrowUp" ? -1 : 1)];
    if (!next) return;
    event.preventDefault();
    next.querySelector("button").focus();
  }

  /** Replaces the agent's words since the user's last message. */
  #removeAnswer() {
    this.#isReplaced = false;
    const asked = this.#last.user?.article;
    for (const line of asked ? [...this.#log.querySelectorAll(".line.assistant")] : []) {
      if (asked.compareDocumentPosition(line) & Node.DOCUMENT_POSITION_FOLLOWING) line.remove();
    }
    this.#open.assistant = this.#last.assistant = null;
    this.#shown.clear();
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
    if (list.childElementCount > 0) line.actions.before(list);
  }

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
      picture.src = address.href;
      figure.append(picture, caption ? element("figcaption", "", caption) : "");
    } else {
      figure.append(link("citation", `Open image: ${shorten(caption || address.hostname, 120)}`, address.href));
    }
    line.actions.before(figure);
  }

  /** Only a reader who scrolls back leaves the end; lines that change do not. */
  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    const isNear = scrollHeight - scrollTop - clientHeight < END_PX;
    const isReaders = scrollHeight === this.#seen.height || performance.now() - this.#usedAt < USED_MS;
    const wentBack = isReaders && scrollTop < this.#seen.top;
    this.#isAtEnd = isNear || (this.#isAtEnd && !wentBack);
    this.#seen = { top: scrollTop, height: scrollHeight };
    this.#toEndButton.hidden = this.#isAtEnd;
  }

  #toEnd() {
    this.#isAtEnd = true;
    this.#toEndButton.hidden = true;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }
}

function inPieces(items, size) {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, at) => items.slice(at * size, (at + 1) * size));
}
