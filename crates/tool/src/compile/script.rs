//! Whether a `handler.js` exports a function `execute`, and whether what it opens is closed, found by reading its tokens.
//! Runs nothing, and knows only as much JavaScript as it takes to tell code from comments, strings and regular expressions.

mod tokens;

use tokens::Token::{self, Symbol, Word};
use tokens::scan;

/// So many brackets and `await`s around a value are looked through; what lies deeper is believed.
const WRAPPERS_MAX: usize = 16;
/// So many names that stand for names are followed; the next is believed.
const NAMES_MAX: usize = 8;

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
        [Word("const"), declared @ ..] => {
            declared_value(declared, "execute").map(|value| Value::of(value).is_function(file))
        }
        [Word("let" | "var"), declared @ ..] => {
            let value = Value::of(declared_value(declared, "execute")?);
            Some(value.is_function(file) || is_assigned("execute", file))
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

/// What a value is, as far as its first tokens tell.
enum Value<'s> {
    /// A function, or what only running it would tell, such as what a call returns: that is believed.
    Perhaps,
    No,
    /// The same as what this name stands for.
    Named(&'s str),
}

impl<'s> Value<'s> {
    fn of(mut value: &[Token<'s>]) -> Self {
        for _ in 0..WRAPPERS_MAX {
            match value {
                [Word("await"), rest @ ..] => value = rest,
                [Symbol('('), inside @ ..] => {
                    let behind = closing(inside).map_or(&[][..], |end| &inside[end + 1..]);
                    if matches!(behind, [Symbol('='), Symbol('>'), ..]) || is_worked_on(behind) {
                        return Self::Perhaps;
                    }
                    value = inside;
                }
                _ => return Self::unwrapped(value),
            }
        }
        Self::Perhaps
    }

    fn unwrapped(value: &[Token<'s>]) -> Self {
        match value {
            [Word("async"), Word("function") | Symbol('('), ..] | [Word("function"), ..] => {
                Self::Perhaps
            }
            [Word("async"), Word(_), Symbol('='), Symbol('>'), ..]
            | [Word(_), Symbol('='), Symbol('>'), ..] => Self::Perhaps,
            [
                Word("new" | "class" | "true" | "false" | "null" | "undefined"),
                ..,
            ] => Self::No,
            [Word(name), ..] if begins_with_digit(name) => Self::No,
            [Word(_), behind @ ..] if is_worked_on(behind) => Self::Perhaps,
            [Word(name), ..] => Self::Named(name),
            _ => Self::No,
        }
    }

    fn is_function(&self, file: &[Token<'s>]) -> bool {
        match self {
            Self::Perhaps => true,
            Self::No => false,
            Self::Named(name) => names_function(name, file),
        }
    }
}

/// Whether what stands behind a value makes another one of it: a call, a member, or a choice between values.
fn is_worked_on(behind: &[Token<'_>]) -> bool {
    matches!(behind, [Symbol('(' | '.' | '[' | '?' | '|' | '&'), ..])
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

/// Whether a name stands, at the top of the file, for something that can be a function.
fn names_function<'s>(mut name: &'s str, file: &[Token<'s>]) -> bool {
    let mut asked = Vec::new();
    // `const execute = execute` is an error when it runs, and leads nowhere.
    while !asked.contains(&name) {
        if asked.len() == NAMES_MAX {
            return true;
        }
        asked.push(name);
        match declared_at_top(name, file) {
            Value::Perhaps => return true,
            Value::No => return false,
            Value::Named(other) => name = other,
        }
    }
    false
}

/// What the file declares a name as, at its top.
fn declared_at_top<'s>(name: &str, file: &[Token<'s>]) -> Value<'s> {
    let mut depth = 0_usize;
    let mut found = Value::No;
    let mut may_change = false;
    for (index, token) in file.iter().enumerate() {
        let rest = &file[index + 1..];
        let value = match token {
            Word("function") if depth == 0 && rest.first() == Some(&Word(name)) => Value::Perhaps,
            Word(word @ ("const" | "let" | "var")) if depth == 0 => {
                let value = declared_value(rest, name);
                may_change |= value.is_some() && *word != "const";
                value.map_or(Value::No, Value::of)
            }
            Word("import") if depth == 0 && imports(rest, name) => Value::Perhaps,
            Symbol('{' | '(' | '[') => {
                depth += 1;
                continue;
            }
            Symbol('}' | ')' | ']') => {
                depth = depth.saturating_sub(1);
                continue;
            }
            _ => continue,
        };
        match value {
            Value::Perhaps => return value,
            Value::Named(_) => found = value,
            Value::No => {}
        }
    }
    if may_change && is_assigned(name, file) {
        return Value::Perhaps;
    }
    found
}

/// Whether a variable is given a value somewhere after it was declared. What it is then only running would tell.
fn is_assigned(name: &str, file: &[Token<'_>]) -> bool {
    let mut is_other = false;
    // How deep the brackets are, and where declarations stand open in them.
    let (mut depth, mut declarations) = (0_usize, Vec::new());
    file.iter().enumerate().any(|(index, token)| {
        // A declaration, alone or in a list, or a member of something.
        let is_behind_other = is_other;
        is_other = match token {
            Word("const" | "let" | "var") => {
                declarations.push(depth);
                true
            }
            Symbol(',') => declarations.last() == Some(&depth),
            Symbol('.') => true,
            _ => false,
        };
        match token {
            Symbol('{' | '(' | '[') => depth += 1,
            Symbol('}' | ')' | ']') => {
                declarations.retain(|declared| *declared < depth);
                depth = depth.saturating_sub(1);
            }
            Symbol(';') => declarations.retain(|declared| *declared < depth),
            _ => {}
        }
        let is_given = match &file[index + 1..] {
            [Symbol('='), Symbol('=' | '>'), ..] => false,
            [Symbol('='), ..]
            | [Symbol('?'), Symbol('?'), Symbol('='), ..]
            | [Symbol('|'), Symbol('|'), Symbol('='), ..]
            | [Symbol('&'), Symbol('&'), Symbol('='), ..] => true,
            _ => false,
        };
        *token == Word(name) && is_given && !is_behind_other
    })
}

/// Whether what follows the word `import` brings a name.
fn imports(rest: &[Token<'_>], name: &str) -> bool {
    rest.iter()
        .take_while(|token| !matches!(token, Word("from" | "import" | "export") | Symbol(';')))
        .any(|token| *token == Word(name))
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
    fn a_variable_may_get_its_function_after_it_was_declared() {
        for (source, good) in [
            (
                "let run; run = async () => {}; export { run as execute }",
                true,
            ),
            (
                "var run = null; if (x) { run ??= load() } export { run as execute }",
                true,
            ),
            ("export let execute; execute = async () => {};", true),
            (
                "let run; const keep = run == 3; export { run as execute }",
                false,
            ),
            (
                "let run = 3, other; other = () => {}; export { run as execute }",
                false,
            ),
            ("const run = 3; run = 4; export { run as execute }", false),
            ("let r,t;t=1,r=async()=>{};export{r as execute}", true),
            (
                "let r,t=f(()=>{let a,b=2;}),u=1;if(t){t=1,r=load()}export{r as execute}",
                true,
            ),
            ("let a = [1, 2], run = 3; export { run as execute }", false),
            ("let a, run = 3; export { run as execute }", false),
            (
                "let run; x.run = () => {}; export { run as execute }",
                false,
            ),
        ] {
            assert_eq!(check(source).is_ok(), good, "{source}");
        }
    }

    #[test]
    fn a_value_is_followed_through_names_and_what_only_running_tells_is_believed() {
        for (source, good) in [
            (
                "const base = async () => {}; const run = base; export { run as execute }",
                true,
            ),
            ("const run = () => {}; export const execute = (run)", true),
            ("export const execute = handlers['x']", true),
            ("export const execute = a || b", true),
            ("export const execute = a ?? b", true),
            ("export const execute = a && b", true),
            ("export const execute = a ? b : c", true),
            ("export const execute = (a || b)", true),
            ("export const execute = (a)(b)", true),
            ("export const execute = await (await run())", true),
            ("export const execute = 3 | 4", false),
            ("const run = 3; export const execute = (run)", false),
            ("export const execute = execute", false),
            ("const a = b, b = a; export { a as execute }", false),
            ("const a = b; const b = 3; export { a as execute }", false),
            (
                "function f() { let run = () => {} } export { run as execute }",
                false,
            ),
            ("import('a') \n export { run as execute }", false),
        ] {
            assert_eq!(check(source).is_ok(), good, "{source}");
        }
    }

    /// Each would take hours if a part were read once for every part before it, or more stack than there is.
    #[test]
    fn no_file_takes_more_than_a_few_times_its_length() {
        let deep = format!("{}run{}", "(".repeat(500_000), ")".repeat(500_000));
        let lets = format!("{}run{}", "let(".repeat(200_000), ")".repeat(200_000));
        let chain: String = (0..40_000)
            .map(|name| format!("var a{name} = a{};", name + 1))
            .collect();
        for (source, good) in [
            (format!("export const execute = {deep}"), true),
            (
                format!("const run = {deep}; export {{ run as execute }}"),
                true,
            ),
            (
                format!("export const execute = {}run", "await ".repeat(150_000)),
                true,
            ),
            ("(".repeat(500_000), false),
            (format!("{lets}; export {{ run as execute }}"), false),
            (
                format!("{}; export {{ run as execute }}", "import ".repeat(140_000)),
                false,
            ),
            (
                format!(
                    "{}export {{ run as execute }}",
                    "var run = a; ".repeat(70_000)
                ),
                false,
            ),
            (format!("{chain} export {{ a0 as execute }}"), true),
            (format!("{}{}", "/[".repeat(200_000), "]".repeat(10)), false),
            (
                format!(
                    "const r = /[{}]/; export function execute() {{}}",
                    "a{".repeat(50_000)
                ),
                true,
            ),
        ] {
            assert_eq!(check(&source).is_ok(), good, "{}", &source[..40]);
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
