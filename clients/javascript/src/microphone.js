// Owns the microphone: permission, the audio graph up to finished frames, and why there is none. Knows no session.

const WORKLET = new URL("./capture-worklet.js", import.meta.url);

/** Why there is no microphone: `insecure`, `denied`, `missing`, `busy` or `unsupported`. */
class MicrophoneError extends Error {
  constructor(reason, cause) {
    super(`no microphone: ${reason}`, { cause });
    this.reason = reason;
  }
}

/**
 * Opens the microphone. `onFrame(ArrayBuffer, level)` gets 20 ms of PCM16 at 16 kHz with its loudness (0 to 1), `onLost()`
 * tells that the device went away. `deviceId` is the microphone that is wanted, "" for the system's; `workletUrl` where
 * capture-worklet.js lies, if a bundler has moved it. Call it from a click. Returns the function that closes it.
 */
export async function openMicrophone({ onFrame, onLost, deviceId = "", workletUrl = WORKLET }) {
  if (!window.isSecureContext) throw new MicrophoneError("insecure");
  if (!navigator.mediaDevices?.getUserMedia || !window.AudioWorkletNode) throw new MicrophoneError("unsupported");
  // Some browsers let a context run only if it was made inside the click itself, so it comes before anything is awaited.
  const context = new AudioContext({ latencyHint: "interactive" });
  let stream = null;
  try {
    stream = await navigator.mediaDevices.getUserMedia({
      audio: { ...(deviceId ? { deviceId: { ideal: deviceId } } : {}), channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true },
    });
    await context.audioWorklet.addModule(workletUrl);
    await context.resume();
  } catch (error) {
    stream?.getTracks().forEach((track) => track.stop());
    await context.close();
    throw new MicrophoneError(reasonOf(error), error);
  }
  const source = context.createMediaStreamSource(stream);
  const worklet = new AudioWorkletNode(context, "windlass-capture", { channelCount: 1, channelCountMode: "explicit" });
  worklet.port.onmessage = ({ data }) => onFrame(data.pcm, data.level);
  // The worklet's own output is silence; some browsers run only what leads to the speakers.
  source.connect(worklet).connect(context.destination);
  for (const track of stream.getTracks()) track.addEventListener("ended", onLost);

  return () => {
    worklet.port.onmessage = null;
    for (const track of stream.getTracks()) {
      track.removeEventListener("ended", onLost);
      track.stop();
    }
    context.close();
  };
}

function reasonOf(error) {
  switch (error?.name) {
    case "NotAllowedError":
    case "SecurityError":
      return "denied";
    case "NotFoundError":
    case "OverconstrainedError":
      return "missing";
    case "NotReadableError":
    case "AbortError":
      return "busy";
    default:
      return "unsupported";
  }
}
