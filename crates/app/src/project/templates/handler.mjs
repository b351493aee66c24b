// The code of TOOL, in a Node process of its own: packages of npm can be imported. windlass.mjs beside it speaks with the
// server and exports ToolError. What is printed goes to the server's log.

export async function execute({ args, context }) {
  return {
    ok: true,
    data: { query: args.query, answer: `TOOL heard: ${args.query}`, mode: context.mode },
  };
}
