// Owns the real server that the main job is tried on: the one at WINDLASS_URL, or one started from WINDLASS_BINARY.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const READY_WITHIN_MS = 60_000;

/** Returns `{ url, close }` of a server that runs with the demo model for voice and an empty data folder. */
export async function startServer(flags = []) {
  if (process.env.WINDLASS_URL) return { url: new URL("/", process.env.WINDLASS_URL).href, close: async () => {} };
  return startOwnServer(flags);
}

/**
 * The same, but always a process of ours, so that it can also be killed: `kill()` is `kill -9`, and `startAgain()` starts it
 * with the same address and data folder. `folder`: that of the project; `secrets`: what its environment has of keys.
 */
export async function startOwnServer(flags = [], { folder = ROOT, secrets = {} } = {}) {
  const binary = process.env.WINDLASS_BINARY;
  assert.ok(binary, "set WINDLASS_BINARY to the built windlass, or WINDLASS_URL to a server that runs the demo model");
  const data = mkdtempSync(join(tmpdir(), "windlass-web-"));
  const { GEMINI_API_KEY: _, OPENAI_API_KEY: __, ...environment } = process.env;
  const run = (listen) => start(binary, ["serve", "--listen", listen, "--data", data, ...flags], { ...environment, ...secrets }, folder);
  let { child, url } = await run("127.0.0.1:0");
  const end = async (signal) => {
    const gone = child.exitCode === null && child.signalCode === null && once(child, "exit");
    child.kill(signal);
    await gone;
  };
  return {
    url,
    data,
    kill: () => end("SIGKILL"),
    startAgain: async () => {
      ({ child } = await run(new URL(url).host));
    },
    close: async () => {
      await end("SIGTERM");
      rmSync(data, { recursive: true, force: true });
    },
  };
}

/** Starts the program and waits for the address that it prints. */
async function start(binary, args, environment, cwd) {
  const child = spawn(binary, args, { cwd, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  child.stderr.on("data", (chunk) => {
    log = (log + chunk).slice(-4000);
  });
  const url = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no address was printed; its log:\n${log}`)), READY_WITHIN_MS);
    createInterface({ input: child.stdout }).on("line", (line) => {
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(line);
      if (!found) return;
      clearTimeout(timer);
      resolve(`${found[0]}/`);
    });
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}; its log:\n${log}`)));
  });
  return { child, url };
}

/** A sound file with something like speech: a second and a half of noise in syllables, then silence. Returns its path. */
export function speechFile(folder) {
  const rate = 16000;
  const samples = new Int16Array(6 * rate);
  let noise = 1;
  for (let at = rate / 2; at < 2 * rate; at += 1) {
    noise = (noise * 1103515245 + 12345) % 2147483648;
    const syllable = Math.max(0, Math.sin((2 * Math.PI * 4 * at) / rate));
    const voice = Math.sin((2 * Math.PI * 160 * at) / rate) + 0.5 * Math.sin((2 * Math.PI * 640 * at) / rate);
    samples[at] = 9000 * syllable * (voice + 0.3 * (noise / 1073741824 - 1));
  }
  const header = Buffer.alloc(44);
  header.write("RIFF", 0);
  header.writeUInt32LE(36 + samples.byteLength, 4);
  header.write("WAVEfmt ", 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(2 * rate, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write("data", 36);
  header.writeUInt32LE(samples.byteLength, 40);
  const path = join(folder, "speech.wav");
  writeFileSync(path, Buffer.concat([header, Buffer.from(samples.buffer)]));
  return path;
}
