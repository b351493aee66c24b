#!/usr/bin/env node
// `npm create windlass FOLDER`: finds the program, has it write a project whose first tool is in Node, and says how to go on. The
// program comes with the package of this machine, unless WINDLASS_BINARY names another one.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";

const NEAREST = `@windlass/${process.platform}-${process.arch}`;

function program() {
  if (process.env.WINDLASS_BINARY) return process.env.WINDLASS_BINARY;
  try {
    return createRequire(import.meta.url).resolve(`${NEAREST}/windlass`);
  } catch {
    console.error(`create-windlass: there is no package ${NEAREST}; build windlass from its sources, and name it in WINDLASS_BINARY`);
    process.exit(1);
  }
}

const windlass = program();
const arguments_ = process.argv.slice(2);
const folder = arguments_.find((argument) => !argument.startsWith("-"));
if (folder === undefined) {
  console.error("create-windlass: name the new project's folder: npm create windlass my-agent");
  process.exit(2);
}
const language = arguments_.some((argument) => ["--node", "--python"].includes(argument)) ? [] : ["--node"];
const made = spawnSync(windlass, ["init", ...arguments_, ...language], { stdio: "inherit" });
if (made.error) {
  console.error(`create-windlass: ${windlass} cannot be started: ${made.error.message}`);
  process.exit(1);
}
if (made.status === 0) console.log(`\n  cd ${folder}\n  ${windlass} serve --watch\n`);
process.exit(made.status ?? 1);
