//! The steps of `check` and `test`, in order. Knows each tool's command line; runs none itself.

use crate::parts::{self, CHROMIUM, FIREFOX, Missing};
use crate::postgres::{self, Server};
use crate::report::{Problem, Report};
use crate::supply::{self, Tools};
use crate::workspace::{Workspace, succeeds};
use crate::{edges, soak, tidy, tools};
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = "windlass";
const BENCHES: &str = "windlass-benches";
/// The variable of a contributor who builds tests with another profile than the project's.
const OPT_LEVEL_VARIABLE: &str = "CARGO_PROFILE_TEST_OPT_LEVEL";
const WEB_TESTS: &str = "tests/web";
const SDK_TESTS: &str = "tests/sdk";
const PACKAGE_TESTS: &str = "tests/packages";
/// Sessions of the real services. They are no part of the repository, so that not every machine has them.
const RECORDINGS: &str = "../shared/fixtures/realtime";
/// The tool that the benches measure, which is no part of the repository either.
const MEASURED_TOOL: &str = "../shared/bench/peers/shared/kb_search.schema.json";
/// Two files at a time, as most of their time is waiting: each starts a server, and most a browser.
const NODE_TEST_ARGUMENTS: &[&str] = &["--test", "--test-concurrency=2", "--test-reporter=spec"];

/// A Firefox that no longer answers fails the tests of its file and does not hold up those of the others.
const FIREFOX_FILE_TIMEOUT: &str = "--test-timeout=600000";

/// Features that are built on demand, and tested with the rest.
const FEATURES: &str = "windlass-app/documents,windlass-app/postgres,windlass-app/typescript";

/// How `cargo clippy` itself has packages checked.
const LINTING_COMPILER: &str = "clippy-driver";
/// Its arguments, each with a mark behind it.
const DENY_WARNINGS: &str = "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// How the workspace is built and tested.
#[derive(Clone, Copy)]
enum Build<'a> {
    /// The default build.
    Usual,
    /// With everything that is built on demand, and a database where there is one.
    Whole { database: Option<&'a Server> },
}

impl Build<'_> {
    /// Every step that compiles says the same, or each would compile anew. Our own packages are compiled by clippy's driver, which is
    /// the compiler with more lints: a step of lints alone would have to read all dependencies a second time.
    fn cargo(self, workspace: &Workspace, arguments: &[&str]) -> Command {
        let mut command = workspace.cargo(arguments);
        command.arg("--workspace");
        command.env("RUSTC_WORKSPACE_WRAPPER", LINTING_COMPILER);
        command.env("CLIPPY_ARGS", DENY_WARNINGS);
        if let Build::Whole { database } = self {
            command.args(["--features", FEATURES]);
            if let Some(server) = database {
                command.env(postgres::VARIABLE, server.address());
            }
        }
        command
    }

    /// Missing tools are installed only where everything is to be tested.
    fn tools(self) -> Tools {
        match self {
            Build::Usual => Tools::AsTheyAre,
            Build::Whole { .. } => Tools::Install,
        }
    }
}

/// Runs the checks that need only the Rust toolchain.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    check_build(workspace, report, Build::Usual);
}

/// The quick steps come first. True if the programs are built.
fn check_build(workspace: &Workspace, report: &mut Report, build: Build<'_>) -> bool {
    report.run("format", workspace.cargo(&["fmt", "--all", "--check"]));
    report.check("tidy", || tidy::check(workspace));
    report.check("crate edges", || edges::check(workspace));
    supply::check(workspace, report, build.tools());
    let built = report.run("build and lints", compile(workspace, build));
    if built {
        tests(workspace, report, build);
        doc_tests(workspace, report, build);
    }
    built
}

/// Compiles everything, with the tests' features and profile, so that each later step finds its parts.
fn compile(workspace: &Workspace, build: Build<'_>) -> Command {
    build.cargo(
        workspace,
        &["build", "--profile=test", "--tests", "--bins", "--examples"],
    )
}

/// Runs everything: the steps of `check`, and the tests that drive the built program with a browser and the official SDKs.
pub(crate) fn test(workspace: &Workspace, report: &mut Report) {
    if let Err(Missing(reason)) = parts::model_weights(workspace, report) {
        report.leave_out("tests with the embedding model", &reason);
    }
    let server = Server::start(workspace, report);
    if let Err(Missing(reason)) = &server {
        report.leave_out("tests with PostgreSQL", reason);
    }
    let database = server.as_ref().ok();
    let is_built = check_build(workspace, report, Build::Whole { database });
    drop(server);
    if !is_built {
        let reason = "there is no program to test, as it did not build";
        report.leave_out("worlds, browser and SDK tests", reason);
        return;
    }
    instruction_gate(workspace, report);
    soak::prove(workspace, report);
    let binary = workspace.program(PROGRAM);
    if workspace.exists(&format!("{WEB_TESTS}/package.json"))
        && let Err(Missing(reason)) = web_tests(workspace, report, &binary)
    {
        report.leave_out("browser tests", &reason);
    }
    if workspace.exists(&format!("{SDK_TESTS}/package.json"))
        && let Err(Missing(reason)) = javascript_sdk_tests(workspace, report, &binary)
    {
        report.leave_out("JavaScript SDK tests", &reason);
    }
    if workspace.exists(&format!("{SDK_TESTS}/requirements.txt"))
        && let Err(Missing(reason)) = python_sdk_tests(workspace, report, &binary)
    {
        report.leave_out("Python SDK tests", &reason);
    }
}

fn tests(workspace: &Workspace, report: &mut Report, build: Build<'_>) {
    if !workspace.exists(RECORDINGS) {
        report.notice(&format!(
            "there are no recorded sessions at {RECORDINGS}, so the tests that play them have played none and passed",
        ));
    }
    if build.tools() == Tools::Install
        && !tools::is_there(workspace, tools::NEXTEST)
        && let Err(Missing(reason)) = tools::install_built(workspace, tools::NEXTEST)
    {
        report.notice(&reason);
    }
    let command = if tools::is_there(workspace, tools::NEXTEST) {
        let mut command = build.cargo(workspace, &["nextest", "run", "--tests"]);
        tools::with(workspace, &mut command, tools::NEXTEST);
        command
    } else {
        report.notice(
            "cargo-nextest is not installed, so plain `cargo test` runs, slower, without a limit on a hung test and without the tests' times (`cargo install --locked cargo-nextest`)",
        );
        build.cargo(workspace, &["test", "--tests"])
    };
    report.run("tests", command);
}

/// Only nextest leaves doc tests out. Some of them show code that must not compile, so a run without any is a failure.
fn doc_tests(workspace: &Workspace, report: &mut Report, build: Build<'_>) {
    let problem = match packages_with_doc_tests(workspace) {
        Ok(packages) if packages.is_empty() => {
            Problem::general("no library has doc tests, so nothing shows what does not compile")
        }
        Ok(_) => {
            // All packages, as for the other tests: the few with doc tests would be compiled anew, for other features.
            report.run("doc tests", build.cargo(workspace, &["test", "--doc"]));
            return;
        }
        Err(problem) => problem,
    };
    report.check("doc tests", || vec![problem]);
}

fn packages_with_doc_tests(workspace: &Workspace) -> Result<Vec<String>, Problem> {
    let mut packages = Vec::new();
    for file in workspace.files()? {
        let Some(folder) = file.strip_suffix("Cargo.toml") else {
            continue;
        };
        if !workspace.exists(&format!("{folder}src/lib.rs")) {
            continue;
        }
        packages.extend(package_with_doc_tests(&workspace.read(&file)?));
    }
    Ok(packages)
}

/// The name of a manifest's package, unless its library says that it has no doc tests.
fn package_with_doc_tests(manifest: &str) -> Option<String> {
    let mut section = "";
    let mut name = None;
    for line in manifest.lines().map(str::trim) {
        match (section, line) {
            (_, header) if header.starts_with('[') => section = header,
            ("[lib]", "doctest = false") => return None,
            ("[package]", line) => {
                let value = line.strip_prefix("name = \"");
                name = name.or(value.and_then(|value| value.strip_suffix('"')));
            }
            _ => {}
        }
    }
    name.map(str::to_owned)
}

/// Holds the path of one call to the number of instructions that was committed.
fn instruction_gate(workspace: &Workspace, report: &mut Report) {
    let mut valgrind = workspace.command("valgrind", "");
    valgrind.arg("--version");
    if !succeeds(valgrind) {
        report.notice(
            "valgrind is not installed, so the instructions of one call go uncounted (package `valgrind` of the system)",
        );
        return;
    }
    if !workspace.exists(MEASURED_TOOL) {
        report.notice(&format!(
            "there is no {MEASURED_TOOL}, the tool whose call is counted, so the instructions of one call go uncounted"
        ));
        return;
    }
    if std::env::var_os(OPT_LEVEL_VARIABLE).is_some() {
        report.notice(&format!(
            "{OPT_LEVEL_VARIABLE} is set, so the instructions of one call go uncounted: the number holds for the project's own profile"
        ));
        return;
    }
    let mut command = workspace.command(workspace.program(BENCHES), "");
    command.arg("gate");
    report.run("instructions of one call", command);
}

/// Tests the packages that users install, with the program of the tests in place of a release's.
pub(crate) fn package_tests(workspace: &Workspace, report: &mut Report) {
    let mut node = workspace.command("node", "");
    node.arg("--version");
    if !succeeds(node) {
        report.leave_out("tests of packages", "Node is not installed");
        return;
    }
    let mut command = workspace.command("node", PACKAGE_TESTS);
    command.args(NODE_TEST_ARGUMENTS);
    command.env("WINDLASS_BINARY", workspace.program(PROGRAM));
    report.run("tests of packages", command);
}

fn web_tests(workspace: &Workspace, report: &mut Report, binary: &PathBuf) -> Result<(), Missing> {
    parts::npm_packages(workspace, report, WEB_TESTS)?;
    let chromium = parts::browser(workspace, report, &CHROMIUM)?;
    let mut command = workspace.command("node", WEB_TESTS);
    command.args(NODE_TEST_ARGUMENTS);
    command.env("WINDLASS_BINARY", binary);
    command.env(CHROMIUM.variable, chromium);
    report.run("browser tests", command);
    Ok(())
}

/// The tests of the page once more, in the other browser.
pub(crate) fn firefox(workspace: &Workspace, report: &mut Report) {
    let build = Build::Whole { database: None };
    if report.run("build", compile(workspace, build))
        && let Err(Missing(reason)) = firefox_tests(workspace, report)
    {
        report.leave_out("browser tests in Firefox", &reason);
    }
}

fn firefox_tests(workspace: &Workspace, report: &mut Report) -> Result<(), Missing> {
    parts::npm_packages(workspace, report, WEB_TESTS)?;
    let firefox = parts::browser(workspace, report, &FIREFOX)?;
    let mut command = workspace.command("node", WEB_TESTS);
    command.args(NODE_TEST_ARGUMENTS);
    command.env("WINDLASS_BINARY", workspace.program(PROGRAM));
    command.arg(FIREFOX_FILE_TIMEOUT);
    command.env("WINDLASS_BROWSER", "firefox");
    command.env(FIREFOX.variable, firefox);
    report.run("browser tests in Firefox", command);
    Ok(())
}

fn javascript_sdk_tests(
    workspace: &Workspace,
    report: &mut Report,
    binary: &PathBuf,
) -> Result<(), Missing> {
    parts::npm_packages(workspace, report, SDK_TESTS)?;
    let mut command = workspace.command("node", SDK_TESTS);
    command.args(NODE_TEST_ARGUMENTS);
    command.env("WINDLASS_BINARY", binary);
    report.run("JavaScript SDK tests", command);
    Ok(())
}

fn python_sdk_tests(
    workspace: &Workspace,
    report: &mut Report,
    binary: &PathBuf,
) -> Result<(), Missing> {
    let requirements = format!("{SDK_TESTS}/requirements.txt");
    let interpreter = parts::python_environment(workspace, report, &requirements)?;
    let mut command = workspace.command(interpreter, SDK_TESTS);
    command.args(["-B", "-m", "unittest", "discover", "--pattern", "test_*.py"]);
    command.env("WINDLASS_BINARY", binary);
    report.run("Python SDK tests", command);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_has_doc_tests_unless_its_manifest_says_no() {
        for (manifest, expected) in [
            ("[package]\nname = \"a\"\n", Some("a")),
            ("[package]\nname = \"a\"\n[lib]\ndoctest = false\n", None),
            (
                "[package]\nname = \"a\"\n[lib]\nname = \"b\"\n[[bin]]\nname = \"c\"\ndoctest = false\n",
                Some("a"),
            ),
            ("[workspace]\nmembers = [\"crates/*\"]\n", None),
        ] {
            let found = package_with_doc_tests(manifest);
            assert_eq!(found.as_deref(), expected, "{manifest}");
        }
    }
}
