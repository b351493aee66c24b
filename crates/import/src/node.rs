//! Handlers of a Node project, searched for uses that this runtime does not support: each use with its place and its replacement. Text
//! is searched, and no JavaScript is understood: a use in a comment is named as well.

use std::collections::BTreeSet;

/// A use that has to be replaced by hand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    pub line: usize,
    pub what: String,
    pub replacement: &'static str,
}

/// Names that a handler can no longer use, and their replacements.
const NAMES: [(&str, &str); 10] = [
    ("context.ws", "context.messaging.send(message)"),
    ("context?.ws", "context.messaging.send(message)"),
    (
        "context.geminiSession",
        "nothing: return the result, and the runtime answers the model; intents in the result change the session",
    ),
    ("geminiSession", "context.mode, or context.voice.isActive()"),
    (
        "context.setState",
        "an intent in the result, such as { type: 'SET_PENDING_MESSAGE', message }",
    ),
    (
        "process.env",
        "a handler.json of kind http or webhook with {secret:NAME}, or one of kind process",
    ),
    (
        "process.",
        "nothing here, or a handler.json of kind process",
    ),
    ("__dirname", "an import of the file's content as a module"),
    ("Buffer.", "TextEncoder, TextDecoder, atob and btoa"),
    ("require(", "an import of a sibling file"),
];

/// Members of the context that a handler may take out of it by `const { ws } = context`, or in its parameters.
const MEMBERS: [(&str, &str); 2] = [
    ("ws", "context.messaging.send(message)"),
    (
        "setState",
        "an intent in the result, such as { type: 'SET_PENDING_MESSAGE', message }",
    ),
];

/// Modules of Node that have a replacement of their own.
const MODULES: [(&str, &str); 5] = [
    (
        "fs",
        "context.kb for records, or a handler.json of kind process",
    ),
    (
        "crypto",
        "crypto.randomUUID(), or a handler.json of kind process",
    ),
    (
        "http",
        "context.http.fetch(url), for hosts that --allow-fetch names",
    ),
    (
        "https",
        "context.http.fetch(url), for hosts that --allow-fetch names",
    ),
    ("child_process", "a handler.json of kind process"),
];
const NPM: &str = "context.http.fetch for a service; else keep the package: name the file handler.mjs and add a handler.json of kind process";
const OTHER_MODULE: &str = "nothing here, or a handler.json of kind process";
/// Modules of Node without a replacement of their own.
/// Source: <https://nodejs.org/docs/latest/api/>
const OTHER_MODULES: [&str; 12] = [
    "assert", "buffer", "dns", "events", "net", "os", "path", "stream", "timers", "tls", "url",
    "util",
];

/// Everything in a handler's source that has to be replaced, in the order of lines.
pub fn uses(source: &str) -> Vec<Use> {
    let mut found = BTreeSet::new();
    for (index, line) in source.lines().enumerate() {
        let line_number = index + 1;
        let mut is_taken = false;
        for (name, replacement) in NAMES {
            // The longer names come first: `process.env` is no further use of `process.`.
            let is_part = is_taken && (name == "geminiSession" || name == "process.");
            if !is_part && has_name(line, name) {
                is_taken = true;
                found.insert(Use {
                    line: line_number,
                    what: name.trim_end_matches(['.', '(']).to_owned(),
                    replacement,
                });
            }
        }
        if let Some(module) = imported(line)
            && let Some(replacement) = replacement_of(&module)
        {
            found.insert(Use {
                line: line_number,
                what: format!("the module {module}"),
                replacement,
            });
        }
    }
    for (name, replacement) in MEMBERS {
        for line in destructured(source, name) {
            found.insert(Use {
                line,
                what: name.to_owned(),
                replacement,
            });
        }
    }
    found.into_iter().collect()
}

/// The lines in which a pattern such as `{ args, ws }` takes a name out of an object.
fn destructured(source: &str, name: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, _) in source.match_indices(name) {
        let (before, behind) = (source[..at].trim_end(), &source[at + name.len()..]);
        let begins = before.ends_with(['{', ',']);
        let ends = behind.trim_start().starts_with([',', '}', ':', '=']);
        if begins && ends && is_pattern(behind) {
            lines.push(source[..at].matches('\n').count() + 1);
        }
    }
    lines
}

/// Whether the braces before this text are a pattern: `… } =`, `… }) {` or `… }) =>`.
fn is_pattern(behind: &str) -> bool {
    const BYTES_MAX: usize = 2_000;
    const LEVELS_MAX: usize = 3;
    let (mut depth, mut levels) = (0_usize, 0);
    for (at, character) in behind.char_indices().take_while(|(at, _)| *at < BYTES_MAX) {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' => {
                let after = behind[at + 1..].trim_start();
                let is_taken_from =
                    after.starts_with('=') && !after.starts_with("==") && !after.starts_with("=>");
                let is_parameter = after.strip_prefix(')').is_some_and(|body| {
                    let body = body.trim_start();
                    body.starts_with('{') || body.starts_with("=>")
                });
                if is_taken_from || is_parameter {
                    return true;
                }
                levels += 1;
                if levels == LEVELS_MAX {
                    return false;
                }
            }
            ';' => return false,
            _ => {}
        }
    }
    false
}

/// Whether a handler asks other services or tools, as no built-in one does.
pub fn asks_others(source: &str) -> bool {
    const WAYS: [&str; 6] = [
        "fetch(",
        "axios",
        "callTool(",
        "http.request(",
        "https.request(",
        "process.env",
    ];
    WAYS.iter().any(|way| source.contains(way))
}

/// Whether a name stands in a line as a word of its own.
fn has_name(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "_$.".contains(before))
    })
}

/// The module that a line imports, by `import … from '…'`, `import('…')` or `require('…')`.
fn imported(line: &str) -> Option<String> {
    let trimmed = line.trim_start();
    let behind = if trimmed.starts_with("import ")
        || trimmed.starts_with("export ")
        || trimmed.starts_with('}')
    {
        let from = trimmed.rfind(" from ").map(|at| &trimmed[at + 6..]);
        from.or_else(|| trimmed.strip_prefix("import "))?
    } else {
        let at = trimmed.find("require(").map(|at| at + 8);
        let at = at.or_else(|| trimmed.find("import(").map(|at| at + 7))?;
        &trimmed[at..]
    };
    let behind = behind.trim_start();
    let quote = behind
        .chars()
        .next()
        .filter(|first| "'\"`".contains(*first))?;
    let module = behind[1..].split(quote).next()?;
    (!module.is_empty() && module.len() < 200).then(|| module.to_owned())
}

/// `None` for a module that works as it is: files beside the handler, and the module of errors.
fn replacement_of(module: &str) -> Option<&'static str> {
    if module.starts_with(['.', '/', '@']) && module.ends_with("error-types.js")
        || module.starts_with("./")
        || module.starts_with("../_shared/")
    {
        return None;
    }
    if module.starts_with("../") {
        return Some("a file inside the tool's folder, or in ../_shared/");
    }
    let plain = module.strip_prefix("node:").unwrap_or(module);
    let plain = plain.split('/').next().unwrap_or(plain);
    if let Some((_, replacement)) = MODULES.iter().find(|(name, _)| *name == plain) {
        return Some(replacement);
    }
    match OTHER_MODULES.contains(&plain) || module.starts_with("node:") {
        true => Some(OTHER_MODULE),
        false => Some(NPM),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_of_what_is_not_there_is_named_with_its_line() {
        let check = |source: &str, expected: &[(usize, &str)]| {
            let uses = uses(source);
            let found: Vec<(usize, &str)> = uses
                .iter()
                .map(|found| (found.line, found.what.as_str()))
                .collect();
            assert_eq!(found, expected, "{source}");
        };
        check("", &[]);
        check(
            "import { ToolError } from '../error-types.js';\nimport { a } from './a.js';\n",
            &[],
        );
        check(
            "import { x } from \"../_core/error-types.js\"\nimport b from '../_shared/b.js'",
            &[],
        );
        check("\ncontext.ws.send('x');", &[(2, "context.ws")]);
        check("mycontext.ws; a.process.b", &[]);
        check("context?.ws?.send('x');", &[(1, "context?.ws")]);
        check(
            "export async function execute(context) {\n  const {\n    args,\n    ws,\n    geminiSession,\n  } = context;",
            &[(4, "ws"), (5, "geminiSession")],
        );
        check(
            "export async function execute({ args, context: { ws: socket } }) {\n  socket.send('x');\n}",
            &[(1, "ws")],
        );
        check("const run = async ({ ws }) => ws.send('x');", &[(1, "ws")]);
        check("const { setState } = context;", &[(1, "setState")]);
        check(
            "call({ ws });\nconst news = { ws: 1, rows, ws2 };\nif (a) { b, ws } else { c = 1 }\nconst ws = 1;",
            &[],
        );
        check("if (geminiSession) {", &[(1, "geminiSession")]);
        check(
            "context.geminiSession.close()",
            &[(1, "context.geminiSession")],
        );
        check("const key = process.env.KEY;", &[(1, "process.env")]);
        check(
            "import fs from 'node:fs/promises';",
            &[(1, "the module node:fs/promises")],
        );
        check("import axios from 'axios';", &[(1, "the module axios")]);
        check(
            "import 'dotenv/config';",
            &[(1, "the module dotenv/config")],
        );
        check(
            "const x = require('lodash');",
            &[(1, "require"), (1, "the module lodash")],
        );
        check(
            "const x = await import('@scope/pkg');",
            &[(1, "the module @scope/pkg")],
        );
        check(
            "import { c } from '../other-tool/c.js';",
            &[(1, "the module ../other-tool/c.js")],
        );
    }
}
