//! Lines of standard input. A terminal has editing and a history; other input is read as it comes. Reading blocks, so it has a thread.
//! Knows no meaning of a line.

use crate::failure::Failure;
use rustyline::config::{Behavior, Config};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{DefaultEditor, Editor};
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::mpsc;
use tokio::sync::mpsc as answers;

/// Lines that are remembered.
const HISTORY_LINES_MAX: usize = 1_000;

/// The result of asking for a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C, at a terminal.
    Interrupted,
    /// There is no more.
    End,
}

/// A line that is asked for.
struct Asked {
    prompt: String,
    /// Whether the line goes into the history.
    is_kept: bool,
}

/// Reads lines until it is dropped, and leaves the terminal as it found it.
pub(super) struct Lines {
    asked: mpsc::Sender<Asked>,
    typed: answers::Receiver<Typed>,
    /// A line was asked for that has not come yet.
    is_waiting: bool,
    is_terminal: bool,
    #[cfg(unix)]
    mode: Option<nix::sys::termios::Termios>,
}

impl Lines {
    /// Lines typed at a terminal are kept in a file, and a later conversation begins with them.
    pub(super) fn new(history: PathBuf) -> Result<Self, Failure> {
        let (asked, to_read) = mpsc::channel();
        let (sender, typed) = answers::channel(1);
        let is_terminal = io::stdin().is_terminal();
        #[cfg(unix)]
        let mode = nix::sys::termios::tcgetattr(io::stdin()).ok();
        let reader = match is_terminal {
            true => Reader::Terminal(Box::new(terminal(history)?)),
            false => Reader::Plain,
        };
        std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || read(reader, &to_read, &sender))
            .map_err(Failure::of)?;
        Ok(Self {
            asked,
            typed,
            is_waiting: false,
            is_terminal,
            #[cfg(unix)]
            mode,
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The next message. The prompt is shown at a terminal alone.
    pub(super) async fn message(&mut self, prompt: &str) -> Typed {
        self.next(prompt, true).await
    }

    /// The answer to a question, which does not go into the history.
    pub(super) async fn answer(&mut self, prompt: &str) -> Typed {
        self.next(prompt, false).await
    }

    /// A line that was asked for before, and not waited for, comes first.
    async fn next(&mut self, prompt: &str, is_kept: bool) -> Typed {
        if !self.is_waiting {
            let prompt = prompt.to_owned();
            if self.asked.send(Asked { prompt, is_kept }).is_err() {
                return Typed::End;
            }
            self.is_waiting = true;
        }
        let typed = self.typed.recv().await;
        self.is_waiting = false;
        typed.unwrap_or(Typed::End)
    }
}

#[cfg(unix)]
impl Drop for Lines {
    fn drop(&mut self) {
        use nix::sys::termios::{SetArg, tcsetattr};
        // A line may be half typed, and the terminal is in the editor's mode then.
        if let Some(mode) = &self.mode {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, mode);
        }
    }
}

enum Reader {
    Terminal(Box<Terminal>),
    Plain,
}

struct Terminal {
    editor: DefaultEditor,
    history: PathBuf,
}

fn terminal(history: PathBuf) -> Result<Terminal, Failure> {
    let config = || -> rustyline::Result<Config> {
        let builder = Config::builder()
            .max_history_size(HISTORY_LINES_MAX)?
            .history_ignore_dups(true)?
            // The terminal shows the typed text, wherever answers go.
            .behavior(match io::stdout().is_terminal() {
                true => Behavior::Stdio,
                false => Behavior::PreferTerm,
            });
        Ok(builder.build())
    };
    let editor = config().and_then(|config| {
        let lines = FileHistory::with_config(&config);
        Editor::with_history(config, lines)
    });
    let mut editor = editor.map_err(Failure::of)?;
    // The first time there is no history file; a conversation goes on without it.
    let _ = editor.load_history(&history);
    Ok(Terminal { editor, history })
}

/// Ends when the asking side is gone, or the input is at its end.
fn read(mut reader: Reader, asked: &mpsc::Receiver<Asked>, typed: &answers::Sender<Typed>) {
    while let Ok(asked) = asked.recv() {
        let line = match &mut reader {
            Reader::Terminal(terminal) => terminal.line(&asked),
            Reader::Plain => plain_line(),
        };
        let is_over = line == Typed::End;
        if typed.blocking_send(line).is_err() || is_over {
            return;
        }
    }
}

impl Terminal {
    fn line(&mut self, asked: &Asked) -> Typed {
        match self.editor.readline(asked.prompt.as_str()) {
            Ok(line) => {
                if asked.is_kept && !line.trim().is_empty() {
                    let _ = self.editor.add_history_entry(line.as_str());
                    let _ = self.editor.append_history(&self.history);
                }
                Typed::Line(line)
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupted,
            Err(_) => Typed::End,
        }
    }
}

fn plain_line() -> Typed {
    match io::stdin().lock().lines().next() {
        Some(Ok(line)) => Typed::Line(line),
        Some(Err(_)) | None => Typed::End,
    }
}
