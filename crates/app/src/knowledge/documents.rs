//! Reads documents in a process of its own, `windlass kb extract`, so that a hostile file ends that process and nothing else. Knows its
//! limits and its answers; no format.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use windlass_knowledge::{DOCUMENT_TEXT_BYTES_MAX, Document, DocumentKind, DocumentReader};

/// Bytes of memory that a document's reading may take, the program included.
const MEMORY_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Seconds of a processor.
const PROCESSOR_SECONDS_MAX: u64 = 10;
/// Seconds altogether, on a machine that has more to do.
const SECONDS_MAX: u64 = 30;
/// An answer has each byte of the text, and each of them written with six where it has to be.
const ANSWER_BYTES_MAX: u64 = 6 * DOCUMENT_TEXT_BYTES_MAX as u64 + 64 * 1024;

/// The program that reads documents.
pub(super) struct ExtractProcess {
    program: PathBuf,
}

impl ExtractProcess {
    /// This program itself.
    pub(super) fn new() -> std::io::Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self { program })
    }

    fn start(&self, kind: DocumentKind) -> std::io::Result<Child> {
        Command::new(&self.program)
            .args(["kb", "extract", kind.as_str()])
            .args(["--memory-bytes", &MEMORY_BYTES_MAX.to_string()])
            .args(["--processor-seconds", &PROCESSOR_SECONDS_MAX.to_string()])
            // Nothing that is secret here is known there.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    }
}

impl DocumentReader for ExtractProcess {
    fn read(&self, kind: DocumentKind, bytes: &[u8]) -> Result<Document, String> {
        let cannot_run = |error| format!("the process that reads documents cannot be run: {error}");
        let mut child = self.start(kind).map_err(cannot_run)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, receiver) = channel();
        let answer = thread::scope(|scope| {
            scope.spawn(move || {
                // A process that ends before it has read all says so by its answer.
                let _ = input.map(|mut input| input.write_all(bytes));
            });
            scope.spawn(move || {
                let mut answer = Vec::new();
                let read =
                    output.map(|output| output.take(ANSWER_BYTES_MAX).read_to_end(&mut answer));
                let _ = sender.send(answer);
                drop(read);
            });
            let answer = receiver.recv_timeout(Duration::from_secs(SECONDS_MAX));
            // Both threads end with the process, whether or not they have answered.
            let _ = child.kill();
            answer.unwrap_or_default()
        });
        child.wait().map_err(cannot_run)?;
        serde_json::from_slice(&answer).unwrap_or_else(|_| {
            Err(format!(
                "reading it broke off: it is damaged, or takes more than {} MiB of memory, {PROCESSOR_SECONDS_MAX} seconds of \
                 a processor or {SECONDS_MAX} seconds in all; split it, or save it anew with another program",
                MEMORY_BYTES_MAX / 1024 / 1024
            ))
        })
    }
}
