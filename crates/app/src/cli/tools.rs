//! `windlass tools`: the project's tools, the built-in ones that it has not, the requirements of each, and those that are missing.

use super::{ToolsArguments, flags, load_config};
use crate::failure::Failure;
use crate::knowledge::vocabularies_of_folder;
use crate::printer::{Format, Printer};
use crate::project::Extra;
use crate::toolbox::{self, ARTIFACT_FILE, Handlers};
use serde_json::{Value, json};
use std::sync::Arc;
use windlass_config::Config;
use windlass_contract::version::Version;

/// A tool as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    id: String,
    modes: Vec<String>,
    writes: bool,
    asks: bool,
    kind: String,
    version: String,
    /// The versions beside that one, the lowest first.
    others: Vec<String>,
    /// The group by which `tool add` names it; built-in tools of every project have none.
    extra: Option<Extra>,
    is_on: bool,
}

pub(super) fn run(arguments: &ToolsArguments, handlers: &Handlers) -> Result<(), Failure> {
    let flags = flags([
        ("--tools", "folders.tools", &arguments.tools),
        ("--kb", "folders.knowledge", &arguments.kb),
    ]);
    let config = Arc::new(load_config(&arguments.file, flags)?);
    toolbox::expect_tools(&config)?;
    let artifact = config.folders.data.join(ARTIFACT_FILE);
    let vocabularies = vocabularies_of_folder(&config);
    let compilation = toolbox::compile(&config, &artifact, handlers, &vocabularies);
    let Some(artifact) = compilation.artifact else {
        return Err(Failure::Failed(
            "the tools have errors; windlass check names them".to_owned(),
        ));
    };
    let artifact: Value = serde_json::from_slice(&artifact.to_json()).map_err(Failure::of)?;
    let mut tools: Vec<Listed> = Vec::new();
    for manifest in artifact["tools"].as_array().into_iter().flatten() {
        let tool = listed(manifest, true);
        // The current version stands before the others.
        match tools.last_mut().filter(|last| last.id == tool.id) {
            Some(current) => current.others.push(tool.version),
            None => tools.push(tool),
        }
    }
    tools.extend(off(&tools));
    match Printer.format() {
        Format::Text => print_text(&tools, &config),
        Format::Json => {
            let tools: Vec<Value> = tools.iter().map(|tool| as_json(tool, &config)).collect();
            Printer.result(&json!({ "tools": tools }).to_string());
        }
    }
    Ok(())
}

/// The built-in tools that are not among these.
fn off(on: &[Listed]) -> Vec<Listed> {
    let schemas = Extra::ALL.into_iter().flat_map(Extra::schemas);
    let schemas = schemas.filter_map(|schema| serde_json::from_str::<Value>(schema).ok());
    let tools = schemas.map(|schema| listed(&schema, false));
    tools
        .filter(|tool| on.iter().all(|known| known.id != tool.id))
        .collect()
}

/// Reads a manifest, or a schema as it is written.
fn listed(manifest: &Value, is_on: bool) -> Listed {
    let id = manifest["toolId"].as_str().unwrap_or_default().to_owned();
    let modes = manifest["allowedModes"].as_array();
    let modes: Vec<String> = match modes {
        Some(modes) => modes
            .iter()
            .filter_map(|mode| mode.as_str().map(str::to_owned))
            .collect(),
        None => vec!["text".to_owned(), "voice".to_owned()],
    };
    let kind = match manifest["handler"]["kind"].as_str() {
        Some(kind) => kind.to_owned(),
        None => "builtin".to_owned(),
    };
    let extra = Extra::of_tool(&id).filter(|_| kind == "builtin");
    Listed {
        writes: manifest["sideEffects"] == "writes",
        asks: manifest["requiresConfirmation"] == true,
        id,
        modes,
        kind,
        version: manifest["version"].as_str().unwrap_or("1.0.0").to_owned(),
        others: Vec::new(),
        extra,
        is_on,
    }
}

/// The setting that an active tool still needs.
fn missing(tool: &Listed, config: &Config) -> Option<&'static str> {
    match tool.extra.filter(|_| tool.is_on)? {
        Extra::Search => config.search.lacks(),
        // Drafts and pictures that there are need no service.
        Extra::Images if tool.id == "image_generate" => config.images.lacks(),
        _ => None,
    }
}

fn print_text(tools: &[Listed], config: &Config) {
    let width = tools.iter().map(|tool| tool.id.len()).max().unwrap_or(0);
    for tool in tools {
        let does = match (tool.writes, tool.asks) {
            (true, true) => "writes, asks first",
            (true, false) => "writes",
            (false, true) => "reads, asks first",
            (false, false) => "reads",
        };
        let note = match (missing(tool, config), tool.extra, tool.is_on) {
            (Some(missing), _, _) => missing.to_owned(),
            (None, Some(extra), true) => format!("needs {}", extra.needs()),
            (None, Some(extra), false) => {
                let needs = extra.needs();
                format!("needs {needs}; windlass tool add {}", extra.name())
            }
            (None, None, _) if tool.kind == "builtin" => "built in".to_owned(),
            (None, None, _) => format!("of this project, {}", tool.kind),
        };
        let note = match versions(tool, config) {
            Some(versions) => format!("{note}; {versions}"),
            None => note,
        };
        Printer.result(&format!(
            "{}  {:<width$}  {:<11}  {does:<18}  {note}",
            if tool.is_on { "on " } else { "off" },
            tool.id,
            tool.modes.join(", "),
        ));
    }
}

/// The versions of a tool that has several, and which users get each.
fn versions(tool: &Listed, config: &Config) -> Option<String> {
    if tool.others.is_empty() {
        return None;
    }
    let rules = config.rollouts.get(tool.id.as_str());
    let rest = rules.and_then(|rules| rules.version.as_ref());
    let rest = rest.map_or(tool.version.as_str(), Version::as_str);
    let named = [&tool.version]
        .into_iter()
        .chain(&tool.others)
        .map(|version| {
            let of_version = Version::parse(version);
            let recipients = rules.zip(of_version);
            let recipients = recipients.and_then(|(rules, version)| rules.versions.get(&version));
            let mut who = Vec::new();
            if let Some(recipients) = recipients {
                for (count, noun) in [
                    (recipients.users.len(), "user"),
                    (recipients.roles.len(), "role"),
                    (recipients.tenants.len(), "tenant"),
                ] {
                    match count {
                        0 => {}
                        1 => who.push(format!("1 {noun}")),
                        count => who.push(format!("{count} {noun}s")),
                    }
                }
                if recipients.percent > 0 {
                    who.push(format!("{} %", recipients.percent));
                }
            }
            if *version == rest {
                who.push("everybody else".to_owned());
            }
            match who.is_empty() {
                true => format!("{version} for nobody"),
                false => format!("{version} for {}", who.join(", ")),
            }
        });
    Some(format!("versions {}", named.collect::<Vec<_>>().join("; ")))
}

fn as_json(tool: &Listed, config: &Config) -> Value {
    json!({
        "id": tool.id,
        "on": tool.is_on,
        "version": tool.version,
        "otherVersions": tool.others,
        "modes": tool.modes,
        "sideEffects": if tool.writes { "writes" } else { "read_only" },
        "requiresConfirmation": tool.asks,
        "kind": tool.kind,
        "with": tool.extra.map(Extra::name),
        "needs": tool.extra.map(Extra::needs),
        "missing": missing(tool, config),
    })
}
