//! What somebody types, a line at a time. Reading blocks, so that it has a thread. Knows nothing of what is said.

use crate::failure::Failure;
use crate::printer::Printer;
use std::io::{self, BufRead, IsTerminal};
use std::sync::mpsc;
use tokio::sync::mpsc as answers;

/// What came of asking for a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    /// There is no more.
    End,
}

/// Reads lines until it is dropped.
pub(super) struct Lines {
    asked: mpsc::Sender<()>,
    typed: answers::Receiver<Typed>,
    /// A line was asked for that has not come yet.
    is_waiting: bool,
    is_terminal: bool,
}

impl Lines {
    pub(super) fn new() -> Result<Self, Failure> {
        let (asked, to_read) = mpsc::channel();
        let (sender, typed) = answers::channel(1);
        std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || read(&to_read, &sender))
            .map_err(Failure::of)?;
        Ok(Self {
            asked,
            typed,
            is_waiting: false,
            is_terminal: io::stdin().is_terminal(),
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The next line. The prompt is shown at a terminal alone. One that nobody waited for any more comes first.
    pub(super) async fn next(&mut self, prompt: &str) -> Typed {
        if self.is_terminal {
            Printer.problem_part(prompt);
        }
        if !self.is_waiting {
            if self.asked.send(()).is_err() {
                return Typed::End;
            }
            self.is_waiting = true;
        }
        let typed = self.typed.recv().await;
        self.is_waiting = false;
        typed.unwrap_or(Typed::End)
    }
}

/// Ends when nobody asks any more, or nothing is left.
fn read(asked: &mpsc::Receiver<()>, typed: &answers::Sender<Typed>) {
    while let Ok(()) = asked.recv() {
        let line = match io::stdin().lock().lines().next() {
            Some(Ok(line)) => Typed::Line(line),
            Some(Err(_)) | None => Typed::End,
        };
        let is_over = line == Typed::End;
        if typed.blocking_send(line).is_err() || is_over {
            return;
        }
    }
}
