//! The output of the worker's lines. One line is written at a time, and the host reads each at once.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone)]
pub(crate) struct Output {
    lines: Arc<Mutex<dyn Write + Send>>,
    /// The output of handlers' consoles.
    console: Arc<Mutex<dyn Write + Send>>,
}

impl Output {
    pub(crate) fn new(
        lines: impl Write + Send + 'static,
        console: impl Write + Send + 'static,
    ) -> Self {
        Self {
            lines: Arc::new(Mutex::new(lines)),
            console: Arc::new(Mutex::new(console)),
        }
    }

    /// Sends a line. A failure needs no reaction: a host that has gone also ends the worker's input, and so the worker.
    pub(crate) fn send(&self, line: &str) {
        let _ = write(&self.lines, line);
    }

    pub(crate) fn print(&self, line: &str) {
        let _ = write(&self.console, line);
    }
}

fn write(target: &Mutex<dyn Write + Send>, line: &str) -> io::Result<()> {
    let mut target = target.lock().unwrap_or_else(PoisonError::into_inner);
    target.write_all(line.as_bytes())?;
    target.flush()
}
