// The code of TOOL. `args` have passed schema.json, with defaults filled in. types.d.ts, at the top of the project, says what
// `context` offers. Types are for editors: they are taken out before the code runs.

interface Arguments {
  query: string;
}

export async function execute({ args, context }: Invocation<Arguments>): Promise<ToolResponse> {
  return {
    ok: true,
    data: { query: args.query, answer: `TOOL heard: ${args.query}`, mode: context.mode },
  };
}
