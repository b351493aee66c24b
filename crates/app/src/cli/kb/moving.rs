//! `windlass kb move`: the records and their vectors into a database. Knows no table; written records are not written again, so the
//! same command continues an interrupted move.

use super::arguments::MoveArguments;
use super::progress::Bar;
use super::{Bench, Format};
use crate::failure::Failure;
use crate::printer::Printer;
use serde_json::Value;
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::KnowledgeBase;

pub(super) fn run(arguments: &MoveArguments) -> Result<(), Failure> {
    let schemes = ["postgres://", "postgresql://"];
    let is_address = |to: &String| schemes.iter().any(|scheme| to.starts_with(scheme));
    // The wrong value is not shown: it may hold a password.
    if arguments.to.as_ref().is_some_and(|to| !is_address(to)) {
        return Err(Failure::Usage(
            "--to is no address of a database: write postgres://user:password@host/database"
                .to_owned(),
        ));
    }
    let bench = Bench::open(&arguments.place)?;
    let configured = bench.config.knowledge.postgres.as_ref();
    let address = match (&arguments.to, configured) {
        (Some(address), _) => Sensitive(address.clone()),
        (None, Some(address)) => address.sensitive(),
        (None, None) => {
            return Err(Failure::Usage(
                "say where to: --to postgres://user:password@host/database, or set knowledge.postgres".to_owned(),
            ));
        }
    };
    // A base without vectors would remove those of the database.
    bench.runtime.block_on(bench.maker.demand_model())?;
    let base = bench.at_hand()?;
    let (json, words) = publish(&bench, address, &base)?;
    match Printer.format() {
        Format::Text => Printer.result(&words),
        Format::Json => Printer.result(&json.to_string()),
    }
    Ok(())
}

/// Writes a base into a database. Returns the outcome as JSON and in words.
pub(super) fn publish(
    bench: &Bench,
    address: Sensitive<String>,
    base: &KnowledgeBase,
) -> Result<(Value, String), Failure> {
    let mut bar = Bar::of("records");
    let mut show = |progress| bar.show(progress);
    bench.runtime.block_on(crate::knowledge::publish(
        address,
        &bench.maker,
        base,
        &mut show,
    ))
}
