// Owns the bridge between Playwright and a Firefox that knows fewer commands of WebDriver BiDi than Playwright sends while it opens a page:
// runs Firefox, hands every command on, and turns the refusal of one that the tests can do without into an empty answer.
import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";

/**
 * What may be refused as unknown, and the answer that lets Playwright go on. Firefox 153 has all of it but the features of media, in
 * whose place `browser.mjs` chooses the page's theme.
 */
const DISPENSABLE = {
  "network.addDataCollector": { collector: "none" },
  "network.removeDataCollector": {},
  "network.disownData": {},
  "browser.setDownloadBehavior": {},
  "emulation.setScreenOrientationOverride": {},
  "emulation.setScreenSettingsOverride": {},
  "emulation.setMediaFeaturesOverride": {},
  "emulation.setUserAgentOverride": {},
};
const LISTENING = /WebDriver BiDi listening on ws:\/\/127\.0\.0\.1:(\d+)/;
const END_OF_HEAD = "\r\n\r\n";
/** Commands that may be refused, and refusals, are short: what is longer is not looked into. */
const READ_BYTES_MAX = 4096;

const [program, ...flags] = process.argv.slice(2);
const firefox = spawn(program, flags, { stdio: ["ignore", "inherit", "pipe"] });
firefox.on("exit", (code) => process.exit(code ?? 1));
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => firefox.kill(signal));

firefox.stderr.setEncoding("utf8");
firefox.stderr.on("data", (text) => {
  const port = LISTENING.exec(text)?.[1];
  if (port === undefined) process.stderr.write(text);
  else listen(Number(port));
});

function listen(port) {
  const server = createServer((client) => bridge(client, connect(port, "127.0.0.1"), port));
  server.listen(0, "127.0.0.1", () => process.stderr.write(`WebDriver BiDi listening on ws://127.0.0.1:${server.address().port}\n`));
}

function bridge(client, browser, port) {
  for (const [one, other] of [[client, browser], [browser, client]]) {
    one.on("error", () => other.destroy());
    one.on("close", () => other.destroy());
  }
  /** The commands on their way that may be refused: the answer to each, by its id. */
  const answers = new Map();
  // Firefox takes no other host than its own, and what is compressed cannot be read here.
  const request = (head) => head.replace(/^host: .*$/im, `Host: 127.0.0.1:${port}`).replace(/\r\nsec-websocket-extensions: .*/i, "");
  carry(client, browser, request, (frame) => {
    const { id, method } = messageIn(frame);
    if (Object.hasOwn(DISPENSABLE, method)) answers.set(id, DISPENSABLE[method]);
    return frame.bytes;
  });
  carry(browser, client, (head) => head, (frame) => {
    const { id, error } = messageIn(frame);
    const result = answers.get(id);
    answers.delete(id);
    return result && error === "unknown command" ? textFrame(JSON.stringify({ type: "success", id, result })) : frame.bytes;
  });
}

/** Hands on what `from` sends: the head of the handshake as `head` makes it, then each whole frame as `frame` makes it. */
function carry(from, to, head, frame) {
  let hasShaken = false;
  let waiting = Buffer.alloc(0);
  from.on("data", (data) => {
    waiting = Buffer.concat([waiting, data]);
    if (!hasShaken) {
      const end = waiting.indexOf(END_OF_HEAD);
      if (end < 0) return;
      to.write(head(waiting.subarray(0, end).toString()) + END_OF_HEAD);
      waiting = waiting.subarray(end + END_OF_HEAD.length);
      hasShaken = true;
    }
    for (let next = firstFrame(waiting); next; next = firstFrame(waiting)) {
      to.write(frame(next));
      waiting = waiting.subarray(next.bytes.length);
    }
  });
}

/** The frame that begins here: all its bytes, and where its mask and its content begin; null where it is not here as a whole yet. */
function firstFrame(bytes) {
  if (bytes.length < 2) return null;
  const short = bytes[1] & 0x7f;
  const mask = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < mask) return null;
  const content = mask + (bytes[1] & 0x80 ? 4 : 0);
  const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  return bytes.length < content + length ? null : { bytes: bytes.subarray(0, content + length), mask, content };
}

/** What a whole message of text says; an empty object for every other frame. */
function messageIn({ bytes, mask, content }) {
  const isWholeText = bytes[0] === 0x81;
  if (!isWholeText || bytes.length > READ_BYTES_MAX) return {};
  const text = Buffer.from(bytes.subarray(content));
  for (let at = 0; content > mask && at < text.length; at += 1) text[at] ^= bytes[mask + (at % 4)];
  return JSON.parse(text.toString());
}

/** A message of less than 126 bytes from the browser. */
function textFrame(text) {
  return Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]);
}
