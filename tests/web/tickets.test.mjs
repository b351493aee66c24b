// The page looks for people's answers as long as the conversation is shown, and shows each once.
import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { test } from "node:test";
import { Tickets } from "../../crates/app/ui/recalled.js";

const call = (ticketId) => ({ type: "dynamic-tool", toolName: "escalate", state: "output-available", output: { ticket_id: ticketId, status: "open" } });
const reply = (ticketId, text, author = "Maya") => ({ type: "data-ticket-reply", id: `entry-${text}`, data: { ticketId, author, text, at: "2026-11-28T14:00:00Z" } });

/** Tickets over a conversation whose parts a test sets, with a clock of the test's. */
function watched(t) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const scene = { parts: [], shown: [], looks: 0, canRead: true };
  const read = async () => {
    scene.looks += 1;
    if (!scene.canRead) throw new Error("the server does not answer");
    return [{ role: "assistant", parts: scene.parts }];
  };
  scene.tickets = new Tickets(read, ({ text }) => scene.shown.push(text));
  scene.pass = async (seconds) => {
    for (let second = 0; second < seconds; second += 1) {
      t.mock.timers.tick(1_000);
      await turn();
    }
  };
  return scene;
}

test("each of two tickets gets its answers, hours later, too, and after a read that failed", async (t) => {
  const scene = watched(t);
  scene.tickets.opened("tk1");
  scene.tickets.opened("tk2");
  scene.canRead = false;
  await scene.pass(2 * 3_600);
  scene.canRead = true;
  scene.parts = [reply("tk2", "Two.")];
  await scene.pass(15);
  assert.deepEqual([scene.shown, scene.tickets.areOpen], [["Two."], true]);
  scene.parts = [reply("tk2", "Two."), reply("tk1", "One.")];
  await scene.pass(15);
  assert.deepEqual([scene.shown, scene.tickets.areOpen], [["Two.", "One."], false]);
  scene.parts = [...scene.parts, reply("tk1", "And.")];
  await scene.pass(60);
  assert.deepEqual(scene.shown, ["Two.", "One.", "And."]);
});

test("after a reload what is open is waited for, and what is shown is not shown again", async (t) => {
  const scene = watched(t);
  scene.parts = [call("tk1"), reply("tk1", "One."), call("tk2"), { type: "dynamic-tool", toolName: "escalate", state: "output-error" }];
  scene.tickets.recalled([{ role: "assistant", parts: scene.parts }, null, { parts: "none" }]);
  assert.equal(scene.tickets.areOpen, true);
  // A page of earlier messages has the ticket alone.
  scene.tickets.recalled([{ role: "assistant", parts: [call("tk1")] }]);
  scene.tickets.replied({ ticketId: "tk1", author: "Maya", text: "One." });
  scene.parts = [...scene.parts, reply("tk2", "Two.")];
  await scene.pass(15);
  assert.deepEqual([scene.shown, scene.tickets.areOpen], [["Two."], false]);
  // What voice has told is not shown once more.
  scene.tickets.replied({ ticketId: "tk2", author: "Maya", text: "More." });
  scene.parts = [...scene.parts, reply("tk2", "More.")];
  await scene.pass(60);
  assert.deepEqual(scene.shown, ["Two.", "More."]);
});

test("nothing is looked for without a ticket, or in another conversation", async (t) => {
  const scene = watched(t);
  scene.tickets.recalled([{ role: "assistant", parts: [{ type: "text", text: "Hello." }] }]);
  await scene.pass(120);
  assert.equal(scene.looks, 0);
  scene.tickets.opened("tk1");
  scene.tickets.forget();
  await scene.pass(120);
  assert.deepEqual([scene.looks, scene.tickets.areOpen], [0, false]);
});
