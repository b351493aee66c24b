//! A store in a server's folder that another process holds, so that the server cannot write. Knows no rule that is tested.

use std::path::Path;
use std::sync::mpsc;
use std::thread::{JoinHandle, spawn};
use windlass_store::{SqliteStore, Store, Transaction};

/// Nobody else writes for as long as this is held.
pub(crate) struct HeldStore {
    let_go: mpsc::Sender<()>,
    holder: JoinHandle<()>,
}

impl HeldStore {
    /// Takes the store as another process does: by a transaction that takes its time.
    pub(crate) fn take(folder: &Path) -> Self {
        let store = SqliteStore::open(&folder.join("data")).unwrap();
        let (begun, has_begun) = mpsc::channel();
        let (let_go, is_let_go) = mpsc::channel();
        let holder = spawn(move || {
            let mut hold = |_: &mut dyn Transaction| {
                begun.send(()).unwrap();
                // A test that fails lets go, too.
                let _ = is_let_go.recv();
            };
            // The server may be writing itself just now.
            while store.transact(&mut hold).is_err() {}
        });
        has_begun.recv().unwrap();
        Self { let_go, holder }
    }

    pub(crate) fn let_go(self) {
        self.let_go.send(()).unwrap();
        self.holder.join().unwrap();
    }
}
