// Owns building page elements out of text that others wrote; knows nothing of sessions. Text only ever becomes text nodes.

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

/** A button that shows a drawing; its name is for the pointer that rests on it, and for screen readers. */
export function iconButton(className, name, path, onClick) {
  const made = button(`icon ${className}`, drawing(path), onClick);
  made.title = name;
  made.setAttribute("aria-label", name);
  return made;
}

function drawing(path) {
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  const line = document.createElementNS(namespace, "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

export const DRAWINGS = {
  copy: "M9 9h10v11H9zM5 15V4h10",
  done: "m5 12.5 4.5 4.5L19 7.5",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  again: "M19 12a7 7 0 1 1-2-5l2 2m0-5v5h-5",
  remove: "m6 6 12 12M18 6 6 18",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5m3-5v5",
};

/** Copies `text()` on a click and shows for a moment that it did. */
export function copyButton(name, text) {
  let timer = 0;
  const made = iconButton("copy", name, DRAWINGS.copy, async () => {
    const worked = await copy(text());
    made.replaceChildren(drawing(worked ? DRAWINGS.done : DRAWINGS.remove));
    made.setAttribute("aria-label", worked ? "Copied" : "Copying is not allowed here");
    clearTimeout(timer);
    timer = setTimeout(() => {
      made.replaceChildren(drawing(DRAWINGS.copy));
      made.setAttribute("aria-label", name);
    }, 1500);
  });
  return made;
}

async function copy(text) {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch (error) {
    console.debug("the clipboard is not open to this page", error.name);
  }
  // Over plain http the clipboard is reached through a selection alone.
  const focused = document.activeElement;
  const field = element("textarea", "hidden-text");
  field.value = text;
  document.body.append(field);
  field.select();
  const worked = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return worked;
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

export function shorten(text, length) {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}

/** Text from a message's field, or "" for anything that is not text. */
export function textOf(value) {
  return typeof value === "string" ? value : "";
}

/** Says something to screen readers alone. */
export function announce(words, { isUrgent = false } = {}) {
  const region = document.getElementById(isUrgent ? "urgent" : "spoken");
  region.append(element("p", "", words));
  while (region.childElementCount > 3) region.firstElementChild.remove();
}
