// Owns reading JSON without losing a digit, and writing it again. A number whose digits JavaScript would change (a long id, 1.10)
// stays the text that was sent. Knows no meaning.

/** A number as it was written. */
export class NumberText {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }
}

/** Stands for a number while JSON is read; nobody can guess it, so that no text can pass for a number. */
const MARK = `number-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\[^][^"\\]*)*"|-?\d[\d.eE+-]*/g;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Throws where `JSON.parse` does. */
export function readJson(text) {
  let isMarked = false;
  const marked = text.replace(TEXT_OR_NUMBER, (token) => {
    if (token[0] === '"' || String(Number(token)) === token || !NUMBER.test(token)) return token;
    isMarked = true;
    return `{"${MARK}":"${token}"}`;
  });
  if (!isMarked) return JSON.parse(text);
  const isNumber = (value) => value !== null && typeof value === "object" && Object.hasOwn(value, MARK);
  return JSON.parse(marked, (_, value) => (isNumber(value) ? new NumberText(value[MARK]) : value));
}

/** The value as JSON with every digit; "" for none. */
export function writeJson(value) {
  const marked = JSON.stringify(value, (_, held) => (held instanceof NumberText ? MARK + held.text : held), 2) ?? "";
  return marked.replaceAll(new RegExp(`"${MARK}([^"]*)"`, "g"), "$1");
}

/** A number to count with; NaN for everything else. */
export function numberOf(value) {
  if (value instanceof NumberText) return Number(value.text);
  return typeof value === "number" ? value : NaN;
}
