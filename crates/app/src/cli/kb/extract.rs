//! `windlass kb extract`: reads one document from standard input within limits that it sets itself before it reads a byte, and
//! answers its text as JSON. The process that a hostile document may end.

use super::arguments::{ExtractArguments, ExtractKind};
use crate::failure::Failure;
use crate::printer::Printer;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::Read;
use windlass_knowledge::{Document, DocumentKind, read_document};

pub(super) fn run(arguments: &ExtractArguments) -> Result<(), Failure> {
    for (resource, most) in [
        (Resource::As, arguments.memory_bytes),
        (Resource::Cpu, arguments.processor_seconds),
        // Nothing is left on the disk.
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit).map_err(Failure::of)?;
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(arguments.memory_bytes)
        .read_to_end(&mut bytes)
        .map_err(Failure::of)?;
    let kind = match arguments.kind {
        ExtractKind::Html => DocumentKind::Html,
        ExtractKind::Pdf => DocumentKind::Pdf,
    };
    let answer: Result<Document, String> = read_document(kind, &bytes);
    Printer.result(&serde_json::to_string(&answer).map_err(Failure::of)?);
    Ok(())
}
