// The code of TOOL. `args` have passed schema.json, with defaults filled in. types.d.ts, at the top of the project, says what
// `context` offers. Types are taken out before it runs, and nobody checks them but your editor or `tsc`.

export async function execute({ args, context }: Invocation<{ query: string }>): Promise<ToolResponse> {
  return {
    ok: true,
    data: { query: args.query, answer: `TOOL heard: ${args.query}`, mode: context.mode },
  };
}
