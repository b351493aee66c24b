//! `windlass backup` and `windlass restore`: a data folder as one file, and a data folder out of one.

use super::{BackupArguments, RestoreArguments, flags, load_config};
use crate::backup;
use crate::failure::Failure;
use crate::printer::Printer;

pub(super) fn run(arguments: &BackupArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let made = backup::make(&config, &arguments.target)?;
    for left_out in &made.left_out {
        Printer.problem(&format!("left out: {left_out}"));
    }
    Printer.result(&format!(
        "backed up {} to {}: {} files, {} bytes",
        config.folders.data.display(),
        arguments.target.display(),
        made.files,
        made.bytes
    ));
    Ok(())
}

pub(super) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let data = &config.folders.data;
    let restored = backup::restore(&arguments.archive, data)?;
    if let Some(folder) = &restored.audit_outside {
        Printer.problem(&format!(
            "the audit lay outside of the data folder: its files are in {}; move them to where audit.path says",
            folder.display()
        ));
    }
    Printer.result(&format!(
        "restored {} to {}: {} files, as of {}",
        arguments.archive.display(),
        data.display(),
        restored.files,
        restored.made_at
    ));
    Ok(())
}
