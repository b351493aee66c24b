// Owns the notices above the conversation: one per subject, each said in plain words. Knows no session.
import { button, element, textOf } from "./dom.js";

export class Notices {
  #box;
  #shown = new Map();

  constructor(box) {
    this.#box = box;
  }

  /**
   * Shows a notice in place of the last one on the same subject. `tone`: `calm` or `warning`; `action`: a button below the text.
   * Returns its text element.
   */
  show(subject, { tone = "calm", title, text, action = null, lasting = false }) {
    const body = element("p", "notice-text", text);
    const notice = element("div", `notice ${tone}`, element("p", "notice-title", title), body, action);
    notice.dataset.subject = subject;
    if (!lasting) {
      const close = button("notice-close", "×", () => this.hide(subject));
      close.setAttribute("aria-label", `Dismiss: ${title}`);
      notice.append(close);
    }
    const old = this.#shown.get(subject);
    if (old) old.replaceWith(notice);
    else this.#box.append(notice);
    this.#shown.set(subject, notice);
    return body;
  }

  hide(subject) {
    this.#shown.get(subject)?.remove();
    this.#shown.delete(subject);
  }
}

/** Why the microphone cannot be used, by the reasons of capture.js. */
export const MICROPHONE_NOTICES = {
  insecure: {
    title: "Talking needs HTTPS",
    text: "Browsers give a page the microphone only over a secure connection (https, or this computer's own localhost). Typing works as it is.",
  },
  denied: {
    title: "The microphone is not allowed",
    text: "Allow it for this page in the browser's site settings, then press Talk again. Until then, type.",
  },
  missing: {
    title: "No microphone was found",
    text: "Connect one and press Talk again, or type.",
  },
  busy: {
    title: "The microphone does not answer",
    text: "Another program may be using it. Close that and press Talk again, or type.",
  },
  unsupported: {
    title: "This browser cannot record here",
    text: "A current Firefox, Chrome, Edge or Safari can. Typing works in this one.",
  },
  lost: {
    title: "The microphone went away",
    text: "Connect it again and press Talk, or type.",
  },
};

/** What is said where an answer to a question could not be taken. */
export const SEND_AGAIN_NOTICE = {
  title: "Your answer is not stored",
  text: "The server could not take it now. Nothing was done; answer once more.",
};

/** That the model will soon forget how the conversation began. */
export const CONTEXT_NOTICE = {
  title: "This conversation is nearly full",
  text: "The model may soon forget how it began. A new conversation has room again.",
};

/** That a person was asked. */
export function ticketNotice({ reason }) {
  return { title: "A person has been asked", text: `${textOf(reason)} The answer comes into this conversation.` };
}

const OUTCOME_WORDS = {
  CONFIRMATION_DECLINED: "It was declined. Nothing was done.",
  CONFIRMATION_EXPIRED: "The question does not count any more. Nothing was done.",
  OUTCOME_UNKNOWN: "It was approved, and whether it was done is not known.",
};

/** What came of a question that was open here and answered, or closed, elsewhere. */
export function outcomeNotice(response) {
  const title = "A question was settled without you";
  if (response?.ok === true) return { title, text: "It is done; see the list of calls for what came of it." };
  const type = response?.error?.type;
  const text = Object.hasOwn(OUTCOME_WORDS, type) ? OUTCOME_WORDS[type] : "It was not done; see the list of calls for why.";
  return { tone: "warning", title, text };
}

/** What an `error` message means, where its code says more to a person than its text. */
export const ERROR_NOTICES = {
  provider_auth: {
    title: "The model refused the server's key",
    text: "The server runs, but its model provider does not accept the API key. The server's operator has to set a valid one (for Gemini: GEMINI_API_KEY) and restart it.",
  },
  provider_unavailable: {
    title: "The model cannot be reached",
    text: "The server runs, but its model provider does not answer or hung up. Try again in a moment.",
  },
  provider_silent: {
    title: "The model fell silent",
    text: "No answer came in time. Ask again, or start again.",
  },
  overloaded: {
    title: "The server is full",
    text: "It has as many sessions as it can take. Try again in a moment.",
  },
  shutting_down: {
    title: "The server is being restarted",
    text: "Start again in a moment.",
  },
  SESSION_ACTIVE: {
    title: "This conversation is open elsewhere",
    text: "Another window or device is in this conversation. Close it there, or begin a new one here.",
  },
  tool_loop: {
    title: "The agent got stuck",
    text: "It kept calling tools without getting on, so its turn was ended. Try to ask in other words.",
  },
};
