// Owns the pictures that are to go with the next message: chosen, pasted or dropped, made small enough, shown and taken away again.
// Knows no conversation.
import { announce, DRAWINGS, element, iconButton } from "./dom.js";

const PICTURES_MAX = 8;
const BYTES_MAX = 900_000;
const SIDES_PX = [2048, 1536, 1024];
const THUMB_PX = 160;
const AS_IT_IS = new Set(["image/jpeg", "image/png", "image/webp"]);

export class Attachments {
  #list;
  #notices;
  #pictures = [];

  /** `list`: where they are shown. `onChange()` follows where there are more or fewer. */
  constructor(list, notices, onChange) {
    this.#list = list;
    this.#notices = notices;
    this.onChange = onChange;
  }

  get count() {
    return this.#pictures.length;
  }

  /** Adds the pictures among some files; what is no picture is said so. */
  async add(files) {
    const problems = [];
    for (const file of files) {
      if (this.#pictures.length >= PICTURES_MAX) {
        problems.push(`A message takes ${PICTURES_MAX} pictures at most.`);
        break;
      }
      const picture = file.type.startsWith("image/") ? await prepared(file) : null;
      if (picture) this.#show(picture, file.name || "Pasted picture");
      else problems.push(`“${file.name}” is no picture that this browser can read.`);
    }
    if (problems.length > 0) this.#notices.show("attachment", { tone: "warning", title: "Not everything could be attached", text: problems.join(" ") });
    else this.#notices.hide("attachment");
    this.onChange();
  }

  /** Gives the pictures away: each a part of a message as the SDK writes it, and what shows it. */
  take() {
    const taken = this.#pictures.map(({ part, shown }) => ({ part, shown }));
    this.#pictures = [];
    this.#list.replaceChildren();
    this.onChange();
    return taken;
  }

  #show({ url, mediaType, canvas }, name) {
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", name);
    const picture = { part: { type: "file", mediaType, filename: name, url }, shown: canvas };
    const remove = iconButton("remove", `Remove ${name}`, DRAWINGS.remove, () => {
      this.#pictures = this.#pictures.filter((other) => other !== picture);
      item.remove();
      this.onChange();
    });
    const item = element("li", "attachment", canvas, remove);
    this.#pictures.push(picture);
    this.#list.append(item);
    announce(`${name} is attached`);
  }
}

/** A picture that is short enough to be sent, with a small copy to look at; null for what the browser cannot read. */
async function prepared(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch (error) {
    console.debug("a picture cannot be read", error.name);
    return null;
  }
  // Drawn, because the page's policy lets no picture in by its bytes.
  const canvas = drawn(bitmap, THUMB_PX);
  let blob = file;
  if (!AS_IT_IS.has(file.type) || file.size > BYTES_MAX || Math.max(bitmap.width, bitmap.height) > SIDES_PX[0]) {
    for (const side of SIDES_PX) {
      blob = await new Promise((resolve) => drawn(bitmap, side).toBlob(resolve, "image/jpeg", 0.85));
      if (blob && blob.size <= BYTES_MAX) break;
    }
  }
  bitmap.close();
  if (!blob) return null;
  return { canvas, mediaType: blob.type, url: await dataUrl(blob) };
}

function drawn(bitmap, sideMax) {
  const scale = Math.min(1, sideMax / Math.max(bitmap.width, bitmap.height));
  const canvas = element("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  // What is transparent has no colour in a JPEG.
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas;
}

function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
