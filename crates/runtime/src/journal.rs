//! Records sessions so that they can be run again: one file a session, a line an input. Owns the files, their limits and the
//! thread that writes them; the contents of a line are the core's. Audio never passes here, because the core holds none.

mod thread;
mod visible;

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use visible::{Shown, Visible};
use windlass_contract::private;
use windlass_contract::registry::Registry;
use windlass_session::io::{Input, Output};
use windlass_session::journal::{
    Header, JOURNAL_VERSION, JournalStep, Line, settings_of, texts_of, versions_of,
};
use windlass_session::session::{Session, SessionConfig};
use windlass_session::time::Timestamp;

/// Pieces of journals that wait for the disk. A journal whose piece finds no room ends there.
const WAITING_MAX: usize = 10_000;

/// The folder of journals, and their limits.
#[derive(Clone, Debug)]
pub struct JournalSettings {
    pub folder: PathBuf,
    /// Bytes of one journal; later inputs are not recorded.
    pub file_bytes_max: u64,
    /// Journals that are kept; the oldest are deleted.
    pub files_max: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("the journals' folder {} cannot be written: {source}; make it writable or set journal.enabled to false", .path.display())]
pub struct JournalError {
    pub path: PathBuf,
    pub source: std::io::Error,
}

/// Writes the journals of all sessions until it is closed or dropped.
pub struct Journal {
    sender: SyncSender<thread::Piece>,
    thread: Mutex<Option<JoinHandle<()>>>,
    file_bytes_max: u64,
}

impl Journal {
    pub fn start(settings: JournalSettings) -> Result<Self, JournalError> {
        let refuse = |source| JournalError {
            path: settings.folder.clone(),
            source,
        };
        private::create_folder(&settings.folder).map_err(refuse)?;
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let (folder, files_max) = (settings.folder.clone(), settings.files_max);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || thread::write_all(&receiver, &folder, files_max))
            .map_err(refuse)?;
        Ok(Self {
            sender,
            thread: Mutex::new(Some(thread)),
            file_bytes_max: settings.file_bytes_max,
        })
    }

    fn recorder(&self, registry: Arc<Registry>, name: String) -> Recorder {
        Recorder {
            sender: self.sender.clone(),
            visible: Visible::new(registry),
            name: name.into(),
            bytes_left: self.file_bytes_max,
            steps: 0,
            is_partial: false,
        }
    }

    /// Writes the waiting pieces and ends the thread. Later inputs are not recorded.
    pub fn close(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(thread) = thread.take() else {
            return;
        };
        // A thread that has ended already takes nothing.
        let _ = self.sender.send(thread::Piece::Close);
        if thread.join().is_err() {
            tracing::error!("the journals' thread broke");
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

/// A session, recorded if there is a journal.
pub struct RecordedSession {
    session: Session,
    recorder: Option<Recorder>,
}

impl std::ops::Deref for RecordedSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl RecordedSession {
    /// Begins the session. Its first outputs go into `out`.
    pub fn begin(config: SessionConfig, journal: Option<&Journal>, out: &mut Vec<Output>) -> Self {
        let recorder = journal
            .map(|journal| journal.recorder(config.registry.clone(), config.session_id.to_string()))
            .map(|recorder| (recorder, config.clone()));
        let before = out.len();
        let session = Session::new(config, out);
        let recorder = recorder.and_then(|(mut recorder, config)| {
            let header = Header {
                version: JOURNAL_VERSION,
                registry_version: config.registry.version().to_string(),
                tools: settings_of(&config.registry),
                versions: versions_of(&config.registry),
                session: config,
                outputs: texts_of(&out[before..]),
            };
            recorder
                .write(&Line::Header(Box::new(header)))
                .then_some(recorder)
        });
        Self { session, recorder }
    }

    /// Gives spare memory back, as [`Session::give_room_back`] does.
    pub(crate) fn give_room_back(&mut self) {
        self.session.give_room_back();
    }

    /// Gives the session one input, as [`Session::handle`] does.
    pub fn handle(&mut self, now: Timestamp, input: Input, out: &mut Vec<Output>) {
        let Some(recorder) = &mut self.recorder else {
            return self.session.handle(now, input, out);
        };
        let (given, written) = recorder.prepare(input);
        let before = out.len();
        self.session.handle(now, given, out);
        let Some(written) = written else { return };
        let outputs = match recorder.is_partial {
            true => Vec::new(),
            false => texts_of(&out[before..]),
        };
        recorder.steps += 1;
        let step = JournalStep {
            number: recorder.steps,
            at: now,
            input: written,
            outputs,
        };
        if !recorder.write(&Line::Step(step)) {
            self.recorder = None;
        }
    }
}

struct Recorder {
    sender: SyncSender<thread::Piece>,
    visible: Visible,
    name: Arc<str>,
    bytes_left: u64,
    /// Inputs that have been written.
    steps: u64,
    is_partial: bool,
}

impl Recorder {
    /// The input for the session, and its written form, if it is written. If nothing has to be left out, the session gets the
    /// form that a replay will read: a fraction may lose its last digit on its way through a text.
    fn prepare(&mut self, input: Input) -> (Input, Option<Input>) {
        if let Some(Shown { input: shown, tool }) = self.visible.of(&input) {
            if let Some(tool) = tool {
                self.become_partial(tool.to_string());
            }
            return (input, shown);
        }
        let text = serde_json::to_string(&input);
        let read = text.and_then(|text| serde_json::from_str::<Input>(&text));
        match read {
            Ok(read) => (read.clone(), Some(read)),
            Err(error) => {
                tracing::error!(%error, "an input cannot be recorded");
                self.bytes_left = 0;
                (input.clone(), Some(input))
            }
        }
    }

    /// Marks the journal as partial: from here on it can be read, and not be compared.
    fn become_partial(&mut self, tool: String) {
        if !std::mem::replace(&mut self.is_partial, true) && !self.write(&Line::Partial { tool }) {
            self.bytes_left = 0;
        }
    }

    /// Returns false if the journal ends here.
    fn write(&mut self, line: &Line) -> bool {
        let Ok(mut text) = serde_json::to_vec(line) else {
            return false;
        };
        text.push(b'\n');
        let rest = self.bytes_left.checked_sub(text.len() as u64);
        let (text, goes_on) = match rest {
            Some(rest) => {
                self.bytes_left = rest;
                (text, true)
            }
            None => (b"\"full\"\n".to_vec(), false),
        };
        let piece = thread::Piece::Text {
            name: self.name.clone(),
            text,
        };
        self.sender.try_send(piece).is_ok() && goes_on
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // If the queue is full, the file stays open until the thread ends.
        let _ = self.sender.try_send(thread::Piece::End {
            name: self.name.clone(),
        });
    }
}
