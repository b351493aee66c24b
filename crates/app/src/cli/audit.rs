//! `windlass audit verify` reads an audit back and names the first record that was changed; `windlass audit checkpoint` notes its end,
//! so that it cannot be written anew as a whole; `windlass audit list` prints the records.

use super::{
    AuditArguments, AuditCommand, CheckpointArguments, ListAuditArguments, VerifyArguments,
    expect_file, flags, load_config,
};
use crate::clock;
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use crate::records;
use serde_json::{Map, Value, json};
use std::path::Path;
use windlass_config::Config;
use windlass_contract::template::escaped;
use windlass_runtime::audit::{self, Checkpoint, Standing};
use windlass_runtime::client_key::CheckpointKey;

/// Bytes of a checkpoint; a longer file is none.
const CHECKPOINT_BYTES_MAX: u64 = 4_096;

pub(super) fn run(arguments: &AuditArguments) -> Result<(), Failure> {
    match &arguments.command {
        AuditCommand::List(arguments) => list(arguments),
        AuditCommand::Verify(arguments) => verify(arguments),
        AuditCommand::Checkpoint(arguments) => checkpoint(arguments),
    }
}

/// Prints the records that were asked for, the oldest first.
fn list(arguments: &ListAuditArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let mut count = 0_u64;
    // Records about the audit itself have no time of their own, and stand where they belong.
    let mut at_unix_ms = None;
    let others = standing(&config)?.each(|record| {
        let text = |name: &str| record.get(name).and_then(Value::as_str);
        at_unix_ms = text("timestamp").and_then(clock::unix_ms_of).or(at_unix_ms);
        let is_of = |name: &str, wanted: &Option<String>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| text(name) == Some(wanted))
        };
        let is_meant = is_of("toolId", &arguments.tool)
            && is_of("userId", &arguments.user)
            && arguments
                .since
                .is_none_or(|since| at_unix_ms >= Some(since));
        if is_meant {
            count += 1;
            match Printer.format() {
                Format::Text => Printer.result(&escaped(&shown(&record))),
                Format::Json => Printer.result(&Value::Object(record).to_string()),
            }
        }
    });
    let others = others.map_err(Failure::of)?;
    if count == 0 {
        Printer.hint("no record of the audit is like that");
    }
    if others > 0 {
        let lines = match others {
            1 => "1 line is no record".to_owned(),
            others => format!("{others} lines are no records"),
        };
        Printer.problem(&format!("{lines}; windlass audit verify names the first"));
    }
    Ok(())
}

/// A record in one line for people: its time, user, tool and outcome.
fn shown(record: &Map<String, Value>) -> String {
    let text = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or("-");
    let event = text("event");
    let error = record.get("errorType").and_then(Value::as_str);
    let outcome = match (event, error) {
        ("tool_execution", None) => "done".to_owned(),
        ("tool_execution", Some(error)) => format!("failed: {error}"),
        ("tool_rejection", error) => format!("refused: {}", error.unwrap_or("-")),
        ("tool_cancellation", _) => "taken back".to_owned(),
        ("tool_cancel_requested", _) => {
            let (call, user, way) = (text("callId"), text("userId"), text("way"));
            let came_to = match text("outcome") {
                "runs_on" => "goes on",
                outcome => outcome,
            };
            format!("{call} was to stop, asked by {user} over {way}: {came_to}")
        }
        ("tool_connection", _) => format!("{} {}", text("connection"), text("change")),
        ("tool_outcome_unknown", _) => "outcome unknown".to_owned(),
        ("tool_outcome_settled", _) => format!("settled: {}", text("state")),
        (event, _) => event.to_owned(),
    };
    let took = record.get("durationMs").and_then(Value::as_u64);
    let took = took.map_or_else(String::new, |took_ms| format!("  {took_ms} ms"));
    format!(
        "{:<24}  {:<16}  {:<20}  {outcome}{took}",
        text("timestamp"),
        text("userId"),
        text("toolId")
    )
}

fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    for path in arguments.files.iter().chain(&arguments.checkpoints) {
        expect_file(
            path,
            "name files of an audit, and what `windlass audit checkpoint` printed",
        )?;
    }
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
    let checkpoint_count = checkpoints.len();
    let verified = match &config {
        Some(config) if arguments.files.is_empty() => standing(config)?.verify_against(checkpoints),
        _ => audit::verify_against(&arguments.files, checkpoints),
    };
    let verified = verified.map_err(Failure::of)?;
    let start = match (verified.records, verified.is_from_genesis) {
        (0, _) | (_, true) => "",
        (_, false) => ", the first of which follows records that are not here",
    };
    let kept = match checkpoint_count {
        0 => String::new(),
        1 => ", as 1 checkpoint says".to_owned(),
        more => format!(", as {more} checkpoints say"),
    };
    Printer.outcome(
        &format!(
            "intact: {} {} in {} {}{start}{kept}; the last hash is {}",
            verified.records,
            if verified.records == 1 {
                "record"
            } else {
                "records"
            },
            verified.files,
            if verified.files == 1 { "file" } else { "files" },
            verified.last.as_str()
        ),
        &json!({
            "intact": true,
            "records": verified.records,
            "files": verified.files,
            "isWhole": verified.is_from_genesis,
            "checkpoints": checkpoint_count,
            "lastHash": verified.last.as_str(),
        }),
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_who_wanted_a_call_stopped() {
        for (outcome, came_to) in [("stopped", "stopped"), ("runs_on", "goes on")] {
            let record = json!({
                "event": "tool_cancel_requested", "timestamp": "2026-11-20T12:00:00.000Z", "userId": "ada",
                "toolId": "export", "callId": "call-3", "way": "http", "outcome": outcome
            });
            let record = record.as_object().unwrap();
            assert_eq!(
                shown(record),
                format!(
                    "2026-11-20T12:00:00.000Z  ada               export                call-3 was to stop, asked by ada over http: {came_to}"
                )
            );
        }
    }
}
