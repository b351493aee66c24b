//! Finds the tools that scripts call, as far as their text shows, and the calls that would always be refused. Calls that the text does
//! not show are judged when they are made.

use super::Source;
use crate::artifact::{Entry, ScriptFile};
use crate::problem::{NOTHING_TO_DO, Problem, Severity};
use crate::script_calls::calls_in;
use std::collections::{BTreeMap, BTreeSet};

/// Finds calls between tools and reports the ones that would always be refused.
pub(super) fn check(entries: &[Entry], source: &Source<'_>) -> Vec<Problem> {
    let by_id: BTreeMap<&str, &Entry> = entries
        .iter()
        .filter(|entry| !entry.is_beside)
        .map(|entry| (entry.manifest.tool_id.as_str(), entry))
        .collect();
    // Every version of a tool may call and be called.
    let mut called: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for entry in entries {
        let of_tool = called.entry(entry.manifest.tool_id.as_str()).or_default();
        of_tool.extend(entry.handler.called_tools());
    }
    let mut problems = Vec::new();
    for entry in entries {
        let id = entry.manifest.tool_id.as_str();
        let mut said = BTreeSet::new();
        for file in entry.handler.script_files() {
            for call in calls_in(&file.source) {
                if !said.insert(call.tool.clone()) {
                    continue;
                }
                if let Some((severity, message, cure)) = refused(entry, &call.tool, &by_id, &called)
                {
                    problems.push(Problem {
                        file: shown(file, entry, source),
                        line: Some(call.line),
                        column: Some(call.column),
                        severity,
                        tool: Some(id.replace('_', "-")),
                        message,
                        cure: cure.to_owned(),
                    });
                }
            }
        }
        if !said.is_empty() {
            let named: Vec<String> = said.into_iter().collect();
            problems.push(Problem {
                file: entry
                    .handler
                    .script_files()
                    .next()
                    .map(|file| shown(file, entry, source))
                    .unwrap_or_default(),
                line: None,
                column: None,
                severity: Severity::Note,
                tool: Some(id.replace('_', "-")),
                message: format!("the tool `{id}` may call {}", named.join(", ")),
                cure: format!("{NOTHING_TO_DO} a preview that users approve says so, too"),
            });
        }
    }
    problems
}

/// A file's path as people see it: the tool's directory lies in the folder of the tools.
fn shown(file: &ScriptFile, entry: &Entry, source: &Source<'_>) -> String {
    let handler = entry.handler.script_files().next();
    let folder = handler.map(|handler| entry.split_path(&handler.path).0);
    let own = file.path.strip_prefix(folder.unwrap_or_default());
    let own = own.unwrap_or(&file.path);
    source.tools.join(own).display().to_string()
}

/// Why a call would always be refused.
fn refused(
    of: &Entry,
    called: &str,
    by_id: &BTreeMap<&str, &Entry>,
    calls: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<(Severity, String, &'static str)> {
    let caller = of.manifest.tool_id.as_str();
    if let Some(way) = way_back(called, caller, calls) {
        let way = way.join(", which calls ");
        return Some((
            Severity::Error,
            format!("`{caller}` calls {way}: that would not end, and the last call is refused"),
            "let one of them do its work without the other",
        ));
    }
    let Some(tool) = by_id.get(called) else {
        return Some((
            Severity::Warning,
            format!("`{caller}` calls `{called}`, and there is no such tool"),
            "correct the name, or add the tool",
        ));
    };
    // A tool that asks by a condition may be called where the condition does not ask.
    if tool.manifest.requires_confirmation && tool.manifest.consent_condition.is_none() {
        return Some((
            Severity::Warning,
            format!(
                "`{caller}` calls `{called}`, which only a model can call, because its user has to confirm it"
            ),
            "have the user confirm the calling tool in its place",
        ));
    }
    (tool.manifest.side_effects > of.manifest.side_effects).then(|| {
        (
            Severity::Warning,
            format!("`{caller}` calls `{called}`, which does more than `{caller}` says of itself"),
            "let `sideEffects` of the calling tool say as much",
        )
    })
}

/// The shortest chain of calls from one tool to another, both included.
fn way_back(from: &str, to: &str, calls: &BTreeMap<&str, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    let mut next = 0;
    while next < ways.len() {
        let way = ways[next].clone();
        next += 1;
        let last = way.last()?;
        if last == to {
            return Some(way);
        }
        if !seen.insert(last.clone()) {
            continue;
        }
        for called in calls.get(last.as_str()).into_iter().flatten() {
            let mut further = way.clone();
            further.push(called.clone());
            ways.push(further);
        }
    }
    None
}
