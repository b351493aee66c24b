// The page asks how far the tasks are that it shows, tells each end once, and stops asking.
import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { test } from "node:test";
import { taskOf, Tasks } from "../../crates/app/ui/tasks.js";

/** Tasks over a server whose answers a test sets, with a clock of the test's. */
function watched(t) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const scene = { known: {}, asked: [], progress: [], ends: [], canRead: true };
  const read = async (id) => {
    scene.asked.push(id);
    if (!scene.canRead) throw new Error("the server does not answer");
    if (!scene.known[id]) throw Object.assign(new Error("there is no such task"), { status: 404 });
    return scene.known[id];
  };
  scene.tasks = new Tasks({ read, onProgress: (progress) => scene.progress.push(progress), onEnd: (end) => scene.ends.push(end) });
  scene.pass = async (seconds) => {
    for (let second = 0; second < seconds; second += 1) {
      t.mock.timers.tick(1_000);
      for (let step = 0; step < 8; step += 1) await turn();
    }
  };
  return scene;
}

const running = (message) => ({ state: "running", progress: { message, fraction: 0.5, at: "2026-11-28T14:00:00Z" }, response: null });

test("an accepted call names its task, and no other result does", () => {
  for (const [result, id] of [
    [{ status: "accepted", state: "running", backgroundTaskId: "e-1" }, "e-1"],
    [{ status: "accepted" }, ""],
    [{ status: "done", backgroundTaskId: "e-1" }, ""],
    [{ status: "accepted", backgroundTaskId: 7 }, ""],
    ["accepted", ""],
    [null, ""],
  ]) assert.equal(taskOf(result), id, JSON.stringify(result));
});

test("progress is shown, then the end, once, and then nothing is asked any more", async (t) => {
  const scene = watched(t);
  scene.known = { "e-1": running("half way"), "e-2": running("begun") };
  scene.tasks.accepted("e-1", { callId: "call-1", tool: "export" });
  scene.tasks.accepted("e-2", { callId: "call-2", tool: "crawl" });
  await scene.pass(2);
  assert.deepEqual(scene.progress, [
    { callId: "call-1", tool: "export", message: "half way", fraction: 0.5 },
    { callId: "call-2", tool: "crawl", message: "begun", fraction: 0.5 },
  ]);
  scene.known["e-1"] = { state: "done", progress: null, response: { ok: true, data: { rows: 7 } } };
  scene.known["e-2"] = { state: "unknown", progress: null, response: null };
  await scene.pass(4);
  assert.deepEqual(scene.ends, [
    { callId: "call-1", tool: "export", ok: true, result: { rows: 7 } },
    { callId: "call-2", tool: "crawl", ok: false, errorType: "OUTCOME_UNKNOWN", message: "" },
  ]);
  const asked = scene.asked.length;
  await scene.pass(300);
  assert.deepEqual([scene.asked.length, scene.ends.length, scene.tasks.callIds], [asked, 2, []]);
});

test("a server that does not answer is asked again, and what it does not know is left", async (t) => {
  const scene = watched(t);
  scene.canRead = false;
  scene.tasks.accepted("e-1", { callId: "call-1", tool: "export" });
  await scene.pass(120);
  assert.ok(scene.asked.length > 3 && scene.asked.length < 10, `${scene.asked.length}`);
  scene.canRead = true;
  scene.known = { "e-1": { state: "not_done", progress: null, response: { ok: false, error: { type: "CANCELLED", message: "stopped" } } } };
  await scene.pass(30);
  assert.deepEqual(scene.ends, [{ callId: "call-1", tool: "export", ok: false, errorType: "CANCELLED", message: "stopped" }]);
  scene.tasks.accepted("e-9", { callId: "call-9", tool: "export" });
  await scene.pass(60);
  assert.deepEqual([scene.ends.length, scene.tasks.callIds], [1, []]);
});

test("an end that came by another way is not told again", async (t) => {
  const scene = watched(t);
  scene.known = { "e-1": { state: "done", progress: null, response: { ok: true, data: {} } } };
  scene.tasks.accepted("e-1", { callId: "call-1", tool: "export" });
  assert.deepEqual(scene.tasks.told({ id: "e-1" }), { callId: "call-1", tool: "export" });
  assert.deepEqual([scene.tasks.wasShown("call-1"), scene.tasks.told({ callId: "call-1" })], [true, null]);
  await scene.pass(60);
  assert.deepEqual([scene.asked, scene.ends], [[], []]);
});

test("another conversation has other tasks", async (t) => {
  const scene = watched(t);
  scene.known = { "e-1": running("half way") };
  scene.tasks.accepted("e-1", { callId: "call-1", tool: "export" });
  scene.tasks.forget();
  await scene.pass(60);
  assert.deepEqual([scene.asked, scene.tasks.callIds], [[], []]);
});
