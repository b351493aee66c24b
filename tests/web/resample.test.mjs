// The microphone's resampler: speech passes, what would fold into it does not, and the rate is exact.
import assert from "node:assert/strict";
import { test } from "node:test";

// What the browser's audio thread has in place of modules.
Object.assign(globalThis, { AudioWorkletProcessor: class {}, registerProcessor() {} });
const { Resampler } = await import("../../clients/javascript/src/capture-worklet.js");

/** Loudness of a tone after resampling to 16 kHz, in decibels relative to what went in. */
function gainDecibels(fromHz, toneHz) {
  const resampler = new Resampler(fromHz, 16000);
  const output = [];
  const input = Float32Array.from({ length: fromHz }, (_, at) => Math.sin((2 * Math.PI * toneHz * at) / fromHz));
  resampler.push(input, (sample) => output.push(sample));
  const steady = output.slice(2000, 14000);
  const power = steady.reduce((sum, sample) => sum + sample * sample, 0) / steady.length;
  return 10 * Math.log10(2 * power + 1e-30);
}

test("tones of the speech band pass unchanged at every usual rate", () => {
  for (const rate of [8000, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000]) {
    for (const tone of [100, 1000, 3000]) {
      assert.ok(Math.abs(gainDecibels(rate, tone)) < 0.1, `${tone} Hz at ${rate} Hz`);
    }
  }
});

test("tones above the band are gone before they could fold into it", () => {
  for (const rate of [32000, 44100, 48000, 96000]) {
    for (const tone of [8100, 9000, 12000, 15000]) {
      assert.ok(gainDecibels(rate, tone) < -60, `${tone} Hz at ${rate} Hz: ${gainDecibels(rate, tone)} dB`);
    }
  }
});

test("a second of input gives a second of output, in pieces of any size", () => {
  for (const rate of [8000, 11025, 44100, 47999, 48000]) {
    const resampler = new Resampler(rate, 16000);
    let count = 0;
    for (let left = rate; left > 0; left -= 128) {
      resampler.push(new Float32Array(Math.min(128, left)), () => {
        count += 1;
      });
    }
    assert.equal(count, 16000, `${rate} Hz`);
  }
});

test("a constant stays what it is", () => {
  const resampler = new Resampler(44100, 16000);
  const output = [];
  resampler.push(new Float32Array(44100).fill(0.5), (sample) => output.push(sample));
  for (const sample of output.slice(1000)) assert.ok(Math.abs(sample - 0.5) < 1e-4);
});
