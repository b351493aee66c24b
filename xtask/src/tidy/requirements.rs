//! Rules for the table of requirements: every row names a test that is in the sources and is run. Knows no requirement.

use crate::report::Problem;

/// Where the table is.
pub(super) const TABLE: &str = "tests/requirements.md";

/// Columns: the requirement, the file, the test's name, and what holds in place of the requirement where that is ruled otherwise.
const COLUMNS: usize = 4;
const HEAD: &str = "| what is required | file | test | what holds instead |";

/// `read` gives a file of the project; `None` where there is none.
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
    match is_run(&source, test) {
        true => Ok(()),
        false => Err(format!(
            "names the test `{test}`, which `{file}` does not have"
        )),
    }
}

/// Whether a source has a function of this name that is marked as a test. That one is left out is a problem of its own.
fn is_run(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let (plain, waiting) = (format!("fn {name}("), format!("async fn {name}("));
    let mut found = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with(&plain) || line.starts_with(&waiting));
    found.any(|(at, _)| {
        let marks = lines[..at].iter().rev();
        let mut marks = marks.take_while(|line| line.starts_with("#["));
        marks.any(|mark| *mark == "#[test]" || mark.starts_with("#[tokio::test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "#[test]\nfn a_call_runs_once() {}\n\n#[tokio::test(start_paused = true)]\nasync fn a_wait_ends() {}\n\nfn no_test() {}\n";

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
        ] {
            let content = format!("{HEAD}\n| --- | --- | --- | --- |\n{row}\n");
            let found = check(&content, |file| (file == "a.rs").then(|| SOURCE.to_owned()));
            assert_eq!(found.is_empty(), is_good, "{row}: {found:?}");
        }
        assert_eq!(check("# Empty\n", |_| None).len(), 1);
    }
}
