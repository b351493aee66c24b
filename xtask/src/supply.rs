//! The check of the dependencies: their licences, their sources, and the advisories against them. Keeps a dated copy of the advisory
//! database, since not every machine reaches the real one; knows no rule of its own: those are in `deny.toml`.

use crate::parts::Missing;
use crate::report::{Problem, Report};
use crate::tools;
use crate::workspace::{Workspace, output_of};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The copy: one advisory after the other, an empty line between them.
const COPY: &str = "xtask/advisories.txt";
const RULES: &str = "deny.toml";
/// cargo-deny's folder for the database at its usual address, under its `db-path`: the last part of the address and a hash of it
/// (`url_to_db_path` in its `src/advisories/helpers/db.rs`).
const DATABASE: &str = "advisory-db-3157b0e258782691";
/// `deny.toml` reads its `db-path` from here.
const FOLDER_VARIABLE: &str = "WINDLASS_ADVISORIES";
/// Days after which a copy is called old. The database gets about one entry a day.
const DAYS_MAX: u64 = 120;
/// Days after which a copy is too old for a release.
const RELEASE_DAYS_MAX: u64 = 30;
/// The line of `deny.toml` for yanked crates, and its stricter form for a release: daily builds do not ask the index.
const YANKED: &str = "\nyanked = \"allow\"\n";
const RELEASE_YANKED: &str = "\nyanked = \"deny\"\n";
/// The fields of an advisory that a tool like ours needs. Texts and links stay where they are, at <https://rustsec.org>.
const ADVISORY_FIELDS: &[&str] = &["id", "package", "date", "informational", "withdrawn"];
const AFFECTED_FIELDS: &[&str] = &["arch", "os"];
const VERSIONS_FIELDS: &[&str] = &["patched", "unaffected"];

/// Whether a missing tool is fetched or only reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tools {
    Install,
    AsTheyAre,
}

pub(crate) fn check(workspace: &Workspace, report: &mut Report, missing: Tools) {
    if !tools::is_there(workspace, tools::DENY) {
        if missing == Tools::AsTheyAre {
            report.notice(
                "cargo-deny is not installed, so the dependencies' licences, sources and advisories go unchecked (`cargo xtask supply` installs it)",
            );
            return;
        }
        if let Err(Missing(reason)) = tools::install(workspace, report, tools::DENY) {
            report.leave_out("licences, sources and advisories", &reason);
            return;
        }
    }
    match unpack(workspace) {
        Ok(taken) => {
            if days_since(&taken).is_some_and(|days| days > DAYS_MAX) {
                report.notice(&format!(
                    "{COPY} is of {taken}: make a newer one with `cargo xtask advisories <clone of github.com/rustsec/advisory-db>`",
                ));
            }
        }
        Err(problem) => {
            report.check("advisories", || vec![problem]);
            return;
        }
    }
    // Offline, so that it takes the copy; it looks at the packages of other systems as well, which no build has fetched.
    if !report.run("packages", workspace.cargo(&["fetch", "--locked"])) {
        return;
    }
    let deny = deny(workspace, Path::new(RULES));
    report.run("licences, sources and advisories", deny);
}

fn deny(workspace: &Workspace, rules: &Path) -> Command {
    let mut deny = workspace.cargo(&["deny", "--offline", "--config"]);
    deny.arg(rules).arg("check");
    deny.env(FOLDER_VARIABLE, databases(workspace));
    tools::with(workspace, &mut deny, tools::DENY);
    deny
}

/// A release wants, beyond the daily check, a recent copy of the advisories and no yanked dependency. True if it may be made.
pub(crate) fn release_check(workspace: &Workspace, report: &mut Report) -> bool {
    let failed = report.failed();
    check(workspace, report, Tools::Install);
    if !tools::is_there(workspace, tools::DENY) {
        return false;
    }
    report.check("age of the advisories", || match unpack(workspace) {
        Ok(taken) => too_old(&taken, days_since(&taken)).into_iter().collect(),
        Err(problem) => vec![problem],
    });
    // cargo-deny uses the index as cargo last read it, and this step has cargo read it.
    let index = workspace.cargo(&["update", "--dry-run", "--quiet"]);
    if report.run("index of crates", index) {
        match release_rules(workspace) {
            Ok(rules) => {
                report.run("crates that were taken back", deny(workspace, &rules));
            }
            Err(problem) => report.check("rules of a release", || vec![problem]),
        }
    }
    report.failed() == failed
}

fn too_old(taken: &str, days: Option<u64>) -> Option<Problem> {
    let cure =
        "make a new one with `cargo xtask advisories <clone of github.com/rustsec/advisory-db>`";
    match days {
        Some(..=RELEASE_DAYS_MAX) => None,
        Some(days) => Some(Problem::of_file(
            COPY,
            format!(
                "is of {taken}, {days} days old; a release takes {RELEASE_DAYS_MAX} at most: {cure}"
            ),
        )),
        None => Some(Problem::of_file(
            COPY,
            format!("is of `{taken}`, and how long ago that is cannot be told: {cure}"),
        )),
    }
}

/// Writes `deny.toml` in its stricter form.
fn release_rules(workspace: &Workspace) -> Result<PathBuf, Problem> {
    let rules = stricter(&workspace.read(RULES)?)?;
    let file = databases(workspace).join(RULES);
    fs::write(&file, rules)
        .map_err(|error| Problem::general(format!("{}: {error}", file.display())))?;
    Ok(file)
}

fn stricter(rules: &str) -> Result<String, Problem> {
    if rules.matches(YANKED).count() != 1 {
        let line = YANKED.trim();
        return Err(Problem::of_file(
            RULES,
            format!("has no single line `{line}`"),
        ));
    }
    Ok(rules.replace(YANKED, RELEASE_YANKED))
}

/// Writes the copy anew, from a clone of the database.
pub(crate) fn copy(workspace: &Workspace, report: &mut Report, clone: &Path) {
    report.check("copy of the advisories", || {
        match write_copy(workspace, clone) {
            Ok(()) => Vec::new(),
            Err(problem) => vec![problem],
        }
    });
}

fn write_copy(workspace: &Workspace, clone: &Path) -> Result<(), Problem> {
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(clone)
        .args(["log", "-1", "--format=%cs %H"]);
    let state = output_of(git, "git log")?;
    let (date, commit) = state.trim().split_once(' ').unwrap_or(("?", "?"));
    let mut files = Vec::new();
    collect(&clone.join("crates"), &mut files)
        .map_err(|error| Problem::general(format!("{}: {error}", clone.display())))?;
    files.sort();
    let mut text = format!(
        "# {date}\n# The facts of github.com/rustsec/advisory-db at {commit}, which are free of rights (CC0). `cargo xtask advisories` writes this file.\n",
    );
    for file in files {
        let advisory = fs::read_to_string(&file)
            .map_err(|error| Problem::general(format!("{}: {error}", file.display())))?;
        let facts = facts(&advisory)
            .ok_or_else(|| Problem::general(format!("{} has no facts", file.display())))?;
        text.push('\n');
        text.push_str(&facts);
    }
    fs::write(workspace.path(COPY), text)
        .map_err(|error| Problem::of_file(COPY, format!("cannot be written: {error}")))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    Ok(())
}

/// The fields that a check asks for, out of the block of TOML that an advisory begins with.
fn facts(advisory: &str) -> Option<String> {
    let (block, _) = advisory.strip_prefix("```toml\n")?.split_once("\n```")?;
    let mut section = "";
    let mut facts = String::new();
    let mut lines = block.lines();
    while let Some(line) = lines.next() {
        if line.starts_with('[') {
            section = line.trim();
            facts.push_str(line);
            facts.push('\n');
            continue;
        }
        let Some((name, _)) = line.split_once('=') else {
            continue;
        };
        let wanted = match section {
            "[advisory]" => ADVISORY_FIELDS,
            "[affected]" => AFFECTED_FIELDS,
            "[versions]" => VERSIONS_FIELDS,
            _ => &[],
        };
        let is_wanted = wanted.contains(&name.trim());
        let mut value = line.to_owned();
        while value.matches('[').count() > value.matches(']').count() {
            value.push_str(lines.next()?.trim());
        }
        if is_wanted {
            facts.push_str(&value);
            facts.push('\n');
        }
    }
    facts.contains("id = ").then_some(facts)
}

/// Lays the copy out as cargo-deny expects the database. Answers the day that it was taken.
fn unpack(workspace: &Workspace) -> Result<String, Problem> {
    let text = workspace.read(COPY)?;
    let mut blocks = text.split("\n\n");
    let head = blocks.next().unwrap_or_default();
    let taken = head.lines().next().and_then(|line| line.strip_prefix("# "));
    let taken = taken.ok_or_else(|| Problem::at(COPY, 1, "begins with no date"))?;
    let folder = databases(workspace).join(DATABASE);
    lay_out(&folder, blocks)
        .map_err(|error| Problem::general(format!("{}: {error}", folder.display())))?;
    Ok(taken.to_owned())
}

fn databases(workspace: &Workspace) -> PathBuf {
    workspace.target().join("tmp").join("advisories")
}

fn lay_out<'a>(folder: &Path, blocks: impl Iterator<Item = &'a str>) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder.join("crates"))?;
    for block in blocks {
        let value = |name: &str| {
            let mut lines = block.lines().filter_map(|line| line.split_once(" = "));
            lines.find_map(|(field, value)| (field == name).then(|| value.trim_matches('"')))
        };
        let Some(id) = value("id") else {
            return Err(io::Error::other(format!("an advisory has no id: {block}")));
        };
        let file = folder.join("crates").join(format!("{id}.md"));
        fs::write(
            file,
            format!("```toml\n{block}\n```\n\n# See rustsec.org\n"),
        )?;
    }
    // The time of this file is when cargo-deny believes that the database was fetched. How old the copy is, is judged above.
    fs::create_dir_all(folder.join(".git"))?;
    fs::write(folder.join(".git").join("FETCH_HEAD"), "")
}

/// `None` on systems whose `date` reads no dates.
fn days_since(date: &str) -> Option<u64> {
    let mut command = Command::new("date");
    command.args(["--date", date, "+%s"]);
    let then: u64 = output_of(command, "date").ok()?.trim().parse().ok()?;
    let now = std::time::UNIX_EPOCH.elapsed().ok()?.as_secs();
    Some(now.saturating_sub(then) / 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_takes_a_recent_copy_alone() {
        let told = |days| too_old("2026-08-21", days).map(|problem| problem.to_string());
        assert_eq!(told(Some(0)), None);
        assert_eq!(told(Some(30)), None);
        for days in [Some(31), Some(98), None] {
            let told = told(days).unwrap();
            assert!(
                told.contains("2026-08-21") && told.contains("cargo xtask advisories"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_release_refuses_what_was_taken_back() {
        let rules = Workspace::of_this_program().read(RULES).unwrap();
        let stricter_rules = stricter(&rules).unwrap();
        assert!(stricter_rules.contains(RELEASE_YANKED) && !stricter_rules.contains(YANKED));
        assert!(stricter("[advisories]\n").is_err());
    }

    #[test]
    fn an_advisory_keeps_what_a_check_asks_for() {
        let advisory = "```toml\n[advisory]\nid = \"RUSTSEC-2021-0001\"\npackage = \"a\"\ndate = \"2021-01-01\"\nurl = \"https://a\"\nkeywords = [\n  \"x\",\n]\n\n[affected]\nos = [\"linux\"]\nfunctions = { \"a::b\" = [\"<= 1\"] }\n\n[versions]\npatched = [\n  \">= 2\",\n  \"^1.5\",\n]\n```\n\n# Title\n\nText.\n";
        assert_eq!(
            facts(advisory).as_deref(),
            Some(
                "[advisory]\nid = \"RUSTSEC-2021-0001\"\npackage = \"a\"\ndate = \"2021-01-01\"\n[affected]\nos = [\"linux\"]\n[versions]\npatched = [\">= 2\",\"^1.5\",]\n"
            )
        );
        for broken in ["", "# Title\n", "```toml\n[versions]\npatched = []\n```\n"] {
            assert_eq!(facts(broken), None, "{broken}");
        }
    }
}
