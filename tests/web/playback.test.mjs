// When the agent's voice is heard: what the page hands to the browser's audio thread, buffer by buffer. The server is played
// by the test.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, launch, untilState, visit } from "./browser.mjs";
import { VoiceEndpoint, servePage } from "./scripted.mjs";

let files;
let browser;

before(async () => {
  files = await servePage();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
});

/** Runs `steps(page, endpoint)` in a session that has just begun. */
async function inSession(steps) {
  const endpoint = new VoiceEndpoint();
  const prepare = async (page) => {
    await noteSources(page);
    await endpoint.attach(page);
  };
  await visit(browser, files.url, { prepare }, async (page) => {
    await ask(page, "Hello");
    await endpoint.next("text");
    await steps(page, endpoint);
  });
}

/** Notes what is handed to the audio thread: when each buffer begins, how long it is, and when it was told to stop. */
async function noteSources(page) {
  await page.addInitScript(() => {
    window.sources = [];
    const { start } = AudioBufferSourceNode.prototype;
    const { stop } = AudioScheduledSourceNode.prototype;
    AudioBufferSourceNode.prototype.start = function (when, ...more) {
      this.note = { handedAt: this.context.currentTime, begin: when, end: when + this.buffer.duration, stop: null };
      window.sources.push(this.note);
      return start.call(this, when, ...more);
    };
    AudioScheduledSourceNode.prototype.stop = function (when) {
      if (this.note) this.note.stop = when;
      return stop.call(this, when);
    };
  });
}

const isClose = (one, other) => Math.abs(one - other) < 1e-6;

test("frames are heard one after the other, without a gap and without an overlap", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(1000);
    await untilState(page, { framesPlayed: 25 });
    const sources = await page.evaluate(() => window.sources);
    assert.equal(sources.length, 25);
    let seamless = 0;
    for (const [place, source] of sources.slice(1).entries()) {
      const before = sources[place];
      assert.ok(isClose(source.end - source.begin, 0.04));
      // One that came after the last had been heard can only begin anew.
      if (source.handedAt < before.end) {
        assert.ok(isClose(source.begin, before.end), JSON.stringify([before, source]));
        seamless += 1;
      } else {
        assert.ok(source.begin > source.handedAt, JSON.stringify(source));
      }
      assert.equal(source.stop, null);
    }
    assert.ok(seamless > 0);
  });
});

test("an interruption stops every buffer that was still to be heard", async () => {
  await inSession(async (page, endpoint) => {
    endpoint.sendTone(5000);
    await untilState(page, { speaking: true, framesReceived: 125 });
    endpoint.send({ type: "interrupted" });
    await untilState(page, { speaking: false, interruptions: 1 });
    const sources = await page.evaluate(() => window.sources);
    const stops = sources.map(({ stop }) => stop).filter((stop) => stop !== null);
    assert.ok(stops.length > 0);
    // All at one moment, a short fade after the interruption; what is not told to stop has been heard by then.
    assert.deepEqual(new Set(stops).size, 1);
    const unheard = sources.filter(({ end }) => end > stops[0]);
    assert.ok(unheard.every(({ stop }) => stop === stops[0]));
    assert.ok(unheard.length > 0);
    endpoint.sendTone(200);
    await page.waitForFunction((before) => window.sources.length === before + 5, sources.length);
    const [next] = (await page.evaluate(() => window.sources)).slice(sources.length);
    assert.ok(next.begin >= stops[0] - 0.012);
  });
});
