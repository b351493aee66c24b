//! Variables that the configuration wants passed on to programs, and that the environment of this process lacks. Changes nothing.

use std::fmt;
use windlass_config::{Config, McpName};

/// A program starts without this variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsetVariable {
    /// `mcp.docs`, or `tools.pay`.
    section: String,
    name: String,
}

impl UnsetVariable {
    pub(crate) fn what(&self) -> String {
        let Self { section, name } = self;
        format!("{section}.env names {name}, which is not set, and the program starts without it")
    }

    pub(crate) fn cure(&self) -> String {
        let Self { section, name } = self;
        format!(
            "set it in the environment of windlass, as in {name}=… windlass serve, or take it out of {section}.env"
        )
    }
}

impl fmt::Display for UnsetVariable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}; {}", self.what(), self.cure())
    }
}

/// The unset variables of all programs.
pub(crate) fn all(config: &Config) -> Vec<UnsetVariable> {
    let sections = config.passed_variables().into_iter();
    let variables = sections.flat_map(|(section, names)| {
        let of_section = move |name| UnsetVariable {
            section: section.clone(),
            name,
        };
        names.into_iter().map(of_section)
    });
    variables
        .filter(|variable| std::env::var_os(&variable.name).is_none())
        .collect()
}

/// The unset variables of one MCP server.
pub(crate) fn of_server(config: &Config, server: &McpName) -> Vec<UnsetVariable> {
    let section = format!("mcp.{}", server.as_str());
    let mut variables = all(config);
    variables.retain(|variable| variable.section == section);
    variables
}
