//! `windlass backup` and `windlass restore`: a data folder as one file, and a data folder out of one.

use super::{BackupArguments, RestoreArguments, expect_file, flags, load_config};
use crate::backup;
use crate::failure::Failure;
use crate::printer::Printer;
use serde_json::json;

pub(super) fn run(arguments: &BackupArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let made = backup::make(&config, &arguments.target)?;
    for left_out in &made.left_out {
        Printer.hint(&format!("left out: {left_out}"));
    }
    let (data, target) = (config.folders.data.display(), arguments.target.display());
    Printer.outcome(
        &format!(
            "backed up {data} to {target}: {} files, {} bytes",
            made.files, made.bytes
        ),
        &json!({
            "data": data.to_string(),
            "backup": target.to_string(),
            "files": made.files,
            "bytes": made.bytes,
            "leftOut": made.left_out,
        }),
    );
    Ok(())
}

pub(super) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    expect_file(
        &arguments.archive,
        "name what `windlass backup` has written",
    )?;
    let config = load_config(&arguments.file, flags)?;
    let data = &config.folders.data;
    let restored = backup::restore(&arguments.archive, data)?;
    if let Some(folder) = &restored.audit_outside {
        Printer.problem(&format!(
            "the audit lay outside of the data folder: its files are in {}; move them to where audit.path says",
            folder.display()
        ));
    }
    let (archive, data) = (arguments.archive.display(), data.display());
    Printer.outcome(
        &format!(
            "restored {archive} to {data}: {} files, as of {}",
            restored.files, restored.made_at
        ),
        &json!({
            "backup": archive.to_string(),
            "data": data.to_string(),
            "files": restored.files,
            "madeAt": restored.made_at,
            "auditOutside": restored.audit_outside,
        }),
    );
    Ok(())
}
