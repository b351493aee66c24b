// Owns the list of accounts at other services that tools may use for the user, with a way to connect each and to end it. It asks when
// the settings are opened, and never before. Knows no session.
import { button, element, link, textOf } from "./dom.js";

const SHOWN_MAX = 64;

export class Connections {
  #box;
  #list;

  /** `elements`: panel (a popover), box (hidden where there is nothing to connect), list. */
  constructor({ panel, box, list }) {
    this.#box = box;
    this.#list = list;
    panel.addEventListener("toggle", ({ newState }) => newState === "open" && this.#load());
  }

  async #load() {
    try {
      const answer = await fetch("api/connections", { headers: { accept: "application/json" } });
      const { connections } = answer.ok ? await answer.json() : {};
      const shown = (Array.isArray(connections) ? connections : []).slice(0, SHOWN_MAX);
      this.#box.hidden = shown.length === 0;
      this.#list.replaceChildren(...shown.map((connection) => this.#row(connection)));
    } catch (error) {
      console.debug("what is connected is not known", error.message);
    }
  }

  #row({ name, title, connected, connectUrl }) {
    const label = textOf(title);
    if (connected !== true) return element("li", "", label, " ", connectLink(connectUrl, label));
    const end = button("small", "Disconnect", async () => {
      end.disabled = true;
      await fetch(`api/connections/${encodeURIComponent(name)}`, { method: "DELETE" }).catch((error) => console.debug("it is still connected", error.message));
      await this.#load();
    });
    end.setAttribute("aria-label", `Disconnect ${label}`);
    return element("li", "", label, " ", end);
  }
}

/** That a call needs an account of the user's. */
export function connectNotice({ title, url }) {
  const label = textOf(title);
  const text = "What was asked for needs your account there. Connect it, and ask again.";
  return { title: `${label} is not connected`, text, action: connectLink(url, label) };
}

function connectLink(url, label) {
  const made = link("connect", "Connect", textOf(url));
  made.setAttribute("aria-label", `Connect ${label}`);
  return made;
}
