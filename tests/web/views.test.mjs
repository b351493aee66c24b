// Results in the form in which people know them: appointments, free times, sources, tickets, pictures and lists, whichever tool
// brought them; with the JSON behind one click, and nothing of it taken for more than text.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ask, DESK, launch, visit } from "./browser.mjs";
import { VoiceEndpoint, servePage } from "./scripted.mjs";

const IN_OSLO = { ...DESK, locale: "en-GB", timezoneId: "Europe/Oslo" };
const EVENT = { event_id: "e1", calendar: "primary", title: "Dentist", start: "2026-11-30T14:00:00+01:00", end: "2026-11-30T15:30:00+01:00", all_day: false, status: "confirmed", attendees: [] };

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

/** Runs `steps(page, show)`; `show(result)` has a call bring a result, as an object or as its JSON, and returns what the page shows of the call. */
async function inSession(steps, context = IN_OSLO) {
  const endpoint = new VoiceEndpoint();
  await visit(browser, files.url, { context, prepare: (page) => endpoint.attach(page), excused: /404/ }, async (page) => {
    await ask(page, "Hello");
    await endpoint.next("text");
    let calls = 0;
    await steps(page, async (result) => {
      const callId = `call-${(calls += 1)}`;
      endpoint.send({ type: "tool_call_started", callId, tool: "tool", args: {}, status: `Looking ${callId}` });
      endpoint.send({ type: "tool_call_finished", callId, tool: "tool", ok: true, durationMs: 1, result: typeof result === "string" ? result : JSON.stringify(result) });
      const row = page.locator(".call[data-state=done]").nth(calls - 1);
      await row.waitFor();
      return row;
    });
  });
}

/** The words of each element, in one line each. */
async function words(locator) {
  return (await locator.allInnerTexts()).map((text) => text.replace(/\s+/gu, " ").trim());
}

test("events stand under their day, at the reader's time, with what is to be known of them", async () => {
  await inSession(async (page, show) => {
    const row = await show({
      time_zone: "Europe/London",
      items: [
        EVENT,
        { ...EVENT, event_id: "e2", title: "Night train", start: "2026-11-30T22:00:00Z", end: "2026-12-01T10:00:00Z", status: "tentative", location: "Track 4", attendees: ["anna@example.org", "bo@example.org"], description: "Bring a book." },
        { ...EVENT, event_id: "e3", title: "Holiday", start: "2026-12-24T00:00:00Z", end: "2026-12-27T00:00:00Z", all_day: true },
        { ...EVENT, event_id: "e4", title: null, start: "2026-12-28T09:00:00Z", end: "2026-12-28T09:45:00Z", calendar: "team" },
      ],
      left_out: 40,
    });
    assert.deepEqual(await words(row.locator(".event")), [
      "Mon, 30 Nov 2026 14:00–15:30 Dentist",
      "23:00 – Tue, 1 Dec 2026, 11:00 Night train Tentative Location: Track 4 · Attendees: anna@example.org, bo@example.org Bring a book.",
      "Thu, 24 Dec 2026 All day until Sat, 26 Dec 2026 Holiday",
      "Mon, 28 Dec 2026 10:00–10:45 45 min Calendar: team",
    ]);
    assert.deepEqual(await words(row.locator(".view-part > div > .view-details")), ["and 40 more"]);
    assert.deepEqual(await words(row.locator(".view > .view-details")), ["Times of Europe/Oslo, where you are. The calendar is in Europe/London."]);
    assert.equal(await row.locator(".event time").first().getAttribute("datetime"), EVENT.start);
    assert.equal(await row.locator("ol.events").getAttribute("aria-label"), "Items");
  });
});

test("free and taken times, one event after a change, and calendars of others have the same form", async () => {
  await inSession(async (page, show) => {
    const slot = (start, end, minutes) => ({ start: `2026-11-30T${start}:00+01:00`, end: `2026-11-30T${end}:00+01:00`, duration_minutes: minutes });
    const availability = await show({
      date_range: { start: "2026-11-30T00:00:00+01:00", end: "2026-12-01T00:00:00+01:00" },
      time_zone: "Europe/Oslo",
      existing_events: [{ start: "2026-11-30T10:30:00+01:00", end: "2026-11-30T11:00:00+01:00", status: "busy", calendar: "primary", title: null }],
      available_slots: [slot("09:00", "10:30", 90), slot("11:00", "17:00", 360)],
      summary: "1 busy periods, 2 available slots (450 minutes total)",
    });
    assert.deepEqual(await words(availability.locator(".view-name")), ["Existing events", "Available slots"]);
    assert.deepEqual(await words(availability.locator(".event")), ["Mon, 30 Nov 2026 10:30–11:00 30 min Busy", "Mon, 30 Nov 2026 09:00–10:30 1 h 30 min", "11:00–17:00 6 h"]);
    assert.deepEqual(await words(availability.locator(".view > .view-details")), ["Times of Europe/Oslo"]);
    assert.deepEqual((await words(availability.locator(".view > .fields > div > dt"))), ["Date range", "Summary"]);

    const cancelled = await show({ event: { ...EVENT, status: "cancelled" } });
    assert.deepEqual(await words(cancelled.locator(".event.cancelled")), ["Mon, 30 Nov 2026 14:00–15:30 Dentist Cancelled"]);
    const linked = await show({ event: { ...EVENT, conference_link: "https://meet.example/abc" } });
    assert.equal(await linked.getByRole("link", { name: "https://meet.example/abc" }).getAttribute("target"), "_blank");
    const noted = await show({ event: EVENT, note: "the event has no conference link" });
    assert.deepEqual(await words(noted.locator(".view > .fields")), ["Note the event has no conference link"]);

    const google = await show([
      { id: "g1", etag: "x", summary: "Review", htmlLink: "https://calendar.example/g1", start: { dateTime: "2026-11-30T08:00:00Z" }, end: { dateTime: "2026-11-30T08:30:00Z" }, attendees: Array.from({ length: 7 }, (_, at) => ({ email: `${at}@example.org`, responseStatus: "accepted" })) },
      { id: "g2", summary: "Fair", start: { date: "2026-12-01" }, end: { date: "2026-12-02" } },
    ]);
    assert.deepEqual(await words(google.locator(".event")), ["Mon, 30 Nov 2026 09:00–09:30 Review Attendees: 0@example.org, 1@example.org, 2@example.org, 3@example.org, and 3 more", "Tue, 1 Dec 2026 All day Fair"]);
    assert.equal(await google.getByRole("link", { name: "Review" }).getAttribute("href"), "https://calendar.example/g1");
    const local = await show({ visits: [{ name: "Vet", startTime: "2026-11-30T08:00:00", endTime: "2026-11-30T08:30:00" }] });
    assert.deepEqual(await words(local.locator(".event")), ["Mon, 30 Nov 2026 08:00–08:30 Vet"]);
  });
});

test("a list of things with the same few members is a table with headings", async () => {
  await inSession(async (page, show) => {
    const ranked = await show('{"ranked":[{"rank":1,"score":0.9500,"item":{"name":"Fram","price":12345678901234567890}},{"rank":2,"score":0.5,"item":{"name":"Maud","price":3},"missing":["age"]}],"count":2}');
    assert.deepEqual(await words(ranked.getByRole("columnheader")), ["Rank", "Name", "Score", "Price", "Missing"]);
    assert.deepEqual(await words(ranked.locator("tbody td")), ["1", "Fram", "0.9500", "12345678901234567890", "", "2", "Maud", "0.5", "3", "age"]);
    assert.deepEqual(await ranked.locator("th").evaluateAll((all) => all.map(({ scope, className }) => [scope, className])), [["col", "align-right"], ["col", ""], ["col", "align-right"], ["col", "align-right"], ["col", ""]]);
    assert.equal(await ranked.getByRole("group", { name: "Ranked" }).getAttribute("tabindex"), "0");
    const wrapped = await show({ response: { orders: [{ orderId: "A-1001", paid: true, shippedAt: null }, { orderId: "A-1002", paid: false, shippedAt: null }] } });
    assert.deepEqual(await words(wrapped.locator("td")), ["A-1001", "Yes", "A-1002", "No"]);
    const contacts = await show({ emails: ["anna@example.org"], phones: [{ number: "+4723282950", written: "+47 23 28 29 50", region: "NO" }], links: ["https://frammuseum.no/en"], more: false });
    assert.deepEqual(await words(contacts.locator(".view-name")), ["Emails", "Phones", "Links"]);
    assert.equal(await contacts.locator(".view > .fields").count(), 0, "that there are no more is not said");
    assert.deepEqual(await words(contacts.locator("td")), ["+4723282950", "+47 23 28 29 50", "NO"]);
    assert.equal(await contacts.getByRole("link", { name: "https://frammuseum.no/en" }).getAttribute("rel"), "noopener noreferrer");
  });
});

test("what was found is told by title, words and place, and tickets by their number and state", async () => {
  await inSession(async (page, show) => {
    const hit = { id: "ship:fram", type: "ship", title: "Fram", source_type: "markdown", last_updated: null, score: 0.812, snippet: "Designed by Colin Archer.", metadata: {}, url: "https://frammuseum.no/fram" };
    const found = await show({ results: [hit, { ...hit, id: "p", title: "Colin Archer", url: null, snippet: "A shipbuilder." }], retrieval: "lexical" });
    assert.deepEqual(await words(found.locator(".source")), ["Fram frammuseum.no Designed by Colin Archer. Type: ship · Source type: markdown", "Colin Archer A shipbuilder. Type: ship · Source type: markdown"]);
    assert.equal(await found.getByRole("link", { name: "Fram" }).getAttribute("href"), "https://frammuseum.no/fram");
    const record = await show({ id: "doc:a", title: "Where to begin", full_text: "# Begin\n\nPut your documents here.", sources: [{ source_type: "markdown", source_path: "a.md" }], url: null });
    assert.deepEqual(await words(record.locator(".call-view > .source")), ["Where to begin # Begin Put your documents here."]);
    const trip = await show({ title: "A trip", description: "Three ships.", start: "2026-11-30T08:00:00Z", end: "2026-11-30T09:00:00Z", ships: [{ name: "Fram" }, { name: "Maud" }] });
    assert.deepEqual(await words(trip.locator("td")), ["Fram", "Maud"], "a list is not left out");
    const ticket = await show({ ticket_id: "T-1042", status: "open", urgency: "high", note: "A person answers within a day.", instruction: "Promise no time." });
    assert.deepEqual(await words(ticket.locator(".ticket .event-head")), ["Ticket T-1042 Open"]);
    assert.deepEqual(await words(ticket.locator(".ticket dd")), ["high", "A person answers within a day."]);
  });
});

test("a picture of this server is shown, and one from elsewhere is a link", async () => {
  await inSession(async (page, show) => {
    const row = await show({ images: [{ url: "/pictures/abc", caption: "A ship" }, { url: "https://elsewhere.example/b.png", caption: "A boat" }, { image_url: "/drawings/c", mime_type: "image/png" }] });
    assert.deepEqual(await row.locator("img").evaluateAll((all) => all.map((picture) => [new URL(picture.src).pathname, picture.alt])), [["/pictures/abc", "A ship"], ["/drawings/c", "Picture"]]);
    assert.equal(await row.getByRole("link", { name: "Open picture: A boat" }).getAttribute("href"), "https://elsewhere.example/b.png");
  });
});

test("of a long list the first rows are shown, others on a click, and the rest is counted", async () => {
  await inSession(async (page, show) => {
    const things = (count) => Array.from({ length: count }, (_, at) => ({ name: `Thing ${at}`, price: at }));
    const row = await show(things(140));
    assert.equal(await row.locator("tbody tr").count(), 10);
    assert.deepEqual(await words(row.locator(".call-view .view-details")), ["and 40 more"]);
    await row.getByRole("button", { name: "Show 90 more" }).focus();
    await page.keyboard.press("Enter");
    assert.equal(await row.locator("tbody tr").count(), 100);
    assert.match(await page.evaluate(() => document.activeElement.textContent), /Thing 10/);
    assert.equal(await row.getByRole("button", { name: /^Show/ }).count(), 0);
    const short = await show({ names: things(11).map(({ name }) => name), left_out: 0 });
    assert.equal(await short.locator(".values li").count(), 10);
    assert.equal(await short.getByText(/^and/).count(), 0);
  });
});

test("the JSON is one click away, with every digit, and what has no such form stays as it was", async () => {
  await inSession(async (page, show) => {
    const json = '{"orders":[{"id":12345678901234567890,"price":1.10}]}';
    const row = await show(json);
    assert.equal(await row.locator(".call-value").isVisible(), false);
    await row.locator("summary", { hasText: "As JSON" }).focus();
    await page.keyboard.press("Enter");
    assert.equal((await row.locator(".call-value code").innerText()).replace(/\s/g, ""), json);
    for (const plain of ["plain words", '{"cut":[{"a":1},…', { name: "Fram", length: 39 }, { items: [], left_out: 0, time_zone: "UTC" }, [1, 2, 3], { rows: [{ a: { b: { c: 1 } } }] }, [{ a: 1 }, "b"], [{ a: 1 }, { b: 1 }, { c: 1 }, { d: 1 }], { start: "2026-11-30T08:00:00Z", end: "2026-11-30T07:00:00Z", title: "Backwards" }, { start: "30 Nov", title: "No date" }, Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`member ${at}`, at])), {}, []]) {
      const other = await show(plain);
      assert.equal(await other.locator(".call-view").isVisible(), false, JSON.stringify(plain));
      assert.match(await other.locator(".call-result summary").innerText(), /^Result /);
    }
  });
});

test("what a result holds is text and nothing else", async () => {
  await inSession(async (page, show) => {
    const hostile = '<img src=x onerror="window.broken=1"><b>bold</b>';
    const results = [
      { items: [{ ...EVENT, title: hostile, location: hostile, description: hostile, status: hostile, url: "javascript:alert(1)" }], time_zone: hostile },
      { results: [{ title: hostile, snippet: hostile, url: "javascript:alert(1)", [hostile]: hostile }] },
      { [hostile]: [{ [hostile]: hostile, __proto__: { x: 1 }, link: "data:text/html,x" }] },
      { ticket_id: hostile, status: hostile, constructor: hostile },
      { images: [{ url: "javascript:alert(1)//x.png" }, { url: "//elsewhere.example/x.png", caption: hostile }] },
      { words: [hostile, "javascript:alert(1)", "data:image/png;base64,AAAA", "a\u202eb"] },
    ];
    for (const result of results) {
      const row = await show(result);
      assert.equal(await row.locator("img, b, script").count(), 0, JSON.stringify(result));
      const addresses = await row.locator("a").evaluateAll((all) => all.map(({ protocol, hostname, target, rel }) => [protocol, hostname, target, rel]));
      for (const address of addresses) assert.deepEqual(address, ["http:", "elsewhere.example", "_blank", "noopener noreferrer"]);
    }
    assert.equal(await page.evaluate(() => window.broken), undefined);
  });
});
