// The code of TOOL. `args` have passed schema.json, with defaults filled in. types.d.ts, at the top of the project, says what
// `context` offers.

export async function execute({ args, context }) {
  return {
    ok: true,
    data: { query: args.query, answer: `TOOL heard: ${args.query}`, mode: context.mode },
  };
}
