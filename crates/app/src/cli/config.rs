//! `windlass config`: prints the effective configuration.

use super::{ConfigArguments, load};
use crate::failure::Failure;
use crate::printer::Printer;

pub(super) fn run(arguments: &ConfigArguments) -> Result<(), Failure> {
    let loaded = load(&arguments.file, arguments.flags.keys())?;
    Printer.result(loaded.to_toml().trim_end());
    Ok(())
}
