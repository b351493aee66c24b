//! A tool's script: the files that it may import, and the question to the engine whether it can run. Does not know the
//! engine itself.

use super::Source;
use super::directory::{self, File, ScriptFiles, ToolFiles};
use crate::artifact::{HandlerCode, ScriptFile};
use crate::guide;
use crate::problem::{NOTHING_TO_DO, Problem, Severity};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use windlass_contract::envelope::{self, RESPONSE_VERSION, RESPONSE_VERSION_BEFORE};

/// Judges whether a script can run. The engine does this; the compiler does not know the engine.
pub trait ScriptJudge: Debug {
    fn judge(&self, script: &ScriptSources<'_>) -> ScriptVerdict;
}

/// A script before it is judged.
#[derive(Clone, Copy, Debug)]
pub struct ScriptSources<'a> {
    /// The path of its file from the folder of the tools.
    pub entry: &'a str,
    /// The script's file and every file that it may import, by their paths from the folder of the tools.
    pub modules: &'a BTreeMap<String, Arc<str>>,
}

/// The engine's judgement of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptVerdict {
    /// The files that the script is made of.
    pub used: Vec<String>,
    /// Empty if the script can run.
    pub flaws: Vec<ScriptFlaw>,
    /// The version of the response contract that the script declares.
    pub response_version: Option<String>,
}

/// A reason why a script cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFlaw {
    /// From the folder of the tools.
    pub file: String,
    /// From 1; `None` where no single line is to blame.
    pub line: Option<usize>,
    pub column: Option<usize>,
    pub message: String,
    pub cure: String,
}

/// The code of a tool whose handler is this script. `None` where there is a problem.
pub(super) fn read(
    files: &ToolFiles,
    (name, handler): (&str, &File),
    source: &Source<'_>,
    shared: &ScriptFiles,
    problems: &mut Vec<Problem>,
) -> Option<HandlerCode> {
    let mut flaw = |file: String, place: (Option<usize>, Option<usize>), message, cure| {
        problems.push(Problem {
            file,
            line: place.0,
            column: place.1,
            severity: Severity::Error,
            tool: Some(files.name.clone()),
            message,
            cure,
        });
    };
    let Some(judge) = source.judge else {
        flaw(
            files.path(name),
            (None, None),
            "this build cannot run scripts".to_owned(),
            "build the program with its script engine, or write the handler another way".to_owned(),
        );
        return None;
    };
    let entry = format!("{}/{name}", files.folder());
    let (mut modules, mut is_whole) = (BTreeMap::new(), true);
    let imported = files.scripts.iter().chain(shared);
    for (path, file) in imported.chain([(&entry, handler)]) {
        match file {
            File::Text(text) => {
                modules.insert(path.clone(), Arc::from(guide::normalise(text)));
            }
            File::Missing => {}
            File::Unreadable => is_whole = false,
        }
    }
    // A file that could not be read was reported already; it would be reported again as a missing import.
    if !is_whole {
        return None;
    }
    let verdict = judge.judge(&ScriptSources {
        entry: &entry,
        modules: &modules,
    });
    let mut is_good = verdict.flaws.is_empty();
    for found in verdict.flaws {
        let file = source.tools.join(&found.file).display().to_string();
        flaw(file, (found.line, found.column), found.message, found.cure);
    }
    if let Some(version) = &verdict.response_version {
        let is_read = envelope::is_read(version);
        is_good &= is_read;
        let version: String = version.chars().take(40).collect();
        let (severity, cure) = match is_read {
            true => (
                Severity::Note,
                format!(
                    "{NOTHING_TO_DO} this program reads {RESPONSE_VERSION} and {RESPONSE_VERSION_BEFORE}"
                ),
            ),
            false => (
                Severity::Error,
                format!(
                    "return what {RESPONSE_VERSION} says, and export that as `responseSchemaVersion`"
                ),
            ),
        };
        problems.push(Problem {
            file: files.path(name),
            line: None,
            column: None,
            severity,
            tool: Some(files.name.clone()),
            message: format!("the handler speaks response version {version:?}"),
            cure,
        });
    }
    let script_file = |path: &str| {
        let module = modules.get(path)?.clone();
        let file = source.tools.join(path);
        Some(ScriptFile::new(
            directory::relative(source.artifact, &file),
            module,
        ))
    };
    let used = verdict.used.iter().filter(|path| **path != entry);
    is_good.then_some(())?;
    Some(HandlerCode::Script {
        entry: script_file(&entry)?,
        modules: used.filter_map(|path| script_file(path)).collect(),
    })
}
