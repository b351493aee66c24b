//! Rules for the table of requirements: every row names a test that is in the sources and is run. Knows no requirement.

use crate::report::Problem;

/// The path of the table.
pub(super) const TABLE: &str = "tests/requirements.md";

/// Columns: the requirement, the file, the test's name, and the rule that holds instead, where there is one.
const COLUMNS: usize = 4;
const HEAD: &str = "| what is required | file | test | what holds instead |";

/// `read` gives a file of the project; `None` for a missing one.
pub(super) fn check(content: &str, read: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut rows = 0;
    for (index, line) in content.lines().enumerate() {
        if !line.starts_with('|') || line.starts_with("| ---") || line == HEAD {
            continue;
        }
        rows += 1;
        if let Err(problem) = check_row(line, &read) {
            problems.push(Problem::at(TABLE, index + 1, problem));
        }
    }
    if rows == 0 {
        problems.push(Problem::of_file(TABLE, "has no row"));
    }
    problems
}

fn check_row(line: &str, read: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let &[requirement, file, test, _] = cells.as_slice() else {
        return Err(format!("has {} columns in place of {COLUMNS}", cells.len()));
    };
    if requirement.is_empty() {
        return Err("names no requirement".to_owned());
    }
    let (file, test) = (file.trim_matches('`'), test.trim_matches('`'));
    let Some(source) = read(file) else {
        return Err(format!("names `{file}`, which is not in the project"));
    };
    let standing = match file.rsplit_once('.').map(|(_, extension)| extension) {
        Some("mjs" | "js") => standing_in_javascript(&source, test),
        Some("py") => standing_in_python(&source, test),
        _ => standing_in_rust(&source, test),
    };
    match standing {
        Standing::Run => Ok(()),
        Standing::Missing => Err(format!(
            "names the test `{test}`, which `{file}` does not have"
        )),
        Standing::LeftOut => Err(format!(
            "names the test `{test}`, which is left out in `{file}`"
        )),
    }
}

/// Whether the test that a row names is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Run,
    /// It is there, and is not run.
    LeftOut,
    Missing,
}

/// A function of this name that is marked as a test.
fn standing_in_rust(source: &str, name: &str) -> Standing {
    standing_under_marks(
        source,
        &[format!("fn {name}("), format!("async fn {name}(")],
        |mark| mark.starts_with("#["),
        |mark| mark == "#[test]" || mark.starts_with("#[tokio::test"),
        |mark| {
            let inside = mark.trim_start_matches("#[");
            let is_maybe = inside.starts_with("cfg_attr(") && inside.contains("ignore");
            inside.starts_with("ignore") || is_maybe
        },
    )
}

/// A method of a test case. Python runs only methods whose names begin with `test`.
fn standing_in_python(source: &str, name: &str) -> Standing {
    if !name.starts_with("test") {
        return Standing::Missing;
    }
    standing_under_marks(
        source,
        &[format!("def {name}("), format!("async def {name}(")],
        |mark| mark.starts_with('@'),
        |_| true,
        |mark| mark.contains("skip") || mark.contains("expectedFailure"),
    )
}

/// A function whose first line begins in one of these ways, by the lines above it that are marks.
fn standing_under_marks(
    source: &str,
    beginnings: &[String],
    is_mark: impl Fn(&str) -> bool,
    makes_test: impl Fn(&str) -> bool,
    leaves_out: impl Fn(&str) -> bool,
) -> Standing {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut standing = Standing::Missing;
    for (at, line) in lines.iter().enumerate() {
        if !beginnings
            .iter()
            .any(|beginning| line.starts_with(beginning))
        {
            continue;
        }
        let marks = lines[..at].iter().rev();
        let marks: Vec<&str> = marks.copied().take_while(|line| is_mark(line)).collect();
        let is_test =
            marks.is_empty() && makes_test("") || marks.iter().any(|mark| makes_test(mark));
        match (is_test, marks.iter().any(|mark| leaves_out(mark))) {
            (true, false) => return Standing::Run,
            (true, true) => standing = Standing::LeftOut,
            (false, _) => {}
        }
    }
    standing
}

/// A call of `test` or `it` with this name, whose options do not leave it out.
fn standing_in_javascript(source: &str, name: &str) -> Standing {
    let mut standing = Standing::Missing;
    for line in source.lines().map(str::trim) {
        let Some((call, behind)) = line.split_once('(') else {
            continue;
        };
        let call = call.strip_prefix("await ").unwrap_or(call);
        let (function, way) = call.split_once('.').unwrap_or((call, ""));
        let mut quotes = ["'", "\"", "`"].into_iter();
        let rest = quotes.find_map(|quote| {
            let named = behind.strip_prefix(quote)?.strip_prefix(name)?;
            named.strip_prefix(quote)
        });
        let (Some(rest), "test" | "it") = (rest, function) else {
            continue;
        };
        let options = rest.split("=>").next().unwrap_or_default();
        let is_left_out = !way.is_empty() || options.contains("skip") || options.contains("todo");
        match is_left_out {
            false => return Standing::Run,
            true => standing = Standing::LeftOut,
        }
    }
    standing
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#[test]\nfn a_call_runs_once() {}\n\n#[tokio::test(start_paused = true)]\nasync fn a_wait_ends() {}\n\nfn no_test() {}\n\n\
        #[test]\n#\x5bignore = \"slow\"]\nfn a_slow_one() {}\n\n#\x5bignore]\n#[test]\nfn another_slow_one() {}\n";
    const JAVASCRIPT: &str = "test('the page asks', async () => {});\ntest.skip('the page waits', () => {});\n\
        test(\"it hangs\", { skip: 'later' }, () => {});\ntest('not the page asks', () => {});\n";
    const PYTHON: &str = "    def test_a_call(self):\n        pass\n\n    @unittest.skip('later')\n    def test_a_wait(self):\n        pass\n\n    def a_part(self):\n        pass\n";

    #[test]
    fn a_row_leads_to_a_test_that_is_run() {
        for (row, is_good) in [
            ("| once | `a.rs` | `a_call_runs_once` | |", true),
            ("| waits | `a.rs` | `a_wait_ends` | another time |", true),
            ("| once | `a.rs` | `a_call_runs` | |", false),
            ("| none | `a.rs` | `no_test` | |", false),
            ("| gone | `b.rs` | `a_call_runs_once` | |", false),
            ("| | `a.rs` | `a_call_runs_once` | |", false),
            ("| short | `a.rs` | `a_call_runs_once` |", false),
            ("| slow | `a.rs` | `a_slow_one` | |", false),
            ("| slow | `a.rs` | `another_slow_one` | |", false),
            ("| asks | `a.test.mjs` | `the page asks` | |", true),
            ("| asks | `a.test.mjs` | `the page` | |", false),
            ("| waits | `a.test.mjs` | `the page waits` | |", false),
            ("| hangs | `a.test.mjs` | `it hangs` | |", false),
            ("| calls | `test_a.py` | `test_a_call` | |", true),
            ("| waits | `test_a.py` | `test_a_wait` | |", false),
            ("| part | `test_a.py` | `a_part` | |", false),
        ] {
            let content = format!("{HEAD}\n| --- | --- | --- | --- |\n{row}\n");
            let found = check(&content, |file| match file {
                "a.rs" => Some(SOURCE.to_owned()),
                "a.test.mjs" => Some(JAVASCRIPT.to_owned()),
                "test_a.py" => Some(PYTHON.to_owned()),
                _ => None,
            });
            assert_eq!(found.is_empty(), is_good, "{row}: {found:?}");
        }
        assert_eq!(check("# Empty\n", |_| None).len(), 1);
    }
}
