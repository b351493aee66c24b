//! Builds the tools again while the server runs: when their words in the knowledge base change, and in development when a file changes
//! in their folder or in that of the prompts. Running sessions keep theirs.

use crate::knowledge::KnowledgeChanges;
use crate::toolbox::{ToolboxError, Workshop};
use crate::voice_host::VoiceHost;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use windlass_compile::Vocabularies;
use windlass_compile::problem::Severity;

/// Editors write a file in several steps; building waits until they have been quiet for this long.
const QUIET: Duration = Duration::from_millis(300);
/// A folder that never is quiet is not waited for longer than this.
const UNQUIET_MAX: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
#[error("the folder {folder} cannot be watched: {cause}; start without --watch")]
pub(crate) struct WatchError {
    folder: String,
    cause: notify::Error,
}

/// Wakes the rebuilding thread. However often it rings, one note waits.
#[derive(Clone, Debug)]
struct Bell {
    sender: SyncSender<()>,
    /// Whether one of the folders has changed since the last look.
    has_folder_changed: Arc<AtomicBool>,
}

impl Bell {
    fn new() -> (Self, Receiver<()>) {
        let (sender, receiver) = sync_channel(1);
        let bell = Self {
            sender,
            has_folder_changed: Arc::default(),
        };
        (bell, receiver)
    }

    fn ring(&self) {
        // A waiting note covers this change, too; without a receiver the server is gone.
        let _ = self.sender.try_send(());
    }
}

/// Hears of changes. Ends when everybody is gone who tells of any.
pub(crate) struct Changes {
    bell: Bell,
    receiver: Receiver<()>,
}

/// Watches until it is dropped.
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
}

impl Changes {
    pub(crate) fn new() -> Self {
        let (bell, receiver) = Bell::new();
        Self { bell, receiver }
    }

    pub(crate) fn of_knowledge(&self) -> KnowledgeChanges {
        KnowledgeChanges::told_to(self.bell.sender.clone())
    }

    /// Follows changes from now on. `served` are the words with which the host's tools were built. Changes of the folder count only
    /// with `is_watching`.
    pub(crate) fn follow(
        self,
        workshop: Arc<Workshop>,
        host: Arc<VoiceHost>,
        served: Vocabularies,
        is_watching: bool,
    ) -> Result<Option<Watch>, WatchError> {
        let folder = workshop.config.folders.tools.to_path_buf();
        let prompts = workshop.config.folders.prompts.to_path_buf();
        let refuse = |cause| WatchError {
            folder: folder.display().to_string(),
            cause,
        };
        let rebuilder = Rebuilder {
            workshop,
            host,
            served,
            is_watching,
            has_folder_changed: self.bell.has_folder_changed.clone(),
        };
        // The bell itself goes here, so that the thread ends without a watch and a base.
        let watch = match is_watching {
            true => Some(watch(&[folder.as_path(), prompts.as_path()], self.bell)?),
            false => None,
        };
        let receiver = self.receiver;
        std::thread::Builder::new()
            .name("tools".to_owned())
            .spawn(move || rebuilder.run(&receiver))
            .map_err(|error| refuse(notify::Error::io(error)))?;
        Ok(watch)
    }
}

/// Does something now, and again after each change of a folder, until the process ends.
pub(crate) fn at_each_change(folder: &Path, mut act: impl FnMut()) -> Result<(), WatchError> {
    let (bell, changes) = Bell::new();
    let _watch = watch(&[folder], bell)?;
    loop {
        act();
        if changes.recv().is_err() || !quiet(&changes) {
            return Ok(());
        }
    }
}

/// Watches folders. The first has to be there; another that is not says so in the log.
fn watch(folders: &[&Path], bell: Bell) -> Result<Watch, WatchError> {
    let refuse = |folder: &Path, cause| WatchError {
        folder: folder.display().to_string(),
        cause,
    };
    let first = folders.first().copied().unwrap_or(Path::new("."));
    let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        let is_change = !matches!(
            event,
            Ok(Event {
                kind: EventKind::Access(_),
                ..
            })
        );
        if is_change {
            bell.has_folder_changed.store(true, Ordering::Release);
            bell.ring();
        }
    });
    let mut watcher = watcher.map_err(|cause| refuse(first, cause))?;
    for folder in folders {
        let shown = folder.display();
        if *folder != first && !folder.is_dir() {
            tracing::info!(folder = %shown, "there is no such folder to watch; one that is made takes a new start");
            continue;
        }
        let watched = watcher.watch(folder, RecursiveMode::Recursive);
        watched.map_err(|cause| refuse(folder, cause))?;
        tracing::info!(folder = %shown, "what changes there counts for new sessions");
    }
    Ok(Watch { _watcher: watcher })
}

struct Rebuilder {
    workshop: Arc<Workshop>,
    host: Arc<VoiceHost>,
    /// The words of the knowledge base that the tools have now.
    served: Vocabularies,
    /// Whether new tools may come from the folder, which is for development alone.
    is_watching: bool,
    has_folder_changed: Arc<AtomicBool>,
}

impl Rebuilder {
    fn run(mut self, changes: &Receiver<()>) {
        while let Ok(()) = changes.recv() {
            if !quiet(changes) {
                return;
            }
            let is_folder = self.has_folder_changed.swap(false, Ordering::AcqRel);
            let words = self.workshop.knowledge.vocabularies();
            // Most changes of records leave their types and namespaces as they were.
            if (is_folder || words != self.served) && self.rebuild(&words) {
                self.served = words;
            }
        }
    }

    /// Returns whether new sessions have the tools that are to be had now.
    fn rebuild(&self, words: &Vocabularies) -> bool {
        let toolbox = match self.is_watching {
            true => self.workshop.open_with(words),
            false => {
                let served = self.host.toolbox.load();
                self.workshop.reworded(&served, &self.served, words)
            }
        };
        match toolbox {
            Ok(toolbox) => {
                let version = toolbox.version.clone();
                let served = self.host.toolbox.load();
                if served.serves_as(&toolbox) {
                    return true;
                }
                toolbox.prepare_handlers();
                self.host.toolbox.store(Arc::new(toolbox));
                if served.version == version {
                    tracing::info!("new sessions have new prompts");
                } else {
                    tracing::info!(%version, "new sessions have new tools");
                    self.host.report_older_than(&version);
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

/// Waits after a change until changes stop, but not for ever; false where no sender is left.
fn quiet(changes: &Receiver<()>) -> bool {
    let end = Instant::now() + UNQUIET_MAX;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match changes.recv_timeout(left.min(QUIET)) {
            Ok(()) if left.is_zero() => return true,
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer without pauses. Waiting for a pause would never end.
    #[test]
    fn a_folder_that_never_is_quiet_is_read_all_the_same() {
        let Changes { bell, receiver } = Changes::new();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    bell.ring();
                    std::thread::sleep(QUIET / 30);
                }
            });
            assert!(quiet(&receiver));
            is_over.store(true, Ordering::Release);
        });
        drop(bell);
        receiver.try_iter().for_each(drop);
        assert!(!quiet(&receiver));
    }

    #[test]
    fn changes_that_nobody_has_looked_at_wait_as_one() {
        let changes = Changes::new();
        let knowledge = changes.of_knowledge();
        for _ in 0..1_000 {
            knowledge.tell();
        }
        assert_eq!(changes.receiver.try_iter().count(), 1);
        knowledge.tell();
        assert_eq!(changes.receiver.try_iter().count(), 1);
        drop(changes);
        knowledge.tell();
    }
}
