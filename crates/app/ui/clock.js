// Owns time as people read it: durations, countdowns, and the difference between the server's clock and this device's.

let offsetMs = 0;

/** Learns the server's clock from a timestamp that it has just sent; a coarse one counts only where the clocks differ by more. */
export function learnServerTime(timestamp, coarseMs = 0) {
  const server = unixMs(timestamp);
  if (server !== null && Math.abs(server - Date.now()) > coarseMs) offsetMs = server - Date.now();
}

/** Milliseconds since the epoch from a number or an RFC 3339 text; null for anything else. */
export function unixMs(value) {
  const parsed = typeof value === "number" ? value : typeof value === "string" ? Date.parse(value) : NaN;
  return Number.isFinite(parsed) ? parsed : null;
}

/** The server's time now. */
export function serverNow() {
  return Date.now() + offsetMs;
}

/** Milliseconds from now, by the server's clock, until a server time. */
function remainingMs(serverUnixMs) {
  return serverUnixMs - serverNow();
}

/** Calls `show(remaining ms)` at once and each second, for the last time with 0; returns what ends it early. */
export function countdown(serverUnixMs, show) {
  let timer = 0;
  const step = () => {
    const left = Math.max(0, remainingMs(serverUnixMs));
    if (left === 0) clearInterval(timer);
    show(left);
  };
  if (remainingMs(serverUnixMs) > 0) timer = setInterval(step, 1000);
  step();
  return () => clearInterval(timer);
}

/** "0:42", "12:05", "3 h 20 min". Rounded, because the server's clock is known to within what a message takes. */
export function countdownText(ms) {
  const seconds = Math.max(1, Math.round(ms / 1000));
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** "84 ms", "1.3 s", and "< 1 ms" for what the server's milliseconds do not tell from nothing. */
export function durationText(ms) {
  if (!Number.isFinite(ms)) return "";
  if (ms >= 0 && ms < 0.5) return "< 1 ms";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
