//! Runs steps one after another, keeps the outcome of each, and sums them up. Knows no step by name.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How many of the last lines of a failed step the summary repeats.
const TAIL_LINES_MAX: usize = 60;
/// How long to wait for the end of a step's output after its process has ended: a server that a test left behind may
/// hold the pipe open for ever.
const DRAIN_TIMEOUT_MS: u64 = 2_000;
/// How many of the longest steps and of the longest tests the summary names.
const LONGEST_MAX: usize = 10;

/// One broken rule: its place, and the fix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    file: String,
    line: usize,
    text: String,
}

impl Problem {
    /// Lines count from 1.
    pub(crate) fn at(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            text: text.into(),
        }
    }

    pub(crate) fn of_file(file: &str, text: impl Into<String>) -> Self {
        Self::at(file, 0, text)
    }

    pub(crate) fn general(text: impl Into<String>) -> Self {
        Self::at("", 0, text)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.line) {
            ("", _) => write!(formatter, "{}", self.text),
            (file, 0) => write!(formatter, "{file}: {}", self.text),
            (file, line) => write!(formatter, "{file}:{line}: {}", self.text),
        }
    }
}

/// Whether a test that cannot run on this machine may be left out, or fails the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    MayLeaveOut,
    NothingLeftOut,
}

pub(crate) struct Report {
    strictness: Strictness,
    steps: Vec<Step>,
    tests: Vec<TimedTest>,
    notices: Vec<String>,
    started: Instant,
}

struct Step {
    name: String,
    outcome: Outcome,
    duration: Duration,
}

/// A test as its suite reported it.
#[derive(Clone, Debug, PartialEq)]
struct TimedTest {
    name: String,
    duration: Duration,
}

enum Outcome {
    Passed,
    Failed { output: Vec<String> },
    LeftOut { reason: String },
}

impl Report {
    pub(crate) fn new(strictness: Strictness) -> Self {
        Self {
            strictness,
            steps: Vec::new(),
            tests: Vec::new(),
            notices: Vec::new(),
            started: Instant::now(),
        }
    }

    /// A rule that this program checks itself. It passes if there are no problems.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Vec<Problem>) {
        println!("== {name}");
        let started = Instant::now();
        let output: Vec<String> = check().iter().map(Problem::to_string).collect();
        for line in &output {
            println!("{line}");
        }
        let outcome = if output.is_empty() {
            Outcome::Passed
        } else {
            Outcome::Failed { output }
        };
        self.record(name, outcome, started.elapsed());
    }

    /// A step that another program does. Its output is shown as it comes. True if it succeeded.
    pub(crate) fn run(&mut self, name: &str, command: Command) -> bool {
        println!("== {name}: {}", shown(&command));
        let started = Instant::now();
        let mut skipped = 0;
        let outcome = match stream(command) {
            Ok(run) => {
                self.tests.extend(run.timed_tests);
                if run.status.success() {
                    skipped = run.skipped_tests;
                    Outcome::Passed
                } else {
                    Outcome::Failed { output: run.tail }
                }
            }
            Err(error) => Outcome::Failed {
                output: vec![format!("cannot be run: {error}")],
            },
        };
        let passed = matches!(outcome, Outcome::Passed);
        self.record(name, outcome, started.elapsed());
        if skipped > 0 {
            let reason = format!("the suite skipped {skipped}; its output says why");
            self.leave_out(&format!("some of {name}"), &reason);
        }
        passed
    }

    /// A step that cannot be done on this machine. A failure where nothing may be left out.
    pub(crate) fn leave_out(&mut self, name: &str, reason: &str) {
        let reason = reason.to_owned();
        self.record(name, Outcome::LeftOut { reason }, Duration::ZERO);
    }

    /// Something to know that is no failure.
    pub(crate) fn notice(&mut self, text: &str) {
        println!("note: {text}");
        self.notices.push(text.to_owned());
    }

    pub(crate) fn failed(&self) -> usize {
        let fails = |step: &&Step| match step.outcome {
            Outcome::Passed => false,
            Outcome::Failed { .. } => true,
            Outcome::LeftOut { .. } => self.strictness == Strictness::NothingLeftOut,
        };
        self.steps.iter().filter(fails).count()
    }

    pub(crate) fn passed(&self) -> usize {
        let passes = |step: &&Step| matches!(step.outcome, Outcome::Passed);
        self.steps.iter().filter(passes).count()
    }

    /// The longest steps. A single step needs no such list.
    fn longest(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.steps.iter();
        let steps = longest(steps.map(|step| (step.name.as_str(), step.duration)));
        let tests = self.tests.iter();
        let tests = longest(tests.map(|test| (test.name.as_str(), test.duration)));
        for (title, entries, least) in [("steps", steps, 2), ("tests", tests, 1)] {
            if entries.len() < least {
                continue;
            }
            writeln!(formatter, "== longest {title}")?;
            for (name, duration) in entries {
                writeln!(formatter, "{:>7.1} s  {name}", duration.as_secs_f64())?;
            }
            writeln!(formatter)?;
        }
        Ok(())
    }

    fn record(&mut self, name: &str, outcome: Outcome, duration: Duration) {
        let step = Step {
            name: name.to_owned(),
            outcome,
            duration,
        };
        println!("{step}\n");
        self.steps.push(step);
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        let seconds = self.duration.as_secs_f64();
        match &self.outcome {
            Outcome::Passed => write!(formatter, "passed    {seconds:>7.1} s  {name}"),
            Outcome::Failed { .. } => write!(formatter, "failed    {seconds:>7.1} s  {name}"),
            Outcome::LeftOut { reason } => {
                write!(formatter, "left out             {name}: {reason}")
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            // A step that ran alone has just shown its output.
            if let Outcome::Failed { output } = &step.outcome
                && self.steps.len() > 1
            {
                writeln!(formatter, "== why {} failed", step.name)?;
                let first = output.len().saturating_sub(TAIL_LINES_MAX);
                for line in &output[first..] {
                    writeln!(formatter, "{line}")?;
                }
                writeln!(formatter)?;
            }
        }
        self.longest(formatter)?;
        writeln!(formatter, "== summary")?;
        for step in &self.steps {
            writeln!(formatter, "{step}")?;
        }
        for notice in &self.notices {
            writeln!(formatter, "note: {notice}")?;
        }
        let left_out = |step: &Step| matches!(step.outcome, Outcome::LeftOut { .. });
        if self.strictness == Strictness::NothingLeftOut && self.steps.iter().any(left_out) {
            writeln!(formatter, "note: with CI=true, what is left out has failed")?;
        }
        let total = self.started.elapsed().as_secs_f64();
        writeln!(formatter, "in all    {total:>7.1} s")?;
        write!(
            formatter,
            "{} passed, {} failed",
            self.passed(),
            self.failed()
        )
    }
}

/// The longest first.
fn longest<'a>(entries: impl Iterator<Item = (&'a str, Duration)>) -> Vec<(&'a str, Duration)> {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|(_, duration)| std::cmp::Reverse(*duration));
    entries.truncate(LONGEST_MAX);
    entries
}

struct Run {
    status: ExitStatus,
    tail: Vec<String>,
    timed_tests: Vec<TimedTest>,
    skipped_tests: usize,
}

/// Runs a command, shows its output as it comes, and keeps the end of it. Both streams share one pipe, so that lines
/// keep their order.
fn stream(mut command: Command) -> io::Result<Run> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The command holds the pipe's writing end, and the reader ends only when every copy is closed.
    drop(command);
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || read_lines(reader, &sender));
    let mut tail = Tail::default();
    let status = loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => tail.push(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => break child.wait()?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    break status;
                }
            }
        }
    };
    let drain_until = Instant::now() + Duration::from_millis(DRAIN_TIMEOUT_MS);
    while let Ok(line) = lines.recv_timeout(drain_until.saturating_duration_since(Instant::now())) {
        tail.push(line);
    }
    Ok(Run {
        status,
        tail: tail.lines.into(),
        timed_tests: tail.timed_tests,
        skipped_tests: tail.skipped_tests,
    })
}

fn read_lines(reader: PipeReader, sender: &mpsc::Sender<String>) {
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    while reader
        .read_until(b'\n', &mut bytes)
        .is_ok_and(|read| read > 0)
    {
        let line = String::from_utf8_lossy(&bytes);
        if sender.send(line.trim_end().to_owned()).is_err() {
            return;
        }
        bytes.clear();
    }
}

#[derive(Default)]
struct Tail {
    lines: VecDeque<String>,
    timed_tests: Vec<TimedTest>,
    skipped_tests: usize,
}

impl Tail {
    fn push(&mut self, line: String) {
        println!("{line}");
        self.skipped_tests += skipped_tests(&line);
        self.timed_tests.extend(timed_test(&line));
        if self.lines.len() == TAIL_LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// How many tests a suite says that it skipped: `ℹ skipped 2` and `# skipped 2` are Node's, `OK (skipped=2)` Python's.
fn skipped_tests(line: &str) -> usize {
    let count = line
        .strip_prefix("ℹ skipped ")
        .or_else(|| line.strip_prefix("# skipped "))
        .or_else(|| {
            let (_, rest) = line.strip_prefix("OK (")?.split_once("skipped=")?;
            rest.split([',', ')']).next()
        });
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The test that a line tells the end of, and how long it took: `PASS [   0.123s] (1/9) package::binary module::test` is nextest's (and
/// `FAIL`, `TIMEOUT`, `LEAK`), `✔ name (123.4ms)` Node's.
fn timed_test(line: &str) -> Option<TimedTest> {
    let line = line.trim();
    let (name, seconds) = if let Some(line) = line.strip_prefix(['✔', '✖']) {
        let (name, time) = line.trim().rsplit_once(" (")?;
        let milliseconds: f64 = time.strip_suffix("ms)")?.parse().ok()?;
        (name, milliseconds / 1_000.0)
    } else {
        let (outcome, line) = line.split_once(" [")?;
        if !outcome.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let (time, name) = line.split_once("s]")?;
        let name = name.trim();
        let name = match name.strip_prefix('(').and_then(|name| name.split_once(')')) {
            Some((_, name)) => name.trim(),
            None => name,
        };
        (name, time.trim().parse().ok()?)
    };
    Some(TimedTest {
        name: name.to_owned(),
        duration: Duration::try_from_secs_f64(seconds).ok()?,
    })
}

fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    if let Some((_, name)) = text.rsplit_once('/') {
        text = name.to_owned();
    }
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn last_line(report: &Report) -> String {
        report
            .to_string()
            .lines()
            .last()
            .map(str::to_owned)
            .unwrap_or_default()
    }

    #[test]
    fn the_last_line_counts_steps() {
        let mut report = Report::new(Strictness::MayLeaveOut);
        report.check("clean", Vec::new);
        report.check("broken", || vec![Problem::at("a.rs", 3, "is wrong")]);
        assert!(report.run("succeeds", shell("exit 0")));
        assert!(!report.run("fails", shell("exit 3")));
        assert_eq!(last_line(&report), "2 passed, 2 failed");
    }

    #[test]
    fn the_summary_repeats_why_a_step_failed() {
        let mut report = Report::new(Strictness::MayLeaveOut);
        report.run(
            "noisy",
            shell("seq 1 500; echo the cause is here >&2; exit 1"),
        );
        let rules = || vec![Problem::at("a.rs", 3, "is wrong")];
        report.check("rules", rules);
        let summary = report.to_string();
        assert!(summary.contains("the cause is here"), "{summary}");
        assert!(summary.contains("a.rs:3: is wrong"), "{summary}");
        assert!(!summary.contains("\n17\n"), "{summary}");
    }

    #[test]
    fn what_is_left_out_fails_only_where_nothing_may_be() {
        for (strictness, expected) in [
            (Strictness::MayLeaveOut, "1 passed, 0 failed"),
            (Strictness::NothingLeftOut, "1 passed, 1 failed"),
        ] {
            let mut report = Report::new(strictness);
            report.check("clean", Vec::new);
            report.leave_out("browser tests", "no browser");
            assert_eq!(last_line(&report), expected);
        }
    }

    #[test]
    fn tests_that_a_suite_skips_count_as_left_out() {
        for script in [
            "echo '# skipped 1'",
            "echo 'ℹ skipped 12'",
            "echo 'OK (skipped=2)'",
            "echo 'OK (expected failures=1, skipped=2)' >&2",
        ] {
            let mut report = Report::new(Strictness::NothingLeftOut);
            report.run("suite", shell(script));
            assert_eq!(last_line(&report), "1 passed, 1 failed", "{script}");
        }
        let mut report = Report::new(Strictness::NothingLeftOut);
        report.run("suite", shell("echo 'ℹ skipped 0'; echo OK"));
        assert_eq!(last_line(&report), "1 passed, 0 failed");
    }

    #[test]
    fn a_line_tells_the_end_of_a_test() {
        for (line, expected) in [
            (
                "        PASS [   0.005s] (  12/1940) windlass-store::it table::rows",
                Some(("windlass-store::it table::rows", 5)),
            ),
            ("        PASS [ 121.500s] xtask", Some(("xtask", 121_500))),
            (
                "     TIMEOUT [ 120.001s] (2/9) windlass-app::it kills::all",
                Some(("windlass-app::it kills::all", 120_001)),
            ),
            ("        SLOW [> 30.000s] windlass-app::it kills::all", None),
            (
                "  ✔ the page says (at once) what is missing (1234.5ms)",
                Some(("the page says (at once) what is missing", 1_234)),
            ),
            ("✖ failing tests:", None),
            ("     Summary [  12.000s] 1940 tests run: 1940 passed", None),
            ("test a::b ... ok", None),
            ("", None),
        ] {
            let found = timed_test(line);
            let found = found
                .as_ref()
                .map(|test| (test.name.as_str(), test.duration.as_millis()));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn the_summary_names_the_longest_steps_and_tests() {
        let mut report = Report::new(Strictness::MayLeaveOut);
        report.run(
            "suite",
            shell("for n in $(seq 11 22); do echo \"PASS [ $n.000s] (1/9) test-$n\"; done"),
        );
        report.check("rules", Vec::new);
        let summary = report.to_string();
        let (_, longest) = summary.split_once("== longest tests\n").unwrap();
        let (longest, _) = longest.split_once("\n\n").unwrap();
        let lines: Vec<&str> = longest.lines().collect();
        assert_eq!(lines.len(), LONGEST_MAX);
        assert_eq!(lines[0], "   22.0 s  test-22");
        assert_eq!(lines[9], "   13.0 s  test-13");
        assert!(summary.contains("== longest steps\n"), "{summary}");
    }

    #[test]
    fn a_program_that_is_missing_is_a_failed_step() {
        let mut report = Report::new(Strictness::MayLeaveOut);
        assert!(!report.run("missing", Command::new("no-such-program-anywhere")));
        assert_eq!(last_line(&report), "0 passed, 1 failed");
    }

    #[test]
    fn a_process_left_behind_does_not_hold_the_run_up() {
        let mut report = Report::new(Strictness::MayLeaveOut);
        assert!(report.run("leaves a server", shell("sleep 180 & exit 0")));
        assert_eq!(last_line(&report), "1 passed, 0 failed");
    }
}
