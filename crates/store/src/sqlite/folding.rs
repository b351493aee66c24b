//! Folds the write-ahead log into the database on a thread of its own, so that commits do not wait for it:
//! <https://sqlite.org/wal.html#ckpt>. Knows no table.

use super::connect;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Pages of the log, 200 KiB, that the thread folds at a time. A larger piece holds up the flushes of commits for longer: with 1,000
/// pages, the 99th of a hundred requests took two to three times as long (`windlass-benches store`).
const FOLDED_PAGES: i32 = 50;

/// Pages of the log, 16 MiB, past which a commit folds the rest that the thread has left, so that the next one begins the log anew. That
/// commit waits for it. At 16 MiB such waits are rare.
const RESTARTED_PAGES: i32 = 4_000;

/// Pages of the log, 32 MiB, past which a commit folds the log itself, because the thread cannot.
const LOG_PAGES_MAX: i32 = 8_000;

/// The folding for the connection that writes.
pub(super) struct Folding {
    path: PathBuf,
    /// Pages in the log after the newest commit.
    pages: Arc<AtomicI32>,
    /// Pages in the log when the thread was last woken.
    woken_at: i32,
    /// Started by the first commits. A process that changes little ends without one.
    thread: Option<FoldingThread>,
}

struct FoldingThread {
    /// Dropped to end the thread.
    wake: Option<SyncSender<()>>,
    /// The thread has folded the pages that it found.
    has_folded: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Folding {
    pub(super) fn of(writer: &mut Connection, path: PathBuf) -> rusqlite::Result<Self> {
        let pages = Arc::new(AtomicI32::new(0));
        let counted = pages.clone();
        // This replaces SQLite's own folding, by whichever commit makes the log too long.
        writer.wal_hook(Some(move |_: &mut _, pages| {
            counted.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Self {
            path,
            pages,
            woken_at: 0,
            thread: None,
        })
    }

    pub(super) fn after_commit(&mut self, writer: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.woken_at {
            // The log has begun anew.
            self.woken_at = 0;
        }
        if pages < self.woken_at + FOLDED_PAGES {
            return;
        }
        let thread = self
            .thread
            .get_or_insert_with(|| FoldingThread::start(&self.path));
        let is_ready_to_restart =
            pages >= RESTARTED_PAGES && thread.has_folded.swap(false, Ordering::Acquire);
        if is_ready_to_restart || pages >= LOG_PAGES_MAX {
            // Few pages were committed since the thread's last folding.
            fold(writer);
        } else if let Some(wake) = &thread.wake {
            // A busy thread does not take the message. A later commit wakes the thread again.
            if wake.try_send(()).is_ok() {
                self.woken_at = pages;
            }
        }
    }
}

impl FoldingThread {
    fn start(path: &Path) -> Self {
        let (wake, woken) = sync_channel(0);
        let has_folded = Arc::new(AtomicBool::new(false));
        let (path, folded) = (path.to_owned(), has_folded.clone());
        let work = move || {
            // Without a connection or a thread, commits fold the log, later.
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

/// Folds the part of the log that no connection reads any more. A failure loses nothing, and is tried again with the next commit.
fn fold(connection: &Connection) {
    let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}
