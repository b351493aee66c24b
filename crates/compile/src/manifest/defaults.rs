//! The defaults for fields that a `schema.json` leaves out: always the safe ones. A tool that writes asks for consent, and counts as not
//! repeatable, unless its author says otherwise. Knows no other file.

use super::Readable;
use crate::problem::Report;
use serde::Serialize;
use serde_json::{Map, Value, json};
use windlass_contract::id::ToolId;
use windlass_contract::kind::{Category, Mode, SideEffects};
use windlass_contract::wording::brief;

const VERSION: &str = "1.0.0";
/// Milliseconds.
const LATENCY_BUDGET_MS: u64 = 1_000;

/// The tool's name and version by the folders around its file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    /// The tool's directory.
    pub(crate) tool: &'a str,
    /// The version's directory; `None` for the files in the tool's own directory.
    pub(crate) version: Option<&'a str>,
}

/// A field that the file leaves out, and its default.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldDefault {
    pub field: &'static str,
    pub value: Value,
}

/// Fills in the defaults of missing fields. A field that is present and could not be read stays unread.
pub(super) fn fill(
    readable: &mut Readable,
    object: &Map<String, Value>,
    named: Named<'_>,
    report: &mut Report<'_>,
) {
    let mut defaults = Defaults {
        object,
        taken: Vec::new(),
    };
    if defaults.is_left_out("toolId") {
        readable.tool_id = ToolId::parse(&named.tool.replace('-', "_"));
        match &readable.tool_id {
            Some(id) => defaults.took("toolId", json!(id.as_str())),
            None => report.error(
                "",
                format!("the directory `{}` gives the tool no id", brief(named.tool)),
                "name the directory in lower-case letters, digits and hyphens, a letter first",
            ),
        }
    }
    let version = named.version.unwrap_or(VERSION).to_owned();
    defaults.fill("version", &mut readable.version, version);
    // Without `sideEffects` the safe defaults are unknown.
    if let Some(side_effects) = readable.side_effects {
        let writes = side_effects == SideEffects::Writes;
        let category = match writes {
            true => Category::Action,
            false => Category::Utility,
        };
        defaults.fill("category", &mut readable.category, category);
        defaults.fill("idempotent", &mut readable.idempotent, !writes);
        defaults.fill(
            "requiresConfirmation",
            &mut readable.requires_confirmation,
            writes,
        );
    }
    let modes = vec![Mode::Text, Mode::Voice];
    defaults.fill("allowedModes", &mut readable.allowed_modes, modes);
    defaults.fill(
        "latencyBudgetMs",
        &mut readable.latency_budget_ms,
        LATENCY_BUDGET_MS,
    );
    readable.defaults = defaults.taken;
}

struct Defaults<'o> {
    object: &'o Map<String, Value>,
    taken: Vec<FieldDefault>,
}

impl Defaults<'_> {
    fn is_left_out(&self, field: &str) -> bool {
        !self.object.contains_key(field)
    }

    fn took(&mut self, field: &'static str, value: Value) {
        self.taken.push(FieldDefault { field, value });
    }

    fn fill<T: Serialize>(&mut self, field: &'static str, place: &mut Option<T>, value: T) {
        if self.is_left_out(field) {
            self.took(field, json!(value));
            *place = Some(value);
        }
    }
}
