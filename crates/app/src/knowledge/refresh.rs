//! Keeps the base current: embeds what has no vector yet, and takes up changes of the folder. Runs on a thread of its own,
//! so that no session waits for an index.

use super::{LiveKnowledge, Maker, log_report};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep, timeout_at};
use windlass_knowledge::{Embedding, IngestReport, OpenError};

/// Editors write a file in several steps; reading waits until they have been quiet for this long.
const QUIET: Duration = Duration::from_millis(300);
/// Somebody who never is quiet is not waited for longer than this.
const UNQUIET_MAX: Duration = Duration::from_millis(700);
/// Between two attempts at a folder that cannot be read, or a service that does not answer.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
#[error(
    "the knowledge base folder {folder} cannot be watched: {cause}; set knowledge.watch to false to go without"
)]
pub(crate) struct WatchError {
    folder: String,
    cause: notify::Error,
}

/// Keeps a base current until it is dropped.
pub(crate) enum Refresher {
    Folder {
        /// Its callback holds a sender: without it the thread's loop ends.
        _watcher: Option<RecommendedWatcher>,
        /// The same where nothing is watched.
        _sender: UnboundedSender<()>,
    },
    #[cfg(feature = "postgres")]
    Database { _polling: super::database::Polling },
}

impl Refresher {
    /// Needs to be called inside the asynchronous runtime. `report` is that of the base that is searched now.
    pub(crate) fn start(
        maker: Maker,
        live: Arc<LiveKnowledge>,
        report: &IngestReport,
        is_watching: bool,
    ) -> Result<Self, WatchError> {
        let (sender, changes) = unbounded_channel();
        let refuse = |cause| WatchError {
            folder: maker.folder.display().to_string(),
            cause,
        };
        let watcher = match is_watching {
            true => Some(watch(&maker, sender.clone()).map_err(refuse)?),
            false => None,
        };
        let (handle, is_incomplete) = (Handle::current(), report.missing > 0);
        let keeper = Keeper {
            maker: maker.clone(),
            live,
        };
        std::thread::Builder::new()
            .name("knowledge".to_owned())
            .spawn(move || handle.block_on(keeper.run(changes, is_incomplete)))
            .map_err(|error| refuse(notify::Error::io(error)))?;
        Ok(Self::Folder {
            _watcher: watcher,
            _sender: sender,
        })
    }
}

fn watch(maker: &Maker, sender: UnboundedSender<()>) -> notify::Result<RecommendedWatcher> {
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
    })?;
    watcher.watch(&maker.folder, RecursiveMode::Recursive)?;
    Ok(watcher)
}

struct Keeper {
    maker: Maker,
    live: Arc<LiveKnowledge>,
}

/// What the keeper has to do next.
enum Next {
    /// Everything is done until something changes.
    Wait,
    /// Vectors are missing.
    Embed,
    /// It did not work; try again after a while.
    Retry,
    /// The server has ended.
    End,
}

impl Keeper {
    async fn run(self, mut changes: UnboundedReceiver<()>, is_incomplete: bool) {
        let mut next = match is_incomplete {
            true => Next::Embed,
            false => Next::Wait,
        };
        loop {
            next = match next {
                Next::Wait => match changes.recv().await {
                    Some(()) => self.after_quiet(&mut changes).await,
                    None => Next::End,
                },
                Next::Embed => tokio::select! {
                    biased;
                    change = changes.recv() => match change {
                        // What is embedded by now is kept, so that nothing is lost by beginning again.
                        Some(()) => self.after_quiet(&mut changes).await,
                        None => Next::End,
                    },
                    next = self.embed() => next,
                },
                Next::Retry => tokio::select! {
                    change = changes.recv() => match change {
                        Some(()) => self.after_quiet(&mut changes).await,
                        None => Next::End,
                    },
                    () = sleep(PAUSE) => self.read().await,
                },
                Next::End => return,
            };
        }
    }

    async fn after_quiet(&self, changes: &mut UnboundedReceiver<()>) -> Next {
        let end = Instant::now() + UNQUIET_MAX;
        loop {
            match timeout_at(end.min(Instant::now() + QUIET), changes.recv()).await {
                Ok(Some(())) if Instant::now() < end => {}
                Ok(None) => return Next::End,
                Ok(Some(())) | Err(_) => return self.read().await,
            }
        }
    }

    /// Reads the folder and serves what it finds at once, with the vectors that are at hand.
    async fn read(&self) -> Next {
        match self.maker.make(Embedding::AtHand, &mut |_| ()).await {
            Ok((base, report)) => {
                log_report(&self.maker, &base, &report);
                self.live.replace(base);
                match report.missing {
                    0 => Next::Wait,
                    _ => Next::Embed,
                }
            }
            Err(error) => failed(&error),
        }
    }

    async fn embed(&self) -> Next {
        match self.maker.make(Embedding::All, &mut |_| ()).await {
            Ok((base, report)) => {
                let (passages, embedded) = (report.passages, report.embedded);
                tracing::info!(passages, embedded, "the knowledge base finds by meaning");
                self.live.replace(base);
                Next::Wait
            }
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &OpenError) -> Next {
    tracing::error!(%error, "the knowledge base stays as it was");
    Next::Retry
}
