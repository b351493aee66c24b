// Owns turning a model's Markdown into elements, also while it is still being written. Nothing of it is ever markup of its own:
// HTML stays text, what is made passes a sanitiser, and only web addresses are links. Knows no conversation.
import { element, copyButton, webAddress } from "./dom.js";
import { DOMPurify, MarkdownIt } from "./vendor/markdown.js";

/** Longer texts are shown as they are from there on. */
const FORMATTED_CHARACTERS_MAX = 200_000;
const HEADING_FIRST = 3;
const FRAME_MS = 16;
/** Drawing takes at most this part of the time while a text grows. */
const SHARE = 1 / 8;
const CONFIG = {
  RETURN_DOM_FRAGMENT: true,
  ALLOWED_TAGS: ["a", "blockquote", "br", "code", "del", "div", "em", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol", "p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"],
  ALLOWED_ATTR: ["alt", "class", "dir", "href", "rel", "src", "start", "tabindex", "target", "title"],
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
};
/** Moves what is read, or hides in it. Joiners stay, which scripts and pictures need, and so do isolates, which end with their line. */
const HIDDEN = /[\0\r\u{200b}\u{202a}-\u{202e}\u{2060}\u{feff}\u{fff9}-\u{fffb}\u{e0000}-\u{e007f}]/gu;
const DIRECTED = new Set(["p", "li", "blockquote", "th", "td", "ul", "ol", "h3", "h4", "h5", "h6"]);
const DEFINITION = /^ {0,3}\[[^\]]+\]:/m;

const reader = new MarkdownIt({ html: false, linkify: true, breaks: true, maxNesting: 40 });
reader.linkify.set({ fuzzyLink: false, fuzzyEmail: false, fuzzyIP: false });
reader.validateLink = (address) => webAddress(address) !== null;
reader.core.ruler.push("fit", ({ tokens }) => tokens.forEach(fit));
reader.renderer.rules.table_open = (tokens, at, options, _, renderer) => `<div class="table" tabindex="0">${renderer.renderToken(tokens, at, options)}`;
reader.renderer.rules.table_close = () => "</table></div>";
reader.renderer.rules.image = (tokens, at) => {
  const escape = reader.utils.escapeHtml;
  const { content, attrs } = tokens[at];
  const address = webAddress(Object.fromEntries(attrs).src);
  const name = escape(content || address.hostname);
  // A picture from elsewhere is a link, so that reading a page tells no stranger.
  return isOwnPicture(address)
    ? `<img src="${escape(address.href)}" alt="${name}">`
    : `<a class="citation" href="${escape(address.href)}" target="_blank" rel="noopener noreferrer">Open image: ${name}</a>`;
};

/** Gives a token what the page wants of it: headings below its own, links that open beside it, classes where the policy forbids styles. */
function fit(token) {
  for (const child of token.children ?? []) fit(child);
  if (/^h\d$/.test(token.tag)) token.tag = `h${Math.min(6, Number(token.tag[1]) + HEADING_FIRST - 1)}`;
  if (token.type === "link_open") {
    token.attrSet("target", "_blank");
    token.attrSet("rel", "noopener noreferrer");
    token.attrSet("title", token.attrGet("href"));
  }
  const style = token.attrGet("style");
  if (style !== null) token.attrs = [["class", style.replace("text-align:", "align-")]];
  if (token.nesting === 1 && DIRECTED.has(token.tag)) token.attrSet("dir", "auto");
}

function isOwnPicture({ origin, pathname }) {
  return origin === location.origin && pathname.startsWith(new URL("assets/", document.baseURI).pathname);
}

/** Elements of some tokens. */
function drawn(tokens, environment) {
  const fragment = DOMPurify.sanitize(reader.renderer.render(tokens, reader.options, environment), CONFIG);
  for (const table of fragment.querySelectorAll(".table")) {
    table.setAttribute("role", "region");
    table.setAttribute("aria-label", "Table");
  }
  for (const code of fragment.querySelectorAll("pre")) {
    code.tabIndex = 0;
    const box = element("div", "code");
    code.replaceWith(box);
    box.append(code, copyButton("Copy this code", () => code.textContent.replace(/\n$/, "")));
  }
  return [...fragment.childNodes].filter((node) => node.nodeType === Node.ELEMENT_NODE || node.textContent.trim() !== "");
}

/** One text that may still grow, in an element of its own. */
export class Markdown {
  #box;
  #text = "";
  /** Up to here the text is drawn for good. */
  #drawnTo = 0;
  #last = [];
  #timer = 0;
  #restUntil = 0;

  constructor(box) {
    this.#box = box;
  }

  get text() {
    return this.#text;
  }

  append(piece) {
    this.#text += piece.replace(HIDDEN, "");
    if (this.#timer !== 0 || piece === "") return;
    const wait = this.#text.length === piece.length ? 0 : Math.max(FRAME_MS, this.#restUntil - performance.now());
    if (wait === 0) this.#draw();
    else this.#timer = setTimeout(() => this.#draw(), wait);
  }

  set(text) {
    const clean = text.replace(HIDDEN, "");
    if (clean.startsWith(this.#text)) {
      this.append(clean.slice(this.#text.length));
      return;
    }
    this.#restart();
    this.#text = "";
    this.append(clean);
  }

  /** The text is whole: what is not drawn yet is drawn now. */
  settle() {
    // A link may be defined below the place that uses it.
    if (DEFINITION.test(this.#text)) this.#restart();
    if (this.#timer !== 0 || this.#drawnTo === 0) this.#draw();
  }

  #restart() {
    this.#box.replaceChildren();
    this.#drawnTo = 0;
    this.#last = [];
  }

  /** Draws the last block anew, and those that have come behind it. */
  #draw() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const began = performance.now();
    const rest = this.#text.slice(this.#drawnTo);
    const nodes = this.#text.length > FORMATTED_CHARACTERS_MAX ? [element("p", "plain", rest)] : this.#blocks(rest);
    for (const node of this.#last) node.remove();
    this.#box.append(...nodes.flat());
    this.#last = [nodes.at(-1) ?? []].flat();
    const now = performance.now();
    this.#restUntil = now + (now - began) / SHARE;
  }

  /** The elements of each block. All blocks but the last are finished, and are not looked at again. */
  #blocks(rest) {
    const environment = {};
    const blocks = [];
    for (const token of reader.parse(rest, environment)) {
      if (token.level === 0 && token.nesting >= 0) blocks.push([]);
      blocks.at(-1).push(token);
    }
    const line = blocks.at(-1)?.[0].map?.[0] ?? 0;
    if (blocks.length > 1) this.#drawnTo += startOfLine(rest, line);
    return blocks.map((tokens) => drawn(tokens, environment));
  }
}

function startOfLine(text, line) {
  let at = 0;
  for (let passed = 0; passed < line; passed += 1) at = text.indexOf("\n", at) + 1;
  return at;
}
