// What the page shows of a call has each digit as the server wrote it; what it computes with are numbers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseExact, writtenText } from "../../crates/app/ui/exact.js";

test("digits of arguments and results stand as they were written", () => {
  for (const written of [
    "2512292042121000001",
    "0.1000000000000000055511151231257827",
    "18446744073709551616",
    "9007199254740993",
    "-0",
    "1e3",
    "1000.0",
    '{"a":[1.50,null,true,"1.0 \\"2.0\\" \\\\"],"b":{}}',
  ]) {
    for (const name of ["args", "input", "output", "response"]) {
      const message = parseExact(`{"type":"t","data":{"${name}":{"value":${written}}}}`);
      assert.equal(writtenText(message.data[name]), `{"value":${written}}`);
    }
  }
});

test("numbers elsewhere are numbers, and what is no JSON is refused", () => {
  assert.deepEqual(parseExact('{"fraction":1.0,"list":[1e3],"args":7}'), { fraction: 1, list: [1000], args: 7 });
  assert.equal(writtenText(undefined), undefined);
  assert.throws(() => parseExact('{"args":1.0'));
});
