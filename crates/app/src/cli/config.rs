//! `windlass config`: prints the effective configuration.

use super::{ConfigArguments, expect_folders, load};
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use serde_json::{Value, json};
use windlass_config::LogLevel;

pub(super) fn run(arguments: &ConfigArguments) -> Result<(), Failure> {
    arguments.flags.check()?;
    let keys = [arguments.place.keys(), arguments.flags.keys()].concat();
    expect_folders(&keys)?;
    let loaded = load(&arguments.file, keys, LogLevel::Info)?;
    match Printer.format() {
        Format::Text => Printer.result(loaded.to_toml().trim_end()),
        Format::Json => {
            let values = loaded.values().into_iter();
            let values = values
                .map(|(key, (value, origin))| (key, json!({ "value": value, "origin": origin })));
            Printer.result(&Value::Object(values.collect()).to_string());
        }
    }
    Ok(())
}
