//! Keeps the base current: embeds passages without a vector, and takes up changes of the folder. Runs on a thread of its own, so that
//! no session waits for an index.

use super::{LiveKnowledge, Maker, log_report};
use crate::failure::Failure;
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout_at};
use windlass_knowledge::{Embedding, IngestReport, KnowledgeBase};

/// Editors write a file in several steps; reading waits until they have been quiet for this long.
const QUIET: Duration = Duration::from_millis(300);
/// The longest wait for a pause in changes that do not stop.
const UNQUIET_MAX: Duration = Duration::from_millis(700);
/// Between two attempts at a folder that cannot be read, or a service that does not answer.
const PAUSE: Duration = Duration::from_secs(5);
/// Links that are followed to the folder: as many as the system itself follows.
const LINKS_MAX: usize = 40;

#[derive(Debug, thiserror::Error)]
#[error(
    "the knowledge base folder {folder} cannot be watched: {cause}; set knowledge.watch to false to go without"
)]
pub(crate) struct WatchError {
    folder: String,
    cause: notify::Error,
}

/// Announces that another base is served now; does nothing without a listener. However often it is called, one note waits.
#[derive(Clone, Debug)]
pub(crate) struct KnowledgeChanges(SyncSender<()>);

impl KnowledgeChanges {
    pub(crate) fn told_to(sender: SyncSender<()>) -> Self {
        Self(sender)
    }

    pub(crate) fn tell(&self) {
        // A waiting note covers this change, too; without a receiver the server is gone.
        let _ = self.0.try_send(());
    }

    /// The changes of a base that is not served.
    pub(crate) fn unheard() -> Self {
        Self(sync_channel(1).0)
    }
}

/// Keeps a base current until it is dropped.
pub(crate) enum Refresher {
    Folder {
        /// Its callback holds a sender: without it the thread's loop ends.
        _watch: Option<Arc<FolderWatch>>,
        /// Keeps the thread's loop going where no folder is watched.
        _sender: Sender<()>,
    },
    #[cfg(feature = "postgres")]
    Database { _polling: super::database::Polling },
}

impl Refresher {
    /// Needs to be called inside the asynchronous runtime. `report` is that of the base in use.
    pub(crate) fn start(
        maker: Maker,
        live: Arc<LiveKnowledge>,
        report: &IngestReport,
        is_watching: bool,
        changed: KnowledgeChanges,
    ) -> Result<Self, WatchError> {
        // One waiting note covers all changes that were not read yet.
        let (sender, changes) = channel(1);
        let refuse = |cause| WatchError {
            folder: maker.folder.display().to_string(),
            cause,
        };
        let watch = match is_watching {
            true => {
                let watch = FolderWatch::start(&maker.folder, sender.clone());
                Some(Arc::new(watch.map_err(refuse)?))
            }
            false => None,
        };
        let (handle, is_incomplete) = (Handle::current(), is_incomplete(report));
        let keeper = Keeper {
            maker: maker.clone(),
            live,
            watch: watch.as_ref().map(Arc::downgrade).unwrap_or_default(),
            is_empty_said: Cell::new(false),
            changed,
        };
        beside(handle, move || keeper.run(changes, is_incomplete))
            .map_err(|error| refuse(notify::Error::io(error)))?;
        Ok(Self::Folder {
            _watch: watch,
            _sender: sender,
        })
    }
}

/// Does work on a thread of its own that uses a runtime's timers, and no longer than the runtime lasts: they panic afterwards.
fn beside<F: Future<Output = ()>>(
    runtime: Handle,
    work: impl FnOnce() -> F + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (mut lasting, ended) = oneshot::channel::<()>();
    // This task goes with the runtime, before the timers do, and else when the work is over.
    runtime.spawn(async move { lasting.closed().await });
    let work = async move || {
        tokio::select! {
            biased;
            _ = ended => {}
            () = work() => {}
        }
    };
    std::thread::Builder::new()
        .name("knowledge".to_owned())
        .spawn(move || runtime.block_on(work()))
}

/// A folder that is watched, and watched again when it was away or a link on the way to it leads elsewhere.
pub(crate) struct FolderWatch {
    place: Arc<WatchedFolder>,
    watched: Mutex<Watched>,
}

/// The place of a folder, as its watcher saw it last.
struct WatchedFolder {
    folder: PathBuf,
    /// The folder that the links on the way lead to; `None` where they lead nowhere.
    real: Mutex<Option<PathBuf>>,
    /// Whether the watched folder is gone: a folder of the same name would be another one.
    is_gone: AtomicBool,
}

struct Watched {
    watcher: RecommendedWatcher,
    /// The folders that hold the links on the way.
    holders: Vec<PathBuf>,
}

impl FolderWatch {
    fn start(folder: &Path, sender: Sender<()>) -> notify::Result<Self> {
        let folder = std::path::absolute(folder).map_err(notify::Error::io)?;
        let place = Arc::new(WatchedFolder {
            real: Mutex::new(folder.canonicalize().ok()),
            folder,
            is_gone: AtomicBool::new(false),
        });
        let of_events = place.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let is_access =
                matches!(&event, Ok(event) if matches!(event.kind, EventKind::Access(_)));
            if !is_access && of_events.is_concerned(&event) {
                // A full channel has a waiting note already; without a receiver the server is gone, and the watch ends soon.
                let _ = sender.try_send(());
            }
        })?;
        let mut watched = Watched {
            watcher,
            holders: Vec::new(),
        };
        watched.watch(&place.folder)?;
        Ok(Self {
            place,
            watched: Mutex::new(watched),
        })
    }

    /// Watches the folder that is there now, where the one before is gone.
    fn renew(&self) {
        if self.place.is_gone.swap(false, Ordering::AcqRel) {
            // Looked at first, so that whatever changes meanwhile is an event.
            self.place.look_again();
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if watched.watch(&self.place.folder).is_err() {
                self.place.is_gone.store(true, Ordering::Release);
            }
        }
    }
}

impl WatchedFolder {
    /// Whether something happened to the folder or in it, and not only beside a link on the way.
    fn is_concerned(&self, event: &notify::Result<Event>) -> bool {
        let (kind, paths) = match event {
            Ok(event) => (event.kind, event.paths.as_slice()),
            Err(_) => (EventKind::Other, &[][..]),
        };
        let known = self.known();
        let leads_elsewhere = self.folder.canonicalize().ok() != *known;
        let may_end_it = matches!(
            kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        );
        if leads_elsewhere || may_end_it && paths.contains(&self.folder) {
            self.is_gone.store(true, Ordering::Release);
        }
        let is_within = |path: &PathBuf| {
            let real = known.as_ref();
            path.starts_with(&self.folder) || real.is_some_and(|real| path.starts_with(real))
        };
        leads_elsewhere || paths.is_empty() || paths.iter().any(is_within)
    }

    fn look_again(&self) {
        *self.known() = self.folder.canonicalize().ok();
    }

    fn known(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.real.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    /// Watches a folder instead of an earlier one at this place. Also watches the folders that hold links to it, without their
    /// contents: only a change of such a link matters there.
    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        // A watch on a removed folder may be dead, so it is set anew.
        let _ = self.watcher.unwatch(folder);
        for holder in std::mem::take(&mut self.holders) {
            let _ = self.watcher.unwatch(&holder);
        }
        for holder in holders_of_links(folder) {
            match self.watcher.watch(&holder, RecursiveMode::NonRecursive) {
                Ok(()) => self.holders.push(holder),
                // Everything else can be watched without it.
                Err(error) => tracing::warn!(
                    folder = %holder.display(),
                    %error,
                    "a link there to the knowledge base is not watched"
                ),
            }
        }
        self.watcher.watch(folder, RecursiveMode::Recursive)
    }
}

/// The folders that hold the symbolic links on the way to a folder, including links behind links.
fn holders_of_links(folder: &Path) -> Vec<PathBuf> {
    let mut holders = Vec::new();
    let mut ways = vec![folder.to_owned()];
    for _ in 0..LINKS_MAX {
        let Some(way) = ways.pop() else { break };
        for link in way.ancestors() {
            if let (Ok(target), Some(holder)) = (link.read_link(), link.parent()) {
                ways.push(holder.join(target));
                if !holders.iter().any(|known| known == holder) {
                    holders.push(holder.to_owned());
                }
            }
        }
    }
    holders
}

struct Keeper {
    maker: Maker,
    live: Arc<LiveKnowledge>,
    /// The watch ends with the server, not with this thread.
    watch: Weak<FolderWatch>,
    /// Whether the log has it that the folder is empty.
    is_empty_said: Cell<bool>,
    /// Hears of every base that is served.
    changed: KnowledgeChanges,
}

/// Whether vectors are missing, or passages were cut that the next start should not have to cut again.
fn is_incomplete(report: &IngestReport) -> bool {
    report.missing > 0 || report.cut > 0
}

/// The keeper's next step.
enum Next {
    /// Everything is done until something changes.
    Wait,
    /// Vectors are missing, or the data about passages has to be written.
    Embed,
    /// It did not work; try again after a while.
    Retry,
    /// The server has ended.
    End,
}

impl Keeper {
    async fn run(self, mut changes: Receiver<()>, is_incomplete: bool) {
        let mut next = match is_incomplete {
            true => Next::Embed,
            false => Next::Wait,
        };
        loop {
            // Reading takes its time. Whether the runtime is still there is looked at before its timers are used again.
            yield_now().await;
            next = match next {
                Next::Wait => match changes.recv().await {
                    Some(()) => self.after_quiet(&mut changes).await,
                    None => Next::End,
                },
                Next::Embed => tokio::select! {
                    biased;
                    change = changes.recv() => match change {
                        // Finished vectors are kept, so a new beginning loses nothing.
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

    async fn after_quiet(&self, changes: &mut Receiver<()>) -> Next {
        match quiet(changes).await {
            true => self.read().await,
            false => Next::End,
        }
    }

    /// Reads the folder and serves its records at once, with the vectors that are at hand.
    async fn read(&self) -> Next {
        if let Some(watch) = self.watch.upgrade() {
            watch.renew();
        }
        match self.maker.make(Embedding::AtHand, &mut |_| ()).await {
            Ok((base, report)) if self.is_away(&base, &report) => Next::Retry,
            Ok((base, report)) => {
                self.live.replace(base.clone());
                self.changed.tell();
                // The log reports a base that is served already.
                log_report(&self.maker, &base, &report);
                match is_incomplete(&report) {
                    false => Next::Wait,
                    true => Next::Embed,
                }
            }
            Err(failure) => self.failed(&failure),
        }
    }

    /// A folder without a single file is one whose files are elsewhere for a moment: a disk that is not mounted, a copy
    /// that has just begun. To serve no records, start the server anew.
    fn is_away(&self, base: &KnowledgeBase, report: &IngestReport) -> bool {
        let is_away = base.is_empty() && report.files.is_empty() && !self.live.is_empty();
        if is_away && !self.is_empty_said.get() {
            tracing::warn!(
                folder = %self.maker.folder.display(),
                "the folder holds no records: the knowledge base stays as it was"
            );
        }
        self.is_empty_said.set(is_away);
        is_away
    }

    fn failed(&self, failure: &Failure) -> Next {
        if let Some(watch) = self.watch.upgrade() {
            watch.place.is_gone.store(true, Ordering::Release);
        }
        let error = failure.line();
        tracing::error!(error, "the knowledge base stays as it was");
        Next::Retry
    }

    async fn embed(&self) -> Next {
        match self.maker.make(Embedding::All, &mut |_| ()).await {
            Ok((base, report)) if self.is_away(&base, &report) => Next::Retry,
            Ok((base, report)) => {
                let (passages, embedded) = (report.passages, report.embedded);
                self.live.replace(base);
                self.changed.tell();
                tracing::info!(passages, embedded, "the knowledge base finds by meaning");
                Next::Wait
            }
            Err(failure) => self.failed(&failure),
        }
    }
}

/// Waits after a change until changes stop, but not for ever; false where no sender is left.
async fn quiet(changes: &mut Receiver<()>) -> bool {
    let end = Instant::now() + UNQUIET_MAX;
    loop {
        match timeout_at(end.min(Instant::now() + QUIET), changes.recv()).await {
            Ok(Some(())) if Instant::now() < end => {}
            Ok(None) => return false,
            Ok(Some(())) | Err(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{beside, quiet};
    use std::future::poll_fn;
    use std::pin::pin;
    use std::time::Duration;
    use tokio::runtime::Runtime;
    use tokio::sync::mpsc::channel;
    use tokio::time::{Instant, sleep};

    #[test]
    fn work_ends_with_the_runtime_that_it_uses() {
        let runtime = Runtime::new().unwrap();
        let (sender, mut changes) = channel(1);
        let (begin, begun) = std::sync::mpsc::channel();
        let thread = beside(runtime.handle().clone(), async move || {
            let mut change = pin!(changes.recv());
            // The test goes on once the work waits, so that no work runs in the midst of the runtime's end.
            poll_fn(|context| {
                let changed = change.as_mut().poll(context);
                let _ = begin.send(());
                changed
            })
            .await;
            sleep(Duration::from_millis(1)).await;
        });
        begun.recv().unwrap();
        drop(runtime);
        // If the work is over already, the note has no receiver.
        let _ = sender.try_send(());
        assert!(thread.unwrap().join().is_ok());
    }

    #[test]
    fn work_that_is_over_ends_its_thread() {
        let runtime = Runtime::new().unwrap();
        let thread = beside(runtime.handle().clone(), async || {});
        assert!(thread.unwrap().join().is_ok());
    }

    /// An edit shows within a second: the pause takes a part, and the reading has the rest. Time is virtual.
    #[tokio::test(start_paused = true)]
    async fn an_edit_is_read_after_three_tenths_of_a_second_and_many_after_seven() {
        let millis = Duration::from_millis;
        // How far apart they are, how many there are, and when they are read.
        for (between, edits, read) in [(0, 1, 300), (100, 3, 500), (299, 2, 599), (50, 1_000, 700)]
        {
            let (sender, mut changes) = channel(1);
            let begun = Instant::now();
            let editor = tokio::spawn(async move {
                for _ in 1..edits {
                    sleep(millis(between)).await;
                    sender.try_send(()).unwrap_or_default();
                }
                // The watcher goes on listening.
                sleep(millis(60_000)).await;
                drop(sender);
            });
            assert!(quiet(&mut changes).await);
            assert_eq!(
                begun.elapsed(),
                millis(read),
                "{edits} edits every {between} ms"
            );
            editor.abort();
        }
        let (sender, mut changes) = channel::<()>(1);
        drop(sender);
        assert!(!quiet(&mut changes).await);
    }
}
