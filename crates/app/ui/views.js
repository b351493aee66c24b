// Owns how results are shown that have a form which people know: appointments and free times, sources, tickets, pictures, and lists
// of things with the same few members. They are known by their shape, whichever tool brought them. Knows no call.
import { button, element, link, shorten, textOf, webAddress } from "./dom.js";
import { NumberText, numberOf } from "./json.js";
import { CLOCK, DAY, fillFields, flat, inWords, label, readTime, valueNode } from "./values.js";

/** Rows at once; others come on a click. */
const ROWS_FIRST = 10;
const ROWS_MAX = 100;
const COLUMNS_MAX = 8;
const DETAILS_MAX = 5;
const PICTURES_MAX = 6;
const DEPTH_MAX = 2;
const TITLE_CHARACTERS_MAX = 160;
const TEXT_CHARACTERS_MAX = 280;
const DETAIL_CHARACTERS_MAX = 80;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

// Names of members, without capitals and signs: "start_time" and "startTime" are one.
const STARTS = ["start", "starttime", "startsat", "startdate"];
const ENDS = ["end", "endtime", "endsat", "enddate"];
const EVENT_TITLES = ["title", "summary", "subject", "name"];
const TITLES = ["title", "name", "headline"];
const TEXTS = ["snippet", "excerpt", "description", "summary", "content", "fulltext", "text", "body"];
const ADDRESSES = ["url", "link", "href", "htmllink"];
const MEETINGS = ["conferencelink", "meetinglink", "hangoutlink", "joinurl"];
const PICTURES = ["url", "imageurl", "image", "src"];
/** Columns that stand first, as people read a list. */
const FIRST_COLUMNS = ["name", "title", "rank"];
const TICKETS = ["ticketid", "ticketnumber", "ticket", "caseid"];
/** Members without news for a reader. */
const UNSAID = /^(?:id|uid|etag|kind|.*_id|.*Id|score|instruction)$/;
/** Names of lists that say only that. */
const PLAIN_NAMES = new Set(["items", "results", "data", "rows", "list", "events"]);
const WEB_ADDRESS = /^(?:https?:\/)?\//i;
const PICTURE_FILE = /^\/(?:pictures|images)\/|\.(?:png|jpe?g|webp|gif|avif|svg)$/i;

/** The view of a result; null without a known form. */
export function viewOf(value, depth = 0) {
  if (Array.isArray(value)) return listNode("", value);
  if (!isObject(value)) return null;
  const single = eventNode(value) ?? ticketNode(value) ?? pictureNode(pictureOf(value)) ?? recordNode(value);
  if (single) return single;
  const leftOut = numberOf(value.left_out);
  const parts = [];
  const rest = new Map();
  for (const [name, held] of Object.entries(value)) {
    if (name === "left_out" && Number.isFinite(leftOut)) continue;
    const part = Array.isArray(held) ? listNode(name, held, parts.length === 0 ? leftOut : 0) : depth < DEPTH_MAX ? viewOf(held, depth + 1) : null;
    if (part) parts.push(element("div", "view-part", PLAIN_NAMES.has(name) ? "" : element("p", "view-name", label(name)), part));
    else if (held !== null && name !== "instruction" && !(name === "more" && held === false)) rest.set(name, held);
  }
  if (parts.length === 0) return null;
  const view = element("div", "view", ...parts);
  const zone = textOf(rest.get("time_zone"));
  if (zone && view.querySelector(".event")) {
    rest.delete("time_zone");
    view.append(element("p", "view-details", zoneWords(zone, view)));
  }
  const fields = element("dl", "fields");
  fillFields(fields, Object.fromEntries(rest));
  if (fields.childElementCount > 0) view.append(fields);
  return view;
}

/** A table whose columns have headings, in a box that scrolls. Rows go into `body`. */
export function table(name, headings) {
  const head = element("tr", "", ...headings.map((heading) => Object.assign(element("th", "", heading), { scope: "col" })));
  const body = element("tbody", "");
  const box = element("div", "table", element("table", "", element("thead", "", head), body));
  box.tabIndex = 0;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", name);
  return { box, body };
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof NumberText);
}

/** The value in one line. */
function isCell(value) {
  return Array.isArray(value) ? value.length <= DETAILS_MAX && value.every((item) => isCell(item) && !Array.isArray(item)) : !isObject(value);
}

/** The members of an object, of which each is taken once. */
class Members {
  constructor(item) {
    this.rest = new Map(Object.entries(item));
    this.names = Map.groupBy(this.rest.keys(), (own) => own.replace(/[_-]/g, "").toLowerCase());
  }

  /** The first of these members that `read` takes; else "". */
  take(names, read = textOf) {
    for (const own of names.flatMap((name) => this.names.get(name) ?? [])) {
      const found = this.rest.has(own) && read(this.rest.get(own));
      if (!found) continue;
      this.rest.delete(own);
      return found;
    }
    return "";
  }

  get holdsList() {
    return [...this.rest.values()].some((held) => Array.isArray(held) && held.length > 1 && held.some(isObject));
  }

  get details() {
    const isSaid = ([name, held]) => !UNSAID.test(name) && isCell(held) && held !== false && flat(held ?? "") !== "" && !(Array.isArray(held) && held.length === 0);
    const said = [...this.rest].filter(isSaid).slice(0, DETAILS_MAX);
    const words = said.map(([name, held]) => element("bdi", "", `${label(name)}: ${shorten(flat(held), DETAIL_CHARACTERS_MAX)}`));
    return words.length === 0 ? "" : element("p", "view-details", ...words.flatMap((word, at) => (at === 0 ? [word] : [" · ", word])));
  }
}

/** The view of a list whose items are alike; else null. `leftOut`: items that the tool did not list. */
function listNode(name, all, leftOut = 0) {
  const items = all.slice(0, ROWS_MAX);
  const beyond = all.length - items.length + (leftOut > 0 ? leftOut : 0);
  const title = label(name) || "List";
  if (items.length === 0) return null;
  if (items.every((item) => typeof item === "string" && item !== "")) return listOf("ul", "values", title, items, (text) => element("li", "", textNode(text)), beyond);
  if (!items.every(isObject)) return null;
  const events = items.map(eventOf);
  if (events.every(Boolean)) return listOf("ol", "events", title, events, eventRows(), beyond);
  const pictures = items.map(pictureOf);
  if (pictures.every(Boolean)) return element("div", "view", ...pictures.slice(0, PICTURES_MAX).map(pictureNode), more(beyond + Math.max(0, items.length - PICTURES_MAX)));
  const sources = items.map(sourceOf);
  if (sources.every(Boolean)) return listOf("ol", "sources", title, sources, (source) => element("li", "source", ...sourceParts(source)), beyond);
  return tableNode(title, items, beyond);
}

function listOf(tag, className, name, items, rowOf, beyond) {
  const list = element(tag, className);
  list.setAttribute("aria-label", name);
  return element("div", "", list, ...fill(list, items, rowOf), more(beyond));
}

/** The first rows, and a button for the others. */
function fill(list, items, rowOf) {
  list.append(...items.slice(0, ROWS_FIRST).map(rowOf));
  const rest = items.slice(ROWS_FIRST);
  if (rest.length === 0) return [];
  const all = button("small view-more", `Show ${rest.length} more`, () => {
    const rows = rest.map(rowOf);
    list.append(...rows);
    all.remove();
    rows[0].tabIndex = -1;
    rows[0].focus();
  });
  return [all];
}

function more(count) {
  return count > 0 ? element("p", "view-details", `and ${count} more`) : "";
}

function addressOf(held) {
  const text = textOf(held);
  return WEB_ADDRESS.test(text) && webAddress(text) ? text : "";
}

function textNode(text) {
  return addressOf(text) ? link("", shorten(text, TITLE_CHARACTERS_MAX), text) : valueNode(text);
}

// Appointments and times that are free or taken.

function timeOf(held) {
  const text = textOf(held?.dateTime ?? held?.date ?? held);
  const time = readTime(text);
  return time && { ...time, text };
}

/** An object that says from when to when, or when and what; else null. */
function eventOf(item) {
  const members = new Members(item);
  const [start, end] = [members.take(STARTS, timeOf), members.take(ENDS, timeOf)];
  const title = members.take(EVENT_TITLES);
  if (!start || (end ? end.at < start.at : start.isDay || !title)) return null;
  const isAllDay = members.take(["allday", "isallday"], (held) => held === true) || start.isDay;
  const status = members.take(["status"]);
  const [address, meeting] = [ADDRESSES, MEETINGS].map((names) => members.take(names, addressOf));
  members.take(["durationminutes", "duration"], (held) => end && held);
  // Every calendar's first is called so.
  members.take(["calendar"], (held) => held === "primary");
  const text = members.take(["description"]);
  const people = members.take(["attendees"], (held) => Array.isArray(held) && held.map((one) => textOf(one?.email ?? one?.displayName ?? one?.name ?? one)).filter(Boolean));
  if (people.length > 0) members.rest.set("attendees", people.length > DETAILS_MAX ? [...people.slice(0, DETAILS_MAX - 1), `and ${people.length - DETAILS_MAX + 1} more`] : people);
  if (members.holdsList) return null;
  const said = { title, isAllDay, status, address, meeting, text, details: members.details };
  if (!isAllDay) return { ...said, start, end };
  // A day is a day wherever its reader is; where it says so, its end is the day after the last.
  const isOpen = !start.isDay || isObject(item.end);
  const day = (time) => time && readTime(time.text.slice(0, 10));
  const last = day(end) && { ...day(end), at: Math.max(day(start).at, day(end).at - (isOpen ? DAY_MS : 0)) };
  return { ...said, start: { ...day(start), text: start.text }, end: last };
}

function eventNode(item) {
  const event = eventOf(item);
  return event?.title ? element("ol", "events", eventRows()(event)) : null;
}

/** Makes the rows of a list, each day with its name where it begins. */
function eventRows() {
  let last = "";
  return ({ start, end, title, isAllDay, status, address, meeting, text, details }) => {
    const day = dayWords(start);
    const time = element("time", "", ...(isAllDay ? ["All day", end && end.at > start.at ? ` until ${dayWords(end)}` : ""] : [clockWords(start, end, day)]));
    time.dateTime = start.text;
    time.title = start.text;
    const length = title || isAllDay || !end ? "" : element("span", "view-details", minutesText((end.at - start.at) / MINUTE_MS));
    const badge = status && status !== "confirmed" ? element("span", "badge", shorten(label(status), 40)) : "";
    const words = title ? titleNode(title, address) : "";
    const row = element("li", "event", day === last ? "" : element("p", "event-day", day), element("p", "event-head", element("span", "event-time", time), words, length, badge), meeting ? element("p", "", link("", shorten(meeting, TITLE_CHARACTERS_MAX), meeting)) : "", details, textPart(text));
    if (status === "cancelled" || status === "canceled") row.classList.add("cancelled");
    if (start.isLocal && !isAllDay) row.dataset.local = "";
    last = day;
    return row;
  };
}

function zoned({ isLocal }) {
  return isLocal ? { timeZone: "UTC" } : {};
}

function dayWords(time) {
  return inWords(time.at, { ...DAY, ...zoned(time) });
}

function clockWords(start, end, day) {
  const options = { ...CLOCK, ...zoned(start) };
  if (!end || end.at === start.at) return inWords(start.at, options);
  if (dayWords(end) === day && end.isLocal === start.isLocal) return new Intl.DateTimeFormat(undefined, options).formatRange(start.at, end.at);
  return `${inWords(start.at, options)} – ${inWords(end.at, { ...DAY, ...CLOCK, ...zoned(end) })}`;
}

function minutesText(minutes) {
  const [hours, rest] = [Math.floor(minutes / 60), Math.round(minutes % 60)];
  return [hours > 0 ? `${hours} h` : "", rest > 0 || hours === 0 ? `${rest} min` : ""].filter(Boolean).join(" ");
}

/** Times are the reader's, unless they came without a zone. */
function zoneWords(zone, view) {
  const own = view.querySelector(".event[data-local]") ? zone : Intl.DateTimeFormat().resolvedOptions().timeZone;
  return own === zone ? `Times of ${zone}` : `Times of ${own}, where you are. The calendar is in ${zone}.`;
}

// What can be cited.

/** An object with a title and either words or an address; else null. */
function sourceOf(item) {
  const members = new Members(item);
  const title = members.take(TITLES);
  const address = members.take(ADDRESSES, addressOf);
  const text = members.take(TEXTS);
  return title && (address || text) && !members.holdsList ? { title, address, text, members } : null;
}

function sourceParts({ title, address, text, members }) {
  const host = address ? webAddress(address)?.hostname : "";
  return [element("p", "source-title", titleNode(title, address), " ", host ? element("span", "view-details", host) : ""), textPart(text), members.details];
}

function recordNode(item) {
  const source = sourceOf(item);
  return source?.text ? element("div", "source", ...sourceParts(source)) : null;
}

function titleNode(title, address) {
  const words = element("bdi", "view-title", shorten(title, TITLE_CHARACTERS_MAX));
  return address ? link("", words, address) : words;
}

function textPart(text) {
  return text ? element("p", "view-text", element("bdi", "", shorten(text.trim(), TEXT_CHARACTERS_MAX))) : "";
}

// Tickets, pictures and everything else.

function ticketNode(item) {
  const members = new Members(item);
  const id = members.take(TICKETS, (held) => !isObject(held) && isCell(held) && !Array.isArray(held) && typeof held !== "boolean" && held !== null && String(held));
  const status = members.take(["status", "state"]);
  if (!id || !status) return null;
  const fields = element("dl", "fields");
  fillFields(fields, Object.fromEntries([...members.rest].filter(([name, held]) => held !== null && !UNSAID.test(name))));
  const head = element("p", "event-head", "Ticket ", element("bdi", "view-title", shorten(id, DETAIL_CHARACTERS_MAX)), element("span", "badge", shorten(label(status), 40)));
  return element("div", "ticket", head, fields);
}

function pictureOf(item) {
  const members = new Members(item);
  const address = webAddress(members.take(PICTURES, addressOf));
  const type = members.take(["mimetype", "mediatype", "contenttype", "type"]);
  if (!address || !(/^image(?:\/|$)/.test(type) || PICTURE_FILE.test(address.pathname))) return null;
  const caption = shorten(members.take(["caption", "alt", "title", "prompt"]), TITLE_CHARACTERS_MAX);
  return members.take(TEXTS) ? null : { address, caption };
}

/** A picture of this server is shown; one from elsewhere is a link, so that reading a page tells no stranger. */
function pictureNode(picture) {
  if (!picture) return null;
  const { address, caption } = picture;
  if (address.origin !== location.origin) return element("p", "", link("", `Open picture: ${caption || address.hostname}`, address.href));
  const shown = Object.assign(element("img"), { loading: "lazy", alt: caption || "Picture", src: address.href });
  return element("figure", "image", shown, caption ? element("figcaption", "", caption) : "");
}

/** A table of items with the same few members; else null. */
function tableNode(name, items, beyond) {
  const rows = items.map(cellsOf);
  if (!rows.every(Boolean)) return null;
  const isFilled = (held) => held !== undefined && held !== null && held !== "";
  const columns = [...new Set(rows.flatMap((row) => [...row.keys()]))].filter((column) => rows.some((row) => isFilled(row.get(column))));
  columns.sort((one, other) => FIRST_COLUMNS.indexOf(other) - FIRST_COLUMNS.indexOf(one));
  const filled = rows.reduce((sum, row) => sum + columns.filter((column) => isFilled(row.get(column))).length, 0);
  if (columns.length === 0 || columns.length > COLUMNS_MAX || filled * 2 < columns.length * rows.length) return null;
  const isNumber = (held) => typeof held === "number" || held instanceof NumberText;
  const areNumbers = columns.map((column) => rows.every((row) => isNumber(row.get(column)) || !isFilled(row.get(column))));
  const { box, body } = table(name, columns.map(label));
  box.querySelectorAll("th").forEach((heading, at) => heading.classList.toggle("align-right", areNumbers[at]));
  const rowOf = (row) => element("tr", "", ...columns.map((column, at) => element("td", areNumbers[at] ? "align-right" : "", cellNode(row.get(column)))));
  return element("div", "", box, ...fill(body, rows, rowOf), more(beyond));
}

/** The members of a row, nested ones too; null if one is more than a cell. */
function cellsOf(item) {
  const cells = new Map();
  for (const [name, held] of Object.entries(item)) {
    for (const [inner, value] of isObject(held) ? Object.entries(held) : [[name, held]]) {
      if (!isCell(value)) return null;
      cells.set(cells.has(inner) ? `${name} ${inner}` : inner, value);
    }
  }
  return cells;
}

function cellNode(held) {
  if (held === undefined || held === null) return "";
  if (typeof held === "string" && held !== "") return held.length > TEXT_CHARACTERS_MAX ? shorten(held, TEXT_CHARACTERS_MAX) : textNode(held);
  return Array.isArray(held) ? element("bdi", "", held.length === 0 ? "" : flat(held)) : valueNode(held);
}
