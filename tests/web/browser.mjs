// Owns the browser that the tests drive, and the watch that every test keeps: no console errors, no violations of the
// content security policy, no request to another host. Knows no server.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium, firefox } from "playwright-core";

/** Which browser the tests run in: the same ones run in both. */
export const IS_FIREFOX = process.env.WINDLASS_BROWSER === "firefox";
const CANDIDATES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--use-fake-device-for-media-stream",
  "--autoplay-policy=no-user-gesture-required",
];
const FIREFOX_CANDIDATES = ["/usr/bin/firefox-esr", "/usr/bin/firefox"];
const PREFERENCES = {
  "media.navigator.streams.fake": true,
  // A feigned device for sound. With a real one, or PulseAudio's null sink, the page now and then waits for the device for ever.
  "media.cubeb.force_mock_context": true,
  "media.autoplay.default": 0,
  "media.autoplay.blocking_policy": 0,
  "browser.shell.checkDefaultBrowser": false,
};
const FIREFOX_PAGES_MAX = 6;
/** How long a test waits for what must come; only a broken page waits that long. */
export const PATIENCE_MS = 20_000;
export const DESK = { viewport: { width: 1280, height: 800 } };
export const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

/** `microphone`: whether the user allows it. `speechFile`: what it hears, in place of beeps. */
export function launch({ microphone = true, speechFile = null, more = [] } = {}) {
  if (IS_FIREFOX) return new YoungFirefox({ microphone });
  const executablePath = process.env.WINDLASS_CHROMIUM ?? CANDIDATES.find((path) => existsSync(path));
  assert.ok(executablePath, `no Chromium at ${CANDIDATES.join(", ")}: install one, or name it in WINDLASS_CHROMIUM`);
  const chosen = [
    ...(microphone ? ["--use-fake-ui-for-media-stream"] : []),
    ...(speechFile ? [`--use-file-for-fake-audio-capture=${speechFile}%noloop`] : []),
    ...more,
  ];
  return chromium.launch({ executablePath, args: [...ARGUMENTS, ...chosen] });
}

/** What Firefox cannot do here: each test that needs one of these runs in Chromium alone, and the report of Firefox names it with the reason. */
export const NOT_IN_FIREFOX = {
  axe: "once axe has run, Firefox 153 dies of the next search for a label; axe reads the same document in both browsers",
  clipboard: "no command of WebDriver BiDi lets a page read the clipboard",
  keyboard: "the Tab key goes on to the browser's own buttons, and comes back from them in a real window alone",
  microphones: "its feigned microphone is one tone without end, and can be neither chosen nor unplugged",
  names: "it cannot be told the address of a name that there is not",
  requests: "Playwright does not read there what a request of the page held",
  system: "no command of WebDriver BiDi feigns what the system says of themes and of motion",
};

export function testInChromium(name, reason, steps) {
  test(name, { skip: IS_FIREFOX && reason }, steps);
}

/** A Firefox that another one takes over from now and then: after a dozen pages of these tests the process that holds them hangs or dies. */
class YoungFirefox {
  #options;
  #running = null;
  #pages = 0;
  #open = new Set();

  constructor(options) {
    this.#options = options;
  }

  async newContext(options) {
    if (this.#pages >= FIREFOX_PAGES_MAX && this.#open.size === 0) await this.close();
    this.#running ??= await launchFirefox(this.#options);
    this.#pages += 1;
    const context = await this.#running.newContext(options);
    this.#open.add(context);
    context.on("close", () => this.#open.delete(context));
    return context;
  }

  async newPage(options) {
    const context = await this.newContext(options);
    const page = await context.newPage();
    page.on("close", () => this.#open.delete(context));
    return page;
  }

  async close() {
    await this.#running?.close();
    this.#running = null;
    this.#pages = 0;
  }
}

/** Firefox as the system has it, over WebDriver BiDi. */
async function launchFirefox({ microphone }) {
  const program = process.env.WINDLASS_FIREFOX ?? FIREFOX_CANDIDATES.find((path) => existsSync(path));
  assert.ok(program, `no Firefox at ${FIREFOX_CANDIDATES.join(", ")}: install one, or name it in WINDLASS_FIREFOX`);
  const folder = mkdtempSync(join(tmpdir(), "windlass-firefox-"));
  const executablePath = join(folder, "firefox");
  const bridge = fileURLToPath(new URL("bidi-bridge.mjs", import.meta.url));
  writeFileSync(executablePath, `#!/bin/sh\nexec "${process.execPath}" "${bridge}" "${program}" "$@"\n`, { mode: 0o755 });
  const permission = { "permissions.default.microphone": microphone ? 1 : 2, "media.navigator.permission.disabled": microphone };
  const browser = await firefox.launch({ channel: "moz-firefox", executablePath, firefoxUserPrefs: { ...PREFERENCES, ...permission } });
  browser.on("disconnected", () => rmSync(folder, { recursive: true, force: true }));
  return browser;
}

/**
 * Opens a page in a context of its own, runs `steps(page)`, and then asserts that nothing was wrong on the way.
 * `prepare(page)` runs before the page is loaded; messages on the console that match `excused` are none that are wrong.
 */
export async function visit(browser, url, { context = DESK, prepare = async () => {}, excused = /(?!)/ }, steps) {
  const opened = await browser.newContext(context);
  const wrong = [];
  try {
    if (IS_FIREFOX) await allowEval(opened, url);
    const page = await opened.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    // What the system cannot be made to say there is chosen as a user would.
    if (IS_FIREFOX && context.colorScheme) await page.addInitScript(chooseTheme, context.colorScheme);
    page.on("console", (message) => {
      const isWrong = message.type() === "error" || message.type() === "warning";
      if (isWrong && !excused.test(message.text())) wrong.push(`${message.text()} ${message.location().url}`);
    });
    // Firefox reports so, too, what Chromium says on the console.
    page.on("pageerror", (error) => excused.test(error.message) || wrong.push(String(error.stack)));
    page.on("request", (request) => {
      if (new URL(request.url()).host !== new URL(url).host) wrong.push(`a request to ${request.url()}`);
    });
    await page.exposeFunction("reportViolation", (text) => wrong.push(text));
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) => {
        window.reportViolation(`${event.violatedDirective} forbids ${event.blockedURI}`);
      });
    });
    await prepare(page);
    await page.goto(url);
    await page.waitForFunction(() => window.windlass !== undefined);
    await steps(page);
  } finally {
    await opened.close();
  }
  assert.deepEqual(wrong, []);
}

/** In a page that may keep something: the empty one that each tab begins with may not. */
function chooseTheme(theme) {
  if (location.protocol === "http:") localStorage.setItem("windlass.theme", theme);
}

/** Playwright evaluates with `eval`, which Firefox lets the page's policy forbid: for its sake that one thing is allowed. */
async function allowEval(context, url) {
  await context.route((address) => address.href.split(/[?#]/)[0] === url, async (route) => {
    const response = await route.fetch();
    const headers = response.headers();
    headers["content-security-policy"] += "; script-src 'self' 'unsafe-eval'";
    await route.fulfill({ response, headers });
  });
}

/** Types into the message field and sends with the Enter key. */
export async function ask(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.getByLabel("Message", { exact: true }).press("Enter");
}

export function state(page) {
  return page.evaluate(() => ({ ...window.windlass.state }));
}

/** Waits until the page's state has the given values. */
export function untilState(page, wanted) {
  return page.waitForFunction(
    (values) => Object.entries(values).every(([name, value]) => window.windlass.state[name] === value),
    wanted,
  );
}

/** The lowest contrast (WCAG 2) of all text that can be seen, with the text, for 4.5 of normal and 3 of large type. */
export function lowContrasts(page) {
  return page.evaluate(() => {
    // One canvas of one pixel for all colours: a canvas for each text is thousands of them.
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
    const known = new Map();
    const channels = (colour) => {
      if (!known.has(colour)) known.set(colour, read(colour));
      return known.get(colour);
    };
    const read = (colour) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = ([red, green, blue]) => {
      const linear = (value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
      return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    };
    const backgroundOf = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = channels(getComputedStyle(at).backgroundColor);
        if (colour[3] === 255) return colour;
      }
      return [255, 255, 255, 255];
    };
    const low = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      const text = walker.currentNode.data.trim();
      if (!text || !parent.checkVisibility() || parent.closest(".hidden-text, .skip, noscript, :disabled, svg")) continue;
      const style = getComputedStyle(parent);
      const [one, other] = [luminance(channels(style.color)), luminance(backgroundOf(parent))].sort((a, b) => b - a);
      const contrast = (one + 0.05) / (other + 0.05);
      const size = parseFloat(style.fontSize);
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (contrast < (isLarge ? 3 : 4.5)) low.push(`${contrast.toFixed(2)}: ${text.slice(0, 40)}`);
    }
    return low;
  });
}

/** How many pixels the page is wider than its window. */
export function overflowPixels(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
