//! Where the worker's lines go. One line is written at a time, and the host reads each at once.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone)]
pub(crate) struct Output {
    lines: Arc<Mutex<dyn Write + Send>>,
    /// Where the consoles of handlers go.
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

    /// A host that does not listen any more ends the worker by its input's end, so a failure here is nothing to act on.
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
