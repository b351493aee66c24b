// Owns the bridge between Playwright and a Firefox that is older than Playwright expects: runs Firefox, and answers in its place the
// commands of WebDriver BiDi that it does not have. They collect bodies of responses, choose where downloads go, and feign other screens; no test in Firefox needs any of it.
import { spawn } from "node:child_process";
import { connect, createServer } from "node:net";

/** What Firefox 140 does not know, and an answer that lets Playwright go on. */
const ANSWERED_HERE = {
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
  let hasShaken = false;
  let waiting = Buffer.alloc(0);
  client.on("data", (data) => {
    waiting = Buffer.concat([waiting, data]);
    if (!hasShaken) {
      const end = waiting.indexOf("\r\n\r\n");
      if (end < 0) return;
      // Firefox takes no other host than its own, and what is compressed cannot be read here.
      const head = waiting.subarray(0, end).toString().replace(/^host: .*$/im, `Host: 127.0.0.1:${port}`);
      browser.write(`${head.replace(/\r\nsec-websocket-extensions: .*/i, "")}\r\n\r\n`);
      waiting = waiting.subarray(end + 4);
      hasShaken = true;
    }
    for (let frame = firstFrame(waiting); frame; frame = firstFrame(waiting)) {
      const answer = answerTo(frame);
      if (answer) answers.push(answer);
      else browser.write(waiting.subarray(0, frame.length));
      waiting = waiting.subarray(frame.length);
    }
    sendAnswers();
  });
  // An answer goes between two of the browser's frames, and behind the one that is on its way.
  const answers = [];
  let left = 0;
  let partial = Buffer.alloc(0);
  let isShaking = true;
  const sendAnswers = () => {
    if (isShaking || left > 0 || partial.length > 0) return;
    for (const answer of answers.splice(0)) client.write(answer);
  };
  browser.on("data", (data) => {
    if (isShaking) {
      const end = data.indexOf("\r\n\r\n");
      isShaking = end < 0;
      client.write(isShaking ? data : data.subarray(0, end + 4));
      if (isShaking) return;
      data = data.subarray(end + 4);
    }
    let rest = Buffer.concat([partial, data]);
    partial = Buffer.alloc(0);
    while (rest.length > 0) {
      if (left === 0) {
        sendAnswers();
        const size = frameSize(rest);
        if (size === null) {
          partial = rest;
          return;
        }
        left = size.length;
      }
      const piece = rest.subarray(0, left);
      client.write(piece);
      left -= piece.length;
      rest = rest.subarray(piece.length);
    }
    sendAnswers();
  });
}

/** Of the frame that begins here: how long it is with its head, and where its content begins; null where that is not here yet. */
function frameSize(bytes) {
  if (bytes.length < 2) return null;
  const short = bytes[1] & 0x7f;
  const head = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < head) return null;
  const content = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short;
  const start = head + (bytes[1] & 0x80 ? 4 : 0);
  return { start, length: start + content };
}

function firstFrame(bytes) {
  const size = frameSize(bytes);
  if (size === null || bytes.length < size.length) return null;
  const mask = bytes.subarray(size.start - 4, size.start);
  const content = Buffer.from(bytes.subarray(size.start, size.length)).map((byte, at) => byte ^ mask[at % 4]);
  return { length: size.length, isText: bytes[0] === 0x81, content };
}

function answerTo({ isText, content }) {
  if (!isText || content.length > 1000) return null;
  const { id, method } = JSON.parse(content.toString());
  if (!Object.hasOwn(ANSWERED_HERE, method)) return null;
  const text = Buffer.from(JSON.stringify({ type: "success", id, result: ANSWERED_HERE[method] }));
  return Buffer.concat([Buffer.from([0x81, text.length]), text]);
}
