//! Whether a `handler.js` exports a function `execute`, and whether what it opens is closed, found by reading its tokens.
//! Runs nothing, and knows only as much JavaScript as it takes to tell code from comments, strings and regular expressions.

mod tokens;

use tokens::Token::{self, Symbol, Word};
use tokens::scan;

/// What keeps a file from being a handler.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    /// From 1; where one line is to blame.
    pub(super) line: Option<usize>,
    pub(super) message: String,
    pub(super) cure: &'static str,
}

/// `Err` says what is wrong or missing.
pub(super) fn check(source: &str) -> Result<(), Flaw> {
    let tokens = scan(source)?;
    let flaw = |message: &str| Flaw {
        line: None,
        message: message.to_owned(),
        cure: "write `export async function execute({ args, context }) { … }`",
    };
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Symbol('{' | '(' | '[') => depth += 1,
            Symbol('}' | ')' | ']') => depth = depth.saturating_sub(1),
            Word("export") if depth == 0 => match exported(&tokens[index + 1..], &tokens) {
                Some(true) => return Ok(()),
                Some(false) => {
                    return Err(flaw("what the file exports as `execute` is no function"));
                }
                None => {}
            },
            Word(_) | Symbol(_) | Token::Literal => {}
        }
    }
    Err(flaw("the file does not export a function `execute`"))
}

/// Whether what follows the word `export` exports a function as `execute`; `None` where it exports other names.
fn exported(tokens: &[Token<'_>], file: &[Token<'_>]) -> Option<bool> {
    match tokens {
        [Word("async"), Word("function"), Word("execute"), ..]
        | [Word("function"), Word("execute"), ..] => Some(true),
        [Word("const" | "let" | "var"), declared @ ..] => {
            declared_value(declared, "execute").map(|value| is_function(value, file))
        }
        [Symbol('{'), list @ ..] => {
            let end = list.iter().position(|token| *token == Symbol('}'))?;
            let name =
                list[..end]
                    .split(|token| *token == Symbol(','))
                    .find_map(|name| match name {
                        [Word("execute")] => Some("execute"),
                        [Word(own), Word("as"), Word("execute")] => Some(*own),
                        _ => None,
                    })?;
            let is_elsewhere = matches!(list.get(end + 1), Some(Word("from")));
            Some(is_elsewhere || names_function(name, file))
        }
        _ => None,
    }
}

/// The tokens from the value on that a list of declarations gives to a name.
fn declared_value<'a, 's>(tokens: &'a [Token<'s>], name: &str) -> Option<&'a [Token<'s>]> {
    let mut depth = 0_usize;
    let mut begins = true;
    for (index, token) in tokens.iter().enumerate() {
        if begins && *token == Word(name) {
            return match tokens.get(index + 1) {
                Some(Symbol('=')) => Some(&tokens[index + 2..]),
                _ => Some(&[]),
            };
        }
        begins = false;
        match token {
            Symbol('{' | '(' | '[') => depth += 1,
            Symbol('}' | ')' | ']') => depth = depth.saturating_sub(1),
            Symbol(',') if depth == 0 => begins = true,
            Symbol(';') | Word("export" | "import" | "const" | "let" | "var") if depth == 0 => {
                return None;
            }
            _ => {}
        }
    }
    None
}

/// Whether a value can be a function. What a call returns is not known, and is believed.
fn is_function(value: &[Token<'_>], file: &[Token<'_>]) -> bool {
    match value {
        [Word("async"), Word("function") | Symbol('('), ..] | [Word("function"), ..] => true,
        [Word("async"), Word(_), Symbol('='), Symbol('>'), ..]
        | [Word(_), Symbol('='), Symbol('>'), ..] => true,
        [Word("await"), value @ ..] => is_function(value, file),
        [
            Word("new" | "class" | "true" | "false" | "null" | "undefined"),
            ..,
        ] => false,
        [Word(name), Symbol('('), ..] => !begins_with_digit(name),
        [Word(name), Symbol('.'), ..] => !begins_with_digit(name),
        [Word(name), ..] => names_function(name, file),
        [Symbol('('), inside @ ..] => {
            let parameters_end = closing(inside);
            let is_arrow = parameters_end.is_some_and(|end| {
                matches!(inside.get(end + 1..), Some([Symbol('='), Symbol('>'), ..]))
            });
            is_arrow || is_function(inside, &[])
        }
        _ => false,
    }
}

/// Where the bracket is closed that was opened before these tokens.
fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 1_usize;
    tokens.iter().position(|token| {
        match token {
            Symbol('{' | '(' | '[') => depth += 1,
            Symbol('}' | ')' | ']') => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

fn begins_with_digit(word: &str) -> bool {
    word.starts_with(|character: char| character.is_ascii_digit())
}

/// Whether the file declares a name, at its top, as something that can be a function.
fn names_function(name: &str, file: &[Token<'_>]) -> bool {
    let mut depth = 0_usize;
    for (index, token) in file.iter().enumerate() {
        let rest = &file[index + 1..];
        let is_one = match token {
            Word("function") => rest.first() == Some(&Word(name)),
            // `const execute = execute` is an error when it runs, and would be asked about for ever.
            Word("const" | "let" | "var") => {
                declared_value(rest, name).is_some_and(|value| is_function(value, &[]))
            }
            Word("import") => rest
                .iter()
                .take_while(|token| !matches!(token, Word("from") | Symbol(';')))
                .any(|token| *token == Word(name)),
            _ => false,
        };
        if is_one && depth == 0 {
            return true;
        }
        match token {
            Symbol('{' | '(' | '[') => depth += 1,
            Symbol('}' | ')' | ']') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn execute_has_to_be_exported_by_code() {
        for (source, good) in [
            ("export async function execute({ args }) {}", true),
            ("export function execute(context) {}", true),
            ("export const execute = async () => ({ ok: true });", true),
            ("export const execute = context => context.args", true),
            ("export const execute = ({ args }, b = (1)) => args", true),
            ("export const execute = function () {}", true),
            ("export const execute = guarded(async () => {});", true),
            ("const run = async x => x; export const execute = run", true),
            (
                "import { run } from './run.js'; export const execute = run",
                true,
            ),
            (
                "export const a = 1, b = f(1, 2), execute = async () => {};",
                true,
            ),
            (
                "async function run() {}\nexport { helper, run as execute };",
                true,
            ),
            ("function execute() {} export { execute }", true),
            ("export { execute } from './other.js'", true),
            (
                "const x = a / b; /* } */ export function execute() {}",
                true,
            ),
            ("const r = /[/`{\"]/g; export function execute() {}", true),
            (
                "const t = `a ${ {b: `}`}.b } $ \\` {`; export function execute() {}",
                true,
            ),
            ("if (x) { y } \n export function execute() {}", true),
            ("// export function execute() {}", false),
            ("/* export function execute() {} */", false),
            ("const s = 'export function execute() {}';", false),
            ("const s = `export function execute() {}`;", false),
            ("const r = /export function execute() {}/;", false),
            ("function f() { export function execute() {} }", false),
            ("export default function execute() {}", false),
            ("export function executeAll() {}", false),
            ("export { execute as run };", false),
            ("function execute() {}", false),
            ("export const execute = 3;", false),
            ("export const execute = 'text';", false),
            ("export const execute = { run() {} };", false),
            ("export const execute = [() => {}];", false),
            ("export const execute = (3);", false),
            ("export const execute = null", false),
            ("export let execute;", false),
            ("export const a = { execute: () => {} };", false),
            ("const execute = 3; export { execute };", false),
            ("export { execute };", false),
            ("", false),
        ] {
            assert_eq!(check(source).is_ok(), good, "{source}");
        }
    }

    #[test]
    fn what_is_opened_is_closed_by_its_own() {
        const END: &str = "\nexport function execute() {}";
        for (source, line) in [
            ("function f() {\n  return {", Some(2)),
            ("f(1, [2, 3)\n", Some(1)),
            ("}\n", Some(1)),
            ("const a = 'one\n'", Some(1)),
            ("\n\nconst t = `one ${a", Some(3)),
            ("const t = `one", Some(1)),
            ("\n/* one", Some(2)),
        ] {
            let flaw = check(&format!("{source}{END}")).unwrap_err();
            assert_eq!(flaw.line, line, "{source}: {flaw:?}");
        }
        for source in ["'\\", "/[", "`${", "a /", "(", "/", "`", "'", "${", "}`"] {
            assert!(check(source).is_err(), "{source}");
        }
        for source in [
            "if (x) /[}]'/.test(x)",
            "if (x) {}\n/}'/.test(x)",
            "const half = (a + b) / 2 /* ' */",
            "const a = {} / 2, b = [1] / 2, c = i++ / 2, d = x.y / 2 // {'",
            "const a = b\n/ c; f('/')",
            "const s = 'a\\\nb', t = \"it's {\", u = `{`",
            "#!/usr/bin/env node\nconst a = /\\/{/",
            "class A { #x = 1; get y() { return this.#x / 2 } }",
            "const f = () => { return /{/ }",
        ] {
            assert_eq!(check(&format!("{source}{END}")), Ok(()), "{source}");
        }
    }
}
