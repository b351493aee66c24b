//! Folds the write-ahead log into the database on a thread of its own, so that commits do not wait for it:
//! <https://sqlite.org/wal.html#ckpt>. Knows no table.

use super::connect;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Pages of the log, 4 MiB, past which the thread folds it. Short logs keep each folding short, and with it the time for which
/// the thread's flushes hold up those of commits.
const FOLDED_PAGES: i32 = 1_000;

/// Pages of the log, 32 MiB, past which a commit folds it itself, because the thread cannot.
const LOG_PAGES_MAX: i32 = 8_000;

/// Of the connection that writes.
pub(super) struct Folding {
    path: PathBuf,
    /// In the log after the newest commit.
    pages: Arc<AtomicI32>,
    /// Started by the first log that has grown long. Most processes end without one.
    thread: Option<FoldingThread>,
}

struct FoldingThread {
    /// Dropped to end the thread.
    wake: Option<SyncSender<()>>,
    /// The thread has folded what there was when it began.
    has_folded: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Folding {
    pub(super) fn of(writer: &mut Connection, path: PathBuf) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicI32::new(0));
        let counted = pages.clone();
        // It takes the place of SQLite's own folding by whatever commit makes the log too long.
        writer.wal_hook(Some(move |_: &mut _, pages| {
            counted.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self {
            path,
            pages,
            thread: None,
        })
    }

    pub(super) fn after_commit(&mut self, writer: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < FOLDED_PAGES {
            return;
        }
        let thread = self
            .thread
            .get_or_insert_with(|| FoldingThread::start(&self.path));
        // What was committed meanwhile is little. Once all is folded, the next commit begins the log anew.
        if thread.has_folded.swap(false, Ordering::Acquire) || pages >= LOG_PAGES_MAX {
            fold(writer);
        } else if let Some(wake) = &thread.wake {
            // A busy thread does not take it. A later commit wakes the thread again.
            let _ = wake.try_send(());
        }
    }
}

impl FoldingThread {
    fn start(path: &Path) -> Self {
        let (wake, woken) = sync_channel(0);
        let has_folded = Arc::new(AtomicBool::new(false));
        let (path, folded) = (path.to_owned(), has_folded.clone());
        let work = move || {
            // Without a connection or a thread the commits do it, later.
            let Ok(connection) = connect(&path) else {
                return;
            };
            while woken.recv().is_ok() {
                fold(&connection);
                folded.store(true, Ordering::Release);
            }
        };
        let named = std::thread::Builder::new().name("store log".to_owned());
        Self {
            wake: Some(wake),
            has_folded,
            handle: named.spawn(work).ok(),
        }
    }
}

impl Drop for FoldingThread {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

/// Moves as much of the log as nobody reads any more. A failure loses nothing, and is tried again with the next commit.
fn fold(connection: &Connection) {
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}
