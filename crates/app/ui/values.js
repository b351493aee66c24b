// Owns how values that machines wrote are read by people: labels from names, times in the reader's zone and words, lists in
// place of JSON, numbers exactly as they are written. Knows no call and no session.
import { element, shorten } from "./dom.js";
import { NumberText, readJson } from "./json.js";

const TEXT_CHARACTERS_MAX = 400;
const ITEMS_MAX = 30;
const DATE_TIME = /(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:\d{2})?/;
const ONLY_DATE_TIME = new RegExp(`^${DATE_TIME.source}$`);
const ONLY_DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const PLACES = new RegExp(`(?<![\\w-])${DATE_TIME.source}(?![\\w:])|[{[]`, "g");
export const DAY = { weekday: "short", year: "numeric", month: "short", day: "numeric" };
export const CLOCK = { hour: "numeric", minute: "2-digit" };

/** "startTime" and "start_time" as "Start time". */
export function label(name) {
  const words = visible(name)
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, "$1 $2")
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .split(/[_\-.\s]+/)
    .filter(Boolean)
    .map((word) => (/^\p{Lu}[\p{Lu}\d]+$/u.test(word) ? word : word.toLowerCase()));
  const text = words.join(" ");
  return text === "" ? visible(name) : text.charAt(0).toUpperCase() + text.slice(1);
}

/** Text without characters that hide something: each as its number, but for the ends of lines. */
export function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{fe00}-\u{fe0f}\u{e0100}-\u{e01ef}\u{115f}\u{1160}\u{3164}\u{ffa0}]/gu, (found) =>
    found === "\n" ? found : `\\u{${found.codePointAt(0).toString(16)}}`,
  );
}

/**
 * A list of names and values. `isWhole` is for somebody who decides by it: nothing is left out, and what would not be seen, or
 * would move what is, is spelt out.
 */
export function fillFields(list, values, isWhole = false) {
  const entries = Object.entries(values !== null && typeof values === "object" && !(values instanceof NumberText) ? values : {});
  const shown = isWhole ? entries : entries.slice(0, ITEMS_MAX);
  list.replaceChildren(...shown.map(([name, value]) => fieldRow(name, value, isWhole)));
  if (shown.length < entries.length) list.append(element("div", "", element("dt", "", "…"), element("dd", "", `and ${entries.length - shown.length} more`)));
}

function fieldRow(name, value, isWhole) {
  const term = element("dt", "", label(name));
  term.title = name;
  return element("div", "", term, element("dd", "", valueNode(value, isWhole)));
}

/** What a person reads of one value. */
export function valueNode(value, isWhole = false) {
  if (value === null || value === undefined) return element("em", "", "none");
  if (typeof value === "boolean") return value ? "Yes" : "No";
  if (typeof value === "number" || value instanceof NumberText) return String(value);
  if (typeof value === "string") return textNode(value, isWhole);
  if (Array.isArray(value)) return listNode(value, isWhole);
  const list = element("dl", "fields");
  fillFields(list, value, isWhole);
  return list.childElementCount === 0 ? element("em", "", "empty") : list;
}

function textNode(text, isWhole) {
  if (text === "") return element("em", "", "empty");
  return timeNode(text) ?? element("bdi", "", isWhole ? visible(text) : shorten(text, TEXT_CHARACTERS_MAX));
}

function listNode(values, isWhole) {
  if (values.length === 0) return element("em", "", "empty list");
  const shown = isWhole ? values : values.slice(0, ITEMS_MAX);
  const list = element("ul", "values", ...shown.map((value) => element("li", "", valueNode(value, isWhole))));
  if (shown.length < values.length) list.append(element("li", "", `and ${values.length - shown.length} more`));
  return list;
}

/** A text that is a date or a time, as the reader says it; null for every other text. */
function timeNode(text) {
  const words = timeWords(text);
  if (words === null) return null;
  const node = element("time", "", words);
  node.dateTime = text;
  node.title = text;
  return node;
}

/**
 * A text that is a date or a time; null for every other text. `at` is in milliseconds. Without a zone (`isLocal`) it is the time of
 * the place that is spoken of, whichever that is, and `at` is read as if that were UTC.
 */
export function readTime(text) {
  const found = ONLY_DATE_TIME.exec(text) ?? ONLY_DATE.exec(text);
  if (!found) return null;
  const [year, month, day, hour = 0, minute = 0, second = 0] = found.slice(1, 7).map((part) => (part === undefined ? undefined : Number(part)));
  const [fraction = "", zone] = [found[7]?.replace(/0+$/, ""), found[8]];
  const written = Date.UTC(year, month - 1, day, hour, minute, second);
  const read = new Date(written);
  const isReal = read.getUTCFullYear() === year && read.getUTCMonth() === month - 1 && read.getUTCDate() === day && hour < 24 && minute < 60 && second < 60;
  // A fraction that would be cut is shown as it is written.
  if (!isReal || fraction.length > 3) return null;
  const at = zone === undefined ? written : Date.parse(text);
  return Number.isNaN(at) ? null : { at, isDay: found[4] === undefined, isLocal: zone === undefined, second, fraction };
}

function timeWords(text) {
  const time = readTime(text);
  if (time === null) return null;
  const { at, isDay, isLocal, second, fraction } = time;
  if (isDay) return inWords(at, { ...DAY, month: "long", timeZone: "UTC" });
  const exact = { ...DAY, ...CLOCK };
  if (second !== 0 || fraction !== "") exact.second = "2-digit";
  if (fraction !== "") exact.fractionalSecondDigits = 3;
  return inWords(at, isLocal ? { ...exact, timeZone: "UTC" } : { ...exact, timeZoneName: "short" });
}

/** A moment in the reader's language. */
export function inWords(at, options) {
  return new Intl.DateTimeFormat(undefined, options).format(at);
}

/** The time of day, for people. */
export function clockTime(unixMs) {
  return inWords(unixMs, CLOCK);
}

/** The time of day where it is today's, else the day. */
export function dayOrTime(unixMs) {
  const [day, today] = [new Date(unixMs), new Date()];
  if (day.toDateString() === today.toDateString()) return clockTime(unixMs);
  const isThisYear = day.getFullYear() === today.getFullYear();
  return inWords(unixMs, isThisYear ? { day: "numeric", month: "short" } : { day: "numeric", month: "short", year: "numeric" });
}

/** A sentence that a template was filled with values for: times and JSON in it become words. */
export function phrase(text) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(PLACES)) {
    if (found.index < at) continue;
    const isJson = found[0] === "{" || found[0] === "[";
    const end = isJson ? jsonEnd(text, found.index) : found.index + found[0].length;
    const piece = text.slice(found.index, end);
    const node = isJson ? sentenceOf(piece) : timeNode(piece);
    if (node === null) continue;
    nodes.push(text.slice(at, found.index), node);
    at = end;
  }
  nodes.push(text.slice(at));
  return nodes.filter((node) => node !== "");
}

/** Where the object or list ends that begins at `start`; `start` where it has no end. */
function jsonEnd(text, start) {
  let depth = 0;
  for (const token of text.slice(start).matchAll(/"[^"\\]*(?:\\[^][^"\\]*)*"|[{}[\]]/g)) {
    if (token[0] === "{" || token[0] === "[") depth += 1;
    if (token[0] === "}" || token[0] === "]") depth -= 1;
    if (depth === 0) return start + token.index + 1;
  }
  return start;
}

function sentenceOf(json) {
  try {
    return json === "" ? null : flat(readJson(json));
  } catch {
    return null;
  }
}

/** A value in one line. */
export function flat(value, isInner = false) {
  if (value === null) return "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return timeWords(value) ?? value;
  if (typeof value === "number" || value instanceof NumberText) return String(value);
  if (Array.isArray(value)) return value.map((item) => flat(item, true)).join(", ") || "nothing";
  const text = Object.entries(value).map(([name, held]) => `${label(name)}: ${flat(held, true)}`).join("; ");
  return isInner ? `(${text})` : text || "nothing";
}
