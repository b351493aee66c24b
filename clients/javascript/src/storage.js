// Owns what the browser keeps. Storage may be full or switched off; then nothing is kept and nothing fails.

/** `store`: "sessionStorage" for this tab, "localStorage" for this browser. */
export function keep(store, key, value) {
  try {
    if (value === null || value === "") globalThis[store].removeItem(key);
    else globalThis[store].setItem(key, typeof value === "string" ? value : JSON.stringify(value));
  } catch (error) {
    console.debug(`${key} is not kept`, error.name);
  }
}

/** The text that was kept, or "". */
export function kept(store, key) {
  try {
    return globalThis[store].getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** The object that was kept, or null. */
export function keptObject(store, key) {
  try {
    const value = JSON.parse(kept(store, key) || "null");
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
