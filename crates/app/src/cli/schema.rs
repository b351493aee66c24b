//! `windlass schema`: the JSON Schemas of the files that people write, for their editors.

use super::{SchemaArguments, SchemaName};
use crate::failure::Failure;
use crate::printer::Printer;
use windlass_compile::published;

pub(super) fn run(arguments: &SchemaArguments) -> Result<(), Failure> {
    let text = match arguments.name {
        SchemaName::Tool => published::TOOL.to_owned(),
        SchemaName::Handler => published::HANDLER.to_owned(),
        SchemaName::Config => {
            serde_json::to_string_pretty(&windlass_config::schema()).map_err(Failure::of)?
        }
    };
    Printer.result(text.trim_end());
    Ok(())
}
