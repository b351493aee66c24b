// What the page shows of a call has each digit as the server wrote it; what it computes with are numbers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { numberOf, NumberText, readJson, writeJson } from "../../crates/app/ui/json.js";

test("digits stand as they were written", () => {
  for (const written of [
    "2512292042121000001",
    "0.1000000000000000055511151231257827",
    "18446744073709551616",
    "9007199254740993",
    "-0",
    "1e3",
    "1000.0",
    "12",
    '{"a":[1.50,null,true,"1.0 \\"2.0\\" \\\\"],"b":{},"1.0":"number-1"}',
  ]) {
    const value = readJson(`{"type":"t","data":{"args":{"value":${written}}}}`).data.args;
    assert.equal(writeJson(value).replace(/\n */g, "").replaceAll(": ", ":"), `{"value":${written}}`);
  }
});

test("numbers can be counted with, and what is no JSON is refused", () => {
  const { fraction, list, turn, text } = readJson('{"fraction":1.0,"list":[1e3],"turn":7,"text":"7"}');
  assert.deepEqual([numberOf(fraction), numberOf(list[0]), numberOf(turn), numberOf(text)], [1, 1000, 7, NaN]);
  assert.ok(fraction instanceof NumberText && String(fraction) === "1.0");
  assert.equal(writeJson(undefined), "");
  for (const broken of ['{"args":1.0', '{"args":01}', '{"args":1.}', "1.0.0", "-"]) assert.throws(() => readJson(broken), broken);
});
