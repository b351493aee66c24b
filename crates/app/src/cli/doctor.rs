//! `windlass doctor`: problems with keys, machine and project, and their fixes. Examines nothing itself.

use super::{DoctorArguments, load_config};
use crate::doctor::{Examination, Finding, Verdict, examine};
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use crate::server::Handlers;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn run(arguments: &DoctorArguments, handlers: &Handlers) -> Result<(), Failure> {
    arguments.flags.check()?;
    let keys = [arguments.place.keys(), arguments.flags.keys()].concat();
    let config = Arc::new(load_config(&arguments.file, keys)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    let examination = Examination {
        config: &config,
        handlers,
        patience: Duration::from_secs(arguments.timeout),
    };
    let findings = runtime.block_on(examine(&examination));
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    let wrong = findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Wrong)
        .count();
    match Printer.format() {
        Format::Text => findings.iter().for_each(print),
        Format::Json => Printer.result(&json!({"ok": wrong == 0, "checks": findings}).to_string()),
    }
    match (wrong, Printer.format()) {
        (0, _) => Ok(()),
        (_, Format::Json) => Err(Failure::Said),
        (1, Format::Text) => Err(Failure::Failed("1 thing is wrong".to_owned())),
        (count, Format::Text) => Err(Failure::Failed(format!("{count} things are wrong"))),
    }
}

fn print(finding: &Finding) {
    let verdict = match finding.verdict {
        Verdict::Good => "ok",
        Verdict::Note => "note",
        Verdict::Wrong => "WRONG",
    };
    // One line, even if a foreign error has several.
    let what = finding.what.replace('\n', " ");
    Printer.result(&format!("{verdict:<6} {:<10} {what}", finding.check));
    if let Some(cure) = &finding.cure {
        Printer.result(&format!("{:<17} -> {cure}", ""));
    }
}
