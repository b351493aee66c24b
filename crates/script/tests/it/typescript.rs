//! Handlers in TypeScript: types go, lines and columns stay.

use std::sync::Arc;
use windlass_script::judge;

const ENTRY: &str = "own/handler.ts";

/// The one flaw of a handler, as `file:line:column message`.
fn flaw(source: &str) -> String {
    let modules = [(ENTRY.to_owned(), source.into())].into();
    let flaws = judge(ENTRY, &Arc::new(modules)).flaws;
    assert_eq!(flaws.len(), 1, "{flaws:?}");
    let place = [flaws[0].line, flaws[0].column]
        .into_iter()
        .flatten()
        .fold(flaws[0].file.clone(), |place, number| {
            format!("{place}:{number}")
        });
    format!("{place} {} ({})", flaws[0].message, flaws[0].cure)
}

#[cfg(not(feature = "typescript"))]
#[test]
fn a_build_without_it_says_so() {
    let found = flaw("export async function execute() {}");
    assert!(found.starts_with("own/handler.ts this program was built without TypeScript (build it with --features typescript"), "{found}");
}

#[cfg(feature = "typescript")]
mod with_types {
    use super::{ENTRY, flaw};
    use crate::worker::{Host, data, limits};
    use serde_json::json;

    #[test]
    fn types_go_and_what_is_left_runs() {
        let files = [
            (
                ENTRY,
                "import type { Context } from '../../types';
                 import { twice, type Pair } from './pairs.js';
                 import { thrice } from '../_shared/more.ts';
                 import { ToolError } from '../error-types.js';
                 interface Args { n: number; name?: string }
                 type Wrapped<T> = { value: T } | null
                 abstract class Base<T> { declare kept: T; constructor(protected_: T) { this.set(protected_); }
                   private set(this: Base<T>, value: T): void { (this as any).kept = value; } get value(): T { return this.kept!; } }
                 class Own extends Base<number> implements Iterable<number> { *[Symbol.iterator](): Generator<number> { yield this.value; } }
                 function wrap<const T,>(value: T): Wrapped<T>;
                 function wrap(value: unknown) { return { value }; }
                 export async function execute({ args, context }: { args: Args; context: Context }): Promise<unknown> {
                   const pair = [twice(args.n), thrice(args.n)] satisfies Pair;
                   const text = <T extends object>(value: T): string => JSON.stringify(value as Record<string, unknown>);
                   if (args.n < 0) throw new ToolError('VALIDATION', 'too small');
                   return { ok: true, data: { pair, text: text({ a: 1 }), wrapped: wrap(2)!.value, own: [...new Own(7)] } };
                 }",
            ),
            ("own/pairs.ts", "export type Pair = [number, number];\nexport const twice = (n: number): number => 2 * n;"),
            ("_shared/more.ts", "export function thrice(n: number) { return 3 * n as number; }"),
        ];
        let mut host = Host::of_files(limits(), ENTRY, files);
        let expected = json!({"pair": [8, 12], "text": "{\"a\":1}", "wrapped": 2, "own": [7]});
        assert_eq!(host.call(json!({"n": 4})), data(expected));
        let refused = host.call(json!({"n": -1}));
        assert_eq!(
            refused["result"]["error"]["type"], "VALIDATION",
            "{refused}"
        );
    }

    #[test]
    fn an_error_is_where_its_author_wrote_it() {
        let source = "interface Args {\n  n: number;\n}\n\nexport async function execute({ args }: { args: Args }) {\n  const none: { x: { y: number } } = {} as any; none.x.y;\n}";
        let broken = Host::of_files(limits(), ENTRY, [(ENTRY, source)]).call(json!({}));
        let message = broken["error"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("own/handler.ts:6:49: TypeError"),
            "{message}"
        );
    }

    #[test]
    fn what_is_no_javascript_without_its_types_is_a_flaw() {
        for (source, expected) in [
            (
                "export async function execute() {\n  const x: = 1;\n}",
                "own/handler.ts:2:12 SyntaxError: ",
            ),
            (
                "export async function execute() {\n  return {;\n}",
                "own/handler.ts:2:11 SyntaxError: ",
            ),
            (
                "\nenum Size { Small }\nexport async function execute() { return Size.Small; }",
                "own/handler.ts:2:1 TypeScript that is more than types: ",
            ),
            (
                "namespace N { export const n = 1; }\nexport async function execute() {}",
                "own/handler.ts:1:1 TypeScript that is more than types: ",
            ),
            (
                "class C { constructor(private n: number) {} }\nexport async function execute() {}",
                "own/handler.ts:1:31 TypeScript that is more than types: ",
            ),
            (
                "const execute: number = 1;",
                "own/handler.ts the file does not export a function `execute`",
            ),
            (
                "import { T } from './none';\nexport async function execute() { return T; }",
                "own/handler.ts:1:19 the import \"./none\" leads nowhere",
            ),
        ] {
            let found = flaw(source);
            assert!(found.starts_with(expected), "{source}: {found}");
        }
    }
}
