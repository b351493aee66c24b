// The committed build of other people's packages is what the lock file makes, and the page stays small.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { FOLDER, vendorFiles } from "./vendor.mjs";

const COMPRESSED_BYTES_MAX = 150_000;

test("the committed files are what the build makes", async () => {
  const made = await vendorFiles();
  assert.deepEqual(readdirSync(FOLDER).sort(), [...made.keys()].sort());
  for (const [name, content] of made) {
    assert.ok(readFileSync(new URL(name, FOLDER), "utf8") === content, `${name} is not what \`npm run vendor\` in tests/web makes`);
  }
});

test("all that the page loads is at most 150 kB, compressed", () => {
  const page = new URL("../", FOLDER);
  const names = readdirSync(page, { recursive: true }).filter((name) => /\.(?:html|js|css|svg)$/.test(name));
  const bytes = names.map((name) => gzipSync(readFileSync(new URL(name, page))).length).reduce((sum, length) => sum + length, 0);
  assert.ok(bytes <= COMPRESSED_BYTES_MAX, `${bytes} bytes`);
});
