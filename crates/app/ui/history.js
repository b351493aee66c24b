// Owns the list of the user's conversations: shows it, searches it, opens, renames and deletes. What it shows is the server's.
// Knows no session.
import { announce, button, DRAWINGS, element, iconButton, textOf } from "./dom.js";
import { unixMs } from "./clock.js";
import { numberOf } from "./json.js";
import { dayOrTime } from "./values.js";

const TITLE_CHARACTERS_MAX = 200;
const TYPING_MS = 250;

export class History {
  #elements;
  #conversations;
  #cursor = null;
  /** Counts what is asked for: an answer to an older question is not shown. */
  #asked = 0;
  #timer = 0;

  /**
   * `elements`: panel, search, status, list, more. `conversations`: those of the client. `current()`: the id of the one that is
   * shown; `onOpen(id)`; `onDeleted(id)`.
   */
  constructor(elements, { conversations, current, onOpen, onDeleted }) {
    this.#elements = elements;
    this.#conversations = conversations;
    Object.assign(this, { current, onOpen, onDeleted });
    const { panel, search, more, list } = elements;
    panel.addEventListener("toggle", ({ newState }) => newState === "open" && this.#opened());
    search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#load(), TYPING_MS);
    });
    more.addEventListener("click", () => this.#load({ isMore: true }));
    list.addEventListener("keydown", (event) => this.#walk(event));
  }

  #opened() {
    const { panel, search, list } = this.#elements;
    search.value = "";
    for (const open of list.querySelectorAll(".history-open")) this.#mark(open);
    // On a phone a field with the focus brings a keyboard that covers the list.
    (matchMedia("(pointer: coarse)").matches ? panel.querySelector("button") : search).focus();
    this.#load();
  }

  async #load({ isMore = false } = {}) {
    const { search, list, more } = this.#elements;
    const asked = (this.#asked += 1);
    if (!isMore) this.#cursor = null;
    const words = search.value.trim();
    let found;
    try {
      found = await this.#conversations.list({ search: words, cursor: this.#cursor });
    } catch (error) {
      if (asked !== this.#asked) return;
      if (!isMore) list.replaceChildren();
      this.#say(`The list cannot be read. ${error.name === "WindlassError" ? error.message : "The server does not answer."}`, button("small", "Try again", () => this.#load({ isMore })));
      return;
    }
    if (asked !== this.#asked) return;
    const rows = Array.isArray(found?.conversations) ? found.conversations : [];
    const items = rows.filter((row) => textOf(row?.id) !== "").map((row) => this.#item(row));
    const hadFocus = document.activeElement === more;
    if (isMore) list.append(...items);
    else list.replaceChildren(...items);
    this.#cursor = textOf(found?.next) || null;
    more.hidden = this.#cursor === null;
    if (hadFocus) items[0]?.querySelector("button").focus();
    if (list.childElementCount > 0) this.#say(words === "" ? "" : `${list.childElementCount}${this.#cursor ? " and more" : ""} found`);
    else this.#say(words === "" ? "There are none yet. What you ask is kept here." : "No conversation holds these words.");
  }

  #say(text, action = "") {
    const { status } = this.#elements;
    status.replaceChildren(...[element("span", "", text), action].filter(Boolean));
    status.hidden = text === "";
  }

  #item(row) {
    const item = element("li", "history-item");
    this.#show(item, { ...row, title: textOf(row.title) || "Without a title" });
    return item;
  }

  #show(item, row) {
    const at = unixMs(row.updatedAt);
    const spoken = numberOf(row.messages);
    const details = [at === null ? "" : dayOrTime(at), Number.isFinite(spoken) ? (spoken === 1 ? "1 message" : `${spoken} messages`) : ""].filter(Boolean);
    const title = element("span", "history-title", row.title);
    title.dir = "auto";
    const open = button("history-open", title, () => {
      this.#elements.panel.hidePopover();
      this.onOpen(row.id);
    });
    open.append(element("span", "history-details", details.join(" · ")));
    open.dataset.id = row.id;
    this.#mark(open);
    const rename = iconButton("history-rename", `Rename ${row.title}`, DRAWINGS.edit, () => this.#rename(item, row));
    const remove = iconButton("history-remove", `Delete ${row.title}`, DRAWINGS.bin, () => this.#askToDelete(item, row));
    item.replaceChildren(open, rename, remove);
  }

  /** Says which conversation is the one that is shown. */
  #mark(open) {
    if (open.dataset.id === this.current()) open.setAttribute("aria-current", "true");
    else open.removeAttribute("aria-current");
  }

  #rename(item, row) {
    const field = element("input", "history-field");
    field.value = row.title;
    field.maxLength = TITLE_CHARACTERS_MAX;
    field.setAttribute("aria-label", "Title");
    const back = (shown) => {
      this.#show(item, shown);
      item.querySelector(".history-rename").focus();
    };
    const form = element("form", "history-form", field, element("button", "small", "Save"), button("small", "Cancel", () => back(row)));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const title = field.value.trim();
      if (title === "" || title === row.title) {
        back(row);
        return;
      }
      const isDone = await this.#try("It keeps its name", () => this.#conversations.rename(row.id, title));
      if (isDone) back({ ...row, title });
    });
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.preventDefault();
      back(row);
    });
    item.replaceChildren(form);
    field.select();
  }

  #askToDelete(item, row) {
    const keep = button("small", "Keep it", () => {
      this.#show(item, row);
      item.querySelector(".history-remove").focus();
    });
    const remove = button("small danger", "Delete it", async () => {
      const isDone = await this.#try("It is not deleted", () => this.#conversations.delete(row.id));
      if (isDone) this.#deleted(item, row);
      else keep.click();
    });
    const title = element("span", "history-title", row.title);
    title.dir = "auto";
    item.replaceChildren(element("div", "history-form", element("p", "history-ask", "Delete “", title, "” for good?"), remove, keep));
    keep.focus();
  }

  #deleted(item, row) {
    const next = item.nextElementSibling ?? item.previousElementSibling;
    item.remove();
    announce(`${row.title} is deleted`);
    (next?.querySelector("button") ?? this.#elements.search).focus();
    this.onDeleted(row.id);
  }

  async #try(problem, act) {
    try {
      await act();
      this.#say("");
      return true;
    } catch (error) {
      this.#say(`${problem}. ${error.name === "WindlassError" ? error.message : "The server does not answer."}`);
      return false;
    }
  }

  /** Up and down lead from one conversation to its neighbours. */
  #walk(event) {
    if ((event.key !== "ArrowUp" && event.key !== "ArrowDown") || !event.target.matches(".history-open")) return;
    event.preventDefault();
    const item = event.target.closest("li");
    const next = event.key === "ArrowUp" ? item.previousElementSibling : item.nextElementSibling;
    (next?.querySelector(".history-open") ?? (event.key === "ArrowUp" ? this.#elements.search : null))?.focus();
  }
}
