// Owns the fields in which the user answers what the service of a tool asks, and their values. The words are the service's own, so that they
// stand as a quotation under its name. Knows no request and no connection.
import { element, link, textOf } from "./dom.js";
import { visible } from "./values.js";

const ASKS_MAX = 8;
const FIELDS_MAX = 32;
const OPTIONS_MAX = 200;
const TYPES = { email: "email", uri: "url", date: "date" };

let made = 0;

/** What a request asks: its service's name, and elements with a way to read them. `null` of a request for consent. */
export function askedForm(input) {
  if (input === null || typeof input !== "object") return null;
  const from = visible(textOf(input.from));
  const asks = list(input.asks, ASKS_MAX).map(askPart);
  const parts = [element("p", "asked-from", `These are the words of “${from}”, not of this page or its agent.`), ...asks.map(({ box }) => box)];
  return {
    from,
    parts,
    /** The first field that does not fit, shown to the user; `null` where all do. */
    wrong: () => asks.flatMap(({ fields }) => fields).find((field) => !field.check()) ?? null,
    content: () => Object.fromEntries(asks.map(({ key, fields }) => [key, valuesOf(fields)])),
  };
}

function list(items, most) {
  return (Array.isArray(items) ? items : []).slice(0, most).filter((item) => item !== null && typeof item === "object");
}

function valuesOf(fields) {
  const values = fields.map(({ name, value }) => [name, value()]);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

function askPart(ask) {
  const fields = list(ask.form, FIELDS_MAX).map(fieldPart);
  const words = element("blockquote", "asked-words", visible(textOf(ask.message)));
  const box = element("div", "asked", words, ...fields.map(({ box: field }) => field));
  if (textOf(ask.link)) {
    const address = visible(textOf(ask.link));
    box.append(
      element("p", "", "It wants you to open a page of ", element("strong", "", visible(textOf(ask.host))), ":"),
      element("p", "asked-address", address),
      link("connect", "Open that page", textOf(ask.link)),
      element("p", "asked-hint", "Nothing opens it but you. Come back here when you are done there."),
    );
  }
  return { key: textOf(ask.key), box, fields };
}

function fieldPart(field) {
  const name = textOf(field.name);
  const title = visible(textOf(field.title) || name);
  const required = field.required === true;
  const control = controlOf(field, required);
  const id = `asked-${(made += 1)}`;
  control.node.id = id;
  const label = element("label", "", title, required ? "" : " (optional)");
  label.htmlFor = id;
  const hint = element("span", "asked-hint", visible(textOf(field.description)));
  return {
    name,
    box: element("div", "asked-field", label, control.node, hint),
    value: control.value,
    check: control.check ?? (() => control.node.reportValidity()),
  };
}

function controlOf(field, required) {
  if (field.type === "boolean") {
    const node = Object.assign(element("input", ""), { type: "checkbox", checked: field.default === true });
    return { node, value: () => node.checked };
  }
  if (field.type === "choice" || field.type === "choices") return choiceOf(field, required);
  const node = Object.assign(element("input", ""), { type: "text", required, autocomplete: "off" });
  if (field.type === "number" || field.type === "integer") {
    node.type = "number";
    node.step = field.type === "integer" ? "1" : "any";
    if (typeof field.minimum === "number") node.min = String(field.minimum);
    if (typeof field.maximum === "number") node.max = String(field.maximum);
    node.value = typeof field.default === "number" ? String(field.default) : "";
    return { node, value: () => (node.value === "" ? undefined : Number(node.value)) };
  }
  node.type = TYPES[field.format] ?? "text";
  if (Number.isInteger(field.minLength)) node.minLength = field.minLength;
  if (Number.isInteger(field.maxLength)) node.maxLength = field.maxLength;
  node.value = textOf(field.default);
  return { node, value: () => (node.value === "" && !required ? undefined : node.value) };
}

function choiceOf(field, required) {
  const isSeveral = field.type === "choices";
  const node = Object.assign(element("select", ""), { required, multiple: isSeveral });
  const chosen = isSeveral ? (Array.isArray(field.default) ? field.default : []) : [field.default];
  if (!isSeveral) node.append(new Option("—", ""));
  for (const { value, title } of list(field.options, OPTIONS_MAX)) {
    const isChosen = chosen.includes(value);
    node.append(new Option(visible(textOf(title) || textOf(value)), textOf(value), isChosen, isChosen));
  }
  const values = () => [...node.selectedOptions].map(({ value }) => value);
  if (!isSeveral) return { node, value: () => (node.value === "" ? undefined : node.value) };
  return { node, value: () => (values().length === 0 && !required ? undefined : values()) };
}
