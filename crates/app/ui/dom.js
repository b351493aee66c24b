// Owns building page elements out of text that others wrote; knows nothing of sessions. Text only ever becomes text nodes.
import { writtenText } from "./exact.js";

/** An element with a class and children; a string child becomes a text node, an empty one nothing. */
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** A button that acts on a click and never submits a form. */
export function button(className, label, onClick) {
  const made = element("button", className, label);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

/** The address if it is http or https (relative ones included), else null: no script or data addresses. */
export function webAddress(text) {
  if (typeof text !== "string" || text === "") return null;
  try {
    const address = new URL(text, document.baseURI);
    return address.protocol === "https:" || address.protocol === "http:" ? address : null;
  } catch {
    return null;
  }
}

/** A link that leaves this page open and tells the other side nothing of it; plain text where the address is none. */
export function link(className, label, addressText) {
  const address = webAddress(addressText);
  if (!address) return element("span", className, label);
  const made = element("a", className, label);
  made.href = address.href;
  made.target = "_blank";
  made.rel = "noopener noreferrer";
  return made;
}

/** Fills a <dl> with the arguments of a call, each value shortened to a length that a person reads. */
export function fillArguments(list, args) {
  list.replaceChildren();
  if (args === null || typeof args !== "object") return;
  for (const [name, value] of Object.entries(args).slice(0, 30)) {
    list.append(element("div", "", element("dt", "", name), element("dd", "", shorten(valueText(value), 400))));
  }
}

/** The same in full, for somebody who decides by it: what would not be seen, or would move what is, is spelt out. */
export function fillArgumentsWhole(list, args) {
  const rows = Object.entries(args !== null && typeof args === "object" ? args : {}).map(([name, value]) =>
    element("div", "", element("dt", "", visible(name)), element("dd", "", visible(valueText(value)))),
  );
  list.replaceChildren(...rows);
}

/** Text without characters that hide something: each as its number, but for the ends of lines. */
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (found) => (found === "\n" ? found : `\\u{${found.codePointAt(0).toString(16)}}`));
}

export function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** Text from a message's field, or "" for anything that is not text. */
export function textOf(value) {
  return typeof value === "string" ? value : "";
}

/** What a person reads of any value; "" for none. */
export function valueText(value) {
  return typeof value === "string" ? value : writtenText(value) ?? "";
}
