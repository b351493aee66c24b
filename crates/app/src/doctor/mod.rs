//! Looks for obstacles of an agent: keys, folders, ports, weights, clock, certificates, proxies and tools. Names each problem and its
//! fix; changes nothing.

mod built_in_services;
mod machine;
mod services;

use crate::knowledge::vocabularies_of_folder;
use crate::toolbox::{self, ARTIFACT_FILE, Handlers};
use crate::unset;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass_compile::problem::Severity;
use windlass_config::Config;

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Good,
    /// Worth knowing, but no obstacle.
    Note,
    Wrong,
}

/// The finding of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The name of the check, in a word.
    pub(crate) check: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) what: String,
    /// The fix; `None` where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cure: Option<String>,
}

impl Finding {
    fn good(check: &'static str, what: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Good,
            what: what.into(),
            cure: None,
        }
    }

    fn note(check: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Note,
            what: what.into(),
            cure: Some(cure.into()),
        }
    }

    fn wrong(check: &'static str, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            check,
            verdict: Verdict::Wrong,
            what: what.into(),
            cure: Some(cure.into()),
        }
    }
}

/// The subject of an examination, and its limits.
pub(crate) struct Examination<'a> {
    pub(crate) config: &'a Arc<Config>,
    pub(crate) handlers: &'a Handlers,
    /// How long a service may take for its answer.
    pub(crate) patience: Duration,
}

/// Everything that was found, the services first.
pub(crate) async fn examine(examination: &Examination<'_>) -> Vec<Finding> {
    let Examination {
        config, patience, ..
    } = examination;
    let asked = services::ask_all(config, *patience).await;
    let mut findings = asked.findings;
    findings.push(machine::clock(&asked.clocks));
    findings.push(machine::roots(config));
    findings.push(machine::proxies());
    findings.push(machine::port(config, *patience).await);
    findings.extend(machine::folders(config));
    findings.push(machine::weights(config));
    findings.push(registry(examination));
    let unset = unset::all(config).into_iter();
    findings.extend(unset.map(|unset| Finding::note("variables", unset.what(), unset.cure())));
    findings
}

/// Whether the tools can be built.
fn registry(examination: &Examination<'_>) -> Finding {
    const CHECK: &str = "registry";
    let Examination {
        config, handlers, ..
    } = examination;
    let tools = &*config.folders.tools;
    if let Err(failure) = toolbox::expect_tools(config) {
        return Finding::wrong(
            CHECK,
            failure.line().unwrap_or_default(),
            "run windlass init in an empty folder, or name the folder of tools with --tools",
        );
    }
    let artifact = config.folders.data.join(ARTIFACT_FILE);
    let compilation =
        toolbox::compile(config, &artifact, handlers, &vocabularies_of_folder(config));
    let shown = |folder: &Path| folder.display().to_string();
    match &compilation.artifact {
        Some(artifact) => Finding::good(
            CHECK,
            format!(
                "{} tools in {}, version {}",
                artifact.tool_ids().count(),
                shown(tools),
                artifact.version()
            ),
        ),
        None => {
            let errors = compilation.count(Severity::Error);
            let mut all = compilation.problems.iter();
            let first = all.find(|problem| problem.severity == Severity::Error);
            let first =
                first.map_or_else(String::new, |problem| format!(", the first is {problem}"));
            Finding::wrong(
                CHECK,
                format!(
                    "the tools in {} cannot be built: errors: {errors}{first}",
                    shown(tools)
                ),
                "windlass check names every one with its line",
            )
        }
    }
}
