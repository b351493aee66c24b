//! The JSON Schemas of the files that authors of tools write, for their editors, and the member by which a file names its schema. They
//! accept all that the compiler accepts, and more: only the compiler knows the rules between fields.

use crate::problem::Report;
use serde_json::{Map, Value};
use windlass_contract::wording::kind_of;

/// The schema of `schema.json`.
pub const TOOL: &str = include_str!("published/tool.json");
/// The schema of `handler.json`.
pub const HANDLER: &str = include_str!("published/handler.json");

/// The member in which a file names the schema for its editor. Nothing else reads it.
pub const MEMBER: &str = "$schema";

pub(crate) fn check_member(object: &Map<String, Value>, report: &mut Report<'_>) {
    if let Some(value) = object.get(MEMBER).filter(|value| !value.is_string()) {
        report.error(
            "/$schema",
            format!("`$schema` is {}, not a string", kind_of(value)),
            "write where the schema is that your editor reads, or leave it out",
        );
    }
}
