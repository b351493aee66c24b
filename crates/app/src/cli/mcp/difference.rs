//! `windlass mcp diff`: compares the servers' tools with the imported ones, and takes changes up on demand.

use super::super::import::{counted, leave_out_what_does_not_compile, step_done, write};
use super::super::{expect_network, flags, load_config};
use super::{DiffArguments, offering};
use crate::failure::Failure;
use crate::printer::Printer;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use windlass_config::{Config, McpName};
use windlass_import::folder::{self, Step};
use windlass_import::mcp::{source, tool_of};
use windlass_import::{Imported, LeftOut, ToolDirectory};

pub(super) fn run(arguments: &DiffArguments) -> Result<(), Failure> {
    let set = flags([("--tools", "folders.tools", &arguments.tools)]);
    let config = load_config(&arguments.file, set)?;
    expect_network()?;
    let imported = imported_tools(&config.folders.tools);
    let names = match &arguments.server {
        Some(name) => {
            let known = McpName::try_from(name.clone()).ok();
            if !known.is_some_and(|name| config.mcp.contains_key(&name)) {
                return Err(Failure::Usage(format!(
                    "there is no MCP server {name} in the configuration"
                )));
            }
            BTreeSet::from([name.clone()])
        }
        None => imported.keys().cloned().collect(),
    };
    let mut differences = Vec::new();
    for name in &names {
        let nothing = BTreeMap::new();
        let tools = imported.get(name).unwrap_or(&nothing);
        let offering = offering(&config, name)
            .map_err(|cause| Failure::Failed(format!("{name} cannot be compared: {cause}")))?;
        differences.push(Difference::of(&config, name, tools, &offering.definitions)?);
    }
    let changes: usize = differences.iter().map(Difference::changes).sum();
    for difference in &differences {
        difference.print();
    }
    if changes > 0 && !arguments.accept {
        return Err(Failure::Failed(format!(
            "{}; none of them is run: read the changes, then take them up with --accept",
            counted(
                changes,
                "tool is other than it was imported",
                "tools are others than they were imported"
            ),
        )));
    }
    for difference in &differences {
        difference.take_up(&config.folders.tools)?;
    }
    let text = match changes {
        0 => counted(
            differences
                .iter()
                .map(|difference| difference.steps.len())
                .sum(),
            "tool as it was imported",
            "tools as they were imported",
        ),
        changes => format!(
            "{} taken up; read each schema.json, then write \"reviewed\": true into handler.json",
            counted(changes, "change", "changes")
        ),
    };
    let servers: Vec<Value> = differences.iter().map(Difference::as_json).collect();
    Printer.outcome(&text, &json!({ "servers": servers }));
    Ok(())
}

/// For each server the directories of its imported tools, by the server's names for them.
type ImportedTools = BTreeMap<String, BTreeMap<String, String>>;

fn imported_tools(tools: &Path) -> ImportedTools {
    let mut imported = ImportedTools::new();
    let entries = std::fs::read_dir(tools).into_iter().flatten().flatten();
    for entry in entries {
        let directory = entry.file_name().to_string_lossy().into_owned();
        if directory.starts_with(['.', '_']) {
            continue;
        }
        let text = std::fs::read_to_string(entry.path().join("handler.json"));
        let handler = text
            .ok()
            .and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let Some(handler) = handler.filter(|handler| handler["kind"] == "mcp") else {
            continue;
        };
        if let (Some(server), Some(tool)) = (handler["server"].as_str(), handler["tool"].as_str()) {
            let of_server = imported.entry(server.to_owned()).or_default();
            of_server.insert(tool.to_owned(), directory);
        }
    }
    imported
}

/// The changes of a server since its import.
struct Difference {
    server: String,
    imported: Imported,
    steps: Vec<Step>,
    /// Directories of tools that it lists no more, or twice, with their names there.
    gone: BTreeMap<String, String>,
    /// Tools that were never imported.
    others: usize,
}

impl Difference {
    fn of(
        config: &Config,
        server: &str,
        tools: &BTreeMap<String, String>,
        definitions: &[Map<String, Value>],
    ) -> Result<Self, Failure> {
        let mut listed: BTreeMap<&str, Vec<&Map<String, Value>>> = BTreeMap::new();
        for definition in definitions {
            if let Some(name) = definition.get("name").and_then(Value::as_str) {
                listed.entry(name).or_default().push(definition);
            }
        }
        let mut imported = Imported {
            source: source(server),
            ..Imported::default()
        };
        let mut gone = BTreeMap::new();
        for (name, directory) in tools {
            let id = directory.replace('-', "_");
            match listed.get(name.as_str()).map(Vec::as_slice) {
                Some([definition]) => match tool_of(server, definition, &id) {
                    Ok(tool) => imported.tools.push(tool),
                    Err(reason) => imported.left_out.push(LeftOut {
                        origin: name.clone(),
                        reason,
                    }),
                },
                Some(_) | None => {
                    gone.insert(directory.clone(), name.clone());
                }
            }
        }
        leave_out_what_does_not_compile(config, &mut imported)?;
        let folder = &config.folders.tools;
        let steps = imported.tools.iter();
        let steps = steps.map(|tool| folder::step(folder, &imported.source, tool));
        let steps: Result<Vec<Step>, _> = steps.collect();
        let others = listed.keys().filter(|name| !tools.contains_key(**name));
        Ok(Self {
            server: server.to_owned(),
            steps: steps.map_err(Failure::of)?,
            others: others.count(),
            imported,
            gone,
        })
    }

    fn tools(&self) -> impl Iterator<Item = (&ToolDirectory, &Step)> {
        self.imported.tools.iter().zip(&self.steps)
    }

    fn changes(&self) -> usize {
        let changed = self.steps.iter().filter(|step| **step != Step::Unchanged);
        changed.count() + self.gone.len() + self.imported.left_out.len()
    }

    fn print(&self) {
        for (tool, step) in self.tools() {
            match step {
                Step::Unchanged => {}
                Step::Changed(differences) => {
                    for difference in differences {
                        Printer.problem(&format!("changed: {}: {difference}", tool.name()));
                    }
                }
                Step::New | Step::Foreign => Printer.problem(&format!(
                    "unknown: {}: nothing says how it was imported",
                    tool.name()
                )),
            }
        }
        for (directory, name) in &self.gone {
            Printer.problem(&format!(
                "gone: {directory}: {} does not list one tool {name} any more",
                self.server
            ));
        }
        for LeftOut { origin, reason } in &self.imported.left_out {
            Printer.problem(&format!(
                "changed: {origin}: it can be no tool any more: {reason}"
            ));
        }
        if self.others > 0 {
            Printer.hint(&format!(
                "{}: {} not imported",
                self.server,
                counted(self.others, "tool is", "tools are")
            ));
        }
    }

    fn take_up(&self, tools: &Path) -> Result<(), Failure> {
        for name in self.gone.keys() {
            let path = folder::set_aside(tools, name).map_err(Failure::of)?;
            step_done(&format!("set aside {}", path.display()));
        }
        let changed = self.tools().filter(|(_, step)| **step != Step::Unchanged);
        let changed: Vec<_> = changed.map(|(tool, step)| (tool, step.clone())).collect();
        write(tools, &self.imported.source, &changed)?;
        Ok(())
    }

    fn as_json(&self) -> Value {
        let changed = self.tools().filter_map(|(tool, step)| match step {
            Step::Changed(differences) => Some(json!({
                "toolId": tool.id,
                "differences": differences,
            })),
            Step::Unchanged | Step::New | Step::Foreign => None,
        });
        json!({
            "server": self.server,
            "changed": changed.collect::<Vec<_>>(),
            "gone": self.gone.keys().collect::<Vec<_>>(),
            "notImported": self.others,
        })
    }
}
