// What users install: the install script against a release that is good and ones that are not, the package for npm, and the root file
// system of the image in a chroot. The program is that of the tests, since a release takes minutes to build.
import assert from "node:assert/strict";
import { execFile, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, existsSync, linkSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
const BINARY = process.env.WINDLASS_BINARY;
const PACKAGING = join(import.meta.dirname, "../../packaging");
const TRIPLES = { x64: "x86_64-unknown-linux-gnu", arm64: "aarch64-unknown-linux-gnu" };
const ARCHIVE = `windlass-${TRIPLES[process.arch]}.tar.gz`;

function folderFor(context) {
  const folder = mkdtempSync(join(tmpdir(), "windlass-packages-"));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A program that says its version: what an archive holds is none of the installer's business. */
function release(folder) {
  writeFileSync(join(folder, "windlass"), "#!/bin/sh\necho windlass 0.1.0\n");
  chmodSync(join(folder, "windlass"), 0o755);
  assert.equal(spawnSync("tar", ["-C", folder, "-czf", join(folder, ARCHIVE), "windlass"]).status, 0);
  const archive = readFileSync(join(folder, ARCHIVE));
  return { archive, sum: createHash("sha256").update(archive).digest("hex") };
}

async function served(context, files) {
  const server = createServer((request, response) => {
    const body = files[request.url];
    if (body === undefined) response.writeHead(404);
    response.end(body);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  context.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

async function install(address, bin) {
  const environment = { ...process.env, WINDLASS_BIN: bin };
  try {
    const { stdout } = await run("sh", [join(PACKAGING, "install.sh"), address], { env: environment });
    return { code: 0, said: stdout };
  } catch (error) {
    return { code: error.code, said: error.stderr };
  }
}

test("the installer takes an archive whose checksum is right", async (context) => {
  const folder = folderFor(context);
  const { archive, sum } = release(folder);
  const address = await served(context, { [`/${ARCHIVE}`]: archive, [`/${ARCHIVE}.sha256`]: `${sum}  ${ARCHIVE}\n` });
  const bin = join(folder, "bin");
  // The second time it replaces the first.
  for (const _ of [1, 2]) {
    const { code, said } = await install(`${address}/`, bin);
    assert.equal(code, 0, said);
    assert.match(said, /windlass is windlass 0\.1\.0/);
  }
  assert.deepEqual(readdirSync(bin), ["windlass"]);
});

test("the installer changes nothing where the checksum is wrong, missing or none", async (context) => {
  const folder = folderFor(context);
  const { archive, sum } = release(folder);
  const bin = join(folder, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "windlass"), "the one before");
  const other = `${sum[0] === "0" ? "1" : "0"}${sum.slice(1)}`;
  for (const [files, expected] of [
    [{ [`/${ARCHIVE}`]: archive, [`/${ARCHIVE}.sha256`]: `${other}  ${ARCHIVE}\n` }, /has the checksum .* nothing was installed/],
    [{ [`/${ARCHIVE}`]: archive.subarray(1), [`/${ARCHIVE}.sha256`]: `${sum}  ${ARCHIVE}\n` }, /has the checksum/],
    [{ [`/${ARCHIVE}`]: archive, [`/${ARCHIVE}.sha256`]: "<html>no</html>\n" }, /holds no checksum/],
    [{ [`/${ARCHIVE}`]: archive }, /sha256 cannot be fetched/],
    [{}, /cannot be fetched/],
  ]) {
    const { code, said } = await install(await served(context, files), bin);
    assert.equal(code, 1, said);
    assert.match(said, expected);
    assert.equal(readFileSync(join(bin, "windlass"), "utf8"), "the one before");
    assert.deepEqual(readdirSync(bin), ["windlass"]);
  }
});

test("create-windlass from a registry's packages begins a project whose tool runs", { timeout: 120_000 }, async (context) => {
  const folder = folderFor(context);
  const machine = join(folder, `linux-${process.arch}`);
  mkdirSync(machine);
  try {
    linkSync(BINARY, join(machine, "windlass"));
  } catch {
    copyFileSync(BINARY, join(machine, "windlass"));
  }
  const manifest = { name: `@windlass/linux-${process.arch}`, version: "0.1.0", os: ["linux"], cpu: [process.arch] };
  writeFileSync(join(machine, "package.json"), JSON.stringify(manifest));
  const { stdout } = await run("npm", ["pack", "--silent", "--pack-destination", folder, join(PACKAGING, "npm/create-windlass")]);
  const home = join(folder, "home");
  mkdirSync(home);
  writeFileSync(join(home, "package.json"), "{}");
  const offline = ["install", "--offline", "--no-audit", "--no-fund", "--omit=optional", join(folder, stdout.trim())];
  await run("npm", offline, { cwd: home });
  // As npm would put it there from a registry.
  mkdirSync(join(home, "node_modules/@windlass"), { recursive: true });
  spawnSync("cp", ["-al", machine, join(home, "node_modules/@windlass")]);
  const environment = { ...process.env };
  delete environment.WINDLASS_BINARY;
  const made = await run("npx", ["--offline", "create-windlass", "agent"], { cwd: home, env: environment });
  assert.match(made.stdout, /cd agent/);
  const called = await run(BINARY, ["call", "say_hello", '{"query": "Ada"}'], { cwd: join(home, "agent"), env: environment });
  assert.match(called.stdout, /Ada/);
  assert.ok(existsSync(join(home, "agent/tools/say-hello/handler.mjs")));
  for (const [given, code] of [[["create-windlass"], 2], [["create-windlass", "agent"], 1]]) {
    await assert.rejects(run("npx", ["--offline", ...given], { cwd: home, env: environment }), (error) => error.code === code);
  }
});

test("create-windlass says what is missing on a machine without a package", async () => {
  const script = join(PACKAGING, "npm/create-windlass/create-windlass.mjs");
  const environment = { ...process.env };
  delete environment.WINDLASS_BINARY;
  await assert.rejects(run("node", [script, "agent"], { env: environment }), (error) => {
    assert.match(error.stderr, /there is no package @windlass\//);
    return error.code === 1;
  });
});

/** The program in the image's root file system as the image's user, with /proc and a process tree of its own, as a container has. */
function inside(root, command) {
  const place = [`--root=${root}`, "--mount-proc", "--wd=/agent", "--setgid=65532", "--setuid=65532"];
  return ["unshare", ["--mount", "--pid", "--fork", "--kill-child", ...place, "/windlass", ...command]];
}

test("the image's root file system serves as its user, is asked by its own program, and signs in by the link", { timeout: 120_000 }, async (context) => {
  assert.equal(process.getuid(), 0, "a chroot is for root alone");
  const folder = folderFor(context);
  const root = join(folder, "root");
  await run("sh", [join(PACKAGING, "image/rootfs.sh"), BINARY, root]);
  // Every container has it.
  await run("mknod", ["-m", "666", join(root, "dev/null"), "c", "1", "3"]);
  const port = await new Promise((found) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => found(port));
    });
  });
  const environment = { WINDLASS_SERVER_LISTEN: `0.0.0.0:${port}`, WINDLASS_FOLDERS_DATA: "/data", PATH: process.env.PATH };
  const server = spawn(...inside(root, ["serve", "--first-key"]), { env: environment, stdio: ["ignore", "pipe", "inherit"] });
  context.after(() => server.kill("SIGKILL"));
  let said = "";
  for await (const part of server.stdout) {
    said += part;
    if (said.includes("windlass is ready at ")) break;
  }
  const [, link, key] = said.match(/(http:\/\/localhost:\d+\/)#ticket=(\S+)/);
  assert.equal(link, `http://localhost:${port}/`);
  const healthy = await run(...inside(root, ["healthcheck"]), { env: environment });
  assert.match(healthy.stdout, /takes sessions/);
  const address = `http://127.0.0.1:${port}`;
  const post = (path, body, headers) => fetch(`${address}${path}`, { method: "POST", body, headers });
  assert.equal((await post("/api/chat", '{"message": "Ahoy"}', {})).status, 401);
  const authorization = `Bearer ${key}`;
  assert.equal((await post("/api/session", "", { authorization })).status, 200);
  const answered = await post("/api/chat", JSON.stringify({ message: 'call say_hello {"query": "Ada"}' }), { authorization });
  assert.match(await answered.text(), /Ada/);
  assert.equal(statSync(join(root, "data/windlass.db")).uid, 65_532);
  assert.equal(statSync(join(root, "data")).mode & 0o777, 0o700);
});
