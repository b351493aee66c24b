//! `windlass audit verify` reads an audit back and names the first record that is not as it was written; `windlass audit
//! checkpoint` notes where it stands, so that it cannot be written anew as a whole.

use super::{
    AuditArguments, AuditCommand, CheckpointArguments, VerifyArguments, flags, load_config,
};
use crate::clock;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::records;
use std::path::Path;
use windlass_config::Config;
use windlass_runtime::audit::{self, Checkpoint, Standing};
use windlass_runtime::client_key::CheckpointKey;

/// Bytes of a checkpoint; more is none.
const CHECKPOINT_BYTES_MAX: u64 = 4_096;

pub(super) fn run(arguments: &AuditArguments) -> Result<(), Failure> {
    match &arguments.command {
        AuditCommand::Verify(arguments) => verify(arguments),
        AuditCommand::Checkpoint(arguments) => checkpoint(arguments),
    }
}

fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let needs_config = arguments.files.is_empty() || !arguments.checkpoints.is_empty();
    let config = match needs_config {
        true => {
            let flags = flags([("--data", "folders.data", &arguments.data)]);
            Some(load_config(&arguments.file, flags)?)
        }
        false => None,
    };
    let mut checkpoints = Vec::new();
    if let Some(config) = &config
        && !arguments.checkpoints.is_empty()
    {
        let key = CheckpointKey::open(&config.folders.data).map_err(Failure::of)?;
        for path in &arguments.checkpoints {
            checkpoints.push(read_checkpoint(path, &key)?);
        }
    }
    let kept = checkpoints.len();
    let verified = match &config {
        Some(config) if arguments.files.is_empty() => standing(config)?.verify_against(checkpoints),
        _ => audit::verify_against(&arguments.files, checkpoints),
    };
    let verified = verified.map_err(Failure::of)?;
    let start = match (verified.records, verified.is_from_genesis) {
        (0, _) | (_, true) => "",
        (_, false) => ", the first of which follows records that are not here",
    };
    let kept = match kept {
        0 => String::new(),
        1 => ", as 1 checkpoint says".to_owned(),
        more => format!(", as {more} checkpoints say"),
    };
    Printer.result(&format!(
        "intact: {} records in {} {}{start}{kept}; the last hash is {}",
        verified.records,
        verified.files,
        if verified.files == 1 { "file" } else { "files" },
        verified.last.as_str()
    ));
    Ok(())
}

/// Only an audit that is intact gets one.
fn checkpoint(arguments: &CheckpointArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let verified = standing(&config)?.verify().map_err(Failure::of)?;
    let key = CheckpointKey::open(&config.folders.data).map_err(Failure::of)?;
    let checkpoint = Checkpoint::new(verified.records, verified.last, clock::now_unix_ms());
    Printer.result(&checkpoint.sign(&key));
    Ok(())
}

fn read_checkpoint(path: &Path, key: &CheckpointKey) -> Result<Checkpoint, Failure> {
    let failed = |problem: String| Failure::Failed(format!("{}: {problem}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if metadata.len() > CHECKPOINT_BYTES_MAX {
        return Err(failed(audit::NoCheckpoint::Unreadable.to_string()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    Checkpoint::read(&text, key).map_err(|problem| failed(problem.to_string()))
}

/// The audit that the configuration names, as it stands now.
fn standing(config: &Config) -> Result<Standing, Failure> {
    let path = records::audit_path(config);
    let standing = Standing::of(&path).map_err(Failure::of)?;
    match standing.is_empty() {
        true => Err(Failure::Failed(format!(
            "there is no audit at {}; name its files, or its data folder with --data",
            path.display()
        ))),
        false => Ok(standing),
    }
}
