//! `windlass audit verify`: reads an audit back and names the first record that is not as it was written.

use super::{AuditArguments, AuditCommand, VerifyArguments, flags, load_config};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::records;
use windlass_runtime::audit::{self, Standing};

pub(super) fn run(arguments: &AuditArguments) -> Result<(), Failure> {
    match &arguments.command {
        AuditCommand::Verify(arguments) => verify(arguments),
    }
}

fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let verified = match arguments.files.is_empty() {
        true => configured(arguments)?.verify(),
        false => audit::verify(&arguments.files),
    };
    let verified = verified.map_err(Failure::of)?;
    let start = match (verified.records, verified.is_from_genesis) {
        (0, _) | (_, true) => "",
        (_, false) => ", the first of which follows records that are not here",
    };
    Printer.result(&format!(
        "intact: {} records in {} {}{start}; the last hash is {}",
        verified.records,
        verified.files,
        if verified.files == 1 { "file" } else { "files" },
        verified.last.as_str()
    ));
    Ok(())
}

/// The audit that the configuration names, as it stands now.
fn configured(arguments: &VerifyArguments) -> Result<Standing, Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let path = records::audit_path(&config);
    let standing = Standing::of(&path).map_err(Failure::of)?;
    match standing.is_empty() {
        true => Err(Failure::Failed(format!(
            "there is no audit at {}; name its files, or its data folder with --data",
            path.display()
        ))),
        false => Ok(standing),
    }
}
