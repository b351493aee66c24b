//! Builds the tools again while the server runs: when the words change that they take from the knowledge base, and in
//! development when something in their folder changes. Sessions that run keep the tools that they have.

use crate::toolbox::{ToolboxError, Workshop};
use crate::voice_host::VoiceHost;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use windlass_tool::compile::Vocabularies;
use windlass_tool::problem::Severity;

/// Editors write a file in several steps; building waits until they have been quiet for this long.
const QUIET: Duration = Duration::from_millis(300);

#[derive(Debug, thiserror::Error)]
#[error("the tools folder {folder} cannot be watched: {cause}; start without --watch")]
pub(crate) struct WatchError {
    folder: String,
    cause: notify::Error,
}

/// What may make other tools of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Folder,
    Knowledge,
}

/// Says that another base is served now, and nothing once nobody listens any more.
#[derive(Clone, Debug)]
pub(crate) struct KnowledgeChanges(Sender<Change>);

impl KnowledgeChanges {
    pub(crate) fn tell(&self) {
        // Without a receiver the server is gone.
        let _ = self.0.send(Change::Knowledge);
    }

    /// Those of a base that nobody serves.
    pub(crate) fn unheard() -> Self {
        Self(channel().0)
    }
}

/// Hears of changes. Ends when everybody is gone who tells of any.
pub(crate) struct Changes {
    sender: Sender<Change>,
    receiver: Receiver<Change>,
}

/// Watches until it is dropped.
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
}

impl Changes {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver }
    }

    pub(crate) fn of_knowledge(&self) -> KnowledgeChanges {
        KnowledgeChanges(self.sender.clone())
    }

    /// Takes changes up from now on. `served` are the words with which the host's tools were built.
    pub(crate) fn follow(
        self,
        workshop: Arc<Workshop>,
        host: Arc<VoiceHost>,
        served: Vocabularies,
        is_watching: bool,
    ) -> Result<Option<Watch>, WatchError> {
        let folder = workshop.config.folders.tools.clone();
        let refuse = |cause| WatchError {
            folder: folder.display().to_string(),
            cause,
        };
        let watch = match is_watching {
            true => Some(watch(&folder, self.sender.clone()).map_err(refuse)?),
            false => None,
        };
        let receiver = self.receiver;
        drop(self.sender);
        let rebuilder = Rebuilder {
            workshop,
            host,
            served,
        };
        std::thread::Builder::new()
            .name("tools".to_owned())
            .spawn(move || rebuilder.run(&receiver))
            .map_err(|error| refuse(notify::Error::io(error)))?;
        Ok(watch)
    }
}

fn watch(folder: &Path, sender: Sender<Change>) -> notify::Result<Watch> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        let is_change = !matches!(
            event,
            Ok(Event {
                kind: EventKind::Access(_),
                ..
            })
        );
        if is_change {
            // Without a receiver the server is gone, and so will be the watch.
            let _ = sender.send(Change::Folder);
        }
    })?;
    watcher.watch(folder, RecursiveMode::Recursive)?;
    tracing::info!(folder = %folder.display(), "tools are built again when they change");
    Ok(Watch { _watcher: watcher })
}

struct Rebuilder {
    workshop: Arc<Workshop>,
    host: Arc<VoiceHost>,
    /// The words of the knowledge base that the tools have now.
    served: Vocabularies,
}

impl Rebuilder {
    fn run(mut self, changes: &Receiver<Change>) {
        while let Ok(first) = changes.recv() {
            let mut is_folder = first == Change::Folder;
            loop {
                match changes.recv_timeout(QUIET) {
                    Ok(next) => is_folder |= next == Change::Folder,
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            let words = self.workshop.knowledge.vocabularies();
            // Most changes of records leave their types and namespaces as they were.
            if (is_folder || words != self.served) && self.rebuild() {
                self.served = words;
            }
        }
    }

    /// Returns whether new sessions have the tools that are to be had now.
    fn rebuild(&self) -> bool {
        match self.workshop.open() {
            Ok(toolbox) => {
                let version = toolbox.version.clone();
                if self.host.toolbox.load().version != version {
                    self.host.toolbox.store(Arc::new(toolbox));
                    tracing::info!(%version, "new sessions have new tools");
                    self.host.conversations.report_older_than(&version);
                }
                true
            }
            Err(error) => {
                if let ToolboxError::Compile { problems, .. } = &error {
                    for problem in problems {
                        match problem.severity {
                            Severity::Error => tracing::error!("{problem}"),
                            Severity::Warning => tracing::warn!("{problem}"),
                            Severity::Note => tracing::debug!("{problem}"),
                        }
                    }
                }
                tracing::error!(%error, "the tools stay as they were");
                false
            }
        }
    }
}
