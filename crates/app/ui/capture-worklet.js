// Owns turning the microphone's samples into the frames that the server takes; runs on the browser's audio thread.
import { Resampler } from "./resample.js";

const RATE_HZ = 16000;
const FRAME_SAMPLES = 320;

class Capture extends AudioWorkletProcessor {
  #resampler = new Resampler(Math.round(sampleRate), RATE_HZ);
  #frame = new Int16Array(FRAME_SAMPLES);
  #filled = 0;
  #energy = 0;

  process([input]) {
    if (input[0]) this.#resampler.push(input[0], this.#take);
    return true;
  }

  #take = (sample) => {
    const limited = Math.max(-1, Math.min(1, sample));
    this.#frame[this.#filled] = Math.round(limited * 32767);
    this.#energy += limited * limited;
    this.#filled += 1;
    if (this.#filled < FRAME_SAMPLES) return;
    // PCM16 in the byte order of the device: little-endian on everything that runs a browser today.
    const pcm = this.#frame.buffer;
    this.port.postMessage({ pcm, level: Math.sqrt(this.#energy / FRAME_SAMPLES) }, [pcm]);
    this.#frame = new Int16Array(FRAME_SAMPLES);
    this.#filled = 0;
    this.#energy = 0;
  };
}

registerProcessor("windlass-capture", Capture);
