//! Watches the tools folder in development and builds the tools again when something in it changes. Sessions that run keep
//! the tools that they have.

use crate::toolbox::{ToolboxError, Workshop};
use crate::voice_host::VoiceHost;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use windlass_tool::problem::Severity;

/// Editors write a file in several steps; building waits until they have been quiet for this long.
const QUIET: Duration = Duration::from_millis(300);

#[derive(Debug, thiserror::Error)]
#[error("the tools folder {folder} cannot be watched: {cause}; start without --watch")]
pub(crate) struct WatchError {
    folder: String,
    cause: notify::Error,
}

/// Watches until it is dropped.
pub(crate) struct Watch {
    _watcher: RecommendedWatcher,
}

pub(crate) fn start(workshop: Arc<Workshop>, host: Arc<VoiceHost>) -> Result<Watch, WatchError> {
    let folder = workshop.config.folders.tools.clone();
    let refuse = |cause| WatchError {
        folder: folder.display().to_string(),
        cause,
    };
    let (sender, changes) = channel();
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
            let _ = sender.send(());
        }
    })
    .map_err(refuse)?;
    watcher
        .watch(&folder, RecursiveMode::Recursive)
        .map_err(refuse)?;
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(move || rebuild_on(&changes, &workshop, &host))
        .map_err(|error| refuse(notify::Error::io(error)))?;
    tracing::info!(folder = %folder.display(), "tools are built again when they change");
    Ok(Watch { _watcher: watcher })
}

fn rebuild_on(changes: &Receiver<()>, workshop: &Workshop, host: &VoiceHost) {
    while changes.recv().is_ok() {
        loop {
            match changes.recv_timeout(QUIET) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        rebuild(workshop, host);
    }
}

fn rebuild(workshop: &Workshop, host: &VoiceHost) {
    match workshop.open() {
        Ok(toolbox) => {
            let version = toolbox.version.clone();
            if host.toolbox.load().version == version {
                return;
            }
            host.toolbox.store(Arc::new(toolbox));
            tracing::info!(%version, "new sessions have new tools");
            host.conversations.report_older_than(&version);
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
        }
    }
}
