// Measures the page in Chromium: how smoothly a conversation of 10,000 messages scrolls, how soon the page is drawn, and how soon a word
// of the server is. Prints what it finds and asserts nothing: `node measure.mjs`, on a machine that does nothing else.
import { launch, DESK, visit, ask } from "./browser.mjs";
import { servePage } from "./scripted.mjs";

const MESSAGES = Number(process.env.MESSAGES ?? 10_000);
const FRAMES = 300;
const files = await servePage({ text: { available: true, provider: "test", model: "test" } }, ({ path }) =>
  path === "/api/chat" ? { events: [{ type: "text-delta", id: "t", delta: "Here." }, { type: "finish", finishReason: "stop" }] } : null,
);
const browser = await launch();
const quantile = (values, part) => values.toSorted((one, other) => one - other)[Math.floor(part * (values.length - 1))];
const shown = (values) => `p50 ${quantile(values, 0.5).toFixed(1)} ms, p95 ${quantile(values, 0.95).toFixed(1)} ms, longest ${Math.max(...values).toFixed(1)} ms`;

await visit(browser, files.url, { context: DESK }, async (page) => {
  const frames = await page.evaluate(async ([messages, frames]) => {
    const { Transcript } = await import(new URL("transcript.js", document.baseURI));
    const scroller = document.querySelector("#conversation");
    const transcript = new Transcript(document.querySelector("#transcript"), scroller, document.querySelector("#to-end"), { onEdit() {}, onAgain() {} });
    document.querySelector("#welcome").hidden = true;
    for (let at = 1; at <= messages; at += 1) {
      const text = at % 2 ? `Question ${at}: who built the ship?` : `**Answer ${at}**\n\n1. Colin Archer\n2. In Larvik\n\n\`\`\`js\nconst ship = ${at};\n\`\`\`\n\n${"It was built for the ice. ".repeat(at % 13)}`;
      transcript.receive({ role: at % 2 ? "user" : "assistant", text, final: true });
    }
    const frame = () => new Promise(requestAnimationFrame);
    for (let waited = 0; waited < 10; waited += 1) await frame();
    const measured = {};
    for (const [name, step] of [["wheel, upwards", () => -400], ["jumps", () => 0]]) {
      const times = [];
      let last = await frame();
      for (let at = 0; at < frames; at += 1) {
        if (name === "jumps") scroller.scrollTop = scroller.scrollHeight * ((at * 0.618) % 1);
        else scroller.scrollTop += step();
        const now = await frame();
        times.push(now - last);
        last = now;
      }
      measured[name] = times;
    }
    return measured;
  }, [MESSAGES, FRAMES]);
  for (const [name, times] of Object.entries(frames)) console.log(`${MESSAGES} messages, ${name}: ${shown(times)}`);
});

const paints = [];
const answers = [];
for (let visits = 0; visits < 10; visits += 1) {
  await visit(browser, files.url, { context: DESK }, async (page) => {
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    const seen = page.evaluate(() => new Promise((resolve) => {
      let arrived = 0;
      const { fetch } = window;
      window.fetch = async (...request) => {
        const answer = await fetch(...request);
        arrived ||= performance.now();
        return answer;
      };
      new MutationObserver(() => {
        if (document.querySelector(".line.assistant .words")?.textContent !== "Here.") return;
        requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - arrived)));
      }).observe(document.querySelector("#transcript"), { subtree: true, childList: true, characterData: true });
    }));
    await ask(page, "Hello");
    answers.push(await seen);
  });
}
console.log(`first paint of the page: ${shown(paints)}`);
console.log(`from the server's answer to its first word on the screen: ${shown(answers)}`);
await browser.close();
files.close();
