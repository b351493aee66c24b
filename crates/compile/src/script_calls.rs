//! The tools that a script calls, as far as its text shows: each `callTool` with a literal tool name. Only comments and string literals
//! of JavaScript are parsed.

/// One call in a script's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptCall {
    pub(crate) tool: String,
    /// From 1, like the column.
    pub(crate) line: usize,
    pub(crate) column: usize,
}

const CALL: &str = "callTool";

pub(crate) fn calls_in(source: &str) -> Vec<ScriptCall> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut is_in_word = false;
    while let Some(character) = rest.chars().next() {
        let length = character.len_utf8();
        let skipped = match character {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '\'' | '"' | '`' => text_length(rest, character),
            'c' if !is_in_word && rest.starts_with(CALL) => {
                if let Some(tool) = named(&rest[CALL.len()..]) {
                    let before = &source[..source.len() - rest.len()];
                    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
                    found.push(ScriptCall {
                        tool: tool.to_owned(),
                        line: before.matches('\n').count() + 1,
                        column: before[line_start..].chars().count() + 1,
                    });
                }
                CALL.len()
            }
            _ => length,
        };
        is_in_word = character.is_alphanumeric() || matches!(character, '_' | '$');
        rest = &rest[skipped..];
    }
    found
}

/// The length of a literal at the beginning, with its quotes. An unclosed one ends with its line; in backticks, with the file.
fn text_length(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\n' if quote != '`' => return at,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The tool that a call names as a literal: `('order'`.
fn named(behind: &str) -> Option<&str> {
    let inside = behind.trim_start().strip_prefix('(')?.trim_start();
    let quote = inside
        .chars()
        .next()
        .filter(|quote| "'\"`".contains(*quote))?;
    let (name, _) = inside[1..].split_once(quote)?;
    let is_id = |character: char| character.is_ascii_alphanumeric() || character == '_';
    (!name.is_empty() && name.chars().all(is_id)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_seen_where_its_tool_is_written_out() {
        for (source, expected) in [
            (
                "await context.callTool('order', { n: 1 });",
                &["1:15 order"][..],
            ),
            (
                "const { callTool } = context;\n  callTool ( \"a\" ); callTool(`b`)",
                &["2:3 a", "2:21 b"],
            ),
            (
                "// callTool('x')\n/* callTool('y') */ 'callTool(\"z\")' + `callTool('w')`",
                &[],
            ),
            (
                "callTool(name); callTool(`${name}`); recallTool('x'); callTool('not an id')",
                &[],
            ),
            ("'it\\'s'; callTool('a')", &["1:10 a"]),
            ("'open\ncallTool('a')", &["2:1 a"]),
            ("é(); callTool('a')", &["1:6 a"]),
            ("callTool(", &[]),
            ("callTool('", &[]),
            ("/* callTool('a')", &[]),
            ("`", &[]),
        ] {
            let found: Vec<String> = calls_in(source)
                .iter()
                .map(|call| format!("{}:{} {}", call.line, call.column, call.tool))
                .collect();
            assert_eq!(found, expected, "{source}");
        }
    }
}
