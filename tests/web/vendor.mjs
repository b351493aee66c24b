// Owns the build of `crates/app/ui/vendor`: the packages that the page uses, each pinned by the lock file here, as one module,
// and their licences. `npm run vendor` writes the files; vendor.test.mjs shows that they are what this makes.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const FOLDER = new URL("../../crates/app/ui/vendor/", import.meta.url);
const ENTRY = 'export { default as MarkdownIt } from "markdown-it"; export { default as DOMPurify } from "dompurify";\n';

/** The committed files, by name. */
export async function vendorFiles() {
  const { metafile, outputFiles } = await build({
    stdin: { contents: ENTRY, resolveDir: fileURLToPath(new URL(".", import.meta.url)), sourcefile: "entry.js" },
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    metafile: true,
    write: false,
  });
  const inputs = Object.keys(metafile.inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const packages = [...new Set(inputs.filter(Boolean))].sort().map(described);
  const heading = packages.map(({ name, version, license }) => `${name} ${version} (${license})`).join(", ");
  return new Map([
    ["markdown.js", `// Made by tests/web/vendor.mjs of ${heading}. Their licences are in LICENSES.txt.\n${outputFiles[0].text}`],
    ["LICENSES.txt", packages.map(({ name, version, texts }) => `${name} ${version}\n\n${texts}\n`).join(`\n${"=".repeat(80)}\n\n`)],
  ]);
}

function described(name) {
  const folder = new URL(`node_modules/${name}/`, import.meta.url);
  const { version, license } = JSON.parse(readFileSync(new URL("package.json", folder), "utf8"));
  const files = readdirSync(folder).filter((file) => /^licen[cs]e/i.test(file)).sort();
  if (files.length === 0) throw new Error(`${name} has no licence file`);
  const texts = files.map((file) => readFileSync(new URL(file, folder), "utf8").replaceAll("\r\n", "\n").trim()).join("\n\n");
  return { name, version, license, texts };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, content] of await vendorFiles()) writeFileSync(new URL(name, FOLDER), content);
}
