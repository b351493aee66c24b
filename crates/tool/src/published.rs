//! The JSON Schemas of the files that authors of tools write, for their editors, and the member by which a file names its schema. What
//! they accept is more than what the compiler takes and never less: it alone knows the rules between fields.

use crate::problem::Report;
use crate::wording::kind_of;
use serde_json::{Map, Value};

/// Of `schema.json`.
pub const TOOL: &str = include_str!("published/tool.json");
/// Of `handler.json`.
pub const HANDLER: &str = include_str!("published/handler.json");

/// Where a file says which schema an editor is to judge it by. Nothing else reads it.
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
