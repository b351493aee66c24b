// Owns turning the microphone's samples into the frames that the server takes; runs on the browser's audio thread. It imports
// nothing, so that a bundler may copy it as it is.

const RATE_HZ = 16000;
const FRAME_SAMPLES = 320;
// Below 87.5 % of the narrower band everything passes; at its edge and beyond, aliases are 70 dB down (Kaiser's formulas).
const TRANSITION = 0.0625;
const ATTENUATION_DB = 70;
const PHASES_MAX = 512;

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

/** Changes the sample rate of mono audio. */
export class Resampler {
  #taps;
  #rows;
  #phases;
  #recent;
  #write = 0;
  #up;
  #down;
  #due;

  constructor(fromHz, toHz) {
    const divisor = greatestCommonDivisor(fromHz, toHz);
    this.#up = toHz / divisor;
    this.#down = fromHz / divisor;
    this.#phases = Math.min(this.#up, PHASES_MAX);
    const narrow = Math.min(1, toHz / fromHz);
    this.#taps = Math.ceil((ATTENUATION_DB - 8) / (2.285 * 2 * Math.PI * TRANSITION * narrow)) | 1;
    this.#rows = filterRows(this.#taps, this.#phases, (0.5 - TRANSITION / 2) * narrow);
    // Each sample is written twice, half a buffer apart, so that the latest ones always lie in one piece.
    this.#recent = new Float32Array(2 * this.#taps);
    this.#due = this.#down;
  }

  /** Takes samples at the one rate and hands each sample at the other rate to `emit`. */
  push(samples, emit) {
    const taps = this.#taps;
    for (const sample of samples) {
      this.#recent[this.#write] = sample;
      this.#recent[this.#write + taps] = sample;
      this.#write = (this.#write + 1) % taps;
      this.#due -= this.#up;
      while (this.#due <= 0) {
        emit(this.#filtered(Math.round((-this.#due / this.#up) * this.#phases)));
        this.#due += this.#down;
      }
    }
  }

  #filtered(phase) {
    const taps = this.#taps;
    const row = phase * taps;
    let sum = 0;
    for (let tap = 0; tap < taps; tap += 1) sum += this.#recent[this.#write + tap] * this.#rows[row + tap];
    return sum;
  }
}

/** One row of coefficients per fraction of an input sample, oldest sample first, each row with unit gain at 0 Hz. */
function filterRows(taps, phases, cutoff) {
  const beta = 0.1102 * (ATTENUATION_DB - 8.7);
  const centre = (taps - 1) / 2;
  const rows = new Float32Array((phases + 1) * taps);
  for (let phase = 0; phase <= phases; phase += 1) {
    const row = rows.subarray(phase * taps, (phase + 1) * taps);
    let sum = 0;
    for (let tap = 0; tap < taps; tap += 1) {
      const distance = taps - 1 - tap - centre - phase / phases;
      const edge = distance / (centre + 1);
      const angle = 2 * Math.PI * cutoff * distance;
      const sinc = distance === 0 ? 1 : Math.sin(angle) / angle;
      row[tap] = sinc * bessel(beta * Math.sqrt(Math.max(0, 1 - edge * edge)));
      sum += row[tap];
    }
    for (let tap = 0; tap < taps; tap += 1) row[tap] /= sum;
  }
  return rows;
}

/** The modified Bessel function of the first kind and order zero, by its series. */
function bessel(x) {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-9; k += 1) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function greatestCommonDivisor(a, b) {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

registerProcessor("windlass-capture", Capture);
