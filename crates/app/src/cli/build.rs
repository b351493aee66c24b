//! `windlass build` and `windlass check`: compiles the tools and says everything that is wrong with any of them.

use super::{BuildArguments, CheckArguments, flags, load_config};
use crate::failure::Failure;
use crate::knowledge::vocabularies_of_folder;
use crate::printer::{Format, Loudness, Printer};
use crate::toolbox::{self, ARTIFACT_FILE, Handlers};
use crate::unset;
use crate::watch;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_compile::artifact::write_artifact;
use windlass_compile::problem::{Problem, Severity};
use windlass_compile::{Compilation, Configured, ExampleConsent, FieldDefault, configured};
use windlass_config::Config;

pub(super) fn run(arguments: &BuildArguments, handlers: &Handlers) -> Result<(), Failure> {
    let flags = flags([
        ("--tools", "folders.tools", &arguments.tools),
        ("--kb", "folders.knowledge", &arguments.kb),
    ]);
    let config = Arc::new(load_config(&arguments.file, flags)?);
    let usual = config.folders.data.join(ARTIFACT_FILE);
    let path = arguments.out.clone().unwrap_or(usual);
    let compilation = compile(&config, &path, handlers)?;
    if let Some(artifact) = &compilation.artifact {
        write_artifact(artifact, &path)
            .map_err(|error| Failure::Failed(format!("{error}; name another file with --out")))?;
    }
    let configured = in_configuration(&compilation, &config);
    finish(&compilation, &configured, Some(&path))
}

pub(super) fn check(arguments: &CheckArguments, handlers: &Handlers) -> Result<(), Failure> {
    let flags = flags([
        ("--tools", "folders.tools", &arguments.tools),
        ("--kb", "folders.knowledge", &arguments.kb),
    ]);
    let config = Arc::new(load_config(&arguments.file, flags)?);
    let path: PathBuf = config.folders.data.join(ARTIFACT_FILE);
    let check = || {
        let mut compilation = compile(&config, &path, handlers)?;
        let mut configured = in_configuration(&compilation, &config);
        // The server would refuse it, too.
        compilation.problems.append(&mut configured.problems);
        if compilation.count(Severity::Error) > 0 {
            compilation.artifact = None;
        }
        check_rollouts(&config, &mut compilation);
        check_variables(&config, &mut compilation);
        finish(&compilation, &configured, None)
    };
    if !arguments.watch {
        return check();
    }
    let checked = watch::at_each_change(&config.folders.tools, || {
        if let Err(failure) = check()
            && let Some(line) = failure.line()
        {
            Printer.problem(&line);
        }
    });
    checked.map_err(Failure::of)
}

/// A server whose configuration names versions that there are not would not start.
fn check_rollouts(config: &Config, compilation: &mut Compilation) {
    let artifact = compilation.artifact.take();
    let checked = artifact.map(|artifact| {
        let checked = artifact.check_rollouts(&config.rollouts);
        checked.map(|()| artifact)
    });
    match checked.transpose() {
        Ok(artifact) => compilation.artifact = artifact,
        Err(error) => compilation.problems.push(Problem {
            file: windlass_config::FILE_NAME.to_owned(),
            line: None,
            column: None,
            severity: Severity::Error,
            tool: None,
            message: error.to_string(),
            cure: "mend what the configuration says of the tool".to_owned(),
        }),
    }
}

/// A program may do without, so that this is a warning.
fn check_variables(config: &Config, compilation: &mut Compilation) {
    let unset = unset::all(config).into_iter();
    compilation.problems.extend(unset.map(|unset| Problem {
        file: windlass_config::FILE_NAME.to_owned(),
        line: None,
        column: None,
        severity: Severity::Warning,
        tool: None,
        message: unset.what(),
        cure: unset.cure(),
    }));
}

fn compile(
    config: &Arc<Config>,
    artifact: &Path,
    handlers: &Handlers,
) -> Result<Compilation, Failure> {
    if artifact.file_name().is_none() {
        let shown = artifact.display();
        return Err(Failure::Usage(format!("--out {shown} names no file")));
    }
    let vocabularies = vocabularies_of_folder(config);
    Ok(toolbox::compile(config, artifact, handlers, &vocabularies))
}

/// The tools as the configuration has them, where all of them compile.
fn in_configuration(compilation: &Compilation, config: &Config) -> Configured {
    let artifact = compilation.artifact.as_ref();
    let of = |artifact| configured(artifact, &config.condition_facts, &config.tightenings);
    artifact.map(of).unwrap_or_default()
}

/// Prints the findings. `written` is the path of the artifact, if one was to be written.
fn finish(
    compilation: &Compilation,
    configured: &Configured,
    written: Option<&Path>,
) -> Result<(), Failure> {
    let written = written.filter(|_| compilation.artifact.is_some());
    let format = Printer.format();
    match format {
        Format::Text => print_text(compilation, configured, written),
        Format::Json => print_json(compilation, configured, written),
    }
    match compilation.artifact {
        Some(_) => Ok(()),
        None if format == Format::Json => Err(Failure::Said),
        None => {
            let errors = counted(compilation.count(Severity::Error), "error");
            Err(Failure::Failed(format!(
                "{errors} in the tools; nothing was written"
            )))
        }
    }
}

fn print_text(compilation: &Compilation, configured: &Configured, written: Option<&Path>) {
    for problem in &compilation.problems {
        Printer.finding(problem);
    }
    let Some(artifact) = &compilation.artifact else {
        return;
    };
    let verb = match written {
        Some(path) => format!("wrote {}", path.display()),
        None => "checked".to_owned(),
    };
    let is_hidden = Printer.manner().loudness < Loudness::Verbose
        && compilation.problems.iter().any(Problem::asks_nothing);
    Printer.result(&format!(
        "{verb}: {}, version {}, {}, {}{}",
        counted(artifact.tool_ids().count(), "tool"),
        artifact.version(),
        counted(compilation.count(Severity::Warning), "warning"),
        counted(compilation.count(Severity::Note), "note"),
        if is_hidden { " (-v shows all)" } else { "" },
    ));
    if written.is_some() || Printer.manner().loudness == Loudness::Quiet {
        return;
    }
    for (tool, versions) in artifact.versions() {
        Printer.result(&format!(
            "{tool}: version {} is the current one, beside {}",
            versions[0],
            versions[1..].join(", ")
        ));
    }
    for (tool, defaults) in &compilation.defaults {
        let shown = |default: &FieldDefault| format!("{} {}", default.field, plain(&default.value));
        let shown: Vec<String> = defaults.iter().map(shown).collect();
        Printer.result(&format!("{tool}: by default {}", shown.join(", ")));
    }
    for (tool, examples) in &configured.consents {
        Printer.result(&format!("{tool}: the examples of its guide come to"));
        for example in examples {
            Printer.result(&format!("  {}", consent_of(example)));
        }
    }
    for (tool, words) in artifact.remembers() {
        Printer.result(&format!(
            "{tool}: an approval may be remembered for {words}"
        ));
    }
    for (tool, arguments) in artifact.keys() {
        Printer.result(&format!("{tool}: calls that mean one change are known by"));
        for (name, compared) in arguments {
            Printer.result(&format!("  {name}: {compared}"));
        }
    }
}

/// Which users an example asks for consent.
fn consent_of(example: &ExampleConsent) -> String {
    let (anonymous, signed_in) = (&example.anonymous, &example.signed_in);
    let outcome = match anonymous == signed_in {
        true => anonymous.clone(),
        false => format!("{anonymous} if the user has not signed in, else {signed_in}"),
    };
    format!("{}: {outcome}", example.arguments)
}

/// A value as people write it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" and "),
        other => other.to_string(),
    }
}

fn print_json(compilation: &Compilation, configured: &Configured, written: Option<&Path>) {
    let artifact = compilation.artifact.as_ref();
    let report = json!({
        "ok": artifact.is_some(),
        "artifact": written.map(|path| path.display().to_string()),
        "version": artifact.map(|artifact| artifact.version()),
        "tools": artifact.map(|artifact| artifact.tool_ids().map(|id| id.as_str()).collect::<Vec<_>>()),
        "versions": artifact.map(|artifact| artifact.versions()),
        "effectKeys": artifact.map(|artifact| {
            let keys = artifact.keys().map(|(tool, arguments)| {
                let arguments: BTreeMap<String, String> = arguments.into_iter().collect();
                (tool, arguments)
            });
            keys.collect::<BTreeMap<_, _>>()
        }),
        "defaults": artifact.map(|_| {
            let defaults = compilation.defaults.iter().map(|(tool, defaults)| {
                let fields = defaults.iter().map(|default| (default.field, &default.value));
                (tool.as_str(), fields.collect::<BTreeMap<_, _>>())
            });
            defaults.collect::<BTreeMap<_, _>>()
        }),
        "consent": artifact.map(|_| &configured.consents),
        "remember": artifact.map(|artifact| {
            let remembers = artifact.remembers();
            remembers.map(|(tool, words)| (tool.to_string(), words)).collect::<BTreeMap<_, _>>()
        }),
        "problems": compilation.problems,
    });
    Printer.result(&report.to_string());
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
