//! Rules for source code: its opening, its length, its names, its comments, and no sign of unfinished work. Relies on rustfmt's layout
//! instead of parsing.

use crate::report::Problem;

pub(crate) const FILE_LINES_ADVISED: usize = 500;
const FUNCTION_LINES_ADVISED: usize = 70;

/// Names that say nothing of the content.
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "manager", "util", "utils"];

/// Openers of comments that hide the subject of their sentence: it is a noun.
const HIDDEN_SUBJECTS: &[&str] = &[
    "Nobody ",
    "Of ",
    "One that ",
    "That which ",
    "Those ",
    "What ",
    "Where there ",
    "Whoever ",
];

/// Signs of unfinished work in any language, as whole words. Each is cut in two, so that this file keeps the rule.
const MARKS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Signs of unfinished or hidden work in Rust, wherever they stand.
const RUST_MARKS: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("#[ign", "ore"),
    concat!("allow(dead", "_code)"),
    concat!("expect(dead", "_code"),
    concat!("db", "g!("),
];

/// The rules for every language.
pub(super) fn check(file: &str, content: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let words = file.split(|c: char| !c.is_ascii_alphanumeric());
    for name in words.filter(|word| EMPTY_NAMES.contains(word)) {
        let text = format!("is called `{name}`, which says nothing: name what it owns");
        problems.push(Problem::of_file(file, text));
    }
    for (index, line) in content.lines().enumerate() {
        for mark in MARKS.iter().filter(|mark| holds_word(line, mark)) {
            let text = format!("holds `{mark}`: do it, or open an issue");
            problems.push(Problem::at(file, index + 1, text));
        }
    }
    problems
}

/// The rules for Rust alone.
pub(super) fn check_rust(file: &str, content: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !content.starts_with("//!") {
        let text = "does not open with `//!`: say what it owns and what it refuses to know";
        problems.push(Problem::at(file, 1, text));
    }
    for (index, line) in content.lines().enumerate() {
        for mark in RUST_MARKS.iter().filter(|mark| line.contains(*mark)) {
            let text = format!("holds `{mark}`: finish it, or take it out");
            problems.push(Problem::at(file, index + 1, text));
        }
    }
    problems
}

/// Advice on length and comments, which breaks no rule: a file is one thought, however long.
pub(super) fn advise(file: &str, content: &str) -> Vec<Problem> {
    let mut advice = Vec::new();
    for (line, opener) in hidden_subjects(content).filter(|_| !file.contains("/tests/")) {
        let opener = opener.trim_end();
        let text = format!("opens a comment with `{opener}`: name its subject");
        advice.push(Problem::at(file, line, text));
    }
    let length = content.lines().count();
    if length > FILE_LINES_ADVISED && !is_test(file) {
        advice.push(Problem::of_file(
            file,
            format!("has {length} lines, over {FILE_LINES_ADVISED}: does it own one thing?"),
        ));
    }
    for function in functions(content) {
        if function.length > FUNCTION_LINES_ADVISED && !is_test(file) {
            let text = format!(
                "function `{}` has {} lines, over {FUNCTION_LINES_ADVISED}: does it do one thing?",
                function.name, function.length
            );
            advice.push(Problem::at(file, function.line, text));
        }
    }
    advice
}

/// The lines, from 1, whose comment opens without its subject, each with the opener.
pub(crate) fn hidden_subjects(content: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let lines = content.lines().enumerate();
    lines.filter_map(|(index, line)| Some((index + 1, hidden_subject(line)?)))
}

fn hidden_subject(line: &str) -> Option<&'static str> {
    let comment = line.trim_start().strip_prefix("//")?;
    let text = comment.trim_start_matches(['/', '!']).strip_prefix(' ')?;
    let mut openers = HIDDEN_SUBJECTS.iter().copied();
    openers.find(|opener| text.starts_with(opener))
}

/// Tests are data: a table split over several functions would only be harder to read.
fn is_test(file: &str) -> bool {
    file.contains("/tests/") || file.ends_with("/tests.rs")
}

fn holds_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

struct Function<'content> {
    name: &'content str,
    line: usize,
    length: usize,
}

/// Every function with a body. rustfmt puts the closing brace alone, as far in as the line that opened the function.
fn functions(content: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = content.lines().collect();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let closing = format!("{}}}", &line[..indent]);
        // A signature ends where a body opens, or where it turns out to have none, or one on the same line.
        let mut signature_ends = lines[index..].iter().map(|line| line.chars().next_back());
        let opens_body = signature_ends.find(|end| matches!(end, Some('{' | ';' | '}')));
        let end = lines[index..].iter().position(|line| *line == closing);
        if let (Some(Some('{')), Some(end)) = (opens_body, end) {
            functions.push(Function {
                name,
                line: index + 1,
                length: end + 1,
            });
        }
    }
    functions
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        if let Some(signature) = rest.strip_prefix("fn ") {
            return signature.split(['(', '<']).next();
        }
        let (word, further) = rest.split_once(' ')?;
        let qualifies = word.starts_with("pub")
            || matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"");
        if !qualifies {
            return None;
        }
        rest = further;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_source(content: &str, expected: &[&str]) {
        let mut found = check("crates/a/src/lib.rs", content);
        found.extend(check_rust("crates/a/src/lib.rs", content));
        compare(&found, expected);
    }

    #[track_caller]
    fn check_advice(content: &str, expected: &[&str]) {
        compare(&advise("crates/a/src/lib.rs", content), expected);
    }

    #[track_caller]
    fn compare(found: &[Problem], expected: &[&str]) {
        let found: Vec<String> = found.iter().map(Problem::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found}");
        }
    }

    fn function(opening: &str, lines: usize, indent: &str) -> String {
        let body = format!("{indent}    step();\n").repeat(lines - 2);
        format!("{indent}{opening} {{\n{body}{indent}}}\n")
    }

    #[test]
    fn a_file_opens_with_what_it_owns() {
        check_source("//! Owns a thing.\n", &[]);
        check_source("\n//! Owns a thing.\n", &["lib.rs:1: does not open"]);
        check_source("// Owns a thing.\n", &["does not open"]);
        check_source("", &["does not open"]);
    }

    #[test]
    fn a_file_of_over_500_lines_is_pointed_out() {
        let longest = format!("//! A.\n{}", "// b\n".repeat(499));
        check_advice(&longest, &[]);
        check_advice(&format!("{longest}// c\n"), &["has 501 lines"]);
    }

    #[test]
    fn a_comment_without_a_subject_is_pointed_out() {
        let hidden = "//! A.\n/// What is left.\n    // Those of a turn.\n//! Of each call.\n";
        let advised = ["rs:2: opens a comment with `What`", "`Those`", "`Of`"];
        check_advice(hidden, &advised);
        check_advice(
            "//! A.\n/// The rest.\n// Whatever\nlet a = \"// What\";\n",
            &[],
        );
    }

    #[test]
    fn a_function_of_over_70_lines_is_pointed_out() {
        for opening in [
            "fn long()",
            "pub(crate) async fn long<T>(a: T) -> T",
            "pub const fn long()",
        ] {
            for indent in ["", "    "] {
                let longest = function(opening, 70, indent);
                check_advice(&format!("//! A.\n{longest}{longest}"), &[]);
                let longer = function(opening, 71, indent);
                check_advice(
                    &format!("//! A.\n{longest}{longer}"),
                    &["lib.rs:72: function `long` has 71 lines"],
                );
            }
        }
    }

    #[test]
    fn a_table_in_a_test_may_be_longer() {
        let longer = format!("//! A.\n{}", function("fn long()", 71, ""));
        for (file, problems) in [
            ("crates/a/src/lib.rs", 1),
            ("crates/a/src/attests.rs", 1),
            ("crates/a/tests/it/long.rs", 0),
            ("crates/a/src/long/tests.rs", 0),
        ] {
            assert_eq!(advise(file, &longer).len(), problems, "{file}");
        }
    }

    #[test]
    fn a_function_without_a_body_has_no_length() {
        let source = format!(
            "//! A.\ntrait A {{\n    fn none(&self);\n    fn wide(\n        &self,\n    ) -> u8;\n    fn one(&self) {{}}\n{}}}\n",
            function("fn some(&self)", 69, "    ")
        );
        check_advice(&source, &[]);
    }

    #[test]
    fn a_signature_over_several_lines_counts_with_its_function() {
        let body = "    step();\n".repeat(67);
        let source = format!("//! A.\nfn long(\n    a: u8,\n) -> u8 {{\n{body}}}\n");
        check_advice(&source, &["function `long` has 71 lines"]);
    }

    #[test]
    fn signs_of_unfinished_work_are_found() {
        for mark in MARKS {
            check_source(&format!("//! A.\n// {mark}: later\n"), &["lib.rs:2: holds"]);
            check_source(&format!("//! A.\n// {mark}S and A{mark} are words\n"), &[]);
        }
        for mark in RUST_MARKS {
            check_source(&format!("//! A.\n\n    {mark}\n"), &["lib.rs:3: holds"]);
        }
    }

    #[test]
    fn a_name_says_what_is_inside() {
        for file in [
            "crates/a/src/util.rs",
            "crates/a/src/session_manager.rs",
            "crates/common/src/lib.rs",
            "tests/web/test-helpers.mjs",
        ] {
            assert_eq!(check(file, "").len(), 1, "{file}");
        }
        for file in ["crates/a/src/utility.rs", "crates/a/src/commonplace.rs"] {
            assert_eq!(check(file, "").len(), 0, "{file}");
        }
    }
}
