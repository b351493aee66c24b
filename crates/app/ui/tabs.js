// Owns telling this browser's other tabs that a conversation has gone on, or is gone, and hearing it from them. Knows no layout.

export class Tabs {
  #channel = null;

  /** `onNews(id, { isDeleted })`: another tab has changed a conversation. */
  constructor(onNews) {
    if (!("BroadcastChannel" in window)) return;
    this.#channel = new BroadcastChannel("windlass.conversations");
    this.#channel.onmessage = ({ data }) => typeof data?.id === "string" && onNews(data.id, { isDeleted: data.isDeleted === true });
  }

  tell(id, { isDeleted = false } = {}) {
    this.#channel?.postMessage({ id, isDeleted });
  }
}
