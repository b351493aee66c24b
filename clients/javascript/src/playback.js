// Owns the agent's voice: gapless playback of 24 kHz frames and stopping at once. Knows no protocol.
// Scheduled buffers, not a worklet: a page over plain http on a phone has no worklets and shall still be heard.

const RATE_HZ = 24000;
const LEAD_SECONDS = 0.08;
const AHEAD_SECONDS = 1;
const QUEUE_SECONDS_MAX = 300;
const FADE_SECONDS = 0.012;
/** How long a context may take to run before it counts as held back by the browser, where the user has done nothing yet. */
const BLOCKED_MS = 1000;
/** And where the user has: the browser lets it sound then, but a device, such as a headset without a wire, can take seconds. */
const DEVICE_START_MS = 5000;

export class Playback {
  #context = null;
  #volume = null;
  #voice = null;
  #muted = false;
  #queue = [];
  #queuedSamples = 0;
  #scheduled = new Set();
  #nextSample = 0;
  #oddByte = null;
  #ended = false;
  #discarding = false;
  #discardTimer = 0;
  #doneTimer = 0;
  #blockTimer = 0;
  /** The browser lets nothing sound until the user does something. */
  #isBlocked = false;
  #meter = null;
  #speaker = "";

  /** `onDone()`: all of a finished turn has been heard. `onChange()`: it began or fell silent. `onBlocked()`: needs a click. */
  constructor({ counters, onDone, onChange, onBlocked }) {
    Object.assign(this, { counters, onDone, onChange, onBlocked });
  }

  /**
   * Whether something is being heard, or will be as soon as the device has started. What waits for the browser to allow sound is not:
   * nobody should wait for it.
   */
  get isActive() {
    return this.#context !== null && !this.#isBlocked && (this.#scheduled.size > 0 || this.#queue.length > 0);
  }

  /** Makes sound possible. The browser wants this in a click or a key press. */
  unlock() {
    if (!this.#context) {
      this.#context = new AudioContext({ sampleRate: RATE_HZ });
      this.#volume = this.#context.createGain();
      this.#volume.gain.value = this.#muted ? 0 : 1;
      this.#meter = this.#context.createAnalyser();
      this.#meter.fftSize = 512;
      this.#volume.connect(this.#meter).connect(this.#context.destination);
      this.useSpeaker(this.#speaker);
      this.#voice = this.#newVoice();
      this.#context.addEventListener("statechange", () => {
        if (this.#context.state === "running") this.#isBlocked = false;
        this.#schedule();
        this.onChange();
      });
    }
    if (this.#context.state !== "running") this.#context.resume().catch(() => {});
  }

  /** Plays on a device, "" for the system's, where the browser can choose. */
  useSpeaker(deviceId) {
    this.#speaker = deviceId;
    if (this.#context?.setSinkId && this.#context.sinkId !== deviceId) {
      this.#context.setSinkId(deviceId).catch((error) => console.debug("the speaker is not used", error.name));
    }
  }

  /** How loud it is now, 0 to 1. */
  get level() {
    if (!this.#meter || !this.isActive) return 0;
    const samples = new Float32Array(this.#meter.fftSize);
    this.#meter.getFloatTimeDomainData(samples);
    return Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
  }

  mute(muted) {
    this.#muted = muted;
    this.#volume?.gain.setTargetAtTime(muted ? 0 : 1, this.#context.currentTime, FADE_SECONDS / 3);
  }

  /** Takes one frame of PCM16 mono at 24 kHz. */
  enqueue(pcm) {
    if (this.#discarding || this.#queuedSamples > QUEUE_SECONDS_MAX * RATE_HZ) {
      this.counters.framesDropped += 1;
      return;
    }
    const samples = this.#decode(pcm);
    if (samples.length === 0) return;
    this.#ended = false;
    clearTimeout(this.#doneTimer);
    this.#queue.push(samples);
    this.#queuedSamples += samples.length;
    this.unlock();
    this.#schedule();
    this.#watchForBlock();
  }

  /** No more audio comes for this turn: `onDone` follows when the last of it has been heard, at once where there was none. */
  endTurn() {
    this.accept();
    this.#oddByte = null;
    this.#ended = true;
    this.#finishIfDry();
  }

  /** Silence now; what was queued is lost. */
  stop() {
    this.counters.framesDropped += this.#queue.length + this.#scheduled.size;
    this.#queue = [];
    this.#queuedSamples = 0;
    this.#nextSample = 0;
    this.#oddByte = null;
    if (this.#context) {
      const now = this.#context.currentTime;
      // A fade of a few milliseconds; cutting a wave in its middle would click.
      this.#voice.gain.setTargetAtTime(0, now, FADE_SECONDS / 4);
      for (const source of this.#scheduled) source.stop(now + FADE_SECONDS);
      this.#scheduled = new Set();
      this.#voice = this.#newVoice();
    }
    this.onChange();
    this.#finishIfDry();
  }

  /** Throws audio away that was on its way when the user interrupted, until `accept`, two seconds at most. */
  discard() {
    this.#discarding = true;
    clearTimeout(this.#discardTimer);
    this.#discardTimer = setTimeout(() => this.accept(), 2000);
  }

  /** What comes from here on belongs to a newer answer. */
  accept() {
    this.#discarding = false;
    clearTimeout(this.#discardTimer);
  }

  /** A context takes a moment to run; one that still does not is held back by the browser until the user does something. */
  #watchForBlock() {
    if (this.#context.state === "running" || this.#blockTimer) return;
    const patience = navigator.userActivation?.hasBeenActive ? DEVICE_START_MS : BLOCKED_MS;
    this.#blockTimer = setTimeout(() => {
      this.#blockTimer = 0;
      if (this.#context.state === "running" || this.#queue.length + this.#scheduled.size === 0) return;
      this.#isBlocked = true;
      this.onBlocked();
      this.onChange();
      this.#finishIfDry();
    }, patience);
  }

  #newVoice() {
    const voice = this.#context.createGain();
    voice.connect(this.#volume);
    return voice;
  }

  /** Samples of a frame; a byte that was split off a sample by framing waits for its other half. */
  #decode(pcm) {
    let bytes = new Uint8Array(pcm);
    if (this.#oddByte !== null) {
      const joined = new Uint8Array(bytes.length + 1);
      joined[0] = this.#oddByte;
      joined.set(bytes, 1);
      bytes = joined;
      this.#oddByte = null;
    }
    if (bytes.length % 2 === 1) this.#oddByte = bytes[bytes.length - 1];
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length - (bytes.length % 2));
    const samples = new Float32Array(view.byteLength / 2);
    for (let at = 0; at < samples.length; at += 1) samples[at] = view.getInt16(2 * at, true) / 32768;
    return samples;
  }

  /** Hands frames to the audio thread, but only about a second ahead: thousands of waiting nodes would cost a phone dearly. */
  #schedule() {
    const context = this.#context;
    const wasActive = this.#scheduled.size > 0;
    const nowSample = Math.ceil(context.currentTime * RATE_HZ);
    while (this.#queue.length > 0 && this.#nextSample - nowSample < AHEAD_SECONDS * RATE_HZ) {
      const samples = this.#queue.shift();
      this.#queuedSamples -= samples.length;
      if (this.#nextSample < nowSample) this.#nextSample = nowSample + Math.round(LEAD_SECONDS * RATE_HZ);
      const buffer = context.createBuffer(1, samples.length, RATE_HZ);
      buffer.copyToChannel(samples, 0);
      const source = context.createBufferSource();
      source.buffer = buffer;
      source.connect(this.#voice);
      source.onended = () => this.#played(source);
      source.start(this.#nextSample / RATE_HZ);
      this.#nextSample += samples.length;
      this.#scheduled.add(source);
    }
    if (!wasActive && this.#scheduled.size > 0) this.onChange();
  }

  #played(source) {
    source.disconnect();
    // A source that is no longer listed was cut off by `stop`.
    if (!this.#scheduled.delete(source)) return;
    this.counters.framesPlayed += 1;
    this.#schedule();
    if (!this.isActive) this.onChange();
    this.#finishIfDry();
  }

  #finishIfDry() {
    if (!this.#ended || this.isActive) return;
    this.#ended = false;
    // The last samples are still on their way through the device.
    const latencySeconds = Math.min(1, this.#context?.outputLatency || 0);
    clearTimeout(this.#doneTimer);
    this.#doneTimer = setTimeout(() => this.onDone(), latencySeconds * 1000);
  }
}
