// Owns the settings of this browser: theme, microphone and speaker. They are kept here and nowhere else. Knows no session.
import { keep, kept } from "./client/storage.js";
import { element } from "./dom.js";

const KINDS = { microphone: "audioinput", speaker: "audiooutput" };

export class Settings {
  #elements;

  /** `elements`: themes (radio buttons), microphone, speaker (choices), speakerRow. `onDevice(name, deviceId)`. */
  constructor(elements, onDevice) {
    this.#elements = elements;
    this.onDevice = onDevice;
    const theme = kept("localStorage", "windlass.theme") || "system";
    for (const radio of elements.themes) {
      radio.checked = radio.value === theme;
      radio.addEventListener("change", () => this.#chooseTheme(radio.value));
    }
    for (const name of Object.keys(KINDS)) {
      onDevice(name, kept("localStorage", `windlass.${name}`));
      elements[name].addEventListener("change", () => {
        const { value } = elements[name];
        keep("localStorage", `windlass.${name}`, value);
        onDevice(name, value);
      });
    }
    elements.speakerRow.hidden = !("setSinkId" in (window.AudioContext?.prototype ?? {}));
    navigator.mediaDevices?.addEventListener("devicechange", () => this.listDevices());
  }

  /** Fills the choices with the devices that there are. Browsers name them once the microphone was allowed. */
  async listDevices() {
    const devices = (await navigator.mediaDevices?.enumerateDevices().catch(() => [])) ?? [];
    for (const [name, kind] of Object.entries(KINDS)) {
      const found = devices.filter((device) => device.kind === kind && device.deviceId !== "" && device.deviceId !== "default");
      const chosen = kept("localStorage", `windlass.${name}`);
      const options = [["", "The system’s choice"], ...found.map(({ deviceId, label }, at) => [deviceId, label || `${at + 1}`])];
      const choice = this.#elements[name];
      choice.replaceChildren(...options.map(([value, label]) => Object.assign(element("option", "", label), { value })));
      choice.value = found.some(({ deviceId }) => deviceId === chosen) ? chosen : "";
    }
  }

  #chooseTheme(theme) {
    keep("localStorage", "windlass.theme", theme === "system" ? null : theme);
    document.dispatchEvent(new CustomEvent("windlass-theme", { detail: theme }));
  }
}
