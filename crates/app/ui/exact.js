// Owns JSON with numbers that a double would change: what people are shown of a call keeps each digit as it was written. Knows no
// message's meaning.

/** Members that hold what a person is shown as it was written. In all others numbers are numbers. */
const WRITTEN = new Set(["args", "arguments", "input", "output", "response", "result"]);
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A number whose digits a double does not give back. */
class Written {
  constructor(digits) {
    this.digits = digits;
  }
}

/** A value of JSON text. */
export function parseExact(text) {
  const plain = JSON.parse(text);
  // The mark is random, so that no text of the server has it.
  const mark = `${Math.random()}:`;
  const marked = text.replace(TOKENS, (token) =>
    token.startsWith('"') || String(Number(token)) === token ? token : `"${mark}${token}"`,
  );
  if (marked.length === text.length) return plain;
  const exact = JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(mark) ? new Written(value.slice(mark.length)) : value,
  );
  return withWritten(plain, exact);
}

function withWritten(plain, exact) {
  if (plain === null || typeof plain !== "object") return plain;
  for (const [name, value] of Object.entries(plain)) {
    plain[name] = WRITTEN.has(name) && !Array.isArray(plain) ? exact[name] : withWritten(value, exact[name]);
  }
  return plain;
}

/** A value as JSON text, with each number as it was written. */
export function writtenText(value) {
  if (value instanceof Written) return value.digits;
  if (Array.isArray(value)) return `[${value.map((item) => writtenText(item) ?? "null").join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}:${writtenText(member)}`);
  return `{${members.join(",")}}`;
}
